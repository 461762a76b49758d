//! Versions (PEP 440), as far as builds of libraries have them.

use std::cmp::Ordering;

/// `13.1.0.3`, `2.7.1+cu126`, `1.0rc1`, `1.0.post2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    text: String,
    release: Vec<u64>,
    /// `rc1`, `.dev3`: before the release of these numbers.
    early: bool,
    /// The number of `.post2`.
    post: u64,
    local: Option<String>,
}

impl Version {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let (public, local) = match text.split_once('+') {
            Some((public, local)) => (public, Some(local.to_owned())),
            None => (text.as_str(), None),
        };
        let public = public.strip_prefix('v').unwrap_or(public);
        let end = public.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(public.len());
        let (numbers, rest) = public.split_at(end);
        let numbers = numbers.strip_suffix('.').unwrap_or(numbers);
        let release: Option<Vec<u64>> = numbers.split('.').map(|n| n.parse().ok()).collect();
        let rest = rest.trim_start_matches(['.', '-', '_']);
        let post = match rest.strip_prefix("post").or_else(|| rest.strip_prefix('r')) {
            Some(number) if number.bytes().all(|b| b.is_ascii_digit()) => number.parse().ok(),
            _ => None,
        };
        let early = !rest.is_empty() && post.is_none();
        let release = release.filter(|release| release.len() <= 16)?;
        Some(Self { release, early, post: post.unwrap_or(0), local, text: text.clone() })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn is_early(&self) -> bool {
        self.early
    }

    /// The number at a place; versions go on with zeros.
    fn number(&self, at: usize) -> u64 {
        self.release.get(at).copied().unwrap_or(0)
    }

    /// Whether the numbers begin with those of `prefix`.
    fn begins_with(&self, prefix: &Self) -> bool {
        (0..prefix.release.len()).all(|at| self.number(at) == prefix.number(at))
    }

    /// The version of the public part.
    fn cmp_public(&self, other: &Self) -> Ordering {
        let len = self.release.len().max(other.release.len());
        let numbers = (0..len).map(|at| self.number(at).cmp(&other.number(at)));
        let numbers = numbers.fold(Ordering::Equal, Ordering::then);
        let whole = |early: bool| !early;
        numbers
            .then(whole(self.early).cmp(&whole(other.early)))
            .then(self.post.cmp(&other.post))
            .then_with(|| if self.early { self.text.cmp(&other.text) } else { Ordering::Equal })
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cmp_public(other).then_with(|| self.local.cmp(&other.local))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `==13.0.2`, `==13.1.0.3.*`, `>=1,<2`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Specifier(Vec<(String, Version, bool)>);

impl Specifier {
    /// `None` for what is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut clauses = Vec::new();
        for clause in text.split(',').map(str::trim).filter(|clause| !clause.is_empty()) {
            let end = clause.find(|c: char| !"<>=!~".contains(c))?;
            let (operator, version) = clause.split_at(end);
            if !["==", "===", "!=", ">=", "<=", ">", "<", "~="].contains(&operator) {
                return None;
            }
            let version = version.trim();
            let (version, any) = match version.strip_suffix(".*") {
                Some(prefix) if matches!(operator, "==" | "!=") => (prefix, true),
                Some(_) => return None,
                None => (version, false),
            };
            clauses.push((operator.to_owned(), Version::parse(version)?, any));
        }
        Some(Self(clauses))
    }

    /// Exactly this version.
    pub(super) fn exactly(version: Version) -> Self {
        Self(vec![("===".to_owned(), version, false)])
    }

    pub(super) fn holds(&self, version: &Version) -> bool {
        self.0.iter().all(|(operator, wanted, any)| {
            // Without a local part any build of the version is meant.
            let equal = match (any, &wanted.local) {
                (true, _) => version.begins_with(wanted),
                (false, None) => version.cmp_public(wanted).is_eq(),
                (false, Some(_)) => version.cmp(wanted).is_eq(),
            };
            let order = version.cmp_public(wanted);
            match operator.as_str() {
                "==" => equal,
                "===" => version.cmp(wanted).is_eq(),
                "!=" => !equal,
                ">=" => order.is_ge(),
                "<=" => order.is_le(),
                ">" => order.is_gt(),
                "<" => order.is_lt(),
                // `~=2.2.1` is `>=2.2.1,==2.2.*`.
                _ => {
                    let len = wanted.release.len().saturating_sub(1);
                    let same = (0..len).all(|at| version.number(at) == wanted.number(at));
                    order.is_ge() && same
                }
            }
        })
    }

    /// Whether one version alone is meant.
    pub(super) fn is_exact(&self) -> bool {
        self.0.iter().any(|(operator, _, any)| operator.starts_with("==") && !any)
    }

    pub(super) fn text(&self) -> String {
        let clauses = self.0.iter().map(|(operator, version, any)| {
            let operator = if operator == "===" { "==" } else { operator };
            format!("{operator}{}{}", version.as_str(), if *any { ".*" } else { "" })
        });
        clauses.collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn versions_are_ordered() {
        let ordered = [
            "1.0.dev1",
            "1.0rc1",
            "1.0",
            "1.0+cu126",
            "1.0.post1",
            "1.0.1",
            "1.9",
            "1.10",
            "13.0.2",
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(version(a).cmp(&version(b)), i.cmp(&j), "{a} and {b}");
            }
        }
        assert!(version("1.0").cmp(&version("1.0.0")).is_eq());
        for bad in ["", "x", "1..2", ".1", "99999999999999999999999"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn specifiers_hold_for_what_they_say() {
        for (spec, yes, no) in [
            ("==13.1.0.3.*", "13.1.0.3", "13.1.0.30"),
            ("==13.0.2", "13.0.2.0", "13.0.2.1"),
            ("==2.7.1", "2.7.1+cu126", "2.7.10"),
            ("==2.7.1+cu126", "2.7.1+cu126", "2.7.1"),
            (">=1, <2", "1.5", "2.0"),
            ("~=2.2.1", "2.2.9", "2.3"),
            ("!=1.*", "2.0", "1.7"),
            (">1.0", "1.0.1", "1.0"),
            ("", "7", "x"),
        ] {
            let read = Specifier::parse(spec).unwrap();
            assert!(read.holds(&version(yes)), "{spec} {yes}");
            assert!(Version::parse(no).is_none_or(|no| !read.holds(&no)), "{spec} {no}");
        }
        for bad in ["13", "==", "=>1", ">=1.*", "== x"] {
            assert_eq!(Specifier::parse(bad), None, "{bad}");
        }
    }
}
