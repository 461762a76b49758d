//! Batches as tensors, on the processor; `gpu check` holds the same against a GPU.

#![cfg(feature = "torch")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixtures;

use std::sync::Arc;

use fixtures::{Recipe, make};
use gular_runtime::torch::{Compute, Feed, FeedOptions, Layout, Numbers, Place};
use gular_runtime::{Bundle, Error, Loader, LoaderOptions, Split, Transform};
use tch::{Kind, Tensor};

const SIDE: u32 = 24;

fn loader(bundle: &Arc<Bundle>) -> Loader {
    let options = LoaderOptions {
        batch_size: 4,
        transform: Transform::train(SIDE),
        ..LoaderOptions::new(Split::Train)
    };
    Loader::new(Arc::clone(bundle), options).unwrap()
}

fn feed(bundle: &Arc<Bundle>, numbers: Numbers, layout: Layout) -> Feed {
    let options = FeedOptions { numbers, layout, ..FeedOptions::default() };
    Feed::new(loader(bundle), &Place::cpu(), options).unwrap()
}

/// Whether two tensors hold the same bits.
fn same(a: &Tensor, b: &Tensor) -> bool {
    (a.kind(), a.size()) == (b.kind(), b.size()) && a.equal(b)
}

#[test]
fn every_kind_and_layout_holds_the_numbers_of_the_loader() {
    let made = make(&Recipe::default());
    let bundle = &made.bundle;
    let kinds = [Numbers::F32, Numbers::Bf16, Numbers::F16, Numbers::Bytes];
    for numbers in kinds {
        for layout in [Layout::Contiguous, Layout::ChannelsLast] {
            let mut plain = loader(bundle);
            let mut feed = feed(bundle, numbers, layout);
            let mut n = 0;
            for (batch, fed) in plain.epoch(1).zip(feed.epoch(1)) {
                let (batch, fed) = (batch.unwrap(), fed.unwrap());
                let side = i64::from(SIDE);
                let expected = if numbers == Numbers::Bytes {
                    let shape = [batch.len() as i64, side, side, 3];
                    let bytes = Tensor::from_data_size(batch.images(), &shape, Kind::Uint8);
                    bytes.permute([0, 3, 1, 2])
                } else {
                    let mut values = vec![0.0_f32; batch.images().len()];
                    batch.write_f32_nchw(&mut values).unwrap();
                    let shape = [batch.len() as i64, 3, side, side];
                    Tensor::from_slice(&values).view(shape).to_kind(numbers.kind())
                };
                assert!(same(&fed.images, &expected), "{numbers:?} {layout:?}");
                let stride = fed.images.stride();
                assert_eq!(stride[1] == 1, layout == Layout::ChannelsLast, "{stride:?}");
                assert_eq!(Vec::<i64>::try_from(&fed.labels).unwrap(), batch.labels());
                assert_eq!(fed.sample_ids, batch.sample_ids());
                n += 1;
            }
            assert_eq!(n, plain.n_steps());
        }
    }
}

#[test]
fn a_feed_goes_on_where_its_state_was_taken() {
    let made = make(&Recipe::default());
    let bundle = &made.bundle;
    let mut whole = feed(bundle, Numbers::Bytes, Layout::Contiguous);
    let all: Vec<_> = whole.epoch(0).map(Result::unwrap).collect();
    assert!(all.len() > 2, "a short epoch shows nothing");
    for stop in 0..all.len() {
        let mut first = feed(bundle, Numbers::Bytes, Layout::Contiguous);
        let taken = first.epoch(0).take(stop + 1).map(Result::unwrap).last().unwrap();
        assert_eq!((&taken.state, first.state()), (&all[stop].state, &all[stop].state));
        let mut second = feed(bundle, Numbers::Bytes, Layout::Contiguous);
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
    let error = Feed::new(loader(bundle), &Place::cpu(), options).unwrap_err();
    assert!(matches!(error, Error::Option { option: "ahead", .. }), "{error}");
}

#[test]
fn without_a_gpu_auto_is_the_processor_and_says_why() {
    let ranks = gular_runtime::Ranks::discover(None, &Default::default()).unwrap();
    match Compute::Cuda(None).open(&ranks) {
        Ok(gpu) => assert!(gpu.device().is_cuda()),
        Err(error) => {
            let place = Compute::Auto.open(&ranks).unwrap();
            assert_eq!(place.to_string(), format!("the processor: {error}"));
        }
    }
    assert_eq!(Compute::Cpu.open(&ranks).unwrap().to_string(), "the processor");
}
