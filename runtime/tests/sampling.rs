//! Selected or drawn samples are the same on any number of ranks, and after a kill.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use crate::fixtures::{Made, Recipe, label, make};
use gular_bundle::{
    About, BundlePath, DATA_DIR, Dtype, Envelope, Field, FieldName, Manifest, Payload, ShardSpec,
    ShardWriter, write_manifest,
};
use gular_runtime::order::{LoaderState, OrderKind, OrderSpec, Weights};
use gular_runtime::{
    Digest, Draw, Error, FieldIdx, Fold, Loader, LoaderOptions, LoaderPlan, Predicate, Select,
    Split, Transform, UnknownLabels,
};

const N: u64 = 25;
const KINDS: [OrderKind; 3] =
    [OrderKind::Torch { shuffle: true }, OrderKind::Elastic, OrderKind::Window { shards: 2 }];

fn options() -> LoaderOptions {
    LoaderOptions {
        batch_size: 2,
        order: OrderSpec { kind: OrderKind::Elastic, seed: 5, drop_last: false },
        threads: 2,
        transform: Transform::train(8),
        ..LoaderOptions::new(Split::Train)
    }
}

fn selecting(select: Select) -> LoaderOptions {
    LoaderOptions { select, ..options() }
}

fn loader(made: &Made, options: LoaderOptions) -> Loader {
    Loader::new(made.bundle.clone(), options).unwrap()
}

/// The samples of an epoch, by position; pictures too.
fn epoch(loader: &mut Loader, epoch: u64) -> Vec<(u64, Vec<u8>)> {
    let mut rows = Vec::new();
    for batch in loader.epoch(epoch) {
        let batch = batch.unwrap();
        let images = batch.images().chunks(8 * 8 * 3).map(<[u8]>::to_vec);
        rows.extend(batch.sample_ids().iter().copied().zip(images));
    }
    assert!(loader.check_delivered(&loader.state()).is_ok());
    rows
}

fn ids(made: &Made, options: LoaderOptions) -> Vec<u64> {
    epoch(&mut loader(made, options), 0).into_iter().map(|(id, _)| id).collect()
}

fn sorted(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids
}

fn digest(made: &Made, sample: u64) -> Digest {
    let id = made.bundle.locate(Split::Train, sample).unwrap();
    made.bundle.shard(id.shard).unwrap().digest(id.row, FieldIdx(0)).unwrap().unwrap()
}

#[test]
fn samples_are_selected_by_key_label_number_and_digest() {
    let made = make(&Recipe::default());
    let check = |select: Select, expected: &[u64]| {
        for kind in KINDS {
            let order = OrderSpec { kind, ..options().order };
            let options = LoaderOptions { order, select: select.clone(), ..options() };
            let loader = loader(&made, options.clone());
            assert_eq!(loader.n_left_out(), N - expected.len() as u64);
            assert_eq!(loader.n_steps(), (expected.len() as u64).div_ceil(2));
            let plan = LoaderPlan::new(Arc::clone(&made.bundle), options.clone()).unwrap();
            assert_eq!(plan.n_steps(), loader.n_steps());
            assert_eq!(sorted(ids(&made, options)), expected, "{kind:?}");
        }
    };
    let only = |only: Predicate| Select { only: Some(only), ..Select::default() };
    let keys = ["train/0003.img", "train/0007.img", "train/0024.img", "nobody"];
    check(only(Predicate::keys(keys.map(String::from).into())), &[3, 7, 24]);
    let second: Vec<u64> = (0..N).filter(|i| label(*i as usize) == 1).collect();
    check(only(Predicate::new(|sample| sample.label == Some(1))), &second);
    check(only(Predicate::new(|sample| sample.number >= 20)), &[20, 21, 22, 23, 24]);
    let never: HashSet<Digest> = [0, 8, 24].map(|sample| digest(&made, sample)).into();
    let rest: Vec<u64> = (0..N).filter(|i| ![0, 8, 24].contains(i)).collect();
    let never = Select { never: Some(Arc::new(never)), ..Select::default() };
    check(never.clone(), &rest);
    let both = Select { only: Some(Predicate::new(|sample| sample.number % 8 == 0)), ..never };
    check(both, &[16]);
}

#[test]
fn folds_divide_a_split_and_hold_out_one_part() {
    let made = make(&Recipe::default());
    let fold = |number, held_out| {
        let fold = Some(Fold { of: 4, number, held_out, seed: 3 });
        sorted(ids(&made, selecting(Select { fold, ..Select::default() })))
    };
    let mut all = BTreeSet::new();
    for number in 0..4 {
        let (held, rest) = (fold(number, true), fold(number, false));
        assert!((6..=7).contains(&held.len()));
        assert!(held.iter().all(|id| all.insert(*id)), "in two folds");
        assert_eq!(sorted([held, rest].concat()), (0..N).collect::<Vec<_>>());
    }
    assert_eq!(all.len() as u64, N);
    let wrong = Some(Fold { of: 4, number: 4, held_out: true, seed: 3 });
    let wrong = selecting(Select { fold: wrong, ..Select::default() });
    let error = Loader::new(made.bundle.clone(), wrong).unwrap_err();
    assert_eq!(error.to_string(), "option `select`: fold 4 of 4, counted from 0");
}

/// The Python reader has these values: `folds(10, 3, 5)` and `selection([1, 5, 7])`.
#[test]
fn golden_folds_and_checksums_stay() {
    let made = make(&Recipe { train: &[4, 6], ..Recipe::default() });
    for (number, expected) in [(0, vec![0, 3, 5, 6]), (1, vec![4, 7, 8]), (2, vec![1, 2, 9])] {
        let fold = Some(Fold { of: 3, number, held_out: true, seed: 5 });
        let select = Select { fold, ..Select::default() };
        assert_eq!(sorted(ids(&made, selecting(select))), expected);
    }
    let only = Some(Predicate::new(|sample| [1, 5, 7].contains(&sample.number)));
    let state = loader(&made, selecting(Select { only, ..Select::default() })).state();
    assert_eq!((state.selection, state.left_out), (Some(5_267_654_460_873_892_068), 7));
}

/// Runs an epoch with kills on 1, 2, 3 ranks and compares it with one that nobody killed.
fn kills(made: &Made, options: &LoaderOptions) {
    let whole = epoch(&mut loader(made, options.clone()), 2);
    let mut rows: BTreeMap<u64, (u64, Vec<u8>)> = BTreeMap::new();
    let mut state: Option<LoaderState> = None;
    for (world_size, steps) in [(2, 2), (1, 3), (3, usize::MAX)] {
        let mut of_all: Option<LoaderState> = None;
        for rank in 0..world_size {
            let mut loader = loader(made, LoaderOptions { rank, world_size, ..options.clone() });
            if let Some(state) = &state {
                loader.restore(state).unwrap();
            }
            let from = loader.state().consumed;
            let mut batches = loader.epoch(2);
            for (step, batch) in batches.by_ref().take(steps).enumerate() {
                let batch = batch.unwrap();
                let images = batch.images().chunks(8 * 8 * 3).map(<[u8]>::to_vec);
                for (i, row) in (0..).zip(batch.sample_ids().iter().copied().zip(images)) {
                    rows.insert(from + (step as u64 * 2 + i) * world_size + rank, row);
                }
            }
            let state = batches.state();
            let text = serde_json::to_string(&state).unwrap();
            assert!(text.len() < 1000);
            match &mut of_all {
                None => of_all = Some(serde_json::from_str(&text).unwrap()),
                Some(all) => all.tally.as_mut().unwrap().join(&state.tally.unwrap()),
            }
        }
        state = of_all;
    }
    assert_eq!(rows.into_values().collect::<Vec<_>>(), whole);
    let rank = LoaderOptions { world_size: 3, ..options.clone() };
    assert!(loader(made, rank).check_delivered(&state.unwrap()).is_ok());
}

#[test]
fn what_is_selected_or_drawn_resumes_on_other_ranks_after_kills() {
    let made = make(&Recipe::default());
    let fold = Some(Fold { of: 5, number: 2, held_out: false, seed: 0 });
    let select = Select { fold, ..Select::default() };
    let weights = Weights::new((0..N as u32).map(|i| i * i % 7).collect());
    kills(&made, &selecting(select.clone()));
    for draw in [Draw::ByClass, Draw::ByWeight(weights)] {
        kills(&made, &LoaderOptions { draw: draw.clone(), ..options() });
        kills(&made, &LoaderOptions { draw, ..selecting(select.clone()) });
    }
}

/// The samples of the batches of an epoch, as long as there are some and `n` were not taken.
fn batches(loader: &mut Loader, n: usize) -> Vec<Vec<u64>> {
    loader.epoch(1).take(n).map(|batch| batch.unwrap().sample_ids().to_vec()).collect()
}

#[test]
fn epochs_of_full_batches_resume_wherever_they_are_killed() {
    let made = make(&Recipe::default());
    let weights = Weights::new((0..N as u32).map(|i| i * i % 7).collect());
    let draws = [Draw::EachOnce, Draw::ByClass, Draw::ByWeight(weights)];
    let cases = KINDS.map(|kind| (kind, Draw::EachOnce)).into_iter();
    for (kind, draw) in cases.chain(draws.map(|draw| (OrderKind::Elastic, draw))) {
        let order = OrderSpec { kind, drop_last: true, ..options().order };
        let options = LoaderOptions { batch_size: 4, order, draw, ..options() };
        let whole = batches(&mut loader(&made, options.clone()), usize::MAX);
        assert_eq!(whole.len(), 6);
        assert!(whole.iter().all(|batch| batch.len() == 4), "{whole:?}");
        for killed_after in 0..=6 {
            let mut first = loader(&made, options.clone());
            let mut found = batches(&mut first, killed_after);
            let text = serde_json::to_string(&first.state()).unwrap();
            drop(first);
            let mut second = loader(&made, options.clone());
            second.restore(&serde_json::from_str(&text).unwrap()).unwrap();
            found.extend(batches(&mut second, usize::MAX));
            assert_eq!(found, whole, "{options:?} killed after {killed_after}");
        }
    }
}

/// There are as many samples as weights, so that every part of the loader has them: a tenth of a
/// million, or ten millions (a minute and 2 GB of disk) with `GULAR_LONG_TESTS` set.
#[test]
fn long_lists_of_weights_resume_where_they_were_killed() {
    let is_long = std::env::var_os("GULAR_LONG_TESTS").is_some();
    let per_shard = if is_long { 1_000_000 } else { 10_000 };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join(DATA_DIR);
    std::fs::create_dir(&data).unwrap();
    let fields = vec![Field::fixed(FieldName::image(), Dtype::U8, vec![1, 1, 3])];
    let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
    let shard = |of: u32| {
        let mut writer = ShardWriter::create(&data, &spec).unwrap();
        for i in of * per_shard..(of + 1) * per_shard {
            let key = BundlePath::parse(&format!("{i:08}")).unwrap();
            writer.push(&key, &[&i.to_le_bytes()[..3]]).unwrap();
        }
        writer.finish().unwrap()
    };
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Raw,
        classes: Vec::new(),
        fields: fields.clone(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards: (0..10).map(shard).collect(),
    };
    write_manifest(dir.path(), &manifest).unwrap();
    let bundle = crate::fixtures::open(dir.path());
    let n = 10 * per_shard;
    // Half of the samples are never drawn.
    let weights = || Weights::new((0..n).map(|i| (i % 2) * (i % 1000)).collect());
    let options = |rank, world_size| LoaderOptions {
        batch_size: 64,
        transform: Transform::Resize { width: 1, height: 1 },
        draw: Draw::ByWeight(weights()),
        rank,
        world_size,
        ..options()
    };
    let new = |rank, world_size| Loader::new(bundle.clone(), options(rank, world_size)).unwrap();
    let mut undisturbed = new(0, 1);
    let whole = batches(&mut undisturbed, 20).concat();
    assert!(whole.iter().all(|id| id % 2 == 1) && whole.iter().any(|id| *id > u64::from(n) / 2));
    let mut first = new(0, 1);
    let mut found = batches(&mut first, 7).concat();
    let text = serde_json::to_string(&first.state()).unwrap();
    assert!(text.len() < 1000, "{} bytes: {text}", text.len());
    drop(first);
    // The remaining samples are delivered by two ranks.
    let of_rank = |rank| {
        let mut second = new(rank, 2);
        second.restore(&serde_json::from_str(&text).unwrap()).unwrap();
        batches(&mut second, 6).concat()
    };
    let (even, odd) = (of_rank(0), of_rank(1));
    found.extend(even.into_iter().zip(odd).flat_map(|(a, b)| [a, b]));
    assert_eq!(found, whole[..found.len()]);
    assert_eq!(found.len(), 19 * 64);
}

#[test]
fn ten_million_weights_resume_in_a_few_bytes() {
    let made = make(&Recipe::default());
    let ours = Weights::new((0..N as u32).map(|i| i % 3).collect());
    let draw =
        |weights: &Weights| LoaderOptions { draw: Draw::ByWeight(weights.clone()), ..options() };
    let ids = ids(&made, draw(&ours));
    assert!(ids.len() as u64 == N && ids.iter().all(|id| id % 3 > 0), "{ids:?}");
    let state = loader(&made, draw(&ours)).state();
    assert!(serde_json::to_string(&state).unwrap().len() < 500);
    // A different weight anywhere means a different training run.
    let mut other = ours.as_slice().to_vec();
    other[17] += 1;
    let error = loader(&made, draw(&Weights::new(other))).restore(&state).unwrap_err();
    assert!(
        error.to_string().starts_with("the state was saved with drawing by weights with checksum "),
        "{error}"
    );
    let few = Loader::new(made.bundle.clone(), draw(&Weights::new(vec![1; 24]))).unwrap_err();
    assert_eq!(few.to_string(), "option `draw`: 24 weights were given for 25 samples");
    let none = Loader::new(made.bundle.clone(), draw(&Weights::new(vec![0; 25]))).unwrap_err();
    assert_eq!(none.to_string(), "option `draw`: all weights are 0");
    // The checksum is all that a state has, of as many as there may be.
    let many = Weights::new((0..10_000_000).map(|i| i % 1000).collect());
    assert_ne!(
        many.checksum(),
        Weights::new((0..10_000_000).map(|i| i % 1001).collect()).checksum()
    );
}

#[test]
fn classes_come_as_often_as_each_other_and_a_repeated_sample_looks_other() {
    let unknown = [1, 4, 7, 10, 13, 16, 19];
    let made = make(&Recipe { unknown: &unknown, ..Recipe::default() });
    let options =
        LoaderOptions { draw: Draw::ByClass, unknown_labels: UnknownLabels::Ignore, ..options() };
    let mut drawn = loader(&made, options);
    let rows = epoch(&mut drawn, 0);
    assert_eq!(rows.len() as u64, N);
    let mut classes = [0; 3];
    rows.iter().for_each(|(id, _)| classes[label(*id as usize) as usize] += 1);
    // Class 1 has one sample of known class.
    assert!(classes.iter().all(|n| (8..=9).contains(n)), "{classes:?}");
    assert!(rows.iter().all(|(id, _)| !unknown.contains(&(*id as usize))));
    let looks: BTreeSet<_> = rows.iter().filter(|(id, _)| *id == 22).collect();
    assert!(looks.len() > 5, "{} looks of one sample", looks.len());
    let delivered = drawn.check_delivered(&drawn.state()).unwrap();
    assert_eq!(delivered.to_string(), "25 samples, each as drawn");
    let window = OrderSpec { kind: OrderKind::Window { shards: 2 }, ..drawn.options().order };
    let wrong = LoaderOptions { order: window, ..drawn.options().clone() };
    let error = Loader::new(made.bundle.clone(), wrong).unwrap_err();
    assert!(
        error.to_string().starts_with(
            "option `draw`: samples can be drawn by weight only in the order `elastic`"
        )
    );
}

#[test]
fn a_state_of_another_selection_is_refused() {
    let made = make(&Recipe::default());
    let fold = |number| {
        let fold = Some(Fold { of: 5, number, held_out: false, seed: 0 });
        loader(&made, selecting(Select { fold, ..Select::default() }))
    };
    let state = fold(1).state();
    assert!(fold(1).restore(&state).is_ok());
    // The other fold has as many samples, but different ones.
    let error = fold(2).restore(&state).unwrap_err();
    assert!(matches!(&error, Error::State(_)) && error.hint().is_some());
    let text = error.to_string();
    assert!(text.contains("with selection ") && !text.contains("Some"), "{text}");
    let error = loader(&made, options()).restore(&state).unwrap_err();
    assert!(error.to_string().contains("samples left out: 5"), "{error}");
}
