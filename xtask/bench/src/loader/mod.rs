//! Measures what a training step receives from our loader, compared with bounds and with the
//! loaders that people use instead, on the same bytes.
//!
//! ```text
//! JPEGs, class/file ─┬─ gular pack ─▶ bundles ─▶ loader_rates: a process per row
//!                    └─ run.py pack ─▶ a store of each peer ─▶ run.py host: a process per peer
//!        every contestant of a row takes a turn, the others stopped, in each round
//! ```
//!
//! A row is written to the record as soon as it is measured, so a run that ends early leaves what
//! it had, and `--only` measures single rows again.

mod data;
mod large;
mod packages;
mod process;
mod record;
mod rows;
mod summary;
mod words;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use xtask::workspace::Workspace;

use super::{date, machine};
use data::Data;
use packages::Peers;
use process::{Process, Start};
use record::Record;
use rows::Row;
use summary::Contestant;

/// What is measured and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// Other loaders too; their Python packages are installed into the target folder
    #[arg(long)]
    peers: bool,
    /// Print the record alone
    #[arg(long)]
    json: bool,
    /// Rounds; in each every contestant of a row takes a turn
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Where the record and its plot are written [default: docs/bench]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only this row, measured again in today's record; may be repeated
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// A folder of JPEGs; without it they are made, 500 by 375
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// How many images; those of a smaller folder come again under other names
    #[arg(long, default_value_t = 3000)]
    samples: usize,
    /// Seconds of a turn, of rows whose turns are not a whole epoch
    #[arg(long, default_value_t = 1.5)]
    seconds: f64,
    /// A Python with the peers, instead of the environment of the peer tests
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) python: Option<PathBuf>,
    /// The wheel of the row `wheel` [default: the one in target/dist, of `cargo xtask dist`]
    #[arg(long, value_name = "FILE")]
    wheel: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn needs_python(&self) -> bool {
        self.peers && self.python.is_none()
    }

    /// Whether the row is to be measured.
    pub(crate) fn asks_for(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == row)
    }
}

/// The programs that are run.
pub(crate) struct Programs {
    pub(crate) gular: PathBuf,
    pub(crate) loader_rates: PathBuf,
    /// The interpreter, or why there is none.
    pub(crate) python: std::result::Result<PathBuf, String>,
    /// The program, or why there is none.
    pub(crate) large_photos: std::result::Result<PathBuf, String>,
    /// The path in which `loader_rates` finds libtorch.
    pub(crate) library_path: std::ffi::OsString,
}

/// Measures the rows that were asked for, each into the record as it ends.
pub(crate) fn run(
    workspace: &Workspace,
    programs: &Programs,
    settings: &Settings,
    work: &Path,
) -> Result<()> {
    ensure!(settings.rounds > 0, "`--rounds` must be at least 1");
    ensure!(settings.samples >= 640, "`--samples` must be at least 640");
    ensure!(settings.seconds > 0.0, "`--seconds` must be above 0");
    let all = rows::all(settings.seconds);
    let chosen = choose(all, &settings.only)?;
    std::fs::create_dir_all(work)?;
    let out = settings.out.clone().unwrap_or_else(|| workspace.root.join("docs/bench"));
    let mut record = Record::open(&out, &date())?;
    let data = Data::prepare(programs, settings.images.as_deref(), settings.samples, work)?;
    let peers = Peers::new(workspace, programs, &data, settings.wheel.as_deref(), work);
    let bench = Bench { workspace, programs, settings, data: &data, peers: &peers, work };
    let begin = Instant::now();
    let planned: f64 = chosen.iter().map(|row| row.planned(settings.peers)).sum();
    let mut done = 0.0;
    for (number, row) in chosen.iter().enumerate() {
        // Time per turn as it was so far, and as planned before anything was measured.
        let slower = if done > 0.0 { begin.elapsed().as_secs_f64() / done } else { 1.0 };
        let left = (planned - done) * settings.rounds as f64;
        let left = if done > 0.0 { (planned - done) * slower } else { left };
        eprintln!(
            "row {} of {}, `{}`: about {:.0} min left",
            number + 1,
            chosen.len(),
            row.name,
            (left / 60.0).ceil()
        );
        record.put(row.name, bench.row(row)?)?;
        done += row.planned(settings.peers);
    }
    if settings.json {
        println!("{:#}", record.value());
    } else {
        print!("{}", words::table(record.value(), &chosen));
    }
    eprintln!("the record is in `{}`, its plot beside it", record.path().display());
    Ok(())
}

/// Returns the rows with these names, or all.
fn choose(all: Vec<Row>, only: &[String]) -> Result<Vec<Row>> {
    for name in only {
        if !all.iter().any(|row| row.name == name) {
            let names: Vec<&str> = all.iter().map(|row| row.name).collect();
            bail!("there is no row `{name}`; the rows are {}", names.join(", "));
        }
    }
    let is_asked = |row: &Row| only.is_empty() || only.iter().any(|name| row.name == name);
    Ok(all.into_iter().filter(is_asked).collect())
}

struct Bench<'a> {
    workspace: &'a Workspace,
    programs: &'a Programs,
    settings: &'a Settings,
    data: &'a Data,
    peers: &'a Peers<'a>,
    work: &'a Path,
}

/// A process that was started, its contestants, and the files to forget before each turn.
struct Running {
    process: Process,
    contestants: Vec<Contestant>,
    files: Vec<PathBuf>,
    failed: bool,
}

impl Bench<'_> {
    /// Measures all rounds of one row; contestants that cannot run are listed, with the reason.
    fn row(&self, row: &Row) -> Result<Value> {
        let before = machine();
        let mut absent: Vec<Value> = row
            .left_out
            .iter()
            .map(|(name, reason)| json!({ "name": name, "reason": reason }))
            .collect();
        let mut running = Vec::new();
        for start in self.starts(row, &mut absent) {
            match Process::start(&start, &self.work.join("logs")) {
                Ok((process, answer)) => running.push(Running::new(process, &start, &answer, row)),
                Err(error) => lack(&mut absent, &start.name, &error),
            }
        }
        let rounds = if running.is_empty() { 0 } else { self.settings.rounds };
        for round in 0..rounds {
            let n = running.len().max(1);
            for at in 0..running.len() {
                let one = &mut running[(at + round) % n];
                if let Err((name, error)) = one.turns(row) {
                    lack(&mut absent, &name, &error);
                }
            }
            eprint!("\r  round {} of {}", round + 1, self.settings.rounds);
        }
        eprintln!();
        let contestants: Vec<Contestant> = running
            .into_iter()
            .flat_map(|one| one.contestants)
            .filter(|contestant| !contestant.turns.is_empty())
            .collect();
        let mut value = summary::row(row, &contestants);
        if row.name == "large" {
            let large = self.programs.large_photos.as_deref();
            let found = large
                .map_err(|reason| anyhow!("{reason}"))
                .and_then(|program| large::row(row, program, &self.data.images()));
            match found {
                Ok(found) => value = found,
                Err(error) => lack(&mut absent, "large photographs", &error),
            }
        }
        value["not_measured"] = absent.into();
        value["rounds"] = self.settings.rounds.into();
        value["machine"] = before;
        value["load_after"] = machine()["load"].clone();
        value["data"] = self.data.described();
        value["version"] = version(self.workspace).into();
        Ok(value)
    }

    /// Prepares each process of a row, and returns how to start it: ours, then the peers.
    fn starts(&self, row: &Row, absent: &mut Vec<Value>) -> Vec<Start> {
        let mut starts = Vec::new();
        for ours in &row.ours {
            match self.data.ours(ours, self.programs) {
                Ok(start) => starts.push(start),
                Err(error) => lack(absent, ours.what, &error),
            }
        }
        for (peer, stack) in row.peers {
            let name = rows::peer_name(peer, stack);
            if !self.settings.peers {
                absent.push(json!({ "name": name, "reason": "run without `--peers`" }));
                continue;
            }
            match self.peers.start(peer, stack, row.mode, &name) {
                Ok(start) => starts.push(start),
                Err(error) => lack(absent, &name, &error),
            }
        }
        starts
    }
}

fn lack(absent: &mut Vec<Value>, name: &str, error: &anyhow::Error) {
    eprintln!("\n  not measured: {name}: {error:#}");
    absent.push(json!({ "name": name, "reason": format!("{error:#}") }));
}

impl Running {
    fn new(process: Process, start: &Start, answer: &Value, row: &Row) -> Self {
        let names = answer["contestants"].as_array().cloned().unwrap_or_default();
        let contestant = |own: &str| {
            // A process of one contestant gives it its own name.
            let name = if names.len() > 1 { own.to_owned() } else { start.name.clone() };
            Contestant {
                own: own.to_owned(),
                is_ours: start.is_ours && row.is_ours(&name),
                name,
                is_peer: !start.is_ours,
                facts: answer["facts"].clone(),
                turns: Vec::new(),
            }
        };
        let names = names.iter().filter_map(Value::as_str);
        let contestants = names.filter(|name| row.takes(name)).map(contestant).collect();
        let files = if row.is_cold { start.files.clone() } else { Vec::new() };
        Self { process, contestants, files, failed: false }
    }

    /// A turn of each contestant; after an error none has another.
    fn turns(&mut self, row: &Row) -> Result<(), (String, anyhow::Error)> {
        if self.failed {
            return Ok(());
        }
        for contestant in &mut self.contestants {
            let turn = forget(&self.files)
                .and_then(|kept| Ok((kept, self.process.turn(&contestant.own, row.seconds)?)));
            match turn {
                Ok((kept, mut answer)) => {
                    if let Some(kept) = kept {
                        answer["still_in_memory"] = kept.into();
                    }
                    contestant.turns.push(answer);
                }
                Err(error) => {
                    self.failed = true;
                    contestant.turns.clear();
                    return Err((contestant.name.clone(), error));
                }
            }
        }
        Ok(())
    }
}

/// Empties the page cache of `files`, and says what share of them is still in it.
fn forget(files: &[PathBuf]) -> Result<Option<f64>> {
    if files.is_empty() {
        return Ok(None);
    }
    gular_bench::drop_from_page_cache(files)?;
    Ok(gular_bench::resident(files))
}

/// Returns the commit that is measured.
fn version(workspace: &Workspace) -> String {
    let mut git = xtask::process::command("git");
    git.args(["describe", "--always", "--dirty"]).current_dir(&workspace.root);
    xtask::process::stdout_of(&mut git)
        .map_or_else(|_| "unknown".into(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_name_and_an_unknown_one_names_all() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            choose(rows::all(1.0), &only)
                .map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["tally", "jpeg"]).unwrap(), ["jpeg", "tally"]);
        assert_eq!(names(&[]).unwrap().len(), rows::all(1.0).len());
        let error = names(&["speed"]).unwrap_err().to_string();
        assert!(error.contains("`speed`") && error.contains("raw-u8"), "{error}");
    }
}
