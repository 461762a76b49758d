//! The record of a day: a JSON file and its plot, both rewritten after each row.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use gular_plot::{Bar, Panel, chart};
use serde_json::{Value, json};

use super::rows;

/// Most bars in one panel; with more, the ratios are drawn.
const BARS: usize = 16;

pub(crate) struct Record {
    path: PathBuf,
    value: Value,
}

impl Record {
    /// `loader-DATE.json` in `dir`, with the rows that were measured that day.
    pub(crate) fn open(dir: &Path, date: &str) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let path = dir.join(format!("loader-{date}.json"));
        let value = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("`{}` is not a record", path.display()))?,
            Err(_) => json!({ "bench": "loader", "date": date, "rows": {} }),
        };
        ensure!(value["bench"] == "loader", "`{}` is another benchmark's record", path.display());
        Ok(Self { path, value })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Takes a row, instead of the one of that name, and writes both files.
    pub(crate) fn put(&mut self, name: &str, row: Value) -> Result<()> {
        self.value["rows"][name] = row;
        replace(&self.path, &format!("{:#}\n", self.value))?;
        replace(&self.path.with_extension("svg"), &plot(&self.value))
    }
}

/// Replaces a file as a whole.
fn replace(path: &Path, text: &str) -> Result<()> {
    let part = path.with_extension("part");
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, path))
        .with_context(|| format!("cannot write `{}`", path.display()))
}

fn plot(record: &Value) -> String {
    let panels: Vec<Panel> = rows::all(1.0)
        .iter()
        .filter_map(|row| panel(row.name, &record["rows"][row.name]))
        .collect();
    let machine = record["rows"].as_object().and_then(|rows| rows.values().next());
    let machine = machine.map_or(&Value::Null, |row| &row["machine"]);
    let caption = format!(
        "{} cores of {}, {}; medians, and lines from the slowest to the fastest round",
        machine["cores"],
        machine["cpu"].as_str().unwrap_or("?"),
        record["date"].as_str().unwrap_or("?")
    );
    chart(&panels, &caption)
}

fn panel(name: &str, row: &Value) -> Option<Panel> {
    let contestants = row["contestants"].as_array()?;
    if contestants.len() > BARS {
        let bars: Vec<Bar> = row["targets"].as_array()?.iter().filter_map(ratio).collect();
        let title = format!("{name}: over the loop by hand, more is better");
        return (!bars.is_empty()).then_some(Panel { title, bars, limit: None });
    }
    let bars: Vec<Bar> = contestants.iter().filter_map(contestant).collect();
    let text = |member: &str| row[member].as_str().unwrap_or_default().to_owned();
    let title = format!("{name}: {}, {} is better", text("unit"), text("better"));
    (!bars.is_empty()).then_some(Panel { title, bars, limit: None })
}

fn contestant(contestant: &Value) -> Option<Bar> {
    let name = contestant["name"].as_str()?;
    bar(name, contestant, contestant["kind"] != "ours")
}

fn ratio(target: &Value) -> Option<Bar> {
    bar(target["ours"].as_str()?, &target["found"], false)
}

fn bar(name: &str, spread: &Value, baseline: bool) -> Option<Bar> {
    let value = spread["median"].as_f64()?;
    let range = (spread["min"].as_f64()?, spread["max"].as_f64()?);
    let text = super::words::number(value);
    Some(Bar { name: name.to_owned(), value, range, baseline, picked: false, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_until_they_are_measured_again() {
        let dir = std::env::temp_dir().join(format!("record-{}", std::process::id()));
        let row = |median: f64| {
            let spread = json!({
                "name": "gular", "kind": "ours", "median": median, "min": 1.0, "max": 9.0,
            });
            json!({ "unit": "samples/s", "better": "more", "contestants": [spread], "targets": [] })
        };
        let mut record = Record::open(&dir, "2026-01-02").unwrap();
        record.put("jpeg", row(5.0)).unwrap();
        record.put("cold", row(6.0)).unwrap();
        let mut again = Record::open(&dir, "2026-01-02").unwrap();
        again.put("jpeg", row(7.0)).unwrap();
        let read = fs::read_to_string(dir.join("loader-2026-01-02.json")).unwrap();
        let read: Value = serde_json::from_str(&read).unwrap();
        assert_eq!(read["rows"]["jpeg"]["contestants"][0]["median"], 7.0);
        assert_eq!(read["rows"]["cold"]["contestants"][0]["median"], 6.0);
        let plot = fs::read_to_string(dir.join("loader-2026-01-02.svg")).unwrap();
        assert!(plot.contains("jpeg: samples/s") && plot.contains("cold: samples/s"), "{plot}");
        fs::write(dir.join("loader-2026-01-03.json"), "{\"bench\": \"pack\"}").unwrap();
        assert!(Record::open(&dir, "2026-01-03").is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
