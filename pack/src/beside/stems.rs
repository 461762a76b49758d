//! The files of a field, found by their paths without extension.

use crate::Error;
use crate::scan::stem_and_extension;
use crate::source::Source;

/// Most different extensions; if there are more, they are parts of names after a dot.
const MOST_EXTENSIONS: usize = 1000;

/// Stores 32 bytes for each file, whatever the length of its path: 128 bits of the digest of its
/// stem, its size and its extension.
#[derive(Debug, Default)]
pub(super) struct Stems {
    files: Vec<([u8; 16], u64, u16)>,
    extensions: Vec<String>,
}

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: String,
    pub(super) bytes: u64,
}

impl Stems {
    /// Lists all files of `source` whose stems end with `suffix`, but hidden ones.
    pub(super) fn list(source: &Source, field: &str, suffix: &str) -> Result<Self, Error> {
        let mut stems = Self::default();
        source.files(&mut |name, bytes| {
            let (stem, extension) = stem_and_extension(name);
            if !stem.ends_with(suffix) {
                return Ok(());
            }
            let at = stems.extensions.iter().position(|e| e == extension);
            let at = at.unwrap_or_else(|| {
                stems.extensions.push(extension.to_owned());
                stems.extensions.len() - 1
            });
            if stems.extensions.len() > MOST_EXTENSIONS {
                let shown = source.path().display();
                return Err(Error::setting(&["field"], format!(
                    "the files for field `{field}` in `{shown}` have more than {MOST_EXTENSIONS} different extensions, such as `.{extension}`"
                )));
            }
            stems.files.push((hash(stem), bytes, u16::try_from(at).unwrap_or(u16::MAX)));
            Ok(())
        })?;
        stems.files.sort_unstable();
        Ok(stems)
    }

    pub(super) fn len(&self) -> u64 {
        self.files.len() as u64
    }

    /// Returns all files whose path without extension is `stem`.
    pub(super) fn find(&self, stem: &str) -> Vec<Found> {
        let hash = hash(stem);
        let first = self.files.partition_point(|(h, ..)| *h < hash);
        let same = self.files.get(first..).unwrap_or_default();
        let same = same.iter().take_while(|(h, ..)| *h == hash);
        let found = same.filter_map(|(_, bytes, extension)| {
            let extension = self.extensions.get(usize::from(*extension))?;
            let dot = if extension.is_empty() { "" } else { "." };
            Some(Found { path: format!("{stem}{dot}{extension}"), bytes: *bytes })
        });
        found.collect()
    }
}

fn hash(stem: &str) -> [u8; 16] {
    let hash = blake3::hash(stem.as_bytes());
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}
