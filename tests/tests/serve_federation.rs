//! `gular federation`: a user starts it, gets tokens for it, and stops it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gular_tests::{gular, kill, run};
use serde_json::Value;

/// Starts a federation in `dir`, and returns it with its stdout once it serves.
fn serve(dir: &Path, options: &[&str]) -> (Child, String) {
    let mut child = Command::new(gular())
        .args(["federation", "serve"])
        .arg(dir)
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("the program prints UTF-8");
    (child, line)
}

/// Stops the federation, and returns its exit code and all of its stderr.
fn stop(mut child: Child, signal: &str) -> (Option<i32>, String) {
    let sent = kill().args([signal, &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "it was still running");
    let mut stderr = String::new();
    let pipe = child.stderr.as_mut().expect("a pipe");
    pipe.read_to_string(&mut stderr).expect("the program prints UTF-8");
    (child.wait().expect("the program ends").code(), stderr)
}

#[test]
fn it_serves_until_a_signal_and_says_how_to_use_it() {
    for signal in ["-INT", "-TERM"] {
        let dir = tempfile::tempdir().unwrap();
        let (child, line) = serve(dir.path(), &[]);
        assert!(line.starts_with("pelican://localhost:") && line.ends_with("/gular\n"), "{line}");
        let second = run(["federation", "serve", dir.path().to_str().unwrap()]);
        assert_eq!(second.code, Some(2));
        assert!(
            second.stderr.starts_with("error: a federation is already running for the folder"),
            "{second:?}"
        );
        let (code, stderr) = stop(child, signal);
        assert_eq!(code, Some(0), "{signal}: {stderr}");
        for said in
            ["development only", "127.0.0.1", "SSL_CERT_FILE=", "BEARER_TOKEN=", line.trim()]
        {
            assert!(stderr.contains(said), "`{said}` in:\n{stderr}");
        }
        let last = format!("\n  gular publish bundle/ {}/name/1\n", line.trim());
        assert!(stderr.contains("127.0.0.1,\nits tokens") && stderr.contains(&last), "{stderr}");
        assert!(!stderr.contains("\\n"), "no line end is escaped: {stderr}");
        let token = run(["federation", "token", dir.path().to_str().unwrap(), "--read", "/"]);
        assert_eq!((token.code, token.stdout.as_str()), (Some(2), ""));
        assert!(
            token.stderr.contains("no federation is running for the folder"),
            "{}",
            token.stderr
        );
    }
}

#[test]
fn json_says_where_everything_is_and_tokens_stand_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (child, line) = serve(dir.path(), &["--json", "--quiet", "--namespace", "/a/b"]);
    let json: Value = serde_json::from_str(&line).expect("one JSON object on one line");
    assert!(json["url"].as_str().unwrap().ends_with("/a/b"), "{json}");
    assert!(Path::new(json["ca"].as_str().unwrap()).is_file(), "{json}");
    for server in ["origin", "cache"] {
        assert!(json[server].as_str().unwrap().starts_with("https://localhost:"), "{json}");
    }
    assert_eq!(json["pid"], child.id());
    let folder = dir.path().to_str().unwrap();
    let token = |options: &[&str]| run([&["federation", "token", folder], options].concat());
    let minted = token(&["--read", "/", "--create", "x", "--create", "y", "--lifetime", "1h"]);
    assert_eq!((minted.code, minted.stderr.as_str()), (Some(0), ""));
    assert_eq!(minted.stdout.trim_end().split('.').count(), 3, "one JSON Web Token");
    for (options, reason) in [
        (&[][..], "the token would not allow anything"),
        (&["--read", "/", "--lifetime", "2h"], "1 s to 3600 s"),
        (&["--read", "../x"], "a token cannot be limited to the path"),
        (&["--read", "/", "--lifetime", "30"], "such as `30m`"),
    ] {
        let refused = token(options);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{options:?}");
        assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    }
    assert_eq!(stop(child, "-TERM"), (Some(0), String::new()));
}
