//! Batches as tensors on the CPU; `gpu check` compares a GPU with the same.

#![cfg(feature = "torch")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixtures;

use std::sync::Arc;

use fixtures::{Recipe, make};
use gular_runtime::augment::Blend;
use gular_runtime::torch::{AxisOrder, Compute, Feed, FeedOptions, Numbers, Place};
use gular_runtime::{Bundle, Error, Loader, LoaderOptions, LoaderPlan, Split, Transform};
use tch::{Kind, Tensor};

const SIDE: u32 = 24;

fn options() -> LoaderOptions {
    LoaderOptions {
        batch_size: 4,
        transform: Transform::train(SIDE),
        ..LoaderOptions::new(Split::Train)
    }
}

fn plan(bundle: &Arc<Bundle>) -> LoaderPlan {
    LoaderPlan::new(Arc::clone(bundle), options()).unwrap()
}

fn feed(bundle: &Arc<Bundle>, numbers: Numbers, layout: AxisOrder) -> Feed {
    let options = FeedOptions { numbers, layout, ..FeedOptions::default() };
    Feed::new(plan(bundle), &Place::cpu(), options).unwrap()
}

/// Whether two tensors have the same bits.
fn same(a: &Tensor, b: &Tensor) -> bool {
    (a.kind(), a.size()) == (b.kind(), b.size()) && a.equal(b)
}

#[test]
fn soft_labels_are_those_of_the_loader() {
    let made = make(&Recipe::default());
    for blend in [None, Some(Blend::MixUp { alpha: 0.5 }), Some(Blend::CutMix { alpha: 1.0 })] {
        let options = LoaderOptions { blend, ..options() };
        let plan = LoaderPlan::new(Arc::clone(&made.bundle), options.clone()).unwrap();
        let mut feed = Feed::new(plan, &Place::cpu(), FeedOptions::default()).unwrap();
        let mut plain = Loader::new(Arc::clone(&made.bundle), options).unwrap();
        for (batch, fed) in plain.epoch(1).zip(feed.epoch(1)) {
            let (batch, fed) = (batch.unwrap(), fed.unwrap());
            assert_eq!(fed.blended, batch.blended());
            assert_eq!(fed.blended.is_empty(), blend.is_none());
            let soft = fed.soft_labels(3).unwrap();
            assert_eq!(soft.size(), [batch.len() as i64, 3]);
            assert_eq!(Vec::<f32>::try_from(soft.view(-1)).unwrap(), batch.soft_labels(3));
        }
    }
}

#[test]
fn every_kind_and_layout_holds_the_numbers_of_the_loader() {
    let made = make(&Recipe::default());
    let bundle = &made.bundle;
    let kinds = [Numbers::F32, Numbers::Bf16, Numbers::F16, Numbers::Stored];
    for numbers in kinds {
        for layout in [AxisOrder::Contiguous, AxisOrder::ChannelsLast] {
            let mut plain = Loader::new(Arc::clone(bundle), options()).unwrap();
            let mut feed = feed(bundle, numbers, layout);
            let mut n = 0;
            for (batch, fed) in plain.epoch(1).zip(feed.epoch(1)) {
                let (batch, fed) = (batch.unwrap(), fed.unwrap());
                let side = i64::from(SIDE);
                let expected = if numbers == Numbers::Stored {
                    let shape = [batch.len() as i64, side, side, 3];
                    let bytes = Tensor::from_data_size(batch.images(), &shape, Kind::Uint8);
                    bytes.permute([0, 3, 1, 2])
                } else {
                    // torchvision's ToTensor and Normalize, in libtorch.
                    let shape = [batch.len() as i64, side, side, 3];
                    let bytes = Tensor::from_data_size(batch.images(), &shape, Kind::Uint8);
                    let mean = Tensor::from_slice(&[0.485_f32, 0.456, 0.406]);
                    let std = Tensor::from_slice(&[0.229_f32, 0.224, 0.225]);
                    let values =
                        (bytes.to_kind(Kind::Float) / Tensor::from(255.0_f32) - mean) / std;
                    values.permute([0, 3, 1, 2]).to_kind(match numbers {
                        Numbers::Bf16 => Kind::BFloat16,
                        Numbers::F16 => Kind::Half,
                        _ => Kind::Float,
                    })
                };
                assert!(same(&fed.images, &expected), "{numbers:?} {layout:?}");
                let stride = fed.images.stride();
                assert_eq!(stride[1] == 1, layout == AxisOrder::ChannelsLast, "{stride:?}");
                assert_eq!(Vec::<i64>::try_from(&fed.labels).unwrap(), batch.labels());
                assert_eq!(
                    (&fed.sample_ids[..], &fed.keys[..]),
                    (batch.sample_ids(), batch.keys())
                );
                n += 1;
            }
            assert_eq!(n, plain.n_steps());
        }
    }
}

#[test]
fn tensors_are_the_loaders_memory_and_keep_it_while_one_is_left() {
    let made = make(&Recipe::default());
    let mut fresh = feed(&made.bundle, Numbers::F32, AxisOrder::Contiguous);
    let places = |feed: &mut Feed| {
        let batches = (0..3).flat_map(|epoch| {
            feed.epoch(epoch)
                .map(|batch| batch.unwrap().images.data_ptr().addr())
                .collect::<Vec<_>>()
        });
        batches.collect::<std::collections::BTreeSet<_>>()
    };
    let slots = places(&mut fresh);
    assert!(slots.len() <= 4, "as many places as slots: {slots:?}");

    // Held in any form, also by what libtorch remembers for a backward pass, nothing changes it.
    let mut feed = feed(&made.bundle, Numbers::F32, AxisOrder::Contiguous);
    let mut kept = Vec::new();
    for epoch in 0..3 {
        for batch in feed.epoch(epoch) {
            let batch = batch.unwrap();
            let part = batch.images.narrow(0, 0, 1);
            let copy = part.copy();
            let weight = Tensor::ones([3, 3, 1, 1], (Kind::Float, tch::Device::Cpu));
            let weight = weight.set_requires_grad(true);
            let loss = batch.images.conv2d::<Tensor>(&weight, None, [1, 1], [0, 0], [1, 1], 1);
            let sums = batch.images.sum_dim_intlist([0, 2, 3].as_slice(), false, Kind::Float);
            kept.push((part, copy, loss.sum(Kind::Float), weight, sums));
            let labels: Vec<i64> = Vec::try_from(&batch.labels).unwrap();
            assert!(labels.iter().zip(&batch.sample_ids).all(|(l, id)| *l == *id as i64 % 3));
        }
    }
    assert!(kept.len() > 10, "more than there are slots: {}", kept.len());
    for (part, copy, loss, weight, sums) in &kept {
        assert!(same(part, copy));
        loss.backward();
        // This is the gradient of a 1 x 1 convolution with sums as loss.
        let expected = sums.view([1, 3, 1, 1]).expand([3, 3, 1, 1], false);
        assert!((weight.grad() - expected).abs().max().double_value(&[]) < 1e-2);
    }
}

#[test]
fn other_fields_are_tensors_too_and_texts_stay_bytes() {
    use gular_bundle::{Dtype, Field, FieldName};
    let name = |text: &str| FieldName::parse(text).unwrap();
    let more = [
        Field::fixed(name("mask"), Dtype::U16, vec![24, 24]),
        Field::fixed(name("height"), Dtype::F64, vec![]),
        Field::bytes(name("text"), vec!["text/plain".into()]),
    ];
    let image = Field::fixed(FieldName::image(), Dtype::U16, vec![24, 24, 5]);
    let words = |i: usize, n: usize| -> Vec<u8> {
        (0..n).flat_map(|at| ((at * 31 + i * 1009) as u16).to_le_bytes()).collect()
    };
    let value = |i: usize, field: &str| match field {
        "image" => words(i, 24 * 24 * 5),
        "mask" => words(i + 7, 24 * 24),
        "height" => (i as f64 * 1.5).to_le_bytes().to_vec(),
        _ => "word ".repeat(i % 4).into_bytes(),
    };
    let made = fixtures::make_fields(image, &more, &value);
    let plan = || {
        let fields = ["text", "mask", "height"].map(str::to_owned).to_vec();
        let options = LoaderOptions {
            batch_size: 4,
            transform: Transform::Resize { width: 24, height: 24 },
            normalise: gular_runtime::Normalise::scaled().into(),
            fields,
            ..LoaderOptions::new(Split::Train)
        };
        LoaderPlan::new(Arc::clone(&made.bundle), options).unwrap()
    };
    for numbers in [Numbers::F32, Numbers::Stored] {
        for layout in [AxisOrder::Contiguous, AxisOrder::ChannelsLast] {
            let options = FeedOptions { numbers, layout, ..FeedOptions::default() };
            let mut feed = Feed::new(plan(), &Place::cpu(), options).unwrap();
            let mut n = 0;
            for batch in feed.epoch(0) {
                let batch = batch.unwrap();
                assert_eq!(batch.images.size(), [batch.len() as i64, 5, 24, 24]);
                for (row, id) in batch.sample_ids.iter().enumerate() {
                    let of = |field| value(*id as usize, field);
                    let expected: Vec<i32> = of("image")
                        .chunks(2)
                        .map(|b| i32::from(b[0]) + i32::from(b[1]) * 256)
                        .collect();
                    let expected =
                        Tensor::from_slice(&expected).view([24, 24, 5]).permute([2, 0, 1]);
                    let image = batch.images.get(row as i64);
                    match numbers {
                        Numbers::Stored => assert!(same(&image, &expected)),
                        _ => assert!(same(&image, &(expected.to_kind(Kind::Float) / 65_535.0))),
                    }
                    let mask = batch.fields["mask"].get(row as i64);
                    let expected: Vec<i32> = of("mask")
                        .chunks(2)
                        .map(|b| i32::from(b[0]) + i32::from(b[1]) * 256)
                        .collect();
                    assert!(same(&mask, &Tensor::from_slice(&expected).view([24, 24])));
                    let height = batch.fields["height"].double_value(&[row as i64]);
                    assert_eq!(height, *id as f64 * 1.5);
                    assert_eq!(batch.bytes["text"][row], of("text"));
                    n += 1;
                }
            }
            assert_eq!(n, 12);
        }
    }
}

#[test]
fn a_feed_goes_on_where_its_state_was_taken() {
    let made = make(&Recipe::default());
    let bundle = &made.bundle;
    let mut whole = feed(bundle, Numbers::Stored, AxisOrder::Contiguous);
    let all: Vec<_> = whole.epoch(0).map(Result::unwrap).collect();
    assert!(all.len() > 2, "a short epoch shows nothing");
    for stop in 0..all.len() {
        let mut first = feed(bundle, Numbers::Stored, AxisOrder::Contiguous);
        let taken = first.epoch(0).take(stop + 1).map(Result::unwrap).last().unwrap();
        assert_eq!((&taken.state, first.state()), (&all[stop].state, &all[stop].state));
        let mut second = feed(bundle, Numbers::Stored, AxisOrder::Contiguous);
        second.restore(&taken.state).unwrap();
        let rest: Vec<_> = second.epoch(0).map(Result::unwrap).collect();
        assert_eq!(rest.len(), all.len() - stop - 1);
        for (a, b) in rest.iter().zip(&all[stop + 1..]) {
            assert!(same(&a.images, &b.images) && a.sample_ids == b.sample_ids);
        }
    }
}

#[test]
fn nothing_ahead_is_refused() {
    let made = make(&Recipe::default());
    let bundle = &made.bundle;
    let options = FeedOptions { ahead: 0, ..FeedOptions::default() };
    let error = Feed::new(plan(bundle), &Place::cpu(), options).unwrap_err();
    assert!(matches!(error, Error::Option { option: "ahead", .. }), "{error}");
}

#[test]
fn without_a_gpu_auto_is_the_cpu_and_says_why() {
    let ranks = gular_runtime::Ranks::discover(None, &Default::default()).unwrap();
    match Compute::Cuda(None).open(&ranks) {
        Ok(gpu) => assert!(gpu.device().is_cuda()),
        Err(error) => {
            let place = Compute::Auto.open(&ranks).unwrap();
            assert_eq!(place.to_string(), format!("the CPU: {error}"));
        }
    }
    assert_eq!(Compute::Cpu.open(&ranks).unwrap().to_string(), "the CPU");
}
