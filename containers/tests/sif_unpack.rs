//! Root file systems of SIFs: which are read back, and which are refused.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gular_containers::registry::nvidia_of_sif;
use gular_containers::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use gular_containers::sif::{
    Arch, Contents, ObjectKind, Settings, Sif, Squash, Writer, write_image,
};
use gular_containers::singularity::{Description, describe};
use gular_containers::store::{Limits, Store};
use gular_containers::{Error, UnixTime};
use gular_squashfs::write::{self as squashfs, Compression, Meta, Options, Tree, TreeNode, Zeros};

fn path(text: &str) -> RootPath {
    RootPath::new(text).unwrap()
}

fn tree() -> (Rootfs, String) {
    let mut tree = Rootfs::default();
    let program: Vec<u8> = (0..500_000_u32).flat_map(|i| (i / 3).to_le_bytes()).collect();
    let file = |bytes: &[u8]| What::File(FileBytes::Bytes(Arc::from(bytes)));
    tree.add(Layer::App, &path("opt/app/bin/train"), 0o755, file(&program)).unwrap();
    tree.add(Layer::App, &path("a-twin"), 0o755, What::Hardlink(path("opt/app/bin/train")))
        .unwrap();
    tree.add(Layer::Base, &path("lib"), 0o777, What::Symlink("usr/lib".to_owned())).unwrap();
    tree.add(Layer::Base, &path("usr/lib/empty"), 0o600, file(b"")).unwrap();
    tree.add(Layer::Base, &path("usr/lib/su"), 0o4755, file(b"su")).unwrap();
    let of = Description {
        arch: Arch::Amd64,
        command: &["/opt/app/bin/train".to_owned()],
        arguments: &[],
        env: &BTreeMap::new(),
        labels: &BTreeMap::new(),
        recipe: "[image]\n",
    };
    let metadata = describe(&mut tree, &of).unwrap();
    (tree, metadata)
}

fn write(to: &Path, squash: Squash) -> Rootfs {
    let (tree, metadata) = tree();
    let contents = Contents {
        arch: Arch::Amd64,
        time: UnixTime(1_700_000_000),
        recipe: "[image]\n",
        metadata: &metadata,
        sbom: None,
        squash,
        threads: NonZeroUsize::MIN,
        blocks: None,
    };
    write_image(&tree, &contents, to, &|_| {}, &AtomicBool::new(false)).unwrap();
    tree
}

/// Paths, modes, links, and the bytes of each file. Which of a file's names is the first one is
/// left out.
fn shown(tree: &Rootfs) -> Vec<(String, u16, Vec<u8>)> {
    let bytes = |path: &RootPath| match &tree.follow(path).map(|(_, node)| &node.what) {
        Some(What::File(FileBytes::Bytes(bytes))) => bytes.to_vec(),
        Some(What::File(FileBytes::File { path, bytes, .. })) => {
            let read = fs::read(path).unwrap();
            assert_eq!(read.len() as u64, *bytes);
            read
        }
        _ => Vec::new(),
    };
    let show = |(path, node): (&RootPath, &gular_containers::rootfs::Node)| match &node.what {
        What::Symlink(target) => (path.to_string(), 0o777, target.clone().into_bytes()),
        What::Dir => (format!("{path}/"), node.mode, Vec::new()),
        _ => (path.to_string(), node.mode, bytes(path)),
    };
    tree.iter().map(show).collect()
}

#[test]
fn what_was_written_comes_back_and_is_unpacked_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(&dir.path().join("store"));
    for (squash, name) in [(Squash::Gzip, "gzip"), (Squash::Zstd, "zstd")] {
        let to = dir.path().join(name);
        let written = write(&to, squash);
        let sif = Sif::open(&to).unwrap();
        assert_eq!(sif.compressor().unwrap(), name);
        let read = sif.rootfs(&store, &Limits::default()).unwrap();
        assert_eq!(shown(&read), shown(&written), "{name}");
        let twins = read.iter().filter(|(_, node)| matches!(node.what, What::Hardlink(_))).count();
        assert_eq!(twins, 1);
        let before = fs::metadata(dir.path().join("store")).unwrap().modified().unwrap();
        assert!(shown(&sif.rootfs(&store, &Limits::default()).unwrap()) == shown(&written));
        assert_eq!(fs::metadata(dir.path().join("store")).unwrap().modified().unwrap(), before);
    }
}

/// Makes a SIF that contains this SquashFS image.
fn around(to: &Path, image: &[u8]) -> Sif {
    let settings = Settings { arch: Arch::Amd64, time: UnixTime(0) };
    let mut writer = Writer::new(File::create(to).unwrap(), settings).unwrap();
    writer.start(ObjectKind::RootPartition(Arch::Amd64), "root").unwrap();
    writer.write_all(image).unwrap();
    writer.end(&image[..image.len().min(96)]);
    writer.finish().unwrap();
    Sif::open(to).unwrap()
}

const META: Meta = Meta { mode: 0o644, uid: 0, gid: 0, mtime: 0 };

fn squashed(nodes: &[(&[u8], TreeNode)], large: Option<u64>) -> Vec<u8> {
    let mut options = Options::default();
    options.metadata = Some(Compression::Gzip(9));
    options.zeros = Zeros::Holes;
    let mut writer = squashfs::Writer::new(Vec::new(), options).unwrap();
    let mut tree = Tree::new(META);
    for (path, node) in nodes {
        tree.add(*path, META, node.clone()).unwrap();
    }
    if let Some(bytes) = large {
        let data = writer.data(&mut std::io::Read::take(std::io::repeat(0), bytes)).unwrap();
        tree.add("large", META, TreeNode::File(data)).unwrap();
    }
    let (superblock, mut bytes) = writer.finish(&tree).unwrap();
    bytes[..superblock.len()].copy_from_slice(&superblock);
    bytes
}

#[test]
fn what_no_image_should_hold_is_refused_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let limits = Limits { bytes: 10_000, entries: 5 };
    let device = TreeNode::BlockDevice { major: 8, minor: 1 };
    let many: Vec<_> = (b'a'..b'h').map(|name| vec![name]).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_slice(), TreeNode::Dir)).collect();
    let cases: &[(&str, Vec<u8>)] = &[
        ("/dev/sda is a device", squashed(&[(b"dev/sda", device)], None)),
        ("/pipe is a device, pipe or socket", squashed(&[(b"pipe", TreeNode::Fifo)], None)),
        ("bytes, more than the limit of 10000", squashed(&[], Some(10_001))),
        ("files and folders, more than the limit of 5", squashed(&many, None)),
        ("not a SquashFS image", vec![7; 5000]),
        ("is damaged", squashed(&[], Some(3))[..100].to_vec()),
    ];
    for (says, image) in cases {
        let sif = around(&dir.path().join("a.sif"), image);
        let error = sif.unpack(&Store::new(&store), &limits).unwrap_err().to_string();
        assert!(error.contains(says), "{error}, expected {says}");
        let left = fs::read_dir(&store).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{says}");
    }
}

#[test]
fn damaged_blocks_are_said_with_their_file() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("a.sif");
    write(&to, Squash::Gzip);
    let good = fs::read(&to).unwrap();
    let start = usize::try_from(Sif::open(&to).unwrap().root().unwrap().offset).unwrap();
    let limits = Limits::default();
    let (mut refused, mut named) = (0, 0);
    for at in (start..good.len()).step_by(good.len() / 150) {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        fs::write(&to, bad).unwrap();
        let store = dir.path().join("store");
        match Sif::open(&to).unwrap().rootfs(&Store::new(&store), &limits) {
            Ok(_) => fs::remove_dir_all(&store).unwrap(),
            Err(Error::Io(_)) => panic!("the disk is sound"),
            Err(error) => {
                refused += 1;
                named += usize::from(error.to_string().contains("/a-twin of its root"));
                assert_eq!(fs::read_dir(&store).map_or(0, Iterator::count), 0);
            }
        }
    }
    assert!(refused > 50 && named > 10, "{refused} refused, {named} with the file's name");
}

#[test]
fn names_that_cannot_be_read_are_told_from_those_without_nvidias_libraries() {
    let dir = tempfile::tempdir().unwrap();
    let with = squashed(&[(b"libcudart.so.12", TreeNode::Dir)], None);
    let without = squashed(&[(b"libm.so.6", TreeNode::Dir)], None);
    let mut lzo = with.clone();
    lzo[20] = 3;
    for (image, expected) in [(with, Some(true)), (without, Some(false)), (lzo, None)] {
        let sif = dir.path().join("a.sif");
        around(&sif, &image);
        assert_eq!(nvidia_of_sif(&sif).unwrap(), expected);
    }
}
