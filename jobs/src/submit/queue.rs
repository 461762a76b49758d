//! The `queue` statement and the jobs that it creates.

use std::collections::BTreeMap;

use crate::disk::{Disk, below};

/// Most items that are looked at.
pub(crate) const MAX_ITEMS: usize = 2000;

/// Where the items of a `queue` come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// There are no items: one job, or `count`.
    None,
    /// Items in the file itself, `in (a b)` or `from (…)`, each with its line.
    Here(Vec<(usize, String)>),
    /// Items in a file: `from FILE`.
    File(String),
    /// `from CMD |`, `matching …`: known when it is submitted.
    Unknown,
}

/// `queue [count] [vars from|in|matching source]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) line: usize,
    /// Jobs for each item, as the file says; empty for 1.
    pub(crate) count: String,
    pub(crate) vars: Vec<String>,
    pub(crate) source: Source,
    /// Whether only some of the items are taken: `[1:3]`.
    pub(crate) sliced: bool,
    /// Items are split at white space and commas (`in`), not one a line (`from`).
    words: bool,
    open: bool,
    /// A line on which the closing bracket is not alone.
    late_bracket: Option<usize>,
}

impl Queue {
    /// Parses the text after `queue`.
    pub(super) fn parse(line: usize, text: &str) -> Self {
        let mut queue = Self {
            line,
            count: String::new(),
            vars: Vec::new(),
            source: Source::None,
            sliced: false,
            words: false,
            open: false,
            late_bracket: None,
        };
        let text = text.trim();
        let keyword = |word: &str| {
            ["from", "in", "matching"]
                .iter()
                .find(|&&keyword| word.eq_ignore_ascii_case(keyword))
                .copied()
        };
        let mut at = 0;
        let mut head = Vec::new();
        let mut found = None;
        for word in text.split_inclusive(char::is_whitespace) {
            let bare = word.split('(').next().unwrap_or_default().trim();
            let keyword = keyword(bare);
            if let Some(keyword) = keyword {
                found = Some((keyword, text.get(at + bare.len()..).unwrap_or_default().trim()));
                break;
            }
            head.push(word.trim());
            at += word.len();
        }
        let head = head.join(" ");
        let Some((keyword, source)) = found.filter(|(_, source)| !source.is_empty()) else {
            queue.count = text.to_owned();
            return queue;
        };
        let (count, vars) = match head.split_once(char::is_whitespace) {
            Some((count, vars)) if is_count(count) => (count, vars),
            None if is_count(&head) => (head.as_str(), ""),
            _ => ("", head.as_str()),
        };
        queue.count = count.to_owned();
        queue.vars = vars
            .split([',', ' '])
            .map(str::trim)
            .filter(|var| !var.is_empty())
            .map(str::to_owned)
            .collect();
        if queue.vars.is_empty() {
            queue.vars.push("Item".to_owned());
        }
        queue.words = keyword == "in";
        if keyword == "matching" {
            queue.source = Source::Unknown;
            return queue;
        }
        // A slice, `[1:3]`, selects some of the items.
        queue.sliced = source.starts_with('[');
        let source = if queue.sliced {
            source.split_once(']').map_or("", |(_, rest)| rest.trim())
        } else {
            source
        };
        if let Some(inside) = source.strip_prefix('(') {
            queue.source = Source::Here(Vec::new());
            match inside.split_once(')') {
                Some((inside, _)) => queue.add(line, inside),
                None => {
                    queue.add(line, inside);
                    queue.open = true;
                }
            }
        } else if queue.words {
            queue.source = Source::Here(Vec::new());
            queue.add(line, source);
        } else if source.ends_with('|') {
            queue.source = Source::Unknown;
        } else {
            queue.source = Source::File(source.to_owned());
        }
        queue
    }

    /// Whether the list of items continues in the next line.
    pub(super) fn wants_lines(&self) -> bool {
        self.open
    }

    /// The line of a list whose closing bracket condor_submit does not find.
    pub(super) fn late_bracket(&self) -> Option<usize> {
        self.late_bracket.or_else(|| self.open.then_some(self.line))
    }

    pub(super) fn push(&mut self, line: usize, text: &str) {
        if text.trim_start().starts_with(')') {
            self.open = false;
            return;
        }
        match text.split_once(')').filter(|_| self.words) {
            Some((inside, _)) => {
                self.add(line, inside);
                self.open = false;
                self.late_bracket = Some(line);
            }
            None => self.add(line, text),
        }
    }

    fn add(&mut self, line: usize, text: &str) {
        let Source::Here(items) = &mut self.source else { return };
        let text = text.trim();
        if self.words {
            let words =
                text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
            items.extend(words.map(|word| (line, word.to_owned())));
        } else if !text.is_empty() && !text.starts_with('#') {
            items.push((line, text.to_owned()));
        }
    }

    /// Returns the variables of each item, at least one; `None` if they are not known.
    pub(crate) fn items(
        &self,
        disk: &dyn Disk,
        folder: &str,
    ) -> Option<Vec<BTreeMap<String, String>>> {
        let lines: Vec<String> = match &self.source {
            Source::None => return Some(vec![BTreeMap::new()]),
            Source::Unknown => return None,
            Source::Here(items) => {
                items.iter().take(MAX_ITEMS).map(|(_, item)| item.clone()).collect()
            }
            Source::File(path) => {
                let text = disk.text(&below(folder, path))?;
                let lines = text
                    .lines()
                    .map(str::trim)
                    .filter(|line| !line.is_empty() && !line.starts_with('#'));
                lines.take(MAX_ITEMS).map(str::to_owned).collect()
            }
        };
        Some(lines.iter().map(|line| self.variables(line)).collect())
    }

    /// Splits an item as HTCondor does: at commas, else at white space; the last variable gets the
    /// rest.
    fn variables(&self, item: &str) -> BTreeMap<String, String> {
        let mut rest = item;
        let mut found = BTreeMap::new();
        for (i, var) in self.vars.iter().enumerate() {
            let last = i + 1 == self.vars.len();
            let end = if last {
                rest.len()
            } else {
                rest.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(rest.len())
            };
            let (value, tail) = rest.split_at(end);
            found.insert(var.to_ascii_lowercase(), value.trim().to_owned());
            let tail = tail.trim_start();
            rest = tail.strip_prefix(',').unwrap_or(tail).trim_start();
        }
        found
    }
}

fn is_count(word: &str) -> bool {
    !word.is_empty() && (word.chars().all(|c| c.is_ascii_digit()) || word.starts_with("$("))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::Files;

    #[test]
    fn every_form_of_queue_is_read() {
        let disk = Files::of(&[("p.txt", "# lr, seed\n0.1, 1\n0.2 2 rest\n\n")]);
        let check = |text: &str, count: &str, expected: Option<&str>| {
            let mut lines = text.lines();
            let mut queue = Queue::parse(1, lines.next().unwrap_or_default());
            for (i, line) in lines.enumerate() {
                assert!(queue.wants_lines(), "{text}");
                queue.push(i + 2, line);
            }
            assert!(!queue.wants_lines(), "{text}");
            assert_eq!(queue.count, count, "{text}");
            let items = queue.items(&disk, "").map(|items| {
                let item = |item: BTreeMap<String, String>| {
                    item.into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
                };
                items.into_iter().map(item).collect::<Vec<_>>().join("|")
            });
            assert_eq!(items.as_deref(), expected, "{text}");
        };
        check("", "", Some(""));
        check("3", "3", Some(""));
        check("$(n)", "$(n)", Some(""));
        check("lr, seed from p.txt", "", Some("lr=0.1 seed=1|lr=0.2 seed=2 rest"));
        check("2 lr,seed from [0:1] p.txt", "2", Some("lr=0.1 seed=1|lr=0.2 seed=2 rest"));
        check("from p.txt", "", Some("item=0.1, 1|item=0.2 2 rest"));
        check("x in (a, b c)", "", Some("x=a|x=b|x=c"));
        check("x in a b", "", Some("x=a|x=b"));
        check("x in (\na\nb)", "", Some("x=a|x=b"));
        check("a,b from (\n 1, 2\n 3, 4\n)", "", Some("a=1 b=2|a=3 b=4"));
        check("matching files *.tar", "", None);
        check("x from ls |", "", None);
        check("x from nowhere.txt", "", None);
    }
}
