//! Orders: pure functions from (seed, epoch, position) to a sample; and the tally, which proves
//! that each sample of an epoch was delivered.
//!
//! [`OrderKind::Torch`] is PyTorch's own order, to the bit;
//! [`OrderKind::Elastic`] and [`OrderKind::Window`] give each sample once an
//! epoch for any number of ranks, also when that number changes in between. Orders that draw,
//! by [`Weights`] or by class, give some samples more often than others.
//! Normative text: `FORMAT.md`, "Orders".

#![forbid(unsafe_code)]

mod draw;
mod epoch;
mod keyed;
mod mt19937;
mod prime;
pub mod pytorch;
mod state;
mod tally;

pub use draw::{Draws, Weights};
pub use epoch::{EpochOrder, OrderKind, OrderSpec};
pub use keyed::{KeyedPermutation, KeyedRng, key, mix};
pub use mt19937::Generator;
pub use state::{DrawnBy, LoaderState, StateError};
pub use tally::{Differs, Tally, Visit, Wrong, term};
