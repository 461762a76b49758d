//! `scaling`: runs the same training with 1, 2, 4 … processes on this machine, and shows what each
//! adds.
//!
//! Each process is this program's `train`, which gets its rank in the way of torchrun. The time of
//! each step is read from the `metrics.jsonl` that rank 0 writes.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use gular_plot::{Bar, Panel, chart};
use gular_runtime::{EXIT_CHECKPOINTED, Env, StopFlag, available_cores, write_file};
use serde_json::{Value, json};

use crate::args::{ScalingArgs, TrainArgs};
use crate::progress::{print_result, say};

/// Steps before those that are measured: the first ones make memory and threads for the others.
const WARM_UP_STEPS: u64 = 5;

/// The results for a number of processes.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    ranks: u64,
    /// Images per second by the median step, and by its quartiles.
    images_per_second: f64,
    range: (f64, f64),
    /// The part of the time in which they waited for each other and added up gradients.
    synchronising: f64,
    /// Images per second and process, compared with those of the first row.
    efficiency: f64,
}

pub(crate) fn run(args: &ScalingArgs) -> Result<()> {
    let train = args.train()?;
    let stop = StopFlag::install()?;
    let cores = available_cores(&Env::process());
    let mut rows: Vec<Row> = Vec::new();
    for ranks in args.ranks.iter().map(|ranks| u64::from(ranks.get())) {
        let n_threads = ranks as usize * train.place.torch_threads.get();
        if n_threads > cores {
            say!("warning: {n_threads} threads compute on {cores} cores, so they take turns");
        }
        let steps = steps(args, ranks, &stop, rows.is_empty())?;
        let batch_size = train.data.batch_size.get() as u64;
        let mut row = row(ranks, batch_size, &steps).with_context(|| {
            let n = name(ranks);
            format!(
                "an epoch on {n} has too few steps to measure: use a smaller `--batch-size` or a larger bundle"
            )
        })?;
        let one = |row: &Row| row.images_per_second / row.ranks as f64;
        row.efficiency = rows.first().map_or(1.0, |first| one(&row) / one(first));
        if !args.quiet {
            say!("{}: {:.0} images/s", name(ranks), row.images_per_second);
        }
        rows.push(row);
    }
    if let Some(path) = &args.plot {
        let text = plot(&rows, &caption(&train, cores));
        write_file(path, text.as_bytes())
            .with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    let text = if args.json { summary(&rows, &train, cores).to_string() } else { words(&rows) };
    print_result(text.trim_end()).context("cannot write the result")
}

/// Epoch, time and seconds of synchronising of each step of one training by `ranks` processes.
fn steps(args: &ScalingArgs, ranks: u64, stop: &StopFlag, first: bool) -> Result<Vec<[f64; 3]>> {
    let dir = tempfile::tempdir().context("cannot make a folder for what a training run leaves")?;
    let log = |rank: u64| dir.path().join(format!("rank-{rank}.log"));
    // Free now; whoever takes it before rank 0 does ends this with an error.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port().to_string();
    let mut processes = Processes(Vec::new());
    for rank in 0..ranks {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("train").arg(&args.bundle).args(&args.options);
        command.args(["--quiet", "--resume", "never", "--epochs", "1000000"]);
        command.args(["--checkpoint-minutes", "1000000", "--stop-after-steps"]);
        command.arg((WARM_UP_STEPS + args.steps).to_string());
        command.arg("--checkpoint-dir").arg(dir.path().join("checkpoints"));
        command.arg("--metrics").arg(dir.path());
        command.env_remove("TORCHELASTIC_USE_AGENT_STORE").env("GROUP_RANK", "0");
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
        for (name, value) in [("RANK", rank), ("WORLD_SIZE", ranks)] {
            command.env(name, value.to_string()).env(format!("LOCAL_{name}"), value.to_string());
        }
        if ranks > 1 && std::env::var_os("OMP_NUM_THREADS").is_none() {
            // As torchrun does, this lets the processes share the cores.
            command.env("OMP_NUM_THREADS", "1");
        }
        let said = File::create(log(rank))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        processes.0.push(command.spawn().context("cannot start another process of this program")?);
    }
    if let Some(rank) = processes.wait(stop)? {
        let said = fs::read_to_string(log(rank)).unwrap_or_default();
        bail!("rank {rank} of {ranks} failed:\n{}", said.trim_end());
    }
    let said = fs::read_to_string(log(0)).unwrap_or_default();
    for line in said.lines().filter(|line| first && line.starts_with("warning")) {
        say!("{line}");
    }
    let lines = fs::read_to_string(dir.path().join("metrics.jsonl"))
        .context("the training wrote no metrics")?;
    Ok(lines.lines().filter_map(step).collect())
}

/// A line of `metrics.jsonl`, if it is of a step.
fn step(line: &str) -> Option<[f64; 3]> {
    let line: Value = serde_json::from_str(line).ok()?;
    line.get("lr")?;
    let synchronising = line["synchronising"].as_f64().unwrap_or(0.0);
    Some([line["epoch"].as_f64()?, line["wall"].as_f64()?, synchronising])
}

/// The figures of `steps`. The first and the last step of an epoch count for nothing: around them
/// are validation and checkpoint, and the last may have fewer images.
fn row(ranks: u64, batch_size: u64, steps: &[[f64; 3]]) -> Option<Row> {
    let warm = steps.get(WARM_UP_STEPS as usize - 1..)?;
    let inner = warm.windows(3).filter_map(|three| match three {
        [[epoch, before, _], [_, wall, waited], [same, ..]] if epoch == same => {
            Some((wall - before, *waited))
        }
        _ => None,
    });
    let mut times: Vec<(f64, f64)> = inner.filter(|(time, _)| *time > 0.0).collect();
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (all, waited) = times.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let rate = |part: usize| {
        let at = times.get(times.len() * part / 4)?;
        Some((batch_size * ranks) as f64 / at.0)
    };
    Some(Row {
        ranks,
        images_per_second: rate(2)?,
        range: (rate(3)?, rate(1)?),
        synchronising: waited / all,
        efficiency: 1.0,
    })
}

/// Processes that are ended when this is dropped.
struct Processes(Vec<Child>);

impl Processes {
    /// Waits until all have ended; returns the first that failed, if one did.
    fn wait(&mut self, stop: &StopFlag) -> Result<Option<u64>> {
        loop {
            let mut all = true;
            for (rank, child) in (0..).zip(&mut self.0) {
                match child.try_wait()? {
                    None => all = false,
                    Some(status) if status.code() == Some(EXIT_CHECKPOINTED.into()) => {}
                    Some(_) => return Ok(Some(rank)),
                }
            }
            ensure!(!stop.requested(), "stopped before it was measured");
            if all {
                return Ok(None);
            }
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn name(ranks: u64) -> String {
    if ranks == 1 { "1 process".to_owned() } else { format!("{ranks} processes") }
}

fn words(rows: &[Row]) -> String {
    let mut text = String::from("processes  images/s  efficiency  synchronising\n");
    for row in rows {
        let (efficiency, waited) = (100.0 * row.efficiency, 100.0 * row.synchronising);
        let Row { ranks, images_per_second, .. } = row;
        let _ = writeln!(
            text,
            "{ranks:>9}{images_per_second:>10.0}{efficiency:>10.0} %{waited:>13.0} %"
        );
    }
    if let [first, .., last] = rows {
        let times = last.images_per_second / first.images_per_second;
        let (many, few) = (name(last.ranks), name(first.ranks));
        let _ = writeln!(text, "{many} do {times:.2} times the images of {few}");
    }
    text
}

fn summary(rows: &[Row], train: &TrainArgs, cores: usize) -> Value {
    let row = |row: &Row| {
        json!({
            "ranks": row.ranks,
            "images_per_second": row.images_per_second,
            "quartiles": [row.range.0, row.range.1],
            "efficiency": row.efficiency,
            "synchronising": row.synchronising,
        })
    };
    json!({
        "batch_size": train.data.batch_size,
        "torch_threads": train.place.torch_threads,
        "cores": cores,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn caption(train: &TrainArgs, cores: usize) -> String {
    let n = train.data.batch_size;
    format!("{n} images to a step of each process, on a machine of {cores} cores")
}

/// The value of a bar, its range, and what is written at it.
type Shown = (f64, (f64, f64), String);

fn plot(rows: &[Row], caption: &str) -> String {
    let panel = |title: &str, limit, of: &dyn Fn(&Row) -> Shown| {
        let bar = |row: &Row| {
            let (value, range, text) = of(row);
            Bar { name: name(row.ranks), value, range, baseline: false, picked: false, text }
        };
        Panel { title: title.to_owned(), bars: rows.iter().map(bar).collect(), limit }
    };
    let part = |part: f64| (100.0 * part, (0.0, 0.0), format!("{:.0} %", 100.0 * part));
    let panels = [
        panel("images per second, and the quartiles of the steps (more is better)", None, &|row| {
            (row.images_per_second, row.range, format!("{:.0}", row.images_per_second))
        }),
        panel(
            "efficiency: images per second and process, of those of the first row",
            Some((100.0, "100 %")),
            &|row| part(row.efficiency),
        ),
        panel("time in which processes synchronise (less is better)", None, &|row| {
            part(row.synchronising)
        }),
    ];
    chart(&panels, caption)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_steps_within_an_epoch() {
        // Steps of a second, an epoch of ten, and ten seconds of validation between two.
        let step = |i: usize| [(i / 10) as f64, (i + i / 10 * 10) as f64, 0.25];
        let of = |n: usize| row(2, 8, &(0..n).map(step).collect::<Vec<_>>());
        let row = of(25).unwrap();
        assert_eq!((row.images_per_second, row.range), (16.0, (16.0, 16.0)));
        assert_eq!(row.synchronising, 0.25);
        assert_eq!((of(0), of(4), of(6)), (None, None, None));
        let slow = Row { ranks: 4, images_per_second: 24.0, efficiency: 0.75, ..row.clone() };
        let text = words(&[Row { ranks: 1, images_per_second: 8.0, ..row.clone() }, slow.clone()]);
        assert!(text.contains("4        24        75 %           25 %\n"), "{text}");
        assert!(text.ends_with("4 processes do 3.00 times the images of 1 process\n"), "{text}");
        let svg = plot(&[row, slow], "caption");
        assert!(svg.contains("4 processes") && svg.contains("75 %"), "{svg}");
    }
}
