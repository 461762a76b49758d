//! Describes a bundle in Croissant 1.0, the vocabulary of dataset search engines.
//!
//! Format: <https://docs.mlcommons.org/croissant/docs/croissant-spec.html>.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::{Bundle, Envelope, MANIFEST_NAME, Manifest, OpenOptions, ShardIdx, Split};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::facts::RunError;
use crate::packing::Progress;

/// Describes the bundle in folder `source`: every file with its SHA-256, the classes and the
/// splits. The published manifest is in folder `url`, and the data in `data` beside that folder;
/// without `url` all is as it is in `source`, beside the description. Every byte is read, and
/// checked on its way.
///
/// # Errors
/// See [`Error`].
pub fn croissant(
    source: &Path,
    url: Option<&str>,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<Value, Error> {
    let bundle = Bundle::open(source, OpenOptions::default())?;
    bundle.check_lengths()?;
    let manifest = bundle.manifest();
    let bytes = manifest.files().map(|file| file.bytes).sum();
    progress(Progress::Planned(manifest.shards.len() as u64, bytes));
    let (of_manifest, of_data) = url.map_or((String::new(), "data/".to_owned()), places);
    let mut files = Vec::new();
    let mut seen = HashSet::new();
    for (number, shard) in ShardIdx::first(manifest.shards.len()).zip(&manifest.shards) {
        for file in shard.files().filter(|file| seen.insert(&file.name)) {
            let mut sha = Sha256::new();
            let mut take = |piece: &[u8]| {
                if cancel.load(Ordering::Relaxed) {
                    return Err(Error::from(RunError::Cancelled));
                }
                sha.update(piece);
                progress(Progress::Packed(0, piece.len() as u64));
                Ok(())
            };
            let name = file.name.as_str();
            let (what, encoding) = if file.name == shard.file.name {
                bundle.copy(number, 0..u64::MAX, |_, piece| take(piece))?;
                let what = format!("{} samples of {}", shard.samples, shard.split);
                (what, media_type(manifest.envelope))
            } else {
                take(&bundle.read_file(file)?)?;
                let what = if file.name == shard.index.name { "index" } else { "view" };
                (format!("{what} of {}", shard.file.name), "application/octet-stream")
            };
            let url = format!("{of_data}{name}");
            files.push(object(name, &what, &url, file.bytes, encoding, &sha.finalize()));
        }
    }
    let json = std::fs::read(source.join(MANIFEST_NAME))
        .map_err(|e| Error::io("read", source.join(MANIFEST_NAME), e))?;
    let what = format!("lists all files with their digests; its own is {}", bundle.digest());
    let (url, bytes) = (format!("{of_manifest}{MANIFEST_NAME}"), json.len() as u64);
    let sha = Sha256::digest(&json);
    files.push(object(MANIFEST_NAME, &what, &url, bytes, "application/json", &sha));
    let mut text = Map::new();
    text.insert("@context".to_owned(), context());
    text.insert("@type".to_owned(), json!("sc:Dataset"));
    text.insert("conformsTo".to_owned(), json!("http://mlcommons.org/croissant/1.0"));
    about(&mut text, &bundle, source);
    text.insert("distribution".to_owned(), json!(files));
    text.insert("recordSet".to_owned(), json!(record_sets(manifest)));
    Ok(Value::Object(text))
}

/// The published URLs of the manifest and of the data, for a bundle at `url`.
fn places(url: &str) -> (String, String) {
    let folder = url.split('#').next().unwrap_or(url).trim_end_matches('/');
    // A host has no folder above it.
    let above = folder.rsplit_once('/').filter(|(above, _)| !above.ends_with('/'));
    let above = above.map_or(folder, |(above, _)| above);
    (format!("{folder}/"), format!("{above}/data/"))
}

fn object(name: &str, what: &str, url: &str, bytes: u64, encoding: &str, sha256: &[u8]) -> Value {
    json!({
        "@type": "cr:FileObject", "@id": name, "name": name,
        "description": what,
        "contentUrl": url,
        "contentSize": format!("{bytes} B"),
        "encodingFormat": encoding,
        "sha256": hex(sha256),
    })
}

fn about(text: &mut Map<String, Value>, bundle: &Bundle, source: &Path) {
    let about = &bundle.manifest().about;
    let folder = source.canonicalize().ok();
    let folder = folder.as_deref().and_then(Path::file_name).map(|n| n.to_string_lossy());
    let name = about.name.as_deref().or(folder.as_deref()).unwrap_or("bundle");
    text.insert("name".to_owned(), json!(name));
    let described = about.description.clone().unwrap_or_else(|| described(bundle.manifest()));
    text.insert("description".to_owned(), json!(described));
    if let Some(licence) = &about.licence {
        text.insert("license".to_owned(), json!(licence_url(licence)));
    }
    if let Some(citation) = &about.citation {
        text.insert("citeAs".to_owned(), json!(citation));
    }
    if let Some(source) = &about.source {
        let name = if source.contains("://") { "url" } else { "creditText" };
        text.insert(name.to_owned(), json!(source));
    }
}

/// A generated description, for bundles that have none.
fn described(manifest: &Manifest) -> String {
    let splits: Vec<String> = Split::ALL
        .iter()
        .map(|split| (split, manifest.n_samples(*split)))
        .filter(|(_, n)| *n > 0)
        .map(|(split, n)| format!("{n} of {split}"))
        .collect();
    let fields: Vec<&str> = manifest.fields.iter().map(|f| f.name.as_str()).collect();
    format!("Samples: {}. Fields: {}.", splits.join(", "), fields.join(", "))
}

/// The page of one SPDX identifier; an expression of several as it is.
fn licence_url(licence: &str) -> String {
    let is_id = !licence.starts_with("LicenseRef-")
        && licence.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    if is_id { format!("https://spdx.org/licenses/{licence}.html") } else { licence.to_owned() }
}

fn media_type(envelope: Envelope) -> &'static str {
    match envelope {
        Envelope::Parquet => "application/vnd.apache.parquet",
        Envelope::Arrow => "application/vnd.apache.arrow.stream",
        Envelope::Hdf5 => "application/x-hdf5",
        Envelope::Tar => "application/x-tar",
        Envelope::Shards | Envelope::Squashfs | Envelope::Mds | Envelope::Ffcv => {
            "application/octet-stream"
        }
    }
}

/// Tables that are in the description itself: splits, and classes.
fn record_sets(manifest: &Manifest) -> Vec<Value> {
    let field = |set: &str, name: &str, kind: &str| json!({"@type": "cr:Field", "@id": format!("{set}/{name}"), "name": name, "dataType": kind});
    let splits = Split::ALL.iter().filter(|split| manifest.n_samples(**split) > 0);
    let splits: Vec<Value> = splits
        .map(|split| {
            let url = match split {
                Split::Train => "cr:TrainingSplit",
                Split::Val => "cr:ValidationSplit",
                Split::Test => "cr:TestSplit",
            };
            json!({"splits/name": split.to_string(), "splits/url": url})
        })
        .collect();
    let mut sets = vec![json!({
        "@type": "cr:RecordSet", "@id": "splits", "name": "splits",
        "dataType": "cr:Split", "key": {"@id": "splits/name"},
        "field": [field("splits", "name", "sc:Text"), field("splits", "url", "sc:URL")],
        "data": splits,
    })];
    if !manifest.classes.is_empty() {
        let classes = manifest.classes.iter().enumerate();
        let classes: Vec<Value> = classes
            .map(|(label, name)| json!({"classes/label": label, "classes/name": name}))
            .collect();
        sets.push(json!({
            "@type": "cr:RecordSet", "@id": "classes", "name": "classes",
            "key": {"@id": "classes/label"},
            "field": [field("classes", "label", "sc:Integer"), field("classes", "name", "sc:Text")],
            "data": classes,
        }));
    }
    sets
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The context that the specification recommends.
fn context() -> Value {
    let own = [
        "citeAs",
        "column",
        "equivalentProperty",
        "extract",
        "field",
        "fileObject",
        "fileProperty",
        "fileSet",
        "format",
        "includes",
        "isLiveDataset",
        "jsonPath",
        "key",
        "md5",
        "parentField",
        "path",
        "recordSet",
        "references",
        "regex",
        "repeated",
        "samplingRate",
        "replace",
        "separator",
        "source",
        "subField",
        "transform",
    ];
    let mut context: Map<String, Value> =
        own.iter().map(|name| ((*name).to_owned(), json!(format!("cr:{name}")))).collect();
    for (name, value) in [
        ("@language", json!("en")),
        ("@vocab", json!("https://schema.org/")),
        ("sc", json!("https://schema.org/")),
        ("cr", json!("http://mlcommons.org/croissant/")),
        ("rai", json!("http://mlcommons.org/croissant/RAI/")),
        ("dct", json!("http://purl.org/dc/terms/")),
        ("conformsTo", json!("dct:conformsTo")),
        ("data", json!({"@id": "cr:data", "@type": "@json"})),
        ("examples", json!({"@id": "cr:examples", "@type": "@json"})),
        ("dataType", json!({"@id": "cr:dataType", "@type": "@vocab"})),
    ] {
        context.insert(name.to_owned(), value);
    }
    Value::Object(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_where_publish_puts_them() {
        let of = |url| places(url);
        let expected = ("https://h/birds/v1/".to_owned(), "https://h/birds/data/".to_owned());
        assert_eq!(of("https://h/birds/v1"), expected);
        assert_eq!(of("https://h/birds/v1/#blake3=ab"), expected);
        assert_eq!(of("https://h"), ("https://h/".to_owned(), "https://h/data/".to_owned()));
    }
}
