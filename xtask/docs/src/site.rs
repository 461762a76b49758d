//! The folder of HTML.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::frame::{Frame, Group, escaped};
use crate::html_paths::{ShownAs, relative};
use crate::page::{Page, inside};
use crate::search::Index;
use crate::tree;

/// The first page.
const HOME: &str = "README.md";
/// The pages whose tables are the menu, the second one's as one group.
const MENU: [&str; 2] = ["docs/README.md", "tutorials/README.md"];
/// A file that every folder written here has, so that it can be recognised.
const INDEX: &str = "site/search-index.js";

/// All files of the folder.
#[derive(Debug)]
pub(crate) struct Site {
    root: PathBuf,
    pages: BTreeMap<PathBuf, Page>,
    /// Files that pages link to, and that are not pages.
    others: BTreeSet<PathBuf>,
    menu: Vec<Group>,
}

impl Site {
    /// Collects everything that can be reached from README.md by links inside the project.
    ///
    /// # Errors
    /// If a page cannot be read.
    pub(crate) fn collect(root: &Path) -> Result<Self> {
        let (mut pages, mut others) = (BTreeMap::new(), BTreeSet::new());
        let mut ahead: Vec<_> = [HOME].into_iter().chain(MENU).map(PathBuf::from).collect();
        while let Some(path) = ahead.pop() {
            if pages.contains_key(&path) {
                continue;
            }
            let page = Page::read(root, &path)?;
            for target in page.links.iter().filter_map(|link| link.inside()) {
                let Some(path) = tree::resolved(&page.path, target.0) else { continue };
                match ShownAs::of(root, &path) {
                    ShownAs::Page => ahead.push(path),
                    _ => drop(others.insert(path)),
                }
            }
            pages.insert(path, page);
        }
        let menu = menu(&pages);
        Ok(Self { root: root.to_owned(), pages, others, menu })
    }

    /// Writes the folder, in place of an earlier one, and returns how many pages it has.
    ///
    /// # Errors
    /// When `out` holds anything else, or cannot be written.
    pub(crate) fn write(&self, out: &Path) -> Result<usize> {
        let taken = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
        if taken && !out.join(INDEX).is_file() {
            bail!(
                "the folder `{}` contains other files: choose a new folder, or empty this one",
                out.display()
            );
        }
        let name = out
            .file_name()
            .context("the output folder's path has no last part")?
            .to_string_lossy()
            .into_owned();
        let made = out.with_file_name(format!(".{name}.new"));
        if made.exists() {
            fs::remove_dir_all(&made)
                .with_context(|| format!("cannot empty `{}`", made.display()))?;
        }
        let mut index = Index::default();
        for page in self.pages.values() {
            let file = ShownAs::Page.file(&page.path);
            let body = page.html(|target| self.link(&page.path, target));
            let parts = page.sections.iter().filter(|section| section.level == 2);
            let parts =
                parts.map(|section| (section.heading.as_str(), section.id.as_str())).collect();
            let frame = Frame { file: &file, title: &page.title, parts, body: &body };
            put(&made, &file, frame.html(&self.menu).as_bytes())?;
            index.add(page, &relative(Path::new("index.html"), &file));
        }
        for path in &self.others {
            self.write_other(&made, path)?;
        }
        put(&made, Path::new("site/style.css"), include_bytes!("style.css"))?;
        put(&made, Path::new("site/search.js"), include_bytes!("search.js"))?;
        put(&made, Path::new(INDEX), index.script()?.as_bytes())?;
        if out.exists() {
            fs::remove_dir_all(out)
                .with_context(|| format!("cannot replace `{}`", out.display()))?;
        }
        fs::rename(&made, out).with_context(|| format!("cannot make `{}`", out.display()))?;
        Ok(self.pages.len())
    }

    fn write_other(&self, made: &Path, path: &Path) -> Result<()> {
        let (source, kind) = (self.root.join(path), ShownAs::of(&self.root, path));
        let file = kind.file(path);
        let cannot = || format!("cannot read `{}`", source.display());
        let text = match kind {
            ShownAs::Picture => return put(made, &file, &fs::read(&source).with_context(cannot)?),
            ShownAs::Folder => {
                let mut names = Vec::new();
                for entry in fs::read_dir(&source).with_context(cannot)? {
                    names.push(
                        entry.with_context(cannot)?.file_name().to_string_lossy().into_owned(),
                    );
                }
                names.sort();
                names.join("\n")
            }
            _ => String::from_utf8_lossy(&fs::read(&source).with_context(cannot)?).into_owned(),
        };
        let title = path.display().to_string();
        let mut body = format!("<h1>{}</h1>\n", escaped(&title));
        if kind == ShownAs::Text {
            // The file itself is copied, too, for readers who want to run it.
            put(made, path, text.as_bytes())?;
            let link = escaped(&relative(&file, path));
            let _ = writeln!(body, "<p><a href=\"{link}\" download>Download</a></p>");
        }
        let _ = writeln!(body, "<pre><code>{}</code></pre>", escaped(&text));
        let frame = Frame { file: &file, title: &title, parts: Vec::new(), body: &body };
        put(made, &file, frame.html(&self.menu).as_bytes())
    }

    /// Returns the link, in the folder, from `page` to `target`.
    fn link(&self, page: &Path, target: &str) -> String {
        let Some((path, anchor)) = inside(target) else { return target.to_owned() };
        let mut link = match tree::resolved(page, path) {
            Some(_) if path.is_empty() => String::new(),
            Some(path) => {
                let file = ShownAs::of(&self.root, &path).file(&path);
                relative(&ShownAs::Page.file(page), &file)
            }
            None => return target.to_owned(),
        };
        if let Some(anchor) = anchor {
            let _ = write!(link, "#{anchor}");
        }
        link
    }
}

/// The tables of the indexes: their headings, and the pages that their rows link to first.
fn menu(pages: &BTreeMap<PathBuf, Page>) -> Vec<Group> {
    let mut groups = Vec::<Group>::new();
    for (n, index) in MENU.iter().enumerate() {
        let Some(index) = pages.get(Path::new(index)) else { continue };
        let whole = (n > 0).then(|| index.title.clone());
        if let Some(title) = &whole {
            let first = (index.title.clone(), ShownAs::Page.file(&index.path));
            groups.push(Group { title: title.clone(), pages: vec![first] });
        }
        for link in index.links.iter().filter(|link| link.leads) {
            let (Some((path, _)), Some(title)) =
                (link.inside(), whole.as_ref().or(link.under.as_ref()))
            else {
                continue;
            };
            let path = tree::resolved(&index.path, path).unwrap_or_default();
            let Some(page) = pages.get(&path) else { continue };
            let listed = (page.title.clone(), ShownAs::Page.file(&path));
            if groups.iter().any(|group| group.pages.contains(&listed)) {
                continue;
            }
            match groups.last_mut().filter(|group| group.title == *title) {
                Some(group) => group.pages.push(listed),
                None => groups.push(Group { title: title.clone(), pages: vec![listed] }),
            }
        }
    }
    groups
}

fn put(made: &Path, file: &Path, bytes: &[u8]) -> Result<()> {
    let path = made.join(file);
    let folder = path.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    fs::write(&path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
    }

    /// Returns the values of `href` and `src` in a page.
    fn targets(html: &str) -> Vec<(&str, &str)> {
        let find = |name: &'static str| {
            html.split(&format!(" {name}=\""))
                .skip(1)
                .map(move |rest| (name, rest.split('"').next().unwrap_or_default()))
                .collect::<Vec<_>>()
        };
        find("href").into_iter().chain(find("src")).collect()
    }

    #[test]
    fn the_folder_is_whole_and_asks_no_other_server_for_anything() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("site");
        let site = Site::collect(&root()).unwrap();
        let n_pages = site.write(&out).unwrap();
        assert!(n_pages > 30, "{n_pages} pages");
        let (mut n_links, mut faults) = (0, Vec::new());
        for path in site.pages.keys().chain(&site.others) {
            let kind = ShownAs::of(&site.root, path);
            let file = kind.file(path);
            if kind == ShownAs::Picture {
                assert!(out.join(&file).is_file());
                continue;
            }
            if kind == ShownAs::Text {
                let copied = fs::read(out.join(path)).unwrap();
                assert_eq!(copied, fs::read(site.root.join(path)).unwrap(), "{}", path.display());
            }
            let html = fs::read_to_string(out.join(&file)).unwrap();
            for (name, target) in targets(&html) {
                n_links += 1;
                let Some((path, anchor)) = inside(target) else {
                    if name == "src"
                        || html.contains(&format!("<link rel=\"stylesheet\" href=\"{target}\""))
                    {
                        faults.push(format!("{}: asks for {target}", file.display()));
                    }
                    continue;
                };
                if path == "data:," {
                    continue;
                }
                let to = tree::resolved(&file, path).unwrap();
                let there = match fs::read_to_string(out.join(&to)) {
                    Ok(html) => {
                        anchor.is_none_or(|anchor| html.contains(&format!(" id=\"{anchor}\"")))
                    }
                    Err(_) => out.join(&to).is_file(),
                };
                if !there {
                    faults.push(format!("{}: {target}", file.display()));
                }
            }
        }
        assert!(n_links > 1000 && faults.is_empty(), "{n_links} links\n{}\n", faults.join("\n"));
        let listed: usize = site.menu.iter().map(|group| group.pages.len()).sum();
        // README, the index itself and Python's own page are reached from others.
        assert!(listed + 4 >= n_pages, "{listed} of {n_pages} pages are in the menu");
        // The folder can be written again, but no other folder is overwritten.
        assert_eq!(site.write(&out).unwrap(), n_pages);
        fs::write(dir.path().join("mine"), "").unwrap();
        let refused = site.write(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("contains other files"), "{refused}");
    }
}
