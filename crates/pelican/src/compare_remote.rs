//! Compares a local file with a remote object without reading the object: by its length, and by the
//! checksum that a server reports.

use std::path::Path;

use gular_files::Watch;
use hyper::Method;

use crate::checksum::{Checksum, WANT_DIGEST, digest_patience, parse_digest};
use crate::client::Client;
use crate::http::Request;
use crate::local::{self, Likeness};
use crate::reader::Reader;
use crate::retry::Policy;
use crate::route::{Place, Verb, header};
use crate::writer::Local;
use crate::{Error, Scheme, Url};

/// How a file compares with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Same {
    /// It has the checksum that a server reports; the text names the checksum and the server.
    Checksum(String),
    /// It has the object's length, and no server reports a checksum.
    Length,
    /// It differs; the text says what is known of the object.
    Other(String),
}

/// What a server reports about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its length in bytes.
    pub len_bytes: Option<u64>,
    /// Its checksum.
    pub checksum: Option<Checksum>,
    /// The server that reported it.
    pub server: String,
}

impl Told {
    /// Compares the file `path` with the object, by what is told.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Cancelled`].
    pub fn compare(&self, path: &Path, watch: Watch<'_>) -> Result<Same, Error> {
        self.compare_with(&Local::open(path)?, watch)
    }

    fn compare_with(&self, local: &Local<'_>, watch: Watch<'_>) -> Result<Same, Error> {
        let Self { len_bytes, checksum, server } = self;
        if let Some(found) = len_bytes.filter(|found| *found != local.len) {
            return Ok(Same::Other(format!("{found} bytes, expected {}", local.len)));
        }
        let Some(theirs) = checksum else { return Ok(Same::Length) };
        let ours = local.checksum(theirs, watch)?;
        Ok(match ours == *theirs {
            true => Same::Checksum(format!("{theirs} of `{server}`")),
            false => Same::Other(format!("`{server}` reports {theirs}, expected {ours}")),
        })
    }
}

impl Client {
    /// Compares the file `path` with the object at `url`.
    ///
    /// A cache may tell another object's checksum, or none before it has all of the object: then
    /// the origin's word counts, where there is an origin that can be asked.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Failed`], [`Error::Io`],
    /// [`Error::Cancelled`].
    pub fn compare(&self, url: &Url, path: &Path, watch: Watch<'_>) -> Result<Same, Error> {
        if url.scheme() == Scheme::File {
            return match local::compare(url, path)? {
                Some(Likeness::Same) => Ok(Same::Checksum("the file itself".to_owned())),
                Some(Likeness::Other(known)) => Ok(Same::Other(known)),
                None => Err(local::stat(url).err().unwrap_or(Error::Cancelled)),
            };
        }
        let local = Local::open(path)?;
        let first = self.compare_with(url, &local, watch)?;
        if matches!(first, Same::Checksum(_)) || !has_origin_behind(url) {
            return Ok(first);
        }
        match self.compare_with(&url.direct(), &local, watch) {
            Err(Error::Cancelled) => Err(Error::Cancelled),
            // A cache that tells of another object may be wrong, which only the origin knows.
            Err(error) if error.is_passing() && matches!(first, Same::Other(_)) => Err(error),
            // The origin may let nobody read, or be down: what the cache tells is known.
            Err(_) => Ok(first),
            second => second,
        }
    }

    /// Asks for length and checksum of the object at `url`, which has about `len_bytes`; if a cache
    /// reports no checksum, asks the origin.
    ///
    /// # Errors
    /// Those of [`Client::compare`].
    pub fn told(&self, url: &Url, len_bytes: u64, watch: Watch<'_>) -> Result<Told, Error> {
        if url.scheme() == Scheme::File {
            let len_bytes = local::stat(url)?.len_bytes;
            return Ok(Told { len_bytes, checksum: None, server: "this machine".to_owned() });
        }
        let first = self.block(watch, self.0.reader.told(url, len_bytes))?;
        if first.checksum.is_some() || !has_origin_behind(url) {
            return Ok(first);
        }
        match self.block(watch, self.0.reader.told(&url.direct(), len_bytes)) {
            Err(Error::Cancelled) => Err(Error::Cancelled),
            Err(_) => Ok(first),
            second => second,
        }
    }

    fn compare_with(&self, url: &Url, local: &Local<'_>, watch: Watch<'_>) -> Result<Same, Error> {
        self.block(watch, self.0.reader.told(url, local.len))?.compare_with(local, watch)
    }
}

/// Whether an origin, which knows the object best, is another server than the one that is asked.
fn has_origin_behind(url: &Url) -> bool {
    url.scheme() == Scheme::Pelican && !url.is_direct()
}

impl Reader {
    async fn told(&self, url: &Url, len: u64) -> Result<Told, Error> {
        let route = self.router.route(url, Verb::Read).await?;
        let asked = |place: &Place| {
            let mut request = Request::new(Method::HEAD, &place.server, place.target.as_str())
                .header(header("want-digest"), WANT_DIGEST);
            request.patience = Some(digest_patience(len));
            request
        };
        let (place, response) = self.first_answer(url, &route, "read", Policy::READ, asked).await?;
        let server = place.server.to_string();
        if matches!(response.status, 200 | 404 | 401 | 403) {
            let checksum = response.header("digest").and_then(parse_digest);
            let stat = self.judge_head(url, &route, &place, response).await?;
            return Ok(Told { len_bytes: stat.len_bytes, checksum, server });
        }
        // Some servers answer HEAD, but refuse it when it asks for a digest.
        response.finish().await;
        let len_bytes = self.head(url).await?.len_bytes;
        Ok(Told { len_bytes, checksum: None, server })
    }
}
