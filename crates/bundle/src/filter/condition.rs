//! A parsed condition: a tree of comparisons.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::number::Number;
use super::parse::Parser;
use crate::{Dtype, Error, Field, FieldIdx, Split};

/// A condition that was checked against the fields and classes of a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    root: Node,
}

/// Why a text is not a condition on the samples of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a condition: at character {at}, {reason}")]
pub struct FilterError {
    /// The condition that was refused.
    pub text: String,
    /// Position of the fault, as a character number counted from 1.
    pub at: usize,
    /// What was expected, and what was found.
    pub reason: String,
}

/// The facts about a sample that a [`Filter`] needs.
pub struct Facts<'a> {
    /// The sample's key.
    pub key: &'a str,
    /// The sample's split.
    pub split: Split,
    /// The sample's class; -1 if it is unknown, `None` in a bundle without labels.
    pub label: Option<i32>,
    /// Bytes of the sample's image, or of its first field if it has no image.
    pub bytes: u64,
    /// Reads the stored bytes of a field.
    pub value: &'a mut dyn FnMut(FieldIdx) -> Result<Vec<u8>, Error>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    /// The subject equals one of these values.
    OneOf(Subject, Vec<Value>),
    /// The subject compares with the number in one of these ways.
    Compared(Subject, &'static [Ordering], Number),
    Like(Subject, Vec<char>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Subject {
    Key,
    Split,
    Label,
    /// The class, which is compared as a label: classes were looked up when the condition was read.
    Class,
    Bytes,
    Number(FieldIdx, Dtype),
    Text(FieldIdx),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(Number),
    Text(String),
}

impl Filter {
    /// Reads a condition on samples with these fields and classes.
    ///
    /// # Errors
    /// [`FilterError`] says where the text goes wrong, or names what the bundle does not have.
    pub fn parse(text: &str, fields: &[Field], classes: &[String]) -> Result<Self, FilterError> {
        Self::read(Parser { text, rest: text, fields, classes, depth: 0, is_sketch: false })
    }

    /// Checks a condition as far as possible before the bundle is known: any fields and classes are
    /// accepted.
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

    /// Returns the fields whose stored values the condition may need, each once, in their order.
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

#[cfg(test)]
mod tests {
    use super::super::eval::is_like;
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

    /// Returns whether a condition selects a cat of 100 bytes, 2.5 years old, from `north-3`.
    fn takes(text: &str) -> bool {
        let filter = Filter::parse(text, &fields(), &classes()).unwrap();
        let mut value = |field: FieldIdx| match field.0 {
            2 => Ok(2.5_f32.to_le_bytes().to_vec()),
            // The value is 2^53 + 1, which no f64 can hold.
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
