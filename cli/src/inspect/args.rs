//! Arguments of `gular inspect`.

use std::path::PathBuf;

use clap::Args;

/// Say what a bundle, manifest, shard or index holds
///
/// Example: gular inspect bundle/ --sheet sheet.png
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct InspectArgs {
    /// A bundle's folder, a manifest.json, a shard or an index
    pub(crate) path: PathBuf,
    /// Write a contact sheet of some images, a row for each class (bundles only)
    #[arg(long, value_name = "PNG")]
    pub(crate) sheet: Option<PathBuf>,
    /// Chooses the images of the sheet
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// List the first N samples with their places
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) samples: usize,
    /// Write the sample with this key to stdout: the stored bytes, or an npy file of pixels
    /// (bundles only)
    #[arg(long, value_name = "KEY", conflicts_with_all = ["json", "sheet", "samples"])]
    pub(crate) extract: Option<String>,
}
