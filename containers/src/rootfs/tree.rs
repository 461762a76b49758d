//! The tree of an image's files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::RootPath;
use crate::{Error, Result, UnixTime};

/// Links followed on the way to one file, as Linux does.
const MAX_LINKS: usize = 40;

/// The part of an image that a file belongs to. Parts that change seldom are the first, so that a
/// push of a new program sends only the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The distribution.
    Base,
    /// Debian packages that are added to another image.
    Packages,
    /// NVIDIA's libraries.
    Cuda,
    /// libtorch.
    Libtorch,
    /// Python packages.
    Python,
    /// What a step of the recipe made, by its number from 0.
    Run(u8),
    /// The program, and the files that describe the image.
    App,
}

impl Layer {
    /// Returns the layer with this name; all steps have the same.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [Self::Base, Self::Packages, Self::Cuda, Self::Libtorch, Self::Python];
        let all = all.into_iter().chain([Self::Run(0), Self::App]);
        all.into_iter().find(|layer| layer.name() == name)
    }

    /// The layer's name in tables: `base`, `packages`, `cuda`, `libtorch`, `python`, `run`, `app`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Packages => "packages",
            Self::Cuda => "cuda",
            Self::Libtorch => "libtorch",
            Self::Python => "python",
            Self::Run(_) => "run",
            Self::App => "app",
        }
    }
}

/// Where a file's bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileBytes {
    /// In memory.
    Bytes(Arc<[u8]>),
    /// In a file on this machine, with its length at the time it was found.
    File {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        bytes: u64,
        /// BLAKE3 of the file's bytes, if it is known.
        blake3: Option<[u8; 32]>,
    },
}

impl FileBytes {
    /// A file of this machine, as it is now.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn of(path: &Path) -> Result<Self> {
        let meta = std::fs::metadata(path).map_err(Error::io("read", path))?;
        if !meta.is_file() {
            // Opening a pipe would wait for its other end.
            let reason = "it is not a regular file".to_owned();
            return Err(Error::Conflict { path: path.display().to_string(), reason });
        }
        Ok(Self::File { path: path.to_owned(), bytes: meta.len(), blake3: None })
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { bytes, .. } => *bytes,
        }
    }

    /// Returns the file's text; `None` if it is longer than `most` bytes. Bytes that are not UTF-8
    /// are replaced.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn text(&self, most: u64) -> Result<Option<String>> {
        if self.len() > most {
            return Ok(None);
        }
        let text = |bytes: &[u8]| Some(String::from_utf8_lossy(bytes).into_owned());
        match self {
            Self::Bytes(bytes) => Ok(text(bytes)),
            Self::File { path, .. } => {
                std::fs::read(path).map(|bytes| text(&bytes)).map_err(Error::io("read", path))
            }
        }
    }

    /// Returns whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The kind of a node, with its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A directory.
    Dir,
    /// A file.
    File(FileBytes),
    /// A symbolic link with this target.
    Symlink(String),
    /// Another name of the file at this path.
    Hardlink(RootPath),
}

/// One node. It belongs to user and group 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Permission bits, set-user-ID and such included: 12 bits.
    pub mode: u16,
    /// The node's kind, with its contents.
    pub what: What,
    /// The layer that the node belongs to.
    pub layer: Layer,
    /// The time of its last change, for what another image brought; all else has the image's.
    pub time: Option<UnixTime>,
}

impl Node {
    /// Bytes of a file; 0 for other nodes.
    pub fn bytes(&self) -> u64 {
        match &self.what {
            What::File(source) => source.len(),
            What::Dir | What::Symlink(_) | What::Hardlink(_) => 0,
        }
    }
}

/// A whole tree, the root a directory with mode 0755.
#[derive(Debug, Clone)]
pub struct Rootfs {
    nodes: BTreeMap<RootPath, Node>,
    /// Other names of a file, by its first name.
    names: BTreeMap<RootPath, BTreeSet<RootPath>>,
}

impl Default for Rootfs {
    fn default() -> Self {
        let root = Node { mode: 0o755, what: What::Dir, layer: Layer::Base, time: None };
        Self { nodes: BTreeMap::from([(RootPath::ROOT, root)]), names: BTreeMap::new() }
    }
}

impl Rootfs {
    /// Adds a directory; an existing one keeps its mode.
    ///
    /// # Errors
    /// Those of [`add`](Self::add).
    pub fn add_dir(&mut self, layer: Layer, path: &RootPath) -> Result<()> {
        match self.nodes.get(&self.real(path)?) {
            Some(Node { what: What::Dir, .. }) => Ok(()),
            _ => self.add(layer, path, 0o755, What::Dir),
        }
    }

    /// Adds a file with these bytes.
    ///
    /// # Errors
    /// Those of [`add`](Self::add).
    pub fn add_text(&mut self, layer: Layer, path: &RootPath, mode: u16, text: &str) -> Result<()> {
        let source = FileBytes::Bytes(Arc::from(text.as_bytes()));
        self.add(layer, path, mode, What::File(source))
    }

    /// Adds a node, with the directories above it. Links among those are
    /// followed inside the image; whatever they say, nothing lands outside it.
    /// A node that is there gives way to one of the same kind, as when an
    /// archive is unpacked over another; a directory and its like are one.
    ///
    /// # Errors
    /// [`Error::Path`] when something that is not a directory stands above it, or
    /// links lead round in a circle; [`Error::Conflict`] where another kind stands.
    pub fn add(&mut self, layer: Layer, path: &RootPath, mode: u16, what: What) -> Result<()> {
        let Some(parent) = path.parent() else {
            return match what {
                What::Dir => Ok(()),
                _ => Err(self.conflict(path, "the root of the image must be a directory")),
            };
        };
        let parent = self.real(&parent)?;
        self.make_dirs(layer, &parent)?;
        let path = parent.join(path.name());
        if let Some(there) = self.nodes.get(&path) {
            let same = std::mem::discriminant(&there.what) == std::mem::discriminant(&what);
            let to_dir = || match &there.what {
                What::Symlink(_) => self.real(&path).ok().and_then(|to| self.nodes.get(&to)),
                _ => None,
            };
            match (&there.what, &what) {
                // `lib` as a directory, where it is a link to `usr/lib`.
                (What::Symlink(_), What::Dir)
                    if to_dir().is_some_and(|node| node.what == What::Dir) =>
                {
                    return Ok(());
                }
                (What::File(_) | What::Hardlink(_), What::File(_) | What::Hardlink(_)) => {}
                _ if same => {}
                (there, new) => {
                    let reason = format!("{} is where {} should be", there.noun(), new.noun());
                    return Err(self.conflict(&path, &reason));
                }
            }
        }
        if matches!(&what, What::Hardlink(first) if first == &path) {
            // The node is the file itself, so there is nothing to link.
            return match self.nodes.contains_key(&path) {
                true => Ok(()),
                false => Err(self.conflict(&path, "it is a hard link to itself")),
            };
        }
        self.take(&path);
        if let What::Hardlink(first) = &what {
            self.names.entry(first.clone()).or_default().insert(path.clone());
        }
        self.nodes.insert(path, Node { mode, what, layer, time: None });
        Ok(())
    }

    /// Removes a node and all that is below it; links above it are followed. Files
    /// with names elsewhere keep those.
    pub fn remove(&mut self, path: &RootPath) {
        let Some(Ok(parent)) = path.parent().map(|parent| self.real(&parent)) else { return };
        let path = parent.join(path.name());
        let below: Vec<_> = self.nodes.range(path.below()).map(|(path, _)| path.clone()).collect();
        for path in below.iter().chain([&path]) {
            self.take(path);
        }
    }

    /// Takes a node out; if it was a file with other names, the next one has it then.
    fn take(&mut self, path: &RootPath) {
        let Some(node) = self.nodes.remove(path) else { return };
        if let What::Hardlink(first) = &node.what
            && let Some(names) = self.names.get_mut(first)
        {
            names.remove(path);
        }
        let Some(mut names) = self.names.remove(path) else { return };
        let Some(next) = names.pop_first() else { return };
        for name in &names {
            if let Some(other) = self.nodes.get_mut(name) {
                other.what = What::Hardlink(next.clone());
            }
        }
        if let Some(other) = self.nodes.get_mut(&next) {
            (other.what, other.time) = (node.what, node.time);
        }
        if !names.is_empty() {
            self.names.insert(next, names);
        }
    }

    /// Gives the node at a path its own time; links above it are followed. Nothing happens where
    /// none is.
    pub(crate) fn set_time(&mut self, path: &RootPath, time: UnixTime) {
        let real = match path.parent().map(|parent| self.real(&parent)) {
            Some(Ok(parent)) => parent.join(path.name()),
            Some(Err(_)) => return,
            None => RootPath::ROOT,
        };
        if let Some(node) = self.nodes.get_mut(&real) {
            node.time = Some(time);
        }
    }

    /// Gives each node the layer that `of` returns.
    pub(crate) fn set_layers(&mut self, of: impl Fn(&RootPath) -> Layer) {
        for (path, node) in &mut self.nodes {
            node.layer = of(path);
        }
    }

    /// The node at a path; links above it are followed, itself is not.
    pub fn get(&self, path: &RootPath) -> Option<&Node> {
        let Some(parent) = path.parent() else { return self.nodes.get(path) };
        self.nodes.get(&self.real(&parent).ok()?.join(path.name()))
    }

    /// Returns the node at a path with all links followed, and its real path.
    pub fn follow(&self, path: &RootPath) -> Option<(RootPath, &Node)> {
        let mut path = self.real(path).ok()?;
        let mut node = self.nodes.get(&path)?;
        if let What::Hardlink(first) = &node.what {
            path = first.clone();
            node = self.nodes.get(&path)?;
        }
        Some((path, node))
    }

    /// Returns the text of a file, with links followed; `None` for anything else, and for a file with
    /// more than `most` bytes. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn text(&self, path: &RootPath, most: u64) -> Result<Option<String>> {
        match self.follow(path).map(|(_, node)| &node.what) {
            Some(What::File(source)) => source.text(most),
            _ => Ok(None),
        }
    }

    /// All nodes by path, directories before their contents.
    pub fn iter(&self) -> impl Iterator<Item = (&RootPath, &Node)> {
        self.nodes.iter()
    }

    /// The layers that its nodes belong to, in the order of the image.
    pub(crate) fn layers(&self) -> BTreeSet<Layer> {
        self.nodes.values().map(|node| node.layer).collect()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.nodes.values().map(Node::bytes).sum()
    }

    /// The names that are directly inside a directory.
    pub fn children(&self, dir: &RootPath) -> impl Iterator<Item = (RootPath, &Node)> {
        let dir = self.real(dir).unwrap_or_else(|_| dir.clone());
        let nodes = self.nodes.range(dir.below());
        let nodes = nodes.filter(move |(path, _)| path.parent().as_ref() == Some(&dir));
        nodes.map(|(path, node)| (path.clone(), node))
    }

    /// The path with all links resolved. A segment that does not exist counts as a directory.
    fn real(&self, path: &RootPath) -> Result<RootPath> {
        let mut todo: Vec<String> = segments(path.as_str());
        let mut real = RootPath::ROOT;
        let mut links = 0;
        while let Some(segment) = todo.pop() {
            if segment == ".." {
                real = real.parent().unwrap_or(RootPath::ROOT);
                continue;
            }
            let next = real.join(&segment);
            if let Some(Node { what: What::Symlink(target), .. }) = self.nodes.get(&next) {
                links += 1;
                if links > MAX_LINKS {
                    let path = path.to_string();
                    return Err(Error::Path { path, reason: "symbolic links form a loop" });
                }
                if target.starts_with('/') {
                    real = RootPath::ROOT;
                }
                todo.extend(segments(target));
            } else {
                real = next;
            }
        }
        Ok(real)
    }

    fn make_dirs(&mut self, layer: Layer, path: &RootPath) -> Result<()> {
        match self.nodes.get(path) {
            Some(Node { what: What::Dir, .. }) => Ok(()),
            Some(node) => {
                let reason = format!("{} is where a directory should be", node.what.noun());
                Err(self.conflict(path, &reason))
            }
            None => {
                if let Some(parent) = path.parent() {
                    self.make_dirs(layer, &parent)?;
                }
                let node = Node { mode: 0o755, what: What::Dir, layer, time: None };
                self.nodes.insert(path.clone(), node);
                Ok(())
            }
        }
    }

    fn conflict(&self, path: &RootPath, reason: &str) -> Error {
        Error::Conflict { path: path.to_string(), reason: reason.to_owned() }
    }
}

impl What {
    fn noun(&self) -> &'static str {
        match self {
            Self::Dir => "a directory",
            Self::File(_) => "a file",
            Self::Symlink(_) => "a symbolic link",
            Self::Hardlink(_) => "a hard link",
        }
    }
}

/// The segments of a path or link target, the first one last.
fn segments(path: &str) -> Vec<String> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | ".")).rev();
    parts.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RootPath {
        RootPath::new(text).unwrap()
    }

    fn tree(links: &[(&str, &str)]) -> Rootfs {
        let mut tree = Rootfs::default();
        for (name, target) in links {
            let link = What::Symlink((*target).to_owned());
            tree.add(Layer::Base, &path(name), 0o777, link).unwrap();
        }
        tree
    }

    fn shown(tree: &Rootfs) -> Vec<String> {
        tree.iter().map(|(path, _)| path.to_string()).collect()
    }

    #[test]
    fn directories_above_come_by_themselves_and_through_links() {
        let mut tree = tree(&[("lib", "usr/lib"), ("up", "../../../..")]);
        tree.add_text(Layer::Base, &path("lib/x/a.so"), 0o644, "").unwrap();
        tree.add_text(Layer::Base, &path("up/etc/b"), 0o644, "").unwrap();
        tree.add_dir(Layer::Base, &path("lib")).unwrap();
        tree.add(Layer::Base, &path("lib/"), 0o700, What::Dir).unwrap();
        let expected = [
            "/",
            "/etc",
            "/etc/b",
            "/lib",
            "/up",
            "/usr",
            "/usr/lib",
            "/usr/lib/x",
            "/usr/lib/x/a.so",
        ];
        assert_eq!(shown(&tree), expected);
        assert_eq!(tree.follow(&path("lib/x/a.so")).unwrap().0, path("usr/lib/x/a.so"));
        assert_eq!(tree.children(&path("lib")).count(), 1);
    }

    #[test]
    fn above_the_root_is_the_root() {
        for (text, expected) in [
            ("/bin/../bin/bash", Some("bin/bash")),
            ("../../sh", Some("sh")),
            ("a/./b//../..", Some("")),
            ("a\0b", None),
        ] {
            assert_eq!(RootPath::inside(text), expected.map(path), "{text:?}");
        }
    }

    #[test]
    fn what_leads_outside_or_round_is_refused() {
        for bad in ["..", "a/../b", "a\0b"] {
            assert!(matches!(RootPath::new(bad), Err(Error::Path { .. })), "{bad:?}");
        }
        let mut round = tree(&[("a", "b"), ("b", "a"), ("c", "/c")]);
        for name in ["a/x", "c/x"] {
            let added = round.add_text(Layer::Base, &path(name), 0o644, "");
            assert!(matches!(added, Err(Error::Path { .. })), "{name}");
        }
        assert!(round.follow(&path("a")).is_none());
    }

    #[test]
    fn a_file_lives_as_long_as_one_of_its_names() {
        let mut tree = Rootfs::default();
        let link = |to: &str| What::Hardlink(path(to));
        tree.add_text(Layer::Base, &path("a/1"), 0o644, "old").unwrap();
        for name in ["b", "c", "d"] {
            tree.add(Layer::Base, &path(name), 0o644, link("a/1")).unwrap();
        }
        tree.add(Layer::Base, &path("a/1"), 0o644, link("a/1")).unwrap();
        tree.remove(&path("c"));
        // Another file takes the first name.
        tree.add_text(Layer::App, &path("a/1"), 0o644, "new").unwrap();
        let bytes = |tree: &Rootfs, at: &str| match &tree.follow(&path(at)).unwrap().1.what {
            What::File(FileBytes::Bytes(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            [bytes(&tree, "a/1"), bytes(&tree, "b"), bytes(&tree, "d")],
            ["new", "old", "old"]
        );
        assert_eq!(tree.get(&path("d")).unwrap().what, link("b"));
        tree.remove(&path("b"));
        assert_eq!(bytes(&tree, "d"), "old");
        tree.remove(&path("a"));
        assert_eq!(shown(&tree), ["/", "/d"]);
        let none = tree.add(Layer::Base, &path("e"), 0o644, link("e"));
        assert!(matches!(none, Err(Error::Conflict { .. })));
    }

    #[test]
    fn one_kind_does_not_replace_another() {
        let mut tree = tree(&[("link", "nowhere")]);
        tree.add_text(Layer::Base, &path("file"), 0o644, "one").unwrap();
        tree.add_text(Layer::App, &path("file"), 0o755, "two").unwrap();
        assert_eq!(tree.get(&path("file")).unwrap().mode, 0o755);
        for (name, what) in [("file", What::Dir), ("link", What::Dir), ("file/x", What::Dir)] {
            let added = tree.add(Layer::Base, &path(name), 0o755, what);
            assert!(matches!(added, Err(Error::Conflict { .. })), "{name}");
        }
        tree.remove(&path("file"));
        assert_eq!(shown(&tree), ["/", "/link"]);
    }
}
