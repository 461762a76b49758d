//! Exports a bundle as one file: a zstd-compressed tar of its folder.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gular_bundle::{Bundle, DATA_DIR, Digest, FileEntry, MANIFEST_NAME, OpenOptions, ShardIdx};
use gular_files::{Lock, LockMode, TEMP_PREFIX, folder_of};
use serde::Serialize;
use tempfile::{NamedTempFile, TempPath};

use crate::error::Error;
use crate::facts::RunError;
use crate::packing::Progress;
use crate::shards::{SKIPPED_NAME, ShardError};

/// 1980-01-01: no clock, and not so early that tar warns of it.
const MTIME: u64 = 315_532_800;

/// Longest name in a tar header, in bytes.
const LONGEST_NAME: usize = 100;

/// Options of [`export`].
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions {
    /// zstd's level, 1 to 19: images hardly shrink, so a low one.
    pub level: i32,
    /// Threads that compress.
    pub jobs: usize,
    /// Whether to report only what would be done.
    pub dry_run: bool,
}

/// The result of [`export`], or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExportReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Digest of the bundle.
    pub digest: Digest,
    /// Number of files in the tar.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Bytes of the new file; absent in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<u64>,
    /// Whether the file was already there, complete and made from this bundle.
    pub already_done: bool,
    /// Wall-clock time.
    pub seconds: f64,
}

/// Writes the bundle in folder `source` to a new file `to`; every byte is
/// checked on its way. The same bundle and level give the same bytes with any
/// number of threads.
///
/// # Errors
/// See [`Error`]; then there is no such file.
pub fn export(
    source: &Path,
    to: &Path,
    options: &ExportOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<ExportReport, Error> {
    let start = Instant::now();
    let bundle = Bundle::open(source, OpenOptions::default())?;
    let manifest = manifest(&bundle, source)?;
    let skipped = match std::fs::read(source.join(SKIPPED_NAME)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(Error::io("read", source.join(SKIPPED_NAME), e)),
        Ok(skipped) => Some(skipped),
    };
    let shards = &bundle.manifest().shards;
    let entries = || bundle.manifest().files();
    let others = || [Some(&manifest), skipped.as_ref()].into_iter().flatten();
    let bytes = entries().map(|f| f.bytes).chain(others().map(|b| b.len() as u64)).sum();
    let mut report = ExportReport {
        dry_run: options.dry_run,
        digest: bundle.digest(),
        files: (entries().count() + others().count()) as u64,
        bytes,
        written: None,
        already_done: false,
        seconds: 0.0,
    };
    let taken = || Error::FileExists(to.display().to_string());
    if to.symlink_metadata().is_ok() {
        if !options.dry_run && holds(to, &manifest) {
            report.written = to.metadata().ok().map(|found| found.len());
            report.already_done = true;
            return Ok(report);
        }
        return Err(taken());
    }
    crate::packing::check_apart(source, to)?;
    progress(Progress::Planned(report.files, bytes));
    if !options.dry_run {
        let (temp, _lock) = temp_for(folder_of(to), to)?;
        let io = |e| Error::io("write", to, e);
        let mut encoder = zstd::Encoder::new(temp.as_file(), options.level).map_err(io)?;
        // One worker gives the same frames as many; without workers they would differ.
        let jobs = u32::try_from(options.jobs.max(1)).unwrap_or(1);
        encoder.multithread(jobs).map_err(io)?;
        encoder.include_checksum(true).map_err(io)?;
        let mut tar = tar::Builder::new(encoder);
        add(&mut tar, MANIFEST_NAME, manifest.len() as u64, &mut manifest.as_slice())
            .map_err(io)?;
        if let Some(skipped) = &skipped {
            add(&mut tar, SKIPPED_NAME, skipped.len() as u64, &mut skipped.as_slice())
                .map_err(io)?;
        }
        let mut added = HashSet::new();
        for (number, shard) in ShardIdx::first(shards.len()).zip(shards) {
            for file in shard.listings().filter(|file| added.insert(&file.name)) {
                add_index(&mut tar, &bundle, file)?;
                progress(Progress::Packed(1, file.bytes));
            }
            // Two splits may share a shard.
            if added.insert(&shard.file.name) {
                add_shard(&mut tar, &bundle, number, &shard.file, progress, cancel, to)?;
            }
        }
        let mut encoder = tar.into_inner().map_err(io)?;
        encoder.flush().map_err(io)?;
        encoder.finish().map_err(io)?;
        let file = gular_files::persist_new(temp, to).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => taken(),
            _ => e.into(),
        })?;
        report.written = Some(file.metadata().map_err(io)?.len());
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Whether file `to` was exported from a bundle with this manifest, which is the first file in it.
/// The file got its name only when it was complete.
fn holds(to: &Path, manifest: &[u8]) -> bool {
    let first = || {
        let decoder = zstd::Decoder::new(File::open(to)?)?;
        let mut tar = tar::Archive::new(decoder);
        let Some(entry) = tar.entries()?.next() else { return Ok(false) };
        let entry = entry?;
        let mut found = Vec::new();
        let is_manifest = entry.path_bytes() == MANIFEST_NAME.as_bytes();
        entry.take(manifest.len() as u64 + 1).read_to_end(&mut found)?;
        Ok::<_, io::Error>(is_manifest && found == manifest)
    };
    // If the file cannot be read in this way, it is another one.
    to.is_file() && first().unwrap_or(false)
}

/// Returns the file that becomes `to`. Its name is always the same, so that the next run overwrites
/// what a killed run left, which may be large.
fn temp_for(folder: &Path, to: &Path) -> Result<(NamedTempFile, Lock), Error> {
    std::fs::metadata(folder).map_err(|e| Error::io("write to", folder, e))?;
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let path = folder.join(format!("{TEMP_PREFIX}{name}"));
    let io = |e| Error::io("create", &path, e);
    let busy = || ShardError::Busy(to.display().to_string());
    let no_links = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut options = File::options();
    options.write(true).create(true).truncate(false).custom_flags(no_links);
    let file = options.open(&path).map_err(io)?;
    let lock = Lock::try_on(file, &path, LockMode::Exclusive)?;
    // If it is not current, another run may have renamed the file in between.
    let lock = lock.filter(Lock::is_current).ok_or_else(busy)?;
    // A copy of the handle shares the lock.
    let file = lock.file().try_clone().map_err(io)?;
    file.set_len(0).map_err(io)?;
    let temp = TempPath::try_from_path(&path).map_err(io)?;
    Ok((NamedTempFile::from_parts(file, temp), lock))
}

type Tar<'a> = tar::Builder<zstd::Encoder<'static, &'a File>>;

fn header(bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(MTIME);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn add(tar: &mut Tar<'_>, name: &str, bytes: u64, data: &mut dyn Read) -> io::Result<()> {
    tar.append_data(&mut header(bytes), name, data)
}

/// Names the next entry; a name too long for its header gets an entry of its own before
/// it, as GNU tar does it.
fn set_name(tar: &mut Tar<'_>, entry: &mut tar::Header, name: &str) -> io::Result<()> {
    let put = |header: &mut tar::Header, name: &[u8]| {
        let bytes = header.as_gnu_mut().map(|gnu| &mut gnu.name);
        let places = bytes.into_iter().flatten().zip(name);
        places.for_each(|(place, byte)| *place = *byte);
    };
    if name.len() > LONGEST_NAME {
        let mut long = header(name.len() as u64 + 1);
        long.set_entry_type(tar::EntryType::GNULongName);
        put(&mut long, b"././@LongLink");
        long.set_cksum();
        tar.append(&long, name.as_bytes().chain(&[0][..]))?;
    }
    put(entry, name.as_bytes());
    Ok(())
}

/// The bytes of the manifest, which are those that were opened.
fn manifest(bundle: &Bundle, source: &Path) -> Result<Vec<u8>, Error> {
    let path = source.join(MANIFEST_NAME);
    let bytes = std::fs::read(&path).map_err(|e| Error::io("read", &path, e))?;
    check_digest(&path, &bytes, bundle.digest())?;
    Ok(bytes)
}

fn check_digest(path: &Path, bytes: &[u8], expected: Digest) -> Result<(), Error> {
    match Digest::of(bytes) {
        found if found == expected => Ok(()),
        found => {
            let path = path.display().to_string();
            Err(gular_bundle::Error::Digest { path, expected, found }.into())
        }
    }
}

fn add_index(tar: &mut Tar<'_>, bundle: &Bundle, entry: &FileEntry) -> Result<(), Error> {
    let bytes = bundle.read_file(entry)?;
    let name = format!("{DATA_DIR}/{}", entry.name);
    add(tar, &name, entry.bytes, &mut bytes.as_slice()).map_err(|e| Error::io("write", name, e))
}

fn add_shard(
    tar: &mut Tar<'_>,
    bundle: &Bundle,
    number: ShardIdx,
    entry: &FileEntry,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
    to: &Path,
) -> Result<(), Error> {
    let io = |e| Error::io("write", to, e);
    let mut header = header(entry.bytes);
    set_name(tar, &mut header, &format!("{DATA_DIR}/{}", entry.name)).map_err(io)?;
    header.set_cksum();
    let out = tar.get_mut();
    out.write_all(header.as_bytes()).map_err(io)?;
    bundle.copy(number, 0..u64::MAX, |_, piece| {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::from(RunError::Cancelled));
        }
        out.write_all(piece).map_err(io)?;
        progress(Progress::Packed(0, piece.len() as u64));
        Ok(())
    })?;
    let rest = entry.bytes.next_multiple_of(512) - entry.bytes;
    out.write_all(&[0; 512][..usize::try_from(rest).unwrap_or(0)]).map_err(io)
}
