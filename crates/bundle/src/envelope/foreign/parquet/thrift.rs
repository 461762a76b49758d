//! Thrift's compact protocol, as far as Parquet's metadata uses it.

/// Structs and lists nested deeper than this are refused.
const MAX_DEPTH: u8 = 16;
/// Structs nested deeper than this are skipped, since nothing here needs them.
const KEPT_DEPTH: u8 = 3;
/// Only fields of a struct with numbers up to this are kept.
const KEPT_FIELDS: i64 = 20;
/// The kind of a struct, as lists name it.
const STRUCT: u8 = 12;

/// A value, which takes a few KB of memory at most, whatever the input is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    Bool(bool),
    Int(i64),
    Bytes(&'a [u8]),
    /// Numbers and values of the fields.
    Struct(Vec<(i64, Value<'a>)>),
    /// A double, list, map or UUID; values of lists are read one after the other.
    Other,
}

/// Reads values one after the other. Every method returns `None` if the bytes are damaged or end
/// too early.
#[derive(Debug)]
pub(super) struct Thrift<'a> {
    rest: &'a [u8],
}

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the number of bytes that are not read yet.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Takes the next `n` bytes.
    pub(super) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    /// Reads a number of seven bits per byte, the lowest first.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn int(&mut self) -> Option<i64> {
        let zigzag = self.varint()?;
        Some((zigzag >> 1).cast_signed() ^ (zigzag & 1).cast_signed().wrapping_neg())
    }

    /// Returns the number and kind of a struct's next field; the inner `None` is the struct's end.
    pub(super) fn field(&mut self, last: &mut i64) -> Option<Option<(i64, u8)>> {
        let header = self.byte()?;
        let (step, kind) = (header >> 4, header & 0xf);
        if kind == 0 {
            return Some(None);
        }
        *last = if step == 0 { self.int()? } else { last.checked_add(i64::from(step))? };
        Some(Some((*last, kind)))
    }

    /// Returns the kind of a list's values and their number, which is at most that of the bytes
    /// left.
    pub(super) fn list(&mut self) -> Option<(u8, usize)> {
        let header = self.byte()?;
        let n = match header >> 4 {
            15 => usize::try_from(self.varint()?).ok()?,
            n => usize::from(n),
        };
        (n <= self.left()).then_some((header & 0xf, n))
    }

    /// Reads a whole struct.
    pub(super) fn structure(&mut self) -> Option<Value<'a>> {
        self.value(STRUCT, 0)
    }

    /// Reads a field's value of this kind.
    pub(super) fn field_value(&mut self, kind: u8) -> Option<Value<'a>> {
        self.value(kind, 0)
    }

    fn value(&mut self, kind: u8, depth: u8) -> Option<Value<'a>> {
        let depth = depth.checked_add(1).filter(|d| *d <= MAX_DEPTH)?;
        Some(match kind {
            1 => Value::Bool(true),
            2 => Value::Bool(false),
            3 => Value::Int(i64::from(self.byte()?.cast_signed())),
            4..=6 => Value::Int(self.int()?),
            7 => self.bytes(8).map(|_| Value::Other)?,
            8 => {
                let n = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.bytes(n)?)
            }
            9 | 10 => {
                let (kind, n) = self.list()?;
                for _ in 0..n {
                    self.element(kind, depth)?;
                }
                Value::Other
            }
            11 => self.map(depth)?,
            12 => {
                let (mut fields, mut last) = (Vec::new(), 0);
                while let Some((id, kind)) = self.field(&mut last)? {
                    let value = self.value(kind, depth)?;
                    let new = || fields.iter().all(|(known, _)| *known != id);
                    if depth <= KEPT_DEPTH && (1..=KEPT_FIELDS).contains(&id) && new() {
                        fields.push((id, value));
                    }
                }
                Value::Struct(fields)
            }
            13 => self.bytes(16).map(|_| Value::Other)?,
            _ => return None,
        })
    }

    /// Reads a value of a list or map, in which a Boolean is a whole byte, so that every value
    /// takes at least one byte.
    fn element(&mut self, kind: u8, depth: u8) -> Option<Value<'a>> {
        match kind {
            1 | 2 => Some(Value::Bool(self.byte()? == 1)),
            _ => self.value(kind, depth),
        }
    }

    fn map(&mut self, depth: u8) -> Option<Value<'a>> {
        let n = self.varint()?;
        if n > 0 {
            let kinds = self.byte()?;
            if n > self.left() as u64 {
                return None;
            }
            for _ in 0..n {
                self.element(kinds >> 4, depth)?;
                self.element(kinds & 0xf, depth)?;
            }
        }
        Some(Value::Other)
    }
}

impl<'a> Value<'a> {
    /// Field `id` of a struct.
    pub(super) fn field(&self, id: i64) -> Option<&Value<'a>> {
        match self {
            Self::Struct(fields) => fields.iter().find(|(i, _)| *i == id).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Returns the integer in field `id` of a struct.
    pub(super) fn int(&self, id: i64) -> Option<i64> {
        match self.field(id)? {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns [`Self::int`] if it is not negative.
    pub(super) fn count(&self, id: i64) -> Option<u64> {
        u64::try_from(self.int(id)?).ok()
    }

    /// Returns the text in field `id` of a struct.
    pub(super) fn text(&self, id: i64) -> Option<String> {
        match self.field(id)? {
            Self::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read() {
        let bytes = [
            0x15, 0x03, // 1: i32 -2
            0x28, 2, b'a', b'b', // 3: binary
            0x11, // 4: true
            0x19, 0x21, 1, 2, // 5: list of two Booleans
            0x1c, 0x13, 0xff, 0, // 6: struct {1: byte -1}
            0x1b, 1, 0x53, 2, 7, // 7: map
            0x06, 0x20, 0x80, 0x01, // 16, by its number: i64 64
            0,
        ];
        let value = Thrift::new(&bytes).structure().unwrap();
        assert_eq!(value.int(1), Some(-2));
        assert_eq!(value.count(1), None);
        assert_eq!(value.text(3).unwrap(), "ab");
        assert_eq!(value.field(4), Some(&Value::Bool(true)));
        assert_eq!(value.field(5), Some(&Value::Other));
        assert_eq!(value.field(6).and_then(|v| v.int(1)), Some(-1));
        assert_eq!((value.field(7), value.int(16)), (Some(&Value::Other), Some(64)));
        for cut in 0..bytes.len() {
            assert_eq!(Thrift::new(&bytes[..cut]).structure(), None, "{cut}");
        }
    }

    #[test]
    fn what_is_deep_or_long_is_refused() {
        // The inputs are nested structs, nested lists, and a list that claims too many values.
        for bytes in [vec![0x1c; 1000], vec![0x19; 1000], vec![0x19, 0xf9, 0xff, 0xff, 0x7f, 0]] {
            assert_eq!(Thrift::new(&bytes).structure(), None);
        }
        assert_eq!(Thrift::new(&[0xff; 20]).varint(), None);
    }
    #[test]
    fn maps_take_a_byte_a_boolean_and_no_more_than_there_is() {
        // Field 1 is a map of two Booleans to Booleans; field 2 is byte 5.
        let bytes = [0x1b, 2, 0x11, 1, 2, 2, 1, 0x13, 5, 0];
        let value = Thrift::new(&bytes).structure().unwrap();
        assert_eq!((value.field(1), value.int(2)), (Some(&Value::Other), Some(5)));
        let n = [0xff; 8];
        for kinds in [0x11, 0x12, 0x33, 0xcc] {
            let bytes = [&[0x1b][..], &n, &[0x7f, kinds, 0, 0, 0]].concat();
            assert_eq!(Thrift::new(&bytes).structure(), None, "{kinds:x}");
        }
    }
    #[test]
    fn what_is_not_needed_is_not_kept() {
        // The outer struct has structs in structs in structs, each with many fields of value true.
        let trues = vec![0x11; 100_000];
        let deep = [&[0x1c; 3][..], &trues, &[0; 4]].concat();
        let mut value = &Thrift::new(&deep).structure().unwrap();
        for _ in 0..2 {
            value = value.field(1).unwrap();
        }
        assert_eq!(value.field(1), Some(&Value::Struct(Vec::new())));
        let wide = [&trues[..], &[0]].concat();
        let Some(Value::Struct(fields)) = Thrift::new(&wide).structure() else { unreachable!() };
        assert_eq!(fields.len(), 20);
    }
}
