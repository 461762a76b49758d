//! Options as the package gives them: JSON, whose faults are reported in Python's words.

use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

use crate::error::named;

/// Parses the options in `text`.
///
/// # Errors
/// `OptionError` names the first option that is not valid, what is expected and what was found.
pub(crate) fn parse<T: DeserializeOwned>(py: Python<'_>, text: &str) -> PyResult<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path: Vec<&str> = error.path().iter().filter_map(name).collect();
        let what = format!("option `{}`: {}", option(&path), reason(&error.inner().to_string()));
        named(py, "OptionError", &what, None, None)
    })
}

fn name(segment: &Segment) -> Option<&str> {
    match segment {
        Segment::Map { key } => Some(key),
        Segment::Enum { variant } => Some(variant),
        Segment::Seq { .. } | Segment::Unknown => None,
    }
}

/// Returns the user's name of an option.
fn option<'a>(path: &[&'a str]) -> &'a str {
    match path {
        ["only", ..] => "keys",
        ["n_epochs", ..] => "epochs",
        ["map", ..] => "map_files",
        ["apply_orientation", ..] => "orientation",
        ["order", .., "shards"] => "window",
        ["order", .., "shuffle"] => "shuffle",
        ["transform", "random" | "pad" | "center", "width" | "height"] => "size",
        [option, ..] => option,
        [] => "options",
    }
}

/// Returns serde's message without the position in a text that the user never sees.
pub(crate) fn reason(text: &str) -> String {
    let text = text.rfind(" at line ").map_or(text, |at| &text[..at]);
    if text == "expected value" {
        // A name was expected, and something else is there.
        return "expected a text".to_owned();
    }
    let Some((fault, expected)) = text.rsplit_once(", expected ") else { return text.to_owned() };
    if let Some(found) = fault.strip_prefix("unknown variant ") {
        return format!("{found} is not {expected}");
    }
    match fault.strip_prefix("invalid type: ").or(fault.strip_prefix("invalid value: ")) {
        Some(found) => format!("expected {}, found {}", in_words(expected), in_python(found)),
        None => text.to_owned(),
    }
}

fn in_words(expected: &str) -> &str {
    match expected {
        "usize" | "u64" | "u32" => "a whole number of 0 or more",
        "f64" | "f32" => "a number",
        "a boolean" => "`True` or `False`",
        "a string" | "string or map" | "enum" => "a text",
        "a sequence" => "a list",
        expected => expected,
    }
}

fn in_python(found: &str) -> String {
    match found {
        "null" => "`None`".to_owned(),
        "boolean `true`" => "`True`".to_owned(),
        "boolean `false`" => "`False`".to_owned(),
        "sequence" => "a list".to_owned(),
        "map" => "a dictionary".to_owned(),
        found => match found.split_once(' ') {
            Some(("integer", number)) => number.to_owned(),
            Some(("string", text)) => format!("`{text}`"),
            _ => found.strip_prefix("floating point ").unwrap_or(found).to_owned(),
        },
    }
}
