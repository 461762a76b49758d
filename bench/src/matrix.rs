//! The rows of the table: which combinations are measured.

use gular_bundle::{Backend, Envelope, Payload};
use serde::Serialize;

use crate::options::{BenchOptions, CacheState, ReadOrder, RowKind};

/// The reader of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowReader {
    /// This project's reader; for batches, its loader.
    Bundle(Envelope, Backend),
    /// A loop over (offset, length) that does nothing but read every byte.
    Hand(Backend),
    /// Plain files, one per sample: open, read, close.
    Files,
}

/// One combination of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RowSpec {
    /// The program or library that reads the samples.
    pub what: RowReader,
    /// How the images are stored.
    pub payload: Payload,
    /// Whether samples are only read, or also decoded and made into batches.
    pub kind: RowKind,
    /// The order of the samples.
    pub order: ReadOrder,
    /// Number of threads.
    pub threads: usize,
    /// The state of the page cache before the measurement.
    pub cache: CacheState,
}

/// The name of a payload, as in options.
pub(crate) const fn payload_name(payload: Payload) -> &'static str {
    match payload {
        Payload::Encoded => "encoded",
        Payload::Reencoded => "reencoded",
        Payload::Raw => "raw",
    }
}

/// The name of a back end, as in options.
pub(crate) const fn reader_name(reader: Backend) -> &'static str {
    match reader {
        Backend::Pread => "pread",
        Backend::Map => "map",
    }
}

impl RowReader {
    /// The label in tables.
    #[must_use]
    pub fn label(self) -> String {
        match self {
            Self::Bundle(envelope, reader) => format!("{envelope}, {}", reader_name(reader)),
            Self::Hand(reader) => format!("hand-written {} loop", reader_name(reader)),
            Self::Files => "plain files".into(),
        }
    }

    /// The envelope of a bundle.
    #[must_use]
    pub const fn envelope(self) -> Option<Envelope> {
        match self {
            Self::Bundle(envelope, _) => Some(envelope),
            _ => None,
        }
    }

    /// The back end, if it can be chosen.
    #[must_use]
    pub const fn reader(self) -> Option<Backend> {
        match self {
            Self::Bundle(_, reader) | Self::Hand(reader) => Some(reader),
            Self::Files => None,
        }
    }

    /// Whether the row is measured for comparison only.
    #[must_use]
    pub const fn is_baseline(self) -> bool {
        !matches!(self, Self::Bundle(..))
    }
}

impl Serialize for RowReader {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.label())
    }
}

/// The bundles and files that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Available {
    pub(crate) payload: Payload,
    pub(crate) envelopes: Vec<Envelope>,
    /// Whether the samples also exist as files.
    pub(crate) files: bool,
}

/// Returns all rows; those that are compared with each other are next to each other.
pub(crate) fn rows(options: &BenchOptions, available: &[Available]) -> Vec<RowSpec> {
    let mut rows = Vec::new();
    for &cache in &options.caches {
        for &kind in &options.kinds {
            for there in available {
                for &threads in &options.threads {
                    let n = if kind == RowKind::Load { 1 } else { options.orders.len() };
                    for &order in options.orders.iter().take(n) {
                        let row = |what| RowSpec {
                            what,
                            payload: there.payload,
                            kind,
                            order,
                            threads,
                            cache,
                        };
                        rows.extend(whats(options, there, kind).into_iter().map(row));
                    }
                }
            }
        }
    }
    rows
}

fn whats(options: &BenchOptions, there: &Available, kind: RowKind) -> Vec<RowReader> {
    let n = if kind == RowKind::Load { 1 } else { options.readers.len() };
    let readers: Vec<Backend> = options.readers.iter().take(n).copied().collect();
    let mut whats = Vec::new();
    for &envelope in &there.envelopes {
        whats.extend(readers.iter().map(|r| RowReader::Bundle(envelope, *r)));
    }
    if options.baselines {
        if kind == RowKind::Read {
            whats.extend(readers.iter().map(|r| RowReader::Hand(*r)));
        }
        if there.files {
            whats.push(RowReader::Files);
        }
    }
    whats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_product_and_batches_take_the_first_reader_and_order() {
        let options = BenchOptions::new(4);
        let there = |payload, files| Available {
            payload,
            envelopes: vec![Envelope::Shards, Envelope::Hdf5],
            files,
        };
        let all = rows(&options, &[there(Payload::Encoded, true), there(Payload::Raw, false)]);
        let n = |f: &dyn Fn(&RowSpec) -> bool| all.iter().filter(|r| f(r)).count();
        // 2 caches x 2 threads x 2 orders x (2 envelopes x 2 readers + 2 loops [+ files])
        assert_eq!(n(&|r| r.kind == RowKind::Read && r.payload == Payload::Encoded), 8 * 7);
        assert_eq!(n(&|r| r.kind == RowKind::Read && r.payload == Payload::Raw), 8 * 6);
        assert_eq!(n(&|r| r.kind == RowKind::Load && r.payload == Payload::Encoded), 4 * 3);
        assert_eq!(n(&|r| r.kind == RowKind::Load && r.payload == Payload::Raw), 4 * 2);
        assert_eq!(n(&|r| r.kind == RowKind::Load && r.order == ReadOrder::Sequential), 0);
        for (i, row) in all.iter().enumerate() {
            assert!(!all[..i].contains(row), "{row:?} occurs twice");
        }
        let bare = BenchOptions { baselines: false, ..options };
        assert!(
            rows(&bare, &[there(Payload::Encoded, true)]).iter().all(|r| !r.what.is_baseline())
        );
    }
}
