//! Lists a collection: parses the answer to `PROPFIND` (RFC 4918, section 13).
//!
//! ```text
//! <D:multistatus xmlns:D="DAV:" …>
//!   <D:response xmlns:lp1="DAV:" …><D:href>/test/d/x.bin</D:href>
//!     <D:propstat><D:prop><lp1:getcontentlength>12</lp1:getcontentlength>
//!       <lp1:iscollection>0</lp1:iscollection></D:prop>
//!     <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>
//! </D:multistatus>
//! ```
//!
//! Servers differ: an `href` is a path or a whole URL, percent-encoded or (XRootD)
//! just as the name is, of a collection with or without `/` at its end.

use roxmltree::{Document, Node, ParsingOptions};

use crate::url::{is_segment, percent_decode};

/// The namespace of WebDAV's elements, under whatever prefix.
const DAV: &str = "DAV:";

/// The most bytes that are read of an answer: some 100,000 entries at XRootD's 600 bytes
/// each, a hundred times a usual quota.
pub(crate) const MAX_LISTING_BYTES: usize = 64 << 20;

/// Elements and texts, at XRootD's 35 an entry; bounds memory at some 300 MiB.
const MAX_NODES: u32 = 4 << 20;

/// An answer nests six deep; the parser copies the names in scope at every level.
const MAX_DEPTH: usize = 64;

/// An object or collection in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionMember {
    /// The last segment of `path`; empty for the root.
    pub name: String,
    /// Decoded; starts with `/`, has none at its end.
    pub path: String,
    /// The object's length; `None` for a collection, or when the server does not tell.
    pub len_bytes: Option<u64>,
    /// Whether it is a collection.
    pub collection: bool,
}

/// Whether a name is an object or a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The length in bytes of an object, where the server says it.
    pub len_bytes: Option<u64>,
    /// Whether it is a collection; `None` if the server cannot list, since some servers answer for
    /// a collection as for an object.
    pub collection: Option<bool>,
}

/// What a server said about a path and about the entries directly below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Multistatus {
    /// The path that was asked for.
    pub(crate) itself: Option<CollectionMember>,
    /// Its members, each once, sorted by name; empty for an object.
    pub(crate) members: Vec<CollectionMember>,
    /// Entries left out: what no URL can name, and what is not directly below the path.
    pub(crate) skipped: usize,
}

/// The members of a collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionListing {
    /// The entries, sorted by name; an object lists itself.
    pub entries: Vec<CollectionMember>,
    /// How many entries were left out, because no URL can contain their names (`?`, `#`, `\\`,
    /// control characters) or because they are not directly below the collection.
    pub skipped: usize,
}

/// Reads the answer to a `PROPFIND` of `request_path` (decoded), depth 0 or 1.
///
/// A folder may contain temporary files of an editor, and a server may list more than was asked
/// for. Such entries are counted and left out. They make a listing an error only if there is no
/// other entry.
///
/// # Errors
/// What is wrong with the answer, if it is not a listing, or not one of this path.
pub(crate) fn parse_multistatus(xml: &[u8], request_path: &str) -> Result<Multistatus, String> {
    if xml.len() > MAX_LISTING_BYTES {
        return Err(format!("is {} bytes, more than {MAX_LISTING_BYTES}", xml.len()));
    }
    let text = std::str::from_utf8(xml).map_err(|e| format!("is not UTF-8: {e}"))?;
    check_depth(text)?;
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| format!("is not valid XML: {error}"))?;
    let root = document.root_element();
    if !is_dav(&root, "multistatus") {
        return Err(format!("is not a list, but `{}`", root.tag_name().name().escape_debug()));
    }
    let request = segments(request_path);
    let mut found = Multistatus::default();
    let mut odd = None;
    for response in root.children().filter(|node| is_dav(node, "response")) {
        match parse_response(&response, &request)? {
            Parsed::Gone => {}
            Parsed::Itself(entry) => drop(found.itself.get_or_insert(entry)),
            Parsed::Member(entry) => found.members.push(entry),
            Parsed::Odd(why) => {
                found.skipped += 1;
                odd.get_or_insert(why);
            }
        }
    }
    if let Some(why) = odd.filter(|_| found.itself.is_none() && found.members.is_empty()) {
        return Err(why);
    }
    found.members.sort_by(|a, b| a.name.cmp(&b.name));
    found.members.dedup_by(|a, b| a.name == b.name);
    Ok(found)
}

/// One response of a listing.
enum Parsed {
    /// The path that was asked for.
    Itself(CollectionMember),
    Member(CollectionMember),
    /// The server says that it does not exist.
    Gone,
    /// Why the entry is left out.
    Odd(String),
}

fn parse_response(response: &Node, request: &[&str]) -> Result<Parsed, String> {
    let href = child(response, "href").and_then(|href| href.text()).map_or("", str::trim);
    let path = match match_href(href, request) {
        Ok(path) => path,
        Err(why) => return Ok(Parsed::Odd(why)),
    };
    let is_itself = path.len() == request.len();
    let mut entry = CollectionMember {
        name: path.last().cloned().unwrap_or_default(),
        path: format!("/{}", path.join("/")),
        len_bytes: None,
        collection: href.ends_with('/'),
    };
    if child(response, "status").is_some_and(|status| !is_ok(&status)) {
        return Ok(Parsed::Gone);
    }
    let sound = |node: &Node| child(node, "status").is_none_or(|status| is_ok(&status));
    let propstats = response.children().filter(|node| is_dav(node, "propstat") && sound(node));
    for prop in propstats.filter_map(|propstat| child(&propstat, "prop")) {
        read_properties(&prop, &mut entry)?;
    }
    if entry.collection {
        entry.len_bytes = None;
    }
    Ok(if is_itself { Parsed::Itself(entry) } else { Parsed::Member(entry) })
}

fn read_properties(prop: &Node, entry: &mut CollectionMember) -> Result<(), String> {
    for property in prop.children().filter(|node| node.tag_name().namespace() == Some(DAV)) {
        let text = property.text().map_or("", str::trim);
        match property.tag_name().name() {
            "getcontentlength" if !text.is_empty() => {
                entry.len_bytes = Some(text.parse().map_err(|_| {
                    format!("has `{}` as the length of `{}`", text.escape_debug(), entry.path)
                })?);
            }
            "resourcetype" => entry.collection |= child(&property, "collection").is_some(),
            "iscollection" => entry.collection |= text == "1",
            _ => {}
        }
    }
    Ok(())
}

/// The segments of an `href`, decoded: those of the request, and one more for a member.
fn match_href(href: &str, request: &[&str]) -> Result<Vec<String>, String> {
    let shown = href.escape_debug();
    let path = href_path(href).ok_or_else(|| format!("has `{shown}`, which is not a path"))?;
    let raw: Vec<String> = segments(path).iter().map(|s| (*s).to_owned()).collect();
    let decoded: Option<Vec<String>> = raw.iter().map(|s| percent_decode(s)).collect();
    let below = |path: &[String]| {
        let request_segments = request.iter().copied();
        path.iter().map(String::as_str).take(request.len()).eq(request_segments)
            && path.len() <= request.len() + 1
    };
    // The name may be encoded or not. The beginning, which is that of the request, tells which; if
    // both forms fit, a name with characters that cannot be in an encoded path is not encoded.
    let encodable = path.bytes().all(|b| b.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&b));
    let fits = match decoded {
        Some(decoded) if below(&decoded) && (encodable || !below(&raw)) => decoded,
        _ if below(&raw) => raw,
        _ => return Err(format!("has `{shown}`, which is not in the listed folder")),
    };
    match fits.iter().find(|segment| !is_segment(segment)) {
        Some(bad) => Err(format!("has the unsafe name `{}`", bad.escape_debug())),
        None => Ok(fits),
    }
}

fn href_path(href: &str) -> Option<&str> {
    if href.starts_with('/') {
        return Some(href);
    }
    let (scheme, rest) = href.split_once("://")?;
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return None;
    }
    Some(rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"))
}

fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty()).collect()
}

fn is_dav(node: &Node, name: &str) -> bool {
    node.has_tag_name((DAV, name))
}

fn child<'a, 'i>(node: &Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|node| is_dav(node, name))
}

/// Whether a status line, such as `HTTP/1.1 200 OK`, reports success.
fn is_ok(status: &Node) -> bool {
    let code = status.text().unwrap_or_default().split_whitespace().nth(1);
    code.is_some_and(|code| code.len() == 3 && code.starts_with('2'))
}

/// Refuses what nests too deep, before the parser sees it.
fn check_depth(xml: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    let mut rest = xml;
    while let Some((_, tag)) = rest.split_once('<') {
        let skip = |end: &str| tag.split_once(end).map_or("", |(_, after)| after);
        rest = match tag.as_bytes() {
            [b'!', b'-', b'-', ..] => skip("-->"),
            [b'!', b'[', ..] => skip("]]>"),
            [b'?', ..] => skip("?>"),
            [b'/', ..] => {
                depth = depth.saturating_sub(1);
                skip(">")
            }
            _ => {
                let mut quote = None;
                let end = tag.find(|c| match quote {
                    None if matches!(c, '"' | '\'') => {
                        quote = Some(c);
                        false
                    }
                    None => c == '>',
                    Some(open) => {
                        quote = quote.filter(|_| c != open);
                        false
                    }
                });
                let (inside, after) = end.map_or((tag, ""), |end| tag.split_at(end));
                depth += usize::from(!inside.ends_with('/'));
                after
            }
        };
        if depth > MAX_DEPTH {
            return Err(format!("is nested deeper than {MAX_DEPTH} levels"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer in the form of XRootD 5.5.3: two namespace prefixes, raw names, no `/` at the end.
    fn xrootd(entries: &[(&str, &str, bool)]) -> String {
        let mut xml =
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\" \
                       xmlns:ns0=\"DAV:\" xmlns:ns1=\"http://apache.org/dav/props/\">\n"
                .to_owned();
        for (href, len, collection) in entries {
            let kind = if *collection {
                "<lp1:resourcetype><D:collection/></lp1:resourcetype>\
                 <lp1:iscollection>1</lp1:iscollection>"
            } else {
                "<lp1:iscollection>0</lp1:iscollection>"
            };
            xml += &format!(
                "<D:response xmlns:lp1=\"DAV:\" xmlns:lp2=\"http://apache.org/dav/props/\" \
                 xmlns:lp3=\"LCGDM:\">\n<D:href>{href}</D:href>\n<D:propstat>\n<D:prop>\n\
                 <lp1:getcontentlength>{len}</lp1:getcontentlength>\n{kind}\n\
                 <lp1:executable>F</lp1:executable>\n</D:prop>\n\
                 <D:status>HTTP/1.1 200 OK</D:status>\n</D:propstat>\n</D:response>\n"
            );
        }
        xml + "</D:multistatus>\n"
    }

    fn list(entries: &[(&str, &str, bool)], request: &str) -> Result<Multistatus, String> {
        parse_multistatus(xrootd(entries).as_bytes(), request)
    }

    /// Checks that `href` in a listing of `request` is the member `name`; `None` means that it is
    /// refused.
    #[track_caller]
    fn check_href(href: &str, request: &str, name: Option<&str>) {
        let found = list(&[(href, "1", false)], request);
        match (name, &found) {
            (Some(name), Ok(found)) => {
                let names: Vec<_> = found.members.iter().map(|m| m.name.as_str()).collect();
                assert_eq!(names, [name], "{href} in {request}");
                let expected = format!("{}/{name}", request.trim_end_matches('/'));
                assert_eq!(found.members[0].path, expected);
            }
            (None, Err(_)) => {}
            _ => panic!("{href} in {request}: {found:?}"),
        }
    }

    #[test]
    fn a_collection_and_its_members_are_told_apart() {
        let found = list(
            &[
                ("/test/d", "4096", true),
                ("/test/d/x.bin", "12", false),
                ("/test/d/sub", "4096", true),
                ("/test/d/a&amp;b", "0", false),
                ("/test/d/x.bin", "13", false),
            ],
            "/test/d/",
        );
        let entry = |name: &str, path: &str, len_bytes, collection| CollectionMember {
            name: name.into(),
            path: path.into(),
            len_bytes,
            collection,
        };
        let expected = Multistatus {
            itself: Some(entry("d", "/test/d", None, true)),
            members: vec![
                entry("a&b", "/test/d/a&b", Some(0), false),
                entry("sub", "/test/d/sub", None, true),
                entry("x.bin", "/test/d/x.bin", Some(12), false),
            ],
            skipped: 0,
        };
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn an_object_has_no_members() {
        let found = list(&[("/test/x", "3", false)], "/test/x").unwrap();
        assert_eq!(found.itself.unwrap().len_bytes, Some(3));
        assert!(found.members.is_empty());
        let root = list(&[("/", "0", true), ("/a", "1", false)], "/").unwrap();
        assert_eq!((root.itself.unwrap().path.as_str(), root.members.len()), ("/", 1));
    }

    #[test]
    fn hrefs_are_read_in_all_their_forms() {
        check_href("/d/x", "/d", Some("x"));
        check_href("/d/x/", "/d/", Some("x"));
        check_href("//d//x", "/d", Some("x"));
        check_href("https://h:8443/d/x", "/d", Some("x"));
        check_href("HTTP://h/d/x", "/d", Some("x"));
        check_href("/d/a%20b", "/d", Some("a b"));
        check_href("/d/a b", "/d", Some("a b"));
        // This is not encoded, since an encoded path has no space.
        check_href("/d/a b%41", "/d", Some("a b%41"));
        check_href("/d/50%", "/d", Some("50%"));
        check_href("/d/pct%41", "/d", Some("pctA"));
        // The part that repeats the request shows how the rest is written.
        check_href("/p%2541/x%2542", "/p%41", Some("x%42"));
        check_href("/p%41/x%42", "/p%41", Some("x%42"));
        check_href("/p%41/x%42", "/pA", Some("xB"));
        check_href("/d%20e/x", "/d e", Some("x"));
        check_href("/d e/é", "/d e", Some("é"));
        check_href("/d/%C3%A9", "/d", Some("é"));
    }

    #[test]
    fn names_that_are_not_safe_or_not_from_here_are_errors() {
        for href in [
            "",
            "x",
            "/other/x",
            "/dx/y",
            "/d/x/y",
            "/d/..",
            "/d/.",
            "/d/%2e%2e",
            "/d/%2fetc",
            "/d/a%00b",
            "/d/a?b",
            "/d/pct%41#q?.bin",
            "/d/a\\b",
            "/d/a%5Cb",
            "ftp://h/d/x",
            "https://h",
            "/",
        ] {
            check_href(href, "/d", None);
        }
    }

    #[test]
    fn what_is_odd_or_from_elsewhere_is_left_out_and_counted() {
        let found = list(
            &[
                ("/d", "0", true),
                ("/d/x", "1", false),
                ("/d/#x#", "1", false),
                ("/d/a\\b", "1", false),
                ("/d/sub/deeper", "1", false),
                ("/other/y", "1", false),
                ("/d/..", "1", true),
                ("/", "1", true),
            ],
            "/d",
        )
        .unwrap();
        let names: Vec<_> = found.members.iter().map(|m| m.name.as_str()).collect();
        assert_eq!((names, found.skipped), (vec!["x"], 6));
        assert!(found.itself.is_some());
    }

    #[test]
    fn elements_count_by_namespace() {
        let plain = "<multistatus xmlns='DAV:'><response><href>/d/x/</href><propstat><prop>\
                     <getcontentlength xmlns='other'>9</getcontentlength></prop></propstat>\
                     <propstat><prop><resourcetype/><getcontentlength>7</getcontentlength></prop>\
                     <status>HTTP/1.1 404 Not Found</status></propstat></response>\
                     <response><href>/d/gone</href><status>HTTP/1.1 404 No</status></response>\
                     <response xmlns='x'><href>/d/y</href></response></multistatus>";
        let found = parse_multistatus(plain.as_bytes(), "/d").unwrap();
        let names: Vec<_> = found.members.iter().map(|m| (&*m.name, m.len_bytes)).collect();
        assert_eq!(names, [("x", None)]);
        assert!(found.members[0].collection);
    }

    #[track_caller]
    fn check_error(xml: &[u8], part: &str) {
        let error = parse_multistatus(xml, "/d").unwrap_err();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        check_error(b"", "XML");
        check_error(b"<html><body>d</body></html>", "`html`");
        check_error(b"<multistatus/>", "`multistatus`");
        check_error(b"\xff\xfe", "UTF-8");
        check_error(xrootd(&[("/d/x", "many", false)]).as_bytes(), "`many`");
        check_error(xrootd(&[("/d/x", "-1", false)]).as_bytes(), "`-1`");
        check_error(xrootd(&[("/d/x", "18446744073709551616", false)]).as_bytes(), "length");
    }

    #[test]
    fn bombs_are_refused() {
        let entities = "<!DOCTYPE m [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;\">]>\
                        <m xmlns='DAV:'>&b;</m>";
        check_error(entities.as_bytes(), "DTD");
        let file = "<!DOCTYPE m [<!ENTITY a SYSTEM \"file:///etc/passwd\">]><m>&a;</m>";
        check_error(file.as_bytes(), "DTD");
        for open in ["<a>", "<a x='/>'>", "<a x=\"'/\">", "<!-- < --><a>", "<a><b/>"] {
            check_error(open.repeat(100_000).as_bytes(), "nested");
        }
        check_error("<a>".repeat(60).as_bytes(), "XML");
        check_error(&vec![b' '; MAX_LISTING_BYTES + 1], "more than");
    }

    #[test]
    fn damaged_lists_do_not_panic() {
        let xml = xrootd(&[("/d", "0", true), ("/d/x&amp;é", "12", false)]);
        for cut in 0..xml.len() {
            assert!(
                parse_multistatus(&xml.as_bytes()[..cut], "/d").is_err() || cut + 1 == xml.len()
            );
            let mut flipped = xml.clone().into_bytes();
            flipped[cut] ^= 0x15;
            let _ = parse_multistatus(&flipped, "/d");
        }
    }
}
