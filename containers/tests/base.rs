//! Images based on one from a registry: the base is fixed by its digest, and its layers are kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gular_containers::lock::{BaseMoved, Sources};
use gular_containers::make::{
    BuildCache, BuildOptions, Built, ImageFormat, LockOptions, Locked, build, lock,
};
use gular_containers::oci::OciLayout;
use gular_containers::rootfs::{Node, What};
use gular_containers::sif::Arch;
use gular_containers::store::{Limits, Store};
use gular_containers::{Error, OciDigest, StoredImage, UnixTime};
use tar::EntryType::Regular;

use crate::oci_read::Made;
use crate::shop::{Faults, Shop};
use crate::support::{OnlyRegistries, tar};

const SITE: &str = "usr/lib/python3/dist-packages/p";

/// Replaces a module of the base, whose byte code goes then.
const RECIPE: &str = r#"
[image]
name = "on"
[base]
oci = "docker://r.io/lab/x:v1"
[app.files]
"opt/mine" = "mine"
"usr/lib/python3/dist-packages/p/a.py" = "mine"
"#;

struct Case {
    dir: tempfile::TempDir,
    shop: Shop,
    network: OnlyRegistries,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let case = Self { dir, shop: Shop::new(Faults::default()), network: OnlyRegistries::new() };
        fs::write(case.at("image.toml"), case.recipe()).unwrap();
        fs::write(case.at("mine"), "mine").unwrap();
        case
    }

    fn recipe(&self) -> String {
        RECIPE.replace("r.io", &self.shop.host)
    }

    fn base(&self) -> String {
        format!("docker://{}/lab/x:v1", self.shop.host)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Pushes this image with the tag.
    fn push(&self, image: &Made) -> OciDigest {
        self.network.push(&self.base(), &image.path(), &self.at("uploads")).digest
    }

    fn options(&self, cache: &str, out: &str) -> BuildOptions<'static> {
        let mut options = BuildOptions::new(
            &self.at("image.toml"),
            BuildCache::new(&self.at(cache)),
            Sources::new(UnixTime::default()),
        );
        options.out = self.at(out);
        options.formats = vec![ImageFormat::Oci, ImageFormat::Sif];
        // The image has no C library, which is an error.
        options.force = true;
        options
    }

    fn build(&self, options: &BuildOptions<'_>) -> Result<Built, Error> {
        build(options, &self.network, &AtomicBool::new(false))
    }

    fn lock(&self, vendor: Option<PathBuf>) -> Result<Locked, Error> {
        let options = LockOptions {
            recipe: self.at("image.toml"),
            sources: Sources::new(UnixTime::default()),
            vendor,
            cache: BuildCache::new(&self.at("cache-lock")),
            offline: false,
            dry_run: false,
        };
        lock(&options, &self.network, &AtomicBool::new(false))
    }

    /// Requests that the registry got since it was asked.
    fn requests(&self) -> usize {
        std::mem::take(&mut self.shop.state().seen).len()
    }
}

fn image(new: &str) -> Made {
    let code = format!("{SITE}/__pycache__/a.cpython-311.pyc");
    Made::of(&[
        tar(&[
            (Regular, "bin/sh", "", b"sh"),
            (Regular, &format!("{SITE}/a.py"), "", b"theirs"),
            (Regular, &code, "", b"code"),
            (Regular, "etc/old", "", b"old"),
        ]),
        tar(&[(Regular, "etc/.wh.old", "", b""), (Regular, "etc/new", "", new.as_bytes())]),
    ])
}

fn digests(built: &Built) -> Vec<String> {
    built.outputs.iter().map(|output| output.digest.to_string()).collect()
}

/// Digests of the layers that an image in a layout has.
fn layers(path: &Path) -> Vec<String> {
    let image = OciLayout::open(path).unwrap().image(None, Arch::Amd64).unwrap();
    image.layers.iter().map(|layer| layer.sha256.to_string()).collect()
}

#[test]
fn a_base_keeps_its_layers_in_oci_and_is_merged_in_a_sif() {
    let case = Case::new();
    let pushed = image("1");
    let digest = case.push(&pushed);
    let built = case.build(&case.options("cache", "out")).unwrap();
    let text = fs::read_to_string(case.at("image.lock")).unwrap();
    let base = case.base();
    assert!(text.contains(&format!("path = \"{base}\"\ndigest = \"{digest}\"")), "{text}");

    let [oci, sif] = [0, 1].map(|n| &built.outputs[n].path);
    let (theirs, ours) = (layers(&pushed.path()), layers(oci));
    assert_eq!((&ours[..2], ours.len()), (&theirs[..], 3));
    let names: Vec<_> = built.outputs[0].layers.iter().map(|layer| layer.name).collect();
    assert_eq!(names, ["base", "base", "app"]);
    let store = Store::new(&case.at("read"));
    let files = |path: &Path| -> BTreeMap<String, (u16, Option<u64>)> {
        let image = StoredImage::open(path, &store, &Limits::default()).unwrap();
        assert_eq!(image.env["PATH"], "/app/bin:/bin");

        let size = |node: &Node| matches!(node.what, What::File(_)).then(|| node.bytes());
        let nodes = image.tree.iter();
        nodes.map(|(path, node)| (path.to_string(), (node.mode, size(node)))).collect()
    };
    let (in_oci, in_sif) = (files(oci), files(sif));
    assert_eq!(in_oci, in_sif);
    assert_eq!(in_oci[&format!("/{SITE}/a.py")].1, Some(4));
    assert!(in_oci.contains_key("/etc/new") && in_oci.contains_key("/opt/mine"));
    for gone in ["/etc/old".to_owned(), format!("/{SITE}/__pycache__/a.cpython-311.pyc")] {
        assert!(!in_oci.contains_key(&gone), "{gone}");
    }
}

#[test]
fn the_digest_of_the_lock_counts_and_nothing_is_fetched_twice() {
    let case = Case::new();
    let first = case.push(&image("1"));
    let built = digests(&case.build(&case.options("cache", "out")).unwrap());
    let second = case.push(&image("2"));
    assert_ne!(first, second);
    case.requests();
    let again = BuildOptions { offline: true, locked: true, ..case.options("cache", "again") };
    assert_eq!(digests(&case.build(&again).unwrap()), built);
    assert_eq!(case.requests(), 0);
    // Another machine builds the same bytes, whatever the tag's digest is now.
    let other = BuildOptions { locked: true, ..case.options("cache-2", "other") };
    assert_eq!(digests(&case.build(&other).unwrap()), built);
    assert!(case.requests() > 0);
    let nothing = BuildOptions { offline: true, ..case.options("cache-3", "none") };
    assert!(matches!(case.build(&nothing), Err(Error::Offline { .. })));

    let locked = case.lock(Some(case.at("vendor"))).unwrap();
    assert_eq!(locked.lock.oci.unwrap().digest, second);
    let moved = BaseMoved { name: case.base(), before: first, now: second };
    assert_eq!(locked.changes.base, Some(moved));
    assert_eq!(case.lock(None).unwrap().changes.base, None);
    case.requests();
    let vendored = BuildOptions { vendor: vec![case.at("vendor")], ..nothing };
    assert_ne!(digests(&case.build(&vendored).unwrap()), built);
    assert_eq!(case.requests(), 0);
}

#[test]
fn a_base_that_is_not_what_it_says_is_refused() {
    let case = Case::new();
    let error = case.lock(None).unwrap_err().to_string();
    assert!(error.contains("/v2/lab/x/manifests/v1`: the registry answers 404"), "{error}");
    case.push(&image("1"));
    case.lock(None).unwrap();
    case.shop.state().faults.flipped = true;
    let error = case.build(&case.options("cache", "out")).unwrap_err().to_string();
    assert!(error.contains("has SHA-256"), "{error}");
    case.shop.state().faults.flipped = false;
    let mut small = case.options("cache", "out");
    small.limits.bytes = 100;
    let error = case.build(&small).unwrap_err();
    assert!(matches!(error, Error::Limit { what: "bytes to fetch", .. }), "{error}");
    assert!(!case.at("out").exists());

    let recipe =
        case.recipe().replace("name = \"on\"", "name = \"on\"\nplatform = \"linux/arm64\"");
    fs::write(case.at("image.toml"), recipe).unwrap();
    let error = case.lock(None).unwrap_err().to_string();
    assert!(error.contains("the image is for linux/amd64, expected linux/arm64"), "{error}");
    fs::write(case.at("image.toml"), case.recipe().replace("docker://", "https://me:secret@"))
        .unwrap();
    let error = case.lock(None).unwrap_err().to_string();
    assert!(error.contains("begins with `docker://`") && !error.contains("secret"), "{error}");
}
