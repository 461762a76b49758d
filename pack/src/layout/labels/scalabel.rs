//! Boxes in Scalabel's JSON, as BDD100K has them: a list of images, each with its things.
//!
//! ```text
//! [{"name": "1.jpg", "labels": [{"category": "car", "box2d": {"x1": 1, "y1": 2, "x2": 3, "y2": 4}}]}]
//! ```
//!
//! Source: <https://doc.scalabel.com/format.html>. Things without a box, such as lanes, are left out, and
//! counted.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;

use super::coco::Coco;
use super::objects::{Object, Objects};
use super::rows::fault;
use crate::layout::LayoutError;
use crate::source::document_start;

#[derive(Deserialize)]
struct Frame {
    name: String,
    labels: Option<Vec<Label>>,
}

#[derive(Deserialize)]
struct Label {
    category: String,
    box2d: Option<Corners>,
    #[serde(default)]
    attributes: Attributes,
}

#[derive(Default, Deserialize)]
struct Attributes {
    #[serde(default)]
    crowd: bool,
}

#[derive(Deserialize)]
struct Corners {
    x1: f64,
    y1: f64,
    x2: f64,
    y2: f64,
}

/// Whether a document is one of these.
pub(super) fn is_file(path: &Path) -> bool {
    let start = document_start(path).unwrap_or_default();
    let start = String::from_utf8_lossy(&start);
    start.trim_start().starts_with('[') && start.contains("\"box2d\"")
}

/// Reads such a document.
pub(super) fn read(path: &Path) -> Result<Coco, LayoutError> {
    let file = File::open(path).map_err(|e| LayoutError::io("read", path, e))?;
    let frames: Vec<Frame> = serde_json::from_reader(BufReader::with_capacity(256 << 10, file))
        .map_err(|e| fault(path, None, format!("it is not a list of images of Scalabel: {e}")))?;
    let mut objects = Objects::default();
    for frame in frames {
        let image = objects.image(&frame.name, None);
        for label in frame.labels.into_iter().flatten() {
            let Some(Corners { x1, y1, x2, y2 }) = label.box2d else {
                objects.unread[1] += 1;
                continue;
            };
            let corners = [x1, y1, x2 - x1, y2 - y1];
            objects.add(
                image,
                Object { class: label.category, corners, crowd: label.attributes.crowd },
            );
        }
    }
    Ok(objects.coco())
}
