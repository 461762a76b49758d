//! Requests to one registry: authentication, redirects and retries.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gular_pelican::{
    Answered, Client, Exchange, ExchangeFault, Server, Watch, encode_path, url_of_location,
};
use serde::Deserialize;

use crate::answer::{passes, said};
use crate::challenge::{Challenge, challenges};
use crate::credentials::{Credentials, Login, find};
use crate::{Error, OciDigest, Reference, Result};

/// Redirects followed for one request.
const MAX_REDIRECTS: usize = 5;
/// Longest answer of a token server.
const MAX_TOKEN: usize = 64 << 10;
/// How long a token is valid if its server does not say, as in Docker.
const TOKEN_SECONDS: u64 = 60;

/// What a token must allow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope(Vec<String>);

/// A session with a registry about one repository: the server and the credentials for it.
pub struct Registry<'a> {
    client: &'a Client,
    watch: Watch<'a>,
    reference: Reference,
    /// The beginning of all URLs: `https://HOST`.
    base: String,
    login: Option<Login>,
    /// Values of `Authorization` by what they allow; the empty scope is a password's.
    known: Mutex<BTreeMap<Scope, (String, Instant)>>,
}

/// Why an attempt failed.
pub(crate) enum Halt {
    /// Another attempt may succeed, after the wait that the registry asks for.
    Again(Error, Option<Duration>),
    /// No attempt will succeed.
    Fatal(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

/// Receives the body of an answer.
type Receiver<'a> = dyn FnMut(&[u8]) -> io::Result<()> + 'a;

impl<'a> Registry<'a> {
    /// Opens a session with the registry of `reference`, over TLS; a registry on this machine may
    /// work without TLS. Credentials are found through the client's environment. All requests end
    /// when `watch` is cancelled.
    ///
    /// # Errors
    /// [`Error::Unusable`] for credentials that cannot be read; [`Error::Cancelled`].
    pub fn open(reference: &Reference, client: &'a Client, watch: Watch<'a>) -> Result<Self> {
        let login = find(reference, client.env())?;
        let mut base = format!("https://{}", reference.server());
        if reference.is_loopback() {
            // The request contains nothing secret. A server that speaks TLS refuses it, or hangs
            // up.
            let open = format!("http://{}", reference.server());
            let look = Exchange::new("GET", format!("{open}/v2/"));
            match client.exchange(&look, &mut |_| Ok(()), watch) {
                Err(ExchangeFault::Cancelled) => return Err(Error::Cancelled),
                Ok(answer) if answer.status != 400 => base = open,
                _ => {}
            }
        }
        let (reference, known) = (reference.clone(), Mutex::default());
        Ok(Self { client, watch, reference, base, login, known })
    }

    /// The name that the registry was opened with.
    #[must_use]
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// The URL of something in the repository: `blobs/DIGEST`.
    pub fn url(&self, rest: &str) -> String {
        format!("{}/v2/{}/{rest}", self.base, self.reference.repository())
    }

    /// What reading the repository takes.
    pub(crate) fn reading(&self) -> Scope {
        Scope(vec![format!("repository:{}:pull", self.reference.repository())])
    }

    /// What writing to the repository takes, with blobs of another one that are mounted.
    pub(crate) fn writing(&self, mount_from: Option<&str>) -> Scope {
        let own = format!("repository:{}:pull,push", self.reference.repository());
        let other = mount_from.map(|from| format!("repository:{from}:pull"));
        Scope([own].into_iter().chain(other).collect())
    }

    /// Attempts something until it succeeds, fails for good, or there is no attempt left. An
    /// attempt sets its flag when it made progress.
    pub(crate) fn attempts<T>(
        &self,
        mut attempt: impl FnMut(&mut bool) -> Result<T, Halt>,
    ) -> Result<T> {
        let mut trials = self.client.trials();
        loop {
            let mut progressed = false;
            let (error, asked) = match attempt(&mut progressed) {
                Ok(done) => return Ok(done),
                Err(Halt::Fatal(error)) => return Err(error),
                Err(Halt::Again(error, asked)) => (error, asked),
            };
            if progressed {
                trials.progressed();
            }
            if !trials.again(asked, self.watch).map_err(|_| Error::Cancelled)? {
                return Err(error);
            }
        }
    }

    /// The answer to a request that may be sent twice, and its body of at most `limit` bytes.
    pub(crate) fn ask(
        &self,
        request: &Exchange,
        scope: &Scope,
        limit: usize,
    ) -> Result<(Answered, Vec<u8>)> {
        self.collect(&request.url, limit, |receiver| self.once(request, scope, receiver))
    }

    /// Attempts a request until it has an answer, and collects its body.
    fn collect(
        &self,
        url: &str,
        limit: usize,
        mut send: impl FnMut(&mut Receiver<'_>) -> Result<Answered, Halt>,
    ) -> Result<(Answered, Vec<u8>)> {
        self.attempts(|_| {
            let mut body = Vec::new();
            let answer = send(&mut |bytes| {
                if body.len().saturating_add(bytes.len()) > limit {
                    let reason = format!("the answer is longer than {limit} bytes");
                    return Err(io::Error::other(reason));
                }
                body.extend_from_slice(bytes);
                Ok(())
            });
            match answer {
                Ok(answer) => Ok((answer, body)),
                Err(Halt::Fatal(Error::Sink(e))) => Err(self.failed(url, e.to_string()).into()),
                Err(halt) => Err(halt),
            }
        })
    }

    /// Sends a request once: authenticates if that is asked for, and follows redirects. The
    /// authorization is sent to no other server.
    pub(crate) fn once(
        &self,
        request: &Exchange,
        scope: &Scope,
        receiver: &mut Receiver<'_>,
    ) -> Result<Answered, Halt> {
        let home = server(&self.base);
        let mut at = request.clone();
        let mut asked = false;
        let mut redirects = 0;
        loop {
            let at_home = server(&at.url) == home;
            at.authorization = if at_home { self.authorization(scope) } else { None };
            let answer = self.send(&at, &request.url, receiver)?;
            match answer.status {
                401 if at_home && !asked => {
                    asked = true;
                    if !self.login(&answer, scope)? {
                        return Ok(answer);
                    }
                }
                301 | 302 | 303 | 307 | 308 if matches!(at.method, "GET" | "HEAD") => {
                    redirects += 1;
                    let to = answer.header("location").and_then(|to| url_of_location(&at.url, to));
                    let Some(to) = to.filter(|_| redirects <= MAX_REDIRECTS) else {
                        let reason =
                            "it redirects in a loop, to an invalid URL, or to one without TLS";
                        return Err(self.failed(&at.url, reason).into());
                    };
                    at.url = to;
                }
                _ => return Ok(answer),
            }
        }
    }

    /// Sends a request, for which errors name `url`.
    fn send(
        &self,
        request: &Exchange,
        url: &str,
        receiver: &mut Receiver<'_>,
    ) -> Result<Answered, Halt> {
        match self.client.exchange(request, receiver, self.watch) {
            Ok(answer) if passes(&answer) => {
                Err(Halt::Again(self.away(url, said(&answer)), answer.retry_after))
            }
            Ok(answer) => Ok(answer),
            Err(ExchangeFault::Passing(reason)) => Err(Halt::Again(self.away(url, reason), None)),
            Err(ExchangeFault::Lasting(reason)) => Err(self.failed(&request.url, reason).into()),
            Err(ExchangeFault::Sink(e)) => Err(Error::Sink(e).into()),
            Err(ExchangeFault::Cancelled) => Err(Error::Cancelled.into()),
        }
    }

    /// The `Authorization` of a request with this scope.
    fn authorization(&self, scope: &Scope) -> Option<String> {
        let mut known = self.known();
        known.retain(|_, (_, until)| *until > Instant::now());
        let found = known.get(scope).or_else(|| known.get(&Scope(Vec::new())));
        found.map(|(secret, _)| secret.clone())
    }

    /// Gets what a 401 asks for; `false` when there is nothing to show.
    fn login(&self, answer: &Answered, scope: &Scope) -> Result<bool> {
        let headers = answer.headers.iter().filter(|(name, _)| name == "www-authenticate");
        for challenge in headers.flat_map(|(_, value)| challenges(value)) {
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
    ) -> Result<(String, Duration)> {
        let keeps_secrets = server(realm).map(|server| server.keeps_secrets());
        if keeps_secrets.is_none_or(|keeps| !keeps && self.login.is_some()) {
            let reason =
                format!("the registry asks for a token from `{realm}`, which does not use TLS");
            return Err(self.failed(&self.base, reason));
        }
        let request = self.token_request(realm, service, scope);
        let shown = bare(&request.url);
        let sent = self.collect(shown, MAX_TOKEN, |receiver| self.send(&request, shown, receiver));
        let (answer, body) = sent?;
        if !(200..300).contains(&answer.status) {
            return Err(self.refused(shown, &answer));
        }
        let said: Option<Token> = serde_json::from_slice(&body).ok();
        let (token, expires_in) = said
            .and_then(|said| Some((said.token.or(said.access_token)?, said.expires_in)))
            .filter(|(token, _)| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()))
            .ok_or_else(|| self.failed(realm, "the answer contains no token"))?;
        // A little shorter: a request takes its time, and clocks differ.
        let seconds = expires_in.unwrap_or(TOKEN_SECONDS).clamp(TOKEN_SECONDS, 86_400);
        Ok((format!("Bearer {token}"), Duration::from_secs(seconds).mul_f64(0.8)))
    }

    fn token_request(&self, realm: &str, service: Option<&str>, scope: &Scope) -> Exchange {
        let mut fields: Vec<(&str, &str)> = vec![];
        fields.extend(service.map(|service| ("service", service)));
        let credentials = self.login.as_ref().map(|login| &login.credentials);
        if let Some(Credentials::Identity(identity)) = credentials {
            let scopes = scope.0.join(" ");
            fields.extend([
                ("client_id", "gular"),
                ("grant_type", "refresh_token"),
                ("refresh_token", identity),
                ("scope", &scopes),
            ]);
            return Exchange::new("POST", realm)
                .header("content-type", "application/x-www-form-urlencoded")
                .body(form(&fields).into_bytes());
        }
        fields.extend(scope.0.iter().map(|scope| ("scope", scope.as_str())));
        let mut request = Exchange::new("GET", with_query(realm, &fields));
        request.authorization = credentials.and_then(Credentials::basic);
        request
    }

    /// An answer that is not the one wanted, as an error.
    pub(crate) fn refused(&self, url: &str, answer: &Answered) -> Error {
        let reason = said(answer);
        match answer.status {
            401 | 403 => {
                let host = self.reference.host();
                let shown = match &self.login {
                    Some(login) => format!("the credentials of `{}` were sent", login.from),
                    None => "no credentials for this registry were found".to_owned(),
                };
                let hint = format!("log in: `podman login {host}` or `docker login {host}`");
                self.failed(url, format!("{reason}; {shown}")).with_hint(hint)
            }
            404 => self.failed(url, reason).with_hint(
                "check the name and its tag or digest; `skopeo list-tags docker://HOST/NAME` lists the tags",
            ),
            _ => self.failed(url, reason),
        }
    }

    /// A server that does not answer, or says something that may change.
    pub(crate) fn away(&self, url: &str, reason: impl Into<String>) -> Error {
        let (what, reason) = (bare(url).to_owned(), reason.into());
        Error::Unusable { what, reason, hint: None, passes: true }
    }

    /// Bytes that are not those of the digest they were asked for by.
    pub(crate) fn damaged(&self, url: &str, found: OciDigest, expected: OciDigest) -> Error {
        let reason = format!("its digest is {found}, expected {expected}");
        let hint = "the registry's copy is damaged: push it again, or use another registry";
        self.failed(url, reason).with_hint(hint)
    }

    /// Returns an error for any other reason.
    pub(crate) fn failed(&self, url: &str, reason: impl Into<String>) -> Error {
        Error::unusable(bare(url), reason)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Scope, (String, Instant)>> {
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

/// The server of a URL.
fn server(url: &str) -> Option<Server> {
    Server::split(url).map(|(server, _)| server)
}

/// A URL without its query, which may be a secret.
fn bare(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// A URL with these fields added to its query.
pub(crate) fn with_query(url: &str, fields: &[(&str, &str)]) -> String {
    let mark = if url.contains('?') { '&' } else { '?' };
    format!("{url}{mark}{}", form(fields))
}

/// Encodes fields as forms and queries do, in which a `/` may stay.
fn form(fields: &[(&str, &str)]) -> String {
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", encode_path(value)));
    pairs.collect::<Vec<_>>().join("&")
}
