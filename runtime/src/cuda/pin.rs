//! Page-locked memory: what a GPU reads by itself, while the CPU does other things.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, sys};

use super::lanes::refused;
use crate::Error;

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
#[expect(unsafe_code, reason = "cudarc has no safe form for memory of others")]
pub(crate) fn pin(context: &Arc<CudaContext>, memory: &[u8]) -> Result<Pinned, Error> {
    let index = context.ordinal();
    let refused = |e: DriverError| refused(index, "page-lock the memory of a batch", e);
    context.bind_to_thread().map_err(refused)?;
    let start = memory.as_ptr().cast_mut().cast::<c_void>();
    // SAFETY: the range is memory of ours; locking neither reads nor writes it. That it
    // outlives the lock is the caller's part; else the driver would hold pages that have
    // become somebody else's, until `cuMemHostUnregister`.
    let locked = unsafe { sys::cuMemHostRegister_v2(start, memory.len(), 0) };
    locked.result().map_err(refused)?;
    Ok(Pinned { start, context: Arc::clone(context) })
}

impl Drop for Pinned {
    #[expect(unsafe_code, reason = "as `pin`")]
    fn drop(&mut self) {
        let context = &self.context;
        context.record_err(context.bind_to_thread());
        // SAFETY: locked by `pin`, and not since unlocked; no copy is under way, since the
        // ring that copies from it waits for its streams when it is dropped.
        context.record_err(unsafe { sys::cuMemHostUnregister(self.start) }.result());
    }
}

#[expect(unsafe_code, reason = "a pointer makes it neither")]
mod threads {
    // SAFETY: the pointer is only a number given to the driver, which takes it from any
    // thread; nothing is read or written through it.
    unsafe impl Send for super::Pinned {}
    // SAFETY: as above.
    unsafe impl Sync for super::Pinned {}
}
