//! Boxes in a folder of text files, one per image, with one line per thing.
//!
//! ```text
//! Car 0.00 0 -1.58 587.0 173.3 614.1 200.1 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59
//! KITTI: type truncated occluded alpha, left top right bottom in pixels, and seven numbers in 3D
//!
//! 684,8,273,116,1,4,0,1
//! VisDrone: left, top, width and height in pixels, whether it counts, category, truncated, occluded
//!
//! (563,478),(630,573),1
//! NWPU VHR-10: left and top, right and bottom in pixels, category
//! ```
//!
//! Sources: <https://www.cvlibs.net/datasets/kitti/eval_object.php>,
//! <https://github.com/VisDrone/VisDrone2018-DET-toolkit> and
//! <https://gcheng-nwpu.github.io/#Datasets>. Regions that do not count, such as those of
//! KITTI's type `DontCare`, are crowds; what is said in 3D is left out.

use std::path::Path;

use super::boxes;
use super::coco::Coco;
use super::objects::{Object, Objects};
use super::rows::fault;
use crate::layout::LayoutError;

/// Words of a line of KITTI, of which results of detectors have one more.
const WORDS_OF_KITTI: [usize; 2] = [15, 16];
/// VisDrone's categories, by their numbers.
const OF_VISDRONE: [&str; 12] = [
    "ignored regions",
    "pedestrian",
    "people",
    "bicycle",
    "car",
    "van",
    "truck",
    "tricycle",
    "awning-tricycle",
    "bus",
    "motor",
    "others",
];

/// Whose lines they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectLines {
    Kitti,
    VisDrone,
    Nwpu,
}

impl ObjectLines {
    /// Whose line this is.
    pub(super) fn of(line: &str) -> Option<Self> {
        [Self::Kitti, Self::VisDrone, Self::Nwpu]
            .into_iter()
            .find(|format| format.parse(line).is_some())
    }

    /// Reads a folder of annotations.
    pub(super) fn read(self, folder: &Path) -> Result<Coco, LayoutError> {
        let mut objects = Objects::default();
        boxes::texts(folder, "txt", &mut |path, name, text| {
            let image = objects.image(name, None);
            for (number, line) in
                (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty())
            {
                let object = self.parse(line).ok_or_else(|| {
                    let reason = format!("line {number} is not a thing as {}", self.expected());
                    fault(path, None, reason)
                })?;
                objects.add(image, object);
            }
            Ok(())
        })?;
        Ok(objects.coco())
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Kitti => {
                "KITTI has it: a type and 14 numbers, of which the fourth to the seventh are left, top, right and bottom"
            }
            Self::Nwpu => {
                "NWPU VHR-10 has it: (left,top),(right,bottom) and the number of a category"
            }
            Self::VisDrone => {
                "VisDrone has it: eight integers, of which the first four are left, top, width and height, and the sixth is a category from 0 to 11"
            }
        }
    }

    fn parse(self, line: &str) -> Option<Object> {
        match self {
            Self::Kitti => of_kitti(line),
            Self::VisDrone => of_visdrone(line),
            Self::Nwpu => of_nwpu(line),
        }
    }
}

fn of_kitti(line: &str) -> Option<Object> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (class, numbers) = words.split_first()?;
    let numbers: Option<Vec<f64>> = numbers.iter().map(|word| word.parse().ok()).collect();
    let numbers = numbers.filter(|_| WORDS_OF_KITTI.contains(&words.len()))?;
    let [left, top, right, bottom] = *numbers.get(3..7)?.first_chunk()?;
    let is_box = right > left && bottom > top && class.parse::<f64>().is_err();
    is_box.then(|| Object {
        class: (*class).to_owned(),
        corners: [left, top, right - left, bottom - top],
        crowd: *class == "DontCare",
    })
}

fn of_visdrone(line: &str) -> Option<Object> {
    let numbers = line.trim().trim_end_matches(',').split(',');
    let numbers: Option<Vec<i32>> = numbers.map(|part| part.trim().parse().ok()).collect();
    let [left, top, width, height, counts, category, ..] = *numbers.filter(|n| n.len() == 8)?
    else {
        return None;
    };
    let class = OF_VISDRONE.get(usize::try_from(category).ok()?)?;
    (matches!(counts, 0 | 1) && width >= 0 && height >= 0).then(|| Object {
        class: (*class).to_owned(),
        corners: [left, top, width, height].map(f64::from),
        crowd: counts == 0,
    })
}

fn of_nwpu(line: &str) -> Option<Object> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let [left, top, right, bottom, class] = cells.as_slice() else { return None };
    let pair = |a: &str, b: &str| {
        let (a, b) = (a.strip_prefix('(')?, b.strip_suffix(')')?);
        Some((a.trim().parse::<f64>().ok()?, b.trim().parse::<f64>().ok()?))
    };
    let ((left, top), (right, bottom)) = (pair(left, top)?, pair(right, bottom)?);
    let is_box = right > left && bottom > top && class.parse::<u32>().is_ok();
    is_box.then(|| Object {
        class: (*class).to_owned(),
        corners: [left, top, right - left, bottom - top],
        crowd: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_kitti_are_things_with_a_box_in_pixels() {
        let line = "Car 0.00 0 -1.58 587.0 173.5 614.0 200.0 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59";
        let car = ObjectLines::Kitti.parse(line).unwrap();
        assert_eq!((car.class.as_str(), car.corners), ("Car", [587.0, 173.5, 27.0, 26.5]));
        assert_eq!(ObjectLines::of(&format!("{line} 0.9")), Some(ObjectLines::Kitti));
        assert_eq!(ObjectLines::of("0 0.5 0.5 1 1"), None);
        assert_eq!(ObjectLines::of(&line.replace("614.0", "10.0")), None);
    }

    #[test]
    fn lines_of_visdrone_name_categories_and_regions_that_do_not_count() {
        let of = |line: &str| {
            let object = ObjectLines::VisDrone.parse(line).unwrap();
            (object.class, object.corners, object.crowd)
        };
        assert_eq!(
            of("684,8,273,116,1,4,0,1"),
            ("car".to_owned(), [684.0, 8.0, 273.0, 116.0], false)
        );
        assert!(of("0,0,5,5,0,0,0,0,").2);
        assert_eq!(ObjectLines::of("684,8,273,116,1,12,0,1"), None);
        assert_eq!(ObjectLines::of("684,8,273,116"), None);
    }

    #[test]
    fn lines_of_nwpu_vhr_10_have_corners_in_brackets() {
        let plane = ObjectLines::Nwpu.parse("( 563, 478),(630,573), 1 ").unwrap();
        assert_eq!((plane.class.as_str(), plane.corners), ("1", [563.0, 478.0, 67.0, 95.0]));
        assert_eq!(ObjectLines::of("(563,478),(630,573),1"), Some(ObjectLines::Nwpu));
        assert_eq!(ObjectLines::of("(563,478),(530,573),1"), None);
    }
}
