//! Which optional parts of a project go into an image.

use std::collections::BTreeMap;

use super::wanted::Place;
use crate::Result;
use crate::wheel::normal;

/// The extras and groups that a recipe asks for. Without any, only what the project always needs
/// is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Selection<'a> {
    pub(super) extras: &'a [String],
    pub(super) groups: &'a [String],
}

impl Selection<'_> {
    /// The chosen entries of a project's extras.
    ///
    /// # Errors
    /// [`Error::Recipe`](crate::Error::Recipe) for one that the project does not have.
    pub(super) fn extras<'t, T>(
        &self,
        known: &'t BTreeMap<String, T>,
        from: &Place,
    ) -> Result<Vec<(&'t String, &'t T)>> {
        chosen("extra", self.extras, known, from)
    }

    /// The chosen entries of a project's groups.
    ///
    /// # Errors
    /// Those of [`extras`](Self::extras).
    pub(super) fn groups<'t, T>(
        &self,
        known: &'t BTreeMap<String, T>,
        from: &Place,
    ) -> Result<Vec<(&'t String, &'t T)>> {
        chosen("group", self.groups, known, from)
    }

    /// Refuses a choice where there is none.
    ///
    /// # Errors
    /// [`Error::Recipe`](crate::Error::Recipe).
    pub(super) fn must_be_empty(&self, from: &Place) -> Result<()> {
        let none: BTreeMap<String, ()> = BTreeMap::new();
        self.extras(&none, from)?;
        self.groups(&none, from).map(drop)
    }
}

fn chosen<'t, T>(
    kind: &str,
    names: &[String],
    known: &'t BTreeMap<String, T>,
    from: &Place,
) -> Result<Vec<(&'t String, &'t T)>> {
    let one = |name: &String| {
        let found = known.iter().find(|(there, _)| normal(there) == normal(name));
        found.ok_or_else(|| {
            let reason = format!("the recipe asks for the {kind} `{name}`, which is not there");
            let names: Vec<_> = known.keys().map(|name| format!("`{name}`")).collect();
            let hint = match names.as_slice() {
                [] => format!("remove `{kind}s` from `[python]`: this file has none"),
                names => format!("expected one of {}", names.join(", ")),
            };
            from.wrong(reason, Some(hint))
        })
    };
    names.iter().map(one).collect()
}
