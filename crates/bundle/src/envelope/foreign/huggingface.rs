//! The metadata that Hugging Face `datasets` reads in Arrow and Parquet schemas: a JSON text
//! `huggingface` that gives columns their features.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::envelope::{Column, Values};
use crate::{Dtype, Field, FieldKind};

/// The metadata's name.
pub(crate) const NAME: &str = "huggingface";

/// How values with a shape are stored in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrays {
    Lists,
    Bytes,
}

/// Returns the text for columns of these fields, and a column `key`.
pub(crate) fn features(fields: &[Field], classes: &[String], arrays: Arrays) -> String {
    let mut features = Map::new();
    for field in fields {
        features.insert(field.name.to_string(), feature(field, classes, arrays));
    }
    features.insert("key".to_owned(), value("string"));
    json!({"info": {"features": features}}).to_string()
}

/// Returns whether `datasets` reads the field as an image: its bytes may only be images.
pub(crate) fn is_image(field: &Field) -> bool {
    match &field.kind {
        FieldKind::Bytes { media_types } => {
            field.is_image() || media_types.iter().all(|m| m.starts_with("image/"))
        }
        FieldKind::Fixed { .. } => false,
    }
}

fn feature(field: &Field, classes: &[String], arrays: Arrays) -> Value {
    let (dtype, shape) = match &field.kind {
        FieldKind::Bytes { .. } if is_image(field) => return json!({"_type": "Image"}),
        FieldKind::Bytes { .. } => return value("binary"),
        FieldKind::Fixed { dtype, shape } => (*dtype, shape),
    };
    if field.is_label() && !classes.is_empty() {
        return json!({"names": classes, "_type": "ClassLabel"});
    }
    if arrays == Arrays::Bytes && !shape.is_empty() {
        return value("binary");
    }
    // The innermost axis is first.
    shape.iter().rev().fold(
        value(name(dtype)),
        |inner, length| json!({"feature": inner, "length": length, "_type": "Sequence"}),
    )
}

fn value(dtype: &str) -> Value {
    json!({"dtype": dtype, "_type": "Value"})
}

fn name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::U8 => "uint8",
        Dtype::I8 => "int8",
        // Arrow has no bfloat16, so its bits are stored as u16.
        Dtype::U16 | Dtype::Bf16 => "uint16",
        Dtype::I16 => "int16",
        Dtype::U32 => "uint32",
        Dtype::I32 => "int32",
        Dtype::I64 => "int64",
        Dtype::F16 => "float16",
        Dtype::F32 => "float32",
        Dtype::F64 => "float64",
    }
}

/// Returns class names by column, from a text that `datasets` or Gular wrote.
pub(crate) fn classes(text: &str) -> BTreeMap<String, Vec<String>> {
    let Ok(json) = serde_json::from_str::<Value>(text) else { return BTreeMap::new() };
    let features = json.pointer("/info/features").and_then(Value::as_object);
    let names = |(column, feature): (&String, &Value)| -> Option<(String, Vec<String>)> {
        let names = feature.get("names").filter(|_| feature["_type"] == "ClassLabel")?;
        let names: Option<Vec<String>> =
            names.as_array()?.iter().map(|n| n.as_str().map(str::to_owned)).collect();
        Some((column.clone(), names?))
    };
    features.into_iter().flatten().filter_map(names).collect()
}

/// Replaces each image group `{bytes, path}`, as `datasets` stores it, by one column with its
/// bytes.
pub(crate) fn join_images(columns: &mut [Column]) {
    let groups: Vec<String> =
        columns.iter().filter_map(|c| c.name.strip_suffix(".path")).map(str::to_owned).collect();
    for group in groups {
        let find = |columns: &[Column], part: &str| {
            let name = format!("{group}.{part}");
            columns.iter().position(|c| c.name == name)
        };
        let (bytes, path) = (find(columns, "bytes"), find(columns, "path"));
        let paths = match path.and_then(|i| columns.get(i)).map(|c| &c.values) {
            Some(Values::Texts(paths)) => paths.iter().map(Option::is_some).collect(),
            _ => Vec::new(),
        };
        let Some(image) = bytes.and_then(|i| columns.get_mut(i)) else { continue };
        if let Values::Bytes(runs) = &image.values
            && runs.iter().zip(paths).any(|(run, path)| run.is_none() && path)
        {
            let reason = "it holds paths of images, not the images: `embed_external_files` of `datasets` or `save_to_disk` embeds them";
            image.values = Values::NotStored(reason.to_owned());
        }
        image.name = group;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_names_are_found_again() {
        let fields = [Field::label()];
        let names = ["a".to_owned(), "b".to_owned()];
        let found = classes(&features(&fields, &names, Arrays::Lists));
        assert_eq!(found, BTreeMap::from([("label".to_owned(), names.to_vec())]));
        for bad in
            ["", "[]", r#"{"info":{"features":{"label":{"_type":"ClassLabel","names":[1]}}}}"#]
        {
            assert!(classes(bad).is_empty(), "{bad}");
        }
    }
}
