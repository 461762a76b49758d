//! Project tasks: `cargo xtask VERB`.
//!
//! Every verb that builds something first runs [`setup`]: it looks for the
//! build tools, then puts libtorch (and cmake, where it is absent) into the
//! target folder. Nothing outside that folder is touched.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program, not a library")]

use std::process::exit;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod bench;
mod cargo;
mod ci;
mod demo;
mod image;
mod lint;
mod peers;
mod process;
mod setup;
mod test;
mod workspace;

/// Project tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Setup(setup::Args),
    Demo(demo::Args),
    Test(test::Args),
    Lint(lint::Args),
    Image(image::Args),
    Bench(bench::Args),
    Peers(peers::Args),
    Ci(ci::Args),
}

fn main() {
    if let Err(error) = run(Cli::parse().verb) {
        eprintln!("error: {error:#}");
        exit(2);
    }
}

fn run(verb: Verb) -> Result<()> {
    match verb {
        Verb::Setup(args) => setup::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Test(args) => test::run(&args),
        Verb::Lint(args) => lint::run(&args),
        Verb::Image(args) => image::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Peers(args) => peers::run(&args),
        Verb::Ci(args) => ci::run(&args),
    }
}
