//! The environment, as a value. No other part of the libraries reads it from the process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

/// Environment variables by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// Reads the environment of this process, without values that are not UTF-8.
    #[must_use]
    pub fn process() -> Self {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// Makes an environment of only these variables.
    #[must_use]
    pub fn from_pairs(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    /// The value of `name`; an empty one counts as not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl fmt::Debug for Env {
    /// Shows names alone, since a value may be a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_an_environment() {
        // Cargo sets this variable for every test.
        assert!(Env::process().get("CARGO_MANIFEST_DIR").is_some());
    }

    #[test]
    fn values_do_not_show() {
        let env = Env::from_pairs(&[("BEARER_TOKEN", "secret"), ("EMPTY", "")]);
        assert_eq!(env.get("BEARER_TOKEN"), Some("secret"));
        assert_eq!(env.get("EMPTY"), None);
        assert!(!format!("{env:?}").contains("secret"));
    }
}
