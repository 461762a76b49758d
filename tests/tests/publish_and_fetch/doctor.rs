//! `gular doctor` reports what each server does.

use serde_json::Value;

use crate::bundles::{digest, publish, small};
use crate::site::Site;

fn servers<'a>(report: &'a Value, role: &str) -> Vec<&'a Value> {
    let servers = report["servers"].as_array().unwrap();
    servers.iter().filter(|server| server["role"] == role).collect()
}

#[test]
fn a_federation_that_works_is_well() {
    let site = Site::shared();
    let bundle = small(&site);
    let url = publish(&site, &bundle, &site.collection("well"));
    let report = site.json(["doctor", &url]);
    assert_eq!((&report["well"], &report["readable"]), (&true.into(), &true.into()), "{report}");
    assert_eq!(report["digest"], digest(&bundle));
    for role in ["discovery", "director", "origin"] {
        assert_eq!(servers(&report, role).len(), 1, "{report}");
    }
    for server in report["servers"].as_array().unwrap() {
        assert!(server["connection_ms"].is_f64() && server["name_ms"].is_f64(), "{server}");
        assert!(server["first_byte_ms"].is_f64() && server["fault"].is_null(), "{server}");
        if matches!(server["role"].as_str(), Some("cache" | "origin")) {
            assert!(server["bytes"].as_u64().unwrap() > 500_000, "{server}");
            assert!(server["bytes_per_second"].as_u64().unwrap() > 0, "{server}");
        }
    }
    let shown = site.run(["doctor", &url]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{shown:?}");
    let lines = report["servers"].as_array().unwrap().len() + 1;
    let token = usize::from(report["needs_token"] == true);
    assert_eq!(shown.stdout.lines().count(), lines + token, "{}", shown.stdout);
    assert!(
        shown.stdout.ends_with(": every server answers; `gular verify` compares the bytes\n"),
        "{}",
        shown.stdout
    );
    let quiet = site.run(["doctor", &url, "--quiet"]);
    assert_eq!((quiet.code, quiet.stdout.as_str()), (Some(0), ""));
}

#[test]
fn a_cache_that_is_down_is_named_while_the_others_serve() {
    let site = Site::shared();
    let url = publish(&site, &small(&site), &site.collection("down"));
    let dead = "https://localhost:1";
    let mut command = site.command(["doctor", &url, "--json"]);
    let outcome = site.finish(command.env("PELICAN_CLIENT_PREFERREDCACHES", format!("{dead} +")));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&report["well"], &report["readable"]), (&false.into(), &true.into()), "{report}");
    let faulty: Vec<&Value> = report["servers"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|server| server["ok"] == false)
        .collect();
    assert_eq!(faulty.len(), 1, "{report}");
    assert_eq!((&faulty[0]["server"], &faulty[0]["role"]), (&dead.into(), &"cache".into()));
    assert!(faulty[0]["fault"].is_string() && faulty[0]["do"].is_string(), "{report}");
}

#[test]
fn what_is_not_there_cannot_be_read() {
    let site = Site::shared();
    let url = format!("{}/v1", site.collection("nowhere"));
    let outcome = site.run(["doctor", &url]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""), "{outcome:?}");
    assert!(outcome.stdout.contains("it cannot be read"), "{outcome:?}");
    assert!(outcome.stdout.contains("FAULT") && outcome.stdout.contains("\n  do: "), "{outcome:?}");
    // Discovery has no fault.
    let first = outcome.stdout.lines().next().unwrap();
    assert!(first.starts_with("discovery") && first.contains("  ok "), "{outcome:?}");
}

#[test]
fn another_bundle_than_the_digest_says_is_named() {
    let site = Site::shared();
    let url = publish(&site, &small(&site), &site.collection("another"));
    let (plain, _) = url.split_once('#').unwrap();
    let outcome = site.run(["doctor", &format!("{plain}#blake3={}", "0".repeat(64))]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let (asked, found) = ("0".repeat(64), digest(&small(&site)));
    let said = format!("the bundle published here has digest {found}, expected blake3:{asked}");
    assert!(outcome.stdout.contains(&said), "{outcome:?}");
    assert!(
        outcome.stdout.contains("\n  do: check that the URL has the right version"),
        "{outcome:?}"
    );
}

/// A text that is not a token is not reported as a valid token.
#[test]
fn a_file_without_a_token_is_not_called_ok() {
    let site = Site::alone();
    let url = publish(&site, &small(&site), &site.collection("garbage"));
    let dir = site.scratch();
    let file = dir.path().join("token");
    for garbage in ["garbage", "not a token\n", "<html>"] {
        std::fs::write(&file, garbage).unwrap();
        let mut found = site.command(["doctor", &url]);
        found.env("BEARER_TOKEN_FILE", &file);
        let mut named = site.command(["doctor", &url, "--token", file.to_str().unwrap()]);
        named.env_remove("BEARER_TOKEN_FILE");
        for outcome in [found, named].map(|mut command| site.finish(&mut command)) {
            assert_ne!(outcome.code, Some(0), "{outcome:?}");
            let token = outcome.stdout.lines().find(|line| line.starts_with("token"));
            assert!(token.is_none_or(|line| !line.contains("  ok ")), "{outcome:?}");
            let help = ["\n  do: ", "hint: "];
            let said = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(help.iter().any(|help| said.contains(help)), "{outcome:?}");
        }
    }
}
