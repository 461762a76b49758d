//! Different states of the folder that a bundle is fetched to.

use std::fs;

use gular_tests::put;

use crate::bundles::{assert_same, data_files, publish, small, text};
use crate::site::Site;

#[test]
fn a_cut_manifest_is_fetched_again_and_said() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("cut"));
    let copy = dir.path().join("copy");
    site.json(["fetch", &url, text(&copy)]);
    let manifest = copy.join("manifest.json");
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, &whole[..whole.len() / 3]).unwrap();
    let mended = site.run(["fetch", &url, text(&copy)]);
    assert_eq!((mended.code, mended.stderr.as_str()), (Some(0), ""), "{mended:?}");
    assert!(mended.stdout.contains("manifest.json` was cut or damaged"), "{mended:?}");
    assert_same(&copy, &bundle);
    let again = site.run(["fetch", &url, text(&copy)]);
    assert!(!again.stdout.contains("damaged"), "{again:?}");
}

#[test]
fn a_folder_of_other_files_is_left_alone() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("mine"));
    put(dir.path(), "thesis.tex", b"mine");
    let refused = site.run(["fetch", &url, text(dir.path())]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    for word in
        ["`thesis.tex`", "do not belong to this bundle", "hint: fetch into a new or empty folder"]
    {
        assert!(refused.stderr.contains(word), "{refused:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_bundle_of_some_splits_is_inspected_as_far_as_it_is_here() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("inspected"));
    let copy = dir.path().join("copy");
    site.json(["fetch", &url, text(&copy), "--splits", "train"]);
    let inspect = |more: &[&str]| site.run([&["inspect", text(&copy)], more].concat());
    let seen = inspect(&[]);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    assert!(seen.stdout.contains("\nsplit `val` is not in this folder\n"), "{seen:?}");
    assert!(seen.stdout.contains("`gular fetch URL#blake3=…"), "{seen:?}");
    // Six samples of each class are in train; for val the number is unknown.
    let row = seen.stdout.lines().find(|line| line.starts_with("0 class 0")).unwrap();
    assert_eq!(row.split_whitespace().skip(3).collect::<Vec<_>>(), ["6", "?"], "{row}");
    let sheet = dir.path().join("sheet.png");
    let sheet = inspect(&["--sheet", text(&sheet), "--samples", "100"]);
    assert_eq!(sheet.code, Some(0), "{sheet:?}");
    assert!(sheet.stdout.contains("contact sheet: 18 images"), "{sheet:?}");
    let mut extract = site.command(["inspect", text(&copy), "--extract", "train/class 1/1.jpg"]);
    assert!(extract.output().unwrap().stdout.starts_with(&[0xff, 0xd8]), "a JPEG");
    let missing = inspect(&["--extract", "val/class 1/1.jpg"]);
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.stderr.contains("hint: split `val` is not in this folder"), "{missing:?}");

    // One data file is missing, and one is cut.
    let names: Vec<String> = data_files(&copy).into_keys().collect();
    let shards: Vec<&String> = names.iter().filter(|name| !name.contains(".index.")).collect();
    fs::remove_file(copy.join("data").join(shards[0])).unwrap();
    let cut = copy.join("data").join(shards[1]);
    let bytes = fs::read(&cut).unwrap();
    fs::remove_file(&cut).unwrap();
    fs::write(&cut, &bytes[..100]).unwrap();
    let seen = inspect(&["--samples", "3"]);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    let said = format!(
        "2 of {} files of split `train` are not in this folder, or truncated\n",
        names.len()
    );
    assert!(
        seen.stdout.contains(&said) && seen.stdout.contains("`gular verify` names"),
        "{seen:?}"
    );
    let report = site.json(["inspect", text(&copy)]);
    assert_eq!(report["missing_files"]["train"], 2);
}
