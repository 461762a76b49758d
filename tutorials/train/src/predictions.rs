//! Predictions for a bundle, or for a part of it.
//!
//! A rank keeps a row of numbers for each sample of a split, and fills the rows of its own samples;
//! then the rows of all ranks are added up. So no rank needs another's files, and a sample that was
//! scored twice, or by two ranks, is noticed.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use gular_runtime::torch::DataParallel;
use gular_runtime::{Bundle, Split};

use crate::args::Part;
use crate::score::highest;
use crate::table::{Columns, Row};

/// Most numbers in one message between ranks.
const MESSAGE: usize = 1 << 16;

/// The part of a sample's scores that is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept {
    /// All scores.
    All,
    /// This number of the highest scores, each with its class.
    Top(usize),
}

/// The numbers of each sample of a split, or of a part of it.
#[derive(Debug)]
pub(crate) struct Rows {
    split: Split,
    /// The number of the first sample.
    first: u64,
    kept: Kept,
    /// Numbers in one row: how often the sample was scored, then the scores that are kept.
    width: usize,
    numbers: Vec<f32>,
}

impl Rows {
    pub(crate) fn new(
        split: Split,
        samples: Range<u64>,
        n_classes: usize,
        kept: Kept,
    ) -> Result<Self> {
        let n_samples = samples.end.saturating_sub(samples.start);
        let width = 1 + match kept {
            Kept::All => n_classes,
            Kept::Top(n) => 2 * n,
        };
        let len = usize::try_from(n_samples).ok().and_then(|n| n.checked_mul(width));
        let mut numbers = Vec::new();
        let reserved = len.is_some_and(|len| numbers.try_reserve_exact(len).is_ok());
        let bytes = n_samples as f64 * width as f64 * 4.0 / 1e9;
        ensure!(
            reserved,
            "not enough memory for {n_samples} rows of {width} numbers ({bytes:.1} GB); keep fewer \
            numbers per sample with `--top`"
        );
        numbers.resize(len.unwrap_or_default(), 0.0);
        Ok(Self { split, first: samples.start, kept, width, numbers })
    }

    /// Keeps what there is to keep of a sample's scores.
    pub(crate) fn set(&mut self, sample: u64, scores: &[f32]) -> Result<()> {
        let nth = sample.checked_sub(self.first).and_then(|nth| usize::try_from(nth).ok());
        let at = nth.unwrap_or(usize::MAX).saturating_mul(self.width);
        let row = self.numbers.get_mut(at..at.saturating_add(self.width));
        let (n, row) = row.and_then(<[f32]>::split_first_mut).with_context(|| {
            format!("the predictions contain sample {sample}, which is not one of those to predict")
        })?;
        *n += 1.0;
        match self.kept {
            Kept::All => row.copy_from_slice(scores),
            Kept::Top(top) => {
                for (pair, class) in row.as_chunks_mut::<2>().0.iter_mut().zip(highest(scores, top))
                {
                    *pair = [class as f32, scores[class]];
                }
            }
        }
        Ok(())
    }

    /// Becomes the rows of all ranks, each of which has its own samples.
    pub(crate) fn add_up(&mut self, parallel: &DataParallel) -> Result<()> {
        if parallel.group().world_size() == 1 {
            return Ok(());
        }
        let mut message = Vec::with_capacity(MESSAGE);
        for part in self.numbers.chunks_mut(MESSAGE) {
            message.clear();
            message.extend(part.iter().copied().map(f64::from));
            parallel.sum(&mut message)?;
            for (number, sum) in part.iter_mut().zip(&message) {
                // One rank has the number and all others have zeros, so the sum is that number,
                // except that -0.0 becomes 0.0.
                *number = *sum as f32;
            }
        }
        Ok(())
    }

    /// (class, its score), the highest first or by class.
    fn of(&self, nth: usize) -> Vec<(usize, f32)> {
        let row = &self.numbers[nth * self.width + 1..][..self.width - 1];
        match self.kept {
            Kept::All => row.iter().copied().enumerate().collect(),
            Kept::Top(_) => row
                .as_chunks::<2>()
                .0
                .iter()
                .map(|[class, score]| (*class as usize, *score))
                .collect(),
        }
    }

    fn prediction(&self, nth: usize) -> usize {
        let of = self.of(nth);
        let scores: Vec<f32> = of.iter().map(|(_, score)| *score).collect();
        highest(&scores, 1).first().map_or(0, |first| of[*first].0)
    }
}

/// All rows in the order of keys, with a description.
pub(crate) struct Predictions {
    bundle: Arc<Bundle>,
    splits: Vec<Rows>,
    /// (key, which of the splits, which of its rows)
    order: Vec<(String, usize, usize)>,
    names: Vec<String>,
    /// Classes of the bundle, where those of the samples are to be written.
    labels: bool,
    unit: &'static str,
    part: Part,
}

impl Predictions {
    /// Collects the rows of `splits`, those of `part` only; samples that could not be decoded are
    /// left out. `unit` is the unit of a score.
    pub(crate) fn new(
        bundle: &Arc<Bundle>,
        splits: Vec<Rows>,
        names: Vec<String>,
        labels: bool,
        unit: &'static str,
        part: Part,
    ) -> Result<Self> {
        let mut order = Vec::new();
        for (i, rows) in splits.iter().enumerate() {
            for (nth, row) in rows.numbers.chunks_exact(rows.width).enumerate() {
                let sample = rows.first + nth as u64;
                ensure!(
                    row[0] <= 1.0,
                    "sample {sample} of split `{}` was predicted twice",
                    rows.split
                );
                if row[0] == 1.0 {
                    let key = bundle.key(bundle.locate(rows.split, sample)?)?;
                    order.push((key.to_string(), i, nth));
                }
            }
        }
        order.sort_unstable();
        Ok(Self { bundle: Arc::clone(bundle), splits, order, names, labels, unit, part })
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn columns(&self) -> Columns {
        let mut texts = vec!["key".to_owned(), "split".to_owned()];
        if self.labels {
            texts.push("label".to_owned());
        }
        texts.push("prediction".to_owned());
        let mut numbers = Vec::new();
        let unit = self.unit;
        match self.splits.first().map(|rows| rows.kept) {
            Some(Kept::Top(n)) => {
                texts.extend((1..n).map(|i| format!("prediction_{}", i + 1)));
                numbers.extend((0..n).map(|i| format!("{unit}_{}", i + 1)));
            }
            _ => numbers.extend(self.names.iter().map(|name| format!("{unit}_{name}"))),
        }
        texts.extend(self.part.column());
        Columns { texts, numbers }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Result<Row>> {
        (0..self.len()).map(|at| self.row(at))
    }

    fn name(&self, class: usize) -> String {
        self.names.get(class).cloned().unwrap_or_default()
    }

    /// Row `at` in the order of keys. A label that is unknown is empty.
    fn row(&self, at: usize) -> Result<Row> {
        let (key, split, nth) = &self.order[at];
        let rows = &self.splits[*split];
        let mut texts = vec![key.clone(), rows.split.to_string()];
        if self.labels {
            let id = self.bundle.locate(rows.split, rows.first + *nth as u64)?;
            let label = self.bundle.shard(id.shard)?.label(id.row)?;
            let class = label.and_then(|label| usize::try_from(label).ok());
            let classes = &self.bundle.manifest().classes;
            texts.push(class.and_then(|class| classes.get(class)).cloned().unwrap_or_default());
        }
        let of = rows.of(*nth);
        match rows.kept {
            Kept::All => texts.push(self.name(rows.prediction(*nth))),
            Kept::Top(_) => texts.extend(of.iter().map(|(class, _)| self.name(*class))),
        }
        texts.extend(self.part.column().map(|_| String::new()));
        Ok(Row { texts, numbers: of.into_iter().map(|(_, score)| score).collect() })
    }
}
