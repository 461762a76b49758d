//! The cache of a node: each bundle is fetched once for all processes on the node.
//!
//! ```text
//! ROOT/<64 hex of the bundle digest>/manifest.json, data/…   a local bundle
//! ROOT/urls/<64 hex of the URL's digest>                     the bundle first seen there
//! ROOT/copies/<64 hex of a folder's digest>                  the URL of the bundle fetched there
//! ROOT/routes/…                                              who served a namespace last
//! ```
//!
//! A folder is written by one process at a time, and the others wait for it. Files get their names
//! when every block was checked, so later processes only compare lengths, and the loader checks
//! each sample on first touch. If shards are fetched on demand, several processes fetch one each,
//! and remove shards that nobody holds.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use gular_bundle::{Bundle, DATA_DIR, Digest, FileEntry, MANIFEST_NAME, OpenOptions, Split};
use gular_files::{folder_of, remove_abandoned_temps, write_file};
use gular_pelican::{Client, Env, Scheme};

use crate::fetch::{Mender, Streamed, keep_whole};
use crate::remote::{files_of, read_manifest};
use crate::{
    BundleUrl, Error, FetchOptions, FetchReport, FolderLock, ManifestFile, RemoteBundle,
    TellWaiting, Watch, fetch, fetch_object,
};

/// The folder in which a node keeps fetched bundles.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// An open bundle, and how it was fetched.
#[derive(Debug)]
pub struct Opened {
    /// The bundle. All wanted splits of it are on this machine, unless shards are fetched when they
    /// are needed.
    pub bundle: Bundle,
    /// The report on the fetch; `None` for a local folder, or if shards are fetched later.
    pub fetched: Option<FetchReport>,
}

/// Returns the job's own scratch folder, which the batch system removes after the job.
pub fn scratch(env: &Env) -> Option<&str> {
    ["_CONDOR_SCRATCH_DIR", "SLURM_TMPDIR", "TMPDIR"].iter().find_map(|name| env.get(name))
}

impl Cache {
    /// Chooses the cache's folder: `explicit`; else `GULAR_CACHE`; else `gular-cache` in the job's
    /// own scratch folder (`_CONDOR_SCRATCH_DIR`, `SLURM_TMPDIR`, `TMPDIR`), which the batch system
    /// removes; else `/tmp/gular-cache-UID`.
    #[must_use]
    pub fn at(explicit: Option<&Path>, env: &Env) -> Self {
        let given = explicit.map(Path::to_owned).or_else(|| env.get("GULAR_CACHE").map(Into::into));
        let root = given.or_else(|| scratch(env).map(|dir| Path::new(dir).join("gular-cache")));
        let uid = rustix::process::getuid().as_raw();
        Self { root: root.unwrap_or_else(|| format!("/tmp/gular-cache-{uid}").into()) }
    }

    /// The cache's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder where clients keep the last route to each namespace that worked, for times when a
    /// director is down.
    #[must_use]
    pub fn route_folder(&self) -> PathBuf {
        self.root.join("routes")
    }

    /// Fetches the bundle at `url`, once for all processes of this machine; uses no network when
    /// the cache has all of it.
    ///
    /// The cached files were checked when they were fetched: [`Trust::Names`](crate::Trust::Names)
    /// avoids checking them again.
    ///
    /// # Errors
    /// [`Error::SharedCache`], [`Error::Changed`], and those of
    /// [`RemoteBundle::open`] and [`fetch`](crate::fetch()).
    pub fn fetch(
        &self,
        client: &Client,
        url: &BundleUrl,
        options: &FetchOptions,
        watch: Watch<'_>,
    ) -> Result<FetchReport, Error> {
        let remote = self.remote(client, url, watch)?;
        let dir = self.dir_of(remote.digest());
        let report = fetch(client, &remote, &dir, options, watch)?;
        if !options.dry_run {
            self.note_copy(&dir, remote.url());
        }
        Ok(report)
    }

    /// # Errors
    /// [`Error::CacheLimit`] when what is to be fetched takes more than `limit` bytes.
    fn check_limit(
        &self,
        remote: &RemoteBundle,
        options: &FetchOptions,
        limit: u64,
    ) -> Result<(), Error> {
        let shards = remote.shards_of(&options.splits)?;
        let bytes = files_of(&shards).map(|file| file.bytes);
        let needed = bytes.fold(remote.manifest_bytes().len() as u64, u64::saturating_add);
        if needed <= limit {
            return Ok(());
        }
        let dir = self.dir_of(remote.digest()).display().to_string();
        Err(Error::CacheLimit { dir, needed, limit })
    }

    /// Fetches the bundle like [`Cache::fetch`] and opens it; while it is open, no process removes
    /// its shards.
    ///
    /// # Errors
    /// As [`Cache::fetch`]; [`Error::Bundle`].
    pub fn open(
        &self,
        client: &Client,
        url: &BundleUrl,
        fetch: &FetchOptions,
        open: &OpenOptions,
        watch: Watch<'_>,
    ) -> Result<Opened, Error> {
        self.open_within(client, url, fetch, open, None, watch)
    }

    /// Does the same as [`Cache::open`], if the bundle takes at most `limit` bytes.
    ///
    /// # Errors
    /// Those of [`Cache::open`]; [`Error::CacheLimit`].
    pub(crate) fn open_within(
        &self,
        client: &Client,
        url: &BundleUrl,
        options: &FetchOptions,
        open: &OpenOptions,
        limit: Option<u64>,
        watch: Watch<'_>,
    ) -> Result<Opened, Error> {
        let remote = self.remote(client, url, watch)?;
        if let Some(limit) = limit {
            self.check_limit(&remote, options, limit)?;
        }
        let dir = self.dir_of(remote.digest());
        // This is done before its files are examined, since a streaming run removes those that no
        // process holds. If the folder cannot be made, nothing is removed, and `fetch` says so if
        // it needs one.
        let _ = fs::create_dir_all(dir.join(DATA_DIR));
        let guard = keep_whole(&dir);
        let report = fetch(client, &remote, &dir, options, watch)?;
        self.note_copy(&dir, remote.url());
        let open = OpenOptions { digest: report.digest, ..open.clone() };
        let bundle = Bundle::open(&report.dir, open)?.with_guard(guard);
        let bundle = Mender::attach(bundle, client, url, TellWaiting::default());
        Ok(Opened { bundle, fetched: Some(report) })
    }

    /// Opens the bundle at `url`, by the manifest in the cache if its digest is known.
    pub(crate) fn remote(
        &self,
        client: &Client,
        url: &BundleUrl,
        watch: Watch<'_>,
    ) -> Result<RemoteBundle, Error> {
        self.create()?;
        let copy = url.digest.and_then(|digest| RemoteBundle::of_copy(url, &self.dir_of(digest)));
        let remote = match copy {
            Some(remote) => remote,
            None => RemoteBundle::open(client, url, watch)?,
        };
        if url.digest.is_none() {
            self.remember(url, remote.digest())?;
        }
        Ok(remote)
    }

    /// Fetches the manifest and the indexes of `splits` into the bundle's folder, and returns the
    /// source that fetches its shards when they are needed.
    pub(crate) fn stream(
        &self,
        client: Client,
        remote: RemoteBundle,
        splits: &[Split],
        limit: Option<u64>,
        tell: TellWaiting,
        watch: Watch<'_>,
    ) -> Result<(PathBuf, Streamed), Error> {
        let (dir, url) = (self.dir_of(remote.digest()), remote.url().clone());
        let streamed = Streamed::open(client, remote, &dir, splits, limit, tell, watch)?;
        self.note_copy(&dir, &url);
        Ok((dir, streamed))
    }

    /// Opens the bundle if the cache has all its files, judged by their lengths; while it is open,
    /// no process removes its shards.
    pub fn whole(&self, digest: Digest, options: &OpenOptions) -> Option<Bundle> {
        self.check_own().ok()?;
        let dir = self.dir_of(digest);
        // This is done before its files are examined, since a streaming run removes those that no
        // process holds.
        let guard = keep_whole(&dir);
        let bundle =
            Bundle::open(&dir, OpenOptions { digest: Some(digest), ..options.clone() }).ok()?;
        let bundle = bundle.with_guard(guard);
        let has = |file: &FileEntry| {
            let found = fs::metadata(bundle.path_of(file));
            found.is_ok_and(|found| found.is_file() && found.len() == file.bytes)
        };
        let mut shards = bundle.manifest().shards.iter();
        shards.all(|shard| shard.files().all(has)).then_some(bundle)
    }

    /// Waits until no process writes to the bundle, then locks it against other writers.
    ///
    /// # Errors
    /// [`Error::Io`], and [`gular_pelican::Error::Cancelled`] when it is cancelled.
    pub fn lock(&self, digest: Digest, watch: Watch<'_>) -> Result<FolderLock, Error> {
        FolderLock::wait(&self.dir_of(digest).join(DATA_DIR), watch)
    }

    fn dir_of(&self, digest: Digest) -> PathBuf {
        self.root.join(digest.hex())
    }

    fn create(&self) -> Result<(), Error> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&self.root).map_err(|e| Error::io("create", &self.root, e))?;
        self.check_own()
    }

    /// Checks that this user may use the cache's folder, if it exists.
    ///
    /// # Errors
    /// [`Error::SharedCache`], and those of looking at the folder.
    pub fn check(&self) -> Result<(), Error> {
        if self.root.exists() { self.check_own() } else { Ok(()) }
    }

    /// Fails if others may write to the cache, since a file with the right name is trusted.
    fn check_own(&self) -> Result<(), Error> {
        use std::os::unix::fs::MetadataExt as _;
        // In a folder that everyone can write to, a link could lead anywhere.
        let look = if self.root.starts_with("/tmp") { fs::symlink_metadata } else { fs::metadata };
        let found = look(&self.root).map_err(|e| Error::io("look at", &self.root, e))?;
        let own = found.is_dir() && found.uid() == rustix::process::getuid().as_raw();
        if own && found.mode() & 0o022 == 0 {
            return Ok(());
        }
        Err(Error::SharedCache { dir: self.root.display().to_string() })
    }

    /// Compares the digest at a URL that has none with the one first seen there, or records it.
    /// Nothing is compared if this cache cannot be used, or outside of federations: a local file, or
    /// one on a web server, may change.
    ///
    /// # Errors
    /// [`Error::Changed`].
    pub fn first_seen(&self, url: &BundleUrl, found: Digest) -> Result<(), Error> {
        if url.digest.is_some() || !is_write_once(url) || self.create().is_err() {
            return Ok(());
        }
        match self.remember(url, found) {
            Err(error @ Error::Changed { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    /// Fetches a single object as [`fetch_object`] does. If its URL has no digest, the digest first
    /// seen there counts.
    ///
    /// # Errors
    /// Those of [`fetch_object`]; [`Error::Changed`].
    pub fn fetch_object(
        &self,
        client: &Client,
        url: &BundleUrl,
        len_bytes: u64,
        dir: &Path,
        dry_run: bool,
        watch: Watch<'_>,
    ) -> Result<FetchReport, Error> {
        let seen = || self.check_own().ok().filter(|()| is_write_once(url));
        let known = url.digest.or_else(|| seen().and_then(|()| self.known(url)));
        let known = BundleUrl { digest: known, ..url.clone() };
        match fetch_object(client, &known, len_bytes, dir, dry_run, watch) {
            Ok((report, _)) => {
                report.digest.map_or(Ok(()), |found| self.first_seen(url, found))?;
                Ok(report)
            }
            Err(Error::ObjectDigest { expected, found, .. }) if url.digest.is_none() => {
                Err(Error::Changed { url: url.url.to_string(), expected, found })
            }
            Err(error) => Err(error),
        }
    }

    /// Records that the bundle at `url`, which has a digest, was copied to the folder `dir` by this
    /// program, so that the copy may be repaired while it is read. A record that cannot be written is
    /// not needed by anything else.
    pub fn note_copy(&self, dir: &Path, url: &BundleUrl) {
        let Some((path, digest)) = self.copy_file(dir).zip(url.digest) else { return };
        if self.create().is_err() {
            return;
        }
        remove_abandoned_temps(folder_of(&path));
        // A query may have a secret, and says how to ask rather than what.
        let name = url.url.to_string();
        let name = name.split('?').next().unwrap_or_default();
        let record = format!("{name}#blake3={}\n", digest.hex());
        if fs::read_to_string(&path).is_ok_and(|known| known == record) {
            return;
        }
        let _ = fs::create_dir_all(folder_of(&path));
        let _ = write_file(&path, record.as_bytes());
    }

    /// Returns the URL of the bundle with this digest, if this cache's user let this program copy it to
    /// the folder `dir`.
    #[must_use]
    pub fn url_of_copy(&self, dir: &Path, digest: Digest) -> Option<BundleUrl> {
        self.recorded(dir).filter(|url| url.digest == Some(digest))
    }

    /// Returns the URL of the bundle that this cache's user let this program copy to the folder `dir`,
    /// unless that has the manifest of another bundle by now, or nothing of one. A damaged manifest
    /// is not another one.
    #[must_use]
    pub fn url_of_damaged_copy(&self, dir: &Path) -> Option<BundleUrl> {
        // A folder that has nothing of a bundle is used for something else by now.
        if !dir.join(MANIFEST_NAME).exists() && !dir.join(DATA_DIR).is_dir() {
            return None;
        }
        let own = read_manifest(dir).ok().and_then(|bytes| ManifestFile::parse("it", bytes).ok());
        let recorded = self.recorded(dir)?;
        Some(recorded).filter(|url| own.is_none_or(|own| Some(own.digest()) == url.digest))
    }

    fn recorded(&self, dir: &Path) -> Option<BundleUrl> {
        self.check_own().ok()?;
        let text = fs::read_to_string(self.copy_file(dir)?).ok()?;
        text.trim().parse().ok().filter(|url: &BundleUrl| url.digest.is_some())
    }

    fn copy_file(&self, dir: &Path) -> Option<PathBuf> {
        let dir = fs::canonicalize(dir).ok()?;
        Some(self.root.join("copies").join(Digest::of(dir.as_os_str().as_bytes()).hex()))
    }

    /// The file with the digest first seen at a URL, from whichever server it was read.
    fn first_seen_file(&self, url: &BundleUrl) -> PathBuf {
        let url = url.url.to_string();
        let name = url.split('?').next().unwrap_or_default();
        self.root.join("urls").join(Digest::of(name.as_bytes()).hex())
    }

    fn known(&self, url: &BundleUrl) -> Option<Digest> {
        let text = fs::read_to_string(self.first_seen_file(url)).ok()?;
        Digest::parse(text.trim()).ok()
    }

    /// Records the digest that was first seen at a URL; a different one later is an error.
    fn remember(&self, url: &BundleUrl, found: Digest) -> Result<(), Error> {
        let path = self.first_seen_file(url);
        remove_abandoned_temps(folder_of(&path));
        match self.known(url) {
            Some(expected) if expected != found => {
                Err(Error::Changed { url: url.url.to_string(), expected, found })
            }
            Some(_) => Ok(()),
            None => {
                let urls = self.root.join("urls");
                fs::create_dir_all(&urls).map_err(|e| Error::io("create", &urls, e))?;
                Ok(write_file(&path, format!("{found}\n").as_bytes())?)
            }
        }
    }
}

/// Whether what is at a URL never changes: names of a federation are written once.
fn is_write_once(url: &BundleUrl) -> bool {
    url.url.scheme() == Scheme::Pelican
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_lies_where_the_job_may_write() {
        let check = |explicit: Option<&str>, pairs: &[(&str, &str)], expected: &str| {
            let cache = Cache::at(explicit.map(Path::new), &Env::from_pairs(pairs));
            assert_eq!(cache.root(), Path::new(expected));
        };
        let both = [("GULAR_CACHE", "/c"), ("_CONDOR_SCRATCH_DIR", "/s"), ("TMPDIR", "/t")];
        check(Some("/x"), &both, "/x");
        check(None, &both, "/c");
        check(None, &both[1..], "/s/gular-cache");
        check(None, &both[2..], "/t/gular-cache");
    }

    #[test]
    fn a_folder_that_others_may_write_is_no_cache() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache { root: dir.path().join("c") };
        cache.create().unwrap();
        cache.create().unwrap();
        fs::set_permissions(cache.root(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(cache.create(), Err(Error::SharedCache { .. })));
    }

    #[test]
    fn another_bundle_under_a_known_url_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache { root: dir.path().to_owned() };
        let url: BundleUrl = "pelican://h/ns/a/v1".parse().unwrap();
        cache.first_seen(&url, Digest::of(b"1")).unwrap();
        cache.first_seen(&url, Digest::of(b"1")).unwrap();
        let direct = BundleUrl { url: url.url.direct(), digest: None };
        for url in [&url, &direct] {
            let error = cache.first_seen(url, Digest::of(b"2")).unwrap_err();
            assert!(matches!(error, Error::Changed { .. }), "{error}");
        }
        // Files may change.
        for url in ["file:///x/a", "https://h/a"] {
            let url: BundleUrl = url.parse().unwrap();
            cache.first_seen(&url, Digest::of(b"1")).unwrap();
            cache.first_seen(&url, Digest::of(b"2")).unwrap();
        }
        let named = BundleUrl { digest: Some(Digest::of(b"2")), ..url };
        cache.first_seen(&named, Digest::of(b"2")).unwrap();
        // Nothing is compared where nothing can be recorded.
        let none = Cache { root: Path::new("/proc/none").to_owned() };
        none.first_seen(&direct, Digest::of(b"2")).unwrap();
    }
}
