//! `requirements.txt` with versions and hashes, as `pip` and `uv` write and read it.

use super::pinned::{Listed, Pinned, Pins, Wheels};
use crate::package::{file_name, names_a_user};
use crate::wheel::{Marker, Requirement, normal};
use crate::{Error, Result, Sha256};

/// Options without a meaning here: hashes are needed and wheels taken in any case.
const WITHOUT_MEANING: [&str; 5] =
    ["--require-hashes", "--only-binary", "--prefer-binary", "--pre", "--trusted-host"];

/// The requirements in a file.
#[derive(Debug)]
pub(super) enum Requirements {
    /// Each requirement has one version, and hashes.
    Pinned(Pins),
    /// Some requirement lacks a version or hashes; this is the first one.
    Unpinned { line: usize, what: String },
}

/// Reads a text; `path` names it in errors.
///
/// # Errors
/// [`Error::Recipe`] with the line, for what is not a requirement of a wheel.
pub(super) fn parse(text: &str, path: &str) -> Result<Requirements> {
    let mut pins = Pins::default();
    let mut unpinned = None;
    for (line, words) in lines(text) {
        let wrong = |reason: String, hint: Option<&str>| Error::Recipe {
            path: path.to_owned(),
            line,
            reason,
            hint: hint.map(str::to_owned),
        };
        // A line without an address may begin with `NAME @`.
        if words.contains("://") && names_a_user(&words) {
            let reason = "its URL has a user name or password before the host, and `image.lock` would reveal it";
            let hint = "download the wheel, and give its file in `wheels` of `[python]`";
            return Err(wrong(reason.to_owned(), Some(hint)));
        }
        if words.starts_with('-') {
            match option(&words) {
                Some(Choice::Index(url)) => pins.index = Some(url),
                Some(Choice::Extra(url)) => pins.extra_indexes.push(url),
                Some(Choice::Nothing) => {}
                None => {
                    let reason = format!("`{words}` cannot be used in an image's requirements");
                    let hint = "write the versions of all packages with `uv pip compile`; give your own wheels in `wheels` of `[python]`";
                    return Err(wrong(reason, Some(hint)));
                }
            }
            continue;
        }
        let (what, options) = words.split_once(" --").unwrap_or((words.as_str(), ""));
        let hashes = hashes(options).map_err(|reason| wrong(reason, None))?;
        let from = format!("`{path}` line {line}");
        let what = what.trim();
        let one = match what.split_once('@') {
            Some((name, address)) => at_address(name, address, hashes, from),
            None => of_index(what, hashes, from),
        };
        match one {
            One::Pinned(pinned) => pins.pinned.push(pinned),
            One::Unpinned => {
                unpinned.get_or_insert((line, what.to_owned()));
            }
            One::Wrong(reason) => return Err(wrong(reason, None)),
        }
    }
    Ok(match unpinned {
        Some((line, what)) => Requirements::Unpinned { line, what },
        None => Requirements::Pinned(pins),
    })
}

enum One {
    Pinned(Pinned),
    Unpinned,
    Wrong(String),
}

/// Reads a requirement such as `numpy==1.26.4; python_version >= "3.9"`.
fn of_index(what: &str, hashes: Vec<Sha256>, from: String) -> One {
    let Some(requirement) = Requirement::parse(what) else {
        return One::Wrong(format!("`{what}` is not a requirement"));
    };
    let Some(version) = requirement.versions.only().filter(|_| !hashes.is_empty()) else {
        return One::Unpinned;
    };
    let Requirement { name, marker, .. } = requirement;
    One::Pinned(Pinned { name, version, marker, wheels: Wheels::OfIndex(hashes), from })
}

/// `name @ https://files.example/name-1.0-py3-none-any.whl ; marker`.
fn at_address(name: &str, address: &str, mut hashes: Vec<Sha256>, from: String) -> One {
    // A `;` may be part of an address, one after a space is not.
    let (url, marker) = match address.split_once(" ;") {
        Some((url, text)) => match Marker::parse(text) {
            Some(marker) => (url.trim(), Some(marker)),
            None => return One::Wrong(format!("`{}` is not a marker", text.trim())),
        },
        None => (address.trim(), None),
    };
    let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
    if names_a_user(url) {
        return One::Wrong("its URL has a user name or password before the host".to_owned());
    }
    let inside = fragment.split('&').find_map(|part| part.strip_prefix("sha256="));
    hashes.extend(inside.and_then(|text| text.parse::<Sha256>().ok()));
    let file = file_name(url).unwrap_or_default();
    let Some(wheel) = super::tags::WheelName::parse(&file) else {
        return One::Wrong(format!("`{url}` is not the URL of a wheel"));
    };
    let Some(sha256) = hashes.first().copied() else { return One::Unpinned };
    let name = normal(name.split_once('[').map_or(name, |(name, _)| name));
    let listed = Listed { file, url: url.to_owned(), sha256, bytes: None };
    let wheels = Wheels::Listed(vec![listed]);
    One::Pinned(Pinned { name, version: wheel.version, marker, wheels, from })
}

/// What a line with an option chooses.
enum Choice {
    Index(String),
    Extra(String),
    Nothing,
}

/// Reads an option; `None` for one that is not supported.
fn option(words: &str) -> Option<Choice> {
    let (name, value) = words.split_once(['=', ' ']).unwrap_or((words, ""));
    let url = Some(value.trim().trim_end_matches('/')).filter(|url| !url.is_empty());
    match name {
        "-i" | "--index-url" => url.map(|url| Choice::Index(url.to_owned())),
        "--extra-index-url" => url.map(|url| Choice::Extra(url.to_owned())),
        _ => WITHOUT_MEANING.contains(&name).then_some(Choice::Nothing),
    }
}

/// Reads the hashes in `hash=sha256:… --hash=sha256:…`.
fn hashes(options: &str) -> Result<Vec<Sha256>, String> {
    let mut hashes = Vec::new();
    for option in options.split(" --").map(str::trim).filter(|option| !option.is_empty()) {
        let value = option.trim_start_matches("--").strip_prefix("hash");
        let Some(value) = value.map(|value| value.trim_start_matches(['=', ' '])) else {
            return Err(format!(
                "the option `--{option}` cannot be used in an image's requirements"
            ));
        };
        // Others may stand beside it: of sha512 nothing is known here.
        if let Some(digits) = value.strip_prefix("sha256:") {
            hashes.push(digits.parse::<Sha256>().map_err(|error| error.to_string())?);
        }
    }
    Ok(hashes)
}

/// Lines with their numbers, without comments, those that end in `\` joined.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = match line.trim_start().starts_with('#') {
            true => "",
            false => line.split(" #").next().unwrap_or_default().trim(),
        };
        let (line, more) = match line.strip_suffix('\\') {
            Some(line) => (line.trim_end(), true),
            None => (line, false),
        };
        match found.last_mut().filter(|_| open) {
            Some((_, before)) => {
                before.push(' ');
                before.push_str(line);
            }
            None => found.push((number, line.to_owned())),
        }
        open = more;
    }
    found.retain(|(_, line)| !line.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn pins(text: &str) -> Pins {
        match parse(text, "requirements.txt").unwrap() {
            Requirements::Pinned(pins) => pins,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_uv_and_pip_write_is_read() {
        let text = format!(
            "# uv pip compile\n--index-url https://index.example/simple/\n--extra-index-url=https://other.example\n--only-binary :all:\n\nNumPy==1.26.4 ; python_version < \"4\" \\\n    --hash=sha256:{A} \\\n    --hash=sha512:00\n    # via pandas\nmine @ https://files.example/a%2B1/mine-1.5+cpu-py3-none-any.whl#sha256={A} ; os_name == 'posix'\n"
        );
        let read = pins(&text);
        assert_eq!(read.index.as_deref(), Some("https://index.example/simple"));
        assert_eq!(read.extra_indexes, ["https://other.example"]);
        let [numpy, mine] = read.pinned.as_slice() else { panic!("{read:?}") };
        assert_eq!((numpy.name.as_str(), numpy.version.to_string().as_str()), ("numpy", "1.26.4"));
        assert_eq!(numpy.wheels, Wheels::OfIndex(vec![A.parse().unwrap()]));
        assert!(numpy.marker.is_some() && numpy.from == "`requirements.txt` line 6");
        assert_eq!((mine.name.as_str(), mine.version.to_string().as_str()), ("mine", "1.5+cpu"));
        let Wheels::Listed(listed) = &mine.wheels else { panic!("{mine:?}") };
        assert_eq!(listed[0].url, "https://files.example/a%2B1/mine-1.5+cpu-py3-none-any.whl");
    }

    #[test]
    fn what_has_no_version_or_hash_is_named() {
        for (text, line, what) in [
            ("numpy\n".to_owned(), 1, "numpy"),
            (format!("\na==1 --hash=sha256:{A}\nb>=1,<2\nc"), 3, "b>=1,<2"),
            ("a==1.*".to_owned(), 1, "a==1.*"),
            ("a==1".to_owned(), 1, "a==1"),
            (
                "a @ https://x.example/a-1-py3-none-any.whl".to_owned(),
                1,
                "a @ https://x.example/a-1-py3-none-any.whl",
            ),
        ] {
            match parse(&text, "r.txt").unwrap() {
                Requirements::Unpinned { line: found, what: said } => {
                    assert_eq!((found, said.as_str()), (line, what), "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn passwords_in_addresses_are_refused_and_not_shown() {
        for text in [
            "--index-url https://me:secret@index.example/simple",
            "--find-links https://me:secret@index.example/simple",
            "a @ https://me:secret@x.example/a-1-py3-none-any.whl",
            "a @ git+https://secret@x.example/a",
            "a @ me:secret@x.example/a-1-py3-none-any.whl",
            "a b https://me:secret@x.example/c",
        ] {
            let error = parse(&format!("{text} --hash=sha256:{A}\n"), "r.txt").unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("secret") && shown.contains("password"), "{shown}");
        }
    }

    #[test]
    fn what_is_not_a_requirement_is_an_error_with_its_line() {
        for (text, says) in [
            ("-r other.txt", "`-r other.txt` cannot be used"),
            ("-e .", "`-e .` cannot be used"),
            ("a b c", "`a b c` is not a requirement"),
            ("a==1 --hash=sha256:12", "`12` is not a SHA-256"),
            ("a==1 --global-option=x", "`--global-option=x` cannot be used"),
            ("a @ git+https://x.example/a", "is not the URL of a wheel"),
            ("a @ https://x/a-1-py3-none-any.whl ; nonsense", "`nonsense` is not a marker"),
        ] {
            let error = parse(&format!("\n{text}\n"), "r.txt").unwrap_err().to_string();
            assert!(error.starts_with("`r.txt` line 2: ") && error.contains(says), "{error}");
        }
    }

    #[test]
    fn cut_texts_never_panic() {
        let text = format!(
            "--index-url https://x é\\\na[b]==1;os_name=='é' \\\n --hash=sha256:{A} #\nm @ https://x/m-1-py3-none-any.whl#sha256={A} ; a\\"
        );
        for (at, _) in text.char_indices() {
            let _ = parse(&text[..at], "cut");
        }
    }
}
