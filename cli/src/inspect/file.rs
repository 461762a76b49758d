//! Inspects a shard or an index.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gular_bundle::{BlockTree, ReadAt, SafetensorsHeader};
use serde_json::{Value, json};

use super::describe::text_of;
use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show;

/// Prints the header and the digest of a safetensors file.
pub(super) fn tensor_file(file: &ReadAt, output: &Output) -> Result<Exit, Failure> {
    let header = SafetensorsHeader::read(file)?;
    let metadata: BTreeMap<&str, &str> =
        header.metadata.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let tensors: Vec<Value> = header
        .tensors
        .iter()
        .filter(|t| !t.name.starts_with("_pad."))
        .map(|t| json!({"name": t.name, "dtype": t.dtype, "shape": t.shape, "start": t.start, "end": t.end}))
        .collect();
    let digest = BlockTree::of_file(file)?.digest();
    let mut text = format!(
        "{} {digest}\n{}\n\n",
        show::plain(metadata.get("format").unwrap_or(&"safetensors")),
        show::size(file.len_bytes())
    );
    for (name, value) in &metadata {
        let _ = writeln!(text, "{}: {}", show::plain(name), show::plain(value));
    }
    let _ = writeln!(
        text,
        "\n{:<24}{:<6}{:<20}{:>14}{:>14}",
        "tensor", "dtype", "shape", "start", "end"
    );
    for t in &tensors {
        let _ = writeln!(
            text,
            "{:<24}{:<6}{:<20}{:>14}{:>14}",
            show::plain(&text_of(&t["name"])),
            text_of(&t["dtype"]),
            t["shape"].to_string(),
            t["start"].to_string(),
            t["end"].to_string()
        );
    }
    let value = json!({"digest": digest.to_string(), "bytes": file.len_bytes(), "metadata": metadata, "tensors": tensors});
    show::value(&value, &text, output)?;
    Ok(Exit::Done)
}
