//! Secrets in URLs: a user's name and password, and values in a query.

use super::{Hit, Secret};

/// The parts of a query that are shown. All others may be secrets: `authz`, a cloud store's
/// signature, a service's key.
const SHOWN_KEYS: [&str; 4] = ["directread", "prefercached", "skipstat", "oss.asize"];

/// Names whose values are secrets wherever they are written, in lower case: those of RFC 6749 and
/// OpenID Connect, of XRootD (`authz`), of signed URLs of S3 and Google Cloud, and of settings.
const SECRET_NAMES: [&str; 16] = [
    "access_token",
    "authz",
    "aws_secret_access_key",
    "aws_session_token",
    "client_secret",
    "id_token",
    "passwd",
    "password",
    "private_token",
    "refresh_token",
    "x-amz-credential",
    "x-amz-security-token",
    "x-amz-signature",
    "x-goog-credential",
    "x-goog-signature",
    "x-oss-security-token",
];

/// Names of secrets in a query; elsewhere they are also names of other things.
const QUERY_NAMES: [&str; 9] =
    ["api_key", "apikey", "auth", "key", "secret", "sig", "signature", "token", "sas"];

/// The algorithms before the digest in an image's name, `name@sha256:…`.
const DIGESTS: [&str; 2] = ["sha256:", "sha512:"];

/// The beginnings of URLs that a path may have been made of.
const SCHEMES: [&str; 4] = ["http:/", "https:/", "osdf:/", "pelican:/"];

pub(super) fn is_secret_name(word: &str) -> bool {
    SECRET_NAMES.iter().any(|name| word.eq_ignore_ascii_case(name))
}

/// Finds the secrets in the URLs of a word, which begins at `start` of its text. If `is_url` is
/// set, all of it is a URL or a path with a query.
pub(super) fn find(word: &str, start: usize, is_url: bool, hits: &mut Vec<Hit>) {
    if !word.contains(['@', '?', '=']) {
        return;
    }
    let mut rest = 0;
    while let Some(at) = word.get(rest..).and_then(|text| text.find("://")) {
        let begin = rest + at + 3;
        user(word.get(begin..).unwrap_or_default(), start + begin, hits);
        rest = begin;
    }
    // A URL that was taken for a path has one slash there.
    for scheme in SCHEMES {
        let found = word.match_indices(scheme).map(|(at, scheme)| at + scheme.len());
        for begin in found {
            let after = word.get(begin..).unwrap_or_default();
            let authority = after.split('/').next().unwrap_or_default();
            if authority.contains('@') {
                user(authority, start + begin, hits);
                rest = rest.max(begin);
            }
        }
    }
    if rest == 0 {
        bare_user(word, start, hits);
    }
    // Without a `=` it may be a pattern of file names: `/data/?.jpg`.
    let is_path = || word.trim_start_matches(['(', '[', '{']).starts_with('/');
    let has_value = || word.split_once('?').is_some_and(|(_, query)| query.contains('='));
    if rest > 0 || is_url || (is_path() && has_value()) {
        query(word, start, hits);
    }
    named(word, start, hits);
}

/// The name and password in `user:password@host/path`.
fn user(rest: &str, start: usize, hits: &mut Vec<Hit>) {
    let authority = rest.split('/').next().unwrap_or_default();
    let Some((user, host)) = authority.rsplit_once('@') else {
        return password_with_slash(rest, authority, start, hits);
    };
    if user.is_empty() || DIGESTS.iter().any(|digest| host.starts_with(digest)) {
        return;
    }
    let password = user.split_once(':').is_some_and(|(_, password)| !password.is_empty());
    let kind = if password { Secret::Password } else { Secret::Url };
    hits.push(Hit { range: start..start + user.len(), kind });
}

/// The name and password where the password has a `/`: `user:pass/word@host`.
fn password_with_slash(rest: &str, before: &str, start: usize, hits: &mut Vec<Hit>) {
    let Some((_, password)) = before.split_once(':') else { return };
    let is_port = !password.is_empty() && password.bytes().all(|byte| byte.is_ascii_digit());
    // `[` begins an address of IPv6.
    if is_port || before.starts_with('[') {
        return;
    }
    let is_digest = |host: &str| DIGESTS.iter().any(|digest| host.starts_with(digest));
    let mut ends = rest.rmatch_indices('@').map(|(at, _)| at);
    if let Some(len) = ends.find(|at| !rest.get(at + 1..).is_some_and(is_digest)) {
        hits.push(Hit { range: start..start + len, kind: Secret::Password });
    }
}

/// `user:password@host` without a scheme, as people write proxies.
fn bare_user(word: &str, start: usize, hits: &mut Vec<Hit>) {
    let Some((user, host)) = word.rsplit_once('@') else { return };
    let Some((name, password)) = user.split_once(':') else { return };
    // Not a signal and its time: `B:USR1@60`.
    let is_host = host.contains('.') || host.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_image = DIGESTS.iter().any(|digest| host.starts_with(digest));
    let is_mail = name.eq_ignore_ascii_case("mailto");
    if is_host
        && !is_image
        && !is_mail
        && !user.contains('/')
        && !name.is_empty()
        && !password.is_empty()
    {
        hits.push(Hit { range: start..start + user.len(), kind: Secret::Url });
    }
}

/// The values in a query, except those of [`SHOWN_KEYS`], and what follows `#` after a query,
/// except a bundle's digest.
fn query(word: &str, start: usize, hits: &mut Vec<Hit>) {
    let Some((place, rest)) = word.split_once('?') else { return };
    let (query, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    if !fragment.is_empty() && !fragment.starts_with("blake3=") {
        let end = start + word.len();
        hits.push(Hit { range: end - fragment.len()..end, kind: Secret::Url });
    }
    let mut at = start + place.len() + 1;
    for part in query.split('&') {
        let (key, value_at) = match part.split_once('=') {
            Some((key, _)) => (key, at + key.len() + 1),
            None => (part, at),
        };
        let end = at + part.len();
        if !SHOWN_KEYS.contains(&key) && value_at < end && part != "…" {
            hits.push(Hit { range: value_at..end, kind: Secret::Url });
        }
        at = end + 1;
    }
}

/// The values of names of secrets: `access_token=…` anywhere, `sig=…` in a query.
fn named(word: &str, start: usize, hits: &mut Vec<Hit>) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut query = false;
    let mut at = 0;
    for part in word.split_inclusive(['?', '&', ';', '#', ',']) {
        if let Some((before, _)) = part.split_once('=') {
            let from = at + before.len() + 1;
            let rest = word.get(from..).unwrap_or_default();
            let name = before.rsplit(|c| !is_name(c)).next().unwrap_or_default();
            let name = name.trim_start_matches('-');
            let secret = is_secret_name(name)
                || query && QUERY_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
            let len = value_len(rest);
            // A variable of the shell or a placeholder is not a value.
            if secret && len > 0 && !rest.starts_with(['$', '{', '…', '[']) {
                let range = start + from..start + from + len;
                hits.push(Hit { range, kind: Secret::Named });
            }
        }
        query |= part.ends_with(['?', '&']);
        at += part.len();
    }
}

/// The length of the value at the beginning of `text`. A `,` or `;` belongs to it, unless another
/// name and its value follow.
fn value_len(text: &str) -> usize {
    let ends = |(at, c): &(usize, char)| match c {
        '?' | '&' | '#' => true,
        ',' | ';' => text.get(at + 1..).is_some_and(begins_with_pair),
        _ => false,
    };
    let len = text.char_indices().find(ends).map_or(text.len(), |(at, _)| at);
    text.get(..len).unwrap_or_default().trim_end_matches([',', ';']).len()
}

/// Whether `text` begins with `name=value`; base64 may have `=` at its end.
fn begins_with_pair(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, value)| {
        let is_name =
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        is_name && !name.is_empty() && value.starts_with(|c| !"=,;?&#".contains(c))
    })
}
