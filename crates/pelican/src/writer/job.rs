//! What is to be uploaded, and what comes of it.

use std::cell::Cell;
use std::path::Path;

use super::file::Local;
use crate::checksum::Checksum;
use crate::{CollectionMember, Url};
use gular_files::Watch;

/// What to do if an object of this name has different bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfTaken {
    /// Fails, for a name that means something to people.
    Refuse,
    /// Take the next name when what lies there is the beginning of the same
    /// bytes, as an interrupted upload leaves it; else fail.
    RenameIfCut,
    /// Take the next name: readers know the content by its digest.
    Rename,
}

/// How the origin's object is compared with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompareBy {
    /// Compares the lengths.
    Size,
    /// Compares the digest that the origin reports; if it reports none, the lengths.
    Digest,
    /// Compares that digest; if the origin reports none, or a different one, reads the object
    /// back.
    #[default]
    Bytes,
}

/// What is known about an object at the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// It has the bytes of the file.
    Bytes,
    /// It has the length of the file.
    Length,
    /// The token may not read it. The origin said that it stored it, or that it has it.
    Nothing,
    /// The token may not read it, and the origin refused to store it, as origins refuse to
    /// overwrite: if the token is good, it is there.
    Presumed,
}

/// What a listing says of an object, so that it need not be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Listed<'a> {
    /// There was no listing, or it does not say.
    #[default]
    Unknown,
    /// The listing does not have the object: it is not looked for before it is sent, if the token
    /// cannot overwrite. An object that another publisher began meanwhile is found when the two are
    /// compared.
    Absent,
    /// The listing has an object of this length.
    Len(u64),
    /// The listing has an object of this length, and tells its checksum: if both are those of the
    /// file, the origin is not asked.
    Summed(u64, &'a Checksum),
}

impl<'a> Listed<'a> {
    /// What a member of a listing says; `None` where the listing does not have the object.
    #[must_use]
    pub fn of(member: Option<&'a CollectionMember>) -> Self {
        match member.map(|member| (member.len_bytes, &member.checksum)) {
            None => Self::Absent,
            Some((None, _)) => Self::Unknown,
            Some((Some(len_bytes), None)) => Self::Len(len_bytes),
            Some((Some(len_bytes), Some(checksum))) => Self::Summed(len_bytes, checksum),
        }
    }

    pub(crate) fn has_len(self, len_bytes: u64) -> bool {
        matches!(self, Self::Len(found) | Self::Summed(found, _) if found == len_bytes)
    }
}

/// A file to upload, and the name that it gets.
#[derive(Debug, Clone, Copy)]
pub struct Upload<'a> {
    /// The file, which nobody may change meanwhile.
    pub from: &'a Path,
    /// The object's name.
    pub to: &'a Url,
    /// What to do if an object of this name has other bytes.
    pub if_taken: IfTaken,
    /// What a listing says of the name.
    pub listed: Listed<'a>,
    /// How object and file are compared.
    pub compare_by: CompareBy,
}

/// The result of an [`Upload`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// The name under which the bytes are stored: the requested one, or one after it.
    pub url: Url,
    /// The object's length.
    pub len_bytes: u64,
    /// Whether the object existed already.
    pub identical: bool,
    /// How well that is known.
    pub compared: Compared,
}

/// The result for one name.
pub(crate) enum Placed {
    Written(Compared),
    Identical(Compared),
    /// Something else lies there; whether it is the beginning of ours.
    Other {
        known: String,
        cut: bool,
    },
}

/// One name to be written.
pub(crate) struct Job<'a> {
    pub(crate) url: &'a Url,
    pub(crate) local: &'a Local<'a>,
    pub(crate) if_taken: IfTaken,
    pub(crate) compare_by: CompareBy,
    pub(crate) listed: Listed<'a>,
    pub(crate) dry_run: bool,
    pub(crate) progress: &'a dyn Fn(i64),
    pub(crate) watch: Watch<'a>,
    /// Whether an attempt has sent any bytes, so that an object of this name is ours.
    pub(crate) began: Cell<bool>,
    /// Whether an attempt was answered with 405.
    pub(crate) was_405: Cell<bool>,
}
