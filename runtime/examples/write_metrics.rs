//! Writes metrics like a training run that is killed after step 30 and resumes from its checkpoint
//! of step 20: `write_metrics DIR`.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use gular_runtime::metrics::{METRICS_NAME, Metrics};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let dir = env::args_os().nth(1).ok_or("usage: write_metrics DIR")?;
    let dir = Path::new(&dir);
    train(Metrics::open(dir, None)?, 1..=30, 1.0)?;
    // A kill while writing leaves half a line.
    let mut file = OpenOptions::new().append(true).open(dir.join(METRICS_NAME))?;
    file.write_all(b"{\"step\":31,\"ep")?;
    train(Metrics::open(dir, Some(20))?, 21..=40, 2.0)?;
    // The run is killed again, before any step.
    Metrics::open(dir, Some(40))?;
    train(Metrics::open(dir, Some(40))?, 41..=300, 3.0)
}

fn train(mut metrics: Metrics, steps: impl Iterator<Item = u64>, course: f64) -> Result<()> {
    for step in steps {
        let loss = course / step as f64;
        metrics.log(step, step / 10, &[("loss/train", loss), ("images/s", 1e3 + loss)])?;
        if step % 10 == 0 {
            metrics.log(step, step / 10, &[("loss/val", -loss)])?;
        }
    }
    Ok(())
}
