//! Options of `eval` and `predict`.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;

use clap::Args;
use gular_runtime::Split;

use super::{Bits, DataArgs, PlaceArgs, Unknown};
use crate::network::Architecture;

/// Loss, accuracy and confusion matrix of weights on a split of a bundle.
///
/// Each sample is counted once, also when several processes share the work. Needs a file of
/// weights and a bundle, nothing else of the training.
///
/// Example: gular-train eval bundle --weights run1/weights.safetensors --confusion matrix.csv
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    pub(crate) score: ScoreArgs,
    /// The split to evaluate on
    #[arg(long, default_value = "val", value_name = "SPLIT", value_parser = split)]
    pub(crate) split: Split,
    /// Write the confusion matrix as CSV: a row per class, a column per class it was taken for
    #[arg(long, value_name = "FILE")]
    pub(crate) confusion: Option<PathBuf>,
    /// Samples whose class is unknown (label -1): `refuse` them, `drop` them, or have loss and
    /// accuracy `ignore` them
    #[arg(long, value_enum, default_value_t = Unknown::Refuse, value_name = "HOW")]
    pub(crate) unknown_labels: Unknown,
}

/// Predicts the class of each sample, as CSV or Parquet sorted by key.
///
/// Each sample has one row, also when several processes share the work. Needs a file of weights
/// and a bundle, nothing else. Weights that PyTorch saved as safetensors, under torchvision's
/// names, are taken as they are. In memory are 4 bytes per sample and column of numbers, and the
/// keys.
///
/// Example: gular-train predict bundle --weights resnet50.safetensors --top 5 --out answers.parquet
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub(crate) score: ScoreArgs,
    /// Only this split [default: all that the bundle has]
    #[arg(long, value_name = "SPLIT", value_parser = split)]
    pub(crate) split: Option<Split>,
    /// The file to write: Parquet if its name ends with `.parquet`, else CSV [default: CSV on
    /// stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Predict one part of several, such as `1/3` to `3/3`, each in a process of its own;
    /// `gular-train merge` makes of their files what one process writes, byte for byte
    ///
    /// A part is a stretch of each split in stored order, cut between two batches. It reads the
    /// shards of its samples and the indexes of all. The same `--batch-size` for all parts. An
    /// empty column such as `part 1/3` says which part a table is, so that none is forgotten.
    #[arg(long, value_name = "I/N", default_value = "1/1", hide_default_value = true, value_parser = Part::parse)]
    pub(crate) part: Part,
    /// The N most probable classes and their probabilities, instead of a column for each class
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) top: Option<u64>,
    /// What the network gives, before the softmax that makes probabilities of it
    #[arg(long)]
    pub(crate) logits: bool,
    /// Accept weights for other classes than the bundle's, such as those of ImageNet: predicted
    /// classes are then numbers, or the names in the weights
    #[arg(long)]
    pub(crate) other_classes: bool,
}

/// One of several stretches of a split, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) number: u64,
    pub(crate) of: u64,
}

impl Part {
    fn parse(text: &str) -> Result<Self, String> {
        let both = text.split_once('/');
        let both = both.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        both.filter(|(number, of)| (1..=*of).contains(number))
            .map(|(number, of)| Self { number, of })
            .ok_or_else(|| "expected a part and the number of parts, such as `1/3` to `3/3`".into())
    }

    /// The column that says which part a table is of; none of a table of all.
    pub(crate) fn column(self) -> Option<String> {
        (self.of > 1).then(|| format!("part {}/{}", self.number, self.of))
    }

    /// Returns the part that a column's name contains.
    pub(crate) fn of_column(name: &str) -> Option<Self> {
        Self::parse(name.strip_prefix("part ")?).ok()
    }

    /// The samples of a split of `n` that are in the part: whole batches of the split's.
    pub(crate) fn samples(self, n: u64, batch_size: NonZeroUsize) -> Range<u64> {
        let batch_size = batch_size.get() as u64;
        let n_batches = u128::from(n.div_ceil(batch_size));
        let cut = |number: u64| {
            let batches = n_batches * u128::from(number) / u128::from(self.of);
            u64::try_from(batches).unwrap_or(u64::MAX).saturating_mul(batch_size).min(n)
        };
        cut(self.number - 1)..cut(self.number)
    }
}

/// Makes one table of those that `predict --part` wrote.
///
/// What comes out is what one process would have written: rows sorted by key, as CSV or, if the
/// file's name ends with `.parquet`, as Parquet.
///
/// Example: gular-train merge part-1.csv part-2.csv part-3.csv --out answers.csv
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The tables of all parts
    #[arg(required = true, value_name = "PART")]
    pub(crate) parts: Vec<PathBuf>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// No summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScoreArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// A safetensors file of weights, a checkpoint, or a folder of checkpoints, whose newest is
    /// taken; `DIR/best` is the best of them
    #[arg(long, value_name = "PATH")]
    pub(crate) weights: PathBuf,
    /// The network that the weights are of [default: as their names say]
    #[arg(long, value_enum, value_name = "NETWORK")]
    pub(crate) network: Option<Architecture>,
    /// Side of the pictures the network sees, in pixels [default: as in the training, if the
    /// weights say so, else 64 for `small` and 224 for the others]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(8..=4096))]
    pub(crate) size: Option<u32>,
    /// What the short side of a picture is made before the middle is cut [default: 8/7 of `--size`]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(8..=8192))]
    pub(crate) resize_short: Option<u32>,
    /// Bits of a pixel [default: as in the training, if the weights say so, else `stored`]
    #[arg(long, value_enum, value_name = "BITS")]
    pub(crate) depth: Option<Bits>,
    /// Leave out samples that cannot be decoded, instead of failing
    #[arg(long)]
    pub(crate) skip_broken: bool,
}

fn split(text: &str) -> Result<Split, String> {
    Split::parse(text).ok_or_else(|| "expected `train`, `val` or `test`".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_batches_and_have_every_sample_once() {
        for (n, batch_size, of) in [(53, 8, 3), (5, 8, 3), (64, 8, 3), (0, 8, 2), (9, 1, 4)] {
            let batch_size = NonZeroUsize::new(batch_size).unwrap();
            let mut end = 0;
            for number in 1..=of {
                let part = Part::parse(&format!("{number}/{of}")).unwrap();
                let samples = part.samples(n, batch_size);
                assert_eq!(samples.start, end);
                assert!(samples.end == n || samples.end.is_multiple_of(batch_size.get() as u64));
                end = samples.end;
            }
            assert_eq!(end, n);
        }
        for wrong in ["0/3", "4/3", "1", "/", "a/b", "1/0"] {
            assert!(Part::parse(wrong).is_err(), "{wrong}");
        }
    }
}
