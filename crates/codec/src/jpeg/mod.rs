//! JPEG: the frame header is read here; one of two backends decodes the pixels.

mod backend;
mod frame;
#[cfg(feature = "turbo")]
mod turbo;
mod zune;

pub(crate) use backend::decode;
pub use backend::{JpegBackend, jpeg_backend};
pub(crate) use frame::Frame;
#[cfg(feature = "turbo")]
pub(crate) use turbo::encode as encode_turbo;
