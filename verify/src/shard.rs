//! One shard and its index.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gular_bundle::{
    BLOCK_BYTES, Backend, DATA_DIR, Digest, FileEntry, Header, Index, Manifest, ReadAt, ShardEntry,
    block_cv, rebuild_index,
};

use crate::digest::{block_buffer, digest, piece_of};
use crate::report::{ByteRange, FETCH_AGAIN, Fault, FaultKind, merged};
use crate::{Mode, VerifyOptions};

/// What checking a shard needs of the whole.
pub(crate) struct Context<'a> {
    pub(crate) data: &'a Path,
    pub(crate) manifest: &'a Manifest,
    pub(crate) options: &'a VerifyOptions,
    /// Called with the bytes just read.
    pub(crate) advance: &'a (dyn Fn(u64) + Sync),
    pub(crate) checked: &'a AtomicU64,
    pub(crate) cancel: &'a AtomicBool,
}

/// Everything that is wrong with shard `number` and its index.
pub(crate) fn check_shard(context: &Context<'_>, number: usize, entry: &ShardEntry) -> Vec<Fault> {
    let mut check = Check { context, number, entry, faults: Vec::new() };
    let index = check.index();
    let shard = check.open(&entry.file);
    if let Some(shard) = shard {
        check.structure(&shard);
        match (&index, context.options.mode) {
            (_, Mode::Quick) => {}
            (Some(index), Mode::Sample { fraction, seed }) => {
                check.some(&shard, index, fraction, seed);
            }
            (Some(index), Mode::Full) => check.blocks(&shard, index),
            (None, _) => check.without_index(&shard),
        }
    }
    check.faults
}

struct Check<'a> {
    context: &'a Context<'a>,
    number: usize,
    entry: &'a ShardEntry,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn fault(&mut self, kind: FaultKind, file: &FileEntry, message: String) -> &mut Fault {
        self.faults.push(Fault {
            kind,
            file: format!("{DATA_DIR}/{}", file.name),
            split: Some(self.entry.split),
            message,
            ranges: Vec::new(),
            keys: Vec::new(),
            n_keys: 0,
            advice: FETCH_AGAIN,
        });
        let last = self.faults.len() - 1;
        &mut self.faults[last]
    }

    /// Opens a file of the manifest's length, or of another, which is a fault.
    fn open(&mut self, file: &FileEntry) -> Option<ReadAt> {
        let path = self.context.data.join(file.name.as_str());
        match ReadAt::open(&path, Backend::Pread) {
            Ok(open) => {
                let (expected, found) = (file.bytes, open.len_bytes());
                if found != expected {
                    let range = ByteRange { start: found.min(expected), end: found.max(expected) };
                    let what = if found < expected { "is cut" } else { "has grown" };
                    let message = format!("{what}: {found} bytes, the manifest says {expected}");
                    self.fault(FaultKind::Length, file, message).ranges = vec![range];
                }
                Some(open)
            }
            Err(gular_bundle::Error::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                self.fault(FaultKind::Missing, file, "is not there".to_owned());
                None
            }
            Err(e) => {
                self.fault(FaultKind::Unreadable, file, e.to_string());
                None
            }
        }
    }

    /// The index, when it is the one the manifest describes.
    fn index(&mut self) -> Option<Index> {
        let entry = self.entry;
        let file = self.open(&entry.index)?;
        if file.len_bytes() != entry.index.bytes {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(file.len_bytes()).ok()?];
        if let Err(e) = file.read_at(0, &mut bytes) {
            self.fault(FaultKind::Unreadable, &entry.index, e.to_string());
            return None;
        }
        (self.context.advance)(bytes.len() as u64);
        let (expected, found) = (entry.index.digest, Digest::of(&bytes));
        if found != expected {
            self.fault(
                FaultKind::Index,
                &entry.index,
                format!("its digest is {found}, the manifest says {expected}"),
            );
            return None;
        }
        match self.parse(&bytes) {
            Ok(index) => Some(index),
            Err(message) => {
                self.fault(FaultKind::Index, &entry.index, message).advice =
                    "the bundle was written wrongly: pack again, and report this as a bug";
                None
            }
        }
    }

    /// Parses an index of the right digest and checks it against the manifest.
    fn parse(&self, bytes: &[u8]) -> Result<Index, String> {
        let (entry, manifest) = (self.entry, self.context.manifest);
        let name = entry.index.name.to_string();
        let index = Index::parse(&name, bytes, &manifest.fields, entry.file.bytes)
            .map_err(|e| e.to_string())?;
        if index.n_samples() as u64 != entry.samples {
            return Err(format!(
                "lists {} samples, the manifest says {}",
                index.n_samples(),
                entry.samples
            ));
        }
        if index.shard_digest() != Some(entry.file.digest) {
            return Err("its blocks do not give the shard's digest".to_owned());
        }
        let n_classes = i32::try_from(manifest.classes.len()).unwrap_or(i32::MAX);
        let outside = |l: &i32| n_classes > 0 && !(-1..n_classes).contains(l);
        match index.labels.iter().flatten().position(outside) {
            Some(row) => Err(format!(
                "sample `{}` has a label outside the {n_classes} classes",
                index.key(row).unwrap_or_default()
            )),
            None => Ok(index),
        }
    }

    /// The shard's own header.
    fn structure(&mut self, shard: &ReadAt) {
        let entry = self.entry;
        let wrong = match Header::read(shard) {
            Ok(header) if header.metadata("format") == Some("gular-shard") => return,
            Ok(_) => "its header does not say `gular-shard`".to_owned(),
            Err(e) => e.to_string(),
        };
        // A cut file has been reported by its length.
        if shard.len_bytes() == entry.file.bytes {
            self.fault(FaultKind::Structure, &entry.file, wrong);
        }
    }

    /// Every block against the index; in bad ones, every sample.
    fn blocks(&mut self, shard: &ReadAt, index: &Index) {
        let entry = self.entry;
        let single = index.blocks.len() == 1;
        let mut bad = Vec::new();
        let mut buffer = block_buffer(entry.file.bytes);
        for (block, expected) in (0_u64..).zip(&index.blocks) {
            if self.context.cancel.load(Ordering::Relaxed) {
                return;
            }
            let start = block * BLOCK_BYTES as u64;
            let end = (start + BLOCK_BYTES as u64).min(entry.file.bytes);
            let piece = piece_of(&mut buffer, end.saturating_sub(start));
            let read = shard.read_at(start, piece);
            if read.is_err() || block_cv(block, piece, single) != *expected {
                bad.push(ByteRange { start, end });
            }
            (self.context.advance)(piece.len() as u64);
        }
        self.context.checked.fetch_add(entry.samples, Ordering::Relaxed);
        if bad.is_empty() {
            return;
        }
        let n_bad = bad.len();
        let bad = merged(bad);
        let (keys, ranges) = self.bad_samples(shard, index, &bad);
        let max = self.context.options.max_keys;
        let n_keys = keys.len() as u64;
        let total = index.blocks.len();
        let message = if keys.is_empty() {
            format!(
                "{n_bad} of {total} blocks have other bytes than were packed; no sample lies in what changed"
            )
        } else {
            format!("{n_bad} of {total} blocks have other bytes than were packed")
        };
        self.fault(FaultKind::Blocks, &entry.file, message).ranges = bad;
        if !keys.is_empty() {
            let message =
                format!("{n_keys} of {} samples have other bytes than were packed", entry.samples);
            let fault = self.fault(FaultKind::Samples, &entry.file, message);
            fault.ranges = ranges;
            fault.n_keys = n_keys;
            fault.keys = keys.into_iter().take(max).collect();
        }
    }

    /// Samples with a value that overlaps `bad` and does not have its digest.
    fn bad_samples(
        &self,
        shard: &ReadAt,
        index: &Index,
        bad: &[ByteRange],
    ) -> (Vec<String>, Vec<ByteRange>) {
        let (mut keys, mut ranges) = (Vec::new(), Vec::new());
        for row in 0..index.n_samples() {
            let mut hit = false;
            for field in 0..index.locations.len() {
                let Some((start, len)) = index.locations.get(field).and_then(|l| l.range(row))
                else {
                    continue;
                };
                let end = start + len as u64;
                if bad.iter().any(|b| start < b.end && b.start < end)
                    && !self.value_is_sound(shard, index, row, field)
                {
                    hit = true;
                    ranges.push(ByteRange { start, end });
                }
            }
            if hit {
                keys.push(index.key(row).unwrap_or_default().to_owned());
            }
        }
        (keys, merged(ranges))
    }

    fn value_is_sound(&self, shard: &ReadAt, index: &Index, row: usize, field: usize) -> bool {
        let Some((offset, len)) = index.locations.get(field).and_then(|l| l.range(row)) else {
            return false;
        };
        let mut value = vec![0; len];
        if shard.read_at(offset, &mut value).is_err() {
            return false;
        }
        match index.digests.get(field).and_then(|d| d.get(row)) {
            Some(expected) => Digest::of(&value) == Digest::from_bytes(*expected),
            // The label: its copy in the index is the one that counts.
            None => {
                let label = index
                    .labels
                    .as_ref()
                    .and_then(|l| l.get(row))
                    .map(|l| i64::from(*l).to_le_bytes());
                label.is_some_and(|l| value == l)
            }
        }
    }

    /// A share of the samples, chosen by seed and shard.
    fn some(&mut self, shard: &ReadAt, index: &Index, fraction: f64, seed: u64) {
        let entry = self.entry;
        let (mut keys, mut ranges, mut n_checked) = (Vec::new(), Vec::new(), 0_u64);
        for row in 0..index.n_samples() {
            if self.context.cancel.load(Ordering::Relaxed) {
                return;
            }
            // The very first sample of the bundle always, so that something is read.
            let first = self.number == 0 && row == 0;
            if !first && unit(seed, self.number as u64, row as u64) >= fraction {
                continue;
            }
            n_checked += 1;
            let mut hit = false;
            for field in 0..index.locations.len() {
                let Some((start, len)) = index.locations.get(field).and_then(|l| l.range(row))
                else {
                    continue;
                };
                (self.context.advance)(len as u64);
                if !self.value_is_sound(shard, index, row, field) {
                    hit = true;
                    ranges.push(ByteRange { start, end: start + len as u64 });
                }
            }
            if hit {
                keys.push(index.key(row).unwrap_or_default().to_owned());
            }
        }
        self.context.checked.fetch_add(n_checked, Ordering::Relaxed);
        if !keys.is_empty() {
            let n_keys = keys.len() as u64;
            let max = self.context.options.max_keys;
            let message = format!(
                "{n_keys} of {n_checked} samples looked at have other bytes than were packed"
            );
            let fault = self.fault(FaultKind::Samples, &entry.file, message);
            fault.ranges = merged(ranges);
            fault.n_keys = n_keys;
            fault.keys = keys.into_iter().take(max).collect();
        }
    }

    /// With its index lost, a shard is judged as a whole, and whether it can give the index again.
    fn without_index(&mut self, shard: &ReadAt) {
        let entry = self.entry;
        if self.context.options.mode != Mode::Full || shard.len_bytes() != entry.file.bytes {
            return;
        }
        let context = self.context;
        let found = match digest(shard, 0, entry.file.bytes, context.advance, context.cancel) {
            Ok(Some(found)) => found,
            Ok(None) => return,
            Err(e) => {
                self.fault(FaultKind::Unreadable, &entry.file, e.to_string());
                return;
            }
        };
        if found != entry.file.digest {
            let message = format!(
                "its digest is {found}, the manifest says {}; without its index the place is not known",
                entry.file.digest
            );
            let range = ByteRange { start: 0, end: entry.file.bytes };
            self.fault(FaultKind::Blocks, &entry.file, message).ranges = vec![range];
            return;
        }
        let again =
            rebuild_index(shard).is_ok_and(|bytes| Digest::of(&bytes) == entry.index.digest);
        let of_index = self.faults.iter_mut().find(|f| f.file.ends_with(entry.index.name.as_str()));
        if let Some(fault) = of_index.filter(|_| again) {
            fault.advice = "the shard is sound and gives this very index again: copy or fetch the index file, or pack again";
        }
    }
}

/// A number in 0..1 that depends on its arguments alone.
fn unit(seed: u64, shard: u64, row: u64) -> f64 {
    let mut bytes = [0; 24];
    for (slot, value) in bytes.chunks_exact_mut(8).zip([seed, shard, row]) {
        slot.copy_from_slice(&value.to_le_bytes());
    }
    let digest = Digest::of(&bytes);
    let word = digest.as_bytes().first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
    (word >> 11) as f64 / (1_u64 << 53) as f64
}
