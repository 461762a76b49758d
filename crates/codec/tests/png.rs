//! Every kind of PNG.

use crate::fixtures::{
    decoder, exif,
    png::{Png, samples, write},
};
use gular_codec::{Format, JpegBackend, Limits, Orientation, read_header};

const PALETTE: [u8; 48] = {
    let mut palette = [0; 48];
    let mut at = 0;
    while at < 48 {
        palette[at] = (at * 37 % 251) as u8;
        at += 1;
    }
    palette
};

const KINDS: [(u8, &[u8]); 5] =
    [(0, &[1, 2, 4, 8, 16]), (2, &[8, 16]), (3, &[1, 2, 4, 8]), (4, &[8, 16]), (6, &[8, 16])];

fn sample(x: u32, y: u32, channel: usize, depth: u8, colour: u8) -> u16 {
    let value = (x * 2711 + y * 977 + channel as u32 * 7919) as u16;
    if colour == 3 { (value >> 5) % (1 << depth.min(4)) } else { value >> (16 - depth) }
}

/// Returns the expected pixels: grey is repeated, alpha dropped, 16 bits cut to the high byte,
/// fewer than 8 bits stretched.
fn expected(png: &Png<'_>) -> Vec<u8> {
    let mut rgb = Vec::new();
    for y in 0..png.height {
        for x in 0..png.width {
            let at = |channel| {
                let value = sample(x, y, channel, png.depth, png.colour);
                match png.depth {
                    16 => (value >> 8) as u8,
                    depth => (u32::from(value) * 255 / ((1 << depth) - 1)) as u8,
                }
            };
            rgb.extend(match png.colour {
                3 => {
                    let index = usize::from(sample(x, y, 0, png.depth, 3)) * 3;
                    [PALETTE[index], PALETTE[index + 1], PALETTE[index + 2]]
                }
                2 | 6 => [at(0), at(1), at(2)],
                _ => [at(0); 3],
            });
        }
    }
    rgb
}

#[test]
fn every_kind_decodes_exactly() {
    let transparency: &[u8] = &[0, 128, 255];
    for (colour, depths) in KINDS {
        for depth in depths.iter().copied() {
            for interlaced in [false, true] {
                for (width, height) in [(1, 1), (3, 2), (9, 11), (33, 17)] {
                    for transparent in [false, true] {
                        let trns: &[u8] = match colour {
                            0 => &[0, 1],
                            2 => &[0, 1, 0, 2, 0, 3],
                            3 => &transparency[..2],
                            _ => continue,
                        };
                        let chunks: &[(&[u8; 4], &[u8])] =
                            &[(b"PLTE", &PALETTE[..3 << depth.min(4)]), (b"tRNS", trns)];
                        let first = usize::from(colour != 3);
                        let chunks = &chunks[first..if transparent { 2 } else { 1 }];
                        let png = Png { width, height, depth, colour, interlaced, chunks };
                        check(&png);
                    }
                    if matches!(colour, 4 | 6) {
                        check(&Png { width, height, depth, colour, interlaced, chunks: &[] });
                    }
                }
            }
        }
    }
}

fn check(png: &Png<'_>) {
    let file = write(png, |x, y, channel| sample(x, y, channel, png.depth, png.colour));
    let header = read_header(&file, &Limits::default()).unwrap();
    assert_eq!(header.format, Format::Png);
    assert_eq!((header.width, header.height), (png.width, png.height));
    assert_eq!(header.bit_depth, png.depth);
    assert_eq!(header.progressive, png.interlaced);
    let channels = if png.colour == 3 { 3 } else { samples(png.colour) };
    assert_eq!(usize::from(header.channels), channels);
    let mut decoder = decoder(JpegBackend::default());
    let image = decoder.decode(&file).unwrap();
    assert_eq!((image.width(), image.height()), (png.width, png.height));
    assert!(image.data() == expected(png), "{png:?}");
    assert_eq!(decoder.validate(&file).unwrap(), header);
}

#[test]
fn exif_orientation_is_followed() {
    let tiff = exif(6);
    let png = Png {
        width: 3,
        height: 2,
        depth: 8,
        colour: 0,
        interlaced: false,
        chunks: &[(b"eXIf", &tiff)],
    };
    let file = write(&png, |x, y, _| (y * 3 + x) as u16);
    let header = read_header(&file, &Limits::default()).unwrap();
    assert_eq!(header.orientation, Orientation::Rotate90);
    let image = decoder(JpegBackend::default()).decode(&file).unwrap();
    let grey: Vec<u8> = image.data().iter().step_by(3).copied().collect();
    assert_eq!((image.width(), image.height()), (2, 3));
    assert_eq!(grey, [3, 0, 4, 1, 5, 2]);
}

#[test]
fn bytes_behind_the_end_are_of_no_account() {
    let png = Png { width: 9, height: 7, depth: 8, colour: 2, interlaced: false, chunks: &[] };
    let mut file = write(&png, |x, y, channel| sample(x, y, channel, 8, 2));
    file.extend_from_slice(b"appended");
    let mut decoder = decoder(JpegBackend::default());
    assert!(decoder.decode(&file).unwrap().data() == expected(&png));
    assert!(decoder.validate(&file).is_ok());
}
