//! The measured values, and what to request.

use std::fmt::Write as _;

use serde::Serialize;

use super::processes::Memory;
use crate::units::request;

/// What a command needed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Measured {
    /// The command's exit code; 128 + n if signal n ended it.
    pub exit_code: i32,
    /// How long the command ran.
    pub seconds: f64,
    /// CPU time of the command, on all cores together.
    pub cpu_seconds: f64,
    /// The most memory in use at one moment, private and shared, in which each byte counts once.
    pub memory_bytes: u64,
    /// The method by which memory was measured: `cgroup` or `pss`.
    pub memory_by: &'static str,
    /// Memory as the kernel counts it for the cgroup; `None` if no cgroup could be made.
    pub cgroup_bytes: Option<u64>,
    /// Memory as the sum of the proportional set sizes of the processes.
    pub pss_bytes: u64,
    /// The most shared memory in use at one moment, including files in /dev/shm.
    pub shared_bytes: u64,
    /// The highest number of processes at one moment.
    pub processes: u64,
    /// The most bytes, at one moment, of files that the command made or changed in its folder.
    pub disk_bytes: u64,
    /// How much the used memory of a GPU grew, for the GPU where it grew most; `None` without
    /// nvidia-smi.
    pub gpu_bytes: Option<u64>,
}

impl Measured {
    /// Takes one look in. `shm`: what /dev/shm has grown by.
    pub(super) fn saw(&mut self, memory: Memory, shm: u64, cgroup: Option<u64>) {
        // Files there that somebody maps are in the sum already.
        let pss = memory.pss.saturating_add(shm.saturating_sub(memory.shared));
        self.pss_bytes = self.pss_bytes.max(pss);
        self.shared_bytes = self.shared_bytes.max(memory.shared.max(shm));
        self.processes = self.processes.max(memory.processes);
        self.cgroup_bytes = self.cgroup_bytes.max(cgroup);
        // A cgroup's numbers lag behind by some pages of each core.
        self.memory_bytes = self.memory_bytes.max(pss).max(cgroup.unwrap_or(0));
    }
}

/// The share of the whole work that the command did: 2 of 50 epochs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The work that the command did.
    pub done: f64,
    /// The whole work, in the same unit.
    pub of: f64,
}

/// Lines of a submit file: a quarter more than was seen.
#[must_use]
pub fn requests(measured: &Measured, share: Option<Share>) -> Vec<(&'static str, String)> {
    let more = |bytes: u64| bytes.saturating_add(bytes / 4);
    let cores =
        (measured.cpu_seconds / measured.seconds.max(1e-3)).ceil().clamp(1.0, 4096.0) as u64;
    let mut lines = vec![
        ("request_cpus", cores.to_string()),
        ("request_memory", request(more(measured.memory_bytes).max(256 << 20))),
        ("request_disk", request(more(measured.disk_bytes).saturating_add(1 << 30))),
    ];
    if let Some(bytes) = measured.gpu_bytes.filter(|bytes| *bytes > 0) {
        lines.push(("request_gpus", "1".to_owned()));
        // CUDA itself is in it; memory that PyTorch keeps but does not need is, too.
        lines.push(("gpus_minimum_memory", request(bytes.saturating_add(bytes / 10))));
    }
    if let Some(share) = share {
        let hours = measured.seconds * share.of / share.done.max(1e-9) / 3600.0;
        let class = match hours {
            hours if hours <= 12.0 => "\"short\"",
            hours if hours <= 24.0 => "\"medium\"",
            _ => "\"long\"",
        };
        if measured.gpu_bytes.is_some_and(|bytes| bytes > 0) {
            lines.push(("+GPUJobLength", class.to_owned()));
        }
        // The OSPool expects this of each job; twice as much is its limit.
        lines.push((
            "+JobDurationCategory",
            if hours <= 10.0 { "\"Medium\"" } else { "\"Long\"" }.to_owned(),
        ));
    }
    lines
}

/// Returns the requests as options of `gular job new`.
#[must_use]
pub fn options(measured: &Measured, share: Option<Share>) -> String {
    let size = |bytes: u64| request(bytes.saturating_add(bytes / 4)).replace(' ', "");
    let cores =
        (measured.cpu_seconds / measured.seconds.max(1e-3)).ceil().clamp(1.0, 4096.0) as u64;
    let mut text = format!(
        "--cpus {cores} --memory {} --disk {}",
        size(measured.memory_bytes.max(205 << 20)),
        size(measured.disk_bytes)
    );
    if let Some(bytes) = measured.gpu_bytes.filter(|bytes| *bytes > 0) {
        let memory = request(bytes.saturating_add(bytes / 10)).replace(' ', "");
        let _ = write!(text, " --gpus 1 --gpu-memory {memory}");
    }
    if let Some(share) = share {
        let minutes = measured.seconds * share.of / share.done.max(1e-9) / 60.0 * 1.25;
        let _ = match minutes {
            ..60.0 => write!(text, " --time {}min", minutes.ceil().max(1.0)),
            _ => write!(text, " --time {}h", (minutes / 60.0).ceil()),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_counts_once_and_unmapped_files_count() {
        let mut measured = Measured::default();
        measured.saw(Memory { pss: 100, shared: 40, processes: 3 }, 60, None);
        assert_eq!((measured.memory_bytes, measured.shared_bytes), (120, 60));
        measured.saw(Memory { pss: 10, shared: 0, processes: 1 }, 0, None);
        assert_eq!((measured.memory_bytes, measured.processes), (120, 3));
        measured.saw(Memory { pss: 10, shared: 0, processes: 1 }, 0, Some(500));
        assert_eq!((measured.memory_bytes, measured.pss_bytes), (500, 120));
    }

    #[test]
    fn requests_have_a_quarter_to_spare() {
        let measured = Measured {
            seconds: 3600.0,
            cpu_seconds: 5000.0,
            memory_bytes: 4 << 30,
            disk_bytes: 4 << 30,
            gpu_bytes: Some(10 << 30),
            ..Measured::default()
        };
        let lines = requests(&measured, Some(Share { done: 1.0, of: 15.0 }));
        let text: Vec<String> =
            lines.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        assert_eq!(
            text,
            [
                "request_cpus = 2",
                "request_memory = 5 GB",
                "request_disk = 6 GB",
                "request_gpus = 1",
                "gpus_minimum_memory = 11 GB",
                "+GPUJobLength = \"medium\"",
                "+JobDurationCategory = \"Long\"",
            ]
        );
        assert_eq!(
            options(&measured, Some(Share { done: 1.0, of: 15.0 })),
            "--cpus 2 --memory 5GB --disk 5GB --gpus 1 --gpu-memory 11GB --time 19h"
        );
        // Without a GPU, HTCondor would ignore the label of the length class.
        let none = Measured { gpu_bytes: None, seconds: 60.0, ..measured };
        let lines = requests(&none, Some(Share { done: 1.0, of: 10.0 }));
        assert!(lines.iter().all(|(name, _)| !name.contains("GPU")), "{lines:?}");
        assert!(options(&none, Some(Share { done: 1.0, of: 10.0 })).ends_with(" --time 13min"));
    }
}
