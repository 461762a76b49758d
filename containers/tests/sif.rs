//! SIF files: written, read back, damaged.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use gular_containers::Error;
use gular_containers::sif::{Arch, Kind, Settings, Sif, Writer};

const ROOT: [u8; 5000] = [7; 5000];

fn write(path: &Path, head: &[u8]) {
    let settings = Settings { arch: Arch::Amd64, time: 1_700_000_000 };
    let mut writer = Writer::new(File::create(path).unwrap(), settings).unwrap();
    writer.add(Kind::Deffile, "deffile", b"bootstrap: scratch\n").unwrap();
    writer.add(Kind::Json, "oci-config.json", b"{}").unwrap();
    writer.start(Kind::RootPartition(Arch::Amd64), "root").unwrap();
    writer.write_all(&ROOT).unwrap();
    writer.end(head);
    writer.finish().unwrap();
}

#[test]
fn objects_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sif");
    write(&path, b"head");
    let sif = Sif::open(&path).unwrap();
    assert_eq!((sif.arch, sif.created), (Some(Arch::Amd64), 1_700_000_000));
    let [deffile, json, root] = &sif.descriptors[..] else { panic!("{:?}", sif.descriptors) };
    assert_eq!((deffile.kind, deffile.name.as_str()), (Kind::Deffile, "deffile"));
    assert_eq!(sif.bytes(deffile).unwrap(), b"bootstrap: scratch\n");
    assert_eq!(sif.bytes(json).unwrap(), b"{}");
    assert_eq!(sif.root().unwrap(), root);
    assert_eq!(root.offset % 4096, 0);
    let bytes = sif.bytes(root).unwrap();
    assert_eq!((&bytes[..4], &bytes[4..]), (&b"head"[..], &ROOT[4..]));
    assert_eq!(fs::metadata(&path).unwrap().len(), root.offset + root.bytes);
}

#[test]
fn the_same_objects_give_the_same_file_and_others_another_uuid() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, c] = ["a.sif", "b.sif", "c.sif"].map(|name| dir.path().join(name));
    write(&a, b"head");
    write(&b, b"head");
    write(&c, b"tail");
    assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
    assert_ne!(Sif::open(&a).unwrap().uuid, Sif::open(&c).unwrap().uuid);
}

#[test]
fn too_much_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { arch: Arch::Arm64, time: 0 };
    let mut writer =
        Writer::new(File::create(dir.path().join("a.sif")).unwrap(), settings).unwrap();
    assert!(writer.add(Kind::Json, &"n".repeat(128), b"").is_err());
    for _ in 0..48 {
        writer.add(Kind::Json, "n", b"x").unwrap();
    }
    assert!(writer.add(Kind::Json, "n", b"x").is_err());
}

#[test]
fn damage_is_said_and_never_panics() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sif");
    write(&path, b"head");
    let whole = fs::read(&path).unwrap();
    let open = |bytes: &[u8]| -> Result<Sif, Error> {
        fs::write(&path, bytes).unwrap();
        Sif::open(&path)
    };
    for cut in [0, 127, 128, 4096, 32_175, whole.len() - 1] {
        let error = open(&whole[..cut]).unwrap_err();
        assert!(matches!(error, Error::Sif { .. }), "cut to {cut}: {error}");
    }
    for at in (0..128).chain(4096..4096 + 3 * 585) {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            if let Ok(sif) = open(&bytes) {
                for object in &sif.descriptors {
                    let _ = sif.bytes(object);
                }
            }
        }
    }
    let version = open(&[&whole[..42], b"02", &whole[44..]].concat()).unwrap_err();
    assert!(version.to_string().ends_with("version 02, expected 01"), "{version}");
}
