//! Images that reuse blocks of earlier ones have the same bytes, whatever happened to the earlier
//! ones.

use std::fs::{self, File};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use gular_containers::blocks::BlockCache;
use gular_containers::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use gular_containers::sif::{Arch, Contents, Squash, WrittenSif, write_image};
use gular_containers::{Error, UnixTime};
use tempfile::TempDir;

/// A cache limit that these tests never reach.
const ENOUGH: u64 = 1 << 30;

/// A folder with files, images and caches.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of runs that shrink, noise and zeros, all depending on `seed`.
    fn file(&self, seed: u64, bytes: usize) -> PathBuf {
        let path = self.path(&format!("file-{seed}-{bytes}"));
        let mut state = 2 * seed + 1;
        let mut content = Vec::with_capacity(bytes);
        while content.len() < bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match content.len() / 150_000 % 4 {
                0 => content.extend_from_slice(&(state >> 40).to_le_bytes()),
                1 => content.extend_from_slice(&[0; 8]),
                _ => content.extend_from_slice(&(state >> 60).to_le_bytes()),
            }
        }
        content.truncate(bytes);
        fs::write(&path, content).unwrap();
        path
    }

    fn cache(&self) -> BlockCache {
        BlockCache::new(&self.path("cache"), ENOUGH)
    }

    fn image(&self, name: &str, build: &Build<'_>) -> (Vec<u8>, WrittenSif) {
        let to = self.path(name);
        let written = build.write(&to).unwrap();
        let bytes = fs::read(&to).unwrap();
        assert_eq!(written.bytes, bytes.len() as u64);
        (bytes, written)
    }

    /// The folders in the cache.
    fn kept(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("cache")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

struct Build<'a> {
    /// The files of the image; `told` says whether their digests are given.
    files: &'a [&'a Path],
    told: bool,
    squash: Squash,
    threads: usize,
    blocks: Option<&'a BlockCache>,
}

fn build<'a>(files: &'a [&'a Path], blocks: Option<&'a BlockCache>) -> Build<'a> {
    Build { files, told: false, squash: Squash::Gzip, threads: 2, blocks }
}

impl Build<'_> {
    fn write(&self, to: &Path) -> Result<WrittenSif, Error> {
        self.write_watched(to, &|_| {}, &AtomicBool::new(false))
    }

    fn write_watched(
        &self,
        to: &Path,
        progress: &(dyn Fn(u64) + Sync),
        cancel: &AtomicBool,
    ) -> Result<WrittenSif, Error> {
        let mut tree = Rootfs::default();
        for (number, file) in self.files.iter().enumerate() {
            let digest = self.told.then(|| blake3::hash(&fs::read(file).unwrap()).into());
            let source = source(file, digest);
            let path = RootPath::new(&format!("lib/{number}")).unwrap();
            tree.add(Layer::Cuda, &path, 0o755, What::File(source)).unwrap();
            tree.add_text(Layer::Base, &RootPath::new("etc/x").unwrap(), 0o644, "small").unwrap();
        }
        write_image(&tree, &self.contents(), to, progress, cancel)
    }

    fn contents(&self) -> Contents<'_> {
        Contents {
            arch: Arch::Amd64,
            time: UnixTime(1_700_000_000),
            recipe: "",
            metadata: "{}",
            sbom: None,
            squash: self.squash,
            threads: NonZeroUsize::new(self.threads).unwrap(),
            blocks: self.blocks,
        }
    }
}

fn source(file: &Path, blake3: Option<[u8; 32]>) -> FileBytes {
    FileBytes::File { path: file.to_owned(), bytes: fs::metadata(file).unwrap().len(), blake3 }
}

#[test]
fn a_cache_changes_no_byte_and_spares_what_did_not_change() {
    let place = Place::new();
    let (lib, other) = (place.file(1, 5_300_001), place.file(2, 1 << 20));
    let (old, new) = (place.file(3, 1_500_000), place.file(4, 1_500_000));
    let (before, after) = ([&lib, &other, &old], [&lib, &other, &new]);
    let (before, after) = (before.map(PathBuf::as_path), after.map(PathBuf::as_path));
    let cache = place.cache();
    for (squash, name) in [(Squash::Gzip, "gzip"), (Squash::Zstd, "zstd")] {
        for told in [false, true] {
            let plain = |files| Build { squash, told, ..build(files, None) };
            let cached = |files, threads| Build {
                squash,
                told,
                threads,
                blocks: Some(&cache),
                ..build(files, None)
            };
            let name = |what: &str| format!("{name}-{told}-{what}");
            let (first, _) = place.image(&name("first"), &plain(&before));
            let (again, _) = place.image(&name("again"), &cached(&before, 3));
            assert!(first == again, "{squash:?} told {told}");
            let (expected, _) = place.image(&name("expected"), &plain(&after));
            for (threads, reused) in [(1, 5_300_001 + (1 << 20)), (4, 6_800_001 + (1 << 20))] {
                let to = name(&format!("found-{threads}"));
                let (found, written) = place.image(&to, &cached(&after, threads));
                assert!(found == expected, "{squash:?} told {told}, {threads} threads");
                assert!(written.not_kept.is_none());
                if !told {
                    assert_eq!(written.reused, reused);
                }
            }
        }
    }
}

#[test]
fn small_files_that_share_blocks_are_not_compressed_again() {
    let place = Place::new();
    // Two go into a block, the last with the one that changes.
    let small: Vec<_> = (0..9).map(|seed| place.file(seed, 60_000)).collect();
    let (old, new) = (place.file(50, 1000), place.file(51, 1000));
    let files = |last| small.iter().chain([last]).map(PathBuf::as_path).collect::<Vec<_>>();
    let (before, after, cache) = (files(&old), files(&new), place.cache());
    for squash in [Squash::Gzip, Squash::Zstd] {
        let name = |what: &str| format!("{squash:?}-{what}");
        let plain = |files| Build { squash, ..build(files, None) };
        let cached = |files| Build { squash, ..build(files, Some(&cache)) };
        let (first, _) = place.image(&name("first"), &plain(&before));
        let (same, _) = place.image(&name("same"), &cached(&before));
        assert!(first == same);
        let (expected, _) = place.image(&name("expected"), &plain(&after));
        let (found, written) = place.image(&name("found"), &cached(&after));
        assert!(found == expected);
        assert_eq!(written.reused, 5 + 8 * 60_000);
    }
}

#[test]
fn an_image_takes_no_second_place_and_lends_after_it_is_gone() {
    let place = Place::new();
    let file = place.file(1, 2_000_000);
    let (files, cache) = ([file.as_path()], place.cache());
    let (expected, _) = place.image("a", &build(&files, Some(&cache)));
    assert_eq!(fs::metadata(place.path("a")).unwrap().nlink(), 2);
    // `apptainer sign` does the same: the blocks stay where they are.
    let image = File::options().append(true).open(place.path("a")).unwrap();
    io::Write::write_all(&mut &image, b"signature").unwrap();
    image.write_all_at(b"changed", 64).unwrap();
    fs::remove_file(place.path("a")).unwrap();
    let (found, written) = place.image("b", &build(&files, Some(&cache)));
    assert!(found == expected);
    assert_eq!(written.reused, 2_000_000);
}

/// A kind of damage to an image's folder in the cache, with its name.
type Damage<'a> = (&'static str, &'a dyn Fn(&Path));

#[test]
fn damage_in_the_cache_reaches_no_image() {
    let place = Place::new();
    let (large, small) = (place.file(1, 4_000_000), place.file(2, 1_100_000));
    let (files, cache) = ([large.as_path(), small.as_path()], place.cache());
    let (expected, _) = place.image("expected", &build(&files, None));
    let damages: [Damage<'_>; 6] = [
        ("a flipped bit in the middle", &|dir| flip(&dir.join("image"), 600_000)),
        ("a flipped bit in the last block", &|dir| {
            let bytes = expected.len() as u64;
            flip(&dir.join("image"), bytes - bytes / 100);
        }),
        ("a cut image", &|dir| {
            File::options().write(true).open(dir.join("image")).unwrap().set_len(900_000).unwrap();
        }),
        ("a flipped bit in the list", &|dir| flip(&dir.join("files"), 200)),
        ("no image", &|dir| fs::remove_file(dir.join("image")).unwrap()),
        ("no list", &|dir| fs::remove_file(dir.join("files")).unwrap()),
    ];
    for (number, (what, damage)) in damages.iter().enumerate() {
        place.image(&format!("{number}-fresh"), &build(&files, Some(&cache)));
        let [kept] = &place.kept()[..] else { panic!("{what}: {:?}", place.kept()) };
        damage(kept);
        let told = number % 2 == 0;
        let again = Build { told, ..build(&files, Some(&cache)) };
        let (found, written) = place.image(&format!("{number}-again"), &again);
        assert!(found == expected, "{what}");
        assert!(written.reused < 5_100_000, "{what}: nothing was compressed anew");
        // The cache is valid now.
        let (found, written) = place.image(&format!("{number}-last"), &again);
        assert!(found == expected, "{what}");
        assert_eq!(written.reused, 5_100_000, "{what}");
        fs::remove_dir_all(place.path("cache")).unwrap();
    }
}

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

#[test]
fn a_file_that_is_not_what_was_told_makes_no_image() {
    let place = Place::new();
    let (file, cache) = (place.file(1, 2_000_000), place.cache());
    let told: [u8; 32] = blake3::hash(&fs::read(&file).unwrap()).into();
    let write = |blocks: Option<&BlockCache>, name: &str| {
        let mut tree = Rootfs::default();
        let path = RootPath::new("x").unwrap();
        tree.add(Layer::Cuda, &path, 0o755, What::File(source(&file, Some(told)))).unwrap();
        let contents = build(&[], blocks);
        let cancel = AtomicBool::new(false);
        write_image(&tree, &contents.contents(), &place.path(name), &|_| {}, &cancel)
    };
    let first = write(Some(&cache), "first").unwrap();
    assert_eq!(first.reused, 0);
    flip(&file, 1_000_000);
    // The cache has the blocks of what was told, and reads no file for them …
    assert_eq!(write(Some(&cache), "second").unwrap().reused, 2_000_000);
    assert!(fs::read(place.path("first")).unwrap() == fs::read(place.path("second")).unwrap());
    // … but where it is damaged or not used, the file is looked at.
    flip(&place.kept()[0].join("image"), 400_000);
    for (blocks, name) in [(Some(&cache), "third"), (None, "fourth")] {
        let error = write(blocks, name).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        assert!(!place.path(name).exists());
    }
}

#[test]
fn the_cache_stays_within_its_bytes_and_drops_what_a_newer_image_has() {
    let place = Place::new();
    let lib = place.file(1, 4_000_000);
    let programs: Vec<_> = (2..5).map(|seed| place.file(seed, 1_100_000)).collect();
    let others: Vec<_> = (5..8).map(|seed| place.file(seed, 2_000_000)).collect();
    let cache = place.cache();
    let one = |name: &str, files: &[&Path], cache: &BlockCache| {
        place.image(name, &build(files, Some(cache))).1
    };
    // Each image has blocks that no other one has, so all are kept.
    for (number, program) in programs.iter().enumerate() {
        one(&format!("small-{number}"), &[program, &others[0]], &cache);
    }
    assert_eq!(place.kept().len(), 3);
    // An image that has all of those blocks makes the others unnecessary.
    let all: Vec<&Path> =
        programs.iter().chain(&others).map(PathBuf::as_path).chain([lib.as_path()]).collect();
    let bytes = one("all", &all, &cache).bytes;
    assert_eq!(place.kept().len(), 1);

    let tight = BlockCache::new(&place.path("cache"), bytes + 1000);
    one("next", &[&place.file(9, 1_100_000)], &tight);
    let [kept] = &place.kept()[..] else { panic!("{:?}", place.kept()) };
    assert!(fs::metadata(kept.join("image")).unwrap().len() < bytes);
    let none = BlockCache::new(&place.path("none"), 1000);
    assert!(one("unkept", &[&lib], &none).not_kept.is_none());
    assert!(!place.path("none").exists());
}

#[test]
fn several_may_write_at_once() {
    let place = Place::new();
    let lib = place.file(1, 3_000_000);
    let programs: Vec<_> = (2..6).map(|seed| place.file(seed, 1_100_000)).collect();
    let image = |(number, program): (usize, &PathBuf)| {
        place.image(&format!("expected-{number}"), &build(&[&lib, program], None)).0
    };
    let expected: Vec<_> = programs.iter().enumerate().map(image).collect();
    for round in 0..3 {
        thread::scope(|scope| {
            for (number, program) in programs.iter().enumerate() {
                let (place, lib, expected) = (&place, &lib, &expected);
                scope.spawn(move || {
                    // The cache has space for two images, so the threads also remove each other's.
                    let cache = BlockCache::new(&place.path("cache"), 5_000_000);
                    let name = format!("{round}-{number}");
                    let files = [lib.as_path(), program.as_path()];
                    let (found, _) = place.image(&name, &build(&files, Some(&cache)));
                    assert!(found == expected[number], "{name}");
                });
            }
        });
    }
    assert!(!place.kept().is_empty());
    assert!(place.kept().iter().all(|path| !path.to_string_lossy().contains(".part-")));
}

#[test]
fn a_cache_on_another_file_system_holds_a_copy() {
    let place = Place::new();
    let shm = Path::new("/dev/shm");
    let device = |path: &Path| fs::metadata(path).map(|m| m.dev()).ok();
    if device(shm).is_none() || device(shm) == device(place.dir.path()) {
        eprintln!("skipped: /dev/shm is not a file system of its own");
        return;
    }
    let dir = tempfile::tempdir_in(shm).unwrap();
    let (file, cache) = (place.file(1, 1_300_000), BlockCache::new(dir.path(), ENOUGH));
    let (first, written) = place.image("a", &build(&[&file], Some(&cache)));
    assert!(written.not_kept.is_none());
    assert_eq!(fs::metadata(place.path("a")).unwrap().nlink(), 1);
    let (second, written) = place.image("b", &build(&[&file], Some(&cache)));
    assert!(first == second);
    assert_eq!(written.reused, 1_300_000);
}

#[test]
fn an_image_is_made_where_no_cache_can_be() {
    let place = Place::new();
    let file = place.file(1, 1_300_000);
    let (expected, _) = place.image("expected", &build(&[&file], None));
    fs::write(place.path("cache"), "a file").unwrap();
    let (found, written) = place.image("found", &build(&[&file], Some(&place.cache())));
    assert!(found == expected);
    assert!(matches!(written.not_kept, Some(Error::Io(_))), "{written:?}");
}

#[test]
fn it_says_how_far_it_is_and_can_be_stopped() {
    let place = Place::new();
    let (file, cache) = (place.file(1, 6_000_000), place.cache());
    let files = [file.as_path()];
    for round in 0..2 {
        let (told, cancel) = (AtomicU64::new(0), AtomicBool::new(false));
        let heard = |done: u64| assert!(told.swap(done, Ordering::Relaxed) <= done);
        let to = place.path(&format!("whole-{round}"));
        build(&files, Some(&cache)).write_watched(&to, &heard, &cancel).unwrap();
        assert_eq!(told.load(Ordering::Relaxed), 6_000_005);

        let stop = |done: u64| cancel.store(done > 1_000_000, Ordering::Relaxed);
        for blocks in [None, Some(&cache)] {
            let before = fs::read_dir(place.dir.path()).unwrap().count();
            let to = place.path("stopped");
            let error = build(&files, blocks).write_watched(&to, &stop, &cancel).unwrap_err();
            assert!(matches!(error, Error::Cancelled), "{error}");
            assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), before);
        }
    }
}

/// Other blocks of the same bytes need another version of the keys, or images
/// would differ with what the cache holds: raise `VERSION` in `blocks/files.rs`.
#[test]
fn compressors_give_the_blocks_they_always_gave() {
    let place = Place::new();
    let file = place.file(1, 3_000_000);
    for (squash, expected) in [
        (Squash::Gzip, "a90044fbda23e27402795864a81b20000dc1dabf1e112ec6c75aa2a1e73b1f49"),
        (Squash::Zstd, "32e21139000e1706b9cd69c9ea89b9c9ed90447ac098ff320540d913216f2e75"),
    ] {
        let name = format!("{squash:?}");
        let (image, _) = place.image(&name, &Build { squash, ..build(&[&file], None) });
        // The objects come after the header, which has the image's identity, and the descriptors.
        let objects = &image[4096 + 48 * 585..];
        assert_eq!(blake3::hash(objects).to_hex().as_str(), expected, "{squash:?}");
    }
}
