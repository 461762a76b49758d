//! Batches on their way to a GPU.

use tch::{Device, Kind, Tensor};

use super::feed::{About, FeedOptions, TensorBatch};
use super::numbers::{Converter, own};
use crate::cuda::{CudaLanes, Gpu, Held, Ring, pin};
use crate::order::LoaderState;
use crate::{Batch, Error, Loader};

/// The ring of device slots of one loader.
pub(super) struct DeviceFeed {
    ring: Ring<CudaLanes, Uploaded>,
    /// How many of the loader's batches may be held at a time.
    may_hold: usize,
    device: Device,
}

/// A batch whose copy is under way or done.
struct Uploaded {
    batch: Batch,
    state: LoaderState,
}

impl Held for Uploaded {
    fn images(&self) -> &[u8] {
        self.batch.images()
    }

    fn labels(&self) -> &[i64] {
        self.batch.labels()
    }
}

impl DeviceFeed {
    pub(super) fn new(gpu: &Gpu, loader: &Loader, options: &FeedOptions) -> Result<Self, Error> {
        let about = loader.options();
        // One is filled while the others are held, or the loader could make none.
        let may_hold = about.slots - 1;
        if may_hold <= options.ahead {
            let reason = format!(
                "{} batches are held ahead on a GPU and one is computed on; {} slots are too few",
                options.ahead, about.slots
            );
            return Err(Error::Option { option: "slots", reason });
        }
        let context = gpu.context();
        loader.hold(&mut |memory| Ok(Box::new(pin(context, memory)?)))?;
        let (width, height) = about.transform.size();
        let row_bytes = width as usize * height as usize * 3;
        let n_slots = options.ahead + 1;
        let rows = about.batch_size;
        let lanes = CudaLanes::new(context, n_slots, rows, row_bytes, options.poison)?;
        Ok(Self { ring: Ring::new(lanes, n_slots)?, may_hold, device: gpu.device() })
    }

    /// Whether the loader can be asked for another batch; waits for a copy where it holds
    /// too many of the loader's slots.
    pub(super) fn has_room(&mut self) -> Result<bool, Error> {
        if !self.ring.has_room() {
            return Ok(false);
        }
        self.ring.give_back_copied()?;
        while self.ring.n_held() >= self.may_hold && self.ring.give_back_oldest()? {}
        Ok(true)
    }

    /// Begins to copy `batch`, after which the loader was in `state`.
    pub(super) fn upload(&mut self, batch: Batch, state: LoaderState) -> Result<(), Error> {
        self.ring.upload(Uploaded { batch, state })
    }

    /// The oldest batch, as tensors.
    pub(super) fn take(&mut self, converter: &Converter) -> Result<Option<TensorBatch>, Error> {
        let look = |held: &Uploaded| {
            let (width, height) = held.batch.size();
            let n = held.batch.len() as i64;
            let shape = [n, i64::from(height), i64::from(width), 3];
            (shape, held.batch.labels().len() as i64, About::of(&held.batch, held.state.clone()))
        };
        let Some((lent, (shape, n_labels, about))) = self.ring.take(look)? else {
            return Ok(None);
        };
        let made = if shape[0] == 0 {
            // There is nothing in the slot.
            Tensor::f_zeros(shape, (Kind::Uint8, self.device))
                .and_then(|none| Ok((none, Tensor::f_zeros([0], (Kind::Int64, self.device))?)))
                .map_err(Error::from)
                .and_then(|(none, labels)| Ok((converter.convert(&none)?, labels)))
        } else {
            self.ring
                .lanes()
                .view(lent.slot(), shape, n_labels)
                .and_then(|(bytes, labels)| Ok((converter.convert(&bytes)?, own(&labels)?)))
        };
        // Also after an error: some of it may have been given to the stream.
        self.ring.consumed(lent)?;
        let (images, labels) = made?;
        Ok(Some(about.with(images, labels)))
    }

    /// Throws away what is on its way.
    pub(super) fn abandon(&mut self) {
        self.ring.abandon();
    }
}
