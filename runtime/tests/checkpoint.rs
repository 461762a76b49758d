//! Checkpoints with kills, damage, full disks and unrelated files.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;

use gular_bundle::Digest;
use gular_files::TEMP_PREFIX;
use gular_runtime::Error;
use gular_runtime::checkpoint::{CheckpointError, Checkpoints, Loaded, read_checkpoint};

fn bundle() -> Digest {
    Digest::of(b"the bundle")
}

fn open(dir: &Path, keep: usize) -> Checkpoints {
    Checkpoints::open(dir, bundle(), NonZeroUsize::new(keep).expect("not zero")).expect("opens")
}

fn save(checkpoints: &Checkpoints, step: u64) -> PathBuf {
    let model = format!("weights after {step}");
    let files = [("model.safetensors", model.into_bytes()), ("loader.json", vec![b'{', b'}'])];
    checkpoints.save(step, &files).expect("saves")
}

fn newest(checkpoints: &Checkpoints) -> Loaded {
    checkpoints.load_newest().expect("loads").expect("there is one")
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .expect("a folder")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_saved_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(&dir.path().join("a/b"), 2);
    assert_eq!(checkpoints.load_newest().unwrap(), None);
    let path = save(&checkpoints, 1234);
    assert!(path.ends_with("a/b/step-0000001234"));
    assert_eq!(names(&path), ["checkpoint.json", "loader.json", "model.safetensors"]);
    let loaded = newest(&checkpoints);
    assert_eq!((loaded.step, loaded.path), (1234, path));
    assert_eq!(loaded.files["model.safetensors"], b"weights after 1234");
    assert_eq!(loaded.files["loader.json"], b"{}");
    assert_eq!(loaded.files.len(), 2);
    assert!(loaded.warnings.is_empty());
}

#[test]
fn latest_is_a_plain_file_and_the_last_k_stay() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(dir.path(), 2);
    for step in [1, 2, 3, 4] {
        save(&checkpoints, step);
    }
    assert_eq!(names(dir.path()), ["latest", "step-0000000003", "step-0000000004"]);
    let latest = dir.path().join("latest");
    assert!(fs::symlink_metadata(&latest).unwrap().is_file());
    assert_eq!(fs::read_to_string(latest).unwrap(), "step-0000000004\n");
}

#[test]
fn the_best_stays_until_another_is_better() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(dir.path(), 1);
    save(&checkpoints, 1);
    checkpoints.keep_best(1).unwrap();
    for step in [2, 3] {
        save(&checkpoints, step);
    }
    assert_eq!(names(dir.path()), ["best", "latest", "step-0000000001", "step-0000000003"]);
    assert_eq!(fs::read_to_string(dir.path().join("best")).unwrap(), "step-0000000001\n");
    assert_eq!(newest(&checkpoints).step, 3, "a resume goes on from the newest");
    save(&checkpoints, 4);
    checkpoints.keep_best(4).unwrap();
    assert_eq!(names(dir.path()), ["best", "latest", "step-0000000004"]);
    // A training run that resumes from before the best drops it.
    save(&checkpoints, 2);
    assert_eq!(names(dir.path()), ["best", "latest", "step-0000000002"]);
    save(&checkpoints, 3);
    assert_eq!(names(dir.path()), ["best", "latest", "step-0000000003"]);
}

#[test]
fn nothing_is_removed_while_nobody_can_say_which_is_the_best() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(dir.path(), 1);
    save(&checkpoints, 1);
    checkpoints.keep_best(1).unwrap();
    let (best, aside) = (dir.path().join("best"), dir.path().join("aside"));
    fs::rename(&best, &aside).unwrap();
    // Reading it fails, and not because it is missing.
    std::os::unix::fs::symlink("best", &best).unwrap();
    save(&checkpoints, 2);
    save(&checkpoints, 3);
    assert!((1..=3).all(|step| dir.path().join(format!("step-{step:010}")).is_dir()));
    fs::rename(&aside, &best).unwrap();
    save(&checkpoints, 4);
    assert_eq!(names(dir.path()), ["best", "latest", "step-0000000001", "step-0000000004"]);
}

#[test]
fn a_checkpoint_is_read_by_its_folder_and_by_what_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(dir.path(), 2);
    save(&checkpoints, 1);
    checkpoints.keep_best(1).unwrap();
    let path = save(&checkpoints, 2);
    let step = |path: &Path| read_checkpoint(path).map(|loaded| loaded.step);
    assert_eq!(step(dir.path()).unwrap(), 2);
    assert_eq!(step(&dir.path().join("latest")).unwrap(), 2);
    assert_eq!(step(&dir.path().join("best")).unwrap(), 1);
    assert_eq!(step(&path).unwrap(), 2);
    flip(&path.join("model.safetensors"));
    let damaged = step(dir.path()).unwrap_err();
    assert!(damaged.to_string().contains("`model.safetensors` has digest"), "{damaged}");
    for wrong in ["../../etc", "step-1", "", &"step-0000000001\n".repeat(9)] {
        fs::write(dir.path().join("latest"), wrong).unwrap();
        let error = step(dir.path()).unwrap_err().to_string();
        assert!(error.contains("it does not hold the name of a checkpoint"), "{wrong}: {error}");
    }
    assert!(step(&dir.path().join("none")).is_err());
}

#[test]
fn any_damage_to_the_newest_falls_back_with_a_warning() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage, &str); 8] = [
        ("flipped", |dir| flip(&dir.join("model.safetensors")), "`model.safetensors` has digest"),
        ("cut", |dir| cut(&dir.join("model.safetensors")), "has 14 bytes, expected 15"),
        (
            "gone",
            |dir| fs::remove_file(dir.join("loader.json")).unwrap(),
            "`loader.json` is missing",
        ),
        ("grown", |dir| fs::write(dir.join("loader.json"), "{ }").unwrap(), "3 bytes, expected 2"),
        ("record flipped", |dir| flip(&dir.join("checkpoint.json")), "`checkpoint.json`"),
        ("record cut", |dir| cut(&dir.join("checkpoint.json")), "`checkpoint.json`"),
        ("record gone", |dir| fs::remove_file(dir.join("checkpoint.json")).unwrap(), "is missing"),
        (
            "a folder in place of a file",
            |dir| {
                fs::remove_file(dir.join("loader.json")).unwrap();
                fs::create_dir(dir.join("loader.json")).unwrap();
            },
            "`loader.json`",
        ),
    ];
    for (what, damage, says) in cases {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = open(dir.path(), 3);
        save(&checkpoints, 1);
        let path = save(&checkpoints, 2);
        damage(&path);
        let loaded = newest(&checkpoints);
        assert_eq!(loaded.step, 1, "{what}");
        assert_eq!(loaded.files["model.safetensors"], b"weights after 1", "{what}");
        assert_eq!(loaded.warnings.len(), 1, "{what}");
        let warning = &loaded.warnings[0];
        assert!(warning.contains("step-0000000002") && warning.contains(says), "{what}: {warning}");
    }
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).expect("a file of the checkpoint");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, bytes).expect("a file of the checkpoint");
}

fn cut(path: &Path) {
    let bytes = fs::read(path).expect("a file of the checkpoint");
    fs::write(path, &bytes[..bytes.len() - 1]).expect("a file of the checkpoint");
}

#[test]
fn only_damaged_checkpoints_are_an_error_and_no_new_start() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(dir.path(), 3);
    for step in [1, 2] {
        flip(&save(&checkpoints, step).join("model.safetensors"));
    }
    let error = checkpoints.load_newest().unwrap_err();
    assert!(
        matches!(error, Error::Checkpoint(CheckpointError::NoneSound { count: 2, .. })),
        "{error}"
    );
    assert!(error.to_string().contains("step-0000000001"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn training_goes_on_from_before_a_damaged_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(dir.path(), 2);
    save(&checkpoints, 100);
    flip(&save(&checkpoints, 300).join("model.safetensors"));
    assert_eq!(newest(&checkpoints).step, 100);
    save(&checkpoints, 200);
    assert_eq!(names(dir.path()), ["latest", "step-0000000100", "step-0000000200"]);
    let loaded = newest(&checkpoints);
    assert_eq!((loaded.step, loaded.warnings.len()), (200, 0));
}

#[test]
fn a_step_saved_again_replaces_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(dir.path(), 1);
    flip(&save(&checkpoints, 5).join("model.safetensors"));
    checkpoints.save(5, &[("other", b"second")]).unwrap();
    let loaded = newest(&checkpoints);
    assert_eq!(loaded.files["other"], b"second");
    assert_eq!(names(dir.path()), ["latest", "step-0000000005"]);
}

#[test]
fn another_bundle_is_refused_with_both_digests() {
    let dir = tempfile::tempdir().unwrap();
    save(&open(dir.path(), 2), 1);
    let other = Digest::of(b"another bundle");
    let strange = Checkpoints::open(dir.path(), other, NonZeroUsize::MIN).unwrap();
    let error = strange.load_newest().unwrap_err();
    assert!(matches!(error, Error::Checkpoint(CheckpointError::OtherBundle { .. })));
    let text = error.to_string();
    assert!(text.contains(&bundle().to_string()) && text.contains(&other.to_string()), "{text}");
    assert!(error.hint().is_some());
}

#[test]
fn a_save_touches_no_checkpoint_of_another_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let ours = open(dir.path(), 1);
    save(&ours, 1000);
    drop(ours);
    let other = Digest::of(b"another bundle");
    let strange = Checkpoints::open(dir.path(), other, NonZeroUsize::MIN).unwrap();
    for step in [1, 1000, 2000] {
        let error = strange.save(step, &[("model.safetensors", b"new")]).unwrap_err();
        assert!(
            matches!(error, Error::Checkpoint(CheckpointError::OtherBundle { .. })),
            "step {step}: {error}"
        );
    }
    assert_eq!(names(dir.path()), ["latest", "step-0000001000"]);
    drop(strange);
    assert_eq!(newest(&open(dir.path(), 1)).step, 1000);
}

#[test]
fn a_folder_is_for_one_training_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), 1);
    let error = Checkpoints::open(dir.path(), bundle(), NonZeroUsize::MIN).unwrap_err();
    assert!(matches!(error, Error::Checkpoint(CheckpointError::InUse { .. })), "{error}");
    drop(first);
    save(&open(dir.path(), 1), 3);
    assert_eq!(names(dir.path()), ["latest", "step-0000000003"]);
}

#[test]
fn newer_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(dir.path(), 2);
    let record = save(&checkpoints, 1).join("checkpoint.json");
    let text = fs::read_to_string(&record).unwrap().replace("\"version\": 1", "\"version\": 2");
    let at = text.rfind("  \"digest\": \"blake3:").unwrap();
    let digest = Digest::of(&text.as_bytes()[..at]);
    fs::write(&record, format!("{}  \"digest\": \"{digest}\"\n}}\n", &text[..at])).unwrap();
    let error = checkpoints.load_newest().unwrap_err();
    assert!(
        matches!(error, Error::Checkpoint(CheckpointError::TooNew { found: 2, supported: 1, .. })),
        "{error}"
    );
    let error = checkpoints.save(2, &[("model.safetensors", b"new")]).unwrap_err();
    assert!(matches!(error, Error::Checkpoint(CheckpointError::TooNew { .. })), "{error}");
    assert_eq!(names(dir.path()), ["latest", "step-0000000001"]);
}

#[test]
fn leftovers_of_a_killed_save_are_ignored_then_removed() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(dir.path(), 2);
    save(&checkpoints, 1);
    let half = dir.path().join(format!("{TEMP_PREFIX}abc"));
    fs::create_dir(&half).unwrap();
    fs::write(half.join("model.safetensors"), "half").unwrap();
    fs::write(dir.path().join(format!("{TEMP_PREFIX}latest")), "step").unwrap();
    assert_eq!(newest(&checkpoints).step, 1);
    save(&checkpoints, 2);
    assert_eq!(names(dir.path()), ["latest", "step-0000000001", "step-0000000002"]);
}

#[test]
fn missing_or_stale_latest_changes_nothing() {
    for latest in [None, Some("step-0000000001\n"), Some("step-0000000099\n"), Some("")] {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = open(dir.path(), 3);
        save(&checkpoints, 1);
        save(&checkpoints, 2);
        let file = dir.path().join("latest");
        match latest {
            None => fs::remove_file(file).unwrap(),
            Some(text) => fs::write(file, text).unwrap(),
        }
        assert_eq!(newest(&checkpoints).step, 2, "{latest:?}");
        save(&checkpoints, 3);
        let text = fs::read_to_string(dir.path().join("latest")).unwrap();
        assert_eq!(text, "step-0000000003\n");
    }
}

#[test]
fn strangers_in_the_folder_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(dir.path(), 1);
    for name in ["step-7", "step-best", "notes"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("step-0000000009"), "a file").unwrap();
    save(&checkpoints, 1);
    save(&checkpoints, 2);
    assert_eq!(newest(&checkpoints).step, 2);
    let expected = ["latest", "notes", "step-0000000002", "step-0000000009", "step-7", "step-best"];
    assert_eq!(names(dir.path()), expected);
}

#[test]
fn names_that_leave_the_folder_or_clash_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = open(dir.path(), 1);
    for name in ["", "..", ".hidden", "a/b", "../x", "checkpoint.json"] {
        let error = checkpoints.save(1, &[(name, b"")]).unwrap_err();
        assert!(
            matches!(error, Error::Checkpoint(CheckpointError::FileName { .. })),
            "{name}: {error}"
        );
    }
    let twice = checkpoints.save(1, &[("a", b"1"), ("a", b"2")]).unwrap_err();
    assert!(matches!(twice, Error::Checkpoint(CheckpointError::FileName { .. })), "{twice}");
    assert!(names(dir.path()).is_empty());
}

#[test]
fn full_disk_leaves_the_previous_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mount) = Tmpfs::mount(dir.path(), "1m") else {
        println!("skip full_disk_leaves_the_previous_checkpoint: mounting a tmpfs needs root");
        return;
    };
    let checkpoints = open(dir.path(), 2);
    save(&checkpoints, 1);
    let error = checkpoints.save(2, &[("model.safetensors", vec![7; 4 << 20])]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("cannot write") && text.contains("model.safetensors"), "{text}");
    assert!(error.hint().is_some_and(|hint| hint.contains("free some space")));
    assert_eq!(names(dir.path()), ["latest", "step-0000000001"]);
    assert_eq!(newest(&checkpoints).step, 1);
    save(&checkpoints, 3);
    assert_eq!(newest(&checkpoints).step, 3);
}

struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn mount(at: &'a Path, size: &str) -> Option<Self> {
        let size = format!("size={size}");
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(at)
            .output()
            .ok()?;
        output.status.success().then_some(Self(at))
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}
