//! Fetches each object below a URL as a file in a folder.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_files::BLOCK_BYTES;
use gular_pelican::{Client, CollectionMember, Same, Told, Url};

use super::failures::{Failed, Failures, each};
use super::folder_report::FolderFetch;
use super::listed_objects::{self, ListedObjects};
use super::{FolderOptions, FolderReport, local};
use crate::fetch::{FolderLock, ObjectJob, Partial, check_space, missing};
use crate::watch::Moved;
use crate::{Checked, Error, Watch, wrong_copies};

/// Fetches every object below the collection `url` to the file of its name below `dir`.
///
/// A file that is here already is compared with its object by length, and by the checksum that a
/// server reports; a different file is a failure, and is not changed. A part of an object that an
/// earlier run left is continued if a server reports a checksum for the whole object.
///
/// # Errors
/// Fails when `url` cannot be listed; with [`Error::NotCollection`], [`Error::TooMany`],
/// [`Error::TooDeep`]; with [`Error::NoSpace`] before anything is written; when it is cancelled.
/// Failures of single objects are in the report.
pub fn fetch_folder(
    client: &Client,
    url: &Url,
    dir: &Path,
    options: &FolderOptions,
    watch: Watch<'_>,
) -> Result<FolderReport<FolderFetch>, Error> {
    let start = Instant::now();
    let ListedObjects { objects, mut failed } =
        listed_objects::list(client, url, options, &|_| true, watch)?;
    if options.alone && dir.exists() {
        check_alone(dir, url, |name| objects.contains_key(name), watch)?;
    }
    let mut objects: Vec<(String, CollectionMember)> = objects.into_iter().collect();
    // Long objects are fetched first, so that none is fetched alone at the end.
    objects.sort_by_key(|(_, listed)| Reverse(listed.len_bytes));
    let lens = objects.iter().map(|(_, listed)| listed.len_bytes.unwrap_or(0));
    let total = lens.fold(0, u64::saturating_add);
    let mut lock = None;
    if !options.dry_run {
        fs::create_dir_all(dir).map_err(|e| Error::io("create", dir, e))?;
        lock = Some(FolderLock::wait(dir, watch)?);
    }
    let needed = objects.iter().fold(0_u64, |sum, (name, listed)| {
        let to = dir.join(name);
        let is_there = fs::symlink_metadata(&to).is_ok();
        sum.saturating_add(if is_there { 0 } else { missing(&to, listed.len_bytes.unwrap_or(0)) })
    });
    check_space(dir, needed)?;
    let report = Mutex::new(FolderFetch::new(url, dir, options.dry_run));
    let moved = Moved::new(watch.progress, total);
    let folder = Folder { client, url, dir, dry_run: options.dry_run, moved: &moved };
    let name = |(name, _): &(String, CollectionMember)| name.clone();
    let Failures { failed: refused, not_tried } =
        each(&objects, options.jobs, watch, name, |(name, listed), watch| {
            let got = folder.get(name, listed, watch)?;
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.add(got.len, got.fetched, got.was_here, got.has_checksum);
            Ok(())
        })?;
    failed.extend(refused);
    failed.sort_by(|a: &Failed, b| a.name.cmp(&b.name));
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.wrong_copies = wrong_copies(client);
    report.seconds = start.elapsed().as_secs_f64();
    let lock = lock.filter(|_| options.alone);
    Ok(FolderReport { report, failed, not_tried, lock })
}

/// The settings that all objects of a run share.
struct Folder<'a> {
    client: &'a Client,
    url: &'a Url,
    dir: &'a Path,
    dry_run: bool,
    moved: &'a Moved<'a>,
}

/// The result for one object.
struct Got {
    len: u64,
    fetched: u64,
    was_here: bool,
    has_checksum: bool,
}

impl Folder<'_> {
    fn get(&self, name: &str, listed: &CollectionMember, watch: Watch<'_>) -> Result<Got, Error> {
        let url = self.url.join(name).ok_or_else(|| Error::ObjectName { name: name.to_owned() })?;
        let len = match listed.len_bytes {
            Some(len) => len,
            None => self.len_of(&url, watch)?,
        };
        let to = self.path_of(name)?;
        match fs::symlink_metadata(&to) {
            Ok(found) => {
                let is_like = found.is_file() && found.len() == len;
                let same = match (is_like, self.dry_run) {
                    (true, false) => self.compare(&url, &to, listed, watch)?,
                    (true, true) => Same::Length,
                    (false, _) => Same::Other(String::new()),
                };
                let has_checksum = match same {
                    Same::Checksum(_) => true,
                    Same::Length => false,
                    Same::Other(_) => {
                        let path = to.display().to_string();
                        return Err(Error::Occupied { path, url: url.to_string() });
                    }
                };
                self.moved.by(i64::try_from(len).unwrap_or(i64::MAX));
                Ok(Got { len, fetched: 0, was_here: true, has_checksum })
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.dry_run => {
                Ok(Got { len, fetched: len, was_here: false, has_checksum: false })
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.fetch(&url, &to, len, watch),
            Err(e) => Err(Error::io("look at", &to, e)),
        }
    }

    /// Compares the file with what the listing says of the object; if that is not enough, or
    /// differs, with what the servers say.
    fn compare(
        &self,
        url: &Url,
        to: &Path,
        listed: &CollectionMember,
        watch: Watch<'_>,
    ) -> Result<Same, Error> {
        let (len_bytes, checksum) = (listed.len_bytes, listed.checksum.clone());
        let told = Told { len_bytes, checksum, server: self.url.to_string() };
        Ok(match told.compare(to, watch)? {
            same @ Same::Checksum(_) => same,
            Same::Length | Same::Other(_) => self.client.compare(url, to, watch)?,
        })
    }

    fn fetch(&self, url: &Url, to: &Path, len: u64, watch: Watch<'_>) -> Result<Got, Error> {
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
        }
        let progress = self.moved.of_one();
        let watch = Watch { progress: &progress, ..watch };
        let job = ObjectJob { client: self.client, to, len_bytes: len, watch };
        let left = fs::metadata(Partial::temp_of(to)).map_or(0, |left| left.len());
        let can_go_on =
            left >= BLOCK_BYTES as u64 && self.client.told(url, len, watch)?.checksum.is_some();
        let resumed = if can_go_on { job.resumed(url)? } else { None };
        let done = match resumed {
            Some(done) => done,
            None => job.without(url)?,
        };
        let has_checksum = done.checked == Checked::Checksum;
        Ok(Got { len, fetched: done.fetched, was_here: false, has_checksum })
    }

    fn len_of(&self, url: &Url, watch: Watch<'_>) -> Result<u64, Error> {
        let len = self.client.head(url, watch)?.len_bytes;
        len.ok_or_else(|| Error::NoLength { url: url.to_string() })
    }

    /// Returns the path of an object. No folder on the path may be a link, which could lead outside
    /// `dir`.
    fn path_of(&self, name: &str) -> Result<PathBuf, Error> {
        let to = self.dir.join(name);
        for folder in to.ancestors().skip(1).take_while(|folder| *folder != self.dir) {
            if folder.is_symlink() {
                let e =
                    io::Error::other("it is a symbolic link, and a fetch does not follow links");
                return Err(Error::io("use as a folder", folder, e));
            }
        }
        Ok(to)
    }
}

/// Checks that every file in `dir` belongs to `url`.
fn check_alone(
    dir: &Path,
    url: &Url,
    has: impl Fn(&str) -> bool,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let here = local::files(dir, url, usize::MAX, watch)?;
    let files = here.files.into_iter().map(|file| file.name);
    let others = files.filter(|name| !has(name));
    let mut others = others.chain(here.failed.into_iter().map(|failed| failed.name));
    match others.next() {
        None => Ok(()),
        Some(found) => {
            let (dir, url) = (dir.display().to_string(), url.to_string());
            Err(Error::Strangers { dir, url, found, more: others.count() })
        }
    }
}
