//! The whole sequence as a library: one call makes a lock, one an image. Documents in memory stand
//! in for the network.

use std::fs;
use std::io::{Cursor, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use crate::support::{Shelf, sha256};
use gular_containers::lock::Sources;
use gular_containers::make::{
    BuildCache, BuildOptions, Built, ImageFormat, ImageWatch, LockOptions, Note, Relocked, Step,
    build, lock,
};
use gular_containers::{Error, UnixTime};

const INDEX: &str = "https://pypi.org/simple";
const WHEEL: &str = "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl";

/// A recipe without a distribution: a shell, and libtorch's wheel.
const RECIPE: &str = r#"
[image]
name = "tool"
[base]
scratch = true
[app.files]
"bin/sh" = "sh"
"bin/bash" = "sh"
[cuda]
torch = "2.11.0"
"#;

struct Case {
    dir: tempfile::TempDir,
    shelf: Shelf,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("image.toml"), RECIPE).unwrap();
        let shell = dir.path().join("sh");
        fs::write(&shell, "not run").unwrap();
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).unwrap();
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let metadata = "Name: torch\nLicense: BSD-3-Clause\n";
        for (name, bytes) in
            [("torch-2.11.0.dist-info/METADATA", metadata), ("torch/lib/libx.so.1", "nothing")]
        {
            zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes.as_bytes()).unwrap();
        }
        let wheel = zip.finish().unwrap().into_inner();
        let mut shelf = Shelf::default();
        let url = format!("https://files.example/{WHEEL}");
        let link = format!("<a href=\"{url}#sha256={}\">", sha256(&wheel));
        shelf.put(&format!("{INDEX}/torch/"), link);
        shelf.put(&format!("{url}.metadata"), metadata);
        shelf.put(&url, wheel);
        Self { dir, shelf }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn options(&self) -> BuildOptions<'static> {
        let cache = BuildCache::new(&self.at("cache"));
        let mut options =
            BuildOptions::new(&self.at("image.toml"), cache, Sources::new(UnixTime::default()));
        options.out = self.at("out");
        options
    }

    fn build(&self, options: &BuildOptions<'_>) -> Result<Built, Error> {
        build(options, &self.shelf, &AtomicBool::new(false))
    }

    /// A program that stands for Apptainer and ends with this code.
    fn apptainer(&self, code: u8) -> Option<PathBuf> {
        let path = self.at(&format!("apptainer-{code}"));
        fs::write(&path, format!("#!/bin/sh\nexit {code}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Some(path)
    }

    fn images(&self) -> Vec<String> {
        let entries = fs::read_dir(self.at("out")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".sif")).collect()
    }
}

/// Keeps every message, each once.
#[derive(Default)]
struct Heard {
    cancel: AtomicBool,
    words: Mutex<Vec<String>>,
}

impl Heard {
    fn say(&self, word: String) {
        let mut words = self.words.lock().unwrap();
        if words.last() != Some(&word) {
            words.push(word);
        }
    }
}

impl ImageWatch for Heard {
    fn cancel(&self) -> &AtomicBool {
        &self.cancel
    }
    fn working_on(&self, step: Step, what: &str) {
        self.say(format!("{step:?} {what}"));
    }
    fn progress(&self, step: Step, done: u64, total: u64) {
        assert!(done <= total, "{step:?}: {done} of {total}");
        self.say(format!("{step:?}"));
    }
    fn ended(&self, step: Step) {
        self.say(format!("{step:?} ended"));
    }
    fn note(&self, note: &Note<'_>) {
        match note {
            Note::Relocked { why, .. } => self.say(format!("{why:?}")),
            other => self.say(format!("{other:?}")),
        }
    }
}

#[test]
fn a_recipe_becomes_an_image_by_one_call() {
    let case = Case::new();
    let heard = Heard::default();
    let built = build(&case.options(), &case.shelf, &heard).unwrap();
    assert!(!built.check.refused(), "{:?}", built.check.findings);
    let [output] = &built.outputs[..] else { panic!("{:?}", built.outputs) };
    assert_eq!((output.format, output.was_there), (ImageFormat::Sif, false));
    let name = output.path.file_name().unwrap().to_str().unwrap();
    assert_eq!(name, format!("tool-{}.sif", &output.digest.hex()[..16]));
    assert!(built.sbom[0].is_file() && case.at("image.lock").is_file());
    assert_eq!(
        heard.words.into_inner().unwrap(),
        [
            "Resolve torch==2.11.0",
            "Resolve ended",
            &format!("{:?}", Relocked::Missing),
            "Fetch torch",
            "Fetch",
            "Fetch ended",
            "Unpack",
            "Unpack ended",
            "Write",
            "Write ended",
        ]
    );
    // With the lock and the cache, nothing is requested.
    case.shelf.asked();
    let again =
        case.build(&BuildOptions { offline: true, locked: true, ..case.options() }).unwrap();
    assert!(again.outputs[0].was_there);
    assert_eq!(again.outputs[0].digest, output.digest);
    assert!(case.shelf.asked().is_empty());
    let formats = vec![ImageFormat::Oci, ImageFormat::OciArchive, ImageFormat::Oci];
    let oci = case.build(&BuildOptions { formats, ..case.options() }).unwrap();
    let formats: Vec<_> = oci.outputs.iter().map(|output| output.format).collect();
    assert_eq!(formats, [ImageFormat::Oci, ImageFormat::OciArchive]);
}

#[test]
fn a_build_that_is_stopped_writes_no_image() {
    let case = Case::new();
    let stopped = build(&case.options(), &case.shelf, &AtomicBool::new(true));
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    assert!(!case.at("out").exists());
}

#[test]
fn a_refused_image_is_removed_unless_it_was_there_before() {
    let case = Case::new();
    let mut options = case.options();
    options.tools.apptainer = case.apptainer(1);
    let refused = case.build(&options).unwrap();
    assert!(refused.check.refused() && refused.outputs.is_empty() && refused.sbom.is_empty());
    assert_eq!(case.images(), [""; 0]);
    options.tools.apptainer = None;
    case.build(&options).unwrap();
    options.tools.apptainer = case.apptainer(1);
    let refused = case.build(&options).unwrap();
    assert!(refused.check.refused() && refused.outputs.is_empty());
    assert_eq!(case.images().len(), 1, "it was not made now");
    options.force = true;
    assert_eq!(case.build(&options).unwrap().outputs.len(), 1);
}

#[test]
fn what_is_missing_is_an_error_of_its_own() {
    let case = Case::new();
    let error = |change: &dyn Fn(&mut BuildOptions<'static>)| {
        let mut options = case.options();
        change(&mut options);
        case.build(&options).unwrap_err()
    };
    assert!(matches!(error(&|options| options.recipe.push("x")), Error::NoRecipe { .. }));
    assert!(matches!(error(&|options| options.locked = true), Error::NoLock { .. }));
    assert!(matches!(error(&|options| options.offline = true), Error::NotOffline));
    let vendor = vec![case.at("no-such-folder")];
    assert!(matches!(error(&|options| options.vendor = vendor.clone()), Error::NoFolder { .. }));
    let changed = RECIPE.replace("[app.files]", "[app]\npackage = \"p\"\n[app.files]");
    fs::write(case.at("image.toml"), changed).unwrap();
    assert!(matches!(error(&|_| {}), Error::Program { .. }), "nothing here runs cargo");
    fs::write(case.at("image.toml"), RECIPE.replace("2.11.0", "2.11.1")).unwrap();
    assert!(matches!(error(&|options| options.locked = true), Error::Stale { .. }));
    assert!(!case.at("out").exists());
}

#[test]
fn a_lock_says_what_changed_and_is_written_once() {
    let case = Case::new();
    let options = LockOptions {
        recipe: case.at("image.toml"),
        sources: Sources::new(UnixTime::default()),
        vendor: Some(case.at("vendor")),
        cache: BuildCache::new(&case.at("cache")),
        offline: false,
        dry_run: false,
    };
    let make = |options: &LockOptions| lock(options, &case.shelf, &AtomicBool::new(false)).unwrap();
    let dry = make(&LockOptions { dry_run: true, vendor: None, ..options.clone() });
    assert!(!dry.written && !case.at("image.lock").exists());
    let first = make(&options);
    assert!(first.written && case.at("vendor").join(WHEEL).is_file());
    assert_eq!(first.changes.added, first.lock.wheels);
    let again = make(&options);
    assert!(!again.written && again.changes.added.is_empty());
    // The lock names another file with the same name and version.
    let text = fs::read_to_string(case.at("image.lock")).unwrap();
    let sha256 = first.lock.wheels[0].sha256.to_string();
    fs::write(case.at("image.lock"), text.replace(&sha256, &"0".repeat(64))).unwrap();
    let mended = make(&options);
    assert!(mended.written && mended.changes.removed.is_empty());
    let [(before, now)] = &mended.changes.changed[..] else { panic!("{:?}", mended.changes) };
    assert_eq!((before.version.as_str(), &now.sha256.to_string()), ("2.11.0", &sha256));
}
