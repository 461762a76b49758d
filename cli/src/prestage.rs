//! `gular prestage`.

use clap::Args;
use gular_bundle::Split;
use gular_pelican::{Client, Error};
use gular_transfer::{BundleUrl, PrestageOptions, PrestageReport, Published, prestage};

use crate::exit::{Exit, Failure};
use crate::network::Network;
use crate::progress::watched;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{hints, network, show, units};

/// Bring a bundle or an object into a cache before many jobs read it
///
/// Every byte is read through one cache and checked, and nothing is stored here: afterwards the
/// cache has the whole bundle, or the object, such as an image (.sif). By default this is the nearest cache, chosen by the director: run
/// the command where the jobs will run, or name their cache. Exit code 1: the cache has other
/// bytes.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 done, 1 the cache has wrong bytes, 2 error, 75 try again later

Example:
  gular prestage pelican://osg-htc.org/mylab/birds/v1#blake3=0a1b…")]
pub(crate) struct PrestageArgs {
    /// The URL that `gular publish` printed, or an object's URL
    pub(crate) url: String,
    /// The cache, such as https://cache.example.org:8443 [default: the nearest]
    #[arg(long, value_name = "URL")]
    pub(crate) at: Option<String>,
    /// Only these splits, such as `train,val`
    #[arg(long, value_name = "SPLITS", value_delimiter = ',', value_parser = units::split)]
    pub(crate) splits: Vec<Split>,
    #[command(flatten)]
    pub(crate) network: Network,
}

pub(crate) fn run(args: &PrestageArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let url: BundleUrl = args.url.parse()?;
    let cache = match &args.at {
        Some(cache) => cache.trim_end_matches('/').to_owned(),
        None => nearest(args, &url, &stop)?,
    };
    let mut options = network::options(&args.network.access);
    options.only_cache = Some(cache.clone());
    let client = Client::new(options)?;
    let options = PrestageOptions { splits: args.splits.clone(), jobs: args.network.jobs.get() };
    let result = watched("prestage", output, &stop, |watch, _| {
        prestage(&client, &url, &cache, &options, watch)
    });
    let report = result.map_err(|error| {
        let hint = hints::prestage(&error);
        let failure = network::ended(error, &stop);
        hint.into_iter().fold(failure, Failure::with_hint)
    })?;
    network::memory().first_seen(&url, report.digest)?;
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&text(&report))?;
    }
    Ok(Exit::Done)
}

/// Returns the first cache that the director names.
fn nearest(args: &PrestageArgs, url: &BundleUrl, stop: &Stop) -> Result<String, Failure> {
    let client = network::client(&args.network.access)?;
    let manifest = Published::at(&url.url)?.manifest().clone();
    let caches = client.caches(&manifest, stop.watch()).or_else(|error| match error {
        // It may be an object instead of a bundle.
        Error::NotFound { .. } => client.caches(&url.url, stop.watch()),
        error => Err(error),
    });
    let caches = caches.map_err(|error| network::ended(error, stop))?;
    caches.into_iter().next().ok_or_else(|| {
        let hint = "jobs will read from the origin; if you know a cache, choose it with `--at`";
        Failure::new(
            format!("the federation named no cache for `{}`", url.url),
            Some(hint.to_owned()),
        )
    })
}

fn text(report: &PrestageReport) -> String {
    let part = |bytes: u64, what: &str| match bytes {
        0 => String::new(),
        n => format!(", {} {what}", show::size(n)),
    };
    let not_checked = match &report.not_checked {
        None => String::new(),
        Some(why) => format!("not checked: {why}\n"),
    };
    format!(
        "`{}` has {} in {}{}{}{}{}\n{not_checked}{}\n",
        report.cache,
        show::size(report.bytes),
        show::count(report.files, "file"),
        part(report.bytes_brought, "brought now"),
        part(report.bytes_there, "there before"),
        part(report.bytes_unknown, "of unknown age"),
        show::pace(report.bytes, report.seconds),
        report.digest
    )
}
