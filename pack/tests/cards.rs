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

/// A picture of two pixels.
const PPM: &str = "P6\n2 1\n255\nabcdef";
/// Annotations of one image each.
const COCO: &str = r#"{"images":[{"id":9,"file_name":"000000000009.jpg","width":20,"height":16}],
    "annotations":[{"image_id":9,"category_id":1,"bbox":[1,2,3,4]}],
    "categories":[{"id":1,"name":"person"}]}"#;
const COCO_VAL: &str = r#"{"images":[{"id":139,"file_name":"000000000139.jpg","width":21,"height":17}],
    "annotations":[],"categories":[{"id":1,"name":"person"}]}"#;
const INAT: &str = r#"{"images":[{"id":1,"file_name":"Plants/400/a.jpg"}],
    "annotations":[{"image_id":1,"category_id":400}],
    "categories":[{"id":202,"name":"202"},{"id":400,"name":"400"}]}"#;
const INAT_VAL: &str = r#"{"images":[{"id":2,"file_name":"Birds/202/b.jpg"}],
    "annotations":[{"image_id":2,"category_id":202}],
    "categories":[{"id":202,"name":"202"},{"id":400,"name":"400"}]}"#;

/// CelebA's attributes of two images.
const ATTRIBUTES: &str = "2\n\
    5_o_Clock_Shadow Arched_Eyebrows Attractive Bags_Under_Eyes Bald Bangs Big_Lips \
    Big_Nose Black_Hair Blond_Hair Blurry Brown_Hair Bushy_Eyebrows Chubby \
    Double_Chin Eyeglasses Goatee Gray_Hair Heavy_Makeup High_Cheekbones Male \
    Mouth_Slightly_Open Mustache Narrow_Eyes No_Beard Oval_Face Pale_Skin \
    Pointy_Nose Receding_Hairline Rosy_Cheeks Sideburns Smiling Straight_Hair \
    Wavy_Hair Wearing_Earrings Wearing_Hat Wearing_Lipstick Wearing_Necklace \
    Wearing_Necktie Young \n\
    000001.jpg 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1\n\
    000002.jpg 1 -1 -1 1 -1 -1 1 -1 -1 1 -1 -1 1 -1 -1 1 -1 -1 1 -1 -1 1 -1 -1 1 -1 -1 1 -1 -1 1 -1 -1 1 -1 -1 1 -1 -1 1\n";
/// A car, as KITTI has it.
const KITTI: &str = "Car 0.00 0 -1.58 1.00 2.00 5.00 7.00 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59\n";

/// Things of one image each, as Scalabel has them.
const SCALABEL: &str = r#"[{"name":"a.jpg","labels":[{"category":"car","box2d":{"x1":1,"y1":2,"x2":9,"y2":8}},{"category":"lane","poly2d":[]}]}]"#;
const SCALABEL_VAL: &str =
    r#"[{"name":"b.jpg","labels":[{"category":"car","box2d":{"x1":1,"y1":2,"x2":9,"y2":8}}]}]"#;

/// For each dataset: files, and the samples that packing finds.
const MADE: [(&str, &[File<'_>], &[Sample<'_>]); 110] = [
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
            ("101_ObjectCategories/BACKGROUND_Google/image_0001.jpg", ""),
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
        "breakhis",
        &[
            ("histology_slides/breast/benign/SOB/adenosis/S_14-1/40X/a.png", ""),
            ("histology_slides/breast/malignant/SOB/ductal/S_14-2/100X/b.png", ""),
        ],
        &[
            ("histology_slides/breast/benign/SOB/adenosis/S_14-1/40X/a.png", Train, Some("benign")),
            (
                "histology_slides/breast/malignant/SOB/ductal/S_14-2/100X/b.png",
                Train,
                Some("malignant"),
            ),
        ],
    ),
    (
        "idc",
        &[
            ("10253/0/a_class0.png", ""),
            ("10253/1/a_class1.png", ""),
            ("10254/0/b_class0.png", ""),
            ("IDC_regular_ps50_idx5/10253/0/a_class0.png", ""),
        ],
        &[
            ("10253/0/a_class0.png", Train, Some("0")),
            ("10253/1/a_class1.png", Train, Some("1")),
            ("10254/0/b_class0.png", Train, Some("0")),
        ],
    ),
    (
        "div2k",
        &[
            ("DIV2K_train_HR/0001.png", ""),
            ("DIV2K_train_LR_bicubic/X2/0001x2.png", ""),
            ("DIV2K_valid_HR/0801.png", ""),
            ("DIV2K_valid_LR_bicubic/X2/0801x2.png", ""),
        ],
        &[
            ("DIV2K_train_LR_bicubic/X2/0001x2.png", Train, None),
            ("DIV2K_valid_LR_bicubic/X2/0801x2.png", Val, None),
        ],
    ),
    (
        "lol",
        &[
            ("our485/low/2.png", ""),
            ("our485/high/2.png", ""),
            ("eval15/low/1.png", ""),
            ("eval15/high/1.png", ""),
        ],
        &[("eval15/low/1.png", Test, None), ("our485/low/2.png", Train, None)],
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
    (
        "imagenet-kaggle",
        &[
            ("ILSVRC/Data/CLS-LOC/train/n01440764/n01440764_1.JPEG", ""),
            ("ILSVRC/Data/CLS-LOC/train/n01443537/n01443537_1.JPEG", ""),
            ("ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG", ""),
            ("ILSVRC/Data/CLS-LOC/test/ILSVRC2012_test_00000001.JPEG", ""),
            (
                "LOC_val_solution.csv",
                "ImageId,PredictionString\nILSVRC2012_val_00000001,n01443537 1 2 3 4 \n",
            ),
        ],
        &[
            ("ILSVRC/Data/CLS-LOC/train/n01440764/n01440764_1.JPEG", Train, Some("n01440764")),
            ("ILSVRC/Data/CLS-LOC/train/n01443537/n01443537_1.JPEG", Train, Some("n01443537")),
            ("ILSVRC/Data/CLS-LOC/val/ILSVRC2012_val_00000001.JPEG", Val, Some("n01443537")),
        ],
    ),
    (
        "coco-2017",
        &[
            ("train2017/000000000009.jpg", ""),
            ("val2017/000000000139.jpg", ""),
            ("annotations/instances_train2017.json", COCO),
            ("annotations/instances_val2017.json", COCO_VAL),
        ],
        &[("train2017/000000000009.jpg", Train, None), ("val2017/000000000139.jpg", Val, None)],
    ),
    (
        "inaturalist-2019",
        &[
            ("train_val2019/Plants/400/a.jpg", ""),
            ("train_val2019/Birds/202/b.jpg", ""),
            ("train2019.json", INAT),
            ("val2019.json", INAT_VAL),
        ],
        &[
            ("train_val2019/Birds/202/b.jpg", Val, Some("202")),
            ("train_val2019/Plants/400/a.jpg", Train, Some("400")),
        ],
    ),
    (
        "inaturalist-2018",
        &[
            ("train_val2018/Plants/400/a.jpg", ""),
            ("train_val2018/Birds/202/b.jpg", ""),
            ("train2018.json", INAT),
            ("val2018.json", INAT_VAL),
        ],
        &[
            ("train_val2018/Birds/202/b.jpg", Val, Some("202")),
            ("train_val2018/Plants/400/a.jpg", Train, Some("400")),
        ],
    ),
    (
        "celeba",
        &[
            ("img_align_celeba/000001.jpg", ""),
            ("img_align_celeba/000002.jpg", ""),
            ("list_eval_partition.txt", "000001.jpg 0\n000002.jpg 2\n"),
            ("identity_CelebA.txt", "000001.jpg 2880\n000002.jpg 2937\n"),
            ("list_attr_celeba.txt", ATTRIBUTES),
        ],
        &[
            ("img_align_celeba/000001.jpg", Train, None),
            ("img_align_celeba/000002.jpg", Test, None),
        ],
    ),
    (
        "celeba-identities",
        &[
            ("img_align_celeba/000001.jpg", ""),
            ("img_align_celeba/000002.jpg", ""),
            ("list_eval_partition.txt", "000001.jpg 0\n000002.jpg 2\n"),
            ("identity_CelebA.txt", "000001.jpg 2880\n000002.jpg 2937\n"),
        ],
        &[
            ("img_align_celeba/000001.jpg", Train, None),
            ("img_align_celeba/000002.jpg", Test, None),
        ],
    ),
    (
        "gtsrb-kaggle",
        &[
            ("Train/20/00020_00000_00000.png", ""),
            ("Test/00000.png", ""),
            ("Meta/0.png", ""),
            ("Meta.csv", "Path,ClassId\nMeta/0.png,0\n"),
            ("Train.csv", "Width,ClassId,Path\n27,20,Train/20/00020_00000_00000.png\n"),
            ("Test.csv", "Width,ClassId,Path\n53,16,Test/00000.png\n"),
        ],
        &[
            ("Test/00000.png", Test, Some("16")),
            ("Train/20/00020_00000_00000.png", Train, Some("20")),
        ],
    ),
    (
        "market-1501",
        &[
            ("bounding_box_train/0002_c1s1_000451_03.jpg", ""),
            ("bounding_box_test/-1_c1s1_000401_03.jpg", ""),
            ("query/0001_c2s1_001051_00.jpg", ""),
        ],
        &[
            ("bounding_box_test/-1_c1s1_000401_03.jpg", Test, Some("-1")),
            ("bounding_box_train/0002_c1s1_000451_03.jpg", Train, Some("0002")),
            ("query/0001_c2s1_001051_00.jpg", Test, Some("0001")),
        ],
    ),
    (
        "cityscapes",
        &[
            ("leftImg8bit/train/aachen/aachen_0_1_leftImg8bit.png", ""),
            ("leftImg8bit/val/ulm/ulm_0_1_leftImg8bit.png", ""),
            ("gtFine/train/aachen/aachen_0_1_gtFine_labelIds.png", "grey 12 9"),
            ("gtFine/train/aachen/aachen_0_1_gtFine_color.png", ""),
            ("gtFine/val/ulm/ulm_0_1_gtFine_labelIds.png", "grey 12 9"),
        ],
        &[
            ("leftImg8bit/train/aachen/aachen_0_1_leftImg8bit.png", Train, None),
            ("leftImg8bit/val/ulm/ulm_0_1_leftImg8bit.png", Val, None),
        ],
    ),
    (
        "ade20k-scenes",
        &[
            ("images/training/ADE_1.jpg", ""),
            ("images/validation/ADE_2.jpg", ""),
            ("annotations/training/ADE_1.png", "grey 20 16"),
            ("annotations/validation/ADE_2.png", "grey 21 17"),
            ("objectInfo150.txt", "Idx\n"),
        ],
        &[("images/training/ADE_1.jpg", Train, None), ("images/validation/ADE_2.jpg", Val, None)],
    ),
    (
        "bdd100k-boxes",
        &[
            ("images/100k/train/a.jpg", ""),
            ("images/100k/val/b.jpg", ""),
            ("images/100k/test/c.jpg", ""),
            ("labels/det_20/det_train.json", SCALABEL),
            ("labels/det_20/det_val.json", SCALABEL_VAL),
        ],
        &[("images/100k/train/a.jpg", Train, None), ("images/100k/val/b.jpg", Val, None)],
    ),
    (
        "bdd100k",
        &[
            ("images/100k/train/a.jpg", ""),
            ("images/100k/val/b.jpg", ""),
            ("images/10k/train/a.jpg", ""),
        ],
        &[("images/100k/train/a.jpg", Train, None), ("images/100k/val/b.jpg", Val, None)],
    ),
    (
        "isic-2019",
        &[
            ("ISIC_2019_Training_Input/ISIC_1.jpg", ""),
            ("ISIC_2019_Training_Input/ISIC_2.jpg", ""),
            ("ISIC_2019_Training_Input/ATTRIBUTION.txt", ""),
            (
                "ISIC_2019_Training_GroundTruth.csv",
                "image,MEL,NV\nISIC_1,0.0,1.0\nISIC_2,1.0,0.0\n",
            ),
        ],
        &[
            ("ISIC_2019_Training_Input/ISIC_1.jpg", Train, Some("NV")),
            ("ISIC_2019_Training_Input/ISIC_2.jpg", Train, Some("MEL")),
        ],
    ),
    (
        "plant-pathology-2020",
        &[
            ("images/Train_0.jpg", ""),
            ("images/Train_1.jpg", ""),
            ("images/Test_0.jpg", ""),
            ("train.csv", "image_id,healthy,rust\nTrain_0,0,1\nTrain_1,1,0\n"),
            ("test.csv", "image_id\nTest_0\n"),
        ],
        &[
            ("images/Train_0.jpg", Train, Some("rust")),
            ("images/Train_1.jpg", Train, Some("healthy")),
        ],
    ),
    (
        "nih-chest-x-ray",
        &[
            ("images_001/images/00000001_000.png", ""),
            ("images_012/images/00000002_000.png", ""),
            (
                "Data_Entry_2017.csv",
                "Image Index,Finding Labels,Patient ID,\n00000001_000.png,Hernia,1,\n\
                 00000002_000.png,No Finding,2,\n",
            ),
            ("BBox_List_2017.csv", "Image Index,Finding Label,Bbox [x,y,w,h],,,\n"),
            ("train_val_list.txt", "00000001_000.png\n"),
            ("test_list.txt", "00000002_000.png\n"),
        ],
        &[
            ("images_001/images/00000001_000.png", Train, Some("Hernia")),
            ("images_012/images/00000002_000.png", Test, Some("No Finding")),
        ],
    ),
    (
        "drive",
        &[
            ("training/images/21_training.tif", ""),
            ("training/1st_manual/21_manual1.gif", "grey 20 16"),
            ("training/mask/21_training_mask.gif", "grey 20 16"),
            ("test/images/01_test.tif", ""),
            ("test/1st_manual/01_manual1.gif", "grey 20 16"),
            ("test/mask/01_test_mask.gif", "grey 20 16"),
        ],
        &[
            ("test/images/01_test.tif", Test, None),
            ("training/images/21_training.tif", Train, None),
        ],
    ),
    (
        "drive-training",
        &[
            ("training/images/21_training.tif", ""),
            ("training/1st_manual/21_manual1.gif", "grey 20 16"),
            ("training/mask/21_training_mask.gif", "grey 20 16"),
            ("test/images/01_test.tif", ""),
            ("test/mask/01_test_mask.gif", "grey 20 16"),
        ],
        &[("training/images/21_training.tif", Train, None)],
    ),
    (
        "diabetic-retinopathy",
        &[
            ("train/10_left.jpeg", ""),
            ("train/10_right.jpeg", ""),
            ("train/13_left.jpeg", ""),
            ("trainLabels.csv", "image,level\n10_left,0\n10_right,1\n13_left,0\n"),
        ],
        &[
            ("train/10_left.jpeg", Train, Some("0")),
            ("train/10_right.jpeg", Train, Some("1")),
            ("train/13_left.jpeg", Train, Some("0")),
        ],
    ),
    (
        "fashion-products",
        &[
            ("images/15970.jpg", ""),
            ("images/39386.jpg", ""),
            ("styles.csv", "id,gender,articleType\n15970,Men,Shirts\n39386,Men,Jeans\n"),
            ("images.csv", "filename,link\n15970.jpg,http://x\n"),
        ],
        &[("images/15970.jpg", Train, Some("Shirts")), ("images/39386.jpg", Train, Some("Jeans"))],
    ),
    (
        "gtsrb",
        &[
            ("Final_Training/Images/00000/00000_00000.ppm", PPM),
            ("Final_Training/Images/00001/00000_00000.ppm", PPM),
            ("Final_Training/Images/00001/GT-00001.csv", "Filename;ClassId\n"),
        ],
        &[
            ("Final_Training/Images/00000/00000_00000.ppm", Train, Some("00000")),
            ("Final_Training/Images/00001/00000_00000.ppm", Train, Some("00001")),
        ],
    ),
    (
        "utkface",
        &[
            ("UTKFace/25_1_2_20170116174525125.jpg.chip.jpg", ""),
            ("UTKFace/61_1_20170109150557335.jpg.chip.jpg", ""),
        ],
        &[("UTKFace/25_1_2_20170116174525125.jpg.chip.jpg", Train, None)],
    ),
    (
        "mrl-eyes",
        &[("s0001/s0001_00001_0_0_0_0_0_01.png", ""), ("s0037/s0037_00002_1_0_1_0_0_01.png", "")],
        &[
            ("s0001/s0001_00001_0_0_0_0_0_01.png", Train, Some("0")),
            ("s0037/s0037_00002_1_0_1_0_0_01.png", Train, Some("1")),
        ],
    ),
    (
        "state-farm",
        &[
            (
                "driver_imgs_list.csv",
                "subject,classname,img\np002,c0,img_44.jpg\np012,c1,img_7.jpg\n",
            ),
            ("imgs/train/c0/img_44.jpg", ""),
            ("imgs/train/c1/img_7.jpg", ""),
            ("imgs/test/img_1.jpg", ""),
        ],
        &[
            ("imgs/train/c0/img_44.jpg", Train, Some("c0")),
            ("imgs/train/c1/img_7.jpg", Train, Some("c1")),
        ],
    ),
    (
        "coil",
        &[("obj1__0.png", ""), ("obj1__5.png", ""), ("obj2__0.png", "")],
        &[
            ("obj1__0.png", Train, Some("obj1")),
            ("obj1__5.png", Train, Some("obj1")),
            ("obj2__0.png", Train, Some("obj2")),
        ],
    ),
    (
        "nyu-depth",
        &[
            ("data/nyu2_train.csv", "data/nyu2_train/den_1/1.jpg,data/nyu2_train/den_1/1.png\n"),
            ("data/nyu2_train/den_1/1.jpg", ""),
            ("data/nyu2_train/den_1/1.png", "grey 21 17"),
            ("data/nyu2_test/00000_colors.png", ""),
            ("data/nyu2_test/00000_depth.png", "grey 12 9"),
        ],
        &[("data/nyu2_train/den_1/1.jpg", Train, None)],
    ),
    (
        "pcb-defects",
        &[
            ("images/Missing_hole/01_missing_hole_01.jpg", ""),
            ("Annotations/Missing_hole/01_missing_hole_01.xml", VOC),
            ("PCB_USED/01.JPG", ""),
            ("rotation/Missing_hole_rotation/01_missing_hole_01.jpg", ""),
        ],
        &[("images/Missing_hole/01_missing_hole_01.jpg", Train, None)],
    ),
    (
        "visa",
        &[
            (
                "split_csv/1cls.csv",
                "object,split,label,image,mask\ncandle,train,normal,candle/Data/Images/Normal/0000.JPG,\ncandle,test,anomaly,candle/Data/Images/Anomaly/000.JPG,candle/Data/Masks/Anomaly/000.png\n",
            ),
            ("candle/Data/Images/Normal/0000.JPG", ""),
            ("candle/Data/Images/Anomaly/000.JPG", ""),
            ("candle/Data/Masks/Anomaly/000.png", "grey 22 18"),
        ],
        &[
            ("candle/Data/Images/Anomaly/000.JPG", Test, Some("anomaly")),
            ("candle/Data/Images/Normal/0000.JPG", Train, Some("normal")),
        ],
    ),
    (
        "idrid-grading",
        &[
            ("1. Original Images/a. Training Set/IDRiD_001.jpg", ""),
            ("1. Original Images/b. Testing Set/IDRiD_001.jpg", ""),
            (
                "2. Groundtruths/a. IDRiD_Disease Grading_Training Labels.csv",
                "Image name,Retinopathy grade,Risk of macular edema ,,\nIDRiD_001,3,2,,\n",
            ),
            (
                "2. Groundtruths/b. IDRiD_Disease Grading_Testing Labels.csv",
                "Image name,Retinopathy grade,Risk of macular edema \nIDRiD_001,4,0\n",
            ),
        ],
        &[
            ("1. Original Images/a. Training Set/IDRiD_001.jpg", Train, Some("3")),
            ("1. Original Images/b. Testing Set/IDRiD_001.jpg", Test, Some("4")),
        ],
    ),
    (
        "ph2",
        &[
            ("PH2 Dataset images/IMD002/IMD002_Dermoscopic_Image/IMD002.bmp", ""),
            ("PH2 Dataset images/IMD002/IMD002_lesion/IMD002_lesion.bmp", "grey 20 16"),
            ("PH2 Dataset images/IMD002/IMD002_roi/IMD002_R1_Label3.bmp", ""),
            ("PH2 Dataset images/IMD003/IMD003_Dermoscopic_Image/IMD003.bmp", ""),
            ("PH2 Dataset images/IMD003/IMD003_lesion/IMD003_lesion.bmp", "grey 23 19"),
        ],
        &[
            ("PH2 Dataset images/IMD002/IMD002_Dermoscopic_Image/IMD002.bmp", Train, None),
            ("PH2 Dataset images/IMD003/IMD003_Dermoscopic_Image/IMD003.bmp", Train, None),
        ],
    ),
    (
        "carvana",
        &[
            ("train/a_01.jpg", ""),
            ("train_masks/a_01_mask.gif", "grey 20 16"),
            ("train_masks.csv", "img,rle_mask\na_01.jpg,1 5\n"),
            ("test/b_01.jpg", ""),
        ],
        &[("train/a_01.jpg", Train, None)],
    ),
    (
        "busi",
        &[
            ("benign/benign (1).png", ""),
            ("benign/benign (1)_mask.png", "grey 12 9"),
            ("benign/benign (1)_mask_1.png", "grey 12 9"),
            ("malignant/malignant (1).png", ""),
            ("malignant/malignant (1)_mask.png", "grey 12 9"),
            ("normal/normal (1).png", ""),
            ("normal/normal (1)_mask.png", "grey 12 9"),
        ],
        &[
            ("benign/benign (1).png", Train, Some("benign")),
            ("malignant/malignant (1).png", Train, Some("malignant")),
            ("normal/normal (1).png", Train, Some("normal")),
        ],
    ),
    (
        "covid-radiography",
        &[
            ("COVID/images/COVID-1.png", ""),
            ("COVID/masks/COVID-1.png", "grey 9 9"),
            ("Lung_Opacity/images/Lung_Opacity-1.png", ""),
            ("Lung_Opacity/masks/Lung_Opacity-1.png", "grey 9 9"),
        ],
        &[
            ("COVID/images/COVID-1.png", Train, Some("COVID")),
            ("Lung_Opacity/images/Lung_Opacity-1.png", Train, Some("Lung_Opacity")),
        ],
    ),
    (
        "asl-alphabet",
        &[
            ("asl_alphabet_train/asl_alphabet_train/A/A1.jpg", ""),
            ("asl_alphabet_train/asl_alphabet_train/del/del1.jpg", ""),
            ("asl_alphabet_test/asl_alphabet_test/A_test.jpg", ""),
        ],
        &[
            ("asl_alphabet_test/asl_alphabet_test/A_test.jpg", Test, Some("A")),
            ("asl_alphabet_train/asl_alphabet_train/A/A1.jpg", Train, Some("A")),
            ("asl_alphabet_train/asl_alphabet_train/del/del1.jpg", Train, Some("del")),
        ],
    ),
    (
        "blood-cells",
        &[
            ("dataset-master/dataset-master/JPEGImages/BloodImage_00000.jpg", ""),
            ("dataset2-master/dataset2-master/images/TRAIN/EOSINOPHIL/_0_1.jpeg", ""),
            ("dataset2-master/dataset2-master/images/TEST/NEUTROPHIL/_1_2.jpeg", ""),
            ("dataset2-master/dataset2-master/images/TEST_SIMPLE/NEUTROPHIL/_2_3.jpeg", ""),
        ],
        &[
            (
                "dataset2-master/dataset2-master/images/TEST/NEUTROPHIL/_1_2.jpeg",
                Test,
                Some("NEUTROPHIL"),
            ),
            (
                "dataset2-master/dataset2-master/images/TRAIN/EOSINOPHIL/_0_1.jpeg",
                Train,
                Some("EOSINOPHIL"),
            ),
        ],
    ),
    (
        "lc25000",
        &[
            ("colon_image_sets/colon_aca/colonca1.jpeg", ""),
            ("lung_image_sets/lung_aca/lungaca1.jpeg", ""),
            ("lung_image_sets/lung_n/lungn1.jpeg", ""),
        ],
        &[
            ("colon_image_sets/colon_aca/colonca1.jpeg", Train, Some("colon_aca")),
            ("lung_image_sets/lung_aca/lungaca1.jpeg", Train, Some("lung_aca")),
            ("lung_image_sets/lung_n/lungn1.jpeg", Train, Some("lung_n")),
        ],
    ),
    (
        "trashnet",
        &[
            ("one-indexed-files-notrash_train.txt", "glass1.jpg 1\n"),
            ("one-indexed-files-notrash_val.txt", "paper1.jpg 2\n"),
            ("one-indexed-files-notrash_test.txt", "glass2.jpg 1\n"),
            ("Garbage classification/Garbage classification/glass/glass1.jpg", ""),
            ("Garbage classification/Garbage classification/glass/glass2.jpg", ""),
            ("Garbage classification/Garbage classification/paper/paper1.jpg", ""),
        ],
        &[
            (
                "Garbage classification/Garbage classification/glass/glass1.jpg",
                Train,
                Some("glass"),
            ),
            ("Garbage classification/Garbage classification/glass/glass2.jpg", Test, Some("glass")),
            ("Garbage classification/Garbage classification/paper/paper1.jpg", Val, Some("paper")),
        ],
    ),
    (
        "stanford-online-products",
        &[
            (
                "Ebay_train.txt",
                "image_id class_id super_class_id path\n1 1 1 bicycle_final/111_0.JPG\n",
            ),
            (
                "Ebay_test.txt",
                "image_id class_id super_class_id path\n2 2 1 chair_final/222_0.JPG\n",
            ),
            ("bicycle_final/111_0.JPG", ""),
            ("chair_final/222_0.JPG", ""),
        ],
        &[
            ("bicycle_final/111_0.JPG", Train, Some("1")),
            ("chair_final/222_0.JPG", Test, Some("2")),
        ],
    ),
    (
        "celeba-kaggle",
        &[
            ("img_align_celeba/img_align_celeba/000001.jpg", ""),
            ("img_align_celeba/img_align_celeba/000002.jpg", ""),
            ("list_eval_partition.csv", "image_id,partition\n000001.jpg,0\n000002.jpg,2\n"),
            (
                "list_attr_celeba.csv",
                "image_id,5_o_Clock_Shadow,Arched_Eyebrows,Attractive,Bags_Under_Eyes,Bald,Bangs,Big_Lips,Big_Nose,Black_Hair,Blond_Hair,Blurry,Brown_Hair,Bushy_Eyebrows,Chubby,Double_Chin,Eyeglasses,Goatee,Gray_Hair,Heavy_Makeup,High_Cheekbones,Male,Mouth_Slightly_Open,Mustache,Narrow_Eyes,No_Beard,Oval_Face,Pale_Skin,Pointy_Nose,Receding_Hairline,Rosy_Cheeks,Sideburns,Smiling,Straight_Hair,Wavy_Hair,Wearing_Earrings,Wearing_Hat,Wearing_Lipstick,Wearing_Necklace,Wearing_Necktie,Young\n000001.jpg,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1\n000002.jpg,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1,1,-1\n",
            ),
        ],
        &[
            ("img_align_celeba/img_align_celeba/000001.jpg", Train, None),
            ("img_align_celeba/img_align_celeba/000002.jpg", Test, None),
        ],
    ),
    (
        "kolektor",
        &[
            ("kos01/Part0.jpg", ""),
            ("kos01/Part0_label.bmp", "grey 20 16"),
            ("kos02/Part0.jpg", ""),
            ("kos02/Part0_label.bmp", "grey 22 18"),
        ],
        &[("kos01/Part0.jpg", Train, None), ("kos02/Part0.jpg", Train, None)],
    ),
    (
        "neu-det",
        &[
            ("train/images/crazing/crazing_1.jpg", ""),
            ("train/annotations/crazing_1.xml", VOC),
            ("validation/images/crazing/crazing_9.jpg", ""),
            ("validation/annotations/crazing_9.xml", VOC),
        ],
        &[
            ("train/images/crazing/crazing_1.jpg", Train, None),
            ("validation/images/crazing/crazing_9.jpg", Val, None),
        ],
    ),
    (
        "veri-776",
        &[
            ("image_train/0001_c001_00016450_0.jpg", ""),
            ("image_test/0002_c002_00030600_0.jpg", ""),
            ("image_query/0002_c003_00030600_0.jpg", ""),
        ],
        &[
            ("image_query/0002_c003_00030600_0.jpg", Test, Some("0002")),
            ("image_test/0002_c002_00030600_0.jpg", Test, Some("0002")),
            ("image_train/0001_c001_00016450_0.jpg", Train, Some("0001")),
        ],
    ),
    (
        "fruits-360",
        &[
            ("Training/Apple Braeburn/0_100.jpg", ""),
            ("Test/Apple Braeburn/3_100.jpg", ""),
            ("Training/Kiwi/0_100.jpg", ""),
            ("test-multiple_fruits/apples1.jpg", ""),
        ],
        &[
            ("Test/Apple Braeburn/3_100.jpg", Test, Some("Apple Braeburn")),
            ("Training/Apple Braeburn/0_100.jpg", Train, Some("Apple Braeburn")),
            ("Training/Kiwi/0_100.jpg", Train, Some("Kiwi")),
        ],
    ),
    (
        "new-plant-diseases",
        &[
            (
                "New Plant Diseases Dataset(Augmented)/New Plant Diseases Dataset(Augmented)/train/Apple___scab/1.JPG",
                "",
            ),
            (
                "New Plant Diseases Dataset(Augmented)/New Plant Diseases Dataset(Augmented)/valid/Apple___scab/2.JPG",
                "",
            ),
            ("test/test/AppleScab1.JPG", ""),
        ],
        &[
            (
                "New Plant Diseases Dataset(Augmented)/New Plant Diseases Dataset(Augmented)/train/Apple___scab/1.JPG",
                Train,
                Some("Apple___scab"),
            ),
            (
                "New Plant Diseases Dataset(Augmented)/New Plant Diseases Dataset(Augmented)/valid/Apple___scab/2.JPG",
                Val,
                Some("Apple___scab"),
            ),
        ],
    ),
    (
        "kvasir-seg",
        &[
            ("images/cju0.jpg", ""),
            ("masks/cju0.jpg", ""),
            ("masks_png/cju0.png", "grey 20 16"),
            ("kavsir_bboxes.json", "{}"),
        ],
        &[("images/cju0.jpg", Train, None)],
    ),
    (
        "fashion-products-small",
        &[
            ("images/15970.jpg", ""),
            ("images/39386.jpg", ""),
            (
                "styles.csv",
                "id,gender,masterCategory,subCategory,articleType,productDisplayName\n15970,Men,Apparel,Topwear,Shirts,A shirt, blue\n39386,Men,Apparel,Bottomwear,Jeans,Jeans\n",
            ),
            ("myntradataset/images/15970.jpg", ""),
        ],
        &[("images/15970.jpg", Train, Some("Shirts")), ("images/39386.jpg", Train, Some("Jeans"))],
    ),
    (
        "raf-db",
        &[
            ("Image/aligned/train_00001_aligned.jpg", ""),
            ("Image/aligned/test_0001_aligned.jpg", ""),
            ("EmoLabel/list_patition_label.txt", "train_00001.jpg 5\ntest_0001.jpg 1\n"),
            ("Annotation/boundingbox/train_00001_boundingbox.txt", "1 2 3 4\n"),
        ],
        &[
            ("Image/aligned/test_0001_aligned.jpg", Test, Some("1")),
            ("Image/aligned/train_00001_aligned.jpg", Train, Some("5")),
        ],
    ),
    (
        "flickr8k-original",
        &[
            ("Flickr8k_Dataset/Flicker8k_Dataset/1_a.jpg", ""),
            ("Flickr8k_Dataset/Flicker8k_Dataset/2_b.jpg", ""),
            (
                "Flickr8k_text/Flickr8k.token.txt",
                "1_a.jpg#0\tA dog .\n1_a.jpg#1\tThe dog .\n2_b.jpg#0\tA cat .\n",
            ),
            ("Flickr8k_text/Flickr_8k.trainImages.txt", "1_a.jpg\n"),
            ("Flickr8k_text/Flickr_8k.devImages.txt", "2_b.jpg\n"),
            ("Flickr8k_text/Flickr_8k.testImages.txt", ""),
        ],
        &[
            ("Flickr8k_Dataset/Flicker8k_Dataset/1_a.jpg", Train, None),
            ("Flickr8k_Dataset/Flicker8k_Dataset/2_b.jpg", Val, None),
        ],
    ),
    (
        "visdrone",
        &[
            ("VisDrone2019-DET-train/images/1.jpg", ""),
            ("VisDrone2019-DET-train/annotations/1.txt", "1,2,3,4,1,4,0,1\n"),
            ("VisDrone2019-DET-val/images/2.jpg", ""),
            ("VisDrone2019-DET-val/annotations/2.txt", "1,2,3,4,0,0,0,0,\n"),
        ],
        &[
            ("VisDrone2019-DET-train/images/1.jpg", Train, None),
            ("VisDrone2019-DET-val/images/2.jpg", Val, None),
        ],
    ),
    (
        "glas",
        &[
            ("train_1.bmp", ""),
            ("train_1_anno.bmp", "grey 20 16"),
            ("testA_1.bmp", ""),
            ("testA_1_anno.bmp", "grey 22 18"),
            ("testB_1.bmp", ""),
            ("testB_1_anno.bmp", "grey 24 20"),
        ],
        &[("testA_1.bmp", Test, None), ("testB_1.bmp", Test, None), ("train_1.bmp", Train, None)],
    ),
    (
        "dior",
        &[
            ("JPEGImages-trainval/00001.jpg", ""),
            ("JPEGImages-trainval/00002.jpg", ""),
            ("JPEGImages-test/00003.jpg", ""),
            ("Annotations/Horizontal Bounding Boxes/00001.xml", VOC),
            ("Annotations/Horizontal Bounding Boxes/00002.xml", VOC),
            ("Annotations/Horizontal Bounding Boxes/00003.xml", VOC),
            ("Annotations/Oriented Bounding Boxes/00001.xml", "<annotation></annotation>"),
            ("ImageSets/Main/train.txt", "00001\n"),
            ("ImageSets/Main/val.txt", "00002\n"),
            ("ImageSets/Main/test.txt", "00003\n"),
        ],
        &[
            ("JPEGImages-test/00003.jpg", Test, None),
            ("JPEGImages-trainval/00001.jpg", Train, None),
            ("JPEGImages-trainval/00002.jpg", Val, None),
        ],
    ),
    (
        "nwpu-vhr-10",
        &[
            ("positive image set/001.jpg", ""),
            ("negative image set/001.jpg", ""),
            ("ground truth/001.txt", "(1,2),(5,8),1\n"),
        ],
        &[("positive image set/001.jpg", Train, None)],
    ),
    (
        "sku-110k",
        &[
            ("images/train_0.jpg", ""),
            ("images/val_0.jpg", ""),
            ("images/test_0.jpg", ""),
            ("annotations/annotations_train.csv", "train_0.jpg,1,2,5,8,object,20,16\n"),
            ("annotations/annotations_val.csv", "val_0.jpg,1,2,5,8,object,21,17\n"),
            ("annotations/annotations_test.csv", "test_0.jpg,1,2,5,8,object,22,18\n"),
        ],
        &[
            ("images/test_0.jpg", Test, None),
            ("images/train_0.jpg", Train, None),
            ("images/val_0.jpg", Val, None),
        ],
    ),
    (
        "grocery-store",
        &[
            ("dataset/train/Fruit/Apple/Pink/Pink_1.jpg", ""),
            ("dataset/val/Fruit/Lemon/Lemon_1.jpg", ""),
            ("dataset/test/Fruit/Lemon/Lemon_2.jpg", ""),
            ("dataset/train.txt", "train/Fruit/Apple/Pink/Pink_1.jpg, 0, 0\n"),
            ("dataset/val.txt", "val/Fruit/Lemon/Lemon_1.jpg, 9, 1\n"),
            ("dataset/test.txt", "test/Fruit/Lemon/Lemon_2.jpg, 9, 1\n"),
            ("dataset/iconic-images-and-descriptions/Fruit/Lemon/Lemon_Iconic.jpg", ""),
        ],
        &[
            ("dataset/test/Fruit/Lemon/Lemon_2.jpg", Test, Some("9")),
            ("dataset/train/Fruit/Apple/Pink/Pink_1.jpg", Train, Some("0")),
            ("dataset/val/Fruit/Lemon/Lemon_1.jpg", Val, Some("9")),
        ],
    ),
    (
        "mit-indoor-67",
        &[
            ("Images/airport_inside/a.jpg", ""),
            ("Images/bar/b.jpg", ""),
            ("Images/bar/c.jpg", ""),
            ("TrainImages.txt", "airport_inside/a.jpg\n"),
            ("TestImages.txt", "bar/b.jpg"),
        ],
        &[
            ("Images/airport_inside/a.jpg", Train, Some("airport_inside")),
            ("Images/bar/b.jpg", Test, Some("bar")),
        ],
    ),
    (
        "deepfashion-in-shop",
        &[
            ("Img/img/MEN/Denim/id_00000080/01_1_front.jpg", ""),
            ("Img/img/WOMEN/Tees/id_00000001/02_1_front.jpg", ""),
            ("Img/img/WOMEN/Tees/id_00000001/02_2_side.jpg", ""),
            (
                "Eval/list_eval_partition.txt",
                "3\nimage_name item_id evaluation_status\n\
                img/MEN/Denim/id_00000080/01_1_front.jpg    id_00000080 train\n\
                img/WOMEN/Tees/id_00000001/02_1_front.jpg   id_00000001 query\n\
                img/WOMEN/Tees/id_00000001/02_2_side.jpg    id_00000001 gallery\n",
            ),
        ],
        &[
            ("Img/img/MEN/Denim/id_00000080/01_1_front.jpg", Train, Some("id_00000080")),
            ("Img/img/WOMEN/Tees/id_00000001/02_1_front.jpg", Val, Some("id_00000001")),
            ("Img/img/WOMEN/Tees/id_00000001/02_2_side.jpg", Test, Some("id_00000001")),
        ],
    ),
    (
        "mura",
        &[
            ("train/XR_WRIST/patient00001/study1_positive/image1.png", ""),
            ("valid/XR_ELBOW/patient11185/study1_negative/image1.png", ""),
            ("train_image_paths.csv", "MURA-v1.1/train/x.png\n"),
            ("train_labeled_studies.csv", "MURA-v1.1/train/x/,1\n"),
        ],
        &[
            ("train/XR_WRIST/patient00001/study1_positive/image1.png", Train, Some("positive")),
            ("valid/XR_ELBOW/patient11185/study1_negative/image1.png", Val, Some("negative")),
        ],
    ),
    (
        "c-nmc",
        &[
            ("training_data/fold_0/all/UID_1_1_1_all.bmp", ""),
            ("training_data/fold_0/hem/UID_H1_1_1_hem.bmp", ""),
            ("validation_data/C-NMC_test_prelim_phase_data/1.bmp", ""),
        ],
        &[
            ("training_data/fold_0/all/UID_1_1_1_all.bmp", Train, Some("all")),
            ("training_data/fold_0/hem/UID_H1_1_1_hem.bmp", Train, Some("hem")),
        ],
    ),
    (
        "cvc-clinicdb",
        &[
            ("PNG/Original/1.png", "grey 20 16"),
            ("PNG/Ground Truth/1.png", "grey 20 16"),
            ("TIF/Original/1.tif", ""),
            ("TIF/Ground Truth/1.tif", ""),
        ],
        &[("PNG/Original/1.png", Train, None)],
    ),
    (
        "dagm-2007",
        &[
            ("Class1/Train/0576.PNG", "grey 20 16"),
            ("Class1/Train/Label/0576_label.PNG", "grey 20 16"),
            ("Class1/Test/0001.PNG", "grey 20 16"),
            ("Class1/Test/Label/0002_label.PNG", "grey 20 16"),
            ("masks/Class1/Train/0576.PNG", "grey 20 16"),
            ("masks/Class1/Test/0001.PNG", "grey 20 16"),
        ],
        &[("Class1/Test/0001.PNG", Test, None), ("Class1/Train/0576.PNG", Train, None)],
    ),
    (
        "dsb-2018",
        &[
            ("stage1_train/0a/images/0a.png", "grey 20 16"),
            ("stage1_train/0a/masks/1.png", "grey 20 16"),
            ("stage1_train/0a/masks/2.png", "grey 20 16"),
            ("stage1_test/0b/images/0b.png", "grey 20 16"),
            ("masks/0a.png", "grey 20 16"),
        ],
        &[("stage1_train/0a/images/0a.png", Train, None)],
    ),
    (
        "odir-5k",
        &[
            ("preprocessed_images/0_left.jpg", ""),
            ("preprocessed_images/0_right.jpg", ""),
            ("ODIR-5K/ODIR-5K/Training Images/0_left.jpg", ""),
            (
                "full_df.csv",
                "ID,Left-Fundus,N,D,G,C,A,H,M,O,labels,filename\n\
                0,0_left.jpg,0,1,0,1,0,0,0,0,\"['C']\",0_left.jpg\n\
                0,0_left.jpg,0,1,0,1,0,0,0,0,\"['D']\",0_right.jpg\n",
            ),
        ],
        &[
            ("preprocessed_images/0_left.jpg", Train, None),
            ("preprocessed_images/0_right.jpg", Train, None),
        ],
    ),
    (
        "sidd",
        &[
            ("Data/0001_001_S6/0001_NOISY_SRGB_010.PNG", "grey 20 16"),
            ("Data/0001_001_S6/0001_GT_SRGB_010.PNG", "grey 20 16"),
            ("Scene_Instances.txt", "0001_001_S6\n"),
        ],
        &[("Data/0001_001_S6/0001_NOISY_SRGB_010.PNG", Train, None)],
    ),
    (
        "gopro",
        &[
            ("train/GOPR0372_07_00/blur/000047.png", "grey 20 16"),
            ("train/GOPR0372_07_00/blur_gamma/000047.png", "grey 20 16"),
            ("train/GOPR0372_07_00/sharp/000047.png", "grey 20 16"),
            ("test/GOPR0384_11_00/blur/000001.png", "grey 20 16"),
            ("test/GOPR0384_11_00/sharp/000001.png", "grey 20 16"),
        ],
        &[
            ("test/GOPR0384_11_00/blur/000001.png", Test, None),
            ("train/GOPR0372_07_00/blur/000047.png", Train, None),
        ],
    ),
    (
        "iam-words",
        &[
            ("words/a01/a01-000u/a01-000u-00-00.png", "grey 20 16"),
            ("words.txt", "#--- words.txt ---#\na01-000u-00-00 ok 154 408 768 27 51 AT A\n"),
        ],
        &[("words/a01/a01-000u/a01-000u-00-00.png", Train, None)],
    ),
    (
        "davis-2016",
        &[
            ("JPEGImages/480p/bear/00000.jpg", ""),
            ("Annotations/480p/bear/00000.png", "grey 20 16"),
            ("JPEGImages/480p/camel/00000.jpg", ""),
            ("Annotations/480p/camel/00000.png", "grey 22 18"),
            (
                "ImageSets/480p/train.txt",
                "/JPEGImages/480p/bear/00000.jpg /Annotations/480p/bear/00000.png \n",
            ),
            (
                "ImageSets/480p/val.txt",
                "/JPEGImages/480p/camel/00000.jpg /Annotations/480p/camel/00000.png \n",
            ),
        ],
        &[
            ("JPEGImages/480p/bear/00000.jpg", Train, None),
            ("JPEGImages/480p/camel/00000.jpg", Val, None),
        ],
    ),
    (
        "davis-2017",
        &[
            ("JPEGImages/480p/bear/00000.jpg", ""),
            ("Annotations/480p/bear/00000.png", "grey 20 16"),
            ("JPEGImages/480p/camel/00000.jpg", ""),
            ("Annotations/480p/camel/00000.png", "grey 22 18"),
            ("ImageSets/2017/train.txt", "bear\n"),
            ("ImageSets/2017/val.txt", "camel\n"),
        ],
        &[
            ("JPEGImages/480p/bear/00000.jpg", Train, None),
            ("JPEGImages/480p/camel/00000.jpg", Val, None),
        ],
    ),
    (
        "mjsynth",
        &[
            ("1/1/1_Chilblains_13374.jpg", ""),
            ("2/1/7_stack_74163.jpg", ""),
            ("2/1/8_stack's_74163.jpg", ""),
            ("annotation_train.txt", "./1/1/1_Chilblains_13374.jpg 13374\n"),
            ("annotation_val.txt", "./2/1/8_stack's_74163.jpg 74163\n"),
            ("annotation_test.txt", "./2/1/7_stack_74163.jpg 74163\n"),
            ("lexicon.txt", "stack\n"),
        ],
        &[
            ("1/1/1_Chilblains_13374.jpg", Train, None),
            ("2/1/7_stack_74163.jpg", Test, None),
            ("2/1/8_stack's_74163.jpg", Val, None),
        ],
    ),
    (
        "hrf",
        &[
            ("images/01_dr.JPG", ""),
            ("manual1/01_dr.tif", "grey 20 16"),
            ("mask/01_dr_mask.tif", "grey 20 16"),
        ],
        &[("images/01_dr.JPG", Train, None)],
    ),
    (
        "refuge",
        &[
            ("Training400/Glaucoma/g0001.jpg", ""),
            ("masks/g0001.png", "grey 20 16"),
            ("Training400/Non-Glaucoma/n0001.jpg", ""),
            ("masks/n0001.png", "grey 22 18"),
        ],
        &[
            ("Training400/Glaucoma/g0001.jpg", Train, Some("Glaucoma")),
            ("Training400/Non-Glaucoma/n0001.jpg", Train, Some("Non-Glaucoma")),
        ],
    ),
    (
        "celebamask-hq",
        &[
            ("CelebA-HQ-img/0.jpg", ""),
            ("CelebAMask-HQ-mask-anno/0/00000_hair.png", "grey 20 16"),
            ("CelebAMask-HQ-mask-anno/0/00000_skin.png", "grey 20 16"),
            ("masks/0.png", "grey 20 16"),
        ],
        &[("CelebA-HQ-img/0.jpg", Train, None)],
    ),
    (
        "widerperson",
        &[
            ("Images/000040.jpg", ""),
            ("Images/000041.jpg", ""),
            ("Images/000042.jpg", ""),
            ("Annotations/000040.jpg.txt", "1\n1 1 2 9 8\n"),
            ("train.txt", "000040\n"),
            ("val.txt", "000041\n"),
            (
                "widerperson.csv",
                "image,label,xmin,ymin,xmax,ymax\n000040.jpg,riders,1,2,9,8\n000041.jpg,crowd,1,2,9,8\n",
            ),
        ],
        &[("Images/000040.jpg", Train, None), ("Images/000041.jpg", Val, None)],
    ),
    (
        "inaturalist-2021",
        &[("2021_train/00000_Animalia/a.jpg", ""), ("2021_valid/00001_Plantae/b.jpg", "")],
        &[
            ("2021_train/00000_Animalia/a.jpg", Train, Some("00000_Animalia")),
            ("2021_valid/00001_Plantae/b.jpg", Val, Some("00001_Plantae")),
        ],
    ),
    (
        "places365",
        &[
            ("data_256_standard/a/airfield/00000001.jpg", ""),
            ("val_256/Places365_val_00000001.jpg", ""),
            ("test_256/Places365_test_00000001.jpg", ""),
            ("places365_train_standard.txt", "/a/airfield/00000001.jpg 0\n"),
            ("places365_val.txt", "Places365_val_00000001.jpg 11\n"),
        ],
        &[
            ("data_256_standard/a/airfield/00000001.jpg", Train, Some("0")),
            ("val_256/Places365_val_00000001.jpg", Val, Some("11")),
        ],
    ),
    (
        "flickr30k",
        &[
            ("flickr30k_images/1000092795.jpg", ""),
            ("flickr30k_images/10002456.jpg", ""),
            (
                "results_20130124.token",
                "1000092795.jpg#0\tTwo guys .\n1000092795.jpg#1\tTwo men .\n10002456.jpg#0\tA crane .\n",
            ),
        ],
        &[
            ("flickr30k_images/1000092795.jpg", Train, None),
            ("flickr30k_images/10002456.jpg", Train, None),
        ],
    ),
    (
        "flickr8k",
        &[
            ("Images/1000268201_69.jpg", ""),
            (
                "captions.txt",
                "image,caption\n1000268201_69.jpg,A child .\n1000268201_69.jpg,\"A girl, up .\"\n",
            ),
        ],
        &[("Images/1000268201_69.jpg", Train, None)],
    ),
    (
        "kitti",
        &[
            ("training/image_2/000000.png", ""),
            ("training/label_2/000000.txt", KITTI),
            ("testing/image_2/000000.png", ""),
        ],
        &[("training/image_2/000000.png", Train, None)],
    ),
    (
        "wider-face",
        &[
            ("WIDER_train/images/0--Parade/0_Parade_849.jpg", ""),
            ("WIDER_val/images/0--Parade/0_Parade_850.jpg", ""),
            ("WIDER_test/images/0--Parade/0_Parade_851.jpg", ""),
            (
                "wider_face_split/wider_face_train_bbx_gt.txt",
                "0--Parade/0_Parade_849.jpg\n1\n1 2 3 4 0 0 0 0 0 0 \n",
            ),
            (
                "wider_face_split/wider_face_val_bbx_gt.txt",
                "0--Parade/0_Parade_850.jpg\n0\n0 0 0 0 0 0 0 0 0 0 \n",
            ),
        ],
        &[
            ("WIDER_train/images/0--Parade/0_Parade_849.jpg", Train, None),
            ("WIDER_val/images/0--Parade/0_Parade_850.jpg", Val, None),
        ],
    ),
    (
        "gtsrb-unpacked",
        &[
            ("GTSRB/Training/00000/00000_00000.ppm", PPM),
            ("GTSRB/Training/00014/00000_00000.ppm", PPM),
            ("GTSRB/Final_Test/Images/00000.ppm", PPM),
            (
                "GT-final_test.csv",
                "Filename;Width;Height;X1;Y1;X2;Y2;ClassId\n00000.ppm;2;1;0;0;2;1;14\n",
            ),
        ],
        &[
            ("GTSRB/Final_Test/Images/00000.ppm", Test, Some("14")),
            ("GTSRB/Training/00000/00000_00000.ppm", Train, Some("0")),
            ("GTSRB/Training/00014/00000_00000.ppm", Train, Some("14")),
        ],
    ),
    (
        "flowers-102",
        &[
            ("jpg/image_00001.jpg", ""),
            ("jpg/image_00002.jpg", ""),
            ("flowers102.csv", "image_00001.jpg,76,train\nimage_00002.jpg,0,val\n"),
        ],
        &[("jpg/image_00001.jpg", Train, Some("76")), ("jpg/image_00002.jpg", Val, Some("0"))],
    ),
    (
        "stanford-cars",
        &[
            ("cars_train/00001.jpg", ""),
            ("cars_test/00001.jpg", ""),
            ("cars.csv", "cars_train/00001.jpg,Audi TTS\ncars_test/00001.jpg,Ram C/V\n"),
        ],
        &[
            ("cars_test/00001.jpg", Test, Some("Ram C/V")),
            ("cars_train/00001.jpg", Train, Some("Audi TTS")),
        ],
    ),
    (
        "sbd",
        &[
            ("img/2008_1.jpg", ""),
            ("img/2008_2.jpg", ""),
            ("masks/2008_1.png", "grey 20 16"),
            ("masks/2008_2.png", "grey 21 17"),
            ("train.txt", "2008_1\n"),
            ("val.txt", "2008_2\n"),
        ],
        &[("img/2008_1.jpg", Train, None), ("img/2008_2.jpg", Val, None)],
    ),
    (
        "clevr",
        &[
            ("images/train/CLEVR_train_000000.png", ""),
            ("images/val/CLEVR_val_000000.png", ""),
            ("images/test/CLEVR_test_000000.png", ""),
            ("clevr.csv", "CLEVR_train_000000.png,3\nCLEVR_val_000000.png,10\n"),
        ],
        &[
            ("images/train/CLEVR_train_000000.png", Train, Some("3")),
            ("images/val/CLEVR_val_000000.png", Val, Some("10")),
        ],
    ),
];

/// Key, split and class of a sample.
type Found = (String, Split, Option<String>);

/// Packs these files; the title that was recognised, and the samples.
fn packed(files: &[File<'_>], prefix: &str, plan: PlanOptions) -> (Option<String>, Vec<Found>) {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (i, (path, text)) in (0..).zip(files) {
        let grey = text.strip_prefix("grey ").and_then(|size| size.split_once(' '));
        let bytes = match path.rsplit('.').next().unwrap().to_lowercase().as_str() {
            _ if grey.is_some() => {
                let (width, height) = grey.unwrap();
                let (width, height): (u32, u32) = (width.parse().unwrap(), height.parse().unwrap());
                let n = (width * height) as usize;
                match path.ends_with(".tif") {
                    true => crate::mask_colours::tiff((width, height), 1, &vec![i as u8; n]),
                    false => crate::fields::grey(width, height, &vec![i as u16; n], false),
                }
            }
            "jpg" | "jpeg" | "bmp" => jpeg(i),
            "png" => png(i),
            "tif" => crate::mask_colours::tiff((20, 16), 3, &[7; 20 * 16 * 3]),
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
    // Rows of pixels have tests of their own; others must be converted.
    cards.retain(|card| card.pixels.is_none() && card.unread.is_none());
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
