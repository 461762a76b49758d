//! `gular image check`, and how its findings are shown.

use std::fmt::Write as _;
use std::path::Path;

use gular_containers::StoredImage;
use gular_containers::check::{Finding, Form, Report, Runs, Severity};
use gular_containers::export::Facts;
use gular_containers::oci::Compressor;
use gular_containers::replay::Replay;
use gular_containers::sif::Squash;
use gular_containers::store::Limits;
use gular_pelican::Env;
use serde::Serialize;

use super::args::{CheckArgs, FormatArg, PlaceArgs};
use super::places::Cache;
use super::replay;
use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show;
use crate::stop::Stop;

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct Checked<'a> {
    image: &'a str,
    facts: &'a Facts,
    check: &'a Report,
    replay: &'a [Replay],
}

pub(super) fn run(args: &CheckArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let image = open(&args.image, &args.place)?;
    let mut target = image.target();
    if !args.gpus.is_empty() {
        target.gpus.clone_from(&args.gpus);
    }
    target.apptainer = args.apptainer.unwrap_or(target.apptainer);
    let mut report = image.check(&target, &host_paths())?;
    report.findings.extend(misnamed(&image));
    let mut replayed = Vec::new();
    if args.replay {
        let cache = Cache::new(&args.place)?;
        if let Form::Sif(_) = image.form {
            replayed = replay::of_sif(&image.path, &cache, &stop)?;
        }
        if replayed.is_empty() {
            replayed =
                replay::of_tree(&image.tree, image.arch, image.program.as_ref(), &cache, &stop)?;
        }
        replay::judge(&replayed, &mut report);
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

/// An image that was written, its files in the cache.
pub(super) fn open(path: &Path, place: &PlaceArgs) -> Result<StoredImage, Failure> {
    let cache = Cache::new(place)?;
    Ok(StoredImage::open(path, &cache.store(), &limits(place))?)
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
            message: format!("its name says that its digest begins with {word}, it is {digest}"),
            hint: Some(
                "signed or changed files need another name: caches know them by it".to_owned(),
            ),
        }
    })
}

/// How much may be unpacked.
pub(super) fn limits(place: &PlaceArgs) -> Limits {
    Limits { bytes: place.max_unpacked, ..Limits::default() }
}

/// The facts of a file.
pub(super) fn facts(image: &StoredImage, report: &Report) -> Facts {
    let name = image.path.file_name().unwrap_or_default().to_string_lossy();
    Facts::of(report, image.arch).of_file(&name, image.bytes, image.digest)
}

/// What an image is that is to be written in these formats.
pub(super) fn form(formats: &[FormatArg], squash: Squash) -> Form {
    if formats.contains(&FormatArg::Sif) {
        return Form::Sif(Some(squash));
    }
    Form::Oci(Some(match squash {
        Squash::Gzip => Compressor::Gzip,
        Squash::Zstd => Compressor::Zstd,
    }))
}

/// Paths of this machine that no image should name.
pub(super) fn host_paths() -> Vec<String> {
    let env = Env::process();
    let home = env.get("HOME").filter(|home| home.len() > 1 && *home != "/root");
    home.map(str::to_owned).into_iter().collect()
}

/// Findings, on stderr: they are no result but what to do something about.
pub(super) fn show_findings(report: &Report, output: &Output) {
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

/// What the image needs, and the table of GPUs.
pub(super) fn facts_text(report: &Report, facts: &Facts) -> String {
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
    if !facts.capabilities.is_empty() {
        line("GPU code for", &facts.capabilities.join(" "));
    }
    if report.gpus.rows.is_empty() {
        return text;
    }
    let _ = writeln!(text, "\n{:<14}{:<6}{:<6}where", "GPU", "CC", "runs");
    for row in &report.gpus.rows {
        let runs = match row.runs {
            Runs::Yes => "yes",
            Runs::Jit => "slow",
            Runs::No => "no",
        };
        let _ =
            write!(text, "{:<14}{:<6}{runs:<6}{}", row.name, row.capability, row.sites.join(", "));
        if row.runs != Runs::Yes {
            let _ = write!(text, "\n{:>20}{}", "", row.why);
        }
        text.push('\n');
    }
    text
}
