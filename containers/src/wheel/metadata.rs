//! The `METADATA` of a wheel.

use super::requirement::Requirement;

/// Longest licence kept; some write its whole text there.
const MAX_LICENSE: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Metadata {
    pub(crate) license: Option<String>,
    pub(crate) needs: Vec<Requirement>,
}

impl Metadata {
    /// Requirements that are none are passed over: those that count are checked by
    /// what is found in the end.
    pub(crate) fn parse(text: &str) -> Self {
        let mut needs = Vec::new();
        let (mut expression, mut license, mut classifier) = (None, None, None);
        for line in text.lines().take_while(|line| !line.trim().is_empty()) {
            let Some((field, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match field.to_ascii_lowercase().as_str() {
                "requires-dist" => needs.extend(Requirement::parse(value)),
                "license-expression" => expression = shown(value),
                "license" => license = shown(value),
                "classifier" if value.starts_with("License ::") => {
                    classifier = value.rsplit("::").next().and_then(shown);
                }
                _ => {}
            }
        }
        Self { license: expression.or(license).or(classifier), needs }
    }
}

fn shown(value: &str) -> Option<String> {
    let text: String = value.chars().filter(|c| !c.is_control()).take(MAX_LICENSE).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_up_to_the_empty_line() {
        let text = "Metadata-Version: 2.1\nLicense: BSD-3-Clause\nClassifier: License :: OSI Approved :: Other\r\nRequires-Dist: a==1\nRequires-Dist: ==\n\nRequires-Dist: b\n";
        let read = Metadata::parse(text);
        assert_eq!(read.license.as_deref(), Some("BSD-3-Clause"));
        assert_eq!(read.needs.iter().map(|need| need.name.as_str()).collect::<Vec<_>>(), ["a"]);
        let read = Metadata::parse("Classifier: License :: Other/Proprietary License\nLicense:\n");
        assert_eq!(read.license.as_deref(), Some("Other/Proprietary License"));
        assert_eq!(Metadata::parse(""), Metadata::default());
    }
}
