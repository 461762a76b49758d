//! Tries to write one name until it is known what is stored there.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Writer;
use super::at_origin::{There, TrialError, if_settled};
use super::job::{CompareBy, Compared, IfTaken, Job, Listed, Placed};
use super::put::Put;
use crate::credentials::Refusal;
use crate::error::Attempts;
use crate::retry::{Policy, Retry};
use crate::route::{Place, Route, Verb};
use crate::token::Action;
use crate::{Diagnosis, Error};

/// How one attempt ended.
enum Tried {
    Placed(Placed),
    Again(String, Option<Duration>),
    Failed(String),
}

impl Writer {
    pub(crate) async fn upload_to(&self, job: &Job<'_>) -> Result<Placed, Error> {
        let mut route = self.router.route(job.url, Verb::Write).await?;
        let mut attempts = Attempts::default();
        let mut retry = Retry::new(Policy::UPLOAD, self.options.patience, Instant::now());
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
                retry.moved(Instant::now());
            } else if route.reused && asked.is_some() {
                // The director's earlier answer for another object need not hold now.
                let old = route.places.clone();
                route = self.router.route_anew(job.url, Verb::Write, &route).await;
                turn = if route.places == old { 1 } else { 0 };
            } else {
                // The first one named is the one to write to; others are for when it is dead.
                turn += 1;
            }
            let Some(wait) = asked.and_then(|asked| retry.again(asked, Instant::now())) else {
                let (url, elapsed) = (job.url.to_string(), retry.elapsed(Instant::now()));
                return Err(Error::Failed { action: "write", url, attempts, elapsed });
            };
            sleep(wait).await;
        }
    }

    /// Whether the object need not be looked for before the first PUT: a listing did not have it,
    /// and if it exists by now, the token cannot overwrite it.
    fn is_absent(&self, job: &Job<'_>, route: &Route) -> Result<bool, Error> {
        let namespace = route.namespace.as_ref();
        Ok(job.listed == Listed::Absent
            && self.credentials.diagnosis(job.url, Action::Modify, namespace)?.is_scope())
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
            None => match listed_same(job)? {
                Some(same) => Ok(same),
                None => {
                    let len_known = !job.began.get() && job.listed.has_len(job.local.len);
                    self.compare(job, route, place, len_known).await
                }
            },
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
            Err(TrialError::Passing(fault)) => return Ok(Tried::Again(fault, None)),
            Err(TrialError::Final(error)) => return Err(error),
        }
        let sent_before = job.began.get();
        let (put, began) = self.put(job, route, place).await?;
        job.began.set(sent_before || began);
        if let Put::Failed(why) = put {
            return Ok(Tried::Failed(why));
        }
        // Asking for the digest shows the length, too.
        let len_known = matches!(put, Put::Accepted) && job.compare_by != CompareBy::Size;
        let there = match self.compare(job, route, place, len_known).await {
            Ok(There::Unread) => return self.unread(job, route, place, put, sent_before),
            Ok(there) => there,
            Err(TrialError::Passing(fault)) => return Ok(Tried::Again(fault, None)),
            Err(TrialError::Final(error)) => return Err(error),
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
        let found =
            self.credentials.diagnosis(job.url, Action::Create, route.namespace.as_ref())?;
        Ok(matches!(found, Diagnosis::Unexplained { opaque: false, .. }))
    }

    fn put_denied(&self, job: &Job<'_>, route: &Route, place: &Place, refusal: Refusal) -> Error {
        let namespace = route.namespace.as_ref();
        self.credentials.denied_as(Action::Create, job.url, namespace, &place.server, refusal)
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
                if_settled(self.read_back(job, route, place, *len).await)? == Some(true)
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

/// Compares the file with what a listing says of the object, if it says enough: nobody need be
/// asked. A checksum that differs is no verdict, since the listing may be older than the object.
fn listed_same(job: &Job<'_>) -> Result<Option<There>, Error> {
    let Listed::Summed(len_bytes, theirs) = job.listed else { return Ok(None) };
    if job.began.get() || job.compare_by == CompareBy::Size || len_bytes != job.local.len {
        return Ok(None);
    }
    let is_same = job.local.checksum(theirs, job.watch)? == *theirs;
    Ok(is_same.then_some(There::Same(Compared::Bytes)))
}
