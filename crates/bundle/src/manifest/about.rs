//! What a manifest says besides its shards: how they were made, descriptive texts, statistics.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Decimal;

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

/// Exact sums over the pixels of split `train`, with one entry per channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// The number of pixels that were summed.
    pub pixels: u64,
    /// The sum of the pixels' values, as decimal text.
    pub sum: Vec<Decimal>,
    /// The sum of the squares of the values, as decimal text.
    pub sum_of_squares: Vec<Decimal>,
}
