//! Asks what exists: one object or collection, or all members of a collection.

use std::time::{Duration, Instant};

use gular_files::Watch;
use hyper::Method;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tokio::time::sleep;

use crate::client::Client;
use crate::error::Attempts;
use crate::http::{Fault, Request, Response, Server};
use crate::listing::{
    Ambiguous, CollectionListing, ListingFault, MAX_LISTING_BYTES, Multistatus, Responses,
    Spelling, Stat, WANTED,
};
use crate::reader::Reader;
use crate::reader::sources::{Fared, Sources};
use crate::retry::{Policy, Retry};
use crate::route::{Place, Route, Verb, header, propfind, retry_after, said};
use crate::token::Action;
use crate::url::percent_decode;
use crate::{Error, Scheme, Url, local};

/// How many names of a listing may vanish while the server is asked how it spells names.
const MAX_GONE: usize = 16;

impl Client {
    /// Asks what `url` is: by PROPFIND, or by HEAD where nothing can be listed or the
    /// server that lists does not answer.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Failed`], [`Error::Cancelled`].
    pub fn stat(&self, url: &Url, watch: Watch<'_>) -> Result<Stat, Error> {
        if url.scheme() == Scheme::File {
            return local::stat(url);
        }
        self.block(watch, async {
            let unlisted = match self.0.reader.find(url, Verb::Stat).await {
                Ok(Multistatus { itself: Some(entry), .. }) => {
                    let (len_bytes, collection) = (entry.len_bytes, Some(entry.collection));
                    return Ok(Stat { len_bytes, collection });
                }
                Ok(_) | Err(Error::Unsupported { .. }) => None,
                // Caches may have what the server that lists cannot tell of.
                Err(error @ Error::Failed { .. }) => Some(error),
                Err(error) => return Err(error),
            };
            match (self.0.reader.head(url).await, unlisted) {
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
    pub fn head(&self, url: &Url, watch: Watch<'_>) -> Result<Stat, Error> {
        if url.scheme() == Scheme::File {
            return local::stat(url);
        }
        self.block(watch, self.0.reader.head(url))
    }

    /// Reads a whole object of at most `limit` bytes from the first server that answers, and asks no
    /// other server and for no other name: for finding out whether there is such an object.
    ///
    /// # Errors
    /// Those of [`Client::head`]; the caller checks the bytes.
    pub fn read_nearest(&self, url: &Url, limit: u64, watch: Watch<'_>) -> Result<Vec<u8>, Error> {
        if url.scheme() == Scheme::File {
            return self.read(url, limit, &|_| Ok(()), watch);
        }
        self.block(watch, async {
            let route = self.0.router.route_to_read(url, true).await?;
            let asked =
                |place: &Place| Request::new(Method::GET, &place.server, place.target.as_str());
            let answer =
                self.0.reader.first_answer(url, &route, "read", Policy::LOOK, asked).await?;
            let (place, response) = answer;
            if response.status != 200 {
                self.0.reader.judge_head(url, &route, &place, response).await?;
            } else if let Ok(bytes) = response.read(usize::try_from(limit).unwrap_or(0)).await {
                return Ok(bytes);
            }
            Err(unusable(url, &place, "it did not send the whole object".to_owned()))
        })
    }

    /// Lists the members of the collection `url`; an object lists itself.
    ///
    /// # Errors
    /// As for [`Client::stat`]; [`Error::Unsupported`] where nothing can be listed.
    pub fn list(&self, url: &Url, watch: Watch<'_>) -> Result<CollectionListing, Error> {
        let mut listing = if url.scheme() == Scheme::File {
            local::list(url)?
        } else {
            self.block(watch, async {
                let found = self.0.reader.find(url, Verb::List).await?;
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

impl Reader {
    /// Asks the server that lists, for `verb` [`Verb::Stat`] or [`Verb::List`].
    async fn find(&self, url: &Url, verb: Verb) -> Result<Multistatus, Error> {
        let (place, body) = self.multistatus(url, verb, verb.depth()).await?;
        let found = self.listed(&body, url, &place, verb).await;
        found.map_err(|fault| unusable(url, &place, fault.to_string()))
    }

    /// The answer of the server that lists, and where it was asked for. One that was cut off is asked
    /// for again.
    async fn multistatus(
        &self,
        url: &Url,
        verb: Verb,
        depth: &str,
    ) -> Result<(Place, Vec<u8>), Error> {
        let policy = if verb == Verb::Stat { Policy::LOOK } else { Policy::READ };
        let mut retry = Retry::new(policy, self.options.patience / 6, Instant::now());
        loop {
            let (place, response) = self.ask_multistatus(url, verb, depth, policy).await?;
            let fault = match response.read(MAX_LISTING_BYTES).await {
                Ok(body) => return Ok((place, body)),
                Err(fault) => fault,
            };
            let may_pass = matches!(fault, Fault::Lost(_) | Fault::Stalled { .. });
            match retry.again(None, Instant::now()).filter(|_| may_pass) {
                Some(wait) => sleep(wait).await,
                None => return Err(unusable(url, &place, fault.to_string())),
            }
        }
    }

    async fn ask_multistatus(
        &self,
        url: &Url,
        verb: Verb,
        depth: &str,
        policy: Policy,
    ) -> Result<(Place, Response), Error> {
        let route = self.router.route(url, verb).await?;
        let asked = |place: &Place| {
            let request = Request::new(propfind(), &place.server, place.target.as_str())
                .header(header("depth"), depth);
            match depth == Verb::List.depth() {
                true => request.header(CONTENT_TYPE, "application/xml").text(WANTED),
                false => request.header(CONTENT_LENGTH, "0"),
            }
        };
        let (place, response) = self.first_answer(url, &route, "list", policy, asked).await?;
        match response.status {
            207 => Ok((place, response)),
            404 => Err(not_found(url, &place, response).await),
            401 | 403 => {
                let namespace = route.namespace.as_ref();
                Err(self
                    .credentials
                    .denied(Action::Read, url, namespace, &place.server, response)
                    .await)
            }
            status => {
                let is_page = is_page(&response);
                let reason = format!("answers {status}{}", said(response).await);
                if is_page {
                    return Err(unusable(url, &place, reason));
                }
                let reason = format!("`{}` {reason}", place.server);
                Err(Error::Unsupported { action: "list", url: url.to_string(), reason })
            }
        }
    }

    /// A listing in terms of `url`. Servers name members by the path that they were asked for, which
    /// may have a prefix of their own (`/api/v1.0/origin/data/ns/…`), or by the federation's.
    async fn listed(
        &self,
        body: &[u8],
        url: &Url,
        place: &Place,
        verb: Verb,
    ) -> Result<Multistatus, ListingFault> {
        let target = place.target.split('?').next().unwrap_or_default();
        let asked = percent_decode(target).unwrap_or_default();
        let mut responses = Responses::parse(body, &asked)?;
        if !responses.are_of_request() {
            responses = Responses::parse(body, url.path())?;
        }
        let mut n_gone = 0;
        let spelling = loop {
            let ambiguous = match responses.spelling() {
                Ok(spelling) => break spelling,
                // Only members can be ambiguous.
                Err(_) if verb == Verb::Stat => break Spelling::Encoded,
                Err(ambiguous) => ambiguous,
            };
            match self.ask_for_spelling(url, place, &ambiguous).await? {
                Some(spelling) => break spelling,
                None if n_gone < MAX_GONE => responses.leave_out(&ambiguous.name),
                None => return Err(ListingFault::Gone { name: ambiguous.name }),
            }
            n_gone += 1;
        };
        let mut found = responses.read(spelling)?;
        let base = url.path().trim_end_matches('/');
        for member in &mut found.members {
            member.path = format!("{base}/{}", member.name);
        }
        if let Some(itself) = &mut found.itself {
            (itself.name, itself.path) = (url.name().to_owned(), url.path().to_owned());
        }
        Ok(found)
    }

    /// Finds out how a server spells names, by asking for one of them; `None` if that was removed
    /// after it was listed. This is asked once per server.
    async fn ask_for_spelling(
        &self,
        url: &Url,
        place: &Place,
        ambiguous: &Ambiguous,
    ) -> Result<Option<Spelling>, ListingFault> {
        if let Some(known) = self.servers.spelling(&place.server) {
            return Ok(Some(known));
        }
        let Ambiguous { name, decoded } = ambiguous;
        let mut found = None;
        let readings = [(Some(name), Spelling::AsStored), (decoded.as_ref(), Spelling::Encoded)];
        for (name, spelling) in readings {
            let Some(member) = name.and_then(|name| url.join(name)) else { continue };
            // The director has named the server that lists, and need not know this name.
            match self.multistatus(&member, Verb::List, Verb::Stat.depth()).await {
                Ok(_) => {
                    found = Some(spelling);
                    break;
                }
                Err(Error::NotFound { .. }) => {}
                Err(error) => {
                    let (name, source) = (member.name().to_owned(), Box::new(error));
                    return Err(ListingFault::NotTold { name, source });
                }
            }
        }
        let found = found.or(decoded.is_none().then_some(Spelling::Encoded));
        if let Some(spelling) = found {
            self.servers.spells(&place.server, spelling);
        }
        Ok(found)
    }

    pub(crate) async fn head(&self, url: &Url) -> Result<Stat, Error> {
        let route = self.router.route(url, Verb::Read).await?;
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
                Err(self
                    .credentials
                    .denied(Action::Read, url, namespace, &place.server, response)
                    .await)
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
        let token = self.credentials.read_token(url, route.namespace.as_ref()).await?;
        let mut retry = Retry::new(policy, self.options.patience / 6, Instant::now());
        let cooling = |server: &Server| self.servers.is_cooling(server, Instant::now());
        let wait = |server: &Server| self.servers.wait(server, Instant::now());
        let mut sources = Sources::new(&route.places, false, cooling);
        // If there are other servers, this does not wait for one that just failed to answer.
        let hopeless = policy == Policy::LOOK && route.places.iter().all(|p| cooling(&p.server));
        loop {
            while let Some(place) = sources.next(wait, Instant::now()).filter(|_| !hopeless) {
                let request =
                    |place: &Place, ours: bool| asked(place).token(token.as_ref().filter(|_| ours));
                let fared = match self.router.send_following(url, &place, request).await {
                    Ok(response) if matches!(response.status, 408 | 429 | 500 | 502..=504) => {
                        let (status, after) = (response.status, retry_after(&response));
                        self.servers.answered(&place.server);
                        self.servers.busy(&place.server, after.unwrap_or_default(), Instant::now());
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
                    Err(fault @ Fault::Tls(..)) => {
                        sources.attempts.add_lasting(&place.server, &fault);
                        Fared::Out
                    }
                    Err(fault) => {
                        self.servers.cool_down(&place.server, Instant::now());
                        sources.attempts.add(&place.server, &fault);
                        Fared::Again
                    }
                };
                sources.note(fared);
            }
            if sources.is_busy() {
                retry.bear(self.options.patience);
            }
            let asked = sources.end_pass(wait, Instant::now()).filter(|_| !hopeless);
            let Some(pause) = asked.and_then(|asked| retry.again(Some(asked), Instant::now()))
            else {
                let (url, elapsed) = (url.to_string(), retry.elapsed(Instant::now()));
                let attempts = sources.verdict().1;
                return Err(Error::Failed { action, url, attempts, elapsed });
            };
            sleep(pause).await;
        }
    }
}

/// Whether an answer that claims success is the page of a login or of a broken proxy, which says
/// nothing about the server behind it.
fn is_page(response: &Response) -> bool {
    let is_html = |kind: &str| kind.trim_start().starts_with("text/html");
    response.status == 200 && response.header("content-type").is_some_and(is_html)
}

fn unusable(url: &Url, place: &Place, fault: String) -> Error {
    let mut attempts = Attempts::default();
    attempts.add(&place.server, fault);
    Error::Failed { action: "list", url: url.to_string(), attempts, elapsed: Duration::ZERO }
}

async fn not_found(url: &Url, place: &Place, response: Response) -> Error {
    let (url, server) = (url.to_string(), place.server.to_string());
    Error::NotFound { url, server, said: said(response).await }
}
