//! Finds the libraries of an image that a program loads, and those that are missing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::ElfFacts;
use super::folders::{configured, is_in_musl, of_musl};
use crate::rootfs::{RootPath, Rootfs, What};
use crate::{Error, Result};

/// The files that `ld.so` loads from the image.
#[derive(Debug, Default)]
pub struct Closure {
    /// Files by where they stand, links followed, with what they need.
    pub loaded: BTreeMap<RootPath, Arc<ElfFacts>>,
    /// What would stop the program at its start.
    pub faults: Vec<LinkFault>,
    /// Libraries that the host gives: (name, who needs it).
    pub from_host: Vec<(String, RootPath)>,
}

/// An error at which `ld.so` would stop.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LinkFault {
    /// A library that is in none of the folders.
    Missing {
        /// The library's name.
        library: String,
        /// The file that needs the library.
        by: RootPath,
        /// The folders that were searched.
        searched: Vec<String>,
    },
    /// A library that is too old.
    Version {
        /// The library's name.
        library: String,
        /// The symbol version that the library lacks.
        version: String,
        /// The file that needs the version.
        by: RootPath,
        /// The newest it has of the same family, such as `GLIBC_2.31`.
        newest: Option<String>,
    },
    /// A program whose `ld.so` does not exist.
    Interpreter {
        /// The path of `ld.so`.
        interpreter: String,
        /// The program.
        by: RootPath,
    },
    /// A file for another processor than the program's.
    Machine {
        /// The file.
        file: RootPath,
        /// ELF's number of its processor.
        found: u16,
        /// ELF's number of the program's processor.
        expected: u16,
    },
}

/// Follows what `roots` need, as `ld.so` does with `library_path` as
/// `LD_LIBRARY_PATH`. Names in `host` are taken to come from the host.
///
/// # Errors
/// [`Error::Elf`] for a damaged file or a root that is not an ELF file, [`Error::Io`],
/// [`Error::Conflict`] for a root that is not there.
pub fn closure(
    tree: &Rootfs,
    roots: &[RootPath],
    library_path: &[String],
    host: &dyn Fn(&str) -> bool,
) -> Result<Closure> {
    Linker::new(tree, library_path, host)?.closure(roots)
}

/// Follows what programs of one image need, and reads each file once for all of them.
pub(crate) struct Linker<'a> {
    tree: &'a Rootfs,
    library_path: &'a [String],
    /// Folders that `ld.so`'s cache covers.
    configured: Vec<String>,
    /// Folders that musl's `ld.so` searches; `None` for an image without one.
    of_musl: Option<Vec<String>>,
    /// Whether there is a GNU C library's `ld.so`.
    has_glibc: bool,
    host: &'a dyn Fn(&str) -> bool,
    /// Another place of a library that a file needs, of whoever loads both.
    fallback: &'a dyn Fn(&str, &RootPath) -> Option<RootPath>,
    facts: BTreeMap<RootPath, Option<Arc<ElfFacts>>>,
    /// What the folders of the system have by a name, for a processor.
    of_system: HashMap<(String, u16), Search>,
}

/// The file of a name, and one for another processor.
#[derive(Clone, Default)]
struct Search {
    found: Option<RootPath>,
    other: Option<(RootPath, u16)>,
}

/// A file whose libraries are still to be looked for.
struct Open {
    path: RootPath,
    /// `DT_RPATH` folders of the files that loaded this one.
    inherited: Vec<String>,
}

/// The GNU C library's `ld.so`, by ELF's number of the CPU.
fn usual_loader(machine: u16) -> &'static str {
    match machine {
        183 => "/lib/ld-linux-aarch64.so.1",
        _ => "/lib64/ld-linux-x86-64.so.2",
    }
}

impl<'a> Linker<'a> {
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn new(
        tree: &'a Rootfs,
        library_path: &'a [String],
        host: &'a dyn Fn(&str) -> bool,
    ) -> Result<Self> {
        let is_there =
            |path: &str| RootPath::inside(path).is_some_and(|p| tree.follow(&p).is_some());
        Ok(Self {
            tree,
            library_path,
            configured: configured(tree)?,
            of_musl: of_musl(tree)?,
            has_glibc: [62, 183].into_iter().any(|machine| is_there(usual_loader(machine))),
            host,
            fallback: &|_, _| None,
            facts: BTreeMap::new(),
            of_system: HashMap::new(),
        })
    }

    /// Where `ld.so` finds nothing, what `fallback` returns for the library's name and the file
    /// that needs it counts as found.
    pub(crate) fn or_at(
        mut self,
        fallback: &'a dyn Fn(&str, &RootPath) -> Option<RootPath>,
    ) -> Self {
        self.fallback = fallback;
        self
    }

    /// Folders that are searched for everything.
    pub(crate) fn system_folders(&self, machine: u16) -> Vec<String> {
        if let Some(folders) = self.of_musl.as_ref().filter(|_| !self.has_glibc) {
            return folders.clone();
        }
        let mut folders = self.configured.clone();
        // The folders that `ld.so` searches without a cache: Debian's, then those of other
        // distributions.
        let triplet = match machine {
            183 => "aarch64-linux-gnu",
            _ => "x86_64-linux-gnu",
        };
        folders.extend([format!("/lib/{triplet}"), format!("/usr/lib/{triplet}")]);
        folders.extend(["/lib", "/usr/lib", "/lib64", "/usr/lib64"].map(str::to_owned));
        folders
    }

    /// # Errors
    /// Those of [`closure`].
    pub(crate) fn closure(&mut self, roots: &[RootPath]) -> Result<Closure> {
        let mut closure = Closure::default();
        for root in roots {
            self.root(root, &mut closure)?;
        }
        closure.faults.sort();
        closure.faults.dedup();
        closure.from_host.sort();
        closure.from_host.dedup();
        Ok(closure)
    }

    fn root(&mut self, root: &RootPath, closure: &mut Closure) -> Result<()> {
        let Some((path, facts)) = self.facts(root)? else {
            let reason = "there is no program".to_owned();
            return Err(Error::Conflict { path: root.to_string(), reason });
        };
        let machine = facts.machine;
        let is_musl = self.is_of_musl(&facts);
        // A library is loaded once by its name, whoever asks first.
        let mut by_name: BTreeMap<String, RootPath> = BTreeMap::new();
        // Whatever loads a library has an `ld.so`, which is there before all others.
        match self.inside(facts.interpreter.as_deref().unwrap_or(usual_loader(machine)))? {
            Some((at, found)) => {
                let name = found.soname.clone().unwrap_or_else(|| at.name().to_owned());
                by_name.insert(name, at.clone());
                if facts.interpreter.is_some() {
                    closure.loaded.insert(at, found);
                }
            }
            None => closure.faults.extend(
                facts
                    .interpreter
                    .clone()
                    .map(|interpreter| LinkFault::Interpreter { interpreter, by: path.clone() }),
            ),
        }
        closure.loaded.insert(path.clone(), facts);
        let mut todo = VecDeque::from([Open { path, inherited: Vec::new() }]);
        while let Some(open) = todo.pop_front() {
            let Some(facts) = closure.loaded.get(&open.path).map(Arc::clone) else { continue };
            let origin = origin(&open.path);
            let runpath = ElfFacts::folders(&facts.runpath, &origin);
            let rpath = ElfFacts::folders(&facts.rpath, &origin);
            // musl makes no difference between the two.
            let passed = if is_musl { [&*runpath, &*rpath].concat() } else { rpath };
            let inherited = [passed, open.inherited].concat();
            let mut near = Vec::new();
            if is_musl {
                near.extend_from_slice(self.library_path);
                near.extend_from_slice(&inherited);
            } else {
                near.extend(inherited.iter().filter(|_| facts.runpath.is_empty()).cloned());
                near.extend_from_slice(self.library_path);
                near.extend(runpath);
            }
            for name in &facts.needed {
                if by_name.contains_key(name) || (is_musl && is_in_musl(name)) {
                    continue;
                }
                if (self.host)(name) {
                    closure.from_host.push((name.clone(), open.path.clone()));
                    continue;
                }
                let Search { found, other } = self.find(name, &near, machine)?;
                let found = match found.or_else(|| (self.fallback)(name, &open.path)) {
                    Some(path) => self.facts(&path)?,
                    None => None,
                };
                if let (None, Some((file, found))) = (&found, other) {
                    closure.faults.push(LinkFault::Machine { file, found, expected: machine });
                }
                match found {
                    Some((path, found)) => {
                        by_name.insert(name.clone(), path.clone());
                        by_name.extend(found.soname.clone().map(|soname| (soname, path.clone())));
                        closure.loaded.insert(path.clone(), found);
                        todo.push_back(Open { path, inherited: inherited.clone() });
                    }
                    None => closure.faults.push(LinkFault::Missing {
                        library: name.clone(),
                        by: open.path.clone(),
                        searched: [near.clone(), self.system_folders(machine)].concat(),
                    }),
                }
            }
        }
        // musl looks for symbols, whatever their versions are.
        if !is_musl {
            versions(&by_name, closure);
        }
        Ok(())
    }

    /// Whether musl's `ld.so` loads a file.
    fn is_of_musl(&self, facts: &ElfFacts) -> bool {
        let of_musl = facts.needed.iter().any(|name| name.starts_with("libc.musl-"));
        match &facts.interpreter {
            Some(interpreter) => interpreter.contains("/ld-musl-"),
            None => self.of_musl.is_some() && (of_musl || !self.has_glibc),
        }
    }

    /// Looks for a library in `near`, then in the folders of the system.
    fn find(&mut self, name: &str, near: &[String], machine: u16) -> Result<Search> {
        if name.contains('/') {
            return self.search(name, &[String::new()], machine);
        }
        let first = self.search(name, near, machine)?;
        if first.found.is_some() {
            return Ok(first);
        }
        let key = (name.to_owned(), machine);
        let of_system = match self.of_system.get(&key) {
            Some(known) => known.clone(),
            None => {
                let found = self.search(name, &self.system_folders(machine), machine)?;
                self.of_system.insert(key, found.clone());
                found
            }
        };
        Ok(Search { other: first.other.or(of_system.other), found: of_system.found })
    }

    fn search(&mut self, name: &str, folders: &[String], machine: u16) -> Result<Search> {
        let mut search = Search::default();
        for folder in folders {
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            let Some((path, facts)) = self.inside(&path)? else { continue };
            if facts.machine == machine {
                search.found = Some(path);
                break;
            }
            search.other.get_or_insert((path, facts.machine));
        }
        Ok(search)
    }

    /// Does the same as [`facts`](Self::facts) for a path that may contain `..`, as RUNPATH does.
    fn inside(&mut self, path: &str) -> Result<Option<(RootPath, Arc<ElfFacts>)>> {
        RootPath::inside(path).map_or(Ok(None), |path| self.facts(&path))
    }

    fn facts(&mut self, path: &RootPath) -> Result<Option<(RootPath, Arc<ElfFacts>)>> {
        let Some((path, node)) = self.tree.follow(path) else { return Ok(None) };
        let What::File(source) = &node.what else { return Ok(None) };
        if let Some(known) = self.facts.get(&path) {
            return Ok(known.as_ref().map(|facts| (path, Arc::clone(facts))));
        }
        let facts = ElfFacts::read(source)?.map(Arc::new);
        self.facts.insert(path.clone(), facts.clone());
        Ok(facts.map(|facts| (path, facts)))
    }
}

/// Looks whether each library offers the versions asked of it.
fn versions(by_name: &BTreeMap<String, RootPath>, closure: &mut Closure) {
    for (by, facts) in &closure.loaded {
        for (library, version) in &facts.versions_needed {
            let offered = by_name.get(library).and_then(|path| closure.loaded.get(path));
            // A library without any versions satisfies all, as in ld.so.
            let Some(offered) = offered.map(|f| &f.versions_offered).filter(|o| !o.is_empty())
            else {
                continue;
            };
            if !offered.contains(version) {
                closure.faults.push(LinkFault::Version {
                    library: library.clone(),
                    version: version.clone(),
                    by: by.clone(),
                    newest: newest(offered, version),
                });
            }
        }
    }
}

fn origin(path: &RootPath) -> String {
    path.parent().unwrap_or(RootPath::ROOT).to_string()
}

/// The highest of `offered` with the same word before its numbers as `like`.
fn newest(offered: &[String], like: &str) -> Option<String> {
    let family = |version: &str| version.rsplit_once('_').map(|(word, _)| word.to_owned());
    let of_family = offered.iter().filter(|version| family(version) == family(like));
    of_family.max_by_key(|version| numbers(version)).cloned()
}

/// The numbers of a version: `GLIBC_2.34` becomes [2, 34].
fn numbers(version: &str) -> Vec<u32> {
    let (_, numbers) = version.rsplit_once('_').unwrap_or(("", version));
    numbers.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}
