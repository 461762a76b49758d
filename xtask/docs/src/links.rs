//! Finds links that lead nowhere.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::page::Page;
use crate::tree;

/// Every link of every Markdown file whose file or heading is not there, as `FILE:LINE: why`.
///
/// # Errors
/// When a page cannot be read.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    for path in tree::markdown(root)? {
        pages.insert(path.clone(), Page::read(root, &path)?);
    }
    let mut faults = Vec::new();
    for page in pages.values() {
        for link in &page.links {
            let Some((target, anchor)) = link.inside() else { continue };
            let why = match tree::resolved(&page.path, target) {
                None => format!("`{target}` is outside the project"),
                Some(path) if !root.join(&path).exists() => {
                    format!("there is no `{}`", path.display())
                }
                Some(path) => match (anchor, pages.get(&path)) {
                    (Some(anchor), Some(other)) if !other.has(anchor) => {
                        format!("`{}` has no heading `#{anchor}`", path.display())
                    }
                    _ => continue,
                },
            };
            faults.push(format!("{}:{}: {why}", page.path.display(), link.line));
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_link_of_every_page_leads_somewhere() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        assert!(tree::markdown(root).unwrap().len() > 30);
        let faults = faults(root).unwrap();
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn links_to_nothing_are_named_with_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "docs/a.md",
            "# A\n\n[b](b.md) [c](../c.md#there) [d](../c.md#not)\n\n![e](e.svg) [f](https://x/y.md) [g](#a) [h](#b) `[i](j.md)` [k](../../k)\n",
        );
        put("c.md", "# C\n\n## There\n");
        put("target/x.md", "[gone](gone.md)");
        put("venv/pyvenv.cfg", "");
        put("venv/x.md", "[gone](gone.md)");
        let expected = [
            "docs/a.md:3: there is no `docs/b.md`",
            "docs/a.md:3: `c.md` has no heading `#not`",
            "docs/a.md:5: there is no `docs/e.svg`",
            "docs/a.md:5: `docs/a.md` has no heading `#b`",
            "docs/a.md:5: `../../k` is outside the project",
        ];
        assert_eq!(faults(dir.path()).unwrap(), expected);
    }
}
