//! Wrapper scripts and training programs, parsed only roughly: the checks find what a person sees
//! at a glance.

pub(crate) mod python;
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
}
