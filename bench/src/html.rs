//! The report as a page: sentences, bars and all figures.

use gular_view::{Bar, ReportPart, SavedPage};

use crate::bench_report::{BenchReport, Row};
use crate::matrix::payload_name;
use crate::table::{Block, blocks, column, grouped, size};

/// Returns the page, which opens from a disk without a network.
#[must_use]
pub fn page(report: &BenchReport) -> SavedPage {
    let advice = &report.advice;
    let mut parts = vec![
        ReportPart::Advice { texts: advice.text.clone(), command: advice.command.clone() },
        ReportPart::Text(
            "Samples per second: the median of all rounds; the line reaches from the slowest round to the fastest. Grey: for comparison. Bold: the recommended row.".to_owned(),
        ),
    ];
    let blocks = blocks(&report.rows);
    for block in &blocks {
        parts.push(ReportPart::Heading(sentence(&block.title)));
        parts.extend(bars(block, report));
    }
    parts.push(stored(report));
    parts.extend([
        ReportPart::Heading("How it was measured".to_owned()),
        ReportPart::List(how(report)),
    ]);
    parts.push(ReportPart::Heading("Every figure".to_owned()));
    parts.extend(blocks.iter().map(figures));
    let title = format!("Which format serves {}", report.data.source);
    SavedPage::of_report(&title, &parts)
}

fn bars(block: &Block<'_>, report: &BenchReport) -> Vec<ReportPart> {
    let picked = report.advice.pick.and_then(|number| report.rows.get(number));
    let of_column = |(at, of)| {
        let cells = block.lines.iter().filter_map(|(_, cells)| cells.get(at).copied().flatten());
        let bars = cells.map(|row| bar(row, picked)).collect();
        ReportPart::Bars { title: sentence(&column(of)), bars }
    };
    block.columns.iter().copied().enumerate().map(of_column).collect()
}

fn bar(row: &Row, picked: Option<&Row>) -> Bar {
    let rate = row.numbers.samples_per_s;
    Bar {
        name: row.spec.what.label(),
        value: rate.median,
        range: (rate.min, rate.max),
        baseline: row.baseline,
        picked: picked.is_some_and(|picked| picked.spec == row.spec),
        text: grouped(rate.median),
    }
}

fn stored(report: &BenchReport) -> ReportPart {
    let row = |stored: &crate::bench_report::Stored| {
        let format = stored.envelope.map_or("plain files", |envelope| envelope.name());
        vec![
            format!("{}, {format}", payload_name(stored.payload)),
            size(stored.bytes as f64),
            size(stored.bytes as f64 / stored.samples.max(1) as f64),
            stored.files.to_string(),
        ]
    };
    ReportPart::Table {
        caption: "On the disk".to_owned(),
        head: ["payload, format", "bytes", "per sample", "files"].map(str::to_owned).into(),
        rows: report.stored.iter().map(row).collect(),
    }
}

fn how(report: &BenchReport) -> Vec<String> {
    let (data, machine, method) = (&report.data, &report.machine, &report.method);
    let length = match method.whole_epochs {
        true => "one epoch".to_owned(),
        false => format!("up to {} s", method.seconds),
    };
    let mut lines = vec![
        format!(
            "{} of {} samples, {}, spread over all of the source.",
            data.samples,
            data.of_samples,
            size(data.bytes as f64)
        ),
        format!(
            "{} rounds of {length} per row. Each round runs every row once, so that a slow minute affects all rows alike. Each round begins with a different row, and every second round goes through the rows backwards.",
            method.rounds
        ),
        format!(
            "Reading: every byte of a sample is read and added up. Batches: {} pictures decoded (JPEG by {}), a random part cropped and resized to {} pixels.",
            method.batch_size, machine.jpeg, method.size
        ),
        format!(
            "{}, {} cores, {} of memory ({} free), Linux {}; files in {}.",
            machine.cpu,
            machine.cores,
            size(machine.memory_bytes as f64),
            size(machine.available_memory_bytes as f64),
            machine.kernel,
            machine.scratch
        ),
    ];
    lines.extend(report.preset.iter().map(|preset| format!("Preset {preset}.")));
    lines.extend(report.notes.iter().map(|note| format!("{}.", sentence(note))));
    lines
}

fn figures(block: &Block<'_>) -> ReportPart {
    let head = [
        "reader, order, threads",
        "samples/s",
        "slowest",
        "fastest",
        "MB/s",
        "CPU µs/sample",
        "median µs",
        "99 % µs",
        "first ms",
    ];
    let row = |(what, row): (&str, (String, &Row))| {
        let (of, numbers) = (row.0, &row.1.numbers);
        let rate = numbers.samples_per_s;
        let figures = [
            Some(rate.median),
            Some(rate.min),
            Some(rate.max),
            Some(numbers.mb_per_s),
            Some(numbers.cpu_us_per_sample),
            numbers.p50_us,
            numbers.p99_us,
            Some(numbers.first_ms),
        ];
        let figures = figures.map(|value| value.map_or_else(String::new, grouped));
        [format!("{what}, {of}")].into_iter().chain(figures).collect()
    };
    let rows = block.lines.iter().flat_map(|(what, cells)| {
        let cells = block.columns.iter().zip(cells);
        let label = what.label();
        let cells = cells.filter_map(|(of, cell)| Some((column(*of), (*cell)?)));
        cells.map(|cell| row((&label, cell))).collect::<Vec<_>>()
    });
    ReportPart::Table {
        caption: sentence(&block.title),
        head: head.map(str::to_owned).into(),
        rows: rows.collect(),
    }
}

/// Returns the text with a capital letter at its beginning.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
