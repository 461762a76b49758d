//! Where each file of the project is in the folder of HTML, and how one file links to another.

use std::path::{Component, Path, PathBuf};

/// Files that a browser can show.
const PICTURES: [&str; 6] = ["svg", "png", "jpg", "jpeg", "gif", "webp"];

/// The form in which a file is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownAs {
    /// Markdown becomes HTML.
    Page,
    /// Pictures are copied.
    Picture,
    /// Other files are shown as text.
    Text,
    /// Folders are listed.
    Folder,
}

impl ShownAs {
    /// The form in which `path` below `root` is shown.
    pub(crate) fn of(root: &Path, path: &Path) -> Self {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match extension.as_str() {
            _ if root.join(path).is_dir() => Self::Folder,
            "md" => Self::Page,
            extension if PICTURES.contains(&extension) => Self::Picture,
            _ => Self::Text,
        }
    }

    /// The file in the folder of HTML.
    pub(crate) fn file(self, path: &Path) -> PathBuf {
        match self {
            Self::Page if path.file_name().is_some_and(|name| name == "README.md") => {
                path.with_file_name("index.html")
            }
            Self::Page => path.with_extension("html"),
            Self::Picture => path.to_owned(),
            Self::Text => PathBuf::from(format!("{}.html", path.display())),
            Self::Folder => path.join("index.html"),
        }
    }
}

/// The relative link from the file `from` to the file `to`.
pub(crate) fn relative(from: &Path, to: &Path) -> String {
    let folder: Vec<_> = from.parent().unwrap_or(Path::new("")).components().collect();
    let target: Vec<_> = to.components().collect();
    let shared = folder.iter().zip(&target).take_while(|(a, b)| a == b).count();
    let ups = folder.iter().skip(shared).map(|_| "..".to_owned());
    let downs = target.iter().skip(shared).map(|part| match part {
        Component::Normal(name) => {
            name.to_string_lossy().replace('%', "%25").replace('#', "%23").replace('?', "%3F")
        }
        _ => String::new(),
    });
    ups.chain(downs).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_names_another() {
        let check = |from: &str, to: &str, expected: &str| {
            assert_eq!(relative(Path::new(from), Path::new(to)), expected, "{from} → {to}");
        };
        check("index.html", "docs/a.html", "docs/a.html");
        check("docs/a.html", "docs/b.html", "b.html");
        check("docs/bench/a.html", "site/x.css", "../../site/x.css");
        check("a/b/c.html", "a/x/y#1.html", "../x/y%231.html");
    }
}
