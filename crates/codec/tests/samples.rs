//! Real photographs, from the folder named by `GULAR_SAMPLE_IMAGES`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::fixtures::{Random, cut, decoder, distance};
use gular_codec::{Error, Format, JpegBackend, Rect};

fn samples() -> Vec<(PathBuf, Vec<u8>)> {
    let Some(dir) = std::env::var_os("GULAR_SAMPLE_IMAGES") else {
        println!("skipped: GULAR_SAMPLE_IMAGES is not set");
        return Vec::new();
    };
    let mut files = Vec::new();
    collect(Path::new(&dir), &mut files);
    files
}

fn collect(dir: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            let bytes = fs::read(&path).unwrap();
            if Format::sniff(&bytes).is_some() {
                files.push((path, bytes));
            }
        }
    }
}

#[test]
fn backends_agree_on_photographs() {
    let mut decoders: Vec<_> = JpegBackend::ALL.iter().map(|b| decoder(*b)).collect();
    let (mut largest_of_all, mut worst_mean, mut refused) = (0, 0.0f64, 0);
    for (path, bytes) in samples() {
        let images: Vec<_> = decoders.iter_mut().map(|decoder| decoder.decode(&bytes)).collect();
        for (decoder, image) in decoders.iter_mut().zip(&images) {
            let found = decoder.validate(&bytes).err();
            assert_eq!(found, image.as_ref().err().cloned(), "{}", path.display());
        }
        refused += u32::from(matches!(images.last(), Some(Err(Error::Unsupported { .. }))));
        let pixels: Vec<_> = images.iter().filter_map(|image| image.as_ref().ok()).collect();
        assert!(!pixels.is_empty(), "{}: {:?}", path.display(), images[0]);
        for image in &pixels {
            let (largest, mean) = distance(image.data(), pixels[0].data());
            largest_of_all = largest.max(largest_of_all);
            worst_mean = mean.max(worst_mean);
            assert!(largest <= 80 && mean < 1.5, "{}: {largest}, {mean}", path.display());
        }
    }
    println!("largest difference {largest_of_all}, worst mean {worst_mean:.3}, {refused} refused");
}

#[test]
fn regions_of_photographs_equal_the_full_decode() {
    let mut random = Random(11);
    let mut decoder = decoder(JpegBackend::default());
    for (path, bytes) in samples() {
        let full = decoder.decode(&bytes).unwrap();
        let mut below = |end: u32| random.below(u64::from(end)) as u32;
        let (x, y) = (below(full.width()), below(full.height()));
        let (width, height) = (1 + below(full.width() - x), 1 + below(full.height() - y));
        let region = decoder.decode_region(&bytes, Rect::new(x, y, width, height)).unwrap();
        assert!(region.data() == cut(&full, x, y, width, height), "{}", path.display());
    }
}
