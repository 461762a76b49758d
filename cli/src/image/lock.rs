//! `gular image lock`.

use std::path::PathBuf;

use clap::Args;
use gular_containers::lock::BaseMoved;
use gular_containers::make::{LockOptions, Locked, Project, lock};
use gular_containers::{Error, Package};
use serde::Serialize;

use super::places::{PlaceArgs, SourceArgs};
use super::transport::Web;
use super::watch::Bars;
use crate::exit::{Exit, Failure};
use crate::network::ended;
use crate::shared::Output;
use crate::show;
use crate::stop::Stop;

/// Resolve the packages of an image and write them to image.lock
///
/// Resolves Debian packages (the archive's signature is checked), the wheels of torch with NVIDIA's
/// libraries, and Python packages; writes names, versions, lengths, SHA-256 and URLs. Nothing large
/// is fetched unless --vendor asks for it. If the digest of the recipe's base image differs from
/// the one in the previous lock, both are shown.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Lock file",
    after_help = "Example:\n  gular image lock image.toml --vendor vendor/"
)]
pub(super) struct LockArgs {
    /// The recipe
    #[arg(default_value = "image.toml", help_heading = None)]
    pub(super) recipe: PathBuf,
    /// Also fetch every package into DIR
    ///
    /// `gular image build --from-vendor DIR` then needs no network.
    #[arg(long, value_name = "DIR")]
    pub(super) vendor: Option<PathBuf>,
    /// Write nothing; fail if image.lock would have to be made or changed
    ///
    /// The exit code is then 1.
    #[arg(long, conflicts_with_all = ["vendor", "dry_run"])]
    pub(super) locked: bool,
    /// Only resolve and show what would change
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) sources: SourceArgs,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct LockReport {
    /// Path of the lock file.
    lock: String,
    /// Whether it was a dry run, which writes nothing.
    dry_run: bool,
    /// Whether the lock was written; a lock with the same contents is not written again.
    written: bool,
    /// Number of Debian packages in the lock.
    debian_packages: usize,
    /// Number of wheels in the lock.
    wheels: usize,
    /// Bytes of all packages in the lock.
    bytes: u64,
    /// Packages that the lock did not have before.
    added: Vec<String>,
    /// Packages that the lock no longer has.
    removed: Vec<String>,
    /// Packages with another version than before.
    changed: Vec<String>,
    /// The image that this one is built on, if its name now has another digest than in the lock
    /// before.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<BaseMoved>,
    /// The folder with copies of all packages, if one was asked for.
    vendor: Option<String>,
}

pub(super) fn run(args: &LockArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    if args.locked {
        return fits(&Project::open(&args.recipe)?);
    }
    let options = LockOptions {
        recipe: args.recipe.clone(),
        sources: args.sources.sources(),
        vendor: args.vendor.clone(),
        cache: args.place.cache()?,
        offline: args.place.offline,
        dry_run: args.dry_run,
    };
    let web = Web::new(&stop)?;
    let locked = lock(&options, &web, &Bars::new(output, &stop));
    let report = report(args, &locked.map_err(|error| ended(error, &stop))?);
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&words(&report))?;
    }
    Ok(Exit::Done)
}

/// Checks whether the lock exists and matches the recipe.
fn fits(project: &Project) -> Result<Exit, Failure> {
    match project.current_lock() {
        Ok(_) => Ok(Exit::Done),
        Err(error @ (Error::NoLock { .. } | Error::Stale { .. })) => {
            let mut unfit = Failure::from(error);
            unfit.exit = Exit::Unsound;
            Err(unfit)
        }
        Err(error) => Err(error.into()),
    }
}

fn report(args: &LockArgs, locked: &Locked) -> LockReport {
    let Locked { lock, changes, .. } = locked;
    let shown = |package: &Package| format!("{} {}", package.name, package.version);
    let changed = changes.changed.iter().map(|(before, now)| {
        let Package { name, version, .. } = now;
        format!("{name} {} -> {version}", before.version)
    });
    LockReport {
        lock: locked.path.display().to_string(),
        dry_run: args.dry_run,
        written: locked.written,
        debian_packages: lock.debs.len(),
        wheels: lock.all_wheels().count(),
        bytes: lock.bytes(),
        added: changes.added.iter().map(shown).collect(),
        removed: changes.removed.iter().map(shown).collect(),
        changed: changed.collect(),
        base: changes.base.clone(),
        vendor: args.vendor.as_ref().map(|dir| dir.display().to_string()),
    }
}

fn words(report: &LockReport) -> String {
    let what = format!(
        "{} and {} ({} to fetch)",
        show::count(report.debian_packages as u64, "Debian package"),
        show::count(report.wheels as u64, "wheel"),
        show::size(report.bytes)
    );
    let lock = &report.lock;
    let mut text = match report {
        LockReport { dry_run: true, .. } => format!("dry run: {what}; nothing was written\n"),
        LockReport { written: true, .. } => format!("`{lock}`: {what}\n"),
        _ => format!("`{lock}` is up to date: {what}\n"),
    };
    for (sign, names) in [("+", &report.added), ("-", &report.removed), ("~", &report.changed)] {
        for name in names {
            text.push_str(&format!("  {sign} {name}\n"));
        }
    }
    if let Some(BaseMoved { name, before, now }) = &report.base {
        text.push_str(&format!("  ~ {name} {before} -> {now}\n"));
    }
    if let Some(dir) = &report.vendor {
        text.push_str(&format!("all of them are in `{dir}`\n"));
    }
    text
}
