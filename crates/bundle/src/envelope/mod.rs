//! One module an envelope: a writer that lays samples into a shard, and an
//! indexer that finds them again by walking the file's own structure.

mod shards;

pub use shards::{ShardWriter, rebuild_index};
