//! Options of `scaling`.

use std::num::NonZeroU16;
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::{Args, Parser as _};

use super::{Cli, TrainArgs, Verb};

/// Measures what more processes add: images per second, efficiency, time in synchronising.
///
/// Trains a few steps with each number of processes, all on this machine. Each process takes
/// `--batch-size` samples of a step and, where there are GPUs, one of them. Nothing is kept.
/// The options of `train` come behind `--`.
///
/// Example: gular-train scaling bundle --ranks 1,2,4 --plot scaling.svg -- --network resnet50
#[derive(Debug, Args)]
pub(crate) struct ScalingArgs {
    /// The bundle, as for `train`
    pub(crate) bundle: String,
    /// Numbers of processes; efficiency is compared with the first
    #[arg(long, value_delimiter = ',', default_value = "1,2,4", value_name = "N,…")]
    pub(crate) ranks: Vec<NonZeroU16>,
    /// Steps to measure with each number, after a few that are not measured
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u64).range(3..=1_000_000))]
    pub(crate) steps: u64,
    /// Draw the figures into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing on the way
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Options of `train`
    #[arg(last = true, value_name = "OPTIONS")]
    pub(crate) options: Vec<String>,
}

impl ScalingArgs {
    /// The training that is measured; its options are found wrong before anything starts.
    pub(crate) fn train(&self) -> Result<TrainArgs> {
        let words = ["gular-train", "train", &self.bundle].into_iter().map(str::to_owned);
        let parsed = Cli::try_parse_from(words.chain(self.options.iter().cloned()));
        match parsed.map_err(|error| own(&error))?.verb {
            Verb::Train(args) if args.place.rank.is_none() => Ok(*args),
            _ => bail!("`scaling` sets the ranks itself; leave out `--rank`"),
        }
    }
}

fn own(error: &clap::Error) -> anyhow::Error {
    let text = error.to_string();
    anyhow!("{}", text.trim_start_matches("error: ").trim_end().to_owned())
}
