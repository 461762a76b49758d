//! One page: a Markdown file, with its headings, links and text.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html,
};

use crate::frame::escaped;
use crate::slug::Slugs;

/// A Markdown file of the project.
#[derive(Debug)]
pub(crate) struct Page {
    /// The path below the root of the project.
    pub(crate) path: PathBuf,
    /// The text of the first heading.
    pub(crate) title: String,
    /// The part below each heading, in order; text before the first heading belongs to it.
    pub(crate) sections: Vec<Section>,
    /// All links and pictures.
    pub(crate) links: Vec<Link>,
    text: String,
}

/// A heading and the words below it, up to the next heading.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// The heading's level, 1 to 6.
    pub(crate) level: u8,
    pub(crate) heading: String,
    /// The heading's anchor.
    pub(crate) id: String,
    /// The words without markup, blocks of code included.
    pub(crate) text: String,
}

/// A link or a picture.
#[derive(Debug)]
pub(crate) struct Link {
    /// The target, as it is written.
    pub(crate) target: String,
    /// The line, counted from 1.
    pub(crate) line: usize,
    /// The last heading of level 2 before it, and whether it is the first link of a table's row.
    pub(crate) under: Option<String>,
    pub(crate) leads: bool,
}

impl Link {
    /// Path and anchor of a link that stays in the project.
    pub(crate) fn inside(&self) -> Option<(&str, Option<&str>)> {
        inside(&self.target)
    }
}

/// Path and anchor of a link's target, unless it leads to another server.
pub(crate) fn inside(target: &str) -> Option<(&str, Option<&str>)> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    Some(target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor))))
}

impl Page {
    /// Reads the page `path` below `root`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn read(root: &Path, path: &Path) -> Result<Self> {
        let file = root.join(path);
        let text = fs::read_to_string(&file)
            .with_context(|| format!("cannot read `{}`", file.display()))?;
        Ok(Self::parse(path, text))
    }

    /// Parses `text`, the contents of `path`.
    pub(crate) fn parse(path: &Path, text: String) -> Self {
        let mut page = Self {
            path: path.to_owned(),
            title: String::new(),
            sections: Vec::new(),
            links: Vec::new(),
            text: String::new(),
        };
        let (mut slugs, mut under) = (Slugs::default(), None);
        let (mut heading, mut fresh_row) = (None::<Section>, false);
        let line_of =
            |at: &Range<usize>| text.get(..at.start).unwrap_or_default().matches('\n').count() + 1;
        for (event, at) in Parser::new_ext(&text, options()).into_offset_iter() {
            if let (None, Some(section), true) =
                (&heading, page.sections.last_mut(), parts_words(&event))
                && !section.text.is_empty()
                && !section.text.ends_with(char::is_whitespace)
            {
                section.text.push(' ');
            }
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    heading = Some(Section { level: level as u8, ..Section::default() });
                }
                Event::End(TagEnd::Heading(level)) => {
                    let Some(mut section) = heading.take() else { continue };
                    section.id = slugs.next(&section.heading);
                    match level {
                        HeadingLevel::H1 if page.title.is_empty() => {
                            page.title.clone_from(&section.heading);
                        }
                        HeadingLevel::H2 => under = Some(section.heading.clone()),
                        _ => {}
                    }
                    page.sections.push(section);
                }
                Event::Start(Tag::TableRow) => fresh_row = true,
                Event::End(TagEnd::TableRow) => fresh_row = false,
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let (line, leads) = (line_of(&at), std::mem::take(&mut fresh_row));
                    page.links.push(Link {
                        target: dest_url.into_string(),
                        line,
                        under: under.clone(),
                        leads,
                    });
                }
                Event::Text(words) | Event::Code(words) => {
                    match (&mut heading, page.sections.last_mut()) {
                        (Some(section), _) => section.heading.push_str(&words),
                        (None, Some(section)) => section.text.push_str(&words),
                        (None, None) => {}
                    }
                }
                _ => {}
            }
        }
        if page.title.is_empty() {
            page.title = path.display().to_string();
        }
        page.text = text;
        page
    }

    /// Whether the page has this anchor.
    pub(crate) fn has(&self, anchor: &str) -> bool {
        self.sections.iter().any(|section| section.id == anchor)
    }

    /// Returns the page's HTML; `rewritten` maps each link to its target there.
    pub(crate) fn html(&self, rewritten: impl Fn(&str) -> String) -> String {
        let mut ids = self.sections.iter().map(|section| section.id.clone());
        let mut current = String::new();
        let mut events = Vec::new();
        let mut not_run = None;
        let html = |text: &str| Event::Html(CowStr::from(text.to_owned()));
        for event in Parser::new_ext(&self.text, options()) {
            match event {
                Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                    current = ids.next().unwrap_or_default();
                    let id = Some(CowStr::from(current.clone()));
                    events.push(Event::Start(Tag::Heading { level, id, classes, attrs }));
                }
                Event::End(TagEnd::Heading(level)) => {
                    let link = format!(
                        " <a class=\"anchor\" href=\"#{current}\" aria-label=\"Link to this section\">#</a>"
                    );
                    events.push(Event::InlineHtml(link.into()));
                    events.push(Event::End(TagEnd::Heading(level)));
                }
                // Such a block begins with "```sh not run: WHY", or with another language.
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    not_run = info.split_once(" not run: ").map(|(_, why)| why.to_owned());
                    events.push(Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))));
                }
                Event::End(TagEnd::CodeBlock) => {
                    events.push(Event::End(TagEnd::CodeBlock));
                    if let Some(why) = not_run.take() {
                        let why = escaped(&why);
                        let note = format!(
                            "<p class=\"note\">The project's tests do not run this block: {why}.</p>\n"
                        );
                        events.push(html(&note));
                    }
                }
                // Wide tables scroll by themselves, and not the page with them.
                Event::Start(Tag::Table(columns)) => {
                    events.push(html("<div class=\"table\" tabindex=\"0\">"));
                    events.push(Event::Start(Tag::Table(columns)));
                }
                Event::End(TagEnd::Table) => {
                    events.extend([Event::End(TagEnd::Table), html("</div>\n")]);
                }
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    let dest_url = rewritten(&dest_url).into();
                    events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
                }
                Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                    let dest_url = rewritten(&dest_url).into();
                    events.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
                }
                other => events.push(other),
            }
        }
        let mut out = String::new();
        html::push_html(&mut out, events.into_iter());
        out
    }
}

/// Whether the event separates the words before and after it.
fn parts_words(event: &Event<'_>) -> bool {
    match event {
        Event::End(TagEnd::Link | TagEnd::Strong | TagEnd::Emphasis) => false,
        Event::SoftBreak | Event::HardBreak | Event::End(_) => true,
        _ => false,
    }
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# One `x`\n\nSee [two](b.md#c).\n\n```sh\nrun # not a heading\n```\n\n```sh not run: a & b\nx\n```\n\n## Two\n\n| a | b |\n|---|---|\n| [l](m.md) | [n](o.md) |\n\n## Two\n";

    #[test]
    fn headings_links_and_words_are_found() {
        let page = Page::parse(Path::new("a.md"), TEXT.to_owned());
        assert_eq!(page.title, "One x");
        let ids: Vec<_> = page.sections.iter().map(|s| (s.level, s.id.as_str())).collect();
        assert_eq!(ids, [(1, "one-x"), (2, "two"), (2, "two-1")]);
        assert_eq!(page.sections[0].text.trim(), "See two. run # not a heading\nx");
        assert_eq!(page.sections[1].text.trim(), "a b l n");
        let links: Vec<_> =
            page.links.iter().map(|l| (l.target.as_str(), l.line, l.leads)).collect();
        assert_eq!(links, [("b.md#c", 3, false), ("m.md", 17, true), ("o.md", 17, false)]);
        assert_eq!(page.links[1].under.as_deref(), Some("Two"));
        assert!(page.has("two-1") && !page.has("three"));
    }

    #[test]
    fn html_has_anchors_rewritten_links_and_tables_that_scroll() {
        let page = Page::parse(Path::new("a.md"), TEXT.to_owned());
        let html = page.html(|target| target.replace(".md", ".html"));
        for part in [
            "<h2 id=\"two-1\">",
            "href=\"b.html#c\"",
            "<div class=\"table\" tabindex=\"0\">",
            "run # not a heading",
            "do not run this block: a &amp; b.</p>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
    }
}
