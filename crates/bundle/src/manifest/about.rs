//! What a manifest says besides its shards: how they were made, descriptive texts, statistics.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::field::IMAGE_NODATA;
use crate::{Decimal, Field};

/// A text or a number in [`Manifest::made`](crate::Manifest::made).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MadeValue {
    /// A number up to 2^53.
    Number(u64),
    /// A text.
    Text(String),
}

impl Serialize for MadeValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for MadeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = MadeValue;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text or a whole number, 0 or more")
            }

            fn visit_u64<E>(self, number: u64) -> Result<MadeValue, E> {
                Ok(MadeValue::Number(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<MadeValue, E> {
                Ok(MadeValue::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Texts about a dataset, all optional.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The dataset's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the dataset contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The dataset's licence, as an SPDX expression if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// How to cite the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub citation: Option<String>,
    /// Where the dataset is from, such as a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Sums over the pixels of split `train`, with one entry per channel. Format: `FORMAT.md`,
/// "Statistics".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// The number of pixels, if the sums are over all pixels; otherwise 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub pixels: u64,
    /// The number of pixels of each channel that have a value, if only these are in the sums;
    /// otherwise empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<u64>,
    /// The sum of the pixels' values, as decimal text.
    pub sum: Vec<Decimal>,
    /// The sum of the squares of the values, as decimal text.
    pub sum_of_squares: Vec<Decimal>,
}

impl Statistics {
    /// Returns the number of values that the sums of a channel are over.
    #[must_use]
    pub fn count(&self, channel: usize) -> u64 {
        match self.counts.is_empty() {
            true => self.pixels,
            false => self.counts.get(channel).copied().unwrap_or(0),
        }
    }

    /// Whether the sums are also over pixels that have no value, although the images, among
    /// `fields`, say which have none: earlier releases wrote such sums.
    #[must_use]
    pub fn sum_nodata(&self, fields: &[Field]) -> bool {
        let says = |field: &Field| match field.is_image() {
            true => field.nodata.is_some(),
            false => field.name.as_str() == IMAGE_NODATA,
        };
        self.counts.is_empty() && fields.iter().any(says)
    }

    /// Returns the same sums with a count for each channel.
    #[must_use]
    pub fn by_channel(self) -> Self {
        let counts = (0..self.sum.len()).map(|channel| self.count(channel)).collect();
        Self { pixels: 0, counts, ..self }
    }

    /// Returns mean and standard deviation of each channel; `None` for a channel without values, or
    /// of sums that cannot be read.
    #[must_use]
    pub fn moments(&self) -> Vec<Option<[f64; 2]>> {
        let sums = self.sum.iter().zip(&self.sum_of_squares).enumerate();
        sums.map(|(channel, (sum, squares))| {
            let n = self.count(channel) as f64;
            let number = |text: &Decimal| text.as_str().parse::<f64>().ok();
            let (mean, square) = (number(sum)? / n, number(squares)? / n);
            let mut variance = square - mean * mean;
            // A smaller difference has no correct digit: all values are equal, as far as `f64` can
            // tell.
            if variance <= square * 1e-14 {
                variance = 0.0;
            }
            (n > 0.0).then(|| [mean, variance.sqrt()])
        })
        .collect()
    }

    pub(super) fn fault(&self) -> Option<String> {
        let n = self.counts.len();
        let differ = n != self.sum.len() || n != self.sum_of_squares.len();
        (!self.counts.is_empty() && differ).then(|| {
            format!(
                "its `channel_statistics` have {n} counts, {} sums and {} sums of squares",
                self.sum.len(),
                self.sum_of_squares.len()
            )
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The member `statistics`: sums over all pixels.
#[derive(Deserialize)]
pub(super) struct OfAll {
    pixels: u64,
    sum: Vec<Decimal>,
    sum_of_squares: Vec<Decimal>,
}

/// The member `channel_statistics`: sums over the pixels that have a value.
#[derive(Deserialize)]
pub(super) struct OfValid {
    counts: Vec<u64>,
    sum: Vec<Decimal>,
    sum_of_squares: Vec<Decimal>,
}

impl From<OfAll> for Statistics {
    fn from(OfAll { pixels, sum, sum_of_squares }: OfAll) -> Self {
        Self { pixels, counts: Vec::new(), sum, sum_of_squares }
    }
}

impl From<OfValid> for Statistics {
    fn from(OfValid { counts, sum, sum_of_squares }: OfValid) -> Self {
        Self { pixels: 0, counts, sum, sum_of_squares }
    }
}
