//! The text of a file, however its bytes are encoded.

/// Decodes UTF-8 and UTF-16; a byte order mark is not part of the text. `None` for other bytes.
///
/// PowerShell before version 6 writes `pip freeze > requirements.txt` as UTF-16, and Notepad adds
/// a byte order mark to UTF-8.
pub(super) fn decode(bytes: &[u8]) -> Option<String> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let pairs = bytes.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return None;
        }
        let units = pairs.filter_map(|pair| Some(unit(pair.try_into().ok()?)));
        char::decode_utf16(units).collect::<Result<String, _>>().ok()
    };
    match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        // Without a mark, a zero byte in each pair tells UTF-16: no text of UTF-8 has one.
        [_, 0, ..] => utf16(bytes, u16::from_le_bytes),
        [0, _, ..] => utf16(bytes, u16::from_be_bytes),
        _ => String::from_utf8(bytes.to_vec()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_in_each_encoding() {
        let units: Vec<u16> = "numpy é\r\n".encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        for bytes in [
            "numpy é\r\n".as_bytes().to_vec(),
            [b"\xEF\xBB\xBF", "numpy é\r\n".as_bytes()].concat(),
            [b"\xFF\xFE", little.as_slice()].concat(),
            [b"\xFE\xFF", big.as_slice()].concat(),
            little.clone(),
            big,
        ] {
            assert_eq!(decode(&bytes).as_deref(), Some("numpy é\r\n"), "{bytes:?}");
        }
        assert_eq!(decode(b"").as_deref(), Some(""));
        for bad in [b"caf\xe9".as_slice(), b"\xFF\xFEa", b"\xFF\xFE\x00\xD8"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }
}
