//! A value of a sample: read, unless it was read ahead, and checked against its digest.

use std::ops::Range;
use std::time::Instant;

use gular_bundle::{Bundle, FieldIdx, SampleEntry, SampleId, Shard};

use super::LoaderError;
use super::ahead::{Ahead, NEVER};
use super::sample_reader::touch;
use super::stats::{Meters, Phase};
use crate::Error;

/// A value of a sample.
pub(super) struct StoredValue<'a> {
    pub(super) shard: &'a Shard,
    pub(super) id: SampleId,
    pub(super) field: FieldIdx,
    /// The entry of the sample in the index.
    pub(super) entry: &'a SampleEntry,
    /// The value's bytes, if they were read already.
    pub(super) read: Option<Vec<u8>>,
    /// Told how long a read took.
    pub(super) ahead: Option<&'a Ahead>,
}

impl StoredValue<'_> {
    /// Returns the value's bytes, or `part` of them, not checked.
    fn view<'a>(
        &'a self,
        part: Option<Range<usize>>,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], gular_bundle::Error> {
        let Self { shard, id, field, entry, .. } = *self;
        match part {
            part if entry.field() == field => shard.view_entry(entry, part, buffer),
            Some(part) => shard.view_part(id.row, field, part, buffer),
            None => shard.view(id.row, field, buffer),
        }
    }

    /// Reads bytes of the value from `start` on into `out`, not checked.
    pub(super) fn read_part(
        &self,
        start: usize,
        out: &mut [u8],
        bundle: &Bundle,
        meters: &Meters,
    ) -> Result<(), Error> {
        let since = Instant::now();
        let mut read = || match self.entry.field() == self.field {
            true => self.shard.read_entry(self.entry, start, out),
            false => self.shard.read_part(self.id.row, self.field, start, out),
        };
        meters.time(Phase::Read, || match read() {
            Err(damaged) if damaged.is_damage() => {
                self.mend(bundle, damaged)?;
                Ok::<_, Error>(read()?)
            }
            read => Ok(read?),
        })?;
        self.note(since, out.len());
        Ok(())
    }

    /// Fetches the blocks of the value again, which are damaged: `error` says how they were found.
    fn mend(&self, bundle: &Bundle, error: gular_bundle::Error) -> Result<(), Error> {
        let cancel = self.ahead.map_or(&NEVER, Ahead::closed);
        match bundle.mend(self.id, self.field, cancel).map_err(LoaderError::Shard)? {
            true => Ok(()),
            false => Err(error.into()),
        }
    }

    /// Whether a part of the value may be read alone.
    pub(super) fn needs_no_check(&self) -> bool {
        self.read.is_none() && self.shard.is_checked(self.id.row, self.field)
    }

    /// Reads the value, unless it was read already, checks it, and calls `job` with it, or with
    /// `part` of it, which is read alone if it needs no check. Returns the number of bytes that
    /// were read, and the result of `job`.
    pub(super) fn with<T>(
        mut self,
        mut part: Option<Range<usize>>,
        bundle: &Bundle,
        buffer: &mut Vec<u8>,
        meters: &Meters,
        job: impl FnOnce(&[u8]) -> T,
    ) -> Result<(usize, T), Error> {
        let alone = part.take_if(|_| self.needs_no_check());
        let stored = match self.read.take() {
            Some(bytes) => {
                *buffer = bytes;
                Ok(&buffer[..])
            }
            None => meters.time(Phase::Read, || {
                let since = Instant::now();
                let stored = self.view(alone.clone(), buffer)?;
                touch(stored);
                self.note(since, stored.len());
                Ok(stored)
            }),
        };
        let Self { shard, id, field, .. } = self;
        let check = |stored| {
            meters.time(Phase::Check, || shard.check(id.row, field, stored)).map(|()| stored)
        };
        let stored = match stored.and_then(check) {
            Err(damaged) if damaged.is_damage() => {
                meters.time(Phase::Read, || {
                    self.mend(bundle, damaged)?;
                    Ok::<_, Error>(shard.read(id.row, field, buffer)?)
                })?;
                // Now all of the value was read.
                part = part.or(alone);
                &buffer[..]
            }
            stored => stored?,
        };
        let len = stored.len();
        // A value that was accepted is as long as its shape says.
        let stored = part.map_or(stored, |part| stored.get(part).unwrap_or_default());
        Ok((len, meters.time(Phase::Decode, || job(stored))))
    }

    fn note(&self, since: Instant, bytes: usize) {
        if let Some(ahead) = self.ahead {
            ahead.note(since.elapsed(), bytes);
        }
    }
}
