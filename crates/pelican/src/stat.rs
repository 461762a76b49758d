//! What there is: one object or collection, or all members of a collection.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use hyper::Method;
use hyper::header::CONTENT_LENGTH;

use crate::client::{Client, Inner};
use crate::error::Attempts;
use crate::http::{Request, Response};
use crate::listing::{MAX_LISTING_BYTES, Multistatus, parse_multistatus};
use crate::route::{Place, Route, Verb, header, propfind, said};
use crate::token::Action;
use crate::{Entry, Error, Scheme, Url, local};

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The length in bytes of an object, where the server says it.
    pub len_bytes: Option<u64>,
    /// Whether it is a collection; `None` where nothing can be listed: there some
    /// servers answer for a collection as they do for an object.
    pub collection: Option<bool>,
}

impl Client {
    /// Asks what `url` is: by PROPFIND, or by HEAD where nothing can be listed.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Failed`], [`Error::Cancelled`].
    pub fn stat(&self, url: &Url, cancel: &AtomicBool) -> Result<Stat, Error> {
        if url.scheme() == Scheme::File {
            return local::stat(url);
        }
        self.block(cancel, async {
            match self.0.find(url, 0).await {
                Ok(Multistatus { itself: Some(entry), .. }) => {
                    Ok(Stat { len_bytes: entry.len_bytes, collection: Some(entry.collection) })
                }
                Ok(_) | Err(Error::Unsupported { .. }) => self.0.head(url).await,
                Err(error) => Err(error),
            }
        })
    }

    /// The members of the collection `url`, sorted by name; an object lists itself.
    ///
    /// # Errors
    /// As for [`Client::stat`]; [`Error::Unsupported`] where nothing can be listed.
    pub fn list(&self, url: &Url, cancel: &AtomicBool) -> Result<Vec<Entry>, Error> {
        let mut entries = if url.scheme() == Scheme::File {
            if local::stat(url)?.collection == Some(true) {
                local::list(url)?
            } else {
                let (name, path) = (url.name().to_owned(), url.path().to_owned());
                let len_bytes = local::stat(url)?.len_bytes;
                vec![Entry { name, path, len_bytes, collection: false }]
            }
        } else {
            self.block(cancel, async {
                let found = self.0.find(url, 1).await?;
                Ok(match found.itself {
                    Some(itself) if !itself.collection => vec![itself],
                    _ => found.members,
                })
            })?
        };
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}

impl Inner {
    async fn find(&self, url: &Url, depth: u8) -> Result<Multistatus, Error> {
        let route = self.route(url, Verb::List).await?;
        let asked = |place: &Place| {
            Request::new(propfind(), &place.server, place.target.as_str())
                .header(header("depth"), depth.to_string())
                .header(CONTENT_LENGTH, "0")
        };
        let (place, response) = self.first_answer(url, &route, "list", asked).await?;
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
            let (url, elapsed) = (url.to_string(), std::time::Duration::ZERO);
            Error::Failed { action: "list", url, attempts, elapsed }
        };
        let body = response.read(MAX_LISTING_BYTES).await.map_err(|e| unusable(e.to_string()))?;
        parse_multistatus(&body, url.path()).map_err(unusable)
    }

    async fn head(&self, url: &Url) -> Result<Stat, Error> {
        let route = self.route(url, Verb::Read).await?;
        let asked =
            |place: &Place| Request::new(Method::HEAD, &place.server, place.target.as_str());
        let (place, response) = self.first_answer(url, &route, "read", asked).await?;
        match response.status {
            200 => {
                let len_bytes = response.content_length();
                response.finish().await;
                Ok(Stat { len_bytes, collection: None })
            }
            404 => Err(not_found(url, &place, response).await),
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

    /// The first answer that any of the servers gives.
    pub(crate) async fn first_answer(
        &self,
        url: &Url,
        route: &Route,
        action: &'static str,
        asked: impl Fn(&Place) -> Request,
    ) -> Result<(Place, Response), Error> {
        let start = Instant::now();
        let token = self.read_token(url, route.namespace.as_ref())?;
        let mut attempts = Attempts::default();
        let mut places: Vec<&Place> = route.places.iter().collect();
        places.sort_by_key(|place| self.is_cooling(&place.server));
        for place in places {
            let request =
                |place: &Place, ours: bool| asked(place).token(token.as_ref().filter(|_| ours));
            match self.send_following(url, place, request).await {
                Ok(response) if matches!(response.status, 429 | 502..=504) => {
                    let status = response.status;
                    attempts.add(&place.server, format!("{status}{}", said(response).await));
                }
                Ok(response) => return Ok((place.clone(), response)),
                Err(fault) => {
                    self.cool_down(&place.server);
                    attempts.add(&place.server, fault);
                }
            }
        }
        let (url, elapsed) = (url.to_string(), start.elapsed());
        Err(Error::Failed { action, url, attempts, elapsed })
    }
}

async fn not_found(url: &Url, place: &Place, response: Response) -> Error {
    let (url, server) = (url.to_string(), place.server.to_string());
    Error::NotFound { url, server, said: said(response).await }
}
