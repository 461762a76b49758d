//! Hides what looks like a secret in text that a program shows.
//!
//! A path, a URL or an option is often shown again in an error, and people give tokens where a path
//! is expected: `TOKEN=$(cat token)`. So programs pass their messages through [`mask`] on the way
//! out, and no place that words a message has to know about it.
//!
//! ```text
//! tokens.rs   tokens by their first characters, and long base64 by its disorder
//! url.rs      user and password, and values in a query
//! named.rs    what stands after a name such as `access_token` and a colon
//! mod.rs      words of a text, what follows `Bearer`, and what is written instead
//! ```
//!
//! Digests, file names, keys and image references stay, so some secrets cannot be told from them:
//! short ones, and those of hexadecimal digits or of lower-case letters and digits alone.

mod named;
mod tokens;
mod url;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::ops::Range;
use std::panic::PanicHookInfo;

/// What was found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hit {
    range: Range<usize>,
    kind: Secret,
}

/// What kind of secret a part of a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secret {
    /// A token known by its first characters; the value says what it is.
    Token(&'static str),
    /// A name and a password before the host of a URL.
    Password,
    /// The value of a name such as `access_token`.
    Named,
    /// Other parts of a URL that may be secret: a name alone before the host, values in a query.
    Url,
    /// Long base64.
    Base64,
}

impl Secret {
    /// Returns whether nothing but a secret looks like this, so that it is hidden in data, too.
    fn is_certain(self) -> bool {
        matches!(self, Self::Token(_) | Self::Password | Self::Named)
    }

    /// Adds what is shown instead.
    fn write(self, out: &mut String) {
        match self {
            Self::Token(what) => out.extend(["[", what, ", not shown]"]),
            Self::Base64 => out.push_str("[long base64, not shown]"),
            Self::Password | Self::Named | Self::Url => out.push('…'),
        }
    }
}

/// Returns `text` without what looks like a secret, for messages.
#[must_use]
pub fn mask(text: &str) -> Cow<'_, str> {
    without(text, find(text))
}

/// Does the same for a text that is a URL, or the path and query of one: it also hides values in
/// the query of a path.
#[must_use]
pub fn mask_url(text: &str) -> Cow<'_, str> {
    let mut hits = Vec::new();
    url::find(text, 0, true, &mut hits);
    hits.extend(find(text));
    without(text, hits)
}

/// Says what each secret in `text` is that nothing else looks like: tokens, and passwords in URLs.
pub fn secrets(text: &str) -> impl Iterator<Item = &'static str> {
    find(text).into_iter().filter_map(|hit| match hit.kind {
        Secret::Token(what) => Some(what),
        Secret::Password => Some("a URL with a password"),
        _ => None,
    })
}

/// What a program says when it panics, without secrets; the places in its code are added if
/// `RUST_BACKTRACE` asks for them.
#[must_use]
pub fn mask_panic(info: &PanicHookInfo<'_>) -> String {
    let mut text = mask(&info.to_string()).into_owned();
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        text.extend(["\n", &trace.to_string()]);
    }
    text
}

/// What looks like a secret in the arguments and variables that a program was given. Results are
/// read by scripts: a folder or a key may look like base64, and its URL must not be changed. So in
/// results only what nothing but a secret looks like is hidden, and the values of variables that
/// are there for tokens.
#[derive(Default)]
pub struct Given(Vec<GivenText>);

struct GivenText {
    text: String,
    kind: Secret,
    /// Whether it is hidden in results, too.
    in_data: bool,
}

impl Given {
    /// The shortest text that is hidden wherever it occurs: a shorter value of a query may also be
    /// a part of a name.
    const LEAST_BYTES: usize = 16;

    /// Finds the secrets in `inputs`, and in the values of variables for tokens.
    #[must_use]
    pub fn new<T: AsRef<str>>(
        inputs: impl IntoIterator<Item = T>,
        for_tokens: impl IntoIterator<Item = T>,
    ) -> Self {
        let inputs = inputs.into_iter().map(|input| (input, false));
        let for_tokens = for_tokens.into_iter().map(|value| (value, true));
        let mut found = Vec::new();
        for (input, for_tokens) in inputs.chain(for_tokens) {
            let input = input.as_ref();
            for Hit { range, kind } in find(input) {
                // A part of a path may also be a folder of a result.
                let in_data = kind.is_certain() || (for_tokens && range == (0..input.len()));
                let text = input.get(range).unwrap_or_default().trim_matches('\\');
                let given =
                    |text: &str, in_data| GivenText { text: text.to_owned(), kind, in_data };
                found.push(given(text, in_data));
                // Of base64 with a `/`, a part may be shown alone as the name of a file.
                let in_data = in_data && kind == Secret::Base64;
                found.extend(text.split('/').map(|text| given(text, in_data)));
            }
        }
        found.retain(|given| given.text.len() >= Self::LEAST_BYTES);
        Self(found)
    }

    /// Returns a message without secrets.
    #[must_use]
    pub fn mask<'t>(&self, message: &'t str) -> Cow<'t, str> {
        let hits = self.0.iter().flat_map(|given| given.find(message));
        without(message, find(message).into_iter().chain(hits).collect())
    }

    /// Returns data without secrets; text that may be a secret or a name stays.
    #[must_use]
    pub fn mask_data<'t>(&self, data: &'t str) -> Cow<'t, str> {
        let mut hits = find(data);
        hits.retain(|hit| hit.kind.is_certain());
        let in_data = self.0.iter().filter(|given| given.in_data);
        hits.extend(in_data.flat_map(|given| given.find(data)));
        without(data, hits)
    }
}

impl GivenText {
    /// The places where `text` has it.
    fn find<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Hit> + 'a {
        text.match_indices(self.text.as_str()).map(|(at, found)| {
            let skipped = escape(text.get(..at).unwrap_or_default(), found);
            Hit { range: at + skipped..at + found.len(), kind: self.kind }
        })
    }
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Given({} texts)", self.0.len())
    }
}

/// Returns `text` with other words for `hits`; hits that overlap become one.
fn without(text: &str, mut hits: Vec<Hit>) -> Cow<'_, str> {
    if hits.is_empty() {
        return Cow::Borrowed(text);
    }
    // Of several hits at one place the longest counts.
    hits.sort_by_key(|hit| (hit.range.start, usize::MAX - hit.range.end));
    let (mut out, mut end) = (String::with_capacity(text.len()), 0);
    for hit in hits {
        if hit.range.start >= end {
            out.push_str(text.get(end..hit.range.start).unwrap_or_default());
            hit.kind.write(&mut out);
        }
        end = end.max(hit.range.end);
    }
    out.push_str(text.get(end..).unwrap_or_default());
    Cow::Owned(out)
}

/// What the words before a word say about it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// `Bearer`.
    Bearer,
    /// `Authorization:`.
    Header,
    /// `Authorization:` and the name of a scheme.
    Basic,
    /// A name of secrets, such as `access_token` in JSON, whether it is inside quotes, and its end.
    Name(bool, usize),
}

/// Finds all secrets, in any order.
fn find(text: &str) -> Vec<Hit> {
    let mut hits = Vec::new();
    let (mut before, mut end, mut quoted) = (Before::Nothing, 0, false);
    for (start, word) in words(text) {
        let between = text.get(end..start).unwrap_or_default();
        quoted = named::is_quoted_after(quoted, between);
        // The next line of a list says something else, and so does the next string of JSON.
        let is_header = matches!(before, Before::Header | Before::Basic);
        if between.contains('\n') || (is_header && between.contains('"')) {
            before = Before::Nothing;
        }
        end = start + word.len();
        if let Before::Name(quoted, name_end) = before
            && matches!(word, ":" | "=")
        {
            hits.extend(named::value(text, name_end..start, quoted));
        }
        let skipped = escape(text.get(..start).unwrap_or_default(), word);
        let (start, word) = (start + skipped, word.get(skipped..).unwrap_or_default());
        url::find(word, start, false, &mut hits);
        tokens::find(word, start, &mut hits);
        before = follow(before, word, start, &mut hits);
        if url::is_secret_name(word) {
            before = Before::Name(quoted, end);
        }
    }
    hits
}

/// The words of a text with the places where they begin. What separates words is in no token and
/// ends every URL: space, quotes, and the `\` of an escape.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = text.get(start..)?;
        let first = rest.find(|c| !ends_word(c))?;
        let rest = rest.get(first..)?;
        let len = rest.find(ends_word).unwrap_or(rest.len());
        let begin = start + first;
        start = begin + len;
        Some((begin, rest.get(..len)?))
    })
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '\\')
}

/// The length of an escape's rest at the beginning of a word: JSON has `\n` and `\u001b`, and stays
/// JSON only if they stay.
fn escape(before: &str, word: &str) -> usize {
    let slashes = before.len() - before.trim_end_matches('\\').len();
    match word.chars().next() {
        Some('n' | 'r' | 't' | 'b' | 'f' | '0') if slashes % 2 == 1 => 1,
        Some('u') if slashes % 2 == 1 => {
            word.bytes().take(5).take_while(u8::is_ascii_alphanumeric).count()
        }
        _ => 0,
    }
}

/// Looks at one word in the light of those before it, and says what it means for the next.
fn follow(before: Before, word: &str, start: usize, hits: &mut Vec<Hit>) -> Before {
    let mut hide = |kind| hits.push(Hit { range: start..start + word.len(), kind });
    let last = word.rsplit([':', '=', ',']).next().unwrap_or_default();
    match before {
        Before::Bearer if tokens::may_follow_bearer(word) => hide(Secret::Token("a bearer token")),
        Before::Header => return Before::Basic,
        Before::Basic if tokens::may_follow_bearer(word) || word.ends_with('=') => {
            hide(Secret::Token("a credential"));
        }
        _ => {}
    }
    if last.eq_ignore_ascii_case("bearer") {
        Before::Bearer
    } else if is_header(word) {
        Before::Header
    } else {
        Before::Nothing
    }
}

/// Whether a word ends with `authorization:`.
fn is_header(word: &str) -> bool {
    let name = "authorization:";
    let end = word.len().checked_sub(name.len()).and_then(|at| word.get(at..));
    end.is_some_and(|end| end.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests;
