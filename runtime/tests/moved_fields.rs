//! Arrays whose axes lie in any order, and fields that move with the image.

use std::sync::Arc;

use gular_bundle::{Axes, Dtype, Field, FieldName};
use gular_codec::encode_png;
use gular_runtime::augment::{Augment, Blend};
use gular_runtime::{
    AxisOrder, Bundle, Error, Loader, LoaderOptions, Normalise, Numbers, Split, Transform,
};

use crate::fixtures::{Made, make_fields};

const SIDES: [(char, usize); 5] = [('t', 2), ('z', 1), ('c', 5), ('y', 24), ('x', 20)];

/// The value of sample `i` at one place; neighbours differ, and all are whole, above 0 and below 2048.
fn value(i: usize, [t, c, y, x]: [usize; 4]) -> u16 {
    ((i * 131 + t * 700 + c * 223 + y * 29 + x * 7) % 2000 + 1) as u16
}

/// The numbers of sample `i` in the order of `axes`.
fn numbers(i: usize, axes: &str) -> Vec<u16> {
    let side = |axis: char| SIDES.iter().find(|(of, _)| *of == axis).unwrap().1;
    let n: usize = axes.chars().map(side).product();
    let place = |mut at: usize| {
        let mut place = [0; 4];
        for axis in axes.bytes().rev().map(char::from) {
            if let Some(of) = "tcyx".find(axis) {
                place[of] = at % side(axis);
            }
            at /= side(axis);
        }
        place
    };
    (0..n).map(|at| value(i, place(at))).collect()
}

fn shape(axes: &str) -> Vec<u64> {
    axes.chars().map(|axis| SIDES.iter().find(|(of, _)| *of == axis).unwrap().1 as u64).collect()
}

fn bytes(dtype: Dtype, numbers: &[u16]) -> Vec<u8> {
    let of = |v: &u16| match dtype {
        Dtype::U8 => vec![*v as u8],
        Dtype::U16 => v.to_le_bytes().to_vec(),
        Dtype::F16 => half::f16::from_f32(f32::from(*v)).to_le_bytes().to_vec(),
        Dtype::F32 => f32::from(*v).to_le_bytes().to_vec(),
        Dtype::U32 => u32::from(*v).to_le_bytes().to_vec(),
        Dtype::I32 => i32::from(*v).to_le_bytes().to_vec(),
        Dtype::I64 => i64::from(*v).to_le_bytes().to_vec(),
        _ => f64::from(*v).to_le_bytes().to_vec(),
    };
    numbers.iter().flat_map(of).collect()
}

fn field(name: &str, dtype: Dtype, axes: &str) -> Field {
    let name = FieldName::parse(name).unwrap();
    let grid = (name != FieldName::image()).then(FieldName::image);
    Field { axes: Some(axes.parse().unwrap()), grid, ..Field::fixed(name, dtype, shape(axes)) }
}

fn of_axes(dtype: Dtype, axes: &str) -> Made {
    let image = field("image", dtype, axes);
    make_fields(image, &[], &|i, _| bytes(dtype, &numbers(i, axes)))
}

/// The bytes of field `name` of all batches of an epoch, and the shape of a sample.
fn epoch(bundle: &Arc<Bundle>, options: &LoaderOptions, name: &str) -> (Vec<usize>, Vec<u8>) {
    let mut loader = Loader::new(Arc::clone(bundle), options.clone()).unwrap();
    let (mut shape, mut all) = (Vec::new(), Vec::new());
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        let values = batch.field(name).unwrap();
        let array = values.array().unwrap();
        shape = array.shape[1..].to_vec();
        all.extend_from_slice(array.bytes);
    }
    (shape, all)
}

fn options(transform: Transform) -> LoaderOptions {
    let mut options = LoaderOptions::new(Split::Train);
    (options.batch_size, options.threads, options.transform) = (4, 2, transform);
    options
}

const TRANSFORMS: [Transform; 4] = [
    Transform::Train { width: 11, height: 9, scale: (0.3, 1.0), ratio: (0.7, 1.4), flip: 0.5 },
    Transform::Crop { width: 16, height: 16, padding: 3, flip: 0.5 },
    Transform::Eval { resize_short: 18, width: 14, height: 16 },
    Transform::Resize { width: 20, height: 24 },
];

#[test]
fn arrays_give_the_same_batches_whatever_the_order_of_their_axes() {
    for dtype in [Dtype::U16, Dtype::F32] {
        let first = of_axes(dtype, "yxc");
        for axes in ["cyx", "xcy", "ycx"] {
            let other = of_axes(dtype, axes);
            for transform in TRANSFORMS {
                for (layout, numbers, bands) in [
                    (AxisOrder::Contiguous, Numbers::F32, Some(vec![3, 0, 1])),
                    (AxisOrder::ChannelsLast, Numbers::Stored, None),
                ] {
                    let mut options = options(transform);
                    (options.layout, options.numbers) = (layout, numbers);
                    (options.bands, options.normalise) = (bands, Normalise::scaled().into());
                    let expected = epoch(&first.bundle, &options, "image");
                    let found = epoch(&other.bundle, &options, "image");
                    assert!(found == expected, "{dtype:?} {axes} {transform:?} {layout:?}");
                }
            }
        }
    }
}

#[test]
fn bands_that_come_first_are_the_bands() {
    let made = of_axes(Dtype::U16, "cyx");
    let mut options = options(Transform::Resize { width: 20, height: 24 });
    (options.layout, options.bands) = (AxisOrder::Contiguous, Some(vec![4, 1]));
    options.order.kind = gular_runtime::order::OrderKind::Torch { shuffle: false };
    let (shape, found) = epoch(&made.bundle, &options, "image");
    assert_eq!(shape, [2, 24, 20]);
    let expected = (0..12).flat_map(|i| {
        let of = numbers(i, "cyx");
        [&of[4 * 480..], &of[480..2 * 480]].concat()
    });
    let expected: Vec<u8> = expected.flat_map(u16::to_ne_bytes).collect();
    assert!(found == expected);
}

#[test]
fn times_come_before_bands() {
    let stored = of_axes(Dtype::F32, "ytxc");
    let mut options = options(Transform::Resize { width: 20, height: 24 });
    options.bands = Some(vec![2]);
    let refused = Loader::new(Arc::clone(&stored.bundle), options.clone()).unwrap_err();
    assert!(refused.to_string().contains("times"), "{refused}");
    options.layout = AxisOrder::Contiguous;
    let (shape, found) = epoch(&stored.bundle, &options, "image");
    assert_eq!(shape, [2, 1, 24, 20]);
    let (_, again) = epoch(&of_axes(Dtype::F32, "ctyx").bundle, &options, "image");
    assert!(found == again);
    // One band is not repeated for each time.
    options.bands = None;
    assert_eq!(epoch(&of_axes(Dtype::F32, "tyx").bundle, &options, "image").0, [2, 1, 24, 20]);
}

#[test]
fn axes_that_nobody_named_are_asked_for() {
    let image = Field { axes: None, ..field("image", Dtype::U16, "cyx") };
    let made = make_fields(image, &[], &|i, _| bytes(Dtype::U16, &numbers(i, "cyx")));
    let mut options = options(TRANSFORMS[0]);
    let refused = Loader::new(Arc::clone(&made.bundle), options.clone()).unwrap_err();
    assert!(matches!(refused, Error::Option { option: "axes", .. }), "{refused}");
    assert!(refused.to_string().contains("[5, 24, 20]"), "{refused}");
    options.axes = Some(Axes::cyx());
    let expected = epoch(&of_axes(Dtype::U16, "cyx").bundle, &options, "image");
    assert!(epoch(&made.bundle, &options, "image") == expected);
    options.axes = Some(Axes::yx());
    let refused = Loader::new(Arc::clone(&made.bundle), options.clone()).unwrap_err();
    assert!(refused.to_string().contains("`yx`"), "{refused}");
    // What is recorded is not overruled.
    let recorded = of_axes(Dtype::U16, "yxc");
    options.axes = Some(Axes::cyx());
    let refused = Loader::new(recorded.bundle, options).unwrap_err();
    assert!(refused.to_string().contains("`yxc`"), "{refused}");
}

#[test]
fn every_type_is_delivered_as_floats() {
    let mut options = options(TRANSFORMS[0]);
    (options.numbers, options.normalise) = (Numbers::F32, Normalise::scaled().into());
    let expected = epoch(&of_axes(Dtype::F32, "cyx").bundle, &options, "image");
    for dtype in [Dtype::U32, Dtype::I32, Dtype::I64, Dtype::F64] {
        let made = of_axes(dtype, "cyx");
        assert!(epoch(&made.bundle, &options, "image") == expected, "{dtype:?}");
        let stored = LoaderOptions { numbers: Numbers::Stored, ..options.clone() };
        let refused = Loader::new(made.bundle, stored).unwrap_err();
        assert!(matches!(refused, Error::Option { option: "numbers", .. }), "{refused}");
    }
}

#[test]
fn arrays_without_rows_and_columns_are_delivered_as_they_are() {
    let made = of_axes(Dtype::I32, "tc");
    let (shape, found) = epoch(&made.bundle, &options(TRANSFORMS[0]), "image");
    assert_eq!((shape, found.len()), (vec![2, 5], 12 * 10 * 4));
    // Bands can be chosen only of pictures, and only pictures are mixed.
    let bands = LoaderOptions { bands: Some(vec![0]), ..options(TRANSFORMS[0]) };
    let mixed =
        LoaderOptions { blend: Some(Blend::MixUp { alpha: 1.0 }), ..options(TRANSFORMS[0]) };
    for (wrong, name) in [(bands, "bands"), (mixed, "blend")] {
        let refused = Loader::new(Arc::clone(&made.bundle), wrong).unwrap_err();
        assert!(matches!(refused, Error::Option { option, .. } if option == name), "{refused}");
    }
}

/// Flips, turns and shifts, as augmentations do it.
fn turned() -> Augment {
    Augment::new(|picture, rng| {
        if rng.unit() < 0.5 {
            picture.flip_vertical();
        }
        picture.rotate_90(rng.below(4) as u32);
        picture.pad_crop(2, rng);
    })
}

#[test]
fn a_field_on_the_pixels_of_the_image_goes_where_the_image_goes() {
    let image = field("image", Dtype::F32, "yx");
    let more = [field("height", Dtype::F32, "yx"), field("flow", Dtype::F32, "cyx")];
    let classes = field("zone", Dtype::U16, "yx");
    let fields = [&more[..], &[classes]].concat();
    let made = make_fields(image, &fields, &|i, name| match name {
        "zone" => bytes(Dtype::U16, &numbers(i, "yx")),
        "flow" => bytes(Dtype::F32, &numbers(i, "cyx")),
        _ => bytes(Dtype::F32, &numbers(i, "yx")),
    });
    for (transform, augment, layout) in [
        (TRANSFORMS[0], None, AxisOrder::Contiguous),
        (
            Transform::Crop { width: 16, height: 16, padding: 3, flip: 0.5 },
            Some(turned()),
            AxisOrder::Contiguous,
        ),
        (
            Transform::Crop { width: 16, height: 16, padding: 3, flip: 0.5 },
            Some(turned()),
            AxisOrder::ChannelsLast,
        ),
        (TRANSFORMS[2], None, AxisOrder::ChannelsLast),
    ] {
        let mut options = options(transform);
        (options.bands, options.augment, options.layout) = (Some(vec![0]), augment, layout);
        options.fields = ["height", "flow", "zone"].map(str::to_owned).to_vec();
        let resizes = !matches!(transform, Transform::Crop { .. });
        let of = |name| {
            let (shape, bytes) = epoch(&made.bundle, &options, name);
            let floats = |bytes: &[u8]| f32::from_ne_bytes(bytes.try_into().unwrap());
            (shape, bytes.chunks_exact(4).map(floats).collect::<Vec<f32>>())
        };
        let (_, expected) = of("image");
        let (shape, heights) = of("height");
        assert_eq!(shape.len(), 2);
        // Around the picture there are zeros, which no height is.
        let same = |(a, b): (&f32, &f32)| if *a == 0.0 { b.is_nan() } else { a == b };
        assert!(expected.iter().zip(&heights).all(same), "{transform:?}");
        let (shape, flow) = of("flow");
        let pixels = shape.iter().product::<usize>() / 5;
        let first: Vec<f32> = match layout {
            AxisOrder::Contiguous => {
                flow.chunks_exact(5 * pixels).flat_map(|of| of[..pixels].to_vec()).collect()
            }
            AxisOrder::ChannelsLast => flow.iter().step_by(5).copied().collect(),
        };
        assert!(expected.iter().zip(&first).all(same), "{transform:?} {layout:?}");
        let (shape, zones) = epoch(&made.bundle, &options, "zone");
        assert_eq!(shape.len(), 2);
        let zones = zones.chunks_exact(2).map(|v| u16::from_ne_bytes([v[0], v[1]]));
        if resizes {
            let known: Vec<u16> = (0..12).flat_map(|i| numbers(i, "yx")).collect();
            assert!(zones.clone().all(|zone| known.contains(&zone)));
        } else {
            let same =
                |(a, zone): (&f32, u16)| *a == f32::from(zone) || (*a == 0.0 && zone == u16::MAX);
            assert!(expected.iter().zip(zones).all(same), "{transform:?}");
        }
    }
}

#[test]
fn a_second_picture_is_made_as_the_first_is() {
    let picture = |i: usize| {
        let rgb: Vec<u8> = (0..24 * 20 * 3).map(|at| (at * 31 + i * 17) as u8).collect();
        encode_png(&rgb, 20, 24).unwrap()
    };
    let encoded = |name: &str| {
        let name = FieldName::parse(name).unwrap();
        let grid = (name != FieldName::image()).then(FieldName::image);
        Field { grid, ..Field::bytes(name, vec!["image/png".to_owned()]) }
    };
    let made = make_fields(encoded("image"), &[encoded("after")], &|i, _| picture(i));
    let arrays = make_fields(
        field("image", Dtype::U16, "cyx"),
        &[field("after", Dtype::U16, "cyx")],
        &|i, _| bytes(Dtype::U16, &numbers(i, "cyx")),
    );
    for bundle in [&made.bundle, &arrays.bundle] {
        let layouts = [AxisOrder::Contiguous, AxisOrder::ChannelsLast];
        let augments = [None, None, None, None, Some(turned())];
        let all = TRANSFORMS.into_iter().chain([TRANSFORMS[1]]).zip(augments);
        for ((transform, augment), layout) in
            all.flat_map(|one| layouts.map(|of| (one.clone(), of)))
        {
            let mut options = options(transform);
            (options.numbers, options.layout, options.augment) = (Numbers::F32, layout, augment);
            let how = Normalise { scale: Some(9.0), mean: vec![0.5, 0.1], std: vec![0.2, 0.3] };
            (options.normalise, options.bands) = (how.into(), Some(vec![2, 0]));
            options.fields = vec!["after".to_owned()];
            let first = epoch(bundle, &options, "image");
            assert!(epoch(bundle, &options, "after") == first, "{transform:?} {layout:?}");
        }
        let mut options = options(TRANSFORMS[0]);
        (options.fields, options.blend) =
            (vec!["after".to_owned()], Some(Blend::MixUp { alpha: 1.0 }));
        (options.normalise, options.numbers) = (Normalise::scaled().into(), Numbers::F32);
        let refused = Loader::new(Arc::clone(bundle), options).unwrap_err();
        assert!(refused.to_string().contains("`after`"), "{refused}");
    }
}

#[test]
fn a_field_of_another_size_is_named() {
    let image = field("image", Dtype::F32, "yx");
    let height = Field {
        axes: Some(Axes::yx()),
        ..Field::fixed(FieldName::parse("height").unwrap(), Dtype::F32, vec![12, 10])
    };
    let height = Field { grid: Some(FieldName::image()), ..height };
    let made = make_fields(image, &[height], &|i, name| match name {
        "height" => vec![0; 480],
        _ => bytes(Dtype::F32, &numbers(i, "yx")),
    });
    let mut options = options(TRANSFORMS[1]);
    options.fields = vec!["height".to_owned()];
    let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
    let error = loader.epoch(0).find_map(Result::err).unwrap();
    assert!(error.to_string().contains("the `height` of sample"), "{error}");
    assert!(error.to_string().contains("has 10 x 12 pixels, but its image has 20 x 24"), "{error}");
}

#[test]
fn masks_are_filled_as_they_are_told() {
    let (image, mask) = (field("image", Dtype::F32, "yx"), field("mask", Dtype::I16, "yx"));
    let made = make_fields(image, &[mask], &|_, name| match name {
        "mask" => vec![0; 960],
        _ => vec![0; 1920],
    });
    let mut options = options(Transform::Crop { width: 20, height: 24, padding: 8, flip: 0.0 });
    options.fields = vec!["mask".to_owned()];
    let fills = |options: &LoaderOptions| {
        let (_, values) = epoch(&made.bundle, options, "mask");
        let values = values.chunks_exact(2).map(|v| i16::from_ne_bytes([v[0], v[1]]));
        values.collect::<std::collections::BTreeSet<i16>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(fills(&options), [-1, 0]);
    options.mask_fill = Some(-100);
    assert_eq!(fills(&options), [-100, 0]);
    options.mask_fill = Some(40_000);
    let refused = |options: LoaderOptions| {
        let error = Loader::new(Arc::clone(&made.bundle), options).unwrap_err();
        assert!(matches!(error, Error::Option { option: "mask_fill", .. }), "{error}");
        error.to_string()
    };
    assert!(refused(options.clone()).contains("40000"));
    options.fields.clear();
    assert!(refused(options).contains("no mask is loaded"));
}

#[test]
fn further_masks_are_filled_with_their_own_number_and_never_mixed() {
    let mask = |name: &str, axes: &str, ignore: i64| Field {
        ignore: Some(ignore),
        ..field(name, Dtype::U16, axes)
    };
    // One has the type and the bands of the image, as the segmentation of a volume may have.
    let masks = [mask("organs", "cyx", 2001), mask("roads", "yx", 2002)];
    let made = make_fields(field("image", Dtype::U16, "cyx"), &masks, &|i, name| match name {
        "roads" => bytes(Dtype::U16, &numbers(i, "yx")),
        _ => bytes(Dtype::U16, &numbers(i, "cyx")),
    });
    let stored: Vec<u16> = (0..12).flat_map(|i| numbers(i, "cyx")).collect();
    for transform in TRANSFORMS {
        let mut options = options(transform);
        options.layout = AxisOrder::Contiguous;
        options.fields = vec!["organs".to_owned(), "roads".to_owned()];
        // Only squares are turned.
        options.augment = matches!(transform, Transform::Crop { .. }).then(turned);
        let values = |name: &str| {
            let (shape, values) = epoch(&made.bundle, &options, name);
            let values = values.chunks_exact(2).map(|v| u16::from_ne_bytes([v[0], v[1]]));
            (shape, values.collect::<Vec<u16>>())
        };
        let ((of_organs, organs), (of_roads, roads)) = (values("organs"), values("roads"));
        assert_eq!(of_organs[1..], of_roads[..]);
        let pixels: usize = of_roads.iter().product();
        for (organs, roads) in organs.chunks_exact(5 * pixels).zip(roads.chunks_exact(pixels)) {
            assert!(organs.iter().all(|v| *v == 2001 || stored.contains(v)), "{transform:?}");
            let same = |(a, b): (&u16, &u16)| a == b || (*a, *b) == (2001, 2002);
            assert!(organs.iter().zip(roads).all(same), "{transform:?}");
        }
        let is_padded = matches!(transform, Transform::Crop { .. });
        assert!(!is_padded || organs.contains(&2001) && roads.contains(&2002));
    }
}

/// A grey PNG of 16 bits.
fn deep(values: &[u16]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 20, 24);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Sixteen);
    let mut writer = encoder.write_header().unwrap();
    let values: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
    writer.write_image_data(&values).unwrap();
    writer.finish().unwrap();
    file
}

#[test]
fn values_of_16_bits_beside_photographs_stay_what_they_are() {
    let name = |name: &str| FieldName::parse(name).unwrap();
    let encoded = |of: &str| Field::bytes(name(of), vec!["image/png".to_owned()]);
    let depth =
        Field { axes: Some(Axes::yx()), grid: Some(FieldName::image()), ..encoded("depth") };
    let made = make_fields(encoded("image"), &[depth], &|i, name| match name {
        "depth" => deep(&numbers(i, "yx")),
        _ => {
            let low = numbers(i, "yx").into_iter().flat_map(|v| [v as u8; 3]);
            encode_png(&low.collect::<Vec<u8>>(), 20, 24).unwrap()
        }
    });
    let mut options = options(Transform::Crop { width: 16, height: 16, padding: 0, flip: 0.5 });
    (options.fields, options.bands) = (vec!["depth".to_owned()], Some(vec![0]));
    let (_, image) = epoch(&made.bundle, &options, "image");
    let (shape, depth) = epoch(&made.bundle, &options, "depth");
    assert_eq!(shape, [16, 16]);
    let depth = depth.chunks_exact(2).map(|v| u16::from_ne_bytes([v[0], v[1]]));
    assert!(depth.clone().any(|v| v > 255));
    assert!(image.iter().zip(depth).all(|(low, depth)| *low == depth as u8));
}

#[test]
fn an_image_that_stays_turned_has_no_upright_mask() {
    // 20 x 24 pixels, upside down.
    let rgb = vec![7; 20 * 24 * 3];
    let jpeg = gular_codec::encode_jpeg(&rgb, 20, 24, 90).unwrap();
    let exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x03\0\0\0\0\0\0";
    let segment = [&[0xff, 0xe1, 0, exif.len() as u8 + 2][..], exif].concat();
    let turned = [&jpeg[..2], &segment, &jpeg[2..]].concat();
    let image = Field::bytes(FieldName::image(), vec!["image/jpeg".to_owned()]);
    let mask = field("mask", Dtype::U8, "yx");
    let made = make_fields(image, &[mask], &|i, name| match name {
        "mask" => vec![1; 480],
        _ if i == 5 => turned.clone(),
        _ => jpeg.clone(),
    });
    let mut options = options(TRANSFORMS[1]);
    options.fields = vec!["mask".to_owned()];
    assert_eq!(epoch(&made.bundle, &options, "mask").0, [16, 16]);
    options.orientation = gular_codec::OrientationPolicy::Ignore;
    let mut loader = Loader::new(Arc::clone(&made.bundle), options.clone()).unwrap();
    let error = loader.epoch(0).find_map(Result::err).unwrap();
    assert!(error.to_string().contains("sample `05`"), "{error}");
    assert!(error.to_string().contains("is stored turned"), "{error}");
    // Alone it may stay as it is.
    options.fields.clear();
    let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
    assert!(loader.epoch(0).all(|batch| batch.is_ok()));
}

#[test]
fn boxes_and_points_go_with_their_image() {
    // One bright pixel of each image, the box around it, and its middle.
    let (width, height) = (20_u64, 24_u64);
    let at = |i: usize| ((i * 7 + 3) % 20, (i * 11 + 5) % 24);
    let image = Field::fixed(FieldName::image(), Dtype::F32, vec![height, width]);
    let npy = |name: &str| {
        Field::bytes(FieldName::parse(name).unwrap(), vec!["application/x-npy".to_owned()])
    };
    let file = |dtype, shape: &[u64], numbers: Vec<u8>| {
        [gular_bundle::npy_header(dtype, shape), numbers].concat()
    };
    let numbers = |numbers: &[f64]| numbers.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut fields = ["boxes", "box_labels", "keypoints", "points", "point_labels"].map(npy);
    fields[3].grid = Some(FieldName::image());
    let made = make_fields(image, &fields, &|i, name| {
        let (x, y) = at(i);
        let middle = [(x as f64 + 0.5) / 20.0, (y as f64 + 0.5) / 24.0];
        match name {
            "keypoints" => {
                let points = [middle[0], middle[1], 1.0, 0.0, 0.0, 0.0];
                file(Dtype::F64, &[2, 3], numbers(&points))
            }
            "points" => file(Dtype::F64, &[1, 2], numbers(&middle)),
            "point_labels" => file(Dtype::I64, &[1], (i as i64).to_le_bytes().to_vec()),
            "boxes" => {
                let sides = [
                    x as f64 / 20.0,
                    y as f64 / 24.0,
                    (x + 1) as f64 / 20.0,
                    (y + 1) as f64 / 24.0,
                ];
                let all = [sides, [0.0, 0.0, 1.0, 1.0]];
                file(
                    Dtype::F64,
                    &[2, 4],
                    all.as_flattened().iter().flat_map(|v| v.to_le_bytes()).collect(),
                )
            }
            "box_labels" => {
                let labels = [i as i64, 99];
                file(Dtype::I64, &[2], labels.iter().flat_map(|v| v.to_le_bytes()).collect())
            }
            _ => {
                let mut pixels = vec![0.0_f32; 480];
                pixels[y * 20 + x] = 1.0;
                pixels.iter().flat_map(|v| v.to_le_bytes()).collect()
            }
        }
    });
    let (mut seen, mut gone) = (0, 0);
    for epoch in 0..8 {
        let mut options = options(Transform::Crop { width: 16, height: 16, padding: 2, flip: 0.5 });
        (options.augment, options.bands) = (Some(turned()), Some(vec![0]));
        let named = ["box_labels", "boxes", "keypoints", "point_labels", "points"];
        options.fields = named.map(str::to_owned).to_vec();
        let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
        for batch in loader.epoch(epoch) {
            let batch = batch.unwrap();
            let image = batch.field("image").unwrap();
            let images = image.array().unwrap().values::<f32>().unwrap().chunks(256);
            let bytes = |name| batch.field(name).unwrap().bytes().unwrap();
            let points = bytes("keypoints").iter().zip(bytes("points")).zip(bytes("point_labels"));
            let rows = images.zip(bytes("boxes")).zip(bytes("box_labels")).zip(points);
            for (id, (((image, boxes), labels), points)) in batch.sample_ids().iter().zip(rows) {
                let values = |file: &[u8]| {
                    let npy = gular_bundle::Npy::parse(file).unwrap();
                    let numbers = file[npy.data_at as usize..].as_chunks().0.iter();
                    (npy, numbers.map(|v| f64::from_le_bytes(*v)).collect::<Vec<f64>>())
                };
                let (npy, numbers) = values(boxes);
                let ((keypoints, points), point_labels) = points;
                let (keypoints, points) = (values(keypoints).1, values(points).1);
                let n_labels = gular_bundle::Npy::parse(point_labels).unwrap().shape[0];
                let of_labels = gular_bundle::Npy::parse(labels).unwrap();
                assert_eq!(npy.shape, [of_labels.shape[0], 4]);
                let first = &labels[of_labels.data_at as usize..][..8];
                match image.iter().position(|v| *v == 1.0) {
                    Some(pixel) => {
                        let (x, y) = ((pixel % 16) as f64, (pixel / 16) as f64);
                        let sides = [x, y, x + 1.0, y + 1.0].map(|side| side / 16.0);
                        let near = numbers.iter().zip(sides).all(|(a, b)| (a - b).abs() < 1e-9);
                        assert!(near, "{id}: {numbers:?} {sides:?}");
                        assert_eq!(first, (*id as i64).to_le_bytes());
                        let middle = [(x + 0.5) / 16.0, (y + 0.5) / 16.0];
                        let near = |found: &[f64]| {
                            found.iter().zip(middle).all(|(a, b)| (a - b).abs() < 1e-9)
                        };
                        assert!(near(&keypoints[..2]) && near(&points), "{id}: {keypoints:?}");
                        assert_eq!((keypoints[2], points.len(), n_labels), (1.0, 2, 1));
                        seen += 1;
                    }
                    None => {
                        assert_eq!((numbers.len(), first), (4, &99_i64.to_le_bytes()[..]));
                        assert_eq!(
                            (keypoints.as_slice(), points.len(), n_labels),
                            (&[0.0; 3][..], 0, 0)
                        );
                        gone += 1;
                    }
                }
            }
        }
    }
    assert!(seen > 30 && gone > 5, "{seen} {gone}");
    let mut options = options(Transform::Resize { width: 5, height: 7 });
    (options.fields, options.bands) = (vec!["boxes".to_owned()], Some(vec![0]));
    let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
    let batch = loader.epoch(0).next().unwrap().unwrap();
    let boxes = batch.field("boxes").unwrap();
    assert!(boxes.bytes().unwrap().iter().all(|file| file.ends_with(&1_f64.to_le_bytes())));
}

#[test]
fn the_batch_says_where_each_picture_is_on_its_image_and_on_the_earth() {
    // Each pixel has a number of its own, and each image a place of its own.
    let image = Field::fixed(FieldName::image(), Dtype::F32, vec![24, 20]);
    let transform = Field::fixed(FieldName::parse("image_transform").unwrap(), Dtype::F64, vec![6]);
    let place = |i: usize| [1000.0 * i as f64, 10.0, 0.5, 5000.0, 0.25, -10.0];
    let made = make_fields(image, &[transform], &|i, name| match name {
        "image_transform" => place(i).iter().flat_map(|n| n.to_le_bytes()).collect(),
        _ => (1..=480_u16).flat_map(|n| f32::from(n).to_le_bytes()).collect(),
    });
    let at = |of: &[f64], (x, y): (f64, f64)| {
        (of[0] + x * of[1] + y * of[2], of[3] + x * of[4] + y * of[5])
    };
    let near = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).abs() + (a.1 - b.1).abs() < 1e-6;
    let mut seen = 0;
    for epoch in 0..4 {
        let mut options = options(Transform::Crop { width: 16, height: 16, padding: 2, flip: 0.5 });
        (options.augment, options.bands) = (Some(turned()), Some(vec![0]));
        (options.numbers, options.normalise) = (Numbers::F32, Normalise::scaled().into());
        options.fields = ["image_transform", "image_affine"].map(str::to_owned).to_vec();
        let mut loader = Loader::new(Arc::clone(&made.bundle), options).unwrap();
        for batch in loader.epoch(epoch) {
            let batch = batch.unwrap();
            let floats = |name: &str| {
                let values = batch.field(name).unwrap();
                let values = values.array().unwrap();
                assert_eq!(values.shape[1..], [6]);
                values.values::<f64>().unwrap().to_vec()
            };
            let (affines, transforms) = (floats("image_affine"), floats("image_transform"));
            let image = batch.field("image").unwrap();
            let images = image.array().unwrap().values::<f32>().unwrap().chunks(256);
            let rows = images.zip(affines.chunks(6)).zip(transforms.chunks(6));
            for (id, ((pixels, affine), transform)) in batch.sample_ids().iter().zip(rows) {
                for (i, pixel) in pixels.iter().enumerate().filter(|(_, pixel)| **pixel > 0.0) {
                    let centre = ((i % 16) as f64 + 0.5, (i / 16) as f64 + 0.5);
                    let n = *pixel as usize - 1;
                    let stored = ((n % 20) as f64 + 0.5, (n / 20) as f64 + 0.5);
                    assert!(near(at(affine, centre), stored), "{id}: {centre:?} {stored:?}");
                    let on_earth = at(&place(*id as usize), stored);
                    assert!(near(at(transform, centre), on_earth), "{id}: {centre:?}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 1000, "{seen}");

    // Of a picture that is made smaller, a pixel is several.
    let mut options = options(Transform::Resize { width: 10, height: 12 });
    options.fields = vec!["image_affine".to_owned()];
    let (_, bytes) = epoch(&made.bundle, &options, "image_affine");
    let numbers: Vec<f64> =
        bytes.as_chunks::<8>().0.iter().map(|b| f64::from_ne_bytes(*b)).collect();
    assert!(numbers.chunks(6).all(|of| of == [0.0, 2.0, 0.0, 0.0, 0.0, 2.0]), "{numbers:?}");
}
