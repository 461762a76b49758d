//! What is published: for each process a folder of small files, a bundle, and one large file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::chance::Chance;
use xtask::process::{self, command};

/// Images of a bundle: 6 MB on average, so that a bundle has several shards of several blocks.
const IMAGES: u64 = 60;
/// About a third of a bundle.
const SHARD_SIZE: &str = "2MiB";
/// Several blocks, and a part of one.
const LARGE_BYTES: u64 = 5 << 20;

/// The files that one process publishes.
pub(super) struct Input {
    pub(super) folder: PathBuf,
    pub(super) bundle: PathBuf,
    pub(super) large: PathBuf,
    /// Number of objects that they become.
    pub(super) objects: usize,
}

impl Input {
    /// Makes the files for process `number` below `dir`; `objects` is how many there should be.
    pub(super) fn make(
        gular: &Path,
        chance: Chance,
        number: usize,
        objects: usize,
        dir: &Path,
    ) -> Result<Self> {
        let input = Self {
            folder: dir.join("folder"),
            bundle: dir.join("bundle"),
            large: dir.join("large.bin"),
            objects,
        };
        let mut roll = chance.about(&format!("input {number}"));
        let images = dir.join("images/class");
        fs::create_dir_all(&images)?;
        for i in 0..IMAGES {
            let len = 20_000 + roll.below(160_000);
            let bytes = roll.bytes(usize::try_from(len)?);
            fs::write(images.join(format!("{i:03}.jpg")), bytes)?;
        }
        // The bytes are noise: what is in an image does not matter here.
        let mut pack = command(gular);
        pack.arg("pack").arg(dir.join("images")).arg(&input.bundle);
        pack.args(["--images", "class/{key}.{ext}"]);
        pack.args(["--check-images", "none", "--quiet", "--shard-size", SHARD_SIZE]);
        process::run(&mut pack)?;
        let large = LARGE_BYTES + roll.below(LARGE_BYTES);
        fs::write(&input.large, roll.bytes(usize::try_from(large)?))?;
        let of_bundle = fs::read_dir(input.bundle.join("data"))?.count() + 1;
        let files = objects.saturating_sub(of_bundle + 1).max(3);
        for i in 0..files {
            let len = match i {
                0 => 0,
                1 => (3 << 20) + 17,
                // As many below 1 KiB as above.
                _ => {
                    let bits = roll.below(11) + 6;
                    1 + roll.below(1 << bits)
                }
            };
            let path = input.folder.join(name(i));
            fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
            fs::write(path, roll.bytes(usize::try_from(len)?))?;
        }
        Ok(Self { objects: files + of_bundle + 1, ..input })
    }
}

/// The name of a file; some names have characters that URLs and listings write differently.
fn name(i: usize) -> String {
    match i % 50 {
        7 => format!("{}/with space {i}.bin", i % 7),
        8 => format!("{}/%20 and ü {i}.bin", i % 7),
        _ => format!("{}/{i:05}.bin", i % 7),
    }
}
