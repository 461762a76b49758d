//! New versions of bundles of images and labels: what is packed again, what stays in the shards of
//! the base, and what is refused.

use std::fs;
use std::sync::atomic::AtomicBool;

use crate::derive::{compared, samples};
use crate::support::{jpeg, options, put, run};
use gular_bundle::{About, Bundle, Dtype, Envelope, MadeValue, OpenOptions, npy_header};
use gular_pack::{
    BaseReport, ConvertOptions, Error, FieldColumns, Fit, Inputs, Labels, NoStatistics, OnBadInput,
    PackOptions, PayloadOptions, PlanError, PlanOptions, RawOptions, ReencodeOptions, SKIPPED_NAME,
    TableOptions, Target, Unlabelled, convert, pack_onto,
};

#[test]
fn a_new_version_packs_what_is_new_and_keeps_the_shards_of_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for i in 0..400 {
        let bytes = [jpeg(i), vec![i as u8; 25_000]].concat();
        put(&at("images"), &format!("c{}/{i}.jpg", i % 3), &bytes);
    }
    let plan = || PlanOptions { shard_bytes: 1 << 20, ..PlanOptions::default() };
    run(&at("images"), &at("v1"), plan(), 2).unwrap();
    let before = samples(&at("v1"));
    // One percent of images is added in a class whose name is the first; one is changed, and one is
    // removed.
    for i in 0..4 {
        put(&at("images"), &format!("a new one/{i}.jpg"), &jpeg(1000 + i));
    }
    put(&at("images"), "c1/1.jpg", &jpeg(2000));
    fs::remove_file(at("images").join("c2/2.jpg")).unwrap();
    let none = AtomicBool::new(false);
    let onto = |out: &str, dry_run| {
        let options = PackOptions { dry_run, ..options(plan(), 2) };
        let (base, source) = (at("v1"), at("images"));
        pack_onto(&base, &source, &at(out), &options, &|_| {}, &none).unwrap()
    };
    assert!(onto("dry", true).bundle.is_none() && !at("dry").exists());
    let report = onto("v2", false);
    let counts = (report.unchanged, report.changed, report.added, report.removed);
    assert_eq!(counts, (398, 1, 4, 1));
    let after = samples(&at("v2"));
    run(&at("images"), &at("packed"), plan(), 2).unwrap();
    assert_eq!(after, samples(&at("packed")));
    let bundle = Bundle::open(&at("v2"), OpenOptions::default()).unwrap();
    assert_eq!(bundle.manifest().classes, ["c0", "c1", "c2", "a new one"]);
    let views = bundle.manifest().shards.iter().filter(|entry| entry.view.is_some()).count();
    assert!(views <= 2, "{views} views, of the sample that changed and the one that is gone");
    assert_eq!(bundle.manifest().made["base"], MadeValue::Text(report.base.to_string()));
    let (compared, _) = compared(&at("v1"), &at("v2"), 1 << 20);
    let all: u64 = bundle.manifest().files().map(|file| file.bytes).sum();
    let sent = compared.new_bytes + report.bundle.as_ref().unwrap().bytes_written;
    assert!(sent * 100 < all * 3, "{sent} of {all}");
    // No other files are left, and the result needs neither folder.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
    fs::remove_dir_all(at("v1")).unwrap();
    assert_eq!(samples(&at("v2")).len(), 403);
    assert!(before.len() == 400);
}

#[test]
fn what_is_new_alone_is_not_warned_of_as_if_it_were_all() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (i, folder) in ["train/c", "train/d", "val/c"].iter().enumerate() {
        put(&at("images"), &format!("{folder}/{i}.jpg"), &jpeg(i as u32));
    }
    run(&at("images"), &at("v1"), PlanOptions::default(), 1).unwrap();
    put(&at("images"), "train/d/4.jpg", &jpeg(4));
    put(&at("images"), "val/c/5.jpg", &jpeg(5));
    let none = AtomicBool::new(false);
    let options = options(PlanOptions::default(), 1);
    let report = pack_onto(&at("v1"), &at("images"), &at("v2"), &options, &|_| {}, &none).unwrap();
    assert_eq!(report.packed.unwrap().warnings, [""; 0]);
}

#[test]
fn a_version_of_another_kind_is_refused_before_anything_is_packed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    put(&at("images"), "c/0.jpg", &jpeg(0));
    run(&at("images"), &at("v1"), PlanOptions::default(), 1).unwrap();
    put(&at("images"), "c/1.jpg", &jpeg(1));
    let none = AtomicBool::new(false);
    let check = |plan: PlanOptions, expected: &str| {
        let (base, source) = (at("v1"), at("images"));
        let made = pack_onto(&base, &source, &at("v2"), &options(plan, 1), &|_| {}, &none);
        let error = made.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    };
    let plan = PlanOptions::default;
    check(PlanOptions { envelope: Envelope::Tar, ..plan() }, "the envelope must be the same");
    check(PlanOptions { labels: Labels::None, ..plan() }, "the base has labels");
    check(PlanOptions { inputs: Inputs::Bytes, ..plan() }, "the same kind");
    check(PlanOptions { source_digests: true, ..plan() }, "the files are stored unchanged");
    check(PlanOptions { inputs: Inputs::Arrays, ..plan() }, "the payload must be the same");
}

#[test]
fn files_left_out_are_listed_also_where_nothing_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    put(&at("images"), "c/0.jpg", &jpeg(0));
    run(&at("images"), &at("v1"), PlanOptions::default(), 1).unwrap();
    std::os::unix::fs::symlink("nowhere", at("images/c/1.jpg")).unwrap();
    let none = AtomicBool::new(false);
    let plan = PlanOptions { on_error: OnBadInput::Skip, ..PlanOptions::default() };
    let options = options(plan, 1);
    let report = pack_onto(&at("v1"), &at("images"), &at("v2"), &options, &|_| {}, &none).unwrap();
    assert_eq!((report.skipped, report.packed), (1, None));
    let listed = fs::read_to_string(at("v2").join(SKIPPED_NAME)).unwrap();
    assert!(listed.contains("c/1.jpg"), "{listed}");
}

#[test]
fn a_new_version_says_what_its_base_says_and_what_was_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for i in 0..4 {
        put(&at("images"), &format!("c/{i}.jpg"), &jpeg(i));
    }
    let text = |text: &str| Some(text.to_owned());
    let about = About { name: text("Birds"), licence: text("MIT"), ..About::default() };
    run(&at("images"), &at("v1"), PlanOptions { about, ..PlanOptions::default() }, 1).unwrap();
    let none = AtomicBool::new(false);
    let onto = |out: &str| {
        let about = About { licence: text("CC0-1.0"), ..About::default() };
        let plan = PlanOptions { about, on_error: OnBadInput::Skip, ..PlanOptions::default() };
        let (base, source) = (at("v1"), at("images"));
        pack_onto(&base, &source, &at(out), &options(plan, 1), &|_| {}, &none).unwrap()
    };
    // All new images are damaged.
    put(&at("images"), "c/bad.jpg", b"no picture");
    let report = onto("v2");
    assert_eq!((report.skipped, report.added, report.packed.is_some()), (1, 1, false));
    let listed = |out: &str| fs::read_to_string(at(out).join(SKIPPED_NAME)).unwrap();
    assert!(listed("v2").contains("c/bad.jpg"));
    assert_eq!(samples(&at("v2")).len(), 4);
    let bundle = Bundle::open(&at("v2"), OpenOptions::default()).unwrap();
    let about = &bundle.manifest().about;
    assert_eq!((about.name.as_deref(), about.licence.as_deref()), (Some("Birds"), Some("CC0-1.0")));
    assert_eq!(bundle.manifest().made["skipped"], MadeValue::Number(1));
    // A part of it; what an interrupted run of another source left is not a hindrance.
    put(&at("images"), "c/5.jpg", &jpeg(5));
    let left = at(&format!("{}new-v3", gular_files::TEMP_PREFIX));
    put(&at("other"), "c/x.jpg", &jpeg(9));
    run(&at("other"), &left, PlanOptions::default(), 1).unwrap();
    let report = onto("v3");
    assert_eq!((report.skipped, report.packed.unwrap().samples), (1, 1));
    assert!(listed("v3").contains("c/bad.jpg") && !left.exists());
    assert_eq!(samples(&at("v3")).len(), 5);
}

#[test]
fn a_table_labels_a_new_version_as_it_labels_a_bundle_packed_anew() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let plan = |rows: &str, skip: bool| {
        put(dir.path(), "labels.csv", format!("file_name,label,fold\n{rows}").as_bytes());
        let table = TableOptions {
            files: vec![at("labels.csv")],
            split: Some("fold".to_owned()),
            fields: FieldColumns::Named(Vec::new()),
            ..TableOptions::default()
        };
        let unlabelled = if skip { Unlabelled::Skip } else { Unlabelled::Fail };
        PlanOptions { labels: Labels::Table(table), unlabelled, ..PlanOptions::default() }
    };
    for i in 0..12 {
        put(&at("images"), &format!("{i}.jpg"), &jpeg(i));
    }
    let row = |i: u32, class: &str, fold: &str| format!("{i}.jpg,{class},{fold}\n");
    let old: String = (0..12).map(|i| row(i, ["cat", "dog"][i as usize % 2], "train")).collect();
    run(&at("images"), &at("v1"), plan(&old, false), 2).unwrap();
    // One image is new, in a class whose name is the first, and one is gone. Of the others, one has
    // another class and one another split.
    put(&at("images"), "12.jpg", &jpeg(12));
    fs::remove_file(at("images").join("5.jpg")).unwrap();
    let new = old.replace("5.jpg,dog,train\n", "").replace("3.jpg,dog", "3.jpg,cat");
    let new = new.replace("8.jpg,cat,train", "8.jpg,cat,val") + &row(12, "ape", "test");
    let onto = |plan: PlanOptions, out: &str| {
        let options = options(plan, 2);
        pack_onto(&at("v1"), &at("images"), &at(out), &options, &|_| {}, &AtomicBool::new(false))
    };
    let report = onto(plan(&new, false), "v2").unwrap();
    let (packed, made) = (report.packed.unwrap(), report.bundle.unwrap());
    assert_eq!((report.unchanged, report.added, report.removed, packed.samples), (11, 1, 1, 1));
    assert_eq!((made.relabelled, made.moved, packed.unused_rows), (1, 1, 0));
    assert!(packed.warnings.is_empty(), "{:?}", packed.warnings);
    run(&at("images"), &at("anew"), plan(&new, false), 2).unwrap();
    assert_eq!(samples(&at("v2")), samples(&at("anew")));
    let v2 = Bundle::open(&at("v2"), OpenOptions::default()).unwrap();
    assert_eq!(v2.manifest().classes, ["cat", "dog", "ape"]);
    // An image without a row is an error, or left out, whether it is new or not.
    let less = new.replace("2.jpg,cat,train\n", "");
    let error = onto(plan(&less, false), "v3").unwrap_err();
    assert!(matches!(error, Error::Plan(PlanError::Unlabelled { n: 1, .. })), "{error}");
    assert!(!at("v3").exists());
    onto(plan(&less, true), "v3").unwrap();
    run(&at("images"), &at("less"), plan(&less, true), 2).unwrap();
    assert_eq!(samples(&at("v3")), samples(&at("less")));
    // With further fields of a table, samples would have other fields than the base.
    let mut fields = plan(&new, false);
    if let Labels::Table(table) = &mut fields.labels {
        (table.split, table.fields) = (None, FieldColumns::All);
    }
    let error = onto(fields, "v4").unwrap_err();
    let Error::UnlikeField { name, old: None, new: Some(_) } = &error else { panic!("{error}") };
    assert_eq!(name, "fold");
}

/// Raw pixels, images encoded again, and arrays.
#[test]
fn values_made_of_files_are_compared_by_the_digests_of_these() {
    let (width, height, fit, channels) = (8, 8, Fit::Stretch, 3);
    let raw = RawOptions { width, height, fit, channels, depth: None };
    let reencode = ReencodeOptions { max_side: Some(12), quality: 80 };
    let plan = |payload| PlanOptions { payload, source_digests: true, ..PlanOptions::default() };
    let array = |i: u32| [npy_header(Dtype::U8, &[2, 3]), vec![i as u8; 6]].concat();
    for (plan, extension, file) in [
        (plan(PayloadOptions::Raw(raw)), "jpg", &jpeg),
        (plan(PayloadOptions::Reencoded(reencode)), "jpg", &jpeg),
        (PlanOptions { inputs: Inputs::Arrays, ..plan(PayloadOptions::Encoded) }, "npy", &array),
    ] as [(PlanOptions, &str, &dyn Fn(u32) -> Vec<u8>); 3]
    {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let add = |i: u32, with: u32| {
            put(&at("src"), &format!("c{}/{i}.{extension}", i % 2), &file(with));
        };
        (0..6).for_each(|i| add(i, i));
        run(&at("src"), &at("v1"), plan.clone(), 1).unwrap();
        let none = AtomicBool::new(false);
        // Later versions also store the digests.
        let onto = |base: &str, out: &str, plan: PlanOptions| {
            let plan = PlanOptions { source_digests: false, ..plan };
            pack_onto(&at(base), &at("src"), &at(out), &options(plan, 2), &|_| {}, &none)
        };
        let counts = |report: &BaseReport| {
            let packed = report.packed.as_ref().map_or(0, |packed| packed.samples);
            (report.unchanged, report.changed, report.added, report.removed, packed)
        };
        let manifest = |name: &str| {
            Bundle::open(&at(name), OpenOptions::default()).unwrap().manifest().clone()
        };
        add(6, 6);
        assert_eq!(counts(&onto("v1", "v2", plan.clone()).unwrap()), (6, 0, 1, 0, 1));
        run(&at("src"), &at("anew"), plan.clone(), 1).unwrap();
        assert_eq!(samples(&at("v2")), samples(&at("anew")));
        // The statistics are those of all samples, old and new.
        assert_eq!(manifest("v2").statistics, manifest("anew").statistics);
        assert_eq!(manifest("v2").made.get("decoder"), manifest("anew").made.get("decoder"));
        add(0, 70);
        fs::remove_file(at("src").join(format!("c1/1.{extension}"))).unwrap();
        let report = onto("v2", "v3", plan.clone()).unwrap();
        assert_eq!(counts(&report), (5, 1, 0, 1, 1));
        assert_eq!(report.bundle.unwrap().no_statistics, Some(NoStatistics::OtherSamples));
        fs::remove_dir_all(at("anew")).unwrap();
        run(&at("src"), &at("anew"), plan.clone(), 1).unwrap();
        assert_eq!(samples(&at("v3")), samples(&at("anew")));
        assert_eq!(manifest("v3").statistics, None, "sums of what is gone cannot be taken off");
        assert_eq!(counts(&onto("v3", "v4", plan.clone()).unwrap()), (6, 0, 0, 0, 0));
        // The same works in another envelope.
        let target = Target::Bundle(Envelope::Tar);
        let how = ConvertOptions { target, jobs: 1, dry_run: false };
        convert(&at("v3"), &at("tar"), &how, &|_| {}, &none).unwrap();
        let tar = PlanOptions { envelope: Envelope::Tar, ..plan.clone() };
        assert_eq!(counts(&onto("tar", "v5", tar).unwrap()), (6, 0, 0, 0, 0));

        let without = PlanOptions { source_digests: false, ..plan.clone() };
        run(&at("src"), &at("plain"), without, 1).unwrap();
        let error = onto("plain", "no", plan.clone()).unwrap_err();
        assert!(matches!(&error, Error::NoSources { .. }), "{error}");
        let encoded = PlanOptions { payload: PayloadOptions::Encoded, ..plan.clone() };
        // Arrays and files have the same payload.
        if plan.inputs != Inputs::Arrays {
            let error = onto("v3", "no", encoded).unwrap_err();
            let Error::UnlikeBase { setting: "payload", new, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!(new.as_deref(), Some("encoded"));
        }
        let error = match plan.payload {
            PayloadOptions::Raw(raw) => {
                let payload = PayloadOptions::Raw(RawOptions { fit: Fit::Crop, ..raw });
                onto("v3", "no", PlanOptions { payload, ..plan }).unwrap_err()
            }
            PayloadOptions::Reencoded(options) => {
                let payload =
                    PayloadOptions::Reencoded(ReencodeOptions { max_side: None, ..options });
                onto("v3", "no", PlanOptions { payload, ..plan }).unwrap_err()
            }
            PayloadOptions::Encoded => continue,
        };
        assert!(
            error.to_string().contains("so that old and new images are stored alike"),
            "{error}"
        );
        assert!(!at("no").exists());
    }
}

#[test]
fn a_new_version_takes_labels_from_names_as_its_base_does() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let plan = |pattern: &str| PlanOptions {
        images: vec![pattern.parse().unwrap()],
        ..PlanOptions::default()
    };
    put(&at("images"), "cat.0.jpg", &jpeg(0));
    run(&at("images"), &at("v1"), plan("{label}.{key}.jpg"), 1).unwrap();
    put(&at("images"), "dog.1.jpg", &jpeg(1));
    let onto = |out: &str, plan: PlanOptions| {
        let (options, none) = (options(plan, 1), AtomicBool::new(false));
        pack_onto(&at("v1"), &at("images"), &at(out), &options, &|_| {}, &none)
    };
    assert_eq!(onto("v2", plan("{label}.{key}.jpg")).unwrap().added, 1);
    let error = onto("v3", plan("{key}.{label}.jpg")).unwrap_err().to_string();
    assert!(error.contains("the base has `{label}.{key}.jpg`"), "{error}");
    // Labels of folders would be mixed with those that unchanged images keep.
    fs::create_dir(at("images/x")).unwrap();
    for name in ["cat.0.jpg", "dog.1.jpg"] {
        fs::rename(at("images").join(name), at("images/x").join(name)).unwrap();
    }
    let error = onto("v4", PlanOptions::default()).unwrap_err().to_string();
    assert!(error.contains("this pack has `{label}/{key}.{ext}`"), "{error}");
}

#[test]
fn a_class_keeps_the_blanks_around_its_name_in_a_new_version() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    put(&at("images"), "cat /0.jpg", &jpeg(0));
    run(&at("images"), &at("v1"), PlanOptions::default(), 1).unwrap();
    put(&at("images"), "cat /1.jpg", &jpeg(1));
    put(&at("images"), " ant/2.jpg", &jpeg(2));
    let (none, options) = (AtomicBool::new(false), options(PlanOptions::default(), 1));
    let report = pack_onto(&at("v1"), &at("images"), &at("v2"), &options, &|_| {}, &none).unwrap();
    assert_eq!((report.unchanged, report.added), (1, 2));
    assert_eq!(samples(&at("v2")).len(), 3);
    let bundle = Bundle::open(&at("v2"), OpenOptions::default()).unwrap();
    assert_eq!(bundle.manifest().classes, ["cat ", " ant"]);
}
