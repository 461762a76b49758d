//! Parses bytes as if servers had sent them, and asserts what must hold for any bytes. For fuzzers.

use std::time::SystemTime;

use crate::checksum::parse_digest;
use crate::director::{join, parse_answer, server_prefix};
use crate::listing::{Responses, Spelling};
use crate::retry::retry_after;
use crate::token::Claims;
use crate::url::{is_segment, mask_words};
use crate::{CollectionMember, Token};

/// A line of its own for the path asked for, then `name: value` for each header.
///
/// # Panics
/// When a source is not a plain URL of a server, or a prefix is not one.
pub fn director(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (path, lines) = text.split_once('\n').unwrap_or((&text, ""));
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: Vec<_> = lines.lines().filter_map(header).collect();
    let answer = parse_answer(&headers);
    assert!(answer.sources.len() <= 6);
    for source in &answer.sources {
        let plain = source.url.starts_with("http://") || source.url.starts_with("https://");
        assert!(plain && !source.url.contains(['?', '#']), "{}", source.url);
        if let Some(prefix) = server_prefix(source, path) {
            assert!(source.url.starts_with(&prefix));
            let below = answer.namespace.as_ref().and_then(|namespace| namespace.below(path));
            // A server's URL may have an empty segment, which `join` leaves out at the end.
            let joined = join(&prefix, below.unwrap_or_default());
            assert!(joined.starts_with(prefix.trim_end_matches('/')), "{joined}");
        }
    }
    for (_, value) in &headers {
        let _ = (parse_digest(value), mask_words(value));
        let wait = retry_after(value, Some(path), SystemTime::UNIX_EPOCH);
        assert!(wait.is_none_or(|wait| wait.as_secs() <= 3600));
    }
}

/// A line of its own for the path asked for, then the XML of a listing.
///
/// # Panics
/// When a member is not directly below the path, or two members are the same one.
pub fn listing(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (path, xml) = bytes.split_at_checked(end).unwrap_or_default();
    let path = String::from_utf8_lossy(path);
    let Ok(responses) = Responses::parse(xml, &path) else { return };
    if let Err(ambiguous) = responses.spelling() {
        assert!(is_segment(&ambiguous.name), "{ambiguous:?}");
    }
    for spelling in [Spelling::AsStored, Spelling::Encoded] {
        let Ok(found) = responses.read(spelling) else { continue };
        for member in &found.members {
            assert!(is_segment(&member.name), "{member:?}");
            assert!(member.path.ends_with(&format!("/{}", member.name)), "{member:?}");
        }
        let key = |member: &CollectionMember| (member.name.clone(), member.collection);
        assert!(found.members.is_sorted_by(|a, b| key(a) < key(b)), "{found:?}");
    }
}

/// A token, as a file holds it.
///
/// # Panics
/// When its text shows.
pub fn claims(bytes: &[u8]) {
    let Some(token) = Token::parse(&String::from_utf8_lossy(bytes)) else { return };
    let _ = Claims::decode(&token);
    assert!(!token.secret().is_empty() && format!("{token:?}") == "Token(…)");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(says: fn(&[u8]), seed: &str) {
        for end in 0..=seed.len() {
            says(&seed.as_bytes()[..end]);
        }
    }

    #[test]
    fn seeds_and_their_cuts_hold() {
        check(
            director,
            "/ns/d/x\nLink: <https://c1:8443/ns/d/x>; pri=1; depth=2, <https://c2/ns/d/x>\n\
             X-Pelican-Namespace: namespace=/ns, require-token=true\nRetry-After: 7\n\
             Digest: md5=XrY7u+Ae7tCTyyK7j1rNww==\nLocation: https://h/x?authz=secret\n",
        );
        check(
            listing,
            "/ns\n<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/ns/x</D:href>\
             </D:response></D:multistatus>",
        );
        check(claims, "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2EifQ.c2ln");
    }
}
