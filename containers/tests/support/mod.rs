//! Documents in memory that stand in for the network, and archives for the tests to read.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;

use gular_containers::Sha256;
use gular_containers::fetch::{Stream, Transport, TransportFault};
use gular_containers::oci::OciLayout;
use gular_containers::registry::push_image;
use gular_containers::sif::Arch;
use gular_files::{Env, Watch};
use gular_registry::{Client, ClientOptions, Pushed, Pushing, Reference, Registry};
use tar::{EntryType, Header};

/// Documents by URL, and what was asked of them.
#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) documents: BTreeMap<String, Vec<u8>>,
    /// Streams of this URL end with an error after so many bytes.
    pub(crate) cut: Mutex<BTreeMap<String, usize>>,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Shelf {
    pub(crate) fn put(&mut self, url: &str, bytes: impl Into<Vec<u8>>) {
        self.documents.insert(url.to_owned(), bytes.into());
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn get(&self, what: &str, url: &str) -> Result<&[u8], TransportFault> {
        self.asked.lock().unwrap().push(format!("{what} {url}"));
        let bytes = self.documents.get(url).map(Vec::as_slice);
        bytes.ok_or_else(|| TransportFault::NotFound(format!("`{url}` is not there (404)")))
    }
}

impl Stream for Shelf {
    fn stream(
        &self,
        url: &str,
        _bytes: u64,
        from: u64,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), TransportFault> {
        let bytes = self.get(&format!("stream {from}"), url)?;
        assert_eq!(from % (1 << 20), 0, "transports take multiples of 1 MiB");
        let cut = self.cut.lock().unwrap().remove(url);
        let end = cut.unwrap_or(bytes.len());
        for block in bytes[from as usize..end].chunks(1 << 20) {
            sink(block).map_err(TransportFault::Sink)?;
        }
        match cut {
            None => Ok(()),
            Some(_) => {
                let message = format!("cannot read `{url}`: the connection broke");
                Err(TransportFault::Failed {
                    message,
                    hint: Some("try again".to_owned()),
                    passes: true,
                })
            }
        }
    }
}

impl Transport for Shelf {
    fn read(&self, url: &str, limit: u64) -> Result<Vec<u8>, TransportFault> {
        let bytes = self.get("read", url)?;
        if bytes.len() as u64 > limit {
            let message = format!("`{url}` is over {limit} bytes");
            return Err(TransportFault::lasting(message, None));
        }
        Ok(bytes.to_owned())
    }

    fn len(&self, url: &str) -> Result<Option<u64>, TransportFault> {
        Ok(Some(self.get("len", url)?.len() as u64))
    }
}

/// A network that has registries, and nothing else.
pub(crate) struct OnlyRegistries(Client);

impl OnlyRegistries {
    pub(crate) fn new() -> Self {
        Self(Client::new(ClientOptions::new(Env::from_pairs(&[]))).unwrap())
    }

    /// Pushes the image of this layout.
    pub(crate) fn push(&self, to: &str, image: &Path, uploads: &Path) -> Pushed {
        let layout = OciLayout::open(image).unwrap();
        let image = layout.image(None, Arch::Amd64).unwrap();
        let with = Pushing {
            registry: &self.registry(&Reference::parse(to).unwrap()).unwrap(),
            mount_from: None,
            uploads: uploads.to_owned(),
            jobs: NonZeroUsize::MIN,
            watch: Watch::never(),
        };
        push_image(&layout, &image, &with).unwrap()
    }
}

impl Stream for OnlyRegistries {
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

impl Transport for OnlyRegistries {
    fn read(&self, url: &str, _limit: u64) -> Result<Vec<u8>, TransportFault> {
        Err(TransportFault::NotFound(url.to_owned()))
    }

    fn len(&self, url: &str) -> Result<Option<u64>, TransportFault> {
        Err(TransportFault::NotFound(url.to_owned()))
    }

    fn registry(&self, reference: &Reference) -> gular_registry::Result<Registry<'_>> {
        Registry::open(reference, &self.0, Watch::never())
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> Sha256 {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(bytes);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.parse().unwrap()
}

/// One member of a tar: type, path, link target, bytes.
pub(crate) type Member<'a> = (EntryType, &'a str, &'a str, &'a [u8]);

/// A tar of these members; names are written as they are, `..` and all.
pub(crate) fn tar(members: &[Member<'_>]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (kind, path, link, bytes) in members {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        header.set_size(bytes.len() as u64);
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        tar.append(&header, *bytes).unwrap();
    }
    tar.into_inner().unwrap()
}
