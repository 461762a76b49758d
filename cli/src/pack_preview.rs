//! `gular pack --dry-run --view`: how a source was read, and its first samples, in the browser.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;

use gular_bundle::{Bundle, OpenOptions};
use gular_pack::{BadInput, Doubt, PackOptions, PackReport, SKIPPED_NAME, WayToRead, pack_preview};
use gular_view::{OpenQuestion, OtherReading, Site, SourceReading};
use tempfile::TempDir;

use crate::convert::{stopped, with_bar};
use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::stop::Stop;
use crate::{pack_paths, pack_report, show, view};

/// Samples of each split that are shown, or one of each class.
const SHOWN: u64 = 200;
/// Lines of the list of inputs that were left out.
const MOST_LINES: usize = 50;

/// The first samples, packed into a temporary folder.
pub(crate) struct Preview {
    source: String,
    dir: TempDir,
    n_skipped: u64,
}

impl Preview {
    pub(crate) fn pack(
        src: &Path,
        options: &PackOptions,
        output: &Output,
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let dir = tempfile::tempdir_in(&options.temp_dir).map_err(|e| {
            let folder = options.temp_dir.display();
            Failure::new(format!("cannot create a folder in `{folder}`: {e}"), None)
        })?;
        let options = PackOptions { dry_run: false, part: None, ..options.clone() };
        let out = dir.path().join("preview");
        let packed = with_bar("preview", output, |progress| {
            pack_preview(src, &out, &options, SHOWN, progress, &stop.flag)
        });
        let report = packed.map_err(|e| stopped(e, stop))?;
        Ok(Self { source: src.display().to_string(), dir, n_skipped: report.skipped })
    }

    /// Serves the page until Ctrl-C; then the samples are removed.
    pub(crate) fn serve(
        self,
        out: &Path,
        report: &PackReport,
        (port, no_open): (Option<u16>, bool),
        output: &Output,
        stop: &Stop,
    ) -> Result<Exit, Failure> {
        let folder = self.dir.path().join("preview");
        let told: Vec<String> = report.doubts.iter().map(pack_report::doubt).collect();
        let warnings = report.warnings.iter().filter(|warning| !told.contains(warning));
        let list = File::open(folder.join(SKIPPED_NAME)).map(BufReader::new);
        let lines = list.into_iter().flat_map(|list| list.lines().map_while(Result::ok));
        let left_out =
            lines.take(MOST_LINES).flat_map(|line| serde_json::from_str::<BadInput>(&line));
        let reading = SourceReading {
            words: pack_report::read_as(report) + &pack_report::table(report, out),
            questions: report.doubts.iter().map(question).collect(),
            warnings: warnings.cloned().collect(),
            n_left_out: self.n_skipped,
            left_out: left_out.map(|bad| bad.to_string()).collect(),
        };
        let bundle = Arc::new(Bundle::open(&folder, OpenOptions::default())?);
        let site = Site::new(bundle, &self.source, self.dir.path().to_owned());
        view::serve(site.with_reading(reading), port, no_open, output, stop)
    }
}

fn question(doubt: &Doubt) -> OpenQuestion {
    let packs = |way: &WayToRead| format!("{} {}", this_command(), pack_paths::options(way));
    // Without the name of a table, nothing can be run.
    let is_whole = |way: &WayToRead| way.tables.as_ref().is_none_or(|tables| !tables.is_empty());
    let command = |way: &WayToRead| {
        let converts = way.convert.iter().map(pack_paths::command);
        converts.chain([packs(way)]).collect::<Vec<_>>().join(" && ")
    };
    let other = |way: &WayToRead| OtherReading {
        when: way.when.clone(),
        command: is_whole(way).then(|| command(way)),
        options: pack_paths::options(way),
    };
    let ways = doubt.readings.iter().filter(|way| !way.otherwise);
    OpenQuestion { text: doubt.text.clone(), others: ways.map(other).collect() }
}

/// The command of this run, without the options that show only what it would do.
fn this_command() -> String {
    let given = std::env::args_os().skip(1).map(|text| text.to_string_lossy().into_owned());
    without_page(given)
}

/// The command with these arguments, without those that are for the page.
fn without_page(mut given: impl Iterator<Item = String>) -> String {
    let mut words = vec!["gular".to_owned()];
    while let Some(text) = given.next() {
        match text.as_str() {
            "--dry-run" | "--view" | "--no-open" => {}
            "--port" => drop(given.next()),
            text if text.starts_with("--port=") => {}
            text => {
                // Only what follows the name of an option may need quotes.
                let name = text.trim_start_matches('-');
                let dashes = "-".repeat(text.len() - name.len());
                words.push(if name.is_empty() { dashes } else { dashes + &show::quoted(name) });
            }
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_copy_has_no_options_of_the_page() {
        let given = "pack a b --dry-run --view --port 80 --no-open --as arrays --port=81";
        let command = without_page(given.split(' ').map(str::to_owned));
        assert_eq!(command, "gular pack a b --as arrays");
    }

    #[test]
    fn a_way_whose_table_is_not_known_has_no_command() {
        let way = |tables: &[&str]| WayToRead {
            tables: Some(tables.iter().map(|table| (*table).to_owned()).collect()),
            ..WayToRead::default()
        };
        let text = String::new();
        let shown = question(&Doubt { text, readings: vec![way(&[]), way(&["t.csv"])] });
        let [open, known] = shown.others.as_slice() else { panic!("{shown:?}") };
        assert_eq!((open.command.clone(), open.options.as_str()), (None, "--labels FILE"));
        assert!(known.command.as_ref().unwrap().ends_with("--labels t.csv"), "{known:?}");
    }
}
