//! How servers are asked: what users say of tokens and rates, in one place for all that fetches.

use std::path::PathBuf;

use gular_pelican::{ClientOptions, Env};

/// How servers are asked.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Files with the token to use, tried before those that the environment names.
    pub token_files: Vec<PathBuf>,
    /// The most bytes per second from servers, all threads together.
    pub max_bytes_per_second: Option<u64>,
}

impl Access {
    /// Returns the options of a client that keeps its routes in `route_folder`, a folder of the
    /// node's cache.
    #[must_use]
    pub fn client(&self, route_folder: PathBuf, env: &Env) -> ClientOptions {
        ClientOptions {
            token_files: self.token_files.clone(),
            max_bytes_per_second: self.max_bytes_per_second,
            route_folder: Some(route_folder),
            ..ClientOptions::new(env.clone())
        }
    }
}
