//! `gular repair`.

use std::path::{Path, PathBuf};

use clap::Args;
use gular_bundle::Split;
use gular_pelican::{Scheme, encode_path};
use gular_transfer::{BundleUrl, FetchOptions, RepairReport, Unrepaired, repair};

use crate::exit::{Exit, Failure};
use crate::network::Network;
use crate::progress::watched;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{hints, network, show, units};

/// Repair a bundle's folder from copies, of which none need be whole
///
/// Every block of the bundle is checked. Blocks that are missing or damaged are read from the first
/// copy that has them right, and nothing else is read. If a copy's own manifest is damaged, or one
/// of its files is cut short, its blocks are used all the same. The folder may lack files, or be
/// new. A file that cannot be repaired is named at the end. If interrupted, run the same command
/// again. Exit code 1: no copy has some block.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Transfer",
    after_help = "\
Exit codes: 0 the bundle is whole, 1 no copy has some block, 2 error, 75 try again later

Examples:
  gular repair birds/
  gular repair birds/ --from 'pelican://osg-htc.org/mylab/birds/v1#blake3=0a1b…'
  gular repair birds/ --from /scratch/birds --from osdf:///mylab/birds/v1"
)]
pub(crate) struct RepairArgs {
    /// The bundle's folder
    #[arg(help_heading = None)]
    pub(crate) bundle: PathBuf,
    /// A copy, published or in a folder; repeatable
    ///
    /// The URL of the published bundle, or the folder of another copy. Copies are asked in this
    /// order. The digest in a URL decides which bundle it is; without one, all manifests, that of
    /// the folder too, must be the same. [default: the URL that this program fetched the folder from]
    #[arg(long, value_name = "URL|DIR", help_heading = None)]
    pub(crate) from: Vec<String>,
    /// Only these splits, such as `train,val`
    #[arg(long, value_name = "SPLITS", value_delimiter = ',', value_parser = units::split, help_heading = None)]
    pub(crate) splits: Vec<Split>,
    #[command(flatten)]
    pub(crate) network: Network,
}

pub(crate) fn run(args: &RepairArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let from = match args.from.as_slice() {
        [] => vec![fetched_from(&args.bundle)?],
        copies => copies.iter().map(|copy| url_of(copy)).collect::<Result<Vec<_>, _>>()?,
    };
    let client = network::client(&args.network.access)?;
    let options = FetchOptions {
        splits: args.splits.clone(),
        jobs: args.network.jobs.get(),
        ..FetchOptions::default()
    };
    let repaired = watched("repair", output, &stop, |watch, _| {
        repair(&client, &from, &args.bundle, &options, watch)
    });
    let report = repaired.map_err(|error| network::ended(error, &stop))?;
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&text(&report))?;
    }
    Ok(match failed(&report.failed, &from) {
        Some(failure) => failure.report(),
        None => Exit::Done,
    })
}

/// The most files that the error names; JSON has all.
const FILES_SHOWN: usize = 20;

/// One error for all files that could not be repaired, each with what is wrong in each copy.
fn failed(failed: &[Unrepaired], from: &[BundleUrl]) -> Option<Failure> {
    if failed.is_empty() {
        return None;
    }
    let files = show::count(failed.len() as u64, "file");
    let mut text = format!("{files} could not be repaired, since no copy has all of it right");
    if failed.len() > 1 {
        text = format!("{files} could not be repaired, since no copy has all blocks of them right");
    }
    for Unrepaired { file, error, .. } in failed.iter().take(FILES_SHOWN) {
        text.push_str(&format!("\n  `{}`: {}", show::plain(file), show::plain(error)));
    }
    if let Some(more) = failed.len().checked_sub(FILES_SHOWN).filter(|more| *more > 0) {
        text.push_str(&format!("\n  and {more} more"));
    }
    let passes = failed.iter().any(|failed| failed.passes);
    let is_published = from.iter().any(|copy| copy.url.scheme() != Scheme::File);
    let mut failure = Failure::new(text, Some(hints::unrepaired(passes, is_published).to_owned()));
    // That all may go well later is said only if it can.
    let later = failed.iter().all(|failed| failed.passes);
    failure.exit = if later { Exit::Later } else { Exit::Unsound };
    Some(failure)
}

/// The URL that this program fetched the folder from, as its cache records.
fn fetched_from(dir: &Path) -> Result<BundleUrl, Failure> {
    if let Err(error) = std::fs::metadata(dir) {
        return Err(gular_files::Error::new("open", dir, error).into());
    }
    network::memory().url_of_damaged_copy(dir).ok_or_else(|| {
        let message = format!(
            "no copy of `{}` is known: it is not a folder into which this program fetched a \
             bundle, or has another bundle by now",
            dir.display()
        );
        let hint =
            "name a copy, with `--from URL` where the bundle is published, or with `--from DIR`";
        Failure::new(message, Some(hint.to_owned()))
    })
}

/// The URL of a copy, which may be given as a folder.
fn url_of(copy: &str) -> Result<BundleUrl, Failure> {
    if copy.contains("://") {
        return Ok(copy.parse()?);
    }
    let dir = std::fs::canonicalize(copy)
        .map_err(|e| gular_files::Error::new("open", Path::new(copy), e))?;
    Ok(format!("file://{}", encode_path(&dir.to_string_lossy())).parse()?)
}

fn text(report: &RepairReport) -> String {
    let of = format!(
        "{} in {}, every byte checked",
        show::size(report.bytes),
        show::count(report.files, "file")
    );
    let n_failed = report.failed.len() as u64;
    let mut text = match report.bytes_repaired {
        // The error that follows says the rest.
        n if n_failed > 0 => {
            format!("repaired {}{}\n", show::size(n), show::pace(n, report.seconds))
        }
        0 => format!("nothing to repair: {of}, {:.2} s\n", report.seconds),
        n => format!("repaired {}: {of}{}\n", show::size(n), show::pace(n, report.seconds)),
    };
    for copy in report.copies.iter().filter(|copy| copy.blocks + copy.indexes > 0) {
        let indexes = match copy.indexes {
            0 => String::new(),
            1 => " and 1 index".to_owned(),
            n => format!(" and {n} indexes"),
        };
        let blocks = show::count(copy.blocks, "block");
        text.push_str(&format!("{blocks}{indexes} from `{}`\n", copy.url));
    }
    for line in hints::wrong_copies(&report.wrong_copies) {
        text.push_str(&format!("{line}\n"));
    }
    if n_failed == 0 {
        text.push_str(&format!("{}\n", report.digest));
    }
    text
}
