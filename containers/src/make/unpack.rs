//! What a lock names, unpacked on this machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::assemble::Base;
use crate::debian;
use crate::fetch::{Archives, Transport};
use crate::lock::{Lock, Oci};
use crate::oci::{Layout, Parts};
use crate::rootfs::Rootfs;
use crate::store::{Filling, Limits, Listing, Store, unpack_deb};
use crate::wheel::unpack_wheel;
use crate::{Error, Package, Result};

/// What is being done, for a progress bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Archives are fetched: bytes of all of them.
    Fetch,
    /// Archives are unpacked: bytes of all of them.
    Unpack,
}

/// All archives of a lock.
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

/// Fetches and unpacks what is not in the store yet. `progress` hears bytes done and bytes in all.
///
/// # Errors
/// Those of [`Archives::get`], [`unpack_deb`] and [`unpack_wheel`]; [`Error::Cancelled`].
pub fn unpack<'a>(
    lock: &'a Lock,
    places: &Places<'_>,
    transport: &dyn Transport,
    progress: &dyn Fn(Step, u64, u64),
    cancel: &AtomicBool,
) -> Result<Unpacked<'a>> {
    let Places { dir, archives, store, limits } = *places;
    let missing: Vec<&Package> =
        lock.packages().filter(|package| !store.has(&package.sha256)).collect();
    let total: u64 = missing.iter().map(|package| package.bytes).sum();
    let mut before = 0;
    // Each is read whole once, to be checked; it is unpacked from where it was found.
    let mut fetched = BTreeMap::new();
    for package in &missing {
        let told = |done: u64| progress(Step::Fetch, before + done, total);
        let path = archives.get(package, transport, &told, cancel)?;
        fetched.insert(package.sha256, path);
        before += package.bytes;
    }
    let mut done = 0;
    let mut listing = |package: &Package, fill: fn(&mut Filling, &Path, &Limits) -> Result<()>| {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let found = fetched.get(&package.sha256);
        let listing = store.listing(&package.sha256, |filling| match found {
            Some(path) => fill(filling, path, limits),
            // Its listing was there a moment ago, and is damaged.
            None => {
                let path = archives.get(package, transport, &|_| {}, cancel)?;
                fill(filling, &path, limits)
            }
        })?;
        if found.is_some() {
            done += package.bytes;
            progress(Step::Unpack, done, total);
        }
        Ok(listing)
    };
    let mut debs = Vec::new();
    for deb in &lock.debs {
        debs.push(listing(deb, unpack_package)?);
    }
    let mut wheels = Vec::new();
    for wheel in &lock.wheels {
        wheels.push((wheel, listing(wheel, unpack_wheel)?));
    }
    let image = lock.oci.as_ref().map(|oci| base(lock, oci, dir, store, limits)).transpose()?;
    Ok(Unpacked { debs, wheels, image })
}

/// A package's files, and what it says of itself.
fn unpack_package(filling: &mut Filling, deb: &Path, limits: &Limits) -> Result<()> {
    unpack_deb(filling, deb, limits)?;
    debian::status(filling, deb, limits)
}

/// The image that another begins with, when it is still that of the lock.
fn base(
    lock: &Lock,
    oci: &Oci,
    dir: &Path,
    store: &Store,
    limits: &Limits,
) -> Result<(Rootfs, BTreeMap<String, String>)> {
    let path = dir.join(&oci.path);
    let layout = Layout::open(&path)?;
    let image = layout.image(None, lock.platform.0)?;
    if image.digest != oci.digest {
        let (found, expected) = (image.digest, oci.digest);
        return Err(Error::Lock {
            path: path.display().to_string(),
            line: 1,
            reason: format!("this image has the digest {found}, the lock says {expected}"),
            hint: Some("it changed: `gular image lock` takes it as it is now".to_owned()),
        });
    }
    let tree = layout.rootfs(&image, store, limits, Parts::Base)?;
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
