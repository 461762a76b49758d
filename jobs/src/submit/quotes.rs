//! Quotes in arguments, environment and remaps.
//!
//! ```text
//! arguments = a b              words at spaces; quotes are part of them
//! arguments = "a 'b c' ""d"""  words at spaces; '…' holds one word, "" is a quote
//! environment = A=1;B=2        variables at `;`
//! environment = "A=1 B='2 3'"  variables at spaces
//! ```

use super::check::Context;
use crate::finding::FileFindings;
use crate::rules;

pub(super) fn check(context: &Context<'_>, report: &mut FileFindings) {
    for name in ["arguments", "args", "environment", "env", "transfer_output_remaps"] {
        let Some(set) = context.submit.get(name) else { continue };
        // Quotes may be part of a value in an environment without outer quotes.
        let is_read = name.starts_with("arg") || set.value.trim().starts_with('"');
        let fault =
            quoted_fault(set.value.trim()).filter(|_| is_read && name != "transfer_output_remaps");
        let what = match fault {
            _ if quotes(set.value.trim(), name) % 2 == 1
                && (is_read || name == "transfer_output_remaps") =>
            {
                format!("a quote in `{name}` is not closed")
            }
            Some(fault) => format!("{fault} in `{name}`"),
            None => continue,
        };
        report.add(&rules::OPEN_QUOTE, set.line, what);
    }
    let Some(set) = context.submit.any(&["environment", "env"]) else { return };
    if let Some(word) = without_value(&set.value) {
        let what = format!("`{word}` in `environment` is not `NAME=value`");
        report
            .add(&rules::BAD_FORM, set.line, what)
            .fix("write `NAME=value`; a value with spaces in single quotes: `\"A=1 B='2 3'\"`");
    }
    if set.value.starts_with('"') {
        semicolons(context, report);
        return;
    }
    let is_pair = |word: &str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    // `OPTIONS=--lr=1 --seed=2` is one variable.
    let pairs = set.value.split_whitespace().filter(|word| is_pair(word)).count();
    if pairs > 1 && !set.value.contains(';') {
        report
            .add(
                &rules::ENVIRONMENT_BARE,
                set.line,
                "`environment` has several variables and no quotes",
            )
            .edit = (!set.value.contains('"'))
            .then(|| context.with_value(set, &format!("\"{}\"", set.value)))
            .flatten();
    }
}

/// The first part of an environment that is not a variable with a value.
fn without_value(text: &str) -> Option<&str> {
    // Macros may be whole variables, and quotes that are not closed are told elsewhere.
    let text = text.trim();
    if text.contains('$') || quoted_fault(text).is_some() {
        return None;
    }
    let Some(inside) = text.strip_prefix('"') else {
        let mut parts = text.split(';').map(str::trim);
        return parts.find(|part| !part.is_empty() && !part.contains('='));
    };
    let inside = inside.strip_suffix('"')?;
    let mut in_quotes = false;
    let words = inside.split(|c: char| {
        in_quotes ^= c == '\'';
        c.is_whitespace() && !in_quotes
    });
    { words }.find(|word| !word.is_empty() && word.find('=').is_none_or(|at| at == 0))
}

/// How many double quotes part words. In arguments without outer quotes `\"` is a plain character.
fn quotes(text: &str, name: &str) -> usize {
    let escaped = name.starts_with("arg") && !text.starts_with('"');
    let escaped = if escaped { text.matches("\\\"").count() } else { 0 };
    text.matches('"').count() - escaped
}

/// Returns what is wrong in a list with double quotes.
fn quoted_fault(text: &str) -> Option<&'static str> {
    let Some(inside) = text.strip_prefix('"') else {
        return text
            .replace("\\\"", "")
            .contains('"')
            .then_some("a double quote inside a list that is not in double quotes");
    };
    let mut in_word = false;
    let mut rest = inside.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\'' => in_word = !in_word,
            '"' if rest.next_if_eq(&'"').is_none() => {
                let follows = rest.any(|c| !c.is_whitespace());
                return match (in_word, follows) {
                    (true, _) => Some("a single quote is not closed"),
                    (false, true) => Some("words after the closing quote"),
                    (false, false) => None,
                };
            }
            _ => {}
        }
    }
    None
}

/// Variables in quotes that are parted as they are without.
fn semicolons(context: &Context<'_>, report: &mut FileFindings) {
    let Some(set) = context.submit.any(&["environment", "env"]) else { return };
    let Some(right) = parted(&set.value) else { return };
    report
        .add(
            &rules::ENVIRONMENT_SEMICOLONS,
            set.line,
            "the variables in quotes are separated by `;`",
        )
        .edit = context.with_value(set, &right);
}

/// The text with spaces for `;`, where each part between them is one variable. A value may have
/// `;` and `=`: `"CFG=lr=1;wd=2"` is one variable.
fn parted(text: &str) -> Option<String> {
    let inside = text.trim().strip_prefix('"')?.strip_suffix('"')?;
    if inside.contains(['\'', '"']) {
        return None;
    }
    let is_variable = |part: &&str| {
        let (name, value) = part.split_once('=').unwrap_or_default();
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !value.contains('=')
    };
    let mut words: Vec<&str> = Vec::new();
    for word in inside.split_whitespace() {
        let parts: Vec<&str> = word.split(';').filter(|part| !part.is_empty()).collect();
        if parts.iter().all(is_variable) {
            words.extend(parts);
        } else {
            words.push(word);
        }
    }
    let right = words.join(" ");
    (right.contains(' ') && inside.split_whitespace().ne(words)).then(|| format!("\"{right}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_quotes_are_read_as_htcondor_reads_them() {
        for right in [
            "--lr 1e-3",
            "it's",
            "\"a 'b c' d\"",
            "\"say \"\"x\"\"\"",
            "\"it''s\"",
            "a\\\"b\\\"",
            "",
        ] {
            assert_eq!(quoted_fault(right), None, "{right}");
        }
        for wrong in ["\"it's\"", "\"a 'b\"", "\"a\" b \"c\"", "--name \"a b\""] {
            assert!(quoted_fault(wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_a_variable_is_found() {
        for right in [
            "",
            "A=1;B=2",
            "A=1; B=2;",
            "FILTER=a|b",
            "\"A=1 B='2 3'\"",
            "\"\"",
            "\"A=\"",
            "A=$(x) y",
        ] {
            assert_eq!(without_value(right), None, "{right}");
        }
        for (wrong, word) in [
            ("\"A\"", "A"),
            ("\"A=1 B\"", "B"),
            ("\"A=1 =2\"", "=2"),
            ("A", "A"),
            ("A=1;B", "B"),
            ("\"A = 1\"", "A"),
        ] {
            assert_eq!(without_value(wrong), Some(word), "{wrong}");
        }
    }

    #[test]
    fn a_semicolon_parts_variables_only_where_each_part_is_one() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(parted(text).as_deref(), expected, "{text}");
        };
        check("\"A=1;B=2\"", Some("\"A=1 B=2\""));
        check("\"A=1; B=2\"", Some("\"A=1 B=2\""));
        check("\"A=1;B=2; C=3 D=x;y\"", Some("\"A=1 B=2 C=3 D=x;y\""));
        for right in [
            "\"CFG=lr=1;wd=2\"",
            "\"A=1;2 B=2\"",
            "\"A=x;B\"",
            "\"'A=1;B=2'\"",
            "\"A=1;\"",
            "\"A=1 B=2\"",
            "A=1;B=2",
        ] {
            check(right, None);
        }
    }
}
