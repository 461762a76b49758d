//! Flags that several verbs have.

use std::num::NonZeroUsize;

use clap::Args;

use crate::units;

/// What is shown, for every verb.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Print the result as one JSON object on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No progress and no summary; errors and faults are still shown
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// How many threads work, for each verb that starts some.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Jobs {
    /// Threads [default: the cores this process may use]
    #[arg(long, short, value_name = "N", value_parser = units::jobs)]
    jobs: Option<NonZeroUsize>,
}

impl Jobs {
    pub(crate) fn count(self) -> usize {
        self.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, usize::from)
    }
}
