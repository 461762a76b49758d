//! Measures how fast bytes can be copied to a GPU: the limit, and the rate of the ring.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use cudarc::driver::DriverError;

use super::Gpu;
use super::device_slots::{DeviceSlots, Held, labels_at};
use super::lanes::{CudaLanes, Memory, refused};
use super::memory::{Pinned, page_locked, pin};
use crate::Error;
use crate::loader::{LoaderError, pages};
use crate::tensor_options::{FeedOptions, Pin};

/// Measured rates, in bytes per second, of copies from page-locked memory to a GPU.
#[derive(Debug, Clone, Copy)]
pub struct CopyRates {
    /// The rate for one buffer of the driver, copied again and again on one stream.
    pub plain: f64,
    /// The ring of device slots, its events and waits included, with labels, and nothing
    /// computed on the batches; slots and page locks as the options say.
    pub ring: f64,
}

/// Copies batches of `rows` rows of `row_bytes` bytes for `time` each way.
///
/// # Errors
/// [`CudaError::Gpu`], [`LoaderError::Memory`].
pub fn copy_rates(
    gpu: &Gpu,
    rows: usize,
    row_bytes: usize,
    options: &FeedOptions,
    time: Duration,
) -> Result<CopyRates, Error> {
    Ok(CopyRates {
        plain: plain(gpu, rows * row_bytes, time).map_err(|e| refused(gpu.index, "copy", e))?,
        ring: ring(gpu, rows, row_bytes, options, time)?,
    })
}

fn plain(gpu: &Gpu, bytes: usize, time: Duration) -> Result<f64, DriverError> {
    let stream = gpu.context().new_stream()?;
    let mut host = page_locked(gpu.context(), bytes)?;
    host.as_mut_slice()?.fill(1);
    let mut device = stream.alloc_zeros::<u8>(bytes)?;
    let host = host.as_slice()?;
    let mut copies = |n: u64| {
        for _ in 0..n {
            stream.memcpy_htod(host, &mut device)?;
        }
        stream.synchronize()
    };
    copies(3)?;
    let (since, mut n) = (Instant::now(), 0);
    while since.elapsed() < time {
        copies(16)?;
        n += 16;
    }
    Ok((n * bytes as u64) as f64 / since.elapsed().as_secs_f64())
}

/// A batch whose memory never changes.
struct Same {
    /// First, so that it is let go of before the memory is freed.
    _lock: Option<Pinned>,
    memory: BytesMut,
}

impl Held for Arc<Same> {
    fn bytes(&self) -> &[u8] {
        &self.memory
    }
}

fn ring(
    gpu: &Gpu,
    rows: usize,
    row_bytes: usize,
    options: &FeedOptions,
    time: Duration,
) -> Result<f64, Error> {
    let (ahead, bytes) = (options.ahead, rows * row_bytes);
    let len = labels_at(bytes) + rows * size_of::<i64>();
    let mut memory = pages(len).ok_or(LoaderError::Memory { bytes: len as u64 })?;
    let lock = (options.pin == Pin::Register).then(|| pin(gpu.context(), &memory)).transpose()?;
    memory.fill(1);
    memory.truncate(len);
    let same = Arc::new(Same { _lock: lock, memory });
    let of = Memory {
        n_slots: ahead + 1,
        bytes: len,
        slots: options.slots,
        staged: options.pin == Pin::Alloc,
    };
    let lanes = CudaLanes::new(gpu.context(), &of, false)?;
    let mut ring = DeviceSlots::new(lanes, ahead + 1)?;
    let mut batches = |n: u64| {
        for _ in 0..n {
            while ring.has_room() {
                ring.upload(Arc::clone(&same), ())?;
            }
            if let Some((lent, ())) = ring.take()? {
                ring.consumed(lent)?;
            }
            // The number is that of the batches that a loader would lend.
            while ring.give_back_copied()? > ahead {
                ring.give_back_oldest()?;
            }
        }
        while ring.give_back_oldest()? {}
        Ok::<_, Error>(())
    };
    batches(3)?;
    let (since, mut n) = (Instant::now(), 0);
    while since.elapsed() < time {
        batches(16)?;
        n += 16;
    }
    Ok((n * bytes as u64) as f64 / since.elapsed().as_secs_f64())
}
