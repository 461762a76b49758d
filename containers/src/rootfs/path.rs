//! Paths inside an image.

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
            if segment.len() > MAX_SEGMENT {
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

    /// The path without a leading `/`.
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

impl fmt::Display for RootPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}
