//! Goes through the files of a folder, and says by their names which ones are inputs.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gular_bundle::media_type_of_extension;
use gular_codec::Format;

use crate::facts::{formats, stem_and_extension};
use crate::source::{Inputs, SourceError};

/// The media type that a key's extension stands for; `None` when such files are not inputs.
pub(crate) fn media_type_of(key: &str, inputs: Inputs) -> Option<&'static str> {
    let extension = stem_and_extension(key).1.to_ascii_lowercase();
    let known = |list: &[(&str, &'static str)]| {
        list.iter().find(|(e, _)| *e == extension).map(|(_, media_type)| *media_type)
    };
    match inputs {
        Inputs::Images => formats::picture(&extension).map(Format::media_type),
        Inputs::Arrays => known(&formats::ARRAYS),
        Inputs::Bytes => {
            Some(media_type_of_extension(&extension).unwrap_or("application/octet-stream"))
        }
        Inputs::Pixels { .. } => Some("text/csv"),
    }
}

/// Folders that systems make beside the files of users. Source: `ditto`(1) of macOS; the index of
/// Synology's DSM.
const OF_SYSTEMS: [&str; 2] = ["__MACOSX", "@eaDir"];

/// Whether a segment of a path begins with a dot, or is a folder that a system makes.
pub(crate) fn hidden(name: &str) -> bool {
    name.split('/').any(|segment| segment.starts_with('.') || OF_SYSTEMS.contains(&segment))
}

/// Visits everything below `source`; `entry` says into which folders to go. The open folders are a
/// list and not the call stack, which a deep tree would overflow.
pub(crate) fn walk<E: From<SourceError>>(
    source: &Path,
    entry: &mut dyn FnMut(&Path) -> Result<Option<fs::Metadata>, E>,
) -> Result<(), E> {
    let metadata = fs::metadata(source).map_err(|e| SourceError::io("open", source, e))?;
    let mut open = vec![Folder::open(source.to_owned(), &metadata)?];
    while let Some(folder) = open.last_mut() {
        let Some(found) = folder.entries.next() else {
            open.pop();
            continue;
        };
        let path = found.map_err(|e| SourceError::io("list", &folder.path, e))?.path();
        if let Some(metadata) = entry(&path)? {
            if let Some(above) = open.iter().find(|f| f.is(&metadata)) {
                let target = above.path.display().to_string();
                return Err(SourceError::Loop { link: path.display().to_string(), target }.into());
            }
            open.push(Folder::open(path, &metadata)?);
        }
    }
    Ok(())
}

/// A folder that is being listed.
struct Folder {
    path: PathBuf,
    device: u64,
    inode: u64,
    entries: fs::ReadDir,
}

impl Folder {
    fn open(path: PathBuf, metadata: &fs::Metadata) -> Result<Self, SourceError> {
        let entries = fs::read_dir(&path).map_err(|e| SourceError::io("list", &path, e))?;
        Ok(Self { path, device: metadata.dev(), inode: metadata.ino(), entries })
    }

    fn is(&self, metadata: &fs::Metadata) -> bool {
        (self.device, self.inode) == (metadata.dev(), metadata.ino())
    }
}
