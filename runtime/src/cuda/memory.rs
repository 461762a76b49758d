//! Memory that a GPU reads and writes directly: its own, and page-locked memory of the host.

#![expect(unsafe_code, reason = "cudarc has no safe form for memory that is not its own")]

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError, PinnedHostSlice};
use cudarc::driver::{DevicePtr as _, result, sys};
use tch::{Device, Kind, Tensor};

use super::lanes::refused;
use crate::Error;
use crate::tensor_options::Slots;

/// The byte that fills a slot before each batch, to show that nothing reads it too early.
const POISON: u8 = 0xA5;

/// Memory of this process that is page-locked until this is dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    start: *mut c_void,
    context: Arc<CudaContext>,
}

/// Page-locks `memory`, which must begin and end with a page of its own and stay where it
/// is for as long as the returned value lives.
///
/// The loader's slots are allocated once and decoded into; to lock them is to copy nothing.
pub(crate) fn pin(context: &Arc<CudaContext>, memory: &[u8]) -> Result<Pinned, Error> {
    let index = context.ordinal();
    let refused = |e: DriverError| refused(index, "page-lock the memory of a batch", e);
    context.bind_to_thread().map_err(refused)?;
    let start = memory.as_ptr().cast_mut().cast::<c_void>();
    // SAFETY: the range is memory of ours; locking neither reads nor writes it. The caller must
    // keep the memory for longer than the lock; otherwise the driver would lock pages that are used
    // for something else, until `cuMemHostUnregister`.
    let locked = unsafe { sys::cuMemHostRegister_v2(start, memory.len(), 0) };
    locked.result().map_err(refused)?;
    Ok(Pinned { start, context: Arc::clone(context) })
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let context = &self.context;
        context.record_err(context.bind_to_thread());
        // SAFETY: locked by `pin`, and not since unlocked; no copy is under way, since the
        // ring that copies from it waits for its streams when it is dropped.
        context.record_err(unsafe { sys::cuMemHostUnregister(self.start) }.result());
    }
}

// SAFETY: the pointer is only a number given to the driver, which takes it from any
// thread; nothing is read or written through it.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

/// Page-locked memory of the driver's own, to be written before it is read.
pub(super) fn page_locked(
    context: &Arc<CudaContext>,
    len: usize,
) -> Result<PinnedHostSlice<u8>, DriverError> {
    // SAFETY: any bytes are valid values. No flags are set, since cudarc's default is
    // write-combined memory, which is slow to read.
    unsafe { context.alloc_pinned_with_flags(len, 0) }
}

/// Bytes on the device, as a tensor of `u8` with one dimension.
pub(super) struct DeviceBytes {
    tensor: Tensor,
    /// The driver's memory that it is a view of, if it is the driver's.
    _of_driver: Option<CudaSlice<u8>>,
}

impl DeviceBytes {
    pub(super) fn new(slots: Slots, len: usize, copy: &Arc<CudaStream>) -> Result<Self, Error> {
        let index = copy.context().ordinal();
        let refused = |e| refused(index, "allocate the slots of the ring", e);
        let device = Device::Cuda(index);
        let (tensor, of_driver) = match slots {
            Slots::Torch => (Tensor::f_empty([len as i64], (Kind::Uint8, device))?, None),
            Slots::Driver => {
                // SAFETY: device memory is read only where batches were copied before.
                let slice = unsafe { copy.alloc::<u8>(len) }.map_err(refused)?;
                (over(&slice, copy, device)?, Some(slice))
            }
        };
        Ok(Self { tensor, _of_driver: of_driver })
    }

    pub(super) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn address(&self) -> u64 {
        self.tensor.data_ptr().addr() as u64
    }

    /// Checks that there is space for `batch`.
    pub(super) fn check_room(&self, batch: &[u8]) -> Result<(), Error> {
        let room = self.tensor.numel();
        if batch.len() > room {
            let reason = format!("a batch of {} bytes for a slot of {room}", batch.len());
            return Err(Error::Tensors { reason });
        }
        Ok(())
    }

    /// Overwrites all memory, in the order of `stream`.
    pub(super) fn poison(&mut self, stream: &CudaStream) -> Result<(), DriverError> {
        let (start, len) = (self.address(), self.tensor.numel());
        // SAFETY: this one's memory, on the stream that writes it.
        unsafe { result::memset_d8_async(start, POISON, len, stream.cu_stream()) }
    }

    /// Begins to copy `bytes` to the start of the memory, in the order of `stream`. They must not
    /// change until the copy is done, or other bytes are copied.
    pub(super) fn copy_from(&mut self, bytes: &[u8], stream: &CudaStream) -> Result<(), Error> {
        self.check_room(bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: there is room for them, as checked, on the stream that writes it; the ring
        // (`DeviceSlots`) keeps them as they are until the copy is past.
        let copied =
            unsafe { result::memcpy_htod_async(self.address(), bytes, stream.cu_stream()) };
        copied.map_err(|e| refused(stream.context().ordinal(), "copy a batch", e).into())
    }
}

/// Returns a tensor that covers all of `slice`.
fn over(slice: &CudaSlice<u8>, copy: &CudaStream, device: Device) -> Result<Tensor, Error> {
    let (start, _none) = slice.device_ptr(copy);
    let start = std::ptr::with_exposed_provenance(start as usize);
    // SAFETY: memory of this device, as long as the tensor says, which `DeviceBytes` holds longer
    // than the tensor, until after the streams are done. A batch is no longer than that
    // (`copy_from` checks it), and its copy comes first on the compute stream. The ring is told
    // when the last reader was given to that stream; a reader after that would see the next batch.
    Ok(unsafe { Tensor::f_from_blob(start, &[slice.len() as i64], &[], Kind::Uint8, device) }?)
}
