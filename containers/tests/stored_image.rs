//! Images on the disk, opened again and examined.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gular_containers::check::{About, CheckReport, Form, Severity, check};
use gular_containers::recipe::{Runtime, TargetSection};
use gular_containers::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use gular_containers::sif::{Arch, Contents, Squash, write_image};
use gular_containers::singularity::{Description, describe};
use gular_containers::store::{Limits, Store};
use gular_containers::{StoredImage, UnixTime};

fn path(text: &str) -> RootPath {
    RootPath::new(text).unwrap()
}

fn file(text: &str) -> What {
    What::File(FileBytes::Bytes(Arc::from(text.as_bytes())))
}

/// A SIF that was opened, the tree it was written from, and the folder of its files.
struct Case {
    tree: Rootfs,
    opened: StoredImage,
    recipe: String,
    _dir: tempfile::TempDir,
}

impl Case {
    fn new(mut tree: Rootfs, recipe: &str) -> Self {
        let (env, labels) = (BTreeMap::new(), BTreeMap::new());
        let of = Description {
            arch: Arch::Amd64,
            command: &[],
            arguments: &[],
            env: &env,
            labels: &labels,
            recipe,
        };
        let metadata = describe(&mut tree, &of).unwrap();
        let contents = Contents {
            arch: Arch::Amd64,
            time: UnixTime(1_700_000_000),
            recipe,
            metadata: &metadata,
            sbom: None,
            squash: Squash::Gzip,
            threads: NonZeroUsize::MIN,
            blocks: None,
        };
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("a-0123456789ab.sif");
        write_image(&tree, &contents, &to, &|_| {}, &AtomicBool::new(false)).unwrap();
        let store = Store::new(&dir.path().join("store"));
        let opened = StoredImage::open(&to, &store, &Limits::default()).unwrap();
        Self { tree, opened, recipe: recipe.to_owned(), _dir: dir }
    }

    /// The report that a build makes of the tree before it is written.
    fn at_build(&self) -> CheckReport {
        let (env, labels) = (BTreeMap::new(), BTreeMap::new());
        let about = About {
            arch: Arch::Amd64,
            form: Form::Sif(Some(Squash::Gzip)),
            file_name: None,
            file_bytes: None,
            program: None,
            env: &env,
            labels: &labels,
            recipe: &self.recipe,
            scratch: false,
            host_paths: &[],
            cuda: None,
        };
        check(&self.tree, &about, &TargetSection::default()).unwrap()
    }
}

/// The severity, the rule and the subject of each finding.
fn shown(report: &CheckReport) -> Vec<(Severity, &str, &str)> {
    let findings = report.findings.iter();
    findings.map(|f| (f.severity, f.rule, f.subject.as_str())).collect()
}

#[test]
fn what_a_build_answers_for_is_found_in_its_sif_as_well() {
    let mut tree = Rootfs::default();
    for (layer, at, mode, text) in [
        (Layer::Base, "bin/sh", 0o755, "sh"),
        (Layer::Base, "bin/su", 0o4755, "su"),
        (Layer::Base, "etc/shadow", 0o600, "x"),
        (Layer::App, "app/bin/tool", 0o4755, "tool"),
        (Layer::Libtorch, "app/lib/libtorch.so", 0o600, "torch"),
        (Layer::Libtorch, "app/lib/libcut.so", 0o644, "\x7fELF\x02"),
        (Layer::Base, "app/library/x", 0o600, "x"),
    ] {
        tree.add(layer, &path(at), mode, file(text)).unwrap();
    }
    let case = Case::new(tree, "[image]\nname = \"a\"\n");
    let (built, seen) =
        (case.at_build(), case.opened.check(&TargetSection::default(), &[]).unwrap());
    assert_eq!(shown(&built), shown(&seen));
    for expected in [
        (Severity::Error, "elf", "/app/lib/libcut.so"),
        (Severity::Error, "setuid", "/app/bin/tool"),
        (Severity::Error, "unreadable", "/app/lib/libtorch.so"),
        (Severity::Warning, "setuid", "/bin/su"),
    ] {
        assert!(shown(&seen).contains(&expected), "{expected:?}: {seen:?}");
    }
}

#[test]
fn the_recipe_inside_says_what_is_wanted() {
    let check = |recipe: &str, expected: Severity, runtime: Runtime| {
        let case = Case::new(Rootfs::default(), recipe);
        assert_eq!(case.opened.target().apptainer, runtime, "{recipe}");
        let seen = case.opened.check(&TargetSection::default(), &[]).unwrap();
        assert!(shown(&seen).contains(&(expected, "shell", "/bin/sh")), "{recipe}: {seen:?}");
    };
    let recipe =
        |base: &str| format!("[image]\nname = \"a\"\n{base}[app]\n[target]\napptainer = \"1.4\"\n");
    check(&recipe("[base]\nscratch = true\n"), Severity::Warning, Runtime(1, 4));
    check(&recipe(""), Severity::Error, Runtime(1, 4));
    check("Bootstrap: docker\nFrom: debian\n", Severity::Error, TargetSection::default().apptainer);
}
