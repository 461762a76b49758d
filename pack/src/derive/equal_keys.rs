//! Finds keys that two samples of a bundle would share.

use std::sync::atomic::AtomicBool;

use super::bases::{Bases, Line};
use super::choose::Taken;
use super::options::DeriveOptions;
use crate::error::Error;
use crate::facts::{Names, Sorter};
use crate::plan::{check_cancel, folded};

/// Refuses samples of several bundles whose keys other file systems would take for one.
pub(super) fn check(
    bases: &Bases,
    lines: &[Line],
    taken: &Taken,
    options: &DeriveOptions,
    cancel: &AtomicBool,
) -> Result<(), Error> {
    let io = |e| Error::io("sort in", &options.temp_dir, e);
    let mut sorter = Sorter::new(&options.temp_dir, options.memory_bytes);
    for (line, bits) in lines.iter().zip(taken) {
        let index = bases.index(*line)?;
        for row in bits.rows() {
            let key = index.key(row).unwrap_or_default();
            sorter.push(folded(key).as_bytes(), key.as_bytes()).map_err(io)?;
        }
    }
    let (mut names, mut last) = (Names::default(), Vec::new());
    for (i, pair) in sorter.finish().map_err(io)?.enumerate() {
        check_cancel(i, cancel)?;
        let (folded, key) = pair.map_err(io)?;
        if folded == last {
            names.push(&String::from_utf8_lossy(&key));
        }
        last = folded;
    }
    match names.n {
        0 => Ok(()),
        n => Err(Error::SharedKeys { n, keys: names.to_string() }),
    }
}
