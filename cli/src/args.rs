//! Arguments, and the texts of `--help`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gular_bundle::{Digest, Envelope, Split};
use gular_pack::AdoptSplit;

use crate::payload::{PayloadArg, PayloadArgs};

/// Packs images into hashed bundles that training jobs read fast.
///
/// Exit codes: 0 done, 1 the data failed the check, 2 could not do it (usage
/// errors too), 130 and 143 stopped by a signal.
#[derive(Debug, Parser)]
#[command(name = "gular", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) output: Output,
}

const EXAMPLES: &str = "\
Examples:
  gular pack photos/ bundle/              photos/class/file or photos/{train,val,test}/class/file
  gular verify bundle/                    every byte against its digest
  gular inspect bundle/ --sheet sheet.png what is in it, and a contact sheet
  gular publish bundle/ URL               to a Pelican federation; prints URL#blake3=…
  gular fetch URL#blake3=… bundle/        from its caches, checked block by block
  gular convert bundle/ hf/ --envelope arrow   the same samples, for other people's tools
  gular stage bundle/ -- python train.py {}    a copy in the node's memory while it runs";

/// What is shown, for every verb.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Print the result as one JSON object on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No progress and no summary; errors and faults still show
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Pack(PackArgs),
    Adopt(AdoptArgs),
    Convert(ConvertArgs),
    Export(ExportArgs),
    Inspect(InspectArgs),
    Verify(VerifyArgs),
    Publish(PublishArgs),
    Fetch(FetchArgs),
    Stage(StageArgs),
    Bench(BenchArgs),
    Image(crate::image::args::ImageArgs),
    Ls(LsArgs),
    Federation(FederationArgs),
}

/// Pack a directory of JPEG and PNG images into a new bundle
///
/// SRC holds `split/class/file` (when its folders are named train, val or
/// valid or validation, test) or `class/file`; class names become labels in
/// sorted order. Images are taken byte for byte, unless --payload asks for pixels
/// or JPEG of a chosen size. The same images and options give the same bundle
/// digest on any machine and with any --jobs. When interrupted, run the same
/// command again: finished shards are kept.
///
/// Example: gular pack photos/ bundle/ --split train=0.9,val=0.1
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PackArgs {
    /// The directory of images
    pub(crate) src: PathBuf,
    /// The folder of the new bundle; must not exist, be empty, or hold the same interrupted pack
    pub(crate) out: PathBuf,
    /// What the top-level folders of SRC are
    #[arg(long, value_enum, default_value_t = LayoutArg::Auto)]
    pub(crate) layout: LayoutArg,
    /// Where labels come from; with `none`, folders mean nothing and files may lie anywhere
    #[arg(long, value_enum, default_value_t = LabelsArg::Folder)]
    pub(crate) labels: LabelsArg,
    /// A file with one class name a line, which fixes their order [default: folder names, sorted]
    #[arg(long, value_name = "FILE")]
    pub(crate) classes: Option<PathBuf>,
    /// Fractions that sum to 1, such as `train=0.8,val=0.1,test=0.1`, where folders do not say the
    /// split. Each image falls by a hash of --seed and its path, so it keeps its split when others
    /// come or go; --dry-run shows the counts [default: all train]
    #[arg(long, value_name = "FRACTIONS", value_parser = fractions)]
    pub(crate) split: Option<Fractions>,
    /// The order of samples within a split; `sorted` is that of torchvision's ImageFolder
    #[arg(long, value_enum, default_value_t = OrderArg::Shuffled)]
    pub(crate) order: OrderArg,
    /// Chooses splits and shuffled order
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Bytes of source files (with --payload raw of pixels) a shard takes; KiB, MiB, GiB, KB, MB, GB or plain bytes
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = bytes)]
    pub(crate) shard_size: u64,
    /// The file format of the shards; all read at the same speed, each is for other tools:
    /// safetensors (shards), Hugging Face (arrow, parquet), HDF5, WebDataset (tar), a mounted
    /// file system (squashfs)
    #[arg(long, value_name = "FORMAT", default_value_t = Envelope::Shards, value_parser = envelope)]
    pub(crate) envelope: Envelope,
    /// How closely images are looked at: magic and header, every pixel, or not at all
    #[arg(long, value_enum, default_value_t = CheckArg::Header)]
    pub(crate) check: CheckArg,
    /// What happens when an image cannot be packed; `skip` lists it in OUT/skipped.jsonl
    #[arg(long, value_enum, default_value_t = OnErrorArg::Fail, value_name = "WHAT")]
    pub(crate) on_error: OnErrorArg,
    /// Images of more pixels are refused
    #[arg(long, value_name = "N", default_value_t = gular_codec::Limits::default().max_pixels)]
    pub(crate) max_pixels: u64,
    /// Memory for sorting paths; more are sorted on disk
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = bytes)]
    pub(crate) memory: u64,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// Scan and plan only: counts, bytes, shards; decodes no image, writes nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) payload: PayloadArgs,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
}

/// Texts for the manifest.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Manifest")]
pub(crate) struct AboutArgs {
    /// The dataset's name, for the manifest
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// What it holds
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Its licence, as an SPDX expression where there is one
    #[arg(long, value_name = "SPDX")]
    pub(crate) licence: Option<String>,
    /// How to cite it
    #[arg(long, value_name = "TEXT")]
    pub(crate) citation: Option<String>,
}

impl From<&AboutArgs> for gular_bundle::About {
    fn from(args: &AboutArgs) -> Self {
        Self {
            name: args.name.clone(),
            description: args.description.clone(),
            licence: args.licence.clone(),
            citation: args.citation.clone(),
        }
    }
}

/// Make a bundle of files that are there already, without copying them
///
/// Takes WebDataset tars, Hugging Face Arrow and uncompressed Parquet, HDF5, safetensors,
/// SquashFS images with stored blocks, uncompressed MosaicML MDS shards, FFCV betons; files or
/// folders of one format. OUT gets the manifest, an index for each file, and links to the
/// files, which must stay as they are. What cannot be read in place is refused, with what to
/// do instead. When interrupted, run the same command again.
///
/// Example: gular adopt birds-*.tar --out birds/
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct AdoptArgs {
    /// Files, or folders of them
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The folder of the new bundle
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The column of images [default: `image`, `jpg` and the like, or the only one that can be]
    #[arg(long, value_name = "NAME")]
    pub(crate) image: Option<String>,
    /// The column of labels: integers or class names; `folder` takes the folders of keys
    /// [default: `label`, `cls` and the like; `folder` in SquashFS images]
    #[arg(long, value_name = "NAME")]
    pub(crate) label: Option<String>,
    /// The column of keys; `none` makes them of file names and rows [default: `key`, `__key__`,
    /// `filename` and the like, where its texts are all different]
    #[arg(long, value_name = "NAME")]
    pub(crate) key: Option<String>,
    /// The split of all files; `folder`: by the first folder of keys [default: by words in their
    /// names and folders, else train; `folder` in SquashFS images where it can be]
    #[arg(long, value_name = "SPLIT", value_parser = adopt_split)]
    pub(crate) split: Option<AdoptSplit>,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// Memory for comparing keys; more are sorted on disk
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = bytes)]
    pub(crate) memory: u64,
    /// Only say what there is: fields, columns left out, samples
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
}

/// Write a bundle again in another envelope, or as plain files
///
/// Samples, their order, shards and splits stay, and each is compared with its digest;
/// so converting back gives the first bundle, digest and all. `directory` gives
/// OUT/split/key (OUT/key, where all keys begin with their split) and
/// OUT/split/samples.tsv. When interrupted, run the same command again.
///
/// Example: gular convert bundle/ bundle-hf/ --envelope arrow
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ConvertArgs {
    /// The bundle's folder
    pub(crate) bundle: PathBuf,
    /// The new folder; must not exist, be empty, or hold the same interrupted conversion
    pub(crate) out: PathBuf,
    /// shards, arrow, parquet, hdf5, tar, squashfs, or directory
    #[arg(long, value_name = "FORMAT", value_parser = convert_to)]
    pub(crate) envelope: ConvertTo,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// Only say what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Write a bundle to one file, to be carried elsewhere
///
/// A zstd-compressed tar of the bundle's folder, every byte checked on its way. `tar` or any
/// unpacker gives the bundle back. To give samples to other tools, use `gular convert`.
///
/// Example: gular export bundle/ --tar-zst bundle.tar.zst
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ExportArgs {
    /// The bundle's folder
    pub(crate) bundle: PathBuf,
    /// The new file
    #[arg(long, value_name = "FILE")]
    pub(crate) tar_zst: PathBuf,
    /// zstd's level, 1 to 19; images hardly shrink
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=19))]
    pub(crate) level: i32,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// Only say what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Say what a bundle, manifest, shard or index holds
///
/// Example: gular inspect bundle/ --sheet sheet.png
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct InspectArgs {
    /// A bundle's folder, a manifest.json, a shard or an index
    pub(crate) path: PathBuf,
    /// Write a contact sheet of some images, a row for each class (bundles only)
    #[arg(long, value_name = "PNG")]
    pub(crate) sheet: Option<PathBuf>,
    /// Chooses the images of the sheet
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// List the first N samples with their places
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) samples: usize,
    /// Write the sample with this key to stdout: the stored bytes, or an npy file of pixels
    /// (bundles only)
    #[arg(long, value_name = "KEY", conflicts_with_all = ["json", "sheet", "samples"])]
    pub(crate) extract: Option<String>,
}

/// Prove a bundle sound, or list every fault
///
/// A published bundle is streamed and kept nowhere; a fault is what no server of
/// its federation has right.
///
/// Examples: gular verify bundle/ --digest blake3:0a1b…
///           gular verify 'pelican://osg-htc.org/mylab/birds/v1#blake3=0a1b…'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct VerifyArgs {
    /// The bundle's folder, or the URL it is published at
    #[arg(value_name = "DIR|URL")]
    pub(crate) place: PathBuf,
    /// Manifest, indexes, and the lengths of shards; reads no sample
    #[arg(long, group = "mode")]
    pub(crate) quick: bool,
    /// Every byte of every file (the default)
    #[arg(long, group = "mode")]
    pub(crate) full: bool,
    /// Quick, and this share of the samples, such as `1%` or `0.01`; of a URL the whole
    /// MiB blocks that hold them
    #[arg(long, group = "mode", value_name = "SHARE", value_parser = share)]
    pub(crate) sample: Option<f64>,
    /// Only these splits, such as `train,val`: for folders that hold a part of the bundle
    #[arg(long, value_name = "SPLITS", value_delimiter = ',', value_parser = split)]
    pub(crate) split: Vec<Split>,
    /// Chooses the samples of --sample
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// The bundle digest it must have
    #[arg(long, value_name = "BLAKE3", value_parser = Digest::parse)]
    pub(crate) digest: Option<Digest>,
    /// Keys listed for one fault; the rest are counted
    #[arg(long, value_name = "N", default_value_t = gular_verify::VerifyOptions::default().max_keys)]
    pub(crate) max_keys: usize,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// Read a URL from its origin instead of caches
    #[arg(long, help_heading = "Network")]
    pub(crate) direct: bool,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// Publish a bundle, or one file, to a Pelican federation
///
/// A bundle's URL names its version: NAME/VERSION. Its files go to NAME/data,
/// which versions share, the manifest to NAME/VERSION last. Each object is
/// compared with the local file at the origin (length and digest). What is there
/// already is not sent again, so the same command resumes, and two publishers do
/// not disturb each other. Nothing is ever overwritten. The token needs
/// storage.create and storage.read.
///
/// Example: gular publish bundle/ pelican://osg-htc.org/mylab/birds/v1
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PublishArgs {
    /// The bundle's folder, or a file
    pub(crate) from: PathBuf,
    /// Where to: NAME/VERSION of a bundle, the object's name for a file
    pub(crate) url: String,
    /// Only say what would be sent
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) network: Network,
}

/// Fetch a published bundle, or one object, each block checked as it lands
///
/// DIR becomes a local bundle. When interrupted, even by kill -9, run the same
/// command again: what is there is checked and kept. An object that is no bundle
/// goes to DIR under its own name; begun ones are kept when the URL has a digest.
/// Exit code 1: what came is not what its digest says.
///
/// Example: gular fetch pelican://osg-htc.org/mylab/birds/v1#blake3=0a1b… birds/
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct FetchArgs {
    /// NAME/VERSION with the bundle's digest, as `publish` printed it, or an object
    pub(crate) url: String,
    /// The folder of the local copy
    pub(crate) dir: PathBuf,
    /// Only these splits, such as `train,val`
    #[arg(long, value_name = "SPLITS", value_delimiter = ',', value_parser = split)]
    pub(crate) split: Vec<Split>,
    /// Read from the origin instead of caches
    #[arg(long)]
    pub(crate) direct: bool,
    /// Only say what would be fetched
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) network: Network,
}

/// Copy data to the node's memory or disk once, for as long as a command runs
///
/// SRC is a bundle, the URL of one, or a directory of files. All processes of a
/// user on a node share one copy: the first makes it, the others wait, the last
/// removes it; what a killed run left, the next one removes. Bundles are checked
/// block by block; nothing is written unless it fits in memory, cgroup and disk.
///
/// COMMAND finds the copy's path in GULAR_STAGED and in place of `{}` in its
/// arguments; signals are passed on to its process group, its exit code is ours
/// (128 + n for signal n). Without COMMAND the path is printed, and the copy
/// stays until SIGTERM or SIGINT.
///
/// Example: gular stage bundle/ -- python train.py --data {}
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct StageArgs {
    /// A bundle's folder or URL, or a directory
    pub(crate) src: String,
    /// `auto`: /dev/shm when less than half of what is available is taken, else scratch; `shm`;
    /// `scratch`: _CONDOR_SCRATCH_DIR, SLURM_TMPDIR, TMPDIR or /tmp; or a folder that exists
    #[arg(long, value_name = "WHERE", default_value = "auto", value_parser = stage_to)]
    pub(crate) to: gular_runtime::stage::StageTo,
    /// A bundle's samples as plain files, with the names that `gular convert --envelope
    /// directory` gives them
    #[arg(long)]
    pub(crate) unpack: bool,
    /// Leave the copy at the end, for later runs; one without --keep removes it
    #[arg(long)]
    pub(crate) keep: bool,
    /// Only say where it would go and whether it fits
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    /// What to run, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Measure which envelope, payload and reader serve your data, and say which to pick
///
/// SRC is a directory of images or a bundle. The same samples are written in every
/// envelope, and as plain files, to a new folder below --scratch, which is removed at
/// the end. Rows are all combinations of envelope, payload, reader, order, threads and
/// page cache; each round takes every row once, so that other work on the machine hits
/// all alike. For comparison: the plain files, the HDF5 library's own reads where it is
/// installed, and a hand-written loop that reads every byte. Batches (--kind load) are
/// decoded, cropped and resized as in a training.
///
/// Cold: the row's files are written back and given to posix_fadvise(DONTNEED) before
/// each repetition; no root is needed, and what a disk or file server caches stays.
///
/// Example: gular bench photos/ --quick --html bench.html
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchArgs {
    /// A directory of images, or a bundle
    pub(crate) src: PathBuf,
    /// What the other options start from: `jsc-1.1` is exercise 1.1 of JSC's course on data
    /// loading, which compares file formats by whole epochs: fixed length or not, mapped or
    /// not, shuffled or not, cold and warm
    #[arg(long, value_name = "NAME", value_parser = ["jsc-1.1"], group = "start")]
    pub(crate) preset: Option<String>,
    /// A minute or less: shuffled, warm, all threads, 100 MB
    #[arg(long, group = "start")]
    pub(crate) quick: bool,
    /// All payloads, threads in powers of two, five rounds of a second
    #[arg(long, group = "start")]
    pub(crate) full: bool,
    /// The figures and the advice as one page with plots, which needs no network; replaces an
    /// earlier page, and no other file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The folder below which bundles and files are written [default: TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// Bytes of images used, spread over all of SRC [default: 1GB]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) limit: Option<u64>,
    /// Only say what would be written where, and about how long it would take
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) rows: BenchRows,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
}

/// Which combinations are measured, and how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rows")]
pub(crate) struct BenchRows {
    /// Envelopes, such as `shards,tar` [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = envelope)]
    pub(crate) envelope: Vec<Envelope>,
    /// `encoded`, `reencoded` (JPEG, long side 512, quality 90), `raw` (pixels of --size)
    /// [default: encoded]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub(crate) payload: Vec<PayloadArg>,
    /// `pread`, `map` [default: both]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub(crate) reader: Vec<ReaderArg>,
    /// `shuffled`, `sequential` [default: both]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub(crate) order: Vec<BenchOrderArg>,
    /// Numbers of threads, such as `1,2,8` [default: 1 and all cores]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) threads: Vec<NonZeroUsize>,
    /// `warm`, `cold` [default: both]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub(crate) cache: Vec<CacheArg>,
    /// `read` (bytes), `load` (batches of decoded pictures, by the first reader and order)
    /// [default: both]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    pub(crate) kind: Vec<KindArg>,
    /// No plain files, HDF5 library and hand-written loops
    #[arg(long)]
    pub(crate) no_baselines: bool,
    /// Side of decoded pictures, in pixels [default: 224]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) size: Option<u32>,
    /// Samples a batch [default: 64]
    #[arg(long, value_name = "N")]
    pub(crate) batch_size: Option<NonZeroUsize>,
    /// Repetitions of each row [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<NonZeroUsize>,
    /// The longest a repetition takes; a cold one ends with the epoch [default: 0.5]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ReaderArg {
    Pread,
    Map,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum BenchOrderArg {
    Shuffled,
    Sequential,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CacheArg {
    Warm,
    Cold,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum KindArg {
    Read,
    Load,
}

/// List a collection of a federation
///
/// Example: gular ls pelican://osg-htc.org/mylab/birds
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LsArgs {
    /// A collection, or an object
    pub(crate) url: String,
    /// Lengths in bytes too
    #[arg(long, short)]
    pub(crate) long: bool,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// How a federation is reached.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct Access {
    /// A file with the bearer token [default: BEARER_TOKEN, BEARER_TOKEN_FILE, and the other places
    /// that HTCondor and WLCG name]
    #[arg(long, value_name = "FILE")]
    pub(crate) token: Option<PathBuf>,
}

/// For verbs that move many objects.
#[derive(Debug, Clone, Args)]
pub(crate) struct Network {
    /// Objects at a time
    #[arg(long, value_name = "N", default_value = "4", help_heading = "Network")]
    pub(crate) parallel: NonZeroUsize,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// A federation on this machine, for development and lessons
#[derive(Debug, Args)]
pub(crate) struct FederationArgs {
    #[command(subcommand)]
    pub(crate) verb: FederationVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FederationVerb {
    Serve(ServeArgs),
    Token(TokenArgs),
}

/// Serve discovery, director, origin and cache from one process, until it is stopped
///
/// For development only: it listens on 127.0.0.1 and nowhere else. Prints its URL
/// on stdout once it serves, and on stderr what to paste into another shell.
/// Objects are files below DIR/origin.
///
/// Example: gular federation serve federation/
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServeArgs {
    /// Where keys, objects and copies are kept; made when there is none
    pub(crate) dir: PathBuf,
    /// The port of discovery and director; 0 for any
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// What object names begin with
    #[arg(long, value_name = "PATH", default_value = "/gular")]
    pub(crate) namespace: String,
    /// Reading takes no token; writing always does
    #[arg(long)]
    pub(crate) public_read: bool,
}

/// Print a token for a federation that `gular federation serve` serves
///
/// A PATH is relative to the namespace: `/` is all of it. At least one is needed, and
/// each may be repeated.
///
/// Example: gular federation token federation/ --read / --create /photos
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct TokenArgs {
    /// The folder that is served
    pub(crate) dir: PathBuf,
    /// Read and list below PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<String>,
    /// Write new objects below PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) create: Vec<String>,
    /// Write, overwrite and delete below PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) modify: Vec<String>,
    /// How long it is valid, in s, m or h; 1h at most
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = lifetime)]
    pub(crate) lifetime: Duration,
}

/// How many threads work, for every verb that has some.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Jobs {
    /// Threads [default: the cores this process may use]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

impl Jobs {
    pub(crate) fn count(self) -> usize {
        self.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, usize::from)
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LayoutArg {
    /// Splits when all are named so, else classes
    Auto,
    /// split/class/file
    Split,
    /// class/file
    Class,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LabelsArg {
    Folder,
    None,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OrderArg {
    Shuffled,
    Sorted,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CheckArg {
    Header,
    Full,
    None,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OnErrorArg {
    Fail,
    Skip,
}

/// Parsed `--split`.
#[derive(Debug, Clone)]
pub(crate) struct Fractions(pub(crate) Vec<(Split, f64)>);

fn fractions(text: &str) -> Result<Fractions, String> {
    let mut fractions: Vec<(Split, f64)> = Vec::new();
    for part in text.split(',') {
        let (name, value) =
            part.split_once('=').ok_or(format!("`{part}` is not `split=fraction`"))?;
        let split = Split::parse(name.trim())
            .ok_or(format!("`{name}` is no split; train, val and test are"))?;
        let value: f64 = value.trim().parse().map_err(|_| format!("`{value}` is no number"))?;
        if fractions.iter().any(|(s, _)| *s == split) {
            return Err(format!("`{split}` occurs twice"));
        }
        fractions.push((split, value));
    }
    Ok(Fractions(fractions))
}

fn adopt_split(text: &str) -> Result<AdoptSplit, String> {
    if text == "folder" { Ok(AdoptSplit::Folder) } else { split(text).map(AdoptSplit::All) }
}

fn split(text: &str) -> Result<Split, String> {
    Split::parse(text.trim()).ok_or(format!("`{text}` is no split; train, val and test are"))
}

/// Parsed `--envelope` of `gular convert`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ConvertTo {
    Bundle(Envelope),
    Directory,
}

fn convert_to(text: &str) -> Result<ConvertTo, String> {
    match text {
        "directory" => Ok(ConvertTo::Directory),
        _ => {
            envelope(text).map(ConvertTo::Bundle).map_err(|e| e.replace(" are", ", directory are"))
        }
    }
}

fn envelope(text: &str) -> Result<Envelope, String> {
    let all = Envelope::ALL;
    all.into_iter().find(|e| e.name() == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|e| e.name()).collect();
        let adopted = Envelope::ADOPTED.iter().any(|e| e.name() == text);
        let what = if adopted { "only read, by `gular adopt`, not written" } else { "no envelope" };
        format!("`{text}` is {what}; {} are", names.join(", "))
    })
}

pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "" | "B" => 1_u64,
        "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        other => return Err(format!("`{other}` is no unit; KiB, MiB, GiB, KB, MB and GB are")),
    };
    let number: f64 = digits.trim().parse().map_err(|_| format!("`{text}` is no size"))?;
    let bytes = number * unit as f64;
    if (1.0..9e15).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(format!("`{text}` is no size"))
    }
}

fn stage_to(text: &str) -> Result<gular_runtime::stage::StageTo, std::convert::Infallible> {
    use gular_runtime::stage::StageTo;
    Ok(match text {
        "auto" => StageTo::Auto,
        "shm" => StageTo::Shm,
        "scratch" => StageTo::Scratch,
        dir => StageTo::Dir(dir.into()),
    })
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default() {
        "s" => 1_u64,
        "m" => 60,
        "h" => 3600,
        other => return Err(format!("`{other}` is no unit of time; s, m and h are")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is no time"))?;
    number.checked_mul(unit).map(Duration::from_secs).ok_or(format!("`{text}` is too long"))
}

fn share(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.strip_suffix('%') {
        Some(digits) => (digits, 100.0),
        None => (text, 1.0),
    };
    let share = digits.trim().parse::<f64>().map_err(|_| format!("`{text}` is no share"))? / unit;
    if share > 0.0 && share <= 1.0 {
        Ok(share)
    } else {
        Err("a share lies above 0 and up to 100%".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_shares_parse() {
        assert_eq!(bytes("1GiB"), Ok(1 << 30));
        assert_eq!(bytes("1.5MB"), Ok(1_500_000));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(lifetime("30m"), Ok(Duration::from_secs(1800)));
        for bad in ["", "30", "m", "-1m", "1d", "99999999999999999999h", "9999999999999999999h"] {
            assert!(lifetime(bad).is_err(), "{bad}");
        }
        assert_eq!(share("1%"), Ok(0.01));
        assert_eq!(share("0.5"), Ok(0.5));
        for bad in ["", "GiB", "1XB", "-1", "0", "nan"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        for bad in ["", "0", "101%", "x", "nan"] {
            assert!(share(bad).is_err(), "{bad}");
        }
        assert!(fractions("train=0.5,train=0.5").is_err());
        assert_eq!(fractions("train=0.5,val=0.5").unwrap().0.len(), 2);
    }

    #[test]
    fn arguments_are_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
