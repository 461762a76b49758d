//! The proof that a bundle was checked before it is published.

use std::path::Path;

use gular_bundle::{Bundle, Digest, OpenOptions};

use crate::Error;

/// A local bundle that the caller has checked: a damaged one must not be published.
#[derive(Debug)]
pub struct SoundBundle(Bundle);

impl SoundBundle {
    /// Opens the bundle in `dir`, if `prove` has checked every byte of it.
    ///
    /// `prove` returns the digest of the bundle that it found undamaged. Nobody may write to `dir`
    /// from then on until it is published.
    ///
    /// # Errors
    /// That of `prove`; [`gular_bundle::Error::Digest`] when `dir` holds another bundle
    /// than the one that was proved.
    pub fn prove<E: From<Error>>(
        dir: &Path,
        prove: impl FnOnce(&Path) -> Result<Digest, E>,
    ) -> Result<Self, E> {
        let options = OpenOptions { digest: Some(prove(dir)?), ..OpenOptions::default() };
        let bundle = Bundle::open(dir, options).map_err(Error::from)?;
        Ok(Self(bundle))
    }

    /// The bundle.
    #[must_use]
    pub fn bundle(&self) -> &Bundle {
        &self.0
    }
}
