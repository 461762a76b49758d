//! Finds out what the origin stores under a name, and whether it equals the file.
//!
//! ```text
//! PROPFIND, depth 0     is it there, how long: no server reads it for that
//! HEAD, Want-Digest     its checksum: the origin reads all of it, once
//! GET                   its bytes, where its checksum is missing or of another kind
//! ```

use std::time::{Duration, Instant};

use hyper::Method;
use hyper::header::CONTENT_LENGTH;
use tokio::time::sleep;

use super::Writer;
use super::job::{CompareBy, Compared, Job};
use crate::checksum::{WANT_DIGEST, digest_patience, parse_digest};
use crate::error::Attempts;
use crate::http::{Fault, Request, Response};
use crate::listing::{MAX_LISTING_BYTES, Responses, Spelling};
use crate::route::{Place, Route, header, propfind};
use crate::token::Action;
use crate::url::percent_decode;
use crate::{Diagnosis, Error, Scheme, Url};

/// What the origin stores under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum There {
    Nothing,
    Collection,
    Same(Compared),
    /// Length and, where known, digest of something else.
    Other {
        len: Option<u64>,
        digest: Option<String>,
    },
    /// The token allows writing, but not reading.
    Unread,
}

impl There {
    pub(super) fn known(&self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Collection => "a collection".to_owned(),
            Self::Same(_) => "the same".to_owned(),
            Self::Unread => "contents that this token may not read".to_owned(),
            Self::Other { len, digest } => {
                let len = len
                    .map_or("an object of unknown length".to_owned(), |len| format!("{len} bytes"));
                digest.as_ref().map_or(len.clone(), |digest| format!("{len}, {digest}"))
            }
        }
    }
}

/// The answer to a read at the origin.
enum Read {
    Answer(Response),
    /// The token is for writing alone.
    Unread,
}

/// Why a trial came to no result.
pub(super) enum TrialError {
    /// The next trial may do better; the text says what happened.
    Passing(String),
    /// Another trial is of no use.
    Final(Error),
}

impl From<Error> for TrialError {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl From<Fault> for TrialError {
    fn from(fault: Fault) -> Self {
        Self::Passing(fault.to_string())
    }
}

/// Returns the result of a trial; `None` if the next one may have one.
pub(super) fn if_settled<T>(trial: Result<T, TrialError>) -> Result<Option<T>, Error> {
    match trial {
        Ok(result) => Ok(Some(result)),
        Err(TrialError::Passing(_)) => Ok(None),
        Err(TrialError::Final(error)) => Err(error),
    }
}

impl Writer {
    /// Compares what the origin has with the file. With `len_known`, an object of the file's length
    /// is there, so that the digest is asked for at once.
    pub(super) async fn compare(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
        len_known: bool,
    ) -> Result<There, TrialError> {
        if !len_known {
            match self.look(job, route, place).await? {
                There::Other { len, .. } if len == Some(job.local.len) => {}
                other => return Ok(other),
            }
        }
        if job.compare_by == CompareBy::Size {
            return Ok(There::Same(Compared::Length));
        }
        let mut asked = Request::new(Method::HEAD, &place.server, place.target.as_str())
            .header(header("want-digest"), WANT_DIGEST);
        asked.patience = Some(digest_patience(job.local.len));
        let mut response = match self.read_at_origin(job.url, route, place, &asked).await? {
            Read::Answer(response) => response,
            Read::Unread => return Ok(There::Unread),
        };
        if response.status != 200 {
            // Some servers answer HEAD, but refuse it if it asks for a digest, even with 404 for an
            // object that exists. Without a digest the bytes themselves are compared.
            response.finish().await;
            let head = Request::new(Method::HEAD, &place.server, place.target.as_str());
            response = match self.read_at_origin(job.url, route, place, &head).await? {
                Read::Answer(response) => response,
                Read::Unread => return Ok(There::Unread),
            };
        }
        let status = response.status;
        let len = response.content_length();
        let digest = response.header("digest").and_then(parse_digest);
        response.finish().await;
        match status {
            200 if len == Some(job.local.len) => {}
            200 => return Ok(There::Other { len, digest: None }),
            404 => return Ok(There::Nothing),
            status => return Err(TrialError::Passing(format!("it answered {status} to HEAD"))),
        }
        match &digest {
            Some(theirs) if job.local.checksum(theirs, job.watch)? == *theirs => {
                return Ok(There::Same(Compared::Bytes));
            }
            None if job.compare_by == CompareBy::Digest => {
                return Ok(There::Same(Compared::Length));
            }
            _ => {}
        }
        // XRootD keeps digests by the second of the last change. If two publishers write within one
        // second, it may report the digest of the first object forever, so only the bytes
        // themselves show that they differ.
        Ok(match self.read_back(job, route, place, job.local.len).await? {
            true => There::Same(Compared::Bytes),
            false => There::Other { len, digest: digest.map(|theirs| theirs.to_string()) },
        })
    }

    /// Finds out what is stored, by name and length alone: an object of another length is
    /// `Other`, whatever its bytes.
    async fn look(&self, job: &Job<'_>, route: &Route, place: &Place) -> Result<There, TrialError> {
        if self.is_write_only(job.url, route)? {
            return Ok(There::Unread);
        }
        // Origins of version 2 read the whole object to answer any HEAD. Single servers
        // rarely know PROPFIND.
        if job.url.scheme() == Scheme::Pelican
            && let Some(found) = self.look_by_list(job.url, route, place).await?
        {
            return Ok(found);
        }
        let head = Request::new(Method::HEAD, &place.server, place.target.as_str());
        let response = match self.read_at_origin(job.url, route, place, &head).await? {
            Read::Answer(response) => response,
            Read::Unread => return Ok(There::Unread),
        };
        let (status, len) = (response.status, response.content_length());
        response.finish().await;
        match status {
            200 => Ok(There::Other { len, digest: None }),
            404 => Ok(There::Nothing),
            status => Err(TrialError::Passing(format!("it answered {status} to HEAD"))),
        }
    }

    /// Looks at the object by PROPFIND; `None` if the answer does not help.
    async fn look_by_list(
        &self,
        url: &Url,
        route: &Route,
        place: &Place,
    ) -> Result<Option<There>, TrialError> {
        let target = place.target.split('?').next().unwrap_or_default();
        let request = Request::new(propfind(), &place.server, target)
            .header(header("depth"), "0")
            .header(CONTENT_LENGTH, "0");
        let token = match &route.namespace {
            Some(namespace) if !namespace.require_token => None,
            namespace => self.credentials.live_token(url, Action::Read, namespace.as_ref()).await?,
        };
        let response = match self.router.http.send(&request.token(token.as_ref())).await {
            Ok(response) => response,
            // The other request reports this fault.
            Err(Fault::Tls(..)) => return Ok(None),
            Err(fault) => return Err(fault.into()),
        };
        match response.status {
            207 => {}
            404 => {
                response.finish().await;
                return Ok(Some(There::Nothing));
            }
            _ => {
                response.finish().await;
                return Ok(None);
            }
        }
        let Ok(body) = response.read(MAX_LISTING_BYTES).await else { return Ok(None) };
        let path = percent_decode(target).unwrap_or_default();
        // Both spellings of this path mean the same one.
        let responses = Responses::parse(&body, &path).ok();
        let found = responses.and_then(|r| r.read(r.spelling().unwrap_or(Spelling::Encoded)).ok());
        let itself = found.and_then(|found| found.itself);
        Ok(itself.and_then(|entry| match (entry.collection, entry.len_bytes) {
            (true, _) => Some(There::Collection),
            (false, Some(len)) => Some(There::Other { len: Some(len), digest: None }),
            (false, None) => None,
        }))
    }

    /// Waits until what lies there is the same, or stands still.
    pub(super) async fn settled(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
        mut last: There,
    ) -> Result<There, Error> {
        let settle = self.options.settle;
        let mut since = Instant::now();
        // Few requests: each may cost the origin some work.
        let mut wait = settle / 20;
        while since.elapsed() < settle {
            sleep(wait).await;
            wait = (wait * 2).min(settle / 4);
            let mut now = if_settled(self.look(job, route, place).await)?;
            if matches!(now, Some(There::Other { len, .. }) if len == Some(job.local.len)) {
                now = if_settled(self.compare(job, route, place, false).await)?;
            }
            let Some(now) = now else { continue };
            if matches!(now, There::Same(_)) {
                return Ok(now);
            }
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(last)
    }

    /// Whether the object's first `len` bytes are those of the file.
    pub(super) async fn read_back(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
        len: u64,
    ) -> Result<bool, TrialError> {
        let request = Request::new(Method::GET, &place.server, place.target.as_str());
        let mut response = match self.read_at_origin(job.url, route, place, &request).await? {
            Read::Answer(response) if response.status == 200 => response,
            Read::Answer(response) => {
                let answered = format!("it answered {} to GET", response.status);
                return Err(TrialError::Passing(answered));
            }
            Read::Unread => return Err(TrialError::Passing("it may not be read".to_owned())),
        };
        let mut ours = Vec::new();
        let mut position = 0;
        loop {
            let Some(theirs) = response.chunk().await? else { return Ok(position == len) };
            ours.resize(theirs.len(), 0);
            let n = job.local.piece_at(position, &mut ours)?;
            if ours.get(..n) != Some(&theirs[..]) {
                return Ok(false);
            }
            position += theirs.len() as u64;
        }
    }

    /// Sends a read to the origin: with the token, or without where reads are
    /// open and the token is for writing only.
    async fn read_at_origin(
        &self,
        url: &Url,
        route: &Route,
        place: &Place,
        request: &Request,
    ) -> Result<Read, TrialError> {
        if self.is_write_only(url, route)? {
            return Ok(Read::Unread);
        }
        let namespace = route.namespace.as_ref();
        let token = self.credentials.live_token(url, Action::Read, namespace).await?;
        let at = |place: &Place, ours: bool| {
            let mut request = request.clone();
            request.server = place.server.clone();
            request.target.clone_from(&place.target);
            request.token(token.as_ref().filter(|_| ours))
        };
        let first = match self.router.send_following(url, place, at).await {
            Ok(response) => response,
            // Trying again does not repair a certificate.
            Err(fault @ Fault::Tls(..)) => {
                let mut attempts = Attempts::default();
                attempts.add(&place.server, &fault);
                let (url, elapsed) = (url.to_string(), Duration::ZERO);
                return Err(Error::Failed { action: "write", url, attempts, elapsed }.into());
            }
            Err(fault) => return Err(fault.into()),
        };
        if !matches!(first.status, 401 | 403) {
            return Ok(Read::Answer(first));
        }
        let status = first.status;
        first.finish().await;
        if token.is_some() {
            match self.router.http.send(request).await {
                Ok(response) if !matches!(response.status, 401 | 403) => {
                    return Ok(Read::Answer(response));
                }
                Ok(response) => response.finish().await,
                Err(fault) => return Err(fault.into()),
            }
        }
        if self.may_be_write_only(url, route)? {
            return Ok(Read::Unread);
        }
        // A token that cannot write here need not be able to read.
        let writes = self.credentials.diagnosis(url, Action::Create, namespace)?.weight() < 2;
        let what = if writes { Action::Read } else { Action::Create };
        Err(self.credentials.denied_as(what, url, namespace, &place.server, status.into()).into())
    }

    /// Whether the token shows that reads will be refused, and writes may not: Pelican gives users
    /// who want to write a token for that alone.
    fn is_write_only(&self, url: &Url, route: &Route) -> Result<bool, Error> {
        let Some(namespace) = route.namespace.as_ref().filter(|found| found.require_token) else {
            return Ok(false);
        };
        Ok(self.credentials.diagnosis(url, Action::Read, Some(namespace))?.is_scope()
            && self.credentials.diagnosis(url, Action::Create, Some(namespace))?.weight() < 2)
    }

    /// Whether a refused read may be due to a token for writing alone. It may if the token shows
    /// it, or if only the server can read the token.
    fn may_be_write_only(&self, url: &Url, route: &Route) -> Result<bool, Error> {
        let namespace = route.namespace.as_ref();
        let of = |action| self.credentials.diagnosis(url, action, namespace);
        let read = of(Action::Read)?;
        let opaque = matches!(read, Diagnosis::Unexplained { opaque: true, .. });
        Ok((read.is_scope() || opaque) && of(Action::Create)?.weight() < 2)
    }
}
