//! New versions of bundles with fields beside the images: what is compared, packed and kept, and
//! that the result equals packing the whole source.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::derive::compared;
use crate::fields::{array, field, grey};
use crate::scenes::{arrays, classes, geo, scene, scene_with};
use crate::support::{files, options, put, run, samples};
use gular_bundle::{Dtype, Split};
use gular_codec::encode_png;
use gular_codec::tiff::Geo;
use gular_pack::{
    BaseReport, Error, FieldColumns, FieldFiles, Fit, FractionsBy, LabelColumn, Labels,
    LayoutError, OnBadInput, PackOptions, PackOrder, PayloadOptions, PlanOptions, Progress,
    RawOptions, ReencodeOptions, ShardError, TableOptions, TileOptions, pack_onto,
};

/// Counts of a report: unchanged, changed, added, removed, and samples packed.
type Counts = (u64, u64, u64, u64, u64);

fn counts(report: &BaseReport) -> Counts {
    let packed = report.packed.as_ref().map_or(0, |packed| packed.samples);
    (report.unchanged, report.changed, report.added, report.removed, packed)
}

struct Case {
    dir: tempfile::TempDir,
    plan: PlanOptions,
}

impl Case {
    /// Makes a case with images in the folder `src`.
    fn new(plan: PlanOptions) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), plan }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        put(self.dir.path(), name, bytes);
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.at(name)).unwrap();
    }

    /// Adds a field of files in the folder `name`.
    fn with(mut self, name: &str) -> Self {
        let files = field(name, &self.at(name), "");
        self.plan.fields.push(files);
        self
    }

    fn pack(&self, out: &str) {
        run(&self.at("src"), &self.at(out), self.plan.clone(), 2).unwrap();
    }

    fn onto_with(&self, base: &str, out: &str, options: &PackOptions) -> Result<BaseReport, Error> {
        let none = AtomicBool::new(false);
        pack_onto(&self.at(base), &self.at("src"), &self.at(out), options, &|_| {}, &none)
    }

    fn onto(&self, base: &str, out: &str) -> Result<BaseReport, Error> {
        self.onto_with(base, out, &options(self.plan.clone(), 2))
    }

    /// Makes `out`. Before, a dry run must report the same; afterwards, another run must find
    /// nothing left to do. The samples must be those of packing all of the source.
    fn version(&self, base: &str, out: &str) -> (Counts, BaseReport) {
        let before = self.entries();
        let dry = PackOptions { dry_run: true, ..options(self.plan.clone(), 2) };
        let dry = self.onto_with(base, out, &dry).unwrap();
        assert_eq!((self.entries(), &dry.bundle), (before.clone(), &None), "{out}");
        let report = self.onto(base, out).unwrap();
        assert_eq!(counts(&dry), counts(&report), "{out}");
        self.is_as_packed(out);
        let again = self.onto(base, out).unwrap().bundle.unwrap();
        assert!(again.already_done, "{out}");
        let one = self.onto_with(base, "one", &options(self.plan.clone(), 1)).unwrap();
        let digest = |report: &BaseReport| report.bundle.as_ref().unwrap().digest;
        assert_eq!(digest(&one), digest(&report), "{out}");
        assert!(files(&self.at("one")) == files(&self.at(out)), "{out}");
        fs::remove_dir_all(self.at("one")).unwrap();
        assert_eq!(self.entries().len(), before.len() + 1, "{out}");
        (counts(&report), report)
    }

    /// Checks that the bundle `name` has the samples of packing all of the source.
    fn is_as_packed(&self, name: &str) {
        self.pack("anew");
        let (expected, found) = (samples(&self.at("anew")), samples(&self.at(name)));
        assert!(expected.1 == found.1, "{name}");
        assert_eq!(expected.0.manifest().fields, found.0.manifest().fields, "{name}");
        let (differing, _) = compared(&self.at("anew"), &self.at(name), 1 << 20);
        assert!(differing.is_same(), "{name}: {differing:?}");
        fs::remove_dir_all(self.at("anew")).unwrap();
    }

    fn entries(&self) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> =
            fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
    }
}

/// A grey mask of 12 x 9 pixels of its own for each `i`.
fn mask(i: u32) -> Vec<u8> {
    let values: Vec<u16> = (0..12 * 9).map(|p| ((p * 7 + i * 5) % 23) as u16).collect();
    grey(12, 9, &values, false)
}

/// A picture of 12 x 9 pixels of its own for each `i`.
fn picture(i: u32) -> Vec<u8> {
    encode_png(&(0..12 * 9 * 3).map(|p| (p * 3 + i * 31) as u8).collect::<Vec<_>>(), 12, 9).unwrap()
}

fn depth(i: u32) -> Vec<u8> {
    let values = [i as f32, 0.5].map(f32::to_le_bytes);
    array(Dtype::F32, &[2], values.as_flattened())
}

fn unlabelled() -> PlanOptions {
    PlanOptions { labels: Labels::None, shard_bytes: 1 << 20, ..PlanOptions::default() }
}

/// Eight images with masks, arrays and texts; every fourth is of split `val`.
fn beside(payload: PayloadOptions) -> Case {
    let source_digests = payload != PayloadOptions::Encoded;
    let plan = PlanOptions { payload, source_digests, ..unlabelled() };
    let case = Case::new(plan).with("mask").with("depth").with("note");
    (0..8).for_each(|i| add(&case, i));
    case
}

fn stem(i: u32) -> String {
    format!("{}/{i}", if i.is_multiple_of(4) { "val" } else { "train" })
}

fn add(case: &Case, i: u32) {
    let stem = stem(i);
    case.put(&format!("src/{stem}.png"), &picture(i));
    case.put(&format!("mask/{stem}.png"), &mask(i));
    case.put(&format!("depth/{stem}.npy"), &depth(i));
    case.put(&format!("note/{stem}.txt"), format!("note {i}").as_bytes());
}

#[test]
fn masks_arrays_and_files_are_compared_as_the_images_are() {
    let raw = |fit| PayloadOptions::Raw(RawOptions { fit, ..RawOptions::new(8, 16) });
    let reencoded = PayloadOptions::Reencoded(ReencodeOptions::default());
    for payload in [PayloadOptions::Encoded, raw(Fit::Crop), raw(Fit::Pad), reencoded] {
        let case = beside(payload);
        case.pack("v0");
        assert_eq!(case.version("v0", "v1").0, (8, 0, 0, 0, 0), "{payload:?}");
        // One image is added, and one removed.
        add(&case, 8);
        for file in ["src/train/1.png", "mask/train/1.png", "depth/train/1.npy", "note/train/1.txt"]
        {
            case.remove(file);
        }
        assert_eq!(case.version("v1", "v2").0, (7, 0, 1, 1, 1), "{payload:?}");
        // One value of each of four samples changes, with the same length.
        case.put("src/train/2.png", &picture(70));
        case.put("mask/train/3.png", &mask(70));
        case.put("depth/val/4.npy", &depth(70));
        case.put("note/train/5.txt", b"note 9");
        assert_eq!(case.version("v2", "v3").0, (4, 4, 0, 0, 4), "{payload:?}");
        // A file gets another length, too.
        case.put("note/train/6.txt", b"of another length");
        let (counts, report) = case.version("v3", "v4");
        assert_eq!(counts, (7, 1, 0, 0, 1), "{payload:?}");
        assert_eq!(report.packed.unwrap().warnings, [""; 0], "all files are of some image");
        // Only one sample differs.
        let (differing, all) = compared(&case.at("v3"), &case.at("v4"), 1 << 20);
        assert_eq!((differing.changed.n, differing.same), (1, 7), "{all:?}");
        assert_eq!(all[0].0, "train/6.png");
        case.is_as_packed("v4");
    }
}

#[test]
fn masks_that_are_numbers_are_made_again() {
    let case = Case::new(unlabelled()).with("mask");
    let values = |i: u16| (i..i + 108).flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let npy = |i| array(Dtype::U16, &[9, 12], &values(i));
    for i in 0..4 {
        case.put(&format!("src/{i}.png"), &picture(i));
        case.put(&format!("mask/{i}.npy"), &npy(i as u16));
    }
    case.pack("v1");
    // The file has the same numbers in the other byte order: other bytes, but the same values.
    let text = "{'descr': '>u2', 'fortran_order': False, 'shape': (9, 12), }";
    let header = format!("{text:117}\n");
    let swapped = (1..109).flat_map(u16::to_be_bytes).collect();
    let other = [b"\x93NUMPY\x01\0\x76\0".to_vec(), header.into_bytes(), swapped].concat();
    assert!(fs::read(case.at("mask/1.npy")).unwrap() != other);
    case.put("mask/1.npy", &other);
    assert_eq!(case.version("v1", "v2").0, (4, 0, 0, 0, 0));
    case.put("mask/1.npy", &npy(5));
    assert_eq!(case.version("v2", "v3").0, (3, 1, 0, 0, 1));
}

#[test]
fn a_mask_that_is_gone_is_an_error_as_without_a_base() {
    let mut case = beside(PayloadOptions::Encoded);
    case.pack("v1");
    case.remove("mask/train/3.png");
    let anew = run(&case.at("src"), &case.at("no"), case.plan.clone(), 1).unwrap_err();
    let onto = case.onto("v1", "no").unwrap_err();
    assert!(onto.to_string().contains("`train/3.*`"), "{onto}");
    assert_eq!(onto.to_string(), anew.to_string());
    assert!(!case.at("no").exists());
    // Nor is it kept when such images are left out.
    case.plan.on_error = OnBadInput::Skip;
    let (counts, report) = case.version("v1", "v2");
    assert_eq!((counts, report.skipped), ((7, 0, 0, 1, 0), 1));
    let listed = fs::read_to_string(case.at("v2/skipped.jsonl")).unwrap();
    assert!(listed.contains("train/3.png"), "{listed}");
    // Nor one that no longer has the size of its image.
    add(&case, 3);
    case.put("mask/train/3.png", &grey(9, 12, &[1; 108], false));
    case.plan.on_error = OnBadInput::Fail;
    let error = case.onto("v1", "v3").unwrap_err().to_string();
    assert!(error.contains("it has 9 x 12 pixels, but its image has 12 x 9"), "{error}");
    case.plan.on_error = OnBadInput::Skip;
    let report = case.onto("v1", "v3").unwrap();
    assert_eq!((counts_of(&report), report.skipped), ((7, 1, 0, 0), 1));
    assert_eq!(samples(&case.at("v3")).1.len(), 7);
}

fn counts_of(report: &BaseReport) -> (u64, u64, u64, u64) {
    (report.unchanged, report.changed, report.added, report.removed)
}

#[test]
fn a_version_of_other_fields_is_refused_and_they_are_named() {
    let raw = PayloadOptions::Raw(RawOptions { fit: Fit::Stretch, ..RawOptions::new(8, 8) });
    let mut case = beside(raw);
    case.pack("v1");
    let before = case.entries();
    let check = |case: &Case, name: &str, old: Option<&str>, new: Option<&str>| {
        let error = case.onto("v1", "no").unwrap_err();
        let Error::UnlikeField { name: n, old: o, new: w } = &error else { panic!("{error}") };
        assert_eq!((n.as_str(), o.as_deref(), w.as_deref()), (name, old, new), "{error}");
    };
    let fields = case.plan.fields.clone();
    case.plan.fields.remove(0);
    check(&case, "mask", Some("U8 [8, 8]"), None);
    case.plan.fields = fields.clone();
    case.plan
        .fields
        .push(FieldFiles { files: Some(case.at("note")), ..field("more", Path::new(""), "") });
    check(&case, "more", None, Some("files"));
    case.plan.fields = fields.clone();
    case.plan.fields.swap(0, 1);
    let error = case.onto("v1", "no").unwrap_err();
    let expected = Some("image, mask, depth, note".to_owned());
    let is_order = matches!(&error, Error::UnlikeBase { setting: "order of fields", old, .. } if *old == expected);
    assert!(is_order, "{error}");
    case.plan.fields = fields;
    assert_eq!(case.entries(), before);
    // One wide mask makes all masks wide, as in a bundle packed as a whole.
    case.put("mask/train/1.png", &grey(12, 9, &[300; 108], true));
    check(&case, "mask", Some("U8 [8, 8]"), Some("U16 [8, 8]"));
    case.put("mask/train/1.png", &mask(1));
    for i in 0..8 {
        case.put(&format!("depth/{}.npy", stem(i)), &array(Dtype::F32, &[1], &[0; 4]));
    }
    check(&case, "depth", Some("F32 [2]"), Some("F32 [1]"));
    for i in 0..8 {
        case.remove(&format!("depth/{}.npy", stem(i)));
        case.put(&format!("depth/{}.bin", stem(i)), b"x");
    }
    check(&case, "depth", Some("F32 [2]"), Some("files"));
}

/// Types and array fields are found from all files, also if only some of them are packed.
#[test]
fn what_is_packed_has_the_fields_of_the_whole_source() {
    let case = Case::new(PlanOptions { source_digests: true, ..arrays() });
    for i in 0..3 {
        case.put(&format!("src/{i}.tif"), &scene((10, 8), 10, geo(f64::from(i))));
    }
    case.pack("v1");
    // Alone it would have neither CRS nor transform.
    let bare = Geo { crs: None, transform: None, ..geo(0.0) };
    case.put("src/3.tif", &scene((10, 8), 10, bare));
    assert_eq!(case.version("v1", "v2").0, (3, 0, 1, 0, 1));
    // Other bands than the base's are refused, of one file and of the first one.
    let other = scene((10, 8), 10, Geo { bands: vec!["x".into(), "y".into()], ..geo(0.0) });
    case.put("src/4.tif", &other);
    let error = case.onto("v2", "no").unwrap_err().to_string();
    assert!(error.contains("`4.tif`: its bands are `x`, `y`"), "{error}");
    case.put("src/0.tif", &other);
    let error = case.onto("v2", "no").unwrap_err();
    let Error::UnlikeField { name, old: Some(old), new: Some(new) } = &error else {
        panic!("{error}")
    };
    assert_eq!(name, "image");
    assert_eq!(
        (old.as_str(), new.as_str()),
        (
            "I16 [8, 10, 2] yxc, bands B04 B08, nodata -9",
            "I16 [8, 10, 2] yxc, bands x y, nodata -9"
        )
    );

    // Wide masks of which only a narrow one is new.
    let raw = PayloadOptions::Raw(RawOptions::new(8, 8));
    let case = Case::new(PlanOptions { payload: raw, source_digests: true, ..unlabelled() });
    let case = case.with("mask");
    case.put("src/0.png", &picture(0));
    case.put("mask/0.png", &grey(12, 9, &[300; 108], true));
    case.pack("v1");
    case.put("src/1.png", &picture(1));
    case.put("mask/1.png", &mask(1));
    assert_eq!(case.version("v1", "v2").0, (1, 0, 1, 0, 1));
}

#[test]
fn columns_of_a_table_are_compared_too() {
    let table = |case: &Case, rows: &[(&str, &str, f64)]| {
        let rows: String =
            rows.iter().map(|(key, class, n)| format!("{key},{class},{n}\n")).collect();
        case.put("labels.csv", format!("file_name,label,height\n{rows}").as_bytes());
    };
    let mut case = Case::new(unlabelled()).with("mask");
    let tables = TableOptions { files: vec![case.at("labels.csv")], ..TableOptions::default() };
    case.plan.labels = Labels::Table(tables);
    for i in 0..4 {
        case.put(&format!("src/{i}.png"), &picture(i));
        case.put(&format!("mask/{i}.png"), &mask(i));
    }
    let rows = [("0", "b", 0.5), ("1", "b", 1.5), ("2", "c", 2.5), ("3", "c", 3.5)];
    table(&case, &rows);
    case.pack("v1");
    assert_eq!(case.version("v1", "v2").0, (4, 0, 0, 0, 0));
    // One image has another height, and one another class.
    let rows = [("0", "b", 0.25), ("1", "b", 1.5), ("2", "b", 2.5), ("3", "c", 3.5)];
    table(&case, &rows);
    let (counts, report) = case.version("v2", "v3");
    assert_eq!((counts, report.bundle.unwrap().relabelled), ((3, 1, 0, 0, 1), 1));
    // A number among them that is not one makes the column text.
    case.put("labels.csv", b"file_name,label,height\n0,b,1.5\n1,b,x\n2,b,2.5\n3,c,3.5\n");
    let error = case.onto("v3", "no").unwrap_err();
    assert!(matches!(&error, Error::UnlikeField { name, .. } if name == "height"), "{error}");
}

#[test]
fn several_classes_are_compared_where_the_classes_are_those_of_the_base() {
    let mut case = Case::new(unlabelled());
    let rows = |case: &Case, rows: &str| {
        case.put("labels.csv", format!("file_name,label,fold\n{rows}").as_bytes());
    };
    let table = TableOptions {
        files: vec![case.at("labels.csv")],
        separator: Some(" ".to_owned()),
        split: Some("fold".to_owned()),
        fields: FieldColumns::Named(Vec::new()),
        ..TableOptions::default()
    };
    case.plan.labels = Labels::Table(table.clone());
    for i in 0..4 {
        case.put(&format!("src/{i}.png"), &picture(i));
    }
    rows(&case, "0,a b,train\n1,b,train\n2,a,train\n3,c,val\n");
    case.pack("v1");
    // One image has another class, and one is in another split; class c has no images any more.
    rows(&case, "0,a,train\n1,b,val\n2,a,train\n3,a,val\n");
    case.plan.classes = Some(gular_pack::Classes::Names(["a", "b", "c"].map(Into::into).to_vec()));
    let (counts, report) = case.version("v1", "v2");
    assert_eq!((counts, report.bundle.unwrap().moved), ((2, 2, 0, 0, 2), 1));
    case.plan.classes = None;
    assert_eq!(counts_of(&case.onto("v1", "v3").unwrap()), (2, 2, 0, 0));
    rows(&case, "0,a,train\n1,b,val\n2,d,train\n3,a,val\n");
    let error = case.onto("v2", "no").unwrap_err();
    assert!(matches!(&error, Error::UnlikeField { name, .. } if name == "labels"), "{error}");
    // Without its labels it would be a different bundle.
    case.plan.labels =
        Labels::Table(TableOptions { label: LabelColumn::None, separator: None, ..table });
    let error = case.onto("v2", "no").unwrap_err();
    assert!(
        matches!(&error, Error::UnlikeField { name, new: None, .. } if name == "labels"),
        "{error}"
    );
}

/// Scenes `a` to `d` and their masks, of which `b` is empty from column 60 on; all tiles of a scene
/// are in one split.
fn tiled(min_valid: f64) -> Case {
    let plan = PlanOptions {
        tile: Some(TileOptions { size: 32, overlap: 8, min_valid, block: None }),
        fractions: vec![(Split::Train, 0.5), (Split::Val, 0.5)],
        fractions_by: FractionsBy::Hash,
        ..arrays()
    };
    let case = Case::new(plan).with("mask");
    for name in ["a", "b", "c"] {
        put_scene(&case, name, (90, 70), 0);
    }
    put_scene(&case, "d", (20, 20), 0);
    case
}

/// A scene whose pixel in the middle of its first tile is `value`.
fn put_scene(case: &Case, name: &str, size: (u32, u32), value: i16) {
    let end = if name == "b" { 60 } else { 90 };
    case.put(&format!("src/{name}.tif"), &scene_with(size, end, geo(0.0), (3, 3, value)));
    case.put(&format!("mask/{name}.tif"), &classes(size));
}

/// Tiles of a scene of 90 x 70 pixels: columns 0, 24, 48 and 58, rows 0, 24 and 38.
const TILES: u64 = 12;

#[test]
fn tiles_are_cut_again_and_compared() {
    let mut case = tiled(0.0);
    case.pack("v0");
    assert_eq!(case.version("v0", "v1").0, (3 * TILES + 1, 0, 0, 0, 0));
    // A scene is added.
    put_scene(&case, "e", (90, 70), 0);
    let (counts, report) = case.version("v1", "v2");
    assert_eq!(counts, (3 * TILES + 1, 0, TILES, 0, TILES));
    let before: u64 = sizes(&case.at("v1"));
    let (differing, _) = compared(&case.at("v1"), &case.at("v2"), 1 << 20);
    assert!(differing.new_bytes * 2 < before && differing.new_bytes > 0, "{differing:?}");
    assert!(report.bundle.unwrap().bytes_written * 10 < before);
    // A pixel of one scene, which is in one tile, is another; one scene is gone.
    put_scene(&case, "c", (90, 70), 7);
    case.remove("src/a.tif");
    assert_eq!(case.version("v2", "v3").0, (3 * TILES, 1, 0, TILES, 1));
    // Only a mask changes, in a pixel that four tiles share.
    let mut mask = classes((90, 70));
    let last = mask.len();
    let pixels = mask.windows(90).position(|w| w == (0..90).map(|x| x / 7).collect::<Vec<u8>>());
    let at = pixels.unwrap() + 26 * 90 + 26;
    mask[at] ^= 0x80;
    case.put("mask/e.tif", &mask);
    assert_eq!((mask.len(), case.version("v3", "v4").0), (last, (3 * TILES - 3, 4, 0, 0, 4)));
    // The location of a scene is not part of its pixels, but is compared, too.
    case.put("src/d.tif", &scene_with((20, 20), 90, geo(5.0), (3, 3, 0)));
    assert_eq!(case.version("v4", "v5").0, (3 * TILES, 1, 0, 0, 1));
    // A larger scene has other tiles.
    put_scene(&case, "d", (40, 40), 0);
    assert_eq!(case.version("v5", "v6").0, (3 * TILES, 1, 3, 0, 4));
    case.plan.order = PackOrder::Sorted;
    assert_eq!(case.version("v6", "v7").0, (3 * TILES + 4, 0, 0, 0, 0));
}

fn sizes(bundle: &Path) -> u64 {
    files(&bundle.join("data")).iter().map(|(_, bytes)| bytes.len() as u64).sum()
}

#[test]
fn tiles_left_out_as_empty_are_neither_added_nor_kept() {
    let case = tiled(0.5);
    case.pack("v0");
    // The tiles of scene `b` from column 48 on are left out, and all of `d`.
    assert_eq!(case.version("v0", "v1").0, (3 * TILES - 6, 0, 0, 0, 0));
    // The new scene has some empty tiles.
    let scene = |end| scene_with((90, 70), end, geo(0.0), (3, 3, 0));
    case.put("src/e.tif", &scene(60));
    case.put("mask/e.tif", &classes((90, 70)));
    let (counts, report) = case.version("v1", "v2");
    assert_eq!(counts, (3 * TILES - 6, 0, TILES - 6, 0, TILES - 6));
    assert_eq!(report.packed.unwrap().empty_tiles, 0, "none of them is cut for packing");
    // Tiles that have become empty are removed; others are no longer empty.
    case.put("src/e.tif", &scene(32));
    case.put("src/b.tif", &scene(90));
    let kept = 2 * TILES + 6 + 3;
    assert_eq!(case.version("v2", "v3").0, (kept, 0, 6, 3, 6));
    // All tiles of the new scene are empty, so nothing is packed.
    case.put("src/f.tif", &scene(4));
    case.put("mask/f.tif", &classes((90, 70)));
    let (counts, report) = case.version("v3", "v4");
    assert_eq!((counts, report.packed), ((kept + 6, 0, 0, 0, 0), None));
    // All tiles of all scenes are empty, which is an error, as without a base.
    for name in ["a", "b", "c", "e"] {
        case.put(&format!("src/{name}.tif"), &scene(4));
    }
    let anew = run(&case.at("src"), &case.at("no"), case.plan.clone(), 1).unwrap_err();
    assert!(matches!(anew, Error::Layout(LayoutError::NoImages { .. })), "{anew}");
    assert_eq!(case.onto("v4", "no").unwrap_err().to_string(), anew.to_string());
    assert!(!case.at("no").exists());
}

#[test]
fn tiles_of_other_settings_are_refused_as_are_other_splits() {
    let mut case = tiled(0.0);
    case.pack("v1");
    let plan = case.plan.clone();
    let unlike = |case: &Case, name: &str, old: Option<&str>, new: Option<&str>| {
        let error = case.onto("v1", "no").unwrap_err();
        let Error::UnlikeBase { setting, old: o, new: n } = &error else { panic!("{error}") };
        assert_eq!((*setting, o.as_deref(), n.as_deref()), (name, old, new), "{error}");
    };
    let tile =
        |size, overlap, min_valid| Some(TileOptions { size, overlap, min_valid, block: None });
    for (tile, name, old, new) in [
        (tile(64, 8, 0.0), "tile", Some("32"), Some("64")),
        (None, "tile", Some("32"), None),
        (tile(32, 4, 0.0), "overlap", Some("8"), Some("4")),
        (tile(32, 8, 0.5), "min_valid", Some("0"), Some("0.5")),
    ] {
        case.plan = PlanOptions { tile, ..plan.clone() };
        unlike(&case, name, old, new);
    }
    case.plan = PlanOptions { fields: Vec::new(), ..plan.clone() };
    let error = case.onto("v1", "no").unwrap_err();
    assert!(
        matches!(&error, Error::UnlikeField { name, new: None, .. } if name == "mask"),
        "{error}"
    );
    // All tiles of a scene are in one split, which other fractions or another seed would change.
    case.plan = PlanOptions { fractions: vec![(Split::Train, 1.0)], ..plan.clone() };
    unlike(&case, "fractions", Some("train=0.5,val=0.5"), Some("train=1"));
    put_scene(&case, "c", (90, 70), 7);
    let refused = (1..9).any(|seed| {
        case.plan = PlanOptions { seed: plan.seed + seed, ..plan.clone() };
        let text = case.onto("v1", "no").err().map(|error| error.to_string());
        text.is_some_and(|text| text.contains("give the same fractions and seed as for the base"))
    });
    assert!(refused, "some seed puts a scene into another split");
    case.plan = plan;
    assert_eq!(case.version("v1", "v3").0, (3 * TILES, 1, 0, 0, 1));
}

#[test]
fn a_version_of_tiles_goes_on_after_a_kill() {
    let case = tiled(0.5);
    case.pack("v1");
    for i in 0..12 {
        let name = format!("more/{i}");
        put_scene(&case, &name, (300, 300), i);
    }
    let options = options(case.plan.clone(), 1);
    let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = |p: Progress| {
        if let Progress::Packed(1, _) = p
            && seen.fetch_add(1, Ordering::Relaxed) == 300
        {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let (base, source) = (case.at("v1"), case.at("src"));
    let killed = pack_onto(&base, &source, &case.at("v2"), &options, &progress, &stop);
    let error = killed.unwrap_err();
    let Error::Shard(ShardError::Unfinished { path, done, total }) = &error else {
        panic!("{error}")
    };
    assert!(path.ends_with("v2") && 0 < *done && done < total, "{error}");
    let report = case.onto("v1", "v2").unwrap();
    assert!(report.packed.unwrap().resumed_shards > 0);
    case.is_as_packed("v2");
    case.onto("v1", "v3").unwrap();
    assert!(files(&case.at("v2")) == files(&case.at("v3")));
}

#[test]
fn boxes_are_compared_where_the_classes_are_those_of_the_base() {
    let mut case = Case::new(unlabelled());
    let coco = |case: &Case, left: [u32; 3], classes: &[&str]| {
        let images =
            (0..3).map(|i| format!(r#"{{"id":{i},"file_name":"{i}.png","width":12,"height":9}}"#));
        let boxes = (0..3).zip(left).map(|(i, x)| {
            format!(r#"{{"id":{i},"image_id":{i},"category_id":{},"bbox":[{x},1,2,3]}}"#, i % 2)
        });
        let names = (0..).zip(classes);
        let names = names.map(|(i, name): (u32, _)| format!(r#"{{"id":{i},"name":"{name}"}}"#));
        let lists = [images.collect::<Vec<_>>(), boxes.collect(), names.collect()];
        let [images, boxes, names] = lists.map(|list| list.join(","));
        let text =
            format!(r#"{{"images":[{images}],"annotations":[{boxes}],"categories":[{names}]}}"#);
        case.put("boxes.json", text.as_bytes());
    };
    let tables = TableOptions { files: vec![case.at("boxes.json")], ..TableOptions::default() };
    case.plan.labels = Labels::Table(tables);
    (0..3).for_each(|i| case.put(&format!("src/{i}.png"), &picture(i)));
    coco(&case, [1, 2, 3], &["cat", "dog"]);
    case.pack("v1");
    coco(&case, [1, 4, 3], &["cat", "dog"]);
    assert_eq!(case.version("v1", "v2").0, (2, 1, 0, 0, 1));
    coco(&case, [1, 4, 3], &["cat", "dog", "eel"]);
    let error = case.onto("v2", "no").unwrap_err();
    let Error::UnlikeBase { setting: "classes", old, new } = &error else { panic!("{error}") };
    assert_eq!((old.as_deref(), new.as_deref()), (Some("cat, dog"), Some("cat, dog, eel")));
}

#[test]
fn a_sample_stays_in_its_split_or_the_run_says_what_to_give() {
    let fractions = vec![(Split::Train, 0.5), (Split::Val, 0.5)];
    let plan = |fractions: &[(Split, f64)], seed| PlanOptions {
        fractions: fractions.to_vec(),
        fractions_by: FractionsBy::Hash,
        seed,
        ..unlabelled()
    };
    let mut case = Case::new(plan(&fractions, 1));
    for i in 0..20 {
        case.put(&format!("src/{i}.png"), &picture(i));
    }
    case.pack("v1");
    // All images but two get other bytes.
    for i in 2..20 {
        case.put(&format!("src/{i}.png"), &picture(i + 100));
    }
    let refused = |plan: PlanOptions, expected: &str| {
        let error = case.onto_with("v1", "v2", &options(plan, 2)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{text}");
        assert!(!case.at("v2").exists());
    };
    refused(plan(&[], 1), "the fractions must be");
    refused(plan(&[(Split::Train, 1.0)], 1), "the fractions must be");
    refused(plan(&fractions, 2), "give the same fractions and seed as for the base");
    let (found, _) = case.version("v1", "v2");
    assert_eq!(found, (2, 18, 0, 0, 18));
    // With folders of splits, one image is moved by hand.
    case = Case::new(unlabelled());
    for i in 0..4 {
        case.put(&format!("src/train/{i}.png"), &picture(i));
        case.put(&format!("src/val/{}.png", i + 4), &picture(i + 4));
    }
    case.pack("v1");
    case.remove("src/train/0.png");
    case.put("src/val/0.png", &picture(0));
    let (found, _) = case.version("v1", "v2");
    assert_eq!((found.0 + found.1 + found.2, found.4), (8, 1));
}

#[test]
fn a_folder_that_is_something_else_gets_nothing_beside_it() {
    let case = Case::new(unlabelled());
    case.put("src/0.png", &picture(0));
    case.pack("v1");
    case.put("src/1.png", &picture(1));
    case.put("full/notes.txt", b"mine");
    let before = case.entries();
    assert!(matches!(case.onto("v1", "full"), Err(Error::Shard(ShardError::NotEmpty { .. }))));
    assert!(matches!(
        case.onto("v1", "v1"),
        Err(Error::Inside { .. } | Error::Shard(ShardError::AlreadyBundle { .. }))
    ));
    assert_eq!(case.entries(), before);
}
