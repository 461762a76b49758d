//! Envelope `shards`: a safetensors file that any tool can read.
//!
//! ```text
//! 0     header, padded to 4096 (or the next multiple that fits)
//! 4096  first field: image.bytes u8 [total]       (or image [n, …] when fixed)
//!       image.offsets i64 [n + 1]
//!       further fields: <field>.bytes, <field>.offsets, or <field> [n, …]
//!       key.bytes u8, key.offsets i64 [n + 1]
//! ```
//!
//! Format: `FORMAT.md`, "Envelope `shards`".

mod survey;
mod write;

pub(crate) use survey::survey;
pub(crate) use write::Writer;

const FORMAT: &str = "gular-shard";
