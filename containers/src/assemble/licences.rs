//! What the wheels say about redistribution.

use super::Parts;
use crate::rootfs::{RootPath, Rootfs};
use crate::store::MemberKind;
use crate::{Package, Result};

/// Adds the licences of the wheels named, as they are, below `/usr/share/licenses`.
/// Debian's stand in its packages.
pub(super) fn add(tree: &mut Rootfs, parts: &Parts<'_>, wheels: &[String]) -> Result<()> {
    for (Package { name, .. }, files) in &parts.wheels {
        if !wheels.iter().any(|wheel| wheel == name) {
            continue;
        }
        let layer = super::libraries::layer_of(name);
        for entry in &files.entries {
            let Some(rest) = licence(&entry.path) else { continue };
            if let MemberKind::File(..) = entry.kind {
                let path = RootPath::new(&format!("usr/share/licenses/{name}/{rest}"))?;
                tree.add(layer, &path, 0o644, files.what(entry)?)?;
            }
        }
    }
    Ok(())
}

/// The part of a wheel's path that names a licence below its `.dist-info`.
fn licence(path: &str) -> Option<&str> {
    let (folder, rest) = path.split_once('/')?;
    if !folder.ends_with(".dist-info") {
        return None;
    }
    let rest = rest.strip_prefix("licenses/").unwrap_or(rest);
    let name = rest.rsplit('/').next()?.to_ascii_lowercase();
    let words = ["licen", "notice", "copying", "copyright", "eula"];
    (path.contains("/licenses/") || words.iter().any(|word| name.contains(word))).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_told_from_other_metadata() {
        for (path, expected) in [
            ("torch-2.11.0.dist-info/licenses/LICENSE", Some("LICENSE")),
            (
                "torch-2.11.0.dist-info/licenses/third_party/x/COPYING",
                Some("third_party/x/COPYING"),
            ),
            ("nvidia_cublas-13.1.dist-info/License.txt", Some("License.txt")),
            ("nvidia_cublas-13.1.dist-info/METADATA", None),
            ("torch/lib/libc10.so", None),
        ] {
            assert_eq!(licence(path), expected, "{path}");
        }
    }
}
