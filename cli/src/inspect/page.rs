//! A bundle as an HTML page: its description, class balance, histograms, bands, and some images of
//! each class. The page opens without a network.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gular_bundle::{Bundle, Field};
use gular_codec::{DecodeOptions, Decoder, Picture, encode_png};

use super::describe::{self, Counts};
use super::files_here::FilesHere;
use super::sheet;
use crate::exit::Failure;
use crate::show;

/// Classes that have a bar; images are shown of as many as the sheet has rows.
const MOST_BARS: usize = 200;
/// Values of a histogram that are counted together.
const BIN: usize = 4;

/// The beginning of a page.
pub(super) const START: &[u8] = b"<!doctype html>\n<meta charset=\"utf-8\">\n<title>";

/// Writes the page of a bundle; an earlier one is replaced.
pub(super) fn write(
    bundle: &Bundle,
    here: &FilesHere,
    counts: Option<&Counts>,
    to: &Path,
    seed: u64,
) -> Result<(), Failure> {
    let manifest = bundle.manifest();
    let name = manifest.about.name.as_deref().unwrap_or("A bundle");
    let mut page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n<style>{STYLE}</style>\n<h1>{0}</h1>\n<pre>{1}</pre>\n",
        escaped(name),
        escaped(&describe::text(manifest, bundle.digest(), counts))
    );
    bands(&mut page, &manifest.fields);
    // If samples may have several classes or boxes, the index does not count them.
    if let Some(counts) = counts.filter(|_| manifest.has_labels()) {
        balance(&mut page, &manifest.classes, counts);
    }
    if manifest.image().is_some() {
        pictures(&mut page, bundle, here, seed)?;
    }
    Ok(gular_files::write_file(to, page.as_bytes())?)
}

const STYLE: &str = "body{font-family:sans-serif;margin:2em}td{padding:0 .5em 0 0}\
    .bar{background:#4a7ebb;height:.8em;display:inline-block}svg{background:#f4f4f4}";

fn bands(page: &mut String, fields: &[Field]) {
    for field in fields.iter().filter(|field| !field.bands.is_empty()) {
        let _ = write!(page, "<h2>Bands of {}</h2>\n<table>\n", field.name);
        for (i, band) in field.bands.iter().enumerate() {
            let wave = band.wavelength_nm.as_ref().map(|w| format!("{} nm", w.as_str()));
            let (name, wave) = (escaped(&band.name), wave.unwrap_or_default());
            let _ = writeln!(page, "<tr><td>{i}<td>{name}<td>{wave}");
        }
        page.push_str("</table>\n");
    }
}

/// Adds a bar for each class and split.
fn balance(page: &mut String, classes: &[String], counts: &Counts) {
    let most = counts.values().flatten().copied().max().unwrap_or(0).max(1);
    page.push_str("<h2>Class balance</h2>\n<table>\n<tr><th>class");
    for split in counts.keys() {
        let _ = write!(page, "<th colspan=2>{split}");
    }
    page.push('\n');
    for (i, class) in classes.iter().enumerate().take(MOST_BARS) {
        let _ = write!(page, "<tr><td>{}", escaped(class));
        for of_split in counts.values() {
            let n = of_split.get(i).copied().unwrap_or(0);
            let width = n as f64 / most as f64 * 200.0;
            let bar = format!("<span class=bar style=\"width:{width:.0}px\"></span>");
            let _ = write!(page, "<td>{n}<td>{bar}");
        }
        page.push('\n');
    }
    page.push_str("</table>\n");
    if classes.len() > MOST_BARS {
        let _ = writeln!(page, "<p>… and {} more", classes.len() - MOST_BARS);
    }
}

/// Images of each class, and the histogram of their pixels.
fn pictures(
    page: &mut String,
    bundle: &Bundle,
    here: &FilesHere,
    seed: u64,
) -> Result<(), Failure> {
    let classes = &bundle.manifest().classes;
    let field = bundle.manifest().field("image")?;
    let kind = field.of(&bundle.manifest().fields);
    let mut decoder = Decoder::new(DecodeOptions::default());
    let (mut bytes, mut rows) = (Vec::new(), String::new());
    let (mut histogram, mut n) = ([[0_u64; 256 / BIN]; 3], 0_u64);
    for (class, samples) in sheet::choose(bundle, here, seed)?.iter().enumerate() {
        if samples.is_empty() {
            continue;
        }
        let name = classes.get(class).map_or(String::new(), |class| escaped(class));
        let _ = write!(rows, "<tr><td>{name}");
        for sample in samples {
            bundle.read(*sample, field, &mut bytes)?;
            let picture = sheet::thumbnail(&mut decoder, kind, &bytes);
            let _ = match picture.and_then(|picture| Ok((png(&picture)?, picture))) {
                Ok((png, picture)) => {
                    n += 1;
                    count(&mut histogram, &picture);
                    let title = escaped(bundle.key(*sample)?.as_str());
                    write!(rows, "<td><img title=\"{title}\" src=\"data:image/png;base64,{png}\">")
                }
                Err(reason) => write!(rows, "<td>{}", escaped(&reason)),
            };
        }
        rows.push('\n');
    }
    let _ = write!(page, "<h2>Histogram</h2>\n<p>{n} of the images below, made small</p>\n");
    page.push_str(&plot(&histogram));
    let _ = write!(page, "<h2>Images</h2>\n<table>\n{rows}</table>\n");
    Ok(())
}

fn png(picture: &Picture) -> Result<String, String> {
    let png = encode_png(picture.data(), picture.width(), picture.height());
    png.map(|png| BASE64_STANDARD.encode(png)).map_err(|e| e.to_string())
}

fn count(histogram: &mut [[u64; 256 / BIN]; 3], picture: &Picture) {
    for pixel in picture.data().as_chunks::<3>().0 {
        for (channel, value) in histogram.iter_mut().zip(pixel) {
            channel[usize::from(*value) / BIN] += 1;
        }
    }
}

/// Draws a line for each of red, green and blue.
fn plot(histogram: &[[u64; 256 / BIN]; 3]) -> String {
    let most = histogram.iter().flatten().copied().max().unwrap_or(0).max(1);
    let mut svg = "<svg width=512 height=160 viewBox=\"0 0 512 160\">\n".to_owned();
    for (channel, colour) in histogram.iter().zip(["#c33", "#393", "#33c"]) {
        let points: Vec<String> = channel
            .iter()
            .enumerate()
            .map(|(i, n)| format!("{},{:.1}", i * 2 * BIN, 155.0 - *n as f64 / most as f64 * 150.0))
            .collect();
        let points = points.join(" ");
        let _ = writeln!(svg, "<polyline fill=none stroke=\"{colour}\" points=\"{points}\"/>");
    }
    svg + "</svg>\n"
}

/// Escapes a text for HTML.
pub(super) fn escaped(text: &str) -> String {
    let text = show::printable(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use gular_bundle::Split;

    use super::*;

    #[test]
    fn names_are_text_and_bars_have_the_length_of_their_class() {
        assert_eq!(escaped("<b a=\"1\">&"), "&lt;b a=&quot;1&quot;&gt;&amp;");
        let counts = Counts::from([(Split::Train, vec![10, 5]), (Split::Val, vec![0, 1])]);
        let mut page = String::new();
        balance(&mut page, &["a".to_owned(), "<b>".to_owned()], &counts);
        assert!(page.contains("<td>10<td><span class=bar style=\"width:200px\">"), "{page}");
        assert!(page.contains("<tr><td>&lt;b&gt;<td>5<td><span class=bar style=\"width:100px\">"));
    }

    #[test]
    fn a_histogram_counts_every_pixel_of_each_channel() {
        let picture = Picture::new(2, 1, vec![0, 128, 255, 3, 128, 7]).unwrap();
        let mut histogram = [[0; 256 / BIN]; 3];
        count(&mut histogram, &picture);
        assert_eq!((histogram[0][0], histogram[1][32]), (2, 2));
        assert_eq!((histogram[2][63], histogram[2][1]), (1, 1));
        assert_eq!(plot(&histogram).matches("<polyline").count(), 3);
    }
}
