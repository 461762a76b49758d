//! Images pushed to a registry on this machine, and pulled again. Tests with real registries are in
//! `tests/peers/registry_images.py`.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use gular_containers::fetch::Archives;
use gular_containers::make::{ImageWatch, Note};
use gular_containers::registry::{Pulled, Pulling, pull_image};
use gular_containers::sif::Arch;
use gular_containers::{Error, Sha256};
use gular_registry::{Pushed, Reference};
use serde_json::json;

use crate::oci_read::Made;
use crate::shop::{Faults, Shop};
use crate::support::OnlyRegistries;

const MIB: usize = 1 << 20;

struct Case {
    dir: tempfile::TempDir,
    shop: Shop,
    network: OnlyRegistries,
    mine: Made,
}

impl Case {
    fn new(faults: Faults) -> Self {
        let (dir, shop) = (tempfile::tempdir().unwrap(), Shop::new(faults));
        let layers = [5 * MIB + 7, 10].map(|len| (0..len).map(|i| ((i * i) >> 7) as u8).collect());
        Self { dir, shop, network: OnlyRegistries::new(), mine: Made::plain(&layers) }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn name(&self, rest: &str) -> String {
        format!("docker://{}/lab/x{rest}", self.shop.host)
    }

    fn push(&self) -> Pushed {
        self.network.push(&self.name(":v1"), &self.mine.path(), &self.at("uploads"))
    }

    fn pull_some(
        &self,
        name: &str,
        arch: Arch,
        to: &str,
        max_bytes: u64,
        watch: &dyn ImageWatch,
    ) -> Result<Pulled, Error> {
        let archives = Archives { dir: self.at("archives"), vendor: Vec::new(), offline: false };
        let with = Pulling {
            reference: &Reference::parse(&self.name(name)).unwrap(),
            transport: &self.network,
            archives: &archives,
            threads: NonZeroUsize::new(3).unwrap(),
            max_bytes,
            watch,
        };
        pull_image(arch, &self.at(to), &with)
    }

    fn pull(&self, to: &str) -> Result<Pulled, Error> {
        self.pull_some(":v1", Arch::Amd64, to, u64::MAX, &AtomicBool::new(false))
    }

    /// Checks that the pulled blobs are those that were pushed.
    fn same(&self, to: &str) {
        let blobs = |dir: &Path| {
            let entries = fs::read_dir(dir.join("blobs/sha256")).unwrap();
            let mut all: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
            all.sort();
            all.iter().map(|path| Sha256::of_file(path).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(blobs(&self.at(to)), blobs(&self.mine.path()));
    }
}

#[test]
fn an_image_goes_and_comes_back() {
    let case = Case::new(Faults { redirects: true, ..Faults::default() });
    let pushed = case.push();
    assert_eq!((pushed.there, pushed.blobs, pushed.sent), (0, 3, pushed.bytes));
    let pulled = case.pull("back").unwrap();
    assert_eq!((pulled.digest, pulled.kept), (pushed.digest, 0));
    case.same("back");
    assert_eq!(case.pull("twice").unwrap().kept, 3);
    assert!(matches!(case.pull("twice"), Err(Error::Exists { .. })));
}

#[test]
fn what_is_wrong_is_named_and_leaves_nothing() {
    let case = Case::new(Faults::default());
    case.push();
    case.shop.state().faults.flipped = true;
    let error = case.pull("back").unwrap_err().to_string();
    assert!(error.contains("has SHA-256") && error.contains("expected"), "{error}");
    assert!(!case.at("back").exists());
    let left: Vec<_> =
        fs::read_dir(case.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".gular")), "{left:?}");

    case.shop.state().faults.flipped = false;
    let text = case.shop.state().manifests["v1"].clone();
    for (manifest, says) in
        [(b"{}".to_vec(), "its type is ``, expected an image"), ([&text[..], b" "].concat(), "")]
    {
        case.shop.state().manifests.insert("v1".to_owned(), manifest);
        let pulled = case.pull("odd").map(drop).map_err(|error| error.to_string());
        assert_eq!(pulled.is_ok(), says.is_empty(), "{pulled:?}");
        assert!(says.is_empty() || pulled.as_ref().unwrap_err().contains(says), "{pulled:?}");
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
    let pushed = case.push();
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
    let taken = Taken::default();
    let pulled = case.pull_some(":several", Arch::Amd64, "back", u64::MAX, &taken).unwrap();
    assert_eq!((pulled.top.0, pulled.digest), (Sha256::of(&index), pushed.digest));
    let said = format!("{}/lab/x:several linux/amd64 linux/arm64", case.shop.host);
    assert_eq!(*taken.1.lock().unwrap(), [said]);
    case.same("back");
}

#[test]
fn images_of_other_processors_and_large_ones_are_refused_before_their_layers_come() {
    let case = Case::new(Faults::default());
    case.push();
    let never = AtomicBool::new(false);
    let blobs = || {
        let state = case.shop.state();
        state.fetched.iter().filter(|name| state.blobs[*name].len() > MIB).count()
    };
    let error =
        case.pull_some(":v1", Arch::Arm64, "arm", u64::MAX, &never).unwrap_err().to_string();
    assert!(error.contains("the image is for linux/amd64, expected linux/arm64"), "{error}");
    let error = case.pull_some(":v1", Arch::Amd64, "large", 5 * MIB as u64, &never).unwrap_err();
    assert!(matches!(error, Error::Limit { what: "bytes to fetch", .. }), "{error}");
    assert_eq!(blobs(), 0);
    assert!(!case.at("arm").exists() && !case.at("large").exists());
    case.pull("back").unwrap();
    assert!(blobs() > 0);
}
