//! Python packages: whether each has what it needs.

use std::collections::BTreeMap;

use pep440_rs::Version;

use super::Finding;
use super::inventory::ours;
use crate::Result;
use crate::python::is_site;
use crate::rootfs::{RootPath, Rootfs, What};
use crate::wheel::{Environment, Metadata, normal};

/// Longest `METADATA` read.
const MAX_BYTES: u64 = 4 << 20;

/// A package, by the name of its `.dist-info`.
struct Installed {
    path: RootPath,
    version: Version,
    metadata: Metadata,
    /// Whether the base has it, whose packages are the distribution's concern.
    of_base: bool,
}

/// Looks at the `Requires-Dist` of all packages in each folder of packages.
pub(super) fn check(tree: &Rootfs, findings: &mut Vec<Finding>) -> Result<()> {
    let packages = installed(tree)?;
    for package in packages.values().filter(|package| !package.of_base) {
        let python = python(&package.path);
        // Of the processor little depends that a lock does not know already.
        let environment = Environment { machine: "x86_64", extras: &[], python: &python };
        for need in &package.metadata.needs {
            if need.marker.as_ref().is_some_and(|marker| !marker.holds(&environment)) {
                continue;
            }
            let (name, versions) = (&need.name, &need.versions);
            match packages.get(name) {
                None => {
                    let message = format!(
                        "it needs the Python package `{name}{versions}`, which is not there"
                    );
                    findings.push(
                        Finding::error("python-package", &package.path, message)
                            .hint("pin all that is needed: `uv pip compile` and `uv export` do"),
                    );
                }
                Some(there) if !versions.holds(&there.version) => {
                    let message = format!(
                        "it needs the Python package `{name}{versions}`, and {} is there",
                        there.version
                    );
                    findings.push(Finding::warning("python-version", &package.path, message));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

fn installed(tree: &Rootfs) -> Result<BTreeMap<String, Installed>> {
    let mut found = BTreeMap::new();
    for (path, node) in tree.iter().filter(|(path, _)| path.name() == "METADATA") {
        let Some(folder) = path.parent() else { continue };
        let Some(site) = folder.parent().filter(|site| is_site(site.name())) else { continue };
        let Some(stem) = folder.name().strip_suffix(".dist-info") else { continue };
        let Some((name, version)) = stem.split_once('-') else { continue };
        let (What::File(source), Ok(version)) = (&node.what, version.parse()) else { continue };
        let text = source.text(MAX_BYTES)?.unwrap_or_default();
        let (metadata, of_base) = (Metadata::parse(&text), !ours(node));
        let path = site.join(folder.name());
        found.insert(normal(name), Installed { path, version, metadata, of_base });
    }
    Ok(found)
}

/// The Python that a folder is of: `3.11.0` of `usr/lib/python3.11/site-packages`.
fn python(path: &RootPath) -> String {
    let folder = path.as_str().split('/').find_map(|part| part.strip_prefix("python3."));
    format!("3.{}.0", folder.unwrap_or("11"))
}
