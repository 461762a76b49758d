//! One PUT. It never overwrites an existing object, as far as servers let a client request that.

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_LENGTH, IF_NONE_MATCH};
use tokio::sync::mpsc;

use super::Writer;
use super::file::PIECE;
use super::job::Job;
use crate::Error;
use crate::checksum::digest_patience;
use crate::credentials::Refusal;
use crate::http::{self, Fault, Request, Response};
use crate::route::{Place, Route, retry_after, said};
use crate::router::redirect;
use crate::token::Action;

/// Servers that one PUT may be sent on to: clusters do so once or twice.
const MAX_REDIRECTS: usize = 5;

/// How a PUT ended.
pub(super) enum Put {
    /// The server says that the object is stored.
    Accepted,
    /// The server says that the object exists already.
    Exists,
    /// 409, which is said of what exists, of folders, and by stores that will take it soon.
    Conflict(String, Option<Duration>),
    /// 401 or 403: no right, or no right to overwrite.
    Refused(Refusal),
    /// Another attempt may succeed.
    Again(String, Option<Duration>),
    /// No other attempt will succeed.
    Failed(String),
}

impl Writer {
    /// Sends one PUT; the second value says whether a part of the object may be stored.
    pub(super) async fn put(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
    ) -> Result<(Put, bool), Error> {
        let namespace = route.namespace.as_ref();
        // If the token has expired, this waits for a new one before the PUT begins, since a PUT
        // that is refused at its end may burn its name.
        let token = self.credentials.live_token(job.url, Action::Create, namespace).await?;
        let mark = if place.target.contains('?') { '&' } else { '?' };
        let target = format!("{}{mark}oss.asize={}", place.target, job.local.len);
        let mut at = Place { server: place.server.clone(), target };
        let (mut expect, mut redirects, mut began_before) = (true, 0, false);
        loop {
            let ours = at.server == place.server;
            let request = Request::new(Method::PUT, &at.server, at.target.as_str())
                .header(IF_NONE_MATCH, "*")
                .header(CONTENT_LENGTH, job.local.len.to_string())
                .token(token.as_ref().filter(|_| ours));
            let (result, began) = self.send_file(job, &request, expect).await?;
            let began = began || began_before;
            let response = match result {
                Ok(response) => response,
                Err(Fault::Source(reason)) => return Err(job.local.changed(&reason)),
                Err(fault) => return Ok((Put::Again(fault.to_string(), None), began)),
            };
            match response.status {
                417 if expect => {
                    response.finish().await;
                    expect = false;
                    continue;
                }
                // Clusters and doors name the server that stores it, before the body goes.
                301..=303 | 307 | 308 if redirects < MAX_REDIRECTS => {
                    let next = response.header("location").and_then(|to| redirect::next(&at, to));
                    if let (307 | 308, Some(next)) = (response.status, next) {
                        response.finish().await;
                        (at, redirects, began_before) = (next, redirects + 1, began);
                        continue;
                    }
                }
                _ => {}
            }
            return Ok((understand(response, job, route).await, began));
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
                self.pace.wait(n as u64).await;
                (job.progress)(i64::try_from(n).unwrap_or(0));
            }
            // The answer says how the upload ends.
            std::future::pending::<Result<(), Error>>().await
        };
        // A server that copies the object after receiving all of it takes as long as reading it.
        let storing = digest_patience(job.local.len);
        let upload = http::Upload { len: job.local.len, expect, storing, source };
        let (result, began) = tokio::select! {
            done = self.router.http.upload(request, upload) => done,
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

async fn understand(response: Response, job: &Job<'_>, route: &Route) -> Put {
    let (status, after) = (response.status, retry_after(&response));
    match status {
        200..=299 => {
            response.finish().await;
            return Put::Accepted;
        }
        401 | 403 => return Put::Refused(Refusal { status, said: said(response).await }),
        412 => {
            response.finish().await;
            return Put::Exists;
        }
        _ => {}
    }
    let words = format!("{status}{}", said(response).await);
    match status {
        409 => Put::Conflict(words, after),
        // 404: XRootD 5.5.3, when it lost the file it was writing to.
        404 | 408 | 423 | 429 | 500..=506 | 508.. => Put::Again(words, after),
        // Origins of version 2 say so of every write that fails. The director has named
        // this one for writing, so it may do better once more.
        405 if route.namespace.is_some() && !job.was_405.replace(true) => Put::Again(words, after),
        301..=303 | 307 | 308 => {
            Put::Failed(format!("{words}: it redirects to a URL that cannot be used"))
        }
        _ => Put::Failed(words),
    }
}
