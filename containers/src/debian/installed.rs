//! The Debian packages that an image has, as its own lists say, and what must be added to have
//! others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::control::paragraphs;
use super::finish::{finish, is_wanted};
use super::relation::Relation;
use super::resolve::{Archive, DebianPackage, needs_of, provides_of, unsatisfied};
use super::{Paragraph, Version};
use crate::rootfs::{Layer, RootPath, Rootfs, What};
use crate::store::Listing;
use crate::{Error, Result};

/// The lists: dpkg's own, and that of images without dpkg, which scanners read.
const STATUS: &str = "var/lib/dpkg/status";
const STATUS_FOLDER: &str = "var/lib/dpkg/status.d";
/// The folder of dpkg with a list of files for each package.
const FILES: &str = "var/lib/dpkg/info";
/// Says what a distribution is; the first one that is there.
const RELEASE: [&str; 2] = ["etc/os-release", "usr/lib/os-release"];

/// Largest list; that of a large image has 10 MB.
const MAX_TEXT: u64 = 256 << 20;

/// What dpkg writes of a package that is there.
const INSTALLED: &str = "install ok installed";

/// An image's packages.
#[derive(Debug, Clone)]
pub(crate) struct Installed {
    /// The release's code name: `bookworm`.
    pub(crate) suite: String,
    packages: BTreeMap<String, PresentDeb>,
}

#[derive(Debug, Clone)]
struct PresentDeb {
    version: Version,
    needs: Vec<Vec<Relation>>,
    provides: Vec<Relation>,
}

/// What is added to an image, so that it has the wanted packages.
#[derive(Debug)]
pub(crate) struct Additions<'a> {
    /// Packages of the archive, by name.
    pub(crate) packages: Vec<&'a DebianPackage>,
    /// Wanted packages that are there already.
    pub(crate) kept: Vec<String>,
    /// Packages that are there in an older version: name, version there.
    pub(crate) replaced: Vec<(String, String)>,
}

impl Installed {
    /// Reads the lists of an image.
    ///
    /// # Errors
    /// [`Error::NotDebian`] for another distribution, and for an image without lists; [`Error::Io`].
    pub(crate) fn of(tree: &Rootfs) -> Result<Self> {
        let mut release = String::new();
        for path in RELEASE {
            release = tree.text(&RootPath::new(path)?, MAX_TEXT)?.unwrap_or_default();
            if !release.is_empty() {
                break;
            }
        }
        let value = |key: &str| {
            let mut lines = release.lines().filter_map(|line| line.split_once('='));
            let found = lines.find(|(name, _)| name.trim() == key);
            found.map_or("", |(_, value)| value.trim().trim_matches('"')).to_owned()
        };
        let (id, suite) = (value("ID"), value("VERSION_CODENAME"));
        let has_apt = tree.follow(&RootPath::new("usr/bin/apt-get")?).is_some();
        if id != "debian" || suite.is_empty() {
            let name = value("PRETTY_NAME");
            let found = if name.is_empty() { "an unknown distribution".to_owned() } else { name };
            return Err(Error::NotDebian { found, has_apt });
        }
        let mut packages = BTreeMap::new();
        let mut add = |list: &str| {
            for paragraph in paragraphs(list) {
                if let Some((name, present)) = present(&paragraph) {
                    packages.insert(name, present);
                }
            }
        };
        add(&tree.text(&RootPath::new(STATUS)?, MAX_TEXT)?.unwrap_or_default());
        for (path, _) in tree.children(&RootPath::new(STATUS_FOLDER)?) {
            if !path.name().ends_with(".md5sums") {
                add(&tree.text(&path, MAX_TEXT)?.unwrap_or_default());
            }
        }
        if packages.is_empty() {
            let found = format!("{suite} without a list of packages");
            return Err(Error::NotDebian { found, has_apt: false });
        }
        Ok(Self { suite, packages })
    }

    /// The packages that must be added so that `wanted` are there with all that they depend on. A
    /// package that is there is kept, unless another one needs a newer version of it; then the
    /// packages that need the old version are replaced, too.
    ///
    /// # Errors
    /// [`Error::Package`] as for a base of packages alone.
    pub(crate) fn additions<'a>(
        &self,
        archive: &'a Archive,
        wanted: &[String],
    ) -> Result<Additions<'a>> {
        let (kept, mut wanted): (Vec<String>, Vec<String>) =
            wanted.iter().cloned().partition(|name| self.packages.contains_key(name));
        let mut before = 0;
        loop {
            let satisfied = |any: &[Relation], chosen: &BTreeMap<&str, &DebianPackage>| {
                any.iter().any(|one| self.satisfies(one, &|name| chosen.contains_key(name)))
            };
            let packages = super::resolve::resolve_with(archive, &wanted, &satisfied)?;
            let chosen: BTreeMap<&str, &DebianPackage> =
                packages.iter().map(|package| (package.name.as_str(), *package)).collect();
            // Packages of the base that worked before, and lack something now.
            let mut broken = BTreeSet::new();
            for (name, present) in &self.packages {
                if chosen.contains_key(name.as_str()) {
                    continue;
                }
                for any in &present.needs {
                    let worked = any.iter().any(|one| self.satisfies(one, &|_| false));
                    let of_base =
                        any.iter().any(|one| self.satisfies(one, &|n| chosen.contains_key(n)));
                    if worked && !of_base && unsatisfied(any, &packages) {
                        broken.insert(name.clone());
                    }
                }
            }
            if broken.is_empty() || wanted.len() + broken.len() == before {
                let replaced = packages.iter().filter_map(|package| {
                    let there = self.packages.get(&package.name)?;
                    Some((package.name.clone(), there.version.to_string()))
                });
                let replaced = replaced.collect();
                return Ok(Additions { packages, kept, replaced });
            }
            before = wanted.len() + broken.len();
            wanted.extend(broken);
        }
    }

    /// Whether a package that is there, and not `gone`, satisfies a relation.
    fn satisfies(&self, relation: &Relation, gone: &dyn Fn(&str) -> bool) -> bool {
        let holds = |version: Option<&Version>| match &relation.constraint {
            None => true,
            Some(constraint) => version.is_some_and(|version| constraint.holds(version)),
        };
        let stays = |name: &str| !gone(name);
        let real = self.packages.get(&relation.name).filter(|_| stays(&relation.name));
        real.is_some_and(|present| holds(Some(&present.version)))
            || self.packages.iter().any(|(name, present)| {
                let mut provides = present.provides.iter();
                stays(name)
                    && provides.any(|one| {
                        let version = one.constraint.as_ref().map(|constraint| &constraint.version);
                        one.name == relation.name && holds(version)
                    })
            })
    }
}

fn present(paragraph: &Paragraph) -> Option<(String, PresentDeb)> {
    let name = paragraph.get("Package")?.to_owned();
    // Lists without dpkg have no such field.
    if paragraph.get("Status").is_some_and(|status| status != INSTALLED) {
        return None;
    }
    let version = Version::new(paragraph.get("Version")?);
    let needs = needs_of(paragraph).unwrap_or_default();
    Some((name, PresentDeb { version, needs, provides: provides_of(paragraph) }))
}

/// Adds packages to an image that has others, with what is known of their scripts.
///
/// # Errors
/// [`Error::Io`]; those of [`Rootfs::add`].
pub(crate) fn add(tree: &mut Rootfs, debs: &[(String, Listing)]) -> Result<()> {
    if debs.is_empty() {
        return Ok(());
    }
    for (name, _) in debs {
        remove(tree, name)?;
    }
    let mut added = Vec::new();
    for (name, files) in debs {
        files.add_some_to(tree, Layer::Packages, is_wanted)?;
        let paths = files.entries.iter().map(|entry| entry.path.clone());
        let paths = paths.filter(|path| is_wanted(path) && !path.starts_with("var/lib/dpkg/"));
        added.push((name.clone(), paths.collect()));
    }
    finish(tree, Layer::Packages)?;
    note(tree, Layer::Packages, &added)
}

/// Takes away the files of a package that another version replaces, as far as dpkg's lists name
/// them; folders and what else is at the same paths stay.
///
/// # Errors
/// [`Error::Io`].
fn remove(tree: &mut Rootfs, name: &str) -> Result<()> {
    let folder = RootPath::new(FILES)?;
    let is_list = |file: &str| {
        let stem = file.strip_suffix(".list").unwrap_or_default();
        stem == name || stem.split_once(':').is_some_and(|(stem, _)| stem == name)
    };
    let lists = tree.children(&folder).map(|(path, _)| path);
    let lists: Vec<RootPath> = lists.filter(|path| is_list(path.name())).collect();
    for list in lists {
        for line in tree.text(&list, MAX_TEXT)?.unwrap_or_default().lines() {
            let Some(path) = RootPath::inside(line) else { continue };
            let is_file = tree.get(&path).is_some_and(|node| node.what != What::Dir);
            // Settings may be the user's.
            if is_file && !path.as_str().starts_with("etc/") {
                tree.remove(&path);
            }
        }
        tree.remove(&list);
    }
    Ok(())
}

/// Moves the entries of added packages from [`STATUS_FOLDER`] into dpkg's own list, if the image
/// has one: scanners read no other then.
///
/// # Errors
/// [`Error::Io`]; those of [`Rootfs::add`].
fn note(tree: &mut Rootfs, layer: Layer, added: &[(String, Vec<String>)]) -> Result<()> {
    let status = RootPath::new(STATUS)?;
    let Some(old) = tree.text(&status, MAX_TEXT)? else { return Ok(()) };
    let names: BTreeSet<&str> = added.iter().map(|(name, _)| name.as_str()).collect();
    let mut list = String::new();
    for paragraph in paragraphs(&old) {
        if !paragraph.get("Package").is_some_and(|name| names.contains(name)) {
            list.push_str(paragraph.text());
            list.push('\n');
        }
    }
    for (name, files) in added {
        let entry = RootPath::new(&format!("{STATUS_FOLDER}/{name}"))?;
        let Some(control) = tree.text(&entry, MAX_TEXT)? else { continue };
        for line in control.lines() {
            list.push_str(line);
            list.push('\n');
            if line.starts_with("Package:") {
                list.push_str(&format!("Status: {INSTALLED}\n"));
            }
        }
        list.push('\n');
        tree.remove(&entry);
        // dpkg names the lists of packages that may be there for several architectures by those.
        let same = control.lines().any(|line| line.trim() == "Multi-Arch: same");
        let arch = control.lines().find_map(|line| line.strip_prefix("Architecture:"));
        let stem = match (same, arch) {
            (true, Some(arch)) => format!("{name}:{}", arch.trim()),
            _ => name.clone(),
        };
        let sums = RootPath::new(&format!("{STATUS_FOLDER}/{name}.md5sums"))?;
        if let Some(text) = tree.text(&sums, MAX_TEXT)? {
            let place = RootPath::new(&format!("{FILES}/{stem}.md5sums"))?;
            tree.add_text(layer, &place, 0o644, &text)?;
            tree.remove(&sums);
        }
        let files = files.iter().filter(|path| !path.is_empty());
        let files: String = files.map(|path| format!("/{path}\n")).collect();
        let place = RootPath::new(&format!("{FILES}/{stem}.list"))?;
        tree.add_text(layer, &place, 0o644, &format!("/.\n{files}"))?;
    }
    let folder = RootPath::new(STATUS_FOLDER)?;
    if tree.children(&folder).next().is_none() {
        tree.remove(&folder);
    }
    let mode = tree.get(&status).map_or(0o644, |node| node.mode);
    let bytes = crate::rootfs::FileBytes::Bytes(Arc::from(list.as_bytes()));
    tree.add(layer, &status, mode, What::File(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::resolve::tests::archive;
    use super::*;

    fn path(text: &str) -> RootPath {
        RootPath::new(text).unwrap()
    }

    fn image(release: &str, status: &str) -> Rootfs {
        let mut tree = Rootfs::default();
        tree.add_text(Layer::Base, &path("usr/lib/os-release"), 0o644, release).unwrap();
        tree.add_text(Layer::Base, &path(STATUS), 0o644, status).unwrap();
        tree
    }

    const RELEASE_TEXT: &str = "PRETTY_NAME=\"Debian 12\"\nID=debian\nVERSION_CODENAME=bookworm\n";
    const STATUS_TEXT: &str = "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9\nMulti-Arch: same\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n\nPackage: lib\nStatus: install ok installed\nVersion: 1.0-1\n\nPackage: lib-bin\nStatus: install ok installed\nVersion: 1.0-1\nDepends: lib (= 1.0-1)\n\nPackage: mawk\nStatus: install ok installed\nVersion: 1\nProvides: awk\n";

    #[test]
    fn only_what_is_missing_or_too_old_is_added() {
        let installed = Installed::of(&image(RELEASE_TEXT, STATUS_TEXT)).unwrap();
        assert_eq!(installed.suite, "bookworm");
        let archive = archive(&[
            ("libc6", "2.36-10", ""),
            ("lib", "1.0-2", "Depends: libc6\n"),
            ("lib-bin", "1.0-2", "Depends: lib (= 1.0-2)\n"),
            ("lib-dev", "1.0-2", "Depends: lib (= 1.0-2), awk\n"),
            ("gawk", "5", "Provides: awk\n"),
            ("gone", "1", ""),
            ("tool", "1", "Depends: libc6 (>= 2.30), awk, gone\n"),
        ]);
        let check = |wanted: &[&str], added: &[&str], kept: &[&str], replaced: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
            let found = installed.additions(&archive, &wanted).unwrap();
            let names: Vec<&str> = found.packages.iter().map(|p| p.name.as_str()).collect();
            let gone: Vec<&str> = found.replaced.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!((names, gone), (added.to_vec(), replaced.to_vec()), "{wanted:?}");
            assert_eq!(found.kept, kept, "{wanted:?}");
        };
        check(&["tool", "libc6"], &["gone", "tool"], &["libc6"], &[]);
        // The other half of the same source must have the same version.
        check(&["lib-dev"], &["lib", "lib-bin", "lib-dev"], &[], &["lib", "lib-bin"]);
        let none = installed.additions(&archive, &["nothing".to_owned()]);
        assert!(matches!(none, Err(Error::Package { .. })));
    }

    #[test]
    fn other_distributions_are_refused() {
        for (release, status, expected) in [
            ("ID=alpine\nPRETTY_NAME=\"Alpine Linux v3.20\"\n", STATUS_TEXT, "Alpine Linux v3.20"),
            ("", STATUS_TEXT, "an unknown distribution"),
            (RELEASE_TEXT, "", "without a list"),
        ] {
            let error = Installed::of(&image(release, status)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn added_packages_are_in_dpkgs_own_list() {
        let mut tree = image(RELEASE_TEXT, STATUS_TEXT);
        for (name, text) in [
            ("var/lib/dpkg/info/lib.list", "/.\n/usr\n/usr/lib/lib.so\n/etc/lib.conf\n"),
            ("usr/lib/lib.so", "old"),
            ("etc/lib.conf", "mine"),
            (
                "var/lib/dpkg/status.d/lib",
                "Package: lib\nVersion: 1.0-2\nArchitecture: amd64\nMulti-Arch: same\n",
            ),
            ("var/lib/dpkg/status.d/lib.md5sums", "0  usr/lib/lib.so\n"),
        ] {
            tree.add_text(Layer::Base, &path(name), 0o644, text).unwrap();
        }
        remove(&mut tree, "lib").unwrap();
        assert!(tree.get(&path("usr/lib/lib.so")).is_none());
        assert!(tree.get(&path("etc/lib.conf")).is_some());
        note(
            &mut tree,
            Layer::Packages,
            &[("lib".to_owned(), vec![String::new(), "usr/lib/lib.so".to_owned()])],
        )
        .unwrap();
        let status = tree.text(&path(STATUS), MAX_TEXT).unwrap().unwrap();
        assert_eq!(status.matches("Package: lib\n").count(), 1);
        assert!(
            status.contains("Package: lib\nStatus: install ok installed\nVersion: 1.0-2\n"),
            "{status}"
        );
        assert!(status.contains("Package: gone\n") && status.contains("Package: mawk\n"));
        let list = tree.text(&path("var/lib/dpkg/info/lib:amd64.list"), MAX_TEXT).unwrap();
        assert_eq!(list.as_deref(), Some("/.\n/usr/lib/lib.so\n"));
        assert!(tree.get(&path(STATUS_FOLDER)).is_none());
        // The new list is read as the old one was.
        assert_eq!(Installed::of(&tree).unwrap().packages["lib"].version.to_string(), "1.0-2");
    }
}
