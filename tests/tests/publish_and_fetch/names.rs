//! Odd names of files, against servers that list names in different ways.

use std::collections::BTreeSet;

use gular_tests::put;
use serde_json::Value;

use crate::bundles::{assert_same, text};
use crate::site::Site;

/// Names that a file on Linux can have and a URL can contain. Each comes back as it is.
const NAMES: &[&str] = &[
    // A listing that is decoded once too often, or not at all, confuses these.
    "a b.txt",
    "a%20b.txt",
    "a%2520b.txt",
    "a%252520b.txt",
    "IMG%20001.jpg",
    "%41",
    "A",
    "%2F",
    "..%2Fup",
    "%2e%2e",
    "%00",
    "%ff",
    "%C3%A9",
    "%e6%b0%b4.txt",
    "100%",
    "100%.txt",
    "%",
    "%%",
    "%4",
    "%zz",
    "%u0041",
    "a%3Fb",
    "a%23b",
    "a%5Cb",
    // Queries, fragments and form data.
    "a+b.txt",
    "a&b.txt",
    "a&amp;b.txt",
    "a=b;c=d",
    "a,b;c",
    "a:b",
    "http:",
    "user@host",
    "~1",
    "x~1",
    "$HOME",
    // Quotes and brackets, in XML and in a shell.
    "it's",
    "\"quoted\"",
    "`id`",
    "<a>",
    "a<b",
    "]]>",
    "<!--",
    "(1) [2] {3}",
    "a|b^c",
    "!*",
    // Spaces and dots at the ends.
    " a",
    "a ",
    "a  b",
    "\u{a0}",
    "\u{2003}x\u{2003}",
    ".hidden",
    "...",
    "x.",
    "x..",
    "..x",
    // An option, to a careless program.
    "-r",
    "--help",
    "-",
    "@args",
    // Unicode: one letter in two forms, letters beyond 16 bits, right to left, without a width.
    "\u{e9}.txt",
    "e\u{301}.txt",
    "\u{df}",
    "ẞ",
    "İi",
    "日本語.jpg",
    "😀.png",
    "\u{5d0}\u{5d1}.txt",
    "a\u{200b}b",
    "\u{feff}bom",
    "\u{e000}",
    // These differ only in case.
    "README",
    "Readme",
    "con.txt",
];

/// Names of `len` bytes, of which one, two or three are a letter, and a shorter one.
fn longest(len: usize) -> [String; 5] {
    let filled = |part: &str| part.repeat(len / part.len()) + &"b".repeat(len % part.len());
    [filled("a"), filled("水"), filled("%20"), filled("e\u{301}"), "a".repeat(240)]
}

/// Names that no URL can contain: each is named, and the others are published.
const REFUSED: &[&str] = &["a?b", "#a#", "a\\b", "a\nb", "a\tb", "\u{7f}", "\u{85}", "\u{ffff}"];

/// Publishes all names together, each alone, and each as a folder, and fetches them.
fn check(site: &Site) {
    let (dir, url) = (site.scratch(), site.collection("names"));
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    // File systems accept 255 bytes. XRootD 5.5.3 lists such a name without its last byte.
    let longest = longest(if site.is_embedded() { 255 } else { 254 });
    let names: BTreeSet<&str> =
        NAMES.iter().copied().chain(longest.iter().map(String::as_str)).collect();
    for (i, name) in names.iter().enumerate() {
        for path in [format!("all/{name}"), format!("alone/{i}/{name}"), format!("dirs/{name}/x")] {
            put(&from, &path, path.as_bytes());
        }
    }
    let published = site.run(["publish", "-r", text(&from), &url, "--json"]);
    assert_eq!(published.code, Some(0), "{published:?}");
    let report: Value = serde_json::from_str(&published.stdout).unwrap();
    assert_eq!(report["uploaded"], 3 * names.len(), "{report}");
    for expected in [3 * names.len(), 0] {
        let report = site.json(["fetch", "-r", &url, text(&to)]);
        assert_eq!(report["fetched"], expected, "{report}");
        assert_same(&to, &from);
    }
    // Another process has not learned from other folders how the server spells names.
    for (i, name) in names.iter().enumerate().filter(|(_, name)| name.contains('%')) {
        let (from, to) = (from.join(format!("alone/{i}")), dir.path().join(format!("to-{i}")));
        let outcome = site.run(["fetch", "-r", &format!("{url}/alone/{i}"), text(&to)]);
        assert_eq!(outcome.code, Some(0), "{name}: {outcome:?}");
        assert_same(&to, &from);
    }
}

#[test]
fn odd_names_come_back_as_they_are() {
    check(&Site::shared());
}

#[test]
fn odd_names_come_back_from_a_server_that_lists_them_as_they_are() {
    check(&Site::alone_with(&["--raw-names"]));
}

#[test]
fn names_that_no_url_can_contain_are_named_and_the_others_published() {
    let site = Site::shared();
    let (dir, url) = (site.scratch(), site.collection("refused"));
    for name in REFUSED.iter().chain(&["good"]) {
        put(dir.path(), name, b"x");
    }
    let published = site.run(["publish", "-r", text(dir.path()), &url, "--json"]);
    assert_eq!(published.code, Some(2), "{published:?}");
    let report: Value = serde_json::from_str(&published.stdout).unwrap();
    let failed = report["failed"].as_array().unwrap();
    let failed: BTreeSet<&str> = failed.iter().map(|f| f["name"].as_str().unwrap()).collect();
    assert_eq!(failed, REFUSED.iter().copied().collect());
    assert_eq!(report["uploaded"], 1, "{report}");
}
