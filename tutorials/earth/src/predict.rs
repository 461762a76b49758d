//! Draws the map of a scene: strip by strip, so that only the map itself is in memory as a whole.

use std::fs::{self, File};
use std::io::Cursor;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use gular_codec::tiff::{Chunks, Geo, GeoTiffWriter, Number, Packing, Tiff};
use gular_codec::{Limits, Rect, encode_png};
use gular_runtime::torch::load_weights;
use gular_runtime::write_file;
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

use crate::unet::{CLASSES, MULTIPLE, UNKNOWN, UNet};

/// Rows that are predicted at once, and those that are seen above and below them.
const ROWS: u32 = 128;
const MARGIN: u32 = 32;
/// Pixels of the longer side of the picture, about.
const PICTURE: u32 = 1024;

pub(crate) fn run(weights: &Path, scene: &Path, map: &Path) -> Result<()> {
    let shown = scene.display();
    let file = File::open(scene).with_context(|| format!("cannot open `{shown}`"))?;
    let tiff = Tiff::read(&file, &Limits::default()).with_context(|| format!("`{shown}`"))?;
    ensure!(tiff.number == Number::U16, "`{shown}` has {:?}, expected U16", tiff.number);
    let (width, height) = (tiff.width, tiff.height);

    let mut store = VarStore::new(Device::Cpu);
    let net = UNet::new(&store.root(), tiff.bands.into());
    let bytes =
        fs::read(weights).with_context(|| format!("cannot read `{}`", weights.display()))?;
    load_weights(&mut store, &bytes)?;

    let (bands, scales, wavelengths) = (vec!["class".into()], Vec::new(), Vec::new());
    let nodata = Some(UNKNOWN.into());
    let geo = Geo { nodata, bands, scales, wavelengths, ..tiff.geo.clone() };
    let out = Cursor::new(Vec::new());
    let mut out = GeoTiffWriter::new(out, (width, height), 1, Number::U8, geo, Packing::Deflate)?;
    let (mut picture, step) = (Vec::new(), width.max(height).div_ceil(PICTURE));
    let mut chunks = Chunks::new(32 << 20);
    for top in (0..height).step_by(ROWS as usize) {
        let rows = ROWS.min(height - top);
        let first = top.saturating_sub(MARGIN);
        let last = (top + rows + MARGIN).min(height);
        let window = Rect::new(0, first, width, last - first);
        let mut bytes = vec![0; tiff.window_bytes(window)?];
        tiff.read_window(&file, 0, window, &mut chunks, &mut bytes)?;
        let pixels = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
        let pixels: Vec<i32> = pixels.map(i32::from).collect();
        let classes = classes(&net, &tiff, &pixels, window)?;
        let skip = (top - first) as usize * width as usize;
        let classes = &classes[skip..][..rows as usize * width as usize];
        out.push(classes)?;
        let lines = (top..).zip(classes.chunks_exact(width as usize));
        for (_, line) in lines.filter(|(y, _)| y.is_multiple_of(step)) {
            picture.extend(line.iter().step_by(step as usize).flat_map(|class| colour(*class)));
        }
    }
    write_file(map, out.finish()?.get_ref())?;
    let picture = encode_png(&picture, width.div_ceil(step), height.div_ceil(step))?;
    let path = map.with_extension("png");
    write_file(&path, &picture)?;
    println!("{} and {}", map.display(), path.display());
    Ok(())
}

/// The class of each pixel of a window; [`UNKNOWN`] where nothing was measured.
fn classes(net: &UNet, tiff: &Tiff, pixels: &[i32], window: Rect) -> Result<Vec<u8>> {
    let (height, width) = (i64::from(window.height), i64::from(window.width));
    let image = Tensor::from_slice(pixels).view([1, height, width, tiff.bands.into()]);
    let image = image.permute([0, 3, 1, 2]).to_kind(Kind::Float);
    let missing = |side: i64| (-side).rem_euclid(MULTIPLE);
    let whole = image.replication_pad2d([0, missing(width), 0, missing(height)]);
    let scores = tch::no_grad(|| net.forward(&whole));
    let found = scores.argmax(1, false).narrow(1, 0, height).narrow(2, 0, width);
    let mut classes = Vec::<u8>::try_from(found.to_kind(Kind::Uint8).contiguous().view(-1))?;
    if let Some(nodata) = tiff.geo.nodata {
        let cells = pixels.chunks_exact(tiff.bands.into());
        for (class, cell) in classes.iter_mut().zip(cells) {
            if cell.iter().all(|value| f64::from(*value) == nodata) {
                *class = UNKNOWN;
            }
        }
    }
    Ok(classes)
}

fn colour(class: u8) -> [u8; 3] {
    CLASSES.get(usize::from(class)).map_or([0; 3], |(_, colour)| *colour)
}
