//! `gular inspect`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gular_bundle::{
    Backend, Bundle, Digest, FieldKind, Header, Manifest, OpenOptions, ReadAt, SampleId, Split,
};
use serde_json::{Value, json};

use crate::args::{InspectArgs, Output};
use crate::exit::{Exit, Failure};
use crate::progress::counter;
use crate::{sheet, show};

/// Class counts need every index; above this many bytes of them they are left out.
const COUNTED_INDEX_BYTES: u64 = 1 << 30;

pub(crate) fn run(args: &InspectArgs, output: &Output) -> Result<Exit, Failure> {
    let path = &args.path;
    if path.is_dir() {
        return bundle(args, output);
    }
    let only_bundles = if args.sheet.is_some() {
        Some("--sheet")
    } else {
        args.extract.as_ref().map(|_| "--extract")
    };
    if let Some(flag) = only_bundles {
        let hint = "name the folder that holds `manifest.json`".to_owned();
        return Err(Failure::new(
            format!("`{flag}` needs a bundle's folder, `{}` is a file", path.display()),
            Some(hint),
        ));
    }
    let file = ReadAt::open(path, Backend::Pread)?;
    let mut first = [0; 1];
    if file.len_bytes() > 0 {
        file.read_at(0, &mut first)?;
    }
    if first == *b"{" {
        let bytes = std::fs::read(path)
            .map_err(|e| Failure::new(format!("cannot read `{}`: {e}", path.display()), None))?;
        let manifest = Manifest::parse(&path.display().to_string(), &bytes)?;
        let value = describe(&manifest, Digest::of(&bytes), None);
        return emit(&value, &manifest_text(&manifest, Digest::of(&bytes), None), output);
    }
    tensor_file(&file, output)
}

fn emit(value: &Value, text: &str, output: &Output) -> Result<Exit, Failure> {
    if output.json {
        show::json(value)?;
    } else {
        show::stdout(text)?;
    }
    Ok(Exit::Done)
}

/// Samples of each class, for each split.
type Counts = BTreeMap<Split, Vec<u64>>;

fn bundle(args: &InspectArgs, output: &Output) -> Result<Exit, Failure> {
    let bundle = Bundle::open(&args.path, OpenOptions::default())?;
    if let Some(key) = &args.extract {
        return extract(&bundle, key, output);
    }
    let manifest = bundle.manifest();
    let counts = class_counts(&bundle, output)?;
    let mut value = describe(manifest, bundle.digest(), counts.as_ref());
    let mut text = manifest_text(manifest, bundle.digest(), counts.as_ref());
    if args.samples > 0 {
        let rows = sample_rows(&bundle, args.samples)?;
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
        let shown = sheet::write(&bundle, out, args.seed)?;
        let _ = writeln!(text, "\ncontact sheet: {shown} images in `{}`", out.display());
        value["sheet"] = json!({"path": out, "images": shown});
    }
    emit(&value, &text, output)
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn class_counts(bundle: &Bundle, output: &Output) -> Result<Option<Counts>, Failure> {
    let manifest = bundle.manifest();
    let index_bytes: u64 = manifest.shards.iter().map(|s| s.index.bytes).sum();
    if manifest.classes.is_empty() || index_bytes > COUNTED_INDEX_BYTES {
        return Ok(None);
    }
    let bar = counter("indexes", output);
    let mut counts = Counts::new();
    for (i, entry) in manifest.shards.iter().enumerate() {
        let shard = bundle.shard(i)?;
        let of_split = counts.entry(entry.split).or_insert_with(|| vec![0; manifest.classes.len()]);
        for label in shard.index().labels.iter().flatten() {
            if let Some(n) = usize::try_from(*label).ok().and_then(|l| of_split.get_mut(l)) {
                *n += 1;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Some(counts))
}

fn sample_rows(bundle: &Bundle, most: usize) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    for (number, entry) in bundle.manifest().shards.iter().enumerate() {
        let shard = bundle.shard(number)?;
        for row in 0..shard.index().n_samples() {
            if rows.len() == most {
                return Ok(rows);
            }
            let range = shard.index().locations.first().and_then(|l| l.range(row));
            let (offset, bytes) = range.unwrap_or_default();
            rows.push(json!({
                "split": entry.split, "shard": entry.file.name, "row": row,
                "key": shard.index().key(row).unwrap_or_default(),
                "label": shard.label(row), "offset": offset, "bytes": bytes,
                "digest": shard.index().digests.first().and_then(|d| d.get(row)).map(|d| Digest::from_bytes(*d).to_string()),
            }));
        }
    }
    Ok(rows)
}

fn extract(bundle: &Bundle, key: &str, _output: &Output) -> Result<Exit, Failure> {
    use std::io::Write as _;
    for number in 0..bundle.manifest().shards.len() {
        let shard = bundle.shard(number)?;
        let found = (0..shard.index().n_samples()).find(|row| shard.index().key(*row) == Some(key));
        if let Some(row) = found {
            let mut bytes = Vec::new();
            bundle.read(SampleId { shard: number, row }, 0, &mut bytes)?;
            let mut out = std::io::stdout().lock();
            out.write_all(&bytes)?;
            out.flush()?;
            return Ok(Exit::Done);
        }
    }
    let hint = "`gular inspect BUNDLE --samples 10` shows what keys look like".to_owned();
    Err(Failure::new(format!("the bundle has no sample `{}`", key.escape_debug()), Some(hint)))
}

fn split_totals(manifest: &Manifest) -> Vec<(Split, u64, u64, usize)> {
    let mut totals = Vec::new();
    for split in Split::ALL {
        let (mut samples, mut bytes, mut shards) = (0, 0, 0);
        for s in manifest.of_split(split) {
            samples += s.samples;
            bytes += s.file.bytes + s.index.bytes;
            shards += 1;
        }
        if shards > 0 {
            totals.push((split, samples, bytes, shards));
        }
    }
    totals
}

fn describe(manifest: &Manifest, digest: Digest, counts: Option<&Counts>) -> Value {
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
    json!({
        "digest": digest.to_string(), "format": "gular-bundle", "version": gular_bundle::VERSION,
        "envelope": manifest.envelope, "payload": manifest.payload, "fields": manifest.fields,
        "classes": manifest.classes, "splits": splits, "made": manifest.made, "about": manifest.about,
        "shards": manifest.shards,
    })
}

fn manifest_text(manifest: &Manifest, digest: Digest, counts: Option<&Counts>) -> String {
    let mut text = format!("bundle {digest}\n");
    let about = &manifest.about;
    for (name, value) in [
        ("name", &about.name),
        ("description", &about.description),
        ("licence", &about.licence),
        ("citation", &about.citation),
    ] {
        if let Some(value) = value {
            let _ = writeln!(text, "{name}: {value}");
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
            FieldKind::Fixed { dtype, shape } => format!("{} {shape:?}", quoted(&json!(dtype))),
        };
        let _ = writeln!(text, "field {}: {kind}", field.name);
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
                "{:<44}{:>12}{:>10} samples",
                s.file.name.to_string(),
                show::size(s.file.bytes),
                s.samples
            );
        }
    }
    text
}

/// At most this many classes are listed as text; JSON has all.
const CLASSES_SHOWN: usize = 50;

fn classes_text(text: &mut String, manifest: &Manifest, counts: Option<&Counts>) {
    if manifest.classes.is_empty() {
        return;
    }
    let splits: Vec<Split> = split_totals(manifest).into_iter().map(|t| t.0).collect();
    let _ = write!(text, "\n{:<24}", "class");
    for split in &splits {
        let _ = write!(text, "{:>10}", split.to_string());
    }
    text.push('\n');
    for (i, class) in manifest.classes.iter().enumerate().take(CLASSES_SHOWN) {
        let _ = write!(text, "{:<24}", format!("{i} {class}"));
        for split in &splits {
            let n = counts.and_then(|c| c.get(split)).and_then(|c| c.get(i));
            let _ = write!(text, "{:>10}", n.map_or("?".to_owned(), u64::to_string));
        }
        text.push('\n');
    }
    if manifest.classes.len() > CLASSES_SHOWN {
        let _ =
            writeln!(text, "… {} more; `--json` lists all", manifest.classes.len() - CLASSES_SHOWN);
    }
    if counts.is_none() {
        let _ = writeln!(
            text,
            "(counts need every index, over {} here)",
            show::size(COUNTED_INDEX_BYTES)
        );
    }
}

fn tensor_file(file: &ReadAt, output: &Output) -> Result<Exit, Failure> {
    let header = Header::read(file)?;
    let metadata: BTreeMap<&str, &str> =
        header.metadata.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let tensors: Vec<Value> = header
        .tensors
        .iter()
        .filter(|t| !t.name.starts_with("_pad."))
        .map(|t| json!({"name": t.name, "dtype": t.dtype, "shape": t.shape, "start": t.start, "end": t.end}))
        .collect();
    let digest = digest_of(file)?;
    let mut text = format!(
        "{} {digest}\n{}\n\n",
        metadata.get("format").unwrap_or(&"safetensors"),
        show::size(file.len_bytes())
    );
    for (name, value) in &metadata {
        let _ = writeln!(text, "{name}: {value}");
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
            text_of(&t["name"]),
            text_of(&t["dtype"]),
            t["shape"].to_string(),
            t["start"].to_string(),
            t["end"].to_string()
        );
    }
    let value = json!({"digest": digest.to_string(), "bytes": file.len_bytes(), "metadata": metadata, "tensors": tensors});
    emit(&value, &text, output)
}

fn digest_of(file: &ReadAt) -> Result<Digest, Failure> {
    let n = gular_bundle::n_blocks(file.len_bytes());
    let mut cvs = Vec::new();
    let mut buffer = vec![0; gular_bundle::BLOCK_BYTES];
    for block in 0..n {
        let start = block * gular_bundle::BLOCK_BYTES as u64;
        let len = (file.len_bytes() - start).min(gular_bundle::BLOCK_BYTES as u64);
        let piece = &mut buffer[..usize::try_from(len).unwrap_or(0)];
        file.read_at(start, piece)?;
        cvs.push(gular_bundle::block_cv(block, piece, n == 1));
    }
    Ok(gular_bundle::merge(&cvs).unwrap_or_else(|| Digest::of(b"")))
}
