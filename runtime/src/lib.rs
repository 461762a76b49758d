//! The parts of a training job: orders, loader, tensors, checkpoints, metrics.
//!
//! Feature `net` adds bundles fetched from a federation. Feature `torch` adds batches as
//! tensors, optimisers whose state saves, the state of a whole training, and ranks that add
//! up their numbers (`group`); it needs libtorch. Feature `cuda` adds a GPU, found at
//! run time. Feature `turbo` decodes JPEG with libjpeg-turbo.

// Tests inside share `tests/fixtures` with those outside, who name it so.
#[cfg(test)]
extern crate self as gular_runtime;

pub mod checkpoint;
#[cfg(feature = "cuda")]
pub mod cuda;
mod deadline;
mod end_time;
mod error;
#[cfg(test)]
#[path = "../tests/fixtures/mod.rs"]
mod fixtures;
mod loader;
mod main_error;
pub mod metrics;
mod rank;
pub mod schedule;
mod stop;
#[cfg(feature = "torch")]
mod tensor_options;
#[cfg(feature = "torch")]
pub mod torch;

pub use deadline::Deadline;
pub use end_time::EndTime;
pub use error::Error;
pub use gular_augment as augment;
pub use gular_augment::{AxisOrder, Depth, Normalise, NormaliseBy, Numbers, Transform};
pub use gular_bundle::{
    Axes, Backend, Bundle, CheckWhen, Digest, DigestError, Dtype, Error as BundleError, Field,
    FieldIdx, Index, NotBrought, OpenOptions, Row, SampleId, ShardIdx, ShardSource, SingleValues,
    Split,
};
pub use gular_codec::{
    DecodeOptions, Decoder, Error as CodecError, JpegBackend, Limits, OrientationPolicy, Scaling,
    bit_depth, jpeg_backend,
};
pub use gular_files::{Env, SharedMemory, Size, mask, mask_panic, write_file};
#[cfg(feature = "torch")]
pub use gular_group as group;
pub use gular_order as order;
#[cfg(feature = "net")]
pub use gular_transfer::{
    Access, BundleOptions, Cache, Error as TransferError, Opened, Progress, TellWaiting, Watch,
    has_splits, open_bundle,
};
pub use loader::{
    Array, Batch, Bottleneck, Delivered, Draw, Each, Element, Epoch, Fold, GivenSample, GivenValue,
    IGNORED_LABEL, Loader, LoaderError, LoaderOptions, LoaderPlan, LoaderSettings, Mix, MixState,
    OnBadSample, Phase, Predicate, ResultValue, SampleFacts, SampleFunction, SampleLane,
    SampleResult, Select, Stats, Stream, Turns, Unchosen, UnknownLabels, Untaken, Values,
};
pub use main_error::MainError;
pub use rank::{RankError, RankSource, Ranks, available_cores};
pub use stop::{EXIT_CHECKPOINTED, EXIT_LATER, StopFlag};
