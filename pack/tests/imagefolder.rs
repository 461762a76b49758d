//! Hugging Face's imagefolder: a table of a fixed name beside the images.

use crate::support::{jpeg, put, run, samples};
use gular_bundle::Split;
use gular_pack::{Error, LayoutError, PackReport, PlanOptions};

/// Packs these images and tables.
fn packed(images: &[&str], tables: &[(&str, &str)]) -> Result<(PackReport, Vec<String>), Error> {
    let (source, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    (0..).zip(images).for_each(|(i, path)| put(source.path(), path, &jpeg(i)));
    tables.iter().for_each(|(path, text)| put(source.path(), path, text.as_bytes()));
    let report = run(source.path(), out.path(), PlanOptions::default(), 1)?;
    let (bundle, _) = samples(out.path());
    let fields = bundle.manifest().fields.iter().map(|field| field.name.to_string()).collect();
    Ok((report, fields))
}

fn refused(images: &[&str], table: (&str, &str)) -> gular_pack::Doubt {
    let doubt = match packed(images, &[table]).unwrap_err() {
        Error::Layout(LayoutError::Doubt(doubt)) => Some(doubt),
        _ => None,
    };
    doubt.unwrap()
}

#[test]
fn captions_are_a_field_and_labels_are_classes() {
    let flat = ["1.jpg", "2.jpg"];
    let captions = "file_name,text\n1.jpg,a cat\n2.jpg,a cat\n";
    let (report, fields) = packed(&flat, &[("metadata.csv", captions)]).unwrap();
    assert_eq!(fields, ["image", "text"]);
    assert!(report.dataset.unwrap().contains("imagefolder"));
    let labels =
        "{\"file_name\":\"1.jpg\",\"label\":\"a\"}\n{\"file_name\":\"2.jpg\",\"label\":\"b\"}\n";
    let (report, fields) = packed(&flat, &[("metadata.jsonl", labels)]).unwrap();
    assert_eq!(fields, ["image", "label"]);
    assert_eq!(report.splits[&Split::Train].classes.len(), 2);
}

#[test]
fn one_split_in_two_spellings_is_a_field() {
    let images = ["1.jpg", "2.jpg"];
    let table = |of: [&str; 2]| format!("file_name,subset\n1.jpg,{}\n2.jpg,{}\n", of[0], of[1]);
    let fields = |of| packed(&images, &[("metadata.csv", &table(of))]).unwrap().1;
    assert_eq!(fields(["train", "Train"]), ["image", "subset"]);
    assert_eq!(fields(["train", "other"]), ["image", "subset"]);
    assert_eq!(fields(["train", "Test"]), ["image"]);
}

#[test]
fn each_split_may_have_a_table_of_its_own() {
    let table = |name: &str| format!("file_name,text,n\n{name}.jpg,a thing,3\n");
    for around in ["", "data/"] {
        let of = |path: &str| format!("{around}{path}");
        let (images, names) = (
            [of("train/1.jpg"), of("test/2.jpg")],
            [of("train/metadata.csv"), of("test/metadata.csv")],
        );
        let tables = [(names[0].as_str(), table("1")), (names[1].as_str(), table("2"))];
        let tables = tables.each_ref().map(|(name, text)| (*name, text.as_str()));
        let (report, fields) = packed(&images.each_ref().map(String::as_str), &tables).unwrap();
        assert_eq!(fields, ["image", "text", "n"]);
        assert_eq!(report.splits.keys().collect::<Vec<_>>(), [&Split::Train, &Split::Test]);
    }
}

#[test]
fn class_folders_beside_a_table_are_refused_with_each_reading() {
    let table = ("metadata.csv", "file_name,text\na/1.jpg,x\nb/2.jpg,y\n");
    let doubt = refused(&["a/1.jpg", "b/2.jpg"], table);
    let found: Vec<_> =
        doubt.readings.iter().map(|way| (way.images.len(), way.tables.is_some())).collect();
    assert_eq!(found, [(0, true), (1, true), (1, false)]);
    // Another table of this name says nothing.
    let other = ("metadata.csv", "camera,lens\nx,y\n");
    assert!(packed(&["a/1.jpg", "b/2.jpg"], &[other]).is_ok());
}

#[test]
fn a_second_file_of_each_image_is_told_by_a_pattern() {
    let table = ("metadata.csv", "mask_file_name,file_name\nm/1_m.png,in/1.jpg\n");
    let doubt = refused(&["in/1.jpg"], table);
    assert!(doubt.text.contains("`file_name` and `mask_file_name`"), "{doubt}");
    assert_eq!(doubt.readings[0].images, ["in/{key}.{ext}"]);
    let mask = ("mask".to_owned(), "m/{key}_m.{ext}".to_owned());
    assert_eq!(doubt.readings[0].files, [mask]);
}

#[test]
fn tables_in_folders_of_several_levels_are_refused() {
    let table = |name: &str| format!("file_name,text\n{name},a thing\n");
    let (upper, lower) = (table("1.jpg"), table("2.jpg"));
    let names = ["train/1.jpg", "train/sub/2.jpg"];
    let nested = [("train/metadata.csv", upper.as_str()), ("train/sub/metadata.csv", &lower)];
    let error = packed(&names, &nested).unwrap_err();
    let Error::Layout(LayoutError::Doubt(doubt)) = &error else { panic!("{error:?}") };
    assert!(doubt.text.contains("train/sub/metadata.csv"), "{doubt}");
    let tables = doubt.readings.iter().map(|way| way.tables.as_ref().unwrap().len());
    assert_eq!(tables.collect::<Vec<_>>(), [2, 1]);
    // A table of something else says nothing.
    let both = table("1.jpg") + "sub/2.jpg,a thing\n";
    let other = [("train/metadata.csv", both.as_str()), ("train/sub/metadata.csv", "lens\nx\n")];
    assert!(packed(&names, &other).is_ok());
}
