//! The verbs that write.

use std::cell::Cell;
use std::time::Duration;

use gular_files::{MAX_RENAMES, Watch};

use crate::client::Client;
use crate::local::{self, Likeness};
use crate::route::Verb;
use crate::writer::Local;
use crate::writer::job::{Compared, IfTaken, Job, Listed, Placed, Upload, Uploaded};
use crate::{Error, Scheme, Url};

impl Client {
    /// Uploads a file unless it exists already, and compares the origin's object with it: length,
    /// and digest; if the origin has no digests, by reading back.
    ///
    /// The progress is that of this file; after a failed attempt it goes back, since the bytes are
    /// read again. With `dry_run` nothing is written, and the result is what would be.
    ///
    /// # Errors
    /// [`Error::Denied`] (the token needs `storage.create`; without `storage.read` the result is
    /// [`Compared::Nothing`]), [`Error::Taken`], [`Error::Burned`], [`Error::Failed`],
    /// [`Error::Changed`], [`Error::Io`], [`Error::Cancelled`].
    pub fn upload(
        &self,
        upload: &Upload<'_>,
        dry_run: bool,
        watch: Watch<'_>,
    ) -> Result<Uploaded, Error> {
        let local = Local::open(upload.from)?;
        let done = Cell::new(0_u64);
        let progress = &|n: i64| {
            done.set(done.get().saturating_add_signed(n));
            (watch.progress)(done.get(), local.len);
        };
        let mut found = String::new();
        for (renamed, url) in upload.to.names().enumerate() {
            let done = |identical, compared| {
                Ok(Uploaded { url: url.clone(), len_bytes: local.len, identical, compared })
            };
            let result = if url.scheme() == Scheme::File {
                local_upload(&local, &url, dry_run, progress, watch)
            } else {
                let job = Job {
                    url: &url,
                    local: &local,
                    if_taken: upload.if_taken,
                    compare_by: upload.compare_by,
                    listed: if renamed == 0 { upload.listed } else { Listed::Unknown },
                    dry_run,
                    progress,
                    watch,
                    began: Cell::new(false),
                    was_405: Cell::new(false),
                };
                self.block(watch, self.0.writer.upload_to(&job))
            };
            match result? {
                Placed::Written(compared) => return done(false, compared),
                Placed::Identical(compared) => {
                    progress(i64::try_from(local.len).unwrap_or(i64::MAX));
                    return done(true, compared);
                }
                Placed::Other { known, cut } => {
                    let rename = match upload.if_taken {
                        IfTaken::Rename => true,
                        IfTaken::RenameIfCut => cut,
                        IfTaken::Refuse => false,
                    };
                    if !rename {
                        return Err(Error::Taken { url: url.to_string(), found: known });
                    }
                    found = known;
                }
            }
        }
        Err(Error::Burned { url: upload.to.to_string(), tried: MAX_RENAMES, found })
    }
}

/// The best rate of an upload between two sites, in bytes per second, to estimate its time.
const GOOD_RATE: u64 = 100_000_000;

impl Client {
    /// Asks for the namespace that `to` belongs to, such as `/mylab`; `None` outside a federation,
    /// and if no director says.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn namespace(&self, to: &Url, watch: Watch<'_>) -> Result<Option<String>, Error> {
        if to.scheme() != Scheme::Pelican {
            return Ok(None);
        }
        self.block(watch, async {
            // Without a route the upload fails later, and says why.
            let route = self.0.router.route(to, Verb::Write).await.ok();
            Ok(route.and_then(|route| route.namespace).map(|namespace| namespace.prefix))
        })
    }

    /// Warns, through [`crate::Tell`], if the token for writing `to` expires before `bytes` can be
    /// sent. There is no warning if the time is not known.
    ///
    /// # Errors
    /// [`Error::Cancelled`]; [`Error::Token`].
    pub fn foresee_end(&self, to: &Url, bytes: u64, watch: Watch<'_>) -> Result<(), Error> {
        if to.scheme() == Scheme::File {
            return Ok(());
        }
        self.block(watch, async {
            // Without a route the upload fails later, and says why.
            let Ok(route) = self.0.router.route(to, Verb::Write).await else { return Ok(()) };
            let Some((from, left)) = self.0.credentials.time_left(to, route.namespace.as_ref())?
            else {
                return Ok(());
            };
            let needed = Duration::from_secs(bytes / GOOD_RATE);
            if needed > left {
                let minutes = |span: Duration| span.as_secs().div_ceil(60);
                self.0.options.tell.say(&format!(
                    "the token from {from} expires in {} min, but sending takes {} min even at 100 \
                    MB/s: renew the token in its file, or get one that lasts longer; what was sent \
                    is kept",
                    minutes(left),
                    minutes(needed)
                ));
            }
            Ok(())
        })
    }
}

fn local_upload(
    local: &Local<'_>,
    url: &Url,
    dry_run: bool,
    progress: &dyn Fn(i64),
    watch: Watch<'_>,
) -> Result<Placed, Error> {
    let judge = |written| -> Result<Option<Placed>, Error> {
        Ok(match local::compare(url, local.path)? {
            None => None,
            Some(Likeness::Same) if written => Some(Placed::Written(Compared::Bytes)),
            Some(Likeness::Same) => Some(Placed::Identical(Compared::Bytes)),
            // A local upload is atomic, so what differs was never a beginning.
            Some(Likeness::Other(known)) => Some(Placed::Other { known, cut: false }),
        })
    };
    if let Some(placed) = judge(false)? {
        return Ok(placed);
    }
    if dry_run {
        return Ok(Placed::Written(Compared::Nothing));
    }
    let advance = |n: u64| progress(i64::try_from(n).unwrap_or(i64::MAX));
    local::write(url, local.path, &advance, watch)?;
    judge(true)?.ok_or_else(|| local.changed("the uploaded copy disappeared"))
}
