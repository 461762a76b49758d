//! `gular bench`.

mod next;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;

use clap::Args;
use gular_bench::{
    BenchOptions, CacheState, Error, Estimate, Progress, ReadOrder, RowKind, bench, estimate,
};
use gular_bundle::{Backend, Envelope, Payload};
use indicatif::ProgressBar;

use crate::exit::{Exit, Failure};
use crate::html_page::{self, HtmlPage};
use crate::named::named;
use crate::progress::{bytes_bar, steps_bar};
use crate::shared::{Jobs, Output};
use crate::stop::Stop;
use crate::{show, units};

/// Measure which envelope, payload and settings suit your data, and advise
///
/// SRC is a folder of images or a bundle. The same samples are written in every envelope, and as
/// plain files, to a new folder below --scratch, which is removed at the end. Rows are all
/// combinations of envelope, payload, reader, order, threads and page cache; each round runs every
/// row once, so that other work on the machine affects all rows alike. For comparison: plain files,
/// and a hand-written loop that reads every byte. Batches (--kind load) are decoded, cropped and
/// resized as in a training run.
///
/// Cold: the row's files are written back and given to posix_fadvise(DONTNEED) before each
/// repetition. This needs no root; what a disk or file server caches stays cached.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Run",
    after_help = "Example:\n  gular bench photos/ --quick --html bench.html"
)]
pub(crate) struct BenchArgs {
    /// A folder of images, or a bundle
    #[arg(help_heading = None)]
    pub(crate) src: PathBuf,
    /// Start from a named set of options: `jsc-1.1`
    ///
    /// `jsc-1.1` is exercise 1.1 of JSC's course on data loading, which compares file formats by
    /// whole epochs: samples of equal or different length, read through a memory map or not,
    /// shuffled or not, cold and warm.
    #[arg(long, value_name = "NAME", value_parser = ["jsc-1.1"], group = "start")]
    pub(crate) preset: Option<String>,
    /// Take about a minute: 100 MB, shuffled, warm page cache, all threads
    #[arg(long, group = "start")]
    pub(crate) quick: bool,
    /// All payloads; 1, 2, 4, … threads; each setting five times, for 1 s each
    #[arg(long, group = "start")]
    pub(crate) full: bool,
    /// Write the measurements, plots and advice as one HTML page
    ///
    /// The page needs no network. It replaces an earlier page, and no other file.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The folder for temporary bundles [default: TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Bytes of images to use, spread over all of SRC [default: 1GB]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    pub(crate) limit_bytes: Option<u64>,
    /// Only show what would be written where, and how long it would take
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) rows: BenchRows,
}

/// Which combinations are measured, and how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "What to measure: each combination is a row")]
pub(crate) struct BenchRows {
    /// Envelopes, such as `shards,tar` [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = units::envelope)]
    pub(crate) envelope: Vec<Envelope>,
    /// `encoded`, `reencoded` (JPEG), `raw` (pixels) [default: encoded]
    ///
    /// `reencoded` has long side 512 and quality 90, `raw` has pixels of --crop.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = named::<Payload>(),
        hide_possible_values = true
    )]
    pub(crate) payload: Vec<Payload>,
    /// `pread`, `map` [default: both]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = named::<Backend>(),
        hide_possible_values = true
    )]
    pub(crate) reader: Vec<Backend>,
    /// `shuffled`, `sequential` [default: both]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = named::<ReadOrder>(),
        hide_possible_values = true
    )]
    pub(crate) order: Vec<ReadOrder>,
    /// Numbers of threads, such as `1,2,8` [default: 1 and all cores]
    ///
    /// Bundles are written with the largest of them.
    #[arg(long, short, value_name = "LIST", value_delimiter = ',', value_parser = units::jobs)]
    pub(crate) jobs: Vec<NonZeroUsize>,
    /// `warm`, `cold` [default: both]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = named::<CacheState>(),
        hide_possible_values = true
    )]
    pub(crate) page_cache: Vec<CacheState>,
    /// `read` (bytes), `load` (batches of decoded pictures) [default: both]
    ///
    /// Batches are measured with the first reader and order.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = named::<RowKind>(),
        hide_possible_values = true
    )]
    pub(crate) kind: Vec<RowKind>,
    /// Leave out plain files and hand-written loops
    #[arg(long)]
    pub(crate) no_baselines: bool,
    /// Side of decoded pictures, in pixels [default: 224]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) crop: Option<u32>,
    /// Samples per batch [default: 64]
    #[arg(long, value_name = "N", value_parser = units::count)]
    pub(crate) batch_size: Option<NonZeroUsize>,
    /// Repetitions of each row [default: 3]
    #[arg(long, value_name = "N", value_parser = units::count)]
    pub(crate) rounds: Option<NonZeroUsize>,
    /// Maximum length of a repetition [default: 0.5]
    ///
    /// A cold one stops after one epoch.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
}

impl BenchRows {
    /// The largest number of threads asked for, else one for each core.
    fn most_jobs(&self) -> usize {
        self.jobs.iter().max().map_or_else(|| Jobs::default().count(), |n| n.get())
    }
}

pub(crate) fn run(args: &BenchArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let options = options(args);
    if let Some(path) = &args.html {
        html_page::check(path)?;
    }
    let scratch = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let ended = |error| stopped(error, &stop);
    let plan = estimate(&args.src, &scratch, &options, &stop.flag).map_err(ended)?;
    if args.dry_run {
        if output.json {
            show::json(&plan)?;
        } else if !output.quiet {
            show::text(&planned(&plan))?;
        }
        return Ok(Exit::Done);
    }
    let page = args.html.as_deref().map(HtmlPage::create).transpose()?;
    if !output.quiet && !output.json {
        show::message("note", &about(&plan));
    }
    let bar = Bar { shown: Mutex::default(), output };
    let result = bench(&args.src, &scratch, &options, &|p| bar.show(p), &stop.flag);
    bar.end();
    let mut report = result.map_err(ended)?;
    next::add(&mut report);
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&gular_bench::table(&report))?;
        for note in &report.notes {
            show::message("note", note);
        }
        show::text(&format!("\n{}", gular_bench::advice(&report)))?;
    }
    // Last: the figures were shown, whatever becomes of the page.
    if let Some(page) = page {
        page.save(&gular_bench::page(&report).html())?;
    }
    Ok(Exit::Done)
}

fn options(args: &BenchArgs) -> BenchOptions {
    let jobs = args.rows.most_jobs();
    let mut options = match (&args.preset, args.quick, args.full) {
        (Some(_), ..) => BenchOptions::jsc_1_1(jobs),
        (_, true, _) => BenchOptions::quick(jobs),
        (_, _, true) => BenchOptions::full(jobs),
        _ => BenchOptions::new(jobs),
    };
    options.limit_bytes = args.limit_bytes.unwrap_or(options.limit_bytes);
    options.jobs = jobs;
    rows(&mut options, &args.rows);
    options
}

/// Sets the options that the command line names; the preset gives the others.
fn rows(options: &mut BenchOptions, rows: &BenchRows) {
    options.resize(rows.crop.unwrap_or(options.size));
    list(&mut options.envelopes, &rows.envelope, |envelope| envelope);
    let size = options.size;
    list(&mut options.payloads, &rows.payload, |payload| match payload {
        Payload::Encoded => BenchOptions::encoded(),
        Payload::Reencoded => BenchOptions::reencoded(),
        Payload::Raw => BenchOptions::raw(size),
    });
    list(&mut options.readers, &rows.reader, |reader| reader);
    list(&mut options.orders, &rows.order, |order| order);
    list(&mut options.threads, &rows.jobs, usize::from);
    list(&mut options.caches, &rows.page_cache, |cache| cache);
    list(&mut options.kinds, &rows.kind, |kind| kind);
    options.baselines &= !rows.no_baselines;
    options.batch_size = rows.batch_size.map_or(options.batch_size, usize::from);
    options.rounds = rows.rounds.map_or(options.rounds, usize::from);
    options.seconds = rows.seconds.unwrap_or(options.seconds);
    options.whole_epochs &= rows.seconds.is_none();
}

/// Sets `into` to the given values, each once, in their order.
fn list<A: Copy, T: PartialEq>(into: &mut Vec<T>, given: &[A], made: impl Fn(A) -> T) {
    if given.is_empty() {
        return;
    }
    into.clear();
    for &one in given {
        let one = made(one);
        if !into.contains(&one) {
            into.push(one);
        }
    }
}

fn planned(plan: &Estimate) -> String {
    let mut text = String::new();
    for (what, bytes) in &plan.files {
        text.push_str(&format!("{what:<24}{:>12}\n", show::size(*bytes)));
    }
    text.push_str(&format!("dry run: {}; nothing was written\n", about(plan)));
    text
}

fn about(plan: &Estimate) -> String {
    let data = &plan.data;
    let mut text = format!(
        "{} of {}, {}; writes up to {} below `{}` ({} free) and removes it at the end; {}, about {}",
        data.samples,
        show::count(data.of_samples, "sample"),
        show::size(data.bytes),
        show::size(plan.needed_bytes),
        plan.scratch,
        show::size(plan.free_bytes),
        show::count(plan.rows as u64, "row"),
        time(plan.seconds),
    );
    if plan.needed_bytes > plan.available_memory_bytes {
        let memory = show::size(plan.available_memory_bytes);
        text.push_str(&format!(
            "; {memory} of memory cannot hold all of it, so warm rows are filled again each time"
        ));
    }
    text
}

fn time(seconds: f64) -> String {
    if seconds < 90.0 {
        format!("{:.0} s", seconds.max(1.0))
    } else {
        format!("{:.0} min", seconds / 60.0)
    }
}

fn stopped(error: Error, stop: &Stop) -> Failure {
    let cancelled = matches!(error, Error::Cancelled);
    let mut failure = Failure::from(error);
    if let Some(exit) = stop.exit().filter(|_| cancelled) {
        failure.exit = exit;
    }
    failure
}

/// Shows one bar for each phase, one after the other.
struct Bar<'a> {
    shown: Mutex<Option<(&'static str, ProgressBar)>>,
    output: &'a Output,
}

impl Bar<'_> {
    fn show(&self, progress: Progress<'_>) {
        let (phase, done, total) = match progress {
            Progress::Preparing(_, done, total) => ("write", done, total),
            Progress::Proving(done, total) => ("prove", done as u64, total as u64),
            Progress::Measuring(done, total) => ("measure", done as u64, total as u64),
        };
        let Ok(mut shown) = self.shown.lock() else { return };
        if shown.as_ref().is_none_or(|(old, _)| *old != phase) {
            if let Some((_, old)) = shown.take() {
                old.finish_and_clear();
            }
            let bar = match progress {
                Progress::Preparing(..) => bytes_bar(phase, total, self.output),
                _ => steps_bar(phase, total, self.output),
            };
            *shown = Some((phase, bar));
        }
        if let Some((_, bar)) = shown.as_ref() {
            if let Progress::Preparing(what, ..) = progress {
                bar.set_message(show::masked(&format!("write {what}")));
            }
            bar.set_position(done.min(total));
        }
    }

    fn end(&self) {
        if let Ok(mut shown) = self.shown.lock()
            && let Some((_, bar)) = shown.take()
        {
            bar.finish_and_clear();
        }
    }
}
