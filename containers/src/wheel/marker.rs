//! Environment markers, which decide whether a requirement applies: `platform_system == "Linux" and
//! extra == 'cublas'`.
//!
//! `pep508_rs` is not used: it brings 37 crates (URLs, regular expressions, Unicode tables), and
//! its parser recurses at every parenthesis, so that a long row of them in a wheel's metadata
//! overflows the stack.

use std::str::FromStr as _;

use pep440_rs::{Operator, Version};

use super::version::Versions;

/// Largest depth of nested parentheses.
const MAX_DEPTH: usize = 32;

/// An expression of PEP 508.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Marker {
    Any(Vec<Marker>),
    All(Vec<Marker>),
    Is { left: Value, relation: Relation, right: Value },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Variable(String),
    Text(String),
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// Compares the two as versions if both are, else as texts.
    Is(Operator),
    /// Whether the left value is a part of the right.
    In,
    NotIn,
}

/// The values that a marker is evaluated with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Environment<'a> {
    /// The machine: `x86_64`, `aarch64`.
    pub(crate) machine: &'a str,
    /// The extras asked for.
    pub(crate) extras: &'a [String],
    /// The Python's whole version: `3.11.2`.
    pub(crate) python: &'a str,
}

impl Marker {
    /// Parses an expression; `None` if it is not valid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let tokens = tokens(text)?;
        let mut rest = tokens.as_slice();
        let marker = any(&mut rest, 0)?;
        rest.is_empty().then_some(marker)
    }

    pub(crate) fn holds(&self, environment: &Environment<'_>) -> bool {
        match self {
            Self::Any(parts) => parts.iter().any(|part| part.holds(environment)),
            Self::All(parts) => parts.iter().all(|part| part.holds(environment)),
            Self::Is { left, relation, right } => match (left, right) {
                (Value::Variable(name), Value::Text(text)) if name == "extra" => {
                    let there = environment.extras.contains(&super::requirement::normal(text));
                    match relation {
                        Relation::Is(Operator::NotEqual) | Relation::NotIn => !there,
                        Relation::Is(_) | Relation::In => there,
                    }
                }
                (left, right) => relation.holds(environment.value(left), environment.value(right)),
            },
        }
    }
}

impl Environment<'_> {
    fn value<'a>(&'a self, value: &'a Value) -> &'a str {
        match value {
            Value::Text(text) => text,
            Value::Variable(name) => match name.as_str() {
                "os_name" => "posix",
                "sys_platform" => "linux",
                "platform_system" => "Linux",
                "platform_machine" => self.machine,
                "python_version" => short(self.python),
                "python_full_version" | "implementation_version" => self.python,
                "implementation_name" => "cpython",
                "platform_python_implementation" => "CPython",
                _ => "",
            },
        }
    }
}

/// Shortens a version: `3.11.2` becomes `3.11`.
fn short(version: &str) -> &str {
    let mut dots = version.match_indices('.').map(|(at, _)| at);
    dots.nth(1).and_then(|at| version.get(..at)).unwrap_or(version)
}

impl Relation {
    fn holds(self, left: &str, right: &str) -> bool {
        let operator = match self {
            Self::In => return right.contains(left),
            Self::NotIn => return !right.contains(left),
            Self::Is(operator) => operator,
        };
        let versions = Versions::parse(&format!("{operator}{right}"));
        match (Version::from_str(left), versions) {
            (Ok(left), Some(versions)) => versions.holds(&left),
            _ => match operator {
                Operator::Equal | Operator::ExactEqual => left == right,
                Operator::NotEqual => left != right,
                _ => false,
            },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    Word(String),
    Operator(Operator),
    Text(String),
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let split = |end: usize| rest.split_at(end);
        let (token, after) = match first {
            '(' => (Token::Open, rest.get(1..)?),
            ')' => (Token::Close, rest.get(1..)?),
            '"' | '\'' => {
                let (inside, after) = rest.get(1..)?.split_once(first)?;
                (Token::Text(inside.to_owned()), after)
            }
            '<' | '>' | '=' | '!' | '~' => {
                let end = rest.find(|c: char| !"<>=!~".contains(c)).unwrap_or(rest.len());
                let (operator, after) = split(end);
                (Token::Operator(Operator::from_str(operator).ok()?), after)
            }
            c if c.is_ascii_alphabetic() => {
                let word = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
                let end = rest.find(|c: char| !word(c)).unwrap_or(rest.len());
                let (word, after) = split(end);
                (Token::Word(word.to_owned()), after)
            }
            _ => return None,
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Some(tokens)
}

fn any(tokens: &mut &[Token], depth: usize) -> Option<Marker> {
    let mut parts = vec![all(tokens, depth)?];
    while take_word(tokens, "or") {
        parts.push(all(tokens, depth)?);
    }
    Some(if parts.len() == 1 { parts.remove(0) } else { Marker::Any(parts) })
}

fn all(tokens: &mut &[Token], depth: usize) -> Option<Marker> {
    let mut parts = vec![one(tokens, depth)?];
    while take_word(tokens, "and") {
        parts.push(one(tokens, depth)?);
    }
    Some(if parts.len() == 1 { parts.remove(0) } else { Marker::All(parts) })
}

fn one(tokens: &mut &[Token], depth: usize) -> Option<Marker> {
    if tokens.first() == Some(&Token::Open) {
        *tokens = tokens.get(1..)?;
        let inside = (depth < MAX_DEPTH).then(|| any(tokens, depth + 1))??;
        let closed = tokens.first() == Some(&Token::Close);
        *tokens = tokens.get(1..)?;
        return closed.then_some(inside);
    }
    let left = value(tokens)?;
    let relation = match tokens.first()? {
        Token::Operator(operator) => Relation::Is(*operator),
        Token::Word(word) if word == "in" => Relation::In,
        Token::Word(word) if word == "not" && tokens.get(1) == Some(&Token::Word("in".into())) => {
            *tokens = tokens.get(1..)?;
            Relation::NotIn
        }
        _ => return None,
    };
    *tokens = tokens.get(1..)?;
    Some(Marker::Is { left, relation, right: value(tokens)? })
}

fn value(tokens: &mut &[Token]) -> Option<Value> {
    let value = match tokens.first()? {
        Token::Word(word) => Value::Variable(word.clone()),
        Token::Text(text) => Value::Text(text.clone()),
        _ => return None,
    };
    *tokens = tokens.get(1..)?;
    Some(value)
}

fn take_word(tokens: &mut &[Token], word: &str) -> bool {
    let there = matches!(tokens.first(), Some(Token::Word(found)) if found == word);
    if there {
        *tokens = tokens.get(1..).unwrap_or_default();
    }
    there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_hold_where_they_say() {
        let extras = ["cublas".to_owned()];
        let here = Environment { machine: "x86_64", extras: &extras, python: "3.11.2" };
        for (text, expected) in [
            ("platform_system == \"Linux\" and platform_machine == \"x86_64\"", true),
            ("(sys_platform == 'linux' or sys_platform == 'win32') and extra == 'cublas'", true),
            ("(sys_platform == 'linux') and extra == 'all'", false),
            ("sys_platform == 'win32' or 'linux' in sys_platform", true),
            ("python_version >= \"3.12\"", false),
            ("python_full_version >= '3.11.1' and python_full_version < '3.11.3'", true),
            ("python_version < \"3.9\" or python_version >= \"3.10\"", true),
            ("platform_machine not in 'aarch64 arm64'", true),
            ("extra == 'CUBLAS'", true),
            ("unheard_of == 'x'", false),
        ] {
            assert_eq!(
                Marker::parse(text).map(|marker| marker.holds(&here)),
                Some(expected),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_marker_is_none() {
        let deep = format!("{}os_name == 'posix'", "(".repeat(100_000));
        for bad in [
            "",
            "a",
            "a ==",
            "== 'x'",
            "a == 'x",
            "(a == 'b'",
            "a == 'b')",
            "a not 'b'",
            "é == 'x'",
            &deep,
        ] {
            assert_eq!(Marker::parse(bad), None, "{}", &bad[..bad.len().min(20)]);
        }
    }
}
