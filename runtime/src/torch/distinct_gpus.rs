//! Checks that no two ranks compute on the same GPU.

use gular_bundle::Digest;

use crate::Error;
use crate::group::Group;

/// Refuses ranks that have the same `what`, the name of a device among all machines. Every rank
/// calls it, and all get the same answer.
///
/// Ranks that are given as options and not by a launcher know no local rank, so that each
/// would take the first GPU of its machine; NCCL calls that an invalid usage, and no more.
pub(super) fn distinct_gpus(group: &Group, what: &str) -> Result<(), Error> {
    let digest = Digest::of(what.as_bytes());
    let mine = u64::from_str_radix(digest.hex().get(..16).unwrap_or_default(), 16).unwrap_or(0);
    let n = usize::try_from(group.world_size()).unwrap_or(usize::MAX);
    let rank = usize::try_from(group.rank()).unwrap_or(usize::MAX);
    let mut all = vec![0; n];
    all.iter_mut().skip(rank).take(1).for_each(|place| *place = mine);
    group.all_reduce(&mut all)?;
    let twice = all.iter().enumerate().find_map(|(second, device)| {
        let first = all.iter().take(second).position(|other| other == device)?;
        Some((first, second))
    });
    let Some((first, second)) = twice else { return Ok(()) };
    let reason = format!(
        "ranks {first} and {second} use the same GPU: start them with a launcher that sets local \
        ranks, or choose a GPU for each"
    );
    Err(Error::Option { option: "device", reason })
}

#[cfg(test)]
#[path = "../../../crates/group/tests/group/port.rs"]
mod port;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::group::{GroupOptions, Rendezvous, Seat};

    /// Checks the message for ranks with these devices.
    fn check(devices: [&'static str; 3], expected: Option<&str>) {
        let port = port::port();
        let ranks = (0_u64..).zip(devices).map(|(rank, device)| {
            thread::spawn(move || {
                let (seat, host) = (Seat { rank, world_size: 3 }, "127.0.0.1".into());
                let (place, options) = (Rendezvous { host, port }, GroupOptions::default());
                let never = AtomicBool::new(false);
                let group = Group::join(seat, &place, "", &options, &never).unwrap();
                let told = distinct_gpus(&group, device).err().map(|error| error.to_string());
                group.finish().unwrap();
                told
            })
        });
        for rank in ranks.collect::<Vec<_>>() {
            let told = rank.join().unwrap();
            assert_eq!(told.is_some(), expected.is_some(), "{told:?}");
            assert!(told.unwrap_or_default().contains(expected.unwrap_or_default()));
        }
    }

    #[test]
    fn ranks_on_the_same_gpu_are_named_on_all_of_them() {
        check(["a 1", "a 2", "b 1"], None);
        check(["a 1", "b 1", "a 1"], Some("ranks 0 and 2 use the same GPU"));
    }
}
