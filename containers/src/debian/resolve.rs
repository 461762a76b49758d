//! Finds the packages that the requested ones depend on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::control::paragraphs;
use super::relation::{Relation, relations};
use super::{Paragraph, Version};
use crate::{Error, Result, Sha256};

/// Packages that only scripts at installation need, so that an image has them only if it asks for
/// them by name.
const INSTALL_ONLY: [&str; 5] =
    ["debconf", "dpkg", "init-system-helpers", "usr-is-merged", "usrmerge"];

/// Packages that are needed to run scripts, beside the essential ones.
const TOOLS: [(&str, &str); 5] = [
    ("debconf", "scripts ask their questions by it"),
    ("dpkg", "calls scripts in their order"),
    ("fakeroot", "scripts give files to users that a namespace does not have"),
    ("init-system-helpers", "scripts announce services by it"),
    ("mount", "leaves the machine's file system"),
];

/// A package of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DebianPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Version,
    /// Path of its file below [`root`](Self::root).
    pub filename: String,
    /// URL of the archive that it is from.
    pub root: Arc<str>,
    /// The file's length in bytes.
    pub bytes: u64,
    /// The file's SHA-256.
    pub sha256: Sha256,
    /// Its architecture, `all` among them.
    pub arch: String,
    /// Whether every system has it, so that scripts use it without saying so (Policy 3.8).
    pub essential: bool,
    needs: Vec<Vec<Relation>>,
    provides: Vec<Relation>,
}

/// All packages of one or more `Packages` files; where several have a name, the newest version.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    packages: BTreeMap<String, DebianPackage>,
    /// For each name the packages that provide it, with the version they give it.
    provided: BTreeMap<String, Vec<(String, Option<Version>)>>,
}

impl Archive {
    /// Adds what a `Packages` file of the archive at `root` lists; `path` names it in errors.
    ///
    /// # Errors
    /// [`Error::Debian`] for a paragraph that lacks a field or has a bad one.
    pub fn add(&mut self, text: &str, path: &str, root: &str) -> Result<()> {
        let root = Arc::from(root);
        for paragraph in paragraphs(text) {
            let package = package(&paragraph, path, &root)?;
            match self.packages.get(&package.name) {
                Some(there) if there.version >= package.version => {}
                _ => drop(self.packages.insert(package.name.clone(), package)),
            }
        }
        self.provided.clear();
        for package in self.packages.values() {
            for name in &package.provides {
                let version = name.constraint.as_ref().map(|one| one.version.clone());
                let by = (package.name.clone(), version);
                self.provided.entry(name.name.clone()).or_default().push(by);
            }
        }
        Ok(())
    }

    /// Returns the package with this name.
    pub fn get(&self, name: &str) -> Option<&DebianPackage> {
        self.packages.get(name)
    }

    /// The package of a name; that which provides it, if it is the only one, as in apt.
    fn named(&self, name: &str) -> Option<&DebianPackage> {
        self.get(name).or_else(|| match self.providers(name).as_slice() {
            [only] => self.get(only),
            _ => None,
        })
    }

    /// The packages that provide a name.
    fn providers(&self, name: &str) -> Vec<&str> {
        let provided = self.provided.get(name).into_iter().flatten();
        let names: BTreeSet<&str> = provided.map(|(name, _)| name.as_str()).collect();
        names.into_iter().collect()
    }

    /// Packages that satisfy a relation: that of its name first, then those that provide it.
    fn candidates<'a>(&'a self, relation: &'a Relation) -> impl Iterator<Item = &'a DebianPackage> {
        let holds = |version: Option<&Version>| match &relation.constraint {
            None => true,
            Some(constraint) => version.is_some_and(|version| constraint.holds(version)),
        };
        let real = self.packages.get(&relation.name).filter(move |p| holds(Some(&p.version)));
        let provided = self.provided.get(&relation.name).into_iter().flatten();
        let provided = provided.filter(move |(_, version)| holds(version.as_ref()));
        real.into_iter().chain(provided.filter_map(|(name, _)| self.packages.get(name)))
    }
}

/// Returns the packages in `wanted` and all that they depend on, by name. Of alternatives, one that
/// is already included is taken, else the first that the archive has.
///
/// # Errors
/// [`Error::Package`] for a name that the archive does not have, or a dependency that nothing
/// satisfies.
pub fn resolve<'a>(archive: &'a Archive, wanted: &[String]) -> Result<Vec<&'a DebianPackage>> {
    resolve_with(archive, wanted, &|_, _| false)
}

/// Whether what is there already satisfies a dependency, beside the packages chosen so far.
pub(super) type Satisfied<'a> = dyn Fn(&[Relation], &BTreeMap<&str, &DebianPackage>) -> bool + 'a;

/// Does the same as [`resolve`] for an image that has packages.
pub(super) fn resolve_with<'a>(
    archive: &'a Archive,
    wanted: &[String],
    satisfied: &Satisfied<'_>,
) -> Result<Vec<&'a DebianPackage>> {
    let mut chosen: BTreeMap<&str, &DebianPackage> = BTreeMap::new();
    let mut todo = VecDeque::new();
    let unknown: Vec<&String> =
        wanted.iter().filter(|name| archive.named(name).is_none()).collect();
    if !unknown.is_empty() {
        return Err(unknown_names(archive, &unknown));
    }
    for package in wanted.iter().filter_map(|name| archive.named(name)) {
        if chosen.insert(&package.name, package).is_none() {
            todo.push_back(package);
        }
    }
    while let Some(package) = todo.pop_front() {
        for alternatives in &package.needs {
            let candidates = || alternatives.iter().flat_map(|one| archive.candidates(one));
            let is_chosen =
                |candidate: &DebianPackage| chosen.contains_key(candidate.name.as_str());
            if candidates().any(is_chosen) || satisfied(alternatives, &chosen) {
                continue;
            }
            let Some(candidate) = candidates().next() else {
                let names: BTreeSet<_> = alternatives.iter().map(|one| one.name.as_str()).collect();
                let names = names.into_iter().collect::<Vec<_>>().join(" or ");
                return Err(Error::Package {
                    name: package.name.clone(),
                    reason: format!("it depends on {names}, which the archive does not have"),
                    hint: Some(
                        "add the suite or component of Debian that has this package".to_owned(),
                    ),
                });
            };
            chosen.insert(&candidate.name, candidate);
            todo.push_back(candidate);
        }
    }
    Ok(chosen.into_values().collect())
}

/// The error for names that the archive does not have: all of them, with similar ones.
fn unknown_names(archive: &Archive, names: &[&String]) -> Error {
    if let Some((name, providers)) =
        names.iter().map(|name| (name, archive.providers(name))).find(|(_, by)| !by.is_empty())
    {
        return Error::Package {
            name: (*name).clone(),
            reason: "no package has this name, and several provide it".to_owned(),
            hint: Some(format!("name one of them: `{}`", providers.join("`, `"))),
        };
    }
    let near = |name: &&&String| {
        let near = archive.packages.keys().map(|key| (strsim::osa_distance(name, key), key));
        near.min().filter(|(distance, _)| *distance <= 2).map(|(_, key)| key.clone())
    };
    let hints: Vec<String> = match names {
        [one] => near(&one).map(|key| format!("`{key}`")).into_iter().collect(),
        names => {
            let pairs = names.iter().filter_map(|name| Some((name, near(&name)?)));
            pairs.map(|(name, key)| format!("`{key}` for `{name}`")).collect()
        }
    };
    Error::Package {
        name: names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join("`, `"),
        reason: match names {
            [_] => "the archive has no such package".to_owned(),
            _ => "the archive has no such packages".to_owned(),
        },
        hint: (!hints.is_empty()).then(|| format!("did you mean {}?", hints.join(", "))),
    }
}

/// Returns the packages that are needed to run the scripts of `packages`, beside themselves, and
/// those of `further` with them; none if the archive does not have them.
///
/// # Errors
/// As [`resolve`].
pub fn tools<'a>(
    archive: &'a Archive,
    packages: &[&'a DebianPackage],
    further: &[&str],
) -> Result<Vec<&'a DebianPackage>> {
    if TOOLS.iter().any(|(name, _)| archive.get(name).is_none()) {
        return Ok(Vec::new());
    }
    let essential = archive.packages.values().filter(|package| package.essential);
    let further = further.iter().copied().filter(|name| archive.get(name).is_some());
    let names = TOOLS.iter().map(|(name, _)| *name).chain(further);
    let names = names.chain(essential.map(|package| package.name.as_str()));
    let own: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let wanted: Vec<String> = own.iter().copied().chain(names).map(str::to_owned).collect();
    let mut all = resolve(archive, &wanted)?;
    all.retain(|package| !own.contains(package.name.as_str()));
    Ok(all)
}

fn package(paragraph: &Paragraph, path: &str, root: &Arc<str>) -> Result<DebianPackage> {
    let name = paragraph.get("package").unwrap_or("?").to_owned();
    let wrong = |field: &str| Error::Debian {
        path: path.to_owned(),
        reason: format!("its entry for package `{name}` has no valid field `{field}`"),
    };
    let field = |field: &'static str| paragraph.get(field).ok_or_else(|| wrong(field));
    let version = Version::new(field("Version")?);
    let filename = field("Filename")?.to_owned();
    let bytes = field("Size")?.parse().map_err(|_| wrong("Size"))?;
    let sha256 = field("SHA256")?.to_ascii_lowercase().parse().map_err(|_| wrong("SHA256"))?;
    if filename.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return Err(wrong("Filename"));
    }
    let arch = field("Architecture")?.to_owned();
    let provides = provides_of(paragraph);
    let needs = needs_of(paragraph).map_err(wrong)?;
    let (name, root) = (name.clone(), root.clone());
    let essential = paragraph.get("Essential") == Some("yes");
    Ok(DebianPackage {
        name,
        version,
        filename,
        root,
        bytes,
        sha256,
        arch,
        essential,
        needs,
        provides,
    })
}

/// What a package provides beside itself.
pub(super) fn provides_of(paragraph: &Paragraph) -> Vec<Relation> {
    let provides = paragraph.get("Provides").and_then(relations).unwrap_or_default();
    provides.into_iter().flatten().collect()
}

/// What a package needs when it runs. The error is a field that cannot be read.
pub(super) fn needs_of(paragraph: &Paragraph) -> Result<Vec<Vec<Relation>>, &'static str> {
    let mut needs = Vec::new();
    for field in ["Pre-Depends", "Depends"] {
        let relations = relations(paragraph.get(field).unwrap_or_default()).ok_or(field)?;
        let at_run =
            |any: &Vec<Relation>| any.iter().all(|one| !INSTALL_ONLY.contains(&one.name.as_str()));
        needs.extend(relations.into_iter().filter(at_run));
    }
    Ok(needs)
}

/// Whether none of these packages satisfies a dependency.
pub(super) fn unsatisfied(any: &[Relation], packages: &[&DebianPackage]) -> bool {
    !any.iter().any(|one| {
        let holds = |version: Option<&Version>| match &one.constraint {
            None => true,
            Some(constraint) => version.is_some_and(|version| constraint.holds(version)),
        };
        packages.iter().any(|package| {
            let mut provides = package.provides.iter();
            (package.name == one.name && holds(Some(&package.version)))
                || provides
                    .any(|p| p.name == one.name && holds(p.constraint.as_ref().map(|c| &c.version)))
        })
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An archive of packages with these names, versions and further lines.
    pub(crate) fn archive(packages: &[(&str, &str, &str)]) -> Archive {
        let mut archive = Archive::default();
        for (name, version, rest) in packages {
            let sha = "0".repeat(64);
            let text = format!(
                "Package: {name}\nArchitecture: all\nVersion: {version}\nFilename: pool/{name}.deb\nSize: 1\nSHA256: {sha}\n{rest}"
            );
            archive.add(&text, "Packages", "").unwrap();
        }
        archive
    }

    fn names(archive: &Archive, wanted: &[&str]) -> Vec<String> {
        let wanted: Vec<_> = wanted.iter().map(|&name| name.to_owned()).collect();
        resolve(archive, &wanted)
            .unwrap()
            .iter()
            .map(|p| format!("{}={}", p.name, p.version))
            .collect()
    }

    #[test]
    fn dependencies_come_along_and_the_newest_version_is_taken() {
        let archive = archive(&[
            (
                "bash",
                "5.2",
                "Depends: base-files (>= 2.1)\nPre-Depends: libc6 (>= 2.36), libtinfo6\n",
            ),
            ("base-files", "12", "Pre-Depends: awk\nDepends: debconf (>= 0.5) | debconf-2.0\n"),
            ("libc6", "2.36-9", "Depends: libgcc-s1\n"),
            ("libc6", "2.36-9+deb12u9", "Depends: libgcc-s1\n"),
            ("libc6", "2.36-8", ""),
            ("libgcc-s1", "12", "Depends: libc6\n"),
            ("libtinfo6", "6", ""),
            ("mawk", "1.3", "Provides: awk\n"),
            ("gawk", "5", "Provides: awk\n"),
        ]);
        let bash = [
            "base-files=12",
            "bash=5.2",
            "gawk=5",
            "libc6=2.36-9+deb12u9",
            "libgcc-s1=12",
            "libtinfo6=6",
        ];
        assert_eq!(names(&archive, &["bash"]), bash);
        let with_mawk = names(&archive, &["bash", "mawk"]);
        assert!(
            with_mawk.contains(&"mawk=1.3".to_owned()) && !with_mawk.contains(&"gawk=5".to_owned())
        );
    }

    #[test]
    fn a_name_that_one_package_provides_is_that_package() {
        let archive = archive(&[
            ("fortune-mod", "1", "Provides: fortune, game\n"),
            ("chess", "2", "Provides: game\n"),
        ]);
        assert_eq!(names(&archive, &["fortune"]), ["fortune-mod=1"]);
        let error = resolve(&archive, &["game".to_owned()]).unwrap_err();
        assert_eq!(error.hint().unwrap(), "name one of them: `chess`, `fortune-mod`");
    }

    #[test]
    fn tools_are_what_scripts_need_and_the_image_does_not_have() {
        let mut packages = vec![
            ("a", "1", "Depends: libc6, debconf\n"),
            ("libc6", "1", ""),
            ("dpkg", "1", "Pre-Depends: libc6, tar\n"),
            ("tar", "1", "Essential: yes\n"),
            ("sed", "1", "Essential: yes\n"),
            ("unasked", "1", ""),
            ("debconf", "1", "Depends: perl-base\n"),
            ("perl-base", "1", "Essential: yes\n"),
            ("fakeroot", "1", ""),
            ("init-system-helpers", "1", "Essential: yes\n"),
        ];
        let found = |packages: &[(&str, &str, &str)]| -> Vec<String> {
            let archive = archive(packages);
            let own = resolve(&archive, &["a".to_owned(), "sed".to_owned()]).unwrap();
            tools(&archive, &own, &["sed", "none"])
                .unwrap()
                .iter()
                .map(|package| package.name.clone())
                .collect()
        };
        assert!(found(&packages).is_empty(), "the archive has no `mount`");
        packages.push(("mount", "1", ""));
        assert_eq!(
            found(&packages),
            ["debconf", "dpkg", "fakeroot", "init-system-helpers", "mount", "perl-base", "tar"]
        );
    }

    #[test]
    fn what_is_not_there_is_said() {
        let archive = archive(&[("a", "1", "Depends: b (>= 2) | c\n"), ("b", "1", "")]);
        let error = |name: &str| resolve(&archive, &[name.to_owned()]).unwrap_err();
        assert_eq!(
            error("a").to_string(),
            "cannot add the Debian package `a`: it depends on b or c, which the archive does not have"
        );
        assert_eq!(error("bb").hint().unwrap(), "did you mean `b`?");
        let wanted = ["ab", "b", "other", "bc"].map(str::to_owned);
        let error = resolve(&archive, &wanted).unwrap_err();
        let expected =
            "cannot add the Debian package `ab`, `other`, `bc`: the archive has no such packages";
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.hint().unwrap(), "did you mean `a` for `ab`, `b` for `bc`?");
    }

    #[test]
    fn damaged_lists_are_errors() {
        let sha = "0".repeat(64);
        for (text, field) in [
            ("Package: a\n".to_owned(), "Version"),
            (
                format!(
                    "Package: a\nArchitecture: all\nVersion: 1\nFilename: ../x\nSize: 1\nSHA256: {sha}\n"
                ),
                "Filename",
            ),
            (
                format!(
                    "Package: a\nArchitecture: all\nVersion: 1\nFilename: x\nSize: -1\nSHA256: {sha}\n"
                ),
                "Size",
            ),
            (
                "Package: a\nArchitecture: all\nVersion: 1\nFilename: x\nSize: 1\nSHA256: 12\n"
                    .to_owned(),
                "SHA256",
            ),
        ] {
            let error = Archive::default().add(&text, "Packages", "").unwrap_err().to_string();
            assert!(error.contains(&format!("`{field}`")), "{error}");
        }
    }
}
