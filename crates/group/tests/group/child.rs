//! What a rank does in its own process.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use gular_group::{Error, Group, GroupOptions, Rendezvous, Seat, Summable};

use crate::process::{LIMIT, say};

/// Runs one rank as `line` says.
pub(crate) fn run(line: &str) {
    let mut parts = line.splitn(8, '|');
    let mut next = || parts.next().expect("eight parts");
    let case = next();
    let mut number = || next().parse::<u64>().expect("a number");
    let (rank, world_size, port) = (number(), number(), number());
    let mut time = || Duration::from_millis(number());
    let options = GroupOptions {
        rendezvous_timeout: time(),
        operation_timeout: time(),
        lost_after: time(),
        broadcast_limit_bytes: 300_000,
        ..GroupOptions::default()
    };
    let stop = Arc::new(AtomicBool::new(false));
    let options = GroupOptions {
        stop: Some(Arc::clone(&stop)),
        stop_grace: Duration::from_secs(2),
        ..options
    };
    if matches!(case, "late" | "hang") && rank == 0 {
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(500));
            stop.store(true, Ordering::Relaxed);
        });
    }
    let about = next().replace('/', "\n");
    let here = Seat { rank, world_size };
    let place = Rendezvous { host: "127.0.0.1".into(), port: u16::try_from(port).expect("a port") };
    let cancel = Arc::new(AtomicBool::new(false));
    if case == "cancel" {
        let cancel = Arc::clone(&cancel);
        thread::spawn(move || {
            let _ = std::io::stdin().read_line(&mut String::new());
            cancel.store(true, Ordering::Relaxed);
        });
        say("waiting");
    }
    match Group::join(here, &place, &about, &options, &cancel).and_then(|group| act(case, group)) {
        Ok(()) => say("done"),
        Err(error) => say(error),
    }
}

fn act(case: &str, group: Group) -> Result<(), Error> {
    let rank = group.rank();
    match case {
        "meet" | "cancel" => {}
        "sums" => say(sums(&group)?),
        "drop" if rank == 1 => return group.all_reduce(&mut [1.0_f32; 100_000]),
        "loop" | "fail" | "drop" | "panic" => {
            let (note, told) = channel();
            group.on_failure(move |error| note.send(error.to_string()).expect("somebody listens"));
            let error = endless(case, &group);
            // The thread that watches calls it; it may do so a little later.
            assert_eq!(told.recv_timeout(LIMIT).as_deref(), Ok(error.to_string().as_str()));
            assert_eq!(group.check().unwrap_err().to_string(), error.to_string());
            assert_eq!(group.barrier().unwrap_err().to_string(), error.to_string());
            return Err(error);
        }
        "lengths" => group.all_reduce(&mut vec![1.0_f32; if rank == 1 { 5 } else { 4 }])?,
        "kinds" if rank == 2 => group.barrier()?,
        "kinds" => group.all_reduce(&mut [1_u64; 9])?,
        "limit" => group.broadcast(&mut vec![1; 300_001])?,
        "late" => {
            // The others wait, one of them asked to stop meanwhile.
            if rank == 1 {
                thread::sleep(Duration::from_millis(1500));
            }
            group.all_reduce(&mut [1.0_f64; 100])?;
        }
        "stall" | "hang" if rank == 1 => {
            while group.check().is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
            group.check()?;
        }
        "stall" | "hang" => group.all_reduce(&mut [1.0_f64; 100])?,
        other => panic!("no case `{other}`"),
    }
    group.finish()
}

/// Repeats all-reduce until the group ends, which one rank may cause.
fn endless(case: &str, group: &Group) -> Error {
    let mut values = vec![1.0_f32; 100_000];
    for turn in 0.. {
        if let Err(error) = group.all_reduce(&mut values) {
            return error;
        }
        match (turn, case, group.rank()) {
            (3, "fail", 1) => group.fail("no more memory"),
            (3, "panic", 1) => panic!("a bug"),
            (3, "loop", _) => say("running"),
            _ => {}
        }
    }
    unreachable!("the loop ends by an error")
}

/// Sums of awkward lengths, broadcasts, barriers; a digest of all bits.
fn sums(group: &Group) -> Result<String, Error> {
    let mut bits = String::new();
    for len in [0, 1, 2, 3, 4, 5, 7, 64, 1000, 65_537, 300_001] {
        add_up(group, len, |n| n as f32)?;
        add_up(group, len, |n| n as f64)?;
        add_up(group, len, |n| n as i32)?;
        add_up(group, len, |n| n as i64)?;
        add_up(group, len, |n| n)?;
        // Thirds are not floats, so here the order of adding shows.
        let thirds = |i: u64| (i as f32 + group.rank() as f32) / 3.0;
        let mut values: Vec<f32> = (0..len).map(thirds).collect();
        group.all_reduce(&mut values)?;
        let _ = write!(bits, "{:?}", values.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
    }
    for len in [0, 1, 299_999] {
        let mine = |rank: u64| -> Vec<u8> { (0..len).map(|i| (i * 7 + rank) as u8).collect() };
        let mut bytes = mine(group.rank());
        group.broadcast(&mut bytes)?;
        assert_eq!(bytes, mine(0));
        let mut bytes = mine(group.rank());
        group.broadcast_into(&mut bytes)?;
        assert_eq!(bytes, mine(0));
        group.barrier()?;
    }
    Ok(blake3::hash(bits.as_bytes()).to_hex().to_string())
}

/// Whole numbers, whose sums are exact in each type.
fn add_up<T: Summable + PartialEq + std::fmt::Debug>(
    group: &Group,
    len: u64,
    number: impl Fn(u64) -> T,
) -> Result<(), Error> {
    let mut values: Vec<T> = (0..len).map(|i| number(i % 1000 + group.rank())).collect();
    group.all_reduce(&mut values)?;
    let n = group.world_size();
    let sum = |i: u64| number((i % 1000) * n + n * (n - 1) / 2);
    assert_eq!(values, (0..len).map(sum).collect::<Vec<_>>());
    Ok(())
}
