//! Finds programs by their names, as a shell does.

use std::collections::BTreeMap;

use super::{Node, RootPath, Rootfs, What};

/// The search path of images that set none, as runtimes have it.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The folders of an image in which its shell looks for programs, in their order.
pub(crate) fn program_folders(env: &BTreeMap<String, String>) -> Vec<RootPath> {
    let path = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    let mut found: Vec<RootPath> = Vec::new();
    for folder in folders.filter_map(RootPath::inside) {
        if !found.contains(&folder) {
            found.push(folder);
        }
    }
    found
}

/// The file that a program's name stands for in an image with these variables: its real path, and
/// its node.
pub(crate) fn find_program<'a>(
    tree: &'a Rootfs,
    env: &BTreeMap<String, String>,
    name: &str,
) -> Option<(RootPath, &'a Node)> {
    let at = |folder: &RootPath| tree.follow(&RootPath::inside(&format!("{folder}/{name}"))?);
    let is_program = |(_, node): &(RootPath, &Node)| {
        matches!(node.what, What::File(_)) && node.mode & 0o111 != 0
    };
    program_folders(env).iter().filter_map(at).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rootfs::Layer;

    #[test]
    fn programs_are_found_in_the_order_of_the_search_path() {
        let mut tree = Rootfs::default();
        let path = |text: &str| RootPath::new(text).unwrap();
        for (at, mode) in [("usr/bin/a", 0o755), ("opt/bin/a", 0o644), ("usr/sbin/b", 0o755)] {
            tree.add_text(Layer::Base, &path(at), mode, "").unwrap();
        }
        let link = What::Symlink("usr/sbin".to_owned());
        tree.add(Layer::Base, &path("sbin"), 0o777, link).unwrap();
        let check = |set: Option<&str>, name: &str, expected: Option<&str>| {
            let env = set.map(|set| ("PATH".to_owned(), set.to_owned())).into_iter().collect();
            let found = find_program(&tree, &env, name).map(|(path, _)| path.to_string());
            assert_eq!(found.as_deref(), expected, "{set:?} {name}");
        };
        check(None, "a", Some("/usr/bin/a"));
        check(Some("/opt/bin:relative::/usr/bin"), "a", Some("/usr/bin/a"));
        check(Some("/sbin"), "b", Some("/usr/sbin/b"));
        check(Some("/usr/bin"), "b", None);
    }
}
