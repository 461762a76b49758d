//! Describes a manifest as JSON and as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gular_bundle::{Digest, FieldKind, Manifest, Split, Statistics};
use serde_json::{Value, json};

use crate::{class_table, show};

/// Most names of bands that are shown.
const MOST_BANDS: usize = 16;

/// Class counts need every index; above this many bytes of them they are left out.
pub(super) const COUNTED_INDEX_BYTES: u64 = 1 << 30;

/// Samples of each class, for each split.
pub(super) type Counts = BTreeMap<Split, Vec<u64>>;

fn split_totals(manifest: &Manifest) -> Vec<(Split, u64, u64, usize)> {
    let mut totals = Vec::new();
    for split in Split::ALL {
        let (mut samples, mut bytes, mut shards) = (0, 0, 0);
        for s in manifest.of_split(split) {
            samples += s.samples;
            bytes += s.bytes();
            shards += 1;
        }
        if shards > 0 {
            totals.push((split, samples, bytes, shards));
        }
    }
    totals
}

pub(super) fn json(manifest: &Manifest, digest: Digest, counts: Option<&Counts>) -> Value {
    let splits: BTreeMap<String, Value> = split_totals(manifest)
        .into_iter()
        .map(|(split, samples, bytes, shards)| {
            let classes: Option<BTreeMap<&str, u64>> =
                counts.and_then(|c| c.get(&split)).map(|n| {
                    manifest.classes.iter().map(String::as_str).zip(n.iter().copied()).collect()
                });
            (
                split.to_string(),
                json!({"samples": samples, "bytes": bytes, "shards": shards, "classes": classes}),
            )
        })
        .collect();
    let statistics = manifest.statistics.as_ref();
    let (of_all, of_valid) = (
        statistics.filter(|found| found.counts.is_empty()),
        statistics.filter(|found| !found.counts.is_empty()),
    );
    json!({
        "digest": digest.to_string(), "format": "gular-bundle", "version": manifest.version(),
        "envelope": manifest.envelope, "payload": manifest.payload, "fields": manifest.fields,
        "classes": manifest.classes, "splits": splits, "made": manifest.made, "about": manifest.about,
        "statistics": of_all, "channel_statistics": of_valid,
        "shards": manifest.shards,
    })
}

pub(super) fn text(manifest: &Manifest, digest: Digest, counts: Option<&Counts>) -> String {
    let mut text = format!("bundle {digest}\n");
    let about = &manifest.about;
    for (name, value) in [
        ("name", &about.name),
        ("description", &about.description),
        ("licence", &about.licence),
        ("citation", &about.citation),
        ("source", &about.source),
    ] {
        if let Some(value) = value {
            let _ = writeln!(text, "{name}: {}", show::plain(value));
        }
    }
    let quoted = |v: &Value| text_of(v);
    let _ = writeln!(
        text,
        "envelope {}, payload {}",
        quoted(&json!(manifest.envelope)),
        quoted(&json!(manifest.payload))
    );
    for field in &manifest.fields {
        let kind = match &field.kind {
            FieldKind::Bytes { media_types } => media_types.join(" or "),
            FieldKind::Fixed { dtype, shape } if shape.is_empty() => {
                format!("{}, one number per sample", quoted(&json!(dtype)))
            }
            FieldKind::Fixed { dtype, shape } => format!("{} {shape:?}", quoted(&json!(dtype))),
        };
        let axes = field.axes.as_ref().filter(|_| !field.is_bytes());
        let axes = axes.map_or_else(String::new, |axes| format!(" {axes}"));
        let grid = if field.grid.is_some() { ", on the image's pixels" } else { "" };
        let nodata = field.nodata.as_ref().map(|nodata| format!(", nodata {}", nodata.as_str()));
        let nodata = nodata.unwrap_or_default();
        let _ = writeln!(text, "field {}: {kind}{axes}{grid}{nodata}", field.name);
        if !field.bands.is_empty() {
            let names: Vec<&str> = field.bands.iter().map(|band| band.name.as_str()).collect();
            let more = if names.len() > MOST_BANDS { ", …" } else { "" };
            let shown = names.get(..names.len().min(MOST_BANDS)).unwrap_or_default();
            let _ = writeln!(text, "bands of {}: {}{more}", field.name, shown.join(", "));
        }
    }
    if let Some([mean, deviation]) = manifest.statistics.as_ref().map(mean_and_deviation) {
        let _ = writeln!(text, "pixels of train: mean {mean}, standard deviation {deviation}");
    }
    let _ = writeln!(text, "\n{:<8}{:>12}{:>12}{:>9}", "split", "samples", "bytes", "shards");
    for (split, samples, bytes, shards) in split_totals(manifest) {
        let _ = writeln!(
            text,
            "{:<8}{samples:>12}{:>12}{shards:>9}",
            split.to_string(),
            show::size(bytes)
        );
    }
    classes_text(&mut text, manifest, counts);
    if manifest.shards.len() <= 20 {
        text.push('\n');
        for s in &manifest.shards {
            let _ = writeln!(
                text,
                "{:<44}{:>12}{:>18}",
                s.file.name.to_string(),
                show::size(s.file.bytes),
                show::count(s.samples, "sample")
            );
        }
    }
    text
}

/// The mean and standard deviation of each channel, in the units of the stored pixels; `-` for a
/// channel without a value.
fn mean_and_deviation(statistics: &Statistics) -> [String; 2] {
    let moments = statistics.moments();
    let list = |which: usize| {
        let text = |of: &Option<[f64; 2]>| {
            of.as_ref().map_or_else(|| "-".to_owned(), |of| format!("{:.3}", of[which]))
        };
        moments.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    [list(0), list(1)]
}

fn classes_text(text: &mut String, manifest: &Manifest, counts: Option<&Counts>) {
    if manifest.classes.is_empty() {
        return;
    }
    let splits: Vec<Split> = split_totals(manifest).into_iter().map(|t| t.0).collect();
    // If samples may have several classes, the index does not count them.
    let counted = counts.filter(|_| manifest.fields.iter().any(gular_bundle::Field::is_label));
    let row = |(i, class): (usize, &String)| {
        let of_split = |split| counted.and_then(|c| c.get(split)).and_then(|c| c.get(i)).copied();
        (format!("{i} {class}"), splits.iter().map(of_split).collect())
    };
    let rows = manifest.classes.iter().enumerate().map(row);
    text.push_str(&class_table::classes(&splits, manifest.classes.len(), rows));
    if counts.is_none() {
        let limit = show::size(COUNTED_INDEX_BYTES);
        let _ =
            writeln!(text, "(counting needs every index, and is done for up to {limit} of them)");
    }
}

/// A JSON value as it reads in a text: without quotes.
pub(super) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
