//! The list of classes, which numbers the labels.

use std::collections::HashSet;
use std::fs;

use crate::scan::Scan;
use crate::{Classes, Error, Labels, PlanOptions};

/// The class list: the user's file, or the folders found.
pub(crate) fn classes(options: &PlanOptions, scan: &Scan) -> Result<Vec<String>, Error> {
    if options.labels == Labels::None {
        return Ok(Vec::new());
    }
    if let Some(Classes::Extended(names)) = &options.classes {
        return Ok(extended(names, scan.classes.iter().cloned()));
    }
    Ok(listed_classes(options)?.unwrap_or_else(|| scan.classes.iter().cloned().collect()))
}

/// Classes, and those of `more` that are not among them.
pub(crate) fn extended(classes: &[String], more: impl Iterator<Item = String>) -> Vec<String> {
    let known: HashSet<&String> = classes.iter().collect();
    let new: Vec<String> = more.filter(|class| !known.contains(class)).collect();
    classes.iter().cloned().chain(new).collect()
}

/// Reads the user's list of classes, if there is one.
pub(crate) fn listed_classes(options: &PlanOptions) -> Result<Option<Vec<String>>, Error> {
    let path = match &options.classes {
        None => return Ok(None),
        Some(Classes::Names(names) | Classes::Extended(names)) => return Ok(Some(names.clone())),
        Some(Classes::File(path)) => path,
    };
    let text = fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    let classes: Vec<String> =
        text.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect();
    let mut sorted = classes.clone();
    sorted.sort();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Error::setting(
            &["classes"],
            format!("`{}` lists class `{}` twice", path.display(), pair[0]),
        ));
    }
    Ok(Some(classes))
}

pub(super) fn unknown_class(
    key: &str,
    class: &str,
    options: &PlanOptions,
    classes: &[String],
) -> Error {
    Error::UnknownClass {
        path: key.to_owned(),
        class: class.to_owned(),
        list: match &options.classes {
            Some(Classes::File(path)) => path.display().to_string(),
            Some(Classes::Names(_) | Classes::Extended(_)) => "the list of classes".to_owned(),
            None => "the source".to_owned(),
        },
        n: classes.len(),
    }
}
