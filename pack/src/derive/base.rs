//! A new version of a bundle: what is new or changed is packed, the rest stays in its shards.
//!
//! ```text
//! images/ ─ same key, same bytes as in the base? ─ yes ▶ a view of the base ──────┐
//!                                                └ no ─▶ packed, in a folder beside ├▶ one bundle
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::{Bundle, Digest, FieldIdx, OpenOptions, Payload, Row, ShardIdx};
use gular_files::{TEMP_PREFIX, parallel};
use serde::Serialize;

use super::options::DeriveOptions;
use super::report::DeriveReport;
use super::run::derive_from;
use crate::out::finished_bundle;
use crate::run::{PackOptions, open_source};
use crate::source::Source;
use crate::{Error, Labels, PayloadOptions, Progress, Report, pack, scan};

/// What became of the base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BaseReport {
    /// The digest of the base.
    pub base: Digest,
    /// Samples of it that stay as they are.
    pub unchanged: u64,
    /// Samples of it that are packed again, since their file has other bytes.
    pub changed: u64,
    /// Samples of it that the source has no more.
    pub removed: u64,
    /// Images that it does not have.
    pub added: u64,
    /// What was packed; nothing where no image is new or changed.
    pub packed: Option<Report>,
    /// The new bundle; nothing in a dry run.
    pub bundle: Option<DeriveReport>,
    /// Wall-clock time.
    pub seconds: f64,
}

/// Packs the images in `source` into a new bundle in `out`, as a version of the bundle in `base`:
/// images that it has already, byte for byte, stay in its shards, which are linked.
///
/// # Errors
/// Those of [`pack`](crate::pack) and [`derive`](super::derive); [`Error::Option`] for bundles
/// whose values are not files as they were found. The same call goes on from an interrupted one.
pub fn pack_onto(
    base: &Path,
    source: &Path,
    out: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<BaseReport, Error> {
    let start = Instant::now();
    for folder in [base, source] {
        crate::run::check_apart(folder, out)?;
    }
    let bundle = Bundle::open(base, OpenOptions { index_bytes: 0, ..OpenOptions::default() })?;
    check(&bundle, options)?;
    let io = |e| Error::io("create a folder in", &options.temp_dir, e);
    let temp = tempfile::tempdir_in(&options.temp_dir).map_err(io)?;
    let compared = Compared::new(&bundle, source, options, temp.path(), cancel)?;
    let kept = temp.path().join("kept");
    fs::write(&kept, &compared.kept).map_err(|e| Error::io("write", &kept, e))?;
    let digest = bundle.digest();
    let report = |packed: Option<Report>, made: Option<DeriveReport>| BaseReport {
        base: digest,
        unchanged: compared.unchanged,
        changed: compared.changed,
        removed: compared.of_base - compared.unchanged - compared.changed,
        added: compared.images - compared.unchanged - compared.changed,
        packed,
        bundle: made,
        seconds: start.elapsed().as_secs_f64(),
    };
    let derive = DeriveOptions { jobs: options.jobs, ..DeriveOptions::new(temp.path().to_owned()) };
    let (mut parts, mut packed) = (Vec::new(), None::<Report>);
    if compared.unchanged > 0 {
        let part = temp.path().join("base");
        let some = DeriveOptions { keys: vec![kept.clone()], ..derive.clone() };
        derive_from(&[base.to_owned()], &part, &some, None, &|_| {}, cancel)?;
        parts.push(part);
    }
    // Beside the result, so that its shards are on the same file system and can be linked.
    let new = beside(out);
    if compared.images > compared.unchanged {
        let mut some = options.clone();
        some.plan.leave_out = vec![kept];
        if some.plan.classes.is_none() && bundle.manifest().has_labels() {
            // New classes behind the old ones, whose numbers stay.
            let classes = temp.path().join("classes");
            let io = |e| Error::io("write", &classes, e);
            fs::write(&classes, compared.classes(&bundle)).map_err(io)?;
            some.plan.classes = Some(classes);
        }
        packed = Some(pack(source, &new, &some, progress, cancel)?);
        parts.push(new.clone());
    }
    if options.dry_run {
        return Ok(report(packed, None));
    }
    let made = derive_from(&parts, out, &derive, Some(digest), &|_| {}, cancel)?;
    if made.symbolic_links > 0 && finished_bundle(&new)?.is_some() {
        // The new shards would go with their folder.
        let shown = new.display();
        return Err(Error::Option(format!(
            "the file system of the output has no hard links; the new shards stay in `{shown}`, which the output needs"
        )));
    }
    remove(&new)?;
    Ok(report(packed, Some(made)))
}

/// Where the new shards are until the bundle is made.
fn beside(out: &Path) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!("{TEMP_PREFIX}new-{name}"))
}

fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", folder, e)),
        _ => Ok(()),
    }
}

fn check(bundle: &Bundle, options: &PackOptions) -> Result<(), Error> {
    let manifest = bundle.manifest();
    let fail = |text: &str| Err(Error::Option(text.to_owned()));
    if manifest.payload != Payload::Encoded || options.plan.payload != PayloadOptions::Encoded {
        return fail("a base needs payload `encoded`: only there can files and values be compared");
    }
    let other = options.plan.tile.is_some() || !options.plan.fields.is_empty();
    if other || manifest.fields.len() > 1 + usize::from(manifest.has_labels()) {
        return fail(
            "a base whose samples have more fields than image and label, or are tiles, cannot be compared with files",
        );
    }
    if options.part.is_some() {
        return fail("a new version of a bundle is packed in one part");
    }
    if matches!(options.plan.labels, Labels::Table(_)) {
        return fail(
            "with a base, labels come from folders or file names; give those of a table with `gular derive --labels`",
        );
    }
    Ok(())
}

/// What the source and the base have in common.
struct Compared {
    /// The keys that stay, one per line.
    kept: String,
    images: u64,
    unchanged: u64,
    changed: u64,
    of_base: u64,
    /// The classes of the source.
    classes: Vec<String>,
}

impl Compared {
    /// The classes of the base, then new ones, one per line.
    fn classes(&self, base: &Bundle) -> String {
        let old = &base.manifest().classes;
        let new = self.classes.iter().filter(|class| !old.contains(class));
        old.iter().chain(new).map(|class| format!("{class}\n")).collect()
    }

    fn new(
        bundle: &Bundle,
        source: &Path,
        options: &PackOptions,
        temp: &Path,
        cancel: &AtomicBool,
    ) -> Result<Self, Error> {
        let mut places: HashMap<u128, (ShardIdx, Row)> = HashMap::new();
        for shard in ShardIdx::first(bundle.manifest().shards.len()) {
            let index = bundle.index(shard)?;
            for row in index.rows() {
                places.insert(hash(index.key(row).unwrap_or_default()), (shard, row));
            }
        }
        let of_base = places.len() as u64;
        let source = open_source(source, &options.plan, temp, cancel)?;
        let (mut images, mut known) = (0, Vec::new());
        let found = scan::scan(&source, &options.plan, &mut |key, bytes| {
            images += 1;
            if let Some(place) = places.get(&hash(key.as_str())) {
                known.push((key.to_string(), bytes, *place));
            }
            Ok(())
        })?;
        drop(places);
        let same: Mutex<Vec<String>> = Mutex::default();
        let chunks: Vec<&[_]> = known.chunks(256).collect();
        parallel(&chunks, options.jobs, cancel, |chunk, stop| {
            for (key, bytes, place) in *chunk {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                if is_same(bundle, *place, &source, key, *bytes)? {
                    same.lock().unwrap_or_else(PoisonError::into_inner).push(key.clone());
                }
            }
            Ok::<_, Error>(())
        })?;
        if cancel.load(Ordering::Relaxed) {
            let path = temp.display().to_string();
            return Err(Error::Cancelled { path, done: 0, total: 0 });
        }
        let mut same = same.into_inner().unwrap_or_else(PoisonError::into_inner);
        same.sort_unstable();
        let unchanged = same.len() as u64;
        let changed = known.len() as u64 - unchanged;
        let kept = same.iter().map(|key| format!("{key}\n")).collect();
        let classes = found.classes.into_iter().collect();
        Ok(Self { kept, images, unchanged, changed, of_base, classes })
    }
}

/// Whether a file has the bytes that the base has of it. One that cannot be read is packed, and
/// named there.
fn is_same(
    bundle: &Bundle,
    (shard, row): (ShardIdx, Row),
    source: &Source,
    key: &str,
    bytes: u64,
) -> Result<bool, Error> {
    let image = bundle.manifest().image().unwrap_or(FieldIdx(0));
    let shard = bundle.shard(shard)?;
    if shard.len_of(row, image)?.map(|len| len as u64) != Some(bytes) {
        return Ok(false);
    }
    let Ok((found, _)) = source.read(key, bytes) else { return Ok(false) };
    Ok(shard.digest(row, image)? == Some(Digest::of(&found)))
}

fn hash(key: &str) -> u128 {
    let hash = blake3::hash(key.as_bytes());
    u128::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}
