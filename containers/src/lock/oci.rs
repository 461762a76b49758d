//! Which image a layout or archive holds for a platform.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::document::Oci;
use crate::digest::{is_sha256, sha256};
use crate::sif::Arch;
use crate::{Error, Result};

/// Largest index, manifest or configuration read.
const MAX_BYTES: u64 = 16 << 20;
/// Indexes may name indexes.
const MAX_DEPTH: usize = 4;

/// The image at `path` (in `dir` when relative), and when its configuration says that
/// it was made, in seconds since 1970.
pub(super) fn digest(dir: &Path, path: &Path, arch: Arch) -> Result<(Oci, Option<u64>)> {
    let place = dir.join(path);
    let layout = Layout { path: &place, is_dir: place.is_dir() };
    let mut index = layout.json("index.json", None)?;
    for _ in 0..MAX_DEPTH {
        let (digest, media_type) = layout.choose(&index, arch)?;
        let document = layout.json(&blob(&digest), Some(&digest))?;
        if !media_type.contains("index") && !media_type.contains("manifest.list") {
            let created = layout.created(&document);
            return Ok((
                Oci { path: path.to_owned(), digest: format!("sha256:{digest}") },
                created,
            ));
        }
        index = document;
    }
    Err(layout.wrong("its indexes name one another".to_owned()))
}

fn blob(digest: &str) -> String {
    format!("blobs/sha256/{digest}")
}

struct Layout<'a> {
    path: &'a Path,
    is_dir: bool,
}

impl Layout<'_> {
    fn wrong(&self, reason: String) -> Error {
        Error::Archive { path: self.path.display().to_string(), reason }
    }

    /// A document of the layout, which gives `digest` when there is one.
    fn json(&self, name: &str, digest: Option<&str>) -> Result<Value> {
        let bytes = if self.is_dir {
            let path = self.path.join(name);
            let file = File::open(&path).map_err(Error::io("open", &path))?;
            self.read(file, name)?
        } else {
            let file = File::open(self.path).map_err(Error::io("open", self.path))?;
            let mut tar = tar::Archive::new(BufReader::with_capacity(256 << 10, file));
            let mut found = None;
            for entry in tar.entries().map_err(|e| self.wrong(e.to_string()))? {
                let entry = entry.map_err(|e| self.wrong(e.to_string()))?;
                let path = entry.path().map(PathBuf::from).unwrap_or_default();
                if path.strip_prefix(".").unwrap_or(&path) == Path::new(name) {
                    found = Some(self.read(entry, name)?);
                    break;
                }
            }
            found.ok_or_else(|| self.wrong(format!("it is no OCI archive: no `{name}`")))?
        };
        if let Some(expected) = digest {
            let found = sha256(&bytes);
            if found != expected {
                let path = format!("{}/{name}", self.path.display());
                return Err(Error::Digest { path, found, expected: expected.to_owned() });
            }
        }
        serde_json::from_slice(&bytes).map_err(|e| self.wrong(format!("`{name}`: {e}")))
    }

    fn read(&self, from: impl Read, name: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = from.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|e| self.wrong(format!("`{name}`: {e}")))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(self.wrong(format!("`{name}` is over {MAX_BYTES} bytes")));
        }
        Ok(bytes)
    }

    /// The one manifest of an index that is for this processor: digest, media type.
    fn choose(&self, index: &Value, arch: Arch) -> Result<(String, String)> {
        let manifests = index.get("manifests").and_then(Value::as_array);
        let manifests =
            manifests.ok_or_else(|| self.wrong("its index names nothing".to_owned()))?;
        let suits = |manifest: &&Value| match manifest.get("platform") {
            None => true,
            Some(platform) => {
                platform.get("os").and_then(Value::as_str) == Some("linux")
                    && platform.get("architecture").and_then(Value::as_str) == Some(arch.name())
            }
        };
        let found: Vec<&Value> = manifests.iter().filter(suits).collect();
        let [manifest] = found.as_slice() else {
            return Err(self.wrong(format!(
                "it has {} images for linux/{}, expected one",
                found.len(),
                arch.name()
            )));
        };
        let text = |field: &str| manifest.get(field).and_then(Value::as_str).unwrap_or_default();
        let digest = text("digest").strip_prefix("sha256:").filter(|digest| is_sha256(digest));
        let digest = digest.ok_or_else(|| {
            self.wrong(format!("`{}` is no SHA-256 of a manifest", text("digest")))
        })?;
        Ok((digest.to_owned(), text("mediaType").to_owned()))
    }

    /// From the configuration of a manifest; nothing depends on its being there.
    fn created(&self, manifest: &Value) -> Option<u64> {
        let digest = manifest.get("config")?.get("digest")?.as_str()?.strip_prefix("sha256:")?;
        if !is_sha256(digest) {
            return None;
        }
        let config = self.json(&blob(digest), Some(digest)).ok()?;
        seconds(config.get("created")?.as_str()?)
    }
}

/// `2026-07-11T10:16:37.5Z` in seconds since 1970; `None` in another zone.
fn seconds(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, by: char| -> Option<[u64; 3]> {
        let numbers: Option<Vec<u64>> = text.split(by).map(|n| n.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time.split('.').next()?, ':')?;
    let sound = (1970..10_000).contains(&year) && (1..=12).contains(&month);
    if !sound || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years begin in March, so that a leap day is the last of one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    // 719,468 days lie between the first of March of the year 0 and 1970.
    Some((days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn times_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T23:59:59Z", Some(951_868_799)),
            ("2026-07-11T10:16:37.123Z", Some(1_783_764_997)),
            ("2026-07-11T10:16:37+02:00", None),
            ("2026-13-11T10:16:37Z", None),
            ("1969-12-31T00:00:00Z", None),
            ("2026-07-11", None),
            ("99999999999999999999-01-01T00:00:00Z", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    /// A layout with two images, one below an index of its own.
    fn layout(dir: &Path) -> [String; 2] {
        fs::create_dir_all(dir.join("blobs/sha256")).unwrap();
        let put = |text: &str| {
            let digest = sha256(text.as_bytes());
            fs::write(dir.join(blob(&digest)), text).unwrap();
            digest
        };
        let config = put(r#"{"created":"2026-07-11T10:16:37Z"}"#);
        let amd = put(&format!(r#"{{"config":{{"digest":"sha256:{config}"}}}}"#));
        let arm = put(r#"{"config":{}}"#);
        let platform = |arch: &str, digest: &str| {
            format!(
                r#"{{"mediaType":"m","digest":"sha256:{digest}","platform":{{"os":"linux","architecture":"{arch}"}}}}"#
            )
        };
        let both =
            format!(r#"{{"manifests":[{},{}]}}"#, platform("amd64", &amd), platform("arm64", &arm));
        let inner = put(&both);
        let index = format!(
            r#"{{"manifests":[{{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:{inner}"}}]}}"#
        );
        fs::write(dir.join("index.json"), index).unwrap();
        [amd, arm]
    }

    #[test]
    fn the_image_of_the_platform_is_found_in_a_folder_and_in_an_archive() {
        let dir = tempfile::tempdir().unwrap();
        let [amd, arm] = layout(&dir.path().join("base"));
        let tar = dir.path().join("base.tar");
        let mut archive = tar::Builder::new(File::create(&tar).unwrap());
        archive.append_dir_all(".", dir.path().join("base")).unwrap();
        archive.finish().unwrap();
        for path in ["base", "base.tar"] {
            let (found, created) = digest(dir.path(), Path::new(path), Arch::Amd64).unwrap();
            assert_eq!(found, Oci { path: path.into(), digest: format!("sha256:{amd}") });
            assert_eq!(created, Some(1_783_764_997));
            let (found, created) = digest(dir.path(), Path::new(path), Arch::Arm64).unwrap();
            assert_eq!((found.digest, created), (format!("sha256:{arm}"), None));
        }
    }

    #[test]
    fn what_is_no_image_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("base");
        let [amd, _] = layout(&base);
        let error = |name: &str| digest(dir.path(), Path::new(name), Arch::Amd64).unwrap_err();
        fs::write(base.join(blob(&amd)), "{}").unwrap();
        assert!(matches!(error("base"), Error::Digest { .. }));
        for (index, says) in [
            ("{}", "names nothing"),
            (r#"{"manifests":[]}"#, "it has 0 images for linux/amd64"),
            (r#"{"manifests":[{},{}]}"#, "it has 2 images"),
            (r#"{"manifests":[{"digest":"sha256:../../etc/passwd"}]}"#, "is no SHA-256"),
            ("{", "`index.json`: "),
        ] {
            fs::write(base.join("index.json"), index).unwrap();
            assert!(error("base").to_string().contains(says), "{index}");
        }
        fs::write(dir.path().join("x.tar"), vec![0; 1024]).unwrap();
        assert!(error("x.tar").to_string().contains("no OCI archive"));
        assert!(matches!(error("none"), Error::Io { .. }));
    }
}
