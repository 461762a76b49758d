//! `gular job`.

mod hosts;
mod lint;
mod new;
mod overlay;
mod plan;

use clap::{Args, Subcommand};

use crate::exit::{Exit, Failure};
use crate::shared::Output;

/// Write, check and plan jobs for HTCondor and Slurm
///
/// Works on files alone: nothing is submitted, and no batch system is asked.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular job lint train.sub")]
pub(crate) struct JobArgs {
    #[command(subcommand)]
    verb: JobVerb,
}

#[derive(Debug, Subcommand)]
enum JobVerb {
    New(new::NewArgs),
    Lint(lint::LintArgs),
    Plan(plan::PlanArgs),
    Hosts(hosts::HostsArgs),
}

pub(crate) fn run(args: &JobArgs, output: &Output) -> Result<Exit, Failure> {
    match &args.verb {
        JobVerb::Lint(args) => lint::run(args, output),
        JobVerb::Plan(args) => plan::run(args, output),
        JobVerb::New(args) => new::run(args, output),
        JobVerb::Hosts(args) => hosts::run(args, output),
    }
}
