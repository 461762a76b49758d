//! The order to make one sample, which passes from the batch slots to a thread and back.

use std::sync::Arc;

use super::epoch_steps::Run;
use super::slot::Row;
use super::walk::Place;
use crate::Error;

/// One sample to be made, and the memory to make it in.
#[derive(Debug)]
pub(super) struct Ticket {
    /// Where it belongs.
    pub(super) place: Place,
    /// The epoch that the sample belongs to.
    pub(super) of: Arc<Run>,
    /// The sample's number in the split.
    pub(super) sample: u64,
    /// The number that its random numbers depend on: the sample, or its position if samples can
    /// repeat.
    pub(super) draws: u64,
    /// The sample's position in the epoch.
    pub(super) position: u64,
    /// The sample's term in the epoch's tally, once its digest is known.
    pub(super) term: Option<u64>,
    /// Why the sample that belongs there is replaced or left out.
    pub(super) broken: Option<Error>,
    /// The memory.
    pub(super) out: Row,
}
