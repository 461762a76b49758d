//! Batches as tensors on a device, prepared while the training run computes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gular_augment::Blended;
use gular_order::LoaderState;
use tch::{Device, Kind, Tensor};

#[cfg(feature = "cuda")]
use super::Convert;
#[cfg(feature = "cuda")]
use super::device::DeviceFeed;
use super::lend::{copy, lend, lend_labels};
#[cfg(feature = "cuda")]
use super::numbers::Converter;
use super::{FeedOptions, Place};
#[cfg(feature = "cuda")]
use crate::cuda::CudaLanes;
#[cfg(feature = "cuda")]
use crate::{AxisOrder, Numbers};
use crate::{Batch, Epoch, Error, Loader, LoaderPlan, Stats, Values};

/// A batch on the device.
///
/// The tensors may be kept. On the CPU they are the loader's own memory, written by its threads and
/// lent until the last tensor that shares it is dropped; if so many are kept that the loader could
/// not continue, the next ones are copies.
#[derive(Debug)]
pub struct TensorBatch {
    /// Shape `[n, channels, height, width]`, in the numbers and layout asked for. Stored `u16`,
    /// which tch does not know, are `i32`.
    pub images: Tensor,
    /// Class indices, `i64` of shape `[n]`; `[0]` for a bundle without labels.
    /// [`IGNORED_LABEL`](crate::IGNORED_LABEL) where the class is unknown.
    pub labels: Tensor,
    /// For each sample, what it was blended with; empty unless
    /// [`LoaderOptions::blend`](crate::LoaderOptions::blend) is set.
    pub blended: Vec<Blended>,
    /// Samples whose class is known, over which a mean loss is one; 0 for a bundle without labels.
    pub n_labelled: usize,
    /// The samples, as numbers of the split.
    pub sample_ids: Vec<u64>,
    /// Keys of the samples.
    pub keys: Vec<String>,
    /// Other fields of numbers, by name ([`LoaderOptions::fields`](crate::LoaderOptions::fields)),
    /// each of shape `[n, …]`; `u16` as `i32`, `u32` as `i64`. On a GPU, a second picture has its
    /// stored numbers, `[n, height, width, channels]`.
    pub fields: BTreeMap<String, Tensor>,
    /// Other fields of bytes, by name: those of each sample.
    pub bytes: BTreeMap<String, Vec<Vec<u8>>>,
    /// The loader's state after this batch, to be saved once its step is done.
    pub state: LoaderState,
    /// Samples left out because they could not be decoded.
    pub skipped: usize,
}

impl TensorBatch {
    /// The number of samples; 0 on a rank that no sample of the last step falls to.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sample_ids.len()
    }

    /// Whether it has no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sample_ids.is_empty()
    }

    /// Returns soft labels like [`Batch::soft_labels`]: `f32` of shape `[n, n_classes]`, where the
    /// labels are.
    ///
    /// # Errors
    /// [`Error::Torch`].
    pub fn soft_labels(&self, n_classes: usize) -> Result<Tensor, Error> {
        // Computed there: nothing waits for the device.
        let device = self.labels.device();
        let classes = Tensor::f_arange(n_classes as i64, (Kind::Int64, device))?;
        let one_hot =
            |labels: &Tensor| labels.f_unsqueeze(-1)?.f_eq_tensor(&classes)?.f_to_kind(Kind::Float);
        let own = one_hot(&self.labels)?;
        if self.blended.is_empty() || self.labels.size() == [0] {
            return Ok(own);
        }
        let others: Vec<i64> = self.blended.iter().map(|with| with.label).collect();
        let weights: Vec<f32> = self.blended.iter().map(|with| with.weight).collect();
        let others = one_hot(&Tensor::f_from_slice(&others)?.f_to_device(device)?)?;
        let weights = Tensor::f_from_slice(&weights)?.f_to_device(device)?.f_unsqueeze(-1)?;
        let rest = weights.f_neg()?.f_add_scalar(1.0)?;
        Ok(own.f_mul(&weights)?.f_add(&others.f_mul(&rest)?)?)
    }
}

/// A loader whose batches come as tensors on a device.
///
/// On a GPU a batch is copied there while the one before is computed on: the loader's slots are
/// page-locked and copied directly, and the images are converted on the device. On the CPU the
/// loader's threads convert them.
pub struct Feed {
    device: Device,
    #[cfg(feature = "cuda")]
    converter: Converter,
    /// Before the loader, whose memory it copies from.
    #[cfg(feature = "cuda")]
    gpu: Option<DeviceFeed<CudaLanes>>,
    loader: Loader,
    /// After the batches handed out; the loader is ahead of them.
    state: LoaderState,
}

impl Feed {
    /// Starts the loader of `plan`; on a GPU page-locks its slots and allocates those of the device.
    ///
    /// # Errors
    /// [`Error::Option`] where `ahead` is 0 or the loader has no more than `ahead` + 1
    /// slots, or the bundle has no images; `CudaError::Gpu`, [`Error::Torch`]; those of
    /// [`LoaderPlan::start`].
    pub fn new(plan: LoaderPlan, place: &Place, options: FeedOptions) -> Result<Self, Error> {
        let device = place.device();
        let FeedOptions { numbers, layout, ahead, .. } = options;
        if ahead == 0 {
            return Err(Error::Option { option: "ahead", reason: "it is 0".into() });
        }
        let loader = match place {
            Place::Cpu { .. } => plan.start(numbers, layout)?,
            // Stored bytes are copied, and converted on the GPU.
            #[cfg(feature = "cuda")]
            Place::Gpu(_) => plan.start(Numbers::Stored, AxisOrder::ChannelsLast)?,
        };
        if loader.image().is_none() {
            let reason = "the bundle has no field `image` to make tensors of".into();
            return Err(Error::Option { option: "fields", reason });
        }
        Ok(Self {
            device,
            #[cfg(feature = "cuda")]
            converter: converter(&loader, place, &options)?,
            #[cfg(feature = "cuda")]
            gpu: match place {
                Place::Gpu(gpu) => Some(DeviceFeed::on_gpu(gpu, &loader, &options)?),
                Place::Cpu { .. } => None,
            },
            state: loader.state(),
            loader,
        })
    }

    /// Begins `epoch` like [`Loader::epoch`], and returns its batches as tensors.
    pub fn epoch(&mut self, epoch: u64) -> FeedEpoch<'_> {
        let Self { loader, state, .. } = self;
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &mut self.gpu {
            // The last epoch may have been leaked instead of dropped.
            gpu.abandon();
        }
        let batches = loader.epoch(epoch);
        *state = batches.state();
        FeedEpoch {
            #[cfg(feature = "cuda")]
            converter: &self.converter,
            #[cfg(feature = "cuda")]
            gpu: self.gpu.as_mut(),
            batches,
            state,
            ended: false,
        }
    }

    /// Returns the state to save in a checkpoint: counts batches handed out, not those made ahead.
    #[must_use]
    pub fn state(&self) -> &LoaderState {
        &self.state
    }

    /// Continues where a state was taken, like [`Loader::restore`].
    ///
    /// # Errors
    /// [`Error::State`].
    pub fn restore(&mut self, state: &LoaderState) -> Result<(), Error> {
        self.loader.restore(state)?;
        self.state = self.loader.state();
        Ok(())
    }

    /// The loader. On a GPU its own state is ahead of [`Feed::state`].
    #[must_use]
    pub fn loader(&self) -> &Loader {
        &self.loader
    }

    /// Why batches are not page-locked in place, if that was asked for and failed; copies to the
    /// GPU are slower.
    #[must_use]
    pub fn unpinned(&self) -> Option<&Error> {
        #[cfg(feature = "cuda")]
        return self.gpu.as_ref()?.unpinned();
        #[cfg(not(feature = "cuda"))]
        None
    }

    /// Why libtorch's operations turn pixels into numbers, if a kernel was asked for and failed.
    #[must_use]
    pub fn unfused(&self) -> Option<&Error> {
        #[cfg(feature = "cuda")]
        return self.converter.unfused();
        #[cfg(not(feature = "cuda"))]
        None
    }

    /// Number of channels of the images.
    #[must_use]
    pub fn n_channels(&self) -> usize {
        self.loader.image().map_or(0, |(_, channels)| channels)
    }

    /// Returns the loader's statistics, like [`Loader::stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.loader.stats()
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("device", &self.device).field("loader", &self.loader).finish()
    }
}

/// The batches of one epoch, in order; an error ends it.
pub struct FeedEpoch<'a> {
    #[cfg(feature = "cuda")]
    converter: &'a Converter,
    #[cfg(feature = "cuda")]
    gpu: Option<&'a mut DeviceFeed<CudaLanes>>,
    batches: Epoch<'a>,
    state: &'a mut LoaderState,
    ended: bool,
}

impl FeedEpoch<'_> {
    /// Returns the state after the batches handed out so far.
    #[must_use]
    pub fn state(&self) -> &LoaderState {
        self.state
    }

    /// Returns the loader's statistics, like [`Epoch::stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.batches.stats()
    }

    fn on_cpu(&mut self) -> Result<Option<TensorBatch>, Error> {
        let Some(mut batch) = self.batches.next().transpose()? else { return Ok(None) };
        let about = About::of(&mut batch, self.batches.state());
        let lent = batch.may_be_kept();
        let batch = Arc::new(batch);
        let field = |name| if lent { lend(&batch, name) } else { copy(&batch, name) };
        let images = field("image")?
            .ok_or_else(|| Error::Tensors { reason: "the batch has no images".into() })?;
        let labels = match lent {
            true => lend_labels(&batch)?,
            false => Tensor::f_from_slice(batch.labels())?,
        };
        let mut fields = BTreeMap::new();
        for (name, _) in batch.fields().filter(|(name, _)| *name != "image") {
            fields.extend(field(name)?.map(|tensor| (name.to_owned(), tensor)));
        }
        Ok(Some(about.with(images, labels, fields)))
    }

    fn take(&mut self) -> Result<Option<TensorBatch>, Error> {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &mut self.gpu {
            return gpu.next(&mut self.batches, self.converter);
        }
        self.on_cpu()
    }
}

impl Iterator for FeedEpoch<'_> {
    type Item = Result<TensorBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let taken = self.take();
        match &taken {
            Ok(Some(batch)) => self.state.clone_from(&batch.state),
            _ => self.ended = true,
        }
        taken.transpose()
    }
}

impl std::iter::FusedIterator for FeedEpoch<'_> {}

impl Drop for FeedEpoch<'_> {
    fn drop(&mut self) {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &mut self.gpu {
            gpu.abandon();
        }
    }
}

impl fmt::Debug for FeedEpoch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeedEpoch").field("state", &self.state).finish_non_exhaustive()
    }
}

#[cfg(feature = "cuda")]
fn converter(loader: &Loader, place: &Place, options: &FeedOptions) -> Result<Converter, Error> {
    let image = loader.image().unwrap_or((gular_bundle::Dtype::U8, 3));
    let (how, about) = ((options.numbers, options.layout), loader.options());
    let normalise = match options.numbers {
        Numbers::Stored => crate::Normalise::scaled(),
        _ => loader.normalise()?,
    };
    let converter = Converter::new(how, image, &normalise, place.device())?;
    Ok(match place {
        Place::Gpu(gpu) if options.convert == Convert::Kernel => {
            converter.with_kernel(gpu, about.transform.size())
        }
        _ => converter,
    })
}

/// The facts about a batch besides its tensors.
#[derive(Debug)]
pub(super) struct About {
    pub(super) sample_ids: Vec<u64>,
    keys: Vec<String>,
    bytes: BTreeMap<String, Vec<Vec<u8>>>,
    /// Number of labels; 0 for a bundle without labels.
    #[cfg(feature = "cuda")]
    pub(super) n_labels: i64,
    /// Size of the images: (width, height).
    #[cfg(feature = "cuda")]
    pub(super) size: (u32, u32),
    blended: Vec<Blended>,
    n_labelled: usize,
    state: LoaderState,
    skipped: usize,
}

impl About {
    /// The facts about `batch`, after which the loader was in `state`.
    pub(super) fn of(batch: &mut Batch, state: LoaderState) -> Self {
        let is_bytes =
            |(name, values): (&str, Values<'_>)| values.bytes().is_some().then(|| name.to_owned());
        let names: Vec<String> = batch.fields().filter_map(is_bytes).collect();
        let bytes = names.into_iter().map(|name| (name.clone(), batch.take_bytes(&name)));
        Self {
            bytes: bytes.collect(),
            sample_ids: batch.sample_ids().to_vec(),
            keys: batch.take_keys(),
            #[cfg(feature = "cuda")]
            n_labels: batch.labels().len() as i64,
            #[cfg(feature = "cuda")]
            size: batch.size(),
            blended: batch.blended().to_vec(),
            n_labelled: batch.n_labelled(),
            state,
            skipped: batch.skipped().len(),
        }
    }

    pub(super) fn with(
        self,
        images: Tensor,
        labels: Tensor,
        fields: BTreeMap<String, Tensor>,
    ) -> TensorBatch {
        let Self { sample_ids, keys, bytes, blended, n_labelled, state, skipped, .. } = self;
        TensorBatch {
            images,
            labels,
            blended,
            n_labelled,
            sample_ids,
            keys,
            fields,
            bytes,
            state,
            skipped,
        }
    }
}
