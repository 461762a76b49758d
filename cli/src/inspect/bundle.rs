//! A bundle's folder.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gular_bundle::{Bundle, ShardIdx, Split};
use serde_json::{Value, json};

use super::args::InspectArgs;
use super::describe::{self, COUNTED_INDEX_BYTES, Counts, text_of};
use super::here::Here;
use super::{samples, sheet};
use crate::exit::{Exit, Failure};
use crate::progress::counter;
use crate::shared::Output;
use crate::show;

/// Everything about the bundle that was asked for.
pub(super) fn bundle(
    bundle: &Bundle,
    args: &InspectArgs,
    output: &Output,
) -> Result<Exit, Failure> {
    let here = Here::of(bundle);
    if let Some(key) = &args.extract {
        return samples::extract(bundle, &here, key);
    }
    let manifest = bundle.manifest();
    let counts = class_counts(bundle, &here, output)?;
    let mut value = describe::json(manifest, bundle.digest(), counts.as_ref());
    let mut text = describe::text(manifest, bundle.digest(), counts.as_ref());
    if !here.is_whole() {
        let missing = |split: &Split| (split.to_string(), here.missing_of(manifest, *split).0);
        let missing: BTreeMap<String, u64> = Split::ALL.iter().map(missing).collect();
        value["missing_files"] = json!(missing);
        let _ = write!(text, "\n{}", here.text(manifest));
    }
    if args.samples > 0 {
        let rows = samples::rows(bundle, &here, args.samples)?;
        text.push('\n');
        for row in &rows {
            let _ = writeln!(
                text,
                "{:<6}{:>5}{:>14}{:>11}  {}",
                text_of(&row["split"]),
                text_of(&row["label"]),
                text_of(&row["offset"]),
                text_of(&row["bytes"]),
                text_of(&row["key"])
            );
        }
        value["sample_list"] = Value::Array(rows);
    }
    if let Some(out) = &args.sheet {
        let sheet::Shown { images, left_out } = sheet::write(bundle, &here, out, args.seed)?;
        for reason in &left_out {
            show::message("warning", &format!("not on the sheet: {reason}"));
        }
        let _ = writeln!(text, "\ncontact sheet: {images} images in `{}`", out.display());
        value["sheet"] = json!({"path": out, "images": images, "left_out": left_out});
    }
    show::value(&value, &text, output)?;
    Ok(Exit::Done)
}

/// Of the splits that are here whole.
fn class_counts(bundle: &Bundle, here: &Here, output: &Output) -> Result<Option<Counts>, Failure> {
    let manifest = bundle.manifest();
    let listings = manifest.shards.iter().flat_map(gular_bundle::ShardEntry::listings);
    let index_bytes: u64 = listings.map(|file| file.bytes).sum();
    if manifest.classes.is_empty() || index_bytes > COUNTED_INDEX_BYTES {
        return Ok(None);
    }
    let bar = counter("indexes", output);
    let mut counts = Counts::new();
    for (i, entry) in manifest.shards.iter().enumerate() {
        if here.missing_of(manifest, entry.split).0 > 0 {
            continue;
        }
        let shard = bundle.shard(ShardIdx(i))?;
        let of_split = counts.entry(entry.split).or_insert_with(|| vec![0; manifest.classes.len()]);
        for label in shard.index()?.labels() {
            if let Some(n) = usize::try_from(label).ok().and_then(|l| of_split.get_mut(l)) {
                *n += 1;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Some(counts))
}
