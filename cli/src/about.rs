//! What a manifest says about its dataset: name, licence, citation, source.

use std::path::{Path, PathBuf};

use clap::Args;
use gular_bundle::About;
use serde::Deserialize;

use crate::exit::Failure;

/// Texts for the manifest.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Description")]
pub(crate) struct AboutArgs {
    /// A TOML file of name, description, licence, citation and source
    ///
    /// All are optional strings. `licence` is an SPDX expression, such as "CC-BY-4.0" or
    /// "LicenseRef-internal"; `source` says where the data is from, such as a URL. The options
    /// below override the file.
    #[arg(long, value_name = "TOML")]
    about: Option<PathBuf>,
    /// The dataset's name
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    name: Option<String>,
    /// What it contains
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    description: Option<String>,
    /// Its licence, as an SPDX expression if there is one
    #[arg(long, value_name = "SPDX", hide_short_help = true)]
    licence: Option<String>,
    /// How to cite it
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    citation: Option<String>,
}

/// The file of `--about`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AboutFile {
    name: Option<String>,
    description: Option<String>,
    #[serde(alias = "license")]
    licence: Option<String>,
    citation: Option<String>,
    source: Option<String>,
}

impl AboutArgs {
    /// Reads the texts: those of the options, else those of the file.
    pub(crate) fn read(&self) -> Result<About, Failure> {
        let file = match &self.about {
            None => AboutFile::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|e| {
                    Failure::new(format!("cannot read `{}`: {e}", path.display()), None)
                })?;
                parse(path, &text)?
            }
        };
        let AboutFile { name, description, licence, citation, source } = file;
        let or = |option: &Option<String>, file| option.clone().or(file);
        Ok(About {
            name: or(&self.name, name),
            description: or(&self.description, description),
            licence: or(&self.licence, licence),
            citation: or(&self.citation, citation),
            source,
        })
    }
}

fn parse(path: &Path, text: &str) -> Result<AboutFile, Failure> {
    let shown = path.display();
    let file: AboutFile = toml::from_str(text).map_err(|e| {
        let hint = "the file may have the members name, description, licence, citation and source, each a string";
        let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let (line, reason) = (before.matches('\n').count() + 1, e.message().replace('\n', ", "));
        Failure::new(format!("`{shown}`, line {line}: {reason}"), Some(hint.to_owned()))
    })?;
    if let Some(licence) = file.licence.as_deref().filter(|licence| !is_spdx(licence)) {
        let text = format!("`{shown}`: licence `{licence}` is not an SPDX expression");
        let hint = "use an identifier from https://spdx.org/licenses, such as CC-BY-4.0, or LicenseRef-NAME for other licences; join several with AND, OR and WITH";
        return Err(Failure::new(text, Some(hint.to_owned())));
    }
    Ok(file)
}

/// Whether `text` has the form of SPDX 2.3, Annex D, which does not list the identifiers.
fn is_spdx(text: &str) -> bool {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let is_name = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c))
    };
    let is_licence = |word: &str| match word.strip_prefix("DocumentRef-") {
        Some(word) => word
            .split_once(":LicenseRef-")
            .is_some_and(|(document, licence)| is_name(document) && is_name(licence)),
        None => is_name(word.strip_suffix('+').unwrap_or(word)),
    };
    #[derive(PartialEq)]
    enum Last {
        Start,
        Licence,
        With,
        Whole,
    }
    let (mut last, mut open) = (Last::Start, 0_u32);
    for word in spaced.split_whitespace() {
        last = match (word, last) {
            ("(", Last::Start) => {
                open += 1;
                Last::Start
            }
            (")", Last::Licence | Last::Whole) if open > 0 => {
                open -= 1;
                Last::Whole
            }
            ("AND" | "OR", Last::Licence | Last::Whole) => Last::Start,
            ("WITH", Last::Licence) => Last::With,
            ("AND" | "OR" | "WITH", _) => return false,
            (word, Last::With) if is_name(word) => Last::Whole,
            (word, Last::Start) if is_licence(word) => Last::Licence,
            _ => return false,
        };
    }
    open == 0 && matches!(last, Last::Licence | Last::Whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spdx_expressions_are_told_from_other_texts() {
        for text in [
            "CC-BY-4.0",
            "MIT OR Apache-2.0",
            "GPL-2.0+",
            "(MIT OR (Apache-2.0 AND CC0-1.0))",
            "GPL-2.0-only WITH Classpath-exception-2.0 AND MIT",
            "LicenseRef-internal",
            "DocumentRef-spdx:LicenseRef-a",
        ] {
            assert!(is_spdx(text), "{text}");
        }
        for text in [
            "",
            "CC BY 4.0",
            "free for research",
            "MIT OR",
            "AND MIT",
            "(MIT",
            "MIT)",
            "()",
            "MIT WITH",
            "(MIT) WITH x",
            "MIT/Apache-2.0",
            "DocumentRef-x",
        ] {
            assert!(!is_spdx(text), "{text}");
        }
    }

    #[test]
    fn a_file_of_texts_is_read_and_what_it_may_not_have_is_named() {
        let path = Path::new("about.toml");
        let file = parse(path, "name = \"Birds\"\nlicense = \"MIT\"\nsource = \"x\"\n").unwrap();
        assert_eq!((file.name.as_deref(), file.licence.as_deref()), (Some("Birds"), Some("MIT")));
        for (text, expected) in [
            ("licence = \"CC BY 4.0\"", "is not an SPDX expression"),
            ("author = \"me\"", "unknown field `author`"),
            ("\nname = 3", "about.toml`, line 2: invalid type"),
        ] {
            let error = format!("{:?}", parse(path, text).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
