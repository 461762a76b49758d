//! A simulated fleet: nodes that read the same objects from the same caches, with the reader's own
//! decisions (`Passes`, `Servers`, `Routes`, `Retry`). Time is a value, there is no network, and the
//! same settings always give the same result. For benchmarks.
//!
//! ```text
//! nodes ─ lanes ─▶ director (names six caches, in an order of its own for each node)
//!           └────▶ caches (so many connections, equal shares of bytes/s) ─ misses ─▶ origin
//! ```
//!
//! A cache fetches an object once, when it is first asked for it, and sends its first byte when it
//! has all of it. A server that dies answers nothing from then on, and the director still names
//! it. Here no server is so slow that a client leaves it for a faster one.

mod host;
mod lanes;

use std::time::Duration;

/// The settings of a fleet.
#[derive(Debug, Clone)]
pub struct Fleet {
    /// How many nodes; each reads all objects, in the same order.
    pub nodes: usize,
    /// How many caches.
    pub caches: usize,
    /// How many objects.
    pub shards: usize,
    /// Blocks of 1 MiB in each object.
    pub blocks: u64,
    /// How many objects a node reads at the same time.
    pub lanes: usize,
    /// The time within which nodes start, at random moments; zero for all at once.
    pub starts_within: Duration,
    /// How many connections a cache takes; more are answered with 503.
    pub connections: usize,
    /// Bytes per second of each cache, and of the origin.
    pub bytes_per_second: u64,
    /// How many requests per second the director answers; more are answered with 429.
    pub director_per_second: u64,
    /// What is wrong.
    pub trouble: FleetTrouble,
    /// The seed of all that is random.
    pub seed: u64,
}

/// What is wrong with the first caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetTrouble {
    /// Nothing.
    None,
    /// So many die at this time.
    Die(usize, Duration),
    /// So many send another block than the right one, one of each object.
    Lie(usize),
}

/// What happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetTally {
    /// Seconds until the last node had everything.
    pub seconds: f64,
    /// Objects that were read, with the right bytes in every block.
    pub objects: u64,
    /// Objects that no server gave before patience ended.
    pub failed: u64,
    /// Requests to the director, of all nodes.
    pub director: u64,
    /// Requests to the director, of the node that sent most.
    pub director_of_one: u64,
    /// Requests of nodes to the origin, and bytes that it sent them.
    pub origin: (u64, u64),
    /// Requests to the origin, of the node that sent most.
    pub origin_of_one: u64,
    /// Requests of caches to the origin, and bytes that it sent them.
    pub misses: (u64, u64),
    /// Requests to caches that they took, and bytes that they sent.
    pub caches: (u64, u64),
    /// Requests that a cache answered with 503.
    pub busy: u64,
    /// Requests to a dead server.
    pub unanswered: u64,
    /// Blocks that were refused.
    pub wrong: u64,
    /// Answers that were slower than what a client leaves a cache for.
    pub slow: u64,
}

impl Fleet {
    /// A thousand nodes that start at once: ten caches of 10 Gbit/s, 20 objects of 128 MiB, four
    /// at a time.
    #[must_use]
    pub fn thousand() -> Self {
        Self {
            nodes: 1000,
            caches: 10,
            shards: 20,
            blocks: 128,
            lanes: 4,
            starts_within: Duration::ZERO,
            connections: 1000,
            bytes_per_second: 1_250_000_000,
            director_per_second: u64::MAX,
            trouble: FleetTrouble::None,
            seed: 0,
        }
    }

    /// Lets every node read every object.
    #[must_use]
    pub fn run(&self) -> FleetTally {
        lanes::Simulation::new(self).run()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A thousand nodes for a minute and a half.
    fn thousand() -> Fleet {
        Fleet { shards: 8, ..Fleet::thousand() }
    }

    /// Every node has the right bytes of everything, and the caches asked the origin at most once
    /// for each object.
    fn check(fleet: &Fleet) -> FleetTally {
        let tally = fleet.run();
        let objects = (fleet.nodes * fleet.shards) as u64;
        assert_eq!((tally.objects, tally.failed), (objects, 0), "{tally:?}");
        let copies = (fleet.caches * fleet.shards) as u64;
        assert!(tally.misses.0 <= copies, "{tally:?}");
        assert_eq!(tally.misses.1, tally.misses.0 * fleet.blocks * MIB, "{tally:?}");
        assert_eq!(tally.slow, 0, "{tally:?}");
        tally
    }

    #[test]
    fn all_at_once_ask_the_director_once_each_and_the_origin_never() {
        let fleet = thousand();
        let tally = check(&fleet);
        assert_eq!((tally.director, tally.director_of_one), (1000, 1));
        assert_eq!(tally.origin, (0, 0));
        assert_eq!(tally.caches, (8000, 8000 * 128 * MIB));
        assert_eq!(tally, fleet.run(), "the same again");
    }

    #[test]
    fn a_dead_cache_leads_no_node_to_the_origin() {
        let trouble = FleetTrouble::Die(1, Duration::from_secs(30));
        let tally = check(&Fleet { trouble, ..Fleet::thousand() });
        assert_eq!((tally.origin, tally.director_of_one), ((0, 0), 1));
        assert!(tally.unanswered > 0, "{tally:?}");
    }

    #[test]
    fn a_cache_that_lies_leads_no_node_to_the_origin() {
        let tally = check(&Fleet { trouble: FleetTrouble::Lie(1), ..thousand() });
        assert_eq!((tally.origin, tally.director_of_one), ((0, 0), 1));
        assert!(tally.wrong > 0 && tally.wrong <= 8000, "{tally:?}");
    }

    #[test]
    fn the_origin_gives_each_node_an_object_at_most_once_when_all_caches_lie() {
        let trouble = FleetTrouble::Lie(10);
        let fleet = Fleet { nodes: 20, shards: 4, trouble, ..thousand() };
        let tally = check(&fleet);
        // One block that shows that the origin is right, then the rest.
        assert!(tally.origin_of_one <= 2 * fleet.shards as u64, "{tally:?}");
        assert!(tally.origin.1 <= 20 * 4 * 128 * MIB, "{tally:?}");
    }

    #[test]
    fn caches_that_are_full_are_waited_for() {
        let fleet = Fleet { nodes: 300, caches: 3, connections: 64, ..Fleet::thousand() };
        let tally = check(&fleet);
        assert_eq!((tally.origin, tally.director_of_one), ((0, 0), 1));
        assert!(tally.busy > 0, "{tally:?}");
    }

    #[test]
    fn a_director_that_is_full_is_asked_again_at_other_times() {
        let fleet = Fleet { director_per_second: 100, ..thousand() };
        let tally = check(&fleet);
        assert_eq!(tally.origin, (0, 0));
        assert!(tally.director > 1000 && tally.director < 10_000, "{tally:?}");
    }
}
