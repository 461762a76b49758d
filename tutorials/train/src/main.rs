//! A trainer for images: it trains a network on a bundle, evaluates it, and predicts with it.
//!
//! It is meant to be read and copied: [`train`] is a whole training run, and [`eval`] and
//! [`predict`] use its weights. README.md beside it says where to begin.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program; results go to stdout")]

mod args;
mod confusion;
mod decoder;
mod eval;
mod hints;
mod merge;
mod network;
mod predict;
mod predictions;
mod prepare;
mod progress;
mod scaling;
mod score;
mod table;
mod train;
mod weights;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use gular_runtime::{EXIT_CHECKPOINTED, EXIT_LATER, Error, mask_panic};

use crate::args::{Cli, Verb};
use crate::progress::say;
use crate::train::End;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|info| say!("{}", mask_panic(info))));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            match args::renamed(&error) {
                Some(now) => say!("error: {now}"),
                // Help and version.
                None if !error.use_stderr() => error.exit(),
                None => say!("{}", error.render().to_string().trim_end()),
            }
            return ExitCode::from(2);
        }
    };
    let ended = match &cli.verb {
        Verb::Train(args) => train::run(args),
        Verb::Eval(args) => eval::run(args).map(|()| End::Done),
        Verb::Predict(args) => predict::run(args).map(|()| End::Done),
        Verb::Merge(args) => merge::run(args).map(|()| End::Done),
        Verb::Scaling(args) => scaling::run(args).map(|()| End::Done),
    };
    match ended {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Stopped) => ExitCode::from(EXIT_CHECKPOINTED),
        Err(error) => {
            say!("error: {}", words(&error));
            if let Some(hint) = own(&error).and_then(hints::hint) {
                say!("hint: {hint}");
            }
            let later = own(&error).is_some_and(Error::is_passing);
            ExitCode::from(if later { EXIT_LATER } else { 2 })
        }
    }
}

/// Returns the library's error, if it is one.
fn own(error: &anyhow::Error) -> Option<&Error> {
    error.downcast_ref()
}

/// An error with its causes; the library's own messages say theirs already.
fn words(error: &anyhow::Error) -> String {
    match own(error).map(ToString::to_string) {
        Some(own) if error.to_string() == own => own,
        Some(own) => format!("{error}: {own}"),
        None => format!("{error:#}"),
    }
}
