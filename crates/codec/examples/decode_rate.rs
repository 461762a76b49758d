//! Images a second on one core: full decode, and random crops resized to 224.
//!
//! `cargo run --release -p gular-codec --features turbo --example decode_rate -- DIR [PASSES]`

#![allow(clippy::print_stdout, reason = "a program whose output is its table")]

use std::{error::Error, fs, path::Path, time::Instant};

use gular_codec::{DecodeOptions, Decoder, JpegBackend, Limits, Rect, Resize, read_header};

const SIDE: u32 = 224;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let dir = args.next().ok_or("usage: decode_rate DIR [PASSES]")?;
    let passes = args.next().and_then(|n| n.to_str()?.parse().ok()).unwrap_or(3);
    let mut files = Vec::new();
    collect(Path::new(&dir), &mut files)?;
    let megabytes = files.iter().map(Vec::len).sum::<usize>() as f64 / 1e6;
    println!("{} images, {megabytes:.1} MB, {passes} passes, best of them", files.len());
    for backend in JpegBackend::ALL {
        let mut decoder =
            Decoder::new(DecodeOptions { jpeg: *backend, ..DecodeOptions::default() });
        let mut out = vec![0; (SIDE * SIDE * 3) as usize];
        let to = Resize::to(SIDE, SIDE);
        let mut failed = 0;
        let mut rate = |what: &str, job: &mut dyn FnMut(&mut Decoder, &[u8], u32) -> bool| {
            let mut best = f64::INFINITY;
            for _ in 0..passes {
                let start = Instant::now();
                failed = 0;
                for (bytes, n) in files.iter().zip(0..) {
                    failed += u32::from(!job(&mut decoder, bytes, n));
                }
                best = best.min(start.elapsed().as_secs_f64());
            }
            let per_second = files.len() as f64 / best;
            println!("{:20} {what:28} {per_second:8.0} images/s, {failed} failed", backend.name());
        };
        rate("header", &mut |_, bytes, _| read_header(bytes, &Limits::default()).is_ok());
        rate("full decode", &mut |decoder, bytes, _| decoder.decode(bytes).is_ok());
        rate("full decode, validated", &mut |decoder, bytes, _| decoder.validate(bytes).is_ok());
        rate("whole -> 224", &mut |decoder, bytes, _| {
            region(bytes, None)
                .is_some_and(|r| decoder.crop_resize(bytes, r, &to, &mut out).is_ok())
        });
        rate("random crop -> 224", &mut |decoder, bytes, n| {
            region(bytes, Some(n))
                .is_some_and(|r| decoder.crop_resize(bytes, r, &to, &mut out).is_ok())
        });
    }
    Ok(())
}

/// The whole picture, or a crop as RandomResizedCrop would take: 8 to 100 % of the area.
fn region(bytes: &[u8], seed: Option<u32>) -> Option<Rect> {
    let (width, height) = read_header(bytes, &Limits::default()).ok()?.upright_size();
    let Some(seed) = seed else {
        return Some(Rect::whole(width, height));
    };
    let mut state = u64::from(seed) + 1;
    let mut random = move || {
        // splitmix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 40) as f64 / (1u64 << 24) as f64
    };
    let area = f64::from(width) * f64::from(height) * (0.08 + 0.92 * random());
    let ratio = (0.75f64.ln() * (1.0 - 2.0 * random())).exp();
    let w = ((area * ratio).sqrt().round() as u32).clamp(1, width);
    let h = ((area / ratio).sqrt().round() as u32).clamp(1, height);
    let x = (f64::from(width - w) * random()) as u32;
    let y = (f64::from(height - h) * random()) as u32;
    Some(Rect::new(x, y, w, h))
}

fn collect(dir: &Path, files: &mut Vec<Vec<u8>>) -> Result<(), Box<dyn Error>> {
    let mut entries: Vec<_> = fs::read_dir(dir)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(fs::read(entry.path())?);
        }
    }
    Ok(())
}
