//! Help: the verbs by what users do with them. `-h` and `--help` print one line per option, and
//! `gular help VERB` prints all that is known about each.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory as _};

use crate::{Cli, show};

/// Each verb of the first screen, below what users do with it.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Make datasets", &["pack", "adopt", "derive", "convert", "export"]),
    ("Look and check", &["view", "inspect", "verify", "repair", "diff", "bench"]),
    ("Federations", &["publish", "fetch", "prestage", "ls", "login", "federation"]),
    ("Jobs", &["job", "stage"]),
    ("Container images", &["image"]),
    ("This machine", &["doctor", "help"]),
];

/// The program's arguments, with its own first screen.
pub(crate) fn command() -> Command {
    let command = with_names(Cli::command(), "gular");
    let template = first_screen(&command);
    command.help_template(template)
}

/// Lists the verbs of each group.
fn first_screen(command: &Command) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let widest = GROUPS.iter().flat_map(|(_, verbs)| *verbs).map(|verb| verb.len()).max();
    let width = widest.unwrap_or_default();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (title, verbs) in GROUPS {
        text.push_str(&format!("\n{header}{title}:{header:#}\n"));
        for verb in verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about);
            let about =
                about.map_or("Explain a verb and all its options".to_owned(), ToString::to_string);
            text.push_str(&format!("  {literal}{verb:width$}{literal:#}  {about}\n"));
        }
    }
    text + &format!("\n{header}Options:{header:#}\n{{options}}{{after-help}}")
}

/// Adds the names of the options that `--help` does not describe, to the help of every verb.
fn with_names(command: Command, name: &str) -> Command {
    let hidden = command.get_arguments().filter(|option| option.is_hide_short_help_set());
    let hidden: Vec<String> =
        hidden.filter_map(Arg::get_long).map(|long| format!("--{long}")).collect();
    let command = command.mut_subcommands(|verb| {
        let name = format!("{name} {}", verb.get_name());
        with_names(verb, &name)
    });
    if hidden.is_empty() {
        return command;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let names = format!("More options (`{}`): {}\n\n{after}", asked(name), hidden.join(", "));
    let long = command.get_after_long_help().map_or(after, ToString::to_string);
    command.after_help(names).after_long_help(long)
}

/// The command that explains the verb `name`.
pub(crate) fn asked(name: &str) -> String {
    name.replacen("gular", "gular help", 1)
}

/// The verb that `arguments` name, below all others, and how it is called.
pub(crate) fn verb(arguments: impl Iterator<Item = OsString>) -> (Command, String) {
    let (mut verb, mut name) = (Cli::command(), "gular".to_owned());
    verb.build();
    // No flag before a verb has a value.
    for word in arguments.skip(1).filter(|a| !a.as_encoded_bytes().starts_with(b"-")) {
        let below = word.to_str().and_then(|word| verb.find_subcommand(word)).cloned();
        let Some(below) = below else { break };
        name = format!("{name} {}", below.get_name());
        verb = below;
    }
    (verb, name)
}

/// Prints what clap says about `arguments`.
pub(crate) fn print(error: &clap::Error, arguments: impl Iterator<Item = OsString>) {
    let (_, name) = verb(arguments);
    let is_long = name == "gular" || name.split(' ').any(|word| word == "help");
    if error.kind() != ErrorKind::DisplayHelp || is_long {
        show::usage(error, explains(error, &name).as_deref());
        return;
    }
    let shown = error.render();
    let styled = show::is_watched() && std::env::var_os("NO_COLOR").is_none();
    let text = if styled { shown.ansi().to_string() } else { shown.to_string() };
    let _ = show::lines(&compact(&text));
}

/// Where the option is explained that an error is about.
fn explains(error: &clap::Error, name: &str) -> Option<String> {
    let arg = match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(arg) => arg,
        ContextValue::Strings(args) => args.first()?,
        _ => return None,
    };
    let option = arg.split([' ', '=']).next().filter(|option| option.starts_with("--"))?;
    let verb = name.strip_prefix("gular ")?;
    Some(format!("hint: `gular help {verb}` explains `{option}`"))
}

/// Removes the empty line before each list of options but the first.
fn compact(help: &str) -> String {
    let mut lists = 0;
    let mut lines: Vec<&str> = Vec::new();
    for line in help.lines() {
        let is_title = line.contains(':') && line.trim_end_matches("\u{1b}[0m").ends_with(':');
        if is_title && !line.starts_with("Example") {
            lists += 1;
            lines.pop_if(|last| lists > 1 && last.is_empty());
        }
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::tests::each_verb;

    /// Two screens.
    const MOST_LINES: usize = 66;
    const COLUMNS: usize = 100;
    /// With more options than these, each is below a title that says what it is about.
    const MOST_UNTITLED: usize = 12;

    /// Calls `check` with the name of each verb, and what `--help` prints.
    fn each_help(check: &mut dyn FnMut(&str, &Command, &str)) {
        let mut root = command();
        root.build();
        each_verb(&root, "gular", &mut |name, verb| {
            let help = verb.clone().term_width(COLUMNS).render_help().to_string();
            let help = if name == "gular" { help } else { compact(&help) };
            check(name, &verb, &help);
        });
    }

    #[test]
    fn each_verb_is_in_one_group() {
        let mut groups = BTreeMap::<&str, usize>::new();
        for verb in GROUPS.iter().flat_map(|(_, verbs)| *verbs) {
            *groups.entry(verb).or_default() += 1;
        }
        let root = Cli::command();
        let shown = root.get_subcommands().filter(|verb| !verb.is_hide_set());
        let shown: BTreeMap<&str, usize> =
            shown.map(|verb| (verb.get_name(), 1)).chain([("help", 1)]).collect();
        assert_eq!(groups, shown);
        let help = command().render_help().to_string();
        for (title, verbs) in GROUPS {
            let below = help.split_once(&format!("\n{title}:\n")).map(|(_, below)| below);
            let below = below.and_then(|below| below.split("\n\n").next()).unwrap_or_default();
            let listed = below.lines().filter_map(|line| line.split_whitespace().next());
            assert_eq!(listed.collect::<Vec<_>>(), verbs, "{help}");
        }
    }

    #[test]
    fn help_fits_two_screens_and_ends_with_an_example() {
        let mut wrong = Vec::new();
        each_help(&mut |name, _, help| {
            let n = help.lines().count();
            let fits = n <= MOST_LINES && help.lines().all(|line| line.chars().count() <= COLUMNS);
            let example =
                help.rsplit_once("\nExample").is_some_and(|(_, e)| e.contains("\n  gular "));
            if !fits || !example {
                wrong.push(format!("{name}: {n} lines, example: {example}\n{help}"));
            }
        });
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn help_has_one_line_for_each_option_or_its_name() {
        let mut wrong = Vec::new();
        each_help(&mut |name, verb, help| {
            for option in verb.get_arguments().filter_map(Arg::get_long) {
                if !help.contains(&format!("--{option}")) {
                    wrong.push(format!("{name} does not show --{option}"));
                }
            }
            // Only the rest of an explanation is indented by more than an option.
            let lists = help.split("\nExample").next().unwrap_or_default();
            let lines = lists.lines().skip_while(|line| !line.ends_with(':'));
            wrong.extend(
                lines
                    .filter(|line| line.starts_with("       "))
                    .map(|line| format!("{name} needs a second line: {}", line.trim())),
            );
        });
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn many_options_are_below_titles() {
        let mut wrong = Vec::new();
        each_help(&mut |name, verb, _| {
            let flags = || verb.get_arguments().filter(|argument| !argument.is_positional());
            let untitled: Vec<&str> = flags()
                .filter(|f| f.get_help_heading().is_none())
                .filter_map(Arg::get_long)
                .collect();
            if flags().count() > MOST_UNTITLED && !untitled.is_empty() {
                wrong.push(format!("{name}: {}", untitled.join(" ")));
            }
        });
        assert!(wrong.is_empty(), "no title:\n{}", wrong.join("\n"));
    }

    #[test]
    fn help_says_what_users_ask_first() {
        each_help(&mut |name, _, help| {
            let (_, verb) = name.rsplit_once(' ').unwrap_or_default();
            if ["fetch", "publish", "verify", "repair", "prestage", "stage", "ls"].contains(&verb) {
                let codes = help.lines().find(|line| line.starts_with("Exit codes: "));
                assert!(codes.is_some_and(|codes| codes.contains("75 ")), "{name}:\n{help}");
            }
            if name == "gular stage" {
                let at = |word: &str| help.find(word).unwrap();
                let ordered =
                    at("[COMMAND]...") < at("Options:") && at("Options:") < at("Network:");
                assert!(ordered, "{help}");
            }
        });
    }

    #[test]
    fn long_help_says_all() {
        let mut root = command();
        root.build();
        each_verb(&root, "gular", &mut |name, verb| {
            let help = verb.clone().render_long_help().to_string();
            assert!(!help.contains(" /// "), "{name}: marks of a comment are in the text\n{help}");
            for flag in verb.get_arguments().filter_map(Arg::get_long) {
                assert!(help.contains(&format!("--{flag}")), "{name} --{flag}");
            }
            assert!(!help.contains("More options"), "{name}");
        });
    }
}
