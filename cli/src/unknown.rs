//! Options that a verb does not have, and what to use instead. An old name is an error that names
//! the new one.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::Failure;
use crate::{help, pack_paths};

/// For each renamed flag: the verb, the old name, and the new one.
const RENAMED: &[(&str, &str, &str)] = &[
    ("pack", "--split", "--fractions"),
    ("pack", "--order", "--stored-order"),
    ("pack", "--check", "--check-images"),
    ("adopt", "--split", "--as-split"),
    ("verify", "--split", "--splits"),
    ("fetch", "--split", "--splits"),
    ("fetch", "--parallel", "--jobs"),
    ("publish", "--parallel", "--jobs"),
    ("adopt", "--image", "--image-column"),
    ("adopt", "--label", "--label-column"),
    ("adopt", "--key", "--key-column"),
    ("prestage", "--cache", "--at"),
    ("bench", "--threads", "--jobs"),
    ("bench", "--cache", "--page-cache"),
    ("bench", "--limit", "--limit-bytes"),
    ("bench", "--size", "--crop"),
    ("image lock", "--check", "--locked"),
    ("image build", "--vendor", "--from-vendor"),
    ("image check", "--gpus", "--capabilities"),
    ("job new", "--merge", "--merge-command"),
    ("job plan", "--in", "--item-in"),
    ("job plan", "--out", "--item-out"),
    ("job plan", "--rate", "--read-rate"),
    ("job measure", "--part", "--share"),
    ("login", "--to", "--token-file"),
    ("federation serve", "--rate", "--limit-rate"),
];

/// Names of options in other programs, with ours, for verbs that have them.
const SYNONYMS: &[(&str, &str)] = &[
    ("--threads", "--jobs"),
    ("--workers", "--jobs"),
    ("--num-workers", "--jobs"),
    ("--parallel", "--jobs"),
    ("--split", "--fractions"),
    ("--split", "--splits"),
    ("--val-split", "--fractions"),
    ("--format", "--envelope"),
    ("--rate", "--limit-rate"),
    ("--limit", "--limit-rate"),
    ("--bwlimit", "--limit-rate"),
];

/// Returns the error if `arguments` contain one that their verb does not know. clap's own advice,
/// to give the option behind `--` as a value, is hardly ever right.
pub(crate) fn failure(
    error: &clap::Error,
    arguments: impl Iterator<Item = OsString>,
) -> Option<Failure> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let given = text(ContextKind::InvalidArg)?;
    let arguments: Vec<OsString> = arguments.collect();
    let (verb, name) = help::verb(arguments.iter().cloned());
    let help = help::asked(&name);
    if !given.starts_with('-') {
        return Some(unexpected(&verb, &name, given));
    }
    let flag = given.split('=').next().unwrap_or_default();
    if let Some(instead) = replaced(&name, flag, &arguments) {
        return Some(instead);
    }
    let renamed = RENAMED.iter().find(|(of, old, _)| name == format!("gular {of}") && flag == *old);
    if let Some((_, old, new)) = renamed {
        let message = format!("`{old}` of `{name}` is now called `{new}`");
        return Some(Failure::new(message, Some(format!("`{help}` explains `{new}`"))));
    }
    let has = |flag: &str| verb.get_arguments().any(|a| a.get_long() == flag.strip_prefix("--"));
    let synonym = SYNONYMS.iter().find(|(other, ours)| flag == *other && has(ours));
    let meant = synonym.map(|(_, ours)| *ours).or_else(|| text(ContextKind::SuggestedArg));
    if flag.get(1..2).is_some_and(|c| c.starts_with(|c: char| c.is_ascii_digit())) {
        let hint =
            "write a value that begins with `-` as `--option=VALUE`, and a file as `./-1.jpg`";
        let hint = hint.to_owned();
        return Some(Failure::new(format!("`{name}` has no option `{flag}`"), Some(hint)));
    }
    let hint = match meant.map(str::trim) {
        Some(meant) => {
            let option = verb.get_arguments().find(|a| a.get_long() == meant.strip_prefix("--"));
            let told = option.and_then(clap::Arg::get_help).map(|told| format!(" {told}"));
            format!("did you mean `{meant}`?{}", told.unwrap_or_default())
        }
        None => format!("`{help}` explains each option"),
    };
    Some(Failure::new(format!("`{name}` has no option `{flag}`"), Some(hint)))
}

/// The error for an option of `pack` that patterns replaced.
fn replaced(name: &str, flag: &str, arguments: &[OsString]) -> Option<Failure> {
    (name == "gular pack").then_some(())?;
    let texts = || arguments.iter().map(|argument| argument.to_string_lossy());
    let joined =
        texts().find_map(|text| text.strip_prefix(flag)?.strip_prefix('=').map(str::to_owned));
    let value = joined.or_else(|| texts().skip_while(|text| text != flag).nth(1).map(Into::into));
    let (text, hint) = pack_paths::instead(flag, value.as_deref())?;
    Some(Failure::new(text, Some(hint)))
}

/// The error for one word more than the verb takes.
fn unexpected(verb: &clap::Command, name: &str, given: &str) -> Failure {
    let command = verb.get_arguments().find(|argument| argument.is_last_set());
    let hint = match command {
        Some(_) => format!("write `--` before the command: `{name} … -- {given} …`"),
        None => {
            let usage = verb.clone().render_usage().to_string();
            let usage = usage.lines().next().and_then(|usage| usage.split_once(": "));
            let usage = usage.map_or(name, |(_, usage)| usage);
            format!("quote names that contain spaces; the arguments are: `{usage}`")
        }
    };
    Failure::new(format!("`{given}` is one argument too many for `{name}`"), Some(hint))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::Cli;

    fn said(words: &[&str]) -> String {
        let arguments = words.iter().map(OsString::from);
        let error = Cli::try_parse_from(arguments.clone()).unwrap_err();
        format!("{:?}", failure(&error, arguments).expect("a failure of ours"))
    }

    #[test]
    fn each_old_name_says_the_new_one_which_exists() {
        for (verb, old, new) in RENAMED {
            let words: Vec<&str> = verb.split(' ').collect();
            for flag in [format!("{old}=1"), (*old).to_owned()] {
                let shown = said(&[&["gular", "--quiet"], &words[..], &[&flag, "1"]].concat());
                assert!(shown.contains(&format!("now called `{new}`")), "{shown}");
            }
            let mut verb = &Cli::command();
            for word in words {
                verb = verb.find_subcommand(word).unwrap();
            }
            assert!(verb.get_arguments().any(|a| a.get_long() == new.strip_prefix("--")), "{new}");
        }
    }

    #[test]
    fn an_option_of_other_programs_is_told_as_ours() {
        let check = |words: &[&str], parts: &[&str]| {
            let said = said(words);
            assert!(parts.iter().all(|part| said.contains(part)), "{words:?}: {said}");
            assert!(!said.contains("-- -"), "{said}");
        };
        let fetch = ["gular", "fetch", "u", "d"];
        let with = |more: &[&'static str]| [&fetch[..], more].concat();
        check(&with(&["--threads", "4"]), &["`gular fetch` has no option `--threads`", "`--jobs`"]);
        check(&with(&["--workers=4"]), &["no option `--workers`", "`--jobs`"]);
        check(&with(&["--no-such"]), &["no option `--no-such`", "`gular help fetch` explains"]);
        check(
            &with(&["--limit-rat", "1"]),
            &["did you mean `--limit-rate`? The most bytes per second"],
        );
        check(&["gular", "pack", "s", "o", "--val-split", "1"], &["did you mean `--fractions`?"]);
        let serve = ["gular", "federation", "serve", "d", "--threads", "1"];
        check(&serve, &["`gular federation serve` has no option", "`gular help federation serve`"]);
        check(&with(&["--jobs", "-1"]), &["no option `-1`", "`--option=VALUE`"]);
        check(&["gular", "stage", "b", "python"], &["write `--` before the command"]);
        check(
            &["gular", "verify", "a", "b"],
            &["`b` is one argument too many", "`gular verify [OPTIONS] <DIR|URL>`"],
        );
        check(&["gular", "pack", "--spilt", "x"], &["`gular pack` has no option `--spilt`"]);
    }

    #[test]
    fn every_synonym_is_an_option_of_some_verb() {
        let command = Cli::command();
        for (_, ours) in SYNONYMS {
            let has = |verb: &clap::Command| {
                verb.get_arguments().any(|a| a.get_long() == ours.strip_prefix("--"))
            };
            assert!(command.get_subcommands().any(has), "{ours}");
        }
    }

    #[test]
    fn other_mistakes_are_clap_s_to_explain() {
        for mistake in [&["gular"][..], &["gular", "frobnicate"], &["gular", "pack", "a"]] {
            let arguments = mistake.iter().map(OsString::from);
            let error = Cli::try_parse_from(arguments.clone()).unwrap_err();
            assert!(failure(&error, arguments).is_none(), "{mistake:?}");
        }
    }
}
