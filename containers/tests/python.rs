//! Python packages in an image: tiny wheels, installed next to this machine's own Python.

use std::fs;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::support::{Shelf, sha256};
use gular_containers::check::Severity;
use gular_containers::lock::{ImageLock, LockedPython, Sources, recipe_digest};
use gular_containers::make::{BuildCache, BuildOptions, Built, ImageFormat, build};
use gular_containers::recipe::Recipe;
use gular_containers::rootfs::{FileBytes, RootPath, What};
use gular_containers::store::{Limits, Store};
use gular_containers::{Error, OciDigest, Package, StoredImage, UnixTime};
use zip::write::SimpleFileOptions;

/// Members of a wheel: names and bytes.
pub(crate) type Files<'a> = &'a [(&'a str, &'a [u8])];

pub(crate) const PURE: Files<'_> = &[
    ("pure/__init__.py", b"VALUE = 7\ndef main():\n    print(VALUE)\n"),
    ("pure/broken.py", b"def ("),
    ("pure/__pycache__/__init__.cpython-39.pyc", b"of another Python"),
    ("pure/alone.pyc", b"of no source"),
    ("pure/data.bin", b"bytes"),
    ("pure-1.0.data/scripts/pure-script", b"#!python\nprint()\n"),
    ("pure-1.0.data/data/share/pure/x.txt", b"data"),
    ("pure-1.0.dist-info/METADATA", b"Name: pure\nVersion: 1.0\nLicense: MIT\nRequires-Dist: other>=2\nRequires-Dist: absent; sys_platform == 'win32'\n"),
    ("pure-1.0.dist-info/entry_points.txt", b"[console_scripts]\npure = pure:main\n[other]\nx = y:z\n"),
    ("pure-1.0.dist-info/RECORD", b"pure/__init__.py,sha256=abc,41\npure-1.0.dist-info/RECORD,,\n"),
];

pub(crate) const OTHER: Files<'_> = &[
    ("other.py", b"import pure\n"),
    ("other-2.1.dist-info/METADATA", b"Name: other\nVersion: 2.1\n"),
    ("other-2.1.dist-info/RECORD", b""),
];

pub(crate) fn wheel(files: Files<'_>) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A Debian package with these files: path inside, file here.
fn deb(name: &str, files: &[(String, PathBuf)]) -> Vec<u8> {
    let tar = |members: &[(String, Vec<u8>)]| {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, bytes) in members {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o755);
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, path, bytes.as_slice()).unwrap();
        }
        tar.into_inner().unwrap()
    };
    let control = format!("Package: {name}\nVersion: 1\n");
    let read = files.iter().map(|(path, here)| (path.clone(), fs::read(here).unwrap()));
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar", tar(&[("./control".to_owned(), control.into_bytes())])),
        ("data.tar", tar(&read.collect::<Vec<_>>())),
    ];
    let mut ar = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        writeln!(ar, "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, 0, 644, bytes.len()).unwrap();
        ar.extend_from_slice(&bytes);
        ar.resize(ar.len() + bytes.len() % 2, b'\n');
    }
    ar
}

/// The minor number of this machine's own Python, and the files it needs to compile.
pub(crate) fn python_here() -> Option<(u32, Vec<(String, PathBuf)>)> {
    let link = fs::canonicalize("/usr/bin/python3").ok()?;
    let minor: u32 = link.file_name()?.to_str()?.strip_prefix("python3.")?.parse().ok()?;
    let library = PathBuf::from(format!("/usr/lib/python3.{minor}"));
    let mut paths = vec![library.join("os.py")];
    for name in ["__init__", "aliases", "ascii", "latin_1", "utf_8"] {
        paths.push(library.join(format!("encodings/{name}.py")));
    }
    if !paths.iter().all(|path| path.is_file()) {
        return None;
    }
    let mut files: Vec<_> =
        paths.into_iter().map(|path| (format!(".{}", path.display()), path)).collect();
    files.push((format!("./usr/bin/python3.{minor}"), link.clone()));
    // The libraries of the Python, as `ldd` lists them.
    let listed = std::process::Command::new("ldd").arg(&link).output().ok()?;
    for word in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
        if word.starts_with('/') {
            let name = word.rsplit('/').next()?;
            let folder = if name.starts_with("ld-") { "usr/lib64" } else { "usr/lib" };
            files.push((format!("./{folder}/{name}"), word.into()));
        }
    }
    Some((minor, files))
}

struct Case {
    dir: tempfile::TempDir,
    shelf: Shelf,
    minor: u32,
}

impl Case {
    /// An image with these wheels, by the start of their files' names.
    fn new(wheels: &[(&str, Files<'_>)], bytecode: bool) -> Option<Self> {
        Self::with(wheels, bytecode, "")
    }

    /// Does the same as [`new`](Self::new), with additional lines in the recipe.
    fn with(wheels: &[(&str, Files<'_>)], bytecode: bool, more: &str) -> Option<Self> {
        let (minor, files) = python_here()?;
        let dir = tempfile::tempdir().unwrap();
        let recipe = format!(
            "[image]\nname = \"tool\"\n[python]\nrequirements = \"r.txt\"\nbytecode = {bytecode}\n{more}"
        );
        fs::write(dir.path().join("image.toml"), &recipe).unwrap();
        fs::write(dir.path().join("r.txt"), "").unwrap();
        let mut shelf = Shelf::default();
        let mut put =
            |name: &str, version: &str, file: String, bytes: Vec<u8>, arch: Option<&str>| {
                let url = format!("https://files.example/{file}");
                let package = Package {
                    name: name.to_owned(),
                    version: version.to_owned(),
                    arch: arch.map(str::to_owned),
                    bytes: bytes.len() as u64,
                    sha256: sha256(&bytes),
                    urls: vec![url.clone()],
                    license: None,
                };
                shelf.put(&url, bytes);
                package
            };
        let own = format!("python3.{minor}-minimal");
        let version = format!("3.{minor}.2-6");
        let debs = vec![
            put("libc6", "2.36-9", "libc6.deb".to_owned(), deb("libc6", &[]), Some("amd64")),
            put(&own, &version, format!("{own}.deb"), deb(&own, &files), Some("amd64")),
        ];
        let wheels = wheels.iter().map(|(stem, files)| {
            let (name, version) = stem.split_once('-').unwrap();
            put(name, version, format!("{stem}-py3-none-any.whl"), wheel(files), None)
        });
        let read = Recipe::parse(&recipe, "image.toml").unwrap();
        let mut lock = ImageLock {
            time: UnixTime(1_783_764_997),
            recipe: recipe_digest(&read),
            platform: read.image.platform,
            debian: None,
            oci: None,
            debs,
            tools: Vec::new(),
            wheels: Vec::new(),
            python: Some(LockedPython {
                interpreter: None,
                version: format!("3.{minor}.2"),
                inputs: OciDigest(sha256(b"")),
                wheels: wheels.collect(),
            }),
            conda: None,
            steps: Vec::new(),
        };
        // The digest that a lock made here would have.
        let inputs = gular_containers::lock::python_inputs(&read, dir.path()).unwrap();
        lock.python.as_mut().unwrap().inputs = inputs.unwrap();
        fs::write(dir.path().join("image.lock"), lock.to_text()).unwrap();
        Some(Self { dir, shelf, minor })
    }

    fn build(&self, out: &str, cache: &str, formats: &[ImageFormat]) -> Result<Built, Error> {
        let at = |name: &str| self.dir.path().join(name);
        let mut options = BuildOptions::new(
            &at("image.toml"),
            BuildCache::new(&at(cache)),
            Sources::new(UnixTime::default()),
        );
        options.out = at(out);
        options.formats = formats.to_vec();
        // The image has no shell, which is an error.
        options.force = true;
        options.locked = true;
        build(&options, &self.shelf, &AtomicBool::new(false))
    }

    fn site(&self) -> String {
        format!("usr/local/lib/python3.{}/dist-packages", self.minor)
    }

    fn open(&self, path: &Path) -> StoredImage {
        let store = Store::new(&self.dir.path().join("read"));
        StoredImage::open(path, &store, &Limits::default()).unwrap()
    }
}

fn bytes(image: &StoredImage, path: &str) -> Vec<u8> {
    let Some(node) = image.tree.get(&RootPath::new(path).unwrap()) else { panic!("no {path}") };
    match &node.what {
        What::File(FileBytes::File { path, .. }) => fs::read(path).unwrap(),
        What::File(FileBytes::Bytes(bytes)) => bytes.to_vec(),
        What::Symlink(target) => target.clone().into_bytes(),
        other => panic!("{path}: {other:?}"),
    }
}

fn text(image: &StoredImage, path: &str) -> String {
    String::from_utf8(bytes(image, path)).unwrap()
}

#[test]
fn wheels_are_installed_as_an_installer_does_and_compiled() {
    let Some(case) = Case::new(&[("pure-1.0", PURE), ("other-2.1", OTHER)], true) else {
        eprintln!("skipped: there is no Debian Python (/usr/bin/python3)");
        return;
    };
    let formats = [ImageFormat::Sif, ImageFormat::Oci];
    let built = case.build("one", "cache", &formats).unwrap();
    let image = case.open(&built.outputs[1].path);
    let site = case.site();
    let at = |name: &str| text(&image, &format!("{site}/{name}"));
    assert_eq!(at("pure/data.bin"), "bytes");
    assert_eq!(at("pure/alone.pyc"), "of no source");
    assert_eq!(at("pure-1.0.dist-info/INSTALLER"), "gular\n");
    assert_eq!(text(&image, "usr/local/share/pure/x.txt"), "data");
    assert_eq!(text(&image, "usr/local/bin/python"), "/usr/bin/python3");
    assert_eq!(text(&image, "usr/local/bin/pure-script"), "#!/usr/bin/python3\nprint()\n");
    assert!(text(&image, "usr/local/bin/pure").contains("from pure import main\n"));
    let record = at("pure-1.0.dist-info/RECORD");
    for line in [
        "pure/__init__.py,sha256=abc,41",
        "../../../bin/pure-script,,",
        "../../../share/pure/x.txt,,",
        "pure-1.0.dist-info/RECORD,,",
    ] {
        assert!(record.lines().any(|found| found == line), "{line} in {record}");
    }
    assert!(record.starts_with("../../../bin/pure,sha256="), "{record}");
    assert!(!record.contains("__pycache__"), "{record}");
    // Hash-based, and not to be compared with its source: flags 1 after the magic.
    let tag = format!("cpython-3{}", case.minor);
    let code = bytes(&image, &format!("{site}/pure/__pycache__/__init__.{tag}.pyc"));
    assert_eq!(code[4..8], [1, 0, 0, 0]);
    let names = String::from_utf8_lossy(&code).into_owned();
    assert!(names.contains(&format!("/{site}/pure/__init__.py")), "its path in the image");
    assert!(!names.contains(case.dir.path().to_str().unwrap()), "a path of this machine");
    let broken = format!("{site}/pure/__pycache__/broken.{tag}.pyc");
    assert!(image.tree.get(&RootPath::new(&broken).unwrap()).is_none());
    let library = format!("usr/lib/python3.{}/__pycache__/os.{tag}.pyc", case.minor);
    assert_eq!(bytes(&image, &library)[4..8], [1, 0, 0, 0]);
    let python: Vec<_> = built.outputs[1].layers.iter().map(|layer| layer.name).collect();
    assert_eq!(python, ["base", "python", "app"]);
    assert!(
        built.check.findings.iter().all(|finding| !finding.rule.starts_with("python-")),
        "{:?}",
        built.check.findings
    );
    // Nothing is cached, and all bytes are the same.
    let again = case.build("two", "other-cache", &formats).unwrap();
    for (one, two) in built.outputs.iter().zip(&again.outputs) {
        assert_eq!(one.digest, two.digest, "{:?}", one.format);
    }
}

#[test]
fn a_package_that_is_missing_is_an_error_and_an_old_one_a_warning() {
    let old: Files<'_> =
        &[("other-1.0.dist-info/METADATA", b"Name: other\n"), ("other-1.0.dist-info/RECORD", b"")];
    let check = |wheels: &[(&str, Files<'_>)]| {
        let built = Case::new(wheels, false)?.build("out", "cache", &[]).unwrap();
        let of_python = built.check.findings.into_iter().filter(|f| f.rule.starts_with("python-"));
        Some(of_python.map(|finding| (finding.severity, finding.message)).collect::<Vec<_>>())
    };
    let Some(missing) = check(&[("pure-1.0", PURE)]) else {
        eprintln!("skipped: there is no Debian Python (/usr/bin/python3)");
        return;
    };
    let needs = "it needs the Python package `other>=2`";
    assert_eq!(missing, [(Severity::Error, format!("{needs}, which is not there"))]);
    let old = check(&[("pure-1.0", PURE), ("other-1.0", old)]).unwrap();
    assert_eq!(old, [(Severity::Warning, format!("{needs}, and 1.0 is there"))]);
}

#[test]
fn a_wheel_without_a_record_and_requirements_that_changed_are_refused() {
    let none: Files<'_> = &[("pure/__init__.py", b"")];
    let Some(case) = Case::new(&[("pure-1.0", none)], false) else {
        eprintln!("skipped: there is no Debian Python (/usr/bin/python3)");
        return;
    };
    let error = case.build("out", "cache", &[]).unwrap_err().to_string();
    assert!(error.contains("it is not a complete wheel: it has no `RECORD`"), "{error}");
    fs::write(case.dir.path().join("r.txt"), "pure==1.0\n").unwrap();
    let error = case.build("out", "cache", &[]).unwrap_err();
    assert!(matches!(error, Error::Stale { .. }), "{error}");
}

/// The header of a library, with no bytes after it.
fn elf() -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    for (at, byte) in [(16, 3), (18, 62), (20, 1), (52, 64), (54, 56), (58, 64)] {
        bytes[at] = byte;
    }
    bytes
}

#[test]
fn programs_and_python_share_one_torch() {
    let library = elf();
    let torch: Files<'_> = &[
        ("torch/lib/libtorch_cpu.so", &library),
        ("torch/lib/libunused.so", &library),
        ("torch-2.0.0.dist-info/METADATA", b"Name: torch\n"),
        ("torch-2.0.0.dist-info/RECORD", b""),
    ];
    let more = "[cuda]\ntorch = \"2.0.0+cpu\"\n";
    let Some(case) = Case::with(&[("torch-2.0.0", torch)], false, more) else {
        eprintln!("skipped: there is no Debian Python (/usr/bin/python3)");
        return;
    };
    let built = case.build("out", "cache", &[ImageFormat::Oci]).unwrap();
    let image = case.open(&built.outputs[0].path);
    let there = format!("{}/torch/lib/libtorch_cpu.so", case.site());
    assert_eq!(text(&image, "app/lib/libtorch_cpu.so"), format!("/{there}"));
    assert_eq!(bytes(&image, &there), library);
    // Nothing loads this library, so it is not in the folder of the programs.
    assert!(image.tree.get(&RootPath::new("app/lib/libunused.so").unwrap()).is_none());
    let layers: Vec<_> = built.outputs[0].layers.iter().map(|layer| layer.name).collect();
    // The link `python` is in the layer of Python packages.
    assert_eq!(layers, ["base", "libtorch", "python", "app"]);
}
