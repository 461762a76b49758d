//! Lists a collection, so that the server need not be asked about each object.

use std::collections::BTreeMap;

use gular_files::Watch;
use gular_pelican::{Client, CollectionMember, Error as Pelican, Listed, Url};

/// The names and lengths in a collection when the work began, which need one request instead of one per object.
/// (Also, XRootD 5.5.3 closes a connection after each 404, which can crash it over TLS with several
/// at once.)
///
/// The listing is made once, since listing all objects costs the origin far more than asking for a
/// single one. The client asks for each object if the token could overwrite it.
pub(super) struct Listing(Option<BTreeMap<String, CollectionMember>>);

impl Listing {
    /// Lists `collection`; empty if it cannot be listed.
    pub(super) fn new(client: &Client, collection: &Url, watch: Watch<'_>) -> Self {
        Self(names(client, collection, watch))
    }

    /// What the listing says of an object.
    pub(super) fn of(&self, name: &str) -> Listed<'_> {
        self.0.as_ref().map_or(Listed::Unknown, |names| Listed::of(names.get(name)))
    }
}

fn names(
    client: &Client,
    collection: &Url,
    watch: Watch<'_>,
) -> Option<BTreeMap<String, CollectionMember>> {
    match client.list(collection, watch) {
        Ok(listing) => {
            let entries = listing.entries.into_iter();
            Some(entries.map(|entry| (entry.name.clone(), entry)).collect())
        }
        Err(Pelican::NotFound { .. }) => Some(BTreeMap::new()),
        Err(_) => None,
    }
}
