//! README.md as a newcomer meets it: its shell blocks are run in order, in one
//! shell, against the embedded federation, and print what the page says.
//!
//! Numbers, sizes, times and digests may differ; words may not. A digest that the
//! page shows stands for the one that was printed in its place.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use gular_tests::{gular, jpeg, put};

/// One block of the page takes seconds, with a program that was not compiled for speed.
const LIMIT: Duration = Duration::from_secs(180);

/// Commands of the page that are stages of `cargo xtask ci`.
const STAGES: [&str; 2] = ["cargo xtask demo", "cargo xtask test"];

/// A fenced block of the page.
#[derive(Debug, PartialEq)]
enum Block {
    /// Shell commands.
    Shell(String),
    /// Commands behind `$ `, each with what it prints.
    Session(Vec<(String, Vec<String>)>),
}

#[test]
fn readme_runs_and_prints_what_it_says() {
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
            Block::Shell(text) if is_stages(&text) => {}
            Block::Shell(text) => {
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
}

#[test]
fn a_block_that_fails_or_does_not_end_is_shown_with_all_it_said() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = Shell::start(dir.path(), Duration::from_secs(2));
    assert_eq!(shell.run("echo one\necho two").unwrap(), ["one", "two"]);
    let mut fault = |block: &str, words: [&str; 4]| {
        let fault = shell.run(block).unwrap_err();
        assert!(words.iter().all(|word| fault.contains(word)), "{fault}");
    };
    fault("echo said\necho why >&2\nfalse", ["ended with 1", "false", "said", "why"]);
    fault("echo so far\necho stuck >&2\nsleep 1000", ["2 s", "sleep", "so far", "stuck"]);
}

#[test]
fn every_file_that_a_page_links_to_exists() {
    let mut missing = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for target in links(&text) {
            let path = target.split('#').next().unwrap_or_default();
            let file = page.parent().unwrap().join(path);
            if !path.is_empty() && !path.contains("://") && !file.exists() {
                missing.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "\n{}\n", missing.join("\n"));
}

#[test]
fn readme_links_to_every_page_and_is_short() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let n_lines = text.lines().count();
    assert!(n_lines < 80, "README.md has {n_lines} lines");
    let linked: Vec<_> = links(&text).iter().map(|link| root().join(link)).collect();
    let unlinked: Vec<_> = pages().into_iter().filter(|page| !linked.contains(page)).collect();
    assert_eq!(unlinked, [root().join("README.md")], "pages without a link in README.md");
}

#[test]
fn blocks_are_found_and_output_is_masked() {
    let page =
        "a\n```sh\nx\ny\n```\nb\n```console\n$ one\nout 1.5 MB\n\n$ two\n```\n```rust\nno\n```\n";
    let session = vec![
        ("one".to_owned(), vec!["out 1.5 MB".to_owned(), String::new()]),
        ("two".to_owned(), Vec::new()),
    ];
    assert_eq!(blocks(page), [Block::Shell("x\ny\n".to_owned()), Block::Session(session)]);
    let lines = |text: &[&str]| text.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    assert_eq!(masked(&lines(&["sent   10.1 KB, 0 files"])), ["sent # SIZE, # files"]);
    let digest = "ab".repeat(32);
    assert_eq!(masked(&lines(&[&format!("u#blake3={digest}")])), ["u#blake3=DIGEST"]);
    assert_ne!(masked(&lines(&["3 files were sent"])), masked(&lines(&["3 files were there"])));
}

/// One bash for all blocks: a variable or a background process of one is there in the next.
struct Shell {
    process: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    /// A file: what runs on in the background may write to it, too.
    stderr: PathBuf,
    /// How long one block may take.
    limit: Duration,
}

impl Shell {
    fn start(dir: &Path, limit: Duration) -> Self {
        let stderr = dir.join("stderr");
        let bin = gular().parent().unwrap().to_path_buf();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut process = Command::new("bash")
            .current_dir(dir)
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("TMPDIR", dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&stderr).unwrap())
            // So that what never ends can be ended with all it started.
            .process_group(0)
            .spawn()
            .expect("bash starts");
        let stdin = process.stdin.take().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (send, lines) = channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|l| send.send(l)));
        let mut shell = Self { process, stdin, lines, stderr, limit };
        // What the page leaves running ends with the shell.
        shell.run("trap 'kill $(jobs -p) 2>/dev/null' EXIT").unwrap();
        shell
    }

    /// Runs `text` and returns its stdout.
    fn run(&mut self, text: &str) -> Result<Vec<String>, String> {
        const END: &str = "end-of-block";
        writeln!(self.stdin, "{{ {text}\n}} < /dev/null\necho \"{END} $?\"").unwrap();
        let begin = Instant::now();
        let mut said = Vec::new();
        let end = loop {
            let left = self.limit.saturating_sub(begin.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => match line.strip_prefix(END).map(str::trim) {
                    Some("0") => return Ok(said),
                    Some(code) => break format!("ended with {code}"),
                    None => said.push(line.trim_end().to_owned()),
                },
                Err(_) => break format!("did not end in {} s", self.limit.as_secs()),
            }
        };
        let stderr = fs::read_to_string(&self.stderr).unwrap_or_default();
        Err(format!("{text}\n{end} and printed\n{}\nand\n{stderr}", said.join("\n")))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = writeln!(self.stdin, "exit");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(5) {
            if self.process.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.process.wait();
    }
}

/// The `sh` and `console` blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match kind {
            "sh" => found.push(Block::Shell(inside.iter().map(|l| format!("{l}\n")).collect())),
            "console" => {
                let mut steps: Vec<(String, Vec<String>)> = Vec::new();
                for line in inside {
                    match (line.strip_prefix("$ "), steps.last_mut()) {
                        (Some(command), _) => steps.push((command.to_owned(), Vec::new())),
                        (None, Some((_, said))) => said.push(line.trim_end().to_owned()),
                        (None, None) => panic!("a session begins with `$ `, not `{line}`"),
                    }
                }
                found.push(Block::Session(steps));
            }
            _ => {}
        }
    }
    found
}

/// Whether all commands of a block are stages that CI runs by themselves.
fn is_stages(block: &str) -> bool {
    block.lines().all(|line| STAGES.iter().any(|stage| line.starts_with(stage)))
}

/// Lines with digests, numbers and units taken out and columns narrowed.
fn masked(lines: &[String]) -> Vec<String> {
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let is_unit = |word: &str| {
        let unit = word.trim_end_matches("/s");
        ["B", "KB", "MB", "GB", "TB"].contains(&unit)
    };
    let word = |word: &str| {
        let (bare, rest) = word.strip_suffix(',').map_or((word, ""), |bare| (bare, ","));
        let bare = if is_number(bare) {
            "#"
        } else if is_unit(bare) {
            "SIZE"
        } else {
            bare
        };
        format!("{bare}{rest}")
    };
    let line = |line: &String| {
        let mut line = line.clone();
        for hex in hexes(std::slice::from_ref(&line)) {
            line = line.replace(&hex, "DIGEST");
        }
        line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
    };
    lines.iter().map(line).collect()
}

/// The digests in `lines`, in their order.
fn hexes(lines: &[String]) -> Vec<String> {
    let words = lines.iter().flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()));
    let is_digest = |word: &&str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    words.filter(is_digest).map(str::to_owned).collect()
}

fn replaced(command: &str, digests: &BTreeMap<String, String>) -> String {
    digests.iter().fold(command.to_owned(), |text, (shown, real)| text.replace(shown, real))
}

/// The targets of a page's Markdown links and pictures.
fn links(page: &str) -> Vec<&str> {
    page.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// Every page for users: README, its neighbours, `docs`, the tutorials.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for dir in [
        "",
        "docs",
        "docs/bench",
        "tutorials/earth",
        "tutorials/minimal",
        "tutorials/train",
        "tutorials/htcondor",
        "tutorials/slurm",
        "tutorials/ensemble",
        "tutorials/workflow",
    ] {
        for entry in fs::read_dir(root().join(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}
