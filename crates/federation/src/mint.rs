//! Issues tokens for a running federation.

use std::path::Path;
use std::time::{Duration, SystemTime};

use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::json;

use super::Error;
use super::folder::Folder;
use super::issuer::{AUDIENCE, Issuer};
use super::name::Name;
use gular_pelican::Token;
use gular_pelican::protocol::is_segment;

/// The longest lifetime of a token.
// An hour: enough for a lesson, and soon worthless in a shell's history.
pub const MAX_LIFETIME: Duration = Duration::from_secs(3600);

/// The actions that a token should allow, each with paths of the namespace (`/` for all of it).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// Paths below which it may read and list.
    pub read: Vec<String>,
    /// Paths below which it may write under new names.
    pub create: Vec<String>,
    /// Paths below which it may write under any name, and delete.
    pub modify: Vec<String>,
    /// How long the token is valid from now on; at most [`MAX_LIFETIME`].
    pub lifetime: Duration,
}

impl Default for TokenRequest {
    /// Returns a request that allows nothing, for half an hour.
    fn default() -> Self {
        let lifetime = Duration::from_secs(1800);
        Self { read: Vec::new(), create: Vec::new(), modify: Vec::new(), lifetime }
    }
}

/// Makes a token for the federation that serves `dir`.
///
/// # Errors
/// [`Error::NotServed`] when none does, [`Error::Starting`] when one is about to; [`Error::Scope`], [`Error::NoScope`] and
/// [`Error::Lifetime`] when there can be no such token; [`Error::Io`] and
/// [`Error::Damaged`] when the folder cannot be read.
pub fn mint(dir: &Path, request: &TokenRequest) -> Result<Token, Error> {
    if !(Duration::from_secs(1)..=MAX_LIFETIME).contains(&request.lifetime) {
        return Err(Error::Lifetime { lifetime: request.lifetime, limit: MAX_LIFETIME });
    }
    let scope = scope(request)?;
    let path = || dir.to_owned();
    if !dir.exists() {
        return Err(Error::NotServed { path: path() });
    }
    let folder = Folder::open(dir)?;
    if !folder.is_served()? {
        return Err(Error::NotServed { path: path() });
    }
    let state = folder.read_state()?.ok_or_else(|| Error::Starting { path: path() })?;
    let failed = |reason: &str| Error::Make { what: "a token", reason: reason.to_owned() };
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_err(|_| failed("the clock is before 1970"))?
        .as_secs();
    let mut id = [0_u8; 16];
    SystemRandom::new().fill(&mut id).map_err(|_| failed("the system gave no random numbers"))?;
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Issuer::open(&folder, state.issuer.clone())?.sign(&json!({
        "wlcg.ver": "1.0", "iss": state.issuer, "sub": "development", "aud": AUDIENCE,
        "iat": now, "nbf": now, "exp": now + request.lifetime.as_secs(),
        "scope": scope, "jti": id,
    }))
}

fn scope(request: &TokenRequest) -> Result<String, Error> {
    let mut words = Vec::new();
    for (action, paths) in
        [("read", &request.read), ("create", &request.create), ("modify", &request.modify)]
    {
        for path in paths {
            words.push(format!("storage.{action}:{}", scope_path(path)?));
        }
    }
    if words.is_empty() { Err(Error::NoScope) } else { Ok(words.join(" ")) }
}

/// The path as tokens have it: one `/` in front, none at the end.
fn scope_path(path: &str) -> Result<String, Error> {
    let bad = |reason| Error::Scope { path: path.to_owned(), reason };
    if path.contains(char::is_whitespace) {
        return Err(bad("a token's scopes are separated by spaces"));
    }
    let trimmed = path.trim_matches('/');
    if !trimmed.is_empty() && !trimmed.split('/').all(is_segment) {
        return Err(bad(
            "it has an empty segment, a segment `.` or `..`, or a character that is not allowed",
        ));
    }
    // Names are decoded before they are compared, and so a `%` would stand for itself.
    Name::parse(&format!("/{}", trimmed.replace('%', "%25")))
        .map(|_| format!("/{trimmed}"))
        .ok_or_else(|| bad("it is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_plain_paths() {
        let request = TokenRequest {
            read: vec!["/".into(), "a/b/".into()],
            create: vec!["/c".into()],
            ..TokenRequest::default()
        };
        assert_eq!(scope(&request).unwrap(), "storage.read:/ storage.read:/a/b storage.create:/c");
        for bad in ["a b", "../x", "/a//b", "a/./b", "a\nb", "a\u{a0}b", &"a".repeat(300)] {
            assert!(matches!(scope_path(bad), Err(Error::Scope { .. })), "{bad}");
        }
        assert!(matches!(scope(&TokenRequest::default()), Err(Error::NoScope)));
    }
}
