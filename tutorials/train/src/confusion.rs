//! The confusion matrix: how often each class was predicted as each other one.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::Result;
use gular_runtime::torch::DataParallel;

/// Up to this many classes the matrix is shown as a table.
const MOST_IN_A_TABLE: usize = 12;
/// Most numbers in one message between ranks.
const MESSAGE: usize = 1 << 16;

/// Counts of samples by their class and by the class that was predicted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Confusion {
    n_classes: usize,
    /// (class, predicted class): samples; pairs that never came are not in it.
    counts: BTreeMap<(usize, usize), u64>,
}

impl Confusion {
    pub(crate) fn new(n_classes: usize) -> Self {
        Self { n_classes, counts: BTreeMap::new() }
    }

    pub(crate) fn count(&mut self, class: usize, predicted: usize) {
        *self.counts.entry((class, predicted)).or_default() += 1;
    }

    /// Adds up the counts of all ranks.
    pub(crate) fn add_up(&mut self, parallel: &DataParallel) -> Result<()> {
        let rows = (MESSAGE / self.n_classes.max(1)).max(1);
        let mut sums = Self::new(self.n_classes);
        for first in (0..self.n_classes).step_by(rows) {
            let end = self.n_classes.min(first + rows);
            let mut part = vec![0.0; (end - first) * self.n_classes];
            for ((class, predicted), n) in self.counts.range((first, 0)..(end, 0)) {
                part[(class - first) * self.n_classes + predicted] = *n as f64;
            }
            parallel.sum(&mut part)?;
            for (at, n) in part.iter().enumerate().filter(|(_, n)| **n > 0.0) {
                let pair = (first + at / self.n_classes, at % self.n_classes);
                sums.counts.insert(pair, *n as u64);
            }
        }
        *self = sums;
        Ok(())
    }

    /// A row of it: for `class`, how many samples each class was predicted for.
    pub(crate) fn row(&self, class: usize) -> Vec<u64> {
        (0..self.n_classes).map(|predicted| self.at(class, predicted)).collect()
    }

    fn at(&self, class: usize, predicted: usize) -> u64 {
        self.counts.get(&(class, predicted)).copied().unwrap_or_default()
    }

    /// Writes the counts as CSV: a row for each class, and a column for each predicted class.
    pub(crate) fn write_csv(&self, out: &mut dyn Write, names: &[String]) -> io::Result<()> {
        write!(out, "class")?;
        for name in names {
            write!(out, ",{}", quoted(name))?;
        }
        writeln!(out)?;
        for (class, name) in names.iter().enumerate() {
            write!(out, "{}", quoted(name))?;
            for n in self.row(class) {
                write!(out, ",{n}")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// Formats the counts for people: the matrix if it is small, else the pairs that are confused
    /// most often.
    pub(crate) fn table(&self, names: &[String]) -> String {
        if self.n_classes > MOST_IN_A_TABLE {
            return self.worst_pairs(names);
        }
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(5);
        let cells = |first: &str, cells: Vec<String>| {
            let cells: Vec<String> =
                cells.into_iter().map(|cell| format!("{cell:>width$}")).collect();
            format!("{first:<width$}  {}\n", cells.join("  "))
        };
        let mut text = String::from("rows: the true class; columns: the predicted class\n");
        text += &cells("", names.to_vec());
        for (class, name) in names.iter().enumerate() {
            text += &cells(name, self.row(class).iter().map(u64::to_string).collect());
        }
        text
    }

    fn worst_pairs(&self, names: &[String]) -> String {
        let mut wrong: Vec<_> =
            self.counts.iter().filter(|((class, predicted), _)| class != predicted).collect();
        wrong.sort_by(|(a, n_a), (b, n_b)| n_b.cmp(n_a).then(a.cmp(b)));
        let mut text = String::from("confused most often:\n");
        for ((class, predicted), n) in wrong.into_iter().take(MOST_IN_A_TABLE) {
            text += &format!("{n:>8}  `{}` taken for `{}`\n", names[*class], names[*predicted]);
        }
        text
    }
}

/// Returns a cell of CSV, in quotes if necessary.
pub(crate) fn quoted(cell: &str) -> String {
    if cell.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (Confusion, Vec<String>) {
        let mut confusion = Confusion::new(3);
        for (class, predicted) in [(0, 0), (0, 0), (1, 2), (1, 1), (2, 0)] {
            confusion.count(class, predicted);
        }
        (confusion, ["a,b", "c\"d", "e"].map(String::from).to_vec())
    }

    #[test]
    fn rows_are_classes_and_columns_what_they_were_taken_for() {
        let (confusion, names) = example();
        let mut csv = Vec::new();
        confusion.write_csv(&mut csv, &names).unwrap();
        let expected = "class,\"a,b\",\"c\"\"d\",e\n\"a,b\",2,0,0\n\"c\"\"d\",0,1,1\ne,1,0,0\n";
        assert_eq!(String::from_utf8(csv).unwrap(), expected);
        assert_eq!(
            confusion.table(&names),
            "rows: the true class; columns: the predicted class
         a,b    c\"d      e
a,b        2      0      0
c\"d        0      1      1
e          1      0      0
"
        );
    }

    #[test]
    fn of_many_classes_the_worst_pairs_are_shown() {
        let names: Vec<String> = (0..20).map(|i| format!("c{i}")).collect();
        let mut confusion = Confusion::new(20);
        confusion.count(5, 5);
        for (class, predicted) in [(3, 4), (7, 1), (7, 1)] {
            confusion.count(class, predicted);
        }
        let expected =
            "confused most often:\n       2  `c7` taken for `c1`\n       1  `c3` taken for `c4`\n";
        assert_eq!(confusion.table(&names), expected);
    }

    #[test]
    fn alone_it_stays_what_it_is() {
        let store = tch::nn::VarStore::new(tch::Device::Cpu);
        let (group, place) =
            (gular_runtime::group::Group::alone(), gular_runtime::torch::Place::cpu());
        let parallel = DataParallel::new(group, &store, &place).unwrap();
        let (mut confusion, _) = example();
        confusion.add_up(&parallel).unwrap();
        assert_eq!(confusion, example().0);
    }
}
