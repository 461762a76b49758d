//! Any layers of an image are laid over each other or refused.
//!
//! The first byte chooses: if it is even, two layers follow (the length of the first, u16, then
//! both), and their documents are made to match; if it is odd, an archive as Docker writes it.
#![no_main]

use std::fs;
use std::path::Path;

use gular_containers::oci::{LayersAs, OciLayout};
use gular_containers::sif::Arch;
use gular_containers::store::{Limits, Store};
use sha2::{Digest as _, Sha256};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("image");
    match choice % 2 {
        0 => {
            let Some((len, rest)) = rest.split_first_chunk::<2>() else { return };
            let at = usize::from(u16::from_le_bytes(*len)).min(rest.len());
            let (below, above) = rest.split_at(at);
            layout(&path, &[below, above]);
        }
        _ => fs::write(&path, rest).expect("a file"),
    }
    let limits = Limits { bytes: 16 << 20, entries: 10_000 };
    let Ok(layout) = OciLayout::open(&path) else { return };
    let Ok(image) = layout.image(None, Arch::Amd64) else { return };
    let _ = layout.laid(&image, &Store::new(&dir.path().join("store")), &limits, LayersAs::Base);
});

fn layout(dir: &Path, layers: &[&[u8]]) {
    let blobs = dir.join("blobs/sha256");
    fs::create_dir_all(&blobs).expect("a folder");
    let ids: Vec<String> =
        layers.iter().map(|layer| format!("\"sha256:{}\"", digest(layer))).collect();
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
        ids.join(",")
    );
    let config = stored(&blobs, config.as_bytes(), "config.v1+json");
    let layers: Vec<String> =
        layers.iter().map(|layer| stored(&blobs, layer, "layer.v1.tar")).collect();
    let manifest =
        format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{}]}}"#, layers.join(","));
    let manifest = stored(&blobs, manifest.as_bytes(), "manifest.v1+json");
    let index = format!(r#"{{"schemaVersion":2,"manifests":[{manifest}]}}"#);
    fs::write(dir.join("index.json"), index).expect("a file");
    fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).expect("a file");
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Stores a blob, and returns its descriptor.
fn stored(blobs: &Path, bytes: &[u8], kind: &str) -> String {
    let hex = digest(bytes);
    fs::write(blobs.join(&hex), bytes).expect("a file");
    let media_type = format!("application/vnd.oci.image.{kind}");
    format!(r#"{{"mediaType":"{media_type}","digest":"sha256:{hex}","size":{}}}"#, bytes.len())
}
