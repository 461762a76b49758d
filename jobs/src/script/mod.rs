//! Wrapper scripts and training programs, parsed only roughly: the checks find what a person sees
//! at a glance.
//!
//! A script is read as what its first line says: a shell script, a Python program, or a language
//! that is not read at all.

use crate::disk::base_name;
use crate::finding::FileFindings;
use crate::rules::{self, Rule};

pub(crate) mod options;
pub(crate) mod python;
#[cfg(test)]
mod right_scripts;
pub(crate) mod shell;

/// The job that runs a script, as far as it matters for the script.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Job<'a> {
    /// Whether the job is started again in the same folder, after this exit code or a requeue.
    pub(crate) restarts: bool,
    /// The exit code that says "run me again", where there is one.
    pub(crate) exit_code: Option<i64>,
    /// Base names of the files that were brought for it.
    pub(crate) inputs: &'a [String],
    /// The rule that a script without `#!` breaks, where it is started by its name.
    pub(crate) needs_shebang: Option<&'static Rule>,
}

/// What a text is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// sh, bash and shells like them.
    Shell,
    Python,
    /// Perl, R, csh and all else.
    Other,
}

impl Language {
    /// The language that the first line names: `#!/usr/bin/env -S perl -w` is Perl's. `None` if
    /// the text does not begin with `#!`.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let program = interpreter(text)?;
        Some(match program {
            "sh" | "bash" | "dash" | "ksh" | "ash" => Self::Shell,
            _ if program.starts_with("python") || program.starts_with("pypy") => Self::Python,
            _ => Self::Other,
        })
    }

    /// The same, for a file that may be a shell script without a first line.
    pub(crate) fn of_script(text: &str) -> Self {
        Self::of(text).unwrap_or(Self::Shell)
    }
}

/// The name of the program that the first line names.
fn interpreter(text: &str) -> Option<&str> {
    let line = text.lines().next()?.strip_prefix("#!")?;
    let mut words = line.split_whitespace().map(base_name);
    let program = words.next().unwrap_or_default();
    if program != "env" {
        return Some(program);
    }
    let is_option = |word: &&str| word.starts_with('-') || word.contains('=');
    Some(words.find(|word| !is_option(word)).unwrap_or_default())
}

/// Says that a program in a language that is not read was not judged.
pub(crate) fn other(text: &str, report: &mut FileFindings) {
    let what = match interpreter(text).filter(|name| !name.is_empty()) {
        Some(name) => format!("the program is for `{name}`, so it was not judged"),
        None => "the program is in another language, so it was not judged".to_owned(),
    };
    report.add(&rules::OTHER_LANGUAGE, 1, what);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read_as_what_its_first_line_says() {
        let check = |line: &str, expected: Option<Language>| {
            assert_eq!(Language::of(line), expected, "{line}");
        };
        for shell in ["#!/bin/sh", "#! /bin/bash -l", "#!/usr/bin/env -S bash -e", "#!/bin/sh\r"] {
            check(shell, Some(Language::Shell));
        }
        check("#!/usr/bin/env python3", Some(Language::Python));
        check("#!/opt/conda/bin/python3.12 -u", Some(Language::Python));
        for other in
            ["#!/usr/bin/perl -w", "#!/usr/bin/env Rscript", "#!/bin/csh", "#!", "#!/usr/bin/env"]
        {
            check(other, Some(Language::Other));
        }
        check("echo", None);
        check("", None);
    }
}
