//! Checks modes and links: what an unprivileged user cannot read or run, and what is a danger to
//! one.

use super::Finding;
use super::inventory::{Inventory, ours};
use crate::rootfs::{Layer, Node, RootPath, What};

const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const STICKY: u16 = 0o1000;
const OTHERS_READ: u16 = 0o004;
const OTHERS_WRITE: u16 = 0o002;
const OTHERS_ENTER: u16 = 0o005;

/// Folders over which a runtime mounts something, so that links into them have a target then.
const MOUNTED: [&str; 7] = ["proc", "sys", "dev", "run", "tmp", "var/run", ".singularity.d/libs"];

/// What Debian's packages close to all but root: root's home, secrets of users
/// that no job is, and work of `apt-get`, which a step may run.
const CLOSED: [&str; 12] = [
    "etc/gshadow",
    "etc/gshadow-",
    "etc/polkit-1/rules.d",
    "etc/shadow",
    "etc/shadow-",
    "etc/ssl/private",
    "etc/sudoers",
    "etc/sudoers.d",
    "root",
    "usr/share/polkit-1/rules.d",
    "var/cache/apt/archives/partial",
    "var/lib/apt/lists/partial",
];

pub(super) fn check(inventory: &Inventory<'_>, findings: &mut Vec<Finding>) {
    for (path, node) in inventory.tree.iter() {
        match &node.what {
            What::Symlink(target) if ours(node) => {
                findings.extend(link(inventory, path, target));
            }
            What::Symlink(_) | What::Hardlink(_) => {}
            What::File(_) | What::Dir => {
                findings.extend(special(path, node));
                findings.extend(closed(path, node));
            }
        }
    }
}

fn special(path: &RootPath, node: &Node) -> Option<Finding> {
    let mode = node.mode;
    if node.what == What::Dir {
        return (mode & OTHERS_WRITE != 0 && mode & STICKY == 0).then(|| {
            let message = format!("mode {mode:04o} lets every user remove the files of others");
            Finding::warning("world-writable", path, message).hint("give it mode 1777 or 0755")
        });
    }
    if mode & (SETUID | SETGID) == 0 {
        return None;
    }
    let message = format!("mode {mode:04o} gives its owner's rights to anyone who runs it");
    let hint = "remove the bit: container runtimes ignore it, but other programs might not";
    // `su` and `mount` of a distribution have this mode, and a step may install them.
    Some(match ours(node) && !matches!(node.layer, Layer::Run(_)) {
        true => Finding::error("setuid", path, message).hint(hint),
        false => Finding::warning("setuid", path, message).hint(hint),
    })
}

/// Reports a file or folder that HTCondor's plain user cannot read.
fn closed(path: &RootPath, node: &Node) -> Option<Finding> {
    if CLOSED.contains(&path.as_str()) || !ours(node) {
        return None;
    }
    let is_open = match node.what {
        What::Dir => node.mode & OTHERS_ENTER == OTHERS_ENTER,
        _ => node.mode & OTHERS_READ != 0,
    };
    (!is_open).then(|| {
        let message =
            format!("mode {:04o} lets only root read it, and jobs do not run as root", node.mode);
        Finding::error("unreadable", path, message)
            .hint("give files mode 0644, programs and folders 0755")
    })
}

fn link(inventory: &Inventory<'_>, path: &RootPath, target: &str) -> Option<Finding> {
    let place = match target.starts_with('/') {
        true => RootPath::ROOT,
        false => path.parent().unwrap_or(RootPath::ROOT),
    };
    let Some(place) = text(&place, target) else {
        let message = format!("it points to `{target}`, above the image's root");
        return Some(Finding::warning("link", path, message));
    };
    let mounted = |folder: &&str| place == **folder || place.starts_with(&format!("{folder}/"));
    if MOUNTED.iter().any(mounted) || inventory.tree.follow(path).is_some() {
        return None;
    }
    let message = format!("it points to `{target}`, which does not exist");
    let hint = "add the file that the link points to, or leave the link out";
    Some(Finding::warning("link", path, message).hint(hint))
}

/// `target` from the folder `place` on, by its text alone; `None` above the root.
fn text(place: &RootPath, target: &str) -> Option<String> {
    let mut segments: Vec<&str> = place.as_str().split('/').filter(|s| !s.is_empty()).collect();
    for segment in target.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()?),
            segment => segments.push(segment),
        }
    }
    Some(segments.join("/"))
}
