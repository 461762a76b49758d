//! The 512-byte headers of tar members.

/// Members begin at multiples of this.
pub(crate) const BLOCK: u64 = 512;
/// 1980-01-01: equal in every file, and not so early that tar warns of it.
const MTIME: u64 = 315_532_800;
/// The record with a sample's key, if the name of its first member is another.
pub(crate) const KEY_RECORD: &str = "GULAR.key";

/// Makes the header of a regular file called `name` of `size` bytes, after a pax header for what
/// does not fit into ustar, and for `key`.
pub(crate) fn member(name: &str, size: u64, key: Option<&str>) -> Vec<u8> {
    let mut records = Vec::new();
    let split = split_name(name);
    if split.is_none() {
        records.extend_from_slice(&record("path", name));
    }
    if let Some(key) = key {
        records.extend_from_slice(&record(KEY_RECORD, key));
    }
    let mut bytes = Vec::new();
    if !records.is_empty() {
        bytes.extend_from_slice(&ustar(("", "pax_header"), records.len() as u64, b'x'));
        bytes.extend_from_slice(&records);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.extend_from_slice(&ustar(split.unwrap_or(("", "long_name")), size, b'0'));
    bytes
}

/// Splits a name into the folder and name that ustar can hold: 155 and 100 bytes, ASCII.
fn split_name(name: &str) -> Option<(&str, &str)> {
    if !name.is_ascii() {
        return None;
    }
    if name.len() <= 100 {
        return Some(("", name));
    }
    let cut = |(at, _): (usize, &str)| name.get(..at).zip(name.get(at.saturating_add(1)..));
    name.match_indices('/').filter_map(cut).find(|(folder, rest)| {
        folder.len() <= 155 && rest.len() <= 100 && !folder.is_empty() && !rest.is_empty()
    })
}

/// Makes the pax record `<length> <name>=<value>\n`, in which the length counts itself.
fn record(name: &str, value: &str) -> Vec<u8> {
    let rest = name.len().saturating_add(value.len()).saturating_add(3);
    let mut len = rest;
    while rest.saturating_add(len.to_string().len()) != len {
        len = rest.saturating_add(len.to_string().len());
    }
    format!("{len} {name}={value}\n").into_bytes()
}

fn ustar((folder, name): (&str, &str), size: u64, kind: u8) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(room) = header.get_mut(at..at.saturating_add(bytes.len())) {
            room.copy_from_slice(bytes);
        }
    };
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, format!("{MTIME:011o}\0").as_bytes());
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    put(345, folder.as_bytes());
    let sum = checksum(&header);
    if let Some(room) = header.get_mut(148..156) {
        room.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    header
}

/// Returns the sum of all bytes, in which those of the sum itself count as spaces.
pub(crate) fn checksum(header: &[u8; 512]) -> u64 {
    let byte = |(i, b): (usize, &u8)| u64::from(if (148..156).contains(&i) { b' ' } else { *b });
    header.iter().enumerate().map(byte).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_themselves() {
        for n in [1, 80, 90, 91, 92, 93, 990, 9990] {
            let record = record("path", &"x".repeat(n));
            let text = String::from_utf8(record.clone()).unwrap();
            assert_eq!(text.split(' ').next().unwrap().parse::<usize>().unwrap(), record.len());
        }
    }

    #[test]
    fn long_names_are_split_or_recorded() {
        assert_eq!(split_name("a/b"), Some(("", "a/b")));
        let folder = "f".repeat(120);
        assert_eq!(split_name(&format!("{folder}/x")), Some((folder.as_str(), "x")));
        assert_eq!(split_name(&"n".repeat(101)), None);
        assert_eq!(split_name("ä"), None);
        assert_eq!(member("a", 1, None).len(), 512);
        assert_eq!(member("ä", 1, None).len(), 1536);
    }
}
