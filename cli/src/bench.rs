//! `gular bench`.

use std::sync::Mutex;

use gular_bench::{
    BenchOptions, CacheState, Error, Estimate, Kind, Order, Progress, bench, estimate,
};
use gular_bundle::Backend;
use indicatif::ProgressBar;

use crate::args::{BenchArgs, BenchOrderArg, BenchRows, CacheArg, KindArg, Output, ReaderArg};
use crate::exit::{Exit, Failure};
use crate::page::{self, Page};
use crate::payload::PayloadArg;
use crate::progress::{bytes_bar, steps_bar};
use crate::show;
use crate::stop::Stop;

pub(crate) fn run(args: &BenchArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let options = options(args);
    if let Some(path) = &args.html {
        page::check(path)?;
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
    let page = args.html.as_deref().map(Page::create).transpose()?;
    if !output.quiet && !output.json {
        show::message("note", &about(&plan));
    }
    let bar = Bar { shown: Mutex::default(), output };
    let result = bench(&args.src, &scratch, &options, &|p| bar.show(p), &stop.flag);
    bar.end();
    let report = result.map_err(ended)?;
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
        page.save(&gular_bench::page(&report))?;
    }
    Ok(Exit::Done)
}

fn options(args: &BenchArgs) -> BenchOptions {
    let cores = args.jobs.count();
    let mut options = match (&args.preset, args.quick, args.full) {
        (Some(_), ..) => BenchOptions::jsc_1_1(cores),
        (_, true, _) => BenchOptions::quick(cores),
        (_, _, true) => BenchOptions::full(cores),
        _ => BenchOptions::new(cores),
    };
    options.limit = args.limit.unwrap_or(options.limit);
    options.jobs = cores;
    rows(&mut options, &args.rows);
    options
}

/// What was asked for takes the place of what the preset has.
fn rows(options: &mut BenchOptions, rows: &BenchRows) {
    options.resize(rows.size.unwrap_or(options.size));
    list(&mut options.envelopes, &rows.envelope, |envelope| envelope);
    let size = options.size;
    list(&mut options.payloads, &rows.payload, |payload| match payload {
        PayloadArg::Encoded => BenchOptions::encoded(),
        PayloadArg::Reencoded => BenchOptions::reencoded(),
        PayloadArg::Raw => BenchOptions::raw(size),
    });
    list(&mut options.readers, &rows.reader, |reader| match reader {
        ReaderArg::Pread => Backend::Pread,
        ReaderArg::Map => Backend::Map,
    });
    list(&mut options.orders, &rows.order, |order| match order {
        BenchOrderArg::Shuffled => Order::Shuffled,
        BenchOrderArg::Sequential => Order::Sequential,
    });
    list(&mut options.threads, &rows.threads, usize::from);
    list(&mut options.caches, &rows.cache, |cache| match cache {
        CacheArg::Warm => CacheState::Warm,
        CacheArg::Cold => CacheState::Cold,
    });
    list(&mut options.kinds, &rows.kind, |kind| match kind {
        KindArg::Read => Kind::Read,
        KindArg::Load => Kind::Load,
    });
    options.baselines &= !rows.no_baselines;
    options.batch_size = rows.batch_size.map_or(options.batch_size, usize::from);
    options.rounds = rows.rounds.map_or(options.rounds, usize::from);
    options.seconds = rows.seconds.unwrap_or(options.seconds);
    options.whole_epochs &= rows.seconds.is_none();
}

/// Each once, in the order given.
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
        "{} of {}, {}; up to {} below `{}`, which has {} free, removed at the end; {}, about {}",
        data.samples,
        show::count(data.of_samples, "sample"),
        show::size(data.bytes),
        show::size(plan.needed),
        plan.scratch,
        show::size(plan.free),
        show::count(plan.rows as u64, "row"),
        time(plan.seconds),
    );
    if plan.needed > plan.memory_available {
        let memory = show::size(plan.memory_available);
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

/// One bar after the other.
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
                bar.set_message(format!("write {what}"));
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
