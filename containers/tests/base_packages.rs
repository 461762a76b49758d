//! Packages that are added to an image which another is built on.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use gular_containers::lock::Sources;
use gular_containers::make::{BuildCache, BuildOptions, ImageFormat, ImageWatch, Note, build};
use gular_containers::rootfs::{FileBytes, RootPath, What};
use gular_containers::store::{Limits, Store};
use gular_containers::{Error, StoredImage, UnixTime};
use tar::EntryType::{Regular, Symlink};

use crate::oci_read::Made;
use crate::python::{OTHER, PURE, python_here, wheel};
use crate::support::{Member, Shelf, tar};

/// Remembers what the user is told.
#[derive(Default)]
struct Notes {
    cancel: AtomicBool,
    notes: Mutex<Vec<String>>,
}

impl ImageWatch for Notes {
    fn cancel(&self) -> &AtomicBool {
        &self.cancel
    }

    fn note(&self, note: &Note<'_>) {
        self.notes.lock().unwrap().push(format!("{note:?}"));
    }
}

struct Case {
    dir: tempfile::TempDir,
    options: BuildOptions<'static>,
}

impl Case {
    /// A recipe on an image of these members.
    fn new(members: &[Member<'_>], rest: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = Made::of(&[tar(members)]);
        fs::rename(base.path(), dir.path().join("base")).unwrap();
        let recipe = format!("[image]\nname = \"on\"\n[base]\noci = \"base\"\n{rest}");
        fs::write(dir.path().join("image.toml"), recipe).unwrap();
        for (name, files) in [("pure-1.0", PURE), ("other-2.1", OTHER)] {
            fs::write(dir.path().join(format!("{name}-py3-none-any.whl")), wheel(files)).unwrap();
        }
        let mut options = BuildOptions::new(
            &dir.path().join("image.toml"),
            BuildCache::new(&dir.path().join("cache")),
            Sources::new(UnixTime::default()),
        );
        options.out = dir.path().join("out");
        options.formats = vec![ImageFormat::Oci];
        // The image has no shell, which is an error.
        options.force = true;
        Self { dir, options }
    }

    fn build(&self, watch: &Notes) -> Result<StoredImage, Error> {
        let built = build(&self.options, &Shelf::default(), watch)?;
        let store = Store::new(&self.dir.path().join("read"));
        StoredImage::open(&built.outputs[0].path, &store, &Limits::default())
    }
}

#[test]
fn wheels_are_installed_for_the_python_of_a_base() {
    let Some((minor, files)) = python_here() else {
        eprintln!("skipped: this machine has no Python of its own");
        return;
    };
    let site = format!("opt/conda/lib/python3.{minor}/site-packages");
    let moved = |path: &str| {
        let path = path.trim_start_matches("./");
        path.replace("usr/bin/", "opt/conda/bin/")
            .replace("usr/lib/python3", "opt/conda/lib/python3")
    };
    let files: Vec<(String, Vec<u8>)> =
        files.iter().map(|(path, here)| (moved(path), fs::read(here).unwrap())).collect();
    let python = format!("/opt/conda/bin/python3.{minor}");
    let [metadata, record, gone, old] =
        ["other-1.0.dist-info/METADATA", "other-1.0.dist-info/RECORD", "gone.py", "other.py"]
            .map(|name| format!("{site}/{name}"));
    let mut members: Vec<Member<'_>> = vec![
        (Symlink, "lib", "usr/lib", b""),
        (Symlink, "lib64", "usr/lib64", b""),
        (Symlink, "bin/python3", &python, b""),
        (Regular, "opt/conda/conda-meta/history", "", b""),
        (Regular, &metadata, "", b"Name: other\nVersion: 1.0\n"),
        (Regular, &record, "", b"gone.py,,\nother.py,,\n"),
        (Regular, &gone, "", b""),
        (Regular, &old, "", b"old = 1\n"),
    ];
    members.extend(files.iter().map(|(path, bytes)| (Regular, path.as_str(), "", &**bytes)));
    let case = Case::new(&members, "[python]\nwheels = [\"pure*.whl\", \"other*.whl\"]\n");
    let watch = Notes::default();
    let image = case.build(&watch).unwrap();
    let text = |path: &str| match image.tree.follow(&RootPath::new(path).unwrap()) {
        Some((_, node)) => match &node.what {
            What::File(FileBytes::File { path, .. }) => {
                String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
            }
            other => format!("{other:?}"),
        },
        None => "nothing".to_owned(),
    };
    assert_eq!(text(&format!("{site}/pure/data.bin")), "bytes");
    assert_eq!(text(&old), "import pure\n");
    assert_eq!(text(&gone), "nothing");
    assert_eq!(text(&metadata), "nothing");
    for program in ["pure", "pure-script"] {
        let found = text(&format!("opt/conda/bin/{program}"));
        assert!(found.starts_with("#!/bin/python3\n"), "{found}");
    }
    let record = text(&format!("{site}/pure-1.0.dist-info/RECORD"));
    assert!(record.contains("../../../bin/pure,sha256="), "{record}");
    let code = format!("{site}/pure/__pycache__/__init__.cpython-3{minor}.pyc");
    assert!(text(&code).len() > 40);
    let notes = watch.notes.into_inner().unwrap().join("\n");
    assert!(
        notes.contains("kind: \"conda\"") && notes.contains("before: \"1.0\", now: \"2.1\""),
        "{notes}"
    );
    let lock = fs::read_to_string(case.dir.path().join("image.lock")).unwrap();
    assert!(lock.contains("interpreter = \"/bin/python3\""), "{lock}");
    // What the lock says is built again, byte for byte.
    let first = image.digest.map(|digest| digest.to_string());
    fs::remove_dir_all(case.dir.path().join("cache")).unwrap();
    fs::remove_dir_all(case.dir.path().join("out")).unwrap();
    let again = case.build(&Notes::default()).unwrap();
    assert_eq!(again.digest.map(|digest| digest.to_string()), first);
}

#[test]
fn a_base_that_nothing_can_be_added_to_says_why() {
    let release =
        (Regular, "etc/os-release", "", &b"ID=alpine\nPRETTY_NAME=\"Alpine Linux v3.20\"\n"[..]);
    for (rest, expected) in [
        ("packages = [\"jq\"]\n", "it is Alpine Linux v3.20, and not Debian"),
        ("[python]\nwheels = [\"pure*.whl\"]\n", "no folder of its `PATH` has a program"),
        (
            "[python]\nwheels = [\"pure*.whl\"]\ninterpreter = \"/opt/python\"\n",
            "it has no `/opt/python`",
        ),
    ] {
        let error = Case::new(&[release], rest).build(&Notes::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
