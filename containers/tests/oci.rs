//! OCI layouts and archives.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gular_containers::oci::{Compressor, Config, LayerCache, write_archive, write_layout};
use gular_containers::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use gular_containers::sif::Arch;
use gular_containers::{Error, OciDigest, UnixTime};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

fn path(text: &str) -> RootPath {
    RootPath::new(text).unwrap()
}

fn tree() -> Rootfs {
    let mut tree = Rootfs::default();
    let long = "deep/".repeat(60) + "leaf";
    tree.add_text(Layer::Base, &path("usr/bin/sh"), 0o755, "#!").unwrap();
    tree.add(Layer::Base, &path("bin"), 0o777, What::Symlink("usr/bin".to_owned())).unwrap();
    tree.add_text(Layer::App, &path(&long), 0o600, "leaf").unwrap();
    let target = "t".repeat(150);
    tree.add(Layer::App, &path("a-link"), 0o777, What::Symlink(target)).unwrap();
    tree.add(Layer::App, &path("a-twin"), 0o755, What::Hardlink(path("opt/app"))).unwrap();
    tree.add_text(Layer::App, &path("opt/app"), 0o755, &"x".repeat(3_000_000)).unwrap();
    tree
}

fn write(
    to: &Path,
    compressor: Compressor,
    threads: usize,
    write: impl Fn(&Rootfs, &Config<'_>, &Path) -> Result<gular_containers::oci::WrittenOci, Error>,
) -> Result<gular_containers::oci::WrittenOci, Error> {
    let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
    let config = Config {
        tag: "v1",
        arch: Arch::Amd64,
        time: UnixTime(1_700_000_000),
        command: &["/opt/app".to_owned()],
        env: &env,
        labels: &BTreeMap::new(),
        base: None,
        compressor,
        threads: NonZeroUsize::new(threads).unwrap(),
        layers: None,
        progress: &|_| {},
        cancel: &AtomicBool::new(false),
    };
    write(&tree(), &config, to)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The blob a descriptor names, its length and digest checked.
fn blob(layout: &Path, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let bytes = fs::read(layout.join("blobs/sha256").join(digest)).unwrap();
    assert_eq!(descriptor["size"], bytes.len());
    assert_eq!(hex(&bytes), digest);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn plain(media_type: &Value, bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    if media_type.as_str().unwrap().ends_with("gzip") {
        flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    } else {
        plain = zstd::decode_all(bytes).unwrap();
    }
    plain
}

/// Documents are compared by their digests, so their bytes are a format of ours too.
#[test]
fn documents_keep_their_bytes_whatever_the_order_of_labels() {
    let dir = tempfile::tempdir().unwrap();
    let layout = dir.path().join("image");
    let names = ["org.z", "org.a", "b", "x.y", "a", "q"];
    let config = Config {
        tag: "v1",
        arch: Arch::Arm64,
        time: UnixTime(1_700_000_000),
        command: &[],
        env: &BTreeMap::from([("B".to_owned(), "=".to_owned()), ("A".to_owned(), "1".to_owned())]),
        labels: &names.map(|name| (name.to_owned(), "\"".to_owned())).into(),
        base: None,
        compressor: Compressor::Zstd,
        threads: NonZeroUsize::MIN,
        layers: None,
        progress: &|_| {},
        cancel: &AtomicBool::new(false),
    };
    let written = write_layout(&tree(), &config, &layout).unwrap();
    let labels = r#"{"a":"\"","b":"\"","org.a":"\"","org.z":"\"","q":"\"","x.y":"\""}"#;
    let time = "2023-11-14T22:13:20Z";
    let step = |name: &str| format!(r#"{{"created":"{time}","created_by":"gular: {name}"}}"#);
    let ids: Vec<_> = written.layers.iter().map(|(_, id, ..)| format!("\"{id}\"")).collect();
    let text = format!(
        r#"{{"architecture":"arm64","config":{{"Env":["A=1","B=="],"Labels":{labels},"WorkingDir":"/"}},"created":"{time}","history":[{}],"os":"linux","rootfs":{{"diff_ids":[{}],"type":"layers"}}}}"#,
        [step("base"), step("app")].join(","),
        ids.join(","),
    );
    let named = |text: &str| (format!("sha256:{}", hex(text.as_bytes())), text.len());
    let (digest, size) = named(&text);
    let layers: Vec<_> = written
        .layers
        .iter()
        .map(|(layer, _, digest, bytes)| {
            let name = layer.name();
            format!(
                r#"{{"annotations":{{"org.gular.layer":"{name}"}},"digest":"{digest}","mediaType":"application/vnd.oci.image.layer.v1.tar+zstd","size":{bytes}}}"#
            )
        })
        .collect();
    let text = format!(
        r#"{{"annotations":{labels},"config":{{"digest":"{digest}","mediaType":"application/vnd.oci.image.config.v1+json","size":{size}}},"layers":[{}],"mediaType":"application/vnd.oci.image.manifest.v1+json","schemaVersion":2}}"#,
        layers.join(","),
    );
    let (digest, size) = named(&text);
    assert_eq!(written.digest.to_string(), digest, "expected {text}");
    let text = format!(
        r#"{{"manifests":[{{"annotations":{{"org.opencontainers.image.ref.name":"v1"}},"digest":"{digest}","mediaType":"application/vnd.oci.image.manifest.v1+json","platform":{{"architecture":"arm64","os":"linux"}},"size":{size}}}],"mediaType":"application/vnd.oci.image.index.v1+json","schemaVersion":2}}"#
    );
    assert_eq!(fs::read_to_string(layout.join("index.json")).unwrap(), text);
}

#[test]
fn every_descriptor_holds_and_every_file_is_there() {
    for compressor in [Compressor::Gzip, Compressor::Zstd] {
        let dir = tempfile::tempdir().unwrap();
        let layout = dir.path().join("image");
        let written = write(&layout, compressor, 2, write_layout).unwrap();
        let index = json(&layout.join("index.json"));
        assert_eq!(index["manifests"][0]["digest"], written.digest.to_string());
        let manifest: Value =
            serde_json::from_slice(&blob(&layout, &index["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(&blob(&layout, &manifest["config"])).unwrap();
        assert_eq!(config["config"]["Entrypoint"][0], "/opt/app");
        assert_eq!(config["created"], "2023-11-14T22:13:20Z");

        let mut seen = BTreeMap::new();
        let layers = manifest["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 2);
        for (i, layer) in layers.iter().enumerate() {
            let tar = plain(&layer["mediaType"], &blob(&layout, layer));
            assert_eq!(config["rootfs"]["diff_ids"][i], format!("sha256:{}", hex(&tar)));
            for entry in tar::Archive::new(&tar[..]).entries().unwrap() {
                let mut entry = entry.unwrap();
                let name = entry.path().unwrap().to_str().unwrap().trim_end_matches('/').to_owned();
                let link = entry.link_name().unwrap().map(|link| link.to_str().unwrap().to_owned());
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                assert_eq!(
                    (entry.header().uid().unwrap(), entry.header().mtime().unwrap()),
                    (0, 1_700_000_000)
                );
                if entry.header().entry_type() == tar::EntryType::Link {
                    let first = link.as_deref().unwrap();
                    assert!(seen.contains_key(first), "a link before its target");
                }
                seen.insert(name, (entry.header().mode().unwrap(), bytes, link));
            }
        }
        for (path, node) in tree().iter().filter(|(path, _)| !path.as_str().is_empty()) {
            let (mode, bytes, link) =
                seen.remove(path.as_str()).unwrap_or_else(|| panic!("{path} is missing"));
            assert_eq!(mode, u32::from(node.mode), "{path}");
            match &node.what {
                What::File(FileBytes::Bytes(expected)) => assert!(bytes == expected[..], "{path}"),
                What::Symlink(target) => assert_eq!(link.as_ref(), Some(target)),
                What::Hardlink(first) => assert_eq!(link.unwrap(), first.as_str()),
                What::Dir => {}
                other => panic!("{other:?}"),
            }
        }
        assert!(seen.is_empty(), "{:?}", seen.keys());
    }
}

#[test]
fn threads_change_no_byte() {
    let dir = tempfile::tempdir().unwrap();
    for compressor in [Compressor::Gzip, Compressor::Zstd] {
        let image = |threads| {
            let to = dir.path().join(format!("{compressor:?}-{threads}.tar"));
            write(&to, compressor, threads, write_archive).unwrap();
            fs::read(to).unwrap()
        };
        assert!(image(1) == image(3));
    }
    let archive = dir.path().join("Gzip-1.tar");
    let mut tar = tar::Archive::new(File::open(archive).unwrap());
    let names: Vec<_> =
        tar.entries().unwrap().map(|e| e.unwrap().path().unwrap().into_owned()).collect();
    assert_eq!(names[..2], [Path::new("oci-layout"), Path::new("index.json")]);
}

#[test]
fn what_is_there_stays_and_what_fails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("image");
    fs::write(&to, "mine").unwrap();
    for result in [
        write(&to, Compressor::Gzip, 1, write_layout),
        write(&to, Compressor::Gzip, 1, write_archive),
    ] {
        assert!(matches!(result, Err(Error::Exists { .. })), "{result:?}");
    }
    assert_eq!(fs::read(&to).unwrap(), b"mine");

    let short = dir.path().join("short");
    fs::write(&short, "12345").unwrap();
    let to = dir.path().join("other");
    let failed = write(&to, Compressor::Gzip, 1, |tree, config, to| {
        let mut tree = tree.clone();
        let source = FileBytes::File { path: short.clone(), bytes: 10, blake3: None };
        tree.add(Layer::App, &path("short"), 0o644, What::File(source)).unwrap();
        write_layout(&tree, config, to)
    });
    let error = failed.unwrap_err().to_string();
    assert!(
        error.ends_with(
            "short` was changed during the build: it had 10 bytes at first, and now has 5"
        ),
        "{error}"
    );
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// Writes the layout `to` with a cache of `limit` bytes in `dir`.
fn cached(to: &Path, dir: &Path, limit: u64, cancel: &AtomicBool) -> Result<Vec<OciDigest>, Error> {
    let cache = LayerCache::new(dir, limit);
    let config = Config {
        tag: "v1",
        arch: Arch::Amd64,
        time: UnixTime(1),
        command: &[],
        env: &BTreeMap::new(),
        labels: &BTreeMap::new(),
        base: None,
        compressor: Compressor::Gzip,
        threads: NonZeroUsize::MIN,
        layers: Some(&cache),
        progress: &|_| {},
        cancel,
    };
    let written = write_layout(&tree(), &config, to)?;
    assert!(fs::read_dir(to.join("blobs/sha256")).unwrap().all(|blob| {
        let blob = blob.unwrap();
        blob.file_name().to_str().unwrap() == hex(&fs::read(blob.path()).unwrap())
    }));
    Ok(written.layers.into_iter().map(|(_, _, digest, _)| digest).collect())
}

#[test]
fn a_cache_changes_no_byte_even_when_it_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, go) = (dir.path().join("cache"), AtomicBool::new(false));
    let write = |name: &str, limit| cached(&dir.path().join(name), &cache, limit, &go).unwrap();
    let first = write("first", 1 << 30);
    let kept = || fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
    let blobs = || kept().filter(|path| path.extension().unwrap() == "blob").collect::<Vec<_>>();
    assert_eq!(blobs().len(), 2);
    assert_eq!(write("again", 1 << 30), first);
    for blob in blobs() {
        // The blob has other bytes of the same length; the layouts keep their own.
        let mut bytes = fs::read(&blob).unwrap();
        bytes[20] ^= 1;
        fs::remove_file(&blob).unwrap();
        fs::write(&blob, bytes).unwrap();
    }
    assert_eq!(write("damaged", 1 << 30), first);
    assert_eq!(write("mended", 1 << 30), first);
    fs::remove_dir_all(&cache).unwrap();
    assert_eq!(write("small", 1), first);
    assert!(!cache.exists() || blobs().is_empty());
}

#[test]
fn who_stops_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let stopped = cached(&dir.path().join("x"), &dir.path().join("c"), 1, &AtomicBool::new(true));
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
