//! Sources of shards, for bundles whose shards are not all in their folder.
//!
//! ```text
//!  hold ─▶ bring ─▶ read ─▶ Bundle::close ─▶ drop the hold: now it may be removed for others
//! ```

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::{FieldIdx, Index, Row, ShardIdx, Split};

/// Fetches shards into the folder of a bundle, and removes them when space is needed.
///
/// All indexes are in the folder from the start.
pub trait ShardSource: fmt::Debug + Send + Sync {
    /// Returns the space that shards may take in the folder.
    fn space(&self) -> &FreeSpace;

    /// Keeps the file of a shard, whether it is there or still to come, until the returned value is
    /// dropped: no process on this machine removes it. Ends soon once `cancel` is set.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    fn hold(
        &self,
        shard: ShardIdx,
        cancel: &AtomicBool,
    ) -> Result<Box<dyn Any + Send + Sync>, NotBrought>;

    /// Like [`ShardSource::hold`], for all shards of a split at once: with one open file, since
    /// there may be thousands of shards. `None` if that is impossible; then each is held by itself.
    fn hold_split(&self, split: Split, cancel: &AtomicBool) -> Option<Box<dyn Any + Send + Sync>>;

    /// Fetches a shard that is held, unless it is there already; waits for space, and for another
    /// process that is fetching it. Of the shards that nobody holds, those with the largest
    /// `next_use` are removed first. If there is too little space, all readers are told by
    /// [`FreeSpace::changed`]. Ends soon once `cancel` is set.
    ///
    /// # Errors
    /// [`NotBrought`] says why.
    fn bring(
        &self,
        shard: ShardIdx,
        next_use: &dyn Fn(ShardIdx) -> u64,
        cancel: &AtomicBool,
    ) -> Result<(), NotBrought>;

    /// Whether the folder has the whole shard at this moment.
    fn is_here(&self, shard: ShardIdx) -> bool;

    /// Asks the servers for single values of a shard, and for little else of it. Nothing is kept.
    /// Ends soon once `cancel` is set.
    ///
    /// # Errors
    /// [`NotBrought`] says why a value did not come; others may have been given before.
    fn read_values(
        &self,
        values: &SingleValues<'_>,
        take: &TakeValue<'_>,
        cancel: &AtomicBool,
    ) -> Result<(), NotBrought>;

    /// Is called with the shard that a reader has to wait for, and with `None` when it no longer
    /// waits.
    fn waited_for(&self, shard: Option<ShardIdx>);
}

/// Fetches again what is damaged in the folder of a bundle.
pub trait Mend: fmt::Debug + Send + Sync {
    /// Replaces every block of the shard's file that has bytes in `range` and is not what `index`
    /// says. Returns how many were replaced. Ends soon once `cancel` is set.
    ///
    /// # Errors
    /// [`NotBrought`] says why a right block did not come.
    fn mend(
        &self,
        shard: ShardIdx,
        index: &Index,
        range: Range<u64>,
        cancel: &AtomicBool,
    ) -> Result<u64, NotBrought>;

    /// Replaces the shard's index and view, as far as they are not the files that the manifest
    /// lists. Returns how many were replaced. Ends soon once `cancel` is set.
    ///
    /// # Errors
    /// [`NotBrought`] says why a right file did not come.
    fn mend_listings(&self, shard: ShardIdx, cancel: &AtomicBool) -> Result<u64, NotBrought>;
}

/// A cancel flag that is never set.
pub(crate) static NEVER: AtomicBool = AtomicBool::new(false);

/// Single values of a shard.
#[derive(Debug, Clone, Copy)]
pub struct SingleValues<'a> {
    /// The shard.
    pub shard: ShardIdx,
    /// Index of the shard.
    pub index: &'a Index,
    /// The samples, in any order.
    pub rows: &'a [Row],
    /// The field; values [without a digest](Index::digest) are not given.
    pub field: FieldIdx,
}

/// A callback that gets the checked value of a sample, from any thread.
pub type TakeValue<'a> = dyn Fn(Row, &[u8]) + Sync + 'a;

/// The bytes that shards may take, and how many of them are promised to readers.
#[derive(Debug)]
pub struct FreeSpace {
    limit: u64,
    /// The most that the disk has space for, which other programs also fill.
    measured: AtomicU64,
    beside: u64,
    promised: AtomicU64,
    readers: Mutex<Vec<Weak<dyn SpaceReader>>>,
}

/// A reader that holds as many shards as there is space for.
pub trait SpaceReader: fmt::Debug + Send + Sync {
    /// Is called when there may be less space than before. A reader that holds more than what is
    /// free and reserved for it releases shards.
    fn space_changed(&self);
}

impl FreeSpace {
    /// Makes a limit of `limit` bytes for a bundle, of which `beside` are always in use, for
    /// example by its indexes.
    #[must_use]
    pub fn new(limit: u64, beside: u64) -> Self {
        let (measured, promised) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Self { limit, measured, beside, promised, readers: Mutex::default() }
    }

    /// Calls `reader`, as long as it exists, when the space changes.
    pub fn tell(&self, reader: Weak<dyn SpaceReader>) {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
    }

    /// Tells all readers that the space changed, or that one of them has too little. The caller
    /// must not hold a lock that they take.
    pub fn changed(&self) {
        let readers: Vec<Arc<dyn SpaceReader>> = {
            let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
            readers.retain(|reader| reader.strong_count() > 0);
            readers.iter().filter_map(Weak::upgrade).collect()
        };
        readers.iter().for_each(|reader| reader.space_changed());
    }

    /// Returns the bytes that shards may take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.limit.saturating_sub(self.beside).min(self.measured.load(Ordering::Relaxed))
    }

    /// Sets how many bytes of shards the disk has space for now, including those already on it.
    pub fn measure(&self, bytes: u64) {
        self.measured.store(bytes, Ordering::Relaxed);
    }

    /// Returns whether the disk has less space than the limit allows.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.bytes() < self.limit.saturating_sub(self.beside)
    }

    /// Returns the bytes that the whole bundle may take.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the bytes for shards that are not promised to any reader.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.bytes().saturating_sub(self.promised.load(Ordering::Relaxed))
    }

    /// Promises `bytes` to a reader, which gives them back when it ends, and tells the other
    /// readers, which may be using them.
    ///
    /// # Errors
    /// The limit that would be needed.
    pub fn promise(&self, bytes: u64) -> Result<(), u64> {
        let fits = |promised: u64| {
            let all = promised.checked_add(bytes)?;
            (all <= self.bytes()).then_some(all)
        };
        let promised = self.promised.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        let needed = |promised: u64| promised.saturating_add(bytes).saturating_add(self.beside);
        promised.map_err(needed)?;
        self.changed();
        Ok(())
    }

    /// Takes a promise back.
    pub fn give_back(&self, bytes: u64) {
        let less = |promised: u64| Some(promised.saturating_sub(bytes));
        // This update cannot fail.
        let _ = self.promised.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

/// Why a shard could not be fetched.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot fetch shard `{shard}` of `{url}`: {reason}")]
pub struct NotBrought {
    /// File name of the shard.
    pub shard: String,
    /// URL of the published bundle.
    pub url: String,
    /// What went wrong.
    pub reason: String,
    /// What the user can do next.
    pub hint: Option<String>,
    /// Whether the same may work later, with nothing changed here.
    pub is_passing: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Reader(AtomicU64);

    impl SpaceReader for Reader {
        fn space_changed(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn readers_are_told_what_is_promised_to_others() {
        let (space, readers) =
            (FreeSpace::new(100, 0), [0; 2].map(|_| Arc::new(Reader::default())));
        for reader in &readers {
            let weak = Arc::downgrade(reader);
            space.tell(weak);
        }
        space.promise(60).unwrap();
        space.promise(60).unwrap_err();
        let [gone, there] = readers;
        drop(gone);
        space.changed();
        assert_eq!(there.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn room_is_promised_up_to_the_limit() {
        let space = FreeSpace::new(100, 10);
        assert_eq!((space.bytes(), space.free()), (90, 90));
        space.promise(60).unwrap();
        assert_eq!(space.promise(31), Err(101));
        space.promise(30).unwrap();
        assert_eq!(space.free(), 0);
        space.give_back(60);
        assert_eq!(space.free(), 60);
        assert_eq!(FreeSpace::new(5, 10).promise(1), Err(11));
        space.measure(50);
        assert_eq!((space.bytes(), space.free(), space.is_cut()), (50, 20, true));
        space.measure(500);
        assert_eq!((space.bytes(), space.free(), space.is_cut()), (90, 60, false));
    }
}
