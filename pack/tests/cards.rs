//! Known datasets are recognised and read, each made small.

use crate::support::{jpeg, png, put, run, samples};
use gular_bundle::Split;
use gular_pack::{PlanOptions, datasets, parse_datasets};

/// A file with no bytes that matter; images get pixels.
type File<'a> = (&'a str, &'a str);
/// A key, its split and its class.
type Sample<'a> = (&'a str, Split, Option<&'a str>);

use Split::{Test, Train, Val};

/// Annotations of an image with one dog.
const VOC: &str = "<annotation><size><width>21</width><height>17</height></size><object><name>dog\
    </name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>4</xmax><ymax>8</ymax></bndbox></object>\
    </annotation>";

/// For each dataset: files, and the samples that packing finds.
const MADE: [(&str, &[File<'_>], &[Sample<'_>]); 24] = [
    (
        "dogs-vs-cats",
        &[("train/cat.0.jpg", ""), ("train/dog.0.jpg", ""), ("test1/1.jpg", "")],
        &[
            ("test1/1.jpg", Test, None),
            ("train/cat.0.jpg", Train, Some("cat")),
            ("train/dog.0.jpg", Train, Some("dog")),
        ],
    ),
    (
        "food-101",
        &[
            ("images/pie/1.jpg", ""),
            ("images/pie/2.jpg", ""),
            ("images/ribs/3.jpg", ""),
            ("meta/train.txt", "pie/1\nribs/3\n"),
            ("meta/test.txt", "pie/2\n"),
            ("meta/classes.txt", "pie\nribs\n"),
        ],
        &[
            ("images/pie/1.jpg", Train, Some("pie")),
            ("images/pie/2.jpg", Test, Some("pie")),
            ("images/ribs/3.jpg", Train, Some("ribs")),
        ],
    ),
    (
        "oxford-pets",
        &[
            ("images/great_pyrenees_1.jpg", ""),
            ("images/Bengal_20.jpg", ""),
            ("images/Bengal_21.jpg", ""),
            ("annotations/list.txt", "#Image CLASS-ID SPECIES BREED ID\n"),
            ("annotations/trainval.txt", "great_pyrenees_1 16 2 10\n"),
            ("annotations/test.txt", "Bengal_20 6 1 2\n"),
            ("annotations/trimaps/Bengal_20.png", ""),
        ],
        &[
            ("images/Bengal_20.jpg", Test, Some("Bengal")),
            ("images/great_pyrenees_1.jpg", Train, Some("great_pyrenees")),
        ],
    ),
    (
        "dtd",
        &[
            ("images/dotted/dotted_1.jpg", ""),
            ("images/woven/woven_2.jpg", ""),
            ("images/woven/woven_3.jpg", ""),
            ("labels/train1.txt", "dotted/dotted_1.jpg\n"),
            ("labels/val1.txt", "woven/woven_2.jpg\n"),
            ("labels/test1.txt", "woven/woven_3.jpg\n"),
        ],
        &[
            ("images/dotted/dotted_1.jpg", Train, Some("dotted")),
            ("images/woven/woven_2.jpg", Val, Some("woven")),
            ("images/woven/woven_3.jpg", Test, Some("woven")),
        ],
    ),
    (
        "fgvc-aircraft",
        &[
            ("data/images/0034309.jpg", ""),
            ("data/images/1025794.jpg", ""),
            ("data/images/2.jpg", ""),
            ("data/variants.txt", "F/A-18\n"),
            ("data/images_variant_train.txt", "0034309 F/A-18\n"),
            ("data/images_variant_val.txt", "1025794 BAE 146-200\n"),
            ("data/images_variant_test.txt", "2 F/A-18\n"),
        ],
        &[
            ("data/images/0034309.jpg", Train, Some("F/A-18")),
            ("data/images/1025794.jpg", Val, Some("BAE 146-200")),
            ("data/images/2.jpg", Test, Some("F/A-18")),
        ],
    ),
    (
        "nabirds",
        &[
            ("images/0817/a.jpg", ""),
            ("images/0900/b.jpg", ""),
            ("images.txt", "a-1 0817/a.jpg\nb-2 0900/b.jpg\n"),
            ("image_class_labels.txt", "b-2 900\na-1 817\n"),
            ("train_test_split.txt", "a-1 1\nb-2 0\n"),
            ("hierarchy.txt", "817 1\n"),
        ],
        &[("images/0817/a.jpg", Train, Some("817")), ("images/0900/b.jpg", Test, Some("900"))],
    ),
    (
        "cub-200-2011",
        &[
            ("images/001.Ani/a b_1.jpg", ""),
            ("images/002.Tern/b_2.jpg", ""),
            ("images.txt", "1 001.Ani/a b_1.jpg\n2 002.Tern/b_2.jpg\n"),
            ("image_class_labels.txt", "1 1\n2 2\n"),
            ("train_test_split.txt", "1 1\n2 0\n"),
        ],
        &[
            ("images/001.Ani/a b_1.jpg", Train, Some("001.Ani")),
            ("images/002.Tern/b_2.jpg", Test, Some("002.Tern")),
        ],
    ),
    (
        "tiny-imagenet",
        &[
            ("train/n01443537/images/n01443537_0.JPEG", ""),
            ("train/n01629819/images/n01629819_0.JPEG", ""),
            ("val/images/val_0.JPEG", ""),
            ("test/images/test_0.JPEG", ""),
            ("val/val_annotations.txt", "val_0.JPEG\tn01629819\t0\t32\t44\t62\n"),
            ("wnids.txt", "n01443537\n"),
            ("words.txt", "n01443537\tgoldfish\n"),
        ],
        &[
            ("train/n01443537/images/n01443537_0.JPEG", Train, Some("n01443537")),
            ("train/n01629819/images/n01629819_0.JPEG", Train, Some("n01629819")),
            ("val/images/val_0.JPEG", Val, Some("n01629819")),
        ],
    ),
    (
        "voc-2007",
        &[
            ("JPEGImages/1.jpg", ""),
            ("JPEGImages/2.jpg", ""),
            ("JPEGImages/3.jpg", ""),
            ("Annotations/1.xml", VOC),
            ("Annotations/2.xml", VOC),
            ("Annotations/3.xml", VOC),
            ("ImageSets/Main/train.txt", "1\n"),
            ("ImageSets/Main/val.txt", "3\n"),
            ("ImageSets/Main/test.txt", "2\n"),
        ],
        &[
            ("JPEGImages/1.jpg", Train, None),
            ("JPEGImages/2.jpg", Test, None),
            ("JPEGImages/3.jpg", Val, None),
        ],
    ),
    (
        "voc",
        &[
            ("JPEGImages/1.jpg", ""),
            ("JPEGImages/2.jpg", ""),
            ("JPEGImages/3.jpg", ""),
            ("Annotations/1.xml", VOC),
            ("Annotations/2.xml", VOC),
            ("Annotations/3.xml", VOC),
            ("ImageSets/Main/train.txt", "1\n"),
            ("ImageSets/Main/val.txt", "3\n"),
        ],
        &[("JPEGImages/1.jpg", Train, None), ("JPEGImages/3.jpg", Val, None)],
    ),
    (
        "sun397",
        &[
            ("a/abbey/sun_abc.jpg", ""),
            ("a/apartment_building/outdoor/sun_abd.jpg", ""),
            ("ClassName.txt", "/a/abbey\n"),
        ],
        &[
            ("a/abbey/sun_abc.jpg", Train, Some("abbey")),
            ("a/apartment_building/outdoor/sun_abd.jpg", Train, Some("apartment_building/outdoor")),
        ],
    ),
    (
        "omniglot",
        &[
            ("images_background/Greek/character01/0394_01.png", ""),
            ("images_evaluation/Angelic/character02/0966_01.png", ""),
        ],
        &[
            ("images_background/Greek/character01/0394_01.png", Train, Some("Greek/character01")),
            (
                "images_evaluation/Angelic/character02/0966_01.png",
                Test,
                Some("Angelic/character02"),
            ),
        ],
    ),
    (
        "caltech-101",
        &[
            ("101_ObjectCategories/ant/image_0001.jpg", ""),
            ("101_ObjectCategories/bass/image_0001.jpg", ""),
        ],
        &[
            ("101_ObjectCategories/ant/image_0001.jpg", Train, Some("ant")),
            ("101_ObjectCategories/bass/image_0001.jpg", Train, Some("bass")),
        ],
    ),
    (
        "caltech-256",
        &[
            ("256_ObjectCategories/001.ak47/001_0001.jpg", ""),
            ("256_ObjectCategories/greg/vision.jpg", ""),
        ],
        &[
            ("256_ObjectCategories/001.ak47/001_0001.jpg", Train, Some("001.ak47")),
            ("256_ObjectCategories/greg/vision.jpg", Train, Some("greg")),
        ],
    ),
    (
        "stanford-dogs",
        &[
            ("Images/n02085620-Chihuahua/n02085620_7.jpg", ""),
            ("Images/n02102040-English_springer/n02102040_1.jpg", ""),
        ],
        &[
            ("Images/n02085620-Chihuahua/n02085620_7.jpg", Train, Some("Chihuahua")),
            ("Images/n02102040-English_springer/n02102040_1.jpg", Train, Some("English_springer")),
        ],
    ),
    (
        "eurosat-rgb",
        &[("2750/AnnualCrop/AnnualCrop_1.jpg", ""), ("2750/SeaLake/SeaLake_1.jpg", "")],
        &[
            ("2750/AnnualCrop/AnnualCrop_1.jpg", Train, Some("AnnualCrop")),
            ("2750/SeaLake/SeaLake_1.jpg", Train, Some("SeaLake")),
        ],
    ),
    (
        "intel-scenes",
        &[
            ("seg_train/seg_train/sea/1.jpg", ""),
            ("seg_test/seg_test/sea/2.jpg", ""),
            ("seg_pred/seg_pred/3.jpg", ""),
        ],
        &[
            ("seg_test/seg_test/sea/2.jpg", Test, Some("sea")),
            ("seg_train/seg_train/sea/1.jpg", Train, Some("sea")),
        ],
    ),
    (
        "plant-village",
        &[("color/Apple/1.JPG", ""), ("grayscale/Apple/1.JPG", ""), ("segmented/Apple/1.jpg", "")],
        &[("color/Apple/1.JPG", Train, Some("Apple"))],
    ),
    (
        "mvtec-ad",
        &[
            ("bottle/train/good/000.png", ""),
            ("bottle/test/broken/000.png", ""),
            ("bottle/ground_truth/broken/000_mask.png", ""),
        ],
        &[
            ("bottle/test/broken/000.png", Test, Some("broken")),
            ("bottle/train/good/000.png", Train, Some("good")),
        ],
    ),
    (
        "dog-breed",
        &[
            ("train/0a.jpg", ""),
            ("train/0b.jpg", ""),
            ("test/0c.jpg", ""),
            ("labels.csv", "id,breed\n0a,pug\n0b,boxer\n"),
            ("sample_submission.csv", "id\n"),
        ],
        &[("train/0a.jpg", Train, Some("pug")), ("train/0b.jpg", Train, Some("boxer"))],
    ),
    (
        "cassava",
        &[
            ("train_images/1.jpg", ""),
            ("test_images/2.jpg", ""),
            ("train.csv", "image_id,label\n1.jpg,3\n"),
            ("label_num_to_disease_map.json", "{}"),
        ],
        &[("train_images/1.jpg", Train, Some("3"))],
    ),
    (
        "aptos-2019",
        &[
            ("train_images/ab.png", ""),
            ("test_images/cd.png", ""),
            ("train.csv", "id_code,diagnosis\nab,2\n"),
        ],
        &[("train_images/ab.png", Train, Some("2"))],
    ),
    (
        "ham10000",
        &[
            ("HAM10000_images_part_1/ISIC_1.jpg", ""),
            ("HAM10000_images_part_2/ISIC_2.jpg", ""),
            (
                "HAM10000_metadata.csv",
                "lesion_id,image_id,dx,age\nH1,ISIC_1,bkl,80.0\nH2,ISIC_2,nv,\n",
            ),
        ],
        &[
            ("HAM10000_images_part_1/ISIC_1.jpg", Train, Some("bkl")),
            ("HAM10000_images_part_2/ISIC_2.jpg", Train, Some("nv")),
        ],
    ),
    (
        "img2dataset",
        &[
            ("00000/000000001.jpg", ""),
            ("00000/000000001.txt", "a thing"),
            ("00000/000000001.json", "{}"),
            ("00000_stats.json", "{}"),
        ],
        &[("00000/000000001.jpg", Train, None)],
    ),
];

/// Key, split and class of a sample.
type Found = (String, Split, Option<String>);

/// Packs these files; the title that was recognised, and the samples.
fn packed(files: &[File<'_>], prefix: &str, plan: PlanOptions) -> (Option<String>, Vec<Found>) {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (i, (path, text)) in (0..).zip(files) {
        let bytes = match path.rsplit('.').next().unwrap().to_lowercase().as_str() {
            "jpg" | "jpeg" => jpeg(i),
            "png" => png(i),
            _ => text.as_bytes().to_vec(),
        };
        put(dir.path(), &format!("{prefix}{path}"), &bytes);
    }
    let report = run(dir.path(), out.path(), plan, 1).unwrap();
    let (bundle, found) = samples(out.path());
    let classes = &bundle.manifest().classes;
    let label = bundle.manifest().fields.iter().position(gular_bundle::Field::is_label);
    let samples = found.into_iter().map(|(key, (split, values))| {
        let number = label.map(|at| i64::from_le_bytes(*values[at].first_chunk().unwrap()));
        let class = number.and_then(|n| classes.get(usize::try_from(n).ok()?).cloned());
        (key, split, class)
    });
    (report.dataset, samples.collect())
}

#[test]
fn every_known_dataset_is_recognised_and_read() {
    let mut cards = datasets().unwrap();
    // Rows of pixels have tests of their own.
    cards.retain(|card| card.pixels.is_none());
    let known: Vec<&str> = cards.iter().map(|card| card.name.as_str()).collect();
    assert_eq!(known, MADE.map(|(name, ..)| name), "each card has a dataset here, in this order");
    for ((name, files, expected), card) in MADE.iter().zip(&cards) {
        for prefix in ["", "unpacked/"] {
            let (dataset, found) = packed(files, prefix, PlanOptions::default());
            assert_eq!(dataset.as_ref(), Some(&card.title), "{name}");
            let expected: Vec<_> = expected
                .iter()
                .map(|(key, split, class)| {
                    (format!("{prefix}{key}"), *split, class.map(str::to_owned))
                })
                .collect();
            assert_eq!(found, expected, "{name}");
        }
    }
}

#[test]
fn a_dataset_of_the_user_is_looked_for_first() {
    let text = "[[card]]\nname = \"x\"\ntitle = \"Ours\"\nsource = \"-\"\nhas = [\"train/\"]\nimages = [\"train/{*}.{label}.jpg\"]";
    let plan = PlanOptions { cards: parse_datasets(text).unwrap(), ..PlanOptions::default() };
    let files = [("train/cat.0.jpg", ""), ("train/dog.0.jpg", "")];
    let (dataset, found) = packed(&files, "", plan);
    assert_eq!(dataset.as_deref(), Some("Ours"));
    assert_eq!(found[0].2.as_deref(), Some("0"));
}
