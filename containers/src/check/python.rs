//! Checks whether each Python package has what it requires.

use std::collections::BTreeMap;

use pep440_rs::Version;

use super::Finding;
use super::inventory::ours;
use crate::Result;
use crate::python::is_site;
use crate::rootfs::{RootPath, Rootfs, What};
use crate::sif::Arch;
use crate::wheel::{Environment, Marker, Metadata, machine, normal};

/// Longest `METADATA` read.
const MAX_BYTES: u64 = 4 << 20;

/// A package, by the name of its `.dist-info`.
struct Installed {
    path: RootPath,
    version: Version,
    metadata: Metadata,
    /// Whether the package is in the base; the distribution answers for those.
    of_base: bool,
}

/// Looks at the `Requires-Dist` of all packages in each folder of packages.
pub(super) fn check(tree: &Rootfs, arch: Arch, findings: &mut Vec<Finding>) -> Result<()> {
    let packages = installed(tree)?;
    for package in packages.values() {
        // The Python's patch number is not known, so what only some patch versions need is not
        // asked for.
        let pythons = python(&package.path);
        let holds = |marker: &Marker, python: &str| {
            marker.holds(&Environment { machine: machine(arch), extras: &[], python })
        };
        for need in &package.metadata.needs {
            let of_all = |marker: &Marker| pythons.iter().all(|python| holds(marker, python));
            if need.marker.as_ref().is_some_and(|marker| !of_all(marker)) {
                continue;
            }
            let (name, versions) = (&need.name, &need.versions);
            // What a base lacks was missing before; what the build replaced in it is said.
            let there = packages.get(name);
            if package.of_base && there.is_none_or(|there| there.of_base) {
                continue;
            }
            match there {
                None => {
                    let message = format!(
                        "it needs the Python package `{name}{versions}`, which is not there"
                    );
                    findings.push(
                        Finding::error("python-package", &package.path, message)
                            .hint("pin every package that is needed; `uv pip compile` and `uv export` write such a list"),
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
        let package = Installed { path, version, metadata, of_base };
        let there = found.get(&normal(name));
        // Another Python of the base may have the same package.
        if !package.of_base || there.is_none_or(|there: &Installed| there.of_base) {
            found.insert(normal(name), package);
        }
    }
    Ok(found)
}

/// The first and the last Python that a folder may be of: `3.11.0` and `3.11.999` of
/// `usr/lib/python3.11/site-packages`.
fn python(path: &RootPath) -> [String; 2] {
    let folder = path.as_str().split('/').find_map(|part| part.strip_prefix("python3."));
    let minor = folder.unwrap_or("11");
    [format!("3.{minor}.0"), format!("3.{minor}.999")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rootfs::Layer;

    #[test]
    fn markers_are_judged_by_what_is_known_of_the_image() {
        let needs = [
            "arm; platform_machine == 'aarch64'",
            "amd; platform_machine == 'x86_64'",
            "old; python_full_version < '3.11.4'",
            "new; python_full_version >= '3.11.4'",
            "all; python_full_version >= '3.11'",
        ];
        let needs = needs.map(|need| format!("Requires-Dist: {need}\n")).concat();
        let text = format!("Name: a\nVersion: 1\n{needs}");
        let path = "usr/local/lib/python3.11/dist-packages/a-1.dist-info/METADATA";
        let mut tree = Rootfs::default();
        tree.add_text(Layer::Python, &RootPath::new(path).unwrap(), 0o644, &text).unwrap();
        for (arch, own) in [(Arch::Amd64, "amd"), (Arch::Arm64, "arm")] {
            let mut findings = Vec::new();
            check(&tree, arch, &mut findings).unwrap();
            let missing: Vec<_> = findings.iter().map(|finding| &*finding.message).collect();
            let is = |name: &str| missing.iter().any(|text| text.contains(&format!("`{name}`")));
            assert!(is(own) && is("all") && missing.len() == 2, "{missing:?}");
        }
    }
}
