//! WebP: lossless files of `image-webp`, read whole and by regions, rotated and damaged.

use crate::fixtures::{exif, picture};
use gular_codec::{DecodeOptions, Decoder, Error, Format, Limits, Rect, Resize, read_header};
use image_webp::{ColorType, WebPEncoder};

const SIZE: (u32, u32) = (43, 29);

fn write(pixels: &[u8], colour: ColorType, exif: Option<Vec<u8>>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = WebPEncoder::new(&mut file);
    if let Some(exif) = exif {
        encoder.set_exif_metadata(exif);
    }
    encoder.encode(pixels, SIZE.0, SIZE.1, colour).unwrap();
    file
}

fn decoder() -> Decoder {
    let limits = Limits { max_pixels: 1 << 18 };
    Decoder::new(DecodeOptions { limits, ..DecodeOptions::default() })
}

#[test]
fn lossless_pixels_come_back_whole_and_by_regions() {
    let rgb = picture(SIZE.0, SIZE.1);
    let rgba: Vec<u8> =
        rgb.as_chunks::<3>().0.iter().flat_map(|[r, g, b]| [*r, *g, *b, r ^ g]).collect();
    for (file, channels) in
        [(write(&rgb, ColorType::Rgb8, None), 3), (write(&rgba, ColorType::Rgba8, None), 4)]
    {
        let header = read_header(&file, &Limits::default()).unwrap();
        assert_eq!((header.format, header.channels), (Format::WebP, channels));
        assert_eq!((header.width, header.height), SIZE);
        // Colours under transparent pixels are kept.
        assert_eq!(decoder().decode(&file).unwrap().into_data(), rgb);
        let region = Rect::new(7, 5, 20, 11);
        let part = decoder().decode_region(&file, region).unwrap();
        for (y, row) in part.data().chunks(20 * 3).enumerate() {
            let at = ((y + 5) * SIZE.0 as usize + 7) * 3;
            assert_eq!(row, &rgb[at..at + 60]);
        }
        decoder().validate(&file).unwrap();
        let limits = Limits { max_pixels: 43 * 29 - 1 };
        assert!(matches!(read_header(&file, &limits), Err(Error::TooLarge { .. })));
        let refused = decoder().decode_values(&file);
        assert!(matches!(refused, Err(Error::Unsupported { format: Format::WebP, .. })));
    }
}

#[test]
fn pictures_stand_upright() {
    let rgb = picture(SIZE.0, SIZE.1);
    let file = write(&rgb, ColorType::Rgb8, Some(exif(6)));
    assert_eq!(read_header(&file, &Limits::default()).unwrap().upright_size(), (29, 43));
    let image = decoder().decode(&file).unwrap();
    // The picture is turned clockwise by 90 degrees, so the first pixel of the last row is at the
    // top left.
    assert_eq!(image.data()[..3], rgb[28 * 43 * 3..][..3]);
}

#[test]
fn damage_is_an_error_or_a_picture() {
    let file = write(&picture(SIZE.0, SIZE.1), ColorType::Rgb8, None);
    for end in (0..64).chain((64..file.len()).step_by(41)) {
        assert!(decoder().decode(&file[..end]).is_err(), "{end}");
    }
    let mut out = [0; 12 * 12 * 3];
    for at in (0..64).chain((64..file.len()).step_by(17)) {
        let mut mutant = file.clone();
        mutant[at] ^= 0x7f;
        let _ = decoder().decode(&mutant);
        let region = Rect::new(3, 3, 20, 20);
        let _ = decoder().crop_resize(&mutant, region, &Resize::to(12, 12), &mut out);
    }
}
