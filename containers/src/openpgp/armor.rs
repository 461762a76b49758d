//! ASCII armor (RFC 9580, section 6) and cleartext signed messages (section 7).
//!
//! ```text
//! -----BEGIN PGP SIGNED MESSAGE-----
//! Hash: SHA256
//!
//! Origin: Debian
//! - -----a line that begins with a dash
//! -----BEGIN PGP SIGNATURE-----
//!
//! iHUEARYIAB0WIQ…
//! =kBXr
//! -----END PGP SIGNATURE-----
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Malformed;

const SIGNED: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
const SIGNATURE: &str = "SIGNATURE";
const KEY: &str = "PUBLIC KEY BLOCK";

/// Names of digest algorithms, section 9.5.
const HASHES: [&str; 9] =
    ["MD5", "SHA1", "RIPEMD160", "SHA224", "SHA256", "SHA384", "SHA512", "SHA3-256", "SHA3-512"];

/// A text and its signatures, which are not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cleartext {
    /// The text as it is signed: lines end with CR LF, and without blanks before that.
    pub(crate) text: String,
    /// The packets of the signatures.
    pub(crate) signatures: Vec<u8>,
}

impl Cleartext {
    /// Reads a document that is nothing but a signed text. Text before or after it is not signed,
    /// so that a document with any is malformed; so is one with headers other than `Hash`, which
    /// could be taken for text.
    pub(crate) fn parse(document: &str) -> Result<Self, Malformed> {
        let mut lines = document.split('\n').enumerate();
        if lines.next().is_none_or(|(_, line)| blank_cut(line) != SIGNED) {
            return Err(Malformed::Begin("SIGNED MESSAGE"));
        }
        for (at, line) in lines.by_ref() {
            match blank_cut(line) {
                "" => break,
                header if is_hash(header) => {}
                _ => return Err(Malformed::Line(at + 1)),
            }
        }
        let mut text = String::new();
        let mut first = true;
        loop {
            let Some((at, line)) = lines.next() else { return Err(Malformed::Begin(SIGNATURE)) };
            let line = blank_cut(line);
            if is_edge(line, "BEGIN", SIGNATURE) {
                break;
            }
            let line = match line.strip_prefix("- ") {
                Some(escaped) => escaped,
                // Trailing blanks are gone, so a dash may stand alone: `- ` of an empty line.
                None if line == "-" => "",
                None if line.starts_with('-') => return Err(Malformed::Line(at + 1)),
                None => line,
            };
            if !first {
                text.push_str("\r\n");
            }
            first = false;
            text.push_str(line);
        }
        let mut lines = lines.map(|(_, line)| line);
        let signatures = block(&mut lines, SIGNATURE)?;
        if lines.any(|line| !blank_cut(line).is_empty()) {
            return Err(Malformed::After);
        }
        Ok(Self { text, signatures })
    }
}

/// The packets of a file with keys, in armor or not. Lines around blocks are comments.
pub(super) fn keys(file: &[u8]) -> Result<Vec<u8>, Malformed> {
    // A packet begins with the highest bit, which no ASCII has (section 4.2).
    if file.first().is_some_and(|first| first & 0x80 != 0) {
        return Ok(file.to_vec());
    }
    let text = std::str::from_utf8(file).map_err(|_| Malformed::Begin(KEY))?;
    let mut lines = text.split('\n');
    let mut packets = Vec::new();
    while lines.by_ref().any(|line| is_edge(blank_cut(line), "BEGIN", KEY)) {
        packets.extend(block(&mut lines, KEY)?);
    }
    if packets.is_empty() {
        return Err(Malformed::Begin(KEY));
    }
    Ok(packets)
}

/// Decodes a block whose first line has been read.
fn block<'a>(
    lines: &mut impl Iterator<Item = &'a str>,
    what: &'static str,
) -> Result<Vec<u8>, Malformed> {
    let mut next = || lines.next().map(blank_cut).ok_or(Malformed::End(what));
    loop {
        match next()? {
            "" => break,
            header if header.contains(": ") || header.ends_with(':') => {}
            _ => return Err(Malformed::Armor(what)),
        }
    }
    let mut base64 = String::new();
    loop {
        let line = next()?;
        if is_edge(line, "END", what) {
            break;
        }
        // A checksum, which says nothing that the signature does not, and must not
        // matter (section 6.1).
        if line.len() == 5 && line.starts_with('=') {
            if !is_edge(next()?, "END", what) {
                return Err(Malformed::Armor(what));
            }
            break;
        }
        base64.push_str(line);
    }
    STANDARD.decode(base64).map_err(|_| Malformed::Armor(what))
}

/// Whether a line is `Hash: ` and names of digest algorithms. The signature itself says which one
/// it uses; other words could be taken for text.
fn is_hash(header: &str) -> bool {
    let names = header.strip_prefix("Hash: ").into_iter().flat_map(|names| names.split(','));
    names.clone().count() > 0 && names.map(str::trim).all(|name| HASHES.contains(&name))
}

/// Whether a line is the first or last line of a block, by `edge`.
fn is_edge(line: &str, edge: &str, what: &str) -> bool {
    let inside = line.strip_prefix("-----").and_then(|line| line.strip_suffix("-----"));
    let named = inside.and_then(|inside| inside.strip_prefix(edge)?.strip_prefix(" PGP "));
    named == Some(what)
}

/// Returns the line without the blanks at its end, which no signature covers (section 7.2).
fn blank_cut(line: &str) -> &str {
    line.trim_end_matches([' ', '\t', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\na  \n- -b\r\n\n-----BEGIN PGP SIGNATURE-----\nComment: x\n\nAAEC\n=abcd\n-----END PGP SIGNATURE-----\n";

    #[test]
    fn the_text_is_what_was_signed() {
        let read = Cleartext::parse(DOCUMENT).unwrap();
        assert_eq!(read, Cleartext { text: "a\r\n-b\r\n".to_owned(), signatures: vec![0, 1, 2] });
        let crlf = DOCUMENT.replace("\r\n", "\n").replace('\n', "\r\n");
        assert_eq!(Cleartext::parse(&crlf).unwrap(), read);
        let without = DOCUMENT.replace("=abcd\n", "").replace("Hash: SHA256\n", "");
        assert_eq!(Cleartext::parse(&without).unwrap(), read);
    }

    #[test]
    fn documents_with_anything_unsigned_are_malformed() {
        for (from, to, expected) in [
            (
                "-----BEGIN PGP SIGNED",
                "x\n-----BEGIN PGP SIGNED",
                Malformed::Begin("SIGNED MESSAGE"),
            ),
            ("Hash: SHA256", "Origin: Debian", Malformed::Line(2)),
            ("- -b", "-b", Malformed::Line(5)),
            ("Hash: SHA256", "Hash: Debian", Malformed::Line(2)),
            ("Hash: SHA256", "Hash: SHA256\nHash: SHA512, x", Malformed::Line(3)),
            ("-----BEGIN PGP SIGNATURE-----", "", Malformed::Line(12)),
            ("=abcd\n-----END PGP SIGNATURE-----\n", "", Malformed::End(SIGNATURE)),
            ("=abcd", "=abcd\n=abcd", Malformed::Armor(SIGNATURE)),
            ("AAEC", "A*EC", Malformed::Armor(SIGNATURE)),
            ("Comment: x", "x", Malformed::Armor(SIGNATURE)),
            ("-----END PGP SIGNATURE-----", "-----END PGP SIGNATURE-----\nx", Malformed::After),
        ] {
            let changed = DOCUMENT.replacen(from, to, 1);
            assert_ne!(changed, DOCUMENT, "{from}");
            assert_eq!(Cleartext::parse(&changed), Err(expected), "{to}");
        }
        let (text, _) = DOCUMENT.split_once("-----BEGIN PGP SIGNATURE").unwrap();
        assert_eq!(Cleartext::parse(text), Err(Malformed::Begin(SIGNATURE)));
        assert_eq!(Cleartext::parse(""), Err(Malformed::Begin("SIGNED MESSAGE")));
    }

    #[test]
    fn a_file_may_hold_several_blocks_of_keys() {
        let block =
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQAB\n-----END PGP PUBLIC KEY BLOCK-----\n";
        let file = format!("# Test archive\n{block}\n# another\n{block}");
        assert_eq!(keys(file.as_bytes()).unwrap(), [0x99, 0, 1, 0x99, 0, 1]);
        assert_eq!(keys(&[0x99, 0]).unwrap(), [0x99, 0]);
        for file in [&b""[..], b"no key", &[b' ', 0xff]] {
            assert_eq!(keys(file), Err(Malformed::Begin(KEY)));
        }
    }
}
