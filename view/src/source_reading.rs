//! How a source was read, before it is packed.

use serde::Serialize;

/// What is shown of a source before it is packed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SourceReading {
    /// The report of packing.
    pub words: String,
    /// What the files alone do not say.
    pub questions: Vec<OpenQuestion>,
    /// Other warnings.
    pub warnings: Vec<String>,
    /// How many inputs would be left out.
    pub n_left_out: u64,
    /// The first of them, with the reasons.
    pub left_out: Vec<String>,
}

/// A question about a source, and the other ways to read it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenQuestion {
    /// What was found, and how it was read.
    pub text: String,
    /// The other ways.
    pub others: Vec<OtherReading>,
}

/// Another way to read a source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OtherReading {
    /// When it is right.
    pub when: String,
    /// The whole command that reads the source so, if all of it is known.
    pub command: Option<String>,
    /// Its options.
    pub options: String,
}
