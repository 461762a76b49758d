//! Makes and writes `image.lock`.

use std::path::{Path, PathBuf};

use super::unpack::base_image;
use super::{BuildCache, BuildOptions, ImageWatch, Note, Places, Project, Relocked, Step};
use crate::fetch::Transport;
use crate::lock::{self, Changes, ImageLock, Oci, OnBase, Sources};
use crate::recipe::OciBase;
use crate::registry::Kept;
use crate::store::Limits;
use crate::{Error, Result};

/// The options of [`lock()`].
#[derive(Debug, Clone)]
pub struct LockOptions {
    /// The recipe; its lock is beside it.
    pub recipe: PathBuf,
    /// The sources that packages are looked up in.
    pub sources: Sources,
    /// A folder that also gets every package.
    pub vendor: Option<PathBuf>,
    /// The folders that builds keep.
    pub cache: BuildCache,
    /// Fetch nothing.
    pub offline: bool,
    /// Write no lock.
    pub dry_run: bool,
}

/// The result of [`lock()`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Locked {
    /// The lock.
    pub lock: ImageLock,
    /// The path of its file.
    pub path: PathBuf,
    /// Whether the file was written: it was missing, or had other contents.
    pub written: bool,
    /// The differences from the lock before.
    pub changes: Changes,
}

/// Resolves the packages of a recipe to their current versions, and writes them to the lock beside
/// the recipe.
///
/// # Errors
/// Those of [`Project::open`] and [`lock::resolve`]; [`Error::NotOffline`]; those
/// of [`lock::vendor`] if a folder is to be filled.
pub fn lock(
    options: &LockOptions,
    transport: &dyn Transport,
    watch: &dyn ImageWatch,
) -> Result<Locked> {
    let project = Project::open(&options.recipe)?;
    // A lock that cannot be read is made again.
    project.check_lock_path()?;
    let old = project.lock().unwrap_or_default();
    let places = Bases { cache: &options.cache, vendor: &[], limits: &Limits::default() };
    let lock = resolve(&project, &options.sources, options.offline, &places, transport, watch)?;
    let written = !options.dry_run && project.write_lock(&lock)?;
    if let Some(dir) = &options.vendor {
        let archives = options.cache.archives(std::slice::from_ref(dir), options.offline);
        let total = lock.bytes();
        let told = |name: &str, done: u64| {
            watch.working_on(Step::Fetch, name);
            watch.progress(Step::Fetch, done, total);
        };
        let waiting = |dir: &Path| watch.note(&Note::Waiting(dir));
        let filled =
            lock::vendor(&lock, &archives, dir, transport, &told, &waiting, watch.cancel());
        watch.ended(Step::Fetch);
        filled?;
        if let Some(Oci { path: OciBase::Registry(name), digest }) = &lock.oci {
            let most = Limits::default().bytes;
            Kept::fetch(name, *digest, &archives, most, transport, watch)?.vendor(dir)?;
        }
    }
    let changes = Changes::between(old.as_ref(), &lock);
    Ok(Locked { lock, path: project.lock_path, written, changes })
}

/// The lock beside the recipe; made when there is none, made again when the recipe
/// changed.
pub(super) fn current(
    options: &BuildOptions<'_>,
    project: &Project,
    transport: &dyn Transport,
    watch: &dyn ImageWatch,
) -> Result<ImageLock> {
    let why = match project.current_lock() {
        Err(Error::NoLock { .. }) if !options.locked => Relocked::Missing,
        Err(Error::Stale { .. }) if !options.locked => Relocked::RecipeChanged,
        found => return found,
    };
    let BuildOptions { cache, vendor, limits, .. } = options;
    let bases = Bases { cache, vendor, limits };
    let lock = resolve(project, &options.sources, options.offline, &bases, transport, watch)?;
    if !options.dry_run {
        project.write_lock(&lock)?;
        watch.note(&Note::Relocked { path: &project.lock_path, why });
    }
    Ok(lock)
}

/// Where base images are kept that must be looked into.
struct Bases<'a> {
    cache: &'a BuildCache,
    vendor: &'a [PathBuf],
    limits: &'a Limits,
}

fn resolve(
    project: &Project,
    sources: &Sources,
    offline: bool,
    bases: &Bases<'_>,
    transport: &dyn Transport,
    watch: &dyn ImageWatch,
) -> Result<ImageLock> {
    if offline && project.recipe.needs_network() {
        return Err(Error::NotOffline);
    }
    let told = |what: &str| watch.working_on(Step::Resolve, what);
    let archives = bases.cache.archives(bases.vendor, offline);
    let store = bases.cache.store();
    let dir = &project.dir;
    let places = Places { dir, archives: &archives, store: &store, limits: bases.limits };
    let platform = project.recipe.image.platform;
    let read = |oci: &Oci| base_image(oci, platform, &places, transport, watch);
    let base = OnBase { read: &read, note: &|note| watch.note(note) };
    let lock = lock::resolve_on(&project.recipe, dir, sources, transport, &told, &base);
    watch.ended(Step::Resolve);
    lock
}
