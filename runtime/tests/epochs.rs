//! What happens between epochs, and what happens to samples that cannot be decoded.

use std::thread;
use std::time::{Duration, Instant};

use crate::fixtures::{Made, Recipe, make};
use gular_runtime::order::{EpochOrder, OrderKind, OrderSpec};
use gular_runtime::{
    Batch, Error, Loader, LoaderError, LoaderOptions, OnBadSample, Split, Transform,
};

const N: u64 = 25;
const SHARDS: [u64; 4] = [7, 1, 12, 5];
const SIDE: u32 = 8;

type Copied = (Vec<u64>, Vec<i64>, Vec<u8>);

fn options(batch_size: usize) -> LoaderOptions {
    LoaderOptions {
        batch_size,
        order: OrderSpec { kind: OrderKind::Elastic, seed: 5, drop_last: false },
        threads: 2,
        slots: 3,
        transform: Transform::train(SIDE),
        ..LoaderOptions::new(Split::Train)
    }
}

fn loader(made: &Made, options: LoaderOptions) -> Loader {
    Loader::new(made.bundle.clone(), options).unwrap()
}

fn copied(batch: &Batch) -> Copied {
    (batch.sample_ids().to_vec(), batch.labels().to_vec(), batch.images().to_vec())
}

fn epoch(loader: &mut Loader, epoch: u64) -> Vec<Copied> {
    loader.epoch(epoch).map(|batch| copied(&batch.unwrap())).collect()
}

/// Whether more than `n` samples are made within the time.
fn makes_more_than(loader: &Loader, n: u64, patience: Duration) -> bool {
    let since = Instant::now();
    while loader.stats().samples <= n {
        if since.elapsed() > patience {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

#[test]
fn the_next_epoch_is_made_before_it_is_asked_for_and_is_the_same() {
    let made = make(&Recipe::default());
    let alone = LoaderOptions { across_epochs: false, ..options(4) };
    let mut plain = loader(&made, alone);
    let expected: Vec<_> = (0..4).map(|e| epoch(&mut plain, e)).collect();
    assert_eq!(plain.stats().samples, 4 * N);
    let mut ahead = loader(&made, LoaderOptions { n_epochs: Some(4), ..options(4) });
    for e in 0..3 {
        assert_eq!(epoch(&mut ahead, e), expected[e as usize]);
        let slots = 3 * 4;
        assert!(makes_more_than(&ahead, (e + 1) * N + slots - 1, Duration::from_secs(60)));
        assert_eq!(ahead.stats().samples, (e + 1) * N + slots, "as many as fit, once each");
    }
    assert_eq!(epoch(&mut ahead, 3), expected[3]);
    // No further epoch is made ahead.
    assert!(!makes_more_than(&ahead, 4 * N, Duration::from_millis(200)));
    // An epoch that was not asked for is dropped.
    assert_eq!(epoch(&mut ahead, 1), expected[1]);
    assert_eq!(epoch(&mut ahead, 0), expected[0]);
    // If an epoch is repeated, it is made ahead once more.
    let before = (epoch(&mut ahead, 0), ahead.stats().samples).1;
    assert!(makes_more_than(&ahead, before, Duration::from_secs(60)) || before > 7 * N);
    assert_eq!(epoch(&mut ahead, 0), expected[0]);
    assert_eq!(ahead.check_delivered(&ahead.state()).unwrap().positions, N);
}

#[test]
fn a_state_between_epochs_has_nothing_of_the_one_made_ahead() {
    let made = make(&Recipe::default());
    let mut first = loader(&made, options(4));
    epoch(&mut first, 0);
    assert!(makes_more_than(&first, N, Duration::from_secs(60)));
    let state = first.state();
    assert_eq!((state.epoch, state.consumed), (0, N));
    let mut second = loader(&made, options(4));
    second.restore(&state).unwrap();
    assert_eq!(epoch(&mut second, 0), []);
    assert_eq!(epoch(&mut second, 1), epoch(&mut first, 1));
    // Gone back to the middle of an epoch while the next one is being made.
    let mut batches = first.epoch(2);
    let head: Vec<_> = batches.by_ref().take(2).map(|b| copied(&b.unwrap())).collect();
    let middle = batches.state();
    let tail: Vec<_> = batches.by_ref().map(|b| copied(&b.unwrap())).collect();
    drop(batches);
    first.restore(&middle).unwrap();
    assert_eq!(epoch(&mut first, 2), tail);
    assert_eq!(epoch(&mut second, 2), [head, tail].concat());
}

#[test]
fn an_epoch_without_a_loan_is_the_same_and_may_move_between_threads() {
    let made = make(&Recipe::default());
    let mut lent = loader(&made, options(4));
    let mut owned = loader(&made, options(4));
    assert!(owned.next_batch().is_none(), "none was begun");
    let expected = [epoch(&mut lent, 0), epoch(&mut lent, 1)];
    let found = thread::spawn(move || {
        let mut found = Vec::new();
        for e in 0..2 {
            owned.begin(e);
            assert_eq!(owned.n_steps_left(), 7);
            let mut batches = Vec::new();
            while let Some(batch) = owned.next_batch() {
                batches.push(copied(&batch.unwrap()));
            }
            assert!(owned.next_batch().is_none() && owned.n_steps_left() == 0);
            found.push(batches);
        }
        // The epoch is left before its end.
        owned.begin(0);
        owned.next_batch().unwrap().unwrap();
        owned.leave();
        assert!(owned.next_batch().is_none());
        assert_eq!(epoch(&mut owned, 1), found[1]);
        found
    });
    assert_eq!(found.join().unwrap(), expected);
}

#[test]
fn a_stream_is_one_epoch_after_the_other_and_resumes_anywhere() {
    let made = make(&Recipe::default());
    let mut plain = loader(&made, options(4));
    let expected: Vec<_> = (3..6).flat_map(|e| epoch(&mut plain, e)).collect();
    let mut endless = loader(&made, options(4));
    let found: Vec<_> = endless.stream(3).take(21).map(|b| copied(&b.unwrap())).collect();
    assert_eq!(found, expected);
    for stop in [0, 3, 7, 10, 14, 20] {
        let mut first = loader(&made, options(4));
        let mut stream = first.stream(3);
        stream.by_ref().take(stop).for_each(|batch| drop(batch.unwrap()));
        let state = stream.state();
        let mut second = loader(&made, options(4));
        second.restore(&state).unwrap();
        let rest: Vec<_> =
            second.stream(state.epoch).take(21 - stop).map(|b| copied(&b.unwrap())).collect();
        assert_eq!(rest, expected[stop..], "stopped after {stop}");
    }
    let nothing = LoaderOptions { batch_size: 26, ..options(4) };
    let order = OrderSpec { drop_last: true, ..nothing.order };
    assert!(loader(&made, LoaderOptions { order, ..nothing }).stream(0).next().is_none());
}

#[test]
fn a_broken_sample_is_replaced_by_that_of_the_next_position_on_every_rank() {
    let broken = [3, 4, 9, 20];
    let replace: Vec<_> = broken.iter().map(|i| (*i as usize, b"a text".to_vec())).collect();
    let made = make(&Recipe { replace: &replace, ..Recipe::default() });
    let spec = options(1).order;
    let order = EpochOrder::new(&spec, &SHARDS, 2, 1);
    let at = |position: u64| order.sample_at(position % N).unwrap();
    // The rule is that of FORMAT.md.
    let rule = |position: u64| {
        (position..position + N).map(at).find(|sample| !broken.contains(sample)).unwrap()
    };
    let mut whole = None;
    for world_size in [1, 2, 3] {
        let mut rows: Vec<Option<(u64, Vec<u8>)>> = vec![None; N as usize];
        for rank in 0..world_size {
            let on_error = OnBadSample::Replace;
            let options = LoaderOptions { on_error, rank, world_size, ..options(4) };
            let mut loader = loader(&made, options);
            let mut named = Vec::new();
            let mut steps = 0;
            for batch in loader.epoch(2) {
                let batch = batch.unwrap();
                let images = batch.images().chunks((SIDE * SIDE * 3) as usize);
                for (i, (id, image)) in batch.sample_ids().iter().zip(images).enumerate() {
                    let position = (steps * 4 + i as u64) * world_size + rank;
                    rows[position as usize] = Some((*id, image.to_vec()));
                }
                named.extend(batch.skipped().iter().map(ToString::to_string));
                steps += 1;
            }
            assert_eq!(steps, N.div_ceil(4 * world_size));
            let positions = (0..N).skip(rank as usize).step_by(world_size as usize);
            let due: Vec<_> = positions.map(at).filter(|sample| broken.contains(sample)).collect();
            assert_eq!(named.len(), due.len());
            for (told, sample) in named.iter().zip(&due) {
                assert!(
                    told.starts_with(&format!("cannot decode sample `train/{sample:04}.img`")),
                    "{told}"
                );
            }
            if world_size == 1 {
                let delivered = loader.check_delivered(&loader.state()).unwrap();
                assert_eq!(delivered.to_string(), "25 samples, each once, 4 of them broken");
            }
        }
        let rows: Vec<_> = rows.into_iter().map(Option::unwrap).collect();
        for (position, (id, _)) in rows.iter().enumerate() {
            assert_eq!(*id, rule(position as u64), "position {position}");
        }
        // A sample that replaces another is not augmented in the same way as at its own position.
        let twice = (0..N).find(|p| rule(*p) == at(p + 1) && at(*p) != rule(*p)).unwrap() as usize;
        assert_ne!(rows[twice].1, rows[(twice + 1) % N as usize].1);
        assert_eq!(whole.get_or_insert_with(|| rows.clone()), &rows, "{world_size} ranks");
    }
}

#[test]
fn where_nothing_can_be_decoded_the_error_names_the_sample_that_was_due() {
    let replace: Vec<_> = (0..N as usize).map(|i| (i, b"a text".to_vec())).collect();
    let made = make(&Recipe { replace: &replace, ..Recipe::default() });
    let options = LoaderOptions { on_error: OnBadSample::Replace, ..options(4) };
    let first = EpochOrder::new(&options.order, &SHARDS, 0, 1).sample_at(0).unwrap();
    let mut loader = loader(&made, options);
    let error = loader.epoch(0).find_map(Result::err).unwrap();
    assert!(matches!(&error, Error::Loader(LoaderError::Decode { .. })));
    assert!(
        error.to_string().starts_with(&format!("cannot decode sample `train/{first:04}.img`")),
        "{error}"
    );
}
