//! How numbers, texts and JSON are written, and to which stream.

use std::io::{self, Write as _};

use crate::exit::Failure;
use crate::shared::Output;

/// Formats bytes with a decimal unit: 1.5 GB.
pub(crate) fn size(bytes: u64) -> String {
    gular_files::Size(bytes).to_string()
}

/// `, 0.68 s, 107.2 MB/s`: how long it took, and how fast bytes went, if any did.
pub(crate) fn pace(bytes: u64, seconds: f64) -> String {
    match bytes {
        0 => format!(", {seconds:.2} s"),
        n => format!(", {seconds:.2} s, {}/s", size((n as f64 / seconds.max(1e-9)) as u64)),
    }
}

/// A number with its noun: `1 shard`, `2 shards`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `text` with its control characters as escapes, lest a name from a file
/// moves the cursor or forges a line. Lines of our own stay.
pub(crate) fn printable(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// Does the same as [`printable`] for one name: line ends are escaped, too.
pub(crate) fn plain(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() { shown.extend(c.escape_debug()) } else { shown.push(c) }
    }
    shown
}

/// Formats a path as one word of the shell.
pub(crate) fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@".contains(c);
    let plain = !path.is_empty() && !path.starts_with('-') && path.chars().all(plain);
    if plain { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

/// Writes one JSON object to stdout.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::new(format!("cannot write JSON: {e}"), None))?;
    stdout(format!("{text}\n").as_bytes())
}

/// A result in the form that was asked for: JSON, else its text.
pub(crate) fn value(value: &serde_json::Value, text: &str, output: &Output) -> Result<(), Failure> {
    if output.json { json(value) } else { self::text(text) }
}

/// Writes one JSON object on one line to stdout, for readers that continue to read.
pub(crate) fn json_line<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|e| Failure::new(format!("cannot write JSON: {e}"), None))?;
    stdout(format!("{text}\n").as_bytes())
}

/// Writes a text for people to stdout.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    stdout(printable(text).as_bytes())
}

/// Bytes on stdout. A reader that went away (`gular … | head`) is not an error,
/// and must not change the verdict that the exit code says.
pub(crate) fn stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Failure::new(format!("cannot write to standard output: {e}"), None)),
        Ok(()) => Ok(()),
    }
}

/// A message on stderr; when nobody reads there, the exit code has to do.
pub(crate) fn message(kind: &str, text: &str) {
    let _ = writeln!(io::stderr().lock(), "{kind}: {}", printable(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(quoted("/a/b-c.d"), "/a/b-c.d");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
        assert_eq!((quoted("").as_str(), quoted("-f").as_str()), ("''", "'-f'"));
    }

    #[test]
    fn nouns_follow_their_numbers() {
        assert_eq!([0, 1, 2].map(|n| count(n, "shard")).join(", "), "0 shards, 1 shard, 2 shards");
    }

    #[test]
    fn nothing_has_no_speed() {
        assert_eq!(pace(2_000_000, 0.5), ", 0.50 s, 4.0 MB/s");
        assert_eq!(pace(0, 0.5), ", 0.50 s");
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(plain("dög\u{1b}[2J\n"), "dög\\u{1b}[2J\\n");
        assert_eq!(printable("a\tb\nc\r\n"), "a\\tb\nc\\r\n");
    }
}
