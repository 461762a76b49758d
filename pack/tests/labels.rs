//! Labels from file names and from tables.

use std::fs;
use std::path::Path;

use crate::support::{files, jpeg, options, png, put, run};
use gular_bundle::{Bundle, Dtype, FieldIdx, FieldKind, OpenOptions, Split};
use gular_pack::{
    Classes, Error, FieldColumns, LabelColumn, Labels, LayoutError, PackReport, PlanOptions,
    ShardError, TableOptions, Unlabelled, pack,
};

/// Key, split, label, and further values, of every sample in order of keys.
type Samples = Vec<(String, Split, Option<i32>, Vec<Vec<u8>>)>;

fn samples(out: &Path) -> Samples {
    let bundle = Bundle::open(out, OpenOptions::default()).unwrap();
    let fields = bundle.manifest().fields.clone();
    let mut samples = Vec::new();
    for split in Split::ALL {
        for i in 0..bundle.n_samples(split) {
            let id = bundle.locate(split, i).unwrap();
            let labelled = fields.iter().any(gular_bundle::Field::is_label);
            let label = labelled.then(|| bundle.shard(id.shard).unwrap().label(id.row).unwrap());
            let mut values = Vec::new();
            for (n, field) in fields.iter().enumerate() {
                if !field.is_image() && !field.is_label() {
                    let mut bytes = Vec::new();
                    bundle.read(id, FieldIdx(n), &mut bytes).unwrap();
                    values.push(bytes);
                }
            }
            let key = bundle.key(id).unwrap().to_string();
            samples.push((key, split, label.flatten(), values));
        }
    }
    samples.sort();
    samples
}

fn table(files: &[&Path]) -> TableOptions {
    TableOptions { files: files.iter().map(|f| (*f).to_owned()).collect(), ..Default::default() }
}

fn by_table(table: TableOptions) -> PlanOptions {
    PlanOptions { labels: Labels::Table(table), ..PlanOptions::default() }
}

fn by_name(pattern: &str) -> PlanOptions {
    PlanOptions { images: vec![pattern.parse().unwrap()], ..PlanOptions::default() }
}

/// Writes six images, `a/0.jpg` to `b/5.png`.
fn six(dir: &Path) {
    for i in 0..6 {
        let (name, bytes) =
            if i < 3 { (format!("a/{i}.jpg"), jpeg(i)) } else { (format!("b/{i}.png"), png(i)) };
        put(dir, &name, &bytes);
    }
}

/// Packs six images by the table `name` with this text.
fn packed(
    name: &str,
    text: &str,
    change: &dyn Fn(&mut TableOptions),
) -> Result<(PackReport, Samples), Error> {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    six(source.path());
    let elsewhere = tempfile::tempdir().unwrap();
    put(elsewhere.path(), name, text.as_bytes());
    let mut options = table(&[&elsewhere.path().join(name)]);
    change(&mut options);
    let report = run(source.path(), out.path(), by_table(options), 2)?;
    Ok((report, samples(out.path())))
}

const SIX: &str =
    "file_name,label\n0.jpg,cat\n1.jpg,dog\n2.jpg,cat\n3.png,dog\n4.png,cat\n5.png,ant\n";

fn labels(samples: &Samples) -> Vec<Option<i32>> {
    samples.iter().map(|s| s.2).collect()
}

#[test]
fn quotes_behind_a_blank_are_not_part_of_a_class_and_utf_16_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (i, name) in ["1.jpg", "2.jpg"].iter().enumerate() {
        put(dir.path(), &format!("images/{name}"), &jpeg(i as u32));
    }
    let pack = |table: &[u8], out: &str| {
        let file = dir.path().join("labels.csv");
        fs::write(&file, table).unwrap();
        let labels = Labels::Table(TableOptions { files: vec![file], ..TableOptions::default() });
        let plan = PlanOptions { labels, ..PlanOptions::default() };
        run(&dir.path().join("images"), &dir.path().join(out), plan, 1)
    };
    pack(b"\"image\", \"label\"\n\"1.jpg\", \"red fox\"\n\"2.jpg\", \"elk\"\n", "out").unwrap();
    let bundle = Bundle::open(&dir.path().join("out"), OpenOptions::default()).unwrap();
    assert_eq!(bundle.manifest().classes, ["elk", "red fox"]);
    let wide: Vec<u8> = "\u{feff}image,label\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(pack(&wide, "wide").unwrap_err().to_string().contains("it is UTF-16"));
}

#[test]
fn names_fit_without_the_zeros_and_with_the_extension_of_another_format() {
    let dir = tempfile::tempdir().unwrap();
    for (i, name) in ["0007.jpg", "0010.jpg", "0000.jpg", "b.jpg"].iter().enumerate() {
        put(dir.path(), &format!("images/{name}"), &jpeg(i as u32));
    }
    let table = dir.path().join("labels.csv");
    fs::write(&table, "id,label\n7,x\n10.0,y\n0,x\nb.png,y\n").unwrap();
    let labels =
        Labels::Table(TableOptions { files: vec![table.clone()], ..TableOptions::default() });
    let plan = || PlanOptions { labels: labels.clone(), ..PlanOptions::default() };
    let (images, out) = (dir.path().join("images"), dir.path().join("out"));
    let report = run(&images, &out, plan(), 1).unwrap();
    let told = report.doubts.iter().any(|doubt| doubt.text.contains("4 rows name images"));
    assert!(told, "{:?}", report.doubts);
    let classes: Vec<Option<i32>> = samples(&out).iter().map(|sample| sample.2).collect();
    assert_eq!(classes, [Some(0), Some(0), Some(1), Some(1)], "in the order of names");
    // Two numbers that differ in zeros alone are two names, and `7` may be either.
    put(&images, "007.jpg", &jpeg(9));
    let error = run(&images, &dir.path().join("two"), plan(), 1).unwrap_err();
    assert!(matches!(error, Error::Layout(LayoutError::UnclearRows { n: 1, .. })), "{error}");
    // An image that a row names as it is has no other row.
    fs::remove_file(images.join("007.jpg")).unwrap();
    let rows = "id,label\n7.png,y\n0007.jpg,x\n0010.jpg,y\n0000.jpg,x\nb.png,x\nb.jpg,y\n";
    fs::write(&table, rows).unwrap();
    let out = dir.path().join("exact");
    run(&images, &out, plan(), 1).unwrap();
    let classes: Vec<Option<i32>> = samples(&out).iter().map(|sample| sample.2).collect();
    assert_eq!(classes, [Some(0), Some(0), Some(1), Some(1)]);
}

#[test]
fn cats_and_dogs_are_told_by_their_names() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for i in 0..4 {
        put(source.path(), &format!("cat.{i}.jpg"), &jpeg(i));
        put(source.path(), &format!("deeper/dog.{i}.jpg"), &jpeg(i));
    }
    let report = run(source.path(), out.path(), by_name("{**}{label:cat|dog}.{**}"), 2).unwrap();
    assert_eq!(report.samples, 8);
    let bundle = Bundle::open(out.path(), OpenOptions::default()).unwrap();
    assert_eq!(bundle.manifest().classes, ["cat", "dog"]);
    for (key, _, label, _) in samples(out.path()) {
        assert_eq!(label, Some(i32::from(key.contains("dog"))), "{key}");
    }
    let again = run(source.path(), out.path(), by_name("{**}{label:cat|dog}.{**}"), 1).unwrap();
    assert!(again.already_done);
    assert!(
        run(source.path(), out.path(), by_name("{**}{label:c|d}{**}"), 1).is_err(),
        "another bundle"
    );
}

#[test]
fn images_whose_names_do_not_match_are_named_or_left_out() {
    let source = tempfile::tempdir().unwrap();
    put(source.path(), "train/cat.0.jpg", &jpeg(0));
    put(source.path(), "train/7.jpg", &jpeg(1));
    put(source.path(), "val/dog.0.jpg", &jpeg(2));
    put(source.path(), "val/cat.1.jpg", &jpeg(2));
    let out = tempfile::tempdir().unwrap();
    let error = run(source.path(), out.path(), by_name("{split}/{label:[a-z]+}.{**}"), 1)
        .unwrap_err()
        .to_string();
    assert!(error.contains("1 image fits no pattern: `train/7.jpg`; "), "{error}");
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
    let skip =
        PlanOptions { unlabelled: Unlabelled::Skip, ..by_name("{split}/{label:[a-z]+}.{**}") };
    let report = run(source.path(), out.path(), skip.clone(), 1).unwrap();
    assert_eq!((report.samples, report.unlabelled, report.skipped), (3, 1, 0));
    assert!(report.warnings[0].contains("`train/7.jpg`"), "{:?}", report.warnings);
    assert!(run(source.path(), out.path(), skip, 1).unwrap().already_done);
    let splits: Vec<Split> = samples(out.path()).into_iter().map(|s| s.1).collect();
    assert_eq!(splits, [Split::Train, Split::Val, Split::Val]);
}

#[test]
fn a_table_gives_classes_and_names_may_be_short() {
    let (report, samples) = packed("labels.csv", SIX, &|_| {}).unwrap();
    assert_eq!((report.samples, report.unlabelled, report.unused_rows), (6, 0, 0));
    assert_eq!(labels(&samples), [1, 2, 1, 2, 1, 0].map(Some));
    let long = SIX.replace("\n0", "\n/data/set/a/0").replace("3.png", r"b\3");
    for text in [
        long.as_str(),
        &SIX.replace(',', ";"),
        &SIX.replace(".jpg", "").replace("file_name", "Image ID"),
    ] {
        let (other, _) = packed("labels.csv", text, &|_| {}).unwrap();
        assert_eq!(other.digest, report.digest, "{text}");
    }
    let tsv = SIX.replace(',', "\t");
    assert_eq!(packed("labels.tsv", &tsv, &|_| {}).unwrap().0.digest, report.digest);
    let json: String = SIX
        .lines()
        .skip(1)
        .map(|l| l.split_once(',').unwrap())
        .map(|(key, label)| format!("{{\"label\": \"{label}\", \"file_name\": \"{key}\"}}\n"))
        .collect();
    assert_eq!(packed("labels.jsonl", &json, &|_| {}).unwrap().0.digest, report.digest);
    // The files are as programs on Windows write them.
    for (name, text) in [("labels.csv", SIX), ("labels.jsonl", &json)] {
        let text = format!("\u{feff}{text}");
        assert_eq!(packed(name, &text, &|_| {}).unwrap().0.digest, report.digest);
    }
}

#[test]
fn a_y_beside_an_x_is_no_label_and_columns_taken_are_told() {
    let text = "id,filename,x,y,category\n7,0,1,2,cat\n7,1,3,4,dog\n7,2,1,1,cat\n7,3,1,1,cat
7,4,2,2,dog\n7,5,0,0,cat\n";
    let (report, _) = packed("t.csv", text, &|_| {}).unwrap();
    let columns = report.columns.unwrap();
    assert_eq!((&*columns.file_names, columns.labels.as_deref()), ("filename", Some("category")));
    assert_eq!(report.fields, ["id", "x", "y"]);
    let error = packed("t.csv", &text.replace("category", "kind"), &|_| {}).unwrap_err();
    let Error::Layout(LayoutError::Doubt(doubt)) = error else { panic!("{error}") };
    let columns = doubt.readings.iter().map(|way| way.label_column.as_deref());
    assert_eq!(columns.collect::<Vec<_>>(), [Some("kind"), Some("none")]);
}

#[test]
fn numbers_are_labels_as_they_are() {
    let text = "id,y\n0,3\n1,0\n2,3\n3,-1\n4,1\n5,1\n";
    let (report, samples) = packed("t.csv", text, &|_| {}).unwrap();
    assert_eq!(labels(&samples), [3, 0, 3, -1, 1, 1].map(Some));
    assert_eq!(report.samples, 6);
    let error = packed("t.csv", &text.replace(",0", ",-2"), &|_| {}).unwrap_err().to_string();
    assert!(error.contains("line 3") && error.contains("number -2"), "{error}");
    let error = packed("t.csv", &text.replace(",0", ",0.5"), &|_| {}).unwrap_err().to_string();
    assert!(error.contains("fractions"), "{error}");
}

#[test]
fn blanks_around_cells_mean_nothing_but_in_fields() {
    let (report, found) = packed("t.csv", SIX, &|_| {}).unwrap();
    let (blank, _) = packed("t.csv", &SIX.replace(',', " , "), &|_| {}).unwrap();
    assert_eq!(blank.digest, report.digest);
    assert_eq!(labels(&found), [1, 2, 1, 2, 1, 0].map(Some));
    let text = "id, y, part, note\n0, 10, train, a\n1, 2, val , b \n2, 2, train, \n3, 2, train,d
4, 2, train,e\n5, -1, train,f\n";
    let split = |t: &mut TableOptions| t.split = Some("part".into());
    let (report, found) = packed("t.csv", text, &split).unwrap();
    assert_eq!(labels(&found), [10, 2, 2, 2, 2, -1].map(Some));
    assert_eq!((report.splits[&Split::Val].samples, report.fields), (1, vec!["note".to_owned()]));
    let notes: Vec<&[u8]> = found.iter().map(|s| &s.3[0][..]).collect();
    assert_eq!(notes, [&b" a"[..], b" b ", b"", b"d", b"e", b"f"]);
    let numbers = text.replace("y,", "grade,").replace(", part, note", ", part, label");
    let (report, _) = packed("t.csv", &numbers.replace(", \n", ", c\n"), &split).unwrap();
    assert_eq!(report.splits[&Split::Train].classes.len(), 5);
    let skip = PlanOptions { unlabelled: Unlabelled::Skip, ..PlanOptions::default() };
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    six(source.path());
    let path = source.path().join("t.csv");
    fs::write(&path, SIX.replace(",ant", ", ")).unwrap();
    let plan = PlanOptions { labels: Labels::Table(table(&[&path])), ..skip };
    let report = run(source.path(), out.path(), plan, 1).unwrap();
    assert_eq!((report.samples, report.unlabelled), (5, 1));
}

#[test]
fn further_columns_become_fields() {
    let text = "{\"path\":\"0.jpg\",\"label\":\"x\",\"age\":3,\"Mass (kg)\":1.5,\"note\":\"é\\n\",\"ok\":true,\"box\":[1,2.5]}
{\"path\":\"1.jpg\",\"label\":\"x\",\"age\":4,\"note\":\"\",\"ok\":false,\"box\":[3,4],\"odd\":{}}
{\"path\":\"2.jpg\",\"label\":\"y\",\"age\":5,\"Mass (kg)\":2,\"ok\":false,\"box\":[0,0]}
";
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    six(source.path());
    let path = source.path().join("a/metadata.jsonl");
    fs::write(&path, text).unwrap();
    let plan = PlanOptions { unlabelled: Unlabelled::Skip, ..by_table(table(&[&path])) };
    let report = run(source.path(), out.path(), plan.clone(), 2).unwrap();
    assert_eq!((report.samples, report.unlabelled), (3, 3));
    assert!(report.warnings.iter().any(|w| w.contains("`odd`")), "{:?}", report.warnings);
    let bundle = Bundle::open(out.path(), OpenOptions::default()).unwrap();
    let mut fields: Vec<(String, FieldKind)> = bundle.manifest().fields[2..]
        .iter()
        .map(|f| (f.name.to_string(), f.kind.clone()))
        .collect();
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    let fixed = |dtype, shape: &[u64]| FieldKind::Fixed { dtype, shape: shape.to_vec() };
    let texts = FieldKind::Bytes { media_types: vec!["text/plain".into()] };
    let expected = [
        ("age", fixed(Dtype::I64, &[])),
        ("box", fixed(Dtype::F64, &[2])),
        ("mass_kg", fixed(Dtype::F64, &[])),
        ("note", texts),
        ("ok", fixed(Dtype::U8, &[])),
    ];
    assert_eq!(fields, expected.map(|(n, k)| (n.to_owned(), k)));
    let value = |name: &str| {
        let at = bundle.manifest().fields.iter().position(|f| f.name.as_str() == name).unwrap();
        let values = samples(out.path()).into_iter().map(|s| s.3[at - 2].clone());
        values.collect::<Vec<_>>()
    };
    assert_eq!(value("age")[1], 4_i64.to_le_bytes());
    assert_eq!(value("note"), ["é\n".as_bytes(), b"", b""]);
    assert_eq!(value("ok"), [[1], [0], [0]]);
    assert_eq!(value("box")[0], [1_f64.to_le_bytes(), 2.5_f64.to_le_bytes()].concat());
    let mass: Vec<f64> =
        value("mass_kg").iter().map(|b| f64::from_le_bytes(b[..].try_into().unwrap())).collect();
    assert!(mass[0] == 1.5 && mass[1].is_nan() && mass[2] == 2.0);
    // The plan has every value: a changed one is another plan.
    assert!(run(source.path(), out.path(), plan.clone(), 1).unwrap().already_done);
    fs::write(&path, text.replace("\"age\":4", "\"age\":9")).unwrap();
    assert!(matches!(
        run(source.path(), out.path(), plan, 1),
        Err(Error::Shard(ShardError::AlreadyBundle { .. }))
    ));
}

#[test]
fn several_classes_become_one_field_of_zeros_and_ones() {
    let text =
        "image,tags\n0,haze primary\n1,water\n2,primary  haze\n3,\n4,water haze\n5,primary\n";
    let skip = |t: &mut TableOptions| t.separator = Some(" ".into());
    let error = packed("t.csv", text, &skip).unwrap_err().to_string();
    assert!(error.contains("1 image has no label: `b/3.png`; "), "{error}");
    let (_, found) = packed("t.csv", &text.replace("3,", "3,haze haze"), &skip).unwrap();
    let hot: Vec<&[u8]> = found.iter().map(|s| &s.3[0][..]).collect();
    // The classes are haze, primary and water.
    assert_eq!(hot, [[1, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 0], [1, 0, 1], [0, 1, 0]]);
    assert!(labels(&found).iter().all(Option::is_none));
    let json = "{\"image\":0,\"tags\":[0,2]}\n{\"image\":1,\"tags\":[]}\n{\"image\":2,\"tags\":[1]}
{\"image\":3,\"tags\":[2]}\n{\"image\":4,\"tags\":[2,1]}\n{\"image\":5,\"tags\":[0]}\n";
    let (report, found) = packed("t.jsonl", json, &|_| {}).unwrap();
    assert_eq!(found[0].3, [[1, 0, 1]]);
    assert_eq!(found[1].3, [[0, 0, 0]]);
    assert_eq!(report.splits[&Split::Train].classes["2"], 3);
}

#[test]
fn a_truth_value_is_one_class_also_with_a_separator() {
    let row = |i: i32| format!("{{\"id\": \"{i}\", \"label\": {}, \"n\": {i}}}\n", i % 2 == 1);
    let text: String = (0..6).map(row).collect();
    let (_, found) = packed("t.jsonl", &text, &|t| t.separator = Some("|".into())).unwrap();
    // false, true; and the other column has its own values.
    assert_eq!(found[1].3, [vec![0, 1], 1_i64.to_le_bytes().to_vec()]);
    assert_eq!(found[4].3, [vec![1, 0], 4_i64.to_le_bytes().to_vec()]);
}

#[test]
fn an_empty_text_is_no_class() {
    let rows = |last: &str| -> String {
        let row = |i| format!("{{\"file_name\": \"{i}\", \"label\": \"cat\"}}\n");
        (0..5).map(row).collect::<String>() + &format!("{{\"file_name\": \"5\", {last}}}\n")
    };
    for last in ["\"label\": \"\"", "\"label\": \" \"", "\"label\": null", "\"x\": 1"] {
        let error = packed("t.jsonl", &rows(last), &|_| {}).unwrap_err().to_string();
        assert!(error.contains("`b/5.png`"), "{error}");
    }
    let text = rows("\"label\": [\"\", \"dog\"]").replace("\"cat\"", "[\"cat\"]");
    let (_, found) = packed("t.jsonl", &text, &|_| {}).unwrap();
    assert_eq!((&found[0].3[0][..], &found[5].3[0][..]), (&[1, 0][..], &[0, 1][..]));
}

#[test]
fn a_column_of_splits_makes_splits() {
    let text = SIX.replace("label\n", "label,part\n");
    let text: String = text
        .lines()
        .enumerate()
        .map(|(i, line)| match i {
            0 => format!("{line}\n"),
            _ => format!("{line},{}\n", ["train", "Valid", "test"][i % 3]),
        })
        .collect();
    let split = |t: &mut TableOptions| t.split = Some("part".into());
    let (_, found) = packed("t.csv", &text, &split).unwrap();
    let splits: Vec<Split> = found.iter().map(|s| s.1).collect();
    assert_eq!(
        splits,
        [Split::Val, Split::Test, Split::Train, Split::Val, Split::Test, Split::Train]
    );
    let error = packed("t.csv", &text.replace("Valid", "half"), &split).unwrap_err().to_string();
    assert!(error.contains("`half` in column `part` of `"), "{error}");
    assert!(error.contains("t.csv` line 2 is not a split"), "{error}");
}

#[test]
fn what_does_not_join_is_named() {
    let check = |text: &str, change: &dyn Fn(&mut TableOptions), expected: &[&str]| {
        let error = packed("t.csv", text, change).unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "{error}: no `{part}`");
        }
    };
    let none = |_: &mut TableOptions| {};
    let short = SIX.replace("2.jpg,cat\n", "").replace("5.png,ant\n", "5.png,\n");
    check(&short, &none, &["2 images have no label: `a/2.jpg`, `b/5.png`; ", "t.csv` has no row"]);
    let twice = format!("{SIX}a/2.jpg,dog\n");
    check(
        &twice,
        &none,
        &["1 image has more than one row in the table: `a/2.jpg (t.csv:4 and t.csv:8)`"],
    );
    let other = SIX.replace(".jpg", "x.jpg").replace(".png", "x.png");
    check(
        &other,
        &none,
        &["no row of the table matches an image: the 6 rows name", "`0x.jpg`", "`a/0.jpg`"],
    );
    check(
        "a,b,c\n7,8,9\n",
        &none,
        &["no column that looks like the column of file names; its columns are `a`, `b`, `c`"],
    );
    let key = |t: &mut TableOptions| t.key = Some("path".into());
    check(SIX, &key, &["no column `path`; its columns are `file_name`, `label`"]);
    check("path,u,v\n0.jpg,1,2\n", &none, &["no column that looks like the column of labels"]);
    check(&SIX.replace("dog\n2", "dog,1\n2"), &none, &["line 3 cannot be read: it has 3 cells"]);
    check("file_name,label\n", &none, &["it has no rows"]);
    let doubled = SIX.replace("file_name,label", "label, label");
    check(&doubled, &none, &["t.csv` line 1 cannot be read: two columns are named `label`"]);
    let columns = |t: &mut TableOptions| t.fields = FieldColumns::Named(vec!["age".into()]);
    check(SIX, &columns, &["no column `age`"]);
    let (report, _) = packed("t.csv", &format!("{SIX}9.jpg,cat\n"), &none).unwrap();
    assert_eq!(report.unused_rows, 1);
    assert_eq!(report.warnings, ["1 row of the table matches no image: `9.jpg`"]);
    let with = |(i, line)| format!("{line},{}\n", if i == 0 { "Split" } else { "val" });
    let text: String = SIX.lines().enumerate().map(with).collect();
    let text = format!("{text}8.jpg,cat,val\n9.jpg,cat,val\n");
    let (report, _) = packed("t.csv", &text, &none).unwrap();
    assert_eq!(report.warnings, ["2 rows of the table match no image: `8.jpg`, `9.jpg`"]);
    let [doubt] = report.doubts.as_slice() else { panic!("{:?}", report.doubts) };
    assert!(doubt.text.contains("column `Split` was stored as a field"), "{doubt}");
    assert_eq!(doubt.readings[0].split_column.as_deref(), Some("Split"));
    let error = packed("t.dat", SIX, &none).unwrap_err();
    assert!(matches!(error, Error::Layout(LayoutError::NoTable { .. })), "{error}");
    let error = packed("t.jsonl", "{\"path\": 1}\n[]\n", &none).unwrap_err().to_string();
    assert!(error.contains("line 2 cannot be read: it is not an object"), "{error}");
    let error = packed("t.parquet", "PAR1", &none).unwrap_err().to_string();
    assert!(error.contains("too short"), "{error}");
}

#[test]
fn one_name_for_two_images_is_refused() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["a/1.jpg", "b/1.jpg", "b/2.jpg"] {
        put(source.path(), name, &jpeg(1));
    }
    let path = source.path().join("labels.csv");
    fs::write(&path, "file,label\n1.jpg,x\n2.jpg,y\n").unwrap();
    let error = run(source.path(), out.path(), by_table(table(&[&path])), 1).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("1 row matches more than one image: `1.jpg (labels.csv:2)`"), "{text}");
    // Each table is beside the images that it names.
    for folder in ["a", "b"] {
        put(
            source.path(),
            &format!("{folder}/metadata.csv"),
            format!("file_name,label\n1.jpg,{folder}\n").as_bytes(),
        );
    }
    let (a, b) = (source.path().join("a/metadata.csv"), source.path().join("b/metadata.csv"));
    let other = source.path().join("a/other.csv");
    fs::write(&other, "file_name,label\n1.jpg,z\n").unwrap();
    let error = run(source.path(), out.path(), by_table(table(&[&a, &other])), 1).unwrap_err();
    let at = format!("({}:2 and {}:2)", a.display(), other.display());
    assert!(error.to_string().contains(&at), "{error}");
    let plan = PlanOptions { unlabelled: Unlabelled::Skip, ..by_table(table(&[&a, &b])) };
    assert_eq!(run(source.path(), out.path(), plan, 1).unwrap().samples, 2);
    assert_eq!(labels(&samples(out.path())), [0, 1].map(Some));
}

#[test]
fn a_name_is_that_of_the_image_that_has_all_of_it() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (i, name) in ["1.jpg", "data/a/1.jpg", "data/b/1.jpg"].into_iter().enumerate() {
        put(source.path(), name, &jpeg(i as u32));
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("t.csv");
    fs::write(&path, "file,label\na/1.jpg,5\n1.jpg,6\nold/data/b/1.jpg,7\n").unwrap();
    run(source.path(), out.path(), by_table(table(&[&path])), 1).unwrap();
    assert_eq!(labels(&samples(out.path())), [6, 5, 7].map(Some));
}

#[test]
fn the_list_of_classes_sets_the_order_and_must_have_all() {
    let list = tempfile::NamedTempFile::new().unwrap();
    let check = |classes: &str, text: &str| {
        fs::write(list.path(), classes).unwrap();
        let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        six(source.path());
        fs::write(source.path().join("t.csv"), text).unwrap();
        let plan = PlanOptions {
            classes: Some(Classes::File(list.path().to_owned())),
            ..by_table(table(&[&source.path().join("t.csv")]))
        };
        run(source.path(), out.path(), plan, 1).map(|_| labels(&samples(out.path())))
    };
    assert_eq!(check("dog\ncat\nant\n", SIX).unwrap(), [1, 0, 1, 0, 1, 2].map(Some));
    let error = check("dog\ncat\n", SIX).unwrap_err().to_string();
    assert!(error.contains("class `ant`, which is not one of the 2 classes"), "{error}");
    let numbers = "id,y\n0,1\n1,0\n2,1\n3,0\n4,0\n5,0\n";
    assert_eq!(check("no\nyes\n", numbers).unwrap(), [1, 0, 1, 0, 0, 0].map(Some));
    assert_eq!(check("1\n0\n", numbers).unwrap(), [0, 1, 0, 1, 1, 1].map(Some));
    assert!(check("no\n", numbers).unwrap_err().to_string().contains("class `1`"));
}

#[test]
fn a_table_gives_the_same_bytes_for_any_jobs_and_memory() {
    let source = tempfile::tempdir().unwrap();
    let mut text = String::from("id,label,x\n");
    for i in 0..300_u32 {
        put(source.path(), &format!("f{}/{i:04}.png", i % 7), &png(i));
        text.push_str(&format!("{i:04},c{},{}\n", i % 5, f64::from(i) / 3.0));
    }
    let path = source.path().join("t.csv");
    fs::write(&path, text).unwrap();
    let packed: Vec<_> = [(1, 1 << 20), (4, 256 << 20)]
        .map(|(jobs, memory_bytes)| {
            let out = tempfile::tempdir().unwrap();
            let plan =
                PlanOptions { memory_bytes, shard_bytes: 1 << 20, ..by_table(table(&[&path])) };
            run(source.path(), out.path(), plan, jobs).unwrap();
            files(out.path())
        })
        .into();
    assert!(packed[0] == packed[1]);
}

#[test]
fn a_flat_val_folder_beside_class_folders_takes_labels_from_a_table() {
    // ImageNet's: train/CLASS/x.JPEG, val/x.JPEG, and a table of both.
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut table_text = String::from("ImageId,PredictionString\n");
    for i in 0..6 {
        let class = ["n01440764", "n01443537"][i as usize % 2];
        put(source.path(), &format!("train/{class}/{class}_{i}.JPEG"), &jpeg(i));
        put(source.path(), &format!("val/ILSVRC2012_val_{i}.JPEG"), &jpeg(i + 10));
        table_text.push_str(&format!("ILSVRC2012_val_{i},{class}\n{class}_{i},{class}\n"));
    }
    let path = source.path().join("LOC_solution.csv");
    fs::write(&path, table_text).unwrap();
    run(source.path(), out.path(), by_table(table(&[&path])), 2).unwrap();
    let bundle = Bundle::open(out.path(), OpenOptions::default()).unwrap();
    assert_eq!(bundle.manifest().classes, ["n01440764", "n01443537"]);
    assert_eq!(bundle.n_samples(Split::Val), 6);
    for (key, split, label, _) in samples(out.path()) {
        let i: i32 = key.trim_end_matches(".JPEG").rsplit('_').next().unwrap().parse().unwrap();
        assert_eq!(label, Some(i % 2), "{key} {split}");
    }
}

#[test]
fn tables_without_labels_give_fields_alone() {
    let text = SIX.replace("label", "note");
    let (report, found) = packed("t.csv", &text, &|t| t.label = LabelColumn::None).unwrap();
    assert_eq!(report.fields, ["note"]);
    let error = packed("t.csv", SIX, &|t| {
        t.label = LabelColumn::None;
        t.fields = FieldColumns::Named(vec!["label".into()]);
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("only a column of classes may be the field `label`"), "{error}");
    assert_eq!(found[5].3, [b"ant"]);
    assert!(labels(&found).iter().all(Option::is_none));
}

#[test]
fn options_that_contradict_a_table_are_refused() {
    let source = tempfile::tempdir().unwrap();
    six(source.path());
    let path = source.path().join("t.csv");
    fs::write(&path, SIX).unwrap();
    let split =
        TableOptions { split: Some("label".into()), label: LabelColumn::None, ..table(&[&path]) };
    let check = |plan: PlanOptions, expected: &str| {
        let out = tempfile::tempdir().unwrap();
        let dry = gular_pack::PackOptions { dry_run: true, ..options(plan, 1) };
        let stop = std::sync::atomic::AtomicBool::new(false);
        let error = pack(source.path(), out.path(), &dry, &|_| {}, &stop).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let fractions = vec![(Split::Train, 1.0)];
    check(PlanOptions { fractions, ..by_table(split.clone()) }, "fractions");
    check(
        PlanOptions { images: vec!["{split}/{key}".parse().unwrap()], ..by_table(split) },
        "from a column",
    );
}

#[test]
fn a_column_for_each_class_is_one_column_of_classes() {
    const TABLE: &str =
        "image,fly,bee,age\n0,1,0,3\n1,0.0,1.0,4\n2,1,0,5\n3,0,1,6\n4,0,1,7\n5,1,0,8\n";
    let names = |report: &PackReport| -> Vec<String> {
        report.splits[&Split::Train].classes.keys().cloned().collect()
    };
    let (report, found) = packed("t.csv", TABLE, &|_| {}).unwrap();
    assert_eq!(names(&report), ["bee", "fly"]);
    assert_eq!(labels(&found), [1, 0, 1, 0, 0, 1].map(Some));
    assert_eq!(
        (report.fields, report.columns.unwrap().labels),
        (vec!["age".to_owned()], Some("fly,bee".to_owned()))
    );
    // Several or none in a row have two readings.
    let several = TABLE.replace("0,1,0,3", "0,,0,3").replace("1,0.0,1.0,4", "1,1.0,1,4");
    let error = packed("t.csv", &several, &|_| {}).unwrap_err().to_string();
    assert!(error.contains("2 columns hold only 0 and 1 (`fly`, `bee`)"), "{error}");
    let listed = |table: &mut TableOptions| table.label = LabelColumn::Named("fly,bee".to_owned());
    let (report, found) = packed("t.csv", &several, &listed).unwrap();
    assert_eq!(report.fields, ["labels", "age"]);
    assert_eq!((&found[0].3[0], &found[1].3[0]), (&vec![0, 0], &vec![1, 1]));
    let (report, found) =
        packed("t.csv", &several, &|table| table.label = LabelColumn::None).unwrap();
    assert_eq!((report.fields.len(), found[0].2), (3, None));
    // A class that no image has is one, too.
    let unseen = several.replace("bee,age", "bee,wasp,age").replace(",3\n", ",0,3\n");
    let unseen = ["4", "5", "6", "7", "8"]
        .iter()
        .fold(unseen, |table, age| table.replace(&format!(",{age}\n"), &format!(",0,{age}\n")));
    let listed_too = LabelColumn::Named("fly,bee,wasp".to_owned());
    let (_, found) = packed("t.csv", &unseen, &|table| table.label = listed_too.clone()).unwrap();
    assert_eq!((&found[0].3[0], &found[1].3[0]), (&vec![0, 0, 0], &vec![1, 1, 0]));
    // Other values are none of these.
    let unsure = TABLE.replace("0,1,0,3", "0,-1,0,3");
    let error = packed("t.csv", &unsure, &listed).unwrap_err().to_string();
    assert!(
        error.contains(
            "line 2 cannot be read: the column `fly` has the value `-1`, expected 0 or 1"
        ),
        "{error}"
    );
}

#[test]
fn classes_with_one_sample_are_told() {
    let pack = |classes: &[u32]| {
        let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (i, class) in (0..).zip(classes) {
            put(source.path(), &format!("c{class:02}/{i}.jpg"), &jpeg(i));
        }
        run(source.path(), out.path(), PlanOptions::default(), 1).unwrap().warnings
    };
    let all: Vec<u32> = (0..20).collect();
    assert_eq!(pack(&all[..19]), [""; 0]);
    assert!(pack(&all)[0].contains("as many classes as samples, 20"), "{:?}", pack(&all));
    let most: Vec<u32> = all.iter().map(|class| (*class).max(15)).collect();
    let warning = &pack(&most)[0];
    assert!(warning.contains("together: `c16`, `c17`, `c18` and 1 more"), "{warning}");
}

#[test]
fn columns_that_are_no_classes_are_refused_or_told() {
    let error = |text: &str| packed("t.csv", text, &|_| {}).unwrap_err().to_string();
    let plus = SIX.replace("cat", "-1").replace("dog", "1").replace("ant", "1");
    assert!(error(&plus).contains("only -1 and 1, and -1 would say"), "{}", error(&plus));
    let lists = SIX.replace("cat", "\"['cat', 'dog']\"");
    assert!(error(&lists).contains("lists that are written as texts"), "{}", error(&lists));
    let told = |text: &str| {
        let (report, found) = packed("t.csv", text, &|_| {}).unwrap();
        let doubts: Vec<String> = report.doubts.iter().map(ToString::to_string).collect();
        (doubts.join("\n"), found[0].2)
    };
    let some = SIX.replace("ant", "-1").replace("cat", "0").replace("dog", "1");
    assert!(told(&some).0.contains("has the label -1"), "{:?}", told(&some));
    assert!(told(&SIX.replace("ant", "cat|dog")).0.contains("`cat|dog`, which are divided at"));
    let split = SIX.replace("label", "split").replace("cat", "train").replace("dog", "val");
    let (doubts, label) = told(&split.replace("ant", "val"));
    assert!(doubts.contains("column `split` has a name of splits") && label.is_none(), "{doubts}");
    let flags = "image,is_train,is_test\n0,1,0\n1,1,0\n2,0,1\n3,1,0\n4,0,1\n5,1,0\n";
    assert!(error(flags).contains("looks like the column of labels"), "{}", error(flags));
    let taken = "image,male,female\n0,1,0\n1,1,0\n2,0,1\n3,1,0\n4,0,1\n5,1,0\n";
    assert!(told(taken).0.contains("exactly one is 1 in each row"), "{:?}", told(taken));
}

#[test]
fn lists_of_splits_that_are_not_read_are_told() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for i in 0..2 {
        put(source.path(), &format!("c{i}/{i}.jpg"), &jpeg(i));
    }
    for name in ["train.txt", "test.txt", "readme.txt"] {
        put(source.path(), name, b"c0/0.jpg\n");
    }
    let report = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap();
    let lists = &report.doubts[0].readings[0].lists;
    let ends = ["test.txt={split=test}{path}", "train.txt={split=train}{path}"];
    assert!(lists.iter().zip(ends).all(|(list, end)| list.ends_with(end)), "{lists:?}");
}
