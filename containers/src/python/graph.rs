//! Packages of a lock file that names what each package needs, followed from a project's own
//! requirements.

use std::collections::{BTreeMap, BTreeSet};

use super::pinned::Pinned;
use super::wanted::Place;
use crate::Result;
use crate::wheel::{Environment, Marker, Versions};

/// A package of a lock file.
#[derive(Debug)]
pub(super) struct LockedPackage {
    pub(super) pinned: Pinned,
    pub(super) needs: Vec<Need>,
    /// What each extra needs besides.
    pub(super) extras: BTreeMap<String, Vec<Need>>,
}

/// A package that a project or another package needs.
#[derive(Debug, Clone)]
pub(super) struct Need {
    pub(super) name: String,
    /// Tells packages of one name apart.
    pub(super) versions: Option<Versions>,
    pub(super) extras: Vec<String>,
    pub(super) marker: Option<Marker>,
}

/// Returns the packages that are needed, each once. `from` is where the project is named.
///
/// # Errors
/// [`Error::Recipe`](crate::Error::Recipe) for a package that the lock file lacks.
pub(super) fn closure(
    packages: &[LockedPackage],
    needs: Vec<Need>,
    environment: &Environment<'_>,
    from: &Place,
) -> Result<Vec<Pinned>> {
    // With the extra that a need is part of: its marker may name it.
    let mut waiting: Vec<(Need, String, Place)> =
        needs.into_iter().map(|need| (need, String::new(), from.clone())).collect();
    let mut seen = BTreeSet::new();
    let mut found = BTreeMap::new();
    while let Some((need, extra, from)) = waiting.pop() {
        let extras: Vec<String> = environment.extras.iter().cloned().chain([extra]).collect();
        let environment = &Environment { extras: &extras, ..*environment };
        if need.marker.as_ref().is_some_and(|marker| !marker.holds(environment)) {
            continue;
        }
        let package = packages.iter().enumerate().find(|(_, package)| {
            let pinned = &package.pinned;
            let version = need.versions.as_ref().zip(pinned.version.as_ref());
            pinned.name == need.name
                && version.is_none_or(|(versions, version)| versions.holds(version))
                && pinned.marker.as_ref().is_none_or(|marker| marker.holds(environment))
        });
        let Some((at, package)) = package else {
            let versions = need.versions.map(|versions| versions.to_string());
            let reason = format!(
                "it needs `{}{}`, which the lock file does not have",
                need.name,
                versions.unwrap_or_default()
            );
            return Err(from.wrong(reason, Some("make the lock file again".to_owned())));
        };
        found.insert(at, &package.pinned);
        let whole = std::iter::once((String::new(), &package.needs));
        let extras = need
            .extras
            .iter()
            .filter_map(|extra| Some((extra.clone(), package.extras.get(extra)?)));
        for (extra, needs) in whole.chain(extras) {
            if seen.insert((at, extra.clone())) {
                let place = &package.pinned.from;
                let with = |need: &Need| (need.clone(), extra.clone(), place.clone());
                waiting.extend(needs.iter().map(with));
            }
        }
    }
    Ok(found.into_values().map(|pinned| Pinned { marker: None, ..pinned.clone() }).collect())
}
