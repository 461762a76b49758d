//! Pushing and pulling, with a registry in memory that fails where a test tells it to. Tests with
//! real registries are in `tests/peers/registry_images.py`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gular_containers::fetch::Archives;
use gular_containers::make::{ImageWatch, Note};
use gular_containers::oci::OciLayout;
use gular_containers::registry::{
    Answer, ArtifactBlob, Method, NewArtifact, Pulled, Pulling, Pushed, Pushing, Reference,
    Registry, Request, Retries, Wire, WireFault, pull_image, push_artifact, push_image,
    read_artifact, read_blob,
};
use gular_containers::sif::Arch;
use gular_containers::{Error, Sha256};
use gular_files::Env;
use serde_json::json;

use crate::support::sha256;

const MIB: usize = 1 << 20;

/// Faults of the registry.
#[derive(Default)]
pub(crate) struct Faults {
    /// The chunk with this number is cut after so many of its bytes.
    cut: Option<(usize, usize)>,
    /// Somebody stops everything after so many chunks.
    stop: Option<usize>,
    /// The registry forgets an upload that was cut.
    forgets: bool,
    /// The least chunk that it takes; said where an upload begins.
    least: Option<usize>,
    /// The registry does not support ranges.
    no_ranges: bool,
    /// Each range is cut once, after half of it.
    cut_ranges: bool,
    /// Blobs are on another server, to which the registry redirects.
    redirects: bool,
    /// One byte of each blob is changed.
    pub(crate) flipped: bool,
    /// Requests with this in their path get this status, or no connection where it is 0.
    away: Option<(&'static str, u16)>,
    /// The credentials that the registry asks for.
    wants: Wants,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Wants {
    #[default]
    Nothing,
    Basic,
    Token,
}

#[derive(Default)]
pub(crate) struct State {
    blobs: BTreeMap<String, Vec<u8>>,
    /// Blobs of another repository.
    base: BTreeMap<String, Vec<u8>>,
    manifests: BTreeMap<String, Vec<u8>>,
    uploads: BTreeMap<String, Vec<u8>>,
    /// Chunks that were taken whole: where they began.
    chunks: Vec<usize>,
    patches: usize,
    cut: Vec<String>,
    /// Blobs that were asked for.
    fetched: Vec<String>,
    /// Host and whether an authorization came along.
    pub(crate) seen: Vec<(String, Option<String>)>,
    pub(crate) faults: Faults,
}

#[derive(Default)]
pub(crate) struct Shop(Mutex<State>);

impl Shop {
    fn with(faults: Faults) -> Self {
        Self(Mutex::new(State { faults, ..State::default() }))
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

struct Thrice(u32);

impl Retries for Thrice {
    fn again(&mut self, _asked: Option<Duration>) -> Result<bool, WireFault> {
        self.0 += 1;
        Ok(self.0 < 3)
    }

    fn progressed(&mut self) {
        self.0 = 0;
    }
}

impl Wire for Shop {
    fn send(
        &self,
        request: &Request,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<Answer, WireFault> {
        let (answer, body) = self.state().serve(request)?;
        for piece in body.chunks(100_000) {
            sink(piece).map_err(WireFault::Sink)?;
        }
        if answer.status == 299 {
            return Err(WireFault::Passing("cut".to_owned()));
        }
        Ok(answer)
    }

    fn trials(&self) -> Box<dyn Retries + '_> {
        Box::new(Thrice(0))
    }
}

fn answer(status: u16, headers: &[(&str, String)]) -> Answer {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Answer { status, headers: headers.collect(), ..Answer::default() }
}

impl State {
    fn serve(&mut self, request: &Request) -> Result<(Answer, Vec<u8>), WireFault> {
        let (_, rest) = request.url.split_once("://").unwrap();
        let (host, path) = rest.split_at(rest.find('/').unwrap());
        let shown = request.authorization.as_ref().map(|secret| secret.text().to_owned());
        self.seen.push((host.to_owned(), shown.clone()));
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match self.faults.away.filter(|(place, _)| path.contains(place)) {
            Some((_, 0)) => return Err(WireFault::Passing("cannot connect".to_owned())),
            Some((_, status)) => return Ok((answer(status, &[]), Vec::new())),
            None => {}
        }
        let field = |name: &str| {
            let fields = query.split('&').filter_map(|field| field.split_once('='));
            fields.filter(|(known, _)| *known == name).map(|(_, v)| v.replace("%3A", ":")).next()
        };
        if host == "tokens.io" {
            assert_eq!(
                shown.as_deref(),
                Some("Basic dTpw"),
                "the password goes to the server of tokens"
            );
            let token = format!("T-{}", field("scope").unwrap().replace("%2C", ","));
            let body = json!({ "token": token }).to_string();
            return Ok((answer(200, &[]), body.into_bytes()));
        }
        if host == "r.io" {
            let basic = "Basic realm=\"x\"".to_owned();
            let bearer = "Bearer realm=\"https://tokens.io/token\",service=\"s\"".to_owned();
            match (self.faults.wants, shown.as_deref()) {
                (Wants::Basic, shown) if shown != Some("Basic dTpw") => {
                    return Ok((answer(401, &[("www-authenticate", basic)]), Vec::new()));
                }
                (Wants::Token, shown) if !shown.is_some_and(|s| s.starts_with("Bearer T-rep")) => {
                    return Ok((answer(401, &[("www-authenticate", bearer)]), Vec::new()));
                }
                _ => {}
            }
        }
        let name = path.rsplit('/').next().unwrap().replace("%3A", ":");
        let body = request.body.as_deref().unwrap_or_default();
        match request.method {
            Method::Post => match field("mount").and_then(|digest| self.base.remove_entry(&digest))
            {
                Some((digest, bytes)) => {
                    assert_eq!(field("from").as_deref(), Some("base"));
                    self.blobs.insert(digest, bytes);
                    Ok((answer(201, &[]), Vec::new()))
                }
                None => {
                    let id = format!("u{}", self.uploads.len());
                    self.uploads.insert(id.clone(), Vec::new());
                    let mut begun = self.upload(202, &id);
                    let least = self.faults.least.map(|bytes| bytes.to_string());
                    begun.headers.extend(least.map(|least| ("oci-chunk-min-length".into(), least)));
                    Ok((begun, Vec::new()))
                }
            },
            Method::Patch => self.chunk(&name, body),
            Method::Put if path.contains("/manifests/") => {
                self.manifests.insert(name, body.to_vec());
                self.manifests.insert(format!("sha256:{}", sha256(body)), body.to_vec());
                Ok((answer(201, &[]), Vec::new()))
            }
            Method::Put => {
                let bytes = self.uploads.remove(&name).unwrap();
                let digest = field("digest").unwrap();
                assert_eq!(digest, format!("sha256:{}", sha256(&bytes)));
                self.blobs.insert(digest, bytes);
                Ok((answer(201, &[]), Vec::new()))
            }
            Method::Head => {
                let status = if self.blobs.contains_key(&name) { 200 } else { 404 };
                Ok((answer(status, &[]), Vec::new()))
            }
            Method::Get if path.contains("/manifests/") => Ok(match self.manifests.get(&name) {
                None => (answer(404, &[]), Vec::new()),
                Some(text) => (answer(200, &[]), text.clone()),
            }),
            Method::Get if path.contains("/uploads/") => {
                let lost = self.cut.contains(&name) && self.faults.forgets;
                match self.uploads.contains_key(&name) && !lost {
                    true => Ok((self.upload(204, &name), Vec::new())),
                    false => Ok((answer(404, &[]), Vec::new())),
                }
            }
            Method::Get if path.ends_with("/tags/list") => {
                let is_tag = |name: &&String| !name.starts_with("sha256:");
                let tags: Vec<_> = self.manifests.keys().filter(is_tag).collect();
                let list = json!({ "name": "lab/x", "tags": tags }).to_string();
                Ok((answer(200, &[]), list.into_bytes()))
            }
            Method::Get => Ok(self.blob(request, host, &name)),
        }
    }

    fn upload(&self, status: u16, id: &str) -> Answer {
        let range = format!("0-{}", self.uploads[id].len().saturating_sub(1));
        answer(
            status,
            &[("location", format!("/v2/lab/x/blobs/uploads/{id}?s=1")), ("range", range)],
        )
    }

    fn chunk(&mut self, id: &str, body: &[u8]) -> Result<(Answer, Vec<u8>), WireFault> {
        if self.faults.stop == Some(self.patches) {
            return Err(WireFault::Cancelled);
        }
        let number = self.patches;
        self.patches += 1;
        let there = self.uploads[id].len();
        if let Some((cut, bytes)) = self.faults.cut.filter(|(cut, _)| *cut == number) {
            let _ = cut;
            self.uploads.get_mut(id).unwrap().extend_from_slice(&body[..bytes]);
            self.cut.push(id.to_owned());
            return Err(WireFault::Passing("the connection was lost".to_owned()));
        }
        self.chunks.push(there);
        self.uploads.get_mut(id).unwrap().extend_from_slice(body);
        Ok((self.upload(202, id), Vec::new()))
    }

    fn blob(&mut self, request: &Request, host: &str, name: &str) -> (Answer, Vec<u8>) {
        if self.faults.redirects && host == "r.io" {
            return (
                answer(307, &[("location", format!("https://cdn.io/blobs/{name}?sig=1"))]),
                Vec::new(),
            );
        }
        self.fetched.push(name.to_owned());
        let Some(bytes) = self.blobs.get(name) else { return (answer(404, &[]), Vec::new()) };
        let mut bytes = bytes.clone();
        if self.faults.flipped {
            *bytes.last_mut().unwrap() ^= 1;
        }
        let range = request.headers.iter().find(|(name, _)| *name == "range");
        let Some((_, range)) = range.filter(|_| !self.faults.no_ranges) else {
            return (answer(200, &[]), bytes);
        };
        let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
        let told = format!("bytes {from}-{to}/{}", bytes.len());
        let key = format!("{name} {to}");
        if self.faults.cut_ranges && !self.cut.contains(&key) {
            self.cut.push(key);
            return (answer(299, &[]), bytes[from..from + (to - from) / 2].to_vec());
        }
        (answer(206, &[("content-range", told)]), bytes[from..=to].to_vec())
    }
}

struct Case {
    dir: tempfile::TempDir,
    shop: Shop,
}

/// An image with layers of these lengths.
fn layout(dir: &Path, layers: &[usize]) {
    let blobs = dir.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let put = |media: &str, bytes: &[u8]| {
        let digest = sha256(bytes);
        fs::write(blobs.join(digest.to_string()), bytes).unwrap();
        let media = format!("application/vnd.oci.image.{media}");
        json!({ "mediaType": media, "digest": format!("sha256:{digest}"), "size": bytes.len() })
    };
    let bytes: Vec<Vec<u8>> =
        layers.iter().map(|len| (0..*len).map(|i| ((i * i) >> 7) as u8).collect()).collect();
    let ids: Vec<String> = bytes.iter().map(|b| format!("sha256:{}", sha256(b))).collect();
    let config = json!({
        "architecture": "amd64", "os": "linux", "rootfs": { "type": "layers", "diff_ids": ids },
    });
    let config = put("config.v1+json", config.to_string().as_bytes());
    let layers: Vec<_> = bytes.iter().map(|bytes| put("layer.v1.tar", bytes)).collect();
    let media = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({ "schemaVersion": 2, "mediaType": media, "config": config, "layers": layers });
    let entry = put("manifest.v1+json", manifest.to_string().as_bytes());
    let index = json!({ "schemaVersion": 2, "manifests": [entry] });
    fs::write(dir.join("index.json"), index.to_string()).unwrap();
    fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

fn pulling<'a>(
    registry: &'a Registry<'a>,
    archives: &'a Archives,
    watch: &'a AtomicBool,
) -> Pulling<'a> {
    let threads = NonZeroUsize::new(3).unwrap();
    Pulling { registry, archives, threads, max_bytes: u64::MAX, watch }
}

fn reference() -> Reference {
    Reference::parse("docker://r.io/lab/x:v1").unwrap()
}

impl Case {
    fn new(faults: Faults) -> Self {
        let case = Self { dir: tempfile::tempdir().unwrap(), shop: Shop::with(faults) };
        // The first layer has two chunks and a half, and a few bytes more.
        layout(&case.at("mine"), &[10 * MIB + 7, 10]);
        fs::write(case.at("auth.json"), r#"{"auths": {"r.io": {"auth": "dTpw"}}}"#).unwrap();
        case
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// An environment with the credentials `u:p` for the registry.
    fn env(&self) -> Env {
        let file = self.at("auth.json");
        Env::from_pairs(&[("REGISTRY_AUTH_FILE", file.to_str().unwrap())])
    }

    fn push(&self, mount_from: Option<&str>) -> Result<Pushed, Error> {
        let layout = OciLayout::open(&self.at("mine"))?;
        let image = layout.image(None, Arch::Amd64)?;
        let reference = reference();
        let registry = Registry::open(&reference, &self.shop, &self.env())?;
        let with = Pushing {
            registry: &registry,
            to: &reference,
            mount_from,
            uploads: self.at("uploads"),
            jobs: NonZeroUsize::MIN,
            watch: &AtomicBool::new(false),
        };
        push_image(&layout, &image, &with)
    }

    fn pull_some(&self, to: &str, arch: Arch, max_bytes: u64) -> Result<Pulled, Error> {
        let reference = reference();
        let registry = Registry::open(&reference, &self.shop, &self.env())?;
        let dir = self.at("archives");
        let archives = Archives { dir, vendor: Vec::new(), offline: false };
        let never = AtomicBool::new(false);
        let with = Pulling { max_bytes, ..pulling(&registry, &archives, &never) };
        pull_image(&reference, arch, &self.at(to), &with)
    }

    fn pull(&self, to: &str) -> Result<Pulled, Error> {
        self.pull_some(to, Arch::Amd64, u64::MAX)
    }

    /// Checks that the pulled blobs are those that were pushed.
    fn same(&self, to: &str) {
        let blobs = |dir: &str| {
            let entries = fs::read_dir(self.at(dir).join("blobs/sha256")).unwrap();
            let mut all: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
            all.sort();
            all.iter().map(|path| Sha256::of_file(path).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(blobs(to), blobs("mine"));
    }
}

#[test]
fn an_image_goes_and_comes_back() {
    for wants in [Wants::Nothing, Wants::Basic, Wants::Token] {
        let case = Case::new(Faults { wants, redirects: true, ..Faults::default() });
        let pushed = case.push(None).unwrap();
        assert_eq!((pushed.there, pushed.blobs, pushed.sent), (0, 3, pushed.bytes));
        let again = case.push(None).unwrap();
        assert_eq!((again.there, again.sent), (3, 0));
        let pulled = case.pull("back").unwrap();
        assert_eq!((pulled.digest, pulled.kept), (pushed.digest, 0));
        case.same("back");
        assert_eq!(case.pull("twice").unwrap().kept, 3);
        assert!(matches!(case.pull("twice"), Err(Error::Exists { .. })));
        // Blobs came from another host, which saw nothing.
        let state = case.shop.state();
        let elsewhere: Vec<_> = state.seen.iter().filter(|(host, _)| host == "cdn.io").collect();
        assert!(elsewhere.len() > 3 && elsewhere.iter().all(|(_, shown)| shown.is_none()));
        let shown = state.seen.iter().any(|(host, shown)| host == "r.io" && shown.is_some());
        assert_eq!(shown, wants != Wants::Nothing);
    }
}

#[test]
fn an_upload_goes_on_where_it_was() {
    // Stopped after each number of chunks, then run again: no chunk goes twice.
    for stop in 0..4 {
        let case = Case::new(Faults { stop: Some(stop), ..Faults::default() });
        assert!(matches!(case.push(None), Err(Error::Cancelled)), "{stop}");
        case.shop.state().faults.stop = None;
        let pushed = case.push(None).unwrap();
        let state = case.shop.state();
        assert_eq!(state.chunks, [0, 4 * MIB, 8 * MIB, 0, 0], "{stop}");
        let resumed = (stop.min(3) * 4 * MIB).min(10 * MIB + 7);
        let before = if stop == 3 { 0 } else { resumed };
        assert!(pushed.resumed >= before as u64, "{stop}: {pushed:?}");
        assert_eq!(fs::read_dir(case.at("uploads")).map_or(0, Iterator::count), 0, "{stop}");
    }
}

#[test]
fn two_pushes_at_a_time_send_each_blob_once() {
    let case = Case::new(Faults::default());
    let pushed = std::thread::scope(|scope| {
        let other = scope.spawn(|| case.push(None).unwrap());
        [case.push(None).unwrap(), other.join().unwrap()]
    });
    assert_eq!(pushed[0].sent + pushed[1].sent, pushed[0].bytes, "{pushed:?}");
    assert_eq!(case.shop.state().chunks, [0, 4 * MIB, 8 * MIB, 0, 0]);
    assert_eq!(fs::read_dir(case.at("uploads")).unwrap().count(), 0);
}

#[test]
fn an_upload_goes_on_in_chunks_that_the_registry_takes() {
    let least = Some(5 * MIB);
    let case = Case::new(Faults { stop: Some(1), least, ..Faults::default() });
    assert!(matches!(case.push(None), Err(Error::Cancelled)));
    case.shop.state().faults.stop = None;
    case.push(None).unwrap();
    assert_eq!(case.shop.state().chunks, [0, 5 * MIB, 10 * MIB, 0, 0]);
}

#[test]
fn a_chunk_that_is_cut_goes_on_or_all_begins_again() {
    let case = Case::new(Faults { cut: Some((1, 1000)), ..Faults::default() });
    case.push(None).unwrap();
    case.same_blobs();
    assert_eq!(case.shop.state().chunks, [0, 4 * MIB + 1000, 8 * MIB + 1000, 0, 0]);
    let case = Case::new(Faults { cut: Some((1, 1000)), forgets: true, ..Faults::default() });
    case.push(None).unwrap();
    case.same_blobs();
    assert_eq!(case.shop.state().chunks, [0, 0, 4 * MIB, 8 * MIB, 0, 0]);
}

impl Case {
    /// Checks that the registry has each blob of the layout.
    fn same_blobs(&self) {
        let state = self.shop.state();
        assert_eq!(state.blobs.len(), 3);
        for (digest, bytes) in &state.blobs {
            assert_eq!(*digest, format!("sha256:{}", sha256(bytes)));
        }
    }
}

#[test]
fn blobs_are_mounted_from_another_repository() {
    let case = Case::new(Faults { wants: Wants::Token, ..Faults::default() });
    case.push(None).unwrap();
    let blobs = std::mem::take(&mut case.shop.state().blobs);
    case.shop.state().base = blobs;
    let pushed = case.push(Some("base")).unwrap();
    assert_eq!((pushed.mounted, pushed.blobs, pushed.sent), (3, 3, 0));
    case.same_blobs();
}

#[test]
fn ranges_that_are_cut_or_not_known_give_the_same() {
    for (no_ranges, cut_ranges) in [(true, false), (false, true)] {
        let case = Case::new(Faults { no_ranges, cut_ranges, ..Faults::default() });
        case.push(None).unwrap();
        case.pull("back").unwrap();
        case.same("back");
    }
}

#[test]
fn what_is_wrong_is_named_and_leaves_nothing() {
    let case = Case::new(Faults::default());
    let error = case.pull("back").unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("its tag or digest")), "{error:?}");
    let error = error.to_string();
    assert!(
        error.contains("https://r.io/v2/lab/x/manifests/v1`: the registry answers 404"),
        "{error}"
    );
    case.push(None).unwrap();
    case.shop.state().faults.flipped = true;
    let error = case.pull("back").unwrap_err().to_string();
    assert!(error.contains("has SHA-256") && error.contains("expected"), "{error}");
    assert!(!case.at("back").exists());
    let left: Vec<_> =
        fs::read_dir(case.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".gular")), "{left:?}");

    case.shop.state().faults.flipped = false;
    let text = case.shop.state().manifests["v1"].clone();
    for (manifest, says) in [
        (b"{}".to_vec(), "its type is ``, expected an image"),
        (b"[".repeat(5 << 20), "longer than 4194304 bytes"),
        ([&text[..], b" "].concat(), ""),
    ] {
        case.shop.state().manifests.insert("v1".to_owned(), manifest);
        let pulled = case.pull("odd").map(drop).map_err(|error| error.to_string());
        assert_eq!(pulled.is_ok(), says.is_empty(), "{pulled:?}");
        assert!(says.is_empty() || pulled.as_ref().unwrap_err().contains(says), "{pulled:?}");
    }
    // The image is the same, but named by a digest that its manifest no longer has.
    let pinned = Reference::parse(&format!("r.io/lab/x@sha256:{}", sha256(&text))).unwrap();
    case.shop.state().manifests.insert(pinned.digest().unwrap().to_string(), b"{}".to_vec());
    let registry = Registry::open(&pinned, &case.shop, &case.env()).unwrap();
    let archives = Archives { dir: case.at("a"), vendor: Vec::new(), offline: false };
    let never = AtomicBool::new(false);
    let to = case.at("pinned");
    let error = pull_image(&pinned, Arch::Amd64, &to, &pulling(&registry, &archives, &never));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("its digest is sha256:") && error.contains("expected"), "{error}");
}

#[test]
fn a_registry_that_is_away_may_be_asked_again_later() {
    let case = Case::new(Faults::default());
    case.push(None).unwrap();
    for (place, status, passes) in [
        ("/manifests/", 0, true),
        ("/manifests/", 503, true),
        ("/blobs/", 0, true),
        ("/blobs/", 429, true),
        ("/manifests/", 404, false),
        ("/blobs/", 404, false),
        ("/manifests/", 403, false),
    ] {
        case.shop.state().faults.away = Some((place, status));
        let error = case.pull("away").unwrap_err();
        assert_eq!(error.is_passing(), passes, "{place} {status}: {error}");
        assert!(error.to_string().contains(place), "{place} {status}: {error}");
    }
    case.shop.state().blobs.clear();
    for (place, status) in [("/blobs/", 0), ("/uploads/", 500), ("/uploads/u", 0)] {
        case.shop.state().faults.away = Some((place, status));
        let error = case.push(None).unwrap_err();
        assert!(error.is_passing() && error.to_string().contains("/blobs/"), "{place}: {error}");
    }
}

/// Records which image of several was taken.
#[derive(Default)]
struct Taken(AtomicBool, Mutex<Vec<String>>);

impl ImageWatch for Taken {
    fn cancel(&self) -> &AtomicBool {
        &self.0
    }

    fn note(&self, note: &Note<'_>) {
        if let Note::OneOf { name, taken, others } = note {
            self.1.lock().unwrap().push(format!("{name} {taken} {}", others.join(",")));
        }
    }
}

#[test]
fn of_several_images_the_one_that_was_taken_is_told() {
    let case = Case::new(Faults::default());
    let pushed = case.push(None).unwrap();
    let one = |os: &str, arch: &str, digest: &str| {
        json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest,
            "size": case.shop.state().manifests["v1"].len(),
            "platform": { "os": os, "architecture": arch },
        })
    };
    let nothing = format!("sha256:{}", "0".repeat(64));
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [
            one("linux", "arm64", &nothing),
            one("linux", "amd64", &pushed.digest.to_string()),
            one("unknown", "unknown", &nothing),
        ],
    });
    let index = index.to_string().into_bytes();
    case.shop.state().manifests.insert("several".to_owned(), index.clone());
    let reference = Reference::parse("docker://r.io/lab/x:several").unwrap();
    let registry = Registry::open(&reference, &case.shop, &case.env()).unwrap();
    let archives = Archives { dir: case.at("a"), vendor: Vec::new(), offline: false };
    let (never, taken) = (AtomicBool::new(false), Taken::default());
    let with = Pulling { watch: &taken, ..pulling(&registry, &archives, &never) };
    let pulled = pull_image(&reference, Arch::Amd64, &case.at("back"), &with).unwrap();
    assert_eq!((pulled.top.0, pulled.digest), (Sha256::of(&index), pushed.digest));
    let said = "r.io/lab/x:several linux/amd64 linux/arm64";
    assert_eq!(*taken.1.lock().unwrap(), [said]);
    case.same("back");
}

#[test]
fn images_of_other_processors_and_large_ones_are_refused_before_their_layers_come() {
    let case = Case::new(Faults::default());
    case.push(None).unwrap();
    let blobs = || {
        let state = case.shop.state();
        state.fetched.iter().filter(|name| state.blobs[*name].len() > MIB).count()
    };
    let error = case.pull_some("arm", Arch::Arm64, u64::MAX).unwrap_err().to_string();
    assert!(error.contains("the image is for linux/amd64, expected linux/arm64"), "{error}");
    let error = case.pull_some("large", Arch::Amd64, 10 * MIB as u64).unwrap_err();
    assert!(matches!(error, Error::Limit { what: "bytes to fetch", .. }), "{error}");
    assert_eq!(blobs(), 0);
    assert!(!case.at("arm").exists() && !case.at("large").exists());
    case.pull("back").unwrap();
    assert!(blobs() > 0);
}

#[test]
fn who_may_not_is_told_whose_password_was_shown() {
    let case = Case::new(Faults { wants: Wants::Basic, ..Faults::default() });
    let reference = reference();
    let registry = Registry::open(&reference, &case.shop, &Env::from_pairs(&[])).unwrap();
    let archives = Archives { dir: case.at("a"), vendor: Vec::new(), offline: false };
    let never = AtomicBool::new(false);
    let to = case.at("x");
    let error = pull_image(&reference, Arch::Amd64, &to, &pulling(&registry, &archives, &never));
    let error = error.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("the registry answers 401; no credentials for this registry were found")
    );
    assert_eq!(error.hint(), Some("log in: `podman login r.io` or `docker login r.io`"));
}

/// An artifact of files with these names and bytes.
fn artifact(case: &Case, files: &[(&str, Vec<u8>)]) -> NewArtifact<'static> {
    let files = files.iter().map(|(title, bytes)| {
        let path = case.at(title);
        fs::write(&path, bytes).unwrap();
        let (digest, media_type) = (sha256(bytes).into(), "application/x".to_owned());
        let (title, bytes) = ((*title).to_owned(), bytes.len() as u64);
        (ArtifactBlob { title, media_type, digest, bytes }, path)
    });
    let files: Vec<_> = files.collect();
    let identity = ("org.example.what", format!("set of {}", files.len()));
    NewArtifact { artifact_type: "application/vnd.example.set", identity, files }
}

impl Case {
    fn push_set(&self, set: &NewArtifact<'_>, tag: &str, dry_run: bool) -> Result<Pushed, Error> {
        let reference = Reference::parse(&format!("oci://r.io/lab/x:{tag}")).unwrap();
        let registry = Registry::open(&reference, &self.shop, &self.env())?;
        let with = Pushing {
            registry: &registry,
            to: &reference,
            mount_from: None,
            uploads: self.at("uploads"),
            jobs: NonZeroUsize::MIN,
            watch: &AtomicBool::new(false),
        };
        push_artifact(set, dry_run, &with)
    }
}

#[test]
fn an_artifact_shares_its_files_with_other_versions_and_its_tag_with_nobody() {
    let case = Case::new(Faults { wants: Wants::Token, ..Faults::default() });
    let large = vec![7; 5 * MIB];
    let first = artifact(&case, &[("a", large.clone()), ("b", b"b".to_vec())]);
    let dry = case.push_set(&first, "v1", true).unwrap();
    assert_eq!((dry.sent, dry.blobs, dry.there), (5 * MIB as u64 + 3, 3, 0));
    assert!(case.shop.state().blobs.is_empty() && case.shop.state().manifests.is_empty());
    let pushed = case.push_set(&first, "v1", false).unwrap();
    assert_eq!((pushed.sent, pushed.digest), (dry.sent, dry.digest));
    let again = case.push_set(&first, "v1", false).unwrap();
    assert_eq!((again.sent, again.there, again.digest), (0, 3, pushed.digest));

    // The next version: one file more, of three bytes, and the same under two names.
    let second = artifact(&case, &[("a", large), ("c", b"new".to_vec()), ("d", b"new".to_vec())]);
    let taken = case.push_set(&second, "v1", false).unwrap_err();
    assert_eq!(
        taken.to_string(),
        "`r.io/lab/x:v1` already exists with different contents: set of 2"
    );
    assert_eq!(case.shop.state().blobs.len(), 3, "nothing is sent before the tag is known free");
    let pushed = case.push_set(&second, "v2", false).unwrap();
    assert_eq!((pushed.sent, pushed.there, pushed.blobs), (3, 2, 3));

    let reference = Reference::parse("oci://r.io/lab/x:v2").unwrap();
    let registry = Registry::open(&reference, &case.shop, &case.env()).unwrap();
    let found = read_artifact(&registry, &reference).unwrap();
    assert_eq!(found.pinned, pushed.pinned);
    assert_eq!(found.artifact_type, "application/vnd.example.set");
    assert_eq!(found.annotations["org.example.what"], "set of 3");
    let (files, one) = (second.files.iter().map(|(file, _)| file.clone()), NonZeroUsize::MIN);
    assert_eq!(found.files, files.collect::<Vec<_>>());
    let blob = found.file("c").unwrap();
    assert_eq!(read_blob(&registry, &reference, blob, 3, one).unwrap(), b"new");
    let error = read_blob(&registry, &reference, blob, 2, one).unwrap_err().to_string();
    assert!(error.ends_with("it has 3 bytes, more than the limit of 2"), "{error}");
    case.shop.state().faults.flipped = true;
    let error = read_blob(&registry, &reference, blob, 3, one).unwrap_err().to_string();
    assert!(error.contains("its digest is sha256:") && error.contains("expected"), "{error}");

    let missing = Reference::parse("r.io/lab/x:v3").unwrap();
    let error = read_artifact(&registry, &missing).unwrap_err();
    assert_eq!(error.to_string(), "cannot use `r.io/lab/x:v3`: the registry has no such version");
    assert!(error.hint().unwrap().starts_with("`lab/x` has v1, v2"), "{:?}", error.hint());
}

#[test]
fn an_artifact_that_others_pushed_with_the_same_files_is_the_same() {
    let case = Case::new(Faults::default());
    let set = artifact(&case, &[("a", b"a".to_vec())]);
    let pushed = case.push_set(&set, "v1", false).unwrap();
    let text = case.shop.state().manifests["v1"].clone();
    let other = [&text[..], b"\n"].concat();
    case.shop.state().manifests.insert("v1".to_owned(), other.clone());
    let again = case.push_set(&set, "v1", false).unwrap();
    assert_ne!(again.digest, pushed.digest);
    assert_eq!(case.shop.state().manifests["v1"], other, "the tag is left as it is");
    // The tag now has an image.
    case.push(None).map(drop).unwrap();
    let taken = case.push_set(&set, "v1", false).unwrap_err().to_string();
    assert!(taken.contains("already exists with different contents: an image, sha256:"), "{taken}");
}
