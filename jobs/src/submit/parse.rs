//! Parses the statements of a submit file.

use std::collections::BTreeMap;
use std::mem;

use super::commands::sets;
use super::expand::{Variables, own_references};
use super::queue::Queue;
use crate::lines::Piece;
use crate::lines::{Line, joined};

/// A statement `name = value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) line: usize,
    /// How many physical lines the statement takes.
    pub(crate) count: usize,
    /// The name as it is written, without `+` or `MY.`.
    pub(crate) name: String,
    /// What the statement itself says.
    pub(crate) text: String,
    /// The name's value. If a later statement adds to it, that one has the whole and this one its
    /// own text: a list that grows in a thousand lines is stored once.
    pub(crate) value: String,
    pub(crate) form: SetForm,
    /// `+name` or `MY.name`: an attribute, whose value is an expression.
    pub(crate) attribute: bool,
    /// Whether the statement is inside an `if`.
    pub(crate) conditional: bool,
    /// Whether the statement comes after the first `queue`.
    pub(crate) after_queue: bool,
}

/// How a statement sets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetForm {
    /// `name = value`.
    Plain,
    /// `name @=end`, with the value in the lines up to `@end`.
    Block,
    /// `name += value` or `name = $(name) value`: the value so far is part of the new one.
    Added,
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
    /// Lines with `elif`, `else` or `endif` outside of an `if`.
    pub(crate) stray_branches: Vec<usize>,
    /// Lines with `else if`, which HTCondor reads as `else`.
    pub(crate) else_ifs: Vec<usize>,
    /// Names that `if defined NAME` asks for, lower case: the file is right without them.
    pub(crate) asked: Vec<String>,
    /// Whether there is an `include` or a `use`, which may set anything.
    pub(crate) includes: bool,
    /// Conditions of `if` and `elif`, with their lines.
    pub(crate) conditions: Vec<(usize, String)>,
    /// Files that are always included, with their lines.
    pub(crate) included: Vec<(usize, String)>,
    /// Logical lines, for checks of the text itself.
    pub(crate) lines: Vec<Line>,
}

impl Set {
    /// Puts the value so far into this one where the statement asks for it. `before` is the last
    /// statement of the same name; without one, the name may have the value `given`.
    fn add_to(
        &mut self,
        before: Option<&mut Self>,
        given: Option<&String>,
        name: &str,
        operator: &str,
    ) {
        let references = own_references(&self.text, name);
        let separator = operator.strip_prefix('+');
        // `$(a)$(a)` doubles the value each time: then it stays as it is written.
        let grows = |value: &str| references.len() > 1 && value.len() > MAX_DOUBLED_BYTES;
        if (separator.is_none() && references.is_empty())
            || before.as_ref().is_some_and(|before| grows(&before.value))
        {
            return;
        }
        let value = match before {
            // Jobs of an earlier `queue` keep theirs.
            Some(before) if before.after_queue != self.after_queue => Some(before.value.clone()),
            Some(before) => Some(mem::replace(&mut before.value, before.text.clone())),
            None => given.cloned(),
        };
        let is_known = value.is_some();
        let mut whole = value.unwrap_or_default();
        match (references.as_slice(), separator) {
            ([], _) if whole.is_empty() => return,
            ([], separator) => {
                match separator.unwrap_or_default() {
                    "" => whole.push(' '),
                    two if two.len() > 1 => whole.extend([" ", two, " "]),
                    one => whole.push_str(one),
                }
                whole.push_str(&self.text);
            }
            ([(range, _)], _) if is_known => {
                whole.insert_str(0, self.text.get(..range.start).unwrap_or_default());
                whole.push_str(self.text.get(range.end..).unwrap_or_default());
            }
            (references, _) => {
                let mut text = self.text.clone();
                for (range, default) in references.iter().rev() {
                    text.replace_range(range.clone(), if is_known { &whole } else { default });
                }
                whole = text;
            }
        }
        self.value = whole;
        self.form = SetForm::Added;
    }
}

/// A longer value is not put twice into the next one.
const MAX_DOUBLED_BYTES: usize = 64 << 10;

impl Submit {
    pub(crate) fn parse(text: &str) -> Self {
        Self::parse_with(text, &Variables::new())
    }

    /// The same after the macros `given` were set.
    pub(crate) fn parse_with(text: &str, given: &Variables) -> Self {
        let lines = joined(text);
        let mut submit = Self::default();
        // The last statement of each name so far; attributes are apart.
        let mut last: BTreeMap<(bool, String), usize> = BTreeMap::new();
        let mut ifs: Vec<usize> = Vec::new();
        let mut rest = lines.iter();
        while let Some(line) = rest.next() {
            let text = line.text.as_str();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let word = text
                .split(|c: char| c.is_whitespace() || "(:=".contains(c))
                .next()
                .unwrap_or_default();
            // `include : file` and `error : text` are statements, `error = file` sets a command.
            let word = word.strip_prefix('@').unwrap_or(word);
            let words = ["include", "use", "warning", "error"];
            let is_word = words.iter().any(|known| word.eq_ignore_ascii_case(known));
            let mark = text.find(['=', ':']).and_then(|at| text.get(at..=at));
            let is_set = assigned(text).is_some() && !(is_word && mark == Some(":"));
            let branches = ["elif", "else", "endif"];
            let is_branch = branches.iter().any(|known| word.eq_ignore_ascii_case(known));
            if is_branch && !is_set && ifs.is_empty() {
                submit.stray_branches.push(line.number);
            }
            match word.to_ascii_lowercase().as_str() {
                "queue" => {
                    let words = text.get(5..).unwrap_or_default().trim_start();
                    if words.starts_with(['=', ':']) {
                        // condor_submit refuses `queue = 3`.
                        submit.strange.push(Strange { line: line.number, text: text.to_owned() });
                    }
                    let words = words.trim_start_matches(['=', ':']);
                    let mut queue = Queue::parse(line.number, words);
                    while queue.wants_lines() {
                        let Some(line) = rest.next() else { break };
                        queue.push(line.number, &line.text);
                    }
                    submit.queues.push(queue);
                }
                "if" | "elif" if !is_set => {
                    if word.eq_ignore_ascii_case("if") {
                        ifs.push(line.number);
                    }
                    let condition = text.get(word.len()..).unwrap_or_default().trim();
                    submit.conditions.push((line.number, condition.to_owned()));
                    let lower = text.to_ascii_lowercase();
                    let mut words = lower.split(|c: char| c.is_whitespace() || c == '!');
                    if words.any(|word| word == "defined") {
                        submit.asked.extend(words.find(|name| !name.is_empty()).map(str::to_owned));
                    }
                }
                "else" if !is_set => {
                    let next = text.split_whitespace().nth(1);
                    if next.is_some_and(|next| next.eq_ignore_ascii_case("if")) {
                        submit.else_ifs.push(line.number);
                    }
                }
                "endif" if !is_set => {
                    ifs.pop();
                }
                "include" | "use" if !is_set => {
                    submit.includes = true;
                    let file = text.split_once(':').filter(|(head, _)| {
                        head.trim().trim_start_matches('@').eq_ignore_ascii_case("include")
                            && !text.contains(['$', '|'])
                    });
                    let file = file.map(|(_, file)| (line.number, file.trim().to_owned()));
                    submit.included.extend(file.filter(|_| ifs.is_empty()));
                }
                "warning" | "error" if !is_set && mark == Some(":") => {}
                _ => match assigned(text) {
                    Some((name, operator, value)) => {
                        let mut value = value.trim().to_owned();
                        let mut end = line;
                        if operator == "@" {
                            let mark = format!("@{value}");
                            let mut body: Vec<&str> = Vec::new();
                            let ended = rest.by_ref().any(|line| {
                                end = line;
                                let is_end = line.text == mark;
                                if !is_end {
                                    body.push(&line.text);
                                }
                                is_end
                            });
                            if !ended {
                                let text = text.to_owned();
                                submit.strange.push(Strange { line: line.number, text });
                                continue;
                            }
                            value = body.join("\n").trim().to_owned();
                        }
                        let lower = name.to_ascii_lowercase();
                        let bare = name.strip_prefix(['+', '-']).or_else(|| {
                            lower.starts_with("my.").then(|| name.get(3..).unwrap_or_default())
                        });
                        let mut set = Set {
                            line: line.number,
                            count: end.number + end.count - line.number,
                            name: bare.unwrap_or(name).trim().to_owned(),
                            value: value.clone(),
                            text: value,
                            form: if operator == "@" { SetForm::Block } else { SetForm::Plain },
                            attribute: bare.is_some(),
                            conditional: !ifs.is_empty(),
                            after_queue: !submit.queues.is_empty(),
                        };
                        let key = (set.attribute, set.name.to_ascii_lowercase());
                        let before = last.get(&key).and_then(|&at| submit.sets.get_mut(at));
                        set.add_to(before, given.get(&lower), name, operator);
                        last.insert(key, submit.sets.len());
                        submit.sets.push(set);
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
    pub(crate) fn variables(&self, given: Variables) -> Variables {
        let mut variables = given;
        for set in self.sets.iter().filter(|set| !set.attribute) {
            variables.insert(set.name.to_ascii_lowercase(), set.value.clone());
        }
        variables
    }
}

/// Splits `name = value`, or the older `name : value`, into name, operator and value. The operator
/// is empty, `@`, or `+` with what is put between the old and the new value.
fn assigned(text: &str) -> Option<(&str, &str, &str)> {
    let at = text.find('=')?;
    let (left, value) = (text.get(..at)?.trim(), text.get(at + 1..)?);
    let (name, operator) = match left.split_once(char::is_whitespace) {
        Some((name, operator)) => (name, operator.trim()),
        None => left.strip_suffix('@').map_or((left, ""), |name| (name, "@")),
    };
    let separator = operator.strip_prefix('+');
    let is_operator = matches!(operator, "" | "@")
        || separator.is_some_and(|s| matches!(s, "" | "," | ";" | "|" | "&" | "*" | "||" | "&&"));
    let bare = name.strip_prefix(['+', '-']).unwrap_or(name);
    let is_attribute = name.starts_with('+');
    let part = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/') || (is_attribute && c == '-')
    };
    (is_operator && !bare.is_empty() && bare.chars().all(part)).then_some((name, operator, value))
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
  request_cpus = 2
endif
text @=end
two
lines
@end
odd line

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
                (17, "log", "l"),
            ]
        );
        assert!(submit.attribute("wantgpulab").is_some() && submit.get("wantgpulab").is_none());
        assert!(submit.get("request_cpus").is_some_and(|set| set.conditional));
        assert!(submit.get("log").is_some_and(|set| set.after_queue));
        assert_eq!(submit.strange, [Strange { line: 14, text: "odd line".to_owned() }]);
        assert_eq!((submit.queues.len(), submit.open_if, submit.includes), (1, Some(20), true));
        assert_eq!((submit.asked, submit.stray_branches), (vec!["foo".to_owned()], vec![]));
    }

    #[test]
    fn a_value_may_be_added_to() {
        let check = |lines: &str, expected: &str| {
            let submit = Submit::parse(lines);
            let value = submit.get("transfer_input_files").map(|set| set.value.as_str());
            assert_eq!((value, submit.strange.len()), (Some(expected), 0), "{lines}");
        };
        let first = "transfer_input_files = a\n";
        check(&format!("{first}transfer_input_files +,= b\n"), "a,b");
        check(&format!("{first}transfer_input_files += b\n"), "a b");
        check(&format!("{first}transfer_input_files +&&= b\n"), "a && b");
        check(&format!("{first}Transfer_Input_Files = $(transfer_input_files), b\n"), "a, b");
        check("transfer_input_files +,= b\n", "b");
        check(&format!("{first}transfer_input_files = $(TRANSFER_INPUT_FILES:x), b\n"), "a, b");
        check("transfer_input_files = $(transfer_input_files:x), b\n", "x, b");
        let twice = "$(transfer_input_files), $(transfer_input_files)";
        check(&format!("{first}transfer_input_files = {twice}\n"), "a, a");
        check(
            &format!("{first}transfer_input_files = $$(transfer_input_files)\n"),
            "$$(transfer_input_files)",
        );
        check(&format!("{first}+transfer_input_files = b\ntransfer_input_files += c\n"), "a c");
        assert_eq!(Submit::parse("a b = c\na +x= c\n").strange.len(), 2);
    }

    #[test]
    fn a_value_that_grows_is_stored_once() {
        let n = 20_000;
        for line in ["a += b\n", "a = $(a) b\n", "a = b $(a)\n"] {
            let submit = Submit::parse(&format!("a = b\n{}", line.repeat(n)));
            let bytes: usize = submit.sets.iter().map(|set| set.value.len()).sum();
            assert!(bytes < 20 * n, "{bytes} bytes, {line}");
            assert_eq!(submit.get("a").map(|set| set.value.len()), Some(2 * n + 1), "{line}");
        }
        let submit = Submit::parse(&format!("a = bcd\n{}", "a = $(a)$(a)\n".repeat(60)));
        let longest = submit.sets.iter().map(|set| set.value.len()).max();
        assert!(longest < Some(4 * MAX_DOUBLED_BYTES), "{longest:?}");
    }

    #[test]
    fn jobs_of_an_earlier_queue_keep_their_value() {
        let submit = Submit::parse("a = 1\na += 2\nqueue\na += 3\na += 4\nqueue\n");
        let values: Vec<_> = submit.sets.iter().map(|set| set.value.as_str()).collect();
        assert_eq!(values, ["1", "1 2", "3", "1 2 3 4"]);
    }

    #[test]
    fn a_block_takes_its_lines() {
        let submit = Submit::parse("a @=e\nx \\\n y\n@e\nb = 1\n");
        let sets: Vec<_> = submit.sets.iter().map(|set| (set.line, set.count, set.form)).collect();
        assert_eq!(sets, [(1, 4, SetForm::Block), (5, 1, SetForm::Plain)]);
    }

    #[test]
    fn branches_belong_to_an_if() {
        let check = |lines: &str, stray: &[usize], else_ifs: &[usize]| {
            let submit = Submit::parse(lines);
            assert_eq!(
                (submit.stray_branches.as_slice(), submit.else_ifs.as_slice()),
                (stray, else_ifs)
            );
        };
        check("if defined a\nelif ! defined b\nelse\nendif\n", &[], &[]);
        check("if defined a\nelse if defined b\nendif\nendif\n", &[4], &[2]);
        check("else\nelif 1\nelse = 3\n", &[1, 2], &[]);
    }
}
