//! Several bundles in one training run.

use std::collections::BTreeMap;

use crate::fixtures::{Made, Recipe, make};
use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::{Loader, LoaderOptions, Mix, MixState, Split, Transform};

const SIZES: [usize; 3] = [30, 11, 4];
const WEIGHTS: [u32; 3] = [2, 5, 1];

fn bundles() -> Vec<Made> {
    SIZES.iter().map(|n| make(&Recipe { train: &[*n], ..Recipe::default() })).collect()
}

fn mix(bundles: &[Made], rank: u64, world_size: u64, weights: [u32; 3]) -> Mix {
    let loader = |made: &Made| {
        let options = LoaderOptions {
            batch_size: 2,
            order: OrderSpec { kind: OrderKind::Elastic, seed: 3, drop_last: false },
            rank,
            world_size,
            threads: 1,
            transform: Transform::eval(8),
            ..LoaderOptions::new(Split::Train)
        };
        Loader::new(made.bundle.clone(), options).unwrap()
    };
    let loaders = bundles.iter().map(loader).zip(weights).collect();
    Mix::new(loaders, 9).unwrap()
}

/// Returns the loader that each of `n` steps takes, and the samples in order.
fn steps(mix: &mut Mix, n: usize) -> Vec<(usize, Vec<u64>)> {
    let batches = mix.by_ref().take(n).map(Result::unwrap);
    batches.map(|(source, batch)| (source, batch.sample_ids().to_vec())).collect()
}

#[test]
fn bundles_come_by_their_weights_and_each_sample_of_them_once_an_epoch() {
    let bundles = bundles();
    let n = 240;
    let mut mixed = mix(&bundles, 0, 1, WEIGHTS);
    let found = steps(&mut mixed, n);
    let mut of: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (source, ids) in &found {
        of.entry(*source).or_default().extend(ids);
    }
    for (source, (size, weight)) in SIZES.into_iter().zip(WEIGHTS).enumerate() {
        let count = found.iter().filter(|(of, _)| *of == source).count() as f64;
        let p = f64::from(weight) / 8.0;
        let deviation = (n as f64 * p * (1.0 - p)).sqrt();
        assert!((count - n as f64 * p).abs() < 4.0 * deviation, "{source}: {count}");
        for epoch in of[&source].chunks_exact(size) {
            let mut epoch = epoch.to_vec();
            epoch.sort_unstable();
            assert_eq!(epoch, (0..size as u64).collect::<Vec<_>>());
        }
    }
    // The Python reader has these values: `mixture([2, 5, 1], 9, 16)`.
    let first: Vec<usize> = found.iter().take(16).map(|(source, _)| *source).collect();
    assert_eq!(first, FIRST);
    let drawn: Vec<usize> =
        (0..16).map(|step| Mix::drawn(WEIGHTS.into_iter(), 9, step).unwrap()).collect();
    assert_eq!(drawn, FIRST);
    assert!(Mix::drawn([0, 0].into_iter(), 9, 0).is_err());
}

const FIRST: [usize; 16] = [1, 1, 1, 2, 1, 1, 0, 1, 1, 2, 1, 0, 1, 1, 0, 0];

#[test]
fn a_mix_resumes_anywhere_and_with_other_ranks() {
    let bundles = bundles();
    let whole = steps(&mut mix(&bundles, 0, 1, WEIGHTS), 40);
    for stop in [0, 1, 7, 23] {
        let mut first = mix(&bundles, 0, 1, WEIGHTS);
        steps(&mut first, stop);
        let text = serde_json::to_string(&first.state()).unwrap();
        let state: MixState = serde_json::from_str(&text).unwrap();
        let mut second = mix(&bundles, 0, 1, WEIGHTS);
        second.restore(&state).unwrap();
        assert_eq!(steps(&mut second, 40 - stop), whole[stop..], "stopped after {stop}");
        // Two ranks go on together: the same loader in each step, no sample twice.
        let mut ranks = [0, 1].map(|rank| mix(&bundles, rank, 2, WEIGHTS));
        let of_ranks: Vec<_> = ranks
            .iter_mut()
            .map(|mix| {
                mix.restore(&state).unwrap();
                steps(mix, 12)
            })
            .collect();
        for (a, b) in of_ranks[0].iter().zip(&of_ranks[1]) {
            assert_eq!(a.0, b.0);
            assert!(a.1.iter().all(|id| !b.1.contains(id)));
        }
    }
}

#[test]
fn a_mix_that_cannot_be_is_refused() {
    let bundles = bundles();
    let state = mix(&bundles, 0, 1, WEIGHTS).state();
    let error = mix(&bundles, 0, 1, [2, 5, 2]).restore(&state).unwrap_err();
    assert!(error.to_string().contains("weights [2, 5, 1], but this mix has 9 and [2, 5, 2]"));
    assert!(Mix::new(Vec::new(), 0).is_err());
}
