//! Boxes in the format of Pascal VOC: a folder of XML files, one per image.
//!
//! ```text
//! Annotations/2007_000027.xml    of JPEGImages/2007_000027.jpg
//! ```
//!
//! Source: the development kit, <http://host.robots.ox.ac.uk/pascal/VOC/voc2012/>. Its pixels are
//! counted from 1, and a box holds those of its corners. What is `difficult`, which is not counted
//! when a detector is judged, is a crowd.

use std::path::Path;

use roxmltree::{Document, Node};

use super::boxes;
use super::coco::{Coco, ROUNDING};
use super::objects::{Object, Objects};
use super::rows::fault;
use crate::layout::LayoutError;

/// Reads a folder of annotations.
pub(super) fn read(folder: &Path) -> Result<Coco, LayoutError> {
    let mut objects = Objects::default();
    boxes::texts(folder, "xml", &mut |path, name, text| {
        let document =
            Document::parse(text).map_err(|e| fault(path, None, format!("it is not XML: {e}")))?;
        let root = document.root_element();
        if root.tag_name().name() != "annotation" {
            let reason = format!(
                "it begins with `<{}>`, expected `<annotation>` as Pascal VOC has it",
                root.tag_name().name()
            );
            return Err(fault(path, None, reason));
        }
        let size = |what| child(root, "size").and_then(|size| number(size, what));
        let (Some(width), Some(height)) = (size("width"), size("height")) else {
            let reason = "it has no `size` of the image, of which boxes are fractions";
            return Err(fault(path, None, reason));
        };
        let image = objects.image(name, Some((width, height)));
        for object in root.children().filter(|node| node.has_tag_name("object")) {
            let object = parse(object).ok_or_else(|| {
                let line = document.text_pos_at(object.range().start).row;
                let reason = format!("the object in line {line} has no name, or no `bndbox` whose `xmax` and `ymax` are above `xmin` and `ymin`");
                fault(path, None, reason)
            })?;
            let [left, top, across, down] = object.corners;
            if left + across > width + ROUNDING || top + down > height + ROUNDING {
                let reason = format!(
                    "the box of a `{}` is not within the image, whose size is {width} x {height}",
                    object.class
                );
                return Err(fault(path, None, reason));
            }
            objects.add(image, object);
        }
        Ok(())
    })?;
    Ok(objects.coco())
}

fn parse(object: Node<'_, '_>) -> Option<Object> {
    let name = child(object, "name")?.text().map(str::trim).filter(|name| !name.is_empty())?;
    let corners = child(object, "bndbox")?;
    let [left, top, right, bottom] =
        ["xmin", "ymin", "xmax", "ymax"].map(|what| number(corners, what));
    let (left, top) = ((left? - 1.0).max(0.0), (top? - 1.0).max(0.0));
    let (width, height) = (right? - left, bottom? - top);
    let difficult = child(object, "difficult").and_then(|node| node.text()).map(str::trim);
    let difficult = difficult.is_some_and(|text| !matches!(text, "" | "0" | "false" | "False"));
    let is_box = width > 0.0 && height > 0.0;
    let corners = [left, top, width, height];
    is_box.then(|| Object { class: name.to_owned(), corners, crowd: difficult })
}

fn child<'a, 'd>(node: Node<'a, 'd>, name: &str) -> Option<Node<'a, 'd>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn number(node: Node<'_, '_>, name: &str) -> Option<f64> {
    let text = child(node, name)?.text()?.trim();
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, corners: [f64; 4]) -> String {
        let [a, b, c, d] = corners;
        format!(
            "<object><name>{name}</name><part><name>head</name></part><difficult>1</difficult>\
             <bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>"
        )
    }

    #[test]
    fn pixels_are_counted_from_one_and_classes_sorted() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, objects: &str| {
            let text = format!(
                "<annotation><filename>other.jpg</filename>\
                 <size><width>20</width><height>10</height></size>{objects}</annotation>"
            );
            std::fs::write(dir.path().join(name), text).unwrap();
        };
        file("a.xml", &object("dog", [1.0, 1.0, 20.0, 10.0]));
        file("b.xml", &object("cat", [0.0, 6.0, 10.0, 10.0]));
        file("c.xml", "");
        let notes = dir.path().join("README.roboflow.txt");
        std::fs::write(&notes, "street - v1\n").unwrap();
        assert_eq!(boxes::format(dir.path()).unwrap(), super::super::rows::Format::Voc);
        std::fs::write(&notes, "0 0.5 0.5 1 1\n").unwrap();
        let error = boxes::format(dir.path()).unwrap_err().to_string();
        assert!(error.contains("boxes in two formats"), "{error}");
        let coco = read(dir.path()).unwrap();
        assert_eq!(coco.classes(), ["cat", "dog"]);
        let mut rows = Vec::new();
        coco.rows(dir.path(), None, &mut |_, _, cells| {
            rows.push(format!("{cells:?}"));
            Ok(())
        })
        .unwrap();
        rows.sort();
        assert_eq!(rows.len(), 3);
        let floats =
            |numbers: [f64; 4]| format!("{:?}", numbers.map(super::super::cell::Cell::Float));
        assert!(rows[0].contains(&floats([0.0, 0.0, 1.0, 1.0])), "{}", rows[0]);
        assert!(rows[1].contains(&floats([0.0, 0.5, 0.5, 1.0])), "{}", rows[1]);
        file("c.xml", &object("cat", [9.0, 9.0, 4.0, 4.0]));
        assert!(read(dir.path()).unwrap_err().to_string().contains("bndbox"));
        file("c.xml", "<object/");
        assert!(read(dir.path()).unwrap_err().to_string().contains("not XML"));
    }
}
