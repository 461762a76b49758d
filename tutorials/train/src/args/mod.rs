//! The command line.

mod augment;
mod scaling;
mod score;
mod train;

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gular_runtime::torch::Compute;
use gular_runtime::{Depth, Digest};

pub(crate) use scaling::ScalingArgs;
pub(crate) use score::{EvalArgs, MergeArgs, Part, PredictArgs, ScoreArgs};
pub(crate) use train::{Drawn, Precision, Resume, Scaled, TrainArgs, Unknown};

/// Trains an image classifier on a bundle, evaluates it, and predicts with it.
#[derive(Debug, Parser)]
#[command(name = "gular-train", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Train(Box<TrainArgs>),
    Eval(Box<EvalArgs>),
    Predict(Box<PredictArgs>),
    Merge(MergeArgs),
    Scaling(ScalingArgs),
}

// The bundle, and how it is read.
#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    /// A folder with `manifest.json`, as `gular pack` makes it, or the `URL#blake3=…` that
    /// `gular publish` prints; that is fetched once for all processes of this machine
    pub(crate) bundle: String,
    /// Where fetched bundles are kept [default: GULAR_CACHE, else the job's scratch folder, else
    /// below /tmp]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// The digest the bundle must have, as `gular pack` prints it
    #[arg(long, value_name = "blake3:HEX", value_parser = Digest::parse)]
    pub(crate) digest: Option<Digest>,
    /// Samples per step, of each process
    #[arg(long, default_value = "32", value_name = "N")]
    pub(crate) batch_size: NonZeroUsize,
    /// Threads that decode images [default: the cores this process may use]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Ignore the EXIF orientation of pictures, as torchvision does
    #[arg(long)]
    pub(crate) ignore_exif: bool,
    /// Print a summary as JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Time between progress lines when stderr is not a terminal; 0 prints one per step
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub(crate) log_every: u64,
    /// Say nothing on the way; errors and warnings are still printed
    #[arg(long)]
    pub(crate) quiet: bool,
}

impl DataArgs {
    pub(crate) fn log_every(&self) -> Duration {
        Duration::from_secs(self.log_every)
    }
}

// Where it computes, and with whom.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Threads that compute; part of what makes a training run reproducible
    #[arg(long, default_value = "1", value_name = "N")]
    pub(crate) torch_threads: NonZeroUsize,
    /// Where to compute: `auto` takes a GPU if there is one that works, `cuda` insists on
    /// one, `cuda:N` on that one, `cpu` uses no GPU
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    pub(crate) device: Compute,
    /// Which of the processes this is, from 0 [default: as the launcher says]
    #[arg(long, value_name = "N", requires = "world_size")]
    pub(crate) rank: Option<u64>,
    /// How many processes work together [default: as the launcher says]
    #[arg(long, value_name = "N", requires = "rank")]
    pub(crate) world_size: Option<u64>,
    /// Where rank 0 runs; the others come to it [default: MASTER_ADDR]
    #[arg(long, value_name = "HOST", requires = "master_port")]
    pub(crate) master_addr: Option<String>,
    /// The port rank 0 waits at [default: MASTER_PORT]
    #[arg(long, value_name = "PORT", requires = "master_addr", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) master_port: Option<u16>,
    /// This machine's address for gradients, if it has several networks; name that of the
    /// fastest [default: the address from which it reached rank 0]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) interface: Option<IpAddr>,
    /// How long the processes wait for each other at the start
    #[arg(long, default_value_t = 600, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rendezvous_timeout: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bits {
    /// As the bundle says
    Stored,
    /// 8, of 16 the high byte
    #[value(name = "8")]
    Eight,
    /// 16, those of 8 bits times 257
    #[value(name = "16")]
    Sixteen,
}

impl Bits {
    /// Returns the number that stands for it in figures and weights.
    pub(crate) fn number(self) -> u32 {
        [0, 8, 16][self as usize]
    }
}

impl From<Bits> for Depth {
    fn from(bits: Bits) -> Self {
        match bits {
            Bits::Stored => Self::Stored,
            Bits::Eight => Self::U8,
            Bits::Sixteen => Self::U16,
        }
    }
}

/// Returns the new name of an option or verb, if the error is about a former one.
pub(crate) fn renamed(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    let flag = of(ContextKind::InvalidArg).and_then(|flag| flag.split('=').next());
    match (flag, of(ContextKind::InvalidSubcommand)) {
        (Some("--threads"), _) => Some("`--threads` is now called `--jobs`".into()),
        (Some("--scaling"), _) => Some(
            "`--scaling` is an option of `gular-train train`, for JPEGs\nhint: to measure how \
            training scales, use `gular-train scaling BUNDLE --ranks 1,2,4`"
                .into(),
        ),
        (_, Some(word)) => Some(format!(
            "`{word}` is not a verb; expected `train`, `eval`, `predict`, `merge` or `scaling`\n\
             hint: what was `gular-train BUNDLE …` is now `gular-train train BUNDLE …`"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn verbs_without_an_order_do_not_speak_of_one() {
        use clap::CommandFactory as _;
        for verb in ["eval", "predict"] {
            let mut command = Cli::command();
            let help = command.find_subcommand_mut(verb).unwrap().render_long_help().to_string();
            assert!(!help.contains("window") && !help.contains("--cache-limit"), "{help}");
        }
    }

    #[test]
    fn former_names_are_answered_with_those_of_today() {
        let said = |words: &[&str]| renamed(&Cli::try_parse_from(words).unwrap_err());
        let verb = said(&["gular-train", "bundle", "--epochs", "3"]).unwrap();
        assert!(verb.contains("`bundle` is not a verb") && verb.contains("gular-train train"));
        let flag = said(&["gular-train", "train", "bundle", "--threads=3"]).unwrap();
        assert!(flag.contains("`--jobs`"));
        let scaling = said(&["gular-train", "--scaling", "1,2,4"]).unwrap();
        assert!(scaling.contains("gular-train scaling BUNDLE --ranks 1,2,4"), "{scaling}");
        assert_eq!(said(&["gular-train", "train"]), None);
    }
}
