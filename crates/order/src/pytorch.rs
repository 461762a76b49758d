//! PyTorch's samplers, reproduced bit for bit.
//!
//! Every function gives the indices that the class of the same name in
//! `torch.utils.data` gives. The vectors in `tests/sampler` were made with PyTorch
//! itself, releases 2.11 and 2.15.

use crate::mt19937::Generator;

/// Length from which on PyTorch draws 64 bits per step and fills inside out.
const LARGE: u64 = (u32::MAX / 20) as u64;

/// Range from which on `torch.randint` draws 64 bits per number, so that taking the remainder skews
/// it by at most 5 %. PyTorch 2.6 still drew 32 bits below 2³².
const WIDE_RANGE: u64 = 1 << 28;

/// Indices below 2³² take 4 bytes each, longer ranges 8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permutation {
    /// Fewer than 2³² indices.
    Narrow(Vec<u32>),
    /// 2³² indices or more.
    Wide(Vec<u64>),
}

impl Permutation {
    /// Returns `0, 1, … n - 1`.
    #[must_use]
    pub fn identity(n: u64) -> Self {
        match u32::try_from(n) {
            Ok(n) => Self::Narrow((0..n).collect()),
            Err(_) => Self::Wide((0..n).collect()),
        }
    }

    /// The number of indices.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Narrow(v) => v.len() as u64,
            Self::Wide(v) => v.len() as u64,
        }
    }

    /// Whether there are no indices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index at `position`, which must be below [`Permutation::len`].
    #[must_use]
    pub fn at(&self, position: u64) -> u64 {
        match self {
            Self::Narrow(v) => u64::from(v[position as usize]),
            Self::Wide(v) => v[position as usize],
        }
    }

    /// Returns all indices in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|i| self.at(i))
    }
}

/// `torch.randperm(n, generator=generator)` for int64 on the CPU.
#[must_use]
pub fn randperm(n: u64, generator: &mut Generator) -> Permutation {
    let mut permutation = Permutation::identity(n);
    match &mut permutation {
        Permutation::Narrow(v) => shuffle(v, n, generator),
        Permutation::Wide(v) => shuffle(v, n, generator),
    }
    permutation
}

fn shuffle<T: Copy>(v: &mut [T], n: u64, generator: &mut Generator) {
    if n < LARGE {
        for i in 0..n.saturating_sub(1) {
            let z = u64::from(generator.next_u32()) % (n - i);
            v.swap(i as usize, (i + z) as usize);
        }
        return;
    }
    for i in 0..n {
        // Inside out: slot i still holds i, which `identity` put there.
        let z = generator.next_u64() % (i + 1);
        v.swap(i as usize, z as usize);
    }
}

/// Samples per rank and in all, as `DistributedSampler` counts them.
#[must_use]
pub fn distributed_lengths(n: u64, world_size: u64, drop_last: bool) -> (u64, u64) {
    let per_rank = if drop_last && !n.is_multiple_of(world_size) {
        n.saturating_sub(world_size).div_ceil(world_size)
    } else {
        n.div_ceil(world_size)
    };
    (per_rank, per_rank * world_size)
}

/// The indices of one rank of `DistributedSampler(range(n), …)` after `set_epoch(epoch)`.
#[must_use]
pub fn distributed_sampler(
    n: u64,
    (rank, world_size): (u64, u64),
    seed: u64,
    epoch: u64,
    shuffle: bool,
    drop_last: bool,
) -> Vec<u64> {
    let order = if shuffle {
        randperm(n, &mut Generator::new(seed.wrapping_add(epoch)))
    } else {
        Permutation::identity(n)
    };
    let (per_rank, _) = distributed_lengths(n, world_size, drop_last);
    // Padding repeats the order from its start as often as is needed.
    (0..per_rank).map(|i| order.at((rank + i * world_size) % n)).collect()
}

/// Does the same as `BatchSampler(indices, batch, drop_last)`.
#[must_use]
pub fn batch_sampler(indices: &[u64], batch: usize, drop_last: bool) -> Vec<Vec<u64>> {
    let batches = indices.chunks(batch);
    batches.filter(|b| !drop_last || b.len() == batch).map(<[u64]>::to_vec).collect()
}

/// `DataLoader(range(n), shuffle=True)`, epoch after epoch.
#[derive(Debug, Clone)]
pub struct ShuffledLoader {
    n: u64,
    generator: Generator,
    own: bool,
}

impl ShuffledLoader {
    /// Uses `generator=torch.Generator().manual_seed(seed)`.
    #[must_use]
    pub fn with_generator(n: u64, seed: u64) -> Self {
        Self { n, generator: Generator::new(seed), own: true }
    }

    /// Uses no generator, after `torch.manual_seed(seed)`.
    #[must_use]
    pub fn with_global_seed(n: u64, seed: u64) -> Self {
        Self { n, generator: Generator::new(seed), own: false }
    }

    /// Returns the order of the next epoch.
    pub fn next_epoch(&mut self) -> Permutation {
        // The base seed of the workers is drawn first.
        let _ = self.generator.next_u64();
        if self.own {
            let order = randperm(self.n, &mut self.generator);
            // RandomSampler makes the next permutation to cut it to no index.
            let _ = randperm(self.n, &mut self.generator);
            return order;
        }
        let seed = self.generator.next_u64() & (u64::MAX >> 1);
        randperm(self.n, &mut Generator::new(seed))
    }
}

/// `RandomSampler(range(n), replacement, num_samples, generator)`.
///
/// `n` must not be 0, which PyTorch refuses too.
#[must_use]
pub fn random_sampler(
    n: u64,
    num_samples: Option<u64>,
    replacement: bool,
    generator: &mut Generator,
) -> Vec<u64> {
    let wanted = num_samples.unwrap_or(n);
    if replacement {
        let mut draw = || match n {
            WIDE_RANGE.. => generator.next_u64(),
            _ => u64::from(generator.next_u32()),
        };
        return (0..wanted).map(|_| draw() % n).collect();
    }
    let mut indices = Vec::new();
    for _ in 0..wanted / n.max(1) {
        indices.extend(randperm(n, generator).iter());
    }
    indices.extend(randperm(n, generator).iter().take((wanted % n.max(1)) as usize));
    indices
}

/// `random_split(range(n), lengths, generator)`: the indices of each part.
#[must_use]
pub fn random_split(lengths: &[u64], generator: &mut Generator) -> Vec<Vec<u64>> {
    let order = randperm(lengths.iter().sum(), generator);
    let mut start = 0;
    let parts = lengths.iter().map(|len| {
        let part = (start..start + len).map(|i| order.at(i)).collect();
        start += len;
        part
    });
    parts.collect()
}

/// The lengths that `random_split` makes of `fractions`.
#[must_use]
pub fn split_lengths(n: u64, fractions: &[f64]) -> Vec<u64> {
    let mut lengths: Vec<u64> = fractions.iter().map(|f| (n as f64 * f).floor() as u64).collect();
    let left = n.saturating_sub(lengths.iter().sum());
    let parts = lengths.len().max(1);
    for i in 0..left as usize {
        lengths[i % parts] += 1;
    }
    lengths
}
