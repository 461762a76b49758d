//! `gular completions` and `gular man`: shell completions and manual pages.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command, ValueEnum};

use crate::exit::{Exit, Failure};
use crate::help;
use crate::show::{self, AsIs};

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
    clap_complete::generate(shell, &mut help::command(), "gular", &mut script);
    show::as_is(AsIs::File, &script)?;
    Ok(Exit::Done)
}

pub(crate) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let failed = |error| gular_files::Error::new("write man pages to", &args.dir, error);
    fs::create_dir_all(&args.dir).map_err(failed)?;
    clap_mangen::generate_to(with_long_help(help::command()), &args.dir).map_err(failed)?;
    for entry in fs::read_dir(&args.dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if is_ours(&path) {
            let page = fs::read_to_string(&path).map_err(failed)?;
            fs::write(&path, examples_as_they_are(&page)).map_err(failed)?;
        }
    }
    Ok(Exit::Done)
}

fn is_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("gular") && name.ends_with(".1")
}

/// Gives each command a long help, since a page includes the flags that `-h` leaves out only then.
fn with_long_help(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let short = arg.get_help().filter(|_| arg.get_long_help().is_none()).cloned();
        match short {
            Some(help) => arg.long_help(help),
            None => arg,
        }
    });
    command.mut_subcommands(with_long_help)
}

/// The page with the lines below the options as help has them, not filled like a paragraph.
fn examples_as_they_are(page: &str) -> String {
    let Some((before, rest)) = page.split_once(".SH EXTRA\n") else { return page.to_owned() };
    let (lines, after) = rest.split_at(rest.find("\n.SH ").map_or(rest.len(), |end| end + 1));
    format!("{before}.SH NOTES\n.nf\n{lines}.fi\n{after}")
}
