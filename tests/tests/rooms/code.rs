//! Source files reduced to their code: without comments, the insides of literals, and tests.

use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

/// Returns whether `word` occurs in `code` other than as the end of a longer name.
pub(crate) fn contains_word(code: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| !code[..at].ends_with(is_name))
}

/// Returns `text` with spaces for its comments and the insides of its literals, line for line.
pub(crate) fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = skipped(rest, code.ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        let (taken, after) = rest.split_at(end.unwrap_or(first.len_utf8()));
        match end {
            Some(_) => code.extend(taken.chars().filter(|c| *c == '\n')),
            None => code.push(first),
        }
        rest = after;
    }
    code
}

/// Returns the length of the comment or literal at the beginning of `text`; `None` if there is
/// none.
fn skipped(text: &str, in_name: bool) -> Option<usize> {
    let until = |from: usize, end: &str| {
        let inside = text.get(from..).unwrap_or_default();
        inside.find(end).map_or(text.len(), |at| from + at + end.len())
    };
    let quoted = |from: usize, quote: char| {
        let mut escaped = false;
        let inside = text.get(from..).unwrap_or_default();
        let end = inside.find(|c: char| {
            let ends = c == quote && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        end.map_or(text.len(), |at| from + at + 1)
    };
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(until(2, "*/"));
    }
    if text.starts_with('"') {
        return Some(quoted(1, '"'));
    }
    let raw = text.strip_prefix("br").or_else(|| text.strip_prefix('r')).filter(|_| !in_name);
    if let Some(raw) = raw {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let from = text.len() - raw.len() + hashes + 1;
            return Some(until(from, &format!("\"{}", "#".repeat(hashes))));
        }
    }
    // A character literal, unlike a lifetime, ends with a quote.
    let mut after = text.strip_prefix('\'')?.chars();
    let is_char = after.next()? == '\\' || after.next()? == '\'';
    is_char.then(|| quoted(1, '\''))
}

/// Writes out lists of imports: `use std::{env, fs::{self, File}};` becomes `std::env`,
/// `std::fs::self` and `std::fs::File`, in the line in which it begins.
pub(crate) fn with_imports_apart(lines: Vec<(usize, &str)>) -> Vec<(usize, String)> {
    let mut apart = Vec::new();
    let mut lines = lines.into_iter();
    while let Some((number, line)) = lines.next() {
        let bare = line.trim_start();
        let bare = bare.strip_prefix("pub ").unwrap_or(bare);
        let Some(first) = bare.strip_prefix("use ").filter(|_| bare.contains('{')) else {
            apart.push((number, line.to_owned()));
            continue;
        };
        let mut tree = first.to_owned();
        while !tree.contains(';') {
            let Some((_, more)) = lines.next() else { break };
            tree.push_str(more.trim());
        }
        let mut paths = Vec::new();
        let tree = tree.split(';').next().unwrap_or_default();
        spread("", &mut tree.chars().peekable(), &mut paths);
        apart.push((number, paths.join(" ")));
    }
    apart
}

/// Collects the paths of a tree of imports, each below `above`, up to the brace that ends it.
fn spread(above: &str, tree: &mut Peekable<Chars<'_>>, paths: &mut Vec<String>) {
    let mut path = above.to_owned();
    while let Some(c) = tree.next() {
        match c {
            '{' => {
                spread(&path, tree, paths);
                path.clear();
            }
            ',' | '}' => {
                if !path.is_empty() && path != above {
                    paths.push(path.clone());
                }
                path = above.to_owned();
                if c == '}' {
                    return;
                }
            }
            c if c.is_whitespace() && path.ends_with(':') => {}
            c if c.is_whitespace() && path == above => {}
            c => path.push(c),
        }
    }
    if !path.is_empty() && path != above {
        paths.push(path);
    }
}

/// Returns the numbered lines of `text`, without items under `#[cfg(test)]`. rustfmt puts the brace
/// that ends an item in the column in which the item starts.
pub(crate) fn without_tests(text: &str) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((idx, line)) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push((idx + 1, line));
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let ends = |line: &str| {
            line == end || (line.ends_with(';') && !line[indent.len()..].starts_with(' '))
        };
        let _ = lines.by_ref().find(|(_, line)| line.len() > indent.len() && ends(line));
    }
    kept
}

/// Returns the `.rs` files below `dir` that are part of the library: not its programs in `bin`, nor
/// test modules in separate files.
pub(crate) fn library_sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a source folder") {
        let path = entry.expect("a folder entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["bin", "tests"].contains(&name.as_str()) {
            found.extend(library_sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
    found
}
