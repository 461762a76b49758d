//! Files of an image are read back byte for byte, whichever tool wrote it and however it is
//! compressed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use gular_squashfs::read::{EntryKind, Error, Walk};
use gular_squashfs::write::{Compression, Fragments, Meta, Options, Tree, TreeNode, Writer, Zeros};

const META: Meta = Meta { mode: 0o640, uid: 7, gid: 70_000, mtime: 3 };

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

/// Returns files that are empty, short, of whole blocks and not, of noise, of text, with holes and
/// only holes.
fn files() -> Vec<(String, Vec<u8>)> {
    let text = "the same words again and again\n".repeat(3000).into_bytes();
    let mut files = Vec::new();
    for len in [0, 1, 100, 4095, 4096, 4097, 8192, 20_000, 90_000] {
        files.push((format!("noise/{len}"), noise(len, len as u64)));
        files.push((format!("text/{len}"), text[..len].to_vec()));
    }
    let holes = [&text[..4096], &[0; 8192], &noise(4096, 1), &text[..5], &[0; 9000], &text[..300]];
    files.push(("holes/some".into(), holes.concat()));
    files.push(("holes/only".into(), vec![0; 300_000]));
    files.push(("holes/last".into(), [&text[..4096], &[0; 4096][..]].concat()));
    files.extend((0..300).map(|i| (format!("many/{i:03}"), noise(i, 9))));
    files
}

fn image(options: Options, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), options).unwrap();
    let mut tree = Tree::new(Meta { mode: 0o755, ..META });
    for (path, bytes) in files {
        let data = writer.data(&mut bytes.as_slice()).unwrap();
        tree.add(path, META, TreeNode::File(data)).unwrap();
    }
    tree.add("odd/link", META, TreeNode::Symlink(b"../nowhere".to_vec())).unwrap();
    tree.add("odd/pipe", META, TreeNode::Fifo).unwrap();
    tree.add("odd/twin", META, TreeNode::Hardlink(b"text/100".to_vec())).unwrap();
    let (superblock, mut bytes) = writer.finish(&tree).unwrap();
    bytes[..superblock.len()].copy_from_slice(&superblock);
    bytes
}

/// Files with modes, inodes and bytes, and links with their targets.
type Found = (BTreeMap<String, (u16, u64, Vec<u8>)>, BTreeMap<String, Vec<u8>>);

fn contents(image: &[u8]) -> Result<Found, Error> {
    let mut walk = Walk::new(image)?;
    let (mut files, mut links) = Found::default();
    while let Some(entry) = walk.next()? {
        let path = String::from_utf8_lossy(entry.path).into_owned();
        let (kind, mode, inode) = (entry.kind, entry.mode, entry.inode);
        let mut bytes = Vec::new();
        walk.copy_to(&mut Up { sink: &mut bytes, left: 1 << 20 })?;
        let target = walk.target()?;
        match kind {
            EntryKind::File { size, .. } => {
                assert_eq!(size, bytes.len() as u64, "{path}");
                files.insert(path, (mode, inode, bytes));
            }
            _ => {
                assert!(bytes.is_empty());
                assert_eq!(target.is_some(), kind == EntryKind::Symlink);
                links.extend(target.map(|target| (path, target)));
            }
        }
    }
    Ok((files, links))
}

/// A sink that takes a limited number of bytes, like that of a caller with a limit.
struct Up<'a> {
    sink: &'a mut Vec<u8>,
    left: usize,
}

impl Write for Up<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn options() -> Vec<Options> {
    let mut all = Vec::new();
    for data in [None, Some(Compression::Gzip(9)), Some(Compression::Zstd(3))] {
        for fragments in [Fragments::None, Fragments::SmallFiles, Fragments::Tails] {
            for zeros in [Zeros::Keep, Zeros::Holes] {
                let mut options = Options::stored();
                (options.data, options.metadata) = (data, data);
                (options.fragments, options.zeros) = (fragments, zeros);
                options.block_size = 4096;
                all.push(options);
            }
        }
    }
    all
}

#[test]
fn what_was_written_comes_back() {
    let files = files();
    for options in options() {
        let (found, links) = contents(&image(options.clone(), &files)).unwrap();
        assert_eq!(found.len(), files.len() + 1);
        for (path, bytes) in &files {
            let (mode, _, found) = &found[path];
            assert_eq!(*mode, 0o640);
            assert!(found == bytes, "{path} {options:?}");
        }
        assert_eq!(found["odd/twin"], found["text/100"], "one inode");
        assert_eq!(links, [("odd/link".to_owned(), b"../nowhere".to_vec())].into());
    }
}

#[test]
fn mksquashfs_s_images_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    let files = files();
    for (path, bytes) in &files {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
    }
    symlink("noise/1", tree.join("link")).unwrap();
    fs::hard_link(tree.join("text/100"), tree.join("twin")).unwrap();
    let xz = [&["-comp", "xz"][..], &["-comp", "xz", "-Xbcj", "x86", "-b", "1M"]];
    let known = [
        &["-comp", "gzip"][..],
        &["-comp", "zstd", "-b", "1M"],
        &["-noD"],
        &["-always-use-fragments"],
    ];
    let xz = xz.into_iter().filter(|_| cfg!(feature = "xz"));
    for more in known.into_iter().chain(xz) {
        let to = dir.path().join("image");
        let mut command = Command::new("mksquashfs");
        command.arg(&tree).arg(&to).args(["-noappend", "-quiet", "-no-progress"]).args(more);
        match command.stdout(Stdio::null()).status() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return eprintln!("skipped: there is no `mksquashfs`");
            }
            status => assert!(status.unwrap().success()),
        }
        let (found, links) = contents(&fs::read(&to).unwrap()).unwrap();
        assert_eq!(found.len(), files.len() + 1, "{more:?}");
        for (path, bytes) in &files {
            let (mode, _, found) = &found[path];
            assert_eq!(*mode, 0o4751, "{path}");
            assert!(found == bytes, "{path} {more:?}");
        }
        assert_eq!(found["twin"].1, found["text/100"].1);
        assert_eq!(links["link"], b"noise/1");
        fs::remove_file(to).unwrap();
    }
    let to = dir.path().join("image");
    let lzo = Command::new("mksquashfs")
        .args([Path::new(&tree), &to, Path::new("-comp"), Path::new("lzo")])
        .stdout(Stdio::null())
        .status();
    assert!(lzo.unwrap().success());
    let error = contents(&fs::read(&to).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn a_sink_that_fails_is_said_and_very_long_holes_cost_nothing() {
    let mut options = Options::stored();
    options.metadata = Some(Compression::Gzip(9));
    options.zeros = Zeros::Holes;
    let long = [("a".to_owned(), vec![0; 8 << 20])];
    let image = image(options, &[long.to_vec(), files()].concat());
    let error = contents(&image).unwrap_err();
    assert!(matches!(error, Error::Write(_)), "{error}");
}

#[test]
fn damage_is_said_or_changes_bytes_and_never_panics() {
    let files: Vec<_> = files().into_iter().filter(|(_, b)| b.len() < 9000).take(60).collect();
    let damage = |options: Options| {
        let good = image(options.clone(), &files);
        let mut refused = 0;
        for at in (96..good.len()).step_by(37) {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            refused += usize::from(contents(&bad).is_err());
        }
        for len in (0..good.len()).step_by(997) {
            refused += usize::from(contents(&good[..len]).is_err());
        }
        assert!(refused > 10, "{refused} {options:?}");
    };
    std::thread::scope(|scope| {
        for options in options() {
            scope.spawn(|| damage(options));
        }
    });
}
