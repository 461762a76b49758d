//! Publishes a bundle, or one file, from this machine to an origin.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::MANIFEST_NAME;
use gular_files::parallel;
use gular_pelican::{Client, CompareBy, Error as Pelican, IfTaken, Listed, Upload, Uploaded, Url};

use super::listing::Listing;
use super::publish_report::PublishReport;
use super::sound_bundle::SoundBundle;
use crate::watch::{Moved, check};
use crate::{BundleUrl, Error, Published, Watch, blocks};

/// Options of [`publish`].
#[derive(Debug, Clone)]
pub struct PublishOptions {
    /// Number of objects that are sent at the same time.
    pub jobs: usize,
    /// Whether to report only what would be sent.
    pub dry_run: bool,
    /// How the origin's objects are compared with the local files.
    pub compare_by: CompareBy,
}

impl Default for PublishOptions {
    /// Returns the defaults: four objects at the same time, every byte compared.
    fn default() -> Self {
        Self { jobs: 4, dry_run: false, compare_by: CompareBy::Bytes }
    }
}

/// Publishes `sound` as the version `url`, NAME/VERSION.
///
/// Objects that exist already are compared and kept. The progress counts bytes that were sent or
/// found to be there; it decreases when an upload has to begin again.
///
/// # Errors
/// [`Error::NoBundleUrl`], [`Error::NoRoomForName`]; [`gular_pelican::Error::Taken`], before anything is sent, when
/// another bundle is that version; [`Error::NoneAccepted`]; otherwise those of
/// [`Client::upload`].
pub fn publish(
    client: &Client,
    sound: &SoundBundle,
    url: &Url,
    options: &PublishOptions,
    watch: Watch<'_>,
) -> Result<PublishReport, Error> {
    let start = Instant::now();
    let published = Published::at(url)?;
    check_room(client, &published, watch)?;
    let data = data_files(sound, &published)?;
    let from = sound.bundle().dir().join(MANIFEST_NAME);
    let manifest = [Item::new(from, published.manifest().clone())];
    let total = data.iter().chain(&manifest).fold(0, |sum: u64, i| sum.saturating_add(i.bytes));
    let sender = Sender { client, options, watch, moved: Moved::new(watch.progress, total) };
    // If another bundle has this version, say so before anything is sent.
    sender.check_version(&manifest)?;
    let there = Listing::new(client, published.data(), watch);
    let missing = data.iter().filter(|item| there.of(item.to.name()) == Listed::Absent);
    let missing = missing.fold(0, |sum: u64, item| sum.saturating_add(item.bytes));
    if !options.dry_run {
        client.foresee_end(published.manifest(), missing, watch)?;
    }
    let of_data = sender.send(&data, IfTaken::Rename, Some(&there))?;
    // The manifest is sent last, so that anyone who sees it can fetch everything that it lists.
    let of_manifest = sender.send(&manifest, IfTaken::RenameIfCut, None)?;

    let digest = Some(sound.bundle().digest());
    let url = BundleUrl { url: published.version().clone(), digest };
    sender.report(url, of_data.into_iter().chain(of_manifest), start)
}

/// Refuses a URL whose NAME would be above the namespace, where nothing can be stored.
fn check_room(client: &Client, published: &Published, watch: Watch<'_>) -> Result<(), Error> {
    let Some(namespace) = client.namespace(published.manifest(), watch)? else {
        return Ok(());
    };
    let within = |path: &str| {
        let rest = path.strip_prefix(namespace.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    if within(published.data().path()) {
        return Ok(());
    }
    Err(Error::NoRoomForName { url: published.version().to_string(), namespace })
}

/// Publishes the file `from`, which is not a bundle, as the object `url`.
///
/// # Errors
/// [`gular_pelican::Error::Taken`] when another object has that name; otherwise those of
/// [`Client::upload`].
pub fn publish_file(
    client: &Client,
    from: &Path,
    url: &Url,
    options: &PublishOptions,
    watch: Watch<'_>,
) -> Result<PublishReport, Error> {
    let start = Instant::now();
    let item = Item::new(from.to_owned(), url.clone());
    let moved = Moved::new(watch.progress, item.bytes);
    let sender = Sender { client, options, watch, moved };
    let done = sender.send(&[item], IfTaken::Refuse, None)?;
    sender.report(BundleUrl { url: url.clone(), digest: None }, done, start)
}

/// Does the same as [`publish_file`], for a file whose readers know its digest. Its block tree is
/// stored next to it, and before it, so that readers can check each block. The tree is first
/// written to the folder `scratch`.
///
/// # Errors
/// Those of [`publish_file`]; [`Error::Io`].
pub fn publish_file_with_blocks(
    client: &Client,
    from: &Path,
    url: &Url,
    options: &PublishOptions,
    scratch: &Path,
    watch: Watch<'_>,
) -> Result<PublishReport, Error> {
    let start = Instant::now();
    let Some(beside) = blocks::beside(url) else {
        return publish_file(client, from, url, options, watch);
    };
    let list = gular_files::temp_in(scratch)?;
    let written = fs::write(list.path(), blocks::list_of(from, watch)?);
    written.map_err(|e| Error::io("write", list.path(), e))?;
    let lists = [Item::new(list.path().to_owned(), beside)];
    let files = [Item::new(from.to_owned(), url.clone())];
    let total = lists.iter().chain(&files).map(|item| item.bytes).sum();
    let sender = Sender { client, options, watch, moved: Moved::new(watch.progress, total) };
    // An object that got a replacement name because an upload was cut off is found by its digest.
    let mut done = sender.send(&lists, IfTaken::RenameIfCut, None)?;
    done.extend(sender.send(&files, IfTaken::Refuse, None)?);
    sender.report(BundleUrl { url: url.clone(), digest: None }, done, start)
}

/// A file that is sent as one object.
struct Item {
    from: PathBuf,
    to: Url,
    bytes: u64,
}

impl Item {
    fn new(from: PathBuf, to: Url) -> Self {
        // A file that cannot be read fails when it is sent.
        let bytes = fs::metadata(&from).map_or(0, |metadata| metadata.len());
        Self { from, to, bytes }
    }
}

/// Shards and indexes in the order in which they are sent.
fn data_files(sound: &SoundBundle, published: &Published) -> Result<Vec<Item>, Error> {
    let bundle = sound.bundle();
    let mut items = Vec::new();
    for file in bundle.manifest().files() {
        let (from, to) = (bundle.path_of(file), published.url_of(file)?);
        items.push(Item { from, to, bytes: file.bytes });
    }
    // Long files are sent first, so that none is sent alone at the end.
    items.sort_by_key(|item| Reverse(item.bytes));
    Ok(items)
}

/// The settings for sending objects.
struct Sender<'a> {
    client: &'a Client,
    options: &'a PublishOptions,
    watch: Watch<'a>,
    moved: Moved<'a>,
}

impl Sender<'_> {
    fn check_version(&self, manifest: &[Item; 1]) -> Result<(), Error> {
        let [Item { from, to, .. }] = manifest;
        let (if_taken, compare_by) = (IfTaken::RenameIfCut, self.options.compare_by);
        let upload = Upload { from, to, if_taken, listed: Listed::Unknown, compare_by };
        self.client.upload(&upload, true, Watch::silent(self.watch.cancel))?;
        Ok(())
    }

    /// Sends all items, or fails; returns for each the URL that it was meant for, and its result.
    ///
    /// If one fails, no more are begun, and those that are being sent are sent to their end: an
    /// upload that is cut off makes its name unusable.
    fn send(
        &self,
        items: &[Item],
        if_taken: IfTaken,
        there: Option<&Listing>,
    ) -> Result<Vec<(Url, Uploaded)>, Error> {
        let (done, failed) = (Mutex::new(Vec::new()), Mutex::new(None));
        parallel(items, self.options.jobs, self.watch.cancel, |item, stop| {
            if failed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
                return Ok(());
            }
            let listed = there.map_or(Listed::Unknown, |there| there.of(item.to.name()));
            let compare_by = self.options.compare_by;
            let upload = Upload { from: &item.from, to: &item.to, if_taken, listed, compare_by };
            let dry_run = self.options.dry_run;
            let progress = self.moved.of_one();
            let watch = Watch { progress: &progress, ..self.watch.until(stop) };
            match self.client.upload(&upload, dry_run, watch) {
                Ok(uploaded) => {
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((item.to.clone(), uploaded));
                    Ok(())
                }
                Err(Pelican::Cancelled) => Err(Pelican::Cancelled),
                Err(error) => {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(error);
                    Ok(())
                }
            }
        })?;
        check(self.watch)?;
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.into()),
            None => Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn report(
        &self,
        url: BundleUrl,
        done: impl IntoIterator<Item = (Url, Uploaded)>,
        start: Instant,
    ) -> Result<PublishReport, Error> {
        let mut report = PublishReport::new(url, self.options.dry_run);
        for (asked, uploaded) in done {
            report.add(&asked, uploaded);
        }
        report.renamed.sort_by_key(Url::to_string);
        report.seconds = start.elapsed().as_secs_f64();
        report.judged()
    }
}
