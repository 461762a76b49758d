//! Boxes in COCO's format: one JSON of images, annotations and categories.
//!
//! A row per image: `file_name`, `boxes`, `box_labels` and `box_crowd`. Boxes become corners as
//! fractions of the image, which stay right when the image is resized; categories become classes
//! in the order of their ids, which have gaps.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;

use super::boxes::{self, Boxed};
use super::names::Names;
use super::rows::{Each, fault};
use crate::Error;

#[derive(Deserialize)]
struct Coco {
    images: Vec<Picture>,
    annotations: Vec<Annotation>,
    categories: Vec<Category>,
}

#[derive(Deserialize)]
struct Picture {
    id: i64,
    file_name: String,
    width: f64,
    height: f64,
}

#[derive(Deserialize)]
struct Annotation {
    image_id: i64,
    category_id: i64,
    /// Left, top, width, height in pixels.
    bbox: Option<[f64; 4]>,
    #[serde(default)]
    iscrowd: u8,
}

#[derive(Deserialize)]
struct Category {
    id: i64,
    name: String,
}

/// Names of the categories, in the order of their ids.
pub(super) fn classes(path: &Path) -> Result<Vec<String>, Error> {
    Ok(parse(path)?.categories.into_iter().map(|category| category.name).collect())
}

/// Reads the annotations as a table.
pub(super) fn read(path: &Path, each: Each<'_>) -> Result<(), Error> {
    let Coco { mut images, mut annotations, categories } = parse(path)?;
    let numbers: HashMap<i64, i64> = categories.iter().map(|c| c.id).zip(0..).collect();
    annotations.sort_by_key(|annotation| annotation.image_id);
    images.sort_by_key(|image| image.id);
    if let Some(pair) = images.windows(2).find(|pair| pair[0].id == pair[1].id) {
        let (a, b) = (&pair[0].file_name, &pair[1].file_name);
        let reason = format!("images `{a}` and `{b}` have the same id, {}", pair[0].id);
        return Err(fault(path, None, reason));
    }
    let (mut no_image, mut no_category) = (Names::default(), Names::default());
    for annotation in &annotations {
        if images.binary_search_by_key(&annotation.image_id, |image| image.id).is_err() {
            no_image.push(&annotation.image_id.to_string());
        }
        if !numbers.contains_key(&annotation.category_id) {
            no_category.push(&annotation.category_id.to_string());
        }
    }
    for (what, found) in [("images", no_image), ("categories", no_category)] {
        if found.n > 0 {
            let reason =
                format!("{} annotations refer to {what} that it does not list: {found}", found.n);
            return Err(fault(path, None, reason));
        }
    }
    let mut rest = annotations.as_slice();
    for (line, image) in (1..).zip(&images) {
        let n = rest.partition_point(|annotation| annotation.image_id == image.id);
        let (of_image, after) = rest.split_at(n);
        rest = after;
        let (w, h) = (image.width, image.height);
        if !(w > 0.0 && h > 0.0) {
            let reason = format!("image `{}` is {w} x {h} pixels", image.file_name);
            return Err(fault(path, Some(line), reason));
        }
        let boxed = of_image.iter().filter_map(|a| {
            let [left, top, width, height] = a.bbox?;
            let corners = [left / w, top / h, (left + width) / w, (top + height) / h];
            let class = numbers.get(&a.category_id).copied()?;
            Some(Boxed { corners, class, crowd: Some(a.iscrowd != 0) })
        });
        let cells = boxes::cells(&image.file_name, boxed);
        each(line, &boxes::columns(true), &cells)?;
    }
    Ok(())
}

fn parse(path: &Path) -> Result<Coco, Error> {
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    let mut coco: Coco =
        serde_json::from_reader(BufReader::with_capacity(1 << 20, file)).map_err(|e| {
            let reason = format!(
                "it is not a COCO file of boxes, an object of `images`, `annotations` and `categories`: {e}"
            );
            fault(path, None, reason)
        })?;
    coco.categories.sort_by_key(|category| category.id);
    let mut names: Vec<&str> = coco.categories.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    let twice = |pair: &[Category]| pair[0].id == pair[1].id;
    if let Some(pair) = coco.categories.windows(2).find(|pair| twice(pair)) {
        return Err(fault(path, None, format!("two categories have the id {}", pair[0].id)));
    }
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(fault(path, None, format!("two categories have the name `{}`", pair[0])));
    }
    Ok(coco)
}
