//! TIFF files of every kind: written by the tests, read by windows, damaged.

use std::io::{Cursor, Write as _};

use gular_codec::{
    Error, Limits, Rect,
    tiff::{Chunks, Geo, GeoTiffWriter, Number, Packing, Pages, Tiff},
};
use image_webp::{ColorType, WebPEncoder};

/// The kind of file that [`write`] makes.
#[derive(Debug, Clone, Copy)]
struct TiffKind {
    number: Number,
    bands: usize,
    planar: bool,
    tiled: bool,
    big_endian: bool,
    big_tiff: bool,
    compression: u16,
    predictor: u16,
}

const SIZE: (u32, u32) = (37, 29);
const PLAIN: TiffKind = TiffKind {
    number: Number::U16,
    bands: 3,
    planar: false,
    tiled: false,
    big_endian: false,
    big_tiff: false,
    compression: 1,
    predictor: 1,
};

/// Makes pixels `[height, width, bands]`, little-endian, with numbers that need all their bits.
fn pixels(kind: &TiffKind) -> Vec<u8> {
    let n = SIZE.0 as usize * SIZE.1 as usize * kind.bands;
    let value = |i: usize| {
        let x = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        match kind.number {
            Number::F32 => ((x % 100_000) as f32 / 7.0 - 999.0).to_le_bytes().to_vec(),
            Number::F64 => ((x % 100_000) as f64 / 7.0 - 999.0).to_le_bytes().to_vec(),
            _ => x.to_le_bytes()[..kind.number.bytes()].to_vec(),
        }
    };
    (0..n).flat_map(value).collect()
}

fn pack(kind: &TiffKind, chunk: &[u8]) -> Vec<u8> {
    match kind.compression {
        8 => {
            let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(chunk).unwrap();
            out.finish().unwrap()
        }
        5 => {
            let order = weezl::BitOrder::Msb;
            weezl::encode::Encoder::with_tiff_size_switch(order, 8).encode(chunk).unwrap()
        }
        50_000 => zstd::encode_all(chunk, 1).unwrap(),
        34_925 => {
            let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
            out.write_all(chunk).unwrap();
            out.finish().unwrap()
        }
        50_001 => {
            let width = if kind.tiled { 16 } else { SIZE.0 };
            let rows = chunk.len() / (width as usize * kind.bands);
            let color = if kind.bands == 4 { ColorType::Rgba8 } else { ColorType::Rgb8 };
            let mut out = Vec::new();
            let encoder = WebPEncoder::new(&mut out);
            encoder.encode(chunk, width, u32::try_from(rows).unwrap(), color).unwrap();
            out
        }
        32_773 => chunk.chunks(100).flat_map(|c| [&[c.len() as u8 - 1][..], c].concat()).collect(),
        _ => chunk.to_vec(),
    }
}

/// Makes what predictors 2 and 3 store for a row of samples.
fn predict(kind: &TiffKind, row: &mut [u8], samples: usize) {
    let bytes = kind.number.bytes();
    match kind.predictor {
        2 => {
            for at in (samples * bytes..row.len()).step_by(bytes).rev() {
                let number = |at: usize| {
                    row[at..at + bytes].iter().rev().fold(0_u64, |n, b| n << 8 | u64::from(*b))
                };
                let difference =
                    number(at).wrapping_sub(number(at - samples * bytes)).to_le_bytes();
                row[at..at + bytes].copy_from_slice(&difference[..bytes]);
            }
        }
        3 => {
            let n = row.len() / bytes;
            let planes: Vec<u8> = (0..bytes)
                .flat_map(|place| (0..n).map(move |i| i * bytes + bytes - 1 - place))
                .map(|at| row[at])
                .collect();
            row.copy_from_slice(&planes);
            for at in (samples..row.len()).rev() {
                row[at] = row[at].wrapping_sub(row[at - samples]);
            }
        }
        _ => {}
    }
    if kind.big_endian && kind.predictor != 3 {
        row.chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
    }
}

/// Makes a file of this kind with these pixels: strips of 8 rows, or tiles of 16 x 16.
fn write(kind: &TiffKind, pixels: &[u8]) -> Vec<u8> {
    let (w, h) = (SIZE.0 as usize, SIZE.1 as usize);
    let bytes = kind.number.bytes();
    let (cw, ch) = if kind.tiled { (16, 16) } else { (w, 8) };
    let samples = if kind.planar { 1 } else { kind.bands };
    let word = |n: u64, bytes: usize| match kind.big_endian {
        true => n.to_be_bytes()[8 - bytes..].to_vec(),
        false => n.to_le_bytes()[..bytes].to_vec(),
    };
    let mut file = vec![0; 16];
    let mut places = Vec::new();
    for plane in 0..if kind.planar { kind.bands } else { 1 } {
        for top in (0..h).step_by(ch) {
            for left in (0..w).step_by(cw) {
                let rows = if kind.tiled { ch } else { ch.min(h - top) };
                let mut chunk = Vec::new();
                for y in top..top + rows {
                    let mut row = Vec::new();
                    for x in left..left + cw {
                        let pixel = (y * w + x) * kind.bands + plane;
                        let at = pixel * bytes;
                        let inside = x < w && y < h;
                        let zeros = [0; 64];
                        let cell = if inside { &pixels[at..] } else { &zeros[..] };
                        row.extend_from_slice(&cell[..samples * bytes]);
                    }
                    predict(kind, &mut row, samples);
                    chunk.append(&mut row);
                }
                let packed = pack(kind, &chunk);
                places.push((file.len() as u64, packed.len() as u64));
                file.extend(packed);
            }
        }
    }
    let room = if kind.big_tiff { 8 } else { 4 };
    let format = match kind.number {
        Number::F16 | Number::F32 | Number::F64 => 3,
        Number::I8 | Number::I16 | Number::I32 | Number::I64 => 2,
        _ => 1,
    };
    let all = |v: u64| vec![v; kind.bands];
    let offsets: Vec<u64> = places.iter().map(|p| p.0).collect();
    let lengths: Vec<u64> = places.iter().map(|p| p.1).collect();
    let mut tags: Vec<(u64, u64, usize, Vec<u64>)> = vec![
        (256, 3, 2, vec![w as u64]),
        (257, 4, 4, vec![h as u64]),
        (258, 3, 2, all(bytes as u64 * 8)),
        (259, 3, 2, vec![kind.compression.into()]),
        (262, 3, 2, vec![1]),
        (277, 3, 2, vec![kind.bands as u64]),
        (284, 3, 2, vec![if kind.planar { 2 } else { 1 }]),
        (317, 3, 2, vec![kind.predictor.into()]),
        (339, 3, 2, all(format)),
    ];
    match kind.tiled {
        true => tags.extend([
            (322, 3, 2, vec![16]),
            (323, 3, 2, vec![16]),
            (324, 4, 4, offsets),
            (325, 4, 4, lengths),
        ]),
        false => {
            tags.extend([(273, 4, 4, offsets), (278, 3, 2, vec![8]), (279, 4, 4, lengths)]);
        }
    }
    tags.sort();
    let mut entries = Vec::new();
    for (tag, of_type, size, values) in tags {
        let data: Vec<u8> = values.iter().flat_map(|v| word(*v, size)).collect();
        entries.extend(word(tag, 2));
        entries.extend(word(of_type, 2));
        entries.extend(word(values.len() as u64, room));
        if data.len() <= room {
            entries.extend(&data);
            entries.resize(entries.len() + room - data.len(), 0);
        } else {
            entries.extend(word(file.len() as u64, room));
            file.extend(data);
        }
    }
    let at = file.len() as u64;
    let entry = 4 + 2 * room;
    file.extend(word((entries.len() / entry) as u64, if kind.big_tiff { 8 } else { 2 }));
    file.extend(entries);
    file.extend(word(0, room));
    let mut head = if kind.big_endian { b"MM".to_vec() } else { b"II".to_vec() };
    match kind.big_tiff {
        true => {
            head.extend([word(43, 2), word(8, 2), word(0, 2), word(at, 8)].concat());
        }
        false => head.extend([word(42, 2), word(at, 4)].concat()),
    }
    file[..head.len()].copy_from_slice(&head);
    file
}

fn read(file: &[u8], window: Option<Rect>) -> Result<(Tiff, Vec<u8>), Error> {
    let tiff = Tiff::read(file, &Limits { max_pixels: 1 << 20 })?;
    let window = window.unwrap_or(tiff.whole());
    let mut out = vec![0; tiff.window_bytes(window)?];
    tiff.read_window(file, 0, window, &mut Chunks::new(1 << 20), &mut out)?;
    Ok((tiff, out))
}

#[test]
fn every_kind_of_file_gives_its_numbers() {
    let mut n = 0;
    for number in [
        Number::U8,
        Number::I8,
        Number::U16,
        Number::I16,
        Number::U32,
        Number::I32,
        Number::I64,
        Number::F32,
        Number::F64,
    ] {
        for compression in [1, 5, 8, 32_773, 34_925, 50_000] {
            for bits in 0..16_u8 {
                let bit = |i: u8| bits >> i & 1 == 1;
                let float = matches!(number, Number::F32 | Number::F64);
                let kind = TiffKind {
                    number,
                    bands: if compression == 1 { 1 } else { 5 },
                    planar: bit(0),
                    tiled: bit(1),
                    big_endian: bit(2),
                    big_tiff: bit(3),
                    compression,
                    predictor: if matches!(compression, 1 | 32_773) || bits % 3 == 0 {
                        1
                    } else if float {
                        3
                    } else {
                        2
                    },
                };
                let pixels = pixels(&kind);
                let file = write(&kind, &pixels);
                let (tiff, found) = read(&file, None).unwrap_or_else(|e| panic!("{kind:?}: {e}"));
                assert_eq!((tiff.width, tiff.height, tiff.number), (SIZE.0, SIZE.1, number));
                assert!(found == pixels, "{kind:?}");
                n += 1;
            }
        }
    }
    assert_eq!(n, 9 * 6 * 16);
}

#[test]
fn windows_are_parts_of_the_whole() {
    for (planar, tiled) in [(false, false), (false, true), (true, true)] {
        let kind = TiffKind { planar, tiled, bands: 4, compression: 8, ..PLAIN };
        let whole = pixels(&kind);
        let file = write(&kind, &whole);
        for window in [
            Rect::new(0, 0, 1, 1),
            Rect::new(5, 3, 20, 26),
            Rect::new(36, 28, 1, 1),
            Rect::new(15, 15, 2, 2),
            // These windows are exactly one tile, and one strip.
            Rect::new(16, 0, 16, 16),
            Rect::new(0, 8, SIZE.0, 8),
        ] {
            let (_, found) = read(&file, Some(window)).unwrap();
            let pixel = 8;
            let rows = whole.chunks(SIZE.0 as usize * pixel).skip(window.y as usize);
            let expected: Vec<u8> = rows
                .take(window.height as usize)
                .flat_map(|row| &row[window.x as usize * pixel..][..window.width as usize * pixel])
                .copied()
                .collect();
            assert!(found == expected, "{kind:?} {window}");
        }
        let outside = read(&file, Some(Rect::new(30, 0, 8, 1)));
        assert!(matches!(outside, Err(Error::BadRegion { .. })));
    }
}

#[test]
fn written_files_are_read_back_with_all_they_say() {
    let geo = Geo {
        transform: Some([399_960.0, 10.0, 0.0, 5_000_040.0, 0.0, -10.0]),
        crs: Some("EPSG:32632".into()),
        nodata: Some(-9999.0),
        bands: vec!["B02".into(), "B&<4>".into()],
        scales: vec![[2.75e-5, -0.2], [1.0, 0.0]],
        rpc: (0..92).map(f64::from).collect(),
        ..Geo::default()
    };
    for (number, packing) in [
        (Number::I16, Packing::Deflate),
        (Number::F32, Packing::Deflate),
        (Number::U8, Packing::None),
    ] {
        let kind = TiffKind { number, bands: 2, ..PLAIN };
        let whole = pixels(&kind);
        let out = Cursor::new(Vec::new());
        let mut writer = GeoTiffWriter::new(out, SIZE, 2, number, geo.clone(), packing).unwrap();
        for rows in whole.chunks(SIZE.0 as usize * 2 * number.bytes() * 3) {
            writer.push(rows).unwrap();
        }
        assert!(writer.push(&whole).is_err());
        let file = writer.finish().unwrap().into_inner();
        let (tiff, found) = read(&file, None).unwrap();
        assert!(found == whole);
        assert_eq!(tiff.geo, geo);
        let out = Cursor::new(Vec::new());
        let mut writer = GeoTiffWriter::new(out, SIZE, 2, number, geo.clone(), packing).unwrap();
        writer.push(&whole).unwrap();
        assert!(writer.finish().unwrap().into_inner() == file, "all rows at once");
    }
    let rotated = Geo { transform: Some([1.0, 2.0, 0.5, 3.0, 0.25, -2.0]), ..Geo::default() };
    let sphere = Geo { crs: Some("EPSG:4326".into()), ..rotated };
    let out = Cursor::new(Vec::new());
    let mut writer =
        GeoTiffWriter::new(out, (3, 1), 1, Number::U8, sphere.clone(), Packing::Deflate).unwrap();
    writer.push(&[1, 2, 3]).unwrap();
    let file = writer.finish().unwrap().into_inner();
    assert_eq!(read(&file, None).unwrap().0.geo, sphere);
    let gcps = vec![[0.0, 0.0, 10.0, 50.0, 7.0], [3.0, 0.5, 10.1, 50.2, -1.0]];
    let warped = Geo { transform: None, gcps, ..sphere };
    let out = Cursor::new(Vec::new());
    let mut writer =
        GeoTiffWriter::new(out, (3, 1), 1, Number::U8, warped.clone(), Packing::Deflate).unwrap();
    writer.push(&[1, 2, 3]).unwrap();
    assert_eq!(read(&writer.finish().unwrap().into_inner(), None).unwrap().0.geo, warped);
    let own = Geo { crs: Some("My grid".into()), nodata: Some(f64::NAN), ..Geo::default() };
    let out = Cursor::new(Vec::new());
    let mut writer = GeoTiffWriter::new(out, (3, 1), 1, Number::F32, own, Packing::None).unwrap();
    writer.push(&[0; 12]).unwrap();
    let geo = read(&writer.finish().unwrap().into_inner(), None).unwrap().0.geo;
    let keys = r#"GeoKeys:{"1024":1,"1025":1,"3072":32767,"3073":"My grid"}"#;
    assert_eq!(geo.crs.as_deref(), Some(keys));
    assert!(geo.nodata.unwrap().is_nan());
    for crs in [keys, "PROJCS[\"a\",GEOGCS[\"b\"],UNIT[\"metre\",1]]"] {
        let geo = Geo { crs: Some(crs.into()), ..Geo::default() };
        let out = Cursor::new(Vec::new());
        let mut writer =
            GeoTiffWriter::new(out, (3, 1), 1, Number::U8, geo.clone(), Packing::None).unwrap();
        writer.push(&[0; 3]).unwrap();
        assert_eq!(read(&writer.finish().unwrap().into_inner(), None).unwrap().0.geo, geo);
    }
}

#[test]
fn what_was_never_written_is_nodata() {
    let kind = TiffKind { tiled: true, ..PLAIN };
    let mut file = write(&kind, &pixels(&kind));
    let tiff = Tiff::read(file.as_slice(), &Limits::default()).unwrap();
    // The offsets of the six tiles are stored one after another, as `u32`, before the directory.
    let places: Vec<u8> = (0..6_u32).flat_map(|i| (16 + i * 16 * 16 * 6).to_le_bytes()).collect();
    let at = file.windows(places.len()).position(|w| w == places).unwrap();
    file[at..at + 4].fill(0);
    let mut out = vec![7; tiff.window_bytes(tiff.whole()).unwrap()];
    let mut sparse = Tiff::read(file.as_slice(), &Limits::default()).unwrap();
    let mut check = |tiff: &Tiff, expected: u16| {
        let mut chunks = Chunks::new(0);
        tiff.read_window(file.as_slice(), 0, tiff.whole(), &mut chunks, &mut out).unwrap();
        assert_eq!(out[..2], expected.to_le_bytes());
        assert_ne!(out[16 * 6..][..2], expected.to_le_bytes());
    };
    check(&sparse, 0);
    sparse.geo.nodata = Some(65_535.0);
    check(&sparse, 65_535);
    // The memory for a tile that is read by itself may contain anything.
    let tile = Rect::new(0, 0, 16, 16);
    let mut out = vec![7; tiff.window_bytes(tile).unwrap()];
    sparse.geo.nodata = None;
    sparse.read_window(file.as_slice(), 0, tile, &mut Chunks::new(0), &mut out).unwrap();
    assert!(out.iter().all(|byte| *byte == 0));
    let none = [tile, Rect::new(3, 4, 5, 12)];
    let some = [sparse.whole(), Rect::new(0, 0, 17, 1), Rect::new(16, 0, 4, 4)];
    assert!(none.iter().all(|window| sparse.is_unwritten(*window)));
    assert!(!some.iter().any(|window| sparse.is_unwritten(*window)));
    assert!(!sparse.is_unwritten(Rect::new(0, 0, 99, 1)), "outside");
}

/// Returns the position of a tag's value in a little-endian file.
fn value_of(file: &[u8], tag: u16) -> usize {
    let at = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
    let n = u16::from_le_bytes(file[at..at + 2].try_into().unwrap()) as usize;
    let mut entries = (0..n).map(|i| at + 2 + i * 12);
    entries.find(|e| file[*e..*e + 2] == tag.to_le_bytes()).unwrap() + 8
}

#[test]
fn declared_sizes_are_checked_before_memory_is_asked_for() {
    let kind = TiffKind { tiled: true, bands: 1, number: Number::U8, ..PLAIN };
    let file = write(&kind, &pixels(&kind));
    let check = |changes: &[(u16, u32)], words: &str| {
        let mut file = file.clone();
        for (tag, value) in changes {
            let at = value_of(&file, *tag);
            // The value's type becomes a long.
            file[at - 6..at - 4].copy_from_slice(&4_u16.to_le_bytes());
            file[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let error = read(&file, None).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check(&[(256, 1_000_000_000), (257, 1_000_000_000)], "lengths for 3906250000000000 tiles");
    check(&[(322, 1_000_000_000), (323, 1_000_000_000)], "pixels, more than the limit of 1048576");
    check(&[(256, 0)], "it has no width");
    check(&[(277, 60_000)], "number of bands");
    check(&[(258, 7)], "unsigned integers of 7 bits");
    check(&[(339, 6)], "complex numbers");
    check(&[(259, 50_002)], "JPEG XL (50002)");
    check(&[(259, 99)], "an unknown method (99)");
    check(&[(284, 3)], "planar configuration");
    check(&[(322, 0)], "width of tiles");
}

#[test]
fn chunks_of_webp_have_three_or_four_samples() {
    for (bands, tiled) in [(3, false), (3, true), (4, false), (4, true)] {
        let kind = TiffKind { bands, tiled, compression: 50_001, ..PLAIN };
        let kind = TiffKind { number: Number::U8, ..kind };
        let pixels = pixels(&kind);
        let file = write(&kind, &pixels);
        let (_, found) = read(&file, None).unwrap_or_else(|e| panic!("{kind:?}: {e}"));
        assert_eq!(found, pixels, "{kind:?}");
        for at in (0..file.len()).step_by(19) {
            let mut mutant = file.clone();
            mutant[at] ^= 0x41;
            let _ = read(&mutant, None);
        }
    }
    let two = TiffKind { number: Number::U8, bands: 2, compression: 50_001, ..PLAIN };
    let file = write(&TiffKind { compression: 1, ..two }, &pixels(&two));
    let mut webp = file.clone();
    // The tag of the compression, and its value.
    let at = (0..file.len()).rev().find(|at| file[*at..].starts_with(&[3, 1, 3, 0])).unwrap();
    webp[at + 8..at + 10].copy_from_slice(&50_001_u16.to_le_bytes());
    let error = read(&webp, None).unwrap_err().to_string();
    assert!(error.contains("WebP of 2 samples of 8 bits"), "{error}");
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize
    };
    for (compression, tiled) in
        [(1, true), (5, false), (8, true), (32_773, false), (34_925, false), (50_000, true)]
    {
        let kind = TiffKind {
            compression,
            tiled,
            predictor: if compression == 1 { 1 } else { 2 },
            ..PLAIN
        };
        let file = write(&kind, &pixels(&kind));
        for end in (0..file.len() - 4).step_by(97) {
            assert!(read(&file[..end], None).is_err(), "{end}");
        }
        for _ in 0..300 {
            let mut mutant = file.clone();
            for _ in 0..1 + next() % 3 {
                // Most changes are near the end, where the directory is.
                let back = next() % if next() % 4 == 0 { file.len() } else { 400.min(file.len()) };
                mutant[file.len() - 1 - back] = next() as u8;
            }
            let _ = read(&mutant, None);
        }
    }
}

/// Directories may lead to each other in a circle, and to anywhere.
#[test]
fn a_mask_is_searched_for_in_a_bounded_number_of_directories() {
    let file = write(&PLAIN, &pixels(&PLAIN));
    let at = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
    let next = at + 2 + 12 * usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    for to in [at as u32, 3, file.len() as u32, u32::MAX] {
        let mut circle = file.clone();
        circle[next..next + 4].copy_from_slice(&to.to_le_bytes());
        let limits = Limits { max_pixels: 1 << 20 };
        let tiff = Tiff::read_pages(circle.as_slice(), &limits, Pages::First).unwrap();
        assert!(!tiff.is_masked(), "{to}");
    }
    // Without the offset of a next directory, at the end of a file.
    assert_eq!(read(&file[..next], None).unwrap().1, pixels(&PLAIN));
}

#[test]
fn lerc_gives_the_numbers_of_gdal() {
    let number = |i: usize| (911 * i % 1021) as f64 / 4.0;
    for (file, bands, of) in [
        (
            &include_bytes!("fixtures/lerc-nan.tif")[..],
            3,
            (|i, number| {
                let number = if i % 7 == 0 { f32::NAN } else { number as f32 };
                number.to_le_bytes().to_vec()
            }) as fn(usize, f64) -> Vec<u8>,
        ),
        (include_bytes!("fixtures/lerc-deflate.tif"), 2, |_, number| number.to_le_bytes().to_vec()),
        (include_bytes!("fixtures/lerc-zstd.tif"), 4, |_, number| vec![number as u8]),
    ] {
        let (tiff, found) = read(file, None).unwrap();
        assert_eq!((tiff.width, tiff.height, tiff.bands), (23, 20, bands));
        let n = 20 * 23 * usize::from(bands);
        let expected: Vec<u8> = (0..n).flat_map(|i| of(i, number(i))).collect();
        assert!(found == expected, "{bands}");
        for at in (0..file.len()).step_by(5) {
            let mut mutant = file.to_vec();
            mutant[at] ^= 0x41;
            let _ = read(&mutant, None);
            let _ = read(&file[..at], None);
        }
    }
}
