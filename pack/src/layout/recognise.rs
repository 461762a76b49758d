//! Recognises what the folders of a source mean, if the user does not say it.
//!
//! Folders are splits if their names are words for splits, and classes otherwise. Where a source can
//! be read in another way that is about as likely, it is refused; where that is unlikely, the user
//! is told.

use gular_bundle::Split;

use super::class_folders::classes;
use super::companions::{divided, of_masks, with_splits, word_for_split};
use super::deep_splits::with_deeper_splits;
use super::folder_patterns::{CLASSES, Recognised};
use super::folders::Folders;
use super::name_parts::with_names;
use super::parts::{axes_of_samples, copy_of_splits, parts_of_samples};
use super::split_folders::{may_be_splits, some_are_splits, split_of_like, splits, splits_in_one};
use crate::facts::{
    Doubt, WayToRead, is_fold, is_of_both, literal, named, split_of, split_within, splits_among,
};

/// Reads the folders of a source; `labelled` says that classes are wanted.
pub(crate) fn recognise(folders: &Folders, labelled: bool) -> Result<Recognised, Doubt> {
    let all = |is: &dyn Fn(&str) -> bool| {
        !folders.top.is_empty() && folders.top.keys().all(|name| is(name))
    };
    let like = splits_among(folders.top.keys());
    let some_split = folders.top.keys().find(|name| split_of(name).is_some());
    let are_splits = some_split.is_some() && all(&|name| split_within(name).is_some());
    let found = if are_splits {
        splits(folders, labelled)
    } else if let Some(split) = some_split.filter(|_| like.len() < folders.top.len()) {
        let mut doubt = some_are_splits(folders, &like, split, labelled);
        if let Some(splits_alone) = doubt.readings.iter_mut().find(|way| way.leaves_out)
            && let Some((name, proof)) = copy_of_splits(folders)
        {
            splits_alone.proof = Some(proof);
            splits_alone.copies = Some((format!("{name}/"), String::new()));
        }
        Err(doubt)
    } else if !labelled && all(&|name| split_of_like(&like, name) == Some(Split::Train)) {
        // As splits and as other folders, all of them are `train`.
        Ok(splits_in_one(folders))
    } else if all(&|name| split_of_like(&like, name).is_some() || is_fold(name)) {
        Err(may_be_splits(folders, &like, labelled))
    } else if let Some(split) = like.keys().next()
        && folders.flat == 0
    {
        Err(some_are_splits(folders, &like, split, labelled))
    } else if let Some(doubt) = axes_of_samples(folders).filter(|_| labelled) {
        Err(doubt)
    } else if labelled {
        classes(folders)
    } else if let Some(doubt) = parts_of_samples(folders, labelled) {
        Err(doubt)
    } else {
        Ok(splits_in_one(folders))
    };
    let found = without_both(folders, with_masks(folders, labelled, found));
    let found = found.map_err(|doubt| match labelled {
        true => with_names(folders, with_deeper_splits(folders, doubt)),
        false => doubt,
    });
    // Without classes and splits, it does not matter where a key begins.
    let matters = labelled || found.as_ref().map_or(true, |found| !found.splits.is_empty());
    let prefix = if matters { literal(&folders.prefix) } else { String::new() };
    let below = |patterns: &mut Vec<String>| {
        patterns.iter_mut().for_each(|pattern| pattern.insert_str(0, &prefix));
    };
    let place = |doubt: &mut Doubt| {
        for reading in &mut doubt.readings {
            below(&mut reading.images);
            reading.files.iter_mut().for_each(|(_, files)| files.insert_str(0, &prefix));
            if let Some((copy, beside)) = &mut reading.copies {
                [copy, beside].into_iter().for_each(|path| path.insert_str(0, &folders.prefix));
            }
        }
    };
    // Some files have no extension.
    let with_bare = |patterns: &mut Vec<String>| {
        let bare = patterns.iter().filter_map(|p| p.strip_suffix(".{ext}"));
        let bare: Vec<String> = bare.filter(|_| folders.bare).map(str::to_owned).collect();
        patterns.extend(bare);
    };
    let mut found = found.map_err(|mut doubt| {
        doubt.readings.iter_mut().for_each(|way| with_bare(&mut way.images));
        place(&mut doubt);
        doubt
    })?;
    let of_doubts = found.doubts.iter_mut().flat_map(|doubt| &mut doubt.readings);
    of_doubts.for_each(|way| with_bare(&mut way.images));
    with_bare(&mut found.patterns);
    below(&mut found.patterns);
    found.doubts.iter_mut().for_each(place);
    if !prefix.is_empty() && labelled {
        found.doubts.push(one_folder_around(folders));
    }
    Ok(found)
}

/// Adds the masks that folders have by their names; where these were taken for classes, or for images,
/// nothing is clear.
fn with_masks(
    folders: &Folders,
    labelled: bool,
    found: Result<Recognised, Doubt>,
) -> Result<Recognised, Doubt> {
    if let (Err(doubt), Some(pattern)) = (&found, folders.examples.of_samples()) {
        let when = match folders.has_masks() {
            true => "if each sample is a folder, of which its image is taken, and not its masks",
            false => "if each sample is a folder, of which its image is taken",
        };
        let way = WayToRead::new(when, &[&pattern]);
        let way = WayToRead { leaves_out: true, ..way };
        let readings = [&[way], doubt.readings.as_slice()].concat();
        return Err(Doubt { readings, ..doubt.clone() });
    }
    let ways = folders.examples.masks(labelled);
    let folder = |pattern: &'_ str| pattern.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let is_beside = |way: &WayToRead| {
        let of_images = way.images.iter().map(|images| folder(images));
        way.files.iter().map(|(_, files)| folder(files)).eq(of_images)
    };
    match found {
        _ if ways.is_empty() => found,
        Err(mut doubt) => {
            doubt.readings.retain(|way| way.files.iter().all(|(name, _)| name != "mask"));
            doubt.readings.iter_mut().for_each(WayToRead::ask);
            doubt.readings.splice(0..0, ways);
            Err(doubt)
        }
        Ok(found)
            if !labelled
                || ways.iter().any(is_beside)
                || found.classes.iter().any(|class| of_masks(class) == Some(true)) =>
        {
            let masks = ways.iter().flat_map(|way| &way.files).map(|(_, files)| files.as_str());
            let text = format!("{} look like masks, not like images", named(masks));
            let all = found.patterns.iter().map(String::as_str).collect::<Vec<_>>();
            let when = match labelled && !ways.iter().any(is_beside) {
                true => "if they are classes",
                false => "if all of them are images",
            };
            Err(Doubt::new(text, [ways, vec![WayToRead::new(when, &all)]].concat()))
        }
        found => found,
    }
}

/// Leaves out a folder such as `trainval` where folders of `train` and of `val`, whose images it has, are
/// beside it.
fn without_both(folders: &Folders, found: Result<Recognised, Doubt>) -> Result<Recognised, Doubt> {
    let words = folders.top.keys().filter_map(|name| Some(word_for_split(name)?.1));
    let Some(words) = divided(words) else { return found };
    let both = named(folders.top.keys().filter(|name| is_of_both(name)));
    let text = format!(
        "{both} is left out, as it looks like the images of `train` and `val`, which are beside it"
    );
    match found {
        Err(doubt) => {
            let of_images = |way| if is_of_splits(&way) { with_splits(way, &words) } else { way };
            let readings = doubt.readings.into_iter().map(of_images).collect();
            Err(Doubt::new(format!("{}; {text}", doubt.text), readings))
        }
        Ok(found) => {
            let all: Vec<&str> = found.patterns.iter().map(String::as_str).collect();
            let way = with_splits(WayToRead::new("to leave it out", &all), &words);
            let way = WayToRead { proof: Some(text.clone()), ..way };
            let all = WayToRead::new("if it has other images for training", &all);
            Err(Doubt::new(text, vec![way, all]))
        }
    }
}

/// Whether a way takes splits from paths.
fn is_of_splits(way: &WayToRead) -> bool {
    way.images.iter().any(|pattern| pattern.contains("{split}"))
}

fn one_folder_around(folders: &Folders) -> Doubt {
    let root = folders.prefix.trim_end_matches('/');
    let text = format!("all images are below `{root}`, so this folder is not taken for a class");
    Doubt::new(text, vec![WayToRead::new("if it is the class", &[CLASSES])])
}

#[cfg(test)]
mod tests {
    use super::super::folder_patterns::KEY;
    use super::*;

    fn read(paths: &[&str], labelled: bool) -> Result<Recognised, Doubt> {
        let mut folders = Folders::new(String::new());
        paths.iter().for_each(|path| folders.add(path, 1));
        recognise(&folders, labelled)
    }

    /// Checks patterns and classes, and that nothing is in doubt.
    fn clear(paths: &[&str], patterns: &[&str], classes: &[&str]) {
        let found = read(paths, true).unwrap();
        assert_eq!(found.patterns, patterns, "{paths:?}");
        assert_eq!(found.classes.iter().collect::<Vec<_>>(), classes, "{paths:?}");
        assert_eq!(found.doubts, [], "{paths:?}");
    }

    /// Checks that nothing is taken, and what is offered.
    fn refused(paths: &[&str], words: &str, offered: &[&str]) {
        let doubt = read(paths, true).unwrap_err();
        assert!(doubt.text.contains(words), "{}", doubt.text);
        let images: Vec<String> = doubt.readings.into_iter().flat_map(|r| r.images).collect();
        assert_eq!(images, offered, "{}", doubt.text);
    }

    /// Checks what is taken, and what is said.
    fn told(paths: &[&str], patterns: &[&str], words: &str) {
        let found = read(paths, true).unwrap();
        assert_eq!(found.patterns, patterns, "{paths:?}");
        let [doubt] = found.doubts.as_slice() else { panic!("{:?}", found.doubts) };
        assert!(doubt.text.contains(words), "{}", doubt.text);
    }

    #[test]
    fn folders_are_splits_by_any_word_in_any_case() {
        let both = ["{split}/{label}/{key}.{ext}"];
        clear(&["Training/a/1.jpg", "Testing/a/2.jpg", "Testing/b/2.jpg"], &both, &["a", "b"]);
        clear(&["TRAIN/a/1.jpg", "VAL/b/2.jpg"], &both, &["a", "b"]);
        clear(&["train/a/1.jpg", "dev/b/2.jpg", "eval/c/2.jpg"], &both, &["a", "b", "c"]);
        clear(
            &["a/train/1.jpg", "b/train/2.jpg", "b/test/2.jpg"],
            &["{label}/{split}/{key}.{ext}"],
            &["a", "b"],
        );
        let mixed = ["{split=test}test1/{label}/{key}.{ext}", "{split}/{label}/{key}.{ext}"];
        clear(&["train/a/1.jpg", "test1/b/2.jpg"], &mixed, &["a", "b"]);
    }

    #[test]
    fn to_leave_out_one_of_two_folders_of_a_split_keeps_all_other_splits() {
        refused(
            &["Training/a/1.jpg", "Test/a/2.jpg", "Test/b/2.jpg", "test-multiple_fruits/3.jpg"],
            "are both split `test`",
            &[
                "{split:Test}/{label}/{key}.{ext}",
                "{split:Training}/{label}/{key}.{ext}",
                "{split:Training}/{label}/{key}.{ext}",
                "{split=test}test-multiple_fruits/{key}.{ext}",
                "{split=test}test-multiple_fruits/{key}.{ext}",
                "{split}/{label}/{key}.{ext}",
            ],
        );
        told(
            &["train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg", "valid/b/4.jpg"],
            &["{split}/{label}/{key}.{ext}"],
            "`val` and `valid` are both split `val`",
        );
    }

    #[test]
    fn folders_that_may_be_splits_are_refused_with_both_readings() {
        refused(
            &["trainset/a/1.jpg", "testset/a/2.jpg"],
            "`testset` and `trainset` are a split",
            &[
                "{split=test}testset/{label}/{key}.{ext}",
                "{split=train}trainset/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["trn/a/1.jpg", "tst/a/2.jpg"],
            "`trn` and `tst` are a split",
            &[
                "{split=train}trn/{label}/{key}.{ext}",
                "{split=test}tst/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        // The folders in these are classes, not pairs of images.
        refused(
            &["im_train/a/1.jpg", "im_train/b/1.jpg", "im_test/a/1.jpg", "im_test/b/1.jpg"],
            "are a split",
            &[
                "{split=test}im_test/{label}/{key}.{ext}",
                "{split=train}im_train/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["fold_0/a/1.jpg", "fold_1/a/2.jpg"],
            "not clear whether `fold_0`",
            &[
                "{split=train}fold_{*:[0-9]+}/{label}/{key}.{ext}",
                "{split=val}fold_1/{label}/{key}.{ext}",
                "{fold}/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["train/a/1.jpg", "val/a/1.jpg", "hidden/a/2.jpg"],
            "`hidden` is not",
            &[
                "{split:train|val}/{label}/{key}.{ext}",
                "{split=test}hidden/{label}/{key}.{ext}",
                "{split:train|val}/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["train_set/a/1.jpg", "holdout/a/2.jpg"],
            "`holdout` and `train_set` are a split or a class",
            &[
                "{split=test}holdout/{label}/{key}.{ext}",
                "{split=train}train_set/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["train_set/1.jpg", "extra/2.jpg"],
            "`train_set` is the name of a split, `extra` is not",
            &[
                "{split=train}train_set/{key}.{ext}",
                "{split=val}extra/{key}.{ext}",
                "{split=train}train_set/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["train/a/1.jpg", "holdout/a/2.jpg"],
            "`holdout` and `train` are a split or a class",
            &[
                "{split=test}holdout/{label}/{key}.{ext}",
                "{split=train}train/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["box_train/1.jpg", "box_test/2.jpg", "query/3.jpg"],
            "`query` is not",
            &[
                "{split=test}box_test/{key}.{ext}",
                "{split=train}box_train/{key}.{ext}",
                "{split=val}query/{key}.{ext}",
                "{split=test}box_test/{key}.{ext}",
                "{split=train}box_train/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["X-train/images/1.jpg", "X-val/images/2.jpg"],
            "are a split or a class",
            &[
                "{split=train}X-train/images/{key}.{ext}",
                "{split=val}X-val/images/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["trainA/1.jpg", "trainB/2.jpg", "testA/3.jpg", "testB/4.jpg"],
            "are a split or a class",
            &[
                "{split:test|train}{label:A|B}/{key}.{ext}",
                "{split=test}testA/{key}.{ext}",
                "{split=test}testB/{key}.{ext}",
                "{split=train}trainA/{key}.{ext}",
                "{split=train}trainB/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        let input = ["ISIC_Training_Input/1.jpg"];
        assert!(read(&input, true).unwrap_err().text.contains("a split or a class"));
        assert_eq!(read(&input, false).unwrap().patterns, [KEY]);
        assert!(read(&["ISIC_Test_Input/1.jpg"], false).is_err());
        clear(
            &["trainer/1.jpg", "test tube/2.jpg", "cat/3.jpg"],
            &[CLASSES],
            &["cat", "test tube", "trainer"],
        );
    }

    #[test]
    fn all_that_is_not_for_testing_is_left_out_beside_its_parts() {
        refused(
            &["train/a/1.jpg", "val/b/2.jpg", "trainval/a/1.jpg", "trainval/b/2.jpg"],
            "`trainval` is left out",
            &["{split:train|val}/{label}/{key}.{ext}", "{split}/{label}/{key}.{ext}"],
        );
        clear(&["trainval/a/1.jpg", "test/b/2.jpg"], &["{split}/{label}/{key}.{ext}"], &["a", "b"]);
    }

    #[test]
    fn images_without_a_class_folder_are_refused_or_told() {
        refused(
            &["train/1.jpg", "test1/2.jpg"],
            "is not in a class folder",
            &["{split=test}test1/{key}.{ext}", "{split}/{key}.{ext}"],
        );
        refused(&["1.jpg", "2.jpg"], "`1.jpg` is not in a class folder", &["{key}.{ext}"]);
        for (paths, below) in [
            (["data/x/1.jpg", "data/y/1.jpg", "logo.png"], "data/{label}/{key}.{ext}"),
            (
                ["data/train/x/1.jpg", "data/val/x/1.jpg", "logo.png"],
                "data/{split}/{label}/{key}.{ext}",
            ),
        ] {
            refused(&paths, "`logo.png`", &[below, "{key}.{ext}"]);
        }
        refused(&["cat/1.jpg", "2.jpg"], "`2.jpg`", &["{label}/{key}.{ext}", "{key}.{ext}"]);
        refused(
            &["cat.1.jpg", "dog.2.jpg", "dog.3.jpg", "cat.4.jpg"],
            "`cat.1.jpg`",
            &["{label}.{key:[0-9]+}.{ext}", "{key}.{ext}"],
        );
        refused(
            &["1_cat.jpg", "2_dog.jpg", "3_cat.jpg", "4_dog.jpg"],
            "`1_cat.jpg`",
            &["{key:[0-9]+}_{label}.{ext}", "{key}.{ext}"],
        );
        let names =
            ["train/cat_1.jpg", "train/cat_2.jpg", "train/big_dog_3.jpg", "train/big_dog_4.jpg"];
        refused(
            &names,
            "`train/big_dog_3.jpg`",
            &[
                "{split}/{label}_{key:[0-9]+}.{ext}",
                "train/{label}_{key:[0-9]+}.{ext}",
                "{split}/{key}.{ext}",
            ],
        );
        told(
            &["train/a/1.jpg", "train/b/1.jpg", "test/2.jpg"],
            &["{split:test}/{key}.{ext}", "{split}/{label}/{key}.{ext}"],
            "images in `test` are in no class folder",
        );
    }

    #[test]
    fn folders_that_are_no_classes_are_refused_or_told() {
        refused(
            &["JPEGImages/1.jpg"],
            "`JPEGImages` looks like a part of the samples",
            &["JPEGImages/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        let doubt = read(&["images/1.jpg", "masks/1.png"], true).unwrap_err();
        assert_eq!(doubt.readings[0].files, [("mask".to_owned(), "masks/{key}.{ext}".to_owned())]);
        let paths = ["train/image/1.jpg", "val/image/1.jpg", "val/gt/1.png"];
        for labelled in [true, false] {
            let doubt = read(&paths, labelled).unwrap_err();
            let first = &doubt.readings[0];
            assert_eq!(first.images, ["{split}/image/{key}.{ext}"], "{doubt}");
            assert_eq!(first.files, [("mask".to_owned(), "{split}/gt/{key}.{ext}".to_owned())]);
        }
        refused(
            &["images/train/1.jpg", "images/val/2.jpg"],
            "a part of the samples",
            &["images/{split}/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        told(&["9/1.jpg", "10/1.jpg"], &[CLASSES], "`10` has the label 0");
        refused(
            &["x/cat/1.jpg", "x/dog/1.jpg", "y/cat/1.jpg", "y/dog/1.jpg"],
            "such as `x/cat`",
            &["{*}/{label}/{key}.{ext}", "{label}/{key}.{ext}", "{key}.{ext}"],
        );
        refused(
            &["x/s1/1.jpg", "y/s2/1.jpg"],
            "in folders inside of the class folders",
            &["{*}/{label}/{key}.{ext}", "{label}/{key}.{ext}", "{key}.{ext}"],
        );
        refused(
            &["amazon/images/mug/1.jpg", "dslr/images/mug/1.jpg"],
            "such as `amazon/images`",
            &[
                "{*}/{label}/{key}.{ext}",
                "{*}/{*}/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
                "{*}/{*}/{key}.{ext}",
            ],
        );
        refused(
            &["a/1.jpg", "b/1.jpg", "all/a/1.jpg", "all/b/1.jpg"],
            "`all` has the folders in it that are beside it: `a` and `b`",
            &["{label:a|b}/{key}.{ext}", "{label}/{key}.{ext}", "{*}/{label}/{key}.{ext}"],
        );
        for (paths, without) in [
            (["images_001/images/1.jpg", "images_002/images/2.jpg"], "{*}/{*}/{key}.{ext}"),
            (["HAM_images_part_1/1.jpg", "HAM_images_part_2/2.jpg"], "{*}/{key}.{ext}"),
        ] {
            let doubt = read(&paths, true).unwrap_err();
            assert!(doubt.text.contains("look like numbered parts of the images"), "{doubt}");
            assert!(doubt.readings[0].tables.is_some() && doubt.readings[1].images == [without]);
        }
        clear(&["class1/1.jpg", "class2/2.jpg"], &[CLASSES], &["class1", "class2"]);
        refused(
            &["Train/Rural/a/1.png", "Train/Urban/b/1.png"],
            "such as those in `Train/Rural`",
            &[
                "{split}/{*}/{label}/{key}.{ext}",
                "{split}/{label}/{key}.{ext}",
                "{split}/{key}.{ext}",
            ],
        );
        let paths = ["a/images/1.png", "a/masks/1.png", "b/images/2.png", "b/masks/2.png"];
        let doubt = read(&paths, true).unwrap_err();
        let first = &doubt.readings[0];
        assert_eq!(first.images, ["{label}/images/{key}.{ext}"], "{doubt}");
        assert_eq!(first.files, [("mask".to_owned(), "{label}/masks/{key}.{ext}".to_owned())]);
        told(&["x/s1/1.jpg", "y/1.jpg"], &[CLASSES], "differing depths");
        refused(
            &["x/1.jpg", "x/2.jpg"],
            "all images have the class `x`",
            &["x/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        refused(
            &["train/x/1.jpg", "test/x/2.jpg"],
            "all images have the class `x`",
            &["{split}/{*}/{key}.{ext}", "{split}/{label}/{key}.{ext}"],
        );
        refused(
            &["x/1.jpg", "x/jpg/2.jpg"],
            "all images have the class `x`",
            &["{*}/{label}/{key}.{ext}", "x/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        told(&["cat/1.jpg", "dog/1.jpg", "all/1.jpg"], &[CLASSES], "`all` is read as a class");
        told(
            &["train/cat/1.jpg", "train/dog/1.jpg", "val/thumbs/1.jpg"],
            &["{split}/{label}/{key}.{ext}"],
            "`thumbs` is read as a class",
        );
        let clips = ["run_1/1.jpg", "run_2/1.jpg", "sit_1/1.jpg", "sit_2/1.jpg"];
        told(&clips, &[CLASSES], "differ only in numbers behind `run` and `sit`");
        told(&["Cat/1.jpg", "cat/1.jpg"], &[CLASSES], "differ only in upper and lower case");
    }

    #[test]
    fn classes_at_two_depths_are_a_question() {
        refused(
            &["train/000/00/1.jpg", "train/000/01/2.jpg", "train/001/00/3.jpg", "test/000/4.jpg"],
            "all images of `train` are in folders inside of the class folders, and those of `test` are not",
            &[
                "{split:test}/{label}/{key}.{ext}",
                "{split:train}/{*}/{label}/{key}.{ext}",
                "{split:test}/{*}/{key}.{ext}",
                "{split:train}/{*}/{label}/{key}.{ext}",
                "{split}/{label}/{key}.{ext}",
            ],
        );
        refused(
            &["train_data/fold_0/all/1.jpg", "train_data/fold_1/hem/2.jpg", "test_data/x/3.jpg"],
            "are a split or a class",
            &[
                "{split=test}test_data/{label}/{key}.{ext}",
                "{split=train}train_data/{*}/{label}/{key}.{ext}",
                "{split=test}test_data/{*}/{key}.{ext}",
                "{split=train}train_data/{*}/{label}/{key}.{ext}",
                "{split=test}test_data/{label}/{key}.{ext}",
                "{split=train}train_data/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        // One that is named after the split is not a folder of its own name.
        let paths = ["train_data/a/all/1.jpg", "train_data/b/hem/2.jpg", "test_data/x_test/3.jpg"];
        assert!(read(&paths, true).unwrap_err().readings[0].when.contains("last folders"));
    }

    #[test]
    fn without_labels_only_splits_count() {
        let read = |paths: &[&str]| read(paths, false).unwrap().patterns;
        assert_eq!(read(&["1.jpg", "a/b/2.jpg"]), ["{key}.{ext}"]);
        assert_eq!(read(&["Train/1.jpg", "val/x/2.jpg"]), ["{split}/{key}.{ext}"]);
        assert_eq!(read(&["a/1.pdf", "b/x"]), ["{key}.{ext}", "{key}"]);
        assert_eq!(read(&["images/1.jpg"]), ["{key}.{ext}"]);
        let images = &["images/train/1.jpg", "images/val/2.jpg"];
        assert_eq!(read(images), ["images/{split}/{key}.{ext}"]);
        let coco = &["images/train2017/1.jpg", "images/val2017/2.jpg"];
        let of = |split| format!("images/{{split={split}}}{split}2017/{{key}}.{{ext}}");
        assert_eq!(read(coco), [of("train"), of("val")]);
        assert_eq!(read(&["images/train/1.jpg", "images/cat/2.jpg"]), ["{key}.{ext}"]);
    }

    #[test]
    fn masks_beside_splits_are_no_splits() {
        for (paths, images) in [
            // Images for validation without masks are left out, and those for training are not.
            (
                ["train/1.jpg", "val/2.jpg", "train_masks/1.png"],
                ["{split:train}/{key}.{ext}", "{split:train}_masks/{key}.{ext}"],
            ),
            (
                ["train_images/1.jpg", "val_images/2.jpg", "val_masks/2.png"],
                ["{split}_images/{key}.{ext}", "{split}_masks/{key}.{ext}"],
            ),
        ] {
            let [images, masks] = images;
            let doubt = read(&paths, true).unwrap_err();
            assert_eq!(doubt.readings[0].images, [images], "{doubt}");
            assert_eq!(doubt.readings[0].files, [("mask".to_owned(), masks.to_owned())]);
        }
        let real = read(&["train/1.jpg", "train_masks/1_mask.gif"], true).unwrap_err();
        let masks = ("mask".to_owned(), "{split}_masks/{key}_mask.{ext}".to_owned());
        assert_eq!(real.readings[0].files, [masks]);
        let real = read(&["images/1.jpg", "masks/1_m.png"], true).unwrap_err();
        let masks = ("mask".to_owned(), "masks/{key}_m.{ext}".to_owned());
        assert_eq!(real.readings[0].files, [masks]);
        let camvid = read(&["train/1.png", "trainannot/1.png"], true).unwrap_err();
        let masks = ("mask".to_owned(), "{split}annot/{key}.{ext}".to_owned());
        assert_eq!(camvid.readings[0].files, [masks]);
        let depth = read(&["rgb/1.png", "depth/1.png"], true).unwrap_err();
        assert_eq!(depth.readings[0].files, [("depth".to_owned(), "depth/{key}.{ext}".to_owned())]);
    }

    #[test]
    fn folders_that_repeat_splits_are_not_classes() {
        refused(
            &["training_set/training_set/cat/1.jpg", "test_set/test_set/dog/2.jpg"],
            "`test_set` and `training_set` are a split",
            &[
                "{split=test}test_set/{*}/{label}/{key}.{ext}",
                "{split=train}training_set/{*}/{label}/{key}.{ext}",
                "{label}/{key}.{ext}",
            ],
        );
        refused(
            &["train/train/cat/1.jpg", "val/val/dog/2.jpg"],
            "the only folder in each of `train` and `val` has the same name",
            &["{split}/{*}/{label}/{key}.{ext}", "{split}/{label}/{key}.{ext}"],
        );
        refused(
            &["train/cat/1.jpg", "val/dog/2.jpg", "copy/train/cat/1.jpg", "copy/val/dog/2.jpg"],
            "`copy` is not",
            &["{split:train|val}/{label}/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        refused(
            &["2023/train/pos/1.jpg", "2024/test/neg/2.jpg"],
            "`2023/train` is a split",
            &["{*}/{split}/{label}/{key}.{ext}", "{label}/{split}/{key}.{ext}"],
        );
        refused(
            &["A/1.png", "B/1.png", "label/1.png"],
            "look like parts",
            &["A/{key}.{ext}", "{label}/{key}.{ext}"],
        );
        for (paths, fields) in [
            (["A/1.png", "B/1.png", "OUT/1.png"], ["mask", "b"]),
            (["val/A/1.png", "val/B/1.png", "val/label/1.png"], ["mask", "b"]),
        ] {
            let doubt = read(&paths, true).unwrap_err();
            let found: Vec<&str> =
                doubt.readings[0].files.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(found, fields, "{doubt}");
        }
        clear(&["A/1.jpg", "B/2.jpg"], &[CLASSES], &["A", "B"]);
        clear(&["A/1.jpg", "B/1.jpg", "C/1.jpg"], &[CLASSES], &["A", "B", "C"]);
        clear(&["mask/1.jpg", "no_mask/2.jpg"], &[CLASSES], &["mask", "no_mask"]);
    }

    #[test]
    fn everything_may_be_below_one_folder() {
        let mut folders = Folders::new("data{1}/".to_owned());
        ["data{1}/cat/1.jpg", "data{1}/dog/2.jpg"].iter().for_each(|path| folders.add(path, 1));
        let found = recognise(&folders, true).unwrap();
        assert_eq!(found.patterns, ["data{{1}}/{label}/{key}.{ext}"]);
        assert!(found.doubts[0].text.contains("below `data{1}`"), "{:?}", found.doubts);
    }
}
