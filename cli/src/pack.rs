//! `gular pack`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Mutex;

use gular_bundle::Split;
use gular_pack::{
    Check, Error, Labels, Layout, OnError, PackOptions, PackOrder, PlanOptions, Progress, Report,
    SplitReport,
};
use indicatif::ProgressBar;

use crate::args::{CheckArg, LabelsArg, LayoutArg, OnErrorArg, OrderArg, Output, PackArgs};
use crate::exit::{Exit, Failure};
use crate::progress::{bytes_bar, counter};
use crate::stop::Stop;
use crate::{show, table};

pub(crate) fn run(args: &PackArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let options = options(args)?;
    let bars = Mutex::new((counter("scan", output), None::<ProgressBar>));
    let progress = |p: Progress| {
        let Ok(mut bars) = bars.lock() else { return };
        match p {
            Progress::Scanned(n) => bars.0.set_position(n),
            Progress::Planned(_, bytes) => {
                bars.0.finish_and_clear();
                bars.1 = (!args.dry_run).then(|| bytes_bar("pack", bytes, output));
            }
            Progress::Packed(_, bytes) => {
                if let Some(bar) = &bars.1 {
                    bar.inc(bytes);
                }
            }
        }
    };
    let result = gular_pack::pack(&args.src, &args.out, &options, &progress, &stop.flag);
    if let Ok(bars) = bars.lock() {
        bars.0.finish_and_clear();
        if let Some(bar) = &bars.1 {
            bar.finish_and_clear();
        }
    }
    match result {
        Ok(report) => {
            for warning in &report.warnings {
                show::message("warning", warning);
            }
            if output.json {
                show::json(&report)?;
            } else if !output.quiet {
                show::text(&table(&report, args))?;
            }
            Ok(Exit::Done)
        }
        Err(error) => {
            let cancelled = matches!(error, Error::Cancelled { .. });
            let mut failure = Failure::from(error);
            if let Some(exit) = stop.exit().filter(|_| cancelled) {
                failure.exit = exit;
            }
            Err(failure)
        }
    }
}

fn options(args: &PackArgs) -> Result<PackOptions, Failure> {
    let plan = PlanOptions {
        layout: match args.layout {
            LayoutArg::Auto => Layout::Auto,
            LayoutArg::Split => Layout::Split,
            LayoutArg::Class => Layout::Class,
        },
        labels: match args.labels {
            LabelsArg::Folder => Labels::Folder,
            LabelsArg::None => Labels::None,
        },
        classes: args.classes.clone(),
        fractions: args.split.as_ref().map(|f| f.0.clone()).unwrap_or_default(),
        order: match args.order {
            OrderArg::Shuffled => PackOrder::Shuffled,
            OrderArg::Sorted => PackOrder::Sorted,
        },
        seed: args.seed,
        shard_bytes: args.shard_size,
        envelope: args.envelope,
        payload: args.payload.options()?,
        check: match args.check {
            CheckArg::Header => Check::Header,
            CheckArg::Full => Check::Full,
            CheckArg::None => Check::None,
        },
        on_error: match args.on_error {
            OnErrorArg::Fail => OnError::Fail,
            OnErrorArg::Skip => OnError::Skip,
        },
        max_pixels: args.max_pixels,
        about: (&args.about).into(),
        memory: usize::try_from(args.memory).unwrap_or(usize::MAX),
    };
    let temp_dir = std::env::temp_dir();
    Ok(PackOptions { plan, jobs: args.jobs.count(), dry_run: args.dry_run, temp_dir })
}

fn table(report: &Report, args: &PackArgs) -> String {
    let mut text =
        format!("{:<8}{:>12}{:>12}{:>9}{:>9}\n", "split", "samples", "source", "shards", "classes");
    for (split, s) in &report.splits {
        let split = split.to_string();
        let (samples, bytes, shards, classes) =
            (s.samples, show::size(s.bytes), s.shards, s.classes.len());
        let _ = writeln!(text, "{split:<8}{samples:>12}{bytes:>12}{shards:>9}{classes:>9}");
    }
    if report.dry_run {
        text.push_str(&classes(report));
    }
    text.push('\n');
    if report.skipped > 0 {
        let _ = writeln!(
            text,
            "left out: {}, listed in `{}`",
            report.skipped,
            args.out.join(gular_pack::SKIPPED_NAME).display()
        );
    }
    if !report.ignored.is_empty() {
        let ignored: Vec<String> = report.ignored.iter().map(|(e, n)| format!("{n} {e}")).collect();
        let _ = writeln!(text, "no JPEG or PNG: {}", ignored.join(", "));
    }
    if report.resumed_shards > 0 {
        let _ = writeln!(
            text,
            "kept from an interrupted run: {}",
            show::count(report.resumed_shards, "shard")
        );
    }
    match &report.digest {
        None => {
            let _ = writeln!(
                text,
                "dry run: {} of {} in {}; nothing was written",
                show::count(report.samples, "sample"),
                show::size(report.bytes),
                show::count(report.shards, "shard")
            );
        }
        Some(digest) => {
            let rate = show::size((report.bytes as f64 / report.seconds.max(1e-9)) as u64);
            let _ = writeln!(
                text,
                "packed {}, {} in {}, {:.2} s, {rate}/s\n{digest}\nnext: gular verify {}",
                show::count(report.samples, "sample"),
                show::size(report.bytes),
                show::count(report.shards, "shard"),
                report.seconds,
                args.out.display()
            );
        }
    }
    text
}

/// What would become of the folders: a wrong layout shows itself here.
fn classes(report: &Report) -> String {
    let names: BTreeSet<&String> = report.splits.values().flat_map(|s| s.classes.keys()).collect();
    if names.is_empty() {
        return String::new();
    }
    let splits: Vec<Split> = report.splits.keys().copied().collect();
    let n_classes = names.len();
    let row = |name: &String| {
        let of_split = |s: &SplitReport| Some(s.classes.get(name).copied().unwrap_or(0));
        (name.clone(), report.splits.values().map(of_split).collect())
    };
    table::classes(&splits, n_classes, names.into_iter().map(row))
}
