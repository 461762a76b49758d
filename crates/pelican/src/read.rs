//! The verbs that read: each tries the names that an object may have.

use std::ops::Range;

use gular_files::{MAX_RENAMES, Watch};

use crate::client::Client;
use crate::reader::checked_blocks::{Accept, Blocks, Object, Part, Sink, Take, Whole};
use crate::{Error, Scheme, Url, local};

impl Client {
    /// Reads the blocks with these numbers, as far as the object has them, each accepted before
    /// `sink` has it, in order. No other bytes are asked for.
    ///
    /// If a server dies or stalls, the next one continues at the first missing byte; if it is too
    /// slow, a faster one does. A server whose bytes are refused is not asked again. If all servers
    /// have other bytes, the name was burned by an interrupted upload, and the names `…~1`, `…~2`
    /// are tried; so they are if such an object was removed since.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Corrupt`] when every copy
    /// is refused, [`Error::Failed`] when no server can be reached,
    /// [`Error::Sink`], [`Error::Cancelled`].
    pub fn stream(
        &self,
        object: &Object<'_>,
        blocks: Range<u64>,
        sink: &mut Sink<'_>,
        watch: Watch<'_>,
    ) -> Result<(), Error> {
        let mut take = Blocks::new(*object, sink, blocks);
        self.read_into(object.url, &mut take, watch)
    }

    /// Reads a whole object of at most `limit` bytes into memory, from the first
    /// server and name whose bytes `accepts` takes.
    ///
    /// # Errors
    /// Those of [`Client::stream`]; [`Error::TooLarge`].
    pub fn read(
        &self,
        url: &Url,
        limit: u64,
        accepts: &Accept<'_>,
        watch: Watch<'_>,
    ) -> Result<Vec<u8>, Error> {
        self.read_whole(url, Whole::new(url, limit, accepts, false), watch)
    }

    /// Reads a whole object like [`Client::read`], where `accepts` compares with a digest that the
    /// caller has: a name that is gone is sought under those that replace it, and servers are asked
    /// that a director does not name any more.
    ///
    /// # Errors
    /// Those of [`Client::read`].
    pub fn read_verified(
        &self,
        url: &Url,
        limit: u64,
        accepts: &Accept<'_>,
        watch: Watch<'_>,
    ) -> Result<Vec<u8>, Error> {
        self.read_whole(url, Whole::new(url, limit, accepts, true), watch)
    }

    /// Reads the bytes `range` of an object of `len_bytes` into memory, from the first server and
    /// name whose bytes `accepts` takes. The caller compares them there with digests that it has.
    /// No server is asked for other bytes.
    ///
    /// # Errors
    /// Those of [`Client::stream`].
    pub fn read_range(
        &self,
        url: &Url,
        len_bytes: u64,
        range: Range<u64>,
        accepts: &Accept<'_>,
        watch: Watch<'_>,
    ) -> Result<Vec<u8>, Error> {
        if range.end > len_bytes {
            let (url, found) = (url.to_string(), range.end);
            return Err(Error::TooLarge { url, found, limit: len_bytes });
        }
        let mut take = Part::new(len_bytes, range.clone(), accepts);
        if !range.is_empty() {
            self.read_into(url, &mut take, watch)?;
        }
        Ok(take.into_bytes())
    }

    fn read_whole(
        &self,
        url: &Url,
        mut take: Whole<'_>,
        watch: Watch<'_>,
    ) -> Result<Vec<u8>, Error> {
        self.read_into(url, &mut take, watch)?;
        Ok(take.into_bytes())
    }

    fn read_into(&self, url: &Url, take: &mut dyn Take, watch: Watch<'_>) -> Result<(), Error> {
        self.block(watch, async {
            let (mut first, verified) = (None, take.is_verified());
            for (renamed, url) in (0..).zip(url.names()) {
                let read = match url.scheme() {
                    Scheme::File => local::read(&url, take, watch),
                    _ => self.0.reader.transfer(&url, take).await,
                };
                match read {
                    Ok(()) => return Ok(()),
                    Err(error) => match settle_for(&mut first, error, renamed, verified) {
                        Some(error) => return Err(error),
                        None => take.rewind(),
                    },
                }
            }
            Err(first.unwrap_or(Error::Cancelled))
        })
    }
}

/// Returns the error to report after a name failed, or `None` to try the next; `first` keeps the
/// error of the first name. With `verified` the object must exist, so a name that is gone was
/// burned and has been cleaned up since.
fn settle_for(
    first: &mut Option<Error>,
    error: Error,
    renamed: u32,
    verified: bool,
) -> Option<Error> {
    match error {
        Error::NotFound { .. } if renamed == 0 && verified => {
            *first = Some(error);
            None
        }
        Error::Corrupt { .. } if renamed < MAX_RENAMES => {
            first.get_or_insert(error);
            None
        }
        // The name that was asked for, not the last of its substitutes.
        Error::Corrupt { .. } => Some(first.take().unwrap_or(error)),
        // No other name was ever written, so the error of the first is reported.
        Error::NotFound { .. } if renamed > 0 => Some(first.take().unwrap_or(error)),
        error => Some(error),
    }
}
