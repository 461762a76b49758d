//! An image on the disk, whichever tool wrote it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::assemble::{BIN, LIB};
use crate::check::{About, CheckReport, Form, check};
use crate::hash_file::blake3_of;
use crate::oci::{Compressor, LayerBlob, LayersAs, OciLayout};
use crate::recipe::{Recipe, TargetSection};
use crate::rootfs::{Layer, RootPath, Rootfs, What};
use crate::sif::{Arch, ObjectKind, Sif, Squash};
use crate::store::{Limits, Store};
use crate::{Error, ImageDigest, OciDigest, Result, UnixTime};

/// Longest script, list of labels or of contents that is read.
const MAX_TEXT: u64 = 16 << 20;

/// An image: its files, and what it says of itself.
#[derive(Debug)]
#[non_exhaustive]
pub struct StoredImage {
    /// The path of the file or folder.
    pub path: PathBuf,
    /// The format of the file.
    pub form: Form,
    /// Processor of its programs.
    pub arch: Arch,
    /// Bytes of the image on the disk.
    pub bytes: u64,
    /// The digest that identifies the image.
    pub digest: Option<ImageDigest>,
    /// Time at which the image was made.
    pub created: Option<UnixTime>,
    /// All files of the image.
    pub tree: Rootfs,
    /// The program that the image starts by default.
    pub program: Option<RootPath>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The recipe or definition file it was made from; may be empty.
    pub recipe: String,
    /// The list of contents, SPDX as JSON, if the image has one.
    pub sbom: Option<String>,
    /// The SIF's objects, or the OCI image's layers.
    pub parts: Vec<ImagePart>,
}

/// An object of a SIF, or a layer of an OCI image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImagePart {
    /// Name of the part.
    pub name: String,
    /// Kind of the part: `deffile`, `json`, `sbom`, `partition`, `layer`, or a number.
    pub kind: String,
    /// Bytes of the part.
    pub bytes: u64,
    /// Digest of the part, for a layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<OciDigest>,
}

impl StoredImage {
    /// Opens a `.sif`, the folder of an OCI layout, or an OCI archive; its files go
    /// through `store`.
    ///
    /// # Errors
    /// [`Error::Sif`], [`Error::Archive`] and others for a damaged one.
    pub fn open(path: &Path, store: &Store, limits: &Limits) -> Result<Self> {
        if Sif::is_meant(path)? { sif(path, store, limits) } else { layout(path, store, limits) }
    }

    /// Checks whether the image would run on `target`.
    ///
    /// # Errors
    /// Those of [`check`].
    pub fn check(&self, target: &TargetSection, host_paths: &[String]) -> Result<CheckReport> {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let about = About {
            arch: self.arch,
            form: self.form,
            file_name: name.as_deref(),
            file_bytes: Some(self.bytes),
            program: self.program.as_ref(),
            env: &self.env,
            labels: &self.labels,
            recipe: &self.recipe,
            scratch: self.parsed().is_some_and(|recipe| recipe.base.scratch),
            host_paths,
            cuda: self.cuda(),
        };
        check(&self.tree, &about, target)
    }

    /// Returns the target in the image's own recipe; the default if the image contains no recipe of
    /// Gular.
    pub fn target(&self) -> TargetSection {
        self.parsed().map(|recipe| recipe.target).unwrap_or_default()
    }

    /// The recipe, unless it is a definition file or the like.
    fn parsed(&self) -> Option<Recipe> {
        Recipe::parse(&self.recipe, "the image's recipe").ok()
    }

    /// CUDA's version in one of our labels.
    fn cuda(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.labels.get("org.gular.cuda.runtime")?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}

fn sif(path: &Path, store: &Store, limits: &Limits) -> Result<StoredImage> {
    let sif = Sif::open(path)?;
    let mut tree = sif.rootfs(store, limits)?;
    tree.set_layers(layer);
    let squash = match sif.compressor()?.as_str() {
        "gzip" => Some(Squash::Gzip),
        "zstd" => Some(Squash::Zstd),
        _ => None,
    };
    let text = |kind: ObjectKind| -> Result<Option<String>> {
        let object = sif.descriptors.iter().find(|object| object.kind == kind);
        let bytes = object.map(|object| sif.bytes(object)).transpose()?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let parts = sif.descriptors.iter().map(|object| ImagePart {
        name: object.name.clone(),
        kind: match object.kind {
            ObjectKind::Deffile => "deffile".to_owned(),
            ObjectKind::RootPartition(_) => "partition".to_owned(),
            ObjectKind::Json => "json".to_owned(),
            ObjectKind::SpdxJson => "sbom".to_owned(),
            ObjectKind::Other(number) => format!("{number:#06x}"),
        },
        bytes: object.bytes,
        digest: None,
    });
    Ok(StoredImage {
        digest: Some(ImageDigest::Sif(blake3_of(path)?)),
        form: Form::Sif(squash),
        arch: sif.arch.unwrap_or(Arch::Amd64),
        bytes: std::fs::metadata(path).map_err(Error::io("read", path))?.len(),
        created: Some(sif.created),
        program: runscript(&tree)?,
        env: environment(&tree)?,
        labels: labels(&tree)?,
        recipe: text(ObjectKind::Deffile)?.unwrap_or_default(),
        sbom: text(ObjectKind::SpdxJson)?,
        parts: parts.collect(),
        path: path.to_owned(),
        tree,
    })
}

/// A SIF says of no file where it came from, but builds of ours put theirs at places
/// of their own.
fn layer(path: &RootPath) -> Layer {
    let within = |folder: &str| {
        let rest = path.as_str().strip_prefix(folder);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match () {
        () if within(BIN) || within(".singularity.d") => Layer::App,
        () if within(LIB) => Layer::Libtorch,
        () if path.as_str().starts_with("usr/local/lib/python3.") => Layer::Python,
        () => Layer::Base,
    }
}

fn layout(path: &Path, store: &Store, limits: &Limits) -> Result<StoredImage> {
    let layout = OciLayout::open(path)?;
    // The image may be for any of the known architectures.
    let image = [Arch::Amd64, Arch::Arm64].map(|arch| layout.image(None, arch));
    let image = match image {
        [Ok(image), _] | [Err(_), Ok(image)] => image,
        [Err(error), Err(_)] => return Err(error),
    };
    let tree = layout.rootfs(&image, store, limits, LayersAs::AsWritten)?;
    let form = Form::Oci(compressor(image.layers.iter().map(LayerBlob::compression)));
    let command = image.entrypoint.iter().chain(&image.cmd).next();
    let parts = image.layers.iter().map(|layer| ImagePart {
        name: layer.part.map_or("layer", Layer::name).to_owned(),
        kind: "layer".to_owned(),
        bytes: layer.bytes,
        digest: Some(layer.sha256.into()),
    });
    Ok(StoredImage {
        form,
        arch: image.arch,
        bytes: image.layers.iter().map(|layer| layer.bytes).sum(),
        digest: Some(ImageDigest::Oci(image.digest)),
        created: None,
        program: command.filter(|c| c.starts_with('/')).and_then(|c| RootPath::inside(c)),
        recipe: read(&tree, ".singularity.d/Singularity")?.unwrap_or_default(),
        sbom: sbom(&tree)?,
        parts: parts.collect(),
        env: image.env,
        labels: image.labels,
        path: path.to_owned(),
        tree,
    })
}

/// The compressor that a runtime must support for all layers: a single layer in zstd needs a new
/// runtime.
fn compressor<'a>(mut layers: impl Iterator<Item = &'a str>) -> Option<Compressor> {
    layers
        .try_fold(None, |found, layer| match layer {
            "zstd" => Err(Compressor::Zstd),
            "gzip" => Ok(Some(Compressor::Gzip)),
            _ => Ok(found),
        })
        .unwrap_or_else(Some)
}

/// Reads the list of contents in the image.
fn sbom(tree: &Rootfs) -> Result<Option<String>> {
    let dir = RootPath::new("usr/share/sbom")?;
    let found = tree.children(&dir).find(|(path, _)| path.name().ends_with(".spdx.json"));
    found.map_or(Ok(None), |(path, _)| read(tree, path.as_str()))
}

/// Reads a small file of the image as text.
fn read(tree: &Rootfs, path: &str) -> Result<Option<String>> {
    tree.text(&RootPath::new(path)?, MAX_TEXT)
}

/// Finds the program that a SIF starts: the target of its run script, or what that executes.
fn runscript(tree: &Rootfs) -> Result<Option<RootPath>> {
    const PATH: &str = ".singularity.d/runscript";
    if let Some(node) = tree.get(&RootPath::new(PATH)?)
        && let What::Symlink(target) = &node.what
    {
        return Ok(match target.starts_with('/') {
            true => RootPath::inside(target),
            false => RootPath::inside(&format!(".singularity.d/{target}")),
        });
    }
    let text = read(tree, PATH)?.unwrap_or_default();
    let word = text.lines().find_map(|line| {
        let word = line.trim().strip_prefix("exec ")?.split_whitespace().next()?;
        let word = word.trim_matches(['\'', '"']);
        word.starts_with('/').then_some(word)
    });
    Ok(word.and_then(RootPath::inside))
}

fn labels(tree: &Rootfs) -> Result<BTreeMap<String, String>> {
    let text = read(tree, ".singularity.d/labels.json")?.unwrap_or_default();
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Variables that the scripts of a SIF set, as far as they are plain assignments.
fn environment(tree: &Rootfs) -> Result<BTreeMap<String, String>> {
    let mut env = BTreeMap::new();
    for script in ["10-docker2singularity.sh", "90-environment.sh"] {
        let text = read(tree, &format!(".singularity.d/env/{script}"))?.unwrap_or_default();
        env.extend(text.lines().filter_map(assignment));
    }
    Ok(env)
}

/// `export NAME="value"`, or `NAME="${NAME:-"value"}"` as runtimes write it.
fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(good) {
        return None;
    }
    let value = value.trim();
    // A line within a longer word, such as a pattern of `case`, sets nothing.
    let is_open = |c: char| value.starts_with(c) && (value.len() == 1 || !value.ends_with(c));
    if is_open('"') || is_open('\'') || value.matches('{').count() != value.matches('}').count() {
        return None;
    }
    let value = unquoted(value);
    let default = value.strip_prefix(&format!("${{{name}:-")).and_then(|v| v.strip_suffix('}'));
    let value = default.map_or_else(|| value.clone(), unquoted);
    Some((name.to_owned(), value))
}

/// A word of the shell without the quotes around it.
fn unquoted(word: &str) -> String {
    let between = |quote| word.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    match (between('\''), between('"')) {
        (Some(inner), _) => inner.replace(r#"'"'"'"#, "'").replace(r"'\''", "'"),
        (None, Some(inner)) => inner.to_owned(),
        (None, None) => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rootfs::FileBytes;

    #[test]
    fn assignments_are_told_from_patterns() {
        let pair = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
        for (line, expected) in [
            ("export A=\"${A:-\"x y\"}\"", pair("A", "x y")),
            ("A='it'", pair("A", "it")),
            ("PYTHONPATH=}", None),
            ("PYTHONPATH=\"*)", None),
            ("*[!A]B=*)", None),
        ] {
            assert_eq!(assignment(line), expected, "{line}");
        }
    }

    #[test]
    fn one_layer_of_zstd_needs_what_zstd_needs() {
        for (layers, expected) in [
            (&["gzip", "zstd", "gzip"][..], Some(Compressor::Zstd)),
            (&["zstd"], Some(Compressor::Zstd)),
            (&["tar", "gzip", "tar"], Some(Compressor::Gzip)),
            (&["tar"], None),
            (&[], None),
        ] {
            assert_eq!(compressor(layers.iter().copied()), expected, "{layers:?}");
        }
    }

    #[test]
    fn odd_programs_of_run_scripts_are_no_error() {
        let script = |what: What| {
            let mut tree = Rootfs::default();
            let at = RootPath::new(".singularity.d/runscript").unwrap();
            tree.add(Layer::Base, &at, 0o755, what).unwrap();
            runscript(&tree).unwrap().map(|path| path.to_string())
        };
        let text = |text: &str| script(What::File(FileBytes::Bytes(text.as_bytes().into())));
        let link = |target: &str| script(What::Symlink(target.to_owned()));
        for (found, expected) in [
            (text("#!/bin/sh\nexec /bin/../bin/bash \"$@\"\n"), Some("/bin/bash")),
            (text("exec bash\n"), None),
            (text(&format!("exec /{}\n", "x".repeat(256))), None),
            (link("../app/bin/tool"), Some("/app/bin/tool")),
            (link("tool"), Some("/.singularity.d/tool")),
            (link("/app/./tool"), Some("/app/tool")),
        ] {
            assert_eq!(found.as_deref(), expected);
        }
    }

    #[test]
    fn assignments_are_read_as_runtimes_write_them() {
        for (line, expected) in [
            ("export PATH=/app/bin:/bin", Some(("PATH", "/app/bin:/bin"))),
            ("    A='b c'", Some(("A", "b c"))),
            (r#"export A="${A:-"b"}""#, Some(("A", "b"))),
            (r#"A='a $B "q"'"#, Some(("A", r#"a $B "q""#))),
            (r"A='it'\''s'", Some(("A", "it's"))),
            (r#"A='it'"'"'s'"#, Some(("A", "it's"))),
            ("if [ -z \"${A+set}\" ]; then", None),
            ("export A", None),
        ] {
            let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(assignment(line), expected, "{line}");
        }
    }
}
