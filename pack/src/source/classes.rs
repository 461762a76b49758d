//! The list of classes that the user gives.

use crate::source::SourceError;
use std::fs;
use std::path::PathBuf;

/// Class names in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Classes {
    /// Classes in a file, one per line without the blanks around it.
    File(PathBuf),
    /// These classes.
    Names(Vec<String>),
    /// These classes, followed by others that paths have.
    Extended(Vec<String>),
}

/// Reads the user's list of classes, if there is one.
pub(crate) fn listed_classes(given: Option<&Classes>) -> Result<Option<Vec<String>>, SourceError> {
    let path = match given {
        None => return Ok(None),
        Some(Classes::Names(names) | Classes::Extended(names)) => return Ok(Some(names.clone())),
        Some(Classes::File(path)) => path,
    };
    let text = fs::read_to_string(path).map_err(|e| SourceError::io("read", path, e))?;
    let classes: Vec<String> =
        text.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect();
    let mut sorted = classes.clone();
    sorted.sort();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(SourceError::setting(
            &["classes"],
            format!("`{}` lists class `{}` twice", path.display(), pair[0]),
        ));
    }
    Ok(Some(classes))
}
