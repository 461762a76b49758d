//! Prints the samples one rank takes in an epoch, as a JSON list:
//! `print_order torch|elastic|window:W SEED EPOCH RANK WORLD SHARD,SIZES`.
//! Peer tests compare it with other programs' orders.
#![expect(clippy::print_stdout, reason = "a program, not a library")]

use std::error::Error;

use gular_runtime::order::{EpochOrder, OrderKind, OrderSpec};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [order, seed, epoch, rank, world, sizes] = args.as_slice() else {
        return Err("expected ORDER SEED EPOCH RANK WORLD SIZES".into());
    };
    let kind = match order.split_once(':') {
        Some(("window", shards)) => OrderKind::Window { shards: shards.parse()? },
        _ if order == "elastic" => OrderKind::Elastic,
        _ if order == "torch" => OrderKind::Torch { shuffle: true },
        _ => return Err(format!("no order `{order}`").into()),
    };
    let sizes = sizes.split(',').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    let (rank, world) = (rank.parse()?, world.parse()?);
    let spec = OrderSpec { kind, seed: seed.parse()?, drop_last: false };
    let order = EpochOrder::new(&spec, &sizes, epoch.parse()?, world);
    let samples: Vec<String> =
        order.rank_samples(0..order.n_positions(), rank, world).map(|s| s.to_string()).collect();
    println!("[{}]", samples.join(","));
    Ok(())
}
