//! The blocks of a page, and their output.

/// How the fence of a block begins to say why the block is not run here.
const WHYS: [&str; 2] = ["not run: ", RUN_BY_PEERS];

/// The block is run by a test in `tests/peers`.
pub(crate) const RUN_BY_PEERS: &str = "run by peers: ";

/// A fenced block of a page.
#[derive(Debug, PartialEq)]
pub(crate) enum Block {
    /// Shell commands; with a reason if they cannot be run here.
    Shell(String, Option<String>),
    /// Commands behind `$ `, each with its output; with a reason if they cannot be run here.
    Session(Vec<(String, Vec<String>)>, Option<String>),
}

/// Returns the `sh` and `console` blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let (kind, why) = match kind.split_once(' ') {
            None => (kind, None),
            Some((kind, why)) => {
                let is_known = WHYS.iter().any(|begin| why.starts_with(begin));
                assert!(is_known, "after `{kind}` a fence says one of {WHYS:?}, not `{why}`");
                (kind, Some(why.to_owned()))
            }
        };
        match kind {
            "sh" => {
                let text = inside.iter().map(|line| format!("{line}\n")).collect();
                found.push(Block::Shell(text, why));
            }
            "console" => {
                let mut steps: Vec<(String, Vec<String>)> = Vec::new();
                for line in inside {
                    match (line.strip_prefix("$ "), steps.last_mut()) {
                        (Some(command), _) => steps.push((command.to_owned(), Vec::new())),
                        (None, Some((_, said))) => said.push(line.trim_end().to_owned()),
                        (None, None) => panic!("a session begins with `$ `, not `{line}`"),
                    }
                }
                found.push(Block::Session(steps, why));
            }
            _ => {}
        }
    }
    found
}

/// Returns lines without digests, numbers and units, and with narrow columns.
pub(crate) fn masked(lines: &[String]) -> Vec<String> {
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
        let mut masked = line.clone();
        for hex in hex_words(line, &[16, 64]) {
            masked = masked.replace(hex, "DIGEST");
        }
        let line = masked;
        line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
    };
    lines.iter().map(line).collect()
}

/// Returns the digests in `lines`, in their order.
pub(crate) fn hexes(lines: &[String]) -> Vec<String> {
    lines.iter().flat_map(|line| hex_words(line, &[64])).map(str::to_owned).collect()
}

/// Returns the words of `line` that have one of the lengths and only hexadecimal digits: digests,
/// and the names of shards.
fn hex_words<'a>(line: &'a str, lengths: &[usize]) -> Vec<&'a str> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric());
    let is_hex =
        |word: &&str| lengths.contains(&word.len()) && word.bytes().all(|b| b.is_ascii_hexdigit());
    words.filter(is_hex).collect()
}

#[test]
fn blocks_are_found_and_output_is_masked() {
    let page = "a\n```sh\nx\ny\n```\nb\n```sh not run: why\nz\n```\n```console\n$ one\nout 1.5 MB\n\n$ two\n```\n```console run by peers: why\n$ three\n```\n```rust\nno\n```\n";
    let session = vec![
        ("one".to_owned(), vec!["out 1.5 MB".to_owned(), String::new()]),
        ("two".to_owned(), Vec::new()),
    ];
    let shell =
        |text: &str, why: Option<&str>| Block::Shell(text.to_owned(), why.map(str::to_owned));
    let elsewhere = vec![("three".to_owned(), Vec::new())];
    let expected = [
        shell("x\ny\n", None),
        shell("z\n", Some("not run: why")),
        Block::Session(session, None),
        Block::Session(elsewhere, Some("run by peers: why".to_owned())),
    ];
    assert_eq!(blocks(page), expected);
    let lines = |text: &[&str]| text.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    assert_eq!(masked(&lines(&["sent   10.1 KB, 0 files"])), ["sent # SIZE, # files"]);
    let digest = "ab".repeat(32);
    assert_eq!(masked(&lines(&[&format!("u#blake3={digest}")])), ["u#blake3=DIGEST"]);
    assert_eq!(masked(&lines(&["train-0123456789abcdef.tar"])), ["train-DIGEST.tar"]);
    assert_ne!(masked(&lines(&["3 files were sent"])), masked(&lines(&["3 files were there"])));
}
