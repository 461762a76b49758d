//! The software bill of materials of an image: SPDX 2.3 as JSON.
//!
//! ```text
//! document ─DESCRIBES▶ image ─CONTAINS▶ Debian packages, wheels, base, program
//!                                                   program ─CONTAINS▶ crates
//! ```
//!
//! Equal contents give equal bytes: the document's name space is a digest of them,
//! and its time is the caller's.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Error, OciDigest, Package, Result, Sha256, UnixTime};

/// The contents of an image.
#[derive(Debug, Clone, Default)]
pub struct Sbom<'a> {
    /// The image's name.
    pub name: &'a str,
    /// Creation time, in seconds since 1970.
    pub time: UnixTime,
    /// The program that made the image: `gular-0.1.0`.
    pub tool: &'a str,
    /// Debian packages.
    pub debs: &'a [Package],
    /// Python wheels that libraries were taken from.
    pub wheels: &'a [&'a Package],
    /// The image it is built on: its manifest's digest.
    pub base: Option<OciDigest>,
    /// The program.
    pub program: Option<&'a SbomProgram>,
    /// Crates in the program: see [`crates`].
    pub crates: &'a [Crate],
}

/// The program of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SbomProgram {
    /// Its name.
    pub name: String,
    /// Its version, where it is known.
    pub version: Option<String>,
    /// SHA-256 of the file.
    pub sha256: Sha256,
}

/// A crate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The source in `Cargo.lock`; none for a crate of the workspace.
    pub source: Option<String>,
    /// SHA-256 of the crate's archive.
    pub checksum: Option<Sha256>,
}

/// Returns the document's text.
pub fn spdx(of: &Sbom<'_>) -> String {
    let mut document = Document::default();
    let image = document.add(Entry { name: of.name, purpose: "CONTAINER", ..Entry::default() });
    document.relate("SPDXRef-DOCUMENT", "DESCRIBES", &image);
    let base = of.base.map(|OciDigest(sha256)| Entry {
        name: "base",
        purpose: "CONTAINER",
        sha256: Some(sha256),
        ..Entry::default()
    });
    let wheels = of.wheels.iter().map(|package| wheel(package));
    for entry in of.debs.iter().map(deb).chain(wheels).chain(base) {
        document.add_to(&image, entry);
    }
    let program = of.program.map(|program| Entry {
        name: &program.name,
        version: program.version.as_deref(),
        purpose: "APPLICATION",
        sha256: Some(program.sha256),
        ..Entry::default()
    });
    let around = program.map_or(image.clone(), |program| document.add_to(&image, program));
    for one in of.crates {
        document.add_to(&around, of_crate(one));
    }
    document.text(of)
}

fn deb(package: &Package) -> Entry<'_> {
    let (name, version) = (escaped(&package.name), escaped(&package.version));
    let arch = package.arch.as_deref().unwrap_or_default();
    of_package(package, format!("pkg:deb/debian/{name}@{version}?arch={arch}"))
}

fn wheel(package: &Package) -> Entry<'_> {
    let name = package.name.to_ascii_lowercase().replace('_', "-");
    of_package(package, format!("pkg:pypi/{}@{}", escaped(&name), escaped(&package.version)))
}

fn of_package(package: &Package, purl: String) -> Entry<'_> {
    Entry {
        name: &package.name,
        version: Some(&package.version),
        purpose: "LIBRARY",
        sha256: Some(package.sha256),
        url: package.urls.first().map(Cow::from),
        license: package.license.as_deref(),
        purl: Some(purl),
    }
}

fn of_crate(one: &Crate) -> Entry<'_> {
    let (name, version) = (escaped(&one.name), escaped(&one.version));
    let source = one.source.as_deref().unwrap_or_default();
    let (url, purl) = if source.starts_with("registry+") {
        let url = format!("https://static.crates.io/crates/{name}/{version}/download");
        (Some(Cow::from(url)), Some(format!("pkg:cargo/{name}@{version}")))
    } else {
        (source.starts_with("git+").then_some(Cow::from(source)), None)
    };
    Entry {
        name: &one.name,
        version: Some(&one.version),
        purpose: "LIBRARY",
        sha256: one.checksum,
        url,
        license: None,
        purl,
    }
}

/// The crates that a package of a workspace is made of, from the text of its
/// `Cargo.lock`: what `root` needs, and what that needs, but not `root` itself;
/// without one, all that are there.
///
/// # Errors
/// [`Error::Recipe`] naming `Cargo.lock` when it is none, or has no such package.
pub fn crates(text: &str, root: Option<&str>) -> Result<Vec<Crate>> {
    #[derive(Deserialize)]
    struct CargoLock {
        #[serde(default)]
        package: Vec<Locked>,
    }
    #[derive(Deserialize)]
    struct Locked {
        name: String,
        version: String,
        source: Option<String>,
        checksum: Option<Sha256>,
        #[serde(default)]
        dependencies: Vec<String>,
    }
    let wrong = |line: usize, reason: String| Error::Recipe {
        path: "Cargo.lock".to_owned(),
        line,
        reason,
        hint: None,
    };
    let lock: CargoLock = toml::from_str(text).map_err(|e| {
        let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        wrong(before.matches('\n').count() + 1, e.message().to_owned())
    })?;
    let mut wanted: BTreeSet<usize> = BTreeSet::new();
    let mut todo = VecDeque::new();
    match root {
        None => wanted.extend(0..lock.package.len()),
        Some(root) => {
            let at = lock.package.iter().position(|p| p.name == root && p.source.is_none());
            todo.push_back(at.ok_or_else(|| wrong(1, format!("it has no package `{root}`")))?);
        }
    }
    while let Some(package) = todo.pop_front().and_then(|at: usize| lock.package.get(at)) {
        for dependency in &package.dependencies {
            // `name`, `name version` or `name version (source)`: as much as is needed.
            let mut words = dependency.splitn(3, ' ');
            let (name, version, source) = (words.next(), words.next(), words.next());
            let is_it = |p: &Locked| {
                Some(p.name.as_str()) == name
                    && version.is_none_or(|version| p.version == version)
                    && source
                        .is_none_or(|s| Some(s.trim_matches(['(', ')'])) == p.source.as_deref())
            };
            if let Some(at) = lock.package.iter().position(is_it)
                && wanted.insert(at)
            {
                todo.push_back(at);
            }
        }
    }
    let of = |package: &Locked| Crate {
        name: package.name.clone(),
        version: package.version.clone(),
        source: package.source.clone(),
        checksum: package.checksum,
    };
    let mut crates: Vec<_> = wanted.iter().filter_map(|at| lock.package.get(*at)).map(of).collect();
    crates.sort();
    crates.dedup();
    Ok(crates)
}

/// One package of the document.
#[derive(Default)]
struct Entry<'a> {
    name: &'a str,
    version: Option<&'a str>,
    purpose: &'static str,
    sha256: Option<Sha256>,
    url: Option<Cow<'a, str>>,
    license: Option<&'a str>,
    purl: Option<String>,
}

#[derive(Default)]
struct Document {
    packages: Vec<Value>,
    relationships: Vec<Value>,
    ids: BTreeSet<String>,
    /// Licences that are not of SPDX's list: identifier, and the text that names it.
    licenses: BTreeMap<String, String>,
}

impl Document {
    /// Adds a package, and returns its identifier.
    fn add(&mut self, package: Entry<'_>) -> String {
        let version = package.version.map_or_else(String::new, |version| format!("-{version}"));
        let id = self.id(&format!("SPDXRef-Package-{}{version}", package.name));
        let license = package.license.map(|text| self.license(text));
        let mut value = json!({
            "SPDXID": id,
            "name": package.name,
            "downloadLocation": package.url.as_deref().unwrap_or("NOASSERTION"),
            "filesAnalyzed": false,
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": license.unwrap_or_else(|| "NOASSERTION".to_owned()),
            "copyrightText": "NOASSERTION",
            "primaryPackagePurpose": package.purpose,
        });
        if let Some(version) = package.version {
            set(&mut value, "versionInfo", json!(version));
        }
        if let Some(sha256) = package.sha256 {
            let checksums = json!([{ "algorithm": "SHA256", "checksumValue": sha256 }]);
            set(&mut value, "checksums", checksums);
        }
        if let Some(purl) = package.purl {
            let refs = json!([{
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": purl,
            }]);
            set(&mut value, "externalRefs", refs);
        }
        self.packages.push(value);
        id
    }

    /// Adds a package that is inside another; its identifier.
    fn add_to(&mut self, around: &str, package: Entry<'_>) -> String {
        let id = self.add(package);
        self.relate(around, "CONTAINS", &id);
        id
    }

    fn relate(&mut self, from: &str, kind: &str, to: &str) {
        self.relationships.push(json!({
            "spdxElementId": from,
            "relationshipType": kind,
            "relatedSpdxElement": to,
        }));
    }

    /// An identifier of its own: letters, digits, `.` and `-` only (SPDX 2.3, 3.2).
    fn id(&mut self, text: &str) -> String {
        let id = plain(text);
        let mut unique = id.clone();
        let mut number = 2;
        while !self.ids.insert(unique.clone()) {
            unique = format!("{id}-{number}");
            number += 1;
        }
        unique
    }

    /// Returns a licence in SPDX's form. A licence that is not in SPDX's list is named by a text.
    fn license(&mut self, text: &str) -> String {
        let known = |word: &&str| {
            matches!(*word, "AND" | "OR" | "WITH")
                || LICENSES.contains(&word.trim_matches(['(', ')']))
        };
        if !text.is_empty() && text.split_whitespace().all(|word| known(&word)) {
            return text.to_owned();
        }
        // Some metadata has this prefix already.
        let id = plain(text.strip_prefix("LicenseRef-").unwrap_or(text));
        let id = id.trim_matches('-').chars().take(60).collect::<String>();
        let id = if id.is_empty() { "none".to_owned() } else { id };
        let mut unique = format!("LicenseRef-{id}");
        while self.licenses.get(&unique).is_some_and(|known| known != text) {
            unique.push_str("-2");
        }
        self.licenses.insert(unique.clone(), text.to_owned());
        unique
    }

    fn text(self, of: &Sbom<'_>) -> String {
        let texts = self.licenses.iter().map(|(id, text)| {
            // The whole text is in the image; a text of this field may not be empty.
            let text = if text.is_empty() { "not said" } else { text };
            json!({ "licenseId": id, "name": text, "extractedText": text })
        });
        let mut document = json!({
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": of.name,
            "creationInfo": {
                "created": of.time.rfc3339(),
                "creators": [format!("Tool: {}", of.tool)],
            },
            "packages": self.packages,
            "relationships": self.relationships,
        });
        let texts: Vec<_> = texts.collect();
        if !texts.is_empty() {
            set(&mut document, "hasExtractedLicensingInfos", json!(texts));
        }
        let digest = Sha256::of(document.to_string().as_bytes());
        let name = escaped(of.name);
        let namespace = format!("https://gular.invalid/spdx/{name}-{digest}");
        set(&mut document, "documentNamespace", json!(namespace));
        document.to_string()
    }
}

/// Adds a member to an object.
fn set(object: &mut Value, name: &str, member: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), member);
    }
}

/// Identifiers of SPDX's list that packages of our kind use.
const LICENSES: [&str; 26] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "GCC-exception-3.1",
    "GPL-2.0-only",
    "GPL-2.0-or-later",
    "GPL-3.0-only",
    "GPL-3.0-or-later",
    "ISC",
    "LGPL-2.1-only",
    "LGPL-2.1-or-later",
    "LGPL-3.0-only",
    "LGPL-3.0-or-later",
    "LLVM-exception",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "PSF-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];

fn plain(text: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    text.chars().map(keep).collect()
}

/// A part of a package URL (purl-spec): percent signs for all but these.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b".-_~:".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}
