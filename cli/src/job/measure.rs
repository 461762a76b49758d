//! `gular job measure`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use gular_jobs::measure::{Measured, Share, measure, options, requests};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::stop::Stop;
use crate::{show, units};

/// Run a command and suggest what its job should request
///
/// Measures the peak memory of the command and of all that it starts (shared memory counted once),
/// the memory of GPUs if there is nvidia-smi, the size of the files that it made or changed, and
/// its time. Run something short that is like the whole: two epochs, a hundred items.
///
/// The kernel sums the memory in a cgroup if this user may make one; otherwise it is read from
/// /proc. Memory that the kernel can drop, such as cached files, is not counted. The exit code is
/// the command's.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: that of COMMAND

Example:
  gular job measure --share 2/50 -- python3 train.py --epochs 2 --workers 4")]
pub(super) struct MeasureArgs {
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// The part of the work that COMMAND does: 2/50 means 2 of 50 epochs
    #[arg(long, value_name = "N/ALL", value_parser = share)]
    share: Option<Share>,
    /// The folder that COMMAND writes to
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

pub(super) fn run(args: &MeasureArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::new("no command was given", None));
    };
    let measured = measure(program, arguments, &args.dir, &stop.flag).map_err(|error| {
        let mut failure =
            Failure::new(format!("cannot run `{}`: {error}", program.display()), None);
        failure.exit =
            Exit::Command(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 });
        failure
    })?;
    let lines = requests(&measured, args.share);
    if output.json {
        let requests: serde_json::Map<String, serde_json::Value> =
            lines.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        show::json_line(&json!({ "measured": measured, "requests": requests }))?;
    } else {
        let mut text = words(&measured, &lines, args.share);
        let _ = writeln!(text, "\ngular job new … {}", options(&measured, args.share));
        show::text(&text)?;
    }
    Ok(Exit::Command(u8::try_from(measured.exit_code).unwrap_or(u8::MAX)))
}

fn words(measured: &Measured, lines: &[(&str, String)], share: Option<Share>) -> String {
    let cores = measured.cpu_seconds / measured.seconds.max(1e-3);
    let gpu = match measured.gpu_bytes {
        Some(bytes) => show::size(bytes),
        None => "not seen: there is no nvidia-smi".to_owned(),
    };
    let by = if measured.memory_by == "cgroup" { "cgroup" } else { "sum over processes" };
    let mut text = format!(
        "time    {:.1} s, {cores:.1} cores\nmemory  {} ({} of it shared; {by}; {})\ndisk    {}\nGPU     {gpu}\n",
        measured.seconds,
        show::size(measured.memory_bytes),
        show::size(measured.shared_bytes),
        match measured.processes {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        },
        show::size(measured.disk_bytes),
    );
    if let Some(share) = share {
        let whole = Duration::try_from_secs_f64(measured.seconds * share.of / share.done);
        let whole = whole.unwrap_or(Duration::MAX);
        let each = measured.seconds / share.done;
        let _ = writeln!(text, "whole   {}, {} times {each:.1} s", units::span(whole), share.of);
    }
    if measured.exit_code != 0 {
        let _ = writeln!(
            text,
            "the program ended with {}: the numbers are only those up to then",
            measured.exit_code
        );
    }
    text.push('\n');
    for (name, value) in lines {
        let _ = writeln!(text, "{name} = {value}");
    }
    text
}

/// Parses a share such as `2/50`.
fn share(text: &str) -> Result<Share, String> {
    let numbers =
        text.split_once('/').and_then(|(done, of)| Some((done.parse().ok()?, of.parse().ok()?)));
    match numbers {
        Some((done, of)) if done > 0.0 && of >= done && of < 1e15 => Ok(Share { done, of }),
        _ => Err(format!("`{text}` is not a share; expected for example 2/50")),
    }
}
