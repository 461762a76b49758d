//! Counts names, and keeps the first few for a message.

use std::collections::BTreeSet;
use std::fmt;

/// Most names that are listed.
const MOST_NAMED: usize = 5;

/// Counts names and keeps the first ones in order, whatever order they come in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) n: u64,
    first: BTreeSet<String>,
}

impl Names {
    pub(crate) fn push(&mut self, name: &str) {
        self.n += 1;
        if self.first.len() < MOST_NAMED
            || self.first.last().is_some_and(|last| name < last.as_str())
        {
            self.first.insert(name.to_owned());
            if self.first.len() > MOST_NAMED {
                self.first.pop_last();
            }
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let n = self.n + other.n;
        other.first.iter().for_each(|name| self.push(name));
        self.n = n;
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self.first.iter().map(|name| format!("`{name}`")).collect();
        f.write_str(&named.join(", "))?;
        match self.n.saturating_sub(named.len() as u64) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_in_order_are_kept() {
        let mut names = Names::default();
        for i in [7, 3, 9, 1, 8, 2, 4] {
            names.push(&i.to_string());
        }
        assert_eq!(names.to_string(), "`1`, `2`, `3`, `4`, `7` and 2 more");
    }
}
