//! `gular convert` and `gular export`.

use std::path::PathBuf;
use std::sync::Mutex;

use clap::Args;
use gular_bundle::{Bundle, Envelope, OpenOptions};
use gular_pack::{ConvertOptions, Error, ExportOptions, Progress, RunError, ShardError, Target};
use indicatif::ProgressBar;

use crate::duplicates::{self, DuplicatesArgs, With};
use crate::exit::{Exit, Failure};
use crate::progress::bytes_bar;
use crate::shared::{Jobs, Output};
use crate::stop::Stop;
use crate::{show, units};

/// Rewrite a bundle in another envelope (file format), or as plain files
///
/// Samples, their order, shards and splits stay the same, and each sample is compared with its
/// digest, so converting back gives the first bundle with the same digest. `directory` writes
/// OUT/split/key (OUT/key if all keys begin with their split) and OUT/split/samples.tsv. If
/// interrupted, run the same command again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular convert bundle/ bundle-hf/ --envelope arrow")]
pub(crate) struct ConvertArgs {
    /// The bundle's folder
    pub(crate) bundle: PathBuf,
    /// The new folder
    ///
    /// It must be new or empty, or hold the same conversion, interrupted or finished.
    pub(crate) out: PathBuf,
    /// shards, arrow, parquet, hdf5, tar, squashfs, or directory
    #[arg(long, value_name = "FORMAT", value_parser = convert_to)]
    pub(crate) envelope: ConvertTo,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// Only show what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) duplicates: DuplicatesArgs,
}

/// Parsed `--envelope` of `gular convert`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ConvertTo {
    Bundle(Envelope),
    Directory,
}

/// Write a bundle as one file, or its metadata (Croissant) for dataset search
///
/// --tar-zst: a zstd-compressed tar of the bundle's folder, which `tar` or any other unpacker
/// restores. --croissant: a description in MLCommons' Croissant format. Every byte is checked on
/// the way. To give samples to other tools, use `gular convert`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  gular export bundle/ --tar-zst bundle.tar.zst\n  gular export bundle/ --croissant croissant.json"
)]
pub(crate) struct ExportArgs {
    /// The bundle's folder
    pub(crate) bundle: PathBuf,
    /// The new file
    ///
    /// If it holds this bundle already, nothing is done.
    #[arg(long, value_name = "FILE", required_unless_present = "croissant")]
    pub(crate) tar_zst: Option<PathBuf>,
    /// Write a Croissant description of the bundle
    ///
    /// It has name, licence, files, splits and classes.
    /// It takes name, description, licence, citation and source from the manifest (`gular pack
    /// --about`), and needs the SHA-256 of every file. An earlier one is replaced.
    #[arg(long, value_name = "JSON", conflicts_with_all = ["tar_zst", "level"])]
    pub(crate) croissant: Option<PathBuf>,
    /// Croissant: the URL of the folder that holds the published manifest.json
    ///
    /// The data is in the folder `data` beside that folder, where `gular publish` puts it.
    /// [default: the description is in the bundle's folder]
    #[arg(long, value_name = "URL", requires = "croissant", hide_short_help = true)]
    pub(crate) url: Option<String>,
    /// The zstd level, 1 to 19; higher levels hardly save space
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=19))]
    pub(crate) level: i32,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// Only show what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) fn run(args: &ConvertArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let target = match args.envelope {
        ConvertTo::Bundle(envelope) => Target::Bundle(envelope),
        ConvertTo::Directory => Target::Directory,
    };
    let options = ConvertOptions { target, jobs: args.jobs.count(), dry_run: args.dry_run };
    let result = with_bar("convert", output, |progress| {
        gular_pack::convert(&args.bundle, &args.out, &options, progress, &stop.flag)
    });
    let report = result.map_err(|e| stopped(e, &stop))?;
    let found = match report.dry_run {
        true => None,
        // Duplicates are searched in the source, which has the same samples as the result.
        false => Some(args.duplicates.find_in(&args.bundle, &stop)?),
    };
    if output.json {
        show::json(&With { report: &report, duplicates: found.as_ref() })?;
        return Ok(Exit::Done);
    }
    if output.quiet {
        return Ok(Exit::Done);
    }
    let (samples, shards) =
        (show::count(report.samples, "sample"), show::count(report.shards, "shard"));
    let size = show::size(report.bytes);
    let mut text = if report.dry_run {
        format!("dry run: {samples}, {size} in {shards}; nothing was written\n")
    } else if report.already_done {
        format!("nothing to do: {samples} were converted before\n")
    } else {
        let rate = show::size((report.bytes as f64 / report.seconds.max(1e-9)) as u64);
        format!("converted {samples}, {size}, {:.2} s, {rate}/s\n", report.seconds)
    };
    if report.resumed_shards > 0 {
        let kept = show::count(report.resumed_shards, "shard");
        text.push_str(&format!("kept from an interrupted run: {kept}\n"));
    }
    if !report.dry_run && !report.already_done {
        text.push_str("every sample has the digest it had\n");
    }
    if let Some(digest) = &report.digest {
        let out = show::quoted(&args.out.display().to_string());
        text.push_str(&format!("{digest}\nnext: gular verify {out}\n"));
    }
    text.push_str(&found.map(|found| duplicates::text(&found)).unwrap_or_default());
    show::text(&text)?;
    Ok(Exit::Done)
}

pub(crate) fn export(args: &ExportArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let Some(tar_zst) = &args.tar_zst else { return describe(args, output, &stop) };
    let options =
        ExportOptions { level: args.level, jobs: args.jobs.count(), dry_run: args.dry_run };
    let result = with_bar("export", output, |progress| {
        gular_pack::export(&args.bundle, tar_zst, &options, progress, &stop.flag)
    });
    let report = result.map_err(|e| stopped(e, &stop))?;
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        let (files, size) = (show::count(report.files, "file"), show::size(report.bytes));
        let to = tar_zst.display();
        show::text(&match report.written {
            None => format!("dry run: {files}, {size} before compression; nothing was written\n"),
            Some(written) if report.already_done => format!(
                "nothing to do: {to} ({}) holds this bundle\n{}\n",
                show::size(written),
                report.digest
            ),
            Some(written) => format!(
                "exported {files}, {size} to {}, {:.2} s\n{}\nnext: mkdir bundle && tar --zstd -xf {to} -C bundle && gular verify bundle\n",
                show::size(written),
                report.seconds,
                report.digest
            ),
        })?;
    }
    Ok(Exit::Done)
}

/// Writes the description that was asked for.
fn describe(args: &ExportArgs, output: &Output, stop: &Stop) -> Result<Exit, Failure> {
    let Some(to) = args.croissant.as_ref().filter(|_| !args.dry_run) else {
        let manifest = Bundle::open(&args.bundle, OpenOptions::default())?.manifest().clone();
        let n = manifest.files().count() as u64 + 1;
        let text =
            format!("dry run: {} to describe; nothing was written\n", show::count(n, "file"));
        let value = serde_json::json!({"dry_run": true, "files": n});
        show::value(&value, if output.quiet { "" } else { &text }, output)?;
        return Ok(Exit::Done);
    };
    let result = with_bar("export", output, |progress| {
        gular_pack::croissant(&args.bundle, args.url.as_deref(), progress, &stop.flag)
    });
    let description = result.map_err(|e| stopped(e, stop))?;
    let n_files = description["distribution"].as_array().map_or(0, Vec::len) as u64;
    gular_files::write_file(to, format!("{description:#}\n").as_bytes())?;
    let (files, shown) = (show::count(n_files, "file"), to.display());
    let mut text = format!("described {files} in {shown}\n");
    if description.get("license").is_none() {
        text.push_str("the manifest has no licence: see `gular pack --about`\n");
    }
    let value = serde_json::json!({"dry_run": false, "files": n_files, "written": to});
    show::value(&value, if output.quiet { "" } else { &text }, output)?;
    Ok(Exit::Done)
}

/// Runs `work` with a bar over bytes.
pub(crate) fn with_bar<T>(
    what: &'static str,
    output: &Output,
    work: impl FnOnce(&(dyn Fn(Progress) + Sync)) -> T,
) -> T {
    let bar = Mutex::new(None::<ProgressBar>);
    let result = work(&|p| {
        let Ok(mut bar) = bar.lock() else { return };
        match p {
            Progress::Planned(_, bytes) => *bar = Some(bytes_bar(what, bytes, output)),
            Progress::Packed(_, bytes) => {
                if let Some(bar) = &*bar {
                    bar.inc(bytes);
                }
            }
            Progress::Scanned(_)
            | Progress::Read(_)
            | Progress::ToCompare(_)
            | Progress::Compared(_) => {}
        }
    });
    if let Ok(bar) = bar.lock()
        && let Some(bar) = &*bar
    {
        bar.finish_and_clear();
    }
    result
}

/// The exit code of a run that a signal ended is that signal's.
pub(crate) fn stopped(error: Error, stop: &Stop) -> Failure {
    let cancelled = matches!(
        error,
        Error::Run(RunError::Cancelled) | Error::Shard(ShardError::Unfinished { .. })
    );
    let mut failure = Failure::from(error);
    if let Some(exit) = stop.exit().filter(|_| cancelled) {
        failure.exit = exit;
    }
    failure
}

fn convert_to(text: &str) -> Result<ConvertTo, String> {
    match text {
        "directory" => Ok(ConvertTo::Directory),
        _ => units::envelope(text).map(ConvertTo::Bundle).map_err(|e| e + ", directory"),
    }
}
