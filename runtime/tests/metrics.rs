//! Metrics after kills and resumes. TensorBoard's own reader is tested in
//! `tests/peers/tensorboard_reads.py`.

use std::fs;
use std::path::Path;

use gular_runtime::Error;
use gular_runtime::metrics::{METRICS_NAME, Metrics};
use serde_json::Value;

fn rows(dir: &Path) -> Vec<Value> {
    fs::read_to_string(dir.join(METRICS_NAME))
        .expect("metrics")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
        .collect()
}

#[test]
fn resumed_metrics_have_each_step_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("run");
    let mut metrics = Metrics::open(&dir, None).unwrap();
    for step in 1..=5 {
        metrics.log(step, 0, &[("loss", 1.0)]).unwrap();
    }
    drop(metrics);
    let mut metrics = Metrics::open(&dir, Some(3)).unwrap();
    for step in 4..=6 {
        metrics.log(step, 1, &[("loss", 0.1 + 0.2), ("lr", 1e-300)]).unwrap();
    }
    let rows = rows(&dir);
    let steps: Vec<_> = rows.iter().map(|row| row["step"].as_u64()).collect();
    assert_eq!(steps, (1..=6).map(Some).collect::<Vec<_>>());
    assert_eq!(rows[5]["loss"].as_f64(), Some(0.1 + 0.2));
    assert_eq!(rows[5]["lr"].as_f64(), Some(1e-300));
    assert_eq!(rows[5]["epoch"], 1);
    assert!(rows[5]["wall"].as_f64() >= rows[0]["wall"].as_f64());
}

#[test]
fn each_start_has_its_own_event_file() {
    let dir = tempfile::tempdir().unwrap();
    for resume in [None, Some(1), Some(1)] {
        Metrics::open(dir.path(), resume).unwrap();
    }
    let count = fs::read_dir(dir.path())
        .unwrap()
        .filter(|e| {
            let name = e.as_ref().expect("an entry").file_name();
            name.to_string_lossy().starts_with("events.out.tfevents.")
        })
        .count();
    assert_eq!(count, 3);
}

#[test]
fn names_that_clash_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut metrics = Metrics::open(dir.path(), None).unwrap();
    for names in [&["step"][..], &["epoch"], &["wall"], &[""], &["a", "a"]] {
        let values: Vec<_> = names.iter().map(|&name| (name, 1.0)).collect();
        let error = metrics.log(1, 0, &values).unwrap_err();
        assert!(matches!(error, Error::MetricName { .. }), "{names:?}: {error}");
    }
    assert!(rows(dir.path()).is_empty());
}
