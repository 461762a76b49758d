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

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use gular_files::{Lock, LockMode, SAY_AFTER, persist, temp_with_mode};
use serde::{Deserialize, Serialize};

use super::answer::uploaded;
use super::origin::next;
use super::session::{Halt, Scope, again, form};
use super::{Answer, Method, Registry, Request};
use crate::blob::{Blob, Held};
use crate::image_watch::{ImageWatch, Note};
use crate::{Error, OciDigest, Result, Sha256};

/// Bytes of one request, unless the registry wants more: what is in memory per thread, and
/// what a cut costs.
const CHUNK: u64 = 4 << 20;
/// Largest chunk that a registry may ask for.
const MAX_CHUNK: u64 = 64 << 20;
/// The configuration of an artifact, which needs none.
pub(super) const EMPTY: &[u8] = b"{}";
/// Most bytes that are read of an answer whose body is not used.
const NOTHING: usize = 64 << 10;

/// How a blob got into the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// The blob was there already.
    There,
    /// The registry mounted the blob from another repository.
    Mounted,
    /// The blob was sent: bytes of this run, and those that an earlier run had sent.
    Uploaded { bytes: u64, resumed: u64 },
}

/// Sends blobs to one repository.
pub(super) struct Uploads<'a> {
    pub(super) registry: &'a Registry<'a>,
    pub(super) repository: &'a str,
    /// A repository of the same registry that may have them.
    pub(super) mount_from: Option<&'a str>,
    /// The folder with the state of unfinished uploads.
    pub(super) dir: PathBuf,
    pub(super) watch: &'a dyn ImageWatch,
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

enum Begun {
    Mounted,
    At(Upload),
}

impl Uploads<'_> {
    /// Sends a blob unless it is there. `progress` hears how many of its bytes are.
    pub(super) fn send(&self, blob: &Blob, progress: &dyn Fn(u64)) -> Result<Sent> {
        let _alone = self.alone(blob.digest)?;
        if self.has(blob.digest)? {
            self.forget(blob.digest);
            return Ok(Sent::There);
        }
        let mut trials = self.registry.wire().trials();
        let mut upload = self.kept(blob)?;
        let resumed = upload.as_ref().map_or(0, |upload| upload.at);
        let mut sent = 0;
        loop {
            let mut current = match upload.take() {
                Some(upload) => upload,
                None => match self.begin(blob.digest)? {
                    Begun::Mounted => return Ok(Sent::Mounted),
                    Begun::At(upload) => upload,
                },
            };
            let before = current.at;
            let (reason, asked) = match self.fill(blob, &mut current, &mut sent, progress) {
                Ok(()) => {
                    self.forget(blob.digest);
                    return Ok(Sent::Uploaded { bytes: sent, resumed });
                }
                Err(Cut::Fatal(error)) => return Err(error),
                Err(Cut::Passing(reason, asked)) => (reason, asked),
            };
            if current.at > before {
                trials.progressed();
            }
            if !again(&mut *trials, asked)? {
                return Err(self.registry.away(&self.url("blobs/uploads/"), reason));
            }
            upload = self.status(&current.location, blob.bytes, current.chunk)?;
            // The upload was complete, but its answer was lost.
            if upload.is_none() && self.has(blob.digest)? {
                self.forget(blob.digest);
                return Ok(Sent::Uploaded { bytes: sent, resumed });
            }
        }
    }

    /// Waits while another process sends this blob, since both would continue one upload. If the
    /// folder cannot be written, no state is stored that they could continue from.
    fn alone(&self, digest: OciDigest) -> Result<Option<Lock>> {
        let path = self.file(digest).with_extension("lock");
        let mut said = false;
        let mut keep_waiting = |time| {
            if time >= SAY_AFTER && !said {
                said = true;
                self.watch.note(&Note::Waiting(&self.dir));
            }
            !self.watch.cancel().load(Ordering::Relaxed)
        };
        let lock = fs::create_dir_all(&self.dir)
            .ok()
            .and_then(|()| Lock::wait_at(&path, LockMode::Exclusive, &mut keep_waiting).ok());
        match lock {
            Some(None) => Err(Error::Cancelled),
            lock => Ok(lock.flatten().map(Lock::removed_when_dropped)),
        }
    }

    pub(super) fn has(&self, digest: OciDigest) -> Result<bool> {
        let url = self.url(&format!("blobs/{digest}"));
        let request = Request::new(Method::Head, &url);
        let (answer, _) = self.registry.ask(&request, &self.scope(), NOTHING)?;
        match answer.status {
            200..=299 => Ok(true),
            404 => Ok(false),
            _ => Err(self.registry.refused(&url, &answer)),
        }
    }

    /// Begins an upload, or has another repository lend the blob.
    fn begin(&self, digest: OciDigest) -> Result<Begun> {
        let digest = digest.to_string();
        let fields = self.mount_from.map(|from| [("mount", digest.as_str()), ("from", from)]);
        let query = fields.map_or_else(String::new, |fields| format!("?{}", form(&fields)));
        let url = self.url(&format!("blobs/uploads/{query}"));
        let request = Request::new(Method::Post, &url).body(Vec::new());
        let (answer, _) = self.registry.ask(&request, &self.scope(), NOTHING)?;
        if answer.status == 201 {
            return Ok(Begun::Mounted);
        }
        if answer.status != 202 {
            return Err(self.registry.refused(&url, &answer));
        }
        let location = self.location(&url, &answer)?;
        Ok(Begun::At(Upload { location, at: 0, chunk: chunk(&answer, CHUNK) }))
    }

    /// Sends the missing bytes, and completes the upload.
    fn fill(
        &self,
        blob: &Blob,
        upload: &mut Upload,
        sent: &mut u64,
        progress: &dyn Fn(u64),
    ) -> Result<(), Cut> {
        while upload.at < blob.bytes {
            if self.watch.cancel().load(Ordering::Relaxed) {
                return Err(Cut::Fatal(Error::Cancelled));
            }
            progress(upload.at);
            self.chunk(blob, upload, sent)?;
        }
        progress(blob.bytes);
        let mark = if upload.location.contains('?') { '&' } else { '?' };
        let digest = blob.digest.to_string();
        let url = format!("{}{mark}{}", upload.location, form(&[("digest", &digest)]));
        let answer = self.trial(&Request::new(Method::Put, url).body(Vec::new()))?;
        match answer.status {
            201 | 204 => Ok(()),
            // The bytes are somebody else's, or those of a file that changed, so the upload must
            // not resume.
            _ => {
                self.forget(blob.digest);
                Err(Cut::Fatal(self.registry.refused(&upload.location, &answer)))
            }
        }
    }

    fn chunk(&self, blob: &Blob, upload: &mut Upload, sent: &mut u64) -> Result<(), Cut> {
        let end = upload.at.saturating_add(upload.chunk).min(blob.bytes);
        let bytes = blob.read(upload.at, end).map_err(Cut::Fatal)?;
        let range = format!("{}-{}", upload.at, end - 1);
        let request = Request::new(Method::Patch, &upload.location)
            .header("content-type", "application/octet-stream")
            .header("content-range", range)
            .body(bytes);
        let answer = self.trial(&request)?;
        match answer.status {
            200..=299 => {}
            // The registry has other bytes than we think, or does not know the upload.
            400 | 404 | 416 => return Err(Cut::Passing(answer.said(), None)),
            _ => return Err(Cut::Fatal(self.registry.refused(&upload.location, &answer))),
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
            return Err(Cut::Passing(reason, None));
        }
        upload.at = at;
        upload.location =
            self.location(&upload.location, &answer).unwrap_or_else(|_| upload.location.clone());
        self.keep(blob.digest, upload);
        Ok(())
    }

    /// Sends a request once. If the registry refuses it for a while, the upload resumes later from
    /// where it is then.
    fn trial(&self, request: &Request) -> Result<Answer, Cut> {
        match self.registry.once(request, &self.scope(), &mut |_| Ok(())) {
            Ok(answer) if answer.passes() => Err(Cut::Passing(answer.said(), answer.retry_after)),
            Ok(answer) => Ok(answer),
            Err(Halt::Passing(reason)) => Err(Cut::Passing(reason, None)),
            Err(Halt::Sink(e)) => Err(Cut::Passing(e.to_string(), None)),
            Err(Halt::Fatal(error)) => Err(Cut::Fatal(error)),
        }
    }

    /// Asks how many bytes an upload has; `None` if the registry no longer knows it.
    fn status(&self, location: &str, bytes: u64, least: u64) -> Result<Option<Upload>> {
        let request = Request::new(Method::Get, location);
        let (answer, _) = self.registry.ask(&request, &self.scope(), NOTHING)?;
        if !(200..300).contains(&answer.status) {
            return Ok(None);
        }
        let at = uploaded(&answer).unwrap_or(0);
        let location = self.location(location, &answer).unwrap_or_else(|_| location.to_owned());
        Ok((at <= bytes).then_some(Upload { location, at, chunk: chunk(&answer, least) }))
    }

    /// Returns the upload that an earlier run left at the registry.
    fn kept(&self, blob: &Blob) -> Result<Option<Upload>> {
        let Ok(text) = fs::read(self.file(blob.digest)) else { return Ok(None) };
        let Ok(kept) = serde_json::from_slice::<Kept>(&text) else { return Ok(None) };
        // The location must be as safe as the registry, whoever wrote the file.
        match next(&self.url(""), &kept.location) {
            Some(location) => self.status(&location, blob.bytes, kept.chunk),
            None => Ok(None),
        }
    }

    /// Stores where the upload can resume. If the folder cannot be written, this run is not
    /// affected, and the next one begins again.
    fn keep(&self, digest: OciDigest, upload: &Upload) {
        let kept = Kept { location: upload.location.clone(), chunk: upload.chunk };
        let _ = (|| -> Result<()> {
            fs::create_dir_all(&self.dir).map_err(Error::io("create", &self.dir))?;
            let temp = temp_with_mode(&self.dir, 0o600)?;
            let text = serde_json::to_vec(&kept).unwrap_or_default();
            temp.as_file().write_all_at(&text, 0).map_err(Error::io("write", &self.dir))?;
            persist(temp, &self.file(digest))?;
            Ok(())
        })();
    }

    fn forget(&self, digest: OciDigest) {
        let _ = fs::remove_file(self.file(digest));
    }

    fn file(&self, digest: OciDigest) -> PathBuf {
        let key = blake3::hash(format!("{} {digest}", self.url("")).as_bytes());
        self.dir.join(format!("{}.json", key.to_hex().chars().take(32).collect::<String>()))
    }

    fn location(&self, url: &str, answer: &Answer) -> Result<String> {
        let location = answer.header("location").and_then(|location| next(url, location));
        location.ok_or_else(|| {
            self.registry
                .failed(url, "the registry does not say where the upload continues".to_owned())
        })
    }

    fn url(&self, rest: &str) -> String {
        self.registry.url(self.repository, rest)
    }

    fn scope(&self) -> Scope {
        let scope = Scope::push(self.repository);
        match self.mount_from {
            Some(from) => scope.and_pull(from),
            None => scope,
        }
    }
}

/// Bytes of one request: the least that an answer asks for, or what was known before.
fn chunk(answer: &Answer, known: u64) -> u64 {
    let least = answer.header("oci-chunk-min-length").and_then(|text| text.parse().ok());
    least.unwrap_or(known).clamp(CHUNK, MAX_CHUNK)
}

/// Why an upload was not completed.
enum Cut {
    Passing(String, Option<std::time::Duration>),
    Fatal(Error),
}

impl Blob {
    /// Returns the blob with these bytes.
    pub(super) fn of(bytes: &'static [u8]) -> Self {
        let (digest, len) = (OciDigest(Sha256::of(bytes)), bytes.len() as u64);
        Self { digest, bytes: len, held: Held::Bytes(bytes) }
    }

    fn read(&self, from: u64, to: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(to - from).unwrap_or(usize::MAX)];
        let read = match &self.held {
            Held::From(file, start) => file.read_exact_at(&mut bytes, start.saturating_add(from)),
            Held::At(path) => {
                File::open(path).and_then(|file| file.read_exact_at(&mut bytes, from))
            }
            Held::Bytes(all) => {
                let from = usize::try_from(from).unwrap_or(usize::MAX);
                let mut rest = all.get(from..).unwrap_or_default();
                io::Read::read_exact(&mut rest, &mut bytes)
            }
        };
        read.map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::Changed { path: self.shown(), found: from, expected: self.bytes }
            }
            _ => Error::Read { path: self.shown(), source },
        })?;
        Ok(bytes)
    }

    fn shown(&self) -> String {
        match &self.held {
            Held::At(path) => path.display().to_string(),
            _ => self.digest.to_string(),
        }
    }
}
