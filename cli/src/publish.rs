//! `gular publish`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use gular_bundle::{Backend, DATA_DIR, Digest, MANIFEST_NAME, Manifest, ReadAt};
use gular_files::parallel;
use gular_pelican::{Client, Error, IfTaken, Upload, Uploaded, Url};
use gular_verify::{Mode, VerifyOptions};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::network::Network;
use crate::progress::bytes_bar;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{network, show};

/// What was published.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// `URL#blake3=…` of a bundle, the URL of a file.
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    objects: usize,
    uploaded: usize,
    identical: usize,
    bytes: u64,
    bytes_uploaded: u64,
    /// Objects whose first names were burned, and the names they have.
    renamed: Vec<String>,
    dry_run: bool,
    seconds: f64,
}

/// Publish a bundle, or one file, to a Pelican federation
///
/// A bundle's URL names its version: NAME/VERSION. Its files go to NAME/data,
/// which versions share, the manifest to NAME/VERSION last. Each object is
/// compared with the local file at the origin (length and digest). What is there
/// already is not sent again, so the same command resumes, and two publishers do
/// not disturb each other. Nothing is ever overwritten. The token needs
/// storage.create and storage.read.
///
/// Example: gular publish bundle/ pelican://osg-htc.org/mylab/birds/v1
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PublishArgs {
    /// The bundle's folder, or a file
    pub(crate) from: PathBuf,
    /// Where to: NAME/VERSION of a bundle, the object's name for a file
    pub(crate) url: String,
    /// Only say what would be sent
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) network: Network,
}

pub(crate) fn run(args: &PublishArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let start = Instant::now();
    let url = network::url(&args.url)?;
    let client = network::client(&args.network.access)?;
    let publisher = Publisher {
        client: &client,
        at_once: args.network.parallel.get(),
        dry_run: args.dry_run,
        stop: &stop,
        output,
    };
    let mut report = if args.from.is_dir() {
        publisher.bundle(&args.from, url)?
    } else {
        publisher.file(&args.from, &url)?
    };
    report.seconds = start.elapsed().as_secs_f64();
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&text(&report))?;
    }
    Ok(Exit::Done)
}

struct Publisher<'a> {
    client: &'a Client,
    at_once: usize,
    dry_run: bool,
    stop: &'a Stop,
    output: &'a Output,
}

/// One object of a bundle.
struct Item {
    from: PathBuf,
    to: Url,
    bytes: u64,
}

impl Publisher<'_> {
    fn file(&self, from: &Path, url: &Url) -> Result<Report, Failure> {
        let bytes = std::fs::metadata(from).map_or(0, |metadata| metadata.len());
        let item = Item { from: from.to_owned(), to: url.clone(), bytes };
        let done = self.send(&[item], IfTaken::Refuse, None, bytes, &AtomicU64::new(0))?;
        Ok(self.report(url.to_string(), None, &done))
    }

    fn bundle(&self, dir: &Path, url: Url) -> Result<Report, Failure> {
        let url = match url.parent() {
            Some(folder) if url.name() == MANIFEST_NAME => folder,
            _ => url,
        };
        let (digest, manifest) = self.sound(dir)?;
        let too_short = || {
            let hint = "a bundle's URL ends in NAME/VERSION, such as …/birds/v1".to_owned();
            Failure::new(format!("`{url}` is too short for a bundle"), Some(hint))
        };
        let data = url.parent().and_then(|name| name.join(DATA_DIR)).ok_or_else(too_short)?;
        let mut items = Vec::new();
        for file in manifest.shards.iter().flat_map(|shard| [&shard.file, &shard.index]) {
            let from = dir.join(DATA_DIR).join(file.name.as_str());
            let to = data.join(file.name.as_str()).ok_or_else(|| {
                Failure::new(format!("`{}` cannot be the name of an object", file.name), None)
            })?;
            items.push(Item { from, to, bytes: file.bytes });
        }
        // Two shards of the same bytes are one object.
        items.sort_by(|a, b| a.to.path().cmp(b.to.path()));
        items.dedup_by(|a, b| a.to == b.to);
        // Long ones first: none is left to run alone at the end.
        items.sort_by_key(|item| std::cmp::Reverse(item.bytes));
        let from = dir.join(MANIFEST_NAME);
        let to = url.join(MANIFEST_NAME).ok_or_else(too_short)?;
        let bytes = std::fs::metadata(&from).map_or(0, |metadata| metadata.len());
        let last = [Item { from, to, bytes }];
        let total = items.iter().chain(&last).fold(0, |sum: u64, i| sum.saturating_add(i.bytes));

        // A version that is taken by another bundle: known before anything is sent.
        self.check_version(&last)?;
        let moved = AtomicU64::new(0);
        let there = Listing::new(self, &data);
        let mut done = self.send(&items, IfTaken::Rename, Some(&there), total, &moved)?;
        // The manifest last: whoever sees it finds all it names.
        done.extend(self.send(&last, IfTaken::RenameIfCut, None, total, &moved)?);
        let hex = digest.trim_start_matches("blake3:");
        Ok(self.report(format!("{url}#blake3={hex}"), Some(digest.clone()), &done))
    }

    /// What is damaged here must not be spread: every byte is checked first.
    fn sound(&self, dir: &Path) -> Result<(String, Manifest), Failure> {
        let bar = bytes_bar("verify", 0, self.output);
        let options =
            VerifyOptions { mode: Mode::Full, jobs: self.at_once, ..VerifyOptions::default() };
        let progress = |done: u64, total: u64| {
            bar.set_length(total.max(done));
            bar.set_position(done);
        };
        let result = gular_verify::verify(dir, &options, &progress, &self.stop.flag);
        bar.finish_and_clear();
        let report = result.map_err(|error| network::ended(error, self.stop))?;
        if let Some(fault) = report.faults.first() {
            let message = format!(
                "the bundle in `{}` is not sound: {}: {}",
                dir.display(),
                fault.file,
                fault.message
            );
            let hint = format!("`gular verify {}` lists every fault", dir.display());
            let mut failure = Failure::new(message, Some(hint));
            failure.exit = Exit::Unsound;
            return Err(failure);
        }
        let path = dir.join(MANIFEST_NAME);
        let file = ReadAt::open(&path, Backend::Pread)?;
        let mut bytes = vec![0; usize::try_from(file.len_bytes()).unwrap_or(0)];
        file.read_at(0, &mut bytes)?;
        let manifest = Manifest::parse(&file.path(), &bytes)?;
        Ok((Digest::of(&bytes).to_string(), manifest))
    }

    fn check_version(&self, manifest: &[Item; 1]) -> Result<(), Failure> {
        let [item] = manifest;
        let (from, to, if_taken) = (&item.from, &item.to, IfTaken::RenameIfCut);
        let upload = Upload { from, to, if_taken, absent: false };
        let result = self.client.upload(&upload, true, &|_| (), &self.stop.flag);
        result.map(drop).map_err(|error| network::ended(error, self.stop))
    }

    fn send(
        &self,
        items: &[Item],
        if_taken: IfTaken,
        there: Option<&Listing<'_>>,
        total: u64,
        moved: &AtomicU64,
    ) -> Result<Vec<(Url, Uploaded)>, Failure> {
        let bar = bytes_bar("publish", total, self.output);
        bar.set_position(moved.load(Ordering::Relaxed));
        let done = Mutex::new(Vec::new());
        let result = parallel(items, self.at_once, &self.stop.flag, |item, stop| {
            let absent = there.is_some_and(|there| there.lacks(item.to.name()));
            let upload = Upload { from: &item.from, to: &item.to, if_taken, absent };
            let progress = |n: i64| advance(&bar, moved, n);
            let uploaded = self.client.upload(&upload, self.dry_run, &progress, stop)?;
            if let Ok(mut done) = done.lock() {
                done.push((item.to.clone(), uploaded));
            }
            Ok::<(), Error>(())
        });
        bar.finish_and_clear();
        let stopped = self.stop.flag.load(Ordering::Relaxed).then_some(Error::Cancelled);
        result
            .and(stopped.map_or(Ok(()), Err))
            .map_err(|error| network::ended(error, self.stop))?;
        Ok(done.into_inner().unwrap_or_default())
    }

    fn report(&self, url: String, digest: Option<String>, done: &[(Url, Uploaded)]) -> Report {
        let mut report = Report { url, digest, dry_run: self.dry_run, ..Report::default() };
        for (asked, uploaded) in done {
            report.objects += 1;
            report.bytes += uploaded.len_bytes;
            if uploaded.identical {
                report.identical += 1;
            } else {
                report.uploaded += 1;
                report.bytes_uploaded += uploaded.len_bytes;
            }
            if *asked != uploaded.url {
                report.renamed.push(uploaded.url.to_string());
            }
        }
        report.renamed.sort();
        report
    }
}

/// How long a listing is believed: another publisher may be at work.
const LISTING_AGE: Duration = Duration::from_secs(3);

/// What a collection holds: one request in place of one for each object. (And
/// XRootD 5.5.3 closes a connection after each 404, which over TLS and several
/// at once can crash it.)
struct Listing<'a> {
    publisher: &'a Publisher<'a>,
    collection: &'a Url,
    /// When it was made, and the names; `None` where nothing can be listed.
    known: Mutex<(Instant, Option<BTreeSet<String>>)>,
}

impl<'a> Listing<'a> {
    fn new(publisher: &'a Publisher<'a>, collection: &'a Url) -> Self {
        let known = (Instant::now(), Self::names(publisher, collection));
        Self { publisher, collection, known: Mutex::new(known) }
    }

    fn names(publisher: &Publisher<'_>, collection: &Url) -> Option<BTreeSet<String>> {
        match publisher.client.list(collection, &publisher.stop.flag) {
            Ok(entries) => Some(entries.into_iter().map(|entry| entry.name).collect()),
            Err(Error::NotFound { .. }) => Some(BTreeSet::new()),
            Err(_) => None,
        }
    }

    /// Whether this very moment there is no such object, as far as can be listed.
    fn lacks(&self, name: &str) -> bool {
        let Ok(mut known) = self.known.lock() else { return false };
        if known.0.elapsed() > LISTING_AGE && known.1.is_some() {
            *known = (Instant::now(), Self::names(self.publisher, self.collection));
        }
        known.1.as_ref().is_some_and(|names| !names.contains(name))
    }
}

/// A trial that failed takes its bytes back.
fn advance(bar: &ProgressBar, moved: &AtomicU64, n: i64) {
    let now = match u64::try_from(n) {
        Ok(more) => moved.fetch_add(more, Ordering::Relaxed).saturating_add(more),
        Err(_) => {
            let less = n.unsigned_abs();
            moved.fetch_sub(less, Ordering::Relaxed).saturating_sub(less)
        }
    };
    bar.set_position(now);
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for url in &report.renamed {
        text.push_str(&format!("a broken object has the name it should have; stored as `{url}`\n"));
    }
    let (moved, there) = (show::size(report.bytes_uploaded), report.identical);
    if report.dry_run {
        text.push_str(&format!(
            "dry run: {}, {moved}, would be sent; {there} are there already; nothing was written\n",
            show::count(report.uploaded as u64, "object")
        ));
    } else {
        let rate = show::size((report.bytes_uploaded as f64 / report.seconds.max(1e-9)) as u64);
        text.push_str(&format!(
            "published {}, {moved} sent, {there} were there already, {:.2} s, {rate}/s\n",
            show::count(report.objects as u64, "object"),
            report.seconds
        ));
    }
    text.push_str(&format!("{}\n", report.url));
    text
}
