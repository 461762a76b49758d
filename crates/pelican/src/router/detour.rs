//! The servers for a read if the director does not answer: those that it named last, and those that
//! the user prefers. They are used only for bytes that a digest covers.

use std::time::Duration;

use tokio::time::timeout;

use crate::route::{Route, Verb};
use crate::router::Router;
use crate::{Error, Scheme, Url};

/// How long a director may take to answer when there is a route without it.
const HASTE: Duration = Duration::from_secs(10);

impl Router {
    /// Returns the servers for reading `url`. If the director does not answer and the bytes are
    /// verified, these are the servers that it named last, and those that the user prefers.
    pub(crate) async fn route_to_read(&self, url: &Url, verified: bool) -> Result<Route, Error> {
        // With one cache alone, only that cache may be used.
        let one = self.options.only_cache.is_some();
        if url.scheme() != Scheme::Pelican || url.is_direct() || one {
            return self.route(url, Verb::Read).await;
        }
        let haste = HASTE.min(self.options.patience / 4);
        let last = if verified { self.last_good_of(url) } else { None };
        let error = match &last {
            Some(last) if self.last_good.is_down(url) => return Ok(last.clone()),
            Some(_) => match timeout(haste, self.route(url, Verb::Read)).await {
                Ok(Ok(route)) => Ok(route),
                Ok(Err(error)) => Err(Some(error)),
                Err(_) => Err(None),
            },
            None => self.route(url, Verb::Read).await.map_err(Some),
        };
        let error = match error {
            Ok(route) => {
                self.last_good.note(url, false);
                self.last_good.keep(url, &route);
                return Ok(route);
            }
            Err(error) => error,
        };
        match (last, error) {
            (Some(last), error) if error.as_ref().is_none_or(is_the_directors) => {
                if self.last_good.note(url, true) {
                    let why = error
                        .map_or(format!("no answer in {} s", haste.as_secs()), |e| e.to_string());
                    self.options
                        .tell
                        .say(&format!("using the servers that the director named earlier: {why}"));
                }
                Ok(last)
            }
            (_, Some(error)) => Err(error),
            (_, None) => self.route(url, Verb::Read).await,
        }
    }

    fn last_good_of(&self, url: &Url) -> Option<Route> {
        let mut route = match self.last_good.find(url) {
            Some(route) => route,
            None if self.routes.has_preferred() => Route::of(Vec::new()),
            None => return None,
        };
        self.routes.prefer(url, &mut route);
        (!route.places.is_empty()).then_some(route)
    }
}

/// Whether an error of asking the director is about the director, and not about the object or the
/// token.
fn is_the_directors(error: &Error) -> bool {
    use Error::{Discovery, Failed, NoNamespace, NoOrigin};
    matches!(error, Discovery { .. } | Failed { .. } | NoOrigin { .. } | NoNamespace { .. })
}
