//! PyTorch's CPU generator: MT19937, seeded and serialised as PyTorch does.
//!
//! Source: Matsumoto and Nishimura, 1998, with the 2002 initialisation; the
//! saved state has the layout of `torch.Generator.get_state()`.

const N: usize = 624;
const M: usize = 397;

/// A generator whose outputs equal those of `torch.Generator().manual_seed(seed)`.
#[derive(Clone)]
pub struct Generator {
    seed: u64,
    state: [u32; N],
    /// Outputs left before the next twist; 1 right after seeding, as in PyTorch.
    left: usize,
    next: usize,
}

impl Generator {
    /// Seeds with all 64 bits of `seed`; only the low 32 shape the stream.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut state = [0_u32; N];
        let mut word = (seed & 0xffff_ffff) as u32;
        for (j, slot) in state.iter_mut().enumerate() {
            if j > 0 {
                word = 1_812_433_253_u32.wrapping_mul(word ^ (word >> 30)).wrapping_add(j as u32);
            }
            *slot = word;
        }
        Self { seed, state, left: 1, next: 0 }
    }

    /// Returns the next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        self.left -= 1;
        if self.left == 0 {
            self.twist();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// The next 64 bits: the first output is the high half.
    pub fn next_u64(&mut self) -> u64 {
        let high = u64::from(self.next_u32());
        high << 32 | u64::from(self.next_u32())
    }

    fn twist(&mut self) {
        for i in 0..N {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ odd;
        }
        self.left = N;
        self.next = 0;
    }

    /// The 5056 bytes that PyTorch's `get_state` would return.
    #[must_use]
    pub fn state_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(5056);
        bytes.extend_from_slice(&self.seed.to_le_bytes());
        bytes.extend_from_slice(&(self.left as u32).to_le_bytes());
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&(self.next as u64).to_le_bytes());
        for word in self.state {
            bytes.extend_from_slice(&u64::from(word).to_le_bytes());
        }
        // The cache of normal variates, which this generator never fills.
        bytes.resize(5056, 0);
        bytes
    }
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generator").field("seed", &self.seed).finish_non_exhaustive()
    }
}
