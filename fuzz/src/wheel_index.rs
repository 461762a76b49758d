//! A package index in a text, for the target `wheel` and the program that makes its seeds.

use std::io;

use gular_containers::fetch::{Stream, Transport, TransportFault};
use gular_containers::sif::Arch;
use gular_containers::wheel::torch;
use gular_containers::{Package, Result};

/// Chooses the wheels of `version` by the index in `text`: the page of every project and the
/// `METADATA` of every wheel, with the first empty line between them. `PROJECT` in the page stands
/// for the project's name, `DIGEST` for a SHA-256.
pub(crate) fn wheels_of(text: &str, version: &str, arch: Arch) -> Result<Vec<Package>> {
    let (page, metadata) = text.split_once("\n\n").unwrap_or((text, ""));
    let page = page.replace("DIGEST", &"ab".repeat(32));
    let index = Index { page, metadata: metadata.as_bytes().to_vec() };
    torch(version, arch, "https://index.example/whl", &index, &|_| {})
}

struct Index {
    page: String,
    metadata: Vec<u8>,
}

impl Stream for Index {
    fn stream(
        &self,
        url: &str,
        _bytes: u64,
        _from: u64,
        _sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), TransportFault> {
        Err(TransportFault::NotFound(url.to_owned()))
    }
}

impl Transport for Index {
    fn read(&self, url: &str, limit: u64) -> Result<Vec<u8>, TransportFault> {
        let bytes = match url.ends_with(".metadata") {
            true => self.metadata.clone(),
            // Each project has wheels with its own name.
            false => {
                let project = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                self.page.replace("PROJECT", &project.replace('-', "_")).into_bytes()
            }
        };
        match bytes.len() as u64 <= limit {
            true => Ok(bytes),
            false => Err(TransportFault::NotFound(url.to_owned())),
        }
    }

    fn len(&self, _url: &str) -> Result<Option<u64>, TransportFault> {
        Ok(Some(7))
    }
}
