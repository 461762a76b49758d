//! Installs wheels into an image, as an installer does.

use std::collections::HashMap;

use crate::rootfs::{Layer, RootPath, Rootfs, What};
use crate::store::{Entry, Listing, MemberKind};
use crate::wheel::normal;
use crate::{Error, Package, Result, Sha256};

use super::base_python::BaseWheel;
use super::scheme::Scheme;
use super::unpack::{SCRIPTS, SHEBANG, SITE};

/// Says who installed a package (PEP 376): pip leaves what is not its own.
const INSTALLER: &str = "gular\n";
/// Longest script whose first line is changed.
const MAX_SCRIPT: u64 = 16 << 20;
/// Longest `RECORD` and `entry_points.txt` read; torch 2.11 has 1.3 MB.
const MAX_TEXT: u64 = 64 << 20;

/// The Python part of an image.
#[derive(Debug)]
#[non_exhaustive]
pub struct Python<'a> {
    /// The image's Python, and where it looks for packages.
    pub scheme: Scheme,
    /// Wheels, and their files as [`unpack_whole`](super::unpack_whole) sorts them.
    pub wheels: Vec<(&'a Package, Listing)>,
    /// Byte code by its path in the image.
    pub byte_code: Vec<Listing>,
    /// Packages of the base in other versions, which the wheels replace.
    pub(crate) replaced: Vec<BaseWheel>,
}

impl<'a> Python<'a> {
    pub(crate) fn new(scheme: Scheme, wheels: Vec<(&'a Package, Listing)>) -> Self {
        Self { scheme, wheels, byte_code: Vec::new(), replaced: Vec::new() }
    }
}

/// Whether wheels are installed in folders of this name, in our images or others.
pub(crate) fn is_site(folder: &str) -> bool {
    matches!(folder, "dist-packages" | "site-packages")
}

/// The folder of Python packages that a path is below, such as
/// `usr/local/lib/python3.11/dist-packages`.
pub(crate) fn site_of(path: &RootPath) -> Option<&str> {
    let text = path.as_str();
    let ends = text.match_indices('/').map(|(at, _)| at);
    let mut folders = ends.filter_map(|end| text.get(..end));
    folders.find(|folder| is_site(folder.rsplit('/').next().unwrap_or(folder)))
}

/// The layer of a wheel's files: what is large and seldom changes is apart.
fn layer_of(wheel: &str) -> Layer {
    match wheel {
        "torch" => Layer::Libtorch,
        // Triton is as large as a library of CUDA, and comes with the same torch.
        "triton" => Layer::Cuda,
        _ if wheel.starts_with("nvidia-") => Layer::Cuda,
        _ => Layer::Python,
    }
}

/// Adds the wheels, their programs, and their byte code. If two wheels have a file at the same
/// path, the wheel with the later name wins, as with pip: all of NVIDIA's have an empty
/// `nvidia/__init__.py`.
///
/// # Errors
/// [`Error::Archive`] for a wheel whose metadata are wrong; those of [`Rootfs::add`].
pub(crate) fn install(tree: &mut Rootfs, python: &Python<'_>) -> Result<()> {
    for present in &python.replaced {
        present.remove(tree)?;
    }
    for (package, files) in &python.wheels {
        wheel(tree, python, package, files)?;
    }
    for files in &python.byte_code {
        for entry in &files.entries {
            let path = RootPath::new(&entry.path)?;
            let source = path.parent().and_then(|dir| dir.parent());
            let layer = match source.and_then(|dir| tree.get(&dir).map(|node| node.layer)) {
                Some(layer) => layer,
                None => Layer::Python,
            };
            tree.add(layer, &path, entry.mode, files.what(entry)?)?;
        }
    }
    // Debian's Python is only called `python3`.
    let Scheme { prefix, program, .. } = &python.scheme;
    let beside = RootPath::inside(program).and_then(|path| path.parent());
    let is_there = |dir: &RootPath| tree.get(&dir.join("python")).is_some();
    let bin = RootPath::new(&format!("{prefix}/bin"))?;
    if !is_there(&bin) && !beside.is_some_and(|dir| is_there(&dir)) {
        let what = What::Symlink(program.clone());
        tree.add(Layer::Python, &bin.join("python"), 0o777, what)?;
    }
    Ok(())
}

fn wheel(tree: &mut Rootfs, python: &Python<'_>, package: &Package, files: &Listing) -> Result<()> {
    let (layer, scheme) = (layer_of(&package.name), &python.scheme);
    let said = DistInfo::of(package, files)?;
    for entry in &files.entries {
        if said.record == entry.path || !matches!(entry.kind, MemberKind::File(..)) {
            continue;
        }
        let path = RootPath::new(&scheme.installed_path(&entry.path, &package.name))?;
        let what = files.what(entry)?;
        match begun_by(scheme, &entry.path, &what)? {
            Some(text) => tree.add_text(layer, &path, entry.mode, &text)?,
            None => tree.add(layer, &path, entry.mode, what)?,
        }
    }
    let scripts = said.scripts(files, scheme)?;
    for (name, text) in &scripts {
        let path = RootPath::new(&format!("{}/bin/{name}", scheme.prefix))?;
        tree.add_text(layer, &path, 0o755, text)?;
    }
    let at = |name: &str| RootPath::new(&format!("{}/{}/{name}", scheme.site, said.folder));
    tree.add_text(layer, &at("INSTALLER")?, 0o644, INSTALLER)?;
    let record = said.record_text(scheme, package, files, &scripts)?;
    tree.add_text(layer, &at("RECORD")?, 0o644, &record)
}

/// A script of a wheel with the first line that another Python than Debian's needs; it was
/// unpacked with Debian's.
fn begun_by(scheme: &Scheme, entry: &str, what: &What) -> Result<Option<String>> {
    let first = scheme.first_line();
    let What::File(source) = what else { return Ok(None) };
    if first == SHEBANG || !entry.starts_with(SCRIPTS) {
        return Ok(None);
    }
    let text = source.text(MAX_SCRIPT)?;
    let rest = text.as_deref().and_then(|text| text.strip_prefix(SHEBANG));
    let rest = rest.filter(|rest| rest.starts_with(['\n', '\r', ' ']));
    Ok(rest.map(|rest| format!("{first}{rest}")))
}

/// A wheel's `.dist-info`.
struct DistInfo<'a> {
    /// The folder's name: `torch-2.11.0.dist-info`.
    folder: &'a str,
    /// The path of its `RECORD`.
    record: &'a str,
    shown: String,
}

impl<'a> DistInfo<'a> {
    fn of(package: &Package, files: &'a Listing) -> Result<Self> {
        let shown = package.file_name().unwrap_or_else(|| package.name.clone());
        let record = files.entries.iter().find_map(|entry| {
            let folder = entry.path.strip_prefix(SITE)?.strip_suffix("/RECORD")?;
            let name = folder.strip_suffix(".dist-info")?.split('-').next()?;
            (normal(name) == package.name).then_some((folder, entry.path.as_str()))
        });
        let Some((folder, record)) = record else {
            let reason = format!("it has no `RECORD` of `{}`", package.name);
            return Err(Error::Archive { path: shown, reason });
        };
        Ok(Self { folder, record, shown })
    }

    /// Reads a text file beside `RECORD`.
    fn text(&self, files: &Listing, name: &str) -> Result<Option<String>> {
        let path = format!("{SITE}{}/{name}", self.folder);
        let Some(entry) = files.entries.iter().find(|entry| entry.path == path) else {
            return Ok(None);
        };
        let What::File(source) = files.what(entry)? else { return Ok(None) };
        source.text(MAX_TEXT)
    }

    /// Programs that its `entry_points.txt` names, and their texts.
    fn scripts(&self, files: &Listing, scheme: &Scheme) -> Result<Vec<(String, String)>> {
        let Some(text) = self.text(files, "entry_points.txt")? else { return Ok(Vec::new()) };
        let mut scripts = Vec::new();
        let mut wanted = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                wanted = matches!(line, "[console_scripts]" | "[gui_scripts]");
            } else if wanted
                && !line.starts_with(['#', ';'])
                && let Some((name, object)) = line.split_once('=')
            {
                let name = name.trim();
                let script = script(object, &scheme.first_line())
                    .filter(|_| crate::package::is_file_name(name));
                let script = script.ok_or_else(|| Error::Archive {
                    path: self.shown.clone(),
                    reason: format!("its `entry_points.txt` has the line `{line}`, which does not describe a program"),
                })?;
                scripts.push((name.to_owned(), script));
            }
        }
        Ok(scripts)
    }

    /// `RECORD` of what is in the image: the wheel's own lines, and what was added.
    fn record_text(
        &self,
        scheme: &Scheme,
        package: &Package,
        files: &Listing,
        scripts: &[(String, String)],
    ) -> Result<String> {
        let of_wheel = self.text(files, "RECORD")?.unwrap_or_default();
        let of_wheel: HashMap<&str, &str> = of_wheel.lines().filter_map(parts).collect();
        let mut lines = Vec::new();
        for entry in &files.entries {
            if self.record == entry.path {
                continue;
            }
            let path = scheme.installed_path(&entry.path, &package.name);
            // A script's first line may have been changed.
            let known = entry.path.strip_prefix(SITE).and_then(|name| of_wheel.get(name));
            lines.push(format!("{}{}", scheme.recorded(&path), known.unwrap_or(&",,")));
        }
        let mut add = |path: &str, text: &str| {
            let (digest, bytes) = (base64(Sha256::of(text.as_bytes())), text.len());
            lines.push(format!("{},sha256={digest},{bytes}", scheme.recorded(path)));
        };
        for (name, text) in scripts {
            add(&format!("{}/bin/{name}", scheme.prefix), text);
        }
        add(&format!("{}/{}/INSTALLER", scheme.site, self.folder), INSTALLER);
        lines.push(format!("{}/RECORD,,", self.folder));
        lines.sort();
        Ok(lines.join("\n") + "\n")
    }
}

/// A line of `RECORD`: the path, and digest and length with the comma before them.
fn parts(line: &str) -> Option<(&str, &str)> {
    let (at, _) = line.rmatch_indices(',').nth(1)?;
    Some(line.split_at(at))
}

fn base64(digest: Sha256) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(digest.bytes())
}

/// Returns a program that starts `module:object`.
fn script(object: &str, first_line: &str) -> Option<String> {
    // Extras behind it, `[x]`, count for nothing any more.
    let object = object.split('[').next().unwrap_or_default().trim();
    let (module, object) = object.split_once(':')?;
    let (module, object) = (module.trim(), object.trim());
    let is_name = |text: &str| {
        let good = |c: char| c.is_alphanumeric() || c == '_';
        text.split('.').all(|part| !part.is_empty() && part.chars().all(good))
    };
    let first = object.split('.').next().unwrap_or_default();
    (is_name(module) && is_name(object)).then(|| {
        format!("{first_line}\nimport sys\nfrom {module} import {first}\nif __name__ == \"__main__\":\n    sys.exit({object}())\n")
    })
}

/// Returns a wheel's `METADATA`, without unpacking the wheel again.
pub(crate) fn metadata(files: &Listing) -> Result<Option<String>> {
    let found = files.entries.iter().find(|entry: &&Entry| {
        entry.path.starts_with(SITE) && entry.path.ends_with(".dist-info/METADATA")
    });
    let Some(entry) = found else { return Ok(None) };
    let What::File(source) = files.what(entry)? else { return Ok(None) };
    source.text(MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_made_of_its_entry_point() {
        let text = script(" torch.distributed.run:main [extra]", SHEBANG).unwrap();
        assert_eq!(
            text,
            "#!/usr/bin/python3\nimport sys\nfrom torch.distributed.run import main\nif __name__ == \"__main__\":\n    sys.exit(main())\n"
        );
        assert!(script("a:B.c", SHEBANG).unwrap().contains("from a import B\n"));
        for bad in ["a", "a:", ":b", "a:b;import os", "a b:c", "a:b()\nx", "a..b:c"] {
            assert_eq!(script(bad, SHEBANG), None, "{bad}");
        }
    }

    #[test]
    fn lines_of_record_are_split_at_the_digest() {
        assert_eq!(parts("a/b.py,sha256=x,7"), Some(("a/b.py", ",sha256=x,7")));
        assert_eq!(parts("a/b.py,7"), None);
    }
}
