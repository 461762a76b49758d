//! The results of the demo, in one table.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::stages::Done;

/// The figures of one run of the demo.
#[derive(Debug)]
pub(crate) struct Summary {
    stages: Vec<DemoStage>,
    samples: u64,
    bytes: u64,
    digest: String,
    loss: (f64, f64),
    accuracy: Option<f64>,
    weights: [String; 2],
    decoder: String,
    total: Duration,
    /// Whether both runs ended with the same weights.
    pub(crate) bit_equal: bool,
}

#[derive(Debug)]
struct DemoStage {
    name: &'static str,
    seconds: f64,
    /// Number of images in the demo.
    images: u64,
}

impl Summary {
    pub(crate) fn new(
        stages: &[(&'static str, &Done)],
        undisturbed: &Done,
        resumed: &Done,
        packed: &Done,
        total: Duration,
    ) -> Result<Self> {
        let samples = number(&packed.report, "samples")?;
        let trained = number(&undisturbed.report, "images")?;
        let weights = [text(&undisturbed.report, "weights")?, text(&resumed.report, "weights")?];
        let stage = |(name, done): &(&'static str, &Done)| {
            let images = if name.starts_with("train") { trained } else { samples };
            DemoStage { name, seconds: done.seconds, images }
        };
        Ok(Self {
            stages: stages.iter().map(stage).collect(),
            samples,
            bytes: number(&packed.report, "bytes")?,
            digest: text(&packed.report, "digest")?,
            loss: (
                real(&undisturbed.report, "loss_first")?,
                real(&undisturbed.report, "loss_last")?,
            ),
            accuracy: undisturbed.report["val_accuracy"].as_f64(),
            decoder: text(&undisturbed.report, "decoder")?,
            bit_equal: weights[0] == weights[1],
            weights,
            total,
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        let stages: Vec<Value> = self
            .stages
            .iter()
            .map(|s| json!({"stage": s.name, "seconds": s.seconds, "images": s.images, "images_per_second": s.rate()}))
            .collect();
        json!({
            "samples": self.samples, "bytes": self.bytes, "digest": self.digest, "stages": stages,
            "loss_first": self.loss.0, "loss_last": self.loss.1, "val_accuracy": self.accuracy,
            "decoder": self.decoder, "weights_undisturbed": self.weights[0],
            "weights_resumed": self.weights[1], "bit_equal": self.bit_equal,
            "seconds": self.total.as_secs_f64(),
        })
    }
}

impl DemoStage {
    fn rate(&self) -> f64 {
        self.images as f64 / self.seconds.max(1e-9)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28}{:>10}{:>10}{:>12}", "stage", "images", "seconds", "images/s")?;
        for s in &self.stages {
            writeln!(f, "{:<28}{:>10}{:>10.2}{:>12.0}", s.name, s.images, s.seconds, s.rate())?;
        }
        writeln!(f)?;
        let mut line = |name: &str, value: String| writeln!(f, "{name:<20}{value}");
        line("samples", format!("{} ({:.1} MB)", self.samples, self.bytes as f64 / 1e6))?;
        line("bundle", self.digest.clone())?;
        line("decoder", self.decoder.clone())?;
        let accuracy = self.accuracy.map(|a| format!(", accuracy on val {:.0} %", 100.0 * a));
        line(
            "loss",
            format!(
                "{:.3} before, {:.3} after{}",
                self.loss.0,
                self.loss.1,
                accuracy.unwrap_or_default()
            ),
        )?;
        line("weights", self.weights[0].clone())?;
        let verdict = if self.bit_equal {
            "bit-equal to the undisturbed run's".to_owned()
        } else {
            format!("DIFFERENT: {}", self.weights[1])
        };
        line("after the resume", verdict)?;
        line("seconds in all", format!("{:.1}", self.total.as_secs_f64()))
    }
}

fn number(report: &Value, key: &str) -> Result<u64> {
    report[key].as_u64().with_context(|| format!("a report has no number `{key}`"))
}

fn real(report: &Value, key: &str) -> Result<f64> {
    report[key].as_f64().with_context(|| format!("a report has no number `{key}`"))
}

fn text(report: &Value, key: &str) -> Result<String> {
    Ok(report[key].as_str().with_context(|| format!("a report has no `{key}`"))?.to_owned())
}
