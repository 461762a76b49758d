//! How serious findings are.

use serde::Serialize;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The tool refuses the file or holds the job, or results are lost.
    Error,
    /// The job may fail or lose its result, or waits longer than it must.
    Warning,
    /// The file is right; this is worth knowing.
    Note,
}
