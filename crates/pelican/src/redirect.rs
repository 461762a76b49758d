//! Redirects of single servers: package indexes and archives answer with them.
//!
//! A federation's director answers with redirects too, which are read and not
//! followed (`route`). Where the URL names one server, that server may name another:
//! asked without the token, and never less safely than the first.

use crate::client::Inner;
use crate::http::{Fault, Request, Response};
use crate::route::Place;
use crate::{Scheme, Url};

/// Redirects followed for one request, as curl's users are used to (its own limit is 50).
const MAX_REDIRECTS: usize = 10;

impl Inner {
    /// Sends what `request` makes for a place, and where that answers with another
    /// place what it makes for that one. It is told whether the token may go there.
    pub(crate) async fn send_following(
        &self,
        url: &Url,
        place: &Place,
        request: impl Fn(&Place, bool) -> Request,
    ) -> Result<Response, Fault> {
        let mut response = self.http.send(&request(place, true)).await?;
        if !matches!(url.scheme(), Scheme::Https | Scheme::Http) {
            return Ok(response);
        }
        let mut at = place.clone();
        for _ in 0..MAX_REDIRECTS {
            if !matches!(response.status, 301..=303 | 307 | 308) {
                break;
            }
            let Some(next) = response.header("location").and_then(|to| next(&at, to)) else {
                break;
            };
            response.finish().await;
            at = next;
            response = self.http.send(&request(&at, at.server == place.server)).await?;
        }
        Ok(response)
    }
}

/// Where a `Location` leads; `None` for what is no place, or less safe than this one.
pub(crate) fn next(at: &Place, location: &str) -> Option<Place> {
    let location = location.split('#').next()?.trim();
    let next = if location.contains("://") {
        Place::of(location)?
    } else {
        // `//HOST/…` names a host too, and a name alone one beside this.
        let own = location.starts_with('/') && !location.starts_with("//");
        own.then(|| Place { server: at.server.clone(), target: location.to_owned() })?
    };
    let sound = next.target.starts_with('/') && next.target.bytes().all(|b| b.is_ascii_graphic());
    let safe = next.server.keeps_secrets() || !at.server.keeps_secrets();
    (sound && safe).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_lead_to_places_no_less_safe() {
        let at = Place::of("https://pypi.org/simple/torch").unwrap();
        for (location, expected) in [
            ("/simple/torch/", Some("https://pypi.org/simple/torch/")),
            ("https://files.example:8443/a?b=c#d", Some("https://files.example:8443/a?b=c")),
            ("http://files.example/a", None),
            ("//files.example/a", None),
            ("torch/", None),
            ("", None),
            ("https://files.example", None),
            ("/a b", None),
            ("file:///etc/passwd", None),
        ] {
            let found = next(&at, location);
            assert_eq!(found, expected.and_then(Place::of), "{location}");
        }
        let open = Place::of("http://mirror.example/x").unwrap();
        assert!(next(&open, "http://other.example/x").is_some());
    }
}
