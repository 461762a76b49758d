//! Parses the statements of a submit file.

use super::commands::sets;
use super::expand::Variables;
use super::queue::Queue;
use crate::lines::{Line, joined};
use crate::repair::Piece;

/// A statement `name = value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) line: usize,
    /// How many physical lines the statement takes.
    pub(crate) count: usize,
    /// The name as it is written, without `+` or `MY.`.
    pub(crate) name: String,
    pub(crate) value: String,
    /// `+name` or `MY.name`: an attribute, whose value is an expression.
    pub(crate) attribute: bool,
    /// Whether the statement is inside an `if`.
    pub(crate) conditional: bool,
    /// Whether the statement comes after the first `queue`.
    pub(crate) after_queue: bool,
}

/// A line that is not a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Strange {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A submit file.
#[derive(Debug, Default)]
pub(crate) struct Submit {
    pub(crate) sets: Vec<Set>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) strange: Vec<Strange>,
    /// The line of an `if` without `endif`.
    pub(crate) open_if: Option<usize>,
    /// Whether there is an `include` or a `use`, which may set anything.
    pub(crate) includes: bool,
    /// Logical lines, for checks of the text itself.
    pub(crate) lines: Vec<Line>,
}

impl Submit {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = joined(text);
        let mut submit = Self::default();
        let mut ifs: Vec<usize> = Vec::new();
        let mut rest = lines.iter();
        while let Some(line) = rest.next() {
            let text = line.text.as_str();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let word = text
                .split(|c: char| c.is_whitespace() || c == '(' || c == ':')
                .next()
                .unwrap_or_default();
            // `include : file` and `error : text` are statements, `error = file` sets a command.
            let words = ["include", "use", "warning", "error"];
            let is_word = words.iter().any(|known| word.eq_ignore_ascii_case(known));
            let mark = text.find(['=', ':']).and_then(|at| text.get(at..=at));
            let is_set = assigned(text).is_some() && !(is_word && mark == Some(":"));
            match word.to_ascii_lowercase().as_str() {
                "queue" if !is_set => {
                    let mut queue = Queue::parse(line.number, text.get(5..).unwrap_or_default());
                    while queue.wants_lines() {
                        let Some(line) = rest.next() else { break };
                        queue.push(line.number, &line.text);
                    }
                    submit.queues.push(queue);
                }
                "if" if !is_set => ifs.push(line.number),
                "elif" | "else" if !is_set => {}
                "endif" if !is_set => {
                    ifs.pop();
                }
                "include" | "use" if !is_set => submit.includes = true,
                "warning" | "error" if !is_set && mark == Some(":") => {}
                _ => match assigned(text) {
                    Some((name, value)) => {
                        let mut value = value.to_owned();
                        let mut name = name.trim();
                        if let Some(bare) = name.strip_suffix('@') {
                            // For `name @=end` the value is the lines up to `@end`.
                            name = bare.trim();
                            let end = format!("@{}", value.trim());
                            let body = rest.by_ref().take_while(|line| line.text != end);
                            value =
                                body.map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
                        }
                        let lower = name.to_ascii_lowercase();
                        let bare = name.strip_prefix('+').or_else(|| {
                            lower.starts_with("my.").then(|| name.get(3..).unwrap_or_default())
                        });
                        submit.sets.push(Set {
                            line: line.number,
                            count: line.count,
                            name: bare.unwrap_or(name).trim().to_owned(),
                            value: value.trim().to_owned(),
                            attribute: bare.is_some(),
                            conditional: !ifs.is_empty(),
                            after_queue: !submit.queues.is_empty(),
                        });
                    }
                    None => {
                        submit.strange.push(Strange { line: line.number, text: text.to_owned() });
                    }
                },
            }
        }
        submit.open_if = ifs.first().copied();
        submit.lines = lines;
        submit
    }

    /// The last statement that sets the command `name`, in any case of letters.
    pub(crate) fn get(&self, name: &str) -> Option<&Set> {
        self.sets.iter().rev().find(|set| !set.attribute && sets(&set.name, name))
    }

    /// Returns the first of `names` that is set.
    pub(crate) fn any(&self, names: &[&str]) -> Option<&Set> {
        names.iter().find_map(|name| self.get(name))
    }

    /// The last statement that sets the attribute `name`.
    pub(crate) fn attribute(&self, name: &str) -> Option<&Set> {
        self.sets.iter().rev().find(|set| set.attribute && set.name.eq_ignore_ascii_case(name))
    }

    /// The statements, to compare the file with another one.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        let piece = |line: &Line| Piece {
            first: line.number,
            last: line.number + line.count - 1,
            text: line.text.clone(),
        };
        let is_read = |line: &&Line| !line.text.is_empty() && !line.text.starts_with('#');
        self.lines.iter().filter(is_read).map(piece).collect()
    }

    /// The macros of the file: those that a DAG gives, then its own, which win.
    pub(super) fn variables(&self, given: Variables) -> Variables {
        let mut variables = given;
        for set in self.sets.iter().filter(|set| !set.attribute) {
            variables.insert(set.name.to_ascii_lowercase(), set.value.clone());
        }
        variables
    }
}

/// Splits `name = value`, or the older `name : value`.
fn assigned(text: &str) -> Option<(&str, &str)> {
    let at = text.find(['=', ':'])?;
    let (name, value) = (text.get(..at)?, text.get(at + 1..)?);
    let bare = name.trim().trim_end_matches('@').trim_end();
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '+' | '-');
    (!bare.is_empty() && bare.chars().all(part)).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_apart() {
        let text = "\
# a comment
Executable = a.sh
+WantGPULab = true
MY.Other = 1
arguments = x \\
  y
if defined foo
  request_cpus : 2
endif
text @=end
two
lines
@end
odd line
queue = 3
queue 2
log = l
include : common.inc
error : not here
if true";
        let submit = Submit::parse(text);
        let sets: Vec<_> = submit
            .sets
            .iter()
            .map(|set| (set.line, set.name.as_str(), set.value.as_str()))
            .collect();
        assert_eq!(
            sets,
            [
                (2, "Executable", "a.sh"),
                (3, "WantGPULab", "true"),
                (4, "Other", "1"),
                (5, "arguments", "x y"),
                (8, "request_cpus", "2"),
                (10, "text", "two\nlines"),
                (15, "queue", "3"),
                (17, "log", "l"),
            ]
        );
        assert!(submit.attribute("wantgpulab").is_some() && submit.get("wantgpulab").is_none());
        assert!(submit.get("request_cpus").is_some_and(|set| set.conditional));
        assert!(submit.get("log").is_some_and(|set| set.after_queue));
        assert_eq!(submit.strange, [Strange { line: 14, text: "odd line".to_owned() }]);
        assert_eq!((submit.queues.len(), submit.open_if, submit.includes), (1, Some(20), true));
    }
}
