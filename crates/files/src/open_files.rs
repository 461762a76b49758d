//! How many files this process may have open.

use rustix::process::{Resource, getrlimit};

/// The files that this process may have open at a time (`ulimit -n`), sockets and all.
#[must_use]
pub fn open_files_limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_that_of_the_kernel() {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let soft = line.split_whitespace().nth(3).unwrap();
        assert_eq!(open_files_limit(), soft.parse().unwrap_or(usize::MAX));
    }
}
