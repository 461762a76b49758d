//! Plain objects: no digest of them is known, so only their servers say which bytes they have.
//!
//! ```text
//! one version (ETag, Last-Modified) ─▶ another one: all again, from the first byte
//!        ▼
//! all bytes ─▶ the checksum that their server tells ─▶ equal: checked
//!                │ none: that of the origin             other: that of the origin, else
//!                │ neither: not checked                  all again, from the origin
//! ```

use std::io;
use std::time::Instant;

use gular_files::Watch;
use hyper::Method;
use tokio::time::sleep;

use crate::checksum::{Algorithm, Checksum, Summer, WANT_DIGEST, digest_patience, parse_digest};
use crate::client::Client;
use crate::error::Attempts;
use crate::http::{Fault, Request, Response, Server};
use crate::reader::Reader;
use crate::reader::checked_blocks::{Joint, Stop, Take};
use crate::reader::wrong_bytes::WrongBytes;
use crate::retry::{Policy, Retry};
use crate::route::{Place, Verb, header, retry_after};
use crate::{Error, Scheme, Token, Url, local};

/// Receives the bytes of a plain object.
pub trait PlainSink {
    /// The next bytes, which begin at `position`.
    ///
    /// # Errors
    /// An error ends the read.
    fn write(&mut self, position: u64, bytes: &[u8]) -> io::Result<()>;

    /// Discards what was written: the object begins again at 0.
    ///
    /// # Errors
    /// An error ends the read.
    fn restart(&mut self) -> io::Result<()>;
}

/// A plain object that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainRead {
    /// The object's length in bytes.
    pub len_bytes: u64,
    /// Whether reading began again at 0.
    pub restarted: bool,
    /// The checksum that proves the bytes, with its server; otherwise, the reason why there is
    /// none.
    pub checked: Result<String, NotChecked>,
}

/// Why the bytes of a plain object were not compared with a checksum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotChecked {
    /// The caller has a digest of its own.
    #[error("the checksum was not requested")]
    NotRequested,
    /// All the bytes were there before.
    #[error("nothing was read")]
    NothingRead,
    /// The director names nobody who could be asked.
    #[error("the director names no server that reports a checksum")]
    NoServer,
    /// The server cannot be reached.
    #[error("`{server}` took no connection a short time ago")]
    NoConnection {
        /// The server.
        server: String,
    },
    /// The server reports no checksum.
    #[error("`{server}` reports no checksum")]
    NoChecksum {
        /// The server.
        server: String,
    },
    /// The server reports a checksum of a kind that the bytes were not summed with.
    #[error("`{server}` reports a checksum that cannot be used")]
    Unusable {
        /// The server.
        server: String,
    },
}

impl Client {
    /// Reads the object at `url` from byte `from` on; `from` must be 0 if `len` is not known.
    ///
    /// All bytes are of one version: if a server has another version than those before, reading
    /// begins again. With `check` the bytes are compared at the end with the checksum that their
    /// server reports; if it reports none or another one, with the origin's. Without it, or if `from` is not 0, nothing is
    /// compared, since the caller has a digest.
    ///
    /// # Errors
    /// Those of [`Client::stream`]; [`Error::Corrupt`] if the origin's bytes do not have the
    /// checksum that it reports.
    pub fn read_plain(
        &self,
        url: &Url,
        from: u64,
        len: Option<u64>,
        check: bool,
        sink: &mut dyn PlainSink,
        watch: Watch<'_>,
    ) -> Result<PlainRead, Error> {
        let mut take = Plain::new(url, sink, from, len, check);
        if url.scheme() == Scheme::File {
            local::read(url, &mut take, watch)?;
            return Ok(take.done(Ok("the file itself".to_owned())));
        }
        self.block(watch, async {
            self.0.reader.transfer(url, &mut take).await?;
            if !check || from > 0 {
                return Ok(take.done(Err(NotChecked::NotRequested)));
            }
            let mut doubts = Attempts::default();
            let direct = url.direct();
            let has_origin = url.scheme() == Scheme::Pelican && !url.is_direct();
            let told = self.0.reader.checksum_of(url, &take, &mut doubts).await?;
            // A cache may tell another object's checksum, or none before it has all of the object:
            // the origin knows better.
            let one = self.0.options.only_cache.is_some();
            let of_origin = match &told {
                Sum::Same(_) => false,
                Sum::None(_) => has_origin && (one || !self.0.router.routes.only_preferred()),
                Sum::Other => has_origin,
            };
            let judged = match of_origin {
                true => match (self.0.reader.checksum_of(&direct, &take, &mut doubts).await?, told)
                {
                    (Sum::None(_), told) => told,
                    (judged, _) => judged,
                },
                false => told,
            };
            let corrupt = |attempts| Err(Error::Corrupt { url: url.to_string(), attempts });
            match judged {
                Sum::Same(whose) => return Ok(take.done(Ok(whose))),
                Sum::None(why) => return Ok(take.done(Err(why))),
                // Only the one cache may be read from.
                Sum::Other if one || !has_origin => return corrupt(doubts),
                Sum::Other => {}
            }
            let liar = take.server.clone();
            take.restart()?;
            match self.0.reader.transfer(&direct, &mut take).await {
                Ok(()) => {}
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                // The origin is down, and may have the right bytes.
                Err(error) if error.is_passing() => return Err(error),
                // The origin does not allow reads: the bytes cannot be confirmed.
                Err(_) => return corrupt(doubts),
            }
            match self.0.reader.checksum_of(&direct, &take, &mut doubts).await? {
                Sum::Same(whose) => {
                    if let Some(liar) = liar {
                        self.0.reader.servers.gave_wrong(&liar, url);
                    }
                    Ok(take.done(Ok(whose)))
                }
                Sum::None(why) => Ok(take.done(Err(why))),
                Sum::Other => corrupt(doubts),
            }
        })
    }
}

/// The result of comparing a server's checksum with the received bytes.
enum Sum {
    /// They are equal; the text names the checksum and its server.
    Same(String),
    Other,
    /// The object has no checksum.
    None(NotChecked),
}

impl Reader {
    /// Compares the bytes with the checksum of the server that gave the last of them; of
    /// the origin, where `url` names that.
    async fn checksum_of(
        &self,
        url: &Url,
        take: &Plain<'_>,
        doubts: &mut Attempts,
    ) -> Result<Sum, Error> {
        let Ok(route) = self.router.route(url, Verb::Read).await else {
            return Ok(Sum::None(NotChecked::NoServer));
        };
        let gave = |place: &&Place| Some(&place.server) == take.server.as_ref();
        let Some(place) = route.places.iter().find(gave).or(route.places.first()) else {
            return Ok(Sum::None(NotChecked::NoServer));
        };
        let server = &place.server;
        let named = || server.to_string();
        let now = Instant::now();
        let unreachable = self.servers.unreachable_for(server, now).is_some();
        if self.servers.is_cooling(server, now) && unreachable {
            return Ok(Sum::None(NotChecked::NoConnection { server: named() }));
        }
        let token = self.credentials.read_token(url, route.namespace.as_ref()).await?;
        let told = self.ask_for_checksum(url, place, token.as_ref(), take.position).await;
        Ok(match told {
            Some((_, false)) => {
                doubts.add(server, format!("its length differs from {}", take.position));
                Sum::Other
            }
            Some((Some(theirs), true)) => match take.sum_like(&theirs) {
                Some(ours) if ours == theirs => Sum::Same(format!("{theirs} of `{server}`")),
                Some(ours) => {
                    doubts.add(
                        server,
                        format!("the received bytes have {ours}, but the server reports {theirs}"),
                    );
                    Sum::Other
                }
                None => Sum::None(NotChecked::Unusable { server: named() }),
            },
            _ => Sum::None(NotChecked::NoChecksum { server: named() }),
        })
    }

    /// Asks a server for the checksum of an object of which `len` bytes were read, more than once if
    /// it fails: without a checksum, wrong bytes would not be noticed. Also returns whether the
    /// object has this length; `None` if the server did not answer the question.
    async fn ask_for_checksum(
        &self,
        url: &Url,
        place: &Place,
        token: Option<&Token>,
        len: u64,
    ) -> Option<(Option<Checksum>, bool)> {
        let server = &place.server;
        let request = |place: &Place, ours: bool| {
            let mut request = Request::new(Method::HEAD, &place.server, place.target.as_str())
                .header(header("want-digest"), WANT_DIGEST)
                .token(token.filter(|_| ours));
            request.patience = Some(digest_patience(len));
            request
        };
        let mut retry = Retry::new(Policy::CHECKSUM, self.options.patience / 18, Instant::now());
        loop {
            let asked = match self.router.send_following(url, place, request).await {
                Ok(response) => {
                    self.servers.answered(server);
                    let (status, asked) = (response.status, retry_after(&response));
                    let same_len = response.content_length().is_none_or(|n| n == len);
                    let checksum = response.header("digest").and_then(parse_digest);
                    response.finish().await;
                    match status {
                        200 => {
                            self.servers.gives_checksums(server, true);
                            return Some((checksum, same_len));
                        }
                        408 | 429 | 500 | 502..=504 => asked,
                        _ => return None,
                    }
                }
                Err(Fault::Tls(..)) => return None,
                Err(fault) => {
                    self.servers.cool_down(server, Instant::now());
                    if fault.is_connection() {
                        self.servers.unreachable(server, Instant::now());
                    }
                    None
                }
            };
            let worth = self.servers.may_give_checksums(server);
            let Some(wait) = retry.again(asked, Instant::now()).filter(|_| worth) else {
                self.servers.gives_checksums(server, false);
                return None;
            };
            sleep(wait).await;
        }
    }
}

/// The values by which versions of an object differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Version {
    etag: Option<String>,
    modified: Option<String>,
    len: Option<u64>,
}

impl Version {
    fn of(response: &Response) -> Self {
        let text = |name| response.header(name).map(|value| value.trim().to_owned());
        let etag = text("etag").map(|tag| tag.trim_start_matches("W/").to_owned());
        // For a range, the whole length follows the slash.
        let range = response.header("content-range");
        let whole = range.and_then(|range| range.rsplit_once('/')?.1.trim().parse().ok());
        let len = if response.status == 206 { whole } else { response.content_length() };
        Self { etag, modified: text("last-modified"), len }
    }

    /// Whether two answers are of different versions. Servers that report different values are
    /// compared by those that both report.
    fn differs(&self, other: &Self) -> bool {
        let tags = (&self.etag, &other.etag);
        let dates = (&self.modified, &other.modified);
        let by =
            |pair: (&Option<String>, &Option<String>)| Some(pair.0.as_ref()? != pair.1.as_ref()?);
        let lens = self.len.zip(other.len).is_some_and(|(a, b)| a != b);
        // Dates first: a cache has its own tags for the origin's object.
        let same_date = by(dates) == Some(false);
        lens || by(dates) == Some(true) || (!same_date && by(tags) == Some(true))
    }
}

/// Passes bytes on as they come, all of one version.
struct Plain<'a> {
    url: &'a Url,
    sink: &'a mut dyn PlainSink,
    position: u64,
    /// The length that the caller expects, and the one that the servers report.
    expected: Option<u64>,
    len: Option<u64>,
    /// Whether the bytes are compared with a server's checksum at the end.
    check: bool,
    version: Option<Version>,
    /// The server that sent the last bytes.
    server: Option<Server>,
    sums: Vec<Summer>,
    restarted: bool,
}

const SUMS: [Algorithm; 4] =
    [Algorithm::Crc32c, Algorithm::Md5, Algorithm::Crc32, Algorithm::Adler32];

impl<'a> Plain<'a> {
    fn new(
        url: &'a Url,
        sink: &'a mut dyn PlainSink,
        position: u64,
        expected: Option<u64>,
        check: bool,
    ) -> Self {
        let (version, server, len) = (None, None, expected);
        let (sums, restarted) = (Vec::new(), false);
        let mut plain =
            Self { url, sink, position, expected, len, check, version, server, sums, restarted };
        if position == 0 {
            plain.sums = plain.new_sums();
        }
        plain
    }

    fn new_sums(&self) -> Vec<Summer> {
        if self.check { SUMS.map(Summer::new).into() } else { Vec::new() }
    }

    fn restart(&mut self) -> Result<(), Error> {
        (self.position, self.len, self.version) = (0, self.expected, None);
        (self.sums, self.restarted) = (self.new_sums(), true);
        let url = self.url;
        self.sink.restart().map_err(|source| Error::Sink { url: url.to_string(), source })
    }

    fn sum_like(&self, like: &Checksum) -> Option<Checksum> {
        let sums = self.sums.iter().map(|sum| sum.clone().finish());
        sums.into_iter().find(|sum| sum.algorithm == like.algorithm)
    }

    fn done(self, checked: Result<String, NotChecked>) -> PlainRead {
        PlainRead { len_bytes: self.position, restarted: self.restarted, checked }
    }
}

impl Take for Plain<'_> {
    fn begin(&mut self, response: &Response) -> Result<Joint, Error> {
        let found = Version::of(response);
        let changed = self.version.as_ref().is_some_and(|version| version.differs(&found));
        self.server = Some(response.server().clone());
        if changed && self.position > 0 {
            self.restart()?;
            return Ok(Joint::Restarts);
        }
        self.len = self.len.or(found.len);
        self.version = Some(found);
        Ok(Joint::Continues)
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn len(&self) -> Option<u64> {
        self.len
    }

    fn limit(&self) -> u64 {
        self.len.unwrap_or(u64::MAX)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let end = self.position.saturating_add(bytes.len() as u64);
        if self.len.is_some_and(|len| end > len) {
            return Err(Stop::Refused(WrongBytes::Longer));
        }
        self.sums.iter_mut().for_each(|sum| sum.update(bytes));
        let url = self.url;
        self.sink
            .write(self.position, bytes)
            .map_err(|source| Stop::Failed(Error::Sink { url: url.to_string(), source }))?;
        self.position = end;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn rewind(&mut self) {
        // If the server does not say the length, a read cannot resume in the middle. A sink
        // that cannot begin again fails at the next write.
        if self.len.is_none() && self.position > 0 {
            let _ = self.restart();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_by_what_both_servers_tell() {
        let version = |etag: &str, modified: &str, len: Option<u64>| {
            let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            Version { etag: text(etag), modified: text(modified), len }
        };
        let a = version("\"1\"", "Mon", Some(5));
        for (other, differs) in [
            (version("\"1\"", "Mon", Some(5)), false),
            (version("", "", None), false),
            (version("\"1\"", "", None), false),
            (version("\"2\"", "", None), true),
            (version("", "Tue", None), true),
            (version("\"1\"", "Tue", None), true),
            // Another server has another tag, but the same date.
            (version("\"2\"", "Mon", Some(5)), false),
            (version("\"1\"", "Mon", Some(6)), true),
        ] {
            assert_eq!(a.differs(&other), differs, "{other:?}");
            assert_eq!(other.differs(&a), differs, "{other:?}");
        }
    }
}
