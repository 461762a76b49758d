//! `gular job plan`.

use std::fmt::Write as _;

use clap::Args;
use gular_jobs::plan::{JobKind, JobPlan, Work, plan};

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::{show, units};

/// Cut a large computation into jobs
///
/// Computes from the number of items and what one item needs: items per job, jobs, hours of GPUs
/// and cores, bytes in and out, and whether many independent jobs are the right way at all.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  gular job plan --items 18e6 --item-in 1MB --item-out 4MB --gpu 5s --cpu 5min --model 8GB")]
pub(super) struct PlanArgs {
    /// How many items (such as images) are processed, such as 18e6
    #[arg(long, value_name = "N", value_parser = count, help_heading = "The work")]
    items: u64,
    /// Bytes read per item
    #[arg(long, value_name = "SIZE", value_parser = units::with_unit, help_heading = "The work")]
    item_in: Option<u64>,
    /// Bytes written per item
    #[arg(long, value_name = "SIZE", value_parser = units::with_unit, help_heading = "The work")]
    item_out: Option<u64>,
    /// GPU time that one item needs, such as 5s
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "The work")]
    gpu: Option<f64>,
    /// Core time that one item needs, such as 5min
    #[arg(long, value_name = "TIME", value_parser = seconds, help_heading = "The work")]
    cpu: Option<f64>,
    /// Bytes that each job reads once, such as a model's weights
    #[arg(long, value_name = "SIZE", value_parser = units::with_unit, help_heading = "The work")]
    model: Option<u64>,
    /// How long a job should run
    #[arg(long, value_name = "TIME", default_value = "4h", value_parser = seconds, help_heading = "One job")]
    hours: f64,
    /// Cores that one job may ask for
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u64).range(1..=4096), help_heading = "One job")]
    cores: u64,
    /// Disk that one job may ask for
    #[arg(long, value_name = "SIZE", default_value = "30GB", value_parser = units::with_unit, help_heading = "One job")]
    disk: u64,
    /// How fast one job reads from a cache
    #[arg(long, value_name = "RATE", default_value = "50MB/s", value_parser = rate, help_heading = "One job")]
    read_rate: u64,
}

pub(super) fn run(args: &PlanArgs, output: &Output) -> Result<Exit, Failure> {
    let (gpu_seconds, cpu_seconds) = (args.gpu.unwrap_or(0.0), args.cpu.unwrap_or(0.0));
    if gpu_seconds + cpu_seconds <= 0.0 {
        let hint = "give it with `--gpu` (on a GPU, such as 5s), `--cpu` (on one core, such as 5min) or both";
        return Err(Failure::new("the time that one item takes is missing", Some(hint.to_owned())));
    }
    let work = Work {
        items: args.items,
        in_bytes: args.item_in.unwrap_or(0),
        out_bytes: args.item_out.unwrap_or(0),
        gpu_seconds,
        cpu_seconds,
        model_bytes: args.model.unwrap_or(0),
        job_hours: args.hours / 3600.0,
        cores: args.cores,
        disk_bytes: args.disk,
        bytes_per_second: args.read_rate as f64,
    };
    let plan = plan(&work);
    if output.json {
        show::json(&plan)?;
    } else {
        show::text(&words(&plan))?;
    }
    Ok(Exit::Done)
}

fn words(plan: &JobPlan) -> String {
    let mut text = format!(
        "{:<6}{:>14}{:>12}{:>7}{:>6}{:>8}{:>11}{:>11}\n",
        "jobs", "items per job", "jobs", "cores", "GPUs", "hours", "disk", "transfers"
    );
    for job in &plan.jobs {
        let JobKind { kind, items_per_job, jobs, cores, gpus, hours, disk_bytes, transfer_share } =
            job;
        let disk = show::size(*disk_bytes);
        let share = format!("{:.0} %", transfer_share * 100.0);
        let _ = writeln!(
            text,
            "{kind:<6}{items_per_job:>14}{jobs:>12}{cores:>7}{gpus:>6}{hours:>8.1}{disk:>11}{share:>11}"
        );
    }
    let size = |bytes: f64| show::size(bytes as u64);
    let models = if plan.model_bytes > 0.0 {
        format!(", {} of it models", size(plan.model_bytes))
    } else {
        String::new()
    };
    let _ = write!(
        text,
        "\nGPU hours {:.0}, core hours {:.0}\nin {}{models}; out {}\n",
        plan.gpu_hours,
        plan.cpu_hours,
        size(plan.in_bytes),
        size(plan.out_bytes)
    );
    let verdict = if plan.throughput {
        "many independent jobs are the right way"
    } else {
        "many independent jobs are not the right way"
    };
    let _ = writeln!(text, "{verdict}");
    for note in &plan.notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

fn count(text: &str) -> Result<u64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (1.0..9e15).contains(&number) && number.fract() == 0.0 {
        Ok(number as u64)
    } else {
        Err(format!("`{text}` is not a whole number above 0"))
    }
}

/// Parses a rate such as `50MB/s`.
fn rate(text: &str) -> Result<u64, String> {
    units::with_unit(text.strip_suffix("/s").unwrap_or(text))
}

/// Parses a time such as `5s`, `5min`, `1.5h` or `2d`.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        "" => return Err(format!("`{text}` has no unit of time; write for example `{text}h`")),
        other => {
            return Err(format!("`{other}` is not a unit of time; expected ms, s, min, h or d"));
        }
    };
    let number: f64 = digits.trim().parse().map_err(|_| format!("`{text}` is not a time"))?;
    let seconds = number * unit;
    if (0.0..1e12).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("`{text}` is not a time"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_read() {
        assert_eq!(count("18e6"), Ok(18_000_000));
        assert_eq!(seconds("1.5h"), Ok(5400.0));
        assert_eq!(seconds("5min"), Ok(300.0));
        for bad in ["", "0", "1.5", "-1", "nan", "x"] {
            assert!(count(bad).is_err(), "{bad}");
        }
        for bad in ["", "5", "5y", "-1s", "nans", "infs"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
