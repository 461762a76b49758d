//! Arguments of `gular inspect`.

use std::path::PathBuf;

use clap::Args;

use crate::duplicates::DuplicatesArgs;

/// Show what a bundle, manifest, shard or index contains
#[derive(Debug, Args)]
#[command(
    next_help_heading = "What to show",
    after_help = "Example:\n  gular inspect bundle/ --sheet sheet.png"
)]
pub(crate) struct InspectArgs {
    /// A bundle's folder, a manifest.json, a shard or an index
    #[arg(help_heading = None)]
    pub(crate) path: PathBuf,
    /// Write a contact sheet of some images (bundles only)
    ///
    /// Each class has a row, with its name.
    #[arg(long, value_name = "PNG")]
    pub(crate) sheet: Option<PathBuf>,
    /// Write a page: classes, bands, images with fields and histograms
    ///
    /// One file, which needs no network: the page of `gular view` with some images of each class.
    #[arg(long, value_name = "HTML")]
    pub(crate) page: Option<PathBuf>,
    /// Seed for choosing the images that are shown
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Find images of PATH that are also in BUNDLE; BUNDLE could be your test set
    ///
    /// By the digests in both indexes; no image is read.
    #[arg(long, value_name = "BUNDLE", help_heading = "Compare images")]
    pub(crate) against: Option<PathBuf>,
    /// Find pairs of images with the same pixels but different bytes
    ///
    /// Such as a PNG and a lossless WebP. Both are in PATH; with --against, one is in PATH and one in
    /// BUNDLE.
    /// Every image is decoded.
    #[arg(long, help_heading = "Compare images")]
    pub(crate) pixels: bool,
    /// Like --pixels, but find similar images, such as edited copies
    ///
    /// Every image is decoded; those whose difference hashes (dHash) differ in at most 3 of 64
    /// bits are similar.
    #[arg(long, help_heading = "Compare images")]
    pub(crate) near: bool,
    /// Write a page of the pairs that --pixels and --near find, as pictures
    #[arg(long, value_name = "HTML", help_heading = "Compare images")]
    pub(crate) pairs: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) duplicates: DuplicatesArgs,
    /// List the first N samples, and where they are stored
    ///
    /// Bundles only.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) samples: usize,
    /// Write one sample to stdout (bundles only)
    ///
    /// The stored bytes, or an npy file of pixels.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["json", "sheet", "page", "samples", "against", "pixels", "near", "pairs", "duplicates_out"])]
    pub(crate) extract: Option<String>,
}
