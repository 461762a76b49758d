//! Verifies one shard and its index.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gular_bundle::{
    Backend, Digest, Envelope, Error, FileEntry, Index, Manifest, ReadAt, Row, SafetensorsHeader,
    SampleId, ShardEntry, ShardIdx, rebuild_index, stored_file, survey,
};

use crate::digest::digest;
use crate::samples::{Samples, Seen, is_chosen, touches, without};
use crate::verify_report::{ByteRange, FETCH_AGAIN, Fault, FaultKind, merged};
use crate::{Mode, VerifyOptions};

/// What checking a shard needs to know about the whole bundle.
pub(crate) struct Context<'a> {
    /// The bundle's folder, and the one with its shards.
    pub(crate) dir: &'a Path,
    pub(crate) data: &'a Path,
    pub(crate) manifest: &'a Manifest,
    pub(crate) options: &'a VerifyOptions,
    /// Is called with the number of bytes just read.
    pub(crate) advance: &'a (dyn Fn(u64) + Sync),
    pub(crate) checked: &'a AtomicU64,
    /// A sample that is always read, however small the share.
    pub(crate) always: Option<SampleId>,
    pub(crate) cancel: &'a AtomicBool,
}

impl Context<'_> {
    /// Returns the path of the file from the bundle's folder.
    fn name_of(&self, file: &FileEntry) -> String {
        let path = self.data.join(file.name.as_str());
        path.strip_prefix(self.dir).unwrap_or(&path).display().to_string()
    }
}

/// Returns all faults of shard `number` and its index.
pub(crate) fn check_shard(
    context: &Context<'_>,
    number: ShardIdx,
    entry: &ShardEntry,
) -> Vec<Fault> {
    let mut check = Check { context, number, entry, faults: Vec::new() };
    let index = check.index();
    let shard = check.open(&entry.file);
    if shard.is_none() {
        check.name_all(index.as_ref());
    }
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
    number: ShardIdx,
    entry: &'a ShardEntry,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn fault(&mut self, kind: FaultKind, file: &FileEntry, message: String) -> &mut Fault {
        let name = self.context.name_of(file);
        let mut fault = Fault::new(kind, name, message, FETCH_AGAIN);
        fault.split = Some(self.entry.split);
        self.faults.push(fault);
        let last = self.faults.len() - 1;
        &mut self.faults[last]
    }

    /// Adds the fault that a file has another digest than the manifest says.
    fn other_digest(&mut self, kind: FaultKind, file: &FileEntry, found: Digest) -> &mut Fault {
        let expected = file.digest;
        let message = format!("its digest is {found}, the manifest says {expected}");
        self.fault(kind, file, message).compared(&expected, &found)
    }

    /// Names all samples of a shard that is missing or cannot be opened.
    fn name_all(&mut self, index: Option<&Index>) {
        let (n, max) = (self.entry.samples, self.context.options.max_keys);
        if let (Some(index), Some(fault)) = (index, self.faults.last_mut()) {
            let keys = index.rows().map_while(|row| index.key(row));
            fault.keys = keys.take(max).map(str::to_owned).collect();
            fault.n_keys = n;
        }
    }

    /// Opens a file if it has the manifest's length; another length is a fault.
    fn open(&mut self, file: &FileEntry) -> Option<ReadAt> {
        let path = stored_file(self.context.data, file);
        match ReadAt::open(&path, Backend::Pread) {
            Ok(open) => {
                let (expected, found) = (file.bytes, open.len_bytes());
                if found != expected {
                    let range = ByteRange { start: found.min(expected), end: found.max(expected) };
                    let what = if found < expected { "is cut" } else { "has grown" };
                    let message = format!("{what}: {found} bytes, the manifest says {expected}");
                    let fault = self.fault(FaultKind::Length, file, message);
                    fault.compared(&expected, &found).ranges = vec![range];
                }
                Some(open)
            }
            Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                self.fault(FaultKind::Missing, file, "is not there".to_owned());
                None
            }
            Err(e) => {
                self.fault(FaultKind::Unreadable, file, e.reason());
                None
            }
        }
    }

    /// Reads the index, if it is the one that the manifest describes.
    fn index(&mut self) -> Option<Index> {
        let entry = self.entry;
        let bytes = self.listing(&entry.index);
        let view = entry.view.as_ref().map(|view| self.listing(view));
        let bytes = bytes.filter(|_| !matches!(view, Some(None)))?;
        let (view, name) = (view.flatten(), entry.index.name.as_str());
        match Index::accept(name, bytes, view.as_deref(), self.context.manifest, entry) {
            Ok(index) => return Some(index),
            Err(error) => {
                let of = entry.view.as_ref().filter(|view| error.is_of(view.name.as_str()));
                let file = of.unwrap_or(&entry.index);
                match error {
                    Error::Digest { found, .. } => {
                        self.other_digest(FaultKind::Index, file, found);
                    }
                    error => {
                        let fault = self.fault(FaultKind::Index, file, error.reason());
                        fault.advice = WRITTEN_WRONGLY;
                    }
                }
            }
        }
        None
    }

    /// Reads all bytes of an index or a view, if it has the manifest's length.
    fn listing(&mut self, entry: &FileEntry) -> Option<Vec<u8>> {
        let file = self.open(entry)?;
        if file.len_bytes() != entry.bytes {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(file.len_bytes()).ok()?];
        if let Err(e) = file.read_at(0, &mut bytes) {
            self.fault(FaultKind::Unreadable, entry, e.reason());
            return None;
        }
        (self.context.advance)(bytes.len() as u64);
        Some(bytes)
    }

    /// Checks the shard's own structure: its header, or the whole file, if the structure is spread
    /// over it and every byte is read anyway.
    fn structure(&mut self, shard: &ReadAt) {
        let entry = self.entry;
        let wrong = match self.context.manifest.envelope {
            Envelope::Shards => match SafetensorsHeader::read(shard) {
                Ok(header) if header.metadata("format") == Some("gular-shard") => return,
                Ok(_) => "its header does not have the format `gular-shard`".to_owned(),
                Err(e) => e.reason(),
            },
            _ if self.context.options.mode != Mode::Full => return,
            envelope => match survey(shard, envelope) {
                Ok(_) => return,
                Err(e) => e.reason(),
            },
        };
        // A file that was cut is already reported because of its length.
        if shard.len_bytes() == entry.file.bytes {
            self.fault(FaultKind::Structure, &entry.file, wrong);
        }
    }

    /// Compares every block with the index, and in bad blocks, every sample.
    fn blocks(&mut self, shard: &ReadAt, index: &Index) {
        let entry = self.entry;
        let tree = index.blocks();
        let mut bad = Vec::new();
        let mut buffer = Vec::new();
        for block in 0..tree.n_blocks() as u64 {
            if self.context.cancel.load(Ordering::Relaxed) {
                return;
            }
            let Range { start, end } = tree.range(block);
            let piece = tree.read(shard, block, &mut buffer);
            if !piece.is_ok_and(|piece| tree.accepts(block, piece)) {
                bad.push(ByteRange { start, end });
            }
            (self.context.advance)(end - start);
        }
        self.context.checked.fetch_add(entry.samples, Ordering::Relaxed);
        if !bad.is_empty() {
            self.bad_blocks(shard, index, bad);
        }
    }

    /// Reports the contents of bad blocks: samples that are bad, and bytes that belong to no
    /// sample.
    fn bad_blocks(&mut self, shard: &ReadAt, index: &Index, bad: Vec<ByteRange>) {
        let entry = self.entry;
        // Bytes of these blocks were already counted, so reading them again is not.
        let seen = self.samples(shard, index, &|_| {}).look(|_| true, Some(&merged(bad.clone())));
        let (total, bad_values) = (index.blocks().n_blocks(), seen.bad());
        let (of_samples, of_none): (Vec<_>, Vec<_>) =
            bad.into_iter().partition(|block| touches(&bad_values, *block));
        if !of_samples.is_empty() {
            let n = of_samples.len();
            let message = format!("{n} of {total} blocks differ from what was packed");
            self.fault(FaultKind::Blocks, &entry.file, message).ranges = merged(of_samples);
        }
        if !of_none.is_empty() {
            let n = of_none.len();
            let message = format!(
                "{n} of {total} blocks differ from what was packed; the changed bytes belong to no sample"
            );
            let outside = of_none.into_iter().flat_map(|block| without(block, &seen.good));
            self.fault(FaultKind::Blocks, &entry.file, message).ranges = merged(outside.collect());
        }
        self.bad_samples(seen, &format!("of {} samples", entry.samples));
    }

    fn bad_samples(&mut self, seen: Seen, of: &str) {
        let (manifest, max) = (self.context.manifest, self.context.options.max_keys);
        for (field, bad) in manifest.fields.iter().zip(seen.fields) {
            if bad.keys.is_empty() {
                continue;
            }
            let n_keys = bad.keys.len() as u64;
            let message =
                format!("{n_keys} {of} differ in field `{}` from what was packed", field.name);
            let fault = self.fault(FaultKind::Samples, &self.entry.file, message);
            fault.field = Some(field.name.to_string());
            fault.ranges = bad.ranges;
            fault.n_keys = n_keys;
            fault.keys = bad.keys.into_iter().take(max).collect();
        }
    }

    fn samples<'b>(
        &'b self,
        shard: &'b ReadAt,
        index: &'b Index,
        advance: &'b (dyn Fn(u64) + Sync),
    ) -> Samples<'b> {
        Samples { shard, index, advance, cancel: self.context.cancel }
    }

    /// Checks a share of the samples, chosen by seed, shard and row.
    fn some(&mut self, shard: &ReadAt, index: &Index, fraction: f64, seed: u64) {
        let (number, always) = (self.number, self.context.always);
        let wanted = |row: Row| {
            let sample = SampleId { shard: number, row };
            always == Some(sample) || is_chosen(sample, fraction, seed)
        };
        let seen = self.samples(shard, index, self.context.advance).look(wanted, None);
        self.context.checked.fetch_add(seen.n_samples, Ordering::Relaxed);
        let of = format!("of {} samples that were checked", seen.n_samples);
        self.bad_samples(seen, &of);
    }

    /// Judges a shard whose index is lost as a whole, and whether its index can be made again.
    fn without_index(&mut self, shard: &ReadAt) {
        let entry = self.entry;
        if self.context.options.mode != Mode::Full || shard.len_bytes() != entry.file.bytes {
            return;
        }
        let context = self.context;
        let found = match digest(shard, 0..entry.file.bytes, context.advance, context.cancel) {
            Ok(Some(found)) => found,
            Ok(None) => return,
            Err(e) => {
                self.fault(FaultKind::Unreadable, &entry.file, e.reason());
                return;
            }
        };
        if found != entry.file.digest {
            let range = ByteRange { start: 0, end: entry.file.bytes };
            let fault = self.other_digest(FaultKind::Blocks, &entry.file, found);
            fault.message.push_str("; without the index it is not known which samples");
            fault.ranges = vec![range];
            return;
        }
        context.checked.fetch_add(entry.samples, Ordering::Relaxed);
        let manifest = context.manifest;
        let again = rebuild_index(shard, manifest.envelope, &manifest.fields)
            .is_ok_and(|bytes| Digest::of(&bytes) == entry.index.digest);
        let name = context.name_of(&entry.index);
        for fault in self.faults.iter_mut().filter(|f| f.file == name) {
            fault.advice = match (fault.kind, again) {
                (_, true) => INDEX_FROM_SHARD,
                // The digest is right and the file still wrong, so no copy is better.
                (FaultKind::Index, _) if fault.found.is_none() => continue,
                (_, false) => INDEX_ELSEWHERE,
            };
        }
    }
}

const INDEX_FROM_SHARD: &str = "only the index file is damaged, the shard is intact: copy or fetch the index file again, or pack again";
const INDEX_ELSEWHERE: &str = "the shard is intact, but its samples do not match this index: copy or fetch the index file again, or pack again";

/// What to do about files that are as they were written.
pub(crate) const WRITTEN_WRONGLY: &str =
    "the bundle was written incorrectly: please report this as a bug, and pack again";
