//! Files of pages. That of `bench --html` is created before anything is measured, so that a folder
//! that cannot be written to does not cost hours of measurements.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use gular_files::begins_with;
use gular_view::SavedPage;
use tempfile::NamedTempFile;

use crate::exit::Failure;

/// A file that becomes `path` when it is written.
#[derive(Debug)]
pub(crate) struct HtmlPage {
    path: PathBuf,
    temp: NamedTempFile,
}

impl HtmlPage {
    /// Looks at what is at `path` and makes a temporary file beside it.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        check(path)?;
        // A link to an old page stays a link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = gular_files::folder_of(&path);
        let temp =
            gular_files::temp_with_mode(folder, 0o666).map_err(|e| cannot(&path, &e.source))?;
        Ok(Self { path, temp })
    }

    /// Writes `text`; a page of an earlier run is replaced.
    pub(crate) fn save(mut self, text: &str) -> Result<(), Failure> {
        let written = self.temp.write_all(text.as_bytes());
        let Self { path, temp } = self;
        written.map_err(|e| cannot(&path, &e))?;
        check(&path)?;
        gular_files::persist(temp, &path).map_err(|e| cannot(&path, &e.source))?;
        Ok(())
    }
}

/// Refuses a file that is not the page of an earlier run.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    check_start(path, "a page that this version of gular wrote", SavedPage::START)
}

/// Refuses a file that does not begin as `what` begins, which is to be written there.
pub(crate) fn check_start(path: &Path, what: &str, start: &[u8]) -> Result<(), Failure> {
    match path.symlink_metadata().is_err() || begins_with(path, start) {
        true => Ok(()),
        false => {
            let message = format!("`{}` exists, but is not {what}", path.display());
            let hint = "choose a new file name: gular replaces only files of the same kind that it wrote itself";
            Err(Failure::new(message, Some(hint.into())))
        }
    }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    let (shown, folder) = (path.display(), gular_files::folder_of(path));
    if error.kind() == io::ErrorKind::NotFound {
        let message =
            format!("cannot write `{shown}`: the folder `{}` does not exist", folder.display());
        return Failure::new(message, Some("make the folder first, or choose another".to_owned()));
    }
    Failure::new(format!("cannot write `{shown}`: {error}"), None)
}
