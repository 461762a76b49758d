//! Access rules: what a request may do, decided by its token, verb and name.

use std::sync::Arc;
use std::time::SystemTime;

use hyper::StatusCode;
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;

use super::issuer::Issuer;
use super::name::Name;
use super::reply::{Answer, refuse};
use gular_pelican::Action;
use gular_pelican::Token;
use gular_pelican::protocol::Claims;
use gular_pelican::protocol::below;
use gular_pelican::protocol::percent_decode;

/// Decides, by token, verb and name, whether a request is allowed.
pub(super) struct Guard {
    pub(super) issuer: Arc<Issuer>,
    pub(super) namespace: Name,
    pub(super) public_read: bool,
}

impl Guard {
    /// Returns the path of `name` in the namespace, and what the request's token allows.
    pub(super) fn admit(&self, parts: &Parts, name: &Name) -> Result<Admitted<'_>, Answer> {
        let path = name.below(&self.namespace).ok_or_else(|| {
            refuse(StatusCode::NOT_FOUND, "no such namespace here; its name begins the path")
        })?;
        let claims = match token(parts) {
            None => Err("this needs a token, and there is none"),
            Some(None) => Err("the authorization is not a bearer token"),
            Some(Some(token)) => self.issuer.check(&token, SystemTime::now()),
        };
        Ok(Admitted { guard: self, path, claims })
    }
}

/// A request's rights at one name.
pub(super) struct Admitted<'a> {
    guard: &'a Guard,
    /// The path below the namespace.
    path: String,
    claims: Result<Claims, &'static str>,
}

impl Admitted<'_> {
    /// Demands that one of `actions` is allowed.
    pub(super) fn demand(&self, actions: &[Action]) -> Result<(), Answer> {
        if self.guard.public_read && actions.contains(&Action::Read) {
            return Ok(());
        }
        let claims = self.claims.as_ref().map_err(|reason| {
            refuse(StatusCode::UNAUTHORIZED, reason).with("www-authenticate", "Bearer")
        })?;
        if actions.iter().any(|action| allows(claims, *action, &self.path)) {
            return Ok(());
        }
        let wanted: Vec<_> = actions.iter().map(|action| format!("`{}`", word(*action))).collect();
        Err(refuse(
            StatusCode::FORBIDDEN,
            &format!("the token has no scope {} for this path", wanted.join(" or ")),
        ))
    }
}

/// The request's token: of its header, or else of its query. The inner `None` is
/// something else in the token's place.
fn token(parts: &Parts) -> Option<Option<Token>> {
    let bearer = |text: &str| {
        let (scheme, rest) = text.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") { Token::parse(rest) } else { None }
    };
    if let Some(value) = parts.headers.get(AUTHORIZATION) {
        return Some(value.to_str().ok().and_then(bearer));
    }
    let query = parts.uri.query()?;
    let value = query.split('&').find_map(|part| part.strip_prefix("authz="))?;
    let text = percent_decode(value);
    Some(text.and_then(|text| bearer(&text).or_else(|| Token::parse(&text))))
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Read => "storage.read",
        Action::Create => "storage.create",
        Action::Modify => "storage.modify",
    }
}

/// Whether a scope covers `path`. A scope ends at a `/`, so `/sub` does not cover `/subx`.
fn allows(claims: &Claims, action: Action, path: &str) -> bool {
    claims.scopes.iter().any(|scope| match scope.split_once(':') {
        Some((name, base)) => name == word(action) && below(path, base).is_some(),
        None => false,
    })
}
