//! Copies batches to a GPU.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};

use super::feed::{About, TensorBatch};
use super::lend::copy;
use super::numbers::{Converter, own};
use super::{FeedOptions, Pin};
use crate::cuda::{
    CudaError, CudaLanes, DeviceSlots, Gpu, Held, Lent, Memory, Views, labels_at, pin,
};
use crate::{Batch, Epoch, Error, Loader};

/// The ring of device slots of one loader.
pub(super) struct DeviceFeed<V: Views> {
    ring: DeviceSlots<V, Packed, Ahead>,
    device: Device,
    /// Number of bytes of a pixel.
    pixel_bytes: i64,
    /// Number of the loader's batches that may be held at a time.
    may_hold: usize,
    /// An error of the loader, told after the batches before it.
    failed: Option<Error>,
    /// Why the loader's slots are not page-locked although they were to be.
    unpinned: Option<Error>,
}

/// The information that accompanies a batch on its way to the GPU.
pub(super) struct Ahead {
    about: About,
    /// Fields that are not images: on the CPU until their batch is taken.
    fields: BTreeMap<String, Tensor>,
}

fn others(batch: &Batch) -> Result<BTreeMap<String, Tensor>, Error> {
    let mut fields = BTreeMap::new();
    for (name, _) in batch.fields().filter(|(name, _)| *name != "image") {
        fields.extend(copy(batch, name)?.map(|tensor| (name.to_owned(), tensor)));
    }
    Ok(fields)
}

/// Returns the number of bytes of a pixel in the loader's batches.
fn pixel_bytes(loader: &Loader) -> usize {
    loader.image().map_or(0, |(dtype, channels)| channels * dtype.size_bytes() as usize)
}

/// A batch whose labels follow its images in memory, so that one copy brings both.
struct Packed {
    batch: Batch,
    /// Number of bytes of images and labels together.
    bytes: usize,
}

impl Packed {
    fn new(mut batch: Batch) -> Result<Self, Error> {
        let labels: Vec<u8> = batch.labels().iter().flat_map(|n| n.to_ne_bytes()).collect();
        let start = labels_at(batch.images().len());
        let bytes = start + labels.len();
        let room = batch.image_memory().len();
        let too_small = || Error::Tensors {
            reason: format!("a batch needs {bytes} bytes, but its buffer has {room}"),
        };
        batch
            .image_memory_mut()
            .get_mut(start..bytes)
            .ok_or_else(too_small)?
            .copy_from_slice(&labels);
        Ok(Self { batch, bytes })
    }
}

impl Held for Packed {
    fn bytes(&self) -> &[u8] {
        self.batch.image_memory().get(..self.bytes).unwrap_or_default()
    }
}

/// Images `u8` of `shape` and labels `i64` of shape `[n_labels]`, over `memory` of a slot.
fn parts(memory: &Tensor, shape: [i64; 4], n_labels: i64) -> Result<(Tensor, Tensor), Error> {
    let images: i64 = shape.iter().product();
    let start = labels_at(usize::try_from(images).unwrap_or_default()) as i64;
    let labels = memory.f_narrow(0, start, n_labels * 8)?.f_view_dtype(Kind::Int64)?;
    Ok((memory.f_narrow(0, 0, images)?.f_view(&shape[..])?, labels))
}

impl DeviceFeed<CudaLanes> {
    /// Page-locks the loader's slots and allocates those of the GPU.
    pub(super) fn on_gpu(gpu: &Gpu, loader: &Loader, options: &FeedOptions) -> Result<Self, Error> {
        let context = gpu.context();
        let about = loader.options();
        let (width, height) = about.transform.size();
        let row_bytes = width as usize * height as usize * pixel_bytes(loader);
        let bytes = labels_at(about.batch_size * row_bytes) + about.batch_size * size_of::<i64>();
        let mut unpinned = None;
        if options.pin == Pin::Register {
            match loader.hold(&mut |memory| Ok(Box::new(pin(context, memory)?))) {
                Err(refused @ Error::Cuda(CudaError::Gpu { .. })) => unpinned = Some(refused),
                held => held?,
            }
        }
        let lanes = |n_slots| {
            let lanes = |staged| {
                let of = Memory { n_slots, bytes, slots: options.slots, staged };
                CudaLanes::new(context, &of, options.poison)
            };
            match &unpinned {
                // If locking is refused, allocating locked memory may be refused as well.
                Some(_) => lanes(true).or_else(|_| lanes(false)),
                None => lanes(options.pin == Pin::Alloc),
            }
        };
        let this = Self::new(loader, options, gpu.device(), lanes)?;
        Ok(Self { unpinned, ..this })
    }
}

impl<V: Views> DeviceFeed<V> {
    /// Over the slots that `lanes` makes, told how many.
    fn new(
        loader: &Loader,
        options: &FeedOptions,
        device: Device,
        lanes: impl FnOnce(usize) -> Result<V, Error>,
    ) -> Result<Self, Error> {
        let FeedOptions { ahead, .. } = *options;
        // One batch is filled while the others are held, since otherwise the loader could make
        // none.
        let may_hold = loader.options().slots - 1;
        if may_hold <= ahead {
            let slots = may_hold + 1;
            let reason =
                format!("{slots} are too few for {ahead} ahead on a GPU, which needs 2 more");
            return Err(Error::Option { option: "slots", reason });
        }
        let n_slots = ahead + 1;
        let ring = DeviceSlots::new(lanes(n_slots)?, n_slots)?;
        let pixel_bytes = pixel_bytes(loader) as i64;
        Ok(Self { ring, device, pixel_bytes, may_hold, failed: None, unpinned: None })
    }

    /// Returns why copies are slower than they could be.
    pub(super) fn unpinned(&self) -> Option<&Error> {
        self.unpinned.as_ref()
    }

    /// The next batch of `batches`, and those after it on their way. Waits for the loader
    /// only when there is no batch to take.
    pub(super) fn next(
        &mut self,
        batches: &mut Epoch<'_>,
        converter: &Converter,
    ) -> Result<Option<TensorBatch>, Error> {
        if self.failed.is_none() && self.ring.is_empty() {
            self.upload_next(batches)?;
        }
        self.top_up(batches)?;
        let Some(batch) = self.take(converter)? else {
            return self.failed.take().map_or(Ok(None), Err);
        };
        // The next batches are copied while the training run computes on this one.
        self.top_up(batches)?;
        Ok(Some(batch))
    }

    /// Uploads what the loader has ready, as far as there is room.
    fn top_up(&mut self, batches: &mut Epoch<'_>) -> Result<(), Error> {
        while self.failed.is_none()
            && self.ring.has_room()
            && batches.is_ready()
            && self.ring.give_back_copied()? < self.may_hold
            && self.upload_next(batches)?
        {}
        Ok(())
    }

    /// Waits for the loader's next batch and uploads it; whether there was one.
    fn upload_next(&mut self, batches: &mut Epoch<'_>) -> Result<bool, Error> {
        while self.ring.give_back_copied()? >= self.may_hold {
            self.ring.give_back_oldest()?;
        }
        match batches.next() {
            None => Ok(false),
            Some(Err(error)) => {
                self.failed = Some(error);
                Ok(false)
            }
            Some(Ok(mut batch)) => {
                let about = About::of(&mut batch, batches.state());
                let fields = others(&batch)?;
                self.ring.upload(Packed::new(batch)?, Ahead { about, fields })?;
                Ok(true)
            }
        }
    }

    /// Returns the oldest batch as tensors.
    fn take(&mut self, converter: &Converter) -> Result<Option<TensorBatch>, Error> {
        let Some((lent, Ahead { about, fields })) = self.ring.take()? else { return Ok(None) };
        let made = self.tensors(&lent, &about, converter);
        // The slot is released even after an error, since the stream may have got some of the work.
        self.ring.consumed(lent)?;
        let (images, labels) = made?;
        let device = self.device;
        let fields = fields.into_iter().map(|(name, field)| Ok((name, field.f_to_device(device)?)));
        Ok(Some(about.with(images, labels, fields.collect::<Result<_, Error>>()?)))
    }

    fn tensors(
        &self,
        lent: &Lent,
        about: &About,
        converter: &Converter,
    ) -> Result<(Tensor, Tensor), Error> {
        let (width, height) = about.size;
        let shape =
            [about.sample_ids.len() as i64, i64::from(height), i64::from(width), self.pixel_bytes];
        if shape[0] == 0 {
            // The slot is empty.
            let none = |shape: &[i64], kind| Tensor::f_zeros(shape, (kind, self.device));
            return Ok((converter.convert(&none(&shape, Kind::Uint8)?)?, none(&[0], Kind::Int64)?));
        }
        let memory = self.ring.lanes().memory(lent.slot());
        let (bytes, labels) = parts(memory, shape, about.n_labels)?;
        Ok((converter.convert(&bytes)?, own(&labels)?))
    }

    /// Drops the batches on their way.
    pub(super) fn abandon(&mut self) {
        self.ring.abandon();
        self.failed = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cuda::Lanes;
    use crate::fixtures::{Recipe, make};
    use crate::torch::{AxisOrder, Numbers};
    use crate::{
        Bundle, Dtype, LoaderError, LoaderOptions, Normalise, OnBadSample, Split, Transform,
    };

    const SIDE: u32 = 16;

    /// Slots on the CPU, copied to at once and overwritten as soon as they may be.
    struct HostLanes {
        slots: Vec<Tensor>,
        /// Whether finished copies are recognised without waiting.
        quick: bool,
    }

    impl Lanes for HostLanes {
        type Event = ();

        fn event(&self) -> Result<(), Error> {
            Ok(())
        }

        fn copy_records(&self, _event: &()) -> Result<(), Error> {
            Ok(())
        }

        fn copy_waits(&self, _event: &()) -> Result<(), Error> {
            Ok(())
        }

        fn compute_records(&self, _event: &()) -> Result<(), Error> {
            Ok(())
        }

        fn compute_waits(&self, _event: &()) -> Result<(), Error> {
            Ok(())
        }

        fn is_past(&self, _event: &()) -> Result<bool, Error> {
            Ok(self.quick)
        }

        fn wait(&self, _event: &()) -> Result<(), Error> {
            Ok(())
        }

        fn upload(&mut self, slot: usize, batch: &[u8]) -> Result<(), Error> {
            let to = &mut self.slots[slot];
            let _ = to.f_fill_(0xA5)?;
            to.f_narrow(0, 0, batch.len() as i64)?.f_copy_(&Tensor::f_from_slice(batch)?)?;
            Ok(())
        }

        fn finish(&self) {}
    }

    impl Views for HostLanes {
        fn memory(&self, slot: usize) -> &Tensor {
            &self.slots[slot]
        }
    }

    fn loader(bundle: &Arc<Bundle>, on_error: OnBadSample) -> Loader {
        let options = LoaderOptions {
            batch_size: 3,
            threads: 2,
            transform: Transform::train(SIDE),
            on_error,
            ..LoaderOptions::new(Split::Train)
        };
        Loader::new(Arc::clone(bundle), options).unwrap()
    }

    fn device_feed(loader: &Loader, ahead: usize) -> Result<DeviceFeed<HostLanes>, Error> {
        feed_of(loader, ahead, true)
    }

    fn feed_of(loader: &Loader, ahead: usize, quick: bool) -> Result<DeviceFeed<HostLanes>, Error> {
        let options = FeedOptions { ahead, ..FeedOptions::default() };
        let bytes = i64::from(SIDE * SIDE * 3 * 3 + 3 * 8);
        let slot = |_| Tensor::zeros([bytes], (Kind::Uint8, Device::Cpu));
        DeviceFeed::new(loader, &options, Device::Cpu, |n| {
            Ok(HostLanes { slots: (0..n).map(slot).collect(), quick })
        })
    }

    fn converter() -> Converter {
        let how = Normalise::default();
        let plain = (Numbers::Stored, AxisOrder::Contiguous);
        Converter::new(plain, (Dtype::U8, 3), &how, Device::Cpu).unwrap()
    }

    /// The contents of a batch: samples, labels, bytes.
    type Seen = (Vec<u64>, Vec<i64>, Vec<u8>);

    fn seen(batch: &TensorBatch) -> Seen {
        let bytes = batch.images.permute([0, 2, 3, 1]).contiguous();
        let mut images = vec![0; bytes.numel()];
        bytes.copy_data_u8(&mut images, bytes.numel());
        (batch.sample_ids.clone(), Vec::try_from(&batch.labels).unwrap(), images)
    }

    #[test]
    fn batches_states_and_order_are_those_of_the_loader() {
        let made = make(&Recipe::default());
        let converter = converter();
        for ahead in 1..3 {
            let (mut plain, mut ahead_of) =
                (loader(&made.bundle, OnBadSample::Fail), loader(&made.bundle, OnBadSample::Fail));
            let mut feed = device_feed(&ahead_of, ahead).unwrap();
            for epoch in 0..3 {
                let mut batches = ahead_of.epoch(epoch);
                let mut expected = plain.epoch(epoch);
                while let Some(batch) = feed.next(&mut batches, &converter).unwrap() {
                    let plain = expected.next().unwrap().unwrap();
                    let labels = plain.labels().to_vec();
                    let samples = plain.sample_ids().to_vec();
                    assert_eq!(seen(&batch), (samples, labels, plain.images().to_vec()));
                    assert_eq!(batch.state, expected.state(), "not that of batches ahead");
                }
                assert!(expected.next().is_none(), "a batch is missing");
            }
        }
    }

    #[test]
    fn an_epoch_left_anywhere_leaves_nothing_behind() {
        let made = make(&Recipe::default());
        let converter = converter();
        let mut loader = loader(&made.bundle, OnBadSample::Fail);
        let mut feed = device_feed(&loader, 2).unwrap();
        let mut whole = Vec::new();
        let mut batches = loader.epoch(1);
        while let Some(batch) = feed.next(&mut batches, &converter).unwrap() {
            whole.push((seen(&batch), batch.state));
        }
        drop(batches);
        for stop in 0..whole.len() {
            let mut batches = loader.epoch(1);
            for (expected, _) in &whole[..stop] {
                let batch = feed.next(&mut batches, &converter).unwrap().unwrap();
                assert_eq!(&seen(&batch), expected);
            }
            feed.abandon();
            drop(batches);
            // The loader resumes at the batch that was returned last.
            if let Some((_, state)) = stop.checked_sub(1).map(|last| &whole[last]) {
                loader.restore(state).unwrap();
                let mut batches = loader.epoch(1);
                for (expected, _) in &whole[stop..] {
                    let batch = feed.next(&mut batches, &converter).unwrap().unwrap();
                    assert_eq!(&seen(&batch), expected);
                }
                assert!(feed.next(&mut batches, &converter).unwrap().is_none());
            }
        }
    }

    #[test]
    fn an_error_comes_after_the_batches_before_it() {
        let recipe = Recipe { replace: &[(7, b"no image".to_vec())], ..Recipe::default() };
        let made = make(&recipe);
        let converter = converter();
        let (mut plain, mut ahead_of) =
            (loader(&made.bundle, OnBadSample::Fail), loader(&made.bundle, OnBadSample::Fail));
        let good = plain.epoch(0).take_while(Result::is_ok).count();
        let mut feed = device_feed(&ahead_of, 2).unwrap();
        let mut batches = ahead_of.epoch(0);
        for _ in 0..good {
            feed.next(&mut batches, &converter).unwrap().unwrap();
        }
        let error = feed.next(&mut batches, &converter).unwrap_err();
        assert!(matches!(error, Error::Loader(LoaderError::Decode { .. })), "{error}");
        drop(batches);

        let (mut plain, mut ahead_of) =
            (loader(&made.bundle, OnBadSample::Skip), loader(&made.bundle, OnBadSample::Skip));
        let mut feed = device_feed(&ahead_of, 1).unwrap();
        let mut batches = ahead_of.epoch(0);
        for expected in plain.epoch(0) {
            let (expected, batch) =
                (expected.unwrap(), feed.next(&mut batches, &converter).unwrap().unwrap());
            assert_eq!((batch.len(), batch.skipped), (expected.len(), expected.skipped().len()));
        }
    }

    #[test]
    fn a_batch_that_is_there_waits_for_none_after_it() {
        let made = make(&Recipe::default());
        let mut loader = loader(&made.bundle, OnBadSample::Fail);
        let mut feed = feed_of(&loader, 2, false).unwrap();
        let mut batches = loader.epoch(0);
        // All slots but one are lent, so that the loader can make only one batch; asking for the
        // next would be an error, which is returned in its turn.
        let lent: Vec<_> = batches.by_ref().take(3).map(Result::unwrap).collect();
        assert!(feed.next(&mut batches, &converter()).unwrap().is_some());
        drop(lent);
        assert!(feed.next(&mut batches, &converter()).unwrap().is_some());
    }

    #[test]
    fn a_loader_that_has_just_left_an_epoch_can_be_held() {
        let made = make(&Recipe::default());
        for _ in 0..20 {
            let mut loader = loader(&made.bundle, OnBadSample::Fail);
            // The loader's threads are in the middle of samples.
            drop(loader.epoch(0));
            loader.hold(&mut |_| Ok(Box::new(()))).unwrap();
            assert!(loader.hold(&mut |_| Ok(Box::new(()))).is_err(), "once");
        }
    }

    #[test]
    fn a_loader_with_too_few_slots_is_refused() {
        let made = make(&Recipe::default());
        let loader = loader(&made.bundle, OnBadSample::Fail);
        assert_eq!(loader.options().slots, 4);
        assert!(device_feed(&loader, 2).is_ok());
        let error = device_feed(&loader, 3).err().unwrap();
        assert!(matches!(error, Error::Option { option: "slots", .. }), "{error}");
    }
}
