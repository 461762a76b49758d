//! The figures as text: one block per way of working, one line per reader.

use std::fmt::Write as _;

use crate::bench_report::{BenchReport, Row};
use crate::matrix::{RowReader, payload_name};
use crate::options::{CacheState, ReadOrder, RowKind};

/// Rows that stand in one block: kind, payload and cache.
pub(crate) struct Block<'a> {
    pub(crate) title: String,
    /// The order and the number of threads of each column.
    pub(crate) columns: Vec<(ReadOrder, usize)>,
    /// For each reader, its row in each column.
    pub(crate) lines: Vec<(RowReader, Vec<Option<&'a Row>>)>,
}

/// Returns all rows as blocks.
pub(crate) fn blocks(rows: &[Row]) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut begin = 0;
    let same = |a: &Row, b: &Row| {
        (a.spec.kind, a.spec.payload, a.spec.cache) == (b.spec.kind, b.spec.payload, b.spec.cache)
    };
    while let Some(first) = rows.get(begin) {
        let n = rows[begin..].iter().take_while(|row| same(row, first)).count();
        blocks.push(block(&rows[begin..begin + n]));
        begin += n;
    }
    blocks
}

fn block(rows: &[Row]) -> Block<'_> {
    let mut columns = Vec::new();
    let mut whats = Vec::new();
    for row in rows {
        let column = (row.spec.order, row.spec.threads);
        if !columns.contains(&column) {
            columns.push(column);
        }
        if !whats.contains(&row.spec.what) {
            whats.push(row.spec.what);
        }
    }
    columns.sort_by_key(|(order, threads)| (*order != ReadOrder::Shuffled, *threads));
    let line = |what: RowReader| {
        let at = |(order, threads): &(ReadOrder, usize)| {
            rows.iter().find(|row| {
                (row.spec.what, row.spec.order, row.spec.threads) == (what, *order, *threads)
            })
        };
        (what, columns.iter().map(at).collect())
    };
    let lines = whats.into_iter().map(line).collect();
    let title = rows.first().map(title).unwrap_or_default();
    Block { title, columns, lines }
}

fn title(row: &Row) -> String {
    let kind = match row.spec.kind {
        RowKind::Read => "reading",
        RowKind::Load => "loading batches",
    };
    let cache = match row.spec.cache {
        CacheState::Warm => "warm",
        CacheState::Cold => "cold",
    };
    format!("{kind}, payload {}, {cache} page cache", payload_name(row.spec.payload))
}

/// The title of a column.
pub(crate) fn column((order, threads): (ReadOrder, usize)) -> String {
    let order = match order {
        ReadOrder::Shuffled => "shuffled",
        ReadOrder::Sequential => "in order",
    };
    if threads == 1 { format!("{order}, 1 thread") } else { format!("{order}, {threads} threads") }
}

/// The table that a terminal shows: samples a second, the median of all rounds, and how
/// far the farthest round lies from it.
#[must_use]
pub fn table(report: &BenchReport) -> String {
    let mut text = format!(
        "{} samples, {}, of {} in `{}`; median of {} rounds, and the farthest from it\n",
        report.data.samples,
        size(report.data.bytes as f64),
        report.data.of_samples,
        report.data.source,
        report.method.rounds
    );
    for block in blocks(&report.rows) {
        let _ = write!(text, "\n{}: samples/s\n{:<24}", block.title, "");
        for of in &block.columns {
            let _ = write!(text, "{:>22}", column(*of));
        }
        text.push('\n');
        for (what, cells) in &block.lines {
            let _ = write!(text, "{:<24}", what.label());
            for cell in cells {
                let shown = cell.map_or_else(String::new, |row| {
                    let rate = &row.numbers.samples_per_s;
                    format!("{} ±{:>2.0}%", grouped(rate.median), rate.relative() * 100.0)
                });
                let _ = write!(text, "{shown:>22}");
            }
            text.push('\n');
        }
    }
    text.push_str("\nstored\n");
    for stored in &report.stored {
        let what = stored.envelope.map_or("plain files", |e| e.name());
        let _ = writeln!(
            text,
            "{:<24}{:>12} in {} files",
            format!("{}, {what}", payload_name(stored.payload)),
            size(stored.bytes as f64),
            stored.files
        );
    }
    text
}

/// Returns the advice as text for a terminal.
#[must_use]
pub fn advice(report: &BenchReport) -> String {
    let mut text = String::new();
    for sentence in &report.advice.text {
        let _ = writeln!(text, "{sentence}");
    }
    if let Some(command) = &report.advice.command {
        let _ = writeln!(text, "next: {command}");
    }
    text
}

/// 1234567.8 as 1,234,568; three digits of small numbers.
pub(crate) fn grouped(value: f64) -> String {
    if value < 10.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Formats bytes with a decimal unit.
pub(crate) fn size(bytes: f64) -> String {
    gular_files::Size(bytes.max(0.0).round() as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (value, text) in [
            (0.5, "0.50"),
            (12.3, "12"),
            (999.0, "999"),
            (1000.0, "1,000"),
            (1_234_567.8, "1,234,568"),
        ] {
            assert_eq!(grouped(value), text);
        }
        for (bytes, text) in [(7.0, "7 B"), (1500.0, "1.5 KB"), (2e9, "2.0 GB"), (3e12, "3.0 TB")] {
            assert_eq!(size(bytes), text);
        }
    }
}
