//! The whole measurement: makes the bundles, checks every row, then measures all rows in rounds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use gular_order::{KeyedPermutation, key};
use gular_pack::PayloadOptions;
use serde::Serialize;

use crate::Error;
use crate::bench_report::{BenchReport, Data, Method, Numbers, Row, Spread};
use crate::input::{self, Input};
use crate::load::{self, Decode};
use crate::machine::{machine, memory_available};
use crate::matrix::{Available, RowReader, RowSpec, rows};
use crate::measure::{Length, Shot, Sink, Sum, fingerprint, shoot};
use crate::options::{BenchOptions, CacheState, ReadOrder, RowKind};
use crate::prepare::{Prepared, Work, plan};
use crate::set::Set;
use crate::{advice, cache, sources};

/// The progress of a measurement.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// Files are written: what, bytes so far, about how many in all.
    Preparing(&'a str, u64, u64),
    /// Rows are proved to read the same bytes: so far, in all.
    Proving(usize, usize),
    /// Repetitions that are done, and in all.
    Measuring(usize, usize),
}

/// What a measurement would write and how long it would take.
#[derive(Debug, Clone, Serialize)]
pub struct Estimate {
    /// The samples that would be measured.
    pub data: Data,
    /// The folder in which a temporary folder is made, and removed at the end.
    pub scratch: String,
    /// The files that would be written, with their bytes.
    pub files: Vec<(String, u64)>,
    /// Bytes of all files that would be written.
    #[serde(rename = "needed")]
    pub needed_bytes: u64,
    /// Free bytes of the file system of `scratch`.
    #[serde(rename = "free")]
    pub free_bytes: u64,
    /// Bytes of memory that are available; more files than that cannot stay in the page cache.
    #[serde(rename = "memory_available")]
    pub available_memory_bytes: u64,
    /// Number of rows that would be measured.
    pub rows: usize,
    /// Estimated time of the measurement.
    pub seconds: f64,
}

/// Bytes a sample takes in a bundle and its index besides its own, at most: a tar
/// header and padding are the most.
const SAMPLE_EXTRA: u64 = 2048;
/// A file's last block, its inode, its part of folders.
const FILE_EXTRA: u64 = 8192;
/// Bytes of a link that is too long for its inode, and takes a block.
const LINK_BYTES: u64 = 4096;
/// Bytes of a shard that are not samples, and room for manifests.
const BUNDLE_EXTRA: u64 = 1 << 20;

/// Returns what [`bench()`] would do with `source` and a folder below `scratch`; writes nothing.
///
/// # Errors
/// See [`Error`].
pub fn estimate(
    source: &Path,
    scratch: &Path,
    options: &BenchOptions,
    cancel: &AtomicBool,
) -> Result<Estimate, Error> {
    check(options)?;
    let (input, data) = input::look(source, options.limit_bytes, cancel)?;
    estimated(&input, data, scratch, options)
}

fn estimated(
    input: &Input,
    data: Data,
    scratch: &Path,
    options: &BenchOptions,
) -> Result<Estimate, Error> {
    let mut files = Vec::new();
    let mut available = Vec::new();
    if matches!(input, Input::Images(_)) {
        files.push(("links to the images".to_owned(), data.samples * LINK_BYTES));
    }
    for planned in plan(input, options).0 {
        let bytes = match planned.made {
            Some(PayloadOptions::Raw(raw)) => {
                u64::from(raw.width)
                    * u64::from(raw.height)
                    * u64::from(raw.channels)
                    * data.samples
            }
            _ => data.bytes,
        };
        let bundle = bytes + data.samples * SAMPLE_EXTRA + BUNDLE_EXTRA;
        files.extend(planned.envelopes.iter().map(|e| (planned.bundle_name(*e), bundle)));
        if planned.files {
            files.push((planned.files_name(), bytes + data.samples * FILE_EXTRA));
        }
        available.push(Available {
            payload: planned.payload,
            envelopes: options.envelopes.clone(),
            files: planned.files,
        });
    }
    let free_bytes = gular_files::free(scratch)?.bytes;
    let needed_bytes = files.iter().map(|(_, bytes)| bytes).sum();
    let rows = rows(options, &available).len();
    // Files are written at some 300 MB/s, proved several times at 1 GB/s; an epoch
    // of a small set ends before its time.
    let shots = (rows * options.rounds) as f64;
    let longest = if options.whole_epochs { data.bytes as f64 / 5e8 } else { options.seconds };
    let seconds =
        needed_bytes as f64 / 3e8 + rows as f64 * data.bytes as f64 / 1e10 + shots * longest;
    Ok(Estimate {
        data,
        scratch: scratch.display().to_string(),
        files,
        needed_bytes,
        free_bytes,
        available_memory_bytes: memory_available(),
        rows,
        seconds,
    })
}

fn check(options: &BenchOptions) -> Result<(), Error> {
    let fail = |text: &str| Err(Error::Option(text.to_owned()));
    let lists = [
        ("envelopes", options.envelopes.len()),
        ("payloads", options.payloads.len()),
        ("readers", options.readers.len()),
        ("orders", options.orders.len()),
        ("threads", options.threads.len()),
        ("states of the page cache", options.caches.len()),
        ("kinds", options.kinds.len()),
        ("rounds", options.rounds),
        ("samples per batch", options.batch_size),
    ];
    if let Some((name, _)) = lists.iter().find(|(_, n)| *n == 0) {
        return fail(&format!("no {name} was given; expected at least one"));
    }
    if options.threads.contains(&0) {
        return fail("a number of threads is 0, expected at least 1");
    }
    if !(options.seconds > 0.0 && options.seconds.is_finite()) {
        return fail("the seconds of a measurement must be above 0");
    }
    Ok(())
}

/// Measures reading and loading of `source`, a folder of images or a bundle.
///
/// Everything is written to a new folder below `scratch`, which is removed at the end, unless the
/// process is killed.
///
/// # Errors
/// See [`Error`].
pub fn bench(
    source: &Path,
    scratch: &Path,
    options: &BenchOptions,
    progress: &(dyn Fn(Progress<'_>) + Sync),
    cancel: &AtomicBool,
) -> Result<BenchReport, Error> {
    check(options)?;
    let (input, data) = input::look(source, options.limit_bytes, cancel)?;
    let estimate = estimated(&input, data.clone(), scratch, options)?;
    if estimate.free_bytes < estimate.needed_bytes {
        let path = scratch.display().to_string();
        return Err(Error::NoSpace {
            path,
            free: estimate.free_bytes,
            needed: estimate.needed_bytes,
        });
    }
    let folder = tempfile::Builder::new()
        .prefix("gular-bench-")
        .tempdir_in(scratch)
        .map_err(|e| Error::io("create a folder in", scratch, e))?;
    let machine = machine(scratch, options.jobs);
    let told =
        |what: &str, bytes| progress(Progress::Preparing(what, bytes, estimate.needed_bytes));
    let work = Work { source, scratch: folder.path(), options, progress: &told, cancel };
    let prepared = work.prepare(&input)?;
    let mut data = data;
    let used = prepared.sets.iter().map(|set| set.of.samples as u64).max();
    data.samples = used.unwrap_or(data.samples);
    let mut run = Run::new(prepared, options, cancel)?;
    run.prove(progress)?;
    run.measure(progress)?;
    let report = run.report(data, machine)?;
    folder.close().map_err(|e| Error::io("remove", scratch, e))?;
    Ok(report)
}

/// A row, the files it reads, and what its repetitions gave.
struct Cell {
    spec: RowSpec,
    set: usize,
    shots: Vec<Shot>,
}

struct Run<'a> {
    sets: Vec<Set>,
    cells: Vec<Cell>,
    notes: Vec<String>,
    options: &'a BenchOptions,
    cancel: &'a AtomicBool,
}

impl<'a> Run<'a> {
    fn new(
        prepared: Prepared,
        options: &'a BenchOptions,
        cancel: &'a AtomicBool,
    ) -> Result<Self, Error> {
        let Prepared { sets, notes } = prepared;
        let available: Vec<Available> = sets.iter().map(Set::available).collect();
        let specs = rows(options, &available);
        let cell = |spec: RowSpec| {
            let set = sets.iter().position(|set| set.payload == spec.payload).unwrap_or(0);
            Cell { spec, set, shots: Vec::new() }
        };
        let cells: Vec<Cell> = specs.into_iter().map(cell).collect();
        if cells.is_empty() {
            return Err(Error::Option("nothing is left to measure".into()));
        }
        Ok(Self { sets, cells, notes, options, cancel })
    }

    /// Reads all samples in each way once, and compares their bytes. This also fills the page
    /// cache.
    fn prove(&mut self, progress: &dyn Fn(Progress<'_>)) -> Result<(), Error> {
        let mut ways: Vec<(usize, RowReader)> = Vec::new();
        for cell in &self.cells {
            if !ways.contains(&(cell.set, cell.spec.what)) {
                ways.push((cell.set, cell.spec.what));
            }
        }
        let mut firsts: BTreeMap<usize, ((u64, u64), RowReader)> = BTreeMap::new();
        for (done, (number, what)) in ways.iter().enumerate() {
            progress(Progress::Proving(done, ways.len()));
            let set = &self.sets[*number];
            let source = sources::open(*what, set)?;
            let found = fingerprint(&*source, set.of.samples, self.cancel)?;
            let (first, by) = firsts.entry(*number).or_insert((found, *what));
            if *first != found {
                return Err(Error::Differs { what: what.label(), first: by.label() });
            }
        }
        Ok(())
    }

    fn measure(&mut self, progress: &dyn Fn(Progress<'_>)) -> Result<(), Error> {
        let total = self.cells.len() * self.options.rounds;
        let mut done = 0;
        let mut stayed: f64 = 0.0;
        let mut left: f64 = 1.0;
        for round in 0..self.options.rounds {
            for number in turns(&self.cells, round, self.options.rounds) {
                progress(Progress::Measuring(done, total));
                let cell = &self.cells[number];
                let set = &self.sets[cell.set];
                let paths = set.paths(cell.spec.what)?;
                match cell.spec.cache {
                    CacheState::Warm => {
                        if cache::resident(&paths).is_none_or(|share| share < 0.999) {
                            cache::fill(&paths)?;
                        }
                        left = left.min(cache::resident(&paths).unwrap_or(1.0));
                    }
                    CacheState::Cold => {
                        cache::drop(&paths)?;
                        stayed = stayed.max(cache::resident(&paths).unwrap_or(0.0));
                    }
                }
                let shot = self.shoot(&cell.spec, set, round)?;
                self.cells[number].shots.push(shot);
                done += 1;
            }
        }
        progress(Progress::Measuring(total, total));
        if left < 0.95 {
            self.notes.push(format!(
                "memory did not hold all files: when warm rows began, as little as {:.0} % of a row's bytes were in the page cache; set a smaller limit",
                left * 100.0
            ));
        }
        if stayed > 0.05 {
            self.notes.push(format!(
                "cold rows were not cold: up to {:.0} % of a row's files stayed in memory; choose a scratch folder on a disk",
                stayed * 100.0
            ));
        }
        Ok(())
    }

    fn shoot(&self, spec: &RowSpec, set: &Set, round: usize) -> Result<Shot, Error> {
        let n = set.of.samples;
        let again = spec.cache == CacheState::Warm && !self.options.whole_epochs;
        let length = Length {
            seconds: if self.options.whole_epochs { f64::INFINITY } else { self.options.seconds },
            samples: if again { u64::MAX } else { n as u64 },
        };
        let begin = Instant::now();
        if let (RowKind::Load, RowReader::Bundle(envelope, backend)) = (spec.kind, spec.what) {
            let bundle = sources::bundle(set.bundle(envelope)?, backend)?;
            let split = set.of.split;
            return load::shoot(
                bundle,
                split,
                self.options,
                spec.threads,
                length,
                begin,
                self.cancel,
            );
        }
        let source = sources::open(spec.what, set)?;
        let order = order(spec.order, n, round);
        if let Some(first) = order.first() {
            source.read(*first as usize, &mut Vec::new(), &mut |_| {})?;
        }
        let first_ms = begin.elapsed().as_secs_f64() * 1e3;
        let size = self.options.size;
        let sink = || -> Box<dyn Sink> {
            match spec.kind {
                RowKind::Read => Box::new(Sum(0)),
                RowKind::Load => Box::new(Decode::new(size)),
            }
        };
        let shot = shoot(&*source, &order, spec.threads, length, &sink, self.cancel)?;
        Ok(Shot { first_ms, ..shot })
    }

    fn report(self, data: Data, machine: crate::Machine) -> Result<BenchReport, Error> {
        let mut stored = Vec::new();
        for set in &self.sets {
            stored.extend(set.stored()?);
        }
        let row = |cell: &Cell| Row::new(cell.spec, numbers(&cell.shots));
        let rows: Vec<Row> = self.cells.iter().map(row).collect();
        let mut notes = self.notes;
        if self.options.caches.contains(&CacheState::Cold) {
            notes.push("cold: before each repetition the files of its row are written back and given to posix_fadvise(DONTNEED); what the disk or file server caches stays cached".into());
        }
        let others = rows.iter().map(|row| row.numbers.other_cores).collect::<Vec<_>>();
        let others = Spread::of(&others);
        if others.median > 0.3 {
            notes.push(format!(
                "other programs kept {:.1} cores busy during half of the rows: small differences mean nothing; run it again on a quiet machine",
                others.median
            ));
        }
        let options = self.options;
        let method = Method {
            rounds: options.rounds,
            seconds: options.seconds,
            whole_epochs: options.whole_epochs,
            size: options.size,
            batch_size: options.batch_size,
        };
        let advice = advice::advise(&data, &machine, &stored, &rows, options);
        Ok(BenchReport {
            preset: options.preset,
            data,
            machine,
            method,
            stored,
            rows,
            notes,
            advice,
        })
    }
}

/// Returns the order of all rows, warm before cold ones (whose files leave memory). Each round
/// begins with another row, and every other round is backwards, so that a slow time of the machine
/// affects all rows alike.
fn turns(cells: &[Cell], round: usize, rounds: usize) -> Vec<usize> {
    let mut turns = Vec::with_capacity(cells.len());
    for cache in [CacheState::Warm, CacheState::Cold] {
        let of_cache = cells.iter().enumerate().filter(|(_, cell)| cell.spec.cache == cache);
        let mut numbers: Vec<usize> = of_cache.map(|(number, _)| number).collect();
        let first = numbers.len() * round / rounds.max(1);
        numbers.rotate_left(first);
        if round % 2 == 1 {
            numbers.reverse();
        }
        turns.extend(numbers);
    }
    turns
}

fn order(order: ReadOrder, n: usize, round: usize) -> Vec<u32> {
    let narrow = |i: u64| u32::try_from(i).unwrap_or(u32::MAX);
    match order {
        ReadOrder::Sequential => (0..n as u64).map(narrow).collect(),
        ReadOrder::Shuffled => {
            let permutation = KeyedPermutation::new(n as u64, key(0, round as u64, 0));
            (0..n as u64).map(|i| narrow(permutation.at(i))).collect()
        }
    }
}

fn numbers(shots: &[Shot]) -> Numbers {
    let of = |f: &dyn Fn(&Shot) -> f64| shots.iter().map(f).collect::<Vec<f64>>();
    let median = |f: &dyn Fn(&Shot) -> f64| Spread::of(&of(f)).median;
    let rounds = of(&|s| s.samples as f64 / s.elapsed.seconds);
    let mut latencies: Vec<u64> = shots.iter().flat_map(|s| &s.latencies).copied().collect();
    latencies.sort_unstable();
    let part = |share: f64| {
        let at = ((latencies.len() as f64 - 1.0) * share).round().max(0.0) as usize;
        latencies.get(at).map(|nanoseconds| *nanoseconds as f64 / 1e3)
    };
    Numbers {
        samples_per_s: Spread::of(&rounds),
        mb_per_s: median(&|s| s.bytes as f64 / 1e6 / s.elapsed.seconds),
        rounds,
        cpu_us_per_sample: median(&|s| s.elapsed.cpu * 1e6 / s.samples.max(1) as f64),
        first_ms: median(&|s| s.first_ms),
        p50_us: part(0.5),
        p99_us: part(0.99),
        other_cores: median(&|s| s.elapsed.others),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gular_bundle::{Backend, Envelope, Payload};

    use super::*;

    fn cell(cache: CacheState, threads: usize) -> Cell {
        let spec = RowSpec {
            what: RowReader::Hand(Backend::Pread),
            payload: Payload::Encoded,
            kind: RowKind::Read,
            order: ReadOrder::Shuffled,
            threads,
            cache,
        };
        Cell { spec, set: 0, shots: Vec::new() }
    }

    #[test]
    fn each_round_takes_every_row_once_and_begins_elsewhere() {
        let mut cells: Vec<Cell> = (0..5).map(|i| cell(CacheState::Warm, i)).collect();
        cells.insert(2, cell(CacheState::Cold, 9));
        let rounds: Vec<Vec<usize>> = (0..3).map(|round| turns(&cells, round, 3)).collect();
        for turns in &rounds {
            let mut sorted = turns.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
            assert_eq!(turns.last(), Some(&2), "cold rows come last");
        }
        assert_eq!(rounds[0], [0, 1, 3, 4, 5, 2]);
        assert_ne!(rounds[0], rounds[1]);
    }

    /// Folders two levels below `dir`, named as in an estimate, and the bytes of all files.
    fn written(dir: &Path) -> (BTreeSet<String>, u64) {
        let entries = |dir: &Path| {
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>()
        };
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let mut names = BTreeSet::new();
        let mut folders = Vec::new();
        for payload in entries(dir) {
            if name(&payload) == "images" {
                names.insert("links to the images".to_owned());
                continue;
            }
            for folder in entries(&payload) {
                let of = name(&folder).replace("files", "plain files");
                names.insert(format!("{}, {of}", name(&payload)));
                folders.push(folder);
            }
        }
        let mut bytes = 0;
        while let Some(folder) = folders.pop() {
            for path in entries(&folder) {
                let metadata = std::fs::symlink_metadata(&path).unwrap();
                bytes += metadata.len();
                if metadata.is_dir() {
                    folders.push(path);
                }
            }
        }
        (names, bytes)
    }

    #[test]
    fn an_estimate_names_all_that_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (images, bundle) = (dir.path().join("images"), dir.path().join("bundle"));
        std::fs::create_dir_all(images.join("a")).unwrap();
        for i in 0..3_u8 {
            let image = gular_codec::encode_png(&[i; 48], 4, 4).unwrap();
            std::fs::write(images.join(format!("a/{i}.png")), image).unwrap();
        }
        let never = AtomicBool::new(false);
        let options = gular_pack::PackOptions {
            plan: gular_pack::PlanOptions::default(),
            jobs: 1,
            dry_run: false,
            part: None,
            temp_dir: dir.path().to_owned(),
        };
        gular_pack::pack(&images, &bundle, &options, &|_| {}, &never).unwrap();
        let raw = BenchOptions::raw(8);
        for source in [images, bundle] {
            for payloads in [vec![PayloadOptions::Encoded], vec![PayloadOptions::Encoded, raw]] {
                for baselines in [true, false] {
                    let options = BenchOptions {
                        envelopes: vec![Envelope::Tar, Envelope::Hdf5],
                        payloads: payloads.clone(),
                        baselines,
                        ..BenchOptions::quick(1)
                    };
                    let plan = estimate(&source, dir.path(), &options, &never).unwrap();
                    let scratch = tempfile::tempdir().unwrap();
                    let work = Work {
                        source: &source,
                        scratch: scratch.path(),
                        options: &options,
                        progress: &|_, _| {},
                        cancel: &never,
                    };
                    let (input, _) = input::look(&source, options.limit_bytes, &never).unwrap();
                    let prepared = work.prepare(&input).unwrap();
                    let envelopes = &prepared.sets[0].available().envelopes;
                    assert_eq!(envelopes, &[Envelope::Tar, Envelope::Hdf5]);
                    let names: BTreeSet<String> = plan.files.iter().map(|f| f.0.clone()).collect();
                    let (found, bytes) = written(scratch.path());
                    assert_eq!(names, found, "{source:?} {payloads:?} {baselines}");
                    assert!(names.contains("encoded, shards") && bytes <= plan.needed_bytes);
                }
            }
        }
    }

    #[test]
    fn orders_are_permutations_that_differ_by_round() {
        for kind in [ReadOrder::Shuffled, ReadOrder::Sequential] {
            let mut first = order(kind, 100, 0);
            assert_eq!(first == order(kind, 100, 1), kind == ReadOrder::Sequential);
            first.sort_unstable();
            assert_eq!(first, (0..100).collect::<Vec<u32>>());
        }
    }
}
