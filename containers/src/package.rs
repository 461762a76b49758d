//! A package: one archive that an image is made of, from the lock to the list of its contents.

use serde::{Deserialize, Serialize};

use crate::Sha256;

/// A Debian package or a Python wheel: a file of known bytes, and where to get it.
///
/// It is a table of `image.lock`. Its file has the name at the end of its first URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The package's name: `libc6`, `nvidia-cudnn-cu13`.
    pub name: String,
    /// The package's version, a Debian epoch included.
    pub version: String,
    /// A Debian package's architecture: `amd64`, `all`. Wheels have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Length of the package's file.
    pub bytes: u64,
    /// SHA-256 of the package's file.
    pub sha256: Sha256,
    /// URLs of the package's file, the best first.
    pub urls: Vec<String>,
    /// A wheel's licence, as its metadata names it. Debian's are in the packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
}

impl Package {
    /// The name of the package's file: one safe segment. `None` when its first URL does not end in
    /// one.
    pub fn file_name(&self) -> Option<String> {
        self.urls.first().and_then(|url| file_name(url))
    }
}

/// Whether a text is one visible path segment, as file names of packages and wheels are.
pub(crate) fn is_file_name(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"._+-~!".contains(&b);
    !text.is_empty() && text.len() <= 255 && !text.starts_with('.') && text.bytes().all(good)
}

/// The file name that a URL ends with, its `%` forms decoded.
pub(crate) fn file_name(url: &str) -> Option<String> {
    let path = url.split(['?', '#']).next()?;
    let name = percent_decoded(path.rsplit('/').next()?)?;
    is_file_name(&name).then_some(name)
}

/// Whether an address in a text has a user's name before its host, and with it perhaps a
/// password: it must be neither shown nor kept.
pub(crate) fn names_a_user(text: &str) -> bool {
    let mut parts = text.split("://");
    // If there is no `://`, the text before the first `/` is in the place of the host.
    let first = parts.next().filter(|first| *first == text);
    let authority = |rest: &str| {
        let end = |c: char| "/?#\"'\\".contains(c) || c.is_whitespace();
        rest.split(end).next().unwrap_or_default().contains('@')
    };
    first.into_iter().chain(parts).any(authority)
}

/// Text with `%41` and the like decoded; `None` for a broken one.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_seen_in_addresses() {
        for text in ["https://u:p@h/x", "https://u@h", "-i git+ssh://a b://u:p@h/", "u:p@h/x"] {
            assert!(names_a_user(text), "{text}");
        }
        for text in ["https://h/a@b", "a/b@c", "https://h?x=@", "", "https://[::1]:80/"] {
            assert!(!names_a_user(text), "{text}");
        }
    }

    #[test]
    fn names_are_those_of_urls_and_lead_nowhere_else() {
        for (url, name) in [
            (
                "https://a/pool/g/gcc/libgcc-s1_12.2.0-14%2Bdeb12u1_amd64.deb",
                "libgcc-s1_12.2.0-14+deb12u1_amd64.deb",
            ),
            ("https://a/x-1.0-py3-none-any.whl#sha256=00", "x-1.0-py3-none-any.whl"),
            ("file:///x.whl?y=/z", "x.whl"),
        ] {
            assert_eq!(file_name(url).as_deref(), Some(name));
        }
        for bad in
            ["https://a/", "a/..", "a/.x", "a/%2e%2e%2fx", "a/%2", "a/%zz", "a/%ff", "a/b%00"]
        {
            assert_eq!(file_name(bad), None, "{bad}");
        }
    }
}
