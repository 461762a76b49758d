//! Whatever the bytes, decoding ends in a picture of the promised size or an error.
#![no_main]

use gular_codec::{DecodeOptions, Decoder, Limits, Rect, Resize, read_header};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { max_pixels: 1 << 20 };
    let Ok(header) = read_header(bytes, &limits) else { return };
    let mut decoder = Decoder::new(DecodeOptions { limits, ..DecodeOptions::default() });
    let (width, height) = header.upright_size();
    if let Ok(image) = decoder.decode(bytes) {
        assert_eq!((image.width(), image.height()), (width, height));
    }
    let region = Rect::new(width / 3, height / 3, (width / 2).max(1), (height / 2).max(1));
    let _ = decoder.crop_resize(bytes, region, &Resize::to(32, 32), &mut [0; 32 * 32 * 3]);
});
