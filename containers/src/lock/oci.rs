//! Finds the image for a platform in a layout, an archive or a registry.

use std::path::Path;

use super::document::Oci;
use crate::fetch::Transport;
use crate::oci::OciLayout;
use crate::recipe::OciBase;
use crate::registry;
use crate::sif::Arch;
use crate::{Result, UnixTime};

/// The image of a recipe in `dir`, and when its configuration says that it was made.
pub(super) fn digest(
    dir: &Path,
    base: &OciBase,
    arch: Arch,
    transport: &dyn Transport,
) -> Result<(Oci, Option<UnixTime>)> {
    let (digest, created) = match base {
        OciBase::Path(path) => {
            let image = OciLayout::open(&dir.join(path))?.image(None, arch)?;
            (image.digest, image.created)
        }
        OciBase::Registry(reference) => registry::look_up(reference, arch, transport)?,
    };
    let created = created.as_deref().and_then(UnixTime::parse_rfc3339);
    Ok((Oci { path: base.clone(), digest }, created))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use serde_json::{Value, json};

    use super::*;
    use crate::Error;
    use crate::Sha256;
    use crate::fetch::{Stream, TransportFault};

    /// A transport that is never asked for anything.
    struct Nowhere;

    impl Stream for Nowhere {
        fn stream(
            &self,
            url: &str,
            _bytes: u64,
            _from: u64,
            _sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
        ) -> Result<(), TransportFault> {
            Err(TransportFault::NotFound(url.to_owned()))
        }
    }

    impl Transport for Nowhere {
        fn read(&self, url: &str, _limit: u64) -> Result<Vec<u8>, TransportFault> {
            Err(TransportFault::NotFound(url.to_owned()))
        }
        fn len(&self, url: &str) -> Result<Option<u64>, TransportFault> {
            Err(TransportFault::NotFound(url.to_owned()))
        }
    }

    fn digest_of(dir: &Path, path: &str, arch: Arch) -> Result<(Oci, Option<UnixTime>)> {
        digest(dir, &OciBase::Path(path.into()), arch, &Nowhere)
    }

    /// A layout with two images below an index of its own.
    fn layout(dir: &Path) -> [String; 2] {
        fs::create_dir_all(dir.join("blobs/sha256")).unwrap();
        let put = |media: &str, document: &Value| {
            let text = document.to_string();
            let digest = format!("sha256:{}", Sha256::of(text.as_bytes()));
            fs::write(blob(dir, &digest), &text).unwrap();
            let media = format!("application/vnd.oci.image.{media}.v1+json");
            json!({ "mediaType": media, "digest": digest, "size": text.len() })
        };
        let image = |arch: &str, created: &Value| {
            let config = json!({
                "os": "linux", "architecture": arch, "created": created,
                "rootfs": { "type": "layers", "diff_ids": [] },
            });
            let config = put("config", &config);
            let mut manifest =
                put("manifest", &json!({ "schemaVersion": 2, "config": config, "layers": [] }));
            manifest["platform"] = json!({ "os": "linux", "architecture": arch });
            manifest
        };
        let amd = image("amd64", &json!("2026-07-11T10:16:37Z"));
        let arm = image("arm64", &json!(null));
        let inner = put("index", &json!({ "schemaVersion": 2, "manifests": [amd, arm] }));
        fs::write(
            dir.join("index.json"),
            json!({ "schemaVersion": 2, "manifests": [inner] }).to_string(),
        )
        .unwrap();
        fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        [&amd, &arm].map(|manifest| manifest["digest"].as_str().unwrap().to_owned())
    }

    fn blob(layout: &Path, digest: &str) -> std::path::PathBuf {
        layout.join("blobs/sha256").join(digest.strip_prefix("sha256:").unwrap())
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
            let (found, created) = digest_of(dir.path(), path, Arch::Amd64).unwrap();
            assert_eq!(
                found,
                Oci { path: OciBase::Path(path.into()), digest: amd.parse().unwrap() }
            );
            assert_eq!(created, Some(UnixTime(1_783_764_997)));
            let (found, created) = digest_of(dir.path(), path, Arch::Arm64).unwrap();
            assert_eq!((found.digest.to_string(), created), (arm.clone(), None));
        }
    }

    #[test]
    fn what_is_no_image_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("base");
        let [amd, arm] = layout(&base);
        let error = |name: &str| digest_of(dir.path(), name, Arch::Amd64).unwrap_err();
        let says = |expected: &str| {
            let error = error("base").to_string();
            assert!(error.contains(expected), "{error}\nexpected: {expected}");
        };
        let manifest = |digest: &str| {
            let bytes = fs::metadata(blob(&base, digest)).unwrap().len();
            let media = "application/vnd.oci.image.manifest.v1+json";
            json!({ "mediaType": media, "digest": digest, "size": bytes })
        };
        let [one, other] = [manifest(&amd), manifest(&arm)];
        let mut outside = one.clone();
        outside["digest"] = json!("sha256:../../etc/passwd");
        let index = |manifests: &[&Value]| {
            json!({ "schemaVersion": 2, "manifests": manifests }).to_string()
        };
        // A second image for the same processor, by its own manifest.
        let text = fs::read_to_string(blob(&base, &amd)).unwrap() + " ";
        let second = format!("sha256:{}", Sha256::of(text.as_bytes()));
        fs::write(blob(&base, &second), text).unwrap();
        let second = manifest(&second);
        for (index, expected) in [
            ("{}".to_owned(), "`index.json`: missing field `schemaVersion`"),
            (index(&[]), "has no image for linux/amd64"),
            (index(&[&other]), "only for: linux/arm64"),
            (index(&[&one, &second]), "has 2 images for linux/amd64"),
            (index(&[&outside]), "expected `sha256:` and 64 digits"),
            ("{".to_owned(), "`index.json`: "),
        ] {
            fs::write(base.join("index.json"), index).unwrap();
            says(expected);
        }
        fs::write(base.join("index.json"), index(&[&one])).unwrap();
        let text = fs::read_to_string(blob(&base, &amd)).unwrap();
        fs::write(blob(&base, &amd), text.replace("layers", "loyers")).unwrap();
        says("is damaged");
        fs::write(dir.path().join("x.tar"), vec![0; 1024]).unwrap();
        assert!(matches!(error("x.tar"), Error::Oci { .. }));
        assert!(matches!(error("none"), Error::Io(_)));
    }
}
