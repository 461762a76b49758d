//! `eval`: measures how good weights are on a split.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::args::EvalArgs;
use crate::confusion::Confusion;
use crate::progress::{print_result, say};
use crate::score::{Scorer, check_folder_of, highest, rate};

/// Sums over the samples whose class is known.
#[derive(Debug)]
struct Sums {
    n: u64,
    loss: f64,
    first: u64,
    among_five: u64,
    confusion: Confusion,
}

pub(crate) fn run(args: &EvalArgs) -> Result<()> {
    let since = Instant::now();
    args.confusion.as_deref().map_or(Ok(()), check_folder_of)?;
    let scorer = Scorer::new(&args.score, vec![args.split])?;
    let classes = scorer.classes(false)?;
    let summary = scorer.or_tell(|| {
        let manifest = scorer.bundle.manifest();
        ensure!(manifest.has_labels(), "the bundle has no labels; pack it with labels");
        let n_of_split = scorer.bundle.n_samples(args.split);
        ensure!(n_of_split > 0, "the bundle has no samples of split `{}`", args.split);
        let mut sums = Sums::new(scorer.n_classes);
        scorer.each(args.split, args.unknown_labels.into(), None, |scores| {
            for (row, label) in scores.rows.chunks_exact(scorer.n_classes).zip(scores.labels) {
                sums.count(row, *label)?;
            }
            Ok(())
        })?;
        sums.add_up(&scorer)?;
        if scorer.ranks.rank > 0 {
            return Ok(());
        }
        ensure!(sums.n > 0, "no sample of split `{}` has a class", args.split);
        let names =
            classes.unwrap_or_else(|| (0..scorer.n_classes).map(|i| i.to_string()).collect());
        if let Some(path) = &args.confusion {
            let shown = path.display();
            let write = || {
                let mut out = BufWriter::new(File::create(path)?);
                sums.confusion.write_csv(&mut out, &names)?;
                out.flush()
            };
            write().with_context(|| format!("cannot write `{shown}`"))?;
        }
        let result = match args.score.data.json {
            true => sums.json(&scorer, args, &names).to_string(),
            false => sums.text(args, &names),
        };
        print_result(result.trim_end()).context("cannot write the result")?;
        if !args.score.data.quiet {
            say!("{}", rate(sums.n, since));
        }
        Ok(())
    });
    summary?;
    scorer.finish()
}

impl Sums {
    fn new(n_classes: usize) -> Self {
        Self { n: 0, loss: 0.0, first: 0, among_five: 0, confusion: Confusion::new(n_classes) }
    }

    /// Counts a sample, unless its class is unknown.
    fn count(&mut self, scores: &[f32], label: i64) -> Result<()> {
        let Ok(class) = usize::try_from(label) else { return Ok(()) };
        ensure!(
            class < scores.len(),
            "a sample has the class number {class}, but the weights have only {} classes",
            scores.len()
        );
        let best = highest(scores, 5);
        self.n += 1;
        self.loss += cross_entropy(scores, class);
        self.first += u64::from(best.first() == Some(&class));
        self.among_five += u64::from(best.contains(&class));
        self.confusion.count(class, best.first().copied().unwrap_or_default());
        Ok(())
    }

    /// Adds up the sums of all ranks.
    fn add_up(&mut self, scorer: &Scorer<'_>) -> Result<()> {
        let mut sums = [self.n as f64, self.loss, self.first as f64, self.among_five as f64];
        scorer.parallel.sum(&mut sums)?;
        let [n, loss, first, among_five] = sums;
        (self.n, self.loss) = (n as u64, loss);
        (self.first, self.among_five) = (first as u64, among_five as u64);
        self.confusion.add_up(&scorer.parallel)
    }

    fn part(&self, of: u64) -> f64 {
        of as f64 / self.n as f64
    }

    fn text(&self, args: &EvalArgs, names: &[String]) -> String {
        let Self { n, first, among_five, .. } = self;
        let loss = self.loss / *n as f64;
        let percent = |of: u64| 100.0 * self.part(of);
        let mut text = format!(
            "{n} samples of split `{}`\nloss      {loss:.4}\naccuracy  {:.2} % ({first} of {n})\n",
            args.split,
            percent(*first),
        );
        if names.len() > 5 {
            let percent = percent(*among_five);
            text += &format!("top five  {percent:.2} % ({among_five} of {n})\n");
        }
        text + "\n" + &self.confusion.table(names)
    }

    fn json(&self, scorer: &Scorer<'_>, args: &EvalArgs, names: &[String]) -> Value {
        let matrix = (0..names.len()).map(|class| self.confusion.row(class));
        let matrix: Option<Vec<Vec<u64>>> = (names.len() <= 1000).then(|| matrix.collect());
        json!({
            "bundle": scorer.bundle.digest().to_string(),
            "weights": scorer.weights.digest.to_string(),
            "split": args.split.name(),
            "samples": self.n,
            "loss": self.loss / self.n as f64,
            "accuracy": self.part(self.first),
            "accuracy_top_5": self.part(self.among_five),
            "classes": names,
            "confusion": matrix,
            "world_size": scorer.ranks.world_size,
            "place": scorer.place.to_string(),
        })
    }
}

/// Returns the cross entropy of a sample's scores, for its class.
fn cross_entropy(scores: &[f32], class: usize) -> f64 {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = scores.iter().map(|score| f64::from(score - largest).exp()).sum();
    sum.ln() - f64::from(scores[class] - largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_unknown_class_are_not_counted_and_others_once() {
        let mut sums = Sums::new(7);
        let scores = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        for (label, first, among_five) in [(6, 1, 1), (2, 1, 2), (1, 1, 2)] {
            sums.count(&scores, label).unwrap();
            assert_eq!((sums.first, sums.among_five), (first, among_five), "class {label}");
        }
        sums.count(&scores, gular_runtime::IGNORED_LABEL).unwrap();
        assert_eq!((sums.n, sums.confusion.row(2)), (3, vec![0, 0, 0, 0, 0, 0, 1]));
        assert!(sums.count(&scores, 7).is_err());
    }

    #[test]
    fn the_loss_is_cross_entropy() {
        assert!((cross_entropy(&[0.0, 0.0], 1) - 2_f64.ln()).abs() < 1e-12);
        assert!(cross_entropy(&[1e30, 0.0], 0) == 0.0);
    }
}
