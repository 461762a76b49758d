//! Checks whether a copy fits, before a byte is written.

use std::path::{Path, PathBuf};

use gular_files::Env;

use super::folder::Taken;
use super::memory::{self, SpaceLimit};
use super::need::Need;
use crate::Error;

/// The type that `statfs` gives for a file system in memory.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

/// The space that a folder offers.
#[derive(Debug)]
pub(super) struct MeasuredSpace {
    dir: PathBuf,
    limits: Vec<SpaceLimit>,
    inodes: Option<u64>,
    file_bytes: Option<u64>,
    pub(super) in_memory: bool,
}

impl MeasuredSpace {
    /// Measures `dir`, which must exist; /proc and /sys are read below `root`.
    pub(super) fn of(dir: &Path, root: &Path) -> Result<Self, Error> {
        let refused = |e: rustix::io::Errno| Error::io("measure", dir, e.into());
        let free = gular_files::free(dir)?;
        let kind = u64::try_from(rustix::fs::statfs(dir).map_err(refused)?.f_type).unwrap_or(0);
        let in_memory = matches!(kind, TMPFS | RAMFS);
        let name = format!("the free space of `{}`", dir.display());
        let limit = |available_bytes| SpaceLimit { name, available_bytes, memory: false };
        // A tmpfs without a size has no limit of its own.
        let sized = (free.bytes < u64::MAX).then_some(free.bytes);
        let mut limits: Vec<SpaceLimit> = sized.map(limit).into_iter().collect();
        if in_memory {
            limits.extend(memory::limits(root));
        }
        let file_bytes = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        let inodes = (free.files < u64::MAX).then_some(free.files);
        Ok(Self { dir: dir.to_owned(), limits, inodes, file_bytes, in_memory })
    }

    /// Returns the space after files that others left are removed.
    pub(super) fn without(mut self, left: Taken) -> Self {
        for limit in &mut self.limits {
            limit.available_bytes = limit.available_bytes.saturating_add(left.bytes);
        }
        self.inodes = self.inodes.map(|free| free.saturating_add(left.inodes));
        self
    }

    /// Returns the limit that allows the least.
    pub(super) fn tightest(&self) -> Option<&SpaceLimit> {
        self.limits.iter().min_by_key(|limit| limit.available_bytes)
    }

    /// Returns whether less than half of the space would be taken, in addition to `reserved` bytes
    /// that are promised to others.
    pub(super) fn is_ample(&self, need: Need, reserved: u64) -> bool {
        let half = |limit: &SpaceLimit| limit.available_bytes.saturating_sub(reserved) / 2;
        self.tightest().is_none_or(|limit| need.with_margin() <= half(limit))
            && self.check(need, reserved).is_ok()
    }

    /// Fails if the copy does not fit, and says which limit is too low.
    pub(super) fn check(&self, need: Need, reserved: u64) -> Result<(), Error> {
        let dir = self.dir.display().to_string();
        let needed = need.with_margin();
        if let Some(limit) = self.tightest() {
            let available = limit.available_bytes.saturating_sub(reserved);
            if available < needed {
                let (limit, memory) = (limit.name.clone(), self.in_memory);
                return Err(Error::NoRoom { dir, needed, available, limit, memory });
            }
        }
        if let Some(limit) = self.file_bytes.filter(|limit| *limit < need.largest) {
            return Err(Error::FileTooLarge { dir, needed: need.largest, limit });
        }
        if let Some(free) = self.inodes.filter(|free| *free < need.inodes) {
            return Err(Error::TooManyFiles { dir, needed: need.inodes, free });
        }
        Ok(())
    }
}

/// The place of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StageTo {
    /// Memory if the copy takes less than half of what is available, else scratch.
    #[default]
    Auto,
    /// `/dev/shm`.
    Shm,
    /// The job's scratch folder: `_CONDOR_SCRATCH_DIR`, `SLURM_TMPDIR`, `TMPDIR`, else `/tmp`.
    Scratch,
    /// A folder that exists.
    Dir(PathBuf),
}

impl StageTo {
    /// Returns the folders to try, best first; all but the last are used only if there is ample
    /// space. `/dev` is looked for below `root`.
    pub(super) fn folders(&self, env: &Env, root: &Path) -> Vec<PathBuf> {
        let shm = || root.join("dev/shm");
        let scratch = || gular_transfer::scratch(env).map_or_else(|| "/tmp".into(), PathBuf::from);
        match self {
            Self::Auto => vec![shm(), scratch()],
            Self::Shm => vec![shm()],
            Self::Scratch => vec![scratch()],
            Self::Dir(dir) => vec![dir.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(available: u64) -> MeasuredSpace {
        let limit = |name: &str, available_bytes| SpaceLimit {
            name: name.to_owned(),
            available_bytes,
            memory: true,
        };
        let limits = vec![limit("wide", 1 << 60), limit("narrow", available)];
        let (inodes, file_bytes) = (Some(10), Some(1 << 30));
        MeasuredSpace { dir: "/d".into(), limits, inodes, file_bytes, in_memory: true }
    }

    #[test]
    fn the_tightest_limit_decides_and_is_named() {
        let mut need = Need::default();
        need.add(20 << 20);
        assert_eq!(need.with_margin(), 37 << 20);
        space(37 << 20).check(need, 0).unwrap();
        let error = space(37 << 20).check(need, 1 << 20).unwrap_err();
        let expected = "not enough room in `/d`, which is in memory: the copy needs 38.8 MB, but narrow allows only 37.7 MB";
        assert_eq!(error.to_string(), expected);
        assert!(error.hint().unwrap().contains("the job's disk"));
        assert!(!space(73 << 20).is_ample(need, 0));
        assert!(space(74 << 20).is_ample(need, 0));
        assert!(!space(74 << 20).is_ample(need, 1));
    }

    #[test]
    fn what_goes_first_leaves_room() {
        let mut need = Need::default();
        need.add(20 << 20);
        let left = Taken { bytes: 7 << 20, inodes: 3 };
        space(30 << 20).check(need, 0).unwrap_err();
        space(30 << 20).without(left).check(need, 0).unwrap();
        let mut many = Need::default();
        many.add_folders(13);
        space(1 << 40).check(many, 0).unwrap_err();
        space(1 << 40).without(left).check(many, 0).unwrap();
    }

    #[test]
    fn inodes_and_the_size_of_a_file_count_too() {
        let mut many = Need::default();
        many.add_folders(11);
        assert!(matches!(space(1 << 40).check(many, 0), Err(Error::TooManyFiles { .. })));
        let mut large = Need::default();
        large.add((1 << 30) + 1);
        assert!(matches!(space(1 << 40).check(large, 0), Err(Error::FileTooLarge { .. })));
    }

    #[test]
    fn files_take_whole_pages() {
        let mut need = Need::default();
        for len in [0, 1, 4096, 4097] {
            need.add(len);
        }
        assert_eq!(
            need,
            Need { bytes: 4 * 4096, content: 8194, files: 4, inodes: 4, largest: 4097 }
        );
    }

    #[test]
    fn scratch_is_the_jobs_own() {
        let check = |to: StageTo, pairs: &[(&str, &str)], expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(to.folders(&Env::from_pairs(pairs), Path::new("/")), expected);
        };
        let all = [("_CONDOR_SCRATCH_DIR", "/c"), ("SLURM_TMPDIR", "/s"), ("TMPDIR", "/t")];
        check(StageTo::Scratch, &all, &["/c"]);
        check(StageTo::Scratch, &all[1..], &["/s"]);
        check(StageTo::Scratch, &all[2..], &["/t"]);
        check(StageTo::Auto, &[], &["/dev/shm", "/tmp"]);
        check(StageTo::Shm, &all, &["/dev/shm"]);
        check(StageTo::Dir("/d".into()), &all, &["/d"]);
    }
}
