//! What a collection holds, so that each object need not be asked for.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gular_pelican::{Client, Error as Pelican, Url};

/// How long a listing is believed: another publisher may be at work.
const LISTING_AGE: Duration = Duration::from_secs(3);

/// What a collection holds: one request in place of one for each object. (And
/// XRootD 5.5.3 closes a connection after each 404, which over TLS and several
/// at once can crash it.)
pub(super) struct Listing<'a> {
    client: &'a Client,
    collection: &'a Url,
    cancel: &'a AtomicBool,
    /// When it was made, and the names; `None` where nothing can be listed.
    known: Mutex<(Instant, Option<BTreeSet<String>>)>,
}

impl<'a> Listing<'a> {
    pub(super) fn new(client: &'a Client, collection: &'a Url, cancel: &'a AtomicBool) -> Self {
        let known = Mutex::new((Instant::now(), names(client, collection, cancel)));
        Self { client, collection, cancel, known }
    }

    /// Whether at this moment there is no such object, as far as can be listed.
    pub(super) fn lacks(&self, name: &str) -> bool {
        let Ok(mut known) = self.known.lock() else { return false };
        if known.0.elapsed() > LISTING_AGE && known.1.is_some() {
            *known = (Instant::now(), names(self.client, self.collection, self.cancel));
        }
        known.1.as_ref().is_some_and(|names| !names.contains(name))
    }
}

fn names(client: &Client, collection: &Url, cancel: &AtomicBool) -> Option<BTreeSet<String>> {
    match client.list(collection, cancel) {
        Ok(entries) => Some(entries.into_iter().map(|entry| entry.name).collect()),
        Err(Pelican::NotFound { .. }) => Some(BTreeSet::new()),
        Err(_) => None,
    }
}
