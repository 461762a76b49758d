//! Common mistakes in expressions over the attributes of a job and a machine.

use super::check::Context;
use crate::finding::FileFindings;
use crate::rules;

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

pub(super) fn check(context: &Context<'_>, report: &mut FileFindings) {
    for name in COMMANDS {
        let Some((set, value)) = context.value(name) else { continue };
        // Records are left out, since they have `=` between name and value.
        if value.text.contains(['[', '#']) || value.text.contains("$$") {
            continue;
        }
        let Some(fault) = fault(&value.text) else { continue };
        let (what, fix) = match &fault {
            Fault::OneEqual(_) => ("`=` does not compare", "write `==`"),
            Fault::Word(word) => ("`and`, `or` and `not` are not operators", *word),
            Fault::Unit => {
                ("a number has a unit", "write the number alone: Memory is in MB, Disk in KB")
            }
            Fault::SingleQuotes => ("a text is in single quotes", "put it in double quotes"),
            Fault::Bare => ("a text has no quotes", "put it in double quotes"),
        };
        let rule = match fault {
            Fault::SingleQuotes | Fault::Bare => &rules::BARE_TEXT,
            _ => &rules::BAD_EXPRESSION,
        };
        let edit = match fault {
            Fault::OneEqual(at) => insert(&set.value, at).filter(|_| set.value == value.text),
            _ => None,
        };
        let what = format!("{what} in `{name}`");
        report.add(rule, set.line, what).fix(fix).edit =
            edit.and_then(|right| context.with_value(set, &right));
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// A single `=`, with its position.
    OneEqual(usize),
    /// A word such as `and` as an operator, with what to write instead.
    Word(&'static str),
    /// A number with a unit, such as `16GB`.
    Unit,
    /// Single quotes: `'LINUX'` is an attribute.
    SingleQuotes,
    /// A text without quotes: `OpSys == LINUX`.
    Bare,
}

/// Attributes of machines whose value is a text.
const TEXTS: [&str; 8] = [
    "opsys",
    "arch",
    "opsysandver",
    "opsysname",
    "opsysshortname",
    "gpus_devicename",
    "cudadevicename",
    "glidein_site",
];

/// Whether an attribute whose value is a text is compared with a word without quotes.
fn compares_bare(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let words = lower.split(|c: char| c.is_whitespace() || "()&|".contains(c));
    let mut words = words.filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let at = word.find(['=', '!']).unwrap_or(word.len());
        let (attribute, rest) = word.split_at(at);
        let attribute = attribute.rsplit('.').next().unwrap_or_default();
        if !TEXTS.contains(&attribute) {
            continue;
        }
        let mut operand = rest.trim_start_matches(['=', '!', '?']);
        if rest.is_empty() {
            let Some(next) = words.next_if(|next| next.starts_with(['=', '!'])) else { continue };
            operand = next.trim_start_matches(['=', '!', '?']);
        }
        if operand.is_empty() {
            operand = words.peek().copied().unwrap_or_default();
        }
        let is_word = operand.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_attribute = ["undefined", "error", "true", "false"].contains(&operand);
        if operand.starts_with(|c: char| c.is_ascii_alphabetic()) && is_word && !is_attribute {
            return true;
        }
    }
    false
}

fn insert(text: &str, at: usize) -> Option<String> {
    Some(format!("{}={}", text.get(..at)?, text.get(at..)?))
}

/// The first mistake in an expression that has a remedy of its own. What cannot be read at all,
/// such as an open bracket, is told where forms of values are checked.
fn fault(text: &str) -> Option<Fault> {
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
            word if has_unit(word) => return Some(Fault::Unit),
            _ => {}
        }
        match c {
            '"' => in_text = true,
            '\'' => return Some(Fault::SingleQuotes),
            '<' | '>' | '!' if behind.get(1..2) == Some("=") => skip = 1,
            '=' if behind.starts_with("=?=") || behind.starts_with("=!=") => skip = 2,
            '=' if behind.starts_with("==") => skip = 1,
            '=' => return Some(Fault::OneEqual(at)),
            _ => {}
        }
    }
    (!in_text && compares_bare(text)).then_some(Fault::Bare)
}

fn has_unit(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    unit.len() < word.len()
        && ["k", "m", "g", "t"].iter().any(|start| {
            unit.strip_prefix(start).is_some_and(|rest| matches!(rest, "" | "b" | "ib"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::Files;
    use crate::finding::JobFinding;
    use crate::lint::lint_text;

    /// Returns the findings in a submit file with this line, and the repaired line.
    fn said(line: &str) -> (Vec<&'static str>, String) {
        let files = Files::of(&[("a.sh", "#!/bin/sh\ntrue\n")]);
        let text = format!(
            "{line}\nexecutable = a.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\nqueue\n"
        );
        let found: Vec<JobFinding> = lint_text("x.sub", &text, &files);
        let edits: Vec<_> = found.iter().filter_map(|finding| finding.edit.as_ref()).collect();
        let better = crate::repair("x.sub", &text, &edits);
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
            "environment = \"CFG=lr=1;wd=2\"",
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
        for unit in ["Memory > 16GB", "(Disk >= 1.5g) && A", "x > 2MiB"] {
            assert_eq!(fault(unit), Some(Fault::Unit), "{unit}");
        }
        assert_eq!(fault("OpSys == 'LINUX'"), Some(Fault::SingleQuotes));
        for bare in ["OpSys == LINUX", "A && (TARGET.Arch==X86_64)", "OpSysAndVer =?= RHEL9"] {
            assert_eq!(fault(bare), Some(Fault::Bare), "{bare}");
        }
        for right in
            ["Arch =!= undefined", "OpSys == \"LINUX\"", "OpSys == MY.Wanted", "B == 3 && Opsys"]
        {
            assert_eq!(fault(right), None, "{right}");
        }
    }
}
