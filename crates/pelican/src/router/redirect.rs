//! Follows the redirects of servers that store objects, package indexes and archives.
//!
//! A federation's director answers with redirects too, which are read and not followed (`route`).
//! Any other server may name another place: itself under another path (a namespace's root with `/`
//! at its end), a node of its cluster, a mirror. The other place is never less secure than the
//! first. Within the server's own site the token is sent, too; elsewhere only what the `Location`
//! itself contains.

use crate::http::{Fault, Request, Response, Role, Server};
use crate::route::Place;
use crate::router::Router;
use crate::{Scheme, Url};

/// Redirects followed for one request, as curl's users are used to (its own limit is 50).
const MAX_REDIRECTS: usize = 10;

impl Router {
    /// Sends the request that `request` makes for a place, and, if the answer is another place, the
    /// one that it makes for that. `request` is told whether it may use the token.
    pub(crate) async fn send_following(
        &self,
        url: &Url,
        place: &Place,
        request: impl Fn(&Place, bool) -> Request,
    ) -> Result<Response, Fault> {
        let role = if url.scheme() == Scheme::Pelican { Role::Data } else { Role::Other };
        let mut response = self.http.send(&request(place, true).role(role)).await?;
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
            let ours = match url.scheme() {
                Scheme::Pelican => is_site(&place.server, &at) && !carries_token(&at),
                _ => at.server == place.server,
            };
            response = self.http.send(&request(&at, ours).role(role)).await?;
        }
        Ok(response)
    }
}

/// Whether a place belongs to a server's site: the same host, or one beside it, such as the nodes
/// of a cluster.
fn is_site(server: &Server, at: &Place) -> bool {
    let (one, other) = (server.host(), at.server.host());
    // `node.site.example` and `other.site.example`; never two names right below `com`, or
    // below what is registered for many, such as `ac.uk`.
    let beside = || {
        let (_, above) = one.split_once('.')?;
        let (_, other) = other.split_once('.')?;
        let is_address = one.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let (rest, top) = above.rsplit_once('.')?;
        let own = rest.contains('.') || top.len() > 2 || rest.len() > 3;
        (above == other && !is_address && own).then_some(())
    };
    one == other || beside().is_some()
}

/// Whether the place's query contains a token.
fn carries_token(place: &Place) -> bool {
    let query = place.target.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|part| part.starts_with("authz=") || part.starts_with("access_token="))
}

/// The place that a `Location` names; `None` if it is not a place, or less secure than `at`.
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

    #[test]
    fn a_site_is_a_host_and_those_beside_it() {
        let check = |one: &str, other: &str, expected: bool| {
            let server = Place::of(&format!("https://{one}/x")).unwrap().server;
            let at = Place::of(&format!("https://{other}/x")).unwrap();
            assert_eq!(is_site(&server, &at), expected, "{one} {other}");
        };
        check("door.site.org", "door.site.org:1095", true);
        check("door.site.org", "node7.site.org:1095", true);
        check("xrd.hep.ac.uk", "node.hep.ac.uk", true);
        check("10.0.0.1", "10.0.0.1:1", true);
        check("door.site.org", "site.org", false);
        check("door.site.org", "node.other.org", false);
        check("door.org", "node.org", false);
        check("door.ac.uk", "node.ac.uk", false);
        check("10.0.0.1", "11.0.0.1", false);
    }

    #[test]
    fn a_location_may_carry_its_own_token() {
        let check = |target: &str, expected: bool| {
            assert_eq!(carries_token(&Place::of(&format!("https://h{target}")).unwrap()), expected);
        };
        check("/x?a=b&authz=secret", true);
        check("/x?access_token=secret", true);
        check("/x?a=authz=", false);
        check("/authz=x", false);
    }
}
