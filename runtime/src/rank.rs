//! Finds rank and world size of this process, from options or from its launcher.

use std::fmt;
use std::thread;

use gular_files::Env;

use crate::Error;

/// Where the rank of this process comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankSource {
    /// Options of the program give the rank.
    Explicit,
    /// torchrun gives it: `RANK`, `WORLD_SIZE`.
    Torchrun,
    /// A Slurm step: `SLURM_PROCID`, `SLURM_NTASKS`.
    Slurm,
    /// Open MPI: `OMPI_COMM_WORLD_RANK`, `OMPI_COMM_WORLD_SIZE`.
    OpenMpi,
    /// `PMIX_RANK`, with the size of a Slurm step or Open MPI.
    Pmix,
    /// Cray and MPICH give it: `PMI_RANK`, `PMI_SIZE`.
    Pmi,
    /// MVAPICH2: `MV2_COMM_WORLD_RANK`, `MV2_COMM_WORLD_SIZE`.
    Mvapich2,
    /// HTCondor's parallel universe: `_CONDOR_PROCNO`, `_CONDOR_NPROCS`.
    Condor,
    /// There is no launcher: a single process.
    Single,
}

/// Why the rank of this process cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RankError {
    /// A variable of the environment that should be a number.
    #[error(
        "the environment variable `{variable}` is `{value}`, expected a whole number, 0 or more"
    )]
    Value {
        /// The variable.
        variable: &'static str,
        /// The variable's value.
        value: String,
    },
    /// A launcher that gave only one of two settings.
    #[error("the environment variable `{given}` is set, but `{missing}` is not")]
    Half {
        /// The setting that is given.
        given: &'static str,
        /// The setting that is missing.
        missing: &'static str,
    },
    /// A rank that is not below its world size.
    #[error(
        "rank {rank} does not exist in world size {world_size} ({origin}): ranks count from 0 and must be below the world size"
    )]
    OutOfRange {
        /// The rank.
        rank: u64,
        /// The world size.
        world_size: u64,
        /// The source of these values.
        origin: &'static str,
    },
    /// Two launchers say different things about this process.
    #[error("the launcher's environment is contradictory: {first}, but {second}")]
    Conflict {
        /// The first source, its rank and world size.
        first: String,
        /// The second source, its rank and world size.
        second: String,
    },
}

impl RankError {
    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Half { .. } => {
                "set both variables, or none of the two if the process trains alone"
            }
            Self::OutOfRange { origin: "options", .. } => {
                "start as many processes as the world size says, with ranks from 0"
            }
            Self::Value { .. } | Self::OutOfRange { .. } | Self::Conflict { .. } => {
                "give rank and world size as options, which take precedence over the environment"
            }
        })
    }
}

/// The rank of this process among the processes of a training run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// The number of this process, from 0.
    pub rank: u64,
    /// The number of all processes, at least 1.
    pub world_size: u64,
    /// The number of this process on its machine, from 0; 0 if the launcher does not say.
    pub local_rank: u64,
    /// The source of these values.
    pub source: RankSource,
}

impl Ranks {
    /// Finds the rank: `explicit` (rank, world size), else the first launcher
    /// in the order of [`RankSource`] that gave both numbers, else one process alone.
    ///
    /// Options go before everything and are compared with nothing. Launchers are
    /// compared with each other, since a wrong rank silently trains on the
    /// wrong data. torchrun's own agent, known by `GROUP_RANK`, is the exception:
    /// it is often started once a node by another launcher, whose ranks then count nodes.
    ///
    /// # Errors
    /// [`RankError::Value`] for a variable that is not a number;
    /// [`RankError::Half`] for `RANK` or `WORLD_SIZE` alone;
    /// [`RankError::OutOfRange`] when the rank is not below the world size;
    /// [`RankError::Conflict`] when two launchers differ.
    pub fn discover(explicit: Option<(u64, u64)>, env: &Env) -> Result<Self, Error> {
        if let Some((rank, world_size)) = explicit {
            let source = RankSource::Explicit;
            let ranks = Self { rank, world_size, local_rank: 0, source };
            return Ok(ranks.with_local_rank(&launchers(env).unwrap_or_default()).checked()?);
        }
        let found = launchers(env)?;
        let Some(first) = found.first().map(Found::ranks) else {
            // If each process trained alone, all would save to the same place.
            for (given, missing) in [("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")] {
                if env.get(given).is_some() && env.get(missing).is_none() {
                    return Err(RankError::Half { given, missing }.into());
                }
            }
            return Ok(Self { rank: 0, world_size: 1, local_rank: 0, source: RankSource::Single });
        };
        let first = first.with_local_rank(&found).checked()?;
        if first.source == RankSource::Torchrun && env.get("GROUP_RANK").is_some() {
            return Ok(first);
        }
        for other in found.iter().map(Found::ranks) {
            let other = other.checked()?;
            if !first.agrees(&other) {
                let [first, second] = [first, other].map(|ranks| ranks.to_string());
                return Err(RankError::Conflict { first, second }.into());
            }
        }
        Ok(first)
    }

    /// Returns this rank's place among the ranks that meet.
    #[cfg(feature = "torch")]
    #[must_use]
    pub fn seat(&self) -> gular_group::Seat {
        gular_group::Seat { rank: self.rank, world_size: self.world_size }
    }

    fn checked(self) -> Result<Self, RankError> {
        let Self { rank, world_size, source, .. } = self;
        if rank < world_size {
            return Ok(self);
        }
        Err(RankError::OutOfRange { rank, world_size, origin: source.name() })
    }

    fn agrees(&self, other: &Self) -> bool {
        (self.rank, self.world_size) == (other.rank, other.world_size)
    }

    /// Takes the local rank of the first launcher that means the same process and says one.
    fn with_local_rank(self, found: &[Found]) -> Self {
        let local_rank = found
            .iter()
            .filter(|other| self.agrees(&other.ranks()))
            .find_map(|other| other.local_rank)
            .unwrap_or(0);
        Self { local_rank, ..self }
    }
}

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} ({})", self.rank, self.world_size, self.source.name())
    }
}

impl RankSource {
    /// The name of the source, with its environment variables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Explicit => "options",
            Self::Torchrun => "torchrun: RANK, WORLD_SIZE",
            Self::Slurm => "Slurm step: SLURM_PROCID, SLURM_NTASKS",
            Self::OpenMpi => "Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE",
            Self::Pmix => "PMIx: PMIX_RANK",
            Self::Pmi => "PMI: PMI_RANK, PMI_SIZE",
            Self::Mvapich2 => "MVAPICH2: MV2_COMM_WORLD_RANK, MV2_COMM_WORLD_SIZE",
            Self::Condor => "HTCondor: _CONDOR_PROCNO, _CONDOR_NPROCS",
            Self::Single => "one process",
        }
    }
}

/// Returns how many cores decoding may use: those this process may run on (affinity and cgroup
/// quota), or `OMP_NUM_THREADS` when that is fewer. HTCondor sets it to the slot's cores.
///
/// torchrun sets that to 1 for several processes on a machine, whatever cores there are, and
/// binds none to any: there they share the cores, by `LOCAL_WORLD_SIZE`.
/// Slurm jobs often see one core only; warn when this is below the threads asked for.
#[must_use]
pub fn available_cores(env: &Env) -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let local = env.get("LOCAL_WORLD_SIZE").and_then(|n| n.parse::<usize>().ok());
    if let Some(local) = local.filter(|n| *n > 1)
        && env.get("OMP_NUM_THREADS") == Some("1")
    {
        return (cores / local).max(1);
    }
    // A list gives one number per nesting level; the first is the outermost.
    let omp = env.get("OMP_NUM_THREADS").and_then(|text| text.split(',').next());
    match omp.and_then(|text| text.trim().parse().ok()) {
        Some(threads) if threads > 0 => cores.min(threads),
        _ => cores,
    }
}

/// A launcher that gave rank and world size.
#[derive(Debug, Clone, Copy)]
struct Found {
    source: RankSource,
    rank: u64,
    world_size: u64,
    local_rank: Option<u64>,
}

impl Found {
    fn ranks(&self) -> Ranks {
        let Self { source, rank, world_size, local_rank } = *self;
        Ranks { rank, world_size, local_rank: local_rank.unwrap_or(0), source }
    }
}

/// Returns all launchers that gave both numbers, those with higher precedence first.
fn launchers(env: &Env) -> Result<Vec<Found>, RankError> {
    // In the batch shell these variables are set, too, as for task 0 of a step.
    let in_step = env.get("SLURM_STEP_ID").is_some();
    let slurm = |name: &'static str| if in_step { name } else { "" };
    let pmix_size = if in_step && env.get("SLURM_NTASKS").is_some() {
        "SLURM_NTASKS"
    } else {
        "OMPI_COMM_WORLD_SIZE"
    };
    let table = [
        (RankSource::Torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK"),
        (RankSource::Slurm, slurm("SLURM_PROCID"), slurm("SLURM_NTASKS"), slurm("SLURM_LOCALID")),
        (
            RankSource::OpenMpi,
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
        ),
        (RankSource::Pmix, "PMIX_RANK", pmix_size, ""),
        (RankSource::Pmi, "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK"),
        (
            RankSource::Mvapich2,
            "MV2_COMM_WORLD_RANK",
            "MV2_COMM_WORLD_SIZE",
            "MV2_COMM_WORLD_LOCAL_RANK",
        ),
        (RankSource::Condor, "_CONDOR_PROCNO", "_CONDOR_NPROCS", ""),
    ];
    let mut found = Vec::new();
    for (source, rank, world_size, local_rank) in table {
        if env.get(rank).is_none() || env.get(world_size).is_none() {
            continue;
        }
        if let (Some(rank), Some(world_size)) = (number(env, rank)?, number(env, world_size)?) {
            let local_rank = number(env, local_rank)?;
            found.push(Found { source, rank, world_size, local_rank });
        }
    }
    Ok(found)
}

fn number(env: &Env, variable: &'static str) -> Result<Option<u64>, RankError> {
    let parse = |value: &str| {
        value.parse().map_err(|_| RankError::Value { variable, value: value.to_owned() })
    };
    env.get(variable).map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs = [(&'static str, &'static str)];

    fn check(pairs: &Pairs, expected: (u64, u64, u64, RankSource)) {
        let ranks = Ranks::discover(None, &Env::from_pairs(pairs)).unwrap();
        let (rank, world_size, local_rank, source) = expected;
        assert_eq!(ranks, Ranks { rank, world_size, local_rank, source }, "{pairs:?}");
    }

    fn check_error(explicit: Option<(u64, u64)>, pairs: &Pairs, expected: &str) {
        let error = Ranks::discover(explicit, &Env::from_pairs(pairs)).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(error.hint().is_some());
    }

    const SLURM: [(&str, &str); 4] = [
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "5"),
        ("SLURM_NTASKS", "8"),
        ("SLURM_LOCALID", "1"),
    ];

    fn with(base: &Pairs, more: &Pairs) -> Vec<(&'static str, &'static str)> {
        [base, more].concat()
    }

    #[test]
    fn each_launcher_is_known() {
        check(&[], (0, 1, 0, RankSource::Single));
        let torchrun = [("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1")];
        check(&torchrun, (3, 4, 1, RankSource::Torchrun));
        check(&SLURM, (5, 8, 1, RankSource::Slurm));
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "2"),
            ("OMPI_COMM_WORLD_SIZE", "3"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
        ];
        check(&open_mpi, (2, 3, 2, RankSource::OpenMpi));
        let pmi = [("PMI_RANK", "6"), ("PMI_SIZE", "12"), ("PMI_LOCAL_RANK", "2")];
        check(&pmi, (6, 12, 2, RankSource::Pmi));
        let mvapich2 = [
            ("MV2_COMM_WORLD_RANK", "1"),
            ("MV2_COMM_WORLD_SIZE", "2"),
            ("MV2_COMM_WORLD_LOCAL_RANK", "1"),
        ];
        check(&mvapich2, (1, 2, 1, RankSource::Mvapich2));
        let condor = [("_CONDOR_PROCNO", "7"), ("_CONDOR_NPROCS", "9")];
        check(&condor, (7, 9, 0, RankSource::Condor));
    }

    #[test]
    fn pmix_takes_its_size_from_slurm_or_open_mpi() {
        let size_of_step = [("PMIX_RANK", "5"), ("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "8")];
        check(&size_of_step, (5, 8, 0, RankSource::Pmix));
        let size_of_mpi = [("PMIX_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        check(&size_of_mpi, (1, 2, 0, RankSource::Pmix));
        check(&[("PMIX_RANK", "1")], (0, 1, 0, RankSource::Single));
        check(&[("PMIX_RANK", "1"), ("SLURM_NTASKS", "2")], (0, 1, 0, RankSource::Single));
    }

    #[test]
    fn slurm_counts_inside_a_step_only() {
        check(&SLURM[1..], (0, 1, 0, RankSource::Single));
    }

    #[test]
    fn incomplete_launchers_are_passed_over() {
        check(&with(&[("RANK", "3")], &SLURM), (5, 8, 1, RankSource::Slurm));
        check(&with(&[("WORLD_SIZE", "")], &SLURM), (5, 8, 1, RankSource::Slurm));
    }

    #[test]
    fn launchers_that_agree_fill_each_other_in() {
        let both = with(&SLURM, &[("PMI_RANK", "5"), ("PMI_SIZE", "8"), ("PMIX_RANK", "5")]);
        check(&both, (5, 8, 1, RankSource::Slurm));
        let by_hand = with(&SLURM, &[("RANK", "5"), ("WORLD_SIZE", "8")]);
        check(&by_hand, (5, 8, 1, RankSource::Torchrun));
    }

    #[test]
    fn torchrun_in_a_slurm_step_counts_processes_not_nodes() {
        let more = [("RANK", "21"), ("WORLD_SIZE", "32"), ("LOCAL_RANK", "1"), ("GROUP_RANK", "5")];
        check(&with(&SLURM, &more), (21, 32, 1, RankSource::Torchrun));
    }

    #[test]
    fn options_go_before_everything() {
        let env = Env::from_pairs(&SLURM);
        let ranks = Ranks::discover(Some((1, 2)), &env).unwrap();
        assert_eq!((ranks.rank, ranks.world_size, ranks.local_rank), (1, 2, 0));
        assert_eq!(ranks.source, RankSource::Explicit);
        let same = Ranks::discover(Some((5, 8)), &env).unwrap();
        assert_eq!((same.rank, same.local_rank, same.source), (5, 1, RankSource::Explicit));
        let nonsense = Env::from_pairs(&[("RANK", "x"), ("WORLD_SIZE", "y")]);
        assert_eq!(Ranks::discover(Some((0, 1)), &nonsense).unwrap().world_size, 1);
    }

    #[test]
    fn contradictions_are_errors() {
        check_error(
            None,
            &with(&SLURM, &[("RANK", "0"), ("WORLD_SIZE", "8")]),
            "the launcher's environment is contradictory: rank 0 of 8 (torchrun: RANK, WORLD_SIZE), but rank 5 of 8 \
             (Slurm step: SLURM_PROCID, SLURM_NTASKS)",
        );
        check_error(
            None,
            &with(&SLURM, &[("PMIX_RANK", "4")]),
            "the launcher's environment is contradictory: rank 5 of 8 (Slurm step: SLURM_PROCID, SLURM_NTASKS), but rank 4 of 8 \
             (PMIx: PMIX_RANK)",
        );
        check_error(
            None,
            &[("RANK", "4"), ("WORLD_SIZE", "4")],
            "rank 4 does not exist in world size 4 (torchrun: RANK, WORLD_SIZE): \
             ranks count from 0 and must be below the world size",
        );
        check_error(
            None,
            &[("RANK", "1")],
            "the environment variable `RANK` is set, but `WORLD_SIZE` is not",
        );
        check_error(
            None,
            &[("WORLD_SIZE", "2"), ("RANK", "")],
            "the environment variable `WORLD_SIZE` is set, but `RANK` is not",
        );
        check_error(
            Some((0, 0)),
            &[],
            "rank 0 does not exist in world size 0 (options): ranks count from 0 and must be below the world size",
        );
        check_error(
            None,
            &[("PMI_RANK", "-1"), ("PMI_SIZE", "4")],
            "the environment variable `PMI_RANK` is `-1`, expected a whole number, 0 or more",
        );
    }

    #[test]
    fn processes_of_torchrun_share_the_cores() {
        let all = available_cores(&Env::default());
        let cores = |omp, local| {
            let pairs = [("OMP_NUM_THREADS", omp), ("LOCAL_WORLD_SIZE", local)];
            available_cores(&Env::from_pairs(&pairs))
        };
        assert_eq!(cores("1", "2"), (all / 2).max(1));
        assert_eq!(cores("1", "1000"), 1);
        // There is one process, or a number that the user chose.
        assert_eq!(cores("1", "1"), 1);
        assert_eq!(cores("2", "2"), all.min(2));
    }

    #[test]
    fn cores_are_limited_by_omp_num_threads() {
        let cores = |value| available_cores(&Env::from_pairs(&[("OMP_NUM_THREADS", value)]));
        let all = available_cores(&Env::default());
        assert!(all >= 1);
        assert_eq!(cores("1"), 1);
        assert_eq!(cores("1,4"), 1);
        for unlimited in ["1000000", "0", "many", "", "-2"] {
            assert_eq!(cores(unlimited), all, "{unlimited}");
        }
    }
}
