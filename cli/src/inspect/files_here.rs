//! Which files of a bundle are in its folder: a fetch may have left out whole splits.

use std::fmt::Write as _;
use std::fs;

use gular_bundle::{Bundle, FileEntry, Manifest, ShardIdx, Split};

/// For each shard, how many of its files are missing, or have another length.
#[derive(Debug)]
pub(super) struct FilesHere {
    missing: Vec<u8>,
}

impl FilesHere {
    pub(super) fn of(bundle: &Bundle) -> Self {
        let is_missing = |file: &FileEntry| {
            let found = fs::metadata(bundle.path_of(file));
            !found.is_ok_and(|found| found.is_file() && found.len() == file.bytes)
        };
        let shards = bundle.manifest().shards.iter();
        let missing = shards.map(|shard| shard.files().map(|f| u8::from(is_missing(f))).sum());
        Self { missing: missing.collect() }
    }

    /// Whether a shard can be read.
    pub(super) fn has(&self, shard: ShardIdx) -> bool {
        shard.of(&self.missing) == Some(&0)
    }

    /// Whether all shards can be read.
    pub(super) fn is_whole(&self) -> bool {
        self.missing.iter().all(|missing| *missing == 0)
    }

    /// How many files of `split` are missing, and how many there are.
    pub(super) fn missing_of(&self, manifest: &Manifest, split: Split) -> (u64, u64) {
        let shards = manifest.shards.iter().zip(&self.missing);
        let of_split = shards.filter(|(shard, _)| shard.split == split);
        of_split.fold((0, 0), |(n, all), (shard, missing)| {
            (n + u64::from(*missing), all + shard.files().count() as u64)
        })
    }

    /// Whether no shard of `split` can be read.
    pub(super) fn lacks(&self, manifest: &Manifest, split: Split) -> bool {
        let mut shards = manifest.shards.iter().zip(&self.missing);
        shards.all(|(shard, missing)| shard.split != split || *missing > 0)
    }

    /// Lists what is missing, one line for each split, and says what to do; empty if nothing is.
    pub(super) fn text(&self, manifest: &Manifest) -> String {
        let mut text = String::new();
        let mut only_whole_splits = true;
        for split in Split::ALL {
            match self.missing_of(manifest, split) {
                (0, _) => {}
                (n, all) if n == all => {
                    let _ = writeln!(text, "split `{split}` is not in this folder");
                }
                (n, all) => {
                    only_whole_splits = false;
                    let _ = writeln!(
                        text,
                        "{n} of {all} files of split `{split}` are not in this folder, or truncated"
                    );
                }
            }
        }
        if !text.is_empty() {
            text.push_str(match only_whole_splits {
                true => "to add what is missing: `gular fetch URL#blake3=… DIR` with this folder as DIR\n",
                false => {
                    "`gular verify` names these files; `gular fetch URL#blake3=…` into this folder \
                     brings them\n"
                }
            });
        }
        text
    }
}
