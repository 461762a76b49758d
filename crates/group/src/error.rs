//! The errors that end a group of ranks.

use std::time::Duration;

/// Why the ranks could not meet, or what ended their training.
///
/// Clones are given to all who wait; after a failure every rank has the same value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank at or past the world size.
    #[error(
        "rank {rank} does not exist in world size {world_size}: ranks count from 0 and must be below the world size"
    )]
    OutOfRange {
        /// The rank.
        rank: u64,
        /// The world size.
        world_size: u64,
    },
    /// An option has an impossible value.
    #[error("option `{option}`: {reason}")]
    Option {
        /// The option's name in [`GroupOptions`](crate::GroupOptions).
        option: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The system gives no thread to watch over the other ranks.
    #[error("cannot start the thread that watches the other ranks: {reason}")]
    Thread {
        /// The operating system's answer.
        reason: String,
    },
    /// No variable says where the ranks meet.
    #[error(
        "the ranks do not know where to find rank 0: the environment variable `{variable}` is not set"
    )]
    NoPlace {
        /// The variable.
        variable: &'static str,
    },
    /// A variable whose value is not a port.
    #[error("the environment variable `{variable}` is `{value}`, expected a port from 1 to 65535")]
    Place {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// The operating system gives no port to listen on, or no more connections.
    #[error("rank {rank} cannot listen on {address}: {reason}")]
    Listen {
        /// The rank.
        rank: u64,
        /// Address and port.
        address: String,
        /// The operating system's answer.
        reason: String,
    },
    /// Rank 0 was not there in time.
    #[error("rank {rank} could not reach rank 0 at {place} within {waited:?}: {reason}")]
    Unreachable {
        /// The rank that tried.
        rank: u64,
        /// Address and port of rank 0.
        place: String,
        /// How long the rank tried.
        waited: Duration,
        /// The error of the last attempt.
        reason: String,
    },
    /// Some ranks did not connect.
    #[error("of {world_size} ranks, these did not reach rank 0 within {waited:?}: {ranks}")]
    Missing {
        /// Their numbers, folded: `3, 7-15`.
        ranks: String,
        /// How many there should be.
        world_size: u64,
        /// How long rank 0 waited.
        waited: Duration,
    },
    /// Ranks that do not belong to the same training run.
    #[error("these ranks do not belong to the same training run: {reason}")]
    Different {
        /// The two ranks, and what they said.
        reason: String,
    },
    /// It was asked to stop before all had connected.
    #[error("stopped before all ranks had connected")]
    Cancelled,
    /// A rank's process, machine or network is gone.
    #[error("rank {rank} ({address}) was lost: {reason}")]
    Lost {
        /// The rank.
        rank: u64,
        /// The rank's address.
        address: String,
        /// How the loss was noticed.
        reason: String,
    },
    /// A rank said that it cannot continue.
    #[error("rank {rank} ({address}) ended the training: {reason}")]
    Failed {
        /// The rank.
        rank: u64,
        /// The rank's address.
        address: String,
        /// The rank's reason.
        reason: String,
    },
    /// Two ranks run but cannot exchange data.
    #[error("rank {rank} has no connection to rank {other}, although both are running: {reason}")]
    Broken {
        /// The rank that noticed it.
        rank: u64,
        /// That rank's neighbour in the ring.
        other: u64,
        /// What the rank noticed.
        reason: String,
    },
    /// No data moved, although all ranks run.
    #[error("{operation} made no progress for {waited:?}: {waiting}")]
    Stalled {
        /// The operation's number, from 1.
        number: u64,
        /// The operation.
        operation: String,
        /// How long no data moved.
        waited: Duration,
        /// The ranks that are waited for.
        waiting: String,
    },
    /// A rank was asked to stop, and the others did not come to what it waited in.
    #[error(
        "rank {rank} was asked to stop, but {operation} then made no progress for {waited:?}: {waiting}"
    )]
    Stopped {
        /// The rank.
        rank: u64,
        /// How long it waited.
        waited: Duration,
        /// The operation.
        operation: String,
        /// The ranks that are waited for.
        waiting: String,
    },
    /// Two ranks do different things.
    #[error("the ranks are not at the same operation: {reason}")]
    Mismatch {
        /// The ranks, and what each does.
        reason: String,
    },
    /// Rank 0 sends more bytes than this rank accepts.
    #[error("rank 0 broadcasts {found} bytes, but rank {rank} accepts at most {limit}")]
    TooLong {
        /// The rank that refuses.
        rank: u64,
        /// Bytes it was sent.
        found: u64,
        /// The rank's limit.
        limit: u64,
    },
}

impl Error {
    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Place { .. } => Some("give all ranks the same port, on which rank 0 listens"),
            Self::NoPlace { .. } => Some(
                "give the host and port of rank 0 as options, or set MASTER_ADDR and MASTER_PORT. torchrun sets both; in a Slurm job, before `srun`: `export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1) MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))`",
            ),
            Self::Listen { .. } => Some(
                "set MASTER_PORT to a free port on all ranks, or raise the limit of open files (`ulimit -n`) for many ranks",
            ),
            Self::Unreachable { .. } => Some(
                "check that rank 0 is running, that MASTER_ADDR is its machine, and that no firewall is in between; this error also appears when more processes than the world size were started",
            ),
            Self::Missing { .. } => Some(
                "check the output of those ranks for errors, and that as many processes were started as the world size",
            ),
            Self::Different { .. } => {
                Some("start all ranks with the same program, data, options and world size")
            }
            Self::Lost { .. } => Some(
                "read that rank's own output, and check its machine (memory, time limit); then resume from the last checkpoint",
            ),
            Self::Broken { .. } => Some(
                "allow every rank to reach every other rank on any port; if the machines have several networks, set the interface option",
            ),
            Self::Stalled { .. } | Self::Mismatch { .. } => {
                Some("make sure that all ranks take the same number of steps with the same model")
            }
            Self::TooLong { .. } => Some(
                "raise the limit of the receiving rank if the broadcast is meant to be this large",
            ),
            Self::OutOfRange { .. } => Some("give each process a rank of its own, counted from 0"),
            Self::Thread { .. } => Some("raise the limit of processes (`ulimit -u`)"),
            Self::Stopped { .. } => Some(
                "see whether the process of the rank named last hangs, then run the same command again",
            ),
            Self::Cancelled | Self::Failed { .. } | Self::Option { .. } => None,
        }
    }

    /// Returns whether the error ended a training run, and is not a mistake in how the group was
    /// called.
    #[must_use]
    pub fn is_end(&self) -> bool {
        !matches!(self, Self::OutOfRange { .. } | Self::Option { .. } | Self::Thread { .. })
    }

    /// Whether a better explanation may still arrive: a rank that cannot exchange data sees the
    /// effect of another's failure, not the failure itself.
    pub(super) fn is_symptom(&self) -> bool {
        matches!(self, Self::Broken { .. } | Self::Stalled { .. })
    }
}

/// Folds sorted numbers: `3, 7-15`.
pub(super) fn fold(ranks: impl IntoIterator<Item = u64>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let show = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.iter().map(show).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_folded() {
        assert_eq!(fold([]), "");
        assert_eq!(fold([3, 7, 8, 9, 12, 13]), "3, 7-9, 12-13");
    }
}
