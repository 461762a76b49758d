//! Shows the changes of a repair, in the format of `diff -u`.

use std::fmt::Write as _;

/// Number of unchanged lines that are shown around a change.
const CONTEXT: usize = 2;

/// Largest table that is compared. Beyond, the lines from the first to the last change are shown as
/// one change.
const MAX_CELLS: usize = 4_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Same,
    Gone,
    New,
}

/// A unified diff of two texts; empty when they are equal.
#[must_use]
pub fn difference(name: &str, before: &str, after: &str) -> String {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let steps = steps(&old, &new);
    let mut near = vec![false; steps.len()];
    for (at, _) in steps.iter().enumerate().filter(|(_, (kind, _))| *kind != LineKind::Same) {
        let range = at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(steps.len());
        near.get_mut(range).into_iter().flatten().for_each(|near| *near = true);
    }
    if !near.contains(&true) {
        return String::new();
    }
    let mut text = format!("--- {name}\n+++ {name}\n");
    let (mut n_old, mut n_new, mut at) = (1, 1, 0);
    while at < steps.len() {
        let len = near.iter().skip(at).take_while(|near| **near).count();
        let hunk = steps.get(at..at + len).unwrap_or_default();
        let of = |other: LineKind| {
            hunk.iter().filter(|(kind, _)| *kind == LineKind::Same || *kind == other).count()
        };
        if !hunk.is_empty() {
            let _ = writeln!(
                text,
                "@@ -{n_old},{} +{n_new},{} @@",
                of(LineKind::Gone),
                of(LineKind::New)
            );
        }
        for (kind, line) in hunk {
            let sign = match kind {
                LineKind::Same => ' ',
                LineKind::Gone => '-',
                LineKind::New => '+',
            };
            let _ = writeln!(text, "{sign}{line}");
        }
        n_old += of(LineKind::Gone);
        n_new += of(LineKind::New);
        at += len;
        let skipped = near.iter().skip(at).take_while(|near| !**near).count();
        n_old += skipped;
        n_new += skipped;
        at += skipped;
    }
    text
}

/// Returns the steps from `old` to `new` that keep the most lines.
fn steps<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(LineKind, &'a str)> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) =
        (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let old_mid = old_rest.get(..old_rest.len() - tail).unwrap_or_default();
    let new_mid = new_rest.get(..new_rest.len() - tail).unwrap_or_default();
    let mut steps: Vec<_> = old.iter().take(head).map(|line| (LineKind::Same, *line)).collect();
    let width = new_mid.len() + 1;
    if width.saturating_mul(old_mid.len() + 1) > MAX_CELLS {
        steps.extend(old_mid.iter().map(|line| (LineKind::Gone, *line)));
        steps.extend(new_mid.iter().map(|line| (LineKind::New, *line)));
    } else {
        // The value at (i, j) is the number of common lines in old_mid[i..] and new_mid[j..].
        let mut common = vec![0_u32; width * (old_mid.len() + 1)];
        let at = |common: &[u32], (i, j)| common.get(i * width + j).copied().unwrap_or_default();
        for (i, a) in old_mid.iter().enumerate().rev() {
            for (j, b) in new_mid.iter().enumerate().rev() {
                let [down, right, both] =
                    [(i + 1, j), (i, j + 1), (i + 1, j + 1)].map(|place| at(&common, place));
                if let Some(cell) = common.get_mut(i * width + j) {
                    *cell = if a == b { both + 1 } else { down.max(right) };
                }
            }
        }
        let (mut i, mut j) = (0, 0);
        loop {
            match (old_mid.get(i), new_mid.get(j)) {
                (Some(a), Some(b)) if a == b => {
                    steps.push((LineKind::Same, *a));
                    (i, j) = (i + 1, j + 1);
                }
                (Some(a), Some(_)) if at(&common, (i + 1, j)) >= at(&common, (i, j + 1)) => {
                    steps.push((LineKind::Gone, *a));
                    i += 1;
                }
                (Some(a), None) => {
                    steps.push((LineKind::Gone, *a));
                    i += 1;
                }
                (_, Some(b)) => {
                    steps.push((LineKind::New, *b));
                    j += 1;
                }
                (None, None) => break,
            }
        }
    }
    steps.extend(old_rest.iter().skip(old_mid.len()).map(|line| (LineKind::Same, *line)));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_what_is_around() {
        assert_eq!(difference("f", "a\nb\n", "a\nb\n"), "");
        assert_eq!(difference("f", "a\n", "a\nb\n"), "--- f\n+++ f\n@@ -1,1 +1,2 @@\n a\n+b\n");
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = "1\nx\n3\n4\n5\n6\n7\n9\n";
        let expected =
            "--- f\n+++ f\n@@ -1,4 +1,4 @@\n 1\n-2\n+x\n 3\n 4\n@@ -6,4 +6,3 @@\n 6\n 7\n-8\n 9\n";
        assert_eq!(difference("f", before, after), expected);
    }
}
