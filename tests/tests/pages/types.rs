//! The types in the source that become JSON, read from its text: names, types and documentation of
//! their members.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// All types of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Types {
    by_name: BTreeMap<String, Vec<Type>>,
    /// The imports of each file from other rooms: statements `use gular_ROOM::…;`.
    imports: BTreeMap<PathBuf, Vec<String>>,
}

/// A `struct` or an `enum`.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) name: String,
    /// The file of the type, below the root of the project.
    pub(crate) file: PathBuf,
    pub(crate) doc: String,
    attributes: String,
    is_enum: bool,
    pub(crate) members: Vec<Member>,
}

/// A member of a struct, or a variant of an enum.
#[derive(Debug, Default)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// The member's type as in Rust; empty for a variant without values.
    pub(crate) kind: String,
    pub(crate) doc: String,
    pub(crate) attributes: String,
}

impl Types {
    /// Reads every room below `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut types = Self::default();
        let mut folders: Vec<PathBuf> =
            ["bench", "cli", "containers", "crates", "jobs", "pack", "stage", "transfer", "verify"]
                .map(|room| root.join(room))
                .to_vec();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                if path.is_dir() && !["tests", "examples", "target"].contains(&name) {
                    folders.push(path);
                } else if name.ends_with(".rs") {
                    let text = fs::read_to_string(&path).unwrap();
                    types.add(path.strip_prefix(root).unwrap(), &text);
                }
            }
        }
        types
    }

    /// Returns the type `name` that the file `from` means: its own, else one of the room it imports
    /// it from, else one of its own room, else the only one.
    pub(crate) fn find(&self, name: &str, from: &Path) -> Option<&Type> {
        let named = self.by_name.get(name)?;
        let room = |path: &Path| {
            let parts: Vec<_> = path.iter().take_while(|part| *part != "src").collect();
            parts.iter().collect::<PathBuf>()
        };
        let own = named.iter().find(|found| found.file == from);
        let imports = self.imports.get(from).map_or(&[][..], Vec::as_slice);
        let import = imports.iter().find(|import| {
            import.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
        });
        let imported = import.and_then(|import| {
            let other = import.split("::").next()?;
            named.iter().find(|found| room(&found.file).ends_with(other))
        });
        let near = named.iter().filter(|found| room(&found.file) == room(from));
        // Of two types, the one that is written as JSON is used.
        let near = near.max_by_key(|found| !found.is_text());
        let only = || named.first().filter(|_| named.len() == 1);
        own.or(imported).or(near).or_else(only)
    }

    fn add(&mut self, file: &Path, text: &str) {
        let imports = text.split("\nuse gular_").skip(1).filter_map(|rest| rest.split(';').next());
        self.imports.insert(file.to_owned(), imports.map(str::to_owned).collect());
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let Some((is_enum, name)) = opened(line) else { continue };
            let above = lines[..i].iter().rev();
            let above: Vec<&str> = above
                .take_while(|line| !line.is_empty() && !line.starts_with('}'))
                .copied()
                .collect();
            let (doc, attributes) = told(above.iter().rev().copied());
            let members = members(&lines[i + 1..]);
            let (name, file) = (name.to_owned(), file.to_owned());
            let found = Type { name: name.clone(), file, doc, attributes, is_enum, members };
            self.by_name.entry(name).or_default().push(found);
        }
    }
}

impl Type {
    /// Returns the texts that the type becomes, if it is an enum of names only.
    pub(crate) fn texts(&self) -> Option<Vec<String>> {
        let plain = self.members.iter().all(|member| member.kind.is_empty());
        let rule = self.attributes.split("rename_all = \"").nth(1)?.split('"').next()?;
        (self.is_enum && plain)
            .then(|| self.members.iter().map(|m| renamed(&m.name, rule)).collect())
    }

    /// Returns the type that it is converted to before it is written.
    pub(crate) fn becomes(&self) -> Option<&str> {
        self.attributes.split("into = \"").nth(1)?.split('"').next()
    }

    /// Returns whether separate code makes the type a text.
    pub(crate) fn is_text(&self) -> bool {
        !self.attributes.contains("Serialize")
    }

    /// Returns whether the type becomes an object with its members.
    pub(crate) fn is_object(&self) -> bool {
        let derives = self.attributes.contains("Serialize");
        !self.is_enum && derives && self.becomes().is_none() && !self.members.is_empty()
    }
}

/// Parses `struct NAME … {` or `enum NAME {`, at the beginning of a line.
fn opened(line: &str) -> Option<(bool, &str)> {
    let rest = line.strip_suffix('{')?;
    let rest = match rest.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches(|c| c != ' ').trim_start(),
        None => rest,
    };
    let (is_enum, rest) = match rest.strip_prefix("enum ") {
        Some(rest) => (true, rest),
        None => (false, rest.strip_prefix("struct ")?),
    };
    Some((is_enum, rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?))
}

/// Returns the first paragraph of documentation, and the attributes, from the lines above an item.
fn told<'a>(lines: impl Iterator<Item = &'a str>) -> (String, String) {
    let (mut doc, mut attributes, mut first) = (Vec::new(), String::new(), true);
    for line in lines.map(str::trim) {
        match line.strip_prefix("///") {
            Some("") => first = false,
            Some(text) if first => doc.push(text.trim()),
            Some(_) => {}
            None => attributes.push_str(line),
        }
    }
    // Links are only for the source, and JSON has another word for `None`.
    let doc = doc.join(" ").replace("[`", "`").replace("`]", "`").replace("`None`", "null");
    (doc, attributes)
}

/// Returns the members between `{` and `}` at the beginning of a line.
fn members(lines: &[&str]) -> Vec<Member> {
    let (mut found, mut above) = (Vec::new(), Vec::new());
    for line in lines.iter().take_while(|line| **line != "}") {
        let Some(inner) = line.strip_prefix("    ").filter(|inner| !inner.starts_with(' ')) else {
            continue;
        };
        if inner.starts_with("///") || inner.starts_with("#[") {
            above.push(inner);
            continue;
        }
        let (doc, attributes) = told(above.drain(..));
        let bare = match inner.strip_prefix("pub") {
            Some(rest) if rest.starts_with(' ') || rest.starts_with('(') => {
                rest.trim_start_matches(|c| c != ' ').trim_start()
            }
            _ => inner,
        };
        let (name, kind) = match bare.split_once(": ") {
            Some((name, kind)) => (name, kind.trim_end_matches(',')),
            None => (
                bare.split([',', '(', ' ']).next().unwrap_or_default(),
                bare.split_once(['(', '{']).map_or("", |_| "values"),
            ),
        };
        if name.starts_with("//") || !name.starts_with(|c: char| c.is_alphabetic()) {
            continue;
        }
        let name = name.trim_start_matches("r#").to_owned();
        found.push(Member { name, kind: kind.to_owned(), doc, attributes });
    }
    found
}

/// Returns a variant's name as serde writes it.
fn renamed(name: &str, rule: &str) -> String {
    let join = match rule {
        "kebab-case" => "-",
        "snake_case" => "_",
        _ => return name.to_lowercase(),
    };
    let mut text = String::new();
    for (i, c) in name.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            text.push_str(join);
        }
        text.extend(c.to_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_from_their_text() {
        let text = "/// A thing.\n///\n/// More.\n#[derive(Debug, Serialize)]\npub struct Thing<'a> {\n    /// How many,\n    /// in all.\n    pub n: u64,\n    #[serde(skip)]\n    pub(crate) left: Vec<(u8, u8)>,\n    r#type: &'a str,\n}\n\n/// Of it.\n#[derive(Serialize)]\n#[serde(rename_all = \"kebab-case\")]\nenum Outcome {\n    /// Good.\n    Ok,\n    NotPossible,\n}\n\nimpl Outcome {\n    fn of() {}\n}\n";
        let mut types = Types::default();
        types.add(Path::new("a/src/b.rs"), text);
        types.add(Path::new("c/src/d.rs"), "struct Thing {\n    other: u8,\n}\n");
        let thing = types.find("Thing", Path::new("a/src/z.rs")).unwrap();
        assert_eq!((thing.doc.as_str(), thing.is_object()), ("A thing.", true));
        let members: Vec<_> = thing
            .members
            .iter()
            .map(|m| (m.name.as_str(), m.kind.as_str(), m.doc.as_str()))
            .collect();
        let expected = [
            ("n", "u64", "How many, in all."),
            ("left", "Vec<(u8, u8)>", ""),
            ("type", "&'a str", ""),
        ];
        assert_eq!(members, expected);
        assert_eq!(thing.members[1].attributes, "#[serde(skip)]");
        let outcome = types.find("Outcome", Path::new("q/src/z.rs")).unwrap();
        assert_eq!(outcome.texts().unwrap(), ["ok", "not-possible"]);
        assert!(types.find("Thing", Path::new("q/src/z.rs")).is_none(), "two have this name");
    }
}
