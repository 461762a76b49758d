//! Reads one image's configuration, starting from the index.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gular_registry::{Blob, BlobBytes, Document, INDEX_TYPES, MANIFEST_TYPES, Reference};
use oci_spec::image::{
    self, ANNOTATION_REF_NAME, Descriptor, Digest, ImageConfiguration, ImageIndex, ImageManifest,
    OciLayout as LayoutFile, Os,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::blobs::{Blobs, Expected};
use super::docker;
use crate::image_watch::{ImageWatch, Note};
use crate::rootfs::Layer;
use crate::sif::Arch;
use crate::{Error, OciDigest, Result, Sha256};

/// How deep indexes may be nested.
const MAX_DEPTH: usize = 4;
/// Indexes and manifests read on the way to one image.
const MAX_DOCUMENTS: usize = 64;
/// Layers of one image; overlay mounts take 128, Docker 127.
const MAX_LAYERS: usize = 512;

/// An OCI layout that was opened.
#[derive(Debug)]
pub struct OciLayout {
    pub(super) blobs: Blobs,
    index: ImageIndex,
}

/// One image of a layout, its documents read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OciImage {
    /// Digest of the manifest.
    pub digest: OciDigest,
    /// Processor of its programs.
    pub arch: Arch,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// The command that the image starts, before the user's arguments.
    pub entrypoint: Vec<String>,
    /// The arguments if the user gives none.
    pub cmd: Vec<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Time at which the image was made, as RFC 3339.
    pub created: Option<String>,
    /// Its layers, the lowest first.
    pub layers: Vec<LayerBlob>,
    /// Other platforms that the layout has images for, under the same tag.
    pub others: Vec<String>,
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
    /// The media type in the manifest, which says how the layer is compressed.
    pub media_type: String,
    /// The part it is of an image that this library wrote.
    pub part: Option<Layer>,
}

impl OciLayout {
    /// Opens a folder or archive and reads its index. Archives of `docker save` are read as well.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); [`Error::Oci`](crate::Error::Oci) when it is not a layout of version 1.
    pub fn open(path: &Path) -> Result<Self> {
        let mut blobs = Blobs::open(path)?;
        if docker::is_archive(&blobs) {
            docker::complete(&mut blobs)?;
        }
        Self::of(blobs)
    }

    /// A layout of one image whose blobs are files of their own; `name` is what errors call it.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub(crate) fn of_files(
        name: &str,
        media_type: &str,
        manifest: Vec<u8>,
        files: BTreeMap<Sha256, PathBuf>,
    ) -> Result<Self> {
        let mut blobs = Blobs::of_files(name, files);
        let Expected { sha256, bytes } = blobs.put_blob(manifest);
        let digest = format!("sha256:{sha256}");
        let entry = json!({ "mediaType": media_type, "digest": digest, "size": bytes });
        blobs.put_index(&[entry]);
        Self::of(blobs)
    }

    fn of(blobs: Blobs) -> Result<Self> {
        let entrance: LayoutFile = parse(&blobs, "oci-layout", &blobs.entrance("oci-layout")?)?;
        let version = entrance.image_layout_version();
        if !version.starts_with("1.") {
            return Err(blobs.bad(format!("its layout version is `{version}`, expected 1.0.0")));
        }
        let index = parse(&blobs, "index.json", &blobs.entrance("index.json")?)?;
        Ok(Self { blobs, index })
    }

    /// Returns the image with this tag for Linux on this processor; without a tag, the only image
    /// in the layout.
    ///
    /// # Errors
    /// [`Error::Oci`](crate::Error::Oci) when there is none or several, or a document is missing, damaged
    /// or not what it should be; [`Error::Io`](crate::Error::Io).
    pub fn image(&self, tag: Option<&str>, arch: Arch) -> Result<OciImage> {
        let tagged = |d: &&Descriptor| match (tag, tag_of(d)) {
            (None, _) => true,
            (Some(tag), Some(found)) => tag == found || is_same_name(tag, found),
            (Some(_), None) => false,
        };
        let from: Vec<_> = self.index.manifests().iter().filter(tagged).cloned().collect();
        if let Some(tag) = tag.filter(|_| from.is_empty()) {
            let known: Vec<_> = self.index.manifests().iter().filter_map(tag_of).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(self.blobs.no_image(format!("with the tag `{tag}`"), known));
        }
        let mut search =
            Search { layout: self, arch, documents: 0, found: Vec::new(), seen: Vec::new() };
        search.look(from, 0)?;
        let Search { found, mut seen, .. } = search;
        let mut found: Vec<(OciImage, Option<String>)> = found;
        found.sort_by_key(|(image, _)| image.digest.to_string());
        found.dedup_by(|(a, _), (b, _)| a.digest == b.digest);
        // An image for newer processors beside one for all of them is not a second image.
        let least = found.iter().map(|(_, variant)| variant_rank(variant.as_deref())).min();
        let is_least = |variant: Option<&str>| Some(variant_rank(variant)) == least;
        let platform = format!("linux/{}", arch.name());
        let (found, newer): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(_, variant)| is_least(variant.as_deref()));
        seen.extend(
            newer.into_iter().filter_map(|(_, variant)| Some(format!("{platform}/{}", variant?))),
        );
        let digests: Vec<_> = found.iter().map(|(image, _)| image.digest.to_string()).collect();
        let mut found = found.into_iter().map(|(image, _)| image);
        match (found.next(), found.next()) {
            (None, _) => {
                let known = match platforms(seen) {
                    known if known.is_empty() => "none".to_owned(),
                    known => format!("for: {}", known.join(", ")),
                };
                Err(self.blobs.no_image(format!("for {platform}"), known))
            }
            (Some(_), Some(_)) => {
                let tags: Vec<_> = self.index.manifests().iter().filter_map(tag_of).collect();
                let known = if tags.is_empty() || tag.is_some() {
                    digests.join(", ")
                } else {
                    format!("with the tags {}", tags.join(", "))
                };
                let path = self.blobs.name();
                Err(Error::SeveralImages { path, count: digests.len(), platform, known })
            }
            (Some(image), None) => Ok(OciImage { others: platforms(seen), ..image }),
        }
    }

    /// An image's manifest as it is stored.
    pub(crate) fn manifest(&self, image: &OciImage) -> Result<Document> {
        let text = self.blobs.entrance(&format!("blobs/sha256/{}", image.digest.0))?;
        let found = OciDigest(Sha256::of(&text));
        if found != image.digest {
            let expected = image.digest;
            return Err(self.blobs.bad(format!("`{expected}` is damaged: its digest is {found}")));
        }
        Ok(Document::of_its_own(text, found))
    }

    /// The blobs that an image's manifest names, each once.
    pub(crate) fn blobs_of(&self, image: &OciImage) -> Result<Vec<Blob>> {
        let document = self.manifest(image)?;
        let manifest: ImageManifest = parse(&self.blobs, "its manifest", &document.bytes)?;
        let mut blobs: Vec<Blob> = Vec::new();
        for descriptor in manifest.layers().iter().chain([manifest.config()]) {
            let Expected { sha256, bytes } = self.expected(descriptor)?;
            if blobs.iter().all(|blob| blob.digest.0 != sha256) {
                let (file, start) = self.blobs.place(&Expected { sha256, bytes })?;
                let from = BlobBytes::From(file, start);
                blobs.push(Blob { digest: sha256.into(), len_bytes: bytes, bytes: from });
            }
        }
        Ok(blobs)
    }

    /// Puts a layer's blob at `to`, which must not be there.
    pub(crate) fn copy_layer(&self, layer: &LayerBlob, to: &Path) -> Result<()> {
        self.blobs.copy(&Expected { sha256: layer.sha256, bytes: layer.bytes }, to)
    }

    fn document<T: DeserializeOwned>(&self, descriptor: &Descriptor) -> Result<T> {
        let expected = self.expected(descriptor)?;
        parse(&self.blobs, descriptor.digest().as_ref(), &self.blobs.document(&expected)?)
    }

    fn expected(&self, descriptor: &Descriptor) -> Result<Expected> {
        let digest = self.digest("digest", descriptor.digest().as_ref())?;
        Ok(Expected { sha256: digest.0, bytes: descriptor.size() })
    }

    fn digest(&self, what: &str, text: &str) -> Result<OciDigest> {
        text.parse().map_err(|_| self.blobs.bad(not_a_digest(what, text)))
    }
}

/// A search through the indexes of a layout.
struct Search<'a> {
    layout: &'a OciLayout,
    arch: Arch,
    documents: usize,
    /// Images, each with the variant of the CPU that it needs.
    found: Vec<(OciImage, Option<String>)>,
    /// Platforms of the images that were not taken.
    seen: Vec<String>,
}

impl Search<'_> {
    fn look(&mut self, descriptors: Vec<Descriptor>, depth: usize) -> Result<()> {
        for descriptor in descriptors {
            if let Some(platform) = descriptor.platform()
                && !self.suits(platform.os(), platform.architecture())
            {
                continue;
            }
            self.documents += 1;
            if depth > MAX_DEPTH || self.documents > MAX_DOCUMENTS {
                let reason = format!(
                    "its indexes list more than {MAX_DOCUMENTS} documents, or are nested more than {MAX_DEPTH} deep"
                );
                return Err(self.layout.blobs.bad(reason));
            }
            // Signatures and similar documents are neither.
            let media_type = descriptor.media_type().as_ref();
            if INDEX_TYPES.contains(&media_type) {
                let index: ImageIndex = self.layout.document(&descriptor)?;
                self.look(index.manifests().clone(), depth + 1)?;
            } else if MANIFEST_TYPES.contains(&media_type) {
                let variant = descriptor.platform().as_ref().and_then(|p| p.variant().clone());
                self.manifest(&descriptor, variant)?;
            }
        }
        Ok(())
    }

    /// Whether the image runs on the wanted kind of processor. If not, keeps the kind that it names, for the error.
    fn suits(&mut self, os: &Os, arch: &image::Arch) -> bool {
        let suits = *os == Os::Linux && arch.to_string() == self.arch.name();
        if !suits {
            self.seen.push(format!("{os}/{arch}"));
        }
        suits
    }

    fn manifest(&mut self, descriptor: &Descriptor, variant: Option<String>) -> Result<()> {
        let manifest: ImageManifest = self.layout.document(descriptor)?;
        if !manifest.config().media_type().as_ref().contains("image") {
            // An artifact that has the form of an image is left out.
            return Ok(());
        }
        let config: ImageConfiguration = self.layout.document(manifest.config())?;
        if !self.suits(config.os(), config.architecture()) {
            return Ok(());
        }
        let layers = self.layers(&manifest, &config)?;
        let inner = config.config().clone().unwrap_or_default();
        let env = inner.env().iter().flatten();
        let env = env.map(|setting| setting.split_once('=').unwrap_or((setting, "")));
        let variant = variant.or_else(|| config.variant().clone());
        let image = OciImage {
            digest: self.layout.digest("digest", descriptor.digest().as_ref())?,
            arch: self.arch,
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            entrypoint: inner.entrypoint().clone().unwrap_or_default(),
            cmd: inner.cmd().clone().unwrap_or_default(),
            labels: inner.labels().clone().into_iter().flatten().collect(),
            created: config.created().clone(),
            layers,
            others: Vec::new(),
        };
        self.found.push((image, variant));
        Ok(())
    }

    fn layers(
        &self,
        manifest: &ImageManifest,
        config: &ImageConfiguration,
    ) -> Result<Vec<LayerBlob>> {
        let blobs = &self.layout.blobs;
        let (layers, ids) = (manifest.layers(), config.rootfs().diff_ids());
        if layers.len() != ids.len() || layers.len() > MAX_LAYERS {
            let (found, expected) = (layers.len(), ids.len());
            return Err(blobs.bad(format!(
                "its manifest lists {found} layers and its configuration {expected}; both numbers must be equal, and at most {MAX_LAYERS}"
            )));
        }
        let history = config.history().as_deref().unwrap_or_default();
        let made: Vec<_> = history.iter().filter(|step| step.empty_layer() != Some(true)).collect();
        let mut all = Vec::new();
        for (i, (layer, id)) in layers.iter().zip(ids).enumerate() {
            let Expected { sha256, bytes } = self.layout.expected(layer)?;
            let diff_id = self.layout.digest("diff ID", id)?.0;
            // The history says what made each layer only if it has one step per layer.
            let made = made.get(i).filter(|_| made.len() == layers.len());
            let part = made.and_then(|step| step.created_by().as_deref()?.strip_prefix("gular: "));
            all.push(LayerBlob {
                sha256,
                diff_id,
                bytes,
                media_type: layer.media_type().to_string(),
                part: part.and_then(Layer::named),
            });
        }
        Ok(all)
    }
}

impl OciImage {
    /// Tells that `name` has images for other platforms too.
    pub fn tell(&self, name: &str, watch: &dyn ImageWatch) {
        if !self.others.is_empty() {
            let taken = format!("linux/{}", self.arch.name());
            watch.note(&Note::OneOf { name, taken: &taken, others: &self.others });
        }
    }
}

impl LayerBlob {
    /// The layer's compression, from the end of its media type: `gzip`, `zstd` or `tar`, or another
    /// that is not read.
    pub fn compression(&self) -> &str {
        self.media_type.rsplit(['.', '+']).next().unwrap_or_default()
    }
}

/// How new a processor must be for a variant of its kind, as `v3` of amd64: 0 for all of the kind.
pub(crate) fn variant_rank(variant: Option<&str>) -> u32 {
    match variant.unwrap_or_default() {
        "" | "v1" | "v8" => 0,
        // A name that is not known is taken last.
        other => other.strip_prefix('v').and_then(|n| n.parse().ok()).unwrap_or(u32::MAX),
    }
}

/// Platforms of images, each once; what goes with an image, such as how it was built, is for
/// `unknown/unknown`.
pub(crate) fn platforms(all: impl IntoIterator<Item = String>) -> Vec<String> {
    let known = all.into_iter().filter(|platform| !platform.starts_with("unknown/"));
    known.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether two names mean the same image, such as `lab/x:v1` and `docker.io/lab/x:v1`: tools write
/// either into Docker's archives.
fn is_same_name(one: &str, other: &str) -> bool {
    let parse = |name: &str| Reference::parse(name).ok().filter(|_| name.contains(['/', ':']));
    parse(one).is_some_and(|one| parse(other) == Some(one))
}

fn tag_of(descriptor: &Descriptor) -> Option<&str> {
    descriptor.annotations().as_ref()?.get(ANNOTATION_REF_NAME).map(String::as_str)
}

fn parse<T: DeserializeOwned>(blobs: &Blobs, name: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| {
        let reason = match refused_digest(bytes) {
            Some(text) => not_a_digest("digest", &text),
            None => e.to_string(),
        };
        blobs.bad(format!("`{name}`: {reason}"))
    })
}

/// The first digest in an index or manifest that its type does not take; that type's own
/// error says neither the whole text nor what was expected.
fn refused_digest(bytes: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(bytes).ok()?;
    let lists = ["manifests", "layers"].into_iter().filter_map(|key| document.get(key)?.as_array());
    let descriptors = document.get("config").into_iter().chain(lists.flatten());
    let mut digests = descriptors.filter_map(|descriptor| descriptor.get("digest")?.as_str());
    digests.find(|text| Digest::try_from(*text).is_err()).map(str::to_owned)
}

fn not_a_digest(what: &str, text: &str) -> String {
    format!("{what} `{text}`, expected `sha256:` and 64 digits")
}
