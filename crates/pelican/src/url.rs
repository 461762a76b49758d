//! Names of objects and collections: `pelican://`, `osdf://` and other URLs.
//!
//! ```text
//! pelican://HOST[:PORT]/ns/path[?directread]   HOST is the federation's discovery host
//! osdf:///ns/path  stash:///ns/path            the federation is osg-htc.org
//! NAME+osdf:///ns/path                         with HTCondor's token NAME
//! https://HOST[:PORT]/path  http://…           one server, no federation
//! file:///path                                 a local folder
//! ```

use std::fmt;

use gular_files::{MAX_RENAMES, mask_url};

/// The discovery host of `osdf://` and `stash://`.
const OSDF_HOST: &str = "osg-htc.org";

/// The scheme of a URL, which decides how it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// A federation: discovery, director, caches, origins.
    Pelican,
    /// A server with TLS.
    Https,
    /// A server without TLS; tokens are sent only to this machine.
    Http,
    /// A local folder.
    File,
}

/// An object or collection. Shown, it hides what may be a token in the query.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Url {
    scheme: Scheme,
    /// The scheme as the user wrote it, such as `osdf`.
    shown: String,
    token_name: Option<String>,
    authority: String,
    /// Decoded; starts with `/`, has no empty, `.` or `..` segment and no `/` at its end.
    path: String,
    query: String,
}

/// A text that is not a URL of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` cannot be used as a URL: {reason}")]
pub struct UrlError {
    text: String,
    reason: String,
    hint: String,
}

const URL_HINT: &str = "write pelican://HOST/namespace/path, osdf:///namespace/path, https://HOST/path or file:///path";

impl UrlError {
    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl Url {
    /// Parses a URL. A `#fragment` is refused: what it means is the caller's business.
    ///
    /// # Errors
    /// [`UrlError`], which names the part that is wrong.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let fail = |reason: &str| UrlError {
            text: mask_url(text).into_owned(),
            reason: reason.to_owned(),
            hint: URL_HINT.to_owned(),
        };
        if text.contains('#') {
            return Err(fail("it has a part after `#`"));
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| fail("it does not begin with a scheme such as `https://`"))?;
        let (token_name, shown) = match scheme.rsplit_once('+') {
            Some((name, scheme)) => (Some(name.to_owned()), scheme.to_ascii_lowercase()),
            None => (None, scheme.to_ascii_lowercase()),
        };
        if token_name.as_deref().is_some_and(|name| !is_token_name(name)) {
            return Err(fail("the token name before `+` may hold letters, digits, `.`, `_`, `-`"));
        }
        let kind = match shown.as_str() {
            "pelican" | "osdf" | "stash" => Scheme::Pelican,
            "https" => Scheme::Https,
            "http" => Scheme::Http,
            "file" => Scheme::File,
            _ => {
                return Err(fail("its scheme is not pelican, osdf, stash, https, http or file"));
            }
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match place.find('/') {
            Some(at) => place.split_at(at),
            None => (place, ""),
        };
        let (authority, path) = match shown.as_str() {
            // There is only one such federation, so the first segment belongs to the path.
            "osdf" | "stash" => {
                let path = if authority.is_empty() { path.into() } else { format!("/{place}") };
                (OSDF_HOST.to_owned(), path)
            }
            "file" if authority.is_empty() || authority == "localhost" => {
                (String::new(), path.to_owned())
            }
            "file" => return Err(fail("a file URL must not have a host; write file:///path")),
            _ if authority.is_empty() => return Err(fail("the host is missing")),
            _ => (authority.to_ascii_lowercase(), path.to_owned()),
        };
        if !authority.is_empty() && !is_authority(&authority) {
            return Err(fail("its host is not HOST or HOST:PORT"));
        }
        check_query(query).map_err(|(reason, hint)| UrlError { hint, ..fail(reason) })?;
        let made = |path| {
            let (token_name, query) = (token_name.clone(), query.to_owned());
            Self { scheme: kind, shown, token_name, authority, path, query }
        };
        match decode_path(&path) {
            Ok(path) => Ok(made(path)),
            Err(reason) => {
                let mut error = fail(&reason.to_string());
                let single = without_repeated_slashes(&path);
                if let Ok(meant) = decode_path(&single).map(made) {
                    error.hint = format!("write `{meant}`, with one `/` between names");
                }
                Err(error)
            }
        }
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// `HOST[:PORT]`: of a federation its discovery host; empty for a file.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// HTCondor's name of the token to use, as in `NAME+osdf://`.
    #[must_use]
    pub fn token_name(&self) -> Option<&str> {
        self.token_name.as_deref()
    }

    /// The path, decoded; `/` alone for the root, else without a `/` at its end.
    #[must_use]
    pub fn path(&self) -> &str {
        if self.path.is_empty() { "/" } else { &self.path }
    }

    /// The path as a request carries it, percent-encoded.
    #[must_use]
    pub fn request_path(&self) -> String {
        encode_path(self.path())
    }

    /// The query without `?`, empty when there is none.
    #[must_use]
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Returns whether the query asks for the origin instead of a cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.query.split('&').any(|part| part == "directread")
    }

    /// Returns the URL of the same object, to be read from its origin.
    #[must_use]
    pub fn direct(&self) -> Self {
        Self { query: "directread".to_owned(), ..self.clone() }
    }

    /// The last segment of the path; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the URL of the object at the relative path `below`; `None` if that is not a relative
    /// path, or leaves this collection.
    #[must_use]
    pub fn join(&self, below: &str) -> Option<Self> {
        let sound = !below.is_empty() && below.split('/').all(is_segment);
        sound.then(|| Self { path: format!("{}/{below}", self.path), ..self.clone() })
    }

    /// Returns the name that replaces this burned name at attempt `number`.
    #[must_use]
    pub fn renamed(&self, number: u32) -> Self {
        Self { path: format!("{}~{number}", self.path), ..self.clone() }
    }

    /// Returns the name itself, and then the names that replace it, one after another.
    pub fn names(&self) -> impl Iterator<Item = Self> {
        let others = (1..=MAX_RENAMES).map(|number| self.renamed(number));
        std::iter::once(self.clone()).chain(others)
    }

    /// Returns the collection that contains this object; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (parent, _) = self.path.rsplit_once('/')?;
        Some(Self { path: parent.to_owned(), ..self.clone() })
    }
}

impl std::str::FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.token_name {
            write!(f, "{name}+")?;
        }
        let host =
            if matches!(self.shown.as_str(), "osdf" | "stash") { "" } else { &self.authority };
        write!(f, "{}://{host}{}", self.shown, self.path())?;
        // Alone, as a `?` of a path would begin the query too early.
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        f.write_str(&mask_url(&query))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Masks a server's words, which may contain paths with queries.
pub(crate) fn mask_words(text: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_end();
        [&mask_url(bare), word.get(bare.len()..).unwrap_or_default()].concat()
    };
    text.split_inclusive(char::is_whitespace).map(word).collect()
}

/// Percent-encodes a decoded path, except `/` and the characters that RFC 3986 calls unreserved.
#[must_use]
pub fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Decodes percent-encoding; `None` when it is cut or not UTF-8.
#[must_use]
pub fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let (high, low) = (bytes.next()?, bytes.next()?);
            let digit = |b: u8| char::from(b).to_digit(16);
            out.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

/// Why a path cannot be that of an object.
#[derive(Debug, thiserror::Error)]
enum PathFault {
    #[error("its percent-encoding is cut short, or not UTF-8")]
    Encoding,
    #[error("its path contains the part `{}`", _0.escape_debug())]
    Part(String),
}

fn decode_path(path: &str) -> Result<String, PathFault> {
    let decoded = percent_decode(path).ok_or(PathFault::Encoding)?;
    let trimmed = decoded.trim_end_matches('/');
    let mut segments = trimmed.split('/');
    // The part before the first `/` is empty, since a path starts with one.
    let _ = segments.next();
    match segments.find(|segment| !is_segment(segment)) {
        Some(segment) => Err(PathFault::Part(segment.to_owned())),
        None => Ok(trimmed.to_owned()),
    }
}

/// Returns whether `segment` can be one name in a path. Servers cut names at `?` even when it is
/// encoded, and a listing is XML, which cannot contain some characters.
#[must_use]
pub fn is_segment(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..")
        && !segment.contains(|c: char| {
            c.is_control() || matches!(c, '?' | '#' | '\\' | '/' | '\u{fffe}' | '\u{ffff}')
        })
}

fn is_token_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

pub(crate) fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, rest)) => {
            let sound = v6.parse::<std::net::Ipv6Addr>().is_ok();
            (
                if sound { "v6" } else { "" },
                rest.strip_prefix(':').or((!rest.is_empty()).then_some("x")),
            )
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    !host.is_empty()
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-".contains(&b))
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn without_repeated_slashes(path: &str) -> String {
    let names = path.split('/').filter(|name| !name.is_empty());
    names.map(|name| format!("/{name}")).collect()
}

/// Checks a query. The error has the reason, and what the user can do next.
fn check_query(query: &str) -> Result<(), (&'static str, String)> {
    let has = |name: &str| {
        query.split('&').any(|part| part.split_once('=').map_or(part, |(n, _)| n) == name)
    };
    if has("directread") && has("prefercached") {
        let reason = "it has both `directread` and `prefercached`; only one of them is possible";
        return Err((reason, "leave out one of them".to_owned()));
    }
    if has("recursive") {
        let reason = "it has the option `recursive`, which only the Pelican client knows";
        return Err((reason, "leave it out, and transfer the collection recursively".to_owned()));
    }
    if has("pack") {
        let reason = "it has the option `pack`, which only the Pelican client knows";
        return Err((
            reason,
            "leave it out, and unpack the archive after it was fetched".to_owned(),
        ));
    }
    if query.bytes().any(|b| !b.is_ascii_graphic()) {
        return Err(("its query has characters that a request cannot carry", URL_HINT.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, scheme: Scheme, authority: &str, path: &str) {
        let url = Url::parse(text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            (url.scheme(), url.authority(), url.path()),
            (scheme, authority, path),
            "{text}"
        );
        let again = Url::parse(&url.to_string()).unwrap();
        assert_eq!((again.authority(), again.path()), (authority, path), "{url}");
    }

    #[test]
    fn schemes_hosts_and_paths() {
        check("pelican://h.example/ns/a", Scheme::Pelican, "h.example", "/ns/a");
        check("PELICAN://H.example:8444/ns/a/", Scheme::Pelican, "h.example:8444", "/ns/a");
        check("osdf:///ns/a", Scheme::Pelican, "osg-htc.org", "/ns/a");
        check("osdf://ns/a", Scheme::Pelican, "osg-htc.org", "/ns/a");
        check("stash:///ns/a?directread", Scheme::Pelican, "osg-htc.org", "/ns/a");
        check("my.token_1+osdf:///ns/a", Scheme::Pelican, "osg-htc.org", "/ns/a");
        check("https://h:8443/a", Scheme::Https, "h:8443", "/a");
        check("http://[::1]:80/a", Scheme::Http, "[::1]:80", "/a");
        check("file:///data/a", Scheme::File, "", "/data/a");
        check("pelican://h", Scheme::Pelican, "h", "/");
        assert_eq!(Url::parse("x.y+osdf:///a").unwrap().token_name(), Some("x.y"));
    }

    #[test]
    fn texts_that_are_no_url_are_refused() {
        for text in [
            "",
            "/ns/a",
            "ftp://h/a",
            "pelican:///ns/a",
            "pelican://h/../a",
            "pelican://h/a//b",
            "pelican://h/a/%2e%2e/b",
            "pelican://h/a%00",
            "pelican://h/a%3Fb",
            "pelican://h/a%4",
            "pelican://h/a%ff",
            "pelican://user@h/a",
            "pelican://h:0/a",
            "pelican://h:99999/a",
            "pelican://[::1/a",
            "pelican://[::1]x/a",
            "pelican://h/a#b",
            "file://host/a",
            "a/b+osdf:///a",
            ".+osdf:///a",
            "pelican://h/a?directread&prefercached",
            "pelican://h/a?pack=zip",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_people_write_instead_is_answered_with_what_to_write() {
        let check = |text: &str, part: &str| {
            let error = Url::parse(text).unwrap_err();
            assert!(error.hint().contains(part), "{text}: {}", error.hint());
        };
        check("osdf:////ospool/uw/x", "`osdf:///ospool/uw/x`");
        check("pelican://h/pub//a%20b?directread", "`pelican://h/pub/a b?directread`");
        check("pelican://h/pub//x?authz=secret", "`pelican://h/pub/x?authz=…`");
        check("osdf:///ospool/x?recursive", "recursively");
        check("osdf:///ospool/x.tar?pack=auto", "unpack");
        check("pelican://h/../a//b", URL_HINT);
        check("ospool/x", URL_HINT);
    }

    #[test]
    fn paths_are_decoded_and_encoded() {
        let url = Url::parse("pelican://h/ns/a%20b+c~1").unwrap();
        assert_eq!(url.path(), "/ns/a b+c~1");
        assert_eq!(url.request_path(), "/ns/a%20b%2Bc~1");
        assert_eq!(url.name(), "a b+c~1");
        assert_eq!(url.parent().unwrap().path(), "/ns");
        assert_eq!(url.parent().unwrap().join("x/y").unwrap().path(), "/ns/x/y");
        for bad in ["", "..", "a/../b", "/a", "a//b", "a?b"] {
            assert!(url.join(bad).is_none(), "{bad}");
        }
        assert!(Url::parse("pelican://h").unwrap().parent().is_none());
    }

    #[test]
    fn of_a_query_only_what_is_known_shows() {
        let shown = "https://h/a?directread&skipstat=true&prefercached=x&oss.asize=12";
        assert_eq!(mask_url(shown), shown);
        assert_eq!(mask_url("/a?oss.asize=12"), "/a?oss.asize=12");
        let text = "https://h/a?x=secret0&authz=secret1&access_token=secret2&secret3&sig=s?secret4\
                    &X-Amz-Signature=secret5&oss.asize=7&X-Amz-Credential=secret6#secret7";
        let expected = "https://h/a?x=…&authz=…&access_token=…&…&sig=…&X-Amz-Signature=…\
                        &oss.asize=7&X-Amz-Credential=…#…";
        assert_eq!(mask_url(text), expected);
        let url = Url::parse(text.split('#').next().unwrap()).unwrap();
        for shown in [url.to_string(), format!("{url:?}")] {
            assert_eq!(shown, expected.trim_end_matches("#…"));
        }
        // The query is sent unchanged.
        assert!(url.query().contains("secret6"));
        for bad in ["htps://h/a?authz=secret", "https://h/a?x=secret#y", "https://h/a?pack&secret"]
        {
            let error = Url::parse(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
        let error = Url::parse("https://me:secret@h/a").unwrap_err().to_string();
        assert!(error.contains("https://…@h/a") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn of_a_servers_words_no_query_shows() {
        check_words("no such file", "no such file");
        check_words("why? because", "why? because");
        check_words(
            "at  https://h/a?sig=secret\t`/x?secret` not",
            "at  https://h/a?sig=…\t`/x?… not",
        );
    }

    fn check_words(text: &str, expected: &str) {
        assert_eq!(mask_words(text), expected);
    }
}
