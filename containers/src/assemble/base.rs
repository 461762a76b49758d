//! The base of an image, below everything else.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Result;
use crate::debian;
use crate::oci::BaseImage;
use crate::rootfs::{Layer, Rootfs};
use crate::store::Listing;

/// The base of an image.
#[derive(Debug)]
pub enum Base {
    /// No files at all.
    Scratch,
    /// Files of Debian packages.
    Debian(Vec<Listing>),
    /// Another image.
    Image(Arc<BaseImage>),
}

impl Base {
    /// Returns the base's files and its environment variables.
    pub(crate) fn lay(&self) -> Result<(Rootfs, BTreeMap<String, String>)> {
        match self {
            Self::Scratch => Ok((Rootfs::default(), BTreeMap::new())),
            Self::Image(image) => Ok((image.tree.clone(), image.env.clone())),
            Self::Debian(debs) => {
                let mut tree = Rootfs::default();
                debian::prepare(&mut tree, Layer::Base)?;
                for files in debs {
                    files.add_some_to(&mut tree, Layer::Base, is_wanted)?;
                }
                debian::finish(&mut tree, Layer::Base)?;
                Ok((tree, BTreeMap::new()))
            }
        }
    }
}

/// Pages that people read stay out, as in Debian's own slim images; licences stay.
fn is_wanted(path: &str) -> bool {
    let folders = ["usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/"];
    match path.strip_prefix("usr/share/doc/") {
        // A package's folder may be a link to that of another.
        Some(rest) => !rest.contains('/') || rest.ends_with("/copyright"),
        None => !folders.iter().any(|folder| path.starts_with(folder)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_stay_out_and_licences_in() {
        for (path, wanted) in [
            ("usr/bin/bash", true),
            ("usr/share/doc/bash", true),
            ("usr/share/doc/bash/copyright", true),
            ("usr/share/doc/bash/README.gz", false),
            ("usr/share/locale/de/LC_MESSAGES/bash.mo", false),
        ] {
            assert_eq!(is_wanted(path), wanted, "{path}");
        }
    }
}
