//! Words that comments do not use, since readers stop at them.

use std::fs;

use crate::{root, sources};

/// Each phrase, and what to write instead.
const PHRASES: [(&str, &str); 5] = [
    ("a training", "a training run"),
    ("anew", "again"),
    ("goes on", "continues or resumes"),
    ("in spite of", "despite"),
    ("the processor", "the CPU"),
];

/// Texts that may begin with the first phrase.
const ALLOWED: [&str; 3] = ["a training job", "a training run", "a training step"];

#[test]
fn comments_use_plain_words() {
    let mut found = Vec::new();
    for file in sources() {
        let text = fs::read_to_string(root().join(&file)).expect("a source file");
        let words = comment_words(&text);
        for (phrase, instead) in PHRASES {
            if words.contains(&format!(" {phrase} ")) {
                found.push(format!("{file} says `{phrase}`; write `{instead}`"));
            }
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Returns the words of all lines that are comments, in lower case and between single spaces,
/// without [`ALLOWED`].
fn comment_words(text: &str) -> String {
    let text = text.to_lowercase();
    let comments = text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    let is_apart = |c: char| !c.is_alphanumeric() && c != '_';
    let words = comments.flat_map(|line| line.split(is_apart));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut words = format!(" {} ", words.join(" "));
    for allowed in ALLOWED {
        words = words.replace(allowed, "");
    }
    words
}

#[test]
fn comments_are_read_across_lines_and_code_is_not() {
    let text = "/// It goes\n/// on.\nlet anew = 1;\n// A training run; a training\n// ends.\n";
    assert_eq!(comment_words(text), " it goes on  a training ends ");
}
