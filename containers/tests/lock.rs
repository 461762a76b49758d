//! From a recipe to `image.lock` and its archives: a small archive that GnuPG signed
//! (`data/archive`) and an index of wheels made here.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::support::{Shelf, sha256};
use gular_containers::fetch::{Archives, Told};
use gular_containers::lock::{ImageLock, Sources, resolve, vendor};
use gular_containers::recipe::Recipe;
use gular_containers::{Error, Package, UnixTime};
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

/// The time of the tests: 2026-07-13.
const NOW: UnixTime = UnixTime(1_783_900_800);
const DEBIAN: &str = "https://deb.debian.org/debian";
const SECURITY: &str = "https://deb.debian.org/debian-security";
const INDEX: &str = "https://pypi.org/simple";
const FILES: &str = "https://files.pythonhosted.org/packages";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/archive").join(name)
}

fn read(name: &str) -> Vec<u8> {
    fs::read(data(name)).unwrap()
}

fn sources() -> Sources {
    let mut sources = Sources::new(NOW);
    sources.keyrings = vec![data("test.asc")];
    sources
}

fn recipe(more: &str) -> Recipe {
    Recipe::parse(&format!("[image]\nname = \"a\"\n{more}"), "image.toml").unwrap()
}

/// The archive, `bookworm` under its digest alone.
fn debian() -> Shelf {
    let mut shelf = Shelf::default();
    for (root, suite, name) in [
        (DEBIAN, "bookworm", "main"),
        (DEBIAN, "bookworm-updates", "updates"),
        (SECURITY, "bookworm-security", "security"),
    ] {
        let packages = read(&format!("{name}.Packages.xz"));
        let dir = format!("{root}/dists/{suite}");
        let place = match name {
            "main" => format!("by-hash/SHA256/{}", sha256(&packages)),
            _ => "Packages.xz".to_owned(),
        };
        shelf.put(&format!("{dir}/main/binary-amd64/{place}"), packages);
        shelf.put(&format!("{dir}/InRelease"), read(&format!("{name}.InRelease")));
    }
    shelf
}

fn lock(recipe: &Recipe, sources: &Sources, shelf: &Shelf) -> Result<ImageLock, Error> {
    resolve(recipe, Path::new("."), sources, shelf, &|_| {})
}

fn bash(shelf: &Shelf, sources: &Sources) -> Result<ImageLock, Error> {
    lock(&recipe("[base]\npackages = [\"bash\"]"), sources, shelf)
}

#[test]
fn the_newest_of_three_suites_is_locked_with_addresses_that_stay() {
    let found = bash(&debian(), &sources()).unwrap();
    let shown: Vec<_> =
        found.debs.iter().map(|deb| format!("{} {}", deb.name, deb.version)).collect();
    assert_eq!(shown, ["base-files 12.4+deb12u1", "bash 5.2.15-2", "libc6 2.36-9+deb12u9"]);
    assert_eq!(found.time, UnixTime(1_783_815_161), "of the security suite, the newest");
    let pool = "pool/updates/main/g/glibc/libc6_2.36-9+deb12u9_amd64.deb";
    assert_eq!(
        found.debs[2].urls,
        [
            format!("{SECURITY}/{pool}"),
            format!("https://snapshot.debian.org/archive/debian-security/20260713T001241Z/{pool}")
        ]
    );
    assert!(found.debs[0].urls[1].contains("/archive/debian/20260713T001241Z/pool/main/"));
    let text = found.to_text();
    assert_eq!(ImageLock::parse(&text, "image.lock").unwrap(), found);
    assert_eq!(bash(&debian(), &sources()).unwrap().to_text(), text);
}

#[test]
fn a_lock_is_of_one_recipe_but_not_of_one_program() {
    let found = bash(&debian(), &sources()).unwrap();
    let same = recipe("[base]\npackages = [\"bash\"]\n[app]\npath = \"x\"\n[env]\nA = \"1\"");
    found.check(&same, "image.lock").unwrap();
    for other in [
        "[base]\npackages = [\"dash\"]",
        "[base]\npackages = [\"bash\"]\n[cuda]\ntorch = \"2.7.1\"",
        "[base]\npackages = [\"bash\"]\n[python]\nlock = \"pylock.toml\"",
    ] {
        let error = found.check(&recipe(other), "image.lock").unwrap_err();
        assert!(matches!(error, Error::Stale { .. }));
    }
}

/// Returns the error and the hint after a change of the archive or the sources.
fn refused(change: impl FnOnce(&mut Shelf, &mut Sources)) -> (String, String) {
    let (mut shelf, mut sources) = (debian(), sources());
    change(&mut shelf, &mut sources);
    let error = bash(&shelf, &sources).unwrap_err();
    (error.to_string(), error.hint().unwrap_or_default().to_owned())
}

#[test]
fn lists_that_nobody_vouches_for_are_refused() {
    let main = format!("{DEBIAN}/dists/bookworm/InRelease");
    let replaced = |from: &str, to: &str| {
        let text = String::from_utf8(read("main.InRelease")).unwrap();
        assert!(text.contains(from));
        text.replacen(from, to, 1).into_bytes()
    };
    let with = |bytes: Vec<u8>| refused(|shelf, _| shelf.put(&main, bytes));

    let (error, _) = with(replaced(" 304 main", " 305 main"));
    assert!(error.contains("the signature of Test archive"), "{error}");
    assert!(error.ends_with("is bad: the text was changed after it was signed"), "{error}");
    let (error, _) = with(read("old.InRelease"));
    assert!(error.contains("no trusted key signed it, but "), "{error}");
    let (error, _) = refused(|shelf, sources| {
        shelf.put(&main, read("old.InRelease"));
        sources.keyrings.push(data("old.gpg"));
    });
    assert!(error.contains("no longer valid: Old archive <old@example.org>"), "{error}");
    let (error, _) = with(read("weak.InRelease"));
    assert!(error.contains("too weak"), "{error}");
    let (error, _) = with(replaced("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n", ""));
    assert!(error.contains("not a complete signed text"), "{error}");
    let (error, _) = with([b"Suite: bookworm\n\n".to_vec(), read("main.InRelease")].concat());
    assert!(error.contains("not a complete signed text"), "{error}");
    // Debian's own keys are used if no others are named.
    let (error, _) = refused(|_, sources| sources.keyrings.clear());
    assert!(error.contains("no trusted key signed it"), "{error}");
    // A second signature that is good makes up for one that is unknown.
    let mut other = sources();
    other.keyrings = vec![data("other.asc")];
    bash(&debian(), &other).unwrap();
}

#[test]
fn lists_of_another_suite_or_time_are_refused() {
    let (error, _) = refused(|shelf, _| {
        shelf.put(&format!("{DEBIAN}/dists/bookworm/InRelease"), read("updates.InRelease"));
    });
    assert!(
        error.contains(
            "it describes the release bookworm-updates, oldstable-updates, expected bookworm"
        ),
        "{error}"
    );
    let (error, hint) = refused(|_, sources| sources.now = UnixTime(1_784_419_961));
    assert!(
        error.contains("it is out of date: it was valid until Sun, 19 Jul 2026 00:12:41 GMT"),
        "{error}"
    );
    assert!(hint.contains("clock"), "{hint}");
    let (error, _) = refused(|shelf, _| {
        let url = format!("{DEBIAN}/dists/bookworm-updates/main/binary-amd64/Packages.xz");
        let mut bytes = read("updates.Packages.xz");
        bytes[100] ^= 1;
        shelf.put(&url, bytes);
    });
    assert!(error.contains("as in the Release file"), "{error}");
    let missing = |suite: &str| {
        let recipe = recipe(&format!("[base]\ndebian = \"{suite}\""));
        lock(&recipe, &sources(), &debian()).unwrap_err()
    };
    assert_eq!(missing("bokworm").hint().unwrap(), "did you mean `bookworm`?");
    assert!(missing("trixie").to_string().contains("has no release `trixie`"));
    assert!(missing("../../x").to_string().contains("not the name of a Debian release"));
    let arm = recipe("platform = \"linux/arm64\"\n[base]\npackages = [\"bash\"]");
    let error = lock(&arm, &sources(), &debian()).unwrap_err();
    assert_eq!(error.hint().unwrap(), "this release has no packages for the architecture arm64");
}

#[test]
fn cut_and_changed_release_files_never_panic_nor_pass() {
    let whole = read("main.InRelease");
    let url = format!("{DEBIAN}/dists/bookworm/InRelease");
    for at in (0..whole.len()).step_by(11) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        for bytes in [whole[..at].to_vec(), changed] {
            let mut shelf = debian();
            shelf.put(&url, bytes);
            // Armor has places that mean nothing: a passing one must say the same.
            if let Ok(found) = bash(&shelf, &sources()) {
                assert_eq!(found, bash(&debian(), &sources()).unwrap(), "byte {at}");
            }
        }
    }
}

/// A wheel with these members.
fn wheel(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Puts a wheel into the index, with the metadata beside it when `beside`.
fn offer(shelf: &mut Shelf, file: &str, metadata: &str, beside: bool, padding: usize) -> Vec<u8> {
    let parts: Vec<&str> = file.split('-').collect();
    let info = format!("{}-{}.dist-info", parts[0], parts[1]);
    let noise: Vec<u8> =
        (0..padding as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let bytes = wheel(&[
        (&format!("{info}/METADATA"), metadata.as_bytes()),
        ("x/lib/libx.so.1", &noise),
        ("x/__init__.py", b"import os"),
    ]);
    let project = parts[0].replace('_', "-");
    let page = format!("{INDEX}/{project}/");
    let mut html = shelf.documents.remove(&page).unwrap_or_default();
    let digest = sha256(&bytes);
    html.extend_from_slice(
        format!("<a href=\"{FILES}/{file}#sha256={digest}\">{file}</a>\n").as_bytes(),
    );
    shelf.put(&page, html);
    if beside {
        shelf.put(&format!("{FILES}/{file}.metadata"), metadata);
    }
    shelf.put(&format!("{FILES}/{file}"), bytes.clone());
    bytes
}

/// An index with torch as on PyPI, but smaller.
fn index() -> Shelf {
    let mut shelf = Shelf::default();
    let torch = "Name: torch\nLicense: BSD-3-Clause\n\
        Requires-Dist: filelock\n\
        Requires-Dist: cuda-toolkit[cublas,cudart]==13.0.2; platform_system == \"Linux\"\n\
        Requires-Dist: nvidia-cudnn-cu13==9.19.0.56; platform_system == \"Linux\"\n\
        Requires-Dist: triton==3.6.0; platform_system == \"Linux\"\n";
    let toolkit = "Requires-Dist: nvidia-cublas==13.1.0.3.*; (sys_platform == 'linux') and extra == 'cublas'\n\
        Requires-Dist: nvidia-cuda-runtime==13.0.96.*; extra == 'cudart'\n\
        Requires-Dist: nvidia-nvjpeg==13.0.1; extra == 'nvjpeg'\n";
    let cudnn = "License-Expression: LicenseRef-NVIDIA\nRequires-Dist: nvidia-cublas\n";
    for (file, metadata) in [
        ("torch-2.11.0-cp311-cp311-win_amd64.whl", "Requires-Dist: nvidia-nothing"),
        ("torch-2.10.0-cp311-cp311-manylinux_2_28_x86_64.whl", ""),
        ("torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl", "Requires-Dist: nvidia-nothing"),
        ("torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl", torch),
        ("cuda_toolkit-13.0.2-py2.py3-none-any.whl", toolkit),
        ("nvidia_cublas-13.1.0.3-py3-none-manylinux_2_27_x86_64.whl", "License: other\n"),
        ("nvidia_cublas-13.1.0.4-py3-none-manylinux_2_27_x86_64.whl", ""),
        ("nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", ""),
    ] {
        offer(&mut shelf, file, metadata, true, 100);
    }
    // This wheel's metadata have no copy, and more than a MiB comes after them in the wheel.
    offer(
        &mut shelf,
        "nvidia_cudnn_cu13-9.19.0.56-py3-none-manylinux_2_27_x86_64.whl",
        cudnn,
        false,
        9_000_000,
    );
    shelf
}

fn torch(shelf: &Shelf, version: &str) -> Result<ImageLock, Error> {
    let text =
        format!("[base]\nscratch = true\n[app]\npath = \"x\"\n[cuda]\ntorch = \"{version}\"");
    lock(&recipe(&text), &sources(), shelf)
}

fn names(lock: &ImageLock) -> Vec<String> {
    lock.wheels.iter().map(|wheel| format!("{} {}", wheel.name, wheel.version)).collect()
}

#[test]
fn torch_brings_nvidia_s_wheels_and_no_python() {
    let found = torch(&index(), "2.11.0").unwrap();
    let expected = [
        "nvidia-cublas 13.1.0.3",
        "nvidia-cuda-runtime 13.0.96",
        "nvidia-cudnn-cu13 9.19.0.56",
        "torch 2.11.0",
    ];
    assert_eq!(names(&found), expected);
    assert!(found.wheels[3].urls[0].ends_with("-cp311-cp311-manylinux_2_28_x86_64.whl"));
    let licences: Vec<_> = found.wheels.iter().map(|wheel| wheel.license.as_deref()).collect();
    assert_eq!(licences, [Some("other"), None, Some("LicenseRef-NVIDIA"), Some("BSD-3-Clause")]);
    let cpu = torch(&index(), "2.11.0+cpu").unwrap();
    assert_eq!(names(&cpu), ["nvidia-cuda-runtime 13.0.96", "torch 2.11.0"]);
}

#[test]
fn of_a_wheel_without_metadata_beside_it_two_pieces_are_read() {
    let shelf = index();
    torch(&shelf, "2.11.0").unwrap();
    let cudnn: Vec<String> =
        shelf.asked().into_iter().filter(|asked| asked.starts_with("stream")).collect();
    let at = |from: u64| {
        format!(
            "stream {from} {FILES}/nvidia_cudnn_cu13-9.19.0.56-py3-none-manylinux_2_27_x86_64.whl"
        )
    };
    assert_eq!(cudnn.len(), 2, "{cudnn:?}");
    assert!(cudnn[0] != at(0) && cudnn[1] == at(0), "{cudnn:?}");
}

#[test]
fn versions_and_wheels_that_are_not_there_are_said() {
    let error = torch(&index(), "2.11.7").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot add the wheel `torch==2.11.7`: the index has no such version"
    );
    assert_eq!(error.hint().unwrap(), "the newest versions in the index are 2.11.0, 2.10.0");
    let mut shelf = index();
    shelf.documents.remove(&format!("{INDEX}/nvidia-cublas/"));
    let error = torch(&shelf, "2.11.0").unwrap_err().to_string();
    assert!(
        error.contains(
            "the package index `https://pypi.org/simple` has no wheel `nvidia-cublas==13.1.0.3.*`"
        ),
        "{error}"
    );
    let mut shelf = index();
    shelf.documents.retain(|url, _| !url.contains("cudnn_cu13-9.19.0.56-py3"));
    // The page still names the first, which is gone.
    let error = torch(&shelf, "2.11.0").unwrap_err().to_string();
    assert!(error.contains("is not there (404)"), "{error}");
    let mut shelf = index();
    let metadata = "Requires-Dist: nvidia-cublas==1\n";
    shelf.put(&format!("{FILES}/nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl.metadata"), metadata);
    let error = torch(&shelf, "2.11.0").unwrap_err().to_string();
    assert!(
        error.contains(
            "`nvidia-cublas==1`: the wheels need different versions of it, one of them 13.1.0.3"
        ),
        "{error}"
    );
}

#[test]
fn a_vendor_folder_has_every_archive_and_nothing_else_and_serves_offline() {
    let dir = tempfile::tempdir().unwrap();
    let shelf = index();
    let found = torch(&shelf, "2.11.0").unwrap();
    let archives = Archives { dir: dir.path().join("cache"), vendor: Vec::new(), offline: false };
    let to = dir.path().join("vendor");
    let cancel = AtomicBool::new(false);
    let put = || vendor(&found, &archives, &to, &shelf, &|_, _| {}, &|_| {}, &cancel);
    put().unwrap();
    let mut there: Vec<String> = fs::read_dir(&to)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    let mut expected: Vec<String> = found.packages().filter_map(Package::file_name).collect();
    expected.sort();
    assert_eq!(there, expected);
    // A damaged file is repaired, and the others are left alone.
    let first = to.join(&expected[0]);
    fs::remove_file(&first).unwrap();
    fs::write(&first, b"damaged").unwrap();
    shelf.asked();
    put().unwrap();
    assert!(shelf.asked().is_empty(), "the cache has it");
    let offline = Archives { dir: dir.path().join("none"), vendor: vec![to], offline: true };
    for package in found.packages() {
        offline.get(package, &shelf, Told::NOBODY, &cancel).unwrap();
    }
}
