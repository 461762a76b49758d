//! Words for what many images are taken of or by.

/// What many images are taken of or by, which is counted and no class. Source: the folders of LIDC-IDRI
/// (`Patient`), ADNI (`subject`), UCF-101 and MOT (`video`, `seq`), CARPK and Caltech Camera Traps
/// (`cam`), xView (`scene`) and BreakHis (`slide`).
const SOURCES: [&str; 28] = [
    "patient",
    "pat",
    "subject",
    "subj",
    "participant",
    "case",
    "study",
    "series",
    "visit",
    "scan",
    "slide",
    "video",
    "vid",
    "clip",
    "sequence",
    "seq",
    "recording",
    "session",
    "flight",
    "camera",
    "cam",
    "scene",
    "trap",
    "burst",
    "animal",
    "trial",
    "mouse",
    "plot",
];

/// Names of columns that say when an image was taken. Source: EXIF's `DateTimeOriginal`, COCO's
/// `date_captured`, iNaturalist's `observed_on` and the dates of STAC items.
const TIMES: [&str; 9] = [
    "date",
    "datetime",
    "datetimeoriginal",
    "datecaptured",
    "observedon",
    "time",
    "timestamp",
    "year",
    "month",
];

/// Whether a column is named for the time at which an image was taken.
pub(crate) fn is_of_times(name: &str) -> bool {
    TIMES.contains(&letters_of(name).as_str())
}

fn letters_of(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether a word, in lower case, is one for what many images are taken of or by.
pub(crate) fn is_source(word: &str) -> bool {
    SOURCES.contains(&word)
}

/// Whether a column or a part of paths is named by such a word, as `patient_id` is.
pub(crate) fn is_of_source(name: &str) -> bool {
    let letters = letters_of(name);
    let stem = ["id", "no", "number", "name"].iter().find_map(|end| letters.strip_suffix(end));
    is_source(stem.unwrap_or(&letters))
}
