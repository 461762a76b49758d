//! Boxes in the format of WIDER FACE: one list of images, of which each is followed by its faces.
//!
//! ```text
//! 0--Parade/0_Parade_marchingband_1_849.jpg
//! 1
//! 449 330 122 149 0 0 0 0 0 0     left top width height in pixels, and six attributes
//! ```
//!
//! Source: <http://shuoyang1213.me/WIDERFACE/>. An image without faces has a line of zeros. Faces
//! that the fourth attribute calls invalid are crowds; the other attributes are left out.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::coco::Coco;
use super::objects::{Object, Objects};
use super::rows::fault;
use crate::facts::formats;
use crate::layout::LayoutError;

/// The class of all boxes.
const FACE: &str = "face";
/// A list is known by its first lines, which have at most so many bytes.
const MOST_START: u64 = 4096;

/// Whether a file is such a list.
pub(super) fn is_list(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut lines = BufReader::new(file.take(MOST_START)).lines().map_while(Result::ok);
    let (Some(image), Some(count), Some(face)) = (lines.next(), lines.next(), lines.next()) else {
        return false;
    };
    is_image(&image) && count.trim().parse::<u32>().is_ok() && parse(&face).is_some()
}

fn is_image(line: &str) -> bool {
    line.trim().rsplit_once('.').is_some_and(|(_, extension)| formats::is_image(extension))
}

/// Reads a list.
pub(super) fn read(path: &Path) -> Result<Coco, LayoutError> {
    let file = File::open(path).map_err(|e| LayoutError::io("open", path, e))?;
    let mut objects = Objects::default();
    // The image, and the numbers of faces that it is said to have, and that follow.
    let mut image = None;
    let mut faces: Option<(u32, u32, u64)> = None;
    let short = |faces: Option<(u32, u32, u64)>| match faces {
        Some((due, found, line)) if found != due && (due, found) != (0, 1) => {
            let reason = format!("{due} faces are to follow, and {found} do");
            Err(fault(path, Some(line), reason))
        }
        _ => Ok(()),
    };
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.map_err(|e| LayoutError::io("read", path, e))?;
        let words = line.split_whitespace().count();
        match (image, parse(&line)) {
            _ if line.trim().is_empty() => {}
            (Some(image), Some((corners, invalid))) => {
                if let Some((_, found, _)) = &mut faces {
                    *found += 1;
                }
                if corners[2] > 0.0 && corners[3] > 0.0 {
                    let class = FACE.to_owned();
                    objects.add(image, Object { class, corners, crowd: invalid });
                }
            }
            _ if is_image(&line) => {
                short(faces.take())?;
                image = Some(objects.image(line.trim(), None));
            }
            (Some(_), None) if words == 1 && line.trim().parse::<u32>().is_ok() => {
                faces = line.trim().parse().ok().map(|due| (due, 0, number));
            }
            _ => {
                let reason = "it is neither an image nor a face as WIDER FACE has them";
                return Err(fault(path, Some(number), reason));
            }
        }
    }
    short(faces)?;
    Ok(objects.coco())
}

/// Left, top, width and height of a face, and whether it is invalid.
fn parse(line: &str) -> Option<([f64; 4], bool)> {
    let numbers: Option<Vec<f64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() == 10)?;
    Some((*numbers.first_chunk()?, numbers.get(7) == Some(&1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_follow_their_images() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("faces.txt");
        let none = "0 0 0 0 0 0 0 0 0 0 \n";
        let text =
            format!("a/1.jpg\n2\n1 2 3 4 0 0 0 0 0 0 \n5 6 7 8 0 0 0 1 0 0 \nb/2.jpg\n0\n{none}");
        std::fs::write(&path, &text).unwrap();
        assert!(is_list(&path));
        let coco = read(&path).unwrap();
        assert_eq!((coco.images.len(), coco.annotations.len()), (2, 2));
        assert_eq!(coco.annotations[1].bbox, Some([5.0, 6.0, 7.0, 8.0]));
        assert_eq!(coco.annotations[1].iscrowd, 1);
        std::fs::write(&path, text.replace("\n2\n", "\n3\n")).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("3 faces are to follow, and 2 do"));
        std::fs::write(&path, text + "what\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("line 8"));
        std::fs::write(&path, "1.jpg cat\n2.jpg dog\n3.jpg cat\n").unwrap();
        assert!(!is_list(&path));
    }
}
