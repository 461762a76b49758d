//! Fractions make splits: exact, for each class, and with groups together.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{jpeg, put, run, samples};
use gular_bundle::Split;
use gular_pack::{
    Error, FractionsBy, Group, Labels, PackReport, PlanOptions, RunError, TableOptions,
};

fn fractions(train: f64) -> PlanOptions {
    let fractions = vec![(Split::Train, train), (Split::Val, 1.0 - train)];
    PlanOptions { fractions, ..PlanOptions::default() }
}

/// The split of each key.
fn packed(paths: &[String], plan: &PlanOptions) -> (PackReport, BTreeMap<String, Split>) {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for path in paths {
        put(source.path(), path, &jpeg(1));
    }
    let report = run(source.path(), out.path(), plan.clone(), 1).unwrap();
    let found = samples(out.path()).1;
    (report, found.into_iter().map(|(key, (split, _))| (key, split)).collect())
}

#[test]
fn numbers_are_exact_in_the_whole_and_in_each_class() {
    let of = |class: &str, n: usize| (0..n).map(move |i| format!("{class}/{i}.jpg")).collect();
    let paths: Vec<String> = [of("cat", 150), of("dog", 90), of("emu", 60)]
        .into_iter()
        .flat_map(|paths: Vec<String>| paths)
        .collect();
    let (report, splits) = packed(&paths, &fractions(0.8));
    let counts = |split: &Split| report.splits[split].classes.clone();
    let class = |name: &str, n| (name.to_owned(), n);
    assert_eq!(
        counts(&Split::Train),
        [class("cat", 120), class("dog", 72), class("emu", 48)].into()
    );
    assert_eq!(counts(&Split::Val), [class("cat", 30), class("dog", 18), class("emu", 12)].into());
    assert_eq!(report.warnings, Vec::<String>::new());
    // The same again; another seed divides in another way.
    assert_eq!(packed(&paths, &fractions(0.8)).1, splits);
    assert_ne!(packed(&paths, &PlanOptions { seed: 1, ..fractions(0.8) }).1, splits);
    let by_hash = PlanOptions { fractions_by: FractionsBy::Hash, ..fractions(0.8) };
    assert_ne!(packed(&paths, &by_hash).0.splits[&Split::Val].samples, 60);
}

#[test]
fn the_samples_of_a_group_stay_together() {
    let paths: Vec<String> = (0..120)
        .map(|i| format!("{}/patient{}-{i}.jpg", ["a", "b"][i / 3 % 2], i / 3 % 20))
        .collect();
    let patient = |key: &str| key.split(['/', '-']).nth(1).unwrap().to_owned();
    let pattern = |name: &str| vec![format!("{{label}}/{{{name}}}-{{key}}.jpg").parse().unwrap()];
    let group = Some(Group::Part("patient".to_owned()));
    for plan in [
        PlanOptions { images: pattern("group"), ..fractions(0.7) },
        PlanOptions { images: pattern("patient"), group: group.clone(), ..fractions(0.7) },
    ] {
        let (report, splits) = packed(&paths, &plan);
        assert_eq!(report.splits[&Split::Train].samples, 84);
        let of = |wanted: Split| -> BTreeSet<String> {
            let keys = splits.iter().filter(|(_, split)| **split == wanted);
            keys.map(|(key, _)| patient(key)).collect()
        };
        assert!(of(Split::Train).is_disjoint(&of(Split::Val)));
    }
    let plan = PlanOptions { images: pattern("x"), group, ..fractions(0.7) };
    let source = tempfile::tempdir().unwrap();
    put(source.path(), "a/1-1.jpg", &jpeg(1));
    let error = run(source.path(), &source.path().join("../none"), plan, 1).unwrap_err();
    assert!(
        matches!(&error, Error::Run(RunError::Setting { text, .. }) if text.contains("the part `patient`")),
        "{error}"
    );
}

#[test]
fn a_column_of_a_table_may_be_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let mut table = "file,label,place\n".to_owned();
    let paths: Vec<String> = (0..40).map(|i| format!("{i}.jpg")).collect();
    for i in 0..40 {
        table += &format!("{i}.jpg,{},p{}\n", i % 2, i / 4);
    }
    put(dir.path(), "t.csv", table.as_bytes());
    let labels = Labels::Table(TableOptions {
        files: vec![dir.path().join("t.csv")],
        group: Some("place".to_owned()),
        ..TableOptions::default()
    });
    let group = Some(Group::Column("place".to_owned()));
    let (report, splits) = packed(&paths, &PlanOptions { labels, group, ..fractions(0.5) });
    assert_eq!(report.splits[&Split::Val].samples, 20);
    for place in 0..10 {
        let of_place: BTreeSet<Split> =
            (0..4).map(|i| splits[&format!("{}.jpg", place * 4 + i)]).collect();
        assert_eq!(of_place.len(), 1, "place {place}");
    }
}

#[test]
fn fractions_far_from_what_was_asked_are_told() {
    let paths: Vec<String> = (0..40).map(|i| format!("a/{i}.jpg")).collect();
    let plan = PlanOptions { images: vec!["{group}/{key}".parse().unwrap()], ..fractions(0.7) };
    let (report, _) = packed(&paths, &plan);
    let expected = "the splits differ from the fractions: `train` has 100.0 % instead of 70.0 %, `val` has 0.0 % instead of 30.0 %; groups stay together";
    assert_eq!(report.warnings, [expected]);
}
