//! Flags that have a new name: the old one is an error that says so.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::exit::Failure;

/// Verb, its flag's old name, the new one.
const RENAMED: &[(&str, &str, &str)] = &[
    ("pack", "--split", "--fractions"),
    ("pack", "--order", "--stored-order"),
    ("pack", "--check", "--check-images"),
    ("adopt", "--split", "--as-split"),
    ("verify", "--split", "--splits"),
    ("fetch", "--split", "--splits"),
    ("fetch", "--parallel", "--jobs"),
    ("publish", "--parallel", "--jobs"),
    ("bench", "--threads", "--jobs"),
    ("bench", "--cache", "--page-cache"),
];

/// What to say instead of clap's error when `arguments` use a flag's old name.
pub(crate) fn failure(
    error: &clap::Error,
    arguments: impl Iterator<Item = OsString>,
) -> Option<Failure> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = flag.split('=').next().unwrap_or_default();
    // No flag before the verb takes a value.
    let verb = arguments.skip(1).find(|a| !a.as_encoded_bytes().starts_with(b"-"))?;
    let (verb, old, new) =
        RENAMED.iter().find(|(of, old, _)| verb.to_str() == Some(of) && flag == *old)?;
    let message = format!("`{old}` of `gular {verb}` is now called `{new}`");
    Some(Failure::new(message, Some(format!("`gular {verb} --help` describes `{new}`"))))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;
    use crate::Cli;

    #[test]
    fn each_old_name_says_the_new_one_which_exists() {
        for (verb, old, new) in RENAMED {
            for flag in [format!("{old}=1"), (*old).to_owned()] {
                let arguments = ["gular", "--quiet", verb, &flag, "1"].map(OsString::from);
                let error = Cli::try_parse_from(&arguments).unwrap_err();
                let failure = failure(&error, arguments.into_iter()).expect(old);
                let shown = format!("{failure:?}");
                assert!(shown.contains(&format!("now called `{new}`")), "{shown}");
                assert_eq!(failure.exit, crate::exit::Exit::Failed);
            }
            let command = Cli::command();
            let verb = command.find_subcommand(verb).unwrap();
            assert!(verb.get_arguments().any(|a| a.get_long() == new.strip_prefix("--")), "{new}");
        }
    }

    #[test]
    fn other_mistakes_are_clap_s_to_explain() {
        for mistake in
            [&["gular", "pack", "--spilt", "x"][..], &["gular", "ls", "--split"], &["gular"]]
        {
            let arguments = mistake.iter().map(OsString::from);
            let error = Cli::try_parse_from(arguments.clone()).unwrap_err();
            assert!(failure(&error, arguments).is_none(), "{mistake:?}");
        }
    }
}
