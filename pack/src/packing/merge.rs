//! Merges the parts that several machines packed into one bundle.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gular_bundle::{DATA_DIR, Digest, FileEntry, Manifest, ShardEntry};
use gular_files::{parallel, persist, temp_in};
use serde::Serialize;

use crate::error::Error;
use crate::facts::{BadInputs, RunError, setting};
use crate::packing::{Progress, check_apart};
use crate::shards::{
    Gathered, OutDir, PART_NAME, PartFile, STATE_DIR, ShardError, finished_bundle,
};

/// Options of merging; none of them changes a byte of the bundle.
#[derive(Debug, Clone, Copy)]
pub struct MergeOptions {
    /// Worker threads.
    pub jobs: usize,
    /// Whether to report only what would be done.
    pub dry_run: bool,
}

/// The result of [`merge`], or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergeReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Digest of the merged bundle.
    pub digest: Digest,
    /// Number of parts that were merged.
    pub parts: u64,
    /// Number of samples of the merged bundle.
    pub samples: u64,
    /// Bytes of all shards and indexes of the merged bundle.
    pub bytes: u64,
    /// How many of these bytes were copied; the others are links to the files of the parts.
    pub copied: u64,
    /// Number of shards of the merged bundle.
    pub shards: u64,
    /// Number of inputs that the parts left out, all of which are listed in `skipped.jsonl`.
    pub skipped: u64,
    /// Number of tiles that the parts left out, since too few of their pixels have a value.
    pub empty_tiles: u64,
    /// Images that were packed although they have a fault that other readers accept.
    pub tolerated: BadInputs,
    /// Images whose name has the extension of another format than their bytes.
    pub misnamed: BadInputs,
    /// Whether everything was done before, so that there was nothing to do.
    pub already_done: bool,
    /// Wall-clock time.
    pub seconds: f64,
}

/// A folder with a part in it.
struct Found {
    dir: PathBuf,
    file: PartFile,
}

/// Merges the finished parts in folders `parts` into a new bundle in folder `out`, which has the
/// same bytes as one that a single machine makes. If the file system allows it, files of the parts
/// get a second name; otherwise they are copied, and compared with their digests.
///
/// # Errors
/// [`Error::Parts`] names each part that is missing, given twice, or of another run; see [`Error`].
pub fn merge(
    parts: &[PathBuf],
    out: &Path,
    options: &MergeOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<MergeReport, Error> {
    let start = Instant::now();
    let found = parts.iter().map(|dir| open(dir)).collect::<Result<Vec<_>, _>>()?;
    for part in &found {
        check_apart(&part.dir, out)?;
    }
    let found = in_order(found)?;
    let Some(first) = found.first() else {
        return Err(setting(&["merge"], "no part was given"));
    };
    let template = first.file.template(&first.dir)?;
    let files = files(&found)?;
    let n_parts = found.len() as u64;
    let (first_dir, left_out) = (first.dir.clone(), first.file.skipped.clone());
    let shards = found.into_iter().flat_map(|part| part.file.shards);
    let gathered = Gathered::new(left_out, shards.map(|shard| shard.done)).some(&first_dir)?;
    let manifest = gathered.manifest(template);
    let mut report = MergeReport {
        dry_run: options.dry_run,
        digest: manifest.digest(),
        parts: n_parts,
        samples: manifest.shards.iter().map(|s| s.samples).sum(),
        bytes: manifest.shards.iter().map(ShardEntry::bytes).sum(),
        copied: 0,
        shards: manifest.shards.len() as u64,
        skipped: gathered.skipped.len() as u64,
        empty_tiles: gathered.empty_tiles,
        tolerated: gathered.tolerated.clone(),
        misnamed: gathered.misnamed.clone(),
        already_done: false,
        seconds: 0.0,
    };
    progress(Progress::Planned(report.samples, report.bytes));
    if !options.dry_run {
        if let Some(bundle) = finished_bundle(out)?.filter(|b| b.digest() == report.digest) {
            bundle.check_lengths()?;
            report.already_done = true;
        } else {
            report.copied = OutDir::with(out, |dir| {
                let copied = place(&files, &manifest, dir, options.jobs, progress, cancel)?;
                dir.publish(&manifest, &gathered.skipped)?;
                Ok::<_, Error>(copied)
            })?;
        }
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn open(dir: &Path) -> Result<Found, Error> {
    let wrong = |reason: &str| {
        let (path, reason) = (dir.display().to_string(), reason.to_owned());
        Err(ShardError::BadPart { path, reason }.into())
    };
    if dir.join(STATE_DIR).symlink_metadata().is_ok() {
        return wrong("its run was interrupted");
    }
    match PartFile::read(dir)? {
        Some(file) => Ok(Found { dir: dir.to_owned(), file }),
        None if dir.join(gular_bundle::MANIFEST_NAME).exists() => wrong("it is a whole bundle"),
        None => wrong(&format!("it has no `{PART_NAME}`")),
    }
}

/// The parts by their numbers, when each is there once and all are of one run.
fn in_order(found: Vec<Found>) -> Result<Vec<Found>, Error> {
    let mut faults = Vec::new();
    let mut by_number: BTreeMap<u32, Found> = BTreeMap::new();
    let first = found.first().map(|part| (part.dir.clone(), part.file.clone()));
    let Some((first_dir, first)) = first else { return Ok(Vec::new()) };
    for part in found {
        let shown = part.dir.display();
        if let Some(difference) = difference(&first, &part.file) {
            let (a, b) = (first_dir.display(), shown);
            faults.push(format!("`{b}` and `{a}` are parts of different packs: {difference}"));
            continue;
        }
        if let Some(other) = by_number.get(&part.file.part.number()) {
            let other = other.dir.display();
            faults.push(format!("`{other}` and `{shown}` are both part {}", part.file.part));
            continue;
        }
        by_number.insert(part.file.part.number(), part);
    }
    let of = first.part.of();
    let missing: Vec<u32> = (1..=of).filter(|n| !by_number.contains_key(n)).take(21).collect();
    // If parts do not fit together, those that seem to be missing may exist.
    if faults.is_empty() && !missing.is_empty() {
        let n = u64::from(of) - by_number.len() as u64;
        let named: Vec<String> = missing.iter().take(20).map(u32::to_string).collect();
        let more = if missing.len() > 20 { ", …" } else { "" };
        let (part, is) = if n == 1 { ("part", "is") } else { ("parts", "are") };
        faults.push(format!("{part} {}{more} of {of} {is} missing", named.join(", ")));
    }
    if faults.is_empty() {
        Ok(by_number.into_values().collect())
    } else {
        Err(Error::Parts(faults))
    }
}

/// Says why `b` is a part of another run than `a`.
fn difference(a: &PartFile, b: &PartFile) -> Option<String> {
    if a.part.of() != b.part.of() {
        return Some(format!("it is part {}, expected a part of {}", b.part, a.part.of()));
    }
    let differing = |what: &str, a: &str, b: &str| {
        let object = |text: &str| {
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text)
                .unwrap_or_default()
        };
        let (a, b) = (object(a), object(b));
        let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
        names.sort();
        names.dedup();
        let name =
            names.into_iter().find(|name| *name != "made" && a.get(*name) != b.get(*name))?;
        let shown = |value: Option<&serde_json::Value>| {
            let text = value.map_or_else(|| "nothing".to_owned(), ToString::to_string);
            match text.char_indices().nth(60) {
                Some((cut, _)) => format!("{}…", &text[..cut]),
                None => text,
            }
        };
        let (a, b) = (shown(a.get(name)), shown(b.get(name)));
        Some(format!("{what} `{name}` is {b}, expected {a}"))
    };
    if let Some(text) = differing("option", &a.options, &b.options) {
        return Some(text);
    }
    if a.manifest != b.manifest {
        let made = |text: &str| -> Option<String> {
            let json: serde_json::Value = serde_json::from_str(text).ok()?;
            let mut made = json.get("made")?.clone();
            made.as_object_mut()?.remove("plan");
            Some(made.to_string())
        };
        let of_made = made(&a.manifest).zip(made(&b.manifest));
        let text = differing("its manifest's", &a.manifest, &b.manifest)
            .or_else(|| of_made.and_then(|(a, b)| differing("option", &a, &b)));
        let sizes =
            |p: &PartFile| format!("{} samples of {} bytes", p.planned.samples, p.planned.bytes);
        return Some(text.unwrap_or_else(|| {
            format!(
                "its source was another one, or was changed: it had {}, expected {}{}",
                sizes(b),
                sizes(a),
                if a.planned == b.planned { " with different names, sizes or labels" } else { "" }
            )
        }));
    }
    let names = |p: &PartFile| p.skipped.iter().map(|bad| bad.path.clone()).collect::<Vec<_>>();
    (names(a) != names(b)).then(|| "when it was packed, other files could not be read".to_owned())
}

/// A file of a part, with its path.
struct PlacedFile {
    from: PathBuf,
    entry: FileEntry,
    samples: u64,
}

/// The files of all shards; each is there in its full length.
fn files(found: &[Found]) -> Result<Vec<PlacedFile>, Error> {
    let mut files = Vec::new();
    for part in found {
        let data = part.dir.join(DATA_DIR);
        for entry in part.file.shards.iter().filter_map(|s| s.done.entry.as_ref()) {
            for (file, samples) in [(&entry.file, entry.samples), (&entry.index, 0)] {
                let from = data.join(file.name.as_str());
                let metadata = fs::metadata(&from).map_err(|e| Error::io("read", &from, e))?;
                if metadata.len() != file.bytes {
                    let (path, expected, found) =
                        (from.display().to_string(), file.bytes, metadata.len());
                    return Err(gular_bundle::Error::Length { path, expected, found }.into());
                }
                files.push(PlacedFile { from, entry: file.clone(), samples });
            }
        }
    }
    Ok(files)
}

/// Brings all files into the bundle's folder; bytes that were copied.
fn place(
    files: &[PlacedFile],
    manifest: &Manifest,
    out: &OutDir,
    jobs: usize,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<u64, Error> {
    out.keep_source(&format!("parts {}", manifest.digest().hex()))?;
    let device = |path: &Path| fs::metadata(path).map_or(0, |m| m.dev());
    let here = device(&out.data);
    // A file that an interrupted run moved here has its name only if it is complete.
    let to = |file: &PlacedFile| out.data.join(file.entry.name.as_str());
    let is_there =
        |file: &PlacedFile| fs::metadata(to(file)).is_ok_and(|m| m.len() == file.entry.bytes);
    let copied = files.iter().filter(|f| device(&f.from) != here && !is_there(f));
    let (needed, free) = (copied.map(|f| f.entry.bytes).sum(), out.free()?.bytes);
    if free < needed {
        return Err(RunError::NoSpace { path: out.shown(), needed, free }.into());
    }
    let copied = std::sync::atomic::AtomicU64::new(0);
    parallel(files, jobs.max(1), cancel, |file, stop| {
        let to = to(file);
        if !is_there(file) && !link(&file.from, &to) {
            copy(&file.from, &to, &file.entry, stop, out)?;
            copied.fetch_add(file.entry.bytes, Ordering::Relaxed);
        }
        progress(Progress::Packed(file.samples, file.entry.bytes));
        Ok::<(), Error>(())
    })?;
    if cancel.load(Ordering::Relaxed) {
        return Err(RunError::Cancelled.into());
    }
    gular_files::sync_folder(&out.data)?;
    Ok(copied.into_inner())
}

/// Gives the file a second name; `false` where that is not possible.
fn link(from: &Path, to: &Path) -> bool {
    // A link to a link would end with the part's folder.
    let from = from.canonicalize().unwrap_or_else(|_| from.to_owned());
    let _ = fs::remove_file(to);
    fs::hard_link(from, to).is_ok()
}

/// Copies a file whose bytes are those of its digest.
fn copy(
    from: &Path,
    to: &Path,
    entry: &FileEntry,
    stop: &AtomicBool,
    out: &OutDir,
) -> Result<(), Error> {
    let mut source = fs::File::open(from).map_err(|e| Error::io("open", from, e))?;
    let mut temp = temp_in(&out.data)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Cancelled.into());
        }
        let n = match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io("read", from, e)),
        };
        let (read, _) = buffer.split_at(n);
        hasher.update(read);
        temp.write_all(read).map_err(|e| Error::io("write", to, e))?;
    }
    let found = Digest::from(hasher.finalize());
    if found != entry.digest {
        let (path, expected) = (from.display().to_string(), entry.digest);
        return Err(gular_bundle::Error::Digest { path, expected, found }.into());
    }
    persist(temp, to)?;
    Ok(())
}
