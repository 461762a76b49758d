//! Images that look alike, as a list.

use std::fmt::Write as _;

use gular_pack::{Among, LookOptions, LookPair, Looks, find_looks};

use crate::convert::{stopped, with_bar};
use crate::exit::Failure;
use crate::shared::{Jobs, Output};
use crate::show;
use crate::stop::Stop;

/// Most pairs that the text lists.
const NAMED: usize = 10;

/// What to look for: equal pixels, similar images, or both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) pixels: bool,
    pub(super) near: bool,
}

/// Looks among the images of a bundle, or between those of two.
pub(super) fn find(
    among: &Among<'_>,
    other: Option<&Among<'_>>,
    wanted: Wanted,
    output: &Output,
) -> Result<Looks, Failure> {
    let stop = Stop::install()?;
    let options = LookOptions {
        pixels: wanted.pixels,
        near: wanted.near,
        jobs: Jobs::default().count(),
        memory_bytes: 256 << 20,
        temp_dir: std::env::temp_dir(),
    };
    let found = with_bar("decode", output, |progress| {
        find_looks(among, other, &options, progress, &stop.flag)
    });
    found.map_err(|e| stopped(e, &stop))
}

/// Describes the pairs that were found.
pub(super) fn text(looks: &Looks, wanted: Wanted) -> String {
    let mut text = format!("\ncandidates among {}: ", show::count(looks.compared, "image"));
    let pairs = |n: u64| show::count(n, "pair");
    let mut said = Vec::new();
    if wanted.pixels {
        said.push(format!("{} with the same pixels in other bytes", pairs(looks.same_pixels)));
    }
    if wanted.near {
        said.push(format!("{} of similar images (dHash, up to 3 of 64 bits)", pairs(looks.near)));
    }
    let _ = writeln!(text, "{}", said.join(", "));
    for pair in looks.pairs.iter().take(NAMED) {
        let _ = writeln!(text, "  {}", shown(pair));
    }
    if looks.same_pixels + looks.near > NAMED as u64 {
        text.push_str("  … `--pairs HTML` shows them as pictures, `--json` lists more\n");
    }
    if looks.undecodable > 0 {
        let _ = writeln!(text, "not compared: {}", show::count(looks.undecodable, "image"));
    }
    text
}

fn shown(pair: &LookPair) -> String {
    let name = |i: usize| {
        let sample = &pair.samples[i];
        format!("{} ({})", show::plain(&sample.key), sample.split)
    };
    let how = match pair.bits {
        None => "=".to_owned(),
        Some(bits) => format!("~{bits}"),
    };
    format!("{} {how} {}", name(0), name(1))
}
