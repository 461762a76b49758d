//! What is not clear about a source, with each way to read it.

/// A question that only the user can answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Doubt {
    /// What was found, and why it can be read in several ways.
    pub text: String,
    /// The ways to read it, the most likely first.
    pub readings: Vec<WayToRead>,
}

/// One way to read a source, and the options that choose it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WayToRead {
    /// When this way is right, such as `they are splits`.
    pub when: String,
    /// The patterns of the images.
    pub images: Vec<String>,
    /// Whether images that no pattern matches are left out.
    pub leaves_out: bool,
    /// Whether coarser bands are brought to the pixels of the finest.
    pub resamples: bool,
    /// The tables of labels that are to be given; none if they are not known.
    pub tables: Option<Vec<String>>,
    /// Lists that are to be given, each with the pattern of its lines.
    pub lists: Vec<String>,
    /// The column of labels that is to be given.
    pub label_column: Option<String>,
    /// The column of splits that is to be given.
    pub split_column: Option<String>,
    /// Fields of files: their names, and the patterns of their files.
    pub files: Vec<(String, String)>,
}

impl WayToRead {
    pub(crate) fn new(when: &str, images: &[&str]) -> Self {
        let images = images.iter().map(|image| (*image).to_owned()).collect();
        Self { when: when.to_owned(), images, ..Self::default() }
    }
}

impl Doubt {
    pub(crate) fn new(text: String, readings: Vec<WayToRead>) -> Self {
        Self { text, readings }
    }
}
