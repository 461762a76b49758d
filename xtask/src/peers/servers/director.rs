//! Discovery and director in front of servers that have none.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gular_federation::{Caches, Federation, Options, Origin};

use super::xrootd::{ISSUER, NAMESPACE};

/// The embedded federation, sending clients to other servers; ends when dropped.
pub(crate) struct Director {
    _federation: Federation,
    /// `pelican://localhost:PORT/test`.
    pub(crate) url: String,
    /// Who signed its certificate.
    pub(crate) ca: PathBuf,
}

impl Director {
    /// Starts one with its files in `dir`; with `tokens`, clients are told that all
    /// takes tokens of [`ISSUER`].
    pub(crate) fn start(dir: &Path, origin: &str, caches: &[String], tokens: bool) -> Result<Self> {
        let options = Options {
            namespace: NAMESPACE.to_owned(),
            origin: Origin::External(origin.to_owned()),
            caches: match caches {
                [] => Caches::None,
                caches => Caches::External(caches.to_vec()),
            },
            issuer: tokens.then(|| ISSUER.to_owned()),
            require_token: tokens,
            ..Options::new(dir)
        };
        let federation = Federation::start(&options).context("cannot start a director")?;
        let (url, ca) = (federation.url(), federation.ca_file().to_owned());
        Ok(Self { _federation: federation, url, ca })
    }
}
