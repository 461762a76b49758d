//! Spreads files over folders of at most 1000 entries.
//!
//! A folder of 200,000 files is listed a hundred times slower than the same
//! files in folders of 1000 (`find` through the kernel, 6.0 against 0.06 s).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::envelope::SAMPLES_NAME;
use crate::envelope::foreign::unique::unique;

/// Folders have no more entries than this.
pub(crate) const MOST_ENTRIES: usize = 1000;

/// Returns new paths for `paths`, in their order. Files in small folders keep their paths.
///
/// If a folder has too many files, each is put into a folder named by the first letters of its
/// name. There are as many letters as keep all these folders small.
pub(crate) fn spread(paths: &[String]) -> Vec<String> {
    let mut folders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, path) in paths.iter().enumerate() {
        folders.entry(split(path).0).or_default().push(i);
    }
    // Files need not be compared with new folders, since all files leave a folder that gets
    // folders.
    let mut taken: BTreeSet<String> =
        paths.iter().flat_map(|p| above(p)).map(str::to_owned).collect();
    taken.insert(SAMPLES_NAME.to_owned());
    let mut spread: Vec<String> = paths.to_vec();
    for (folder, files) in folders {
        let names = files.iter().map(|i| (*i, split(paths.get(*i).map_or("", String::as_str)).1));
        place(folder, names.collect(), &mut taken, &mut spread);
    }
    spread
}

/// Renames files whose paths are those of folders.
pub(crate) fn step_aside(paths: &mut [String]) {
    let folders: HashSet<&str> = paths.iter().flat_map(|p| above(p)).collect();
    if !paths.iter().any(|path| folders.contains(path.as_str())) {
        return;
    }
    let folders: HashSet<String> = folders.into_iter().map(str::to_owned).collect();
    let mut taken: HashSet<String> = paths.iter().cloned().collect();
    taken.extend(folders.iter().cloned());
    for path in paths {
        if folders.contains(path) {
            *path = unique(&mut taken, path);
        }
    }
}

/// Returns the folders above a path, without the root.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(at, _)| path.get(..at))
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Sets the paths of the files of one folder, which are put into folders of it if there are many.
fn place(
    folder: &str,
    files: Vec<(usize, &str)>,
    taken: &mut BTreeSet<String>,
    spread: &mut [String],
) {
    if files.len() <= MOST_ENTRIES {
        for (i, name) in files {
            if let Some(path) = spread.get_mut(i) {
                *path = join(folder, name);
            }
        }
        return;
    }
    let letters = letters(&files);
    let mut groups: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for (i, name) in files {
        groups.entry(prefix(name, letters)).or_default().push((i, name));
    }
    for (prefix, files) in groups {
        let mut inner = join(folder, prefix);
        while !taken.insert(inner.clone()) {
            inner.push('~');
        }
        place(&inner, files, taken, spread);
    }
}

/// Returns the fewest letters that make groups of at most 1000 files. If there would be too many
/// groups, returns the most letters that keep their number low enough.
fn letters(files: &[(usize, &str)]) -> usize {
    let longest = files.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(1);
    let mut best = longest;
    for n in 1..=longest {
        let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, name) in files {
            let size = groups.entry(prefix(name, n)).or_default();
            *size = size.saturating_add(1);
        }
        match groups.len() {
            // All names share these letters, so the groups stay the same.
            1 => continue,
            groups if groups > MOST_ENTRIES && best < longest => break,
            _ => best = n,
        }
        if groups.values().all(|size| *size <= MOST_ENTRIES) || groups.len() > MOST_ENTRIES {
            break;
        }
    }
    best
}

fn prefix(name: &str, letters: usize) -> &str {
    let end = name.char_indices().nth(letters).map_or(name.len(), |(at, _)| at);
    name.get(..end).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the entries of every folder: files and folders.
    fn entries(paths: &[String]) -> BTreeMap<String, BTreeSet<String>> {
        let mut folders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in paths {
            let mut rest = path.as_str();
            loop {
                let (folder, name) = split(rest);
                folders.entry(folder.to_owned()).or_default().insert(name.to_owned());
                if folder.is_empty() {
                    break;
                }
                rest = folder;
            }
        }
        folders
    }

    fn check(paths: &[String]) -> Vec<String> {
        let found = spread(paths);
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), paths.len(), "all differ");
        for (folder, entries) in entries(&found) {
            assert!(entries.len() <= MOST_ENTRIES, "`{folder}` has {}", entries.len());
        }
        for (old, new) in paths.iter().zip(&found) {
            assert_eq!(split(old).1, split(new).1, "the name stays");
            assert!(new.starts_with(split(old).0));
        }
        found
    }

    #[test]
    fn small_folders_stay() {
        let paths: Vec<String> = (0..1000).map(|i| format!("a/{i}.jpg")).collect();
        assert_eq!(check(&paths), paths);
    }

    #[test]
    fn large_folders_are_spread_by_prefix() {
        let paths: Vec<String> = (0..12_000).map(|i| format!("cat/img_{i:06}.jpg")).collect();
        let found = check(&paths);
        assert_eq!(found[0], "cat/img_000/img_000000.jpg");
        assert_eq!(found[11_999], "cat/img_011/img_011999.jpg");
    }

    #[test]
    fn odd_names_are_spread_too() {
        // The names are prefixes of others, digits of any length, and a folder where a prefix would
        // be.
        let mut paths: Vec<String> = (0..3_000).map(|i| format!("{i}")).collect();
        paths.extend((0..1_500).map(|i| "ä".repeat(i % 200 + 1) + &i.to_string()));
        paths.extend((0..1_500).map(|i| format!("d/{i:04}")));
        paths.push("d/00/x".to_owned());
        check(&paths);
    }
}
