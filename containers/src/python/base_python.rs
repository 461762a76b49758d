//! The Python of an image that another image is built on: found by its files, since nothing of a
//! base is run.
//!
//! ```text
//! PATH of the image ─▶ python3 ─ link, link ▶ python3.11 ─▶ prefix ─▶ kind, folder of packages
//! ```

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;

use super::interpreter::Interpreter;
use super::scheme::Scheme;
use crate::elf::ElfFacts;
use crate::rootfs::{FileBytes, RootPath, Rootfs, What};
use crate::sif::Arch;
use crate::wheel::normal;
use crate::{Error, Result};

/// The search path of an image that names none, as Docker has it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Largest text that is read: `RECORD`, `METADATA`, `patchlevel.h`.
const MAX_TEXT: u64 = 64 << 20;
/// Largest program or library in which a version is looked for.
const MAX_PROGRAM: u64 = 256 << 20;

/// One way in which a Python is installed.
struct PythonKind {
    name: &'static str,
    /// A file that tells, below the prefix.
    sign: &'static str,
    /// Where packages are installed, from the prefix.
    site: Site,
}

enum Site {
    /// `lib/python3.N/site-packages` of the prefix itself.
    Own,
    /// `local/lib/python3.N/dist-packages` of the prefix.
    Debian,
}

/// The kinds; the first one whose sign is there counts. A virtual environment: PEP 405. conda:
/// <https://docs.conda.io/projects/conda/en/stable/user-guide/concepts/environments.html>. Debian
/// and Ubuntu: Debian Python Policy, 1.1 "Module Path". The last one is CPython's own scheme
/// (`posix_prefix` of `sysconfig`), which `python:3.N` and uv's builds have.
const KINDS: [PythonKind; 4] = [
    PythonKind { name: "a virtual environment", sign: "pyvenv.cfg", site: Site::Own },
    PythonKind { name: "conda", sign: "conda-meta", site: Site::Own },
    PythonKind { name: "Debian's", sign: "lib/python3/dist-packages", site: Site::Debian },
    PythonKind { name: "CPython's own build", sign: "", site: Site::Own },
];

/// The Python of a base image.
#[derive(Debug)]
pub(crate) struct BasePython {
    pub(crate) interpreter: Interpreter,
    pub(crate) scheme: Scheme,
    /// How it is installed: `conda`.
    pub(crate) kind: &'static str,
    /// Other Pythons on the search path.
    pub(crate) others: Vec<String>,
    /// Packages that are there, by name.
    pub(crate) packages: BTreeMap<String, BaseWheel>,
}

/// A package that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaseWheel {
    pub(crate) name: String,
    pub(crate) version: Version,
    /// Its `.dist-info`.
    folder: RootPath,
    /// Whether it is in the folder in which wheels are installed; others are only hidden by them.
    is_in_site: bool,
}

impl BasePython {
    /// Finds the Python of a base, or takes the one whose path is `chosen`.
    ///
    /// # Errors
    /// [`Error::Python`] when there is none, or none that wheels can be installed for.
    pub(crate) fn find(
        tree: &Rootfs,
        env: &BTreeMap<String, String>,
        arch: Arch,
        chosen: Option<&str>,
    ) -> Result<Self> {
        let mut programs = programs(tree, env);
        let program = match chosen {
            Some(path) => RootPath::new(path)?,
            None if programs.is_empty() => {
                return Err(none("no folder of its `PATH` has a program `python3` or `python`"));
            }
            None => programs.remove(0),
        };
        let Some((real, node)) = tree.follow(&program) else {
            return Err(none(format!("it has no `{program}`")));
        };
        let facts = match &node.what {
            What::File(source) => ElfFacts::read(source)?,
            _ => None,
        };
        let Some(facts) = facts else {
            return Err(none(format!("`{program}` is not a program")));
        };
        let loader = facts.interpreter.unwrap_or_default();
        if loader.contains("ld-musl") {
            return Err(none(format!(
                "`{program}` is linked to musl, as in Alpine, and wheels of this image would need glibc"
            )));
        }
        let prefix = prefix(tree, &program);
        let home = prefix_of(&real);
        let (minor, library) = library(tree, &real, &[&prefix, &home]).ok_or_else(|| {
            none(format!("`{program}` has no standard library `lib/python3.N` beside it"))
        })?;
        let kind = KINDS.iter().find(|kind| tree.follow(&below(&prefix, kind.sign)).is_some());
        let [.., own] = &KINDS;
        let kind = kind.unwrap_or(own);
        let folder = match kind.site {
            Site::Own => below(&prefix, &format!("lib/python3.{minor}/site-packages")),
            Site::Debian => below(&prefix, &format!("local/lib/python3.{minor}/dist-packages")),
        };
        let installed_below = match kind.site {
            Site::Own => prefix.clone(),
            Site::Debian => below(&prefix, "local"),
        };
        let version = version(tree, env, &home, &real, minor)?
            .ok_or_else(|| none(format!("the version of `{program}` cannot be found")))?;
        let glibc = glibc(tree)?
            .ok_or_else(|| none("its C library is not glibc, or of an unknown version"))?;
        let mut searched = vec![folder.clone()];
        if matches!(kind.site, Site::Debian) {
            searched.push(below(&prefix, "lib/python3/dist-packages"));
        }
        let packages = packages(tree, &searched)?;
        let shown = |path: &RootPath| path.to_string();
        let others = programs.iter().filter(|other| **other != program).map(shown).collect();
        let installed = packages.values().map(|p: &BaseWheel| (p.name.clone(), p.version.clone()));
        Ok(Self {
            interpreter: Interpreter {
                version,
                minor,
                arch,
                glibc,
                installed: installed.collect(),
            },
            scheme: Scheme {
                minor,
                program: program.to_string(),
                library: library.as_str().to_owned(),
                prefix: installed_below.as_str().to_owned(),
                site: folder.as_str().to_owned(),
            },
            kind: kind.name,
            others,
            packages,
        })
    }

    /// The packages that wheels of these names replace. Those in other folders stay, and are hidden.
    pub(crate) fn replaced<'w>(&self, wheels: impl Iterator<Item = &'w str>) -> Vec<BaseWheel> {
        wheels.filter_map(|name| self.packages.get(name)).cloned().collect()
    }
}

impl BaseWheel {
    /// Removes the package's files, as its `RECORD` lists them, with their byte code.
    ///
    /// # Errors
    /// [`Error::Io`] when `RECORD` cannot be read.
    pub(crate) fn remove(&self, tree: &mut Rootfs) -> Result<()> {
        let Some(site) = self.folder.parent().filter(|_| self.is_in_site) else { return Ok(()) };
        let record = tree.text(&self.folder.join("RECORD"), MAX_TEXT)?.unwrap_or_default();
        let mut folders = BTreeSet::new();
        for line in record.lines() {
            let Some(path) = record_path(line) else { continue };
            // What leads outside of the image stays where it is.
            let Some(path) = RootPath::inside(&format!("{site}/{path}")) else { continue };
            for path in byte_code(tree, &path).into_iter().chain([path]) {
                // A folder is not a file of a package, whatever `RECORD` says.
                let is_file = tree.get(&path).is_some_and(|node| node.what != What::Dir);
                if is_file {
                    tree.remove(&path);
                    folders.extend(path.parent());
                }
            }
        }
        tree.remove(&self.folder);
        // Folders that are empty now, the deepest first; none above the folder of packages.
        while let Some(folder) = folders.pop_last() {
            let is_below = folder.as_str().starts_with(site.as_str()) && folder != site;
            if is_below && tree.get(&folder).is_some() && tree.children(&folder).next().is_none() {
                tree.remove(&folder);
                folders.extend(folder.parent());
            }
        }
        Ok(())
    }
}

fn none(reason: impl Into<String>) -> Error {
    Error::Python { reason: reason.into() }
}

/// The programs `python3` and `python` on the search path, the first one first. A program that two
/// names lead to is there once.
fn programs(tree: &Rootfs, env: &BTreeMap<String, String>) -> Vec<RootPath> {
    let path = env.get("PATH").map_or(PATH, String::as_str);
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for folder in path.split(':').filter(|folder| folder.starts_with('/')) {
        let Some(folder) = RootPath::inside(folder) else { continue };
        // What a folder itself leads to, but not the program: a virtual environment's is a link.
        let folder = tree.follow(&folder).map_or(folder, |(real, _)| real);
        for name in ["python3", "python"] {
            let path = folder.join(name);
            let Some((real, node)) = tree.follow(&path) else { continue };
            let is_program = matches!(node.what, What::File(_)) && node.mode & 0o111 != 0;
            // Python 2 has the name `python`, too.
            let is_old = real.name().starts_with("python2");
            if is_program && !is_old && seen.insert((prefix(tree, &path), real)) {
                found.push(path);
            }
        }
    }
    found
}

/// The folder above `bin`, of a program as it is called; that of a virtual environment, if the
/// program is one's.
fn prefix(tree: &Rootfs, program: &RootPath) -> RootPath {
    let own = prefix_of(program);
    if tree.follow(&own.join("pyvenv.cfg")).is_some() {
        return own;
    }
    // `/usr/bin/python3` may lead to `/opt/conda/bin/python3.11`.
    tree.follow(program).map_or(own, |(real, _)| prefix_of(&real))
}

fn prefix_of(program: &RootPath) -> RootPath {
    program.parent().and_then(|bin| bin.parent()).unwrap_or(RootPath::ROOT)
}

fn below(folder: &RootPath, path: &str) -> RootPath {
    path.split('/').filter(|part| !part.is_empty()).fold(folder.clone(), |at, part| at.join(part))
}

/// The minor number, and the folder of the standard library.
fn library(tree: &Rootfs, real: &RootPath, prefixes: &[&RootPath]) -> Option<(u32, RootPath)> {
    let named = real.name().strip_prefix("python3.").and_then(|number| number.parse::<u32>().ok());
    for prefix in prefixes {
        let lib = prefix.join("lib");
        let folders = tree.children(&lib).filter_map(|(path, _)| {
            let minor = path.name().strip_prefix("python3.")?.parse::<u32>().ok()?;
            let is_meant = named.is_none_or(|named| named == minor);
            let has_library = tree.follow(&path.join("os.py")).is_some();
            (is_meant && has_library).then_some((minor, path))
        });
        if let Some(found) = folders.max_by_key(|(minor, _)| *minor) {
            return Some(found);
        }
    }
    None
}

/// The whole version: that in the header of the same build, else the one in the program or its
/// library, else `PYTHON_VERSION`, which images called `python` set.
fn version(
    tree: &Rootfs,
    env: &BTreeMap<String, String>,
    home: &RootPath,
    real: &RootPath,
    minor: u32,
) -> Result<Option<String>> {
    let begin = format!("3.{minor}.");
    let header = below(home, &format!("include/python3.{minor}/patchlevel.h"));
    if let Some(text) = tree.text(&header, MAX_TEXT)? {
        let mut words =
            text.lines().filter_map(|line| line.trim().strip_prefix("#define PY_VERSION"));
        let found = words.find_map(|rest| rest.trim().strip_prefix('"')?.split('"').next());
        if let Some(found) = found.filter(|found| found.starts_with(&begin)) {
            return Ok(Some(found.trim_end_matches('+').to_owned()));
        }
    }
    let library = below(home, &format!("lib/libpython3.{minor}.so.1.0"));
    for path in [real, &library] {
        let Some((_, node)) = tree.follow(path) else { continue };
        let What::File(source) = &node.what else { continue };
        if let Some(found) = version_in(source, &begin)? {
            return Ok(Some(found));
        }
    }
    let said = env.get("PYTHON_VERSION").filter(|version| version.starts_with(&begin));
    Ok(said.cloned())
}

/// A text `3.11.2` between two zero bytes.
fn version_in(source: &FileBytes, begin: &str) -> Result<Option<String>> {
    if source.len() > MAX_PROGRAM {
        return Ok(None);
    }
    let bytes = match source {
        FileBytes::Bytes(bytes) => bytes.to_vec(),
        FileBytes::File { path, .. } => std::fs::read(path).map_err(Error::io("read", path))?,
    };
    let found = memchr::memmem::find_iter(&bytes, begin.as_bytes()).find_map(|at| {
        let is_begin = at == 0 || bytes.get(at - 1) == Some(&0);
        let rest = bytes.get(at + begin.len()..)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_end = rest.get(digits).is_some_and(|byte| matches!(byte, 0 | b'+'));
        let patch = std::str::from_utf8(rest.get(..digits)?).ok()?;
        (is_begin && is_end && (1..=3).contains(&digits)).then(|| format!("{begin}{patch}"))
    });
    Ok(found)
}

/// The newest version of symbols that the C library offers.
fn glibc(tree: &Rootfs) -> Result<Option<(u32, u32)>> {
    let mut newest = None;
    for (path, node) in tree.iter().filter(|(path, _)| path.name() == "libc.so.6") {
        let source = match &node.what {
            What::File(source) => source,
            // `libc-2.31.so` of older releases.
            _ => match tree.follow(path).map(|(_, node)| &node.what) {
                Some(What::File(source)) => source,
                _ => continue,
            },
        };
        let Ok(Some(facts)) = ElfFacts::read(source) else { continue };
        for version in &facts.versions_offered {
            let numbers = version.strip_prefix("GLIBC_").and_then(|v| v.split_once('.'));
            let Some((major, minor)) = numbers else { continue };
            let minor = minor.split('.').next().unwrap_or_default();
            if let (Ok(major), Ok(minor)) = (major.parse(), minor.parse()) {
                newest = newest.max(Some((major, minor)));
            }
        }
    }
    Ok(newest)
}

/// The packages in these folders; one in an earlier folder hides others of its name.
fn packages(tree: &Rootfs, folders: &[RootPath]) -> Result<BTreeMap<String, BaseWheel>> {
    let mut found = BTreeMap::new();
    for (n, site) in folders.iter().enumerate() {
        for (folder, node) in tree.children(site) {
            if node.what != What::Dir {
                continue;
            }
            let Some(stem) = folder.name().strip_suffix(".dist-info") else { continue };
            let Some((name, version)) = stem.split_once('-') else { continue };
            // Conda writes names otherwise than wheels; `METADATA` has the right ones.
            let metadata = tree.text(&folder.join("METADATA"), MAX_TEXT)?.unwrap_or_default();
            let field = |wanted: &str| {
                let mut lines = metadata.lines().take_while(|line| !line.trim().is_empty());
                lines.find_map(|line| line.strip_prefix(wanted)).map(str::trim)
            };
            let name = normal(field("Name:").unwrap_or(name));
            let Ok(version) = field("Version:").unwrap_or(version).parse::<Version>() else {
                continue;
            };
            let is_in_site = n == 0;
            let present = BaseWheel { name: name.clone(), version, folder, is_in_site };
            found.entry(name).or_insert(present);
        }
    }
    Ok(found)
}

/// The byte code of a source.
fn byte_code(tree: &Rootfs, source: &RootPath) -> Vec<RootPath> {
    let (Some(stem), Some(dir)) = (source.name().strip_suffix(".py"), source.parent()) else {
        return Vec::new();
    };
    let begin = format!("{stem}.cpython-");
    let folder = dir.join("__pycache__");
    let compiled = tree.children(&folder);
    compiled.filter(|(path, _)| path.name().starts_with(&begin)).map(|(path, _)| path).collect()
}

/// The path in a line of `RECORD`, which may be in quotes.
fn record_path(line: &str) -> Option<String> {
    match line.strip_prefix('"') {
        Some(rest) => {
            let end = rest.find("\",")?;
            Some(rest.get(..end)?.replace("\"\"", "\""))
        }
        None => line.split(',').next().filter(|path| !path.is_empty()).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rootfs::Layer;

    fn path(text: &str) -> RootPath {
        RootPath::new(text).unwrap()
    }

    /// A tree with a C library, and these files, links (`a -> b`) and programs (`!a`): this test's
    /// own program stands for a Python.
    fn tree(names: &[&str]) -> Rootfs {
        let mut tree = Rootfs::default();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.lines().find_map(|line| {
            line.find('/').map(|at| &line[at..]).filter(|path| path.ends_with("/libc.so.6"))
        });
        let libc = FileBytes::of(libc.unwrap().as_ref()).unwrap();
        tree.add(Layer::Base, &path("lib/libc.so.6"), 0o755, What::File(libc)).unwrap();
        for name in names {
            if let Some((link, target)) = name.split_once(" -> ") {
                let what = What::Symlink(target.to_owned());
                tree.add(Layer::Base, &path(link), 0o777, what).unwrap();
            } else if let Some(program) = name.strip_prefix('!') {
                let what = FileBytes::of(&std::env::current_exe().unwrap()).unwrap();
                tree.add(Layer::Base, &path(program), 0o755, What::File(what)).unwrap();
            } else {
                let (name, text) = name.split_once('=').unwrap_or((name, ""));
                tree.add_text(Layer::Base, &path(name), 0o644, text).unwrap();
            }
        }
        tree
    }

    fn find(tree: &Rootfs, search: &str, chosen: Option<&str>) -> Result<BasePython> {
        let env = BTreeMap::from([
            ("PATH".to_owned(), search.to_owned()),
            ("PYTHON_VERSION".to_owned(), "3.12.4".to_owned()),
        ]);
        BasePython::find(tree, &env, Arch::Amd64, chosen)
    }

    const USUAL: [&str; 12] = [
        "!usr/bin/python3.11",
        "usr/bin/python3 -> python3.11",
        "usr/lib/python3.11/os.py",
        "usr/lib/python3/dist-packages/yaml-6.0.dist-info/METADATA=Name: PyYAML\nVersion: 6.0\n",
        "usr/include/python3.11/patchlevel.h=#define PY_VERSION              \"3.11.2\"\n",
        "!opt/conda/bin/python3.12",
        "opt/conda/bin/python -> python3.12",
        "opt/conda/bin/python3 -> python3.12",
        "opt/conda/lib/python3.12/os.py",
        "opt/conda/conda-meta/history",
        "opt/venv/pyvenv.cfg",
        "opt/venv/bin/python3 -> /opt/conda/bin/python3",
    ];

    #[test]
    fn the_first_python_on_the_search_path_is_taken() {
        let tree = tree(&USUAL);
        let check = |search: &str, chosen: Option<&str>, expected: [&str; 5], others: &[&str]| {
            let found = find(&tree, search, chosen).unwrap();
            let Scheme { program, site, prefix, .. } = &found.scheme;
            let said = [program, found.kind, &found.interpreter.version, site, prefix];
            assert_eq!(said, expected, "{search} {chosen:?}");
            assert_eq!(found.others, others, "{search} {chosen:?}");
        };
        let debian = [
            "/usr/bin/python3",
            "Debian's",
            "3.11.2",
            "usr/local/lib/python3.11/dist-packages",
            "usr/local",
        ];
        let conda = [
            "/opt/conda/bin/python3",
            "conda",
            "3.12.4",
            "opt/conda/lib/python3.12/site-packages",
            "opt/conda",
        ];
        let venv = [
            "/opt/venv/bin/python3",
            "a virtual environment",
            "3.12.4",
            "opt/venv/lib/python3.12/site-packages",
            "opt/venv",
        ];
        check("/usr/bin:/opt/none", None, debian, &[]);
        check("/opt/conda/bin:/usr/bin", None, conda, &["/usr/bin/python3"]);
        check("/opt/venv/bin:/usr/bin", None, venv, &["/usr/bin/python3"]);
        check("/usr/bin", Some("/opt/conda/bin/python3"), conda, &["/usr/bin/python3"]);
        let found = find(&tree, "/usr/bin", None).unwrap();
        assert!(found.interpreter.has("pyyaml", &"6.0".parse().unwrap()));
        assert!(!found.interpreter.has("pyyaml", &"5".parse().unwrap()));
    }

    #[test]
    fn a_base_without_a_python_says_so() {
        let check = |names: &[&str], expected: &str| {
            let error = find(&tree(names), "/usr/bin", None).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[], "no folder of its `PATH` has a program");
        check(&["!usr/bin/python2.7", "usr/bin/python -> python2.7"], "no folder of its `PATH`");
        check(&["!usr/bin/python3"], "has no standard library");
        check(
            &["!usr/bin/python3.10", "usr/bin/python3 -> python3.10", "usr/lib/python3.10/os.py"],
            "the version of",
        );
        let error = find(&tree(&USUAL), "/usr/bin", Some("/opt/other")).unwrap_err().to_string();
        assert!(error.contains("it has no `/opt/other`"), "{error}");
    }

    #[test]
    fn a_package_goes_with_all_its_files() {
        let site = "opt/conda/lib/python3.12/site-packages";
        let record = "a/__init__.py,,\na/b/c.py,,\n\"a/x,y\",,\n../../../bin/a,,\n../../../../../../etc/passwd,,\na-1.dist-info/RECORD,,\n../../../lib,,\n";
        let names = [
            format!("{site}/a-1.dist-info/METADATA=Name: A\nVersion: 1\n"),
            format!("{site}/a-1.dist-info/RECORD={record}"),
            format!("{site}/a/__init__.py"),
            format!("{site}/a/__pycache__/__init__.cpython-312.pyc"),
            format!("{site}/a/b/c.py"),
            format!("{site}/a/x,y"),
            format!("{site}/other.py"),
            "opt/conda/bin/a".to_owned(),
            "etc/group".to_owned(),
        ];
        let names: Vec<&str> = USUAL.into_iter().chain(names.iter().map(String::as_str)).collect();
        let mut tree = tree(&names);
        let found = find(&tree, "/opt/conda/bin", None).unwrap();
        let replaced = found.replaced(["a", "none"].into_iter());
        assert_eq!(replaced.len(), 1);
        replaced[0].remove(&mut tree).unwrap();
        let site = path(site);
        let left = tree.children(&site).map(|(path, _)| path.name().to_owned());
        assert_eq!(left.collect::<Vec<_>>(), ["other.py"]);
        assert!(tree.get(&path("opt/conda/bin/a")).is_none());
        assert!(tree.get(&path("opt/conda/lib/python3.12/os.py")).is_some());
    }

    #[test]
    fn a_version_is_found_in_a_program() {
        let of = |text: &[u8]| version_in(&FileBytes::Bytes(text.into()), "3.99.").unwrap();
        assert_eq!(of(b"x\x003.99.a\x003.99.10\x00y").as_deref(), Some("3.99.10"));
        assert_eq!(of(b"3.99.1+\0").as_deref(), Some("3.99.1"));
        for none in [&b"a3.99.1\0"[..], b"\x003.99.", b"\x003.99.1 x", b"\x003.99.1234\0", b""] {
            assert_eq!(of(none), None);
        }
    }
}
