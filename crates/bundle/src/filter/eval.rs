//! Evaluates a condition for a sample.

use std::collections::BTreeSet;

use super::Facts;
use super::condition::{Node, Subject, Value};
use super::number::{Number, number};
use crate::{Error, FieldIdx};

impl Node {
    pub(super) fn add_fields(&self, fields: &mut BTreeSet<FieldIdx>) {
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

    pub(super) fn needs_values(&self) -> bool {
        let mut fields = BTreeSet::new();
        self.add_fields(&mut fields);
        !fields.is_empty()
    }

    pub(super) fn is_true(&self, facts: &mut Facts<'_>, classes: &[String]) -> Result<bool, Error> {
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
    /// Returns the subject's number; `None` for texts.
    pub(super) fn number(self, facts: &mut Facts<'_>) -> Result<Option<Number>, Error> {
        Ok(match self {
            Self::Label => facts.label.map(|label| Number::Int(label.into())),
            Self::Bytes => Some(Number::Int(i64::try_from(facts.bytes).unwrap_or(i64::MAX))),
            Self::Number(field, dtype) => number(dtype, &(facts.value)(field)?),
            Self::Key | Self::Split | Self::Class | Self::Text(_) => None,
        })
    }

    /// Shows the subject's text to `see`, if it has one.
    pub(super) fn text(
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

/// Returns whether `text` fits a pattern in which `*` is any text and `?` one character.
pub(super) fn is_like(pattern: &[char], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // These are the last `*`, and the text's position at that time: the search continues there
    // after a mismatch.
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
