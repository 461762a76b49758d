//! The loader gives the same tensors for any threads, slots, ranks and interruptions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::fixtures::{self, Recipe, label, make, open};
use gular_bundle::{
    Decimal, Dtype, Field, FieldIdx, FieldName, Nodata, Row, ShardIdx, Statistics, write_manifest,
};
use gular_codec::{DecodeOptions, Decoder, Rect, Resize, encode_jpeg, encode_png};
use gular_runtime::augment::{Augment, Pixels};
use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::{
    AxisOrder, Batch, Bundle, Depth, Env, Error, IGNORED_LABEL, Loader, LoaderError, LoaderOptions,
    Normalise, NormaliseBy, Numbers, OnBadSample, OrientationPolicy, Phase, Ranks, Scaling, Split,
    StopFlag, Transform, UnknownLabels,
};

const SIDE: u32 = 16;
const N: u64 = 25;

/// A copy of one batch: ids, labels and images.
type Copied = (Vec<u64>, Vec<i64>, Vec<u8>);

fn options(kind: OrderKind) -> LoaderOptions {
    LoaderOptions {
        batch_size: 4,
        order: OrderSpec { kind, seed: 11, drop_last: false },
        threads: 3,
        transform: Transform::train(SIDE),
        ..LoaderOptions::new(Split::Train)
    }
}

fn copied(batch: &Batch) -> Copied {
    (batch.sample_ids().to_vec(), batch.labels().to_vec(), batch.images().to_vec())
}

fn epoch(loader: &mut Loader, epoch: u64) -> Vec<Copied> {
    loader.epoch(epoch).map(|batch| copied(&batch.unwrap())).collect()
}

const KINDS: [OrderKind; 3] =
    [OrderKind::Torch { shuffle: true }, OrderKind::Elastic, OrderKind::Window { shards: 2 }];

#[test]
fn threads_and_slots_change_nothing() {
    let made = make(&Recipe::default());
    for kind in KINDS {
        let mut expected = None;
        for (threads, slots) in [(1, 2), (2, 3), (8, 2), (3, 9)] {
            let options = LoaderOptions { threads, slots, ..options(kind) };
            let mut loader = Loader::new(made.bundle.clone(), options).unwrap();
            let found = [epoch(&mut loader, 0), epoch(&mut loader, 1), epoch(&mut loader, 0)];
            assert_eq!(found[0], found[2]);
            assert_ne!(found[0], found[1]);
            assert_eq!(found[0].len() as u64, loader.n_steps());
            let expected = expected.get_or_insert_with(|| found.clone());
            assert_eq!(&found, expected, "{threads} threads, {slots} slots");
        }
    }
}

#[test]
fn ranks_share_an_epoch_and_change_no_sample() {
    let made = make(&Recipe::default());
    let rows = |world_size: u64| {
        let mut rows = BTreeMap::new();
        let mut n = 0;
        for rank in 0..world_size {
            let options = LoaderOptions { rank, world_size, ..options(OrderKind::Elastic) };
            let mut loader = Loader::new(made.bundle.clone(), options).unwrap();
            let batches = epoch(&mut loader, 3);
            assert_eq!(batches.len() as u64, N.div_ceil(4 * world_size), "steps of rank {rank}");
            for (ids, labels, images) in batches {
                for ((id, label), image) in
                    ids.iter().zip(labels).zip(images.chunks((SIDE * SIDE * 3) as usize))
                {
                    rows.insert(*id, (label, image.to_vec()));
                    n += 1;
                }
            }
        }
        assert_eq!(n, N, "world size {world_size}");
        rows
    };
    let one = rows(1);
    assert_eq!(one.keys().copied().collect::<Vec<_>>(), (0..N).collect::<Vec<_>>());
    assert!(one.iter().all(|(id, (found, _))| *found == label(*id as usize)));
    for world_size in [2, 3, 6, 7] {
        assert_eq!(rows(world_size), one, "world size {world_size}");
    }
}

#[test]
fn an_epoch_resumed_at_any_step_goes_on_as_if_undisturbed() {
    let made = make(&Recipe::default());
    for kind in KINDS {
        for drop_last in [false, true] {
            let mut options = options(kind);
            options.order.drop_last = drop_last;
            let mut loader = Loader::new(made.bundle.clone(), options.clone()).unwrap();
            let whole = [epoch(&mut loader, 5), epoch(&mut loader, 6)];
            for stop in 0..=whole[0].len() {
                let mut first = Loader::new(made.bundle.clone(), options.clone()).unwrap();
                let mut batches = first.epoch(5);
                let mut found: Vec<Copied> =
                    batches.by_ref().take(stop).map(|b| copied(&b.unwrap())).collect();
                let state = batches.state();
                drop(batches);
                assert_eq!(state, first.state());
                drop(first);
                let state = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
                let mut second = Loader::new(made.bundle.clone(), options.clone()).unwrap();
                second.restore(&state).unwrap();
                found.extend(epoch(&mut second, 5));
                assert_eq!(found, whole[0], "{kind:?} stopped after {stop}");
                assert_eq!(epoch(&mut second, 6), whole[1]);
                assert_eq!(epoch(&mut second, 5), whole[0], "restored once only");
            }
        }
    }
}

#[test]
fn a_resume_may_change_the_world_size_of_elastic_orders() {
    let made = make(&Recipe::default());
    for kind in [OrderKind::Elastic, OrderKind::Window { shards: 3 }] {
        let mut ids = Vec::new();
        let mut state = None;
        for rank in 0..3 {
            let options = LoaderOptions { rank, world_size: 3, batch_size: 2, ..options(kind) };
            let mut loader = Loader::new(made.bundle.clone(), options).unwrap();
            let mut batches = loader.epoch(1);
            for batch in batches.by_ref().take(2) {
                ids.extend(batch.unwrap().sample_ids().to_vec());
            }
            state = Some(batches.state());
        }
        let mut loader = Loader::new(made.bundle.clone(), options(kind)).unwrap();
        loader.restore(&state.unwrap()).unwrap();
        ids.extend(epoch(&mut loader, 1).into_iter().flat_map(|(ids, ..)| ids));
        ids.sort_unstable();
        assert_eq!(ids, (0..N).collect::<Vec<_>>());
    }
}

#[test]
fn states_of_other_trainings_are_refused() {
    let made = make(&Recipe::default());
    let other = make(&Recipe { train: &[3], ..Recipe::default() });
    let kind = OrderKind::Torch { shuffle: true };
    let mut loader = Loader::new(made.bundle.clone(), options(kind)).unwrap();
    let check = |loader: &mut Loader, state, word: &str| {
        let error = loader.restore(&state).unwrap_err();
        assert!(matches!(error, Error::State(_)) && error.hint().is_some());
        assert!(error.to_string().contains(word), "{error}");
    };
    let state = Loader::new(other.bundle, options(kind)).unwrap().state();
    check(&mut loader, state, "was saved with the bundle blake3:");
    let mut options = options(kind);
    options.order.seed = 12;
    let state = Loader::new(made.bundle.clone(), options.clone()).unwrap().state();
    check(&mut loader, state, "seed 12");
    options.order.seed = 11;
    options.world_size = 2;
    let state = Loader::new(made.bundle, options).unwrap().state();
    check(&mut loader, state, "world size 2");
}

#[test]
fn rows_are_what_the_decoder_makes_of_the_whole_sample() {
    let made = make(&Recipe::default());
    let transform = Transform::Resize { width: 9, height: 5 };
    let kind = OrderKind::Torch { shuffle: false };
    let options = LoaderOptions { transform, ..options(kind) };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    let mut decoder = Decoder::new(DecodeOptions::default());
    let mut next = 0;
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        assert_eq!(batch.size(), (9, 5));
        for (id, row) in batch.sample_ids().iter().zip(batch.images().chunks(9 * 5 * 3)) {
            assert_eq!(*id, next);
            let image = decoder.decode(&fixtures::image(next as usize)).unwrap();
            let expected = gular_codec::resize(&image, &Resize::to(9, 5)).unwrap();
            assert_eq!(row, expected.data());
            next += 1;
        }
    }
    assert_eq!(next, N);
}

#[test]
fn evaluation_takes_the_middle_of_the_resized_picture() {
    let made = make(&Recipe::default());
    let transform = Transform::Eval { resize_short: 12, width: 10, height: 10 };
    let options = LoaderOptions {
        transform,
        order: OrderSpec { kind: OrderKind::Torch { shuffle: false }, seed: 0, drop_last: false },
        ..LoaderOptions::new(Split::Val)
    };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    let batch = loader.epoch(0).next().unwrap().unwrap();
    let image = Decoder::new(DecodeOptions::default()).decode(&fixtures::image(1000)).unwrap();
    let (w, h) = (image.width(), image.height());
    let to = if w <= h { (12, 12 * h / w) } else { (12 * w / h, 12) };
    let whole = gular_codec::resize(&image, &Resize::to(to.0, to.1)).unwrap();
    let middle = |length: u32| (f64::from(length - 10) / 2.0).round_ties_even() as usize;
    for y in 0..10 {
        let from = ((middle(to.1) + y) * to.0 as usize + middle(to.0)) * 3;
        assert_eq!(batch.images()[y * 30..][..30], whole.data()[from..from + 30], "row {y}");
    }
}

/// (columns, rows) of pictures stored as pixels.
const STORED: (u32, u32) = (32, 24);

/// Every transform over a bundle of the samples `values`.
fn all_transforms(image: Option<Field>, values: Vec<Vec<u8>>) -> Vec<Vec<Copied>> {
    let replace: Vec<(usize, Vec<u8>)> = values.into_iter().enumerate().collect();
    let made = make(&Recipe { val: &[], image, replace: &replace, ..Recipe::default() });
    let (scale, ratio) = ((1.0, 1.0), (1.0, 1.0));
    let always = Transform::Train { width: 24, height: 24, scale, ratio, flip: 1.0 };
    let transforms = [
        Transform::train(SIDE),
        always,
        // These two transforms do not resize.
        Transform::Resize { width: STORED.0, height: STORED.1 },
        Transform::Eval { resize_short: STORED.1, width: 20, height: 20 },
        Transform::Eval { resize_short: 12, width: 10, height: 10 },
        Transform::Train { width: 20, height: 11, scale: (0.08, 1.0), ratio, flip: 0.5 },
        // The picture is wider than high, and has zeros around it.
        Transform::Crop { width: 20, height: 11, padding: 0, flip: 0.5 },
        Transform::Crop { width: STORED.0, height: STORED.1, padding: 4, flip: 0.5 },
        Transform::Crop { width: 40, height: 7, padding: 1, flip: 0.5 },
        Transform::Eval { resize_short: STORED.1, width: 44, height: 10 },
        Transform::Resize { width: 9, height: 5 },
    ];
    let run = |transform| {
        let options = LoaderOptions { transform, depth: Depth::U8, ..options(OrderKind::Elastic) };
        epoch(&mut Loader::new(Arc::clone(&made.bundle), options).unwrap(), 3)
    };
    transforms.into_iter().map(run).collect()
}

#[test]
fn stored_pixels_give_the_batches_of_the_same_pictures_encoded() {
    let (width, height) = STORED;
    let values = |channels: u32, bytes: u32| -> Vec<Vec<u8>> {
        let n = width * height * channels * bytes;
        let value = |i: u32, at: u32| ((at / bytes) * (i % 7 + 3) + i * 31 + at % bytes * 50) as u8;
        (0..N as u32).map(|i| (0..n).map(|at| value(i, at)).collect()).collect()
    };
    let png = |pixels: &Vec<u8>| encode_png(pixels, width, height).unwrap();
    let high = |value: &Vec<u8>| value.iter().skip(1).step_by(2).copied().collect::<Vec<u8>>();
    let (w, h) = (u64::from(width), u64::from(height));
    for (dtype, shape) in [
        (Dtype::U8, vec![h, w, 3]),
        (Dtype::U16, vec![h, w, 3]),
        (Dtype::U8, vec![h, w, 1]),
        (Dtype::U16, vec![h, w]),
    ] {
        let channels = shape.get(2).map_or(1, |n| *n as u32);
        let stored = values(channels, dtype.size_bytes() as u32);
        let encoded = if dtype == Dtype::U16 {
            stored.iter().map(|value| png(&high(value))).collect()
        } else {
            stored.iter().map(png).collect()
        };
        let field = Field::fixed(FieldName::image(), dtype, shape.clone());
        let raw = all_transforms(Some(field), stored);
        assert!(raw == all_transforms(None, encoded), "{dtype:?} {shape:?}");
    }
}

/// A PNG of 16-bit RGB; `stored` is little-endian, as a bundle has it.
fn png_u16(stored: &[u8], (width, height): (u32, u32)) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Sixteen);
    let mut writer = encoder.write_header().unwrap();
    let big_endian: Vec<u8> = stored.chunks(2).flat_map(|pair| [pair[1], pair[0]]).collect();
    writer.write_image_data(&big_endian).unwrap();
    writer.finish().unwrap();
    file
}

#[test]
fn pixels_of_16_bits_lose_none_unasked() {
    let (width, height) = STORED;
    let (w, h) = (u64::from(width), u64::from(height));
    let n = (w * h * 3 * 2) as usize;
    let stored = |i: usize| (0..n).map(|at| (at * (i + 3) + i * 31) as u8).collect::<Vec<u8>>();
    let field = Field::fixed(FieldName::image(), Dtype::U16, vec![h, w, 3]);
    let raw: Vec<_> = (0..N as usize).map(|i| (i, stored(i))).collect();
    let raw = make(&Recipe { val: &[], image: Some(field), replace: &raw, ..Recipe::default() });
    let good = || options(OrderKind::Torch { shuffle: false });

    // One such file among others is noticed when it is opened, and is never skipped.
    let encoded =
        make(&Recipe { replace: &[(9, png_u16(&stored(9), STORED))], ..Recipe::default() });
    let skip = LoaderOptions { on_error: OnBadSample::Skip, ..good() };
    let mut loader = Loader::new(Arc::clone(&encoded.bundle), skip).unwrap();
    let error = loader.epoch(0).find_map(Result::err).unwrap();
    let told = "option `depth`: sample `train/0009.img` has 16-bit pixels";
    assert!(error.to_string().starts_with(told), "{error}");

    let words: Vec<u16> = stored(9).chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    let high: Vec<u8> = stored(9).iter().skip(1).step_by(2).copied().collect();
    let transform = Transform::Resize { width, height };
    let row = |bundle: &Arc<Bundle>, depth| {
        let options = LoaderOptions { depth, batch_size: 25, transform, ..good() };
        let mut loader = Loader::new(Arc::clone(bundle), options).unwrap();
        let batch = loader.epoch(0).next().unwrap().unwrap();
        let image = batch.field("image").unwrap();
        let array = image.array().unwrap();
        let (bytes, words) = (array.values::<u8>(), array.values::<u16>());
        let of = |n: usize| n / 25 * 9..n / 25 * 10;
        (
            bytes.map(|values| values[of(values.len())].to_vec()),
            words.map(|values| values[of(values.len())].to_vec()),
        )
    };
    // Stored 16-bit values are exact, and so are those of a PNG if 16 bits are asked for.
    assert_eq!(row(&raw.bundle, Depth::Stored), (None, Some(words.clone())));
    for bundle in [raw.bundle, encoded.bundle] {
        assert_eq!(row(&bundle, Depth::U16), (None, Some(words.clone())));
        // Asked for, it is the high byte, however the pixels are stored.
        assert_eq!(row(&bundle, Depth::U8), (Some(high.clone()), None));
    }
}

#[test]
fn numbers_are_those_of_the_stored_pixels_whatever_is_done_to_them() {
    let made = make(&Recipe::default());
    let (mean, std) = ([0.485_f32, 0.456, 0.406], [0.229_f32, 0.224, 0.225]);
    let plane = (SIDE * SIDE) as usize;
    let eval = Transform::Eval { resize_short: 20, width: SIDE, height: SIDE };
    let transforms = [Transform::train(SIDE), eval];
    for transform in transforms {
        for layout in [AxisOrder::Contiguous, AxisOrder::ChannelsLast] {
            let plain = LoaderOptions { transform, ..options(OrderKind::Elastic) };
            let made_there = LoaderOptions { numbers: Numbers::F32, layout, ..plain.clone() };
            let mut plain = Loader::new(Arc::clone(&made.bundle), plain).unwrap();
            let mut loader = Loader::new(Arc::clone(&made.bundle), made_there).unwrap();
            for (batch, stored) in loader.epoch(2).zip(plain.epoch(2)) {
                let (batch, stored) = (batch.unwrap(), stored.unwrap());
                let image = batch.field("image").unwrap();
                let found: &[f32] = image.array().unwrap().values().unwrap();
                assert_eq!(found.len(), stored.images().len());
                for (i, byte) in stored.images().iter().enumerate() {
                    let (row, pixel, c) = (i / 3 / plane, i / 3 % plane, i % 3);
                    let expected = (f32::from(*byte) / 255.0 - mean[c]) / std[c];
                    let at = match layout {
                        AxisOrder::Contiguous => (row * 3 + c) * plane + pixel,
                        AxisOrder::ChannelsLast => i,
                    };
                    assert_eq!(found[at].to_bits(), expected.to_bits());
                }
            }
        }
    }
}

/// Image, mask, a number, a vector and a text, all of them functions of the sample.
fn value(i: usize, field: &str) -> Vec<u8> {
    let (w, h) = (STORED.0 as usize, STORED.1 as usize);
    let word = |x: usize, y: usize| (x + 100 * y + i) as u16;
    let places = (0..h).flat_map(|y| (0..w).map(move |x| (x, y)));
    match field {
        // There are five bands; each value contains the place and the band.
        "image" => places
            .flat_map(|(x, y)| (0..5).map(move |band| word(x, y) + 10_000 * band))
            .flat_map(u16::to_le_bytes)
            .collect(),
        "mask" => places.flat_map(|(x, y)| i32::from(word(x, y)).to_le_bytes()).collect(),
        "number" => (i as f64 / 3.0).to_le_bytes().to_vec(),
        "vector" => [1, 2, 3_i16].iter().flat_map(|v| (v * i as i16).to_le_bytes()).collect(),
        _ => "x".repeat(i * 3 % 7).into_bytes(),
    }
}

fn many_fields() -> fixtures::Made {
    let name = |text: &str| FieldName::parse(text).unwrap();
    let (w, h) = (u64::from(STORED.0), u64::from(STORED.1));
    let image = Field::fixed(FieldName::image(), Dtype::U16, vec![h, w, 5]);
    let more = [
        Field::fixed(name("mask"), Dtype::I32, vec![h, w]),
        Field::fixed(name("number"), Dtype::F64, vec![]),
        Field::fixed(name("vector"), Dtype::I16, vec![3]),
        Field::bytes(name("text"), vec!["text/plain".into()]),
    ];
    fixtures::make_fields(image, &more, &value)
}

#[test]
fn bands_masks_numbers_and_texts_come_together_and_move_together() {
    let made = many_fields();
    let fields = ["text", "vector", "mask", "number"].map(str::to_owned).to_vec();
    let transforms = [
        Transform::Resize { width: STORED.0, height: STORED.1 },
        Transform::Eval { resize_short: STORED.1, width: 20, height: 20 },
        Transform::Crop { width: 20, height: 11, padding: 0, flip: 0.5 },
        Transform::Crop { width: 36, height: 22, padding: 3, flip: 0.5 },
    ];
    for transform in transforms {
        let bands = Some(vec![4, 0]);
        let fields = fields.clone();
        let options = LoaderOptions { transform, bands, fields, ..options(OrderKind::Elastic) };
        let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
        let (width, height) = transform.size();
        let mut n = 0;
        for batch in loader.epoch(1) {
            let batch = batch.unwrap();
            let of = |name: &str| batch.field(name).unwrap();
            let (image, mask) = (of("image"), of("mask"));
            let (image, mask) = (image.array().unwrap(), mask.array().unwrap());
            let (w, h) = (width as usize, height as usize);
            assert_eq!(image.shape, [batch.len(), h, w, 2]);
            assert_eq!(mask.shape, [batch.len(), h, w]);
            let pixels = image.values::<u16>().unwrap().chunks(2);
            for (pixel, value) in pixels.zip(mask.values::<i32>().unwrap()) {
                // The pixel is in the padding around the picture.
                if pixel == [0, 0] && *value == -1 {
                    assert!(matches!(transform, Transform::Crop { padding: 3, .. }));
                    continue;
                }
                // The value of a place is in both, so they went the same way.
                let first = u16::try_from(*value).unwrap();
                assert_eq!(pixel, [first + 40_000, first]);
            }
            let (numbers, vectors) = (of("number"), of("vector"));
            let numbers = numbers.array().unwrap().values::<f64>().unwrap();
            let vectors = vectors.array().unwrap().values::<i16>().unwrap();
            let texts = of("text").bytes().unwrap();
            for (row, id) in batch.sample_ids().iter().enumerate() {
                let i = *id as usize;
                assert_eq!(batch.keys()[row], format!("{i:02}"));
                assert_eq!(numbers[row], i as f64 / 3.0);
                assert_eq!(vectors[row * 3..][..3], [1, 2, 3].map(|v| v * i as i16));
                assert_eq!(texts[row], value(i, "text"));
                n += 1;
            }
        }
        assert_eq!(n, 12);
    }
}

#[test]
fn a_mask_takes_the_nearest_value_where_its_image_is_resized() {
    let made = many_fields();
    let fields = vec!["mask".to_owned()];
    let transform = Transform::train(SIDE);
    let options = LoaderOptions { transform, fields, ..options(OrderKind::Elastic) };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    for batch in loader.epoch(1) {
        let batch = batch.unwrap();
        let (image, mask) = (batch.field("image").unwrap(), batch.field("mask").unwrap());
        let pixels = image.array().unwrap().values::<u16>().unwrap().chunks(5);
        let mut away = Vec::new();
        for (pixel, value) in pixels.zip(mask.array().unwrap().values::<i32>().unwrap()) {
            // Both values are 100 y + x, so they differ by at most one pixel of the result.
            away.push((i32::from(pixel[0]) - value).abs());
        }
        // Rows of the result are at most 24 / 16 stored rows.
        assert!(away.iter().all(|away| *away <= 160), "{:?}", away.iter().max());
    }
}

#[test]
fn an_encoded_mask_holds_classes_and_goes_with_its_image() {
    let name = FieldName::parse("mask").unwrap();
    let mask = Field::bytes(name, vec!["image/png".into()]);
    let image = Field::bytes(FieldName::image(), vec!["image/png".into()]);
    let size = |i: usize| (20 + i % 3, 18 + i % 2);
    let class = |i: usize, x: usize, y: usize| ((x / 3 + y / 2 + i) % 11) as u8;
    let value = move |i: usize, field: &str| {
        let (w, h) = size(i);
        let places = (0..h).flat_map(|y| (0..w).map(move |x| (x, y)));
        let classes = places.map(|(x, y)| class(i, x, y));
        if field == "image" {
            let rgb: Vec<u8> = classes.flat_map(|c| [c * 20; 3]).collect();
            return encode_png(&rgb, w as u32, h as u32).unwrap();
        }
        // Masks are, by turns, indices of a palette and grey.
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, w as u32, h as u32);
        encoder.set_depth(png::BitDepth::Eight);
        if i.is_multiple_of(2) {
            encoder.set_color(png::ColorType::Indexed);
            encoder.set_palette((0..33).map(|v| v * 7).collect::<Vec<u8>>());
        } else {
            encoder.set_color(png::ColorType::Grayscale);
        }
        let mut writer = encoder.write_header().unwrap();
        let classes: Vec<u8> = classes.collect();
        writer.write_image_data(&classes).unwrap();
        writer.finish().unwrap();
        file
    };
    let made = fixtures::make_fields(image.clone(), std::slice::from_ref(&mask), &value);
    let options = |crop| LoaderOptions {
        transform: Transform::Train {
            width: crop,
            height: crop,
            scale: (1.0, 1.0),
            ratio: (1.0, 1.0),
            flip: 0.5,
        },
        fields: vec!["mask".into()],
        ..options(OrderKind::Elastic)
    };
    // The middle 18 x 18 of each, twice as large: each value becomes four.
    let mut loader = Loader::new(Arc::clone(&made.bundle), options(36)).unwrap();
    let mut seen = BTreeSet::new();
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        let mask = batch.field("mask").unwrap();
        let mask = mask.array().unwrap();
        assert_eq!((&mask.shape[1..], mask.dtype), (&[36, 36][..], Dtype::U8));
        let rows = mask.values::<u8>().unwrap().chunks(36 * 36);
        for ((id, mask), image) in
            batch.sample_ids().iter().zip(rows).zip(batch.images().chunks(36 * 36 * 3))
        {
            for (value, pixel) in mask.iter().zip(image.chunks(3)) {
                seen.insert(*value);
                assert!(*value < 11 && pixel[0] <= 200, "{id}");
            }
            let agree =
                mask.iter().zip(image.chunks(3)).filter(|(v, p)| p[0].abs_diff(**v * 20) <= 60);
            assert!(agree.count() * 10 > mask.len() * 7, "sample {id}: image and mask went apart");
        }
    }
    assert_eq!(seen.len(), 11);

    let smaller =
        move |i: usize, field: &str| value(if field == "mask" && i == 3 { 4 } else { i }, field);
    let made = fixtures::make_fields(image, &[mask], &smaller);
    let mut loader = Loader::new(made.bundle, options(16)).unwrap();
    let error = loader.epoch(0).find_map(Result::err).unwrap();
    assert!(matches!(error, Error::Loader(LoaderError::FieldSize { .. })));
    assert!(error.to_string().contains("sample `03` (row 3 of"), "{error}");
    assert!(error.to_string().contains("has 21 x 18 pixels, but its image has 20 x 19"), "{error}");
}

#[test]
fn a_function_of_ones_own_changes_samples_alike_on_any_thread() {
    let made = many_fields();
    let fields = vec!["mask".to_owned()];
    let transform = Transform::train(SIDE);
    let plain = LoaderOptions { transform, fields, ..options(OrderKind::Elastic) };
    let augment = Augment::new(|view, rng| {
        assert_eq!((view.width, view.height, view.channels), (16, 16, 5));
        assert_eq!(view.key, format!("{:02}", view.sample));
        let Pixels::U16(values) = &mut view.pixels else { panic!("other pixels") };
        values.iter_mut().for_each(|value| *value = value.wrapping_add(7));
        if rng.unit() < 0.5 {
            view.rotate_90(1);
        }
    });
    let run = |threads, augment: Option<&Augment>| {
        let options = LoaderOptions { threads, augment: augment.cloned(), ..plain.clone() };
        let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
        let mut rows = BTreeMap::new();
        for batch in loader.epoch(1) {
            let batch = batch.unwrap();
            let (image, mask) = (batch.field("image").unwrap(), batch.field("mask").unwrap());
            let images = image.array().unwrap().values::<u16>().unwrap().chunks(16 * 16 * 5);
            let masks = mask.array().unwrap().values::<i32>().unwrap().chunks(16 * 16);
            for ((id, image), mask) in batch.sample_ids().iter().zip(images).zip(masks) {
                rows.insert(*id, (image.to_vec(), mask.to_vec()));
            }
        }
        rows
    };
    let (plain, one, many) = (run(1, None), run(1, Some(&augment)), run(4, Some(&augment)));
    assert_eq!(one, many);
    let mut turned = 0;
    for (id, (image, mask)) in &plain {
        let at = |to: usize, turn: bool| match turn {
            true => to % 16 * 16 + 15 - to / 16,
            false => to,
        };
        let expected = |turn| {
            let image = (0..256).flat_map(|to| &image[at(to, turn) * 5..][..5]);
            let image: Vec<u16> = image.map(|value| value.wrapping_add(7)).collect();
            (image, (0..256).map(|to| mask[at(to, turn)]).collect::<Vec<i32>>())
        };
        turned += usize::from(one[id] == expected(true));
        assert!(one[id] == expected(true) || one[id] == expected(false), "sample {id}");
    }
    assert!((1..12).contains(&turned), "{turned} of 12 turned");

    // A panic of the function is the error of one sample.
    let panics = Augment::new(|view, _| assert!(view.sample != 5, "not this one"));
    let options = LoaderOptions { augment: Some(panics), ..options(OrderKind::Elastic) };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    let error = loader.epoch(0).find_map(Result::err).unwrap().to_string();
    assert!(error.contains("sample `05`") && error.ends_with("not this one"), "{error}");
}

#[test]
fn fields_and_bands_that_are_not_there_are_named() {
    let made = many_fields();
    let check = |options: LoaderOptions, expected: &str| {
        let error = Loader::new(Arc::clone(&made.bundle), options).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    let good = || options(OrderKind::Elastic);
    let fields = |name: &str| vec![name.to_owned()];
    check(
        LoaderOptions { fields: fields("msk"), ..good() },
        "option `fields`: the bundle has no field `msk`; its fields are `image`, `mask`, `number`",
    );
    check(
        LoaderOptions { fields: fields("image"), ..good() },
        "option `fields`: every batch contains `image`",
    );
    let bands = Some(vec![0, 5]);
    check(LoaderOptions { bands, ..good() }, "option `bands`: [0, 5] of 5 channels");
    let numbers = Numbers::F32;
    check(
        LoaderOptions { numbers, ..good() },
        "option `normalise`: it was not chosen, and ImageNet's mean and standard deviation are not for 5 channels of `u16`, but for 8-bit colour or grey; the bundle's manifest has no statistics of pixels, since pixels like these",
    );
    let normalise = NormaliseBy::Bundle;
    check(
        LoaderOptions { numbers, normalise, ..good() },
        "option `normalise`: the bundle's manifest has no statistics of pixels",
    );
    let normalise = Normalise::default().into();
    check(LoaderOptions { numbers, normalise, ..good() }, "option `normalise`: it has 3 means");
}

#[test]
fn chosen_bands_are_normalised_by_their_own_statistics() {
    let made = many_fields();
    let texts = |numbers: [u64; 5]| {
        numbers.iter().map(|n| Decimal::parse(&n.to_string()).unwrap()).collect::<Vec<_>>()
    };
    // Means 0, 100, 200, 300 and 400; standard deviations 1, 2, 4, 8 and 16.
    let (means, std) = ([0, 100, 200, 300, 400], [1, 2, 4, 8, 16]);
    let squares = std::array::from_fn(|i| 10 * (means[i] * means[i] + std[i] * std[i]));
    let mut manifest = made.bundle.manifest().clone();
    let mut with = |statistics, nodata: Option<f64>| {
        manifest.statistics = Some(statistics);
        manifest.fields[0].nodata = nodata.map(Nodata::of);
        fs::remove_file(made.dir.path().join("manifest.json")).unwrap();
        write_manifest(made.dir.path(), &manifest).unwrap();
        open(made.dir.path())
    };
    let of_all = Statistics {
        pixels: 10,
        counts: Vec::new(),
        sum: texts(means.map(|mean| 10 * mean)),
        sum_of_squares: texts(squares),
    };
    let transform = Transform::Resize { width: STORED.0, height: STORED.1 };
    let plain = LoaderOptions { transform, ..options(OrderKind::Elastic) };
    let pixels = |bundle: &Arc<Bundle>, options: LoaderOptions| {
        let mut loader = Loader::new(Arc::clone(bundle), options).unwrap();
        let fitted = loader.fitted();
        let mut values = Vec::new();
        for batch in loader.epoch(0) {
            let batch = batch.unwrap();
            let image = batch.field("image").unwrap();
            let array = image.array().unwrap();
            match array.dtype {
                Dtype::F32 => values.extend_from_slice(array.values::<f32>().unwrap()),
                Dtype::U16 => {
                    values.extend(array.values::<u16>().unwrap().iter().map(|v| f32::from(*v)));
                }
                _ => values.extend(array.values::<u8>().unwrap().iter().map(|v| f32::from(*v))),
            }
        }
        (values, fitted)
    };
    let bundle = with(of_all.clone(), None);
    let numbers = Numbers::F32;
    for bands in [Some(vec![4, 0, 1]), None] {
        let stored = LoaderOptions { bands: bands.clone(), ..plain.clone() };
        let (stored, none) = pixels(&bundle, stored);
        assert_eq!(none, None);
        let order = bands.clone().unwrap_or((0..5).collect());
        let expected: Vec<f32> = stored
            .iter()
            .zip(order.iter().cycle())
            .map(|(v, band)| (v - means[*band] as f32) / std[*band] as f32)
            .collect();
        for normalise in [NormaliseBy::Bundle, NormaliseBy::Kind] {
            let is_chosen = normalise == NormaliseBy::Kind;
            let some = LoaderOptions { bands: bands.clone(), numbers, normalise, ..plain.clone() };
            let (found, fitted) = pixels(&bundle, some);
            assert_eq!(found, expected, "{bands:?}");
            let words = "pictures normalised by the mean and standard deviation of the bundle's pixels, since ImageNet's are not for 5 channels of `u16`";
            assert_eq!(fitted.as_deref(), is_chosen.then_some(words));
        }
    }

    // The high byte of a pixel is a 256th of it.
    let normalise = NormaliseBy::Bundle;
    let bands = Some(vec![2]);
    let high = LoaderOptions { bands, depth: Depth::U8, normalise, ..plain.clone() };
    let stored = pixels(&bundle, high.clone()).0;
    let found = pixels(&bundle, LoaderOptions { numbers, ..high.clone() }).0;
    for (stored, found) in stored.iter().zip(found) {
        assert_eq!(found, (stored * 256.0 - 200.0) / 4.0);
    }

    let refused = |bundle: &Arc<Bundle>, bands, words: &str| {
        let options = LoaderOptions { bands, numbers, ..high.clone() };
        let error = Loader::new(Arc::clone(bundle), options).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    // Earlier releases summed nodata, too.
    let old = with(of_all.clone(), Some(0.0));
    refused(&old, None, "are also of pixels that are nodata");
    let mut valid = of_all.clone().by_channel();
    valid.counts[3] = 0;
    let new = with(valid, Some(0.0));
    refused(&new, None, "channel 3 of the bundle's training pixels has no values");
    assert!(Loader::new(new, LoaderOptions { numbers, ..high.clone() }).is_ok());
    let four = Statistics { sum: of_all.sum[..4].to_vec(), ..of_all };
    refused(&with(four, None), None, "statistics are of 4 channels, but the images have 5");
}

/// A JPEG file with an EXIF segment that says how the picture is turned.
fn turned(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let tiff = [b"II*\0".as_slice(), &[8, 0, 0, 0], &[1, 0], &[0x12, 1, 3, 0, 1, 0, 0, 0]].concat();
    let exif = [b"Exif\0\0".as_slice(), &tiff, &[orientation, 0, 0, 0], &[0; 4]].concat();
    let len = (exif.len() as u16 + 2).to_be_bytes();
    [&jpeg[..2], &[0xFF, 0xE1], &len, &exif, &jpeg[2..]].concat()
}

#[test]
fn pictures_are_turned_by_their_exif_unless_told_otherwise() {
    let plain = fixtures::image(8);
    let made = make(&Recipe { replace: &[(8, turned(&plain, 6))], ..Recipe::default() });
    let transform = Transform::Resize { width: 9, height: 5 };
    for orientation in [OrientationPolicy::Apply, OrientationPolicy::Ignore] {
        let kind = OrderKind::Torch { shuffle: false };
        let options = LoaderOptions { transform, orientation, batch_size: 25, ..options(kind) };
        let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
        let batch = loader.epoch(0).next().unwrap().unwrap();
        let mut decoder = Decoder::new(DecodeOptions { orientation, ..DecodeOptions::default() });
        let image = decoder.decode(&turned(&plain, 6)).unwrap();
        let expected = gular_codec::resize(&image, &Resize::to(9, 5)).unwrap();
        let row = batch.images().chunks(9 * 5 * 3).nth(8).unwrap();
        assert_eq!(row, expected.data(), "{orientation:?}");
    }
}

#[test]
fn large_photographs_are_decoded_smaller_unless_told_otherwise() {
    let (width, height) = (400, 300);
    let pixel = |x: u32, y: u32| [x * y / 500, x ^ y, 255 - x / 2].map(|v| v as u8);
    let rgb: Vec<u8> =
        (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(x, y))).collect();
    let large = encode_jpeg(&rgb, width, height, 90).unwrap();
    let made = make(&Recipe { replace: &[(8, large.clone())], ..Recipe::default() });
    let transform = Transform::Resize { width: 9, height: 5 };
    let options = options(OrderKind::Torch { shuffle: false });
    assert_eq!(options.scaling, Scaling::Reduced);
    let rows = [Scaling::Reduced, Scaling::Full].map(|scaling| {
        let options = LoaderOptions { transform, scaling, batch_size: 25, ..options.clone() };
        let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
        let batch = loader.epoch(0).next().unwrap().unwrap();
        let row = batch.images().chunks(9 * 5 * 3).nth(8).unwrap().to_vec();
        let mut decoder = Decoder::new(DecodeOptions { scaling, ..DecodeOptions::default() });
        let mut expected = vec![0; row.len()];
        let whole = Rect::whole(width, height);
        decoder.crop_resize(&large, whole, &Resize::to(9, 5), &mut expected).unwrap();
        assert_eq!(row, expected, "{scaling:?}");
        row
    });
    let scales = gular_runtime::jpeg_backend().starts_with("libjpeg-turbo");
    assert_eq!(rows[0] != rows[1], scales);
}

const UNKNOWN: [usize; 4] = [0, 7, 11, 24];

#[test]
fn unknown_labels_are_refused_with_their_number() {
    let made = make(&Recipe { unknown: &UNKNOWN, ..Recipe::default() });
    let error = Loader::new(made.bundle, options(OrderKind::Elastic)).unwrap_err();
    let told = "option `unknown_labels`: 4 of 25 samples of split `train` have no class, \
                the first is `train/0000.img`";
    assert!(error.to_string().starts_with(told), "{error}");
    // There are no unknown classes, or no labels at all.
    for labels in [true, false] {
        let made = make(&Recipe { labels, ..Recipe::default() });
        assert!(Loader::new(made.bundle, options(OrderKind::Elastic)).is_ok());
    }
}

#[test]
fn unknown_labels_are_dropped_alike_on_all_ranks_and_over_a_resume() {
    let made = make(&Recipe { unknown: &UNKNOWN, ..Recipe::default() });
    let expected: Vec<u64> = (0..N).filter(|id| !UNKNOWN.contains(&(*id as usize))).collect();
    let drop = |kind| LoaderOptions { unknown_labels: UnknownLabels::Drop, ..options(kind) };
    for kind in KINDS {
        let (mut ids, mut steps) = (Vec::new(), BTreeSet::new());
        for rank in 0..3 {
            let options = LoaderOptions { rank, world_size: 3, batch_size: 2, ..drop(kind) };
            let mut loader = Loader::new(Arc::clone(&made.bundle), options.clone()).unwrap();
            assert_eq!((loader.n_left_out(), loader.n_positions()), (4, 21));
            let whole = epoch(&mut loader, 2);
            steps.insert((whole.len(), loader.n_steps()));
            for (found, labels, _) in &whole {
                let known = found.iter().map(|id| label(*id as usize));
                assert_eq!(labels[..], known.collect::<Vec<_>>());
                ids.extend(found.clone());
            }
            let mut batches = loader.epoch(2);
            assert!(batches.by_ref().take(2).all(|batch| batch.is_ok()));
            let state = batches.state();
            let mut resumed = Loader::new(Arc::clone(&made.bundle), options.clone()).unwrap();
            resumed.restore(&state).unwrap();
            assert_eq!(epoch(&mut resumed, 2), whole[2..]);
            // A loader that has those samples is in another order.
            let all = LoaderOptions { unknown_labels: UnknownLabels::Ignore, ..options };
            let error = Loader::new(Arc::clone(&made.bundle), all).unwrap().restore(&state);
            let told = "the state was saved with samples left out: 4, but this loader has 0";
            assert_eq!(error.unwrap_err().to_string(), told);
        }
        ids.sort_unstable();
        assert_eq!((ids, steps), (expected.clone(), [(4, 4)].into()), "{kind:?}");
    }
}

#[test]
fn unknown_labels_are_marked_and_counted_when_they_stay() {
    let made = make(&Recipe { unknown: &UNKNOWN, ..Recipe::default() });
    let options =
        LoaderOptions { unknown_labels: UnknownLabels::Ignore, ..options(OrderKind::Elastic) };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    let mut n_labelled = 0;
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        for (id, found) in batch.sample_ids().iter().zip(batch.labels()) {
            let unknown = UNKNOWN.contains(&(*id as usize));
            assert_eq!(*found, if unknown { IGNORED_LABEL } else { label(*id as usize) });
        }
        n_labelled += batch.n_labelled();
    }
    assert_eq!((n_labelled, loader.stats().unlabelled), (21, 4));
}

#[test]
fn a_rank_takes_its_share_without_being_told_twice() {
    let made = make(&Recipe::default());
    let env = Env::from_pairs(&[("RANK", "2"), ("WORLD_SIZE", "5")]);
    let ranks = Ranks::discover(None, &env).unwrap();
    let of_rank = LoaderOptions::for_ranks(Split::Train, &ranks);
    assert_eq!((of_rank.rank, of_rank.world_size), (2, 5));
    let options = LoaderOptions { transform: Transform::train(SIDE), ..of_rank };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    assert_eq!(epoch(&mut loader, 0).iter().map(|(ids, ..)| ids.len()).sum::<usize>(), 5);
}

#[test]
fn stored_values_that_are_no_pictures_are_refused() {
    let image = Field::fixed(FieldName::image(), Dtype::F64, vec![2, 2, 3]);
    let values: Vec<_> = (0..N as usize).map(|i| (i, vec![0; 96])).collect();
    let made =
        make(&Recipe { val: &[], image: Some(image), replace: &values, ..Recipe::default() });
    let refused = Loader::new(made.bundle, options(OrderKind::Elastic));
    assert!(
        matches!(&refused, Err(Error::Option { option: "axes", reason }) if reason.contains("[2, 2, 3]"))
    );
}

#[test]
fn an_image_that_cannot_be_decoded_is_named_or_left_out() {
    let whole = fixtures::image(9);
    let cut = whole[..whole.len() / 2].to_vec();
    let recipe = Recipe { replace: &[(9, cut), (10, b"a text".to_vec())], ..Recipe::default() };
    let made = make(&recipe);
    let sound = make(&Recipe::default());
    let kind = OrderKind::Torch { shuffle: false };

    let mut loader = Loader::new(made.bundle.clone(), options(kind)).unwrap();
    let mut batches = loader.epoch(0);
    assert!(batches.by_ref().take(2).all(|b| b.is_ok()));
    let error = batches.next().unwrap().unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("cannot decode sample `train/0009.img` (row 1 of shard `train-"),
        "{text}"
    );
    assert!(matches!(error, Error::Loader(LoaderError::Decode { .. })) && error.hint().is_some());
    assert!(batches.next().is_none());
    assert_eq!(batches.state().consumed, 8);
    drop(batches);
    // The loader itself can still be used.
    assert!(loader.epoch(0).next().unwrap().is_ok());

    let options = LoaderOptions { on_error: OnBadSample::Skip, ..options(kind) };
    let mut loader = Loader::new(made.bundle, options.clone()).unwrap();
    let mut sound = Loader::new(sound.bundle, options).unwrap();
    let (found, mut expected) = (epoch(&mut loader, 0), epoch(&mut sound, 0));
    let (ids, labels, images) = &mut expected[2];
    assert_eq!(ids[..], [8, 9, 10, 11]);
    let row = (SIDE * SIDE * 3) as usize;
    images.drain(row..3 * row);
    ids.drain(1..3);
    labels.drain(1..3);
    assert_eq!(found, expected);
    assert_eq!(loader.stats().skipped, 2);
}

#[test]
fn changed_bytes_are_an_error_even_when_images_may_be_skipped() {
    let made = make(&Recipe::default());
    let entry = made.bundle.manifest().shards[2].clone();
    let path = made.bundle.path_of(&entry.file);
    let offset =
        made.bundle.shard(ShardIdx(2)).unwrap().range(Row(4), FieldIdx(0)).unwrap().unwrap().0
            as usize;
    let mut bytes = fs::read(&path).unwrap();
    bytes[offset + 100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let options = LoaderOptions { on_error: OnBadSample::Skip, ..options(OrderKind::Elastic) };
    let mut loader = Loader::new(open(made.dir.path()), options).unwrap();
    let error = loader.epoch(0).find_map(Result::err).unwrap();
    assert!(error.to_string().starts_with("sample `train/0012.img` in `"), "{error}");
}

#[test]
fn an_epoch_may_be_left_anywhere() {
    let made = make(&Recipe::default());
    let mut loader = Loader::new(made.bundle, options(OrderKind::Elastic)).unwrap();
    let expected = epoch(&mut loader, 0);
    let mut held = Vec::new();
    for round in 0..60 {
        let mut batches = loader.epoch(round % 3);
        held.clear();
        held.extend(batches.by_ref().take(round as usize % 4).map(|b| copied(&b.unwrap())));
    }
    assert_eq!(epoch(&mut loader, 0), expected);
    drop(loader.epoch(7));
    std::mem::forget(loader.epoch(8));
    assert_eq!(epoch(&mut loader, 0), expected);
    // A batch may outlive everything.
    let batch = loader.epoch(0).next().unwrap().unwrap();
    drop(loader);
    assert_eq!(copied(&batch), expected[0]);
}

#[test]
fn memory_is_the_slots_and_they_are_reused() {
    let made = make(&Recipe::default());
    let options = LoaderOptions { slots: 3, ..options(OrderKind::Elastic) };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    let mut places = BTreeSet::new();
    for e in 0..20 {
        for batch in loader.epoch(e).take(1 + e as usize % 7) {
            places.insert(batch.unwrap().images().as_ptr().addr());
        }
    }
    assert!(places.len() <= 3, "{places:?}");
}

#[test]
fn holding_every_batch_is_an_error_not_a_hang() {
    let made = make(&Recipe::default());
    let lent_patience = Duration::from_millis(300);
    let options = LoaderOptions { slots: 2, lent_patience, ..options(OrderKind::Elastic) };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    let mut batches = loader.epoch(0);
    let held = [batches.next().unwrap().unwrap(), batches.next().unwrap().unwrap()];
    let error = batches.next().unwrap().unwrap_err();
    assert!(
        matches!(error, Error::Loader(LoaderError::AllLent { slots: 2 })) && error.hint().is_some()
    );
    drop(held);
}

#[test]
fn a_wait_ends_with_a_batch_or_when_its_time_is_over() {
    let made = make(&Recipe::default());
    let options = LoaderOptions { slots: 3, ..options(OrderKind::Elastic) };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    let long = Duration::from_secs(60);
    assert!(loader.wait(long), "no epoch was begun, so there is nothing to wait for");
    loader.begin(0);
    let mut held = Vec::new();
    for may_be_kept in [true, false, false] {
        assert!(loader.wait(long));
        let batch = loader.next_batch().unwrap().unwrap();
        assert_eq!(batch.may_be_kept(), may_be_kept, "{} are held already", held.len());
        held.push(batch);
    }
    let short = Duration::from_millis(30);
    let since = Instant::now();
    assert!(!loader.wait(short), "all batches are held");
    assert!(since.elapsed() >= short && since.elapsed() < long);
    held.clear();
    assert!(loader.wait(long));
    while loader.next_batch().is_some_and(|batch| batch.is_ok()) {}
    assert!(loader.wait(long), "the end is an answer");
}

#[test]
fn batches_held_by_another_thread_are_waited_for() {
    let made = make(&Recipe::default());
    let lent_patience = Duration::from_millis(250);
    let options = LoaderOptions { slots: 2, lent_patience, ..options(OrderKind::Elastic) };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    let expected = epoch(&mut loader, 0);
    let (send, trains) = mpsc::channel::<Batch>();
    let trainer = thread::spawn(move || {
        let (mut seen, mut held) = (Vec::new(), VecDeque::new());
        for batch in trains {
            seen.push(copied(&batch));
            held.push_back(batch);
            // Both slots are held, longer each time, and finally for longer than the first time
            // limit.
            if held.len() == 2 {
                thread::sleep(Duration::from_millis(60 * seen.len() as u64));
                held.pop_front();
            }
        }
        seen
    });
    for batch in loader.epoch(0) {
        send.send(batch.unwrap()).unwrap();
    }
    drop(send);
    assert_eq!(trainer.join().unwrap(), expected);
}

#[test]
fn a_wait_for_a_batch_hears_a_stop_within_a_second() {
    let made = make(&Recipe::default());
    let stop = StopFlag::default();
    let lent_patience = Duration::from_secs(60);
    let options = LoaderOptions {
        slots: 2,
        lent_patience,
        stop: Some(stop.clone()),
        ..options(OrderKind::Elastic)
    };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    let mut batches = loader.epoch(0);
    let held = [batches.next().unwrap().unwrap(), batches.next().unwrap().unwrap()];
    let asked = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        stop.request();
        Instant::now()
    });
    let error = batches.next().unwrap().unwrap_err();
    let heard = Instant::now();
    assert!(matches!(error, Error::Loader(LoaderError::Stopped)) && error.is_stop(), "{error}");
    assert!(heard - asked.join().unwrap() < Duration::from_secs(30));
    assert_eq!(batches.state().consumed, 8, "what was handed out");
    drop(held);
}

#[test]
fn bundles_without_labels_or_samples_load() {
    let made = make(&Recipe { labels: false, val: &[], ..Recipe::default() });
    let mut loader = Loader::new(made.bundle.clone(), options(OrderKind::Elastic)).unwrap();
    let batch = loader.epoch(0).next().unwrap().unwrap();
    assert_eq!((batch.len(), batch.labels().len()), (4, 0));
    let mut loader = Loader::new(made.bundle, LoaderOptions::new(Split::Val)).unwrap();
    assert_eq!((loader.n_steps(), loader.epoch(0).count()), (0, 0));
}

#[test]
fn options_that_cannot_be_are_named() {
    let made = make(&Recipe::default());
    let good = || options(OrderKind::Elastic);
    let check = |options: LoaderOptions, expected: &str| {
        let error = Loader::new(made.bundle.clone(), options).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    check(LoaderOptions { batch_size: 0, ..good() }, "option `batch_size`: it is 0");
    check(LoaderOptions { slots: 1, ..good() }, "option `slots`: it is 1, expected at least 2");
    check(
        LoaderOptions { rank: 2, world_size: 2, ..good() },
        "option `rank`: rank 2 does not exist among 2 ranks",
    );
    check(LoaderOptions { transform: Transform::train(0), ..good() }, "option `transform`: the");
    let transform = Transform::train(u32::MAX);
    check(LoaderOptions { transform, ..good() }, "option `transform`: a batch of 4 x 4294967295");
    let transform = Transform::train(1 << 28);
    check(LoaderOptions { transform, ..good() }, "not enough memory for");
}

#[test]
fn stages_are_counted() {
    let made = make(&Recipe::default());
    let options = LoaderOptions { across_epochs: false, ..options(OrderKind::Elastic) };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    epoch(&mut loader, 0);
    let stats = loader.stats();
    assert_eq!((stats.images, stats.samples, stats.batches, stats.skipped), (N, N, 7, 0));
    let bytes: usize = (0..N as usize).map(|i| fixtures::image(i).len()).sum();
    assert_eq!((stats.bytes, stats.threads), (bytes as u64, 3));
    for stage in [Phase::Read, Phase::Check, Phase::Decode] {
        assert!(!stats.of(stage).is_zero(), "{}", stage.name());
    }
}
