//! The driver's streams, events and memory.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, DriverError, PinnedHostSlice, sys};
use tch::Tensor;

use super::CudaError;
use super::device_slots::{Lanes, Views};
use super::memory::{DeviceBytes, page_locked};
use crate::Error;
use crate::tensor_options::Slots;

/// A copy stream of our own, libtorch's stream, and slots on the device.
pub(crate) struct CudaLanes {
    context: Arc<CudaContext>,
    copy: Arc<CudaStream>,
    /// The default stream, which libtorch uses unless its C++ is told otherwise.
    compute: Arc<CudaStream>,
    slots: Vec<Slot>,
    poison: bool,
}

/// The allocated memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) n_slots: usize,
    /// Number of bytes in a slot.
    pub(crate) bytes: usize,
    /// Who allocates the device's memory.
    pub(crate) slots: Slots,
    /// Whether each slot also has page-locked memory of the driver, through which batches are
    /// copied.
    pub(crate) staged: bool,
}

struct Slot {
    memory: DeviceBytes,
    /// The page-locked buffer to which a batch is copied first.
    staging: Option<PinnedHostSlice<u8>>,
}

impl CudaLanes {
    /// Allocates the memory. With `poison` each slot is overwritten before it is filled.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        memory: &Memory,
        poison: bool,
    ) -> Result<Self, Error> {
        let index = context.ordinal();
        let refused = |e| refused(index, "allocate the slots of the ring", e);
        let copy = context.new_stream().map_err(refused)?;
        let compute = context.default_stream();
        let slot = |_| Slot::new(context, &copy, memory);
        let slots = (0..memory.n_slots).map(slot).collect::<Result<_, Error>>()?;
        // Memory that the driver gave to the copy stream exists for the compute stream too, and
        // memory that libtorch gave is no longer used by its previous owners.
        copy.synchronize().map_err(refused)?;
        compute.synchronize().map_err(refused)?;
        Ok(Self { context: Arc::clone(context), copy, compute, slots, poison })
    }

    /// Returns a function that makes our error of the driver's.
    fn refused(&self, action: &'static str) -> impl Fn(DriverError) -> Error + use<> {
        let index = self.context.ordinal();
        move |e| refused(index, action, e).into()
    }
}

impl Slot {
    fn new(context: &Arc<CudaContext>, copy: &Arc<CudaStream>, of: &Memory) -> Result<Self, Error> {
        let index = context.ordinal();
        let refused = |e| refused(index, "allocate the slots of the ring", e);
        let memory = DeviceBytes::new(of.slots, of.bytes, copy)?;
        let alloc = || page_locked(context, of.bytes).map_err(refused);
        let staging = of.staged.then(alloc).transpose()?;
        Ok(Self { memory, staging })
    }
}

impl Lanes for CudaLanes {
    type Event = CudaEvent;

    fn event(&self) -> Result<CudaEvent, Error> {
        blocking_event(&self.context).map_err(self.refused("make an event"))
    }

    fn copy_records(&self, event: &CudaEvent) -> Result<(), Error> {
        event.record(&self.copy).map_err(self.refused("mark a copy"))
    }

    fn copy_waits(&self, event: &CudaEvent) -> Result<(), Error> {
        self.copy.wait(event).map_err(self.refused("order a copy"))
    }

    fn compute_records(&self, event: &CudaEvent) -> Result<(), Error> {
        event.record(&self.compute).map_err(self.refused("mark a computation"))
    }

    fn compute_waits(&self, event: &CudaEvent) -> Result<(), Error> {
        self.compute.wait(event).map_err(self.refused("order a computation"))
    }

    fn is_past(&self, event: &CudaEvent) -> Result<bool, Error> {
        self.context.bind_to_thread().map_err(self.refused("ask for a copy"))?;
        event.try_is_complete().map_err(self.refused("copy a batch"))
    }

    fn wait(&self, event: &CudaEvent) -> Result<(), Error> {
        event.synchronize().map_err(self.refused("copy a batch"))
    }

    fn upload(&mut self, slot: usize, batch: &[u8]) -> Result<(), Error> {
        let refused = self.refused("copy a batch");
        let Slot { memory, staging } = &mut self.slots[slot];
        memory.check_room(batch)?;
        self.context.bind_to_thread().map_err(&refused)?;
        if self.poison {
            memory.poison(&self.copy).map_err(&refused)?;
        }
        let batch = match staging {
            None => batch,
            Some(staged) => {
                // The ring saw the slot's last copy done, so that nothing reads this any more.
                let staged = &mut staged.as_mut_slice().map_err(&refused)?[..batch.len()];
                staged.copy_from_slice(batch);
                staged
            }
        };
        memory.copy_from(batch, &self.copy)
    }

    fn finish(&self) {
        // An error here is that of an earlier call, which returned it.
        self.context.record_err(self.copy.synchronize());
        self.context.record_err(self.compute.synchronize());
    }
}

impl Views for CudaLanes {
    fn memory(&self, slot: usize) -> &Tensor {
        self.slots[slot].memory.tensor()
    }
}

/// An event at which the host sleeps until it is past: a core that turns in circles could decode.
pub(super) fn blocking_event(context: &Arc<CudaContext>) -> Result<CudaEvent, DriverError> {
    // cudarc's flags cannot be joined, so it keeps a time, too, which nobody reads.
    context.new_event(Some(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC))
}

/// Waits until all work before `event` is done.
pub(crate) fn wait_for(event: &CudaEvent) -> Result<(), Error> {
    let refused = |e| refused(event.context().ordinal(), "compute", e).into();
    event.synchronize().map_err(refused)
}

/// Returns the driver's error as one of ours.
pub(super) fn refused(index: usize, action: &'static str, error: DriverError) -> CudaError {
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    CudaError::Gpu { index, action, reason: text.unwrap_or_else(|_| format!("{:?}", error.0)) }
}
