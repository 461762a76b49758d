//! The folders in each other that everything in a source is in.

use std::fs;
use std::path::Path;

use crate::facts::{split_like, split_of};
use crate::layout::LayoutError;
use crate::source::{Archive, Inputs, Source, SourceError, hidden, media_type_of};

/// Most folders around everything that are looked into.
const MOST_AROUND: usize = 8;

/// The folder that has everything else in it, such as the one that people pack into an archive:
/// nothing else is beside it, and there are several folders in it, or one that is a split. It ends
/// in a slash; nothing if there is none.
pub(crate) fn one_folder(source: &Source, inputs: Inputs) -> Result<String, LayoutError> {
    let around = match source {
        Source::Folder(folder) => around_folders(folder, inputs),
        Source::Archive(archive) => around_members(archive, inputs)?,
        Source::Pixels(_) | Source::Datasets(_) => None,
    };
    let around = around.unwrap_or_default();
    let split = around.iter().position(|name| split_like(name).is_some());
    let kept = match split.map(|at| around.split_at(at)) {
        None => around.as_slice(),
        Some((before, [split, ..])) if split_of(split).is_some() => before,
        Some(_) => &[],
    };
    Ok(kept.iter().map(|name| format!("{name}/")).collect())
}

/// The folders in each other that have everything in them; `None` if images are beside one.
fn around_folders(source: &Path, inputs: Inputs) -> Option<Vec<String>> {
    let (mut around, mut folder) = (Vec::new(), source.to_owned());
    while around.len() < MOST_AROUND {
        let mut folders = Vec::new();
        for entry in fs::read_dir(&folder).ok()?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if hidden(&name) {
                continue;
            }
            if entry.path().is_dir() {
                folders.push(name);
            } else if media_type_of(&name, inputs).is_some() {
                return None;
            }
        }
        match folders.as_slice() {
            [] => return None,
            [one] => folder.push(one),
            _ => break,
        }
        around.append(&mut folders);
        if around.last().is_some_and(|name| split_like(name).is_some()) {
            break;
        }
    }
    Some(around)
}

/// The same of an archive.
fn around_members(archive: &Archive, inputs: Inputs) -> Result<Option<Vec<String>>, LayoutError> {
    let folders_of = |name: &'_ str| -> Vec<String> {
        let folders = name.rsplit_once('/').map_or("", |(folders, _)| folders);
        folders.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let common = |a: &[String], b: &[String]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (mut around, mut fewest) = (None::<Vec<String>>, usize::MAX);
    archive.files::<SourceError>(&mut |name, _| {
        if !hidden(name) && media_type_of(name, inputs).is_some() {
            let folders = folders_of(name);
            fewest = fewest.min(folders.len());
            let known = around.get_or_insert_with(|| folders.clone());
            known.truncate(common(known, &folders));
        }
        Ok(())
    })?;
    let has_split = |around: &[String]| around.iter().any(|name| split_like(name).is_some());
    let around = around.filter(|around| around.len() < fewest || has_split(around));
    let Some(mut around) = around.filter(|around| !around.is_empty()) else { return Ok(None) };
    // A folder without images is beside others, too.
    archive.files::<SourceError>(&mut |name, _| {
        let folders = if hidden(name) { Vec::new() } else { folders_of(name) };
        let n = common(&around, &folders);
        if folders.len() > n {
            around.truncate(n);
        }
        Ok(())
    })?;
    Ok(Some(around))
}
