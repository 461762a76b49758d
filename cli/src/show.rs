//! How numbers, texts and JSON are written, and to which stream. All output of the program passes
//! through here, so that no secret that the program was given is shown.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::LazyLock;

use gular_files::{Env, FOR_TOKENS, Given, VARIABLES, mask_panic};

use crate::exit::Failure;
use crate::shared::Output;

/// Formats bytes with a decimal unit: 1.5 GB.
pub(crate) fn size(bytes: u64) -> String {
    gular_files::Size(bytes).to_string()
}

/// `, 0.68 s, 107.2 MB/s`: how long it took, and how fast bytes went, if any did.
pub(crate) fn pace(bytes: u64, seconds: f64) -> String {
    match bytes {
        0 => format!(", {seconds:.2} s"),
        n => format!(", {seconds:.2} s, {}/s", size((n as f64 / seconds.max(1e-9)) as u64)),
    }
}

/// A number with its noun: `1 shard`, `2 shards`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// `text` with its control characters as escapes, lest a name from a file
/// moves the cursor or forges a line. Lines of our own stay.
pub(crate) fn printable(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

/// Does the same as [`printable`] for one name: line ends are escaped, too.
pub(crate) fn plain(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for c in name.chars() {
        match (turns_text(c), c.is_control()) {
            (true, _) => shown.extend(c.escape_unicode()),
            (_, true) => shown.extend(c.escape_debug()),
            (false, false) => shown.push(c),
        }
    }
    shown
}

/// Whether a character changes the direction of what is printed after it.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Formats a path as one word of the shell.
pub(crate) fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@".contains(c);
    let plain = !path.is_empty() && !path.starts_with('-') && path.chars().all(plain);
    if plain { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

/// What looks like a secret in the arguments and in the variables that the program reads.
static GIVEN: LazyLock<Given> = LazyLock::new(|| {
    let env = Env::process();
    let arguments = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned());
    let value = |name| env.get(name).map(str::to_owned);
    let values = VARIABLES.into_iter().filter_map(value);
    Given::new(arguments.chain(values), FOR_TOKENS.into_iter().filter_map(value))
});

/// Why bytes on stdout are shown as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AsIs {
    /// `gular federation token` is there to print a token, for a federation on this machine.
    MadeToken,
    /// The bytes of a sample, which are piped to another program.
    Sample,
    /// A file for another program: a shell's completions, a Dockerfile.
    File,
}

/// Writes bytes to stdout that may hold what looks like a secret.
pub(crate) fn as_is(_: AsIs, bytes: &[u8]) -> Result<(), Failure> {
    stdout(bytes)
}

/// Writes one JSON object to stdout.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| Failure::new(format!("cannot write JSON: {e}"), None))?;
    lines(&format!("{text}\n"))
}

/// A result in the form that was asked for: JSON, else its text.
pub(crate) fn value(value: &serde_json::Value, text: &str, output: &Output) -> Result<(), Failure> {
    if output.json { json(value) } else { self::text(text) }
}

/// Writes one JSON object on one line to stdout, for readers that continue to read.
pub(crate) fn json_line<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|e| Failure::new(format!("cannot write JSON: {e}"), None))?;
    lines(&format!("{text}\n"))
}

/// Whether a person sees what is printed on stdout.
pub(crate) fn is_watched() -> bool {
    io::stdout().is_terminal()
}

/// Writes a text for people to stdout.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    lines(&printable(text))
}

/// Writes lines of data to stdout. Names and URLs in them stay, even if they look like base64 and
/// were given as arguments: scripts use them.
pub(crate) fn lines(text: &str) -> Result<(), Failure> {
    stdout(GIVEN.mask_data(text).as_bytes())
}

/// Bytes on stdout. A reader that went away (`gular … | head`) is not an error,
/// and must not change the verdict that the exit code says.
fn stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Failure::new(format!("cannot write to standard output: {e}"), None)),
        Ok(()) => Ok(()),
    }
}

/// A message on stderr; when nobody reads there, the exit code has to do.
pub(crate) fn message(kind: &str, text: &str) {
    let _ = writeln!(io::stderr().lock(), "{kind}: {}", in_message(&masked(text)));
}

/// Does the same as [`message`] for a text of several lines, in which names are [`plain`].
pub(crate) fn paragraph(kind: &str, text: &str) {
    let _ = writeln!(io::stderr().lock(), "{kind}: {}", printable(&masked(text)));
}

/// Does the same as [`printable`] for a message, which may repeat names. Only lines of our own are
/// indented, so no name can forge a message.
fn in_message(text: &str) -> String {
    text.split("\n  ").map(plain).collect::<Vec<_>>().join("\n  ")
}

/// A message without secrets.
pub(crate) fn masked(text: &str) -> String {
    GIVEN.mask(text).into_owned()
}

/// Prints what clap says: help on stdout, a usage error on stderr, with `hint` in place of clap's
/// advice. An error repeats the values that it is about; changed, or with a secret in it, it has no
/// colours, which could be in the midst of the secret.
pub(crate) fn usage(error: &clap::Error, hint: Option<&str>) {
    /// What clap says at the end of each error.
    const ADVICE: &str = "\nFor more information, try '--help'.\n";
    let text = error.render().to_string();
    let told = text.strip_suffix(ADVICE).zip(hint).map(|(told, hint)| format!("{told}{hint}\n"));
    let shown = masked(told.as_deref().unwrap_or(&text));
    if error.use_stderr() && shown != text {
        let _ = write!(io::stderr().lock(), "{}", printable(&shown));
    } else {
        let _ = error.print();
    }
}

/// Lets panics show no secrets either.
pub(crate) fn mask_panics() {
    std::panic::set_hook(Box::new(|info| {
        let _ = writeln!(io::stderr().lock(), "{}", masked(&mask_panic(info)));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(quoted("/a/b-c.d"), "/a/b-c.d");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
        assert_eq!((quoted("").as_str(), quoted("-f").as_str()), ("''", "'-f'"));
    }

    #[test]
    fn nouns_follow_their_numbers() {
        assert_eq!([0, 1, 2].map(|n| count(n, "shard")).join(", "), "0 shards, 1 shard, 2 shards");
    }

    #[test]
    fn nothing_has_no_speed() {
        assert_eq!(pace(2_000_000, 0.5), ", 0.50 s, 4.0 MB/s");
        assert_eq!(pace(0, 0.5), ", 0.50 s");
    }

    /// A token, put together here, so that no scanner takes this file for a leak.
    fn token() -> String {
        format!("eyJ{}.eyJ{}.c2ln", "hbGciOiJub25lIn0", "pc3MiOiJ4In0")
    }

    #[test]
    fn a_panic_shows_no_token() {
        const INNER: &str = "GULAR_TEST_PANIC";
        if std::env::var_os(INNER).is_some() {
            mask_panics();
            panic!("cannot open `{}`", token());
        }
        // In another process: the hook is that of all threads, and the harness has its own.
        let name = "show::tests::a_panic_shows_no_token";
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        test.args([name, "--exact", "--nocapture"]).env(INNER, "1").env("RUST_BACKTRACE", "1");
        let output = test.output().unwrap();
        let said = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap()).concat();
        assert!(said.contains("cannot open `[a signed token, not shown]`"), "{said}");
        assert!(!said.contains(&token()), "{said}");
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(plain("dög\u{1b}[2J\n"), "dög\\u{1b}[2J\\n");
        assert_eq!(printable("a\tb\nc\r\n"), "a\\tb\nc\\r\n");
        assert_eq!(plain("gpj.\u{202e}cat"), "gpj.\\u{202e}cat");
        let text = "no file `a\nerror: b`\n  also c";
        assert_eq!(in_message(text), "no file `a\\nerror: b`\n  also c");
    }
}
