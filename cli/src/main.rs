//! The `gular` program: arguments, progress, exit codes. The work is done in the rooms; this
//! program only joins them and shows the results.

#![forbid(unsafe_code)]

mod about;
mod adopt;
mod any_folder;
mod bench;
mod class_table;
mod completions;
mod convert;
mod datasets;
mod derive;
mod diff;
mod doctor;
mod duplicates;
mod exit;
mod federation;
mod fetch;
mod help;
mod hints;
mod html_page;
mod image;
mod inspect;
mod job;
mod login;
mod ls;
mod machine;
mod merge;
mod named;
mod network;
mod oci;
mod pack;
mod pack_labels;
mod pack_paths;
mod pack_preview;
mod pack_report;
mod pack_url;
mod payload;
mod prestage;
mod progress;
mod publish;
mod repair;
mod settings;
mod shared;
mod show;
mod stage;
mod stop;
mod units;
mod unknown;
mod verify;
mod view;

use std::ffi::OsString;

use clap::{FromArgMatches as _, Parser, Subcommand};

use crate::exit::{Exit, Failure};
use crate::shared::Output;

/// Packs images into hashed bundles that training jobs read fast.
///
/// Exit codes: 0 done, 1 the data failed the check, 2 could not do it (usage errors too), 75 not
/// now (servers are busy, down or out of reach: the same command may work later), 130 and 143
/// stopped by a signal. `stage` and `job measure` exit with the code of the command that they run.
#[derive(Debug, Parser)]
#[command(name = "gular", version, disable_version_flag = true, disable_help_flag = true, max_term_width = 100, after_help = EXAMPLE, after_long_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Print help; `gular help VERB` explains each option
    #[arg(short, long, global = true, help_heading = "Output", action = clap::ArgAction::HelpShort)]
    help: (),
    /// Print version
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    version: (),
}

const EXAMPLE: &str = "\
Exit codes: 0 done, 1 bad data, 2 error, 75 try again later, 130 or 143 stopped by a signal.
`stage` and `job measure` exit with the code of the command that they run.
\nExample:\n  gular pack photos/ bundle/ && gular verify bundle/";

const EXAMPLES: &str = "\
Examples:
  gular pack photos/ bundle/              photos/class/file or photos/{train,val,test}/class/file
  gular verify bundle/                    every byte against its digest
  gular inspect bundle/ --sheet sheet.png what it contains, and a contact sheet
  gular publish bundle/ URL               to a Pelican federation; prints URL#blake3=…
  gular fetch URL#blake3=… bundle/        from its caches, checked block by block
  gular convert bundle/ hf/ --envelope arrow   the same samples, for other people's tools
  gular derive bundle/ small/ --limit 1%       a part of it, other labels or splits: kilobytes
  gular stage bundle/ -- python train.py {}    a copy in the node's memory while it runs";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Pack(Box<pack::PackArgs>),
    Adopt(adopt::AdoptArgs),
    Convert(convert::ConvertArgs),
    Derive(derive::DeriveArgs),
    Diff(diff::DiffArgs),
    Export(convert::ExportArgs),
    Inspect(inspect::InspectArgs),
    View(view::ViewArgs),
    Verify(verify::VerifyArgs),
    Repair(repair::RepairArgs),
    Publish(publish::PublishArgs),
    Fetch(fetch::FetchArgs),
    Prestage(prestage::PrestageArgs),
    Stage(stage::StageArgs),
    Bench(bench::BenchArgs),
    Image(image::ImageArgs),
    Job(job::JobArgs),
    Ls(ls::LsArgs),
    Login(login::LoginArgs),
    Doctor(doctor::DoctorArgs),
    Federation(federation::FederationArgs),
    // This verb is for installing; the first screen is for what users do.
    #[command(hide = true)]
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Man(completions::ManArgs),
}

fn main() -> std::process::ExitCode {
    show::mask_panics();
    let cli = match parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            if let Some(failure) = unknown::failure(&error, std::env::args_os()) {
                return failure.report().into();
            }
            // Help and version go to stdout and are not errors.
            let code = if error.use_stderr() { Exit::Failed } else { Exit::Done };
            help::print(&error, std::env::args_os());
            return code.into();
        }
    };
    let exit = match &cli.verb {
        Verb::Pack(args) => pack::run(args, &cli.output),
        Verb::Adopt(args) => adopt::run(args, &cli.output),
        Verb::Convert(args) => convert::run(args, &cli.output),
        Verb::Derive(args) => derive::run(args, &cli.output),
        Verb::Diff(args) => diff::run(args, &cli.output),
        Verb::Export(args) => convert::export(args, &cli.output),
        Verb::Inspect(args) => inspect::run(args, &cli.output),
        Verb::View(args) => view::run(args, &cli.output),
        Verb::Verify(args) => verify::run(args, &cli.output),
        Verb::Repair(args) => repair::run(args, &cli.output),
        Verb::Publish(args) => publish::run(args, &cli.output),
        Verb::Fetch(args) => fetch::run(args, &cli.output),
        Verb::Prestage(args) => prestage::run(args, &cli.output),
        Verb::Stage(args) => stage::run(args, &cli.output),
        Verb::Bench(args) => bench::run(args, &cli.output),
        Verb::Image(args) => image::run(args, &cli.output),
        Verb::Job(args) => job::run(args, &cli.output),
        Verb::Ls(args) => ls::run(args, &cli.output),
        Verb::Login(args) => login::run(args, &cli.output),
        Verb::Doctor(args) => doctor::run(args, &cli.output),
        Verb::Federation(args) => federation::run(args, &cli.output),
        Verb::Completions(args) => completions::run(args),
        Verb::Man(args) => completions::man(args),
    };
    exit.unwrap_or_else(Failure::report).into()
}

/// Reads arguments; refuses those of `pack` that `--merge` would not use.
pub(crate) fn parse(
    args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Cli, clap::Error> {
    let mut command = help::command();
    let matches = command.try_get_matches_from_mut(args)?;
    let pack = matches.subcommand().filter(|(verb, _)| *verb == "pack");
    let of_pack = command.find_subcommand("pack").zip(pack);
    if let Some(unused) = of_pack.and_then(|(args, (_, pack))| merge::unused(args, pack)) {
        let text = format!("`--merge` cannot be combined with `{unused}`");
        return Err(command.error(clap::error::ErrorKind::ArgumentConflict, text));
    }
    Cli::from_arg_matches(&matches)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    /// Calls `check` with `gular` and each verb, and its name.
    pub(crate) fn each_verb(
        command: &clap::Command,
        name: &str,
        check: &mut dyn FnMut(&str, clap::Command),
    ) {
        check(name, command.clone());
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            each_verb(verb, &format!("{name} {}", verb.get_name()), check);
        }
    }

    /// Flags that take another value in some verb, with the reason why the name is still the same.
    const OTHER_VALUES: [(&str, &str); 4] = [
        ("envelope", "`bench` measures several"),
        ("jobs", "`bench` measures several"),
        ("labels", "`pack` finds labels in many places; `derive` takes them only from a file"),
        ("payload", "`bench` measures several"),
    ];

    /// What a flag takes, as help shows it; empty if it takes nothing.
    fn value_of(flag: &clap::Arg) -> String {
        if !flag.get_action().takes_values() {
            return String::new();
        }
        let names = flag.get_value_names().map(|names| names.join(" "));
        names.unwrap_or_else(|| flag.get_id().as_str().to_uppercase())
    }

    #[test]
    fn a_flag_takes_the_same_value_in_every_verb() {
        // A flag, a value, and the verbs in which it takes this value.
        let mut flags = BTreeMap::<String, BTreeMap<String, Vec<String>>>::new();
        let mut root = Cli::command();
        root.build();
        each_verb(&root, "gular", &mut |name, verb| {
            for flag in verb.get_arguments() {
                let Some(long) = flag.get_long() else { continue };
                let values = flags.entry(long.to_owned()).or_default();
                values.entry(value_of(flag)).or_default().push(name.to_owned());
            }
        });
        assert!(flags.len() > 150, "only {} flags were found", flags.len());
        flags.retain(|_, values| values.len() > 1);
        let differ: Vec<&str> = flags.keys().map(String::as_str).collect();
        let allowed = OTHER_VALUES.map(|(flag, _)| flag);
        assert_eq!(differ, allowed, "{flags:#?}");
    }
}
