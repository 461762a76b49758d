//! Decides whether an index is acceptable, in one place for everything that reads bundles.
//!
//! ```text
//! the file:      as long as the manifest says, and of its digest     a copy may be better
//! by itself:     well-formed, every range inside the shard, every    ┐
//!                key a safe path                                     │ written wrongly:
//! to its shard:  as many samples, labels among the classes, blocks   │ no copy is better
//!                that merge to the shard's digest                    ┘
//! its view:      the one that the manifest lists, of this index, with as many samples
//! ```
//!
//! Format: `FORMAT.md`, "Index".

use crate::{Digest, Error, Index, Manifest, ReadAt, Row, ShardEntry, View};

impl Index {
    /// Reads the index that `entry` of `manifest` lists, if `bytes` are that index and keep every
    /// rule. `view` is the bytes of its view, if it has one, and `path` is for messages.
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::Digest`] when they are another file's; those of
    /// [`Index::parse`]; [`Error::Label`], and [`Error::Malformed`] naming the rule broken.
    pub fn accept(
        path: &str,
        bytes: impl Into<Vec<u8>>,
        view: Option<&[u8]>,
        manifest: &Manifest,
        entry: &ShardEntry,
    ) -> Result<Self, Error> {
        Self::accept_file(path, ReadAt::in_memory(path, bytes.into()), view, manifest, entry)
    }

    /// Does the same as [`Index::accept`], for a file in memory or mapped.
    pub(crate) fn accept_file(
        path: &str,
        file: ReadAt,
        view: Option<&[u8]>,
        manifest: &Manifest,
        entry: &ShardEntry,
    ) -> Result<Self, Error> {
        entry.index.accept(path, file.lent(&(0..file.len_bytes())).unwrap_or_default())?;
        let (fields, shard_bytes) = (&manifest.fields, entry.file.bytes);
        let index = match &entry.view {
            None => Self::parse_file(path, file, fields, shard_bytes)?,
            Some(of_view) => {
                let view = View::accept(of_view.name.as_str(), view.unwrap_or_default(), entry)?;
                Self::parse_viewed(path, file, fields, shard_bytes, view)?
            }
        };
        let (expected, found) = (entry.samples, index.n_samples() as u64);
        if found != expected {
            let reason =
                format!("it lists {found} samples, expected {expected} as in the manifest");
            return Err(Error::malformed(path, reason));
        }
        if index.blocks().digest() != entry.file.digest {
            return Err(Error::malformed(
                path,
                "its block digests do not add up to the digest of the shard",
            ));
        }
        index.check_labels(path, manifest)?;
        Ok(index)
    }

    fn check_labels(&self, path: &str, manifest: &Manifest) -> Result<(), Error> {
        let labels = self.labels().enumerate();
        let mut outside = labels.filter(|(_, label)| !manifest.may_be_label(*label));
        outside.next().map_or(Ok(()), |(row, label)| {
            Err(Error::Label {
                path: path.to_owned(),
                key: self.key(Row(row)).unwrap_or_default().to_owned(),
                label,
                n_classes: manifest.classes.len(),
            })
        })
    }
}

impl crate::FileEntry {
    /// Checks that `bytes` have the length and digest of this file.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Digest`].
    pub fn accept(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let (expected, found) = (self.bytes, bytes.len() as u64);
        if found != expected {
            return Err(Error::Length { path: path.to_owned(), expected, found });
        }
        let (expected, found) = (self.digest, Digest::of(bytes));
        match found == expected {
            true => Ok(()),
            false => Err(Error::Digest { path: path.to_owned(), expected, found }),
        }
    }
}

impl Manifest {
    /// Returns whether a sample may have this label: a class, or -1 for none. Without a list of
    /// classes any number is allowed.
    fn may_be_label(&self, label: i32) -> bool {
        let n_classes = i32::try_from(self.classes.len()).unwrap_or(i32::MAX);
        n_classes == 0 || (-1..n_classes).contains(&label)
    }
}
