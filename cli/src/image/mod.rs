//! `gular image`.

mod build;
mod cargo;
mod check;
mod convert;
mod export;
mod from;
pub(crate) mod hints;
mod inspect;
mod lock;
pub(crate) mod places;
mod pull;
mod pull_object;
mod push;
mod replay;
pub(crate) mod transport;
pub(crate) mod watch;

use clap::{Args, Subcommand};

use self::build::BuildArgs;
use self::check::CheckArgs;
use self::convert::ConvertArgs;
use self::export::ExportArgs;
use self::from::FromArgs;
use self::inspect::InspectArgs;
use self::lock::LockArgs;
use self::pull::PullArgs;
use self::push::PushArgs;
use crate::exit::{Exit, Failure};
use crate::shared::Output;

/// Build, convert, push and pull container images: SIF and OCI
///
/// A recipe is a TOML file: a base, a program, libtorch with NVIDIA's libraries, and the
/// GPUs it must run on. `image.lock` beside it names every package by its digest, so that
/// the same recipe gives the same bytes on any machine. No root, no daemon, no Docker.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular image build image.toml")]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    verb: ImageVerb,
}

#[derive(Debug, Subcommand)]
enum ImageVerb {
    Lock(LockArgs),
    Build(BuildArgs),
    Check(CheckArgs),
    Inspect(InspectArgs),
    Convert(ConvertArgs),
    Pull(PullArgs),
    Push(PushArgs),
    Export(ExportArgs),
    From(FromArgs),
}

pub(crate) fn run(args: &ImageArgs, output: &Output) -> Result<Exit, Failure> {
    match &args.verb {
        ImageVerb::Lock(args) => lock::run(args, output),
        ImageVerb::Build(args) => build::run(args, output),
        ImageVerb::Check(args) => check::run(args, output),
        ImageVerb::Inspect(args) => inspect::run(args, output),
        ImageVerb::Convert(args) => convert::run(args, output),
        ImageVerb::Pull(args) => pull::run(args, output),
        ImageVerb::Push(args) => push::run(args, output),
        ImageVerb::Export(args) => export::run(args, output),
        ImageVerb::From(args) => from::run(args, output),
    }
}
