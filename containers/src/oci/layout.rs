//! An image in the OCI layout: a folder, or that folder as one tar.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gular_files::{folder_of, persist, persist_new, sync_folder, temp_in};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};

use super::cache::{self, LayerCache};
use super::layer::{self, Compressor, Packed, Watch};
use crate::rfc3339;
use crate::rootfs::{Layer, Node, RootPath, Rootfs};
use crate::sif::Arch;
use crate::{Error, OciDigest, Result, Sha256};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// What an image's configuration says.
#[derive(Clone)]
pub struct Config<'a> {
    /// Its tag in the layout: `1.0`, `latest`.
    pub tag: &'a str,
    /// Processor of its programs.
    pub arch: Arch,
    /// Time of its making, seconds since 1970.
    pub time: u64,
    /// What it starts: a program's path inside, and its arguments.
    pub command: &'a [String],
    /// Environment variables.
    pub env: &'a BTreeMap<String, String>,
    /// Labels, as `org.opencontainers.image.title`.
    pub labels: &'a BTreeMap<String, String>,
    /// How layers are compressed.
    pub compressor: Compressor,
    /// Threads that compress; they change no byte.
    pub threads: NonZeroUsize,
    /// Layers of earlier images; they change no byte.
    pub layers: Option<&'a LayerCache>,
    /// Hears how many bytes of files were taken.
    pub progress: &'a (dyn Fn(u64) + Sync),
    /// Set when the work is to stop.
    pub cancel: &'a AtomicBool,
}

/// An image that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Of the manifest: the image's identity in registries.
    pub digest: OciDigest,
    /// Name, digest of the tar, digest and bytes of the blob, in the image's order.
    pub layers: Vec<(Layer, OciDigest, OciDigest, u64)>,
}

/// Writes the folder `to`, which must not be there: built beside it, then renamed.
///
/// # Errors
/// [`Error::Exists`], [`Error::Io`], [`Error::Write`].
pub fn write_layout(tree: &Rootfs, config: &Config<'_>, to: &Path) -> Result<Written> {
    if to.symlink_metadata().is_ok() {
        return Err(Error::Exists { path: to.display().to_string() });
    }
    let parent = folder_of(to);
    fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    let dir = TempDir::with_prefix_in(".gular-", parent).map_err(Error::io("create", parent))?;
    let written = fill(tree, config, dir.path())?;
    fs::rename(dir.path(), to).map_err(Error::io("create", to))?;
    let _ = dir.keep();
    sync_folder(parent)?;
    Ok(written)
}

/// Writes the layout as one tar, `to`, which must not be there.
///
/// # Errors
/// As [`write_layout`].
pub fn write_archive(tree: &Rootfs, config: &Config<'_>, to: &Path) -> Result<Written> {
    if to.symlink_metadata().is_ok() {
        return Err(Error::Exists { path: to.display().to_string() });
    }
    let parent = folder_of(to);
    fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    let dir = TempDir::with_prefix_in(".gular-", parent).map_err(Error::io("create", parent))?;
    let written = fill(tree, config, dir.path())?;
    let file = temp_in(parent)?;
    archive(dir.path(), config.time, file.as_file()).map_err(Error::io("write", to))?;
    persist_new(file, to)?;
    Ok(written)
}

fn fill(tree: &Rootfs, config: &Config<'_>, dir: &Path) -> Result<Written> {
    let blobs = dir.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(Error::io("create", &blobs))?;
    let mut layers = Vec::new();
    let mut before = 0;
    for layer in Layer::ALL {
        let nodes = layer::nodes(tree, layer);
        if !nodes.is_empty() {
            layers.push((layer, pack(&nodes, config, before, &blobs)?));
            let files = nodes.iter().map(|(_, node)| node.bytes());
            before += files.sum::<u64>();
            (config.progress)(before);
        }
    }
    let configuration = blob(&blobs, &configuration(config, &layers))?;
    let descriptors: Vec<_> = layers
        .iter()
        .map(|(layer, packed)| {
            json!({
                "mediaType": config.compressor.media_type(),
                "digest": OciDigest(packed.digest),
                "size": packed.bytes,
                "annotations": { "org.gular.layer": layer.name() },
            })
        })
        .collect();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &configuration),
        "layers": descriptors,
        "annotations": config.labels,
    });
    let manifest = blob(&blobs, &manifest)?;
    let entry = json!({
        "mediaType": MANIFEST,
        "digest": OciDigest(manifest.0),
        "size": manifest.1,
        "platform": { "architecture": config.arch.name(), "os": "linux" },
        "annotations": { "org.opencontainers.image.ref.name": config.tag },
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] });
    for (name, bytes) in [("index.json", index.to_string().as_bytes()), ("oci-layout", LAYOUT)] {
        let path = dir.join(name);
        File::create_new(&path)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .map_err(Error::io("write", &path))?;
    }
    sync_folder(&blobs)?;
    let written = |(layer, packed): (Layer, Packed)| {
        (layer, packed.diff_id.into(), packed.digest.into(), packed.bytes)
    };
    Ok(Written { digest: manifest.0.into(), layers: layers.into_iter().map(written).collect() })
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
fn configuration(config: &Config<'_>, layers: &[(Layer, Packed)]) -> Value {
    let env: Vec<_> = config.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let created = rfc3339::format(config.time);
    let history: Vec<_> = layers
        .iter()
        .map(|(layer, _)| json!({ "created": created, "created_by": format!("gular: {}", layer.name()) }))
        .collect();
    let diff_ids: Vec<_> = layers.iter().map(|(_, packed)| OciDigest(packed.diff_id)).collect();
    let (labels, command) = (config.labels, config.command);
    let inner = match command {
        [] => json!({ "Env": env, "Labels": labels, "WorkingDir": "/" }),
        _ => json!({ "Entrypoint": command, "Env": env, "Labels": labels, "WorkingDir": "/" }),
    };
    json!({
        "architecture": config.arch.name(),
        "config": inner,
        "created": created,
        "history": history,
        "os": "linux",
        "rootfs": { "diff_ids": diff_ids, "type": "layers" },
    })
}

fn descriptor(media_type: &str, (digest, bytes): &(Sha256, usize)) -> Value {
    json!({ "mediaType": media_type, "digest": OciDigest(*digest), "size": bytes })
}

/// Writes a small blob, keys sorted; returns its digest and length.
fn blob(blobs: &Path, value: &Value) -> Result<(Sha256, usize)> {
    let text = value.to_string();
    let digest = Sha256::of(text.as_bytes());
    let mut temp = temp_in(blobs)?;
    temp.write_all(text.as_bytes()).map_err(|source| Error::Write { source })?;
    keep(temp, &blobs.join(digest.to_string()))?;
    Ok((digest, text.len()))
}

fn keep(temp: NamedTempFile, path: &Path) -> Result<()> {
    // Read by all, changed by nobody: a cache may have the same file.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o444);
    temp.as_file().set_permissions(mode).map_err(Error::io("write", path))?;
    // Two layers may be one blob.
    persist(temp, path)?;
    Ok(())
}

/// The files of a layout in one order, with one owner and time.
fn archive(dir: &Path, time: u64, sink: &File) -> io::Result<()> {
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
        header.set_mtime(time);
        header.set_cksum();
        tar.append(&header, file)?;
    }
    tar.into_inner()?.flush()
}
