//! The arrays of an `.npz` file: a zip of `.npy` files, as `numpy.savez` writes it.
//!
//! ```text
//! pathmnist.npz: train_images.npy [N, 28, 28, 3], train_labels.npy [N, 1], val_images.npy …
//! ```
//!
//! A compressed array can only be read from its beginning, so its reader is kept between rows that
//! follow each other.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use gular_bundle::Npy;

use super::file::{Contents, Found, RowKind, Stored, Unread};
use super::rows::split_and_rest;
use crate::source::window::Window;
use crate::source::zip::Zip;
use crate::source::{ArchiveLimits, SourceError};

/// One array, with rows along its first axis.
pub(crate) struct NpyRows {
    zip: Arc<Zip>,
    member: String,
    npy: Npy,
    /// The next row, and what reads it.
    reader: Mutex<Option<(u64, Box<dyn Read + Send>)>>,
}

/// Names of arrays that have a row for each sample, in lower case: those of Keras, MedMNIST and
/// scikit-learn.
const OF_ROWS: [&str; 11] =
    ["x", "y", "image", "images", "label", "labels", "data", "target", "targets", "mask", "masks"];

/// Whether a file is a zip of several arrays, one of which is called like images or labels, or like a
/// split: others may be a sample each, and one array alone is the value of a sample.
pub(super) fn has_rows(path: &Path) -> bool {
    let is_of_rows = |name: &str| {
        let is_known = |name: &str| OF_ROWS.contains(&name.to_lowercase().as_str());
        is_known(name) || split_and_rest(name).is_some_and(|(_, rest)| is_known(rest))
    };
    let has_rows = |zip: &Zip| {
        let (mut n, mut n_known) = (0, 0);
        let listed = zip.files::<SourceError>(path, &mut |name, _| {
            if let Some(name) = name.strip_suffix(".npy") {
                n += 1;
                n_known += u64::from(is_of_rows(name));
            }
            Ok(())
        });
        listed.is_ok() && n > 1 && n_known > 0
    };
    open(path, &ArchiveLimits::default()).is_ok_and(|zip| has_rows(&zip))
}

fn open(path: &Path, limits: &ArchiveLimits) -> Result<Zip, SourceError> {
    let file = File::open(path).map_err(|e| SourceError::io("open", path, e))?;
    let window = Window::whole(file).map_err(|e| SourceError::io("read", path, e))?;
    // A member is not one sample here, but all of them.
    let limits = ArchiveLimits { member_bytes: limits.total_bytes, ..*limits };
    Zip::open(path, window, &limits)
}

/// Finds the arrays of a file.
pub(super) fn arrays(path: &Path, limits: &ArchiveLimits) -> Result<Contents, SourceError> {
    let zip = Arc::new(open(path, limits)?);
    let mut members = Vec::new();
    zip.files::<SourceError>(path, &mut |name, bytes| {
        members.push((name.to_owned(), bytes));
        Ok(())
    })?;
    members.sort();
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for (member, bytes) in members {
        let Some(name) = member.strip_suffix(".npy").map(str::to_owned) else { continue };
        let head = head(&zip, &member).map_err(|e| SourceError::io("read", path, e))?;
        let (n, kind) = match Npy::parse(&head) {
            Err(_) => (None, "not numbers of a type that is read"),
            Ok(npy) => match npy.shape.split_first() {
                // A single value has no rows.
                None => (Some(0), "one value"),
                Some((n, _)) if npy.fortran && npy.shape.len() > 1 => {
                    (Some(*n), "stored column by column, which `numpy.ascontiguousarray` changes")
                }
                Some(_)
                    if npy.data_bytes().map(|n| n.saturating_add(npy.data_at)) != Some(bytes) =>
                {
                    (None, "fewer or more than their shape says")
                }
                Some((n, shape)) => {
                    let (dtype, shape) = (npy.dtype, shape.to_vec());
                    let kind = RowKind { dtype, shape, axes: None, nodata: None };
                    let n = *n;
                    let (zip, reader) = (Arc::clone(&zip), Mutex::new(None));
                    let stored = Stored::Npy(NpyRows { zip, member, npy, reader });
                    found.push(Found::of_array(name, n, kind, stored));
                    continue;
                }
            },
        };
        others.push(Unread { name, n, kind });
    }
    Ok(Contents { found, others })
}

/// The first bytes of a member, as many as its header may have.
fn head(zip: &Zip, member: &str) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    zip.reader(member)?.0.take(Npy::HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

impl NpyRows {
    /// The numbers of `n` rows of `row_bytes` each, little-endian; fewer at the end.
    pub(super) fn rows(&self, start: u64, n: u64, row_bytes: u64) -> io::Result<Vec<u8>> {
        let all = self.npy.shape.first().copied().unwrap_or(0);
        let n = n.min(all.saturating_sub(start));
        let mut kept = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut from = match kept.take() {
            Some((next, from)) if next == start => from,
            _ => {
                let before = start.saturating_mul(row_bytes).saturating_add(self.npy.data_at);
                let mut from: Box<dyn Read + Send> = Box::new(self.zip.reader(&self.member)?.0);
                io::copy(&mut from.by_ref().take(before), &mut io::sink())?;
                from
            }
        };
        let bytes = n.saturating_mul(row_bytes);
        let mut values = Vec::new();
        from.by_ref().take(bytes).read_to_end(&mut values)?;
        if values.len() as u64 != bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match start.saturating_add(n) {
            // Its digest is compared when it ends.
            end if end == all => drop(from.read(&mut [0])?),
            next => *kept = Some((next, from)),
        }
        if self.npy.big_endian {
            let number = usize::try_from(self.npy.dtype.size_bytes()).unwrap_or(1);
            values.chunks_exact_mut(number).for_each(<[u8]>::reverse);
        }
        Ok(values)
    }
}
