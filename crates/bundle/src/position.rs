//! Indices of a shard, of a sample in it and of a part of the sample, as distinct types, so that
//! they cannot be confused.

use std::fmt;

macro_rules! position {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub usize);

        impl $name {
            /// Returns the first `n` positions, in order.
            pub fn first(n: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
                (0..n).map(Self)
            }

            /// The entry of `list` at this position; `None` past the last.
            pub fn of<T>(self, list: &[T]) -> Option<&T> {
                list.get(self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

position! {
    /// Position in [`Manifest::shards`](crate::Manifest::shards).
    ShardIdx
}
position! {
    /// A sample within its shard, counted from 0.
    Row
}
position! {
    /// Position in [`Manifest::fields`](crate::Manifest::fields).
    FieldIdx
}
