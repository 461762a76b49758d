//! `gular image build`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gular_containers::assemble::Parts;
use gular_containers::blocks::BlockCache;
use gular_containers::check::{Report, size};
use gular_containers::export::Facts;
use gular_containers::lock::Lock;
use gular_containers::make::{self, Asked, Image, Output as Written, Places, Step, Writing};
use gular_containers::oci::{Compressor, LayerCache};
use gular_containers::replay::Replay;
use gular_containers::sif::Squash;
use serde::Serialize;

use super::args::{BuildArgs, CompressionArg, FormatArg};
use super::cargo::{self, Program};
use super::places::{Cache, Place};
use super::transport::Web;
use super::{check, lock, replay};
use crate::exit::{Exit, Failure};
use crate::network::ended;
use crate::progress::bytes_bar;
use crate::shared::Output;
use crate::show;
use crate::stop::Stop;

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct Built {
    dry_run: bool,
    /// Files and folders written; none when the image was refused.
    outputs: Vec<Written>,
    /// The list of what is inside, SPDX, beside each.
    sbom: Vec<PathBuf>,
    facts: Facts,
    check: Report,
    replay: Vec<Replay>,
    files: u64,
    seconds: f64,
}

pub(super) fn run(args: &BuildArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let start = Instant::now();
    let place = Place::open(&args.recipe)?;
    let web = Web::new(&stop)?;
    let lock = locked(args, &place, &web, output, &stop)?;
    let program = program(args, &place, output)?;
    let image = assembled(args, &place, &lock, program.as_ref(), &web, output, &stop)?;
    for library in image.brought.iter().filter(|_| !output.quiet) {
        let library = library.display();
        show::message(
            "note",
            &format!("`{library}` of this machine goes in: the program names its folder"),
        );
    }
    let mut built = Built {
        dry_run: args.dry_run,
        outputs: Vec::new(),
        sbom: Vec::new(),
        facts: image.facts.clone(),
        files: image.files(),
        check: image.report.clone(),
        replay: Vec::new(),
        seconds: 0.0,
    };
    if !built.check.refused() {
        let cache = Cache::new(&args.place)?;
        built.replay =
            replay::of_tree(&image.tree, image.arch, image.program.as_ref(), &cache, &stop)?;
        replay::judge(&built.replay, &mut built.check);
    }
    if !args.dry_run && (!built.check.refused() || args.force) {
        write(args, &image, output, &stop, &mut built)?;
    }
    built.seconds = start.elapsed().as_secs_f64();
    if output.json {
        show::json(&built)?;
    } else {
        check::show_findings(&built.check, output);
        if !output.quiet {
            show::text(&words(&built))?;
        }
    }
    if built.check.refused() && !args.force { Ok(Exit::Unsound) } else { Ok(Exit::Done) }
}

/// The lock beside the recipe; made when there is none, made again when the
/// recipe changed.
fn locked(
    args: &BuildArgs,
    place: &Place,
    web: &Web<'_>,
    output: &Output,
    stop: &Stop,
) -> Result<Lock, Failure> {
    let shown = place.lock_path.display().to_string();
    let why = match place.lock()? {
        Some(lock) => match lock.check(&place.recipe, &shown) {
            Ok(()) => return Ok(lock),
            Err(error) if args.locked => return Err(error.into()),
            Err(_) => "the recipe changed",
        },
        None if args.locked => {
            let hint = "make it: `gular image lock`";
            return Err(Failure::new(format!("there is no `{shown}`"), Some(hint.to_owned())));
        }
        None => "there was none",
    };
    let lock = lock::resolve(place, &args.sources, &args.place, web, output, stop)?;
    if !args.dry_run {
        lock::write(place, &lock.to_text())?;
        if !output.quiet {
            show::message("note", &format!("wrote `{shown}`: {why}"));
        }
    }
    Ok(lock)
}

fn program(args: &BuildArgs, place: &Place, output: &Output) -> Result<Option<Program>, Failure> {
    if let Some(path) = &args.program {
        return Ok(Some(Program { path: path.clone(), cargo_lock: None }));
    }
    match &place.recipe.app {
        Some(app) => cargo::program(app, &place.dir, args.place.offline, output.quiet),
        None => Ok(None),
    }
}

/// Fetches, unpacks and lays all together.
fn assembled(
    args: &BuildArgs,
    place: &Place,
    lock: &Lock,
    program: Option<&Program>,
    web: &Web<'_>,
    output: &Output,
    stop: &Stop,
) -> Result<Image, Failure> {
    if let Some(dir) = args.vendor.iter().find(|dir| !dir.is_dir()) {
        let hint = "fill it: `gular image lock --vendor DIR`";
        let message = format!("there is no folder `{}`", dir.display());
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let cache = Cache::new(&args.place)?;
    let archives = cache.archives(&args.vendor, args.place.offline);
    let (store, limits) = (cache.store(), check::limits(&args.place));
    let places = Places { dir: &place.dir, archives: &archives, store: &store, limits: &limits };
    let bar = bytes_bar("fetch", 0, output);
    let told = |step: Step, done: u64, total: u64| {
        bar.set_message(match step {
            Step::Fetch => "fetch",
            Step::Unpack => "unpack",
        });
        bar.set_length(total);
        bar.set_position(done);
    };
    let unpacked = make::unpack(lock, &places, web, &told, &stop.flag);
    bar.finish_and_clear();
    let unpacked = unpacked.map_err(|error| ended(error, stop))?;
    let (base, wheels) = unpacked.into_parts();
    let parts = Parts {
        recipe: &place.recipe,
        base,
        wheels,
        program: program.map(|program| program.path.as_path()),
        dir: &place.dir,
    };
    let cargo_lock = program.and_then(|program| program.cargo_lock.as_deref());
    let host_paths = check::host_paths();
    let asked = Asked { form: check::form(&formats(args), squash(args)), host_paths: &host_paths };
    Ok(make::image(&parts, lock, &place.text, cargo_lock, &asked)?)
}

fn write(
    args: &BuildArgs,
    image: &Image,
    output: &Output,
    stop: &Stop,
    built: &mut Built,
) -> Result<(), Failure> {
    let cache = Cache::new(&args.place)?;
    let blocks = BlockCache::new(&cache.blocks(), args.cache_size);
    let layers = LayerCache::new(&cache.layers(), args.cache_size);
    let formats = formats(args);
    let total = image.bytes() * formats.len() as u64;
    for (n, format) in formats.iter().enumerate() {
        let bar = bytes_bar("write", total, output);
        let before = image.bytes() * n as u64;
        let told = |done: u64| bar.set_position(before + done);
        let with = Writing {
            dir: &args.out,
            squash: squash(args),
            compressor: match args.compression {
                CompressionArg::Gzip => Compressor::Gzip,
                CompressionArg::Zstd => Compressor::Zstd,
            },
            threads: threads(args),
            blocks: Some(&blocks),
            layers: Some(&layers),
            progress: &told,
            cancel: &stop.flag,
        };
        let written = match format {
            FormatArg::Sif => image.write_sif(&with),
            FormatArg::Oci => image.write_oci(&with),
            FormatArg::OciArchive => image.write_archive(&with),
        };
        bar.finish_and_clear();
        let written = written.map_err(|error| ended(error, stop))?;
        if let Some(why) = written.not_cached.as_ref().filter(|_| !output.quiet) {
            show::message("note", &format!("the next build will compress all again: {why}"));
        }
        built.outputs.push(written);
    }
    for output in &built.outputs {
        let name = output.path.display().to_string();
        built.check.findings.extend(size(&name, output.bytes));
    }
    for output in built.outputs.iter().filter(|output| output.format == "sif") {
        let replayed = replay::of_sif(&output.path, &cache, stop)?;
        replay::judge(&replayed, &mut built.check);
        built.replay.extend(replayed);
    }
    if built.check.refused() && !args.force {
        // What was there before stays: it has this name, and was not made now.
        for output in built.outputs.drain(..).filter(|output| !output.was_there) {
            remove(&output.path)?;
        }
    }
    for written in &built.outputs {
        built.sbom.push(image.write_sbom(written)?);
    }
    if let Some(first) = built.outputs.first() {
        let name = first.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        built.facts = image.facts.clone().of_file(&name, first.bytes, Some(first.digest));
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), Failure> {
    let removed =
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    removed.map_err(|e| Failure::new(format!("cannot remove `{}`: {e}", path.display()), None))
}

fn formats(args: &BuildArgs) -> Vec<FormatArg> {
    let mut formats = Vec::new();
    for format in &args.format {
        if !formats.contains(format) {
            formats.push(*format);
        }
    }
    formats
}

fn squash(args: &BuildArgs) -> Squash {
    match args.compression {
        CompressionArg::Gzip => Squash::Gzip,
        CompressionArg::Zstd => Squash::Zstd,
    }
}

fn threads(args: &BuildArgs) -> NonZeroUsize {
    let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    args.jobs.unwrap_or_else(all)
}

fn words(built: &Built) -> String {
    let mut text = String::new();
    let what = format!(
        "{} in {}",
        show::size(built.facts.unpacked_bytes),
        show::count(built.files, "file")
    );
    if built.check.refused() && built.outputs.is_empty() {
        return format!("refused: {what}; no image was written\n");
    }
    if built.dry_run {
        text.push_str(&format!("dry run: {what}; no image was written\n"));
    }
    if built.check.refused() && !built.outputs.is_empty() {
        text.push_str("written in spite of the errors above, by --force\n");
    }
    for output in &built.outputs {
        let (path, size) = (output.path.display(), show::size(output.bytes));
        let how = if output.was_there { "was there already" } else { "written" };
        text.push_str(&format!("{path}: {size} {how} (from {what})\n{}\n", output.digest));
    }
    for sbom in &built.sbom {
        text.push_str(&format!("{}: what is inside (SPDX)\n", sbom.display()));
    }
    text.push_str(&check::facts_text(&built.check, &built.facts));
    text.push_str(&replay::text(&built.replay));
    text.push_str(&format!("{:.1} s\n", built.seconds));
    text
}
