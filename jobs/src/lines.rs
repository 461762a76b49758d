//! Joins lines that end with a backslash.

/// One logical line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The number of the first physical line, from 1.
    pub(crate) number: usize,
    /// The number of physical lines.
    pub(crate) count: usize,
    /// The joined and trimmed text.
    pub(crate) text: String,
}

/// Logical lines as HTCondor reads them: spaces behind the backslash do not count, a comment is
/// not continued, and a comment between the lines of a value is not part of the value.
pub(crate) fn joined(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut continued = false;
    for (i, physical) in text.lines().enumerate() {
        let is_comment = physical.trim_start().starts_with('#');
        let head = physical.trim_end().strip_suffix('\\').filter(|_| continued || !is_comment);
        let part = match head {
            Some(_) if is_comment => "",
            Some(head) => head,
            // Of a comment that ends the value, HTCondor keeps the last character.
            None if is_comment && continued => {
                let comment = physical.trim_end();
                comment.char_indices().last().and_then(|(at, _)| comment.get(at..)).unwrap_or("")
            }
            None => physical,
        };
        match lines.last_mut() {
            Some(last) if continued => {
                last.count += 1;
                last.text.push_str(part.trim_start());
            }
            _ => lines.push(Line { number: i + 1, count: 1, text: part.to_owned() }),
        }
        continued = head.is_some();
    }
    for line in &mut lines {
        let trimmed = line.text.trim();
        if trimmed.len() < line.text.len() {
            line.text = trimmed.to_owned();
        }
    }
    lines
}

/// A part of a file with its lines: a word, a statement, a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_joins_lines() {
        let texts = |lines: Vec<Line>| -> Vec<(usize, usize, String)> {
            lines.into_iter().map(|line| (line.number, line.count, line.text)).collect()
        };
        let line = |n: usize, count: usize, text: &str| (n, count, text.to_owned());
        let text = "a = 1\nb = x \\\n  y\\ \n z\n# c \\\nqueue";
        assert_eq!(
            texts(joined(text)),
            [
                line(1, 1, "a = 1"),
                line(2, 3, "b = x yz"),
                line(5, 1, "# c \\"),
                line(6, 1, "queue")
            ]
        );
        assert_eq!(texts(joined("a \\\n b \\\n c \n")), [line(1, 3, "a b c")]);
        let text = "a = x, \\\n # y, \\\n  z\nb = x \\\n# y\nqueue\n";
        let expected = [line(1, 3, "a = x, z"), line(4, 2, "b = x y"), line(6, 1, "queue")];
        assert_eq!(texts(joined(text)), expected);
    }
}
