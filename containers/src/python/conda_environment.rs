//! conda's `environment.yml`, of which the part for `pip` can be used.
//!
//! ```yaml
//! name: train
//! channels: [conda-forge]
//! dependencies:
//!   - python=3.11
//!   - pip
//!   - pip:
//!     - torch==2.5.1
//! ```
//!
//! Format: <https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html>.

use saphyr_parser::{Event, Parser};

use super::wanted::{NeededPython, Place};
use crate::Result;

/// Largest depth of lists and mappings; two are needed.
const MAX_DEPTH: usize = 16;

/// Packages of conda that the image's own Python makes unnecessary.
const OF_PYTHON: [&str; 4] = ["python", "pip", "setuptools", "wheel"];

/// How many of conda's packages an error names.
const SHOWN: usize = 4;

/// The lines for `pip`, each with its number, and the Python that is asked for.
#[derive(Debug, Default)]
pub(super) struct Environment {
    pub(super) lines: Vec<(usize, String)>,
    pub(super) python: Option<NeededPython>,
}

/// Reads a text; `path` names it in errors.
///
/// # Errors
/// [`Error::Recipe`](crate::Error::Recipe) with the line: what is not YAML, and packages that only
/// conda can install, with the commands that make an archive of the environment.
pub(super) fn parse(text: &str, path: &str) -> Result<Environment> {
    let mut found = Environment::default();
    let mut others = Vec::new();
    for (line, entry) in entries(text, path)? {
        let place = || Place { path: path.to_owned(), line };
        match entry {
            Entry::Pip(requirement) => found.lines.push((line, requirement)),
            Entry::Conda(spec) => {
                let (name, versions) = split(&spec);
                if name == "python" {
                    if !versions.is_empty() {
                        let versions = python(versions);
                        found.python = Some(NeededPython::parse(&versions, place())?);
                    }
                } else if !OF_PYTHON.contains(&name) {
                    others.push((line, name.to_owned()));
                }
            }
        }
    }
    let Some((line, _)) = others.first() else { return Ok(found) };
    let names: Vec<String> =
        others.iter().take(SHOWN).map(|(_, name)| format!("`{name}`")).collect();
    let more = match others.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let reason = format!("only conda can install {}{more}", names.join(", "));
    let hint = format!(
        "make an archive of the environment with `conda env create -p ./env -f {path} && conda-pack -p ./env -o env.tar.gz`, and write `archive = \"env.tar.gz\"` in `[conda]` instead; or write the names that these packages have on PyPI in a `requirements.txt`"
    );
    Err(Place { path: path.to_owned(), line: *line }.wrong(reason, Some(hint)))
}

enum Entry {
    Conda(String),
    Pip(String),
}

/// The entries of `dependencies`, with their lines.
fn entries(text: &str, path: &str) -> Result<Vec<(usize, Entry)>> {
    let mut found = Vec::new();
    // The keys of mappings around an event; lists have none.
    let mut around: Vec<Option<String>> = Vec::new();
    // Whether the next scalar of the innermost mapping is a key.
    let mut key_next: Vec<bool> = Vec::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let place = Place { path: path.to_owned(), line: error.marker().line() };
            place.wrong(format!("it is not YAML: {}", error.info()), None)
        })?;
        let place = Place { path: path.to_owned(), line: span.start.line() };
        match event {
            Event::Alias(_) => {
                return Err(
                    place.wrong("it has aliases (`*`), which are not read".to_owned(), None)
                );
            }
            Event::SequenceStart(..) => {
                around.push(None);
                key_next.push(false);
            }
            Event::MappingStart(..) => {
                around.push(Some(String::new()));
                key_next.push(true);
            }
            Event::SequenceEnd | Event::MappingEnd => {
                around.pop();
                key_next.pop();
                value_ends(&around, &mut key_next);
            }
            Event::Scalar(value, ..) => {
                if key_next.last() == Some(&true)
                    && let Some(Some(key)) = around.last_mut()
                {
                    *key = value.into_owned();
                    if let Some(next) = key_next.last_mut() {
                        *next = false;
                    }
                    continue;
                }
                let keys: Vec<Option<&str>> = around.iter().map(Option::as_deref).collect();
                match keys.as_slice() {
                    [Some("dependencies"), None] => {
                        found.push((place.line, Entry::Conda(value.into_owned())));
                    }
                    [Some("dependencies"), None, Some("pip"), None] => {
                        found.push((place.line, Entry::Pip(value.into_owned())));
                    }
                    _ => {}
                }
                value_ends(&around, &mut key_next);
            }
            _ => {}
        }
        if around.len() > MAX_DEPTH {
            return Err(
                place.wrong("its lists and mappings are nested too deeply".to_owned(), None)
            );
        }
    }
    Ok(found)
}

/// In a mapping, a key follows a value.
fn value_ends(around: &[Option<String>], key_next: &mut [bool]) {
    if let (Some(Some(_)), Some(next)) = (around.last(), key_next.last_mut()) {
        *next = true;
    }
}

/// Splits `conda-forge::numpy>=1.20` into the name and its versions.
fn split(spec: &str) -> (&str, &str) {
    let spec = spec.rsplit("::").next().unwrap_or(spec).trim();
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let end = spec.find(|c: char| !good(c)).unwrap_or(spec.len());
    let (name, versions) = spec.split_at(end);
    (name, versions.split('[').next().unwrap_or(versions).trim())
}

/// conda's versions of Python as PEP 440 writes them: `=3.9` and `3.9.*` mean any 3.9.
///
/// <https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html>.
fn python(versions: &str) -> String {
    let one = |clause: &str| {
        let clause = clause.trim();
        let exact = clause.strip_prefix("==");
        let number = exact.unwrap_or(clause).trim_start_matches('=').trim();
        // The build may follow: `=3.9.7=h12debd9_1`.
        let number = number.split(['=', ' ']).next().unwrap_or(number).trim_end_matches(".*");
        match number.starts_with(|c: char| c.is_ascii_digit()) {
            // A newer patch serves as well: Debian has one of each release.
            true => format!("=={}.*", number.split('.').take(2).collect::<Vec<_>>().join(".")),
            false => clause.to_owned(),
        }
    };
    versions.split(',').map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_for_pip_is_read_with_its_lines() {
        let text = "name: x\nchannels:\n  - conda-forge\n  - pip: [no]\nvariables:\n  A: b\ndependencies:\n  - conda-forge::python=3.9.7=h12debd9_1\n  - pip\n  - pip:\n      - torch==2.5.1\n      - -r more.txt\nprefix: /home/x\n";
        let read = parse(text, "environment.yml").unwrap();
        assert_eq!(read.lines, [(11, "torch==2.5.1".to_owned()), (12, "-r more.txt".to_owned())]);
        let python = read.python.unwrap();
        assert_eq!((python.versions.to_string().as_str(), python.from.line), ("==3.9.*", 8));
        let json =
            "{\"name\": \"x\", \"dependencies\": [\"python>=3.9,<3.13\", {\"pip\": [\"a\"]}]}";
        let read = parse(json, "e.json").unwrap();
        assert_eq!(read.lines, [(1, "a".to_owned())]);
        assert_eq!(read.python.unwrap().versions.to_string(), ">=3.9, <3.13");
    }

    #[test]
    fn what_only_conda_can_install_is_said_with_the_commands() {
        let text = "dependencies:\n- python=3.11\n- numpy\n- pytorch::pytorch=2.1\n- gdal>=3\n- a\n- b\n- pip:\n  - c\n";
        let error = parse(text, "environment.yml").unwrap_err();
        let says = "`environment.yml` line 3: only conda can install `numpy`, `pytorch`, `gdal`, `a` and 1 more";
        assert_eq!(error.to_string(), says);
        let hint = error.hint().unwrap();
        assert!(
            hint.contains("conda env create -p ./env -f environment.yml && conda-pack"),
            "{hint}"
        );
    }

    #[test]
    fn damaged_texts_are_refused_and_never_panic() {
        let text = "dependencies:\n- &a python=3.11\n- pip:\n  - b\n- {x: [y, {z: 1}]}\n";
        for (at, _) in text.char_indices() {
            let _ = parse(&text[..at], "cut");
        }
        for bad in ["dependencies: *a\n", "a: [\n", &"[".repeat(100_000), &"- ".repeat(100_000)] {
            assert!(parse(bad, "bad").is_err(), "{}", &bad[..bad.len().min(20)]);
        }
    }
}
