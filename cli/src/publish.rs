//! `gular publish`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use gular_bundle::Digest;
use gular_pelican::Check;
use gular_transfer::{PublishOptions, PublishReport, SoundBundle, Watch, publish, publish_file};
use gular_verify::{Mode, VerifyOptions};

use crate::exit::{Exit, Failure};
use crate::network::Network;
use crate::progress::bytes_bar;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{network, show, units};

/// Publish a bundle, or one file, to a Pelican federation
///
/// A bundle's URL names its version: NAME/VERSION. Its files go to NAME/data, which versions
/// share, and the manifest goes to NAME/VERSION last. The length and digest of each object at the
/// origin are compared with the local file. Objects that are already there are not sent again, so
/// the same command resumes, and two publishers do not disturb each other. Nothing is ever
/// overwritten. The token needs storage.create, and storage.read to compare; a token for each may
/// be named (--token twice). Without storage.read objects are stored and not read back: verify the
/// URL afterwards with a token that may read.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  gular publish bundle/ pelican://osg-htc.org/mylab/birds/v1")]
pub(crate) struct PublishArgs {
    /// The bundle's folder, or a file
    pub(crate) from: PathBuf,
    /// Where to: NAME/VERSION for a bundle, the object's name for a file
    pub(crate) url: String,
    /// Only show what would be sent
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// What of each object at the origin is compared: size, digest or bytes
    ///
    /// `size` its length. `digest` its length and the digest that the origin tells; where it
    /// tells none, its length. `bytes` the same, but what has no digest is read back, which
    /// doubles the traffic for origins that tell none.
    #[arg(long, value_name = "WHAT", default_value = "bytes", value_parser = units::check)]
    pub(crate) check: Check,
    #[command(flatten)]
    pub(crate) network: Network,
}

pub(crate) fn run(args: &PublishArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let start = Instant::now();
    let url = network::url(&args.url)?;
    let client = network::client(&args.network.access)?;
    let (jobs, dry_run) = (args.network.jobs.get(), args.dry_run);
    let options = PublishOptions { jobs, dry_run, check: args.check };
    let sound = match args.from.is_dir() {
        true => Some(SoundBundle::prove(&args.from, |dir| prove(dir, &options, output, &stop))?),
        false => None,
    };
    let bar = bytes_bar("publish", 0, output);
    let progress = |done: u64, total: u64| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let watch = Watch { progress: &progress, ..Watch::silent(&stop.flag) };
    let published = match &sound {
        Some(sound) => publish(&client, sound, &url, &options, watch),
        None => publish_file(&client, &args.from, &url, &options, watch),
    };
    bar.finish_and_clear();
    let mut report = published.map_err(|error| network::ended(error, &stop))?;
    // With the time of the proof.
    report.seconds = start.elapsed().as_secs_f64();
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&text(&report))?;
    }
    Ok(Exit::Done)
}

/// What is damaged here must not be spread: every byte is checked first.
fn prove(
    dir: &Path,
    options: &PublishOptions,
    output: &Output,
    stop: &Stop,
) -> Result<Digest, Failure> {
    let bar = bytes_bar("verify", 0, output);
    let progress = |done: u64, total: u64| {
        bar.set_length(total.max(done));
        bar.set_position(done);
    };
    let verify = VerifyOptions { mode: Mode::Full, jobs: options.jobs, ..VerifyOptions::default() };
    let result = gular_verify::verify(dir, &verify, &progress, &stop.flag);
    bar.finish_and_clear();
    let report = result.map_err(|error| network::ended(error, stop))?;
    if let Some(fault) = report.faults.first() {
        let dir = dir.display();
        let message =
            format!("the bundle in `{dir}` is not sound: {}: {}", fault.file, fault.message);
        let hint = format!("`gular verify {dir}` lists every fault");
        let mut failure = Failure::new(message, Some(hint));
        failure.exit = Exit::Unsound;
        return Err(failure);
    }
    let no_digest = || Failure::new(format!("`{}` holds no bundle", dir.display()), None);
    report.digest.ok_or_else(no_digest)
}

fn text(report: &PublishReport) -> String {
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
    if report.by_length > 0 {
        let n = show::count(report.by_length as u64, "object");
        text.push_str(&format!("{n} compared by length alone\n"));
    }
    if report.not_read_back > 0 {
        let n = show::count(report.not_read_back as u64, "object");
        text.push_str(&format!("{n} stored, not read back: this token may not read\n"));
    }
    if report.not_compared > 0 {
        let n = show::count(report.not_compared as u64, "object");
        text.push_str(&format!("{n} were there already, not compared: this token may not read\n"));
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
