//! `gular login`. A script takes the place of the program `pelican`, whose issuers need a browser.
//! So the tests are about how that program is called, and what is done with the token.
//! `tests/peers/pelican/login.py` uses the real program, if it is installed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use gular_tests::{Outcome, finish, gular};

/// The token {"alg":"none"} . {"iss":"https://a.invalid","scope":"storage.create:/birds"} . a
/// signature.
const TOKEN: &str = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2EuaW52YWxpZCIsInNjb3BlIjoic3RvcmFnZS5jcmVhdGU6L2JpcmRzIn0.c2lnbmF0dXJlLXRoYXQtaXMtbm9uZQ";
const URL: &str = "pelican://a.invalid/ns/birds/v1";

/// Makes a folder with a program `pelican` that runs `script`.
fn site(script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("pelican");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(dir.path().join("run")).unwrap();
    dir
}

fn login(dir: &Path, args: &[&str]) -> Outcome {
    let path = format!("{}:/usr/bin:/bin", dir.display());
    let mut command = Command::new(gular());
    command.arg("login").args(args).env("PATH", path).env("XDG_RUNTIME_DIR", dir.join("run"));
    let outcome = finish(&mut command);
    assert!(!outcome.stdout.contains(TOKEN) && !outcome.stderr.contains(TOKEN), "{outcome:?}");
    outcome
}

fn usual(dir: &Path) -> std::path::PathBuf {
    let uid = std::os::unix::fs::MetadataExt::uid(&fs::metadata(dir).unwrap());
    dir.join(format!("run/bt_u{uid}"))
}

#[test]
fn the_token_is_kept_where_it_is_looked_for_and_shown_to_nobody() {
    // As with Pelican, a token is written only to a terminal, unless told otherwise.
    let script = format!(
        "[ -t 1 ] || [ -n \"$PELICAN_SKIP_TERMINAL_CHECK\" ] || exit 1
         echo \"$@\" >> \"$(dirname \"$0\")/asked\"; echo approve >&2; echo {TOKEN}"
    );
    let dir = site(&script);
    let outcome = login(dir.path(), &[URL]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("storage.create:/birds"), "{outcome:?}");
    assert!(outcome.stderr.contains("approve"), "what it asks is heard: {outcome:?}");
    let kept = usual(dir.path());
    assert_eq!(fs::read_to_string(&kept).unwrap(), format!("{TOKEN}\n"));
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);

    let beside = dir.path().join("writes");
    let digest = format!("{URL}#blake3={}", "0".repeat(64));
    let outcome =
        login(dir.path(), &["--write", "--token-file", beside.to_str().unwrap(), &digest]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(fs::metadata(&beside).unwrap().permissions().mode() & 0o777, 0o600);
    let asked = fs::read_to_string(dir.path().join("asked")).unwrap();
    let expected = ["read", "write"].map(|verb| format!("credentials token get {verb} {URL}\n"));
    assert_eq!(asked, expected.concat());
}

#[test]
fn what_is_no_token_is_not_kept() {
    for script in ["echo 'Failed to get a token' >&2; exit 1", "echo nothing; exit 0", "exit 0"] {
        let dir = site(script);
        fs::write(usual(dir.path()), "before").unwrap();
        let outcome = login(dir.path(), &[URL]);
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains("hint: "), "{outcome:?}");
        assert_eq!(fs::read_to_string(usual(dir.path())).unwrap(), "before");
    }
}

#[test]
fn without_the_program_the_hint_says_what_to_run_elsewhere() {
    let dir = site("exit 0");
    fs::remove_file(dir.path().join("pelican")).unwrap();
    let outcome = login(dir.path(), &[URL]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    let command = format!("`pelican credentials token get read {URL}`");
    assert!(outcome.stderr.contains(&command), "{outcome:?}");
    let outcome = login(dir.path(), &["https://a.invalid/x"]);
    assert!(outcome.stderr.contains("not in a federation"), "{outcome:?}");
}
