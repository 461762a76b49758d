//! Turns the signals SIGTERM, SIGINT and SIGUSR1 into a flag.

use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;
use signal_hook::low_level::pipe;

use crate::Error;

/// The exit code of a job that saved a checkpoint and should be run again.
///
/// HTCondor's `checkpoint_exit_code = 85`, by its manual's convention.
pub const EXIT_CHECKPOINTED: u8 = 85;

/// The exit code of a job that could not begin, but may succeed later: `EX_TEMPFAIL` of sysexits.h.
pub const EXIT_LATER: u8 = 75;

/// Signals that come so soon after the first one belong to it: `timeout`, as the scripts of batch
/// jobs use it, sends SIGTERM to the program and once more to all processes of its group.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// A flag that the first SIGTERM, SIGINT or SIGUSR1 sets; its clones share it.
///
/// The training loop looks at it between steps, saves and exits with
/// [`EXIT_CHECKPOINTED`]. A second SIGTERM or SIGINT, a second or more after the first, ends the
/// process at once, as if no handler were there. SIGUSR1, with which Slurm announces the end of a job
/// (`--signal=USR1@120`), may come any number of times, and leaves the first SIGTERM to be
/// heard as such.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Listens for these signals from now on, for the whole process.
    ///
    /// # Errors
    /// [`Error::Signals`].
    pub fn install() -> Result<Self, Error> {
        let this = Self::default();
        let armed = Arc::<AtomicBool>::default();
        let (mut heard, told) = io::pipe().map_err(Error::Signals)?;
        for signal in [SIGTERM, SIGINT] {
            // Handlers run as registered: until it is armed, the first one does nothing.
            flag::register_conditional_default(signal, Arc::clone(&armed))
                .and_then(|_| pipe::register(signal, told.try_clone()?))
                .and_then(|_| flag::register(signal, Arc::clone(&this.0)))
                .map_err(Error::Signals)?;
        }
        let arm = move || {
            if heard.read_exact(&mut [0]).is_ok() {
                thread::sleep(SAME_SIGNAL);
                armed.store(true, Ordering::Relaxed);
            }
        };
        thread::Builder::new().name("stop".into()).spawn(arm).map_err(Error::Signals)?;
        flag::register(SIGUSR1, Arc::clone(&this.0)).map_err(Error::Signals)?;
        Ok(this)
    }

    /// Returns whether the process was asked to stop.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for functions that take a cancel flag.
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// The flag itself, shared, for work that outlives the caller.
    #[must_use]
    pub fn shared(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Asks for the stop from inside the program, as SIGUSR1 does.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
