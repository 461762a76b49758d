//! Compares the reading rates of all envelopes with each other, and with a hand-written loop over
//! the same stored bytes.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use xtask::workspace::Workspace;

use super::{date, median};

/// Rates are the same when no envelope is further than this below the best.
const SAME: f64 = 0.9;

/// One way to read: reader, threads, order.
#[derive(Debug, Clone, PartialEq)]
struct Way {
    reader: String,
    threads: u64,
    order: String,
}

/// Runs `gular bench` on `images` and compares its rows; `length` is rounds and seconds.
pub(crate) fn run(
    workspace: &Workspace,
    gular: &Path,
    images: &Path,
    length: (usize, f64),
    work: &Path,
) -> Result<()> {
    let output = Command::new(gular)
        .arg("bench")
        .arg(images)
        .args(["--kind", "read", "--payload", "encoded", "--page-cache", "warm", "--json"])
        .args(["--rounds", &length.0.to_string(), "--seconds", &length.1.to_string()])
        .arg("--scratch")
        .arg(work)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", gular.display()))?;
    ensure!(output.status.success(), "`gular bench` ended with {}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let rows = report["rows"].as_array().context("a report without rows")?;
    let compared = ways(rows).iter().map(|way| compare(rows, way)).collect::<Result<Vec<_>>>()?;
    let same = compared.iter().all(|c| c["same"] == true);
    eprintln!(
        "{}",
        if same {
            "every envelope is within 10 % of the others and of the hand-written loop"
        } else {
            "not all are within 10 %: see the lines marked with !"
        }
    );
    let record = json!({
        "bench": "envelopes", "machine": super::machine(), "within_10_percent": same,
        "compared": compared, "report": report,
    });
    let path = workspace.root.join(format!("docs/bench/envelopes-{}.json", date()));
    fs::write(&path, format!("{record}\n"))?;
    println!("{record}");
    Ok(())
}

/// Returns all ways in which rows were read, in their order.
fn ways(rows: &[Value]) -> Vec<Way> {
    let mut ways = Vec::new();
    for row in rows {
        let text = |name: &str| row[name].as_str().map(str::to_owned);
        if let (Some(reader), Some(threads), Some(order)) =
            (text("reader"), row["threads"].as_u64(), text("order"))
        {
            let way = Way { reader, threads, order };
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
    }
    ways
}

/// Prints and returns the rates of one way, over that of the hand-written loop.
///
/// Ratios are taken round by round, and then their median: a round is a few minutes in
/// which the machine is the same for all.
fn compare(rows: &[Value], way: &Way) -> Result<Value> {
    let of = |row: &&Value| {
        row["reader"] == way.reader.as_str()
            && row["threads"] == way.threads
            && row["order"] == way.order.as_str()
    };
    let rows: Vec<&Value> = rows.iter().filter(of).collect();
    let hand = rows.iter().find(|row| row["baseline"] == true).context("no hand-written loop")?;
    let hand = rounds(hand);
    let mut ratios = Vec::new();
    eprintln!("\n{}, {} threads, {}", way.reader, way.threads, way.order);
    eprintln!("{:<12}{:>14}{:>16}", "", "samples/s", "of hand-written");
    eprintln!("{:<12}{:>14.0}", "by hand", median(&hand));
    for row in rows.iter().filter(|row| row["baseline"] == false) {
        let name = row["envelope"].as_str().unwrap_or_default();
        let rates = rounds(row);
        let ratio = median(&rates.iter().zip(&hand).map(|(a, b)| a / b).collect::<Vec<_>>());
        ratios.push((name.to_owned(), ratio));
        eprintln!("{name:<12}{:>14.0}{:>15.0} %", median(&rates), ratio * 100.0);
    }
    let most = ratios.iter().map(|(_, ratio)| *ratio).fold(0.0, f64::max);
    let least = ratios.iter().map(|(_, ratio)| *ratio).fold(f64::INFINITY, f64::min);
    let same = least >= SAME * most && least >= SAME;
    let mark = if same { ' ' } else { '!' };
    eprintln!(
        "{mark} slowest over fastest {:.3}, slowest over hand-written {least:.3}",
        least / most
    );
    let ratios: serde_json::Map<_, _> = ratios.into_iter().map(|(n, r)| (n, r.into())).collect();
    Ok(json!({
        "reader": way.reader, "threads": way.threads, "order": way.order, "same": same,
        "over_hand_written": ratios, "slowest_over_fastest": least / most,
        "slowest_over_hand_written": least,
    }))
}

fn rounds(row: &Value) -> Vec<f64> {
    let rounds = row["rounds"].as_array();
    rounds.map(|r| r.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(envelope: Option<&str>, rounds: [f64; 3]) -> Value {
        json!({
            "reader": "map", "threads": 2, "order": "shuffled", "rounds": rounds,
            "baseline": envelope.is_none(), "envelope": envelope,
        })
    }

    #[test]
    fn a_slow_round_that_hits_all_is_no_difference() {
        let rows = [
            row(None, [100.0, 50.0, 100.0]),
            row(Some("shards"), [98.0, 49.0, 98.0]),
            row(Some("tar"), [95.0, 47.0, 94.0]),
        ];
        let ways = ways(&rows);
        assert_eq!(ways.len(), 1);
        let compared = compare(&rows, &ways[0]).unwrap();
        assert_eq!(compared["same"], true);
        assert_eq!(compared["over_hand_written"]["shards"], 0.98);
        let slower = [rows[0].clone(), rows[1].clone(), row(Some("tar"), [80.0, 40.0, 81.0])];
        assert_eq!(compare(&slower, &ways[0]).unwrap()["same"], false);
    }
}
