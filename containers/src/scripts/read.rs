//! What is known of maintainer scripts from reading them, for machines that cannot run them.
//!
//! A script is known if all its lines are: the frame that every script has, what debhelper adds
//! that an image does not need, and `update-alternatives --install` with fixed words. All others
//! are named, and nothing of them is guessed.

use std::collections::BTreeMap;

use super::Link;
use super::database::Installed;
use crate::rootfs::{Layer, RootPath, Rootfs, What};
use crate::store::Listing;
use crate::{Package, Result};

/// Packages whose scripts do nothing for an image beyond what [`debian`](crate::debian) does for
/// every base.
const DONE: &[(&str, &str)] = &[
    ("base-files", "folders, and files from /usr/share/base-files"),
    ("base-passwd", "/etc/passwd and /etc/group"),
    ("bash", "an alternative for a page of the manual"),
    ("ca-certificates", "the bundle of all certificates"),
    ("coreutils", "a link for an old path of touch"),
    ("dash", "keeps /bin/sh, which is in the package"),
    ("debianutils", "/etc/shells, and `which`"),
    ("less", "`pager`"),
    ("libc-bin", "the cache of libraries, without which ld.so looks into the folders"),
    ("libc6", "restarts services after an update"),
    ("libgcrypt20", "removes files of earlier versions"),
    ("libgssapi-krb5-2", "copies a file of versions before 1.12"),
    ("openssl", "moves files of old versions"),
    ("procps", "settings of the kernel at its start"),
    ("python3", "byte code, and a file that says so"),
    ("python3-minimal", "byte code"),
    ("readline-common", "/etc/inputrc"),
    ("tzdata", "the time zone UTC, which an image has without its files, too"),
    ("unzip", "what a desktop opens"),
    ("xz-utils", "names of earlier programs"),
];

/// Parts that debhelper writes, and that do nothing in an image: name of its program.
const SECTIONS: &[(&str, &str)] = &[
    ("dh_apparmor", "profiles for the kernel"),
    ("dh_icons", "a cache of icons"),
    ("dh_installcron", "timers"),
    ("dh_installdeb", "files of earlier versions"),
    ("dh_installinfo", "pages that the image does not have"),
    ("dh_installinit", "services"),
    ("dh_installmenu", "menus of a desktop"),
    ("dh_installsystemd", "services"),
    ("dh_installsystemduser", "services"),
    ("dh_makeshlibs", "the cache of libraries"),
    ("dh_python3", "byte code, which is made otherwise"),
    ("dh_systemd_enable", "services"),
    ("dh_systemd_start", "services"),
    ("dh_usrlocal", "empty folders"),
];

/// How debhelper begins and ends its parts.
const SECTION: &str = "# Automatically added by ";
const SECTION_END: &str = "# End automatically added section";
/// The file of libraries' folders that every image has, in which nothing else is.
const OWN_FOLDERS: [&str; 3] =
    ["etc/ld.so.conf.d/libc.conf", "etc/ld.so.conf.d/x86_64-linux-gnu.conf", "etc/ld.so.conf.d"];
const MAX_TEXT: u64 = 16 << 20;

/// What was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Links that the scripts make.
    pub(crate) links: Vec<Link>,
    /// Packages whose scripts do more.
    pub(crate) unknown: Vec<String>,
}

/// One choice for an alternative.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Choice {
    priority: i64,
    /// Link, name and target: the alternative's own, then those that follow it.
    links: Vec<[String; 3]>,
}

/// Reads the scripts of packages whose files are in `tree`.
///
/// # Errors
/// Those of reading packages; [`Error::Path`](crate::Error::Path) for a link that leads outside.
pub(crate) fn read(packages: &[(&Package, Listing)], tree: &Rootfs) -> Result<Reading> {
    let mut reading = Reading::default();
    let mut choices: BTreeMap<String, Vec<(Choice, &str)>> = BTreeMap::new();
    for (package, files) in packages {
        let installed = Installed::of(&package.name, files, true)?;
        if DONE.iter().any(|(name, _)| *name == package.name) || is_python(&package.name) {
            continue;
        }
        let in_folders =
            |path: &str| path.starts_with("etc/ld.so.conf.d") && !OWN_FOLDERS.contains(&path);
        let mut known = !installed.paths().any(in_folders);
        for kind in ["preinst", "postinst"] {
            let Some(script) = installed.info(kind) else { continue };
            match script.text(MAX_TEXT)?.as_deref().and_then(known_choices) {
                Some(found) => {
                    for choice in found {
                        let name = choice.links.first().map(|[_, name, _]| name.clone());
                        let of_one = choices.entry(name.unwrap_or_default()).or_default();
                        of_one.push((choice, &package.name));
                    }
                }
                None => known = false,
            }
        }
        if !known {
            reading.unknown.push(package.name.clone());
        }
    }
    let is_there =
        |target: &str| RootPath::inside(target).is_some_and(|path| tree.follow(&path).is_some());
    for (name, of_one) in choices {
        let there = of_one.iter().filter(|(choice, _)| {
            choice.links.first().is_some_and(|[_, _, target]| is_there(target))
        });
        // Of equal ones the first stays, as with update-alternatives(1).
        let Some((best, package)) = there.min_by_key(|(choice, _)| -choice.priority) else {
            continue;
        };
        match of_image(&name, tree)? {
            Standing::Free => {}
            Standing::Priority(there) if there < best.priority => {}
            Standing::Priority(_) => continue,
            Standing::Unknown => {
                let known = reading.unknown.iter().any(|unknown| unknown == package);
                reading.unknown.extend((!known).then(|| (*package).to_owned()));
                continue;
            }
        }
        for [link, name, target] in best.links.iter().filter(|[_, _, target]| is_there(target)) {
            let middle = format!("/etc/alternatives/{name}");
            reading.links.push(Link { path: RootPath::new(&middle)?, target: target.clone() });
            reading.links.push(Link { path: RootPath::new(link)?, target: middle });
        }
    }
    Ok(reading)
}

/// What an image that packages are added to has for an alternative.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Free,
    /// The highest priority of what is there; the highest of all if a person chose.
    Priority(i64),
    /// A link whose priority is not told.
    Unknown,
}

/// Reads dpkg's file of an alternative (update-alternatives(1), "/var/lib/dpkg/alternatives"): mode,
/// link, name and link of each that follows, an empty line; then path, priority and paths of those
/// that follow, for each choice.
fn of_image(name: &str, tree: &Rootfs) -> Result<Standing> {
    let path = RootPath::new(&format!("{}/alternatives/{name}", super::database::DIR))?;
    let text = match tree.follow(&path).map(|(_, node)| &node.what) {
        Some(What::File(source)) => source.text(MAX_TEXT)?.unwrap_or_default(),
        _ => {
            let link = RootPath::new(&format!("etc/alternatives/{name}"))?;
            return Ok(if tree.get(&link).is_some() { Standing::Unknown } else { Standing::Free });
        }
    };
    let mut lines = text.lines();
    if lines.next() == Some("manual") {
        return Ok(Standing::Priority(i64::MAX));
    }
    let n_followers = lines.by_ref().skip(1).take_while(|line| !line.is_empty()).count() / 2;
    let mut highest = Standing::Free;
    while let Some(path) = lines.next().filter(|path| !path.is_empty()) {
        let Some(Ok(priority)) = lines.next().map(str::parse::<i64>) else {
            return Ok(Standing::Unknown);
        };
        let is_there = RootPath::inside(path).is_some_and(|path| tree.follow(&path).is_some());
        if is_there {
            highest = match highest {
                Standing::Priority(other) => Standing::Priority(other.max(priority)),
                _ => Standing::Priority(priority),
            };
        }
        lines.by_ref().take(n_followers).for_each(drop);
    }
    Ok(highest)
}

/// Whether a package is an interpreter such as `python3.11`, or a part of it: their scripts make
/// byte code.
fn is_python(name: &str) -> bool {
    let rest = name.strip_prefix("lib").unwrap_or(name).strip_prefix("python3.");
    let rest = rest.map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    matches!(rest, Some("" | "-minimal"))
}

/// Makes the links, unless something else is there.
pub(super) fn lay_over(links: &[Link], tree: &mut Rootfs, layer: Layer) -> Result<()> {
    for link in links {
        let free = tree.get(&link.path).is_none_or(|node| matches!(node.what, What::Symlink(_)));
        if free {
            tree.add(layer, &link.path, 0o777, What::Symlink(link.target.clone()))?;
        }
    }
    Ok(())
}

/// The alternatives that a script installs; `None` if it does something that is not known.
fn known_choices(script: &str) -> Option<Vec<Choice>> {
    let joined = script.replace("\\\n", " ");
    let mut choices = Vec::new();
    let mut in_section = false;
    for line in joined.lines().map(str::trim) {
        if let Some(by) = line.strip_prefix(SECTION) {
            let by = by.split('/').next().unwrap_or(by);
            in_section = SECTIONS.iter().any(|(name, _)| *name == by);
        } else if line == SECTION_END {
            in_section = false;
        } else if in_section || is_frame(line) {
            continue;
        } else {
            choices.push(choice(line)?);
        }
    }
    Some(choices)
}

/// Whether a line does nothing, in a script that is called to configure a package.
fn is_frame(line: &str) -> bool {
    const WORDS: [&str; 14] = [
        "", ";;", "esac", "fi", "else", "exit", "exit 0", "exit 1", "set -e", "set -eu",
        "ldconfig", "}", "{", ":",
    ];
    let label = line.strip_suffix(')').is_some_and(|label| {
        let mut words = label.strip_prefix('(').unwrap_or(label).split('|').map(str::trim);
        // With a `(` in front of it, one word is a command, too.
        let is_word =
            |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-*".contains(&b));
        words.all(is_word) && (!label.starts_with('(') || label.contains('|'))
    });
    let is_test = line.strip_prefix("if [ \"$1\" = ").is_some_and(|rest| {
        let rest = rest.strip_suffix("then").map_or(rest, |rest| rest.trim_end());
        rest.trim_end_matches(';').strip_suffix(" ]").is_some_and(|word| !runs_more(word))
    });
    let is_call = ["echo ", "dpkg-maintscript-helper "].iter().any(|start| {
        // They take arguments, and write to no file.
        line.starts_with(start) && !runs_more(line.strip_suffix(">&2").unwrap_or(line))
    });
    line.starts_with('#')
        || label
        || WORDS.contains(&line)
        || ["case \"$1\" in", "case $1 in"].contains(&line)
        || is_test
        || is_call
}

/// Whether words of a shell have more in them than arguments.
fn runs_more(words: &str) -> bool {
    words.contains([';', '&', '|', '`', '<', '>']) || words.contains("$(")
}

/// Reads a line `update-alternatives --install LINK NAME PATH PRIORITY [--slave LINK NAME PATH]…`.
fn choice(line: &str) -> Option<Choice> {
    let line = line.strip_suffix("|| true").unwrap_or(line).trim().trim_end_matches(';');
    if line.contains(['$', '`', '>', '<', ';', '&', '|', '"', '\'']) {
        return None;
    }
    let mut words = line.split_whitespace();
    let program = words.next()?;
    if program.rsplit('/').next() != Some("update-alternatives") {
        return None;
    }
    let mut words = words.filter(|word| *word != "--quiet").peekable();
    if words.next()? != "--install" {
        return None;
    }
    let three = |words: &mut dyn Iterator<Item = &str>| {
        let link = [words.next()?.to_owned(), words.next()?.to_owned(), words.next()?.to_owned()];
        link.iter().all(|word| !word.starts_with("--")).then_some(link)
    };
    let mut links = vec![three(&mut words)?];
    let priority = words.next()?.parse().ok()?;
    while let Some(word) = words.next() {
        if word != "--slave" {
            return None;
        }
        links.push(three(&mut words)?);
    }
    Some(Choice { priority, links })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pythons_are_told_from_their_modules() {
        for (name, expected) in [
            ("python3.11", true),
            ("libpython3.13-minimal", true),
            ("python3-numpy", false),
            ("libpython3.11-dev", false),
        ] {
            assert_eq!(is_python(name), expected, "{name}");
        }
    }

    #[test]
    fn an_alternative_of_the_image_counts_by_its_priority() {
        let path = |text: &str| RootPath::new(text).unwrap();
        let awk = "/usr/bin/awk\nnawk\n/usr/bin/nawk\n\n/usr/bin/gawk\n10\n/usr/bin/gawk\n/usr/bin/mawk\n5\n/usr/bin/mawk\n\n";
        let check = |files: &[(&str, &str)], expected: Standing| {
            let mut tree = Rootfs::default();
            for (file, text) in files {
                tree.add_text(Layer::Base, &path(file), 0o644, text).unwrap();
            }
            assert_eq!(of_image("awk", &tree).unwrap(), expected, "{files:?}");
        };
        let (file, auto) = ("var/lib/dpkg/alternatives/awk", format!("auto\n{awk}"));
        check(&[], Standing::Free);
        check(&[(file, &auto)], Standing::Free);
        check(&[(file, &auto), ("usr/bin/mawk", "")], Standing::Priority(5));
        let both = [(file, &*auto), ("usr/bin/mawk", ""), ("usr/bin/gawk", "")];
        check(&both, Standing::Priority(10));
        check(&[(file, &format!("manual\n{awk}"))], Standing::Priority(i64::MAX));
        check(&[(file, "auto\n/usr/bin/awk\n\n/usr/bin/gawk\nx\n")], Standing::Unknown);
        check(&[("etc/alternatives/awk", "")], Standing::Unknown);
    }

    #[test]
    fn fixed_alternatives_are_known_and_other_lines_are_not() {
        let blas = "#!/bin/sh\n\nset -e\n\nupdate-alternatives --install /usr/lib/libblas.so.3 \\\n libblas.so.3 /usr/lib/blas/libblas.so.3 10\n\nexit 0\n";
        let found = known_choices(blas).unwrap();
        let expected = ["/usr/lib/libblas.so.3", "libblas.so.3", "/usr/lib/blas/libblas.so.3"];
        assert_eq!(found, [Choice { priority: 10, links: vec![expected.map(str::to_owned)] }]);
        let slave = "update-alternatives --quiet --install /usr/bin/a a /usr/bin/a1 -5 --slave /usr/share/x x /usr/share/x1 || true";
        assert_eq!(choice(slave).unwrap().links.len(), 2);
        assert_eq!(choice(slave).unwrap().priority, -5);
        for known in [
            "",
            "#!/bin/sh\nset -e\ncase \"$1\" in\nconfigure|abort-upgrade)\n;;\n*)\necho \"no: $1\" >&2\nexit 1\n;;\nesac\n",
            "if [ \"$1\" = configure ]; then\ndpkg-maintscript-helper rm_conffile /etc/x 1-2 x -- \"$@\"\nfi\nif [ \"$1\" = \"configure\" ]\n:\nfi",
            "case \"$1\" in\n  (configure|abort-upgrade)\n;;\nabort-remove)\n;;\nesac",
            "# Automatically added by dh_makeshlibs/13\nwhatever\n# End automatically added section\nexit 0",
        ] {
            assert_eq!(known_choices(known), Some(Vec::new()), "{known}");
        }
        for unknown in [
            "locale-gen",
            "update-alternatives --install $LINK a b 1",
            "update-alternatives --set a b",
            "update-alternatives --install /a a /b",
            "echo x >/etc/x",
            "# Automatically added by dh_other/1\nwhatever\n# End automatically added section",
            "update-alternatives --install /a a /b 1; rm x",
            "(useradd foo)",
            "(useradd)",
            "if [ \"$1\" = configure ]; then rm x; fi",
            "if [ \"$1\" = \"$(rm x)\" ]; then",
            "echo x | tee /etc/x",
            "echo a; mkdir b",
            "echo `mkdir b`",
            "echo a >&2 && mkdir b",
            "dpkg-maintscript-helper rm_conffile /etc/x -- \"$@\" && rm y",
            "case \"$1\" in configure) useradd q;; esac",
        ] {
            assert_eq!(known_choices(unknown), None, "{unknown}");
        }
    }
}
