//! Writing objects, once: what exists is compared, never overwritten.
//!
//! ```text
//! at the origin there is    we                         which counts as
//! nothing                   PUT, then compare          uploaded
//! the same bytes            do nothing                 identical
//! part of it, growing       wait: another publisher    identical
//! other bytes, still        take the next name (`~1`)  burned by a cut upload
//! ```

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_LENGTH, IF_NONE_MATCH};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::checksum::{Checksum, Summer, WANT_DIGEST, parse_digest};
use crate::client::{Client, Inner};
use crate::error::Attempts;
use crate::http::{self, Fault, Request, Response};
use crate::local::{self, Likeness};
use crate::read::{MAX_RENAMES, numbered};
use crate::retry::{Policy, Retry};
use crate::route::{Place, Route, Verb, header, retry_after, said};
use crate::token::Action;
use crate::{Error, Scheme, Url};

/// Bytes read from the file at a time; four of them wait for the network.
const PIECE: usize = 256 << 10;

/// An origin reads the whole object to answer for its digest: 3 s a GB for md5 were
/// measured on a fast disk.
fn digest_patience(len: u64) -> Duration {
    Duration::from_secs(15 + len / (50 << 20))
}

/// What to do when other bytes lie under the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfTaken {
    /// Fail: the name means something to people.
    Refuse,
    /// Take the next name when what lies there is the beginning of the same
    /// bytes, as a cut upload leaves it; else fail.
    RenameIfCut,
    /// Take the next name: readers know the content by its digest.
    Rename,
}

/// A file and the name it gets.
#[derive(Debug, Clone, Copy)]
pub struct Upload<'a> {
    /// The file, which nobody may change meanwhile.
    pub from: &'a Path,
    /// The name.
    pub to: &'a Url,
    /// Other bytes lie there already.
    pub if_taken: IfTaken,
    /// A listing of a moment ago does not have it: no need to ask first. What another
    /// publisher began meanwhile is found when the two are compared.
    pub absent: bool,
}

/// What became of an [`Upload`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// Where the bytes lie: the name asked for, or one after it.
    pub url: Url,
    /// Its length.
    pub len_bytes: u64,
    /// It was there already.
    pub identical: bool,
}

impl Client {
    /// Uploads a file, or finds that it is there already, and compares what the
    /// origin has with it: length, and digest; where the origin has no digests, by
    /// reading back.
    ///
    /// `progress` is told of bytes as they are read; after a failed trial they
    /// are read again, and the count goes back (a negative number).
    /// With `dry_run` nothing is written: it says what would be.
    ///
    /// # Errors
    /// [`Error::Denied`] (the token needs both `storage.create` and `storage.read`),
    /// [`Error::Taken`], [`Error::Burned`], [`Error::Failed`], [`Error::Changed`],
    /// [`Error::Io`], [`Error::Cancelled`].
    pub fn upload(
        &self,
        upload: &Upload<'_>,
        dry_run: bool,
        progress: &dyn Fn(i64),
        cancel: &AtomicBool,
    ) -> Result<Uploaded, Error> {
        let local = Local::open(upload.from)?;
        let mut found = String::new();
        for renamed in 0..=MAX_RENAMES {
            let url = numbered(upload.to, renamed);
            let done = |identical| Uploaded { url: url.clone(), len_bytes: local.len, identical };
            let result = if url.scheme() == Scheme::File {
                local_upload(&local, &url, dry_run, progress, cancel)
            } else {
                let absent = upload.absent && renamed == 0;
                let began = Cell::new(false);
                let job = Job { url: &url, local: &local, absent, dry_run, progress, began };
                self.block(cancel, self.0.upload_to(&job))
            };
            match result? {
                Placed::Written => return Ok(done(false)),
                Placed::Identical => {
                    progress(i64::try_from(local.len).unwrap_or(i64::MAX));
                    return Ok(done(true));
                }
                Placed::Other { known, cut } => {
                    let rename = match upload.if_taken {
                        IfTaken::Rename => true,
                        IfTaken::RenameIfCut => cut,
                        IfTaken::Refuse => false,
                    };
                    if !rename {
                        return Err(Error::Taken { url: url.to_string(), found: known });
                    }
                    found = known;
                }
            }
        }
        Err(Error::Burned { url: upload.to.to_string(), tried: MAX_RENAMES, found })
    }
}

/// What became of one name.
enum Placed {
    Written,
    Identical,
    /// Something else lies there; whether it is the beginning of ours.
    Other {
        known: String,
        cut: bool,
    },
}

fn local_upload(
    local: &Local<'_>,
    url: &Url,
    dry_run: bool,
    progress: &dyn Fn(i64),
    cancel: &AtomicBool,
) -> Result<Placed, Error> {
    let judge = |written| -> Result<Option<Placed>, Error> {
        Ok(match local::compare(url, local.path)? {
            None => None,
            Some(Likeness::Same) if written => Some(Placed::Written),
            Some(Likeness::Same) => Some(Placed::Identical),
            // A local upload is atomic, so what differs was never a beginning.
            Some(Likeness::Other(known)) => Some(Placed::Other { known, cut: false }),
        })
    };
    if let Some(placed) = judge(false)? {
        return Ok(placed);
    }
    if dry_run {
        return Ok(Placed::Written);
    }
    let advance = |n: u64| progress(i64::try_from(n).unwrap_or(i64::MAX));
    local::write(url, local.path, &advance, cancel)?;
    judge(true)?.ok_or_else(|| local.changed("the copy vanished"))
}

/// The file to be uploaded.
struct Local<'a> {
    path: &'a Path,
    file: File,
    len: u64,
}

impl<'a> Local<'a> {
    fn open(path: &'a Path) -> Result<Self, Error> {
        let io = |e| Error::io("open", path, e);
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(io(io::Error::other("it is not a regular file")));
        }
        Ok(Self { path, len: metadata.len(), file })
    }

    fn changed(&self, reason: &str) -> Error {
        Error::Changed { path: self.path.to_owned(), reason: reason.to_owned() }
    }

    /// Its checksum by the algorithm of `like`.
    fn checksum(&self, like: &Checksum) -> Result<Checksum, Error> {
        let mut summer = Summer::new(like.algorithm);
        let mut piece = vec![0; PIECE];
        let mut position = 0;
        while position < self.len {
            let n = self.piece_at(position, &mut piece)?;
            summer.update(piece.get(..n).unwrap_or_default());
            position += n as u64;
        }
        Ok(summer.finish())
    }

    /// Fills as much of `piece` as the file has from `position` on.
    fn piece_at(&self, position: u64, piece: &mut [u8]) -> Result<usize, Error> {
        let left = usize::try_from(self.len.saturating_sub(position)).unwrap_or(usize::MAX);
        let n = left.min(piece.len());
        let part = piece.get_mut(..n).unwrap_or_default();
        match self.file.read_exact_at(part, position) {
            Ok(()) => Ok(n),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.changed("it became shorter"))
            }
            Err(e) => Err(Error::io("read", self.path, e)),
        }
    }
}

/// One name to be written.
struct Job<'a> {
    url: &'a Url,
    local: &'a Local<'a>,
    absent: bool,
    dry_run: bool,
    progress: &'a dyn Fn(i64),
    /// Whether a trial has sent any of it: then what lies there is ours.
    began: Cell<bool>,
}

/// What lies at the origin under a name.
#[derive(Debug, PartialEq, Eq)]
enum There {
    Nothing,
    Same,
    /// Length and, where known, digest of something else.
    Other {
        len: Option<u64>,
        digest: Option<String>,
    },
}

impl There {
    fn known(&self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Same => "the same".to_owned(),
            Self::Other { len, digest } => {
                let len = len.map_or("of unknown length".to_owned(), |len| format!("{len} bytes"));
                digest.as_ref().map_or(len.clone(), |digest| format!("{len}, {digest}"))
            }
        }
    }
}

/// How a PUT ended.
enum Put {
    /// The server says it is stored.
    Accepted,
    /// It exists already, says the server.
    Exists,
    /// 401 or 403: no right, or no right to overwrite.
    Refused(u16),
    /// Worth another trial.
    Again(String, Option<Duration>),
    /// Not worth one.
    Failed(String),
}

impl Inner {
    async fn upload_to(&self, job: &Job<'_>) -> Result<Placed, Error> {
        let route = self.route(job.url, Verb::Write).await?;
        let mut attempts = Attempts::default();
        let mut retry = Retry::new(Policy::UPLOAD, self.options.patience);
        // The first one named is the one to write to; others are for when it is dead.
        for (trial, place) in route.places.iter().cycle().enumerate() {
            let known = (job.absent && trial == 0).then_some(There::Nothing);
            let (why, asked) = match self.upload_at(job, &route, place, known).await? {
                Tried::Placed(placed) => return Ok(placed),
                Tried::Again(why, asked) => (why, Some(asked)),
                Tried::Failed(why) => (why, None),
            };
            attempts.add(&place.server, why);
            if job.began.get() {
                // Bytes went out, and that may well take longer than patience lasts.
                retry.moved();
            }
            let Some(wait) = asked.and_then(|asked| retry.again(asked)) else {
                let (url, elapsed) = (job.url.to_string(), retry.elapsed());
                return Err(Error::Failed { action: "write", url, attempts, elapsed });
            };
            sleep(wait).await;
        }
        let reason = "the director names no origin".to_owned();
        Err(Error::Unsupported { action: "write", url: job.url.to_string(), reason })
    }

    async fn upload_at(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
        known: Option<There>,
    ) -> Result<Tried, Error> {
        let there = match known {
            Some(known) => Ok(known),
            None => self.compare(job, route, place).await?,
        };
        match there {
            Ok(There::Same) if job.began.get() => return Ok(Tried::Placed(Placed::Written)),
            Ok(There::Same) => return Ok(Tried::Placed(Placed::Identical)),
            Ok(other @ There::Other { .. }) => {
                if job.dry_run {
                    return self.other(job, route, place, &other).await;
                }
                // Perhaps another publisher is writing it this moment.
                return match self.settled(job, route, place, other).await? {
                    There::Same => Ok(Tried::Placed(Placed::Identical)),
                    There::Nothing => Ok(Tried::Again("it vanished again".to_owned(), None)),
                    other => self.other(job, route, place, &other).await,
                };
            }
            Ok(There::Nothing) if job.dry_run => return Ok(Tried::Placed(Placed::Written)),
            Ok(There::Nothing) => {}
            Err(fault) => return Ok(Tried::Again(fault, None)),
        }
        let (put, began) = self.put(job, route, place).await?;
        job.began.set(job.began.get() || began);
        if let Put::Failed(why) = put {
            return Ok(Tried::Failed(why));
        }
        let there = match self.compare(job, route, place).await? {
            Ok(there) => there,
            Err(fault) => return Ok(Tried::Again(fault, None)),
        };
        Ok(match (put, there) {
            (Put::Exists | Put::Refused(_), There::Same) => Tried::Placed(Placed::Identical),
            (_, There::Same) => Tried::Placed(Placed::Written),
            (Put::Refused(status), There::Nothing) => {
                let namespace = route.namespace.as_ref();
                let server = &place.server;
                return Err(self.denied_as(Action::Create, job.url, namespace, server, status));
            }
            (Put::Accepted, There::Nothing) => {
                Tried::Again("it says stored, and then that there is nothing".to_owned(), None)
            }
            (Put::Again(why, after), There::Nothing) => Tried::Again(why, after),
            (put, other) => {
                // After a cut upload of our own nothing is going to change any more,
                // unless a second publisher is at work: a moment tells.
                let there = self.settled(job, route, place, other).await?;
                match (put, there) {
                    (Put::Accepted, There::Same) => Tried::Placed(Placed::Written),
                    (_, There::Same) => Tried::Placed(Placed::Identical),
                    (Put::Again(why, after), There::Nothing) => Tried::Again(why, after),
                    (_, There::Nothing) => Tried::Again("it vanished again".to_owned(), None),
                    (_, other) => return self.other(job, route, place, &other).await,
                }
            }
        })
    }

    /// What to say of other bytes: whether they are the beginning of ours.
    async fn other(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
        other: &There,
    ) -> Result<Tried, Error> {
        let cut = match other {
            There::Other { len: Some(len), .. } if *len < job.local.len => {
                matches!(self.read_back(job, route, place, *len).await?, Ok(true))
            }
            _ => false,
        };
        let known = other.known();
        let cut_too = if cut { ": the beginning of ours, as a cut upload leaves it" } else { "" };
        Ok(Tried::Placed(Placed::Other { known: format!("{known}{cut_too}"), cut }))
    }

    /// Waits until what lies there is the same, or stands still.
    async fn settled(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
        mut last: There,
    ) -> Result<There, Error> {
        let mut since = Instant::now();
        while since.elapsed() < self.options.settle {
            sleep(Duration::from_millis(500)).await;
            let Ok(now) = self.compare(job, route, place).await? else { continue };
            if now == There::Same {
                return Ok(now);
            }
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(last)
    }

    /// Compares what the origin has with the file; the inner error is passing.
    async fn compare(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
    ) -> Result<Result<There, String>, Error> {
        let head = Request::new(Method::HEAD, &place.server, place.target.as_str());
        let response = match self.with_read_token(job.url, route, place, &head).await? {
            Ok(response) => response,
            Err(fault) => return Ok(Err(fault.to_string())),
        };
        let len = match response.status {
            200 => response.content_length(),
            _ => None,
        };
        let status = response.status;
        response.finish().await;
        match status {
            200 => {}
            404 => return Ok(Ok(There::Nothing)),
            status => return Ok(Err(format!("{status} to HEAD"))),
        }
        if len != Some(job.local.len) {
            return Ok(Ok(There::Other { len, digest: None }));
        }
        let mut asked = head.header(header("want-digest"), WANT_DIGEST);
        asked.patience = Some(digest_patience(job.local.len));
        let digest = match self.with_read_token(job.url, route, place, &asked).await? {
            Ok(response) if response.status == 200 => {
                let digest = response.header("digest").and_then(parse_digest);
                response.finish().await;
                digest
            }
            // No digest is no fault: then the bytes themselves are compared.
            Ok(response) => {
                response.finish().await;
                None
            }
            Err(fault) => return Ok(Err(fault.to_string())),
        };
        if let Some(theirs) = &digest
            && job.local.checksum(theirs)? == *theirs
        {
            return Ok(Ok(There::Same));
        }
        // XRootD keeps digests by the second of the last change: of two publishers'
        // writes within one second it may tell the digest of the first moment for
        // good. Only the bytes themselves say that they are others.
        Ok(match self.read_back(job, route, place, job.local.len).await? {
            Ok(true) => Ok(There::Same),
            Ok(false) => Ok(There::Other { len, digest: digest.map(|theirs| theirs.to_string()) }),
            Err(fault) => Err(fault),
        })
    }

    /// Whether the first `len` bytes are those of the file.
    async fn read_back(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
        len: u64,
    ) -> Result<Result<bool, String>, Error> {
        let request = Request::new(Method::GET, &place.server, place.target.as_str());
        let mut response = match self.with_read_token(job.url, route, place, &request).await? {
            Ok(response) if response.status == 200 => response,
            Ok(response) => return Ok(Err(format!("{} to GET", response.status))),
            Err(fault) => return Ok(Err(fault.to_string())),
        };
        let mut ours = Vec::new();
        let mut position = 0;
        loop {
            let theirs = match response.chunk().await {
                Ok(Some(theirs)) => theirs,
                Ok(None) => return Ok(Ok(position == len)),
                Err(fault) => return Ok(Err(fault.to_string())),
            };
            ours.resize(theirs.len(), 0);
            let n = job.local.piece_at(position, &mut ours)?;
            if ours.get(..n) != Some(&theirs[..]) {
                return Ok(Ok(false));
            }
            position += theirs.len() as u64;
        }
    }

    /// Sends a read to the origin: with the token, or without where reads are
    /// open and the token is for writing only.
    async fn with_read_token(
        &self,
        url: &Url,
        route: &Route,
        place: &Place,
        request: &Request,
    ) -> Result<Result<Response, Fault>, Error> {
        let namespace = route.namespace.as_ref();
        let token = self.token(url, Action::Read, namespace)?;
        let first = match self.http.send(&request.clone().token(token.as_ref())).await {
            Ok(response) => response,
            // No trial mends a certificate.
            Err(fault @ Fault::Tls(_)) => {
                let mut attempts = Attempts::default();
                attempts.add(&place.server, &fault);
                let (url, elapsed) = (url.to_string(), Duration::ZERO);
                return Err(Error::Failed { action: "write", url, attempts, elapsed });
            }
            Err(fault) => return Ok(Err(fault)),
        };
        if !matches!(first.status, 401 | 403) {
            return Ok(Ok(first));
        }
        let status = first.status;
        first.finish().await;
        if token.is_some() {
            match self.http.send(request).await {
                Ok(response) if !matches!(response.status, 401 | 403) => return Ok(Ok(response)),
                Ok(response) => response.finish().await,
                Err(fault) => return Ok(Err(fault)),
            }
        }
        Err(self.denied_as(Action::Read, url, namespace, &place.server, status))
    }

    /// One PUT; the second value says whether part of it may lie there.
    async fn put(&self, job: &Job<'_>, route: &Route, place: &Place) -> Result<(Put, bool), Error> {
        let namespace = route.namespace.as_ref();
        let token = self.token(job.url, Action::Create, namespace)?;
        let mark = if place.target.contains('?') { '&' } else { '?' };
        let target = format!("{}{mark}oss.asize={}", place.target, job.local.len);
        let request = Request::new(Method::PUT, &place.server, target)
            .header(IF_NONE_MATCH, "*")
            .header(CONTENT_LENGTH, job.local.len.to_string())
            .token(token.as_ref());
        let mut expect = true;
        loop {
            let (result, began) = self.send_file(job, &request, expect).await?;
            let put = match result {
                Err(Fault::Source(reason)) => return Err(job.local.changed(&reason)),
                Err(fault) => Put::Again(fault.to_string(), None),
                Ok(response) => match response.status {
                    200..=299 => {
                        response.finish().await;
                        Put::Accepted
                    }
                    409 | 412 => {
                        response.finish().await;
                        Put::Exists
                    }
                    status @ (401 | 403) => {
                        response.finish().await;
                        Put::Refused(status)
                    }
                    417 if expect => {
                        response.finish().await;
                        expect = false;
                        continue;
                    }
                    // 404: XRootD 5.5.3, when it lost the file it was writing to.
                    status @ (404 | 408 | 423 | 429 | 500..=506 | 508..) => {
                        let after = retry_after(&response);
                        Put::Again(format!("{status}{}", said(response).await), after)
                    }
                    status => Put::Failed(format!("{status}{}", said(response).await)),
                },
            };
            return Ok((put, began));
        }
    }

    async fn send_file(
        &self,
        job: &Job<'_>,
        request: &Request,
        expect: bool,
    ) -> Result<(Result<Response, Fault>, bool), Error> {
        let (to, source) = mpsc::channel(4);
        let mut read = 0_u64;
        let feed = async {
            let mut position = 0;
            while position < job.local.len {
                let mut piece = vec![0; PIECE];
                let n = job.local.piece_at(position, &mut piece)?;
                piece.truncate(n);
                if to.send(Ok(Bytes::from(piece))).await.is_err() {
                    break;
                }
                position += n as u64;
                read = position;
                (job.progress)(i64::try_from(n).unwrap_or(0));
            }
            // Its end is told by the answer.
            std::future::pending::<Result<(), Error>>().await
        };
        let upload = http::Upload { len: job.local.len, expect, source };
        let (result, began) = tokio::select! {
            done = self.http.upload(request, upload) => done,
            failed = feed => match failed {
                Err(error) => return Err(error),
                Ok(()) => (Err(Fault::Source("it ended early".to_owned())), true),
            },
        };
        let accepted = result.as_ref().is_ok_and(|response| response.status < 300);
        if !accepted {
            (job.progress)(-i64::try_from(read).unwrap_or(0));
        }
        Ok((result, began))
    }
}

/// How one trial ended.
enum Tried {
    Placed(Placed),
    Again(String, Option<Duration>),
    Failed(String),
}
