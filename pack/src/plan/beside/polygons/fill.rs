//! The pixels of polygons, by scan lines.

use super::mask_class::BEYOND;

/// The class of pixels in no polygon.
const OUTSIDE: u8 = 0;

/// The polygons of an image, in its pixels.
#[derive(Debug)]
pub(crate) struct PlacedPolygons {
    pub(super) all: Vec<PlacedPolygon>,
    /// Columns and rows of the image.
    pub(super) whole: (u32, u32),
}

#[derive(Debug)]
pub(super) struct PlacedPolygon {
    class: u8,
    /// From the end with the lower row to the other, sorted by that row.
    edges: Vec<[[f64; 2]; 2]>,
    /// The least and the largest column and row.
    least: [f64; 2],
    most: [f64; 2],
}

impl PlacedPolygon {
    pub(super) fn new(class: u8, rings: &[Vec<[f64; 2]>]) -> Self {
        let down =
            |[from, to]: [[f64; 2]; 2]| if from[1] < to[1] { [from, to] } else { [to, from] };
        let mut edges: Vec<_> = rings.iter().flat_map(|ring| edges(ring)).map(down).collect();
        edges.sort_by(|a, b| a[0][1].total_cmp(&b[0][1]));
        let points = || rings.iter().flatten();
        let of = |axis: usize, start: f64, pick: fn(f64, f64) -> f64| {
            points().map(|at| at[axis]).fold(start, pick)
        };
        let least = [0, 1].map(|axis| of(axis, f64::MAX, f64::min));
        let most = [0, 1].map(|axis| of(axis, f64::MIN, f64::max));
        Self { class, edges, least, most }
    }

    /// Whether it may have a part of an image, and is at least so many pixels wide and high.
    pub(super) fn is_on(&self, (width, height): (u32, u32), at_least: f64) -> bool {
        let within = |axis: usize, side: u32| {
            let (least, most) = (self.least[axis], self.most[axis]);
            most > 0.0 && least < f64::from(side) && most - least >= at_least
        };
        within(0, width) && within(1, height)
    }

    /// Writes its class to the pixels of `mask`, which has lines of `width` from `corner` on.
    fn fill(&self, mask: &mut [u8], width: usize, (left, top): (u32, u32)) {
        let (left, top) = (f64::from(left), f64::from(top));
        if self.most[0] <= left || self.least[0] >= left + width as f64 {
            return;
        }
        // Truncated to what there is: `as` keeps to the range of its type.
        let first = (self.least[1] - top).floor().max(0.0) as usize;
        let last = (self.most[1] - top).ceil().max(0.0) as usize;
        let (mut next, mut active): (usize, Vec<&[[f64; 2]; 2]>) = (0, Vec::new());
        let mut crossings = Vec::new();
        for (row, line) in mask.chunks_exact_mut(width.max(1)).enumerate().take(last).skip(first) {
            let y = top + row as f64 + 0.5;
            while let Some(edge) = self.edges.get(next).filter(|edge| edge[0][1] <= y) {
                active.push(edge);
                next += 1;
            }
            // An edge has its lower end, so that two that meet are crossed once.
            active.retain(|[_, to]| y < to[1]);
            let crossing =
                |[[x1, y1], [x2, y2]]: &[[f64; 2]; 2]| (y - y1) * (x2 - x1) / (y2 - y1) + x1 - left;
            crossings.clear();
            crossings.extend(active.iter().map(|edge| crossing(edge)));
            crossings.sort_by(f64::total_cmp);
            for pair in crossings.chunks_exact(2) {
                let [start, end] =
                    [pair[0], pair[1]].map(|x: f64| (x + 0.5).floor().max(0.0) as usize);
                let end = end.min(line.len());
                line.get_mut(start..end).unwrap_or_default().fill(self.class);
            }
        }
    }
}

impl PlacedPolygons {
    /// The classes of the pixels of `size` = (columns, rows) from `corner` on; those beyond the image
    /// have none.
    pub(crate) fn mask(&self, corner: (u32, u32), size: (u32, u32)) -> Vec<u8> {
        let (width, height) = (size.0 as usize, size.1 as usize);
        let mut mask = vec![OUTSIDE; width * height];
        self.all.iter().for_each(|polygon| polygon.fill(&mut mask, width, corner));
        let seen = |whole: u32, start: u32| whole.saturating_sub(start) as usize;
        let (columns, rows) = (seen(self.whole.0, corner.0), seen(self.whole.1, corner.1));
        for (row, line) in mask.chunks_exact_mut(width.max(1)).enumerate() {
            let from = if row < rows { columns } else { 0 };
            line.get_mut(from..).unwrap_or_default().fill(BEYOND);
        }
        mask
    }
}

/// The edges of a ring, closed whether its last point is its first or not.
fn edges(ring: &[[f64; 2]]) -> impl Iterator<Item = [[f64; 2]; 2]> + '_ {
    let next = ring.iter().cycle().skip(1);
    ring.iter().zip(next).map(|(from, to)| [*from, *to])
}
