//! Being asked to stop: SIGTERM and SIGINT become a flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::Error;

/// The exit code of a job that saved a checkpoint and wants to be run again.
///
/// HTCondor's `checkpoint_exit_code = 85`, by its manual's convention.
pub const EXIT_CHECKPOINTED: u8 = 85;

/// Set by the first SIGTERM or SIGINT; clones share it.
///
/// The training loop looks at it between steps, saves and exits with
/// [`EXIT_CHECKPOINTED`]. A second signal of either kind ends the process at
/// once, as if no handler were there.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Listens for SIGTERM and SIGINT from now on, for the whole process.
    ///
    /// # Errors
    /// [`Error::Signals`].
    pub fn install() -> Result<Self, Error> {
        let this = Self::default();
        for signal in [SIGTERM, SIGINT] {
            // In this order: handlers run as registered, so the first signal
            // finds the flag unset, passes the first handler and arms it.
            flag::register_conditional_default(signal, Arc::clone(&this.0))
                .and_then(|_| flag::register(signal, Arc::clone(&this.0)))
                .map_err(Error::Signals)?;
        }
        Ok(this)
    }

    /// Whether the process was asked to stop.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for work that takes one to be cancelled by.
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Asks for the stop from inside the program, as the first signal does.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
