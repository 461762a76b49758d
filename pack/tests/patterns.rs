//! Paths are read by patterns: those that are recognised, and those of the user.

use std::path::Path;

use crate::fields::grey;
use crate::support::{jpeg, put, run, samples};
use gular_bundle::{FieldKind, FieldName, Split};
use gular_pack::{
    Error, FieldFiles, Labels, LayoutError, PackReport, PlanOptions, TableOptions, Unlabelled,
};

fn by(patterns: &[&str]) -> PlanOptions {
    let images = patterns.iter().map(|text| text.parse().unwrap()).collect();
    PlanOptions { images, ..PlanOptions::default() }
}

fn field(name: &str, pattern: &str) -> FieldFiles {
    let name = FieldName::parse(name).unwrap();
    FieldFiles { name, files: None, pattern: Some(pattern.parse().unwrap()) }
}

/// Packs images of these paths.
fn packed(paths: &[&str], plan: PlanOptions) -> Result<PackReport, Error> {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    (0..).zip(paths).for_each(|(i, path)| put(source.path(), path, &jpeg(i)));
    run(source.path(), out.path(), plan, 1)
}

#[test]
fn what_is_recognised_can_be_given_back_and_gives_the_same_bundle() {
    for (paths, patterns, classes) in [
        (&["a/1.jpg", "c/1.jpg"][..], &["{label}/{key}.{ext}"][..], 2),
        (&["Training/a/1.jpg", "Testing/b/2.jpg"], &["{split}/{label}/{key}.{ext}"], 2),
        (&["set/a/1.jpg", "set/b/2.jpg"], &["set/{label}/{key}.{ext}"], 2),
        (&["a/train/1.jpg", "b/test/2.jpg"], &["{label}/{split}/{key}.{ext}"], 2),
        (
            &["train/a/1.jpg", "train/b/2.jpg", "test/3.jpg"],
            &["{split}/{label}/{key}.{ext}", "{split:test}/{key}.{ext}"],
            2,
        ),
    ] {
        let found = packed(paths, PlanOptions::default()).unwrap();
        assert_eq!(found.images, patterns, "{paths:?}");
        let given = packed(paths, by(patterns)).unwrap();
        assert_eq!(given.digest, found.digest, "{paths:?}");
        let names = found.splits.values().flat_map(|split| split.classes.keys());
        assert_eq!(names.collect::<std::collections::BTreeSet<_>>().len(), classes, "{paths:?}");
    }
    let found = packed(&["Training/a/1.jpg", "dev/b/2.jpg"], PlanOptions::default()).unwrap();
    let words = [("Training".to_owned(), Split::Train), ("dev".to_owned(), Split::Val)];
    assert_eq!(found.split_words, words.into());
}

#[test]
fn the_manifest_says_how_paths_were_read() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(source.path(), "lernen/a/1.jpg", &jpeg(1));
    put(source.path(), "pruefen/a/2.jpg", &jpeg(2));
    let plan =
        by(&["{split=train}lernen/{label}/{key}.{ext}", "{split=test}pruefen/{label}/{key}.{ext}"]);
    run(source.path(), out.path(), plan, 1).unwrap();
    let (bundle, found) = samples(out.path());
    assert_eq!(found["pruefen/a/2.jpg"].0, Split::Test);
    let made = |name: &str| match bundle.manifest().made.get(name) {
        Some(gular_bundle::MadeValue::Text(text)) => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(made("images"), "{split=test}pruefen/{label}/{key}.{ext}");
    assert_eq!(made("images_2"), "{split=train}lernen/{label}/{key}.{ext}");
}

#[test]
fn other_parts_of_paths_become_fields_of_text() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(source.path(), "p1/2020/cat_1.jpg", &jpeg(1));
    put(source.path(), "p2/2021/dog_1.jpg", &jpeg(2));
    let report =
        run(source.path(), out.path(), by(&["{patient}/{year}/{label}_{key}.jpg"]), 1).unwrap();
    assert_eq!(report.fields, ["patient", "year"]);
    let (bundle, found) = samples(out.path());
    let field = &bundle.manifest().fields[2];
    assert!(
        matches!(&field.kind, FieldKind::Bytes { media_types } if media_types == &["text/plain"])
    );
    assert_eq!(found["p2/2021/dog_1.jpg"].1[2..], [b"p2".to_vec(), b"2021".to_vec()]);
}

#[test]
fn files_belong_to_the_image_with_the_same_parts() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (i, side) in [(1, "train"), (2, "val")] {
        // Keys repeat in each split, so only both parts tell the files apart.
        put(source.path(), &format!("{side}/7_sat.jpg"), &jpeg(i));
        let (w, h) = (20 + i % 17, 16 + i % 5);
        let mask = grey(w, h, &vec![i as u16; (w * h) as usize], false);
        put(source.path(), &format!("masks/7_{side}.png"), &mask);
        put(source.path(), &format!("{side}/7_sat.txt"), side.as_bytes());
    }
    let fields =
        vec![field("mask", "masks/{key}_{split}.png"), field("caption", "{split}/{key}_sat.txt")];
    let plan = PlanOptions { fields, ..by(&["{split}/{key}_sat.jpg"]) };
    let report = run(source.path(), out.path(), plan, 2).unwrap();
    assert_eq!((report.samples, report.ignored.len()), (2, 0), "{report:?}");
    let (_, found) = samples(out.path());
    for (side, (_, values)) in &found {
        let side = side.split('/').next().unwrap();
        let mask = std::fs::read(source.path().join(format!("masks/7_{side}.png"))).unwrap();
        assert_eq!(values[1..], [mask, side.as_bytes().to_vec()]);
    }
    let lone = PlanOptions {
        fields: vec![field("mask", "masks/{other}.png")],
        ..by(&["{split}/{key}_sat.jpg"])
    };
    let error = run(source.path(), &source.path().join("../x"), lone, 1).unwrap_err();
    assert!(matches!(error, Error::Layout(LayoutError::NothingShared { .. })), "{error}");
}

#[test]
fn images_that_no_pattern_fits_are_refused_or_left_out() {
    let paths = ["cat/1.jpg", "dog/2.jpg", "extra/more/3.jpg", "4.jpg"];
    let plan = || by(&["{label}/{key:[^/]+}.{ext}"]);
    let error = packed(&paths, plan()).unwrap_err().to_string();
    assert!(error.contains("2 images fit no pattern: `4.jpg`, `extra/more/3.jpg`"), "{error}");
    let skip = PlanOptions { unlabelled: Unlabelled::Skip, ..plan() };
    let report = packed(&paths, skip).unwrap();
    assert_eq!((report.samples, report.unlabelled), (2, 2));
    assert!(report.warnings[0].contains("no pattern fits them: 2"), "{:?}", report.warnings);
}

#[test]
fn what_options_say_twice_is_refused() {
    let check = |plan: PlanOptions, words: &str| {
        let error = packed(&["train/a/1.jpg"], plan).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    check(PlanOptions { labels: Labels::None, ..by(&["{label}/{key}"]) }, "labels are turned off");
    let labels = Labels::Table(TableOptions {
        files: vec![Path::new("t.csv").to_owned()],
        ..TableOptions::default()
    });
    check(PlanOptions { labels, ..by(&["{label}/{key}"]) }, "cannot read `t.csv`");
    check(by(&["{split}/{key}", "{label}/{key}"]), "fit `train/a/1.jpg` equally well");
    check(by(&["{label}/{split}/{key}"]), "has the split `a`");
    let fractions = vec![(Split::Train, 1.0)];
    let twice = PlanOptions { fractions: fractions.clone(), ..PlanOptions::default() };
    check(twice, "the folders are splits already");
    // A pattern may say that they are not.
    let plan = PlanOptions { fractions, ..by(&["{*}/{label}/{key}"]) };
    assert_eq!(packed(&["train/a/1.jpg"], plan).unwrap().samples, 1);
}
