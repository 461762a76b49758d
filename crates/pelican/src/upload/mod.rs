//! Uploads objects; an existing object is compared and never overwritten.
//!
//! ```text
//! at the origin there is    we                         which counts as
//! nothing                   PUT, then compare          uploaded
//! the same bytes            do nothing                 identical
//! part of it, growing       wait: another publisher    identical
//! other bytes, still        take the next name (`~1`)  burned by a cut upload
//! what we may not read      PUT: it never overwrites   stored, not read back
//! ```

mod at_origin;
mod file;
mod put;

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gular_files::MAX_RENAMES;
use tokio::time::sleep;

use self::at_origin::There;
pub(crate) use self::file::Local;
use self::put::Put;
use crate::client::{Client, Inner, Refusal};
use crate::error::Attempts;
use crate::local::{self, Likeness};
use crate::retry::{Policy, Retry};
use crate::route::{Place, Route, Verb};
use crate::token::Action;
use crate::{Diagnosis, Error, Scheme, Url};

/// What to do if an object of this name has different bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfTaken {
    /// Fails, for a name that means something to people.
    Refuse,
    /// Take the next name when what lies there is the beginning of the same
    /// bytes, as an interrupted upload leaves it; else fail.
    RenameIfCut,
    /// Take the next name: readers know the content by its digest.
    Rename,
}

/// How the origin's object is compared with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompareBy {
    /// Compares the lengths.
    Size,
    /// Compares the digest that the origin reports; if it reports none, the lengths.
    Digest,
    /// Compares that digest; if the origin reports none, or a different one, reads the object
    /// back.
    #[default]
    Bytes,
}

/// What is known about an object at the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// It has the bytes of the file.
    Bytes,
    /// It has the length of the file.
    Length,
    /// The token may not read it. The origin said that it stored it, or that it has it.
    Nothing,
    /// The token may not read it, and the origin refused to store it, as origins refuse to
    /// overwrite: if the token is good, it is there.
    Presumed,
}

/// A file to upload, and the name that it gets.
#[derive(Debug, Clone, Copy)]
pub struct Upload<'a> {
    /// The file, which nobody may change meanwhile.
    pub from: &'a Path,
    /// The object's name.
    pub to: &'a Url,
    /// What to do if an object of this name has other bytes.
    pub if_taken: IfTaken,
    /// Whether a listing did not have the object, so that it need not be looked for first if the
    /// token cannot overwrite. An object that another publisher began meanwhile is found when the
    /// two are compared.
    pub absent: bool,
    /// How object and file are compared.
    pub compare_by: CompareBy,
}

/// The result of an [`Upload`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// The name under which the bytes are stored: the requested one, or one after it.
    pub url: Url,
    /// The object's length.
    pub len_bytes: u64,
    /// Whether the object existed already.
    pub identical: bool,
    /// How well that is known.
    pub compared: Compared,
}

impl Client {
    /// Uploads a file unless it exists already, and compares the origin's object with it: length,
    /// and digest; if the origin has no digests, by reading back.
    ///
    /// `progress` is called with the number of bytes as they are read; after a failed attempt they
    /// are read again, and it is called with a negative number. With `dry_run` nothing is written,
    /// and the result is what would be.
    ///
    /// # Errors
    /// [`Error::Denied`] (the token needs `storage.create`; without `storage.read` the result is
    /// [`Compared::Nothing`]), [`Error::Taken`], [`Error::Burned`], [`Error::Failed`],
    /// [`Error::Changed`], [`Error::Io`], [`Error::Cancelled`].
    pub fn upload(
        &self,
        upload: &Upload<'_>,
        dry_run: bool,
        progress: &dyn Fn(i64),
        cancel: &AtomicBool,
    ) -> Result<Uploaded, Error> {
        let local = Local::open(upload.from)?;
        let mut found = String::new();
        for (renamed, url) in upload.to.names().enumerate() {
            let done = |identical, compared| {
                Ok(Uploaded { url: url.clone(), len_bytes: local.len, identical, compared })
            };
            let result = if url.scheme() == Scheme::File {
                local_upload(&local, &url, dry_run, progress, cancel)
            } else {
                let job = Job {
                    url: &url,
                    local: &local,
                    if_taken: upload.if_taken,
                    compare_by: upload.compare_by,
                    absent: upload.absent && renamed == 0,
                    dry_run,
                    progress,
                    cancel,
                    began: Cell::new(false),
                    was_405: Cell::new(false),
                };
                self.block(cancel, self.0.upload_to(&job))
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
    pub fn namespace(&self, to: &Url, cancel: &AtomicBool) -> Result<Option<String>, Error> {
        if to.scheme() != Scheme::Pelican {
            return Ok(None);
        }
        self.block(cancel, async {
            // Without a route the upload fails later, and says why.
            let route = self.0.route(to, Verb::Write).await.ok();
            Ok(route.and_then(|route| route.namespace).map(|namespace| namespace.prefix))
        })
    }

    /// Warns, through [`crate::Tell`], if the token for writing `to` expires before `bytes` can be
    /// sent. There is no warning if the time is not known.
    ///
    /// # Errors
    /// [`Error::Cancelled`]; [`Error::Token`].
    pub fn foresee_end(&self, to: &Url, bytes: u64, cancel: &AtomicBool) -> Result<(), Error> {
        if to.scheme() == Scheme::File {
            return Ok(());
        }
        self.block(cancel, async {
            // Without a route the upload fails later, and says why.
            let Ok(route) = self.0.route(to, Verb::Write).await else { return Ok(()) };
            let Some((from, left)) = self.0.time_left(to, route.namespace.as_ref())? else {
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

/// The result for one name.
enum Placed {
    Written(Compared),
    Identical(Compared),
    /// Something else lies there; whether it is the beginning of ours.
    Other {
        known: String,
        cut: bool,
    },
}

fn local_upload(
    local: &Local<'_>,
    url: &Url,
    dry_run: bool,
    progress: &dyn Fn(i64),
    cancel: &AtomicBool,
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
    local::write(url, local.path, &advance, cancel)?;
    judge(true)?.ok_or_else(|| local.changed("the uploaded copy disappeared"))
}

/// One name to be written.
struct Job<'a> {
    url: &'a Url,
    local: &'a Local<'a>,
    if_taken: IfTaken,
    compare_by: CompareBy,
    absent: bool,
    dry_run: bool,
    progress: &'a dyn Fn(i64),
    cancel: &'a AtomicBool,
    /// Whether an attempt has sent any bytes, so that an object of this name is ours.
    began: Cell<bool>,
    /// Whether an attempt was answered with 405.
    was_405: Cell<bool>,
}

/// How one attempt ended.
enum Tried {
    Placed(Placed),
    Again(String, Option<Duration>),
    Failed(String),
}

impl Inner {
    async fn upload_to(&self, job: &Job<'_>) -> Result<Placed, Error> {
        let mut route = self.route(job.url, Verb::Write).await?;
        let mut attempts = Attempts::default();
        let mut retry = Retry::new(Policy::UPLOAD, self.options.patience);
        let mut turn = 0;
        let mut known = self.is_absent(job, &route)?.then_some(There::Nothing);
        loop {
            let Some(place) = route.places.iter().cycle().nth(turn) else {
                let (url, reason) =
                    (job.url.to_string(), "the director names no origin".to_owned());
                return Err(Error::Unsupported { action: "write", url, reason });
            };
            let asked = match self.upload_at(job, &route, place, known.take()).await? {
                Tried::Placed(placed) => return Ok(placed),
                Tried::Again(why, asked) => {
                    attempts.add(&place.server, why);
                    Some(asked)
                }
                Tried::Failed(why) => {
                    attempts.add_lasting(&place.server, why);
                    None
                }
            };
            if job.began.get() {
                // Bytes were sent, which may well take longer than patience lasts. The result is at
                // this origin.
                retry.moved();
            } else if route.reused && asked.is_some() {
                // The director's earlier answer for another object need not hold now.
                let old = route.places.clone();
                route = self.route_anew(job.url, Verb::Write, &route).await;
                turn = if route.places == old { 1 } else { 0 };
            } else {
                // The first one named is the one to write to; others are for when it is dead.
                turn += 1;
            }
            let Some(wait) = asked.and_then(|asked| retry.again(asked)) else {
                let (url, elapsed) = (job.url.to_string(), retry.elapsed());
                return Err(Error::Failed { action: "write", url, attempts, elapsed });
            };
            sleep(wait).await;
        }
    }

    /// Whether the object need not be looked for before the first PUT: a listing did not have it,
    /// and if it exists by now, the token cannot overwrite it.
    fn is_absent(&self, job: &Job<'_>, route: &Route) -> Result<bool, Error> {
        let namespace = route.namespace.as_ref();
        Ok(job.absent && self.diagnosis(job.url, Action::Modify, namespace)?.is_scope())
    }

    async fn upload_at(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
        known: Option<There>,
    ) -> Result<Tried, Error> {
        let there = match known {
            Some(known) => Ok(known),
            None => self.compare(job, route, place, false).await?,
        };
        match there {
            Ok(There::Same(how)) if job.began.get() => return Ok(written(how)),
            Ok(There::Same(how)) => return Ok(identical(how)),
            Ok(There::Collection) => return Ok(is_collection()),
            Ok(other @ There::Other { .. }) => {
                if job.dry_run {
                    return self.other(job, route, place, &other).await;
                }
                // Perhaps another publisher is writing it this moment.
                return match self.settled(job, route, place, other).await? {
                    There::Same(how) => Ok(identical(how)),
                    There::Nothing => {
                        Ok(Tried::Again("the uploaded copy disappeared again".to_owned(), None))
                    }
                    other => self.other(job, route, place, &other).await,
                };
            }
            Ok(There::Nothing | There::Unread) if job.dry_run => {
                return Ok(written(Compared::Nothing));
            }
            Ok(There::Nothing | There::Unread) => {}
            Err(fault) => return Ok(Tried::Again(fault, None)),
        }
        let sent_before = job.began.get();
        let (put, began) = self.put(job, route, place).await?;
        job.began.set(sent_before || began);
        if let Put::Failed(why) = put {
            return Ok(Tried::Failed(why));
        }
        let stored = matches!(put, Put::Accepted);
        let there = match self.compare(job, route, place, stored).await? {
            Ok(There::Unread) => return self.unread(job, route, place, put, sent_before),
            Ok(there) => there,
            Err(fault) => return Ok(Tried::Again(fault, None)),
        };
        Ok(match (put, there) {
            (_, There::Collection) => is_collection(),
            (Put::Exists | Put::Conflict(..) | Put::Refused(_), There::Same(how)) => identical(how),
            (_, There::Same(how)) => written(how),
            (Put::Refused(refusal), There::Nothing) => {
                return Err(self.put_denied(job, route, place, refusal));
            }
            (Put::Accepted, There::Nothing) => Tried::Again(
                "it reported success, but then said that the object does not exist".to_owned(),
                None,
            ),
            (Put::Again(why, after) | Put::Conflict(why, after), There::Nothing) => {
                Tried::Again(why, after)
            }
            (put, other) => {
                // After a cut upload of our own nothing is going to change any more,
                // unless a second publisher is at work: a moment tells.
                let there = self.settled(job, route, place, other).await?;
                match (put, there) {
                    (Put::Accepted, There::Same(how)) => written(how),
                    (_, There::Same(how)) => identical(how),
                    (Put::Again(why, after), There::Nothing) => Tried::Again(why, after),
                    (_, There::Nothing) => {
                        Tried::Again("the uploaded copy disappeared again".to_owned(), None)
                    }
                    (_, other) => return self.other(job, route, place, &other).await,
                }
            }
        })
    }

    /// The result of a PUT if the token does not allow reading the object.
    fn unread(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
        put: Put,
        sent_before: bool,
    ) -> Result<Tried, Error> {
        let exists = |compared| {
            if !sent_before {
                return identical(compared);
            }
            // A trial of ours was cut, so what is there now is what it left.
            let known = "the rest of an interrupted upload".to_owned();
            Tried::Placed(Placed::Other { known, cut: true })
        };
        Ok(match put {
            Put::Accepted => written(Compared::Nothing),
            Put::Exists => exists(Compared::Nothing),
            Put::Conflict(words, after) if is_passing(&words) => Tried::Again(words, after),
            Put::Conflict(..) => exists(Compared::Nothing),
            // XRootD says so of names that exist, and of everything else that is wrong.
            Put::Refused(Refusal { status: 403, .. }) if self.is_sound(job, route)? => {
                exists(Compared::Presumed)
            }
            Put::Refused(refusal) => return Err(self.put_denied(job, route, place, refusal)),
            Put::Again(why, after) => Tried::Again(why, after),
            Put::Failed(why) => Tried::Failed(why),
        })
    }

    /// Whether the token allows writing, as far as it can be read.
    fn is_sound(&self, job: &Job<'_>, route: &Route) -> Result<bool, Error> {
        let found = self.diagnosis(job.url, Action::Create, route.namespace.as_ref())?;
        Ok(matches!(found, Diagnosis::Unexplained { opaque: false, .. }))
    }

    fn put_denied(&self, job: &Job<'_>, route: &Route, place: &Place, refusal: Refusal) -> Error {
        let namespace = route.namespace.as_ref();
        self.denied_as(Action::Create, job.url, namespace, &place.server, refusal)
    }

    /// Describes different bytes: whether they are the beginning of ours.
    async fn other(
        &self,
        job: &Job<'_>,
        route: &Route,
        place: &Place,
        other: &There,
    ) -> Result<Tried, Error> {
        let cut = match other {
            // Another name is tried in any case.
            _ if job.if_taken == IfTaken::Rename => false,
            There::Other { len: Some(len), .. } if *len < job.local.len => {
                matches!(self.read_back(job, route, place, *len).await?, Ok(true))
            }
            _ => false,
        };
        let known = other.known();
        let cut_too = if cut {
            ": only the beginning of this file, as after an interrupted upload"
        } else {
            ""
        };
        Ok(Tried::Placed(Placed::Other { known: format!("{known}{cut_too}"), cut }))
    }
}

fn written(how: Compared) -> Tried {
    Tried::Placed(Placed::Written(how))
}

fn identical(how: Compared) -> Tried {
    Tried::Placed(Placed::Identical(how))
}

fn is_collection() -> Tried {
    Tried::Placed(Placed::Other { known: There::Collection.known(), cut: false })
}

/// Whether the words of a 409 are about the store, and not about the name: "draining", "try again".
fn is_passing(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    ["drain", "try again", "shortly", "retry"].iter().any(|word| words.contains(word))
}
