//! Reads and writes the file `image.lock`.
//!
//! ```toml
//! version = 1
//! time = 1783764997
//! recipe = "sha256:…"
//! platform = "linux/amd64"
//! [debian]
//! suite = "bookworm"
//! [[deb]]
//! name = "bash"
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::document::{Debian, ImageLock, LockedStep, Oci};
use crate::conda::CondaArchive;
use crate::package::file_name;
use crate::python::LockedPython;
use crate::recipe::Platform;
use crate::{Error, OciDigest, Package, Result, UnixTime};

/// Version of the format.
const VERSION: u32 = 1;

/// Largest lock read: some 30,000 packages.
const MAX_BYTES: u64 = 16 << 20;

const HEAD: &str =
    "# Made by `gular image lock`: change the recipe and lock again, not this file.\n\n";

/// How each lock that this program wrote begins.
pub(crate) const LOCK_BEGINS: &str = "# Made by `gular image lock`";

#[derive(Deserialize)]
struct Head {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: u32,
    time: u64,
    recipe: OciDigest,
    platform: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    debian: Option<Debian>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oci: Option<Oci>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deb: Vec<Package>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool: Vec<Package>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    wheel: Vec<Package>,
    #[serde(skip_serializing_if = "Option::is_none")]
    python: Option<LockedPython>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conda: Option<CondaArchive>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    run: Vec<LockedStep>,
}

impl ImageLock {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`Error::Io`], and as [`parse`](Self::parse).
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        let len = fs::metadata(path).map_err(Error::io("read", path))?.len();
        if len > MAX_BYTES {
            let reason = format!("the file has {len} bytes, more than the limit of {MAX_BYTES}");
            return Err(Error::Lock { path: shown, line: 1, reason });
        }
        Self::parse(&fs::read_to_string(path).map_err(Error::io("read", path))?, &shown)
    }

    /// Reads and checks a text; `path` names it in errors. Packages come in the order
    /// of their names, whatever the order of the text.
    ///
    /// # Errors
    /// [`Error::Lock`] with the line: what is not TOML, a newer version, an unknown
    /// key, a digest, name or address that cannot be one.
    pub fn parse(text: &str, path: &str) -> Result<Self> {
        let line = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        let wrong = |at: usize, reason: String| Error::Lock {
            path: path.to_owned(),
            line: line(at),
            reason,
        };
        let bad = |e: &toml::de::Error| {
            wrong(e.span().map_or(0, |span| span.start), e.message().to_owned())
        };
        let head: Head = toml::from_str(text).map_err(|e| bad(&e))?;
        if head.version != VERSION {
            let line = line(text.find("version").unwrap_or(0));
            let (path, found) = (path.to_owned(), head.version);
            return Err(Error::LockVersion { path, line, found, supported: VERSION });
        }
        let read: Text = toml::from_str(text).map_err(|e| bad(&e))?;
        let platform = Platform::parse(&read.platform);
        let platform =
            platform.map_err(|reason| wrong(text.find("platform").unwrap_or(0), reason))?;
        let time = i64::try_from(read.time).map_err(|_| {
            let reason = format!("time {} is not a time", read.time);
            wrong(text.find("time").unwrap_or(0), reason)
        })?;
        let mut lock = Self {
            time: UnixTime(time),
            recipe: read.recipe,
            platform,
            debian: read.debian,
            oci: read.oci,
            debs: read.deb,
            tools: read.tool,
            wheels: read.wheel,
            python: read.python,
            conda: read.conda,
            steps: read.run,
        };
        if let Err((place, reason)) = lock.sound() {
            return Err(wrong(text.find(&place).unwrap_or(0), reason));
        }
        lock.sort();
        Ok(lock)
    }

    /// The file's text: equal locks, equal texts, packages by name.
    pub fn to_text(&self) -> String {
        let mut sorted = self.clone();
        sorted.sort();
        let text = Text {
            version: VERSION,
            time: self.time.clamped_to_u64(),
            recipe: self.recipe,
            platform: self.platform.to_string(),
            debian: self.debian.clone(),
            oci: self.oci.clone(),
            deb: sorted.debs,
            tool: sorted.tools,
            wheel: sorted.wheels,
            python: sorted.python,
            conda: sorted.conda,
            run: sorted.steps,
        };
        // The lock is plain text, numbers and tables, all of which TOML has.
        format!("{HEAD}{}", toml::to_string_pretty(&text).unwrap_or_default())
    }

    fn sort(&mut self) {
        self.debs.sort_by(|a, b| a.name.cmp(&b.name));
        self.tools.sort_by(|a, b| a.name.cmp(&b.name));
        self.wheels.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(python) = &mut self.python {
            python.wheels.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }

    /// Checks the lock; an error is the place of the fault, and what is wrong there.
    fn sound(&self) -> std::result::Result<(), (String, String)> {
        let mut names = BTreeSet::new();
        let mut files = BTreeSet::new();
        // A tool is a Debian package, too, and none of the image's.
        let debs = self.debs.iter().chain(&self.tools).map(|deb| ("deb", deb));
        for (kind, package) in debs.chain(self.all_wheels().map(|wheel| ("wheel", wheel))) {
            let Package { name, urls, .. } = package;
            let wrong = |reason: String| Err((format!("\"{name}\""), reason));
            let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
            let first = name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
            if !first || !name.bytes().all(good) {
                return wrong(format!("`{name}` is not a valid package name"));
            }
            if !names.insert((kind, name)) {
                return wrong(format!("{kind} `{name}` is listed twice"));
            }
            match (kind, &package.arch, &package.license) {
                ("deb", Some(_), None) | ("wheel", None, _) => {}
                ("deb", None, _) => {
                    return wrong(format!("the Debian package `{name}` has no `arch`"));
                }
                ("deb", ..) => {
                    return wrong(format!(
                        "the Debian package `{name}` has a `license`, which only wheels have"
                    ));
                }
                _ => {
                    return wrong(format!(
                        "the wheel `{name}` has an `arch`, which only Debian packages have"
                    ));
                }
            }
            for url in urls {
                let schemes = ["https://", "http://", "file://"];
                let scheme = schemes.iter().any(|scheme| url.starts_with(scheme));
                // Only a wheel can be beside the recipe.
                let here = kind == "wheel" && url.starts_with("./");
                if !(scheme || here) || file_name(url).is_none() {
                    return Err((url.clone(), format!("`{url}` is not the URL of a file")));
                }
            }
            match urls.first().and_then(|url| file_name(url)) {
                None => return wrong(format!("`{name}` has no URL")),
                Some(file) if !files.insert(file.clone()) => {
                    return wrong(format!("`{file}` is listed twice"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sha256;
    use crate::recipe::OciBase;

    fn lock() -> ImageLock {
        let sha256: Sha256 = "0123456789abcdef".repeat(4).parse().unwrap();
        let deb = |name: &str| Package {
            name: name.to_owned(),
            version: "1:2.36-9+deb12u9".to_owned(),
            arch: Some("amd64".to_owned()),
            bytes: 77,
            sha256,
            urls: vec![format!("https://deb.debian.org/debian/pool/{name}_2_amd64.deb")],
            license: None,
        };
        ImageLock {
            time: UnixTime(1_783_764_997),
            recipe: sha256.into(),
            platform: Platform::default(),
            debian: Some(Debian {
                suite: "bookworm".to_owned(),
                mirror: "https://deb.debian.org/debian".to_owned(),
                security: "https://deb.debian.org/debian-security".to_owned(),
                snapshot: "20260712T101637Z".to_owned(),
            }),
            oci: Some(Oci { path: OciBase::Path("base".into()), digest: sha256.into() }),
            debs: vec![deb("libc6"), deb("bash")],
            tools: vec![deb("perl-base"), deb("dpkg")],
            wheels: vec![Package {
                name: "torch".to_owned(),
                version: "2.11.0".to_owned(),
                arch: None,
                bytes: 530_604_548,
                sha256,
                urls: vec!["https://files.pythonhosted.org/packages/torch-2.11.0.whl".to_owned()],
                license: Some("BSD-3-Clause".to_owned()),
            }],
            python: Some(LockedPython {
                interpreter: None,
                version: "3.11.2".to_owned(),
                inputs: sha256.into(),
                wheels: vec![Package {
                    name: "mine".to_owned(),
                    version: "1.0".to_owned(),
                    arch: None,
                    bytes: 7,
                    sha256,
                    urls: vec!["./dist/mine-1.0-py3-none-any.whl".to_owned()],
                    license: None,
                }],
            }),
            conda: Some(CondaArchive { path: "env.tar.gz".to_owned(), bytes: 7, sha256 }),
            steps: vec![LockedStep {
                script: sha256.into(),
                inputs: sha256.into(),
                layer: sha256.into(),
                reproducible: true,
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_again_in_one_order() {
        let text = lock().to_text();
        let read = ImageLock::parse(&text, "image.lock").unwrap();
        assert_eq!(read.to_text(), text);
        assert_eq!(
            read.debs.iter().map(|deb| deb.name.as_str()).collect::<Vec<_>>(),
            ["bash", "libc6"]
        );
        let mut sorted = lock();
        sorted.debs.reverse();
        sorted.tools.reverse();
        assert_eq!(read, sorted);
        let files: Vec<_> = read.packages().filter_map(Package::file_name).collect();
        let wheels = ["torch-2.11.0.whl", "mine-1.0-py3-none-any.whl"];
        assert_eq!(files, [&["bash_2_amd64.deb", "libc6_2_amd64.deb"][..], &wheels].concat());
    }

    #[test]
    fn packages_in_another_order_are_the_same_lock() {
        let text = lock().to_text();
        let (head, packages) = text.split_once("[[deb]]").unwrap();
        let (bash, rest) = packages.split_once("[[deb]]").unwrap();
        let (libc, wheels) = rest.split_once("[[wheel]]").unwrap();
        let turned = format!("{head}[[wheel]]{wheels}\n[[deb]]{libc}[[deb]]{}\n", bash.trim_end());
        assert_ne!(turned, text);
        let read = ImageLock::parse(&turned, "image.lock").unwrap();
        assert_eq!(read, ImageLock::parse(&text, "image.lock").unwrap());
        assert_eq!(read.to_text(), text);
    }

    #[test]
    fn what_cannot_be_is_said_with_its_line() {
        let text = lock().to_text();
        for (from, to, line, says) in [
            ("time = ", "tme = ", 4, "unknown field `tme`"),
            ("linux/amd64", "linux/sparc", 6, "platform is `linux/sparc`"),
            ("\"libc6\"", "\"../x\"", 27, "`../x` is not a valid package name"),
            ("\"libc6\"", "\"bash\"", 19, "deb `bash` is listed twice"),
            ("sha256 = \"01", "sha256 = \"g1", 23, "is not a SHA-256"),
            ("digest = \"sha256:", "digest = \"sha512:", 16, "expected `sha256:` and 64"),
            (
                "https://deb.debian.org/debian/pool/bash_2",
                "ftp://x/bash",
                24,
                "is not the URL of a file",
            ),
            ("pool/libc6_2", "pool/bash_2", 27, "`bash_2_amd64.deb` is listed twice"),
            ("bytes = 77", "bytes = -77", 22, "-77"),
            ("arch = \"amd64\"\n", "", 19, "the Debian package `bash` has no `arch`"),
            ("license = ", "arch = ", 51, "wheel `torch` has an `arch`"),
            ("[debian]", "[debian", 8, ""),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            match ImageLock::parse(&changed, "image.lock") {
                Err(Error::Lock { line: found, reason, .. }) => {
                    assert!(reason.contains(says), "{to}: {reason}");
                    assert_eq!(found, line, "{to}: {reason}");
                }
                other => panic!("{to}: {other:?}"),
            }
        }
        let newer = ImageLock::parse(&text.replacen("version = 1", "version = 2", 1), "image.lock");
        let error = newer.unwrap_err();
        assert!(matches!(error, Error::LockVersion { found: 2, supported: 1, .. }));
        let expected = "`image.lock` has format version 2 (line 3); this build reads version 1";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn cut_or_changed_texts_never_panic() {
        let text = lock().to_text();
        for end in (0..text.len()).step_by(7) {
            let _ = ImageLock::parse(&text[..end], "cut");
            let mut bytes = text.clone().into_bytes();
            bytes[end] = b'"';
            let _ = ImageLock::parse(&String::from_utf8(bytes).unwrap(), "changed");
        }
    }
}
