//! Finds out which servers to ask for an object: asks discovery, then the director.
//!
//! ```text
//! discovery ─▶ DIRECTOR/ns/path ─▶ 307: Link (servers), X-Pelican-Namespace
//!                                  kept 15 min for the whole namespace
//! ```
//!
//! The redirect is read, not followed: its `Location` carries the token, and the `Link` headers
//! name every server that can be used. If reading takes a token, the director is asked with the
//! token, since only then it checks which servers have the object.

use std::time::{Duration, Instant};

use hyper::header::CONTENT_LENGTH;
use tokio::time::sleep;

use crate::director::{Namespace, parse_answer};
use crate::error::Attempts;
use crate::http::{Fault, Request, Response, Role, Server};
use crate::retry::{Policy, Retry};
use crate::route::{Place, Route, Verb, header, retry_after, said};
use crate::router::Router;
use crate::router::routes::Director;
use crate::{Error, Scheme, Token, Url};

impl Router {
    /// The servers for `verb` on `url`.
    pub(crate) async fn route(&self, url: &Url, verb: Verb) -> Result<Route, Error> {
        let verb = if verb == Verb::Read && url.is_direct() { Verb::ReadOrigin } else { verb };
        if url.scheme() != Scheme::Pelican {
            return direct(url);
        }
        let mut route = match self.routes.known(url, verb, Instant::now()) {
            Some(route) => route,
            None => self.ask_once(url, verb).await?,
        };
        if verb == Verb::Read {
            self.routes.narrow(url, &mut route);
        }
        Ok(route)
    }

    /// Asks again for this very object; returns the old route if the director says nothing better.
    pub(crate) async fn route_anew(&self, url: &Url, verb: Verb, old: &Route) -> Route {
        let kept = if verb == Verb::Read && url.is_direct() { Verb::ReadOrigin } else { verb };
        self.routes.forget(url, kept);
        let fresh = self.route(url, verb).await;
        Route { reused: false, ..fresh.unwrap_or_else(|_| old.clone()) }
    }

    /// If several threads need the same answer at the same time, only one of them asks for it.
    async fn ask_once(&self, url: &Url, verb: Verb) -> Result<Route, Error> {
        let question = format!("{} {verb:?} {}", url.authority(), url.query());
        if verb.lists() || self.routes.is_unkept(&question) {
            return Ok(self.ask(url, verb).await?.0);
        }
        let gate = self.routes.gates.of(&question);
        let _turn = gate.lock().await;
        if let Some(route) = self.routes.known(url, verb, Instant::now()) {
            return Ok(route);
        }
        let (route, kept) = self.ask(url, verb).await?;
        if !kept {
            self.routes.unkeep(question);
        }
        Ok(route)
    }

    /// Returns the director's answer, and whether it was cached.
    async fn ask(&self, url: &Url, verb: Verb) -> Result<(Route, bool), Error> {
        let (server, base) = match self.director(url.authority()).await? {
            Director::At { server, base, .. } => (server, base),
            Director::Standalone(server) => {
                let place = Place { server, target: url.request_path() };
                return Ok((Route::of(vec![place]), false));
            }
        };
        let query = match verb {
            Verb::ReadOrigin if !url.is_direct() => "directread",
            _ => url.query(),
        };
        let mark = if query.is_empty() { "" } else { "?" };
        let target = format!("{base}{}{mark}{query}", url.request_path());
        let mut request = Request::new(verb.method(), &server, target).header(CONTENT_LENGTH, "0");
        if verb.lists() {
            request = request.header(header("depth"), verb.depth());
        }
        // Directors demand no token, caches and origins do; so it goes without at first,
        // but for a write with the token that the user named, and for a namespace that is
        // known to want one.
        let named = self.credentials.token(url, verb.action(), None)?;
        let first = match self.routes.namespace(url) {
            _ if verb == Verb::Write && named.is_some() => named.clone(),
            Some(namespace) => self.fitting_token(url, verb, &namespace)?,
            None => None,
        };
        let mut response = self.ask_patiently(url, verb, &request, first.as_ref()).await?;
        let namespace = parse_answer(&response.headers).namespace;
        let second = match (&first, response.status, &namespace) {
            (Some(_), ..) => None,
            // A token that was found is sent only to servers that name its issuer.
            (None, 401 | 403 | 404, namespace) => {
                named.or(self.credentials.token(url, verb.action(), namespace.as_ref())?)
            }
            // Without a token, the director names servers without checking what they have.
            (None, 200..=399, Some(namespace)) => self.fitting_token(url, verb, namespace)?,
            _ => None,
        };
        if let Some(token) = second {
            let had_servers = response.status < 400;
            match self.ask_patiently(url, verb, &request, Some(&token)).await {
                // The answer without a token is still valid.
                Err(_) if had_servers => {}
                Ok(better) if had_servers && matches!(better.status, 401 | 403) => {
                    better.finish().await;
                }
                better => {
                    std::mem::replace(&mut response, better?).finish().await;
                }
            }
        }
        self.understand(url, verb, &server, response).await
    }

    /// The token for a namespace whose objects take one, when nothing speaks against it.
    fn fitting_token(
        &self,
        url: &Url,
        verb: Verb,
        namespace: &Namespace,
    ) -> Result<Option<Token>, Error> {
        if !namespace.require_token {
            return Ok(None);
        }
        let found = self.credentials.pick(url, verb.action(), Some(namespace))?.send;
        Ok(found.filter(|found| found.doubt.is_none()).map(|found| found.token))
    }

    async fn understand(
        &self,
        url: &Url,
        verb: Verb,
        server: &Server,
        response: Response,
    ) -> Result<(Route, bool), Error> {
        let status = response.status;
        match status {
            200..=399 => {}
            401 | 403 => {
                let namespace = parse_answer(&response.headers).namespace;
                let action = verb.action();
                return Err(self
                    .credentials
                    .denied(action, url, namespace.as_ref(), server, response)
                    .await);
            }
            404 => {
                let said = said(response).await;
                if knows_no_origin(&said) {
                    return Err(self.without_origin(url, server, said).await);
                }
                let (url, server) = (url.to_string(), server.to_string());
                return Err(Error::NotFound { url, server, said });
            }
            405 | 501 => {
                let reason = format!("the director answers {status}{}", said(response).await);
                let (action, url) = (verb.name(), url.to_string());
                return Err(Error::Unsupported { action, url, reason });
            }
            _ => {
                let mut attempts = Attempts::default();
                let words = format!("the director answers {status}{}", said(response).await);
                match status {
                    500.. => attempts.add(server, words),
                    _ => attempts.add_lasting(server, words),
                }
                let (action, url) = (verb.name(), url.to_string());
                return Err(Error::Failed { action, url, attempts, elapsed: Duration::ZERO });
            }
        }
        let answer = parse_answer(&response.headers);
        response.finish().await;
        let places: Vec<Place> = match (verb, &answer.namespace) {
            (Verb::Stat | Verb::List, Some(Namespace { collections_url: Some(base), .. })) => {
                let base = base.trim_end_matches('/');
                Place::of(&format!("{base}{}", url.request_path())).into_iter().collect()
            }
            (Verb::Stat | Verb::List, Some(_)) => Vec::new(),
            _ => answer.sources.iter().filter_map(|source| Place::of(&source.url)).collect(),
        };
        if places.is_empty() {
            let reason = match verb.lists() {
                true => "the namespace does not allow listing",
                false => "the director named no server",
            };
            let (action, url) = (verb.name(), url.to_string());
            return Err(Error::Unsupported { action, url, reason: reason.to_owned() });
        }
        let (namespace, brokered) = (answer.namespace, answer.brokered);
        let route = Route { places, namespace, reused: false, brokered };
        // The collections URL has no depth, so lists are asked for one by one.
        let kept =
            !verb.lists() && self.routes.keep(url, verb, &route, &answer.sources, Instant::now());
        Ok((route, kept))
    }

    /// A director that restarts says 429, for up to five minutes; one behind a proxy, 502
    /// or a 404 that is not its own.
    async fn ask_patiently(
        &self,
        url: &Url,
        verb: Verb,
        request: &Request,
        token: Option<&Token>,
    ) -> Result<Response, Error> {
        let request = request.clone().token(token).role(Role::Director);
        let mut attempts = Attempts::default();
        let mut retry = Retry::new(Policy::DIRECTOR, self.options.patience, Instant::now());
        loop {
            let wait = match self.http.send(&request).await {
                Ok(response) if !is_passing(&response) => return Ok(response),
                Ok(response) => {
                    let (status, asked) = (response.status, retry_after(&response));
                    let patience = self.options.patience;
                    let wait = retry.of_director((status, asked), patience, Instant::now());
                    // The director itself gave this answer, or no other will ever be better.
                    if status == 404 && wait.is_none() {
                        return Ok(response);
                    }
                    attempts.add(&request.server, format!("{status}{}", said(response).await));
                    wait
                }
                Err(fault @ Fault::Tls(..)) => {
                    // Trying again does not repair a certificate.
                    attempts.add_lasting(&request.server, &fault);
                    None
                }
                Err(fault) => {
                    attempts.add(&request.server, &fault);
                    retry.again(None, Instant::now())
                }
            };
            let Some(wait) = wait else {
                let (action, url) = (verb.name(), url.to_string());
                let elapsed = retry.elapsed(Instant::now());
                return Err(Error::Failed { action, url, attempts, elapsed });
            };
            sleep(wait).await;
        }
    }

    /// The server that decides who is asked: the director, or a standalone origin itself.
    pub(crate) async fn director_of(&self, authority: &str) -> Result<Server, Error> {
        Ok(match self.director(authority).await? {
            Director::At { server, .. } | Director::Standalone(server) => server,
        })
    }
}

fn direct(url: &Url) -> Result<Route, Error> {
    let scheme = if url.scheme() == Scheme::Https { "https" } else { "http" };
    let mark = if url.query().is_empty() { "" } else { "?" };
    let place =
        format!("{scheme}://{}{}{mark}{}", url.authority(), url.request_path(), url.query());
    let place = Place::of(&place).ok_or_else(|| Error::Setting {
        what: format!("`{url}`"),
        reason: "it named no server".to_owned(),
    })?;
    Ok(Route::of(vec![place]))
}

fn is_passing(response: &Response) -> bool {
    let own = response.header("server").is_some_and(|server| server.starts_with("pelican/"));
    match response.status {
        429 | 503 | 504 => true,
        404 | 500 | 502 => !own,
        _ => false,
    }
}

/// Whether a director's 404 is about the namespace, and not about the object. Only these words of
/// Pelican 7 show it.
fn knows_no_origin(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    // No origin of the namespace has reported to the director for a while; or the origins allow
    // only reads through a cache, and no cache is up.
    said.contains("no sources found") || said.contains("no caches can fulfill")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_404_tells_of_the_namespace_or_of_the_object() {
        assert!(knows_no_origin(": No sources found for the requested path: no origins: ID: 1"));
        assert!(knows_no_origin(": No caches can fulfill this request and no fallback origins"));
        assert!(!knows_no_origin(": No sources reported possession of the object: Are you sure?"));
        assert!(!knows_no_origin(""));
    }
}
