//! Wall-clock time, the CPU time of this process, and that of all other processes.

use std::time::Instant;

/// `sysconf(_SC_CLK_TCK)`, which is 100 on every Linux this runs on.
const TICKS_A_SECOND: f64 = 100.0;

/// Measures all three clocks from its start.
pub(crate) struct Watch {
    wall: Instant,
    cpu: f64,
    busy: Option<f64>,
}

/// The time that passed on each clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elapsed {
    pub(crate) seconds: f64,
    /// CPU seconds of this process.
    pub(crate) cpu: f64,
    /// Cores that others kept busy, on average; 0 where the system does not say.
    pub(crate) others: f64,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        Self { busy: machine_busy(), cpu: own_cpu(), wall: Instant::now() }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.wall.elapsed().as_secs_f64()
    }

    pub(crate) fn end(&self) -> Elapsed {
        let seconds = self.seconds().max(1e-9);
        let cpu = own_cpu() - self.cpu;
        let all = self.busy.zip(machine_busy()).map(|(before, after)| after - before);
        // Ticks of 10 ms: a shorter time than a few of them says nothing.
        let others = all.filter(|_| seconds > 0.1).map_or(0.0, |all| (all - cpu) / seconds);
        Elapsed { seconds, cpu, others: others.max(0.0) }
    }
}

fn own_cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// CPU seconds that the machine was busy since it started, waiting for disks not
/// counted, time that a hypervisor took away counted.
fn machine_busy() -> Option<f64> {
    busy(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// user nice system idle iowait irq softirq steal
fn busy(stat: &str) -> Option<f64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks = line.split_ascii_whitespace().take(8).enumerate();
    let busy = ticks.filter(|(i, _)| *i != 3 && *i != 4);
    let sum: Result<u64, _> = busy.map(|(_, n)| n.parse::<u64>()).sum();
    Some(sum.ok()? as f64 / TICKS_A_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_are_not_busy() {
        assert_eq!(busy("cpu  100 20 30 1000 500 1 2 3 7 8\ncpu0 1 1\n"), Some(1.56));
        assert_eq!(busy("intr 5\n"), None);
        assert_eq!(busy(""), None);
    }

    #[test]
    fn a_busy_thread_is_seen_as_this_process() {
        let watch = Watch::begin();
        let mut sum = 0_u64;
        while watch.seconds() < 0.02 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let elapsed = watch.end();
        assert!(elapsed.seconds >= 0.02 && elapsed.cpu > 0.0, "{elapsed:?}");
    }
}
