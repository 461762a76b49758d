//! Requirements without versions or digests: `uv` finds them.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::NamedTempFile;

use super::wanted::{Ask, Indexes, Wanted, file_url};
use super::{Interpreter, bases};
use crate::package_sources::Sources;
use crate::wheel::{machine, normal};
use crate::{Error, Result};

/// A wheel on this machine that is taken for its name, whatever asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnWheel {
    pub(super) name: String,
    /// Its path from the recipe's folder.
    pub(super) path: String,
}

/// A question to `uv`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) wanted: &'a Wanted,
    pub(super) wheels: &'a [OwnWheel],
    /// The recipe's folder.
    pub(super) dir: &'a Path,
    /// The file that asks, for errors.
    pub(super) path: &'a str,
    /// Whether packages without a wheel are built from their sources.
    pub(super) build: bool,
}

/// A text of uv's errors, and what helps then.
struct Saying {
    text: &'static str,
    hint: &'static str,
    /// Whether another Python may help too.
    of_python: bool,
}

const SOURCES: &str = "a package has no wheel for this Python: set `build = true` in `[python]`, which builds it on this machine from its sources; or build its wheel yourself, and give the file in `wheels`";
const NETWORK: &str =
    "check the network and the address of the index; behind a firewall set HTTPS_PROXY";

/// Source: the messages of uv 0.13 itself.
const SAYINGS: [Saying; 6] = [
    Saying {
        text: "unexpected argument '--format'",
        hint: "this `uv` is too old: install a newer one with `pip install --upgrade uv`",
        of_python: false,
    },
    Saying { text: "error sending request", hint: NETWORK, of_python: false },
    Saying {
        text: "Git operation failed",
        hint: "check the network and the repository's address; or build its wheel where the repository is, and give the file in `wheels`",
        of_python: false,
    },
    Saying {
        text: "we only found wheels",
        hint: "use versions that have wheels for the image's Python",
        of_python: true,
    },
    Saying { text: "building from source is disabled", hint: SOURCES, of_python: true },
    Saying { text: "no usable wheels", hint: SOURCES, of_python: true },
];

/// Asks `uv` for versions, and returns its answer: a `pylock.toml`.
///
/// # Errors
/// [`Error::Requirements`] with what uv says, and the base with whose Python it finds versions.
pub(super) fn ask(
    question: &Question<'_>,
    sources: &Sources,
    interpreter: &Interpreter,
) -> Result<String> {
    let path = question.path;
    let failed = |reason: String, hint: Option<String>| Error::Requirements {
        path: path.to_owned(),
        reason,
        hint,
    };
    let Some(uv) = &sources.uv else {
        let hint = "install uv with `pip install uv`, and run the same command again: it finds versions and digests";
        let reason = |what: String| format!("{what} no exact version with a SHA-256");
        return Err(match question.wanted.asks.iter().find(|ask| !ask.is_pinned()) {
            Some(ask) => {
                ask.from.wrong(reason(format!("`{}` has", ask.shown())), Some(hint.to_owned()))
            }
            None => failed(reason("its packages have".to_owned()), Some(hint.to_owned())),
        });
    };
    let mut answer = run(uv, question, &sources.index, interpreter, false)?;
    if question.build && matches!(answer, Answer::Refusal(_)) {
        answer = run(uv, question, &sources.index, interpreter, true)?;
    }
    let said = match answer {
        Answer::Versions(text) if text.trim().is_empty() => {
            return Err(failed("uv's answer is empty".to_owned(), None));
        }
        Answer::Versions(text) => return Ok(text),
        Answer::Refusal(said) => said,
    };
    let hint = hint(uv, question, &sources.index, interpreter, &said)?;
    let reason = format!("uv cannot choose versions: {}", cause(&said));
    Err(failed(reason, hint))
}

/// What uv says without its own hints, which name options of its own.
fn cause(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !(line.starts_with("hint:") && line.contains("`--")));
    let lines = lines.map(|line| {
        line.trim_start_matches(['×', '╰', '─', '▶', '├', '│', ' '])
            .trim_start_matches("error: ")
            .trim_start_matches("cause: ")
    });
    let general = "No solution found when resolving dependencies:";
    let lines = lines.filter(|line| line.trim_end_matches(':') != general.trim_end_matches(':'));
    lines.collect::<Vec<_>>().join(" ")
}

/// What helps after uv's refusal.
fn hint(
    uv: &Path,
    question: &Question<'_>,
    index: &str,
    interpreter: &Interpreter,
    said: &str,
) -> Result<Option<String>> {
    if let Some(local) = question.wanted.asks.iter().find_map(build_of_torch) {
        let Indexes { index, extra, links, .. } = &question.wanted.indexes;
        let none = index.is_none() && extra.is_empty() && links.is_empty();
        if none && said.contains(&local) {
            // <https://pytorch.org/get-started/previous-versions/>.
            return Ok(Some(format!(
                "builds of PyTorch such as `+{local}` are in an index of its own: add the line `--extra-index-url https://download.pytorch.org/whl/{local}`"
            )));
        }
    }
    let saying = SAYINGS.iter().find(|saying| said.contains(saying.text));
    // Another Python may have wheels of these versions.
    if saying.is_none_or(|saying| saying.of_python) {
        for (base, other) in bases::others(interpreter) {
            if matches!(run(uv, question, index, &other, false)?, Answer::Versions(_)) {
                return Ok(Some(bases::choose(base)));
            }
        }
    }
    Ok(saying.map(|saying| saying.hint.to_owned()))
}

/// The build of torch that a requirement names.
fn build_of_torch(ask: &Ask) -> Option<String> {
    let of_torch = ["torch", "torchvision", "torchaudio"];
    ask.name.as_deref().filter(|name| of_torch.contains(name))?;
    ask.local_version()
}

/// What uv answers.
enum Answer {
    /// A `pylock.toml`.
    Versions(String),
    /// Its errors.
    Refusal(String),
}

/// Runs uv.
fn run(
    uv: &Path,
    question: &Question<'_>,
    index: &str,
    interpreter: &Interpreter,
    sources: bool,
) -> Result<Answer> {
    let Question { wanted, dir, path, .. } = question;
    let failed =
        |reason: String| Error::Requirements { path: (*path).to_owned(), reason, hint: None };
    let base = std::path::absolute(dir).map_err(Error::io("read", dir))?;
    let base = base.display().to_string();
    let constraints: String =
        wanted.constraints.iter().map(|ask| format!("{}\n", ask.text(&base))).collect();
    let mut file =
        NamedTempFile::new().map_err(Error::io("create", Path::new("a temporary file")))?;
    file.write_all(constraints.as_bytes()).map_err(Error::io("write", file.path()))?;
    let mut command = Command::new(uv);
    command.args(words(interpreter, sources)).arg("--constraints").arg(file.path());
    let there = versions_there(interpreter, dir)?;
    if let Some(there) = &there {
        let path = std::path::absolute(there.path()).map_err(Error::io("find", there.path()))?;
        command.arg("--output-file").arg(path);
    }
    command.args(index_words(&wanted.indexes, index, Path::new(&base)));
    if wanted.prereleases {
        command.args(["--prerelease", "allow"]);
    }
    command.current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let cannot = |e: std::io::Error| failed(format!("`{}` cannot be started: {e}", uv.display()));
    let mut child = command.spawn().map_err(cannot)?;
    let asked = requirements(wanted, question.wheels, &base);
    // A child that ends early closes its input; its exit status says why.
    let _ = child.stdin.take().map(|mut input| input.write_all(asked.as_bytes()));
    let answer = child.wait_with_output().map_err(cannot)?;
    if !answer.status.success() {
        return Ok(Answer::Refusal(String::from_utf8_lossy(&answer.stderr).trim().to_owned()));
    }
    if let Some(there) = there {
        let text = std::fs::read_to_string(&there).map_err(Error::io("read", there.path()));
        return text.map(Answer::Versions);
    }
    match String::from_utf8(answer.stdout) {
        Ok(text) => Ok(Answer::Versions(text)),
        Err(_) => Err(failed("uv's answer is not UTF-8".to_owned())),
    }
}

/// A `pylock.toml` with the versions that a base image has, as uv's output: it keeps what is in its
/// output file where that fits. Paths in uv's answer are relative to this file.
fn versions_there(interpreter: &Interpreter, dir: &Path) -> Result<Option<NamedTempFile>> {
    if interpreter.installed.is_empty() {
        return Ok(None);
    }
    let file = tempfile::Builder::new().prefix("pylock.gular-").suffix(".toml").tempfile_in(dir);
    let file = file.map_err(Error::io("create", dir))?;
    let mut text = "lock-version = \"1.0\"\ncreated-by = \"gular\"\n".to_owned();
    for (name, version) in &interpreter.installed {
        // Builds such as `+cu121` may be in no index.
        let version = version.clone().without_local();
        text.push_str(&format!("\n[[packages]]\nname = \"{name}\"\nversion = \"{version}\"\n"));
    }
    std::fs::write(file.path(), text).map_err(Error::io("write", file.path()))?;
    Ok(Some(file))
}

/// Words that name where packages are looked up; `usual` is asked if no other index is named, and
/// `base` is the absolute path of the recipe's folder.
pub(super) fn index_words(indexes: &Indexes, usual: &str, base: &Path) -> Vec<String> {
    let Indexes { index, extra, links, none } = indexes;
    let default = index.as_deref().or((!none).then_some(usual));
    let link = |link: &String| match link.contains("://") {
        true => link.clone(),
        false => base.join(link).display().to_string(),
    };
    let named = default.map(|url| ("--default-index", url.to_owned())).into_iter();
    let named = named.chain(extra.iter().map(|url| ("--index", url.clone())));
    // As pip does: the best version of all indexes, not those of the first that has any.
    let best = ("--index-strategy", "unsafe-best-match".to_owned());
    let named = named.chain((!extra.is_empty()).then_some(best));
    let named = named.chain(links.iter().map(|place| ("--find-links", link(place))));
    let mut words: Vec<String> =
        named.flat_map(|(option, value)| [option.to_owned(), value]).collect();
    words.extend(none.then(|| "--no-index".to_owned()));
    words
}

/// The requirements as uv reads them: own wheels by their files, so that what they need is found
/// too.
fn requirements(wanted: &Wanted, wheels: &[OwnWheel], base: &str) -> String {
    let mut text = String::new();
    let is_own = |ask: &&Ask| {
        wheels
            .iter()
            .any(|wheel| ask.name.as_deref().is_some_and(|name| normal(name) == wheel.name))
    };
    for ask in wanted.asks.iter().filter(|ask| !is_own(ask)) {
        text.push_str(&format!("{}\n", ask.text(base)));
    }
    for wheel in wheels {
        let mut extras: Vec<&str> = Vec::new();
        let own = wanted.asks.iter().filter(|ask| ask.name.as_ref() == Some(&wheel.name));
        extras.extend(own.flat_map(|ask| &ask.extras).map(String::as_str));
        let extras = match extras.is_empty() {
            true => String::new(),
            false => format!("[{}]", extras.join(",")),
        };
        text.push_str(&format!("{}{extras} @ {}\n", wheel.name, file_url(base, &wheel.path)));
    }
    text
}

/// The words of the command; requirements come from its standard input.
fn words(interpreter: &Interpreter, sources: bool) -> Vec<String> {
    let platform = platform(interpreter);
    let mut words = vec![
        "pip",
        "compile",
        "-",
        "--format",
        "pylock.toml",
        "--python-version",
        &interpreter.version,
        "--python-platform",
        &platform,
        "--quiet",
        "--no-header",
    ];
    if !sources {
        words.extend(["--only-binary", ":all:"]);
    }
    words.into_iter().map(str::to_owned).collect()
}

/// The newest that uv knows of those that the C library serves.
fn platform(interpreter: &Interpreter) -> String {
    // The versions that `uv pip compile --help` lists.
    let known = [40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 28];
    let (major, minor) = interpreter.glibc;
    let serves = |number: &&u32| major > 2 || **number <= minor;
    let number = known.iter().find(serves).unwrap_or(&28);
    format!("{}-manylinux_2_{number}", machine(interpreter.arch))
}
