//! Boxes in the formats of COCO and YOLO, as fields whose values have one row per box.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::scenes::classes;
use crate::support::{jpeg, put, run};
use gular_bundle::{Bundle, FieldIdx, OpenOptions, Row, ShardIdx};
use gular_pack::{
    CheckImages, Classes, DeriveOptions, DiffOptions, Fit, Inputs, Labels, PayloadOptions,
    PlanOptions, RawOptions, TableOptions, TileOptions, Unlabelled, derive, diff,
};

fn plan(file: &Path) -> PlanOptions {
    let labels =
        Labels::Table(TableOptions { files: vec![file.to_owned()], ..TableOptions::default() });
    // The images have not the size that the annotations say.
    PlanOptions { labels, check: CheckImages::None, ..PlanOptions::default() }
}

/// Returns type, shape and numbers of an npy file.
fn array(npy: &[u8]) -> (String, Vec<f64>) {
    assert_eq!(&npy[..8], b"\x93NUMPY\x01\x00");
    let end = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    let header = std::str::from_utf8(&npy[10..end]).unwrap().trim_end().to_owned();
    let chunks = npy[end..].as_chunks::<8>().0.iter();
    let numbers = match header.contains("<f8") {
        true => chunks.map(|b| f64::from_le_bytes(*b)).collect(),
        false => chunks.map(|b| i64::from_le_bytes(*b) as f64).collect(),
    };
    (header, numbers)
}

/// The header of an array, and its numbers.
type Array = (String, Vec<f64>);

/// Returns for each sample, in order of keys, the key and the arrays of `fields`.
fn arrays(out: &Path, fields: &[&str]) -> Vec<(String, Vec<Array>)> {
    let bundle = Bundle::open(out, OpenOptions::default()).unwrap();
    let shard = bundle.shard(ShardIdx(0)).unwrap();
    let mut samples: Vec<_> = Row::first(shard.n_samples())
        .map(|row| {
            let of = |name: &&str| {
                let field: FieldIdx = bundle.manifest().field(name).unwrap();
                let mut value = Vec::new();
                shard.read(row, field, &mut value).unwrap();
                array(&value)
            };
            (shard.key(row).unwrap().unwrap(), fields.iter().map(of).collect())
        })
        .collect();
    samples.sort_by(|a: &(String, _), b| a.0.cmp(&b.0));
    samples
}

fn coco() -> serde_json::Value {
    let annotation = |image: i64, category: i64, bbox: [f64; 4], crowd: u8| {
        serde_json::json!({"image_id": image, "category_id": category, "bbox": bbox,
            "iscrowd": crowd, "id": image * 100 + category, "segmentation": [[1, 2, 3]]})
    };
    serde_json::json!({
        "info": {"year": 2017},
        "images": [
            {"id": 9, "file_name": "b.jpg", "width": 640, "height": 480},
            {"id": 4, "file_name": "a.jpg", "width": 200, "height": 100},
            {"id": 5, "file_name": "none.jpg", "width": 10, "height": 10},
        ],
        "annotations": [
            annotation(9, 90, [64.0, 48.0, 320.0, 240.0], 0),
            annotation(4, 1, [50.0, 25.0, 100.0, 50.0], 1),
            annotation(9, 1, [0.0, 0.0, 640.0, 480.0], 0),
        ],
        "categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}],
    })
}

#[test]
fn points_of_coco_become_fractions_in_the_order_of_the_boxes() {
    let dir = tempfile::tempdir().unwrap();
    for (i, name) in ["a.jpg", "b.jpg", "none.jpg"].iter().enumerate() {
        put(dir.path(), &format!("images/{name}"), &jpeg(i as u32));
    }
    let (images, json) = (dir.path().join("images"), dir.path().join("persons.json"));
    let mut coco = coco();
    coco["annotations"][0]["keypoints"] = serde_json::json!([64, 48, 2, 0, 0, 0]);
    coco["annotations"][1]["keypoints"] = serde_json::json!([50.0, 75.0, 1]);
    fs::write(&json, coco.to_string()).unwrap();
    let out = dir.path().join("out");
    let report = run(&images, &out, plan(&json), 1).unwrap();
    assert!(report.doubts.iter().all(|doubt| !doubt.text.contains("points")));
    let found = arrays(&out, &["boxes", "keypoints"]);
    let [a, b, none] = found.as_slice() else { panic!("{found:?}") };
    // What is left out is not known.
    assert_eq!(a.1[1].1, [0.25, 0.75, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(b.1[1].1, [&[0.1, 0.1, 2.0][..], &[0.0; 9]].concat());
    assert!(b.1[1].0.contains("'shape': (2, 6)") && b.1[1].0.contains("<f8"), "{}", b.1[1].0);
    assert!(none.1[1].0.contains("'shape': (0, 6)"), "{}", none.1[1].0);
    coco["annotations"][1]["keypoints"] = serde_json::json!([50, 75, 3]);
    fs::write(&json, coco.to_string()).unwrap();
    let error = run(&images, &dir.path().join("bad"), plan(&json), 1).unwrap_err().to_string();
    assert!(error.contains("`a.jpg` has points that are not each a column"), "{error}");
    // Without the image's size they cannot become fractions.
    coco["annotations"][1]["keypoints"] = serde_json::json!([50, 75, 1]);
    for image in coco["images"].as_array_mut().unwrap() {
        image.as_object_mut().unwrap().remove("width");
        image.as_object_mut().unwrap().remove("height");
    }
    coco["annotations"].as_array_mut().unwrap().iter_mut().for_each(|of| {
        of["bbox"] = serde_json::json!([0, 0, 1, 1]);
    });
    fs::write(&json, coco.to_string()).unwrap();
    let report = run(&images, &dir.path().join("unread"), plan(&json), 1).unwrap();
    let texts: Vec<String> = report.doubts.iter().map(ToString::to_string).collect();
    assert!(
        texts.iter().any(|text| text.contains("points or lines of 2 annotations")),
        "{texts:?}"
    );
}

fn assert_near(found: &[f64], expected: &[f64]) {
    let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(found.len() == expected.len() && near, "{found:?} {expected:?}");
}

#[test]
fn boxes_and_points_of_a_scene_are_cut_with_its_tiles() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "scenes/a.tif", &classes((40, 30)));
    let json = dir.path().join("instances.json");
    let annotation = |bbox: [f64; 4], category: i64, keypoints: [f64; 3]| {
        serde_json::json!({"image_id": 1, "category_id": category, "bbox": bbox, "iscrowd": 0,
            "keypoints": keypoints})
    };
    let mut coco = serde_json::json!({
        "images": [{"id": 1, "file_name": "a.tif", "width": 40, "height": 30}],
        "annotations": [
            annotation([10.0, 5.0, 20.0, 10.0], 1, [12.0, 8.0, 2.0]),
            annotation([2.0, 2.0, 14.5, 4.0], 2, [2.0, 2.0, 1.0]),
        ],
        "categories": [{"id": 1, "name": "ship"}, {"id": 2, "name": "buoy"}],
    });
    let tile = Some(TileOptions { size: 16, overlap: 0, min_valid: 0.0, block: None });
    let of_tiles = || PlanOptions { inputs: Inputs::Arrays, tile, ..plan(&json) };
    let names = ["boxes", "box_labels", "keypoints"];
    let expected = |sides: &[[f64; 4]]| {
        sides.as_flattened().iter().map(|side| side / 16.0).collect::<Vec<f64>>()
    };
    for (i, has_points) in [true, false].into_iter().enumerate() {
        if !has_points {
            // Without the size, boxes are in the pixels of the scene.
            let image = coco["images"][0].as_object_mut().unwrap();
            image.remove("width");
            image.remove("height");
        }
        fs::write(&json, coco.to_string()).unwrap();
        let out = dir.path().join(i.to_string());
        run(&dir.path().join("scenes"), &out, of_tiles(), 1).unwrap();
        let found = arrays(&out, &names[..if has_points { 3 } else { 2 }]);
        assert_eq!(found.len(), 6);
        let of = |place: &str, field: usize| {
            let of = found.iter().find(|(key, _)| key.ends_with(place)).unwrap();
            of.1[field].1.clone()
        };
        let first = [[10.0, 5.0, 16.0, 15.0], [2.0, 2.0, 16.0, 6.0]];
        assert_near(&of("r000000_c000000", 0), &expected(&first));
        assert_eq!(of("r000000_c000000", 1), [0.0, 1.0]);
        // Half a pixel of the second box is left, which is too little.
        assert_near(&of("r000000_c000016", 0), &expected(&[[0.0, 5.0, 14.0, 15.0]]));
        assert_eq!(of("r000000_c000016", 1), [0.0]);
        assert_near(&of("r000014_c000024", 0), &expected(&[[0.0, 0.0, 6.0, 1.0]]));
        assert!(of("r000014_c000000", 1) == [0.0]);
        if has_points {
            let known = [12.0 / 16.0, 0.5, 2.0, 2.0 / 16.0, 2.0 / 16.0, 1.0];
            assert_near(&of("r000000_c000000", 2), &known);
            assert_eq!(of("r000000_c000016", 2), [0.0; 3]);
        }
    }
}

#[test]
fn boxes_of_coco_become_corners_with_classes() {
    let dir = tempfile::tempdir().unwrap();
    for (i, name) in ["a.jpg", "b.jpg", "none.jpg"].iter().enumerate() {
        put(dir.path(), &format!("images/{name}"), &jpeg(i as u32));
    }
    let (images, json) = (dir.path().join("images"), dir.path().join("instances.json"));
    fs::write(&json, coco().to_string()).unwrap();
    let out = dir.path().join("out");
    run(&images, &out, plan(&json), 1).unwrap();
    let bundle = Bundle::open(&out, OpenOptions::default()).unwrap();
    assert_eq!(bundle.manifest().classes, ["person", "toothbrush"]);
    assert!(!bundle.manifest().has_labels());
    let found = arrays(&out, &["boxes", "box_labels", "box_crowd"]);
    let [a, b, none] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(a.1[0].1, [0.25, 0.25, 0.75, 0.75]);
    assert!(a.1[0].0.contains("'shape': (1, 4)") && a.1[0].0.contains("<f8"), "{}", a.1[0].0);
    assert_eq!((&a.1[1].1, &a.1[2].1), (&vec![0.0], &vec![1.0]));
    assert_eq!(b.1[0].1, [0.1, 0.1, 0.6, 0.6, 0.0, 0.0, 1.0, 1.0]);
    assert_eq!(b.1[1].1, [1.0, 0.0]);
    assert!(none.1[0].0.contains("'shape': (0, 4)"), "{}", none.1[0].0);
    assert!(none.1[1].0.contains("'shape': (0,)") && none.1[1].0.contains("<i8"));
    // A cropped image has other boxes.
    let raw = |fit| {
        let raw = RawOptions { width: 8, height: 8, fit, channels: 3, depth: None };
        let plan = PlanOptions { payload: PayloadOptions::Raw(raw), ..plan(&json) };
        run(&images, &dir.path().join("raw"), plan, 1)
    };
    assert!(raw(Fit::Crop).unwrap_err().to_string().contains("fractions of the whole image"));
    raw(Fit::Stretch).unwrap();
    assert_eq!(arrays(&dir.path().join("raw"), &["boxes"])[1].1, [b.1[0].clone()]);
}

#[test]
fn a_list_of_classes_numbers_the_boxes_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let images = dir.path().join("images");
    for (name, seed) in [("a.jpg", 1), ("b.jpg", 2), ("none.jpg", 3)] {
        put(&images, name, &jpeg(seed));
    }
    put(dir.path(), "instances.json", coco().to_string().as_bytes());
    put(dir.path(), "classes.txt", b"toothbrush\ncat\nperson\n");
    let classes = |name| Some(Classes::File(dir.path().join(name)));
    let plan = plan(&dir.path().join("instances.json"));
    let (out, options) = (dir.path().join("out"), plan.clone());
    run(&images, &out, PlanOptions { classes: classes("classes.txt"), ..options }, 1).unwrap();
    let bundle = Bundle::open(&out, OpenOptions::default()).unwrap();
    assert_eq!(bundle.manifest().classes, ["toothbrush", "cat", "person"]);
    let found = arrays(&out, &["box_labels"]);
    let labels: Vec<&[f64]> = found.iter().map(|(_, of)| of[0].1.as_slice()).collect();
    // The person of `a.jpg`; the toothbrush and the person of `b.jpg`.
    assert_eq!(labels, [&[2.0][..], &[0.0, 2.0], &[]]);

    put(dir.path(), "short.txt", b"person\n");
    let short = PlanOptions { classes: classes("short.txt"), ..plan };
    let error = run(&images, &dir.path().join("bad"), short, 1).unwrap_err().to_string();
    assert!(error.contains("`toothbrush`"), "{error}");
}

#[test]
fn fields_of_boxes_are_the_same_with_one_box_per_image_and_with_none() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "images/a.jpg", &jpeg(0));
    put(dir.path(), "images/b.jpg", &jpeg(1));
    put(dir.path(), "images/none.jpg", &jpeg(2));
    let (images, json) = (dir.path().join("images"), dir.path().join("instances.json"));
    let fields = ["boxes", "box_labels", "box_crowd"];
    let packed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut coco = coco();
        change(&mut coco);
        fs::write(&json, coco.to_string()).unwrap();
        let out = dir.path().join("out");
        let skip = PlanOptions { unlabelled: Unlabelled::Skip, ..plan(&json) };
        run(&images, &out, skip, 1).unwrap();
        let found = arrays(&out, &fields);
        fs::remove_dir_all(&out).unwrap();
        found
    };
    let one = packed(&|c| {
        c["annotations"].as_array_mut().unwrap().pop();
        c["images"].as_array_mut().unwrap().pop();
    });
    let shapes = |values: &[Array], n: usize| {
        let all = [format!("({n}, 4)"), format!("({n},)"), format!("({n},)")];
        all.iter().zip(values).all(|(shape, (header, _))| header.contains(shape.as_str()))
    };
    assert!(one.len() == 2 && one.iter().all(|(_, values)| shapes(values, 1)), "{one:?}");
    let none = packed(&|c| c["annotations"] = serde_json::json!([]));
    assert!(none.len() == 3 && none.iter().all(|(_, values)| shapes(values, 0)), "{none:?}");
}

#[test]
fn what_a_coco_file_does_not_list_is_counted_and_named() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "images/a.jpg", &jpeg(0));
    let (images, json) = (dir.path().join("images"), dir.path().join("instances.json"));
    let fault = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut coco = coco();
        change(&mut coco);
        fs::write(&json, coco.to_string()).unwrap();
        run(&images, &dir.path().join("out"), plan(&json), 1).unwrap_err().to_string()
    };
    for (error, expected) in [
        (
            fault(&|c| c["annotations"][1]["image_id"] = 77.into()),
            "1 annotations refer to images that the file does not list: `77`",
        ),
        (
            fault(&|c| c["annotations"][0]["category_id"] = 2.into()),
            "categories that the file does not list: `2`",
        ),
        (fault(&|c| c["images"][1]["id"] = 9.into()), "have the same id, 9"),
        (fault(&|c| c["categories"][1]["id"] = 90.into()), "two categories have the id 90"),
        (fault(&|c| c["categories"][1]["name"] = "toothbrush".into()), "the name `toothbrush`"),
        (fault(&|c| c["images"][1]["width"] = 0.into()), "`a.jpg` is 0 x 100 pixels"),
        (fault(&|c| *c = serde_json::json!({"info": 1})), "it is not a COCO file with boxes"),
    ] {
        assert!(error.contains(expected) && error.contains("instances.json"), "{error}");
    }
    fs::write(&json, coco().to_string()).unwrap();
    put(dir.path(), "images/new.jpg", &jpeg(5));
    let error = run(&images, &dir.path().join("out"), plan(&json), 1).unwrap_err().to_string();
    assert!(error.contains("1 image has no label: `new.jpg`"), "{error}");
    let skip = PlanOptions { unlabelled: Unlabelled::Skip, ..plan(&json) };
    let report = run(&images, &dir.path().join("out"), skip, 1).unwrap();
    assert_eq!((report.samples, report.unlabelled, report.unused_rows), (1, 1, 2));
}

#[test]
fn boxes_of_yolo_are_found_beside_the_images() {
    let dir = tempfile::tempdir().unwrap();
    for (i, name) in ["train/1.jpg", "train/2.jpg", "val/3.jpg"].iter().enumerate() {
        put(dir.path(), &format!("images/{name}"), &jpeg(i as u32));
    }
    put(dir.path(), "labels/train/1.txt", b"1 0.5 0.5 0.5 0.25\n0 0.25 0.75 0.5 0.5\n\n");
    put(dir.path(), "labels/train/2.txt", b"");
    // As for images, folders may be links, and files that macOS writes beside others are ignored.
    put(dir.path(), "elsewhere/3.txt", b"1 0.5 0.5 1 1\n");
    std::os::unix::fs::symlink("../elsewhere", dir.path().join("labels/val")).unwrap();
    put(dir.path(), "labels/train/._1.txt", b"\0\x05\x16\x07\xff");
    put(dir.path(), "labels/classes.txt", b"cat\ndog\n");
    let (images, labels, out) =
        (dir.path().join("images"), dir.path().join("labels"), dir.path().join("out"));
    run(&images, &out, plan(&labels), 1).unwrap();
    let bundle = Bundle::open(&out, OpenOptions::default()).unwrap();
    assert_eq!((bundle.manifest().classes.len(), bundle.manifest().shards.len()), (2, 2));
    let found = arrays(&out, &["boxes", "box_labels"]);
    assert_eq!(found[0].1[0].1, [0.25, 0.375, 0.75, 0.625, 0.0, 0.5, 0.5, 1.0]);
    assert_eq!((&found[0].1[1].1, found[1].1[0].1.len()), (&vec![1.0, 0.0], 0));
    put(dir.path(), "labels/val/3.txt", b"1 0.5 0.5 1 1\n2 0.5 0.5 1 1\n");
    let error = run(&images, &dir.path().join("o"), plan(&labels), 1).unwrap_err().to_string();
    assert!(
        error.contains("3.txt` line 2 cannot be read: its class number is 2, but `")
            && error.contains("labels/classes.txt` lists only 2"),
        "{error}"
    );
}

#[test]
fn boxes_of_yolo_are_found_in_every_split() {
    let dir = tempfile::tempdir().unwrap();
    for (i, split) in ["train", "valid"].iter().enumerate() {
        put(dir.path(), &format!("{split}/images/1.jpg"), &jpeg(i as u32));
        put(dir.path(), &format!("{split}/labels/1.txt"), format!("{i} 0.5 0.5 1 1\n").as_bytes());
    }
    let labels = ["train/labels", "valid/labels"].map(|folder| dir.path().join(folder));
    let table = TableOptions { files: labels.to_vec(), ..TableOptions::default() };
    let plan = PlanOptions { labels: Labels::Table(table), ..PlanOptions::default() };
    let out = tempfile::tempdir().unwrap();
    let report = run(dir.path(), out.path(), plan, 1).unwrap();
    assert_eq!((report.images, report.splits.len()), (vec!["{split}/{key}.{ext}".to_owned()], 2));
    // That of the split `train`.
    assert_eq!(arrays(out.path(), &["box_labels"])[0].1[0].1, [0.0]);
}

#[test]
fn classes_of_yolo_are_named_by_a_description_and_backgrounds_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..3 {
        put(dir.path(), &format!("train/images/{i}.jpg"), &jpeg(i));
    }
    put(dir.path(), "train/labels/0.txt", b"1 0.5 0.5 1 1\n");
    put(dir.path(), "train/labels/1.txt", b"0 0.5 0.5 1 1\n");
    let packed = |yaml: &str, unlabelled| {
        put(dir.path(), "data.yaml", yaml.as_bytes());
        let plan = PlanOptions { unlabelled, ..plan(&dir.path().join("train/labels")) };
        let out = tempfile::tempdir().unwrap();
        run(&dir.path().join("train"), out.path(), plan, 1).map(|report| (report, out))
    };
    let list = "path: ../x\nnc: 2\nnames: ['car', dog]\n";
    let error = packed(list, Unlabelled::Fail).unwrap_err().to_string();
    assert!(error.contains("no row with a label"), "{error}");
    for yaml in [list, "names:\n  1: dog\n  0: car\nnc: 2\n"] {
        let (report, out) = packed(yaml, Unlabelled::Keep).unwrap();
        assert_eq!((report.box_classes.join(" "), report.samples), ("car dog".to_owned(), 3));
        let found = arrays(out.path(), &["boxes", "box_labels"]);
        assert_eq!((found[0].1[1].1.as_slice(), found[2].1[0].1.len()), ([1.0].as_slice(), 0));
    }
    for (yaml, expected) in [
        ("names: {0: car, 2: dog}", "`names` is neither a list of names"),
        ("names: [car", "it is not YAML"),
        ("names: [car, car]", "two classes have the name `car`"),
        ("names: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1", "nested too deeply"),
        ("a: &a [1]\nnames: [*a, *a]", "it has aliases"),
        ("names: [car]", "data.yaml` lists only 1 classes"),
    ] {
        let error = packed(yaml, Unlabelled::Keep).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// A bundle of one image with a box, of these classes.
fn boxed(dir: &Path, name: &str, classes: &str) -> PathBuf {
    let at = |what: &str| dir.join(format!("{name}-{what}"));
    put(&at("images"), &format!("{name}1.jpg"), &jpeg(1));
    put(&at("labels"), &format!("{name}1.txt"), b"1 0.5 0.5 0.5 0.25\n");
    put(&at("labels"), "classes.txt", classes.as_bytes());
    run(&at("images"), &at("out"), plan(&at("labels")), 1).unwrap();
    at("out")
}

#[test]
fn values_that_are_numbers_of_classes_keep_their_classes() {
    let dir = tempfile::tempdir().unwrap();
    let (cats, dogs) = ("cat\ndog\n", "dog\ncat\n");
    let (a, b, c) =
        (boxed(dir.path(), "a", cats), boxed(dir.path(), "b", cats), boxed(dir.path(), "c", dogs));
    let out = dir.path().join("out");
    let merge = |bases: &[&PathBuf], options: &DeriveOptions| {
        let bases: Vec<PathBuf> = bases.iter().map(|base| (*base).clone()).collect();
        derive(&bases, &out, options, &|_| {}, &AtomicBool::new(false))
    };
    let plain = DeriveOptions::new(dir.path().to_owned());
    assert_eq!(merge(&[&a, &b], &plain).unwrap().samples, 2);
    let error = merge(&[&a, &c], &plain).unwrap_err().to_string();
    assert!(error.contains("classes `dog`, `cat`, expected `cat`, `dog`"), "{error}");
    put(dir.path(), "t.csv", b"file_name,label\na1.jpg,bird\n");
    let files = vec![dir.path().join("t.csv")];
    let labels = Some(TableOptions { files, ..TableOptions::default() });
    let error = merge(&[&a], &DeriveOptions { labels, ..plain.clone() }).unwrap_err().to_string();
    assert!(error.contains("the field `box_labels`"), "{error}");
    let files = vec![dir.path().join("a-labels")];
    let labels = Some(TableOptions { files, ..TableOptions::default() });
    let error = merge(&[&a], &DeriveOptions { labels, ..plain }).unwrap_err().to_string();
    assert!(error.contains("the table has boxes"), "{error}");
}

#[test]
fn a_comparison_names_fields_whose_classes_have_another_order() {
    let dir = tempfile::tempdir().unwrap();
    let a = boxed(dir.path(), "a", "cat\ndog\n");
    let again = tempfile::tempdir().unwrap();
    let other = boxed(again.path(), "a", "dog\ncat\n");
    let open = |dir: &Path| Bundle::open(dir, OpenOptions::default()).unwrap();
    let options = DiffOptions { temp_dir: dir.path(), memory_bytes: 1 << 20 };
    let diff = |to: &Path| {
        let none = AtomicBool::new(false);
        diff(&open(&a), &open(to), options, &mut |_, _| Ok(()), &|_| {}, &none).unwrap()
    };
    let report = diff(&other);
    assert_eq!(
        (report.fields_reordered.as_slice(), report.is_same()),
        (&["box_labels".to_owned()][..], false)
    );
    assert!(diff(&a).is_same());
}

#[test]
fn boxes_are_compared_with_their_images() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("images");
    // That of `jpeg(1)`.
    let (width, height) = (21, 17);
    for name in ["a.jpg", "b.jpg", "c.jpg"] {
        put(&source, name, &jpeg(1));
    }
    let table = |c: [u32; 2]| {
        let image = |id: u32, name: &str, [width, height]: [u32; 2]| serde_json::json!({"id": id, "file_name": name, "width": width, "height": height});
        let box_of = |image: u32, right: u32| serde_json::json!({"image_id": image, "category_id": 1, "bbox": [0, 0, right, 2]});
        let json = serde_json::json!({
            "images": [image(1, "a.jpg", [width, height]),
                image(2, "b.jpg", [width * 10, height * 10]), image(3, "c.jpg", c)],
            "annotations": [box_of(1, width + 5), box_of(2, 4), box_of(3, 4)],
            "categories": [{"id": 1, "name": "cat"}],
        });
        let path = dir.path().join("a.json");
        fs::write(&path, json.to_string()).unwrap();
        path
    };
    let checked = |file: &Path| PlanOptions { check: CheckImages::Header, ..plan(file) };
    let report = run(&source, &dir.path().join("a"), checked(&table([width, height])), 1).unwrap();
    let doubts: Vec<&str> = report.doubts.iter().map(|doubt| doubt.text.as_str()).collect();
    assert!(doubts[0].starts_with("1 box of `") && doubts[0].contains("`a.jpg`"), "{doubts:?}");
    assert!(doubts[1].starts_with("1 image has another size"), "{doubts:?}");
    assert!(doubts[1].ends_with("`b.jpg`"), "{doubts:?}");
    let other = table([height * 3, width]);
    let error = run(&source, &dir.path().join("b"), checked(&other), 1).unwrap_err().to_string();
    assert!(error.contains("c.jpg") && error.contains("its boxes are of an image with"), "{error}");
}
