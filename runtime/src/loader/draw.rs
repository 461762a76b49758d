//! How often each sample is drawn in an epoch.

use gular_order::{DrawnBy, Draws, Weights};
use serde::Deserialize;

use super::chosen::Chosen;
use crate::Error;

/// How often each sample of a split is drawn in an epoch. An epoch has as many positions as there
/// are samples, whatever is drawn for them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Draw {
    /// Draws each sample once per epoch.
    #[default]
    #[serde(skip)]
    EachOnce,
    /// Draws all classes equally often, and within a class all samples equally often, to within
    /// one. Samples of unknown class are never drawn. This takes 8 bytes of memory per sample.
    #[serde(rename = "class")]
    ByClass,
    /// Draws samples in proportion to their weights, with replacement. There is one weight for each
    /// sample of the split, including those not selected; drawing takes 8 more bytes of memory per
    /// sample.
    #[serde(rename = "weights")]
    ByWeight(Weights),
}

impl Draw {
    pub(super) fn drawn_by(&self) -> DrawnBy {
        match self {
            Self::EachOnce => DrawnBy::EachOnce,
            Self::ByWeight(weights) => DrawnBy::Weight(weights.checksum()),
            Self::ByClass => DrawnBy::Class,
        }
    }

    /// Prepares drawing from the `n_chosen` samples `chosen` of `n_all`, whose labels are `labels`.
    pub(super) fn prepare(
        &self,
        n_all: u64,
        n_chosen: u64,
        chosen: &Chosen,
        labels: Vec<Option<i32>>,
    ) -> Result<Option<Draws>, Error> {
        let fail = |reason| Err(Error::Option { option: "draw", reason });
        match self {
            Self::EachOnce => Ok(None),
            Self::ByWeight(weights) => {
                let weights = weights.as_slice();
                if weights.len() as u64 != n_all {
                    let n = weights.len();
                    return fail(format!("{n} weights were given for {n_all} samples"));
                }
                // There are at most as many values as weights, and these are in memory.
                let of_chosen =
                    (0..n_chosen as usize).map(|nth| weights[chosen.sample(nth as u64) as usize]);
                match Draws::weighted(of_chosen) {
                    Some(draws) => Ok(Some(draws)),
                    None => fail("all weights are 0".into()),
                }
            }
            Self::ByClass => match Draws::balanced(labels.into_iter()) {
                Some(draws) => Ok(Some(draws)),
                None => fail("no sample has a class".into()),
            },
        }
    }
}
