//! Unpacks what a lock names on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{ImageWatch, Note, Step};
use crate::assemble::Base;
use crate::conda::unpack_environment;
use crate::debian;
use crate::fetch::{Archives, Told, Transport};
use crate::lock::{ImageLock, Oci};
use crate::oci::{BaseImage, OciLayout};
use crate::python::{
    BUILT, BasePython, Interpreter, Python, Scheme, Unit, local_path, unpack_whole,
};
use crate::recipe::{OciBase, Platform};
use crate::registry::Kept;
use crate::rootfs::Rootfs;
use crate::scripts::Scripts;
use crate::store::{Filling, Limits, Listing, Store, unpack_deb};
use crate::wheel::unpack_wheel;
use crate::{Error, Package, Result, Sha256};

/// All packages of a lock.
#[derive(Debug)]
pub struct Unpacked<'a> {
    debs: Vec<(&'a Package, Listing)>,
    wheels: Vec<(&'a Package, Listing)>,
    python: Option<Python<'a>>,
    conda: Option<Listing>,
    image: Option<Arc<BaseImage>>,
}

/// The folders of archives and of unpacked packages.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The folder that relative paths of the lock start from.
    pub dir: &'a Path,
    /// The archives that were fetched.
    pub archives: &'a Archives,
    /// The archives that were unpacked.
    pub store: &'a Store,
    /// Limits on an archive's unpacked size.
    pub limits: &'a Limits,
}

/// Fetches and unpacks the packages that are not in the store yet.
///
/// # Errors
/// Those of [`Archives::get`], [`unpack_deb`] and [`unpack_wheel`]; for the image that it
/// begins with [`Error::BaseChanged`], and as [`OciLayout::image`] and [`BaseImage::read`];
/// [`Error::Registry`], [`Error::Cancelled`].
pub fn unpack<'a>(
    lock: &'a ImageLock,
    places: &Places<'_>,
    transport: &dyn Transport,
    watch: &dyn ImageWatch,
) -> Result<Unpacked<'a>> {
    let of_python = lock.python.iter().flat_map(|python| &python.wheels);
    let keys = lock.debs.iter().chain(&lock.wheels).map(|package| (package, Key::of(package)));
    let keys = keys.chain(of_python.map(|package| (package, Key::whole(package))));
    let fetched = fetch(keys, places, transport, watch);
    watch.ended(Step::Fetch);
    let mut work = Work { places, transport, watch, fetched: fetched?, done: 0 };
    let unpacked = work.all(lock);
    watch.ended(Step::Unpack);
    unpacked
}

/// Fetches and unpacks Debian packages that no image gets: tools of a build.
///
/// # Errors
/// Those of [`unpack`].
pub(super) fn unpack_tools<'a>(
    tools: &'a [Package],
    places: &Places<'_>,
    transport: &dyn Transport,
    watch: &dyn ImageWatch,
) -> Result<Vec<(&'a Package, Listing)>> {
    let keys = tools.iter().map(|package| (package, Key::of(package)));
    let fetched = fetch(keys, places, transport, watch);
    watch.ended(Step::Fetch);
    let mut work = Work { places, transport, watch, fetched: fetched?, done: 0 };
    let unpacked = work.debs(tools);
    watch.ended(Step::Unpack);
    unpacked
}

/// Archives that had to be fetched, or were found on this machine.
#[derive(Default)]
struct Fetched {
    paths: BTreeMap<Sha256, PathBuf>,
    bytes: u64,
}

/// Fetches the archives that the store does not have. Each archive is read whole once, for its
/// check; it is unpacked from where it was found.
fn fetch<'a>(
    keys: impl Iterator<Item = (&'a Package, Key)>,
    places: &Places<'_>,
    transport: &dyn Transport,
    watch: &dyn ImageWatch,
) -> Result<Fetched> {
    let Places { archives, store, .. } = *places;
    let missing: Vec<&Package> =
        keys.filter(|(_, key)| !store.has(&key.0)).map(|(package, _)| package).collect();
    let total: u64 = missing.iter().map(|package| package.bytes).sum();
    let mut fetched = Fetched::default();
    for package in missing {
        watch.working_on(Step::Fetch, &package.name);
        let progress = |done: u64| watch.progress(Step::Fetch, fetched.bytes + done, total);
        let told = Told { progress: &progress, waiting: &|dir| watch.note(&Note::Waiting(dir)) };
        let path = match local(package, places.dir)? {
            Some(path) => path,
            None => archives.get(package, transport, told, watch.cancel())?,
        };
        fetched.paths.insert(package.sha256, path);
        fetched.bytes += package.bytes;
    }
    Ok(fetched)
}

/// The name of an unpacked package in the store.
struct Key(String);

impl Key {
    fn of(package: &Package) -> Self {
        Self(package.sha256.to_string())
    }

    /// Returns the key of a wheel with all its files, not its libraries alone. The number changes
    /// if other files are included.
    fn whole(package: &Package) -> Self {
        Self(format!("{}-whole-2", package.sha256))
    }
}

/// A wheel that is beside the recipe and is the one that was locked.
fn local(package: &Package, dir: &Path) -> Result<Option<PathBuf>> {
    let Some(path) = local_path(package, dir) else { return Ok(None) };
    if !path.exists() && package.urls.iter().any(|url| url.starts_with(BUILT)) {
        let reason =
            format!("`{}` is missing, which was built when the lock was made", path.display());
        let hint = "copy the folder `built-wheels` to the recipe, or make the lock again";
        let hint = Some(hint.to_owned());
        return Err(Error::Wheel { name: package.name.clone(), reason, hint });
    }
    let found = Sha256::of_file(&path)?;
    if found != package.sha256 {
        let (path, expected) = (path.display().to_string(), package.sha256);
        return Err(Error::Digest { path, found, expected });
    }
    Ok(Some(path))
}

struct Work<'a> {
    places: &'a Places<'a>,
    transport: &'a dyn Transport,
    watch: &'a dyn ImageWatch,
    fetched: Fetched,
    done: u64,
}

/// Unpacks an archive into the store.
type Fill = fn(&mut Filling, &Path, &Limits) -> Result<()>;

impl Work<'_> {
    fn all<'l>(&mut self, lock: &'l ImageLock) -> Result<Unpacked<'l>> {
        let debs = self.debs(&lock.debs)?;
        let mut wheels = Vec::new();
        for wheel in &lock.wheels {
            wheels.push((wheel, self.listing(wheel, &Key::of(wheel), unpack_wheel)?));
        }
        let image = lock
            .oci
            .as_ref()
            .map(|oci| base_image(oci, lock.platform, self.places, self.transport, self.watch));
        let image = image.transpose()?;
        let mut python = None;
        if let Some(locked) = &lock.python {
            let of_base = image.as_ref().map(|image| {
                let program = locked.interpreter.as_deref();
                BasePython::find(&image.tree, &image.env, lock.platform.0, program)
            });
            let of_base = of_base.transpose()?;
            let scheme = match &of_base {
                Some(python) => python.scheme.clone(),
                None => Scheme::debian(Interpreter::of_debs(&lock.debs, lock.platform.0)?.minor),
            };
            let mut wheels = Vec::new();
            for wheel in &locked.wheels {
                wheels.push((wheel, self.listing(wheel, &Key::whole(wheel), unpack_whole)?));
            }
            let mut part = Python::new(scheme, wheels);
            let names = locked.wheels.iter().map(|wheel| wheel.name.as_str());
            part.replaced = of_base.map(|python| python.replaced(names)).unwrap_or_default();
            python = Some(part);
        }
        let conda = match &lock.conda {
            Some(archive) => {
                let key = Key(format!("{}-conda-1", archive.sha256));
                Some(self.listing(&archive.package(), &key, unpack_environment)?)
            }
            None => None,
        };
        Ok(Unpacked { debs, wheels, python, conda, image })
    }

    fn debs<'l>(&mut self, debs: &'l [Package]) -> Result<Vec<(&'l Package, Listing)>> {
        let unpacked =
            |deb: &'l Package| Ok((deb, self.listing(deb, &Key::of(deb), unpack_package)?));
        debs.iter().map(unpacked).collect()
    }

    /// A package's files: from the store, or unpacked into it.
    fn listing(&mut self, package: &Package, key: &Key, fill: Fill) -> Result<Listing> {
        let cancel = self.watch.cancel();
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let Places { archives, store, limits, .. } = *self.places;
        let found = self.fetched.paths.get(&package.sha256);
        let listing = store.listing(&key.0, |filling| match found {
            Some(path) => fill(filling, path, limits),
            // The archive's listing was found a moment ago, but is damaged.
            None => {
                let here = local(package, self.places.dir)?;
                let path = match here {
                    Some(path) => path,
                    None => archives.get(package, self.transport, Told::NOBODY, cancel)?,
                };
                fill(filling, &path, limits)
            }
        })?;
        if found.is_some() {
            self.done += package.bytes;
            self.watch.progress(Step::Unpack, self.done, self.fetched.bytes);
        }
        Ok(listing)
    }
}

/// The image that another begins with, as the lock has it.
pub(super) fn base_image(
    oci: &Oci,
    platform: Platform,
    places: &Places<'_>,
    transport: &dyn Transport,
    watch: &dyn ImageWatch,
) -> Result<Arc<BaseImage>> {
    let Places { dir, archives, store, limits } = *places;
    let (layout, path) = match &oci.path {
        OciBase::Path(path) => (OciLayout::open(&dir.join(path))?, dir.join(path)),
        OciBase::Registry(name) => {
            let kept = Kept::fetch(name, oci.digest, archives, limits.bytes, transport, watch)?;
            (kept.layout()?, name.to_string().into())
        }
    };
    let image = layout.image(None, platform.0)?;
    if image.digest != oci.digest {
        let (found, expected) = (image.digest, oci.digest);
        return Err(Error::BaseChanged { path: path.display().to_string(), found, expected });
    }
    Ok(Arc::new(BaseImage::read(layout, image, store, limits)?))
}

/// A Debian package's files, and what it says of itself.
fn unpack_package(filling: &mut Filling, deb: &Path, limits: &Limits) -> Result<()> {
    unpack_deb(filling, deb, limits)?;
    debian::status(filling, deb, limits)
}

impl<'a> Unpacked<'a> {
    /// The Debian packages, each with its files.
    pub(super) fn debs(&self) -> &[(&'a Package, Listing)] {
        &self.debs
    }

    /// Returns the base, with what the scripts of its packages did, the wheels, and the Python
    /// part.
    pub fn into_parts(
        self,
        scripts: Scripts,
    ) -> (Base, Vec<(&'a Package, Listing)>, Option<Python<'a>>) {
        let named = self.named_debs();
        let base = match self.image {
            Some(image) => Base::Image(image, named, scripts),
            None if self.debs.is_empty() => Base::Scratch,
            None => Base::Debian(self.debs.into_iter().map(|(_, files)| files).collect(), scripts),
        };
        (base, self.wheels, self.python)
    }

    /// The files of the base before maintainer scripts.
    pub(super) fn without_scripts(&self) -> Result<Rootfs> {
        let Some(image) = &self.image else {
            return debian::lay(self.debs.iter().map(|(_, files)| files));
        };
        let mut tree = image.tree.clone();
        debian::add(&mut tree, &self.named_debs())?;
        Ok(tree)
    }

    /// Whether it begins with another image.
    pub(super) fn on_image(&self) -> bool {
        self.image.is_some()
    }

    fn named_debs(&self) -> Vec<(String, Listing)> {
        self.debs.iter().map(|(deb, files)| (deb.name.clone(), files.clone())).collect()
    }

    /// Takes the environment of conda.
    pub(super) fn take_conda(&mut self) -> Option<Listing> {
        self.conda.take()
    }

    /// The Python that wheels are installed for.
    pub(super) fn scheme(&self) -> Option<&Scheme> {
        self.python.as_ref().map(|python| &python.scheme)
    }

    /// The Python sources that byte code is made of. Those of Debian packages are for Debian's
    /// Python alone.
    pub(super) fn sources(&self, scheme: &Scheme) -> Result<Vec<Unit>> {
        let debs = self.debs.iter().filter(|_| scheme.is_debian());
        let debs = debs.map(|(deb, files)| Unit::of_deb(deb, files, scheme.minor));
        let wheels = self.python.iter().flat_map(|python| &python.wheels);
        let wheels = wheels.map(|(wheel, files)| Unit::of_wheel(wheel, files, scheme));
        let units = debs.chain(wheels).collect::<Result<Vec<_>>>()?;
        Ok(units.into_iter().filter(|unit| !unit.is_empty()).collect())
    }
}
