//! What training runs left, and the curves of their metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::Error;

/// The file of metrics in the folder of a run.
const METRICS: &str = "metrics.jsonl";
/// The most points of a curve: of more, every second one is left out.
const MOST_POINTS: usize = 2000;
/// The most curves of a run, and the longest line of its metrics.
const MOST_CURVES: usize = 200;
const MOST_LINE: u64 = 1 << 20;

/// What a training run left: a folder or file of metrics, or a table of predictions.
#[derive(Debug, Clone)]
pub struct Run {
    pub(crate) shown: String,
    pub(crate) path: PathBuf,
    pub(crate) kind: RunFile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunFile {
    Metrics,
    CsvPredictions,
    ParquetPredictions,
}

impl Run {
    /// Finds out what is at `path`.
    ///
    /// # Errors
    /// [`Error::Run`].
    pub fn new(path: &Path) -> Result<Self, Error> {
        let shown = path.display().to_string();
        let wrong = |reason: &str| Error::Run { path: shown.clone(), reason: reason.to_owned() };
        let inside = path.join(METRICS);
        let (path, kind) = match path.extension().and_then(|ending| ending.to_str()) {
            _ if inside.is_file() => (inside, RunFile::Metrics),
            _ if path.is_dir() => return Err(wrong("the folder has no `metrics.jsonl`")),
            _ if !path.is_file() => return Err(wrong("it does not exist")),
            Some("jsonl") => (path.to_owned(), RunFile::Metrics),
            Some("csv") => (path.to_owned(), RunFile::CsvPredictions),
            Some("parquet") => (path.to_owned(), RunFile::ParquetPredictions),
            _ => {
                return Err(wrong(
                    "expected a folder with `metrics.jsonl`, a `.jsonl` file of metrics, or a `.csv` or `.parquet` file of predictions",
                ));
            }
        };
        Ok(Self { shown, path, kind })
    }

    /// Whether it is a table of predictions.
    pub(crate) fn is_predictions(&self) -> bool {
        self.kind != RunFile::Metrics
    }

    fn wrong(&self, reason: impl fmt::Display) -> Error {
        Error::Run { path: self.path.display().to_string(), reason: reason.to_string() }
    }
}

/// A curve: steps and values, of which some are gaps. Every `every`th is kept.
#[derive(Debug, Default)]
struct Curve {
    points: Vec<(f64, Option<f64>)>,
    every: usize,
    seen: usize,
}

impl Curve {
    fn push(&mut self, step: f64, value: Option<f64>) {
        self.every = self.every.max(1);
        if self.seen.is_multiple_of(self.every) {
            self.points.push((step, value));
        }
        self.seen += 1;
        if self.points.len() > MOST_POINTS {
            let mut at = 0;
            self.points.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every *= 2;
        }
    }
}

/// What a file of metrics has.
#[derive(Debug, Default)]
struct Metrics {
    curves: BTreeMap<String, Curve>,
    /// Lines that could not be read, and what is wrong with the first of them.
    skipped: u64,
    first_skipped: Option<String>,
    /// Values that are not finite: gaps of the curves.
    not_finite: u64,
}

impl Metrics {
    fn skip(&mut self, number: u64, reason: impl fmt::Display) {
        self.skipped += 1;
        self.first_skipped.get_or_insert_with(|| format!("line {number} {reason}"));
    }

    fn take(&mut self, number: u64, line: &[u8]) {
        let values: Map<String, Value> = match serde_json::from_slice(&finite(line)) {
            Ok(values) => values,
            Err(e) => return self.skip(number, format_args!("is not a JSON object: {e}")),
        };
        let Some(step) = values.get("step").and_then(Value::as_f64) else {
            return self.skip(number, "has no number `step`");
        };
        for (name, value) in values {
            let is_place = matches!(name.as_str(), "step" | "epoch" | "wall");
            if is_place || !(value.is_number() || value.is_null()) {
                continue;
            }
            self.not_finite += u64::from(value.is_null());
            if self.curves.contains_key(&name) || self.curves.len() < MOST_CURVES {
                self.curves.entry(name).or_default().push(step, value.as_f64());
            }
        }
    }
}

/// A line whose `NaN`, `Infinity` and `-Infinity` are `null`: Python's `json` writes them, though
/// JSON does not have them (RFC 8259, section 6).
fn finite(line: &[u8]) -> Vec<u8> {
    const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let (mut made, mut rest, mut in_text) = (Vec::with_capacity(line.len()), line, false);
    while let Some((first, after)) = rest.split_first() {
        let word = WORDS.into_iter().find(|word| !in_text && rest.starts_with(word));
        if let Some(word) = word {
            made.extend_from_slice(b"null");
            rest = rest.get(word.len()..).unwrap_or_default();
            continue;
        }
        made.push(*first);
        rest = after;
        match (first, rest.split_first()) {
            (b'"', _) => in_text = !in_text,
            (b'\\', Some((escaped, after))) if in_text => {
                made.push(*escaped);
                rest = after;
            }
            _ => {}
        }
    }
    made
}

/// The curves of all runs. What is wrong with one is said there, and the others are shown.
pub(crate) fn curves(runs: &[Run]) -> Value {
    let of_run = |run: &Run| {
        let (metrics, fault) = match read_metrics(run) {
            Ok(metrics) => (metrics, None),
            Err(error) => (Metrics::default(), Some(error.to_string())),
        };
        let curves = metrics.curves.into_iter().map(
            |(name, curve)| json!({ "name": name, "points": curve.points, "every": curve.every }),
        );
        json!({
            "name": run.shown, "curves": curves.collect::<Vec<_>>(), "fault": fault,
            "skipped": metrics.skipped, "first_skipped": metrics.first_skipped,
            "not_finite": metrics.not_finite,
        })
    };
    let metrics = runs.iter().filter(|run| !run.is_predictions());
    let metrics: Vec<Value> = metrics.map(of_run).collect();
    let predictions = runs.iter().filter(|run| run.is_predictions());
    let predictions: Vec<&str> = predictions.map(|run| run.shown.as_str()).collect();
    json!({ "runs": metrics, "predictions": predictions })
}

fn read_metrics(run: &Run) -> Result<Metrics, Error> {
    let mut file = BufReader::new(File::open(&run.path).map_err(|e| run.wrong(e))?);
    let (mut metrics, mut line, mut number) = (Metrics::default(), Vec::new(), 0_u64);
    loop {
        line.clear();
        number += 1;
        let n = file.by_ref().take(MOST_LINE).read_until(b'\n', &mut line);
        if n.map_err(|e| run.wrong(e))? == 0 {
            return Ok(metrics);
        }
        if line.last() == Some(&b'\n') {
            metrics.take(number, &line);
        } else if (line.len() as u64) < MOST_LINE {
            // A run that is going on may have written half of its last line.
            return Ok(metrics);
        } else {
            metrics.skip(number, "is longer than 1 MiB");
            file.skip_until(b'\n').map_err(|e| run.wrong(e))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_keep_their_shape_in_bounded_memory() {
        let mut curve = Curve::default();
        (0..100_000).for_each(|n| curve.push(f64::from(n), Some(f64::from(n) * 2.0)));
        assert!(curve.points.len() <= MOST_POINTS && curve.points.len() >= MOST_POINTS / 2);
        assert!(curve.points.iter().all(|(step, value)| value == &Some(step * 2.0)));
        let steps: Vec<f64> = curve.points.iter().map(|(step, _)| *step).collect();
        let gap = steps[1] - steps[0];
        assert!(steps.windows(2).all(|two| two[1] - two[0] == gap), "{gap}");
    }

    #[test]
    fn lines_that_cannot_be_read_are_counted_and_the_others_shown() {
        let dir = tempfile::tempdir().unwrap();
        let check = |text: &str| {
            std::fs::write(dir.path().join(METRICS), text).unwrap();
            let found = read_metrics(&Run::new(dir.path()).unwrap()).unwrap();
            let loss = found.curves.get("loss").map(|curve| curve.points.clone());
            (
                loss.unwrap_or_default(),
                found.skipped,
                found.first_skipped.unwrap_or_default(),
                found.not_finite,
            )
        };
        let whole = "{\"step\":1,\"epoch\":0,\"wall\":9.5,\"loss\":2.5}\n{\"step\":2,\"loss\":2,\"note\":\"NaN \\\" NaN\"}\n";
        let two = vec![(1.0, Some(2.5)), (2.0, Some(2.0))];
        assert_eq!(check(whole), (two.clone(), 0, String::new(), 0));
        assert_eq!(check(&format!("{whole}{{\"step\":3,\"lo")), (two.clone(), 0, String::new(), 0));
        // As `json.dumps` writes them.
        let (points, skipped, _, gaps) = check(&format!(
            "{whole}{{\"step\": 3, \"loss\": NaN, \"b\": -Infinity}}\n{{\"step\": 4, \"loss\": 1}}\n"
        ));
        assert_eq!((&points[2..], skipped, gaps), (&[(3.0, None), (4.0, Some(1.0))][..], 0, 2));
        // A line that a kill cut, and the next run continued; one too long; one without a step.
        let long = "x".repeat(3 << 20);
        let bad = format!("{{\"step\":1,\"lo{{\"step\":1}}\n{long}\n{{\"loss\":1}}\n{whole}");
        let (points, skipped, first, _) = check(&bad);
        assert_eq!((points, skipped), (two, 3));
        assert!(first.starts_with("line 1 is not a JSON object"), "{first}");
    }

    #[test]
    fn a_run_with_a_fault_leaves_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let runs = ["a", "b"].map(|name| {
            let path = dir.path().join(format!("{name}.jsonl"));
            std::fs::write(&path, "{\"step\":1,\"loss\":2}\n").unwrap();
            (Run::new(&path).unwrap(), path)
        });
        std::fs::remove_file(&runs[0].1).unwrap();
        let found = curves(&runs.map(|(run, _)| run));
        assert!(found["runs"][0]["fault"].as_str().unwrap().contains("cannot be shown"), "{found}");
        assert_eq!(found["runs"][1]["curves"][0]["points"], json!([[1.0, 2.0]]));
    }

    #[test]
    fn what_is_not_a_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for (name, word) in [("a.txt", "expected a folder"), ("none", "does not exist")] {
            if name == "a.txt" {
                std::fs::write(dir.path().join(name), "").unwrap();
            }
            let error = Run::new(&dir.path().join(name)).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
