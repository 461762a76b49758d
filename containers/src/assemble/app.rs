//! Adds the program, and further files that the recipe names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{BIN, Parts};
use crate::rootfs::{FileBytes, Layer, Node, RootPath, Rootfs, What};
use crate::{Error, Result};

/// Deepest folder whose files are taken along.
const MAX_DEPTH: usize = 64;

/// Adds the files of `[app]`.
pub(super) fn add_files(tree: &mut Rootfs, parts: &Parts<'_>) -> Result<()> {
    for (inside, here) in parts.recipe.app.iter().flat_map(|app| &app.files) {
        add_here(tree, &RootPath::new(inside)?, &parts.dir.join(here), 0)?;
    }
    Ok(())
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
fn add_here(tree: &mut Rootfs, inside: &RootPath, here: &Path, depth: usize) -> Result<()> {
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
        add_here(tree, &inside.join(name), &entry.path(), depth + 1)?;
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
        add_here(&mut tree, &RootPath::new("site/pkg").unwrap(), here.path(), 0).unwrap();
        let there = code.map(|path| tree.get(&path).map(|node| node.layer));
        // The folder of `y` is the user's own.
        let expected = [None, Some(Layer::Python), Some(Layer::App), Some(Layer::Python)];
        assert_eq!(there, expected);
    }
}
