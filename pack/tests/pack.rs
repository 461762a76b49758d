//! A folder becomes a bundle, with the same bytes every time.

use std::fs;
use std::sync::atomic::AtomicBool;

use crate::support::{big_images, files, images, jpeg, options, png, put, run, small_shards};
use gular_bundle::{Bundle, FieldIdx, OpenOptions, Split};
use gular_pack::{
    FractionsBy, Labels, PackOptions, PackOrder, PlanOptions, TableOptions, Unlabelled, pack,
    pack_preview,
};

#[test]
fn every_image_arrives_under_its_key_with_its_label() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let report = run(source.path(), out.path(), PlanOptions::default(), 2).unwrap();
    assert_eq!((report.samples, report.shards, report.skipped), (60, 2, 0));
    let bundle = Bundle::open(out.path(), OpenOptions::default()).unwrap();
    assert_eq!(bundle.digest(), report.digest.unwrap());
    assert_eq!(bundle.manifest().classes, ["a-b", "cat", "dog"]);
    let mut bytes = Vec::new();
    let mut seen = 0;
    for split in [Split::Train, Split::Val] {
        for i in 0..bundle.n_samples(split) {
            let id = bundle.locate(split, i).unwrap();
            let key = bundle.key(id).unwrap();
            bundle.read(id, FieldIdx(0), &mut bytes).unwrap();
            assert_eq!(bytes, fs::read(source.path().join(key.as_str())).unwrap());
            let label = bundle.shard(id.shard).unwrap().label(id.row).unwrap().unwrap();
            let class = &bundle.manifest().classes[label as usize];
            assert!(key.as_str().starts_with(&format!("{split}/{class}/")));
            seen += 1;
        }
    }
    assert_eq!(seen, 60);
    assert!(!out.path().join(".gular-pack").exists());
}

#[test]
fn any_number_of_jobs_gives_the_same_bytes() {
    let source = tempfile::tempdir().unwrap();
    big_images(source.path());
    let packed: Vec<_> = [1, 2, 5]
        .into_iter()
        .map(|jobs| {
            let out = tempfile::tempdir().unwrap();
            let report = run(source.path(), out.path(), small_shards(), jobs).unwrap();
            assert!(report.shards > 5, "{}", report.shards);
            files(out.path())
        })
        .collect();
    assert!(packed[0] == packed[1] && packed[1] == packed[2]);
}

#[test]
fn sorted_order_is_that_of_image_folder() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (i, name) in ["a/z.jpg", "a-b/c.jpg", "a/b.jpg", "B/x.jpg"].iter().enumerate() {
        put(source.path(), name, &jpeg(i as u32));
    }
    let plan = PlanOptions { order: PackOrder::Sorted, ..PlanOptions::default() };
    run(source.path(), out.path(), plan, 1).unwrap();
    let bundle = Bundle::open(out.path(), OpenOptions::default()).unwrap();
    let keys: Vec<String> = (0..4)
        .map(|i| bundle.key(bundle.locate(Split::Train, i).unwrap()).unwrap().to_string())
        .collect();
    // sorted(["B", "a", "a-b"]), then sorted names in each.
    assert_eq!(keys, ["B/x.jpg", "a/b.jpg", "a/z.jpg", "a-b/c.jpg"]);
    assert_eq!(bundle.manifest().classes, ["B", "a", "a-b"]);
}

#[test]
fn fractions_split_by_key_alone() {
    let source = tempfile::tempdir().unwrap();
    for i in 0..200 {
        put(source.path(), &format!("c/{i}.png"), &png(i));
    }
    let plan = || PlanOptions {
        fractions: vec![(Split::Train, 0.75), (Split::Val, 0.25)],
        fractions_by: FractionsBy::Hash,
        ..PlanOptions::default()
    };
    let members = || {
        let out = tempfile::tempdir().unwrap();
        run(source.path(), out.path(), plan(), 1).unwrap();
        let bundle = Bundle::open(out.path(), OpenOptions::default()).unwrap();
        (0..bundle.n_samples(Split::Val))
            .map(|i| bundle.key(bundle.locate(Split::Val, i).unwrap()).unwrap().to_string())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let before = members();
    assert!((25..75).contains(&before.len()), "{}", before.len());
    for i in 200..260 {
        put(source.path(), &format!("c/{i}.png"), &png(i));
    }
    assert!(before.is_subset(&members()), "a sample changed its split");
}

#[test]
fn flat_folders_pack_without_labels() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(source.path(), "x.jpg", &jpeg(1));
    put(source.path(), "deep/er/y.png", &png(2));
    put(source.path(), ".hidden.jpg", b"");
    let plan = PlanOptions { labels: Labels::None, ..PlanOptions::default() };
    let report = run(source.path(), out.path(), plan, 1).unwrap();
    assert_eq!((report.samples, report.ignored["hidden"]), (2, 1));
    let bundle = Bundle::open(out.path(), OpenOptions::default()).unwrap();
    assert_eq!(bundle.manifest().fields.len(), 1);
    assert!(bundle.manifest().classes.is_empty());
}

#[test]
fn a_dry_run_writes_nothing() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let options = PackOptions { dry_run: true, ..options(PlanOptions::default(), 1) };
    let into = out.path().join("new");
    let report = pack(source.path(), &into, &options, &|_| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!((report.samples, report.shards, report.splits[&Split::Val].samples), (60, 2, 15));
    assert_eq!(report.splits[&Split::Val].classes["cat"], 5);
    assert!(!into.exists());
}

#[test]
fn a_plan_says_what_its_user_should_know() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(source.path(), "train/cat/1.jpg", &jpeg(1));
    put(source.path(), "val/dog/1.jpg", &jpeg(2));
    put(source.path(), "val/dog/2.TIF", b"II*");
    // 500 shards: no byte of these files is on the disk, and none is read.
    for i in 0..500 {
        let path = source.path().join(format!("train/cat/sparse{i}.jpg"));
        fs::File::create(path).unwrap().set_len(1 << 20).unwrap();
    }
    let options = PackOptions { dry_run: true, ..options(small_shards(), 1) };
    let report = pack(source.path(), out.path(), &options, &|_| {}, &AtomicBool::new(false));
    let report = report.unwrap();
    assert!(report.shards > 500, "{}", report.shards);
    for word in ["1 tif", "more than the 1000", "a shard size of 2MiB", "does not have: dog"] {
        assert!(report.warnings.iter().any(|w| w.contains(word)), "{word}: {:?}", report.warnings);
    }
    assert!(
        report
            .warnings
            .iter()
            .any(|w| w == "classes with one sample, in all splits together: `dog`")
    );
    assert_eq!(report.warnings.len(), 4);
}

#[test]
fn other_files_are_counted_in_bounded_memory() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(source.path(), "c/x.jpg", &jpeg(1));
    for i in 0..300 {
        put(source.path(), &format!("c/scan.{i:06}"), b"");
    }
    let report = run(source.path(), out.path(), PlanOptions::default(), 1).unwrap();
    assert_eq!(report.ignored.values().sum::<u64>(), 300);
    assert!(report.ignored.len() <= 101 && report.ignored["others"] == 200);
}

#[test]
fn a_tree_deeper_than_a_stack_is_walked() {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let key = format!("c/{}x.jpg", "d/".repeat(1900));
    put(source.path(), &key, &jpeg(1));
    std::thread::scope(|scope| {
        // 551 bytes for each folder, less than a call takes that lists one. Reading patterns takes
        // a third of it in builds without inlining.
        let small = std::thread::Builder::new().stack_size(1 << 20);
        let plan = PlanOptions { labels: Labels::None, ..PlanOptions::default() };
        let walk = || run(source.path(), out.path(), plan, 1).unwrap().samples;
        assert_eq!(small.spawn_scoped(scope, walk).unwrap().join().unwrap(), 1);
    });
}

#[test]
fn a_preview_has_the_first_samples_of_each_class_and_split() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    images(source.path());
    let (whole, out) = (dir.path().join("whole"), dir.path().join("preview"));
    run(source.path(), &whole, PlanOptions::default(), 2).unwrap();
    let whole = Bundle::open(&whole, OpenOptions::default()).unwrap();
    let keys = |bundle: &Bundle, split: Split| -> Vec<(Option<i32>, String)> {
        let of = |i| {
            let id = bundle.locate(split, i).unwrap();
            let label = bundle.shard(id.shard).unwrap().label(id.row).unwrap();
            (label, bundle.key(id).unwrap().to_string())
        };
        (0..bundle.n_samples(split)).map(of).collect()
    };
    // One that cannot be packed is left out and listed.
    let bad = keys(&whole, Split::Val)[0].1.clone();
    fs::write(source.path().join(&bad), b"no image").unwrap();
    let options = options(PlanOptions::default(), 2);
    let stop = AtomicBool::new(false);
    let report = pack_preview(source.path(), &out, &options, 9, &|_| {}, &stop).unwrap();
    assert_eq!((report.samples, report.skipped), (17, 1));
    assert_eq!(report.splits[&Split::Train].samples, 9);
    let preview = Bundle::open(&out, OpenOptions::default()).unwrap();
    assert_eq!(preview.manifest().classes, whole.manifest().classes);
    for split in [Split::Train, Split::Val] {
        let mut found = [0; 3];
        let mut expected = keys(&whole, split);
        expected.retain(|(label, key)| {
            let of_class = &mut found[label.unwrap() as usize];
            *of_class += 1;
            *of_class <= 3 && *key != bad
        });
        assert_eq!(keys(&preview, split), expected, "{split}");
    }
}

#[test]
fn a_preview_has_samples_without_a_label() {
    let (source, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["train/1.jpg", "train/2.jpg", "train/5.jpg", "test/3.jpg", "test/4.jpg"] {
        put(source.path(), name, &jpeg(1));
    }
    put(source.path(), "t.csv", b"file,kind\n1.jpg,a\n2.jpg,b\n5.jpg,b\n");
    let files = vec![source.path().join("t.csv")];
    let plan = PlanOptions {
        images: vec!["{split}/{key}.{ext}".parse().unwrap()],
        labels: Labels::Table(TableOptions { files, ..TableOptions::default() }),
        unlabelled: Unlabelled::Keep,
        ..PlanOptions::default()
    };
    let (out, stop) = (dir.path().join("preview"), AtomicBool::new(false));
    let options = options(plan, 1);
    let report = pack_preview(source.path(), &out, &options, 2, &|_| {}, &stop).unwrap();
    assert_eq!(report.splits[&Split::Train].samples, 2);
    assert_eq!(report.splits[&Split::Test].samples, 1);
}
