//! The join: finds all samples with the same digest.

use gular_bundle::{Row, SampleId, ShardIdx};

use crate::error::Error;

/// 128 bits of a digest, and where it is: two 64-bit numbers sort faster than bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    digest: (u64, u64),
    pub(super) place: Place,
}

/// A sample of one of the bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The bundle and the shard, in one number.
    shard: u32,
    row: u32,
}

impl Place {
    /// Bundle 0 or 1; a bundle has below 2³¹ shards, a shard below 2³¹ samples.
    pub(super) fn new(bundle: usize, SampleId { shard, row }: SampleId) -> Self {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { shard: number(shard.0) | number(bundle) << 31, row: number(row.0) }
    }

    pub(super) fn bundle(self) -> usize {
        (self.shard >> 31) as usize
    }

    pub(super) fn sample(self) -> SampleId {
        let shard = (self.shard & (u32::MAX >> 1)) as usize;
        SampleId { shard: ShardIdx(shard), row: Row(self.row as usize) }
    }
}

/// Hands on 32 bytes of digest and a place for each sample.
pub(super) type Samples<'a> = dyn FnMut(&mut dyn FnMut(&[u8; 32], Place)) -> Result<(), Error> + 'a;

/// Calls `each` with the places that share a digest, if there are two or more, in order.
///
/// At most `memory_bytes` of entries are kept: if there are more samples, `samples` is called again
/// for each range of digests.
pub(super) fn equal(
    n_samples: u64,
    memory_bytes: usize,
    samples: &mut Samples<'_>,
    each: &mut dyn FnMut(&[Entry]) -> Result<(), Error>,
) -> Result<(), Error> {
    let room = (memory_bytes / size_of::<Entry>()).max(1) as u64;
    // Digests are spread evenly: a range holds hardly more than its share.
    let passes = n_samples.div_ceil(room).max(1);
    let share = usize::try_from(n_samples / passes).unwrap_or(0);
    let mut entries: Vec<Entry> = Vec::with_capacity(share + share / 16 + 16);
    for pass in 0..passes {
        entries.clear();
        samples(&mut |digest, place| {
            let halves = digest.as_chunks::<8>().0;
            let half = |i: usize| halves.get(i).map_or(0, |b| u64::from_be_bytes(*b));
            let digest = (half(0), half(1));
            let range = (u128::from(digest.0) * u128::from(passes)) >> 64;
            if range == u128::from(pass) {
                entries.push(Entry { digest, place });
            }
        })?;
        entries.sort_unstable();
        for group in entries.chunk_by(|a, b| a.digest == b.digest).filter(|g| g.len() > 1) {
            each(group)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(shard: usize, row: usize) -> SampleId {
        SampleId { shard: ShardIdx(shard), row: Row(row) }
    }

    #[test]
    fn planted_ones_are_found_and_none_invented_in_any_memory() {
        let n = 5000_usize;
        // Every 7th sample has the picture of the one 350 before it.
        let picture = |i: usize| if i >= 350 && i.is_multiple_of(7) { i % 350 } else { i };
        let digest = |i: usize| *blake3::hash(&picture(i).to_le_bytes()).as_bytes();
        let mut expected = std::collections::BTreeMap::<usize, Vec<usize>>::new();
        for i in 0..n {
            expected.entry(picture(i)).or_default().push(i);
        }
        expected.retain(|_, places| places.len() > 1);
        let expected: Vec<Vec<usize>> = expected.into_values().collect();
        for memory in [1 << 20, 24 * 1000, 24 * 17] {
            let (mut found, mut asked) = (Vec::new(), 0);
            let mut samples = |take: &mut dyn FnMut(&[u8; 32], Place)| {
                asked += 1;
                (0..n).for_each(|i| take(&digest(i), Place::new(i % 2, id(3, i))));
                Ok(())
            };
            equal(n as u64, memory, &mut samples, &mut |group| {
                let mut rows: Vec<usize> = group.iter().map(|e| e.place.sample().row.0).collect();
                rows.sort_unstable();
                found.push(rows);
                Ok(())
            })
            .unwrap();
            found.sort();
            assert_eq!(found, expected);
            assert_eq!(asked, n.div_ceil(memory / 24), "{memory}");
        }
    }

    #[test]
    fn places_keep_their_numbers() {
        let place = Place::new(1, id((1 << 31) - 1, 7));
        assert_eq!((place.bundle(), place.sample()), (1, id((1 << 31) - 1, 7)));
        assert!(Place::new(0, id((1 << 31) - 1, 9)) < Place::new(1, id(0, 0)), "by bundle first");
    }
}
