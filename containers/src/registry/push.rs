//! Pushes an image to a registry: its blobs, then its manifest.

use gular_registry::{Pushed, Pushing, push};

use crate::Result;
use crate::oci::{OciImage, OciLayout};

/// Pushes an image of a layout. Whoever sees its manifest can fetch all that it names.
///
/// # Errors
/// [`Error::Registry`](crate::Error::Registry); [`Error::Oci`](crate::Error::Oci) for a layout that
/// is not whole; [`Error::Cancelled`](crate::Error::Cancelled).
pub fn push_image(layout: &OciLayout, image: &OciImage, with: &Pushing<'_>) -> Result<Pushed> {
    let manifest = layout.manifest(image)?;
    Ok(push(&layout.blobs_of(image)?, &manifest.media_type, &manifest.bytes, with)?)
}
