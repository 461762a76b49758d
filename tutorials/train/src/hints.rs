//! What the user can do about an error, with flags of this program.

use gular_runtime::checkpoint::CheckpointError;
use gular_runtime::{Error, LoaderError, RankError, TransferError};

/// The hint printed below an error.
pub(crate) fn hint(error: &Error) -> Option<String> {
    let text = match error {
        Error::Loader(LoaderError::Decode { .. }) => {
            "leave out such images with `--skip-broken`, or pack again with `gular pack --check-images full`, which lists them all"
        }
        Error::Loader(LoaderError::NoRoom { .. }) => {
            "raise `--cache-limit`, or train with `--order window` and a smaller `--window`"
        }
        Error::Transfer(TransferError::CacheLimit { .. }) => {
            "raise `--cache-limit`, or train with `--order window`, which needs only some of the shards at a time"
        }
        Error::Option { option: "unknown_labels", .. } => {
            "leave out such samples with `--unknown-labels drop`, or leave them out of loss and accuracy with `--unknown-labels ignore`"
        }
        Error::Option { option: "depth", .. } => {
            "train on all 16 bits with `--depth 16`, or only on the high byte with `--depth 8`"
        }
        Error::Checkpoint(CheckpointError::InUse { .. }) => {
            "wait until that run ends, or choose another folder with `--checkpoint-dir`; the processes of one run must have different values of `--rank`"
        }
        Error::Checkpoint(CheckpointError::NoneSound { .. }) => {
            "copy the checkpoints here again, or start from the beginning with another `--checkpoint-dir`; nothing was changed"
        }
        Error::Checkpoint(CheckpointError::OtherBundle { .. }) => {
            "resume with the bundle that the training began with, or start from the beginning with another `--checkpoint-dir`"
        }
        Error::Checkpoint(CheckpointError::Unfit { .. }) => {
            "resume with the program and the options that the training began with, or start from the beginning with another `--checkpoint-dir`"
        }
        Error::Rank(RankError::Value { .. } | RankError::Conflict { .. }) => {
            "set `--rank` and `--world-size`, which take precedence over the environment"
        }
        other => return other.hint(),
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use crate::args::Cli;

    #[test]
    fn every_flag_that_a_hint_names_exists() {
        let text = include_str!("hints.rs").split("#[cfg(test)]").next().unwrap();
        // Flags after `gular pack` are that program's.
        let own = text.replace("`gular pack --", "");
        let mut n = 0;
        for rest in own.split("`--").skip(1) {
            let flag: String =
                rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
            let command = Cli::command();
            let mut arguments = command.get_subcommands().flat_map(clap::Command::get_arguments);
            assert!(arguments.any(|a| a.get_long() == Some(&flag)), "--{flag}");
            n += 1;
        }
        assert!(n > 5, "only {n} flags were found");
    }
}
