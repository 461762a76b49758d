//! The rows: which loaders are compared, what is measured, and which targets must be reached.

/// One comparison.
pub(crate) struct Row {
    /// The row's name, for `--only` and in the record.
    pub(crate) name: &'static str,
    /// The measurement, as a sentence for readers of the record.
    pub(crate) title: &'static str,
    pub(crate) measure: Measure,
    /// Seconds of a turn; a contestant that makes whole epochs takes as long as they do.
    pub(crate) seconds: f64,
    /// Whether the page cache drops the files before each turn.
    pub(crate) is_cold: bool,
    pub(crate) ours: Vec<Ours>,
    /// The peers, each with the library that decodes.
    pub(crate) peers: &'static [(&'static str, &'static str)],
    /// The kind of a peer's turn.
    pub(crate) mode: &'static str,
    pub(crate) targets: Vec<Target>,
    /// Contestants that this run has no means for, and why.
    pub(crate) left_out: Vec<(&'static str, &'static str)>,
    /// The contestants that are in this row, where several rows share a process; empty for all.
    only: &'static [&'static str],
    /// Contestants of ours that are a bound and not the loader.
    bounds: &'static [&'static str],
    /// Turns of our contestants in a round, to estimate the time left.
    turns: usize,
}

/// The figure of a turn that is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Measure {
    /// Samples per second: more is better.
    Rate,
    /// A member of the answer, in this unit: less is better.
    Less { member: &'static str, unit: &'static str },
}

/// A process of ours: `loader_rates WHAT` on what [`Needs`] says.
#[derive(Clone, Copy)]
pub(crate) struct Ours {
    pub(crate) what: &'static str,
    /// The contestant's name, if the process has only one.
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    /// Whether each read of the process waits a millisecond.
    pub(crate) is_late: bool,
}

/// The data that a process of ours reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// The images in one shard.
    Images,
    /// The images in 64 shards.
    Shards64,
    /// Images that are encoded again, as FFCV does.
    Reencoded,
    /// Images as pixels, and a folder for the same pixels by hand.
    Raw,
    /// The images in one shard, and as pixels.
    ImagesAndRaw,
    /// The images in 64 shards, on a server.
    Served,
    /// The images in every envelope.
    Envelopes,
    /// Folders that it fills itself, and a back end.
    Many(&'static str),
}

/// The value that a contestant should reach.
pub(crate) struct Target {
    pub(crate) ours: String,
    pub(crate) against: Against,
    pub(crate) bound: Bound,
}

pub(crate) enum Against {
    /// The value itself is compared.
    Nothing,
    Contestant(String),
    /// The contestant's rate, multiplied by the number of cores.
    TimesCores(&'static str),
    /// The rate of the fastest peer.
    BestPeer,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Row {
    /// Whether the row has this contestant of one of our processes.
    pub(crate) fn takes(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.contains(&name)
    }

    /// Whether this contestant of one of our processes is the loader, and not a bound.
    pub(crate) fn is_ours(&self, name: &str) -> bool {
        !self.bounds.iter().any(|bound| name.starts_with(bound))
    }

    /// Estimated seconds of a round.
    pub(crate) fn planned(&self, peers: bool) -> f64 {
        let peers = if peers { self.peers.len() } else { 0 };
        (self.turns + peers) as f64 * (self.seconds * 1.25 + 0.1)
    }
}

/// A peer's name, with the library that decodes if there is a choice.
pub(crate) fn peer_name(peer: &str, stack: &str) -> String {
    if stack == "own" { peer.to_owned() } else { format!("{peer}, {stack}") }
}

const WARM: &str = "warm";

/// Every peer that hands out the files' own bytes; the first is what most people run.
const ALL_PEERS: &[(&str, &str)] = &[
    ("files", "pillow"),
    ("files", "torchvision"),
    ("files", "turbo"),
    ("webdataset", "turbo"),
    ("datasets", "turbo"),
    ("streaming", "turbo"),
    ("litdata", "turbo"),
    ("litdata-raw", "turbo"),
    ("lancedb", "turbo"),
    ("grain", "turbo"),
    ("gular-python", "turbo"),
];

/// The peer that is ours: the wheel's loader, in Python.
pub(crate) const WHEEL: &str = "gular-wheel";
/// How the names of those begin that call a function of Python with each sample.
pub(crate) const EACH: &str = "gular-each";

/// PyTorch's loader with each decoder, beside the wheel's.
const WHEEL_PEERS: &[(&str, &str)] =
    &[(WHEEL, "own"), ("files", "pillow"), ("files", "torchvision"), ("files", "turbo")];

/// Peers that start a new process for each turn; those that are slow with warm files are left out.
const COLD_PEERS: &[(&str, &str)] = &[
    ("files", "turbo"),
    ("webdataset", "turbo"),
    ("datasets", "turbo"),
    ("streaming", "turbo"),
    ("litdata", "turbo"),
    ("lancedb", "turbo"),
];

/// Rows of which each turn begins with a new process.
const SLOW_TO_START: [(&str, &str); 2] = [
    ("grain, turbo", "each of its worker processes starts Python again and imports for seconds"),
    ("ffcv", "it compiles for seconds in each new process"),
];

const fn ours(what: &'static str, name: &'static str, needs: Needs) -> Ours {
    Ours { what, name, needs, is_late: false }
}

fn target(ours: &str, against: Against, bound: Bound) -> Target {
    Target { ours: ours.to_owned(), against, bound }
}

/// Returns all rows, in the order of the record.
pub(crate) fn all(seconds: f64) -> Vec<Row> {
    use Against::{BestPeer, Contestant, Nothing, TimesCores};
    use Bound::{AtLeast, AtMost};
    let row = |name, title, list: &[Ours], turns| Row {
        name,
        title,
        measure: Measure::Rate,
        seconds,
        is_cold: false,
        ours: list.to_vec(),
        peers: &[],
        mode: WARM,
        targets: Vec::new(),
        left_out: Vec::new(),
        only: &[],
        bounds: &[],
        turns,
    };
    let against = |name: &str| Contestant(name.to_owned());
    vec![
        Row {
            peers: ALL_PEERS,
            bounds: &["decode"],
            targets: vec![
                target("gular", TimesCores("decode and resize, 1 thread"), AtLeast(0.92)),
                target("gular", BestPeer, AtLeast(1.3)),
            ],
            ..row(
                "jpeg",
                "JPEG to random crops of 224 pixels, mirrored at times, as normalised f32 batches \
                 of 64, warm",
                &[ours("pictures", "gular", Needs::Images)],
                3,
            )
        },
        Row {
            peers: WHEEL_PEERS,
            bounds: &["the Rust loader"],
            targets: vec![
                target(WHEEL, against("the Rust loader"), AtLeast(0.95)),
                target(WHEEL, BestPeer, AtLeast(1.3)),
            ],
            ..row(
                "wheel",
                "JPEG to the batches of `jpeg` as PyTorch tensors, by the wheel that \
                 `cargo xtask dist` makes; by the Rust loader, and by PyTorch's over files",
                &[ours("feed", "the Rust loader", Needs::Images)],
                1,
            )
        },
        Row {
            peers: &[("gular-each-nothing", "own"), (WHEEL, "own")],
            bounds: &[WHEEL],
            targets: vec![target("gular-each-nothing", against(WHEEL), AtLeast(0.85))],
            ..row(
                "each-nothing",
                "The batches of `wheel` with a function of Python for each sample that does \
                 nothing, and without",
                &[],
                0,
            )
        },
        Row {
            peers: &[("gular-each-colour", "own"), ("files", "albumentations")],
            targets: vec![target("gular-each-colour", BestPeer, AtLeast(1.5))],
            ..row(
                "each-colour",
                "Crops by the loader and colours by albumentations as its function for each \
                 sample; all by albumentations in PyTorch's loader",
                &[],
                0,
            )
        },
        Row {
            peers: &[("gular-each-whole", "own"), ("files", "albumentations")],
            targets: vec![target("gular-each-whole", BestPeer, AtLeast(1.1))],
            ..row(
                "each-whole",
                "Crops and colours of whole pictures, by albumentations as the loader's function \
                 for each sample, and in PyTorch's loader",
                &[],
                0,
            )
        },
        Row {
            peers: &[("ffcv", "own")],
            targets: vec![target("gular", BestPeer, AtLeast(1.3))],
            ..row(
                "jpeg-ffcv",
                "The same crops of images encoded again at quality 90, as FFCV stores them",
                &[ours("feed", "gular", Needs::Reencoded)],
                1,
            )
        },
        Row {
            peers: &[("datago", "own")],
            ..row(
                "centre",
                "JPEG to the middle square at 224 pixels as normalised f32 batches of 64: Datago \
                 crops nothing at random, so neither do we here",
                &[ours("centre", "gular", Needs::Images)],
                1,
            )
        },
        Row {
            seconds: seconds / 2.0,
            only: &["gular, f32, map", "gular, f32, pread", "memory map by hand", "ffcv-raw"],
            peers: &[("ffcv-raw", "own")],
            bounds: &["memory"],
            targets: vec![
                target("gular, f32, map", against("memory map by hand"), AtLeast(1.0)),
                target("gular, f32, map", BestPeer, AtLeast(2.0)),
            ],
            ..row(
                "raw-f32",
                "Pixels of 256 by 256 as normalised f32 batches; by hand with 2 torch threads. FFCV's \
                 lie pixel by pixel in memory, as it makes them unless told otherwise",
                &[ours("raw", "gular", Needs::Raw)],
                3,
            )
        },
        Row {
            seconds: seconds / 2.0,
            only: &[
                "gular, u8, map",
                "bare loop, u8, map",
                "gular, u8, pread",
                "bare loop, u8, pread",
            ],
            bounds: &["bare"],
            targets: vec![
                target("gular, u8, map", against("bare loop, u8, map"), AtLeast(0.85)),
                target("gular, u8, pread", against("bare loop, u8, pread"), AtLeast(0.85)),
            ],
            ..row(
                "raw-u8",
                "Pixels of 256 by 256 as u8 batches; the loops read the same rows on all cores",
                &[ours("raw", "gular", Needs::Raw)],
                4,
            )
        },
        Row {
            bounds: &["one"],
            targets: vec![
                target("2,000 shards, pread", against("one shard, pread"), AtLeast(0.9)),
                target("2,000 shards, map", against("one shard, map"), AtLeast(0.9)),
            ],
            ..row(
                "shards",
                "A million images of 64 pixels, shuffled: 2,000 shards of 500, and one shard",
                &[ours("shards", "shards", Needs::Many(""))],
                4,
            )
        },
        Row {
            seconds: 1.0,
            measure: Measure::Less { member: "mib", unit: "MiB" },
            targets: vec![
                target("pread", Nothing, AtMost(64.0)),
                target("map", Nothing, AtMost(64.0)),
            ],
            ..row(
                "memory",
                "Memory of the loader over 2,000 shards that is neither a batch nor a map",
                &[
                    ours("memory", "pread", Needs::Many("pread")),
                    ours("memory", "map", Needs::Many("map")),
                ],
                2,
            )
        },
        Row {
            seconds: 0.3,
            measure: Measure::Less { member: "ms", unit: "ms" },
            mode: "first",
            peers: COLD_PEERS,
            left_out: SLOW_TO_START.into(),
            targets: vec![target("gular", Nothing, AtMost(50.0))],
            ..row(
                "first-batch",
                "From opening to the first batch of 64 random crops, warm; ours from 64 shards",
                &[ours("first", "gular", Needs::Shards64)],
                1,
            )
        },
        Row {
            seconds: 0.3,
            measure: Measure::Less { member: "ms", unit: "ms" },
            bounds: &["the window"],
            targets: vec![target("first step", against("the window alone"), AtMost(2.0))],
            ..row(
                "stream",
                "From the URL of a bundle in 64 shards, whose cache is empty, to the first batch of \
                 64 random crops by windows of 16 shards, and from an open bundle to the shards of a \
                 window; a federation on this machine",
                &[ours("stream", "stream", Needs::Served)],
                2,
            )
        },
        Row {
            seconds: seconds / 2.0,
            measure: Measure::Less { member: "thread_us_per_batch", unit: "µs" },
            targets: ["1 worker", "2 workers", "4 workers"]
                .map(|name| target(name, Nothing, AtMost(100.0)))
                .into(),
            ..row(
                "thread",
                "CPU time of the training's thread for each batch of 64 that it takes and drops",
                &[ours("thread", "gular", Needs::Images)],
                3,
            )
        },
        Row {
            seconds: seconds / 2.0,
            measure: Measure::Less { member: "ns_per_sample", unit: "ns" },
            bounds: &["a photograph", "raw"],
            targets: vec![
                target("the tally", against("a photograph"), AtMost(0.01)),
                target("the tally", against("raw pixels"), AtMost(0.01)),
            ],
            ..row(
                "tally",
                "CPU time per sample of the proof that each came once, and of making the sample",
                &[ours("tally", "tally", Needs::ImagesAndRaw)],
                3,
            )
        },
        Row {
            seconds: 0.1,
            bounds: &["read"],
            targets: passes(),
            ..row(
                "passes",
                "One thread over all samples in random order: a first pass, which compares \
                 digests, beside a loop that reads and hashes; a later one beside a loop that \
                 reads every byte",
                &[ours("passes", "passes", Needs::Envelopes)],
                48,
            )
        },
        Row {
            seconds: 3.5,
            bounds: &["without"],
            targets: vec![target(
                "10 epochs of 640 images",
                against("without borders"),
                AtLeast(0.98),
            )],
            ..row(
                "epochs",
                "Ten epochs of 640 images, and as many drawn from the same images in one",
                &[ours("epochs", "gular", Needs::Images)],
                2,
            )
        },
        Row {
            seconds: 5.0,
            bounds: &["turbo", "full"],
            targets: large(),
            ..row(
                "large",
                "Mosaics of 4, 12 and 48 megapixels to 224 pixels on one thread, the whole and the \
                 middle, beside libjpeg-turbo's own scaled decode and the resizer by hand; `full` \
                 decodes every pixel",
                &[],
                1,
            )
        },
        Row {
            seconds: 3.0,
            is_cold: true,
            mode: "epoch",
            peers: COLD_PEERS,
            left_out: SLOW_TO_START.into(),
            targets: vec![target("gular", BestPeer, AtLeast(1.2))],
            ..row(
                "cold",
                "A whole shuffled epoch of random crops from files that are not in memory, from \
                 opening them on, threads and processes included",
                &[ours("whole", "gular", Needs::Images)],
                2,
            )
        },
        Row {
            targets: vec![target("1 ms late", against("local"), AtLeast(0.9))],
            bounds: &["local"],
            ..row(
                "latency",
                "Random crops where each read of a sample waits a millisecond, as from a server, \
                 and where none does",
                &[
                    ours("feed", "local", Needs::Images),
                    Ours { is_late: true, ..ours("feed", "1 ms late", Needs::Images) },
                ],
                2,
            )
        },
    ]
}

fn large() -> Vec<Target> {
    let mut targets = Vec::new();
    for size in ["4 MP", "12 MP", "48 MP"] {
        for part in ["whole", "middle"] {
            let bound = Against::Contestant(format!("turbo, {size}, {part}"));
            targets.push(target(&format!("gular, {size}, {part}"), bound, Bound::AtLeast(0.9)));
        }
    }
    targets
}

fn passes() -> Vec<Target> {
    let envelopes = ["shards", "arrow", "parquet", "hdf5", "tar", "squashfs"];
    let mut targets = Vec::new();
    for envelope in envelopes {
        for reader in ["pread", "map"] {
            for (ours, bound) in [("first pass", "read and hash"), ("later pass", "read")] {
                let named = |what: &str| format!("{what}, {envelope}, {reader}");
                let bound = Against::Contestant(named(bound));
                targets.push(target(&named(ours), bound, Bound::AtLeast(0.9)));
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_targets_name_contestants_of_their_row() {
        let rows = all(2.0);
        for (i, row) in rows.iter().enumerate() {
            assert!(rows[..i].iter().all(|other| other.name != row.name), "{}", row.name);
            for target in &row.targets {
                assert!(row.is_ours(&target.ours), "{}: {}", row.name, target.ours);
                assert!(row.takes(&target.ours), "{}: {}", row.name, target.ours);
                if let Against::Contestant(name) = &target.against {
                    assert!(!row.is_ours(name) && row.takes(name), "{}: {name}", row.name);
                }
            }
        }
    }
}
