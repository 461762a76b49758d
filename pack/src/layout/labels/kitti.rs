//! Boxes in KITTI's format: a folder of text files, one per image, with one line per thing.
//!
//! ```text
//! Car 0.00 0 -1.58 587.0 173.3 614.1 200.1 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59
//! type truncated occluded alpha, left top right bottom in pixels, and seven numbers in 3D
//! ```
//!
//! Source: the development kit, <https://www.cvlibs.net/datasets/kitti/eval_object.php>. Regions of
//! the type `DontCare` are crowds; what is said in 3D is left out.

use std::path::Path;

use super::boxes;
use super::coco::Coco;
use super::objects::{Object, Objects};
use super::rows::fault;
use crate::layout::LayoutError;

/// Words of a line, of which results of detectors have one more.
const WORDS: [usize; 2] = [15, 16];

/// Whether a line is of this format.
pub(super) fn is_line(line: &str) -> bool {
    parse(line).is_some()
}

/// Reads a folder of annotations.
pub(super) fn read(folder: &Path) -> Result<Coco, LayoutError> {
    let mut objects = Objects::default();
    boxes::texts(folder, "txt", &mut |path, name, text| {
        let image = objects.image(name, None);
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let object = parse(line).ok_or_else(|| {
                let reason = format!(
                    "line {number} is not a thing as KITTI has it: a type and 14 numbers, of which the fourth to the seventh are left, top, right and bottom"
                );
                fault(path, None, reason)
            })?;
            objects.add(image, object);
        }
        Ok(())
    })?;
    Ok(objects.coco())
}

fn parse(line: &str) -> Option<Object> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (class, numbers) = words.split_first()?;
    let numbers: Option<Vec<f64>> = numbers.iter().map(|word| word.parse().ok()).collect();
    let numbers = numbers.filter(|_| WORDS.contains(&words.len()))?;
    let [left, top, right, bottom] = *numbers.get(3..7)?.first_chunk()?;
    let is_box = right > left && bottom > top && class.parse::<f64>().is_err();
    is_box.then(|| Object {
        class: (*class).to_owned(),
        corners: [left, top, right - left, bottom - top],
        crowd: *class == "DontCare",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_things_with_a_box_in_pixels() {
        let line = "Car 0.00 0 -1.58 587.0 173.5 614.0 200.0 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59";
        let car = parse(line).unwrap();
        assert_eq!((car.class.as_str(), car.corners), ("Car", [587.0, 173.5, 27.0, 26.5]));
        assert!(is_line(&format!("{line} 0.9")) && !is_line("0 0.5 0.5 1 1"));
        assert!(!is_line(&line.replace("614.0", "10.0")));
    }
}
