//! Decoding any bytes gives a picture of the promised size, or numbers, or an error.
#![no_main]

use gular_bundle::Npy;
use gular_codec::jpeg2000::{Jpeg2000, is_jpeg_2000};
use gular_codec::nifti::{Nifti, is_nifti};
use gular_codec::tiff::{Chunks, Pages, Tiff};
use gular_codec::{DecodeOptions, Decoder, Limits, Rect, Resize, read_header};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { max_pixels: 1 << 20 };
    if bytes.starts_with(b"\x93") {
        if let Ok(npy) = Npy::parse(bytes) {
            assert!(npy.data_at <= bytes.len() as u64);
        }
        return;
    }
    if is_jpeg_2000(bytes) {
        // Pixels of several megabytes take their time, whatever they are.
        let limits = Limits { max_pixels: 1 << 16 };
        if let Ok(jp2) = Jpeg2000::read(bytes, &limits)
            && let Ok(values) = jp2.decode(bytes)
        {
            let pixels = jp2.width as usize * jp2.height as usize;
            assert_eq!(values.len(), pixels * usize::from(jp2.bands) * jp2.number.bytes());
        }
        return;
    }
    if is_nifti(bytes) {
        if let Ok(nifti) = Nifti::parse(bytes, &limits)
            && let Ok(values) = nifti.values(bytes)
        {
            assert_eq!(values.len() as u64, nifti.len_bytes());
        }
        return;
    }
    let tiff = Tiff::read(bytes, &limits);
    if let Ok(tiff) = tiff.or_else(|_| Tiff::read_pages(bytes, &limits, Pages::Bands)) {
        let (width, height) = (tiff.width.min(64), tiff.height.min(64));
        let window = Rect::new(tiff.width - width, tiff.height - height, width, height);
        let mut out = vec![0; tiff.window_bytes(window).unwrap()];
        let _ = tiff.read_window(bytes, 0, window, &mut Chunks::new(1 << 20), &mut out);
        return;
    }
    let Ok(header) = read_header(bytes, &limits) else { return };
    let mut decoder = Decoder::new(DecodeOptions { limits, ..DecodeOptions::default() });
    let (width, height) = header.upright_size();
    if let Ok(image) = decoder.decode(bytes) {
        assert_eq!((image.width(), image.height()), (width, height));
    }
    let region = Rect::new(width / 3, height / 3, (width / 2).max(1), (height / 2).max(1));
    let _ = decoder.crop_resize(bytes, region, &Resize::to(32, 32), &mut [0; 32 * 32 * 3]);
});
