//! Slurm's batch scripts: their `#SBATCH` lines, and the commands below these.

mod check;
mod forms;
mod options;
mod ranks;
mod read;
mod values;

pub(crate) use check::check;
pub(crate) use ranks::own_words;
pub(crate) use read::{Header, Setting, header, is_sbatch};
