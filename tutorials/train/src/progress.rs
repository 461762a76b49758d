//! Prints the progress of a training run.

use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gular_runtime::{Bottleneck, Phase, Stats};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

/// Prints like `eprintln`, but without secrets, and a training run does not end because nobody reads
/// its log, or because the disk is full.
macro_rules! say {
    ($($what:tt)*) => {{
        let text = format!($($what)*);
        let _ = writeln!(std::io::stderr(), "{}", gular_runtime::mask(&text));
    }};
}
pub(crate) use say;

/// Prints a result on stdout, without secrets.
pub(crate) fn print_result(text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{}", gular_runtime::mask(text))
}

/// How often the line on a terminal is updated.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// The line that is written, for waits that no step has told of.
static LINE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Says in the line what the training waits for, if it does: the next step says other things.
pub(crate) fn waiting_for(what: Option<&str>) {
    let line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    if let (Some(line), Some(what)) = (&*line, what) {
        line.set_message(format!("waiting for {what}"));
    }
}

/// One line on stderr with the progress, the rate, and the bottleneck. On a terminal it is updated
/// again and again; in a log there is a new one from time to time.
pub(crate) struct Progress {
    what: String,
    n_steps: u64,
    step: u64,
    /// The step at which it began.
    first: u64,
    images: u64,
    /// Steps that come after these, for the time that is left.
    later: u64,
    begun: Instant,
    /// The line, which is hidden if stderr is not a terminal.
    line: ProgressBar,
    /// How often a line is added to a log, if stderr is one.
    log_every: Option<Duration>,
    shown: Instant,
    /// The loader's sums when the line was written last.
    before: Option<Stats>,
    waited_for: Option<Bottleneck>,
}

impl Progress {
    /// Makes the line for `n_steps` steps of `what`; a log gets one every `log_every`, or none
    /// without it.
    pub(crate) fn new(what: &str, n_steps: u64, log_every: Option<Duration>) -> Self {
        let line = log_every.map_or_else(ProgressBar::hidden, |_| ProgressBar::new_spinner());
        let style = ProgressStyle::with_template("{msg}");
        let line = line.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let log_every = log_every.filter(|_| line.is_hidden());
        *LINE.lock().unwrap_or_else(PoisonError::into_inner) = Some(line.clone());
        let now = Instant::now();
        Self {
            what: what.to_owned(),
            n_steps,
            step: 0,
            first: 0,
            images: 0,
            later: 0,
            begun: now,
            line,
            log_every,
            shown: now,
            before: None,
            waited_for: None,
        }
    }

    /// Begins at `step`, with `later` more steps to come after the last.
    pub(crate) fn from(mut self, step: u64, later: u64) -> Self {
        (self.step, self.first, self.later) = (step, step, later);
        self
    }

    /// After a step of `images` images, with the loader's sums.
    pub(crate) fn step(&mut self, images: u64, loss: Option<f64>, stats: &Stats) {
        self.step += 1;
        self.images += images;
        let every = self.log_every.unwrap_or(SHOW_EVERY);
        let is_shown = !self.line.is_hidden() || self.log_every.is_some();
        if !is_shown || self.shown.elapsed() < every {
            return;
        }
        let of_late = self.before.as_ref().map_or(*stats, |before| stats.since(before));
        self.waited_for = of_late.waited_for().or(self.waited_for);
        (self.shown, self.before) = (Instant::now(), Some(*stats));
        let text = self.text(self.begun.elapsed(), loss);
        if self.log_every.is_some() {
            say!("{text}");
        } else {
            self.line.set_message(text);
        }
    }

    fn text(&self, elapsed: Duration, loss: Option<f64>) -> String {
        let Self { what, step, n_steps, .. } = self;
        let mut text = format!("{what}, step {step}/{n_steps}");
        if let Some(loss) = loss {
            text += &format!(", loss {loss:.3}");
        }
        let seconds = elapsed.as_secs_f64().max(1e-9);
        text += &format!(", {:.0} images/s", self.images as f64 / seconds);
        let left = self.n_steps.saturating_sub(self.step) + self.later;
        let done = self.step - self.first;
        if left > 0 && done > 0 {
            let left = seconds / done as f64 * left as f64;
            let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX);
            text += &format!(", {} left", time(left));
        }
        if let Some(bottleneck) = self.waited_for {
            text += &format!(", waiting for {}", bottleneck.name());
        }
        text
    }

    /// Removes the line, so that other text can be printed.
    pub(crate) fn clear(&self) {
        self.line.finish_and_clear();
    }
}

/// Formats a time for people.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Returns the loader's work and waiting times.
pub(crate) fn loader_json(stats: &Stats) -> Value {
    let seconds = |phase| stats.of(phase).as_secs_f64();
    json!({
        "images": stats.images,
        "bytes": stats.bytes,
        "skipped": stats.skipped,
        "repaired_blocks": stats.repaired_blocks,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_what_is_waited_for_and_counts_what_this_run_did() {
        let ms = Duration::from_millis;
        let mut progress = Progress::new("epoch 2/3", 10, None).from(4, 20);
        progress.step(64, Some(1.5), &Stats::default());
        assert_eq!(
            progress.text(ms(2000), Some(1.5)),
            "epoch 2/3, step 5/10, loss 1.500, 32 images/s, 50 s left"
        );
        let slow = Stats {
            time: [ms(10), ms(0), ms(900), ms(0), ms(0), ms(500)],
            batches: 9,
            elapsed: ms(1000),
            ..Stats::default()
        };
        progress.log_every = Some(Duration::ZERO);
        progress.step(64, None, &slow);
        let text = progress.text(ms(2000), None);
        assert!(
            text.ends_with("step 6/10, 64 images/s, 24 s left, waiting for decoding"),
            "{text}"
        );
    }
}
