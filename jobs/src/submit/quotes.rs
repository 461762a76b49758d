//! Quotes in arguments, environment and remaps.
//!
//! ```text
//! arguments = a b              words at spaces; quotes are part of them
//! arguments = "a 'b c' ""d"""  words at spaces; '…' holds one word, "" is a quote
//! environment = A=1;B=2        variables at `;`
//! environment = "A=1 B='2 3'"  variables at spaces
//! ```

use super::check::Context;
use crate::finding::Report;

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    for name in ["arguments", "args", "environment", "env", "transfer_output_remaps"] {
        let Some(set) = context.submit.get(name) else { continue };
        // In a list without quotes the environment may hold them.
        let is_read = name.starts_with("arg") || set.value.trim().starts_with('"');
        let fault =
            quoted_fault(set.value.trim()).filter(|_| is_read && name != "transfer_output_remaps");
        let what = match fault {
            _ if set.value.matches('"').count() % 2 == 1 => {
                format!("a quote in `{name}` is not closed")
            }
            Some(fault) => format!("{fault} in `{name}`"),
            None => continue,
        };
        report.error(
            "open-quote",
            set.line,
            [
                &what,
                "condor_submit refuses the file, or the program gets other words",
                "put one pair of double quotes around the whole; inside, `'a b'` is one word and `\"\"` a quote",
            ],
        );
    }
    let Some(set) = context.submit.any(&["environment", "env"]) else { return };
    if set.value.starts_with('"') {
        semicolons(context, report);
        return;
    }
    let pairs = set.value.split_whitespace().filter(|word| word.contains('=')).count();
    if pairs > 1 && !set.value.contains(';') {
        report
            .error(
                "environment-quotes",
                set.line,
                [
                    "`environment` has several variables and no quotes",
                    "all but the first become part of the first one's value",
                    "put the whole in double quotes",
                ],
            )
            .edit = (!set.value.contains('"'))
            .then(|| context.with_value(set, &format!("\"{}\"", set.value)));
    }
}

/// What is wrong in a list with double quotes.
fn quoted_fault(text: &str) -> Option<&'static str> {
    let Some(inside) = text.strip_prefix('"') else {
        return text
            .replace("\\\"", "")
            .contains('"')
            .then_some("a double quote inside a list without them");
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
                    (false, true) => Some("words behind the closing quote"),
                    (false, false) => None,
                };
            }
            _ => {}
        }
    }
    None
}

/// Variables in quotes that are parted as they are without.
fn semicolons(context: &Context<'_>, report: &mut Report) {
    let Some(set) = context.submit.any(&["environment", "env"]) else { return };
    let names_one = |text: &str| {
        let name = text.trim_start().split('=').next().unwrap_or_default();
        text.contains('=')
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if set.value.contains('\'') || !set.value.split(';').skip(1).any(names_one) {
        return;
    }
    let right = set.value.split(';').map(str::trim).collect::<Vec<_>>().join(" ");
    report
        .error("environment-quotes", set.line, [
            "variables in quotes are parted by `;`",
            "in quotes spaces part them: the `;` and what follows become part of the value before",
            "write spaces between the variables, or remove the quotes",
        ])
        .edit = Some(context.with_value(set, &right));
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
}
