//! The federation of a soak: honest servers, faulty ones before them, and a director that names only
//! the faulty ones.
//!
//! ```text
//!  client ─▶ director (forgets its servers now and then)
//!         ─▶ cache 1 ┐
//!         ─▶ cache 2 ┴ faulty ─▶ cache  ┐
//!         ─▶ origin  ─ faulty ─▶ origin ┴ honest
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::Result;
use gular_federation::{Caches, Federation, Options, Origin, Trouble};

use super::faults::{Faults, ORIGIN};
use super::honest::{Behind, Honest};
use super::proxy::{Listener, Proxy};
use super::wire::Upstream;

/// How often the director's mood is looked up.
const POLL: Duration = Duration::from_millis(20);

/// The servers, which run until the process ends.
pub(super) struct Faulty {
    /// The namespace: `pelican://localhost:PORT/gular`, for example.
    pub(super) url: String,
    /// The certificates that clients must trust.
    pub(super) ca_file: PathBuf,
    /// A token for reading and creating, and the file that has it.
    pub(super) token: String,
    pub(super) token_file: PathBuf,
    /// Where the honest origin stores the objects of the namespace.
    pub(super) stored: PathBuf,
    _honest: Honest,
}

impl Faulty {
    /// Starts all servers, with their files below `dir`.
    pub(super) fn start(behind: Behind, dir: &Path, faults: &Arc<Faults>) -> Result<Self> {
        let honest = Honest::start(behind, &dir.join("honest"), faults)?;
        let servers =
            [("cache 1", &honest.cache), ("cache 2", &honest.cache), (ORIGIN, &honest.origin)];
        let listeners = [Listener::bind()?, Listener::bind()?, Listener::bind()?];
        let urls: Vec<String> = listeners.iter().map(Listener::url).collect();
        for ((name, upstream), listener) in servers.into_iter().zip(listeners) {
            let others = urls.iter().filter(|url| **url != listener.url()).cloned().collect();
            let upstream = Upstream::new(upstream, &honest.ca_file)?;
            let (faults, uploads) = (Arc::clone(faults), Arc::clone(&honest.uploads));
            Proxy { name, upstream, others, faults, uploads }.serve(listener);
        }
        let [first, second, origin] = &urls[..] else { unreachable!("three servers") };
        let director = Federation::start(&Options {
            origin: Origin::External(origin.clone()),
            caches: Caches::External(vec![first.clone(), second.clone()]),
            issuer: Some(honest.issuer.clone()),
            namespace: honest.namespace.to_owned(),
            require_token: true,
            ..Options::new(dir.join("director"))
        })?;
        let token_file = dir.join("token");
        fs::write(&token_file, &honest.token)?;
        let (url, ca_file) = (director.url(), director.ca_file().to_owned());
        trouble(director, Arc::clone(faults));
        Ok(Self {
            url,
            ca_file,
            token: honest.token.clone(),
            token_file,
            stored: honest.stored.clone(),
            _honest: honest,
        })
    }
}

/// Lets the director fail when the seed says so.
fn trouble(director: Federation, faults: Arc<Faults>) {
    thread::spawn(move || {
        let mut before = None;
        loop {
            let now = faults.director();
            if now != before {
                director.trouble(now.unwrap_or(Trouble::None));
                match now {
                    Some(Trouble::Restarted) => faults.count("director restarted"),
                    Some(_) => faults.count("director without origins"),
                    None => {}
                }
                before = now;
            }
            sleep(POLL);
        }
    });
}
