//! The base of an image, below everything else.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Result;
use crate::debian;
use crate::oci::BaseImage;
use crate::rootfs::{Layer, Rootfs};
use crate::scripts::Scripts;
use crate::store::Listing;

/// The base of an image.
#[derive(Debug)]
pub enum Base {
    /// No files at all.
    Scratch,
    /// Files of Debian packages, and what their maintainer scripts make of them.
    Debian(Vec<Listing>, Scripts),
    /// Another image, Debian packages that are added to it, by name, and what is done of their
    /// maintainer scripts.
    Image(Arc<BaseImage>, Vec<(String, Listing)>, Scripts),
}

impl Base {
    /// Adds further files to those of Debian packages.
    pub(crate) fn add(&mut self, files: Vec<Listing>) {
        if let Self::Debian(debs, _) = self {
            debs.extend(files);
        }
    }

    /// Returns the base's files and its environment variables.
    pub(crate) fn lay(&self) -> Result<(Rootfs, BTreeMap<String, String>)> {
        match self {
            Self::Scratch => Ok((Rootfs::default(), BTreeMap::new())),
            Self::Image(image, debs, scripts) => {
                let mut tree = image.tree.clone();
                debian::add(&mut tree, debs)?;
                scripts.lay_over(&mut tree, Layer::Packages)?;
                Ok((tree, image.env.clone()))
            }
            Self::Debian(debs, scripts) => {
                let mut tree = debian::lay(debs)?;
                scripts.lay_over(&mut tree, Layer::Base)?;
                Ok((tree, BTreeMap::new()))
            }
        }
    }
}
