//! The whole derivation: chooses, labels, limits and splits samples; then writes links and views,
//! and the manifest last.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use gular_bundle::{About, Bundle, Decimal, Digest, Field, MadeValue, Manifest, Split, Statistics};
use gular_files::{sync_folder, write_file};

use super::bases::{Bases, Line};
use super::choose::Chooser;
use super::derive_report::{DeriveReport, DeriveSplit, NamedKeys, NoStatistics};
use super::link::{Linked, link};
use super::options::{DeriveOptions, Limit, Unlisted};
use super::relabel::{NewLabels, Relabelled};
use super::views::{self, NewLine};
use super::{equal_keys, limit};
use crate::error::Error;
use crate::facts::{BadInput, setting};
use crate::packing::Progress;
use crate::plan::check_fractions;
use crate::shards::{OutDir, finished_bundle};

/// Most new classes that a report names.
const MOST_NAMED: usize = 20;

/// Makes a bundle in folder `out` of samples of the bundles in `bases`, whose shards it shares.
///
/// # Errors
/// See [`Error`]. An interrupted run is finished by the same call.
pub fn derive(
    bases: &[PathBuf],
    out: &Path,
    options: &DeriveOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<DeriveReport, Error> {
    derive_from(bases, out, options, None, progress, cancel)
}

/// The values that the new version of another bundle has in addition.
pub(super) struct Version {
    /// The digest of that bundle.
    pub(super) base: Digest,
    pub(super) about: About,
    /// Inputs that were left out.
    pub(super) skipped: Vec<BadInput>,
    /// The decoder that decoded JPEG, if there was any.
    pub(super) decoder: Option<MadeValue>,
}

/// Does the same as [`derive`]; the new bundle describes itself as `version` says.
pub(super) fn derive_from(
    bases: &[PathBuf],
    out: &Path,
    options: &DeriveOptions,
    version: Option<&Version>,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<DeriveReport, Error> {
    let start = Instant::now();
    check(bases, options)?;
    for base in bases {
        crate::packing::check_apart(base, out)?;
    }
    let mut joined = Bases::open(bases)?;
    let n_classes = joined.bundles().next().map_or(0, |first| first.manifest().classes.len());
    let new_labels = options.labels.as_ref().map(|table| NewLabels::open(table, &mut joined));
    let new_labels = new_labels.transpose()?;
    let all = joined.lines();
    let entries = all.iter().map(|line| joined.entry(*line));
    let (samples, bytes) = entries.fold((0, 0), |(n, b), e| (n + e.samples, b + e.index.bytes));
    progress(Progress::Planned(samples, bytes));

    let chooser = Chooser::new(&joined, options)?;
    let mut taken = chooser.choose(&joined, &all, options.jobs, progress, cancel)?;
    let mut unknown = crate::facts::Names::default();
    for list in [&chooser.keys, &chooser.remove].into_iter().flatten() {
        let unseen = list.unseen()?;
        if unseen.n > 0 && unseen.n == list.len() as u64 {
            return Err(Error::NoSuchKeys { n: unseen.n, keys: unseen.to_string() });
        }
        unknown.add(&unseen);
    }
    if joined.bundles().len() > 1 {
        equal_keys::check(&joined, &all, &taken, options, cancel)?;
    }
    let relabelled = match new_labels {
        Some(labels) => labels.join(&joined, &all, &mut taken, options)?,
        None => Relabelled::default(),
    };
    let lost = limit::apply(&joined, &all, &mut taken, &relabelled, options, cancel)?;
    let lines = views::lines(&joined, &all, &taken, &relabelled, options, cancel)?;
    if lines.is_empty() {
        return Err(Error::NothingTaken { of: samples });
    }
    let (mut manifest, no_statistics) = manifest(&joined, &all, &lines, options);
    if let Some(Version { base, about, skipped, decoder }) = version {
        let skipped = MadeValue::Number(skipped.len() as u64);
        manifest.made.insert("base".to_owned(), MadeValue::Text(base.to_string()));
        manifest.made.insert("skipped".to_owned(), skipped);
        manifest.made.extend(decoder.iter().map(|name| ("decoder".to_owned(), name.clone())));
        manifest.about = about.clone();
    }
    let skipped = version.map_or(&[][..], |version| &version.skipped);
    let mut report = report(&joined, &manifest, &lines, samples, options);
    report.no_statistics = no_statistics;
    report.new_classes = joined.classes.iter().skip(n_classes).take(MOST_NAMED).cloned().collect();
    report.unknown_keys = NamedKeys::of(&unknown);
    report.unused_rows = NamedKeys::of(&relabelled.unused);
    report.unlisted = NamedKeys::of(&relabelled.unlisted);
    report.lost_classes = NamedKeys::of(&lost);
    let made = finished_bundle(out)?.filter(|made| made.digest() == report.digest);
    if let Some(made) = made {
        // Symbolic links may have lost the bundle that they lead to.
        made.check_lengths()?;
        report.already_done = true;
    } else if !options.dry_run {
        OutDir::with(out, |dir| write(&joined, dir, &manifest, &lines, skipped, &mut report))?;
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn check(bases: &[PathBuf], options: &DeriveOptions) -> Result<(), Error> {
    let fail = |names, text: &str| Err(setting(names, text));
    if bases.is_empty() {
        return fail(&[], "no bundle was given");
    }
    if let Some(Limit::Share(share)) = options.limit
        && !(share > 0.0 && share <= 1.0)
    {
        return fail(&["limit"], "the share of samples must be above 0 and at most 100 %");
    }
    if options.limit == Some(Limit::Samples(0)) {
        return fail(&["limit"], "the number of samples must be at least 1");
    }
    if options.stratified && options.limit.is_none() {
        return fail(&["limit"], "to keep the share of each class, set how many samples to take");
    }
    let by_table = options.labels.as_ref().is_some_and(|table| table.split.is_some());
    if by_table && !options.fractions.is_empty() {
        return fail(
            &["split_column", "fractions"],
            "splits can come from a column or from fractions, not from both",
        );
    }
    Ok(check_fractions(&options.fractions)?)
}

/// Makes the manifest of the new bundle, and says why it has no statistics.
fn manifest(
    bases: &Bases,
    all: &[Line],
    lines: &[NewLine],
    options: &DeriveOptions,
) -> (Manifest, Option<NoStatistics>) {
    let mut manifest = bases.manifest();
    manifest.shards = lines.iter().map(|line| line.entry.clone()).collect();
    let mut note = |name: &str, value: MadeValue| {
        manifest.made.insert(format!("derive_{name}"), value);
    };
    let text = |text: &str| MadeValue::Text(text.to_owned());
    if let Some(filter) = &options.filter {
        note("where", text(filter));
    }
    match options.limit {
        Some(Limit::Samples(n)) => note("limit", text(&n.to_string())),
        // 0.07 times 100 is 7.000000000000001 as f64, and 7 as f32.
        Some(Limit::Share(share)) => note("limit", text(&format!("{}%", (share * 100.0) as f32))),
        None => {}
    }
    if options.stratified {
        note("stratified", text("yes"));
    }
    if !options.fractions.is_empty() {
        let fractions = options.fractions.iter().map(|(split, f)| format!("{split}={f}"));
        note("split", text(&fractions.collect::<Vec<_>>().join(",")));
    }
    if options.limit.is_some() || !options.fractions.is_empty() {
        note("seed", text(&options.seed.to_string()));
    }
    let relabelled: u64 = lines.iter().map(|line| line.n_relabelled).sum();
    if options.labels.is_some() {
        note("relabelled", MadeValue::Number(relabelled));
        if options.unlisted == Unlisted::Skip {
            note("unlisted", text("skip"));
        }
    }
    let found = statistics(bases, all, lines);
    let missing = found.as_ref().err().copied();
    manifest.statistics = found.unwrap_or_default();
    (manifest, missing)
}

/// Sums over the pixels of split `train`, if that has all samples of the bundles' and no others; or
/// why there are none, where a bundle has some.
fn statistics(
    bases: &Bases,
    all: &[Line],
    lines: &[NewLine],
) -> Result<Option<Statistics>, NoStatistics> {
    let of_train = |split: Split| split == Split::Train;
    let base_train: u64 = all
        .iter()
        .map(|line| bases.entry(*line))
        .filter(|e| of_train(e.split))
        .map(|e| e.samples)
        .sum();
    let train = lines.iter().filter(|line| of_train(line.entry.split));
    let kept = train.clone().filter(|line| of_train(bases.entry(line.line).split));
    let count = |n: u64, line: &NewLine| n + line.entry.samples;
    let (train, kept) = (train.fold(0, count), kept.fold(0, count));
    let with_train =
        bases.bundles().map(Bundle::manifest).filter(|m| m.n_samples(Split::Train) > 0);
    if bases.bundles().all(|bundle| bundle.manifest().statistics.is_none()) {
        return Ok(None);
    }
    if train != base_train || kept != base_train {
        return Err(NoStatistics::OtherSamples);
    }
    let mut sum: Option<Statistics> = None;
    for manifest in with_train {
        let Some(of_one) = &manifest.statistics else { return Err(NoStatistics::OfSome) };
        sum = Some(match sum {
            None => of_one.clone(),
            Some(sum) => added(&sum, of_one, &manifest.fields).ok_or(NoStatistics::Unlike)?,
        });
    }
    Ok(sum)
}

/// Returns the sums of both; `None` if their channels differ, or if only one is also over pixels
/// that are nodata.
fn added(a: &Statistics, b: &Statistics, fields: &[Field]) -> Option<Statistics> {
    if a.sum.len() != b.sum.len() || a.sum_nodata(fields) != b.sum_nodata(fields) {
        return None;
    }
    let by_channel = !(a.counts.is_empty() && b.counts.is_empty());
    let counts = (0..a.sum.len()).map(|channel| a.count(channel).checked_add(b.count(channel)));
    let counts = counts.filter(|_| by_channel).collect::<Option<Vec<_>>>()?;
    let add = |a: &[Decimal], b: &[Decimal]| -> Option<Vec<Decimal>> {
        (a.len() == b.len()).then(|| a.iter().zip(b).map(sum_of).collect())?
    };
    Some(Statistics {
        pixels: if by_channel { 0 } else { a.pixels.checked_add(b.pixels)? },
        counts,
        sum: add(&a.sum, &b.sum)?,
        sum_of_squares: add(&a.sum_of_squares, &b.sum_of_squares)?,
    })
}

/// Adds exact sums exactly, and rounded ones as floats.
fn sum_of((a, b): (&Decimal, &Decimal)) -> Option<Decimal> {
    let exact = |text: &Decimal| text.as_str().parse::<u128>().ok();
    let signed = |text: &Decimal| text.as_str().parse::<i128>().ok();
    let float = |text: &Decimal| text.as_str().parse::<f64>().ok();
    let sum = match (exact(a).zip(exact(b)), signed(a).zip(signed(b))) {
        (Some((a, b)), _) => a.checked_add(b)?.to_string(),
        (None, Some((a, b))) => a.checked_add(b)?.to_string(),
        (None, None) => (float(a)? + float(b)?).to_string(),
    };
    Decimal::parse(&sum)
}

fn report(
    bases: &Bases,
    manifest: &Manifest,
    lines: &[NewLine],
    base_samples: u64,
    options: &DeriveOptions,
) -> DeriveReport {
    let bytes = manifest.to_bytes();
    let mut splits: BTreeMap<String, DeriveSplit> = BTreeMap::new();
    for entry in &manifest.shards {
        let split = splits.entry(entry.split.to_string()).or_default();
        split.samples += entry.samples;
        split.shards += 1;
    }
    let views: BTreeMap<_, u64> = lines
        .iter()
        .filter_map(|line| line.view.as_ref())
        .map(|(file, bytes)| (file.name.as_str().to_owned(), bytes.len() as u64))
        .collect();
    let shards: BTreeSet<&str> = manifest.shards.iter().map(|e| e.file.name.as_str()).collect();
    let written = views.values().sum::<u64>();
    let moved = lines.iter().filter(|line| line.entry.split != bases.entry(line.line).split);
    DeriveReport {
        dry_run: options.dry_run,
        bases: bases.bundles().map(Bundle::digest).collect(),
        digest: Digest::of(&bytes),
        base_samples,
        samples: manifest.shards.iter().map(|entry| entry.samples).sum(),
        splits,
        relabelled: lines.iter().map(|line| line.n_relabelled).sum(),
        moved: moved.map(|line| line.entry.samples).sum(),
        new_classes: Vec::new(),
        shards: shards.len() as u64,
        bytes_written: written + bytes.len() as u64,
        bytes_linked: manifest.files().map(|file| file.bytes).sum::<u64>() - written,
        symbolic_links: 0,
        unknown_keys: None,
        unused_rows: None,
        unlisted: None,
        lost_classes: None,
        no_statistics: None,
        already_done: false,
        seconds: 0.0,
    }
}

fn write(
    bases: &Bases,
    out: &OutDir,
    manifest: &Manifest,
    lines: &[NewLine],
    skipped: &[BadInput],
    report: &mut DeriveReport,
) -> Result<(), Error> {
    // The links of another run may be to other bundles.
    out.keep_source(&format!("derive {}", report.digest.hex()))?;
    let mut linked = BTreeSet::new();
    for NewLine { line, entry, view, .. } in lines {
        for file in [&entry.file, &entry.index] {
            if !linked.insert(&file.name) {
                continue;
            }
            let from = bases.bundle(*line).path_of(file);
            let found = std::fs::metadata(&from).map_err(|e| Error::io("read", &from, e))?.len();
            if found != file.bytes {
                let (path, expected) = (from.display().to_string(), file.bytes);
                return Err(gular_bundle::Error::Length { path, expected, found }.into());
            }
            let symbolic = link(&from, &out.data.join(file.name.as_str()))? == Linked::Symbolic;
            report.symbolic_links += u64::from(symbolic);
        }
        if let Some((file, bytes)) = view {
            write_file(&out.data.join(file.name.as_str()), bytes)?;
        }
    }
    // The links are there before the manifest that lists them.
    sync_folder(&out.data)?;
    report.digest = out.publish(manifest, skipped)?;
    Ok(())
}
