//! Verifies a published bundle: it is streamed from the servers, and nothing is stored.
//!
//! If one server has a wrong copy and another one a right copy, that is not a fault: the client
//! passes on the bytes that the manifest's digests accept, from whichever server. A fault here
//! means that no server has the right bytes.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::{
    DATA_DIR, Digest, FileEntry, Index, Manifest, Row, SampleId, ShardEntry, ShardIdx,
};
use gular_files::{Watch, parallel};
use gular_pelican::{Attempts, Client, Error as Pelican, Url};
use gular_transfer::{BundleUrl, Error as Transfer, Remote, RemoteBundle, Stored, wrong_copies};

use crate::samples::{is_chosen, touches};
use crate::shard::WRITTEN_WRONGLY;
use crate::verify_report::{ByteRange, Fault, FaultKind, VerifyReport, merged};
use crate::walk::{always, manifest_fault};
use crate::{Error, Mode, VerifyOptions};

const ANOTHER_BUNDLE: &str = "check that the URL has the right version and the complete digest; a published version never changes";
const PUBLISH_AGAIN: &str = "no server has the correct bytes: publish it again from an intact copy";

/// Verifies the bundle published at `url`, a collection NAME/VERSION.
///
/// `progress` is called with the bytes read so far and those to be read, from
/// any thread; `cancel` ends the work at once. Shards are read `options.jobs` at a
/// time, one MiB of each in memory, and their indexes.
///
/// # Errors
/// [`Error::Pelican`] when the bundle cannot be reached; faults of the data are in the report.
pub fn verify_url(
    client: &Client,
    url: &Url,
    options: &VerifyOptions,
    watch: Watch<'_>,
) -> Result<VerifyReport, Error> {
    let Watch { progress, cancel, .. } = watch;
    let start = Instant::now();
    let url = BundleUrl { url: url.clone(), digest: options.digest };
    let remote = match Remote::bundle(client, &url, watch) {
        Ok(remote) => remote,
        Err(Transfer::Pelican(Pelican::Corrupt { attempts, .. })) => {
            return Ok(without_manifest(&attempts, options, start));
        }
        Err(Transfer::AnotherBundle { expected, found, .. }) => {
            return Ok(another_bundle(expected, found, options, start));
        }
        Err(error) => return Err(error.into()),
    };
    let manifest = options.part_of(remote.manifest())?;
    let mut report = VerifyReport::new(Some(remote.digest()), options.mode);
    let total = report.describe(&manifest, options.mode);

    let (read, checked) = (AtomicU64::new(0), AtomicU64::new(0));
    let advance = |n: u64| progress(read.fetch_add(n, Ordering::Relaxed) + n, total);
    let found = Mutex::new(Vec::new());
    let numbered: Vec<(usize, &ShardEntry)> = manifest.shards.iter().enumerate().collect();
    let result = parallel(&numbered, options.jobs, cancel, |(number, entry), stop| {
        let walk = Walk {
            client,
            remote: &remote,
            manifest: &manifest,
            options,
            always: always(&manifest, options.mode),
            advance: &advance,
            checked: &checked,
            watch: watch.until(stop),
        };
        let mut check = Check { walk: &walk, number: ShardIdx(*number), entry, faults: Vec::new() };
        check.shard()?;
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.extend(check.faults.into_iter().map(|fault| (*number, fault)));
        Ok(())
    });
    match result {
        Err(Error::Pelican(Pelican::Cancelled)) | Ok(()) if cancel.load(Ordering::Relaxed) => {
            return Err(Error::Cancelled { bytes: read.into_inner(), total });
        }
        result => result?,
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(number, fault)| (*number, fault.kind));
    report.faults = found.into_iter().map(|(_, fault)| fault).collect();
    report.bytes_read = read.into_inner();
    report.samples_checked = checked.into_inner();
    report.wrong_copies = wrong_copies(client);
    report.sound = report.faults.is_empty();
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Makes the report on a bundle whose manifest no server has.
fn without_manifest(attempts: &Attempts, options: &VerifyOptions, start: Instant) -> VerifyReport {
    let mut report = VerifyReport::new(None, options.mode);
    report.faults.push(no_manifest(attempts));
    report.seconds = start.elapsed().as_secs_f64();
    report
}

/// Makes the report on a URL at which another bundle is published than was asked for.
fn another_bundle(
    expected: Digest,
    found: Digest,
    options: &VerifyOptions,
    start: Instant,
) -> VerifyReport {
    let mut report = VerifyReport::new(None, options.mode);
    let message = format!("the bundle published here has digest {found}, expected {expected}");
    let mut fault = manifest_fault(message);
    fault.advice = ANOTHER_BUNDLE;
    fault.compared(&expected, &found);
    report.faults.push(fault);
    report.seconds = start.elapsed().as_secs_f64();
    report
}

/// Makes the fault that no copy is the bundle's manifest.
fn no_manifest(attempts: &Attempts) -> Fault {
    let mut fault = manifest_fault(attempts.to_string());
    fault.advice = PUBLISH_AGAIN;
    fault
}

/// What checking a shard needs to know about the whole bundle.
struct Walk<'a> {
    client: &'a Client,
    remote: &'a RemoteBundle,
    manifest: &'a Manifest,
    options: &'a VerifyOptions,
    always: Option<SampleId>,
    advance: &'a (dyn Fn(u64) + Sync),
    checked: &'a AtomicU64,
    watch: Watch<'a>,
}

/// The check of one shard and its index.
struct Check<'a> {
    walk: &'a Walk<'a>,
    number: ShardIdx,
    entry: &'a ShardEntry,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn fault(&mut self, kind: FaultKind, file: &FileEntry, message: String) -> &mut Fault {
        let name = format!("{DATA_DIR}/{}", file.name);
        let mut fault = Fault::new(kind, name, message, PUBLISH_AGAIN);
        fault.split = Some(self.entry.split);
        self.faults.push(fault);
        let last = self.faults.len() - 1;
        &mut self.faults[last]
    }

    fn shard(&mut self) -> Result<(), Error> {
        let Some(index) = self.index()? else { return Ok(()) };
        let n_blocks = index.blocks().n_blocks();
        let wanted: Vec<bool> = match self.walk.options.mode {
            Mode::Quick => return self.length(&index),
            Mode::Full => vec![true; n_blocks],
            Mode::Sample { fraction, seed } => self.blocks_of(&index, fraction, seed),
        };
        if self.walk.options.mode == Mode::Full {
            self.walk.checked.fetch_add(self.entry.samples, Ordering::Relaxed);
        }
        self.blocks(&index, &wanted)
    }

    /// Reads the index, if some server has the one that the manifest describes.
    fn index(&mut self) -> Result<Option<Index>, Error> {
        let entry = self.entry;
        let bytes = self.listing(&entry.index)?;
        let view = entry.view.as_ref().map(|view| self.listing(view)).transpose()?;
        let Some(bytes) = bytes.filter(|_| !matches!(view, Some(None))) else { return Ok(None) };
        let (view, name) = (view.flatten(), entry.index.name.as_str());
        match Index::accept(name, bytes, view.as_deref(), self.walk.manifest, entry) {
            Ok(index) => Ok(Some(index)),
            Err(error) => {
                let of = entry.view.as_ref().filter(|view| error.is_of(view.name.as_str()));
                let file = of.unwrap_or(&entry.index);
                let fault = self.fault(FaultKind::Index, file, error.reason());
                fault.advice = WRITTEN_WRONGLY;
                Ok(None)
            }
        }
    }

    /// Reads an index or a view, if some server has the one that the manifest lists.
    fn listing(&mut self, file: &FileEntry) -> Result<Option<Vec<u8>>, Error> {
        match self.walk.remote.read(self.walk.client, file, self.walk.watch) {
            Ok(bytes) => {
                (self.walk.advance)(bytes.len() as u64);
                return Ok(Some(bytes));
            }
            Err(Transfer::Pelican(Pelican::NotFound { server, .. })) => {
                self.fault(
                    FaultKind::Missing,
                    file,
                    format!("does not exist, according to `{server}`"),
                );
            }
            Err(Transfer::Pelican(Pelican::Corrupt { attempts, .. })) => {
                self.fault(FaultKind::Index, file, attempts.to_string());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(None)
    }

    /// Compares the shard's length with the manifest's.
    fn length(&mut self, index: &Index) -> Result<(), Error> {
        let stored = self.stored()?;
        self.judge(index, stored);
        Ok(())
    }

    fn stored(&self) -> Result<Stored, Error> {
        let Walk { client, remote, watch, .. } = self.walk;
        Ok(remote.stored(client, &self.entry.file, *watch)?)
    }

    fn judge(&mut self, index: &Index, stored: Stored) {
        let expected = self.entry.file.bytes;
        let found = match stored {
            Stored::Whole => return,
            Stored::Missing { server } => return self.missing(index, &server),
            Stored::OtherLength(found) => {
                found.map_or("an unknown number of".to_owned(), |n| n.to_string())
            }
        };
        let message = format!("has {found} bytes, the manifest says {expected}");
        self.fault(FaultKind::Length, &self.entry.file, message).compared(&expected, &found);
        self.name_samples(index, |_| true);
    }

    fn missing(&mut self, index: &Index, server: &str) {
        let message = format!("does not exist, according to `{server}`");
        self.fault(FaultKind::Missing, &self.entry.file, message);
        self.name_samples(index, |_| true);
    }

    /// Streams the wanted blocks. After a bad block the others are still read.
    fn blocks(&mut self, index: &Index, wanted: &[bool]) -> Result<(), Error> {
        let entry = self.entry;
        let Walk { client, remote, watch, .. } = self.walk;
        let tree = index.blocks();
        let accepts = |block: u64, bytes: &[u8]| tree.accepts(block, bytes);
        let mut bad: Vec<(ByteRange, String)> = Vec::new();
        let mut next = 0;
        while let Some(ahead) = wanted.get(next..).and_then(|rest| rest.iter().position(|w| *w)) {
            next += ahead;
            let run = wanted.get(next..).unwrap_or_default().iter().take_while(|wanted| **wanted);
            let run = next as u64..(next + run.count()) as u64;
            let mut sink = |_: u64, bytes: &[u8]| {
                (self.walk.advance)(bytes.len() as u64);
                next += 1;
                Ok(())
            };
            match remote.stream(client, &entry.file, &accepts, run, &mut sink, *watch) {
                Ok(()) => {}
                Err(Transfer::Pelican(Pelican::NotFound { server, .. })) => {
                    self.missing(index, &server);
                    return Ok(());
                }
                Err(Transfer::Pelican(Pelican::Corrupt { attempts, .. })) => {
                    let Range { start, end } = tree.range(next as u64);
                    bad.push((ByteRange { start, end }, attempts.to_string()));
                    next += 1;
                    // If the shard has another length, all of its blocks would be refused alike.
                    let stored = if bad.len() == 1 { self.stored()? } else { Stored::Whole };
                    if stored != Stored::Whole {
                        self.judge(index, stored);
                        return Ok(());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        let Some((_, attempts)) = bad.first() else { return Ok(()) };
        let message = format!(
            "{} of {} blocks differ from what was packed; the first one: {attempts}",
            bad.len(),
            tree.n_blocks()
        );
        let ranges = merged(bad.iter().map(|(range, _)| *range).collect());
        self.fault(FaultKind::Blocks, &entry.file, message).ranges.clone_from(&ranges);
        self.name_samples(index, |range| touches(&ranges, range));
        Ok(())
    }

    /// Names, in the last fault, the samples that have bytes in bad ranges.
    fn name_samples(&mut self, index: &Index, is_bad: impl Fn(ByteRange) -> bool) {
        let max = self.walk.options.max_keys;
        let Some(fault) = self.faults.last_mut() else { return };
        for row in index.rows() {
            if ranges_of(index, row).any(&is_bad) {
                fault.n_keys += 1;
                if fault.keys.len() < max {
                    fault.keys.extend(index.key(row).map(str::to_owned));
                }
            }
        }
    }

    /// Returns the blocks that have a share of the samples, chosen by seed, shard and row.
    fn blocks_of(&self, index: &Index, fraction: f64, seed: u64) -> Vec<bool> {
        let tree = index.blocks();
        let mut wanted = vec![false; tree.n_blocks()];
        for row in index.rows() {
            let sample = SampleId { shard: self.number, row };
            if self.walk.always != Some(sample) && !is_chosen(sample, fraction, seed) {
                continue;
            }
            self.walk.checked.fetch_add(1, Ordering::Relaxed);
            for range in ranges_of(index, row) {
                let blocks = tree.blocks_of(&(range.start..range.end));
                for block in blocks.filter_map(|block| usize::try_from(block).ok()) {
                    if let Some(wanted) = wanted.get_mut(block) {
                        *wanted = true;
                    }
                }
            }
        }
        wanted
    }
}

/// Returns the ranges of a sample's values.
fn ranges_of(index: &Index, row: Row) -> impl Iterator<Item = ByteRange> {
    index.fields().filter_map(move |field| {
        let (start, len) = index.range(row, field)?;
        Some(ByteRange { start, end: start.saturating_add(len as u64) })
    })
}
