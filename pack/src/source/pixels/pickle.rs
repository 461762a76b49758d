//! Python's pickles as data: nothing in them is run.
//!
//! A pickle is a program for a machine with a stack. The reader knows the operations that make
//! numbers, texts, lists, tuples, dictionaries and NumPy's arrays, and refuses all others by name,
//! as well as every function that is not one of NumPy's three. Long texts, such as the numbers of
//! an array, are not read: their place in the file is kept.
//!
//! Source: `Lib/pickletools.py` of CPython.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read, Seek};

/// Most values of a pickle: that of CIFAR-100's 50,000 images has 200,000.
const MOST_VALUES: usize = 1 << 20;
/// Most texts of a list that are taken.
const MOST_TEXTS: usize = 1 << 16;
/// Most keys that a message names.
const MOST_KEYS: usize = 16;
/// Texts of more bytes stay in the file.
const LONGEST_KEPT: u64 = 256;
/// Longest line of protocol 0.
const LONGEST_LINE: u64 = 4096;

/// Why a pickle is not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum PickleError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it does not begin as a pickle does")]
    NoPickle,
    #[error("its operation {name} at byte {at} is not one that only makes data")]
    Operation { name: String, at: u64 },
    #[error("it calls `{name}`, which is not a part of NumPy's arrays")]
    Global { name: String },
    #[error("it is damaged at byte {at}: {what}")]
    Damaged { at: u64, what: &'static str },
    #[error("it has more than {MOST_VALUES} values")]
    TooLong,
}

/// The number of a value.
type Id = usize;

/// The bytes of a text in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextPlace {
    pub(super) start: u64,
    pub(super) len: u64,
}

#[derive(Debug)]
enum Value {
    None,
    Int(i64),
    Text(TextPlace, Vec<u8>),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(String),
    /// A type of numbers.
    Dtype(Id),
    /// An array, and what it was made from: version, shape, type, order, numbers.
    Array(Option<Id>),
}

/// An array of unsigned bytes in C order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ByteArray {
    pub(super) shape: Vec<u64>,
    pub(super) bytes: TextPlace,
}

/// The value of a pickle.
#[derive(Debug)]
pub(super) struct Pickle {
    values: Vec<Value>,
    root: Id,
}

impl Pickle {
    /// Reads a pickle to its end.
    pub(super) fn read(from: impl Read + Seek) -> Result<Self, PickleError> {
        let mut machine = Machine {
            bytes: Bytes { from: BufReader::new(from), at: 0 },
            values: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            collected: 0,
            memo: HashMap::new(),
        };
        let root = machine.run()?;
        Ok(Self { values: machine.values, root })
    }

    /// The value of `key` in the dictionary that the pickle is.
    fn value(&self, key: &str) -> Option<&Value> {
        let Value::Dict(items) = self.values.get(self.root)? else { return None };
        let is_key = |id: &Id| matches!(self.values.get(*id), Some(Value::Text(_, text)) if text == key.as_bytes());
        // As in Python, the last one counts.
        items.iter().rev().find(|(k, _)| is_key(k)).and_then(|(_, id)| self.values.get(*id))
    }

    /// The first keys of the dictionary that are texts.
    pub(super) fn keys(&self) -> Vec<String> {
        let Some(Value::Dict(items)) = self.values.get(self.root) else { return Vec::new() };
        items.iter().filter_map(|(key, _)| self.text(*key)).take(MOST_KEYS).collect()
    }

    fn text(&self, id: Id) -> Option<String> {
        match self.values.get(id)? {
            Value::Text(place, text) if place.len == text.len() as u64 => {
                Some(String::from_utf8_lossy(text).into_owned())
            }
            _ => None,
        }
    }

    fn int(&self, id: Id) -> Option<i64> {
        match self.values.get(id)? {
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// A list of integers.
    pub(super) fn ints(&self, key: &str) -> Option<Vec<i64>> {
        let Value::List(items) = self.value(key)? else { return None };
        items.iter().map(|id| self.int(*id)).collect()
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &str) -> Option<Vec<String>> {
        let Value::List(items) = self.value(key)? else { return None };
        if items.len() > MOST_TEXTS {
            return None;
        }
        items.iter().map(|id| self.text(*id)).collect()
    }

    /// An array of unsigned bytes in C order.
    pub(super) fn byte_array(&self, key: &str) -> Option<ByteArray> {
        let Value::Array(Some(state)) = self.value(key)? else { return None };
        let Value::Tuple(state) = self.values.get(*state)? else { return None };
        let [_, shape, dtype, fortran, bytes] = *state.as_slice() else { return None };
        let Value::Dtype(dtype) = self.values.get(dtype)? else { return None };
        let is_bytes = matches!(self.text(*dtype)?.as_str(), "u1" | "|u1");
        let Value::Tuple(shape) = self.values.get(shape)? else { return None };
        let shape: Option<Vec<u64>> =
            shape.iter().map(|id| u64::try_from(self.int(*id)?).ok()).collect();
        let Value::Text(bytes, _) = self.values.get(bytes)? else { return None };
        (is_bytes && self.int(fortran)? == 0).then_some(ByteArray { shape: shape?, bytes: *bytes })
    }
}

/// A file that is read from its beginning.
struct Bytes<R: Read + Seek> {
    from: BufReader<R>,
    at: u64,
}

impl<R: Read + Seek> Bytes<R> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it ends too early"),
            _ => PickleError::Io(e),
        })?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn line(&mut self) -> Result<Vec<u8>, PickleError> {
        let mut line = Vec::new();
        let n = (&mut self.from).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        self.at += n as u64;
        match line.pop() {
            Some(b'\n') => Ok(line),
            _ => Err(self.damaged("a line does not end")),
        }
    }

    /// A text of `len` bytes, which is kept if it is short.
    fn text(&mut self, len: u64) -> Result<Value, PickleError> {
        let place = TextPlace { start: self.at, len };
        let mut kept = Vec::new();
        if len <= LONGEST_KEPT {
            (&mut self.from).take(len).read_to_end(&mut kept)?;
            if (kept.len() as u64) < len {
                return Err(self.damaged("it ends too early"));
            }
        } else {
            // A file that ends before is noticed at the next operation.
            let by = i64::try_from(len).map_err(|_| self.damaged("a text is too long"))?;
            self.from.seek_relative(by)?;
        }
        self.at = self.at.saturating_add(len);
        Ok(Value::Text(place, kept))
    }

    fn damaged(&self, what: &'static str) -> PickleError {
        PickleError::Damaged { at: self.at, what }
    }
}

/// The state of reading.
struct Machine<R: Read + Seek> {
    bytes: Bytes<R>,
    values: Vec<Value>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    /// Number of values that were put into others.
    collected: usize,
    memo: HashMap<u32, Id>,
}

/// The functions and types that arrays of NumPy are made with.
const GLOBALS: [&str; 4] = [
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct",
    "numpy.ndarray",
    "numpy.dtype",
];

/// Operations that call functions, for messages.
const REFUSED: [(u8, &str); 10] = [
    (b'i', "INST"),
    (b'o', "OBJ"),
    (b'P', "PERSID"),
    (b'Q', "BINPERSID"),
    (0x81, "NEWOBJ"),
    (0x82, "EXT1"),
    (0x83, "EXT2"),
    (0x84, "EXT4"),
    (0x92, "NEWOBJ_EX"),
    (0x97, "NEXT_BUFFER"),
];

impl<R: Read + Seek> Machine<R> {
    fn run(&mut self) -> Result<Id, PickleError> {
        let mut is_first = true;
        loop {
            let at = self.bytes.at;
            let [op] = self.bytes.take()?;
            if is_first && !matches!(op, 0x80 | b'(' | b'}' | b']') {
                return Err(PickleError::NoPickle);
            }
            is_first = false;
            if op == b'.' {
                return self.pop();
            }
            if !(self.simple(op)?
                || self.collected(op)?
                || self.remembered(op)?
                || self.called(op)?)
            {
                let known = REFUSED.iter().find(|(refused, _)| *refused == op);
                let name =
                    known.map_or_else(|| format!("0x{op:02x}"), |(_, name)| format!("`{name}`"));
                return Err(PickleError::Operation { name, at });
            }
        }
    }

    /// Operations that make one value.
    fn simple(&mut self, op: u8) -> Result<bool, PickleError> {
        let bytes = &mut self.bytes;
        let value = match op {
            0x80 => {
                bytes.take::<1>()?;
                return Ok(true);
            }
            // The length of a frame, which says nothing.
            0x95 => {
                bytes.take::<8>()?;
                return Ok(true);
            }
            b'N' => Value::None,
            0x88 => Value::Int(1),
            0x89 => Value::Int(0),
            b'K' => Value::Int(bytes.take::<1>()?[0].into()),
            b'M' => Value::Int(u16::from_le_bytes(bytes.take()?).into()),
            b'J' => Value::Int(i32::from_le_bytes(bytes.take()?).into()),
            b'I' | b'L' => Value::Int(self.int_line()?),
            b'U' | b'C' | 0x8c => {
                let [len] = bytes.take()?;
                bytes.text(len.into())?
            }
            b'T' | b'B' | b'X' => {
                let len = u32::from_le_bytes(bytes.take()?);
                bytes.text(len.into())?
            }
            0x8d | 0x8e => {
                let len = u64::from_le_bytes(bytes.take()?);
                bytes.text(len)?
            }
            b'S' | b'V' => self.text_line(op)?,
            b'}' => Value::Dict(Vec::new()),
            b']' => Value::List(Vec::new()),
            b')' => Value::Tuple(Vec::new()),
            _ => return Ok(false),
        };
        self.push(value)?;
        Ok(true)
    }

    fn int_line(&mut self) -> Result<i64, PickleError> {
        let line = self.bytes.line()?;
        let text = std::str::from_utf8(&line).ok();
        let number = text.and_then(|text| text.strip_suffix('L').unwrap_or(text).parse().ok());
        number.ok_or_else(|| self.bytes.damaged("a number is not one"))
    }

    /// A text in quotes, or for `V` without them.
    fn text_line(&mut self, op: u8) -> Result<Value, PickleError> {
        let start = self.bytes.at;
        let line = self.bytes.line()?;
        let (text, quote) = match line.as_slice() {
            [b'\'', text @ .., b'\''] | [b'"', text @ .., b'"'] if op == b'S' => (text, 1),
            text if op == b'V' => (text, 0),
            _ => return Err(self.bytes.damaged("a text has no quotes")),
        };
        if text.contains(&b'\\') {
            return Err(self.bytes.damaged("a text has escapes, which are not read"));
        }
        let place = TextPlace { start: start + quote, len: text.len() as u64 };
        Ok(Value::Text(place, text.to_vec()))
    }

    /// Operations that put values into lists, tuples and dictionaries.
    fn collected(&mut self, op: u8) -> Result<bool, PickleError> {
        match op {
            b'(' => {
                if self.marks.len() >= MOST_VALUES {
                    return Err(PickleError::TooLong);
                }
                self.marks.push(self.stack.len());
            }
            b't' | 0x85..=0x87 => {
                let items = match op {
                    b't' => self.pop_mark()?,
                    n => self.pop_n(usize::from(n - 0x84))?,
                };
                self.push(Value::Tuple(items))?;
            }
            b'l' => {
                let items = self.pop_mark()?;
                self.push(Value::List(items))?;
            }
            b'd' => {
                let items = self.pop_mark()?;
                self.push(Value::Dict(Vec::new()))?;
                self.set_items(&items)?;
            }
            b'a' | b'e' => {
                let mut items = if op == b'a' { self.pop_n(1)? } else { self.pop_mark()? };
                match self.top()? {
                    Value::List(list) => list.append(&mut items),
                    _ => return Err(self.bytes.damaged("it appends to what is not a list")),
                }
            }
            b's' | b'u' => {
                let items = if op == b's' { self.pop_n(2)? } else { self.pop_mark()? };
                self.set_items(&items)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Operations that keep a value for later, and take it.
    fn remembered(&mut self, op: u8) -> Result<bool, PickleError> {
        let number = match op {
            b'q' | b'h' => self.bytes.take::<1>()?[0].into(),
            b'r' | b'j' => u32::from_le_bytes(self.bytes.take()?),
            b'p' | b'g' => {
                let number = u32::try_from(self.int_line()?);
                number.map_err(|_| self.bytes.damaged("the number of a value is not one"))?
            }
            0x94 => u32::try_from(self.memo.len()).map_err(|_| PickleError::TooLong)?,
            _ => return Ok(false),
        };
        if matches!(op, b'h' | b'j' | b'g') {
            let id = self.memo.get(&number).copied();
            let id =
                id.ok_or_else(|| self.bytes.damaged("it takes a value that it did not keep"))?;
            self.push_id(id)?;
        } else {
            if self.memo.len() >= MOST_VALUES {
                return Err(PickleError::TooLong);
            }
            let id = *self.stack.last().ok_or_else(|| self.bytes.damaged("its stack is empty"))?;
            self.memo.insert(number, id);
        }
        Ok(true)
    }

    /// Operations that name and call functions: those of NumPy make arrays, no other is taken.
    fn called(&mut self, op: u8) -> Result<bool, PickleError> {
        match op {
            b'c' | 0x93 => {
                let name = self.global_name(op)?;
                if !GLOBALS.contains(&name.as_str()) {
                    return Err(PickleError::Global { name });
                }
                self.push(Value::Global(name))?;
            }
            b'R' => {
                let called = self.pop_n(2)?;
                let [function, args] = called.as_slice() else { return Ok(false) };
                let first = match self.values.get(*args) {
                    Some(Value::Tuple(args)) => args.first().copied(),
                    _ => None,
                };
                let value = match (self.values.get(*function), first) {
                    (Some(Value::Global(name)), Some(first)) if name == "numpy.dtype" => {
                        Value::Dtype(first)
                    }
                    (Some(Value::Global(name)), Some(_)) if name.ends_with("._reconstruct") => {
                        Value::Array(None)
                    }
                    _ => return Err(self.bytes.damaged("it calls what is not a function")),
                };
                self.push(value)?;
            }
            b'b' => {
                let state = self.pop()?;
                match self.top()? {
                    Value::Array(made) => *made = Some(state),
                    // Byte order and alignment, which bytes do not have.
                    Value::Dtype(_) => {}
                    _ => return Err(self.bytes.damaged("it sets the state of what has none")),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The name of a function, with its module.
    fn global_name(&mut self, op: u8) -> Result<String, PickleError> {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if op == b'c' {
            let (module, name) = (self.bytes.line()?, self.bytes.line()?);
            return Ok(format!("{}.{}", lossy(&module), lossy(&name)));
        }
        let names = self.pop_n(2)?;
        let texts: Vec<String> = names
            .iter()
            .filter_map(|id| match self.values.get(*id) {
                Some(Value::Text(_, text)) => Some(lossy(text)),
                _ => None,
            })
            .collect();
        Ok(texts.join("."))
    }

    fn push(&mut self, value: Value) -> Result<(), PickleError> {
        if self.values.len() >= MOST_VALUES {
            return Err(PickleError::TooLong);
        }
        self.values.push(value);
        self.push_id(self.values.len() - 1)
    }

    fn push_id(&mut self, id: Id) -> Result<(), PickleError> {
        if self.stack.len() >= MOST_VALUES {
            return Err(PickleError::TooLong);
        }
        self.stack.push(id);
        Ok(())
    }

    fn pop(&mut self) -> Result<Id, PickleError> {
        self.stack.pop().ok_or_else(|| self.bytes.damaged("its stack is empty"))
    }

    fn pop_n(&mut self, n: usize) -> Result<Vec<Id>, PickleError> {
        let at = self.stack.len().checked_sub(n);
        let at = at.ok_or_else(|| self.bytes.damaged("its stack is empty"))?;
        Ok(self.stack.split_off(at))
    }

    fn pop_mark(&mut self) -> Result<Vec<Id>, PickleError> {
        let at = self.marks.pop().filter(|at| *at <= self.stack.len());
        let at = at.ok_or_else(|| self.bytes.damaged("its stack has no mark"))?;
        self.collected += self.stack.len() - at;
        if self.collected > MOST_VALUES {
            return Err(PickleError::TooLong);
        }
        Ok(self.stack.split_off(at))
    }

    fn top(&mut self) -> Result<&mut Value, PickleError> {
        let id = self.stack.last().copied();
        let damaged = self.bytes.damaged("its stack is empty");
        id.and_then(|id| self.values.get_mut(id)).ok_or(damaged)
    }

    /// Puts keys and values into the dictionary on the stack.
    fn set_items(&mut self, items: &[Id]) -> Result<(), PickleError> {
        let (pairs, rest) = items.as_chunks::<2>();
        let damaged = self.bytes.damaged("it sets what is not the key of a dictionary");
        match self.top()? {
            Value::Dict(dict) if rest.is_empty() => {
                dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
                Ok(())
            }
            _ => Err(damaged),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Pickle, PickleError> {
        Pickle::read(Cursor::new(bytes))
    }

    /// `{"labels": [6, 300], "data": …}` of 2 x 3 bytes, as Python 2 wrote it.
    const BATCH: &[u8] = b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x06M\x2c\x01eU\x04dataq\x04\
        cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87Rq\x07\
        (K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87Rq\x09\
        (K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T\x06\x00\x00\x00abcdeftbu.";

    #[test]
    fn a_batch_of_cifar_is_read_as_data() {
        let pickle = read(BATCH).unwrap();
        assert_eq!(pickle.keys(), ["labels", "data"]);
        assert_eq!(pickle.ints("labels"), Some(vec![6, 300]));
        let array = pickle.byte_array("data").unwrap();
        let start = BATCH.windows(6).position(|w| w == b"abcdef").unwrap() as u64;
        assert_eq!(array, ByteArray { shape: vec![2, 3], bytes: TextPlace { start, len: 6 } });
        assert_eq!(pickle.texts("labels"), None);
        assert_eq!(pickle.ints("none"), None);
    }

    #[test]
    fn lines_of_protocol_0_are_read() {
        let text = b"(dp1\nS'label_names'\np2\n(lp3\nS'airplane'\np4\naS\"cat\"\naVdog\nasS'n'\nI2\nsS'm'\nL3L\ns.";
        let pickle = read(text).unwrap();
        assert_eq!(pickle.texts("label_names").unwrap(), ["airplane", "cat", "dog"]);
        assert_eq!(pickle.keys(), ["label_names", "n", "m"]);
    }

    #[test]
    fn what_would_run_a_program_is_refused_by_name() {
        for (bytes, expected) in [
            (&b"\x80\x02cos\nsystem\n(U\x02lstR."[..], "it calls `os.system`"),
            (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", "it calls `builtins.eval`"),
            (b"(ios\nsystem\n.", "its operation `INST` at byte 1"),
            (b"\x80\x02]\x81.", "its operation `NEWOBJ` at byte 3"),
            (b"\x80\x02]\x05.", "its operation 0x05 at byte 3"),
            (b"PK\x03\x04", "does not begin as a pickle"),
            (b"\x80\x02]", "it ends too early"),
            (b"\x80\x02K\x01R.", "its stack is empty"),
            (b"\x80\x02K\x01K\x02R.", "it calls what is not a function"),
            (b"\x80\x02e.", "its stack has no mark"),
            (b"\x80\x02K\x01K\x02a.", "what is not a list"),
            (b"\x80\x02}K\x01b.", "the state of what has none"),
            (b"\x80\x02h\x07.", "a value that it did not keep"),
            (b"(S'a\\n'\n.", "a text has escapes"),
            (b"(Ix\n.", "a number is not one"),
            (b"\x80\x02T\xff\xff\xff\xff.", "it ends too early"),
        ] {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn no_cut_or_changed_byte_panics() {
        for end in 0..BATCH.len() {
            assert!(read(&BATCH[..end]).is_err(), "{end}");
        }
        for at in 0..BATCH.len() {
            for by in [1, 0x55, 0x80] {
                let mut bytes = BATCH.to_vec();
                bytes[at] ^= by;
                if let Ok(pickle) = read(&bytes) {
                    drop((pickle.keys(), pickle.ints("labels"), pickle.byte_array("data")));
                }
            }
        }
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let bytes = [b"\x80\x02".as_slice(), &b"N".repeat(MOST_VALUES + 1)].concat();
        assert!(matches!(read(&bytes), Err(PickleError::TooLong)));
    }
}
