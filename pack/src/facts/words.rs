//! Words of messages that several errors have.

/// Words for a number of things: `1 row matches`, `2 rows match`.
pub(crate) fn counted(n: u64, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

/// Lists names, but not more than twenty.
pub(crate) fn all(names: &[String]) -> String {
    let named: Vec<String> = names.iter().take(20).cloned().collect();
    some(&named, names.len() as u64)
}

/// Lists some of `n` names.
pub(crate) fn some(names: &[String], n: u64) -> String {
    let named: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let more = n.saturating_sub(names.len() as u64);
    let end = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &end
}

/// Most names in a sentence.
const MOST_IN_A_SENTENCE: usize = 3;

/// Some names, and how many more there are.
pub(crate) fn named<'a, S: AsRef<str> + 'a + ?Sized>(names: impl Iterator<Item = &'a S>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{}`", name.as_ref())).collect();
    match names.as_slice() {
        [one] => one.clone(),
        [first @ .., last] if names.len() <= MOST_IN_A_SENTENCE => {
            format!("{} and {last}", first.join(", "))
        }
        _ => {
            let more = names.len().saturating_sub(MOST_IN_A_SENTENCE) as u64;
            let first = names.get(..MOST_IN_A_SENTENCE).unwrap_or_default();
            format!("{} and {}", first.join(", "), counted(more, "other", "others"))
        }
    }
}
