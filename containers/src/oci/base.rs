//! The image that another one is built on: its layers stay as they are, and what is added or
//! changed is in layers above them.

use std::collections::BTreeMap;
use std::path::Path;

use super::layer::{Compressor, Packed};
use super::read::{LayerBlob, LayersAs, OciImage, OciLayout};
use crate::Result;
use crate::rootfs::{Layer, Node, Rootfs, What};
use crate::store::{Limits, Store};

/// An image that another is built on.
#[derive(Debug)]
pub struct BaseImage {
    /// Its files.
    pub tree: Rootfs,
    /// Its environment variables.
    pub env: BTreeMap<String, String>,
    layout: OciLayout,
    layers: Vec<LayerBlob>,
}

impl BaseImage {
    /// Reads an image of a layout through `store`.
    ///
    /// # Errors
    /// Those of [`OciLayout::rootfs`].
    pub fn read(
        layout: OciLayout,
        image: OciImage,
        store: &Store,
        limits: &Limits,
    ) -> Result<Self> {
        let tree = layout.rootfs(&image, store, limits, LayersAs::Base)?;
        Ok(Self { tree, env: image.env, layout, layers: image.layers })
    }

    /// Returns `tree`, which began as this image's tree, with other layers: [`Layer::Base`] has the
    /// nodes that are unchanged, and no others. Each node that is gone has a whiteout in
    /// [`Layer::App`].
    pub(super) fn beneath(&self, tree: &Rootfs) -> Result<Rootfs> {
        let mut over = tree.clone();
        over.set_layers(|path| match (tree.get(path), self.tree.get(path)) {
            (Some(node), Some(of_base)) if is_same(node, of_base) => Layer::Base,
            (Some(Node { layer: Layer::Base, .. }) | None, _) => Layer::App,
            (Some(node), _) => node.layer,
        });
        for (path, _) in self.tree.iter() {
            let Some(parent) = path.parent() else { continue };
            let in_folder = tree.get(&parent).is_some_and(|node| node.what == What::Dir);
            if in_folder && tree.get(path).is_none() {
                let whiteout = parent.join(&format!(".wh.{}", path.name()));
                over.add_text(Layer::App, &whiteout, 0o644, "")?;
            }
        }
        Ok(over)
    }

    /// Puts the blobs of its layers into a layout's folder of blobs; their media types as OCI
    /// has them, and what they are.
    pub(super) fn put(&self, blobs: &Path) -> Result<Vec<(&'static str, Packed)>> {
        let mut put = Vec::new();
        for layer in &self.layers {
            let to = blobs.join(layer.sha256.to_string());
            // Two layers may be the same blob.
            if to.symlink_metadata().is_err() {
                self.layout.copy_layer(layer, &to)?;
            }
            // Docker's names of the same: readers refuse manifests with both.
            let media_type = match layer.compression() {
                "gzip" => Compressor::Gzip.media_type(),
                "zstd" => Compressor::Zstd.media_type(),
                _ => "application/vnd.oci.image.layer.v1.tar",
            };
            let LayerBlob { diff_id, sha256: digest, bytes, .. } = *layer;
            put.push((media_type, Packed { diff_id, digest, bytes }));
        }
        Ok(put)
    }
}

fn is_same(node: &Node, other: &Node) -> bool {
    node.mode == other.mode && node.what == other.what
}
