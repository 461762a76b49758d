//! `gular image convert`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use gular_containers::Error;
use gular_containers::convert::{Conversion, Converted, LocalImage, convert};
use gular_containers::make::ImageCompression;
use gular_containers::recipe::Platform;
use gular_containers::registry::{Pulling, pull_image};
use gular_containers::store::LeftOut;
use gular_registry::Reference;

use super::build::COMPRESSIONS;
use super::places::{BlocksArgs, PlaceArgs};
use super::pull::{RANGES, reference};
use super::transport::Web;
use super::watch::Bars;
use crate::exit::{Exit, Failure};
use crate::named::described;
use crate::network::ended;
use crate::shared::{Jobs, Output};
use crate::show;
use crate::stop::Stop;

/// Convert an image made by other tools into a SIF
///
/// Takes an OCI layout, an OCI archive, what `docker save` wrote, or an image of a registry (see
/// `gular image pull`). Every blob is checked against its digests; layers are applied as the OCI
/// specification says, and nothing is unpacked outside the cache. Needs no root and no daemon. All
/// files belong to root. Devices, pipes and extended attributes are left out and listed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gular image convert docker://python:3.12-slim
  gular image convert oci:layout:v1
  docker save lab/train:v1 -o train.tar && gular image convert docker-archive:train.tar train.sif")]
pub(super) struct ConvertArgs {
    /// An image: docker://NAME[:TAG], or a layout or archive
    ///
    /// docker://NAME[:TAG], oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:NAME:TAG], or
    /// a path.
    pub(super) from: String,
    /// The SIF's path [default: NAME-HASH.sif in the current folder]
    pub(super) to: Option<PathBuf>,
    /// linux/amd64 or linux/arm64
    #[arg(long, value_name = "PLATFORM", default_value = "linux/amd64", value_parser = Platform::parse)]
    pub(super) platform: Platform,
    /// Of the SIF's files: `gzip`, `zstd`
    ///
    /// `gzip` is read everywhere. `zstd` is smaller and faster; Apptainer before 1.4 refuses it.
    #[arg(long, value_parser = described::<ImageCompression>(COMPRESSIONS), default_value = "gzip", hide_possible_values = true)]
    pub(super) compression: ImageCompression,
    /// Read and check everything, but write nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) jobs: Jobs,
    #[command(flatten)]
    pub(super) blocks: BlocksArgs,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

pub(super) fn run(args: &ConvertArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let bars = Bars::new(output, &stop);
    let converted = match args.from.strip_prefix("docker://") {
        None => {
            let from = LocalImage::parse(&args.from).map_err(|error| Failure::new(error, None))?;
            convert(&options(args, from, None)?, &bars)
        }
        Some(_) => pulled(args, &bars, &stop)?,
    };
    let converted = converted.map_err(|error| ended(error, &stop))?;
    if output.json {
        show::json(&converted)?;
    } else {
        warn(&converted.left_out);
        if !output.quiet {
            show::text(&words(&converted))?;
        }
    }
    Ok(Exit::Done)
}

/// Pulls the image beside the cache, whose blobs it shares, and converts it.
fn pulled(
    args: &ConvertArgs,
    bars: &Bars<'_>,
    stop: &Stop,
) -> Result<Result<Converted, Error>, Failure> {
    let reference = reference(&args.from)?;
    if args.place.offline {
        let message =
            format!("`{}` is in a registry, which cannot be read with `--offline`", args.from);
        let hint = "fetch the image first with `gular image pull`, and convert the OCI layout";
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let web = Web::new(stop)?;
    let cache = args.place.cache()?;
    let dir = tempfile::Builder::new().prefix(".pulled-").tempdir_in(cache.folder()?);
    let dir = dir.map_err(|e| Failure::new(format!("cannot create a folder: {e}"), None))?;
    let path = dir.path().join("image");
    let archives = cache.archives(&[], false);
    let with = Pulling {
        reference: &reference,
        transport: &web,
        archives: &archives,
        threads: RANGES,
        max_bytes: args.place.max_unpacked,
        watch: bars,
    };
    let pulled = pull_image(args.platform.0, &path, &with).map_err(|error| ended(error, stop))?;
    let from = LocalImage { path, tag: None };
    let options = options(args, from, Some(reference.pinned(pulled.top)))?;
    Ok(convert(&options, bars))
}

fn options(
    args: &ConvertArgs,
    from: LocalImage,
    pulled: Option<Reference>,
) -> Result<Conversion, Failure> {
    let (out, file_name) = match &args.to {
        None => (PathBuf::from("."), None),
        Some(to) => {
            let name = to.file_name().and_then(|name| name.to_str());
            let name = name.filter(|name| name.ends_with(".sif")).ok_or_else(|| {
                let message = format!("`{}` does not end in `.sif`", to.display());
                let hint = "HTCondor and OSPool recognise a SIF by this ending; leave out the name to get NAME-HASH.sif";
                Failure::new(message, Some(hint.to_owned()))
            })?;
            (gular_files::folder_of(to).to_owned(), Some(name.to_owned()))
        }
    };
    Ok(Conversion {
        from,
        pulled,
        out,
        file_name,
        arch: args.platform.0,
        compression: args.compression,
        cache: args.place.cache()?,
        cache_bytes: args.blocks.cache_size,
        limits: args.place.limits(),
        jobs: NonZeroUsize::new(args.jobs.count()).unwrap_or(NonZeroUsize::MIN),
        dry_run: args.dry_run,
    })
}

/// Warns about files that were left out: for each kind, their number and the first one.
fn warn(left_out: &[LeftOut]) {
    let mut kinds: Vec<(&str, &LeftOut, u64)> = Vec::new();
    for left in left_out {
        // `character device 1:3` and `character device 1:5` are of one kind.
        let kind = left.what.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':').trim_end();
        match kinds.iter_mut().find(|(known, _, _)| *known == kind) {
            Some((_, _, n)) => *n += 1,
            None => kinds.push((kind, left, 1)),
        }
    }
    for (kind, first, n) in kinds {
        let path = show::plain(&first.path);
        let text = match n {
            1 => format!("`{path}`: the {} is not kept", show::plain(&first.what)),
            n => format!("`{path}` and {} more: their {} is not kept", n - 1, show::plain(kind)),
        };
        show::message("warning", &text);
    }
}

fn words(converted: &Converted) -> String {
    let what = format!(
        "{} in {}",
        show::size(converted.unpacked_bytes),
        show::count(converted.files, "file")
    );
    let source = converted.source;
    let Some(output) = &converted.output else {
        return format!("dry run: {what} of {source}; no image was written\n");
    };
    let (path, size) = (output.path.display(), show::size(output.bytes));
    let how = if output.was_there { "was there already" } else { "written" };
    format!(
        "{path}: {size} {how} (from {what})\n{}\nof {source}\n{:.1} s\n",
        output.digest, converted.seconds
    )
}
