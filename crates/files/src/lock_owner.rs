//! Which process made a lock file.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// One lock of one process, told apart from all others.
///
/// ```text
/// gular-lock 1 HOST BOOT PID-NAMESPACE PID START NUMBER
/// ```
///
/// The host's name is for people: many machines are called `localhost`. The process number is valid
/// within the kernel's boot id and its namespace, and the start time tells the process from a later
/// one with the same number. Unknown values are `-`, which is equal to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Who {
    host: String,
    boot: String,
    namespace: String,
    pid: u32,
    start: u64,
    number: u64,
}

const UNKNOWN: &str = "-";

impl Who {
    /// Returns the identity of a new lock of this process.
    pub(crate) fn of_this_lock() -> Self {
        Self::of_process(std::process::id())
    }

    pub(crate) fn of_process(pid: u32) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let read = |path: &str| word(&fs::read_to_string(path).unwrap_or_default());
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            namespace: word(&namespace.to_string_lossy()),
            pid,
            start: started(pid).unwrap_or(0),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub(crate) fn line(&self) -> String {
        let Self { host, boot, namespace, pid, start, number } = self;
        format!("gular-lock 1 {host} {boot} {namespace} {pid} {start} {number}\n")
    }

    /// `None` for what is not such a line, or one of a later version.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.strip_suffix('\n')?.split(' ').collect();
        let ["gular-lock", "1", host, boot, namespace, pid, start, number] = words[..] else {
            return None;
        };
        Some(Self {
            host: host.to_owned(),
            boot: boot.to_owned(),
            namespace: namespace.to_owned(),
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
            number: number.parse().ok()?,
        })
    }

    /// Whether the lock's process is known to have ended, which is only possible for one of this
    /// boot and namespace.
    pub(crate) fn is_gone(&self) -> bool {
        let here = Self::of_this_lock();
        let unknown = [&here.boot, &here.namespace].iter().any(|word| *word == UNKNOWN);
        if unknown || (&here.boot, &here.namespace) != (&self.boot, &self.namespace) {
            return false;
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let ended = pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH));
        let other = self.start > 0 && started(self.pid).is_some_and(|start| start != self.start);
        ended || other
    }
}

/// Makes a text one word of a line.
fn word(text: &str) -> String {
    let text: String = text.trim().chars().filter(char::is_ascii_graphic).collect();
    if text.is_empty() { UNKNOWN.to_owned() } else { text }
}

/// Returns when a process started, in clock ticks since the boot: field 22 of proc(5)'s `stat`,
/// counted from the end of the process's name, which may have spaces.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let who = Who::of_this_lock();
        assert_eq!(Who::parse(&who.line()), Some(who.clone()));
        assert_ne!(Who::of_this_lock(), who, "each lock is another");
        let cut = who.line().trim_end().to_owned();
        for line in ["", "\n", "gular-lock 2 a b c 1 2 3\n", "gular-lock 1 a b c x 2 3\n", &cut] {
            assert_eq!(Who::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn only_a_process_of_this_machine_is_known_to_be_gone() {
        let own = Who::of_this_lock();
        assert!(!own.is_gone());
        assert!(Who { start: own.start + 1, ..own.clone() }.is_gone(), "its number went on");
        // The number is above the largest that Linux assigns.
        let ended = Who { pid: 1 << 23, ..own.clone() };
        assert!(ended.is_gone());
        assert!(!Who { boot: "elsewhere".into(), ..ended.clone() }.is_gone());
        assert!(!Who { namespace: "pid:[1]".into(), ..ended }.is_gone());
    }
}
