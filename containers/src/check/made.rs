//! Checks what the scripts of Debian packages make: commands and files without which a program of a
//! package does not start, or does not do what it should.

use std::collections::BTreeSet;

use super::inventory::Inventory;
use super::named::Named;
use super::{Finding, Severity};
use crate::rootfs::{RootPath, What};

/// A command that `update-alternatives` makes.
struct Command {
    /// The package whose script makes it, or one of several; the source of the row is its
    /// `postinst` in Debian 12.
    package: &'static str,
    /// The name by which it is started.
    name: &'static str,
    /// The program itself, without which nothing is missing. A `*` stands for one folder.
    programs: &'static [&'static str],
}

const fn command(
    package: &'static str,
    name: &'static str,
    programs: &'static [&'static str],
) -> Command {
    Command { package, name, programs }
}

const COMMANDS: [Command; 32] = [
    command("bison", "yacc", &["usr/bin/bison.yacc"]),
    command("cpio", "mt", &["usr/bin/mt-gnu"]),
    command("fakeroot", "fakeroot", &["usr/bin/fakeroot-sysv", "usr/bin/fakeroot-tcp"]),
    command("g++", "c++", &["usr/bin/g++", "usr/bin/clang++"]),
    command("gcc", "c99", &["usr/bin/c99-gcc"]),
    command("gcc", "cc", &["usr/bin/gcc", "usr/bin/clang"]),
    command("gfortran", "f77", &["usr/bin/gfortran"]),
    command("gfortran", "f95", &["usr/bin/gfortran"]),
    command(
        "gnuplot-nox",
        "gnuplot",
        &["usr/bin/gnuplot-nox", "usr/bin/gnuplot-qt", "usr/bin/gnuplot-x11"],
    ),
    command("imagemagick-6.q16", "compare", &["usr/bin/compare-im6.q16"]),
    command("imagemagick-6.q16", "composite", &["usr/bin/composite-im6.q16"]),
    command("imagemagick-6.q16", "convert", &["usr/bin/convert-im6.q16"]),
    command("imagemagick-6.q16", "identify", &["usr/bin/identify-im6.q16"]),
    command("imagemagick-6.q16", "mogrify", &["usr/bin/mogrify-im6.q16"]),
    command("imagemagick-6.q16", "montage", &["usr/bin/montage-im6.q16"]),
    command("inetutils-telnet", "telnet", &["usr/bin/inetutils-telnet"]),
    command("ksh93u+m", "ksh", &["usr/bin/ksh93", "usr/bin/mksh"]),
    command("lua5.4", "lua", &["usr/bin/lua5.1", "usr/bin/lua5.3", "usr/bin/lua5.4"]),
    command("maven", "mvn", &["usr/share/maven/bin/mvn"]),
    command("mawk", "awk", &["usr/bin/mawk", "usr/bin/gawk", "usr/bin/original-awk"]),
    command("netcat-openbsd", "nc", &["usr/bin/nc.openbsd", "usr/bin/nc.traditional"]),
    command("openjdk-17-jdk-headless", "javac", &["usr/lib/jvm/*/bin/javac"]),
    command("openjdk-17-jre-headless", "java", &["usr/lib/jvm/*/bin/java"]),
    command("openjdk-17-jre-headless", "keytool", &["usr/lib/jvm/*/bin/keytool"]),
    command("openmpi-bin", "mpicc", &["usr/bin/mpicc.openmpi", "usr/bin/mpicc.mpich"]),
    command("openmpi-bin", "mpiexec", &["usr/bin/mpiexec.openmpi", "usr/bin/mpiexec.hydra"]),
    command("openmpi-bin", "mpirun", &["usr/bin/mpirun.openmpi", "usr/bin/mpirun.mpich"]),
    command("php8.2-cli", "php", &["usr/bin/php8.2"]),
    command("rename", "rename", &["usr/bin/file-rename"]),
    command("scala", "scala", &["usr/share/scala-*/bin/scala"]),
    command("tnftp", "ftp", &["usr/bin/tnftp"]),
    command("vim", "vim", &["usr/bin/vim.basic", "usr/bin/vim.gtk3", "usr/bin/vim.nox"]),
];

/// A file that a script makes from others.
struct Made {
    /// The package whose script or trigger makes it (Debian 12).
    package: &'static str,
    /// What is made. A `*` stands for one folder.
    file: &'static str,
    /// What it is made from, without which nothing is missing.
    from: &'static str,
    /// What happens without it.
    without: &'static str,
}

const MADE: [Made; 5] = [
    Made {
        package: "libgvc6",
        file: "usr/lib/*/graphviz/config6a",
        from: "usr/lib/*/graphviz/libgvplugin_core.so.6",
        without: "`dot` of graphviz knows no layouts and no output formats",
    },
    Made {
        package: "texlive-latex-base",
        file: "var/lib/texmf/web2c/pdftex/pdflatex.fmt",
        from: "usr/share/texlive/texmf-dist/tex/latex/base/latex.ltx",
        without: "`latex` and `pdflatex` do not start",
    },
    Made {
        package: "ca-certificates-java",
        file: "etc/ssl/certs/java/cacerts",
        from: "usr/share/ca-certificates-java/ca-certificates-java.jar",
        without: "Java's programs trust no server",
    },
    Made {
        package: "libgdk-pixbuf-2.0-0",
        file: "usr/lib/*/gdk-pixbuf-2.0/2.10.0/loaders.cache",
        from: "usr/lib/*/gdk-pixbuf-2.0/2.10.0/loaders/libpixbufloader-svg.so",
        without: "GTK's programs read fewer formats of pictures",
    },
    Made {
        package: "libglib2.0-0",
        file: "usr/share/glib-2.0/schemas/gschemas.compiled",
        from: "usr/share/glib-2.0/schemas/org.gtk.Settings.FileChooser.gschema.xml",
        without: "programs of GTK and GNOME end when they open a dialog",
    },
];

const HINT: &str = "its script, which makes this, has not run: build where user namespaces are allowed, or name another package";

pub(super) fn check(inventory: &Inventory<'_>, named: &Named<'_>, findings: &mut Vec<Finding>) {
    let there = Patterns::of(inventory);
    for Command { package, name, programs } in &COMMANDS {
        let Some(program) = programs.iter().find_map(|program| there.find(program)) else {
            continue;
        };
        if named.find(name) {
            continue;
        }
        let message = format!(
            "the command `{name}` of `{package}` is missing: it is another name of `{program}`, which the script of the package makes"
        );
        // A build that was told to run no scripts makes the image all the same.
        findings.push(Finding::new(Severity::Warning, "command", *name, message).hint(HINT));
    }
    for Made { package, file, from, without } in &MADE {
        if there.find(from).is_none() || there.find(file).is_some() {
            continue;
        }
        let severity = if named.is_foreign() { Severity::Note } else { Severity::Warning };
        let message = format!("the script of `{package}` has not made it: {without}");
        let subject = format!("/{file}");
        findings.push(Finding::new(severity, "package-script", &subject, message).hint(HINT));
    }
}

/// The paths of an image that rows may name.
struct Patterns<'a> {
    inventory: &'a Inventory<'a>,
    /// Paths that a pattern with a `*` names.
    matching: BTreeSet<&'a RootPath>,
}

impl<'a> Patterns<'a> {
    fn of(inventory: &'a Inventory<'a>) -> Self {
        let rows = COMMANDS.iter().flat_map(|row| row.programs).copied();
        let rows = rows.chain(MADE.iter().flat_map(|row| [row.file, row.from]));
        let patterns: Vec<&str> = rows.filter(|row| row.contains('*')).collect();
        let is_wanted = |path: &RootPath| patterns.iter().any(|p| is_match(p, path.as_str()));
        let matching = inventory.tree.iter().filter(|(path, _)| is_wanted(path));
        Self { inventory, matching: matching.map(|(path, _)| path).collect() }
    }

    /// The first path that is there.
    fn find(&self, pattern: &str) -> Option<RootPath> {
        let path = match pattern.contains('*') {
            true => (**self.matching.iter().find(|path| is_match(pattern, path.as_str()))?).clone(),
            false => RootPath::inside(pattern)?,
        };
        let (_, node) = self.inventory.tree.follow(&path)?;
        (node.what != What::Dir).then_some(path)
    }
}

/// Whether a path matches `pattern`, in which one `*` stands for a part of one folder's name.
fn is_match(pattern: &str, path: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == path };
    let rest = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    rest.is_some_and(|folder| !folder.is_empty() && !folder.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_folder() {
        for (pattern, path, expected) in [
            ("usr/lib/jvm/*/bin/java", "usr/lib/jvm/java-17/bin/java", true),
            ("usr/lib/jvm/*/bin/java", "usr/lib/jvm/a/b/bin/java", false),
            ("usr/lib/jvm/*/bin/java", "usr/lib/jvm//bin/java", false),
            ("usr/share/scala-*/bin/scala", "usr/share/scala-2.11/bin/scala", true),
            ("usr/bin/gcc", "usr/bin/gcc", true),
            ("usr/bin/gcc", "usr/bin/gcc-12", false),
        ] {
            assert_eq!(is_match(pattern, path), expected, "{pattern} {path}");
        }
    }
}
