//! `gular derive`.

use std::path::PathBuf;

use clap::Args;
use gular_pack::{
    DeriveOptions, DeriveReport, FieldColumns, Limit, NamedKeys, TableOptions, Unlisted,
};

use crate::convert::{stopped, with_bar};
use crate::exit::{Exit, Failure};
use crate::named::named;
use crate::pack::{Fractions, fractions};
use crate::pack_labels::{label_column, split_column};
use crate::shared::{Jobs, Output};
use crate::show;
use crate::stop::Stop;

/// Make a new bundle from others: take a subset, change labels or splits, or merge
///
/// The shards are not copied: OUT has links to them, a new manifest, and for each shard a small
/// file that says which samples count, one bit per sample (FORMAT.md, "View"). No image is read.
/// Published beside its base, only these small files are sent. All other commands treat the result
/// like any other bundle; `gular convert` makes a copy that needs no other bundle.
///
/// The order is: --where, --keys and --remove choose samples, --labels gives them labels, --limit
/// takes some of those, --fractions makes splits.
///
/// Links are hard links where the file system allows it, so that OUT stays usable when the other
/// bundle is removed. The output says when they are symbolic.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Bundle",
    after_help = "Example:\n  gular derive imagenet/ one-percent/ --limit 1% --stratified",
    after_long_help = "Examples:
  gular derive imagenet/ one-percent/ --limit 1% --stratified
  gular derive birds/ owls/ --where \"class = 'barn owl','tawny owl' and bytes > 5000\"
  gular derive birds/ birds-2/ --remove bad-keys.txt --labels corrected.csv
  gular derive birds/ mammals/ animals/ --fractions train=0.9,val=0.1"
)]
pub(crate) struct DeriveArgs {
    /// The folders of the existing bundles
    ///
    /// Several need the same fields, envelope and payload. Classes are joined by name: those of the
    /// first bundle keep their numbers. No key may occur twice.
    #[arg(required = true, num_args = 1.., value_name = "BUNDLE", help_heading = None)]
    pub(crate) bundles: Vec<PathBuf>,
    /// The new folder
    ///
    /// It must be new or empty, or hold the same result, interrupted or finished.
    #[arg(help_heading = None)]
    pub(crate) out: PathBuf,
    /// Only samples that fit, such as `class = cat,dog`
    ///
    /// For example `bytes > 5000 and class = cat,dog`.
    /// Compares `key`, `split`, `class`, `label`, `bytes` (of the stored image) and fields that
    /// hold one number or a text. `=` and `!=` take one value or several; `<`, `<=`, `>` and `>=` a
    /// number; `~` and `!~` a pattern with `*` and `?`. Joined by `and`, `or`, `not` and brackets;
    /// values with spaces are in quotes. Labels and splits are those that the bundles have.
    #[arg(long = "where", value_name = "CONDITION", help_heading = "Which samples")]
    pub(crate) filter: Option<String>,
    /// Only samples whose keys are in this file, one per line
    #[arg(long, value_name = "FILE", help_heading = "Which samples")]
    pub(crate) keys: Vec<PathBuf>,
    /// Leave out samples whose keys are in this file
    #[arg(long, value_name = "FILE", help_heading = "Which samples")]
    pub(crate) remove: Vec<PathBuf>,
    /// Take only this many samples: a number, or a share such as `1%`
    ///
    /// They are chosen by hashing --seed and key: the same ones each time. Without --stratified, a
    /// larger limit includes the samples of a smaller one. Takes 32 bytes of memory per sample.
    #[arg(long, value_name = "N|P%", value_parser = limit, help_heading = "Which samples")]
    pub(crate) limit: Option<Limit>,
    /// With --limit, take the same share of each class in each split
    #[arg(long, requires = "limit", help_heading = "Which samples")]
    pub(crate) stratified: bool,
    /// A table of labels (.csv, .tsv, .jsonl, .parquet), as for `gular pack`
    ///
    /// Names in the table match keys as they match files in `gular pack`. New class names are added
    /// after the bundle's own; numbers are taken as they are. Only changed labels take space: 8
    /// bytes each.
    #[arg(long, value_name = "FILE", help_heading = "Labels")]
    pub(crate) labels: Vec<PathBuf>,
    /// The table's column of file names
    #[arg(long, value_name = "NAME", requires = "labels", help_heading = "Labels")]
    pub(crate) key_column: Option<String>,
    /// The table's column of labels, or `none`
    #[arg(long, value_name = "NAME", requires = "labels", help_heading = "Labels")]
    pub(crate) label_column: Option<String>,
    /// The table's column of splits: train, val (valid, validation) or test
    #[arg(long, value_name = "NAME", requires = "labels", help_heading = "Labels")]
    pub(crate) split_column: Option<String>,
    /// Samples that the table does not list: `keep` or `skip`
    ///
    /// `keep` leaves their label and split as they are; `skip` leaves them out.
    #[arg(long, value_parser = named::<Unlisted>(), default_value = "keep", value_name = "WHAT", requires = "labels", help_heading = "Labels", hide_possible_values = true)]
    pub(crate) unlisted: Unlisted,
    /// New splits, such as `train=0.8,val=0.1,test=0.1`
    ///
    /// Keys are assigned by hashing --seed and key, as `gular pack` does.
    #[arg(long, value_name = "FRACTIONS", value_parser = fractions, help_heading = "Splits")]
    pub(crate) fractions: Option<Fractions>,
    /// Seed for --limit and --fractions
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Splits")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// Only show what would be made
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) fn run(args: &DeriveArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let (split, split_words) = split_column(args.split_column.as_deref())?;
    let labels = (!args.labels.is_empty()).then(|| TableOptions {
        files: args.labels.clone(),
        key: args.key_column.clone(),
        label: label_column(args.label_column.as_deref()),
        split,
        split_words,
        fields: FieldColumns::Named(Vec::new()),
        ..TableOptions::default()
    });
    let options = DeriveOptions {
        filter: args.filter.clone(),
        keys: args.keys.clone(),
        remove: args.remove.clone(),
        limit: args.limit,
        stratified: args.stratified,
        labels,
        unlisted: args.unlisted,
        fractions: args.fractions.as_ref().map(|f| f.0.clone()).unwrap_or_default(),
        seed: args.seed,
        jobs: args.jobs.count(),
        dry_run: args.dry_run,
        ..DeriveOptions::new(std::env::temp_dir())
    };
    let result = with_bar("derive", output, |progress| {
        gular_pack::derive(&args.bundles, &args.out, &options, progress, &stop.flag)
    });
    let report = result.map_err(|e| stopped(e, &stop))?;
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&text(&report, args))?;
    }
    Ok(Exit::Done)
}

fn text(report: &DeriveReport, args: &DeriveArgs) -> String {
    let mut text = String::new();
    let mut warn = |named: &Option<NamedKeys>, noun: &str, what: &str| {
        if let Some(NamedKeys { n, first }) = named {
            let first = show::printable(first);
            text.push_str(&format!("warning: {} {what}: {first}\n", show::count(*n, noun)));
        }
    };
    warn(&report.unknown_keys, "key", "of the lists that no sample has");
    let chosen = args.filter.is_some() || !args.keys.is_empty() || !args.remove.is_empty();
    let unused = match chosen {
        true => "of the table that no chosen sample has",
        false => "of the table that no sample has",
    };
    warn(&report.unused_rows, "row", unused);
    let unlisted = match args.unlisted {
        Unlisted::Keep | Unlisted::Fail => "that the table does not list, kept as before",
        Unlisted::Skip => "that the table does not list, left out",
    };
    warn(&report.unlisted, "sample", unlisted);
    if let Some(NamedKeys { n, first }) = &report.lost_classes {
        let (classes, first) = (if *n == 1 { "class" } else { "classes" }, show::printable(first));
        text.push_str(&format!(
            "warning: the limit leaves no sample of {n} {classes} of a split: {first}\n"
        ));
    }
    for (split, of) in &report.splits {
        let (samples, shards) =
            (show::count(of.samples, "sample"), show::count(of.shards, "shard"));
        text.push_str(&format!("{split}: {samples} in {shards}\n"));
    }
    text.push_str(&statistics(report));
    if report.relabelled > 0 {
        text.push_str(&format!("other labels: {}\n", show::count(report.relabelled, "sample")));
    }
    if report.moved > 0 {
        text.push_str(&format!("other splits: {}\n", show::count(report.moved, "sample")));
    }
    if !report.new_classes.is_empty() {
        let names: Vec<String> =
            report.new_classes.iter().map(|name| format!("`{}`", show::plain(name))).collect();
        text.push_str(&format!("new classes: {}\n", names.join(", ")));
    }
    let (written, linked) = (show::size(report.bytes_written), show::size(report.bytes_linked));
    let of = format!("{} of {}", report.samples, show::count(report.base_samples, "sample"));
    if report.dry_run {
        text.push_str(&format!("dry run: {of}, {written} to write; nothing was written\n"));
    } else if report.already_done {
        text.push_str(&format!("nothing to do: {of} were derived before\n"));
    } else {
        let seconds = report.seconds;
        text.push_str(&format!(
            "derived {of}, {written} written, {linked} linked, {seconds:.2} s\n"
        ));
    }
    if report.symbolic_links > 0 {
        let links = show::count(report.symbolic_links, "file");
        text.push_str(&format!(
            "{links} could only be linked symbolically: the other bundle must stay where it is\n"
        ));
    }
    text.push_str(&format!("{}\n", report.digest));
    if !report.dry_run {
        let out = show::quoted(&args.out.display().to_string());
        text.push_str(&format!("next: gular verify {out}\n"));
    }
    text
}

/// Says why a new bundle has no statistics, if it has lost them.
pub(crate) fn statistics(report: &DeriveReport) -> String {
    let words = |why: gular_pack::NoStatistics| {
        format!("statistics of the pixels: left out, since {}\n", why.words())
    };
    report.no_statistics.map(words).unwrap_or_default()
}

fn limit(text: &str) -> Result<Limit, String> {
    let wrong = || format!("`{text}` is not a number of samples or a share such as `1%`");
    if let Some(percent) = text.strip_suffix('%') {
        let share = percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0;
        return match share > 0.0 && share <= 1.0 {
            true => Ok(Limit::Share(share)),
            false => Err(format!("`{text}` is out of range; expected above 0% and at most 100%")),
        };
    }
    match text.parse() {
        Ok(0) => Err("expected at least one sample".to_owned()),
        Ok(n) => Ok(Limit::Samples(n)),
        Err(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_a_share() {
        assert_eq!(limit("1000"), Ok(Limit::Samples(1000)));
        assert_eq!(limit("0.5%"), Ok(Limit::Share(0.005)));
        for wrong in ["0", "0%", "101%", "-1", "x", "%", "nan%", "1.5"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }
}
