//! Finds the files of a layout, and checks them against their digests.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::rootfs::RootPath;
use crate::{Error, Result, Sha256, StreamSha256};

/// The file `oci-layout`.
pub(in super::super) const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
/// Largest JSON document read; registries take no manifest over 4 MiB.
const MAX_JSON: u64 = 4 << 20;
/// Files of an archive at most; an image has some dozens.
const MAX_FILES: usize = 100_000;
/// Bytes of one member's headers at most: names and PAX records stand before it.
const MAX_HEADER: u64 = 4 << 20;

/// The files of a layout.
#[derive(Debug)]
pub(super) struct Blobs {
    path: PathBuf,
    place: Place,
    /// Documents that are made of others, by the names that a layout would give them.
    made: BTreeMap<String, Vec<u8>>,
}

#[derive(Debug)]
enum Place {
    Folder,
    /// A tar, and the first byte and length of each of its files.
    Archive(File, BTreeMap<String, (u64, u64)>),
    /// Files of their own, by the names that a layout would give them.
    Files(BTreeMap<String, PathBuf>),
}

/// Digest and length of a blob, as its descriptor gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) sha256: Sha256,
    pub(super) bytes: u64,
}

impl Blobs {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let meta = path.metadata().map_err(Error::io("read", path))?;
        let place = if meta.is_dir() {
            Place::Folder
        } else {
            let file = File::open(path).map_err(Error::io("open", path))?;
            let files = files(path, &file)?;
            Place::Archive(file, files)
        };
        Ok(Self { path: path.to_owned(), place, made: BTreeMap::new() })
    }

    /// Blobs in files of their own; `name` is what errors call the image.
    pub(super) fn of_files(name: &str, files: BTreeMap<Sha256, PathBuf>) -> Self {
        let files = files.into_iter().map(|(sha256, path)| (blob_name(sha256), path));
        Self { path: name.into(), place: Place::Files(files.collect()), made: BTreeMap::new() }
    }

    /// Whether this is an archive with a file of this name.
    pub(super) fn archives(&self, name: &str) -> bool {
        matches!(&self.place, Place::Archive(_, files) if files.contains_key(name))
    }

    /// Adds a document under the name that it has in a layout.
    pub(super) fn put(&mut self, name: &str, text: impl Into<Vec<u8>>) {
        self.made.insert(name.to_owned(), text.into());
    }

    /// Adds the index of a layout with these manifests, and what says that it is a layout.
    pub(super) fn put_index(&mut self, manifests: &[Value]) {
        self.put("oci-layout", LAYOUT);
        self.put("index.json", json!({ "schemaVersion": 2, "manifests": manifests }).to_string());
    }

    /// Adds a blob under the name that it has in a layout. The SHA-256 of its bytes is the expected
    /// one.
    pub(super) fn put_blob(&mut self, text: impl Into<Vec<u8>>) -> Expected {
        let text = text.into();
        let expected = Expected { sha256: Sha256::of(&text), bytes: text.len() as u64 };
        self.put(&blob_name(expected.sha256), text);
        expected
    }

    /// Gives a file of an archive the name of a blob with this digest; its length.
    pub(super) fn name_blob(&mut self, name: &str, sha256: Sha256) -> Result<u64> {
        let missing = self.missing(name);
        let Place::Archive(_, files) = &mut self.place else { return Err(missing) };
        let found = *files.get(name).ok_or(missing)?;
        files.insert(blob_name(sha256), found);
        Ok(found.1)
    }

    /// What errors call it.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn no_image(&self, wanted: String, known: String) -> Error {
        Error::NoImage { path: self.name(), wanted, known }
    }

    pub(super) fn bad(&self, reason: String) -> Error {
        Error::Oci { path: self.path.display().to_string(), reason }
    }

    /// A JSON document with no digest: the entrance.
    pub(super) fn entrance(&self, name: &str) -> Result<Vec<u8>> {
        let (reader, bytes) = self.file(name)?;
        if bytes > MAX_JSON {
            return Err(
                self.bad(format!("`{name}` has {bytes} bytes, more than the limit of {MAX_JSON}"))
            );
        }
        let mut text = Vec::new();
        reader.take(MAX_JSON).read_to_end(&mut text).map_err(Error::io("read", &self.path))?;
        Ok(text)
    }

    /// Reads a JSON document and checks its digest.
    pub(super) fn document(&self, expected: &Expected) -> Result<Vec<u8>> {
        if expected.bytes > MAX_JSON {
            let (sha256, bytes) = (expected.sha256, expected.bytes);
            return Err(self.bad(format!(
                "blob `sha256:{sha256}` has {bytes} bytes, more than the limit of {MAX_JSON}"
            )));
        }
        let mut blob = self.blob(expected)?;
        let mut text = Vec::new();
        blob.read_to_end(&mut text).map_err(Error::io("read", &self.path))?;
        self.finish(blob, expected)?;
        Ok(text)
    }

    /// A blob's bytes; [`finish`](Self::finish) says whether they were right.
    pub(super) fn blob(&self, expected: &Expected) -> Result<Hashing<Box<dyn Read + '_>>> {
        let name = blob_name(expected.sha256);
        let (reader, bytes) = self.file(&name)?;
        if bytes != expected.bytes {
            let expected = expected.bytes;
            return Err(self.bad(format!("`{name}` has {bytes} bytes, expected {expected}")));
        }
        Ok(Hashing::new(reader))
    }

    /// Reads what is left of a blob, and compares its digest.
    pub(super) fn finish<R: Read>(&self, blob: Hashing<R>, expected: &Expected) -> Result<()> {
        let found = blob.finish().map_err(Error::io("read", &self.path))?;
        if found == expected.sha256 {
            return Ok(());
        }
        let expected = expected.sha256;
        Err(self.bad(format!("blob `sha256:{expected}` is damaged: its SHA-256 is {found}")))
    }

    fn file(&self, name: &str) -> Result<(Box<dyn Read + '_>, u64)> {
        if let Some(bytes) = self.made.get(name) {
            return Ok((Box::new(&bytes[..]), bytes.len() as u64));
        }
        if let Place::Archive(file, files) = &self.place {
            let (start, bytes) = *files.get(name).ok_or_else(|| self.missing(name))?;
            return Ok((Box::new(Part { file, at: start, left: bytes }), bytes));
        }
        let path = self.path_of(name)?;
        let file = match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(self.missing(name)),
            file => file.map_err(Error::io("open", &path))?,
        };
        let meta = file.metadata().map_err(Error::io("read", &path))?;
        if !meta.is_file() {
            return Err(self.bad(format!("`{name}` is not a file")));
        }
        Ok((Box::new(file.take(meta.len())), meta.len()))
    }

    /// The file of this name where each has one of its own.
    fn path_of(&self, name: &str) -> Result<PathBuf> {
        match &self.place {
            Place::Files(files) => files.get(name).cloned().ok_or_else(|| self.missing(name)),
            _ => Ok(self.path.join(name)),
        }
    }

    /// Puts a blob's bytes at `to`, which must not be there: a further name of a file that
    /// nobody changes, or else a copy, checked while it is made.
    pub(super) fn copy(&self, expected: &Expected, to: &Path) -> Result<()> {
        if let Place::Files(files) = &self.place
            && let Some(path) = files.get(&blob_name(expected.sha256))
            && path.metadata().is_ok_and(|meta| meta.permissions().readonly())
            && fs::hard_link(path, to).is_ok()
        {
            return Ok(());
        }
        let mut blob = self.blob(expected)?;
        let mut file = File::create_new(to).map_err(Error::io("create", to))?;
        io::copy(&mut blob, &mut file).map_err(Error::io("write", to))?;
        file.sync_all().map_err(Error::io("write", to))?;
        self.finish(blob, expected)
    }

    /// The file that a blob is in, and where it begins there.
    pub(super) fn place(&self, expected: &Expected) -> Result<(File, u64)> {
        let name = blob_name(expected.sha256);
        let (_, bytes) = self.file(&name)?;
        if bytes != expected.bytes {
            let expected = expected.bytes;
            return Err(self.bad(format!("`{name}` has {bytes} bytes, expected {expected}")));
        }
        if let Place::Archive(file, files) = &self.place {
            let (start, _) = *files.get(&name).ok_or_else(|| self.missing(&name))?;
            return Ok((file.try_clone().map_err(Error::io("open", &self.path))?, start));
        }
        let path = self.path_of(&name)?;
        Ok((File::open(&path).map_err(Error::io("open", &path))?, 0))
    }

    fn missing(&self, name: &str) -> Error {
        self.bad(format!("`{name}` is missing"))
    }
}

/// The name of a blob in a layout.
fn blob_name(sha256: Sha256) -> String {
    format!("blobs/sha256/{sha256}")
}

/// Finds the offset and length of each file in a tar.
fn files(path: &Path, file: &File) -> Result<BTreeMap<String, (u64, u64)>> {
    let bad = |reason: String| Error::Oci { path: path.display().to_string(), reason };
    let mut magic = [0; 4];
    let read = file.read_at(&mut magic, 0).map_err(Error::io("read", path))?;
    if magic.starts_with(&[0x1f, 0x8b]) || magic == [0x28, 0xb5, 0x2f, 0xfd] {
        return Err(bad(
            "the whole archive is compressed; decompress it first with `gunzip` or `zstd -d`"
                .to_owned(),
        ));
    }
    if read == 0 {
        return Err(bad("it is empty".to_owned()));
    }
    let damaged = |e: io::Error| bad(format!("it is not a valid tar: {e}"));
    let len = file.metadata().map_err(Error::io("read", path))?.len();
    let mut files = BTreeMap::new();
    let mut links = Vec::new();
    let left = Cell::new(MAX_HEADER);
    let mut tar = tar::Archive::new(Headers { file, left: &left });
    // Not the raw entries: the length of a member over 8 GiB is in a PAX record.
    for entry in tar.entries_with_seek().map_err(damaged)? {
        left.set(MAX_HEADER);
        let entry = entry.map_err(damaged)?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if entry.header().entry_type().is_symlink() && links.len() < MAX_FILES {
            let target = entry.link_name_bytes().unwrap_or_default();
            links.push((name.clone(), String::from_utf8_lossy(&target).into_owned()));
        }
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let (start, bytes) = (entry.raw_file_position(), entry.size());
        if start.checked_add(bytes).is_none_or(|end| end > len) {
            return Err(bad(format!("it is cut short: it ends within `{name}`")));
        }
        if files.len() >= MAX_FILES {
            let (path, limit) = (path.display().to_string(), MAX_FILES as u64);
            return Err(Error::Limit { path, what: "files", found: limit + 1, limit });
        }
        if let Ok(name) = RootPath::new(&name) {
            files.insert(name.as_str().to_owned(), (start, bytes));
        }
    }
    // Docker keeps a layer that two images share once, and links to it.
    for (name, target) in links {
        let Ok(name) = RootPath::new(&name) else { continue };
        let folder = name.parent().unwrap_or(RootPath::ROOT);
        let target = RootPath::inside(&format!("{}/{target}", folder.as_str()));
        let found = target.and_then(|target| files.get(target.as_str()).copied());
        if let Some(found) = found {
            files.entry(name.as_str().to_owned()).or_insert(found);
        }
    }
    Ok(files)
}

/// The headers of an archive: what is between them is passed over.
struct Headers<'a> {
    file: &'a File,
    /// Bytes that the headers of the next member may still have.
    left: &'a Cell<u64>,
}

impl Read for Headers<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        match self.left.get().checked_sub(read as u64) {
            Some(left) => self.left.set(left),
            None => {
                return Err(io::Error::other("the header of a file in it is longer than 4 MiB"));
            }
        }
        Ok(read)
    }
}

impl Seek for Headers<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// One file of an archive.
struct Part<'a> {
    file: &'a File,
    at: u64,
    left: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(buffer.get_mut(..most).unwrap_or_default(), self.at)?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

/// A reader that hashes the bytes that are read.
pub(super) struct Hashing<R> {
    reader: R,
    hasher: StreamSha256,
    /// Bytes that were read.
    pub(super) bytes: u64,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, hasher: StreamSha256::default(), bytes: 0 }
    }

    /// Reads the remaining bytes, and returns the SHA-256 of all.
    pub(super) fn finish(mut self) -> io::Result<Sha256> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(self.hasher.finish())
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        self.bytes += read as u64;
        Ok(read)
    }
}
