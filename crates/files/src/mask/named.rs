//! The value after a name of secrets and a colon or `=`: `"access_token": "…"`, `password = …`.
//!
//! JSON must stay JSON, and a class or a field may have such a name: `"password": 2` stays. So only
//! a text in quotes is hidden, or a word in the same text as its name.

use std::ops::Range;

use super::{Hit, Secret, ends_word};

/// Whether what follows `between` is in a string, if what precedes it is (`quoted`) or is not. No
/// string of JSON has a line end.
pub(super) fn is_quoted_after(mut quoted: bool, between: &str) -> bool {
    let mut slashes = 0_usize;
    for c in between.chars() {
        match c {
            '\n' => quoted = false,
            '"' if slashes.is_multiple_of(2) => quoted = !quoted,
            _ => {}
        }
        slashes = if c == '\\' { slashes + 1 } else { 0 };
    }
    quoted
}

/// Finds the value after a name and a sign. `between` is what separates them; `quoted` says whether
/// the name is in a string.
pub(super) fn value(text: &str, between: Range<usize>, quoted: bool) -> Option<Hit> {
    let rest_at = between.end + 1;
    let rest = text.get(rest_at..)?;
    let start = rest_at + rest.len() - rest.trim_start_matches([' ', '\t']).len();
    let rest = text.get(start..)?;
    let of_name = text.get(between)?.trim_end_matches([' ', '\t']);
    let slashes = rest.len() - rest.trim_start_matches('\\').len();
    let range = match rest.get(slashes..)?.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let opening = rest.get(..=slashes)?;
            // After a name without quotes, a quote may also end the string that the name is in.
            let opens = if of_name.is_empty() {
                quote == '\'' || slashes % 2 == 1 || (slashes == 0 && !quoted)
            } else {
                of_name == opening
            };
            let from = start + opening.len();
            let len = if opens { len_in_quotes(text.get(from..)?, quote, slashes) } else { 0 };
            from..from + len
        }
        _ if of_name.is_empty() => start..start + rest.find(ends_word).unwrap_or(rest.len()),
        _ => return None,
    };
    (!range.is_empty()).then_some(Hit { range, kind: Secret::Named })
}

/// The length of a text up to its closing quote, where the opening one has `depth` backslashes.
fn len_in_quotes(text: &str, quote: char, depth: usize) -> usize {
    let mut slashes = 0;
    for (at, c) in text.char_indices() {
        let closing = match c {
            '\n' => Some(0),
            '"' if quote == '"' => closing(slashes, depth),
            '"' => (slashes % 2 == 0).then_some(slashes),
            '\'' if quote == '\'' => (slashes <= depth).then_some(slashes),
            _ => None,
        };
        if let Some(kept) = closing {
            return at - kept;
        }
        slashes = if c == '\\' { slashes + 1 } else { 0 };
    }
    text.len()
}

/// How many of the backslashes before a quote belong to it, if it closes a string whose opening
/// quote has `depth` of them. JSON in JSON has 1, and 3 in there again.
fn closing(mut slashes: usize, mut depth: usize) -> Option<usize> {
    let mut kept = 0;
    while depth > 0 && slashes % 2 == 1 {
        (slashes, depth, kept) = (slashes / 2, depth / 2, kept * 2 + 1);
    }
    slashes.is_multiple_of(2).then_some(kept)
}
