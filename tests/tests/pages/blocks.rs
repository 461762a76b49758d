//! The blocks of a page, and their output.

/// A fenced block of a page.
#[derive(Debug, PartialEq)]
pub(crate) enum Block {
    /// Shell commands; with a reason if they cannot be run here.
    Shell(String, Option<String>),
    /// Commands behind `$ `, each with its output.
    Session(Vec<(String, Vec<String>)>),
}

/// Returns the `sh` and `console` blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match kind {
            shell if shell == "sh" || shell.starts_with("sh ") => {
                let why = shell.strip_prefix("sh ").map(|why| {
                    why.strip_prefix("not run: ").unwrap_or_else(|| {
                        panic!("a fence is `sh`, or `sh not run: WHY`, not `{shell}`")
                    })
                });
                let text = inside.iter().map(|line| format!("{line}\n")).collect();
                found.push(Block::Shell(text, why.map(str::to_owned)));
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
                found.push(Block::Session(steps));
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
        let mut line = line.clone();
        for hex in hexes(std::slice::from_ref(&line)) {
            line = line.replace(&hex, "DIGEST");
        }
        line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
    };
    lines.iter().map(line).collect()
}

/// Returns the digests in `lines`, in their order.
pub(crate) fn hexes(lines: &[String]) -> Vec<String> {
    let words = lines.iter().flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()));
    let is_digest = |word: &&str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    words.filter(is_digest).map(str::to_owned).collect()
}

#[test]
fn blocks_are_found_and_output_is_masked() {
    let page = "a\n```sh\nx\ny\n```\nb\n```sh not run: why\nz\n```\n```console\n$ one\nout 1.5 MB\n\n$ two\n```\n```rust\nno\n```\n";
    let session = vec![
        ("one".to_owned(), vec!["out 1.5 MB".to_owned(), String::new()]),
        ("two".to_owned(), Vec::new()),
    ];
    let shell =
        |text: &str, why: Option<&str>| Block::Shell(text.to_owned(), why.map(str::to_owned));
    let expected = [shell("x\ny\n", None), shell("z\n", Some("why")), Block::Session(session)];
    assert_eq!(blocks(page), expected);
    let lines = |text: &[&str]| text.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    assert_eq!(masked(&lines(&["sent   10.1 KB, 0 files"])), ["sent # SIZE, # files"]);
    let digest = "ab".repeat(32);
    assert_eq!(masked(&lines(&[&format!("u#blake3={digest}")])), ["u#blake3=DIGEST"]);
    assert_ne!(masked(&lines(&["3 files were sent"])), masked(&lines(&["3 files were there"])));
}
