//! The machine: what the figures depend on besides the data.

use std::fs;
use std::path::Path;

use crate::bench_report::Machine;

/// Describes this machine, with files in `scratch`.
pub(crate) fn machine(scratch: &Path, cores: usize) -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let memory = read("/proc/meminfo");
    Machine {
        cpu: cpu.unwrap_or("unknown").trim_start_matches(['\t', ' ', ':']).to_owned(),
        cores,
        memory_bytes: kilobytes(&memory, "MemTotal:"),
        available_memory_bytes: kilobytes(&memory, "MemAvailable:"),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        scratch: scratch.display().to_string(),
        jpeg: gular_codec::jpeg_backend().to_string(),
    }
}

/// Returns the bytes of memory that are available.
pub(crate) fn memory_available() -> u64 {
    kilobytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemAvailable:")
}

fn kilobytes(meminfo: &str, name: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    number.map_or(0, |n| n.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "MemTotal:       2048 kB\nMemAvailable:      7 kB\n";
        assert_eq!(kilobytes(text, "MemTotal:"), 2 << 20);
        assert_eq!(kilobytes(text, "MemAvailable:"), 7 << 10);
        assert_eq!(kilobytes("", "MemTotal:"), 0);
    }
}
