//! Requests to one registry: authentication, redirects and retries.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gular_files::Env;
use serde::Deserialize;

use super::challenge::{Challenge, challenges};
use super::credentials::{Credentials, Login, find};
use super::origin::{Origin, next};
use super::{Answer, Method, Reference, Request, Secret, Wire, WireFault};
use crate::{Error, OciDigest, Result};

/// Redirects followed for one request.
const MAX_REDIRECTS: usize = 5;
/// Longest answer of a token server.
const MAX_TOKEN: usize = 64 << 10;
/// How long a token is valid if its server does not say, as in Docker.
const TOKEN_SECONDS: u64 = 60;

/// What a token must allow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope(Vec<String>);

impl Scope {
    /// Allows reading a repository.
    pub fn pull(repository: &str) -> Self {
        Self(vec![format!("repository:{repository}:pull")])
    }

    /// Allows writing to a repository.
    pub fn push(repository: &str) -> Self {
        Self(vec![format!("repository:{repository}:pull,push")])
    }

    /// Also allows reading another repository, whose blobs are mounted.
    #[must_use]
    pub fn and_pull(mut self, repository: &str) -> Self {
        self.0.extend(Self::pull(repository).0);
        self
    }
}

/// A session with a registry: its server and the credentials for it.
pub struct Registry<'a> {
    wire: &'a dyn Wire,
    /// The beginning of all URLs: `https://HOST`.
    base: String,
    /// The host, as users write it.
    host: String,
    login: Option<Login>,
    /// Values of `Authorization` by what they allow; the empty scope is a password's.
    known: Mutex<BTreeMap<Scope, (Secret, Instant)>>,
}

/// Why a request has no answer.
pub(super) enum Halt {
    /// Another attempt may have one.
    Passing(String),
    /// The receiver of the bytes could not keep them.
    Sink(io::Error),
    /// No attempt will have one.
    Fatal(Error),
}

impl<'a> Registry<'a> {
    /// Opens a session with the registry of `reference`, over TLS; a registry on this machine may
    /// work without TLS.
    ///
    /// # Errors
    /// Those of [`find`]; [`Error::Cancelled`].
    pub fn open(reference: &Reference, wire: &'a dyn Wire, env: &Env) -> Result<Self> {
        let login = find(reference, env)?;
        let mut base = format!("https://{}", reference.server());
        if reference.is_loopback() {
            // The request contains nothing secret. A server that speaks TLS refuses it, or hangs
            // up.
            let open = format!("http://{}", reference.server());
            let look = Request::new(Method::Get, format!("{open}/v2/"));
            match wire.send(&look, &mut |_| Ok(())) {
                Err(WireFault::Cancelled) => return Err(Error::Cancelled),
                Ok(answer) if answer.status != 400 => base = open,
                _ => {}
            }
        }
        let (host, known) = (reference.host().to_owned(), Mutex::default());
        Ok(Self { wire, base, host, login, known })
    }

    /// The URL of something in a repository: `blobs/DIGEST`.
    pub(super) fn url(&self, repository: &str, rest: &str) -> String {
        format!("{}/v2/{repository}/{rest}", self.base)
    }

    pub(super) fn wire(&self) -> &dyn Wire {
        self.wire
    }

    /// The answer to a request that may be sent twice, and its body of at most `limit` bytes.
    pub(super) fn ask(
        &self,
        request: &Request,
        scope: &Scope,
        limit: usize,
    ) -> Result<(Answer, Vec<u8>)> {
        let mut trials = self.wire.trials();
        loop {
            let mut body = Vec::new();
            let answer = self.once(request, scope, &mut |bytes| keep(&mut body, bytes, limit));
            let (reason, asked) = match answer {
                Ok(answer) if answer.passes() => (answer.said(), answer.retry_after),
                Ok(answer) => return Ok((answer, body)),
                Err(Halt::Passing(reason)) => (reason, None),
                Err(Halt::Sink(e)) => return Err(self.failed(&request.url, e.to_string())),
                Err(Halt::Fatal(error)) => return Err(error),
            };
            if !again(&mut *trials, asked)? {
                return Err(self.away(&request.url, reason));
            }
        }
    }

    /// Sends a request once: authenticates if that is asked for, and follows redirects. The
    /// authorization is sent to no other server.
    pub(super) fn once(
        &self,
        request: &Request,
        scope: &Scope,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Answer, Halt> {
        let home = Origin::of(&self.base);
        let mut request = request.clone();
        let mut asked = false;
        let mut redirects = 0;
        loop {
            let at_home = Origin::of(&request.url) == home;
            request.authorization = if at_home { self.authorization(scope) } else { None };
            let answer =
                self.wire.send(&request, sink).map_err(|fault| self.halt(&request, fault))?;
            match answer.status {
                401 if at_home && !asked => {
                    asked = true;
                    if !self.login(&answer, scope).map_err(Halt::Fatal)? {
                        return Ok(answer);
                    }
                }
                301 | 302 | 303 | 307 | 308
                    if matches!(request.method, Method::Get | Method::Head) =>
                {
                    redirects += 1;
                    let to = answer.header("location").and_then(|to| next(&request.url, to));
                    let Some(to) = to.filter(|_| redirects <= MAX_REDIRECTS) else {
                        let reason =
                            "it redirects in a loop, to an invalid URL, or to one without TLS";
                        return Err(Halt::Fatal(self.failed(&request.url, reason.to_owned())));
                    };
                    request.url = to;
                }
                _ => return Ok(answer),
            }
        }
    }

    /// The `Authorization` of a request with this scope.
    fn authorization(&self, scope: &Scope) -> Option<Secret> {
        let mut known = self.known();
        known.retain(|_, (_, until)| *until > Instant::now());
        let found = known.get(scope).or_else(|| known.get(&Scope(Vec::new())));
        found.map(|(secret, _)| secret.clone())
    }

    /// Gets what a 401 asks for; `false` when there is nothing to show.
    fn login(&self, answer: &Answer, scope: &Scope) -> Result<bool> {
        let headers = answer.headers.iter().filter(|(name, _)| name == "www-authenticate");
        let wanted: Vec<Challenge> = headers.flat_map(|(_, value)| challenges(value)).collect();
        for challenge in wanted {
            let (scope, found) = match challenge {
                Challenge::Basic => {
                    let basic = self.login.as_ref().and_then(|login| login.credentials.basic());
                    let long = Duration::from_secs(u64::from(u32::MAX));
                    (Scope(Vec::new()), basic.map(|basic| (basic, long)))
                }
                Challenge::Bearer { realm, service, scope: theirs } => {
                    let asked = match (scope.0.is_empty(), theirs) {
                        (true, Some(theirs)) => Scope(vec![theirs]),
                        _ => scope.clone(),
                    };
                    let token = self.token(&realm, service.as_deref(), &asked)?;
                    (scope.clone(), Some(token))
                }
            };
            if let Some((secret, long)) = found {
                let now = Instant::now();
                let until = now.checked_add(long).unwrap_or(now);
                self.known().insert(scope, (secret, until));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A token of the server that the registry names, and how long it is used.
    fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: &Scope,
    ) -> Result<(Secret, Duration)> {
        let safe = Origin::of(realm).is_some_and(|origin| origin.keeps_secrets());
        if !safe && (self.login.is_some() || Origin::of(realm).is_none()) {
            let reason =
                format!("the registry asks for a token from `{realm}`, which does not use TLS");
            return Err(self.failed(&self.base, reason));
        }
        let mut fields: Vec<(&str, &str)> = vec![];
        fields.extend(service.map(|service| ("service", service)));
        let credentials = self.login.as_ref().map(|login| &login.credentials);
        let request = match credentials {
            Some(Credentials::Identity(identity)) => {
                let scopes = scope.0.join(" ");
                fields.extend([
                    ("client_id", "gular"),
                    ("grant_type", "refresh_token"),
                    ("refresh_token", identity.text()),
                    ("scope", &scopes),
                ]);
                Request::new(Method::Post, realm)
                    .header("content-type", "application/x-www-form-urlencoded")
                    .body(form(&fields).into_bytes())
            }
            _ => {
                fields.extend(scope.0.iter().map(|scope| ("scope", scope.as_str())));
                let mark = if realm.contains('?') { '&' } else { '?' };
                let mut request =
                    Request::new(Method::Get, format!("{realm}{mark}{}", form(&fields)));
                request.authorization = credentials.and_then(Credentials::basic);
                request
            }
        };
        let body = self.plain(&request)?;
        let said: Token = serde_json::from_slice(&body)
            .map_err(|_| self.failed(realm, "the answer contains no token".to_owned()))?;
        let token = said
            .token
            .or(said.access_token)
            .filter(|token| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()));
        let token =
            token.ok_or_else(|| self.failed(realm, "the answer contains no token".to_owned()))?;
        // A little shorter: a request takes its time, and clocks differ.
        let seconds = said.expires_in.unwrap_or(TOKEN_SECONDS).clamp(TOKEN_SECONDS, 86_400);
        let long = Duration::from_secs(seconds).mul_f64(0.8);
        Ok((Secret::new(format!("Bearer {token}")), long))
    }

    /// Fetches a document of a token server.
    fn plain(&self, request: &Request) -> Result<Vec<u8>> {
        let mut trials = self.wire.trials();
        let shown = Request { url: bare(&request.url).to_owned(), ..request.clone() };
        loop {
            let mut body = Vec::new();
            let answer = self.wire.send(request, &mut |bytes| keep(&mut body, bytes, MAX_TOKEN));
            let (reason, asked) = match answer.map_err(|fault| self.halt(&shown, fault)) {
                Ok(answer) if (200..300).contains(&answer.status) => return Ok(body),
                Ok(answer) if answer.passes() => (answer.said(), answer.retry_after),
                Ok(answer) => return Err(self.refused(&shown.url, &answer)),
                Err(Halt::Passing(reason)) => (reason, None),
                Err(Halt::Sink(e)) => return Err(self.failed(&shown.url, e.to_string())),
                Err(Halt::Fatal(error)) => return Err(error),
            };
            if !again(&mut *trials, asked)? {
                return Err(self.away(&shown.url, reason));
            }
        }
    }

    /// An answer that is not the one wanted, as an error.
    pub(super) fn refused(&self, url: &str, answer: &Answer) -> Error {
        let mut reason = answer.said();
        let mut hint = None;
        if matches!(answer.status, 401 | 403) {
            let host = &self.host;
            match &self.login {
                Some(login) => {
                    reason.push_str(&format!("; the credentials of `{}` were sent", login.from));
                }
                None => reason.push_str("; no credentials for this registry were found"),
            }
            hint = Some(format!("log in: `podman login {host}` or `docker login {host}`"));
        } else if answer.status == 404 {
            let names = "check the name and its tag or digest; `skopeo list-tags docker://HOST/NAME` lists the tags";
            hint = Some(names.to_owned());
        }
        Error::Registry { what: bare(url).to_owned(), reason, hint, passes: answer.passes() }
    }

    /// A server that still does not answer, or refuses for a while, after the last trial.
    pub(super) fn away(&self, url: &str, reason: String) -> Error {
        Error::Registry { what: bare(url).to_owned(), reason, hint: None, passes: true }
    }

    /// Bytes that are not those of the digest they were asked for by.
    pub(super) fn damaged(&self, url: &str, found: OciDigest, expected: OciDigest) -> Error {
        let reason = format!("its digest is {found}, expected {expected}");
        let hint = "the registry's copy is damaged: push the image again, or use another registry";
        let (what, hint) = (bare(url).to_owned(), Some(hint.to_owned()));
        Error::Registry { what, reason, hint, passes: false }
    }

    /// Returns an error for any other reason.
    pub(super) fn failed(&self, url: &str, reason: String) -> Error {
        Error::Registry { what: bare(url).to_owned(), reason, hint: None, passes: false }
    }

    fn halt(&self, request: &Request, fault: WireFault) -> Halt {
        match fault {
            WireFault::Cancelled => Halt::Fatal(Error::Cancelled),
            WireFault::Sink(e) => Halt::Sink(e),
            WireFault::Passing(reason) => Halt::Passing(reason),
            WireFault::Lasting(reason) => Halt::Fatal(self.failed(&request.url, reason)),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Scope, (Secret, Instant)>> {
        // Only whole values are inserted, so a panic elsewhere leaves the map valid.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer of a token server.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

/// Waits before the next trial; `false` when there is none.
pub(super) fn again(trials: &mut dyn super::Retries, asked: Option<Duration>) -> Result<bool> {
    trials.again(asked).map_err(|_| Error::Cancelled)
}

fn keep(body: &mut Vec<u8>, bytes: &[u8], limit: usize) -> io::Result<()> {
    if body.len().saturating_add(bytes.len()) > limit {
        return Err(io::Error::other(format!("the answer is longer than {limit} bytes")));
    }
    body.extend_from_slice(bytes);
    Ok(())
}

/// A URL without its query, which may be a secret.
fn bare(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// Encodes fields as forms and queries do.
pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| {
        let mut out = String::new();
        for byte in text.bytes() {
            match byte {
                b if b.is_ascii_alphanumeric() || b"-._~".contains(&b) => out.push(b.into()),
                b => out.push_str(&format!("%{b:02X}")),
            }
        }
        out
    };
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}
