//! `gular job`.

mod data;
mod folder;
mod hosts;
mod image;
mod lint;
mod measure;
mod new;
mod overlay;
mod pack;
mod plan;
mod site_file;
mod sources;
mod sweep;
mod translate;
mod why;

use clap::{Args, Subcommand};

use crate::exit::{Exit, Failure};
use crate::shared::Output;

/// Write, check, measure and plan jobs for HTCondor and Slurm
///
/// Nothing is submitted: these verbs read and write files, `measure` runs a command on this machine,
/// and `why` asks the batch system of this machine when it gets a job's number.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular job lint train.sub")]
pub(crate) struct JobArgs {
    #[command(subcommand)]
    verb: JobVerb,
}

#[derive(Debug, Subcommand)]
enum JobVerb {
    New(Box<new::NewArgs>),
    Pack(Box<pack::PackArgs>),
    Lint(lint::LintArgs),
    Why(why::WhyArgs),
    Translate(translate::TranslateArgs),
    Measure(measure::MeasureArgs),
    Plan(plan::PlanArgs),
    Hosts(hosts::HostsArgs),
}

pub(crate) fn run(args: &JobArgs, output: &Output) -> Result<Exit, Failure> {
    match &args.verb {
        JobVerb::Lint(args) => lint::run(args, output),
        JobVerb::Why(args) => why::run(args, output),
        JobVerb::Translate(args) => translate::run(args, output),
        JobVerb::Measure(args) => measure::run(args, output),
        JobVerb::Plan(args) => plan::run(args, output),
        JobVerb::New(args) => new::run(args, output),
        JobVerb::Pack(args) => pack::run(args, output),
        JobVerb::Hosts(args) => hosts::run(args, output),
    }
}
