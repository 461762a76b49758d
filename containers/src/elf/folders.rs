//! Folders in which an image's `ld.so` finds libraries through its cache.

use crate::Result;
use crate::rootfs::{RootPath, Rootfs, What};

/// The cache of `ld.so`, which searches none of the configured folders without it.
const CACHE: &str = "/etc/ld.so.cache";
const CONFIGURATION: &str = "/etc/ld.so.conf";

/// The folder of musl's `ld.so`, and how its name begins; behind that is the CPU's.
const MUSL: (&str, &str) = ("lib", "ld-musl-");
/// The folders that musl searches unless `/etc/ld-musl-ARCH.path` names others (ldso/dynlink.c,
/// `load_library`).
const OF_MUSL: [&str; 3] = ["/lib", "/usr/local/lib", "/usr/lib"];
/// Libraries that are part of musl's `ld.so` (the same function, `reserved`).
const IN_MUSL: [&str; 7] =
    ["libc.", "libpthread.", "librt.", "libm.", "libdl.", "libutil.", "libxnet."];

/// Largest configuration file read; a distribution's have some lines.
const MAX_BYTES: u64 = 64 << 10;
/// Configuration files read, those that include each other among them.
const MAX_FILES: usize = 256;
/// Largest number of folders that are taken.
const MAX_FOLDERS: usize = 1024;

/// Returns the folders that `/etc/ld.so.conf` and the files that it includes name, in their order.
/// Without a cache the list is empty; a cache is assumed to be up to date.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io).
pub(super) fn configured(tree: &Rootfs) -> Result<Vec<String>> {
    let mut folders: Vec<String> = Vec::new();
    if RootPath::inside(CACHE).is_none_or(|cache| tree.follow(&cache).is_none()) {
        return Ok(folders);
    }
    // Files still to be read, the next one last.
    let mut todo: Vec<RootPath> = RootPath::inside(CONFIGURATION).into_iter().collect();
    for _ in 0..MAX_FILES {
        let Some(file) = todo.pop() else { break };
        let Some((_, node)) = tree.follow(&file) else { continue };
        let What::File(source) = &node.what else { continue };
        let Some(text) = source.text(MAX_BYTES)? else { continue };
        let mut included = Vec::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            match line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
                Some(patterns) => {
                    for pattern in patterns.split_whitespace() {
                        included.extend(matching(tree, &file, pattern));
                    }
                }
                None if line.starts_with('/') && folders.len() < MAX_FOLDERS => {
                    // Old files have a type such as `libc5` after a `=`.
                    let folder = line.split('=').next().unwrap_or_default();
                    let folder = folder.trim_end_matches('/').to_owned();
                    if !folders.contains(&folder) {
                        folders.push(folder);
                    }
                }
                None => {}
            }
        }
        todo.extend(included.into_iter().take(MAX_FILES).rev());
    }
    Ok(folders)
}

/// Returns the folders that musl's `ld.so` searches; `None` for an image without it.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io).
pub(super) fn of_musl(tree: &Rootfs) -> Result<Option<Vec<String>>> {
    let (Some(folder), prefix) = (RootPath::inside(MUSL.0), MUSL.1) else { return Ok(None) };
    let processor = tree.children(&folder).find_map(|(path, _)| {
        let name = path.name().strip_prefix(prefix)?.strip_suffix(".so.1")?;
        Some(name.to_owned())
    });
    let Some(processor) = processor else { return Ok(None) };
    let file = RootPath::inside(&format!("/etc/{prefix}{processor}.path"));
    let source = file.and_then(|file| tree.follow(&file)).and_then(|(_, node)| match &node.what {
        What::File(source) => Some(source),
        _ => None,
    });
    let text = source.map(|source| source.text(MAX_BYTES)).transpose()?.flatten();
    Ok(Some(match text {
        Some(text) => {
            let folders = text.split(['\n', ':']).map(str::trim).filter(|f| f.starts_with('/'));
            folders.take(MAX_FOLDERS).map(str::to_owned).collect()
        }
        None => OF_MUSL.map(str::to_owned).to_vec(),
    }))
}

/// Whether musl's `ld.so` is this library itself.
pub(super) fn is_in_musl(name: &str) -> bool {
    IN_MUSL.iter().any(|start| name.starts_with(start))
}

/// The files that a pattern names: from the root, or beside the file that contains it. Only its
/// last segment may have `*`.
fn matching(tree: &Rootfs, from: &RootPath, pattern: &str) -> Vec<RootPath> {
    let beside = from.parent().unwrap_or(RootPath::ROOT);
    let (folder, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
    let folder = match pattern.starts_with('/') {
        true => RootPath::inside(folder),
        false => RootPath::inside(&format!("{beside}/{folder}")),
    };
    let Some(folder) = folder else { return Vec::new() };
    let files = tree.children(&folder).map(|(path, _)| path);
    // As in a shell, `*` does not match hidden files.
    let hidden = |path: &RootPath| path.name().starts_with('.') && !name.starts_with('.');
    files.filter(|path| !hidden(path) && matches(name, path.name())).collect()
}

/// Whether a name matches `pattern`, in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = name.find(part) else { return false };
        name = name.get(at + part.len()..).unwrap_or_default();
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rootfs::Layer;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.old", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("a", "a", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn files_that_include_one_another_end() {
        let mut tree = Rootfs::default();
        let mut add = |at: &str, text: &str| {
            let at = RootPath::new(at).unwrap();
            tree.add_text(Layer::Base, &at, 0o644, text).unwrap();
        };
        add("etc/ld.so.cache", "");
        add(
            "etc/ld.so.conf",
            "include ld.so.conf.d/*.conf ../etc/ld.so.conf\n/last/ # x\nhwcap 1\n",
        );
        add("etc/ld.so.conf.d/b.conf", "/b\n/b\n");
        add("etc/ld.so.conf.d/a.conf", "  /a=libc6\nincludes\nrelative\n");
        add("etc/ld.so.conf.d/a.txt", "/txt\n");
        add("etc/ld.so.conf.d/.conf", "/hidden\n");
        let expected = ["/last", "/a", "/b"];
        assert_eq!(configured(&tree).unwrap(), expected);
        tree.remove(&RootPath::new("etc/ld.so.cache").unwrap());
        assert_eq!(configured(&tree).unwrap(), [""; 0]);
    }

    #[test]
    fn musl_has_folders_and_libraries_of_its_own() {
        let mut tree = Rootfs::default();
        assert_eq!(of_musl(&tree).unwrap(), None);
        let loader = RootPath::new("lib/ld-musl-x86_64.so.1").unwrap();
        tree.add_text(Layer::Base, &loader, 0o755, "").unwrap();
        let usual = OF_MUSL.map(str::to_owned);
        assert_eq!(of_musl(&tree).unwrap().unwrap(), usual);
        let at = RootPath::new("etc/ld-musl-x86_64.path").unwrap();
        tree.add_text(Layer::Base, &at, 0o644, "/a:/b\n/c\nrelative\n").unwrap();
        assert_eq!(of_musl(&tree).unwrap().unwrap(), ["/a", "/b", "/c"]);
        for (name, expected) in
            [("libc.musl-x86_64.so.1", true), ("libm.so", true), ("libmagic.so", false)]
        {
            assert_eq!(is_in_musl(name), expected, "{name}");
        }
    }
}
