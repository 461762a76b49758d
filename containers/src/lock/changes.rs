//! The differences between two locks.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ImageLock, Oci};
use crate::{OciDigest, Package};

/// The changes from one lock to the next, by the packages' names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Changes {
    /// Packages that are new.
    pub added: Vec<Package>,
    /// Packages that are no longer there.
    pub removed: Vec<Package>,
    /// Packages of which the bytes changed: before and now.
    pub changed: Vec<(Package, Package)>,
    /// The image that it begins with, when the same name has another digest now.
    pub base: Option<BaseMoved>,
}

/// An image whose name has another digest than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BaseMoved {
    /// The base image's name in the recipe.
    pub name: String,
    /// Digest of that image in the earlier lock.
    pub before: OciDigest,
    /// Digest of that image now.
    pub now: OciDigest,
}

impl Changes {
    /// Compares two locks; without an old lock, everything is new.
    pub fn between(old: Option<&ImageLock>, new: &ImageLock) -> Self {
        let all = |lock: &ImageLock| -> BTreeMap<String, Package> {
            lock.packages().map(|package| (package.name.clone(), package.clone())).collect()
        };
        let base = BaseMoved::between(old.and_then(|old| old.oci.as_ref()), new.oci.as_ref());
        let (mut old, mut changes) =
            (old.map(all).unwrap_or_default(), Self { base, ..Self::default() });
        for (name, package) in all(new) {
            match old.remove(&name) {
                None => changes.added.push(package),
                Some(before) if before.sha256 == package.sha256 => {}
                Some(before) => changes.changed.push((before, package)),
            }
        }
        changes.removed.extend(old.into_values());
        changes
    }
}

impl BaseMoved {
    fn between(old: Option<&Oci>, new: Option<&Oci>) -> Option<Self> {
        let (old, new) = (old?, new?);
        let moved = old.path == new.path && old.digest != new.digest;
        let name = new.path.to_string();
        moved.then_some(Self { name, before: old.digest, now: new.digest })
    }
}
