//! Where packages come from, and which folders store them.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use gular_containers::lock::Sources;
use gular_containers::make::BuildCache;
use gular_containers::replay::Tools;
use gular_containers::store::Limits;
use gular_pelican::Env;

use crate::exit::Failure;

/// Where packages come from.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sources")]
pub(super) struct SourceArgs {
    /// A mirror of the Debian archive
    #[arg(long, value_name = "URL", default_value = "https://deb.debian.org/debian")]
    pub(super) mirror: String,
    /// The same for security
    #[arg(long, value_name = "URL", default_value = "https://deb.debian.org/debian-security")]
    pub(super) security: String,
    /// A Python package index (PEP 503)
    #[arg(long, value_name = "URL", default_value = "https://pypi.org/simple")]
    pub(super) index: String,
    /// OpenPGP keys that sign the Debian archive, instead of Debian's own
    #[arg(long, value_name = "FILE")]
    pub(super) keyring: Vec<PathBuf>,
}

/// Where things are kept.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Places")]
pub(crate) struct CacheArgs {
    /// Where packages and blocks are kept, to be used again
    ///
    /// Packages, unpacked files and compressed blocks.
    ///
    /// [default: $GULAR_IMAGE_CACHE, else gular/image in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

/// How much is kept of the images that are written.
#[derive(Debug, Clone, Args)]
pub(super) struct BlocksArgs {
    /// Space for compressed blocks in the cache
    #[arg(long, default_value = "16GiB", value_name = "SIZE", value_parser = crate::units::bytes)]
    pub(super) cache_size: u64,
}

/// Where things are kept, and how much is fetched and unpacked.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Places")]
pub(super) struct PlaceArgs {
    #[command(flatten)]
    kept: CacheArgs,
    /// Use only what is already cached; fetch nothing
    #[arg(long)]
    pub(super) offline: bool,
    /// The most bytes that an archive or image may unpack to
    #[arg(long, default_value = "64GiB", value_name = "SIZE", value_parser = crate::units::bytes)]
    pub(super) max_unpacked: u64,
}

impl CacheArgs {
    /// Whether the command line names the cache.
    pub(super) fn is_named(&self) -> bool {
        self.cache.is_some()
    }

    /// The cache that is named here, in the environment, or in the user's home.
    pub(crate) fn cache(&self) -> Result<BuildCache, Failure> {
        if let Some(dir) = &self.cache {
            return Ok(BuildCache::new(dir));
        }
        let env = Env::process();
        let named = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = named("GULAR_IMAGE_CACHE")
            .or_else(|| named("XDG_CACHE_HOME").map(|dir| dir.join("gular/image")))
            .or_else(|| named("HOME").map(|dir| dir.join(".cache/gular/image")));
        let dir = dir.ok_or_else(|| {
            let hint = "choose a folder with `--cache DIR`, or set HOME";
            Failure::new("it is not known where the cache should be", Some(hint.to_owned()))
        })?;
        Ok(BuildCache::new(&dir))
    }
}

impl PlaceArgs {
    /// Returns the cache, as [`CacheArgs::cache`] does.
    pub(super) fn cache(&self) -> Result<BuildCache, Failure> {
        self.kept.cache()
    }

    /// Returns the limits on unpacked bytes.
    pub(super) fn limits(&self) -> Limits {
        Limits { bytes: self.max_unpacked, ..Limits::default() }
    }
}

impl SourceArgs {
    /// Returns the sources of packages, at the current time.
    pub(super) fn sources(&self) -> Sources {
        Sources {
            debian: self.mirror.clone(),
            debian_security: self.security.clone(),
            keyrings: self.keyring.clone(),
            index: self.index.clone(),
            uv: on_path("uv"),
            now: SystemTime::now().into(),
        }
    }
}

/// Returns the variables that name proxies, for steps that fetch something.
pub(super) fn proxies() -> Vec<(String, String)> {
    let env = Env::process();
    let names = ["HTTPS_PROXY", "https_proxy", "http_proxy", "NO_PROXY", "no_proxy"];
    let given = names.into_iter().filter_map(|name| Some((name, env.get(name)?)));
    given.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns the tools of this machine that run scripts and replay HTCondor's lines.
pub(super) fn tools() -> Tools {
    Tools {
        // If it is missing, each line reports that it was not possible.
        unshare: Some(on_path("unshare").unwrap_or_else(|| "unshare".into())),
        apptainer: on_path("apptainer").or_else(|| on_path("singularity")),
    }
}

/// Finds a program on PATH.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
}
