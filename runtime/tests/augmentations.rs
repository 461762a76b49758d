//! Augmentation depends only on seed, epoch and sample, and of stored pixels only those that are
//! used are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fixtures::{Made, Recipe, label, make};
use gular_bundle::{Backend, Dtype, Field, FieldName, OpenOptions};
use gular_runtime::augment::{Augment, Blend, Blended};
use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::{
    AxisOrder, Bundle, CheckWhen, Error, IGNORED_LABEL, Loader, LoaderOptions, Normalise, Numbers,
    OnBadSample, Split, Transform, UnknownLabels,
};

const SIDE: u32 = 16;
const N: u64 = 25;

fn options() -> LoaderOptions {
    LoaderOptions {
        batch_size: 8,
        order: OrderSpec { kind: OrderKind::Elastic, seed: 11, drop_last: false },
        threads: 3,
        transform: Transform::train(SIDE),
        numbers: Numbers::F32,
        layout: AxisOrder::Contiguous,
        ..LoaderOptions::new(Split::Train)
    }
}

/// For each sample its numbers as bytes, its class, and what it was blended with.
type Rows = BTreeMap<u64, (Vec<u8>, i64, Option<Blended>)>;

/// Takes at most `steps` batches of epoch `epoch`.
fn take(loader: &mut Loader, epoch: u64, steps: usize, rows: &mut Rows) {
    for batch in loader.epoch(epoch).take(steps) {
        let batch = batch.unwrap();
        // A rank's share of the last step may be nothing.
        let images = batch.images().chunks(batch.images().len().max(1) / batch.len().max(1));
        for (row, image) in images.enumerate() {
            let blended = batch.blended().get(row).copied();
            let sample = (image.to_vec(), batch.labels()[row], blended);
            assert!(rows.insert(batch.sample_ids()[row], sample).is_none());
        }
    }
}

fn epoch(bundle: &Arc<Bundle>, options: LoaderOptions) -> Rows {
    let mut rows = Rows::new();
    take(&mut Loader::new(Arc::clone(bundle), options).unwrap(), 3, usize::MAX, &mut rows);
    rows
}

const BLENDS: [Blend; 3] = [
    Blend::MixUp { alpha: 0.2 },
    Blend::CutMix { alpha: 1.0 },
    Blend::Either { mixup: 0.8, cutmix: 1.0 },
];

#[test]
fn threads_ranks_and_restarts_change_no_blended_sample() {
    let made = make(&Recipe::default());
    for blend in BLENDS {
        let options = LoaderOptions { blend: Some(blend), ..options() };
        let one = epoch(&made.bundle, LoaderOptions { threads: 1, ..options.clone() });
        assert_eq!(one.len() as u64, N);
        for (threads, slots) in [(2, 3), (8, 2)] {
            let other = LoaderOptions { threads, slots, ..options.clone() };
            assert!(epoch(&made.bundle, other) == one, "{threads} threads");
        }
        // The steps have as many samples, and each rank has an even number of them.
        for world_size in [2, 4] {
            let mut rows = Rows::new();
            for rank in 0..world_size {
                let batch_size = 8 / world_size as usize;
                let of_rank = LoaderOptions { rank, world_size, batch_size, ..options.clone() };
                rows.extend(epoch(&made.bundle, of_rank));
            }
            assert!(rows == one, "{world_size} ranks");
        }
        for stop in 0..=4 {
            let mut rows = Rows::new();
            let mut first = Loader::new(Arc::clone(&made.bundle), options.clone()).unwrap();
            take(&mut first, 3, stop, &mut rows);
            let state = first.state();
            let mut second = Loader::new(Arc::clone(&made.bundle), options.clone()).unwrap();
            if stop > 0 {
                second.restore(&state).unwrap();
            }
            take(&mut second, 3, usize::MAX, &mut rows);
            assert!(rows == one, "stopped after {stop}");
        }
    }
}

#[test]
fn blended_samples_are_made_of_the_plain_ones() {
    let made = make(&Recipe::default());
    let number =
        |bytes: &[u8], i: usize| f32::from_ne_bytes(bytes[i * 4..][..4].try_into().unwrap());
    for blend in BLENDS {
        for layout in [AxisOrder::Contiguous, AxisOrder::ChannelsLast] {
            let plain = LoaderOptions { layout, ..options() };
            let blended = LoaderOptions { blend: Some(blend), ..plain.clone() };
            let (plain, blended) = (epoch(&made.bundle, plain), epoch(&made.bundle, blended));
            let mut n_blended = 0;
            for (id, (found, class, with)) in &blended {
                let with = with.unwrap();
                let (own, own_class, none) = &plain[id];
                assert_eq!((class, none), (own_class, &None));
                assert_eq!(*class, label(*id as usize));
                // If the number is odd, the last sample stays as it is.
                if with.weight == 1.0 {
                    assert_eq!((found, with.sample), (own, *id));
                    continue;
                }
                n_blended += 1;
                let (other, other_class, _) = &plain[&with.sample];
                assert_eq!(with.label, *other_class);
                assert_eq!(blended[&with.sample].2.map(|back| back.sample), Some(*id));
                let (mut of_own, mut of_other, mut mixed) = (0, 0, 0);
                for i in 0..found.len() / 4 {
                    let (v, a, b) = (number(found, i), number(own, i), number(other, i));
                    if v == a {
                        of_own += 1;
                    } else if v == b {
                        of_other += 1;
                    } else {
                        mixed += 1;
                        let expected = b * (1.0 - with.weight) + a * with.weight;
                        assert!((v - expected).abs() < 1e-5, "{v} of {a} and {b}");
                    }
                }
                if matches!(blend, Blend::CutMix { .. }) {
                    let part = of_own as f32 / (of_own + of_other) as f32;
                    assert_eq!(mixed, 0);
                    // Equal pixels count as the sample's own.
                    assert!((part - with.weight).abs() < 0.05, "{part} for {}", with.weight);
                }
            }
            assert!((8..25).contains(&n_blended), "{n_blended}");
        }
    }
}

#[test]
fn soft_labels_have_both_classes() {
    let made = make(&Recipe::default());
    let options = LoaderOptions { blend: Some(BLENDS[0]), ..options() };
    let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
    let batch = loader.epoch(0).next().unwrap().unwrap();
    let soft = batch.soft_labels(3);
    assert_eq!(soft.len(), 8 * 3);
    for (row, parts) in soft.chunks(3).enumerate() {
        let with = batch.blended()[row];
        let mut expected = [0.0; 3];
        expected[batch.labels()[row] as usize] += with.weight;
        expected[with.label as usize] += 1.0 - with.weight;
        assert_eq!(parts, expected);
        assert!((parts.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }
    drop(batch);
    let mut plain = Loader::new(made.bundle, self::options()).unwrap();
    let batch = plain.epoch(0).next().unwrap().unwrap();
    for (label, parts) in batch.labels().iter().zip(batch.soft_labels(3).chunks(3)) {
        let one_hot: Vec<f32> = (0..3).map(|c| f32::from(u8::from(c == *label))).collect();
        assert_eq!(parts, one_hot);
    }
}

#[test]
fn a_broken_sample_is_blended_with_nothing_and_its_replacement_is() {
    let made = make(&Recipe { replace: &[(9, b"no image".to_vec())], ..Recipe::default() });
    let run = |on_error| {
        let options = LoaderOptions { blend: Some(BLENDS[0]), on_error, ..options() };
        let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
        let batches = loader.epoch(3).map(Result::unwrap);
        batches.map(|batch| (batch.sample_ids().to_vec(), batch.blended().to_vec())).collect()
    };
    let skipped: Vec<(Vec<u64>, Vec<Blended>)> = run(OnBadSample::Skip);
    let replaced: Vec<(Vec<u64>, Vec<Blended>)> = run(OnBadSample::Replace);
    let alone = |batches: &[(Vec<u64>, Vec<Blended>)]| {
        batches.iter().flat_map(|(_, blended)| blended).filter(|with| with.weight == 1.0).count()
    };
    // The only sample of the last batch, and the other of the broken one's pair.
    assert_eq!((alone(&skipped), alone(&replaced)), (2, 1));
    assert!(skipped.iter().all(|(ids, blended)| ids.len() == blended.len()));
    assert!(skipped.iter().flat_map(|(_, blended)| blended).all(|with| with.sample != 9));
    assert_eq!(skipped.iter().map(|(ids, _)| ids.len()).sum::<usize>() as u64, N - 1);
}

#[test]
fn a_turn_that_a_batch_has_no_room_for_is_an_error() {
    let made = make(&Recipe::default());
    let run = |turns, width| {
        let transform = Transform::Resize { width, height: SIDE };
        let augment = Some(Augment::new(move |picture, _| picture.rotate_90(turns)));
        let options = LoaderOptions { transform, augment, ..options() };
        let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
        loader.epoch(0).try_for_each(|batch| batch.map(drop))
    };
    assert!(run(1, SIDE).is_ok() && run(2, SIDE + 2).is_ok());
    let error = run(3, SIDE + 2).unwrap_err();
    assert!(matches!(error, Error::Option { option: "augment", .. }), "{error}");
    let told = "option `augment`: `rotate_90(3)` would change 18 x 16 pixels to 16 x 18";
    assert!(error.to_string().starts_with(told), "{error}");
}

#[test]
fn a_sample_of_unknown_class_is_blended_with_nothing() {
    let made = make(&Recipe { unknown: &[3, 9, 20], ..Recipe::default() });
    let unknown_labels = UnknownLabels::Ignore;
    let options = LoaderOptions { blend: Some(BLENDS[0]), unknown_labels, ..options() };
    let mut loader = Loader::new(made.bundle, options).unwrap();
    let mut alone = Vec::new();
    for batch in loader.epoch(3) {
        let batch = batch.unwrap();
        let soft = batch.soft_labels(3);
        for (row, with) in batch.blended().iter().enumerate() {
            let unknown = batch.labels()[row] == IGNORED_LABEL;
            assert_eq!(with.label == IGNORED_LABEL, unknown);
            let parts: f32 = soft[row * 3..][..3].iter().sum();
            assert!((parts - f32::from(u8::from(!unknown))).abs() < 1e-6, "row {row}: {parts}");
            alone.extend((with.weight == 1.0).then_some((batch.sample_ids()[row], unknown)));
        }
    }
    // These are the three, the partners of others, and the only sample of the last batch.
    let unknown: BTreeSet<u64> = alone.iter().filter(|(_, no)| *no).map(|(id, _)| *id).collect();
    assert_eq!(unknown, BTreeSet::from([3, 9, 20]));
    assert!((5..=7).contains(&alone.len()), "{alone:?}");
}

#[test]
fn what_cannot_be_blended_is_named() {
    let made = make(&Recipe::default());
    let refused = |bundle: &Arc<Bundle>, options: LoaderOptions| {
        let error = Loader::new(Arc::clone(bundle), options).unwrap_err();
        assert!(matches!(error, Error::Option { option: "blend", .. }), "{error}");
        error.to_string()
    };
    let wrong = LoaderOptions { blend: Some(Blend::MixUp { alpha: 0.0 }), ..options() };
    assert!(refused(&made.bundle, wrong).contains("alpha is 0"));
    let shape = vec![u64::from(SIDE), u64::from(SIDE)];
    let image = Field::fixed(FieldName::image(), Dtype::U8, shape.clone());
    let mask = Field::fixed(FieldName::parse("mask").unwrap(), Dtype::U8, shape);
    let masked = crate::fixtures::make_fields(image, &[mask], &|_, _| vec![7; 256]);
    let fields = vec!["mask".to_owned()];
    let wrong = LoaderOptions { blend: Some(BLENDS[1]), fields, ..options() };
    assert!(refused(&masked.bundle, wrong).contains("their `mask` cannot be"));
}

/// (columns, rows) of the stored pixels.
const STORED: (u32, u32) = (24, 20);

fn stored(dtype: Dtype) -> Made {
    let len = (STORED.0 * STORED.1 * 3) as usize * dtype.size_bytes() as usize;
    let pixels = |i: usize| (0..len).map(move |p| (p * (i + 3) + p / 7 + i) as u8).collect();
    let replace: Vec<(usize, Vec<u8>)> = (0..N as usize).map(|i| (i, pixels(i))).collect();
    let shape = vec![u64::from(STORED.1), u64::from(STORED.0), 3];
    let image = Some(Field::fixed(FieldName::image(), dtype, shape));
    make(&Recipe { val: &[], image, replace: &replace, ..Recipe::default() })
}

#[test]
fn of_pixels_that_were_checked_only_the_rows_in_use_are_read() {
    let (width, height) = STORED;
    let value = u64::from(width * height * 3);
    // A transform, and the rows that it uses, where these are the same for all.
    let transforms = [
        (Transform::Crop { width, height: 8, padding: 0, flip: 0.0 }, Some(8)),
        (Transform::Crop { width: 16, height: 8, padding: 0, flip: 0.5 }, Some(8)),
        (Transform::Resize { width, height }, Some(20)),
        (Transform::Eval { resize_short: 20, width: 10, height: 6 }, Some(6)),
        (Transform::Crop { width, height, padding: 5, flip: 0.5 }, None),
        (Transform::train(SIDE), None),
    ];
    let kinds = [
        (Numbers::Stored, AxisOrder::ChannelsLast),
        (Numbers::F32, AxisOrder::Contiguous),
        (Numbers::Bf16, AxisOrder::ChannelsLast),
    ];
    for dtype in [Dtype::U8, Dtype::U16] {
        let made = stored(dtype);
        let open = |check, backend| {
            let options = OpenOptions { check, backend, ..OpenOptions::default() };
            Arc::new(Bundle::open(made.dir.path(), options).unwrap())
        };
        let value = value * dtype.size_bytes();
        for (transform, rows) in transforms {
            for (numbers, layout) in kinds {
                let options = LoaderOptions {
                    transform,
                    numbers,
                    normalise: Normalise::scaled().into(),
                    layout,
                    // With reading ahead, samples would be read whole.
                    read_ahead_bytes: 0,
                    across_epochs: false,
                    ..options()
                };
                let run = |check, backend| {
                    let bundle = open(check, backend);
                    let mut loader = Loader::new(bundle, options.clone()).unwrap();
                    let mut epochs = [Rows::new(), Rows::new()];
                    let mut bytes = [0; 2];
                    for (rows, bytes) in epochs.iter_mut().zip(&mut bytes) {
                        let before = loader.stats().bytes;
                        take(&mut loader, 3, usize::MAX, rows);
                        *bytes = (loader.stats().bytes - before) / N;
                    }
                    assert!(epochs[0] == epochs[1], "{transform:?} {check:?} {backend:?}");
                    let [rows, _] = epochs;
                    (rows, bytes)
                };
                let (expected, bytes) = run(CheckWhen::Always, Backend::Pread);
                assert_eq!(bytes, [value, value]);
                for backend in [Backend::Pread, Backend::Map] {
                    let (found, bytes) = run(CheckWhen::FirstTouch, backend);
                    assert!(found == expected, "{transform:?} {numbers:?} {backend:?}");
                    assert_eq!(bytes[0], value);
                    match rows {
                        Some(rows) => assert_eq!(bytes[1], value * rows / u64::from(height)),
                        None => assert!(bytes[1] < value, "{transform:?}"),
                    }
                    let (found, trusted) = run(CheckWhen::OnFetch, backend);
                    assert!(found == expected, "{transform:?} {numbers:?} {backend:?}");
                    assert_eq!(trusted, [bytes[1]; 2]);
                }
            }
        }
    }
}

#[test]
fn stored_pixels_give_a_function_what_the_batch_would_have() {
    let made = stored(Dtype::U8);
    let crop = Transform::Crop { width: 18, height: 15, padding: 2, flip: 0.5 };
    for transform in [crop, Transform::train(SIDE), Transform::eval(16)] {
        for numbers in [Numbers::Stored, Numbers::F32] {
            let plain = LoaderOptions { transform, numbers, ..options() };
            let augment = Augment::new(|picture, _| picture.shift(0, 0));
            let same = LoaderOptions { augment: Some(augment), ..plain.clone() };
            assert!(epoch(&made.bundle, plain) == epoch(&made.bundle, same), "{transform:?}");
        }
    }
}
