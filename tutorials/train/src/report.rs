//! What a training says of itself.

use std::time::Duration;

use anyhow::{Context as _, Result};
use gular_runtime::torch::Feed;
use gular_runtime::{Phase, Stats};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

/// As `eprintln`, but a training does not end because nobody reads its log, or because
/// there is no room for it.
macro_rules! say {
    ($($what:tt)*) => {{
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}
pub(crate) use say;

/// On stderr, and only when that is a terminal; hidden where another rank shows it.
pub(crate) fn progress_bar(
    train: &Feed,
    epoch: u64,
    epochs: u64,
    shown: bool,
) -> Result<ProgressBar> {
    if !shown {
        return Ok(ProgressBar::hidden());
    }
    let template = "{prefix} {bar:30} {pos}/{len} images, {per_sec}, {eta} left, {msg}";
    let style = ProgressStyle::with_template(template).context("the bar's template")?;
    let bar = ProgressBar::new(train.loader().n_positions()).with_style(style);
    let state = train.state();
    if state.epoch == epoch {
        bar.set_position(state.consumed);
        bar.reset_eta();
    }
    Ok(bar.with_prefix(format!("epoch {}/{epochs}", epoch + 1)))
}

/// A time as people say it.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// What the loader did and waited for.
pub(crate) fn loader_json(stats: &Stats) -> Value {
    let seconds = |stage| stats.of(stage).as_secs_f64();
    json!({
        "images": stats.images,
        "bytes": stats.bytes,
        "skipped": stats.skipped,
        "unlabelled": stats.unlabelled,
        "threads": stats.threads,
        "images_per_second": stats.images_per_second(),
        "read_seconds": seconds(Phase::Read),
        "check_seconds": seconds(Phase::Check),
        "decode_seconds": seconds(Phase::Decode),
        "wait_for_slot_seconds": seconds(Phase::WaitForSlot),
        "wait_for_batch_seconds": seconds(Phase::WaitForBatch),
        "bottleneck": stats.bottleneck(),
    })
}
