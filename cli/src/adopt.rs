//! `gular adopt`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use gular_bundle::{Axes, FieldName};
use gular_pack::{AdoptOptions, AdoptReport, AdoptSplit, OnUnknownLabel, adopt};

use crate::about::AboutArgs;
use crate::convert::{stopped, with_bar};
use crate::exit::{Exit, Failure};
use crate::shared::{Jobs, Output};
use crate::stop::Stop;
use crate::{pack, pack_report, show, units};

/// Make a bundle from existing dataset files, without copying them
///
/// Takes WebDataset tars, Hugging Face Arrow and uncompressed Parquet, HDF5, safetensors, SquashFS
/// images with uncompressed data blocks, uncompressed MosaicML MDS shards, FFCV betons: files or
/// folders of one format. OUT gets the manifest, an index for each file, and links to the files,
/// which must stay as they are. What cannot be read in place is refused, with advice on what to do
/// instead. If interrupted, run the same command again.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Bundle",
    after_help = "Example:\n  gular adopt birds-*.tar --out birds/"
)]
pub(crate) struct AdoptArgs {
    /// Files, or folders of files
    #[arg(required = true, value_name = "PATH", help_heading = None)]
    pub(crate) paths: Vec<PathBuf>,
    /// The new bundle's folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The column of images
    ///
    /// [default: `image`, `jpg` and similar names, or the only column that can hold images]
    #[arg(long, value_name = "NAME", help_heading = "Columns")]
    pub(crate) image_column: Option<String>,
    /// What the axes of images that are arrays mean, such as `cyx`
    ///
    /// One letter for each axis: `y` rows, `x` columns, `c` bands, `t` time, `z` depth. It is
    /// needed if the shape has more than one reading. `depth=yx` gives the axes of the field
    /// `depth`. A field whose arrays have the size of the image is cropped and mirrored with it;
    /// `depth=none` says that it is not on the image's pixels.
    #[arg(long, value_name = "[FIELD=]AXES", value_parser = pack::axes, help_heading = "Columns")]
    pub(crate) axes: Vec<(FieldName, Option<Axes>)>,
    /// The column of labels; `folder`: the names of folders
    ///
    /// With `folder`, the names of folders are classes. The column has integers or class names. [default: `label`, `cls` and similar names; `folder` in SquashFS images]
    #[arg(long, value_name = "NAME", help_heading = "Columns")]
    pub(crate) label_column: Option<String>,
    /// Unlabelled samples: keep, refuse, drop, or a class
    ///
    /// That is, samples without a label, or with -1. They are counted in any case. `keep` gives them label -1, which says that the class is
    /// unknown; `drop` leaves them out; a number gives them that class.
    #[arg(long, value_name = "WHAT", default_value = "keep", value_parser = unknown_labels, help_heading = "Columns")]
    pub(crate) unknown_labels: OnUnknownLabel,
    /// The column of keys, which are names; `none`: row numbers
    ///
    /// With `none`, a key is the file's name and the number of the row. [default: `key`, `__key__`, `filename`
    /// and similar names, if all their values differ]
    #[arg(long, value_name = "NAME", help_heading = "Columns")]
    pub(crate) key_column: Option<String>,
    /// One split, such as `train`; `folder`: from each key
    ///
    /// All samples are put into this split.
    /// `folder` takes the first folder of each key. [default: by words in file and folder names,
    /// otherwise train; `folder` in SquashFS images where it is possible]
    #[arg(long, value_name = "SPLIT", value_parser = adopt_split, help_heading = "Columns")]
    pub(crate) as_split: Option<AdoptSplit>,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// Memory for comparing keys; larger lists are sorted on disk
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = units::bytes)]
    pub(crate) memory: u64,
    /// Only show columns used, columns left out, and the number of samples
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
}

pub(crate) fn run(args: &AdoptArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let options = AdoptOptions {
        image: args.image_column.clone(),
        axes: pack::each_once(&args.axes, "axes")?,
        label: args.label_column.clone(),
        key: args.key_column.as_ref().map(|k| (k != "none").then(|| k.clone())),
        split: args.as_split.unwrap_or_default(),
        unknown: args.unknown_labels,
        about: args.about.read()?,
        jobs: args.jobs.count(),
        memory_bytes: usize::try_from(args.memory).unwrap_or(usize::MAX),
        dry_run: args.dry_run,
    };
    let result = with_bar("adopt", output, |progress| {
        adopt(&args.paths, &args.out, &options, progress, &stop.flag)
    });
    let report = result.map_err(|e| stopped(e, &stop))?;
    for warning in &report.warnings {
        show::message("warning", warning);
    }
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&table(&report, args))?;
    }
    Ok(Exit::Done)
}

fn table(report: &AdoptReport, args: &AdoptArgs) -> String {
    let mut text = format!(
        "{} of {}, {}\n",
        show::count(report.shards, "file"),
        report.envelope,
        show::size(report.bytes)
    );
    for (split, samples) in &report.splits {
        let _ = writeln!(text, "{split:<8}{samples:>12} samples");
    }
    for (field, column) in &report.fields {
        let _ = writeln!(text, "field {field}: column `{column}`");
    }
    text.push_str(&pack_report::on_image(&report.resampling));
    let _ = writeln!(text, "keys: {}", report.keys);
    if report.classes > 0 {
        let _ = writeln!(text, "classes: {}", report.classes);
    }
    for (column, reason) in &report.left_out {
        let _ = writeln!(text, "left out: column `{column}`: {reason}");
    }
    if report.unknown_labels > 0 {
        let _ = writeln!(text, "unknown labels: {}", report.unknown_labels);
    }
    match &report.digest {
        None => text.push_str("dry run: nothing was written\n"),
        Some(digest) if report.already_done => {
            let _ = writeln!(
                text,
                "nothing to do: these files were already adopted, and have not changed since\n{digest}\nnext: gular verify {}",
                show::quoted(&args.out.display().to_string())
            );
        }
        Some(digest) => {
            let _ = writeln!(
                text,
                "adopted in {:.2} s; nothing was copied, the files must stay as they are\n{digest}\nnext: gular verify {}",
                report.seconds,
                show::quoted(&args.out.display().to_string())
            );
        }
    }
    text
}

fn unknown_labels(text: &str) -> Result<OnUnknownLabel, String> {
    Ok(match text {
        "keep" => OnUnknownLabel::Keep,
        "refuse" => OnUnknownLabel::Refuse,
        "drop" => OnUnknownLabel::Drop,
        number => {
            OnUnknownLabel::Class(number.parse().ok().filter(|class| *class >= 0).ok_or_else(
                || format!("`{text}` is not `keep`, `refuse`, `drop` or a class number"),
            )?)
        }
    })
}

fn adopt_split(text: &str) -> Result<AdoptSplit, String> {
    if text == "folder" { Ok(AdoptSplit::Folder) } else { units::split(text).map(AdoptSplit::All) }
}
