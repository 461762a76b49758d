//! Measures how fast ranks sum their numbers: `all_reduce_rate HOST PORT RANK WORLD MIB TURNS`,
//! started once per rank.
//!
//! Rank 0 prints the seconds of each turn and the best rate: bytes of one rank's
//! numbers in a second, and the bytes that each rank sent and received in it.
#![expect(clippy::print_stdout, reason = "a program, not a library")]

use std::error::Error;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use gular_group::{Group, GroupOptions, Rendezvous, Seat};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, rank, world_size, mib, turns] = args.as_slice() else {
        return Err("expected HOST PORT RANK WORLD MIB TURNS".into());
    };
    let place = Rendezvous { host: host.clone(), port: port.parse()? };
    let (rank, world_size) = (rank.parse()?, world_size.parse()?);
    let options = GroupOptions::default();
    let group =
        Group::join(Seat { rank, world_size }, &place, "rate", &options, &AtomicBool::new(false))?;
    let len = mib.parse::<usize>()? << 18;
    let mut values = vec![1.0_f32; len];
    let mut best = f64::INFINITY;
    for _ in 0..turns.parse::<u32>()? {
        group.barrier()?;
        let begun = Instant::now();
        group.all_reduce(&mut values)?;
        let seconds = begun.elapsed().as_secs_f64();
        if rank == 0 {
            println!("{seconds:.4}");
        }
        best = best.min(seconds);
    }
    let mut nothing = [0.0_f32];
    let begun = Instant::now();
    for _ in 0..1000 {
        group.all_reduce(&mut nothing)?;
    }
    let micros = begun.elapsed().as_secs_f64() * 1e3;
    if rank == 0 {
        let rate = (len * 4) as f64 / best / 1e9;
        let wire = rate * 2.0 * (world_size - 1) as f64 / world_size as f64;
        println!("best {rate:.2} GB/s, {wire:.2} GB/s each way; one number {micros:.0} µs");
    }
    group.finish()?;
    Ok(())
}
