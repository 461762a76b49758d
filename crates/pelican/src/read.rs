//! Reading objects: from whichever server has the right bytes.
//!
//! ```text
//! caches by priority ──▶ origin ──▶ the next name (`~1`) when all have other bytes
//!        │ dead, slow, cut: go on at the first byte not yet accepted
//!        │ other bytes: this server is out
//!        ▼
//!     1 MiB blocks, each accepted by the caller before it is passed on
//! ```

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hyper::Method;
use hyper::header::RANGE;
use tokio::time::sleep;

use crate::client::{Client, Inner};
use crate::error::Attempts;
use crate::http::{Fault, Request};
use crate::receive::{Broken, receive};
use crate::retry::{Policy, Retry};
use crate::route::{Place, Route, Verb, retry_after, said};
use crate::sources::{Fared, Sources, Verdict};
use crate::take::{BLOCK_BYTES, Blocks, Object, Sink, Stop, Take, Whole};
use crate::token::Action;
use crate::{Error, Scheme, Url, local};

/// Names an upload may take when those before are burned: `x`, `x~1`, … `x~9`.
pub const MAX_RENAMES: u32 = 9;

impl Client {
    /// Reads blocks `from_block` to the end of an object, each accepted before
    /// `sink` has it, in order.
    ///
    /// A server that dies, stalls or crawls is left for the next, which goes on
    /// at the first byte missing; one whose bytes are refused is not asked again.
    /// When all have other bytes, so that the name was burned by a cut upload, or when
    /// such an object was removed since, the names `…~1`, `…~2` are tried.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Corrupt`] when every copy
    /// is refused, [`Error::Failed`] when no server can be reached,
    /// [`Error::Sink`], [`Error::Cancelled`].
    pub fn stream(
        &self,
        object: &Object<'_>,
        from_block: u64,
        sink: &mut Sink<'_>,
        cancel: &AtomicBool,
    ) -> Result<(), Error> {
        let position = from_block.saturating_mul(BLOCK_BYTES as u64);
        let mut take = Blocks::new(*object, sink, position);
        self.read_into(object.url, &mut take, cancel)
    }

    /// Reads a whole object of at most `limit` bytes into memory, from the first
    /// server and name whose bytes `accepts` takes.
    ///
    /// # Errors
    /// Those of [`Client::stream`]; [`Error::TooLarge`].
    pub fn read(
        &self,
        url: &Url,
        limit: u64,
        accepts: &dyn Fn(&[u8]) -> Result<(), String>,
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, Error> {
        let mut take = Whole::new(url, limit, accepts, false);
        self.read_into(url, &mut take, cancel)?;
        Ok(take.into_bytes())
    }

    /// The same, where `accepts` compares with a digest that the caller has: a name that
    /// is gone is sought under those that replace it, and servers are asked that a director
    /// does not name any more.
    ///
    /// # Errors
    /// Those of [`Client::read`].
    pub fn read_verified(
        &self,
        url: &Url,
        limit: u64,
        accepts: &dyn Fn(&[u8]) -> Result<(), String>,
        cancel: &AtomicBool,
    ) -> Result<Vec<u8>, Error> {
        let mut take = Whole::new(url, limit, accepts, true);
        self.read_into(url, &mut take, cancel)?;
        Ok(take.into_bytes())
    }

    fn read_into(&self, url: &Url, take: &mut dyn Take, cancel: &AtomicBool) -> Result<(), Error> {
        if url.scheme() == Scheme::File {
            let verified = take.is_verified();
            return first_good_name(url, verified, |url| {
                take.rewind();
                local::read(url, take, cancel)
            });
        }
        self.block(cancel, async {
            let (mut first, verified) = (None, take.is_verified());
            for renamed in 0..=MAX_RENAMES {
                match self.0.transfer(&numbered(url, renamed), take).await {
                    Ok(()) => return Ok(()),
                    Err(error) => match settle_for(&mut first, error, renamed, verified) {
                        Some(error) => return Err(error),
                        None => take.rewind(),
                    },
                }
            }
            Err(first.unwrap_or(Error::Cancelled))
        })
    }
}

/// `url`, or one of the names that take its place when it is burned.
pub(crate) fn numbered(url: &Url, renamed: u32) -> Url {
    if renamed == 0 { url.clone() } else { url.renamed(renamed) }
}

/// What to return, if anything, when a name failed; `first` keeps why the first did.
/// `verified`: there must be an object, so that a name that is gone was burned and cleaned
/// up since.
fn settle_for(
    first: &mut Option<Error>,
    error: Error,
    renamed: u32,
    verified: bool,
) -> Option<Error> {
    match error {
        Error::NotFound { .. } if renamed == 0 && verified => {
            *first = Some(error);
            None
        }
        Error::Corrupt { .. } if renamed < MAX_RENAMES => {
            first.get_or_insert(error);
            None
        }
        // The name that was asked for, not the last of its substitutes.
        Error::Corrupt { .. } => Some(first.take().unwrap_or(error)),
        // No further name was ever written: the first one tells what is wrong.
        Error::NotFound { .. } if renamed > 0 => Some(first.take().unwrap_or(error)),
        error => Some(error),
    }
}

fn first_good_name(
    url: &Url,
    verified: bool,
    mut read: impl FnMut(&Url) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut first = None;
    for renamed in 0..=MAX_RENAMES {
        match read(&numbered(url, renamed)) {
            Ok(()) => return Ok(()),
            Err(error) => {
                if let Some(error) = settle_for(&mut first, error, renamed, verified) {
                    return Err(error);
                }
            }
        }
    }
    Err(first.unwrap_or(Error::Cancelled))
}

impl Inner {
    pub(crate) async fn transfer(&self, url: &Url, take: &mut dyn Take) -> Result<(), Error> {
        // Before the first byte a wrong host is likelier than a server that restarts.
        let mut retry = Retry::new(Policy::READ, self.options.patience / 6);
        let route = self.route_to_read(url, take.is_verified()).await?;
        // To find out whom to ask has a patience of its own.
        retry.moved();
        let mut sources = Sources::new(&route.places, |server| self.is_cooling(server));
        let mut origin_asked =
            url.scheme() != Scheme::Pelican || url.is_direct() || self.has_only_cache();
        let mut reached = take.position();
        loop {
            while let Some(place) = sources.next() {
                let others = !origin_asked || sources.has_more();
                let attempts = &mut sources.attempts;
                let failed = self.attempt(url, &route, &place, take, others, attempts).await?;
                let Some(fared) = failed else { return Ok(()) };
                take.rewind();
                if take.position() > reached {
                    reached = take.position();
                    retry.progressed(self.options.patience);
                }
                sources.note(fared);
            }
            if !origin_asked {
                origin_asked = true;
                if let Ok(origin) = self.route(url, Verb::ReadOrigin).await {
                    sources.add(origin.places);
                    continue;
                }
            }
            let wait = sources.end_pass().and_then(|asked| retry.again(Some(asked)));
            let Some(wait) = wait else {
                return Err(self.verdict(url, &route, sources, retry.elapsed()));
            };
            sleep(wait).await;
        }
    }

    fn verdict(&self, url: &Url, route: &Route, sources: Sources, elapsed: Duration) -> Error {
        let (verdict, attempts) = sources.verdict();
        let shown = url.to_string();
        match verdict {
            Verdict::Wrong => Error::Corrupt { url: shown, attempts },
            Verdict::Refused(place, status) => {
                let namespace = route.namespace.as_ref();
                self.denied_as(Action::Read, url, namespace, &place.server, status)
            }
            Verdict::Missing(server, said) => {
                Error::NotFound { url: shown, server: server.to_string(), said }
            }
            Verdict::Failed => Error::Failed { action: "read", url: shown, attempts, elapsed },
        }
    }

    /// Asks one server; `None` when it gave all that was missing.
    async fn attempt(
        &self,
        url: &Url,
        route: &Route,
        place: &Place,
        take: &mut dyn Take,
        others: bool,
        attempts: &mut Attempts,
    ) -> Result<Option<Fared>, Error> {
        if take.position() > 0 && take.len() == Some(take.position()) {
            // All of it came, and only the end of the answer was lost.
            return Ok(None);
        }
        let token = self.read_token(url, route.namespace.as_ref())?;
        let wanted = take.position()..take.len().unwrap_or(u64::MAX);
        let request = |place: &Place, ours: bool| {
            let token = token.as_ref().filter(|_| ours);
            let request =
                Request::new(Method::GET, &place.server, place.target.as_str()).token(token);
            if wanted.start == 0 {
                return request;
            }
            // Both ends: servers answer open ranges with nothing at all.
            request.header(RANGE, format!("bytes={}-{}", wanted.start, wanted.end - 1))
        };
        let response = match self.send_following(url, place, request).await {
            Ok(response) => response,
            Err(fault) => {
                self.cool_down(&place.server);
                attempts.add(&place.server, &fault);
                return Ok(Some(match fault {
                    Fault::Tls(_) => Fared::Out,
                    _ => Fared::Again(None),
                }));
            }
        };
        let status = response.status;
        if !matches!(status, 200 | 206) {
            let asked = retry_after(&response);
            let said = said(response).await;
            attempts.add(&place.server, format!("{status}{said}"));
            return Ok(Some(match status {
                401 | 403 => Fared::Refused(status),
                404 | 410 => Fared::Missing(said),
                500 => Fared::Broken,
                408 | 429 | 501.. => Fared::Again(asked),
                // Only bytes can be wrong; a redirect or a refused request is no object.
                ..300 => Fared::Wrong,
                _ => Fared::Out,
            }));
        }
        match receive(response, &wanted, take, others.then_some(self.options.min_rate)).await {
            Ok(()) => Ok(None),
            Err(Broken::Fault(fault)) => {
                self.cool_down(&place.server);
                attempts.add(&place.server, &fault);
                Ok(Some(Fared::Again(None)))
            }
            Err(Broken::Stop(Stop::Refused(reason))) => {
                attempts.add(&place.server, &reason);
                Ok(Some(Fared::Wrong))
            }
            Err(Broken::Stop(Stop::Failed(error))) => Err(error),
        }
    }
}
