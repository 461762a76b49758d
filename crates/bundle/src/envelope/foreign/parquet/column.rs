//! Reads the values of one column in all row groups.

use crate::envelope::Run;
use crate::envelope::foreign::parquet::codec;
use crate::envelope::foreign::parquet::footer::Chunk;
use crate::envelope::foreign::parquet::hybrid;
use crate::envelope::foreign::parquet::pages::{Page, PageKind, Pages};
use crate::envelope::foreign::parquet::schema::{ColumnKind, Leaf};
use crate::{Error, ReadAt};

const PLAIN: i64 = 0;
/// The dictionary encoding, which has an older and a newer number.
const DICTIONARY: [i64; 2] = [2, 8];
const RLE: i64 = 3;
/// Lists of a row group may have this many elements for each of its rows, and this many more: equal
/// ones take little space in the file, but not in memory.
const MOST_IN_A_ROW: u64 = 64;
const MOST_MORE: u64 = 1 << 20;

/// Why the values of a column cannot be used.
#[derive(Debug)]
pub(super) enum Fault {
    /// The column contradicts itself.
    Damaged(String),
    /// The column is undamaged, but cannot be read, for this reason.
    NotStored(String),
    /// The column is compressed, with this codec.
    Compressed(String),
    Read(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

fn damaged(reason: &str) -> Fault {
    Fault::Damaged(reason.to_owned())
}

/// One column.
#[derive(Debug)]
pub(super) struct Column<'a> {
    pub(super) file: &'a ReadAt,
    pub(super) leaf: &'a Leaf,
    /// The column's chunk in each row group, and the number of rows of the group.
    pub(super) chunks: Vec<(&'a Chunk, u64)>,
}

/// The bytes that contain values: the file itself, or an unpacked page.
struct Source<'a> {
    file: &'a ReadAt,
    page: Option<ReadAt>,
}

impl Source<'_> {
    fn bytes(&self) -> &ReadAt {
        self.page.as_ref().unwrap_or(self.file)
    }
}

/// Whether an entry begins a row, and what of it exists (Parquet: "Nested Encoding").
#[derive(Debug, Clone, Copy)]
struct Level {
    repetition: u32,
    definition: u32,
}

/// Lists in a list, with nothing for elements without a value.
pub(super) type Nested<T> = Vec<Option<Vec<Option<T>>>>;

/// A callback of `walk` for each value, whose bytes are this run of the source.
type Take<'t, T> = &'t mut dyn FnMut(&ReadAt, Run) -> Result<T, Fault>;

impl Column<'_> {
    /// Returns where the values are in the file; `None` for nulls.
    pub(super) fn runs(&self) -> Result<Vec<Option<Run>>, Fault> {
        self.walk(false, &mut |_, run| Ok(run))
    }

    /// Calls `take` with the bytes of each value, and collects the results.
    pub(super) fn read<T>(
        &self,
        take: &mut dyn FnMut(&[u8]) -> Result<T, Fault>,
    ) -> Result<Vec<Option<T>>, Fault> {
        self.walk(true, &mut |source, run| take(&read(source, run)?))
    }

    /// Calls `take` with the bytes of each value of lists, and collects the results of each list;
    /// `None` for rows without a list, and for elements without a value.
    pub(super) fn lists<T>(
        &self,
        take: &mut dyn FnMut(&[u8]) -> Result<T, Fault>,
    ) -> Result<Vec<Option<Vec<Option<T>>>>, Fault> {
        let mut rows: Vec<Option<Vec<Option<T>>>> = Vec::new();
        let of_element = self.leaf.list_defs.first().copied().unwrap_or(0);
        self.entries(true, &mut |source, run| take(&read(source, run)?), &mut |level, value| {
            if level.repetition == 0 {
                // One level below that of an element is a list without elements.
                rows.push((level.definition.saturating_add(1) >= of_element).then(Vec::new));
            }
            if level.definition >= of_element {
                let list = rows.last_mut().and_then(Option::as_mut);
                list.ok_or_else(|| damaged("a list goes on that has not begun"))?.push(value);
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Calls `take` with the bytes of each value of lists in lists, and collects the results likewise.
    pub(super) fn nested<T>(
        &self,
        take: &mut dyn FnMut(&[u8]) -> Result<T, Fault>,
    ) -> Result<Vec<Option<Nested<T>>>, Fault> {
        let mut rows: Vec<Option<Nested<T>>> = Vec::new();
        let [outer, inner] = self.leaf.list_defs.as_slice() else {
            return Err(damaged("it has no lists in lists"));
        };
        self.entries(true, &mut |source, run| take(&read(source, run)?), &mut |level, value| {
            let begun = || damaged("a list goes on that has not begun");
            if level.repetition == 0 {
                rows.push((level.definition.saturating_add(1) >= *outer).then(Vec::new));
            }
            if level.definition < *outer {
                return Ok(());
            }
            let row = rows.last_mut().and_then(Option::as_mut).ok_or_else(begun)?;
            if level.repetition < 2 {
                row.push((level.definition.saturating_add(1) >= *inner).then(Vec::new));
            }
            if level.definition >= *inner {
                row.last_mut().and_then(Option::as_mut).ok_or_else(begun)?.push(value);
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Calls `take` for all values in order; with `unpack`, pages are read into memory.
    fn walk<T>(&self, unpack: bool, take: Take<'_, T>) -> Result<Vec<Option<T>>, Fault> {
        let mut values = Vec::new();
        self.entries(unpack, take, &mut |_, value| {
            values.push(value);
            Ok(())
        })?;
        Ok(values)
    }

    /// Calls `take` for all values in order, and `each` with the results and the levels of all
    /// entries.
    fn entries<T>(
        &self,
        unpack: bool,
        take: Take<'_, T>,
        each: &mut dyn FnMut(Level, Option<T>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let is_list = self.leaf.is_list();
        for (chunk, rows) in &self.chunks {
            let place = chunk.place.clone().map_err(Fault::NotStored)?;
            let mut pages = Pages::new(self.file, place);
            let mut dictionary = None;
            let mut left = *rows;
            let mut entries = match is_list {
                true => rows.saturating_mul(MOST_IN_A_ROW).saturating_add(MOST_MORE),
                false => *rows,
            };
            while left > 0 {
                let page = pages.next()?.ok_or_else(|| damaged("it ends before its last row"))?;
                let (source, levels, body) = self.open(&page, chunk, unpack)?;
                if page.kind == PageKind::Dictionary {
                    let runs = self.plain(source.bytes(), body, page.n)?;
                    dictionary = Some((source, runs));
                    continue;
                }
                entries = entries.checked_sub(page.n).ok_or_else(|| match is_list {
                    false => damaged("it has too many rows"),
                    true => {
                        let reason = format!(
                            "its lists have more than {MOST_IN_A_ROW} elements in most of the rows"
                        );
                        Fault::NotStored(reason)
                    }
                })?;
                let levels = self.levels(source.bytes(), &page, levels)?;
                let begun = levels.iter().filter(|level| level.repetition == 0).count() as u64;
                left = left.checked_sub(begun).ok_or_else(|| damaged("it has too many rows"))?;
                if levels.is_empty() {
                    continue;
                }
                let has_value = |level: &Level| level.definition == self.leaf.max_def;
                let n = levels.iter().filter(|level| has_value(level)).count();
                let bits;
                let (from, runs) = match &dictionary {
                    _ if *self.leaf.kind.of_element() == ColumnKind::Bools => {
                        bits = self.bools(&read(source.bytes(), body)?, page.encoding, n)?;
                        (&bits, (0..n as u64).map(|offset| Run { offset, len: 1 }).collect())
                    }
                    _ if page.encoding == PLAIN => {
                        (source.bytes(), self.plain(source.bytes(), body, n as u64)?)
                    }
                    Some((entries, runs)) if DICTIONARY.contains(&page.encoding) => {
                        (entries.bytes(), pick(runs, source.bytes(), body, n)?)
                    }
                    _ => return Err(Fault::NotStored(encoding_name(page.encoding))),
                };
                let mut runs = runs.into_iter();
                for level in levels {
                    let run = if has_value(&level) { runs.next() } else { None };
                    each(level, run.map(|run| take(from, run)).transpose()?)?;
                }
            }
        }
        Ok(())
    }

    /// Finds the levels and the values of a page.
    fn open(
        &self,
        page: &Page,
        chunk: &Chunk,
        unpack: bool,
    ) -> Result<(Source<'_>, [Run; 2], Run), Fault> {
        let packed = codec::is_packed(chunk.codec)
            && !matches!(page.kind, PageKind::V2 { packed: false, .. });
        if packed && (!unpack || !codec::is_read(chunk.codec)) {
            return Err(Fault::Compressed(codec::name(chunk.codec)));
        }
        let mut source = Source { file: self.file, page: None };
        let mut body = page.body;
        if unpack {
            let bytes = unpacked(&read(self.file, body)?, page, packed.then_some(chunk.codec));
            let bytes = bytes.ok_or_else(|| damaged("a page cannot be decompressed"))?;
            body = Run { offset: 0, len: bytes.len() as u64 };
            source.page = Some(ReadAt::in_memory(&self.file.path(), bytes));
        }
        let cut = || damaged("a page is shorter than its levels");
        // Repetition levels, then definition levels.
        let mut levels = [Run { offset: body.offset, len: 0 }; 2];
        let are_there = [self.leaf.is_list(), self.leaf.max_def > 0];
        match page.kind {
            PageKind::V1 { levels_encoding } => {
                for (levels, _) in levels.iter_mut().zip(are_there).filter(|(_, there)| *there) {
                    if levels_encoding != RLE {
                        return Err(Fault::NotStored(encoding_name(levels_encoding)));
                    }
                    let prefix;
                    (prefix, body) = split(body, 4).ok_or_else(cut)?;
                    let mut len = [0; 4];
                    source.bytes().read_at(prefix.offset, &mut len)?;
                    (*levels, body) =
                        split(body, u64::from(u32::from_le_bytes(len))).ok_or_else(cut)?;
                }
            }
            PageKind::V2 { levels: lens, .. } => {
                for (levels, len) in levels.iter_mut().zip(lens) {
                    (*levels, body) = split(body, len).ok_or_else(cut)?;
                }
            }
            PageKind::Dictionary => {}
        }
        Ok((source, levels, body))
    }

    /// Returns the levels of a page's entries.
    fn levels(&self, source: &ReadAt, page: &Page, levels: [Run; 2]) -> Result<Vec<Level>, Fault> {
        let n = usize::try_from(page.n).map_err(|_| damaged("a page has too many rows"))?;
        let decode = |run: Run, max: u32| {
            if max == 0 {
                return Ok(vec![0; n]);
            }
            let width = u32::BITS.saturating_sub(max.leading_zeros());
            let width = u8::try_from(width).unwrap_or(u8::MAX);
            let decoded = hybrid::decode(&read(source, run)?, width, n);
            decoded.ok_or_else(|| damaged("the levels of a page are cut"))
        };
        let [repetitions, definitions] = levels;
        let most = u32::try_from(self.leaf.list_defs.len()).unwrap_or(u32::MAX);
        let repetitions = decode(repetitions, most)?;
        let definitions = decode(definitions, self.leaf.max_def)?;
        let levels = repetitions.into_iter().zip(definitions);
        Ok(levels.map(|(repetition, definition)| Level { repetition, definition }).collect())
    }

    /// Unpacks `n` truth values, each to a byte.
    fn bools(&self, body: &[u8], encoding: i64, n: usize) -> Result<ReadAt, Fault> {
        let bits = match encoding {
            PLAIN => {
                let bit = |i: usize| Some(body.get(i / 8)? >> (i % 8) & 1);
                (0..n).map(bit).collect::<Option<Vec<u8>>>()
            }
            // Behind the length of the levels.
            RLE => body
                .get(4..)
                .and_then(|levels| hybrid::decode(levels, 1, n))
                .map(|levels| levels.into_iter().map(|level| u8::from(level == 1)).collect()),
            other => return Err(Fault::NotStored(encoding_name(other))),
        };
        let bits = bits.ok_or_else(|| damaged("a page is shorter than its values"))?;
        Ok(ReadAt::in_memory(&self.file.path(), bits))
    }

    /// Returns the ranges of `n` values that are stored back to back.
    fn plain(&self, source: &ReadAt, body: Run, n: u64) -> Result<Vec<Run>, Fault> {
        let cut = || damaged("a page is shorter than its values");
        let (stored, len) = match *self.leaf.kind.of_element() {
            ColumnKind::Number { dtype, stored } => (stored, dtype.size_bytes()),
            ColumnKind::Unsigned64 => (8, 8),
            ColumnKind::Fixed(size) => (size, size),
            ColumnKind::Bytes | ColumnKind::Texts => return lengths_and_bytes(source, body, n),
            ColumnKind::Other(_) | ColumnKind::List(_) | ColumnKind::Bools => return Err(cut()),
        };
        n.checked_mul(stored).filter(|all| *all <= body.len).ok_or_else(cut)?;
        let run =
            |i: u64| Run { offset: body.offset.saturating_add(i.saturating_mul(stored)), len };
        Ok((0..n).map(run).collect())
    }
}

/// Returns the ranges of `n` values that are each stored behind their length.
fn lengths_and_bytes(source: &ReadAt, body: Run, n: u64) -> Result<Vec<Run>, Fault> {
    let cut = || damaged("a page is shorter than its values");
    let (mut runs, mut left) = (Vec::new(), body);
    for _ in 0..n {
        let (prefix, rest) = split(left, 4).ok_or_else(cut)?;
        let mut len = [0; 4];
        source.read_at(prefix.offset, &mut len)?;
        let run;
        (run, left) = split(rest, u64::from(u32::from_le_bytes(len))).ok_or_else(cut)?;
        runs.push(run);
    }
    Ok(runs)
}

/// Returns the entries of a dictionary that a page refers to.
fn pick(entries: &[Run], source: &ReadAt, body: Run, n: usize) -> Result<Vec<Run>, Fault> {
    let bytes = read(source, body)?;
    let places = match bytes.split_first() {
        Some((width, packed)) => hybrid::decode(packed, *width, n),
        None => (n == 0).then(Vec::new),
    };
    let places = places.ok_or_else(|| damaged("a page is shorter than its values"))?;
    let entry = |place: u32| entries.get(usize::try_from(place).ok()?).copied();
    let runs: Option<Vec<Run>> = places.into_iter().map(entry).collect();
    runs.ok_or_else(|| damaged("a page refers to an entry that its dictionary does not have"))
}

fn split(run: Run, at: u64) -> Option<(Run, Run)> {
    let rest = Run { offset: run.offset.checked_add(at)?, len: run.len.checked_sub(at)? };
    Some((Run { len: at, ..run }, rest))
}

fn read(source: &ReadAt, run: Run) -> Result<Vec<u8>, Fault> {
    let inside = run.offset.checked_add(run.len).is_some_and(|end| end <= source.len_bytes());
    let len = usize::try_from(run.len).ok().filter(|_| inside);
    let mut bytes = vec![0; len.ok_or_else(|| damaged("a value is past its end"))?];
    source.read_at(run.offset, &mut bytes)?;
    Ok(bytes)
}

/// Returns a page's body as it was before compression, if there was one.
fn unpacked(body: &[u8], page: &Page, codec: Option<i64>) -> Option<Vec<u8>> {
    let levels = match page.kind {
        PageKind::V2 { levels: [a, b], .. } => usize::try_from(a.checked_add(b)?).ok()?,
        _ => 0,
    };
    let (levels, values) = body.split_at_checked(levels)?;
    let mut bytes = levels.to_vec();
    let Some(codec) = codec else {
        bytes.extend_from_slice(values);
        return Some(bytes);
    };
    // V2 pages that only have nulls contain no values, so there is nothing to unpack.
    if !values.is_empty() {
        let len = page.unpacked.checked_sub(levels.len() as u64)?;
        bytes.extend(codec::unpack(codec, values, len)?);
    }
    Some(bytes)
}

fn encoding_name(encoding: i64) -> String {
    let name = match encoding {
        2 | 8 => "a dictionary that is not there",
        4 => "BIT_PACKED",
        5 => "DELTA_BINARY_PACKED",
        6 => "DELTA_LENGTH_BYTE_ARRAY",
        7 => "DELTA_BYTE_ARRAY",
        9 => "BYTE_STREAM_SPLIT",
        _ => "an encoding that is not known",
    };
    format!("its values are encoded by {name}")
}
