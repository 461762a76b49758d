//! Tokens are in no output, and of a URL's query only parts that are known not to be secret.
//! [`Site::run`] looks for the real token in all output of the other checks; the tests here are
//! about tokens that servers refuse.

use std::fs;

use gular_tests::put;

use crate::bundles::text;
use crate::site::{Site, secrets_of};

/// The token {"alg":"none"} . {"iss":"https://a.invalid","scope":"storage.read:/"} . a signature.
const FORGED: &str = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2EuaW52YWxpZCIsInNjb3BlIjoic3RvcmFnZS5yZWFkOi8ifQ.c2lnbmF0dXJlLXRoYXQtaXMtbm9uZQ";

/// A server without authorization accepts such tokens; then there is no message to check.
#[test]
fn a_token_that_is_refused_shows_in_no_output() {
    let site = Site::shared();
    let (dir, collection) = (site.scratch(), site.collection("secret"));
    put(dir.path(), "file", b"x");
    for (name, token) in [("forged", FORGED), ("opaque", "an-opaque-token-of-no-known-kind")] {
        let token_file = dir.path().join(name);
        fs::write(&token_file, token).unwrap();
        let (url, copy) = (format!("{collection}/{name}"), dir.path().join("copy"));
        for args in [
            &["publish", text(&dir.path().join("file")), &url][..],
            &["fetch", &url, text(&copy)],
            &["fetch", &url, text(&copy), "--direct", "--json"],
            &["ls", &collection],
        ] {
            let mut command = site.command(args);
            command.arg("--token").arg(&token_file).env("BEARER_TOKEN", token);
            let outcome = site.finish(&mut command);
            assert!(matches!(outcome.code, Some(0 | 2)), "{outcome:?}");
            for secret in secrets_of(token) {
                let shown = outcome.stdout.contains(&secret) || outcome.stderr.contains(&secret);
                assert!(!shown, "{outcome:?}");
            }
        }
    }
}

#[test]
fn a_secret_in_a_query_shows_in_no_output() {
    let site = Site::shared();
    let (dir, collection) = (site.scratch(), site.collection("query"));
    put(dir.path(), "file", b"x");
    let object = format!("{collection}/object");
    assert_eq!(site.run(["publish", text(&dir.path().join("file")), &object]).code, Some(0));
    let query = "X-Amz-Signature=s3cret-1&sig=s3cret-2&authz=s3cret-3&s3cret-4&oss.asize=1";
    let absent = format!("{collection}/absent?{query}");
    let object = format!("{object}?{query}");
    let (copy, other) = (dir.path().join("copy"), dir.path().join("other"));
    for (args, expected) in [
        (&["fetch", &object, text(&copy)][..], Some(0)),
        (&["fetch", &object, text(&other), "--direct", "--json"], Some(0)),
        (&["fetch", &absent, text(&copy)], Some(2)),
        (&["fetch", &format!("{object}#x"), text(&copy)], Some(2)),
        (&["fetch", &format!("htps://h/x?{query}"), text(&copy)], Some(2)),
        (&["ls", &object], None),
        (&["ls", &absent, "--json"], None),
        (&["verify", &absent], None),
        (&["verify", &absent, "--json"], None),
        (&["publish", text(&dir.path().join("file")), &object], None),
        (&["publish", text(&dir.path().join("file")), &object, "--dry-run", "--json"], None),
    ] {
        let outcome = site.run(args);
        assert!(expected.is_none_or(|code| outcome.code == Some(code)), "{args:?} {outcome:?}");
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(!said.is_empty() && !said.contains("s3cret"), "{args:?} {said}");
    }
}
