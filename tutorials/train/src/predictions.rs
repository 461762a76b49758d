//! Predictions of a whole bundle, and the files they go to.
//!
//! A rank keeps a row of numbers for each sample of a split, and fills those of its own; the rows
//! of all ranks add up. So no rank needs another's files, and a row that came twice, or from two
//! ranks, is seen.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use gular_runtime::torch::DataParallel;
use gular_runtime::{Bundle, Split};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, FloatType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::confusion::quoted;
use crate::score::highest;

/// Numbers in one message between ranks.
const MESSAGE: usize = 1 << 16;
/// Rows in one group of a Parquet file.
const ROW_GROUP: usize = 1 << 16;

/// What is kept of a sample's scores.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept {
    /// All of them.
    All,
    /// So many of the highest, each with its class.
    Top(usize),
}

/// The numbers of each sample of a split.
#[derive(Debug)]
pub(crate) struct Rows {
    split: Split,
    kept: Kept,
    /// Of one row: how often it came, then what is kept.
    width: usize,
    numbers: Vec<f32>,
}

impl Rows {
    pub(crate) fn new(split: Split, n_samples: u64, n_classes: usize, kept: Kept) -> Result<Self> {
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
            "there is no memory for {n_samples} rows of {width} numbers ({bytes:.1} GB); `--top` \
             keeps fewer per sample"
        );
        numbers.resize(len.unwrap_or_default(), 0.0);
        Ok(Self { split, kept, width, numbers })
    }

    /// Keeps what there is to keep of a sample's scores.
    pub(crate) fn set(&mut self, sample: u64, scores: &[f32]) -> Result<()> {
        let at = usize::try_from(sample).unwrap_or(usize::MAX).saturating_mul(self.width);
        let row = self.numbers.get_mut(at..at.saturating_add(self.width));
        let (n, row) = row
            .and_then(<[f32]>::split_first_mut)
            .with_context(|| format!("the split has no sample {sample}"))?;
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
                // One rank's number and zeros: no bit of it changes.
                *number = *sum as f32;
            }
        }
        Ok(())
    }

    /// (class, its score), the highest first or by class.
    fn of(&self, sample: usize) -> Vec<(usize, f32)> {
        let row = &self.numbers[sample * self.width + 1..][..self.width - 1];
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

    fn prediction(&self, sample: usize) -> usize {
        let of = self.of(sample);
        let scores: Vec<f32> = of.iter().map(|(_, score)| *score).collect();
        highest(&scores, 1).first().map_or(0, |first| of[*first].0)
    }
}

/// All rows in the order of keys, and what is said of them.
pub(crate) struct Predictions {
    bundle: Arc<Bundle>,
    splits: Vec<Rows>,
    /// (key, which split, sample)
    order: Vec<(String, usize, usize)>,
    names: Vec<String>,
    /// Classes of the bundle, where those of the samples are to be written.
    labels: bool,
    unit: &'static str,
}

impl Predictions {
    /// Of the rows of `splits`; those of samples that could not be decoded are left out. `unit` is
    /// what a score is.
    pub(crate) fn new(
        bundle: &Arc<Bundle>,
        splits: Vec<Rows>,
        names: Vec<String>,
        labels: bool,
        unit: &'static str,
    ) -> Result<Self> {
        let mut order = Vec::new();
        for (i, rows) in splits.iter().enumerate() {
            for (sample, row) in rows.numbers.chunks_exact(rows.width).enumerate() {
                ensure!(row[0] <= 1.0, "sample {sample} of split `{}` came twice", rows.split);
                if row[0] == 1.0 {
                    let key = bundle.key(bundle.locate(rows.split, sample as u64)?)?;
                    order.push((key.to_string(), i, sample));
                }
            }
        }
        order.sort_unstable();
        Ok(Self { bundle: Arc::clone(bundle), splits, order, names, labels, unit })
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// The names of the columns: texts, then numbers.
    fn columns(&self) -> (Vec<String>, Vec<String>) {
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
        (texts, numbers)
    }

    fn name(&self, class: usize) -> String {
        self.names.get(class).cloned().unwrap_or_default()
    }

    /// Row `at` in the order of keys. A label that is unknown is empty.
    fn row(&self, at: usize) -> Result<(Vec<String>, Vec<f32>)> {
        let (key, split, sample) = &self.order[at];
        let rows = &self.splits[*split];
        let mut texts = vec![key.clone(), rows.split.to_string()];
        if self.labels {
            let id = self.bundle.locate(rows.split, *sample as u64)?;
            let label = self.bundle.shard(id.shard)?.index()?.label(id.row);
            let class = label.and_then(|label| usize::try_from(label).ok());
            let classes = &self.bundle.manifest().classes;
            texts.push(class.and_then(|class| classes.get(class)).cloned().unwrap_or_default());
        }
        let of = rows.of(*sample);
        match rows.kept {
            Kept::All => texts.push(self.name(rows.prediction(*sample))),
            Kept::Top(_) => texts.extend(of.iter().map(|(class, _)| self.name(*class))),
        }
        Ok((texts, of.into_iter().map(|(_, score)| score).collect()))
    }

    pub(crate) fn write_csv(&self, out: &mut dyn Write) -> Result<()> {
        let (texts, numbers) = self.columns();
        let header: Vec<String> = texts.iter().chain(&numbers).map(|name| quoted(name)).collect();
        writeln!(out, "{}", header.join(","))?;
        for at in 0..self.len() {
            let (texts, numbers) = self.row(at)?;
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            write!(out, "{}", texts.join(","))?;
            for number in numbers {
                // The shortest text that reads back as the same f32.
                write!(out, ",{number}")?;
            }
            writeln!(out)?;
        }
        out.flush()?;
        Ok(())
    }

    pub(crate) fn write_parquet(&self, out: impl Write + Send) -> Result<()> {
        let (texts, numbers) = self.columns();
        let text = |name: &String| {
            Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String))
                .with_repetition(Repetition::REQUIRED)
                .build()
        };
        let number = |name: &String| {
            let column = Type::primitive_type_builder(name, Physical::FLOAT);
            column.with_repetition(Repetition::REQUIRED).build()
        };
        let columns = texts.iter().map(text).chain(numbers.iter().map(number));
        let columns = columns.map(|column| Ok(Arc::new(column?))).collect::<Result<Vec<_>>>()?;
        let schema = Type::group_type_builder("predictions").with_fields(columns).build()?;
        let properties = Arc::new(WriterProperties::builder().build());
        let mut file = SerializedFileWriter::new(out, Arc::new(schema), properties)?;
        for first in (0..self.len()).step_by(ROW_GROUP) {
            let rows = first..self.len().min(first + ROW_GROUP);
            let rows = rows.map(|at| self.row(at)).collect::<Result<Vec<_>>>()?;
            let mut group = file.next_row_group()?;
            for i in 0..texts.len() {
                let values: Vec<ByteArray> =
                    rows.iter().map(|(texts, _)| ByteArray::from(texts[i].as_str())).collect();
                let mut column = group.next_column()?.context("the file has a column less")?;
                column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
                column.close()?;
            }
            for i in 0..numbers.len() {
                let values: Vec<f32> = rows.iter().map(|(_, numbers)| numbers[i]).collect();
                let mut column = group.next_column()?.context("the file has a column less")?;
                column.typed::<FloatType>().write_batch(&values, None, None)?;
                column.close()?;
            }
            group.close()?;
        }
        file.close()?;
        Ok(())
    }
}

/// Whether the reader of a pipe went away, which is its own affair.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
