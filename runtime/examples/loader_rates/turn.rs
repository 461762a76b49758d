//! One turn of a process, and the clocks around it.

use std::error::Error;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

pub(crate) type Answer = Result<Value, Box<dyn Error>>;

/// The work of a contestant in a turn of so many seconds.
type Turn = Box<dyn FnMut(f64) -> Answer>;

/// Contestants that share a process.
#[derive(Default)]
pub(crate) struct Host {
    contestants: Vec<(String, Turn)>,
    /// Facts about the contestants, for the record.
    pub(crate) facts: Value,
}

impl Host {
    /// Adds a contestant; `turn` is told how many seconds to take.
    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        turn: impl FnMut(f64) -> Answer + 'static,
    ) {
        self.contestants.push((name.into(), Box::new(turn)));
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.contestants.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub(crate) fn turn(&mut self, name: &str, seconds: f64) -> Answer {
        let found = self.contestants.iter_mut().find(|(own, _)| own == name);
        found.ok_or_else(|| format!("there is no contestant `{name}`"))?.1(seconds)
    }
}

/// Wall clock and a CPU clock since it was begun.
pub(crate) struct Watch {
    wall: Instant,
    cpu: f64,
    clock: ClockId,
}

impl Watch {
    /// Starts a clock of all threads of this process.
    pub(crate) fn begin() -> Self {
        Self::on(ClockId::ProcessCPUTime)
    }

    /// Starts a clock of this thread alone.
    pub(crate) fn of_thread() -> Self {
        Self::on(ClockId::ThreadCPUTime)
    }

    fn on(clock: ClockId) -> Self {
        Self { wall: Instant::now(), cpu: seconds(clock), clock }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.wall.elapsed().as_secs_f64()
    }

    pub(crate) fn cpu_seconds(&self) -> f64 {
        seconds(self.clock) - self.cpu
    }

    /// Returns the answer of a turn after so many samples.
    pub(crate) fn answer(&self, samples: u64) -> Value {
        json!({
            "samples": samples, "seconds": self.seconds(), "cpu_seconds": self.cpu_seconds(),
        })
    }
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
