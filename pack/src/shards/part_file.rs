//! `part.json`, which is stored beside the shards of a finished part. Format: `FORMAT.md`, "Part".

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use gular_bundle::Manifest;
use gular_files::write_file;
use serde::{Deserialize, Serialize};

use crate::facts::BadInput;
use crate::shards::{Done, Part, STATE_DIR, ShardError};

/// The file that says what a finished part holds.
pub const PART_NAME: &str = "part.json";
const FORMAT: &str = "gular-part";
const VERSION: u64 = 1;
/// A larger file is refused: shards take some 700 bytes each, and inputs that were left out
/// some 200.
const MOST_BYTES: u64 = 1 << 30;

/// A finished part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PartFile {
    format: String,
    version: u64,
    pub(crate) part: Part,
    /// Numbers of shards, samples and bytes in the whole plan.
    pub(crate) planned: Planned,
    /// The plan's first line: all options that chose the content.
    pub(crate) options: String,
    /// The bundle's manifest without shards, statistics and the number of inputs left out.
    pub(crate) manifest: String,
    /// Inputs that were left out before there was a plan: the same in every part.
    pub(crate) skipped: Vec<BadInput>,
    pub(crate) shards: Vec<PartShard>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Planned {
    pub(crate) shards: u64,
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
}

/// The result for a planned shard.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PartShard {
    pub(crate) number: usize,
    pub(crate) done: Done,
}

/// Read before the rest, whose rules depend on it.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u64,
}

impl PartFile {
    pub(crate) fn new(
        part: Part,
        planned: Planned,
        options: String,
        template: &Manifest,
        mut skipped: Vec<BadInput>,
        shards: Vec<PartShard>,
    ) -> Self {
        let manifest = String::from_utf8_lossy(&template.to_bytes()).into_owned();
        // The order in which a folder lists its files is arbitrary.
        skipped.sort_by(|a, b| a.path.cmp(&b.path));
        let format = FORMAT.to_owned();
        Self { format, version: VERSION, part, planned, options, manifest, skipped, shards }
    }

    /// Reads that of the finished part in folder `dir`; `None` if there is none, or if a run is
    /// unfinished.
    pub(crate) fn finished(dir: &Path) -> Result<Option<Self>, ShardError> {
        match dir.join(STATE_DIR).symlink_metadata() {
            Ok(_) => Ok(None),
            Err(_) => Self::read(dir),
        }
    }

    /// Reads that of folder `dir`; `None` if there is none.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, ShardError> {
        let path = dir.join(PART_NAME);
        let mut bytes = Vec::new();
        let read =
            fs::File::open(&path).and_then(|f| f.take(MOST_BYTES + 1).read_to_end(&mut bytes));
        match read {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|e| ShardError::io("read", &path, e))?,
        };
        let wrong = |reason: String| {
            let path = path.display().to_string();
            ShardError::BadPart { path, reason }
        };
        if bytes.len() as u64 > MOST_BYTES {
            return Err(wrong(format!("it is larger than {MOST_BYTES} bytes")));
        }
        let head: Head = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
        if head.format != FORMAT {
            return Err(wrong(format!("its format is `{}`", head.format.escape_debug())));
        }
        if head.version != VERSION {
            let found = head.version;
            return Err(wrong(format!("its version is {found}, expected {VERSION}")));
        }
        let file: Self = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
        let n = usize::try_from(file.planned.shards).unwrap_or(usize::MAX);
        let expected = file.part.shards(n);
        if !file.shards.iter().map(|s| s.number).eq(expected.clone()) {
            let found = file.shards.len();
            return Err(wrong(format!(
                "it lists {found} shards, expected {} to {} of {n}",
                expected.start, expected.end
            )));
        }
        Ok(Some(file))
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<(), ShardError> {
        let json = serde_json::to_vec(self).expect("names, numbers and texts serialise");
        Ok(write_file(&dir.join(PART_NAME), &json)?)
    }

    /// Returns the bundle's manifest, without its shards.
    pub(crate) fn template(&self, dir: &Path) -> Result<Manifest, ShardError> {
        let path = dir.join(PART_NAME).display().to_string();
        Ok(Manifest::parse(&path, self.manifest.as_bytes())?)
    }

    /// Shards that were written, samples in them, and bytes of their files and indexes.
    pub(crate) fn written(&self) -> (u64, u64, u64) {
        let entries = self.shards.iter().filter_map(|s| s.done.entry.as_ref());
        entries.fold((0, 0, 0), |(shards, samples, bytes), e| {
            (shards + 1, samples + e.samples, bytes + e.file.bytes + e.index.bytes)
        })
    }
}
