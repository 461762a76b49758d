//! Formats of annotations that are not read, and how to get one that is.

use std::path::Path;

use crate::layout::LayoutError;
use crate::source::document_start;

/// A program or dataset that writes such files.
struct UnreadFormat {
    name: &'static str,
    /// The extension of its files, and texts that all are in their first bytes.
    extension: &'static str,
    signs: &'static [&'static str],
    /// What makes of them a format that is read.
    convert: &'static str,
}

const TABLE: &str = "write a table with a row for each box: `image,label,xmin,ymin,xmax,ymax`";

const CENTRES: &str =
    "write a table with a row for each box: `image,label,x_center,y_center,width,height`";

const POINTS: &str =
    "write lines of JSON, such as `{\"file_name\": \"1.jpg\", \"points\": [[1.5, 2], [3, 4]]}`";

const SHEET: &str = "save it as CSV (UTF-8)";

/// Sources: the manuals of [VIA](https://www.robots.ox.ac.uk/~vgg/software/via/),
/// [CVAT](https://docs.cvat.ai/docs/dataset_management/formats/) and
/// [Label Studio](https://labelstud.io/guide/export),
/// [Create ML](https://developer.apple.com/documentation/createml) and
/// [Supervisely](https://docs.supervisely.com/data-organization/00_ann_format_navi), and the
/// development kit of [DOTA](https://captain-whu.github.io/DOTA/dataset.html),
/// [FUNSD](https://guillaumejaume.github.io/FUNSD/description/),
/// [DeepFashion2](https://github.com/switchablenorms/DeepFashion2),
/// [CrowdHuman](https://www.crowdhuman.org/download.html), the development kit of
/// [MOT Challenge](https://motchallenge.net/instructions/), HRSC2016 and
/// [300-W](https://ibug.doc.ic.ac.uk/resources/300-W/).
const FORMATS: [UnreadFormat; 15] = [
    UnreadFormat {
        name: "VGG Image Annotator",
        extension: "json",
        signs: &["shape_attributes", "region_attributes"],
        convert: "in the program, choose `Annotation`, `Export Annotations (COCO format)`",
    },
    UnreadFormat {
        name: "CVAT",
        extension: "xml",
        signs: &["<annotations>", "<image "],
        convert: "in CVAT, export the task as `COCO 1.0`",
    },
    UnreadFormat {
        name: "Label Studio",
        extension: "json",
        signs: &["\"annotations\"", "\"result\"", "\"data\""],
        convert: "in Label Studio, export boxes as `COCO`, and classes of images as `CSV`",
    },
    UnreadFormat {
        name: "Create ML",
        extension: "json",
        signs: &["\"annotations\"", "\"coordinates\"", "\"label\""],
        convert: CENTRES,
    },
    UnreadFormat {
        name: "Supervisely",
        extension: "json",
        signs: &["\"classTitle\"", "\"exterior\""],
        convert: "in Supervisely, run the app `Export to COCO`",
    },
    UnreadFormat {
        name: "DOTA",
        extension: "txt",
        signs: &["imagesource:", "gsd:"],
        convert: TABLE,
    },
    UnreadFormat {
        name: "FUNSD",
        extension: "json",
        signs: &["\"form\"", "\"linking\""],
        convert: TABLE,
    },
    UnreadFormat {
        name: "DeepFashion2",
        extension: "json",
        signs: &["\"bounding_box\"", "\"category_name\"", "\"pair_id\""],
        convert: TABLE,
    },
    UnreadFormat { name: "CrowdHuman", extension: "odgt", signs: &["\"gtboxes\""], convert: TABLE },
    UnreadFormat {
        name: "MOT Challenge",
        extension: "ini",
        signs: &["[Sequence]"],
        convert: TABLE,
    },
    UnreadFormat { name: "HRSC2016", extension: "xml", signs: &["<HRSC_Image>"], convert: TABLE },
    UnreadFormat {
        name: "300-W's points",
        extension: "pts",
        signs: &["version:", "n_points:"],
        convert: POINTS,
    },
    UnreadFormat { name: "Excel", extension: "xlsx", signs: &[], convert: SHEET },
    UnreadFormat { name: "Excel", extension: "xls", signs: &[], convert: SHEET },
    UnreadFormat { name: "OpenDocument", extension: "ods", signs: &[], convert: SHEET },
];

/// The texts of ICDAR's Robust Reading: a line has the four corners of a text, and the text. Source:
/// <https://rrc.cvc.uab.es/?ch=4&com=tasks>.
const ICDAR: UnreadFormat =
    UnreadFormat { name: "ICDAR", extension: "txt", signs: &[], convert: TABLE };

fn is_of_icdar(line: &str) -> bool {
    let cells: Vec<&str> = line.trim().trim_end_matches(',').split(',').collect();
    let are_numbers = |cells: &[&str]| cells.iter().all(|cell| cell.trim().parse::<f64>().is_ok());
    cells.split_at_checked(8).is_some_and(|(corners, text)| {
        are_numbers(corners) && !text.is_empty() && !are_numbers(text)
    })
}

/// Whether a file may be of such a format by its extension, and is not mostly something else.
pub(super) fn may_be_unread(extension: &str) -> bool {
    ["txt", "json", "ini", "odgt", "xml", "pts"].contains(&extension)
}

/// Refuses a file of a format that is known and not read.
pub(crate) fn check_format(path: &Path) -> Result<(), LayoutError> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    if FORMATS.iter().all(|format| format.extension != extension) {
        return Ok(());
    }
    let start = document_start(path).map_err(|e| LayoutError::io("read", path, e))?;
    let start = String::from_utf8_lossy(&start);
    let has = |sign: &&str| start.contains(sign);
    let found =
        FORMATS.iter().find(|format| format.extension == extension && format.signs.iter().all(has));
    let is_of_icdar =
        || extension == ICDAR.extension && start.lines().next().is_some_and(is_of_icdar);
    let found = found.or_else(|| is_of_icdar().then_some(&ICDAR));
    match found {
        None => Ok(()),
        Some(UnreadFormat { name, convert, .. }) => {
            Err(LayoutError::UnreadFormat { path: path.display().to_string(), name, convert })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_known_by_its_signs() {
        let dir = tempfile::tempdir().unwrap();
        for format in &FORMATS {
            let path = dir.path().join(format!("a.{}", format.extension));
            std::fs::write(&path, format.signs.join(" ")).unwrap();
            match check_format(&path) {
                Err(LayoutError::UnreadFormat { name, .. }) => assert_eq!(name, format.name),
                other => panic!("{}: {other:?}", format.name),
            }
        }
        let path = dir.path().join("gt_img_1.txt");
        std::fs::write(&path, "377,117,463,117,465,130,378,130,Genaxis Theatre\n").unwrap();
        assert!(check_format(&path).unwrap_err().to_string().contains("ICDAR"));
        // Boxes of YOLO, and of MOT.
        for text in ["0 0.5 0.5 0.2 0.2\n", "1,1,2,3,10,12,1,1,0.8\n"] {
            let path = dir.path().join("a.txt");
            std::fs::write(&path, text).unwrap();
            check_format(&path).unwrap();
        }
    }
}
