//! Repairs a bundle's folder from several copies, of which none need be whole.
//!
//! ```text
//! each block ─▶ right in the folder: kept
//!               else from the first copy that has it right ─▶ the next copy …
//! ```

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gular_bundle::{Digest, FileEntry};
use gular_pelican::{Attempt, Attempts, Cause, Client, Error as Pelican, Sink};
use serde::Serialize;

use super::bundle::{FetchOptions, fetch_from};
use crate::bundle_files::OfFederation;
use crate::remote::read_manifest;
use crate::{
    BundleFiles, BundleUrl, Error, ManifestFile, RemoteBundle, Watch, WrongCopy, wrong_copies,
};

/// The result of [`repair`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepairReport {
    /// The bundle's digest.
    pub digest: Digest,
    /// Number of files of the bundle, including the manifest.
    pub files: u64,
    /// Bytes of these files, all of which are right now.
    pub bytes: u64,
    /// Bytes that were right before.
    pub bytes_kept: u64,
    /// Bytes that were missing or wrong.
    pub bytes_repaired: u64,
    /// What each copy gave, in the order in which they were asked.
    pub copies: Vec<CopyUsed>,
    /// Servers that sent wrong bytes for objects which other servers sent correctly.
    pub wrong_copies: Vec<WrongCopy>,
    /// Wall-clock time.
    pub seconds: f64,
}

/// What one copy gave for a repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopyUsed {
    /// The copy's URL.
    pub url: String,
    /// Number of blocks of 1 MiB.
    pub blocks: u64,
    /// Number of indexes and other small files.
    pub indexes: u64,
}

/// Makes every file of the bundle in the folder `dir` right again, from the copies at `from`. Only
/// blocks that are missing or wrong are read from them, each from the first copy that has it right.
///
/// The bundle is the one whose digest a URL gives; else the one that `dir` has a manifest of; else
/// that of the first copy.
///
/// # Errors
/// Those of [`fetch`](super::fetch()); [`Pelican::Corrupt`] for a block that no copy has.
pub fn repair(
    client: &Client,
    from: &[BundleUrl],
    dir: &Path,
    options: &FetchOptions,
    watch: Watch<'_>,
) -> Result<RepairReport, Error> {
    let start = Instant::now();
    let wanted = from.iter().find_map(|url| url.digest);
    let own = read_manifest(dir).ok();
    let own = own.and_then(|bytes| ManifestFile::parse("it", bytes).ok());
    let bytes = match own.filter(|own| wanted.is_none_or(|wanted| wanted == own.digest())) {
        Some(own) => own.bytes().to_vec(),
        None => manifest_of(client, from, wanted, watch.cancel)?,
    };
    // A copy's own manifest may be damaged or missing.
    let copies = from.iter().map(|url| RemoteBundle::with(url, bytes.clone()));
    let copies = copies.collect::<Result<Vec<_>, _>>()?;
    let Some(first) = copies.first() else { return Err(Error::cancelled()) };
    let none =
        |copy: &RemoteBundle| CopyUsed { url: copy.url().url.to_string(), blocks: 0, indexes: 0 };
    let used = Mutex::new(copies.iter().map(none).collect());
    let source = Copies { client, first, copies: &copies, used };
    let report = fetch_from(&source, dir, options, watch)?;
    Ok(RepairReport {
        digest: first.digest(),
        files: report.files,
        bytes: report.bytes,
        bytes_kept: report.bytes_kept,
        bytes_repaired: report.bytes_fetched,
        copies: source.used.into_inner().unwrap_or_else(PoisonError::into_inner),
        wrong_copies: report.wrong_copies,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Returns the manifest of the first copy that has it.
fn manifest_of(
    client: &Client,
    from: &[BundleUrl],
    wanted: Option<Digest>,
    cancel: &AtomicBool,
) -> Result<Vec<u8>, Error> {
    let mut first = None;
    for url in from {
        let url = BundleUrl { digest: wanted, ..url.clone() };
        match RemoteBundle::open(client, &url, cancel) {
            Ok(copy) => return Ok(copy.manifest_bytes().to_vec()),
            Err(error) if error.is_cancelled() => return Err(error),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(Error::cancelled))
}

/// The copies as one source of the bundle's files.
struct Copies<'a> {
    client: &'a Client,
    first: &'a RemoteBundle,
    copies: &'a [RemoteBundle],
    used: Mutex<Vec<CopyUsed>>,
}

impl Copies<'_> {
    fn note(&self, number: usize, note: impl FnOnce(&mut CopyUsed)) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = used.get_mut(number) {
            note(copy);
        }
    }

    /// Returns the error for a file that no copy has, with the words about each.
    fn none_has(&self, file: &FileEntry, faults: Vec<Error>) -> Error {
        let mut attempts = Attempts { origin_asked: true, ..Attempts::default() };
        for (copy, fault) in self.copies.iter().zip(faults) {
            let server = copy.url().url.to_string();
            let passes = fault.is_passing();
            let fault = match fault {
                Error::Pelican(Pelican::Corrupt { attempts, .. }) => attempts.to_string(),
                fault => fault.to_string(),
            };
            attempts.list.push(Attempt { server, fault, passes, cause: Cause::Other });
        }
        let (url, elapsed) = (file.name.to_string(), Duration::ZERO);
        match attempts.list.iter().any(|attempt| attempt.passes) {
            true => Pelican::Failed { action: "read", url, attempts, elapsed }.into(),
            false => Pelican::Corrupt { url, attempts }.into(),
        }
    }
}

impl BundleFiles for Copies<'_> {
    fn name(&self) -> String {
        self.first.url().to_string()
    }

    fn manifest(&self) -> &ManifestFile {
        self.first.file()
    }

    fn read(&self, file: &FileEntry, cancel: &AtomicBool) -> Result<Vec<u8>, Error> {
        let mut faults = Vec::new();
        for (number, remote) in self.copies.iter().enumerate() {
            match (OfFederation { client: self.client, remote }).read(file, cancel) {
                Ok(bytes) => {
                    self.note(number, |copy| copy.indexes += 1);
                    return Ok(bytes);
                }
                Err(error) if error.is_cancelled() => return Err(error),
                Err(error) => faults.push(error),
            }
        }
        Err(self.none_has(file, faults))
    }

    fn stream(
        &self,
        file: &FileEntry,
        accepts: &(dyn Fn(u64, &[u8]) -> bool + Sync),
        from_block: u64,
        sink: &mut Sink<'_>,
        cancel: &AtomicBool,
    ) -> Result<(), Error> {
        let (mut next, mut stopped) = (from_block, false);
        loop {
            let (begun, mut faults) = (next, Vec::new());
            for (number, remote) in self.copies.iter().enumerate() {
                let from = next;
                let mut counted = |position: u64, bytes: &[u8]| -> io::Result<()> {
                    next += 1;
                    sink(position, bytes).inspect_err(|_| stopped = true)
                };
                let source = OfFederation { client: self.client, remote };
                let read = source.stream(file, accepts, from, &mut counted, cancel);
                self.note(number, |copy| copy.blocks += next - from);
                match read {
                    Ok(()) => return Ok(()),
                    Err(error) if stopped || error.is_cancelled() => return Err(error),
                    Err(error) => faults.push(error),
                }
            }
            if next == begun {
                return Err(self.none_has(file, faults));
            }
        }
    }

    fn wrong_copies(&self) -> Vec<WrongCopy> {
        wrong_copies(self.client)
    }
}
