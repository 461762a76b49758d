//! Where pixels are on the Earth, and whether two files agree on it.
//!
//! ```text
//! pixel (column, row) of the image ─ its transform ─▶ place ─ inverse of the file's ─▶ pixel of the file
//! ```

use std::collections::BTreeMap;

use gular_codec::tiff::Geo;

use crate::facts::Doubt;

/// Differences up to half a pixel do not count: whether a corner or the middle of a pixel is meant
/// is often unclear. The rest is for rounding.
const MOST_PIXELS: f64 = 0.5 + 1e-6;
/// Different systems or sizes of pixels of one set that are counted apart.
const MOST_KINDS: usize = 64;
/// Most of them that a warning names.
const MOST_NAMED: usize = 5;
/// Longer texts of a system are named by the name in them.
const LONG_TEXT: usize = 40;

/// A coordinate reference system, and a transform from pixels to it; or the place of a volume.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Grid {
    crs: Option<String>,
    transform: Option<[f64; 6]>,
    affine: Option<[f64; 12]>,
}

impl Grid {
    pub(crate) fn of(geo: &Geo) -> Self {
        let affine = geo.volume.as_ref().and_then(|volume| volume.affine);
        Self { crs: geo.crs.clone(), transform: geo.transform, affine }
    }

    /// The transform from columns and rows of this image to those of a file; `None` if one of them has
    /// no location.
    ///
    /// # Errors
    /// Why there is none between them, in words.
    pub(crate) fn to_file(&self, file: &Self) -> Result<Option<[f64; 6]>, String> {
        let Some((image, own)) = self.transform.zip(file.transform) else { return Ok(None) };
        if let (Some(a), Some(b)) = (self.crs.as_deref(), file.crs.as_deref())
            && essence(a) != essence(b)
        {
            let (a, b) = both_shown(a, b);
            return Err(format!("its CRS is {b}, but that of its image is {a}"));
        }
        let at = |x: f64, y: f64| {
            // Where the pixel of the image is among those of the file.
            let found = offset(&own, &image, (x, y));
            found.map(|(column, row)| (column + x, row + y))
        };
        let all = at(0.0, 0.0).zip(at(1.0, 0.0)).zip(at(0.0, 1.0));
        let ((origin, right), down) = all.ok_or("its transform has no size of pixels")?;
        let (x0, y0) = origin;
        Ok(Some([x0, right.0 - x0, down.0 - x0, y0, right.1 - y0, down.1 - y0]))
    }

    /// Returns the way from coordinates in `crs`, or in this grid's own system, to columns and rows;
    /// `None` if it has no location.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub(crate) fn pixels_of(
        &self,
        crs: Option<&str>,
    ) -> Result<Option<impl Fn([f64; 2]) -> [f64; 2]>, String> {
        if let Some((own, crs)) = self.crs.as_deref().zip(crs)
            && essence(own) != essence(crs)
        {
            let (own, crs) = both_shown(own, crs);
            return Err(format!("its coordinates are in {crs}, but its image is in {own}"));
        }
        let Some([x0, a, b, y0, d, e]) = self.transform else { return Ok(None) };
        let area = a * e - b * d;
        if area == 0.0 || !area.is_finite() {
            return Err("the transform of its image has no size of pixels".to_owned());
        }
        // The origin is taken off first: of coordinates in the millions, products lose digits.
        Ok(Some(move |[x, y]: [f64; 2]| {
            let (x, y) = (x - x0, y - y0);
            [(x * e - y * b) / area, (y * a - x * d) / area]
        }))
    }

    /// Says how a file differs from its image, which has this grid and `size` = (columns, rows);
    /// `None` if it does not, or if one of them has no location.
    pub(crate) fn difference(&self, file: &Self, size: (u32, u32)) -> Option<String> {
        if let Some((image, own)) = self.crs.as_deref().zip(file.crs.as_deref())
            && essence(image) != essence(own)
        {
            let (image, own) = both_shown(image, own);
            return Some(format!("its CRS is {own}, but that of its image is {image}"));
        }
        if let Some((image, own)) = self.affine.zip(file.affine) {
            return apart(&image, &own, size);
        }
        let (image, own) = self.transform.zip(file.transform)?;
        let unit = unit(self.crs.as_deref().or(file.crs.as_deref()));
        let (width, height) = (f64::from(size.0), f64::from(size.1));
        let corners = [(0.0, 0.0), (width, 0.0), (0.0, height), (width, height)];
        let corners = corners.into_iter().map(|at| offset(&image, &own, at));
        let corners = corners.collect::<Option<Vec<(f64, f64)>>>().unwrap_or_default();
        let Some(first) = corners.first().copied() else {
            let is_other = image != own;
            return is_other.then(|| "the transform of its image has no size of pixels".to_owned());
        };
        let spread = away(farthest(&corners, first), first);
        if spread > MOST_PIXELS {
            let (own_size, image_size) = (pixel_size(&own), pixel_size(&image));
            if like(own_size, image_size) {
                return Some(format!(
                    "its pixels are turned or mirrored against those of its image: opposite corners are {} pixels apart",
                    number(spread)
                ));
            }
            return Some(format!(
                "its pixels are {}, but those of its image are {}",
                sized(own_size, unit),
                sized(image_size, unit)
            ));
        }
        let (x, y) = farthest(&corners, (0.0, 0.0));
        if away((x, y), (0.0, 0.0)) <= MOST_PIXELS {
            return None;
        }
        let [_, a, b, _, d, e] = image;
        let distance = (a * x + b * y).hypot(d * x + e * y);
        let side = |n: f64, more: &str, less: &str| match n.abs() < 0.05 {
            true => None,
            false => Some(format!("{} {}", number(n.abs()), if n > 0.0 { more } else { less })),
        };
        let sides = [side(x, "to the right", "to the left"), side(y, "down", "up")];
        let sides: Vec<String> = sides.into_iter().flatten().collect();
        Some(format!(
            "it is shifted against its image by {} {unit}: by {} (in pixels)",
            number(distance),
            sides.join(" and ")
        ))
    }
}

/// Says how the voxels of a file are apart from those of its image, of `size` = (columns, rows), if
/// they are.
fn apart(image: &[f64; 12], file: &[f64; 12], size: (u32, u32)) -> Option<String> {
    let (width, height) = (f64::from(size.0), f64::from(size.1));
    // The number of slices is not asked for: a difference that is seen over so many counts.
    let depth = width.max(height);
    let ends = [[0.0; 3], [width, 0.0, 0.0], [0.0, height, 0.0], [0.0, 0.0, depth]];
    let far = ends.into_iter().filter_map(|at| voxels_off(image, file, at)).fold(0.0, f64::max);
    let text = || {
        let far = number(far);
        format!(
            "its voxels are up to {far} voxels away from those of its image, as their affines say"
        )
    };
    (far > MOST_PIXELS).then(text)
}

/// How many voxels of the image a voxel of the file is away from where it should be, along the axis
/// of the greatest distance; `None` if the image's voxels have no volume.
fn voxels_off(image: &[f64; 12], file: &[f64; 12], at: [f64; 3]) -> Option<f64> {
    let columns = |m: &[f64; 12]| {
        let [ax, bx, cx, ox, ay, by, cy, oy, az, bz, cz, oz] = *m;
        [[ax, ay, az], [bx, by, bz], [cx, cy, cz], [ox, oy, oz]]
    };
    let cross =
        |[a, b, c]: [f64; 3], [d, e, f]: [f64; 3]| [b * f - c * e, c * d - a * f, a * e - b * d];
    let dot = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let ([a, b, c, origin], [fa, fb, fc, from]) = (columns(image), columns(file));
    let place: [f64; 3] = std::array::from_fn(|i| {
        from[i] - origin[i] + fa[i] * at[0] + fb[i] * at[1] + fc[i] * at[2]
    });
    let volume = dot(a, cross(b, c));
    let found = [cross(b, c), cross(c, a), cross(a, b)].map(|side| dot(place, side) / volume);
    let off = found.into_iter().zip(at).map(|(found, at)| (found - at).abs());
    off.reduce(f64::max).filter(|off| off.is_finite())
}

/// How many columns and rows of the image a pixel of the file is away from where it should be;
/// `None` if the image's pixels have no area.
fn offset(image: &[f64; 6], file: &[f64; 6], at: (f64, f64)) -> Option<(f64, f64)> {
    let [x0, a, b, y0, d, e] = *image;
    let [fx, fa, fb, fy, fd, fe] = *file;
    let place = (fx + fa * at.0 + fb * at.1 - x0, fy + fd * at.0 + fe * at.1 - y0);
    let area = a * e - b * d;
    let column = (place.0 * e - place.1 * b) / area;
    let row = (place.1 * a - place.0 * d) / area;
    let found = (column - at.0, row - at.1);
    (found.0.is_finite() && found.1.is_finite()).then_some(found)
}

/// The number of columns or of rows, whichever is greater, between two places.
fn away((x, y): (f64, f64), from: (f64, f64)) -> f64 {
    (x - from.0).abs().max((y - from.1).abs())
}

/// That of `corners` which is farthest away from `from`; `from` if there is none.
fn farthest(corners: &[(f64, f64)], from: (f64, f64)) -> (f64, f64) {
    corners
        .iter()
        .copied()
        .fold(from, |far, corner| if away(corner, from) > away(far, from) { corner } else { far })
}

/// A system without its name and numbers in registers, where WKT says all of it: programs give the
/// same system different names.
fn essence(crs: &str) -> String {
    if !crs.starts_with("PROJCS[") && !crs.starts_with("GEOGCS[") {
        return crs.to_owned();
    }
    let (mut text, mut rest) = (String::new(), crs);
    while let Some((before, inner)) = rest.split_once("CS[\"") {
        text.push_str(before);
        text.push_str("CS[");
        // A quotation mark in a name is written twice.
        rest = inner.split_once("\",").map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let mut parts = text.split(",AUTHORITY[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(']').map_or("", |(_, after)| after))
}

/// The pixel of a file in which the middle of a pixel of the image is.
pub(crate) fn nearest(to_file: &[f64; 6], (column, row): (u32, u32)) -> (f64, f64) {
    let [x0, a, b, y0, d, e] = *to_file;
    let (x, y) = (f64::from(column) + 0.5, f64::from(row) + 0.5);
    // Middles that are on an edge but for rounding are in the pixel behind it.
    let floor = |n: f64| (n + 1e-6).floor();
    (floor(x0 + x * a + y * b), floor(y0 + x * d + y * e))
}

/// The width and the height of a pixel.
fn pixel_size(transform: &[f64; 6]) -> (f64, f64) {
    let [_, a, b, _, d, e] = *transform;
    (a.hypot(d), b.hypot(e))
}

fn like(a: (f64, f64), b: (f64, f64)) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-3 * a.abs().max(b.abs());
    near(a.0, b.0) && near(a.1, b.1)
}

fn sized(size: (f64, f64), unit: &str) -> String {
    format!("{} x {} {unit}", number(size.0), number(size.1))
}

/// The unit of coordinates, as far as it is known without a register of systems.
fn unit(crs: Option<&str>) -> &'static str {
    const UNITS: &str = "units of the CRS";
    let Some(crs) = crs else { return "units" };
    let code = crs.strip_prefix("EPSG:").and_then(|code| code.parse::<u32>().ok());
    match code {
        // UTM, the European grids, web Mercator and the polar grids.
        Some(
            32_601..=32_660
            | 32_701..=32_760
            | 25_828..=25_838
            | 3857
            | 3035
            | 3031
            | 3413
            | 3577
            | 5070,
        ) => "m",
        Some(4326 | 4258 | 4269 | 4267 | 4283 | 4674 | 7844 | 6318) => "degrees",
        Some(_) => UNITS,
        None if crs.starts_with("GEOGCS[") => "degrees",
        None if crs.contains("UNIT[\"metre\",1]]") || crs.contains("UNIT[\"Meter\",1.0]]") => "m",
        None => UNITS,
    }
}

/// A number with up to six digits that count.
fn number(n: f64) -> String {
    if n == 0.0 || !n.is_finite() {
        return n.to_string();
    }
    let digits = (5.0 - n.abs().log10().floor()).clamp(0.0, 15.0) as usize;
    let text = format!("{n:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Names two systems, so that they differ.
fn both_shown(a: &str, b: &str) -> (String, String) {
    let (short_a, short_b) = (shown(a), shown(b));
    match short_a == short_b {
        true => (format!("`{a}`"), format!("`{b}`")),
        false => (short_a, short_b),
    }
}

/// A system, or the name in its WKT.
fn shown(crs: &str) -> String {
    if crs.len() <= LONG_TEXT {
        return format!("`{crs}`");
    }
    let parts =
        crs.split_once("[\"").and_then(|(kind, rest)| Some((kind, rest.split_once('"')?.0)));
    match parts {
        Some((kind, name)) if !crs.starts_with("GeoKeys:") => format!("`{kind}[\"{name}\",…]`"),
        _ => format!("`{}…`", crs.chars().take(LONG_TEXT).collect::<String>()),
    }
}

/// The systems and the sizes of pixels of a set of files.
#[derive(Debug, Default)]
pub(crate) struct Grids {
    systems: Counts,
    sizes: Counts,
}

/// How many files have each of several properties.
#[derive(Debug, Default)]
struct Counts {
    kinds: BTreeMap<String, u64>,
    /// Files without it.
    without: u64,
    /// Files of further kinds.
    others: u64,
}

impl Grids {
    /// Counts one file.
    pub(crate) fn add(&mut self, geo: &Geo) {
        self.systems.add(geo.crs.clone());
        // Sizes that differ in the fourth digit are one: few files of one set have exactly the same.
        let round = |n: f64| {
            let digits = (2.0 - n.log10().floor()).clamp(0.0, 15.0) as usize;
            format!("{n:.digits$}").parse().unwrap_or(n)
        };
        self.sizes.add(geo.transform.map(|transform| {
            let (width, height) = pixel_size(&transform);
            sized((round(width), round(height)), unit(geo.crs.as_deref()))
        }));
    }

    /// What the user should know: a set may have several, and nothing says so later.
    pub(crate) fn doubts(&self) -> Vec<Doubt> {
        let systems = self.systems.text(&shown);
        let sizes = self.sizes.text(&str::to_owned);
        let systems = systems.map(|text| format!("the files have different CRS: {text}"));
        let sizes = sizes.map(|text| format!("the files have pixels of different sizes: {text}"));
        systems.into_iter().chain(sizes).map(|text| Doubt::new(text, Vec::new())).collect()
    }
}

impl Counts {
    fn add(&mut self, kind: Option<String>) {
        match kind {
            None => self.without += 1,
            Some(kind) if self.kinds.len() < MOST_KINDS || self.kinds.contains_key(&kind) => {
                *self.kinds.entry(kind).or_default() += 1;
            }
            Some(_) => self.others += 1,
        }
    }

    /// Names the kinds with their numbers; `None` if all files have one kind, or none has any.
    fn text(&self, shown: &dyn Fn(&str) -> String) -> Option<String> {
        let is_mixed = self.kinds.len() > 1 || (self.kinds.len() == 1 && self.without > 0);
        if !is_mixed {
            return None;
        }
        let mut kinds: Vec<(&String, u64)> =
            self.kinds.iter().map(|(kind, n)| (kind, *n)).collect();
        kinds.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let files = |n: u64| if n == 1 { "1 file".to_owned() } else { format!("{n} files") };
        let named = kinds.iter().take(MOST_NAMED);
        let mut texts: Vec<String> =
            named.map(|(kind, n)| format!("{} in {}", shown(kind), files(*n))).collect();
        let rest: u64 = kinds.iter().skip(MOST_NAMED).map(|(_, n)| n).sum();
        if rest + self.others > 0 {
            texts.push(format!("others in {}", files(rest + self.others)));
        }
        if self.without > 0 {
            texts.push(format!("none in {}", files(self.without)));
        }
        Some(texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(crs: &str, transform: [f64; 6]) -> Grid {
        Grid { crs: Some(crs.to_owned()), transform: Some(transform), affine: None }
    }

    #[test]
    fn a_file_is_compared_with_its_image_in_metres_and_pixels() {
        let image = grid("EPSG:32633", [500_000.0, 10.0, 0.0, 5e6, 0.0, -10.0]);
        let check = |crs: &str, transform: [f64; 6], expected: Option<&str>| {
            let found = image.difference(&grid(crs, transform), (32, 64));
            assert_eq!(found.as_deref(), expected, "{transform:?}");
        };
        let utm = "EPSG:32633";
        check(utm, [500_000.0, 10.0, 0.0, 5e6, 0.0, -10.0], None);
        check(utm, [500_005.0, 10.0, 0.0, 4_999_995.0, 0.0, -10.0], None);
        check(utm, [500_000.0, 10.01, 0.0, 5e6, 0.0, -10.0], None);
        let shifted = "it is shifted against its image by 640 m: by 64 to the right (in pixels)";
        check(utm, [500_640.0, 10.0, 0.0, 5e6, 0.0, -10.0], Some(shifted));
        let shifted =
            "it is shifted against its image by 50 m: by 3 to the left and 4 down (in pixels)";
        check(utm, [499_970.0, 10.0, 0.0, 4_999_960.0, 0.0, -10.0], Some(shifted));
        let coarse = "its pixels are 20 x 20 m, but those of its image are 10 x 10 m";
        check(utm, [500_000.0, 20.0, 0.0, 5e6, 0.0, -20.0], Some(coarse));
        // Each difference alone would be small enough; they add up in a corner.
        let both = "it is shifted against its image by 7.2 m: by 0.72 to the right (in pixels)";
        check(utm, [500_004.0, 10.1, 0.0, 5e6, 0.0, -10.0], Some(both));
        let turned = "its pixels are turned or mirrored against those of its image: opposite corners are 128 pixels apart";
        check(utm, [500_000.0, 10.0, 0.0, 5e6 - 640.0, 0.0, 10.0], Some(turned));
        let other = "its CRS is `EPSG:32634`, but that of its image is `EPSG:32633`";
        check("EPSG:32634", [500_000.0, 10.0, 0.0, 5e6, 0.0, -10.0], Some(other));
        let none = Grid::default();
        assert_eq!(image.difference(&none, (9, 9)), None);
        assert_eq!(none.difference(&image, (9, 9)), None);
        let flat = grid(utm, [0.0; 6]);
        assert_eq!(flat.difference(&flat, (9, 9)), None);
        assert!(flat.difference(&image, (9, 9)).unwrap().contains("no size of pixels"));
    }

    #[test]
    fn voxels_of_a_file_are_where_those_of_its_image_are() {
        let grid = |affine: [f64; 12]| Grid { affine: Some(affine), ..Grid::default() };
        let image = [-2.0, 0.0, 0.0, 90.0, 0.0, 2.0, 0.0, -126.0, 0.0, 0.0, 3.0, -72.0];
        let check = |change: &dyn Fn(&mut [f64; 12]), expected: Option<&str>| {
            let mut file = image;
            change(&mut file);
            let found = grid(image).difference(&grid(file), (40, 30));
            assert_eq!(found.as_deref(), expected, "{file:?}");
        };
        let away = |n: &str| {
            format!(
                "its voxels are up to {n} voxels away from those of its image, as their affines say"
            )
        };
        check(&|_| {}, None);
        check(&|file| file[3] += 0.99, None);
        check(&|file| file[11] += 3.6, Some(&away("1.2")));
        check(&|file| file[0] = 2.0, Some(&away("80")));
        // Seen over 40 slices.
        check(&|file| file[10] = 3.3, Some(&away("4")));
        let none = Grid::default();
        assert_eq!(grid(image).difference(&none, (9, 9)), None);
        assert_eq!(grid([0.0; 12]).difference(&grid(image), (9, 9)), None);
    }

    #[test]
    fn degrees_are_not_rounded_away_and_long_systems_are_named() {
        let image = grid("EPSG:4326", [15.0, 1e-4, 0.0, 45.0, 0.0, -1e-4]);
        let off =
            image.difference(&grid("EPSG:4326", [15.001, 1e-4, 0.0, 45.0, 0.0, -1e-4]), (8, 8));
        let expected =
            "it is shifted against its image by 0.001 degrees: by 10 to the right (in pixels)";
        assert_eq!(off.unwrap(), expected);
        let wkt = |parallel: u32| {
            format!("PROJCS[\"Albers\",GEOGCS[\"NAD83\",DATUM[\"x\"]],PARAMETER[\"p\",{parallel}]]")
        };
        let (a, b) = (grid(&wkt(1), [0.0; 6]), grid(&wkt(2), [0.0; 6]));
        assert!(image.difference(&a, (1, 1)).unwrap().contains("is `PROJCS[\"Albers\",…]`, but"));
        assert!(b.difference(&a, (1, 1)).unwrap().contains("[\"p\",2]"), "the names are the same");
        let named = |name: &str, code: &str| {
            let geographic = format!("GEOGCS[\"{name}\",DATUM[\"D\"],PRIMEM[\"G\",0]{code}]");
            let wkt = format!("PROJCS[\"of {name}\",{geographic},UNIT[\"metre\",1]]");
            grid(&wkt, [0.0; 6])
        };
        let (a, b) = (named("NAD83", ",AUTHORITY[\"EPSG\",\"4269\"]"), named("unknown", ""));
        assert_eq!(a.difference(&b, (1, 1)), None, "only the names differ");
        let texts = [123_456.789, 0.000_089_831, 10.0, 0.0, 1e20].map(number);
        assert_eq!(texts, ["123457", "0.000089831", "10", "0", "100000000000000000000"]);
    }

    #[test]
    fn systems_and_sizes_of_a_set_are_counted() {
        let geo = |crs: Option<&str>, side: f64| Geo {
            crs: crs.map(str::to_owned),
            transform: Some([0.0, side, 0.0, 0.0, 0.0, -side]),
            ..Geo::default()
        };
        let mut grids = Grids::default();
        for _ in 0..3 {
            grids.add(&geo(Some("EPSG:32633"), 10.0));
        }
        grids.add(&geo(Some("EPSG:32633"), 10.000_01));
        assert_eq!(grids.doubts(), []);
        grids.add(&geo(Some("EPSG:32634"), 20.0));
        grids.add(&geo(None, 10.0));
        let texts: Vec<String> = grids.doubts().into_iter().map(|doubt| doubt.text).collect();
        let expected = [
            "the files have different CRS: `EPSG:32633` in 4 files, `EPSG:32634` in 1 file, none in 1 file",
            "the files have pixels of different sizes: 10 x 10 m in 4 files, 10 x 10 units in 1 file, 20 x 20 m in 1 file",
        ];
        assert_eq!(texts, expected);
        let mut many = Grids::default();
        (0..200).for_each(|i| many.add(&geo(Some(&format!("EPSG:{i}")), 1.0)));
        assert!(many.doubts()[0].text.ends_with(", others in 195 files"), "{:?}", many.doubts());
    }
}
