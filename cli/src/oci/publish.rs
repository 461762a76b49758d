//! `gular publish BUNDLE oci://…`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::{Digest, StreamDigest};
use gular_containers::fetch::Transport as _;
use gular_files::parallel;
use gular_registry::{ArtifactBlob, NewArtifact, Pushed, Pushing, StreamSha256, push_artifact};
use gular_transfer::{ARTIFACT_TYPE, ArtifactFile, SoundBundle, artifact_files};
use gular_verify::Mode;
use serde::Serialize;

use super::digest_cache::DigestCache;
use super::name::{Name, refuse};
use crate::exit::{Exit, Failure};
use crate::image::places::CacheArgs;
use crate::image::transport::Web;
use crate::network::ended;
use crate::progress::{bytes_bar, watched};
use crate::publish::{PublishArgs, check_from, prove, sentence, unsound};
use crate::shared::Output;
use crate::show;
use crate::stop::Stop;

/// The annotation with the bundle's digest.
const IDENTITY: &str = "org.gular.bundle.digest";

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct OciReport {
    /// URL of the version with its digests, `oci://…@sha256:…#blake3=…`.
    url: String,
    /// The bundle's digest.
    digest: Digest,
    /// Number of blobs that the version has now.
    objects: usize,
    /// Number of blobs that were sent.
    uploaded: usize,
    /// Number of blobs that already existed.
    identical: usize,
    /// Number of blobs that another repository of the registry had.
    mounted: usize,
    /// Bytes of all blobs.
    bytes: u64,
    /// Bytes of the blobs that were sent.
    bytes_uploaded: u64,
    /// Bytes that an earlier, interrupted run had already uploaded.
    bytes_resumed: u64,
    /// Whether nothing was written.
    dry_run: bool,
    /// Wall-clock time.
    seconds: f64,
}

pub(crate) fn run(args: &PublishArgs, output: &Output) -> Result<Exit, Failure> {
    let start = Instant::now();
    let name = target(args)?;
    check_from(args)?;
    let stop = Stop::install()?;
    let pushed = push(args, &name, output, &stop).map_err(|failure| ended(failure, &stop))?;
    let (digest, pushed) = pushed;
    let Pushed { bytes, sent, resumed, blobs, there, mounted, .. } = pushed;
    let report = OciReport {
        url: format!("oci://{}#blake3={}", pushed.pinned, digest.hex()),
        digest,
        objects: blobs,
        uploaded: blobs - there - mounted,
        identical: there,
        mounted,
        bytes,
        bytes_uploaded: sent,
        bytes_resumed: resumed,
        dry_run: args.dry_run,
        seconds: start.elapsed().as_secs_f64(),
    };
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&text(&report))?;
    }
    Ok(Exit::Done)
}

/// The name, and that nothing is asked for that a registry does not have.
fn target(args: &PublishArgs) -> Result<Name, Failure> {
    let name = Name::parse(&args.url)?;
    if name.digest.is_some() || name.reference.digest().is_some() {
        let message = format!(
            "`oci://{}` contains a digest, which is known only after publishing",
            name.reference
        );
        let hint = "leave out the digest: it is printed when the bundle is published";
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    refuse(&[
        (args.recursive, "--recursive"),
        (args.names_check(), "--check"),
        (!args.network.access.token.is_empty(), "--token"),
    ])?;
    if args.from.is_file() {
        let message = format!(
            "`{}` is a file, but only bundles can be published to a registry",
            args.from.display()
        );
        let hint = "to send an image, use `gular image push`";
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    Ok(name)
}

fn push(
    args: &PublishArgs,
    name: &Name,
    output: &Output,
    stop: &Stop,
) -> Result<(Digest, Pushed), Failure> {
    let cache = CacheArgs::default().cache()?;
    let jobs = args.network.jobs;
    let sound =
        SoundBundle::prove(&args.from, |dir| prove(dir, Mode::Quick, jobs.get(), output, stop))?;
    let files = artifact_files(&sound)?;
    let known = DigestCache::open(&cache.digests());
    let reading = Reading { dir: &args.from, known: &known, cancel: &stop.flag };
    let files = reading.all(files, jobs.get(), output)?;
    let digest = sound.bundle().digest();
    let identity = (IDENTITY, digest.to_string());
    let artifact = NewArtifact { artifact_type: ARTIFACT_TYPE, identity, files };
    let web = Web::limited(stop, args.network.access.limit_rate)?;
    let registry = web.registry(&name.reference)?;
    let pushed = watched("push", output, stop, |watch, _| {
        let (mount_from, uploads) = (args.mount_from.as_deref(), cache.uploads());
        let with = Pushing { registry: &registry, mount_from, uploads, jobs, watch };
        push_artifact(&artifact, args.dry_run, &with)
    });
    Ok((digest, pushed?))
}

/// Reads each file once: its BLAKE3 says that it is sound, its SHA-256 is its name in a registry.
struct Reading<'a> {
    dir: &'a Path,
    known: &'a DigestCache,
    cancel: &'a AtomicBool,
}

impl Reading<'_> {
    fn all(
        &self,
        files: Vec<ArtifactFile>,
        jobs: usize,
        output: &Output,
    ) -> Result<Vec<(ArtifactBlob, PathBuf)>, Failure> {
        let total = files.iter().map(|file| file.bytes).sum();
        let bar = bytes_bar("verify", total, output);
        let done = AtomicU64::new(0);
        let advance = |n: u64| bar.set_position(done.fetch_add(n, Ordering::Relaxed) + n);
        let numbered: Vec<_> = files.iter().enumerate().collect();
        let read = Mutex::new(Vec::new());
        let worked = parallel(&numbered, jobs, self.cancel, |(number, file), _| {
            let blob = self.file(file, &advance)?;
            let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
            read.push((*number, blob));
            Ok::<(), Failure>(())
        });
        bar.finish_and_clear();
        worked?;
        if self.cancel.load(Ordering::Relaxed) {
            return Err(gular_transfer::Error::cancelled().into());
        }
        let mut read = read.into_inner().unwrap_or_else(PoisonError::into_inner);
        read.sort_by_key(|(number, _)| *number);
        let blobs = read.into_iter().map(|(_, blob)| blob);
        Ok(blobs.zip(files).map(|(blob, file)| (blob, file.path)).collect())
    }

    fn file(&self, file: &ArtifactFile, advance: &dyn Fn(u64)) -> Result<ArtifactBlob, Failure> {
        let failed = |action, e| gular_files::Error::new(action, &file.path, e);
        let known = self.known.get(file.digest);
        let (mut blake3, mut sha256) = (StreamDigest::new(), StreamSha256::default());
        let mut from = File::open(&file.path).map_err(|e| failed("open", e))?;
        let (mut buffer, mut bytes) = (vec![0; 1 << 20], 0_u64);
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(gular_transfer::Error::cancelled().into());
            }
            let read = from.read(&mut buffer).map_err(|e| failed("read", e))?;
            let piece = buffer.get(..read).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            blake3.update(piece);
            if known.is_none() {
                sha256.update(piece);
            }
            bytes += read as u64;
            advance(read as u64);
        }
        let (found, expected) = (blake3.finish(), file.digest);
        if found != expected {
            let message = format!("its digest is {found}, expected {expected}");
            return Err(unsound(self.dir, &file.title, &message));
        }
        let sha256 = known.unwrap_or_else(|| {
            let sha256 = sha256.finish();
            self.known.add(file.digest, sha256);
            sha256
        });
        let (title, media_type) = (file.title.clone(), file.media_type.clone());
        Ok(ArtifactBlob { title, media_type, digest: sha256.into(), bytes })
    }
}

fn text(report: &OciReport) -> String {
    let pace = show::pace(report.bytes_uploaded, report.seconds);
    let (sent, there) = (report.uploaded as u64, report.identical as u64);
    let mut text = sentence(report.dry_run, sent, there, report.bytes_uploaded, &pace);
    if report.mounted > 0 {
        let objects = show::count(report.mounted as u64, "object");
        text.push_str(&format!("{objects} mounted from another repository\n"));
    }
    if report.bytes_resumed > 0 {
        let resumed = show::size(report.bytes_resumed);
        text.push_str(&format!("{resumed} more had been sent by an earlier run\n"));
    }
    text.push_str(&format!("{}\n", report.url));
    text
}
