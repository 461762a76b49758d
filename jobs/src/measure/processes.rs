//! A process and all its descendants.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Memory of some processes at one moment, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// Proportional set sizes: what several share counts once.
    pub(super) pss: u64,
    /// Shared memory, which is a part of `pss`.
    pub(super) shared: u64,
    /// Number of processes.
    pub(super) processes: u64,
}

/// The processes of one tree; a process whose parent has ended stays in it.
#[derive(Debug)]
pub(super) struct Processes {
    /// Start times by process number, since numbers are used again.
    known: BTreeMap<u32, u64>,
}

/// The values in /proc/PID/stat that are used here.
struct Stat {
    parent: u32,
    started: u64,
}

impl Processes {
    pub(super) fn of(first: u32) -> Self {
        let started = stat(first).map_or(0, |stat| stat.started);
        Self { known: BTreeMap::from([(first, started)]) }
    }

    /// Finds new processes, and sums up the memory of all.
    pub(super) fn look(&mut self) -> Memory {
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let stats: BTreeMap<u32, Stat> =
            numbers.filter_map(|pid| Some((pid, stat(pid)?))).collect();
        self.known.retain(|pid, started| {
            stats.get(pid).is_some_and(|stat| stat.started == *started || *started == 0)
        });
        let mut found: BTreeSet<u32> = self.known.keys().copied().collect();
        loop {
            let new: Vec<u32> = stats
                .iter()
                .filter(|(pid, stat)| !found.contains(pid) && found.contains(&stat.parent))
                .map(|(pid, _)| *pid)
                .collect();
            if new.is_empty() {
                break;
            }
            found.extend(new);
        }
        let mut sum = Memory::default();
        for pid in found {
            if let Some(stat) = stats.get(&pid) {
                self.known.insert(pid, stat.started);
            }
            let Ok(rollup) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else {
                continue;
            };
            let memory = rollup_bytes(&rollup);
            sum.pss = sum.pss.saturating_add(memory.pss);
            sum.shared = sum.shared.saturating_add(memory.shared);
            sum.processes += 1;
        }
        sum
    }
}

/// Returns a process's memory without copies of files: programs and libraries, which the kernel can
/// drop.
fn rollup_bytes(text: &str) -> Memory {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib =
            line.and_then(|value| value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.map(|kib| kib.saturating_mul(1024))
    };
    let shared = value("Pss_Shmem").unwrap_or(0);
    // Kernels before 5.13 report the sum alone.
    let pss = value("Pss_Anon")
        .map_or_else(|| value("Pss").unwrap_or(0), |own| own.saturating_add(shared));
    Memory { pss, shared, processes: 1 }
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = after_name(&text)?;
    Some(Stat { parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
}

/// Fields from the third on: the name before may hold anything, brackets too.
fn after_name(stat: &str) -> Option<Vec<&str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace().collect())
}

/// CPU seconds used by this process's children that have ended, and by their children.
pub(super) fn children_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = after_name(&text).unwrap_or_default();
    let ticks =
        |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(13) + ticks(14)) / (rustix::param::clock_ticks_per_second().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proc_says_is_read() {
        let old = "Rss: 9 kB\nPss:                 199 kB\n";
        assert_eq!(rollup_bytes(old), Memory { pss: 199 << 10, shared: 0, processes: 1 });
        let new = format!("{old}Pss_Anon: 100 kB\nPss_File: 90 kB\nPss_Shmem: 9 kB\n");
        assert_eq!(rollup_bytes(&new), Memory { pss: 109 << 10, shared: 9 << 10, processes: 1 });
        assert_eq!(after_name("1 (a) b) S 7"), Some(vec!["S", "7"]));
        assert_eq!(after_name("odd"), None);
    }

    #[test]
    fn this_process_has_memory() {
        let memory = Processes::of(std::process::id()).look();
        assert!(memory.pss > 100 << 10 && memory.processes >= 1, "{memory:?}");
    }
}
