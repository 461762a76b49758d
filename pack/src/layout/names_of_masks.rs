//! Masks beside or below images, told by the names that files really have.

use std::collections::BTreeSet;

use super::folders::{Folders, MARKS};
use crate::facts::{Doubt, WayToRead, literal};

/// Images and masks in one folder, such as `7_sat.jpg` and `7_mask.png`.
pub(crate) fn pairs_in_one_folder(folders: &Folders) -> Option<Doubt> {
    let (image, mask) = pairs(&folders.names).filter(|_| folders.top.is_empty())?;
    let prefix = literal(&folders.prefix);
    let image = format!("{prefix}{{key}}{}.{{ext}}", literal(&image));
    let mask_files = format!("{prefix}{{key}}{}.{{ext}}", literal(&mask));
    let text = format!("names end in `{mask}`, as those of masks do, for each image");
    let way = WayToRead {
        files: vec![("mask".to_owned(), mask_files)],
        ..WayToRead::new("if they are masks", &[&image])
    };
    let all = WayToRead::new("if all of them are images", &[&format!("{prefix}{{key}}.{{ext}}")]);
    Some(Doubt::new(text, vec![way, all]))
}

/// What the names of images and of masks have behind the name that they share, if about half of the
/// names are of masks, and each of those has an image.
fn pairs(names: &[String]) -> Option<(String, String)> {
    let stems = || names.iter().map(|name| stem(name));
    for mark in MARKS {
        let keys: BTreeSet<&str> = stems().filter_map(|stem| stem.strip_suffix(mark)).collect();
        let images: Vec<&str> = stems().filter(|stem| !stem.ends_with(mark)).collect();
        if keys.len() < 2 || keys.len() * 3 < images.len() {
            continue;
        }
        let behind = |image: &&str| {
            let key =
                keys.iter().filter(|key| image.starts_with(**key)).max_by_key(|key| key.len());
            key.map(|key| image[key.len()..].to_owned())
        };
        let ends: BTreeSet<String> = images.iter().filter_map(behind).collect();
        let all = images.iter().filter(|image| behind(image).is_some()).count();
        if let (Some(end), 1, true) = (ends.first(), ends.len(), all * 2 >= images.len()) {
            return Some((end.clone(), mark.to_owned()));
        }
    }
    None
}

/// What the names of masks have behind those of images: `_mask` for the first files of two folders,
/// `train/01.jpg` and `masks/01_mask.gif`.
pub(super) fn added(image: Option<&String>, mask: Option<&String>) -> Option<String> {
    let own = |path: &'_ String| stem(path.rsplit('/').next().unwrap_or(path)).to_owned();
    let (image, mask) = (own(image?), own(mask?));
    let added = mask.strip_prefix(&image)?;
    (!added.is_empty()).then(|| literal(added))
}

fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(names: &[&str]) -> Option<(String, String)> {
        pairs(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn names_of_images_may_have_an_end_too() {
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(
            told(&["1_sat.jpg", "1_mask.png", "2_sat.jpg", "2_mask.png"]),
            pair("_sat", "_mask")
        );
        assert_eq!(told(&["1.jpg", "1_seg.png", "12.jpg", "12_seg.png"]), pair("", "_seg"));
        assert_eq!(told(&["a_mask.png", "b_mask.png", "c.jpg", "d.jpg"]), None);
        assert_eq!(told(&["1_sat.jpg", "1_mask.png", "2_b.jpg", "2_mask.png"]), None);
        let path = |text: &str| Some(text.to_owned());
        assert_eq!(
            added(path("train/01.jpg").as_ref(), path("m/01_mask.gif").as_ref()),
            path("_mask")
        );
        assert_eq!(added(path("train/01.jpg").as_ref(), path("m/01.gif").as_ref()), None);
    }
}
