//! What every room that touches a disk needs: files that appear whole, locks with their fall-back,
//! free space, a worker pool, byte sizes in words, memory maps, the environment as a value, and what
//! hides secrets in text that a program shows.
//!
//! Nothing here reads a format or opens a socket. It contains two numbers of FORMAT.md, which
//! `bundle` and `pelican` share, since neither may use the other. Errors say what failed on which
//! file; rooms convert them into their own with `From`.

mod block_cutter;
mod descriptors;
mod env;
mod error;
mod free;
mod lock;
mod lock_owner;
mod mask;
mod memory;
mod open_files;
mod pool;
mod size;
mod start;
mod watch;
mod whole;
mod write_back;

/// Bytes of a block, the unit of large files that is hashed, checked, and asked of a server
/// again; the last block of a file may be shorter. Format: `FORMAT.md`, "Digests".
pub const BLOCK_BYTES: usize = 1 << 20;

/// Number of names that can replace one whose upload was cut short: `x~1` to `x~9`. Format:
/// `FORMAT.md`, "Burned names".
pub const MAX_RENAMES: u32 = 9;

pub use block_cutter::{BlockCutter, PassOn};
pub use descriptors::keep_open_files;
pub use env::{Env, FOR_TOKENS, VARIABLES};
pub use error::{Error, is_of_disk, is_unreadable};
pub use free::{Free, free};
pub use lock::{Lock, LockMode, SAY_AFTER, keep_waiting};
pub use mask::{Given, mask, mask_panic, mask_url, secrets};
pub use memory::{Map, SharedMemory, advise_huge_pages, resident_pages};
pub use open_files::open_files_limit;
pub use pool::parallel;
pub use size::Size;
pub use start::start_written;
pub use watch::{Progress, Waiting, Watch};
pub use whole::{
    TEMP_PREFIX, begins_with, folder_of, persist, persist_both, persist_new, persist_read_only,
    remove_abandoned_temps, remove_left_temps, rename_synced, sync_folder, temp_in, temp_with_mode,
    write_file,
};
pub use write_back::WriteBack;
