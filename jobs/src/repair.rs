//! Makes repairs, and reads each repaired file again before it counts: what the file says may
//! differ only at the repaired place.

use crate::dag;
use crate::file_kind::FileKind;
use crate::finding::Edit;
use crate::lines::Piece;
use crate::script::shell::Script;
use crate::submit::Submit;

/// Returns `text`, the file `name`, with those of `edits` that change nothing but their place. If
/// two edits meet, one is left for the next round.
#[must_use]
pub fn repair(name: &str, text: &str, edits: &[&Edit]) -> String {
    // A first line `#!` may say that the file is of another kind: then all else waits for it.
    let first = edits.iter().find(|edit| edit.line == 1 && edit.count < 2);
    if let Some(better) = first.map(|edit| edit.of(text))
        && better.starts_with("#!")
        && !text.starts_with("#!")
        && (text.starts_with('\u{feff}') || FileKind::of(name, &better) != FileKind::of(name, text))
    {
        return better;
    }
    let mut edits = edits.to_vec();
    edits.sort_by_key(|edit| std::cmp::Reverse((edit.line, edit.count)));
    let kind = FileKind::of(name, text);
    let mut text = text.to_owned();
    let mut now = pieces(kind, &text);
    // Lines from here on were repaired.
    let mut done = usize::MAX;
    for edit in edits {
        if edit.line >= done || edit.line.saturating_add(edit.count) > done {
            continue;
        }
        let better = edit.of(&text);
        let Some(then) = pieces(kind, &better).filter(|_| better != text) else { continue };
        let is_local = match &now {
            Some(now) => {
                is_local(kind, now, &then, edit)
                    && (!is_script(kind)
                        || changes_line_ends(&text, edit)
                        || is_one_change(now, &then, edit))
            }
            // A file that cannot be read as it is can only be repaired as a whole.
            None => edit.line == 1 && edit.count >= text.lines().count(),
        };
        if is_local {
            (text, now, done) = (better, Some(then), edit.line);
        }
    }
    text
}

/// Whether two texts say the same above and below the place of `edit`.
fn is_local(kind: FileKind, old: &[Piece], new: &[Piece], edit: &Edit) -> bool {
    let (above, below) = around(old, edit.line, edit.count);
    // New lines must not come into the middle of a statement.
    let is_between = match above.last() {
        _ if edit.count > 0 => true,
        Some(last) if is_script(kind) => last.ends_with('\n') || last.starts_with('#'),
        _ => !old.iter().any(|piece| piece.first < edit.line && piece.last >= edit.line),
    };
    is_between && (above, below) == around(new, edit.line, edit.lines.len())
}

fn is_script(kind: FileKind) -> bool {
    matches!(kind, FileKind::Sbatch | FileKind::Shell)
}

/// Whether `edit` takes CR from the ends of all lines of `text` and does nothing else.
fn changes_line_ends(text: &str, edit: &Edit) -> bool {
    edit.line == 1 && text.lines().map(|line| line.trim_end_matches('\r')).eq(&edit.lines)
}

/// Whether an edit of a script takes out one whole statement, or changes one word; it may also
/// join lines and insert statements.
fn is_one_change(old: &[Piece], new: &[Piece], edit: &Edit) -> bool {
    let is_end = |piece: &Piece| piece.text == "\n";
    if edit.lines.is_empty() {
        let is_lost =
            |piece: &&Piece| piece.first >= edit.line && piece.first - edit.line < edit.count;
        let mut lost = old.iter().filter(is_lost).rev();
        let operators = [";", "&", "&&", "|", "||", "|&", ";;", "(", ")", "{", "}", "\n"];
        return lost.next().is_some_and(is_end)
            && lost.all(|piece| !operators.contains(&piece.text.as_str()));
    }
    // The last line may get a line end.
    let trimmed = |pieces: &[Piece]| pieces.iter().rposition(|p| !is_end(p)).map_or(0, |i| i + 1);
    let old = old.get(..trimmed(old)).unwrap_or_default();
    let new = new.get(..trimmed(new)).unwrap_or_default();
    let is_same = |(old, new): &(&Piece, &Piece)| old.text == new.text;
    let head = old.iter().zip(new).take_while(is_same).count();
    let (old, new) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(is_same).count();
    let n_words = |pieces: &[Piece]| {
        let changed = pieces.iter().take(pieces.len() - tail);
        changed.filter(|piece| !is_end(piece)).count()
    };
    n_words(old) <= 1 && (edit.count == 0 || n_words(new) <= 1)
}

/// The texts of what is above and below `count` lines.
fn around(pieces: &[Piece], line: usize, count: usize) -> (Vec<&str>, Vec<&str>) {
    let end = line.saturating_add(count);
    let above = pieces.iter().filter(|piece| piece.last < line);
    let below = pieces.iter().filter(|piece| piece.first >= end);
    (above.map(|piece| &*piece.text).collect(), below.map(|piece| &*piece.text).collect())
}

/// What a file says; `None` if it is not understood.
fn pieces(kind: FileKind, text: &str) -> Option<Vec<Piece>> {
    let line = |i: usize, text: &str| Piece { first: i + 1, last: i + 1, text: text.to_owned() };
    let lines = || text.lines().enumerate();
    match kind {
        FileKind::Submit => Some(Submit::parse(text).pieces()),
        FileKind::Dag => Some(dag::pieces(text)),
        FileKind::Sbatch | FileKind::Shell => {
            let options = lines().filter(|(_, line)| line.starts_with("#SBATCH"));
            let options = options.map(|(i, text)| line(i, text));
            let word = |token: crate::script::shell::Token| Piece {
                first: token.line,
                last: token.line,
                text: token.text,
            };
            let words = Script::parse(text).tokens?.into_iter().map(word);
            let mut all: Vec<Piece> = words.chain(options).collect();
            all.sort_by_key(|piece| piece.first);
            Some(all)
        }
        FileKind::Python | FileKind::Other => {
            Some(lines().map(|(i, text)| line(i, text)).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(line: usize, count: usize, lines: &[&str]) -> Edit {
        Edit { line, count, lines: lines.iter().map(|&line| line.to_owned()).collect() }
    }

    #[test]
    fn a_repair_that_changes_something_else_is_not_made() {
        let check = |name: &str, text: &str, edit: &Edit, expected: Option<&str>| {
            assert_eq!(repair(name, text, &[edit]), expected.unwrap_or(text), "{text}");
        };
        let joins = edit(1, 1, &["a \\"]);
        check("x.sh", "a\n-b\nc\n", &joins, Some("a \\\n-b\nc\n"));
        // What follows would become a part of the text in quotes, or of the here-document.
        check("x.sh", "a\nb\nc\n", &edit(1, 1, &["a '"]), None);
        check("x.sh", "a\nb\nc\n", &edit(2, 1, &["b <<E"]), None);
        check("x.sh", "a 'x\ny\nz'\n", &edit(2, 0, &["export B=1"]), None);
        check("x.sh", "a \\\n  b\n", &edit(2, 0, &["export B=1"]), None);
        check("x.sh", "a <<E\nmkdir b\nE\n", &edit(2, 1, &["mkdir -p b"]), None);
        check("x.sh", "a (\nb\n", &edit(2, 1, &["c"]), None);
        // More than one word, or more than one statement.
        check("x.sh", "a b; c\n", &edit(1, 1, &["a x; c"]), Some("a x; c\n"));
        check("x.sh", "a b; c\n", &edit(1, 1, &["a x; d"]), None);
        check("x.sh", "a b; c\n", &edit(1, 1, &["a -p -p b; c"]), None);
        check("x.sh", "a b\nc\n", &edit(1, 1, &[]), Some("c\n"));
        check("x.sh", "a b; c\nd\n", &edit(1, 1, &[]), None);
        check("x.sh", "a b && c\nd\n", &edit(1, 1, &[]), None);
        check("x.sh", "a \\\n  b\nd\n", &edit(1, 1, &[]), None);
        check("x.sh", "a 'x\ny'\nd\n", &edit(1, 1, &[]), None);
        check("x.sh", "a \\\n  b\nd\n", &edit(1, 2, &[]), Some("d\n"));
        let ends = edit(1, 3, &["a", "b \\", " c"]);
        check("x.sh", "a\r\nb \\\r\n c\r\n", &ends, Some("a\nb \\\n c\n"));
        check(
            "x.sbatch",
            "#!/bin/sh\n#SBATCH -n 1\na\n",
            &edit(2, 2, &["a"]),
            Some("#!/bin/sh\na\n"),
        );
        check("x.sub", "a = 1\nb = 2\nqueue\n", &edit(1, 1, &["a = 1 \\"]), None);
        check(
            "x.sub",
            "a = 1\nb = 2\nqueue\n",
            &edit(1, 1, &["a = 3"]),
            Some("a = 3\nb = 2\nqueue\n"),
        );
        check("x.dag", "JOB a {\n}\nJOB b x\n", &edit(2, 1, &["} \\"]), None);
    }

    #[test]
    fn a_file_is_read_as_what_its_new_first_line_says() {
        let text = "cat <<E\nmkdir a\nE\nmkdir b\n";
        let first = edit(1, 0, &["#!/bin/bash"]);
        let inside = edit(2, 1, &["mkdir -p a"]);
        let once = repair("run", text, &[&inside, &first]);
        assert_eq!(once, format!("#!/bin/bash\n{text}"));
        assert_eq!(repair("run", &once, &[&edit(3, 1, &["mkdir -p a"])]), once);
        let better = once.replace("mkdir b", "mkdir -p b");
        assert_eq!(repair("run", &once, &[&edit(5, 1, &["mkdir -p b"])]), better);
        assert_eq!(repair("x.sh", "a\nb\n", &[&first, &edit(2, 1, &["c"])]), "#!/bin/bash\na\nc\n");
    }

    #[test]
    fn of_two_repairs_that_meet_one_is_made() {
        let edits = [edit(1, 2, &["x"]), edit(2, 1, &["y"]), edit(3, 0, &["z"])];
        let edits: Vec<&Edit> = edits.iter().collect();
        assert_eq!(repair("x.sh", "a\nb\nc\n", &edits), "a\ny\nz\nc\n");
    }
}
