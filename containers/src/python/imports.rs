//! The modules that a Python source imports, read from its text: nothing of it is run.
//!
//! Only the beginnings of statements matter, so that a source for any version of Python is read, and
//! one with an error in it as far as it goes.

/// An import in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The module: `a.b`; with a dot before it for each folder up, as `.a`.
    pub(crate) module: String,
    /// What `from` takes out of the module, some of which may be modules.
    pub(crate) names: Vec<String>,
    /// When the import happens.
    pub(crate) when: When,
}

/// When an import happens, the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum When {
    /// As soon as the source runs.
    Always,
    /// If some condition holds, or once a function is called.
    Sometimes,
    /// In a `try`, which continues without the module.
    Tried,
    /// For type checkers only.
    Never,
}

/// A statement with all its lines; texts in it are empty.
struct Statement {
    line: usize,
    indent: usize,
    text: String,
}

/// The imports of a source, in their order.
pub(crate) fn imports(source: &str) -> Vec<Import> {
    let mut found = Vec::new();
    // The blocks around a statement: indentation of their first lines, and when they run.
    let mut blocks: Vec<(usize, When)> = Vec::new();
    // The block that ended last, whose `else` may follow.
    for statement in statements(source) {
        let mut ended = None;
        while let Some((indent, when)) = blocks.last().copied() {
            if indent < statement.indent {
                break;
            }
            ended = (indent == statement.indent).then_some(when);
            blocks.pop();
        }
        let around = blocks.iter().map(|(_, when)| *when).max().unwrap_or(When::Always);
        let (when, simple) = match block(&statement.text, ended) {
            Some((when, inline)) => {
                blocks.push((statement.indent, when));
                (around.max(when), inline)
            }
            None => (around, statement.text.as_str()),
        };
        for part in simple.split(';') {
            found.extend(import(part.trim(), statement.line, when));
        }
    }
    found.retain(|import: &Import| import.when != When::Never);
    found
}

/// For the first line of a block: when the block runs, and what follows on this line.
fn block(text: &str, ended: Option<When>) -> Option<(When, &str)> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end)?;
    let condition = rest.trim();
    let when = match word {
        "def" | "async" if word == "def" || condition.starts_with("def") => When::Sometimes,
        "with" | "async" if condition.contains("suppress(") => When::Tried,
        "class" | "with" | "async" | "for" | "while" | "finally" => When::Always,
        "try" => When::Tried,
        "except" => When::Tried,
        "if" | "elif" => {
            let condition = condition.split(':').next().unwrap_or_default().trim();
            match condition.trim_matches(['(', ')']) {
                "TYPE_CHECKING" | "typing.TYPE_CHECKING" | "False" | "0" => When::Never,
                "True" | "1" => When::Always,
                text if text.starts_with("__name__") => When::Always,
                _ => When::Sometimes,
            }
        }
        // Of a `try` without a fault, of a loop, or of an `if` for type checkers only.
        "else" if ended != Some(When::Sometimes) => When::Always,
        "else" | "case" => When::Sometimes,
        _ => return None,
    };
    let colon = outer_colon(text)?;
    Some((when, text.get(colon + 1..)?.trim()))
}

/// The place of the colon that ends the head of a block.
fn outer_colon(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 => return Some(at),
            _ => {}
        }
        None
    })
}

/// The imports of one statement.
fn import(text: &str, line: usize, when: When) -> Vec<Import> {
    let is_module = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
    };
    let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    if let Some(modules) = text.strip_prefix("import ") {
        let modules = modules.split(',').map(first).filter(|name| is_module(name));
        return modules.map(|module| Import { line, module, names: Vec::new(), when }).collect();
    }
    let Some(rest) = text.strip_prefix("from").filter(|rest| rest.starts_with([' ', '.'])) else {
        return Vec::new();
    };
    // `importlib` begins in the same way.
    let word = rest.match_indices("import").find_map(|(at, word)| {
        let (module, names) = (rest.get(..at)?, rest.get(at + word.len()..)?);
        let is_word = module.ends_with([' ', '.']) && names.starts_with([' ', '(', '*']);
        is_word.then_some((module, names))
    });
    let Some((module, names)) = word else { return Vec::new() };
    let module: String = module.split_whitespace().collect();
    if !is_module(&module) {
        return Vec::new();
    }
    let names = names.trim().trim_matches(['(', ')']).split(',').map(first);
    let names = names.filter(|name| is_module(name)).collect();
    vec![Import { line, module, names, when }]
}

/// The statements of a source: lines that belong together are one, comments are left out.
fn statements(source: &str) -> Vec<Statement> {
    let mut found = Vec::new();
    let mut rest = source.strip_prefix('\u{feff}').unwrap_or(source).chars().peekable();
    let (mut line, mut depth) = (1, 0_usize);
    let mut current = Statement { line, indent: 0, text: String::new() };
    let mut is_start = true;
    while let Some(c) = rest.next() {
        match c {
            '\n' if depth == 0 => {
                line += 1;
                let next = Statement { line, indent: 0, text: String::new() };
                push(&mut found, std::mem::replace(&mut current, next));
                is_start = true;
                continue;
            }
            '\n' => {
                line += 1;
                current.text.push(' ');
            }
            '\\' if matches!(rest.peek(), Some('\n' | '\r')) => {
                rest.next_if_eq(&'\r');
                rest.next_if_eq(&'\n');
                line += 1;
                current.text.push(' ');
            }
            '#' => while rest.next_if(|c| *c != '\n').is_some() {},
            ' ' if is_start => current.indent += 1,
            '\t' if is_start => current.indent = (current.indent / 8 + 1) * 8,
            '"' | '\'' => {
                line += skip_text(&mut rest, c);
                current.text.push_str("\"\"");
            }
            '\r' | '\u{c}' => {}
            c => {
                match c {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                current.text.push(if c == '\t' { ' ' } else { c });
            }
        }
        is_start &= matches!(c, ' ' | '\t' | '\r' | '\u{c}');
    }
    push(&mut found, current);
    found
}

fn push(to: &mut Vec<Statement>, statement: Statement) {
    if !statement.text.trim().is_empty() {
        to.push(statement);
    }
}

/// Reads to the end of a text that begins with this quote; returns how many lines it has more than
/// one.
fn skip_text(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, quote: char) -> usize {
    let mut is_long = false;
    if rest.next_if_eq(&quote).is_some() {
        if rest.next_if_eq(&quote).is_none() {
            return 0;
        }
        is_long = true;
    }
    let (mut lines, mut quotes) = (0, 0);
    while let Some(c) = rest.peek().copied() {
        // A short text that does not end is an error of the source; the next line is not.
        if c == '\n' && !is_long {
            break;
        }
        rest.next();
        match c {
            '\\' => {
                if rest.next() == Some('\n') {
                    lines += 1;
                }
                quotes = 0;
            }
            '\n' => (lines, quotes) = (lines + 1, 0),
            c if c == quote => {
                quotes += 1;
                if !is_long || quotes == 3 {
                    break;
                }
            }
            _ => quotes = 0,
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &[(usize, &str, When)]) {
        let found = imports(source);
        let found: Vec<_> =
            found.iter().map(|import| (import.line, import.module.as_str(), import.when)).collect();
        assert_eq!(found, expected, "{source}");
    }

    use When::{Always, Sometimes, Tried};

    #[test]
    fn imports_are_found_in_all_their_forms() {
        check(
            "\u{feff}#!/usr/bin/env python3\n\"\"\"import never\n'''\nimport nor\n\"\"\"\nimport os, torch.nn as nn  # import no\nfrom a . b import (\n    c,  # c\n    d as e,\n)\nfrom .x import *; import y\nx = 'import z'; f\"{import_}\"\nimport \\\n  late\nfrom.up import z\n",
            &[
                (6, "os", Always),
                (6, "torch.nn", Always),
                (7, "a.b", Always),
                (11, ".x", Always),
                (11, "y", Always),
                (13, "late", Always),
                (15, ".up", Always),
            ],
        );
        let names = &imports("from a.b import (c,\n d as e)\n")[0].names;
        assert_eq!(names, &["c", "d"]);
    }

    #[test]
    fn what_is_around_an_import_says_when_it_happens() {
        check(
            "try:\n    import a\nexcept ImportError:\n    import b\nelse:\n    import c\nimport d\n",
            &[(2, "a", Tried), (4, "b", Tried), (6, "c", Always), (7, "d", Always)],
        );
        check(
            "def f(x: int = 1):\n    import a\n    if x: import b\nasync def g(): import c\nclass D:\n  import d\n",
            &[(2, "a", Sometimes), (3, "b", Sometimes), (4, "c", Sometimes), (6, "d", Always)],
        );
        check(
            "if TYPE_CHECKING:\n\timport a\nelse:\n\timport b\nif x[1:2] == {1: 2}:\n\timport c\nelse:\n\timport d\nif __name__ == '__main__':\n\timport e\n",
            &[(4, "b", Always), (6, "c", Sometimes), (8, "d", Sometimes), (10, "e", Always)],
        );
        check(
            "with suppress(ImportError):\n  import a\nfor i in x:\n  import b\n",
            &[(2, "a", Tried), (4, "b", Always)],
        );
    }

    #[test]
    fn odd_sources_are_read_as_far_as_they_go() {
        check("x = 'never ends\nimport a\n", &[(2, "a", Always)]);
        check("import a\r\nimport b\r\n", &[(1, "a", Always), (2, "b", Always)]);
        check("x = (\nimport a\n", &[]);
        check(
            "importlib.x\nfrom importlib import a\nfrom x\nimport\nimport 1-2\nfrom a importb\n",
            &[(2, "importlib", Always)],
        );
        check(
            "'a\\'b'\nimport a\n\"\"\" \\\"\"\" \"\"\"\nimport b\n",
            &[(2, "a", Always), (4, "b", Always)],
        );
    }
}
