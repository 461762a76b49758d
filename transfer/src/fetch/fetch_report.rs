//! The reports of fetching.

use std::path::{Path, PathBuf};

use gular_bundle::Digest;
use serde::{Serialize, Serializer};

use crate::WrongCopy;

/// The result of fetching a bundle or an object.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FetchReport {
    /// The URL with its digest, `URL#blake3=…`.
    pub url: String,
    /// The bundle's or the object's digest; the empty text for an object that was not read and
    /// whose URL has no digest.
    #[serde(serialize_with = "Digest::serialize_or_empty")]
    pub digest: Option<Digest>,
    /// The folder that now has the bundle or object.
    #[serde(serialize_with = "path")]
    pub dir: PathBuf,
    /// Number of files of the bundle that are in `dir` now, including the manifest.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Bytes that came over the network and were checked.
    pub bytes_fetched: u64,
    /// Bytes that were there already and were checked again.
    pub bytes_kept: u64,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// What the fetched bytes were checked against.
    pub checked: Checked,
    /// For `checksum`, the kind of checksum and its server; for `nothing`, the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked_how: Option<String>,
    /// Whether `dir` had a damaged `manifest.json`, which was, or would be, replaced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub manifest_mended: bool,
    /// Servers that sent wrong bytes for objects which other servers sent correctly.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrong_copies: Vec<WrongCopy>,
    /// Wall-clock time.
    pub seconds: f64,
}

/// What the fetched bytes were checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Checked {
    /// The digest in the URL, or in the manifest.
    Digest,
    /// The checksum that a server reports for its copy.
    Checksum,
    /// Nothing.
    Nothing,
}

/// Writes a path as a text; one that is not UTF-8 is written as it is shown.
fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_an_unread_object_has_an_empty_digest() {
        let check = |digest: Option<Digest>, expected: &str| {
            let report = FetchReport {
                url: "file:///a/v1".to_owned(),
                digest,
                dir: "to".into(),
                files: 1,
                bytes: 2,
                bytes_fetched: 2,
                bytes_kept: 0,
                dry_run: true,
                checked: Checked::Nothing,
                checked_how: None,
                manifest_mended: false,
                wrong_copies: Vec::new(),
                seconds: 0.5,
            };
            let expected = format!(
                r#"{{"url":"file:///a/v1","digest":"{expected}","dir":"to","files":1,"bytes":2,"bytes_fetched":2,"bytes_kept":0,"dry_run":true,"checked":"nothing","seconds":0.5}}"#
            );
            assert_eq!(serde_json::to_string(&report).unwrap(), expected);
        };
        check(None, "");
        check(Some(Digest::of(b"")), &Digest::of(b"").to_string());
    }
}
