//! Any image index, manifest and configuration give a description of the image or an error.
//!
//! The input is the three documents with an empty line between them. `CONFIG` in the manifest and
//! `MANIFEST` in the index stand for a descriptor of the next one, so that changed documents still
//! match.
#![no_main]

use std::fs;
use std::path::Path;

use gular_containers::oci::OciLayout;
use gular_containers::sif::Arch;
use sha2::{Digest as _, Sha256};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut documents = text.splitn(3, "\n\n");
    let mut next = || documents.next().unwrap_or_default();
    let (index, manifest, config) = (next(), next(), next());
    let dir = tempfile::tempdir().expect("a temporary folder");
    let blobs = dir.path().join("blobs/sha256");
    fs::create_dir_all(&blobs).expect("a folder");
    let config = stored(&blobs, config, "config");
    let manifest = stored(&blobs, &manifest.replace("CONFIG", &config), "manifest");
    let index = index.replace("MANIFEST", &manifest);
    fs::write(dir.path().join("index.json"), index).expect("a file");
    let entrance = r#"{"imageLayoutVersion":"1.0.0"}"#;
    fs::write(dir.path().join("oci-layout"), entrance).expect("a file");
    if let Ok(layout) = OciLayout::open(dir.path()) {
        let _ = layout.image(None, Arch::Amd64);
    }
});

/// Stores a document, and returns its descriptor.
fn stored(blobs: &Path, text: &str, kind: &str) -> String {
    let hash = Sha256::digest(text);
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(blobs.join(&hex), text).expect("a file");
    let media_type = format!("application/vnd.oci.image.{kind}.v1+json");
    format!(r#"{{"mediaType":"{media_type}","digest":"sha256:{hex}","size":{}}}"#, text.len())
}
