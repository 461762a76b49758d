//! MNIST, CIFAR and FER2013 in the files in which they are published, each made small.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::support::{files, options, png, put, run, samples};
use gular_bundle::{Dtype, Split};
use gular_pack::{
    ArchiveLimits, Classes, Error, Inputs, LabelColumn, Labels, OnBadInput, PackReport,
    PlanOptions, SourceError, pack,
};

/// A key, its split, label and pixels.
type Row = (String, Split, i64, Vec<u8>);

/// Packs with these options, and reads all back.
fn packed(source: &Path, plan: PlanOptions) -> Result<(PackReport, Vec<Row>), Error> {
    let out = tempfile::tempdir().unwrap();
    let report = run(source, out.path(), plan, 2)?;
    let (bundle, found) = samples(out.path());
    let (dtype, shape) = bundle.manifest().fields[0].as_fixed().unwrap();
    assert_eq!((dtype, shape), (Dtype::U8, &report.pixels.as_ref().unwrap().shape[..]));
    let rows = found.into_iter().map(|(key, (split, mut values))| {
        let label = values.get(1).map(|v| i64::from_le_bytes(v.as_slice().try_into().unwrap()));
        (key, split, label.unwrap_or(-9), values.swap_remove(0))
    });
    Ok((report, rows.collect()))
}

fn known(source: &Path) -> Result<(PackReport, Vec<Row>), Error> {
    packed(source, PlanOptions::default())
}

fn check_refused(source: &Path, plan: PlanOptions, expected: &str) {
    let error = packed(source, plan).unwrap_err().to_string();
    assert!(error.contains(expected), "{expected}: {error}");
}

fn row(key: &str, split: Split, label: i64, pixels: &[u8]) -> Row {
    (key.to_owned(), split, label, pixels.to_vec())
}

/// An idx file of bytes.
fn idx(sizes: &[u32], numbers: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, u8::try_from(sizes.len()).unwrap()];
    bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend_from_slice(numbers);
    bytes
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// Two training images of 2 x 3 pixels and one test image, as MNIST names them.
fn mnist(dir: &Path) {
    put(dir, "train-images-idx3-ubyte", &idx(&[2, 2, 3], &(0..12).collect::<Vec<u8>>()));
    put(dir, "train-labels-idx1-ubyte", &idx(&[2], &[3, 0]));
    put(dir, "t10k-images-idx3-ubyte", &idx(&[1, 2, 3], &[9; 6]));
    put(dir, "t10k-labels-idx1-ubyte", &idx(&[1], &[2]));
}

fn mnist_rows() -> Vec<Row> {
    vec![
        row("test/0000000", Split::Test, 2, &[9; 6]),
        row("train/0000000", Split::Train, 3, &[0, 1, 2, 3, 4, 5]),
        row("train/0000001", Split::Train, 0, &[6, 7, 8, 9, 10, 11]),
    ]
}

#[test]
fn mnist_is_packed_from_its_idx_files() {
    let dir = tempfile::tempdir().unwrap();
    mnist(dir.path());
    put(dir.path(), "readme.html", b"<html>");
    put(dir.path(), "train-labels-idx1-ubyte.gz", b"not read");
    let (report, rows) = known(dir.path()).unwrap();
    assert_eq!(rows, mnist_rows());
    assert_eq!(
        report.ignored.iter().map(|(e, n)| (e.as_str(), *n)).collect::<Vec<_>>(),
        [("gz", 1), ("html", 1)]
    );
    assert!(report.dataset.unwrap().starts_with("MNIST"));
    let words: Vec<(&str, Split)> =
        report.split_words.iter().map(|(word, split)| (word.as_str(), *split)).collect();
    let test = ("t10k-images-idx3-ubyte", Split::Test);
    assert_eq!(words, [test, ("train-images-idx3-ubyte", Split::Train)]);
    let read = report.pixels.unwrap();
    assert_eq!((read.shape, read.is_transposed), ([2, 3, 1], false));
    assert_eq!(read.labels.unwrap(), "`train-labels-idx1-ubyte`, `t10k-labels-idx1-ubyte`");

    let none = PlanOptions { labels: Labels::None, ..PlanOptions::default() };
    assert_eq!(packed(dir.path(), none).unwrap().1[0].2, -9);
    let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
    let named = PlanOptions { classes: Some(Classes::Names(names)), ..PlanOptions::default() };
    let (report, rows) = packed(dir.path(), named).unwrap();
    assert_eq!(rows, mnist_rows());
    assert!(report.splits[&Split::Test].classes.contains_key("c"));
}

/// torchvision does not exchange rows and columns either.
#[test]
fn images_of_emnist_stay_as_they_are_stored() {
    let (plain, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    mnist(plain.path());
    for (name, bytes) in files(plain.path()) {
        let name = name.to_str().unwrap().replace("t10k", "test");
        put(dir.path(), &format!("emnist-letters-{name}"), &bytes);
    }
    let (report, rows) = known(dir.path()).unwrap();
    assert_eq!((rows, report.pixels.unwrap().is_transposed), (mnist_rows(), true));
}

/// torchvision keeps the packed files beside the unpacked ones.
#[test]
fn mnist_is_found_packed_in_folders_and_in_archives() {
    let (plain, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    mnist(plain.path());
    for (name, bytes) in files(plain.path()) {
        let name = name.to_str().unwrap().to_owned();
        put(dir.path(), &format!("root/MNIST/raw/{name}.gz"), &gzipped(&bytes));
        if name.starts_with('t') && name.contains("labels") {
            put(dir.path(), &format!("root/MNIST/raw/{name}"), &bytes);
        }
        put(dir.path(), &format!("dots/{}", name.replace("-idx", ".idx")), &bytes);
    }
    assert_eq!(known(&dir.path().join("root")).unwrap().1, mnist_rows());
    assert_eq!(known(&dir.path().join("dots")).unwrap().1, mnist_rows());

    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all("MNIST/raw", dir.path().join("root/MNIST/raw")).unwrap();
    let tar = tar.into_inner().unwrap();
    let mut zip = Vec::new();
    let mut archive = rawzip::ZipArchiveWriter::new(&mut zip);
    for (name, bytes) in files(plain.path()) {
        let (mut entry, config) = archive.new_file(name.to_str().unwrap()).start().unwrap();
        let mut writer = config.wrap(&mut entry);
        writer.write_all(&bytes).unwrap();
        let (_, descriptor) = writer.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    for (name, bytes) in [("a.tar", &tar), ("a.tar.gz", &gzipped(&tar)), ("a.zip", &zip)] {
        put(dir.path(), name, bytes);
        assert_eq!(known(&dir.path().join(name)).unwrap().1, mnist_rows(), "{name}");
    }
}

#[test]
fn idx_files_that_do_not_fit_are_refused() {
    let check = |name: &str, bytes: Option<&[u8]>, expected: &str| {
        let dir = tempfile::tempdir().unwrap();
        mnist(dir.path());
        match bytes {
            Some(bytes) => put(dir.path(), name, bytes),
            None => fs::remove_file(dir.path().join(name)).unwrap(),
        }
        check_refused(dir.path(), PlanOptions::default(), expected);
    };
    let labels = "train-labels-idx1-ubyte";
    check(
        labels,
        Some(&idx(&[3], &[0; 3])),
        "it has 3 labels, and `train-images-idx3-ubyte` has 2",
    );
    check(labels, None, "have no labels: `train-labels-idx1-ubyte` is missing");
    check(labels, Some(&[0, 0, 12, 1, 0, 0, 0, 1]), "type 0x0c, expected 0x08");
    let images = "t10k-images-idx3-ubyte";
    check(images, Some(&idx(&[1, 2, 3], &[9; 5])), "it has 21 bytes, its header says 22");
    check(images, Some(&idx(&[1, 3, 2], &[9; 6])), "2 x 3 pixels, those of `train-images");
    check(images, Some(&idx(&[u32::MAX, 0, 3], &[])), "its images have 3 x 0 pixels");
    check(images, Some(b"\x1f\x8bno gzip"), "it cannot be decompressed");
    check(
        "emnist-letters-train-images-idx3-ubyte",
        Some(&[]),
        "several files of images for split `train`, such as `emnist-letters-train-images-idx3-ubyte` and `train-images-idx3-ubyte`",
    );

    let dir = tempfile::tempdir().unwrap();
    mnist(dir.path());
    let file = dir.path().join(images);
    check_refused(&file, PlanOptions::default(), "one of several files that belong together");
    let fractions = vec![(Split::Train, 0.5), (Split::Val, 0.5)];
    let plan = PlanOptions { fractions, ..PlanOptions::default() };
    check_refused(dir.path(), plan, "not from both; the source has `t10k-images-idx3-ubyte`");
    let labels = Labels::Column(LabelColumn::Named("x".to_owned()));
    let plan =
        PlanOptions { labels, inputs: Inputs::Pixels { size: None }, ..PlanOptions::default() };
    check_refused(dir.path(), plan, "idx files have no columns");
    let (labels, size) = (Labels::Column(LabelColumn::Find), Some((3, 2)));
    let plan = PlanOptions { labels, inputs: Inputs::Pixels { size }, ..PlanOptions::default() };
    check_refused(dir.path(), plan, "are said by their files");
    let other = tempfile::tempdir().unwrap();
    put(other.path(), "cat/1.png", &png(1));
    let labels = Labels::Column(LabelColumn::Find);
    let plan =
        PlanOptions { labels, inputs: Inputs::Pixels { size: None }, ..PlanOptions::default() };
    check_refused(other.path(), plan, "no files of pixels with known names");
}

#[test]
fn a_packed_idx_file_may_not_grow_without_limit() {
    let dir = tempfile::tempdir().unwrap();
    mnist(dir.path());
    fs::remove_file(dir.path().join("t10k-images-idx3-ubyte")).unwrap();
    put(dir.path(), "t10k-images-idx3-ubyte.gz", &gzipped(&idx(&[400, 100, 100], &[0; 4_000_000])));
    let archive = ArchiveLimits { total_bytes: 3 << 20, ..ArchiveLimits::default() };
    let plan = PlanOptions { archive, ..PlanOptions::default() };
    let error = packed(dir.path(), plan).unwrap_err();
    assert!(matches!(error, Error::Source(SourceError::Expands { .. })), "{error}");
}

/// The pixels of an image of CIFAR as they are stored, a channel after the other, and as they are
/// packed.
fn planes(i: u8) -> (Vec<u8>, Vec<u8>) {
    let planes: Vec<u8> = (0..3072_u32).map(|p| (p / 5) as u8 ^ i).collect();
    let pixels = (0..1024).flat_map(|p| [planes[p], planes[1024 + p], planes[2048 + p]]).collect();
    (planes, pixels)
}

/// A batch as Python 2 pickled it, with labels of each name.
fn batch(labels: &[(&str, &[u8])], images: &[u8]) -> Vec<u8> {
    let n = u8::try_from(images.len()).unwrap();
    let mut bytes = b"\x80\x02}q\x01(".to_vec();
    for (name, labels) in labels {
        bytes.extend([b'U', u8::try_from(name.len()).unwrap()]);
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b"q\x02]q\x03(");
        bytes.extend(labels.iter().flat_map(|label| [b'K', *label]));
        bytes.push(b'e');
    }
    bytes.extend_from_slice(
        b"U\x04dataq\x04cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87Rq\x07(K\x01K",
    );
    bytes.push(n);
    bytes.extend_from_slice(
        b"M\x00\x0c\x86cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87Rq\x09(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T",
    );
    bytes.extend((u32::from(n) * 3072).to_le_bytes());
    images.iter().for_each(|i| bytes.extend(planes(*i).0));
    bytes.extend_from_slice(b"tbu.");
    bytes
}

/// A pickle with one list of texts of each name.
fn meta(lists: &[(&str, &[&str])]) -> Vec<u8> {
    let mut bytes = b"(dp1\n".to_vec();
    for (name, texts) in lists {
        bytes.extend(format!("S'{name}'\np2\n(lp3\n").bytes());
        texts.iter().for_each(|text| bytes.extend(format!("S'{text}'\na").bytes()));
        bytes.push(b's');
    }
    bytes.push(b'.');
    bytes
}

fn image(key: &str, split: Split, label: i64, i: u8) -> Row {
    row(key, split, label, &planes(i).1)
}

#[test]
fn cifar_10_is_packed_from_pickles_and_binary_files() {
    let expected = [
        image("test/0000000", Split::Test, 1, 9),
        image("train/0000000", Split::Train, 2, 1),
        image("train/0000001", Split::Train, 0, 2),
        image("train/0000002", Split::Train, 1, 3),
    ];
    let names = ["plane", "car", "bird"];
    let (python, binary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let put_batch = |name: &str, labels: &[u8], images: &[u8]| {
        let path = format!("cifar-10-batches-py/{name}");
        put(python.path(), &path, &batch(&[("labels", labels)], images));
        let rows = labels
            .iter()
            .zip(images)
            .flat_map(|(label, i)| std::iter::once(*label).chain(planes(*i).0));
        put(binary.path(), &format!("{name}.bin"), &rows.collect::<Vec<u8>>());
    };
    put_batch("data_batch_1", &[2, 0], &[1, 2]);
    put_batch("data_batch_2", &[1], &[3]);
    put_batch("test_batch", &[1], &[9]);
    put(python.path(), "cifar-10-batches-py/batches.meta", &meta(&[("label_names", &names)]));
    put(python.path(), "cifar-10-batches-py/readme.html", b"<html>");
    put(binary.path(), "batches.meta.txt", b"plane\ncar\nbird\n\n");
    for source in [python.path(), binary.path()] {
        let (report, rows) = known(source).unwrap();
        assert_eq!(rows, expected);
        assert_eq!(report.dataset.as_deref().map(|d| d.starts_with("CIFAR-10,")), Some(true));
        // The order of the file counts, not that of the alphabet.
        let classes = &report.splits[&Split::Train].classes;
        assert_eq!(
            classes.iter().map(|(c, n)| (c.as_str(), *n)).collect::<Vec<_>>(),
            [("bird", 1), ("car", 1), ("plane", 1)]
        );
    }
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all(".", python.path()).unwrap();
    let archive = binary.path().join("cifar-10-python.tar.gz");
    fs::write(&archive, gzipped(&tar.into_inner().unwrap())).unwrap();
    assert_eq!(known(&archive).unwrap().1, expected);

    put(binary.path(), "batches.meta.txt", b"plane\ncar\n");
    check_refused(
        binary.path(),
        PlanOptions::default(),
        "the label 2, and there are 2 class names",
    );
    put(binary.path(), "data_batch_2.bin", &[0; 3072]);
    check_refused(binary.path(), PlanOptions::default(), "3072 bytes, expected a multiple of 3073");
    put(python.path(), "cifar-10-batches-py/data_batch_2", b"cos\nsystem\n(S'true'\ntR.");
    check_refused(python.path(), PlanOptions::default(), "does not begin as a pickle");
    put(python.path(), "cifar-10-batches-py/data_batch_2", b"(cos\nsystem\n(S'true'\ntR.");
    check_refused(python.path(), PlanOptions::default(), "it calls `os.system`");
    let two = batch(&[("labels", &[1, 2])], &[3]);
    put(python.path(), "cifar-10-batches-py/data_batch_2", &two);
    check_refused(python.path(), PlanOptions::default(), "it has 2 labels and 1 images");
    put(python.path(), "cifar-10-batches-py/data_batch_2", &batch(&[("x", &[1])], &[3]));
    check_refused(
        python.path(),
        PlanOptions::default(),
        "no list of integers `labels`, but `x`, `data`",
    );
    fs::remove_file(python.path().join("cifar-10-batches-py/data_batch_1")).unwrap();
    check_refused(python.path(), PlanOptions::default(), "`data_batch_1` is missing");
}

#[test]
fn cifar_100_has_fine_labels_and_others_on_request() {
    let (python, binary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let put_batch = |name: &str, coarse: u8, fine: u8, i: u8| {
        let labels: [(&str, &[u8]); 2] = [("coarse_labels", &[coarse]), ("fine_labels", &[fine])];
        put(python.path(), name, &batch(&labels, &[i]));
        let row: Vec<u8> = [coarse, fine].into_iter().chain(planes(i).0).collect();
        put(binary.path(), &format!("{name}.bin"), &row);
    };
    put_batch("train", 1, 2, 5);
    put_batch("test", 0, 1, 6);
    let (fine, coarse) = (["apple", "bear", "cup"], ["fruit", "thing"]);
    let lists = [("fine_label_names", &fine[..]), ("coarse_label_names", &coarse[..])];
    put(python.path(), "meta", &meta(&lists));
    put(binary.path(), "fine_label_names.txt", fine.join("\n").as_bytes());
    put(binary.path(), "coarse_label_names.txt", coarse.join("\n").as_bytes());
    let by = |name: &str| PlanOptions {
        inputs: Inputs::Pixels { size: None },
        labels: Labels::Column(LabelColumn::Named(name.to_owned())),
        ..PlanOptions::default()
    };
    for source in [python.path(), binary.path()] {
        let (report, rows) = known(source).unwrap();
        let test = image("test/0000000", Split::Test, 1, 6);
        assert_eq!(rows, [test, image("train/0000000", Split::Train, 2, 5)]);
        let read = report.pixels.unwrap();
        assert_eq!(
            (read.labels.as_deref(), read.other_labels),
            (Some("`fine_labels`"), vec!["coarse_labels".to_owned()])
        );
        let (report, rows) = packed(source, by("coarse_labels")).unwrap();
        assert_eq!(rows.iter().map(|row| row.2).collect::<Vec<_>>(), [0, 1]);
        assert!(report.splits[&Split::Train].classes.contains_key("thing"));
        check_refused(source, by("labels"), "its columns are `fine_labels`, `coarse_labels`");
    }
}

const FACES: &str = "emotion, pixels, Usage\n\
    0,70 80 82 1,Training\n4,1 2 3 4,PublicTest\n2,\"5 6 7 8\",PrivateTest\n0,9 9 9 9,Training\n";

#[test]
fn pixels_as_text_and_splits_of_a_column_are_read() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "fer2013/fer2013.csv", FACES.as_bytes());
    let expected = [
        row("fer2013/0000000", Split::Train, 0, &[70, 80, 82, 1]),
        row("fer2013/0000001", Split::Val, 4, &[1, 2, 3, 4]),
        row("fer2013/0000002", Split::Test, 2, &[5, 6, 7, 8]),
        row("fer2013/0000003", Split::Train, 0, &[9; 4]),
    ];
    let (report, rows) = known(dir.path()).unwrap();
    assert_eq!(rows, expected);
    assert_eq!(report.dataset.as_deref(), Some("FER2013 (Kaggle)"));
    assert_eq!(report.split_words["PublicTest"], Split::Val);
    let read = report.pixels.unwrap();
    assert_eq!(
        (read.labels.as_deref(), read.splits.as_deref(), read.shape),
        (Some("`emotion`"), Some("`Usage`"), [2, 2, 1])
    );
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all(".", dir.path()).unwrap();
    let archive = dir.path().join("fer2013.tar.gz");
    fs::write(&archive, gzipped(&tar.into_inner().unwrap())).unwrap();
    assert_eq!(known(&archive).unwrap().1, expected);
    let table = dir.path().join("fer2013.csv.gz");
    fs::write(&table, gzipped(FACES.as_bytes())).unwrap();
    let labels = Labels::Column(LabelColumn::Find);
    let inputs = Inputs::Pixels { size: None };
    let plan = PlanOptions { labels, inputs, ..PlanOptions::default() };
    assert_eq!(packed(&table, plan).unwrap().1, expected);
}

#[test]
fn bad_rows_of_text_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv");
    let labels = Labels::Column(LabelColumn::Find);
    let inputs = Inputs::Pixels { size: None };
    let plan = PlanOptions { labels, inputs, ..PlanOptions::default() };
    let text = "emotion,pixels,Usage\n0,1 2 3 4,Training\n0,1 2 3,Training\n0,1 2 3 256,Training\n\
                0,1 2 3 4,Other\n0,1 2 3 4\n1,4 3 2 1,PublicTest\n";
    fs::write(&path, text).unwrap();
    let error = packed(&path, plan.clone()).unwrap_err().to_string();
    for expected in [
        "line 3: `pixels` has 3 numbers, that of the first row has 4",
        "line 4: `pixels` is `256`, expected a whole number",
        "line 5: `Usage` is `Other`, expected a word for a split",
        "line 6: it has 2 cells",
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let skip = PlanOptions { on_error: OnBadInput::Skip, ..plan.clone() };
    let (report, rows) = packed(&path, skip).unwrap();
    assert_eq!((report.skipped, rows.len(), rows[1].1), (4, 2, Split::Val));

    fs::write(&path, "age,gender,pixels\n3,1,1 2 3 4\n").unwrap();
    check_refused(&path, plan.clone(), "no column that looks like the column of labels");
    let labels = Labels::Column(LabelColumn::Named("age".to_owned()));
    let (report, rows) = packed(&path, PlanOptions { labels, ..plan.clone() }).unwrap();
    assert_eq!((rows[0].2, report.pixels.unwrap().unused), (3, vec!["gender".to_owned()]));
    fs::write(&path, "emotion,pixels\n3,1 2 3 4 5\n").unwrap();
    check_refused(&path, plan.clone(), "the first row has 5 numbers in `pixels`; expected n x n");
    // A table without splits can be divided.
    fs::write(&path, "emotion,pixels\n3,1 2 3 4\n3,4 3 2 1\n").unwrap();
    let fractions = vec![(Split::Train, 0.5), (Split::Val, 0.5)];
    let (report, _) = packed(&path, PlanOptions { fractions, ..plan }).unwrap();
    assert_eq!(report.splits.len(), 2);
}

#[test]
fn a_dry_run_says_the_same_and_a_second_run_has_nothing_to_do() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    mnist(dir.path());
    let mut dry = options(PlanOptions::default(), 1);
    dry.dry_run = true;
    let planned = pack(dir.path(), out.path(), &dry, &|_| {}, &false.into()).unwrap();
    let report = run(dir.path(), out.path(), PlanOptions::default(), 1).unwrap();
    assert_eq!((planned.samples, &planned.pixels), (3, &report.pixels));
    assert!(run(dir.path(), out.path(), PlanOptions::default(), 1).unwrap().already_done);
}

#[test]
fn qmnist_and_stl_10_are_known() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "qmnist-train-images-idx3-ubyte", &idx(&[2, 2, 3], &[7; 12]));
    let mut labels = vec![0, 0, 12, 2, 0, 0, 0, 2, 0, 0, 0, 2];
    labels.extend([5_i32, 0, 3, 1].iter().flat_map(|label| label.to_be_bytes()));
    put(dir.path(), "qmnist-train-labels-idx2-int", &labels);
    let (_, rows) = known(dir.path()).unwrap();
    assert_eq!([rows[0].2, rows[1].2], [5, 3]);
    put(dir.path(), "qmnist-train-labels-idx2-int", &labels[..20]);
    check_refused(dir.path(), PlanOptions::default(), "it has 20 bytes, its header says 28");
    let dir = tempfile::tempdir().unwrap();
    let image: Vec<u8> = (0..96 * 96 * 3).map(|at| (at % 251) as u8).collect();
    put(dir.path(), "train_X.bin", &[image.clone(), image.clone()].concat());
    put(dir.path(), "train_y.bin", &[2, 1]);
    put(dir.path(), "unlabeled_X.bin", &image);
    put(dir.path(), "class_names.txt", b"airplane\nbird\n");
    let (report, rows) = known(dir.path()).unwrap();
    assert_eq!((report.samples, rows[0].2, rows[1].2), (2, 1, 0));
    // The second pixel of the first row is the first one of the second column.
    let at = |place: usize| (place % 251) as u8;
    assert_eq!(rows[0].3[3..6], [at(96), at(96 * 97), at(2 * 96 * 96 + 96)]);
    put(dir.path(), "train_y.bin", &[2]);
    check_refused(dir.path(), PlanOptions::default(), "it has 1 labels for 2 images");
}
