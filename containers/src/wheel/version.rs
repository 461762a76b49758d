//! Which versions a requirement allows (PEP 440).

use std::fmt;
use std::str::FromStr as _;

use pep440_rs::{Operator, Version, VersionSpecifier, VersionSpecifiers};

/// The versions of a requirement: `==13.0.2`, `==13.1.0.3.*`, `>=1,<2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Versions {
    /// This version alone: `2.7.1` does not include a build such as `2.7.1+cu126`.
    Exactly(Version),
    /// All versions that match these specifiers.
    Like(VersionSpecifiers),
}

impl Versions {
    /// Parses a requirement's versions; `None` for a text that is not valid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let clauses = text.split(',').map(str::trim).filter(|clause| !clause.is_empty());
        clauses
            .map(|clause| VersionSpecifier::from_str(clause).ok())
            .collect::<Option<_>>()
            .map(Self::Like)
    }

    pub(crate) fn holds(&self, version: &Version) -> bool {
        match self {
            Self::Exactly(wanted) => version == wanted,
            Self::Like(specifiers) => specifiers.contains(version),
        }
    }

    /// Returns the version, if the text names only one.
    pub(crate) fn only(&self) -> Option<Version> {
        match self {
            Self::Exactly(version) => Some(version.clone()),
            Self::Like(specifiers) => match &**specifiers {
                [one] if matches!(one.operator(), Operator::Equal | Operator::ExactEqual) => {
                    Some(one.version().clone())
                }
                _ => None,
            },
        }
    }

    /// Whether the text allows one version alone.
    pub(crate) fn is_exact(&self) -> bool {
        let exact = |one: &VersionSpecifier| {
            matches!(one.operator(), Operator::Equal | Operator::ExactEqual)
        };
        match self {
            Self::Exactly(_) => true,
            Self::Like(specifiers) => specifiers.iter().any(exact),
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(version) => write!(f, "=={version}"),
            Self::Like(specifiers) => specifiers.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    /// Locks take the newest version, so its order is a fact of ours too.
    #[test]
    fn versions_are_ordered_as_pep_440_says() {
        let ordered = [
            "1.0.dev1",
            "1.0a1.dev2",
            "1.0a1",
            "1.0rc2",
            "1.0rc10",
            "1.0",
            "1.0+cu126",
            "1.0.post1",
            "1.0.1",
            "1.9",
            "1.10",
            "13.0.2",
            "1!0.1",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(version(a).cmp(&version(b)), i.cmp(&j), "{a} and {b}");
            }
        }
        assert!(version("1.0") == version("1.0.0") && !version("1!2.0").any_prerelease());
    }

    #[test]
    fn versions_hold_for_what_they_say() {
        for (text, yes, no) in [
            ("==13.1.0.3.*", "13.1.0.3", "13.1.0.30"),
            ("==13.0.2", "13.0.2.0", "13.0.2.1"),
            ("==2.7.1", "2.7.1+cu126", "2.7.10"),
            ("==2.7.1+cu126", "2.7.1+cu126", "2.7.1"),
            (">=1, <2,", "1.5", "2.0"),
            ("~=2.2.1", "2.2.9", "2.3"),
            ("!=1.*", "2.0", "1.7"),
            (">1.0", "1.0.1", "1.0"),
            (">=1!1", "1!2", "3"),
        ] {
            let read = Versions::parse(text).unwrap();
            assert!(read.holds(&version(yes)), "{text} {yes}");
            assert!(!read.holds(&version(no)), "{text} {no}");
            let exact = text.starts_with("==") && !text.ends_with('*');
            assert_eq!((read.is_exact(), read.only().is_some()), (exact, exact), "{text}");
        }
        assert!(Versions::parse("").unwrap().holds(&version("7")));
        let exactly = Versions::Exactly(version("2.7.1"));
        assert!(exactly.holds(&version("2.7.1")) && !exactly.holds(&version("2.7.1+cu126")));
        assert_eq!(exactly.to_string(), "==2.7.1");
        for bad in ["13", "==", "=>1", ">=1.*", "== x", "~=1", "==99999999999999999999999"] {
            assert_eq!(Versions::parse(bad), None, "{bad}");
        }
    }
}
