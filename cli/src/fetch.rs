//! `gular fetch`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use gular_bundle::{Bundle, Filter, OpenOptions, Split};
use gular_transfer::{
    BundleUrl, Checked, Client, DEFAULT_MAX_OBJECTS, Error, FetchOptions, FetchReport,
    FolderOptions, Remote, RemoteBundle, SampleOptions, SampleReport, Watch, fetch, fetch_folder,
    fetch_samples, object_here,
};

use crate::exit::{Exit, Failure};
use crate::network::Network;
use crate::progress::watched;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{any_folder, hints, network, oci, show, units};

/// Fetch a published bundle, one object, or a collection; check each block on arrival
///
/// DIR becomes a local bundle; it must be new, empty, or hold this bundle. If interrupted, even by
/// kill -9, run the same command again: what is already there is checked and kept, and when all of
/// it is there and the URL has a digest, no server is asked. An object that is not a bundle is
/// stored in DIR under its own name; a partial download is kept and resumed if the URL has a
/// digest. If the URL has none, the object is compared with the checksum that its server reports;
/// if the server reports none, the output says that the object was not checked. An oci:// name is a
/// bundle in a registry of container images, whose credentials are found as by `gular image pull`.
/// With -r, each object below a collection is fetched in this way, to a file of the same name below
/// DIR. Files that exist are compared and never overwritten; an object that fails is named, and the
/// others are still fetched. Exit code 1: the bytes do not match their digest.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Transfer",
    after_help = "\
Exit codes: 0 done, 1 the bytes do not match the digest, 2 error, 75 try again later

Example:
  gular fetch pelican://osg-htc.org/mylab/birds/v1#blake3=0a1b… birds/
  gular fetch pelican://osg-htc.org/mylab/birds/v1#blake3=0a1b… owls/ --where \"class = owl\""
)]
pub(crate) struct FetchArgs {
    /// The URL that `gular publish` printed, or an object's URL; with -r, a collection's URL
    ///
    /// A bundle in a registry: oci://HOST/REPOSITORY:VERSION[@sha256:…][#blake3=…].
    #[arg(help_heading = None)]
    pub(crate) url: String,
    /// The folder of the local copy
    #[arg(help_heading = None)]
    pub(crate) dir: PathBuf,
    /// Fetch each object below a collection, as it is
    #[arg(long, short, conflicts_with = "splits", help_heading = "Only a part")]
    pub(crate) recursive: bool,
    /// Maximum number of objects and collections with -r
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_OBJECTS, requires = "recursive", help_heading = "Only a part")]
    pub(crate) max_objects: usize,
    /// Only these splits, such as `train,val`
    #[arg(long, value_name = "SPLITS", value_delimiter = ',', value_parser = units::split, help_heading = "Only a part")]
    pub(crate) splits: Vec<Split>,
    /// Only the samples whose keys this file lists, one per line
    ///
    /// May be repeated. DIR, which must be new or empty, becomes a bundle of only these samples.
    /// Only their bytes and the indexes are requested, and each sample is checked against its
    /// digest. An interrupted run starts again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["recursive"], help_heading = "Only a part")]
    pub(crate) keys: Vec<PathBuf>,
    /// Only the samples that fit, as in `class = cat and bytes > 5000`
    ///
    /// The condition is written as for `gular derive --where`, and DIR becomes a bundle as with
    /// --keys. With --keys, a sample must be listed and fit. A condition on fields needs the
    /// fields' values: these are fetched first, and only for samples that the index alone can
    /// neither select nor exclude.
    #[arg(long = "where", value_name = "CONDITION", conflicts_with_all = ["recursive"], help_heading = "Only a part")]
    pub(crate) filter: Option<String>,
    /// Read from the origin instead of from caches
    #[arg(long)]
    pub(crate) direct: bool,
    /// Only show what would be fetched
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) network: Network,
}

pub(crate) fn run(args: &FetchArgs, output: &Output) -> Result<Exit, Failure> {
    if oci::is_oci(&args.url) {
        return oci::fetch(args, output);
    }
    let stop = Stop::install()?;
    let mut url: BundleUrl = args.url.parse()?;
    // The URL is shown in this form, without secrets in its query.
    let asked = url.url.to_string();
    if args.direct {
        url.url = url.url.direct();
    }
    if let Some(text) = &args.filter {
        // The condition is checked before a server is asked. Whether the bundle has its fields and
        // classes is checked later.
        Filter::check(text).map_err(Error::from)?;
    }
    let client = network::client(&args.network.access)?;
    if args.recursive {
        any_folder::no_digest(&url)?;
        let options = FolderOptions {
            jobs: args.network.jobs.get(),
            dry_run: args.dry_run,
            max_objects: args.max_objects,
            ..FolderOptions::default()
        };
        let fetched = watched("fetch", output, &stop, |watch, _| {
            fetch_folder(&client, &url.url, &args.dir, &options, watch)
        });
        let fetched = fetched.map_err(|error| network::ended(error, &stop))?;
        return any_folder::report(&fetched, "fetch", &any_folder::text(&fetched), output);
    }
    if !args.keys.is_empty() || args.filter.is_some() {
        let fetched =
            watched("fetch", output, &stop, |watch, _| samples(&client, &url, args, watch));
        let report = fetched?.map_err(|error| network::ended(error, &stop))?;
        match output.json {
            true => show::json(&report)?,
            false if output.quiet => {}
            false => show::text(&text_of_samples(&report, args))?,
        }
        return Ok(Exit::Done);
    }
    let fetched = watched("fetch", output, &stop, |watch, _| bring(&client, &url, args, watch));
    let (report, offline) = fetched.map_err(|error| failure(error, &url, args, &stop))?;
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&text(&report, url.digest.is_some(), offline, &asked))?;
    }
    Ok(Exit::Done)
}

/// Fetches the samples that are listed and fit the condition; what failed here, and what failed
/// there.
fn samples(
    client: &Client,
    url: &BundleUrl,
    args: &FetchArgs,
    watch: Watch<'_>,
) -> Result<Result<SampleReport, Error>, Failure> {
    let (mut keys, filter) = (BTreeSet::new(), args.filter.clone());
    for file in &args.keys {
        let text =
            std::fs::read_to_string(file).map_err(|e| gular_files::Error::new("read", file, e))?;
        keys.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    }
    let (splits, jobs) = (args.splits.clone(), args.network.jobs.get());
    if keys.is_empty() && !args.keys.is_empty() {
        return Err(Error::NoKeys.into());
    }
    let options = SampleOptions { keys, filter, splits, jobs, dry_run: args.dry_run };
    let remote = RemoteBundle::open(client, url, watch);
    Ok(remote.and_then(|remote| {
        network::memory().first_seen(url, remote.digest())?;
        fetch_samples(client, &remote, &args.dir, &options, watch)
    }))
}

fn text_of_samples(report: &SampleReport, args: &FetchArgs) -> String {
    let dir = args.dir.display();
    let samples = show::count(report.samples, "sample");
    let mut text = match &report.digest {
        Some(digest) if report.already_done => {
            format!("nothing to fetch: {samples} are in `{dir}`\n{digest}\n")
        }
        Some(digest) => {
            let asked = report.bytes_asked as f64 / report.bytes_wanted.max(1) as f64;
            format!(
                "fetched {samples} of {} to `{dir}`: {}; requested {:.2} times as many bytes in {}, and {}\n{digest}\n",
                report.samples_of,
                show::size(report.bytes_wanted),
                asked,
                show::count(report.requests, "request"),
                listings(report),
            )
        }
        None => format!(
            "dry run: would fetch {samples} of {}, {}; read {} to find out; nothing was written\n",
            report.samples_of,
            show::size(report.bytes_wanted),
            listings(report),
        ),
    };
    if report.unknown_keys > 0 {
        let keys = show::count(report.unknown_keys, "key");
        let first: Vec<String> =
            report.unknown.iter().map(|key| format!("`{}`", show::printable(key))).collect();
        text.push_str(&format!(
            "the list has {keys} that no sample of the bundle has: {}\n",
            first.join(", ")
        ));
    }
    text
}

/// Says what was read to find the wanted samples.
fn listings(report: &SampleReport) -> String {
    let indexes = show::size(report.bytes_of_indexes);
    match report.requests_of_condition {
        0 => format!("{indexes} of indexes"),
        n => format!(
            "{indexes} of indexes and {} for the condition in {}",
            show::size(report.bytes_of_condition),
            show::count(n, "request")
        ),
    }
}

/// Fetches the bundle. Also returns whether the local copy was checked without asking a server.
fn bring(
    client: &Client,
    url: &BundleUrl,
    args: &FetchArgs,
    watch: Watch<'_>,
) -> Result<(FetchReport, bool), Error> {
    let memory = network::memory();
    let bundle = |remote: &RemoteBundle| {
        if !args.dry_run {
            memory.first_seen(url, remote.digest())?;
        }
        let options = FetchOptions {
            splits: args.splits.clone(),
            jobs: args.network.jobs.get(),
            dry_run: args.dry_run,
            ..FetchOptions::default()
        };
        let report = fetch(client, remote, &args.dir, &options, watch)?;
        if !args.dry_run {
            memory.note_copy(&args.dir, remote.url());
        }
        Ok::<_, Error>(report)
    };
    // The digest proves what is here: a job that runs again needs no federation.
    if let Some(copy) = RemoteBundle::of_copy(url, &args.dir) {
        let report = bundle(&copy)?;
        let offline = report.bytes_fetched == 0;
        return Ok((report, offline));
    }
    if let Some(report) = object_here(url, &args.dir, watch)? {
        return Ok((report, true));
    }
    let report = match Remote::find(client, url, watch)? {
        Remote::Bundle(remote) => bundle(&remote)?,
        Remote::Object { len_bytes } => {
            memory.fetch_object(client, url, len_bytes, &args.dir, args.dry_run, watch)?
        }
    };
    Ok((report, false))
}

/// Adds a note to an error if the local copy could not be checked because the URL has no digest.
fn failure(error: Error, url: &BundleUrl, args: &FetchArgs, stop: &Stop) -> Failure {
    use gular_pelican::Error as Pelican;
    let unreachable =
        |error: &Pelican| matches!(error, Pelican::Discovery { .. } | Pelican::Failed { .. });
    let out_of_reach = matches!(&error, Error::Pelican(error) if unreachable(error));
    let failure = network::ended(error, stop);
    let copy = Bundle::open(&args.dir, OpenOptions::default()).ok();
    match copy.filter(|_| out_of_reach && url.digest.is_none()) {
        None => failure,
        Some(copy) => failure.with_hint(format!(
            "the federation cannot be reached, so a local copy can only be checked if the URL has its digest. The folder `{}` holds the bundle {}; if you want this bundle, fetch {}#blake3={}",
            args.dir.display(),
            copy.digest(),
            url.url,
            copy.digest().hex()
        )),
    }
}

pub(crate) fn text(report: &FetchReport, had_digest: bool, offline: bool, asked: &str) -> String {
    let mut text = String::new();
    let moved = show::size(report.bytes_fetched);
    if report.manifest_mended {
        let what = if report.dry_run { "would be replaced" } else { "was replaced" };
        let dir = report.dir.display();
        text.push_str(&format!("`{dir}/manifest.json` was cut or damaged, and {what}\n"));
    }
    if report.bytes_fetched == 0 && report.bytes > 0 {
        let there = match report.dry_run {
            true => "is there, judged by length",
            false => "is there, every byte checked",
        };
        text.push_str(&format!(
            "nothing to fetch: all of `{}` {there}: {} in {}, {:.2} s{}\n",
            report.dir.display(),
            show::size(report.bytes),
            show::count(report.files, "file"),
            report.seconds,
            if offline { "; no server was asked" } else { "" }
        ));
    } else if report.dry_run {
        text.push_str(&format!(
            "dry run: {moved} in {} would be fetched, {} is already here; nothing was written\n",
            show::count(report.files, "file"),
            show::size(report.bytes_kept),
        ));
    } else {
        let kept = match report.bytes_kept {
            0 => String::new(),
            n => format!(", {} was already there, every byte checked", show::size(n)),
        };
        text.push_str(&format!(
            "fetched {moved} to `{}`{kept}: {}{}\n",
            report.dir.display(),
            show::count(report.files, "file"),
            show::pace(report.bytes_fetched, report.seconds)
        ));
    }
    for line in hints::wrong_copies(&report.wrong_copies) {
        text.push_str(&format!("{line}\n"));
    }
    if let Some(digest) = report.digest {
        text.push_str(&format!("{digest}\n"));
        let (hex, how) = (digest.hex(), report.checked_how.as_deref().unwrap_or_default());
        if report.checked == Checked::Nothing && !report.dry_run {
            text.push_str(&format!(
                "not checked: {how}; the digest printed here is that of the received bytes, which may be wrong\n"
            ));
        } else if !had_digest {
            if report.checked == Checked::Checksum {
                text.push_str(&format!("it has the checksum {how}\n"));
            }
            text.push_str(&format!("the URL had no digest; next time: {asked}#blake3={hex}\n"));
        }
    }
    text
}
