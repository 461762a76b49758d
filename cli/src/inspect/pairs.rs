//! Images that look alike, as a list and as a page of pairs.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gular_bundle::Bundle;
use gular_codec::{DecodeOptions, Decoder, encode_png};
use gular_pack::{Among, LookOptions, LookPair, Looks, find_looks};

use super::page::escaped;
use super::sheet;
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

/// Writes a page of the pairs, each as two pictures; it opens without a network.
pub(super) fn page(looks: &Looks, bundles: [&Bundle; 2], to: &Path) -> Result<(), Failure> {
    let mut decoder = Decoder::new(DecodeOptions::default());
    let mut rows = String::new();
    for pair in &looks.pairs {
        rows.push_str("<tr>");
        for (sample, place) in pair.samples.iter().zip(pair.places) {
            let bundle = bundles[sample.bundle.min(1)];
            let field = bundle.manifest().field("image")?;
            let kind = field.of(&bundle.manifest().fields);
            let mut bytes = Vec::new();
            bundle.read(place, field, &mut bytes)?;
            let picture = sheet::thumbnail(&mut decoder, kind, &bytes)
                .and_then(|i| {
                    encode_png(i.data(), i.width(), i.height()).map_err(|e| e.to_string())
                })
                .map(|png| BASE64_STANDARD.encode(png));
            let picture = match picture {
                Ok(png) => format!("<img src=\"data:image/png;base64,{png}\">"),
                Err(reason) => escaped(&reason),
            };
            let label = sample.label.map(|label| format!(", label {label}")).unwrap_or_default();
            let name = escaped(&sample.key);
            let _ = write!(rows, "<td>{picture}<br>{name}<br>{}{label}</td>", sample.split);
        }
        let how = match pair.bits {
            None => "the same pixels".to_owned(),
            Some(bits) => format!("{bits} of 64 bits differ"),
        };
        let _ = writeln!(rows, "<td>{how}</td></tr>");
    }
    let (all, n) = (looks.same_pixels + looks.near, looks.pairs.len());
    let left = match looks.undecodable {
        0 => String::new(),
        n => format!("; {} could not be decoded and were not compared", show::count(n, "image")),
    };
    let page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>gular inspect: images that look alike</title>\n\
         <style>body{{font-family:sans-serif;margin:2em}}td{{padding:.5em;vertical-align:top}}</style>\n\
         <h1>Images that look alike</h1>\n<p>{n} of {all} pairs{left}</p>\n<table>\n{rows}</table>\n"
    );
    Ok(gular_files::write_file(to, page.as_bytes())?)
}
