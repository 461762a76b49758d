//! The settings of a soak, and the soak from its beginning to its record.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::chance::Chance;
use super::client::{Surroundings, Tally};
use super::clients::{CLIENTS, Clients};
use super::faults::Faults;
use super::federation::Faulty;
use super::honest::Behind;
use super::inputs::Input;
use crate::machine;

/// The arguments of `cargo xtask bench soak`.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// What decides about faults and kills
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of objects that are published
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) objects: usize,
    /// After this time nothing fails and nobody is killed, so that the rest is soon done
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) seconds: u64,
    /// The servers that store the objects
    #[arg(long, value_enum, default_value_t = Behind::Embedded)]
    pub(crate) behind: Behind,
    /// The program [default: it is built first]
    #[arg(long, value_name = "FILE")]
    pub(crate) gular: Option<PathBuf>,
}

/// Runs the soak in the folder `work`, which stays if something was wrong.
pub(crate) fn run(gular: &Path, settings: &Settings, work: &Path) -> Result<()> {
    ensure!(settings.objects >= 4 * CLIENTS, "`--objects` is at least {}", 4 * CLIENTS);
    let _ = fs::remove_dir_all(work);
    fs::create_dir_all(work)?;
    let chance = Chance::new(settings.seed);
    let inputs = inputs(gular, chance, settings.objects, work)?;
    let faults = Arc::new(Faults::new(chance, settings.behind.namespace()));
    let servers = Faulty::start(settings.behind, &work.join("servers"), &faults)?;
    let logs = work.join("logs");
    fs::create_dir_all(&logs)?;
    let tally = Tally::default();
    let at = Surroundings {
        gular,
        servers: &servers,
        chance,
        faults: &faults,
        tally: &tally,
        logs: &logs,
    };
    let begun = Instant::now();
    calm_after(&faults, Duration::from_secs(settings.seconds));
    let clients = Clients { at: &at, inputs: &inputs, work };
    clients.all()?;
    let seconds = begun.elapsed().as_secs_f64();
    faults.calm();
    clients.check()?;
    report(settings, &inputs, &faults, &tally, seconds);
    let wrong = tally.faults();
    if wrong.is_empty() {
        drop(servers);
        fs::remove_dir_all(work)?;
        return Ok(());
    }
    bail!(
        "{} faults; what was made is in `{}`; run this again with `cargo xtask bench soak --behind {} --seed {} --objects {} --seconds {}`:\n  {}",
        wrong.len(),
        work.display(),
        settings.behind.name(),
        settings.seed,
        settings.objects,
        settings.seconds,
        wrong.join("\n  ")
    )
}

/// Makes what each client publishes.
fn inputs(gular: &Path, chance: Chance, objects: usize, work: &Path) -> Result<Vec<Input>> {
    let make = |number: usize| {
        let dir = work.join(format!("input-{number}"));
        Input::make(gular, chance, number, objects / CLIENTS, &dir)
    };
    (0..CLIENTS).map(make).collect()
}

fn calm_after(faults: &Arc<Faults>, time: Duration) {
    let faults = Arc::clone(faults);
    thread::spawn(move || {
        thread::sleep(time);
        faults.calm();
    });
}

/// Prints a table and a record.
fn report(settings: &Settings, inputs: &[Input], faults: &Faults, tally: &Tally, seconds: f64) {
    let objects: usize = inputs.iter().map(|input| input.objects).sum();
    let (runs, kills) = (tally.runs.load(Relaxed), tally.kills.load(Relaxed));
    let (later, refused) = (tally.later.load(Relaxed), tally.refused.load(Relaxed));
    let counts = faults.counts();
    eprintln!("{:<32}{:>8}", "servers", settings.behind.name());
    eprintln!("{:<32}{:>8}", "seed", settings.seed);
    eprintln!("{:<32}{objects:>8}", "objects");
    eprintln!("{:<32}{:>8}", "requests", faults.requests());
    for (name, n) in &counts {
        eprintln!("  {name:<30}{n:>8}");
    }
    eprintln!("{:<32}{runs:>8}", "runs of gular");
    eprintln!("  {:<30}{kills:>8}", "killed");
    eprintln!("  {:<30}{later:>8}", "try again (75)");
    eprintln!("  {:<30}{refused:>8}", "refused a lie of the origin");
    eprintln!("{:<32}{seconds:>8.0}", "seconds");
    let dealt: serde_json::Map<String, Value> =
        counts.iter().map(|(name, n)| ((*name).to_owned(), (*n).into())).collect();
    let record = json!({
        "bench": "soak", "machine": machine(), "behind": settings.behind.name(), "seed": settings.seed, "objects": objects,
        "requests": faults.requests(), "dealt": dealt, "runs": runs, "kills": kills,
        "later": later, "refused": refused, "wrong": tally.faults().len(), "seconds": seconds,
    });
    println!("{record}");
}
