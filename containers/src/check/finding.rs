//! One finding about an image.

use std::fmt;

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The image would fail somewhere where it should run, so no image is made.
    Error,
    /// The image may fail, or harm somebody.
    Warning,
    /// The finding is good to know.
    Note,
}

/// One thing to know about an image. Ordered by severity, rule, subject.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How serious the finding is.
    pub severity: Severity,
    /// The rule's name: lower-case words with `-` between.
    pub rule: &'static str,
    /// The path in the image, or the setting, that the finding is about.
    pub subject: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to do about the finding, if anything is known.
    pub hint: Option<String>,
}

impl Finding {
    pub(super) fn new(
        severity: Severity,
        rule: &'static str,
        subject: &(impl fmt::Display + ?Sized),
        message: impl Into<String>,
    ) -> Self {
        Self { severity, rule, subject: subject.to_string(), message: message.into(), hint: None }
    }

    pub(super) fn error(
        rule: &'static str,
        subject: &(impl fmt::Display + ?Sized),
        message: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Error, rule, subject, message)
    }

    pub(super) fn warning(
        rule: &'static str,
        subject: &(impl fmt::Display + ?Sized),
        message: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Warning, rule, subject, message)
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
