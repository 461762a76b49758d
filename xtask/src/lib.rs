//! Project tasks: `cargo xtask VERB`.
//!
//! Every verb that builds something first runs [`setup`]: it looks for the
//! build tools, then puts libtorch, and the tools of libjpeg-turbo that are
//! absent, into the target folder. Nothing outside that folder is touched.
//!
//! This is also a library, for the benchmarks: their dependencies do not compile in seconds, so
//! they are a separate package.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program, not a library")]

use anyhow::Result;
use clap::{Parser, Subcommand};

mod bench;
pub mod cargo;
mod check;
mod ci;
mod demo;
mod dist;
mod docs;
mod image;
mod lint;
pub mod peers;
pub mod process;
pub mod python_package;
pub mod setup;
mod test;
pub mod workspace;

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
    Check(check::Args),
    Image(image::Args),
    Bench(bench::Args),
    Dist(dist::Args),
    Docs(docs::Args),
    Peers(peers::Args),
    Ci(ci::Args),
}

/// Does what the command line says; `--help` and usage errors end the process.
///
/// # Errors
/// When the task failed.
pub fn run() -> Result<()> {
    match Cli::parse().verb {
        Verb::Setup(args) => setup::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Test(args) => test::run(&args),
        Verb::Lint(args) => lint::run(&args),
        Verb::Check(args) => check::run(&args),
        Verb::Image(args) => image::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Dist(args) => dist::run(&args),
        Verb::Docs(args) => docs::run(&args),
        Verb::Peers(args) => peers::run(&args),
        Verb::Ci(args) => ci::run(&args),
    }
}
