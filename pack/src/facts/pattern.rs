//! Path patterns: what each part of a path means.
//!
//! ```text
//! {split}/{label}/{key}.{ext}           train/cat/7.jpg ─▶ split train, label cat, key 7, ext jpg
//! {label:cat|dog}.{key}.jpg             a name, narrowed by a regular expression
//! {split=test}extra/{key}.{ext}         a value that no path has
//! {*} and {**}                          what does not matter: within a folder, and across folders
//! {*:[0-9]+}                            the same, narrowed
//! ```
//!
//! A pattern matches a whole path. It becomes one regular expression, which is compiled twice: as
//! it is, and with all repetitions as short as possible. If the two find different values, the path
//! has several readings, and is refused.

use std::fmt;

use regex::Regex;

/// The name that tells samples apart. It may contain folders.
pub(crate) const KEY: &str = "key";
/// The name of an image in the line of a list.
const PATH: &str = "path";
/// The name of a file's extension.
pub(crate) const EXT: &str = "ext";
/// The name of the split.
pub(crate) const SPLIT: &str = "split";
/// The name of the class.
pub(crate) const LABEL: &str = "label";
/// The name of a band that is a file of its own.
pub(crate) const BAND: &str = "band";
/// The name of a time of a series.
pub(crate) const DATE: &str = "date";
/// Stands for a value in a template; no path contains it.
const MARK: char = '\0';
/// The longest pattern.
const MOST_BYTES: usize = 4096;

/// What each part of a path means.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    pieces: Vec<Piece>,
    /// Names of the values, each once.
    names: Vec<String>,
    /// For each group of the expression, the value that it finds.
    groups: Vec<usize>,
    /// Whether no path can be divided in two ways.
    is_clear: bool,
    long: Regex,
    short: Regex,
}

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    /// Any text, possibly none; `folders` says whether it may contain a slash.
    Any {
        folders: bool,
    },
    /// Any text that this expression matches.
    Narrowed(String),
    /// A part of the path, with the expression that it must match.
    Name {
        name: String,
        narrowed: Option<String>,
    },
    /// A value that is not in the path.
    Constant {
        name: String,
        value: String,
    },
}

/// A text that is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a path pattern: {fault}, at character {at}")]
pub struct PatternError {
    /// The text.
    pub text: String,
    /// Where the fault begins, counted in characters from 1.
    pub at: usize,
    /// What is wrong.
    pub fault: PatternFault,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternFault {
    /// A brace without its partner.
    #[error("`{{` has no `}}`")]
    Unclosed,
    /// A closing brace without its partner.
    #[error("`}}` has no `{{`; a brace in a name is written twice")]
    Unopened,
    /// A name with other characters.
    #[error(
        "`{0}` is not a name; expected lower-case letters, digits and `_`, beginning with a letter"
    )]
    Name(String),
    /// An expression that is none.
    #[error("`{0}` is not a regular expression: {1}")]
    Expression(String, String),
    /// A name without a value.
    #[error("`{{{0}=}}` gives no value")]
    NoValue(String),
    /// A name that has a constant value and another one.
    #[error("`{0}` has two values")]
    TwoValues(String),
    /// Two parts between which nothing says where one ends.
    #[error("`{{{0}}}` follows another part directly, so nothing says where it begins")]
    Adjacent(String),
    /// A path that no file has.
    #[error("a pattern is a relative path without empty parts")]
    NotRelative,
    /// A text that is too long.
    #[error("it is longer than {MOST_BYTES} bytes")]
    TooLong,
}

/// The values that a pattern finds in a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values<'a> {
    names: &'a [String],
    values: Vec<&'a str>,
}

/// A path that a pattern can be laid over in two ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwoReadings {
    /// The first name whose values differ.
    pub name: String,
    /// Its values in the two readings.
    pub values: [String; 2],
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`PatternError`] with the place of the fault.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        Self::parse_as(text, true)
    }

    /// Reads a pattern of the lines of a list, which may begin and end with a slash.
    ///
    /// # Errors
    /// [`PatternError`] with the place of the fault.
    pub fn parse_line(text: &str) -> Result<Self, PatternError> {
        Self::parse_as(text, false)
    }

    fn parse_as(text: &str, is_path: bool) -> Result<Self, PatternError> {
        let at = |at: usize, fault| PatternError {
            text: text.to_owned(),
            at: text.get(..at).map_or(0, |before| before.chars().count()) + 1,
            fault,
        };
        if text.len() > MOST_BYTES {
            return Err(at(0, PatternFault::TooLong));
        }
        let pieces = pieces(text).map_err(|(place, fault)| at(place, fault))?;
        let literal = |piece: Option<&Piece>, has: fn(&str) -> bool| match piece {
            Some(Piece::Literal(text)) => has(text),
            _ => false,
        };
        let ends = literal(pieces.first().map(|(_, piece)| piece), |text| text.starts_with('/'))
            || literal(pieces.last().map(|(_, piece)| piece), |text| text.ends_with('/'));
        if pieces.is_empty() || (is_path && ends) {
            return Err(at(0, PatternFault::NotRelative));
        }
        let mut made = Expression::default();
        for (place, piece) in &pieces {
            made.push(piece).map_err(|fault| at(*place, fault))?;
        }
        let Expression { names, groups, text: expression, .. } = made;
        let compile = |flags: &str| {
            Regex::new(&format!("^(?{flags}:{expression})$")).map_err(|e| {
                at(0, PatternFault::Expression(text.to_owned(), last_line(&e.to_string())))
            })
        };
        let (long, short) = (compile("s")?, compile("sU")?);
        let pieces: Vec<Piece> = pieces.into_iter().map(|(_, piece)| piece).collect();
        let is_clear = is_clear(&pieces);
        Ok(Self { text: text.to_owned(), pieces, names, groups, is_clear, long, short })
    }

    /// The text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Names of the values that the pattern finds or sets.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether the pattern finds or sets a value of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// The names and values of a pattern that has nothing else, such as `{split=val}`.
    pub(crate) fn constants(&self) -> Option<Vec<(&str, &str)>> {
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Constant { name, value } => Some((name.as_str(), value.as_str())),
            _ => None,
        });
        pieces.collect()
    }

    /// The names and values that it sets, whatever it matches.
    pub(crate) fn set_values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Constant { name, value } => Some((name.as_str(), value.as_str())),
            _ => None,
        })
    }

    /// Whether the pattern gives more of a sample than its key.
    pub(crate) fn says_more_than_keys(&self) -> bool {
        self.names.iter().any(|name| ![KEY, EXT].contains(&name.as_str()))
    }

    /// The number of characters that the pattern gives itself, then of expressions and constants
    /// that narrow it: of several patterns that match a path, the one with the most counts.
    #[must_use]
    pub fn weight(&self) -> (usize, usize) {
        let (mut literal, mut narrowed) = (0, 0);
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => literal += text.chars().count(),
                Piece::Name { narrowed: Some(_), .. }
                | Piece::Narrowed(_)
                | Piece::Constant { .. } => narrowed += 1,
                Piece::Name { .. } | Piece::Any { .. } => {}
            }
        }
        (literal, narrowed)
    }

    /// The folders that every path of the pattern begins with, ending in a slash, or nothing.
    #[must_use]
    pub fn folder(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Literal(text)) => text.rfind('/').map_or("", |end| &text[..=end]),
            _ => "",
        }
    }

    /// The values in `path`; `None` if the pattern does not match it.
    ///
    /// # Errors
    /// [`TwoReadings`] if the path can be divided in two ways.
    pub fn read<'a>(&'a self, path: &'a str) -> Result<Option<Values<'a>>, TwoReadings> {
        let long = self.divide(&self.long, path);
        let short = match self.is_clear {
            true => long.clone(),
            false => self.divide(&self.short, path),
        };
        let values = match (long, short) {
            (Divided::Not, _) | (_, Divided::Not) => return Ok(None),
            (Divided::Into(values), Divided::Unequal)
            | (Divided::Unequal, Divided::Into(values)) => values,
            (Divided::Unequal, Divided::Unequal) => return Ok(None),
            (Divided::Into(long), Divided::Into(short)) => {
                let differs = long.iter().zip(&short).position(|(a, b)| a != b);
                if let Some(i) = differs {
                    let name = self.names.get(i).cloned().unwrap_or_default();
                    let value = |values: &[&str]| values.get(i).map_or("", |v| *v).to_owned();
                    return Err(TwoReadings { name, values: [value(&short), value(&long)] });
                }
                long
            }
        };
        // An expression may match nothing, and an empty text is not a value.
        let has_all = values.iter().all(|value| !value.is_empty());
        Ok(has_all.then_some(Values { names: &self.names, values }))
    }

    /// The text of the pattern that takes no split from paths.
    pub(crate) fn without_split(&self) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Name { name, narrowed } if name == SPLIT => match narrowed {
                    None => text.push_str("{*}"),
                    Some(expression) => text.push_str(&format!("{{*:{expression}}}")),
                },
                Piece::Constant { name, .. } if name == SPLIT => {}
                piece => text.push_str(&piece.to_string()),
            }
        }
        text
    }

    /// The words that a name is narrowed to, in the order in which they are written; empty if it is
    /// narrowed to none or by another expression.
    pub(crate) fn words(&self, name: &str) -> Vec<&str> {
        let of_name =
            |piece: &Piece| matches!(piece, Piece::Name { name: known, .. } if known == name);
        match self.pieces.iter().find(|piece| of_name(piece)) {
            Some(Piece::Name { narrowed: Some(expression), .. }) => {
                let is_word = |word: &&str| {
                    !word.is_empty()
                        && word.chars().all(|c| c.is_alphanumeric() || "_-".contains(c))
                };
                let words: Vec<&str> = expression.split('|').collect();
                if words.iter().all(is_word) { words } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }

    /// Whether a name is narrowed by an expression.
    pub(crate) fn is_narrowed(&self, of: &str) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Name { name, narrowed: Some(_) } if name == of))
    }

    /// The pattern that takes any value of a name.
    pub(crate) fn widened(&self, of: &str) -> Result<Self, PatternError> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Name { name, .. } if name == of => text.push_str(&format!("{{{name}}}")),
                piece => text.push_str(&piece.to_string()),
            }
        }
        Self::parse(&text)
    }

    /// The path with a mark in place of each value of `shared`: what a file has of its own. `None`
    /// if the pattern does not match the path.
    pub(crate) fn template(&self, path: &str, shared: &[String]) -> Option<String> {
        let fits = |r: &&Regex| matches!(self.divide(r, path), Divided::Into(_));
        let found = [&self.long, &self.short].into_iter().find(fits)?.captures(path)?;
        let (mut template, mut end) = (String::new(), 0);
        for (group, at) in self.groups.iter().enumerate() {
            let name = self.names.get(*at)?;
            if shared.contains(name) {
                let range = found.name(&format!("part{group}"))?.range();
                template.push_str(path.get(end..range.start)?);
                template.push(MARK);
                end = range.end;
            }
        }
        template.push_str(path.get(end..)?);
        Some(template)
    }

    /// The path of a template, with the values of the names that it shares.
    pub(crate) fn fill(&self, template: &str, shared: &[String], values: &[&str]) -> String {
        let mut parts = template.split(MARK);
        let mut path = parts.next().unwrap_or_default().to_owned();
        let names = self.groups.iter().filter_map(|at| self.names.get(*at));
        let shared = names.filter_map(|name| shared.iter().position(|known| known == name));
        for (at, part) in shared.zip(parts) {
            path.push_str(values.get(at).copied().unwrap_or_default());
            path.push_str(part);
        }
        path
    }

    fn divide<'a>(&'a self, expression: &Regex, path: &'a str) -> Divided<'a> {
        let Some(found) = expression.captures(path) else { return Divided::Not };
        let mut values: Vec<Option<&str>> = vec![None; self.names.len()];
        for (group, at) in self.groups.iter().enumerate() {
            let value = found.name(&format!("part{group}")).map_or("", |found| found.as_str());
            let Some(slot) = values.get_mut(*at) else { continue };
            if slot.is_some_and(|first| first != value) {
                return Divided::Unequal;
            }
            *slot = Some(value);
        }
        for piece in &self.pieces {
            if let Piece::Constant { name, value } = piece
                && let Some(at) = self.names.iter().position(|known| known == name)
                && let Some(slot) = values.get_mut(at)
            {
                *slot = Some(value);
            }
        }
        Divided::Into(values.into_iter().map(Option::unwrap_or_default).collect())
    }
}

/// The regular expression of a pattern, while it is made.
#[derive(Default)]
struct Expression {
    text: String,
    names: Vec<String>,
    groups: Vec<usize>,
    /// Names with a value that is not in the path.
    constants: Vec<usize>,
    /// Whether nothing says where the last part ends.
    open: bool,
}

impl Expression {
    fn push(&mut self, piece: &Piece) -> Result<(), PatternFault> {
        match piece {
            Piece::Literal(text) => self.text.push_str(&regex::escape(text)),
            Piece::Any { folders: false } => self.text.push_str("[^/]*"),
            Piece::Any { folders: true } => self.text.push_str(".*"),
            Piece::Narrowed(expression) => self.text.push_str(&format!("(?:{expression})")),
            Piece::Constant { name, .. } => {
                if self.names.contains(name) {
                    return Err(PatternFault::TwoValues(name.clone()));
                }
                let value = self.value_of(name);
                self.constants.push(value);
                return Ok(());
            }
            Piece::Name { name, narrowed } => {
                if self.open && narrowed.is_none() {
                    return Err(PatternFault::Adjacent(name.clone()));
                }
                let value = self.value_of(name);
                if self.constants.contains(&value) {
                    return Err(PatternFault::TwoValues(name.clone()));
                }
                let body = narrowed.as_deref().unwrap_or(match name.as_str() {
                    KEY | PATH => ".+",
                    EXT => "[^/.]+",
                    // So that `{key}_{band}` has one reading.
                    BAND => "[^/._]+",
                    _ => "[^/]+",
                });
                let group = self.groups.len();
                self.text.push_str(&format!("(?<part{group}>{body})"));
                self.groups.push(value);
            }
        }
        self.open = matches!(piece, Piece::Any { .. } | Piece::Name { narrowed: None, .. });
        Ok(())
    }

    fn value_of(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
}

/// Whether each part ends at a slash that it cannot contain itself, up to `{key}.{ext}` or `{key}`
/// at the end.
fn is_clear(pieces: &[Piece]) -> bool {
    let mut twice = Vec::new();
    pieces.iter().enumerate().all(|(i, piece)| {
        let rest = pieces.get(i + 1..).unwrap_or_default();
        match (piece, rest) {
            (Piece::Literal(_), _) => true,
            (Piece::Name { narrowed: None, name }, _) if twice.contains(&name) => false,
            (Piece::Name { narrowed: None, name }, []) => {
                twice.push(name);
                true
            }
            (Piece::Name { narrowed: None, name }, [Piece::Literal(next), rest @ ..]) => {
                twice.push(name);
                match (name.as_str(), next.as_str(), rest) {
                    (KEY, ".", [Piece::Name { narrowed: None, name }]) => name == EXT,
                    (KEY | PATH, ..) => false,
                    (_, next, _) => next.starts_with('/'),
                }
            }
            _ => false,
        }
    })
}

/// A path, divided by an expression.
#[derive(Clone)]
enum Divided<'a> {
    /// The expression does not match.
    Not,
    /// A name that occurs twice would have two values.
    Unequal,
    /// A value for each name.
    Into(Vec<&'a str>),
}

impl<'a> Values<'a> {
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + '_ {
        self.names.iter().map(String::as_str).zip(self.values.iter().copied())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => f.write_str(&literal(text)),
            Self::Any { folders } => f.write_str(if *folders { "{**}" } else { "{*}" }),
            Self::Narrowed(expression) => write!(f, "{{*:{expression}}}"),
            Self::Name { name, narrowed: None } => write!(f, "{{{name}}}"),
            Self::Name { name, narrowed: Some(expression) } => write!(f, "{{{name}:{expression}}}"),
            Self::Constant { name, value } => write!(f, "{{{name}={value}}}"),
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

/// A text as a pattern that matches only this text.
#[must_use]
pub(crate) fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// Divides a text into pieces, each with the byte at which it begins.
fn pieces(text: &str) -> Result<Vec<(usize, Piece)>, (usize, PatternFault)> {
    let mut pieces = Vec::new();
    let (mut literal, mut begins) = (String::new(), 0);
    let mut rest = text;
    let at = |rest: &str| text.len() - rest.len();
    while let Some(c) = rest.chars().next() {
        let here = at(rest);
        if literal.is_empty() {
            begins = here;
        }
        let after = &rest[c.len_utf8()..];
        match c {
            '{' | '}' if after.starts_with(c) => {
                literal.push(c);
                rest = &after[1..];
            }
            '}' => return Err((here, PatternFault::Unopened)),
            '{' => {
                let Some(end) = closing(after) else { return Err((here, PatternFault::Unclosed)) };
                if !literal.is_empty() {
                    pieces.push((begins, Piece::Literal(std::mem::take(&mut literal))));
                }
                pieces.push((here, piece(&after[..end]).map_err(|fault| (here, fault))?));
                rest = &after[end + 1..];
            }
            c => {
                literal.push(c);
                rest = after;
            }
        }
    }
    if !literal.is_empty() {
        pieces.push((begins, Piece::Literal(literal)));
    }
    Ok(pieces)
}

/// The byte of the brace that closes the one before `text`: an expression may contain braces, too.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut escaped) = (0_usize, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' if depth == 0 => return Some(i),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Reads the text between two braces.
fn piece(text: &str) -> Result<Piece, PatternFault> {
    match text {
        "*" => return Ok(Piece::Any { folders: false }),
        "**" => return Ok(Piece::Any { folders: true }),
        _ => {}
    }
    let checked = |expression: &str| match Regex::new(expression) {
        Ok(_) => Ok(expression.to_owned()),
        Err(e) => {
            let reason = last_line(&e.to_string());
            Err(PatternFault::Expression(expression.to_owned(), reason))
        }
    };
    if let Some(expression) = text.strip_prefix("*:") {
        return checked(expression).map(Piece::Narrowed);
    }
    let end = text.find([':', '=']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(plain) {
        return Err(PatternFault::Name(name.to_owned()));
    }
    let name = name.to_owned();
    if let Some(value) = rest.strip_prefix('=') {
        if value.is_empty() {
            return Err(PatternFault::NoValue(name));
        }
        return Ok(Piece::Constant { name, value: value.to_owned() });
    }
    let narrowed = rest.strip_prefix(':').map(checked).transpose()?;
    Ok(Piece::Name { name, narrowed })
}

/// What the crate `regex` says below its drawing of the expression.
fn last_line(error: &str) -> String {
    let line = error.trim_end().lines().last().unwrap_or_default().trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pattern: &str, path: &str) -> Option<Vec<(String, String)>> {
        let pattern = Pattern::parse(pattern).unwrap();
        let values = pattern.read(path).unwrap()?;
        Some(values.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn check(pattern: &str, path: &str, expected: &[(&str, &str)]) {
        let expected: Vec<(String, String)> =
            expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(read(pattern, path), Some(expected), "{pattern} on {path}");
    }

    #[test]
    fn parts_of_a_path_are_found_by_name() {
        check("{key}.{ext}", "1.jpg", &[("key", "1"), ("ext", "jpg")]);
        check(
            "{split}/{label}/{key}.{ext}",
            "train/cat/deep/a.1.jpg",
            &[("split", "train"), ("label", "cat"), ("key", "deep/a.1"), ("ext", "jpg")],
        );
        check("{label}.{key:[0-9]+}.jpg", "cat.0.jpg", &[("label", "cat"), ("key", "0")]);
        check("images/{key}_sat.jpg", "images/7_sat.jpg", &[("key", "7")]);
        check(
            "{label:[a-z]+(?:_[a-z]+)*}_{key:\\d{1,3}}.jpg",
            "great_pyrenees_12.jpg",
            &[("label", "great_pyrenees"), ("key", "12")],
        );
        check(
            "{split=test}extra/{key}.{ext}",
            "extra/a.png",
            &[("split", "test"), ("key", "a"), ("ext", "png")],
        );
        check("{**}/{label:a|b}/{key:[^/]+}", "x/y/a/1.jpg", &[("label", "a"), ("key", "1.jpg")]);
        check("{*}-{key}.jpg", "-1.jpg", &[("key", "1")]);
        check("{*:\\d+}-{label:[a-z]+}.{**}", "17-dog.jpg", &[("label", "dog")]);
        check("a{{b}}/{key}", "a{b}/1", &[("key", "1")]);
    }

    #[test]
    fn a_pattern_matches_whole_paths_only() {
        for (pattern, path) in [
            ("{key}.jpg", "1.jpg.txt"),
            ("images/{key}.jpg", "more/images/1.jpg"),
            ("{label}/{key}.{ext}", "1.jpg"),
            ("{label}/{key}.{ext}", "cat/1"),
            ("{label:cat|dog}/{key}", "catfish/1"),
            ("{label:(?:cat)?}x/{key}", "x/1"),
            ("{key}.jpg", ".jpg"),
            ("{*}.jpg", "a/1.jpg"),
        ] {
            assert_eq!(read(pattern, path), None, "{pattern} on {path}");
        }
    }

    #[test]
    fn a_name_that_occurs_twice_has_one_value() {
        let pattern = "{key:[^/]+}/{key:[^/]+}_{band}.tif";
        check(pattern, "s2_a/s2_a_B02.tif", &[("key", "s2_a"), ("band", "B02")]);
        assert_eq!(read(pattern, "s2_a/s2_b_B02.tif"), None);
    }

    #[test]
    fn a_template_keeps_what_is_not_shared() {
        let pattern = Pattern::parse("{split}/{key}_{view}.{ext}").unwrap();
        let shared = ["key", "split"].map(str::to_owned);
        let template = pattern.template("train/a/b_left.png", &shared).unwrap();
        assert_eq!(template, "\0/\0_left.png");
        assert_eq!(pattern.fill(&template, &shared, &["7", "val"]), "val/7_left.png");
        assert_eq!(pattern.template("a.png", &shared), None);
    }

    #[test]
    fn two_readings_of_a_path_are_told() {
        let of = |pattern: &str, path: &str| {
            let pattern = Pattern::parse(pattern).unwrap();
            let TwoReadings { name, values } = pattern.read(path).unwrap_err();
            (name, values)
        };
        let expected = ["great".to_owned(), "great_pyrenees".to_owned()];
        assert_eq!(
            of("{label}_{key}.jpg", "great_pyrenees_12.jpg"),
            ("label".to_owned(), expected)
        );
        let expected = ["y".to_owned(), "cat".to_owned()];
        assert_eq!(of("{**}/{label}/{key}", "x/y/cat/1"), ("label".to_owned(), expected));
        // What does not matter may be divided in any way.
        check("{*}-{*}/{key}", "a-b-c/1", &[("key", "1")]);
    }

    #[test]
    fn faults_are_told_with_their_place() {
        let check = |text: &str, at: usize, part: &str| {
            let error = Pattern::parse(text).unwrap_err();
            assert_eq!(error.at, at, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        };
        check("a/{key", 3, "`{` has no `}`");
        check("ü/key}", 6, "`}` has no `{`");
        check("{Key}", 1, "`Key` is not a name");
        check("{}", 1, "`` is not a name");
        check("x{key:(}", 2, "`(` is not a regular expression: unclosed group");
        check("{key:a)(b}", 1, "unopened group");
        check("{label}{key}", 8, "`{key}` follows another part directly");
        check("{*}{key}", 4, "nothing says where it begins");
        check("{split=}/{key}", 1, "`{split=}` gives no value");
        check("{split}/{split=val}{key}", 9, "`split` has two values");
        check("/a/{key}", 1, "relative path");
        check("a/{key}/", 1, "relative path");
        check("", 1, "relative path");
        check(&"x".repeat(5000), 1, "longer than 4096 bytes");
    }

    #[test]
    fn patterns_of_whole_names_are_clear() {
        let clear = |text: &str| Pattern::parse(text).unwrap().is_clear;
        for text in
            ["{split}/{label}/{key}.{ext}", "a/{label}/{key}", "x{label}/{key}.{ext}", "{key}"]
        {
            assert!(clear(text), "{text}");
        }
        for text in
            ["{label}_{key}.{ext}", "{key}/{label}", "{*}/{key}", "{key}/{key}_x", "{a:b+}/{key}"]
        {
            assert!(!clear(text), "{text}");
        }
    }

    #[test]
    fn the_longest_literal_wins() {
        let weight = |text: &str| Pattern::parse(text).unwrap().weight();
        assert!(weight("{key}_mask.{ext}") > weight("{key}.{ext}"));
        assert!(weight("{split:test}/{key}.{ext}") > weight("{label}/{key}.{ext}"));
        assert!(weight("{split}/{label}/{key}") > weight("{label}/{key}"));
    }

    #[test]
    fn a_pattern_gives_back_its_text_and_its_folder() {
        for (text, folder) in [
            ("a/b{{c/{key}.{ext}", "a/b{c/"),
            ("{split=val}{key}", ""),
            ("a{key}", ""),
            ("a/b_{label:x{2}}/{key}", "a/"),
        ] {
            let pattern: Pattern = text.parse().unwrap();
            assert_eq!((pattern.to_string().as_str(), pattern.folder()), (text, folder));
        }
        let odd = "a{0}/b";
        let pattern = format!("{}/{{key}}", literal(odd));
        check(&pattern, "a{0}/b/1", &[("key", "1")]);
    }
}
