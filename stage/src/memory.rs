//! How much memory a job may still take: what the machine has free, and what each cgroup above this
//! process allows.
//!
//! Files in a tmpfs are charged to the cgroup of the process that writes them, so a copy that is
//! too large gets the job killed, instead of an error.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A limit on the size of the copy, such as free memory or disk space.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SpaceLimit {
    /// The name of the limit in messages.
    pub name: String,
    /// Bytes that the limit still allows.
    #[serde(rename = "available")]
    pub available_bytes: u64,
    /// Whether memory is limited, and not the space of a disk.
    pub memory: bool,
}

/// cgroup v1 writes a number near 2⁶³ for "no limit".
const UNLIMITED_V1: u64 = 1 << 62;

/// Returns everything that limits the memory of this process, read below `root` (`/`). A file that
/// cannot be read gives no limit.
pub(super) fn limits(root: &Path) -> Vec<SpaceLimit> {
    let mut limits: Vec<SpaceLimit> = Vec::new();
    limits.extend(available(root));
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    for group in groups.lines().filter_map(Group::parse) {
        limits.extend(group.limits(root));
    }
    limits
}

fn available(root: &Path) -> Option<SpaceLimit> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let available = kib.saturating_mul(1024);
    Some(SpaceLimit {
        name: "MemAvailable in /proc/meminfo".into(),
        available_bytes: available,
        memory: true,
    })
}

/// The memory cgroup of this process, in one of the two versions.
#[derive(Debug, PartialEq, Eq)]
struct Group<'a> {
    path: &'a str,
    version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl<'a> Group<'a> {
    /// Parses a line of /proc/self/cgroup: `number:controllers:path`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let version = match (number, controllers) {
            ("0", "") => Version::V2,
            (_, list) if list.split(',').any(|name| name == "memory") => Version::V1,
            _ => return None,
        };
        Some(Self { path, version })
    }

    /// Returns the limits of the group and all groups above it. A container may see its own group
    /// as the root of the hierarchy; then the path does not exist, and the root is used.
    fn limits(&self, root: &Path) -> Vec<SpaceLimit> {
        let top = root.join("sys/fs/cgroup");
        let tops = match self.version {
            Version::V1 => vec![top.join("memory")],
            Version::V2 => vec![top.join("unified"), top],
        };
        let names = Path::new(self.path).components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        });
        let inside: PathBuf = names.collect();
        let folders = |top: &PathBuf| -> Vec<PathBuf> {
            inside.ancestors().map(|below| top.join(below)).collect()
        };
        tops.iter().flat_map(folders).filter_map(|dir| self.version.limit(&dir, root)).collect()
    }
}

impl Version {
    fn limit(self, dir: &Path, root: &Path) -> Option<SpaceLimit> {
        let number = |name: &str| -> Option<u64> {
            fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
        };
        // The text `max` is not a number, so it gives no limit.
        let (files, usage, stat): (&[_], _, _) = match self {
            Self::V1 => {
                (&["memory.limit_in_bytes"], "memory.usage_in_bytes", "total_inactive_file")
            }
            Self::V2 => (&["memory.max", "memory.high"], "memory.current", "inactive_file"),
        };
        let limits = files.iter().filter_map(|file| Some((number(file)?, *file)));
        let (limit, file) = limits.filter(|(n, _)| *n < UNLIMITED_V1).min()?;
        // Cached file pages that were not used lately are freed when memory is needed.
        let text = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
        let idle = text.lines().find_map(|line| {
            line.strip_prefix(stat)?.strip_prefix(' ')?.trim().parse::<u64>().ok()
        });
        let used = number(usage).unwrap_or(0).saturating_sub(idle.unwrap_or(0));
        let shown = dir.join(file);
        let shown = shown.strip_prefix(root).unwrap_or(&shown).display().to_string();
        let name = format!("the memory limit in /{shown}");
        Some(SpaceLimit { name, available_bytes: limit.saturating_sub(used), memory: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn found(files: &[(&str, &str)]) -> Vec<(String, u64)> {
        let dir = root(files);
        limits(dir.path()).into_iter().map(|limit| (limit.name, limit.available_bytes)).collect()
    }

    #[test]
    fn a_machine_without_cgroups_has_its_available_memory() {
        let meminfo = "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable:      64 kB\n";
        let expected = [("MemAvailable in /proc/meminfo".to_owned(), 64 << 10)];
        assert_eq!(found(&[("proc/meminfo", meminfo)]), expected);
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[("proc/meminfo", "MemAvailable: many kB\n")]), []);
    }

    #[test]
    fn every_group_above_counts_and_max_does_not() {
        let found = found(&[
            ("proc/self/cgroup", "0::/job_1/step_0/task\n"),
            ("sys/fs/cgroup/job_1/memory.max", "1000\n"),
            ("sys/fs/cgroup/job_1/memory.current", "300\n"),
            ("sys/fs/cgroup/job_1/memory.stat", "anon 5\ninactive_file 100\nactive_file 9\n"),
            ("sys/fs/cgroup/job_1/step_0/memory.max", "max\n"),
            ("sys/fs/cgroup/job_1/step_0/memory.current", "300\n"),
            ("sys/fs/cgroup/job_1/step_0/task/memory.max", "max\n"),
            ("sys/fs/cgroup/job_1/step_0/task/memory.high", "500\n"),
            ("sys/fs/cgroup/job_1/step_0/task/memory.current", "600\n"),
        ]);
        let name = |file: &str| format!("the memory limit in /sys/fs/cgroup/job_1/{file}");
        let expected = [(name("step_0/task/memory.high"), 0), (name("memory.max"), 800)];
        assert_eq!(found, expected);
    }

    #[test]
    fn version_1_has_a_tree_of_its_own() {
        let files = [
            ("proc/self/cgroup", "5:cpu,cpuacct:/slurm\n4:memory:/slurm/job_1\n0::/init\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes", "5000\n"),
            // A soft limit may be exceeded while there is memory, so it is not counted.
            ("sys/fs/cgroup/memory/slurm/job_1/memory.soft_limit_in_bytes", "2100\n"),
            ("sys/fs/cgroup/memory/slurm/job_1/memory.usage_in_bytes", "2000\n"),
            (
                "sys/fs/cgroup/memory/slurm/job_1/memory.stat",
                "inactive_file 1\ntotal_inactive_file 500\n",
            ),
        ];
        let found = found(&files);
        let name = "the memory limit in /sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes";
        assert_eq!(found, [(name.to_owned(), 3500)]);
    }

    #[test]
    fn a_container_that_sees_itself_as_the_root_has_the_limit_of_the_root() {
        let found = found(&[
            ("proc/self/cgroup", "0::/../../docker/0123\n"),
            ("sys/fs/cgroup/memory.max", "70\n"),
        ]);
        assert_eq!(found, [("the memory limit in /sys/fs/cgroup/memory.max".to_owned(), 70)]);
    }

    #[test]
    fn lines_that_are_no_memory_group_are_passed_over() {
        for line in ["", "1:cpu:/a", "0", "1:name=systemd:/a", "2:memoryx:/a"] {
            assert_eq!(Group::parse(line), None, "{line}");
        }
        let path = "/a:b";
        assert_eq!(Group::parse("0::/a:b"), Some(Group { path, version: Version::V2 }));
        assert_eq!(
            Group::parse("9:hugetlb,memory:/a:b"),
            Some(Group { path, version: Version::V1 })
        );
    }
}
