//! Parses the text of a condition.

use std::cmp::Ordering;

use super::FilterError;
use super::condition::{Node, Subject, Value};
use super::number::Number;
use crate::{Dtype, Field, FieldIdx, FieldKind, Split};

/// An error about an unknown class lists at most this many classes.
const MOST_NAMED: usize = 8;

/// Conditions in brackets may be nested at most this deep.
const MOST_DEPTH: u32 = 64;

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) rest: &'a str,
    pub(super) fields: &'a [Field],
    pub(super) classes: &'a [String],
    pub(super) depth: u32,
    /// Whether names that are not in `fields` may be fields, too.
    pub(super) is_sketch: bool,
}

/// The comparison of a subject with values.
#[derive(Clone, Copy, PartialEq)]
enum Operator {
    Is,
    IsNot,
    Like,
    NotLike,
    Ordered(&'static [Ordering]),
}

/// All operators, the longer ones first.
const OPERATORS: [(&str, Operator); 9] = [
    ("==", Operator::Is),
    ("!=", Operator::IsNot),
    ("!~", Operator::NotLike),
    ("<=", Operator::Ordered(&[Ordering::Less, Ordering::Equal])),
    (">=", Operator::Ordered(&[Ordering::Greater, Ordering::Equal])),
    ("=", Operator::Is),
    ("~", Operator::Like),
    ("<", Operator::Ordered(&[Ordering::Less])),
    (">", Operator::Ordered(&[Ordering::Greater])),
];

impl<'a> Parser<'a> {
    pub(super) fn any(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.all()?];
        while self.word("or") {
            nodes.push(self.all()?);
        }
        Ok(one_or(nodes, Node::Any))
    }

    fn all(&mut self) -> Result<Node, FilterError> {
        let mut nodes = vec![self.one()?];
        while self.word("and") {
            nodes.push(self.one()?);
        }
        Ok(one_or(nodes, Node::All))
    }

    fn one(&mut self) -> Result<Node, FilterError> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > MOST_DEPTH {
            return Err(self.wrong("the condition is nested deeper than 64 levels"));
        }
        let node = if self.word("not") {
            Node::Not(Box::new(self.one()?))
        } else if self.eat("(") {
            let node = self.any()?;
            if !self.eat(")") {
                return Err(self.wrong("expected `)`"));
            }
            node
        } else {
            self.comparison()?
        };
        self.depth = self.depth.saturating_sub(1);
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, FilterError> {
        self.skip_space();
        let start = self.rest;
        let name = self.bare();
        let subject = match self.subject(name) {
            Some(subject) => subject,
            None if self.is_sketch && !name.is_empty() => return self.sketched(),
            None => {
                self.rest = start;
                return Err(match self.is_sketch {
                    true => self.wrong("expected a name, such as `key`, `split` or `class`"),
                    false => self.wrong(&format!("expected one of {}", self.known())),
                });
            }
        };
        let operator = self.operator()?;
        let is_number = matches!(subject, Subject::Label | Subject::Bytes | Subject::Number(..));
        let node = match operator {
            Operator::Is | Operator::IsNot => {
                let mut values = vec![self.value(subject, is_number)?];
                while self.eat(",") {
                    values.push(self.value(subject, is_number)?);
                }
                Node::OneOf(subject, values)
            }
            Operator::Like | Operator::NotLike if !is_number => {
                Node::Like(subject, self.text()?.chars().collect())
            }
            Operator::Ordered(wanted) if is_number => {
                let Value::Number(number) = self.value(subject, true)? else {
                    return Err(self.wrong("expected a number"));
                };
                Node::Compared(subject, wanted, number)
            }
            _ if is_number => {
                return Err(self.wrong(&format!(
                    "`{name}` is a number: compare it with `=`, `!=`, `<`, `<=`, `>` or `>=`"
                )));
            }
            _ => {
                return Err(self
                    .wrong(&format!("`{name}` is text: compare it with `=`, `!=`, `~` or `!~`")));
            }
        };
        Ok(match operator {
            Operator::IsNot | Operator::NotLike => Node::Not(Box::new(node)),
            _ => node,
        })
    }

    /// Parses the rest of a comparison whose subject is an unknown name.
    fn sketched(&mut self) -> Result<Node, FilterError> {
        let operator = self.operator()?;
        self.text()?;
        while matches!(operator, Operator::Is | Operator::IsNot) && self.eat(",") {
            self.text()?;
        }
        Ok(Node::All(Vec::new()))
    }

    fn operator(&mut self) -> Result<Operator, FilterError> {
        self.skip_space();
        let found = OPERATORS.iter().find(|(sign, _)| self.rest.starts_with(sign));
        let Some((sign, operator)) = found else {
            return Err(self.wrong("expected `=`, `!=`, `<`, `<=`, `>`, `>=`, `~` or `!~`"));
        };
        self.eat(sign);
        Ok(*operator)
    }

    fn subject(&self, name: &str) -> Option<Subject> {
        let has_label = self.fields.iter().any(Field::is_label);
        match name {
            "key" => return Some(Subject::Key),
            "split" => return Some(Subject::Split),
            "bytes" => return Some(Subject::Bytes),
            "label" if has_label => return Some(Subject::Label),
            "class" if has_label && !self.classes.is_empty() => return Some(Subject::Class),
            _ => {}
        }
        let at = self.fields.iter().position(|field| field.name.as_str() == name)?;
        match &self.fields.get(at)?.kind {
            FieldKind::Fixed { dtype: Dtype::F16 | Dtype::Bf16, .. } => None,
            FieldKind::Fixed { dtype, shape } if shape.is_empty() => {
                Some(Subject::Number(FieldIdx(at), *dtype))
            }
            FieldKind::Bytes { media_types } if is_text(media_types) => {
                Some(Subject::Text(FieldIdx(at)))
            }
            _ => None,
        }
    }

    /// Lists the names that a condition can begin with.
    fn known(&self) -> String {
        let own = ["key", "split", "bytes", "label", "class"].map(str::to_owned);
        let of_fields = self.fields.iter().map(|field| field.name.to_string());
        let mut names: Vec<String> = Vec::new();
        for name in own.into_iter().chain(of_fields) {
            if self.subject(&name).is_some() && !names.contains(&name) {
                names.push(name);
            }
        }
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    }

    fn value(&mut self, subject: Subject, is_number: bool) -> Result<Value, FilterError> {
        self.skip_space();
        let before = self.rest;
        let text = self.text()?;
        let fault = if is_number {
            let dtype = match subject {
                Subject::Number(_, dtype) => Some(dtype),
                _ => None,
            };
            match Number::parse(&text, dtype) {
                Some(number) => return Ok(Value::Number(number)),
                None => "expected a number".to_owned(),
            }
        } else if subject == Subject::Class && !self.classes.contains(&text) {
            format!("`{}` is not a class of the bundle, which has {}", text.escape_debug(), {
                let first = self.classes.iter().take(MOST_NAMED);
                let first: Vec<String> =
                    first.map(|class| format!("`{}`", class.escape_debug())).collect();
                let more = self.classes.len().saturating_sub(MOST_NAMED);
                first.join(", ")
                    + &if more > 0 { format!(" and {more} more") } else { String::new() }
            })
        } else if subject == Subject::Split && Split::parse(&text).is_none() {
            "expected `train`, `val` or `test`".to_owned()
        } else {
            return Ok(Value::Text(text));
        };
        self.rest = before;
        Err(self.wrong(&fault))
    }

    /// Parses a word, or a text in quotes.
    fn text(&mut self) -> Result<String, FilterError> {
        self.skip_space();
        for quote in ['"', '\''] {
            let Some(inner) = self.rest.strip_prefix(quote) else { continue };
            let Some((text, rest)) = inner.split_once(quote) else {
                return Err(self.wrong(&format!("the text has no closing {quote}")));
            };
            self.rest = rest;
            return Ok(text.to_owned());
        }
        match self.bare() {
            "" => Err(self.wrong("expected a value")),
            word => Ok(word.to_owned()),
        }
    }

    fn bare(&mut self) -> &'a str {
        let ends = |c: char| c.is_whitespace() || "(),=!<>~\"'".contains(c);
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Takes `word` if it comes next as a whole word.
    fn word(&mut self, word: &str) -> bool {
        self.skip_space();
        let before = self.rest;
        if self.bare() == word {
            return true;
        }
        self.rest = before;
        false
    }

    fn eat(&mut self, sign: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    pub(super) fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest.chars().next()
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    pub(super) fn wrong(&self, reason: &str) -> FilterError {
        let before = self.text.len().saturating_sub(self.rest.len());
        let before = self.text.get(..before).unwrap_or_default();
        FilterError {
            text: self.text.escape_debug().to_string(),
            at: before.chars().count().saturating_add(1),
            reason: reason.to_owned(),
        }
    }
}

/// Joins conditions. Those that the index can decide come first, so that values of fields may not
/// be needed.
fn one_or(mut nodes: Vec<Node>, joined: fn(Vec<Node>) -> Node) -> Node {
    if nodes.len() == 1 {
        return nodes.swap_remove(0);
    }
    nodes.sort_by_cached_key(Node::needs_values);
    joined(nodes)
}

fn is_text(media_types: &[String]) -> bool {
    matches!(media_types, [only] if only.starts_with("text/"))
}
