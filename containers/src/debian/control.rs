//! Control files: paragraphs of fields (Policy 5.1).

use std::collections::BTreeMap;

/// One paragraph: fields by their names in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paragraph {
    fields: BTreeMap<String, String>,
    text: String,
}

impl Paragraph {
    /// A field's value, its lines joined by newlines; `name` in any case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// The paragraph as it was written, with a newline at its end.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The paragraphs of a text, in their order. Lines that are neither a field nor
/// go on with one are passed over, comments among them.
pub fn paragraphs(text: &str) -> impl Iterator<Item = Paragraph> {
    let mut lines = text.lines();
    std::iter::from_fn(move || {
        let mut paragraph = Paragraph::default();
        let mut last: Option<String> = None;
        for line in lines.by_ref() {
            if line.trim().is_empty() {
                if paragraph.fields.is_empty() {
                    continue;
                }
                break;
            }
            if line.starts_with('#') {
                continue;
            }
            if line.starts_with([' ', '\t']) {
                if let Some(value) = last.as_ref().and_then(|name| paragraph.fields.get_mut(name)) {
                    value.push('\n');
                    value.push_str(line.trim());
                }
            } else if let Some((name, value)) = line.split_once(':') {
                let name = name.to_ascii_lowercase();
                paragraph.fields.insert(name.clone(), value.trim().to_owned());
                last = Some(name);
            } else {
                continue;
            }
            paragraph.text.push_str(line);
            paragraph.text.push('\n');
        }
        (!paragraph.fields.is_empty()).then_some(paragraph)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_paragraphs_and_continued_lines() {
        let text = "\n\nPackage: bash\nDescription: shell\n of GNU\n\t.\n# a comment\nno field\n\n\nPackage:dash\n";
        let read: Vec<_> = paragraphs(text).collect();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].get("DESCRIPTION"), Some("shell\nof GNU\n."));
        assert_eq!(read[0].text(), "Package: bash\nDescription: shell\n of GNU\n\t.\n");
        assert_eq!(read[1].get("package"), Some("dash"));
        assert_eq!(read[1].get("version"), None);
    }
}
