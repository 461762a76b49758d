//! Servers that gave wrong bytes where another gave the right ones.

use gular_pelican::Client;
use serde::Serialize;

/// One such server: no harm came of it, and who runs it should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrongCopy {
    /// `https://HOST[:PORT]`.
    pub server: String,
    /// Objects of which it gave wrong bytes.
    pub objects: u64,
    /// One of them.
    pub such_as: String,
}

/// All that `client` has met so far.
#[must_use]
pub fn wrong_copies(client: &Client) -> Vec<WrongCopy> {
    let met = client.wrong_copies().into_iter();
    let copy = |(server, urls): (String, Vec<String>)| WrongCopy {
        server,
        objects: urls.len() as u64,
        such_as: urls.into_iter().next().unwrap_or_default(),
    };
    met.map(copy).collect()
}
