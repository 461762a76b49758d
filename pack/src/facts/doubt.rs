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
    /// Whether files that cannot be packed are left out.
    pub skips_bad: bool,
    /// What proves this way, where the names and sizes of files do.
    pub proof: Option<String>,
    /// A folder, and the one that it repeats if all of its files have the same bytes.
    pub copies: Option<(String, String)>,
    /// Further tables, which may be about the images, too.
    pub besides: Vec<String>,
    /// Whether it is taken where the files bear no other way out.
    pub otherwise: bool,
    /// A command that first writes files that the options name.
    pub convert: Option<PythonCommand>,
    /// Whether the files are to be read as arrays.
    pub as_arrays: bool,
    /// Whether it is only for the user to choose, whatever the files are.
    pub asks: bool,
    /// Whether coarser bands are brought to the pixels of the finest.
    pub resamples: bool,
    /// The tables of labels that are to be given; none if they are not known.
    pub tables: Option<Vec<String>>,
    /// The part of paths that splits by fractions keep together.
    pub group: Option<String>,
    /// Lists that are to be given, each with the pattern of its lines.
    pub lists: Vec<String>,
    /// The column of file names that is to be given.
    pub key_column: Option<String>,
    /// The column of labels that is to be given.
    pub label_column: Option<String>,
    /// What divides several classes in one cell.
    pub label_separator: Option<String>,
    /// What the numbers of boxes are.
    pub box_form: Option<BoxForm>,
    /// The column of splits that is to be given.
    pub split_column: Option<String>,
    /// The table of the colours of masks.
    pub colours: Option<String>,
    /// The field that is a further mask, and its number for pixels without a class.
    pub mask_ignore: Option<(String, i64)>,
    /// Fields of files: their names, and the patterns of their files.
    pub files: Vec<(String, String)>,
}

/// What the four numbers of a box are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BoxForm {
    /// Left, top, right and bottom.
    Ends,
    /// Left, top, width and height.
    Sized,
    /// The centre, width and height.
    Centred,
}

impl BoxForm {
    /// The words by which users name them.
    pub const WORDS: [(&str, Self); 3] =
        [("xyxy", Self::Ends), ("xywh", Self::Sized), ("cxcywh", Self::Centred)];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, form)| *form == self).map_or("", |(word, _)| word)
    }

    /// What they are, in words.
    pub(crate) fn said(self) -> &'static str {
        match self {
            Self::Ends => "left, top, right and bottom",
            Self::Sized => "left, top, width and height",
            Self::Centred => "the centre, width and height",
        }
    }

    /// A box as left, top, width and height.
    pub(crate) fn sized(self, [x, y, a, b]: [f64; 4]) -> [f64; 4] {
        match self {
            Self::Ends => [x, y, a - x, b - y],
            Self::Sized => [x, y, a, b],
            Self::Centred => [x - a / 2.0, y - b / 2.0, a, b],
        }
    }
}

/// A command that runs Python. What comes from a dataset is an argument, and never in the program's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonCommand {
    /// The program.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl WayToRead {
    /// Has the user choose it where it was taken because the files bear no other way out.
    pub(crate) fn ask(&mut self) {
        if std::mem::take(&mut self.otherwise) {
            self.proof = None;
        }
    }

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
