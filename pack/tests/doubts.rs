//! Folders and tables that can be read in two ways: what is taken, and what is said.

use std::collections::BTreeMap;

use crate::support::{jpeg, put, run, samples};
use gular_bundle::Split;
use gular_pack::{
    Doubt, Error, LabelColumn, Labels, LayoutError, PackReport, Pattern, PlanOptions, TableOptions,
};
use tempfile::TempDir;

fn folder(files: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (i, name) in (0..).zip(files) {
        put(dir.path(), name, &jpeg(i));
    }
    dir
}

/// Packs images `0.jpg` to `5.jpg` by a table with this text.
fn by_table(
    text: &str,
    change: &dyn Fn(&mut TableOptions),
) -> (Result<PackReport, Error>, TempDir) {
    let source = folder(&["0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg"]);
    put(source.path(), "t.csv", text.as_bytes());
    let mut table =
        TableOptions { files: vec![source.path().join("t.csv")], ..TableOptions::default() };
    change(&mut table);
    let out = tempfile::tempdir().unwrap();
    let plan = PlanOptions { labels: Labels::Table(table), ..PlanOptions::default() };
    (run(source.path(), out.path(), plan, 1), out)
}

/// The doubts of a table that is packed, each as a line.
fn told(text: &str) -> String {
    let report = by_table(text, &|_| {}).0.unwrap();
    report.doubts.iter().map(|doubt| format!("{doubt}\n")).collect()
}

fn refused(files: &[&str]) -> Doubt {
    let (source, out) = (folder(files), tempfile::tempdir().unwrap());
    let error = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap_err();
    let Error::Layout(LayoutError::Doubt(doubt)) = error else { unreachable!("{error:?}") };
    doubt
}

#[test]
fn patients_and_videos_are_no_classes() {
    let doubt = refused(&["Patient_01/1.jpg", "patient_02/1.jpg", "patient_02/2.jpg"]);
    assert!(doubt.text.contains("look like what the images are of"), "{doubt}");
    let first = &doubt.readings[0];
    assert_eq!(first.images, ["{patient}/{key}.{ext}"]);
    assert_eq!(first.group.as_deref(), Some("{patient}"));
    assert_eq!(doubt.readings[2].images, ["{label}/{key}.{ext}"]);
    let doubt = refused(&["train/video1/1.jpg", "train/video2/1.jpg", "val/video3/1.jpg"]);
    assert_eq!(doubt.readings[0].images, ["{split}/{video}/{key}.{ext}"]);
    let doubt = refused(&["patient_004_node_1/1.jpg", "patient_009_node_2/2.jpg"]);
    assert_eq!(doubt.readings[0].images, ["{patient}/{key}.{ext}"]);
    let doubt = refused(&["2019/1.jpg", "2020/2.jpg"]);
    assert_eq!(doubt.readings[0].images, ["{date}/{key}.{ext}"]);
    // Words that are not counted, and one counted folder, are classes.
    let (source, out) = (folder(&["camera/1.jpg", "video/1.jpg"]), tempfile::tempdir().unwrap());
    assert_eq!(run(source.path(), out.path(), PlanOptions::default(), 1).unwrap().doubts, []);
}

#[test]
fn folders_that_are_in_the_names_of_their_files_are_no_classes() {
    let doubt = refused(&["00/10049200_1891.jpg", "48/10000548_1925.jpg", "48/148_1960.jpg"]);
    assert!(doubt.text.contains("look like parts of a large set"), "{doubt}");
    assert_eq!(doubt.readings[1].images, ["{*}/{key}.{ext}"]);
    assert_eq!(doubt.readings[2].images, ["{label}/{key}.{ext}"]);
}

#[test]
fn folders_with_the_same_files_beside_numbered_images_are_no_classes() {
    let doubt = refused(&["train/disp_0/1.png", "train/image_2/1.png", "train/image_3/1.png"]);
    let first = &doubt.readings[0];
    assert_eq!(first.images, ["{split}/image_2/{key}.{ext}"], "{doubt}");
    let fields: Vec<&str> = first.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(fields, ["disp_0", "image_3"]);
}

#[test]
fn the_column_of_names_is_found_by_what_it_names() {
    let boxes = "patient,x,y,width,height,target\n0,1,1,3,3,1\n0,2,2,3,3,1\n1,1,1,2,2,1\n2,,,,,0\n3,,,,,0\n4,,,,,0\n5,,,,,0\n";
    let report = by_table(boxes, &|_| {}).0.unwrap();
    assert_eq!(report.samples, 6);
    let (report, out) = by_table(
        "code,diagnosis,n\n0.jpg,a,7\n1.jpg,b,8\n2.jpg,a,9\n3.jpg,a,7\n4.jpg,b,8\n5.jpg,a,9\n",
        &|_| {},
    );
    let report = report.unwrap();
    assert!(report.doubts[0].text.contains("column `code`, since"), "{:?}", report.doubts);
    assert_eq!(report.columns.unwrap().file_names, "code");
    assert_eq!(samples(out.path()).0.manifest().classes, ["a", "b"]);
    let error = by_table("one,label\nx,a\ny,b\n", &|_| {}).0.unwrap_err().to_string();
    assert!(error.contains("looks like the column of file names"), "{error}");
}

#[test]
fn several_columns_that_name_images_are_a_question() {
    for (rows, leaves_out) in [
        ("one,two,label\n0,1,a\n1,0,b\n", true),
        ("one,two,label\n0,9,a\n1,3,b\n2,4,a\n", true),
        ("one,two,n\n0,5,7\n1,4,8\n2,3,9\n3,2,7\n4,1,8\n5,0,9\n", false),
    ] {
        let error = by_table(rows, &|_| {}).0.unwrap_err();
        let Error::Layout(LayoutError::Doubt(doubt)) = error else { unreachable!("{error:?}") };
        let keys: Vec<&str> =
            doubt.readings.iter().filter_map(|way| way.key_column.as_deref()).collect();
        assert_eq!(keys, ["one", "two"], "{doubt}");
        assert!(doubt.readings.iter().all(|way| way.leaves_out == leaves_out), "{doubt:?}");
    }
}

#[test]
fn boxes_in_a_text_are_a_question() {
    let rows = "image_name,BoxesString,domain\n0.jpg,1 2 3 4;5 6 7 8,a\n1.jpg,no_box,b\n2.jpg,1 2 3 4,a\n3.jpg,1 2 4 5,b\n4.jpg,1 2 4 6,b\n5.jpg,1 2 4 7,b\n";
    let error = by_table(rows, &|_| {}).0.unwrap_err().to_string();
    assert!(error.contains("`BoxesString` looks like boxes"), "{error}");
    let (report, _out) = by_table(rows, &|table| table.label = LabelColumn::None);
    assert_eq!(report.unwrap().fields, ["boxesstring", "domain"]);
}

#[test]
fn columns_of_which_one_is_1_in_every_row_are_no_classes() {
    let rows = "file,smoke,itch,biopsed,kind\n0,0,0,1,a\n1,0,0,1,b\n2,0,0,1,a\n3,0,0,1,a\n4,0,0,1,b\n5,0,0,1,a\n";
    let error = by_table(rows, &|_| {}).0.unwrap_err();
    let Error::Layout(LayoutError::Doubt(doubt)) = error else { unreachable!("{error:?}") };
    let columns: Vec<_> =
        doubt.readings.iter().filter_map(|way| way.label_column.as_deref()).collect();
    assert_eq!(columns, ["smoke", "itch", "biopsed", "kind", "none"], "{doubt}");
    let (report, out) = by_table(&rows.replace("kind", "diagnostic"), &|_| {});
    report.unwrap();
    assert_eq!(samples(out.path()).0.manifest().classes, ["a", "b"]);
}

#[test]
fn words_for_splits_are_no_classes() {
    let rows =
        "file,kind,train/val/test\n0,a,train\n1,b,train\n2,a,train\n3,b,val\n4,a,test\n5,b,test\n";
    let (report, out) = by_table(rows, &|_| {});
    let doubts = report.unwrap().doubts;
    let splits =
        doubts.iter().flat_map(|doubt| &doubt.readings).find_map(|way| way.split_column.as_deref());
    assert_eq!(splits, Some("train/val/test"), "{doubts:?}");
    assert_eq!(samples(out.path()).0.manifest().classes, ["a", "b"]);
}

#[test]
fn lists_may_name_the_parts_of_paths() {
    let source = folder(&["x_1_aligned.jpg", "x_2_aligned.jpg"]);
    put(source.path(), "list.txt", b"x_1.jpg cat\nx_2.jpg dog\n");
    let file = source.path().join("list.txt");
    let table = TableOptions {
        files: vec![file.clone()],
        lines: [(file, vec!["{key}.jpg {label}".parse().unwrap()])].into(),
        ..TableOptions::default()
    };
    let images = vec!["{key}_aligned.jpg".parse().unwrap()];
    let plan = PlanOptions { images, labels: Labels::Table(table), ..PlanOptions::default() };
    let out = tempfile::tempdir().unwrap();
    run(source.path(), out.path(), plan, 1).unwrap();
    assert_eq!(samples(out.path()).0.manifest().classes, ["cat", "dog"]);
}

#[test]
fn annotations_that_patterns_leave_out_are_told() {
    let source = folder(&["images/0.jpg", "images/1.jpg"]);
    for i in 0..2 {
        put(source.path(), &format!("labels/{i}.txt"), b"0 0.5 0.5 0.2 0.2\n");
    }
    let images = vec!["images/{key}.{ext}".parse().unwrap()];
    let plan = PlanOptions { images, ..PlanOptions::default() };
    let told = |plan: PlanOptions| {
        let out = tempfile::tempdir().unwrap();
        run(source.path(), out.path(), plan, 1).unwrap().doubts
    };
    let doubts = told(plan.clone());
    assert!(doubts[0].text.contains("as many txt files as images"), "{doubts:?}");
    assert!(doubts[0].readings[0].tables.as_ref().unwrap()[0].ends_with("labels"));
    assert_eq!(told(PlanOptions { labels: Labels::None, ..plan }), []);
}

#[test]
fn rows_may_be_about_a_part_of_paths() {
    let files = ["p1/a.jpg", "p1/b.jpg", "p2/a.jpg", "p3/a.jpg"];
    let source = folder(&files);
    let packed = |text: &str, key: Option<&str>| {
        put(source.path(), "t.csv", text.as_bytes());
        let table = TableOptions {
            files: vec![source.path().join("t.csv")],
            key: key.map(str::to_owned),
            split: Some("part".to_owned()),
            ..TableOptions::default()
        };
        let images = vec!["{patient}/{key}.jpg".parse().unwrap()];
        let plan = PlanOptions { images, labels: Labels::Table(table), ..PlanOptions::default() };
        let out = tempfile::tempdir().unwrap();
        run(source.path(), out.path(), plan, 1).map(|_| samples(out.path()).1)
    };
    for (text, key) in [
        ("Patient,diagnosis,part\np1,ill,train\np2,well,val\np3,ill,test\n", None),
        (
            "id,patient,diagnosis,part\n7,p1,ill,train\n8,p2,well,val\n9,p3,ill,test\n",
            Some("patient"),
        ),
    ] {
        let found = packed(text, key).unwrap();
        let splits: Vec<(&str, Split)> =
            found.iter().map(|(key, (split, _))| (key.as_str(), *split)).collect();
        let [train, val, test] = [Split::Train, Split::Val, Split::Test];
        let expected = files.into_iter().zip([train, train, val, test]).collect::<Vec<_>>();
        assert_eq!(splits, expected);
    }
    let twice = "patient,diagnosis,part\np1,ill,train\np1,well,train\np2,ill,val\np3,ill,val\n";
    let error = packed(twice, None).unwrap_err().to_string();
    assert!(error.contains("p1/a.jpg (t.csv:2 and t.csv:3)"), "{error}");
    let missing = "patient,diagnosis,part\np1,ill,train\np2,ill,val\n";
    let error = packed(missing, None).unwrap_err().to_string();
    assert!(error.contains("p3/a.jpg"), "{error}");
}

#[test]
fn numbers_as_names_of_classes_are_told_where_they_are_not_the_labels() {
    let doubts = |names: &[&str]| {
        let (source, out) = (folder(names), tempfile::tempdir().unwrap());
        let report = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap();
        report.doubts.iter().map(ToString::to_string).collect::<String>()
    };
    assert!(doubts(&["-1/1.jpg", "0/2.jpg", "1/3.jpg"]).contains("`-1` has the label 0"));
    let one = doubts(&["01/1.jpg", "1/2.jpg", "2/3.jpg"]);
    assert!(one.contains("the classes `01` and `1` are one number"), "{one}");
    assert_eq!(doubts(&["0/1.jpg", "1/2.jpg"]), "");
}

#[test]
fn values_that_may_mean_something_else_are_told() {
    let missing = told("file,label\n0,cat\n1,dog\n2,?\n3,N/A\n4,cat\n5,dog\n");
    assert!(
        missing.contains("`?` and `N/A` in column `label` look like missing values"),
        "{missing}"
    );
    let ages = told("file,age\n0,17\n1,30\n2,17\n3,30\n4,55\n5,55\n");
    assert!(ages.contains("numbers in column `age` are taken for classes"), "{ages}");
    let words = told("file,label\n0,a\n1,b\n2,a b\n3,a\n4,b\n5,a b\n");
    assert!(words.contains("class `a b`, which looks like several"), "{words}");
    let mixed = told("file,label\n0,1\n1,2\n2,three\n3,1\n4,2\n5,4\n");
    assert!(mixed.contains("the label of `1` is not 1"), "{mixed}");
    let sparse = told("file,label\n0,47126\n1,1\n2,47126\n3,1\n4,1\n5,1\n");
    assert!(sparse.contains("the largest of the 2 classes in column `label` is 47126"), "{sparse}");
    let unknown = told("file,label\n0,cat\n1,dog\n2,-1\n3,cat\n4,dog\n5,-1\n");
    assert!(unknown.contains("has the label -1"), "{unknown}");
    let clear = told("file,label\n0,new york\n1,york\n2,york\n3,none\n4,none\n5,new york\n");
    assert_eq!(clear, "");
}

#[test]
fn tags_are_divided_where_two_share_a_word() {
    let rows = "file,tags\n0,clear primary\n1,cloudy\n2,clear road\n3,haze\n4,haze\n5,cloudy\n";
    let (report, out) = by_table(rows, &|_| {});
    report.unwrap();
    let classes = samples(out.path()).0.manifest().classes.clone();
    assert_eq!(classes, ["clear", "cloudy", "haze", "primary", "road"]);
    let rows =
        "file,tags\n0,robin\n1,\"robin, red kite\"\n2,robin\n3,red kite\n4,\"tit, robin\"\n5,tit\n";
    let (report, out) = by_table(rows, &|_| {});
    report.unwrap();
    let classes = samples(out.path()).0.manifest().classes.clone();
    assert_eq!(classes, ["red kite", "robin", "tit"]);
}

#[test]
fn fractions_that_may_divide_a_patient_are_told() {
    let rows = "file,label,patient_id\n0,a,1\n1,b,1\n2,a,2\n3,b,2\n4,a,3\n5,b,3\n";
    let source = folder(&["0.jpg", "1.jpg", "2.jpg", "3.jpg", "4.jpg", "5.jpg"]);
    put(source.path(), "t.csv", rows.as_bytes());
    let files = vec![source.path().join("t.csv")];
    let labels = Labels::Table(TableOptions { files, ..TableOptions::default() });
    let fractions = vec![(Split::Train, 0.5), (Split::Val, 0.5)];
    let plan = PlanOptions { labels, fractions, ..PlanOptions::default() };
    let out = tempfile::tempdir().unwrap();
    let report = run(source.path(), out.path(), plan, 1).unwrap();
    let groups: Vec<_> = report.doubts.iter().flat_map(|of| &of.readings).collect();
    assert_eq!(groups[0].group.as_deref(), Some("patient_id"), "{:?}", report.doubts);
}

#[test]
fn a_table_that_cannot_be_read_as_people_have_it_is_refused() {
    let refused = |text: &str| by_table(text, &|_| {}).0.unwrap_err().to_string();
    let rle = "ImageId,EncodedPixels\n0,1 3 7 2\n1,1 3 7 2\n";
    assert!(refused(rle).contains("run lengths of masks"), "{}", refused(rle));
    let row = "0.jpg,cat\n1.jpg,dog\n2.jpg,cat\n3.jpg,dog\n4.jpg,cat\n5.jpg,dog\n";
    assert!(refused(row).contains("looks like the column of file names"), "{}", refused(row));
    let excel = "sep=;\nfile;label\n0;a\n1;b\n2;a\n3;b\n4;a\n5;b\n";
    let report = by_table(excel, &|_| {}).0.unwrap();
    assert_eq!((report.samples, report.columns.unwrap().file_names.as_str()), (6, "file"));
    let unused = "file,label\n0,b\n1,c\n2,b\n3,c\n4,b\n5,c\n9,aardvark\n";
    let warnings = by_table(unused, &|_| {}).0.unwrap().warnings;
    assert!(warnings.iter().any(|of| of.contains("`aardvark`")), "{warnings:?}");
}

#[test]
fn tables_beside_class_folders_are_told() {
    let (source, out) = (folder(&["cat/0.jpg", "dog/1.jpg"]), tempfile::tempdir().unwrap());
    put(source.path(), "quality.csv", b"image,quality\n0.jpg,3\n1.jpg,4\n");
    put(source.path(), "sample_submission.csv", b"image,label\n");
    let report = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap();
    let [doubt] = report.doubts.as_slice() else { panic!("{:?}", report.doubts) };
    let tables = doubt.readings[0].tables.clone().unwrap();
    assert!(matches!(tables.as_slice(), [one] if one.ends_with("quality.csv")), "{tables:?}");
}

#[test]
fn a_list_of_columns_is_the_order_of_the_classes() {
    let rows = "file,sun,rain\n0,1,0\n1,1,1\n2,0,1\n3,0,0\n4,1,0\n5,1,1\n";
    let named = |columns: &str| {
        let label = LabelColumn::Named(columns.to_owned());
        let (report, out) = by_table(rows, &|table| table.label = label.clone());
        report.unwrap();
        samples(out.path()).0.manifest().classes.clone()
    };
    assert_eq!(named("sun,rain"), ["sun", "rain"]);
    assert_eq!(named("rain,sun"), ["rain", "sun"]);
}

#[test]
fn a_column_of_splits_may_have_other_words() {
    let rows = "file,label,usage\n0,a,Training\n1,b,Training\n2,a,PublicTest\n3,b,PublicTest\n4,a,PrivateTest\n5,b,PrivateTest\n";
    let by = |words: &[(&str, Split)]| {
        let words: BTreeMap<String, Split> =
            words.iter().map(|(word, split)| ((*word).to_owned(), *split)).collect();
        by_table(rows, &|table| {
            table.split = Some("usage".to_owned());
            table.split_words = words.clone();
        })
    };
    use Split::{Test, Train, Val};
    let (report, out) = by(&[("PublicTest", Val), ("PrivateTest", Test)]);
    report.unwrap();
    let splits: Vec<Split> = samples(out.path()).1.values().map(|(split, _)| *split).collect();
    assert_eq!(splits, [Train, Train, Val, Val, Test, Test]);
    match by(&[]).0 {
        Err(Error::Layout(LayoutError::NoSplit { word, meant, .. })) => {
            assert_eq!(word, "PublicTest");
            assert_eq!(meant, "usage:PrivateTest=test,PublicTest=val");
        }
        other => panic!("{other:?}"),
    }
    match by(&[("PublicTest", Train)]).0 {
        Err(Error::Layout(LayoutError::NoSplit { meant, .. })) => {
            assert_eq!(meant, "usage:PrivateTest=test,PublicTest=train");
        }
        other => unreachable!("{other:?}"),
    }
    let stored = by_table(rows, &|_| {}).0.unwrap();
    let column = stored.doubts[0].readings[0].split_column.as_deref();
    assert_eq!(column, Some("usage:PrivateTest=test,PublicTest=val"));
    let flags =
        told("file,label,train,test\n0,a,1,0\n1,b,1,0\n2,a,0,1\n3,b,0,1\n4,a,1,0\n5,b,1,0\n");
    assert!(flags.starts_with("columns `train` and `test` were stored as fields"), "{flags}");
    for (column, values, meant) in [
        ("is_train", ["0", "1"], "is_train:0=test,1=train"),
        ("fold", ["0", "4"], "fold:0=train,4=val"),
        ("split", ["train", "held out"], "split:held out=test"),
        ("phase", ["tr", "te"], "phase:te=SPLIT,tr=SPLIT"),
        ("istrain", ["0", "1"], "istrain:0=test,1=train"),
        ("split_id", ["1", "2"], "split_id:1=SPLIT,2=SPLIT"),
        ("set", ["1", "3"], "set:1=SPLIT,3=SPLIT"),
        ("Set ID", ["trn", "tst"], "Set ID:trn=train,tst=test"),
    ] {
        let [a, b] = values;
        let rows =
            format!("file,label,{column}\n0,a,{a}\n1,b,{b}\n2,a,{a}\n3,b,{b}\n4,a,{a}\n5,b,{b}\n");
        let report = by_table(&rows, &|_| {}).0.unwrap();
        let found = report.doubts[0].readings[0].split_column.clone();
        assert_eq!(found.as_deref(), Some(meant));
    }
}

#[test]
fn a_column_named_set_is_a_field_if_its_values_are_not_those_of_splits() {
    for [a, b] in [["1", "12"], ["red", "blue"], ["1", "1"]] {
        let rows =
            format!("file,label,set\n0,a,{a}\n1,b,{b}\n2,a,{a}\n3,b,{b}\n4,a,{a}\n5,b,{b}\n");
        assert_eq!(told(&rows), "");
    }
}

#[test]
fn tables_with_names_of_splits_are_told_where_they_do_not_set_splits() {
    let source = folder(&["0.jpg", "1.jpg", "2.jpg"]);
    let table = |name: &str, rows: &str| {
        put(source.path(), name, format!("file,label\n{rows}").as_bytes());
        source.path().join(name)
    };
    let files = vec![table("train.csv", "0,a\n1,b\n"), table("val.csv", "2,a\n")];
    let packed = |table: TableOptions| {
        let out = tempfile::tempdir().unwrap();
        let plan = PlanOptions { labels: Labels::Table(table), ..PlanOptions::default() };
        run(source.path(), out.path(), plan, 1).unwrap().doubts
    };
    let by_hand = TableOptions { files: files.clone(), ..TableOptions::default() };
    let [doubt] = &*packed(by_hand.clone()) else { unreachable!() };
    assert!(doubt.text.ends_with("have names of splits, and do not set splits"), "{doubt}");
    let shown = |name: &str| source.path().join(name).display().to_string();
    let options = [
        format!("{}={{split=train}}", shown("train.csv")),
        format!("{}={{split=val}}", shown("val.csv")),
    ];
    assert_eq!(doubt.readings[0].tables.as_deref(), Some(&options[..]));
    let lines = [("train.csv", "{split=train}"), ("val.csv", "{split=val}")];
    let lines = lines
        .map(|(name, line)| (source.path().join(name), vec![Pattern::parse_line(line).unwrap()]));
    let split = Some("split".to_owned());
    assert_eq!(packed(TableOptions { lines: lines.into(), split, ..by_hand }), []);
    let one = TableOptions { files: files[..1].to_vec(), ..TableOptions::default() };
    put(source.path(), "train.csv", b"file,label\n0,a\n1,b\n2,a\n");
    assert_eq!(packed(one), []);
}

#[test]
fn a_table_that_names_class_folders_is_joined_with_them() {
    let source = folder(&["000/a.jpg", "000/b.jpg", "001/a.jpg", "002/a.jpg"]);
    put(source.path(), "labels.csv", b"id,label\n000,u\n001,v\n002,u\n");
    let out = tempfile::tempdir().unwrap();
    let report = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap();
    let [doubt] = &*report.doubts else { panic!("{:?}", report.doubts) };
    assert!(doubt.text.contains("has a row for each `id`"), "{doubt}");
    let [way] = &*doubt.readings else { panic!("{doubt:?}") };
    assert_eq!(way.images, ["{id}/{key}.{ext}"]);
    let table = TableOptions {
        files: way.tables.iter().flatten().map(Into::into).collect(),
        ..TableOptions::default()
    };
    let images = way.images.iter().map(|text| text.parse().unwrap()).collect();
    let plan = PlanOptions { images, labels: Labels::Table(table), ..PlanOptions::default() };
    let out = tempfile::tempdir().unwrap();
    let report = run(source.path(), out.path(), plan, 1).unwrap();
    assert_eq!((report.samples, report.doubts), (4, Vec::new()));
    assert_eq!(samples(out.path()).0.manifest().classes, ["u", "v"]);
    // Another table may have the names of images.
    put(source.path(), "labels.csv", b"id,label\na,u\nb,v\n");
    let out = tempfile::tempdir().unwrap();
    let report = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap();
    assert!(report.doubts[0].text.contains("may say more about the images"));
}

#[test]
fn a_table_that_names_pairs_of_pictures_is_offered_with_both() {
    let source = folder(&["0_left.jpg", "0_right.jpg", "1_left.jpg", "1_right.jpg"]);
    put(source.path(), "t.csv", b"ID,left,label\n0,0_left.jpg,a\n1,1_left.jpg,b\n");
    let out = tempfile::tempdir().unwrap();
    let error = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap_err();
    let Error::Layout(LayoutError::Doubt(doubt)) = error else { unreachable!("{error:?}") };
    let by_table: Vec<_> = doubt.readings.iter().filter(|way| way.tables.is_some()).collect();
    let [way] = &*by_table else { panic!("{doubt:?}") };
    assert_eq!(way.images, ["{id}_left.{ext}"]);
    assert_eq!(way.files, [("right".to_owned(), "{id}_right.{ext}".to_owned())]);
    assert_eq!(way.key_column.as_deref(), Some("ID"));
    // JPEG of colours is not a mask.
    let is_mask = |way: &&gular_pack::WayToRead| way.files.iter().any(|(name, _)| name == "mask");
    assert_eq!(doubt.readings.iter().find(is_mask), None);
}

#[test]
fn what_a_file_of_boxes_has_besides_is_told() {
    let source = folder(&["0.jpg"]);
    let coco = r#"{"images":[{"id":1,"file_name":"0.jpg"}],"categories":[{"id":1,"name":"a"}],
        "annotations":[{"image_id":1,"category_id":1,"bbox":[0,0,2,2],"segmentation":[[0,0,2,0,2,2]]},
        {"image_id":1,"category_id":1,"bbox":[0,0,2,2],"segmentation":[],"keypoints":{"eye":[1,1]}},
        {"image_id":1,"category_id":1,"bbox":[0,0,2,2],"segmentation":{"counts":"x","size":[2,2]}}]}"#;
    put(source.path(), "a.json", coco.as_bytes());
    let files = vec![source.path().join("a.json")];
    let labels = Labels::Table(TableOptions { files, ..TableOptions::default() });
    let out = tempfile::tempdir().unwrap();
    let plan = PlanOptions { labels, ..PlanOptions::default() };
    let report = run(source.path(), out.path(), plan, 1).unwrap();
    let texts: Vec<String> = report.doubts.iter().map(ToString::to_string).collect();
    assert!(texts[0].contains("the outlines of 2 annotations"), "{texts:?}");
    assert!(texts[1].contains("the points or lines of 1 annotation"), "{texts:?}");
}

#[test]
fn lists_of_splits_join_boxes_by_the_end_of_their_paths() {
    let source = folder(&["images/0.jpg", "images/1.jpg"]);
    for i in 0..2 {
        put(source.path(), &format!("labels/{i}.txt"), b"0 0.5 0.5 0.2 0.2\n");
        let split = ["train", "val"][i];
        put(source.path(), &format!("{split}.txt"), format!("/data/images/{i}.jpg\n").as_bytes());
    }
    let file = |name: &str| source.path().join(name);
    let lines = |split: &str| vec![format!("{{split={split}}}{{path}}").parse().unwrap()];
    let table = TableOptions {
        files: ["labels", "train.txt", "val.txt"].map(file).to_vec(),
        lines: ["train", "val"].map(|s| (file(&format!("{s}.txt")), lines(s))).into(),
        split: Some("split".to_owned()),
        ..TableOptions::default()
    };
    let out = tempfile::tempdir().unwrap();
    let images = vec!["images/{key}.{ext}".parse().unwrap()];
    let plan = PlanOptions { images, labels: Labels::Table(table), ..PlanOptions::default() };
    run(source.path(), out.path(), plan, 1).unwrap();
    let splits: Vec<Split> = samples(out.path()).1.values().map(|(split, _)| *split).collect();
    assert_eq!(splits, [Split::Train, Split::Val]);
}

#[test]
fn names_in_json_are_those_of_images_unless_one_holds_all_rows() {
    let packed = |text: &str| {
        let source = folder(&["0.jpg", "1.jpg"]);
        put(source.path(), "t.json", text.as_bytes());
        let files = vec![source.path().join("t.json")];
        let labels = Labels::Table(TableOptions { files, ..TableOptions::default() });
        let out = tempfile::tempdir().unwrap();
        let plan = PlanOptions { labels, ..PlanOptions::default() };
        run(source.path(), out.path(), plan, 1).map(|_| samples(out.path()).0)
    };
    let data = r#"{"data": [{"file": "0.jpg", "label": "a"}, {"file": "1.jpg", "label": "b"}]}"#;
    assert_eq!(packed(data).unwrap().manifest().classes, ["a", "b"]);
    // The names are those of images, whatever is in the lists.
    let objects = r#"{"1.jpg": [{"id": 0, "label": "a"}], "0.jpg": [{"id": 1, "label": "b"}]}"#;
    let error = packed(objects).unwrap_err().to_string();
    assert!(error.contains("lists"), "{error}");
    let empty = r#"{"0.jpg": ["a", "b"], "1.jpg": []}"#;
    assert_eq!(packed(empty).unwrap().manifest().classes, ["a", "b"]);
}

#[test]
fn captions_with_the_splits_of_karpathy_are_rows() {
    let source = folder(&["photos/0.jpg", "photos/1.jpg"]);
    let row = |name: &str, split: &str| {
        format!(
            r#"{{"filename": "{name}", "split": "{split}", "sentences": [{{"raw": "A dog runs.", "tokens": ["a"]}}, {{"raw": "Two dogs."}}]}}"#
        )
    };
    let rows = [row("0.jpg", "train"), row("1.jpg", "val")].join(",");
    let text = format!(r#"{{"dataset": "flickr8k", "images": [{rows}]}}"#);
    put(source.path(), "dataset.json", text.as_bytes());
    let files = vec![source.path().join("dataset.json")];
    let labels = Labels::Table(TableOptions {
        files,
        split: Some("split".to_owned()),
        ..TableOptions::default()
    });
    let out = tempfile::tempdir().unwrap();
    let plan = PlanOptions { labels, ..PlanOptions::default() };
    run(source.path(), out.path(), plan, 1).unwrap();
    let (bundle, found) = samples(out.path());
    let fields: Vec<&str> =
        bundle.manifest().fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(fields, ["image", "sentences"]);
    assert_eq!(found["photos/1.jpg"].0, Split::Val);
    assert_eq!(found["photos/0.jpg"].1[1], br#"["A dog runs.","Two dogs."]"#);
}

#[test]
fn what_says_no_class_is_packed_without_classes() {
    let read = |paths: &[&str]| {
        let source = folder(paths);
        let out = tempfile::tempdir().unwrap();
        let report = run(source.path(), out.path(), PlanOptions::default(), 1)?;
        assert_eq!(samples(out.path()).0.manifest().classes, Vec::<String>::new());
        Ok::<_, Error>(report.doubts.iter().map(ToString::to_string).collect::<String>())
    };
    let flat = read(&["IMG_0012.jpg", "IMG_0013.jpg"]).unwrap();
    assert!(flat.contains("no folder says a class"), "{flat}");
    let one = read(&["photos/IMG_0012.jpg", "photos/IMG_0013.jpg"]).unwrap();
    assert!(one.contains("`photos` is the only folder"), "{one}");
    let splits = read(&["train/IMG_0012.jpg", "val/IMG_0013.jpg"]).unwrap();
    assert!(splits.contains("no folder says a class"), "{splits}");
    // Names that may be classes, and tables, are questions.
    assert!(read(&["cat_1.jpg", "cat_2.jpg", "dog_1.jpg", "dog_2.jpg"]).is_err());
    let source = folder(&["IMG_0012.jpg", "IMG_0013.jpg"]);
    put(source.path(), "README.txt", b"Photographs of 2019.");
    let packed = || {
        let out = tempfile::tempdir().unwrap();
        run(source.path(), out.path(), PlanOptions::default(), 1)
    };
    packed().unwrap();
    put(source.path(), "notes.csv", b"what,when\nrain,2019\n");
    assert!(packed().is_err());
}
