//! The footer: columns, row groups and where their chunks lie.
//!
//! A walk of our own, as that of the library recurses as deep as a damaged
//! file says and reserves memory for as many columns.

use crate::envelope::Run;
use crate::envelope::parquet::schema::{Leaf, leaves};
use crate::envelope::parquet::thrift::{Thrift, Value};
use crate::{Error, MAX_SHARD_SAMPLES, ReadAt};

const MAGIC: &[u8; 4] = b"PAR1";
const ENCRYPTED: &[u8; 4] = b"PARE";
/// Larger footers are refused; 10,000 row groups of 20 columns take 20 MB.
const MAX_FOOTER: u64 = 64 << 20;

/// What a file says of itself.
#[derive(Debug, Default)]
pub(super) struct Footer {
    pub(super) leaves: Vec<Leaf>,
    pub(super) groups: Vec<Group>,
    /// Names and texts.
    pub(super) metadata: Vec<(String, String)>,
}

/// Rows whose values lie together, column after column.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) rows: u64,
    /// One a leaf.
    pub(super) chunks: Vec<Chunk>,
}

/// The pages of one column in a group.
#[derive(Debug, Clone)]
pub(super) struct Chunk {
    /// Where they lie; the reason when they do not lie in this file.
    pub(super) place: Result<Run, String>,
    pub(super) codec: i64,
}

impl Footer {
    pub(super) fn read(file: &ReadAt) -> Result<Self, Error> {
        let bad = |reason: String| Error::malformed(file.path(), reason);
        let (mut head, mut tail) = ([0; 4], [0; 8]);
        let start = file.len_bytes().checked_sub(8).filter(|start| *start >= 4);
        let start = start.ok_or_else(|| bad("it is too short to be Parquet".into()))?;
        file.read_at(0, &mut head)?;
        file.read_at(start, &mut tail)?;
        let [a, b, c, d, magic @ ..] = tail;
        if &magic == ENCRYPTED {
            let reason = "it is encrypted".to_owned();
            return Err(Error::NotInPlace { path: file.path(), reason });
        }
        if &head != MAGIC || &magic != MAGIC {
            return Err(bad("it does not begin and end with `PAR1`".into()));
        }
        let len = u64::from(u32::from_le_bytes([a, b, c, d]));
        let first = start.checked_sub(len).filter(|first| *first >= 4 && len <= MAX_FOOTER);
        let first = first.ok_or_else(|| bad(format!("its footer of {len} bytes is not there")))?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        file.read_at(first, &mut bytes)?;
        let footer =
            Self::parse(&bytes, first).ok_or_else(|| bad("its footer is damaged".into()))?;
        footer.check(file.len_bytes()).map_err(bad)?;
        Ok(footer)
    }

    /// `data_end` is where the footer begins: data lies before it.
    fn parse(bytes: &[u8], data_end: u64) -> Option<Self> {
        let mut footer = Self::default();
        let (mut thrift, mut last) = (Thrift::new(bytes), 0);
        let mut rows = 0;
        while let Some((id, kind)) = thrift.field(&mut last)? {
            match id {
                2 => {
                    let (_, n) = thrift.list()?;
                    let schema: Option<Vec<Value<'_>>> =
                        (0..n).map(|_| thrift.structure()).collect();
                    footer.leaves = leaves(&schema?)?;
                }
                3 => {
                    let value = Value::Struct(vec![(3, thrift.field_value(kind)?)]);
                    rows = value.count(3)?;
                }
                4 => {
                    // One at a time: as trees they take much more memory.
                    let (_, n) = thrift.list()?;
                    for _ in 0..n {
                        footer.groups.push(Group::parse(&thrift.structure()?, data_end)?);
                    }
                }
                5 => {
                    let (_, n) = thrift.list()?;
                    for _ in 0..n {
                        let pair = thrift.structure()?;
                        footer.metadata.push((pair.text(1)?, pair.text(2).unwrap_or_default()));
                    }
                }
                _ => drop(thrift.field_value(kind)?),
            }
        }
        (footer.rows()? == rows).then_some(footer)
    }

    pub(super) fn rows(&self) -> Option<u64> {
        self.groups.iter().try_fold(0_u64, |all, group| all.checked_add(group.rows))
    }

    /// Nothing but these numbers bounds the values of a column that repeats one.
    fn check(&self, len: u64) -> Result<(), String> {
        let columns = self.leaves.len();
        if self.groups.iter().any(|group| group.chunks.len() != columns) {
            return Err(format!("a row group has not {columns} columns"));
        }
        let rows = self.rows().filter(|rows| *rows <= MAX_SHARD_SAMPLES);
        let values = rows.and_then(|rows| rows.checked_mul(columns as u64));
        if values.is_none_or(|values| values > len.saturating_mul(8)) {
            return Err(format!("{columns} columns of {rows:?} rows do not fit its {len} bytes"));
        }
        Ok(())
    }
}

impl Group {
    fn parse(value: &Value<'_>, data_end: u64) -> Option<Self> {
        let Some(Value::List(columns)) = value.field(1) else { return None };
        let chunks = columns.iter().map(|column| Chunk::parse(column, data_end));
        Some(Self { rows: value.count(3)?, chunks: chunks.collect::<Option<_>>()? })
    }
}

impl Chunk {
    fn parse(column: &Value<'_>, data_end: u64) -> Option<Self> {
        let Some(data) = column.field(3).filter(|_| column.field(8).is_none()) else {
            return Some(Self { place: Err("it is encrypted".to_owned()), codec: 0 });
        };
        if let Some(path) = column.text(1) {
            return Some(Self {
                place: Err(format!("it lies in another file, `{path}`")),
                codec: 0,
            });
        }
        let (first, len) = (data.count(9)?, data.count(7)?);
        // Some writers give 0 for a dictionary that is not there.
        let dictionary = data.count(11).filter(|at| *at > 0);
        let offset = dictionary.map_or(first, |at| at.min(first));
        offset.checked_add(len).filter(|end| *end <= data_end)?;
        Some(Self { place: Ok(Run { offset, len }), codec: data.int(4)? })
    }

    /// What the pages are compressed with.
    pub(super) fn codec_name(&self) -> String {
        let names = ["nothing", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw"];
        let name = usize::try_from(self.codec).ok().and_then(|codec| names.get(codec).copied());
        name.map_or_else(|| format!("codec {}", self.codec), str::to_owned)
    }
}
