//! Test vectors: torchvision's results for small pictures, written by `generate.py` in the same
//! folder.

use serde::Deserialize;

const VECTORS: &str = include_str!("../tests/torchvision/vectors.json");

/// The contents of the file.
#[derive(Deserialize)]
pub(super) struct Vectors {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pixels: Vec<u16>,
    pub(super) cases: Vec<Case>,
    pub(super) blends: Blends,
}

/// The result of a function for the picture.
#[derive(Deserialize)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) argument: f32,
    pub(super) u8: Vec<u8>,
    pub(super) f32: Vec<f32>,
}

/// The results for a batch of two pictures.
#[derive(Deserialize)]
pub(super) struct Blends {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pair: [Vec<f32>; 2],
    pub(super) cases: Vec<BlendCase>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BlendCase {
    pub(super) drawn: f64,
    /// Column and row of the centre of `CutMix`; `None` for `MixUp`.
    pub(super) centre: Option<(u32, u32)>,
    pub(super) weight: f64,
    pub(super) made: [Vec<f32>; 2],
}

pub(super) fn read() -> Vectors {
    serde_json::from_str(VECTORS).unwrap()
}
