//! What the file of an array says of it, and may say otherwise of the next one. Format: `FORMAT.md`,
//! "Fields".

use gular_bundle::{Dtype, Field, FieldName, npy_header};
use gular_codec::tiff::Geo;

/// Something that a file says, which becomes a field if one of the files says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OfFile {
    /// What stored numbers are multiplied by.
    Scale,
    /// What is added then.
    Offset,
    /// Ground control points.
    Gcps,
    /// Rational polynomial coefficients.
    Rpc,
    /// Where voxels are.
    Affine,
    /// How far voxels are apart.
    Spacing,
    /// The units of both.
    Units,
}

impl OfFile {
    /// What a file says.
    pub(crate) fn of(geo: &Geo) -> impl Iterator<Item = Self> {
        let scaled = !geo.scales.is_empty();
        let said = [
            (Self::Scale, scaled),
            (Self::Offset, scaled),
            (Self::Gcps, !geo.gcps.is_empty()),
            (Self::Rpc, !geo.rpc.is_empty()),
            (Self::Affine, geo.volume.is_some()),
            (Self::Spacing, geo.volume.is_some()),
            (Self::Units, geo.volume.is_some()),
        ];
        said.into_iter().filter_map(|(of, is_said)| is_said.then_some(of))
    }

    /// The names of all fields.
    pub(crate) const NAMES: [&'static str; 7] = [
        "image_scale",
        "image_offset",
        "image_gcps",
        "image_rpc",
        "image_world",
        "image_spacing",
        "image_units",
    ];

    /// The field, of arrays with so many bands.
    pub(super) fn field(self, bands: u64) -> Option<Field> {
        let name = FieldName::parse(Self::NAMES[self as usize])?;
        Some(match self {
            Self::Scale | Self::Offset => Field::fixed(name, Dtype::F64, vec![bands]),
            Self::Gcps => Field::bytes(name, vec!["application/x-npy".to_owned()]),
            Self::Rpc => Field::fixed(name, Dtype::F64, vec![Geo::RPC as u64]),
            Self::Affine => Field::fixed(name, Dtype::F64, vec![4, 4]),
            Self::Spacing => Field::fixed(name, Dtype::F64, vec![4]),
            Self::Units => Field::bytes(name, vec!["text/plain".to_owned()]),
        })
    }

    /// The value of an array with so many bands.
    pub(crate) fn value(self, geo: &Geo, bands: u64) -> Vec<u8> {
        let bytes = |numbers: &[f64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let of_bands = |at: usize| {
            let bands = usize::try_from(bands).unwrap_or(0);
            // That of a volume is one for all its channels.
            let scales = geo.scales_of(bands);
            bytes(&scales.iter().cycle().take(bands).map(|scale| scale[at]).collect::<Vec<_>>())
        };
        let volume = geo.volume.as_ref();
        match self {
            Self::Scale => of_bands(0),
            Self::Offset => of_bands(1),
            Self::Gcps => {
                let header = npy_header(Dtype::F64, &[geo.gcps.len() as u64, 5]);
                [header, bytes(geo.gcps.as_flattened())].concat()
            }
            Self::Rpc if geo.rpc.is_empty() => bytes(&[f64::NAN; Geo::RPC]),
            Self::Rpc => bytes(&geo.rpc),
            Self::Affine => {
                let affine = volume.and_then(|of| of.affine);
                affine.map_or_else(
                    || bytes(&[f64::NAN; 16]),
                    |rows| bytes(&[&rows[..], &[0.0, 0.0, 0.0, 1.0]].concat()),
                )
            }
            Self::Spacing => bytes(&volume.map_or([f64::NAN; 4], |of| of.spacing)),
            Self::Units => volume.map_or_else(Vec::new, |of| of.units.clone().into_bytes()),
        }
    }
}
