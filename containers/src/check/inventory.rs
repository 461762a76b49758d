//! The programs and libraries of a tree, read once for all rules.

use super::{About, Finding};
use crate::elf::ElfFacts;
use crate::rootfs::{FileBytes, Layer, Node, RootPath, Rootfs, What};
use crate::{Error, Result};

/// The image, and the facts of its ELF files.
pub(super) struct Inventory<'a> {
    pub(super) tree: &'a Rootfs,
    pub(super) about: &'a About<'a>,
    /// ELF files by path.
    pub(super) elves: Vec<Elf<'a>>,
}

/// One ELF file.
pub(super) struct Elf<'a> {
    pub(super) path: &'a RootPath,
    pub(super) node: &'a Node,
    pub(super) source: &'a FileBytes,
    pub(super) facts: ElfFacts,
}

/// Ends of names that no ELF file has: most files of Python packages, each of which would
/// be opened for its first bytes.
const TEXTS: [&str; 10] =
    [".py", ".pyc", ".pyi", ".h", ".hpp", ".cuh", ".txt", ".json", ".html", ".js"];

impl<'a> Inventory<'a> {
    pub(super) fn take(
        tree: &'a Rootfs,
        about: &'a About<'a>,
        findings: &mut Vec<Finding>,
    ) -> Result<Self> {
        let mut inventory = Self { tree, about, elves: Vec::new() };
        for (path, node) in tree.iter() {
            let What::File(source) = &node.what else { continue };
            if TEXTS.iter().any(|end| path.name().ends_with(end)) {
                continue;
            }
            match ElfFacts::read(source) {
                Ok(Some(facts)) => inventory.elves.push(Elf { path, node, source, facts }),
                Ok(None) => {}
                Err(Error::Elf { reason, .. }) if ours(node) => findings.push(
                    Finding::error("elf", path, format!("it is not a valid ELF file: {reason}"))
                        .hint("copy or fetch it again"),
                ),
                // Distributions have such files as test data.
                Err(Error::Elf { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(inventory)
    }

    /// The newest `GLIBC_` version that the image's C library offers.
    pub(super) fn glibc(&self) -> Option<String> {
        let of_libc = |elf: &&Elf<'_>| elf.facts.soname.as_deref() == Some("libc.so.6");
        let offered = self.elves.iter().filter(of_libc).flat_map(|elf| &elf.facts.versions_offered);
        let versions = offered.filter_map(|version| version.strip_prefix("GLIBC_"));
        let versions = versions.filter(|version| version.starts_with(|c: char| c.is_ascii_digit()));
        versions.max_by_key(|version| numbers(version)).map(str::to_owned)
    }

    /// Folders that `ld.so` searches for everything inside.
    pub(super) fn library_path(&self) -> Vec<String> {
        let set = self.about.env.get("LD_LIBRARY_PATH").map_or("", String::as_str);
        let set = set.split(':').filter(|folder| folder.starts_with('/')).map(str::to_owned);
        set.chain(["/.singularity.d/libs".to_owned()]).collect()
    }
}

/// Whether the build added the node, and answers for it; the nodes of the base are the
/// distribution's.
pub(super) fn ours(node: &Node) -> bool {
    !matches!(node.layer, Layer::Base | Layer::Packages)
}

/// The numbers of a version: `2.36` becomes [2, 36].
pub(super) fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}
