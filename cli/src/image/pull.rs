//! `gular image pull`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use gular_containers::recipe::Platform;
use gular_containers::registry::{Pulled, Reference, Registry, pull_image, pull_sif};
use gular_pelican::Env;
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
/// publish` stored is fetched by its `pelican://` or `osdf://` URL, and checked by the digest in
/// its name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gular image pull docker://python:3.12-slim python.oci
  gular image pull oras://ghcr.io/lab/train:v1 train.sif
  gular image pull osdf:///lab/images/train-0123456789abcdef.sif images/")]
pub(super) struct PullArgs {
    /// docker://HOST/REPOSITORY[:TAG][@DIGEST], oras://… for a SIF, or the URL of one
    pub(super) from: String,
    /// The layout's folder, or the SIF; of a URL the folder for it [default: the name there, in the
    /// current folder]
    pub(super) to: Option<PathBuf>,
    /// Which image of several to take: linux/amd64 or linux/arm64
    #[arg(long, value_name = "PLATFORM", default_value = "linux/amd64", value_parser = Platform::parse)]
    pub(super) platform: Platform,
    /// Ranges fetched at a time
    #[arg(long, short, value_name = "N", default_value = "4", value_parser = crate::units::jobs)]
    pub(super) jobs: NonZeroUsize,
    #[command(flatten)]
    pub(super) kept: CacheArgs,
    #[command(flatten)]
    pub(super) access: Access,
}

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct Report {
    /// Where it is now.
    path: PathBuf,
    #[serde(flatten)]
    pulled: Pulled,
    /// Wall-clock time.
    seconds: f64,
}

pub(super) fn run(args: &PullArgs, output: &Output) -> Result<Exit, Failure> {
    if pull_object::is_object(&args.from) {
        return pull_object::run(args, output);
    }
    let start = Instant::now();
    let stop = Stop::install()?;
    let web = Web::limited(&stop, args.access.limit_rate)?;
    let is_sif = args.from.starts_with("oras://");
    let reference = reference(&args.from)?;
    let archives = args.kept.cache()?.archives(&[], false);
    let bars = Bars::new(output, &stop);
    let pulled = Registry::open(&reference, &web, &Env::process()).and_then(|registry| {
        if is_sif {
            let to = args.to.as_deref().unwrap_or(Path::new("."));
            return pull_sif(&registry, &reference, to, &archives, args.jobs, &bars);
        }
        let name = || {
            let name = reference.repository().trim_start_matches("library/");
            format!("{}.oci", name.replace('/', "-"))
        };
        let to = args.to.clone().unwrap_or_else(|| name().into());
        let arch = args.platform.0;
        let pulled = pull_image(&registry, &reference, arch, &to, &archives, args.jobs, &bars)?;
        Ok((to, pulled))
    });
    let (path, pulled) = pulled.map_err(|error| ended(error, &stop))?;
    let report = Report { path, pulled, seconds: start.elapsed().as_secs_f64() };
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&words(&report))?;
    }
    Ok(Exit::Done)
}

/// The image that a text names.
pub(super) fn reference(text: &str) -> Result<Reference, Failure> {
    Reference::parse(text).map_err(|error| {
        let hint = "such as `docker://ghcr.io/lab/train:v1`";
        Failure::new(error, Some(hint.to_owned()))
    })
}

fn words(report: &Report) -> String {
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
