//! The index: the offset and the digest of every value in a shard.
//!
//! One safetensors file beside each shard, whatever the shard's envelope:
//!
//! ```text
//! image.offset  i64 [n]      first byte of sample i's value in the shard   ┐ all that an
//! image.length  i32 [n]      its bytes                                     │ epoch needs
//! label         i32 [n]      its class                                     ┘
//! <field>.base  i64 [1]      fixed fields: value i is at base + i * size
//! image.digest  u8 [n, 32]   BLAKE3 of the value
//! key.offsets   i64 [n + 1]  sample i's key is key.bytes[offsets[i]..offsets[i + 1]]
//! key.bytes     u8
//! key.source    u8 [n, 32]   optional: digest of the file that the image was made from
//! block.cv      u8 [k, 32]   chaining values of the shard's 1 MiB blocks
//! ```
//!
//! Format: `FORMAT.md`, "Index".

mod acceptance;
mod layout;
mod read;
mod write;

pub(crate) use layout::Layout;
pub use read::Index;
pub(crate) use write::{IndexBuilder, Places, Rows, i64_bytes};

const FORMAT: &str = "gular-index";
/// A field cannot be called `key`, so this name is free.
const SOURCE: &str = "key.source";
