//! Writes and reads the list of samples, `samples.tsv`.
//!
//! ```text
//! key TAB image TAB label LF
//! c/a.jpg TAB c/a.jpg TAB 3 LF
//! ```

use std::io::{self, Read};

/// The separator of the columns.
const TAB: char = '\t';

/// The list's bytes, made line by line as they are read.
#[derive(Debug)]
pub(crate) struct Lines<I> {
    lines: I,
    line: Vec<u8>,
    /// Bytes of the current line that were read.
    at: usize,
}

impl<I: Iterator<Item = String>> Lines<I> {
    /// Makes a list that begins with `header`.
    pub(crate) fn new(header: String, lines: I) -> Self {
        Self { lines, line: header.into_bytes(), at: 0 }
    }
}

impl<I: Iterator<Item = String>> Read for Lines<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.line.len() {
            let Some(line) = self.lines.next() else { return Ok(0) };
            (self.line, self.at) = (line.into_bytes(), 0);
        }
        let n = self.line.get(self.at..).unwrap_or_default().read(buffer)?;
        self.at = self.at.saturating_add(n);
        Ok(n)
    }
}

/// A parsed list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct List<'a> {
    pub(crate) keys: Vec<&'a str>,
    /// Name and values of each column after the keys.
    pub(crate) columns: Vec<(&'a str, Vec<&'a str>)>,
}

/// More columns than this are not a list of samples.
const MOST_COLUMNS: usize = 256;

/// Returns whether a file that begins with `head` is a list of samples.
pub(crate) fn is_list(head: &[u8]) -> bool {
    head.starts_with(b"key\t")
}

impl<'a> List<'a> {
    /// Parses a list. The error says why the text is not a list.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let mut lines = text.split_inclusive('\n').map(|line| line.strip_suffix('\n'));
        let header = lines.next().flatten().ok_or("it has no line")?;
        let names =
            header.strip_prefix("key\t").ok_or("its first line does not begin with `key`")?;
        let mut columns: Vec<(&str, Vec<&str>)> =
            names.split(TAB).map(|name| (name, Vec::new())).collect();
        if columns.len() > MOST_COLUMNS {
            return Err(format!("it has over {MOST_COLUMNS} columns"));
        }
        let mut keys = Vec::new();
        for (row, line) in lines.enumerate() {
            let bad = || format!("the line of sample {row} is incomplete");
            let mut values = line.ok_or_else(bad)?.split(TAB);
            keys.push(values.next().ok_or_else(bad)?);
            for (_, column) in &mut columns {
                column.push(values.next().ok_or_else(bad)?);
            }
            if values.next().is_some() {
                return Err(format!("the line of sample {row} has too many values"));
            }
        }
        Ok(Self { keys, columns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_were_written() {
        let lines = ["a\tx\t1\n", "b\ty\t-1\n"].map(str::to_owned);
        let mut text = String::new();
        Lines::new("key\timage\tlabel\n".into(), lines.into_iter())
            .read_to_string(&mut text)
            .unwrap();
        let list = List::parse(&text).unwrap();
        assert_eq!(list.keys, ["a", "b"]);
        assert_eq!(list.columns, [("image", vec!["x", "y"]), ("label", vec!["1", "-1"])]);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "key\tx", "name\tx\n", "key\tx\na\n", "key\tx\na\tb\tc\n", "key\tx\na\tb"]
        {
            List::parse(text).unwrap_err();
        }
        List::parse(&format!("key{}\n", "\tx".repeat(257))).unwrap_err();
    }
}
