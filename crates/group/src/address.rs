//! The address at which the ranks meet.

use std::fmt;

use gular_files::Env;

use crate::Error;

/// Where the ranks meet: the address and port rank 0 listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendezvous {
    /// A name or address of rank 0's machine, as the other ranks reach it.
    pub host: String,
    /// A free port of that machine.
    pub port: u16,
}

impl Rendezvous {
    /// `explicit` (host, port), else `MASTER_ADDR` and `MASTER_PORT`.
    ///
    /// torchrun's agent itself listens on `MASTER_PORT` when it sets
    /// `TORCHELASTIC_USE_AGENT_STORE=True`; the port after it is taken then.
    ///
    /// # Errors
    /// [`Error::NoPlace`] for a variable that is not set, [`Error::Place`]
    /// for one that is not a port.
    pub fn discover(explicit: Option<(&str, u16)>, env: &Env) -> Result<Self, Error> {
        if let Some((host, port)) = explicit {
            return Ok(Self { host: host.to_owned(), port });
        }
        let get = |variable| env.get(variable).ok_or(Error::NoPlace { variable });
        let (host, value) = (get("MASTER_ADDR")?, get("MASTER_PORT")?);
        let agent = env
            .get("TORCHELASTIC_USE_AGENT_STORE")
            .is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let port = value.trim().parse().ok().filter(|port| *port > 0);
        let port = port.and_then(|port: u16| port.checked_add(u16::from(agent)));
        let port =
            port.ok_or_else(|| Error::Place { variable: "MASTER_PORT", value: value.into() })?;
        Ok(Self { host: host.trim().to_owned(), port })
    }

    /// The host without the brackets that a URL has around an IPv6 address.
    pub(super) fn bare_host(&self) -> &str {
        let inner = self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        inner.unwrap_or(&self.host)
    }
}

impl fmt::Display for Rendezvous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bare_host() {
            host if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&str, &str)], expected: &str) {
        let place = Rendezvous::discover(None, &Env::from_pairs(pairs));
        let text = match place {
            Ok(place) => place.to_string(),
            Err(error) => {
                assert!(error.hint().is_some());
                error.to_string()
            }
        };
        assert_eq!(text, expected, "{pairs:?}");
    }

    #[test]
    fn place_comes_from_options_first_then_from_the_environment() {
        let here = [("MASTER_ADDR", "node7"), ("MASTER_PORT", "29500")];
        check(&here, "node7:29500");
        check(&[("MASTER_ADDR", "fe80::1"), ("MASTER_PORT", "1")], "[fe80::1]:1");
        check(&[("MASTER_ADDR", "[::1]"), ("MASTER_PORT", "1")], "[::1]:1");
        let env = Env::from_pairs(&here);
        let explicit = Rendezvous::discover(Some(("localhost", 5)), &env).unwrap();
        assert_eq!(explicit.to_string(), "localhost:5");
    }

    #[test]
    fn port_of_torchruns_agent_is_left_to_it() {
        let agent = |value| {
            [
                ("MASTER_ADDR", "a"),
                ("MASTER_PORT", "29500"),
                ("TORCHELASTIC_USE_AGENT_STORE", value),
            ]
        };
        check(&agent("True"), "a:29501");
        check(&agent("False"), "a:29500");
    }

    #[test]
    fn missing_or_wrong_variables_are_named() {
        let unset = |name: &str| {
            format!(
                "the ranks do not know where to find rank 0: the environment variable `{name}` is not set"
            )
        };
        check(&[], &unset("MASTER_ADDR"));
        check(&[("MASTER_ADDR", "a")], &unset("MASTER_PORT"));
        for port in ["0", "65536", "http", "-1"] {
            let expected = format!(
                "the environment variable `MASTER_PORT` is `{port}`, expected a port from 1 to 65535"
            );
            check(&[("MASTER_ADDR", "a"), ("MASTER_PORT", port)], &expected);
        }
    }
}
