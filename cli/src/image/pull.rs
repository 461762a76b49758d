//! `gular image pull`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use gular_containers::recipe::Platform;
use gular_containers::registry::{Pulled, Pulling, pull_image, pull_sif};
use gular_registry::Reference;
use serde::Serialize;

use super::places::CacheArgs;
use super::pull_object;
use super::transport::Web;
use super::watch::Bars;
use crate::exit::{Exit, Failure};
use crate::network::{Access, ended};
use crate::shared::Output;
use crate::show;
use crate::stop::Stop;

/// Fetch an image from a registry or a federation
///
/// `docker://` names an image, which becomes the folder of an OCI layout; `oras://` names a SIF
/// that was pushed as one. Blobs are fetched in ranges, several at a time, and hashed as they
/// arrive; a stopped pull resumes where it was. Credentials are those of docker, podman and skopeo
/// (`docker login`, `podman login`), including their helpers. They are sent only to the registry
/// and the token server that it names, never to another host after a redirect. A SIF that `gular
/// publish` stored is fetched by its `pelican://` or `osdf://` URL, and each of its blocks is
/// checked against the digest in its name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gular image pull docker://python:3.12-slim python.oci
  gular image pull oras://ghcr.io/lab/train:v1 train.sif
  gular image pull osdf:///lab/images/train-0123456789abcdef.sif images/")]
pub(super) struct PullArgs {
    /// docker://HOST/REPOSITORY[:TAG][@DIGEST] for an OCI image; oras://… or osdf://… for a SIF
    pub(super) from: String,
    /// The new SIF, or the folder of the new OCI layout
    ///
    /// With docker://, the folder of the new OCI layout; with oras://, the new SIF; with osdf://,
    /// the folder for the SIF. [default: named after FROM, in the current folder]
    pub(super) to: Option<PathBuf>,
    /// linux/amd64 or linux/arm64 [default: linux/amd64]
    ///
    /// If FROM has images for several platforms, only one is fetched. An image for another CPU is
    /// refused.
    #[arg(long, value_name = "PLATFORM", value_parser = Platform::parse)]
    pub(super) platform: Option<Platform>,
    /// Parts of files fetched at the same time [default: 4]
    #[arg(long, short, value_name = "N", value_parser = crate::units::jobs)]
    pub(super) jobs: Option<NonZeroUsize>,
    /// The most bytes that are fetched
    #[arg(long, default_value = "64GiB", value_name = "SIZE", value_parser = crate::units::bytes)]
    pub(super) max_size: u64,
    #[command(flatten)]
    pub(super) kept: CacheArgs,
    #[command(flatten)]
    pub(super) access: Access,
}

/// How many ranges of a blob are fetched at a time.
pub(super) const RANGES: NonZeroUsize = NonZeroUsize::new(4).expect("four is not zero");

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct PullReport {
    /// The path of the fetched image.
    path: PathBuf,
    #[serde(flatten)]
    pulled: Pulled,
    /// Wall-clock time.
    seconds: f64,
}

pub(super) fn run(args: &PullArgs, output: &Output) -> Result<Exit, Failure> {
    let is_sif = args.from.starts_with("oras://");
    let is_object = pull_object::is_object(&args.from);
    refuse(args, is_object, is_sif)?;
    if is_object {
        return pull_object::run(args, output);
    }
    let start = Instant::now();
    let stop = Stop::install()?;
    let web = Web::limited(&stop, args.access.limit_rate)?;
    let reference = reference(&args.from)?;
    let archives = args.kept.cache()?.archives(&[], false);
    let bars = Bars::new(output, &stop);
    let with = Pulling {
        reference: &reference,
        transport: &web,
        archives: &archives,
        threads: args.jobs.unwrap_or(RANGES),
        max_bytes: args.max_size,
        watch: &bars,
    };
    let pulled = if is_sif {
        pull_sif(args.to.as_deref().unwrap_or(Path::new(".")), &with)
    } else {
        let name = reference.repository().trim_start_matches("library/").replace('/', "-");
        let to = args.to.clone().unwrap_or_else(|| format!("{name}.oci").into());
        pull_image(args.platform.unwrap_or_default().0, &to, &with).map(|pulled| (to, pulled))
    };
    let (path, pulled) = pulled.map_err(|error| ended(error, &stop))?;
    let report = PullReport { path, pulled, seconds: start.elapsed().as_secs_f64() };
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&words(&report))?;
    }
    Ok(Exit::Done)
}

/// Refuses flags that would have no effect.
fn refuse(args: &PullArgs, is_object: bool, is_sif: bool) -> Result<(), Failure> {
    let (platform, jobs) = (args.platform.is_some(), args.jobs.is_some());
    let (token, cache) = (!args.access.token.is_empty(), args.kept.is_named());
    let one_file = "leave it out: this URL names a single file, which is fetched in one piece";
    let login = "credentials of registries are those of `docker login` and `podman login`";
    let of_image =
        "`oras://` names a single SIF; use `docker://` for an image with several platforms";
    let flags = [
        ("--platform", is_object && platform, one_file),
        ("--jobs", is_object && jobs, one_file),
        ("--cache", is_object && cache, one_file),
        ("--token", !is_object && token, login),
        ("--platform", is_sif && platform, of_image),
    ];
    match flags.iter().find(|(_, given, _)| *given) {
        None => Ok(()),
        Some((flag, _, hint)) => {
            let message =
                format!("`{flag}` has no effect with `{}`", show::plain(without_query(&args.from)));
            Err(Failure::new(message, Some((*hint).to_owned())))
        }
    }
}

/// Removes the query, which may contain a token.
fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// Parses the name of an image.
pub(super) fn reference(text: &str) -> Result<Reference, Failure> {
    Reference::parse(text).map_err(|error| {
        let hint = "give a name such as `docker://ghcr.io/lab/train:v1`";
        Failure::new(error, Some(hint.to_owned()))
    })
}

fn words(report: &PullReport) -> String {
    let Pulled { pinned, bytes, kept, blobs, .. } = &report.pulled;
    let kept = match kept {
        0 => String::new(),
        n => format!(", {n} of them were already here"),
    };
    let blobs = show::count(*blobs as u64, "blob");
    let path = report.path.display();
    let pace = show::pace(*bytes, report.seconds);
    format!("{path}: {} in {blobs}{kept}{pace}\n{pinned}\n", show::size(*bytes))
}
