//! Event files in TensorBoard's format.
//!
//! ```text
//! file    record*
//! record  u64 LE length | u32 LE masked CRC32C of those 8 bytes | payload | u32 LE masked CRC32C of payload
//! payload an Event in protobuf: 1 wall_time double, 2 step int64, and one of
//!         3 file_version string, 5 summary, 7 session_log
//! ```
//!
//! The first event is the file version, the second the start of a session.
//! TensorBoard takes the first start it sees for the beginning of the run, and at
//! each later one forgets the points from its step on. So every file has one.

use std::fs;
use std::path::Path;

use super::append::AppendFile;
use crate::Error;

const PREFIX: &str = "events.out.tfevents.";

const LEN_DELIMITED: u8 = 2;
const WALL_TIME: u8 = tag(1, 1);
const STEP: u8 = tag(2, 0);
const FILE_VERSION: u8 = tag(3, LEN_DELIMITED);
const SUMMARY: u8 = tag(5, LEN_DELIMITED);
const SESSION_LOG: u8 = tag(7, LEN_DELIMITED);
const SUMMARY_VALUE: u8 = tag(1, LEN_DELIMITED);
const VALUE_TAG: u8 = tag(1, LEN_DELIMITED);
const VALUE_SIMPLE: u8 = tag(2, 5);
/// The message `SessionLog { status: START }`.
const SESSION_START: [u8; 2] = [tag(1, 0), 1];

const fn tag(field: u8, wire_type: u8) -> u8 {
    field << 3 | wire_type
}

#[derive(Debug)]
pub(crate) struct EventFile(AppendFile);

impl EventFile {
    /// Makes a new file in `dir`, after which TensorBoard shows no points of earlier files from
    /// `first_step` on.
    pub(crate) fn create(dir: &Path, wall: f64, first_step: u64) -> Result<Self, Error> {
        let path = dir.join(file_name(wall, last_seconds(dir)?));
        let mut start = record(&event(wall, 0, FILE_VERSION, b"brain.Event:2"));
        start.extend(record(&event(wall, first_step, SESSION_LOG, &SESSION_START)));
        let mut file = AppendFile::open(path, 0)?;
        file.append(&start)?;
        Ok(Self(file))
    }

    pub(crate) fn append(
        &mut self,
        step: u64,
        wall: f64,
        values: &[(&str, f64)],
    ) -> Result<(), Error> {
        self.0.append(&record(&event(wall, step, SUMMARY, &summary(values))))
    }
}

/// TensorBoard reads a folder's files in the order of their names. The seconds
/// are therefore later than those of every file there, whatever the clock of
/// this machine says.
fn file_name(wall: f64, last_seconds: Option<u64>) -> String {
    let seconds = (wall as u64).max(last_seconds.map_or(0, |last| last.saturating_add(1)));
    let uname = rustix::system::uname();
    let host: String = uname
        .nodename()
        .to_string_lossy()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' })
        .collect();
    format!("{PREFIX}{seconds:010}.{host}.{}.0", std::process::id())
}

fn last_seconds(dir: &Path) -> Result<Option<u64>, Error> {
    let error = |e| Error::io("list the folder", dir, e);
    let mut last = None;
    for entry in fs::read_dir(dir).map_err(error)? {
        let name = entry.map_err(error)?.file_name();
        let seconds = name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.split('.').next());
        last = last.max(seconds.and_then(|text| text.parse().ok()));
    }
    Ok(last)
}

fn event(wall: f64, step: u64, what: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![WALL_TIME];
    bytes.extend(wall.to_le_bytes());
    bytes.push(STEP);
    put_varint(&mut bytes, step);
    put_bytes(&mut bytes, what, content);
    bytes
}

fn summary(values: &[(&str, f64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in values {
        let mut message = Vec::new();
        put_bytes(&mut message, VALUE_TAG, name.as_bytes());
        message.push(VALUE_SIMPLE);
        message.extend((*value as f32).to_le_bytes());
        put_bytes(&mut bytes, SUMMARY_VALUE, &message);
    }
    bytes
}

fn put_bytes(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    put_varint(out, content.len() as u64);
    out.extend(content);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn record(payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u64).to_le_bytes();
    let mut bytes = len.to_vec();
    bytes.extend(masked_crc(&len).to_le_bytes());
    bytes.extend(payload);
    bytes.extend(masked_crc(payload).to_le_bytes());
    bytes
}

/// The mask keeps a CRC over bytes that hold CRCs from being weak; TFRecord's own constant.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(what: u8, content: &[u8], expected: &str) {
        let record = record(&event(1.5, 300, what, content));
        let hex: String = record.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, expected);
    }

    /// The expected bytes are those of `tensorboard.summary.writer.record_writer` in TensorBoard
    /// 2.21.0.
    #[test]
    fn records_are_the_bytes_of_tensorboards_own_writer() {
        check(
            FILE_VERSION,
            b"brain.Event:2",
            "1b000000000000001a0d9e1309000000000000f83f10ac021a0d627261696e2e4576656e743a320a8dc5e4",
        );
        check(
            SESSION_LOG,
            &SESSION_START,
            "100000000000000095fbfe1809000000000000f83f10ac023a020801713b788a",
        );
        check(
            SUMMARY,
            &summary(&[("loss", 0.25)]),
            "1b000000000000001a0d9e1309000000000000f83f10ac022a0d0a0b0a046c6f7373150000803e9908deed",
        );
    }

    #[test]
    fn varints_are_protobufs() {
        for (value, expected) in [(0, &[0][..]), (127, &[127]), (128, &[128, 1]), (300, &[172, 2])]
        {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes, expected, "{value}");
        }
        let mut bytes = Vec::new();
        put_varint(&mut bytes, u64::MAX);
        assert_eq!(bytes.len(), 10);
    }

    #[test]
    fn files_sort_by_start_even_when_the_clock_goes_back() {
        let dir = tempfile::tempdir().unwrap();
        for wall in [1000.0, 1000.5, 10.0, 5000.0] {
            EventFile::create(dir.path(), wall, 0).unwrap();
        }
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let seconds: Vec<_> = names.iter().map(|n| n.split('.').nth(3).unwrap()).collect();
        assert_eq!(seconds, ["0000001000", "0000001001", "0000001002", "0000005000"]);
    }
}
