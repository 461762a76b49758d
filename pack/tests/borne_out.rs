//! Sources that folders alone leave open, and whose files bear one reading out.

use crate::support::{put, run};
use gular_bundle::{Dtype, FieldName, Split, npy_header};
use gular_codec::{encode_jpeg, encode_png};
use gular_pack::{
    Classes, Error, FieldFiles, Labels, LayoutError, PackReport, PlanOptions, Remedy, RunError,
    TableOptions, WayToRead,
};
use tempfile::TempDir;

fn packed(source: &TempDir) -> Result<PackReport, Error> {
    let out = tempfile::tempdir().unwrap();
    run(source.path(), out.path(), PlanOptions::default(), 1)
}

fn jpeg(i: u8) -> Vec<u8> {
    encode_jpeg(&[i; 12 * 9 * 3], 12, 9, 80).unwrap()
}

fn mask() -> Vec<u8> {
    encode_png(&[1; 12 * 9], 12, 9).unwrap()
}

/// Pictures of one size; those in PNG are masks.
fn folder(files: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (i, name) in (0..).zip(files) {
        let is_mask = name.ends_with(".png");
        put(dir.path(), name, &if is_mask { mask() } else { jpeg(i) });
    }
    dir
}

fn text(report: &PackReport) -> String {
    report.doubts.iter().map(|doubt| format!("{doubt}\n")).collect()
}

fn doubt(source: &TempDir) -> String {
    match packed(source).unwrap_err() {
        Error::Layout(LayoutError::Doubt(doubt)) => doubt.text,
        error => unreachable!("{error}"),
    }
}

#[test]
fn masks_of_all_images_are_taken_and_told() {
    for (files, images, masks) in [
        (
            ["images/1.jpg", "images/2.jpg", "masks/1.png", "masks/2.png"],
            "images/{key}.{ext}",
            "masks/{key}.{ext}",
        ),
        (
            ["Pic/a.jpg", "Pic/b.jpg", "PedMasks/a_mask.png", "PedMasks/b_mask.png"],
            "Pic/{key}.{ext}",
            "PedMasks/{key}_mask.{ext}",
        ),
        (
            ["x_train_in/1.jpg", "x_val_in/2.jpg", "x_train_gt/1.png", "x_val_gt/2.png"],
            "x_{split}_in/{key}.{ext}",
            "x_{split}_gt/{key}.{ext}",
        ),
    ] {
        let report = packed(&folder(&files)).unwrap();
        assert_eq!((report.samples, report.images), (2, vec![images.to_owned()]));
        assert_eq!(report.files, [("mask".to_owned(), masks.to_owned())].into());
        assert_eq!((report.fields, report.leaves_out), (vec!["mask".to_owned()], false));
        assert!(report.doubts[0].text.contains("every image has such a file"));
        let others = &report.doubts[0].readings;
        assert!(others.iter().any(|way| way.images[0].contains("{label}")), "{others:?}");
    }
}

#[test]
fn masks_that_some_images_lack_prove_nothing() {
    let files = ["images/1.jpg", "images/2.jpg", "masks/1.png"];
    assert!(doubt(&folder(&files)).contains("look like parts of the samples"));
    // Those of a test split are left out; those of a split for training are not.
    let files = ["train/in/1.jpg", "train/gt/1.png", "test/in/2.jpg"];
    let report = packed(&folder(&files)).unwrap();
    assert_eq!((report.samples, report.unlabelled, report.leaves_out), (1, 1, true));
    doubt(&folder(&["val/images/1.jpg", "val/gt/1.png", "train/images/2.jpg"]));
}

#[test]
fn a_table_with_a_row_for_each_image_is_taken_and_told() {
    let source = folder(&["images/1.jpg", "images/2.jpg", "images/3.jpg"]);
    put(source.path(), "train.csv", b"id,kind,url\n1,cat,u\n2,dog,v\n3,cat,w\n");
    let report = packed(&source).unwrap();
    assert_eq!(report.columns.as_ref().unwrap().labels.as_deref(), Some("kind"));
    assert!(report.lists[0].ends_with("train.csv") && report.splits.len() == 1);
    assert!(text(&report).contains("each of them has a row"), "{}", text(&report));
    // One row less, or one more, is not all of it.
    put(source.path(), "train.csv", b"id,kind\n1,cat\n2,dog\n");
    assert!(doubt(&source).contains("`images` looks like a part"));
    put(source.path(), "train.csv", b"id,kind\n1,cat\n2,dog\n3,cat\n4,cat\n");
    assert!(doubt(&source).contains("`images` looks like a part"));
    // With masks beside the images, the table is still read.
    let source = folder(&["images/1.jpg", "images/2.jpg", "masks/1.png", "masks/2.png"]);
    put(source.path(), "labels.csv", b"id,kind\n1,cat\n2,dog\n");
    let report = packed(&source).unwrap();
    assert_eq!((report.fields, report.samples), (vec!["kind".to_owned(), "mask".to_owned()], 2));
}

#[test]
fn a_text_whose_first_line_names_columns_is_a_table() {
    let dir = folder(&["images/1.jpg", "images/2.jpg"]);
    put(
        dir.path(),
        "captions.txt",
        b"image|caption\n1.jpg|a fox in the snow\n2.jpg|an elk at night\n",
    );
    assert_eq!(packed(&dir).unwrap().fields, ["caption"]);
}

#[test]
fn a_table_and_lists_of_splits_are_taken_together() {
    let dir = folder(&["images/s1.jpg", "images/s2.jpg", "images/s3.jpg", "images/s4.jpg"]);
    put(dir.path(), "train.txt", b"s1\ns2\n");
    put(dir.path(), "test.txt", b"s3\ns4\n");
    put(
        dir.path(),
        "labels.csv",
        b"id,species,height\ns1,oak,1.5\ns2,elm,2.5\ns3,oak,3.5\ns4,elm,4.5\n",
    );
    let report = packed(&dir).unwrap();
    let of = |split: Split| report.splits[&split].samples;
    assert_eq!((of(Split::Train), of(Split::Test)), (2, 2));
    assert_eq!(report.fields, ["height"]);
}

#[test]
fn boxes_with_two_readings_are_a_question_with_their_table() {
    let dir = folder(&["images/1.jpg", "images/2.jpg"]);
    let rows = "image_id,bbox,label\n1.jpg,1 2 4 5,a\n2.jpg,2 2 5 5,b\n";
    put(dir.path(), "boxes.csv", rows.as_bytes());
    let Err(Error::Layout(LayoutError::Doubt(doubt))) = packed(&dir) else { panic!("taken") };
    assert_eq!(doubt.readings.len(), 2, "{doubt:?}");
    let of_table = |way: &WayToRead| way.tables.as_ref().is_some_and(|all| all.len() == 1);
    assert!(doubt.readings.iter().all(of_table), "{doubt:?}");
}

#[test]
fn numbers_and_texts_that_differ_are_not_classes() {
    let source = folder(&["images/1.jpg", "images/2.jpg", "images/3.jpg"]);
    put(source.path(), "t.csv", b"id,yield,ph\n1,3.5,6.1\n2,4.5,6.2\n3,1.5,6.1\n");
    let report = packed(&source).unwrap();
    assert_eq!(report.fields, ["yield", "ph"]);
    assert!(text(&report).contains("no column has classes"), "{}", text(&report));
    // Two that could be classes are a question.
    put(source.path(), "t.csv", b"id,sort,soil\n1,a,x\n2,a,y\n3,b,x\n");
    assert!(doubt(&source).contains("`images` looks like a part"));
}

#[test]
fn images_without_a_row_are_left_out_by_each_way_of_a_table() {
    let source =
        folder(&["train/1.jpg", "train/1.jpg_face.jpg", "test/2.jpg", "test/2.jpg_face.jpg"]);
    put(source.path(), "gt_train.csv", b"file_name,votes,age\n1.jpg,38,20\n");
    put(source.path(), "gt_test.csv", b"file_name,votes,age\n2.jpg,38,21\n");
    let Err(Error::Layout(LayoutError::Doubt(doubt))) = packed(&source) else { unreachable!() };
    let by_table: Vec<&WayToRead> =
        doubt.readings.iter().filter(|way| way.label_column.is_some()).collect();
    assert!(by_table.len() > 1 && by_table.iter().all(|way| way.leaves_out), "{doubt:?}");
}

#[test]
fn texts_of_any_name_beside_the_images_leave_the_question() {
    let source = folder(&["train/1.jpg", "train/2.jpg", "test/3.jpg"]);
    for name in ["train/1.gt", "train/2.gt", "test/3.gt"] {
        put(source.path(), name, b"0 0 2 3 10 12 0.05\n");
    }
    assert!(doubt(&source).contains("is not in a class folder"));
}

#[test]
fn a_table_of_validation_is_kept_where_that_of_the_test_images_has_no_classes() {
    let source = folder(&["img/1.jpg", "img/2.jpg", "img/3.jpg"]);
    put(source.path(), "train.jsonl", b"{\"img\":\"img/1.jpg\",\"label\":1,\"text\":\"a b\"}\n");
    put(source.path(), "dev.jsonl", b"{\"img\":\"img/2.jpg\",\"label\":0,\"text\":\"a c\"}\n");
    put(source.path(), "test.jsonl", b"{\"img\":\"img/3.jpg\",\"text\":\"a d\"}\n");
    let Err(Error::Layout(LayoutError::Doubt(doubt))) = packed(&source) else { unreachable!() };
    let mut ways = doubt.readings.iter().filter(|way| way.when.contains("have no classes"));
    let tables = ways.next().unwrap().tables.as_ref().unwrap();
    assert!(tables[0].ends_with("train.jsonl={split=train}"), "{tables:?}");
    assert!(tables[1].ends_with("dev.jsonl={split=val}"), "{tables:?}");
}

#[test]
fn tables_that_are_about_no_image_give_way_to_the_one_that_is() {
    let source = folder(&["images/a7.jpg", "images/b7.jpg", "images/a8.jpg", "images/b8.jpg"]);
    put(source.path(), "train_rows.csv", b"rows\n0\n");
    put(source.path(), "valid_rows.csv", b"rows\n1\n");
    put(source.path(), "meta.csv", b"left,right,kind\na7.jpg,b7.jpg,x\na8.jpg,b8.jpg,y\n");
    let Err(Error::Layout(LayoutError::Doubt(doubt))) = packed(&source) else { unreachable!() };
    let table = source.path().join("meta.csv").display().to_string();
    let keys: Vec<_> = doubt.readings.iter().filter(|way| way.key_column.is_some()).collect();
    assert_eq!(keys.len(), 2, "{doubt:?}");
    assert!(
        keys.iter().all(
            |way| way.tables.as_deref() == Some(std::slice::from_ref(&table)) && way.leaves_out
        )
    );
}

#[test]
fn a_copy_inside_is_left_out_if_it_is_one() {
    let files = ["x/train/a/1.jpg", "x/train/b/2.jpg", "x/test/a/3.jpg"];
    let source = folder(&files);
    for (i, name) in (0..).zip(files) {
        put(source.path(), &name.replace("x/", "x/x/"), &jpeg(i));
    }
    let report = packed(&source).unwrap();
    assert_eq!((report.samples, report.unlabelled), (3, 3));
    assert!(text(&report).contains("`x` is left out"), "{}", text(&report));
    put(source.path(), "x/x/train/a/1.jpg", &[jpeg(0), vec![0]].concat());
    assert!(doubt(&source).contains("it is not clear"));
}

#[test]
fn splits_whose_names_say_nothing_else_are_taken() {
    let files =
        ["abc_train/abc_train/A/1.jpg", "abc_train/abc_train/B/2.jpg", "abc_test/abc_test/3.jpg"];
    let report = packed(&folder(&files)).unwrap();
    let counts: Vec<u64> = report.splits.values().map(|split| split.samples).collect();
    assert_eq!(counts, [2, 1]);
    assert_eq!(report.splits.values().next().unwrap().classes.len(), 2);
    // The folders in them are samples, not classes.
    doubt(&folder(&["s_train/a1/images/a1.jpg", "s_test/b1/images/b1.jpg"]));
}

#[test]
fn what_speaks_against_a_reading_leaves_the_question() {
    // Two folders of masks.
    let files = ["images/1.jpg", "images/2.jpg", "masks/1.png", "masks/2.png"];
    let source = folder(&files);
    for name in ["labels/1.png", "labels/2.png"] {
        put(source.path(), name, &mask());
    }
    doubt(&source);
    // A second table that is about the images, too, with other classes.
    let source = folder(&["images/1.jpg", "images/2.jpg", "images/3.jpg"]);
    put(source.path(), "first.csv", b"id,label\n1,a\n2,a\n3,b\n");
    put(source.path(), "second.csv", b"id,label\n1,b\n2,b\n3,a\n");
    doubt(&source);
    // A table of something else does not count.
    put(source.path(), "second.csv", b"label,name\na,Ant\nb,Bee\n");
    assert!(packed(&source).unwrap().lists[0].ends_with("first.csv"));
    // Names of rows that name images, too.
    put(source.path(), "first.csv", b"id,frame,label\n1,3,a\n2,1,a\n3,2,b\n");
    doubt(&source);
    // Of another person than of the images.
    put(source.path(), "first.csv", b"id,patient_id\n1,7\n2,7\n3,8\n");
    let report = packed(&source).unwrap();
    assert!(text(&report).contains("column `patient_id` says of what"), "{}", text(&report));
    put(source.path(), "first.csv", b"id,hospital,age\n1,A,40\n2,A,50\n3,B,60\n");
    doubt(&source);
    // Texts of numbers are not captions.
    let source = folder(&["1.jpg", "2.jpg"]);
    for name in ["1.txt", "2.txt"] {
        put(source.path(), name, b"0 0.1 0.2 0.3 0.4 0.5 0.6\n");
    }
    doubt(&source);
    put(source.path(), "1.txt", b"a cat on a mat");
    put(source.path(), "2.txt", b"two dogs in the park");
    assert_eq!(packed(&source).unwrap().fields, ["caption"]);
    // Splits whose names differ in something else.
    doubt(&folder(&["train_stations/paris/1.jpg", "test_tubes/x/2.jpg", "test_tubes/y/3.jpg"]));
}

/// Grey pictures that are masks where names say so, whatever their extension.
fn masks(dir: &TempDir, names: &[&str]) {
    for name in names {
        put(dir.path(), name, &mask());
    }
}

#[test]
fn a_single_class_is_a_question() {
    let source = folder(&["crops/26_0_2_2017.jpg", "crops/1_1_0_2016.jpg"]);
    assert_eq!(doubt(&source), "all images have the class `crops`");
    // Where nothing says that there are more, it is taken and told.
    for files in [["x/1.jpg", "x/2.jpg"], ["train/x/1.jpg", "val/x/2.jpg"]] {
        let report = packed(&folder(&files)).unwrap();
        assert!(text(&report).contains("all images have the class `x`"), "{}", text(&report));
    }
    let beside = folder(&["words/1.jpg", "words/2.jpg"]);
    put(beside.path(), "gt.txt", b"words/1.jpg, \"one, two\"\nwords/2.jpg, \"two\"\n");
    assert_eq!(packed(&beside).unwrap().fields, ["text"]);
    // Captions beside the images say what they are for.
    for name in ["crops/26_0_2_2017.txt", "crops/1_1_0_2016.txt"] {
        put(source.path(), name, b"a photo of a face in the sun");
    }
    assert_eq!(packed(&source).unwrap().fields, ["caption"]);
}

#[test]
fn a_table_may_have_the_classes_of_the_test_images() {
    let files = ["train/a/1.jpg", "train/b/2.jpg", "test/3.jpg", "test/4.jpg"];
    let classes = |source: &TempDir| {
        let report = packed(source).unwrap();
        let of_test = &report.splits[&Split::Test];
        (of_test.samples, of_test.classes.values().sum::<u64>())
    };
    let source = folder(&files);
    assert_eq!(classes(&source), (2, 0));
    // What is to be submitted has classes that are examples.
    put(source.path(), "sample_submission.csv", b"id,label\n3,a\n4,a\n");
    assert_eq!(classes(&source), (2, 0));
    put(source.path(), "test.csv", b"id,label\n3,a\n4,b\n");
    assert_eq!(classes(&source), (2, 2));
    // A row too few proves nothing.
    put(source.path(), "test.csv", b"id,label\n3,a\n");
    assert_eq!(classes(&source), (2, 0));
}

#[test]
fn a_list_of_all_that_is_not_for_testing_is_not_a_third_split() {
    let files = ["images/a/1.jpg", "images/b/2.jpg", "images/a/3.jpg", "images/b/4.jpg"];
    let source = folder(&files);
    let list = |name: &str, lines: &[u8]| put(source.path(), name, lines);
    list("splits/trainval.txt", b"a/1.jpg\nb/2.jpg\na/3.jpg\n");
    list("splits/test.txt", b"b/4.jpg\n");
    let samples = |report: &PackReport| -> Vec<u64> {
        report.splits.values().map(|split| split.samples).collect()
    };
    let report = packed(&source).unwrap();
    assert_eq!(samples(&report), [3, 1]);
    assert!(text(&report).contains("`trainval` is read as train"), "{}", text(&report));
    list("splits/train.txt", b"a/1.jpg\nb/2.jpg\n");
    list("splits/val.txt", b"a/3.jpg\n");
    let report = packed(&source).unwrap();
    assert_eq!(samples(&report), [2, 1, 1]);
    assert!(!text(&report).contains("is read as train"), "{}", text(&report));
}

#[test]
fn masks_are_found_by_names_of_any_kind() {
    for (images, of_masks, patterns) in [
        // Folders of masks that are named after those of the images.
        (
            ["F/Sprat/Sprat/1.png", "F/Shrimp/Shrimp/1.png"],
            ["F/Sprat/Sprat GT/1.png", "F/Shrimp/Shrimp GT/1.png"],
            ["F/{*}/{label}/{key}.{ext}", "F/{*}/{label} GT/{key}.{ext}"],
        ),
        // In folders of several places.
        (
            ["train/Rural/images/1.png", "train/Urban/images/1.png"],
            ["train/Rural/masks/1.png", "train/Urban/masks/1.png"],
            ["{split}/{label}/images/{key}.{ext}", "{split}/{label}/masks/{key}.{ext}"],
        ),
        (
            ["train_img/1.jpg", "test_img/2.jpg"],
            ["train_lab/1.png", "test_lab/2.png"],
            ["{split}_img/{key}.{ext}", "{split}_lab/{key}.{ext}"],
        ),
        // Folders with numbers are not classes.
        (
            ["kos01/Part0.jpg", "kos02/Part0.jpg"],
            ["kos01/Part0_label.png", "kos02/Part0_label.png"],
            ["{folder}/{key}.{ext}", "{folder}/{key}_label.{ext}"],
        ),
        (
            ["test/1.jpg", "test/2.jpg"],
            ["test/1_GT.png", "test/2_GT.png"],
            ["{split}/{key}.{ext}", "{split}/{key}_GT.{ext}"],
        ),
        (
            ["crop/1.jpg", "crop/2.jpg"],
            ["crop/1.png", "crop/2.png"],
            ["crop/{key}.jpg", "crop/{key}.png"],
        ),
    ] {
        let source = TempDir::new().unwrap();
        for (i, name) in (0..).zip(images) {
            put(source.path(), name, &jpeg(i));
        }
        masks(&source, &of_masks);
        let report = packed(&source).unwrap_or_else(|error| panic!("{images:?}: {error}"));
        assert_eq!(report.images, [patterns[0]]);
        assert_eq!(report.files["mask"], patterns[1]);
        assert_eq!((report.samples, report.unlabelled), (2, 0), "{patterns:?}");
    }
}

#[test]
fn masks_of_two_kinds_are_a_question() {
    let source = folder(&["images/1_image.jpg", "images/2_image.jpg"]);
    masks(&source, &["manual/1_manual.png", "manual/2_manual.png"]);
    masks(&source, &["mask/1_mask.png", "mask/2_mask.png"]);
    doubt(&source);
    // Those in colours are as likely the right ones.
    for name in ["manual/1_manual.png", "manual/2_manual.png"] {
        put(source.path(), name, &encode_png(&[9; 12 * 9 * 3], 12, 9).unwrap());
    }
    assert!(doubt(&source).contains("the first reading fails"), "{}", doubt(&source));
    // Names of files have words for splits, which are not read.
    let source = folder(&["w/train_1.jpg", "w/train_2.jpg", "w/test_1.jpg"]);
    masks(&source, &["w/train_1_anno.png", "w/train_2_anno.png", "w/test_1_anno.png"]);
    doubt(&source);
    // Two classes by themselves.
    let classes = folder(&["Manual/1.jpg", "Automatic/1.jpg", "lab/1.jpg"]);
    assert_eq!(packed(&classes).unwrap().fields, Vec::<String>::new());
    // One word for masks, and one for nothing else.
    doubt(&folder(&["face/1.png", "face/2.png", "mask/1.png", "mask/2.png"]));
}

#[test]
fn both_forms_of_an_accent_are_one_name() {
    let (one, two) = ("caf\u{e9}", "cafe\u{301}");
    let source = folder(&[&format!("train/{one}/1.jpg"), &format!("test/{two}/2.jpg")]);
    put(source.path(), "train/th\u{e9}/3.jpg", &jpeg(7));
    let report = packed(&source).unwrap();
    let classes = |split| report.splits[&split].classes.keys().cloned().collect::<Vec<_>>();
    assert_eq!(classes(Split::Train), [one, "th\u{e9}"]);
    assert_eq!(classes(Split::Test), [one]);
    // A table of one form, and files of the other.
    let source = folder(&["images/cafe\u{301}.jpg", "images/2.jpg"]);
    put(source.path(), "t.csv", "id,kind\ncaf\u{e9},a\n2,b\n".as_bytes());
    assert_eq!(packed(&source).unwrap().samples, 2);
}

#[test]
fn a_list_of_classes_may_have_another_form_than_its_table() {
    let (one, two) = ("caf\u{e9}", "cafe\u{301}");
    let source = folder(&["1.jpg", "2.jpg", "3.jpg"]);
    for (listed, named) in [(one, one), (one, two), (two, one), (two, two)] {
        put(
            source.path(),
            "t.csv",
            format!("file,kind\n1.jpg,{named}\n2.jpg,th\n3.jpg,th\n").as_bytes(),
        );
        put(source.path(), "classes.list", format!("th\n{listed}\n").as_bytes());
        let files = vec![source.path().join("t.csv")];
        let table = TableOptions { files, ..TableOptions::default() };
        let plan = PlanOptions {
            labels: Labels::Table(table),
            classes: Some(Classes::File(source.path().join("classes.list"))),
            ..PlanOptions::default()
        };
        let out = TempDir::new().unwrap();
        let report = run(source.path(), out.path(), plan, 1).unwrap();
        assert_eq!(report.splits[&Split::Train].classes[one], 1);
    }
}

#[test]
fn all_that_is_not_for_testing_is_left_out_and_told() {
    let mut files = Vec::new();
    for split in ["train/cat", "val/dog", "trainval/cat", "trainval/dog"] {
        files.push(format!("{split}/1.jpg"));
    }
    let source = folder(&files.iter().map(String::as_str).collect::<Vec<_>>());
    let report = packed(&source).unwrap();
    assert_eq!((report.samples, report.splits[&Split::Train].samples), (2, 1));
    assert!(text(&report).contains("`trainval` is left out"), "{}", text(&report));
    // The same for images and masks.
    let source = TempDir::new().unwrap();
    for (i, key) in [(0, "train"), (1, "val"), (0, "trainval"), (1, "trainval")] {
        put(source.path(), &format!("{key}/images/{i}.jpg"), &jpeg(i));
        put(source.path(), &format!("{key}/masks/{i}.png"), &mask());
    }
    let report = packed(&source).unwrap();
    assert_eq!((report.samples, report.splits[&Split::Train].samples), (2, 1));
    let warnings = report.warnings.join("\n");
    assert!(warnings.contains("trainval/images/0.jpg"), "{warnings}");
}

#[test]
fn hints_for_arrays_say_that_they_are() {
    let source = tempfile::tempdir().unwrap();
    for (i, name) in (0..).zip(["train/1.npy", "val/2.npy", "extra/3.npy"]) {
        let file = [npy_header(Dtype::U8, &[2, 2]).as_slice(), &[i; 4]].concat();
        put(source.path(), name, &file);
    }
    let Error::Layout(LayoutError::Doubt(doubt)) = packed(&source).unwrap_err() else { panic!() };
    assert!(doubt.readings.iter().all(|way| way.as_arrays), "{doubt:?}");
    let Error::Layout(LayoutError::Doubt(doubt)) =
        packed(&folder(&["train/1.jpg", "val/2.jpg", "extra/3.jpg"])).unwrap_err()
    else {
        panic!()
    };
    assert!(!doubt.readings.iter().any(|way| way.as_arrays), "{doubt:?}");
}

#[test]
fn what_has_two_readings_is_not_taken_in_silence() {
    // Pictures that may be previews.
    let source = folder(&["a/1.jpg", "b/2.jpg"]);
    for name in ["a/1.tif", "b/2.tif"] {
        put(source.path(), name, b"II*\0");
    }
    let error = packed(&source).unwrap_err().to_string();
    assert!(error.contains("2 pictures beside 2 TIFF"), "{error}");
    // Pairs whose names differ.
    let pairs = folder(&["blur/1.jpg", "blur/2.jpg", "sharp/3.jpg", "sharp/4.jpg"]);
    assert!(doubt(&pairs).contains("are not paired by their order"));
    packed(&folder(&["blur/1.jpg", "blur/2.jpg", "sharp/3.jpg"])).unwrap();
}

#[test]
fn a_row_for_each_patient_says_the_classes() {
    let source = folder(&["P1/1.jpg", "P1/2.jpg", "P2/1.jpg", "P3/1.jpg"]);
    put(
        source.path(),
        "patients.csv",
        b"patient_id,diagnosis\nP1,benign\nP2,malignant\nP3,benign\n",
    );
    let report = packed(&source).unwrap();
    let classes: Vec<&String> = report.splits.values().flat_map(|of| of.classes.keys()).collect();
    assert_eq!(classes, ["benign", "malignant"]);
    // The same, however the column is written.
    for column in ["Patient ID", "patient-id"] {
        let table = format!("{column},diagnosis\nP1,benign\nP2,malignant\nP3,benign\n");
        put(source.path(), "patients.csv", table.as_bytes());
        let report = packed(&source).unwrap();
        let classes = report.splits.values().flat_map(|of| of.classes.keys());
        assert_eq!(classes.collect::<Vec<_>>(), ["benign", "malignant"], "{column}");
    }
    put(
        source.path(),
        "patients.csv",
        b"patient_id,diagnosis\nP1,benign\nP2,malignant\nP3,benign\n",
    );
    // A folder without a row leaves the folders, and is told.
    put(source.path(), "P4/1.jpg", &jpeg(9));
    let report = packed(&source).unwrap();
    assert!(text(&report).contains("has a row for each `patient_id`"), "{}", text(&report));
    assert_eq!(report.splits.values().next().unwrap().classes.len(), 4);
}

#[test]
fn run_lengths_of_masks_have_a_way() {
    let source = folder(&["train_v2/1.jpg", "train_v2/2.jpg"]);
    put(source.path(), "train.csv", b"ImageId,EncodedPixels\n1.jpg,1 3 7 2\n1.jpg,20 4\n2.jpg,\n");
    let Error::Layout(LayoutError::Doubt(doubt)) = packed(&source).unwrap_err() else { panic!() };
    let way = doubt.readings.iter().find(|way| way.convert.is_some()).unwrap();
    assert!(way.when.contains("write `rows` in place of `columns`"), "{}", way.when);
    let arguments = &way.convert.as_ref().unwrap().arguments;
    assert_eq!(arguments[2..5], ["ImageId", "EncodedPixels", "columns"]);
}

#[test]
fn masks_of_jpeg_have_a_way() {
    let source = folder(&["images/1.jpg", "images/2.jpg", "masks/1.jpg", "masks/2.jpg"]);
    assert!(doubt(&source).contains("the first reading fails"));
    let name = FieldName::parse("mask").unwrap();
    let pattern = Some("masks/{key}.jpg".parse().unwrap());
    let plan = PlanOptions {
        images: vec!["images/{key}.jpg".parse().unwrap()],
        labels: Labels::None,
        fields: vec![FieldFiles { name, files: None, pattern }],
        ..PlanOptions::default()
    };
    let out = TempDir::new().unwrap();
    let error = run(source.path(), out.path(), plan, 1).unwrap_err();
    let Error::Run(RunError::BadInputs(bad)) = &error else { panic!("{error}") };
    assert_eq!(bad.named[0].remedy, Remedy::WriteMasks);
}

#[test]
fn a_reading_that_fails_for_some_files_is_offered_without_these() {
    let names = ["b/1.jpg", "b/1_mask.png", "b/1_mask_1.png", "m/2.jpg", "m/2_mask.png"];
    let source = folder(&names);
    let error = packed(&source).unwrap_err();
    let Error::Layout(LayoutError::Doubt(doubt)) = error else { unreachable!("{error:?}") };
    assert!(doubt.text.contains("the first reading fails: `b/1_mask_1.png`"), "{doubt}");
    let skips: Vec<bool> = doubt.readings.iter().map(|way| way.skips_bad).collect();
    assert_eq!(skips, [true, false], "{doubt:?}");
    // Where all fail, nothing would be left.
    for mask in ["b/1_mask.png", "m/2_mask.png"] {
        put(source.path(), mask, &encode_png(&[1; 12 * 9 * 3], 12, 9).unwrap());
    }
    let error = packed(&source).unwrap_err();
    let Error::Layout(LayoutError::Doubt(doubt)) = error else { unreachable!("{error:?}") };
    assert!(doubt.readings.iter().all(|way| !way.skips_bad), "{doubt:?}");
    let source = folder(&["x/1.jpg", "x/2.jpg", "x/3.jpg"]);
    put(source.path(), "t.csv", b"file,label\n1.jpg,a\n2.jpg,b\n");
    let error = packed(&source).unwrap_err();
    let Error::Layout(LayoutError::Doubt(doubt)) = error else { unreachable!("{error:?}") };
    let by_table = doubt.readings.iter().find(|way| way.tables.is_some()).unwrap();
    assert!(by_table.leaves_out && by_table.when.ends_with("what fails is left out"), "{doubt:?}");
}

#[test]
fn of_two_tables_that_of_the_images_is_read() {
    let source = folder(&["train/0.jpg", "train/1.jpg", "train/2.jpg"]);
    put(source.path(), "labels.csv", b"ClassId,Name\n0,stop\n1,go\n");
    put(source.path(), "train.csv", b"Id,ClassId\n0,0\n1,1\n2,0\n");
    let report = packed(&source).unwrap();
    assert!(text(&report).contains("train.csv`, as each row is of one"), "{}", text(&report));
    assert_eq!(report.columns.unwrap().file_names, "Id");
}

/// The question what the files in a folder are.
fn question(dir: &TempDir) -> gular_pack::Doubt {
    match packed(dir).unwrap_err() {
        Error::Layout(LayoutError::Doubt(doubt)) => doubt,
        error => unreachable!("{error}"),
    }
}

#[test]
fn lists_of_amounts_are_fields_and_their_folder_is_no_class() {
    let dir = folder(&["Images/a.jpg", "Images/b.jpg", "Images/c.jpg"]);
    put(dir.path(), "lists/train.txt", b"a.jpg 2.883333\nb.jpg 1.5\n");
    put(dir.path(), "lists/test.txt", b"c.jpg 4.0\n");
    let report = packed(&dir).unwrap();
    assert_eq!((report.fields, report.splits.len()), (vec!["value".to_owned()], 2));
    assert!(report.splits[&Split::Train].classes.is_empty());
    // In any order, where nothing says the splits.
    for line in ["a.jpg 0.5\nb.jpg 0.25\n", "0.5 a.jpg\n0.25 b.jpg\n"] {
        let dir = folder(&["Images/a.jpg", "Images/b.jpg"]);
        put(dir.path(), "scores.txt", line.as_bytes());
        let report = packed(&dir).unwrap();
        assert_eq!((report.fields, report.samples), (vec!["value".to_owned()], 2), "{line}");
    }
}

#[test]
fn lists_of_amounts_beside_classes_are_told() {
    let dir = folder(&["distorted/a_1.jpg", "distorted/a_2.jpg", "original/a.jpg"]);
    put(dir.path(), "mos.txt", b"5.51429 a_1.jpg\n4.1 a_2.jpg\n");
    let report = packed(&dir).unwrap();
    assert!(text(&report).contains("mos.txt` may say more about the images"), "{}", text(&report));
    let ways = report.doubts.iter().flat_map(|doubt| &doubt.readings);
    let lists: Vec<&String> = ways.flat_map(|way| way.tables.iter().flatten()).collect();
    assert!(lists.iter().any(|list| list.ends_with("mos.txt={value} {path}")), "{lists:?}");
}

#[test]
fn a_table_that_begins_with_a_row_is_a_list() {
    let dir = folder(&["images/1.jpg", "images/2.jpg"]);
    put(dir.path(), "urls.csv", b"https://a.b/1.jpg,https://c.d/1.jpg\n");
    put(dir.path(), "boxes_train.csv", b"1.jpg,1,2,5,6,cat,12,9\n");
    put(dir.path(), "boxes_val.csv", b"2.jpg,1,2,5,6,dog,12,9\n");
    let doubt = question(&dir);
    let lists: Vec<&String> = doubt.readings.iter().flat_map(|way| &way.lists).collect();
    let [train, val] = lists.as_slice() else { panic!("{doubt:?}") };
    let line = "{path},{xmin},{ymin},{xmax},{ymax},{label},{width},{height}";
    assert!(train.ends_with(&format!("boxes_train.csv={{split=train}}{line}")), "{train}");
    assert!(val.ends_with(&format!("boxes_val.csv={{split=val}}{line}")), "{val}");
    // A table of the classes has no rows about images.
    let dir = folder(&["images/1.jpg", "images/2.jpg"]);
    put(dir.path(), "a.csv", b"images/1.jpg,1,2,5,6,cow\nimages/2.jpg,1,2,5,6,cow\n");
    put(dir.path(), "classes.csv", b"cow,0\n");
    let tables: Vec<String> =
        question(&dir).readings.into_iter().flat_map(|w| w.tables).flatten().collect();
    assert!(tables[0].ends_with("a.csv={path},{xmin},{ymin},{xmax},{ymax},{label}"), "{tables:?}");
    // What the numbers are, only the user can say.
    assert!(doubt.readings.iter().filter(|way| !way.lists.is_empty()).all(|way| way.asks));
}

#[test]
fn lists_in_a_folder_of_labels_are_no_boxes() {
    let dir = folder(&["images/a/1.jpg", "images/a/2.jpg", "images/b/3.jpg", "images/b/4.jpg"]);
    put(dir.path(), "labels/train.txt", b"a/1.jpg 0\nb/3.jpg 1\n");
    put(dir.path(), "labels/test.txt", b"a/2.jpg 1\nb/4.jpg 0\n");
    let report = packed(&dir).unwrap();
    assert_eq!(report.splits[&Split::Train].classes.len(), 2);
    assert_eq!(report.splits[&Split::Test].samples, 2);
}

#[test]
fn folders_of_splits_with_masks_are_no_classes() {
    let dir = folder(&["traincrop/1.jpg", "traincrop/1.png", "testcrop/2.jpg", "testcrop/2.png"]);
    put(dir.path(), "train.txt", b"traincrop/1.jpg traincrop/1.png\n");
    put(dir.path(), "test.txt", b"testcrop/2.jpg testcrop/2.png\n");
    let report = packed(&dir).unwrap();
    assert_eq!(report.splits.len(), 2);
    assert!(report.fields.contains(&"mask".to_owned()), "{:?}", report.fields);
    assert!(report.splits.values().all(|split| split.classes.is_empty()));
}

#[test]
fn lists_of_some_images_are_offered_without_the_others() {
    let dir = folder(&["x/1.jpg", "x/2.jpg", "x/3.jpg", "y/4.jpg", "y/5.jpg"]);
    put(dir.path(), "TrainImages.txt", b"x/1.jpg\nx/2.jpg\n");
    put(dir.path(), "TestImages.txt", b"y/4.jpg\n");
    let report = packed(&dir).unwrap();
    let ways: Vec<&WayToRead> = report.doubts.iter().flat_map(|doubt| &doubt.readings).collect();
    let by_lists = ways.iter().find(|way| !way.lists.is_empty()).unwrap();
    assert!(by_lists.leaves_out, "{by_lists:?}");
}

#[test]
fn a_table_of_amounts_is_offered_as_fields() {
    let dir = folder(&["im/1.jpg", "im/2.jpg", "im/3.jpg", "im/4.jpg"]);
    put(dir.path(), "t.csv", b"id,boneage,male\n1,180,True\n2,12,False\n3,94,True\n4,94,False\n");
    let ways = question(&dir).readings;
    let none = |way: &WayToRead| way.label_column.as_deref() == Some("none");
    assert!(ways.iter().any(none), "{ways:?}");
}

#[test]
fn annotations_of_formats_that_are_not_read_are_told_at_once() {
    let dir = folder(&["img_training/img_1.jpg", "img_test/img_1.jpg"]);
    let line = b"377,117,463,117,465,130,378,130,Genaxis Theatre\n";
    put(dir.path(), "gt_training/gt_img_1.txt", line);
    assert!(doubt(&dir).contains("in the format of ICDAR"));
    let dir = folder(&["Images/1.jpg", "Images/2.jpg"]);
    put(dir.path(), "annotation_train.odgt", b"{\"ID\":\"1\",\"gtboxes\":[]}\n");
    assert!(doubt(&dir).contains("in the format of CrowdHuman"));
    let dir = folder(&["a/x/1.jpg", "a/y/2.jpg", "b/x/3.jpg", "b/y/4.jpg"]);
    (1..5).for_each(|i| put(dir.path(), &format!("gt/{i}.mat"), b"MATLAB 5.0 MAT-file"));
    let doubt = question(&dir);
    assert!(doubt.text.contains("as many mat files as images"), "{doubt}");
    let plain = ["{key}.{ext}".to_owned()];
    assert!(doubt.readings.iter().any(|way| way.images == plain), "{doubt:?}");
}
