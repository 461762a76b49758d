//! Servers that gave wrong bytes for an object that another server has right.

use gular_pelican::Client;
use serde::Serialize;

/// A server that sent wrong bytes: no harm came of it, and who runs it should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrongCopy {
    /// `https://HOST[:PORT]`.
    pub server: String,
    /// Number of objects for which the server sent wrong bytes.
    pub objects: u64,
    /// One of these objects.
    pub such_as: String,
}

/// Returns all servers that have sent wrong bytes to `client` so far.
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
