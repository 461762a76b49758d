//! Learning rates, as pure functions of the step, so that resuming needs no state.

/// A linear warm-up, then half a cosine down to `last`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cosine {
    /// The highest learning rate.
    pub peak: f64,
    /// The learning rate at the end.
    pub last: f64,
    /// Number of steps of the warm-up.
    pub warm_up: u64,
    /// Number of steps of the whole training run.
    pub total: u64,
}

impl Cosine {
    /// Falls from `peak` to 0 over `total` steps, of which the first 5 % are the warm-up.
    #[must_use]
    pub fn new(peak: f64, total: u64) -> Self {
        Self { peak, last: 0.0, warm_up: total / 20, total }
    }

    /// Returns the learning rate of step `step`, counted from 0; `last` from step `total` on.
    #[must_use]
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warm_up {
            return self.peak * (step + 1) as f64 / (self.warm_up + 1) as f64;
        }
        if step >= self.total {
            return self.last;
        }
        let way = (step - self.warm_up) as f64 / (self.total - self.warm_up) as f64;
        // `libm` rounds in the same way on every machine.
        let falling = 0.5 * (1.0 + libm::cos(std::f64::consts::PI * way));
        self.last + (self.peak - self.last) * falling
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_rise_then_fall_to_the_last() {
        let schedule = Cosine { peak: 1.0, last: 0.1, warm_up: 3, total: 103 };
        let check = |step, expected: f64| {
            let found = schedule.at(step);
            assert!((found - expected).abs() < 1e-12, "step {step}: {found}");
        };
        check(0, 0.25);
        check(2, 0.75);
        check(3, 1.0);
        check(53, 0.55);
        check(103, 0.1);
        check(u64::MAX, 0.1);
        assert!((4..103).all(|step| schedule.at(step) < schedule.at(step - 1)));
    }

    #[test]
    fn trainings_of_no_or_one_step_have_a_rate() {
        assert_eq!(Cosine::new(0.5, 0).at(0), 0.0);
        assert_eq!(Cosine::new(0.5, 1).at(0), 0.5);
        assert_eq!(Cosine { peak: 0.5, last: 0.0, warm_up: 9, total: 3 }.at(20), 0.0);
    }
}
