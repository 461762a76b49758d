//! `gular fetch`.

use std::path::{Path, PathBuf};

use clap::Args;
use gular_bundle::Split;
use gular_transfer::{
    BundleUrl, Checked, FetchOptions, FetchReport, Remote, Watch, fetch, fetch_object,
};

use crate::exit::{Exit, Failure};
use crate::network::Network;
use crate::progress::bytes_bar;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{network, show, units};

/// Fetch a published bundle, or one object, and check each block on arrival
///
/// DIR becomes a local bundle. If interrupted, even by kill -9, run the same command again: what
/// is already there is checked and kept. An object that is not a bundle is stored in DIR under
/// its own name; an incomplete one is kept if the URL has a digest; without one it is compared
/// with the checksum that its server tells, and said to be not checked where there is none. Exit
/// code 1: the bytes do not match their digest.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  gular fetch pelican://osg-htc.org/mylab/birds/v1#blake3=0a1b… birds/")]
pub(crate) struct FetchArgs {
    /// NAME/VERSION#DIGEST as `gular publish` prints it, or an object
    pub(crate) url: String,
    /// The folder of the local copy
    pub(crate) dir: PathBuf,
    /// Only these splits, such as `train,val`
    #[arg(long, value_name = "SPLITS", value_delimiter = ',', value_parser = units::split)]
    pub(crate) splits: Vec<Split>,
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
    let stop = Stop::install()?;
    let mut url: BundleUrl = args.url.parse()?;
    // As it is shown: without secrets of its query.
    let asked = url.url.to_string();
    if args.direct {
        url.url = url.url.direct();
    }
    let client = network::client(&args.network.access)?;
    let bar = bytes_bar("fetch", 0, output);
    let progress = |done: u64, total: u64| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let waiting = |dir: &Path| {
        if !output.quiet {
            let dir = dir.display();
            bar.suspend(|| {
                show::message(
                    "note",
                    &format!("waiting for another process that writes to `{dir}`"),
                );
            });
        }
    };
    let watch = Watch { progress: &progress, waiting: &waiting, cancel: &stop.flag };
    let result = match Remote::find(&client, &url, &stop.flag) {
        Ok(Remote::Bundle(remote)) => {
            let options = FetchOptions {
                splits: args.splits.clone(),
                jobs: args.network.jobs.get(),
                dry_run: args.dry_run,
                ..FetchOptions::default()
            };
            fetch(&client, &remote, &args.dir, &options, watch)
        }
        Ok(Remote::Object { len_bytes }) => {
            fetch_object(&client, &url, len_bytes, &args.dir, args.dry_run, watch)
                .map(|(report, _)| report)
        }
        Err(error) => Err(error),
    };
    bar.finish_and_clear();
    let report = result.map_err(|error| network::ended(error, &stop))?;
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&text(&report, url.digest.is_some(), &asked))?;
    }
    Ok(Exit::Done)
}

fn text(report: &FetchReport, had_digest: bool, asked: &str) -> String {
    let mut text = String::new();
    let moved = show::size(report.bytes_fetched);
    if report.dry_run {
        text.push_str(&format!(
            "dry run: {moved} in {} would be fetched, {} is there; nothing was written\n",
            show::count(report.files, "file"),
            show::size(report.bytes_kept),
        ));
    } else {
        let rate = show::size((report.bytes_fetched as f64 / report.seconds.max(1e-9)) as u64);
        let kept = match report.bytes_kept {
            0 => String::new(),
            n => format!(", {} was there and is sound", show::size(n)),
        };
        text.push_str(&format!(
            "fetched {moved} to `{}`{kept}: {}, {:.2} s, {rate}/s\n",
            report.dir.display(),
            show::count(report.files, "file"),
            report.seconds
        ));
    }
    if let Some(digest) = report.digest {
        text.push_str(&format!("{digest}\n"));
        let (hex, how) = (digest.hex(), report.checked_how.as_deref().unwrap_or_default());
        if report.checked == Checked::Nothing && !report.dry_run {
            text.push_str(&format!(
                "not checked: {how}; the digest is that of the bytes that came, right or wrong\n"
            ));
        } else if !had_digest {
            if report.checked == Checked::Checksum {
                text.push_str(&format!("it has the checksum {how}\n"));
            }
            text.push_str(&format!("no digest was asked for; next time: {asked}#blake3={hex}\n"));
        }
    }
    text
}
