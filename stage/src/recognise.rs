//! Finds out which kind of source a path is.

use std::path::Path;

use gular_bundle::{Bundle, CheckWhen, MANIFEST_NAME, OpenOptions};
use gular_files::Env;
use gular_transfer::{BundleUrl, Cache, Client, FetchOptions, Remote, RemoteBundle, Trust, Watch};

use super::mount;
use super::need::Need;
use super::options::StageOptions;
use super::source::{Directory, Source};
use crate::{Error, Unfit};

/// A source, and where it is from.
pub(super) struct Found {
    pub(super) source: Source,
    pub(super) need: Need,
    /// For a bundle in the node's cache, the URL that it was fetched from, with its digest.
    pub(super) cached: Option<BundleUrl>,
    /// Of a bundle, the URL from which a copy that is damaged later can be repaired.
    pub(super) url: Option<BundleUrl>,
}

impl Found {
    fn local(source: Source) -> Result<Self, Error> {
        Ok(Self { need: source.need()?, source, cached: None, url: None })
    }
}

/// Finds out what is at `place`.
pub(super) fn look(
    place: &str,
    options: &StageOptions,
    env: &Env,
    watch: Watch<'_>,
) -> Result<Found, Error> {
    let open = OpenOptions { check: CheckWhen::Always, ..OpenOptions::default() };
    let kind = |bundle: Bundle| match options.unpack {
        true => Source::Samples(Box::new(bundle)),
        false => Source::Bundle(Box::new(bundle)),
    };
    if options.mount {
        let bundle = Bundle::open(Path::new(place), open)?;
        mount::check(&bundle)?;
        bundle.check_lengths()?;
        return Found::local(Source::Mounted(Box::new(bundle)));
    }
    if !place.contains("://") {
        let path = Path::new(place);
        let bundle = match path.join(MANIFEST_NAME).is_file() {
            true => Bundle::open(path, open).map_err(Some),
            false => Err(None),
        };
        let fault = match bundle {
            Ok(bundle) => {
                let url = Cache::at(None, env).url_of_copy(path, bundle.digest());
                return Ok(Found { url, ..Found::local(kind(bundle))? });
            }
            Err(Some(fault)) if !is_no_manifest(&fault) => return Err(fault.into()),
            Err(fault) => fault,
        };
        let directory = Directory::list(path)?;
        return match (directory.holds_shards(), fault) {
            // The manifest is that of another program, or there is none.
            (false, _) => Found::local(Source::Directory(directory)),
            // If the bundle was copied as plain files, nothing would be checked.
            (true, Some(fault)) => Err(fault.into()),
            (true, None) => {
                Err(Error::Source { path: path.display().to_string(), reason: Unfit::NoManifest })
            }
        };
    }
    let mut url: BundleUrl = place.parse()?;
    if options.direct {
        url.url = url.url.direct();
    }
    if options.unpack {
        // Samples are read in any order, so their shards have to be on this machine.
        let samples = |url: &BundleUrl, trust| cached_samples(url, trust, options, env, watch);
        let bundle = samples(&url, Trust::Names)?;
        let url = BundleUrl { digest: Some(bundle.digest()), ..url };
        let found = match Found::local(kind(bundle)) {
            Err(Error::Bundle(_)) => Found::local(kind(samples(&url, Trust::Nothing)?)),
            found => found,
        };
        return found.map(|found| Found { cached: Some(url), ..found });
    }
    match url.digest.and_then(|digest| Cache::at(None, env).whole(digest, &open)) {
        Some(bundle) => {
            Ok(Found { url: Some(url.clone()), cached: Some(url), ..Found::local(kind(bundle))? })
        }
        None => {
            let remote = remote(&url, options, env, watch)?;
            let url = Some(remote.url().clone());
            Ok(Found { url, ..Found::local(Source::Remote(Box::new(remote)))? })
        }
    }
}

/// Finds out what is published at `url`.
pub(super) fn remote(
    url: &BundleUrl,
    options: &StageOptions,
    env: &Env,
    watch: Watch<'_>,
) -> Result<RemoteBundle, Error> {
    Ok(Remote::bundle(&client(options, env)?, url, watch)?)
}

/// Makes the client for fetching.
pub(super) fn client(options: &StageOptions, env: &Env) -> Result<Client, Error> {
    let client = Client::new(options.access.client(Cache::at(None, env).route_folder(), env));
    Ok(client.map_err(gular_transfer::Error::from)?)
}

/// Opens the bundle at `url` from the node's cache, after fetching what is missing. All of it is
/// checked and repaired, unless names are trusted.
pub(super) fn cached_samples(
    url: &BundleUrl,
    trust: Trust,
    options: &StageOptions,
    env: &Env,
    watch: Watch<'_>,
) -> Result<Bundle, Error> {
    let client = client(options, env)?;
    let cache = Cache::at(None, env);
    let options = FetchOptions { trust, ..FetchOptions::default() };
    let open = OpenOptions { check: CheckWhen::Always, ..OpenOptions::default() };
    Ok(cache.open(&client, url, &options, &open, Watch::silent(watch.cancel))?.bundle)
}

/// Returns whether a file with that name may be no manifest at all, not even one of a later
/// version.
fn is_no_manifest(fault: &gular_bundle::Error) -> bool {
    use gular_bundle::Error::{Format, Malformed, TooLarge};
    matches!(fault, Format { .. } | Malformed { .. } | TooLarge { .. })
}
