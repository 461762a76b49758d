//! Reads a director's answer: which servers to ask for an object, and whose tokens they accept.
//!
//! ```text
//! Location: https://c1:8443/ns/d/x?authz=TOKEN
//! Link: <https://c1:8443/ns/d/x>; rel="duplicate"; pri=1; depth=2, <https://c2:8443/ns/d/x>; …
//! X-Pelican-Namespace: namespace=/ns, require-token=true, collections-url=https://origin:8443
//! X-Pelican-Authorization: issuer=https://iss
//! X-Pelican-Token-Generation: issuer=https://iss, max-scope-depth=3, base-path=/ns
//! X-Pelican-Broker: https://broker/…        where only servers can call the origin
//! ```

use crate::path::below;
use crate::url::{encode_path, is_authority, percent_decode};

/// A director names no more than this; what stands beyond is not worth the time of
/// someone who waits for the sixth server to fail.
const MAX_SOURCES: usize = 6;

/// The priority of a `Link` that gives none (RFC 6249, section 3.1).
const LAST_PRIORITY: u32 = 999_999;

/// A server's copy of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// `http://` or `https://`, encoded as the director wrote it, without query or fragment.
    pub(crate) url: String,
    /// The priority; servers with the lowest are tried first.
    pub(crate) priority: u32,
    /// The number of the path's segments below the namespace.
    pub(crate) depth: Option<usize>,
}

/// The part of the federation that the object is in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Namespace {
    /// Starts with `/`; no `/` at its end, except `/` alone.
    pub(crate) prefix: String,
    /// Whether reading takes a token.
    pub(crate) require_token: bool,
    /// The server that lists collections, without `/` at its end; `None`: no listing.
    pub(crate) collections_url: Option<String>,
    /// The issuers whose tokens are accepted, each once, in the order named; empty if none are
    /// named.
    pub(crate) issuers: Vec<String>,
    /// The paths to which a token's scopes are relative; empty if the director does not say.
    pub(crate) base_paths: Vec<String>,
}

impl Namespace {
    /// The part of `object_path` below the namespace; `None` when it is not in it.
    pub(crate) fn below<'a>(&self, object_path: &'a str) -> Option<&'a str> {
        below(object_path, &self.prefix)
    }
}

/// The headers of a director's answer, parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The sources, each URL once, by ascending priority, at most six; empty if none was named.
    pub(crate) sources: Vec<Source>,
    /// The namespace; `None` if the answer does not name it.
    pub(crate) namespace: Option<Namespace>,
    /// Whether the origin takes no connections, so that a broker tells it to which client to
    /// connect.
    pub(crate) brokered: bool,
}

/// Reads a director's headers: `(name, value)`, names in lower case, repeats kept.
///
/// Damaged headers are left out, so the sources may be empty.
pub(crate) fn parse_answer(headers: &[(String, String)]) -> Answer {
    let mut sources: Vec<Source> = values(headers, "link").flat_map(parse_links).collect();
    if sources.is_empty() {
        let url = values(headers, "location").find_map(server_url);
        sources.extend(url.map(|url| Source { url, priority: LAST_PRIORITY, depth: None }));
    }
    sources.sort_by_key(|source| source.priority);
    let mut unique: Vec<Source> = Vec::new();
    for source in sources {
        if unique.len() < MAX_SOURCES && unique.iter().all(|kept| kept.url != source.url) {
            unique.push(source);
        }
    }
    let brokered = values(headers, "x-pelican-broker").any(|url| !url.trim().is_empty());
    Answer { sources: unique, namespace: parse_namespace(headers), brokered }
}

/// The URL of the namespace at `source`, for other objects of the namespace: the
/// source's URL without its last `depth` segments. `object_path` is the decoded path
/// that the director was asked for. `None` when the source cannot be reused so: it
/// has no depth, or keeps the object under another name.
pub(crate) fn server_prefix(source: &Source, object_path: &str) -> Option<String> {
    let mut prefix = source.url.trim_end_matches('/');
    let mut object = object_path.trim_end_matches('/');
    let authority = prefix.find("://")?.checked_add(3)?;
    for _ in 0..source.depth? {
        let (parent, name) = prefix.rsplit_once('/').filter(|(rest, _)| rest.len() > authority)?;
        let (object_parent, object_name) = object.rsplit_once('/')?;
        if name.is_empty() || percent_decode(name)? != object_name {
            return None;
        }
        (prefix, object) = (parent, object_parent);
    }
    Some(prefix.to_owned())
}

/// The URL of an object from what [`server_prefix`] gave and its decoded path below
/// the namespace.
pub(crate) fn join(server_prefix: &str, below: &str) -> String {
    let (prefix, below) = (server_prefix.trim_end_matches('/'), below.trim_matches('/'));
    if below.is_empty() { prefix.to_owned() } else { format!("{prefix}/{}", encode_path(below)) }
}

fn values<'a>(headers: &'a [(String, String)], name: &str) -> impl Iterator<Item = &'a str> {
    headers.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
}

/// The sources in one `Link` line (RFC 8288). URLs may hold `,` and `;`, so they are
/// found by their brackets and the line is not split before.
fn parse_links(line: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut rest = line;
    while let Some((url, after)) = rest.split_once('<').and_then(|(_, r)| r.split_once('>')) {
        let (params, next) = split_unquoted(after, ',');
        sources.extend(parse_link(url, params));
        rest = next;
    }
    sources
}

fn parse_link(url: &str, params: &str) -> Option<Source> {
    let mut source = Source { url: server_url(url)?, priority: LAST_PRIORITY, depth: None };
    let mut rest = params;
    while !rest.is_empty() {
        let (param, next) = split_unquoted(rest, ';');
        rest = next;
        let Some((key, value)) = param.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        match key.trim().to_ascii_lowercase().as_str() {
            "pri" => source.priority = value.parse().unwrap_or(LAST_PRIORITY),
            "depth" => source.depth = value.parse().ok(),
            // Other relations, such as a description of the object, are not copies.
            "rel" if !value.split(' ').any(|r| r.eq_ignore_ascii_case("duplicate")) => return None,
            _ => {}
        }
    }
    Some(source)
}

/// `text` up to the first `at` outside quotes, and what follows it.
fn split_unquoted(text: &str, at: char) -> (&str, &str) {
    let mut quoted = false;
    let end = text.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        !quoted && *c == at
    });
    let split = end.and_then(|(i, c)| Some((text.get(..i)?, text.get(i + c.len_utf8()..)?)));
    split.unwrap_or((text, ""))
}

/// A URL of a server without its query, which may hold a token; `None` when it is
/// not one.
fn server_url(text: &str) -> Option<String> {
    let url = text.trim().split(['?', '#']).next()?;
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let known = ["http", "https"].iter().any(|s| scheme.eq_ignore_ascii_case(s));
    let sound = is_authority(authority) && url.bytes().all(|b| b.is_ascii_graphic());
    (known && sound).then(|| format!("{}://{rest}", scheme.to_ascii_lowercase()))
}

fn parse_namespace(headers: &[(String, String)]) -> Option<Namespace> {
    let mut namespace = Namespace::default();
    for (key, value) in values(headers, "x-pelican-namespace").flat_map(pairs) {
        match key.as_str() {
            "namespace" if value.starts_with('/') => namespace.prefix = clean_path(value),
            "require-token" => namespace.require_token = value.eq_ignore_ascii_case("true"),
            "collections-url" => {
                namespace.collections_url =
                    server_url(value).map(|url| url.trim_end_matches('/').to_owned());
            }
            _ => {}
        }
    }
    // Each issuer has a line of its own.
    let lines = ["x-pelican-authorization", "x-pelican-token-generation"];
    for (key, value) in lines.iter().flat_map(|name| values(headers, name)).flat_map(pairs) {
        match key.as_str() {
            "issuer" => push_new(&mut namespace.issuers, value.to_owned()),
            "base-path" if value.starts_with('/') => {
                push_new(&mut namespace.base_paths, clean_path(value));
            }
            _ => {}
        }
    }
    (!namespace.prefix.is_empty()).then_some(namespace)
}

/// The `key=value` pairs of a header's value, keys in lower case.
fn pairs(line: &str) -> impl Iterator<Item = (String, &str)> {
    line.split(',').filter_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        (!value.is_empty()).then_some((key, value))
    })
}

fn clean_path(path: &str) -> String {
    format!("/{}", path.trim_matches('/'))
}

fn push_new(list: &mut Vec<String>, value: String) {
    if !list.contains(&value) {
        list.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(headers: &[(&str, &str)]) -> Answer {
        let headers: Vec<_> =
            headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        parse_answer(&headers)
    }

    fn source(url: &str, priority: u32, depth: Option<usize>) -> Source {
        Source { url: url.to_owned(), priority, depth }
    }

    #[track_caller]
    fn check_sources(headers: &[(&str, &str)], expected: &[(&str, u32, Option<usize>)]) {
        let expected: Vec<_> = expected.iter().map(|(u, p, d)| source(u, *p, *d)).collect();
        assert_eq!(answer(headers).sources, expected, "{headers:?}");
    }

    #[test]
    fn a_whole_answer_is_read() {
        let answer = answer(&[
            ("server", "pelican/7.27.0"),
            ("location", "https://c1:8443/ns/d/x?authz=SECRET"),
            (
                "link",
                "<https://c1:8443/ns/d/x>; rel=\"duplicate\"; pri=1; depth=2, \
                 <https://c2:8443/ns/d/x>; rel=\"duplicate\"; pri=2; depth=2",
            ),
            (
                "x-pelican-namespace",
                "namespace=/ns/, require-token=true, collections-url=https://origin:8443/",
            ),
            ("x-pelican-authorization", "issuer=https://iss?a=b"),
            ("x-pelican-authorization", "issuer=https://other"),
            (
                "x-pelican-token-generation",
                "issuer=https://other, max-scope-depth=3, strategy=OAuth2, base-path=/ns",
            ),
        ]);
        let expected = Answer {
            sources: vec![
                source("https://c1:8443/ns/d/x", 1, Some(2)),
                source("https://c2:8443/ns/d/x", 2, Some(2)),
            ],
            namespace: Some(Namespace {
                prefix: "/ns".into(),
                require_token: true,
                collections_url: Some("https://origin:8443".into()),
                issuers: vec!["https://iss?a=b".into(), "https://other".into()],
                base_paths: vec!["/ns".into()],
            }),
            brokered: false,
        };
        assert_eq!(answer, expected);
    }

    #[test]
    fn links_are_found_by_their_brackets() {
        let url = "https://c/ns/a,b;c=%3C1";
        check_sources(&[("link", &format!("<{url}>; pri=1; depth=1"))], &[(url, 1, Some(1))]);
        check_sources(
            &[("link", "<https://b/x>;title=\"a, <http://no/>; pri=9\";pri=2,<https://a/x>;pri=1")],
            &[("https://a/x", 1, None), ("https://b/x", 2, None)],
        );
    }

    #[test]
    fn links_come_by_priority_then_order_over_all_lines() {
        check_sources(
            &[
                ("link", "<https://c/x>; PRI=\"3\", <https://d/x>, <https://z/x>; pri=many"),
                ("link", "<https://a/x>; pri=1; depth=-1, <https://b/x>; pri=1; depth=4"),
            ],
            &[
                ("https://a/x", 1, None),
                ("https://b/x", 1, Some(4)),
                ("https://c/x", 3, None),
                ("https://d/x", LAST_PRIORITY, None),
                ("https://z/x", LAST_PRIORITY, None),
            ],
        );
    }

    #[test]
    fn six_sources_are_kept_each_once() {
        let line: String = (0..20)
            .rev()
            .map(|i| format!("<https://c{}/x>; rel=\"duplicate\"; pri={i},", i / 2))
            .collect();
        let sources = answer(&[("link", &line)]).sources;
        let urls: Vec<_> = sources.iter().map(|s| s.url.as_str()).collect();
        let expected: Vec<_> = (0..6).map(|i| format!("https://c{i}/x")).collect();
        assert_eq!(urls, expected);
    }

    #[test]
    fn what_is_no_copy_on_a_server_is_left_out() {
        check_sources(
            &[(
                "link",
                "<ftp://a/x>, </ns/x>, <https:///x>, <https://u@h/x>, <https://h/a b>, <>, \
                 <https://h/x.meta>; rel=describedby, <file:///etc/passwd>, <HTTP://ok:80/x>",
            )],
            &[("http://ok:80/x", LAST_PRIORITY, None)],
        );
    }

    #[test]
    fn a_query_is_never_kept() {
        let secret = "authz=SECRET";
        check_sources(
            &[("location", &format!("https://h/ns/x?{secret}"))],
            &[("https://h/ns/x", LAST_PRIORITY, None)],
        );
        check_sources(
            &[("link", &format!("<https://h/x?{secret}#f>; pri=1"))],
            &[("https://h/x", 1, None)],
        );
        check_sources(
            &[("location", "https://from-location/x"), ("link", "<https://h/x>; pri=1")],
            &[("https://h/x", 1, None)],
        );
        check_sources(&[("location", "/api/v1.0/director/origin/x")], &[]);
    }

    #[test]
    fn a_namespace_needs_its_prefix() {
        let namespace = |value| answer(&[("x-pelican-namespace", value)]).namespace;
        for none in ["", "=", "namespace", "namespace=", "namespace=ns", "require-token=true", ",,"]
        {
            assert_eq!(namespace(none), None, "{none}");
        }
        assert_eq!(namespace("NAMESPACE=/").unwrap().prefix, "/");
        let public = namespace("namespace=/a, require-token=false, collections-url=ftp://x");
        assert_eq!(public, Some(Namespace { prefix: "/a".into(), ..Namespace::default() }));
        assert_eq!(answer(&[("x-pelican-authorization", "issuer=https://i")]).namespace, None);
        assert_eq!(public.unwrap().below("/a/b"), Some("b"));
    }

    #[track_caller]
    fn check_prefix(url: &str, depth: Option<usize>, object: &str, expected: Option<&str>) {
        let prefix = server_prefix(&source(url, 1, depth), object);
        assert_eq!(prefix.as_deref(), expected, "{url} {depth:?} {object}");
    }

    #[test]
    fn a_prefix_serves_the_other_objects_of_the_namespace() {
        check_prefix("https://c/ns/d/x", Some(2), "/ns/d/x", Some("https://c/ns"));
        check_prefix("https://c/ns/d%20e/x,y", Some(2), "/ns/d e/x,y", Some("https://c/ns"));
        check_prefix("https://c/data/ns/x", Some(1), "/ns/x", Some("https://c/data/ns"));
        check_prefix("https://c/ns", Some(0), "/ns", Some("https://c/ns"));
        check_prefix("https://c/ns/x", None, "/ns/x", None);
        check_prefix("https://c/ns/x", Some(9), "/ns/x", None);
        check_prefix("https://c/x", Some(1), "/x", Some("https://c"));
        check_prefix("https://c/ns/other", Some(1), "/ns/x", None);
        check_prefix("https://c/ns/%zz", Some(1), "/ns/%zz", None);
        check_prefix("https://c", Some(1), "/c", None);
        check_prefix("", Some(usize::MAX), "", None);
    }

    #[test]
    fn join_is_the_inverse_of_server_prefix() {
        for path in ["/ns/d/x", "/ns/a b/c%41,;é", "/ns"] {
            let below = below(path, "/ns").unwrap();
            let url = join("https://c:1/ns", below);
            let depth = below.split('/').filter(|s| !s.is_empty()).count();
            check_prefix(&url, Some(depth), path, Some("https://c:1/ns"));
        }
        assert_eq!(join("https://c/ns/", "/a b"), "https://c/ns/a%20b");
    }

    #[test]
    fn damaged_headers_do_not_panic() {
        let whole = "<https://c1:8443/ns/d/x>; rel=\"dup\u{e9}\"; pri=1; depth=2, \
                     <https://c2/ns/d/x>; pri=99999999999999999999; depth=99999999999999999999999";
        let cuts = whole.char_indices().map(|(at, _)| &whole[at..]);
        let cuts = cuts.chain(whole.char_indices().map(|(at, _)| &whole[..at]));
        for cut in cuts.chain(["<", ">", "<<>>", "\"", "<https://", ";;;,,,", "é"]) {
            for name in ["link", "location", "x-pelican-namespace", "x-pelican-authorization"] {
                for source in answer(&[(name, cut)]).sources {
                    assert!(source.url.starts_with("https://c"), "{cut}");
                    let _ = server_prefix(&source, cut);
                }
            }
        }
    }
}
