//! Options that follow the pictures of a bundle, where the user chose none.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use gular_augment::{StoredPixels, Transform};
use gular_bundle::{Bundle, FieldIdx, ShardIdx, SingleValues, Split};
use gular_codec::{Header, OrientationPolicy, read_header};

use super::{LoaderError, LoaderOptions};
use crate::Error;

/// Encoded pictures that are looked at. Their order in a shard is random, unless it was sorted.
const LOOKED_AT: usize = 4;

/// The side of pictures up to which they keep their size: that of the default crops.
const SIDE: u32 = 224;

/// Part of the shorter side that is added around small pictures, to be cropped again: the 4 of 32
/// pixels that are usual for CIFAR.
const PADDING: u32 = 8;

/// The options that are still to be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unchosen {
    /// The transform, and so the size.
    pub transform: bool,
    /// The bands, and so the number of channels.
    pub bands: bool,
}

/// The facts about a split's pictures, as far as they are the same.
struct Seen {
    size: Option<(u32, u32)>,
    is_grey: bool,
}

impl LoaderOptions {
    /// Returns [`LoaderOptions::new`] for the pictures of a bundle: small ones keep their size, and
    /// grey ones have one channel.
    ///
    /// # Errors
    /// Those of [`LoaderOptions::fitted`].
    pub fn for_bundle(bundle: &Bundle, split: Split) -> Result<Self, Error> {
        let all = Unchosen { transform: true, bands: true };
        Self::new(split).fitted(bundle, all, &AtomicBool::new(false))
    }

    /// Chooses the options in `unchosen` by the pictures of the split:
    ///
    /// - pictures of one size of at most 224 pixels keep it: as they are, for `train` in random
    ///   crops of that size with an eighth added around them, half of them mirrored;
    /// - grey pictures give one channel.
    ///
    /// Stored pixels have their shape in the manifest. Of encoded pictures, the first four are
    /// looked at, and a colour picture among grey ones is an error when it comes.
    ///
    /// # Errors
    /// [`Error::Bundle`], [`LoaderError::Shard`] if they cannot be read.
    pub fn fitted(
        mut self,
        bundle: &Bundle,
        unchosen: Unchosen,
        cancel: &AtomicBool,
    ) -> Result<Self, Error> {
        if !unchosen.transform && !unchosen.bands {
            return Ok(self);
        }
        let Some(Seen { size, is_grey }) = self.seen(bundle, cancel)? else { return Ok(self) };
        let mut words = Vec::new();
        let small = size.filter(|(w, h)| *w.max(h) <= SIDE && *w.min(h) < SIDE);
        if let Some((width, height)) = small.filter(|_| unchosen.transform) {
            self.transform = match self.split {
                Split::Train => Transform::Crop {
                    width,
                    height,
                    padding: width.min(height) / PADDING,
                    flip: 0.5,
                },
                Split::Val | Split::Test => Transform::Resize { width, height },
            };
            words.push(format!("{width} x {height} pixels, as they are stored"));
        }
        if is_grey && unchosen.bands {
            (self.bands, self.only_grey) = (Some(vec![0]), true);
            words.push("1 channel, since they are grey".to_owned());
        }
        self.fitted = (!words.is_empty()).then(|| format!("pictures of {}", words.join("; ")));
        Ok(self)
    }

    fn seen(&self, bundle: &Bundle, cancel: &AtomicBool) -> Result<Option<Seen>, Error> {
        let manifest = bundle.manifest();
        let image = manifest.image().and_then(|at| Some((at, at.of(&manifest.fields)?)));
        let Some((at, field)) = image else { return Ok(None) };
        if let Some((dtype, shape)) = field.as_fixed() {
            let of = |pixels: StoredPixels| Seen {
                size: Some((pixels.width, pixels.height)),
                is_grey: pixels.bands() == 1,
            };
            let axes = self.axes_of(field, shape)?;
            return Ok(StoredPixels::of(dtype, shape, &axes).map(of));
        }
        let headers = self.headers(bundle, at, cancel)?;
        let sizes = headers.iter().map(|header| match self.orientation {
            OrientationPolicy::Apply => header.upright_size(),
            OrientationPolicy::Ignore => (header.width, header.height),
        });
        let first = sizes.clone().next();
        let size = first.filter(|first| sizes.clone().all(|size| size == *first));
        let is_grey = !headers.is_empty() && headers.iter().all(is_grey);
        Ok(Some(Seen { size, is_grey }))
    }

    /// Whether the first encoded values of `field` have more than 8 bits.
    pub(super) fn is_wide(&self, bundle: &Bundle, field: FieldIdx) -> Result<bool, Error> {
        let headers = self.headers(bundle, field, &AtomicBool::new(false))?;
        Ok(headers.iter().any(|header| header.bit_depth > 8))
    }

    /// Returns the headers of the first pictures of the split that have one.
    fn headers(
        &self,
        bundle: &Bundle,
        image: FieldIdx,
        cancel: &AtomicBool,
    ) -> Result<Vec<Header>, Error> {
        let shards = bundle.manifest().shards.iter();
        let first = shards.clone().position(|s| s.split == self.split && s.samples > 0);
        let Some(shard) = first.map(ShardIdx) else { return Ok(Vec::new()) };
        let index = bundle.index(shard)?;
        let rows: Vec<_> = index.rows().take(LOOKED_AT).collect();
        let header = |bytes: &[u8]| read_header(bytes, &self.limits).ok();
        if let Some(source) = bundle.source().filter(|source| !source.is_here(shard)) {
            let found = Mutex::new(Vec::new());
            let take = |_, bytes: &[u8]| {
                found.lock().unwrap_or_else(PoisonError::into_inner).extend(header(bytes));
            };
            let values = SingleValues { shard, index: &index, rows: &rows, field: image };
            source.read_values(&values, &take, cancel).map_err(LoaderError::Shard)?;
            return Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
        let mut bytes = Vec::new();
        let mut headers = Vec::new();
        for row in rows {
            bundle.read(gular_bundle::SampleId { shard, row }, image, &mut bytes)?;
            headers.extend(header(&bytes));
        }
        Ok(headers)
    }
}

/// Whether a picture has no colours.
pub(super) fn is_grey(header: &Header) -> bool {
    header.channels <= 2
}
