//! `cargo xtask bench soak`: four processes publish and fetch through servers that fail in every way
//! we know, and are killed at random moments. At the end every byte must be right.
//!
//! ```text
//! chance      what the seed decides
//! wire        HTTP and TLS
//! faults      which request meets which fault
//! proxy       a server that does so
//! honest      the servers behind it
//! federation  the servers together
//! inputs      what is published
//! client      runs of `gular`, killed and started again
//! clients     all of them together
//! sound       what must be true at the end
//! settings    what is asked for, and the whole run
//! ```
//!
//! The same seed gives the same files, the same faults for the same requests and the same moments of
//! kills. Which request of several clients comes first depends on the machine, so a seed that fails
//! may have to be run more than once.

mod chance;
mod client;
mod clients;
mod faults;
mod federation;
mod honest;
mod inputs;
mod proxy;
mod settings;
mod sound;
mod wire;

pub(crate) use settings::{Settings, run};
