//! The walk over a bundle: manifest, then every shard on some thread.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::{
    Backend, DATA_DIR, Digest, MANIFEST_NAME, MAX_MANIFEST_BYTES, Manifest, ReadAt, TEMP_PREFIX,
};

use crate::report::{FETCH_AGAIN, Fault, FaultKind, Report};
use crate::shard::{Context, check_shard};
use crate::{Error, Mode, VerifyOptions};

/// Verifies the bundle in folder `dir`.
///
/// `progress` is called with the bytes read so far and those to be read, from
/// any thread; `cancel` ends the work at the next block.
///
/// # Errors
/// [`Error`] when the bundle cannot be judged; faults of the data are in the report.
pub fn verify(
    dir: &Path,
    options: &VerifyOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
    cancel: &AtomicBool,
) -> Result<Report, Error> {
    let start = Instant::now();
    let bytes = read_manifest(dir)?;
    let digest = Digest::of(&bytes);
    let mut report = Report {
        sound: false,
        digest: digest.to_string(),
        mode: match options.mode {
            Mode::Quick => "quick",
            Mode::Full => "full",
            Mode::Sample { .. } => "sample",
        },
        shards: 0,
        samples: 0,
        bytes: 0,
        bytes_read: bytes.len() as u64,
        samples_checked: 0,
        seconds: 0.0,
        faults: Vec::new(),
        notes: Vec::new(),
    };
    if let Some(expected) = options.digest.filter(|d| *d != digest) {
        report.faults.push(manifest_fault(format!("its digest is {digest}, expected {expected}")));
    }
    let name = dir.join(MANIFEST_NAME).display().to_string();
    let manifest = match Manifest::parse(&name, &bytes) {
        Ok(manifest) => manifest,
        Err(error @ gular_bundle::Error::TooNew { .. }) => return Err(Error::TooNew(error)),
        Err(error) => {
            report.faults.push(manifest_fault(error.to_string()));
            report.seconds = start.elapsed().as_secs_f64();
            return Ok(report);
        }
    };
    report.shards = manifest.shards.len() as u64;
    report.samples = manifest.shards.iter().map(|s| s.samples).sum();
    report.bytes = manifest.shards.iter().map(|s| s.file.bytes + s.index.bytes).sum();
    report.notes = notes(dir, &manifest);

    let total = match options.mode {
        Mode::Full => report.bytes,
        Mode::Quick => manifest.shards.iter().map(|s| s.index.bytes).sum(),
        Mode::Sample { fraction, .. } => {
            let shards: u64 = manifest.shards.iter().map(|s| s.file.bytes).sum();
            manifest.shards.iter().map(|s| s.index.bytes).sum::<u64>()
                + (shards as f64 * fraction) as u64
        }
    };
    let read = AtomicU64::new(0);
    let advance = |n: u64| progress(read.fetch_add(n, Ordering::Relaxed) + n, total);
    let checked = AtomicU64::new(0);
    let context = Context {
        data: &dir.join(DATA_DIR),
        manifest: &manifest,
        options,
        advance: &advance,
        checked: &checked,
        cancel,
    };
    let found = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, manifest.shards.len().max(1)) {
            scope.spawn(|| {
                while !cancel.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(entry) = manifest.shards.get(number) else { break };
                    let faults = check_shard(&context, number, entry);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.extend(faults.into_iter().map(|f| (number, f)));
                }
            });
        }
    });
    if cancel.load(Ordering::Relaxed) {
        return Err(Error::Cancelled { bytes: read.into_inner(), total });
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(number, fault)| (*number, fault.kind));
    report.faults.extend(found.into_iter().map(|(_, fault)| fault));
    report.bytes_read += read.into_inner();
    report.samples_checked = checked.into_inner();
    report.sound = report.faults.is_empty();
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn read_manifest(dir: &Path) -> Result<Vec<u8>, Error> {
    let path = dir.join(MANIFEST_NAME);
    let shown = || dir.display().to_string();
    let io = |source| Error::Io { action: "read", path: path.display().to_string(), source };
    match fs::metadata(&path) {
        Ok(metadata) if metadata.len() > MAX_MANIFEST_BYTES => {
            let (found, limit) = (metadata.len(), MAX_MANIFEST_BYTES);
            let reason = format!("the manifest is {found} bytes, over the limit of {limit}");
            Err(io(std::io::Error::other(reason)))
        }
        Ok(_) => fs::read(&path).map_err(io),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            fs::metadata(dir).map_err(|source| Error::Io {
                action: "open",
                path: shown(),
                source,
            })?;
            // `gular pack` keeps its state in this folder until the bundle is whole.
            Err(if dir.join(".gular-pack").exists() {
                Error::Interrupted { path: shown() }
            } else {
                Error::NoManifest { path: shown() }
            })
        }
        Err(e) => Err(io(e)),
    }
}

fn manifest_fault(message: String) -> Fault {
    Fault {
        kind: FaultKind::Manifest,
        file: MANIFEST_NAME.to_owned(),
        split: None,
        message,
        ranges: Vec::new(),
        keys: Vec::new(),
        n_keys: 0,
        advice: FETCH_AGAIN,
    }
}

/// Files that the manifest does not list.
fn notes(dir: &Path, manifest: &Manifest) -> Vec<String> {
    let known: HashSet<&str> = manifest
        .shards
        .iter()
        .flat_map(|s| [s.file.name.as_str(), s.index.name.as_str()])
        .collect();
    let mut notes = Vec::new();
    let Ok(entries) = fs::read_dir(dir.join(DATA_DIR)) else { return notes };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(TEMP_PREFIX) {
            notes.push(format!(
                "`{DATA_DIR}/{name}` is a leftover of an interrupted run and can be removed"
            ));
        } else if !known.contains(name.as_str()) && entry.path().is_file() {
            notes.push(format!("`{DATA_DIR}/{name}` is not part of the bundle"));
        }
    }
    notes.sort();
    let skipped = ReadAt::open(&dir.join("skipped.jsonl"), Backend::Pread);
    if skipped.is_ok() {
        notes.push(
            "`skipped.jsonl` lists inputs that were left out when the bundle was packed".to_owned(),
        );
    }
    notes
}
