//! Words of shells, of `#SBATCH` lines and of submit files.

/// Marks a macro that is a variable of the script.
pub(super) const MARK: char = '\u{1}';

/// Separates the values of an item: `read` joins blanks and tabs, but not this.
pub(super) const SEPARATOR: &str = "\u{1f}";

/// A value in a `#SBATCH` line; `None` for what such a line cannot have.
pub(super) fn option_word(text: &str) -> Option<String> {
    if text.is_empty() || text.contains(char::is_control) {
        return None;
    }
    let is_plain = !text.contains(|c: char| c.is_whitespace() || "\"'\\#".contains(c));
    let quoted = || format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    Some(if is_plain { text.to_owned() } else { quoted() })
}

/// A word of the shell; marked names become variables.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/:=,%@".contains(c);
    if text.contains(MARK) {
        let parts = text.split(MARK).enumerate().map(|(i, part)| match i % 2 {
            1 => format!("${{{part}}}"),
            _ => part
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('$', "\\$")
                .replace('`', "\\`"),
        });
        format!("\"{}\"", parts.collect::<String>())
    } else if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// A text as `$'…'`, in which [`SEPARATOR`] is `\x1f`.
pub(super) fn ansi(text: &str) -> String {
    format!("$'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace(SEPARATOR, "\\x1f"))
}

/// The words of `arguments`: at spaces, or as in `"a 'b c' ""d"""`.
pub(super) fn arguments(text: &str) -> Option<Vec<String>> {
    let Some(inside) = text.strip_prefix('"') else {
        return Some(text.split_whitespace().map(|word| word.replace("\\\"", "\"")).collect());
    };
    let inside = inside.strip_suffix('"')?.replace("\"\"", "\"");
    let (mut words, mut word, mut in_word, mut in_quotes) =
        (Vec::new(), String::new(), false, false);
    let mut rest = inside.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\'' if in_quotes && rest.next_if_eq(&'\'').is_some() => word.push('\''),
            '\'' => (in_quotes, in_word) = (!in_quotes, true),
            c if c.is_whitespace() && !in_quotes => {
                if in_word {
                    words.push(std::mem::take(&mut word));
                }
                in_word = false;
            }
            c => {
                word.push(c);
                in_word = true;
            }
        }
    }
    words.extend(in_word.then_some(word));
    (!in_quotes).then_some(words)
}

/// The variables of an environment: `"A=1 B='2 3'"` or `A=1;B=2`.
pub(super) fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let words = match text.starts_with('"') {
        true => arguments(text)?,
        false => text.split(';').map(|pair| pair.trim().to_owned()).collect(),
    };
    let words = words.into_iter().filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (name, value) = word.split_once('=')?;
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            (is_name && !name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        })
        .collect()
}
