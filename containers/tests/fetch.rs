//! Downloads of archives: checked, resumed, shared, refused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Shelf, sha256};
use gular_containers::fetch::{Archives, Told};
use gular_containers::{Error, Package};
use gular_files::{Lock, LockMode, SAY_AFTER};

const A: &str = "https://a.example/pool/x_1.deb";
const B: &str = "https://b.example/pool/x_1.deb";

/// Somewhat more than 3 MiB, in which no two blocks are alike.
fn bytes() -> Vec<u8> {
    (0..3_300_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn package(bytes: &[u8]) -> Package {
    Package {
        name: "x".to_owned(),
        version: "1".to_owned(),
        arch: Some("all".to_owned()),
        bytes: bytes.len() as u64,
        sha256: sha256(bytes),
        urls: vec![A.to_owned(), B.to_owned()],
        license: None,
    }
}

fn archives(dir: &Path) -> Archives {
    Archives { dir: dir.join("cache"), vendor: Vec::new(), offline: false }
}

fn get(archives: &Archives, shelf: &Shelf, bytes: &[u8]) -> Result<PathBuf, Error> {
    archives.get(&package(bytes), shelf, Told::NOBODY, &AtomicBool::new(false))
}

#[test]
fn a_file_is_fetched_once() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, archives) = (bytes(), archives(dir.path()));
    let mut shelf = Shelf::default();
    shelf.put(B, bytes.clone());
    let path = get(&archives, &shelf, &bytes).unwrap();
    assert_eq!(path, archives.dir.join(sha256(&bytes).to_string()));
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(shelf.asked(), [format!("stream 0 {A}"), format!("stream 0 {B}")]);
    get(&archives, &shelf, &bytes).unwrap();
    assert!(shelf.asked().is_empty());
    assert_eq!(fs::read_dir(&archives.dir).unwrap().count(), 1, "no part is left");
    // A file that was cut short later is fetched again. It is read-only, which root does not feel.
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"short").unwrap();
    get(&archives, &shelf, &bytes).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn who_waits_for_long_for_another_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, archives) = (bytes(), archives(dir.path()));
    let mut shelf = Shelf::default();
    shelf.put(B, bytes.clone());
    fs::create_dir(&archives.dir).unwrap();
    let part = archives.dir.join(format!("{}.part", sha256(&bytes)));
    let held = Lock::try_at(&part, LockMode::Exclusive).unwrap().unwrap();
    let told = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(SAY_AFTER + std::time::Duration::from_secs(1));
            drop(held);
        });
        let waiting = |dir: &Path| told.lock().unwrap().push(dir.to_owned());
        let told = Told { waiting: &waiting, ..Told::NOBODY };
        archives.get(&package(&bytes), &shelf, told, &AtomicBool::new(false)).unwrap();
    });
    assert_eq!(told.into_inner().unwrap(), [archives.dir]);
}

#[test]
fn a_cut_transfer_goes_on_where_it_was_even_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, archives) = (bytes(), archives(dir.path()));
    let mut shelf = Shelf::default();
    shelf.put(A, bytes.clone());
    shelf.cut.lock().unwrap().insert(A.to_owned(), 2_500_000);
    let error = get(&archives, &shelf, &bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot fetch `x_1.deb`: cannot read `{A}`: the connection broke; {B}: `{B}` is not there (404)"
        )
    );
    assert_eq!(error.hint(), Some("try again"));
    assert_eq!(
        shelf.asked(),
        [format!("stream 0 {A}"), format!("stream 2097152 {B}")],
        "what the first place gave is kept for the second"
    );
    let heard = std::sync::Mutex::new(Vec::new());
    let progress = |done| heard.lock().unwrap().push(done);
    archives
        .get(
            &package(&bytes),
            &shelf,
            Told { progress: &progress, ..Told::NOBODY },
            &AtomicBool::new(false),
        )
        .unwrap();
    assert_eq!(shelf.asked(), [format!("stream 2097152 {A}")]);
    let heard = heard.into_inner().unwrap();
    assert!(heard.is_sorted() && heard.last() == Some(&(bytes.len() as u64)), "{heard:?}");
}

/// A rename that fails stands for a kill before the rename.
#[test]
fn a_part_that_has_not_got_its_name_can_be_opened_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let (bytes, archives) = (bytes(), archives(dir.path()));
    let mut shelf = Shelf::default();
    shelf.put(A, bytes.clone());
    let whole = archives.dir.join(sha256(&bytes).to_string());
    fs::create_dir_all(whole.join("in-the-way")).unwrap();
    get(&archives, &shelf, &bytes).unwrap_err();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&whole.with_extension("part")) & 0o200, 0o200);
    fs::remove_dir_all(&whole).unwrap();
    shelf.asked();
    assert_eq!(fs::read(get(&archives, &shelf, &bytes).unwrap()).unwrap(), bytes);
    assert_eq!(mode(&whole), 0o444);
    assert!(shelf.asked().is_empty(), "its bytes were there");
}

#[test]
fn rubbish_in_a_part_is_not_the_mirrors_fault() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, archives) = (bytes(), archives(dir.path()));
    let mut shelf = Shelf::default();
    shelf.put(A, bytes.clone());
    fs::create_dir(&archives.dir).unwrap();
    let part = archives.dir.join(format!("{}.part", sha256(&bytes)));
    for len in [1_500_000, bytes.len(), bytes.len() + 1] {
        fs::write(&part, vec![7; len]).unwrap();
        let path = get(&archives, &shelf, &bytes).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn other_bytes_are_refused_and_the_next_place_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, archives) = (bytes(), archives(dir.path()));
    let mut shelf = Shelf::default();
    let mut other = bytes.clone();
    other[77] ^= 1;
    for wrong in [other, bytes[..bytes.len() - 1].to_vec(), [&bytes[..], b"x"].concat()] {
        shelf.put(A, wrong.clone());
        shelf.documents.remove(B);
        let error = get(&archives, &shelf, &bytes).unwrap_err().to_string();
        let found = sha256(&wrong);
        let says = match wrong.len() as i64 - bytes.len() as i64 {
            0 => format!("{A} has SHA-256 {found}, expected {}", sha256(&bytes)),
            -1 => format!("{A} sent only 3299999 of 3300000 bytes"),
            _ => format!("{A}: the server sent more than 3300000 bytes"),
        };
        assert!(error.contains(&says), "{error}");
        assert!(!archives.dir.join(sha256(&bytes).to_string()).exists());
        shelf.put(B, bytes.clone());
        let path = get(&archives, &shelf, &bytes).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn vendor_folders_come_first_and_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = bytes();
    let mut archives = archives(dir.path());
    archives.offline = true;
    archives.vendor = vec![dir.path().join("none"), dir.path().join("vendor")];
    let shelf = Shelf::default();
    let error = get(&archives, &shelf, &bytes).unwrap_err();
    assert!(matches!(&error, Error::Offline { name } if name == "x_1.deb"));
    fs::create_dir(dir.path().join("vendor")).unwrap();
    let file = dir.path().join("vendor/x_1.deb");
    fs::write(&file, &bytes).unwrap();
    assert_eq!(get(&archives, &shelf, &bytes).unwrap(), file);
    let mut other = bytes.clone();
    other[0] ^= 1;
    fs::write(&file, &other).unwrap();
    let error = get(&archives, &shelf, &bytes).unwrap_err();
    assert!(matches!(&error, Error::Digest { found, .. } if *found == sha256(&other)), "{error}");
    fs::write(&file, b"x").unwrap();
    let error = get(&archives, &shelf, &bytes).unwrap_err().to_string();
    assert!(error.ends_with("x_1.deb`: it has 1 bytes, expected 3300000"), "{error}");
    assert!(shelf.asked().is_empty());
}

#[test]
fn two_at_once_fetch_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, archives) = (bytes(), archives(dir.path()));
    let mut shelf = Shelf::default();
    shelf.put(A, bytes.clone());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| get(&archives, &shelf, &bytes).unwrap());
        }
    });
    assert_eq!(shelf.asked().len(), 1);
    assert_eq!(fs::read_dir(&archives.dir).unwrap().count(), 1);
}

#[test]
fn stopping_keeps_what_came() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, archives) = (bytes(), archives(dir.path()));
    let mut shelf = Shelf::default();
    shelf.put(A, bytes.clone());
    let cancel = AtomicBool::new(false);
    let progress = |done| cancel.store(done >= 2 << 20, Ordering::Relaxed);
    let stopped = archives.get(
        &package(&bytes),
        &shelf,
        Told { progress: &progress, ..Told::NOBODY },
        &cancel,
    );
    assert!(matches!(stopped, Err(Error::Cancelled)));
    get(&archives, &shelf, &bytes).unwrap();
    assert_eq!(shelf.asked(), [format!("stream 0 {A}"), format!("stream 2097152 {A}")]);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let archives = archives(dir.path());
    let good = package(b"x");
    for url in ["https://a.example/..", "https://a.example/", "https://a.example/%2e%2e%2fx"] {
        let bad = Package { urls: vec![url.to_owned()], ..good.clone() };
        let refused = archives.get(&bad, &Shelf::default(), Told::NOBODY, &AtomicBool::new(false));
        assert!(matches!(refused, Err(Error::Path { .. })));
    }
}

/// `/dev/full` stands for a full disk.
#[test]
fn a_full_disk_is_one_error() {
    let dir = tempfile::tempdir().unwrap();
    let (bytes, archives) = (bytes(), archives(dir.path()));
    let mut shelf = Shelf::default();
    shelf.put(A, bytes.clone());
    shelf.put(B, bytes.clone());
    fs::create_dir(&archives.dir).unwrap();
    let part = archives.dir.join(format!("{}.part", sha256(&bytes)));
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let error = get(&archives, &shelf, &bytes).unwrap_err();
    assert!(error.to_string().starts_with("cannot write"), "{error}");
    let full = io::ErrorKind::StorageFull;
    assert!(matches!(&error, Error::Io(error) if error.kind() == full), "{error}");
    assert_eq!(shelf.asked().len(), 1, "no other place would help");
}
