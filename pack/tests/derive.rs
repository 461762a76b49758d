//! Bundles derived from others: which samples they contain, and that nothing is copied.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::scenes::{arrays, geo, scene};
use crate::support::{files, images, jpeg, png, put, run};
use gular_bundle::{
    About, Bundle, BundlePath, CheckWhen, DATA_DIR, Digest, Envelope, Field, FieldIdx, FieldName,
    MadeValue, Manifest, OpenOptions, Payload, ShardSpec, ShardWriter, Split, Statistics,
    write_manifest,
};
use gular_pack::{
    ConvertOptions, DeriveOptions, DeriveReport, DiffOptions, DiffReport, Difference, Error,
    FractionsBy, Labels, Limit, NoStatistics, PlanError, PlanOptions, Progress, RunError,
    ShardError, TableOptions, Target, Unlisted, convert, derive, diff,
};

/// Options that keep everything as it is.
fn plain() -> DeriveOptions {
    DeriveOptions::new(std::env::temp_dir())
}

fn derived(bases: &[&Path], out: &Path, options: &DeriveOptions) -> Result<DeriveReport, Error> {
    let bases: Vec<PathBuf> = bases.iter().map(|base| (*base).to_owned()).collect();
    derive(&bases, out, options, &|_| {}, &AtomicBool::new(false))
}

/// Returns for each key its split, the name of its class, and the digest of its image; each value
/// is read.
pub(crate) fn samples(dir: &Path) -> BTreeMap<String, (Split, Option<String>, Digest)> {
    let open = OpenOptions { check: CheckWhen::Always, ..OpenOptions::default() };
    let bundle = Bundle::open(dir, open).unwrap();
    let mut found = BTreeMap::new();
    let mut out = Vec::new();
    for split in Split::ALL {
        for number in 0..bundle.n_samples(split) {
            let id = bundle.locate(split, number).unwrap();
            let key = bundle.key(id).unwrap().to_string();
            bundle.read(id, FieldIdx(0), &mut out).unwrap();
            let label = bundle.shard(id.shard).unwrap().label(id.row).unwrap();
            let class = label.map(|label| match usize::try_from(label) {
                Ok(label) => bundle.manifest().classes[label].clone(),
                Err(_) => "unknown".to_owned(),
            });
            let before = found.insert(key.clone(), (split, class, Digest::of(&out)));
            assert!(before.is_none(), "{key}");
        }
    }
    found
}

struct Case {
    dir: tempfile::TempDir,
}

impl Case {
    fn new(envelope: Envelope) -> Self {
        let case = Self { dir: tempfile::tempdir().unwrap() };
        images(&case.at("images"));
        let plan = PlanOptions { envelope, shard_bytes: 1 << 20, ..PlanOptions::default() };
        run(&case.at("images"), &case.at("base"), plan, 2).unwrap();
        case
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Derives `name` from `base`.
    fn derive(&self, name: &str, options: &DeriveOptions) -> DeriveReport {
        derived(&[&self.at("base")], &self.at(name), options).unwrap()
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        put(self.dir.path(), name, text.as_bytes());
        self.at(name)
    }

    fn table(&self, name: &str, text: &str) -> Option<TableOptions> {
        Some(TableOptions { files: vec![self.put(name, text)], ..TableOptions::default() })
    }
}

#[test]
fn a_part_is_read_verified_and_converted_as_any_bundle_in_every_envelope() {
    for envelope in Envelope::ALL {
        let case = Case::new(envelope);
        let options =
            DeriveOptions { filter: Some("class = cat or key ~ */dog/*.png".into()), ..plain() };
        let report = case.derive("part", &options);
        let mut expected = samples(&case.at("base"));
        expected.retain(|key, (_, class, _)| {
            class.as_deref() == Some("cat") || key.contains("/dog/") && key.ends_with(".png")
        });
        assert_eq!(samples(&case.at("part")), expected, "{envelope}");
        assert_eq!((report.samples, report.base_samples), (expected.len() as u64, 60));
        // The shards are those of the base, and only kilobytes are new.
        let base = Bundle::open(&case.at("base"), OpenOptions::default()).unwrap();
        let part = Bundle::open(&case.at("part"), OpenOptions::default()).unwrap();
        for file in part.manifest().files().filter(|f| !f.name.as_str().ends_with(".view")) {
            let inode = |bundle: &Bundle| fs::metadata(bundle.path_of(file)).unwrap().ino();
            assert_eq!(inode(&base), inode(&part), "{envelope} {}", file.name);
        }
        assert!(report.bytes_written < 4096, "{}", report.bytes_written);
        assert_eq!(part.digest(), report.digest);
        // A converted bundle needs no other bundle, and has version 1.
        let options = ConvertOptions { target: Target::Bundle(envelope), jobs: 1, dry_run: false };
        let none = AtomicBool::new(false);
        convert(&case.at("part"), &case.at("alone"), &options, &|_| {}, &none).unwrap();
        let alone = Bundle::open(&case.at("alone"), OpenOptions::default()).unwrap();
        assert!(!alone.manifest().is_derived());
        fs::remove_dir_all(case.at("base")).unwrap();
        assert_eq!(samples(&case.at("alone")), expected, "{envelope}");
        // Hard links stay valid when the base is removed.
        assert_eq!(samples(&case.at("part")), expected, "{envelope}");
    }
}

#[test]
fn the_same_call_gives_the_same_bundle_and_finds_it_finished() {
    let case = Case::new(Envelope::Shards);
    let options = |jobs| DeriveOptions {
        limit: Some(Limit::Samples(20)),
        fractions: vec![(Split::Train, 0.5), (Split::Test, 0.5)],
        seed: 3,
        jobs,
        ..plain()
    };
    let first = case.derive("a", &options(1));
    assert!(!first.already_done);
    let second = case.derive("b", &options(3));
    assert_eq!(first.digest, second.digest);
    assert!(files(&case.at("a")) == files(&case.at("b")));
    assert!(case.derive("a", &options(2)).already_done);
    // Another result is not written over it, and a dry run writes nothing.
    let other = DeriveOptions { seed: 4, ..options(1) };
    let error = derived(&[&case.at("base")], &case.at("a"), &other).unwrap_err();
    assert!(matches!(error, Error::Shard(ShardError::AlreadyBundle { .. })), "{error}");
    let trial = case.derive("c", &DeriveOptions { dry_run: true, ..options(1) });
    assert_eq!((trial.digest, case.at("c").exists()), (first.digest, false));
}

#[test]
fn a_limit_takes_so_many_and_a_larger_one_the_same_and_more() {
    let case = Case::new(Envelope::Shards);
    let take = |name: &str, limit, stratified| {
        case.derive(name, &DeriveOptions { limit: Some(limit), stratified, ..plain() });
        samples(&case.at(name))
    };
    let small = take("small", Limit::Samples(7), false);
    let large = take("large", Limit::Share(0.25), false);
    assert_eq!((small.len(), large.len()), (7, 15));
    assert!(small.keys().all(|key| large.contains_key(key)));
    assert_eq!(take("all", Limit::Samples(1000), false).len(), 60);
    // 15 of 60 images are in `val`, and 20 are in each class: 5 and 15 of each.
    let fair = take("fair", Limit::Samples(12), true);
    let mut counts: HashMap<(Split, Option<String>), u64> = HashMap::new();
    for (split, class, _) in fair.values() {
        *counts.entry((*split, class.clone())).or_default() += 1;
    }
    assert!(counts.iter().all(|((split, _), n)| *n == if *split == Split::Val { 1 } else { 3 }));
    assert_eq!(counts.len(), 6);
    // In `val`, each class has a quarter of a sample.
    let few = DeriveOptions { limit: Some(Limit::Samples(3)), stratified: true, ..plain() };
    let lost = case.derive("few", &few).lost_classes.unwrap();
    assert_eq!((lost.n, &*lost.first), (3, "`val/a-b`, `val/cat`, `val/dog`"));
}

#[test]
fn classes_without_names_that_a_limit_loses_are_numbers() {
    let dir = tempfile::tempdir().unwrap();
    synthetic(&dir.path().join("base"), 3000, 1, false);
    let few = DeriveOptions { limit: Some(Limit::Samples(10)), stratified: true, ..plain() };
    let report = derived(&[&dir.path().join("base")], &dir.path().join("few"), &few).unwrap();
    let lost = report.lost_classes.unwrap();
    assert_eq!(lost.n, 990);
    assert!(lost.first.starts_with("`train/10`, `train/100`, "), "{}", lost.first);
}

#[test]
fn listed_keys_are_taken_or_left_out_and_unknown_ones_named() {
    let case = Case::new(Envelope::Tar);
    let all: Vec<String> = samples(&case.at("base")).into_keys().collect();
    let list = case.put("list", &format!("{}\r\n{}\n\nno/such.jpg\n", all[3], all[30]));
    let keep = DeriveOptions { keys: vec![list.clone()], ..plain() };
    let report = case.derive("keep", &keep);
    assert_eq!(report.unknown_keys.unwrap().first, "`no/such.jpg`");
    assert_eq!(samples(&case.at("keep")).into_keys().collect::<Vec<_>>(), [&*all[3], &*all[30]]);
    let less = DeriveOptions { remove: vec![list], ..plain() };
    assert_eq!(case.derive("less", &less).samples, 58);
    assert!(!samples(&case.at("less")).contains_key(&all[3]));
    let nothing = DeriveOptions { remove: vec![case.put("nothing", "\n")], ..plain() };
    assert_eq!(case.derive("all", &nothing).samples, 60);
    let none = case.put("none", "a\nb\na\n");
    let none = DeriveOptions { remove: vec![none], ..plain() };
    let error = derived(&[&case.at("base")], &case.at("x"), &none).unwrap_err();
    assert_eq!(error.to_string(), "the list has 2 keys that no sample has: `a`, `b`");
    let nobody = DeriveOptions { filter: Some("bytes < 1".into()), ..plain() };
    let error = derived(&[&case.at("base")], &case.at("x"), &nobody).unwrap_err();
    assert!(matches!(error, Error::NothingTaken { of: 60 }), "{error}");
    assert!(!case.at("x").exists());
}

#[test]
fn new_labels_keep_every_image_and_the_numbers_of_old_classes() {
    let case = Case::new(Envelope::Parquet);
    let before = samples(&case.at("base"));
    let keys: Vec<&String> = before.keys().collect();
    let text = format!("file_name,label\n{},dog\n{},aardvark\nnone.jpg,cat\n", keys[0], keys[40]);
    let labels = case.table("new.csv", &text);
    let options = DeriveOptions { labels: labels.clone(), ..plain() };
    let report = case.derive("new", &options);
    assert_eq!((report.relabelled, report.new_classes.clone()), (2, vec!["aardvark".to_owned()]));
    assert_eq!(report.unlisted.as_ref().unwrap().n, 58);
    assert_eq!(report.unused_rows.as_ref().unwrap().n, 1);
    let bundle = Bundle::open(&case.at("new"), OpenOptions::default()).unwrap();
    assert_eq!(bundle.manifest().classes, ["a-b", "cat", "dog", "aardvark"]);
    let mut expected = before.clone();
    expected.get_mut(keys[0]).unwrap().1 = Some("dog".into());
    expected.get_mut(keys[40]).unwrap().1 = Some("aardvark".into());
    assert_eq!(samples(&case.at("new")), expected);
    // Derived again: a label of an earlier view goes back to the index's, and others stay.
    let text = format!("file_name,label\n{},{}\n", keys[0], before[keys[0]].1.as_ref().unwrap());
    let labels = case.table("back.csv", &text);
    let options = DeriveOptions { labels, ..plain() };
    derived(&[&case.at("new")], &case.at("back"), &options).unwrap();
    expected.insert(keys[0].clone(), before[keys[0]].clone());
    assert_eq!(samples(&case.at("back")), expected);
    // Only images that the table lists are taken.
    let labels = case.table("new.csv", &format!("file_name,label\n{},dog\n", keys[0]));
    let options = DeriveOptions { labels, unlisted: Unlisted::Skip, ..plain() };
    assert_eq!(case.derive("only", &options).samples, 1);
}

#[test]
fn a_bundle_without_labels_gets_them_all_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    (0..4).for_each(|i| put(dir.path(), &format!("images/{i}.jpg"), &jpeg(i)));
    for envelope in [Envelope::Shards, Envelope::Tar] {
        let plan = PlanOptions { labels: Labels::None, envelope, ..PlanOptions::default() };
        let base = at(&format!("base-{envelope}"));
        run(&at("images"), &base, plan, 1).unwrap();
        let table = |text: &str| {
            put(dir.path(), "t.csv", text.as_bytes());
            let files = vec![at("t.csv")];
            Some(TableOptions { files, ..TableOptions::default() })
        };
        let labels = table("file_name,label\n0.jpg,a\n1.jpg,b\n2.jpg,a\n");
        let options = DeriveOptions { labels, ..plain() };
        let error = derived(&[&base], &at("x"), &options).unwrap_err();
        assert!(matches!(error, Error::Plan(PlanError::Unlabelled { n: 1, .. })), "{error}");
        let labels =
            table("file_name,label,fold\n0.jpg,a,train\n1,b,val\n2.jpg,a,val\n3.jpg,b,test\n");
        let labels = labels.map(|t| TableOptions { split: Some("fold".into()), ..t });
        let options = DeriveOptions { labels, ..plain() };
        let out = at(&format!("out-{envelope}"));
        let report = derived(&[&base], &out, &options).unwrap();
        assert_eq!((report.moved, report.relabelled), (3, 4));
        let found = samples(&out);
        let of = |key: &str| (found[key].0, found[key].1.clone().unwrap());
        assert_eq!(of("0.jpg"), (Split::Train, "a".into()));
        assert_eq!(of("1.jpg"), (Split::Val, "b".into()));
        assert_eq!(of("3.jpg"), (Split::Test, "b".into()));
    }
}

#[test]
fn fractions_make_the_splits_that_packing_with_them_makes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    (0..40).for_each(|i| put(dir.path(), &format!("images/c{}/{i}.jpg", i % 2), &jpeg(i)));
    let fractions = vec![(Split::Train, 0.6), (Split::Val, 0.4)];
    run(&at("images"), &at("base"), PlanOptions::default(), 1).unwrap();
    let fractions_by = FractionsBy::Hash;
    let plan = PlanOptions {
        fractions: fractions.clone(),
        fractions_by,
        seed: 9,
        ..PlanOptions::default()
    };
    run(&at("images"), &at("packed"), plan, 1).unwrap();
    let options = DeriveOptions { fractions, seed: 9, ..plain() };
    derived(&[&at("base")], &at("derived"), &options).unwrap();
    assert_eq!(samples(&at("derived")), samples(&at("packed")));
}

#[test]
fn several_bundles_become_one_with_classes_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (of, classes) in [("a", ["cat", "dog"]), ("b", ["ape", "dog"])] {
        for i in 0..10 {
            put(dir.path(), &format!("{of}-src/{}/{of}{i}.jpg", classes[i % 2]), &jpeg(i as u32));
        }
        run(&at(&format!("{of}-src")), &at(of), PlanOptions::default(), 1).unwrap();
    }
    let options = plain();
    let report = derived(&[&at("a"), &at("b")], &at("both"), &options).unwrap();
    assert_eq!((report.samples, report.new_classes), (20, vec!["ape".to_owned()]));
    assert_eq!(report.relabelled, 0, "classes have other numbers and the same names");
    let mut expected = samples(&at("a"));
    expected.extend(samples(&at("b")));
    assert_eq!(samples(&at("both")), expected);
    let both = Bundle::open(&at("both"), OpenOptions::default()).unwrap();
    assert_eq!(both.manifest().classes, ["cat", "dog", "ape"]);
    let base = format!("{} {}", report.bases[0], report.bases[1]);
    assert_eq!(both.manifest().made["base"], MadeValue::Text(base));
    // A key twice, even in another case, and bundles of another kind.
    let error = derived(&[&at("both"), &at("a")], &at("x"), &options).unwrap_err();
    assert!(matches!(error, Error::SharedKeys { n: 10, .. }), "{error}");
    let upper = at("upper-src/cat/A0.JPG");
    put(dir.path(), "upper-src/cat/A0.JPG", &jpeg(1));
    assert!(upper.exists());
    run(&at("upper-src"), &at("upper"), PlanOptions::default(), 1).unwrap();
    let error = derived(&[&at("a"), &at("upper")], &at("x"), &options).unwrap_err();
    assert!(matches!(error, Error::SharedKeys { n: 1, .. }), "{error}");
    let plan = PlanOptions { envelope: Envelope::Tar, ..PlanOptions::default() };
    run(&at("b-src"), &at("tar"), plan, 1).unwrap();
    let error = derived(&[&at("a"), &at("tar")], &at("x"), &options).unwrap_err();
    assert!(error.to_string().contains("envelope tar, expected shards"), "{error}");
}

#[test]
fn no_shard_is_written_to_and_nothing_half_is_left_where_it_stops() {
    let case = Case::new(Envelope::Shards);
    let before = files(&case.at("base"));
    let options = DeriveOptions { filter: Some("class = dog".into()), ..plain() };
    let bases = [case.at("base")];
    let (cancel, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let stop = |_: Progress| {
        seen.fetch_add(1, Ordering::Relaxed);
        cancel.store(true, Ordering::Relaxed);
    };
    let error = derive(&bases, &case.at("out"), &options, &stop, &cancel).unwrap_err();
    assert!(matches!(error, Error::Run(RunError::Cancelled)), "{error}");
    assert!(!case.at("out").exists() && seen.into_inner() > 0);
    // Killed with some links made and no manifest: the next run makes the same bundle.
    let whole = case.derive("whole", &options);
    let (out, state) = (case.at("out"), case.at("out").join(".gular-pack"));
    fs::create_dir_all(out.join("data")).unwrap();
    fs::create_dir(&state).unwrap();
    fs::write(state.join("source"), format!("derive {}", whole.digest.hex())).unwrap();
    let (name, _) = files(&case.at("whole").join("data")).swap_remove(0);
    fs::hard_link(case.at("whole").join("data").join(&name), out.join("data").join(&name)).unwrap();
    case.derive("out", &options);
    assert!(files(&out) == files(&case.at("whole")));
    assert!(files(&case.at("base")) == before);
    // A base that lost a shard is named, and nothing is left of the new one.
    let lost = Bundle::open(&bases[0], OpenOptions::default()).unwrap();
    let path = lost.path_of(&lost.manifest().shards[0].file);
    fs::remove_file(&path).unwrap();
    let error = derived(&[&bases[0]], &case.at("lost"), &options).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    assert!(!case.at("lost").exists());
}

#[test]
fn options_that_make_no_sense_are_refused_before_anything_is_read() {
    let case = Case::new(Envelope::Shards);
    let check = |options: DeriveOptions, word: &str| {
        let error = derived(&[&case.at("base")], &case.at("x"), &options).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
        assert!(!case.at("x").exists());
    };
    let filter = |text: &str| DeriveOptions { filter: Some(text.into()), ..plain() };
    check(filter("class = bird"), "at character 9, `bird` is not a class");
    check(filter("colour = red"), "expected one of `key`, `split`, `bytes`, `label`, `class`");
    check(DeriveOptions { limit: Some(Limit::Share(1.5)), ..plain() }, "at most 100 %");
    check(DeriveOptions { stratified: true, ..plain() }, "set how many samples to take");
    check(DeriveOptions { fractions: vec![(Split::Val, 0.5)], ..plain() }, "sum to 0.5");
    let tags = case.table("tags.csv", "file_name,label\na,x y\n");
    let tags = tags.map(|t| TableOptions { separator: Some(" ".into()), ..t });
    check(DeriveOptions { labels: tags, ..plain() }, "several classes");
    let inside = case.at("base").join("inside");
    let error = derived(&[&case.at("base")], &inside, &plain()).unwrap_err();
    assert!(matches!(error, Error::Inside { .. }), "{error}");
}

pub(crate) fn compared(
    from: &Path,
    to: &Path,
    memory_bytes: usize,
) -> (DiffReport, Vec<(String, Difference)>) {
    let open = |dir: &Path| Bundle::open(dir, OpenOptions::default()).unwrap();
    let temp_dir = std::env::temp_dir();
    let options = DiffOptions { temp_dir: &temp_dir, memory_bytes };
    let mut all = Vec::new();
    let mut each = |key: &str, difference: &Difference| {
        all.push((key.to_owned(), difference.clone()));
        Ok(())
    };
    let none = AtomicBool::new(false);
    let report = diff(&open(from), &open(to), options, &mut each, &|_| {}, &none).unwrap();
    (report, all)
}

#[test]
fn a_comparison_names_each_key_that_differs_and_how() {
    let case = Case::new(Envelope::Shards);
    let before = samples(&case.at("base"));
    let keys: Vec<&String> = before.keys().collect();
    // Changes: another image for a key, one sample more, one less, and a new class.
    let (changed, removed) = (keys[5].clone(), keys[11].clone());
    let images = case.at("images");
    let other = if changed.ends_with(".png") { png(77) } else { jpeg(77) };
    put(&images, &changed, &other);
    fs::remove_file(images.join(&removed)).unwrap();
    put(&images, "train/zebra/1.jpg", &jpeg(99));
    run(&images, &case.at("next"), PlanOptions::default(), 2).unwrap();
    let text = format!("file_name,label,part\n{},zebra,test\n", keys[20]);
    let labels = case.table("t.csv", &text);
    let labels = labels.map(|t| TableOptions { split: Some("part".into()), ..t });
    let options = DeriveOptions { labels, ..plain() };
    derived(&[&case.at("next")], &case.at("last"), &options).unwrap();
    // The comparison is made with much memory, and with so little that all is sorted on disk.
    for memory_bytes in [64 << 20, 4096] {
        let (report, all) = compared(&case.at("base"), &case.at("last"), memory_bytes);
        let (_, class, _) = &before[keys[20]];
        let split = before[keys[20]].0;
        let mut expected = vec![
            (changed.clone(), Difference::Changed),
            (removed.clone(), Difference::Removed),
            (keys[20].clone(), Difference::Relabelled(class.clone(), Some("zebra".into()))),
            (keys[20].clone(), Difference::Moved(split, Split::Test)),
            ("train/zebra/1.jpg".to_owned(), Difference::Added),
        ];
        expected.sort_by(|(a, _), (b, _)| a.cmp(b));
        assert_eq!(all, expected);
        assert_eq!((report.same, report.from_samples, report.to_samples), (57, 60, 60));
        assert_eq!(report.classes_added, ["zebra"]);
        assert!(!report.is_same() && report.new_bytes > 0);
        assert_eq!(report.relabelled.first, [&**keys[20]]);
    }
    // In the other direction, each difference is the opposite.
    let (report, _) = compared(&case.at("last"), &case.at("base"), 1 << 20);
    assert_eq!((report.added.n, report.removed.n, report.moved.n), (1, 1, 1));
    assert_eq!(report.removed.first, ["train/zebra/1.jpg"]);
}

#[test]
fn shards_that_two_bundles_share_are_the_same_without_a_look_at_their_samples() {
    let case = Case::new(Envelope::Shards);
    let options = DeriveOptions { filter: Some("split = train".into()), ..plain() };
    case.derive("train", &options);
    let base = Bundle::open(&case.at("base"), OpenOptions::default()).unwrap();
    // The index of a shared shard is not needed; without a view the bundle is of version 1.
    let train = Bundle::open(&case.at("train"), OpenOptions::default()).unwrap();
    assert!(!train.manifest().is_derived());
    for entry in base.manifest().of_split(Split::Train) {
        fs::remove_file(base.path_of(&entry.index)).unwrap();
    }
    let (report, all) = compared(&case.at("base"), &case.at("train"), 1 << 20);
    assert_eq!((report.same, report.removed.n, report.new_bytes), (45, 15, 0));
    assert!(all.iter().all(|(_, difference)| *difference == Difference::Removed));
    let (report, all) = compared(&case.at("base"), &case.at("base"), 1 << 20);
    assert!(report.is_same() && all.is_empty());
}

/// Compares bundles with the number of samples of ImageNet, with 8 bytes each: their indexes are as
/// large, and nothing else is read. Without `GULAR_LONG_TESTS` it is a hundredth of that.
#[test]
fn a_hundredth_of_imagenet_is_less_than_a_megabyte() {
    let is_long = std::env::var_os("GULAR_LONG_TESTS").is_some();
    let (n, shards) = if is_long { (1_281_167, 143) } else { (12_811, 3) };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    synthetic(&at("base"), n, shards, true);
    let limit = Some(Limit::Share(0.01));
    let share = DeriveOptions { limit, stratified: true, jobs: 2, ..plain() };
    let report = derived(&[&at("base")], &at("part"), &share).unwrap();
    assert_eq!(report.samples, (n as f64 * 0.01).round() as u64);
    assert!(report.bytes_written < 1_000_000, "{}", report.bytes_written);
    println!("1 %: {} bytes written in {:.2} s", report.bytes_written, report.seconds);
    let step = |i: &usize| i.is_multiple_of(100);
    let rows: String = (0..n).filter(step).map(|i| format!("{},c{:04}\n", key(i), i % 7)).collect();
    put(dir.path(), "new.csv", format!("file_name,label\n{rows}").as_bytes());
    let files = vec![at("new.csv")];
    let labels = Some(TableOptions { files, ..TableOptions::default() });
    let options = DeriveOptions { labels, jobs: 2, ..plain() };
    let relabelled = derived(&[&at("base")], &at("labels"), &options).unwrap();
    assert!(relabelled.relabelled > n as u64 / 200);
    assert!(relabelled.bytes_written <= 1_000_000, "{}", relabelled.bytes_written);
    println!(
        "1 % relabelled: {} bytes written in {:.2} s",
        relabelled.bytes_written, relabelled.seconds
    );
    let (compared, all) = compared(&at("base"), &at("labels"), 64 << 20);
    assert_eq!((compared.relabelled.n, compared.changed.n), (relabelled.relabelled, 0));
    assert_eq!(all.len() as u64, compared.relabelled.n);
    println!("compared in {:.2} s", compared.seconds);
}

fn key(i: usize) -> String {
    format!("train/n{:08}/n{:08}_{i}.JPEG", i % 1000 * 7919, i % 1000 * 7919)
}

/// Makes a bundle of `n` samples in 1000 classes.
fn synthetic(dir: &Path, n: usize, shards: usize, named: bool) {
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data).unwrap();
    let fields = vec![Field::bytes(FieldName::image(), vec!["image/jpeg".into()]), Field::label()];
    let n_named = if named { 1000 } else { 0 };
    let classes: Vec<String> = (0..n_named).map(|i| format!("c{i:04}")).collect();
    let per_shard = n.div_ceil(shards);
    let entries = (0..shards).map(|shard| {
        let split = Split::Train;
        let spec =
            ShardSpec { envelope: Envelope::Shards, split, fields: &fields, classes: &classes };
        let mut writer = ShardWriter::create(&data, &spec).unwrap();
        for i in shard * per_shard..((shard + 1) * per_shard).min(n) {
            let label = (i as i64 % 1000).to_le_bytes();
            let key = BundlePath::parse(&key(i)).unwrap();
            writer.push(&key, &[&(i as u64).to_le_bytes(), &label]).unwrap();
        }
        writer.finish().unwrap()
    });
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        shards: entries.collect(),
        fields,
        classes,
        made: BTreeMap::new(),
        about: About::default(),
        statistics: None,
    };
    write_manifest(dir, &manifest).unwrap();
}

#[test]
fn a_bundle_whose_links_lead_nowhere_is_not_said_to_be_done() {
    let case = Case::new(Envelope::Shards);
    let options = DeriveOptions { limit: Some(Limit::Share(0.07)), ..plain() };
    case.derive("part", &options);
    let part = Bundle::open(&case.at("part"), OpenOptions::default()).unwrap();
    assert_eq!(part.manifest().made["derive_limit"], MadeValue::Text("7%".to_owned()));
    let shard = part.path_of(&part.manifest().shards[0].file);
    fs::remove_file(&shard).unwrap();
    std::os::unix::fs::symlink("nowhere", &shard).unwrap();
    assert!(derived(&[&case.at("base")], &case.at("part"), &options).is_err());
}

#[test]
fn sums_over_valid_pixels_are_added_up_or_it_is_said_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let statistics = |name: &str| {
        let bundle = Bundle::open(&at(name), OpenOptions::default()).unwrap();
        bundle.manifest().statistics.clone()
    };
    for (name, ends) in [("a", [10, 7]), ("b", [3, 10]), ("both", [0, 0])] {
        let ends: Vec<(String, u32)> = match name {
            "both" => [("a0", 10), ("a1", 7), ("b0", 3), ("b1", 10)]
                .map(|(key, end)| (key.to_owned(), end))
                .into(),
            _ => ends.iter().enumerate().map(|(i, end)| (format!("{name}{i}"), *end)).collect(),
        };
        for (key, end) in ends {
            let file = scene((10, 8), end, geo(0.0));
            put(&at(&format!("{name}-src")), &format!("{key}.tif"), &file);
        }
        run(&at(&format!("{name}-src")), &at(name), arrays(), 1).unwrap();
    }
    let merged = derived(&[&at("a"), &at("b")], &at("merged"), &plain()).unwrap();
    assert_eq!(merged.no_statistics, None);
    assert_eq!(statistics("merged"), statistics("both"));
    assert_eq!(statistics("merged").unwrap().counts, [8 * (10 + 7 + 3 + 10); 2]);
    let limit = Some(Limit::Samples(1));
    let fewer = derived(&[&at("a")], &at("fewer"), &DeriveOptions { limit, ..plain() }).unwrap();
    assert_eq!(fewer.no_statistics, Some(NoStatistics::OtherSamples));
    assert_eq!(statistics("fewer"), None);
    let of_some = derived(&[&at("fewer"), &at("b")], &at("some"), &plain()).unwrap();
    assert_eq!(of_some.no_statistics, Some(NoStatistics::OfSome));

    // An earlier release summed pixels that are nodata, too.
    let path = at("b").join("manifest.json");
    let manifest = Manifest::parse("m", &fs::read(&path).unwrap()).unwrap();
    let old = manifest.statistics.clone().map(|sums| Statistics {
        pixels: 160,
        counts: Vec::new(),
        ..sums
    });
    fs::remove_file(&path).unwrap();
    write_manifest(&at("b"), &Manifest { statistics: old, ..manifest }).unwrap();
    let unlike = derived(&[&at("a"), &at("b")], &at("unlike"), &plain()).unwrap();
    assert_eq!((unlike.no_statistics, statistics("unlike")), (Some(NoStatistics::Unlike), None));

    // Images as they were found have no statistics that could be lost.
    let case = Case::new(Envelope::Shards);
    let options = DeriveOptions { limit: Some(Limit::Samples(2)), ..plain() };
    assert_eq!(case.derive("part", &options).no_statistics, None);
}
