//! A finding of a check, and how to repair it.

use serde::Serialize;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The job is refused, held, fails, or loses its result.
    Error,
    /// The job may fail or lose its result, or waits longer than it must.
    Warning,
}

/// One trap in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobFinding {
    /// The rule's name, as in `docs/jobs.md`.
    pub rule: &'static str,
    /// How serious the finding is.
    pub severity: Severity,
    /// The file, as it was named in the command.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong in this line.
    pub what: String,
    /// What would happen if it is not repaired.
    pub why: String,
    /// What to write instead.
    pub fix: String,
    /// The repair that `--fix` makes, where one is certain.
    pub edit: Option<Edit>,
}

/// Whole lines of a file, and what takes their place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The first line that is replaced, counted from 1.
    pub line: usize,
    /// How many lines are replaced; 0 inserts before `line`.
    pub count: usize,
    /// The lines to insert, without line ends.
    pub lines: Vec<String>,
}

/// Collects the findings of one file.
#[derive(Debug)]
pub(crate) struct FileFindings {
    pub(crate) file: String,
    pub(crate) findings: Vec<JobFinding>,
}

impl FileFindings {
    pub(crate) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), findings: Vec::new() }
    }

    pub(crate) fn error(
        &mut self,
        rule: &'static str,
        line: usize,
        texts: [&str; 3],
    ) -> &mut JobFinding {
        self.add(Severity::Error, rule, line, texts)
    }

    pub(crate) fn warning(
        &mut self,
        rule: &'static str,
        line: usize,
        texts: [&str; 3],
    ) -> &mut JobFinding {
        self.add(Severity::Warning, rule, line, texts)
    }

    fn add(
        &mut self,
        severity: Severity,
        rule: &'static str,
        line: usize,
        [what, why, fix]: [&str; 3],
    ) -> &mut JobFinding {
        self.findings.push(JobFinding {
            rule,
            severity,
            file: self.file.clone(),
            line: line.max(1),
            what: what.to_owned(),
            why: why.to_owned(),
            fix: fix.to_owned(),
            edit: None,
        });
        self.findings.last_mut().expect("one was just pushed")
    }
}

/// Returns `text` with the repairs of `edits`. If two edits overlap, only the first is made; the
/// next check finds the other again.
#[must_use]
pub fn repaired(text: &str, edits: &[&Edit]) -> String {
    let mut edits = edits.to_vec();
    edits.sort_by_key(|edit| (edit.line, edit.count));
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut out = String::with_capacity(text.len());
    let mut next = 0;
    for edit in edits {
        let first = edit.line.saturating_sub(1);
        if first < next || first > lines.len() {
            continue;
        }
        out.extend(lines.get(next..first).unwrap_or_default().iter().copied());
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        for line in &edit.lines {
            out.push_str(line);
            out.push('\n');
        }
        next = first.saturating_add(edit.count).min(lines.len());
        if edit.count == 0 {
            // Another edit of the same line is left for the next round.
            next = first;
        }
    }
    out.extend(lines.get(next..).unwrap_or_default().iter().copied());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_replace_insert_and_do_not_meet() {
        let edit = |line, count, lines: &[&str]| Edit {
            line,
            count,
            lines: lines.iter().map(|&line| line.to_owned()).collect(),
        };
        let check = |edits: &[&Edit], expected: &str| {
            assert_eq!(repaired("a\nb\nc", edits), expected, "{edits:?}");
        };
        check(&[], "a\nb\nc");
        check(&[&edit(2, 1, &["x"])], "a\nx\nc");
        check(&[&edit(1, 0, &["x"]), &edit(3, 1, &[])], "x\na\nb\n");
        check(&[&edit(4, 0, &["x"])], "a\nb\nc\nx\n");
        check(&[&edit(1, 2, &["x"]), &edit(2, 1, &["y"])], "x\nc");
        check(&[&edit(9, 1, &["x"])], "a\nb\nc");
    }
}
