//! `gular image`.

pub(crate) mod args;
mod build;
mod cargo;
mod check;
mod export;
mod inspect;
mod lock;
mod places;
mod replay;
mod transport;

use self::args::{ImageArgs, ImageVerb};
use crate::exit::{Exit, Failure};
use crate::shared::Output;

pub(crate) fn run(args: &ImageArgs, output: &Output) -> Result<Exit, Failure> {
    match &args.verb {
        ImageVerb::Lock(args) => lock::run(args, output),
        ImageVerb::Build(args) => build::run(args, output),
        ImageVerb::Check(args) => check::run(args, output),
        ImageVerb::Inspect(args) => inspect::run(args, output),
        ImageVerb::Export(args) => export::run(args),
    }
}
