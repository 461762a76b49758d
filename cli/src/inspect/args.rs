//! Arguments of `gular inspect`.

use std::path::PathBuf;

use clap::Args;

/// Show what a bundle, manifest, shard or index contains
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular inspect bundle/ --sheet sheet.png")]
pub(crate) struct InspectArgs {
    /// A bundle's folder, a manifest.json, a shard or an index
    pub(crate) path: PathBuf,
    /// Write a contact sheet of some images (bundles only)
    ///
    /// Each class has a row.
    #[arg(long, value_name = "PNG")]
    pub(crate) sheet: Option<PathBuf>,
    /// Seed that chooses the images of the sheet
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// List the first N samples and where each is stored (bundles only)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) samples: usize,
    /// Write one sample to stdout (bundles only)
    ///
    /// The stored bytes, or an npy file of pixels.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["json", "sheet", "samples"])]
    pub(crate) extract: Option<String>,
}
