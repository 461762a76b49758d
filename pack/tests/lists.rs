//! Lists without a header, tables as other programs write them, and annotations without boxes.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{jpeg, png, put, run, samples};
use gular_bundle::Split;
use gular_pack::{
    Error, Labels, LayoutError, PackReport, Pattern, PlanError, PlanOptions, TableOptions,
    Unlabelled,
};

/// Packs eight images by tables of these names and texts.
fn packed(tables: &[(&str, &str)], lines: &[&str]) -> Result<PackReport, Error> {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    (0..8).for_each(|i| put(dir.path(), &format!("im/{i}.jpg"), &jpeg(i)));
    tables.iter().for_each(|(name, text)| put(dir.path(), name, text.as_bytes()));
    let files: Vec<_> = tables.iter().map(|(name, _)| dir.path().join(name)).collect();
    let mut of_files: BTreeMap<_, Vec<Pattern>> = BTreeMap::new();
    for (i, line) in lines.iter().enumerate() {
        // More patterns than tables are further ones of the last.
        let file = files[i.min(files.len() - 1)].clone();
        of_files.entry(file).or_default().push(Pattern::parse_line(line).unwrap());
    }
    let lines = of_files;
    let has_split = lines.values().flatten().any(|line| line.has("split"));
    let split = has_split.then(|| "split".to_owned());
    let labels = Labels::Table(TableOptions { files, lines, split, ..TableOptions::default() });
    let plan = PlanOptions { labels, ..PlanOptions::default() };
    run(&dir.path().join("im"), out.path(), plan, 1)
}

fn rows(header: &str, label: &dyn Fn(usize) -> String) -> String {
    (0..8).fold(format!("{header}\n"), |text, i| text + &format!("{i}.jpg,{}\n", label(i)))
}

fn classes(report: &PackReport) -> Vec<(&str, u64)> {
    let classes = &report.splits[&Split::Train].classes;
    classes.iter().map(|(name, n)| (name.as_str(), *n)).collect()
}

#[test]
fn integers_that_became_fractions_are_classes_again() {
    let text = rows("file,label", &|i| format!("{}.0", i % 3));
    let report = packed(&[("t.csv", &text)], &[]).unwrap();
    assert_eq!(classes(&report), [("0", 3), ("1", 3), ("2", 2)]);
    let text = rows("file,label", &|i| format!("{}.5", i % 3));
    let error = packed(&[("t.csv", &text)], &[]).unwrap_err().to_string();
    assert!(error.contains("fractions, which are not classes"), "{error}");
}

#[test]
fn nan_is_no_class() {
    for text in [
        rows("file,label", &|i| if i == 3 { "NaN".into() } else { ["a", "b"][i % 2].into() }),
        rows("file,label", &|i| if i == 3 { "nan".into() } else { format!("{}.0", i % 2) }),
    ] {
        let error = packed(&[("t.csv", &text)], &[]).unwrap_err();
        assert!(matches!(error, Error::Plan(PlanError::Unlabelled { n: 1, .. })), "{error}");
    }
}

#[test]
fn texts_that_all_differ_are_a_field() {
    let text = rows("file_name,text", &|i| format!("a thing, number {i}").replace(',', ";"));
    let report = packed(&[("t.csv", &text)], &[]).unwrap();
    assert_eq!(report.fields, ["text"]);
    let doubt = &report.doubts[0];
    assert!(doubt.text.contains("has no classes"), "{doubt}");
    assert_eq!(doubt.readings[0].label_column.as_deref(), Some("text"));
}

#[test]
fn classes_that_differ_in_case_are_told() {
    let text = rows("file,label", &|i| ["anger", "ANGER"][i % 2].to_owned());
    let report = packed(&[("t.csv", &text)], &[]).unwrap();
    assert!(report.doubts[0].text.contains("`ANGER` and `anger` differ only in upper"));
}

#[test]
fn a_second_column_of_labels_is_told() {
    let text = rows("file,category,label", &|i| format!("x{},{}", i % 2, i % 3));
    let report = packed(&[("t.csv", &text)], &[]).unwrap();
    assert!(report.doubts[0].text.contains("from the column `label`, but `category`"));
}

#[test]
fn rows_that_agree_are_one() {
    let text = rows("file,label", &|i| ["a", "b"][i % 2].to_owned());
    let report = packed(&[("t.csv", &(text.clone() + "1.jpg,b\n1.jpg,b\n"))], &[]).unwrap();
    assert_eq!(classes(&report), [("a", 4), ("b", 4)]);
    let warned = report.warnings.iter().any(|w| w.starts_with("2 rows say again"));
    assert!(warned, "{:?}", report.warnings);
    let error = packed(&[("t.csv", &(text + "1.jpg,a\n1.jpg,a\n"))], &[]).unwrap_err();
    assert!(matches!(error, Error::Layout(LayoutError::DoubledRows { n: 1, .. })), "{error}");
}

#[test]
fn lines_are_counted_whatever_ends_them() {
    let text = rows("file,label", &|i| if i == 3 { "-7".into() } else { format!("{}", i % 2) });
    for text in [text.clone(), text.replace('\n', "\r\n")] {
        let error = packed(&[("t.csv", &text)], &[]).unwrap_err().to_string();
        assert!(error.contains("t.csv` line 5 "), "{error}");
    }
    let uneven = "file,label\n0.jpg,1\n1.jpg\n";
    for text in [uneven.to_owned(), uneven.replace('\n', "\r\n")] {
        let error = packed(&[("t.csv", &text)], &[]).unwrap_err().to_string();
        assert!(error.contains("t.csv` line 3 "), "{error}");
    }
}

#[test]
fn the_lines_of_a_list_are_read_by_a_pattern() {
    let text: String = (0..8).map(|i| format!("{i} {}\n", ["ant", "bee"][i % 2])).collect();
    let report = packed(&[("list.txt", &format!("# all\n{text}\n"))], &["{path} {label}"]).unwrap();
    assert_eq!(classes(&report), [("ant", 4), ("bee", 4)]);
    let error = packed(&[("list.txt", &text)], &[]).unwrap_err();
    assert!(
        matches!(&error, Error::Layout(LayoutError::NoLines { first, .. }) if first == "0 ant"),
        "{error}"
    );
    let error = packed(&[("list.txt", "0\n1 ant\n")], &["{path} {label}"]).unwrap_err().to_string();
    assert!(error.contains("line 1 cannot be read: the pattern `{path} {label}`"), "{error}");
}

#[test]
fn lists_may_give_the_splits_and_paths_the_classes() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (i, name) in ["pie/1", "pie/2", "ribs/3", "ribs/4"].iter().enumerate() {
        put(dir.path(), &format!("images/{name}.jpg"), &jpeg(i as u32));
    }
    put(dir.path(), "meta/train.txt", b"pie/1\nribs/3\n");
    put(dir.path(), "meta/test.txt", b"pie/2\r\nribs/4\r\n");
    let at = |name: &str| dir.path().join(name);
    let line = |text: &str| Pattern::parse_line(text).unwrap();
    let lines = BTreeMap::from([
        (at("meta/train.txt"), vec![line("{split=train}{path}")]),
        (at("meta/test.txt"), vec![line("{split=test}{path}")]),
    ]);
    let files = lines.keys().cloned().collect();
    let labels = Labels::Table(TableOptions {
        files,
        lines,
        split: Some("split".to_owned()),
        ..TableOptions::default()
    });
    let images = vec!["images/{label}/{key}.jpg".parse().unwrap()];
    run(dir.path(), out.path(), PlanOptions { labels, images, ..PlanOptions::default() }, 1)
        .unwrap();
    let (bundle, found) = samples(out.path());
    assert_eq!(bundle.manifest().classes, ["pie", "ribs"]);
    let of = |key: &str| (found[key].0, found[key].1[1][0]);
    assert_eq!(of("images/ribs/4.jpg"), (Split::Test, 1));
    assert_eq!(of("images/pie/1.jpg"), (Split::Train, 0));
}

/// Three lists that are joined by `{id}`: images, classes, splits.
fn three(splits: &str) -> Result<PackReport, Error> {
    let line = |text: &dyn Fn(usize) -> String| {
        (0..8).map(|i| format!("{} {}\n", 100 + i, text(i))).collect::<String>()
    };
    let (images, classes) = (line(&|i| format!("{i}.jpg")), line(&|i| format!("ant {}", i % 2)));
    let tables =
        [("images.txt", images.as_str()), ("classes.txt", &classes), ("splits.txt", splits)];
    let patterns = [
        "{id:[0-9]+} {path}",
        "{id:[0-9]+} {label:.+}",
        "{split=train}{id:[0-9]+} 1",
        "{split=val}{id:[0-9]+} 0",
    ];
    packed(&tables, &patterns)
}

#[test]
fn one_json_document_may_be_the_table() {
    let of = |row: &dyn Fn(usize) -> String| (0..8).map(row).collect::<Vec<_>>().join(",\n");
    let class = |i: usize| ["bee", "fly"][i % 2];
    let list = of(&|i| format!(r#"{{"image": "{i}.jpg", "label": "{}"}}"#, class(i)));
    let names = of(&|i| format!(r#""{i}.jpg": "{}""#, class(i)));
    // The name of a row is before it, whatever is in the row.
    let rows = of(&|i| format!(r#""{i}.jpg": {{"label": "{}", "id": {}}}"#, class(i), 7 - i));
    for text in [format!("[{list}]"), format!("{{{names}}}"), format!("\u{feff}{{{rows}}}")] {
        let report = packed(&[("labels.json", &text)], &[]).unwrap();
        assert_eq!(classes(&report), [("bee", 4), ("fly", 4)], "{text}");
    }
    for (text, expected) in [
        ("[1, 2]", "an element is not an object"),
        (r#"[{"image": "0.jpg", "label": "bee"}"#, "labels.json` cannot be read"),
        (r#"{"images": 3}"#, "not a COCO file"),
        (r#"{"0.jpg": {"label": {"a": 1}}}"#, "labels.json"),
    ] {
        let error = packed(&[("labels.json", text)], &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn tables_are_joined_by_a_column_of_both() {
    let of = |header: &str, row: &dyn Fn(usize) -> String| {
        (0..8).fold(format!("{header}\n"), |text, i| text + &row(i) + "\n")
    };
    let class = |i: usize| ["bee", "fly"][usize::from(i < 3)];
    let images = of("image,id", &|i| format!("{i}.jpg,{}", 7 - i));
    let labels = of("id,label", &|i| format!("{i},{}", class(i)));
    for tables in
        [[("a.csv", &images), ("b.csv", &labels)], [("b.csv", &labels), ("a.csv", &images)]]
    {
        let tables = tables.map(|(name, text)| (name, text.as_str()));
        let report = packed(&tables, &[]).unwrap();
        assert_eq!(classes(&report), [("bee", 5), ("fly", 3)]);
        assert_eq!(report.columns.unwrap().joined[0].by, "id");
    }
    let empty = images.replace("3.jpg,4", "3.jpg,");
    let error = packed(&[("a.csv", &empty), ("b.csv", &labels)], &[]).unwrap_err().to_string();
    assert!(error.contains("line 5 cannot be read: the cell of `id`"), "{error}");
}

#[test]
fn images_without_a_row_are_kept_and_told_if_nothing_else_is_unclear() {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["cat/1.jpg", "cat/2.jpg", "un/3.jpg", "un/4.jpg"] {
        put(dir.path(), name, &jpeg(name.len() as u32));
    }
    let table = |text: &str| {
        let file = dir.path().join("t.csv");
        put(dir.path(), "t.csv", text.as_bytes());
        let split = text.contains("split").then(|| "split".to_owned());
        Labels::Table(TableOptions { files: vec![file], split, ..TableOptions::default() })
    };
    let images = ["{label:cat}/{key}.{ext}", "un/{key}.{ext}"].map(|text| text.parse().unwrap());
    let pack = |text: &str, images: &[Pattern], unlabelled| {
        let plan = PlanOptions {
            images: images.to_vec(),
            labels: table(text),
            unlabelled,
            ..PlanOptions::default()
        };
        run(dir.path(), out.path(), plan, 1)
    };
    let refused = |text: &str, images: &[Pattern], unlabelled, expected: &str| {
        let error = pack(text, images, unlabelled).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    use Unlabelled::{Fail, Keep};
    refused("file,label,split\n1.jpg,a,val\n", &[], Keep, "would have no split");
    refused(
        "file,label,split\n3.jpg,a,val\n4.jpg,a,val\n",
        &images,
        Fail,
        "2 images have no label",
    );
    refused(
        "file,label\n1.jpg,dog\n3.jpg,dog\n4.jpg,dog\n",
        &images,
        Fail,
        "by its path, and another",
    );
    let report = pack("file,label\n3.jpg,dog\n4.jpg,cat\n", &images, Fail).unwrap();
    assert_eq!(classes(&report), [("cat", 3), ("dog", 1)]);
    let out = tempfile::tempdir().unwrap();
    let plan = PlanOptions {
        labels: table("file,label\n1.jpg,a\n2.jpg,\n"),
        unlabelled: Keep,
        ..PlanOptions::default()
    };
    let report = run(dir.path(), out.path(), plan, 1).unwrap();
    assert_eq!((report.samples, report.unlabelled), (4, 0));
    assert!(
        report.doubts[0].text.contains("3 images have no row or no label"),
        "{:?}",
        report.doubts
    );
}

#[test]
fn lists_are_joined_by_id() {
    let splits: String = (0..8).map(|i| format!("{} {}\n", 107 - i, i32::from(i > 2))).collect();
    let report = three(&splits).unwrap();
    assert_eq!(classes(&report), [("ant 0", 3), ("ant 1", 2)]);
    assert_eq!(report.splits[&Split::Val].samples, 3);
    assert!(report.fields.is_empty(), "{:?}", report.fields);
    let joined = report.columns.unwrap().joined;
    assert_eq!(joined.iter().map(|of| of.by.as_str()).collect::<Vec<_>>(), ["id", "id"]);
}

#[test]
fn what_cannot_be_joined_is_refused() {
    for (splits, expected) in [
        ("100 1\n101 0\n", "has no row with a label for them"),
        ("7 1\n8 0\n", "no row of it has a `id` that is among those of"),
        ("100 1\n100 0\n", "another row with the same `id`, `100`, says something else"),
        ("100 2\n", "none of the patterns"),
    ] {
        let error = three(splits).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn tables_of_the_same_images_are_joined_and_others_put_together() {
    let of = |header: &str, rows: std::ops::Range<usize>, cell: &dyn Fn(usize) -> String| {
        rows.fold(format!("{header}\n"), |text, i| text + &format!("{i}.jpg,{}\n", cell(i)))
    };
    let class = |i: usize| ["bee", "fly"][i % 2].to_owned();
    let labels = of("file_name,label", 0..8, &class);
    let sizes = of("name,size", 0..8, &|i| i.to_string());
    let report = packed(&[("a.csv", &labels), ("b.csv", &sizes)], &[]).unwrap();
    assert_eq!((report.fields.as_slice(), report.samples), (["size".to_owned()].as_slice(), 8));
    let both = of("name,size,age", 0..8, &|i| format!("{i},{i}"));
    let tables = [("a.csv", labels.as_str()), ("b.csv", &sizes), ("c.csv", &both)];
    let error = packed(&tables, &[]).unwrap_err().to_string();
    assert!(error.contains("has the column `size`, too"), "{error}");
    let (some, others) = (of("file_name,label", 0..5, &class), of("file_name,label", 5..8, &class));
    let report = packed(&[("a.csv", &some), ("b.csv", &others)], &[]).unwrap();
    assert!(report.samples == 8 && report.columns.unwrap().joined.is_empty());
}

#[test]
fn annotations_without_boxes_are_labels_of_whole_images() {
    let notes = |bbox: &dyn Fn(usize) -> &'static str| {
        let images: Vec<String> = (0..8)
            .map(|i| {
                // The sizes that these images have.
                let (w, h) = (20 + i, 16 + i % 5);
                format!("{{\"id\":{i},\"file_name\":\"{i}.jpg\",\"width\":{w},\"height\":{h}}}")
            })
            .collect();
        let notes: Vec<String> = (0..8)
            .map(|i| format!("{{\"image_id\":{i},\"category_id\":{}{}}}", i % 2, bbox(i)))
            .collect();
        format!(
            "{{\"images\":[{}],\"annotations\":[{}],\"categories\":[{{\"id\":1,\"name\":\"ant\"}},{{\"id\":0,\"name\":\"bee\"}}]}}",
            images.join(","),
            notes.join(",")
        )
    };
    let report = packed(&[("notes.json", &notes(&|_| ""))], &[]).unwrap();
    assert_eq!(classes(&report), [("ant", 4), ("bee", 4)]);
    assert_eq!(report.fields, Vec::<String>::new());
    let some = notes(&|i| if i == 2 { "" } else { ",\"bbox\":[0,0,4,4]" });
    let report = packed(&[("notes.json", &some)], &[]).unwrap();
    let text = &report.doubts[0].text;
    assert!(
        text.starts_with("1 annotations of") && text.ends_with("have no box and are left out"),
        "{text}"
    );
    assert!(report.fields.contains(&"boxes".to_owned()));
}

#[test]
fn all_rows_of_a_table_may_be_of_one_split() {
    let table = |images: std::ops::Range<usize>| {
        images.fold("file,label\n".to_owned(), |text, i| text + &format!("{i}.jpg,{}\n", i % 2))
    };
    let (train, val) = (table(0..5), table(5..8));
    let tables = [("a.csv", train.as_str()), ("b.csv", val.as_str())];
    let report = packed(&tables, &["{split=train}", "{split=val}"]).unwrap();
    assert_eq!(report.splits[&Split::Val].samples, 3);
    assert_eq!(classes(&report), [("0", 3), ("1", 2)]);
}

#[test]
fn the_header_of_a_csv_is_not_one_of_its_lines() {
    let text = rows("ImageId,PredictionString", &|i| format!("n{} 1 2 3 4 ", i % 2));
    let report = packed(&[("t.csv", &text)], &["{path},{label:n[0-9]} {**}"]).unwrap();
    assert_eq!(classes(&report), [("n0", 4), ("n1", 4)]);
    let report = packed(&[("t.txt", &text)], &["{path},{label:n[0-9]} {**}"]);
    assert!(report.unwrap_err().to_string().contains("line 1"));
}

#[test]
fn ids_of_annotations_may_be_texts() {
    let images: Vec<String> =
        (0..8).map(|i| format!("{{\"image_id\":\"x{i}\",\"file_name\":\"{i}.jpg\"}}")).collect();
    let notes: Vec<String> =
        (0..8).map(|i| format!("{{\"image_id\":\"x{i}\",\"category_id\":{}}}", i % 2)).collect();
    let text = format!(
        "{{\"images\":[{}],\"annotations\":[{}],\"categories\":[{{\"category_id\":1,\"scientificName\":\"ant\"}},{{\"category_id\":0,\"scientificName\":\"bee\"}}]}}",
        images.join(","),
        notes.join(",")
    );
    let report = packed(&[("notes.json", &text)], &[]).unwrap();
    assert_eq!(classes(&report), [("ant", 4), ("bee", 4)]);
}

/// As RFMiD and IDRiD have them: the same names in each split, and a table for each.
#[test]
fn a_table_of_one_split_is_about_the_images_of_this_split() {
    for beside in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (source, out) = (dir.path().join("src"), dir.path().join("out"));
        let mut lines = BTreeMap::new();
        for (split, folder) in [("train", "a. Training Set"), ("test", "b. Testing Set")] {
            let table = match beside {
                true => source.join(folder).join("labels.csv"),
                false => source.join(format!("{split}.csv")),
            };
            for i in 1..4_u32 {
                let n = if split == "train" { i } else { i + 10 };
                put(&source, &format!("{folder}/pictures/{i}.png"), &png(n));
            }
            let class = |i: u32| if split == "train" { i % 2 } else { 1 };
            let rows: String = (1..4).map(|i| format!("{i},{}\n", class(i))).collect();
            fs::write(&table, format!("ID,label\n{rows}")).unwrap();
            lines.insert(table, vec![Pattern::parse_line(&format!("{{split={split}}}")).unwrap()]);
        }
        let table = TableOptions {
            files: lines.keys().cloned().collect(),
            lines,
            split: Some("split".to_owned()),
            ..TableOptions::default()
        };
        let plan = PlanOptions { labels: Labels::Table(table), ..PlanOptions::default() };
        run(&source, &out, plan, 1).unwrap();
        let (_, found) = samples(&out);
        let of = |key: &str| {
            let (split, values) = &found[key];
            (*split, i64::from_le_bytes(values[1][..].try_into().unwrap()))
        };
        assert_eq!(found.len(), 6, "{beside}");
        assert_eq!(of("a. Training Set/pictures/2.png"), (Split::Train, 0));
        assert_eq!(of("b. Testing Set/pictures/2.png"), (Split::Test, 1));
    }
}
