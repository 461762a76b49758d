//! Release files: what a suite of an archive contains, and who signed it.
//!
//! ```text
//! ROOT/dists/SUITE/InRelease                             signed; names what is below, by SHA-256
//! ROOT/dists/SUITE/main/binary-ARCH/by-hash/SHA256/…     its Packages.xz, under its digest
//! ROOT/pool/…                                            the packages
//! ```

use std::io::Read;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use liblzma::read::XzDecoder;
use liblzma::stream::Stream;

use super::{Archive, Keyring, paragraphs};
use crate::fetch::{Transport, TransportFault};
use crate::{Error, Result, Sha256, UnixTime};

/// Largest Release file read; Debian's largest has 220 KB.
const MAX_RELEASE: u64 = 8 << 20;
/// Largest list of packages read; Debian's `main` has 10 MB, and 57 MB uncompressed.
const MAX_COMPRESSED: u64 = 128 << 20;
const MAX_PLAIN: u64 = 1 << 30;
/// Memory that decompression may use: `xz -9` has a dictionary of 64 MiB.
const MAX_XZ_MEMORY: u64 = 128 << 20;

/// Names that a typing error may have meant, with the numbers of the releases.
const KNOWN: [(&str, &str); 6] = [
    ("bullseye", "11"),
    ("bookworm", "12"),
    ("trixie", "13"),
    ("forky", "14"),
    ("sid", ""),
    ("unstable", ""),
];

/// The contents of a Release file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// URL of the Release file.
    pub url: String,
    /// URL of the archive.
    pub root: String,
    /// Who publishes the archive: `Debian` for Debian's own.
    pub origin: Option<String>,
    /// When the Release file was made.
    pub date: UnixTime,
    /// Whether the archive also has its files under their digests.
    by_hash: bool,
    suite: String,
    /// Path, SHA-256 and length in bytes of each file.
    files: Vec<(String, Sha256, u64)>,
}

impl Release {
    /// Fetches `InRelease` of a suite of the archive at `root`, and checks who signed
    /// it, whether it is what was asked for, and whether it is still valid at `now`.
    ///
    /// # Errors
    /// [`Error::Release`], [`Error::Fetch`].
    pub fn fetch(
        root: &str,
        suite: &str,
        keyring: &Keyring,
        now: UnixTime,
        transport: &dyn Transport,
    ) -> Result<Self> {
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
        let root = root.trim_end_matches('/');
        let url = format!("{root}/dists/{suite}/InRelease");
        if suite.is_empty() || suite.starts_with('.') || !suite.bytes().all(good) {
            let reason = format!("`{suite}` is not the name of a Debian release");
            return Err(Error::Release { url, reason, hint: nearest(suite) });
        }
        let bytes = match transport.read(&url, MAX_RELEASE) {
            Ok(bytes) => bytes,
            Err(TransportFault::NotFound(_)) => {
                let reason = format!("the archive has no release `{suite}`");
                return Err(Error::Release { url, reason, hint: nearest(suite) });
            }
            Err(fault) => return Err(fault.into_error(&url)),
        };
        let text = keyring.verify(&bytes, now, &url)?;
        let release = Self::parse(&text, &url, root, suite)?;
        if let Some(until) = field_date(&text, "Valid-Until", &url)?
            && until <= now
        {
            let reason = format!("it is out of date: it was valid until {}", shown(until));
            let hint = "use another mirror if this one is no longer updated, and check this machine's clock";
            return Err(Error::Release { url, reason, hint: Some(hint.to_owned()) });
        }
        Ok(release)
    }

    /// Reads the signed text.
    fn parse(text: &str, url: &str, root: &str, suite: &str) -> Result<Self> {
        let wrong = |reason: String| Error::Release { url: url.to_owned(), reason, hint: None };
        let Some(fields) = paragraphs(text).next() else {
            return Err(wrong("it is empty".to_owned()));
        };
        let names = [fields.get("Codename"), fields.get("Suite")];
        if !names.contains(&Some(suite)) {
            let found = names.into_iter().flatten().collect::<Vec<_>>().join(", ");
            return Err(wrong(format!("it describes the release {found}, expected {suite}")));
        }
        let date = field_date(text, "Date", url)?;
        let date = date.ok_or_else(|| wrong("it has no field `Date`".to_owned()))?;
        let mut files = Vec::new();
        for line in fields.get("SHA256").unwrap_or_default().lines() {
            let mut parts = line.split_whitespace();
            let (digest, bytes, path) = (parts.next(), parts.next(), parts.next());
            match (
                digest.map(str::parse),
                bytes.and_then(|bytes| bytes.parse().ok()),
                path,
                parts.next(),
            ) {
                (None, ..) => {}
                (Some(Ok(digest)), Some(bytes), Some(path), None) => {
                    files.push((path.to_owned(), digest, bytes));
                }
                _ => return Err(wrong(format!("`{line}` is not a line of SHA256"))),
            }
        }
        Ok(Self {
            url: url.to_owned(),
            root: root.to_owned(),
            origin: fields.get("Origin").map(str::to_owned),
            date,
            by_hash: fields.get("Acquire-By-Hash") == Some("yes"),
            suite: suite.to_owned(),
            files,
        })
    }

    /// Adds the packages of `main` for an architecture to an archive.
    ///
    /// # Errors
    /// [`Error::Release`], [`Error::Fetch`], [`Error::Debian`].
    pub fn add_to(
        &self,
        archive: &mut Archive,
        arch: &str,
        transport: &dyn Transport,
    ) -> Result<()> {
        let dir = format!("main/binary-{arch}");
        let path = format!("{dir}/Packages.xz");
        let Some((_, digest, bytes)) = self.files.iter().find(|(there, ..)| *there == path) else {
            let reason = format!("it does not list `{path}`");
            let hint = format!("this release has no packages for the architecture {arch}");
            return Err(Error::Release { url: self.url.clone(), reason, hint: Some(hint) });
        };
        let base = format!("{}/dists/{}", self.root, self.suite);
        let plain = format!("{base}/{path}");
        let by_hash = format!("{base}/{dir}/by-hash/SHA256/{digest}");
        let limit = (*bytes).min(MAX_COMPRESSED);
        let read = |url: &str| (url.to_owned(), transport.read(url, limit));
        let (url, read) = match self.by_hash.then(|| read(&by_hash)) {
            // Mirrors of an archive may lack the names with digests.
            None | Some((_, Err(TransportFault::NotFound(_)))) => read(&plain),
            Some(found) => found,
        };
        let compressed = read.map_err(|fault| fault.into_error(&url))?;
        let found = Sha256::of(&compressed);
        if found != *digest {
            let reason =
                format!("it has SHA-256 {found}, expected {digest} as in the Release file");
            let hint =
                "the mirror may be updating or broken: try again later, or use another mirror";
            return Err(Error::Release { url, reason, hint: Some(hint.to_owned()) });
        }
        archive.add(&unpack(&compressed, &url)?, &url, &self.root)
    }
}

fn unpack(compressed: &[u8], url: &str) -> Result<String> {
    let wrong = |reason: String| Error::Debian { path: url.to_owned(), reason };
    let stream = Stream::new_stream_decoder(MAX_XZ_MEMORY, 0).map_err(|e| wrong(e.to_string()))?;
    let mut text = String::new();
    let mut plain = XzDecoder::new_stream(compressed, stream).take(MAX_PLAIN + 1);
    plain.read_to_string(&mut text).map_err(|e| wrong(e.to_string()))?;
    if text.len() as u64 > MAX_PLAIN {
        let (path, found) = (url.to_owned(), text.len() as u64);
        return Err(Error::Limit { path, what: "bytes of package lists", found, limit: MAX_PLAIN });
    }
    Ok(text)
}

/// Reads a date from the first paragraph.
fn field_date(text: &str, field: &str, url: &str) -> Result<Option<UnixTime>> {
    let fields = paragraphs(text).next().unwrap_or_default();
    let Some(value) = fields.get(field) else { return Ok(None) };
    // `Sat, 11 Jul 2026 10:16:37 UTC`: HTTP's form, but for the zone's name.
    let date = value.strip_suffix("UTC").map(|rest| format!("{rest}GMT"));
    let date = httpdate::parse_http_date(date.as_deref().unwrap_or(value)).ok();
    match date {
        Some(date) => Ok(Some(date.into())),
        None => {
            let reason = format!("`{field}: {value}` is not a date");
            Err(Error::Release { url: url.to_owned(), reason, hint: None })
        }
    }
}

/// Formats a time as Release files do.
pub(super) fn shown(time: UnixTime) -> String {
    system_time(time).map_or_else(|| time.0.to_string(), httpdate::fmt_http_date)
}

/// Returns the name under which snapshot.debian.org has all that Release files name, the newest of
/// which has this date.
///
/// The service copies the archive some four times a day and answers with the newest
/// copy up to the time asked for. A package that a Release file names is in the pool
/// when that file appears, mirrors have it within hours, and it stays for at least a
/// day after a newer version took its place. So a day after the date (with no Release
/// file asked for being older than the lock) some copy has it, and none of those in
/// question lacks it.
pub(crate) fn snapshot(date: UnixTime) -> Option<String> {
    let time = system_time(UnixTime(date.0.checked_add(24 * 3600)?))?;
    // The text is of the form `Sun, 12 Jul 2026 10:16:37 GMT`.
    let text = httpdate::fmt_http_date(time);
    let mut parts = text.split([' ', ':']).skip(1);
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| *name == month)? + 1;
    Some(format!("{year}{month:02}{day}T{hour}{minute}{second}Z"))
}

/// Returns `None` for a time before 1970.
fn system_time(time: UnixTime) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(time.0).ok()?))
}

fn nearest(suite: &str) -> Option<String> {
    // `12` and `12.5` are numbers of a release.
    let number = suite.split('.').next().unwrap_or_default();
    if let Some((name, _)) = KNOWN.iter().find(|(_, of)| !of.is_empty() && *of == number) {
        return Some(format!("did you mean `{name}`?"));
    }
    let near = KNOWN.iter().map(|(known, _)| (strsim::osa_distance(suite, known), known)).min();
    near.map(|(distance, known)| match distance {
        0 => "check that the URL is a Debian mirror".to_owned(),
        1..=3 => format!("did you mean `{known}`?"),
        _ => "releases have names such as bookworm (12) or trixie (13)".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_known_by_its_number_and_by_a_name_that_is_nearly_right() {
        for (suite, expected) in [
            ("12", "did you mean `bookworm`?"),
            ("13.1", "did you mean `trixie`?"),
            ("bokworm", "did you mean `bookworm`?"),
            ("bookworm", "check that the URL is a Debian mirror"),
            ("jammy-jellyfish", "releases have names such as bookworm (12) or trixie (13)"),
        ] {
            assert_eq!(nearest(suite).as_deref(), Some(expected), "{suite}");
        }
    }
}
