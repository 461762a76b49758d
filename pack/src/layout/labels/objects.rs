//! Things in images, of which each has a box and the name of its class.

use std::collections::{BTreeSet, HashMap};

use super::coco::{Annotation, Category, Coco, CocoImage, ImageId, KeyPoints};
use crate::facts::merged;

/// The images of a few formats, and what is in them.
#[derive(Debug, Default)]
pub(super) struct Objects {
    images: Vec<CocoImage>,
    objects: Vec<(ImageId, Object)>,
    /// The numbers of outlines, and of points and lines, which are not kept.
    pub(super) unread: [u64; 2],
}

/// One thing in an image.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) class: String,
    /// Left, top, width and height, in the unit of the image's size; in pixels if that is not known.
    pub(super) corners: [f64; 4],
    pub(super) crowd: bool,
}

impl Objects {
    /// Adds an image.
    pub(super) fn image(&mut self, file_name: &str, size: Option<(f64, f64)>) -> ImageId {
        let id = ImageId::Number(self.images.len() as i64);
        let (width, height) = size.unzip();
        let file_name = file_name.to_owned();
        self.images.push(CocoImage::new(id, file_name, width, height));
        id
    }

    /// Says that boxes are fractions of their images.
    pub(super) fn are_fractions(&mut self) {
        self.images.iter_mut().for_each(|image| image.are_fractions = true);
    }

    pub(super) fn add(&mut self, image: ImageId, object: Object) {
        self.objects.push((image, object));
    }

    /// All of them as a file of COCO has them; classes are sorted, and numbers are kept.
    pub(super) fn coco(mut self) -> Coco {
        self.objects.sort_by_key(|(image, _)| *image);
        let names: BTreeSet<&String> =
            self.objects.iter().map(|(_, object)| &object.class).collect();
        let names = merged(names.into_iter().cloned().collect());
        let numbers: HashMap<&str, i64> = names.iter().map(String::as_str).zip(0..).collect();
        let annotations = self.objects.iter().map(|(image_id, object)| Annotation {
            image_id: *image_id,
            category_id: numbers.get(object.class.as_str()).copied().unwrap_or_default(),
            bbox: Some(object.corners),
            iscrowd: object.crowd.into(),
            caption: None,
            has_outline: false,
            keypoints: KeyPoints::default(),
        });
        let annotations = annotations.collect();
        let categories = (0..).zip(names).map(|(id, name)| Category { id, name }).collect();
        Coco { images: self.images, annotations, categories, unread: self.unread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_sorted_and_numbers_kept() {
        let classes = |names: &[&str]| {
            let mut objects = Objects::default();
            let image = objects.image("1.jpg", None);
            for class in names {
                let class = (*class).to_owned();
                objects.add(image, Object { class, corners: [0.0, 0.0, 1.0, 1.0], crowd: false });
            }
            objects.coco().classes()
        };
        assert_eq!(classes(&["dog", "cat", "dog"]), ["cat", "dog"]);
        assert_eq!(classes(&["2", "0"]), ["0", "1", "2"]);
        assert_eq!(classes(&["02", "0"]), ["0", "02"]);
    }
}
