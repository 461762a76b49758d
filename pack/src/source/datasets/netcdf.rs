//! What netCDF-4 says about a variable, in attributes of an HDF5 dataset.
//!
//! Source: "Appendix C: netCDF-4 HDF5 format" of the netCDF documentation; CF conventions 1.11,
//! sections 2.5 and 8.1; HDF5 Dimension Scale Specification.

use gular_bundle::Axes;
use hdf5_reader::{Attribute, Dataset, Datatype};

/// Names of dimensions, in lower case, and the axis that each one is.
const DIMENSIONS: [(char, &[&str]); 5] = [
    ('y', &["y", "lat", "latitude", "row", "rows", "height", "northing"]),
    ('x', &["x", "lon", "longitude", "col", "cols", "column", "columns", "width", "easting"]),
    ('c', &["c", "band", "bands", "channel", "channels", "wavelength"]),
    ('t', &["t", "time", "date"]),
    ('z', &["z", "lev", "level", "depth", "altitude", "elevation"]),
];

/// Attributes that have one number, if a dataset has them.
const NUMBERS: [&str; 4] = ["scale_factor", "add_offset", "_FillValue", "missing_value"];
/// Attributes that say which numbers are valid.
const VALID: [&str; 3] = ["valid_range", "valid_min", "valid_max"];

/// A dimension of a dataset: the address of its scale, and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dimension {
    pub(crate) address: u64,
    pub(crate) name: String,
}

/// Whether a dataset is the scale of a dimension.
pub(super) fn is_scale(dataset: &Dataset) -> bool {
    let class = dataset.attribute("CLASS").and_then(|class| class.read_string());
    class.is_ok_and(|class| class.trim_end_matches('\0') == "DIMENSION_SCALE")
}

/// Whether a dataset only stands for a dimension, and has no values.
pub(super) fn is_bare_dimension(dataset: &Dataset) -> bool {
    let name = dataset.attribute("NAME").and_then(|name| name.read_string());
    name.is_ok_and(|name| name.starts_with("This is a netCDF dimension but not a netCDF variable"))
}

/// The addresses of the scales of a dataset's dimensions, if each dimension has one.
pub(super) fn scales_of(dataset: &Dataset) -> Option<Vec<u64>> {
    let list = dataset.attribute("DIMENSION_LIST").ok()?;
    let Datatype::VarLen { .. } = list.datatype else { return None };
    let size = dataset.vlen_reference_size();
    if list.raw_data.len() != dataset.ndim().checked_mul(size)? {
        return None;
    }
    let address = |reference: &[u8]| {
        let bytes = dataset.resolve_vlen_reference_bytes(reference, 8).ok()?;
        Some(u64::from_le_bytes(*bytes.first_chunk::<8>()?))
    };
    list.raw_data.chunks_exact(size).map(address).collect()
}

/// The axes of rows with these dimensions, if all are known and none occurs twice.
pub(super) fn axes(dimensions: &[Dimension]) -> Option<Axes> {
    let letter = |of: &Dimension| {
        let name = of.name.rsplit('/').next().unwrap_or_default().to_lowercase();
        DIMENSIONS.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(c, _)| *c)
    };
    let text: String = dimensions.iter().map(letter).collect::<Option<_>>()?;
    text.parse().ok().filter(|_| text.contains('y') && text.contains('x'))
}

/// What is to be known of the numbers beside their type.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Meaning {
    /// The value that means "not measured".
    pub(crate) nodata: Option<f64>,
    /// The attribute that says that the numbers are others than those stored, or that is not read.
    pub(crate) packed: Option<&'static str>,
    /// The attribute that says which numbers are valid.
    pub(super) valid: Option<&'static str>,
}

impl Meaning {
    pub(super) fn of(dataset: &Dataset) -> Self {
        // Attributes that are not one number have a meaning that is not known.
        let odd = |name: &&str| dataset.attribute(name).is_ok_and(|of| first(&of).is_none());
        let number = |name| dataset.attribute(name).ok().and_then(|of: Attribute| first(&of));
        let (fill, missing) = (number("_FillValue"), number("missing_value"));
        let differ = |a: f64, b: f64| a != b && !(a.is_nan() && b.is_nan());
        let two = fill.zip(missing).is_some_and(|(fill, missing)| differ(fill, missing));
        let unsigned = dataset.attribute("_Unsigned").and_then(|of| of.read_string());
        let packed = if let Some(name) = NUMBERS.iter().find(|name| odd(name)) {
            Some(*name)
        } else if number("scale_factor").is_some_and(|scale| scale != 1.0) {
            Some("scale_factor")
        } else if number("add_offset").is_some_and(|offset| offset != 0.0) {
            Some("add_offset")
        } else if dataset.attribute("_Unsigned").is_ok()
            && !unsigned.is_ok_and(|text| text.eq_ignore_ascii_case("false"))
        {
            Some("_Unsigned")
        } else if two {
            Some("missing_value")
        } else {
            None
        };
        let valid = VALID.into_iter().find(|name| dataset.attribute(name).is_ok());
        Self { nodata: fill.or(missing), packed, valid }
    }
}

/// The number in an attribute that has one.
fn first(attribute: &Attribute) -> Option<f64> {
    (attribute.num_elements().ok()? == 1).then(|| attribute.read_as_f64().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_dimensions_are_axes() {
        let check = |names: &[&str], expected: Option<&str>| {
            let of = |name: &&str| Dimension { address: 0, name: (*name).to_owned() };
            let found = axes(&names.iter().map(of).collect::<Vec<_>>());
            assert_eq!(found.as_ref().map(Axes::as_str), expected, "{names:?}");
        };
        check(&["lat", "lon"], Some("yx"));
        check(&["grid/Band", "y", "x"], Some("cyx"));
        check(&["y", "lat"], None);
        check(&["phony_dim_0", "lat", "lon"], None);
        check(&["time"], None);
    }
}
