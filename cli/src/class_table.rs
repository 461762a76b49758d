//! The table of classes that `pack --dry-run` and `inspect` show.

use std::fmt::Write as _;

use gular_bundle::Split;

use crate::show;

/// Most classes that are listed as text; JSON has all.
const CLASSES_SHOWN: usize = 50;

/// Names, and for each split the number of samples, or `None` where nobody counted.
pub(crate) fn classes(
    splits: &[Split],
    n_classes: usize,
    rows: impl Iterator<Item = (String, Vec<Option<u64>>)>,
) -> String {
    let rows: Vec<_> =
        rows.take(CLASSES_SHOWN).map(|(name, counts)| (show::plain(&name), counts)).collect();
    let longest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let width = longest.clamp(22, 60) + 2;
    let mut text = format!("\n{:<width$}", "class");
    for split in splits {
        let _ = write!(text, "{:>10}", split.to_string());
    }
    text.push('\n');
    for (name, counts) in &rows {
        let _ = write!(text, "{name:<width$}");
        for count in counts {
            let _ = write!(text, "{:>10}", count.map_or("?".to_owned(), |n| n.to_string()));
        }
        text.push('\n');
    }
    if n_classes > rows.len() {
        let _ = writeln!(text, "… {} more; `--json` lists all", n_classes - rows.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_and_say_so() {
        let splits = [Split::Train, Split::Val];
        let rows = (0..70_u64).map(|i| (format!("c{i}"), vec![Some(i), None]));
        let text = classes(&splits, 70, rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "class                        train       val");
        assert_eq!(lines[2], "c0                               0         ?");
        assert_eq!((lines.len(), lines[52]), (53, "… 20 more; `--json` lists all"));
    }
}
