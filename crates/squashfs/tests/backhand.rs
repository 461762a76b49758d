//! `backhand` reads the images that we write.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use backhand::{FilesystemReader, InnerNode};
use gular_squashfs::write::{
    Compression, Error, FileData, Fragments, Meta, Options, SUPERBLOCK_BYTES, Tree, TreeNode,
    Writer, Zeros,
};
use proptest::prelude::*;

const META: Meta = Meta { mode: 0o644, uid: 1000, gid: 70_000, mtime: 1_700_000_000 };
const ROOT: Meta = Meta { mode: 0o755, uid: 0, gid: 0, mtime: 1 };

/// The entry that a reader sees at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    File(Vec<u8>),
    Dir,
    Symlink(PathBuf),
    Device(u32),
    Pipe,
    Socket,
}

type Listing = BTreeMap<PathBuf, (Meta, Seen)>;

fn read(image: &[u8]) -> Listing {
    let filesystem = FilesystemReader::from_reader(Cursor::new(image)).unwrap();
    let see = |inner: &InnerNode<_>| match inner {
        InnerNode::File(file) => {
            let mut bytes = Vec::new();
            filesystem.file(file).reader().read_to_end(&mut bytes).unwrap();
            Seen::File(bytes)
        }
        InnerNode::Dir(_) => Seen::Dir,
        InnerNode::Symlink(link) => Seen::Symlink(link.link.clone()),
        InnerNode::CharacterDevice(device) => Seen::Device(device.device_number),
        InnerNode::BlockDevice(device) => Seen::Device(device.device_number),
        InnerNode::NamedPipe => Seen::Pipe,
        InnerNode::Socket => Seen::Socket,
    };
    let nodes = filesystem.files().map(|node| {
        let backhand::NodeHeader { permissions: mode, uid, gid, mtime } = node.header;
        (node.fullpath.clone(), (Meta { mode, uid, gid, mtime }, see(&node.inner)))
    });
    nodes.collect()
}

/// Makes an image of these files, in the given order.
fn files(files: &[(String, Vec<u8>)], options: &Options) -> (Vec<u8>, Vec<FileData>) {
    let mut writer = Writer::new(Vec::new(), options.clone()).unwrap();
    let mut tree = Tree::new(ROOT);
    let mut places = Vec::new();
    for (path, bytes) in files {
        let data = writer.data(&mut bytes.as_slice()).unwrap();
        tree.add(path, META, TreeNode::File(data)).unwrap();
        places.push(data);
    }
    (finish(writer, &tree), places)
}

fn finish(writer: Writer<Vec<u8>>, tree: &Tree) -> Vec<u8> {
    let (superblock, mut image) = writer.finish(tree).unwrap();
    image[..SUPERBLOCK_BYTES].copy_from_slice(&superblock);
    image
}

fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    change(&mut options);
    options
}

fn any_options() -> impl Strategy<Value = Options> {
    let compression = prop_oneof![
        Just(None),
        (1u32..=9).prop_map(|level| Some(Compression::Gzip(level))),
        (1u32..=9).prop_map(|level| Some(Compression::Zstd(level))),
    ];
    let fragments =
        prop_oneof![Just(Fragments::None), Just(Fragments::SmallFiles), Just(Fragments::Tails)];
    let zeros = prop_oneof![Just(Zeros::Keep), Just(Zeros::Holes)];
    let bits = (any::<bool>(), any::<bool>(), any::<bool>());
    let how = (compression, fragments, zeros, bits, 12u32..=15, 0u32..=12, 1usize..=4);
    how.prop_map(|(data, fragments, zeros, (plain, deduplicate, probe), block, align, threads)| {
        options(|o| {
            o.data = data;
            o.metadata = if plain { None } else { data.or(Some(Compression::Gzip(6))) };
            o.block_size = 1 << block;
            o.align = 1 << align;
            o.threads = NonZeroUsize::new(threads).unwrap();
            o.probe = probe;
            (o.fragments, o.zeros, o.deduplicate) = (fragments, zeros, deduplicate);
        })
    })
}

/// Makes runs of zeros, of one byte and of noise, so that there are holes, blocks that shrink and
/// blocks that do not.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let run = (0u8..3, any::<u64>(), 0usize..9000).prop_map(|(kind, seed, len)| match kind {
        0 => vec![0; len],
        1 => vec![seed as u8; len],
        _ => noise(seed, len),
    });
    prop::collection::vec(run, 0..5).prop_map(|runs| runs.concat())
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_come_back(contents in prop::collection::vec(any_bytes(), 0..12), options in any_options()) {
        let given: Vec<_> =
            contents.into_iter().enumerate().map(|(i, b)| (format!("d{}/f{i}", i % 3), b)).collect();
        let (image, places) = files(&given, &options);
        let seen = read(&image);
        for ((path, bytes), place) in given.iter().zip(&places) {
            let expected = (META, Seen::File(bytes.clone()));
            prop_assert_eq!(&seen[&PathBuf::from(format!("/{path}"))], &expected);
            prop_assert_eq!(place.size(), bytes.len() as u64);
            if let Some((start, len)) = place.stored_run() {
                let (start, len) = (start as usize, len as usize);
                prop_assert_eq!(&image[start..start + len], bytes.as_slice());
                prop_assert!(len == 0 || start % options.align as usize == 0);
            }
        }
    }

    #[test]
    fn threads_change_no_byte(contents in prop::collection::vec(any_bytes(), 1..12), options in any_options()) {
        let given: Vec<_> =
            contents.into_iter().enumerate().map(|(i, b)| (format!("f{i}"), b)).collect();
        let threads = |n| {
            let mut options = options.clone();
            options.threads = NonZeroUsize::new(n).unwrap();
            files(&given, &options).0
        };
        prop_assert_eq!(threads(1), threads(7));
    }
}

#[test]
fn stored_images_hold_every_file_as_one_run() {
    let given: Vec<_> = [0, 1, 63, 64, 65, 131_071, 131_072, 131_073, 400_000]
        .into_iter()
        .flat_map(|len| [noise(len as u64, len), vec![0; len]])
        .enumerate()
        .map(|(i, bytes)| (format!("{i}"), bytes))
        .collect();
    let (image, places) = files(&given, &Options::stored());
    for ((_, bytes), place) in given.iter().zip(places) {
        let (start, len) = place.stored_run().unwrap();
        assert_eq!(&image[start as usize..][..len as usize], bytes.as_slice());
    }
}

#[test]
fn every_kind_of_node_is_seen() {
    let mut writer = Writer::new(Vec::new(), Options::default()).unwrap();
    let data = writer.data(&mut &b"bytes"[..]).unwrap();
    let mut tree = Tree::new(ROOT);
    let suid = Meta { mode: 0o4755, ..META };
    let sticky = Meta { mode: 0o1777, ..META };
    tree.add("etc/file", suid, TreeNode::File(data)).unwrap();
    tree.add("etc/hard", META, TreeNode::Hardlink(b"etc/file".to_vec())).unwrap();
    tree.add("etc/also", META, TreeNode::File(data)).unwrap();
    tree.add("sticky", sticky, TreeNode::Dir).unwrap();
    tree.add("sticky/link", META, TreeNode::Symlink(b"../no/such".to_vec())).unwrap();
    tree.add("null", META, TreeNode::CharDevice { major: 1, minor: 3 }).unwrap();
    tree.add("disk", META, TreeNode::BlockDevice { major: 259, minor: 70_000 }).unwrap();
    tree.add("pipe", META, TreeNode::Fifo).unwrap();
    tree.add("socket", META, TreeNode::Socket).unwrap();
    let seen = read(&finish(writer, &tree));

    // This is Linux' new encoding: low 8 bits of the minor, 12 of the major, then the rest of the
    // minor.
    let disk = 70_000 & 0xff | 259 << 8 | (70_000 >> 8) << 20;
    let file = Seen::File(b"bytes".to_vec());
    let expected = [
        ("/", ROOT, Seen::Dir),
        ("/disk", META, Seen::Device(disk)),
        ("/etc", ROOT, Seen::Dir),
        ("/etc/also", META, file.clone()),
        ("/etc/file", suid, file.clone()),
        ("/etc/hard", suid, file),
        ("/null", META, Seen::Device(0x103)),
        ("/pipe", META, Seen::Pipe),
        ("/socket", META, Seen::Socket),
        ("/sticky", sticky, Seen::Dir),
        ("/sticky/link", META, Seen::Symlink("../no/such".into())),
    ];
    let expected: Listing =
        expected.into_iter().map(|(path, meta, what)| (path.into(), (meta, what))).collect();
    assert_eq!(seen, expected);
}

#[test]
fn order_of_the_tree_changes_no_byte() {
    let names: Vec<_> = (0..700).map(|i| format!("d{}/{i:03}", i % 7)).collect();
    let image = |names: &mut dyn Iterator<Item = &String>| {
        let mut writer = Writer::new(Vec::new(), Options::default()).unwrap();
        let data = writer.data(&mut &b"x"[..]).unwrap();
        let mut tree = Tree::new(ROOT);
        for name in names {
            tree.add(name, META, TreeNode::File(data)).unwrap();
        }
        finish(writer, &tree)
    };
    assert_eq!(image(&mut names.iter()), image(&mut names.iter().rev()));
}

#[test]
fn large_directories_are_read() {
    let given: Vec<_> = (0..20_000)
        .map(|i| (format!("many/{i:05}-{}", "n".repeat(i % 120)), i.to_string().into_bytes()))
        .collect();
    let seen = read(&files(&given, &Options::default()).0);
    assert_eq!(seen.len(), given.len() + 2);
    for (path, bytes) in &given {
        assert_eq!(seen[&PathBuf::from(format!("/{path}"))].1, Seen::File(bytes.clone()));
    }
}

#[test]
fn equal_files_are_stored_once() {
    let twins: Vec<_> = (0..5).map(|i| (format!("{i}"), noise(1, 300_000))).collect();
    let (apart, _) = files(&twins, &options(|o| o.deduplicate = false));
    let (shared, places) = files(&twins, &options(|o| o.deduplicate = true));
    assert!(apart.len() > 5 * 300_000 && shared.len() < 310_000);
    assert!(places.iter().all(|place| *place == places[0]));
    assert_eq!(read(&apart), read(&shared));

    // Files over 4 MiB are only compared if their reader can seek.
    let large = noise(2, (4 << 20) + 1);
    let mut writer = Writer::new(Vec::new(), options(|o| o.deduplicate = true)).unwrap();
    let first = writer.data_seekable(&mut Cursor::new(&large)).unwrap();
    assert_eq!(writer.data_seekable(&mut Cursor::new(&large)).unwrap(), first);
}

#[test]
fn a_file_that_changes_while_it_is_read_is_shared_as_what_was_written() {
    /// A reader that has other bytes when it is read again.
    struct Changing(Cursor<Vec<u8>>, Vec<u8>);
    impl Read for Changing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }
    impl Seek for Changing {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            if to == SeekFrom::Start(0) {
                self.0 = Cursor::new(self.1.clone());
            }
            self.0.seek(to)
        }
    }
    let (old, new) = (noise(3, 5000), noise(4, 6000));
    let mut writer = Writer::new(Vec::new(), options(|o| o.deduplicate = true)).unwrap();
    let mut changing = Changing(Cursor::new(old.clone()), new.clone());
    let changed = writer.data_seekable(&mut changing).unwrap();
    let same = writer.data_seekable(&mut Cursor::new(&new)).unwrap();
    let other = writer.data_seekable(&mut Cursor::new(&old)).unwrap();
    assert_eq!(changed, same);
    assert_ne!(changed, other);
    assert_eq!((changed.size(), other.size()), (6000, 5000));
}

#[test]
fn what_hardly_shrinks_is_stored() {
    let text = b"a line of text, the same again and again\n".repeat(10_000);
    // The first bytes of each KiB are zeros, so it shrinks by 2 % at most.
    let mut nearly = noise(3, 400_000);
    nearly.chunks_mut(1024).for_each(|kib| kib[..20].fill(0));
    let given = [("text".to_owned(), text), ("nearly".to_owned(), nearly)];
    let (all, _) = files(&given, &Options::default());
    let (probed, _) = files(&given, &options(|o| o.probe = true));
    assert!((400_000..410_000).contains(&probed.len()), "{}", probed.len());
    assert!(all.len() < 400_000, "{}", all.len());
    assert_eq!(read(&all), read(&probed));
}

#[test]
fn holes_take_no_place() {
    let given = [("hole".to_owned(), vec![0; 10 << 20])];
    let (image, places) = files(&given, &options(|o| o.data = None));
    assert!(image.len() < 8192, "{}", image.len());
    assert_eq!(places[0].stored_run(), None);
    assert_eq!(read(&image)[&PathBuf::from("/hole")].1, Seen::File(vec![0; 10 << 20]));
}

#[test]
fn what_no_image_can_hold_is_refused() {
    let add = |path: &str, node| Tree::new(ROOT).add(path, META, node).unwrap_err().to_string();
    let (long, deep) = ("n".repeat(256), "d/".repeat(2047) + "dd");
    for path in ["", "/a", "a/", "a//b", "a/./b", "../a", "a\0b", &long, &deep] {
        assert!(
            add(path, TreeNode::Fifo).starts_with("a SquashFS image cannot hold the path `"),
            "{path:?}"
        );
    }
    let device = add("d", TreeNode::CharDevice { major: 4096, minor: 0 });
    assert!(device.starts_with("cannot store `d`: ") && device.contains("4096"), "{device}");
    assert!(add("l", TreeNode::Symlink(vec![b't'; 4096])).contains("4096"));

    let finished = |build: &dyn Fn(&mut Tree, FileData)| {
        let mut writer = Writer::new(Vec::new(), Options::default()).unwrap();
        let data = writer.data(&mut &b"x"[..]).unwrap();
        let mut tree = Tree::new(ROOT);
        build(&mut tree, data);
        writer.finish(&tree).map(drop).unwrap_err()
    };
    let twice = finished(&|tree, data| {
        tree.add("a/b", META, TreeNode::File(data)).unwrap();
        tree.add("a/b", META, TreeNode::Fifo).unwrap();
    });
    assert_eq!(twice.to_string(), "the path `a/b` is given twice");
    let below_a_file = finished(&|tree, data| {
        tree.add("a", META, TreeNode::File(data)).unwrap();
        tree.add("a/b", META, TreeNode::Fifo).unwrap();
    });
    assert!(matches!(below_a_file, Error::Duplicate { .. }), "{below_a_file}");
    let dangling = finished(&|tree, _| {
        tree.add("a", META, TreeNode::Hardlink(b"b".to_vec())).unwrap();
    });
    assert!(matches!(dangling, Error::HardLink { .. }), "{dangling}");

    for bad in [
        options(|o| o.block_size = 5000),
        options(|o| o.block_size = 2 << 20),
        options(|o| o.align = 3),
        options(|o| o.data = Some(Compression::Gzip(0))),
        options(|o| o.metadata = Some(Compression::Zstd(3))),
    ] {
        let refused = Writer::new(Vec::new(), bad).unwrap_err();
        assert!(matches!(refused, Error::Options { .. }), "{refused}");
    }
}

#[test]
fn a_full_sink_is_said() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let write = || {
        let mut writer = Writer::new(Full(1 << 20), Options::default())?;
        let data = writer.data(&mut noise(1, 8 << 20).as_slice())?;
        let mut tree = Tree::new(ROOT);
        tree.add("f", META, TreeNode::File(data))?;
        writer.finish(&tree).map(drop)
    };
    assert!(matches!(write(), Err(Error::Write(e)) if e.kind() == io::ErrorKind::StorageFull));
}

#[test]
fn a_file_that_cannot_be_read_spoils_no_other() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }
    let mut writer = Writer::new(Vec::new(), Options::default()).unwrap();
    let mut broken = Read::chain(&[7; 300_000][..], Broken);
    assert!(matches!(writer.data(&mut broken), Err(Error::Read(_))));
    let data = writer.data(&mut &b"good"[..]).unwrap();
    let mut tree = Tree::new(ROOT);
    tree.add("f", META, TreeNode::File(data)).unwrap();
    let seen = read(&finish(writer, &tree));
    assert_eq!(seen[&PathBuf::from("/f")].1, Seen::File(b"good".to_vec()));
}
