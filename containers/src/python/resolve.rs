//! Resolves a recipe's `[python]` to the wheels of its lock.

use std::collections::BTreeMap;
use std::path::Path;

use super::locked::LockedPython;
use super::pinned::{Listed, Pinned, Pins, Wheels};
use super::requirements::{self, Requirements};
use super::tags::WheelName;
use super::{Input, Interpreter, digest, local, pin, pylock};
use crate::fetch::{Transport, TransportFault};
use crate::package::file_name;
use crate::package_sources::Sources;
use crate::recipe::PythonSection;
use crate::wheel::{Environment, Offer, machine, offers};
use crate::{Error, Package, Result, Sha256};

/// An index's page of one project; PyTorch's has 320 KB.
const MAX_PAGE: u64 = 64 << 20;

/// Largest number of wheels in one image.
const MAX_WHEELS: usize = 5000;

/// Finds the wheels of a recipe, each for the image's Python. `dir` is the recipe's
/// folder; `progress` hears what is looked up.
///
/// # Errors
/// [`Error::Recipe`] with file and line for what cannot be read or is not pinned,
/// [`Error::Wheel`] for a package without a wheel that fits; [`Error::Fetch`],
/// [`Error::Io`].
pub(crate) fn resolve(
    python: &PythonSection,
    dir: &Path,
    interpreter: &Interpreter,
    sources: &Sources,
    transport: &dyn Transport,
    progress: &dyn Fn(&str),
) -> Result<LockedPython> {
    let pins = match Input::open(python, dir)? {
        Some(input) => pins(&input, dir, interpreter, sources, progress)?,
        None => Pins::default(),
    };
    let mut found: BTreeMap<String, (Package, String)> = BTreeMap::new();
    let mut add = |package: Package, from: String| {
        match found.get(&package.name) {
            Some((there, _)) if there.sha256 == package.sha256 => {}
            Some((there, before)) => {
                let reason = format!(
                    "{before} asks for version {}, and {from} for {}",
                    there.version, package.version
                );
                return Err(Error::Wheel { name: package.name, reason, hint: None });
            }
            None => drop(found.insert(package.name.clone(), (package, from))),
        }
        Ok(())
    };
    let environment = Environment {
        machine: machine(interpreter.arch),
        extras: &[],
        python: &interpreter.version,
    };
    let counts = |pin: &&Pinned| pin.marker.as_ref().is_none_or(|m| m.holds(&environment));
    let pinned: Vec<&Pinned> = pins.pinned.iter().filter(counts).collect();
    if pinned.len() > MAX_WHEELS {
        let (found, limit) = (pinned.len() as u64, MAX_WHEELS as u64);
        return Err(Error::Limit { path: "[python]".to_owned(), what: "wheels", found, limit });
    }
    let default = pins.index.as_deref().unwrap_or(&sources.index).trim_end_matches('/');
    let indexes: Vec<&str> =
        pins.extra_indexes.iter().map(String::as_str).chain([default]).collect();
    for pin in pinned {
        progress(&format!("{}=={}", pin.name, pin.version));
        let package = match &pin.wheels {
            Wheels::Listed(listed) if listed.is_empty() => return Err(has_no_wheel(pin)),
            Wheels::Listed(listed) => of_list(pin, listed, dir, interpreter, transport)?,
            Wheels::OfIndex(hashes) => of_index(pin, hashes, &indexes, interpreter, transport)?,
        };
        add(package, pin.from.clone())?;
    }
    for path in &python.wheels {
        add(local::package(path, dir, interpreter)?, format!("`{}`", path.display()))?;
    }
    Ok(LockedPython {
        version: interpreter.version.clone(),
        inputs: digest(python, dir)?,
        wheels: found.into_values().map(|(package, _)| package).collect(),
    })
}

/// Number of packages that a `pylock.toml`, or else a `requirements.txt`, pins; `path`
/// names it in errors.
///
/// # Errors
/// [`Error::Recipe`] with the line.
pub fn count_pinned(text: &str, path: &str, is_lock: bool) -> Result<usize> {
    if is_lock {
        return Ok(pylock::parse(text, path)?.pinned.len());
    }
    match requirements::parse(text, path)? {
        Requirements::Pinned(pins) => Ok(pins.pinned.len()),
        Requirements::Unpinned { line, what } => {
            let reason = format!("`{what}` has no exact version with a SHA-256");
            Err(Error::Recipe { path: path.to_owned(), line, reason, hint: None })
        }
    }
}

/// Returns the packages that a file pins, or those that `uv` resolves if it pins none.
fn pins(
    input: &Input,
    dir: &Path,
    interpreter: &Interpreter,
    sources: &Sources,
    progress: &dyn Fn(&str),
) -> Result<Pins> {
    let Input { path, text, is_lock } = input;
    if *is_lock {
        return pylock::parse(text, path);
    }
    let (line, what) = match requirements::parse(text, path)? {
        Requirements::Pinned(pins) => return Ok(pins),
        Requirements::Unpinned { line, what } => (line, what),
    };
    let command = pin::command(path, interpreter);
    let unpinned = |reason: String, hint: String| Error::Recipe {
        path: path.clone(),
        line,
        reason,
        hint: Some(hint),
    };
    let Some(uv) = &sources.uv else {
        let reason = format!("`{what}` has no exact version with a SHA-256");
        return Err(unpinned(
            reason,
            format!("install uv, or pin the versions with `{command}` and give the resulting file"),
        ));
    };
    progress(&format!("versions for {path} by uv"));
    let own_index =
        text.lines().any(|line| line.starts_with("-i") || line.starts_with("--index-url"));
    let index = (!own_index).then_some(sources.index.as_str());
    let answer = pin::pin(uv, path, dir, index, interpreter)?;
    match requirements::parse(&answer, path)? {
        Requirements::Pinned(pins) => Ok(pins),
        Requirements::Unpinned { what, .. } => {
            let reason = format!("uv chose `{what}`, but gave no version and SHA-256 of a wheel");
            Err(unpinned(
                reason,
                "build its wheel, and give it in `wheels` of `[python]`".to_owned(),
            ))
        }
    }
}

/// The wheel of an index with one of these digests that suits best.
fn of_index(
    pin: &Pinned,
    hashes: &[Sha256],
    indexes: &[&str],
    interpreter: &Interpreter,
    transport: &dyn Transport,
) -> Result<Package> {
    let (mut there, mut known) = (Vec::new(), false);
    for index in indexes {
        let page = format!("{index}/{}/", pin.name);
        let html = match transport.read(&page, MAX_PAGE) {
            Ok(html) => String::from_utf8_lossy(&html).into_owned(),
            Err(TransportFault::NotFound(_)) => continue,
            Err(fault) => return Err(fault.into_error(&page)),
        };
        known = true;
        let named = offers(&html, &page, &pin.name).into_iter();
        there.extend(named.filter(|offer| hashes.contains(&offer.sha256)));
    }
    if !known {
        let name = format!("{}=={}", pin.name, pin.version);
        return Err(Error::NotInIndex { name, index: indexes.join(", ") });
    }
    let listed = there.into_iter().filter_map(|offer: Offer| {
        let file = file_name(&offer.url)?;
        Some(Listed { file, url: offer.url, sha256: offer.sha256, bytes: None })
    });
    of_list(pin, &listed.collect::<Vec<_>>(), Path::new(""), interpreter, transport)
}

/// Chooses the wheel of a list that suits best. Paths start from `dir`.
fn of_list(
    pin: &Pinned,
    listed: &[Listed],
    dir: &Path,
    interpreter: &Interpreter,
    transport: &dyn Transport,
) -> Result<Package> {
    let ranked = listed.iter().filter_map(|wheel| {
        let name = WheelName::parse(&wheel.file).filter(|name| name.name == pin.name)?;
        Some((name.rank(interpreter)?, name, wheel))
    });
    // If several suit equally well, the one with the smallest name is taken, whatever their order.
    let best = ranked
        .max_by(|(a, _, one), (b, _, other)| a.cmp(b).then_with(|| other.file.cmp(&one.file)));
    let Some((_, name, wheel)) = best else { return Err(none_fits(pin, listed, interpreter)) };
    let mut package = Package {
        name: pin.name.clone(),
        version: name.version.to_string(),
        arch: None,
        bytes: wheel.bytes.unwrap_or(0),
        sha256: wheel.sha256,
        urls: vec![wheel.url.clone()],
        license: None,
    };
    if let Some(path) = super::local_path(&package, dir) {
        package.bytes = std::fs::metadata(&path).map_err(Error::io("read", &path))?.len();
    } else if wheel.bytes.is_none() {
        let url = wheel.url.as_str();
        let bytes = transport.len(url).map_err(|fault| fault.into_error(url))?;
        package.bytes = bytes.ok_or_else(|| {
            let reason = "the server does not say how long it is".to_owned();
            Error::Fetch { name: url.to_owned(), reason, hint: None, passes: false }
        })?;
    }
    Ok(package)
}

/// The error for a package that has sources alone.
fn has_no_wheel(pin: &Pinned) -> Error {
    let hint = "an image can only use wheels: build one with `uv build --wheel`, and give it in `wheels` of `[python]`";
    Error::Wheel {
        name: pin.name.clone(),
        reason: format!("{} asks for this package, but gives no wheel of it", pin.from),
        hint: Some(hint.to_owned()),
    }
}

fn none_fits(pin: &Pinned, listed: &[Listed], interpreter: &Interpreter) -> Error {
    let wheels: Vec<_> = listed.iter().map(|wheel| format!("`{}`", wheel.file)).collect();
    let found = match wheels.as_slice() {
        [] => "no wheel in the index has one of the SHA-256 digests given for it".to_owned(),
        [.., last] if wheels.len() > 4 => {
            format!("the index has {} wheels, such as {last}", wheels.len())
        }
        few => format!("the index has only {}", few.join(", ")),
    };
    let hint = match wheels.is_empty() {
        true => {
            "pin the versions again; if a package has no wheel, build one with `pip wheel` and give it in `wheels` of `[python]`"
        }
        false => "use a version that has a suitable wheel, or another Debian release as `[base]`",
    };
    Error::Wheel {
        name: format!("{}=={}", pin.name, pin.version),
        reason: format!(
            "{} requires this package, which has no wheel for {}: {found}",
            pin.from,
            interpreter.shown()
        ),
        hint: Some(hint.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fetch::Stream;
    use crate::sif::Arch;

    const FILES: &str = "https://files.example";

    /// Pages, and lengths of files, by URL.
    #[derive(Default)]
    struct Pages(BTreeMap<String, String>);

    impl Stream for Pages {
        fn stream(
            &self,
            _url: &str,
            _bytes: u64,
            _from: u64,
            _sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
        ) -> Result<(), TransportFault> {
            unreachable!("a lock fetches no wheel")
        }
    }

    impl Transport for Pages {
        fn read(&self, url: &str, _limit: u64) -> Result<Vec<u8>, TransportFault> {
            let page = self.0.get(url).ok_or_else(|| TransportFault::NotFound(url.to_owned()))?;
            Ok(page.clone().into_bytes())
        }

        fn len(&self, url: &str) -> Result<Option<u64>, TransportFault> {
            Ok(Some(url.len() as u64))
        }
    }

    fn sha(file: &str) -> Sha256 {
        Sha256::of(file.as_bytes())
    }

    struct Case {
        dir: tempfile::TempDir,
        pages: Pages,
        sources: Sources,
        python: PythonSection,
    }

    impl Case {
        /// Two indexes: `base` has NumPy for three Pythons, `extra` a build of its own.
        fn new(requirements: &str) -> Self {
            let mut pages = Pages::default();
            for (index, name, files) in [
                (
                    "base",
                    "numpy",
                    &[
                        "numpy-2.0-cp310-cp310-manylinux_2_17_x86_64.whl",
                        "numpy-2.0-cp311-cp311-manylinux_2_17_x86_64.whl",
                        "numpy-2.0-cp311-cp311-manylinux_2_39_x86_64.whl",
                        "numpy-2.0-cp311-cp311-win_amd64.whl",
                    ][..],
                ),
                ("base", "tomli", &["tomli-1.0-py3-none-any.whl"][..]),
                ("extra", "numpy", &["numpy-2.0+own-cp311-cp311-linux_x86_64.whl"][..]),
                ("base", "only-windows", &["only_windows-1-cp311-cp311-win_amd64.whl"][..]),
            ] {
                let links = files
                    .iter()
                    .map(|file| format!("<a href=\"{FILES}/{file}#sha256={}\">", sha(file)));
                pages.0.insert(format!("https://{index}.example/{name}/"), links.collect());
            }
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("requirements.txt"), requirements).unwrap();
            let mut sources = Sources::new(crate::UnixTime::default());
            sources.index = "https://base.example".to_owned();
            let python = PythonSection {
                lock: None,
                requirements: Some("requirements.txt".into()),
                wheels: Vec::new(),
                bytecode: false,
            };
            Self { dir, pages, sources, python }
        }

        fn resolve(&self) -> Result<LockedPython> {
            let interpreter = Interpreter {
                version: "3.11.2".to_owned(),
                minor: 11,
                arch: Arch::Amd64,
                glibc: (2, 36),
            };
            resolve(
                &self.python,
                self.dir.path(),
                &interpreter,
                &self.sources,
                &self.pages,
                &|_| {},
            )
        }

        fn files(&self) -> Vec<String> {
            let found = self.resolve().unwrap();
            found.wheels.iter().filter_map(Package::file_name).collect()
        }

        fn refused(&self) -> (String, String) {
            let error = self.resolve().unwrap_err();
            (error.to_string(), error.hint().unwrap_or_default().to_owned())
        }

        /// A program that stands for uv, and answers with this text.
        fn uv(&mut self, answer: &str) {
            let [text, path] = ["uv.sh", "uv"].map(|name| self.dir.path().join(name));
            let script = format!("#!/bin/sh\necho \"$*\" > asked\ncat <<'END'\n{answer}\nEND\n");
            fs::write(&text, script).unwrap();
            // Another process writes what is to be run: if this one had the file open, a child that
            // another test starts might keep it open, and it would be busy.
            let mut install = std::process::Command::new("install");
            assert!(install.arg("-m755").args([&text, &path]).status().unwrap().success());
            self.sources.uv = Some(path);
        }
    }

    fn numpy() -> String {
        let files = [
            "cp310-cp310-manylinux_2_17_x86_64",
            "cp311-cp311-manylinux_2_17_x86_64",
            "cp311-cp311-manylinux_2_39_x86_64",
        ];
        let hashes =
            files.map(|tags| format!(" --hash=sha256:{}", sha(&format!("numpy-2.0-{tags}.whl"))));
        format!("numpy==2.0{}\n", hashes.concat())
    }

    #[test]
    fn the_wheel_is_that_of_the_images_python_and_platform() {
        let tomli = sha("tomli-1.0-py3-none-any.whl");
        let case = Case::new(&format!(
            "{}tomli==1.0 ; python_version < '3.11' --hash=sha256:{tomli}\n",
            numpy()
        ));
        let found = case.resolve().unwrap();
        let [numpy] = found.wheels.as_slice() else { panic!("{found:?}") };
        let file = "numpy-2.0-cp311-cp311-manylinux_2_17_x86_64.whl";
        assert_eq!(numpy.urls, [format!("{FILES}/{file}")]);
        assert_eq!((numpy.sha256, numpy.bytes), (sha(file), numpy.urls[0].len() as u64));
        assert_eq!(found.version, "3.11.2");
        // After a change of the file, the digest of the inputs is another one.
        fs::write(case.dir.path().join("requirements.txt"), "").unwrap();
        assert_ne!(case.resolve().unwrap().inputs, found.inputs);
    }

    #[test]
    fn a_lock_in_a_folder_names_files_from_there_and_sources_that_nobody_needs() {
        let mut case = Case::new("");
        let file = "mine-1.0-py3-none-any.whl";
        fs::create_dir(case.dir.path().join("locks")).unwrap();
        fs::write(case.dir.path().join("locks").join(file), "bytes").unwrap();
        case.python.requirements = None;
        case.python.lock = Some("locks/pylock.toml".into());
        let lock = |marker: &str| {
            let text = format!(
                "lock-version = \"1.0\"\n[[packages]]\nname = \"old\"\nmarker = \"{marker}\"\nsdist = {{ url = \"{FILES}/old-1.tar.gz\" }}\n[[packages]]\nname = \"mine\"\nwheels = [{{ path = \"{file}\", hashes = {{ sha256 = \"{}\" }} }}]\n",
                Sha256::of(b"bytes")
            );
            fs::write(case.dir.path().join("locks/pylock.toml"), text).unwrap();
        };
        lock("python_version < '3.11'");
        let found = case.resolve().unwrap();
        let [mine] = found.wheels.as_slice() else { panic!("{found:?}") };
        assert_eq!((mine.bytes, mine.urls[0].as_str()), (5, &*format!("./locks/{file}")));
        lock("python_version >= '3.11'");
        let (error, hint) = case.refused();
        let says = "cannot add the wheel `old`: `locks/pylock.toml` line 3 asks for this package, but gives no wheel of it";
        assert_eq!(error, says);
        assert!(hint.contains("uv build --wheel"), "{hint}");
    }

    #[test]
    fn an_index_that_the_file_names_is_asked_too() {
        let own = "numpy-2.0+own-cp311-cp311-linux_x86_64.whl";
        let line = format!(
            "--extra-index-url https://extra.example/\nnumpy==2.0 --hash=sha256:{}\n",
            sha(own)
        );
        assert_eq!(Case::new(&line).files(), [own]);
    }

    #[test]
    fn what_cannot_be_had_is_said_with_package_file_and_next_step() {
        let windows = sha("only_windows-1-cp311-cp311-win_amd64.whl");
        for (text, says, helps) in [
            (
                format!("only-windows==1 --hash=sha256:{windows}"),
                "cannot add the wheel `only-windows==1`: `requirements.txt` line 1 requires this package, which has no wheel for Python 3.11 on x86_64 with glibc 2.36: the index has only `only_windows-1-cp311-cp311-win_amd64.whl`",
                "use a version that has a suitable wheel",
            ),
            (
                format!("numpy==2.0 --hash=sha256:{windows}"),
                "no wheel in the index has one of the SHA-256 digests given for it",
                "pin the versions again",
            ),
            (
                format!("absent==1 --hash=sha256:{windows}"),
                "the package index `https://base.example` has no wheel",
                "",
            ),
            (format!("{}{}", numpy(), numpy()), "", ""),
            (
                "\nnumpy>=2\n".to_owned(),
                "`requirements.txt` line 2: `numpy>=2` has no exact version with a SHA-256",
                "install uv, or pin the versions with `uv pip compile requirements.txt --generate-hashes --python-version 3.11 --python-platform x86_64-manylinux_2_36 --only-binary :all: --emit-index-url -o requirements.pinned.txt` and give the resulting file",
            ),
        ] {
            let case = Case::new(&text);
            if says.is_empty() {
                // A wheel that is asked for twice is taken once.
                assert_eq!(case.files().len(), 1);
                continue;
            }
            let (error, hint) = case.refused();
            assert!(error.contains(says), "{error}");
            assert!(hint.contains(helps), "{hint}");
        }
    }

    #[test]
    fn uv_finds_versions_where_there_are_none() {
        let mut case = Case::new("numpy>=2\n");
        case.uv(&numpy());
        assert_eq!(case.files(), ["numpy-2.0-cp311-cp311-manylinux_2_17_x86_64.whl"]);
        let asked = fs::read_to_string(case.dir.path().join("asked")).unwrap();
        assert!(
            asked.starts_with(
                "pip compile requirements.txt --generate-hashes --python-version 3.11 "
            ),
            "{asked}"
        );
        assert!(asked.contains("--default-index https://base.example"), "{asked}");
        case.uv("numpy==2.0");
        assert!(
            case.refused().0.contains("uv chose `numpy==2.0`, but gave no"),
            "{:?}",
            case.refused()
        );
        case.uv("END\necho no such thing >&2; exit 1\ncat <<'END'");
        assert!(case.refused().0.contains("uv finds no versions that fit together: no such thing"));
    }

    #[test]
    fn wheels_of_this_machine_go_in_by_their_paths() {
        let mut case = Case::new("");
        fs::create_dir(case.dir.path().join("dist")).unwrap();
        let file = "dist/Mine-1.0-cp39-abi3-linux_x86_64.whl";
        fs::write(case.dir.path().join(file), "bytes").unwrap();
        case.python.wheels = vec![file.into()];
        let first = case.resolve().unwrap();
        let mine = &first.wheels[0];
        assert_eq!(
            (mine.name.as_str(), mine.urls[0].as_str()),
            ("mine", "./dist/Mine-1.0-cp39-abi3-linux_x86_64.whl")
        );
        assert_eq!(mine.sha256, Sha256::of(b"bytes"));
        case.python.wheels = vec!["dist/Mine-*.whl".into()];
        assert_eq!(case.resolve().unwrap(), first);
        fs::write(case.dir.path().join(file), "other").unwrap();
        assert_ne!(case.resolve().unwrap().inputs, first.inputs);
        fs::write(case.dir.path().join("dist/Mine-2.whl"), "bytes").unwrap();
        assert!(case.refused().0.contains("2 files match this name, expected one"));
        case.python.wheels = vec!["dist/mine-1.0-cp312-cp312-linux_x86_64.whl".into()];
        assert!(case.refused().0.contains("the wheel is not for Python 3.11 on x86_64"));
        case.python.wheels = vec!["requirements.txt".into()];
        assert!(case.refused().0.contains("this is not a wheel's name"));
    }
}
