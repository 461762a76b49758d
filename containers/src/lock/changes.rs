//! What one lock has that another has not.

use std::collections::BTreeMap;

use super::ImageLock;
use crate::Package;

/// From one lock to the next, by the packages' names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Changes {
    /// Packages that are new.
    pub added: Vec<Package>,
    /// Packages that are no longer there.
    pub removed: Vec<Package>,
    /// Packages of which the bytes changed: before and now.
    pub changed: Vec<(Package, Package)>,
}

impl Changes {
    /// Without an old lock, everything is new.
    pub fn between(old: Option<&ImageLock>, new: &ImageLock) -> Self {
        let all = |lock: &ImageLock| -> BTreeMap<String, Package> {
            lock.packages().map(|package| (package.name.clone(), package.clone())).collect()
        };
        let (mut old, mut changes) = (old.map(all).unwrap_or_default(), Self::default());
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
