//! `gular verify`.

use std::fmt::Write as _;

use gular_verify::{Error, Fault, Mode, Report, VerifyOptions};

use crate::args::{Output, VerifyArgs};
use crate::exit::{Exit, Failure};
use crate::pack::cores;
use crate::progress::bytes_bar;
use crate::show;
use crate::stop::Stop;

pub(crate) fn run(args: &VerifyArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let mode = match args.sample {
        Some(fraction) => Mode::Sample { fraction, seed: args.seed },
        None if args.quick => Mode::Quick,
        // `--full` says what is the default.
        None => Mode::Full,
    };
    let jobs = args.jobs.unwrap_or_else(cores);
    let options = VerifyOptions { mode, jobs, digest: args.digest, ..VerifyOptions::default() };
    let bar = bytes_bar("verify", 0, output);
    let progress = |done: u64, total: u64| {
        bar.set_length(total.max(done));
        bar.set_position(done);
    };
    let result = gular_verify::verify(&args.dir, &options, &progress, &stop.flag);
    bar.finish_and_clear();
    let report = result.map_err(|error| {
        let cancelled = matches!(error, Error::Cancelled { .. });
        let mut failure = Failure::new(&error, error.hint().map(str::to_owned));
        if let Some(exit) = stop.exit().filter(|_| cancelled) {
            failure.exit = exit;
        }
        failure
    })?;
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::stdout(&text(&report))?;
    }
    Ok(if report.sound { Exit::Done } else { Exit::Unsound })
}

fn text(report: &Report) -> String {
    let mut text = format!("bundle {}\n", report.digest);
    for fault in &report.faults {
        fault_text(&mut text, fault);
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let read = match report.mode {
        "full" => "every byte".to_owned(),
        "quick" => "manifest and indexes, no samples".to_owned(),
        _ => format!("manifest, indexes and {} samples", report.samples_checked),
    };
    let rate = show::size((report.bytes_read as f64 / report.seconds.max(1e-9)) as u64);
    let verdict = if report.sound {
        "sound".to_owned()
    } else {
        format!("NOT SOUND: {} faults", report.faults.len())
    };
    let _ = writeln!(
        text,
        "{verdict} ({read}): {} samples in {} shards, {}, {:.2} s, {rate}/s",
        report.samples,
        report.shards,
        show::size(report.bytes),
        report.seconds
    );
    text
}

/// Ranges listed for one fault as text; JSON has all.
const RANGES_SHOWN: usize = 8;

fn fault_text(text: &mut String, fault: &Fault) {
    let _ = writeln!(text, "fault: `{}` {}", fault.file, fault.message);
    if !fault.ranges.is_empty() {
        let ranges: Vec<String> = fault
            .ranges
            .iter()
            .take(RANGES_SHOWN)
            .map(|r| format!("{}..{}", r.start, r.end))
            .collect();
        let more = fault.ranges.len().saturating_sub(RANGES_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(text, "  bytes {}{more}", ranges.join(", "));
    }
    for key in &fault.keys {
        let _ = writeln!(text, "  sample {key}");
    }
    let more = fault.n_keys.saturating_sub(fault.keys.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more samples");
    }
    let _ = writeln!(text, "  do: {}", fault.advice);
}
