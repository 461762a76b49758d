//! The `gular` program: arguments, progress, exit codes. What it does is in
//! the rooms; here it is only joined and shown.

mod adopt;
mod args;
mod bench;
mod convert;
mod exit;
mod federation;
mod fetch;
mod image;
mod inspect;
mod ls;
mod network;
mod pack;
mod page;
mod payload;
mod progress;
mod publish;
mod show;
mod stage;
mod stop;
mod table;
mod verify;

use clap::Parser as _;

use crate::args::{Cli, Verb};
use crate::exit::{Exit, Failure};

fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout and are no error.
            let code = if error.use_stderr() { Exit::Failed } else { Exit::Done };
            let _ = error.print();
            return code.into();
        }
    };
    let exit = match &cli.verb {
        Verb::Pack(args) => pack::run(args, &cli.output),
        Verb::Adopt(args) => adopt::run(args, &cli.output),
        Verb::Convert(args) => convert::run(args, &cli.output),
        Verb::Export(args) => convert::export(args, &cli.output),
        Verb::Inspect(args) => inspect::run(args, &cli.output),
        Verb::Verify(args) => verify::run(args, &cli.output),
        Verb::Publish(args) => publish::run(args, &cli.output),
        Verb::Fetch(args) => fetch::run(args, &cli.output),
        Verb::Stage(args) => stage::run(args, &cli.output),
        Verb::Bench(args) => bench::run(args, &cli.output),
        Verb::Image(args) => image::run(args, &cli.output),
        Verb::Ls(args) => ls::run(args, &cli.output),
        Verb::Federation(args) => federation::run(args, &cli.output),
    };
    exit.unwrap_or_else(Failure::report).into()
}
