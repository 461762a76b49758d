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

/// Whether a word, in lower case, is one for what many images are taken of or by.
pub(crate) fn is_source(word: &str) -> bool {
    SOURCES.contains(&word)
}

/// Whether a column or a part of paths is named by such a word, as `patient_id` is.
pub(crate) fn is_of_source(name: &str) -> bool {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let letters: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    let stem = ["id", "no", "number", "name"].iter().find_map(|end| letters.strip_suffix(end));
    is_source(stem.unwrap_or(&letters))
}
