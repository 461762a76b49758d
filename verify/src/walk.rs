//! Verifies a whole bundle: the manifest first, then all shards on several threads.

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::{
    Backend, Digest, MANIFEST_NAME, MAX_MANIFEST_BYTES, Manifest, ReadAt, Row, SampleId, ShardIdx,
    Split, data_folder,
};
use gular_files::{Watch, parallel};

use crate::digest::digest;
use crate::notes::notes;
use crate::samples::unit;
use crate::shard::{Context, check_shard};
use crate::verify_report::{FETCH_AGAIN, Fault, FaultKind, VerifyReport, total_of};
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
    watch: Watch<'_>,
) -> Result<VerifyReport, Error> {
    let Watch { progress, cancel, .. } = watch;
    let start = Instant::now();
    let source = open_manifest(dir)?;
    let len = source.len_bytes();
    let (digest, manifest) = read_manifest(&source, cancel)?;
    let mut report = VerifyReport::new(Some(digest), options.mode);
    report.bytes_read = len;
    if let Some(expected) = options.digest.filter(|d| *d != digest) {
        let mut fault = manifest_fault(format!("its digest is {digest}, expected {expected}"));
        if manifest.is_ok() {
            fault.advice = OTHER_MANIFEST;
        }
        fault.compared(&expected, &digest);
        report.faults.push(fault);
    }
    let manifest = match manifest {
        Ok(manifest) => manifest,
        Err(error @ gular_bundle::Error::TooNew { .. }) => return Err(Error::TooNew(error)),
        Err(error) => {
            report.faults.push(manifest_fault(error.reason()));
            report.seconds = start.elapsed().as_secs_f64();
            return Ok(report);
        }
    };
    let data = data_folder(dir, &manifest);
    report.notes = notes(dir, &data, &manifest);
    let manifest = options.part_of(&manifest)?;
    let total = report.describe(&manifest, options.mode);

    let read = AtomicU64::new(0);
    let advance = |n: u64| progress(read.fetch_add(n, Ordering::Relaxed) + n, total);
    let checked = AtomicU64::new(0);
    let context = Context {
        dir,
        data: &data,
        manifest: &manifest,
        options,
        advance: &advance,
        checked: &checked,
        always: always(&manifest, options.mode),
        cancel,
    };
    let found = Mutex::new(Vec::new());
    let shards: Vec<_> = manifest.shards.iter().enumerate().collect();
    let each = |&(number, entry): &(usize, _), _: &AtomicBool| -> Result<(), Infallible> {
        let faults = check_shard(&context, ShardIdx(number), entry);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.extend(faults.into_iter().map(|f| (number, f)));
        Ok(())
    };
    let Ok(()) = parallel(&shards, options.jobs, cancel, each);
    if cancel.load(Ordering::Relaxed) {
        return Err(Error::Cancelled { bytes: read.into_inner(), total });
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(number, fault)| (*number, fault.kind));
    report.faults.extend(found.into_iter().map(|(_, fault)| fault));
    report.only_splits = only_splits(&manifest, &report.faults);
    report.bytes_read += read.into_inner();
    report.samples_checked = checked.into_inner();
    report.sound = report.faults.is_empty();
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Returns the splits that are here, if all files of the others are missing and nothing else is
/// wrong: perhaps only these splits were fetched.
fn only_splits(manifest: &Manifest, faults: &[Fault]) -> Vec<Split> {
    let of = |split: Split| manifest.of_split(split).map(|s| s.files().count()).sum::<usize>();
    let missing = |split: Split| {
        let of_split = |f: &&Fault| f.kind == FaultKind::Missing && f.split == Some(split);
        faults.iter().filter(of_split).count()
    };
    let there: Vec<Split> = Split::ALL.into_iter().filter(|s| of(*s) > 0).collect();
    let (gone, here): (Vec<Split>, Vec<Split>) =
        there.into_iter().partition(|s| missing(*s) == of(*s));
    let of_gone: usize = gone.iter().map(|s| of(*s)).sum();
    if gone.is_empty() || here.is_empty() || faults.len() != of_gone {
        return Vec::new();
    }
    here
}

/// The advice for a manifest that is valid, but not the expected one.
const OTHER_MANIFEST: &str = "the manifest was changed, or this is another bundle: check the digest and the path or URL, or fetch the bundle again";

/// Returns the sample that is always read, however small the share.
pub(crate) fn always(manifest: &Manifest, mode: Mode) -> Option<SampleId> {
    match mode {
        Mode::Sample { seed, .. } => nth_sample(manifest, unit(seed, u64::MAX, u64::MAX)),
        Mode::Quick | Mode::Full => None,
    }
}

/// Returns the sample at `share` (0 to 1) of all samples.
fn nth_sample(manifest: &Manifest, share: f64) -> Option<SampleId> {
    let mut n = (total_of(manifest, |s| s.samples) as f64 * share) as u64;
    let id = |number: usize, row: u64| SampleId {
        shard: ShardIdx(number),
        row: Row(usize::try_from(row).unwrap_or(usize::MAX)),
    };
    for (number, shard) in manifest.shards.iter().enumerate() {
        if n < shard.samples {
            return Some(id(number, n));
        }
        n -= shard.samples;
    }
    // Rounding can give the very end, past the last sample.
    let last = manifest.shards.last()?;
    Some(id(manifest.shards.len() - 1, last.samples.saturating_sub(1)))
}

fn open_manifest(dir: &Path) -> Result<ReadAt, Error> {
    let path = dir.join(MANIFEST_NAME);
    let shown = || dir.display().to_string();
    match ReadAt::open(&path, Backend::Pread) {
        Ok(source) => Ok(source),
        Err(gular_bundle::Error::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            fs::metadata(dir).map_err(|e| gular_files::Error::new("open", dir, e))?;
            // `gular pack` keeps its state in this folder until the bundle is whole.
            Err(if dir.join(".gular-pack").exists() {
                Error::Interrupted { path: shown() }
            } else {
                Error::NoManifest { path: shown() }
            })
        }
        Err(e) => Err(Error::reading(e)),
    }
}

/// Returns the digest of the manifest's bytes, and the manifest or its fault.
fn read_manifest(
    source: &ReadAt,
    cancel: &AtomicBool,
) -> Result<(Digest, Result<Manifest, gular_bundle::Error>), Error> {
    let (found, limit) = (source.len_bytes(), MAX_MANIFEST_BYTES);
    if found > limit {
        let digest = digest(source, 0..found, &|_| {}, cancel)
            .map_err(Error::reading)?
            .ok_or(Error::Cancelled { bytes: 0, total: found })?;
        let (path, what) = (source.path(), "a manifest");
        return Ok((digest, Err(gular_bundle::Error::TooLarge { path, what, found, limit })));
    }
    // The file is read once, so that the digest is of the same bytes that are parsed.
    let mut bytes = vec![0; usize::try_from(found).unwrap_or(0)];
    source.read_at(0, &mut bytes).map_err(Error::reading)?;
    Ok((Digest::of(&bytes), Manifest::parse(&source.path(), &bytes)))
}

pub(crate) fn manifest_fault(message: String) -> Fault {
    Fault::new(FaultKind::Manifest, MANIFEST_NAME.to_owned(), message, FETCH_AGAIN)
}
