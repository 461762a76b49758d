//! Where the rows of an array are in the file.

use crate::Error;
use crate::envelope::FixedPlaces;
use crate::envelope::foreign::hdf5::UNDEFINED;
use crate::envelope::foreign::hdf5::chunks::{Chunks, addresses};
use crate::envelope::foreign::hdf5::dataset::Dataset;
use crate::envelope::foreign::hdf5::file::Hdf5;
use crate::envelope::foreign::hdf5::layout::{ChunkIndex, Layout};

/// The rows of an array, each one stored run.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) n: u64,
    /// Bytes of each row.
    pub(super) size: u64,
    pub(super) places: FixedPlaces,
}

/// Finds the rows of `dataset`. The inner error is the reason why they cannot be read in place.
pub(super) fn rows(file: &Hdf5<'_>, dataset: &Dataset) -> Result<Result<Stored, String>, Error> {
    let path = &dataset.path;
    let Some((n, shape)) = dataset.rows() else {
        return Ok(Err("it holds a single value, expected one value per sample".to_owned()));
    };
    // Rows that are all in the file cannot have more bytes than the file.
    let fits =
        |size: &u64| n.checked_mul((*size).max(1)).is_some_and(|total| total <= file.len_bytes());
    let (size, places) = match (&dataset.layout, dataset.size_of(shape).filter(fits)) {
        (Layout::Other(reason), _) => return Ok(Err(reason.clone())),
        (_, None) => {
            return Ok(Err(format!(
                "not all of its {n} rows were written: the file is too small for them"
            )));
        }
        (Layout::Contiguous { address: UNDEFINED, .. }, Some(size)) if size > 0 => {
            return Ok(Err("it was never written".to_owned()));
        }
        (Layout::Contiguous { address: UNDEFINED, .. }, Some(size)) => {
            (size, FixedPlaces::Stride(0))
        }
        (Layout::Contiguous { address, len }, Some(size)) => {
            let total = n.saturating_mul(size);
            let place = file.place(*address, total).filter(|_| total <= *len).ok_or_else(|| {
                file.bad(format!("the {total} bytes of `{path}` at address {address} are missing"))
            })?;
            (size, FixedPlaces::Stride(place))
        }
        (Layout::Chunked { shape: chunk, index }, Some(size)) => {
            match chunked(file, dataset, size, chunk, *index)? {
                Ok(offsets) => (size, FixedPlaces::Offsets(offsets)),
                Err(reason) => return Ok(Err(reason)),
            }
        }
    };
    Ok(Ok(Stored { n, size, places }))
}

/// Finds rows in chunks. Each row is one range of bytes if chunks have whole rows.
fn chunked(
    file: &Hdf5<'_>,
    dataset: &Dataset,
    size: u64,
    chunk: &[u64],
    index: ChunkIndex,
) -> Result<Result<Vec<u64>, String>, Error> {
    let bad = || file.bad(format!("the chunks of `{}` are damaged", dataset.path));
    let (n, row) = dataset.rows().ok_or_else(bad)?;
    let (per_chunk, whole) = chunk.split_first().ok_or_else(bad)?;
    if whole != row {
        return Ok(Err(format!("its chunks of {chunk:?} split its samples of {row:?}")));
    }
    let by_number = matches!(
        index,
        ChunkIndex::Implicit(_) | ChunkIndex::FixedArray(_) | ChunkIndex::ExtensibleArray(_)
    );
    if dataset.is_wide && by_number {
        return Ok(Err(
            "its samples were declared as able to grow, which changes how its chunks are numbered"
                .to_owned(),
        ));
    }
    let n_chunks = n.checked_add(*per_chunk).and_then(|n| n.checked_sub(1));
    let n_chunks = n_chunks.and_then(|n| n.checked_div(*per_chunk)).ok_or_else(bad)?;
    let chunks = Chunks {
        n: usize::try_from(n_chunks).map_err(|_| bad())?,
        rows: *per_chunk,
        len: per_chunk.checked_mul(size).ok_or_else(bad)?,
        rank: chunk.len(),
    };
    let mut offsets = Vec::with_capacity(usize::try_from(n).unwrap_or(0));
    for (i, address) in addresses(file, index, chunks)?.into_iter().enumerate() {
        if address == UNDEFINED {
            return Ok(Err(format!("its chunk {i} was never written")));
        }
        let start = file.place(address, chunks.len).ok_or_else(|| {
            file.bad(format!("chunk {i} of `{}` at address {address} is missing", dataset.path))
        })?;
        let left = n.saturating_sub((i as u64).saturating_mul(*per_chunk));
        let rows = 0..left.min(*per_chunk);
        offsets.extend(rows.map(|r| start.saturating_add(r.saturating_mul(size))));
    }
    Ok(Ok(offsets))
}

impl Stored {
    /// Returns the first byte of row `i`.
    pub(super) fn offset(&self, i: u64) -> Option<u64> {
        match &self.places {
            FixedPlaces::Stride(start) => i.checked_mul(self.size)?.checked_add(*start),
            FixedPlaces::Offsets(offsets) => offsets.get(usize::try_from(i).ok()?).copied(),
        }
    }

    /// Reads all rows; adjacent rows are read together.
    pub(super) fn read(&self, file: &Hdf5<'_>) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut run: Option<(u64, u64)> = None;
        for i in 0..self.n {
            let start = self.offset(i).ok_or_else(|| file.bad("a row is missing"))?;
            run = match run {
                Some((first, end)) if end == start => Some((first, end.saturating_add(self.size))),
                done => {
                    read_run(file, done, &mut bytes)?;
                    Some((start, start.saturating_add(self.size)))
                }
            };
        }
        read_run(file, run, &mut bytes)?;
        Ok(bytes)
    }
}

fn read_run(file: &Hdf5<'_>, run: Option<(u64, u64)>, bytes: &mut Vec<u8>) -> Result<(), Error> {
    if let Some((start, end)) = run {
        bytes.extend(file.raw(start, end.saturating_sub(start))?);
    }
    Ok(())
}
