//! How the program ends.

use std::fmt;
use std::process::ExitCode;

use crate::image::hints::hint;
use crate::{hints, show};

/// Exit codes, the same for every verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done.
    Done,
    /// 1: the data failed the check.
    Unsound,
    /// 2: could not do it; usage errors too.
    Failed,
    /// 75: not now; the same command may work later (`EX_TEMPFAIL` of sysexits.h).
    Later,
    /// 130 or 143: stopped by SIGINT or SIGTERM.
    Signal(u8),
    /// What the command of `gular stage` ended with.
    Command(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Unsound => 1,
            Exit::Failed => 2,
            Exit::Later => 75,
            Exit::Signal(code) | Exit::Command(code) => code,
        })
    }
}

/// Why a verb could not do its work: one message, and what to do next.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl fmt::Display, hint: Option<String>) -> Self {
        Self { exit: Exit::Failed, message: message.to_string(), hint }
    }

    /// Replaces the next step, for a caller that knows more about what was asked for.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn report(self) -> Exit {
        show::message("error", &self.message);
        if let Some(hint) = self.hint {
            show::message("hint", &hint);
        }
        self.exit
    }
}

/// Other bytes than those that were packed: the same verdict as that of `verify`.
fn verdict(error: &gular_bundle::Error) -> Exit {
    use gular_bundle::Error::{Block, Digest, Length, SampleDigest};
    match error {
        Block { .. } | Digest { .. } | Length { .. } | SampleDigest(_) => Exit::Unsound,
        _ => Exit::Failed,
    }
}

impl From<gular_files::Error> for Failure {
    fn from(error: gular_files::Error) -> Self {
        gular_bundle::Error::from(error).into()
    }
}

impl From<gular_bundle::Error> for Failure {
    fn from(error: gular_bundle::Error) -> Self {
        Self { exit: verdict(&error), ..Self::new(&error, hints::bundle(&error)) }
    }
}

impl From<gular_pack::Error> for Failure {
    fn from(error: gular_pack::Error) -> Self {
        let exit = match &error {
            gular_pack::Error::Run(gular_pack::RunError::Bundle(error)) => verdict(error),
            _ => Exit::Failed,
        };
        Self { exit, ..Self::new(&error, hints::pack(&error)) }
    }
}

impl From<gular_bench::Error> for Failure {
    fn from(error: gular_bench::Error) -> Self {
        match error {
            gular_bench::Error::Bundle(error) => error.into(),
            gular_bench::Error::Pack(error) => error.into(),
            error => Self::new(&error, hints::bench(&error)),
        }
    }
}

impl From<gular_verify::Error> for Failure {
    fn from(error: gular_verify::Error) -> Self {
        match error {
            gular_verify::Error::Pelican(error) => error.into(),
            error => Self::new(&error, hints::verify(&error)),
        }
    }
}

impl From<gular_registry::Error> for Failure {
    fn from(error: gular_registry::Error) -> Self {
        gular_containers::Error::from(error).into()
    }
}

impl From<gular_containers::Error> for Failure {
    fn from(error: gular_containers::Error) -> Self {
        let exit = match &error {
            gular_containers::Error::Digest { .. } => Exit::Unsound,
            error if error.is_passing() => Exit::Later,
            _ => Exit::Failed,
        };
        Self { exit, ..Self::new(&error, hint(&error)) }
    }
}

impl Exit {
    /// The exit code of a failed transfer.
    pub(crate) fn of(error: &gular_transfer::Error) -> Self {
        use gular_transfer::Error::{
            AnotherBundle, Bundle, Changed, NoCopy, ObjectDigest, Pelican,
        };
        match error {
            Pelican(error) => Self::of_pelican(error),
            Bundle(error) => verdict(error),
            AnotherBundle { .. } | Changed { .. } | ObjectDigest { .. } => Self::Unsound,
            error if error.is_passing() => Self::Later,
            NoCopy { .. } => Self::Unsound,
            _ => Self::Failed,
        }
    }

    fn of_pelican(error: &gular_pelican::Error) -> Self {
        match error {
            // The bytes are not those that were asked for, so the exit code is that of `verify`.
            gular_pelican::Error::Corrupt { .. } => Self::Unsound,
            error if error.is_passing() => Self::Later,
            _ => Self::Failed,
        }
    }
}

impl From<gular_pelican::Error> for Failure {
    fn from(error: gular_pelican::Error) -> Self {
        Self { exit: Exit::of_pelican(&error), ..Self::new(&error, hints::pelican(&error)) }
    }
}

impl From<gular_transfer::Error> for Failure {
    fn from(error: gular_transfer::Error) -> Self {
        Self { exit: Exit::of(&error), ..Self::new(&error, hints::transfer(&error)) }
    }
}

impl From<gular_view::Error> for Failure {
    fn from(error: gular_view::Error) -> Self {
        Self::new(&error, hints::view(&error))
    }
}

impl From<gular_stage::Error> for Failure {
    fn from(error: gular_stage::Error) -> Self {
        match error {
            gular_stage::Error::Bundle(error) => error.into(),
            gular_stage::Error::Transfer(error) => error.into(),
            error => Self::new(&error, hints::stage(&error)),
        }
    }
}
