//! `cargo xtask image`: `gular image` with this workspace's defaults.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::cargo;
use crate::process::{self, command};
use crate::setup::{self, Line, Ready};
use crate::workspace::Workspace;

/// Build container images of the tutorials: `gular image` with this workspace's defaults.
///
/// Everything after `image` goes to `gular image`, of which `cargo xtask image --help` shows the
/// verbs. Without a recipe it is `tutorials/train/image.toml`, the trainer without a GPU;
/// `tutorials/train/image-cuda.toml` is the one with CUDA. Images go to `target/images`,
/// packages to `target/images/cache`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Verb and arguments of `gular image`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    rest: Vec<OsString>,
}

/// `cargo xtask image`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let ready = setup::prepare(&workspace, Line::Current)?;
    let gular = cargo::build_release(&workspace, &ready, &cargo::GULAR)?;
    process::run(&mut command_of(&workspace, &ready, &gular, &args.rest))
}

/// `gular image` with these arguments and the defaults, able to find cargo and libtorch.
pub(crate) fn command_of(
    workspace: &Workspace,
    ready: &Ready,
    gular: &Path,
    arguments: &[OsString],
) -> Command {
    let mut image = command(gular);
    image.arg("image").args(with_defaults(workspace, arguments)).current_dir(&workspace.root);
    image.env("CARGO", crate::workspace::cargo_program());
    // The program starts cargo itself.
    cargo::forget_own_package(&mut image);
    image.env("GULAR_IMAGE_CACHE", cache(workspace));
    ready.apply(&mut image);
    image
}

/// The folder in which packages and blocks of images are kept.
pub(crate) fn cache(workspace: &Workspace) -> PathBuf {
    let named = std::env::var_os("GULAR_IMAGE_CACHE").map(PathBuf::from);
    named.unwrap_or_else(|| workspace.target.join("images/cache"))
}

/// The arguments, with a recipe and an output folder where they name none.
fn with_defaults(workspace: &Workspace, rest: &[OsString]) -> Vec<OsString> {
    let mut arguments = rest.to_vec();
    let verb = rest.first().and_then(|verb| verb.to_str()).unwrap_or_default();
    let asks = |flag: &str| rest.iter().any(|word| word == flag);
    if !matches!(verb, "lock" | "build") || asks("--help") || asks("-h") {
        return arguments;
    }
    let is_recipe = |word: &&OsString| word.to_string_lossy().ends_with(".toml");
    if rest.iter().skip(1).find(is_recipe).is_none() {
        arguments.insert(1, "tutorials/train/image.toml".into());
    }
    let names_out = |word: &OsString| {
        let word = word.to_string_lossy();
        word == "--out" || word == "-o" || word.starts_with("--out=")
    };
    if verb == "build" && !rest.iter().any(names_out) {
        arguments.extend(["--out".into(), workspace.target.join("images").into()]);
    }
    arguments
}
