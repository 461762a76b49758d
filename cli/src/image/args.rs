//! Arguments of `gular image`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Build container images from a recipe: SIF for Apptainer, OCI for all others
///
/// A recipe is a TOML file: a base, a program, libtorch with NVIDIA's libraries, and the
/// GPUs it must run on. `image.lock` beside it names every package by its digest, so that
/// the same recipe gives the same bytes on any machine. No root, no daemon, no Docker.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular image build image.toml")]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    pub(crate) verb: ImageVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageVerb {
    Lock(LockArgs),
    Build(BuildArgs),
    Check(CheckArgs),
    Inspect(InspectArgs),
    Export(ExportArgs),
}

/// Resolve the packages of an image and write them to image.lock
///
/// Resolves Debian packages (the archive's signature is checked) and the wheels of torch
/// with NVIDIA's libraries; writes names, versions, lengths, SHA-256 and URLs. Nothing large
/// is fetched unless --vendor asks for it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular image lock image.toml --vendor vendor/")]
pub(crate) struct LockArgs {
    /// The recipe
    #[arg(default_value = "image.toml")]
    pub(crate) recipe: PathBuf,
    /// Also fetch every package into DIR
    ///
    /// `gular image build --vendor DIR` then needs no network.
    #[arg(long, value_name = "DIR")]
    pub(crate) vendor: Option<PathBuf>,
    /// Only check whether image.lock fits the recipe; exit code 1 if not
    #[arg(long, conflicts_with_all = ["vendor", "dry_run"])]
    pub(crate) check: bool,
    /// Only resolve and show what would change
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Where packages come from.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sources")]
pub(crate) struct SourceArgs {
    /// A mirror of the Debian archive
    #[arg(
        long,
        value_name = "URL",
        hide_short_help = true,
        default_value = "https://deb.debian.org/debian"
    )]
    pub(crate) mirror: String,
    /// A mirror of Debian's security archive
    #[arg(
        long,
        value_name = "URL",
        hide_short_help = true,
        default_value = "https://deb.debian.org/debian-security"
    )]
    pub(crate) security: String,
    /// A Python package index (PEP 503)
    #[arg(
        long,
        value_name = "URL",
        hide_short_help = true,
        default_value = "https://pypi.org/simple"
    )]
    pub(crate) index: String,
    /// OpenPGP keys that sign the Debian archive, instead of Debian's own
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) keyring: Vec<PathBuf>,
}

/// Where things are kept.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Places")]
pub(crate) struct PlaceArgs {
    /// Where packages and compressed blocks are kept for the next build
    ///
    /// Unpacked files too. [default: $GULAR_IMAGE_CACHE, else gular/image in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Use only what is already cached; fetch nothing
    #[arg(long)]
    pub(crate) offline: bool,
    /// The most bytes that an archive or image may unpack to
    #[arg(long, hide_short_help = true, default_value = "64GiB", value_name = "SIZE", value_parser = crate::units::bytes)]
    pub(crate) max_unpacked: u64,
}

/// Build the image
///
/// Fetches what image.lock names (made first if it is missing), builds the program with cargo,
/// assembles the image, checks that it will run (see `gular image check`), and writes
/// NAME-HASH.sif. The name has a hash of the content because Pelican's caches key on names. What
/// exists already is used again: if only the program changed, a build takes seconds.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular image build image.toml --format sif,oci --out images/")]
pub(crate) struct BuildArgs {
    /// The recipe
    #[arg(default_value = "image.toml")]
    pub(crate) recipe: PathBuf,
    /// The folder for the image and its list of contents (SPDX)
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    /// What to write, separated by commas
    ///
    /// A SIF, an OCI layout (a folder), or that layout as one tar.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sif")]
    pub(crate) format: Vec<FormatArg>,
    /// Compression of a SIF's files and of OCI layers
    #[arg(long, hide_short_help = true, value_enum, default_value = "gzip")]
    pub(crate) compression: CompressionArg,
    /// A program to use instead of the one that the recipe names
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// A folder with packages, made by `gular image lock --vendor`
    #[arg(long, value_name = "DIR")]
    pub(crate) vendor: Vec<PathBuf>,
    /// Fail if image.lock would have to be made or changed
    #[arg(long)]
    pub(crate) locked: bool,
    /// Write the image even if checks fail; findings are still shown
    #[arg(long)]
    pub(crate) force: bool,
    /// Fetch, build the program and check, but write no image
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Threads that compress; the bytes do not depend on them [default: all cores]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Space that compressed blocks may take in the cache
    #[arg(long, hide_short_help = true, default_value = "16GiB", value_name = "SIZE", value_parser = crate::units::bytes)]
    pub(crate) cache_size: u64,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Check whether an image will run where it should
///
/// Looks for libraries that are missing or too old, GPUs without code in the CUDA libraries,
/// drivers that are too old, what Apptainer and HTCondor expect inside, secrets and names
/// that caches would mix up; with --replay also whether HTCondor's own lines for testing and
/// starting a job work. GPUs and Apptainer are those of the recipe inside, unless flags say
/// otherwise. Takes a .sif, an OCI layout or an OCI archive from any tool. Exit code 1: the image
/// would fail.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular image check train-0123456789abcdef.sif --gpus 8.0,9.0")]
pub(crate) struct CheckArgs {
    /// A .sif, the folder of an OCI layout, or an OCI archive
    pub(crate) image: PathBuf,
    /// Compute capabilities it must run on, such as 8.0,9.0 [default: the recipe's]
    #[arg(long, value_delimiter = ',', value_name = "CC")]
    pub(crate) gpus: Vec<gular_containers::cuda::Capability>,
    /// The oldest Apptainer it must run under [default: the recipe's, otherwise 1.1]
    #[arg(long, value_name = "VERSION")]
    pub(crate) apptainer: Option<gular_containers::recipe::Runtime>,
    /// Also replay HTCondor's lines
    ///
    /// This starts programs of the image: only for images you trust.
    #[arg(long)]
    pub(crate) replay: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Show what an image contains: objects, layers, environment, labels, GPUs, packages
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular image inspect train-0123456789abcdef.sif")]
pub(crate) struct InspectArgs {
    /// A .sif, the folder of an OCI layout, or an OCI archive
    pub(crate) image: PathBuf,
    /// Also list all files
    #[arg(long)]
    pub(crate) files: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Write a definition file, a Dockerfile, or the facts that jobs ask for
///
/// `def` and `dockerfile` let other tools build a similar image; `facts` is JSON: minimum compute
/// capability, CUDA runtime, driver, bytes.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular image export facts train-0123456789abcdef.sif")]
pub(crate) struct ExportArgs {
    /// What to write to stdout
    #[arg(value_enum)]
    pub(crate) what: ExportArg,
    /// A recipe (for def and dockerfile), or an image (for facts)
    pub(crate) from: PathBuf,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    Sif,
    Oci,
    OciArchive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionArg {
    /// Read everywhere
    Gzip,
    /// Smaller and faster; refused by Apptainer before 1.4
    Zstd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportArg {
    /// Apptainer's definition file
    Def,
    Dockerfile,
    /// JSON for job files
    Facts,
}
