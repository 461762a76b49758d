//! The servers for a read when the director does not say: those that it named last, and those
//! that the user prefers. For bytes alone that a digest covers.

use std::time::Duration;

use tokio::time::timeout;

use crate::client::Inner;
use crate::route::{Route, Verb};
use crate::{Error, Scheme, Url};

/// How long a director may take to answer when there is a route without it.
const HASTE: Duration = Duration::from_secs(10);

impl Inner {
    /// The servers for reading `url`. For verified bytes, where the director does not say,
    /// those it named last, and those that the user prefers.
    pub(crate) async fn route_to_read(&self, url: &Url, verified: bool) -> Result<Route, Error> {
        // With one cache alone it is about that one.
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
                    self.options.tell.say(&format!(
                        "going on with the servers that the director named before: {why}"
                    ));
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

/// Whether an error tells of the director, and not of the object.
fn is_the_directors(error: &Error) -> bool {
    match error {
        Error::Discovery { .. } | Error::Failed { .. } => true,
        // What it says when no origin of the namespace has told it of itself for a while;
        // of an object that nobody has it says otherwise.
        Error::NotFound { said, .. } => {
            let said = said.to_ascii_lowercase();
            said.contains("no sources found") || said.contains("no caches can fulfill")
        }
        Error::Unsupported { reason, .. } => reason.contains("answers 5"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_directors_troubles_count() {
        let said = |said: &str| {
            let (url, server, said) = ("u".to_owned(), "s".to_owned(), said.to_owned());
            is_the_directors(&Error::NotFound { url, server, said })
        };
        // The words of Pelican 7.
        assert!(said(": No sources found for the requested path: no origins: Request ID: 1"));
        assert!(!said(": No sources reported possession of the object: Are you sure it exists?"));
        assert!(!is_the_directors(&Error::Cancelled));
    }
}
