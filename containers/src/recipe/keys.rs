//! Unknown keys, and which key was probably meant.

use toml::de::{DeTable, DeValue};

/// Sections with their keys; a section without any takes all.
const KNOWN: [(&str, &[&str]); 10] = [
    ("image", &["name", "platform"]),
    ("base", &["scratch", "debian", "oci", "packages"]),
    ("app", &["package", "bin", "manifest", "features", "path", "embed", "files"]),
    ("cuda", &["torch", "libtorch"]),
    (
        "python",
        &["lock", "requirements", "extras", "groups", "wheels", "interpreter", "build", "bytecode"],
    ),
    ("conda", &["archive"]),
    ("run", &["script", "network", "workdir", "env"]),
    ("target", &["gpus", "apptainer"]),
    ("env", &[]),
    ("labels", &[]),
];

/// An unknown key in a recipe.
pub(super) struct Unknown {
    /// The key's offset in the text, in bytes.
    pub(super) at: usize,
    pub(super) reason: String,
    pub(super) hint: String,
}

/// Finds the first unknown key of a recipe.
pub(super) fn unknown(text: &str) -> Result<Option<Unknown>, toml::de::Error> {
    let table = DeTable::parse(text)?;
    let sections: Vec<&str> = KNOWN.iter().map(|(section, _)| *section).collect();
    for (key, value) in table.get_ref() {
        let name: &str = key.get_ref();
        let Some((_, keys)) = KNOWN.iter().find(|(section, _)| *section == name) else {
            let reason = format!("unknown section `{name}`");
            return Ok(Some(Unknown { at: key.span().start, reason, hint: hint(name, &sections) }));
        };
        let tables: Vec<_> = match value.get_ref() {
            DeValue::Table(table) => vec![table],
            DeValue::Array(array) => {
                array.iter().filter_map(|one| one.get_ref().as_table()).collect()
            }
            _ => continue,
        };
        for key in tables.iter().flat_map(|table| table.keys()).filter(|_| !keys.is_empty()) {
            let inner: &str = key.get_ref();
            if !keys.contains(&inner) {
                let reason = format!("unknown key `{inner}` in `[{name}]`");
                return Ok(Some(Unknown { at: key.span().start, reason, hint: hint(inner, keys) }));
            }
        }
    }
    Ok(None)
}

/// The offset at which a section, or else the text, begins.
pub(super) fn place(text: &str, section: &str) -> usize {
    text.find(&format!("[{section}]")).unwrap_or(0)
}

fn hint(given: &str, known: &[&str]) -> String {
    let near = known.iter().map(|key| (strsim::osa_distance(given, key), *key)).min();
    match near {
        Some((distance, key)) if distance <= 3 && distance < given.len() => {
            format!("did you mean `{key}`?")
        }
        _ => format!("the keys known here are: {}", known.join(", ")),
    }
}
