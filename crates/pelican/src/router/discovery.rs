//! Finds a federation's director and registry, by asking its discovery host.
//!
//! ```text
//! https://HOST/.well-known/pelican-configuration ─▶ director_endpoint, kept 30 min
//! ```

use std::time::Instant;

use hyper::Method;
use tokio::time::sleep;

use crate::http::{Fault, Request, Response, Role, Server};
use crate::retry::{Policy, Retry};
use crate::route::{Place, retry_after};
use crate::router::Router;
use crate::router::redirect;
use crate::router::routes::Director;
use crate::{Cause, Error};

/// A discovery host's JSON is a few hundred bytes.
const MAX_JSON: usize = 1 << 20;

/// Redirects of a discovery host that are followed.
const MAX_REDIRECTS: usize = 5;

/// Why a discovery host is of no use, and whether it may be at another time.
struct Useless {
    reason: String,
    passes: bool,
    cause: Cause,
}

impl Useless {
    fn lasting(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), passes: false, cause: Cause::Other }
    }
}

impl Router {
    /// Returns the director of the federation whose discovery host is `authority`. If several
    /// threads need it at the same time, only one of them asks.
    pub(crate) async fn director(&self, authority: &str) -> Result<Director, Error> {
        if let Some(director) = self.routes.directors.known(authority) {
            return Ok(director);
        }
        let gate = self.routes.gates.of(authority);
        let _turn = gate.lock().await;
        if let Some(director) = self.routes.directors.known(authority) {
            return Ok(director);
        }
        let director = self.discover(authority).await.map_err(|useless| {
            let Useless { reason, passes, cause } = useless;
            Error::Discovery { host: authority.to_owned(), reason, passes, cause }
        })?;
        self.routes.directors.keep(authority, director.clone());
        Ok(director)
    }

    async fn discover(&self, authority: &str) -> Result<Director, Useless> {
        let url = format!("https://{authority}/.well-known/pelican-configuration");
        let first = Place::of(&url).ok_or_else(|| Useless::lasting("it is not a host name"))?;
        let mut retry = Retry::new(Policy::DISCOVERY, self.options.patience, Instant::now());
        let (place, response) = loop {
            let (fault, asked) = match self.ask_discovery(&first).await {
                Ok((_, response)) if matches!(response.status, 429 | 500..) => {
                    let (status, asked) = (response.status, retry_after(&response));
                    response.finish().await;
                    (format!("it answers {status}"), asked)
                }
                Ok(found) => break found,
                // None of these errors disappears within seconds.
                Err(fault @ Fault::Tls(..)) => {
                    let cause = fault.cause();
                    return Err(Useless { cause, ..Useless::lasting(fault.to_string()) });
                }
                Err(fault) => (fault.to_string(), None),
            };
            let spent = retry.spent(Instant::now());
            let Some(wait) = retry.again(asked, Instant::now()) else {
                let reason = format!("{fault} ({spent})");
                return Err(Useless { reason, passes: true, cause: Cause::Other });
            };
            sleep(wait).await;
        };
        // The answer may be from another host than the one that was asked first.
        let target = match place == first {
            true => place.target,
            false => format!("{}{}", place.server, gular_files::mask_url(&place.target)),
        };
        match response.status {
            200 => {}
            410 => {
                let reason = "it says that it is not the discovery host of a federation (410)";
                return Err(Useless::lasting(reason));
            }
            status @ 300..400 => {
                let reason =
                    format!("`{target}` answers {status} and does not redirect to an https URL");
                return Err(Useless::lasting(reason));
            }
            status => return Err(Useless::lasting(format!("`{target}` answers {status}"))),
        }
        let passing = |fault: Fault| Useless {
            reason: fault.to_string(),
            passes: true,
            cause: fault.cause(),
        };
        let body = response.read(MAX_JSON).await.map_err(passing)?;
        let json: serde_json::Value = serde_json::from_slice(&body)
            .map_err(|e| Useless::lasting(format!("`{target}` is not JSON: {e}")))?;
        match json.get("director_endpoint").and_then(|v| v.as_str()).filter(|s| !s.is_empty()) {
            None => Ok(Director::Standalone(first.server)),
            Some(url) => {
                let (server, base) = Server::split(url).ok_or_else(|| {
                    let url = gular_files::mask_url(url);
                    Useless::lasting(format!("its director_endpoint `{url}` is not an http(s) URL"))
                })?;
                let registry = json.get("namespace_registration_endpoint");
                let registry = registry.and_then(|url| Place::of(url.as_str()?));
                Ok(Director::At {
                    server,
                    base: base.trim_end_matches('/').to_owned(),
                    registry: registry.filter(|registry| registry.server.is_tls()),
                })
            }
        }
    }

    /// Asks once, and whoever the answers lead to, over TLS alone and without a token.
    async fn ask_discovery(&self, first: &Place) -> Result<(Place, Response), Fault> {
        let mut at = first.clone();
        let mut n_redirects = 0;
        loop {
            let request = Request::new(Method::GET, &at.server, at.target.as_str());
            let request = request.role(Role::Director);
            let response = self.http.send(&request).await?;
            let leads = matches!(response.status, 301..=303 | 307 | 308);
            let next = response.header("location").and_then(|to| redirect::next(&at, to));
            let follow = leads && n_redirects < MAX_REDIRECTS;
            match next.filter(|next| follow && next.server.is_tls()) {
                None => return Ok((at, response)),
                Some(next) => {
                    response.finish().await;
                    (at, n_redirects) = (next, n_redirects + 1);
                }
            }
        }
    }
}
