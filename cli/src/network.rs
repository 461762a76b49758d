//! What the verbs that use a network share.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use gular_pelican::{Client, ClientOptions, Env, Error, Tell, Url};
use gular_transfer::Cache;

use crate::exit::Failure;
use crate::stop::Stop;
use crate::{show, units};

/// How a federation is reached.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct Access {
    /// Token file; repeatable: Gular sends the first that permits the request
    ///
    /// The file holds a bearer token. Tokens that are found automatically (in BEARER_TOKEN,
    /// BEARER_TOKEN_FILE, and the other places that HTCondor and WLCG define) are sent only to a
    /// federation whose namespace trusts their issuer. For any other server, such as an
    /// `https://` one, name the token's file.
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Vec<PathBuf>,
    /// The most bytes per second, all threads together, such as `50MB/s`
    ///
    /// For login nodes and other machines whose network is shared. [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub(crate) limit_rate: Option<u64>,
}

impl Access {
    /// The same as the libraries have it.
    pub(crate) fn of_transfer(&self) -> gular_transfer::Access {
        let (token_files, max_bytes_per_second) = (self.token.clone(), self.limit_rate);
        gular_transfer::Access { token_files, max_bytes_per_second }
    }
}

/// For verbs that move many objects.
#[derive(Debug, Clone, Args)]
pub(crate) struct Network {
    /// Threads, each of which moves one object at a time
    #[arg(long, short, value_name = "N", default_value = "4", value_parser = units::jobs)]
    pub(crate) jobs: NonZeroUsize,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// A client that finds tokens, certificates and proxies in the environment.
pub(crate) fn client(access: &Access) -> Result<Client, Failure> {
    Ok(Client::new(options(access))?)
}

/// Returns the options of [`client`].
pub(crate) fn options(access: &Access) -> ClientOptions {
    let tell = Tell::new(|text| show::message("note", text));
    ClientOptions { tell, ..access.of_transfer().client(memory().route_folder(), &Env::process()) }
}

/// The node's cache, which remembers the digest first seen at each URL.
pub(crate) fn memory() -> Cache {
    Cache::at(None, &Env::process())
}

pub(crate) fn url(text: &str) -> Result<Url, Failure> {
    Ok(Url::parse(text).map_err(Error::from)?)
}

/// A failure, with the exit code of the signal when that is what ended the work.
pub(crate) fn ended(failure: impl Into<Failure>, stop: &Stop) -> Failure {
    let mut failure = failure.into();
    if let Some(exit) = stop.exit() {
        failure.exit = exit;
    }
    failure
}
