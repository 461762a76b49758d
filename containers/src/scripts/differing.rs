//! What is not the same after a second run.

use std::collections::BTreeSet;
use std::thread;

use super::changes::Changes;
use crate::Result;
use crate::rootfs::{RootPath, What};
use crate::store::{Filling, Limits, Listing};

/// Where the list of files that differ is kept in the result; the image does not get it.
const DIFFERING: &str = ".gular/differing";

/// A file that was not the same after scripts were run twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Differing {
    /// The package whose script was running when it was written; empty for a step of the recipe.
    pub(crate) package: String,
    /// The file.
    pub(crate) path: String,
}

/// Does something twice side by side, so that the second run costs little time.
///
/// # Errors
/// Those of `once`.
pub(super) fn twice<T: Send>(once: impl Fn() -> Result<T> + Sync) -> Result<(T, T)> {
    let (first, second) = thread::scope(|scope| {
        let second = scope.spawn(&once);
        (once(), second.join())
    });
    let second = second.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    Ok((first?, second?))
}

/// The paths of which two runs made something else.
pub(super) fn differing_paths<'a>(one: &'a Changes, two: &'a Changes) -> Vec<&'a RootPath> {
    let (one, two) = (&one.made, &two.made);
    let paths: BTreeSet<&RootPath> = one.keys().chain(two.keys()).collect();
    paths.into_iter().filter(|path| one.get(*path) != two.get(*path)).collect()
}

/// Adds the list of files that differ to a result.
///
/// # Errors
/// Those of [`Filling::add_file`].
pub(super) fn add_differing(
    differing: &[Differing],
    filling: &mut Filling,
    limits: &Limits,
) -> Result<()> {
    if differing.is_empty() {
        return Ok(());
    }
    let lines = differing.iter().map(|one| format!("{} {}\n", one.package, one.path));
    let lines: String = lines.collect();
    filling.add_file(&RootPath::new(DIFFERING)?, 0o644, &mut lines.as_bytes(), limits)
}

/// Takes the list of files that differed out of a result.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io).
pub(crate) fn take_differing(listing: &mut Listing) -> Result<Vec<Differing>> {
    let Some(at) = listing.entries.iter().position(|entry| entry.path == DIFFERING) else {
        return Ok(Vec::new());
    };
    let entry = listing.entries.remove(at);
    let What::File(bytes) = listing.what(&entry)? else { return Ok(Vec::new()) };
    let text = bytes.text(u64::MAX)?.unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let one = |(package, path): (&str, &str)| Differing {
        package: package.to_owned(),
        path: path.to_owned(),
    };
    Ok(lines.map(one).collect())
}
