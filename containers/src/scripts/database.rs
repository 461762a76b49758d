//! dpkg's database of packages that were unpacked and not configured (deb-triggers(5),
//! `doc/spec/triggers.txt` of dpkg).
//!
//! ```text
//! var/lib/dpkg/status          a paragraph for each package
//! var/lib/dpkg/info/format     1: names of packages that may be there for several architectures
//! var/lib/dpkg/info/P.list     paths of its files
//! var/lib/dpkg/info/P.KIND     its scripts, as they are in the package
//! var/lib/dpkg/triggers/File   paths, and who wants to hear of files below
//! var/lib/dpkg/triggers/NAME   who wants to hear of this
//! ```

use std::collections::BTreeMap;

use crate::debian::{self, Paragraph, paragraphs};
use crate::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use crate::store::Listing;
use crate::{Error, Result};

/// The folder of dpkg's database.
pub(super) const DIR: &str = "var/lib/dpkg";
/// Longest control file read.
const MAX_TEXT: u64 = 16 << 20;

/// A package in dpkg's database.
#[derive(Debug)]
pub(super) struct Installed<'a> {
    /// Its name.
    pub(super) name: String,
    /// Its name in the database: with its architecture, if several may be there.
    pub(super) id: String,
    /// Its architecture.
    pub(super) arch: String,
    /// Whether it belongs to the image, and is to be configured.
    pub(super) own: bool,
    control: Paragraph,
    info: Vec<(String, FileBytes)>,
    files: &'a Listing,
}

impl<'a> Installed<'a> {
    /// Reads what an unpacked package says of itself.
    ///
    /// # Errors
    /// [`Error::Package`] for a package that says nothing, [`Error::Io`].
    pub(super) fn of(name: &str, files: &'a Listing, own: bool) -> Result<Self> {
        let status = format!("{DIR}/status.d/{name}");
        let before = format!("{}/{name}.", debian::INFO);
        let (mut control, mut info) = (None, Vec::new());
        for entry in &files.entries {
            if entry.path == status
                && let What::File(bytes) = files.what(entry)?
            {
                let text = bytes.text(MAX_TEXT)?.unwrap_or_default();
                control = paragraphs(&text).next();
            } else if let Some(kind) = entry.path.strip_prefix(&before)
                && let What::File(bytes) = files.what(entry)?
            {
                info.push((kind.to_owned(), bytes));
            }
        }
        let control = control.ok_or_else(|| Error::Package {
            name: name.to_owned(),
            reason: "its control file cannot be read".to_owned(),
            hint: None,
        })?;
        let field = |name| control.get(name).unwrap_or_default().to_owned();
        let arch = field("Architecture");
        let id = match field("Multi-Arch").as_str() {
            "same" => format!("{name}:{arch}"),
            _ => name.to_owned(),
        };
        Ok(Self { name: name.to_owned(), id, arch, own, control, info, files })
    }

    /// One of its control files.
    pub(super) fn info(&self, kind: &str) -> Option<&FileBytes> {
        self.info.iter().find(|(name, _)| name == kind).map(|(_, bytes)| bytes)
    }

    /// The paths of its files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let inside = |path: &&str| !path.starts_with(DIR);
        self.files.entries.iter().map(|entry| entry.path.as_str()).filter(inside)
    }
}

/// Adds the database to a tree.
///
/// # Errors
/// Those of [`Rootfs::add`].
pub(super) fn add(tree: &mut Rootfs, packages: &[Installed<'_>]) -> Result<()> {
    let mut status = String::new();
    let mut files = String::new();
    let mut named: BTreeMap<String, String> = BTreeMap::new();
    for package in packages {
        let state = if package.own { "unpacked" } else { "installed" };
        let mut fields = package.control.text().lines();
        // The paragraph begins with the package's name in every archive; dpkg takes any order.
        let first = fields.next().unwrap_or_default();
        status.push_str(&format!("{first}\nStatus: install ok {state}\n"));
        fields.for_each(|line| status.push_str(&format!("{line}\n")));
        status.push('\n');
        let mut list = "/.\n".to_owned();
        package.paths().filter(|path| !path.is_empty()).for_each(|path| {
            list.push_str(&format!("/{path}\n"));
        });
        text(tree, &format!("info/{}.list", package.id), 0o644, &list)?;
        for (kind, bytes) in &package.info {
            let script = ["preinst", "postinst", "prerm", "postrm", "config"];
            let mode = if script.contains(&kind.as_str()) { 0o755 } else { 0o644 };
            let path = RootPath::new(&format!("{DIR}/info/{}.{kind}", package.id))?;
            tree.add(Layer::Base, &path, mode, What::File(bytes.clone()))?;
        }
        let triggers = package.info("triggers").map(|bytes| bytes.text(MAX_TEXT)).transpose()?;
        for (trigger, awaits) in interests(&triggers.flatten().unwrap_or_default()) {
            let suffix = if awaits { "" } else { "/noawait" };
            match trigger.starts_with('/') {
                true => files.push_str(&format!("{trigger} {}{suffix}\n", package.id)),
                false => {
                    let who = named.entry(trigger.to_owned()).or_default();
                    who.push_str(&format!("{}{suffix}\n", package.id));
                }
            }
        }
    }
    text(tree, "status", 0o644, &status)?;
    text(tree, "available", 0o644, "")?;
    text(tree, "info/format", 0o644, "1\n")?;
    text(tree, "triggers/File", 0o644, &files)?;
    for (trigger, who) in named {
        text(tree, &format!("triggers/{trigger}"), 0o644, &who)?;
    }
    for folder in ["alternatives", "parts", "updates"] {
        tree.add_dir(Layer::Base, &RootPath::new(&format!("{DIR}/{folder}"))?)?;
    }
    Ok(())
}

fn text(tree: &mut Rootfs, name: &str, mode: u16, text: &str) -> Result<()> {
    tree.add_text(Layer::Base, &RootPath::new(&format!("{DIR}/{name}"))?, mode, text)
}

/// The triggers that a package wants to hear of, and whether who activates them waits for it.
fn interests(triggers: &str) -> impl Iterator<Item = (&str, bool)> {
    triggers.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let awaits = match words.next()? {
            "interest" | "interest-await" => true,
            "interest-noawait" => false,
            _ => return None,
        };
        Some((words.next()?, awaits))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_those_that_the_package_hears() {
        let text = "# x\ninterest-noawait /usr/share/x\ninterest ldconfig\nactivate y\nfoo\n";
        let found: Vec<_> = interests(text).collect();
        assert_eq!(found, [("/usr/share/x", false), ("ldconfig", true)]);
    }
}
