//! Selects samples by a condition that people write.
//!
//! ```text
//! class = cat,dog and not key ~ '*/draft/*' and (bytes > 10000 or split != train)
//! ```
//!
//! Names are `key`, `split`, `class`, `label`, `bytes` (of the image as it is stored), and the
//! fields that hold one number or a text. `=` and `!=` compare with one value or with several,
//! `<`, `<=`, `>` and `>=` with a number, `~` and `!~` with a pattern in which `*` is any text
//! and `?` one character.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::{Dtype, Error, Field, FieldIdx, FieldKind, Split};

/// A condition that was checked against the fields and classes of a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    root: Node,
}

/// Why a text is not a condition on the samples of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a condition: at character {at}, {reason}")]
pub struct FilterError {
    /// The text.
    pub text: String,
    /// The character, counted from 1.
    pub at: usize,
    /// What was expected, and what is there.
    pub reason: String,
}

/// What a [`Filter`] needs to know about a sample.
pub struct Facts<'a> {
    /// The sample's key.
    pub key: &'a str,
    /// The sample's split.
    pub split: Split,
    /// Its class; -1 where it is unknown, `None` in a bundle without labels.
    pub label: Option<i32>,
    /// The bytes of its image, or of its first field where it has none.
    pub bytes: u64,
    /// Reads the stored bytes of a field.
    pub value: &'a mut dyn FnMut(FieldIdx) -> Result<Vec<u8>, Error>,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    /// The subject is one of these.
    OneOf(Subject, Vec<Value>),
    /// The subject is that many, less or more.
    Compared(Subject, &'static [Ordering], Number),
    Like(Subject, Vec<char>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Subject {
    Key,
    Split,
    Label,
    /// Compared as a label: classes were looked up when the condition was read.
    Class,
    Bytes,
    Number(FieldIdx, Dtype),
    Text(FieldIdx),
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Number(Number),
    Text(String),
}

/// A number as it is written or stored: no integer is rounded to compare it.
#[derive(Debug, Clone, Copy)]
enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    /// Reads a number that is compared with those of type `dtype`: 0.1 is the one that an `f32`
    /// stores for it, and a number that no integer holds is a float.
    fn parse(text: &str, dtype: Option<Dtype>) -> Option<Self> {
        match dtype {
            Some(Dtype::F32) => text.parse::<f32>().map(|number| Self::Float(number.into())).ok(),
            Some(Dtype::F64) => text.parse().map(Self::Float).ok(),
            _ => {
                let int = text.parse().map(Self::Int);
                int.or_else(|_| text.parse().map(Self::Float)).ok()
            }
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (*self, *other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(&b),
            (Self::Int(a), Self::Float(b)) => compared(a, b),
            (Self::Float(a), Self::Int(b)) => compared(b, a).map(Ordering::reverse),
        }
    }
}

/// An integer beside a float, as exact numbers; `None` for NaN.
#[expect(clippy::cast_possible_truncation, reason = "the float is between the limits of i64")]
fn compared(int: i64, float: f64) -> Option<Ordering> {
    // -2^63 and 2^63, between which a whole float is an i64.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if float.is_nan() {
        None
    } else if float >= LIMIT {
        Some(Ordering::Less)
    } else if float < -LIMIT {
        Some(Ordering::Greater)
    } else {
        let rest = 0.0_f64.partial_cmp(&float.fract());
        Some(int.cmp(&(float.trunc() as i64)).then(rest?))
    }
}

impl Filter {
    /// Reads a condition on samples with these fields and classes.
    ///
    /// # Errors
    /// [`FilterError`] says where the text goes wrong, or names what the bundle does not have.
    pub fn parse(text: &str, fields: &[Field], classes: &[String]) -> Result<Self, FilterError> {
        Self::read(Parser { text, rest: text, fields, classes, depth: 0, is_sketch: false })
    }

    /// Checks what can be checked before the bundle is known: its fields and classes may be any.
    ///
    /// # Errors
    /// Those of [`Filter::parse`] that it gives for every bundle.
    pub fn check(text: &str) -> Result<(), FilterError> {
        let (fields, classes) = (&[], &[]);
        Self::read(Parser { text, rest: text, fields, classes, depth: 0, is_sketch: true })
            .map(drop)
    }

    fn read(mut parser: Parser<'_>) -> Result<Self, FilterError> {
        let root = parser.any()?;
        match parser.peek() {
            None => Ok(Self { root }),
            Some(_) => Err(parser.wrong("expected `and`, `or` or the end of the condition")),
        }
    }

    /// The fields whose stored values the condition may need, each once, in their order.
    #[must_use]
    pub fn fields(&self) -> Vec<FieldIdx> {
        let mut fields = BTreeSet::new();
        self.root.add_fields(&mut fields);
        fields.into_iter().collect()
    }

    /// Returns whether the condition selects a sample.
    ///
    /// # Errors
    /// Those of [`Facts::value`].
    pub fn takes(&self, facts: &mut Facts<'_>, classes: &[String]) -> Result<bool, Error> {
        self.root.is_true(facts, classes)
    }
}

impl Node {
    fn add_fields(&self, fields: &mut BTreeSet<FieldIdx>) {
        match self {
            Self::All(nodes) | Self::Any(nodes) => {
                nodes.iter().for_each(|node| node.add_fields(fields));
            }
            Self::Not(node) => node.add_fields(fields),
            Self::OneOf(subject, _) | Self::Compared(subject, ..) | Self::Like(subject, _) => {
                if let Subject::Number(field, _) | Subject::Text(field) = subject {
                    fields.insert(*field);
                }
            }
        }
    }

    fn needs_values(&self) -> bool {
        let mut fields = BTreeSet::new();
        self.add_fields(&mut fields);
        !fields.is_empty()
    }

    fn is_true(&self, facts: &mut Facts<'_>, classes: &[String]) -> Result<bool, Error> {
        Ok(match self {
            Self::All(nodes) => {
                for node in nodes {
                    if !node.is_true(facts, classes)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Any(nodes) => {
                for node in nodes {
                    if node.is_true(facts, classes)? {
                        return Ok(true);
                    }
                }
                false
            }
            Self::Not(node) => !node.is_true(facts, classes)?,
            Self::OneOf(subject, values) => {
                let mut found = false;
                match (subject.number(facts)?, values.as_slice()) {
                    (Some(number), values) => {
                        found |= values.contains(&Value::Number(number));
                    }
                    (None, values) => subject.text(facts, classes, &mut |text| {
                        let is = |value: &Value| matches!(value, Value::Text(t) if t == text);
                        found = values.iter().any(is);
                    })?,
                }
                found
            }
            Self::Compared(subject, wanted, value) => {
                let found = subject.number(facts)?.and_then(|number| number.partial_cmp(value));
                found.is_some_and(|found| wanted.contains(&found))
            }
            Self::Like(subject, pattern) => {
                let mut found = false;
                subject.text(facts, classes, &mut |text| found = is_like(pattern, text))?;
                found
            }
        })
    }
}

impl Subject {
    /// Its number; `None` for texts.
    fn number(self, facts: &mut Facts<'_>) -> Result<Option<Number>, Error> {
        Ok(match self {
            Self::Label => facts.label.map(|label| Number::Int(label.into())),
            Self::Bytes => Some(Number::Int(i64::try_from(facts.bytes).unwrap_or(i64::MAX))),
            Self::Number(field, dtype) => number(dtype, &(facts.value)(field)?),
            Self::Key | Self::Split | Self::Class | Self::Text(_) => None,
        })
    }

    /// Shows its text to `see`, where it has one.
    fn text(
        self,
        facts: &mut Facts<'_>,
        classes: &[String],
        see: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        match self {
            Self::Key => see(facts.key),
            Self::Split => see(facts.split.name()),
            Self::Class => {
                let label = facts.label.and_then(|label| usize::try_from(label).ok());
                if let Some(class) = label.and_then(|label| classes.get(label)) {
                    see(class);
                }
            }
            Self::Text(field) => {
                let bytes = (facts.value)(field)?;
                if let Ok(text) = std::str::from_utf8(&bytes) {
                    see(text);
                }
            }
            Self::Label | Self::Bytes | Self::Number(..) => {}
        }
        Ok(())
    }
}

/// A scalar as stored.
fn number(dtype: Dtype, bytes: &[u8]) -> Option<Number> {
    macro_rules! le {
        ($t:ty, $kind:ident) => {
            bytes.first_chunk().map(|b| Number::$kind(<$t>::from_le_bytes(*b).into()))
        };
    }
    match dtype {
        Dtype::U8 => le!(u8, Int),
        Dtype::I8 => le!(i8, Int),
        Dtype::U16 => le!(u16, Int),
        Dtype::I16 => le!(i16, Int),
        Dtype::U32 => le!(u32, Int),
        Dtype::I32 => le!(i32, Int),
        Dtype::I64 => le!(i64, Int),
        Dtype::F32 => le!(f32, Float),
        Dtype::F64 => le!(f64, Float),
        Dtype::F16 | Dtype::Bf16 => None,
    }
}

/// Whether `text` fits a pattern in which `*` is any text and `?` one character.
fn is_like(pattern: &[char], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // The last `*`, and the text's position at that time: where to try again after a mismatch.
    let (mut p, mut t) = (0_usize, 0_usize);
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = text.get(t) {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p = p.saturating_add(1);
                continue;
            }
            Some(wanted) if *wanted == '?' || wanted == c => {
                (p, t) = (p.saturating_add(1), t.saturating_add(1));
                continue;
            }
            _ => {}
        }
        let Some((at, from)) = star else { return false };
        let from = from.saturating_add(1);
        star = Some((at, from));
        (p, t) = (at.saturating_add(1), from);
    }
    pattern.get(p..).unwrap_or_default().iter().all(|c| *c == '*')
}

/// Classes that are named where one is unknown.
const MOST_NAMED: usize = 8;
/// Conditions in brackets within one another, at most.
const MOST_DEPTH: u32 = 64;

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    fields: &'a [Field],
    classes: &'a [String],
    depth: u32,
    /// Whether other names than those of `fields` may be fields too.
    is_sketch: bool,
}

/// How a subject and its values are compared.
#[derive(Clone, Copy, PartialEq)]
enum Operator {
    Is,
    IsNot,
    Like,
    NotLike,
    Ordered(&'static [Ordering]),
}

/// The longer ones first.
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
    fn any(&mut self) -> Result<Node, FilterError> {
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

    /// What is behind a name of which nothing is known.
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

    /// The names that a condition may begin with.
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

    /// A word, or a text in quotes.
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

    /// Takes `word` where it comes next as a whole.
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

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest.chars().next()
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn wrong(&self, reason: &str) -> FilterError {
        let before = self.text.len().saturating_sub(self.rest.len());
        let before = self.text.get(..before).unwrap_or_default();
        FilterError {
            text: self.text.escape_debug().to_string(),
            at: before.chars().count().saturating_add(1),
            reason: reason.to_owned(),
        }
    }
}

/// What the index decides comes first: it may make the values of fields needless.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FieldName;

    fn fields() -> Vec<Field> {
        let name = |n: &str| FieldName::parse(n).unwrap();
        vec![
            Field::bytes(FieldName::image(), vec!["image/png".into()]),
            Field::label(),
            Field::fixed(name("age"), Dtype::F32, Vec::new()),
            Field::bytes(name("site"), vec!["text/plain".into()]),
            Field::fixed(name("box"), Dtype::F32, vec![4]),
            Field::fixed(name("id"), Dtype::I64, Vec::new()),
            Field::fixed(name("share"), Dtype::F32, Vec::new()),
        ]
    }

    fn classes() -> Vec<String> {
        ["cat", "great dane"].map(str::to_owned).to_vec()
    }

    /// Of a cat of 100 bytes, 2.5 years old, from `north-3`.
    fn takes(text: &str) -> bool {
        let filter = Filter::parse(text, &fields(), &classes()).unwrap();
        let mut value = |field: FieldIdx| match field.0 {
            2 => Ok(2.5_f32.to_le_bytes().to_vec()),
            // 2^53 + 1, which no f64 is.
            6 => Ok(0.1_f32.to_le_bytes().to_vec()),
            5 => Ok(9_007_199_254_740_993_i64.to_le_bytes().to_vec()),
            _ => Ok(b"north-3".to_vec()),
        };
        let mut facts = Facts {
            key: "train/cat/a-1.png",
            split: Split::Train,
            label: Some(0),
            bytes: 100,
            value: &mut value,
        };
        filter.takes(&mut facts, &classes()).unwrap()
    }

    #[test]
    fn conditions_say_what_they_look_like() {
        for text in [
            "class = cat",
            "class==cat",
            "class = 'great dane', cat",
            "class != \"great dane\"",
            "label = 0 and split = train",
            "label = 1 or split = train and bytes >= 100",
            "not (class = cat and bytes > 100)",
            "key ~ */cat/*.png",
            "key !~ '*.jpg'",
            "key ~ train/???/a-?.png",
            "age > 2 and age < 3 and age != 3",
            "site ~ north*",
            "site = north-3, south-1",
            "not not label=0",
            "id = 9007199254740993",
            "share = 0.1 and share <= 0.1 and share > 0.09",
            "id > 9007199254740992 and id < 9007199254740994.0 and id != 9.007199254740992e15",
            "age > 2 and age < 2.75 and age != 2 and bytes > 99.5 and bytes < 1e300",
            "id > -1e300 and id > -0.5 and not id = nan and not id < nan",
        ] {
            assert!(takes(text), "{text}");
        }
        for text in [
            "class = 'great dane'",
            "label = 1 and split = train or bytes < 100",
            "(label = 1 or split = train) and bytes < 100",
            "key ~ *.jpg",
            "age <= 2.4",
            "site = north",
            "id = 9007199254740992",
            "id <= 9007199254740992.0",
        ] {
            assert!(!takes(text), "{text}");
        }
    }

    #[test]
    fn values_are_asked_for_only_where_the_index_does_not_decide() {
        let filter =
            Filter::parse("site = x and (age > 2 or id = 1) and label = 1", &fields(), &classes());
        let filter = filter.unwrap();
        assert_eq!(filter.fields(), [2, 3, 5].map(FieldIdx));
        let mut value = |field: FieldIdx| -> Result<Vec<u8>, Error> { panic!("{field:?}") };
        let (key, split, label) = ("a.png", Split::Train, Some(0));
        let mut facts = Facts { key, split, label, bytes: 1, value: &mut value };
        assert!(!filter.takes(&mut facts, &classes()).unwrap());
    }

    fn refuses(checked: Result<(), FilterError>, at: usize, word: &str) {
        let error = checked.unwrap_err();
        assert_eq!(error.at, at, "{error}");
        assert!(error.reason.contains(word), "{error}");
    }

    #[test]
    fn mistakes_are_named_where_they_are() {
        let check = |text: &str, at: usize, word: &str| {
            refuses(Filter::parse(text, &fields(), &classes()).map(drop), at, word);
        };
        check("", 1, "`key`, `split`, `bytes`, `label`, `class`, `age`, `site`");
        check("box = 1", 1, "expected one of");
        check("class", 6, "expected `=`");
        check("class = dog", 9, "`dog` is not a class");
        check("class = cat dog", 13, "expected `and`");
        check("class < cat", 8, "is text");
        check("label ~ 1", 8, "is a number");
        check("label = one", 9, "expected a number");
        check("split = dev", 9, "`train`, `val` or `test`");
        check("(label = 0", 11, "expected `)`");
        check("key = 'a", 7, "no closing");
        check("key =", 6, "expected a value");
        check(&"(".repeat(1000), 65, "nested deeper");
        let error = Filter::parse("class = cat", &fields()[..1], &[]).unwrap_err();
        assert!(error.reason.contains("expected one of `key`, `split`, `bytes`"), "{error}");
    }

    #[test]
    fn a_condition_is_checked_as_far_as_no_bundle_is_needed() {
        for text in
            ["class = dog and depth > 9", "site ~ 'north*' or not (box = 1, 2)", "label = 3"]
        {
            Filter::check(text).unwrap();
        }
        let check = |text: &str, at: usize, word: &str| refuses(Filter::check(text), at, word);
        check("", 1, "expected a name");
        check("depth", 6, "expected `=`");
        check("depth >", 8, "expected a value");
        check("class = cat dog", 13, "expected `and`");
        check("split = dev", 9, "`train`, `val` or `test`");
        check("bytes ~ 1", 8, "is a number");
        check("(site = a", 10, "expected `)`");
    }

    #[test]
    fn patterns_fit_as_a_plain_search_says() {
        fn plain(pattern: &[char], text: &[char]) -> bool {
            match pattern.split_first() {
                None => text.is_empty(),
                Some(('*', rest)) => (0..=text.len()).any(|n| plain(rest, &text[n..])),
                Some((c, rest)) => {
                    text.first().is_some_and(|t| *c == '?' || c == t) && plain(rest, &text[1..])
                }
            }
        }
        let words = |letters: &[char], n: usize| {
            let mut words = vec![Vec::new()];
            for _ in 0..n {
                let longer = words.iter().flat_map(|w: &Vec<char>| {
                    letters.iter().map(move |c| [w.as_slice(), &[*c]].concat())
                });
                words.extend(longer.collect::<Vec<_>>());
                words.sort();
                words.dedup();
            }
            words
        };
        for pattern in words(&['a', '*', '?'], 4) {
            for text in words(&['a', 'b'], 4) {
                let joined: String = text.iter().collect();
                assert_eq!(
                    is_like(&pattern, &joined),
                    plain(&pattern, &text),
                    "{pattern:?} {joined}"
                );
            }
        }
    }
}
