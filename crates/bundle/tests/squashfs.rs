//! Envelope `squashfs`: the contents of our images, and which images of other tools are read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use gular_bundle::{
    BundlePath, Dtype, Envelope, Error, Field, FieldName, ReadAt, Run, ShardSpec, ShardWriter,
    Split, Survey, Values, rebuild_index, survey,
};
use gular_squashfs::read::{Content, EntryKind, Walk};
use gular_squashfs::write::{Compression, Fragments, Meta, Options, Tree, TreeNode, Writer, Zeros};

fn fields() -> Vec<Field> {
    vec![
        Field::bytes(FieldName::image(), vec!["image/jpeg".into()]),
        Field::label(),
        Field::fixed(FieldName::parse("depth").unwrap(), Dtype::U16, vec![3]),
    ]
}

/// Writes a shard of samples with these keys; returns its bytes and those of its index.
fn shard(keys: &[&str]) -> (Vec<u8>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let fields = fields();
    let spec = ShardSpec::new(Envelope::Squashfs, Split::Train, &fields);
    let mut writer = ShardWriter::create(dir.path(), &spec).unwrap();
    for (i, key) in keys.iter().enumerate() {
        let label = (i as i64 % 5 - 1).to_le_bytes();
        let key = BundlePath::parse(key).unwrap();
        writer.push(&key, &[&jpeg(i), &label, &[i as u8; 6]]).unwrap();
    }
    let entry = writer.finish().unwrap();
    let read = |name: &BundlePath| fs::read(dir.path().join(Path::new(name.as_str()))).unwrap();
    (read(&entry.file.name), read(&entry.index.name))
}

/// Returns bytes that look like a JPEG.
fn jpeg(i: usize) -> Vec<u8> {
    [b"\xff\xd8\xff\xe0".as_slice(), &i.to_le_bytes(), &vec![i as u8; i % 100]].concat()
}

/// Returns path and bytes of every file of an image, all of which must be stored in one range.
fn files(image: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut walk = Walk::new(image).unwrap();
    let mut files = BTreeMap::new();
    while let Some(entry) = walk.next().unwrap() {
        let path = String::from_utf8(entry.path.to_vec()).unwrap();
        match entry.kind {
            EntryKind::Folder => {}
            EntryKind::File { size, content: Content::Run { offset } } => {
                assert_eq!(offset % 64, 0, "{path}");
                let start = offset as usize;
                files.insert(path, image[start..start + size as usize].to_vec());
            }
            kind => panic!("{path}: {kind:?}"),
        }
    }
    files
}

fn list(files: &BTreeMap<String, Vec<u8>>) -> Vec<Vec<String>> {
    let text = std::str::from_utf8(&files["samples.tsv"]).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Checks that the files of each sample are those of the list, and that the index can be made
/// again.
fn check_shard(keys: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let (image, index) = shard(keys);
    assert_eq!(image.len() % 4096, 0);
    let again =
        rebuild_index(&ReadAt::in_memory("s", image.clone()), Envelope::Squashfs, &fields());
    assert_eq!(again.unwrap(), index);
    let files = files(&image);
    let lines = list(&files);
    assert_eq!(lines[0], ["key", "image", "label", "depth"]);
    assert_eq!(lines.len(), keys.len() + 1);
    assert_eq!(files.len(), 2 * keys.len() + 1);
    for (i, (line, key)) in lines[1..].iter().zip(keys).enumerate() {
        let [listed, image, label, depth] = line.as_slice() else { panic!("{line:?}") };
        assert_eq!(listed, key);
        assert_eq!(files[image], jpeg(i), "{key}");
        assert_eq!(*label, (i as i64 % 5 - 1).to_string());
        let array = &files[depth];
        assert!(array.starts_with(b"\x93NUMPY\x01\0") && array.len() % 64 == 6, "{key}");
        assert_eq!(array[array.len() - 6..], [i as u8; 6]);
    }
    files
}

#[test]
fn files_are_named_by_keys() {
    let files = check_shard(&["c/a.jpg", "c/b.JPEG", "d/a.png", "e", ".hidden/x y.jpg", "ü.jpg"]);
    let paths: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    let expected = ["c/a.jpg", "c/b.JPEG", "d/a.png.jpg", "e.jpg", ".hidden/x y.jpg", "ü.jpg"];
    assert!(expected.iter().all(|path| paths.contains(path)), "{paths:?}");
    assert!(paths.contains("c/a.jpg.depth.npy"));
}

#[test]
fn no_folder_has_more_than_1000_files() {
    let keys: Vec<String> = (0..2500).map(|i| format!("cat/img_{i:05}.jpg")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let files = check_shard(&keys);
    let mut folders: BTreeMap<&str, u64> = BTreeMap::new();
    for path in files.keys() {
        *folders.entry(path.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default() += 1;
    }
    assert!(folders.values().all(|n| *n <= 1000), "{folders:?}");
    assert!(files.contains_key("cat/img_000/img_00000.jpg"), "{folders:?}");
}

#[test]
fn files_that_are_folders_of_others_step_aside() {
    let files =
        check_shard(&["a.jpg/b.jpg", "a.jpg", "a~2.jpg", "samples.tsv", "s/samples.tsv/x.jpg"]);
    let lines = list(&files);
    assert_eq!(lines[2][1], "a~3.jpg", "a~2.jpg is the third sample's");
    assert_eq!(lines[4][1], "samples.tsv.jpg");
}

#[test]
fn names_that_no_image_holds_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let fields = fields();
    let spec = ShardSpec::new(Envelope::Squashfs, Split::Train, &fields);
    let mut writer = ShardWriter::create(dir.path(), &spec).unwrap();
    let long = format!("{}.jpg", "x".repeat(252));
    let deep = vec!["12345678"; 455].join("/");
    for key in ["samples.tsv/a.jpg", &long, &deep] {
        let key = BundlePath::parse(key).unwrap();
        let error = writer.push(&key, &[&jpeg(0), &[0; 8], &[0; 6]]).unwrap_err();
        assert!(matches!(error, Error::Value { .. }), "{error}");
    }
    assert_eq!(writer.n_samples(), 0);
}

#[test]
fn paths_that_become_too_long_are_refused_with_their_sample() {
    let refused = |keys: &[String]| {
        let dir = tempfile::tempdir().unwrap();
        let fields = [Field::label(), Field::bytes(FieldName::image(), Vec::new())];
        let spec = ShardSpec::new(Envelope::Squashfs, Split::Train, &fields);
        let mut writer = ShardWriter::create(dir.path(), &spec).unwrap();
        for (i, key) in keys.iter().enumerate() {
            writer.push(&BundlePath::parse(key).unwrap(), &[&[0; 8], &jpeg(i)]).unwrap();
        }
        match writer.finish().unwrap_err() {
            Error::Value { key, reason } => (key, reason),
            error => panic!("{error}"),
        }
    };
    // New folders make paths longer.
    let folder = vec!["f".repeat(255); 15].join("/") + "/" + &"g".repeat(240);
    let keys: Vec<String> = (0..1100).map(|i| format!("{folder}/{i:010}.jpg")).collect();
    assert_eq!(keys[0].len(), 4095);
    let (key, reason) = refused(&keys);
    assert_eq!(key, keys[0]);
    assert!(reason.contains("the limit of 4095"), "{reason}");
    // A file that is renamed to make room for a folder gets a longer name.
    let name = "n".repeat(251) + ".jpg";
    let keys = ["a.jpg".to_owned(), name.clone(), format!("{name}/b.jpg")];
    let (key, reason) = refused(&keys);
    assert_eq!(key, name);
    assert!(reason.contains("257 bytes"), "{reason}");
}

const META: Meta = Meta { mode: 0o644, uid: 0, gid: 0, mtime: 0 };

/// Makes an image as other tools do, and surveys it.
fn foreign(options: Options, files: &[(&str, Vec<u8>)]) -> Result<Survey, Error> {
    let mut writer = Writer::new(Vec::new(), options).unwrap();
    let mut tree = Tree::new(META);
    for (path, bytes) in files {
        let data = writer.data(&mut bytes.as_slice()).unwrap();
        tree.add(path, META, TreeNode::File(data)).unwrap();
    }
    tree.add("c/link.jpg", META, TreeNode::Symlink(b"a.jpg".to_vec())).unwrap();
    let (head, mut image) = writer.finish(&tree).unwrap();
    image[..head.len()].copy_from_slice(&head);
    survey(&ReadAt::in_memory("foreign", image), Envelope::Squashfs)
}

/// Returns the options that correspond to `mksquashfs -noD -noF -no-sparse`.
fn stored() -> Options {
    let mut options = Options::stored();
    options.metadata = Some(Compression::Gzip(9));
    (options.fragments, options.align, options.block_size) = (Fragments::SmallFiles, 1, 4096);
    options
}

fn keys(survey: &Survey) -> Vec<&str> {
    match &survey.column("key").unwrap().values {
        Values::Texts(keys) => keys.iter().map(|key| key.as_deref().unwrap()).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn images_of_a_tree_are_samples() {
    let files = [
        ("c/b.jpg", jpeg(60)),
        ("c/a.PNG", vec![7; 9000]),
        ("d/deep/x.jpeg", jpeg(3)),
        ("c/.a.jpg", jpeg(1)),
        ("README.txt", b"about".to_vec()),
        ("d/empty.jpg", Vec::new()),
    ];
    let found = foreign(stored(), &files).unwrap();
    assert_eq!(keys(&found), ["c/a.PNG", "c/b.jpg", "d/deep/x.jpeg", "d/empty.jpg"]);
    let Values::Bytes(runs) = &found.column("image").unwrap().values else { panic!("{found:?}") };
    let lens: Vec<Option<u64>> = runs.iter().map(|run| run.map(|Run { len, .. }| len)).collect();
    assert_eq!(lens, [Some(9000), Some(72), Some(15), None], "an empty file is not an image");
    let Values::NotStored(others) = &found.column("other files").unwrap().values else {
        panic!("{found:?}")
    };
    assert!(others.contains("3 are not images"), "{others}");
}

#[test]
fn arrays_are_samples_where_there_are_no_images() {
    let array = |i: u8| [header(), vec![i; 4]].concat();
    let found = foreign(stored(), &[("a.npy", array(1)), ("b.npy", array(2))]).unwrap();
    let Values::Fixed { dtype, shape, .. } = &found.column("image").unwrap().values else {
        panic!("{found:?}")
    };
    assert_eq!((*dtype, shape.as_slice()), (Dtype::U8, [2, 2].as_slice()));
}

fn header() -> Vec<u8> {
    let dict = format!("{:117}\n", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }");
    [b"\x93NUMPY\x01\0\x76\0".as_slice(), dict.as_bytes()].concat()
}

#[test]
fn a_list_of_samples_is_followed() {
    let list = |text: &str| ("samples.tsv", text.as_bytes().to_vec());
    let files = [("x/1", jpeg(1)), ("x/2", jpeg(2)), ("x/3.jpg", jpeg(3))];
    let with = |text: &str| {
        let all: Vec<_> = files.iter().cloned().chain([list(text)]).collect();
        foreign(stored(), &all)
    };
    let found = with("key\timage\tlabel\nb.jpg\tx/2\t4\na.jpg\tx/1\t\n").unwrap();
    assert_eq!(keys(&found), ["b.jpg", "a.jpg"]);
    assert_eq!(found.column("label").unwrap().values, Values::Integers(vec![Some(4), None]));
    let words = with("key\timage\tlabel\nb.jpg\tx/2\tcat\n").unwrap();
    assert_eq!(words.column("label").unwrap().values, Values::Texts(vec![Some("cat".into())]));
    for bad in ["key\timage\na\tx/4\n", "key\timage\na\n", "key\timage\na\tx/1"] {
        assert!(matches!(with(bad).unwrap_err(), Error::Malformed { .. }), "{bad:?}");
    }
    // A file with the list's name that is not a list is treated like any other file.
    assert_eq!(keys(&with("id\tscore\n").unwrap()), ["x/3.jpg"]);
    assert_eq!(keys(&with("").unwrap()), ["x/3.jpg"]);
}

#[test]
fn what_is_no_stored_run_is_refused_with_what_repacks_it() {
    let text = ("c/a.jpg", b"text ".repeat(3000));
    let check = |options: Options, word: &str| {
        let error = foreign(options, &[text.clone(), ("c/z.jpg", vec![0; 9000])]).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, Error::NotInPlace { .. }), "{said}");
        assert!(said.contains(word) && said.contains("mksquashfs FOLDER"), "{said}");
    };
    check(Options::default(), "compressed with gzip");
    let mut zstd = Options::default();
    (zstd.data, zstd.metadata) = (Some(Compression::Zstd(3)), Some(Compression::Zstd(3)));
    check(zstd, "compressed with zstd");
    let mut tails = stored();
    tails.fragments = Fragments::Tails;
    check(tails, "its end in a fragment");
    let mut holes = stored();
    holes.zeros = Zeros::Holes;
    check(holes, "1 of its 2 images are not stored in one piece: `c/z.jpg` has blocks of zeros");
    let none = foreign(stored(), &[("a.txt", b"x".to_vec())]).unwrap_err();
    assert!(none.to_string().contains("no images"), "{none}");
}
