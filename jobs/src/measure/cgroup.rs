//! A memory cgroup for one command, if this user may create one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

/// Removed when it is dropped, if the command left nothing behind.
#[derive(Debug)]
pub(super) struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes a cgroup below that of this process, in version 1 or 2.
    pub(super) fn create() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = |line: &str| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) =
                (parts.next()?, parts.next()?.trim_start_matches('/').to_owned());
            match controllers {
                "" => Some(Path::new("/sys/fs/cgroup").join(path)),
                list if list.split(',').any(|name| name == "memory") => {
                    Some(Path::new("/sys/fs/cgroup/memory").join(path))
                }
                _ => None,
            }
        };
        groups.lines().filter_map(path).find_map(|above| {
            let dir = above.join(format!("gular-measure-{}", process::id()));
            fs::create_dir(&dir).ok()?;
            let group = Self(dir);
            // Version 2 counts memory only where the group above hands it down.
            (group.bytes().is_some() && group.processes().exists()).then_some(group)
        })
    }

    /// The file to which a process writes its number to enter the cgroup.
    pub(super) fn processes(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    /// Memory of its processes and their shared memory, without what the kernel can drop.
    pub(super) fn bytes(&self) -> Option<u64> {
        sum(&fs::read_to_string(self.0.join("memory.stat")).ok()?)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// `anon` and `shmem` of version 2, `rss` and `shmem` of version 1, whose `total_` lines are
/// with groups below.
fn sum(stat: &str) -> Option<u64> {
    let value = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let own = value("anon").or_else(|| value("total_rss")).or_else(|| value("rss"))?;
    let shared = value("total_shmem").or_else(|| value("shmem")).unwrap_or(0);
    Some(own.saturating_add(shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_summed() {
        assert_eq!(sum("anon 5\nfile 100\nshmem 3\n"), Some(8));
        assert_eq!(sum("cache 100\nrss 5\nshmem 3\ntotal_rss 7\ntotal_shmem 4\n"), Some(11));
        assert_eq!(sum("cache 1\n"), None);
        assert_eq!(sum("rss many\n"), None);
    }
}
