//! `gular job why`: why a job is idle, held or failed, from what the batch system's tools print.
//!
//! ```text
//! a log, condor_q, scontrol, sacct, squeue ──read──▶ facts of each job ──CAUSES──▶ reason, remedy
//! ```

mod causes;
mod condor;
mod slurm;

use serde::Serialize;

use causes::Sign;
pub use causes::{CAUSES, Cause};
pub use condor::EventLog;

/// What became of a job, as far as a text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// The job waits.
    Idle,
    /// The job waits until somebody releases it.
    Held,
    /// The job runs, or is about to.
    Running,
    /// The job's program ended, and the batch system cleans up after it.
    Ending,
    /// The job ended with an error, or was stopped.
    Failed,
    /// Somebody removed the job.
    Removed,
    /// The job ended without an error.
    Done,
    /// The text does not say it, or not in words that are known here.
    Unread,
}

impl JobState {
    /// The state with its verb, as in `job 1.0 is held`.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Self::Idle => "is idle",
            Self::Held => "is held",
            Self::Running => "is running",
            Self::Ending => "is ending",
            Self::Failed => "failed",
            Self::Removed => "was removed",
            Self::Done => "is done",
            Self::Unread => "is in a state that cannot be read",
        }
    }
}

/// Of longer texts, only the beginning is shown.
const MAX_SAID_CHARS: usize = 400;

/// Why one job is in its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobReason {
    /// The job's number, as its batch system writes it.
    pub job: String,
    /// Its state; `unread` if it cannot be read from the text.
    pub state: JobState,
    /// Why, as a part of a sentence; empty if there is nothing to say.
    pub why: String,
    /// What to do; empty for jobs that are running or done.
    pub remedy: String,
    /// What the batch system itself said.
    pub said: String,
    /// What the reason rests on; empty if Gular does not know it.
    pub source: &'static str,
}

impl JobReason {
    fn new(job: &str, state: JobState) -> Self {
        Self {
            job: job.to_owned(),
            state,
            why: String::new(),
            remedy: String::new(),
            said: String::new(),
            source: "",
        }
    }

    /// Takes reason and remedy from the first cause with one of `signs`, in this order.
    fn because(mut self, signs: &[Sign]) -> Self {
        let found = signs.iter().find_map(|sign| CAUSES.iter().find(|cause| cause.sign == *sign));
        if let Some(cause) = found {
            cause.why.clone_into(&mut self.why);
            let array = self.job.split('_').next().unwrap_or_default();
            // Slurm's commands do not take `12_[0-9%4]`: there the whole array is meant.
            let job = if self.job.contains('[') { array } else { &self.job };
            self.remedy = cause.remedy.replace("ARRAY", array).replace("JOB", job);
            self.source = cause.source;
        }
        self
    }

    /// Does the same with a cause that is known by its message.
    fn says(mut self, text: &str) -> Self {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let lower = text.to_lowercase();
        let found = CAUSES.iter().find(|cause| match cause.sign {
            Sign::Text(words) => words.iter().all(|word| lower.contains(word)),
            _ => false,
        });
        self.said = text.chars().take(MAX_SAID_CHARS).collect();
        match found {
            Some(cause) => self.because(&[cause.sign]),
            None => self,
        }
    }

    /// The reason of a job that ended with an exit code or was stopped by a signal.
    fn ended(job: &str, code: Option<i64>, signal: Option<i64>) -> Self {
        let failed = |said: String, code: i64, other: Sign| {
            let exit = u32::try_from(code).map_or(other, Sign::Exit);
            Self { said, ..Self::new(job, JobState::Failed).because(&[exit, other]) }
        };
        match (code, signal) {
            (_, Some(signal)) if signal > 0 => {
                failed(format!("signal {signal}"), signal.saturating_add(128), Sign::Signal)
            }
            (Some(0), _) => Self::new(job, JobState::Done),
            (Some(code), _) => failed(format!("exit code {code}"), code, Sign::Exit(1)),
            (None, _) => {
                let said = "it ended, without an exit code".to_owned();
                Self { said, ..Self::new(job, JobState::Unread) }
            }
        }
    }
}

/// Returns the reason of each job that `text` describes; none if it is not the output of a tool
/// that is known here.
#[must_use]
pub fn why(text: &str) -> Vec<JobReason> {
    let readers =
        [condor::analysis, condor::log, condor::holds, condor::ads, slurm::scontrol, slurm::table];
    readers.into_iter().map(|read| read(text)).find(|found| !found.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_whole_and_stands_once() {
        for (i, cause) in CAUSES.iter().enumerate() {
            for text in [cause.why, cause.remedy, cause.source] {
                assert!(text.len() > 3 && !text.ends_with('.'), "{cause:?}");
            }
            assert!(CAUSES.iter().skip(i + 1).all(|other| other.sign != cause.sign), "{cause:?}");
            if let Sign::Text(words) = cause.sign {
                assert!(words.iter().all(|word| *word == word.to_lowercase()), "{cause:?}");
            }
        }
    }

    #[test]
    fn what_is_not_a_tools_output_says_nothing() {
        let prose = "the JobID and the State\nof a job\n";
        for text in ["", "hello\n", "a = 1\nqueue\n", "é (1.2", "JOBID\n", prose, "000 ("] {
            assert_eq!(why(text), [], "{text}");
        }
    }
}
