//! Tables whose rows are images.

use std::fs;
use std::path::Path;

use crate::support::{files, options, run, samples};
use gular_bundle::{Dtype, Split};
use gular_pack::{
    Classes, Error, Inputs, LabelColumn, Labels, OnBadInput, PackReport, PlanOptions, RunError,
    pack,
};

fn pixels() -> PlanOptions {
    let labels = Labels::Column(LabelColumn::Find);
    PlanOptions { inputs: Inputs::Pixels { size: None }, labels, ..PlanOptions::default() }
}

/// `label,pixel1,…,pixel9` and `n` rows of it: row i begins with pixel i, and has label i % 3.
fn table(path: &Path, n: u32) {
    let header: Vec<String> = (1..=9).map(|p| format!("pixel{p}")).collect();
    let mut text = format!("label,{}\n", header.join(","));
    for i in 0..n {
        let row: Vec<String> = (0..9).map(|p| ((i + p * 28) % 256).to_string()).collect();
        text += &format!("{},{}\n", i % 3, row.join(","));
    }
    fs::write(path, text).unwrap();
}

/// The result of packing a table: the report, and key, label and pixels of each sample.
type Packed = (PackReport, Vec<u64>, Vec<(String, i64, Vec<u8>)>);

fn packed(text: &[u8], plan: PlanOptions) -> Result<Packed, Error> {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("t.csv"), dir.path().join("out"));
    fs::write(&path, text).unwrap();
    let report = run(&path, &out, plan, 2)?;
    let (bundle, found) = samples(&out);
    let (dtype, shape) = bundle.manifest().fields[0].as_fixed().unwrap();
    assert_eq!(dtype, Dtype::U8);
    let found = found.into_iter().map(|(key, (_, mut values))| {
        let label = values.get(1).map(|v| i64::from_le_bytes(v.as_slice().try_into().unwrap()));
        (key, label.unwrap_or(-9), values.swap_remove(0))
    });
    Ok((report, shape.to_vec(), found.collect()))
}

#[test]
fn each_row_is_an_image_and_its_label() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("fashion_train.csv"), dir.path().join("out"));
    table(&path, 500);
    let plan = PlanOptions { fractions: vec![(Split::Train, 0.8), (Split::Val, 0.2)], ..pixels() };
    let report = run(&path, &out, plan.clone(), 3).unwrap();
    assert_eq!(report.samples, 500);
    let columns = report.pixels.unwrap();
    assert_eq!((columns.labels.as_deref(), columns.shape), (Some("`label`"), [3, 3, 1]));
    let (bundle, found) = samples(&out);
    let manifest = bundle.manifest();
    assert_eq!(manifest.fields[0].as_fixed(), Some((Dtype::U8, &[3, 3, 1][..])));
    assert_eq!(manifest.classes, ["0", "1", "2"]);
    assert!(manifest.statistics.is_some(), "pixels are summed");
    for i in 0..500_u32 {
        let (_, values) = &found[&format!("fashion_train/{i:07}")];
        let row: Vec<u8> = (0..9).map(|p| ((i + p * 28) % 256) as u8).collect();
        assert_eq!(values[0], row);
        assert_eq!(values[1], i64::from(i % 3).to_le_bytes());
    }
    let again = dir.path().join("again");
    run(&path, &again, plan.clone(), 1).unwrap();
    assert!(files(&out) == files(&again));
    assert!(run(&path, &out, plan, 1).unwrap().already_done);
}

#[test]
fn tables_are_read_as_programs_write_them() {
    // The table has no names, but a UTF-8 mark, line ends and quotes of Windows, and blank lines.
    let (_, shape, found) =
        packed(b"\xef\xbb\xbf7,1,2,3,4\r\n\r\n\"0\",5,6,7, 8\r\n", pixels()).unwrap();
    assert_eq!(shape, [2, 2, 1]);
    let expected = [("t/0000000", 7, vec![1, 2, 3, 4]), ("t/0000001", 0, vec![5, 6, 7, 8])];
    assert_eq!(found, expected.map(|(key, label, values)| (key.to_owned(), label, values)));

    // Labels behind the pixels, in words, of which one is not listed first.
    let (report, shape, found) = packed(b"r;g;b;Class\n1;2;3;dog\n4;5;6;cat\n", pixels()).unwrap();
    assert_eq!(shape, [1, 1, 3]);
    assert_eq!(report.splits[&Split::Train].classes.len(), 2);
    assert_eq!(found.iter().map(|(_, label, _)| *label).collect::<Vec<_>>(), [1, 0]);

    let size = |width, height| PlanOptions {
        inputs: Inputs::Pixels { size: Some((width, height)) },
        ..pixels()
    };
    let text = b"1,1,2,3,4,5,6\n-1,1,2,3,4,5,6\n";
    assert_eq!(packed(text, size(3, 2)).unwrap().1, [2, 3, 1]);
    let (_, shape, found) = packed(text, size(1, 3)).unwrap();
    assert_eq!((shape.as_slice(), found[1].1), (&[3, 1, 2][..], -1));

    let none = PlanOptions { labels: Labels::None, ..pixels() };
    let (report, _, found) = packed(b"label,a\n3,7\n", none).unwrap();
    assert_eq!((report.pixels.unwrap().labels, found[0].1), (None, -9));
    let named = Labels::Column(LabelColumn::Named("a".to_owned()));
    let (_, _, found) = packed(b"x,a\n9,5\n", PlanOptions { labels: named, ..pixels() }).unwrap();
    assert_eq!((found[0].1, found[0].2.as_slice()), (5, &[9][..]));
}

#[test]
fn all_bad_rows_are_named_by_line_in_one_error() {
    let text = "label,a,b,c,d\n0,1,2,3,4\n0,1,2,3\n1,1,256,3,4\n1,1,2,x,4\n,1,2,3,4\n\
                1,1,2,3,4,5\n1,9,9,9,9\n";
    let error = packed(text.as_bytes(), pixels()).unwrap_err().to_string();
    for expected in [
        "line 3: it has 4 cells, the first line has 5",
        "line 4: `b` is `256`, expected a whole number from 0 to 255",
        "line 5: `c` is `x`",
        "line 6: `label` is ``",
        "line 7: it has 6 cells",
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    assert!(!error.contains("line 2:") && !error.contains("line 8:"), "{error}");
    let plan = PlanOptions { on_error: OnBadInput::Skip, ..pixels() };
    let (report, _, found) = packed(text.as_bytes(), plan).unwrap();
    assert_eq!((report.skipped, found.len()), (5, 2));
    assert_eq!((found[1].0.as_str(), found[1].2.as_slice()), ("t/0000006", &[9; 4][..]));
}

#[test]
fn a_header_that_counts_the_columns_is_not_an_image() {
    let (_, shape, found) = packed(b"0,1,2,3\n9,8,7,6\n", pixels()).unwrap();
    assert_eq!((shape.as_slice(), found.len()), (&[2, 2, 1][..], 1));
    assert_eq!(found[0].2, [9, 8, 7, 6]);
    let labels = Labels::Column(LabelColumn::Named("0".to_owned()));
    let named = PlanOptions { labels, ..pixels() };
    let (_, _, found) = packed(b"0,1,2,3,4\n5,9,8,7,6\n", named).unwrap();
    assert_eq!((found.len(), found[0].2.as_slice()), (1, &[9, 8, 7, 6][..]));
}

#[test]
fn what_is_no_table_of_pixels_is_refused() {
    let check = |text: &[u8], plan: PlanOptions, expected: &str| {
        let error = packed(text, plan).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    };
    check(b"", pixels(), "it is empty");
    check(
        b"label,a,b\n0,1,2\n",
        pixels(),
        "it has 2 columns of pixels, besides the column of labels `label`",
    );
    check(
        b"digit,a\n0,1\n",
        pixels(),
        "it has 2 columns of pixels, and no column of labels is known",
    );
    check(b"label,a\n", pixels(), "no row of pixels below");
    let size = PlanOptions { inputs: Inputs::Pixels { size: Some((2, 2)) }, ..pixels() };
    check(b"label,a\n0,1\n", size, "a multiple of 2 x 2");
    let named = Labels::Column(LabelColumn::Named("z".to_owned()));
    check(b"label,a\n0,1\n", PlanOptions { labels: named, ..pixels() }, "no column `z`");
    check(b"label,a\n0,1\n", PlanOptions { max_pixels: 0, ..pixels() }, "pixels");
    let folder = PlanOptions { labels: Labels::Path, ..pixels() };
    check(b"label,a\n0,1\n", folder, "the labels of a table of pixels must be in a column");
    let dir = tempfile::tempdir().unwrap();
    let (list, text) = (dir.path().join("list"), b"label,a\ncat,1\nemu,2\n");
    fs::write(&list, "dog\ncat\n").unwrap();
    let listed = PlanOptions { classes: Some(Classes::File(list)), ..pixels() };
    check(text, listed, "`t/0000001` has the class `emu`, which is not one of the 2 classes");
    let images = PlanOptions { inputs: Inputs::Images, ..pixels() };
    check(b"label,a\n0,1\n", images, "is not a folder or an archive");
}

#[test]
fn a_table_that_changes_while_it_is_packed_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv");
    table(&path, 50);
    let changed = |progress: gular_pack::Progress| {
        if let gular_pack::Progress::Planned(..) = progress {
            fs::write(&path, "label,pixel1").unwrap();
        }
    };
    let out = dir.path().join("out");
    let error = pack(&path, &out, &options(pixels(), 1), &changed, &false.into()).unwrap_err();
    assert!(matches!(error, Error::Run(RunError::BadInputs(_))), "{error}");
}
