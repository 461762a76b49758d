//! Resolves a recipe's `[python]` to the wheels of its lock.

use std::collections::BTreeMap;
use std::path::Path;

use super::from_source::Builder;
use super::input::{Input, Read};
use super::local::{self, from_dir};
use super::locked::LockedPython;
use super::pinned::{Listed, Pinned, Pins, Source, Wheels};
use super::tags::WheelName;
use super::uv::{self, OwnWheel, Question};
use super::wanted::{Ask, NeededPython, Place, Target, Wanted};
use super::{Interpreter, bases, digest, pylock, pyproject};
use crate::fetch::{Transport, TransportFault};
use crate::package::file_name;
use crate::package_sources::Sources;
use crate::recipe::PythonSection;
use crate::wheel::{Environment, Offer, machine, offers, source_archive};
use crate::{Error, Package, Result, Sha256, StreamSha256};

/// An index's page of one project; PyTorch's has 320 KB.
const MAX_PAGE: u64 = 64 << 20;

/// Largest number of wheels in one image.
const MAX_WHEELS: usize = 5000;

/// Finds the wheels of a recipe, each for the image's Python. `dir` is the recipe's
/// folder; `progress` hears what is looked up, and `kept` gets the packages that the base has.
///
/// # Errors
/// [`Error::Requirements`] for a file that cannot be used, [`Error::Recipe`] with file and line
/// for what it has; [`Error::Wheel`] for a package without a wheel that fits; [`Error::Fetch`],
/// [`Error::Io`].
pub(crate) fn resolve(
    python: &PythonSection,
    dir: &Path,
    interpreter: &Interpreter,
    sources: &Sources,
    transport: &dyn Transport,
    progress: &dyn Fn(&str),
    kept: &mut Vec<String>,
) -> Result<LockedPython> {
    let input = Input::open(python, dir)?;
    let named = input.iter().flat_map(Input::wheels);
    let named = python.wheels.iter().map(std::path::PathBuf::as_path).chain(named);
    let own = local::packages(named, dir, interpreter)?;
    let pins = match &input {
        Some(input) => {
            Asked { python, dir, interpreter, sources, own: &own }.pins(input, progress)?
        }
        None => Pins::default(),
    };
    let environment = Environment {
        machine: machine(interpreter.arch),
        extras: &python.extras,
        python: &interpreter.version,
    };
    let counts = |pin: &&Pinned| pin.marker.as_ref().is_none_or(|m| m.holds(&environment));
    let pinned: Vec<&Pinned> = pins.pinned.iter().filter(counts).collect();
    if pinned.len() > MAX_WHEELS {
        let (found, limit) = (pinned.len() as u64, MAX_WHEELS as u64);
        return Err(Error::Limit { path: "[python]".to_owned(), what: "wheels", found, limit });
    }
    let uv = sources.uv.as_deref();
    let finder = Finder {
        indexes: pins.indexes.all(&sources.index),
        dir,
        interpreter,
        transport,
        builder: python.build.then_some(Builder {
            dir,
            uv,
            indexes: &pins.indexes,
            usual: &sources.index,
            interpreter,
            transport,
        }),
    };
    let mut found: BTreeMap<String, (Package, &Place)> = BTreeMap::new();
    for pin in pinned {
        if let Some(own) = own.iter().find(|own| own.name == pin.name) {
            same_version(pin, own)?;
            continue;
        }
        if is_in_base(pin, interpreter) {
            kept.push(pin.name.clone());
            continue;
        }
        progress(&pin.shown());
        let package = finder.package(pin)?;
        match found.get(&package.name) {
            Some((there, _)) if there.sha256 == package.sha256 => {}
            Some((there, before)) => {
                let reason = format!(
                    "{before} asks for version {}, and {} for {}",
                    there.version, pin.from, package.version
                );
                return Err(Error::Wheel { name: package.name, reason, hint: None });
            }
            None => drop(found.insert(package.name.clone(), (package, &pin.from))),
        }
    }
    let mut wheels: Vec<Package> = found.into_values().map(|(package, _)| package).collect();
    wheels.extend(own);
    wheels.sort_by(|a, b| a.name.cmp(&b.name));
    let (version, inputs) = (interpreter.version.clone(), digest(python, dir)?);
    Ok(LockedPython { version, interpreter: None, inputs, wheels })
}

/// Whether the base has this version of a package. What a repository or a folder has may differ
/// from what the base has of the same version.
fn is_in_base(pin: &Pinned, interpreter: &Interpreter) -> bool {
    let of_index = !matches!(pin.source, Some(Source::Git { .. } | Source::Folder(_)));
    of_index && pin.version.as_ref().is_some_and(|version| interpreter.has(&pin.name, version))
}

/// Refuses a wheel of this machine that has another version than a file asks for.
fn same_version(pin: &Pinned, own: &Package) -> Result<()> {
    let version: Option<pep440_rs::Version> = own.version.parse().ok();
    match (&pin.version, version) {
        (Some(asked), Some(there)) if *asked != there => {
            let reason = format!("{} asks for version {asked}, and `wheels` has {there}", pin.from);
            let hint =
                "give the wheel of that version, or change the version that the file asks for";
            Err(Error::Wheel { name: pin.name.clone(), reason, hint: Some(hint.to_owned()) })
        }
        _ => Ok(()),
    }
}

/// What a recipe's `[python]` says, besides its file.
struct Asked<'a> {
    python: &'a PythonSection,
    dir: &'a Path,
    interpreter: &'a Interpreter,
    sources: &'a Sources,
    /// Wheels of this machine, which are taken for their names.
    own: &'a [Package],
}

impl Asked<'_> {
    /// Returns the packages that a file pins, or those that `uv` chooses if it pins none.
    fn pins(&self, input: &Input, progress: &dyn Fn(&str)) -> Result<Pins> {
        let mut wanted = match input.read(self.python.selection(), self.interpreter)? {
            Read::Pins(pins) => {
                self.must_be_python(pins.python.as_ref())?;
                return Ok(pins);
            }
            Read::Wanted(wanted) => wanted,
        };
        self.must_be_python(wanted.python.as_ref())?;
        wanted.asks.iter_mut().for_each(|ask| self.name_project(ask));
        for ask in &wanted.asks {
            self.own_version_suits(ask)?;
        }
        let others: Vec<&Ask> = wanted.asks.iter().filter(|ask| !self.is_own(ask)).collect();
        if !self.python.build {
            others.iter().try_for_each(|ask| must_have_wheel(ask))?;
        }
        if others.iter().all(|ask| ask.is_pinned())
            && (!others.is_empty() || wanted.asks.is_empty())
        {
            return pinned(&wanted, &others);
        }
        progress(&format!("versions for {} by uv", input.path));
        let path = |own: &Package| Some(own.urls.first()?.strip_prefix("./")?.to_owned());
        let wheels = self.own.iter();
        let wheels =
            wheels.filter_map(|own| Some(OwnWheel { name: own.name.clone(), path: path(own)? }));
        let question = Question {
            wanted: &wanted,
            wheels: &wheels.collect::<Vec<_>>(),
            dir: self.dir,
            path: &input.path,
            build: self.python.build,
        };
        let answer = uv::ask(&question, self.sources, self.interpreter)?;
        let mut pins = pylock::parse(&answer, "uv's answer")?;
        if pins.pinned.is_empty()
            && let Some(ask) = wanted.asks.iter().find(|ask| ask.marker.is_none())
        {
            let reason = format!("uv's answer has no package, and `{}` is needed", ask.shown());
            return Err(ask.from.wrong(reason, None));
        }
        pins.indexes = wanted.indexes.clone();
        for pin in &mut pins.pinned {
            let ask = wanted.asks.iter().find(|ask| ask.name.as_ref() == Some(&pin.name));
            pin.from = match ask {
                Some(ask) => ask.from.clone(),
                None => Place { path: input.path.clone(), line: 0 },
            };
        }
        Ok(pins)
    }

    /// Whether a wheel of this machine is taken for what is asked for.
    fn is_own(&self, ask: &Ask) -> bool {
        matches!(ask.target, Target::Here(_)) || self.own(ask).is_some()
    }

    fn own(&self, ask: &Ask) -> Option<&Package> {
        self.own.iter().find(|own| ask.name.as_ref() == Some(&own.name))
    }

    fn must_be_python(&self, needed: Option<&NeededPython>) -> Result<()> {
        let Some(needed) = needed.filter(|needed| !needed.allows(self.interpreter)) else {
            return Ok(());
        };
        let reason = format!(
            "it is for Python {}, and the image has Python {}",
            needed.versions, self.interpreter.version
        );
        Err(needed.from.wrong(reason, Some(bases::hint(needed, self.interpreter))))
    }

    /// Finds the name of a project in a folder, so that its wheel can be given.
    fn name_project(&self, ask: &mut Ask) {
        if let (Target::Folder(path), None) = (&ask.target, &ask.name) {
            let file = self.dir.join(path).join("pyproject.toml");
            ask.name = std::fs::read_to_string(file).ok().and_then(|text| pyproject::name(&text));
        }
    }

    /// Refuses an own wheel of a version that a requirement excludes.
    fn own_version_suits(&self, ask: &Ask) -> Result<()> {
        let (Target::Index { versions, .. }, Some(own)) = (&ask.target, self.own(ask)) else {
            return Ok(());
        };
        if own.version.parse().is_ok_and(|version| !versions.holds(&version)) {
            let asked = ask.shown();
            let reason =
                format!("`{asked}` is asked for, and `wheels` has version {}", own.version);
            let hint = "give the wheel of that version, or change this line";
            return Err(ask.from.wrong(reason, Some(hint.to_owned())));
        }
        Ok(())
    }
}

/// Refuses sources where nothing may be built.
fn must_have_wheel(ask: &Ask) -> Result<()> {
    let (what, at) = match &ask.target {
        Target::Remote(url) if url.starts_with("git+") => ("a repository", url),
        Target::Remote(url) => ("an archive with sources", url),
        Target::Folder(path) => ("a folder with sources", path),
        _ => return Ok(()),
    };
    let reason = format!("`{at}` is {what}, and an image takes wheels");
    Err(ask.from.wrong(reason, Some(BUILD.to_owned())))
}

/// What to do about a package that has sources alone.
const BUILD: &str = "set `build = true` in `[python]`, which builds its wheel on this machine; or build the wheel yourself (`pip wheel --no-deps`), and give the file in `wheels`";

/// The packages of a file that names each version and its digests.
fn pinned(wanted: &Wanted, asks: &[&Ask]) -> Result<Pins> {
    let mut pins = Pins { indexes: wanted.indexes.clone(), ..Pins::default() };
    for ask in asks {
        let (wheels, version) = match &ask.target {
            Target::Index { versions, hashes } => {
                (Wheels::OfIndex(hashes.clone()), versions.only())
            }
            Target::Wheel { url, sha256 } => {
                let file = file_name(url).unwrap_or_default();
                let version = WheelName::parse(&file).map(|wheel| wheel.version);
                let listed = Listed { file, url: url.clone(), sha256: *sha256, bytes: None };
                (Wheels::Listed(vec![listed]), version)
            }
            _ => continue,
        };
        let Some(name) = ask.name.clone() else { continue };
        let excluded = wanted.constraints.iter().find(|constraint| {
            let versions = match &constraint.target {
                Target::Index { versions, .. } => Some(versions),
                _ => None,
            };
            constraint.name.as_ref() == Some(&name)
                && versions.zip(version.as_ref()).is_some_and(|(all, one)| !all.holds(one))
        });
        if let Some(constraint) = excluded {
            let reason =
                format!("{} excludes this version: `{}`", constraint.from, constraint.shown());
            return Err(ask.from.wrong(reason, None));
        }
        let marker = ask.marker.as_ref().map(|(marker, _)| marker.clone());
        let from = ask.from.clone();
        pins.pinned.push(Pinned { name, version, marker, wheels, source: None, from });
    }
    Ok(pins)
}

/// Where packages are looked up, and how.
struct Finder<'a> {
    /// URLs of indexes, in the order in which they are asked.
    indexes: Vec<String>,
    dir: &'a Path,
    interpreter: &'a Interpreter,
    transport: &'a dyn Transport,
    builder: Option<Builder<'a>>,
}

impl Finder<'_> {
    /// The wheel of a package: one that suits, or one that is built.
    fn package(&self, pin: &Pinned) -> Result<Package> {
        let (listed, source) = match &pin.wheels {
            Wheels::Listed(listed) => (listed.clone(), pin.source.clone()),
            Wheels::OfIndex(hashes) => {
                let (wheels, archive) = self.of_index(pin, hashes)?;
                (wheels, archive.map(Source::Archive))
            }
        };
        if let Some(package) = self.best(pin, &listed)? {
            return Ok(package);
        }
        match (&self.builder, source) {
            (Some(builder), Some(source)) => builder.build(pin, &source),
            (_, source) if listed.is_empty() && matches!(pin.wheels, Wheels::Listed(_)) => {
                Err(has_no_wheel(pin, source.as_ref()))
            }
            (_, source) => Err(self.none_fits(pin, &listed, source.is_some())),
        }
    }

    /// The wheels of the indexes with one of these digests, and the archive of sources.
    fn of_index(&self, pin: &Pinned, hashes: &[Sha256]) -> Result<(Vec<Listed>, Option<Listed>)> {
        let (mut there, mut archive, mut known) = (Vec::new(), None, false);
        for index in &self.indexes {
            let page = format!("{index}/{}/", pin.name);
            let html = match self.transport.read(&page, MAX_PAGE) {
                Ok(html) => String::from_utf8_lossy(&html).into_owned(),
                Err(TransportFault::NotFound(_)) => continue,
                Err(fault) => return Err(fault.into_error(&page)),
            };
            known = true;
            let named = offers(&html, &page, &pin.name).into_iter();
            there.extend(named.filter(|offer| hashes.contains(&offer.sha256)));
            archive = archive.or_else(|| source_archive(&html, &page, hashes));
        }
        if !known {
            let (name, index) = (pin.shown(), self.indexes.join(", "));
            return Err(Error::NotInIndex { name, index });
        }
        let listed = |url: String, sha256| {
            Some(Listed { file: file_name(&url)?, url, sha256: Some(sha256), bytes: None })
        };
        let wheels = there.into_iter().filter_map(|offer: Offer| listed(offer.url, offer.sha256));
        Ok((wheels.collect(), archive.and_then(|(url, sha256)| listed(url, sha256))))
    }

    /// Chooses the wheel of a list that suits best; `None` if none does.
    fn best(&self, pin: &Pinned, listed: &[Listed]) -> Result<Option<Package>> {
        let ranked = listed.iter().filter_map(|wheel| {
            let name = WheelName::parse(&wheel.file).filter(|name| name.name == pin.name)?;
            Some((name.rank(self.interpreter)?, name, wheel))
        });
        // If several suit equally well, the one with the smallest name is taken, whatever their
        // order.
        let best = ranked
            .max_by(|(a, _, one), (b, _, other)| a.cmp(b).then_with(|| other.file.cmp(&one.file)));
        let Some((_, name, wheel)) = best else { return Ok(None) };
        let url = match wheel.url.strip_prefix("file://").or(wheel.url.strip_prefix("./")) {
            Some(path) => {
                let path = crate::package::percent_decoded(path).unwrap_or_default();
                let full = std::path::absolute(self.dir.join(path));
                let full = full.map_err(Error::io("read", self.dir))?;
                from_dir(&full, self.dir).unwrap_or_else(|| wheel.url.clone())
            }
            None => wheel.url.split('#').next().unwrap_or(&wheel.url).to_owned(),
        };
        let mut package = Package {
            name: pin.name.clone(),
            version: name.version.to_string(),
            arch: None,
            bytes: wheel.bytes.unwrap_or(0),
            sha256: wheel.sha256.unwrap_or(Sha256::of(b"")),
            urls: vec![url.clone()],
            license: None,
        };
        if let Some(path) = super::local_path(&package, self.dir) {
            package.bytes = std::fs::metadata(&path).map_err(Error::io("read", &path))?.len();
            if wheel.sha256.is_none() {
                package.sha256 = Sha256::of_file(&path)?;
            }
            return Ok(Some(package));
        }
        if wheel.bytes.is_none() {
            package.bytes = len(&url, self.transport)?;
        }
        // A page of links may lack digests: that of the bytes now is kept.
        if wheel.sha256.is_none() {
            let mut digest = StreamSha256::default();
            let mut sink = |block: &[u8]| {
                digest.update(block);
                Ok(())
            };
            let streamed = self.transport.stream(&url, package.bytes, 0, &mut sink);
            streamed.map_err(|fault| fault.into_error(&url))?;
            package.sha256 = digest.finish();
        }
        Ok(Some(package))
    }

    fn none_fits(&self, pin: &Pinned, listed: &[Listed], has_source: bool) -> Error {
        let wheels: Vec<_> = listed.iter().map(|wheel| format!("`{}`", wheel.file)).collect();
        let found = match wheels.as_slice() {
            [] => "no wheel in the index has one of the SHA-256 digests given for it".to_owned(),
            [.., last] if wheels.len() > 4 => {
                format!("there are {} wheels, such as {last}", wheels.len())
            }
            few => format!("there is only {}", few.join(", ")),
        };
        let names = listed.iter().filter_map(|wheel| WheelName::parse(&wheel.file));
        let names: Vec<WheelName> = names.filter(|name| name.name == pin.name).collect();
        let others = bases::others(self.interpreter);
        let mut others =
            others.iter().filter(|(_, other)| names.iter().any(|name| name.rank(other).is_some()));
        let hint = match (others.next(), has_source, wheels.is_empty()) {
            (Some((base, _)), ..) => {
                format!("{}; or use a version that has a suitable wheel", bases::choose(base))
            }
            (None, true, true) => BUILD.to_owned(),
            (None, true, false) => {
                format!("make this file again for Python {}, or {BUILD}", self.interpreter.short())
            }
            (None, false, true) => "pin the versions again".to_owned(),
            (None, false, false) => "use a version that has a suitable wheel".to_owned(),
        };
        Error::Wheel {
            name: pin.shown(),
            reason: format!(
                "{} requires this package, which has no wheel for {}: {found}",
                pin.from,
                self.interpreter.shown()
            ),
            hint: Some(hint),
        }
    }
}

/// The length of an object, which a lock names.
pub(super) fn len(url: &str, transport: &dyn Transport) -> Result<u64> {
    let bytes = transport.len(url).map_err(|fault| fault.into_error(url))?;
    bytes.ok_or_else(|| {
        let reason = "the server does not say how long it is".to_owned();
        Error::Fetch { name: url.to_owned(), reason, hint: None, passes: false }
    })
}

/// The error for a package that has sources alone.
fn has_no_wheel(pin: &Pinned, source: Option<&Source>) -> Error {
    let what = match source {
        Some(Source::Folder(path)) => format!("only the folder `{path}` with its sources"),
        Some(Source::Git { url, .. }) => format!("only the repository `{url}`"),
        Some(Source::Archive(listed)) => format!("only its sources, `{}`", listed.file),
        None => "no wheel of it".to_owned(),
    };
    Error::Wheel {
        name: pin.shown(),
        reason: format!("{} asks for this package, and gives {what}", pin.from),
        hint: Some(BUILD.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

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
        installed: BTreeMap<String, pep440_rs::Version>,
        glibc: (u32, u32),
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
                interpreter: None,
                lock: None,
                requirements: Some("requirements.txt".into()),
                extras: Vec::new(),
                groups: Vec::new(),
                wheels: Vec::new(),
                build: false,
                bytecode: false,
            };
            let installed = BTreeMap::new();
            Self { dir, pages, sources, python, installed, glibc: (2, 36) }
        }

        fn resolve(&self) -> Result<LockedPython> {
            self.resolve_keeping(&mut Vec::new())
        }

        fn resolve_keeping(&self, kept: &mut Vec<String>) -> Result<LockedPython> {
            let interpreter = Interpreter {
                version: "3.11.2".to_owned(),
                minor: 11,
                arch: Arch::Amd64,
                glibc: self.glibc,
                installed: self.installed.clone(),
            };
            resolve(
                &self.python,
                self.dir.path(),
                &interpreter,
                &self.sources,
                &self.pages,
                &|_| {},
                kept,
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

        fn write(&self, name: &str, text: &str) {
            let path = self.dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// A program that stands for uv, and answers with this text.
        fn uv(&mut self, answer: &str) {
            let [text, path] = ["uv.sh", "uv"].map(|name| self.dir.path().join(name));
            let script = format!(
                "#!/bin/sh\necho \"$*\" > \"${{0%/*}}/asked\"\ncat > \"${{0%/*}}/lines\"\ncat <<'END'\n{answer}\nEND\n"
            );
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
        let says = "cannot add the wheel `old`: `locks/pylock.toml` line 3 asks for this package, and gives only its sources, `old-1.tar.gz`";
        assert_eq!(error, says);
        assert!(hint.contains("`build = true`"), "{hint}");
        // A wheel of one's own ends the search.
        case.write("old-1-py3-none-any.whl", "PK");
        case.python.wheels = vec!["old-1-py3-none-any.whl".into()];
        assert_eq!(case.files(), [file, "old-1-py3-none-any.whl"]);
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
                "cannot add the wheel `only-windows==1`: `requirements.txt` line 1 requires this package, which has no wheel for Python 3.11 on x86_64 with glibc 2.36: there is only `only_windows-1-cp311-cp311-win_amd64.whl`",
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
                "install uv with `pip install uv`, and run the same command again",
            ),
            (
                "a @ git+https://x.example/a@v1".to_owned(),
                "`git+https://x.example/a@v1` is a repository, and an image takes wheels",
                "set `build = true` in `[python]`",
            ),
            (
                "numpy\n-e ./mine".to_owned(),
                "line 2: `mine` is a folder with sources",
                "set `build = true` in `[python]`",
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

    /// uv's answer for these wheels.
    fn answer(files: &[&str]) -> String {
        let mut text = "lock-version = \"1.0\"\n".to_owned();
        for file in files {
            let name = file.split('-').next().unwrap();
            let sha = sha(file);
            text.push_str(&format!("[[packages]]\nname = \"{name}\"\nwheels = [{{ url = \"{FILES}/{file}\", hashes = {{ sha256 = \"{sha}\" }} }}]\n"));
        }
        text
    }

    const NUMPY: &str = "numpy-2.0-cp311-cp311-manylinux_2_17_x86_64.whl";

    #[test]
    fn uv_finds_versions_where_there_are_none() {
        let mut case = Case::new(
            "-r more/a.txt\nnumpy>=2 ; python_version > '3'\n--find-links wheels\n--extra-index-url https://e.example/\n--pre\n",
        );
        case.write("more/a.txt", "-c ../c.txt\n-r ../requirements.txt\ntomli\n");
        case.write("c.txt", "tomli<2\n");
        case.uv(&answer(&[NUMPY, "tomli-1.0-py3-none-any.whl"]));
        assert_eq!(case.files(), [NUMPY, "tomli-1.0-py3-none-any.whl"]);
        let read = |name: &str| fs::read_to_string(case.dir.path().join(name)).unwrap();
        let asked = read("asked");
        for words in [
            "pip compile - --format pylock.toml --python-version 3.11.2 --python-platform x86_64-manylinux_2_36 ",
            "--only-binary :all:",
            "--default-index https://base.example",
            "--index https://e.example --index-strategy unsafe-best-match",
            "--prerelease allow",
            &format!("--find-links {}/wheels", case.dir.path().display()),
        ] {
            assert!(asked.contains(words), "{words} in {asked}");
        }
        assert_eq!(read("lines"), "tomli\nnumpy>=2 ; python_version > '3'\n");
        // After a change of a file that another includes, the digest of the inputs is another one.
        let before = case.resolve().unwrap().inputs;
        case.write("c.txt", "tomli<3\n");
        assert_ne!(case.resolve().unwrap().inputs, before);
        for (answer, says) in [
            ("", "uv's answer is empty"),
            ("lock-version = \"1.0\"", "uv's answer has no package, and `tomli` is needed"),
        ] {
            case.uv(answer);
            assert!(case.refused().0.contains(says), "{}", case.refused().0);
        }
        case.uv("lock-version = \"1.0\"\n[[packages]]\nname = \"numpy\"\nversion = \"2\"\nvcs = { type = \"git\", url = \"https://x.example/a\", commit-id = \"0a\" }");
        let (error, _) = case.refused();
        assert!(
            error.contains(
                "`requirements.txt` line 2 asks for this package, and gives only the repository"
            ),
            "{error}"
        );
    }

    #[test]
    fn what_uv_says_comes_with_what_helps() {
        for (text, said, says, helps) in [
            (
                "numpy",
                "error: No solution found when resolving dependencies\n  cause: Because a\n\nhint: b",
                "uv cannot choose versions: Because a",
                "",
            ),
            (
                "numpy",
                "hint: Wheels are required for `a` because building from source is disabled",
                "",
                "set `build = true` in `[python]`",
            ),
            (
                "numpy",
                "error: unexpected argument '--format' found",
                "",
                "pip install --upgrade uv",
            ),
            (
                "torch==2.0+cu118",
                "no version of torch==2.0+cu118",
                "",
                "`--extra-index-url https://download.pytorch.org/whl/cu118`",
            ),
        ] {
            let mut case = Case::new(text);
            case.uv(&format!("END\ncat >&2 <<'END'\n{said}\nEND\nexit 1\ncat <<'END'"));
            let (error, hint) = case.refused();
            assert!(error.contains(says), "{error}");
            assert!(hint.contains(helps), "{said}: {hint}");
        }
        // For another Python there are versions.
        let mut case = Case::new("numpy==1.19");
        case.uv("END\ncase \"$*\" in *3.9.2*) exit 0;; esac; echo none >&2; exit 1\ncat <<'END'");
        assert_eq!(
            case.refused().1,
            "write `debian = \"bullseye\"` in `[base]`: it has Python 3.9"
        );
    }

    #[test]
    fn a_python_that_does_not_fit_is_said_with_the_base_that_has_it() {
        let check = |text: &str, says: &str, helps: &str| {
            let case = Case::new(text);
            let (error, hint) = case.refused();
            assert!(error.contains(says), "{error}");
            assert!(hint.contains(helps), "{hint}");
        };
        check(
            "lock-version = \"1.0\"\nrequires-python = \">=3.12\"\n",
            "`requirements.txt` line 2: it is for Python >=3.12, and the image has Python 3.11.2",
            "write `debian = \"trixie\"` in `[base]`: it has Python 3.13",
        );
        check(
            "dependencies:\n- python=3.9\n- pip:\n  - numpy\n",
            "line 2: it is for Python ==3.9.*, and the image has",
            "`debian = \"bullseye\"`",
        );
        check(
            "[project]\nname = \"a\"\nrequires-python = \"<3.9\"\n",
            "line 3: it is for Python <3.9",
            "write `oci = \"docker://python:3.8-slim-bookworm\"` in `[base]`: it has Python 3.8",
        );
        check(
            "[project]\nname = \"a\"\nrequires-python = \"<3.8\"\n",
            "line 3: it is for Python <3.8",
            "trixie has 3.13, bookworm has 3.11, bullseye has 3.9, docker://python:3.14-slim",
        );
        let old = sha("old-1-cp39-cp39-manylinux_2_17_x86_64.whl");
        let mut case = Case::new(&format!("old==1 --hash=sha256:{old}"));
        let page =
            format!("<a href=\"{FILES}/old-1-cp39-cp39-manylinux_2_17_x86_64.whl#sha256={old}\">");
        case.pages.0.insert("https://base.example/old/".to_owned(), page);
        assert!(case.refused().1.starts_with("write `debian = \"bullseye\"` in `[base]`"));
    }

    #[test]
    fn uv_hears_of_what_the_base_has_and_that_is_kept() {
        let mut case = Case::new("numpy>1\nother");
        case.installed = [("numpy", "1.26.4+build"), ("other", "1.0")]
            .map(|(name, version)| (name.to_owned(), version.parse().unwrap()))
            .into();
        let answer = "lock-version = \"1.0\"\n[[packages]]\nname = \"numpy\"\nversion = \"1.26.4\"\n[[packages]]\nname = \"other\"\nversion = \"2.0\"\n";
        let to_file = format!(
            "END\nwhile [ \"$1\" != --output-file ]; do shift; done\ncp \"$2\" there\ncat > \"$2\" <<'END'\n{answer}"
        );
        case.uv(&to_file);
        let mut kept = Vec::new();
        // The answer names no wheel of the other one.
        let error = case.resolve_keeping(&mut kept).unwrap_err().to_string();
        assert!(error.contains("other==2.0"), "{error}");
        assert_eq!(kept, ["numpy"]);
        let there = fs::read_to_string(case.dir.path().join("there")).unwrap();
        assert!(there.contains("name = \"numpy\"\nversion = \"1.26.4\"\n"), "{there}");
    }

    #[test]
    fn wheels_of_this_machine_go_in_by_their_paths() {
        let mut case = Case::new("");
        let file = "dist/Mine-1.0-cp39-abi3-linux_x86_64.whl";
        case.write(file, "PK");
        case.python.wheels = vec![file.into()];
        let first = case.resolve().unwrap();
        let mine = &first.wheels[0];
        assert_eq!(
            (mine.name.as_str(), mine.urls[0].as_str()),
            ("mine", "./dist/Mine-1.0-cp39-abi3-linux_x86_64.whl")
        );
        assert_eq!(mine.sha256, Sha256::of(b"PK"));
        case.python.wheels = vec!["dist/M?ne-*.whl".into()];
        assert_eq!(case.resolve().unwrap().wheels, first.wheels);
        case.write(file, "PKother");
        assert_ne!(case.resolve().unwrap().inputs, first.inputs);
        // Of two builds, the one for the image is taken.
        case.write("dist/Mine-1.0-cp312-cp312-linux_x86_64.whl", "PK");
        assert_eq!(case.files(), ["Mine-1.0-cp39-abi3-linux_x86_64.whl"]);
        case.write("dist/Mine-2.0-py3-none-any.whl", "PK");
        case.write("dist/page-2.0-py3-none-any.whl", "<!DOCTYPE html>");
        case.write("dist/mine-2.0.tar.gz", "x");
        for (path, says, helps) in [
            ("dist/Mine-*.whl", "it is a wheel of `mine`, and so is", "write the full name of one"),
            (
                "dist/Mine-*cp312*.whl",
                "this wheel is not for Python 3.11 on x86_64",
                "build it with Python 3.11",
            ),
            (
                "dist/o*.whl",
                "no file has a name like this",
                "`dist` has `Mine-1.0-cp312-cp312-linux_x86_64.whl`, `Mine-1.0-",
            ),
            (
                "requirements.txt",
                "cannot use `requirements.txt`: this is not a wheel",
                "write `requirements = \"requirements.txt\"`",
            ),
            (
                "dist/page*.whl",
                "it has the name of a wheel, but is not a ZIP archive",
                "fetch or build it again",
            ),
            (
                "dist/mine-2.0.tar.gz",
                "this is an archive with sources, not a wheel",
                "pip wheel --no-deps dist/mine-2.0.tar.gz",
            ),
            ("dist", "this is a folder, not a wheel", "`dist/*.whl`"),
        ] {
            case.python.wheels = vec![path.into()];
            let (error, hint) = case.refused();
            assert!(error.contains(says), "{error}");
            assert!(hint.contains(helps), "{hint}");
        }
    }

    #[test]
    fn own_wheels_are_taken_out_of_what_is_looked_up() {
        // All else is pinned: uv is not asked.
        let mut case = Case::new(&format!("mine[x]>=1\n{}", numpy()));
        case.write("dist/mine-1.0-py3-none-any.whl", "PK");
        case.python.wheels = vec!["dist/*.whl".into()];
        assert_eq!(case.files(), ["mine-1.0-py3-none-any.whl", NUMPY]);
        // Otherwise uv gets the file, so that it finds what the wheel needs.
        case.write(
            "requirements.txt",
            "mine[x]>=1\nnumpy\n./dist/mine-1.0-py3-none-any.whl\n-e mine\n",
        );
        case.write("mine/pyproject.toml", "[project]\nname = \"Mine\"\n");
        case.uv(&answer(&[NUMPY]));
        assert_eq!(case.files(), ["mine-1.0-py3-none-any.whl", NUMPY]);
        let asked = fs::read_to_string(case.dir.path().join("lines")).unwrap();
        let file = format!("file://{}/dist/mine-1.0-py3-none-any.whl", case.dir.path().display());
        assert_eq!(asked, format!("numpy\nmine[x] @ {file}\n"));
        case.write("requirements.txt", "mine>=2\n");
        let (error, _) = case.refused();
        assert!(
            error.contains("line 1: `mine>=2` is asked for, and `wheels` has version 1.0"),
            "{error}"
        );
    }

    #[test]
    fn files_that_are_no_requirements_are_told_with_the_command_that_helps() {
        for (text, says, helps) in [
            (
                "@EXPLICIT\n",
                "it is an explicit list of conda packages",
                "run `conda create -p ./env --file requirements.txt && conda-pack -p ./env -o env.tar.gz`, and write `archive = \"env.tar.gz\"` in `[conda]`",
            ),
            (
                "[metadata]\nlock_version = \"4\"\n",
                "the lock file of PDM",
                "pdm export -f requirements -o requirements.txt",
            ),
            ("{\"a\": 1}", "it does not name Python packages", "give a `requirements.txt`"),
            ("numpy==1 ; extra", "`extra` is not a marker", ""),
            ("numpy=1.19.2\n", "`numpy=1.19.2` is not a requirement", "write `numpy==1.19.2`"),
            ("-r absent.txt\n", "absent.txt", ""),
            (
                "-r /dev/zero\n",
                "cannot use `/dev/zero`: it is not a file",
                "save its text to a file",
            ),
            ("-c .\n", "it is not a file", ""),
            ("--no-binary numpy\n", "asks for packages that are compiled", "remove this line"),
            (
                "a @ file:///croot/a_1/work",
                "is a folder of the machine that built a conda package",
                "pip list --format=freeze",
            ),
        ] {
            let (error, hint) = Case::new(text).refused();
            assert!(error.contains(says), "{error}");
            assert!(hint.contains(helps), "{hint}");
        }
        let mut case = Case::new("");
        (case.python.lock, case.python.requirements) = (Some("pyproject.toml".into()), None);
        case.write("pyproject.toml", "[project]\nname = \"a\"\n");
        assert_eq!(
            case.refused().1,
            "write `requirements = \"pyproject.toml\"`: its versions are then chosen by `uv`"
        );
        case.write("uv.lock", "");
        assert_eq!(case.refused().1, "write `lock = \"uv.lock\"`");
    }

    /// A program that stands for uv, and builds a wheel of this name. It notes the source.
    fn builder(case: &mut Case, python: bool, wheel: &str) {
        let find = if python { "echo /usr/bin/python3" } else { "exit 1" };
        // An archive without files: ZIP's last record alone.
        let empty = format!("PK\\005\\006{}", "\\000".repeat(18));
        case.uv(&format!("END\ncase $1 in\npython) {find};;\nbuild) mkdir -p $5; for last; do :; done\nls $last > {0}/source\ntest {wheel} != fail || {{ echo broken >&2; exit 1; }}\nprintf '{empty}' > $5/{wheel};;\nesac\ncat <<'END'", case.dir.path().display()));
        case.python.build = true;
    }

    #[test]
    fn a_package_of_sources_is_built_if_the_recipe_says_so() {
        let sdist = |digest: Sha256| {
            format!(
                "lock-version = \"1.0\"\n[[packages]]\nname = \"old\"\nversion = \"1\"\nsdist = {{ path = \"old-1.tar.gz\", hashes = {{ sha256 = \"{digest}\" }} }}\n"
            )
        };
        let mut case = Case::new(&sdist(Sha256::of(b"sources")));
        case.write("old-1.tar.gz", "sources");
        builder(&mut case, true, "old-1-py3-none-any.whl");
        let found = case.resolve().unwrap();
        let key = Sha256::of(b"sources").to_string();
        let url = format!("./built-wheels/{}/old-1-py3-none-any.whl", &key[..16]);
        assert_eq!(found.wheels[0].urls, [url.as_str()]);
        assert_eq!(found.wheels[0].sha256, Sha256::of_file(&case.dir.path().join(url)).unwrap());
        // Builders run in the recipe's folder, and hear which index to ask.
        let asked = fs::read_to_string(case.dir.path().join("asked")).unwrap();
        assert!(asked.contains("--default-index https://base.example"), "{asked}");
        // What was built is kept.
        case.sources.uv = None;
        assert_eq!(case.resolve().unwrap(), found);
        // Only for an image whose C library suits it.
        let kept = case.dir.path().join("built-wheels").join(&key[..16]);
        let wheel = fs::File::create(kept.join("old-1-cp311-cp311-linux_x86_64.whl")).unwrap();
        fs::remove_file(kept.join("old-1-py3-none-any.whl")).unwrap();
        let mut zip = zip::ZipWriter::new(wheel);
        zip.start_file("x.so", zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&fs::read("/bin/sh").unwrap()).unwrap();
        zip.finish().unwrap();
        case.glibc = (99, 0);
        assert_eq!(case.files(), ["old-1-cp311-cp311-linux_x86_64.whl"]);
        case.glibc = (2, 1);
        assert!(case.refused().1.contains("pip install uv"));
        case.glibc = (2, 36);
        fs::remove_dir_all(case.dir.path().join("built-wheels")).unwrap();
        assert!(case.refused().1.contains("pip install uv"));
        for (python, wheel, says, helps) in [
            (true, "fail", "it cannot be built: broken", "build its wheel yourself"),
            (true, "other-1-py3-none-any.whl", "has another name", ""),
            (
                false,
                "old-1-cp312-cp312-linux_x86_64.whl",
                "it has compiled code, and `old-1-cp312-cp312-linux_x86_64.whl` is not for Python 3.11",
                "uv python install 3.11",
            ),
            (
                true,
                "old-1-cp311-cp311-linux_aarch64.whl",
                "is not for Python 3.11 on x86_64",
                "on a machine like the image",
            ),
        ] {
            builder(&mut case, python, wheel);
            let (error, hint) = case.refused();
            assert!(error.contains(says), "{error}");
            assert!(hint.contains(helps), "{hint}");
        }
        case.write("requirements.txt", &sdist(Sha256::of(b"other")));
        assert!(matches!(case.resolve().unwrap_err(), Error::Digest { .. }));
    }

    #[test]
    fn a_commit_is_checked_out_and_built() {
        let mut case = Case::new("");
        case.write("repository/inside/here.txt", "x");
        case.write("other/there.txt", "x");
        let git = |folder: &str, words: &[&str]| {
            let mut git = std::process::Command::new("git");
            git.arg("-C").arg(case.dir.path().join(folder));
            git.args(["-c", "protocol.file.allow=always"]).args(words);
            git.output().ok().filter(|out| out.status.success())
        };
        let commit = |folder: &str| {
            git(folder, &["add", "."])?;
            let names = ["-c", "user.name=a", "-c", "user.email=a@b"];
            git(folder, &[&names[..], &["commit", "--quiet", "-m", "a"]].concat())?;
            String::from_utf8(git(folder, &["rev-parse", "HEAD"])?.stdout).ok()
        };
        let with_submodule = || {
            git("other", &["init", "--quiet"])?;
            commit("other")?;
            git("repository", &["init", "--quiet"])?;
            let other = format!("file://{}/other", case.dir.path().display());
            git("repository", &["submodule", "--quiet", "add", &other, "inside/sub"])?;
            commit("repository")
        };
        let Some(commit) = with_submodule() else {
            eprintln!("skipped: git is missing");
            return;
        };
        let lock = |commit: &str, inside: &str| {
            format!(
                "lock-version = \"1.0\"\n[[packages]]\nname = \"own\"\nvcs = {{ type = \"git\", url = \"file://{}/repository\", commit-id = \"{commit}\", subdirectory = \"{inside}\" }}\n",
                case.dir.path().display()
            )
        };
        let texts = [
            lock(commit.trim(), "inside/sub"),
            lock(commit.trim(), "inside"),
            lock(commit.trim(), "../.."),
            lock(&"0".repeat(40), "inside"),
            lock("main --x", "inside"),
        ];
        let [submodule, good, outside, unknown, option] = texts;
        builder(&mut case, true, "own-3-py3-none-any.whl");
        for (text, files) in [(good, "here.txt\nsub\n"), (submodule, "there.txt\n")] {
            case.write("requirements.txt", &text);
            assert_eq!(case.files(), ["own-3-py3-none-any.whl"]);
            assert_eq!(fs::read_to_string(case.dir.path().join("source")).unwrap(), files);
        }
        for (text, says) in [
            (outside, "is outside its repository"),
            (unknown, "its commit cannot be fetched"),
            (option, "is not a commit of a public repository"),
        ] {
            case.write("requirements.txt", &text);
            assert!(case.refused().0.contains(says), "{}", case.refused().0);
        }
    }
}
