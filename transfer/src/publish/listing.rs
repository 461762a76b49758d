//! Lists a collection, so that the server need not be asked about each object.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use gular_pelican::{Client, Error as Pelican, Url};

/// The names in a collection when the work began, which need one request instead of one per object.
/// (Also, XRootD 5.5.3 closes a connection after each 404, which can crash it over TLS with several
/// at once.)
///
/// The listing is made once, since listing all objects costs the origin far more than asking for a
/// single one. The client asks for each object if the token could overwrite it.
pub(super) struct Listing(Option<BTreeSet<String>>);

impl Listing {
    /// Lists `collection`; empty if it cannot be listed.
    pub(super) fn new(client: &Client, collection: &Url, cancel: &AtomicBool) -> Self {
        Self(names(client, collection, cancel))
    }

    /// Returns whether there was no such object, as far as the listing shows.
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
