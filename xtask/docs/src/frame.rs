//! The HTML around the text of every page.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::html_paths::relative;

/// The pages of one part of the menu.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) title: String,
    /// Title and file of each page.
    pub(crate) pages: Vec<(String, PathBuf)>,
}

/// One file of HTML.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    /// The path of the file in the folder.
    pub(crate) file: &'a Path,
    pub(crate) title: &'a str,
    /// Title and anchor of what the menu shows below this page.
    pub(crate) parts: Vec<(&'a str, &'a str)>,
    pub(crate) body: &'a str,
}

impl Frame<'_> {
    /// Returns the whole file.
    pub(crate) fn html(&self, menu: &[Group]) -> String {
        let to = |target: &str| relative(self.file, Path::new(target));
        let up = to("").trim_end_matches('/').to_owned();
        let up = if up.is_empty() { String::new() } else { format!("{up}/") };
        let title = match self.title {
            "Gular" => "Gular".to_owned(),
            title => format!("{} · Gular", escaped(title)),
        };
        format!(
            "<!doctype html>\n<html lang=\"en\" data-root=\"{up}\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
             <link rel=\"stylesheet\" href=\"{}\">\n<script src=\"{}\" defer></script>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#text\">Skip to the text</a>\n\
             <header>\n<a class=\"home\" href=\"{}\">Gular</a>\n\
             <div class=\"search\" role=\"search\" hidden><input id=\"query\" type=\"search\" placeholder=\"Search (press /)\" \
             aria-label=\"Search all pages\" autocomplete=\"off\" spellcheck=\"false\"><ol id=\"found\" hidden></ol></div>\n\
             </header>\n<details class=\"menu\"><summary>All pages</summary>\n{}</details>\n\
             <nav aria-label=\"Pages\">\n{}</nav>\n\
             <main id=\"text\">\n{}</main>\n<footer>Gular {}</footer>\n</body>\n</html>\n",
            to("site/style.css"),
            to("site/search.js"),
            to("index.html"),
            self.menu(menu, false),
            self.menu(menu, true),
            self.body,
            env!("CARGO_PKG_VERSION"),
        )
    }

    fn menu(&self, menu: &[Group], with_parts: bool) -> String {
        let mut out = String::new();
        for group in menu {
            let _ = writeln!(out, "<h2>{}</h2>\n<ul>", escaped(&group.title));
            for (title, file) in &group.pages {
                let own = file == self.file;
                let current = if own { " aria-current=\"page\"" } else { "" };
                let _ = write!(
                    out,
                    "<li><a href=\"{}\"{current}>{}</a>",
                    relative(self.file, file),
                    escaped(title)
                );
                if own && with_parts && !self.parts.is_empty() {
                    out.push_str("\n<ul>\n");
                    for (title, anchor) in &self.parts {
                        let _ =
                            writeln!(out, "<li><a href=\"#{anchor}\">{}</a></li>", escaped(title));
                    }
                    out.push_str("</ul>");
                }
                out.push_str("</li>\n");
            }
            out.push_str("</ul>\n");
        }
        out
    }
}

/// Escapes a text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
