//! `file://` URLs: the same operations on a local folder.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::reader::checked_blocks::{Stop, Take};
use crate::reader::wrong_bytes::WrongBytes;
use crate::url::is_segment;
use crate::{Attempts, CollectionListing, CollectionMember, Error, Stat, Url};
use gular_files::Watch;

/// Bytes read or written at a time.
const PIECE: usize = 1 << 20;

pub(crate) fn path(url: &Url) -> PathBuf {
    PathBuf::from(url.path())
}

fn failed(action: &'static str, url: &Url, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            let (url, server) = (url.to_string(), "this machine".to_owned());
            Error::NotFound { url, server, said: String::new() }
        }
        _ => Error::io(action, &path(url), error),
    }
}

pub(crate) fn stat(url: &Url) -> Result<Stat, Error> {
    let metadata = fs::metadata(path(url)).map_err(|e| failed("look at", url, e))?;
    let collection = metadata.is_dir();
    Ok(Stat { len_bytes: (!collection).then_some(metadata.len()), collection: Some(collection) })
}

pub(crate) fn list(url: &Url) -> Result<CollectionListing, Error> {
    let itself = stat(url)?;
    if itself.collection == Some(false) {
        let (name, path) = (url.name().to_owned(), url.path().to_owned());
        let (len_bytes, checksum, collection) = (itself.len_bytes, None, false);
        let entry = CollectionMember { name, path, len_bytes, checksum, collection };
        return Ok(CollectionListing { entries: vec![entry], skipped: 0 });
    }
    let mut listing = CollectionListing::default();
    for entry in fs::read_dir(path(url)).map_err(|e| failed("list", url, e))? {
        let entry = entry.map_err(|e| failed("list", url, e))?;
        let metadata = entry.metadata().map_err(|e| failed("look at", url, e))?;
        let name = entry.file_name().into_string().ok().filter(|name| is_segment(name));
        let Some(name) = name else {
            listing.skipped += 1;
            continue;
        };
        let collection = metadata.is_dir();
        listing.entries.push(CollectionMember {
            path: format!("{}/{name}", url.path().trim_end_matches('/')),
            name,
            len_bytes: (!collection).then_some(metadata.len()),
            checksum: None,
            collection,
        });
    }
    Ok(listing)
}

pub(crate) fn read(url: &Url, take: &mut dyn Take, watch: Watch<'_>) -> Result<(), Error> {
    let mut file = File::open(path(url)).map_err(|e| failed("open", url, e))?;
    let metadata = file.metadata().map_err(|e| failed("look at", url, e))?;
    let wrong = |wrong: WrongBytes| {
        let mut attempts = Attempts::default();
        attempts.add("this machine", wrong.to_string());
        Error::Corrupt { url: url.to_string(), attempts }
    };
    if metadata.is_dir() {
        return Err(wrong(WrongBytes::Folder));
    }
    let found = metadata.len();
    if let Some(expected) = take.len().filter(|expected| *expected != found) {
        return Err(wrong(WrongBytes::Len { found, expected }));
    }
    if found > take.limit() {
        return Err(Error::TooLarge { url: url.to_string(), found, limit: take.limit() });
    }
    let stopped = |stop| match stop {
        Stop::Refused(why) => wrong(why),
        Stop::Failed(error) => error,
    };
    io::Seek::seek(&mut file, io::SeekFrom::Start(take.position()))
        .map_err(|e| failed("read", url, e))?;
    let mut piece = vec![0; PIECE];
    loop {
        if watch.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let n = file.read(&mut piece).map_err(|e| failed("read", url, e))?;
        let Some(bytes) = piece.get(..n).filter(|bytes| !bytes.is_empty()) else { break };
        take.take(bytes).map_err(stopped)?;
        if take.len() != take.until() && take.until() == Some(take.position()) {
            break;
        }
    }
    if let Some(expected) = take.until().filter(|until| take.position() < *until) {
        return Err(wrong(WrongBytes::Shorter { found: take.position(), expected }));
    }
    take.end().map_err(stopped)
}

/// Compares the object with the file, or returns `None` if the object does not exist.
pub(crate) fn compare(url: &Url, from: &Path) -> Result<Option<Likeness>, Error> {
    let there = match File::open(path(url)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", url, error)),
    };
    let here = File::open(from).map_err(|e| Error::io("open", from, e))?;
    let lens = [&there, &here].map(|file| file.metadata().map_or(u64::MAX, |m| m.len()));
    if lens[0] != lens[1] {
        return Ok(Some(Likeness::Other(format!("{} bytes, not {}", lens[0], lens[1]))));
    }
    let (mut there, mut here) = (there.take(u64::MAX), here.take(u64::MAX));
    let (mut a, mut b) = (vec![0; PIECE], vec![0; PIECE]);
    loop {
        let n = there.read(&mut a).map_err(|e| failed("read", url, e))?;
        if n == 0 {
            return Ok(Some(Likeness::Same));
        }
        let part = b.get_mut(..n).unwrap_or_default();
        here.read_exact(part).map_err(|e| Error::io("read", from, e))?;
        if a.get(..n) != Some(&*part) {
            return Ok(Some(Likeness::Other(format!("{} other bytes", lens[0]))));
        }
    }
}

/// How an object compares with a file.
pub(crate) enum Likeness {
    Same,
    /// The object is different; the text says what is known of it.
    Other(String),
}

/// Copies the file there under a temporary name, then renames; never onto
/// an object that exists.
pub(crate) fn write(
    url: &Url,
    from: &Path,
    progress: &dyn Fn(u64),
    watch: Watch<'_>,
) -> Result<(), Error> {
    let to = path(url);
    let folder = to.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
    let mut here = File::open(from).map_err(|e| Error::io("open", from, e))?;
    let mut temp = gular_files::temp_in(folder)?;
    let mut piece = vec![0; PIECE];
    loop {
        if watch.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let n = here.read(&mut piece).map_err(|e| Error::io("read", from, e))?;
        let Some(bytes) = piece.get(..n).filter(|bytes| !bytes.is_empty()) else { break };
        temp.write_all(bytes).map_err(|e| Error::io("write", &to, e))?;
        progress(n as u64);
    }
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::Permissions::from_mode(0o644);
        temp.as_file().set_permissions(mode).map_err(|e| Error::io("write", &to, e))?;
    }
    match gular_files::persist_new(temp, &to) {
        // The caller compares with the file that was there first.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => Ok(done.map(drop)?),
    }
}
