//! The value of one image.

use std::mem;

use gular_bundle::{Digest, Dtype};
use gular_codec::tiff::{Geo, Pages};
use gular_codec::{Decoder, Error, JpegEncoder, Picture, Resize, resize};

use super::framed::Framed;
use crate::facts::{ArrayValues, Channels, Fault, Remedy, Spares, Sums, Valid, array};
use crate::plan::{BandNames, PayloadRecipe, StoredDepth};

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
    /// The value of an array, given its contents.
    pub(crate) fn array(&self, array: ArrayValues) -> Result<Value, Fault> {
        let ArrayValues { mut values, mut geo, valid } = array;
        let PayloadRecipe::Arrays { dtype, ref shape, ref axes, ref bands, band_names, .. } =
            *self.recipe
        else {
            return Ok(Value::of(values));
        };
        // A row of a table of pixels and an .npy file have no names of bands.
        let names = geo.as_ref().map_or(&[][..], |geo| &geo.bands);
        if band_names == BandNames::Compare
            && let Some(order) = order(names, bands)?
        {
            values = in_order(&values, dtype, &order);
            if let Some(geo) = geo.as_mut().filter(|geo| !geo.scales.is_empty()) {
                geo.scales =
                    order.iter().filter_map(|band| geo.scales.get(*band)).copied().collect();
            }
        }
        let axes = axes.as_ref().filter(|_| self.statistics);
        let channels = axes.and_then(|axes| Channels::of(axes, shape));
        let nodata = geo.as_ref().and_then(|geo| geo.nodata);
        let valid = Valid { nodata, mask: valid.as_deref() };
        let sums = channels.map(|channels| Sums::of_array(&values, dtype, channels, valid));
        Ok(Value { sums, geo, ..Value::of(values) })
    }

    /// The value of an image, given the bytes of its file, which are taken if they are the value.
    pub(crate) fn make(&self, file: &mut Vec<u8>, decoder: &mut Decoder) -> Result<Value, Fault> {
        match *self.recipe {
            PayloadRecipe::Encoded | PayloadRecipe::Bytes => Ok(Value::of(mem::take(file))),
            PayloadRecipe::Arrays { dtype, ref shape, ref axes, ref frame, .. } => {
                let limits = &decoder.options().limits;
                if let (Some(frame), Some(axes)) = (frame, axes) {
                    let framed = Framed { frame, dtype, shape, axes, fill: None };
                    return self.array(framed.read(file, limits, self.pages)?);
                }
                self.array(array::values(file, dtype, shape, limits, self.pages)?)
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

/// Where the bands of all arrays are in an array, if its order is another one; `found` are the names
/// of its own bands.
fn order(found: &[String], wanted: &[String]) -> Result<Option<Vec<usize>>, Fault> {
    if found == wanted {
        return Ok(None);
    }
    let named = |names: &[String]| format!("`{}`", names.join("`, `"));
    let refuse = |reason: String| {
        Err(Fault { remedy: Remedy::IgnoreBandNames, ..Fault::new(reason, Some(BAND_HINT)) })
    };
    if found.is_empty() {
        let wanted = named(wanted);
        return refuse(format!("it does not name its bands, and the first array names {wanted}"));
    }
    if wanted.is_empty() {
        let found = named(found);
        return refuse(format!(
            "it names its bands {found}, and the first array does not name any"
        ));
    }
    let at = |name: &String| found.iter().position(|other| other == name);
    let order: Option<Vec<usize>> = wanted.iter().map(at).collect();
    // Each name must be there once, since the first of two equal ones would be taken twice.
    let is_order = |order: &Vec<usize>| {
        let mut seen = order.clone();
        seen.sort_unstable();
        found.len() == wanted.len() && seen.into_iter().eq(0..found.len())
    };
    let Some(order) = order.filter(is_order) else {
        let (found, wanted) = (named(found), named(wanted));
        return refuse(format!("its bands are {found}, and those of the first array {wanted}"));
    };
    Ok(Some(order))
}

/// The values of an array with its bands in another order.
fn in_order(values: &[u8], dtype: Dtype, order: &[usize]) -> Vec<u8> {
    let size = usize::try_from(dtype.size_bytes()).unwrap_or(1);
    let mut ordered = Vec::with_capacity(values.len());
    for pixel in values.chunks_exact(size * order.len()) {
        for band in order {
            ordered
                .extend_from_slice(pixel.get(band * size..(band + 1) * size).unwrap_or_default());
        }
    }
    ordered
}

const BAND_HINT: &str = "give all files the same names of bands, or none";

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
    use gular_bundle::Axes;
    use gular_codec::DecodeOptions;

    use super::*;

    fn recipe(dtype: Dtype, shape: Vec<u64>, bands: &[&str]) -> PayloadRecipe {
        let bands_first = bands.is_empty();
        let bands = bands.iter().map(|name| (*name).to_owned()).collect();
        let (band_names, nodata, nodatas, geo) = (BandNames::Compare, None, false, false);
        let (wavelengths, of_files) = (Vec::new(), Vec::new());
        let (joined, frame, tile, align, decoder) = (Vec::new(), None, None, None, None);
        PayloadRecipe::Arrays {
            dtype,
            shape,
            axes: Some(if bands_first { Axes::cyx() } else { Axes::yxc() }),
            bands,
            wavelengths,
            band_names,
            nodata,
            nodatas,
            geo,
            of_files,
            joined,
            frame,
            tile,
            align,
            decoder,
        }
    }

    #[test]
    fn sums_are_per_channel_wherever_the_axis_of_channels_is() {
        let recipe = recipe(Dtype::U8, vec![3, 8, 9], &[]);
        let (spares, pages) = (Spares::new(0), Pages::AsSaid);
        let maker = Maker { recipe: &recipe, spares: &spares, statistics: true, pages };
        // Channel 0 is 1 everywhere, channel 1 is 2, channel 2 is 3.
        let planar: Vec<u8> = (1..=3).flat_map(|value| [value; 72]).collect();
        let mut file = [gular_bundle::npy_header(Dtype::U8, &[3, 8, 9]), planar].concat();
        let value = maker.make(&mut file, &mut Decoder::new(DecodeOptions::default())).unwrap();
        let sums = value.sums.unwrap();
        assert_eq!((sums.pixels, sums.sum), (72, vec![72, 144, 216]));
    }

    #[test]
    fn bands_are_put_in_the_order_of_the_first_array_or_refused() {
        let recipe = recipe(Dtype::U16, vec![1, 2, 3], &["B02", "B03", "B04"]);
        let (spares, pages) = (Spares::new(0), Pages::AsSaid);
        let maker = Maker { recipe: &recipe, spares: &spares, statistics: true, pages };
        let made = |bands: &[&str], values: [u16; 6]| {
            let bands = bands.iter().map(|name| (*name).to_owned()).collect();
            // The scale of each band is a tenth of its number.
            let scales = values[..3].iter().map(|n| [f64::from(*n) / 10.0, 0.0]).collect();
            let geo = Some(Geo { bands, scales, nodata: Some(40.0), ..Geo::default() });
            let values = values.into_iter().flat_map(u16::to_le_bytes).collect();
            maker.array(ArrayValues { values, geo, valid: None })
        };
        let first = made(&["B02", "B03", "B04"], [2, 3, 4, 20, 30, 40]).unwrap();
        let other = made(&["B04", "B02", "B03"], [4, 2, 3, 40, 20, 30]).unwrap();
        assert_eq!((&first.bytes, &first.sums), (&other.bytes, &other.sums));
        assert_eq!(other.geo.unwrap().scales, [[0.2, 0.0], [0.3, 0.0], [0.4, 0.0]]);
        assert_eq!(first.sums.unwrap().counts, [2, 2, 1]);
        for (bands, words) in [
            (
                &["B02", "B03", "B08"][..],
                "its bands are `B02`, `B03`, `B08`, and those of the first",
            ),
            (&["B02", "B02", "B04"], "its bands are `B02`, `B02`, `B04`, and those of the first"),
            (&[], "it does not name its bands, and the first array names `B02`, `B03`, `B04`"),
        ] {
            let refused = made(bands, [0; 6]).unwrap_err();
            assert!(refused.reason.starts_with(words), "{refused:?}");
            assert_eq!(refused.remedy, Remedy::IgnoreBandNames);
        }
    }
}
