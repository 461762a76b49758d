//! Finds the libraries of an image that a program loads, and those that are missing.

use std::collections::{BTreeMap, VecDeque};

use super::ElfFacts;
use super::folders::configured;
use crate::rootfs::{RootPath, Rootfs, What};
use crate::{Error, Result};

/// The files that `ld.so` loads from the image.
#[derive(Debug, Default)]
pub struct Closure {
    /// Files by where they stand, links followed, with what they need.
    pub loaded: BTreeMap<RootPath, ElfFacts>,
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
    let configured = configured(tree)?;
    let mut walk = Walk { tree, library_path, configured, host, closure: Closure::default() };
    for root in roots {
        walk.root(root)?;
    }
    let Walk { mut closure, .. } = walk;
    closure.faults.sort();
    closure.faults.dedup();
    closure.from_host.sort();
    closure.from_host.dedup();
    Ok(closure)
}

struct Walk<'a> {
    tree: &'a Rootfs,
    library_path: &'a [String],
    /// Folders that `ld.so`'s cache covers.
    configured: Vec<String>,
    host: &'a dyn Fn(&str) -> bool,
    closure: Closure,
}

/// A file whose libraries are still to be looked for.
struct Open {
    path: RootPath,
    /// `DT_RPATH` folders of the files that loaded this one.
    inherited: Vec<String>,
}

impl Walk<'_> {
    fn root(&mut self, root: &RootPath) -> Result<()> {
        let Some((path, facts)) = self.facts(root)? else {
            let reason = "there is no program".to_owned();
            return Err(Error::Conflict { path: root.to_string(), reason });
        };
        // A library is loaded once by its name, whoever asks first.
        let mut by_name: BTreeMap<String, RootPath> = BTreeMap::new();
        // Whatever loads a library has an `ld.so`, which is there before all others.
        let usual = match facts.machine {
            183 => "/lib/ld-linux-aarch64.so.1",
            _ => "/lib64/ld-linux-x86-64.so.2",
        };
        match self.inside(facts.interpreter.as_deref().unwrap_or(usual))? {
            Some((at, found)) => {
                let name = found.soname.clone().unwrap_or_else(|| at.name().to_owned());
                by_name.insert(name, at.clone());
                if facts.interpreter.is_some() {
                    self.closure.loaded.insert(at, found);
                }
            }
            None if facts.interpreter.is_some() => {
                let interpreter = facts.interpreter.clone().unwrap_or_default();
                let by = path.clone();
                self.closure.faults.push(LinkFault::Interpreter { interpreter, by });
            }
            None => {}
        }
        let machine = facts.machine;
        self.closure.loaded.insert(path.clone(), facts);
        let mut todo = VecDeque::from([Open { path, inherited: Vec::new() }]);
        while let Some(open) = todo.pop_front() {
            let Some(facts) = self.closure.loaded.get(&open.path).cloned() else { continue };
            let rpath = ElfFacts::folders(&facts.rpath, &origin(&open.path));
            let inherited = [rpath, open.inherited].concat();
            for name in &facts.needed {
                if by_name.contains_key(name) {
                    continue;
                }
                if (self.host)(name) {
                    self.closure.from_host.push((name.clone(), open.path.clone()));
                    continue;
                }
                let searched = self.folders(&facts, &open.path, &inherited, machine);
                match self.find(name, &searched, machine)? {
                    Some((path, found)) => {
                        by_name.insert(name.clone(), path.clone());
                        by_name.extend(found.soname.clone().map(|soname| (soname, path.clone())));
                        self.closure.loaded.insert(path.clone(), found);
                        todo.push_back(Open { path, inherited: inherited.clone() });
                    }
                    None => self.closure.faults.push(LinkFault::Missing {
                        library: name.clone(),
                        by: open.path.clone(),
                        searched,
                    }),
                }
            }
        }
        self.versions(&by_name);
        Ok(())
    }

    /// The folders searched for what the file at `path` needs.
    fn folders(
        &self,
        facts: &ElfFacts,
        path: &RootPath,
        inherited: &[String],
        machine: u16,
    ) -> Vec<String> {
        let mut folders = Vec::new();
        if facts.runpath.is_empty() {
            folders.extend_from_slice(inherited);
        }
        folders.extend_from_slice(self.library_path);
        folders.extend(ElfFacts::folders(&facts.runpath, &origin(path)));
        folders.extend_from_slice(&self.configured);
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

    fn find(
        &mut self,
        name: &str,
        folders: &[String],
        machine: u16,
    ) -> Result<Option<(RootPath, ElfFacts)>> {
        let mut other = None;
        for folder in folders {
            let path = match name.contains('/') {
                true => name.to_owned(),
                false => format!("{folder}/{name}"),
            };
            let Some((path, facts)) = self.inside(&path)? else { continue };
            if facts.machine == machine {
                return Ok(Some((path, facts)));
            }
            other.get_or_insert((path, facts.machine));
        }
        if let Some((file, found)) = other {
            self.closure.faults.push(LinkFault::Machine { file, found, expected: machine });
        }
        Ok(None)
    }

    /// Does the same as [`facts`](Self::facts) for a path that may contain `..`, as RUNPATH does.
    fn inside(&self, path: &str) -> Result<Option<(RootPath, ElfFacts)>> {
        RootPath::inside(path).map_or(Ok(None), |path| self.facts(&path))
    }

    fn facts(&self, path: &RootPath) -> Result<Option<(RootPath, ElfFacts)>> {
        let Some((path, node)) = self.tree.follow(path) else { return Ok(None) };
        let What::File(source) = &node.what else { return Ok(None) };
        Ok(ElfFacts::read(source)?.map(|facts| (path, facts)))
    }

    /// Looks whether each library offers the versions asked of it.
    fn versions(&mut self, by_name: &BTreeMap<String, RootPath>) {
        for (by, facts) in &self.closure.loaded {
            for (library, version) in &facts.versions_needed {
                let offered = by_name.get(library).and_then(|path| self.closure.loaded.get(path));
                // A library without any versions satisfies all, as in ld.so.
                let Some(offered) = offered.map(|f| &f.versions_offered).filter(|o| !o.is_empty())
                else {
                    continue;
                };
                if !offered.contains(version) {
                    self.closure.faults.push(LinkFault::Version {
                        library: library.clone(),
                        version: version.clone(),
                        by: by.clone(),
                        newest: newest(offered, version),
                    });
                }
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
