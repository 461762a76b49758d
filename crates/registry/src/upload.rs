//! Uploads one blob to a registry, in chunks.
//!
//! ```text
//! HEAD blob ─ 200 ▶ it is there
//! POST uploads (mount) ─ 201 ▶ mounted from another repository
//!        │ 202, Location
//!        ▼
//! PATCH chunk, chunk, … each with a new Location, kept in a file of this machine
//!        │ cut: GET Location ─ 204, Range ▶ go on there
//!        ▼
//! PUT digest ─ 201
//! ```
//!
//! A registry may forget an upload that was cut within a chunk (distribution 2 does); then
//! it begins again.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use gular_files::{Lock, LockMode, keep_waiting, persist, temp_with_mode};
use gular_pelican::{Answered, Exchange, Watch, url_of_location};
use serde::{Deserialize, Serialize};

use crate::answer::{said, uploaded};
use crate::session::{Halt, Registry, Scope, with_query};
use crate::{Blob, Error, OciDigest, Result};

/// Bytes of one request, unless the registry wants more: what is in memory per thread, and
/// what a cut costs.
const CHUNK: u64 = 4 << 20;
/// Largest chunk that a registry may ask for.
const MAX_CHUNK: u64 = 64 << 20;
/// Most bytes that are read of an answer whose body is not used.
const NOTHING: usize = 64 << 10;

/// How a blob got into the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The blob was there already.
    There,
    /// The registry mounted the blob from another repository.
    Mounted,
    /// The blob was sent: bytes of this run, and those that an earlier run had sent.
    Uploaded { bytes: u64, resumed: u64 },
}

/// Sends blobs to the repository of a registry.
pub(crate) struct Uploads<'a> {
    pub(crate) registry: &'a Registry<'a>,
    /// A repository of the same registry that may have them.
    pub(crate) mount_from: Option<&'a str>,
    /// The folder with the state of unfinished uploads.
    pub(crate) dir: PathBuf,
    pub(crate) watch: Watch<'a>,
}

/// The stored state of an upload. Its location may be a secret, so only its owner can read the
/// file.
#[derive(Serialize, Deserialize)]
struct Kept {
    location: String,
    /// Bytes of one request, as the registry wants them; 0 where it said nothing.
    #[serde(default)]
    chunk: u64,
}

/// An unfinished upload.
struct Upload {
    location: String,
    at: u64,
    chunk: u64,
}

impl Uploads<'_> {
    /// Sends a blob unless it is there. `progress` hears how many of its bytes are.
    pub(crate) fn send(&self, blob: &Blob, progress: &dyn Fn(u64)) -> Result<Sent> {
        let _alone = self.alone(blob.digest)?;
        if self.has(blob.digest)? {
            self.forget(blob.digest);
            return Ok(Sent::There);
        }
        let mut upload = self.kept(blob)?;
        let resumed = upload.as_ref().map_or(0, |upload| upload.at);
        let (mut sent, mut cut) = (0, None);
        let became = self.registry.attempts(|progressed| {
            if let Some(Upload { location, chunk, .. }) = cut.take() {
                upload = self.status(&location, blob.len_bytes, chunk)?;
                // The upload was complete, but its answer was lost.
                if upload.is_none() && self.has(blob.digest)? {
                    return Ok(Sent::Uploaded { bytes: sent, resumed });
                }
            }
            let mut current = match upload.take() {
                Some(upload) => upload,
                None => match self.begin(blob.digest)? {
                    Some(upload) => upload,
                    None => return Ok(Sent::Mounted),
                },
            };
            let before = current.at;
            let filled = self.fill(blob, &mut current, &mut sent, progress);
            *progressed = current.at > before;
            cut = Some(current);
            filled.map(|()| Sent::Uploaded { bytes: sent, resumed })
        })?;
        self.forget(blob.digest);
        Ok(became)
    }

    /// Waits while another process sends this blob, since both would continue one upload. If the
    /// folder cannot be written, no state is stored that they could continue from.
    fn alone(&self, digest: OciDigest) -> Result<Option<Lock>> {
        let path = self.file(digest).with_extension("lock");
        let mut keep_waiting = keep_waiting(&self.dir, self.watch.waiting, self.watch.cancel);
        let lock = fs::create_dir_all(&self.dir)
            .ok()
            .and_then(|()| Lock::wait_at(&path, LockMode::Exclusive, &mut keep_waiting).ok());
        match lock {
            Some(None) => Err(Error::Cancelled),
            lock => Ok(lock.flatten().map(Lock::removed_when_dropped)),
        }
    }

    pub(crate) fn has(&self, digest: OciDigest) -> Result<bool> {
        let url = self.registry.blob_url(digest);
        let request = Exchange::new("HEAD", &url);
        let (answer, _) = self.registry.ask(&request, &self.scope(), NOTHING)?;
        match answer.status {
            200..=299 => Ok(true),
            404 => Ok(false),
            _ => Err(self.registry.refused(&url, &answer)),
        }
    }

    /// Begins an upload, or has another repository lend the blob: `None`.
    fn begin(&self, digest: OciDigest) -> Result<Option<Upload>> {
        let mut url = self.registry.url("blobs/uploads/");
        if let Some(from) = self.mount_from {
            url = with_query(&url, &[("mount", &digest.to_string()), ("from", from)]);
        }
        let request = Exchange::new("POST", &url).body(Vec::new());
        let (answer, _) = self.registry.ask(&request, &self.scope(), NOTHING)?;
        match answer.status {
            201 => return Ok(None),
            202 => {}
            _ => return Err(self.registry.refused(&url, &answer)),
        }
        let location = location(&url, &answer).ok_or_else(|| {
            let reason = "the registry does not say where the upload continues";
            self.registry.failed(&url, reason)
        })?;
        Ok(Some(Upload { location, at: 0, chunk: chunk(&answer, CHUNK) }))
    }

    /// Sends the missing bytes, and completes the upload.
    fn fill(
        &self,
        blob: &Blob,
        upload: &mut Upload,
        sent: &mut u64,
        progress: &dyn Fn(u64),
    ) -> Result<(), Halt> {
        while upload.at < blob.len_bytes {
            if self.watch.is_cancelled() {
                return Err(Error::Cancelled.into());
            }
            progress(upload.at);
            self.chunk(blob, upload, sent)?;
        }
        progress(blob.len_bytes);
        let url = with_query(&upload.location, &[("digest", &blob.digest.to_string())]);
        let answer = self.once(&Exchange::new("PUT", url).body(Vec::new()))?;
        match answer.status {
            201 | 204 => Ok(()),
            // The bytes are somebody else's, or those of a file that changed, so the upload must
            // not resume.
            _ => {
                self.forget(blob.digest);
                Err(self.registry.refused(&upload.location, &answer).into())
            }
        }
    }

    fn chunk(&self, blob: &Blob, upload: &mut Upload, sent: &mut u64) -> Result<(), Halt> {
        let end = upload.at.saturating_add(upload.chunk).min(blob.len_bytes);
        let bytes = blob.read(upload.at, end)?;
        let request = Exchange::new("PATCH", &upload.location)
            .header("content-type", "application/octet-stream")
            .header("content-range", format!("{}-{}", upload.at, end - 1))
            .body(bytes);
        let answer = self.once(&request)?;
        match answer.status {
            200..=299 => {}
            // The registry has other bytes than we think, or does not know the upload.
            400 | 404 | 416 => return Err(self.again(upload, said(&answer))),
            _ => return Err(self.registry.refused(&upload.location, &answer).into()),
        }
        *sent += end - upload.at;
        // A registry that took less says where to continue.
        let at = match uploaded(&answer) {
            // Registries say `0-0` if they have no bytes, and if they have one.
            Some(0) if end == 1 => 1,
            at => at.unwrap_or(end),
        };
        if at > end || at <= upload.at {
            let reason = format!("the registry has {at} bytes of the upload, and {end} were sent");
            return Err(self.again(upload, reason));
        }
        upload.at = at;
        if let Some(location) = location(&upload.location, &answer) {
            upload.location = location;
        }
        self.keep(blob.digest, upload);
        Ok(())
    }

    fn again(&self, upload: &Upload, reason: String) -> Halt {
        Halt::Again(self.registry.away(&upload.location, reason), None)
    }

    fn once(&self, request: &Exchange) -> Result<Answered, Halt> {
        self.registry.once(request, &self.scope(), &mut |_| Ok(()))
    }

    /// Asks how many bytes an upload has; `None` if the registry no longer knows it.
    fn status(&self, url: &str, bytes: u64, least: u64) -> Result<Option<Upload>> {
        let (answer, _) = self.registry.ask(&Exchange::new("GET", url), &self.scope(), NOTHING)?;
        if !(200..300).contains(&answer.status) {
            return Ok(None);
        }
        let at = uploaded(&answer).unwrap_or(0);
        let location = location(url, &answer).unwrap_or_else(|| url.to_owned());
        Ok((at <= bytes).then_some(Upload { location, at, chunk: chunk(&answer, least) }))
    }

    /// Returns the upload that an earlier run left at the registry.
    fn kept(&self, blob: &Blob) -> Result<Option<Upload>> {
        let Ok(text) = fs::read(self.file(blob.digest)) else { return Ok(None) };
        let Ok(kept) = serde_json::from_slice::<Kept>(&text) else { return Ok(None) };
        // The location must be as safe as the registry, whoever wrote the file.
        match url_of_location(&self.registry.url(""), &kept.location) {
            Some(location) => self.status(&location, blob.len_bytes, kept.chunk),
            None => Ok(None),
        }
    }

    /// Stores where the upload can resume. If the folder cannot be written, this run is not
    /// affected, and the next one begins again.
    fn keep(&self, digest: OciDigest, upload: &Upload) {
        let kept = Kept { location: upload.location.clone(), chunk: upload.chunk };
        let text = serde_json::to_vec(&kept).unwrap_or_default();
        let _ = fs::create_dir_all(&self.dir).and_then(|()| {
            let temp = temp_with_mode(&self.dir, 0o600)?;
            temp.as_file().write_all_at(&text, 0)?;
            Ok(persist(temp, &self.file(digest))?)
        });
    }

    fn forget(&self, digest: OciDigest) {
        let _ = fs::remove_file(self.file(digest));
    }

    fn file(&self, digest: OciDigest) -> PathBuf {
        let key = blake3::hash(format!("{} {digest}", self.registry.url("")).as_bytes());
        self.dir.join(format!("{}.json", key.to_hex().chars().take(32).collect::<String>()))
    }

    fn scope(&self) -> Scope {
        self.registry.writing(self.mount_from)
    }
}

/// Where an upload continues, by the answer of this URL.
fn location(url: &str, answer: &Answered) -> Option<String> {
    url_of_location(url, answer.header("location")?)
}

/// Bytes of one request: the least that an answer asks for, or what was known before.
fn chunk(answer: &Answered, known: u64) -> u64 {
    let least = answer.header("oci-chunk-min-length").and_then(|text| text.parse().ok());
    least.unwrap_or(known).clamp(CHUNK, MAX_CHUNK)
}
