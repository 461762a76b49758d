//! Bundles whose shards are fetched while they are read. The loaders of a process share one, and so
//! its space in the node's cache.

use std::path::PathBuf;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use gular_runtime::{Bundle, BundleOptions, Env, Error, Size, Watch, open_bundle};

use crate::wait::Waits;

/// A bundle, and what its readers wait for.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) waits: Waits,
}

/// A bundle that is open as long as somebody reads it.
struct Open {
    place: Place,
    limit: Option<u64>,
    bundle: Weak<Bundle>,
    waits: Waits,
}

/// The source and the cache of a bundle, how it is checked, and the process.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    source: String,
    cache: Option<PathBuf>,
    how: String,
    pid: u32,
}

static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

impl Place {
    fn new(source: &str, options: &BundleOptions) -> Self {
        let how = format!("{:?} {:?}", options.open.check, options.open.backend);
        Self { source: source.to_owned(), cache: options.cache.clone(), how, pid: process::id() }
    }
}

/// Returns the bundle at `source` that another loader of this process streams, if there is one.
///
/// # Errors
/// [`Error::Option`] if that loader has another limit.
pub(crate) fn shared(source: &str, options: &BundleOptions) -> Result<Option<Stream>, Error> {
    let place = Place::new(source, options);
    let mut open = lock();
    open.retain(|one| one.bundle.strong_count() > 0);
    let Some(found) = open.iter().find(|one| one.place == place) else { return Ok(None) };
    if options.cache_limit_bytes.is_some_and(|limit| found.limit != Some(limit)) {
        let limit = found.limit.map_or("none".to_owned(), |limit| Size(limit).to_string());
        let reason = format!(
            "another loader of this bundle set the limit {limit}, and both share the cache"
        );
        return Err(Error::Option { option: "cache_limit", reason });
    }
    let waits = found.waits.clone();
    let stream = found.bundle.upgrade().map(|bundle| Stream { bundle, waits });
    // If another bundle is wanted, the URL is opened again, which reports the difference.
    let is_wanted =
        |stream: &Stream| options.open.digest.is_none_or(|wanted| stream.bundle.digest() == wanted);
    Ok(stream.filter(is_wanted))
}

/// Opens a bundle, with the indexes of all its splits, for the loaders that are made later.
///
/// # Errors
/// Those of [`open_bundle`].
pub(crate) fn open(
    source: &str,
    options: BundleOptions,
    env: &Env,
    watch: Watch<'_>,
) -> Result<Stream, Error> {
    let (place, limit) = (Place::new(source, &options), options.cache_limit_bytes);
    let Stream { bundle, waits } = alone(source, options, env, watch)?;
    let mut all = lock();
    // Another thread may have opened it meanwhile.
    let known = all.iter().find(|one| one.place == place && one.limit == limit);
    if let Some((bundle, waits)) =
        known.and_then(|one| Some((one.bundle.upgrade()?, one.waits.clone())))
    {
        return Ok(Stream { bundle, waits });
    }
    all.push(Open { place, limit, bundle: Arc::downgrade(&bundle), waits: waits.clone() });
    Ok(Stream { bundle, waits })
}

/// Opens a bundle for one reader, whose options do not affect others. A bundle in a folder has all
/// its shards.
///
/// # Errors
/// Those of [`open_bundle`].
pub(crate) fn alone(
    source: &str,
    options: BundleOptions,
    env: &Env,
    watch: Watch<'_>,
) -> Result<Stream, Error> {
    let waits = Waits::default();
    let streamed = source.contains("://");
    let options = BundleOptions { splits: Vec::new(), streamed, tell: waits.teller(), ..options };
    let bundle = Arc::new(open_bundle(source, &options, env, watch)?.bundle);
    Ok(Stream { bundle, waits })
}

fn lock() -> MutexGuard<'static, Vec<Open>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}
