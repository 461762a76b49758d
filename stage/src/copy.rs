//! Writes the copy. Every byte of a bundle is checked before it is written.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gular_bundle::{
    BLOCK_BYTES, Bundle, BundleNames, BundlePath, DATA_DIR, Digest, FieldIdx, MANIFEST_NAME,
    SAMPLES_NAME, SampleId, ShardIdx, Split, file_head, n_blocks, samples_header,
};
use gular_files::{TEMP_PREFIX, parallel};

use super::make_folder::make_folder;
use super::source::{Directory, PlainFile};
use crate::{Error, Unfit};

/// The list of class names beside unpacked samples, one name per line.
const CLASSES_NAME: &str = "classes.txt";
/// The number of blocks that one thread copies at a time.
const PIECE_BLOCKS: u64 = 64;

/// The state of one copy while it is made.
pub(super) struct Copy<'a> {
    /// The new folder, which exists and is empty.
    pub(super) to: &'a Path,
    pub(super) threads: usize,
    pub(super) total: u64,
    pub(super) done: AtomicU64,
    pub(super) progress: &'a (dyn Fn(u64, u64) + Sync),
    pub(super) cancel: &'a AtomicBool,
}

impl Copy<'_> {
    fn advance(&self, bytes: usize) {
        let bytes = bytes as u64;
        (self.progress)(self.done.fetch_add(bytes, Ordering::Relaxed) + bytes, self.total);
    }

    /// Copies every file of a bundle, and checks manifest and indexes by their digests, shards by
    /// their blocks.
    pub(super) fn bundle(&self, bundle: &Bundle) -> Result<(), Error> {
        let data = self.to.join(DATA_DIR);
        make_folder(&data)?;
        let shards = &bundle.manifest().shards;
        for file in bundle.manifest().files() {
            let path = data.join(file.name.as_str());
            path.parent().map_or(Ok(()), make_folder)?;
            create(&path)?;
        }
        let (mut pieces, mut indexes) = (Vec::new(), Vec::new());
        // Splits may share a shard, whose bytes are copied only once.
        let mut seen = BTreeSet::new();
        for (shard, entry) in ShardIdx::first(shards.len()).zip(shards) {
            if seen.insert(&entry.file.name) {
                let starts = (0..n_blocks(entry.file.bytes)).step_by(PIECE_BLOCKS as usize);
                pieces.extend(starts.map(|first| (shard, first)));
            }
            indexes.extend(entry.listings().filter(|file| seen.insert(&file.name)));
        }
        parallel(&indexes, self.threads, self.cancel, |index, stop| -> Result<(), Error> {
            check_stop(stop)?;
            let bytes = bundle.read_file(index)?;
            write(&data.join(index.name.as_str()), 0, &bytes)?;
            self.advance(bytes.len());
            Ok(())
        })?;
        parallel(&pieces, self.threads, self.cancel, |(shard, first), stop| {
            self.piece(bundle, &data, *shard, *first, stop)
        })?;
        check_stop(self.cancel)?;
        let from = bundle.dir().join(MANIFEST_NAME);
        // This counts as an error of the bundle, so that the source of the node's cache is tried
        // instead.
        let unread = |e| gular_bundle::Error::from(gular_files::Error::new("read", &from, e));
        let manifest = fs::read(&from).map_err(unread)?;
        let (expected, found) = (bundle.digest(), Digest::of(&manifest));
        if found != expected {
            let path = from.display().to_string();
            return Err(gular_bundle::Error::Digest { path, expected, found }.into());
        }
        let to = self.to.join(MANIFEST_NAME);
        create(&to)?;
        write(&to, 0, &manifest)?;
        protect(&to)?;
        for file in bundle.manifest().files() {
            protect(&data.join(file.name.as_str()))?;
        }
        Ok(())
    }

    /// Copies some blocks of a shard.
    fn piece(
        &self,
        bundle: &Bundle,
        data: &Path,
        shard: ShardIdx,
        first: u64,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let Some(entry) = shard.of(&bundle.manifest().shards) else { return Ok(()) };
        let to = data.join(entry.file.name.as_str());
        let file = fs::OpenOptions::new().write(true).open(&to);
        let file = file.map_err(|e| Error::io("open", &to, e))?;
        let blocks = first..first.saturating_add(PIECE_BLOCKS);
        bundle.copy(shard, blocks, |position, part| {
            check_stop(stop)?;
            file.write_all_at(part, position).map_err(|e| Error::io("write", &to, e))?;
            self.advance(part.len());
            Ok(())
        })
    }

    /// Writes every sample below `split/`, with the file names that `gular convert` gives it.
    pub(super) fn samples(&self, bundle: &Bundle) -> Result<(), Error> {
        let names = BundleNames::new(bundle)?;
        let shards: Vec<ShardIdx> = ShardIdx::first(bundle.manifest().shards.len()).collect();
        parallel(&shards, self.threads, self.cancel, |shard, stop| {
            self.samples_of(bundle, *shard, &names, stop)
        })?;
        check_stop(self.cancel)?;
        self.lists(bundle)
    }

    /// Joins the lists of the shards to one list per split, and writes the class names.
    fn lists(&self, bundle: &Bundle) -> Result<(), Error> {
        let manifest = bundle.manifest();
        for split in Split::ALL.iter().filter(|split| manifest.of_split(**split).next().is_some()) {
            let path = self.to.join(split.to_string()).join(SAMPLES_NAME);
            let mut list = create(&path)?;
            let io = |e| Error::io("write", &path, e);
            list.write_all(samples_header(&manifest.fields).as_bytes()).map_err(io)?;
            for (shard, entry) in ShardIdx::first(manifest.shards.len()).zip(&manifest.shards) {
                if entry.split == *split {
                    let lines = self.lines(shard);
                    let from = File::open(&lines).map_err(|e| Error::io("open", &lines, e));
                    std::io::copy(&mut from?, &mut list).map_err(io)?;
                    fs::remove_file(&lines).map_err(|e| Error::io("remove", &lines, e))?;
                }
            }
            protect(&path)?;
        }
        if !manifest.classes.is_empty() {
            let path = self.to.join(CLASSES_NAME);
            create(&path)?;
            write(&path, 0, (manifest.classes.join("\n") + "\n").as_bytes())?;
            protect(&path)?;
        }
        Ok(())
    }

    /// Returns the path of a shard's part of the list, which is joined when all parts are there.
    fn lines(&self, shard: ShardIdx) -> PathBuf {
        self.to.join(format!("{TEMP_PREFIX}lines-{shard}"))
    }

    fn samples_of(
        &self,
        bundle: &Bundle,
        shard: ShardIdx,
        names: &BundleNames,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let manifest = bundle.manifest();
        let Some(entry) = shard.of(&manifest.shards) else { return Ok(()) };
        let heads: Vec<Vec<u8>> = manifest.fields.iter().map(file_head).collect();
        let dir = self.to.join(entry.split.to_string());
        let open = bundle.shard(shard)?;
        let mut values = vec![Vec::new(); manifest.fields.len()];
        let mut made = BTreeSet::new();
        let mut lines = String::new();
        let index = open.index()?;
        for row in index.rows() {
            check_stop(stop)?;
            for (field, value) in values.iter_mut().enumerate() {
                open.read(row, FieldIdx(field), value)?;
            }
            let lent: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let key = BundlePath::parse(index.key(row).unwrap_or_default());
            let files =
                names.of(SampleId { shard, row }, &key.map_err(gular_bundle::Error::from)?, &lent);
            for ((name, value), head) in files.names.iter().zip(lent).zip(&heads) {
                let Some(name) = name else { continue };
                let path = dir.join(name);
                if let Some(folder) = path.parent().filter(|f| !made.contains(*f)) {
                    make_folder(folder)?;
                    made.insert(folder.to_owned());
                }
                let mut file = create(&path)?;
                let written = file.write_all(head).and_then(|()| file.write_all(value));
                written.map_err(|e| Error::io("write", &path, e))?;
                protect(&path)?;
                self.advance(head.len() + value.len());
            }
            lines.push_str(&files.line);
        }
        let path = self.lines(shard);
        create(&path)?;
        write(&path, 0, lines.as_bytes())
    }

    /// Copies a folder's files; a file that changes meanwhile is an error.
    pub(super) fn directory(&self, directory: &Directory) -> Result<(), Error> {
        for folder in &directory.folders {
            make_folder(&self.to.join(folder))?;
        }
        parallel(&directory.files, self.threads, self.cancel, |file, stop| {
            self.plain_file(directory, file, stop)
        })?;
        check_stop(self.cancel)
    }

    fn plain_file(
        &self,
        directory: &Directory,
        file: &PlainFile,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        use std::os::unix::fs::MetadataExt as _;
        let (from, to) = (directory.path.join(&file.path), self.to.join(&file.path));
        let mut source = File::open(&from).map_err(|e| Error::io("open", &from, e))?;
        let mut copy = create(&to)?;
        let size = usize::try_from(file.len.clamp(1, BLOCK_BYTES as u64)).unwrap_or(1);
        let mut block = vec![0; size];
        let mut len = 0_u64;
        loop {
            check_stop(stop)?;
            let n = source.read(&mut block).map_err(|e| Error::io("read", &from, e))?;
            let part = block.get(..n).unwrap_or_default();
            len = len.saturating_add(n as u64);
            if n == 0 || len > file.len {
                break;
            }
            copy.write_all(part).map_err(|e| Error::io("write", &to, e))?;
            self.advance(n);
        }
        let meta = source.metadata().map_err(|e| Error::io("look at", &from, e))?;
        if len != file.len || (meta.mtime(), meta.mtime_nsec()) != file.changed {
            let path = from.display().to_string();
            return Err(Error::Source { path, reason: Unfit::Changed });
        }
        let executable = meta.mode() & 0o100;
        let mode = Permissions::from_mode(0o400 | executable);
        copy.set_permissions(mode).map_err(|e| Error::io("protect", &to, e))
    }
}

fn check_stop(stop: &AtomicBool) -> Result<(), Error> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Error::cancelled()),
        false => Ok(()),
    }
}

/// Creates a new file, and fails if there is a file or link with that name.
fn create(path: &Path) -> Result<File, Error> {
    File::create_new(path).map_err(|e| Error::io("create", path, e))
}

fn write(path: &Path, position: u64, bytes: &[u8]) -> Result<(), Error> {
    let file = fs::OpenOptions::new().write(true).open(path);
    file.and_then(|file| file.write_all_at(bytes, position))
        .map_err(|e| Error::io("write", path, e))
}

fn protect(path: &Path) -> Result<(), Error> {
    let mode = Permissions::from_mode(0o400);
    fs::set_permissions(path, mode).map_err(|e| Error::io("protect", path, e))
}
