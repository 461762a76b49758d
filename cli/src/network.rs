//! What the verbs that use a network share.

use gular_pelican::{Client, ClientOptions, Env, Error, Url};

use crate::args::Access;
use crate::exit::Failure;
use crate::stop::Stop;

/// A client that finds tokens, certificates and proxies in the environment.
pub(crate) fn client(access: &Access) -> Result<Client, Failure> {
    let mut options = ClientOptions::new(Env::process());
    options.token_file.clone_from(&access.token);
    Ok(Client::new(options)?)
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
