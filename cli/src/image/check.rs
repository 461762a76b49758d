//! `gular image check`, and how its findings are shown.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use gular_containers::StoredImage;
use gular_containers::check::{CheckReport, Finding, Form, Runs, Severity};
use gular_containers::export::ImageFacts;
use gular_containers::replay::{Replay, Replays, judge};
use gular_pelican::Env;
use serde::Serialize;

use super::places::{PlaceArgs, tools};
use super::replay;
use crate::exit::{Exit, Failure};
use crate::network::ended;
use crate::shared::Output;
use crate::show;
use crate::stop::Stop;

/// Check whether an image will run on given GPUs and a given Apptainer version
///
/// Looks for libraries that are missing or too old, GPUs without code in the CUDA libraries,
/// drivers that are too old, missing files that Apptainer and HTCondor expect, secrets, and a file
/// name under which caches could keep an older image. With --replay it also tries the commands by
/// which HTCondor tests an image and starts a job in it. The GPUs and the version of Apptainer are
/// those of the recipe inside, unless options override them. Takes a .sif, an OCI layout or an OCI
/// archive from any tool. Exit code 1: the image would fail.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  gular image check train-0123456789abcdef.sif --capabilities 8.0,9.0"
)]
pub(super) struct CheckArgs {
    /// A .sif, the folder of an OCI layout, or an OCI archive
    pub(super) image: PathBuf,
    /// Compute capabilities it must run on, such as 8.0,9.0
    ///
    /// [default: as in the recipe stored in the image]
    #[arg(long, value_delimiter = ',', value_name = "CC")]
    pub(super) capabilities: Vec<gular_containers::cuda::Capability>,
    /// The oldest Apptainer it must run under
    ///
    /// [default: as in the recipe stored in the image, otherwise 1.1]
    #[arg(long, value_name = "VERSION")]
    pub(super) apptainer: Option<gular_containers::recipe::Runtime>,
    /// Also run, here, what HTCondor runs in an image
    ///
    /// The commands with which HTCondor tests an image and starts a job in it, on this machine.
    /// This starts programs of the image: only for images you trust.
    #[arg(long)]
    pub(super) replay: bool,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct Checked<'a> {
    /// The image that was checked, as it was given.
    image: &'a str,
    /// Values of the image that jobs must ask for.
    facts: &'a ImageFacts,
    /// The result of the check.
    check: &'a CheckReport,
    /// Results of the command lines with which HTCondor tests and starts an image, as far as they
    /// could be tried.
    replay: &'a [Replay],
}

pub(super) fn run(args: &CheckArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let image = open(&args.image, &args.place)?;
    let mut target = image.target();
    if !args.capabilities.is_empty() {
        target.gpus.clone_from(&args.capabilities);
    }
    target.apptainer = args.apptainer.unwrap_or(target.apptainer);
    let mut report = image.check(&target, &host_paths())?;
    report.findings.extend(misnamed(&image));
    let mut replayed = Vec::new();
    if args.replay {
        replayed = replay_all(&image, &args.place, &stop).map_err(|error| ended(error, &stop))?;
        judge(&replayed, &mut report);
    }
    let facts = facts(&image, &report);
    if output.json {
        let image = facts.image.as_deref().unwrap_or_default();
        show::json(&Checked { image, facts: &facts, check: &report, replay: &replayed })?;
    } else {
        show_findings(&report, output);
        if !output.quiet {
            let n = report.findings.iter().filter(|f| f.severity == Severity::Error).count() as u64;
            let verdict = match n {
                0 => "it would run\n".to_owned(),
                n => format!("it would not run: {}\n", show::count(n, "error")),
            };
            show::text(&(facts_text(&report, &facts) + &replay::text(&replayed) + &verdict))?;
        }
    }
    if report.refused() { Ok(Exit::Unsound) } else { Ok(Exit::Done) }
}

/// Replays the lines with Apptainer, if it is installed and the image is a SIF; otherwise on the
/// image's files.
fn replay_all(image: &StoredImage, place: &PlaceArgs, stop: &Stop) -> Result<Vec<Replay>, Failure> {
    let (cache, tools) = (place.cache()?, tools());
    let replays = Replays { tools: &tools, temp: cache.folder()?, cancel: &stop.flag };
    let mut replayed = Vec::new();
    if let Form::Sif(_) = image.form {
        replayed = replays.of_sif(&image.path)?;
    }
    if replayed.is_empty() {
        replayed = replays.of_tree(&image.tree, image.arch, image.program.as_ref())?;
    }
    Ok(replayed)
}

/// An image that was written, its files in the cache.
pub(super) fn open(path: &Path, place: &PlaceArgs) -> Result<StoredImage, Failure> {
    Ok(StoredImage::open(path, &place.cache()?.store(), &place.limits())?)
}

/// A name with the digest of another file: caches would give out the wrong one.
fn misnamed(image: &StoredImage) -> Option<Finding> {
    let stem = image.path.file_stem()?.to_str()?;
    let (_, word) = stem.rsplit_once('-')?;
    let digest = image.digest?.hex();
    let is_digest = word.len() == 16 && word.bytes().all(|b| b.is_ascii_hexdigit());
    (matches!(image.form, Form::Sif(_)) && is_digest && !digest.starts_with(word)).then(|| {
        Finding {
            severity: Severity::Warning,
            rule: "file-hash",
            subject: stem.to_owned(),
            message: format!("its name has the digest {word}, but the file's digest is {digest}"),
            hint: Some(
                "rename the file if it was signed or changed: caches tell files apart by name"
                    .to_owned(),
            ),
        }
    })
}

/// Returns the facts of an image file.
pub(super) fn facts(image: &StoredImage, report: &CheckReport) -> ImageFacts {
    let name = image.path.file_name().unwrap_or_default().to_string_lossy();
    ImageFacts::of(report, image.arch).of_file(&name, image.bytes, image.digest)
}

/// Paths of this machine that no image should name.
pub(super) fn host_paths() -> Vec<String> {
    let env = Env::process();
    let home = env.get("HOME").filter(|home| home.len() > 1 && *home != "/root");
    home.map(str::to_owned).into_iter().collect()
}

/// Findings, on stderr: they are what to act on, and not the result.
pub(super) fn show_findings(report: &CheckReport, output: &Output) {
    for finding in &report.findings {
        let word = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note if output.quiet => continue,
            Severity::Note => "note",
        };
        let (subject, rule) = (&finding.subject, finding.rule);
        show::message(word, &format!("{subject}: {} [{rule}]", finding.message));
        if let Some(hint) = finding.hint.as_ref().filter(|_| !output.quiet) {
            show::message("hint", hint);
        }
    }
}

/// Describes what the image needs, with the table of GPUs.
pub(super) fn facts_text(report: &CheckReport, facts: &ImageFacts) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<18}{value}");
    };
    if let Some(glibc) = &facts.glibc {
        line("glibc", glibc);
    }
    if let Some(cuda) = &facts.cuda_runtime {
        line("CUDA", cuda);
    }
    if let Some(driver) = &facts.minimum_driver {
        line("driver from", driver);
    }
    for row in report.drivers.iter().rev().filter(|row| !row.runs) {
        let below = row.below.unwrap_or("the next");
        let instead = row.instead.map(|what| format!(": {what}")).unwrap_or_default();
        line("not with", &format!("drivers from {} to before {below}{instead}", row.from));
    }
    if !facts.capabilities.is_empty() {
        line("GPU code for", &facts.capabilities.join(" "));
    }
    if report.gpus.rows.is_empty() {
        return text;
    }
    let _ = writeln!(text, "\n{:<17}{:<6}{:<6}where", "GPU", "CC", "runs");
    for row in &report.gpus.rows {
        let runs = match row.runs {
            Runs::Yes => "yes",
            Runs::Jit => "slow",
            Runs::No => "no",
        };
        let _ =
            write!(text, "{:<17}{:<6}{runs:<6}{}", row.name, row.capability, row.sites.join(", "));
        if row.runs != Runs::Yes {
            let _ = write!(text, "\n{:>23}{}", "", row.why);
        }
        text.push('\n');
    }
    text
}
