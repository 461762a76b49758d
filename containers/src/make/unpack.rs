//! What a lock names, unpacked on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::{Note, Step, Watch};
use crate::assemble::Base;
use crate::debian;
use crate::fetch::{Archives, Told, Transport};
use crate::lock::{ImageLock, Oci};
use crate::oci::{Layout, Parts};
use crate::rootfs::Rootfs;
use crate::store::{Filling, Limits, Listing, Store, unpack_deb};
use crate::wheel::unpack_wheel;
use crate::{Error, Package, Result, Sha256};

/// All packages of a lock.
#[derive(Debug)]
pub struct Unpacked<'a> {
    debs: Vec<Listing>,
    wheels: Vec<(&'a Package, Listing)>,
    image: Option<(Rootfs, BTreeMap<String, String>)>,
}

/// Where archives are, and where they go.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// Where relative paths of the lock start from.
    pub dir: &'a Path,
    /// Archives as they were fetched.
    pub archives: &'a Archives,
    /// Archives, unpacked.
    pub store: &'a Store,
    /// How much one may become.
    pub limits: &'a Limits,
}

/// Fetches and unpacks what is not in the store yet.
///
/// # Errors
/// Those of [`Archives::get`], [`unpack_deb`] and [`unpack_wheel`];
/// [`Error::BaseChanged`], [`Error::Cancelled`].
pub fn unpack<'a>(
    lock: &'a ImageLock,
    places: &Places<'_>,
    transport: &dyn Transport,
    watch: &dyn Watch,
) -> Result<Unpacked<'a>> {
    let fetched = fetch(lock, places, transport, watch);
    watch.ended(Step::Fetch);
    let mut work = Work { places, transport, watch, fetched: fetched?, done: 0 };
    let unpacked = work.all(lock);
    watch.ended(Step::Unpack);
    unpacked
}

/// Archives that were fetched, or were found where they need not be.
#[derive(Default)]
struct Fetched {
    paths: BTreeMap<Sha256, PathBuf>,
    bytes: u64,
}

/// Fetches what the store does not have. Each archive is read whole once, to be
/// checked; it is unpacked from where it was found.
fn fetch(
    lock: &ImageLock,
    places: &Places<'_>,
    transport: &dyn Transport,
    watch: &dyn Watch,
) -> Result<Fetched> {
    let Places { archives, store, .. } = *places;
    let missing: Vec<&Package> =
        lock.packages().filter(|package| !store.has(&package.sha256)).collect();
    let total: u64 = missing.iter().map(|package| package.bytes).sum();
    let mut fetched = Fetched::default();
    for package in missing {
        watch.working_on(Step::Fetch, &package.name);
        let progress = |done: u64| watch.progress(Step::Fetch, fetched.bytes + done, total);
        let told = Told { progress: &progress, waiting: &|dir| watch.note(&Note::Waiting(dir)) };
        let path = archives.get(package, transport, told, watch.cancel())?;
        fetched.paths.insert(package.sha256, path);
        fetched.bytes += package.bytes;
    }
    Ok(fetched)
}

struct Work<'a> {
    places: &'a Places<'a>,
    transport: &'a dyn Transport,
    watch: &'a dyn Watch,
    fetched: Fetched,
    done: u64,
}

/// Unpacks an archive into the store.
type Fill = fn(&mut Filling, &Path, &Limits) -> Result<()>;

impl Work<'_> {
    fn all<'l>(&mut self, lock: &'l ImageLock) -> Result<Unpacked<'l>> {
        let mut debs = Vec::new();
        for deb in &lock.debs {
            debs.push(self.listing(deb, unpack_package)?);
        }
        let mut wheels = Vec::new();
        for wheel in &lock.wheels {
            wheels.push((wheel, self.listing(wheel, unpack_wheel)?));
        }
        let image = lock.oci.as_ref().map(|oci| base(lock, oci, self.places)).transpose()?;
        Ok(Unpacked { debs, wheels, image })
    }

    /// A package's files: from the store, or unpacked into it.
    fn listing(&mut self, package: &Package, fill: Fill) -> Result<Listing> {
        let cancel = self.watch.cancel();
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let Places { archives, store, limits, .. } = *self.places;
        let found = self.fetched.paths.get(&package.sha256);
        let listing = store.listing(&package.sha256, |filling| match found {
            Some(path) => fill(filling, path, limits),
            // Its listing was there a moment ago, and is damaged.
            None => {
                let path = archives.get(package, self.transport, Told::NOBODY, cancel)?;
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

/// A Debian package's files, and what it says of itself.
fn unpack_package(filling: &mut Filling, deb: &Path, limits: &Limits) -> Result<()> {
    unpack_deb(filling, deb, limits)?;
    debian::status(filling, deb, limits)
}

/// The image that another begins with, when it is still that of the lock.
fn base(
    lock: &ImageLock,
    oci: &Oci,
    places: &Places<'_>,
) -> Result<(Rootfs, BTreeMap<String, String>)> {
    let path = places.dir.join(&oci.path);
    let layout = Layout::open(&path)?;
    let image = layout.image(None, lock.platform.0)?;
    if image.digest != oci.digest {
        let (found, expected) = (image.digest, oci.digest);
        return Err(Error::BaseChanged { path: path.display().to_string(), found, expected });
    }
    let tree = layout.rootfs(&image, places.store, places.limits, Parts::Base)?;
    Ok((tree, image.env))
}

impl<'a> Unpacked<'a> {
    /// What is under everything else, and the wheels.
    pub fn into_parts(self) -> (Base, Vec<(&'a Package, Listing)>) {
        let base = match self.image {
            Some((tree, env)) => Base::Image(tree, env),
            None if self.debs.is_empty() => Base::Scratch,
            None => Base::Debian(self.debs),
        };
        (base, self.wheels)
    }
}
