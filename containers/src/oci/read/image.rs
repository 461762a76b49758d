//! From the index to one image's configuration.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::blobs::{Blobs, Expected};
use crate::rootfs::Layer;
use crate::sif::Arch;
use crate::{OciDigest, Result, Sha256};

/// Indexes below each other at most.
const MAX_DEPTH: usize = 4;
/// Indexes and manifests read on the way to one image.
const MAX_DOCUMENTS: usize = 64;
/// Layers of one image; overlay mounts take 128, Docker 127.
const MAX_LAYERS: usize = 512;

const TAG: &str = "org.opencontainers.image.ref.name";

/// An OCI layout that was opened.
#[derive(Debug)]
pub struct Layout {
    pub(super) blobs: Blobs,
    index: Index,
}

/// One image of a layout, its documents read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    /// Of its manifest.
    pub digest: OciDigest,
    /// Processor of its programs.
    pub arch: Arch,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// What it starts, before the user's arguments.
    pub entrypoint: Vec<String>,
    /// The arguments when the user gives none.
    pub cmd: Vec<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// When it was made, as RFC 3339.
    pub created: Option<String>,
    /// Its layers, the lowest first.
    pub layers: Vec<LayerBlob>,
}

/// A layer before it is unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerBlob {
    /// SHA-256 of the blob.
    pub sha256: Sha256,
    /// SHA-256 of the tar.
    pub diff_id: Sha256,
    /// Length of the blob.
    pub bytes: u64,
    /// As the manifest says: how it is compressed.
    pub media_type: String,
    /// The part it is of an image that this library wrote.
    pub part: Option<Layer>,
}

#[derive(Debug, Deserialize)]
struct Entrance {
    #[serde(rename = "imageLayoutVersion")]
    version: String,
}

#[derive(Debug, Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Clone, Deserialize)]
struct Descriptor {
    #[serde(rename = "mediaType", default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    platform: Option<Platform>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    config: Descriptor,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
struct Configuration {
    architecture: String,
    os: String,
    #[serde(default)]
    created: Option<String>,
    #[serde(default)]
    config: Option<Inner>,
    rootfs: Layers,
    #[serde(default)]
    history: Option<Vec<History>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inner {
    #[serde(default)]
    env: Option<Vec<String>>,
    #[serde(default)]
    entrypoint: Option<Vec<String>>,
    #[serde(default)]
    cmd: Option<Vec<String>>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
struct Layers {
    #[serde(default)]
    diff_ids: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct History {
    #[serde(default)]
    created_by: Option<String>,
    #[serde(default)]
    empty_layer: Option<bool>,
}

impl Layout {
    /// Opens a folder or archive and reads its index.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); [`Error::Oci`](crate::Error::Oci) when it is no layout of version 1.
    pub fn open(path: &Path) -> Result<Self> {
        let blobs = Blobs::open(path)?;
        let entrance: Entrance = parse(&blobs, "oci-layout", &blobs.entrance("oci-layout")?)?;
        if !entrance.version.starts_with("1.") {
            let version = entrance.version;
            return Err(blobs.bad(format!("layout version `{version}`, expected 1.0.0")));
        }
        let index = parse(&blobs, "index.json", &blobs.entrance("index.json")?)?;
        Ok(Self { blobs, index })
    }

    /// The image with this tag for Linux on this processor; without a tag, the only
    /// one there is.
    ///
    /// # Errors
    /// [`Error::Oci`](crate::Error::Oci) when there is none or several, or a document is missing, damaged
    /// or not what it should be; [`Error::Io`](crate::Error::Io).
    pub fn image(&self, tag: Option<&str>, arch: Arch) -> Result<Image> {
        let tagged = |d: &&Descriptor| tag.is_none() || d.tag() == tag;
        let from: Vec<_> = self.index.manifests.iter().filter(tagged).cloned().collect();
        if let Some(tag) = tag.filter(|_| from.is_empty()) {
            let known: Vec<_> = self.index.manifests.iter().filter_map(Descriptor::tag).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(self.blobs.bad(format!("tag `{tag}` is not there; its tags: {known}")));
        }
        let mut search =
            Search { layout: self, arch, documents: 0, found: Vec::new(), seen: Vec::new() };
        search.look(from, 0)?;
        let Search { found, seen, .. } = search;
        let mut found = found;
        found.dedup_by(|a, b| a.digest == b.digest);
        match found.pop() {
            None => Err(self.blobs.bad(format!(
                "it has no image for linux/{}, only for: {}",
                arch.name(),
                if seen.is_empty() { "none".to_owned() } else { seen.join(", ") }
            ))),
            Some(_) if !found.is_empty() => {
                let n = found.len() + 1;
                Err(self.blobs.bad(format!(
                    "it has {n} images for linux/{}: name one by its tag",
                    arch.name()
                )))
            }
            Some(image) => Ok(image),
        }
    }

    fn document<T: DeserializeOwned>(&self, descriptor: &Descriptor) -> Result<T> {
        let expected = self.expected(descriptor)?;
        parse(&self.blobs, &descriptor.digest, &self.blobs.document(&expected)?)
    }

    fn expected(&self, descriptor: &Descriptor) -> Result<Expected> {
        let digest = self.digest("digest", &descriptor.digest)?;
        Ok(Expected { sha256: digest.0, bytes: descriptor.size })
    }

    fn digest(&self, what: &str, text: &str) -> Result<OciDigest> {
        text.parse().map_err(|_| {
            self.blobs.bad(format!("{what} `{text}`, expected `sha256:` and 64 digits"))
        })
    }
}

/// The way through indexes.
struct Search<'a> {
    layout: &'a Layout,
    arch: Arch,
    documents: usize,
    found: Vec<Image>,
    /// Platforms that were passed over.
    seen: Vec<String>,
}

impl Search<'_> {
    fn look(&mut self, descriptors: Vec<Descriptor>, depth: usize) -> Result<()> {
        for descriptor in descriptors {
            if let Some(Platform { os, architecture }) = &descriptor.platform
                && (os != "linux" || architecture != self.arch.name())
            {
                self.seen.push(format!("{os}/{architecture}"));
                continue;
            }
            self.documents += 1;
            if depth > MAX_DEPTH || self.documents > MAX_DOCUMENTS {
                let reason = format!(
                    "indexes lead to over {MAX_DOCUMENTS} documents, or over {MAX_DEPTH} deep"
                );
                return Err(self.layout.blobs.bad(reason));
            }
            match descriptor.media_type.as_str() {
                "application/vnd.oci.image.index.v1+json"
                | "application/vnd.docker.distribution.manifest.list.v2+json" => {
                    let index: Index = self.layout.document(&descriptor)?;
                    self.look(index.manifests, depth + 1)?;
                }
                "application/vnd.oci.image.manifest.v1+json"
                | "application/vnd.docker.distribution.manifest.v2+json" => {
                    self.manifest(&descriptor)?;
                }
                // Signatures and the like.
                _ => {}
            }
        }
        Ok(())
    }

    fn manifest(&mut self, descriptor: &Descriptor) -> Result<()> {
        let manifest: Manifest = self.layout.document(descriptor)?;
        if !manifest.config.media_type.contains("image") {
            // An artifact in the clothes of an image.
            return Ok(());
        }
        let config: Configuration = self.layout.document(&manifest.config)?;
        if (config.os.as_str(), config.architecture.as_str()) != ("linux", self.arch.name()) {
            self.seen.push(format!("{}/{}", config.os, config.architecture));
            return Ok(());
        }
        let layers = self.layers(&manifest, &config)?;
        let inner = config.config.unwrap_or_default();
        let env = inner.env.unwrap_or_default();
        let env = env.iter().map(|setting| setting.split_once('=').unwrap_or((setting, "")));
        self.found.push(Image {
            digest: self.layout.digest("digest", &descriptor.digest)?,
            arch: self.arch,
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            entrypoint: inner.entrypoint.unwrap_or_default(),
            cmd: inner.cmd.unwrap_or_default(),
            labels: inner.labels.unwrap_or_default(),
            created: config.created,
            layers,
        });
        Ok(())
    }

    fn layers(&self, manifest: &Manifest, config: &Configuration) -> Result<Vec<LayerBlob>> {
        let blobs = &self.layout.blobs;
        let (layers, ids) = (&manifest.layers, &config.rootfs.diff_ids);
        if layers.len() != ids.len() || layers.len() > MAX_LAYERS {
            let (found, expected) = (layers.len(), ids.len());
            return Err(blobs.bad(format!(
                "its manifest names {found} layers, its configuration {expected}, at most {MAX_LAYERS} are read"
            )));
        }
        let history = config.history.as_deref().unwrap_or_default();
        let made: Vec<_> = history.iter().filter(|step| step.empty_layer != Some(true)).collect();
        let mut all = Vec::new();
        for (i, (layer, id)) in layers.iter().zip(ids).enumerate() {
            let Expected { sha256, bytes } = self.layout.expected(layer)?;
            let diff_id = self.layout.digest("diff ID", id)?.0;
            // Only a history of as many steps says which made what.
            let made = made.get(i).filter(|_| made.len() == layers.len());
            let part = made.and_then(|step| step.created_by.as_deref()?.strip_prefix("gular: "));
            all.push(LayerBlob {
                sha256,
                diff_id,
                bytes,
                media_type: layer.media_type.clone(),
                part: Layer::ALL.into_iter().find(|layer| Some(layer.name()) == part),
            });
        }
        Ok(all)
    }
}

impl LayerBlob {
    /// The end of its media type: `gzip`, `zstd` or `tar`, or another that is not read.
    pub fn compression(&self) -> &str {
        self.media_type.rsplit(['.', '+']).next().unwrap_or_default()
    }
}

impl Descriptor {
    fn tag(&self) -> Option<&str> {
        self.annotations.as_ref()?.get(TAG).map(String::as_str)
    }
}

fn parse<T: DeserializeOwned>(blobs: &Blobs, name: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| blobs.bad(format!("`{name}`: {e}")))
}
