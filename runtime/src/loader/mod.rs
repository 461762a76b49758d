//! The loader: delivers a split's samples as batches, decoded by a fixed pool of threads.
//!
//! ```text
//!   order ─▶ tickets, one a sample, in order
//!              │ │ │
//!              ▼ ▼ ▼     threads: read, check, decode, augment
//!   ring of slots       each row, with all its fields, written by the thread that holds it
//!              │
//!              ▼ in order
//!            Batch ── dropped: its slot goes back to the ring
//! ```
//!
//! A row contains the network's input: the threads write the final numbers, normalised and
//! mirrored, in the layout that was asked for. Two rows are blended by the thread that makes the
//! second. Samples stored as pixels (payload `raw`) are not decoded, and copied if they are not
//! resized. All threads work on the same batch until its samples are handed out, so the first batch
//! takes one batch's work divided by the number of threads. The memory is that of
//! [`LoaderOptions::slots`] batches, each thread's decoder, and at most
//! [`LoaderOptions::read_ahead_bytes`] bytes of samples that are read ahead.

mod ahead;
mod batch;
mod batch_slots;
mod blender;
mod boxes;
mod chosen;
mod columns;
mod draw;
mod epoch;
mod epoch_steps;
mod error;
mod fields;
mod fitted;
mod labels;
mod loader_plan;
mod mix;
mod options;
mod panics;
mod proof;
mod row_maker;
mod sample_function;
mod sample_reader;
mod settings;
mod shards;
mod slot;
mod slow;
mod stats;
mod stored_value;
mod ticket;
mod walk;
mod worker;

pub use batch::Batch;
pub use chosen::{Fold, Predicate, SampleFacts, Select};
pub use columns::{Array, Element, Values};
pub use draw::Draw;
pub use epoch::{Epoch, Loader, Stream};
pub use epoch_steps::Turns;
pub use error::LoaderError;
pub use fitted::Unchosen;
pub use labels::{IGNORED_LABEL, UnknownLabels};
pub use loader_plan::LoaderPlan;
pub use mix::{Mix, MixState};
pub use options::{LoaderOptions, OnBadSample};
pub use proof::Delivered;
pub use sample_function::{
    Each, GivenSample, GivenValue, ResultValue, SampleFunction, SampleLane, SampleResult, Untaken,
};
pub use settings::LoaderSettings;
#[cfg(feature = "cuda")]
pub(crate) use slot::pages;
pub use stats::{Bottleneck, Phase, Stats};
