//! Blobs and artifacts, sent to a registry on this machine and read back. Tests with real
//! registries are in `tests/peers/registry_images.py`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod shop;

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gular_pelican::{Client, ClientOptions, Env, Watch};
use gular_registry::{
    ArtifactBlob, Blob, BlobBytes, Error, MANIFEST_TYPES, NewArtifact, Pushed, Pushing, Reference,
    Registry, Sha256, push, push_artifact, read_artifact,
};
use serde_json::json;

use crate::shop::{Faults, Host, Shop, Wants};

const MIB: usize = 1 << 20;

struct Case {
    dir: tempfile::TempDir,
    shop: Shop,
    client: Client,
    /// The first has two chunks and a half, and a few bytes more.
    files: [Vec<u8>; 2],
}

/// Options without an environment but for this file of credentials.
fn options(auth: &str) -> ClientOptions {
    ClientOptions::new(Env::from_pairs(&[("REGISTRY_AUTH_FILE", auth)]))
}

impl Case {
    fn new(faults: Faults) -> Self {
        let (dir, shop) = (tempfile::tempdir().unwrap(), Shop::new(faults));
        let files = [10 * MIB + 7, 10].map(|len| (0..len).map(|i| ((i * i) >> 7) as u8).collect());
        for (name, bytes) in ["large", "small"].iter().zip(&files) {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let auth = dir.path().join("auth.json");
        fs::write(&auth, json!({"auths": {&shop.host: {"auth": "dTpw"}}}).to_string()).unwrap();
        let client = Client::new(options(auth.to_str().unwrap())).unwrap();
        Self { dir, shop, client, files }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn reference(&self, tag: &str) -> Reference {
        Reference::parse(&format!("oci://{}/lab/x:{tag}", self.shop.host)).unwrap()
    }

    fn open(&self, tag: &str) -> Result<Registry<'_>, Error> {
        let watch = Watch::silent(&self.shop.cancel);
        Registry::open(&self.reference(tag), &self.client, watch)
    }

    fn pushing<'a>(&'a self, registry: &'a Registry<'a>) -> Pushing<'a> {
        Pushing {
            registry,
            mount_from: None,
            uploads: self.at("uploads"),
            jobs: NonZeroUsize::MIN,
            watch: Watch::silent(&self.shop.cancel),
        }
    }

    /// Pushes both files and an empty configuration.
    fn push(&self, mount_from: Option<&str>) -> Result<Pushed, Error> {
        self.shop.cancel.store(false, Ordering::Relaxed);
        let blob = |(name, bytes): (&str, &Vec<u8>)| Blob {
            digest: Sha256::of(bytes).into(),
            len_bytes: bytes.len() as u64,
            bytes: BlobBytes::At(self.at(name)),
        };
        let [large, small] = &self.files;
        let blobs = [blob(("large", large)), blob(("small", small)), Blob::empty()];
        let described = |blob: &Blob| {
            let digest = blob.digest.to_string();
            json!({ "mediaType": "application/x", "digest": digest, "size": blob.len_bytes })
        };
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST_TYPES[0], "config": described(&blobs[2]),
            "layers": [described(&blobs[0]), described(&blobs[1])],
        });
        let registry = self.open("v1")?;
        let with = Pushing { mount_from, ..self.pushing(&registry) };
        push(&blobs, MANIFEST_TYPES[0], manifest.to_string().as_bytes(), &with)
    }

    /// Reads both files.
    fn pull(&self) -> Result<Vec<Vec<u8>>, Error> {
        let registry = self.open("v1")?;
        let threads = NonZeroUsize::new(3).unwrap();
        let files = read_artifact(&registry)?.files.into_iter().map(|file| {
            let mut bytes = Vec::new();
            registry.stream_blob(file.digest, file.bytes, 0, threads, &mut |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            Ok(bytes)
        });
        files.collect()
    }

    /// Checks that the registry has each blob that was pushed.
    fn has_all(&self) {
        let state = self.shop.state();
        assert_eq!(state.blobs.len(), 3);
        for (digest, bytes) in &state.blobs {
            assert_eq!(*digest, format!("sha256:{}", Sha256::of(bytes)));
        }
    }

    fn push_set(&self, set: &NewArtifact<'_>, tag: &str, dry_run: bool) -> Result<Pushed, Error> {
        let registry = self.open(tag)?;
        push_artifact(set, dry_run, &self.pushing(&registry))
    }

    /// An artifact of files with these names and bytes.
    fn set(&self, files: &[(&str, Vec<u8>)]) -> NewArtifact<'static> {
        let files = files.iter().map(|(title, bytes)| {
            let path = self.at(title);
            fs::write(&path, bytes).unwrap();
            let (digest, media_type) = (Sha256::of(bytes).into(), "application/x".to_owned());
            let (title, bytes) = ((*title).to_owned(), bytes.len() as u64);
            (ArtifactBlob { title, media_type, digest, bytes }, path)
        });
        let files: Vec<_> = files.collect();
        let identity = ("org.example.what", format!("set of {}", files.len()));
        NewArtifact { artifact_type: "application/vnd.example.set", identity, files }
    }
}

#[test]
fn blobs_go_and_come_back_and_no_other_server_sees_the_credentials() {
    for wants in [Wants::Nothing, Wants::Basic, Wants::Token] {
        let case = Case::new(Faults { wants, redirects: true, ..Faults::default() });
        let pushed = case.push(None).unwrap();
        assert_eq!((pushed.there, pushed.blobs, pushed.sent), (0, 3, pushed.bytes));
        let again = case.push(None).unwrap();
        assert_eq!((again.there, again.sent), (3, 0));
        assert_eq!(case.pull().unwrap(), case.files);
        let state = case.shop.state();
        let elsewhere: Vec<_> =
            state.seen.iter().filter(|(host, _)| *host == Host::Elsewhere).collect();
        assert!(elsewhere.len() > 3 && elsewhere.iter().all(|(_, shown)| shown.is_none()));
        let shown =
            state.seen.iter().any(|(host, shown)| *host == Host::Registry && shown.is_some());
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
    case.has_all();
    assert_eq!(case.shop.state().chunks, [0, 4 * MIB + 1000, 8 * MIB + 1000, 0, 0]);
    let case = Case::new(Faults { cut: Some((1, 1000)), forgets: true, ..Faults::default() });
    case.push(None).unwrap();
    case.has_all();
    assert_eq!(case.shop.state().chunks, [0, 0, 4 * MIB, 8 * MIB, 0, 0]);
}

#[test]
fn a_file_that_was_cut_is_not_sent() {
    let case = Case::new(Faults::default());
    fs::write(case.at("large"), vec![0; 5 * MIB]).unwrap();
    let error = case.push(None).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    assert!(error.to_string().contains("it had 10485767 bytes at first"), "{error}");
}

#[test]
fn blobs_are_mounted_from_another_repository() {
    let case = Case::new(Faults { wants: Wants::Token, ..Faults::default() });
    case.push(None).unwrap();
    let blobs = std::mem::take(&mut case.shop.state().blobs);
    case.shop.state().base = blobs;
    let pushed = case.push(Some("base")).unwrap();
    assert_eq!((pushed.mounted, pushed.blobs, pushed.sent), (3, 3, 0));
    case.has_all();
}

#[test]
fn ranges_that_are_cut_or_not_known_give_the_same() {
    for (no_ranges, cut_ranges) in [(true, false), (false, true)] {
        let case = Case::new(Faults { no_ranges, cut_ranges, ..Faults::default() });
        case.push(None).unwrap();
        assert_eq!(case.pull().unwrap(), case.files, "{no_ranges}");
    }
}

#[test]
fn a_registry_that_is_away_may_be_asked_again_later() {
    let mut case = Case::new(Faults::default());
    case.push(None).unwrap();
    let auth = case.at("auth.json");
    let patience = Duration::from_millis(10);
    let options = ClientOptions { patience, ..options(auth.to_str().unwrap()) };
    case.client = Client::new(options).unwrap();
    for (part, status, passes) in [
        ("/manifests/", 0, true),
        ("/manifests/", 503, true),
        ("/blobs/", 0, true),
        ("/blobs/", 429, true),
        ("/blobs/", 404, false),
        ("/manifests/", 403, false),
    ] {
        case.shop.state().faults.away = Some((part, status));
        let error = case.pull().unwrap_err();
        assert_eq!(error.is_passing(), passes, "{part} {status}: {error}");
        assert!(error.to_string().contains(part), "{part} {status}: {error}");
    }
    case.shop.state().blobs.clear();
    for (part, status) in [("/blobs/", 0), ("/uploads/", 500), ("/uploads/u", 0)] {
        case.shop.state().faults.away = Some((part, status));
        let error = case.push(None).unwrap_err();
        assert!(error.is_passing() && error.to_string().contains("/blobs/"), "{part}: {error}");
    }
}

#[test]
fn what_is_wrong_with_a_manifest_is_named() {
    let case = Case::new(Faults::default());
    let error = case.open("v1").unwrap().manifest().unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("its tag or digest")), "{error:?}");
    let url = format!("http://{}/v2/lab/x/manifests/v1", case.shop.host);
    let expected = format!("cannot use `{url}`: the registry answers 404");
    assert_eq!(error.to_string(), expected);
    let digest = case.push(None).unwrap().digest;
    case.shop.state().manifests.insert("v1".to_owned(), b"[".repeat(5 << 20));
    let error = case.pull().unwrap_err().to_string();
    assert!(error.contains("longer than 4194304 bytes"), "{error}");
    // It is named by a digest that it no longer has.
    case.shop.state().manifests.insert(digest.to_string(), b"{}".to_vec());
    let error = case.open("v1").unwrap().manifest_of(digest).unwrap_err().to_string();
    assert!(error.contains("its digest is sha256:") && error.contains("expected"), "{error}");
}

#[test]
fn who_may_not_is_told_whose_password_was_shown() {
    let case = Case::new(Faults { wants: Wants::Basic, ..Faults::default() });
    let client = Client::new(ClientOptions::new(Env::from_pairs(&[]))).unwrap();
    let registry = Registry::open(&case.reference("v1"), &client, Watch::never()).unwrap();
    let error = registry.manifest().unwrap_err();
    let expected = "the registry answers 401; no credentials for this registry were found";
    assert!(error.to_string().ends_with(expected), "{error}");
    let host = &case.shop.host;
    let hint = format!("log in: `podman login {host}` or `docker login {host}`");
    assert_eq!(error.hint(), Some(&*hint));
}

#[test]
fn an_artifact_shares_its_files_with_other_versions_and_its_tag_with_nobody() {
    let case = Case::new(Faults { wants: Wants::Token, ..Faults::default() });
    let large = vec![7; 5 * MIB];
    let first = case.set(&[("a", large.clone()), ("b", b"b".to_vec())]);
    let dry = case.push_set(&first, "v1", true).unwrap();
    assert_eq!((dry.sent, dry.blobs, dry.there), (5 * MIB as u64 + 3, 3, 0));
    assert!(case.shop.state().blobs.is_empty() && case.shop.state().manifests.is_empty());
    let pushed = case.push_set(&first, "v1", false).unwrap();
    assert_eq!((pushed.sent, pushed.digest), (dry.sent, dry.digest));
    let again = case.push_set(&first, "v1", false).unwrap();
    assert_eq!((again.sent, again.there, again.digest), (0, 3, pushed.digest));

    // The next version: one file more, of three bytes, and the same under two names.
    let second = case.set(&[("a", large), ("c", b"new".to_vec()), ("d", b"new".to_vec())]);
    let taken = case.push_set(&second, "v1", false).unwrap_err().to_string();
    let name = case.reference("v1");
    assert_eq!(taken, format!("`{name}` already exists with different contents: set of 2"));
    assert_eq!(case.shop.state().blobs.len(), 3, "nothing is sent before the tag is known free");
    let pushed = case.push_set(&second, "v2", false).unwrap();
    assert_eq!((pushed.sent, pushed.there, pushed.blobs), (3, 2, 3));

    let registry = case.open("v2").unwrap();
    let found = read_artifact(&registry).unwrap();
    assert_eq!(found.pinned, pushed.pinned);
    assert_eq!(found.artifact_type, "application/vnd.example.set");
    assert_eq!(found.annotations["org.example.what"], "set of 3");
    let files = second.files.iter().map(|(file, _)| file.clone());
    assert_eq!(found.files, files.collect::<Vec<_>>());
    let ArtifactBlob { digest, bytes, .. } = *found.file("c").unwrap();
    let read = |limit| registry.read_blob(digest, bytes, limit, NonZeroUsize::MIN);
    assert_eq!(read(3).unwrap(), b"new");
    let error = read(2).unwrap_err().to_string();
    assert!(error.ends_with("it has 3 bytes, more than the limit of 2"), "{error}");
    case.shop.state().faults.flipped = true;
    let error = read(3).unwrap_err().to_string();
    assert!(error.contains("its digest is sha256:") && error.contains("expected"), "{error}");

    let error = read_artifact(&case.open("v3").unwrap()).unwrap_err();
    let expected =
        format!("cannot use `{}`: the registry has no such version", case.reference("v3"));
    assert_eq!(error.to_string(), expected);
    assert!(error.hint().unwrap().starts_with("`lab/x` has v1, v2"), "{:?}", error.hint());
}

#[test]
fn an_artifact_that_others_pushed_with_the_same_files_is_the_same() {
    let case = Case::new(Faults::default());
    let set = case.set(&[("a", b"a".to_vec())]);
    let pushed = case.push_set(&set, "v1", false).unwrap();
    let text = case.shop.state().manifests["v1"].clone();
    let other = [&text[..], b"\n"].concat();
    case.shop.state().manifests.insert("v1".to_owned(), other.clone());
    let again = case.push_set(&set, "v1", false).unwrap();
    assert_ne!(again.digest, pushed.digest);
    assert_eq!(case.shop.state().manifests["v1"], other, "the tag is left as it is");
    // The tag now has something without a type.
    case.push(None).map(drop).unwrap();
    let taken = case.push_set(&set, "v1", false).unwrap_err().to_string();
    assert!(taken.contains("already exists with different contents: an image, sha256:"), "{taken}");
}
