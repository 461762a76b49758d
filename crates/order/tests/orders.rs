//! Each sample is delivered once per epoch, for any number of ranks.

use gular_order::pytorch::distributed_sampler;
use gular_order::{EpochOrder, OrderKind, OrderSpec};
use proptest::prelude::*;

/// Returns the samples that all ranks take from `from` on, step by step; also checks that the
/// numbers of steps are equal.
fn run(
    order: &EpochOrder,
    from: u64,
    steps: Option<u64>,
    batch: u64,
    world: u64,
    end: u64,
) -> (Vec<u64>, u64) {
    let mut taken = Vec::new();
    let mut position = from;
    let mut done = 0;
    while position < end && steps.is_none_or(|s| done < s) {
        let to = (position + batch * world).min(end);
        for rank in 0..world {
            let of_rank: Vec<u64> = order.rank_samples(position..to, rank, world).collect();
            assert!(of_rank.len() as u64 <= batch);
            taken.extend(of_rank);
        }
        position = to;
        done += 1;
    }
    (taken, position)
}

fn kinds() -> impl Strategy<Value = OrderKind> {
    prop_oneof![
        Just(OrderKind::Elastic),
        (1..6_u64).prop_map(|shards| OrderKind::Window { shards })
    ]
}

proptest! {
    #[test]
    fn each_sample_comes_once_for_any_world_size(
        kind in kinds(),
        shards in prop::collection::vec(0..40_u64, 0..9),
        seed in any::<u64>(), epoch in 0..1000_u64,
        batch in 1..9_u64, world in 1..7_u64, later in 1..7_u64, stop in 0..9_u64,
    ) {
        let n: u64 = shards.iter().sum();
        let spec = OrderSpec { kind, seed, drop_last: false };
        let order = EpochOrder::new(&spec, &shards, epoch, world);
        prop_assert_eq!(order.n_positions(), n);
        // Some steps are done with one world size, the rest with another.
        let (mut taken, position) = run(&order, 0, Some(stop), batch, world, n);
        let order = EpochOrder::new(&spec, &shards, epoch, later);
        taken.extend(run(&order, position, None, batch, later, n).0);
        taken.sort_unstable();
        prop_assert_eq!(taken, (0..n).collect::<Vec<_>>());
    }

    #[test]
    fn drop_last_leaves_only_full_batches(
        kind in kinds(), n in 0..200_u64, batch in 1..9_u64, world in 1..7_u64,
    ) {
        let spec = OrderSpec { kind, seed: 1, drop_last: true };
        let order = EpochOrder::new(&spec, &[n], 0, world);
        let end = n / (batch * world) * (batch * world);
        let mut taken = run(&order, 0, None, batch, world, end).0;
        taken.sort_unstable();
        taken.dedup();
        prop_assert_eq!(taken.len() as u64, end);
    }

    #[test]
    fn torch_order_deals_as_distributed_sampler(
        n in 1..300_u64, world in 1..9_u64, seed in any::<u32>(), epoch in 0..50_u64,
        shuffle in any::<bool>(), drop_last in any::<bool>(), batch in 1..7_u64,
    ) {
        let kind = OrderKind::Torch { shuffle };
        let spec = OrderSpec { kind, seed: seed.into(), drop_last };
        let order = EpochOrder::new(&spec, &[n], epoch, world);
        for rank in 0..world {
            let expected = distributed_sampler(n, (rank, world), seed.into(), epoch, shuffle, drop_last);
            let mut ours = Vec::new();
            let mut position = 0;
            while position < order.n_positions() {
                ours.extend(order.rank_samples(position..position + batch * world, rank, world));
                position += batch * world;
            }
            prop_assert_eq!(&ours, &expected);
        }
    }

    #[test]
    fn a_window_holds_the_samples_of_few_shards(
        shards in prop::collection::vec(1..40_u64, 1..12), w in 1..5_u64, seed in any::<u64>(),
    ) {
        let spec = OrderSpec { kind: OrderKind::Window { shards: w }, seed, drop_last: false };
        let order = EpochOrder::new(&spec, &shards, 0, 1);
        let shard_of = |sample: u64| {
            let mut end = 0;
            shards.iter().position(|s| { end += s; sample < end }).unwrap()
        };
        let visits: Vec<usize> = (0..order.n_positions()).map(|p| shard_of(order.sample_at(p).unwrap())).collect();
        // A shard left for good is never met again: between its first and last
        // visit at most w shards are met.
        for shard in 0..shards.len() {
            let first = visits.iter().position(|s| *s == shard).unwrap();
            let last = visits.iter().rposition(|s| *s == shard).unwrap();
            let mut met = visits[first..=last].to_vec();
            met.sort_unstable();
            met.dedup();
            prop_assert!(met.len() as u64 <= w);
        }
    }
}

#[test]
fn seeds_and_epochs_give_other_orders() {
    for kind in
        [OrderKind::Torch { shuffle: true }, OrderKind::Elastic, OrderKind::Window { shards: 2 }]
    {
        let order = |seed, epoch| {
            let spec = OrderSpec { kind, seed, drop_last: false };
            let order = EpochOrder::new(&spec, &[30, 30, 40], epoch, 1);
            (0..100).map(|p| order.sample_at(p).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(order(1, 1), order(1, 1));
        assert_ne!(order(1, 1), order(1, 2));
        assert_ne!(order(1, 1), order(7, 1));
    }
}

#[test]
fn an_empty_split_has_an_empty_order() {
    for kind in
        [OrderKind::Torch { shuffle: true }, OrderKind::Elastic, OrderKind::Window { shards: 2 }]
    {
        let order = EpochOrder::new(&OrderSpec { kind, seed: 0, drop_last: false }, &[], 0, 4);
        assert_eq!((order.n_positions(), order.sample_at(0)), (0, None));
    }
}
