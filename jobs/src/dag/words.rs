//! The words of a line, and descriptions that are written in the file itself.

use crate::lines::Line;

/// A command in capitals; DAGMan takes `-` and `_` as the same in it.
pub(super) fn canonical(command: &str) -> String {
    command.to_ascii_uppercase().replace('-', "_")
}

/// The words of a line, without quotes, and whether all quotes are closed; `name = "a value"` is one
/// word.
pub(super) fn words(line: &str) -> (Vec<String>, bool) {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    // Whether the word has an `=`, and whether a value followed it.
    let (mut is_pair, mut has_value) = (false, false);
    let mut rest = line.trim().chars().peekable();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\\', Some(_)) => word.extend(rest.next()),
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.push(c),
            (' ' | '\t', None) => {
                while rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                let joins = (is_pair && !has_value) || (!is_pair && rest.peek() == Some(&'='));
                if !joins && !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                    (is_pair, has_value) = (false, false);
                }
            }
            ('=', None) if !is_pair => {
                is_pair = true;
                word.push(c);
            }
            (c, None) => {
                has_value |= is_pair;
                match c {
                    '"' | '\'' => quote = Some(c),
                    _ => word.push(c),
                }
            }
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    (words, quote.is_none())
}

/// The line that ends a submit description which `word` begins: `{`, or `@=end`.
pub(super) fn inline_end(word: &str) -> Option<String> {
    match word.strip_prefix("@=") {
        Some(end) => Some(format!("@{end}")),
        None => word.starts_with('{').then(|| "}".to_owned()),
    }
}

/// Returns the lines up to `end`, and whether it is there.
pub(super) fn inline<'a>(end: &str, lines: &mut impl Iterator<Item = &'a Line>) -> (String, bool) {
    let mut body = String::new();
    for line in lines {
        if line.text.strip_prefix(end).is_some_and(|r| r.is_empty() || r.starts_with(' ')) {
            return (body, true);
        }
        body.push_str(&line.text);
        body.push('\n');
    }
    (body, false)
}
