//! `manifest.json`, which lists the parts of a bundle. Format: `FORMAT.md`, "Manifest".
//!
//! ```text
//! {"format":"gular-bundle","version":1,
//! "envelope":"shards",
//! …
//! "shards":[
//! {"split":"train","name":"train-….safetensors","bytes":…,"samples":…,"blake3":"…","index":{…}},
//! …
//! ]}
//! ```

mod about;
mod entry;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use gular_files::TEMP_PREFIX;
use serde::{Deserialize, Serialize};

use crate::{Axes, BundlePath, Digest, Dtype, Envelope, Error, Field, FieldIdx, FieldKind, Split};

pub use about::{About, MadeValue, Statistics};
use about::{OfAll, OfValid};
pub use entry::{FileEntry, ShardEntry};

/// The file name of a manifest.
pub const MANIFEST_NAME: &str = "manifest.json";
/// The folder of shards and indexes beside a local manifest.
pub const DATA_DIR: &str = "data";
/// Manifests above this are refused: 256 MiB describes 750,000 shards.
pub const MAX_MANIFEST_BYTES: u64 = 256 << 20;
/// Indexes above this are refused: 1 GiB describes ten million samples.
pub const MAX_INDEX_BYTES: u64 = 1 << 30;
/// JSON nested deeper than this is refused.
const MAX_DEPTH: u32 = 128;
/// More samples than this in one shard are refused; the index counts in 32 bits.
pub const MAX_SHARD_SAMPLES: u64 = i32::MAX as u64;

/// Lists all parts of a bundle; the digest of its canonical bytes identifies the bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The file format of all shards.
    pub envelope: Envelope,
    /// How the images are stored.
    pub payload: Payload,
    /// The parts of every sample, `image` first.
    pub fields: Vec<Field>,
    /// Class names; a sample's `label` is a position in this list.
    pub classes: Vec<String>,
    /// How the bundle was made: options that chose its content.
    pub made: BTreeMap<String, MadeValue>,
    /// What people should know about the dataset.
    pub about: About,
    /// Sums over decoded pixels, when they were decoded.
    pub statistics: Option<Statistics>,
    /// All shards, ordered by split, then as in the plan.
    pub shards: Vec<ShardEntry>,
}

/// How the images were changed when they were packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// Bytes as they were found.
    Encoded,
    /// Encoded again, at a chosen size and quality.
    Reencoded,
    /// Decoded to a fixed shape.
    Raw,
}

/// The first two members, which are read before the rest, whose rules depend on them.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u64,
}

#[derive(Deserialize)]
struct Body {
    envelope: Envelope,
    payload: Payload,
    fields: Vec<Field>,
    #[serde(default)]
    classes: Vec<String>,
    made: BTreeMap<String, MadeValue>,
    #[serde(default)]
    about: About,
    #[serde(default)]
    statistics: Option<OfAll>,
    #[serde(default)]
    channel_statistics: Option<OfValid>,
    shards: Vec<ShardEntry>,
}

/// Writes `manifest.json` of a complete bundle into folder `dir`; returns the bundle digest.
///
/// # Errors
/// [`Error::Io`]; [`Error::Malformed`] when the manifest breaks a rule of the
/// format, [`Error::TooLarge`] when it has too many shards.
pub fn write_manifest(dir: &Path, manifest: &Manifest) -> Result<Digest, Error> {
    let path = dir.join(MANIFEST_NAME);
    let bytes = manifest.to_bytes();
    Manifest::parse(&path.display().to_string(), &bytes)?;
    gular_files::write_file(&path, &bytes)?;
    Ok(Digest::of(&bytes))
}

impl Manifest {
    /// Reads a manifest; `path` is for messages.
    ///
    /// Unknown members are ignored.
    ///
    /// # Errors
    /// [`Error::Format`], [`Error::TooNew`], [`Error::TooLarge`], or
    /// [`Error::Malformed`] naming the rule of `FORMAT.md` that is broken.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, Error> {
        let found = bytes.len() as u64;
        if found > MAX_MANIFEST_BYTES {
            let what = "a manifest";
            return Err(Error::TooLarge {
                path: path.to_owned(),
                what,
                found,
                limit: MAX_MANIFEST_BYTES,
            });
        }
        if depth(bytes) > MAX_DEPTH {
            return Err(Error::malformed(path, format!("it is nested deeper than {MAX_DEPTH}")));
        }
        let head: Head = json_of(path, bytes)?;
        let expected = "gular-bundle";
        if head.format != expected {
            let found = format!("`{}`", head.format.escape_debug());
            return Err(Error::Format { path: path.to_owned(), expected, found });
        }
        if head.version > crate::MANIFEST_VERSION {
            let (found, supported) = (head.version, crate::MANIFEST_VERSION);
            return Err(Error::TooNew { path: path.to_owned(), found, supported });
        }
        if head.version == 0 {
            return Err(Error::malformed(path, "its version is 0, expected 1 or more"));
        }
        let b: Body = json_of(path, bytes)?;
        let statistics = match (b.statistics, b.channel_statistics) {
            (Some(_), Some(_)) => {
                let reason = "it has both `statistics` and `channel_statistics`, expected one";
                return Err(Error::malformed(path, reason));
            }
            (of_all, of_valid) => of_all.map(Into::into).or(of_valid.map(Into::into)),
        };
        let manifest = Self {
            envelope: b.envelope,
            payload: b.payload,
            fields: b.fields,
            classes: b.classes,
            made: b.made,
            about: b.about,
            statistics,
            shards: b.shards,
        };
        if head.version == 1 && manifest.is_derived() {
            return Err(Error::malformed(
                path,
                "its version is 1, which has no views, but a shard lists one",
            ));
        }
        match manifest.fault() {
            Some(reason) => Err(Error::malformed(path, reason)),
            None => Ok(manifest),
        }
    }

    /// The canonical bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{{\"format\":\"gular-bundle\",\"version\":{}", self.version());
        let mut member = |name: &str, json: String| {
            text.push_str(&format!(",\n\"{name}\":{json}"));
        };
        member("envelope", json(&self.envelope));
        member("payload", json(&self.payload));
        member("fields", json(&self.fields));
        if !self.classes.is_empty() {
            member("classes", json(&self.classes));
        }
        member("made", json(&self.made));
        if self.about != About::default() {
            member("about", json(&self.about));
        }
        if let Some(statistics) = &self.statistics {
            let of_all = statistics.counts.is_empty();
            let name = if of_all { "statistics" } else { "channel_statistics" };
            member(name, json(statistics));
        }
        let shards: Vec<String> = self.shards.iter().map(json).collect();
        member("shards", format!("[\n{}\n]}}\n", shards.join(",\n")));
        text.into_bytes()
    }

    /// Returns the format version that the manifest is written in: the lowest that has all members
    /// used.
    #[must_use]
    pub fn version(&self) -> u64 {
        if self.is_derived() { crate::MANIFEST_VERSION } else { 1 }
    }

    /// Returns whether at least one shard has a view.
    #[must_use]
    pub fn is_derived(&self) -> bool {
        self.shards.iter().any(|shard| shard.view.is_some())
    }

    /// The bundle digest: BLAKE3 of the canonical bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.to_bytes())
    }

    /// The number of samples of `split`.
    #[must_use]
    pub fn n_samples(&self, split: Split) -> u64 {
        self.of_split(split).fold(0, |sum, s| sum.saturating_add(s.samples))
    }

    /// The shards of `split`, in their order.
    pub fn of_split(&self, split: Split) -> impl Iterator<Item = &ShardEntry> {
        self.shards.iter().filter(move |s| s.split == split)
    }

    /// Returns all files but the manifest, each once, even if two splits list the same shard.
    pub fn files(&self) -> impl Iterator<Item = &FileEntry> {
        let mut seen = HashSet::new();
        self.shards.iter().flat_map(ShardEntry::files).filter(move |file| seen.insert(&file.name))
    }

    /// All indexes and views, each once.
    pub fn listings(&self) -> impl Iterator<Item = &FileEntry> {
        let mut seen = HashSet::new();
        let listings = self.shards.iter().flat_map(ShardEntry::listings);
        listings.filter(move |file| seen.insert(&file.name))
    }

    /// The position of field `name`.
    ///
    /// # Errors
    /// [`Error::NoField`] lists the fields there are.
    pub fn field(&self, name: &str) -> Result<FieldIdx, Error> {
        let at = self.fields.iter().position(|f| f.name.as_str() == name);
        at.map(FieldIdx).ok_or_else(|| Error::NoField {
            field: name.escape_debug().to_string(),
            known: self
                .fields
                .iter()
                .map(|f| format!("`{}`", f.name))
                .collect::<Vec<_>>()
                .join(", "),
        })
    }

    /// The position of the pictures, field `image`.
    #[must_use]
    pub fn image(&self) -> Option<FieldIdx> {
        self.fields.iter().position(Field::is_image).map(FieldIdx)
    }

    /// Whether the sums in [`Manifest::statistics`] are also over pixels that have no value; see
    /// [`Statistics::sum_nodata`].
    #[must_use]
    pub fn sums_nodata(&self) -> bool {
        self.statistics.as_ref().is_some_and(|found| found.sum_nodata(&self.fields))
    }

    /// Whether samples have a class, field `label`.
    #[must_use]
    pub fn has_labels(&self) -> bool {
        self.fields.iter().any(Field::is_label)
    }

    /// Returns the first broken rule, in words.
    fn fault(&self) -> Option<String> {
        let statistics = self.statistics.as_ref().and_then(Statistics::fault);
        self.field_fault()
            .or_else(|| self.class_fault())
            .or_else(|| self.shard_fault())
            .or(statistics)
    }

    fn field_fault(&self) -> Option<String> {
        let mut names = HashSet::new();
        if self.fields.is_empty() || self.fields.len() > 256 {
            return Some(format!("it has {} fields, expected 1 to 256", self.fields.len()));
        }
        for field in &self.fields {
            if !names.insert(&field.name) {
                return Some(format!("field `{}` occurs twice", field.name));
            }
            if !field.is_bytes() && field.size_bytes().is_none_or(|n| n > i32::MAX as u64) {
                return Some(format!(
                    "a value of field `{}` would be larger than 2 GiB",
                    field.name
                ));
            }
            let axes_fault = field.axes.as_ref().and_then(|axes| match field.as_fixed() {
                Some((_, shape)) if shape.len() != axes.n() => {
                    Some(format!("`{axes}` of {shape:?}"))
                }
                None if ![Axes::yx(), Axes::yxc()].contains(axes) => {
                    Some(format!("`{axes}` of encoded values"))
                }
                _ => None,
            });
            if let Some(fault) = axes_fault {
                return Some(format!("field `{}` has the axes {fault}", field.name));
            }
            let scalar = FieldKind::Fixed { dtype: Dtype::I64, shape: Vec::new() };
            if field.is_label() && field.kind != scalar {
                return Some("field `label` is not a single i64 number per sample".to_owned());
            }
        }
        None
    }

    fn class_fault(&self) -> Option<String> {
        let mut names = HashSet::new();
        if self.classes.len() > i32::MAX as usize {
            return Some(format!("it has {} classes, more than allowed", self.classes.len()));
        }
        self.classes
            .iter()
            .find(|class| !names.insert(*class))
            .map(|class| format!("class `{}` occurs twice", class.escape_debug()))
    }

    fn shard_fault(&self) -> Option<String> {
        let mut samples = 0_u64;
        let mut bytes = 0_u64;
        let mut last = Split::Train;
        let mut files: HashMap<&BundlePath, &FileEntry> = HashMap::new();
        for (i, shard) in self.shards.iter().enumerate() {
            let name = &shard.file.name;
            if shard.split < last {
                return Some(format!(
                    "shard {i} `{name}` of split `{}` is listed after `{last}`, so the shards are not in order",
                    shard.split
                ));
            }
            last = shard.split;
            for file in shard.files() {
                if file.name.as_str().split('/').any(|part| part.starts_with(TEMP_PREFIX)) {
                    return Some(format!("`{}` is the name of a temporary file", file.name));
                }
                // Several entries may list the same file, such as a shard of two splits.
                if files.insert(&file.name, file).is_some_and(|other| other != file) {
                    return Some(format!(
                        "`{}` is listed twice, with different lengths or digests",
                        file.name
                    ));
                }
            }
            if shard.index.bytes > MAX_INDEX_BYTES {
                return Some(format!(
                    "the index of shard {i} `{name}` has {} bytes, more than the limit of {MAX_INDEX_BYTES}",
                    shard.index.bytes
                ));
            }
            if let Some(view) = shard.view.as_ref().filter(|view| view.bytes > MAX_INDEX_BYTES) {
                return Some(format!(
                    "the view of shard {i} `{name}` has {} bytes, more than the limit of {MAX_INDEX_BYTES}",
                    view.bytes
                ));
            }
            // A sample takes 9 bytes or more in an index: its key and the key's offset.
            let possible = shard.index.bytes / 9;
            if shard.samples == 0 || shard.samples > MAX_SHARD_SAMPLES.min(possible) {
                return Some(format!(
                    "shard {i} `{name}` has {} samples, but an index of {} bytes describes 1 to {possible}",
                    shard.samples, shard.index.bytes
                ));
            }
            let sum = shard.files().try_fold(bytes, |sum, file| sum.checked_add(file.bytes));
            let sum = sum.filter(|b| *b <= i64::MAX as u64);
            let (Some(b), Some(s)) = (sum, samples.checked_add(shard.samples)) else {
                return Some(format!("the sizes up to shard {i} `{name}` overflow 63 bits"));
            };
            (bytes, samples) = (b, s);
        }
        None
    }
}

/// Reads JSON. An error names the member, such as `shards[2].index.bytes`, and says what was
/// expected and found.
fn json_of<'de, T: Deserialize<'de>>(path: &str, bytes: &'de [u8]) -> Result<T, Error> {
    let wrong = |reason: String| Error::malformed(path, format!("it is not a manifest: {reason}"));
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read =
        serde_path_to_error::deserialize(&mut json).map_err(|e| match e.path().iter().next() {
            None => wrong(e.inner().to_string()),
            Some(_) => wrong(format!("`{}`: {}", e.path().to_string().escape_debug(), e.inner())),
        })?;
    json.end().map_err(|e| wrong(e.to_string()))?;
    Ok(read)
}

/// Returns how deeply objects and lists are nested. This is checked before parsing, since the
/// parser skips unknown members at any depth.
fn depth(json: &[u8]) -> u32 {
    let (mut now, mut most, mut in_text, mut escaped) = (0_u32, 0_u32, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                now = now.saturating_add(1);
                most = most.max(now);
            }
            b']' | b'}' if !in_text => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// Writes our own types as JSON with Serde: member order as declared, no spaces, integers only.
fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("maps have text keys and no value can fail to serialise")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Decimal, FieldName};

    pub(crate) fn example() -> Manifest {
        let file = |name: &str, bytes| FileEntry {
            name: BundlePath::parse(name).unwrap(),
            bytes,
            digest: Digest::of(name.as_bytes()),
        };
        let shard = |split: Split, n: u64| ShardEntry {
            split,
            file: file(&format!("{split}-0123456789abcde{n}.safetensors"), 1 << 30),
            samples: 9000 + n,
            index: file(&format!("{split}-fedcba987654321{n}.index.safetensors"), 900_000),
            view: None,
        };
        Manifest {
            envelope: Envelope::Shards,
            payload: Payload::Encoded,
            fields: vec![
                Field::bytes(FieldName::image(), vec!["image/png".into(), "image/jpeg".into()]),
                Field::label(),
            ],
            classes: vec!["cat".into(), "dög \"x\"".into()],
            made: [
                ("order".to_owned(), MadeValue::Text("shuffled".into())),
                ("seed".to_owned(), MadeValue::Number(7)),
            ]
            .into(),
            about: About { licence: Some("CC0-1.0".into()), ..About::default() },
            statistics: None,
            shards: vec![shard(Split::Train, 1), shard(Split::Train, 2), shard(Split::Val, 3)],
        }
    }

    #[test]
    fn manifest_round_trips_and_has_one_line_a_shard() {
        let manifest = example();
        let bytes = manifest.to_bytes();
        assert_eq!(Manifest::parse("m", &bytes).unwrap(), manifest);
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("{\"format\":\"gular-bundle\",\"version\":1,\n\"envelope\":"));
        let longest = text.lines().filter(|l| l.starts_with("{\"split\"")).map(str::len).max();
        assert!(longest.unwrap() <= 350, "{longest:?}");
        assert_eq!(text.lines().filter(|l| l.starts_with("{\"split\"")).count(), 3);
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
    }

    #[test]
    fn sums_over_valid_pixels_are_a_member_that_earlier_readers_ignore() {
        let texts =
            |texts: &[&str]| texts.iter().map(|text| Decimal::parse(text).unwrap()).collect();
        let sums = Statistics {
            pixels: 0,
            counts: vec![4, 0, 2],
            sum: texts(&["40", "0", "-2.5"]),
            sum_of_squares: texts(&["500", "0", "4"]),
        };
        assert_eq!(sums.moments(), [Some([10.0, 5.0]), None, Some([-1.25, 0.4375_f64.sqrt()])]);
        let of_all = Statistics { pixels: 4, counts: Vec::new(), ..sums.clone() };
        assert_eq!((of_all.count(2), sums.count(2)), (4, 2));
        let mut manifest = example();
        for (statistics, member) in [
            (of_all, "\n\"statistics\":{\"pixels\":4,\"sum\":[\"40\","),
            (sums, "\n\"channel_statistics\":{\"counts\":[4,0,2],\"sum\":[\"40\","),
        ] {
            manifest.statistics = Some(statistics);
            let bytes = manifest.to_bytes();
            assert_eq!(Manifest::parse("m", &bytes).unwrap(), manifest);
            assert!(String::from_utf8(bytes).unwrap().contains(member));
            manifest.fields[0].nodata = Some(crate::Nodata::of(f64::NAN));
            assert_eq!(manifest.sums_nodata(), member.contains("pixels"));
        }
        let text = String::from_utf8(manifest.to_bytes()).unwrap();
        for (from, to, word) in [
            ("[4,0,2]", "[4,0]", "2 counts, 3 sums"),
            ("{\"counts\":[4,0,2],", "{", "missing field `counts`"),
            (
                "\"shards\":[",
                "\"statistics\":{\"pixels\":1,\"sum\":[],\"sum_of_squares\":[]},\"shards\":[",
                "both `statistics` and `channel_statistics`",
            ),
        ] {
            let error = Manifest::parse("m", text.replacen(from, to, 1).as_bytes()).unwrap_err();
            assert!(error.to_string().contains(word), "{from} -> {to}: {error}");
        }
    }

    #[test]
    fn unknown_members_are_ignored() {
        let text = String::from_utf8(example().to_bytes()).unwrap();
        let more = text.replacen("\"envelope\"", "\"later\":{\"a\":[1]},\n\"envelope\"", 1);
        assert_eq!(Manifest::parse("m", more.as_bytes()).unwrap(), example());
    }

    #[test]
    fn a_view_makes_a_manifest_of_version_2() {
        let mut manifest = example();
        let view = FileEntry {
            name: BundlePath::parse("train-0123456789abcdef.view").unwrap(),
            bytes: 1234,
            digest: Digest::of(b"view"),
        };
        manifest.shards[1].view = Some(view);
        let bytes = manifest.to_bytes();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.starts_with("{\"format\":\"gular-bundle\",\"version\":2,\n"), "{text}");
        assert!(text.lines().all(|line| !line.starts_with("{\"split\"") || line.len() <= 500));
        assert_eq!(Manifest::parse("m", &bytes).unwrap(), manifest);
        assert_eq!(manifest.files().count(), 7);
        // A shard of two splits has one index, which both list.
        let mut twice = manifest.clone();
        twice.shards.push(ShardEntry { view: None, ..manifest.shards[1].clone() });
        assert_eq!(twice.listings().count(), manifest.shards.len() + 1);
        // Version 2 without a view can be read, but is never written.
        let plain = String::from_utf8(example().to_bytes()).unwrap();
        let two = plain.replacen("\"version\":1", "\"version\":2", 1);
        assert_eq!(Manifest::parse("m", two.as_bytes()).unwrap(), example());
        let check = |from: &str, to: &str, word: &str| {
            let bad = text.replacen(from, to, 1);
            assert_ne!(bad, text, "{from}");
            let error = Manifest::parse("m", bad.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(word), "{from} -> {to}: {error}");
        };
        check("\"version\":2", "\"version\":1", "its version is 1, which has no views");
        check("\"bytes\":1234", "\"bytes\":9000000000000", "the view of shard 1");
        check(
            "train-0123456789abcdef.view",
            "train-0123456789abcde1.safetensors",
            "is listed twice",
        );
        check("\"view\":{", "\"view\":{\"name\":\"x\",", "duplicate");
    }

    #[test]
    fn broken_rules_are_named() {
        let text = String::from_utf8(example().to_bytes()).unwrap();
        for (from, to, word) in [
            ("gular-bundle", "other", "its format is `other`"),
            ("\"version\":1", "\"version\":3", "versions up to 2"),
            ("\"version\":1", "\"version\":0", "version is 0"),
            ("\"samples\":9001", "\"samples\":99999999999", "describes 1 to"),
            ("\"bytes\":900000", "\"bytes\":9000000000000", "more than the limit"),
            ("\"samples\":9001", "\"samples\":0", "describes 1 to"),
            ("\"samples\":9001", "\"samples\":-1", "invalid value"),
            ("\"bytes\":1073741824", "\"bytes\":9223372036854775807", "overflow"),
            ("\"name\":\"label\"", "\"name\":\"image\"", "occurs twice"),
            ("\"name\":\"label\"", "\"name\":\"Label\"", "not a valid field name"),
            ("\"dtype\":\"i64\"", "\"dtype\":\"f32\"", "not a single i64 number"),
            ("\"dtype\":\"i64\"", "\"axes\":\"yx\",\"dtype\":\"i64\"", "has the axes `yx` of []"),
            ("\"dtype\":\"i64\"", "\"axes\":\"hw\",\"dtype\":\"i64\"", "`hw` does not name axes"),
            ("dög \\\"x\\\"", "cat", "class `cat` occurs twice"),
            ("\"name\":\"val-", "\"name\":\"../val-", "not a safe relative path"),
            ("\"name\":\"val-", "\"name\":\".gular-tmp-fetch-val-", "a temporary file"),
            // Two shards of one name whose digests are unlike.
            ("abcde2.safetensors", "abcde1.safetensors", "is listed twice"),
            ("\"split\":\"val\"", "\"split\":\"val\",\"split\":\"val\"", "duplicate"),
            ("{\"split\":\"train\"", "{\"split\":\"val\"", "is listed after"),
        ] {
            let bad = text.replacen(from, to, 1);
            assert_ne!(bad, text, "{from}");
            let error = Manifest::parse("m", bad.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(word), "{from} -> {to}: {error}");
        }
    }

    /// An error says for each kind of mistake which member is wrong, and what was expected and
    /// found.
    #[test]
    fn a_mistake_is_named_with_what_was_expected_and_found() {
        let text = String::from_utf8(example().to_bytes()).unwrap();
        let check = |from: &str, to: &str, words: &[&str]| {
            let bad = text.replacen(from, to, 1);
            assert_ne!(bad, text, "{from}");
            let error = Manifest::parse("m", bad.as_bytes()).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{from} -> {to}: {word} is not in {error}");
            }
        };
        // A value has another type, at every depth.
        check("\"seed\":7", "\"seed\":-7", &["`made.seed`", "`-7`", "a text or a whole number"]);
        check("\"seed\":7", "\"seed\":[7]", &["`made.seed`", "sequence", "a text or a whole"]);
        check("\"seed\":7", "\"seed\":7.5", &["`made.seed`", "`7.5`", "a text or a whole number"]);
        check(
            "\"samples\":9001",
            "\"samples\":\"9001\"",
            &["`shards[0].samples`", "\"9001\"", "u64"],
        );
        check("\"bytes\":900000", "\"bytes\":null", &["`shards[0].index.bytes`", "null", "u64"]);
        check("\"shape\":[]", "\"shape\":[2,\"3\"]", &["`fields[1].shape[1]`", "\"3\"", "u64"]);
        check(
            "\"media_types\":[",
            "\"media_types\":[7,",
            &["`fields[0].media_types[0]`", "`7`", "string"],
        );
        check("\"classes\":[", "\"classes\":[true,", &["`classes[0]`", "`true`", "string"]);
        // A word is not one of the list.
        check(
            "\"envelope\":\"shards\"",
            "\"envelope\":\"zip\"",
            &["`envelope`", "`zip`", "`shards`", "`tar`"],
        );
        check(
            "\"kind\":\"fixed\"",
            "\"kind\":\"free\"",
            &["`fields[1].kind`", "`free`", "`fixed`", "`bytes`"],
        );
        check("\"dtype\":\"i64\"", "\"dtype\":\"i65\"", &["`fields[1].dtype`", "`i65`", "`i64`"]);
        check("\"split\":\"val\"", "\"split\":\"vali\"", &["`shards[2].split`", "`vali`", "`val`"]);
        // A text breaks its rule.
        check(
            "\"blake3\":\"",
            "\"blake3\":\"xx",
            &["`shards[0].blake3`", "`xx", "64 lower-case hexadecimal digits"],
        );
        check("\"name\":\"label\"", "\"name\":\"Label\"", &["`fields[1].name`", "`Label`"]);
        // A member is missing, or is there twice.
        check("\"kind\":\"fixed\",", "", &["`fields[1]`", "missing field `kind`"]);
        check("\"dtype\":\"i64\",", "", &["`fields[1]`", "field `label`", "`fixed`", "no `dtype`"]);
        check(",\"shape\":[]", "", &["`fields[1]`", "field `label`", "`fixed`", "no `shape`"]);
        check("\"samples\":9001,", "", &["`shards[0]`", "missing field `samples`"]);
        check(
            "\"samples\":9001",
            "\"samples\":1,\"samples\":1",
            &["`shards[0]", "duplicate field `samples`"],
        );
        // A whole object has another type.
        check("\"fields\":[", "\"fields\":[[],", &["`fields[0]`"]);
        check("\"made\":{", "\"made\":7,\"later\":{", &["`made`", "`7`", "a map"]);
    }

    /// The list in serde's error has every variant, so one that is neither written nor adopted is
    /// seen here.
    #[test]
    fn every_envelope_is_written_or_adopted() {
        let error = serde_json::from_str::<Envelope>(r#""none""#).unwrap_err().to_string();
        let variants: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        let listed = [&Envelope::ALL[..], &Envelope::ADOPTED].concat();
        assert_eq!(variants, listed.iter().map(|e| e.name()).collect::<Vec<_>>());
    }

    #[test]
    fn deep_nesting_is_refused() {
        let text = String::from_utf8(example().to_bytes()).unwrap();
        let nested = |n: usize| {
            let list = format!("\"later\":{}\"]\"{},\n\"envelope\"", "[".repeat(n), "]".repeat(n));
            Manifest::parse("m", text.replacen("\"envelope\"", &list, 1).as_bytes())
        };
        // The object around the nested lists is one more level.
        assert_eq!(nested(127).unwrap(), example());
        assert!(nested(128).unwrap_err().to_string().contains("nested deeper"));
        assert!(nested(100_000).is_err());
    }
}
