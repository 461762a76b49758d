//! Converts any image to a SIF, as one call.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::LocalImage;
use super::local_image::image_name;
use crate::make::{
    BuildCache, ImageCompression, ImageWatch, Named, Output, Step, Writing, write_sif,
};
use crate::oci::{LayersAs, OciImage, OciLayout};
use crate::registry::Reference;
use crate::rootfs::{RootPath, Rootfs, What};
use crate::sbom::{Sbom, spdx};
use crate::sif::{Arch, Contents};
use crate::singularity::{self, Description, ENVIRONMENT, is_variable};
use crate::store::{LeftOut, Limits};
use crate::{OciDigest, Result, UnixTime};

/// Longest definition file that is kept.
const MAX_RECIPE: u64 = 1 << 20;

/// The options of [`convert`]: what is converted, and how.
#[derive(Debug, Clone)]
pub struct Conversion {
    /// The image that is converted.
    pub from: LocalImage,
    /// The name, with its digest, under which the image was pulled, if it is from a registry.
    pub pulled: Option<Reference>,
    /// The folder for the SIF.
    pub out: PathBuf,
    /// The SIF's file name; by default the image's name and a digest.
    pub file_name: Option<String>,
    /// Which processor's image is taken, if there are several.
    pub arch: Arch,
    /// How the SIF's files are compressed.
    pub compression: ImageCompression,
    /// The folders that builds keep.
    pub cache: BuildCache,
    /// Bytes that compressed blocks may take in the cache.
    pub cache_bytes: u64,
    /// Limits on all layers together, unpacked.
    pub limits: Limits,
    /// Threads that compress; they change no byte.
    pub jobs: NonZeroUsize,
    /// Read and check everything, and write nothing.
    pub dry_run: bool,
}

/// The result of [`convert`]; also its JSON form.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Converted {
    /// Whether it was a dry run, which writes nothing.
    pub dry_run: bool,
    /// Digest of the manifest of the image that was converted.
    pub source: OciDigest,
    /// The SIF that was written; `None` in a dry run.
    pub output: Option<Output>,
    /// Number of files inside the SIF.
    pub files: u64,
    /// Bytes of these files, unpacked.
    pub unpacked_bytes: u64,
    /// Entries of layers that the SIF does not have.
    pub left_out: Vec<LeftOut>,
    /// Seconds that the whole command took.
    pub seconds: f64,
}

/// Makes a SIF of an image. Every blob is checked against its digests, whatever the store
/// has of it.
///
/// # Errors
/// Those of [`OciLayout::open`], [`OciLayout::image`] and [`OciLayout::laid`];
/// [`Error::Conflict`](crate::Error::Conflict) for an image with something of its own where
/// Apptainer looks for its files; those of [`write_image`](crate::sif::write_image);
/// [`Error::Other`](crate::Error::Other) when something else has the SIF's name.
pub fn convert(options: &Conversion, watch: &dyn ImageWatch) -> Result<Converted> {
    let start = Instant::now();
    let layout = OciLayout::open(&options.from.path)?;
    let image = layout.image(options.from.tag.as_deref(), options.arch)?;
    image.tell(&options.from.to_string(), watch);
    watch.working_on(Step::Unpack, &options.from.to_string());
    let laid = layout.laid(&image, &options.cache.store(), &options.limits, LayersAs::AsWritten);
    watch.ended(Step::Unpack);
    let (mut tree, mut left_out) = laid?;
    left_out.extend(image.env.keys().filter(|name| !is_variable(name)).map(|name| LeftOut {
        path: format!("/{ENVIRONMENT}"),
        what: format!("variable {name} (no shell takes that name)"),
    }));
    let files = tree.iter().filter(|(_, node)| matches!(node.what, What::File(_))).count();
    let mut converted = Converted {
        dry_run: options.dry_run,
        source: image.digest,
        output: None,
        files: files as u64,
        unpacked_bytes: tree.bytes(),
        left_out,
        seconds: 0.0,
    };
    let inside = Inside::of(options, &image, &mut tree)?;
    if !options.dry_run {
        converted.output = Some(write(options, &tree, &inside, watch)?);
    }
    converted.seconds = start.elapsed().as_secs_f64();
    Ok(converted)
}

/// What the SIF contains beside the files.
struct Inside {
    arch: Arch,
    time: UnixTime,
    recipe: String,
    metadata: String,
    sbom: String,
}

impl Inside {
    /// Describes the image in its own tree.
    fn of(options: &Conversion, image: &OciImage, tree: &mut Rootfs) -> Result<Self> {
        let time = image.created.as_deref().and_then(UnixTime::parse_rfc3339).unwrap_or_default();
        let recipe = match tree.text(&RootPath::new(".singularity.d/Singularity")?, MAX_RECIPE)? {
            Some(recipe) => recipe,
            None => options.definition(image.digest),
        };
        let mut labels = image.labels.clone();
        let base = "org.opencontainers.image.base.digest";
        labels.entry(base.to_owned()).or_insert_with(|| image.digest.to_string());
        let description = Description {
            arch: image.arch,
            command: &image.entrypoint,
            arguments: &image.cmd,
            env: &image.env,
            labels: &labels,
            recipe: &recipe,
        };
        let metadata = singularity::describe(tree, &description)?;
        let sbom = spdx(&Sbom {
            name: &title(image),
            time,
            tool: concat!("gular-", env!("CARGO_PKG_VERSION")),
            base: Some(image.digest),
            ..Sbom::default()
        });
        Ok(Self { arch: image.arch, time, recipe, metadata, sbom })
    }
}

impl Conversion {
    /// Returns the image's name.
    fn name(&self) -> String {
        match &self.pulled {
            Some(reference) => {
                image_name(reference.repository().rsplit('/').next().unwrap_or_default())
            }
            None => self.from.name(),
        }
    }

    /// Returns what `apptainer inspect --deffile` shows: where the image is from. A file of this
    /// machine is named by its contents, since another file name must not change the bytes of the
    /// SIF.
    fn definition(&self, digest: OciDigest) -> String {
        match &self.pulled {
            Some(reference) => format!("Bootstrap: docker\nFrom: {reference}\n"),
            None => format!("Bootstrap: oci\nFrom: {digest}\n"),
        }
    }
}

/// Returns the image's name for the list of contents: its own title.
fn title(image: &OciImage) -> String {
    let title = image.labels.get("org.opencontainers.image.title");
    title.map_or_else(|| "image".to_owned(), |title| image_name(title))
}

fn write(
    options: &Conversion,
    tree: &Rootfs,
    inside: &Inside,
    watch: &dyn ImageWatch,
) -> Result<Output> {
    let blocks = options.cache.blocks(options.cache_bytes);
    let total = tree.bytes();
    let told = |done: u64| watch.progress(Step::Write, done, total);
    let contents = Contents {
        arch: inside.arch,
        time: inside.time,
        recipe: &inside.recipe,
        metadata: &inside.metadata,
        sbom: Some(&inside.sbom),
        squash: options.compression.squash(),
        threads: options.jobs,
        blocks: Some(&blocks),
    };
    let with = Writing {
        dir: out(&options.out),
        squash: options.compression.squash(),
        compressor: options.compression.compressor(),
        jobs: options.jobs,
        blocks: Some(&blocks),
        layers: None,
        progress: &told,
        cancel: watch.cancel(),
    };
    let name = options.name();
    let named = options.file_name.as_deref().map_or(Named::ByContent(&name), Named::As);
    let written = write_sif(tree, &contents, named, &with);
    watch.ended(Step::Write);
    written
}

/// The folder, which may be written as nothing at all.
fn out(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}
