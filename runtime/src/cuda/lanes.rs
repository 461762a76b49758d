//! The driver's streams, events and memory.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, CudaSlice, CudaStream, DriverError, PinnedHostSlice};
use cudarc::driver::{DevicePtr as _, sys};
use tch::{Device, Kind, Tensor};

use super::CudaError;
use super::device_slots::{Lanes, Views};
use crate::Error;

/// What a slot is filled with before each batch when it is to be seen that nobody reads it.
const POISON: u8 = 0xA5;

/// A copy stream of our own, libtorch's stream, and slots on the device.
pub(crate) struct CudaLanes {
    context: Arc<CudaContext>,
    copy: Arc<CudaStream>,
    /// The default stream, which libtorch uses unless its C++ is told otherwise.
    compute: Arc<CudaStream>,
    slots: Vec<Slot>,
    poison: bool,
}

struct Slot {
    images: CudaSlice<u8>,
    labels: CudaSlice<i64>,
    /// The labels once more, page-locked: those of a batch are not.
    host_labels: PinnedHostSlice<i64>,
}

impl CudaLanes {
    /// Slots of `rows` rows of `row_bytes` bytes.
    ///
    /// With `poison` each slot is overwritten before it is filled.
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        n_slots: usize,
        rows: usize,
        row_bytes: usize,
        poison: bool,
    ) -> Result<Self, Error> {
        let index = context.ordinal();
        let refused = |e| refused(index, "allocate the slots of the ring", e);
        let copy = context.new_stream().map_err(refused)?;
        let slot = |_| Slot::new(context, &copy, rows, rows * row_bytes).map_err(refused);
        let slots = (0..n_slots).map(slot).collect::<Result<_, CudaError>>()?;
        // What `alloc` gave to the copy stream is there for the compute stream too.
        copy.synchronize().map_err(refused)?;
        let compute = context.default_stream();
        Ok(Self { context: Arc::clone(context), copy, compute, slots, poison })
    }

    /// How an error of the driver is told.
    fn refused(&self, action: &'static str) -> impl Fn(DriverError) -> Error + use<> {
        let index = self.context.ordinal();
        move |e| refused(index, action, e).into()
    }
}

impl Slot {
    #[expect(unsafe_code, reason = "memory that is written before it is read")]
    fn new(
        context: &Arc<CudaContext>,
        copy: &Arc<CudaStream>,
        rows: usize,
        bytes: usize,
    ) -> Result<Self, DriverError> {
        // SAFETY: device memory is read only by views of batches copied there before. Host
        // labels are a type of any bytes, and written before each copy. No flags: the
        // default of cudarc is write-combined memory, slow to read back.
        unsafe {
            Ok(Self {
                images: copy.alloc(bytes)?,
                labels: copy.alloc(rows)?,
                host_labels: context.alloc_pinned_with_flags(rows, 0)?,
            })
        }
    }
}

impl Lanes for CudaLanes {
    type Event = CudaEvent;

    fn event(&self) -> Result<CudaEvent, Error> {
        // The host sleeps until it is past: a core that turns in circles could decode.
        // cudarc's flags cannot be joined, so it keeps a time, too, which nobody reads.
        let flags = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC;
        self.context.new_event(Some(flags)).map_err(self.refused("make an event"))
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

    fn upload(&mut self, slot: usize, images: &[u8], labels: &[i64]) -> Result<(), Error> {
        let refused = self.refused("copy a batch");
        let Slot { images: to, labels: to_labels, host_labels } = &mut self.slots[slot];
        if self.poison {
            self.context.bind_to_thread().map_err(&refused)?;
            fill(to, &self.copy, POISON).map_err(&refused)?;
        }
        if !images.is_empty() {
            self.copy.memcpy_htod(images, &mut to.slice_mut(..images.len())).map_err(&refused)?;
        }
        if !labels.is_empty() {
            // The ring saw the slot's last copy done, so that nothing reads these any more.
            let staged = &mut host_labels.as_mut_slice().map_err(&refused)?[..labels.len()];
            staged.copy_from_slice(labels);
            let staged: &[i64] = staged;
            self.copy
                .memcpy_htod(staged, &mut to_labels.slice_mut(..labels.len()))
                .map_err(&refused)?;
        }
        Ok(())
    }

    fn finish(&self) {
        // An error here is that of an earlier call, which returned it.
        self.context.record_err(self.copy.synchronize());
        self.context.record_err(self.compute.synchronize());
    }
}

impl Views for CudaLanes {
    fn device(&self) -> Device {
        Device::Cuda(self.context.ordinal())
    }

    #[expect(unsafe_code, reason = "tensors over memory that is not libtorch's")]
    fn view(&self, slot: usize, shape: [i64; 4], n_labels: i64) -> Result<(Tensor, Tensor), Error> {
        let Slot { images, labels, .. } = &self.slots[slot];
        let device = self.device();
        let (images, _none) = images.device_ptr(&self.compute);
        let (labels, _none) = labels.device_ptr(&self.compute);
        let (images, labels) = (images as usize as *const u8, labels as usize as *const u8);
        // SAFETY: memory of this device, which the slot holds until after the streams are
        // done; a batch is no longer than the slot (`upload` checks it), and its copy comes
        // first on the compute stream. The ring is told when the last reader was given to
        // that stream; a reader after that would see the next batch.
        let images = unsafe { Tensor::f_from_blob(images, &shape, &[], Kind::Uint8, device) }?;
        // SAFETY: as above.
        let labels = unsafe { Tensor::f_from_blob(labels, &[n_labels], &[], Kind::Int64, device) }?;
        Ok((images, labels))
    }
}

#[expect(unsafe_code, reason = "cudarc's safe form writes zeros only")]
fn fill(slot: &mut CudaSlice<u8>, stream: &CudaStream, value: u8) -> Result<(), DriverError> {
    use cudarc::driver::{DevicePtrMut as _, result};
    let len = slot.len();
    let (start, _none) = slot.device_ptr_mut(stream);
    // SAFETY: the slot's own memory, on the stream that writes it.
    unsafe { result::memset_d8_async(start, value, len, stream.cu_stream()) }
}

/// The driver's answer as an error of ours.
pub(super) fn refused(index: usize, action: &'static str, error: DriverError) -> CudaError {
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    CudaError::Gpu { index, action, reason: text.unwrap_or_else(|_| format!("{:?}", error.0)) }
}
