//! Reads objects, from whichever server has the right bytes.
//!
//! ```text
//! caches by priority ──▶ origin ──▶ the next name (`~1`) when all have other bytes
//!        │ dead, cut: go on at the first byte not yet accepted
//!        │ busy: waited for, as long as it asks       slow: left for a faster cache
//!        │ other bytes: this server is out
//!        ▼
//!     1 MiB blocks, each accepted by the caller before it is passed on
//! ```
//!
//! The origin is asked for bytes that a cache has wrongly or not at all, or when no cache
//! takes connections; never because caches have much to do.

pub(crate) mod checked_blocks;
pub(crate) mod passes;
mod receive;
pub(crate) mod servers;
pub(crate) mod sources;
pub(crate) mod wrong_bytes;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use hyper::header::RANGE;
use tokio::time::{sleep, timeout};

use self::checked_blocks::{BLOCK_BYTES, Stop, Take};
use self::passes::{Passes, Step};
use self::receive::{Broken, Wanted, per_second};
use self::servers::Servers;
use self::sources::{Fared, Sources, Verdict};
use crate::credentials::Credentials;
use crate::director::parse_answer;
use crate::http::{Fault, Request, Response};
use crate::options::ClientOptions;
use crate::pace::Pace;
use crate::route::{Place, Route, Verb, retry_after, said};
use crate::router::Router;
use crate::token::Action;
use crate::{Error, Scheme, Token, Url};

/// Reads objects from the servers that the router names.
pub(crate) struct Reader {
    pub(crate) router: Arc<Router>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) servers: Servers,
    pub(crate) pace: Arc<Pace>,
    pub(crate) options: Arc<ClientOptions>,
}

impl Reader {
    pub(crate) async fn transfer(&self, url: &Url, take: &mut dyn Take) -> Result<(), Error> {
        let mut route = self.router.route_to_read(url, take.is_verified()).await?;
        let direct = url.scheme() != Scheme::Pelican || url.is_direct();
        let whom = (direct, self.router.routes.only_preferred());
        let patience = self.options.patience;
        let begun = (take.position(), Instant::now());
        let mut passes = Passes::new(&route, whom, patience, &self.servers, begun);
        loop {
            match passes.step(&self.servers, Instant::now()) {
                Step::Ask(place) => {
                    let fared = self.attempt(url, &route, &place, take, &mut passes).await?;
                    let Some(fared) = fared else {
                        for server in passes.sources.wrong() {
                            self.servers.gave_wrong(server, url);
                        }
                        return Ok(());
                    };
                    take.rewind();
                    passes.reached(take.position(), Instant::now());
                    if let Fared::Slow(rate) = fared {
                        let rivals = passes.sources.rivals();
                        let faster = self.faster(url, &route, take, &rivals, rate).await?;
                        passes.sources.prefer(faster.as_ref());
                    }
                    passes.sources.note(fared);
                }
                Step::AskOrigin => {
                    if let Ok(origin) = self.router.route(url, Verb::ReadOrigin).await {
                        passes.add_origin(origin.places);
                    }
                }
                Step::AskAnew => {
                    route = self.router.route_anew(url, Verb::Read, &route).await;
                    passes.add_anew(&route);
                }
                Step::Wait(pause) => sleep(pause).await,
                Step::GiveUp => {
                    let elapsed = passes.elapsed(Instant::now());
                    return Err(self.verdict(url, &route, passes.sources, elapsed));
                }
            }
        }
    }

    fn verdict(&self, url: &Url, route: &Route, sources: Sources, elapsed: Duration) -> Error {
        let told = sources.told.clone();
        let (verdict, attempts) = sources.verdict();
        let shown = url.to_string();
        match verdict {
            Verdict::Wrong => Error::Corrupt { url: shown, attempts },
            Verdict::Refused(place, refusal) => {
                let namespace = route.namespace.as_ref().or(told.as_ref());
                self.credentials.denied_as(Action::Read, url, namespace, &place.server, refusal)
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
        passes: &mut Passes,
    ) -> Result<Option<Fared>, Error> {
        let mut token = self.credentials.read_token(url, route.namespace.as_ref()).await?;
        loop {
            let (position, len, until) = (take.position(), take.len(), take.until());
            if position > 0 && until == Some(position) {
                // All bytes arrived, and only the end of the answer was lost.
                return Ok(None);
            }
            let range = passes.range(position, until, len);
            let ranged = position > 0 || len.is_some_and(|len| range.end < len);
            let wanted = Wanted { range, ranged };
            let response = match self.get(url, place, token.as_ref(), &wanted).await {
                Ok(response) => response,
                Err(fault) => {
                    return Ok(Some(passes.lost(place, &fault, &self.servers, Instant::now())));
                }
            };
            if matches!(response.status, 401 | 403) && token.is_some() {
                // The token may have expired meanwhile, and there may be a new one, now or soon.
                let now = self.credentials.read_token(url, route.namespace.as_ref()).await?;
                if now != token {
                    response.finish().await;
                    token = now;
                    continue;
                }
            }
            if !matches!(response.status, 200 | 206) {
                return Ok(Some(self.answered(place, response, passes).await));
            }
            let leave = len.is_some() && !passes.sources.rivals().is_empty();
            match self.receive(&place.server, response, &wanted, take, leave).await {
                Ok(()) if until.is_some_and(|until| take.position() < until) => {}
                Ok(()) => return Ok(None),
                Err(Broken::Fault(fault)) => {
                    return Ok(Some(passes.lost(place, &fault, &self.servers, Instant::now())));
                }
                Err(Broken::Slow { rate, after }) => {
                    let why = format!("slow: {} KiB/s over {} s", rate >> 10, after.as_secs());
                    passes.sources.attempts.add(&place.server, why);
                    return Ok(Some(Fared::Slow(rate)));
                }
                Err(Broken::Stop(Stop::Refused(wrong))) => {
                    passes.sources.attempts.add_lasting(&place.server, wrong.to_string());
                    return Ok(Some(Fared::Wrong(take.position())));
                }
                Err(Broken::Stop(Stop::Failed(error))) => return Err(error),
            }
        }
    }

    async fn get(
        &self,
        url: &Url,
        place: &Place,
        token: Option<&Token>,
        wanted: &Wanted,
    ) -> Result<Response, Fault> {
        let request = |place: &Place, ours: bool| {
            let token = token.filter(|_| ours);
            let request =
                Request::new(Method::GET, &place.server, place.target.as_str()).token(token);
            if !wanted.ranged {
                return request;
            }
            // The range has both ends, since servers answer open ranges with no bytes at all.
            let Range { start, end } = wanted.range;
            request.header(RANGE, format!("bytes={start}-{}", end - 1))
        };
        let response = self.router.send_following(url, place, request).await?;
        self.servers.answered(&place.server);
        Ok(response)
    }

    /// A server that answered, and not with the object.
    async fn answered(&self, place: &Place, response: Response, passes: &mut Passes) -> Fared {
        let (status, asked) = (response.status, retry_after(&response));
        if matches!(status, 401 | 403) {
            let told = &mut passes.sources.told;
            *told = parse_answer(&response.headers).namespace.or(told.take());
        }
        let said = said(response).await;
        passes.answered(place, (status, said), asked, &self.servers, Instant::now())
    }

    /// The first of `rivals` that sends twice as fast as `rate`: known from before, or
    /// found by asking it for one block.
    async fn faster(
        &self,
        url: &Url,
        route: &Route,
        take: &dyn Take,
        rivals: &[Place],
        rate: u64,
    ) -> Result<Option<Place>, Error> {
        let enough = rate.saturating_mul(2).max(1);
        let token = self.credentials.read_token(url, route.namespace.as_ref()).await?;
        let now = Instant::now();
        for place in rivals.iter().filter(|place| self.servers.wait(&place.server, now).is_zero()) {
            let known = match self.servers.rate(&place.server, now) {
                Some(known) => known,
                None => self.probe(url, place, token.as_ref(), take, enough).await,
            };
            if known >= enough {
                return Ok(Some(place.clone()));
            }
        }
        Ok(None)
    }

    /// The bytes per second at which a server sends the next block; those it sends in the
    /// time in which one that is fast enough sends all.
    async fn probe(
        &self,
        url: &Url,
        place: &Place,
        token: Option<&Token>,
        take: &dyn Take,
        enough: u64,
    ) -> u64 {
        let Some(len) = take.len() else { return 0 };
        let start = take.position();
        let range = start..len.min(start.saturating_add(BLOCK_BYTES as u64));
        let limit = Duration::from_secs_f64((range.end - start) as f64 / enough as f64);
        let limit = limit.clamp(self.options.stall_timeout / 30, self.options.stall_timeout);
        let begun = Instant::now();
        let wanted = Wanted { range, ranged: true };
        let mut received = 0_u64;
        let receive = async {
            let mut response = self.get(url, place, token, &wanted).await.ok()?;
            while response.status == 206 {
                received += response.chunk().await.ok()??.len() as u64;
            }
            Some(())
        };
        let _ = timeout(limit, receive).await;
        let rate = per_second(received, begun.elapsed());
        self.servers.measured(&place.server, rate, Instant::now());
        rate
    }
}
