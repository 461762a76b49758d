//! Which servers to ask for an object: discovery, then the director.
//!
//! ```text
//! https://HOST/.well-known/pelican-configuration ─▶ director_endpoint   kept 30 min
//! DIRECTOR/ns/path ─▶ 307: Link (servers), X-Pelican-Namespace          kept 15 min for
//!                                                                       the whole namespace
//! ```
//!
//! The redirect is read, not followed: its `Location` carries the token, and the
//! `Link` headers name every server that would do.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hyper::Method;
use hyper::header::{CONTENT_LENGTH, HeaderName};
use tokio::time::sleep;

use crate::client::Inner;
use crate::director::{Namespace, Source, join, parse_answer, server_prefix};
use crate::error::Attempts;
use crate::http::{Fault, Request, Response, Server};
use crate::retry::{self, Policy, Retry};
use crate::token::Action;
use crate::url::redact;
use crate::{Env, Error, Scheme, Token, Url};

/// The Go client's and pelicanfs' terms.
const KEEP_DISCOVERY: Duration = Duration::from_secs(30 * 60);
const KEEP_ROUTE: Duration = Duration::from_secs(15 * 60);

/// A director's or discovery host's JSON is a few hundred bytes.
const MAX_JSON: usize = 1 << 20;

/// What servers are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    /// Read, from caches where there are some.
    Read,
    /// Read from the origin.
    ReadOrigin,
    /// Write a new object.
    Write,
    /// List a collection.
    List,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read | Self::ReadOrigin => "read",
            Self::Write => "write",
            Self::List => "list",
        }
    }

    fn action(self) -> Action {
        match self {
            Self::Write => Action::Create,
            _ => Action::Read,
        }
    }

    fn method(self) -> Method {
        match self {
            Self::Read | Self::ReadOrigin => Method::GET,
            Self::Write => Method::PUT,
            Self::List => propfind(),
        }
    }
}

/// The WebDAV method, which hyper knows no constant for.
pub(crate) fn propfind() -> Method {
    Method::from_bytes(b"PROPFIND").unwrap_or(Method::OPTIONS)
}

/// One server that has, or takes, the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) server: Server,
    /// Path and query, encoded.
    pub(crate) target: String,
}

impl Place {
    pub(crate) fn of(url: &str) -> Option<Self> {
        let (server, target) = Server::split(url)?;
        Some(Self { server, target: target.to_owned() })
    }
}

/// Where to go, best first.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) places: Vec<Place>,
    pub(crate) namespace: Option<Namespace>,
}

impl Route {
    pub(crate) fn of(places: Vec<Place>) -> Self {
        Self { places, namespace: None }
    }

    /// As the director names it, when it does: a server may be a cache below one path, and
    /// an origin below another.
    fn keep_only(&mut self, cache: &Server, url: &Url) {
        self.places.retain(|place| place.server == *cache);
        self.places.truncate(1);
        if self.places.is_empty() {
            self.places.push(Place { server: cache.clone(), target: url.request_path() });
        }
    }
}

/// What discovery hosts and directors said.
pub(crate) struct Routes {
    directors: Mutex<HashMap<String, (Director, Instant)>>,
    kept: Mutex<Vec<Kept>>,
    preferred: Vec<Server>,
    only_preferred: bool,
    /// All reads go to this cache.
    only_cache: Option<Server>,
}

#[derive(Debug, Clone)]
enum Director {
    /// Base URL without `/` at its end.
    At(Server, String),
    /// A standalone origin: the host itself serves the objects.
    Standalone(Server),
}

/// A director's answer that holds for all objects of a namespace.
struct Kept {
    authority: String,
    verb: Verb,
    query: String,
    namespace: Namespace,
    /// URLs to which the path below the namespace is joined.
    prefixes: Vec<String>,
    until: Instant,
}

impl Routes {
    pub(crate) fn new(env: &Env, only_cache: Option<&str>) -> Result<Self, Error> {
        let only_cache = only_cache.map(the_cache).transpose()?;
        let mut routes = Self {
            only_cache,
            directors: Mutex::default(),
            kept: Mutex::default(),
            preferred: Vec::new(),
            only_preferred: false,
        };
        let name = "PELICAN_CLIENT_PREFERREDCACHES";
        let words: Vec<&str> = env
            .get(name)
            .into_iter()
            .flat_map(|list| list.split(|c: char| c.is_whitespace() || c == ','))
            .filter(|word| !word.is_empty())
            .collect();
        for word in &words {
            match (*word, Server::split(word)) {
                ("+", _) => {}
                (_, Some((server, "" | "/"))) => routes.preferred.push(server),
                _ => {
                    return Err(Error::Setting {
                        what: format!("environment variable `{name}`"),
                        reason: format!("`{word}` is neither `https://HOST[:PORT]` nor `+`"),
                    });
                }
            }
        }
        routes.only_preferred = !words.is_empty() && !words.contains(&"+");
        Ok(routes)
    }

    /// Whether the user names caches.
    pub(crate) fn has_preferred(&self) -> bool {
        !self.preferred.is_empty()
    }

    fn known(&self, url: &Url, verb: Verb) -> Option<Route> {
        let now = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.until > now);
        let fits = |kept: &&Kept| {
            kept.authority == url.authority()
                && kept.verb == verb
                && kept.query == url.query()
                && kept.namespace.below(url.path()).is_some()
        };
        let best = kept.iter().filter(fits).max_by_key(|kept| kept.namespace.prefix.len())?;
        let below = best.namespace.below(url.path())?;
        let places = best.prefixes.iter().filter_map(|prefix| Place::of(&join(prefix, below)));
        Some(Route { places: places.collect(), namespace: Some(best.namespace.clone()) })
    }

    fn keep(&self, url: &Url, verb: Verb, namespace: &Namespace, sources: &[Source]) {
        if namespace.below(url.path()).is_none() {
            return;
        }
        let path = url.path();
        let prefixes: Option<Vec<_>> = sources.iter().map(|s| server_prefix(s, path)).collect();
        // One server that does not say how deep its prefix lies, and nothing can be reused.
        let Some(prefixes) = prefixes.filter(|prefixes| !prefixes.is_empty()) else { return };
        let kept = Kept {
            authority: url.authority().to_owned(),
            verb,
            query: url.query().to_owned(),
            namespace: namespace.clone(),
            prefixes,
            until: Instant::now() + KEEP_ROUTE,
        };
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
    }
}

impl Inner {
    /// The servers for `verb` on `url`.
    pub(crate) async fn route(&self, url: &Url, verb: Verb) -> Result<Route, Error> {
        let verb = if verb == Verb::Read && url.is_direct() { Verb::ReadOrigin } else { verb };
        if url.scheme() != Scheme::Pelican {
            return direct(url);
        }
        let mut route = match self.routes.known(url, verb) {
            Some(route) => route,
            None => self.ask(url, verb).await?,
        };
        match &self.routes.only_cache {
            Some(cache) if verb == Verb::Read => route.keep_only(cache, url),
            None if verb == Verb::Read => self.prefer(url, &mut route),
            _ => {}
        }
        Ok(route)
    }

    pub(crate) fn prefer(&self, url: &Url, route: &mut Route) {
        if self.routes.only_preferred {
            route.places.clear();
        }
        let target = url.request_path();
        let preferred = self
            .routes
            .preferred
            .iter()
            .map(|server| Place { server: server.clone(), target: target.clone() });
        route.places.splice(0..0, preferred);
    }

    async fn ask(&self, url: &Url, verb: Verb) -> Result<Route, Error> {
        let (server, base) = match self.director(url.authority()).await? {
            Director::At(server, base) => (server, base),
            Director::Standalone(server) => {
                let place = Place { server, target: url.request_path() };
                return Ok(Route { places: vec![place], namespace: None });
            }
        };
        let query = match verb {
            Verb::ReadOrigin if !url.is_direct() => "directread",
            _ => url.query(),
        };
        let mark = if query.is_empty() { "" } else { "?" };
        let target = format!("{base}{}{mark}{query}", url.request_path());
        let request = Request::new(verb.method(), &server, target).header(CONTENT_LENGTH, "0");
        // Directors demand no token, caches and origins do; so it goes without, but for
        // a write with the token that the user named. One that does demand it says so.
        let named = self.token(url, verb.action(), None)?;
        let first = named.as_ref().filter(|_| verb == Verb::Write);
        let mut response = self.ask_patiently(url, verb, &request, first).await?;
        if first.is_none() && matches!(response.status, 401 | 403 | 404) {
            // What was found goes only to whoever names its issuer.
            let namespace = parse_answer(&response.headers).namespace;
            let token = self.token(url, verb.action(), namespace.as_ref())?;
            if let Some(token) = named.or(token) {
                response.finish().await;
                response = self.ask_patiently(url, verb, &request, Some(&token)).await?;
            }
        }
        self.understand(url, verb, &server, response).await
    }

    async fn understand(
        &self,
        url: &Url,
        verb: Verb,
        server: &Server,
        response: Response,
    ) -> Result<Route, Error> {
        let status = response.status;
        match status {
            200..=399 => {}
            401 | 403 => {
                let namespace = parse_answer(&response.headers).namespace;
                let action = verb.action();
                return Err(self.denied(action, url, namespace.as_ref(), server, response).await);
            }
            404 => {
                let (url, server, said) =
                    (url.to_string(), server.to_string(), said(response).await);
                return Err(Error::NotFound { url, server, said });
            }
            _ => {
                let reason = format!("the director answers {status}{}", said(response).await);
                let (action, url) = (verb.name(), url.to_string());
                return Err(Error::Unsupported { action, url, reason });
            }
        }
        let answer = parse_answer(&response.headers);
        response.finish().await;
        let places: Vec<Place> = match (verb, &answer.namespace) {
            (Verb::List, Some(Namespace { collections_url: Some(base), .. })) => {
                let base = base.trim_end_matches('/');
                Place::of(&format!("{base}{}", url.request_path())).into_iter().collect()
            }
            (Verb::List, Some(_)) => Vec::new(),
            _ => answer.sources.iter().filter_map(|source| Place::of(&source.url)).collect(),
        };
        if places.is_empty() {
            let reason = match verb {
                Verb::List => "the namespace offers no listing",
                _ => "the director names no server",
            };
            let (action, url) = (verb.name(), url.to_string());
            return Err(Error::Unsupported { action, url, reason: reason.to_owned() });
        }
        // The collections URL has no depth, so lists are asked for one by one.
        if let Some(namespace) = answer.namespace.as_ref().filter(|_| verb != Verb::List) {
            self.routes.keep(url, verb, namespace, &answer.sources);
        }
        Ok(Route { places, namespace: answer.namespace })
    }

    /// A director that restarts says 429; one behind a proxy, 502 or a 404 that is
    /// not its own.
    async fn ask_patiently(
        &self,
        url: &Url,
        verb: Verb,
        request: &Request,
        token: Option<&Token>,
    ) -> Result<Response, Error> {
        let request = request.clone().token(token);
        let mut attempts = Attempts::default();
        let mut retry = Retry::new(Policy::DIRECTOR, self.options.patience);
        loop {
            let wait = match self.http.send(&request).await {
                Ok(response) if !is_passing(&response) => return Ok(response),
                Ok(response) => {
                    let (status, wait) = (response.status, retry.again(retry_after(&response)));
                    // It was the director's own after all, or nobody will ever do better.
                    if status == 404 && wait.is_none() {
                        return Ok(response);
                    }
                    attempts.add(&request.server, format!("{status}{}", said(response).await));
                    wait
                }
                Err(fault) => {
                    attempts.add(&request.server, &fault);
                    // No trial mends a certificate.
                    if matches!(fault, Fault::Tls(_)) { None } else { retry.again(None) }
                }
            };
            let Some(wait) = wait else {
                let (action, url, elapsed) = (verb.name(), url.to_string(), retry.elapsed());
                return Err(Error::Failed { action, url, attempts, elapsed });
            };
            sleep(wait).await;
        }
    }

    async fn director(&self, authority: &str) -> Result<Director, Error> {
        let now = Instant::now();
        let known = {
            let directors = self.routes.directors.lock().unwrap_or_else(PoisonError::into_inner);
            directors.get(authority).filter(|(_, until)| *until > now).map(|(d, _)| d.clone())
        };
        if let Some(director) = known {
            return Ok(director);
        }
        let director = self
            .discover(authority)
            .await
            .map_err(|reason| Error::Discovery { host: authority.to_owned(), reason })?;
        let mut directors = self.routes.directors.lock().unwrap_or_else(PoisonError::into_inner);
        directors.insert(authority.to_owned(), (director.clone(), now + KEEP_DISCOVERY));
        Ok(director)
    }

    /// The server that decides who is asked: the director, or a standalone origin itself.
    pub(crate) async fn director_of(&self, authority: &str) -> Result<Server, Error> {
        Ok(match self.director(authority).await? {
            Director::At(server, _) | Director::Standalone(server) => server,
        })
    }

    /// Whether reads go to one cache, and to nobody else.
    pub(crate) fn has_only_cache(&self) -> bool {
        self.routes.only_cache.is_some()
    }

    async fn discover(&self, authority: &str) -> Result<Director, String> {
        let url = format!("https://{authority}/.well-known/pelican-configuration");
        let (server, target) = Server::split(&url).ok_or("its name is no host")?;
        let request = Request::new(Method::GET, &server, target);
        let mut retry = Retry::new(Policy::DISCOVERY, self.options.patience);
        let response = loop {
            let (fault, asked) = match self.http.send(&request).await {
                Ok(response) if !matches!(response.status, 429 | 500..) => break response,
                Ok(response) => {
                    let (status, asked) = (response.status, retry_after(&response));
                    response.finish().await;
                    (format!("it answers {status}"), asked)
                }
                // Nothing of this passes within seconds.
                Err(fault @ Fault::Tls(_)) => return Err(fault.to_string()),
                Err(fault) => (fault.to_string(), None),
            };
            let spent = retry.spent();
            let wait = retry.again(asked).ok_or_else(|| format!("{fault} ({spent})"))?;
            sleep(wait).await;
        };
        if response.status != 200 {
            return Err(format!("`{target}` answers {}", response.status));
        }
        let body = response.read(MAX_JSON).await.map_err(|e| e.to_string())?;
        let json: serde_json::Value =
            serde_json::from_slice(&body).map_err(|e| format!("`{target}` is no JSON: {e}"))?;
        match json.get("director_endpoint").and_then(|v| v.as_str()).filter(|s| !s.is_empty()) {
            None => Ok(Director::Standalone(server)),
            Some(url) => {
                let (server, base) = Server::split(url).ok_or_else(|| {
                    format!("its director_endpoint `{}` is no http(s) URL", redact(url))
                })?;
                Ok(Director::At(server, base.trim_end_matches('/').to_owned()))
            }
        }
    }
}

fn the_cache(text: &str) -> Result<Server, Error> {
    match Server::split(text) {
        Some((server, "" | "/")) => Ok(server),
        _ => Err(Error::Setting {
            what: format!("the cache `{}`", redact(text)),
            reason: "it is not https://HOST[:PORT]".to_owned(),
        }),
    }
}

fn direct(url: &Url) -> Result<Route, Error> {
    let scheme = if url.scheme() == Scheme::Https { "https" } else { "http" };
    let mark = if url.query().is_empty() { "" } else { "?" };
    let place =
        format!("{scheme}://{}{}{mark}{}", url.authority(), url.request_path(), url.query());
    let place = Place::of(&place).ok_or_else(|| Error::Setting {
        what: format!("`{url}`"),
        reason: "it names no server".to_owned(),
    })?;
    Ok(Route { places: vec![place], namespace: None })
}

/// What an answer's `Retry-After` asks for.
pub(crate) fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.header("retry-after")?;
    retry::retry_after(value, response.header("date"), SystemTime::now())
}

/// The words of an error, after `: `; nothing when it has none.
pub(crate) async fn said(response: Response) -> String {
    let message = response.message().await;
    if message.is_empty() { message } else { format!(": {message}") }
}

fn is_passing(response: &Response) -> bool {
    let own = response.header("server").is_some_and(|server| server.starts_with("pelican/"));
    match response.status {
        429 | 503 | 504 => true,
        404 | 500 | 502 => !own,
        _ => false,
    }
}

/// A header that hyper has no constant for.
pub(crate) fn header(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}
