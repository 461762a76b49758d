//! Unusual things in a bundle's folder that are not faults.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use gular_bundle::{DATA_DIR, Manifest};
use gular_files::TEMP_PREFIX;

/// At most this many files of each kind are named; more are only counted.
const MAX_NAMED: usize = 20;

/// Lists files that are not in the manifest, leftovers, and inputs that were left out.
pub(crate) fn notes(dir: &Path, data: &Path, manifest: &Manifest) -> Vec<String> {
    let known: HashSet<&str> =
        manifest.shards.iter().flat_map(|s| s.files().map(|file| file.name.as_str())).collect();
    let (mut leftovers, mut strangers) = (Vec::new(), Vec::new());
    for name in files_of(dir).filter(|n| n.starts_with(TEMP_PREFIX)) {
        leftovers.push(name);
    }
    // A folder that does not belong only to the bundle may contain anything.
    let own = dir.join(DATA_DIR);
    for name in files_of(&own).filter(|_| data == own) {
        if name.starts_with(TEMP_PREFIX) {
            leftovers.push(format!("{DATA_DIR}/{name}"));
        } else if !known.contains(name.as_str()) {
            strangers.push(format!("{DATA_DIR}/{name}"));
        }
    }
    let mut notes =
        listed(leftovers, "is a leftover of an interrupted run and can be removed", "leftovers");
    notes.extend(listed(strangers, "is not part of the bundle", "files outside the bundle"));
    notes.extend(skipped(dir));
    notes
}

/// Returns names of the regular files in `dir`; none if the folder cannot be read, which every
/// missing file reports.
fn files_of(dir: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|e| e.path().is_file())
        .map(|e| e.file_name().to_string_lossy().escape_debug().to_string())
}

fn listed(mut names: Vec<String>, what: &str, plural: &str) -> Vec<String> {
    names.sort();
    let more = names.len().saturating_sub(MAX_NAMED);
    let mut notes: Vec<String> =
        names.iter().take(MAX_NAMED).map(|name| format!("`{name}` {what}")).collect();
    if more > 0 {
        notes.push(format!("and {more} more {plural}"));
    }
    notes
}

fn skipped(dir: &Path) -> Option<String> {
    let path = dir.join("skipped.jsonl");
    if !path.is_file() {
        return None;
    }
    // Lines of any length are counted, with the memory of one buffer.
    let count = || {
        let mut file = BufReader::new(File::open(&path).ok()?);
        let (mut lines, mut open) = (0_u64, false);
        loop {
            let buffer = file.fill_buf().ok()?;
            if buffer.is_empty() {
                return Some(lines + u64::from(open));
            }
            lines += buffer.iter().filter(|b| **b == b'\n').count() as u64;
            open = buffer.last() != Some(&b'\n');
            let n = buffer.len();
            file.consume(n);
        }
    };
    Some(match count() {
        Some(n) => format!(
            "`skipped.jsonl` lists {n} inputs that were left out when the bundle was packed"
        ),
        None => "`skipped.jsonl` exists and cannot be read".to_owned(),
    })
}
