//! Checks how each server of a federation serves a bundle or a single object.
//!
//! ```text
//! manifest.json ─▶ discovery, director, token, each cache, each origin
//! its largest shard ─▶ speed of each cache and origin, age of its copy
//! ```

use gular_bundle::Digest;
use gular_pelican::{Client, Error as Pelican, Examination, ProbeFault, Role, Url};

use crate::{BundleUrl, Error, Published, RemoteBundle, Watch};

/// The result of a checkup: what was examined, and how each server answered.
#[derive(Debug, Clone)]
pub struct Checkup {
    /// Results for each server, in the order in which a transfer would use them.
    pub examination: Examination,
    /// The object that the servers were asked for.
    pub asked: Url,
    /// The bundle's digest, if a server has its manifest.
    pub digest: Option<Digest>,
    /// Whether the published bundle is not the one in the URL.
    pub other: bool,
}

impl Checkup {
    /// Returns whether at least one server serves what was asked for.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let mut probes = self.examination.probes.iter();
        probes.any(|probe| probe.read.is_some() && probe.fault.is_none())
    }

    /// Returns whether no fault was found.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let Examination { probes, token, .. } = &self.examination;
        let refused = matches!(token, Some(Err(_)));
        self.is_readable() && !self.other && !refused && probes.iter().all(|p| p.fault.is_none())
    }
}

/// Examines the servers of a bundle, or of a plain object.
///
/// # Errors
/// [`Error::NoBundleUrl`], and those of [`Client::examine`].
pub fn examine(client: &Client, url: &BundleUrl, watch: Watch<'_>) -> Result<Checkup, Error> {
    let manifest = Published::at(&url.url)?.manifest().clone();
    let mut examination = client.examine(&manifest, watch)?;
    let mut asked = manifest;
    if !is_anywhere(&examination) && is_object(client, &url.url, watch) {
        examination = client.examine(&url.url, watch)?;
        asked = url.url.clone();
        return Ok(Checkup { examination, asked, digest: None, other: false });
    }
    let bytes = examination.object.take();
    let remote = bytes.and_then(|bytes| RemoteBundle::with(url, bytes).ok());
    let Some(remote) = remote else {
        return Ok(Checkup { examination, asked, digest: None, other: false });
    };
    let largest = remote.manifest().shards.iter().map(|shard| &shard.file).max_by_key(|f| f.bytes);
    if let Some(file) = largest {
        match remote.locate(client, file, watch) {
            Ok(shard) => {
                for probe in &mut examination.probes {
                    let holds = matches!(probe.role, Role::Cache | Role::Origin | Role::Server);
                    if holds && probe.fault.is_none() {
                        client.measure(probe, &shard, file.bytes, watch)?;
                    }
                }
                asked = shard;
            }
            Err(Error::Pelican(Pelican::Cancelled)) => return Err(Pelican::Cancelled.into()),
            // The manifest was there, so the speeds are only those of reading it.
            Err(_) => {}
        }
    }
    let other = url.digest.is_some_and(|digest| digest != remote.digest());
    Ok(Checkup { examination, asked, digest: Some(remote.digest()), other })
}

/// Returns whether some server may have it; false if all others said that it is missing.
fn is_anywhere(seen: &Examination) -> bool {
    let missing = |fault: &Option<ProbeFault>| matches!(fault, Some(ProbeFault::Missing(_)));
    !seen.probes.iter().any(|probe| missing(&probe.fault)) || seen.object.is_some()
}

fn is_object(client: &Client, url: &Url, watch: Watch<'_>) -> bool {
    // If nothing can be listed, a server's answer about the name decides.
    client.stat(url, watch).is_ok_and(|stat| stat.collection != Some(true))
}
