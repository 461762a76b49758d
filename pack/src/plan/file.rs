//! A plan on the disk, and the samples of one of its shards.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gular_bundle::{BundlePath, Digest, Field, Split};

use super::joining::FromTable;
use crate::facts::BadInput;
use crate::plan::{FilesOf, PayloadRecipe, PlanError};

pub(super) const FORMAT: &str = "gular-plan";
pub(super) const VERSION: u64 = 1;
/// How many times the number of samples of a preview may be kept, so that each class has one.
const MOST_PREVIEWS: u64 = 5;

/// A plan on the disk; in memory it keeps data of shards, not of samples.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) path: PathBuf,
    /// BLAKE3 of the plan's file.
    pub digest: Digest,
    /// The shards, by split, then in order.
    pub shards: Vec<PlanShard>,
    /// The number of all samples.
    pub samples: u64,
    /// Bytes of all source files.
    pub bytes: u64,
    /// Class names in label order.
    pub classes: Vec<String>,
    /// Samples of each class, for train, val and test.
    pub class_counts: [Vec<u64>; 3],
    /// Media types of the images, sorted.
    pub media_types: Vec<String>,
    /// Whether samples have labels.
    pub labelled: bool,
    /// Fields beside image and label.
    pub fields: Vec<Field>,
    /// What is known of the table, and what is not clear.
    pub(crate) table: FromTable,
    /// How images are stored.
    pub(crate) recipe: PayloadRecipe,
    /// Number of `fields`, the last ones, that arrays bring along.
    pub(crate) n_of_arrays: usize,
    /// Files of the fields before those.
    pub(crate) files: Arc<Vec<FilesOf>>,
    /// Images that were left out because a file is missing.
    pub(crate) skipped: Vec<BadInput>,
}

/// One shard of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanShard {
    /// The sample's split.
    pub split: Split,
    /// Samples of the split.
    pub samples: u64,
    /// Bytes of their source files.
    pub bytes: u64,
    /// Bytes of their values beside image and label, about.
    pub(crate) extra: u64,
    /// The offset of its first sample's line in the plan.
    pub(crate) offset: u64,
}

/// A sample in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: BundlePath,
    pub(crate) label: i64,
    pub(crate) bytes: u64,
    /// The list of its other values; empty when there are none.
    pub(crate) values: String,
}

impl Plan {
    /// The folder that the plan is in, where temporary files have room.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Fields whose values are in the plan: those of a table, then those of files.
    pub(crate) fn n_planned(&self) -> usize {
        self.fields.len() - self.n_of_arrays
    }

    /// Bytes that the images of so many samples, from source files of so many
    /// bytes, take in shards; about, where they are encoded again.
    pub(crate) fn stored(&self, samples: u64, bytes: u64) -> u64 {
        self.recipe.value_bytes().map_or(bytes, |value| samples.saturating_mul(value))
    }

    /// The file's first line: the options that chose the content.
    pub(crate) fn header(&self) -> Result<String, PlanError> {
        let io = |e| PlanError::io("read", &self.path, e);
        let mut header = String::new();
        BufReader::new(File::open(&self.path).map_err(io)?).read_line(&mut header).map_err(io)?;
        header.truncate(header.trim_end_matches('\n').len());
        Ok(header)
    }

    /// Gives the file another name on the same file system, for good: without the plan a later
    /// run could not tell whether the shards that it finds are of its own plan.
    pub(crate) fn rename(&mut self, path: PathBuf) -> Result<(), PlanError> {
        gular_files::rename_synced(&self.path, &path)?;
        self.path = path;
        Ok(())
    }

    /// Keeps about `n` samples of each split, the first ones of each class, for looking at them. The
    /// plan's digest stays that of the whole.
    pub(crate) fn keep_first(&mut self, n: u64) -> Result<(), PlanError> {
        let path = self.path.with_extension("first");
        let io = |e| PlanError::io("write", &path, e);
        let mut out = BufWriter::new(File::create(&path).map_err(io)?);
        let header = self.header()?;
        writeln!(out, "{header}").map_err(io)?;
        let mut offset = header.len() as u64 + 1;
        // Samples without a label are shown as one class more.
        let of_class = (n / (self.classes.len() as u64).max(1)).max(1);
        let mut shards = Vec::new();
        for split in Split::ALL {
            let mut kept = PlanShard { split, samples: 0, bytes: 0, extra: 0, offset };
            let counts = self.class_counts.get(split as usize).filter(|_| self.labelled);
            let of_split = self.shards.iter().filter(|shard| shard.split == split);
            let n_of_split: u64 = of_split.map(|shard| shard.samples).sum();
            let wanted = |counts: &Vec<u64>| {
                let unlabelled = n_of_split.saturating_sub(counts.iter().sum());
                counts.iter().chain([&unlabelled]).map(|n| (*n).min(of_class)).sum()
            };
            // With one sample of each of very many classes, not all are looked at.
            let wanted = counts.map_or(n, wanted).min(n.saturating_mul(MOST_PREVIEWS));
            let mut found = HashMap::<i64, u64>::new();
            'shards: for shard in self.shards.iter().filter(|shard| shard.split == split) {
                for line in self.lines(shard)? {
                    let (line, record) = line?;
                    if kept.samples == wanted {
                        break 'shards;
                    }
                    let of_this = found.entry(record.label).or_default();
                    if counts.is_some() && *of_this == of_class {
                        continue;
                    }
                    *of_this += 1;
                    kept.samples += 1;
                    kept.bytes += record.bytes;
                    kept.extra += shard.extra / shard.samples.max(1);
                    offset += line.len() as u64 + 1;
                    writeln!(out, "{line}").map_err(io)?;
                }
            }
            shards.extend(Some(kept).filter(|kept| kept.samples > 0));
        }
        out.flush().map_err(io)?;
        drop(out);
        (self.path, self.shards) = (path, shards);
        Ok(())
    }

    /// Returns the samples of shard `shard`, in order.
    pub(crate) fn records(
        &self,
        shard: &PlanShard,
    ) -> Result<impl Iterator<Item = Result<Record, PlanError>> + use<>, PlanError> {
        Ok(self.lines(shard)?.map(|line| line.map(|(_, record)| record)))
    }

    /// The same, each with its line.
    fn lines(
        &self,
        shard: &PlanShard,
    ) -> Result<impl Iterator<Item = Result<(String, Record), PlanError>> + use<>, PlanError> {
        let path = self.path.clone();
        let io = {
            let path = path.clone();
            move |e| PlanError::io("read", &path, e)
        };
        let mut file = File::open(&path).map_err(&io)?;
        file.seek(SeekFrom::Start(shard.offset)).map_err(&io)?;
        let lines = BufReader::with_capacity(256 << 10, file).lines();
        let n = usize::try_from(shard.samples).unwrap_or(usize::MAX);
        Ok(lines.take(n).map(move |line| {
            let line = line.map_err(&io)?;
            match record(&line) {
                Some(record) => Ok((line, record)),
                None => Err(io(std::io::Error::other(format!(
                    "`{}` is not a line of a plan",
                    line.escape_debug()
                )))),
            }
        }))
    }
}

fn record(line: &str) -> Option<Record> {
    let (key, label, bytes, values) = parse_plan_line(line)?;
    Some(Record { key, label, bytes, values: values.to_owned() })
}

/// Reads a sample's line of a plan: its key, its label (-1 for none), the bytes
/// of its source file, and the list of its other values, which is empty when
/// there are none; `None` when the line is no such line.
#[must_use]
pub fn parse_plan_line(line: &str) -> Option<(BundlePath, i64, u64, &str)> {
    let mut parts = line.splitn(4, '\t');
    let label = match parts.next()? {
        "-" => -1,
        number => number.parse().ok()?,
    };
    let bytes = parts.next()?.parse().ok()?;
    let key = BundlePath::parse(parts.next()?).ok()?;
    Some((key, label, bytes, parts.next().unwrap_or_default()))
}
