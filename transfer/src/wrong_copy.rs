//! Servers that gave wrong bytes for an object that another server gave correctly.

use gular_pelican::Client;
use serde::Serialize;

/// A server that sent wrong bytes. They did no harm, but the server's operator should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WrongCopy {
    /// Address of the server, `https://HOST[:PORT]`.
    pub server: String,
    /// Number of objects for which the server sent wrong bytes.
    pub objects: u64,
    /// Name of one of these objects.
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
