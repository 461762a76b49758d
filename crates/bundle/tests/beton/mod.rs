//! Makes a `.beton`, version 2, byte by byte. Its single page is only as large as its values need;
//! FFCV's have at least 2 MiB.

/// A value that will be written to the file.
#[derive(Clone)]
enum Value {
    Number([u8; 8]),
    /// Mode, width, height, bytes.
    Image(u8, (u16, u16), Vec<u8>),
    Bytes(Vec<u8>),
    Array(Vec<u8>),
}

/// A file of `rows` samples.
pub(crate) struct Beton {
    rows: usize,
    /// Type, name, arguments, values.
    fields: Vec<(u8, String, Vec<u8>, Vec<Value>)>,
}

impl Beton {
    pub(crate) fn new(rows: usize) -> Self {
        Self { rows, fields: Vec::new() }
    }

    fn field(
        mut self,
        kind: u8,
        name: &str,
        arguments: Vec<u8>,
        value: impl Fn(usize) -> Value,
    ) -> Self {
        let values = (0..self.rows).map(value).collect();
        self.fields.push((kind, name.into(), arguments, values));
        self
    }

    pub(crate) fn floats(self, name: &str, value: impl Fn(usize) -> f64) -> Self {
        self.field(0, name, vec![], |i| Value::Number(value(i).to_le_bytes()))
    }

    pub(crate) fn integers(self, name: &str, value: impl Fn(usize) -> i64) -> Self {
        self.field(1, name, vec![], |i| Value::Number(value(i).to_le_bytes()))
    }

    pub(crate) fn jpegs(self, name: &str, value: impl Fn(usize) -> Vec<u8>) -> Self {
        self.field(2, name, vec![], |i| Value::Image(0, (8, 8), value(i)))
    }

    /// Adds a field of pixels; `size` is width and height.
    pub(crate) fn pixels(
        self,
        name: &str,
        size: impl Fn(usize) -> (u16, u16),
        value: impl Fn(usize) -> Vec<u8>,
    ) -> Self {
        self.field(2, name, vec![], |i| Value::Image(1, size(i), value(i)))
    }

    /// Stores the first image of the first field as JPEG.
    pub(crate) fn jpeg_among_pixels(mut self) -> Self {
        self.fields[0].3[0] = Value::Image(0, (5, 3), vec![1; 10]);
        self
    }

    pub(crate) fn blobs(self, name: &str, value: impl Fn(usize) -> Vec<u8>) -> Self {
        self.field(3, name, vec![], |i| Value::Bytes(value(i)))
    }

    pub(crate) fn array(
        self,
        name: &str,
        descr: &str,
        shape: &[u64],
        value: impl Fn(usize) -> Vec<u8>,
    ) -> Self {
        let text = format!("[[\"\", \"{descr}\"]]");
        let mut arguments: Vec<u8> = shape.iter().flat_map(|n| n.to_le_bytes()).collect();
        arguments.resize(256, 0);
        arguments.extend_from_slice(&(text.len() as u64).to_le_bytes());
        arguments.extend_from_slice(text.as_bytes());
        self.field(4, name, arguments, |i| Value::Array(value(i)))
    }

    pub(crate) fn json(self, name: &str, value: impl Fn(usize) -> String) -> Self {
        self.field(5, name, vec![], |i| Value::Bytes((value(i) + "\0").into_bytes()))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let page = 4096_usize;
        let rows_start = 24 + 1041 * self.fields.len();
        let pages_start =
            (rows_start + self.row(0, &mut |_| 0).len() * self.rows).next_multiple_of(page);
        let (mut values, mut table) = (Vec::new(), Vec::new());
        let mut rows = Vec::new();
        for row in 0..self.rows {
            let mut place = |value: &[u8]| {
                let at = (pages_start + values.len()) as u64;
                values.extend_from_slice(value);
                table.extend([row as u64, at, value.len() as u64].map(u64::to_le_bytes).concat());
                at
            };
            rows.extend(self.row(row, &mut place));
        }
        values.resize(values.len().next_multiple_of(page), 0);
        let mut bytes = [2_u16, self.fields.len() as u16].map(u16::to_le_bytes).concat();
        bytes.extend_from_slice(&(page as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.rows as u64).to_le_bytes());
        bytes.extend_from_slice(&((pages_start + values.len()) as u64).to_le_bytes());
        for (kind, name, arguments, _) in &self.fields {
            let padded = |bytes: &[u8], n| {
                bytes.iter().copied().chain(std::iter::repeat(0)).take(n).collect::<Vec<u8>>()
            };
            bytes.push(*kind);
            bytes.extend(padded(name.as_bytes(), 16));
            bytes.extend(padded(arguments, 1024));
        }
        bytes.extend(rows);
        bytes.resize(pages_start, 0);
        bytes.extend(values);
        bytes.extend(table);
        bytes
    }

    /// Makes a row by C's rules, in which only numbers and pointers are at multiples of 8.
    fn row(&self, row: usize, place: &mut dyn FnMut(&[u8]) -> u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut align = 1;
        for (_, _, _, values) in &self.fields {
            if matches!(values[row], Value::Number(_) | Value::Array(_)) {
                align = 8;
                bytes.resize(bytes.len().next_multiple_of(8), 0);
            }
            match &values[row] {
                Value::Number(number) => bytes.extend_from_slice(number),
                Value::Image(mode, (width, height), value) => {
                    bytes.push(*mode);
                    bytes.extend_from_slice(&width.to_le_bytes());
                    bytes.extend_from_slice(&height.to_le_bytes());
                    bytes.extend_from_slice(&place(value).to_le_bytes());
                }
                Value::Bytes(value) => {
                    bytes.extend_from_slice(&place(value).to_le_bytes());
                    bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
                }
                Value::Array(value) => bytes.extend_from_slice(&place(value).to_le_bytes()),
            }
        }
        bytes.resize(bytes.len().next_multiple_of(align), 0);
        bytes
    }
}
