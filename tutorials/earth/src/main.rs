//! Land cover from satellite scenes: a U-Net learns from tiles and their masks, and draws the map
//! of a scene. See README.md.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program; it says how far it is")]

mod predict;
mod train;
mod unet;

use gular_runtime::{MainError, mask_panic};

fn main() -> Result<(), MainError> {
    std::panic::set_hook(Box::new(|info| eprintln!("{}", mask_panic(info))));
    run().map_err(|error| MainError::new(format!("{error:#}")))
}

fn run() -> anyhow::Result<()> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let verb = args.first().map(|verb| verb.to_string_lossy());
    match (verb.as_deref(), args.get(1..).unwrap_or_default()) {
        (Some("train"), [bundle, weights]) => train::run(bundle.as_ref(), weights.as_ref()),
        (Some("predict"), [weights, scene, map]) => {
            predict::run(weights.as_ref(), scene.as_ref(), map.as_ref())
        }
        _ => anyhow::bail!(
            "usage: gular-earth train BUNDLE WEIGHTS\n       gular-earth predict WEIGHTS SCENE.tif MAP.tif"
        ),
    }
}
