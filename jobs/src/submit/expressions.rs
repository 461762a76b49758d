//! Expressions over the attributes of job and machine.

use super::check::Context;
use crate::finding::Report;

const COMMANDS: [&str; 9] = [
    "requirements",
    "rank",
    "require_gpus",
    "periodic_hold",
    "periodic_release",
    "periodic_remove",
    "on_exit_hold",
    "on_exit_remove",
    "retry_until",
];

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    for name in COMMANDS {
        let Some((set, value)) = context.value(name) else { continue };
        // Records have `=` between name and value.
        if value.text.contains(['[', '#']) || value.text.contains("$$") {
            continue;
        }
        let (what, fix, edit) = match fault(&value.text) {
            None => continue,
            Some(Fault::OneEqual(at)) => {
                let right = insert(&set.value, at).filter(|_| set.value == value.text);
                ("`=` does not compare", "write `==`", right)
            }
            Some(Fault::Word(word)) => ("`and`, `or` and `not` are not operators", word, None),
            Some(Fault::Open(what)) => (what, "close it", None),
        };
        let what = format!("{what} in `{name}`");
        let why = "condor_submit refuses the file";
        report.error("bad-expression", set.line, [&what, why, fix]).edit =
            edit.map(|right| context.with_value(set, &right));
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// `=`, by its place.
    OneEqual(usize),
    /// An operator as a word; what to write.
    Word(&'static str),
    /// What is not closed.
    Open(&'static str),
}

fn insert(text: &str, at: usize) -> Option<String> {
    Some(format!("{}={}", text.get(..at)?, text.get(at..)?))
}

/// The first thing in an expression that cannot be.
fn fault(text: &str) -> Option<Fault> {
    let mut depth = 0_i64;
    let mut in_text = false;
    let mut word = String::new();
    let mut skip = 0;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let behind = text.get(at..).unwrap_or_default();
        if in_text {
            match c {
                '\\' => skip = 1,
                '"' => in_text = false,
                _ => {}
            }
            continue;
        }
        if c.is_alphanumeric() || matches!(c, '_' | '.') {
            word.push(c);
            continue;
        }
        match std::mem::take(&mut word).to_ascii_lowercase().as_str() {
            "and" => return Some(Fault::Word("write `&&`")),
            "or" => return Some(Fault::Word("write `||`")),
            "not" => return Some(Fault::Word("write `!`")),
            _ => {}
        }
        match c {
            '"' => in_text = true,
            '(' => depth += 1,
            ')' => depth -= 1,
            '<' | '>' | '!' if behind.get(1..2) == Some("=") => skip = 1,
            '=' if behind.starts_with("=?=") || behind.starts_with("=!=") => skip = 2,
            '=' if behind.starts_with("==") => skip = 1,
            '=' => return Some(Fault::OneEqual(at)),
            _ => {}
        }
        if depth < 0 {
            return Some(Fault::Open("a `)` without its `(`"));
        }
    }
    match (in_text, depth) {
        (true, _) => Some(Fault::Open("an open quote")),
        (false, 1..) => Some(Fault::Open("an open `(`")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::Files;
    use crate::finding::{Finding, repaired};
    use crate::lint::lint_text;

    /// What is said of a submit file with this line, and the line when it is repaired.
    fn said(line: &str) -> (Vec<&'static str>, String) {
        let files = Files::of(&[("a.sh", "#!/bin/sh\ntrue\n")]);
        let text = format!(
            "{line}\nexecutable = a.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\nqueue\n"
        );
        let found: Vec<Finding> = lint_text("x.sub", &text, &files);
        let edits: Vec<_> = found.iter().filter_map(|finding| finding.edit.as_ref()).collect();
        let better = repaired(&text, &edits);
        (
            found.iter().map(|finding| finding.rule).collect(),
            better.lines().next().unwrap_or_default().to_owned(),
        )
    }

    #[test]
    fn values_that_htcondor_refuses_or_reads_otherwise_are_found() {
        let check = |line: &str, rule: &str, right: &str| {
            assert_eq!(said(line), (vec![rule], right.to_owned()), "{line}");
        };
        check("requirements = (A = 8)", "bad-expression", "requirements = (A == 8)");
        check("rank = (Memory", "bad-expression", "rank = (Memory");
        check("arguments = \"it's\"", "open-quote", "arguments = \"it's\"");
        check("environment = \"A=1;B=2\"", "environment-quotes", "environment = \"A=1 B=2\"");
        for right in [
            "requirements = (A == 8)",
            "arguments = \"'a b' c\"",
            "environment = \"A=1;2 B=2\"",
            "environment = A=1;B=2",
            "environment = A=\"b c\"",
        ] {
            assert_eq!(said(right), (Vec::new(), right.to_owned()));
        }
    }

    #[test]
    fn what_no_expression_can_have_is_found() {
        for right in [
            "(TARGET.HasCHTCStaging == true)",
            "Memory >= 8 && OpSys =!= \"a=b (\"",
            "CUDACapability =?= 8.0 || Name != \"x\\\"(\"",
            "(CumulativeSlotTime > 3600) && JobStatus <= 2",
            "!isUndefined(Brand) && regexp(\"and or\", Name)",
            "Standard + Origin.note",
            "",
        ] {
            assert_eq!(fault(right), None, "{right}");
        }
        assert_eq!(fault("(A = 8)"), Some(Fault::OneEqual(3)));
        assert_eq!(insert("(A = 8)", 3).as_deref(), Some("(A == 8)"));
        assert_eq!(fault("A == 8 and B"), Some(Fault::Word("write `&&`")));
        for open in ["(A == 8", "A == 8)", "A == \"8"] {
            assert!(matches!(fault(open), Some(Fault::Open(_))), "{open}");
        }
    }
}
