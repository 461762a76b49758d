//! Publishes each file of a folder as an object below a URL.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_pelican::{Client, Error as Pelican, IfTaken, Listed, Upload, Url};

use super::failures::{Failures, each};
use super::listed_objects::{self, ListedObjects};
use super::local::{self, Doubtful, File, Local};
use super::{FolderOptions, FolderReport};
use crate::publish::PublishReport;
use crate::watch::Moved;
use crate::{BundleUrl, Error, Watch};

/// Publishes every file below `dir` as the object of its name below `url`.
///
/// An object that exists already is compared and kept; if it has other bytes, that is a failure,
/// and it is not changed. The progress counts bytes that were sent or found to be there. Links are
/// followed, and hidden files published: `doubts` gets their numbers before anything is sent.
///
/// # Errors
/// When `dir` cannot be read, or holds no file: [`Error::NoFiles`]; [`Error::TooMany`];
/// [`Error::NoneAccepted`], where nothing else failed; when it is cancelled. What fails of single
/// files is in the report.
pub fn publish_folder(
    client: &Client,
    dir: &Path,
    url: &Url,
    options: &FolderOptions,
    doubts: &dyn Fn(Doubtful),
    watch: Watch<'_>,
) -> Result<FolderReport<PublishReport>, Error> {
    let start = Instant::now();
    let Local { mut files, mut failed, doubtful } =
        local::files(dir, url, options.max_objects, watch)?;
    if files.is_empty() && failed.is_empty() {
        return Err(Error::NoFiles { dir: dir.display().to_string() });
    }
    if doubtful != Doubtful::default() {
        doubts(doubtful);
    }
    // Long files are sent first, so that none is sent alone at the end.
    files.sort_by(|a, b| Reverse(a.len_bytes).cmp(&Reverse(b.len_bytes)).then(a.name.cmp(&b.name)));
    let total = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.len_bytes));
    let there = there(client, url, &files, options, watch)?;
    let listed = |file: &File| {
        let there = there.as_ref().map(|there| there.objects.get(&file.name));
        there.map_or(Listed::Unknown, Listed::of)
    };
    if !options.dry_run {
        let missing = files.iter().filter(|file| listed(file) == Listed::Absent);
        let missing = missing.fold(0_u64, |sum, file| sum.saturating_add(file.len_bytes));
        client.foresee_end(url, missing, watch)?;
    }
    let moved = Moved::new(watch.progress, total);
    let report = PublishReport::new(BundleUrl { url: url.clone(), digest: None }, options.dry_run);
    let report = Mutex::new(report);
    let name = |file: &File| file.name.clone();
    let Failures { failed: refused, not_tried } =
        each(&files, options.jobs, watch, name, |file, watch| {
            let no_name = || Error::ObjectName { name: file.name.clone() };
            let (from, to) = (dir.join(&file.name), url.join(&file.name).ok_or_else(no_name)?);
            // People and programs read these names, so no object is stored under a replacement
            // name.
            let (if_taken, listed) = (IfTaken::Refuse, listed(file));
            let compare_by = options.compare_by;
            let upload = Upload { from: &from, to: &to, if_taken, listed, compare_by };
            let progress = moved.of_one();
            let watch = Watch { progress: &progress, ..watch };
            let uploaded = client.upload(&upload, options.dry_run, watch)?;
            report.lock().unwrap_or_else(PoisonError::into_inner).add(&to, uploaded);
            Ok(())
        })?;
    failed.extend(refused);
    failed.sort_by(|a, b| a.name.cmp(&b.name));
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.seconds = start.elapsed().as_secs_f64();
    // Failures are reported as well, and say more than that nothing was accepted.
    let report = if failed.is_empty() { report.judged()? } else { report };
    Ok(FolderReport { report, failed, not_tried, lock: None })
}

/// Lists the objects below `url`, as far as possible, in the collections to which files are
/// published: one request per collection instead of one per file.
fn there(
    client: &Client,
    url: &Url,
    files: &[File],
    options: &FolderOptions,
    watch: Watch<'_>,
) -> Result<Option<ListedObjects>, Error> {
    let folders = local::folders(files);
    let wanted = |name: &str| folders.contains(Path::new(name));
    // Other people's objects in these collections do not count towards the limit.
    let unlimited = FolderOptions { max_objects: usize::MAX, ..options.clone() };
    match listed_objects::list(client, url, &unlimited, &wanted, watch) {
        Ok(listed) if listed.failed.is_empty() => Ok(Some(listed)),
        Err(error) if error.is_cancelled() => Err(error),
        Err(Error::Pelican(Pelican::NotFound { .. })) => Ok(Some(ListedObjects::default())),
        // The client checks each name before it sends the file.
        Ok(_) | Err(_) => Ok(None),
    }
}
