//! Volumes of NIfTI and the volumes of their classes, as segmentation challenges have them.
//!
//! ```text
//! imagesTr/case_001_0000.nii.gz ─ image ─────────┐
//! imagesTr/case_001_0001.nii.gz ─ `channel_1` ───┼▶ one sample
//! labelsTr/case_001.nii.gz ────── `segmentation` ┘
//! ```

use std::collections::BTreeSet;

use super::companions::Examples;
use crate::facts::{WayToRead, is_nifti_name, stem_and_extension};

/// The field of a volume's classes: the field `mask` is always flat.
const CLASSES: &str = "segmentation";
/// What [`CLASSES`] has beyond an image, which a loss ignores. Challenges count their classes from 0.
const BEYOND: i64 = 255;
/// Digits of the number of a channel. Source: nnU-Net, "Dataset format".
const CHANNEL_DIGITS: usize = 4;

/// A way to read images and their masks, as it is where these are volumes.
pub(super) fn of_volumes(way: WayToRead, examples: &Examples) -> WayToRead {
    let names = || examples.names().map(|(_, name)| name);
    let [(field, masks)] = way.files.as_slice() else { return way };
    if field != "mask" || !names().all(is_nifti_name) {
        return way;
    }
    // `{ext}` would be `gz`.
    let extensions: BTreeSet<&str> = names().map(|name| stem_and_extension(name).1).collect();
    let ending = match extensions.into_iter().collect::<Vec<_>>().as_slice() {
        [one] => format!(".{one}"),
        _ => ".{ext}".to_owned(),
    };
    let with_ending = |pattern: &str| {
        pattern.strip_suffix(".{ext}").map_or(pattern.to_owned(), |p| format!("{p}{ending}"))
    };
    let mut files = vec![(CLASSES.to_owned(), with_ending(masks))];
    let images = way.images.iter().map(|images| match without_channel(images) {
        None => with_ending(images),
        Some(before) => {
            let folder = before.rsplit_once('/').map_or("", |(folder, _)| folder);
            let channels: BTreeSet<&str> = examples
                .names()
                .filter(|(of, _)| *of == folder || folder.contains('{'))
                .filter_map(|(_, name)| channel(stem_and_extension(name).0))
                .collect();
            let mut channels = channels.into_iter().map(|n| format!("{before}_{n}{ending}"));
            let first = channels.next().unwrap_or_else(|| with_ending(images));
            let further = channels.enumerate();
            files.extend(further.map(|(n, pattern)| (format!("channel_{}", n + 1), pattern)));
            first
        }
    });
    let images = images.collect();
    let mask_ignore = Some((CLASSES.to_owned(), BEYOND));
    WayToRead { images, files, mask_ignore, ..way }
}

/// A pattern up to the number of a channel at its end.
fn without_channel(pattern: &str) -> Option<&str> {
    let stem = pattern.strip_suffix(".{ext}")?;
    let number = channel(stem)?;
    Some(&stem[..stem.len() - number.len() - 1])
}

/// The number of a channel at the end of a name.
fn channel(stem: &str) -> Option<&str> {
    let (_, number) = stem.rsplit_once('_')?;
    let is_number = number.len() == CHANNEL_DIGITS && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_of_volumes_are_fields() {
        let read = |paths: &[&str]| {
            let mut examples = Examples::default();
            paths.iter().for_each(|path| examples.add(path));
            examples.masks(true)
        };
        let ways = read(&[
            "imagesTr/a_000_0000.nii.gz",
            "imagesTr/a_000_0001.nii.gz",
            "imagesTr/a_001_0000.nii.gz",
            "imagesTr/a_001_0001.nii.gz",
            "labelsTr/a_000.nii.gz",
            "labelsTr/a_001.nii.gz",
        ]);
        let [way] = ways.as_slice() else { panic!("{ways:?}") };
        assert_eq!(way.images, ["imagesTr/{key}_0000.nii.gz"]);
        let files = [
            ("segmentation", "labelsTr/{key}.nii.gz"),
            ("channel_1", "imagesTr/{key}_0001.nii.gz"),
        ];
        assert_eq!(way.files, files.map(|(name, files)| (name.to_owned(), files.to_owned())));
        assert_eq!(way.mask_ignore, Some(("segmentation".to_owned(), 255)));
        let ways = read(&[
            "imagesTr/a.nii.gz",
            "imagesTr/b.nii.gz",
            "imagesTs/c.nii.gz",
            "labelsTr/a.nii.gz",
            "labelsTr/b.nii.gz",
        ]);
        assert_eq!(
            (ways[0].images[0].as_str(), ways[0].leaves_out),
            ("imagesTr/{key}.nii.gz", true)
        );
        let ways = read(&["images/a.nii", "images/b.nii", "masks/a.nii", "masks/b.nii"]);
        assert_eq!(ways[0].images, ["images/{key}.nii"]);
        let ways = read(&["images/a.png", "images/b.png", "masks/a.png", "masks/b.png"]);
        assert_eq!((ways[0].files[0].0.as_str(), &ways[0].mask_ignore), ("mask", &None));
    }
}
