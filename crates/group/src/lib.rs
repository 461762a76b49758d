//! How the ranks of one training run meet and exchange numbers, over TCP.
//!
//! ```text
//!                       control: life, failures, the end
//!   rank 1 ─────────────────────────▶ ┌────────┐
//!   rank 2 ─────────────────────────▶ │ rank 0 │  listens on MASTER_PORT while they meet
//!   rank 3 ─────────────────────────▶ └────────┘
//!
//!   rank 0 ───▶ rank 1 ───▶ rank 2 ───▶ rank 3 ───┐     data: a ring,
//!     ▲────────────────────────────────────────────┘     each at a port of its own
//! ```
//!
//! Each rank connects to rank 0 and says who it is and what it trains. When all have connected,
//! rank 0 tells each where the next one listens, with a key that only they know. All-reduce,
//! broadcast and barrier go around the ring.
//!
//! The control connection carries a sign of life both ways. Rank 0 alone decides
//! what ended a training run, so that every rank gives the same error. Only the loss of
//! rank 0 itself is decided by each of the others.
//!
//! Nothing is encrypted, so this is for the inner network of a cluster, or one machine.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::indexing_slicing, reason = "tests may panic"))]

mod address;
mod arrive;
mod error;
mod flow;
#[doc(hidden)]
pub mod fuzzing;
mod joined;
mod link;
mod lobby;
mod meet;
mod operation;
mod rank_ring;
mod relay;
mod shared;
mod summable;
mod watch;
mod wire;

pub use address::Rendezvous;
pub use error::Error;
pub use joined::{Group, GroupOptions};
pub use rank_ring::Seat;
pub use summable::Summable;
