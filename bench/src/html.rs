//! The report as one HTML page: text, plots and all figures. The page loads nothing from elsewhere.

use std::fmt::Write as _;

use gular_plot::{Bar, bars, escape};

use crate::bench_report::{BenchReport, Row};
use crate::matrix::payload_name;
use crate::table::{Block, blocks, column, grouped, size};

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1c2024; --paper: #fff; --soft: #5f6b76; --line: #d8dee4; \
--ours: #0b7285; --base: #aab4be; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --paper: #15181c; --soft: #9aa5b1; \
--line: #343b42; --ours: #3bc9db; --base: #5c6773; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); \
max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.5rem } h3 { font-size: 1rem; margin: 1rem 0 .2rem }
.pick { border-left: 4px solid var(--ours); padding: .2rem 0 .2rem 1rem; }
.pick p:first-child { font-weight: 600 }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1rem 2rem; }
svg { width: 100%; height: auto; font-size: 13px } svg text { fill: var(--ink) }
.ours { fill: var(--ours) } .base { fill: var(--base) } .range { stroke: var(--ink); fill: none }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums }
th, td { padding: .15rem .7rem; border-bottom: 1px solid var(--line); text-align: right }
th:first-child, td:first-child { text-align: left }
.soft, caption { color: var(--soft); font-size: .9rem; text-align: left } .wide { overflow-x: auto }
code { font-size: .95em }
";

const TITLE: &str = "<title>gular bench</title>";

/// Whether a file that begins with `bytes` (its first 1024, or all) was made by [`page`].
#[must_use]
pub fn is_page(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(1024)];
    head.starts_with(b"<!doctype html>")
        && head.windows(TITLE.len()).any(|part| part == TITLE.as_bytes())
}

/// Returns the whole page. It opens from a disk without a network: styles and plots are in it.
#[must_use]
pub fn page(report: &BenchReport) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n{TITLE}\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>Which format serves <code>{}</code></h1>\n",
        escape(&report.data.source)
    );
    pick(&mut out, report);
    out.push_str(
        "<h2>Samples per second</h2>\n<p class=\"soft\">Median of all rounds; the line \
         reaches from the slowest round to the fastest. Grey: for comparison. Bold: the \
         recommended row.</p>\n",
    );
    for block in blocks(&report.rows) {
        plots(&mut out, &block, report);
    }
    stored(&mut out, report);
    how(&mut out, report);
    out.push_str("<h2>Every figure</h2>\n");
    for block in blocks(&report.rows) {
        figures(&mut out, &block);
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn pick(out: &mut String, report: &BenchReport) {
    out.push_str("<div class=\"pick\">\n");
    for sentence in &report.advice.text {
        let _ = writeln!(out, "<p>{}</p>", escape(sentence));
    }
    if let Some(command) = &report.advice.command {
        let _ = writeln!(out, "<p><code>{}</code></p>", escape(command));
    }
    out.push_str("</div>\n");
}

fn plots(out: &mut String, block: &Block<'_>, report: &BenchReport) {
    let _ = writeln!(out, "<h2>{}</h2>\n<div class=\"plots\">", escape(&sentence(&block.title)));
    let picked = report.advice.pick.and_then(|number| report.rows.get(number));
    for (at, of) in block.columns.iter().enumerate() {
        let cells = block.lines.iter().filter_map(|(_, cells)| cells.get(at).copied().flatten());
        let of_column: Vec<Bar> = cells.map(|row| bar(row, picked)).collect();
        let title = column(*of);
        let label = format!("{}, {title}: samples a second", block.title);
        let _ = writeln!(
            out,
            "<figure>\n<h3>{}</h3>\n{}</figure>",
            escape(&sentence(&title)),
            bars(&of_column, &label)
        );
    }
    out.push_str("</div>\n");
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

fn stored(out: &mut String, report: &BenchReport) {
    out.push_str(
        "<h2>On the disk</h2>\n<table>\n<tr><th>payload, format</th><th>bytes</th>\
         <th>per sample</th><th>files</th></tr>\n",
    );
    for stored in &report.stored {
        let format = stored.envelope.map_or("plain files", |envelope| envelope.name());
        let _ = writeln!(
            out,
            "<tr><td>{}, {format}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            payload_name(stored.payload),
            size(stored.bytes as f64),
            size(stored.bytes as f64 / stored.samples.max(1) as f64),
            stored.files
        );
    }
    out.push_str("</table>\n");
}

fn how(out: &mut String, report: &BenchReport) {
    let (data, machine, method) = (&report.data, &report.machine, &report.method);
    out.push_str("<h2>How it was measured</h2>\n");
    let length = if method.whole_epochs {
        "one epoch".to_owned()
    } else {
        format!("up to {} s", method.seconds)
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
    lines.extend(machine.hdf5.iter().map(|name| format!("HDF5 library: {name}.")));
    if let Some(preset) = report.preset {
        lines.push(format!("Preset {preset}."));
    }
    lines.extend(report.notes.iter().map(|note| format!("{}.", sentence(note))));
    out.push_str("<ul>\n");
    for line in lines {
        let _ = writeln!(out, "<li>{}</li>", escape(&line));
    }
    out.push_str("</ul>\n");
}

fn figures(out: &mut String, block: &Block<'_>) {
    let _ = writeln!(
        out,
        "<div class=\"wide\">\n<table>\n<caption>{}</caption>\n<tr><th>reader</th><th>order, threads</th>\
         <th>samples/s</th><th>slowest</th><th>fastest</th><th>MB/s</th><th>CPU µs/sample</th>\
         <th>median µs</th><th>99 % µs</th><th>first ms</th></tr>",
        escape(&sentence(&block.title))
    );
    for (what, cells) in &block.lines {
        for (of, row) in block.columns.iter().zip(cells) {
            let Some(row) = row else { continue };
            let numbers = &row.numbers;
            let rate = numbers.samples_per_s;
            let _ = write!(out, "<tr><td>{}</td><td>{}</td>", escape(&what.label()), column(*of));
            let some = [
                Some(rate.median),
                Some(rate.min),
                Some(rate.max),
                Some(numbers.mb_per_s),
                Some(numbers.cpu_us_per_sample),
                numbers.p50_us,
                numbers.p99_us,
                Some(numbers.first_ms),
            ];
            for value in some {
                let _ = write!(out, "<td>{}</td>", value.map_or_else(String::new, grouped));
            }
            out.push_str("</tr>\n");
        }
    }
    out.push_str("</table>\n</div>\n");
}

/// Returns the text with a capital letter at its beginning.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
