//! Checks whether one path is below another, segment by segment.

/// Returns the part of `path` below `base`, without a leading `/`: empty when they are the same,
/// `None` when `path` is not below. Matched at `/`, so `/foobar` is not below `/foo`. A `/` at
/// either end of `base` is of no account.
#[must_use]
pub fn below<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    let path = path.trim_start_matches('/');
    let rest = path.strip_prefix(base.trim_matches('/'))?;
    let at_segment = rest.is_empty() || rest.starts_with('/') || rest.len() == path.len();
    at_segment.then(|| rest.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, base: &str, expected: Option<&str>) {
        assert_eq!(below(path, base), expected, "{path} below {base}");
    }

    #[test]
    fn paths_are_matched_at_segments() {
        check("/foo/a/b", "/foo", Some("a/b"));
        check("/foo/a", "/foo/", Some("a"));
        check("/foo", "/foo", Some(""));
        check("/foo/", "/foo", Some(""));
        check("/foobar", "/foo", None);
        check("/fo", "/foo", None);
        check("/bar/foo", "/foo", None);
        check("/foo", "/", Some("foo"));
        check("/foo", "", Some("foo"));
        check("/", "/", Some(""));
        check("", "/foo", None);
        check("/a b/c", "/a b", Some("c"));
    }
}
