//! The value of one image.

use std::mem;
use std::ops::RangeInclusive;

use gular_bundle::{Axes, Digest, Dtype};
use gular_codec::tiff::{Geo, Pages};
use gular_codec::{Decoder, Error, JpegEncoder, Picture, Resize, resize};

use super::{PayloadRecipe, StoredDepth};
use crate::array;
use crate::error::{Fault, Remedy};
use crate::spares::Spares;
use crate::sums::Sums;

/// The values of a sample that are written to a shard.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Value {
    /// The value of field `image`.
    pub(crate) bytes: Vec<u8>,
    /// Values of the fields beside image and label, in order.
    pub(crate) further: Vec<Vec<u8>>,
    /// The sums of its pixels, if they were decoded and statistics are wanted.
    pub(crate) sums: Option<Sums>,
    /// A flaw of the file that was tolerated, if it was decoded.
    pub(crate) flaw: Option<String>,
    /// What the file is, if its name says something else.
    pub(crate) misnamed: Option<String>,
    /// The media type of a picture that is stored as it was found.
    pub(crate) media_type: Option<&'static str>,
    /// The digest of the file that it was made from, where the index is to have it.
    pub(crate) source: Option<Digest>,
    /// The location on the Earth.
    pub(crate) geo: Option<Geo>,
    /// Whether this is a tile of which too little was measured, so that it is left out.
    pub(crate) is_empty: bool,
}

impl Value {
    fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// Returns about how many bytes of memory the value takes.
    pub(crate) fn len(&self) -> u64 {
        let further: usize = self.further.iter().map(Vec::len).sum();
        (self.bytes.len() + further) as u64
    }
}

/// Makes values as a recipe says.
#[derive(Clone, Copy)]
pub(crate) struct Maker<'a> {
    pub(crate) recipe: &'a PayloadRecipe,
    /// Reused memory for pixels `[height, width, 3]`.
    pub(crate) spares: &'a Spares,
    /// Whether pixels are summed.
    pub(crate) statistics: bool,
    /// What the pages of TIFF files become.
    pub(crate) pages: Pages,
}

impl Maker<'_> {
    /// The value of a picture `[height, width, channels]`, given its numbers.
    pub(crate) fn picture(&self, bytes: Vec<u8>, geo: Option<Geo>) -> Value {
        let PayloadRecipe::Arrays { dtype, ref shape, .. } = *self.recipe else {
            return Value::of(bytes);
        };
        let sums = self.statistics.then(|| array_sums(&bytes, dtype, shape)).flatten();
        Value { sums, geo, ..Value::of(bytes) }
    }

    /// The value of an image, given the bytes of its file, which are taken if they are the value.
    pub(crate) fn make(&self, file: &mut Vec<u8>, decoder: &mut Decoder) -> Result<Value, Fault> {
        match *self.recipe {
            PayloadRecipe::Encoded | PayloadRecipe::Bytes => Ok(Value::of(mem::take(file))),
            PayloadRecipe::Arrays { dtype, ref shape, ref axes, .. } => {
                let limits = &decoder.options().limits;
                let (bytes, geo) = array::values(file, dtype, shape, limits, self.pages)?;
                let planes = axes.as_ref().and_then(|axes| planes(axes, shape));
                let (true, Some((planes, plane))) = (self.statistics, planes) else {
                    return Ok(self.picture(bytes, geo));
                };
                let size = (bytes.len() / planes).max(1);
                let sums = bytes.chunks_exact(size).map(|bytes| array_sums(bytes, dtype, &plane));
                let sums = sums.collect::<Option<Vec<_>>>();
                let sums = sums.map(|planes| Sums::of_planes(&planes));
                Ok(Value { sums, ..Value::of(bytes) })
            }
            PayloadRecipe::Reencoded { max_side, quality, .. } => {
                let picture = shrunk(decoder.decode(file)?, max_side)?;
                let (width, height) = (picture.width(), picture.height());
                let bytes = JpegEncoder::default().encode(picture.data(), width, height, quality);
                let bytes = bytes.map_err(|e| match e {
                    Error::BadSize { .. } => Fault {
                        remedy: Remedy::Shrink,
                        ..Fault::new(e.to_string(), Some("resize it"))
                    },
                    e => e.into(),
                })?;
                let sums = self.statistics.then(|| Sums::of_u8(picture.data(), 3));
                Ok(Value { sums, flaw: flaw(decoder), ..Value::of(bytes) })
            }
            PayloadRecipe::Raw { width, height, fit, channels, depth, .. } => {
                let size = (width, height);
                let n = usize::from(channels);
                match depth {
                    StoredDepth::U8 => {
                        let mut bytes = self.spares.take();
                        let header = decoder.fit(file, size, fit, &mut bytes)?;
                        if n == 1 {
                            check_grey(header.channels)?;
                            bytes = bytes.as_chunks::<3>().0.iter().map(|p| p[0]).collect();
                        }
                        let sums = self.statistics.then(|| Sums::of_u8(&bytes, n));
                        Ok(Value { sums, flaw: flaw(decoder), ..Value::of(bytes) })
                    }
                    StoredDepth::U16 => {
                        let pixels = width as usize * height as usize;
                        let mut rgb = vec![[0; 3]; pixels];
                        let header = decoder.fit_u16(file, size, fit, &mut rgb)?;
                        let mut values = rgb.into_flattened();
                        if n == 1 {
                            check_grey(header.channels)?;
                            values = values.into_iter().step_by(3).collect();
                        }
                        let sums = self.statistics.then(|| Sums::of_u16(&values, n));
                        let bytes: Vec<_> = values.iter().map(|v| v.to_le_bytes()).collect();
                        let bytes = bytes.into_flattened();
                        Ok(Value { sums, flaw: flaw(decoder), ..Value::of(bytes) })
                    }
                }
            }
        }
    }
}

/// Numbers of channels whose pixels are summed.
const MOST_CHANNELS: RangeInclusive<usize> = 1..=256;

/// The number of channels and the shape of each, in arrays whose channels come first.
fn planes(axes: &Axes, shape: &[u64]) -> Option<(usize, [u64; 2])> {
    let [channels, height, width] = *shape else { return None };
    let planes = usize::try_from(channels).ok().filter(|n| MOST_CHANNELS.contains(n))?;
    (*axes == Axes::cyx()).then_some((planes, [height, width]))
}

/// Sums over an array that is a picture of 8 or 16 bits, one per channel.
fn array_sums(bytes: &[u8], dtype: Dtype, shape: &[u64]) -> Option<Sums> {
    let channels = match *shape {
        [_, _] => 1,
        [_, _, channels] => usize::try_from(channels).ok().filter(|n| MOST_CHANNELS.contains(n))?,
        _ => return None,
    };
    match dtype {
        Dtype::U8 => Some(Sums::of_u8(bytes, channels)),
        Dtype::U16 => Some(Sums::of_u16_le(bytes, channels)),
        _ => None,
    }
}

fn flaw(decoder: &Decoder) -> Option<String> {
    decoder.flaw().map(ToString::to_string)
}

/// Resizes a picture that is larger than wanted.
fn shrunk(picture: Picture, max_side: Option<u32>) -> Result<Picture, Error> {
    let (w, h) = (picture.width(), picture.height());
    let long = w.max(h);
    let Some(side) = max_side.filter(|side| *side < long) else { return Ok(picture) };
    let scaled = |n: u32| {
        let twice = 2 * u64::from(n) * u64::from(side) + u64::from(long);
        u32::try_from(twice / (2 * u64::from(long))).unwrap_or(side).max(1)
    };
    resize(&picture, &Resize::to(scaled(w), scaled(h)))
}

fn check_grey(channels: u8) -> Result<(), Fault> {
    if channels <= 2 {
        return Ok(());
    }
    let reason = "it is a colour image, and one channel takes only grey images".to_owned();
    let hint = Some("pack with three channels");
    Err(Fault { remedy: Remedy::KeepColour, ..Fault::new(reason, hint) })
}

#[cfg(test)]
mod tests {
    use gular_codec::DecodeOptions;

    use super::*;

    #[test]
    fn sums_are_per_channel_wherever_the_axis_of_channels_is() {
        let shape = vec![3, 8, 9];
        let (bands, geo) = (Vec::new(), false);
        let (nodata, tile, align, decoder) = (None, None, None, None);
        let (dtype, axes) = (Dtype::U8, Some(Axes::cyx()));
        let recipe =
            PayloadRecipe::Arrays { dtype, shape, axes, bands, nodata, geo, tile, align, decoder };
        let (spares, pages) = (Spares::new(0), Pages::AsSaid);
        let maker = Maker { recipe: &recipe, spares: &spares, statistics: true, pages };
        // Channel 0 is 1 everywhere, channel 1 is 2, channel 2 is 3.
        let planar: Vec<u8> = (1..=3).flat_map(|value| [value; 72]).collect();
        let mut file = [gular_bundle::npy_header(Dtype::U8, &[3, 8, 9]), planar].concat();
        let value = maker.make(&mut file, &mut Decoder::new(DecodeOptions::default())).unwrap();
        let sums = value.sums.unwrap();
        assert_eq!((sums.pixels, sums.sum), (72, vec![72, 144, 216]));
        assert_eq!(planes(&Axes::yxc(), &[2, 3, 5]), None, "two rows of five channels");
        assert_eq!(planes(&Axes::cyx(), &[1, 28, 28]), Some((1, [28, 28])));
    }
}
