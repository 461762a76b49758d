//! `gular verify`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use gular_bundle::{Digest, Split};
use gular_pelican::Url;
use gular_transfer::{BundleUrl, Watch};
use gular_verify::{Error, Fault, Mode, VerifyOptions, VerifyReport};

use crate::exit::{Exit, Failure};
use crate::network::Access;
use crate::progress::bytes_bar;
use crate::shared::{Jobs, Output};
use crate::stop::Stop;
use crate::{hints, network, show, units};

/// Check a bundle and list every fault
///
/// A published bundle is streamed and not stored; a fault is reported only if no server of its
/// federation has the correct bytes, or, with --direct, if its origin does not have them. Exit code 1: there are faults.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "What is checked",
    after_help = "\
Exit codes: 0 no fault, 1 faults, 2 cannot tell, 75 try again later

Examples:
  gular verify bundle/ --digest blake3:0a1b…
  gular verify 'pelican://osg-htc.org/mylab/birds/v1#blake3=0a1b…'"
)]
pub(crate) struct VerifyArgs {
    /// The bundle's folder, or the URL it is published at
    #[arg(value_name = "DIR|URL", help_heading = None)]
    pub(crate) place: PathBuf,
    /// Check manifest, indexes and the lengths of shards; read no sample
    #[arg(long, group = "mode")]
    pub(crate) quick: bool,
    /// Check every byte of every file (the default)
    #[arg(long, group = "mode")]
    pub(crate) full: bool,
    /// Like --quick, plus a random share of samples, such as `1%`
    ///
    /// `1%` is the same as `0.01`. For URLs, whole 1 MiB blocks are read. The output says how likely
    /// damage would have been seen.
    #[arg(long, group = "mode", value_name = "SHARE", value_parser = units::share)]
    pub(crate) sample: Option<f64>,
    /// Only these splits, such as `train,val`
    ///
    /// For folders that hold only a part of the bundle.
    #[arg(long, value_name = "SPLITS", value_delimiter = ',', value_parser = units::split)]
    pub(crate) splits: Vec<Split>,
    /// Seed that chooses the samples of --sample
    ///
    /// The same seed chooses the same samples. [default: from the clock; the output says it]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// The digest that the bundle must have
    #[arg(long, value_name = "BLAKE3", value_parser = Digest::parse)]
    pub(crate) digest: Option<Digest>,
    /// How many keys to list per fault; the rest are counted
    #[arg(long, value_name = "N", default_value_t = gular_verify::VerifyOptions::default().max_keys)]
    pub(crate) max_keys: usize,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// Read a URL from its origin alone, and report what is wrong there
    ///
    /// Without this option, caches are read, and a fault of the origin's copy is not seen as long as
    /// a cache has the correct bytes.
    #[arg(long, help_heading = "Network")]
    pub(crate) direct: bool,
    #[command(flatten)]
    pub(crate) access: Access,
}

pub(crate) fn run(args: &VerifyArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let mode = match args.sample {
        Some(fraction) => Mode::Sample { fraction, seed: args.seed.unwrap_or_else(seed_of_clock) },
        None if args.quick => Mode::Quick,
        // `--full` names the default.
        None => Mode::Full,
    };
    let options = VerifyOptions {
        mode,
        jobs: args.jobs.count(),
        digest: args.digest,
        max_keys: args.max_keys,
        splits: args.splits.clone(),
    };
    let bar = bytes_bar("verify", 0, output);
    let progress = |done: u64, total: u64| {
        bar.set_length(total.max(done));
        bar.set_position(done);
    };
    let watch = Watch { progress: &progress, ..stop.watch() };
    let mut asked = None;
    let result = match args.place.to_str().filter(|place| place.contains("://")) {
        None => gular_verify::verify(&args.place, &options, watch),
        Some(url) => {
            let (url, options) = published(args, url, &options)?;
            let client = network::client(&args.access)?;
            let result = gular_verify::verify_url(&client, &url, &options, watch);
            let found = result.as_ref().ok().and_then(|report| report.digest);
            asked = Some(BundleUrl { url, digest: options.digest }).zip(found);
            result
        }
    };
    bar.finish_and_clear();
    let report = result.map_err(|error| {
        let cancelled = matches!(error, Error::Cancelled { .. });
        let mut failure = Failure::from(error);
        if let Some(exit) = stop.exit().filter(|_| cancelled) {
            failure.exit = exit;
        }
        failure
    })?;
    if output.json {
        show::json(&report)?;
    } else if output.quiet {
        show::text(&faults(&report))?;
    } else {
        show::text(&text(&report))?;
    }
    // What is damaged is not what was published.
    if let Some((url, found)) = asked.filter(|_| report.sound) {
        network::memory().first_seen(&url, found)?;
    }
    Ok(if report.sound { Exit::Done } else { Exit::Unsound })
}

/// A seed that differs from run to run, and is short enough to be typed.
fn seed_of_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_micros())
}

/// The URL to read from, and the digest it names, if `--digest` does not.
fn published(
    args: &VerifyArgs,
    url: &str,
    options: &VerifyOptions,
) -> Result<(Url, VerifyOptions), Failure> {
    let BundleUrl { url, digest } = url.parse()?;
    if let (Some(one), Some(other)) = (options.digest, digest)
        && one != other
    {
        let message = format!("the URL and `--digest` give different digests: {other} and {one}");
        return Err(Failure::new(message, Some("leave out one of the two".to_owned())));
    }
    let url = if args.direct { url.direct() } else { url };
    Ok((url, VerifyOptions { digest: options.digest.or(digest), ..options.clone() }))
}

fn text(report: &VerifyReport) -> String {
    let mut text = match report.digest {
        None => faults(report),
        Some(digest) => format!("bundle {digest}\n{}", faults(report)),
    };
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if !report.only_splits.is_empty() {
        let gone = "note: only whole splits are missing";
        let _ = writeln!(text, "{gone}: {}", hints::only_splits(&report.only_splits));
    }
    for line in hints::wrong_copies(&report.wrong_copies) {
        let _ = writeln!(text, "note: {line}");
    }
    let _ = writeln!(text, "{}", verdict(report));
    if !report.detection.is_empty() && report.faults.is_empty() {
        let seen = report.detection.iter().map(|seen| {
            let samples = show::count(seen.damaged, "sample");
            format!("to {samples}: {}", chance(seen.probability))
        });
        let seen: Vec<String> = seen.collect();
        let _ = writeln!(text, "how likely damage would have been seen, {}", seen.join("; "));
    }
    if let Some(seed) = report.seed {
        let _ = writeln!(text, "`--seed {seed}` reads the same samples again");
    }
    text
}

/// A probability in percent, rounded down: what is not certain is not called so.
fn chance(probability: f64) -> String {
    let percent = (probability * 1000.0).floor() / 10.0;
    if probability < 0.001 { "less than 0.1%".to_owned() } else { format!("{percent}%") }
}

/// Says what was checked, and the result.
fn verdict(report: &VerifyReport) -> String {
    let of = format!(
        "{} in {}, {}",
        show::count(report.samples, "sample"),
        show::count(report.shards, "shard"),
        show::size(report.bytes)
    );
    let pace = show::pace(report.bytes_read, report.seconds);
    let n_faults = report.faults.len() as u64;
    match (report.mode, n_faults) {
        ("full", 0) => format!("sound (every byte): {of}{pace}"),
        // The bundle is not called sound, since samples were not read.
        ("quick", 0) => {
            format!("no fault in manifest, indexes and lengths (samples were not read): {of}{pace}")
        }
        (_, 0) => {
            let read = show::count(report.samples_checked, "sample");
            let were = if report.samples_checked == 1 { "was" } else { "were" };
            format!("no fault in manifest, indexes and the {read} that {were} read: {of}{pace}")
        }
        // Without a manifest, nothing is known about the other files.
        (_, n) if report.shards == 0 => format!("NOT SOUND, {}{pace}", show::count(n, "fault")),
        (_, n) => format!("NOT SOUND, {}; checked {of}{pace}", show::count(n, "fault")),
    }
}

/// The faults, those of a file together, with what to do once for each file.
fn faults(report: &VerifyReport) -> String {
    let mut text = String::new();
    for of_file in report.faults.chunk_by(|a, b| a.file == b.file) {
        let Some(first) = of_file.first() else { continue };
        let split = first.split.map_or_else(String::new, |split| format!(" ({split})"));
        let _ = writeln!(text, "{}{split}", show::plain(&first.file));
        let mut advice = Vec::new();
        for fault in of_file {
            fault_text(&mut text, fault);
            if !advice.contains(&fault.advice) {
                advice.push(fault.advice);
            }
        }
        for advice in advice {
            let _ = writeln!(text, "  do: {advice}");
        }
    }
    text
}

/// Ranges listed for one fault as text; JSON has all.
const RANGES_SHOWN: usize = 8;

fn fault_text(text: &mut String, fault: &Fault) {
    let _ = writeln!(text, "  fault: {}", fault.message);
    if !fault.ranges.is_empty() {
        let shown = fault.ranges.iter().take(RANGES_SHOWN);
        let ranges: Vec<String> = shown.map(|r| format!("{}..{}", r.start, r.end)).collect();
        let _ = writeln!(
            text,
            "    bytes {}{}",
            ranges.join(", "),
            more(fault.ranges.len(), RANGES_SHOWN)
        );
    }
    for key in &fault.keys {
        let _ = writeln!(text, "    sample {key}");
    }
    let left = fault.n_keys.saturating_sub(fault.keys.len() as u64);
    if left > 0 {
        let _ = writeln!(text, "    and {left} more samples");
    }
}

fn more(n: usize, shown: usize) -> String {
    if n > shown { format!(" and {} more", n - shown) } else { String::new() }
}
