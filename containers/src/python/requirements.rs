//! `requirements.txt`, as `pip` and `uv` read and write it.
//!
//! Format: <https://pip.pypa.io/en/stable/reference/requirements-file-format/>.

use std::path::{Component, Path, PathBuf};

use super::tags::WheelName;
use super::wanted::{Ask, Indexes, Place, Target};
use crate::package::{file_name, names_a_user};
use crate::wheel::{Marker, Requirement, normal};
use crate::{Result, Sha256};

/// Options without a meaning here: wheels are taken, and their digests kept, in any case.
const WITHOUT_MEANING: [&str; 6] = [
    "--require-hashes",
    "--only-binary",
    "--prefer-binary",
    "--trusted-host",
    "--use-feature",
    "--progress-bar",
];

/// The ends of archives with sources that `pip` takes.
const ARCHIVES: [&str; 6] = [".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar", ".zip"];

/// One line of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Ask(Ask),
    /// Another file, by its path from the recipe's folder; its lines are constraints or not.
    Include {
        path: String,
        constraints: bool,
        from: Place,
    },
    Index(String),
    ExtraIndex(String),
    Links(String),
    NoIndex,
    Prereleases,
    Nothing,
}

impl Line {
    /// The same line of another place.
    pub(super) fn moved(self, to: &Place) -> Self {
        match self {
            Self::Ask(ask) => Self::Ask(Ask { from: to.clone(), ..ask }),
            Self::Include { path, constraints, .. } => {
                Self::Include { path, constraints, from: to.clone() }
            }
            other => other,
        }
    }

    /// Adds what a line says about indexes.
    pub(super) fn add_to(self, indexes: &mut Indexes) {
        match self {
            Self::Index(url) => indexes.index = Some(url),
            Self::ExtraIndex(url) => indexes.extra.push(url),
            Self::Links(place) => indexes.links.push(place),
            Self::NoIndex => indexes.none = true,
            _ => {}
        }
    }
}

/// Reads a text; `path` is that of its file from the recipe's folder. Paths in it start from the
/// file's folder.
///
/// # Errors
/// [`Error::Recipe`](crate::Error::Recipe) with the line, for what cannot be used.
pub(super) fn parse(text: &str, path: &str) -> Result<Vec<Line>> {
    let folder = Path::new(path).parent().unwrap_or(Path::new("")).to_owned();
    lines(text)
        .into_iter()
        .map(|(line, words)| read(&words, &folder, &Place { path: path.to_owned(), line }))
        .collect()
}

/// Reads one requirement, such as `numpy>=1.24 ; python_version < "3.12"`.
///
/// # Errors
/// Those of [`parse`].
pub(super) fn ask(text: &str, folder: &Path, from: &Place) -> Result<Ask> {
    match read(text, folder, from)? {
        Line::Ask(ask) => Ok(ask),
        _ => Err(from.wrong(format!("`{text}` is not a requirement"), None)),
    }
}

fn read(words: &str, folder: &Path, from: &Place) -> Result<Line> {
    // A line without an address may begin with `NAME @`.
    if words.contains("://") && names_a_user(words) || words.contains("git+ssh:") {
        let reason =
            "its URL has a user name or password before the host, and `image.lock` would reveal it";
        let hint = match words.contains("git+") {
            true => {
                "if the repository is public, write `git+https://HOST/…` without a user; else build its wheel with `pip wheel --no-deps`, and give the file in `wheels` of `[python]`"
            }
            false => "download the wheel, and give its file in `wheels` of `[python]`",
        };
        return Err(from.wrong(reason.to_owned(), Some(hint.to_owned())));
    }
    if words.contains("${") {
        let reason = format!("`{words}` depends on a variable of this machine's environment");
        return Err(from.wrong(reason, Some("write its value".to_owned())));
    }
    if words.starts_with('-') {
        return option(words, folder, from);
    }
    let (what, options) = split_options(words);
    let hashes = hashes(options, from)?;
    requirement(what, hashes, folder, from).map(Line::Ask)
}

/// Reads an option.
fn option(words: &str, folder: &Path, from: &Place) -> Result<Line> {
    let (name, value) = match words.starts_with("--") {
        true => words.split_once(['=', ' ']).unwrap_or((words, "")),
        // The value of a short option may follow at once: `-rother.txt`.
        false => words.split_at(words.char_indices().nth(2).map_or(words.len(), |(at, _)| at)),
    };
    let value = value.trim_start_matches(['=', ' ', '\t']).trim().trim_matches(['"', '\'']);
    let url = || value.trim_end_matches('/').to_owned();
    if value.is_empty() && matches!(name, "-r" | "-c" | "-e" | "-i" | "-f") {
        return Err(from.wrong(format!("`{name}` has no value"), None));
    }
    Ok(match name {
        "-r" | "--requirement" | "-c" | "--constraint" => {
            if value.contains("://") {
                let reason =
                    format!("`{words}` names a file on a server, whose contents may change");
                let hint = "download it, and give its path";
                return Err(from.wrong(reason, Some(hint.to_owned())));
            }
            let constraints = matches!(name, "-c" | "--constraint");
            Line::Include { path: below(folder, value), constraints, from: from.clone() }
        }
        "-i" | "--index-url" => Line::Index(url()),
        "--extra-index-url" => Line::ExtraIndex(url()),
        "-f" | "--find-links" => match value.contains("://") {
            true => Line::Links(value.to_owned()),
            false => Line::Links(below(folder, value)),
        },
        "--no-index" => Line::NoIndex,
        "--pre" => Line::Prereleases,
        "-e" | "--editable" => {
            let (what, _) = split_options(value);
            Line::Ask(requirement(what, Vec::new(), folder, from)?)
        }
        "--no-binary" => {
            let reason = format!(
                "`{words}` asks for packages that are compiled while they are installed, and an image takes wheels"
            );
            let hint =
                "remove this line; if a package has no wheel, set `build = true` in `[python]`";
            return Err(from.wrong(reason, Some(hint.to_owned())));
        }
        name if WITHOUT_MEANING.contains(&name) => Line::Nothing,
        _ => {
            let reason = format!("`{words}` cannot be used in an image's requirements");
            return Err(from.wrong(reason, Some("remove this line".to_owned())));
        }
    })
}

/// Reads a requirement without its options.
fn requirement(what: &str, hashes: Vec<Sha256>, folder: &Path, from: &Place) -> Result<Ask> {
    let (subject, marker) = split_marker(what);
    let marker = match marker.map(|text| (Marker::parse(text), text)) {
        Some((Some(marker), text)) => Some((marker, text.trim().to_owned())),
        Some((None, text)) => {
            let reason = format!("`{}` is not a marker", text.trim());
            return Err(from.wrong(reason, None));
        }
        None => None,
    };
    let named = subject.split_once('@').and_then(|(name, address)| {
        let (name, extras) = name_and_extras(name)?;
        Some((Some(name), extras, address.trim()))
    });
    let (name, extras, address) = match named {
        Some(named) => named,
        None if is_address(subject) => {
            let extras = subject.strip_suffix(']').and_then(|text| text.rsplit_once('['));
            let (address, extras) = extras.unwrap_or((subject, ""));
            let extras = extras.split(',').map(normal).filter(|extra| !extra.is_empty());
            (None, extras.collect(), address)
        }
        None => return of_index(subject, marker, hashes, from),
    };
    let (name_inside, target) = target(address, hashes, folder, from)?;
    Ok(Ask { name: name.or(name_inside), extras, marker, target, from: from.clone() })
}

/// Reads a requirement such as `numpy[x]>=1.24`.
fn of_index(
    what: &str,
    marker: Option<(Marker, String)>,
    hashes: Vec<Sha256>,
    from: &Place,
) -> Result<Ask> {
    let Some(requirement) = Requirement::parse(what) else {
        let single = what.split_once('=').filter(|(name, version)| {
            let name = name.trim_end_matches(' ');
            name_and_extras(name).is_some() && version.starts_with(|c: char| c.is_ascii_digit())
        });
        let hint = match single {
            Some((name, version)) => {
                format!("write `{}=={}`", name.trim(), version.split('=').next().unwrap_or(version))
            }
            // pip took these before version 24.1.
            None if what.ends_with(".*") => {
                format!("write `{}`", what.trim_end_matches(".*"))
            }
            None => "expected a package such as `numpy==1.26.4` or `numpy>=1.24,<2`".to_owned(),
        };
        return Err(from.wrong(format!("`{what}` is not a requirement"), Some(hint)));
    };
    let Requirement { name, extras, versions, .. } = requirement;
    let target = Target::Index { versions, hashes };
    Ok(Ask { name: Some(name), extras, marker, target, from: from.clone() })
}

/// What an address means, and the package's name as far as the address has it.
fn target(
    address: &str,
    mut hashes: Vec<Sha256>,
    folder: &Path,
    from: &Place,
) -> Result<(Option<String>, Target)> {
    let (url, fragment) = address.split_once('#').unwrap_or((address, ""));
    let part = |name: &str| fragment.split('&').find_map(|part| part.strip_prefix(name));
    let egg = part("egg=").and_then(name_and_extras).map(|(name, _)| name);
    hashes.extend(part("sha256=").and_then(|text| text.parse::<Sha256>().ok()));
    let unusable = |reason: String, hint: &str| Err(from.wrong(reason, Some(hint.to_owned())));
    if let Some((kind, _)) = url
        .split_once('+')
        .filter(|(kind, _)| kind.len() <= 3 && kind.bytes().all(|b| b.is_ascii_lowercase()))
    {
        if kind != "git" {
            return unusable(
                format!("`{address}` is in a repository of `{kind}`, and only `git` is known here"),
                "build its wheel with `pip wheel --no-deps`, and give the file in `wheels` of `[python]`",
            );
        }
        // The name is written before the address; what is left is where in the repository it is.
        let text = match part("subdirectory=") {
            Some(inside) => format!("{url}#subdirectory={inside}"),
            None => url.to_owned(),
        };
        return Ok((egg, Target::Remote(text)));
    }
    let local = match url.strip_prefix("file:") {
        Some(rest) => Some(
            crate::package::percent_decoded(rest.strip_prefix("//").unwrap_or(rest))
                .unwrap_or_default(),
        ),
        None if url.contains("://") => None,
        None => Some(below(folder, url)),
    };
    let file = file_name(url).unwrap_or_default();
    let wheel = WheelName::parse(&file).map(|wheel| wheel.name);
    if let Some(path) = local {
        if path.contains("/feedstock_root/")
            || path.contains("/croot/")
            || path.contains("/conda-bld/")
            || path.contains("/tmp/build/")
        {
            return unusable(
                format!(
                    "`{address}` is a folder of the machine that built a conda package, as `pip freeze` writes it in a conda environment"
                ),
                "write the file again in that environment with `pip list --format=freeze`, which gives versions instead of folders",
            );
        }
        return Ok(match file.ends_with(".whl") {
            true => (wheel, Target::Here(path)),
            false => (egg, Target::Folder(path)),
        });
    }
    if wheel.is_some() {
        let sha256 = hashes.first().copied();
        return Ok((wheel, Target::Wheel { url: url.to_owned(), sha256 }));
    }
    if ARCHIVES.iter().any(|end| file.ends_with(end)) {
        return Ok((egg, Target::Remote(address.to_owned())));
    }
    unusable(
        format!("`{address}` is neither the URL of a wheel nor that of sources"),
        "expected a URL that ends in `.whl`, `.tar.gz` or `.zip`, or `git+https://…`",
    )
}

/// Whether a text is an address or a path rather than a name.
fn is_address(text: &str) -> bool {
    let text = text.split('#').next().unwrap_or(text);
    text.contains("://")
        || text.starts_with(['.', '/'])
        || text.ends_with(".whl")
        || ARCHIVES.iter().any(|end| text.ends_with(end))
        || text.contains('/') && !text.contains(' ')
}

/// Reads `name[extra,other]`.
fn name_and_extras(text: &str) -> Option<(String, Vec<String>)> {
    let text = text.trim();
    let (name, extras) = match text.split_once('[') {
        Some((name, rest)) => (name.trim(), rest.strip_suffix(']')?),
        None => (text, ""),
    };
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let extras = extras.split(',').map(normal).filter(|extra| !extra.is_empty()).collect();
    (!name.is_empty() && name.chars().all(good)).then(|| (normal(name), extras))
}

/// Splits the marker off. In an address a `;` counts only beside a space, as in pip, since an
/// address may have one.
fn split_marker(what: &str) -> (&str, Option<&str>) {
    let at = match what.contains("://") {
        true => [" ;", "; "].iter().filter_map(|sign| what.find(sign)).min(),
        false => what.find(';'),
    };
    match at.map(|at| what.split_at(at)) {
        Some((what, marker)) => (what.trim(), Some(marker.trim_start().trim_start_matches(';'))),
        None => (what.trim(), None),
    }
}

fn split_options(words: &str) -> (&str, &str) {
    words.split_once(" --").unwrap_or((words, ""))
}

/// Reads the hashes in `hash=sha256:… --hash=sha256:…`.
fn hashes(options: &str, from: &Place) -> Result<Vec<Sha256>> {
    let mut hashes = Vec::new();
    for option in options.split(" --").map(str::trim).filter(|option| !option.is_empty()) {
        let value = option.trim_start_matches("--").strip_prefix("hash");
        let Some(value) = value.map(|value| value.trim_start_matches(['=', ' '])) else {
            let reason =
                format!("the option `--{option}` cannot be used in an image's requirements");
            return Err(from.wrong(reason, None));
        };
        // Others may stand beside it: of sha512 nothing is known here.
        if let Some(digits) = value.strip_prefix("sha256:") {
            let digest = digits.parse::<Sha256>();
            hashes.push(digest.map_err(|error| from.wrong(error.to_string(), None))?);
        }
    }
    Ok(hashes)
}

/// A path from the recipe's folder, of one from `folder`: without `.`, and with `..` only at its
/// beginning.
pub(super) fn below(folder: &Path, path: &str) -> String {
    let mut joined = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(joined.components().next_back(), Some(Component::Normal(_))) =>
            {
                joined.pop();
            }
            other => joined.push(other),
        }
    }
    match joined.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => joined.display().to_string(),
    }
}

/// Lines with their numbers, without comments, those that end in `\` joined.
pub(super) fn lines(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let comment = line.match_indices('#').map(|(at, _)| at).find(|at| {
            line.get(..*at).is_none_or(|before| {
                before.trim_start().is_empty() || before.ends_with([' ', '\t'])
            })
        });
        let line = comment.and_then(|at| line.get(..at)).unwrap_or(line).trim();
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

    fn asks(text: &str) -> Vec<Ask> {
        let lines = parse(text, "in/requirements.txt").unwrap().into_iter();
        lines.filter_map(|line| if let Line::Ask(ask) = line { Some(ask) } else { None }).collect()
    }

    #[test]
    fn what_uv_and_pip_write_is_read() {
        let text = format!(
            "# uv pip compile\r\n--index-url https://index.example/simple/\n--extra-index-url=https://other.example\n--only-binary :all:\n\nNumPy==1.26.4 ; python_version < \"4\" \\\n    --hash=sha256:{A} \\\n    --hash=sha512:00\n    # via pandas\nmine @ https://files.example/a%2B1/mine-1.5+cpu-py3-none-any.whl#sha256={A} ; os_name == 'posix'\n"
        );
        let mut indexes = Indexes::default();
        parse(&text, "r").unwrap().into_iter().for_each(|line| line.add_to(&mut indexes));
        assert_eq!(indexes.index.as_deref(), Some("https://index.example/simple"));
        assert_eq!(indexes.extra, ["https://other.example"]);
        let read = asks(&text);
        let [numpy, mine] = read.as_slice() else { panic!("{read:?}") };
        assert_eq!(numpy.text("/"), "numpy==1.26.4 ; python_version < \"4\"");
        assert!(numpy.is_pinned() && mine.is_pinned());
        assert_eq!(numpy.from.to_string(), "`in/requirements.txt` line 6");
        let url = "https://files.example/a%2B1/mine-1.5+cpu-py3-none-any.whl";
        assert_eq!(mine.text("/"), format!("mine @ {url} ; os_name == 'posix'"));
    }

    /// Each line with what uv is told, from `/base`.
    #[test]
    fn requirements_are_read_as_people_write_them() {
        for (line, expected) in [
            ("numpy", "numpy"),
            (
                "Torch_Geometric[a, B] >=1,<2;python_version<'3'",
                "torch-geometric[a,b]>=1, <2 ; python_version<'3'",
            ),
            ("a\t# comment", "a"),
            (
                "-e git+https://x.example/a.git@v1#egg=a_b&subdirectory=c",
                "a-b @ git+https://x.example/a.git@v1#subdirectory=c",
            ),
            ("git+https://x.example/a", "git+https://x.example/a"),
            (
                "a[x]@git+https://x.example/a@0a ; os_name == 'posix'",
                "a[x] @ git+https://x.example/a@0a ; os_name == 'posix'",
            ),
            ("https://x.example/b/master.zip", "https://x.example/b/master.zip"),
            (
                "https://x.example/a-1-py3-none-any.whl",
                "a @ https://x.example/a-1-py3-none-any.whl",
            ),
            (
                "https://x.example/a-1-py3-none-any.whl; os_name == 'posix'",
                "a @ https://x.example/a-1-py3-none-any.whl ; os_name == 'posix'",
            ),
            ("./w/a-1-py3-none-any.whl", "a @ file:///base/in/w/a-1-py3-none-any.whl"),
            ("-e ..", "file:///base/."),
            ("../../x y", "file:///base/../x%20y"),
            ("file:///opt/a", "file:///opt/a"),
            ("-e.[dev]", "file:///base/in[dev]"),
        ] {
            let read = asks(line);
            assert_eq!(read.len(), 1, "{line}");
            assert_eq!(read[0].text("/base"), expected, "{line}");
        }
    }

    #[test]
    fn other_files_are_found_from_the_folder_of_theirs() {
        for (line, path, only_constraints) in [
            ("-r more.txt", "in/more.txt", false),
            ("-r../more.txt", "more.txt", false),
            ("--requirement=\"a/b.txt\"", "in/a/b.txt", false),
            ("-c ./c.txt", "in/c.txt", true),
            ("--constraint c.txt", "in/c.txt", true),
        ] {
            let read = parse(line, "in/r.txt").unwrap();
            let [Line::Include { path: found, constraints, .. }] = read.as_slice() else {
                panic!("{read:?}")
            };
            assert_eq!((found.as_str(), *constraints), (path, only_constraints), "{line}");
        }
        let read = parse("-f wheels\n--find-links https://x.example/a.html\n", "in/r.txt").unwrap();
        let links =
            ["in/wheels", "https://x.example/a.html"].map(|link| Line::Links(link.to_owned()));
        assert_eq!(read, links);
    }

    #[test]
    fn passwords_in_addresses_are_refused_and_not_shown() {
        for text in [
            "--index-url https://me:secret@index.example/simple",
            "--find-links https://me:secret@index.example/simple",
            "a @ https://me:secret@x.example/a-1-py3-none-any.whl",
            "a @ git+https://secret@x.example/a",
            "a @ git+ssh://secret@x.example/a",
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
            ("--global-option x", "`--global-option x` cannot be used"),
            ("-r", "`-r` has no value"),
            ("-r https://x.example/r.txt", "names a file on a server"),
            ("a b c", "`a b c` is not a requirement"),
            ("a==1 --hash=sha256:12", "`12` is not a SHA-256"),
            ("a==1 --global-option=x", "`--global-option=x` cannot be used"),
            ("a @ hg+https://x.example/a", "is in a repository of `hg`"),
            ("a @ https://x.example/a", "is neither the URL of a wheel nor that of sources"),
            ("--index-url https://${TOKEN}", "depends on a variable"),
            ("a @ https://x/a-1-py3-none-any.whl ; nonsense", "`nonsense` is not a marker"),
        ] {
            let error = parse(&format!("\n{text}\n"), "r.txt").unwrap_err().to_string();
            assert!(error.starts_with("`r.txt` line 2: ") && error.contains(says), "{error}");
        }
    }

    #[test]
    fn of_a_long_line_the_beginning_and_the_end_are_shown() {
        for text in ["é(".repeat(1 << 20), format!("a={}", "1".repeat(1 << 20))] {
            let error = parse(&text, "r.txt").unwrap_err();
            let shown = format!("{error} {:?}", error.hint());
            assert!(shown.len() < 5000, "{}", shown.len());
            assert!(error.to_string().ends_with("` is not a requirement"), "{error}");
        }
    }

    #[test]
    fn cut_texts_never_panic() {
        let text = format!(
            "--index-url https://x é\\\na[b]==1;os_name=='é' \\\n --hash=sha256:{A} #\nm @ https://x/m-1-py3-none-any.whl#sha256={A} ; a\\\n-é\n-e ../é[x]"
        );
        for (at, _) in text.char_indices() {
            let _ = parse(&text[..at], "cut");
        }
    }
}
