//! Paths inside an image.

use std::borrow::Cow;
use std::fmt;
use std::ops::Bound;

use crate::{Error, Result};

/// Longest path, as Linux' `PATH_MAX` without its zero byte.
const MAX_PATH: usize = 4095;
const MAX_SEGMENT: usize = 255;

/// A path below an image's root, without a leading `/`; the root itself is empty.
/// No segment is empty, `.` or `..`. Ordered by bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootPath(String);

impl RootPath {
    /// The root.
    pub const ROOT: Self = Self(String::new());

    /// Parses paths such as `usr/bin`, `/usr/bin` and `./usr/bin/`: what archives and recipes
    /// write.
    ///
    /// # Errors
    /// [`Error::Path`] for a `..`, a zero byte, or a name no Linux opens.
    pub fn new(text: &str) -> Result<Self> {
        let bad = |reason| Err(Error::Path { path: text.to_owned(), reason });
        let mut path = String::new();
        for segment in text.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
            if segment == ".." {
                return bad("it leads outside of the image by `..`");
            }
            if bytes_of(segment).len() > MAX_SEGMENT {
                return bad("a name in it is longer than 255 bytes");
            }
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(segment);
        }
        if path.contains('\0') {
            return bad("it contains a zero byte");
        }
        if path.len() > MAX_PATH {
            return bad("it is longer than 4095 bytes");
        }
        Ok(Self(path))
    }

    /// Parses a path as Linux resolves it from the root: what is above the root is the root. `None`
    /// for a name that no Linux opens.
    pub fn inside(text: &str) -> Option<Self> {
        let mut segments: Vec<&str> = Vec::new();
        for segment in text.split('/') {
            match segment {
                ".." => drop(segments.pop()),
                "" | "." => {}
                segment => segments.push(segment),
            }
        }
        Self::new(&segments.join("/")).ok()
    }

    /// The bytes of the path in the image.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        bytes_of(&self.0)
    }

    /// The path without a leading `/`. Bytes that are not UTF-8 are in it as [`text_of`] writes
    /// them.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path without its last segment; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.0.is_empty() {
            return None;
        }
        let (parent, _) = self.0.rsplit_once('/').unwrap_or(("", ""));
        Some(Self(parent.to_owned()))
    }

    /// The last segment; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.0.as_str(), |(_, name)| name)
    }

    /// Bounds of all paths below this one, in their order.
    pub(super) fn below(&self) -> (Bound<Self>, Bound<Self>) {
        if self.0.is_empty() {
            return (Bound::Excluded(Self::ROOT), Bound::Unbounded);
        }
        // `0` is the byte after `/`.
        let bound = |last: char| Self(format!("{}{last}", self.0));
        (Bound::Included(bound('/')), Bound::Excluded(bound('0')))
    }

    /// Appends `name`, which is one segment, to this path.
    pub(crate) fn join(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}/{name}", self.0)) }
    }
}

/// Private characters, of which each stands for one of the bytes 128 to 255.
const ESCAPES: std::ops::RangeInclusive<char> = '\u{f780}'..='\u{f7ff}';
/// The character of byte 0, if that were escaped.
const ESCAPE: u32 = 0xf700;

/// The text for a name of any bytes, as images of other systems have them. What is not UTF-8 becomes
/// private characters, and so do these themselves, so that each text stands for one name.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let mut text = String::new();
    let escaped = |byte: &u8| char::from_u32(ESCAPE + u32::from(*byte)).unwrap_or_default();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match ESCAPES.contains(&c) {
                true => text.extend(c.encode_utf8(&mut [0; 4]).as_bytes().iter().map(escaped)),
                false => text.push(c),
            }
        }
        text.extend(chunk.invalid().iter().map(escaped));
    }
    text
}

/// The bytes that a text of [`text_of`] stands for.
pub(crate) fn bytes_of(text: &str) -> Cow<'_, [u8]> {
    if !text.contains(|c| ESCAPES.contains(&c)) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match u8::try_from(u32::from(c).wrapping_sub(ESCAPE)) {
            Ok(byte) if ESCAPES.contains(&c) => bytes.push(byte),
            _ => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

impl fmt::Display for RootPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_bytes_are_texts_and_become_the_same_bytes_again() {
        for name in [
            &b"plain"[..],
            "gr\u{fc}n".as_bytes(),
            b"gr\xfcn",
            b"\xff\xfe/\x80",
            "\u{f780}".as_bytes(),
            "\u{f780}\u{10ffff}".as_bytes(),
            b"\xef\x9e",
        ] {
            let text = text_of(name);
            assert_eq!(&*bytes_of(&text), name, "{text:?}");
        }
        assert_ne!(text_of(b"\x80"), text_of("\u{f780}".as_bytes()));
        let long = [b'\xff'; MAX_SEGMENT];
        assert_eq!(&*RootPath::new(&text_of(&long)).unwrap().bytes(), long);
    }
}
