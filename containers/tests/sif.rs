//! SIF files: written, read back, damaged.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use backhand::{FilesystemReader, InnerNode};
use gular_containers::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use gular_containers::sif::{
    Arch, Contents, ObjectKind, Settings, Sif, Squash, Writer, write_image,
};
use gular_containers::singularity::{Description, describe};
use gular_containers::{Error, UnixTime};

const ROOT: [u8; 5000] = [7; 5000];

fn write(path: &Path, head: &[u8]) {
    let settings = Settings { arch: Arch::Amd64, time: UnixTime(1_700_000_000) };
    let mut writer = Writer::new(File::create(path).unwrap(), settings).unwrap();
    writer.add(ObjectKind::Deffile, "deffile", b"bootstrap: scratch\n").unwrap();
    writer.add(ObjectKind::Json, "oci-config.json", b"{}").unwrap();
    writer.start(ObjectKind::RootPartition(Arch::Amd64), "root").unwrap();
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
    assert_eq!((sif.arch, sif.created), (Some(Arch::Amd64), UnixTime(1_700_000_000)));
    let [deffile, json, root] = &sif.descriptors[..] else { panic!("{:?}", sif.descriptors) };
    assert_eq!((deffile.kind, deffile.name.as_str()), (ObjectKind::Deffile, "deffile"));
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
    let settings = Settings { arch: Arch::Arm64, time: UnixTime(0) };
    let mut writer =
        Writer::new(File::create(dir.path().join("a.sif")).unwrap(), settings).unwrap();
    assert!(writer.add(ObjectKind::Json, &"n".repeat(128), b"").is_err());
    for _ in 0..48 {
        writer.add(ObjectKind::Json, "n", b"x").unwrap();
    }
    assert!(writer.add(ObjectKind::Json, "n", b"x").is_err());
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
    assert!(version.to_string().ends_with("its version is 02, expected 01"), "{version}");
}

fn image(to: &Path, squash: Squash, threads: usize) -> Result<(), Error> {
    let mut tree = Rootfs::default();
    let path = |text: &str| RootPath::new(text).unwrap();
    let program: Vec<u8> = (0..1_000_000_u32).flat_map(|i| (i / 3).to_le_bytes()).collect();
    let program = What::File(FileBytes::Bytes(Arc::from(program)));
    tree.add(Layer::App, &path("opt/app/bin/train"), 0o755, program).unwrap();
    tree.add(Layer::App, &path("twin"), 0o755, What::Hardlink(path("opt/app/bin/train"))).unwrap();
    let none = BTreeMap::new();
    let command = ["/opt/app/bin/train".to_owned()];
    let description = Description {
        arch: Arch::Amd64,
        command: &command,
        arguments: &[],
        env: &none,
        labels: &none,
        recipe: "[image]\n",
    };
    let metadata = describe(&mut tree, &description).unwrap();
    let contents = Contents {
        arch: Arch::Amd64,
        time: UnixTime(1_700_000_000),
        recipe: "[image]\n",
        metadata: &metadata,
        sbom: Some("{}"),
        squash,
        threads: NonZeroUsize::new(threads).unwrap(),
        blocks: None,
    };
    write_image(&tree, &contents, to, &|_| {}, &AtomicBool::new(false)).map(drop)
}

#[test]
fn a_tree_becomes_an_image_that_other_readers_know() {
    let dir = tempfile::tempdir().unwrap();
    for (squash, name) in [(Squash::Gzip, "gzip.sif"), (Squash::Zstd, "zstd.sif")] {
        let to = dir.path().join(name);
        image(&to, squash, 2).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o755);
        let sif = Sif::open(&to).unwrap();
        let kinds: Vec<_> = sif.descriptors.iter().map(|d| d.kind).collect();
        let root = ObjectKind::RootPartition(Arch::Amd64);
        assert_eq!(kinds, [ObjectKind::Deffile, ObjectKind::Json, ObjectKind::SpdxJson, root]);

        let file = BufReader::new(File::open(&to).unwrap());
        let offset = sif.root().unwrap().offset;
        let filesystem = FilesystemReader::from_reader_with_offset(file, offset).unwrap();
        let mut seen = BTreeMap::new();
        for node in filesystem.files() {
            if let InnerNode::File(file) = &node.inner {
                let mut bytes = Vec::new();
                filesystem.file(file).reader().read_to_end(&mut bytes).unwrap();
                seen.insert(node.fullpath.to_str().unwrap().to_owned(), bytes);
            }
        }
        assert_eq!(seen["/opt/app/bin/train"].len(), 4_000_000);
        assert_eq!(seen["/twin"], seen["/opt/app/bin/train"]);
        assert!(seen.contains_key("/.singularity.d/env/99-base.sh"));

        let other = dir.path().join("other.sif");
        image(&other, squash, 5).unwrap();
        assert!(fs::read(&to).unwrap() == fs::read(&other).unwrap(), "threads change bytes");
        fs::remove_file(other).unwrap();
    }
    let there = image(&dir.path().join("gzip.sif"), Squash::Gzip, 1);
    assert!(matches!(there, Err(Error::Exists { .. })));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}
