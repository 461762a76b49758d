//! Diagnoses a fault: shows how each server responds to a request.
//!
//! ```text
//! discovery ─▶ director ─▶ each cache ─▶ each origin
//!     name, connection (TCP and TLS), first byte, speed, age of the copy, verdict
//! ```
//!
//! Nothing is asked twice and nobody is left out: what a transfer would pass over in
//! silence is what is wanted here.

use std::time::{Duration, Instant, SystemTime};

use gular_files::Watch;
use hyper::Method;
use hyper::header::{CACHE_CONTROL, RANGE};

use crate::client::Client;
use crate::credentials::Refusal;
use crate::director::Namespace;
use crate::http::{self, Fault, Request, Response, Server};
use crate::reader::Reader;
use crate::route::{Place, Route, Verb, said};
use crate::token::{Action, Claims};
use crate::{Cause, Diagnosis, Error, Scheme, Url};

/// A small object is kept whole; of a larger one as much is read to measure the speed.
const ENOUGH_BYTES: u64 = 8 << 20;

/// How long a slow server is read from.
const ENOUGH_TIME: Duration = Duration::from_secs(3);

/// The role of a server in the federation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The discovery host, which says where the director is.
    Discovery,
    /// The director, which says which servers have an object.
    Director,
    /// A cache, which holds copies.
    Cache,
    /// An origin, which stores objects.
    Origin,
    /// The one server of an `https://` URL.
    Server,
}

/// The result of examining one server.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The role of the server.
    pub role: Role,
    /// `https://HOST[:PORT]`; empty for one that nobody names.
    pub server: String,
    /// How long resolving the server's name took.
    pub name: Option<Duration>,
    /// How long connecting by TCP and TLS took, a proxy included.
    pub connection: Option<Duration>,
    /// How long the head of the server's answer took, on the open connection.
    pub first_byte: Option<Duration>,
    /// How many bytes of the object were read, and in which time.
    pub read: Option<(u64, Duration)>,
    /// How long ago a cache fetched its copy; zero for one that it fetched now.
    pub age: Option<Duration>,
    /// What is wrong.
    pub fault: Option<ProbeFault>,
}

/// What is wrong with a server, or with the request to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProbeFault {
    /// The server's name has no address.
    Name(String),
    /// The server takes no connection.
    Connection(String),
    /// The server's certificate or protocol is not accepted.
    Tls(String, Cause),
    /// The server wants another token.
    Denied {
        /// The HTTP status.
        status: u16,
        /// The server's words, after `: `.
        said: String,
        /// The diagnosis of the token.
        diagnosis: Box<Diagnosis>,
    },
    /// The server says that there is no such object.
    Missing(String),
    /// The server gives another answer.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The server's words.
        said: String,
    },
    /// The answer ended early, or cannot be understood.
    Broken(String),
    /// The director names no such server; of the director itself: none at all.
    NoneNamed(String),
}

/// A token that would be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFacts {
    /// Where it is from.
    pub from: String,
    /// When the token expires, if it says so.
    pub expires: Option<SystemTime>,
    /// Whether the token is not a JSON Web Token, so that nothing about it can be checked here.
    pub opaque: bool,
}

/// The results for all servers.
#[derive(Debug, Clone, Default)]
pub struct Examination {
    /// The servers, in the order in which a transfer would use them.
    pub probes: Vec<Probe>,
    /// The part of the federation that the object is in.
    pub namespace: Option<String>,
    /// Whether reading takes a token; `None` if no server says so.
    pub needs_token: Option<bool>,
    /// The token that reading sends, or what speaks against all that were found; `None`
    /// where none is wanted.
    pub token: Option<Result<TokenFacts, Box<Diagnosis>>>,
    /// The whole object, when it is small and some server has it.
    pub object: Option<Vec<u8>>,
}

/// Whether a cache has an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    /// The cache has it.
    There,
    /// The cache does not have it.
    Absent,
    /// The cache does not say.
    Unknown,
}

impl Client {
    /// Asks every server for `url`: discovery, director, caches and origins.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a local folder, [`Error::Token`], [`Error::Cancelled`]. A
    /// server's fault is in its probe.
    pub fn examine(&self, url: &Url, watch: Watch<'_>) -> Result<Examination, Error> {
        if url.scheme() == Scheme::File {
            let reason = "it is a local folder, behind no server".to_owned();
            return Err(Error::Unsupported { action: "examine", url: url.to_string(), reason });
        }
        self.block(watch, self.0.reader.examine(url))
    }

    /// Reads some megabytes of `url`, `len_bytes` long, from the server that was probed.
    ///
    /// # Errors
    /// [`Error::Token`], [`Error::Cancelled`], and what a director says of `url`.
    pub fn measure(
        &self,
        probe: &mut Probe,
        url: &Url,
        len_bytes: u64,
        watch: Watch<'_>,
    ) -> Result<(), Error> {
        self.block(watch, async {
            let verb = if probe.role == Role::Origin { Verb::ReadOrigin } else { Verb::Read };
            let route = self.0.router.route(url, verb).await?;
            let same = |place: &&Place| place.server.to_string() == probe.server;
            let Some(place) = route.places.iter().find(same) else { return Ok(()) };
            self.0.reader.read_some(probe, url, &route, place, Some(len_bytes)).await?;
            Ok(())
        })
    }

    /// The caches that `url` would be read from, the nearest first, as the director says.
    ///
    /// # Errors
    /// Those of [`Client::stat`].
    pub fn caches(&self, url: &Url, watch: Watch<'_>) -> Result<Vec<String>, Error> {
        self.block(watch, async {
            let mut places = self.0.router.route(url, Verb::Read).await?.places;
            let origins = self.0.router.route(url, Verb::ReadOrigin).await;
            let origins = origins.map(|route| route.places).unwrap_or_default();
            places.retain(|place| !origins.contains(place));
            Ok(places.iter().map(|place| place.server.to_string()).collect())
        })
    }

    /// Asks whether the first server that `url` is read from has a copy of the object, without
    /// making one.
    ///
    /// # Errors
    /// Those of [`Client::stat`], except for an object that is not there.
    pub fn copy_of(&self, url: &Url, watch: Watch<'_>) -> Result<Copy, Error> {
        self.block(watch, async {
            let route = self.0.router.route(url, Verb::Read).await?;
            let Some(place) = route.places.first() else { return Ok(Copy::Unknown) };
            let token = self.0.credentials.read_token(url, route.namespace.as_ref()).await?;
            for only_if_cached in [true, false] {
                let request = |place: &Place, ours: bool| {
                    let request = Request::new(Method::HEAD, &place.server, place.target.as_str())
                        .token(token.as_ref().filter(|_| ours));
                    match only_if_cached {
                        true => request.header(CACHE_CONTROL, "only-if-cached"),
                        false => request,
                    }
                };
                let Ok(response) = self.0.router.send_following(url, place, request).await else {
                    return Ok(Copy::Unknown);
                };
                let (status, age) = (response.status, age(&response));
                response.finish().await;
                match (status, age) {
                    // The status is that of RFC 9111, section 5.2.1.7.
                    (504, _) if only_if_cached => return Ok(Copy::Absent),
                    // The cache does not know the directive, and would have to fetch the object
                    // now.
                    (200, Some(age)) if only_if_cached && age.is_zero() => {
                        return Ok(Copy::Absent);
                    }
                    (200, Some(_)) => return Ok(Copy::There),
                    // Pelican's own cache tells the age of a copy only without the directive.
                    (200, None) if only_if_cached => {}
                    _ => return Ok(Copy::Unknown),
                }
            }
            Ok(Copy::Unknown)
        })
    }
}

impl Reader {
    async fn examine(&self, url: &Url) -> Result<Examination, Error> {
        let mut seen = Examination::default();
        if url.scheme() != Scheme::Pelican {
            let route = self.router.route(url, Verb::Read).await?;
            self.ask_all(&mut seen, url, &route, |_| Role::Server).await?;
            return Ok(seen);
        }
        let Some(director) = self.examine_discovery(url, &mut seen).await else {
            return Ok(seen);
        };
        let start = Instant::now();
        let read = self.router.route(url, Verb::Read).await;
        let asked = start.elapsed();
        let origin = self.router.route(url, Verb::ReadOrigin).await;
        let mut probe = self.connect_to(Role::Director, &director).await;
        let mut route = match read {
            Ok(route) => {
                probe.first_byte = Some(asked);
                route
            }
            Err(error) => {
                // An error of the connection is the more direct cause.
                let fault = director_fault(error, &mut probe, asked)?;
                probe.fault.get_or_insert(fault);
                Route::of(Vec::new())
            }
        };
        seen.probes.push(probe);
        let origins = match origin {
            Ok(origin) => {
                route.namespace = route.namespace.or(origin.namespace);
                origin.places
            }
            // The director's line says it.
            Err(Error::NoNamespace { .. }) => Vec::new(),
            Err(error) => {
                let mut probe = nothing_of(Role::Origin, String::new());
                let why = match error {
                    Error::NoOrigin { .. } => "it knows none".to_owned(),
                    error => error.to_string(),
                };
                probe.fault = Some(ProbeFault::NoneNamed(why));
                seen.probes.push(probe);
                Vec::new()
            }
        };
        route.places.retain(|place| !origins.contains(place));
        if let Some(namespace) = &route.namespace {
            seen.namespace = Some(namespace.prefix.clone());
            seen.needs_token = Some(namespace.require_token);
            if namespace.require_token {
                seen.token = Some(self.token_facts(url, namespace, &director)?);
            }
        }
        let n_caches = route.places.len();
        // A probe that says that there is no origin is listed after all caches, where an origin
        // would be.
        let at = seen.probes.iter().position(|probe| probe.role == Role::Origin);
        let none = at.map(|at| seen.probes.remove(at));
        route.places.extend(origins);
        let role = |number| if number < n_caches { Role::Cache } else { Role::Origin };
        self.ask_all(&mut seen, url, &route, role).await?;
        seen.probes.extend(none);
        Ok(seen)
    }

    /// Returns the director that the discovery host names.
    async fn examine_discovery(&self, url: &Url, seen: &mut Examination) -> Option<Server> {
        let host = format!("https://{}/", url.authority());
        let (server, _) = Server::split(&host)?;
        let mut probe = self.connect_to(Role::Discovery, &server).await;
        let mut director = None;
        if probe.fault.is_none() {
            let start = Instant::now();
            match self.router.director_of(url.authority()).await {
                Ok(found) => {
                    probe.first_byte = Some(start.elapsed());
                    director = Some(found);
                }
                Err(Error::Discovery { reason, .. }) => {
                    probe.fault = Some(ProbeFault::Broken(reason));
                }
                Err(error) => probe.fault = Some(ProbeFault::Broken(error.to_string())),
            }
        }
        seen.probes.push(probe);
        director
    }

    fn token_facts(
        &self,
        url: &Url,
        namespace: &Namespace,
        asked: &Server,
    ) -> Result<Result<TokenFacts, Box<Diagnosis>>, Error> {
        let pick = self.credentials.pick(url, Action::Read, Some(namespace))?;
        if let Some(found) = pick.send.filter(|found| found.doubt.is_none()) {
            let opaque = Claims::decode(&found.token).is_none();
            return Ok(Ok(TokenFacts { from: found.from, expires: found.expires, opaque }));
        }
        match self.credentials.denied_as(Action::Read, url, Some(namespace), asked, 0.into()) {
            Error::Denied { diagnosis, .. } => Ok(Err(diagnosis)),
            error => Err(error),
        }
    }

    async fn ask_all(
        &self,
        seen: &mut Examination,
        url: &Url,
        route: &Route,
        role: impl Fn(usize) -> Role,
    ) -> Result<(), Error> {
        for (number, place) in route.places.iter().enumerate() {
            let mut probe = self.connect_to(role(number), &place.server).await;
            if probe.fault.is_none() {
                let object = self.read_some(&mut probe, url, route, place, None).await?;
                seen.object = seen.object.take().or(object);
            }
            seen.probes.push(probe);
        }
        Ok(())
    }

    async fn connect_to(&self, role: Role, server: &Server) -> Probe {
        let mut probe = nothing_of(role, server.to_string());
        let start = Instant::now();
        match self.router.http.resolve(server).await {
            Ok(()) => probe.name = Some(start.elapsed()),
            Err(error) => {
                // A proxy may be able to resolve the name.
                probe.fault = Some(ProbeFault::Name(error.to_string()));
            }
        }
        let start = Instant::now();
        let asked_as = match role {
            Role::Discovery | Role::Director => http::Role::Director,
            Role::Cache | Role::Origin => http::Role::Data,
            Role::Server => http::Role::Other,
        };
        match self.router.http.open(server, asked_as).await {
            Ok(()) => (probe.connection, probe.fault) = (Some(start.elapsed()), None),
            Err(fault) => drop(probe.fault.get_or_insert(match fault {
                Fault::Tls(reason, cause) => ProbeFault::Tls(reason, cause),
                fault => ProbeFault::Connection(fault.to_string()),
            })),
        }
        probe
    }

    /// Reads the object, or enough of it, and returns it when it is small.
    async fn read_some(
        &self,
        probe: &mut Probe,
        url: &Url,
        route: &Route,
        place: &Place,
        len_bytes: Option<u64>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let token = self.credentials.read_token(url, route.namespace.as_ref()).await?;
        // The range has both ends, with the last below the object's end: servers answer other
        // ranges with no bytes.
        let range = len_bytes.filter(|len| *len > 0).map(|len| len.min(ENOUGH_BYTES) - 1);
        let request = |place: &Place, ours: bool| {
            let request = Request::new(Method::GET, &place.server, place.target.as_str())
                .token(token.as_ref().filter(|_| ours));
            match range {
                Some(last) => request.header(RANGE, format!("bytes=0-{last}")),
                None => request,
            }
        };
        let start = Instant::now();
        let response = match self.router.send_following(url, place, request).await {
            Ok(response) => response,
            Err(fault) => {
                probe.fault = Some(ProbeFault::Broken(fault.to_string()));
                return Ok(None);
            }
        };
        let first_byte = start.elapsed();
        probe.first_byte = Some(first_byte);
        match response.status {
            200 | 206 => {}
            status @ (401 | 403) => {
                let namespace = route.namespace.as_ref();
                let server = &place.server;
                let refusal = Refusal { status, said: said(response).await };
                probe.fault = Some(
                    match self.credentials.denied_as(Action::Read, url, namespace, server, refusal)
                    {
                        Error::Denied { said, diagnosis, .. } => {
                            ProbeFault::Denied { status, said, diagnosis }
                        }
                        error => return Err(error),
                    },
                );
                return Ok(None);
            }
            404 | 410 => {
                probe.fault = Some(ProbeFault::Missing(words(response).await));
                return Ok(None);
            }
            status => {
                probe.fault = Some(ProbeFault::Answer { status, said: words(response).await });
                return Ok(None);
            }
        }
        probe.age = age(&response);
        let small = response.content_length().is_some_and(|len| len <= ENOUGH_BYTES);
        let keep = small && range.is_none();
        Ok(read_body(probe, response, keep, start).await)
    }
}

async fn read_body(
    probe: &mut Probe,
    mut response: Response,
    keep: bool,
    start: Instant,
) -> Option<Vec<u8>> {
    let (mut n_bytes, mut object) = (0_u64, Vec::new());
    loop {
        match response.chunk().await {
            Ok(Some(bytes)) => {
                n_bytes += bytes.len() as u64;
                if keep {
                    object.extend_from_slice(&bytes);
                }
            }
            Ok(None) => break,
            Err(fault) => {
                probe.fault = Some(ProbeFault::Broken(fault.to_string()));
                return None;
            }
        }
        if !keep && (n_bytes >= ENOUGH_BYTES || start.elapsed() > ENOUGH_TIME) {
            break;
        }
    }
    probe.read = Some((n_bytes, start.elapsed()));
    keep.then_some(object)
}

fn nothing_of(role: Role, server: String) -> Probe {
    let (name, connection, first_byte, read, age) = (None, None, None, None, None);
    Probe { role, server, name, connection, first_byte, read, age, fault: None }
}

/// Translates an error of the director to a fault of the director.
fn director_fault(error: Error, probe: &mut Probe, asked: Duration) -> Result<ProbeFault, Error> {
    Ok(match error {
        Error::NotFound { said, .. } => {
            probe.first_byte = Some(asked);
            ProbeFault::Missing(said.trim_start_matches(": ").to_owned())
        }
        error @ Error::NoNamespace { .. } => {
            probe.first_byte = Some(asked);
            ProbeFault::NoneNamed(error.to_string())
        }
        Error::NoOrigin { said, .. } => {
            probe.first_byte = Some(asked);
            ProbeFault::NoneNamed(said.trim_start_matches(": ").to_owned())
        }
        Error::Denied { status, said, diagnosis, .. } => {
            probe.first_byte = Some(asked);
            ProbeFault::Denied { status, said, diagnosis }
        }
        Error::Unsupported { reason, .. } => {
            probe.first_byte = Some(asked);
            ProbeFault::Broken(reason)
        }
        Error::Failed { attempts, .. } => ProbeFault::Broken(attempts.to_string()),
        error @ (Error::Cancelled | Error::Token(_) | Error::Setting { .. }) => return Err(error),
        error => ProbeFault::Broken(error.to_string()),
    })
}

/// The age of a copy: RFC 9111, section 5.1.
fn age(response: &Response) -> Option<Duration> {
    response.header("age")?.trim().parse().ok().map(Duration::from_secs)
}

async fn words(response: Response) -> String {
    said(response).await.trim_start_matches(": ").to_owned()
}
