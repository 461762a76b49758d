//! HTCondor's lines, replayed in a user namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gular_containers::Error;
use gular_containers::elf::ElfFacts;
use gular_containers::replay::{Means, Outcome, Replay, in_namespace, with_apptainer};
use gular_containers::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use gular_containers::sif::Arch;
use gular_containers::singularity::{Description, describe};

const UNSHARE: &str = "/usr/bin/unshare";

fn path(text: &str) -> RootPath {
    RootPath::new(text).unwrap()
}

/// The libraries that `ldd` lists for a program of this machine.
fn loaded(program: &Path) -> BTreeSet<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    words.map(PathBuf::from).collect()
}

fn add(tree: &mut Rootfs, at: &str, file: &Path) {
    let file = file.canonicalize().unwrap();
    tree.add(Layer::App, &path(at), 0o755, What::File(FileBytes::of(&file).unwrap())).unwrap();
}

/// An image with this machine's shells and this test, and their libraries at the paths they have
/// here.
fn image() -> Rootfs {
    let mut tree = Rootfs::default();
    let program = fs::read_link("/proc/self/exe").unwrap();
    for (at, file) in [
        ("bin/sh", Path::new("/bin/sh")),
        ("bin/bash", Path::new("/bin/bash")),
        ("opt/app/test", &program),
    ] {
        add(&mut tree, at, file);
        for library in loaded(file) {
            add(&mut tree, library.to_str().unwrap(), &library);
        }
        let interpreter =
            ElfFacts::open(&file.canonicalize().unwrap()).unwrap().unwrap().interpreter;
        let interpreter = interpreter.unwrap();
        add(&mut tree, &interpreter, Path::new(&interpreter));
    }
    let of = Description {
        arch: Arch::Amd64,
        command: &["/opt/app/test".to_owned()],
        arguments: &[],
        env: &BTreeMap::from([("MARK".to_owned(), "set".to_owned())]),
        labels: &BTreeMap::new(),
        recipe: "",
    };
    describe(&mut tree, &of).unwrap();
    tree
}

fn means<'a>(program: &'a Path, temp: &'a Path, cancel: &'a AtomicBool) -> Means<'a> {
    Means { program, temp, timeout: Duration::from_secs(60), cancel }
}

/// Whether namespaces are allowed here; a test that cannot run says so.
fn possible() -> bool {
    let mut probe = Command::new(UNSHARE);
    let probe = probe.args(["--user", "--map-root-user", "--mount", "true"]).output();
    let possible = probe.is_ok_and(|output| output.status.success());
    if !possible {
        eprintln!("skipped: no user namespaces, or no {UNSHARE}");
    }
    possible
}

fn replay(tree: &Rootfs) -> Vec<Replay> {
    let temp = tempfile::tempdir().unwrap();
    let cancel = AtomicBool::new(false);
    let means = means(Path::new(UNSHARE), temp.path(), &cancel);
    let replays = in_namespace(tree, Some(&path("opt/app/test")), &means).unwrap();
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0, "nothing is left");
    replays
}

fn outcomes(replays: &[Replay]) -> Vec<(&str, Outcome)> {
    replays.iter().map(|replay| (replay.name, replay.outcome)).collect()
}

use Outcome::{Failed, NotPossible, Ok};

#[test]
fn a_sound_image_passes() {
    if !possible() {
        return;
    }
    let replays = replay(&image());
    let expected = [("test", Ok), ("exec", Ok), ("job script", Ok), ("libraries", Ok)];
    assert_eq!(outcomes(&replays), expected, "{replays:#?}");
}

#[test]
fn what_fails_in_a_job_fails_here() {
    if !possible() {
        return;
    }
    let mut tree = image();
    let text = "#!/bin/sh\necho \"$MARK is no good\" >&2\nexit 3\n";
    tree.add_text(Layer::App, &path(".singularity.d/test"), 0o755, text).unwrap();
    tree.remove(&path("bin/bash"));
    let libgcc = loaded(&fs::read_link("/proc/self/exe").unwrap());
    let libgcc = libgcc.iter().find(|path| path.ends_with("libgcc_s.so.1")).unwrap();
    tree.remove(&path(libgcc.to_str().unwrap()));
    let replays = replay(&tree);
    let expected = [("test", Failed), ("exec", Ok), ("job script", Failed), ("libraries", Failed)];
    assert_eq!(outcomes(&replays), expected, "{replays:#?}");
    // The output shows that the image's environment was set.
    assert_eq!(replays[0].stderr, "set is no good");
    assert!(replays[0].why.as_ref().unwrap().contains('3'), "{replays:#?}");
    assert!(
        replays[3].why.as_ref().unwrap().contains("libgcc_s.so.1 => not found"),
        "{replays:#?}"
    );
}

#[test]
fn nothing_of_the_store_can_be_written_to() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::write(&data, "mine").unwrap();
    let mut tree = image();
    tree.add(Layer::App, &path("data"), 0o666, What::File(FileBytes::of(&data).unwrap())).unwrap();
    let text = "#!/bin/sh\necho theirs >/data\n";
    tree.add_text(Layer::App, &path(".singularity.d/test"), 0o755, text).unwrap();
    let cancel = AtomicBool::new(false);
    // The folder is on the same file system, so the file is a hard link.
    let means = means(Path::new(UNSHARE), dir.path(), &cancel);
    let replays = in_namespace(&tree, None, &means).unwrap();
    assert_eq!(replays[0].outcome, Failed, "{replays:#?}");
    assert!(replays[0].stderr.contains("Read-only"), "{replays:#?}");
    assert_eq!(fs::read_to_string(data).unwrap(), "mine");
}

#[test]
fn what_never_ends_is_stopped_and_what_cannot_start_is_said() {
    let temp = tempfile::tempdir().unwrap();
    let cancel = AtomicBool::new(false);
    let none = means(Path::new("/no/such/unshare"), temp.path(), &cancel);
    let replays = in_namespace(&Rootfs::default(), None, &none).unwrap();
    assert!(replays.iter().all(|replay| replay.outcome == NotPossible), "{replays:?}");
    let replays = with_apptainer(Path::new("/x.sif"), &none).unwrap();
    assert!(replays.iter().all(|replay| replay.outcome == NotPossible), "{replays:?}");

    if possible() {
        let mut tree = image();
        let text = "#!/bin/sh\nwhile :; do :; done\n";
        tree.add_text(Layer::App, &path(".singularity.d/test"), 0o755, text).unwrap();
        let short = Duration::from_secs(1);
        let short = Means { timeout: short, ..means(Path::new(UNSHARE), temp.path(), &cancel) };
        let replays = in_namespace(&tree, None, &short).unwrap();
        assert_eq!(replays[0].why.as_deref(), Some("it took over 1 s"));
        let cancel = AtomicBool::new(true);
        let stopped = in_namespace(&tree, None, &means(Path::new(UNSHARE), temp.path(), &cancel));
        assert!(matches!(stopped, Err(Error::Cancelled)));
    }
}

#[test]
fn apptainer_gets_the_lines_of_htcondor() {
    use std::os::unix::fs::PermissionsExt as _;
    let temp = tempfile::tempdir().unwrap();
    // Stands for Apptainer: runs the last words on this machine.
    let stand = temp.path().join("apptainer");
    let text = "#!/bin/sh\necho \"$@\" >&2\nwhile [ \"$1\" != -C ]; do shift; done\nshift 2\nexec \"$@\"\n";
    fs::write(&stand, text).unwrap();
    fs::set_permissions(&stand, fs::Permissions::from_mode(0o755)).unwrap();
    let cancel = AtomicBool::new(false);
    let means = means(&stand, temp.path(), &cancel);
    // Busy while another test's fork still holds the file open for writing.
    let replays = loop {
        let replays = with_apptainer(Path::new("/x.sif"), &means).unwrap();
        let is_busy = |replay: &Replay| {
            replay.outcome == NotPossible || replay.stderr.contains("Text file busy")
        };
        if !replays.iter().any(is_busy) {
            break replays;
        }
    };
    assert_eq!(
        outcomes(&replays),
        [("test", Ok), ("exec", Ok), ("job script", Ok)],
        "{replays:#?}"
    );
    let said = &replays[0].stderr;
    assert!(said.starts_with("-q test -S /tmp -S /var/tmp -W /"), "{said}");
    assert!(said.ends_with("--no-home -C /x.sif"), "{said}");
    let said = &replays[1].stderr;
    assert!(said.starts_with("-s exec ") && said.ends_with("-C /x.sif /bin/sh -c :"), "{said}");
}
