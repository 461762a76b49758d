//! Random numbers for the tests that damage files.

/// A small deterministic generator, so that a failure can be replayed from its seed.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.next() % n
    }
}
