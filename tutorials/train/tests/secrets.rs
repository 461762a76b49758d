//! No secret is shown that was given where a path or a number is expected.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod job;

use std::process::{Command, Stdio};

use job::{bundle, code, said};

/// The claims of [`token`].
const CLAIMS: &str = "eyJpc3MiOiJodHRwczovL2EuaW52YWxpZCJ9";

/// Put together here, so that no scanner takes this file for a leak.
fn token() -> String {
    format!("eyJhbGciOiJub25lIn0.{CLAIMS}.c2lnbmF0dXJl")
}

#[test]
fn a_token_as_any_option_shows_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut masked = 0;
    for verb in ["train", "eval", "predict", "merge", "scaling"] {
        let run = |arguments: &[String]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_gular-train"));
            command.arg(verb).args(arguments).current_dir(dir.path()).stdin(Stdio::null());
            command.env("TOKEN", token()).output().unwrap()
        };
        let help = String::from_utf8(run(&["--help".to_owned()]).stdout).unwrap();
        let flags = help.lines().filter(|line| line.trim_start().starts_with('-'));
        let flags = flags.filter(|line| line.contains('<'));
        let flags = flags.filter_map(|line| line.split_whitespace().find(|w| w.starts_with("--")));
        let mut tries: Vec<Vec<String>> =
            flags.map(|flag| vec!["absent".to_owned(), format!("{flag}={}", token())]).collect();
        assert!(!tries.is_empty(), "{help}");
        tries.push(vec![token()]);
        for arguments in tries {
            let output = run(&arguments);
            let said = format!("{}{}", said(&output), String::from_utf8_lossy(&output.stdout));
            assert!(!said.contains(CLAIMS), "{verb} {}", arguments[0]);
            masked += usize::from(said.contains("[a signed token, not shown]"));
        }
    }
    assert!(masked > 4, "{masked} outputs are masked");
}

#[test]
fn a_token_in_an_error_with_causes_or_in_a_variable_shows_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let place = format!("/proc/{}", token());
    for (place, variable) in [(place.as_str(), "TOKEN"), ("checkpoints", "RANK")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gular-train"));
        command.args(["train", "--checkpoint-dir", place]).arg(dir.path());
        command.current_dir(dir.path()).stdin(Stdio::null());
        if variable == "RANK" {
            command.env("WORLD_SIZE", "1");
        }
        let output = command.env(variable, token()).output().unwrap();
        assert_eq!(code(&output), 2);
        let said = said(&output);
        let masked = said.contains("[a signed token, not shown]");
        assert!(masked && !said.contains(CLAIMS), "{variable}: {said}");
    }
}
