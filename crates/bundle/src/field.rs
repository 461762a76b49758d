//! The named parts of a sample. Format: `FORMAT.md`, "Fields".

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Axes, Dtype};

const IMAGE: &str = "image";
const LABEL: &str = "label";
const MASK: &str = "mask";
/// The value of each image that means "nothing was measured here", where they differ.
pub(crate) const IMAGE_NODATA: &str = "image_nodata";

/// One named part of every sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "FieldLine", into = "FieldLine")]
pub struct Field {
    /// Name of the field; by convention `image` is the input, and `label` the class index.
    pub name: FieldName,
    /// How a value is stored.
    pub kind: FieldKind,
    /// What the axes of a fixed field's values mean, if that is recorded; see
    /// [`Field::known_axes`].
    pub axes: Option<Axes>,
    /// The field on whose pixels this field's values lie, so that they are cropped, mirrored and
    /// resized with it: `image`, or none. See [`Field::is_on_image`].
    pub grid: Option<FieldName>,
    /// Spectral bands, in the order of axis `c`.
    pub bands: Vec<Band>,
    /// The value that means "nothing was measured here".
    pub nodata: Option<Nodata>,
    /// That values are classes of pixels, and the number that says that a pixel has none.
    pub ignore: Option<i64>,
    /// Coordinate reference system, such as `EPSG:32632`.
    pub crs: Option<String>,
    /// Affine transform from pixel to CRS, the six numbers of GDAL's order.
    pub transform: Option<[Decimal; 6]>,
}

/// How the values of a field are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldKind {
    /// Every value has this type and shape, row-major.
    Fixed {
        /// Element type.
        dtype: Dtype,
        /// Shape of one value; empty for a scalar.
        shape: Vec<u64>,
    },
    /// Opaque bytes of varying length.
    Bytes {
        /// The media types that the bytes may have, such as `image/jpeg`; sorted.
        media_types: Vec<String>,
    },
}

/// [`Field`] as it is written: the members of its kind are between its own members.
#[derive(Serialize, Deserialize)]
struct FieldLine {
    name: FieldName,
    kind: KindName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dtype: Option<Dtype>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_types: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    axes: Option<Axes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grid: Option<FieldName>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bands: Vec<Band>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nodata: Option<Decimal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nodata_float: Option<NodataFloat>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ignore: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crs: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transform: Option<[Decimal; 6]>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindName {
    Fixed,
    Bytes,
}

impl TryFrom<FieldLine> for Field {
    type Error = String;

    fn try_from(line: FieldLine) -> Result<Self, String> {
        let FieldLine { name, kind, dtype, shape, media_types, axes, grid, bands, .. } = line;
        let FieldLine { nodata, nodata_float, ignore, crs, transform, .. } = line;
        let missing = |kind, member| format!("field `{name}` of kind `{kind}` has no `{member}`");
        let kind = match kind {
            KindName::Fixed => FieldKind::Fixed {
                dtype: dtype.ok_or_else(|| missing("fixed", "dtype"))?,
                shape: shape.ok_or_else(|| missing("fixed", "shape"))?,
            },
            KindName::Bytes => FieldKind::Bytes {
                media_types: media_types.ok_or_else(|| missing("bytes", "media_types"))?,
            },
        };
        let nodata = match (nodata, nodata_float) {
            (Some(_), Some(_)) => {
                return Err(format!(
                    "field `{name}` has both `nodata` and `nodata_float`, expected one"
                ));
            }
            (Some(Decimal(text)), None) | (None, Some(NodataFloat(text))) => Some(Nodata(text)),
            (None, None) => None,
        };
        Ok(Self { name, kind, axes, grid, bands, nodata, ignore, crs, transform })
    }
}

impl From<Field> for FieldLine {
    fn from(field: Field) -> Self {
        let Field { name, kind, axes, grid, bands, nodata, ignore, crs, transform } = field;
        let (kind, dtype, shape, media_types) = match kind {
            FieldKind::Fixed { dtype, shape } => (KindName::Fixed, Some(dtype), Some(shape), None),
            FieldKind::Bytes { media_types } => (KindName::Bytes, None, None, Some(media_types)),
        };
        // Readers that do not know `nodata_float` refuse other numbers in `nodata`.
        let (nodata, nodata_float) = match nodata {
            None => (None, None),
            Some(Nodata(text)) => match Decimal::parse(&text) {
                Some(decimal) => (Some(decimal), None),
                None => (None, Some(NodataFloat(text))),
            },
        };
        Self {
            name,
            kind,
            dtype,
            shape,
            media_types,
            axes,
            grid,
            bands,
            nodata,
            nodata_float,
            ignore,
            crs,
            transform,
        }
    }
}

/// One spectral band.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// The sensor's name for the band, such as `B04`.
    pub name: String,
    /// Central wavelength in nanometres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wavelength_nm: Option<Decimal>,
}

impl Field {
    /// The number of bytes one value takes, or `None` when it varies or overflows.
    #[must_use]
    pub fn size_bytes(&self) -> Option<u64> {
        match &self.kind {
            FieldKind::Bytes { .. } => None,
            FieldKind::Fixed { dtype, shape } => {
                shape.iter().try_fold(dtype.size_bytes(), |acc, n| acc.checked_mul(*n))
            }
        }
    }

    /// Whether values vary in length.
    #[must_use]
    pub fn is_bytes(&self) -> bool {
        matches!(self.kind, FieldKind::Bytes { .. })
    }

    /// Whether this is the class index, `label`.
    #[must_use]
    pub fn is_label(&self) -> bool {
        self.name.as_str() == LABEL
    }

    /// Returns whether values depend on the order of the classes, as those of `labels` and
    /// `box_labels` do. This is false for `label`, since a view can give other numbers.
    #[must_use]
    pub fn depends_on_classes(&self) -> bool {
        matches!(self.name.as_str(), "labels" | "box_labels")
    }

    /// Whether values are classes of pixels: `mask`, or a field with a number for pixels that have
    /// none.
    #[must_use]
    pub fn is_mask(&self) -> bool {
        self.name.is_mask() || self.ignore.is_some()
    }

    /// Whether this is the input, `image`.
    #[must_use]
    pub fn is_image(&self) -> bool {
        self.name.as_str() == IMAGE
    }

    /// The type and shape of a fixed field's values.
    #[must_use]
    pub fn as_fixed(&self) -> Option<(Dtype, &[u64])> {
        match &self.kind {
            FieldKind::Bytes { .. } => None,
            FieldKind::Fixed { dtype, shape } => Some((*dtype, shape)),
        }
    }

    /// Whether values lie on the pixels of `image`. Those of masks always do.
    #[must_use]
    pub fn is_on_image(&self) -> bool {
        self.is_mask() || self.grid.as_ref().is_some_and(|of| of.as_str() == IMAGE)
    }

    /// The axes of a fixed field: as recorded, or `yxc` and `yx` where nothing is recorded and no
    /// other reading is likely. `None` if there may be another reading.
    #[must_use]
    pub fn known_axes(&self) -> Option<Axes> {
        if self.axes.is_some() {
            return self.axes.clone();
        }
        let (dtype, shape) = self.as_fixed()?;
        Axes::of_array(dtype, shape).filter(|axes| *axes != Axes::cyx())
    }

    /// A field of opaque bytes without further description.
    #[must_use]
    pub fn bytes(name: FieldName, mut media_types: Vec<String>) -> Self {
        media_types.sort();
        media_types.dedup();
        Self::plain(name, FieldKind::Bytes { media_types })
    }

    /// A fixed field without further description.
    #[must_use]
    pub fn fixed(name: FieldName, dtype: Dtype, shape: Vec<u64>) -> Self {
        Self::plain(name, FieldKind::Fixed { dtype, shape })
    }

    /// The class index: `label`, i64, scalar.
    #[must_use]
    pub fn label() -> Self {
        Self::fixed(FieldName::label(), Dtype::I64, Vec::new())
    }

    fn plain(name: FieldName, kind: FieldKind) -> Self {
        Self {
            name,
            kind,
            axes: None,
            grid: None,
            bands: Vec::new(),
            nodata: None,
            ignore: None,
            crs: None,
            transform: None,
        }
    }
}

/// A field's name: a lower-case letter, then lower-case letters, digits or
/// `_`; at most 64 bytes; never `key` or `block`, which the index uses.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FieldName(String);

impl FieldName {
    /// Checks `text`; `None` when it breaks the rule above.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let first = text.bytes().next()?;
        let ok = first.is_ascii_lowercase()
            && text.len() <= 64
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            && !matches!(text, "key" | "block");
        ok.then(|| Self(text.to_owned()))
    }

    /// The input of a sample: `image`.
    #[must_use]
    pub fn image() -> Self {
        Self(IMAGE.to_owned())
    }

    /// The class index of a sample: `label`.
    #[must_use]
    pub fn label() -> Self {
        Self(LABEL.to_owned())
    }

    /// Whether this is the first, or only, classes of pixels: `mask`.
    #[must_use]
    pub fn is_mask(&self) -> bool {
        self.0 == MASK
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of the other coordinate of a point, where a name may be one of a coordinate: `nose_y` for
/// `nose_x`, `y1` for `x1`. A name is one where the other is there, too.
#[must_use]
pub fn other_coordinate(name: &str) -> Option<String> {
    let other = |letter: &str| match letter {
        "x" => Some("y"),
        "y" => Some("x"),
        "X" => Some("Y"),
        "Y" => Some("X"),
        _ => None,
    };
    let is_mark = |c: char| matches!(c, '_' | '-' | '.' | ' ');
    if let Some((rest, letter)) = name.len().checked_sub(1).and_then(|at| name.split_at_checked(at))
        && (rest.is_empty() || rest.ends_with(is_mark))
        && let Some(letter) = other(letter)
    {
        return Some(format!("{rest}{letter}"));
    }
    let (letter, rest) = name.split_at_checked(1)?;
    let is_start = rest.starts_with(|c: char| is_mark(c) || c.is_ascii_digit());
    other(letter).filter(|_| is_start).map(|letter| format!("{letter}{rest}"))
}

impl TryFrom<String> for FieldName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
            .ok_or_else(|| format!("`{}` is not a valid field name", text.escape_debug()))
    }
}

impl From<FieldName> for String {
    fn from(name: FieldName) -> Self {
        name.0
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A real number as decimal text (`-?digits[.digits]`), so that canonical
/// JSON needs no rule for floating point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Decimal(String);

impl Decimal {
    /// Checks `text`; at most 64 bytes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let ok = match unsigned.split_once('.') {
            Some((whole, fraction)) => digits(whole) && digits(fraction),
            None => digits(unsigned),
        };
        (ok && text.len() <= 64).then(|| Self(text.to_owned()))
    }

    /// The number as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Decimal {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
            .ok_or_else(|| format!("`{}` is not a decimal number", text.escape_debug()))
    }
}

impl From<Decimal> for String {
    fn from(decimal: Decimal) -> Self {
        decimal.0
    }
}

/// A number that means "nothing was measured here", as text: a [`Decimal`], or one that decimals
/// cannot represent: `NaN`, `inf`, `-inf`, or with an exponent, such as `-1.7e308`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodata(String);

impl Nodata {
    /// Checks `text`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let decimal = Decimal::parse(text).map(|Decimal(text)| text);
        decimal.or_else(|| NodataFloat::parse(text).map(|NodataFloat(text)| text)).map(Self)
    }

    /// Returns the shortest text of a number: with an exponent only if it takes more than the 64
    /// bytes of a decimal without.
    #[must_use]
    pub fn of(value: f64) -> Self {
        let text = value.to_string();
        let is_decimal = Decimal::parse(&text).is_some();
        Self(if value.is_finite() && !is_decimal { format!("{value:e}") } else { text })
    }

    /// The number as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the nearest `f64`.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }
}

/// A [`Nodata`] that a decimal cannot represent.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct NodataFloat(String);

impl NodataFloat {
    fn parse(text: &str) -> Option<Self> {
        let with_exponent = || {
            let (number, exponent) = text.split_once('e')?;
            let digits = exponent.strip_prefix('-').unwrap_or(exponent);
            let whole = (1..=3).contains(&digits.len()) && !digits.contains('.');
            let value: f64 = text.parse().ok()?;
            (whole && Decimal::parse(number).is_some() && Decimal::parse(digits).is_some())
                .then_some(value)
        };
        let ok = matches!(text, "NaN" | "inf" | "-inf")
            || (text.len() <= 64 && with_exponent().is_some_and(f64::is_finite));
        ok.then(|| Self(text.to_owned()))
    }
}

impl TryFrom<String> for NodataFloat {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| {
            format!(
                "`{}` is not `NaN`, `inf`, `-inf` or a number with an exponent",
                text.escape_debug()
            )
        })
    }
}

impl From<NodataFloat> for String {
    fn from(number: NodataFloat) -> Self {
        number.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_of_a_point_have_names_that_differ_in_one_letter() {
        let cases = [
            ("x", Some("y")),
            ("nose_y", Some("nose_x")),
            ("Nose X", Some("Nose Y")),
            ("x1", Some("y1")),
            ("y_left_eye", Some("x_left_eye")),
            ("max", None),
            ("xray", None),
            ("", None),
            ("ä", None),
        ];
        for (name, expected) in cases {
            assert_eq!(other_coordinate(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn nodata_is_any_number_and_decimals_are_written_as_before() {
        let lowest = -340_282_346_638_528_860_000_000_000_000_000_000_000.0;
        for (value, text, member) in [
            (-9999.0, "-9999", "nodata"),
            (0.5, "0.5", "nodata"),
            (lowest, "-340282346638528860000000000000000000000", "nodata"),
            (f64::MIN, "-1.7976931348623157e308", "nodata_float"),
            (1e-80, "1e-80", "nodata_float"),
            (f64::NAN, "NaN", "nodata_float"),
            (f64::NEG_INFINITY, "-inf", "nodata_float"),
        ] {
            let nodata = Nodata::of(value);
            assert_eq!((nodata.as_str(), Nodata::parse(text)), (text, Some(nodata.clone())));
            assert!(nodata.value() == value || value.is_nan());
            let mut field = Field::fixed(FieldName::image(), Dtype::F32, vec![2]);
            field.nodata = Some(nodata);
            let json = serde_json::to_string(&field).unwrap();
            assert!(json.contains(&format!("\"{member}\":\"{text}\"")), "{json}");
            assert_eq!(serde_json::from_str::<Field>(&json).unwrap(), field);
        }
        for bad in ["", "nan", "infinity", "1e", "e3", "1e3.5", "1e999", "1e0003", "1e3e3"] {
            assert_eq!(Nodata::parse(bad), None, "{bad}");
        }
        let both = r#"{"name":"a","kind":"fixed","dtype":"u8","shape":[],"nodata":"1","nodata_float":"NaN"}"#;
        assert!(serde_json::from_str::<Field>(both).unwrap_err().to_string().contains("both"));
    }

    #[test]
    fn names_follow_the_rule() {
        for good in ["image", "label", "mask_2", "b04"] {
            assert!(FieldName::parse(good).is_some(), "{good}");
        }
        for bad in ["", "Image", "_pad", "2d", "a.b", "key", "block", "é", &"a".repeat(65)] {
            assert!(FieldName::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn axes_that_were_not_recorded_are_those_of_pictures_or_unknown() {
        let axes = |dtype, shape: &[u64], recorded: Option<&str>| {
            let field = Field::fixed(FieldName::image(), dtype, shape.to_vec());
            let axes = recorded.map(|axes| axes.parse().unwrap());
            Field { axes, ..field }.known_axes().map(String::from)
        };
        assert_eq!(axes(Dtype::U8, &[2, 2, 3], None).as_deref(), Some("yxc"));
        assert_eq!(axes(Dtype::F32, &[64, 64, 13], None).as_deref(), Some("yxc"));
        assert_eq!(axes(Dtype::F32, &[64, 64], None).as_deref(), Some("yx"));
        assert_eq!(axes(Dtype::U16, &[12, 64, 64], None), None);
        assert_eq!(axes(Dtype::U16, &[12, 64, 64], Some("cyx")).as_deref(), Some("cyx"));
        assert_eq!(axes(Dtype::U16, &[4, 12, 64, 64], None), None);
    }

    #[test]
    fn decimals_follow_the_rule() {
        for good in ["0", "-9999", "664.6", "10.0"] {
            assert!(Decimal::parse(good).is_some(), "{good}");
        }
        for bad in ["", "-", ".5", "5.", "1e3", "NaN", "+1", "1.2.3"] {
            assert!(Decimal::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_field_that_overflows_has_no_size() {
        let name = FieldName::image();
        assert_eq!(Field::fixed(name.clone(), Dtype::F64, vec![u64::MAX, 2]).size_bytes(), None);
        assert_eq!(Field::fixed(name, Dtype::U16, vec![3, 5]).size_bytes(), Some(30));
    }
}
