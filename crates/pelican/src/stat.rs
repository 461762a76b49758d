//! Asks what exists: one object or collection, or all members of a collection.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hyper::Method;
use hyper::header::CONTENT_LENGTH;
use tokio::time::sleep;

use crate::client::{Client, Inner};
use crate::error::Attempts;
use crate::http::{Fault, Request, Response, Server};
use crate::listing::{CollectionListing, MAX_LISTING_BYTES, Multistatus, Stat, parse_multistatus};
use crate::retry::{Policy, Retry};
use crate::route::{Place, Route, Verb, header, propfind, retry_after, said};
use crate::sources::{Fared, Sources};
use crate::token::Action;
use crate::url::percent_decode;
use crate::{CollectionMember, Error, Scheme, Url, local};

impl Client {
    /// Asks what `url` is: by PROPFIND, or by HEAD where nothing can be listed or the
    /// server that lists does not answer.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Failed`], [`Error::Cancelled`].
    pub fn stat(&self, url: &Url, cancel: &AtomicBool) -> Result<Stat, Error> {
        if url.scheme() == Scheme::File {
            return local::stat(url);
        }
        self.block(cancel, async {
            let unlisted = match self.0.find(url, Verb::Stat).await {
                Ok(Multistatus { itself: Some(entry), .. }) => {
                    let (len_bytes, collection) = (entry.len_bytes, Some(entry.collection));
                    return Ok(Stat { len_bytes, collection });
                }
                Ok(_) | Err(Error::Unsupported { .. }) => None,
                // Caches may have what the server that lists cannot tell of.
                Err(error @ Error::Failed { .. }) => Some(error),
                Err(error) => return Err(error),
            };
            match (self.0.head(url).await, unlisted) {
                (Err(Error::Unsupported { .. } | Error::Failed { .. }), Some(error)) => Err(error),
                (found, _) => found,
            }
        })
    }

    /// Asks for the length of the object `url`, from the servers that objects are read from: of
    /// caches by HEAD, without a listing.
    ///
    /// # Errors
    /// Those of [`Client::stat`].
    pub fn head(&self, url: &Url, cancel: &AtomicBool) -> Result<Stat, Error> {
        if url.scheme() == Scheme::File {
            return local::stat(url);
        }
        self.block(cancel, self.0.head(url))
    }

    /// Lists the members of the collection `url`; an object lists itself.
    ///
    /// # Errors
    /// As for [`Client::stat`]; [`Error::Unsupported`] where nothing can be listed.
    pub fn list(&self, url: &Url, cancel: &AtomicBool) -> Result<CollectionListing, Error> {
        let mut listing = if url.scheme() == Scheme::File {
            let entries = if local::stat(url)?.collection == Some(true) {
                local::list(url)?
            } else {
                let (name, path) = (url.name().to_owned(), url.path().to_owned());
                let len_bytes = local::stat(url)?.len_bytes;
                vec![CollectionMember { name, path, len_bytes, collection: false }]
            };
            CollectionListing { entries, skipped: 0 }
        } else {
            self.block(cancel, async {
                let found = self.0.find(url, Verb::List).await?;
                let entries = match found.itself {
                    Some(itself) if !itself.collection => vec![itself],
                    _ => found.members,
                };
                Ok(CollectionListing { entries, skipped: found.skipped })
            })?
        };
        listing.entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }
}

impl Inner {
    /// Asks the server that lists, for `verb` [`Verb::Stat`] or [`Verb::List`].
    async fn find(&self, url: &Url, verb: Verb) -> Result<Multistatus, Error> {
        let route = self.route(url, verb).await?;
        let asked = |place: &Place| {
            Request::new(propfind(), &place.server, place.target.as_str())
                .header(header("depth"), verb.depth())
                .header(CONTENT_LENGTH, "0")
        };
        let policy = if verb == Verb::Stat { Policy::LOOK } else { Policy::READ };
        let (place, response) = self.first_answer(url, &route, "list", policy, asked).await?;
        match response.status {
            207 => {}
            404 => return Err(not_found(url, &place, response).await),
            401 | 403 => {
                let namespace = route.namespace.as_ref();
                return Err(self
                    .denied(Action::Read, url, namespace, &place.server, response)
                    .await);
            }
            status => {
                let reason = format!("`{}` answers {status}{}", place.server, said(response).await);
                return Err(Error::Unsupported { action: "list", url: url.to_string(), reason });
            }
        }
        let unusable = |fault: String| {
            let mut attempts = Attempts::default();
            attempts.add(&place.server, fault);
            Error::Failed {
                action: "list",
                url: url.to_string(),
                attempts,
                elapsed: Duration::ZERO,
            }
        };
        let body = response.read(MAX_LISTING_BYTES).await.map_err(|e| unusable(e.to_string()))?;
        listed(&body, url, &place).map_err(unusable)
    }

    pub(crate) async fn head(&self, url: &Url) -> Result<Stat, Error> {
        let route = self.route(url, Verb::Read).await?;
        let asked =
            |place: &Place| Request::new(Method::HEAD, &place.server, place.target.as_str());
        let (place, response) = self.first_answer(url, &route, "read", Policy::READ, asked).await?;
        self.judge_head(url, &route, &place, response).await
    }

    /// Interprets the answer to HEAD.
    pub(crate) async fn judge_head(
        &self,
        url: &Url,
        route: &Route,
        place: &Place,
        response: Response,
    ) -> Result<Stat, Error> {
        match response.status {
            200 => {
                let len_bytes = response.content_length();
                response.finish().await;
                Ok(Stat { len_bytes, collection: None })
            }
            404 => Err(not_found(url, place, response).await),
            401 | 403 => {
                let namespace = route.namespace.as_ref();
                Err(self.denied(Action::Read, url, namespace, &place.server, response).await)
            }
            status => {
                let reason = format!("`{}` answers {status}", place.server);
                Err(Error::Unsupported { action: "read", url: url.to_string(), reason })
            }
        }
    }

    /// The first answer that any of the servers gives, when it is more than that they are
    /// busy or broken; with the patience that a read has before its first byte.
    pub(crate) async fn first_answer(
        &self,
        url: &Url,
        route: &Route,
        action: &'static str,
        policy: Policy,
        asked: impl Fn(&Place) -> Request,
    ) -> Result<(Place, Response), Error> {
        let token = self.read_token(url, route.namespace.as_ref()).await?;
        let mut retry = Retry::new(policy, self.options.patience / 6);
        let cooling = |server: &Server| self.servers.is_cooling(server);
        let wait = |server: &Server| self.servers.wait(server);
        let mut sources = Sources::new(&route.places, false, cooling);
        // If there are other servers, this does not wait for one that just failed to answer.
        let hopeless = policy == Policy::LOOK && route.places.iter().all(|p| cooling(&p.server));
        loop {
            while let Some(place) = sources.next(wait).filter(|_| !hopeless) {
                let request =
                    |place: &Place, ours: bool| asked(place).token(token.as_ref().filter(|_| ours));
                let fared = match self.send_following(url, &place, request).await {
                    Ok(response) if matches!(response.status, 408 | 429 | 500 | 502..=504) => {
                        let (status, after) = (response.status, retry_after(&response));
                        self.servers.answered(&place.server);
                        self.servers.busy(&place.server, after.unwrap_or_default());
                        let words = format!("{status}{}", said(response).await);
                        sources.attempts.add(&place.server, words);
                        match status {
                            500 => Fared::Broken,
                            429 | 503 => Fared::Busy,
                            _ => Fared::Again,
                        }
                    }
                    Ok(response) => {
                        self.servers.answered(&place.server);
                        return Ok((place, response));
                    }
                    Err(fault @ Fault::Tls(_)) => {
                        sources.attempts.add_lasting(&place.server, fault);
                        Fared::Out
                    }
                    Err(fault) => {
                        self.servers.cool_down(&place.server);
                        sources.attempts.add(&place.server, fault);
                        Fared::Again
                    }
                };
                sources.note(fared);
            }
            if sources.is_busy() {
                retry.bear(self.options.patience);
            }
            let asked = sources.end_pass(wait).filter(|_| !hopeless);
            let Some(pause) = asked.and_then(|asked| retry.again(Some(asked))) else {
                let (url, elapsed) = (url.to_string(), retry.elapsed());
                let attempts = sources.verdict().1;
                return Err(Error::Failed { action, url, attempts, elapsed });
            };
            sleep(pause).await;
        }
    }
}

/// A listing in terms of `url`. Servers name members by the path that they were asked
/// for, which may have a prefix of their own (`/api/v1.0/origin/data/ns/…`), or by the
/// federation's.
fn listed(body: &[u8], url: &Url, place: &Place) -> Result<Multistatus, String> {
    let target = place.target.split('?').next().unwrap_or_default();
    let asked = percent_decode(target).unwrap_or_default();
    let mut found = match parse_multistatus(body, &asked) {
        Err(_) if asked.trim_end_matches('/') != url.path() => parse_multistatus(body, url.path()),
        found => found,
    }?;
    let base = url.path().trim_end_matches('/');
    for member in &mut found.members {
        member.path = format!("{base}/{}", member.name);
    }
    if let Some(itself) = &mut found.itself {
        (itself.name, itself.path) = (url.name().to_owned(), url.path().to_owned());
    }
    Ok(found)
}

async fn not_found(url: &Url, place: &Place, response: Response) -> Error {
    let (url, server) = (url.to_string(), place.server.to_string());
    Error::NotFound { url, server, said: said(response).await }
}
