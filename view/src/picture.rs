//! A stored value as a picture: decoded as a loader decodes it, or three bands of an array.

use gular_bundle::Field;
use gular_codec::{DecodeOptions, Decoder, Limits, Picture, Resize, encode_png, resize};
use serde::Serialize;

use crate::array::{Cells, Stretch, percentiles, shown};
use crate::error::PictureError;

/// Pixels of the long side above which an array is shown with gaps.
const LONGEST: usize = 4096;
/// Bars of a histogram.
const BARS: usize = 64;
/// The most numbers that a histogram counts per band.
const MOST_COUNTED: usize = 1 << 20;

/// How a value is looked at.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// The bands shown as red, green and blue, or one as grey; `None` takes those whose names or
    /// wavelengths are red, green and blue, else the first three.
    pub bands: Option<Vec<usize>>,
    /// How numbers become bytes.
    pub stretch: Stretch,
    /// The longest side, in pixels; `None` shows it as it is stored.
    pub longest: Option<u32>,
}

impl Look {
    /// A small picture of a value of `field`, as it is usually shown.
    #[must_use]
    pub fn small(field: &Field, longest: u32) -> Self {
        Self { bands: None, stretch: Stretch::usual(field), longest: Some(longest) }
    }
}

/// A band's numbers, counted.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Histogram {
    pub(crate) name: String,
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// The 2nd and the 98th percentile.
    pub(crate) percentiles: (f64, f64),
    pub(crate) counts: Vec<u64>,
    /// Numbers that are nodata or not finite.
    pub(crate) without: u64,
}

/// Returns a value of `field` as 8-bit RGB.
///
/// # Errors
/// [`PictureError`].
pub fn picture(field: &Field, bytes: &[u8], look: &Look) -> Result<Picture, PictureError> {
    let picture = match field.as_fixed() {
        Some(_) => {
            let cells = Cells::new(field, bytes)?;
            let bands = match &look.bands {
                Some(bands) => checked(bands, cells.n_bands)?,
                None => shown(&field.bands, cells.n_bands),
            };
            let long = cells.width.max(cells.height);
            // Twice as many pixels as are shown, so that resizing has something to average.
            let most = look.longest.map_or(LONGEST, |n| (n as usize * 2).min(LONGEST));
            cells.picture(&bands, long.div_ceil(most.max(1)).max(1), look.stretch)?
        }
        None => {
            let decoded = decoder().decode(bytes)?;
            let bands = look.bands.as_ref().map(|bands| checked(bands, 3)).transpose()?;
            changed(decoded, bands.as_deref(), look.stretch)?
        }
    };
    let Some(longest) = look.longest else { return Ok(picture) };
    let (w, h, most) = (picture.width(), picture.height(), longest.max(1));
    let long = w.max(h).max(1);
    let fit = |n: u32| u32::try_from(u64::from(n) * u64::from(most) / u64::from(long)).unwrap_or(1);
    match long > most {
        true => Ok(resize(&picture, &Resize::to(fit(w).max(1), fit(h).max(1)))?),
        false => Ok(picture),
    }
}

/// Returns it as a PNG.
pub(crate) fn png(picture: &Picture) -> Result<Vec<u8>, PictureError> {
    Ok(encode_png(picture.data(), picture.width(), picture.height())?)
}

/// Counts the numbers of each band.
pub(crate) fn histograms(field: &Field, bytes: &[u8]) -> Result<Vec<Histogram>, PictureError> {
    let step = |width: usize, height: usize| {
        (1..).find(|n| (width / n) * (height / n) <= MOST_COUNTED).unwrap_or(1)
    };
    if field.as_fixed().is_some() {
        let cells = Cells::new(field, bytes)?;
        let step = step(cells.width, cells.height);
        let name = |band: usize| {
            field.bands.get(band).map_or_else(|| band.to_string(), |band| band.name.clone())
        };
        let of = |band| histogram(name(band), cells.numbers(band, step));
        return Ok((0..cells.n_bands).map(of).collect());
    }
    let picture = decoder().decode(bytes)?;
    let step = step(picture.width() as usize, picture.height() as usize);
    let pixels = picture.data().as_chunks::<3>().0;
    let is_grey = pixels.iter().all(|[r, g, b]| r == g && g == b);
    let bands = if is_grey { &["grey"][..] } else { &["red", "green", "blue"] };
    let rows = || pixels.chunks_exact(picture.width().max(1) as usize).step_by(step);
    let of = |(band, name): (usize, &&str)| {
        let counted = rows().flat_map(|row| row.iter().step_by(step));
        let values = counted.filter_map(|pixel| pixel.get(band));
        histogram((*name).to_owned(), values.map(|value| Some(f64::from(*value))))
    };
    Ok(bands.iter().enumerate().map(of).collect())
}

fn histogram(name: String, values: impl Iterator<Item = Option<f64>>) -> Histogram {
    let (mut known, mut without) = (Vec::new(), 0);
    for value in values {
        match value {
            Some(value) => known.push(value),
            None => without += 1,
        }
    }
    let (least, most) = known.iter().fold((f64::MAX, f64::MIN), |(a, b), n| (a.min(*n), b.max(*n)));
    let (least, most) = if known.is_empty() { (0.0, 0.0) } else { (least, most) };
    let mut counts = vec![0; BARS];
    for value in &known {
        let at = (value - least) / (most - least).max(f64::MIN_POSITIVE) * BARS as f64;
        if let Some(count) = counts.get_mut((at as usize).min(BARS - 1)) {
            *count += 1;
        }
    }
    let percentiles = percentiles(known).unwrap_or((0.0, 0.0));
    Histogram { name, least, most, percentiles, counts, without }
}

pub(crate) fn decoder() -> Decoder {
    Decoder::new(DecodeOptions { limits: Limits::default(), ..DecodeOptions::default() })
}

fn checked(bands: &[usize], n: usize) -> Result<Vec<usize>, PictureError> {
    if !matches!(bands.len(), 1 | 3) {
        return Err(PictureError::BandCount { found: bands.len() });
    }
    match bands.iter().find(|band| **band >= n) {
        Some(band) => Err(PictureError::NoBand { band: *band, n }),
        None => Ok(bands.to_vec()),
    }
}

/// Exchanges and stretches the colours of a decoded picture.
fn changed(
    picture: Picture,
    bands: Option<&[usize]>,
    stretch: Stretch,
) -> Result<Picture, PictureError> {
    if bands.is_none() && stretch == Stretch::Stored {
        return Ok(picture);
    }
    let (width, height, mut data) = (picture.width(), picture.height(), picture.into_data());
    let bands = match bands {
        Some(&[band]) => [band; 3],
        Some(&[r, g, b]) => [r, g, b],
        _ => [0, 1, 2],
    };
    for pixel in data.as_chunks_mut::<3>().0 {
        let stored = *pixel;
        for (value, band) in pixel.iter_mut().zip(bands) {
            *value = stored.get(band).copied().unwrap_or_default();
        }
    }
    if stretch == Stretch::Percentiles {
        for band in 0..3 {
            let values = data.iter().skip(band).step_by(3).map(|value| f64::from(*value));
            let Some((least, most)) = percentiles(values.collect()) else { continue };
            let spread = (most - least).max(1.0);
            for value in data.iter_mut().skip(band).step_by(3) {
                *value = ((f64::from(*value) - least) / spread * 255.0) as u8;
            }
        }
    }
    Ok(Picture::new(width, height, data)?)
}

#[cfg(test)]
mod tests {
    use gular_bundle::{Band, Dtype, FieldName};

    use super::*;

    fn bands(names: &[&str]) -> Field {
        let band = |name: &&str| Band { name: (*name).to_owned(), wavelength_nm: None };
        Field {
            axes: Some(gular_bundle::Axes::yxc()),
            bands: names.iter().map(band).collect(),
            ..Field::fixed(FieldName::image(), Dtype::U8, vec![1, 2, names.len() as u64])
        }
    }

    #[test]
    fn any_bands_are_chosen_and_others_are_refused() {
        let (field, bytes) = (bands(&["B02", "B03", "B04", "B08"]), [1, 2, 3, 4, 11, 12, 13, 14]);
        let rgb = |bands: Option<Vec<usize>>| {
            let look = Look { bands, ..Look::default() };
            picture(&field, &bytes, &look).map(Picture::into_data)
        };
        assert_eq!(rgb(None).unwrap(), [3, 2, 1, 13, 12, 11]);
        assert_eq!(rgb(Some(vec![3, 0, 3])).unwrap(), [4, 1, 4, 14, 11, 14]);
        assert_eq!(rgb(Some(vec![1])).unwrap(), [2, 2, 2, 12, 12, 12]);
        assert!(
            rgb(Some(vec![4, 0, 0])).unwrap_err().to_string().contains("band 4 does not exist")
        );
        assert!(rgb(Some(vec![0, 1])).is_err());
    }

    #[test]
    fn encoded_pictures_are_made_small_and_their_colours_exchanged() {
        let rgb: Vec<u8> = (0..8 * 4).flat_map(|_| [200, 100, 50]).collect();
        let file = encode_png(&rgb, 8, 4).unwrap();
        let field = Field::bytes(FieldName::image(), vec!["image/png".to_owned()]);
        let look = Look { bands: Some(vec![2, 1, 0]), longest: Some(4), stretch: Stretch::Stored };
        let small = picture(&field, &file, &look).unwrap();
        assert_eq!((small.width(), small.height()), (4, 2));
        assert_eq!(small.data().first_chunk(), Some(&[50, 100, 200]));
        assert!(picture(&field, b"no picture", &look).is_err());
    }

    #[test]
    fn a_histogram_counts_every_number_once() {
        let (field, bytes) = (bands(&["a", "b"]), [0, 7, 255, 7]);
        let found = histograms(&field, &bytes).unwrap();
        assert_eq!((found[0].counts[0], found[0].counts[63], found[0].most), (1, 1, 255.0));
        assert_eq!((found[1].name.as_str(), found[1].counts[0], found[1].least), ("b", 2, 7.0));
    }

    #[test]
    fn a_large_picture_is_counted_in_steps_of_rows_and_columns() {
        let (width, height) = (2049_u32, 1025_u32);
        let rgb: Vec<u8> =
            (0..width * height).flat_map(|n| [(n / width % 251) as u8, 0, 9]).collect();
        let field = Field::bytes(FieldName::image(), vec!["image/png".to_owned()]);
        let found = histograms(&field, &encode_png(&rgb, width, height).unwrap()).unwrap();
        let counted: u64 = found[0].counts.iter().sum();
        assert_eq!(counted, 1025 * 513, "every second row and column");
    }
}
