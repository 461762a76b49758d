//! Repairs a bundle's folder from several copies, of which none need be whole.
//!
//! ```text
//! each block ─▶ right in the folder: kept
//!               else from the first copy that has it right ─▶ the next copy …
//! ```

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::{BLOCK_BYTES, Digest, FileEntry, ShardEntry, n_blocks};
use gular_pelican::{
    Attempt, Attempts, Cause, Client, Error as Pelican, Object, Reach, Scheme, Sink,
};
use serde::Serialize;

use super::bundle::{FetchOptions, fetch_each};
use crate::remote::OfFederation;
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
    /// Bytes of these files.
    pub bytes: u64,
    /// Bytes that were right before, without those of shards that could not be repaired.
    pub bytes_kept: u64,
    /// Bytes that were missing or wrong, and are right now.
    pub bytes_repaired: u64,
    /// The files that could not be repaired, in the order of the manifest.
    pub failed: Vec<Unrepaired>,
    /// What each copy gave, in the order in which they were asked.
    pub copies: Vec<CopyUsed>,
    /// Servers that sent wrong bytes for objects which other servers sent correctly.
    pub wrong_copies: Vec<WrongCopy>,
    /// Wall-clock time.
    pub seconds: f64,
}

/// A file that could not be repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unrepaired {
    /// Name of the file, below the bundle's data folder.
    pub file: String,
    /// What is wrong with it in each copy.
    pub error: String,
    /// Whether the same repair may succeed later.
    pub passes: bool,
}

impl Unrepaired {
    fn new(shard: &ShardEntry, error: Error) -> Self {
        let passes = error.is_passing();
        let (file, error) = match error {
            Error::NoCopy { file, attempts } => (file, attempts.to_string()),
            error => (shard.file.name.to_string(), error.to_string()),
        };
        Self { file, error, passes }
    }
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
/// blocks that are missing or wrong are read from them, each from the first copy that has it right,
/// whatever the length of the file there. A file that cannot be repaired stays as it is, and does
/// not keep others from being repaired.
///
/// The bundle is the one whose digest a URL gives; else the one of the manifest that `dir` and all
/// copies have, as far as they have one.
///
/// # Errors
/// [`Error::TwoManifests`]; those of [`fetch`](super::fetch()) that concern all files. The report lists files of which no
/// copy has some block.
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
    let own = own.filter(|own| wanted.is_none_or(|wanted| wanted == own.digest()));
    let bytes = match (own, wanted) {
        (Some(own), Some(_)) => own.bytes().to_vec(),
        (own, _) => manifest_of(client, own.as_ref(), from, wanted, watch)?,
    };
    // A copy's own manifest may be damaged or missing.
    let copies = from.iter().map(|url| RemoteBundle::with(url, bytes.clone()));
    let copies = copies.collect::<Result<Vec<_>, _>>()?;
    let Some(first) = copies.first() else { return Err(Error::cancelled()) };
    let none =
        |copy: &RemoteBundle| CopyUsed { url: copy.url().url.to_string(), blocks: 0, indexes: 0 };
    let used = Mutex::new(copies.iter().map(none).collect());
    let source = Copies { client, first, copies: &copies, used };
    let failed = Mutex::new(Vec::new());
    let note = |shard: &ShardEntry, error: Error| {
        if error.reach() == Reach::All {
            return Err(error);
        }
        failed.lock().unwrap_or_else(PoisonError::into_inner).push(Unrepaired::new(shard, error));
        Ok(())
    };
    let report = fetch_each(&source, dir, options, watch, &note)?;
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let place = |failed: &Unrepaired| {
        first.manifest().files().position(|file| file.name.as_str() == failed.file)
    };
    failed.sort_by_cached_key(place);
    Ok(RepairReport {
        digest: first.digest(),
        files: report.files,
        bytes: report.bytes,
        bytes_kept: report.bytes_kept,
        bytes_repaired: report.bytes_fetched,
        failed,
        copies: source.used.into_inner().unwrap_or_else(PoisonError::into_inner),
        wrong_copies: report.wrong_copies,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Returns the manifest that the folder, if it has one, and all copies that have one agree on. A
/// damaged one may still be read; which of two is right, only a digest says.
fn manifest_of(
    client: &Client,
    own: Option<&ManifestFile>,
    from: &[BundleUrl],
    wanted: Option<Digest>,
    watch: Watch<'_>,
) -> Result<Vec<u8>, Error> {
    let mut found = own.map(|own| ("the folder".to_owned(), own.digest(), own.bytes().to_vec()));
    let mut first = None;
    for url in from {
        let of_copy = BundleUrl { digest: wanted, ..url.clone() };
        match (RemoteBundle::open(client, &of_copy, watch), &found) {
            (Ok(copy), None) => {
                let bytes = copy.manifest_bytes().to_vec();
                found = Some((url.url.to_string(), copy.digest(), bytes));
            }
            (Ok(copy), Some((place, digest, _))) if copy.digest() != *digest => {
                let manifests = [(place.clone(), *digest), (url.url.to_string(), copy.digest())];
                return Err(Error::TwoManifests(Box::new(manifests)));
            }
            (Err(error), _) if error.is_cancelled() => return Err(error),
            (Err(error), _) => first = first.or(Some(error)),
            (Ok(_), _) => {}
        }
    }
    let bytes = found.map(|(_, _, bytes)| bytes);
    bytes.ok_or_else(|| first.unwrap_or_else(Error::cancelled))
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
            let url = &copy.url().url;
            let passes = fault.is_passing();
            let fault = match fault {
                // There is no server that could be named.
                Error::Pelican(Pelican::Corrupt { attempts, .. })
                    if url.scheme() == Scheme::File =>
                {
                    let faults: Vec<_> = attempts.list.into_iter().map(|a| a.fault).collect();
                    faults.join("; ")
                }
                Error::Pelican(Pelican::NotFound { .. }) => "it does not have the file".to_owned(),
                Error::Pelican(Pelican::Corrupt { attempts, .. }) => attempts.to_string(),
                fault => fault.to_string(),
            };
            attempts.list.push(Attempt {
                server: url.to_string(),
                fault,
                passes,
                cause: Cause::Other,
            });
        }
        Error::NoCopy { file: file.name.to_string(), attempts: Box::new(attempts) }
    }

    /// Reads blocks up to the first wrong one, from a copy whose file has another length. Returns
    /// whether those were all.
    fn stream_other_len(
        &self,
        remote: &RemoteBundle,
        file: &FileEntry,
        accepts: &(dyn Fn(u64, &[u8]) -> bool + Sync),
        blocks: Range<u64>,
        sink: &mut Sink<'_>,
        watch: Watch<'_>,
    ) -> Result<bool, Error> {
        let block_bytes = BLOCK_BYTES as u64;
        let (url, len_bytes) = remote.found(self.client, file, watch)?;
        let start = blocks.start.saturating_mul(block_bytes);
        let Some(len_bytes) = len_bytes.filter(|len| *len != file.bytes && *len > start) else {
            return Ok(false);
        };
        // What follows the end of the file is no part of its last block.
        let cut = |block: u64, bytes: &[u8]| {
            let rest = file.bytes.saturating_sub(block.saturating_mul(block_bytes));
            usize::try_from(rest).unwrap_or(usize::MAX).min(bytes.len())
        };
        let accepts = |block: u64, bytes: &[u8]| {
            let cut = cut(block, bytes);
            bytes.get(..cut).is_some_and(|bytes| accepts(block, bytes))
        };
        let wanted = blocks.start..blocks.end.min(n_blocks(file.bytes));
        let mut next = wanted.start;
        let mut sink = |position: u64, bytes: &[u8]| {
            let cut = cut(position / block_bytes, bytes);
            next += 1;
            sink(position, bytes.get(..cut).unwrap_or_default())
        };
        let object = Object { url: &url, len_bytes, accepts: &accepts };
        self.client.stream(&object, wanted.clone(), &mut sink, watch)?;
        Ok(next == wanted.end)
    }
}

impl BundleFiles for Copies<'_> {
    fn name(&self) -> String {
        self.first.url().to_string()
    }

    fn manifest(&self) -> &ManifestFile {
        self.first.file()
    }

    fn read(&self, file: &FileEntry, watch: Watch<'_>) -> Result<Vec<u8>, Error> {
        let mut faults = Vec::new();
        for (number, remote) in self.copies.iter().enumerate() {
            match (OfFederation { client: self.client, remote }).read(file, watch) {
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
        blocks: Range<u64>,
        sink: &mut Sink<'_>,
        watch: Watch<'_>,
    ) -> Result<(), Error> {
        let (next, stopped) = (Cell::new(blocks.start), Cell::new(false));
        let mut counted = |position: u64, bytes: &[u8]| -> io::Result<()> {
            next.set(next.get() + 1);
            sink(position, bytes).inspect_err(|_| stopped.set(true))
        };
        let is_final = |error: &Error| stopped.get() || error.is_cancelled();
        loop {
            let (begun, mut faults) = (next.get(), Vec::new());
            for (number, remote) in self.copies.iter().enumerate() {
                let from = next.get();
                let source = OfFederation { client: self.client, remote };
                let mut read = source.stream(file, accepts, from..blocks.end, &mut counted, watch);
                if let Err(Error::Pelican(Pelican::Corrupt { .. })) = &read {
                    let rest = next.get()..blocks.end;
                    match self.stream_other_len(remote, file, accepts, rest, &mut counted, watch) {
                        Ok(true) => read = Ok(()),
                        Err(error) if is_final(&error) => read = Err(error),
                        // The first error says what is wrong with the copy.
                        Ok(false) | Err(_) => {}
                    }
                }
                self.note(number, |copy| copy.blocks += next.get() - from);
                match read {
                    Ok(()) => return Ok(()),
                    Err(error) if is_final(&error) => return Err(error),
                    Err(error) => faults.push(error),
                }
            }
            if next.get() == begun {
                return Err(self.none_has(file, faults));
            }
        }
    }

    fn wrong_copies(&self) -> Vec<WrongCopy> {
        wrong_copies(self.client)
    }
}
