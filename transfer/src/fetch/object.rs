//! Fetches a single object that is not a bundle.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gular_bundle::{BlockTree, Digest, StreamDigest};
use gular_pelican::{
    BLOCK_BYTES, Client, Error as Pelican, NotChecked, Object, PlainSink, Same, Scheme, Url,
};

use super::disk::{FolderLock, Partial, check_space};
use super::fetch_report::{Checked, FetchReport};
use crate::watch::check;
use crate::{BundleUrl, Error, Watch, wrong_copies};

/// Fetches the object at `url` to `dir/NAME`.
///
/// A file that a killed run left can only be checked against the object's digest, so it is kept
/// only if `url` has one. Bytes that do not have that digest are fetched once more, from the
/// origin. Without a digest, the bytes are compared with the checksum that their server reports;
/// the report says if there was none.
///
/// # Errors
/// [`Error::NoSpace`], [`Error::Occupied`], [`Error::Pelican`], [`Error::ObjectDigest`], [`Error::Io`].
pub fn fetch_object(
    client: &Client,
    url: &BundleUrl,
    len_bytes: u64,
    dir: &Path,
    dry_run: bool,
    watch: Watch<'_>,
) -> Result<(FetchReport, PathBuf), Error> {
    fetch(client, url, len_bytes, None, dir, dry_run, watch)
}

/// Does the same as [`fetch_object`], for an object whose block tree is known. Each block is
/// checked as it arrives, a server with wrong bytes is replaced by the next, and a file that a
/// killed run left is kept as far as it is right.
///
/// # Errors
/// Those of [`fetch_object`]; [`gular_pelican::Error::Corrupt`] when every copy has wrong bytes.
pub fn fetch_object_by_blocks(
    client: &Client,
    url: &BundleUrl,
    tree: &BlockTree,
    dir: &Path,
    watch: Watch<'_>,
) -> Result<(FetchReport, PathBuf), Error> {
    let url = BundleUrl { url: url.url.clone(), digest: Some(tree.digest()) };
    fetch(client, &url, tree.len_bytes(), Some(tree), dir, false, watch)
}

fn fetch(
    client: &Client,
    url: &BundleUrl,
    len_bytes: u64,
    tree: Option<&BlockTree>,
    dir: &Path,
    dry_run: bool,
    watch: Watch<'_>,
) -> Result<(FetchReport, PathBuf), Error> {
    let start = Instant::now();
    let to = dir.join(url.url.name());
    let report = |digest, len_bytes: u64, fetched, (checked, checked_how)| FetchReport {
        bytes_fetched: fetched,
        bytes_kept: len_bytes.saturating_sub(fetched),
        dry_run,
        checked,
        checked_how,
        wrong_copies: wrong_copies(client),
        seconds: start.elapsed().as_secs_f64(),
        ..of_object(url, digest, dir, len_bytes)
    };
    if dry_run {
        check_space(dir, missing(&to, len_bytes))?;
        let checked = url.digest.map_or(Checked::Nothing, |_| Checked::Digest);
        return Ok((report(url.digest, len_bytes, len_bytes, (checked, None)), to));
    }
    std::fs::create_dir_all(dir).map_err(|e| Error::io("create", dir, e))?;
    let lock = FolderLock::wait(dir, watch)?;
    if let Some(here) = object_here(url, dir, watch)? {
        return Ok((here, to));
    }
    if to.exists() || url.url.name().is_empty() {
        let (path, url) = (to.display().to_string(), url.to_string());
        return Err(Error::Occupied { path, url });
    }
    let fetch = |len_bytes| {
        check_space(dir, missing(&to, len_bytes))?;
        let job = ObjectJob { client, to: &to, len_bytes, watch };
        match (tree, url.digest) {
            (Some(tree), _) => job.by_blocks(&url.url, tree),
            (None, Some(expected)) => job.with_digest(&url.url, expected),
            (None, None) => job.without(&url.url),
        }
    };
    let (done, len_bytes) = match fetch(len_bytes) {
        // One server told the length, and perhaps wrongly.
        Err(Error::Pelican(error @ Pelican::Corrupt { .. })) if tree.is_none() => {
            let url = match url.url.scheme() {
                Scheme::Pelican => &url.url.direct(),
                _ => &url.url,
            };
            let told = client.head(url, watch).ok().and_then(|stat| stat.len_bytes);
            match told.filter(|told| *told != len_bytes) {
                Some(told) => (fetch(told)?, told),
                None => return Err(error.into()),
            }
        }
        done => (done?, len_bytes),
    };
    drop(lock);
    Ok((report(Some(done.digest), len_bytes, done.fetched, (done.checked, done.how)), to))
}

/// Describes the object at `url` if `dir` has all of it: its digest in the URL proves that, and no
/// server is asked. `None` unless there is such a digest and such a file.
///
/// # Errors
/// [`Error::Io`]; [`gular_pelican::Error::Cancelled`].
pub fn object_here(
    url: &BundleUrl,
    dir: &Path,
    watch: Watch<'_>,
) -> Result<Option<FetchReport>, Error> {
    let start = Instant::now();
    let file = dir.join(url.url.name());
    let Some(expected) = url.digest.filter(|_| file.is_file()) else { return Ok(None) };
    if digest_of(&file, watch)? != expected {
        return Ok(None);
    }
    let len = std::fs::metadata(&file).map_err(|e| Error::io("look at", &file, e))?.len();
    let report = of_object(url, Some(expected), dir, len);
    Ok(Some(FetchReport { seconds: start.elapsed().as_secs_f64(), ..report }))
}

/// Makes the report on an object that is completely in the folder.
fn of_object(url: &BundleUrl, digest: Option<Digest>, dir: &Path, len_bytes: u64) -> FetchReport {
    FetchReport {
        url: url.to_string(),
        digest,
        dir: dir.to_owned(),
        files: 1,
        bytes: len_bytes,
        bytes_fetched: 0,
        bytes_kept: len_bytes,
        dry_run: false,
        checked: Checked::Digest,
        checked_how: None,
        manifest_mended: false,
        wrong_copies: Vec::new(),
        seconds: 0.0,
    }
}

/// Returns the number of bytes still to fetch: those that a killed run left need no more space.
pub(crate) fn missing(to: &Path, len: u64) -> u64 {
    let left = std::fs::metadata(Partial::temp_of(to)).map_or(0, |found| found.len());
    len.saturating_sub(left)
}

/// One object to be fetched.
pub(crate) struct ObjectJob<'a> {
    pub(crate) client: &'a Client,
    pub(crate) to: &'a Path,
    pub(crate) len_bytes: u64,
    pub(crate) watch: Watch<'a>,
}

/// The result: a file with its final name.
pub(crate) struct Done {
    digest: Digest,
    pub(crate) fetched: u64,
    pub(crate) checked: Checked,
    how: Option<String>,
}

impl ObjectJob<'_> {
    /// Resumes after the blocks that a killed run left.
    fn by_blocks(&self, url: &Url, tree: &BlockTree) -> Result<Done, Error> {
        let (watch, len_bytes) = (self.watch, self.len_bytes);
        let mut partial = Partial::open(self.to)?;
        let accepts = |block: u64, bytes: &[u8]| tree.accepts(block, bytes);
        let done = std::cell::Cell::new(0);
        let step = |n: u64| {
            done.set(done.get() + n);
            (watch.progress)(done.get(), len_bytes);
            !watch.is_cancelled()
        };
        let from = partial.keep_sound(len_bytes, BLOCK_BYTES, &accepts, &step)?;
        let kept = done.get();
        if kept < len_bytes || len_bytes == 0 {
            let object = Object { url, len_bytes, accepts: &accepts };
            let mut sink = |position: u64, bytes: &[u8]| {
                partial.write(position, bytes)?;
                (watch.progress)(position + bytes.len() as u64, len_bytes);
                Ok(())
            };
            self.client.stream(&object, from..u64::MAX, &mut sink, watch)?;
        }
        partial.finish()?;
        let (digest, fetched) = (tree.digest(), len_bytes - kept);
        Ok(Done { digest, fetched, checked: Checked::Digest, how: None })
    }

    /// Resumes after the bytes that a killed run left. If these are not the object's beginning,
    /// fetches all of it; if a cache has different bytes, fetches them from the origin.
    fn with_digest(&self, url: &Url, expected: Digest) -> Result<Done, Error> {
        let (mut from, mut keep, mut before) = (url.clone(), true, None);
        let other = |found| Error::ObjectDigest { url: url.to_string(), expected, found };
        loop {
            let read = match (self.read(&from, keep, false), before) {
                (Ok(read), _) => read,
                (Err(Error::Pelican(Pelican::Cancelled)), _) => {
                    return Err(Pelican::Cancelled.into());
                }
                // The origin may refuse reads, or be down, but the digest of the cache's copy is
                // known.
                (Err(_), Some(found)) => return Err(other(found)),
                (Err(error), None) => return Err(error),
            };
            if read.digest == expected {
                read.partial.finish()?;
                let (checked, fetched) = (Checked::Digest, read.fetched);
                return Ok(Done { digest: expected, fetched, checked, how: None });
            }
            let _ = std::fs::remove_file(Partial::temp_of(self.to));
            if read.fetched < self.len_bytes {
                keep = false;
            } else if from.scheme() == Scheme::Pelican && !from.is_direct() {
                (from, keep, before) = (from.direct(), false, Some(read.digest));
            } else {
                return Err(other(read.digest));
            }
        }
    }

    /// Resumes after the bytes that an earlier run left, and compares the whole with the checksum
    /// that a server reports; `None` if they differ, or if no server reports one.
    pub(crate) fn resumed(&self, url: &Url) -> Result<Option<Done>, Error> {
        let read = self.read(url, true, false)?;
        let temp = Partial::temp_of(self.to);
        let Same::Checksum(how) = self.client.compare(url, &temp, self.watch)? else {
            return Ok(None);
        };
        read.partial.finish()?;
        let (digest, fetched, checked) = (read.digest, read.fetched, Checked::Checksum);
        Ok(Some(Done { digest, fetched, checked, how: Some(how) }))
    }

    /// Fetches the whole object, and compares it with the checksum that a server reports, if any
    /// does.
    pub(crate) fn without(&self, url: &Url) -> Result<Done, Error> {
        let read = self.read(url, false, true)?;
        let (checked, how) = match read.checked {
            Ok(how) => (Checked::Checksum, how),
            Err(why) => (Checked::Nothing, why.to_string()),
        };
        read.partial.finish()?;
        Ok(Done { digest: read.digest, fetched: read.fetched, checked, how: Some(how) })
    }

    /// Reads the whole object, or the part that is missing.
    fn read(&self, url: &Url, keep: bool, check: bool) -> Result<Read, Error> {
        let mut partial = Partial::open(self.to)?;
        let hasher = std::cell::RefCell::new(StreamDigest::new());
        let kept = |_: u64, bytes: &[u8]| {
            hasher.borrow_mut().update(bytes);
            true
        };
        let done = std::cell::Cell::new(0);
        let step = |n: u64| {
            done.set(done.get() + n);
            (self.watch.progress)(done.get(), self.len_bytes);
            !self.watch.is_cancelled()
        };
        let limit = if keep { self.len_bytes } else { 0 };
        partial.keep_sound(limit, BLOCK_BYTES, &kept, &step)?;
        let there = done.get();
        let hasher = hasher.into_inner();
        let (watch, len) = (self.watch, self.len_bytes);
        let mut sink = Sink { partial, hasher, watch, len };
        let (mut fetched, mut checked) = (0, Err(NotChecked::NothingRead));
        if there < len || len == 0 {
            let watch = self.watch;
            let read = self.client.read_plain(url, there, Some(len), check, &mut sink, watch)?;
            fetched = if read.restarted { len } else { len - there };
            checked = read.checked;
        }
        let Sink { partial, hasher, .. } = sink;
        Ok(Read { partial, digest: hasher.finish(), fetched, checked })
    }
}

/// The bytes of the object, in the file with the temporary name.
struct Read {
    partial: Partial,
    digest: Digest,
    fetched: u64,
    checked: Result<String, NotChecked>,
}

/// Writes and hashes the bytes that arrive.
struct Sink<'a> {
    partial: Partial,
    hasher: StreamDigest,
    watch: Watch<'a>,
    len: u64,
}

impl PlainSink for Sink<'_> {
    fn write(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.partial.write(position, bytes)?;
        (self.watch.progress)(position + bytes.len() as u64, self.len);
        Ok(())
    }

    fn restart(&mut self) -> io::Result<()> {
        self.hasher = StreamDigest::new();
        self.partial.restart()
    }
}

fn digest_of(path: &Path, watch: Watch<'_>) -> Result<Digest, Error> {
    let mut hasher = StreamDigest::new();
    let source = gular_bundle::ReadAt::open(path, gular_bundle::Backend::Pread)?;
    let mut piece = vec![0; BLOCK_BYTES];
    let mut position = 0;
    while position < source.len_bytes() {
        check(watch)?;
        let n = (source.len_bytes() - position).min(BLOCK_BYTES as u64);
        let part = piece.get_mut(..usize::try_from(n).unwrap_or(0)).unwrap_or_default();
        source.read_at(position, part)?;
        hasher.update(part);
        position += n;
        (watch.progress)(position, source.len_bytes());
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_needs_room() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("f");
        assert_eq!(missing(&to, 60), 60);
        std::fs::write(Partial::temp_of(&to), [0; 50]).unwrap();
        assert_eq!(missing(&to, 60), 10);
        assert_eq!(missing(&to, 40), 0);
    }
}
