//! A finding of a check, and how to repair it.

use std::ops::Range;

use serde::Serialize;

use crate::disk::{Disk, foreign};
use crate::rules::{self, Rule};
use crate::severity::Severity;

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
    pub why: &'static str,
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

    /// Adds a finding of `rule`, with the rule's own fix.
    pub(crate) fn add(
        &mut self,
        rule: &'static Rule,
        line: usize,
        what: impl Into<String>,
    ) -> &mut JobFinding {
        self.findings.push(JobFinding {
            rule: rule.name,
            severity: rule.severity,
            file: self.file.clone(),
            line: line.max(1),
            what: what.into(),
            why: rule.why,
            fix: rule.fix.to_owned(),
            edit: None,
        });
        self.findings.last_mut().expect("one was just pushed")
    }

    /// Adds a finding of `rule`: `path` does not exist. On a machine that does not have even the
    /// path's first folder this is unknown, and a note says so.
    pub(crate) fn absent(
        &mut self,
        rule: &'static Rule,
        line: usize,
        path: &str,
        disk: &dyn Disk,
    ) -> &mut JobFinding {
        let is_systems =
            ["/usr/", "/bin/", "/sbin/", "/opt/"].iter().any(|top| path.starts_with(top));
        match foreign(path, disk) {
            _ if is_systems => {
                let what = format!("this machine has no program `{path}`");
                self.add(&rules::ELSEWHERE, line, what)
            }
            Some(top) => {
                let what = format!("`{path}` was not looked up: this machine has no `{top}`");
                self.add(&rules::ELSEWHERE, line, what)
            }
            None => self.add(rule, line, format!("`{path}` does not exist")),
        }
    }
}

impl JobFinding {
    /// Says more exactly what to write.
    pub(crate) fn fix(&mut self, fix: impl Into<String>) -> &mut Self {
        self.fix = fix.into();
        self
    }
}

impl Edit {
    /// The edit that puts `with` in place of the bytes `range` of `text`, all of them in `line`.
    pub(crate) fn within(text: &str, line: usize, range: Range<usize>, with: &str) -> Option<Self> {
        let head = text.get(..range.start)?.rsplit('\n').next().unwrap_or_default();
        let tail = text.get(range.end..)?.split('\n').next().unwrap_or_default();
        Some(Self { line, count: 1, lines: vec![format!("{head}{with}{tail}")] })
    }

    /// Returns `text` with this edit; as it is if it has no such line.
    pub(crate) fn of(&self, text: &str) -> String {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let first = self.line.saturating_sub(1);
        let end = first.saturating_add(self.count).min(lines.len());
        let (Some(above), Some(below)) = (lines.get(..first), lines.get(end..)) else {
            return text.to_owned();
        };
        let mut out = above.concat();
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        for line in &self.lines {
            out.push_str(line);
            out.push('\n');
        }
        out + &below.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_replace_and_insert() {
        let check = |line, count, lines: &[&str], expected: &str| {
            let lines = lines.iter().map(|&line| line.to_owned()).collect();
            assert_eq!(Edit { line, count, lines }.of("a\nb\nc"), expected, "{line} {count}");
        };
        check(2, 1, &["x"], "a\nx\nc");
        check(1, 0, &["x"], "x\na\nb\nc");
        check(3, 1, &[], "a\nb\n");
        check(4, 0, &["x"], "a\nb\nc\nx\n");
        check(1, 2, &["x"], "x\nc");
        check(9, 1, &["x"], "a\nb\nc");
    }
}
