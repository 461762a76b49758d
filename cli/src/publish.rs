//! `gular publish`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use gular_bundle::Digest;
use gular_containers::make::name_by_content;
use gular_files::Watch;
use gular_pelican::{Client, CompareBy, Url};
use gular_transfer::{
    DEFAULT_MAX_OBJECTS, Doubtful, FolderOptions, PublishOptions, PublishReport, SoundBundle,
    publish, publish_file, publish_file_with_blocks, publish_folder,
};
use gular_verify::{Mode, VerifyOptions};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::network::Network;
use crate::progress::{bytes_bar, watched};
use crate::shared::Output;
use crate::stop::Stop;
use crate::{any_folder, hints, network, oci, show, units};

/// Publish a bundle, one file, or any folder, to a Pelican federation
///
/// A bundle's URL names its version: NAME/VERSION. Its files go to NAME/data, which versions share,
/// and the manifest goes to NAME/VERSION last. The length and digest of each object at the origin
/// are compared with the local file. Objects that are already there are not sent again, so the same
/// command resumes, and two publishers do not disturb each other. Nothing is ever overwritten. The
/// token needs storage.create, and storage.read to compare; you may name one token for each
/// (--token twice). Without storage.read objects are stored and not read back: verify the URL
/// afterwards with a token that may read. With -r, each file of any folder becomes an object of the
/// same name below URL, including hidden files and the targets of links. A file that fails is
/// named, and the others are still sent.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 done, 1 the bundle is damaged, 2 error, 75 try again later

Example:
  gular publish bundle/ pelican://osg-htc.org/mylab/birds/v1")]
pub(crate) struct PublishArgs {
    /// The bundle's folder, or a file; with -r any folder
    pub(crate) from: PathBuf,
    /// Where to: …/NAME/VERSION for a bundle; for a file, the URL of the new object
    ///
    /// If the URL ends in `/`, a .sif is stored below it as NAME-HASH.sif, with the digests of its
    /// blocks beside it, and the line that names it in an HTCondor submit file is printed. A bundle
    /// may go to a registry of container images, as oci://HOST/REPOSITORY:VERSION: files that the
    /// repository has are not sent, an existing version is never replaced by a different bundle,
    /// and credentials are found as by `gular image push`.
    pub(crate) url: String,
    /// Publish each file of a folder as it is, under its own name
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// Maximum number of files and folders with -r
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_OBJECTS, requires = "recursive")]
    pub(crate) max_objects: usize,
    /// For oci://: reuse the files of another repository
    ///
    /// It must be in the same registry; such as lab/birds.
    #[arg(long, value_name = "REPOSITORY")]
    pub(crate) mount_from: Option<String>,
    /// Only show what would be sent
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How to check objects: size, digest or bytes [default: bytes]
    ///
    /// `size`: its length. `digest`: its length, and its digest if the origin reports one. `bytes`:
    /// the same, but objects without a digest are read back, which doubles the traffic for origins
    /// that report none. Not for oci://: a registry itself compares each blob with its digest.
    #[arg(long, value_name = "WHAT", value_parser = units::check)]
    check: Option<CompareBy>,
    #[command(flatten)]
    pub(crate) network: Network,
}

impl PublishArgs {
    fn check(&self) -> CompareBy {
        self.check.unwrap_or(CompareBy::Bytes)
    }

    /// Whether the command line says how to check.
    pub(crate) fn names_check(&self) -> bool {
        self.check.is_some()
    }
}

const URL_HINT: &str = "give a URL that ends in the bundle's name and a version, such as pelican://HOST/NAMESPACE/birds/v1; file:///path and https://HOST/path also work";

pub(crate) fn run(args: &PublishArgs, output: &Output) -> Result<Exit, Failure> {
    if oci::is_oci(&args.url) {
        return oci::publish(args, output);
    }
    if args.mount_from.is_some() {
        let message = "`--mount-from` works only with registries, whose names begin with `oci://`";
        return Err(Failure::new(message, Some("leave it out".to_owned())));
    }
    let stop = Stop::install()?;
    let start = Instant::now();
    let url = target(args)?;
    check_from(args)?;
    let image = PublishedSif::of(args)?;
    let url = match &image {
        Some(image) if args.url.ends_with('/') => {
            network::url(&format!("{}{}", args.url, image.name))?
        }
        _ => url,
    };
    let client = network::client(&args.network.access)?;
    let (jobs, dry_run) = (args.network.jobs.get(), args.dry_run);
    if args.recursive {
        return recursive(args, &client, &url, output, &stop);
    }
    let options = PublishOptions { jobs, dry_run, compare_by: args.check() };
    let sound = match args.from.is_dir() {
        true => {
            Some(SoundBundle::prove(&args.from, |dir| prove(dir, Mode::Full, jobs, output, &stop))?)
        }
        false => None,
    };
    let scratch = tempfile::tempdir();
    let scratch = scratch
        .map_err(|e| Failure::new(format!("cannot create a temporary folder: {e}"), None))?;
    let published = watched("publish", output, &stop, |watch, _| match &sound {
        Some(sound) => publish(&client, sound, &url, &options, watch),
        // The name must contain the digest, since readers need that to know the right block tree.
        None if image.as_ref().is_some_and(|image| url.name() == image.name) => {
            publish_file_with_blocks(&client, &args.from, &url, &options, scratch.path(), watch)
        }
        None => publish_file(&client, &args.from, &url, &options, watch),
    });
    let mut report = published.map_err(|error| {
        let hint = hints::publish(&error, &url.to_string());
        let failure = network::ended(error, &stop);
        hint.into_iter().fold(failure, Failure::with_hint)
    })?;
    // The time of the check before is included.
    report.seconds = start.elapsed().as_secs_f64();
    let container_image = image.as_ref().map(|_| container_image(&url));
    if output.json {
        show::json(&Published { report: &report, container_image })?;
    } else if !output.quiet {
        if let Some(image) = image.filter(|image| !url.path().ends_with(&image.name)) {
            let name = image.name;
            let note = "caches know an image by its name and never learn of a change";
            show::message(
                "note",
                &format!("{note}: a URL that ends in `/` gives it the name `{name}`"),
            );
        }
        let line = container_image.map(|image| format!("container_image = {image}\n"));
        show::text(&(text(&report) + &line.unwrap_or_default()))?;
    }
    Ok(Exit::Done)
}

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct Published<'a> {
    #[serde(flatten)]
    report: &'a PublishReport,
    /// The value of `container_image` in a submit file of HTCondor.
    #[serde(skip_serializing_if = "Option::is_none")]
    container_image: Option<String>,
}

/// A SIF that is published.
struct PublishedSif {
    /// Its name with its digest.
    name: String,
}

impl PublishedSif {
    fn of(args: &PublishArgs) -> Result<Option<Self>, Failure> {
        let is_sif = args.from.extension().is_some_and(|end| end == "sif") && args.from.is_file();
        if !is_sif || args.recursive {
            return Ok(None);
        }
        Ok(Some(Self { name: name_by_content(&args.from)? }))
    }
}

/// The URL in the form of HTCondor's submit files: more machines have the plug-in for `osdf`.
fn container_image(url: &Url) -> String {
    let url = url.to_string();
    let osdf = url.strip_prefix("pelican://osg-htc.org/").map(|path| format!("osdf:///{path}"));
    osdf.unwrap_or(url)
}

/// Publishes any folder, file by file.
fn recursive(
    args: &PublishArgs,
    client: &Client,
    url: &Url,
    output: &Output,
    stop: &Stop,
) -> Result<Exit, Failure> {
    let options = FolderOptions {
        jobs: args.network.jobs.get(),
        dry_run: args.dry_run,
        max_objects: args.max_objects,
        alone: false,
        compare_by: args.check(),
    };
    let published = watched("publish", output, stop, |watch, bar| {
        let doubts = |doubtful: Doubtful| {
            bar.suspend(|| show::message("warning", &doubts(doubtful)));
        };
        publish_folder(client, &args.from, url, &options, &doubts, watch)
    });
    let published = published.map_err(|error| network::ended(error, stop))?;
    let report = &published.report;
    let text = match (published.failed.is_empty(), report.uploaded) {
        (false, 0) => {
            let there = show::count(report.identical as u64, "object");
            format!("published nothing; already there: {there}\n{}\n", report.url)
        }
        _ => text(report),
    };
    any_folder::report(&published, "publish", &text, output)
}

/// Describes files that the user may not want to publish, since that cannot be undone.
fn doubts(Doubtful { hidden, links_out }: Doubtful) -> String {
    let hidden_files = show::count(hidden as u64, "hidden file");
    let links = match links_out {
        1 => "1 link that points out of the folder".to_owned(),
        n => format!("{} that point out of the folder", show::count(n as u64, "link")),
    };
    let what = match (hidden, links_out) {
        (_, 0) => hidden_files,
        (0, _) => links,
        _ => format!("{hidden_files} and {links}"),
    };
    format!("this publishes {what}; this cannot be undone")
}

/// The URL, which has no digest: that is what publishing tells.
fn target(args: &PublishArgs) -> Result<Url, Failure> {
    let Some((plain, _)) = args.url.split_once('#') else {
        return network::url(&args.url).map_err(|failure| failure.with_hint(URL_HINT));
    };
    let url = network::url(plain)?;
    let message = format!("the URL to publish to, `{url}#…`, must not have a part after `#`");
    let hint = "leave out `#…`: the digest is printed when the bundle is published";
    Err(Failure::new(message, Some(hint.to_owned())))
}

/// A place of which nothing can be published is named before anybody is asked.
pub(crate) fn check_from(args: &PublishArgs) -> Result<(), Failure> {
    let Err(error) = fs::metadata(&args.from) else { return Ok(()) };
    let from = args.from.display();
    let message = match error.kind() {
        ErrorKind::NotFound => format!("cannot publish `{from}`: it does not exist"),
        _ => format!("cannot publish `{from}`: {error}"),
    };
    let hint = match args.recursive {
        true => "give a folder",
        false => "give the folder of a bundle, as `gular pack` makes it, or a file",
    };
    Err(Failure::new(message, Some(hint.to_owned())))
}

/// Verifies the bundle, since damaged files must not be published.
pub(crate) fn prove(
    dir: &Path,
    mode: Mode,
    jobs: usize,
    output: &Output,
    stop: &Stop,
) -> Result<Digest, Failure> {
    let bar = bytes_bar("verify", 0, output);
    let progress = |done: u64, total: u64| {
        bar.set_length(total.max(done));
        bar.set_position(done);
    };
    let verify = VerifyOptions { mode, jobs, ..VerifyOptions::default() };
    let watch = Watch { progress: &progress, ..stop.watch() };
    let result = gular_verify::verify(dir, &verify, watch);
    bar.finish_and_clear();
    let report = result.map_err(|error| network::ended(error, stop))?;
    if let Some(fault) = report.faults.first() {
        return Err(unsound(dir, &fault.file, &fault.message));
    }
    let no_digest = || Failure::new(format!("`{}` is not a bundle", dir.display()), None);
    report.digest.ok_or_else(no_digest)
}

/// The error for a bundle that must not be published.
pub(crate) fn unsound(dir: &Path, file: &str, message: &str) -> Failure {
    let dir = dir.display();
    let message = format!("the bundle in `{dir}` is damaged: {file}: {message}");
    let mut failure =
        Failure::new(message, Some(format!("`gular verify {dir}` lists every fault")));
    failure.exit = Exit::Unsound;
    failure
}

fn text(report: &PublishReport) -> String {
    let mut text = String::new();
    for url in &report.renamed {
        let shown = url.to_string();
        let first = shown.rsplit_once('~').map_or(shown.as_str(), |(first, _)| first);
        text.push_str(&format!(
            "`{first}` holds other bytes, perhaps from an interrupted upload; the object was stored as `{shown}`, which readers try next\n"
        ));
    }
    text.push_str(&summary(report));
    if report.by_length > 0 {
        let n = show::count(report.by_length as u64, "object");
        text.push_str(&format!("{n} compared only by length\n"));
    }
    if report.not_read_back > 0 {
        let n = show::count(report.not_read_back as u64, "object");
        text.push_str(&format!("{n} stored, not read back: this token may not read\n"));
    }
    if report.not_compared > 0 {
        let n = show::count(report.not_compared as u64, "object");
        text.push_str(&format!("{n} already existed, not compared: this token may not read\n"));
    }
    if report.manifest_not_compared {
        text.push_str("the manifest is one of them: another bundle may have this version\n");
    }
    if report.not_read_back + report.not_compared > 0 {
        text.push_str("verify with a token that may read: gular verify --direct URL\n");
    }
    text.push_str(&format!("{}\n", report.url));
    text
}

/// Says how many objects and bytes were sent, and how many existed already.
fn summary(report: &PublishReport) -> String {
    let (sent, there) = (report.uploaded as u64, report.identical as u64);
    let pace = show::pace(report.bytes_uploaded, report.seconds);
    sentence(report.dry_run, sent, there, report.bytes_uploaded, &pace)
}

pub(crate) fn sentence(dry_run: bool, sent: u64, there: u64, bytes: u64, pace: &str) -> String {
    let (moved, objects) = (show::size(bytes), show::count(sent + there, "object"));
    match (dry_run, sent, there) {
        (true, 0, _) => format!("dry run: nothing to send, {objects} already there\n"),
        (true, _, _) => format!(
            "dry run: {}, {moved}, would be sent; {there} already there; nothing was written\n",
            show::count(sent, "object")
        ),
        (false, 0, _) => format!("nothing to send, {objects} already there{pace}\n"),
        (false, _, 0) => format!("published {objects}, {moved}{pace}\n"),
        (false, _, _) => {
            format!("published {objects}: {sent} sent, {moved}; {there} already there{pace}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_as_submit_files_name_it() {
        for (url, expected) in [
            ("pelican://osg-htc.org/lab/x.sif", "osdf:///lab/x.sif"),
            ("osdf:///lab/x.sif", "osdf:///lab/x.sif"),
            ("pelican://other.org/lab/x.sif", "pelican://other.org/lab/x.sif"),
        ] {
            assert_eq!(container_image(&Url::parse(url).unwrap()), expected);
        }
    }

    #[test]
    fn what_was_sent_is_told_apart_from_what_was_there() {
        let check = |dry_run, sent, there, expected: &str| {
            let said = sentence(dry_run, sent, there, 1_000_000 * sent, ", 0.50 s");
            assert_eq!(said.trim_end(), expected);
        };
        check(false, 3, 0, "published 3 objects, 3.0 MB, 0.50 s");
        check(false, 1, 2, "published 3 objects: 1 sent, 1.0 MB; 2 already there, 0.50 s");
        check(false, 0, 1, "nothing to send, 1 object already there, 0.50 s");
        check(true, 0, 3, "dry run: nothing to send, 3 objects already there");
        let dry = "dry run: 1 object, 1.0 MB, would be sent; 2 already there; nothing was written";
        check(true, 1, 2, dry);
    }
}
