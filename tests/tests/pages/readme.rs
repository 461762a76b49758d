//! README.md as a newcomer meets it: its shell blocks are run in order, in one
//! shell, against the embedded federation, and print what the page says.
//!
//! Numbers, sizes, times and digests may differ; words may not. A digest that the
//! page shows stands for the one that was printed in its place.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use gular_tests::{jpeg, put};

use crate::blocks::{Block, blocks, hexes, masked};
use crate::shell::Shell;
use crate::{docs, json, pages, root};

/// One block of the page takes seconds, with a program that was not compiled for speed.
const LIMIT: Duration = Duration::from_secs(180);

/// Commands of the page that are stages of `cargo xtask ci`.
const STAGES: [&str; 2] = ["cargo xtask demo", "cargo xtask test"];

#[test]
fn readme_and_docs_run_as_written() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..24 {
        let split = if i % 4 == 0 { "val" } else { "train" };
        put(dir.path(), format!("photos/{split}/class {}/{i}.jpg", i % 3), &jpeg(i));
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let page = page.replace("8443", &port.to_string());
    let mut shell = Shell::start(dir.path(), LIMIT);
    let mut digests = BTreeMap::new();
    let mut n_sessions = 0;
    for block in blocks(&page) {
        match block {
            Block::Shell(_, Some(why)) => panic!("README.md has a block that is not run: {why}"),
            Block::Shell(text, None) if is_stages(&text) => {}
            Block::Shell(text, None) => {
                shell.run(&text).unwrap_or_else(|fault| panic!("{fault}"));
            }
            Block::Session(steps) => {
                n_sessions += 1;
                for (command, expected) in steps {
                    let command = replaced(&command, &digests);
                    let said = shell.run(&command).unwrap_or_else(|fault| panic!("{fault}"));
                    assert_eq!(masked(&said), masked(&expected), "what `{command}` prints");
                    digests.extend(hexes(&expected).into_iter().zip(hexes(&said)));
                }
            }
        }
    }
    assert!(n_sessions > 0, "README.md shows no session");
    let digest = digests.values().next().expect("the session prints a digest");
    docs::run(&mut shell, dir.path(), port, digest);
    json::check_examples(&mut shell, dir.path(), port, digest);
}

#[test]
fn readme_is_short_and_leads_to_every_page() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let n_lines = text.lines().count();
    assert!(n_lines < 80, "README.md has {n_lines} lines");
    // By itself, or by one of the indexes that it links to.
    let mut linked = Vec::new();
    for page in ["README.md", "docs/README.md", "tutorials/README.md"].map(|name| root().join(name))
    {
        let text = fs::read_to_string(&page).unwrap();
        let target = |link: &str| page.parent().unwrap().join(link).canonicalize().ok();
        linked.extend(links(&text).into_iter().filter_map(target));
    }
    let pages = pages().into_iter().map(|page| page.canonicalize().unwrap());
    let unlinked: Vec<_> = pages.filter(|page| !linked.contains(page)).collect();
    assert!(unlinked.is_empty(), "pages without a link: {unlinked:?}");
}

/// Whether all commands of a block are stages that CI runs by themselves.
fn is_stages(block: &str) -> bool {
    block.lines().all(|line| STAGES.iter().any(|stage| line.starts_with(stage)))
}

fn replaced(command: &str, digests: &BTreeMap<String, String>) -> String {
    digests.iter().fold(command.to_owned(), |text, (shown, real)| text.replace(shown, real))
}

/// The targets of a page's Markdown links and pictures.
fn links(page: &str) -> Vec<&str> {
    page.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}
