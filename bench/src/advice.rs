//! Recommends what to pick, in sentences with their figures, and gives the next step as data.

use gular_bundle::{Backend, Envelope, Payload};
use gular_pack::PayloadOptions;

use crate::bench_report::{Advice, Data, Machine, NextStep, Row, Stored};
use crate::matrix::{RowReader, payload_name};
use crate::options::{BenchOptions, CacheState, ReadOrder, RowKind};
use crate::table::{grouped, size};

/// Rates this close are the same: what other programs do meanwhile is worth as much.
const SAME: f64 = 0.9;

/// Derives the advice from `rows`.
pub(crate) fn advise(
    data: &Data,
    machine: &Machine,
    stored: &[Stored],
    rows: &[Row],
    options: &BenchOptions,
) -> Advice {
    let words = Words { data, machine, stored, rows, options };
    words.advise().unwrap_or_default()
}

struct Words<'a> {
    data: &'a Data,
    machine: &'a Machine,
    stored: &'a [Stored],
    rows: &'a [Row],
    options: &'a BenchOptions,
}

/// The conditions under which rows are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
struct At {
    kind: RowKind,
    payload: Payload,
    order: ReadOrder,
    threads: usize,
    cache: CacheState,
}

impl Words<'_> {
    fn advise(&self) -> Option<Advice> {
        let mut text = Vec::new();
        let (payload, of_payload) = self.payload()?;
        let (cache, of_cache) = self.cache(payload);
        let at = At {
            kind: RowKind::Read,
            payload,
            order: *self.options.orders.first()?,
            threads: *self.options.threads.iter().max()?,
            cache,
        };
        // Reading shows the difference between readers; without such rows, loading is used.
        let kind =
            if self.options.kinds.contains(&RowKind::Read) { RowKind::Read } else { RowKind::Load };
        let at = At { kind, ..at };
        let (pick, of_envelope) = self.envelope(at)?;
        let row = self.rows.get(pick)?;
        text.push(format!(
            "Pick `{}` with payload {} and {}: {} samples/s ({}).",
            row.spec.what.label(),
            payload_name(payload),
            threads(at.threads),
            grouped(row.numbers.samples_per_s.median),
            conditions(at),
        ));
        text.push(of_envelope);
        text.extend(of_payload);
        text.push(of_cache);
        text.extend(self.reader(at, row));
        text.extend(self.threads(at, row));
        text.extend(self.shuffling(at, row));
        text.extend(self.baselines(at, row));
        let training = self.training(at);
        let other_payloads = training.is_some() && self.options.payloads.len() == 1;
        text.extend(training);
        let next = self.next(row.spec.what, payload);
        Some(Advice { pick: Some(pick), next, other_payloads, command: None, text })
    }

    fn rate(&self, what: RowReader, at: At) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.spec.what == what && is(row, at))?;
        Some(row.numbers.samples_per_s.median)
    }

    /// Returns the largest rate of any envelope.
    fn best(&self, at: At) -> Option<f64> {
        let ours = self.rows.iter().filter(|row| !row.baseline && is(row, at));
        ours.map(|row| row.numbers.samples_per_s.median).max_by(f64::total_cmp)
    }

    /// Bytes of a sample in a payload, in the smallest envelope.
    fn sample_bytes(&self, payload: Payload) -> Option<f64> {
        let of_payload = self.stored.iter().filter(|s| s.payload == payload && s.samples > 0);
        of_payload.map(|s| s.bytes as f64 / s.samples as f64).min_by(f64::total_cmp)
    }

    /// Returns the bytes that the whole source would take.
    fn whole(&self, payload: Payload) -> Option<f64> {
        Some(self.sample_bytes(payload)? * self.data.of_samples as f64)
    }

    /// The payload that batches come fastest from; it must fit in memory to be worth more
    /// bytes.
    fn payload(&self) -> Option<(Payload, Option<String>)> {
        let mut payloads: Vec<Payload> = Vec::new();
        for row in self.rows.iter().filter(|row| !row.baseline) {
            if !payloads.contains(&row.spec.payload) {
                payloads.push(row.spec.payload);
            }
        }
        let first = *payloads.first()?;
        let kind =
            if self.options.kinds.contains(&RowKind::Load) { RowKind::Load } else { RowKind::Read };
        let at = |payload| At {
            kind,
            payload,
            order: self.options.orders.first().copied().unwrap_or(ReadOrder::Shuffled),
            threads: self.options.threads.iter().copied().max().unwrap_or(1),
            cache: self.cache(payload).0,
        };
        let rate = |payload| self.best(at(payload)).unwrap_or(0.0);
        let best = payloads.iter().copied().max_by(|a, b| rate(*a).total_cmp(&rate(*b)))?;
        if payloads.len() < 2 || kind == RowKind::Read {
            // Bytes of other sizes: their rates do not say what a training run sees.
            return Some((first, None));
        }
        let gain = rate(best) / rate(first).max(1e-9);
        let picked = if gain > 1.0 / SAME { best } else { first };
        let figures: Vec<String> = payloads
            .iter()
            .map(|payload| {
                format!(
                    "{} {} pictures/s at {} a sample",
                    payload_name(*payload),
                    grouped(rate(*payload)),
                    size(self.sample_bytes(*payload).unwrap_or(0.0))
                )
            })
            .collect();
        let why = if picked == first {
            format!("no other payload gives more than a tenth more than {}", payload_name(first))
        } else {
            format!(
                "payload {} makes batches {gain:.1} times as fast as {}, for {:.1} times the bytes",
                payload_name(picked),
                payload_name(first),
                self.sample_bytes(picked)? / self.sample_bytes(first)?.max(1e-9),
            )
        };
        Some((picked, Some(format!("Of payloads, {why}: {}.", figures.join("; ")))))
    }

    /// Returns whether all of the data stays in memory, if that state was measured.
    fn cache(&self, payload: Payload) -> (CacheState, String) {
        let whole = self.whole(payload).unwrap_or(0.0);
        let memory = self.machine.available_memory_bytes as f64;
        let (wanted, fits) = if whole < memory {
            (CacheState::Warm, "fits in")
        } else {
            (CacheState::Cold, "does not fit in")
        };
        let caches = &self.options.caches;
        let cache = if caches.contains(&wanted) { wanted } else { caches[0] };
        let (whole, memory) = (size(whole), size(memory));
        let decide = if cache == wanted {
            format!("so the {} rows decide", cache.name())
        } else {
            format!("but only {} rows were measured", cache.name())
        };
        (cache, format!("All of the data, {whole}, {fits} the {memory} of free memory, {decide}."))
    }

    /// The envelope to take, or that it does not matter.
    fn envelope(&self, at: At) -> Option<(usize, String)> {
        let mut best: Vec<(Envelope, usize, f64)> = Vec::new();
        for (number, row) in self.rows.iter().enumerate().filter(|(_, row)| is(row, at)) {
            let Some(envelope) = row.spec.what.envelope() else { continue };
            let rate = row.numbers.samples_per_s.median;
            match best.iter_mut().find(|(e, ..)| *e == envelope) {
                Some(slot) if slot.2 < rate => *slot = (envelope, number, rate),
                Some(_) => {}
                None => best.push((envelope, number, rate)),
            }
        }
        let fastest = *best.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
        let slowest = *best.iter().min_by(|a, b| a.2.total_cmp(&b.2))?;
        // A difference that the rounds of one row have, too, is none.
        let spread = |number: usize| self.rows.get(number).map(|row| row.numbers.samples_per_s);
        let alike = |number| spread(number)?.overlaps(&spread(fastest.1)?).then_some(());
        let same: Vec<Envelope> = best
            .iter()
            .filter(|b| b.2 >= SAME * fastest.2 || alike(b.1).is_some())
            .map(|b| b.0)
            .collect();
        // Of equal envelopes the first is taken: plain safetensors, which any tool opens.
        let picked = *best.iter().find(|b| same.contains(&b.0))?;
        let range = format!("{} to {} samples/s", grouped(slowest.2), grouped(fastest.2));
        let why = match best.len() {
            1 => format!("Only envelope {} was measured.", picked.0),
            n if same.len() == n => format!(
                "The {n} envelopes {} ({range}), so take the one that your other tools open: {}.",
                if slowest.2 >= SAME * fastest.2 {
                    format!(
                        "read within {:.0} % of each other",
                        (1.0 - slowest.2 / fastest.2) * 100.0
                    )
                } else {
                    "differ by no more than their rounds do".to_owned()
                },
                best.iter().map(|b| tools(b.0)).collect::<Vec<_>>().join(", ")
            ),
            _ => {
                let others = same.iter().filter(|e| **e != fastest.0).map(|e| e.name());
                let others: Vec<&str> = others.collect();
                let equals = match others.len() {
                    0 => String::new(),
                    _ => {
                        format!("; as fast, within the noise between rounds: {}", others.join(", "))
                    }
                };
                format!("The fastest envelope is {}{equals} ({range} over all).", fastest.0)
            }
        };
        Some((picked.1, why))
    }

    fn reader(&self, at: At, row: &Row) -> Option<String> {
        let envelope = row.spec.what.envelope()?;
        let pread = self.rate(RowReader::Bundle(envelope, Backend::Pread), at)?;
        let map = self.rate(RowReader::Bundle(envelope, Backend::Map), at)?;
        let figures = format!("{} against {} samples/s", grouped(map), grouped(pread));
        let ratio = map / pread.max(1e-9);
        Some(if ratio > 1.0 / SAME {
            format!(
                "map reads {ratio:.2} times as fast as pread ({figures}); it is for files that nobody cuts while they are read: a cache's own, not network folders."
            )
        } else if ratio < SAME {
            format!("pread reads {:.2} times as fast as map ({figures}).", 1.0 / ratio)
        } else {
            format!("map and pread are equally fast ({figures}); pread is the safe one.")
        })
    }

    fn threads(&self, at: At, row: &Row) -> Option<String> {
        let least = *self.options.threads.iter().min()?;
        let most = at.threads;
        if least == most {
            return None;
        }
        let gain = |kind| {
            let what = |at| match kind {
                RowKind::Read => self.rate(row.spec.what, at),
                RowKind::Load => self.best(at),
            };
            let (few, many) =
                (what(At { threads: least, kind, ..at })?, what(At { threads: most, kind, ..at })?);
            Some((kind, few, many))
        };
        let (kind, few, many) = gain(RowKind::Load).or_else(|| gain(RowKind::Read))?;
        let work = if kind == RowKind::Load { "loading" } else { "reading" };
        Some(format!(
            "From {} to {} {work} becomes {:.2} times as fast ({} to {} samples/s).",
            threads(least),
            threads(most),
            many / few.max(1e-9),
            grouped(few),
            grouped(many)
        ))
    }

    fn shuffling(&self, at: At, row: &Row) -> Option<String> {
        if at.kind == RowKind::Load {
            return None;
        }
        let at = |order, cache| At { order, cache, ..at };
        let of = |cache| {
            let shuffled = self.rate(row.spec.what, at(ReadOrder::Shuffled, cache))?;
            let sequential = self.rate(row.spec.what, at(ReadOrder::Sequential, cache))?;
            Some(format!("{:.0} % {}", shuffled / sequential.max(1e-9) * 100.0, cache.name()))
        };
        let parts: Vec<String> =
            [CacheState::Warm, CacheState::Cold].into_iter().filter_map(of).collect();
        (!parts.is_empty()).then(|| {
            format!("Shuffled reading has, of the sequential rate, {}.", parts.join(" and "))
        })
    }

    fn baselines(&self, at: At, row: &Row) -> Vec<String> {
        let own = row.numbers.samples_per_s.median;
        let mut text = Vec::new();
        if let Some(files) = self.rate(RowReader::Files, at) {
            text.push(format!(
                "It reads at {:.2} times the rate of the plain files ({} samples/s).",
                own / files.max(1e-9),
                grouped(files)
            ));
        }
        let hand =
            row.spec.what.reader().and_then(|r| Some((r, self.rate(RowReader::Hand(r), at)?)));
        if let Some((_, hand)) = hand {
            text.push(format!(
                "A hand-written loop over the same bytes reaches {} samples/s; this reader has {:.0} % of it.",
                grouped(hand),
                own / hand.max(1e-9) * 100.0
            ));
        }
        text
    }

    /// Says what batches show, if it differs from what reading shows.
    fn training(&self, at: At) -> Option<String> {
        if at.kind == RowKind::Load {
            return None;
        }
        let at = At { kind: RowKind::Load, ..at };
        let rates = self.rows.iter().filter(|row| is(row, at));
        let rates = rates.map(|row| row.numbers.samples_per_s.median);
        let (low, high) = (rates.clone().min_by(f64::total_cmp)?, rates.max_by(f64::total_cmp)?);
        (low >= SAME * SAME * high && low < high).then(|| {
            format!(
                "A training run would not notice: batches come at {} to {} samples/s from all of them, plain files among them where they were measured, because decoding takes the time.",
                grouped(low),
                grouped(high)
            )
        })
    }

    /// Says how to make the picked bundle.
    fn next(&self, what: RowReader, payload: Payload) -> Option<NextStep> {
        let envelope = what.envelope()?;
        if let Some(bundle) = self.data.bundle.filter(|bundle| bundle.payload == payload) {
            let same = bundle.envelope == envelope;
            return Some(if same { NextStep::Keep } else { NextStep::Convert(envelope) });
        }
        let is_it = |options: &&PayloadOptions| match options {
            PayloadOptions::Encoded => payload == Payload::Encoded,
            PayloadOptions::Reencoded(_) => payload == Payload::Reencoded,
            PayloadOptions::Raw(_) => payload == Payload::Raw,
        };
        let payload = self.options.payloads.iter().find(is_it).copied().unwrap_or_default();
        Some(match self.data.bundle {
            None => NextStep::Pack(envelope, payload),
            // Labels of a bundle need not be the names of folders, which packing reads.
            Some(_) => NextStep::PackImages(envelope, payload),
        })
    }
}

fn is(row: &Row, at: At) -> bool {
    let spec = &row.spec;
    // Batches are loaded in one order, the loader's.
    let order = at.kind == RowKind::Load || spec.order == at.order;
    order
        && (spec.kind, spec.payload, spec.threads, spec.cache)
            == (at.kind, at.payload, at.threads, at.cache)
}

fn conditions(at: At) -> String {
    let cache = match at.cache {
        CacheState::Warm => "from a warm page cache",
        CacheState::Cold => "from a cold page cache",
    };
    let kind = if at.kind == RowKind::Read { "reading" } else { "loading" };
    format!("{kind}, {}, {cache}", at.order.name())
}

fn threads(n: usize) -> String {
    if n == 1 { "1 thread".into() } else { format!("{n} threads") }
}

/// Names the tool whose format the envelope is.
fn tools(envelope: Envelope) -> String {
    let whose = match envelope {
        Envelope::Shards => "safetensors",
        Envelope::Arrow => "Hugging Face datasets",
        Envelope::Parquet => "DuckDB and the Hugging Face hub",
        Envelope::Hdf5 => "h5py",
        Envelope::Tar => "WebDataset",
        Envelope::Squashfs => "a mounted folder",
        Envelope::Mds => "MosaicML Streaming",
        Envelope::Ffcv => "FFCV",
    };
    format!("{envelope} ({whose})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_report::{Numbers, SourceBundle, Spread};
    use crate::matrix::RowSpec;

    fn row(what: RowReader, payload: Payload, kind: RowKind, rate: f64) -> Row {
        let spec = RowSpec {
            what,
            payload,
            kind,
            order: ReadOrder::Shuffled,
            threads: 2,
            cache: CacheState::Warm,
        };
        let numbers = Numbers {
            samples_per_s: Spread::of(&[rate]),
            mb_per_s: rate,
            rounds: vec![rate],
            cpu_us_per_sample: 1.0,
            first_ms: 1.0,
            p50_us: None,
            p99_us: None,
            other_cores: 0.0,
        };
        Row::new(spec, numbers)
    }

    fn advice(rows: &[Row]) -> Advice {
        advice_of("photos", None, rows)
    }

    fn advice_of(source: &str, bundle: Option<(Envelope, Payload)>, rows: &[Row]) -> Advice {
        let data = Data {
            source: source.into(),
            bundle: bundle.map(|(envelope, payload)| SourceBundle { envelope, payload }),
            samples: 10,
            bytes: 1000,
            of_samples: 100,
            of_bytes: 10_000,
        };
        let machine = Machine {
            cpu: String::new(),
            cores: 2,
            memory_bytes: 1 << 30,
            available_memory_bytes: 1 << 30,
            kernel: String::new(),
            scratch: String::new(),
            jpeg: String::new(),
        };
        let of = |payload, bytes| Stored {
            payload,
            envelope: Some(Envelope::Shards),
            bytes,
            files: 1,
            samples: 10,
        };
        let stored = [of(Payload::Encoded, 1000), of(Payload::Raw, 4000)];
        let raw = PayloadOptions::Raw(gular_pack::RawOptions::new(64, 64));
        let options = BenchOptions {
            payloads: vec![PayloadOptions::Encoded, raw],
            threads: vec![2],
            orders: vec![ReadOrder::Shuffled],
            caches: vec![CacheState::Warm],
            ..BenchOptions::new(2)
        };
        advise(&data, &machine, &stored, rows, &options)
    }

    const MAP: fn(Envelope) -> RowReader = |envelope| RowReader::Bundle(envelope, Backend::Map);
    const PREAD: fn(Envelope) -> RowReader = |envelope| RowReader::Bundle(envelope, Backend::Pread);

    #[test]
    fn equals_leave_the_choice_to_other_tools() {
        let read = |what, rate| row(what, Payload::Encoded, RowKind::Read, rate);
        let advice = advice(&[
            read(PREAD(Envelope::Shards), 95.0),
            read(MAP(Envelope::Shards), 94.0),
            read(PREAD(Envelope::Tar), 100.0),
            read(RowReader::Files, 10.0),
            read(RowReader::Hand(Backend::Pread), 100.0),
        ]);
        assert_eq!(advice.pick, Some(0));
        let text = advice.text.join("\n");
        for words in [
            "Pick `shards, pread` with payload encoded and 2 threads: 95 samples/s",
            "2 envelopes read within 5 %",
            "map and pread are equally fast",
            "9.50 times the rate of the plain files",
            "has 95 % of it",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!(advice.next, Some(NextStep::Pack(Envelope::Shards, PayloadOptions::Encoded)));
    }

    #[test]
    fn the_fastest_is_picked_where_it_is_faster() {
        let advice = advice(&[
            row(PREAD(Envelope::Shards), Payload::Encoded, RowKind::Read, 50.0),
            row(PREAD(Envelope::Hdf5), Payload::Encoded, RowKind::Read, 100.0),
            row(MAP(Envelope::Hdf5), Payload::Encoded, RowKind::Read, 200.0),
        ]);
        assert_eq!(advice.pick, Some(2));
        let text = advice.text.join("\n");
        assert!(text.contains("map reads 2.00 times as fast"), "{text}");
        let words = "The fastest envelope is hdf5 (50 to 200 samples/s over all).";
        assert!(text.contains(words), "{text}");
    }

    #[test]
    fn pixels_are_worth_their_bytes_when_batches_come_faster() {
        let of = |payload, rate| {
            [
                row(PREAD(Envelope::Shards), payload, RowKind::Read, 100.0),
                row(PREAD(Envelope::Shards), payload, RowKind::Load, rate),
            ]
        };
        let faster = [of(Payload::Encoded, 10.0), of(Payload::Raw, 80.0)].concat();
        let found = advice(&faster);
        assert_eq!(found.pick, Some(2));
        let text = found.text.join("\n");
        assert!(text.contains("8.0 times as fast as encoded, for 4.0 times the bytes"), "{text}");
        let raw = PayloadOptions::Raw(gular_pack::RawOptions::new(64, 64));
        assert_eq!(found.next, Some(NextStep::Pack(Envelope::Shards, raw)));
        let same = [of(Payload::Encoded, 10.0), of(Payload::Raw, 10.5)].concat();
        assert_eq!(advice(&same).pick, Some(0));
    }

    #[test]
    fn the_next_step_suits_the_source() {
        let shards = row(PREAD(Envelope::Shards), Payload::Encoded, RowKind::Read, 50.0);
        let of = |envelope, rows: &[Row]| {
            advice_of("b", Some((envelope, Payload::Encoded)), rows).next.unwrap()
        };
        let only = std::slice::from_ref(&shards);
        assert_eq!(of(Envelope::Tar, only), NextStep::Convert(Envelope::Shards));
        assert_eq!(of(Envelope::Shards, only), NextStep::Keep);
        let raw = [
            shards.clone(),
            row(PREAD(Envelope::Shards), Payload::Encoded, RowKind::Load, 10.0),
            row(PREAD(Envelope::Shards), Payload::Raw, RowKind::Read, 50.0),
            row(PREAD(Envelope::Shards), Payload::Raw, RowKind::Load, 80.0),
        ];
        let pixels = PayloadOptions::Raw(gular_pack::RawOptions::new(64, 64));
        assert_eq!(of(Envelope::Shards, &raw), NextStep::PackImages(Envelope::Shards, pixels));
    }

    #[test]
    fn batches_that_come_alike_are_said() {
        let rows = |plain| {
            [
                row(MAP(Envelope::Shards), Payload::Encoded, RowKind::Read, 300.0),
                row(RowReader::Files, Payload::Encoded, RowKind::Read, 100.0),
                row(MAP(Envelope::Shards), Payload::Encoded, RowKind::Load, 10.0),
                row(RowReader::Files, Payload::Encoded, RowKind::Load, plain),
            ]
        };
        assert!(advice(&rows(9.0)).text.join("\n").contains("A training run would not notice"));
        assert!(!advice(&rows(5.0)).text.join("\n").contains("A training run would not notice"));
    }

    #[test]
    fn no_rows_give_no_advice() {
        assert!(advice(&[]).text.is_empty());
        assert_eq!(advice(&[]).next, None);
    }
}
