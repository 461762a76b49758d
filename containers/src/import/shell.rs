//! The commands of a shell text, as far as they are plain: words, joined by `&&`, `;` and ends of
//! lines. Whatever else there is (pipes, loops, conditions) is one command that is not understood.
//! In a list with `||`, or with a test before `&&`, commands depend on what came before them.

use std::ops::Range;

/// One command, or a construct that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// The line where it begins, counted from 0 at the beginning of the text.
    pub(super) line: usize,
    pub(super) text: String,
    /// The same as it was written: the parts of a construct as they are joined there.
    pub(super) source: String,
    /// Where that is in the text.
    pub(super) range: Range<usize>,
    /// Whether it consists of words alone.
    pub(super) is_plain: bool,
    pub(super) joint: CommandJoint,
}

/// What joins a command to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandJoint {
    And,
    Or,
    End,
}

/// Programs that are run for whether they succeed.
const TESTS: [&str; 14] = [
    "!", "[", "[[", "cmp", "command", "diff", "false", "getent", "grep", "hash", "id", "test",
    "type", "which",
];

impl Command {
    /// Whether it is run for whether it succeeds.
    pub(super) fn is_test(&self) -> bool {
        let first = self.text.split_whitespace().next().unwrap_or_default();
        TESTS.contains(&first)
    }

    /// Whether it always fails, such as `exit 1`.
    fn is_failure(&self) -> bool {
        let text = self.text.trim_end_matches(['}', ')', '\n', ' ']);
        let last = text.rsplit('\n').next().unwrap_or_default().trim();
        let code = last.strip_prefix("exit");
        last == "false" || code.is_some_and(|code| !matches!(code.trim(), "" | "0"))
    }
}

/// Whether a command of a list is run only if those before it ended in a certain way.
pub(super) fn is_conditional(list: &[Command]) -> bool {
    let before = list.get(..list.len().saturating_sub(1)).unwrap_or_default();
    before.iter().any(|one| one.joint == CommandJoint::Or || one.is_test())
}

/// Splits a shell's text into lists, whose commands are joined by `&&` and `||`. What only fails
/// after everything else is not in them.
pub(super) fn lists(text: &str) -> Vec<Vec<Command>> {
    let mut lists: Vec<Vec<Command>> = Vec::new();
    let mut goes_on = false;
    for command in split(text) {
        let joint = command.joint;
        match lists.last_mut().filter(|_| goes_on) {
            Some(list) => list.push(command),
            None => lists.push(vec![command]),
        }
        goes_on = joint != CommandJoint::End;
    }
    for list in &mut lists {
        if let [before @ .., last] = list.as_slice()
            && before.last().is_some_and(|one| one.joint == CommandJoint::Or)
            && last.is_failure()
            && !is_conditional(before)
        {
            list.pop();
        }
    }
    lists
}

/// Splits a shell's text into commands. Those that may not be run are not plain.
pub(super) fn commands(text: &str) -> Vec<Command> {
    let lists = lists(text).into_iter();
    let marked = lists.flat_map(|mut list| {
        if is_conditional(&list) {
            list.iter_mut().for_each(|command| command.is_plain = false);
        }
        list
    });
    marked.collect()
}

/// The characters of a text, and where the next one is.
struct Chars<'a> {
    text: &'a str,
    at: usize,
}

impl Chars<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn next_if(&mut self, is_wanted: impl Fn(char) -> bool) -> Option<char> {
        self.peek().filter(|c| is_wanted(*c)).inspect(|c| self.at += c.len_utf8())
    }

    fn next(&mut self) -> Option<char> {
        self.next_if(|_| true)
    }
}

/// Words that begin a construct, and those that end it.
const OPENING: [&str; 7] = ["if", "for", "while", "until", "case", "{", "function"];
const CLOSING: [&str; 4] = ["fi", "done", "esac", "}"];

/// What is written to nobody, and so changes nothing.
const SILENCED: [&str; 7] = [
    "> /dev/null",
    ">/dev/null",
    "1>/dev/null",
    "2>/dev/null",
    "2> /dev/null",
    "&>/dev/null",
    "2>&1",
];

fn split(text: &str) -> Vec<Command> {
    let mut parts = Splitter { whole: text, ..Splitter::default() };
    let mut chars = Chars { text, at: 0 };
    let mut quote: Option<char> = None;
    loop {
        parts.offset = chars.at;
        let Some(c) = chars.next() else { break };
        if c == '\n' {
            parts.at += 1;
        }
        match (quote, c) {
            (_, '\\') if quote != Some('\'') => match chars.next() {
                // A line that continues.
                Some('\n') => {
                    parts.at += 1;
                    parts.push(' ');
                }
                Some(next) => {
                    parts.push(c);
                    parts.push(next);
                }
                None => {}
            },
            (Some(open), c) => {
                if c == open {
                    quote = None;
                }
                parts.push(c);
                if open == '"' && c == '`' || c == '$' && chars.peek() == Some('(') && open == '"' {
                    parts.is_plain = false;
                }
            }
            (None, '\'' | '"') => {
                quote = Some(c);
                parts.push(c);
            }
            (None, '#') if parts.text.is_empty() || parts.text.ends_with(char::is_whitespace) => {
                while chars.next_if(|c| c != '\n').is_some() {}
            }
            (None, '&') if chars.next_if(|c| c == '&').is_some() => parts.end(CommandJoint::And),
            (None, '|') if chars.next_if(|c| c == '|').is_some() => parts.end(CommandJoint::Or),
            (None, ';') => {
                // `;;` ends a case.
                if chars.next_if(|c| c == ';').is_some() {
                    parts.is_plain = false;
                }
                parts.end(CommandJoint::End);
            }
            (None, '\n') => {
                let ends = parts.here_document();
                for end in ends {
                    parts.is_plain = false;
                    let mut line = String::new();
                    loop {
                        let next = chars.next();
                        if let Some(c) = next.filter(|c| *c != '\n') {
                            line.push(c);
                            continue;
                        }
                        parts.at += 1;
                        parts.push('\n');
                        parts.text.push_str(&line);
                        if next.is_none() || line.trim_start_matches('\t') == end {
                            break;
                        }
                        line.clear();
                    }
                    parts.offset = chars.at;
                }
                parts.end(CommandJoint::End);
            }
            (None, c @ ('|' | '<' | '(' | ')' | '`' | '&' | '>')) => {
                if c == '(' {
                    parts.depth += 1;
                    parts.parentheses += 1;
                } else if c == ')' && parts.parentheses > 0 {
                    // Others end a pattern of `case`.
                    parts.depth = parts.depth.saturating_sub(1);
                    parts.parentheses -= 1;
                }
                parts.push(c);
                parts.is_plain = false;
            }
            (None, c) => parts.push(c),
        }
    }
    parts.depth = 0;
    parts.end(CommandJoint::End);
    parts.found
}

#[derive(Default)]
struct Splitter<'a> {
    whole: &'a str,
    found: Vec<Command>,
    text: String,
    /// Where `text` begins in `whole`, and what is read.
    start: usize,
    offset: usize,
    /// The line that is read, and that where `text` begins.
    at: usize,
    began: usize,
    is_plain: bool,
    /// Constructs and parentheses that are open.
    depth: usize,
    parentheses: usize,
    /// Where the word that may open or close a construct begins in `text`.
    command_at: usize,
}

impl Splitter<'_> {
    fn push(&mut self, c: char) {
        if c.is_whitespace() && self.text.len() == self.command_at {
            return;
        }
        if self.text.is_empty() {
            self.began = self.at;
            self.start = self.offset;
            self.is_plain = true;
            self.command_at = 0;
        }
        self.text.push(c);
    }

    /// Ends a command, unless it is within a construct.
    fn end(&mut self, joint: CommandJoint) {
        let part = self.text.get(self.command_at..).unwrap_or_default();
        for word in part.split_whitespace() {
            if OPENING.contains(&word) {
                self.depth += 1;
                self.is_plain = false;
            } else if CLOSING.contains(&word) {
                self.depth = self.depth.saturating_sub(1);
                self.is_plain = false;
            } else if !matches!(word, "then" | "do" | "else" | "elif" | "!") {
                break;
            }
        }
        // `name() {`
        if part.trim_end().ends_with('{') && part.contains("()") {
            self.depth += 1;
            self.is_plain = false;
        }
        if self.depth > 0 {
            self.text.truncate(self.text.trim_end().len());
            self.text.push_str(if joint == CommandJoint::Or { " ||\n" } else { "\n" });
            self.command_at = self.text.len();
            return;
        }
        let text = std::mem::take(&mut self.text);
        self.command_at = 0;
        if text.trim().is_empty() {
            return;
        }
        let (text, is_plain) = match self.is_plain {
            true => (text, true),
            false => unsilenced(&text),
        };
        let text = text.trim_end().to_owned();
        let source = self.whole.get(self.start..self.offset).unwrap_or_default();
        let source = without_continuation(source).to_owned();
        let range = self.start..self.start + source.len();
        self.found.push(Command { line: self.began, text, source, range, is_plain, joint });
    }

    /// The lines at which the documents end that the command so far begins by `<<`.
    fn here_document(&self) -> Vec<String> {
        let part = self.text.get(self.command_at..).unwrap_or_default();
        let mut ends = Vec::new();
        let mut rest = part;
        while let Some((_, after)) = rest.split_once("<<") {
            rest = after;
            if after.starts_with('<') {
                rest = after.trim_start_matches('<');
                continue;
            }
            let word = after.trim_start_matches('-').split_whitespace().next().unwrap_or_default();
            let word = word.trim_matches(['\'', '"', '\\']);
            let word = word.split([';', '|', '>', '&', ')']).next().unwrap_or_default();
            if !word.is_empty() && !word.starts_with('(') {
                ends.push(word.to_owned());
            }
        }
        ends
    }
}

/// A command without the `\\` that joins its last line to what follows it.
fn without_continuation(source: &str) -> &str {
    let mut rest = source;
    while let Some(before) = rest.trim_end_matches([' ', '\t', '\n']).strip_suffix('\\')
        && rest.get(before.len()..).is_some_and(|end| end.starts_with("\\\n"))
    {
        rest = before;
    }
    rest.trim_end()
}

/// Takes away what sends output to nobody; the rest may be plain.
fn unsilenced(text: &str) -> (String, bool) {
    let mut rest = text.to_owned();
    for silenced in SILENCED {
        rest = rest.replace(silenced, "");
    }
    let odd = ['|', '<', '>', '(', ')', '`', '&', '\n'];
    let first = rest.split_whitespace().next().unwrap_or_default();
    if rest == text || rest.contains(odd) || rest.contains("$(") || OPENING.contains(&first) {
        return (text.to_owned(), false);
    }
    (rest, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, &str, bool)]) {
        let found = commands(text);
        let found: Vec<_> = found.iter().map(|c| (c.line, c.text.as_str(), c.is_plain)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn commands_are_told_apart() {
        check(
            "a b && c;d\n\n  e",
            &[(0, "a b", true), (0, "c", true), (0, "d", true), (2, "e", true)],
        );
        check(
            "a \\\n  b \\\n && c # no\nd",
            &[(0, "a    b", true), (2, "c", true), (3, "d", true)],
        );
        check("a '&& ; b' \"c ; d\" e\\;f", &[(0, "a '&& ; b' \"c ; d\" e\\;f", true)]);
        check("# only\na#b", &[(1, "a#b", true)]);
        check("pip install x > /dev/null 2>&1", &[(0, "pip install x", true)]);
    }

    #[test]
    fn constructs_stay_whole() {
        check("a | b && c", &[(0, "a | b", false), (0, "c", true)]);
        check(
            "a || b &&\n\nc\nd",
            &[(0, "a", false), (0, "b", false), (2, "c", false), (3, "d", true)],
        );
        check(
            "[ -e x ] && a\nb && [ -e x ]",
            &[(0, "[ -e x ]", false), (0, "a", false), (1, "b", true), (1, "[ -e x ]", true)],
        );
        check("a && b || { echo no; exit 1; }", &[(0, "a", true), (0, "b", true)]);
        check(
            "[ x ] && a || exit 1",
            &[(0, "[ x ]", false), (0, "a", false), (0, "exit 1", false)],
        );
        check("a || exit 0", &[(0, "a", false), (0, "exit 0", false)]);
        check("if a || b; then c; fi", &[(0, "if a ||\nb\nthen c\nfi", false)]);
        check(
            "if [ -e x ]; then a; b; fi\nc",
            &[(0, "if [ -e x ]\nthen a\nb\nfi", false), (1, "c", true)],
        );
        check(
            "for i in 1 2; do for j in 3; do a; done; done && b",
            &[(0, "for i in 1 2\ndo for j in 3\ndo a\ndone\ndone", false), (0, "b", true)],
        );
        check("(cd x && make) && b", &[(0, "(cd x\nmake)", false), (0, "b", true)]);
        check("a \"$(b)\"", &[(0, "a \"$(b)\"", false)]);
        check(
            "cat <<'EOF' > x\na && b\nEOF\nc",
            &[(0, "cat <<'EOF' > x\na && b\nEOF", false), (3, "c", true)],
        );
        check("f() {\n a\n}\nb", &[(0, "f() {\na\n}", false), (3, "b", true)]);
        check("( never closed", &[(0, "( never closed", false)]);
    }

    #[test]
    fn a_construct_is_known_as_it_was_written() {
        let check = |text: &str, expected: &[&str]| {
            let sources: Vec<_> = commands(text).into_iter().map(|one| one.source).collect();
            assert_eq!(sources, expected, "{text}");
        };
        check("a  \\\n  b && c;d # no\ne", &["a  \\\n  b", "c", "d # no", "e"]);
        check("if [ a ] && [ é ]; then b; fi; c", &["if [ a ] && [ é ]; then b; fi", "c"]);
        check("case $x in\n(a) b;;\n*) c;;\nesac", &["case $x in\n(a) b;;\n*) c;;\nesac"]);
        check("cat <<E >x\na && b\nE\nc", &["cat <<E >x\na && b\nE", "c"]);
        check("x=$(a | b) c > /dev/null", &["x=$(a | b) c > /dev/null"]);
        check("(cd x && make) && b", &["(cd x && make)", "b"]);
        check("a \\\n && b \\\n\\\n || c \\\n", &["a", "b", "c"]);
        check("a x\\ && b", &["a x\\", "b"]);
    }
}
