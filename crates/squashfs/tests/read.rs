//! The walker finds exactly what the writer put into an image.

use std::collections::BTreeMap;
use std::io;

use gular_squashfs::read::{Content, EntryKind, Error, Walk};
use gular_squashfs::write::{Compression, Fragments, Meta, Options, Tree, TreeNode, Writer, Zeros};

const META: Meta = Meta { mode: 0o644, uid: 7, gid: 70_000, mtime: 3 };

/// Returns bytes that no compressor makes shorter.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Makes an image of these files, with links, empty folders and other things around them.
fn image(options: Options, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), options).unwrap();
    let mut tree = Tree::new(Meta { mode: 0o755, ..META });
    for (path, bytes) in files {
        let data = writer.data(&mut bytes.as_slice()).unwrap();
        tree.add(path, META, TreeNode::File(data)).unwrap();
    }
    tree.add("empty/folder", META, TreeNode::Dir).unwrap();
    tree.add("odd/fifo", META, TreeNode::Fifo).unwrap();
    tree.add("odd/disk", META, TreeNode::BlockDevice { major: 8, minor: 1 }).unwrap();
    tree.add("odd/link", META, TreeNode::Symlink(b"../nowhere".to_vec())).unwrap();
    if let Some((path, _)) = files.first() {
        tree.add("odd/other name", META, TreeNode::Hardlink(path.as_bytes().to_vec())).unwrap();
    }
    let (superblock, mut bytes) = writer.finish(&tree).unwrap();
    bytes[..superblock.len()].copy_from_slice(&superblock);
    bytes
}

fn walked(image: &[u8]) -> Result<Vec<(String, EntryKind)>, Error> {
    let mut walk = Walk::new(image)?;
    let mut found = Vec::new();
    while let Some(entry) = walk.next()? {
        found.push((String::from_utf8_lossy(entry.path).into_owned(), entry.kind));
    }
    Ok(found)
}

fn options() -> Vec<Options> {
    let mut all = Vec::new();
    for metadata in [None, Some(Compression::Gzip(6)), Some(Compression::Zstd(3))] {
        for fragments in [Fragments::None, Fragments::SmallFiles, Fragments::Tails] {
            for zeros in [Zeros::Keep, Zeros::Holes] {
                let mut options = Options::stored();
                (options.metadata, options.fragments, options.zeros) = (metadata, fragments, zeros);
                options.block_size = 4096;
                all.push(options);
            }
        }
    }
    all
}

/// Returns files of many lengths, more than one block of inodes and of listings, and deep folders.
fn files() -> Vec<(String, Vec<u8>)> {
    let sizes = [0, 1, 100, 4095, 4096, 4097, 8192, 20_000];
    let mut files: Vec<_> =
        (1_u64..).zip(sizes).map(|(i, n)| (format!("sizes/{n}"), noise(n, i))).collect();
    files.push(("zeros/all".into(), vec![0; 10_000]));
    let hole = [noise(4096, 1), vec![0; 4096], noise(9, 2)].concat();
    files.push(("zeros/middle".into(), hole));
    files.extend(
        (0..700_u64).map(|i| (format!("many/{i:04}-{}", "x".repeat(i as usize % 80)), noise(9, i))),
    );
    let deep: Vec<String> = (0..300).map(|i| i.to_string()).collect();
    files.push((deep.join("/"), noise(33, 5)));
    files
}

#[test]
fn every_stored_file_is_found_where_it_lies() {
    let files = files();
    for options in options() {
        let image = image(options.clone(), &files);
        let found = walked(&image).unwrap();
        let paths: Vec<Vec<&str>> = found.iter().map(|(p, _)| p.split('/').collect()).collect();
        assert!(paths.is_sorted(), "by their segments");
        let found: BTreeMap<&str, EntryKind> =
            found.iter().map(|(p, k)| (p.as_str(), *k)).collect();
        let expected = [
            ("empty", EntryKind::Folder),
            ("empty/folder", EntryKind::Folder),
            ("odd/fifo", EntryKind::Other),
            ("odd/disk", EntryKind::Other),
            ("odd/link", EntryKind::Symlink),
            ("odd/other name", found["sizes/0"]),
        ];
        for (path, kind) in expected {
            assert_eq!(found[path], kind, "{path} {options:?}");
        }
        for (path, bytes) in &files {
            let EntryKind::File { size, content } = found[path.as_str()] else { panic!("{path}") };
            assert_eq!(size, bytes.len() as u64, "{path}");
            match content {
                Content::Run { offset } => {
                    let start = offset as usize;
                    assert!(image[start..start + bytes.len()] == **bytes, "{path} {options:?}");
                }
                Content::Sparse => {
                    assert!(path.starts_with("zeros") && options.zeros == Zeros::Holes, "{path}");
                }
                Content::Divided => {
                    assert_eq!(options.fragments, Fragments::Tails, "{path}");
                    assert!(bytes.len() > 4096 && bytes.len() % 4096 != 0, "{path}");
                }
                Content::Compressed => panic!("{path} {options:?}"),
            }
        }
        let folders = found.values().filter(|k| **k == EntryKind::Folder).count();
        assert_eq!(found.len(), files.len() + folders + 4);
    }
}

#[test]
fn compressed_files_are_known() {
    let text = "the same words again and again\n".repeat(500).into_bytes();
    let files = [("text".to_owned(), text), ("noise".to_owned(), noise(9000, 1))];
    for compression in [Compression::Gzip(9), Compression::Zstd(3)] {
        for fragments in [Fragments::None, Fragments::SmallFiles] {
            let mut options = Options::default();
            (options.data, options.metadata) = (Some(compression), Some(compression));
            options.fragments = fragments;
            let image = image(options, &files);
            let name = if matches!(compression, Compression::Gzip(_)) { "gzip" } else { "zstd" };
            assert_eq!(Walk::new(image.as_slice()).unwrap().compressor(), name);
            let found: BTreeMap<String, EntryKind> = walked(&image).unwrap().into_iter().collect();
            let EntryKind::File { content, .. } = found["text"] else { panic!("no file") };
            assert_eq!(content, Content::Compressed);
            let EntryKind::File { content, .. } = found["noise"] else { panic!("no file") };
            // Blocks that do not become shorter are stored; in a fragment the noise is together
            // with the text.
            let stored = matches!(content, Content::Run { .. });
            assert_eq!(stored, fragments == Fragments::None, "{content:?}");
        }
    }
}

#[test]
fn other_files_are_refused_by_name() {
    assert!(matches!(walked(b"").unwrap_err(), Error::NotSquashfs));
    assert!(matches!(walked(&[0; 4096]).unwrap_err(), Error::NotSquashfs));
    let good = image(Options::stored(), &files()[..3]);
    let mut old = good.clone();
    old[28] = 3;
    let error = walked(&old).unwrap_err();
    assert!(
        matches!(error, Error::Unsupported { .. }) && error.to_string().contains("3.0"),
        "{error}"
    );
    // An unknown compressor does no harm if nothing is compressed.
    let mut stored = good.clone();
    stored[20] = 3;
    assert_eq!(walked(&stored).unwrap().len(), walked(&good).unwrap().len());
    let mut options = Options::stored();
    options.metadata = Some(Compression::Gzip(9));
    let mut lzo = image(options, &files());
    lzo[20] = 3;
    let error = walked(&lzo).unwrap_err();
    assert!(
        matches!(error, Error::Unsupported { .. }) && error.to_string().contains("lzo"),
        "{error}"
    );
    assert!(error.hint().is_some());
    let mut cut = good.clone();
    cut.truncate(used(&good) - 1);
    assert!(matches!(walked(&cut).unwrap_err(), Error::Damaged { .. }));
}

/// Returns an image's length without its padding.
fn used(image: &[u8]) -> usize {
    u64::from_le_bytes(image[40..48].try_into().unwrap()) as usize
}

/// Checks that every run is within the image, and returns whether the image looks undamaged.
fn check_damaged(image: &[u8]) -> bool {
    let Ok(mut walk) = Walk::new(image) else { return false };
    loop {
        match walk.next() {
            Ok(None) => return true,
            Ok(Some(entry)) => {
                assert!(entry.path.len() <= 4095);
                if let EntryKind::File { size, content: Content::Run { offset } } = entry.kind {
                    assert!(offset.checked_add(size).unwrap() <= image.len() as u64);
                }
            }
            Err(_) => {
                assert!(walk.next().unwrap().is_none(), "the walk is over");
                return false;
            }
        }
    }
}

#[test]
fn damaged_images_never_panic_and_no_run_leaves_them() {
    // The long folders are left out, so that many bytes can be tried.
    let files: Vec<_> =
        files().into_iter().filter(|(p, b)| b.len() < 5000 && p.len() < 30).collect();
    for mut options in options() {
        options.align = 1;
        let good = image(options, &files);
        assert!(check_damaged(&good));
        let start = 96 + files.iter().map(|(_, b)| b.len()).sum::<usize>() / 2;
        let mut refused = 0;
        for at in (0..96).chain((start..good.len()).step_by(13)) {
            for value in [good[at] ^ 1 << (at % 8), 0, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                refused += u32::from(!check_damaged(&bad));
            }
        }
        for len in (0..used(&good)).step_by(97) {
            assert!(!check_damaged(&good[..len]), "cut to {len} bytes");
        }
        assert!(refused > 100, "{refused}");
    }
}

#[test]
fn folders_in_a_circle_are_found_out() {
    // Nothing is compressed, so the entry of `b` in folder `a` can be changed to refer to `a`
    // itself.
    let mut writer = Writer::new(Vec::new(), Options::stored()).unwrap();
    let data = writer.data(&mut &b"x"[..]).unwrap();
    let mut tree = Tree::new(META);
    tree.add("aaaa/bbbb/c", META, TreeNode::File(data)).unwrap();
    let (superblock, mut image) = writer.finish(&tree).unwrap();
    image[..superblock.len()].copy_from_slice(&superblock);
    let at = |name: &[u8]| image.windows(4).position(|w| w == name).unwrap();
    let (a, b) = (at(b"aaaa"), at(b"bbbb"));
    let entry: Vec<u8> = image[a - 8..a - 6].to_vec();
    image[b - 8..b - 6].copy_from_slice(&entry);
    let error = walked(&image).unwrap_err().to_string();
    assert!(error.contains("`aaaa/bbbb` is listed in two places"), "{error}");
}

#[test]
fn more_names_than_an_image_could_hold_are_not_followed() {
    let folder = vec!["f".repeat(250); 14].join("/");
    let of_length = |folder: &str, n: u32| {
        let files: Vec<_> = (0..n).map(|i| (format!("{folder}/{i}"), Vec::new())).collect();
        let mut options = Options::stored();
        options.metadata = Some(Compression::Gzip(9));
        let image = image(options, &files);
        (walked(&image).map(|found| found.len()), image.len())
    };
    let (found, _) = of_length(&folder, 100);
    assert_eq!(found.unwrap(), 100 + 14 + 7);
    // The paths have 10 MiB.
    let (found, len) = of_length(&folder, 3000);
    let error = found.unwrap_err().to_string();
    assert!(error.contains("more names"), "{error} of {len} bytes");

    // There are many short names, all of one file.
    let mut options = Options::stored();
    options.metadata = Some(Compression::Gzip(9));
    let mut writer = Writer::new(Vec::new(), options).unwrap();
    let data = writer.data(&mut io::empty()).unwrap();
    let mut tree = Tree::new(META);
    tree.add("a", META, TreeNode::File(data)).unwrap();
    for i in 0..300_000 {
        tree.add(format!("{i:06}"), META, TreeNode::Hardlink(b"a".to_vec())).unwrap();
    }
    let (head, mut image) = writer.finish(&tree).unwrap();
    image[..head.len()].copy_from_slice(&head);
    let error = walked(&image).unwrap_err().to_string();
    assert!(error.contains("more names"), "{error} of {} bytes", image.len());
}
