//! Boxes in the format of LabelMe: a JSON file beside each image.
//!
//! ```text
//! {"shapes": [{"label": "cat", "points": [[1, 2], [9, 9]], "shape_type": "rectangle"}],
//!  "imagePath": "1.jpg", "imageWidth": 24, "imageHeight": 20}
//! ```
//!
//! The box of a polygon is around all of its points; points and lines have none. Source:
//! <https://github.com/wkentaro/labelme>.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::boxes;
use super::coco::Coco;
use super::objects::{Object, Objects};
use super::rows::fault;
use crate::layout::LayoutError;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Annotated {
    shapes: Vec<Shape>,
    image_width: f64,
    image_height: f64,
}

#[derive(Deserialize)]
struct Shape {
    label: String,
    points: Vec<[f64; 2]>,
    #[serde(default)]
    shape_type: String,
}

/// Longest file that is looked at to know the format.
const MOST_BYTES: u64 = 16 << 20;

/// Whether a file is of this format.
pub(super) fn is_file(path: &Path) -> bool {
    let is_short = fs::metadata(path).is_ok_and(|found| found.len() <= MOST_BYTES);
    is_short && fs::read(path).is_ok_and(|text| serde_json::from_slice::<Annotated>(&text).is_ok())
}

/// Reads a folder of annotations.
pub(super) fn read(folder: &Path) -> Result<Coco, LayoutError> {
    let mut objects = Objects::default();
    boxes::texts(folder, "json", &mut |path, name, text| {
        let found: Annotated = serde_json::from_str(text)
            .map_err(|e| fault(path, None, format!("it is not a file of LabelMe: {e}")))?;
        let image = objects.image(name, Some((found.image_width, found.image_height)));
        for Shape { label, points, shape_type } in found.shapes {
            if matches!(shape_type.as_str(), "point" | "line" | "linestrip" | "points") {
                objects.unread[1] += 1;
                continue;
            }
            objects.unread[0] += u64::from(!matches!(shape_type.as_str(), "" | "rectangle"));
            let side = |at: usize| {
                let all = || points.iter().filter_map(|point| point.get(at).copied());
                (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max))
            };
            let ((mut left, mut right), (mut top, mut bottom)) = (side(0), side(1));
            // A circle has its centre and a point on it.
            if let ("circle", [[x, y], [u, v]]) = (shape_type.as_str(), points.as_slice()) {
                let radius = (x - u).hypot(y - v);
                (left, right, top, bottom) = (x - radius, x + radius, y - radius, y + radius);
            }
            if right > left && bottom > top {
                let corners = [left, top, right - left, bottom - top];
                objects.add(image, Object { class: label, corners, crowd: false });
            }
        }
        Ok(())
    })?;
    Ok(objects.coco())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_a_box_around_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.json");
        let shape = |kind: &str, points: &str| {
            format!(r#"{{"label":"cat","points":{points},"shape_type":"{kind}"}}"#)
        };
        let shapes = [
            shape("polygon", "[[1,2],[9,3],[4,8]]"),
            shape("point", "[[1,2]]"),
            shape("circle", "[[5,5],[5,7]]"),
        ];
        let text = format!(
            r#"{{"version":"5","shapes":[{}],"imageWidth":24,"imageHeight":20}}"#,
            shapes.join(",")
        );
        fs::write(&path, text).unwrap();
        assert!(is_file(&path));
        let coco = read(dir.path()).unwrap();
        let boxes: Vec<_> = coco.annotations.iter().filter_map(|of| of.bbox).collect();
        assert_eq!(boxes, [[1.0, 2.0, 8.0, 6.0], [3.0, 3.0, 4.0, 4.0]]);
        fs::write(&path, "{\"shapes\":1}").unwrap();
        assert!(!is_file(&path));
    }
}
