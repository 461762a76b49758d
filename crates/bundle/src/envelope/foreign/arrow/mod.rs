//! Envelope `arrow`: an Arrow IPC stream, as Hugging Face `datasets` caches it.
//!
//! ```text
//! ffffffff | u32 length | Schema message       columns: one a field, and `key`
//! ffffffff | u32 length | RecordBatch message | body: buffers at multiples of 64
//! …                                             at most 100 rows or 32 MiB each
//! ffffffff | 00000000
//! ```
//!
//! Messages are framed by `arrow-ipc`; where values lie is read from the
//! messages, by a walk that serves files of others too. Format: `FORMAT.md`,
//! "Envelope `arrow`"; Arrow Columnar Format 1.5, "IPC Streaming Format".

mod batch;
mod bounds;
mod messages;
mod survey;
mod values;
mod write;

pub(crate) use survey::survey;
pub(crate) use write::Writer;
