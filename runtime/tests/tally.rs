//! The proof that an epoch was delivered as its order says, with any number of ranks and kills.

use crate::fixtures::{Made, Recipe, make};
use gular_runtime::order::{EpochOrder, LoaderState, OrderKind, OrderSpec, Tally, Visit, term};
use gular_runtime::{
    Delivered, Error, FieldIdx, Loader, LoaderError, LoaderOptions, Split, Transform,
};

const N: u64 = 25;
const EPOCH: u64 = 3;
const KINDS: [OrderKind; 3] =
    [OrderKind::Torch { shuffle: true }, OrderKind::Elastic, OrderKind::Window { shards: 2 }];

fn options(kind: OrderKind, rank: u64, world_size: u64, batch_size: usize) -> LoaderOptions {
    LoaderOptions {
        batch_size,
        order: OrderSpec { kind, seed: 11, drop_last: false },
        rank,
        world_size,
        threads: 2,
        transform: Transform::eval(8),
        ..LoaderOptions::new(Split::Train)
    }
}

fn loader(made: &Made, options: LoaderOptions) -> Loader {
    Loader::new(made.bundle.clone(), options).unwrap()
}

/// The state of all ranks after `steps` steps from `from`; each rank is killed with some batches
/// made and not taken.
fn run(
    made: &Made,
    from: Option<&LoaderState>,
    options: impl Fn(u64) -> LoaderOptions,
    world_size: u64,
    steps: usize,
) -> LoaderState {
    let mut all: Option<LoaderState> = None;
    for rank in 0..world_size {
        let mut loader = loader(made, options(rank));
        if let Some(state) = from {
            loader.restore(state).unwrap();
        }
        let mut batches = loader.epoch(EPOCH);
        batches.by_ref().take(steps).for_each(|batch| drop(batch.unwrap()));
        // The state is stored as in a checkpoint.
        let text = serde_json::to_string(&batches.state()).unwrap();
        assert!(text.len() < 1000);
        let state: LoaderState = serde_json::from_str(&text).unwrap();
        match &mut all {
            None => all = Some(state),
            Some(all) => {
                assert_eq!((all.consumed, all.epoch), (state.consumed, state.epoch));
                all.tally.as_mut().unwrap().join(&state.tally.unwrap());
            }
        }
    }
    all.unwrap()
}

#[test]
fn eight_then_four_then_sixteen_ranks_with_kills_between_deliver_each_sample_once() {
    let made = make(&Recipe { train: &[70, 10, 120, 55], ..Recipe::default() });
    for kind in [OrderKind::Elastic, OrderKind::Window { shards: 2 }] {
        let ranks = |world_size, batch| move |rank| options(kind, rank, world_size, batch);
        let first = run(&made, None, ranks(8, 3), 8, 2);
        let second = run(&made, Some(&first), ranks(4, 5), 4, 3);
        // Killed, and done once more from the same checkpoint with other ranks.
        let again = run(&made, Some(&first), ranks(1, 60), 1, 1);
        assert_eq!((second.consumed, &second.tally), (again.consumed, &again.tally), "{kind:?}");
        let last = run(&made, Some(&second), ranks(16, 2), 16, usize::MAX);
        let here = loader(&made, options(kind, 0, 16, 2));
        for state in [&first, &second] {
            let delivered = here.check_delivered(state).unwrap();
            assert_eq!(delivered.positions, state.consumed);
        }
        let delivered = here.check_delivered(&last).unwrap();
        assert_eq!(delivered.to_string(), "255 samples, each once");
        let whole = run(&made, None, ranks(1, 7), 1, usize::MAX);
        assert_eq!(whole.tally, last.tally);
    }
}

#[test]
fn what_is_delivered_is_said_in_words() {
    let made = make(&Recipe::default());
    let check = |kind, world_size, drop_last, words: &str| {
        let ranks = |rank| {
            let mut options = options(kind, rank, world_size, 4);
            options.order.drop_last = drop_last;
            options
        };
        let state = run(&made, None, ranks, world_size, usize::MAX);
        let delivered = loader(&made, ranks(0)).check_delivered(&state).unwrap();
        assert_eq!(delivered.to_string(), words, "{kind:?}, {world_size} ranks");
    };
    for kind in KINDS {
        check(kind, 1, false, "25 samples, each once");
        check(kind, 1, true, "24 of 25 samples, each once");
    }
    check(OrderKind::Torch { shuffle: true }, 3, false, "25 samples, each once, and 2 again");
    check(OrderKind::Elastic, 3, false, "25 samples, each once");
    check(OrderKind::Elastic, 3, true, "24 of 25 samples, each once");
    let many = Delivered { positions: 1_281_167, samples: 1_281_167, broken: 0, drawn: false };
    assert_eq!(many.to_string(), "1,281,167 samples, each once");
}

#[test]
fn evaluation_pads_nothing_and_counts_each_sample_once_on_one_to_five_ranks() {
    let made = make(&Recipe { val: &[3, 9, 1], ..Recipe::default() });
    for world_size in 1..=5 {
        let ranks = |rank| LoaderOptions {
            split: Split::Val,
            ..options(OrderKind::Elastic, rank, world_size, 2)
        };
        let mut ids = Vec::new();
        let mut steps = Vec::new();
        for rank in 0..world_size {
            let mut loader = loader(&made, ranks(rank));
            let batches: Vec<_> = loader
                .epoch(EPOCH)
                .map(|batch| {
                    let batch = batch.unwrap();
                    assert_eq!(batch.labels().len(), batch.len());
                    batch.sample_ids().to_vec()
                })
                .collect();
            steps.push(batches.len());
            ids.extend(batches.into_iter().flatten());
        }
        assert!(steps.iter().all(|n| *n == steps[0]), "{steps:?}");
        ids.sort_unstable();
        assert_eq!(ids, (0..13).collect::<Vec<_>>(), "{world_size} ranks");
        let state = run(&made, None, ranks, world_size, usize::MAX);
        let delivered = loader(&made, ranks(0)).check_delivered(&state).unwrap();
        assert_eq!(delivered.to_string(), "13 samples, each once");
    }
}

/// Returns the key of the sample with this number.
fn key(i: u64) -> String {
    format!("train/{i:04}.img")
}

#[test]
fn a_sample_left_out_doubled_or_swapped_is_found_and_named() {
    let made = make(&Recipe::default());
    let kind = OrderKind::Elastic;
    let here = loader(&made, options(kind, 0, 1, 4));
    let spec = OrderSpec { kind, seed: 11, drop_last: false };
    let order = EpochOrder::new(&spec, &[7, 1, 12, 5], EPOCH, 1);
    let at = |position| order.sample_at(position).unwrap();
    let image = FieldIdx(0);
    let check = |delivered: &[(u64, u64)], words: &[&str]| {
        let mut tally = Tally::default();
        for (position, sample) in delivered {
            let id = made.bundle.locate(Split::Train, *sample).unwrap();
            let shard = made.bundle.shard(id.shard).unwrap();
            let digest = shard.digest(id.row, image).unwrap().unwrap();
            let visit = Visit { epoch: EPOCH, position: *position, sample: *sample };
            tally.add(term(visit, &digest), *position, N);
        }
        let state = LoaderState { epoch: EPOCH, consumed: N, tally: Some(tally), ..here.state() };
        match here.check_delivered(&state) {
            Ok(delivered) => assert!(words.is_empty(), "{delivered}"),
            Err(Error::Loader(error @ LoaderError::Delivered { .. })) => {
                let told = error.to_string();
                assert!(error.hint().is_some() && !words.is_empty(), "{told}");
                assert!(words.iter().all(|word| told.contains(word)), "{told}: {words:?}");
            }
            Err(error) => panic!("{error}"),
        }
    };
    let good: Vec<(u64, u64)> = (0..N).map(|position| (position, at(position))).collect();
    check(&good, &[]);
    for position in [0, 9, 24] {
        let place = position as usize;
        let here = format!("at position {position} of 25 ");
        let mut out = good.clone();
        out.remove(place);
        let due = key(at(position));
        check(&out, &[&here, &format!("sample `{due}` was left out")]);
        let mut twice = good.clone();
        twice.push(good[place]);
        check(&twice, &[&here, &format!("sample `{due}` was delivered twice")]);
        // A sample is delivered twice, once in the place of another.
        let mut other = good.clone();
        other[place].1 = at((position + 5) % N);
        let came = key(at((position + 5) % N));
        check(
            &other,
            &[&here, &format!("sample `{came}` was delivered instead of sample `{due}`")],
        );
    }
    let mut swapped = good.clone();
    (swapped[3].1, swapped[20].1) = (at(20), at(3));
    let (due, came) = (key(at(3)), key(at(20)));
    let words =
        format!("sample `{came}` was delivered instead of sample `{due}`, and another position");
    check(&swapped, &["at position 3 of 25 ", &words]);
    // The samples of one rank are missing.
    let lost: Vec<_> = good.iter().copied().filter(|(position, _)| position % 4 != 1).collect();
    check(&lost, &["more than 4 are wrong, the first between position 0 and 4"]);
}

#[test]
fn a_state_of_an_earlier_build_resumes_and_says_that_nobody_counted() {
    let made = make(&Recipe::default());
    let alone = |rank| options(OrderKind::Elastic, rank, 1, 4);
    let mut state = run(&made, None, alone, 1, 2);
    state.tally = None;
    let mut loader = loader(&made, alone(0));
    loader.restore(&state).unwrap();
    let mut batches = loader.epoch(EPOCH);
    assert_eq!(batches.by_ref().map(|batch| batch.unwrap().len()).sum::<usize>(), 17);
    let end = batches.state();
    drop(batches);
    let error = loader.check_delivered(&end).unwrap_err();
    assert!(matches!(error, Error::Loader(LoaderError::Uncounted { epoch: EPOCH })), "{error}");
    // The next epoch is counted again, also where such a state is of its start.
    loader.epoch(EPOCH + 1).for_each(|batch| drop(batch.unwrap()));
    assert_eq!(loader.check_delivered(&loader.state()).unwrap().positions, N);
    loader.restore(&LoaderState { consumed: 0, ..state }).unwrap();
    loader.epoch(EPOCH).for_each(|batch| drop(batch.unwrap()));
    assert_eq!(loader.check_delivered(&loader.state()).unwrap().positions, N);
}
