//! The index of the search box.

use anyhow::Result;
use serde_json::json;

use crate::page::Page;

/// Longer texts, of the reference above all, are cut: whoever searches for so much has the page.
const MAX_CHARS: usize = 6000;

/// Collects the sections of pages.
#[derive(Debug, Default)]
pub(crate) struct Index(Vec<serde_json::Value>);

impl Index {
    /// Adds the sections of `page`, which is the file `file`.
    pub(crate) fn add(&mut self, page: &Page, file: &str) {
        for section in &page.sections {
            let words: Vec<&str> = section.text.split_whitespace().collect();
            let text: String = words.join(" ").chars().take(MAX_CHARS).collect();
            let at =
                if section.level == 1 { file.to_owned() } else { format!("{file}#{}", section.id) };
            self.0.push(json!([page.title, section.heading, at, text]));
        }
    }

    /// A script: a page that is read from a disk may load one, and nothing else.
    ///
    /// # Errors
    /// Never: texts can be written as JSON.
    pub(crate) fn script(&self) -> Result<String> {
        Ok(format!("gularSearch({});\n", serde_json::to_string(&self.0)?))
    }
}
