//! `gular image push`.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use clap::Args;
use gular_containers::convert::LocalImage;
use gular_containers::fetch::Transport as _;
use gular_containers::oci::OciLayout;
use gular_containers::recipe::Platform;
use gular_containers::registry::{
    NVIDIA_TERMS, nvidia_of_image, nvidia_of_sif, push_image, push_sif,
};
use gular_registry::{Pushed, Pushing, Reference};
use serde::Serialize;

use super::places::CacheArgs;
use super::pull::reference;
use super::transport::Web;
use super::watch::Bars;
use crate::exit::{Exit, Failure};
use crate::network::ended;
use crate::progress::watched;
use crate::shared::Output;
use crate::show;
use crate::stop::Stop;

/// Send an image to a registry
///
/// An OCI layout or archive, or what `docker save` wrote, becomes an image; a .sif becomes an
/// artifact, as `apptainer push` makes it, for `apptainer pull oras://…`. Blobs that the registry
/// already has are not sent. The others are sent in chunks, and a killed push resumes after the
/// last chunk that arrived. Credentials are found as for `gular image pull`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gular image push train-0123456789abcdef.oci docker://ghcr.io/lab/train:v1
  gular image push train-0123456789abcdef.sif oras://ghcr.io/lab/train:v1")]
pub(super) struct PushArgs {
    /// A .sif file, or an OCI layout or archive
    ///
    /// A .sif file, an OCI folder, oci:DIR[:TAG], oci-archive:FILE[:TAG] or
    /// docker-archive:FILE[:NAME:TAG].
    pub(super) from: String,
    /// docker://HOST/REPOSITORY[:TAG], or oras://… for a SIF
    pub(super) to: String,
    /// Reuse the blobs of another repository, such as lab/base
    ///
    /// It must be in the same registry. Blobs that it has are not sent again.
    #[arg(long, value_name = "REPOSITORY")]
    pub(super) mount_from: Option<String>,
    /// linux/amd64 or linux/arm64 [default: linux/amd64]
    ///
    /// If FROM has images for several platforms, only one is sent.
    #[arg(long, value_name = "PLATFORM", value_parser = Platform::parse)]
    pub(super) platform: Option<Platform>,
    /// Accept NVIDIA's terms, to push its libraries
    ///
    /// Required for a registry on another machine.
    #[arg(long)]
    pub(super) accept_nvidia_eula: bool,
    /// Blobs sent at the same time
    #[arg(long, short, value_name = "N", default_value = "4", value_parser = crate::units::jobs)]
    pub(super) jobs: NonZeroUsize,
    #[command(flatten)]
    pub(super) kept: CacheArgs,
}

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct PushReport<'a> {
    #[serde(flatten)]
    pushed: &'a Pushed,
    /// Wall-clock time.
    seconds: f64,
}

pub(super) fn run(args: &PushArgs, output: &Output) -> Result<Exit, Failure> {
    let start = Instant::now();
    let sif = args.from.ends_with(".sif").then(|| Path::new(&args.from));
    if sif.is_some() && args.platform.is_some() {
        let message = format!("`--platform` has no effect with `{}`", show::plain(&args.from));
        return Err(Failure::new(
            message,
            Some("leave out `--platform`: a SIF holds an image for a single platform".to_owned()),
        ));
    }
    let stop = Stop::install()?;
    let web = Web::new(&stop)?;
    let to = reference(&args.to)?;
    let bars = Bars::new(output, &stop);
    let uploads = args.kept.cache()?.uploads();
    let source = match sif {
        Some(_) => None,
        None => Some(LocalImage::parse(&args.from).map_err(|error| Failure::new(error, None))?),
    };
    let pushed = (|| {
        let layout = source.as_ref().map(|source| OciLayout::open(&source.path)).transpose()?;
        let image = match (&layout, &source) {
            (Some(layout), Some(source)) => {
                Some(layout.image(source.tag.as_deref(), args.platform.unwrap_or_default().0)?)
            }
            _ => None,
        };
        if let Some(image) = &image {
            image.tell(&args.from, &bars);
        }
        // Listing all names takes time, so it is skipped if no consent is needed.
        if !args.accept_nvidia_eula && !to.is_loopback() {
            let nvidia = match (&layout, &image, sif) {
                (Some(layout), Some(image), _) => Some(nvidia_of_image(layout, image)?),
                (_, _, Some(sif)) => nvidia_of_sif(sif)?,
                _ => Some(false),
            };
            match nvidia {
                Some(nvidia) => allowed(nvidia, &to)?,
                None if output.quiet => {}
                None => show::message("note", NOT_SEEN),
            }
        }
        let registry = web.registry(&to)?;
        watched("push", output, &stop, |watch, _| {
            let with = Pushing {
                registry: &registry,
                mount_from: args.mount_from.as_deref(),
                uploads,
                jobs: args.jobs,
                watch,
            };
            match (&layout, &image, sif) {
                (Some(layout), Some(image), _) => Ok(push_image(layout, image, &with)?),
                (_, _, Some(sif)) => Ok(push_sif(sif, &with)?),
                _ => Err(Failure::new("no image to push was given", None)),
            }
        })
    })();
    let pushed = pushed.map_err(|error: Failure| ended(error, &stop))?;
    let seconds = start.elapsed().as_secs_f64();
    if output.json {
        show::json(&PushReport { pushed: &pushed, seconds })?;
    } else if !output.quiet {
        show::text(&words(&pushed, seconds))?;
    }
    Ok(Exit::Done)
}

/// Said of a SIF whose names are encrypted or in a compressor that is not read.
const NOT_SEEN: &str = "the names of the image's files cannot be read, and its recipe and labels name no library of NVIDIA's: if it contains some, their terms hold (see `--accept-nvidia-eula`)";

/// NVIDIA's libraries go to a registry of others only when whoever pushes has read the terms.
fn allowed(nvidia: bool, to: &Reference) -> Result<(), Failure> {
    if !nvidia {
        return Ok(());
    }
    for line in NVIDIA_TERMS.lines() {
        show::message("note", line);
    }
    let message = format!(
        "the image contains NVIDIA's libraries, whose terms must be accepted before it is sent to `{to}`"
    );
    let hint =
        "add `--accept-nvidia-eula` if you have read the terms above and may pass the libraries on";
    Err(Failure::new(message, Some(hint.to_owned())))
}

fn words(pushed: &Pushed, seconds: f64) -> String {
    let Pushed { pinned, bytes, sent, resumed, blobs, there, mounted, .. } = pushed;
    let blobs = show::count(*blobs as u64, "blob");
    let mut parts = Vec::new();
    for (n, what) in [(*there, "there already"), (*mounted, "mounted")] {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    if *resumed > 0 {
        parts.push(format!("{} from an earlier run", show::size(*resumed)));
    }
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    let pace = show::pace(*sent, seconds);
    let (bytes, sent) = (show::size(*bytes), show::size(*sent));
    format!("{sent} sent of {bytes} in {blobs}{parts}{pace}\n{pinned}\n")
}
