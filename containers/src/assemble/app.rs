//! Adds the program, and further files that the recipe names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{BIN, Parts};
use crate::rootfs::{FileBytes, Layer, Node, RootPath, Rootfs, What};
use crate::{Error, Result};

/// Deepest folder whose files are taken along.
const MAX_DEPTH: usize = 64;

/// Digits of the digest in the name of an image.
const HASH_LEN: usize = 16;

/// Adds the files of `[app]`.
pub(super) fn add_files(tree: &mut Rootfs, parts: &Parts<'_>) -> Result<()> {
    let written = Written::of(parts);
    for (inside, here) in parts.recipe.app.iter().flat_map(|app| &app.files) {
        add_here(tree, &RootPath::new(inside)?, &parts.dir.join(here), 0, &written)?;
    }
    Ok(())
}

/// What the build writes beside the recipe. With the recipe's folder in the image, it would change
/// the image that it says something of.
#[derive(Debug, Default)]
struct Written {
    /// The recipe's folder.
    dir: Option<PathBuf>,
    /// The name of the lock.
    lock: String,
    /// How the names of images begin, and of their lists of contents.
    image: String,
}

impl Written {
    fn of(parts: &Parts<'_>) -> Self {
        let lock = parts.lock_path.file_name().map(|name| name.to_string_lossy().into_owned());
        Self {
            dir: fs::canonicalize(parts.dir).ok(),
            lock: lock.unwrap_or_default(),
            image: format!("{}-", parts.recipe.image.name),
        }
    }

    /// Whether a name in a folder is that of a file that the build writes.
    fn has(&self, folder: &Path, name: &str) -> bool {
        let is_image = |ends: &str| {
            let hash = name.strip_prefix(&self.image).and_then(|rest| rest.strip_suffix(ends));
            hash.is_some_and(|hash| {
                hash.len() == HASH_LEN && hash.bytes().all(|b| b.is_ascii_hexdigit())
            })
        };
        (name == self.lock || [".sif", ".oci", ".oci.tar", ".spdx.json"].into_iter().any(is_image))
            && self.dir.is_some()
            && fs::canonicalize(folder).ok() == self.dir
    }
}

/// Adds the program; returns its path.
pub(super) fn add_program(tree: &mut Rootfs, parts: &Parts<'_>) -> Result<Option<RootPath>> {
    let Some(program) = parts.program.filter(|_| parts.recipe.app.is_some()) else {
        return Ok(None);
    };
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or("program");
    let path = RootPath::new(&format!("{BIN}/{name}"))?;
    tree.add(Layer::App, &path, 0o755, What::File(FileBytes::of(program)?))?;
    Ok(Some(path))
}

/// A file, or a folder with all that is in it. Links are taken for what they
/// lead to: what they name may not be in the image.
fn add_here(
    tree: &mut Rootfs,
    inside: &RootPath,
    here: &Path,
    depth: usize,
    written: &Written,
) -> Result<()> {
    let meta = fs::metadata(here).map_err(Error::io("read", here))?;
    if !meta.is_dir() {
        let mode = meta.permissions().mode();
        if mode & 0o044 == 0 {
            let reason = "only its owner may read it, but in the image everybody could: leave it out, or `chmod a+r` it";
            let path = here.display().to_string();
            return Err(Error::Conflict { path, reason: reason.to_owned() });
        }
        let mode = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
        remove_byte_code(tree, inside);
        return tree.add(Layer::App, inside, mode, What::File(FileBytes::of(here)?));
    }
    if depth == MAX_DEPTH {
        let reason = format!(
            "it is more than {MAX_DEPTH} folders deep; check for symbolic links that lead back to a folder above"
        );
        return Err(Error::Conflict { path: here.display().to_string(), reason });
    }
    tree.add_dir(Layer::App, inside)?;
    for entry in fs::read_dir(here).map_err(Error::io("read", here))? {
        let entry = entry.map_err(Error::io("read", here))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            let path = entry.path().display().to_string();
            return Err(Error::Path { path, reason: "its name is not UTF-8" });
        };
        if !written.has(here, name) {
            add_here(tree, &inside.join(name), &entry.path(), depth + 1, written)?;
        }
    }
    Ok(())
}

/// Python takes byte code without a look at its source: that of what was at this path would
/// hide the user's file. Byte code that the user brings stays.
fn remove_byte_code(tree: &mut Rootfs, source: &RootPath) {
    let Some(stem) = source.name().strip_suffix(".py") else { return };
    let Some(dir) = source.parent() else { return };
    let begin = format!("{stem}.cpython-");
    let is_old = |(path, node): &(RootPath, &Node)| {
        let name = path.name();
        name.starts_with(&begin) && name.ends_with(".pyc") && node.layer != Layer::App
    };
    let folder = dir.join("__pycache__");
    let old = tree.children(&folder).filter(is_old);
    let old: Vec<_> = old.map(|(path, _)| path).collect();
    old.iter().for_each(|path| tree.remove(path));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_build_writes_beside_the_recipe_stays_out() {
        let here = tempfile::tempdir().unwrap();
        let dir = here.path();
        fs::create_dir(dir.join("sub")).unwrap();
        let names =
            ["image.lock", "lab-0123456789abcdef.sif", "uv.lock", "lab-old.sif", "sub/image.lock"];
        for name in names {
            fs::write(dir.join(name), "x").unwrap();
        }
        let (lock, image) = ("image.lock".to_owned(), "lab-".to_owned());
        let written = Written { dir: fs::canonicalize(dir).ok(), lock, image };
        let mut tree = Rootfs::default();
        let inside = RootPath::new("src").unwrap();
        add_here(&mut tree, &inside, &dir.join("."), 0, &written).unwrap();
        let is_there = |name: &str| tree.get(&inside.join(name)).is_some();
        assert_eq!(names.map(is_there), [false, false, true, true, true]);
    }

    #[test]
    fn byte_code_of_a_source_that_is_replaced_goes() {
        let here = tempfile::tempdir().unwrap();
        fs::create_dir(here.path().join("__pycache__")).unwrap();
        for name in ["x.py", "y.py", "__pycache__/y.cpython-311.pyc"] {
            fs::write(here.path().join(name), "mine").unwrap();
        }
        let mut tree = Rootfs::default();
        let at = |name: &str| RootPath::new(&format!("site/pkg/{name}")).unwrap();
        let code =
            ["x", "x.a", "y", "z"].map(|stem| at(&format!("__pycache__/{stem}.cpython-311.pyc")));
        for path in [at("x.py"), at("y.py"), at("z.py")].iter().chain(&code) {
            tree.add_text(Layer::Python, path, 0o644, "theirs").unwrap();
        }
        add_here(
            &mut tree,
            &RootPath::new("site/pkg").unwrap(),
            here.path(),
            0,
            &Written::default(),
        )
        .unwrap();
        let there = code.map(|path| tree.get(&path).map(|node| node.layer));
        // The folder of `y` is the user's own.
        let expected = [None, Some(Layer::Python), Some(Layer::App), Some(Layer::Python)];
        assert_eq!(there, expected);
    }
}
