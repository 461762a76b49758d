//! Measures large photographs with an example of the codec crate, which interleaves its rounds
//! itself.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use xtask::process::{command, stdout_of};

use super::rows::Row;
use super::summary::{self, Contestant};

/// The row of what `program` says about mosaics of the files below `images`.
pub(crate) fn row(row: &Row, program: &Path, images: &Path) -> Result<Value> {
    let text = stdout_of(command(program).arg("speed").arg(images).arg("--json"))?;
    read(row, &serde_json::from_str(&text).context("its answer is not JSON")?)
}

fn read(row: &Row, found: &Value) -> Result<Value> {
    let mut contestants = Vec::new();
    for size in found.as_array().context("its answer is not a list")? {
        let megapixels = size["megapixels"].as_f64().context("a row without megapixels")?;
        let part = size["part"].as_str().context("a row without part")?;
        for (name, member) in [("gular", "ours"), ("full", "full"), ("turbo", "bare")] {
            let of = |figure: &str| size[member][figure].as_f64();
            let seconds = of("ms").context("a row without times")? / 1e3;
            let cpu = of("cpu_ms").map(|ms| ms / 1e3);
            contestants.push(Contestant {
                own: member.to_owned(),
                name: format!("{name}, {megapixels:.0} MP, {part}"),
                is_ours: name == "gular",
                is_peer: false,
                facts: json!({ "step": size["step"], "of_nine_rounds": size[member] }),
                // The time is the median of all rounds.
                turns: vec![json!({ "samples": 1, "seconds": seconds, "cpu_seconds": cpu })],
            });
        }
    }
    let mut value = summary::row(row, &contestants);
    let list = value["contestants"].as_array_mut().into_iter().flatten();
    for contestant in list {
        let ms = |figure: &str| contestant["facts"]["of_nine_rounds"][figure].as_f64();
        if let (Some(slowest), Some(fastest)) = (ms("slowest_ms"), ms("fastest_ms")) {
            contestant["min"] = (1e3 / slowest).into();
            contestant["max"] = (1e3 / fastest).into();
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::super::rows;
    use super::*;

    #[test]
    fn what_the_program_says_becomes_a_row() {
        let took = |ms: f64| json!({ "ms": ms, "cpu_ms": ms, "fastest_ms": ms / 2.0, "slowest_ms": ms * 2.0 });
        let said = json!([{
            "megapixels": 12.0, "part": "whole", "step": 8,
            "ours": took(20.0), "full": took(80.0), "bare": took(19.0),
        }]);
        let rows = rows::all(1.0);
        let large = rows.iter().find(|row| row.name == "large").unwrap();
        let found = read(large, &said).unwrap();
        let ours = &found["contestants"][0];
        assert_eq!((&ours["name"], &ours["median"]), (&json!("gular, 12 MP, whole"), &json!(50.0)));
        assert_eq!((&ours["min"], &ours["max"]), (&json!(25.0), &json!(100.0)));
        let targets = found["targets"].as_array().unwrap();
        let target = targets.iter().find(|target| target["ours"] == ours["name"]).unwrap();
        assert_eq!((&target["met"], &target["found"]["median"]), (&json!(true), &json!(0.95)));
        assert!(read(large, &json!([{ "megapixels": 4.0 }])).is_err());
    }
}
