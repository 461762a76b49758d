//! The list of classes, which numbers the labels.

use crate::facts::{ClassNumbers, RunError};
use crate::layout::{Labels, Scan};
use crate::plan::{PlanError, PlanOptions};
use crate::source::{Classes, listed_classes};

/// The class list: the user's file, or the folders found.
pub(crate) fn classes(options: &PlanOptions, scan: &Scan) -> Result<Vec<String>, PlanError> {
    if options.labels == Labels::None {
        return Ok(Vec::new());
    }
    if let Some(Classes::Extended(names)) = &options.classes {
        return Ok(extended(names, scan.classes.iter().cloned()));
    }
    Ok(listed_classes(options.classes.as_ref())?
        .unwrap_or_else(|| scan.classes.iter().cloned().collect()))
}

/// Classes, and those of `more` that are not among them.
pub(crate) fn extended(classes: &[String], more: impl Iterator<Item = String>) -> Vec<String> {
    let known = ClassNumbers::new(classes);
    let new: Vec<String> = more.filter(|class| known.get(class).is_none()).collect();
    classes.iter().cloned().chain(new).collect()
}

pub(super) fn unknown_class(
    key: &str,
    class: &str,
    options: &PlanOptions,
    classes: &[String],
) -> PlanError {
    RunError::UnknownClass {
        path: key.to_owned(),
        class: class.to_owned(),
        list: match &options.classes {
            Some(Classes::File(path)) => path.display().to_string(),
            Some(Classes::Names(_) | Classes::Extended(_)) => "the list of classes".to_owned(),
            None => "the source".to_owned(),
        },
        n: classes.len(),
    }
    .into()
}
