//! An image in the OCI layout: a folder, or that folder as one tar.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gular_files::{folder_of, persist, persist_new, sync_folder, temp_in};
use oci_spec::image::{
    self, Descriptor, History, ImageConfiguration, ImageIndex, ImageManifestBuilder, MediaType, Os,
    Platform, SCHEMA_VERSION, Sha256Digest,
};
use serde::Serialize;
use tempfile::{NamedTempFile, TempDir};

use super::base::BaseImage;
use super::cache::{self, LayerCache};
use super::layer::{self, Compressor, Packed, Watch};
use super::read::LAYOUT;
use crate::rootfs::{Layer, Node, RootPath, Rootfs};
use crate::sif::Arch;
use crate::{Error, OciDigest, Result, Sha256, UnixTime};

/// An annotation: which part of the image a layer is.
const LAYER: &str = "org.gular.layer";

/// The configuration of an image.
#[derive(Clone)]
pub struct Config<'a> {
    /// The image's tag in the layout: `1.0`, `latest`.
    pub tag: &'a str,
    /// Processor of its programs.
    pub arch: Arch,
    /// Time at which the image was made.
    pub time: UnixTime,
    /// The command that the image starts: a program's path inside, and its arguments.
    pub command: &'a [String],
    /// Environment variables.
    pub env: &'a BTreeMap<String, String>,
    /// Labels, as `org.opencontainers.image.title`.
    pub labels: &'a BTreeMap<String, String>,
    /// The image that it is built on, whose layers it begins with.
    pub base: Option<&'a BaseImage>,
    /// How layers are compressed.
    pub compressor: Compressor,
    /// Threads that compress; they change no byte.
    pub threads: NonZeroUsize,
    /// Layers of earlier images; they change no byte.
    pub layers: Option<&'a LayerCache>,
    /// Is called with the number of bytes of files that were read.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// Set when the work is to stop.
    pub cancel: &'a AtomicBool,
}

/// An image that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenOci {
    /// Digest of the manifest, which identifies the image in registries.
    pub digest: OciDigest,
    /// Name, digest of the tar, digest and bytes of the blob, in the image's order.
    pub layers: Vec<(Layer, OciDigest, OciDigest, u64)>,
}

/// Writes an OCI layout to the folder `to`, which must not exist: built beside it, then renamed.
///
/// # Errors
/// [`Error::Exists`], [`Error::Io`], [`Error::Write`].
pub fn write_layout(tree: &Rootfs, config: &Config<'_>, to: &Path) -> Result<WrittenOci> {
    new_folder(to, |dir| fill(tree, config, dir))
}

/// Makes the folder `to`, which must not exist: it is filled beside it, then renamed.
pub(crate) fn new_folder<T>(to: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let (dir, parent) = folder_beside(to)?;
    let filled = fill(dir.path())?;
    fs::rename(dir.path(), to).map_err(Error::io("create", to))?;
    let _ = dir.keep();
    sync_folder(parent)?;
    Ok(filled)
}

/// A temporary folder beside `to`, which must not exist, and the folder of both.
fn folder_beside(to: &Path) -> Result<(TempDir, &Path)> {
    Error::unless_free(to)?;
    let parent = folder_of(to);
    fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    let dir = TempDir::with_prefix_in(".gular-", parent).map_err(Error::io("create", parent))?;
    Ok((dir, parent))
}

/// Writes an OCI layout as one tar file `to`, which must not exist.
///
/// # Errors
/// Those of [`write_layout`].
pub fn write_archive(tree: &Rootfs, config: &Config<'_>, to: &Path) -> Result<WrittenOci> {
    let (dir, parent) = folder_beside(to)?;
    let written = fill(tree, config, dir.path())?;
    let file = temp_in(parent)?;
    archive(dir.path(), config.time, file.as_file()).map_err(Error::io("write", to))?;
    persist_new(file, to)?;
    Ok(written)
}

/// A layer in its place: its part of the image, its media type, its digests.
type Made = (Layer, &'static str, Packed);

fn fill(tree: &Rootfs, config: &Config<'_>, dir: &Path) -> Result<WrittenOci> {
    let blobs = dir.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(Error::io("create", &blobs))?;
    let mut layers = Vec::new();
    let mut before = 0;
    let over = config.base.map(|base| base.beneath(tree)).transpose()?;
    let tree = over.as_ref().unwrap_or(tree);
    if let Some(base) = config.base {
        let put = base.put(&blobs)?.into_iter();
        layers.extend(put.map(|(media_type, packed)| (Layer::Base, media_type, packed)));
        before = base.tree.bytes();
        (config.progress)(before);
    }
    let is_made = |layer: &Layer| config.base.is_none() || *layer != Layer::Base;
    for layer in tree.layers().into_iter().filter(is_made) {
        let nodes = layer::nodes(tree, layer);
        if !nodes.is_empty() {
            let packed = pack(&nodes, config, before, &blobs)?;
            layers.push((layer, config.compressor.media_type(), packed));
            let files = nodes.iter().map(|(_, node)| node.bytes());
            before += files.sum::<u64>();
            (config.progress)(before);
        }
    }
    let configuration = blob(&blobs, MediaType::ImageConfig, &configuration(config, &layers))?;
    let descriptors = layers.iter().map(|(layer, media_type, packed)| {
        let media_type = MediaType::from(*media_type);
        let mut entry = descriptor(media_type, packed.digest, packed.bytes);
        entry.set_annotations(Some(one(LAYER, layer.name())));
        entry
    });
    let manifest = ImageManifestBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageManifest)
        .config(configuration.1)
        .layers(descriptors.collect::<Vec<_>>())
        .annotations(owned(config.labels))
        .build()
        .expect("each part that a manifest must have is set above");
    let (digest, mut entry) = blob(&blobs, MediaType::ImageManifest, &manifest)?;
    let mut platform = Platform::default();
    platform.set_architecture(config.arch.name().into());
    platform.set_os(Os::Linux);
    entry.set_platform(Some(platform));
    entry.set_annotations(Some(one(image::ANNOTATION_REF_NAME, config.tag)));
    let mut index = ImageIndex::default();
    index.set_media_type(Some(MediaType::ImageIndex));
    index.set_manifests(vec![entry]);
    complete(dir, &text(&index)?)?;
    sync_folder(&blobs)?;
    let written = |(layer, _, packed): Made| {
        (layer, packed.diff_id.into(), packed.digest.into(), packed.bytes)
    };
    Ok(WrittenOci { digest: digest.into(), layers: layers.into_iter().map(written).collect() })
}

/// Gives the folder of a layout its index, and the file that says what it is.
pub(crate) fn complete(dir: &Path, index: &str) -> Result<()> {
    for (name, text) in [("index.json", index), ("oci-layout", LAYOUT)] {
        let path = dir.join(name);
        File::create_new(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .map_err(Error::io("write", &path))?;
    }
    Ok(())
}

/// Puts a layer's blob into `blobs`: from the cache, or made.
fn pack(
    nodes: &[(&RootPath, &Node)],
    config: &Config<'_>,
    before: u64,
    blobs: &Path,
) -> Result<Packed> {
    let (compressor, threads, time) = (config.compressor, config.threads, config.time);
    let key = config.layers.map(|_| cache::key(nodes, compressor, time)).transpose()?;
    let cache = config.layers.zip(key.as_deref());
    let taken = blobs.join(".taken");
    if let Some(packed) = cache.and_then(|(cache, key)| cache.take(key, &taken)) {
        let path = blobs.join(packed.digest.to_string());
        fs::rename(&taken, &path).map_err(Error::io("create", &path))?;
        return Ok(packed);
    }
    let temp = temp_in(blobs)?;
    let mut sink = BufWriter::with_capacity(1 << 20, temp.as_file());
    let watch = Watch { before, progress: config.progress, cancel: config.cancel };
    let packed = layer::write(nodes, compressor, threads, time, watch, &mut sink)?;
    sink.flush().map_err(|source| Error::Write { source })?;
    drop(sink);
    let path = blobs.join(packed.digest.to_string());
    keep(temp, &path)?;
    if let Some((cache, key)) = cache {
        cache.keep(key, &packed, &path);
    }
    Ok(packed)
}

/// The image's configuration, as `config.md` describes it.
fn configuration(config: &Config<'_>, layers: &[Made]) -> ImageConfiguration {
    let created = config.time.rfc3339();
    let history = layers.iter().map(|(layer, ..)| {
        let mut step = History::default();
        step.set_created(Some(created.clone()));
        step.set_created_by(Some(format!("gular: {}", layer.name())));
        step
    });
    let diff_ids = layers.iter().map(|(.., packed)| OciDigest(packed.diff_id).to_string());
    let env = config.env.iter().map(|(name, value)| format!("{name}={value}"));
    let command = config.command.to_vec();
    let mut inner = image::Config::default();
    inner.set_env(Some(env.collect()));
    inner.set_labels(Some(owned(config.labels)));
    inner.set_working_dir(Some("/".to_owned()));
    inner.set_entrypoint((!command.is_empty()).then_some(command));
    let mut configuration = ImageConfiguration::default();
    configuration.set_architecture(config.arch.name().into());
    configuration.set_os(Os::Linux);
    configuration.set_config(Some(inner));
    configuration.set_history(Some(history.collect()));
    configuration.set_created(Some(created));
    configuration.rootfs_mut().set_diff_ids(diff_ids.collect());
    configuration
}

fn descriptor(media_type: MediaType, digest: Sha256, bytes: u64) -> Descriptor {
    let digest: Sha256Digest = digest.to_string().parse().expect("64 hexadecimal digits");
    Descriptor::new(media_type, bytes, digest)
}

fn one(name: &str, value: &str) -> HashMap<String, String> {
    HashMap::from([(name.to_owned(), value.to_owned())])
}

fn owned(map: &BTreeMap<String, String>) -> HashMap<String, String> {
    map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// JSON with its keys sorted: the types keep annotations and labels in hash maps, in no
/// order, and equal images must have equal bytes.
fn text(document: &impl Serialize) -> Result<String> {
    let sorted = serde_json::to_value(document);
    sorted.map(|sorted| sorted.to_string()).map_err(|e| Error::Write { source: e.into() })
}

/// Writes a document; returns its digest and what names it.
fn blob(
    blobs: &Path,
    media_type: MediaType,
    document: &impl Serialize,
) -> Result<(Sha256, Descriptor)> {
    let text = text(document)?;
    let digest = Sha256::of(text.as_bytes());
    let mut temp = temp_in(blobs)?;
    temp.write_all(text.as_bytes()).map_err(|source| Error::Write { source })?;
    keep(temp, &blobs.join(digest.to_string()))?;
    Ok((digest, descriptor(media_type, digest, text.len() as u64)))
}

fn keep(temp: NamedTempFile, path: &Path) -> Result<()> {
    // Read by all, changed by nobody: a cache may have the same file.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o444);
    temp.as_file().set_permissions(mode).map_err(Error::io("write", path))?;
    // Two layers may be the same blob.
    persist(temp, path)?;
    Ok(())
}

/// The files of a layout in one order, with one owner and time.
fn archive(dir: &Path, time: UnixTime, sink: &File) -> io::Result<()> {
    let mut paths: Vec<PathBuf> = vec!["oci-layout".into(), "index.json".into()];
    let blobs = fs::read_dir(dir.join("blobs/sha256"))?;
    let mut names = blobs.map(|blob| Ok(blob?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    paths.extend(names.into_iter().map(|name| Path::new("blobs/sha256").join(name)));
    let mut tar = tar::Builder::new(BufWriter::with_capacity(1 << 20, sink));
    for path in paths {
        let file = File::open(dir.join(&path))?;
        let mut header = tar::Header::new_ustar();
        header.set_path(&path)?;
        header.set_size(file.metadata()?.len());
        header.set_mode(0o644);
        header.set_mtime(time.clamped_to_u64());
        header.set_cksum();
        tar.append(&header, file)?;
    }
    tar.into_inner()?.flush()
}
