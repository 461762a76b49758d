//! `gular completions` and `gular man`: what a shell and `man` know of this program.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _, ValueEnum};

use crate::Cli;
use crate::exit::{Exit, Failure};
use crate::show;

/// Print what a shell needs to complete this program's verbs and flags
#[derive(Debug, Args)]
#[command(after_help = "\
Where to: ~/.local/share/bash-completion/completions/gular, ~/.config/fish/completions/gular.fish,
or _gular in a folder of zsh's $fpath

Example:
  gular completions bash > ~/.local/share/bash-completion/completions/gular")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Write the man pages of the program and of each verb
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  gular man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder; made unless it exists
    dir: PathBuf,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "gular", &mut script);
    show::stdout(&script)?;
    Ok(Exit::Done)
}

pub(crate) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let failed = |error| gular_files::Error::new("write man pages to", &args.dir, error);
    std::fs::create_dir_all(&args.dir).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.dir).map_err(failed)?;
    Ok(Exit::Done)
}
