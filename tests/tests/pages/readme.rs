//! README.md as a newcomer reads it: its shell blocks are run in order, in one shell, against the
//! embedded federation, and print what the page says.
//!
//! Numbers, sizes, times and digests may differ; words may not. Blocks that need PyTorch are run by
//! `tests/peers/python_one_gpu.py`.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use gular_tests::{jpeg, put};

use crate::blocks::{Block, RUN_BY_PEERS, blocks, hexes, masked};
use crate::shell::Shell;
use crate::{docs, json, pages, root};

/// The time limit of one block, which takes seconds if the program was compiled without
/// optimisation.
const LIMIT: Duration = Duration::from_secs(180);

/// Commands of the page that are stages of `cargo xtask ci`.
const STAGES: [&str; 2] = ["cargo xtask demo", "cargo xtask test"];

#[test]
fn readme_and_docs_run_as_written() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..24 {
        let split = if i % 5 == 0 { "val" } else { "train" };
        put(dir.path(), format!("photos/{split}/class {}/{i}.jpg", i % 3), &jpeg(i));
    }
    let lesson = root().join("tutorials/python/one_gpu");
    for name in ["draw_pets.py", "train.py"] {
        fs::copy(lesson.join(name), dir.path().join(name)).unwrap();
    }
    // A job only takes the wheel along.
    fs::write(dir.path().join("gular-0.1.0-cp39-abi3-manylinux_2_28_x86_64.whl"), "").unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let page = page.replace("8443", &port.to_string());
    let mut shell = Shell::start(dir.path(), LIMIT);
    let mut n_sessions = 0;
    for block in blocks(&page) {
        match block {
            Block::Shell(_, Some(why)) | Block::Session(_, Some(why)) => {
                assert!(why.starts_with(RUN_BY_PEERS), "README.md has a block that is {why}");
            }
            Block::Shell(text, None) if is_stages(&text) => {}
            Block::Shell(text, None) => {
                shell.run(&text).unwrap_or_else(|fault| panic!("{fault}"));
            }
            Block::Session(steps, None) => {
                n_sessions += 1;
                for (command, expected) in steps {
                    let said = shell.run(&command).unwrap_or_else(|fault| panic!("{fault}"));
                    // The server, which runs beside the commands, says its address when it is ready.
                    let is_server =
                        |line: &&String| **line == format!("pelican://localhost:{port}/gular");
                    let said: Vec<String> =
                        said.iter().filter(|line| !is_server(line)).cloned().collect();
                    assert_eq!(masked(&said), masked(&expected), "what `{command}` prints");
                }
            }
        }
    }
    assert!(n_sessions > 0, "README.md shows no session");
    // The other pages are about photographs.
    let packed = format!("cd '{}' && gular pack photos birds", dir.path().display());
    let said = shell.run(&packed).unwrap_or_else(|fault| panic!("{fault}"));
    let digest = hexes(&said).into_iter().next().expect("`gular pack` prints a digest");
    docs::run(&mut shell, dir.path(), port, &digest);
    json::check_examples(&mut shell, dir.path(), port, &digest);
}

#[test]
fn readme_is_short_and_leads_to_every_page() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let n_words = text.split_whitespace().count();
    assert!(n_words < 1400, "README.md has {n_words} words");
    // A page is linked directly, or by one of the index pages.
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

/// Returns whether all commands of a block are stages that CI runs itself.
fn is_stages(block: &str) -> bool {
    block.lines().all(|line| STAGES.iter().any(|stage| line.starts_with(stage)))
}

/// Returns the targets of a page's Markdown links and pictures.
fn links(page: &str) -> Vec<&str> {
    page.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}
