//! Archives become bundles without being unpacked.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::support::{files, images, jpeg, options, png, put, run};
use gular_bundle::Split;
use gular_pack::{
    ArchiveLimit, ArchiveLimits, Error, Labels, LayoutError, OnBadInput, PackOptions, Pattern,
    PayloadOptions, PlanOptions, RawOptions, SourceError, TableOptions, pack, pack_onto,
};

/// Packs all files below `dir` into a zip, and writes it to `to`.
fn zipped(dir: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let mut bytes = Vec::new();
    let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
    for (i, (name, data)) in files(dir).into_iter().enumerate() {
        // Every second member is stored uncompressed.
        let method = [rawzip::CompressionMethod::STORE, rawzip::CompressionMethod::DEFLATE][i % 2];
        let (mut entry, config) =
            archive.new_file(name.to_str().unwrap()).compression_method(method).start().unwrap();
        let descriptor = if i % 2 == 0 {
            let mut writer = config.wrap(&mut entry);
            writer.write_all(&data).unwrap();
            writer.finish().unwrap().1
        } else {
            let encoder =
                flate2::write::DeflateEncoder::new(&mut entry, flate2::Compression::fast());
            let mut writer = config.wrap(encoder);
            writer.write_all(&data).unwrap();
            let (encoder, descriptor) = writer.finish().unwrap();
            encoder.finish().unwrap();
            descriptor
        };
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    fs::write(to, bytes).unwrap();
}

fn tarred(dir: &Path) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all(".", dir).unwrap();
    tar.into_inner().unwrap()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// Compresses with the level that is best for zeros.
fn gzipped_well(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn every_archive_gives_the_folders_bundle() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    put(source.path(), "train/readme.txt", b"hello");
    put(source.path(), ".hidden/cat/x.jpg", &jpeg(1));
    let long = format!("train/cat/{}.jpg", "n".repeat(140));
    put(source.path(), &long, &jpeg(99));
    run(source.path(), &dir.path().join("folder"), PlanOptions::default(), 2).unwrap();
    let expected = files(&dir.path().join("folder"));
    zipped(source.path(), &dir.path().join("a.zip"));
    let tar = tarred(source.path());
    fs::write(dir.path().join("a.tar"), &tar).unwrap();
    fs::write(dir.path().join("a.tgz"), gzipped(&tar)).unwrap();
    fs::write(dir.path().join("a.tar.zst"), zstd::encode_all(tar.as_slice(), 1).unwrap()).unwrap();
    for name in ["a.zip", "a.tar", "a.tgz", "a.tar.zst"] {
        for jobs in [1, 3] {
            let out = dir.path().join(format!("{name}.{jobs}"));
            let report = run(&dir.path().join(name), &out, PlanOptions::default(), jobs).unwrap();
            assert_eq!(report.samples, 61);
            assert!(files(&out) == expected, "{name}");
            let again = run(&dir.path().join(name), &out, PlanOptions::default(), jobs).unwrap();
            assert!(again.already_done);
        }
    }
}

#[test]
fn a_finished_bundle_is_known_again_without_the_folder_for_dry_runs() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let (archive, out) = (dir.path().join("a.tgz"), dir.path().join("out"));
    fs::write(&archive, gzipped(&tarred(source.path()))).unwrap();
    let again = || {
        let temp_dir = dir.path().join("missing");
        let options = PackOptions { temp_dir, ..options(PlanOptions::default(), 1) };
        pack(&archive, &out, &options, &|_| {}, &AtomicBool::new(false)).unwrap()
    };
    assert!(!again().already_done);
    assert!(again().already_done);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "something was left");
}

#[test]
fn folders_around_all_images_are_read_as_in_a_folder() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(source.path(), "README.md", b"hello");
    put(source.path(), "__MACOSX/data/cat/x.jpg", &jpeg(1));
    // Everything in one folder, and in two.
    for (around, from) in [("data", ""), ("data/brain", ""), ("only", "train")] {
        let place = source.path().join(around.split('/').next().unwrap());
        images(&dir.path().join("made"));
        fs::create_dir_all(source.path().join(around).parent().unwrap()).unwrap();
        fs::rename(dir.path().join("made").join(from), source.path().join(around)).unwrap();
        fs::remove_dir_all(dir.path().join("made")).ok();
        zipped(source.path(), &dir.path().join("a.zip"));
        fs::write(dir.path().join("a.tgz"), gzipped(&tarred(source.path()))).unwrap();
        for labels in [Labels::Path, Labels::None] {
            let plan = || PlanOptions { labels: labels.clone(), ..PlanOptions::default() };
            let packed = |from: &Path, plan| {
                let out = tempfile::tempdir().unwrap();
                run(from, &out.path().join("out"), plan, 2).unwrap()
            };
            let expected = packed(source.path(), plan());
            let n = expected.splits[&Split::Train].classes.len();
            assert!(n == 3 || labels == Labels::None, "{around}: {n}");
            for name in ["a.zip", "a.tgz"] {
                let found = packed(&dir.path().join(name), plan());
                assert_eq!((found.digest, &found.images), (expected.digest, &expected.images));
                // What was printed is given back.
                let images = found.images.iter().map(|text| text.parse().unwrap()).collect();
                let given = packed(&dir.path().join(name), PlanOptions { images, ..plan() });
                assert_eq!(given.digest, found.digest, "{around}: {:?}", found.images);
            }
        }
        fs::remove_dir_all(place).unwrap();
    }
}

#[test]
fn one_class_with_folders_in_it_is_refused_and_one_folder_around_told() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let packed = |name: &str| {
        let out = out.path().join(name.replace('/', "-"));
        run(&source.path().join(name), &out, PlanOptions::default(), 1)
    };
    for name in ["x/data/cat/1.jpg", "x/data/dog/2.jpg", "y/train/all/cat/1.jpg"] {
        put(source.path(), name, &jpeg(1));
    }
    let around = packed("x").unwrap();
    assert_eq!(around.images, ["data/{label}/{key}.{ext}"]);
    assert_eq!(around.splits[&Split::Train].classes.len(), 2);
    assert!(around.doubts[0].text.contains("all images are below `data`"), "{:?}", around.doubts);
    let error = packed("y").unwrap_err().to_string();
    assert!(error.contains("such as those in `train/all`"), "{error}");
    assert_eq!(packed("x/data").unwrap().doubts, []);
}

#[test]
fn pixels_come_out_of_archives_as_out_of_folders() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for i in 0..9 {
        put(source.path(), &format!("c/{i}.png"), &png(i));
    }
    zipped(source.path(), &dir.path().join("a.zip"));
    let plan = || PlanOptions {
        payload: PayloadOptions::Raw(RawOptions::new(8, 8)),
        ..PlanOptions::default()
    };
    let digest = |source: &Path, out: &str| {
        run(source, &dir.path().join(out), plan(), 2).unwrap().digest.unwrap()
    };
    assert_eq!(digest(source.path(), "x"), digest(&dir.path().join("a.zip"), "y"));
}

/// Packs an archive of these bytes; what is said, and nothing is left behind.
fn refused(name: &str, bytes: &[u8], limits: ArchiveLimits) -> Error {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(name), bytes).unwrap();
    let plan =
        PlanOptions { archive: limits, on_error: OnBadInput::Skip, ..PlanOptions::default() };
    let out = dir.path().join("out");
    let error = run(&dir.path().join(name), &out, plan, 1).unwrap_err();
    assert!(!out.exists(), "{error}: something was left");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{error}: something was left");
    error
}

/// A tar whose one bad member is between two good ones.
fn tar_with(name: &[u8], kind: tar::EntryType) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut member = |name: &[u8], kind| {
        let mut header = tar::Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(if kind == tar::EntryType::Regular { 3 } else { 0 });
        header.as_old_mut().linkname[..4].copy_from_slice(b"/etc");
        header.set_cksum();
        let data: &[u8] = if kind == tar::EntryType::Regular { b"abc" } else { b"" };
        tar.append(&header, data).unwrap();
    };
    member(b"a/good.jpg", tar::EntryType::Regular);
    member(name, kind);
    member(b"b/good.jpg", tar::EntryType::Regular);
    tar.into_inner().unwrap()
}

#[test]
fn hostile_members_are_named() {
    use tar::EntryType as T;
    let check = |name: &[u8], kind: T, member: &str, reason: &str| {
        let tar = tar_with(name, kind);
        for (file, bytes) in [("x.tar", tar.clone()), ("x.tar.gz", gzipped(&tar))] {
            let text = refused(file, &bytes, ArchiveLimits::default()).to_string();
            assert!(text.contains(&format!("`{member}`")) && text.contains(reason), "{text}");
        }
    };
    check(b"../x.jpg", T::Regular, "../x.jpg", "not a safe path");
    check(b"/x.jpg", T::Regular, "/x.jpg", "not a safe path");
    check(b"a/../../x.jpg", T::Regular, "a/../../x.jpg", "not a safe path");
    check(b"c\\x.jpg", T::Regular, "c\\x.jpg", "not a safe path");
    check(b"../", T::Directory, "../", "not a safe path");
    check(b"\xff.jpg", T::Regular, "\u{fffd}.jpg", "not UTF-8");
    check(b"a/x.jpg", T::Symlink, "a/x.jpg", "it is a link");
    check(b"a/x.jpg", T::Link, "a/x.jpg", "it is a link");
    check(b"a/x.jpg", T::Char, "a/x.jpg", "not a plain file");
    check(b"a/x.jpg", T::Fifo, "a/x.jpg", "not a plain file");
    check(b"./a/good.jpg", T::Regular, "a/good.jpg", "two files of this name");
}

/// Returns a zip of uncompressed members.
fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
    for (name, data) in members {
        let (mut entry, config) = archive
            .new_file(name)
            .compression_method(rawzip::CompressionMethod::STORE)
            .start()
            .unwrap();
        let mut writer = config.wrap(&mut entry);
        writer.write_all(data).unwrap();
        let (_, descriptor) = writer.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    bytes
}

/// A zip of one stored member, whose directory says otherwise where `change` makes it.
fn zip_with(name: &str, data: &[u8], change: &dyn Fn(&mut [u8], usize)) -> Vec<u8> {
    let mut bytes = zip_of(&[(name, data)]);
    let directory = bytes.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
    change(&mut bytes, directory);
    bytes
}

#[test]
fn damaged_and_hostile_zips_are_refused() {
    let limits = ArchiveLimits::default();
    let set = |at: usize, new: &'static [u8]| {
        move |bytes: &mut [u8], directory: usize| {
            bytes[directory + at..directory + at + new.len()].copy_from_slice(new);
        }
    };
    let check = |bytes: &[u8], expected: &str| {
        let text = refused("x.zip", bytes, limits).to_string();
        assert!(text.contains(expected), "{text}: no `{expected}`");
    };
    let image = jpeg(3);
    check(&zip_with("a/x.jpg", &image, &set(8, &[1])), "`a/x.jpg`: it is encrypted");
    check(&zip_with("a/x.jpg", &image, &set(10, &[14])), "by a method other than deflate");
    let swollen = |bytes: &mut [u8], at: usize| {
        bytes[at + 10] = 8;
        bytes[at + 24..at + 28].copy_from_slice(&3_u32.to_le_bytes());
    };
    check(&zip_with("a/x.jpg", &[0; 5000], &swollen), "far more bytes compressed than unpacked");
    // The entry was made by Unix, and is a link.
    let link = |bytes: &mut [u8], at: usize| {
        bytes[at + 5] = 3;
        bytes[at + 40..at + 42].copy_from_slice(&0o120_777_u16.to_le_bytes());
    };
    check(&zip_with("a/x.jpg", &image, &link), "`a/x.jpg`: it is a link");
    let up = |bytes: &mut [u8], at: usize| bytes[at + 46..at + 49].copy_from_slice(b"../");
    check(&zip_with("abcx.jpg", &image, &up), "`../x.jpg`");
    let mut cut = zip_with("a/x.jpg", &image, &|_, _| {});
    cut.truncate(cut.len() - 30);
    let error = refused("x.zip", &cut, limits);
    assert!(matches!(error, Error::Source(SourceError::BadArchive { .. })), "{error}");
    let names = ["a/x.jpg", "b/x.jpg", "a/x.jpg"];
    let twice = zip_of(&names.map(|name| (name, image.as_slice())));
    check(&twice, "`a/x.jpg`: the archive has two files of this name");
    let crc = zip_with("a/x.jpg", &image, &set(16, &[1, 2, 3, 4]));
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x.zip"), crc).unwrap();
    let error = run(&dir.path().join("x.zip"), &dir.path().join("o"), PlanOptions::default(), 1);
    let text = error.unwrap_err().to_string();
    assert!(text.contains("`a/x.jpg`") && text.contains("CRC-32"), "{text}");
}

#[test]
fn archives_that_expand_too_far_are_refused_before_anything_is_packed() {
    let check = |name: &str, bytes: &[u8], limits: ArchiveLimits, expected: ArchiveLimit| {
        let error = refused(name, bytes, limits);
        assert!(
            matches!(error, Error::Source(SourceError::Expands { limit, .. }) if limit == expected),
            "{error}"
        );
    };
    let limits = ArchiveLimits::default();
    let bomb = gzipped_well(&vec![0; 64 << 20]);
    check("x.tar.gz", &bomb, limits, ArchiveLimit::Ratio);
    check(
        "x.tar.gz",
        &bomb,
        ArchiveLimits { ratio: 5000, total_bytes: 1 << 20, ..limits },
        ArchiveLimit::Total,
    );
    let plain = zip_with("a/x.jpg", &jpeg(3), &|_, _| {});
    check("x.zip", &plain, ArchiveLimits { member_bytes: 10, ..limits }, ArchiveLimit::Member);
    check("x.zip", &plain, ArchiveLimits { total_bytes: 10, ..limits }, ArchiveLimit::Total);
    let long = |bytes: &mut [u8], at: usize| {
        bytes[at + 10] = 8;
        bytes[at + 24..at + 28].copy_from_slice(&(1_u32 << 29).to_le_bytes());
    };
    check("x.zip", &zip_with("a/x.jpg", &jpeg(3), &long), limits, ArchiveLimit::Ratio);
}

#[test]
fn what_is_neither_folder_nor_file_is_refused() {
    let out = tempfile::tempdir().unwrap();
    let error = run(Path::new("/dev/null"), out.path(), PlanOptions::default(), 1).unwrap_err();
    assert!(matches!(error, Error::Source(SourceError::NoSource { .. })), "{error}");
    let pipe = out.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let error = run(&pipe, &out.path().join("out"), PlanOptions::default(), 1).unwrap_err();
    assert!(matches!(error, Error::Source(SourceError::NoSource { .. })), "{error}");
}

#[test]
fn cut_archives_are_named() {
    let tar = tar_with(b"a/x.jpg", tar::EntryType::Regular);
    let check = |name: &str, bytes: &[u8]| {
        let error = refused(name, bytes, ArchiveLimits::default());
        assert!(matches!(error, Error::Source(SourceError::BadArchive { .. })), "{error}");
    };
    check("x.tar", &tar[..514]);
    // Each member takes 1024 bytes, so the tar is cut between members, and before its end.
    check("x.tar", &tar[..1024]);
    check("x.tar", &tar[..3072]);
    check("x.tar.zst", &zstd::encode_all(&tar[..2048], 1).unwrap());
    let error = refused("x.tar", &tar[..2048], ArchiveLimits::default()).to_string();
    assert!(error.contains("cut short after file `a/x.jpg`"), "{error}");
    let gz = gzipped(&tar);
    check("x.tar.gz", &gz[..gz.len() - 10]);
    let zst = zstd::encode_all(tar.as_slice(), 1).unwrap();
    check("x.tar.zst", &zst[..zst.len() - 5]);
    let error = refused("x.rar", b"Rar!\x1a\x07", ArchiveLimits::default());
    assert!(matches!(error, Error::Source(SourceError::NoSource { .. })), "{error}");
    let error = refused("x.tar", &[0; 1024], ArchiveLimits::default());
    assert!(matches!(error, Error::Layout(LayoutError::NoImages { .. })), "{error}");
}

#[test]
fn parts_of_archives_and_compressed_images_are_named_for_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let check = |name: &str, bytes: &[u8], expected: &str| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let plan = PlanOptions { labels: Labels::None, ..PlanOptions::default() };
        let error = run(&path, &dir.path().join("out"), plan, 1).unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
    };
    for name in ["train.zip.001", "train.z01", "train.tar.gz.aa"] {
        check(name, b"PK\x03\x04 and what follows", "is one part of an archive");
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&jpeg(1)).unwrap();
    check("a.jpg.gz", &gzip.finish().unwrap(), "is not a folder or an archive");
}

#[test]
fn archives_in_an_archive_are_read_as_their_folders() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let folder = run(source.path(), &dir.path().join("folder"), PlanOptions::default(), 1).unwrap();
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    let each = |split: &str, end: &str| {
        let name = format!("{split}{end}");
        zipped(&source.path().join(split), &dir.path().join(&name));
        match end {
            ".tar" => tarred(&source.path().join(split)),
            ".tar.gz" => gzipped(&tarred(&source.path().join(split))),
            _ => read(&name),
        }
    };
    let tar = |members: &[(&str, Vec<u8>)]| {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, data) in members {
            let mut header = tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, data.as_slice()).unwrap();
        }
        tar.into_inner().unwrap()
    };
    let both = [("train.zip", each("train", ".zip")), ("val.zip", each("val", ".zip"))];
    let as_slices: Vec<(&str, &[u8])> = both.iter().map(|(n, d)| (*n, d.as_slice())).collect();
    // All that is in it is in a folder of its name already.
    let around = tempfile::tempdir().unwrap();
    fs::create_dir(around.path().join("train")).unwrap();
    for class in fs::read_dir(source.path().join("train")).unwrap() {
        let class = class.unwrap();
        fs::create_dir(around.path().join("train").join(class.file_name())).unwrap();
        for file in fs::read_dir(class.path()).unwrap() {
            let path = file.unwrap().path();
            let below = path.strip_prefix(source.path()).unwrap();
            fs::copy(&path, around.path().join(below)).unwrap();
        }
    }
    let plain = tarred(around.path());
    put(around.path(), "LICENSE", b"do what you want");
    put(around.path(), "__MACOSX/train/cat/._0.jpg", b"");
    let with_more = tarred(around.path());
    for (name, bytes) in [
        ("a.zip", zip_of(&as_slices)),
        ("a.tar", tar(&both)),
        (
            "b.tar",
            tar(&[("train.tar", each("train", ".tar")), ("val.tgz", each("val", ".tar.gz"))]),
        ),
        ("c.tar.gz", gzipped(&tar(&[("train.tar", plain), both[1].clone()]))),
        ("d.tar", tar(&[("train.tar", with_more), both[1].clone()])),
    ] {
        fs::write(dir.path().join(name), bytes).unwrap();
        let out = dir.path().join(format!("{name}.out"));
        let report = run(&dir.path().join(name), &out, PlanOptions::default(), 2).unwrap();
        assert_eq!(report.digest, folder.digest, "{name}: {:?}", report.ignored);
    }
    // Beside images, and as files of any kind, they stay closed.
    fs::write(source.path().join("more.zip"), &both[0].1).unwrap();
    zipped(source.path(), &dir.path().join("d.zip"));
    let report =
        run(&dir.path().join("d.zip"), &dir.path().join("d"), PlanOptions::default(), 1).unwrap();
    assert_eq!((report.samples, report.ignored["zip"]), (60, 1));
    let bytes = PlanOptions {
        inputs: gular_pack::Inputs::Bytes,
        labels: Labels::None,
        ..PlanOptions::default()
    };
    let report = run(&dir.path().join("a.zip"), &dir.path().join("e"), bytes, 1).unwrap();
    assert_eq!(report.samples, 2);
    // Damage in the inner archive is found.
    let mut bytes = zip_of(&as_slices);
    bytes[2000] ^= 1;
    let text = refused("x.zip", &bytes, ArchiveLimits::default()).to_string();
    assert!(text.contains("x.zip/train.zip") && text.contains("CRC-32"), "{text}");
    let same = tar(&[("train.zip", both[0].1.clone()), ("train.tar", both[0].1.clone())]);
    let text = refused("x.tar", &same, ArchiveLimits::default()).to_string();
    assert!(text.contains("two archives in it would be unpacked to `train/`"), "{text}");
}

#[test]
fn tables_in_an_archive_are_used_like_those_of_a_folder() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (i, name) in (0..).zip(["a", "b", "c"]) {
        put(source.path(), &format!("set/images/{name}.jpg"), &jpeg(i));
    }
    put(source.path(), "set/labels.csv", b"file,label\na,x\nb,y\nc,x\n");
    put(source.path(), "set/list.txt", b"images/a x\nimages/b y\nimages/c x\n");
    let zip = dir.path().join("t.zip");
    zipped(source.path(), &zip);
    fs::write(dir.path().join("t.tgz"), gzipped(&tarred(source.path()))).unwrap();
    let plan = |file: &Path, lines: Option<&str>| {
        let lines = lines.map(|lines| (file.to_owned(), vec![Pattern::parse_line(lines).unwrap()]));
        let table = TableOptions {
            files: vec![file.to_owned()],
            lines: lines.into_iter().collect(),
            ..TableOptions::default()
        };
        PlanOptions { labels: Labels::Table(table), ..PlanOptions::default() }
    };
    let packed = |from: &Path, plan| {
        let out = tempfile::tempdir().unwrap();
        run(from, &out.path().join("out"), plan, 2)
    };
    for (name, lines) in [("set/labels.csv", None), ("set/list.txt", Some("{path} {label}"))] {
        let expected = packed(source.path(), plan(&source.path().join(name), lines)).unwrap();
        for archive in ["t.zip", "t.tgz"] {
            let archive = dir.path().join(archive);
            let found = packed(&archive, plan(&archive.join(name), lines)).unwrap();
            assert_eq!(found.digest, expected.digest);
        }
    }
    let error = packed(&zip, plan(&zip.join("none.csv"), None)).unwrap_err().to_string();
    assert!(error.contains("t.zip/none.csv"), "{error}");
    // Without options it is found, as every image has a row in it.
    let report = packed(&zip, PlanOptions::default()).unwrap();
    assert_eq!(report.lists, [zip.join("set/labels.csv").display().to_string()]);
    // So does a known dataset.
    put(dir.path(), "pug/train/0a.jpg", &jpeg(1));
    put(dir.path(), "pug/test/0b.jpg", &jpeg(2));
    put(dir.path(), "pug/labels.csv", b"id,breed\n0a,pug\n");
    put(dir.path(), "pug/sample_submission.csv", b"id\n");
    let zip = dir.path().join("pug.zip");
    zipped(&dir.path().join("pug"), &zip);
    let report = packed(&zip, PlanOptions::default()).unwrap();
    assert_eq!((report.samples, report.dataset.is_some()), (1, true));
    // And a new version.
    let base = dir.path().join("base");
    run(&zip, &base, PlanOptions::default(), 1).unwrap();
    put(dir.path(), "pug/train/0c.jpg", &jpeg(3));
    put(dir.path(), "pug/labels.csv", b"id,breed\n0a,pug\n0c,boxer\n");
    zipped(&dir.path().join("pug"), &zip);
    let new = dir.path().join("new");
    let options = options(PlanOptions::default(), 1);
    let report = pack_onto(&base, &zip, &new, &options, &|_| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!((report.unchanged, report.added), (1, 1));
}

#[test]
fn a_folder_of_archives_is_read_as_the_folders_in_them() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (split, first) in [("train", 0), ("test", 4)] {
        let of_split = source.path().join(split);
        (first..first + 4).for_each(|i| put(&of_split, &format!("c{}/{i}.jpg", i % 2), &jpeg(i)));
        zipped(&of_split, &dir.path().join(format!("in/{split}.zip")));
    }
    let packed = |from: &Path, to: &str| {
        run(from, &dir.path().join(to), PlanOptions::default(), 1).unwrap().digest
    };
    let unpacked = packed(source.path(), "a");
    assert_eq!(packed(&dir.path().join("in"), "b"), unpacked);
    // A tar of tars, such as ILSVRC2012_img_train.tar.
    let (inner, tars) = (tempfile::tempdir().unwrap(), dir.path().join("tars"));
    put(inner.path(), "1.JPEG", &jpeg(1));
    for class in ["n01", "n02"] {
        put(&tars, &format!("{class}.tar"), &tarred(inner.path()));
    }
    put(dir.path(), "deep/train.tar", &tarred(&tars));
    let to = dir.path().join("d");
    let report = run(&dir.path().join("deep"), &to, PlanOptions::default(), 1).unwrap();
    assert_eq!((report.samples, report.splits[&Split::Train].classes.len()), (2, 2));
    // Shards of WebDataset, in which archives are no classes.
    for shard in 0..2 {
        let shards = tempfile::tempdir().unwrap();
        put(shards.path(), &format!("{shard}0.jpg"), &jpeg(shard));
        put(shards.path(), &format!("{shard}0.cls"), b"1");
        put(dir.path(), &format!("shards/{shard:05}.tar"), &tarred(shards.path()));
    }
    let error = run(&dir.path().join("shards"), &dir.path().join("e"), PlanOptions::default(), 1);
    assert!(error.unwrap_err().to_string().contains("shards as WebDataset writes them"));
    // With an image beside them, they are files that are left out.
    put(dir.path(), "in/c0/x.jpg", &jpeg(9));
    put(dir.path(), "in/c1/y.jpg", &jpeg(8));
    let report = run(&dir.path().join("in"), &dir.path().join("c"), PlanOptions::default(), 1);
    assert_eq!(report.unwrap().samples, 2);
}

#[test]
fn an_imagefolder_may_be_in_archives() {
    let dir = tempfile::tempdir().unwrap();
    let made = |folder: &str, n: u32| {
        let folder = dir.path().join(folder);
        put(&folder, "1.jpg", &jpeg(n));
        put(&folder, "2.jpg", &jpeg(n + 1));
        put(&folder, "metadata.csv", b"file_name,text\n1.jpg,a thing\n2.jpg,one more\n");
    };
    made("all", 0);
    zipped(&dir.path().join("all"), &dir.path().join("all.zip"));
    made("train", 2);
    made("test", 4);
    for split in ["train", "test"] {
        zipped(&dir.path().join(split), &dir.path().join(format!("both/{split}.zip")));
    }
    for (source, n) in [("all.zip", 2), ("both", 4)] {
        let out = dir.path().join(format!("out {source}"));
        let report = run(&dir.path().join(source), &out, PlanOptions::default(), 1).unwrap();
        assert_eq!((report.samples, report.fields), (n, vec!["text".to_owned()]), "{source}");
    }
}
