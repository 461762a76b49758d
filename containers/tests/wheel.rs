//! Wheels: which files are taken from one, and which wheels are refused.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use gular_containers::Error;
use gular_containers::store::{Limits, Listing, Store};
use gular_containers::wheel::unpack_wheel;
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

const LIBRARY: &[u8] = b"a library, a library, a library";

fn wheel(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (number, (name, bytes)) in members.iter().enumerate() {
        let method = [CompressionMethod::Deflated, CompressionMethod::Stored][number % 2];
        // Half of the members have the fields of large files.
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(*name, options.large_file(number % 2 == 0)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn unpack(dir: &Path, bytes: &[u8]) -> Result<Listing, Error> {
    let path = dir.join("x.whl");
    fs::write(&path, bytes).unwrap();
    let limits = Limits { bytes: 10_000, entries: 10 };
    Store::new(&dir.join("store"))
        .listing("digest", |filling| unpack_wheel(filling, &path, &limits))
}

#[test]
fn libraries_and_licences_are_taken_and_python_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = wheel(&[
        ("torch/__init__.py", b"import os"),
        ("torch/lib/libtorch_cpu.so", LIBRARY),
        ("torch/include/torch.h", b"#pragma once"),
        ("nvidia/cu13/lib/libcudart.so.13", LIBRARY),
        ("nvidia/cu13/License.txt", b"terms"),
        ("torch-2.11.0.dist-info/METADATA", b"Name: torch"),
        ("torch-2.11.0.dist-info/licenses/third_party/LICENSE", b"MIT"),
        ("torch/some.so/readme.md", b"no"),
    ]);
    let listing = unpack(dir.path(), &bytes).unwrap();
    let paths: Vec<_> = listing.entries.iter().map(|entry| entry.path.as_str()).collect();
    let expected = [
        "torch/lib/libtorch_cpu.so",
        "nvidia/cu13/lib/libcudart.so.13",
        "nvidia/cu13/License.txt",
        "torch-2.11.0.dist-info/METADATA",
        "torch-2.11.0.dist-info/licenses/third_party/LICENSE",
    ];
    assert_eq!(paths, expected);
    assert_eq!(fs::read(dir.path().join("store/digest/0")).unwrap(), LIBRARY);
}

/// All positions of a text in bytes.
fn all(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    (0..bytes.len()).filter(|at| bytes[*at..].starts_with(text)).collect()
}

#[test]
fn what_no_wheel_should_hold_is_refused_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let good = wheel(&[("a/libx.so", LIBRARY), ("b/libx.so", LIBRARY)]);
    let renamed = |from: &[u8], to: &[u8], places: &[usize]| {
        let mut bytes = good.clone();
        let found = all(&good, from);
        for place in places {
            bytes[found[*place]..found[*place] + to.len()].copy_from_slice(to);
        }
        bytes
    };
    // The flag is in the header before the file, and in the directory.
    let mut encrypted = good.clone();
    encrypted[all(&good, b"PK\x03\x04")[0] + 6] |= 1;
    encrypted[all(&good, b"PK\x01\x02")[0] + 8] |= 1;
    let mut damaged = good.clone();
    let at = all(&good, LIBRARY)[0];
    damaged[at] ^= 1;
    let link = {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.add_symlink("a/liby.so", "/etc/passwd", SimpleFileOptions::default()).unwrap();
        zip.finish().unwrap().into_inner()
    };
    let many: Vec<String> = (0..11).map(|number| format!("lib{number}.so")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), LIBRARY)).collect();
    let cases: &[(&str, Vec<u8>)] = &[
        ("is encrypted", encrypted),
        ("is a link", link),
        ("leads outside", wheel(&[("../../libx.so", LIBRARY)])),
        ("bytes, more than the limit of 10000", wheel(&[("libx.so", &[0; 10_001])])),
        ("files and folders, more than the limit of 10", wheel(&many)),
        ("x.whl", renamed(b"b/libx.so", b"a/libx.so", &[0, 1])),
        ("x.whl", renamed(b"b/libx.so", b"a/libx.so", &[1])),
        ("libx.so", damaged),
        ("not a complete wheel", good[..good.len() - 30].to_vec()),
        ("not a complete wheel", b"#!/bin/sh".to_vec()),
        ("not a complete wheel", Vec::new()),
    ];
    for (says, bytes) in cases {
        let error = unpack(dir.path(), bytes).unwrap_err().to_string();
        assert!(error.contains(says), "expected {says}: {error}");
        assert_eq!(fs::read_dir(dir.path().join("store")).unwrap().count(), 0, "{says}");
    }
}

#[test]
fn cut_and_changed_wheels_never_panic_nor_give_other_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let good = wheel(&[("a/libx.so", LIBRARY), ("x-1.dist-info/METADATA", b"Name: x")]);
    for at in 0..good.len() {
        let mut changed = good.clone();
        changed[at] ^= 0x10;
        for bytes in [&good[..at], &changed] {
            let _ = fs::remove_dir_all(dir.path().join("store"));
            if let Ok(listing) = unpack(dir.path(), bytes)
                && listing.entries.iter().any(|entry| entry.path == "a/libx.so")
            {
                let place = dir.path().join("store/digest/0");
                assert_eq!(fs::read(place).unwrap(), LIBRARY, "byte {at}");
            }
        }
    }
}
