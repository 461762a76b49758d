//! All commands on pages, run or not, are known to the program.

use std::fs;
use std::path::Path;
use std::thread;

use gular_tests::run;

use crate::{pages, root};

/// A command line on a page.
#[derive(Debug, PartialEq)]
struct Line {
    number: usize,
    /// The words after `gular`.
    words: Vec<String>,
}

#[test]
fn every_command_on_every_page_is_one_that_the_program_knows() {
    let mut commands = Vec::new();
    for page in pages() {
        // The one page is made from the program, and the other is about earlier versions.
        if page.ends_with("docs/cli.md") || page.ends_with("CHANGELOG.md") {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        commands.extend(lines(&text).into_iter().map(|line| (page.clone(), line)));
    }
    assert!(commands.len() > 60, "only {} commands were found", commands.len());
    // Each command is a process, and there are many, so they run in two threads.
    let half = commands.len() / 2;
    let faults: Vec<String> = thread::scope(|scope| {
        let parts = [&commands[..half], &commands[half..]].map(|part| {
            scope.spawn(|| {
                part.iter().filter_map(|(page, line)| fault(page, line)).collect::<Vec<_>>()
            })
        });
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn commands_are_found_and_wrong_ones_are_named() {
    let page = "a\n```sh\ngular pack photos/ 'my bundle' \\\n  --envelope tar   # why\nX=$(gular ls \"$URL/a\" | tail -n 1)\nsrun -n 4 gular stage b -- gular x\n```\n`gular no`\n```text\n$ gular inspect b > out; ls\n```\n";
    let line = |number, text: &str| {
        let words = text.split(' ').map(|word| word.replace('_', " ")).collect();
        Line { number, words }
    };
    let expected = [
        line(3, "pack photos/ my_bundle --envelope tar"),
        line(5, "ls $URL/a"),
        line(6, "stage b -- gular x"),
        line(10, "inspect b"),
    ];
    assert_eq!(lines(page), expected);
    let check = |text: &str, expected: Option<&str>| {
        let found = fault(&root().join("docs/a.md"), &line(3, text));
        assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
        let words = expected.unwrap_or_default();
        assert!(found.unwrap_or_default().contains(words), "{words}");
    };
    check("pack a b --envelope tar", None);
    check("stage b -- no --such", None);
    check("pack a b --envelope $E --jobs ${N:-3} --quiet", None);
    check("pack a b --envelop $E", Some("--envelop"));
    check("pack a b --envelope $E --such", Some("--such"));
    check("pack a b --envelop tar", Some("docs/a.md:3: `gular pack a b --envelop tar`: error: "));
    check("pack a b --envelope zip", Some("zip"));
    check("verifi b", Some("verifi"));
}

/// Asks for help after the arguments of `line`, since the program reads the arguments before it
/// first. Returns the fault.
fn fault(page: &Path, line: &Line) -> Option<String> {
    let end = line.words.iter().position(|word| word == "--").unwrap_or(line.words.len());
    let mut words = line.words[..end].to_vec();
    let said = loop {
        let outcome = run(words.iter().map(String::as_str).chain(["--help"]));
        if outcome.code == Some(0) {
            return None;
        }
        let said = outcome.stderr.lines().next().unwrap_or_default().to_owned();
        // The value of a variable is not known; its option is known, and is removed with it.
        let unknown = |pair: &[String]| pair[1].contains('$') && said.contains(&pair[1]);
        match words.windows(2).position(unknown) {
            Some(at) if words[at].starts_with("--") => drop(words.drain(at..at + 2)),
            _ => break said,
        }
    };
    let page = page.strip_prefix(root()).unwrap_or(page).display();
    Some(format!("{page}:{}: `gular {}`: {said}", line.number, line.words.join(" ")))
}

/// Returns the commands in the blocks of a page.
fn lines(page: &str) -> Vec<Line> {
    let (mut found, mut inside) = (Vec::new(), false);
    let (mut whole, mut first) = (String::new(), 0);
    for (i, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            // Blocks in other languages have other words.
            let kinds = ["```", "```sh", "```bash", "```console", "```text"];
            inside = !inside && (kinds.contains(&line) || line.starts_with("```sh "));
            continue;
        }
        if !inside {
            continue;
        }
        if whole.is_empty() {
            first = i + 1;
        }
        if let Some(begun) = line.strip_suffix('\\') {
            whole.push_str(begun);
            continue;
        }
        whole.push_str(line);
        for words in commands(&std::mem::take(&mut whole)) {
            if let Some(at) = words.iter().position(|word| is_program(word)) {
                let begins = words.iter().take(at).all(|word| is_before(word));
                let words: Vec<String> = words.into_iter().skip(at + 1).map(spelt_out).collect();
                if begins && !words.is_empty() {
                    found.push(Line { number: first, words });
                }
            }
        }
    }
    found
}

fn is_program(word: &str) -> bool {
    matches!(word, "gular" | "./gular" | "target/release/gular")
}

/// Returns whether a word may be before a program: a prompt, or a program that starts others, with
/// its options.
fn is_before(word: &str) -> bool {
    matches!(word, "$" | "exec" | "srun" | "-n" | "sudo")
        || word.starts_with("--")
        || word.parse::<u32>().is_ok()
}

/// Replaces digests and names that a page cuts short.
fn spelt_out(word: String) -> String {
    match word.split_once("blake3=") {
        Some((url, digest)) if digest.ends_with('…') => format!("{url}blake3={}", "0".repeat(64)),
        _ if word == "pelican://…" => "pelican://host/v1".to_owned(),
        _ => word,
    }
}

/// Returns the words of each simple command of a line, as a shell splits them, without
/// redirections.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word, mut quote) = (Vec::new(), Vec::new(), None::<String>, None);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '$') if chars.peek() == Some(&'(') => {
                chars.next();
                word = None;
                all.push(std::mem::take(&mut words));
            }
            (None, '|' | ';' | '&' | ')' | '>' | '<') => {
                words.extend(word.take());
                all.push(std::mem::take(&mut words));
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    all.push(words);
    all
}
