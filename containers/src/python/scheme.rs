//! Where a Python's packages are installed.

use super::unpack::{DATA, HEADERS, SCRIPTS, SITE};

/// The folders of one Python in an image; none begins with `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheme {
    /// The Python's minor number: 11 for 3.11.
    pub minor: u32,
    /// The path of the program, as scripts name it: `/usr/bin/python3`.
    pub program: String,
    /// The folder of the standard library: `usr/lib/python3.11`.
    pub library: String,
    /// The folder below which programs, headers and data are installed: `usr/local`.
    pub prefix: String,
    /// The folder of packages, three folders below the prefix:
    /// `usr/local/lib/python3.11/dist-packages`.
    pub site: String,
}

impl Scheme {
    /// Debian's Python; `usr/local` is the prefix of packages that an administrator installs,
    /// Debian's own are in `usr`.
    pub(crate) fn debian(minor: u32) -> Self {
        Self {
            minor,
            program: "/usr/bin/python3".to_owned(),
            library: format!("usr/lib/python3.{minor}"),
            prefix: "usr/local".to_owned(),
            site: format!("usr/local/lib/python3.{minor}/dist-packages"),
        }
    }

    /// Whether it is Debian's, and so the Python of Debian packages.
    pub(crate) fn is_debian(&self) -> bool {
        self.site == Self::debian(self.minor).site
    }

    /// The path that a wheel's file has in an image.
    pub(crate) fn installed_path(&self, entry: &str, wheel: &str) -> String {
        let Self { minor, prefix, site, .. } = self;
        let of = |folder: &str| entry.strip_prefix(folder);
        if let Some(rest) = of(SCRIPTS) {
            format!("{prefix}/bin/{rest}")
        } else if let Some(rest) = of(HEADERS) {
            format!("{prefix}/include/python3.{minor}/{wheel}/{rest}")
        } else if let Some(rest) = of(DATA) {
            format!("{prefix}/{rest}")
        } else {
            format!("{site}/{}", of(SITE).unwrap_or(entry))
        }
    }

    /// The first line of scripts.
    pub(super) fn first_line(&self) -> String {
        format!("#!{}", self.program)
    }

    /// A path as `RECORD` has it: from the folder of packages, or up from it.
    pub(super) fn recorded(&self, path: &str) -> String {
        let inside = path.strip_prefix(&self.site).and_then(|rest| rest.strip_prefix('/'));
        let text = match inside {
            Some(inside) => inside.to_owned(),
            None => {
                let rest = path.strip_prefix(&self.prefix).unwrap_or(path);
                format!("../../../{}", rest.trim_start_matches('/'))
            }
        };
        match text.contains([',', '"']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_names_files_from_the_folder_of_packages() {
        let debian = Scheme::debian(11);
        for (path, expected) in [
            ("usr/local/lib/python3.11/dist-packages/a/b.py", "a/b.py"),
            ("usr/local/bin/run", "../../../bin/run"),
            ("usr/local/share/a,b", "\"../../../share/a,b\""),
        ] {
            assert_eq!(debian.recorded(path), expected);
        }
    }
}
