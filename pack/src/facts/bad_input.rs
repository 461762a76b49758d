//! Files that cannot be packed, and why.

use std::fmt;

use crate::facts::RunError;

/// A file that cannot be packed, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
#[error("`{path}`: {reason}")]
pub struct BadInput {
    /// The file, below the source folder.
    pub path: String,
    /// What is wrong with the file: expected and found.
    pub reason: String,
    /// What can be done about the fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Which setting would accept it.
    #[serde(skip)]
    pub remedy: Remedy,
}

/// The change with which a bad input would be accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Remedy {
    /// Only a different file would be accepted.
    #[default]
    Repair,
    /// A higher limit of pixels would accept it.
    AllowMorePixels,
    /// A lower limit of pixels, or fewer threads, would accept it.
    UseLessMemory,
    /// A smaller side would accept it.
    Shrink,
    /// Three channels instead of one would accept it.
    KeepColour,
    /// It would be accepted if the axes of the field's arrays were named.
    NameAxes,
    /// It would be accepted if the field were not on its image's pixels.
    NotOnImage,
    /// It would be accepted if all pictures of the field had colours, or all one channel.
    SameColours,
    /// A choice of what the pages of a file are would accept it.
    ChoosePages,
    /// Take the first picture of an animation.
    TakeFirstFrame,
    /// It would be accepted if locations were not compared.
    Align,
    /// As `Align`, of polygons.
    AlignPolygons,
    /// It would be accepted if coarser files were brought to the pixels of the finest.
    Resample,
    /// It would be accepted as a mask if the classes of its colours were given.
    NameColours,
    /// Write masks that are JPEG, which changes their values, in another format.
    WriteMasks,
    /// It would be accepted if the numbers of the classes of polygons were given.
    NameClasses,
    /// Leaving the names of bands out of account would accept it.
    IgnoreBandNames,
}

/// What is wrong with an input, and what can be done about it.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) reason: String,
    pub(crate) hint: Option<&'static str>,
    pub(crate) remedy: Remedy,
}

impl Fault {
    pub(crate) fn new(reason: String, hint: Option<&'static str>) -> Self {
        Self { reason, hint, remedy: Remedy::Repair }
    }

    /// Returns this fault with the path of its file.
    pub(crate) fn at(self, path: String) -> BadInput {
        let Self { reason, hint, remedy } = self;
        BadInput { path, reason, hint: hint.map(str::to_owned), remedy }
    }
}

impl From<gular_codec::Error> for Fault {
    fn from(error: gular_codec::Error) -> Self {
        let remedy = match error {
            gular_codec::Error::TooLarge { .. } | gular_codec::Error::ManyNumbers { .. } => {
                Remedy::AllowMorePixels
            }
            gular_codec::Error::Memory { .. } => Remedy::UseLessMemory,
            gular_codec::Error::Pages { .. } => Remedy::ChoosePages,
            gular_codec::Error::Frames => Remedy::TakeFirstFrame,
            _ => Remedy::Repair,
        };
        Self { remedy, ..Self::new(error.to_string(), error.hint()) }
    }
}

/// Most files that cannot be packed and are named.
const MOST_NAMED: usize = 20;

/// Files with something wrong: the first ones, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BadInputs {
    /// The first of these files, at most 20.
    pub named: Vec<BadInput>,
    /// Number of such files that were found. If the run ended because of them, not every file was
    /// read, so there may be more.
    pub n: u64,
}

impl BadInputs {
    pub(crate) fn push(&mut self, bad: BadInput) {
        self.n += 1;
        if self.named.len() < MOST_NAMED {
            self.named.push(bad);
        }
    }

    /// Adds the files of another part of the run.
    pub(crate) fn add(&mut self, other: Self) {
        self.n += other.n;
        let room = MOST_NAMED.saturating_sub(self.named.len());
        self.named.extend(other.named.into_iter().take(room));
    }

    /// Returns the error that these files are, if there is one.
    pub(crate) fn into_result(self) -> Result<(), RunError> {
        if self.n > 0 { Err(RunError::BadInputs(self)) } else { Ok(()) }
    }
}

impl fmt::Display for BadInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, bad) in self.named.iter().enumerate() {
            write!(f, "{}{bad}", if i == 0 { "" } else { "\n  also " })?;
        }
        match self.n.saturating_sub(self.named.len() as u64) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// The largest value of a field. Format: `FORMAT.md`, "Limits".
pub(crate) const MOST_BYTES: u64 = (1 << 31) - 1;

/// Checks that a value may have so many bytes.
pub(crate) fn check_bytes(bytes: u64) -> Result<(), Fault> {
    if bytes > MOST_BYTES {
        let reason = format!("it has {bytes} bytes, and a sample may have at most {MOST_BYTES}");
        return Err(Fault::new(reason, Some("split it into smaller files")));
    }
    Ok(())
}
