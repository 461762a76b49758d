//! Finds all objects below a collection, by listing it and the collections in it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use gular_files::{TEMP_PREFIX, parallel};
use gular_pelican::{Client, CollectionMember, Error as Pelican, Url};

use super::failures::Failed;
use super::{FolderOptions, MAX_DEPTH};
use crate::watch::check;
use crate::{Error, Watch};

/// The objects below a collection.
#[derive(Debug, Default)]
pub(super) struct ListedObjects {
    /// The objects by their path below the collection.
    pub(super) objects: BTreeMap<String, CollectionMember>,
    /// Collections that could not be listed, and names that cannot be files.
    pub(super) failed: Vec<Failed>,
}

/// Lists `url`, and those collections below it that `wanted` accepts by their paths.
///
/// # Errors
/// When `url` itself cannot be listed; [`Error::NotCollection`], [`Error::TooMany`]; when it is
/// cancelled.
pub(super) fn list(
    client: &Client,
    url: &Url,
    options: &FolderOptions,
    wanted: &(dyn Fn(&str) -> bool + Sync),
    watch: Watch<'_>,
) -> Result<ListedObjects, Error> {
    let listed = Mutex::new(ListedObjects::default());
    let (mut level, mut depth, mut collections) = (vec![String::new()], 0, 0_usize);
    while !level.is_empty() {
        let below = Mutex::new(Vec::new());
        parallel(&level, options.jobs, watch.cancel, |folder, stop| -> Result<(), Error> {
            let Some(collection) = at(url, folder) else {
                return Err(Error::ObjectName { name: folder.clone() });
            };
            let found = match client.list(&collection, watch.until(stop)) {
                Ok(found) => found,
                Err(Pelican::Cancelled) => return Err(Error::cancelled()),
                Err(error) if folder.is_empty() => return Err(error.into()),
                Err(error) => {
                    let failure = Failed { name: format!("{folder}/"), error: error.into() };
                    let mut listed = listed.lock().unwrap_or_else(PoisonError::into_inner);
                    listed.failed.push(failure);
                    return Ok(());
                }
            };
            if let [CollectionMember { path, collection: false, .. }] = found.entries.as_slice()
                && path == collection.path()
            {
                return Err(Error::NotCollection { url: collection.to_string() });
            }
            let mut listed = listed.lock().unwrap_or_else(PoisonError::into_inner);
            let mut below = below.lock().unwrap_or_else(PoisonError::into_inner);
            if found.skipped > 0 {
                let (url, names) = (collection.to_string(), found.skipped);
                let error = Error::UnsafeNames { url, names };
                listed.failed.push(Failed { name: format!("{folder}/"), error });
            }
            for entry in found.entries {
                let name = join(folder, &entry.name);
                if entry.name.starts_with(TEMP_PREFIX) || at(url, &name).is_none() {
                    let error = Error::ObjectName { name: name.clone() };
                    listed.failed.push(Failed { name, error });
                } else if !entry.collection {
                    listed.objects.insert(name, entry);
                } else if wanted(&name) {
                    below.push(name);
                }
            }
            if listed.objects.len() + collections + below.len() > options.max_objects {
                let (url, limit) = (url.to_string(), options.max_objects);
                return Err(Error::TooMany { place: url, limit });
            }
            Ok(())
        })?;
        check(watch)?;
        level = below.into_inner().unwrap_or_else(PoisonError::into_inner);
        level.sort();
        collections += level.len();
        depth += 1;
        if let Some(deep) = level.first().filter(|_| depth > MAX_DEPTH) {
            let url = at(url, deep).as_ref().map_or_else(|| deep.clone(), Url::to_string);
            return Err(Error::TooDeep { place: url, limit: MAX_DEPTH });
        }
    }
    Ok(listed.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the URL of the object or collection `name` below `url`; `url` itself for the empty name.
pub(super) fn at(url: &Url, name: &str) -> Option<Url> {
    if name.is_empty() { Some(url.clone()) } else { url.join(name) }
}

pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
