//! Converts pixels to the numbers that a network takes, in one pass.

use std::borrow::Cow;

use gular_bundle::{Dtype, Manifest, Payload, Split};
use gular_codec::Sample;
use half::{bf16, f16};
use serde::Deserialize;

use crate::{AxisOrder, Numbers};

/// By which numbers pixels are normalised.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum NormaliseBy {
    /// 8-bit pictures, in colour or grey, by ImageNet's mean and standard deviation, as networks
    /// for pictures expect it; all others by those of the bundle's own pixels, and if it does not
    /// have them, loading is an error.
    #[default]
    Kind,
    /// By the mean and standard deviation of the bundle's own pixels: those of the chosen bands.
    Bundle,
    /// By these.
    Given(Normalise),
}

impl From<Normalise> for NormaliseBy {
    fn from(numbers: Normalise) -> Self {
        Self::Given(numbers)
    }
}

/// Why a bundle's pixels say nothing about how they are normalised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoStatistics(pub String);

/// The images that are normalised.
#[derive(Debug, Clone, Copy)]
pub struct Normalised<'a> {
    /// The manifest of their bundle.
    pub manifest: &'a Manifest,
    /// The type of the pixels in the bundle.
    pub stored: Dtype,
    /// The type of the pixels that are normalised.
    pub made: Dtype,
    /// The number of channels in the bundle.
    pub channels: usize,
    /// Those of a batch.
    pub bands: &'a [usize],
}

impl NormaliseBy {
    /// Returns the numbers for such images; and in words what was chosen, if the user has chosen
    /// nothing and it is not ImageNet's.
    ///
    /// # Errors
    /// A reason why there are none.
    pub fn of(&self, images: Normalised<'_>) -> Result<(Normalise, Option<String>), String> {
        let Normalised { made, channels, bands, .. } = images;
        let given = |how: &Normalise| {
            let how = how.of_channels(bands.len()).into_owned();
            how.fault(bands.len()).map_or(Ok((how, None)), Err)
        };
        match self {
            Self::Given(how) => given(how),
            Self::Bundle => Ok((images.of_bundle()?, None)),
            Self::Kind
                if Normalise::suits(made, channels) && Normalise::suits(made, bands.len()) =>
            {
                given(&Normalise::default())
            }
            Self::Kind => {
                // Two channels of a colour picture are not colour any more.
                let n = if Normalise::suits(made, channels) { bands.len() } else { channels };
                let kind = format!("{} of `{made}`", counted(n, "channel"));
                let of_bundle = images.of_bundle().map_err(|why| {
                    format!(
                        "it was not chosen, and ImageNet's mean and standard deviation are not for {kind}, but for 8-bit colour or grey; {why}"
                    )
                })?;
                let words = format!(
                    "normalised by the mean and standard deviation of the bundle's pixels, since ImageNet's are not for {kind}"
                );
                Ok((of_bundle, Some(words)))
            }
        }
    }
}

impl Normalised<'_> {
    /// The statistics of the bundle, for the channels of a batch.
    fn of_bundle(&self) -> Result<Normalise, String> {
        let Self { manifest, stored, made, channels, bands } = *self;
        let all = Normalise::read(manifest)?;
        if all.mean.len() != channels {
            return Err(format!(
                "the bundle's statistics are of {}, but the images have {channels}",
                counted(all.mean.len(), "channel")
            ));
        }
        // Statistics are those of the stored numbers. The high byte of 16 bits is a 256th, and 257
        // times 8 bits are 16.
        let scale = match (stored, made) {
            (Dtype::U16, Dtype::U8) => 1.0 / 256.0,
            (Dtype::U8, Dtype::U16) => 257.0,
            _ => 1.0,
        };
        let pick = |of: &[f32]| bands.iter().filter_map(|band| of.get(*band).copied()).collect();
        let how = Normalise { scale: Some(scale), mean: pick(&all.mean), std: pick(&all.std) };
        match bands.iter().find(|band| !how_is_usable(&all, **band)) {
            None => Ok(how),
            Some(band) => Err(format!(
                "channel {band} of the bundle's training pixels has no values, or all of them are equal"
            )),
        }
    }
}

fn how_is_usable(all: &Normalise, band: usize) -> bool {
    let of = |values: &[f32]| values.get(band).copied().unwrap_or(f32::NAN);
    of(&all.mean).is_finite() && of(&all.std).is_normal()
}

fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// How pixels are normalised, per channel: (value / `scale` - `mean`) / `std`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Normalise {
    /// The number that values are divided by first; by default the largest value of their type for
    /// `u8` and `u16`, and 1 for other types.
    pub scale: Option<f32>,
    /// Mean of each channel after that, or one for all.
    pub mean: Vec<f32>,
    /// Standard deviation of each channel after that, or one for all.
    pub std: Vec<f32>,
}

impl Default for Normalise {
    /// The mean and standard deviation of ImageNet, for red, green and blue; of images with one
    /// channel, the means of these.
    fn default() -> Self {
        let (mean, std) = (vec![0.485, 0.456, 0.406], vec![0.229, 0.224, 0.225]);
        Self { scale: None, mean, std }
    }
}

/// The means of ImageNet's mean and standard deviation, for pictures of one channel.
const GREY: [f32; 2] = [0.449, 0.226];

impl Normalise {
    /// Returns it for `channels` channels: that of ImageNet has a grey form.
    pub fn of_channels(&self, channels: usize) -> Cow<'_, Self> {
        if channels != 1 || *self != Self::default() {
            return Cow::Borrowed(self);
        }
        let [mean, std] = GREY;
        Cow::Owned(Self { scale: None, mean: vec![mean], std: vec![std] })
    }

    /// Divides values by `scale` and does nothing else: 0 to 1 for `u8` and `u16`.
    #[must_use]
    pub fn scaled() -> Self {
        Self { scale: None, mean: vec![0.0], std: vec![1.0] }
    }

    /// Whether pixels of this type, in so many channels, are of the kind that ImageNet's mean and
    /// standard deviation are for: 8-bit colour or grey.
    #[must_use]
    pub fn suits(dtype: Dtype, channels: usize) -> bool {
        dtype == Dtype::U8 && matches!(channels, 1 | 3)
    }

    /// Normalises with the mean and standard deviation of the training pixels in the bundle's
    /// manifest, so that these pixels get mean 0 and standard deviation 1, in all channels.
    ///
    /// # Errors
    /// Why, if the manifest has no statistics, or if a channel has no values or only equal ones.
    pub fn of_manifest(manifest: &Manifest) -> Result<Self, NoStatistics> {
        let fail = NoStatistics;
        let all = Self::read(manifest).map_err(fail)?;
        match (0..all.mean.len()).find(|band| !how_is_usable(&all, *band)) {
            None => Ok(all),
            Some(band) => Err(fail(format!(
                "channel {band} of the bundle's training pixels has no values, or all of them are equal"
            ))),
        }
    }

    /// The statistics of all channels, with NaN for those that have no values.
    fn read(manifest: &Manifest) -> Result<Self, String> {
        let Some(statistics) = &manifest.statistics else { return Err(why_none(manifest)) };
        if manifest.sums_nodata() {
            return Err("the bundle's statistics are also of pixels that are nodata, since an earlier release packed it; pack it again".to_owned());
        }
        let (mean, std): (Vec<f32>, Vec<f32>) = statistics
            .moments()
            .into_iter()
            .map(|found| {
                found.map_or((f32::NAN, f32::NAN), |[mean, std]| (mean as f32, std as f32))
            })
            .unzip();
        if mean.is_empty() {
            return Err("the bundle's statistics have no channels".to_owned());
        }
        Ok(Self { scale: Some(1.0), mean, std })
    }

    /// Returns it for `channels` channels, of which each group in turn is normalised as all of them
    /// are now.
    pub fn repeated(&self, channels: usize) -> Self {
        let repeat = |values: &[f32]| values.iter().copied().cycle().take(channels).collect();
        Self { scale: self.scale, mean: repeat(&self.mean), std: repeat(&self.std) }
    }

    /// Says what is wrong with it for `channels` channels.
    pub fn fault(&self, channels: usize) -> Option<String> {
        let fits = |values: &[f32]| values.len() == 1 || values.len() == channels;
        if !fits(&self.mean) || !fits(&self.std) {
            return Some(format!(
                "it has {} means and {} standard deviations, but the images have {channels} channels",
                self.mean.len(),
                self.std.len()
            ));
        }
        if self.scale.is_some_and(|scale| !scale.is_normal()) {
            return Some(format!("scale is {:?}", self.scale));
        }
        (self.std.iter().any(|std| !std.is_normal())).then(|| format!("std is {:?}", self.std))
    }

    /// Scale, mean and standard deviation of channel `channel` of values of type `stored`.
    pub fn of_channel(&self, channel: usize, stored: Dtype) -> [f32; 3] {
        let of = |values: &[f32], none| values.get(channel).or(values.last()).map_or(none, |v| *v);
        let scale = self.scale.unwrap_or(match stored {
            Dtype::U8 => 255.0,
            Dtype::U16 => 65_535.0,
            _ => 1.0,
        });
        [scale, of(&self.mean, 0.0), of(&self.std, 1.0)]
    }
}

/// Why a manifest has no statistics, as far as it says.
fn why_none(manifest: &Manifest) -> String {
    let none = "the bundle's manifest has no statistics of pixels";
    let why = if manifest.n_samples(Split::Train) == 0 {
        "since no sample is in split `train`"
    } else if manifest.made.contains_key("base") {
        "since the bundle is derived from others, and has other samples in split `train`, or they have none; pack all images into a new bundle for them"
    } else if manifest.made.contains_key("adopted") {
        "since the bundle was adopted, and its pixels were never added up"
    } else if manifest.payload == Payload::Encoded {
        "since the images are stored as files, and were not decoded when they were packed"
    } else {
        "since pixels like these were not added up when they were packed; pack it again for them"
    };
    format!("{none}, {why}")
}

/// Pixels of a picture in a thread's memory: `[height, width, channels]`.
#[derive(Debug, Clone, Copy)]
pub struct PixelRows<'a, T> {
    /// The values from the first pixel on; values between the rows are ignored.
    pub values: &'a [T],
    /// Number of columns.
    pub width: usize,
    /// Number of channels.
    pub channels: usize,
    /// Pixels from the start of a row to that of the next.
    pub pitch: usize,
}

/// The type of a channel's value in a thread's memory.
trait Value: Sample {
    fn number(self) -> f32;
}

impl Value for u8 {
    fn number(self) -> f32 {
        self.into()
    }
}

impl Value for u16 {
    fn number(self) -> f32 {
        self.into()
    }
}

impl Value for f32 {
    fn number(self) -> f32 {
        self
    }
}

/// Writes pixels as the numbers of a batch.
#[derive(Debug)]
pub struct Writer {
    /// The type of the numbers.
    pub numbers: Numbers,
    /// Their layout in memory.
    pub layout: AxisOrder,
    /// The stored channels that a batch has, in the batch's order.
    pub bands: Vec<usize>,
    /// The type of the pixels that are written.
    pub stored: Dtype,
    /// Scale, mean and standard deviation of each of `bands`.
    channels: Vec<[f32; 3]>,
    /// The results of all 256 bytes of each of `bands`.
    table: Table,
}

/// A table gives the same bits as torchvision's `ToTensor` and `Normalize`, which a fused
/// multiply-add does not; and a lookup costs no more than the conversion it saves.
#[derive(Debug)]
enum Table {
    None,
    F32(Vec<[[u8; 4]; 256]>),
    Half(Vec<[[u8; 2]; 256]>),
}

impl Writer {
    /// Writes `bands` of pixels of type `stored` as `numbers`, normalised as `how` says.
    #[must_use]
    pub fn new(
        numbers: Numbers,
        layout: AxisOrder,
        bands: Vec<usize>,
        stored: Dtype,
        how: &Normalise,
    ) -> Self {
        let channels: Vec<_> = (0..bands.len()).map(|c| how.of_channel(c, stored)).collect();
        let table = match (stored, numbers) {
            (Dtype::U8, Numbers::F32) => Table::F32(tables(&channels, f32::to_ne_bytes)),
            (Dtype::U8, Numbers::Bf16) => Table::Half(tables(&channels, brain)),
            (Dtype::U8, Numbers::F16) => Table::Half(tables(&channels, half)),
            _ => Table::None,
        };
        Self { numbers, layout, bands, stored, channels, table }
    }

    /// The bytes of a pixel, in all planes, whose stored values are 0.
    pub fn zeros(&self) -> Vec<u8> {
        let size = usize::try_from(self.dtype().size_bytes()).unwrap_or(1);
        let mut zeros = vec![0; self.bands.len() * size];
        let channels = self.bands.iter().max().map_or(1, |band| band + 1);
        let (width, pitch) = (1, 1);
        match self.stored {
            Dtype::U8 => {
                let values = &vec![0; channels];
                self.u8s(PixelRows { values, width, channels, pitch }, false, &mut zeros);
            }
            Dtype::U16 => {
                let values = &vec![0; channels];
                self.u16s(PixelRows { values, width, channels, pitch }, false, &mut zeros);
            }
            _ => {
                let values = &vec![0.0; channels];
                self.f32s(PixelRows { values, width, channels, pitch }, false, &mut zeros);
            }
        }
        zeros
    }

    /// The number of planes that rows of a batch have.
    pub fn planes(&self) -> usize {
        match self.layout {
            AxisOrder::Contiguous => self.bands.len(),
            AxisOrder::ChannelsLast => 1,
        }
    }

    /// Returns the type of the numbers in a batch.
    pub fn dtype(&self) -> Dtype {
        self.numbers.dtype(self.stored)
    }

    /// Whether the bytes of pixels with `channels` channels are written unchanged.
    pub fn copies(&self, channels: usize) -> bool {
        (self.numbers, self.stored, self.layout)
            == (Numbers::Stored, Dtype::U8, AxisOrder::ChannelsLast)
            && self.bands.iter().copied().eq(0..channels)
    }

    /// Writes pixels of type `u8`, mirrored left to right if `flip`.
    pub fn u8s(&self, from: PixelRows<'_, u8>, flip: bool, out: &mut [u8]) {
        match &self.table {
            Table::F32(table) => {
                self.lay(from, flip, out, |c| {
                    let table = &table[c];
                    move |v: u8| table[usize::from(v)]
                });
            }
            Table::Half(table) => {
                self.lay(from, flip, out, |c| {
                    let table = &table[c];
                    move |v: u8| table[usize::from(v)]
                });
            }
            Table::None => self.lay(from, flip, out, |_| |v: u8| [v]),
        }
    }

    /// Does the same as [`Writer::u8s`] for `u16`.
    pub fn u16s(&self, from: PixelRows<'_, u16>, flip: bool, out: &mut [u8]) {
        match self.numbers {
            Numbers::Stored => self.lay(from, flip, out, |_| u16::to_ne_bytes),
            _ => self.normalised(from, flip, out),
        }
    }

    /// Does the same as [`Writer::u8s`] for `f32`; batches of stored numbers get their original
    /// type back.
    pub fn f32s(&self, from: PixelRows<'_, f32>, flip: bool, out: &mut [u8]) {
        // Interpolated values are between whole numbers; the others are exact.
        let whole = f32::round_ties_even;
        match (self.numbers, self.stored) {
            (Numbers::Stored, Dtype::I8) => {
                self.lay(from, flip, out, |_| move |v: f32| [whole(v) as i8 as u8]);
            }
            (Numbers::Stored, Dtype::I16) => {
                self.lay(from, flip, out, |_| move |v: f32| (whole(v) as i16).to_ne_bytes());
            }
            (Numbers::Stored, Dtype::F16) => self.lay(from, flip, out, |_| half),
            (Numbers::Stored, Dtype::Bf16) => self.lay(from, flip, out, |_| brain),
            (Numbers::Stored, _) => self.lay(from, flip, out, |_| f32::to_ne_bytes),
            _ => self.normalised(from, flip, out),
        }
    }

    fn normalised<T: Value>(&self, from: PixelRows<'_, T>, flip: bool, out: &mut [u8]) {
        let number = |c: usize| {
            let [scale, mean, std] = self.channels[c];
            move |v: T| (v.number() / scale - mean) / std
        };
        match self.numbers {
            Numbers::Bf16 => self.lay(from, flip, out, |c| {
                let number = number(c);
                move |v| brain(number(v))
            }),
            Numbers::F16 => self.lay(from, flip, out, |c| {
                let number = number(c);
                move |v| half(number(v))
            }),
            Numbers::F32 | Numbers::Stored => self.lay(from, flip, out, |c| {
                let number = number(c);
                move |v| number(v).to_ne_bytes()
            }),
        }
    }

    /// Writes each value to its place; `number` converts a value of channel `c` of the batch.
    fn lay<T: Copy, F: Fn(T) -> [u8; N], const N: usize>(
        &self,
        from: PixelRows<'_, T>,
        flip: bool,
        out: &mut [u8],
        number: impl Fn(usize) -> F,
    ) {
        let PixelRows { values, width, channels, pitch } = from;
        let (cells, _) = out.as_chunks_mut::<N>();
        let rows = values.chunks(pitch * channels).filter_map(|row| row.get(..width * channels));
        match self.layout {
            AxisOrder::Contiguous => {
                let planes = cells.chunks_exact_mut(cells.len() / self.bands.len());
                for ((c, band), plane) in self.bands.iter().enumerate().zip(planes) {
                    let number = number(c);
                    for (row, line) in rows.clone().zip(plane.chunks_exact_mut(width)) {
                        channel(row, channels, *band, flip, line.iter_mut(), &number);
                    }
                }
            }
            AxisOrder::ChannelsLast => {
                let n = self.bands.len();
                for (row, line) in rows.zip(cells.chunks_exact_mut(width * n)) {
                    for (c, band) in self.bands.iter().enumerate() {
                        let cells = line[c..].iter_mut().step_by(n);
                        channel(row, channels, *band, flip, cells, number(c));
                    }
                }
            }
        }
    }
}

/// Writes channel `band` of a row of pixels to `cells`.
#[inline(always)]
fn channel<'a, T: Copy, const N: usize>(
    row: &[T],
    channels: usize,
    band: usize,
    flip: bool,
    cells: impl Iterator<Item = &'a mut [u8; N]>,
    number: impl Fn(T) -> [u8; N],
) {
    // RGB has its own branch: the loop is twice as fast with a constant step.
    match (channels, flip) {
        (3, false) => {
            row.as_chunks::<3>().0.iter().zip(cells).for_each(|(v, to)| *to = number(v[band]));
        }
        (3, true) => {
            let pixels = row.as_chunks::<3>().0.iter().rev();
            pixels.zip(cells).for_each(|(v, to)| *to = number(v[band]));
        }
        (_, false) => {
            let values = row[band..].iter().step_by(channels);
            values.zip(cells).for_each(|(v, to)| *to = number(*v));
        }
        (_, true) => {
            let pixels = row.chunks_exact(channels).rev();
            pixels.zip(cells).for_each(|(v, to)| *to = number(v[band]));
        }
    }
}

fn half(number: f32) -> [u8; 2] {
    f16::from_f32(number).to_ne_bytes()
}

fn brain(number: f32) -> [u8; 2] {
    bf16::from_f32(number).to_ne_bytes()
}

fn tables<const N: usize>(
    channels: &[[f32; 3]],
    bits: impl Fn(f32) -> [u8; N],
) -> Vec<[[u8; N]; 256]> {
    let of = |[scale, mean, std]: &[f32; 3]| {
        std::array::from_fn(|value| bits((value as f32 / scale - mean) / std))
    };
    channels.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 16;

    fn picture<T>(values: &[T], channels: usize) -> PixelRows<'_, T> {
        PixelRows { values, width: WIDTH, channels, pitch: WIDTH }
    }

    #[test]
    fn what_lies_between_rows_is_not_looked_at() {
        for (channels, numbers, layout) in [
            (3, Numbers::F32, AxisOrder::Contiguous),
            (3, Numbers::Stored, AxisOrder::ChannelsLast),
            (2, Numbers::Bf16, AxisOrder::Contiguous),
            (1, Numbers::Stored, AxisOrder::ChannelsLast),
        ] {
            let values: Vec<u8> = (0..WIDTH * 5 * channels).map(|i| (i * 7) as u8).collect();
            let rows = values.chunks(WIDTH * channels);
            let mut apart: Vec<u8> =
                rows.flat_map(|row| [row, &vec![255; 3 * channels]].concat()).collect();
            // The bytes may end with the last row.
            apart.truncate(apart.len() - 3 * channels);
            let bands = (0..channels).collect();
            let writer = Writer::new(numbers, layout, bands, Dtype::U8, &Normalise::scaled());
            for flip in [false, true] {
                let len = values.len() * writer.dtype().size_bytes() as usize;
                let (mut dense, mut found) = (vec![0; len], vec![0; len]);
                writer.u8s(picture(&values, channels), flip, &mut dense);
                let from = PixelRows { pitch: WIDTH + 3, ..picture(&apart, channels) };
                writer.u8s(from, flip, &mut found);
                assert_eq!(found, dense, "{channels} {numbers:?} {layout:?} {flip}");
            }
        }
    }

    /// Returns the place in a batch of value `i` of `[height, width, channels]`.
    fn place(i: usize, n: usize, channels: usize, flip: bool, layout: AxisOrder) -> usize {
        let (pixel, c) = (i / channels, i % channels);
        let (y, x) = (pixel / WIDTH, pixel % WIDTH);
        let pixel = y * WIDTH + if flip { WIDTH - 1 - x } else { x };
        match layout {
            AxisOrder::Contiguous => c * n / channels + pixel,
            AxisOrder::ChannelsLast => pixel * channels + c,
        }
    }

    #[test]
    fn numbers_are_the_plain_formula_in_every_kind_layout_and_depth() {
        for channels in [1, 3, 5] {
            let how = Normalise {
                scale: None,
                mean: (0..channels).map(|c| 0.4 + c as f32 * 0.07).collect(),
                std: (0..channels).map(|c| 0.2 + c as f32 * 0.011).collect(),
            };
            let n = WIDTH * 48 * channels;
            let bytes: Vec<u8> = (0..n).map(|i| (i * 7 / 3) as u8).collect();
            let words: Vec<u16> = (0..n).map(|i| (i * 977) as u16).collect();
            let bands: Vec<usize> = (0..channels).collect();
            for layout in [AxisOrder::Contiguous, AxisOrder::ChannelsLast] {
                for flip in [false, true] {
                    for numbers in [Numbers::F32, Numbers::Bf16, Numbers::F16] {
                        for stored in [Dtype::U8, Dtype::U16] {
                            let writer = Writer::new(numbers, layout, bands.clone(), stored, &how);
                            let size = writer.dtype().size_bytes() as usize;
                            let mut out = vec![0xA5; n * size];
                            let of = |i: usize| match stored {
                                Dtype::U8 => f32::from(bytes[i]) / 255.0,
                                _ => f32::from(words[i]) / 65_535.0,
                            };
                            if stored == Dtype::U8 {
                                let from = picture(&bytes, channels);
                                writer.u8s(from, flip, &mut out);
                            } else {
                                let from = picture(&words, channels);
                                writer.u16s(from, flip, &mut out);
                            }
                            for i in 0..n {
                                let c = i % channels;
                                let expected = (of(i) - how.mean[c]) / how.std[c];
                                let expected = match numbers {
                                    Numbers::F32 => expected.to_ne_bytes().to_vec(),
                                    Numbers::Bf16 => brain(expected).to_vec(),
                                    _ => half(expected).to_vec(),
                                };
                                let at = place(i, n, channels, flip, layout) * size;
                                assert_eq!(out[at..at + size], expected);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bands_are_taken_in_the_order_named() {
        let pixels: Vec<u16> = (0..WIDTH as u16 * 5).map(|i| i.wrapping_mul(1009)).collect();
        let bands = vec![4, 0, 0];
        let how = Normalise::scaled();
        let writer = Writer::new(Numbers::Stored, AxisOrder::ChannelsLast, bands, Dtype::U16, &how);
        let mut out = vec![0; WIDTH * 3 * 2];
        writer.u16s(picture(&pixels, 5), false, &mut out);
        for (pixel, out) in pixels.chunks(5).zip(out.chunks(6)) {
            let expected = [pixel[4], pixel[0], pixel[0]].map(u16::to_ne_bytes);
            assert_eq!(out, expected.as_flattened());
        }
    }

    #[test]
    fn types_that_are_mixed_as_floats_come_back_as_they_were() {
        let values: Vec<f32> = (0..WIDTH).map(|i| i as f32 * 100.0 - 800.0).collect();
        let check = |stored, bits: &dyn Fn(f32) -> Vec<u8>| {
            let (numbers, how) = (Numbers::Stored, Normalise::scaled());
            let writer = Writer::new(numbers, AxisOrder::Contiguous, vec![0], stored, &how);
            let mut out = vec![0; WIDTH * stored.size_bytes() as usize];
            writer.f32s(picture(&values, 1), false, &mut out);
            assert_eq!(out, values.iter().flat_map(|v| bits(*v)).collect::<Vec<_>>(), "{stored:?}");
        };
        check(Dtype::I16, &|v| (v as i16).to_ne_bytes().to_vec());
        check(Dtype::I8, &|v| vec![v as i8 as u8]);
        check(Dtype::F32, &|v| v.to_ne_bytes().to_vec());
        check(Dtype::F16, &|v| half(v).to_vec());
        check(Dtype::Bf16, &|v| brain(v).to_vec());
    }

    #[test]
    fn what_does_not_fit_the_channels_is_told() {
        let how = Normalise::default();
        assert_eq!(how.fault(3), None);
        assert!(how.fault(5).is_some_and(|told| told.contains("3 means")));
        assert_eq!(Normalise::scaled().fault(5), None);
        let zero = Normalise { std: vec![0.0], ..Normalise::scaled() };
        assert!(zero.fault(1).is_some_and(|told| told.contains("std is [0.0]")));
    }
}
