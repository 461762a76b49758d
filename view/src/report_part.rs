//! What a report is made of: the page draws it.

use serde::Serialize;

/// A part of a report, from top to bottom.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportPart {
    /// A heading.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A recommendation: its sentences, and a command to copy.
    Advice {
        /// The sentences.
        texts: Vec<String>,
        /// The command.
        command: Option<String>,
    },
    /// Short sentences, one below the other.
    List(Vec<String>),
    /// Bars of one quantity, from zero on one scale.
    Bars {
        /// What is measured.
        title: String,
        /// The bars.
        bars: Vec<Bar>,
    },
    /// A table; all cells but the first of a row are numbers.
    Table {
        /// What it has.
        caption: String,
        /// The names of its columns.
        head: Vec<String>,
        /// Its rows.
        rows: Vec<Vec<String>>,
    },
}

/// One horizontal bar.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bar {
    /// The text before it.
    pub name: String,
    /// Its length, in the unit of the drawing.
    pub value: f64,
    /// The least and the greatest of several measurements.
    pub range: (f64, f64),
    /// Whether it is only for comparison.
    pub baseline: bool,
    /// Whether it is recommended.
    pub picked: bool,
    /// The text behind it.
    pub text: String,
}
