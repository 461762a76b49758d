//! The safetensors layout of shards and indexes.
//!
//! ```text
//! 0        8                                   data_start (4096, or the next multiple that fits)
//! | N u64 | header: N bytes of JSON, spaces | tensor | _pad.0 | tensor | _pad.1 | …
//! ```
//!
//! Tensors start on 64-byte boundaries; since the format allows no holes, the
//! gaps are tensors called `_pad.N`. Format: `FORMAT.md`, "safetensors rules".

use std::collections::HashSet;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{Dtype, Error, ReadAt};

/// Tensors start on multiples of this.
pub(crate) const ALIGN: u64 = 64;
/// The data starts on a multiple of this.
pub(crate) const HEADER_STEP: u64 = 4096;
/// Headers above this are refused; a shard of 100 fields needs 30 KB.
pub(crate) const MAX_HEADER: u64 = 1 << 20;
/// The largest header that the safetensors library reads.
const MAX_FOREIGN_HEADER: u64 = 100_000_000;

/// Returns the number of bytes before the next multiple of [`ALIGN`].
pub(crate) fn padding(position: u64) -> u64 {
    position.wrapping_neg() % ALIGN
}

/// One tensor of a safetensors file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Name of the tensor.
    pub name: String,
    /// Element type of the tensor.
    pub dtype: Dtype,
    /// Shape of the tensor, row-major.
    pub shape: Vec<u64>,
    /// First byte, counted from the start of the file.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

/// How tensors of types that no bundle has are treated.
#[derive(Debug, Clone, Copy)]
enum Unknown {
    Refused,
    LeftOut,
}

/// The header of a safetensors file: metadata in order, tensors in data order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SafetensorsHeader {
    /// Names and texts, `format` and `version` first.
    pub metadata: Vec<(String, String)>,
    /// All tensors, including padding.
    pub tensors: Vec<Tensor>,
}

impl SafetensorsHeader {
    /// Reads the header of a shard or an index and checks it against the file's length.
    ///
    /// # Errors
    /// [`Error::Malformed`] or [`Error::TooLarge`] when it is not a safetensors file.
    pub fn read(file: &ReadAt) -> Result<Self, Error> {
        let bytes = Self::bytes(file, MAX_HEADER)?;
        Self::parse(&file.path(), &bytes, file.len_bytes())
    }

    /// Reads the header of a safetensors file that another program may have written: tensors may be
    /// anywhere, and those of types that no bundle has are left out.
    pub(crate) fn read_foreign(file: &ReadAt) -> Result<Self, Error> {
        let bytes = Self::bytes(file, MAX_FOREIGN_HEADER)?;
        Ok(Self::parse_tensors(&file.path(), &bytes, file.len_bytes(), Unknown::LeftOut)?.0)
    }

    fn bytes(file: &ReadAt, limit: u64) -> Result<Vec<u8>, Error> {
        let mut first = [0; 8];
        file.read_at(0, &mut first)?;
        let start = Self::data_start(&file.path(), first, file.len_bytes(), limit)?;
        let mut bytes = vec![0; usize::try_from(start).unwrap_or(0)];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// The metadata text called `name`.
    #[must_use]
    pub fn metadata(&self, name: &str) -> Option<&str> {
        self.metadata.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|t| t.name == name)
    }

    /// Returns the bytes before the data, exactly `data_start` of them; `None` if they do not fit.
    pub(crate) fn to_bytes(&self, data_start: u64) -> Option<Vec<u8>> {
        let json = self.json(data_start)?;
        let declared = data_start.checked_sub(8)?;
        let room = usize::try_from(declared).ok()?;
        let mut bytes = Vec::with_capacity(room.saturating_add(8));
        bytes.extend_from_slice(&declared.to_le_bytes());
        bytes.extend_from_slice(json.as_bytes());
        let fill = room.checked_sub(json.len())?;
        bytes.resize(bytes.len().saturating_add(fill), b' ');
        Some(bytes)
    }

    /// Returns the header's JSON. Its length does not depend on `data_start`, from which
    /// safetensors counts its offsets.
    pub(crate) fn json(&self, data_start: u64) -> Option<String> {
        let text = |s: &str| serde_json::Value::from(s).to_string();
        let mut parts = Vec::with_capacity(self.tensors.len().saturating_add(1));
        let metadata: Vec<String> =
            self.metadata.iter().map(|(k, v)| format!("{}:{}", text(k), text(v))).collect();
        parts.push(format!("\"__metadata__\":{{{}}}", metadata.join(",")));
        for t in &self.tensors {
            let shape: Vec<String> = t.shape.iter().map(u64::to_string).collect();
            parts.push(format!(
                "{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                text(&t.name),
                t.dtype.safetensors_name(),
                shape.join(","),
                t.start.checked_sub(data_start)?,
                t.end.checked_sub(data_start)?
            ));
        }
        Some(format!("{{{}}}", parts.join(",")))
    }

    /// Returns how many bytes precede the data, from the first 8 bytes of a file of `file_len`
    /// bytes.
    pub(crate) fn data_start(
        path: &str,
        first: [u8; 8],
        file_len: u64,
        limit: u64,
    ) -> Result<u64, Error> {
        let declared = u64::from_le_bytes(first);
        if declared > limit {
            return Err(Error::TooLarge {
                path: path.to_owned(),
                what: "a safetensors header",
                found: declared,
                limit,
            });
        }
        let start = declared.saturating_add(8);
        if start > file_len {
            let reason =
                format!("its header ends at byte {start}, but the file ends at byte {file_len}");
            return Err(Error::malformed(path, reason));
        }
        Ok(start)
    }

    /// Parses `bytes`, the `data_start` bytes before the data of a file of `file_len` bytes.
    ///
    /// Checks that tensors have known types, that sizes match shapes, and that
    /// they cover the data in order without hole or overlap.
    pub(crate) fn parse(path: &str, bytes: &[u8], file_len: u64) -> Result<Self, Error> {
        let (header, data_start) = Self::parse_tensors(path, bytes, file_len, Unknown::Refused)?;
        header.check_layout(path, data_start, file_len)?;
        Ok(header)
    }

    /// Returns the tensors in the order of their data, and where the data starts. Checks that types
    /// are known, sizes match shapes, and ranges are within the file.
    fn parse_tensors(
        path: &str,
        bytes: &[u8],
        file_len: u64,
        unknown: Unknown,
    ) -> Result<(Self, u64), Error> {
        let data_start = bytes.len() as u64;
        let json = bytes.get(8..).ok_or_else(|| Error::malformed(path, "it has no header"))?;
        let raw: RawHeader = serde_json::from_slice(json).map_err(|e| {
            Error::malformed(path, format!("its header is not safetensors JSON: {e}"))
        })?;
        let mut tensors = Vec::with_capacity(raw.tensors.len());
        for (name, t) in raw.tensors {
            let wrong = |why: String| Error::malformed(path, format!("tensor `{name}` {why}"));
            let dtype = match (Dtype::from_safetensors_name(&t.dtype), unknown) {
                (Some(dtype), _) => dtype,
                (None, Unknown::LeftOut) => continue,
                (None, Unknown::Refused) => {
                    return Err(wrong(format!(
                        "has the dtype `{}`, which bundles do not support",
                        t.dtype
                    )));
                }
            };
            let [start, end] = t.data_offsets;
            let size = t.shape.iter().try_fold(dtype.size_bytes(), |acc, n| acc.checked_mul(*n));
            if size.is_none() || end.checked_sub(start) != size {
                return Err(wrong(format!(
                    "has shape {:?}, but its values are bytes {start} to {end}, another number of bytes",
                    t.shape
                )));
            }
            let place = |offset: u64| data_start.checked_add(offset).filter(|p| *p <= file_len);
            let (Some(start), Some(end)) = (place(start), place(end)) else {
                return Err(wrong(format!("ends after the end of the file at byte {file_len}")));
            };
            tensors.push(Tensor { name, dtype, shape: t.shape, start, end });
        }
        tensors.sort_by_key(|t| (t.start, t.end));
        Ok((Self { metadata: raw.metadata, tensors }, data_start))
    }

    /// Checks the rules of `FORMAT.md` for shards and indexes that go beyond safetensors.
    fn check_layout(&self, path: &str, data_start: u64, file_len: u64) -> Result<(), Error> {
        if !data_start.is_multiple_of(HEADER_STEP) {
            let reason =
                format!("its data starts at byte {data_start}, not a multiple of {HEADER_STEP}");
            return Err(Error::malformed(path, reason));
        }
        let mut position = data_start;
        for t in &self.tensors {
            if !t.name.starts_with("_pad.") && !t.start.is_multiple_of(ALIGN) {
                let reason = format!(
                    "tensor `{}` starts at byte {}, not a multiple of {ALIGN}",
                    t.name, t.start
                );
                return Err(Error::malformed(path, reason));
            }
            if t.start != position {
                let reason =
                    format!("tensor `{}` starts at byte {}, expected {position}", t.name, t.start);
                return Err(Error::malformed(path, reason));
            }
            position = t.end;
        }
        if position != file_len {
            let reason =
                format!("its tensors end at byte {position}, but the file ends at byte {file_len}");
            return Err(Error::malformed(path, reason));
        }
        Ok(())
    }

    /// Checks format name and version, the first two metadata entries.
    pub(crate) fn check_format(&self, path: &str, expected: &'static str) -> Result<(), Error> {
        let found = self.metadata("format").unwrap_or("not stated");
        if found != expected {
            return Err(Error::Format {
                path: path.to_owned(),
                expected,
                found: format!("`{found}`"),
            });
        }
        let version = self.metadata("version").and_then(|v| v.parse::<u64>().ok());
        match version {
            Some(crate::VERSION) => Ok(()),
            Some(found) if found > crate::VERSION => {
                Err(Error::TooNew { path: path.to_owned(), found, supported: crate::VERSION })
            }
            _ => Err(Error::malformed(path, "its metadata does not have a valid `version`")),
        }
    }
}

/// Places tensors one after the other, with `_pad.N` between them.
#[derive(Debug)]
pub(crate) struct Placer {
    position: u64,
    n_pads: u64,
    tensors: Vec<Tensor>,
}

impl Placer {
    pub(crate) fn new(data_start: u64) -> Self {
        Self { position: data_start, n_pads: 0, tensors: Vec::new() }
    }

    /// Places a tensor and returns how many zero bytes go before it.
    pub(crate) fn place(&mut self, name: String, dtype: Dtype, shape: Vec<u64>) -> Option<u64> {
        let size = shape.iter().try_fold(dtype.size_bytes(), |acc, n| acc.checked_mul(*n))?;
        let pad = padding(self.position);
        if pad > 0 {
            let name = format!("_pad.{}", self.n_pads);
            self.n_pads = self.n_pads.checked_add(1)?;
            self.push(name, Dtype::U8, vec![pad], pad)?;
        }
        self.push(name, dtype, shape, size)?;
        Some(pad)
    }

    fn push(&mut self, name: String, dtype: Dtype, shape: Vec<u64>, size: u64) -> Option<()> {
        let start = self.position;
        let end = start.checked_add(size)?;
        self.tensors.push(Tensor { name, dtype, shape, start, end });
        self.position = end;
        Some(())
    }

    pub(crate) fn finish(self) -> Vec<Tensor> {
        self.tensors
    }
}

/// Returns where the data starts for a header of `json_bytes`: at the next multiple of 4096 that
/// leaves room for it.
pub(crate) fn data_start_for(json_bytes: u64) -> u64 {
    json_bytes.saturating_add(8).next_multiple_of(HEADER_STEP)
}

/// Makes a whole safetensors file from tensors in order.
pub(crate) fn assemble(
    metadata: Vec<(String, String)>,
    tensors: Vec<(String, Dtype, Vec<u64>, Vec<u8>)>,
) -> Option<Vec<u8>> {
    // Tensors are placed from 0 on, since safetensors counts offsets from the start of the data.
    let mut placer = Placer::new(0);
    let mut body = Vec::new();
    for (name, dtype, shape, data) in tensors {
        let pad = placer.place(name, dtype, shape)?;
        body.resize(body.len().checked_add(usize::try_from(pad).ok()?)?, 0);
        body.extend_from_slice(&data);
    }
    let header = SafetensorsHeader { metadata, tensors: placer.finish() };
    let json = header.json(0)?;
    let data_start = data_start_for(json.len() as u64);
    let mut bytes = data_start.checked_sub(8)?.to_le_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes.resize(usize::try_from(data_start).ok()?, b' ');
    bytes.append(&mut body);
    Some(bytes)
}

struct RawHeader {
    metadata: Vec<(String, String)>,
    tensors: Vec<(String, RawTensor)>,
}

#[derive(Deserialize)]
struct RawTensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Pairs;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs: Vec<(String, String)> = Vec::new();
                while let Some((k, v)) = map.next_entry::<String, String>()? {
                    if pairs.iter().any(|(other, _)| *other == k) {
                        return Err(serde::de::Error::custom(format!("`{k}` occurs twice")));
                    }
                    pairs.push((k, v));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(V)
    }
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = RawHeader;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a safetensors header")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
                let mut header = RawHeader { metadata: Vec::new(), tensors: Vec::new() };
                let mut seen = HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !seen.insert(name.clone()) {
                        return Err(serde::de::Error::custom(format!("`{name}` occurs twice")));
                    }
                    if name == "__metadata__" {
                        header.metadata = map.next_value::<Pairs>()?.0;
                    } else {
                        header.tensors.push((name, map.next_value()?));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(V)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (SafetensorsHeader, u64) {
        let mut placer = Placer::new(4096);
        for (name, dtype, shape) in [
            ("image.bytes", Dtype::U8, vec![100]),
            ("image.offsets", Dtype::I64, vec![3]),
            ("label", Dtype::I64, vec![2]),
        ] {
            placer.place(name.to_owned(), dtype, shape).unwrap();
        }
        let tensors = placer.finish();
        let len = tensors.last().unwrap().end;
        let metadata = vec![("format".to_owned(), "gular-shard".to_owned())];
        (SafetensorsHeader { metadata, tensors }, len)
    }

    #[test]
    fn header_round_trips() {
        let (header, len) = sample();
        let bytes = header.to_bytes(4096).unwrap();
        assert_eq!(bytes.len(), 4096);
        let first = bytes[..8].try_into().unwrap();
        assert_eq!(SafetensorsHeader::data_start("x", first, len, MAX_HEADER).unwrap(), 4096);
        assert_eq!(SafetensorsHeader::parse("x", &bytes, len).unwrap(), header);
        assert!(header.tensors.iter().all(|t| t.name.starts_with('_') || t.start % ALIGN == 0));
    }

    #[test]
    fn holes_overlaps_and_wrong_sizes_are_refused() {
        let (header, len) = sample();
        for change in 0..5 {
            let mut bad = header.clone();
            match change {
                0 => drop(bad.tensors.remove(1)),
                1 => bad.tensors[2].start -= 8,
                2 => bad.tensors[0].shape = vec![u64::MAX, 2],
                3 => drop(bad.tensors.pop()),
                _ => bad.tensors[1].name = bad.tensors[0].name.clone(),
            }
            let bytes = bad.to_bytes(4096).unwrap();
            assert!(SafetensorsHeader::parse("x", &bytes, len).is_err(), "change {change}");
        }
        let bytes = header.to_bytes(4096).unwrap();
        assert!(SafetensorsHeader::parse("x", &bytes, len + 1).is_err());
        assert!(
            SafetensorsHeader::data_start("x", u64::MAX.to_le_bytes(), len, MAX_HEADER).is_err()
        );
        assert!(
            SafetensorsHeader::data_start("x", 5000_u64.to_le_bytes(), 100, MAX_HEADER).is_err()
        );
    }
}
