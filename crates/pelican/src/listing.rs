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
//! Servers differ: an `href` is a path or a whole URL, of a collection with or without `/` at its
//! end, percent-encoded or (XRootD) just as the name is stored. A server spells all names of a
//! listing in the same way. So this is decided once per listing: by the path that was asked for, or
//! by a name that no encoded path can contain; if both ways are possible, by asking for one name.

use std::borrow::Cow;
use std::collections::HashSet;

use roxmltree::{Document, Node, ParsingOptions};

use crate::Error;
use crate::checksum::{Checksum, parse_digest};
use crate::url::{is_segment, percent_decode};

/// The namespace of WebDAV's elements, under whatever prefix.
const DAV: &str = "DAV:";

/// The namespace of what only dCache tells.
const DCACHE: &str = "http://www.dcache.org/2013/webdav";

/// The body of a request for a listing. dCache tells checksums only if they are asked for by name
/// (its user guide, "WebDAV checksum properties"); XRootD tells the same whatever is asked for.
pub(crate) const WANTED: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
    <D:propfind xmlns:D=\"DAV:\"><D:prop><D:resourcetype/><D:getcontentlength/>\
    <C:Checksums xmlns:C=\"http://www.dcache.org/2013/webdav\"/></D:prop></D:propfind>";

/// The most bytes that are read of an answer: some 100,000 entries at XRootD's 600 bytes
/// each, a hundred times a usual quota.
pub(crate) const MAX_LISTING_BYTES: usize = 64 << 20;

/// Elements and texts, at XRootD's 35 an entry; bounds memory at some 300 MiB.
const MAX_NODES: u32 = 4 << 20;

/// The longest name that file systems accept. Encoded, it may be longer.
const MAX_NAME_BYTES: usize = 255;

/// Stands for bytes that are not UTF-8. XML may contain it, and no safe name does.
const NOT_UTF8: char = '\u{85}';

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
    /// The object's checksum, where the listing tells it.
    pub checksum: Option<Checksum>,
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

/// How the `href`s of a listing spell names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// As they are stored: `%20` is three characters of a name.
    AsStored,
    /// Percent-encoded: `%20` is a space.
    Encoded,
}

/// A listing does not show whether its names are encoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ambiguous {
    /// A name in the listing. It exists as it is, if names are spelled [`Spelling::AsStored`], and
    /// only then.
    pub(crate) name: String,
    /// The name that exists otherwise; `None` if no URL can contain it.
    pub(crate) decoded: Option<String>,
}

/// Why an answer cannot be used as a listing; follows the words "the listing" in a message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListingFault {
    #[error("is {found} bytes, more than {MAX_LISTING_BYTES}")]
    TooLarge { found: usize },
    #[error("is nested deeper than {MAX_DEPTH} levels")]
    Deep,
    #[error("is not valid XML: {0}")]
    Xml(#[from] roxmltree::Error),
    #[error("is not a list, but `{}`", found.escape_debug())]
    NotAList { found: String },
    #[error("has `{}`, which is not a path", href.escape_debug())]
    NotAPath { href: String },
    #[error("has `{}`, which is not in the listed folder", href.escape_debug())]
    Elsewhere { href: String },
    #[error("has the unsafe name `{}`", href.escape_debug())]
    Unsafe { href: String },
    #[error("has `{}` as the length of `{href}`", text.escape_debug())]
    Len { text: String, href: String },
    #[error("has `{}` and `{}`, which are the same name", a.escape_debug(), b.escape_debug())]
    SameName { a: String, b: String },
    #[error("has `{name}`, but that does not exist")]
    Gone { name: String },
    #[error("has `{name}`, which may be encoded or not: {source}")]
    NotTold { name: String, source: Box<Error> },
}

/// The responses about a path and the entries below it, with names as the server spells them.
#[derive(Debug)]
pub(crate) struct Responses<'a> {
    /// The segments of the path that was asked for.
    request: Vec<&'a str>,
    responses: Vec<Response>,
}

/// One response that does not say that its path is gone.
#[derive(Debug)]
struct Response {
    href: String,
    collection: bool,
    len_bytes: Option<u64>,
    checksum: Option<Checksum>,
}

impl<'a> Responses<'a> {
    /// Reads the answer to a `PROPFIND` of `request_path` (decoded), depth 0 or 1.
    ///
    /// # Errors
    /// What is wrong with the answer, if it is not a listing.
    pub(crate) fn parse(xml: &[u8], request_path: &'a str) -> Result<Self, ListingFault> {
        if xml.len() > MAX_LISTING_BYTES {
            return Err(ListingFault::TooLarge { found: xml.len() });
        }
        let text = only_utf8(xml);
        check_depth(&text)?;
        let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
        let document = Document::parse_with_options(&text, options)?;
        let root = document.root_element();
        if !is_dav(&root, "multistatus") {
            return Err(ListingFault::NotAList { found: root.tag_name().name().to_owned() });
        }
        let responses = root.children().filter(|node| is_dav(node, "response"));
        let responses = responses.filter_map(|node| parse_response(&node).transpose());
        let responses = responses.collect::<Result<_, _>>()?;
        Ok(Self { request: segments(request_path).collect(), responses })
    }

    /// Whether any response is about the path that was asked for, or a name below it.
    pub(crate) fn are_of_request(&self) -> bool {
        let both = [Spelling::AsStored, Spelling::Encoded];
        self.responses.iter().any(|response| both.iter().any(|s| self.is_below(response, *s)))
    }

    /// Decides how the names are spelled.
    ///
    /// # Errors
    /// [`Ambiguous`], if two ways are possible and differ.
    pub(crate) fn spelling(&self) -> Result<Spelling, Ambiguous> {
        use Spelling::{AsStored, Encoded};
        let only = |this, other| {
            let shows = |r: &Response| self.is_below(r, this) && !self.is_below(r, other);
            self.responses.iter().any(shows)
        };
        // The beginning repeats the request, which is known, so it shows how the rest is spelled.
        match (only(AsStored, Encoded), only(Encoded, AsStored)) {
            (true, _) => return Ok(AsStored),
            (false, true) => return Ok(Encoded),
            (false, false) => {}
        }
        let below = self.responses.iter().filter(|response| self.is_below(response, AsStored));
        let paths = below.filter_map(|response| href_path(&response.href));
        let names: Vec<&str> =
            paths.filter_map(|path| segments(path).nth(self.request.len())).collect();
        if names.iter().any(|name| !is_encoded(name)) {
            return Ok(AsStored);
        }
        // If a name is also another one decoded, it exists either way.
        let decoded: HashSet<String> =
            names.iter().filter_map(|name| percent_decode(name)).collect();
        let doubtful = names.into_iter().filter(|name| name.contains('%') && is_segment(name));
        let telling =
            doubtful.filter(|name| name.len() <= MAX_NAME_BYTES && !decoded.contains(*name));
        match telling.max_by_key(|name| name.len()) {
            None => Ok(Encoded),
            Some(name) => {
                let decoded = percent_decode(name).filter(|name| is_segment(name));
                Err(Ambiguous { name: name.to_owned(), decoded })
            }
        }
    }

    /// Leaves out the member that has this name as the server spells it.
    pub(crate) fn leave_out(&mut self, name: &str) {
        let n = self.request.len();
        self.responses.retain(|response| {
            href_path(&response.href).and_then(|path| segments(path).nth(n)) != Some(name)
        });
    }

    /// Returns what the listing says if its names are spelled in this way.
    ///
    /// A folder may contain temporary files of an editor, and a server may list more than was asked
    /// for. Such entries are counted and left out. They make a listing an error only if there is no
    /// other entry.
    ///
    /// # Errors
    /// What is wrong, if it is not a listing of this path, or if two entries have the same name.
    pub(crate) fn read(&self, spelling: Spelling) -> Result<Multistatus, ListingFault> {
        let (mut found, mut odd) = (Multistatus::default(), None);
        let mut members: Vec<(CollectionMember, &str)> = Vec::new();
        for response in &self.responses {
            let names = match self.names(response, spelling) {
                Ok(names) => names,
                Err(why) => {
                    found.skipped += 1;
                    odd.get_or_insert(why);
                    continue;
                }
            };
            let entry = CollectionMember {
                name: names.last().cloned().unwrap_or_default(),
                path: format!("/{}", names.join("/")),
                len_bytes: response.len_bytes.filter(|_| !response.collection),
                checksum: response.checksum.clone().filter(|_| !response.collection),
                collection: response.collection,
            };
            if names.len() == self.request.len() {
                found.itself.get_or_insert(entry);
            } else {
                members.push((entry, response.href.trim_end_matches('/')));
            }
        }
        if let Some(why) = odd.filter(|_| found.itself.is_none() && members.is_empty()) {
            return Err(why);
        }
        let key = |(entry, href): &(CollectionMember, &str)| {
            (entry.name.clone(), entry.collection, (*href).to_owned())
        };
        members.sort_by_cached_key(key);
        // A server may repeat an entry. Two spellings of a name would be two entries.
        members.dedup_by(|a, b| a == b);
        let twice = members.windows(2).find_map(|pair| match pair {
            [a, b] if (&a.0.name, a.0.collection) == (&b.0.name, b.0.collection) => {
                Some((a.1, b.1))
            }
            _ => None,
        });
        if let Some((a, b)) = twice {
            return Err(ListingFault::SameName { a: a.to_owned(), b: b.to_owned() });
        }
        found.members = members.into_iter().map(|(entry, _)| entry).collect();
        Ok(found)
    }

    /// Whether a response is about the path that was asked for, or about a name directly below it.
    fn is_below(&self, response: &Response, spelling: Spelling) -> bool {
        let Some(path) = href_path(&response.href) else { return false };
        let mut names = segments(path);
        let begins = self.request.iter().all(|wanted| match (spelling, names.next()) {
            (_, None) => false,
            (Spelling::AsStored, Some(name)) => name == *wanted,
            (Spelling::Encoded, Some(name)) => {
                is_encoded(name) && percent_decode(name).as_deref() == Some(wanted)
            }
        });
        begins && names.nth(1).is_none()
    }

    /// The names that a response's path consists of: those of the request, and one more for a
    /// member.
    fn names(&self, response: &Response, spelling: Spelling) -> Result<Vec<String>, ListingFault> {
        let href = || response.href.clone();
        let path =
            href_path(&response.href).ok_or_else(|| ListingFault::NotAPath { href: href() })?;
        if !self.is_below(response, spelling) {
            return Err(ListingFault::Elsewhere { href: href() });
        }
        let name = |name: &str| {
            let name = match spelling {
                Spelling::AsStored => Some(name.to_owned()),
                Spelling::Encoded => percent_decode(name),
            };
            name.filter(|name| is_segment(name))
                .ok_or_else(|| ListingFault::Unsafe { href: href() })
        };
        segments(path).map(name).collect()
    }
}

/// Returns `None` if the server says that the path does not exist.
fn parse_response(response: &Node) -> Result<Option<Response>, ListingFault> {
    if child(response, "status").is_some_and(|status| !is_ok(&status)) {
        return Ok(None);
    }
    // An end tag may be on a line of its own. A space at the end belongs to the name, and so does a
    // line break within it: such a name is counted as skipped.
    let href =
        child(response, "href").and_then(|href| href.text()).unwrap_or_default().trim_start();
    let href = match href.split_once(['\r', '\n']) {
        Some((first, rest)) if rest.trim().is_empty() => first,
        _ => href,
    };
    let href = href.to_owned();
    let collection = href.ends_with('/');
    let mut parsed = Response { href, collection, len_bytes: None, checksum: None };
    let sound = |node: &Node| child(node, "status").is_none_or(|status| is_ok(&status));
    let propstats = response.children().filter(|node| is_dav(node, "propstat") && sound(node));
    for prop in propstats.filter_map(|propstat| child(&propstat, "prop")) {
        read_properties(&prop, &mut parsed)?;
    }
    Ok(Some(parsed))
}

fn read_properties(prop: &Node, entry: &mut Response) -> Result<(), ListingFault> {
    for property in prop.children() {
        let text = property.text().map_or("", str::trim);
        let is_dcaches = property.has_tag_name((DCACHE, "Checksums"));
        match property.tag_name().name() {
            _ if is_dcaches => entry.checksum = parse_digest(text),
            _ if property.tag_name().namespace() != Some(DAV) => {}
            "getcontentlength" if !text.is_empty() => {
                let len = text.parse().map_err(|_| ListingFault::Len {
                    text: text.to_owned(),
                    href: entry.href.clone(),
                })?;
                entry.len_bytes = Some(len);
            }
            "resourcetype" => entry.collection |= child(&property, "collection").is_some(),
            "iscollection" => entry.collection |= text == "1",
            _ => {}
        }
    }
    Ok(())
}

/// Whether a percent-encoded path can contain `name`. Every server that encodes names encodes spaces,
/// `%`, `?` and `#`; some leave other characters as they are.
fn is_encoded(name: &str) -> bool {
    let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    !name.contains([' ', '?', '#']) && name.split('%').skip(1).all(is_escape)
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

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
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

/// The text of an answer. A file system may have names that are not UTF-8, and XRootD 5.5.3 cuts off
/// the last byte of names of 255 bytes: such a name must not hide the others.
fn only_utf8(xml: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(xml) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(xml.len());
    for chunk in xml.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(NOT_UTF8);
        }
    }
    Cow::Owned(text)
}

/// Refuses what nests too deep, before the parser sees it.
fn check_depth(xml: &str) -> Result<(), ListingFault> {
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
            return Err(ListingFault::Deep);
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

    /// Reads a listing. If its names can be read in two ways, the server says that they are encoded.
    fn list(entries: &[(&str, &str, bool)], request: &str) -> Result<Multistatus, ListingFault> {
        read(xrootd(entries).as_bytes(), request)
    }

    fn read(xml: &[u8], request: &str) -> Result<Multistatus, ListingFault> {
        let responses = Responses::parse(xml, request)?;
        responses.read(responses.spelling().unwrap_or(Spelling::Encoded))
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
                ("/test/d/x.bin", "12", false),
            ],
            "/test/d/",
        );
        let entry = |name: &str, path: &str, len_bytes, collection| CollectionMember {
            name: name.into(),
            path: path.into(),
            len_bytes,
            checksum: None,
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
        assert_eq!(found.unwrap(), expected);
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
    fn all_names_of_a_listing_are_spelled_in_the_same_way() {
        use Spelling::{AsStored, Encoded};
        let ask = |name: &str, decoded: Option<&str>| {
            Err(Ambiguous { name: name.to_owned(), decoded: decoded.map(str::to_owned) })
        };
        let long = &"%20".repeat(86);
        let table: &[(&str, &[&str], Result<Spelling, Ambiguous>)] = &[
            ("/d", &["a", "é", "{b}"], Ok(Encoded)),
            // No server that encodes names sends a space or a bare `%`.
            ("/d", &["a b.txt", "a%20b.txt"], Ok(AsStored)),
            ("/d", &["100%", "a%20b.txt"], Ok(AsStored)),
            ("/d", &["a%20b.txt", "c "], Ok(AsStored)),
            ("/d", &["a%20b.txt", "#c#"], Ok(AsStored)),
            // Some leave these characters as they are.
            ("/d", &["a%20b.txt", "é"], ask("a%20b.txt", Some("a b.txt"))),
            ("/d", &["a%20b.txt", "a%2520b.txt"], ask("a%2520b.txt", Some("a%20b.txt"))),
            // No file has the longer name, and the other one exists either way.
            ("/d", &[long, "a%2520b", "a%20b"], ask("a%2520b", Some("a%20b"))),
            ("/d", &[long], Ok(Encoded)),
            ("/d", &["%2e%2e"], ask("%2e%2e", None)),
            ("/d", &["%ff"], ask("%ff", None)),
            ("/d", &["a\\%41"], Ok(Encoded)),
            ("/d e", &["%41"], Ok(AsStored)),
            ("/d%41", &["%41"], Ok(AsStored)),
        ];
        for (folder, names, expected) in table {
            let hrefs: Vec<String> = names.iter().map(|name| format!("{folder}/{name}")).collect();
            let entries: Vec<_> = hrefs.iter().map(|href| (href.as_str(), "1", false)).collect();
            let xml = xrootd(&entries);
            let responses = Responses::parse(xml.as_bytes(), folder).unwrap();
            assert_eq!(responses.spelling(), *expected, "{folder} {names:?}");
        }
        let xml = xrootd(&[("/d%20e/%41", "1", false)]);
        assert_eq!(Responses::parse(xml.as_bytes(), "/d e").unwrap().spelling(), Ok(Encoded));
    }

    #[test]
    fn the_checksum_of_an_object_is_read_where_dcache_tells_it() {
        let check = |told: &str, expected: Option<&str>| {
            let xml = format!(
                "<d:multistatus xmlns:d=\"DAV:\" xmlns:ns1=\"http://www.dcache.org/2013/webdav\">\
                 <d:response><d:href>/d/x</d:href><d:propstat><d:prop>\
                 <d:getcontentlength>5</d:getcontentlength>{told}</d:prop>\
                 <d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>"
            );
            let found = read(xml.as_bytes(), "/d").unwrap();
            let sum = found.members[0].checksum.as_ref().map(Checksum::to_string);
            assert_eq!(sum.as_deref(), expected, "{told}");
        };
        check("<ns1:Checksums>adler32=46fd067a</ns1:Checksums>", Some("adler32:46fd067a"));
        let both = "<ns1:Checksums>md5=XrY7u+Ae7tCTyyK7j1rNww==,adler32=1a0b045d</ns1:Checksums>";
        check(both, Some("md5:5eb63bbbe01eeed093cb22bb8f5acdc3"));
        check("<ns1:Checksums/>", None);
        check("<d:Checksums>adler32=46fd067a</d:Checksums>", None);
        check("", None);
    }

    #[test]
    fn no_member_is_lost_to_another_one() {
        let both = list(&[("/d/a b", "1", false), ("/d/a%20b", "2", false)], "/d").unwrap();
        let names: Vec<_> = both.members.iter().map(|m| (m.name.as_str(), m.len_bytes)).collect();
        assert_eq!(names, [("a b", Some(1)), ("a%20b", Some(2))]);
        // A store of objects may have an object and a collection of one name.
        let both = list(&[("/d/x", "1", false), ("/d/x/", "0", true)], "/d").unwrap();
        assert_eq!(both.members.len(), 2);
        let error = list(&[("/d/a", "1", false), ("/d/%61", "2", false)], "/d").unwrap_err();
        assert!(error.to_string().contains("`/d/%61` and `/d/a`"), "{error}");
    }

    #[test]
    fn a_name_that_is_not_utf8_does_not_hide_the_others() {
        let xml = xrootd(&[("/d/cut", "1", false), ("/d/x", "2", false)]).into_bytes();
        let at = xml.windows(3).position(|part| part == b"cut").unwrap();
        let xml = [&xml[..at + 2], b"\xe6\xb0", &xml[at + 3..]].concat();
        let found = read(&xml, "/d").unwrap();
        let names: Vec<_> = found.members.iter().map(|m| m.name.as_str()).collect();
        assert_eq!((names, found.skipped), (vec!["x"], 1));
    }

    #[test]
    fn spaces_belong_to_names_and_the_lines_of_the_document_do_not() {
        check_href("/d/x ", "/d", Some("x "));
        check_href("\n  /d/x\n  ", "/d", Some("x"));
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
            "/d/a\nb",
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
        let found = read(plain.as_bytes(), "/d").unwrap();
        let names: Vec<_> = found.members.iter().map(|m| (&*m.name, m.len_bytes)).collect();
        assert_eq!(names, [("x", None)]);
        assert!(found.members[0].collection);
    }

    #[track_caller]
    fn check_error(xml: &[u8], part: &str) {
        let error = read(xml, "/d").unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        check_error(b"", "XML");
        check_error(b"<html><body>d</body></html>", "`html`");
        check_error(b"<multistatus/>", "`multistatus`");
        check_error(b"\xff\xfe", "XML");
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
            assert!(read(&xml.as_bytes()[..cut], "/d").is_err() || cut + 1 == xml.len());
            let mut flipped = xml.clone().into_bytes();
            flipped[cut] ^= 0x15;
            let _ = read(&flipped, "/d");
        }
    }
}
