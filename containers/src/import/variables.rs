//! Variables of a build, and texts in which they are replaced.

use std::collections::{BTreeMap, BTreeSet};

/// The name of a variable whose value is not known, or what is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unknown(pub(super) String);

/// Values by name. A variable of an unknown base image has no known value.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables {
    values: BTreeMap<String, String>,
    /// Those that have a value, but not a known one.
    unknown: BTreeSet<String>,
    /// Whether a variable without a value is certainly empty.
    pub(super) are_all: bool,
}

/// Arguments that Docker gives values
/// (<https://docs.docker.com/reference/dockerfile/#automatic-platform-args-in-the-global-scope>).
const AUTOMATIC: [&str; 8] = [
    "BUILDPLATFORM",
    "BUILDOS",
    "BUILDARCH",
    "BUILDVARIANT",
    "TARGETPLATFORM",
    "TARGETOS",
    "TARGETARCH",
    "TARGETVARIANT",
];

/// Longest text with the values in it. Linux takes no longer word of a command.
const MAX_BYTES: usize = 128 << 10;

impl Variables {
    /// Before the base, only arguments have values.
    pub(super) fn before_base() -> Self {
        let unknown = AUTOMATIC.iter().map(|name| (*name).to_owned()).collect();
        Self { unknown, are_all: true, ..Self::default() }
    }

    pub(super) fn set(&mut self, name: &str, value: String) {
        self.unknown.remove(name);
        self.values.insert(name.to_owned(), value);
    }

    /// Notes that the value is not known.
    pub(super) fn forget(&mut self, name: &str) {
        self.values.remove(name);
        self.unknown.insert(name.to_owned());
    }

    /// Notes that the values are not known which a text of a shell or of ENV may set.
    pub(super) fn forget_assigned(&mut self, text: &str) {
        let words = text.split(|c: char| c.is_whitespace() || ";&|(){}".contains(c));
        let names = words.filter_map(|word| word.split_once('=')).map(|(name, _)| name);
        for name in names.filter(|name| crate::singularity::is_variable(name)) {
            self.forget(name);
        }
    }

    /// The names with their values.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn is_certain(&self, name: &str) -> bool {
        self.values.contains_key(name) || self.are_all && !self.unknown.contains(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Replaces `$NAME`, `${NAME}`, `${NAME:-default}` and `${NAME:+other}` as Docker and the shell
    /// do, except between single quotes if `quotes` is set. The error is the name of a variable
    /// whose value is not known, or what is not understood.
    pub(super) fn expand(&self, text: &str, quotes: bool) -> Result<String, Unknown> {
        let mut out = String::with_capacity(text.len());
        let mut chars = text.chars().peekable();
        let (mut single, mut double) = (false, false);
        while let Some(c) = chars.next() {
            if out.len() > MAX_BYTES {
                return Err(Unknown(out.chars().take(20).collect()));
            }
            match c {
                '\'' if quotes && !double => {
                    single = !single;
                    out.push(c);
                }
                '"' if quotes && !single => {
                    double = !double;
                    out.push(c);
                }
                '\\' if !single => {
                    // What is escaped stays escaped for the next reader.
                    match (chars.next(), quotes) {
                        (Some('$'), false) => out.push('$'),
                        (Some(next), _) => {
                            out.push(c);
                            out.push(next);
                        }
                        (None, _) => out.push(c),
                    }
                }
                '$' if !single => {
                    let mut name = String::new();
                    if chars.next_if_eq(&'{').is_some() {
                        let mut depth = 1;
                        for c in chars.by_ref() {
                            match c {
                                '{' => depth += 1,
                                '}' => depth -= 1,
                                _ => {}
                            }
                            if depth == 0 {
                                break;
                            }
                            name.push(c);
                        }
                        if depth > 0 {
                            return Err(Unknown(name));
                        }
                        out.push_str(&self.braced(&name)?);
                        continue;
                    }
                    while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                        name.push(c);
                    }
                    match name.is_empty() {
                        // `$(`, `$@`, `$1`: for a shell alone.
                        true => {
                            return Err(Unknown(
                                chars.next().map(String::from).unwrap_or_default(),
                            ));
                        }
                        false => out.push_str(&self.value(&name)?),
                    }
                }
                c => out.push(c),
            }
        }
        Ok(out)
    }

    fn value(&self, name: &str) -> Result<String, Unknown> {
        match self.values.get(name) {
            Some(value) => Ok(value.clone()),
            None if self.is_certain(name) => Ok(String::new()),
            None => Err(Unknown(name.to_owned())),
        }
    }

    /// What is between the braces of `${…}`.
    fn braced(&self, inner: &str) -> Result<String, Unknown> {
        let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let (name, rest) = inner.split_at(end.unwrap_or(inner.len()));
        let known = self.values.get(name);
        let filled = known.filter(|value| !value.is_empty());
        let ways: [(&str, Option<&String>, bool); 4] =
            [(":-", filled, true), (":+", filled, false), ("-", known, true), ("+", known, false)];
        if rest.is_empty() && !name.is_empty() {
            return self.value(name);
        }
        for (sign, found, default) in ways {
            let Some(word) = rest.strip_prefix(sign) else { continue };
            if !self.is_certain(name) {
                return Err(Unknown(name.to_owned()));
            }
            return match (found, default) {
                (Some(value), true) => Ok(value.clone()),
                (None, true) | (Some(_), false) => self.expand(word, false),
                (None, false) => Ok(String::new()),
            };
        }
        Err(Unknown(inner.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_as_docker_does() {
        let mut variables = Variables::default();
        variables.set("V", "12".to_owned());
        variables.set("E", String::new());
        let check = |text: &str, expected: Result<&str, &str>| {
            let found = variables.expand(text, true);
            assert_eq!(found.as_deref().map_err(|Unknown(name)| name.as_str()), expected, "{text}");
        };
        check("a$V.b ${V}x", Ok("a12.b 12x"));
        check("'$V' \"$V\" \"it's $V\"", Ok("'$V' \"12\" \"it's 12\""));
        check("${V:-no} ${E:-yes} ${E-no} ${V:+is} ${E:+no}", Ok("12 yes  is "));
        check("${E:-a$V}", Ok("a12"));
        check(r"\$V", Ok(r"\$V"));
        check("$X", Err("X"));
        check("${X:-1}", Err("X"));
        check("$(date)", Err("("));
        check("$@", Err("@"));
        check("${V%1}", Err("V%1"));
        check("${V", Err("V"));
        variables.are_all = true;
        assert_eq!(variables.expand("${X:-1}$Y", true).as_deref(), Ok("1"));
    }
}
