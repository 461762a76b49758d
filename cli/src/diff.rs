//! `gular diff`.

use clap::Args;
use gular_bundle::Bundle;
use gular_pack::{DiffOptions, DiffReport, Difference, Differing};
use gular_transfer::{BundleOptions, open_bundle};

use crate::convert::{stopped, with_bar};
use crate::exit::{Exit, Failure};
use crate::network::{Access, ended};
use crate::shared::Output;
use crate::show;
use crate::stop::Stop;
use crate::units;

/// Keys of each kind that the text shows without --list.
const SHOWN: usize = 5;
/// Bytes of a list that are written at once.
const LIST_BUFFER: usize = 1 << 16;

/// Compare the samples of two bundles: new, gone, changed, relabelled, in another split
///
/// Reads manifests and indexes only, so it takes seconds for millions of samples. A sample is
/// `changed` if a stored value other than its label differs, `relabelled` if the name of its class
/// differs, and `moved` if its split differs. For a URL, manifest and indexes are fetched into the
/// node's cache (GULAR_CACHE).
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular diff birds-v1/ birds-v2/ --list")]
pub(crate) struct DiffArgs {
    /// The first bundle: a folder or a URL
    pub(crate) from: String,
    /// The second bundle
    pub(crate) to: String,
    /// Print each difference as a line with TABs: kind, key, old value, new value
    #[arg(long, conflicts_with = "json")]
    pub(crate) list: bool,
    /// Memory for sorting keys; the rest is sorted in TMPDIR
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = units::bytes)]
    pub(crate) memory: u64,
    #[command(flatten)]
    pub(crate) access: Access,
}

pub(crate) fn run(args: &DiffArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let (from, to) = (open(&args.from, args, &stop)?, open(&args.to, args, &stop)?);
    let temp_dir = std::env::temp_dir();
    let memory_bytes = usize::try_from(args.memory).unwrap_or(usize::MAX);
    let options = DiffOptions { temp_dir: &temp_dir, memory_bytes };
    let (mut lines, mut unshown) = (String::new(), None);
    let mut each = |key: &str, difference: &Difference| {
        if args.list && unshown.is_none() {
            lines.push_str(&line(key, difference));
            if lines.len() > LIST_BUFFER {
                unshown = show::lines(&lines).err();
                lines.clear();
            }
        }
        Ok(())
    };
    let result = with_bar("diff", output, |progress| {
        gular_pack::diff(&from, &to, options, &mut each, progress, &stop.flag)
    });
    let report = result.map_err(|e| stopped(e, &stop))?;
    if let Some(failure) = unshown {
        return Err(failure);
    }
    show::lines(&lines)?;
    if output.json {
        show::json(&report)?;
    } else if !output.quiet && !args.list {
        show::text(&text(&report))?;
    }
    Ok(Exit::Done)
}

/// A folder, or manifest and indexes of a published bundle.
fn open(place: &str, args: &DiffArgs, stop: &Stop) -> Result<Bundle, Failure> {
    let options = BundleOptions {
        streamed: true,
        access: args.access.of_transfer(),
        ..BundleOptions::default()
    };
    let env = gular_pelican::Env::process();
    let opened = open_bundle(place, &options, &env, stop.watch());
    Ok(opened.map_err(|error| ended(error, stop))?.bundle)
}

fn line(key: &str, difference: &Difference) -> String {
    let key = show::plain(key);
    let shown = |class: &Option<String>| class.as_deref().map_or("-".to_owned(), show::plain);
    match difference {
        Difference::Added => format!("added\t{key}\n"),
        Difference::Removed => format!("removed\t{key}\n"),
        Difference::Changed => format!("changed\t{key}\n"),
        Difference::Relabelled(a, b) => format!("relabelled\t{key}\t{}\t{}\n", shown(a), shown(b)),
        Difference::Moved(a, b) => format!("moved\t{key}\t{a}\t{b}\n"),
    }
}

fn text(report: &DiffReport) -> String {
    let mut text = String::new();
    let kinds: [(&str, &Differing); 5] = [
        ("added", &report.added),
        ("removed", &report.removed),
        ("changed", &report.changed),
        ("relabelled", &report.relabelled),
        ("moved", &report.moved),
    ];
    for (kind, differing) in kinds.iter().filter(|(_, differing)| differing.n > 0) {
        let shown: Vec<String> =
            differing.first.iter().take(SHOWN).map(|key| show::plain(key)).collect();
        let more = match differing.n - shown.len() as u64 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push_str(&format!("{kind} {}: {}{more}\n", differing.n, shown.join(", ")));
    }
    let lists = [
        ("new fields", &report.fields_added),
        ("fields removed", &report.fields_removed),
        ("fields of another type", &report.fields_changed),
        ("fields of classes in another order", &report.fields_reordered),
        ("new classes", &report.classes_added),
        ("classes removed", &report.classes_removed),
    ];
    for (what, names) in lists.iter().filter(|(_, names)| !names.is_empty()) {
        let shown: Vec<String> = names.iter().take(SHOWN).map(|name| show::plain(name)).collect();
        let more = match names.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push_str(&format!("{what}: {}{more}\n", shown.join(", ")));
    }
    let (same, of) = (show::count(report.same, "sample"), report.to_samples);
    text.push_str(&match report.is_same() {
        true => format!("no differences: {same}\n"),
        false => format!("the same in both: {same} of {of}\n"),
    });
    if report.new_bytes > 0 {
        let bytes = show::size(report.new_bytes);
        text.push_str(&format!("shards that only the second has: {bytes}\n"));
    }
    text
}
