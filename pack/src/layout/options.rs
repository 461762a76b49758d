//! The options that say what the files of a source mean.

use super::TableOptions;
use crate::facts::Pattern;
use crate::source::{FieldFiles, Inputs, LabelColumn, OnBadInput};

/// What decides the meaning of the files of a source, of the options of a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayoutOptions<'a> {
    /// What the paths of images mean; without patterns, this is recognised.
    pub(crate) images: &'a [Pattern],
    pub(crate) inputs: Inputs,
    /// Fields whose values are files of their own.
    pub(crate) fields: &'a [FieldFiles],
    pub(crate) labels: &'a Labels,
    pub(crate) unlabelled: Unlabelled,
    pub(crate) on_error: OnBadInput,
}

/// The source of labels.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a plan has one of them")]
pub enum Labels {
    /// The part `label` of paths.
    Path,
    /// Images have no labels.
    None,
    /// Labels are in tables that name the images.
    Table(TableOptions),
    /// A column of the table that is the source, or the labels of that name in its files: those of
    /// [`Inputs::Pixels`].
    Column(LabelColumn),
}

/// What happens to images that no pattern fits, or to which a table gives no label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlabelled {
    /// They end the run.
    Fail,
    /// They are left out and counted.
    Skip,
    /// Those without a row are packed without a label: of an unknown class, without boxes.
    Keep,
}
