//! Lists a collection, so that the server need not be asked about each object.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use gular_pelican::{Client, Error as Pelican, Url};

/// What a collection held when the work began: one request in place of one for each
/// object. (And XRootD 5.5.3 closes a connection after each 404, which over TLS and
/// several at once can crash it.)
///
/// It is made once: a listing of all objects costs the origin far more than a look at
/// the one that is next, which the client takes where the token could overwrite.
pub(super) struct Listing(Option<BTreeSet<String>>);

impl Listing {
    /// Of nothing where nothing can be listed.
    pub(super) fn new(client: &Client, collection: &Url, cancel: &AtomicBool) -> Self {
        Self(names(client, collection, cancel))
    }

    /// Whether there was no such object, as far as can be listed.
    pub(super) fn lacks(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|names| !names.contains(name))
    }
}

fn names(client: &Client, collection: &Url, cancel: &AtomicBool) -> Option<BTreeSet<String>> {
    match client.list(collection, cancel) {
        Ok(listing) => Some(listing.entries.into_iter().map(|entry| entry.name).collect()),
        Err(Pelican::NotFound { .. }) => Some(BTreeSet::new()),
        Err(_) => None,
    }
}
