//! SIGINT and SIGTERM ask a verb to stop; a second signal ends the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use gular_transfer::Watch;

use crate::exit::{Exit, Failure};

/// Says whether a signal came, and which.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    pub(crate) flag: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    pub(crate) fn install() -> Result<Self, Failure> {
        let stop = Self { flag: Arc::default(), signal: Arc::default() };
        for signal in [SIGINT, SIGTERM] {
            let number = usize::try_from(signal).unwrap_or(0);
            // The order matters: a second signal finds the flag set, and ends the program.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop.flag))
                .and_then(|_| {
                    signal_hook::flag::register_usize(signal, Arc::clone(&stop.signal), number)
                })
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop.flag)))
                .map_err(|e| Failure::new(format!("cannot watch for signals: {e}"), None))?;
        }
        Ok(stop)
    }

    /// A watch that reports nothing, and cancels when a signal comes.
    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch::silent(&self.flag)
    }

    /// The exit that belongs to the signal that came.
    pub(crate) fn exit(&self) -> Option<Exit> {
        let signal = u8::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|s| *s > 0)?;
        Some(Exit::Signal(128 + signal))
    }
}
