//! Archives in the store: what they contain, and which are refused.

use std::fs;
use std::io::Write;
use std::path::Path;

use gular_containers::Error;
use gular_containers::rootfs::{FileBytes, Layer, Rootfs, What};
use gular_containers::store::{Limits, Listing, Store, unpack_deb, unpack_tar};
use tar::EntryType;

use crate::support::tar;

fn unpack(store: &Path, digest: &str, tar: &[u8], whiteouts: bool) -> Result<Listing, Error> {
    let limits = Limits { bytes: 10_000, entries: 20 };
    Store::new(store)
        .listing(digest, |filling| unpack_tar(filling, &mut &*tar, "a.tar", whiteouts, &limits))
}

fn shown(tree: &Rootfs) -> Vec<String> {
    let show = |what: &What| match what {
        What::Dir => "dir".to_owned(),
        What::File(FileBytes::File { path, .. }) => fs::read_to_string(path).unwrap(),
        What::File(FileBytes::Bytes(_)) => "here".to_owned(),
        What::Symlink(target) => format!("-> {target}"),
        What::Hardlink(first) => format!("= {first}"),
    };
    tree.iter().skip(1).map(|(path, node)| format!("{path} {}", show(&node.what))).collect()
}

#[test]
fn an_archive_is_unpacked_once_and_laid_over_a_tree() {
    let dir = tempfile::tempdir().unwrap();
    let archive = tar(&[
        (EntryType::Directory, "./", "", b""),
        (EntryType::Directory, "./usr/lib/", "", b""),
        (EntryType::Symlink, "./lib", "usr/lib", b""),
        (EntryType::Regular, "./lib/a", "", b"one"),
        (EntryType::Link, "./b", "./lib/a", b""),
    ]);
    let listing = unpack(dir.path(), "d1", &archive, false).unwrap();
    let mut tree = Rootfs::default();
    listing.add_to(&mut tree, Layer::Base).unwrap();
    let expected =
        ["/b = /usr/lib/a", "/lib -> usr/lib", "/usr dir", "/usr/lib dir", "/usr/lib/a one"];
    assert_eq!(shown(&tree), expected);

    let again = Store::new(dir.path()).listing("d1", |_| unreachable!("it is there")).unwrap();
    assert_eq!(again, listing);
}

#[test]
fn layers_hide_what_lies_below() {
    let dir = tempfile::tempdir().unwrap();
    let below = tar(&[
        (EntryType::Regular, "etc/a", "", b"1"),
        (EntryType::Regular, "etc/b", "", b"2"),
        (EntryType::Regular, "opt/x/y", "", b"3"),
    ]);
    let above = tar(&[
        (EntryType::Regular, "etc/.wh.a", "", b""),
        (EntryType::Regular, "opt/.wh..wh..opq", "", b""),
        (EntryType::Regular, "opt/z", "", b"4"),
    ]);
    let mut tree = Rootfs::default();
    for (digest, tar) in [("below", below), ("above", above)] {
        let listing = unpack(dir.path(), digest, &tar, true).unwrap();
        listing.add_to(&mut tree, Layer::Base).unwrap();
    }
    assert_eq!(shown(&tree), ["/etc dir", "/etc/b 2", "/opt dir", "/opt/z 4"]);
}

#[test]
fn what_no_image_should_hold_is_refused_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let cases: &[(&str, Vec<u8>)] = &[
        ("leads outside", tar(&[(EntryType::Regular, "a/../../x", "", b"x")])),
        ("leads outside", tar(&[(EntryType::Link, "x", "../../etc/passwd", b"")])),
        ("a device or a pipe", tar(&[(EntryType::Block, "sda", "", b"")])),
        ("a device or a pipe", tar(&[(EntryType::Fifo, "pipe", "", b"")])),
        (
            "`a.tar` has at least 10001 bytes, more than the limit of 10000",
            tar(&[(EntryType::Regular, "x", "", &[1; 10_001])]),
        ),
        (
            "`a.tar` has at least 21 files and folders, more than the limit of 20",
            tar(&[(EntryType::Directory, "d", "", &b""[..]); 21]),
        ),
        ("has no target", tar(&[(EntryType::Symlink, "x", "", b"")])),
        ("a.tar", tar(&[(EntryType::Regular, "x", "", &[1; 5000])])[..2000].to_vec()),
        ("a.tar", vec![7; 4096]),
    ];
    for (says, archive) in cases {
        let error = unpack(dir.path(), "bad", archive, false).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

    // A link that leads outside is only text until somebody writes through it.
    let through = tar(&[
        (EntryType::Symlink, "out", "../../../../tmp", b""),
        (EntryType::Regular, "out/x", "", b"inside"),
    ]);
    let mut tree = Rootfs::default();
    unpack(dir.path(), "through", &through, false).unwrap().add_to(&mut tree, Layer::Base).unwrap();
    assert_eq!(shown(&tree), ["/out -> ../../../../tmp", "/tmp dir", "/tmp/x inside"]);
}

fn deb(data: &str, tar: &[u8]) -> Vec<u8> {
    let mut deb = b"!<arch>\n".to_vec();
    for (name, bytes) in [("debian-binary", &b"2.0\n"[..]), ("control.tar.xz", b"odd"), (data, tar)]
    {
        writeln!(deb, "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, 0, 100_644, bytes.len())
            .unwrap();
        deb.extend_from_slice(bytes);
        deb.resize(deb.len().next_multiple_of(2), b'\n');
    }
    deb
}

#[test]
fn debian_packages_of_every_compression_are_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let plain = tar(&[(EntryType::Regular, "./usr/bin/x", "", b"program")]);
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&plain).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&plain).unwrap();
    let zst = zstd::encode_all(&plain[..], 1).unwrap();
    let open = |name: &str, bytes: &[u8]| {
        let path = dir.path().join("x.deb");
        fs::write(&path, bytes).unwrap();
        Store::new(&dir.path().join("store"))
            .listing(name, |filling| unpack_deb(filling, &path, &Limits::default()))
    };
    for (name, bytes) in [
        ("data.tar", plain.clone()),
        ("data.tar.xz", xz.finish().unwrap()),
        ("data.tar.gz", gz.finish().unwrap()),
        ("data.tar.zst/", zst),
    ] {
        let mut tree = Rootfs::default();
        open(name.trim_end_matches('/'), &deb(name, &bytes))
            .unwrap()
            .add_to(&mut tree, Layer::Base)
            .unwrap();
        assert_eq!(shown(&tree), ["/usr dir", "/usr/bin dir", "/usr/bin/x program"], "{name}");
    }
    let whole = deb("data.tar", &plain);
    for (says, bytes) in [
        ("compressed as `.lz`", deb("data.tar.lz", &plain)),
        ("not a Debian package", b"#!/bin/sh".to_vec()),
        ("its `data.tar` is missing or cut short", whole[..100].to_vec()),
        ("x.deb", whole[..whole.len() - 1500].to_vec()),
        ("x.deb", deb("data.tar.xz", b"not xz")),
    ] {
        let error = open("bad", &bytes).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
