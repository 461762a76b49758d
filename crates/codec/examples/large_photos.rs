//! Measures what decoding at reduced size costs and gains for large photographs.
//!
//! ```text
//! cargo run --release -p gular-codec --example large_photos -- speed DIR [--json]
//! cargo run --release -p gular-codec --example large_photos -- quality DIR
//! ```
//!
//! `speed`: photographs of 4, 12 and 48 megapixels, mosaics of the JPEG files below DIR, to
//! 224 x 224 pixels, the whole and the middle; the median of nine interleaved rounds on one
//! thread. `ours` is this crate, `full` without [`Scaling::Reduced`], and `bare` a loop of the two
//! libraries' own calls, with everything kept between pictures: libjpeg-turbo decodes the whole
//! picture at the same scale, and the part is resized.
//!
//! `quality`: how far each file below DIR is from its full decode, if each step is just allowed.

#![expect(unsafe_code, reason = "libjpeg-turbo's own loop is in C's terms")]
#![allow(clippy::print_stdout, reason = "a program whose output is its table")]

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::time::Instant;

use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions};
use gular_codec::{
    DecodeOptions, Decoder, Format, Header, Limits, Picture, Rect, Resize, Scaling, encode_jpeg,
    read_header,
};
use turbojpeg_sys as tj;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SIDE: u32 = 224;
const ROUNDS: usize = 9;
const SIZES: [(u32, u32); 3] = [(2448, 1632), (4000, 3000), (8000, 6000)];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (what, dir) = match args.as_slice() {
        [what, dir, ..] => (what.as_str(), Path::new(dir)),
        _ => return Err("usage: large_photos speed|quality DIR [--json]".into()),
    };
    let files = photographs(dir)?;
    match what {
        "speed" => speed(&files, args.iter().any(|arg| arg == "--json")),
        "quality" => quality(&files),
        _ => Err("usage: large_photos speed|quality DIR [--json]".into()),
    }
}

/// Returns the JPEG files below `dir`, sorted by path.
fn photographs(dir: &Path) -> Result<Vec<Vec<u8>>> {
    let (mut dirs, mut paths) = (vec![dir.to_owned()], Vec::<PathBuf>::new());
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() { dirs.push(path) } else { paths.push(path) }
        }
    }
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let bytes = std::fs::read(path)?;
        if let Ok(Header { format: Format::Jpeg, channels: 1 | 3, .. }) =
            read_header(&bytes, &Limits::default())
        {
            files.push(bytes);
        }
    }
    if files.is_empty() { Err("there is no JPEG file".into()) } else { Ok(files) }
}

/// Returns one large photograph, made of small ones at their own size, side by side.
fn mosaic(files: &[Vec<u8>], (width, height): (u32, u32)) -> Result<Vec<u8>> {
    let mut decoder = Decoder::new(DecodeOptions::default());
    let mut pixels = vec![0; (width * height * 3) as usize];
    let mut files = files.iter().cycle();
    let (mut x, mut y, mut row_height) = (0, 0, u32::MAX);
    while y < height {
        let image: Picture = decoder.decode(files.next().ok_or("there is no JPEG file")?)?;
        let columns = image.width().min(width - x);
        let lines = image.data().chunks_exact(image.width() as usize * 3);
        // A shorter image lets the next row begin earlier, over the ends of longer images.
        row_height = row_height.min(image.height());
        for (row, line) in (y..height).zip(lines) {
            let at = ((row * width + x) * 3) as usize;
            let len = columns as usize * 3;
            pixels[at..at + len].copy_from_slice(&line[..len]);
        }
        x += columns;
        if x == width {
            (x, y, row_height) = (0, y + row_height, u32::MAX);
        }
    }
    Ok(encode_jpeg(&pixels, width, height, 90)?)
}

/// Milliseconds per picture, by the clock and of CPU time.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    cpu: f64,
}

fn speed(files: &[Vec<u8>], json: bool) -> Result<()> {
    let mut rows = Vec::new();
    for (width, height) in SIZES {
        let bytes = mosaic(files, (width, height))?;
        let middle = Rect::new(width / 4, height / 4, width / 2, height / 2);
        for (part, region) in [("whole", Rect::whole(width, height)), ("middle", middle)] {
            let step = step(region);
            let mut out = vec![0; (SIDE * SIDE * 3) as usize];
            let mut decoders = [Scaling::Reduced, Scaling::Full]
                .map(|scaling| Decoder::new(DecodeOptions { scaling, ..DecodeOptions::default() }));
            let mut bare = Bare::new()?;
            let mut took = [const { Vec::new() }; 3];
            for round in 0..=ROUNDS {
                for (which, took) in took.iter_mut().enumerate() {
                    let mut one = || match decoders.get_mut(which) {
                        Some(decoder) => {
                            let to = Resize::to(SIDE, SIDE);
                            decoder.crop_resize(&bytes, region, &to, &mut out).map_err(Box::from)
                        }
                        None => bare.crop_resize(&bytes, (width, height), region, step, &mut out),
                    };
                    let this = time(&mut one)?;
                    // The first round only makes the buffers.
                    if round > 0 {
                        took.push(this);
                    }
                }
            }
            let [ours, full, bare] = took.map(median);
            rows.push((f64::from(width * height) / 1e6, part, step, ours, full, bare));
        }
    }
    if json {
        let rows = rows.iter().map(|(megapixels, part, step, ours, full, bare)| {
            format!(
                "{{\"megapixels\": {megapixels:.1}, \"part\": \"{part}\", \"step\": {step}, \
                 \"ours\": {}, \"full\": {}, \"bare\": {}, \"ours_over_bare\": {:.3}}}",
                ours.json(),
                full.json(),
                bare.json(),
                bare.took.wall / ours.took.wall,
            )
        });
        println!("[{}]", rows.collect::<Vec<_>>().join(", "));
        return Ok(());
    }
    println!(
        "megapixels  part    step   ours ms   full ms   bare ms  ours/bare  full/ours in speed"
    );
    for (megapixels, part, step, ours, full, bare) in rows {
        println!(
            "{megapixels:>10.1}  {part:<6}{step:>6}{:>10.2}{:>10.2}{:>10.2}{:>11.2}{:>10.2}",
            ours.took.wall,
            full.took.wall,
            bare.took.wall,
            bare.took.wall / ours.took.wall,
            full.took.wall / ours.took.wall,
        );
    }
    Ok(())
}

/// Repeats `one` for at least a tenth of a second.
fn time(one: &mut dyn FnMut() -> Result<()>) -> Result<Took> {
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    let mut pictures = 0;
    while pictures == 0 || begin.elapsed().as_millis() < 100 {
        one()?;
        pictures += 1;
    }
    let each = |seconds: f64| seconds * 1e3 / f64::from(pictures);
    Ok(Took { wall: each(begin.elapsed().as_secs_f64()), cpu: each(cpu_seconds() - cpu) })
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The median round by the clock, and the fastest and the slowest one.
struct Median {
    took: Took,
    spread: (f64, f64),
}

fn median(mut took: Vec<Took>) -> Median {
    took.sort_by(|a, b| a.wall.total_cmp(&b.wall));
    Median { took: took[took.len() / 2], spread: (took[0].wall, took[took.len() - 1].wall) }
}

impl Median {
    fn json(&self) -> String {
        let Self { took, spread } = self;
        format!(
            "{{\"ms\": {:.3}, \"cpu_ms\": {:.3}, \"fastest_ms\": {:.3}, \"slowest_ms\": {:.3}}}",
            took.wall, took.cpu, spread.0, spread.1
        )
    }
}

/// Returns the step that [`Scaling::Reduced`] takes for a 4:2:0 picture.
fn step(region: Rect) -> u32 {
    let leaves = |step: &u32| region.width.min(region.height) >= SIDE * step * 3;
    [8, 4, 2].into_iter().find(leaves).unwrap_or(1)
}

/// A decoder that makes the libraries' own calls, and keeps everything that can be kept.
struct Bare {
    handle: *mut c_void,
    pixels: Vec<u8>,
    resizer: fast_image_resize::Resizer,
}

impl Bare {
    fn new() -> Result<Self> {
        // SAFETY: the call takes no pointer.
        let handle = unsafe { tj::tj3Init(tj::TJINIT_TJINIT_DECOMPRESS as c_int) };
        if handle.is_null() {
            return Err("tj3Init failed".into());
        }
        Ok(Self { handle, pixels: Vec::new(), resizer: fast_image_resize::Resizer::new() })
    }

    fn crop_resize(
        &mut self,
        bytes: &[u8],
        (width, height): (u32, u32),
        region: Rect,
        step: u32,
        out: &mut [u8],
    ) -> Result<()> {
        let (w, h) = (width.div_ceil(step), height.div_ceil(step));
        self.pixels.resize((w * h * 3) as usize, 0);
        let factor = tj::tjscalingfactor { num: 1, denom: step as c_int };
        // SAFETY: the handle lives as long as `self`; `bytes` is only read; the file is one that
        // `mosaic` made, of `width` by `height`, and `pixels` has its size at this scale.
        let code = unsafe {
            let (start, len) = (bytes.as_ptr(), bytes.len() as tj::size_t);
            tj::tj3DecompressHeader(self.handle, start, len)
                | tj::tj3SetScalingFactor(self.handle, factor)
                | tj::tj3Decompress8(
                    self.handle,
                    start,
                    len,
                    self.pixels.as_mut_ptr(),
                    0,
                    tj::TJPF_TJPF_RGB as c_int,
                )
        };
        if code != 0 {
            return Err("libjpeg-turbo failed".into());
        }
        let src = TypedImageRef::<U8x3>::from_buffer(w, h, &self.pixels)?;
        let Rect { x, y, width, height } = region;
        let src =
            TypedCroppedImage::from_ref(&src, x / step, y / step, width / step, height / step)?;
        let mut dst = TypedImage::<U8x3>::from_buffer(SIDE, SIDE, out)?;
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        self.resizer.resize_typed(&src, &mut dst, &options)?;
        Ok(())
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // SAFETY: the handle came from tj3Init and is destroyed once, here.
        unsafe { tj::tj3Destroy(self.handle) };
    }
}

/// How far a picture is from its full decode, in steps of 255.
struct Distance {
    largest: f64,
    mean: f64,
    psnr: f64,
}

fn quality(files: &[Vec<u8>]) -> Result<()> {
    println!("step  pictures          mean difference       largest difference   PSNR in dB");
    println!(
        "                median   99 %  worst     median   99 %  worst    worst   1 %  median"
    );
    for step in [2, 4, 8] {
        let mut distances = Vec::new();
        for (number, bytes) in files.iter().enumerate() {
            let (width, height) = read_header(bytes, &Limits::default())?.upright_size();
            // Every other picture, only a part is decoded, which begins and ends anywhere.
            let region = match number % 2 {
                0 => Rect::whole(width, height),
                _ => Rect::new(width / 7, height / 9, width * 5 / 6, height * 5 / 6),
            };
            let to = Resize::to(region.width / (step * 3), region.height / (step * 3));
            if to.width.min(to.height) >= 8 {
                distances.push(distance(bytes, region, &to)?);
            }
        }
        let at = |value: fn(&Distance) -> f64, percent: usize| {
            let mut values: Vec<f64> = distances.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values.get((values.len() * percent / 100).min(values.len() - 1)).copied()
        };
        let [mean, largest] = [(|d| d.mean) as fn(&Distance) -> f64, |d| d.largest]
            .map(|value| [50, 99, 100].map(|percent| at(value, percent).unwrap_or(f64::NAN)));
        let psnr = [0, 1, 50].map(|percent| at(|d| d.psnr, percent).unwrap_or(f64::NAN));
        println!(
            "1/{step}{:>10}{:>11.2}{:>7.2}{:>7.2}{:>11}{:>7}{:>7}{:>9.1}{:>7.1}{:>7.1}",
            distances.len(),
            mean[0],
            mean[1],
            mean[2],
            largest[0],
            largest[1],
            largest[2],
            psnr[0],
            psnr[1],
            psnr[2],
        );
    }
    Ok(())
}

fn distance(bytes: &[u8], region: Rect, to: &Resize) -> Result<Distance> {
    let [full, smaller] = [Scaling::Full, Scaling::Reduced].map(|scaling| {
        let mut out = vec![0; (to.width * to.height * 3) as usize];
        let options = DecodeOptions { scaling, ..DecodeOptions::default() };
        Decoder::new(options).crop_resize(bytes, region, to, &mut out).map(|()| out)
    });
    let (full, smaller) = (full?, smaller?);
    let differences = full.iter().zip(&smaller).map(|(a, b)| f64::from(a.abs_diff(*b)));
    let count = full.len() as f64;
    let squares = differences.clone().map(|d| d * d).sum::<f64>() / count;
    Ok(Distance {
        largest: differences.clone().fold(0.0, f64::max),
        mean: differences.sum::<f64>() / count,
        psnr: if squares > 0.0 { 10.0 * (255.0 * 255.0 / squares).log10() } else { 99.0 },
    })
}
