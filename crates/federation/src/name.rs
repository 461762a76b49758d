//! Names of objects and collections, as they are written in requests.

use gular_pelican::protocol::below;
use gular_pelican::protocol::{encode_path, is_segment, percent_decode};

// Longest name that file systems accept.
const MAX_SEGMENT_BYTES: usize = 255;
const MAX_NAME_BYTES: usize = 2048;

/// A name: segments that are each safe as a file name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    segments: Vec<String>,
    /// Whether the name ended with a `/`.
    pub(super) collection: bool,
}

impl Name {
    /// The name that a request's path spells; `None` when it could lead astray.
    /// Segments are decoded one by one, so that no `%2F` or `%2E%2E` makes new ones;
    /// repeated `/` count as one.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let rest = path.strip_prefix('/')?;
        let segment = |text: &str| {
            let segment = percent_decode(text)?;
            (is_segment(&segment) && segment.len() <= MAX_SEGMENT_BYTES).then_some(segment)
        };
        let segments: Vec<String> =
            rest.split('/').filter(|text| !text.is_empty()).map(segment).collect::<Option<_>>()?;
        let name = Self { segments, collection: rest.is_empty() || rest.ends_with('/') };
        (name.text().len() <= MAX_NAME_BYTES).then_some(name)
    }

    pub(super) fn segments(&self) -> &[String] {
        &self.segments
    }

    /// The path without a `/` at its end: `/a/b c`.
    pub(super) fn text(&self) -> String {
        self.segments.iter().map(|segment| format!("/{segment}")).collect()
    }

    /// The encoded path: `/a/b%20c`.
    pub(super) fn encoded(&self) -> String {
        encode_path(&self.text())
    }

    /// The path below `namespace`, with a `/` in front and none at the end but for `/`
    /// itself; `None` when it is not below.
    pub(super) fn below(&self, namespace: &Self) -> Option<String> {
        Some(format!("/{}", below(&self.text(), &namespace.text())?))
    }

    /// The number of segments below `namespace`.
    pub(super) fn depth(&self, namespace: &Self) -> usize {
        self.segments.len().saturating_sub(namespace.segments.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<&str>) {
        assert_eq!(Name::parse(path).map(|name| name.text()).as_deref(), expected, "{path}");
    }

    #[test]
    fn only_safe_segments_are_names() {
        check("/gular/a%20b//c.bin", Some("/gular/a b/c.bin"));
        check("/", Some(""));
        check("/a/", Some("/a"));
        check("/a/%c3%a9", Some("/a/é"));
        for bad in [
            "",
            "a",
            "/..",
            "/a/../b",
            "/a/%2e%2E/b",
            "/a/.",
            "/a%2Fb",
            "/a%00",
            "/a%0a",
            "/a%5cb",
            "/a%3fb",
            "/%ff",
            "/%4",
            &format!("/{}", "a".repeat(256)),
            &"/abcdefg".repeat(257),
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn a_name_knows_its_place() {
        let namespace = Name::parse("/gular").unwrap();
        let place = |path| Name::parse(path).unwrap().below(&namespace);
        assert_eq!(place("/gular/a/b").as_deref(), Some("/a/b"));
        assert_eq!(place("/gular/").as_deref(), Some("/"));
        assert_eq!(place("/gularx"), None);
        assert_eq!(Name::parse("/gular/a/b/").unwrap().depth(&namespace), 2);
        assert_eq!(Name::parse("/a b").unwrap().encoded(), "/a%20b");
    }
}
