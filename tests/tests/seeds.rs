//! The targets of the fuzz tests can read their seeds.

use std::fs;
use std::path::Path;
use std::process::Command;

/// `fuzz-seeds` ends with an error if a seed is refused by its reader.
#[test]
fn every_fuzz_target_has_seeds_that_are_accepted() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_fuzz-seeds"))
        .arg(dir.path())
        .output()
        .expect("`fuzz-seeds` starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets");
    let names = |dir: &Path| {
        let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry"));
        let names = entries.map(|entry| entry.path().file_stem().map(ToOwned::to_owned));
        let mut names: Vec<_> = names.flatten().collect();
        names.sort();
        names
    };
    assert_eq!(names(dir.path()), names(&targets));
}
