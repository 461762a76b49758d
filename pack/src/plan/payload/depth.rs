//! Finds the pixel type of a set of images before anything is planned.

use std::collections::BTreeSet;

use gular_bundle::{Axes, Dtype, FieldName, Nodata};
use gular_codec::{Fit, Limits};

use super::{Frame, FrameOptions, OfFile, PayloadOptions, StoredDepth};
use crate::facts::{Doubt, Grids, Start, counted, setting};
use crate::plan::{PlanError, PlanOptions};
use crate::source::{Inputs, OnBadInput, Source, array_start, media_type_of};

/// The depths that occur, each with the first key that has it.
///
/// Only 25 bytes of PNG files are read; JPEG has 8 bits and is not opened. A file that cannot be
/// read is ignored here, since packing it will fail.
#[derive(Debug, Default)]
pub(crate) struct Depths {
    u8: Option<String>,
    u16: Option<String>,
    /// Types and shapes of arrays.
    arrays: Vec<ArraysOfKind>,
    /// Whether one of the arrays has a location on the Earth.
    is_geo: bool,
    /// Whether a JPEG decoder makes the numbers of one of the arrays.
    is_jpeg: bool,
    /// The names of the bands of the first TIFF, and its key.
    bands: Option<(Vec<String>, String)>,
    /// The wavelengths that bands have, by their names; two lists that differ are enough.
    wavelengths: BTreeSet<Vec<(String, String)>>,
    /// What else a file says of its array.
    of_files: BTreeSet<OfFile>,
    /// The values that mean "not measured"; two that differ are enough.
    nodata: Vec<Option<Nodata>>,
    /// Where the arrays are on the Earth.
    grids: Grids,
}

/// Arrays of one type and shape.
#[derive(Debug)]
struct ArraysOfKind {
    kind: ArrayKind,
    /// The first key.
    first: String,
    n: u64,
    /// The fewest and the most columns and rows, if arrays are brought to one size.
    sides: [(u32, u32); 2],
}

/// What must be the same for all arrays of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ArrayKind {
    dtype: Dtype,
    shape: Vec<u64>,
    axes: Option<Axes>,
}

/// The properties that all arrays of a set share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Common {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    /// What the axes mean.
    pub(crate) axes: Option<Axes>,
    pub(crate) is_geo: bool,
    /// Whether a JPEG decoder makes some of the numbers.
    pub(crate) is_jpeg: bool,
    /// Names of the bands of the first TIFF, in the order that all get.
    pub(crate) bands: Vec<String>,
    /// Their wavelengths in nanometres, where files agree; empty for bands that have none.
    pub(crate) wavelengths: Vec<String>,
    /// What else a file says of its array.
    pub(crate) of_files: Vec<OfFile>,
    /// The value that means there is none, where all have the same.
    pub(crate) nodata: Option<String>,
    /// Whether files differ in that value.
    pub(crate) nodatas: bool,
}

/// The rows and columns of arrays that are brought to one size; no array has as many.
const UNSIZED: u64 = u64::MAX;

/// The axes of volumes at several times, and of volumes with channels.
const TIMES: &str = "tzyx";
const CHANNELS: &str = "czyx";

/// More types and shapes than these are not told apart.
const MOST_KINDS: usize = 256;

impl Depths {
    /// Looks at one file of `bytes` bytes, when `options` leave something to be found; what an array is.
    pub(crate) fn look(
        &mut self,
        options: &PlanOptions,
        source: &Source,
        key: &str,
        bytes: u64,
    ) -> Option<Start> {
        if options.inputs == Inputs::Arrays {
            return self.look_at_array(options, source, key, bytes);
        }
        self.look_at_picture(options, source, key);
        None
    }

    /// What the user should know of the locations of the arrays.
    pub(crate) fn doubts(&self, options: &PlanOptions) -> Vec<Doubt> {
        let are_times = |of: &ArraysOfKind| of.kind.axes.as_ref().map(Axes::as_str) == Some(TIMES);
        let is_given = options.axes.contains_key(&FieldName::image());
        let times = self.arrays.iter().any(are_times) && !is_given;
        let times = times.then(|| {
            let text = format!(
                "the volumes have a fourth axis, which is read as times, as NIfTI has it: where it has channels, such as the sequences of MRI, the axes are `{CHANNELS}`"
            );
            Doubt::new(text, Vec::new())
        });
        let text = "the files give the same bands different wavelengths, so the bundle has none";
        let differ = self.wavelengths.len() > 1;
        let differ = differ.then(|| Doubt::new(text.to_owned(), Vec::new()));
        let sides = self.arrays.iter().map(|of| of.sides).reduce(wider);
        let sizes = sides.filter(|[least, most]| least != most).map(|[(w, h), (width, height)]| {
            let text =
                format!("the arrays have {w} x {h} to {width} x {height} pixels, and get one size");
            Doubt::new(text, Vec::new())
        });
        self.grids.doubts().into_iter().chain(differ).chain(sizes).chain(times).collect()
    }

    /// Records a picture of 8 bits and this shape.
    pub(crate) fn pixels(&mut self, shape: [u64; 3], key: &str) {
        if self.arrays.is_empty() {
            let (dtype, shape, axes) = (Dtype::U8, shape.to_vec(), Some(Axes::yxc()));
            let kind = ArrayKind { dtype, shape, axes };
            let sides = <[(u32, u32); 2]>::default();
            self.arrays.push(ArraysOfKind { kind, first: key.to_owned(), n: 1, sides });
        }
    }

    fn look_at_picture(&mut self, options: &PlanOptions, source: &Source, key: &str) {
        let PayloadOptions::Raw(raw) = &options.payload else { return };
        if raw.depth.is_some() {
            return;
        }
        let read = || source.start::<25>(key).ok().and_then(|start| gular_codec::bit_depth(&start));
        let bits = match media_type_of(key, options.inputs) {
            Some("image/png") => read(),
            Some(_) => Some(8),
            // A file without an extension may be any picture.
            None => read().or(Some(8)),
        };
        let Some(bits) = bits else { return };
        let first = if bits == 16 { &mut self.u16 } else { &mut self.u8 };
        // Independent of the order in which the folder was listed.
        if first.as_deref().is_none_or(|first| key < first) {
            *first = Some(key.to_owned());
        }
    }

    fn look_at_array(
        &mut self,
        options: &PlanOptions,
        source: &Source,
        key: &str,
        bytes: u64,
    ) -> Option<Start> {
        let limits = Limits { max_pixels: options.max_pixels };
        let start = array_start(source, key, bytes, &limits, options.pages).ok()?;
        self.add_array(options, &start, key);
        Some(start)
    }

    /// Records what the headers of an array say.
    pub(crate) fn add_array(&mut self, options: &PlanOptions, start: &Start, key: &str) {
        let mut shape = start.shape.clone();
        if let (Some(tile), [.., height, width, _]) = (options.tile, shape.as_mut_slice()) {
            (*height, *width) = (tile.size.into(), tile.size.into());
        }
        let sides = options.frame.and_then(|_| without_size(options, start, &mut shape));
        let sides = [sides.unwrap_or_default(); 2];
        let kind = ArrayKind { dtype: start.dtype, shape, axes: start.axes.clone() };
        if let Some(known) = self.arrays.iter_mut().find(|known| known.kind == kind) {
            known.add(1, sides);
            if key < known.first.as_str() {
                key.clone_into(&mut known.first);
            }
        } else if self.arrays.len() < MOST_KINDS {
            self.arrays.push(ArraysOfKind { kind, first: key.to_owned(), n: 1, sides });
        }
        self.is_jpeg |= start.is_jpeg;
        let nodata = start.geo.as_ref().and_then(|geo| geo.nodata).map(Nodata::of);
        if self.nodata.len() < MOST_KINDS && !self.nodata.contains(&nodata) {
            self.nodata.push(nodata);
        }
        if let Some(geo) = &start.geo {
            self.is_geo |= geo.crs.is_some() || geo.transform.is_some();
            self.grids.add(geo);
            self.of_files.extend(OfFile::of(geo));
            if !geo.wavelengths.is_empty() && self.wavelengths.len() < 2 {
                let text = |n: &Option<f64>| n.map(|n| n.to_string()).unwrap_or_default();
                let mut of: Vec<_> =
                    geo.bands.iter().cloned().zip(geo.wavelengths.iter().map(text)).collect();
                of.sort_unstable();
                self.wavelengths.insert(of);
            }
            // Independent of the order in which the folder was listed.
            if self.bands.as_ref().is_none_or(|(_, first)| key < first.as_str()) {
                self.bands = Some((geo.bands.clone(), key.to_owned()));
            }
        }
    }

    /// Gives all series this many dates.
    pub(crate) fn fill_up(&mut self, n: u64) {
        let mut arrays: Vec<ArraysOfKind> = Vec::new();
        for mut of in std::mem::take(&mut self.arrays) {
            if let [dates, _, _, _] = of.kind.shape.as_mut_slice() {
                *dates = n;
            }
            match arrays.iter_mut().find(|known| known.kind == of.kind) {
                Some(known) => {
                    known.add(of.n, of.sides);
                    known.first = std::mem::take(&mut known.first).min(of.first);
                }
                None => arrays.push(of),
            }
        }
        self.arrays = arrays;
    }

    /// Returns the properties that all arrays share, or most of them if the others are left out;
    /// `axes` are those that the user gave, and `frame` says how sizes become one.
    pub(crate) fn arrays(
        mut self,
        axes: Option<&Axes>,
        on_error: OnBadInput,
        frame: Option<FrameOptions>,
    ) -> Result<(Common, Option<Frame>), PlanError> {
        self.arrays.sort_by(|a, b| b.n.cmp(&a.n).then_with(|| a.first.cmp(&b.first)));
        let mut arrays = self.arrays.into_iter();
        let (nodata, nodatas) = common_nodata(&self.nodata);
        let Self { is_geo, is_jpeg, bands, .. } = self;
        let bands = bands.map(|(names, _)| names).unwrap_or_default();
        let mut wavelengths = Vec::new();
        if let (Some(of), 1) = (self.wavelengths.first(), self.wavelengths.len()) {
            let of_band = |name: &String| of.iter().find(|(of, _)| of == name);
            let text = |name| of_band(name).map(|(_, n)| n.clone()).unwrap_or_default();
            wavelengths = bands.iter().map(text).collect();
        }
        let of_files = self.of_files.into_iter().collect();
        let common = Common {
            dtype: Dtype::U8,
            shape: Vec::new(),
            axes: None,
            is_geo,
            is_jpeg,
            bands,
            wavelengths,
            of_files,
            nodata,
            nodatas,
        };
        // If no array can be read, each gives its own error when it is packed.
        let made = |least, most| {
            let FrameOptions { fit, size } = frame?;
            Some(Frame { fit, size: size.unwrap_or(if fit == Fit::Crop { least } else { most }) })
        };
        let Some(ArraysOfKind { mut kind, first, n, sides: [least, most] }) = arrays.next() else {
            return Ok((common, made((0, 0), (0, 0))));
        };
        if let (Some(second), OnBadInput::Fail) = (arrays.next(), on_error) {
            let of = |kind: &ArrayKind| {
                let ArrayKind { dtype, shape, axes } = kind;
                let axes = axes.as_ref().map_or_else(String::new, |axes| format!(" {axes}"));
                let sides = shape.iter().map(|n| match *n {
                    UNSIZED => "…".to_owned(),
                    n => n.to_string(),
                });
                (format!("{dtype} [{}]", sides.collect::<Vec<_>>().join(", ")), axes)
            };
            let ((mut found, axes), (mut other, other_axes)) = (of(&kind), of(&second.kind));
            if found == other {
                (found, other) = (found + &axes, other + &other_axes);
            }
            // Along the axes other than rows and columns.
            let others = |ArrayKind { shape, axes, .. }: &ArrayKind| {
                let axes = axes.as_ref()?.as_str().chars().zip(shape.iter().copied());
                Some(axes.filter(|(axis, _)| !matches!(axis, 'y' | 'x')).collect::<Vec<_>>())
            };
            let only_size = kind.dtype == second.kind.dtype
                && kind.axes == second.kind.axes
                && others(&kind).is_some()
                && others(&kind) == others(&second.kind);
            let n_others = second.n + arrays.map(|of| of.n).sum::<u64>();
            let most = format!("{} {found}, such as `{first}`", counted(n, "is", "are"));
            let others =
                format!("{n_others} of another type or shape, such as `{}`: {other}", second.first);
            return Err(PlanError::MixedArrays { most, others, only_size });
        }
        let frame = made(least, most);
        if frame.is_some() && !kind.shape.contains(&UNSIZED) {
            let text = format!(
                "`{first}` cannot be brought to another size: that takes axes in which rows are followed by columns, such as `yxc` or `cyx`"
            );
            return Err(setting(&["fit"], text));
        }
        if let Some(Frame { size: (width, height), .. }) = frame {
            let sides = kind.shape.iter_mut().filter(|n| **n == UNSIZED);
            sides.zip([height, width]).for_each(|(n, side)| *n = side.into());
        }
        let ArrayKind { dtype, shape, axes: of_format } = kind;
        let axes = array_axes(&first, (dtype, &shape), of_format, axes)?;
        Ok((Common { dtype, shape, axes: Some(axes), ..common }, frame))
    }

    /// Returns the depth of all images.
    pub(crate) fn depth(self) -> Result<StoredDepth, PlanError> {
        match (self.u8, self.u16) {
            (Some(narrow), Some(wide)) => Err(PlanError::MixedDepth { narrow, wide }),
            (None, Some(_)) => Ok(StoredDepth::U16),
            (_, None) => Ok(StoredDepth::U8),
        }
    }
}

/// Marks rows and columns in `shape` as those that the frame says, and returns columns and rows;
/// `None` if they are not known, or not side by side.
fn without_size(options: &PlanOptions, start: &Start, shape: &mut [u64]) -> Option<(u32, u32)> {
    let given = options.axes.get(&FieldName::image()).cloned().flatten();
    let axes = start.axes.clone().or(given).or_else(|| Axes::of_array(start.dtype, shape))?;
    let grid = axes.grid(shape).filter(|_| axes.as_str().contains("yx"))?;
    let size = (u32::try_from(grid.width).ok()?, u32::try_from(grid.height).ok()?);
    for letter in ['y', 'x'] {
        *shape.get_mut(axes.place(letter)?)? = UNSIZED;
    }
    Some(size)
}

impl ArraysOfKind {
    fn add(&mut self, n: u64, sides: [(u32, u32); 2]) {
        self.n += n;
        self.sides = wider(self.sides, sides);
    }
}

/// The fewest and the most columns and rows of two.
fn wider([least, most]: [(u32, u32); 2], [a, b]: [(u32, u32); 2]) -> [(u32, u32); 2] {
    [(least.0.min(a.0), least.1.min(a.1)), (most.0.max(b.0), most.1.max(b.1))]
}

/// The axes of the array `key`: those that its format gives, or the user, or its shape
/// if that has one reading.
pub(crate) fn array_axes(
    key: &str,
    (dtype, shape): (Dtype, &[u64]),
    of_format: Option<Axes>,
    given: Option<&Axes>,
) -> Result<Axes, PlanError> {
    let wrong = |reason: String| PlanError::WrongAxes { key: key.to_owned(), reason };
    if !(1..=Axes::MOST).contains(&shape.len()) {
        return Err(PlanError::NoAxes { key: key.to_owned(), shape: shape.to_vec() });
    }
    match (of_format, given) {
        // What NIfTI has for times is as often for channels: MRI's sequences, in the Decathlon.
        (Some(found), Some(given)) if found.as_str() == TIMES && given.as_str() == CHANNELS => {
            Ok(given.clone())
        }
        (Some(found), Some(given)) if found != *given => {
            Err(wrong(format!("its format has the axes `{found}`, not `{given}`")))
        }
        (None, Some(given)) if given.n() != shape.len() => {
            Err(wrong(format!("it has the shape {shape:?}, not the axes `{given}`")))
        }
        (Some(axes), _) => Ok(axes),
        (None, Some(given)) => Ok(given.clone()),
        (None, None) => Axes::of_array(dtype, shape).ok_or_else(|| PlanError::UnknownAxes {
            key: key.to_owned(),
            field: FieldName::image(),
            shape: shape.to_vec(),
        }),
    }
}

/// Returns the value that means "not measured" in all arrays, and whether they differ in it. NaN
/// means it in any case, so an array that does not say so is like one that does.
fn common_nodata(found: &[Option<Nodata>]) -> (Option<String>, bool) {
    let is_nan = |nodata: &&Option<Nodata>| nodata.as_ref().is_some_and(|n| n.value().is_nan());
    let (nan, others) = (found.iter().find(is_nan), found.iter().filter(|one| !is_nan(one)));
    let text = |nodata: &Option<Nodata>| nodata.as_ref().map(|nodata| nodata.as_str().to_owned());
    match (nan, others.collect::<Vec<_>>().as_slice()) {
        (Some(nan), [] | [None]) => (text(nan), false),
        (None, [one]) => (text(one), false),
        (None, []) => (None, false),
        _ => (None, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodata_is_of_all_arrays_or_of_each() {
        let check = |found: &[Option<f64>], expected: (Option<&str>, bool)| {
            let found: Vec<_> = found.iter().map(|nodata| nodata.map(Nodata::of)).collect();
            let (nodata, differ) = common_nodata(&found);
            assert_eq!((nodata.as_deref(), differ), expected, "{found:?}");
        };
        check(&[], (None, false));
        check(&[None], (None, false));
        check(&[Some(-9999.0)], (Some("-9999"), false));
        check(&[Some(f64::MIN)], (Some("-1.7976931348623157e308"), false));
        check(&[None, Some(f64::NAN)], (Some("NaN"), false));
        check(&[Some(f64::NAN), Some(0.0)], (None, true));
        check(&[None, Some(0.0)], (None, true));
        check(&[Some(0.0), Some(255.0)], (None, true));
    }
}
