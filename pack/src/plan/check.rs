//! Checks that the options of a plan are consistent.

use gular_bundle::{Field, Payload, Split};
use gular_codec::Fit;

use crate::facts::setting;
use crate::layout::{BOXES, Labels};
use crate::plan::{Align, FrameOptions, PayloadRecipe, PlanError, PlanOptions, TileOptions};
use crate::source::Inputs;

/// Least memory for sorting; with less, sorting only reads and writes.
const LEAST_MEMORY: usize = 1 << 20;

/// Checks that the options can be combined.
pub(crate) fn check_options(options: &PlanOptions) -> Result<(), PlanError> {
    options.payload.check()?;
    if options.shard_bytes < 1 << 20 {
        return Err(setting(
            &["shard_bytes"],
            format!("the shard size is {} bytes, expected at least 1 MiB", options.shard_bytes),
        ));
    }
    if let Some(tile) = options.tile {
        check_tile(tile, options)?;
    }
    if let Some(frame) = options.frame {
        check_frame(frame, options)?;
    }
    let of_rows = matches!(options.inputs, Inputs::Pixels { .. });
    let by_column = matches!(options.labels, Labels::Column(_));
    // Rows of datasets are arrays.
    let of_datasets = by_column && options.inputs == Inputs::Arrays;
    if by_column != of_rows && !of_datasets && (by_column || options.labels != Labels::None) {
        let text = match of_rows {
            true => {
                "the labels of a table of pixels must be in a column of the same table, or be left out"
            }
            false => "a column of labels can only be given for a table of pixels",
        };
        return Err(setting(&["label_column", "labels"], text));
    }
    if of_rows && !options.fields.is_empty() {
        let text = "rows of pixels cannot have files beside them, such as masks";
        return Err(setting(&["mask", "field"], text));
    }
    if options.source_digests && options.manifest_payload() == Payload::Encoded {
        let text = "digests of source files need not be stored here: the files are stored unchanged, so the bundle has their digests already";
        return Err(setting(&["source_digests"], text));
    }
    if options.source_digests && (of_rows || options.joins_files() || options.tile.is_some()) {
        let text = "digests of source files cannot be stored for tiles, tables of pixels, and bands or dates in files of their own: their samples are not single files";
        return Err(setting(&["source_digests"], text));
    }
    if options.labels == Labels::None && options.classes.is_some() {
        let text = "a list of classes was given, but labels are turned off";
        return Err(setting(&["classes", "labels"], text));
    }
    if let Labels::Table(table) = &options.labels
        && table.split.is_some()
        && !options.fractions.is_empty()
    {
        let text = "splits can come from a column or from fractions, not from both";
        return Err(setting(&["split_column", "fractions"], text));
    }
    if options.memory_bytes < LEAST_MEMORY {
        return Err(setting(
            &["memory_bytes"],
            format!("the memory to use is {} bytes, expected at least 1 MiB", options.memory_bytes),
        ));
    }
    check_fractions(&options.fractions)
}

/// Checks that the fractions cover all samples.
pub(crate) fn check_fractions(fractions: &[(Split, f64)]) -> Result<(), PlanError> {
    let sum: f64 = fractions.iter().map(|(_, f)| f).sum();
    let valid = fractions.iter().all(|(_, f)| (0.0..=1.0).contains(f));
    if !fractions.is_empty() && (!valid || (sum - 1.0).abs() > 1e-9) {
        return Err(setting(
            &["fractions"],
            format!("the fractions of the splits sum to {sum}, expected 1"),
        ));
    }
    Ok(())
}

fn check_tile(tile: TileOptions, options: &PlanOptions) -> Result<(), PlanError> {
    let TileOptions { size, overlap, min_valid, block } = tile;
    let fail = |names, text: String| Err(setting(names, text));
    // 256 MiB with one byte per pixel; the first scene tells how large tiles with more bytes are.
    if !(1..=16_384).contains(&size) || overlap >= size {
        return fail(
            &["tile", "overlap"],
            format!(
                "tiles have {size} pixels and an overlap of {overlap}; expected 1 to 16384 pixels, and an overlap that is smaller"
            ),
        );
    }
    if !(0.0..=1.0).contains(&min_valid) {
        return fail(
            &["min_valid"],
            format!("the required share of valid pixels is {min_valid}, expected 0 to 1"),
        );
    }
    if options.inputs != Inputs::Arrays {
        return fail(
            &["tile", "inputs"],
            "only scenes of numbers are cut into tiles, such as those in TIFF".to_owned(),
        );
    }
    if block.is_some_and(|block| block < size) {
        let text = format!("blocks must be at least as large as a tile, which has {size} pixels");
        return fail(&["block", "tile"], text);
    }
    if block.is_some() && options.fractions.is_empty() {
        let text = "blocks of a scene were given, but no fractions, which would divide them";
        return fail(&["block", "fractions"], text.to_owned());
    }
    Ok(())
}

fn check_frame(frame: FrameOptions, options: &PlanOptions) -> Result<(), PlanError> {
    let fail = |names, text: &str| Err(setting(names, text.to_owned()));
    if frame.fit == Fit::Stretch {
        return fail(&["fit"], "arrays are cropped or padded, but not stretched");
    }
    if options.inputs != Inputs::Arrays {
        return fail(&["fit", "inputs"], "only arrays are cropped or padded");
    }
    if options.tile.is_some() {
        let text = "tiles have one size anyway: scenes that are smaller are padded";
        return fail(&["fit", "tile"], text);
    }
    if options.joins_files() {
        let text = "samples of which each band or date is a file are not cropped or padded";
        return fail(&["fit", "images"], text);
    }
    if options.align == Align::Resample {
        let text =
            "masks are brought to the grid of their images, which then are not cropped or padded";
        return fail(&["fit", "align"], text);
    }
    Ok(())
}

/// Boxes are fractions of the whole image: what is cut or framed they do not fit.
pub(super) fn check_boxes(fields: &[Field], recipe: &PayloadRecipe) -> Result<(), PlanError> {
    let boxes = fields.iter().any(|field| field.name.as_str() == BOXES);
    match recipe {
        PayloadRecipe::Raw { fit: Fit::Crop | Fit::Pad, .. }
        | PayloadRecipe::Arrays { frame: Some(_), .. }
            if boxes =>
        {
            Err(setting(
                &["fit", "payload"],
                "images with boxes cannot be cropped or padded, since boxes are fractions of the whole image; stretch the images, or pack them unchanged",
            ))
        }
        _ => Ok(()),
    }
}
