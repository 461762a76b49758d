//! Any bytes that look like a package, layer, wheel, SIF or ELF file give a listing or an error.
#![no_main]

use std::fs;
use std::sync::Arc;

use gular_containers::elf::ElfFacts;
use gular_containers::python::unpack_whole;
use gular_containers::rootfs::{FileBytes, Layer, Rootfs};
use gular_containers::sif::Sif;
use gular_containers::store::{Limits, Store, unpack_deb, unpack_tar};
use gular_containers::wheel::unpack_wheel;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let limits = Limits { bytes: 16 << 20, entries: 10_000 };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (store, file) = (Store::new(&dir.path().join("store")), dir.path().join("file"));
    if first % 5 == 0 {
        let _ = ElfFacts::read(&FileBytes::Bytes(Arc::from(rest)));
        return;
    }
    fs::write(&file, rest).expect("a file");
    let listing = match first % 5 {
        1 => store.listing("a", |filling| unpack_deb(filling, &file, &limits)),
        2 => {
            let _ = store.listing("b", |filling| unpack_whole(filling, &file, &limits));
            store.listing("a", |filling| unpack_wheel(filling, &file, &limits))
        }
        3 => {
            store.listing("a", |filling| unpack_tar(filling, &mut &rest[..], "fuzz", true, &limits))
        }
        _ => Sif::open(&file).and_then(|sif| sif.unpack(&store, &limits)),
    };
    if let Ok(listing) = listing {
        let mut tree = Rootfs::default();
        let _ = listing.lay_over(&mut tree, Layer::Base);
    }
});
