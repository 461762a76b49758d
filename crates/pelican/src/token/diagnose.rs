//! Finds out why a server would refuse a token. XRootD answers every fault with the same 403, so
//! the reason is worked out here from the token's claims.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::claims::{Claims, Profile};
use super::{Found, Want};
use crate::director::Namespace;
use crate::path::below;

/// Directors take a token that ends sooner for one that has ended.
const LEAST_LEFT: Duration = Duration::from_secs(10);

/// The audiences that every server takes: WLCG's and SciTokens'.
const ANY_AUDIENCE: [&str; 2] = ["https://wlcg.cern.ch/jwt/v1/any", "ANY"];

/// The most characters of a claim that are shown; usual claims have a few dozen.
const MAX_SHOWN_CHARS: usize = 200;

/// The action that a token must allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Reading or listing.
    Read,
    /// Writing under a new name.
    Create,
    /// Overwriting or deleting.
    Modify,
}

/// Why a server would refuse a token, or why it should accept it. Shows where the token is from and
/// claims that no server keeps secret; never the token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diagnosis {
    /// There is no token.
    NoToken {
        /// Where tokens were searched for, and what was found instead.
        looked: Vec<String>,
        /// Whether a variable for a token holds a path, or the reverse.
        misplaced: bool,
    },
    /// The token has expired, or will expire before a server has checked it.
    Expired {
        /// Where the token is from.
        from: String,
        /// How long ago it expired; zero if it is about to.
        ago: Duration,
    },
    /// The token is not valid yet.
    NotYetValid {
        /// Where the token is from.
        from: String,
        /// How long until it is valid.
        left: Duration,
    },
    /// The namespace does not trust the token's issuer.
    Issuer {
        /// Where the token is from.
        from: String,
        /// The issuer that the token names.
        found: Option<String>,
        /// The issuers that the namespace trusts.
        expected: Vec<String>,
    },
    /// The names of the token's scopes are not those of its profile.
    ScopeNames {
        /// Where the token is from.
        from: String,
        /// The token's scopes.
        found: Vec<String>,
        /// The token's profile.
        profile: &'static str,
        /// The scope that it would need.
        needed: String,
    },
    /// No scope allows the action.
    NoScope {
        /// Where the token is from.
        from: String,
        /// The action that was refused.
        action: Action,
        /// The token's scopes.
        found: Vec<String>,
        /// The scope that it would need.
        needed: String,
    },
    /// A scope's path repeats the path of the namespace, from which it counts.
    ScopeRepeatsBase {
        /// Where the token is from.
        from: String,
        /// The scope.
        found: String,
        /// The path to which the paths in scopes are relative.
        base: String,
        /// The scope that was meant.
        meant: String,
    },
    /// The scopes for the action are for other paths.
    ScopePath {
        /// Where the token is from.
        from: String,
        /// The scopes for the action.
        found: Vec<String>,
        /// The path to which their paths are relative.
        base: String,
        /// The scope that it would need.
        needed: String,
    },
    /// The token is for another audience, as far as can be told from here.
    Audience {
        /// Where the token is from.
        from: String,
        /// The token's audience; empty if it does not say.
        found: Vec<String>,
    },
    /// The token was found, not named by the user, and nothing shows that its recipient trusts the
    /// issuer, so it was not sent.
    Withheld {
        /// Where the token is from.
        from: String,
        /// The issuer that the token names.
        issuer: Option<String>,
        /// Whom the namespace trusts; empty when nobody says.
        trusted: Vec<String>,
    },
    /// Reading needs no token, as the director says, so none was sent.
    Public,
    /// Nothing wrong with the token was found.
    Unexplained {
        /// Where the token is from.
        from: String,
        /// Whether only the server can read the token.
        opaque: bool,
    },
}

/// Says what a server has against `found`, at `now`.
pub(crate) fn judge(found: &Found, want: &Want<'_>, now: SystemTime) -> Diagnosis {
    let from = found.from.clone();
    let Some(claims) = Claims::decode(&found.token) else {
        return Diagnosis::Unexplained { from, opaque: true };
    };
    judge_times(&claims, &from, now)
        .or_else(|| judge_issuer(&claims, &from, want.namespace))
        .or_else(|| judge_scopes(&claims, &from, want))
        .or_else(|| judge_audience(&claims, &from, want.namespace))
        .unwrap_or(Diagnosis::Unexplained { from, opaque: false })
}

fn judge_times(claims: &Claims, from: &str, now: SystemTime) -> Option<Diagnosis> {
    let from = from.to_owned();
    if let Some(expires) = claims.expires
        && expires.duration_since(now).unwrap_or_default() < LEAST_LEFT
    {
        return Some(Diagnosis::Expired {
            from,
            ago: now.duration_since(expires).unwrap_or_default(),
        });
    }
    let left = claims.not_before?.duration_since(now).ok().filter(|left| !left.is_zero())?;
    Some(Diagnosis::NotYetValid { from, left })
}

/// Why a token that was found, and not named by the user, is not sent; `None` where the
/// namespace trusts its issuer. Most tokens are good at any server that trusts their
/// issuer, so whoever else received one could use it there.
pub(crate) fn withheld(found: &Found, namespace: Option<&Namespace>) -> Option<Diagnosis> {
    let issuer = Claims::decode(&found.token).and_then(|claims| claims.issuer);
    let trusted = namespace.map_or(&[][..], |namespace| &namespace.issuers);
    if is_trusted(issuer.as_deref(), trusted) {
        return None;
    }
    let (from, trusted) = (found.from.clone(), trusted.to_vec());
    Some(Diagnosis::Withheld { from, issuer, trusted })
}

fn is_trusted(issuer: Option<&str>, trusted: &[String]) -> bool {
    let same = |a: &str, b: &str| a.trim_end_matches('/') == b.trim_end_matches('/');
    issuer.is_some_and(|issuer| trusted.iter().any(|trusted| same(trusted, issuer)))
}

fn judge_issuer(claims: &Claims, from: &str, namespace: Option<&Namespace>) -> Option<Diagnosis> {
    let expected = &namespace?.issuers;
    if expected.is_empty() || is_trusted(claims.issuer.as_deref(), expected) {
        return None;
    }
    Some(Diagnosis::Issuer {
        from: from.to_owned(),
        found: claims.issuer.clone(),
        expected: expected.clone(),
    })
}

/// The names of scopes that allow an action, the least first.
fn scope_names(action: Action, profile: Profile) -> &'static [&'static str] {
    match (action, profile) {
        (Action::Read, Profile::Wlcg) => &["storage.read", "storage.stage"],
        (Action::Read, Profile::SciTokens) => &["read"],
        (Action::Read, Profile::Unknown) => &["storage.read", "storage.stage", "read"],
        (Action::Create, Profile::Wlcg) => &["storage.create", "storage.modify"],
        (Action::Modify, Profile::Wlcg) => &["storage.modify"],
        (Action::Create | Action::Modify, Profile::SciTokens) => &["write"],
        (Action::Create, Profile::Unknown) => &["storage.create", "storage.modify", "write"],
        (Action::Modify, Profile::Unknown) => &["storage.modify", "write"],
    }
}

/// A scope's name and path; without one it is for all paths.
fn split_scope(scope: &str) -> (&str, &str) {
    scope.split_once(':').unwrap_or((scope, "/"))
}

fn judge_scopes(claims: &Claims, from: &str, want: &Want<'_>) -> Option<Diagnosis> {
    let from = from.to_owned();
    let named = |profile| {
        let names = scope_names(want.action, profile);
        claims.scopes.iter().filter(move |scope| names.contains(&split_scope(scope).0))
    };
    let base = Base::of(want);
    let least = scope_names(want.action, claims.profile).first().copied().unwrap_or_default();
    let needed = format!("{least}:/{}", base.object.unwrap_or_default());
    let mut fitting = named(claims.profile).peekable();
    if fitting.peek().is_none() {
        let found = claims.scopes.clone();
        let profile = match claims.profile {
            Profile::SciTokens => "SciTokens",
            Profile::Wlcg | Profile::Unknown => "WLCG",
        };
        return Some(if named(Profile::Unknown).next().is_some() {
            Diagnosis::ScopeNames { from, found, profile, needed }
        } else {
            Diagnosis::NoScope { from, action: want.action, found, needed }
        });
    }
    let found: Vec<String> = fitting.cloned().collect();
    judge_scope_paths(from, found, needed, want)
}

/// The path to which scopes are relative, and the object's path relative to it.
struct Base<'a> {
    path: &'a str,
    object: Option<&'a str>,
}

impl<'a> Base<'a> {
    /// The first base path that the object is below, else the namespace; without
    /// a namespace it is not known what paths count from.
    fn of(want: &Want<'a>) -> Self {
        let Some(namespace) = want.namespace else { return Self { path: "/", object: None } };
        let bases = namespace.base_paths.iter().chain([&namespace.prefix]);
        let mut bases = bases.map(|path| Self { path, object: below(want.path, path) });
        let none = Self { path: &namespace.prefix, object: None };
        bases.find(|base| base.object.is_some()).unwrap_or(none)
    }
}

fn judge_scope_paths(
    from: String,
    found: Vec<String>,
    needed: String,
    want: &Want<'_>,
) -> Option<Diagnosis> {
    let namespace = want.namespace?;
    // A token may count from any of the base paths.
    let objects: Vec<&str> =
        namespace.base_paths.iter().filter_map(|base| below(want.path, base)).collect();
    let base = Base::of(want);
    let objects = if objects.is_empty() { vec![base.object?] } else { objects };
    let covers = |scope: &String| {
        let path = split_scope(scope).1;
        objects.iter().any(|object| below(object, path).is_some())
    };
    if found.iter().any(covers) {
        return None;
    }
    let repeats = found.iter().find_map(|scope| {
        let (name, path) = split_scope(scope);
        let meant = below(path, base.path).filter(|_| below(want.path, path).is_some())?;
        Some((scope.clone(), format!("{name}:/{meant}")))
    });
    let base = base.path.to_owned();
    Some(match repeats {
        Some((found, meant)) => Diagnosis::ScopeRepeatsBase { from, found, base, meant },
        None => Diagnosis::ScopePath { from, found, base, needed },
    })
}

fn judge_audience(claims: &Claims, from: &str, namespace: Option<&Namespace>) -> Option<Diagnosis> {
    // Servers' own audiences are not told; that of the one that lists is its URL.
    let server = namespace.and_then(|namespace| namespace.collections_url.as_deref());
    let host = server.and_then(|url| url.split_once("://")).map(|(_, host)| host);
    let known = |audience: &String| {
        let audience = audience.trim_end_matches('/');
        ANY_AUDIENCE.contains(&audience) || server == Some(audience) || host == Some(audience)
    };
    let needs_none = claims.audience.is_empty() && claims.profile == Profile::Unknown;
    if needs_none || claims.audience.iter().any(known) {
        return None;
    }
    Some(Diagnosis::Audience { from: from.to_owned(), found: claims.audience.clone() })
}

impl Diagnosis {
    /// How serious the token's fault is: 0 there is none, 1 a doubt, 2 it has expired, which a new
    /// token in its place repairs, 3 any other fault.
    pub(crate) fn weight(&self) -> u8 {
        match self {
            Self::Unexplained { .. } | Self::Public => 0,
            Self::Audience { .. } => 1,
            Self::Expired { .. } => 2,
            _ => 3,
        }
    }

    /// Whether what the token lacks is a scope for the action and path.
    pub(crate) fn is_scope(&self) -> bool {
        matches!(
            self,
            Self::ScopeNames { .. }
                | Self::NoScope { .. }
                | Self::ScopeRepeatsBase { .. }
                | Self::ScopePath { .. }
        )
    }

    /// What the user can do next, with the command that gets a token for the refused URL if
    /// another token is needed.
    pub(crate) fn hint_for(&self, action: &str, url: &str) -> String {
        let new = matches!(
            self,
            Self::NoToken { .. }
                | Self::Expired { .. }
                | Self::Issuer { .. }
                | Self::NoScope { .. }
                | Self::ScopePath { .. }
        );
        // Only federations have issuers that Pelican's client knows how to ask.
        let own = ["http://", "https://", "file://"].iter().any(|scheme| url.starts_with(scheme));
        if !new || own || matches!(self, Self::NoToken { misplaced: true, .. }) {
            return self.hint().to_owned();
        }
        let object = url.split('?').next().unwrap_or(url);
        // Pelican asks for a token for the folder above the path that it is given: of a
        // bundle's NAME/data, or NAME/VERSION, that is NAME, which holds all of it.
        let collection = object.rsplit_once('/').map_or(object, |(above, _)| above);
        let verb = if action == "write" { "write" } else { "read" };
        let beside = match self {
            Self::NoScope { .. } => {
                "; several tokens can be given, and each request gets the first that allows it"
            }
            _ => "",
        };
        format!(
            "get a token with `pelican credentials token get {verb} {collection}`, write it to a \
            file, and set BEARER_TOKEN_FILE to that file{beside}"
        )
    }

    /// Whether the token has expired, so that its source may write a new one to the same file.
    pub(crate) fn is_expired(&self) -> bool {
        matches!(self, Self::Expired { from, .. } if from.starts_with("file "))
    }

    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoToken { misplaced: true, .. } => {
                "set `BEARER_TOKEN_FILE` to the path of a file with a token, or `BEARER_TOKEN` to the token itself"
            }
            Self::NoToken { .. } => {
                "get a token from the server's operators, and set `BEARER_TOKEN_FILE` to its file"
            }
            Self::Expired { .. } => "get a new token",
            Self::NotYetValid { .. } => {
                "wait until the token is valid, or correct this machine's clock"
            }
            Self::Issuer { .. } => "get a token from an issuer that the namespace trusts",
            Self::ScopeNames { .. } => {
                "get a token with scopes of its own kind: WLCG tokens have `storage.read`, \
                `storage.create` and `storage.modify`; SciTokens have `read` and `write`"
            }
            Self::NoScope { .. } => "get a token with that scope",
            Self::ScopeRepeatsBase { .. } => {
                "get a token whose scope has a path without the namespace: the path is relative to the namespace"
            }
            Self::ScopePath { .. } => "get a token whose scope covers the path",
            Self::Audience { .. } => {
                "get a token with the audience `https://wlcg.cern.ch/jwt/v1/any` (WLCG) or `ANY` \
                 (SciTokens), or with the server's own"
            }
            Self::Withheld { .. } => {
                "get a token from an issuer that the namespace trusts; to send this token anyway, give its file explicitly"
            }
            Self::Public => {
                "the server is at fault: tell its operators. To read from the origin, add `?directread` to the URL"
            }
            Self::Unexplained { opaque: true, .. } => {
                "ask the token's issuer whether the token is still valid"
            }
            Self::Unexplained { opaque: false, .. } => {
                "ask the server's operators: the server may not know the issuer's keys, or may deny this path for other reasons"
            }
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "reading",
            Self::Create => "creating",
            Self::Modify => "overwriting or deleting",
        })
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoToken { looked, .. } => {
                write!(f, "no token was found; looked in {}", looked.join(", "))
            }
            Self::Expired { from, ago } if ago.is_zero() => {
                write!(f, "the token from {from} expires within {} s", LEAST_LEFT.as_secs())
            }
            Self::Expired { from, ago } => {
                write!(f, "the token from {from} expired {} ago", Span(*ago))
            }
            Self::NotYetValid { from, left } => {
                write!(f, "the token from {from} is not valid for another {}", Span(*left))
            }
            Self::Issuer { from, found, expected } => {
                let found = found.as_slice();
                let (found, expected) = (List(found, "nobody"), List(expected, "nobody"));
                write!(
                    f,
                    "the token from {from} is issued by {found}, the namespace trusts {expected}"
                )
            }
            Self::ScopeNames { from, found, profile, needed } => {
                let (found, needed) = (List(found, "none"), Shown(needed));
                write!(
                    f,
                    "the token from {from} is a {profile} token and needs {needed}, but has the scopes {found}"
                )
            }
            Self::NoScope { from, action, found, needed } => {
                let (found, needed) = (List(found, "none"), Shown(needed));
                write!(
                    f,
                    "the token from {from} has no scope for {action}: expected {needed}, found {found}"
                )
            }
            Self::ScopeRepeatsBase { from, found, base, meant } => {
                let (found, base, meant) = (Shown(found), Shown(base), Shown(meant));
                write!(
                    f,
                    "the token from {from} has the scope {found}, but a scope's path is relative to {base}: expected {meant}"
                )
            }
            Self::ScopePath { from, found, base, needed } => {
                let (found, base, needed) = (List(found, "none"), Shown(base), Shown(needed));
                write!(
                    f,
                    "the token from {from} does not cover the path: expected {needed} (relative to {base}), found {found}"
                )
            }
            Self::Audience { from, found } => {
                let found = List(found, "no audience");
                write!(
                    f,
                    "the token from {from} is meant for {found}, which may not be this server"
                )
            }
            Self::Withheld { from, issuer, trusted } => {
                write!(f, "the token from {from} was not sent: ")?;
                let trusts = List(trusted, "nobody");
                match issuer {
                    _ if trusted.is_empty() => {
                        f.write_str("it is not known whether its issuer is trusted there")
                    }
                    None => {
                        write!(
                            f,
                            "it does not say who issued it, but the namespace trusts only {trusts}"
                        )
                    }
                    Some(issuer) => {
                        write!(
                            f,
                            "it was issued by {}, but the namespace trusts only {trusts}",
                            Shown(issuer)
                        )
                    }
                }
            }
            Self::Public => {
                f.write_str("reading from this namespace needs no token, so none was sent")
            }
            Self::Unexplained { from, opaque: true } => {
                write!(
                    f,
                    "the server refused the token from {from}; this token is opaque: it does not show its scopes or when it expires"
                )
            }
            Self::Unexplained { from, opaque: false } => write!(
                f,
                "the server refused the token from {from}, although its times, issuer, scopes and audience are right"
            ),
        }
    }
}

/// A claim in backticks, on one line and cut when long.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = self.0.char_indices().nth(MAX_SHOWN_CHARS).and_then(|(at, _)| self.0.get(..at));
        let end = if cut.is_some() { "…" } else { "" };
        write!(f, "`{}{end}`", cut.unwrap_or(self.0).escape_debug())
    }
}

/// Claims with commas between, or the word for none.
struct List<'a>(&'a [String], &'static str);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_ITEMS: usize = 8;
        for (at, item) in self.0.iter().take(MAX_ITEMS).enumerate() {
            write!(f, "{}{}", if at > 0 { ", " } else { "" }, Shown(item))?;
        }
        match self.0.len() {
            0 => f.write_str(self.1),
            n if n > MAX_ITEMS => write!(f, " and {} more", n - MAX_ITEMS),
            _ => Ok(()),
        }
    }
}

/// A time span in its largest fitting unit.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs().max(1) {
            s @ 0..120 => write!(f, "{s} s"),
            s @ 120..7200 => write!(f, "{} min", s / 60),
            s @ 7200..172_800 => write!(f, "{} h", s / 3600),
            s => write!(f, "{} days", s / 86400),
        }
    }
}

#[cfg(test)]
mod tests;
