//! `gular image build`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use gular_containers::make::{BuildOptions, Built, ImageCompression, ImageFormat, build};

use super::cargo::Cargo;
use super::places::{BlocksArgs, PlaceArgs, SourceArgs, proxies, tools};
use super::transport::Web;
use super::watch::Bars;
use super::{check, replay};
use crate::exit::{Exit, Failure};
use crate::named::{described, named};
use crate::network::ended;
use crate::shared::{Jobs, Output};
use crate::show;
use crate::stop::Stop;

/// What the help says of `--compression`.
pub(super) const COMPRESSIONS: &[&str] =
    &["Read everywhere", "Smaller and faster; refused by Apptainer before 1.4"];

/// Build the image
///
/// Fetches what image.lock names (made first if it is missing), builds the program with cargo,
/// assembles the image, checks that it will run (see `gular image check`), and writes
/// NAME-HASH.sif. The name has a hash of the content because Pelican's caches know a file only by
/// its name. What exists already is used again: if only the program changed, a build takes seconds.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Image",
    after_help = "Example:\n  gular image build image.toml --format sif,oci --out images/"
)]
pub(super) struct BuildArgs {
    /// The recipe
    #[arg(default_value = "image.toml", help_heading = None)]
    pub(super) recipe: PathBuf,
    /// The folder for the image and its contents (SPDX)
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(super) out: PathBuf,
    /// One or more of `sif`, `oci`, `oci-archive`
    ///
    /// A SIF, an OCI layout (a folder), or that layout as one tar.
    #[arg(
        long,
        value_parser = named::<ImageFormat>(),
        value_delimiter = ',',
        default_value = "sif",
        hide_possible_values = true
    )]
    pub(super) format: Vec<ImageFormat>,
    /// Of SIF files and OCI layers: `gzip`, `zstd`
    ///
    /// `gzip` is read everywhere. `zstd` is smaller and faster; Apptainer before 1.4 refuses it.
    #[arg(long, value_parser = described::<ImageCompression>(COMPRESSIONS), default_value = "gzip", hide_possible_values = true)]
    pub(super) compression: ImageCompression,
    /// A finished program, instead of the recipe's
    #[arg(long, value_name = "FILE")]
    pub(super) program: Option<PathBuf>,
    /// The cargo profile to compile the program with
    ///
    /// `dev` compiles in a fraction of the time and computes slowly: for trying an image out.
    #[arg(long, value_name = "NAME", default_value = "release", conflicts_with = "program")]
    pub(super) profile: String,
    /// A folder with packages, made by `gular image lock --vendor`
    #[arg(long, value_name = "DIR")]
    pub(super) from_vendor: Vec<PathBuf>,
    /// Fail if image.lock would have to be made or changed
    #[arg(long)]
    pub(super) locked: bool,
    /// Do what is known of Debian's scripts, and do not run them
    ///
    /// They are run in a user namespace. Where that is forbidden, this builds an image without what
    /// they do, and names the packages concerned. A recipe with `[[run]]` is refused.
    #[arg(long)]
    pub(super) no_scripts: bool,
    /// Write the image even if checks fail; findings are still shown
    #[arg(long)]
    pub(super) force: bool,
    /// Do everything except writing the image
    ///
    /// Fetches packages, builds the program and runs the checks.
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) jobs: Jobs,
    #[command(flatten)]
    pub(super) blocks: BlocksArgs,
    #[command(flatten)]
    pub(super) sources: SourceArgs,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

pub(super) fn run(args: &BuildArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let web = Web::new(&stop)?;
    let cargo =
        Cargo { profile: args.profile.clone(), offline: args.place.offline, quiet: output.quiet };
    let built = build(&options(args, &cargo)?, &web, &Bars::new(output, &stop));
    let built = built.map_err(|error| ended(error, &stop))?;
    if output.json {
        show::json(&built)?;
    } else {
        check::show_findings(&built.check, output);
        if !output.quiet {
            show::text(&words(&built))?;
        }
    }
    if built.check.refused() && !args.force { Ok(Exit::Unsound) } else { Ok(Exit::Done) }
}

fn options<'a>(args: &BuildArgs, cargo: &'a Cargo) -> Result<BuildOptions<'a>, Failure> {
    let mut options = BuildOptions::new(&args.recipe, args.place.cache()?, args.sources.sources());
    options.out.clone_from(&args.out);
    options.formats.clone_from(&args.format);
    options.compression = args.compression;
    options.program.clone_from(&args.program);
    options.compile = Some(cargo);
    options.vendor.clone_from(&args.from_vendor);
    options.cache_bytes = args.blocks.cache_size;
    options.limits = args.place.limits();
    options.jobs = NonZeroUsize::new(args.jobs.count()).unwrap_or(NonZeroUsize::MIN);
    options.offline = args.place.offline;
    options.locked = args.locked;
    options.force = args.force;
    options.dry_run = args.dry_run;
    options.host_paths = check::host_paths();
    options.tools = tools();
    options.no_scripts = args.no_scripts;
    options.proxies = proxies();
    Ok(options)
}

fn words(built: &Built) -> String {
    let mut text = String::new();
    let what = format!(
        "{} in {}",
        show::size(built.facts.unpacked_bytes),
        show::count(built.files, "file")
    );
    if built.check.refused() && built.outputs.is_empty() {
        return format!("refused: {what}; no image was written\n");
    }
    if built.dry_run {
        text.push_str(&format!("dry run: {what}; no image was written\n"));
    }
    if built.check.refused() && !built.outputs.is_empty() {
        text.push_str("written in spite of the errors above, because of `--force`\n");
    }
    for output in &built.outputs {
        let (path, size) = (output.path.display(), show::size(output.bytes));
        let how = if output.was_there { "was there already" } else { "written" };
        text.push_str(&format!("{path}: {size} {how} (from {what})\n{}\n", output.digest));
    }
    for sbom in &built.sbom {
        text.push_str(&format!("{}: what is inside (SPDX)\n", sbom.display()));
    }
    for (number, step) in (1..).zip(&built.steps) {
        let how = if step.was_there { "was there already" } else { "run" };
        let again = if step.reproducible { "reproducible" } else { "not reproducible" };
        text.push_str(&format!(
            "step {number} `{}`: {how}, {again}\n{}\n",
            step.script, step.layer
        ));
    }
    text.push_str(&check::facts_text(&built.check, &built.facts));
    text.push_str(&replay::text(&built.replay));
    text.push_str(&format!("{:.1} s\n", built.seconds));
    text
}
