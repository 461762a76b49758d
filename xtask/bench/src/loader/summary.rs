//! Computes medians, spreads and ratios from turns.

use serde_json::{Value, json};

use super::rows::{Against, Bound, Measure, Row, Target};
use crate::median;

/// A contestant, with the answers of all its turns.
pub(crate) struct Contestant {
    /// The name that its process uses.
    pub(crate) own: String,
    /// The name in the row.
    pub(crate) name: String,
    /// Whether the contestant is our loader, and not a bound or a peer.
    pub(crate) is_ours: bool,
    pub(crate) is_peer: bool,
    pub(crate) facts: Value,
    pub(crate) turns: Vec<Value>,
}

impl Contestant {
    fn values(&self, measure: Measure) -> Vec<f64> {
        let value = |turn: &Value| match measure {
            Measure::Rate => Some(turn["samples"].as_f64()? / turn["seconds"].as_f64()?),
            Measure::Less { member, .. } => turn[member].as_f64(),
        };
        self.turns.iter().filter_map(value).collect()
    }

    /// Microseconds of CPU time per sample, in each turn.
    fn cpu(&self) -> Vec<f64> {
        let cpu =
            |turn: &Value| Some(turn["cpu_seconds"].as_f64()? * 1e6 / turn["samples"].as_f64()?);
        self.turns.iter().filter_map(cpu).filter(|cpu| cpu.is_finite()).collect()
    }
}

/// Returns the row for the record.
pub(crate) fn row(row: &Row, contestants: &[Contestant]) -> Value {
    let (unit, better) = match row.measure {
        Measure::Rate => ("samples/s", "more"),
        Measure::Less { unit, .. } => (unit, "less"),
    };
    let each = |contestant: &Contestant| {
        let mut value = spread(&contestant.values(row.measure));
        value["name"] = contestant.name.clone().into();
        value["kind"] = kind(contestant).into();
        value["cpu_us_per_sample"] = spread(&contestant.cpu());
        value["facts"] = contestant.facts.clone();
        value["turns"] = contestant.turns.clone().into();
        value
    };
    let targets = row.targets.iter().map(|target| reached(target, row.measure, contestants));
    json!({
        "title": row.title, "unit": unit, "better": better, "seconds": row.seconds,
        "cold": row.is_cold,
        "contestants": contestants.iter().map(each).collect::<Vec<_>>(),
        "targets": targets.collect::<Vec<_>>(),
    })
}

fn kind(contestant: &Contestant) -> &'static str {
    match contestant {
        Contestant { is_peer: true, .. } => "peer",
        Contestant { is_ours: true, .. } => "ours",
        _ => "bound",
    }
}

/// Returns median, range and quartiles.
fn spread(values: &[f64]) -> Value {
    if values.is_empty() {
        return json!({ "median": null });
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: usize| sorted[(sorted.len() - 1) * part / 4];
    json!({
        "median": median(values), "min": at(0), "max": at(4), "quartiles": [at(1), at(3)],
    })
}

/// Whether a target is reached. The ratio is the median of the ratios of all rounds: a round takes
/// a minute at most, in which the machine is the same for all.
fn reached(target: &Target, measure: Measure, contestants: &[Contestant]) -> Value {
    let by_name = |name: &str| contestants.iter().find(|c| c.name == name);
    let (against, times) = match &target.against {
        Against::Nothing => (None, 1.0),
        Against::Contestant(name) => (Some(by_name(name)), 1.0),
        Against::TimesCores(name) => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            (Some(by_name(name)), cores as f64)
        }
        Against::BestPeer => (Some(best_peer(contestants, measure)), 1.0),
    };
    let mut value = match target.bound {
        Bound::AtLeast(least) => json!({ "ours": target.ours, "at_least": least }),
        Bound::AtMost(most) => json!({ "ours": target.ours, "at_most": most }),
    };
    value["against"] = match (&target.against, against) {
        (Against::Nothing, _) => Value::Null,
        (Against::Contestant(name), _) => name.clone().into(),
        (Against::TimesCores(name), _) => format!("{name} × cores").into(),
        (Against::BestPeer, Some(Some(best))) => format!("best peer: {}", best.name).into(),
        (Against::BestPeer, _) => "best peer".into(),
    };
    let (Some(ours), true) = (by_name(&target.ours), against != Some(None)) else {
        value["met"] = Value::Null;
        return value;
    };
    let own = ours.values(measure);
    let other = against.flatten();
    let ratios = |own: &[f64], other: &[f64]| -> Vec<f64> {
        own.iter().zip(other).map(|(own, other)| own / (other * times)).collect()
    };
    let found = match other {
        Some(other) => ratios(&own, &other.values(measure)),
        None => own,
    };
    value["found"] = spread(&found);
    if let (Some(other), Measure::Rate) = (other, measure) {
        // Samples per CPU second, of which all cores have one each.
        let cpu = |c: &Contestant| c.cpu().iter().map(|us| 1.0 / us).collect::<Vec<_>>();
        let by_cpu: Vec<f64> = cpu(ours).iter().zip(cpu(other)).map(|(a, b)| a / b).collect();
        value["found_by_cpu"] = spread(&by_cpu);
    }
    value["met"] = match (value["found"]["median"].as_f64(), target.bound) {
        (Some(found), Bound::AtLeast(least)) => (found >= least).into(),
        (Some(found), Bound::AtMost(most)) => (found <= most).into(),
        (None, _) => Value::Null,
    };
    value
}

fn best_peer(contestants: &[Contestant], measure: Measure) -> Option<&Contestant> {
    let value = |c: &Contestant| median_of(&c.values(measure));
    // Our own reader in PyTorch's loader is there to compare containers.
    let is_other = |c: &&Contestant| c.is_peer && !c.name.starts_with("gular");
    contestants.iter().filter(is_other).filter(|c| value(c).is_some()).max_by(|a, b| {
        let (a, b) = (value(a).unwrap_or_default(), value(b).unwrap_or_default());
        match measure {
            Measure::Rate => a.total_cmp(&b),
            Measure::Less { .. } => b.total_cmp(&a),
        }
    })
}

fn median_of(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median(values))
}

impl PartialEq for Contestant {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows;
    use super::*;

    fn contestant(name: &str, kind: &str, rates: [f64; 3]) -> Contestant {
        let turn = |rate: f64| json!({ "samples": rate, "seconds": 1.0, "cpu_seconds": 2.0 });
        Contestant {
            own: name.into(),
            name: name.into(),
            is_ours: kind == "ours",
            is_peer: kind == "peer",
            facts: Value::Null,
            turns: rates.map(turn).into(),
        }
    }

    fn jpeg() -> Row {
        rows::all(1.0).into_iter().find(|row| row.name == "jpeg").unwrap()
    }

    #[test]
    fn a_slow_round_that_hits_all_changes_no_ratio() {
        let found = row(
            &jpeg(),
            &[
                contestant("gular", "ours", [150.0, 15.0, 150.0]),
                contestant("files, turbo", "peer", [100.0, 10.0, 100.0]),
                contestant("files, pillow", "peer", [50.0, 5.0, 50.0]),
                contestant("gular-python, turbo", "peer", [140.0, 14.0, 140.0]),
            ],
        );
        let [decoder, peer] = &found["targets"].as_array().unwrap()[..] else { panic!("{found}") };
        assert_eq!(decoder["met"], Value::Null, "{decoder}");
        assert_eq!(peer["against"], "best peer: files, turbo");
        assert_eq!((&peer["found"]["min"], &peer["found"]["max"]), (&json!(1.5), &json!(1.5)));
        assert_eq!(peer["met"], true);
        let by_cpu = peer["found_by_cpu"]["median"].as_f64().unwrap();
        assert!((by_cpu - 1.5).abs() < 1e-9, "{by_cpu}");
        let first = &found["contestants"][0];
        assert_eq!((&first["median"], &first["min"]), (&json!(150.0), &json!(15.0)));
        assert_eq!(first["kind"], "ours");
    }

    #[test]
    fn a_bound_of_one_core_counts_once_per_core() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let bound = contestant("decode and resize, 1 thread", "bound", [100.0; 3]);
        let found = row(&jpeg(), &[contestant("gular", "ours", [90.0; 3]), bound]);
        let target = &found["targets"][0];
        assert_eq!(target["found"]["median"].as_f64().unwrap(), 90.0 / (100.0 * cores));
        assert_eq!(target["met"], 90.0 / (100.0 * cores) >= 0.92);
    }

    #[test]
    fn a_value_of_its_own_is_compared_with_its_limit() {
        let rows = rows::all(1.0);
        let memory = rows.iter().find(|row| row.name == "memory").unwrap();
        let with = |mib: f64| {
            let mut pread = contestant("pread", "ours", [1.0; 3]);
            pread.turns = [mib; 3].map(|mib| json!({ "mib": mib })).into();
            row(memory, &[pread])["targets"][0].clone()
        };
        assert_eq!((&with(55.0)["met"], &with(70.0)["met"]), (&json!(true), &json!(false)));
        assert_eq!(with(55.0)["against"], Value::Null);
    }
}
