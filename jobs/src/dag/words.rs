//! The words of a line, and descriptions that are written in the file itself.

use crate::lines::Line;

/// A command in capitals; DAGMan takes `-` and `_` as the same in it.
pub(super) fn canonical(command: &str) -> String {
    command.to_ascii_uppercase().replace('-', "_")
}

/// The words of a line, without quotes; `name = "a value"` is one word.
pub(super) fn words(line: &str) -> Vec<String> {
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
    words
}

/// The line that ends a submit description which `word` begins: `{`, or `@=end`.
pub(super) fn inline_end(word: &str) -> Option<String> {
    match word.strip_prefix("@=") {
        Some(end) => Some(format!("@{end}")),
        None => word.starts_with('{').then(|| "}".to_owned()),
    }
}

/// Returns the lines up to `end`.
pub(super) fn inline<'a>(end: &str, lines: &mut impl Iterator<Item = &'a Line>) -> String {
    let is_end =
        |text: &str| text.strip_prefix(end).is_some_and(|r| r.is_empty() || r.starts_with(' '));
    let body = lines.by_ref().take_while(|line| !is_end(&line.text));
    body.map(|line| format!("{}\n", line.text)).collect()
}
