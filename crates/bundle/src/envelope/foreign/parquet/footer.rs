//! The footer: columns, row groups and the offsets of their chunks.
//!
//! This walk is our own, since that of the library recurses as deep as a damaged file says and
//! reserves memory for as many columns.

use crate::envelope::Run;
use crate::envelope::foreign::parquet::schema::{Leaf, leaves};
use crate::envelope::foreign::parquet::thrift::{Thrift, Value};
use crate::envelope::foreign::{huggingface, parquet::FIELDS};
use crate::{Error, MAX_SHARD_SAMPLES, ReadAt};

const MAGIC: &[u8; 4] = b"PAR1";
const ENCRYPTED: &[u8; 4] = b"PARE";
/// Larger footers are refused; 10,000 row groups of 20 columns take 20 MB.
const MAX_FOOTER: u64 = 64 << 20;
/// The description of a column of a row group takes more bytes than this.
const LEAST_CHUNK: usize = 16;
const LIST: u8 = 9;

/// The metadata of a file.
#[derive(Debug, Default)]
pub(super) struct Footer {
    pub(super) leaves: Vec<Leaf>,
    pub(super) groups: Vec<Group>,
    /// Names and texts of the metadata.
    pub(super) metadata: Vec<(String, String)>,
}

/// A row group, whose values are stored column after column.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) rows: u64,
    /// One chunk per leaf column.
    pub(super) chunks: Vec<Chunk>,
}

/// The pages of one column in a group.
#[derive(Debug, Clone)]
pub(super) struct Chunk {
    /// Where the pages are; the error says why they are not in this file.
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
        let first = start.checked_sub(len).filter(|first| *first >= 4);
        let first = first.ok_or_else(|| bad(format!("its footer of {len} bytes is missing")))?;
        if len > MAX_FOOTER {
            let reason = format!("its footer takes {len} bytes, {MAX_FOOTER} are read at most");
            return Err(Error::NotInPlace { path: file.path(), reason });
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        file.read_at(first, &mut bytes)?;
        let footer = Self::parse(&bytes, first).map_err(bad)?;
        footer.check(file.len_bytes()).map_err(bad)?;
        Ok(footer)
    }

    /// Parses the footer. `data_end` is where the footer begins, and all data is before it.
    fn parse(bytes: &[u8], data_end: u64) -> Result<Self, String> {
        const DAMAGED: &str = "its footer is damaged";
        let mut footer = Self::default();
        let (mut thrift, mut last) = (Thrift::new(bytes), 0);
        let mut rows = 0;
        let mut chunks = bytes.len() / LEAST_CHUNK;
        while let Some((id, kind)) = thrift.field(&mut last).ok_or(DAMAGED)? {
            match (id, kind) {
                (2, LIST) => {
                    let (_, n) = thrift.list().ok_or(DAMAGED)?;
                    footer.leaves = leaves((0..n).map(|_| thrift.structure()))?;
                }
                (3, _) => match thrift.field_value(kind) {
                    Some(Value::Int(n)) => rows = u64::try_from(n).map_err(|_| DAMAGED)?,
                    _ => return Err(DAMAGED.to_owned()),
                },
                (4, LIST) => {
                    let (_, n) = thrift.list().ok_or(DAMAGED)?;
                    for _ in 0..n {
                        let group = Group::parse(&mut thrift, data_end, &mut chunks);
                        footer.groups.push(group.ok_or(DAMAGED)?);
                    }
                }
                (5, LIST) => {
                    let (_, n) = thrift.list().ok_or(DAMAGED)?;
                    for _ in 0..n {
                        let pair = thrift.structure().ok_or(DAMAGED)?;
                        let name = pair.text(1).ok_or(DAMAGED)?;
                        if name == FIELDS || name == huggingface::NAME {
                            footer.metadata.push((name, pair.text(2).unwrap_or_default()));
                        }
                    }
                }
                _ => drop(thrift.field_value(kind).ok_or(DAMAGED)?),
            }
        }
        if footer.rows() == Some(rows) { Ok(footer) } else { Err(DAMAGED.to_owned()) }
    }

    pub(super) fn rows(&self) -> Option<u64> {
        self.groups.iter().try_fold(0_u64, |all, group| all.checked_add(group.rows))
    }

    /// Checks the numbers of values, since nothing else limits a column that repeats one value.
    fn check(&self, len: u64) -> Result<(), String> {
        let columns = self.leaves.len();
        if self.groups.iter().any(|group| group.chunks.len() != columns) {
            return Err(format!("a row group does not have {columns} columns"));
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
    /// Parses a row group. `chunks` is how many chunks the footer may still have.
    fn parse(thrift: &mut Thrift<'_>, data_end: u64, chunks: &mut usize) -> Option<Self> {
        let (mut group, mut rows, mut last) = (Self { rows: 0, chunks: Vec::new() }, None, 0);
        while let Some((id, kind)) = thrift.field(&mut last)? {
            match (id, kind) {
                (1, LIST) => {
                    let (_, n) = thrift.list()?;
                    *chunks = chunks.checked_sub(n)?;
                    for _ in 0..n {
                        group.chunks.push(Chunk::parse(&thrift.structure()?, data_end)?);
                    }
                }
                (3, _) => match thrift.field_value(kind)? {
                    Value::Int(n) => rows = u64::try_from(n).ok(),
                    _ => return None,
                },
                _ => drop(thrift.field_value(kind)?),
            }
        }
        group.rows = rows?;
        Some(group)
    }
}

impl Chunk {
    fn parse(column: &Value<'_>, data_end: u64) -> Option<Self> {
        let Some(data) = column.field(3).filter(|_| column.field(8).is_none()) else {
            return Some(Self { place: Err("it is encrypted".to_owned()), codec: 0 });
        };
        if let Some(path) = column.text(1) {
            return Some(Self {
                place: Err(format!("it is stored in another file, `{path}`")),
                codec: 0,
            });
        }
        let (first, len) = (data.count(9)?, data.count(7)?);
        // Some writers give the offset 0 for a dictionary that does not exist.
        let dictionary = data.count(11).filter(|at| *at > 0);
        let offset = dictionary.map_or(first, |at| at.min(first));
        offset.checked_add(len).filter(|end| *end <= data_end)?;
        Some(Self { place: Ok(Run { offset, len }), codec: data.int(4)? })
    }
}
