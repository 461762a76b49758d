//! Which server a URL belongs to.

/// Scheme, host and port: what a browser calls an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    tls: bool,
    authority: String,
}

impl Origin {
    /// The origin of `http[s]://HOST[:PORT]/…`; `None` for anything else.
    pub(super) fn of(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next()?.to_ascii_lowercase();
        let sound = |b: u8| b.is_ascii_alphanumeric() || b".-:[]_".contains(&b);
        if authority.is_empty() || !authority.bytes().all(sound) {
            return None;
        }
        let default = if tls { ":443" } else { ":80" };
        let authority = authority.strip_suffix(default).unwrap_or(&authority).to_owned();
        Some(Self { tls, authority })
    }

    /// Whether a password may be sent there: over TLS, or to this very machine.
    pub(super) fn keeps_secrets(&self) -> bool {
        let name = match self.authority.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => name,
            _ => &self.authority,
        };
        self.tls || matches!(name, "localhost" | "127.0.0.1" | "[::1]")
    }
}

/// The URL to which a `Location` leads from `url`; `None` if it is not a URL, or is less safe than
/// `url`.
pub(super) fn next(url: &str, location: &str) -> Option<String> {
    let from = Origin::of(url)?;
    let location = location.split('#').next()?.trim();
    let next = if location.contains("://") {
        location.to_owned()
    } else {
        // `//HOST/…` names a host too, and a name alone one beside this.
        let own = location.starts_with('/') && !location.starts_with("//");
        let (scheme, rest) = url.split_once("://").filter(|_| own)?;
        let authority = rest.split(['/', '?', '#']).next()?;
        format!("{scheme}://{authority}{location}")
    };
    let to = Origin::of(&next)?;
    let sound = next.bytes().all(|b| b.is_ascii_graphic());
    let safe = to.keeps_secrets() || !from.keeps_secrets();
    (sound && safe).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_the_same_by_scheme_host_and_port() {
        let same = |a: &str, b: &str| Origin::of(a) == Origin::of(b);
        assert!(same("https://Q.io/a", "https://q.io:443/b?c"));
        assert!(same("http://q.io:80", "http://q.io/"));
        assert!(!same("https://q.io/", "http://q.io/"));
        assert!(!same("https://q.io/", "https://q.io:8443/"));
        assert!(!same("https://q.io/", "https://cdn.q.io/"));
        for bad in ["q.io/a", "ftp://q.io", "https:///a", "https://u@q.io/", "https://q.io%2f@e/"] {
            assert_eq!(Origin::of(bad), None, "{bad}");
        }
    }

    #[test]
    fn locations_lead_to_places_no_less_safe() {
        let url = "https://q.io/v2/a/blobs/uploads/";
        for (location, expected) in [
            ("/v2/x?y=z", Some("https://q.io/v2/x?y=z")),
            ("https://cdn.example/x#y", Some("https://cdn.example/x")),
            ("http://cdn.example/x", None),
            ("//cdn.example/x", None),
            ("x", None),
            ("file:///etc/passwd", None),
            ("/a b", None),
        ] {
            assert_eq!(next(url, location).as_deref(), expected, "{location}");
        }
        assert!(next("http://127.0.0.1:5000/v2/", "http://evil.example/x").is_none());
    }
}
