//! What a training step sees of our loader and of those that people use instead.
//!
//! ```text
//! JPEGs, class/file ─┬─ gular pack ─▶ bundle ─▶ load_rate: the Rust loader
//!                    └─ run.py pack ─▶ a store of each peer ─▶ run.py load
//!        every sample shuffled ─▶ random crop, flip ─▶ f32 NCHW, normalised
//! ```
//!
//! Every measurement is a process of its own; rounds go over all rows, so that a
//! noisy minute hits all. Before, each store is read once, which says whether a
//! peer decodes the very bytes of the files, and warms the page cache. A decoder
//! that computes only some frequencies, or other pixels, is named as such: rates
//! of different decodes do not compare loaders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use xtask::process::{self, command};
use xtask::workspace::Workspace;

use super::{machine, median};

/// Peer and what decodes; the first is what most people run.
const ROWS: [(&str, &str); 12] = [
    ("files", "pillow"),
    ("files", "torchvision"),
    ("files", "turbo"),
    ("webdataset", "pillow"),
    ("webdataset", "turbo"),
    ("datasets", "pillow"),
    ("datasets", "turbo"),
    ("streaming", "pillow"),
    ("streaming", "turbo"),
    ("ffcv", "own"),
    ("gular-python", "pillow"),
    ("gular-python", "turbo"),
];

/// What is measured and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// How many images
    #[arg(long, default_value_t = 2000)]
    images: usize,
    /// A folder of JPEGs, `class/file` or `class_file`; without it they are made, 500 by 375
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// Samples a batch; at most as many as there are images
    #[arg(long, default_value_t = 64)]
    batch_size: usize,
    /// Side of the pictures, in pixels
    #[arg(long, default_value_t = 224)]
    size: u32,
    /// Worker processes of PyTorch's DataLoader; one a core by default, as our threads
    #[arg(long)]
    workers: Option<usize>,
    /// Seconds a measurement
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Measurements of each row
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A Python with the peers; without it the packages of the peer tests are installed
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) python: Option<PathBuf>,
    /// The record [default: docs/bench/peers-DATE.json]
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// The programs that are run.
pub(crate) struct Programs {
    pub(crate) gular: PathBuf,
    pub(crate) load_rate: PathBuf,
    pub(crate) python: PathBuf,
}

/// Runs all rounds, prints the table, writes the record.
pub(crate) fn run(
    workspace: &Workspace,
    programs: &Programs,
    settings: &Settings,
    work: &Path,
) -> Result<()> {
    let rounds = settings.rounds;
    ensure!(rounds > 0 && settings.batch_size > 0, "`--rounds` and `--batch-size` are at least 1");
    ensure!(settings.images >= settings.batch_size, "`--images` is at least one batch");
    let _ = fs::remove_dir_all(work);
    fs::create_dir_all(work)?;
    let bench = Bench { workspace, programs, settings, work };
    let data = bench.images()?;
    let packed = bench.pack_ours()?;
    let ours = json!({ "order": "permutation", "as_in_files": true });
    let mut rows = vec![Row { name: "gular".to_owned(), asked: None, facts: ours, runs: vec![] }];
    // By what is to be installed: rows that need it.
    let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (peer, stack) in ROWS {
        let name = format!("{peer}, {stack}");
        let facts = bench.prepare(peer, stack)?;
        match facts.get("install").and_then(Value::as_str) {
            Some(install) => missing.entry(install.to_owned()).or_default().push(name),
            None => rows.push(Row { name, asked: Some((peer, stack)), facts, runs: vec![] }),
        }
    }
    for round in 1..=rounds {
        for row in &mut rows {
            eprintln!("round {round}: {}", row.name);
            row.runs.push(match row.asked {
                Some((peer, stack)) => bench.python("load", peer, stack)?,
                None => bench.ours()?,
            });
        }
    }
    let rows: Vec<Value> = rows.iter().map(Row::summary).collect();
    table(&rows);
    for (install, names) in &missing {
        eprintln!("not measured: {}; install: {install}", names.join("; "));
    }
    let machine = machine();
    let date = machine["date"].as_str().unwrap_or_default().to_owned();
    let record = json!({
        "bench": "peers", "machine": machine, "data": data, "bundle": packed,
        "settings": {
            "batch_size": settings.batch_size, "size": settings.size, "workers": bench.workers(),
            "seconds": settings.seconds, "rounds": rounds,
        },
        "rows": rows, "missing": missing,
    });
    let default = || workspace.root.join(format!("docs/bench/peers-{date}.json"));
    let path = settings.record.clone().unwrap_or_else(default);
    fs::write(&path, format!("{record:#}\n"))
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    eprintln!("the record is in `{}`", path.display());
    Ok(())
}

struct Bench<'a> {
    workspace: &'a Workspace,
    programs: &'a Programs,
    settings: &'a Settings,
    work: &'a Path,
}

impl Bench<'_> {
    fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.settings.workers.unwrap_or_else(cores)
    }

    fn folder(&self) -> PathBuf {
        self.work.join("images")
    }

    fn images(&self) -> Result<Value> {
        let mut run = self.script("images");
        run.arg("--n").arg(self.settings.images.to_string());
        if let Some(source) = &self.settings.source {
            run.arg("--source").arg(std::path::absolute(source)?);
        }
        last_line(&mut run)
    }

    /// Our bundle, all images as they are in split `train`.
    fn pack_ours(&self) -> Result<Value> {
        let mut pack = command(&self.programs.gular);
        pack.arg("pack").arg(self.folder()).arg(self.store("gular-python"));
        pack.args(["--stored-order", "sorted", "--quiet", "--json"]);
        last_line(&mut pack)
    }

    fn store(&self, peer: &str) -> PathBuf {
        self.work.join(peer)
    }

    /// Packs unless that is done, and says what will be decoded; or what is missing.
    fn prepare(&self, peer: &str, stack: &str) -> Result<Value> {
        let mut packed = Value::Null;
        if !peer.starts_with("gular") && !self.store(peer).exists() {
            packed = self.python("pack", peer, stack)?;
            if packed.get("missing").is_some() {
                return Ok(packed);
            }
        }
        let mut facts = self.python("facts", peer, stack)?;
        if let Some(members) = packed.as_object().filter(|p| p["files"] != 0) {
            facts["packed"] = members.clone().into();
        }
        Ok(facts)
    }

    fn script(&self, verb: &str) -> Command {
        let mut run = command(&self.programs.python);
        run.arg(self.workspace.root.join("xtask/bench/peers/run.py")).arg(verb);
        run.arg("--images").arg(self.folder());
        // Python's torch has its own libtorch.
        run.env_remove("LD_LIBRARY_PATH").env("PYTHONDONTWRITEBYTECODE", "1");
        run
    }

    fn python(&self, verb: &str, peer: &str, stack: &str) -> Result<Value> {
        let settings = self.settings;
        let mut run = self.script(verb);
        run.args(["--peer", peer, "--stack", stack, "--store"]).arg(self.store(peer));
        for (option, value) in [
            ("--workers", self.workers().to_string()),
            ("--batch", settings.batch_size.to_string()),
            ("--size", settings.size.to_string()),
            ("--seconds", settings.seconds.to_string()),
        ] {
            run.args([option, &value]);
        }
        last_line(&mut run)
    }

    fn ours(&self) -> Result<Value> {
        let settings = self.settings;
        let mut run = command(&self.programs.load_rate);
        run.arg(self.store("gular-python")).arg(settings.size.to_string());
        run.args([settings.batch_size.to_string(), settings.seconds.to_string(), "json".into()]);
        last_line(&mut run)
    }
}

/// The JSON object that a program prints, or its last line is; all it says when it fails.
fn last_line(run: &mut Command) -> Result<Value> {
    let output = run.output().with_context(|| process::cannot_start(run))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let object = |text: &str| serde_json::from_str(text).ok().filter(Value::is_object);
    let value = object(&text).or_else(|| text.lines().rev().find_map(object));
    match value.filter(|_| output.status.success()) {
        Some(value) => Ok(value),
        None => bail!(
            "`{}` ended with {}:\n{text}{}",
            process::line(run),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

/// What is measured in every round.
struct Row {
    name: String,
    /// Peer and stack; `None` for our own loader.
    asked: Option<(&'static str, &'static str)>,
    facts: Value,
    runs: Vec<Value>,
}

impl Row {
    /// The facts, medians of what was measured, and every round.
    fn summary(&self) -> Value {
        let middle = |name: &str| {
            let values: Vec<f64> = self.runs.iter().filter_map(|run| run[name].as_f64()).collect();
            if values.is_empty() { Value::Null } else { median(&values).into() }
        };
        let mut row = self.facts.clone();
        row["name"] = self.name.clone().into();
        for name in ["images_s", "images_cpu_s", "first_batch_s", "memory_bytes"] {
            row[name] = middle(name);
        }
        if let Some(run) = self.runs.first() {
            for name in ["decoder", "dct", "decodes", "pixel_digest"] {
                if row.get(name).is_none() {
                    row[name] = run[name].clone();
                }
            }
        }
        row["rounds"] = self.runs.clone().into();
        row
    }
}

fn table(rows: &[Value]) {
    eprintln!(
        "\n{:<26}{:>9}{:>10}{:>9}{:>8}  {:<12}{:<8}{:<36}decoder",
        "", "images/s", "per CPU s", "first s", "MB", "bytes", "pixels", "frequencies"
    );
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap_or(f64::NAN);
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap_or("?").to_owned();
        let bytes = if row["as_in_files"] == true { "the files'" } else { "re-encoded" };
        // Of decodes of the same images: the same pixels as our decoder's, or others.
        let pixels = match &row["pixel_digest"] {
            Value::Null => "?",
            digest if *digest == rows[0]["pixel_digest"] => "ours",
            _ => "others",
        };
        eprintln!(
            "{:<26}{:>9.0}{:>10.0}{:>9.2}{:>8.0}  {bytes:<12}{pixels:<8}{:<36}{}",
            text("name"),
            number(row, "images_s"),
            number(row, "images_cpu_s"),
            number(row, "first_batch_s"),
            number(row, "memory_bytes") / 1e6,
            format!("{}, {}", text("dct"), text("decodes")),
            text("decoder"),
        );
    }
    eprintln!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_medians_with_the_facts_of_their_decoder() {
        let run = |rate: u64| json!({ "images_s": rate, "decoder": "d", "dct": "full" });
        let row = Row {
            name: "gular".to_owned(),
            asked: None,
            facts: json!({ "as_in_files": true, "dct": "reduced" }),
            runs: [9, 1, 4].map(run).to_vec(),
        };
        let found = row.summary();
        assert_eq!((&found["images_s"], &found["decoder"]), (&json!(4.0), &json!("d")));
        assert_eq!((&found["dct"], &found["memory_bytes"]), (&json!("reduced"), &Value::Null));
        assert_eq!(found["rounds"].as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn the_last_object_counts_and_failures_show_what_was_said() {
        let run = |script: &str| last_line(command("sh").args(["-c", script]));
        let found =
            run("echo '{\"a\": 0}'; echo '{\"a\": 1}'; echo goodbye").expect("it ends well");
        assert_eq!(found, json!({ "a": 1 }));
        let found = run("printf '{\n\"a\": 2\n}'").expect("it ends well");
        assert_eq!(found, json!({ "a": 2 }));
        for (script, expected) in [("echo lost >&2; exit 3", "lost"), ("echo nothing", "nothing")] {
            let error = run(script).expect_err(script).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
