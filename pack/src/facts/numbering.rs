//! The numbers of the classes.

use std::collections::{BTreeSet, HashMap};

use crate::facts::{RunError, composed, setting};

/// Most class names; columns with more different values are not classes.
pub(crate) const MOST_CLASSES: usize = 1 << 20;

/// The classes of paths and of tables together: sorted, and all numbers up to the largest where all
/// are numbers.
pub(crate) fn merged(mut classes: Vec<String>) -> Vec<String> {
    classes.sort();
    classes.dedup();
    numbers_up_to(&classes).unwrap_or(classes)
}

/// The names of all numbers up to the largest, if the classes are numbers.
fn numbers_up_to(classes: &[impl AsRef<str>]) -> Option<Vec<String>> {
    let number = |class: &str| class.parse().ok().filter(|n: &usize| n.to_string() == class);
    let numbers: Option<Vec<usize>> = classes.iter().map(|class| number(class.as_ref())).collect();
    let most = numbers?.into_iter().max()?;
    // Few gaps are classes that no sample has; many mean that the numbers are names.
    (most < MOST_CLASSES && most < 16 + classes.len().saturating_mul(2)).then_some(())?;
    Some((0..=most).map(|n| n.to_string()).collect())
}

/// The words in all labels of a column.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) words: BTreeSet<String>,
    /// The highest, where all are integers; -1 stands for no class.
    pub(crate) most: Option<i64>,
}

/// Classes, and their numbers.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    /// Class names in the order of their numbers; none where integers are numbers by themselves.
    pub(crate) classes: Vec<String>,
    /// The class number of each word.
    pub(crate) numbers: ClassNumbers,
}

/// The number of each class, whose name may be in either form of Unicode.
#[derive(Debug, Default)]
pub(crate) struct ClassNumbers(HashMap<String, i64>);

impl ClassNumbers {
    pub(crate) fn new(classes: &[String]) -> Self {
        let mut numbers = HashMap::new();
        for (class, number) in classes.iter().zip(0..) {
            numbers.entry(composed(class).into_owned()).or_insert(number);
        }
        // A list may have both forms, each as a class of its own.
        numbers.extend(classes.iter().cloned().zip(0..));
        Self(numbers)
    }

    pub(crate) fn get(&self, class: &str) -> Option<i64> {
        self.0.get(class).or_else(|| self.0.get(&*composed(class))).copied()
    }
}

impl Numbering {
    /// Numbers the words of `column` of the table `path`; `given` are the classes that the caller
    /// lists, and `lone` says that a sample has one class.
    pub(crate) fn new(
        words: Words,
        given: Option<Vec<String>>,
        lone: bool,
        column: &str,
        path: &str,
    ) -> Result<Self, RunError> {
        let Words { words, most } = words;
        let too_many = || {
            let text = format!("column `{column}` has more than {MOST_CLASSES} classes");
            setting(&["label_column"], text)
        };
        let words: BTreeSet<String> =
            words.into_iter().map(|word| composed(&word).into_owned()).collect();
        let mut places = None;
        let classes = match (given, most) {
            // Numbers are names where the list has them all, else places in the list.
            (Some(given), most) => {
                let known = ClassNumbers::new(&given);
                let names = words.iter().all(|word| word == "-1" || known.get(word).is_some());
                if let Some(most) = most.filter(|_| !names) {
                    if most >= given.len() as i64 {
                        let (path, class) = (path.to_owned(), most.to_string());
                        return Err(RunError::unknown_class(path, class, given.len()));
                    }
                    places = Some((0..given.len()).map(|n| n.to_string()).collect::<Vec<_>>());
                }
                given
            }
            // A class's name is its number, so that none moves.
            (None, Some(most)) if most < MOST_CLASSES as i64 => {
                (0..=most).map(|n| n.to_string()).collect()
            }
            (None, Some(_)) if lone => Vec::new(),
            (None, Some(_)) => return Err(too_many()),
            (None, None) if words.len() > MOST_CLASSES => return Err(too_many()),
            (None, None) => words.into_iter().collect(),
        };
        let numbers = ClassNumbers::new(places.as_ref().unwrap_or(&classes));
        Ok(Self { classes, numbers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_an_accent_are_one_class() {
        let (one, two) = ("caf\u{e9}".to_owned(), "cafe\u{301}".to_owned());
        let number = |words: &[&String], given: Option<&String>| {
            let words = Words { words: words.iter().copied().cloned().collect(), most: None };
            let given = given.map(|class| vec![class.clone()]);
            Numbering::new(words, given, true, "kind", "t.csv").unwrap()
        };
        assert_eq!(number(&[&one, &two], None).classes, std::slice::from_ref(&one));
        for given in [&one, &two] {
            let found = number(&[&one, &two], Some(given));
            assert_eq!((found.numbers.get(&one), found.numbers.get(&two)), (Some(0), Some(0)));
        }
        let both = ClassNumbers::new(&[two.clone(), one.clone()]);
        assert_eq!((both.get(&one), both.get(&two)), (Some(1), Some(0)));
    }
}
