//! Opens a bundle by its path or its URL.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gular_bundle::{Bundle, OpenOptions, Split};
use gular_pelican::{Client, Env};

use crate::fetch::Mender;
use crate::{Access, BundleUrl, Cache, Error, FetchOptions, Opened, TellWaiting, Trust, Watch};

/// Options of [`open_bundle`]: what is opened, and how.
#[derive(Debug, Clone, Default)]
pub struct BundleOptions {
    /// For a URL, the splits to fetch; splits that the bundle does not have are ignored. An empty
    /// list means all.
    pub splits: Vec<Split>,
    /// How the bundle's files are read; if it has a digest, that must agree with the digest in the
    /// URL.
    pub open: OpenOptions,
    /// The node's folder of fetched bundles; see [`Cache::at`].
    pub cache: Option<PathBuf>,
    /// The bytes that the bundle may take in the cache; `None` for the space of the file system.
    pub cache_limit_bytes: Option<u64>,
    /// Whether to fetch shards when they are needed and remove them when others need the space.
    /// Then a training run starts before all shards are here, and the cache may be smaller than the
    /// bundle. Order `window` needs a few shards at a time; other orders need space for the whole
    /// split.
    pub streamed: bool,
    /// Is called with what a streamed bundle waits for.
    pub tell: TellWaiting,
    /// How servers are asked.
    pub access: Access,
}

/// Opens the bundle at `place`: a local folder, or a URL, with `#blake3=…` or without,
/// which is fetched into the node's cache first. Damaged blocks of the cache are fetched again when
/// they are read; of another folder only if [`Cache::note_copy`] recorded it, and never if the bundle
/// was made of files that another program wrote.
///
/// # Errors
/// [`Error::Bundle`]; of a URL also those of [`Cache::fetch`], [`Error::CacheLimit`], and
/// [`Error::ObjectDigest`] when two digests are asked for.
pub fn open_bundle(
    place: &str,
    options: &BundleOptions,
    env: &Env,
    watch: Watch<'_>,
) -> Result<Opened, Error> {
    let cache = Cache::at(options.cache.as_deref(), env);
    let client = options.access.client(cache.route_folder(), env);
    if !place.contains("://") {
        let bundle = Bundle::open(Path::new(place), options.open.clone())?;
        // Adopted files are the user's own, and may be changed at any time.
        let is_ours = !bundle.manifest().made.contains_key("adopted");
        let url = cache.url_of_copy(Path::new(place), bundle.digest()).filter(|_| is_ours);
        let bundle = match url {
            Some(url) => Mender::attach_with(bundle, client, &url, options.tell.clone()),
            None => bundle,
        };
        return Ok(Opened { bundle, fetched: None });
    }
    let mut url: BundleUrl = place.parse()?;
    if let Some(wanted) = options.open.digest {
        if let Some(found) = url.digest.filter(|found| *found != wanted) {
            return Err(Error::ObjectDigest { url: url.url.to_string(), expected: wanted, found });
        }
        url.digest = Some(wanted);
    }
    let client = Client::new(client)?;
    let mut fetch = FetchOptions {
        splits: options.splits.clone(),
        trust: Trust::Names,
        ..FetchOptions::default()
    };
    if options.streamed {
        let remote = cache.remote(&client, &url, watch)?;
        let has = |split: &Split| remote.manifest().of_split(*split).next().is_some();
        // If the bundle has none of the splits, the first is named.
        if fetch.splits.iter().any(has) {
            fetch.splits.retain(has);
        }
        let (splits, limit) = (&fetch.splits, options.cache_limit_bytes);
        let of_mender = client.clone();
        let (dir, shards) =
            cache.stream(client, remote, splits, limit, options.tell.clone(), watch)?;
        let open = OpenOptions { digest: Some(shards.remote().digest()), ..options.open.clone() };
        let bundle = Bundle::open(&dir, open)?.with_source(Arc::new(shards));
        let bundle = Mender::attach(bundle, &of_mender, &url, options.tell.clone());
        return Ok(Opened { bundle, fetched: None });
    }
    loop {
        let limit = options.cache_limit_bytes;
        match cache.open_within(&client, &url, &fetch, &options.open, limit, watch) {
            // Only the manifest was read so far.
            Err(Error::NoSplit { split, .. }) if fetch.splits.len() > 1 => {
                fetch.splits.retain(|wanted| *wanted != split);
            }
            opened => {
                let named = |opened: Opened| {
                    let tell = options.tell.clone();
                    Opened { bundle: Mender::attach(opened.bundle, &client, &url, tell), ..opened }
                };
                return opened.map(named);
            }
        }
    }
}
