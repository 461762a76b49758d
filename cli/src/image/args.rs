//! Arguments of `gular image`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Build container images from a recipe: SIF for Apptainer, OCI for all others
///
/// A recipe is a TOML file: a base, a program, libtorch with NVIDIA's libraries, and the
/// GPUs it must run on. `image.lock` beside it names every package by its digest, so that
/// the same recipe gives the same bytes on any machine. No root, no daemon, no Docker.
///
/// Example: gular image build image.toml
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
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

/// Find out which packages an image takes, and write them to image.lock
///
/// Resolves Debian packages (the archive's signature is checked) and the wheels of torch
/// with NVIDIA's libraries; writes names, versions, lengths, SHA-256 and URLs. Nothing large
/// is fetched, unless --vendor asks for it.
///
/// Example: gular image lock image.toml --vendor vendor/
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LockArgs {
    /// The recipe
    #[arg(default_value = "image.toml")]
    pub(crate) recipe: PathBuf,
    /// Also fetch every package into DIR; `gular image build --vendor DIR` then needs no network
    #[arg(long, value_name = "DIR")]
    pub(crate) vendor: Option<PathBuf>,
    /// Only say whether image.lock fits the recipe; 1 when it does not
    #[arg(long, conflicts_with_all = ["vendor", "dry_run"])]
    pub(crate) check: bool,
    /// Resolve, and say what would change; nothing is written
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
    #[arg(long, value_name = "URL", default_value = "https://deb.debian.org/debian")]
    pub(crate) mirror: String,
    /// A mirror of Debian's security archive
    #[arg(long, value_name = "URL", default_value = "https://deb.debian.org/debian-security")]
    pub(crate) security: String,
    /// A Python package index (PEP 503)
    #[arg(long, value_name = "URL", default_value = "https://pypi.org/simple")]
    pub(crate) index: String,
    /// OpenPGP keys that sign the Debian archive, instead of Debian's own
    #[arg(long, value_name = "FILE")]
    pub(crate) keyring: Vec<PathBuf>,
}

/// Where things are kept.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Places")]
pub(crate) struct PlaceArgs {
    /// Keeps packages, unpacked files and compressed blocks for the next build
    /// [default: $GULAR_IMAGE_CACHE, else gular/image in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Fetch nothing
    #[arg(long)]
    pub(crate) offline: bool,
    /// Bytes that an archive or image may have unpacked
    #[arg(long, default_value = "64GiB", value_name = "SIZE", value_parser = crate::units::bytes)]
    pub(crate) max_unpacked: u64,
}

/// Build the image
///
/// Fetches what image.lock names (made first when it is missing), builds the program with
/// cargo, lays all together, checks that it will run (see `gular image check`), and writes
/// NAME-HASH.sif, named by its content since caches of Pelican key on names. What is there
/// already is used again: when only the program changed, a build takes seconds.
///
/// Example: gular image build image.toml --format sif,oci --out images/
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BuildArgs {
    /// The recipe
    #[arg(default_value = "image.toml")]
    pub(crate) recipe: PathBuf,
    /// The folder for the image and its list of contents (SPDX)
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    /// What to write: a SIF, an OCI layout (a folder), that layout as one tar
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sif")]
    pub(crate) format: Vec<FormatArg>,
    /// Of a SIF's files and of OCI layers; `gzip` every runtime reads
    #[arg(long, value_enum, default_value = "gzip")]
    pub(crate) compression: CompressionArg,
    /// This program instead of the one that the recipe names
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Folders with packages, as `gular image lock --vendor` fills them
    #[arg(long, value_name = "DIR")]
    pub(crate) vendor: Vec<PathBuf>,
    /// Refuse to make or change image.lock
    #[arg(long)]
    pub(crate) locked: bool,
    /// Write the image in spite of findings; they are still shown
    #[arg(long)]
    pub(crate) force: bool,
    /// Fetch, build the program, check; write no image
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Threads that compress; they change no byte [default: all cores]
    #[arg(long, short, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Space that compressed blocks may take in the cache
    #[arg(long, default_value = "16GiB", value_name = "SIZE", value_parser = crate::units::bytes)]
    pub(crate) cache_size: u64,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Say whether an image will run where it should
///
/// Looks for libraries that are missing or too old, GPUs without code in the CUDA libraries,
/// drivers that are too old, what Apptainer and HTCondor expect inside, secrets and names
/// that caches would mix up; with --replay also whether HTCondor's own lines for testing and
/// starting a job work. Asks for the GPUs and the Apptainer of the recipe inside, unless told
/// otherwise. Takes a .sif, an OCI layout or an OCI archive, whoever made it. Exit code 1 when it would fail.
///
/// Example: gular image check train-0123456789abcdef.sif --gpus 8.0,9.0
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CheckArgs {
    /// A .sif, the folder of an OCI layout, or an OCI archive
    pub(crate) image: PathBuf,
    /// Compute capabilities it must run on, such as 8.0,9.0 [default: the recipe's]
    #[arg(long, value_delimiter = ',', value_name = "CC")]
    pub(crate) gpus: Vec<gular_containers::cuda::Capability>,
    /// The oldest Apptainer it must run under [default: the recipe's, else 1.1]
    #[arg(long, value_name = "VERSION")]
    pub(crate) apptainer: Option<gular_containers::recipe::Runtime>,
    /// Also replay HTCondor's lines, which starts programs of the image: for images you trust
    #[arg(long)]
    pub(crate) replay: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Show what an image holds: objects, layers, environment, labels, GPUs, packages
///
/// Example: gular image inspect train-0123456789abcdef.sif
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
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
/// `def` and `dockerfile` rebuild something close with other tools, for those who must; `facts`
/// is JSON: minimum compute capability, CUDA runtime, driver, bytes.
///
/// Example: gular image export facts train-0123456789abcdef.sif
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
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
