//! Discovery, director and registry: they tell clients where objects are, and serve none themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use serde_json::json;

use super::counters::Counters;
use super::issuer::Issuer;
use super::name::Name;
use super::reply::{self, Answer, done};
use super::serve::{Handler, drain};

/// A failure that the director simulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The director works.
    None,
    /// The director was restarted, and knows no server yet: 429.
    Restarted,
    /// No origin has reported to the director for a while: 404 for all objects.
    NoOrigins,
    /// Nobody answers, discovery included; for good.
    Down,
}

/// The path at which anybody can read the counts of requests. No real federation has it.
const COUNTS_PATH: &str = "/.well-known/gular-counts";

/// The path at which the registry of a federation lists the namespaces.
const NAMESPACES_PATH: &str = "/api/v1.0/registry_ui/namespaces";

/// The director, which redirects clients.
pub(super) struct Director {
    /// The director's URL, `https://localhost:PORT`.
    pub(super) url: String,
    pub(super) namespace: Name,
    pub(super) origin: String,
    /// The caches, the nearest first; if there are none, the origin takes their place.
    pub(super) caches: Vec<String>,
    /// Whether clients are told that reading takes a token.
    pub(super) require_token: bool,
    /// The issuer that clients are told to get tokens from, if any.
    pub(super) advertised_issuer: Option<String>,
    pub(super) issuer: Arc<Issuer>,
    pub(super) counters: Arc<Counters>,
    /// The current [`Trouble`], as a number.
    pub(super) trouble: Arc<AtomicU8>,
}

impl Handler for Director {
    // The client in Go takes an answer without this for that of a proxy.
    const SERVER: &'static str =
        concat!("pelican/7.99.0 gular-development/", env!("CARGO_PKG_VERSION"));

    async fn handle(&self, request: Request<Incoming>) -> Answer {
        let (parts, mut body) = request.into_parts();
        let answer = self.answer(&parts);
        drain(&parts, &mut body).await;
        answer
    }
}

impl Director {
    fn answer(&self, parts: &Parts) -> Answer {
        let method = parts.method.as_str();
        let path = parts.uri.path();
        if matches!(method, "GET" | "HEAD") {
            match path {
                "/.well-known/pelican-configuration" => return self.discovery(),
                "/.well-known/openid-configuration" => {
                    return reply::json(StatusCode::OK, &self.issuer.configuration());
                }
                "/.well-known/issuer.jwks" => {
                    return reply::json(StatusCode::OK, &self.issuer.keys());
                }
                NAMESPACES_PATH => {
                    let own = json!([{"id": 1, "prefix": self.namespace.text()}]);
                    return reply::json(StatusCode::OK, &own);
                }
                COUNTS_PATH => return reply::json(StatusCode::OK, &json!(self.counters.counts())),
                _ => {}
            }
        }
        self.counters.director_queries.add();
        let trouble = self.trouble.load(Ordering::Relaxed);
        // The messages are those of Pelican 7.
        if trouble == Trouble::Restarted as u8 {
            return fail(
                StatusCode::TOO_MANY_REQUESTS,
                "the director was restarted, and origins and caches have not reported yet",
            );
        }
        if trouble == Trouble::NoOrigins as u8 {
            let message = "No sources found for the requested path: no origins found for it";
            return fail(StatusCode::NOT_FOUND, message);
        }
        let query = parts.uri.query().unwrap_or_default();
        let (path, asks_origin) = match path.strip_prefix("/api/v1.0/director/") {
            Some(rest) => match (rest.strip_prefix("origin"), rest.strip_prefix("object")) {
                (Some(path), _) => (path, true),
                (_, Some(path)) => (path, false),
                _ => return fail(StatusCode::NOT_FOUND, "the director has no such endpoint"),
            },
            None => (path, false),
        };
        let direct = match method {
            "GET" | "HEAD" => asks_origin || has(query, "directread"),
            "PUT" | "DELETE" | "PROPFIND" | "COPY" => true,
            _ => return fail(StatusCode::METHOD_NOT_ALLOWED, "no source supports this"),
        };
        if has(query, "directread") && has(query, "prefercached") {
            return fail(
                StatusCode::BAD_REQUEST,
                "`directread` and `prefercached` exclude each other",
            );
        }
        let Some(name) = Name::parse(path) else {
            return fail(StatusCode::BAD_REQUEST, "the path is not an object's name");
        };
        if name.below(&self.namespace).is_none() {
            return fail(
                StatusCode::NOT_FOUND,
                "no sources found for the requested path: its namespace is unknown",
            );
        }
        self.redirect(&name, direct, query)
    }

    fn discovery(&self) -> Answer {
        let document = json!({
            "discovery_endpoint": self.url,
            "director_endpoint": self.url,
            "namespace_registration_endpoint": self.url,
            "jwks_uri": format!("{}/.well-known/issuer.jwks", self.url),
            "broker_endpoint": "",
        });
        reply::json(StatusCode::OK, &document)
    }

    fn redirect(&self, name: &Name, direct: bool, query: &str) -> Answer {
        let servers: Vec<&String> = match self.caches.as_slice() {
            caches if !direct && !caches.is_empty() => caches.iter().collect(),
            _ => vec![&self.origin],
        };
        let slash = if name.collection && !name.segments().is_empty() { "/" } else { "" };
        let path = format!("{}{slash}", name.encoded());
        let depth = name.depth(&self.namespace);
        let links = servers.iter().enumerate().map(|(idx, server)| {
            format!("<{server}{path}>; rel=\"duplicate\"; pri={}; depth={depth}", idx + 1)
        });
        let links = links.collect::<Vec<_>>().join(", ");
        let namespace = self.namespace.text();
        let mut answer = if query.split('&').any(|part| part == "redirect=false") {
            done(StatusCode::OK)
        } else {
            let query = if query.is_empty() { String::new() } else { format!("?{query}") };
            let first = servers.first().map_or("", |server| server.as_str());
            done(StatusCode::TEMPORARY_REDIRECT).with("location", format!("{first}{path}{query}"))
        };
        answer = answer.with("link", links).with(
            "x-pelican-namespace",
            format!(
                "namespace={namespace}, require-token={}, collections-url={}",
                self.require_token, self.origin
            ),
        );
        if let Some(issuer) = &self.advertised_issuer {
            answer = answer.with("x-pelican-authorization", format!("issuer={issuer}")).with(
                "x-pelican-token-generation",
                format!(
                    "issuer={issuer}, max-scope-depth=3, strategy=OAuth2, base-path={namespace}"
                ),
            );
        }
        answer
    }
}

/// Whether a query has the parameter `name`, with or without a value.
fn has(query: &str, name: &str) -> bool {
    query.split('&').any(|part| part.split('=').next() == Some(name))
}

fn fail(status: StatusCode, message: &str) -> Answer {
    reply::json(status, &json!({"status": "error", "msg": message}))
}
