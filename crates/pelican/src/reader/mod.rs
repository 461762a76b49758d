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
use self::receive::{Broken, Wanted, per_second};
use self::servers::Servers;
use self::sources::{Fared, Sources, Verdict};
use crate::credentials::{Credentials, Refusal};
use crate::director::parse_answer;
use crate::error::Blamed;
use crate::http::{Fault, Request, Response, Server};
use crate::options::ClientOptions;
use crate::pace::Pace;
use crate::retry::{Policy, Retry};
use crate::route::{Place, Route, Verb, retry_after, said};
use crate::router::Router;
use crate::token::Action;
use crate::{Error, Scheme, Token, Url};

/// Why clients cannot connect to some origins.
const BROKERED: &str =
    " (the director says that only servers can reach its origin, through a broker)";

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
        let patience = self.options.patience;
        let mut route = self.router.route_to_read(url, take.is_verified()).await?;
        let direct = url.scheme() != Scheme::Pelican || url.is_direct();
        let mut origin_asked = direct || self.router.routes.only_preferred();
        // Before the first byte a wrong host is likelier than a server that restarts; but
        // caches get the time after which the origin is asked.
        let hasty = if origin_asked { patience / 6 } else { self.origin_after() + patience / 6 };
        let mut retry = Retry::new(Policy::READ, hasty);
        let cooling = |server: &Server| self.servers.is_cooling(server);
        let wait = |server: &Server| self.servers.wait(server);
        let mut sources = Sources::new(&route.places, direct, cooling);
        sources.is_public = route.namespace.as_ref().is_some_and(|n| !n.require_token);
        let mut reached = take.position();
        loop {
            while let Some(place) = sources.next(wait) {
                let Some(fared) = self.attempt(url, &route, &place, take, &mut sources).await?
                else {
                    for server in sources.wrong() {
                        self.servers.gave_wrong(server, url);
                    }
                    return Ok(());
                };
                take.rewind();
                if take.position() > reached {
                    reached = take.position();
                    retry.progressed(patience);
                    sources.forget_waits();
                }
                if let Fared::Slow(rate) = fared {
                    let faster = self.faster(url, &route, take, &sources.rivals(), rate).await?;
                    sources.prefer(faster.as_ref());
                }
                sources.note(fared);
            }
            let unreachable = |server: &Server| self.servers.unreachable_for(server);
            let origin_in =
                sources.unreachable_in(self.origin_after(), unreachable).filter(|_| !origin_asked);
            if !origin_asked && (sources.lacks() || origin_in.is_some_and(|left| left.is_zero())) {
                origin_asked = true;
                if let Ok(origin) = self.router.route(url, Verb::ReadOrigin).await
                    && sources.add(origin.places, true)
                {
                    continue;
                }
            }
            if route.reused && (sources.lacks() || sources.is_unreachable(unreachable)) {
                // The director's answer for another object need not hold for this one.
                route = self.router.route_anew(url, Verb::Read, &route).await;
                if sources.add(route.places.clone(), direct) {
                    continue;
                }
            }
            if sources.is_busy() {
                retry.bear(patience);
            }
            let asked = sources.end_pass(wait);
            let Some(mut pause) = asked.and_then(|asked| retry.again(Some(asked))) else {
                return Err(self.verdict(url, &route, sources, retry.elapsed()));
            };
            if let Some(left) = origin_in {
                pause = pause.min(left);
            }
            sleep(pause).await;
        }
    }

    /// How long all caches must have taken no connection before the origin is asked.
    fn origin_after(&self) -> Duration {
        self.options.patience / 3
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
        sources: &mut Sources,
    ) -> Result<Option<Fared>, Error> {
        let mut token = self.credentials.read_token(url, route.namespace.as_ref()).await?;
        loop {
            let (position, len, until) = (take.position(), take.len(), take.until());
            if position > 0 && until == Some(position) {
                // All bytes arrived, and only the end of the answer was lost.
                return Ok(None);
            }
            let mut range = position..until.unwrap_or(u64::MAX);
            if sources.is_doubtful(position) && len.is_some() {
                // Another server had other bytes here, so one block shows whether this one has
                // them, too.
                range.end = range.end.min(position.saturating_add(BLOCK_BYTES as u64));
            }
            let ranged = position > 0 || len.is_some_and(|len| range.end < len);
            let wanted = Wanted { range, ranged };
            let response = match self.get(url, place, token.as_ref(), &wanted).await {
                Ok(response) => response,
                Err(fault) => return Ok(Some(self.failed(place, &fault, route, sources))),
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
                return Ok(Some(self.answered(place, response, sources).await));
            }
            let leave = len.is_some() && !sources.rivals().is_empty();
            match self.receive(&place.server, response, &wanted, take, leave).await {
                Ok(()) if until.is_some_and(|until| take.position() < until) => {}
                Ok(()) => return Ok(None),
                Err(Broken::Fault(fault)) => {
                    return Ok(Some(self.failed(place, &fault, route, sources)));
                }
                Err(Broken::Slow { rate, after }) => {
                    let why = format!("slow: {} KiB/s over {} s", rate >> 10, after.as_secs());
                    sources.attempts.add(&place.server, why);
                    return Ok(Some(Fared::Slow(rate)));
                }
                Err(Broken::Stop(Stop::Refused(wrong))) => {
                    sources.attempts.add_lasting(&place.server, wrong.to_string());
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

    /// A server that gave no answer, or not all of one.
    fn failed(&self, place: &Place, fault: &Fault, route: &Route, sources: &mut Sources) -> Fared {
        self.servers.cool_down(&place.server);
        if fault.is_connection() {
            self.servers.unreachable(&place.server);
        }
        let broker = if route.brokered { BROKERED } else { "" };
        match fault {
            Fault::Tls(..) => {
                sources.attempts.add_lasting(&place.server, fault);
                Fared::Out
            }
            _ => {
                let fault = Blamed::new(format!("{fault}{broker}"), fault.cause());
                sources.attempts.add(&place.server, fault);
                Fared::Again
            }
        }
    }

    /// A server that answered, and not with the object.
    async fn answered(&self, place: &Place, response: Response, sources: &mut Sources) -> Fared {
        let (status, asked) = (response.status, retry_after(&response));
        if matches!(status, 401 | 403) {
            sources.told = parse_answer(&response.headers).namespace.or(sources.told.take());
        }
        let said = said(response).await;
        let words = format!("{status}{said}");
        match status {
            408 | 429 | 501.. => {
                sources.attempts.add(&place.server, words);
                self.servers.busy(&place.server, asked.unwrap_or_default());
                if matches!(status, 429 | 503) { Fared::Busy } else { Fared::Again }
            }
            500 => {
                sources.attempts.add(&place.server, words);
                Fared::Broken
            }
            _ => {
                sources.attempts.add_lasting(&place.server, words);
                match status {
                    401 | 403 => Fared::Refused(Refusal { status, said }),
                    404 | 410 => Fared::Missing(said),
                    // Only an object's bytes can be wrong; a redirect or a refusal contains none.
                    ..300 => Fared::Wrong(0),
                    _ => Fared::Out,
                }
            }
        }
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
        for place in rivals.iter().filter(|place| self.servers.wait(&place.server).is_zero()) {
            let known = match self.servers.rate(&place.server) {
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
        self.servers.measured(&place.server, rate);
        rate
    }
}
