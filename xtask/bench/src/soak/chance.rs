//! Decisions that depend on the seed and on what they are about, and on nothing else: neither on the
//! time nor on which thread asks.

/// A seed, from which every decision of a soak is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chance(u64);

/// The numbers that are drawn for one decision.
#[derive(Debug, Clone)]
pub(super) struct Roll(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The numbers for the decision that `what` names; the same each time.
    pub(super) fn about(self, what: &str) -> Roll {
        let hash = blake3::hash(format!("{} {what}", self.0).as_bytes());
        let mut state = [0; 8];
        state.copy_from_slice(&hash.as_bytes()[..8]);
        Roll(u64::from_le_bytes(state))
    }
}

impl Roll {
    /// Returns a number below `n`; 0 if `n` is 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// Returns true in `share` of 100 cases.
    pub(super) fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// Returns `len` bytes of noise.
    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// `SplitMix64`: <https://prng.di.unimi.it/splitmix64.c>.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_the_same_each_time_and_differs_from_others() {
        let drawn = |seed, what: &str| Chance::new(seed).about(what).bytes(16);
        assert_eq!(drawn(1, "a"), drawn(1, "a"));
        assert_ne!(drawn(1, "a"), drawn(1, "b"));
        assert_ne!(drawn(1, "a"), drawn(2, "a"));
    }

    #[test]
    fn shares_are_met() {
        let mut roll = Chance::new(7).about("shares");
        let hits = (0..10_000).filter(|_| roll.percent(20)).count();
        assert!((1_800..2_200).contains(&hits), "{hits}");
    }
}
