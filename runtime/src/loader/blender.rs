//! Blends pairs of rows: the thread that fills the second row of a pair does it.

use gular_augment::{AxisOrder, Blend, Mixture, PictureShape};
use gular_order::KeyedRng;

use super::LoaderOptions;
use super::columns::Column;
use super::slot::{Cell, Row};
use super::{IGNORED_LABEL, OnBadSample};
use crate::Error;

/// The settings that all steps share.
#[derive(Debug)]
pub(super) struct Blender {
    blend: Blend,
    seed: u64,
    shape: PictureShape,
    /// Whether a broken sample is replaced by another.
    replaces: bool,
}

impl Blender {
    /// Returns `None` if nothing is blended.
    ///
    /// # Errors
    /// [`Error::Option`] without images, and with a field `moved` on their pixels, such as masks:
    /// half a class has no meaning.
    pub(super) fn new(
        options: &LoaderOptions,
        columns: &[Column],
        has_pictures: bool,
        moved: Option<&str>,
    ) -> Result<Option<Self>, Error> {
        let Some(blend) = options.blend else { return Ok(None) };
        let refuse = |reason: &str| Err(Error::Option { option: "blend", reason: reason.into() });
        let image = columns.first().filter(|_| has_pictures);
        let Some((dtype, _)) = image.and_then(|image| image.fixed.as_ref()) else {
            return refuse("there are no pictures");
        };
        if let Some(field) = moved {
            return refuse(&format!("images are blended, and their `{field}` cannot be"));
        }
        let (width, height) = options.transform.size();
        let (width, height) = (width as usize, height as usize);
        let planes = match (options.layout, image.and_then(|image| image.fixed.as_ref())) {
            (AxisOrder::Contiguous, Some((_, shape))) => shape.iter().rev().skip(2).product(),
            _ => 1,
        };
        Ok(Some(Self {
            blend,
            seed: options.order.seed,
            shape: PictureShape { dtype: *dtype, width, height, planes },
            replaces: options.on_error == OnBadSample::Replace,
        }))
    }

    /// Returns how the step of `epoch` is blended whose first position, over all ranks, is `first`.
    pub(super) fn mixture(&self, epoch: u64, first: u64) -> Mixture {
        let mut rng = KeyedRng::of_sample(self.seed, epoch, KeyedRng::of_step(first));
        let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.blend.draw((side(self.shape.width), side(self.shape.height)), &mut rng)
    }

    /// Whether a row contains a sample that may be blended. `made` is its class, or why there is no
    /// sample, and `broken` says why it is not the sample that belongs there. A sample of unknown
    /// class is not blended: a part of its partner's label would belong to no class.
    pub(super) fn takes(&self, made: &Result<Option<i64>, Error>, broken: Option<&Error>) -> bool {
        let is_known = matches!(made, Ok(label) if *label != Some(IGNORED_LABEL));
        is_known && (self.replaces || broken.is_none())
    }

    /// Blends the images of two rows, each into the other.
    pub(super) fn apply(&self, mixture: &Mixture, one: &mut Row, other: &mut Row) {
        if let (Some(Cell::Row(one)), Some(Cell::Row(other))) =
            (one.cells.first_mut(), other.cells.first_mut())
        {
            mixture.apply(&self.shape, one, other);
        }
    }
}

/// The two rows that are blended: row `row` of `n`, and the row that is `n / 2` rows away.
pub(super) fn pair(row: usize, n: usize) -> Option<(usize, usize)> {
    let half = n / 2;
    let first = if row < half { row } else { row - half };
    (first < half).then_some((first, first + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_one_other_but_the_last_of_an_odd_number() {
        for n in 0..9 {
            for row in 0..n {
                match pair(row, n) {
                    None => assert!(n % 2 == 1 && row == n - 1, "{row} of {n}"),
                    Some((a, b)) => {
                        assert!(a < b && b < n && (a == row || b == row), "{row} of {n}");
                        assert_eq!((pair(a, n), pair(b, n)), (Some((a, b)), Some((a, b))));
                    }
                }
            }
        }
    }

    /// The pairs of a step are formed within each of its ranks.
    #[test]
    fn pairs_are_the_same_for_every_number_of_ranks_that_have_an_even_number_each() {
        for (ranks, each) in [(2, 4), (3, 2), (4, 6), (1, 24)] {
            let all = ranks * each;
            for position in 0..all {
                let (rank, row) = (position % ranks, position / ranks);
                let of_rank = pair(row, each).map(|(a, b)| (a * ranks + rank, b * ranks + rank));
                assert_eq!(of_rank, pair(position, all), "{position} of {ranks} ranks");
            }
        }
    }
}
