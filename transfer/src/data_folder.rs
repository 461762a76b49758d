//! Finds the folder in which the data of a remote bundle is stored (FORMAT.md, "Where the data
//! is").
//!
//! ```text
//! unknown ── one asks at a time: NAME/data, NAME/VERSION/data, NAME/VERSION ─▶ known
//! known ──── all ask there; for what is missing there, the others
//! ```
//!
//! So a bundle that was published needs no more requests than it has files, and another one needs
//! at most two more, whatever the number of files and threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use gular_bundle::FileEntry;
use gular_pelican::{Error as Pelican, Url};

use crate::published::in_folder;
use crate::{Error, Published};

/// The folder that had the first file.
#[derive(Debug, Default)]
pub(crate) struct DataFolder {
    /// The number of the folder, counted from 1; 0 while it is unknown.
    known: AtomicUsize,
    /// Locked while one thread asks for the folder.
    asking: Mutex<()>,
}

impl DataFolder {
    /// Returns what `ask` says about `file` in the first folder that has it.
    ///
    /// # Errors
    /// When no folder has it, the error for the likeliest folder.
    pub(crate) fn seek<T>(
        &self,
        published: &Published,
        file: &FileEntry,
        mut ask: impl FnMut(&Url) -> Result<T, Pelican>,
    ) -> Result<T, Error> {
        let unknown = self.known().is_none();
        let gate = unknown.then(|| self.asking.lock().unwrap_or_else(PoisonError::into_inner));
        let known = self.known();
        let _gate = gate.filter(|_| known.is_none());

        let folders = published.folders().iter().enumerate();
        let (mut order, others): (Vec<_>, Vec<_>) =
            folders.partition(|(number, _)| known.is_none_or(|known| known == *number));
        order.extend(others);
        let mut first = None;
        for (number, folder) in &order {
            match ask(&in_folder(folder, file)?) {
                Ok(answer) => return Ok(self.found(*number, answer)),
                Err(error) if first.is_none() => {
                    if !is_elsewhere(&error, known.is_some()) {
                        return Err(error.into());
                    }
                    first = Some(error);
                }
                // Bytes that are wrong say more than a file that is elsewhere.
                Err(error @ Pelican::Corrupt { .. })
                    if matches!(first, Some(Pelican::NotFound { .. })) =>
                {
                    first = Some(error);
                }
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(first.unwrap_or(Pelican::Cancelled).into())
    }

    /// Returns what `ask` says about `file` in the folder where it most likely is.
    ///
    /// # Errors
    /// The errors of `ask`.
    pub(crate) fn likeliest<T>(
        &self,
        published: &Published,
        file: &FileEntry,
        ask: impl FnOnce(&Url) -> Result<T, Pelican>,
    ) -> Result<T, Error> {
        let folder = self.known().and_then(|known| published.folders().get(known));
        Ok(ask(&in_folder(folder.unwrap_or(published.data()), file)?)?)
    }

    fn found<T>(&self, number: usize, answer: T) -> T {
        self.known.store(number + 1, Ordering::Relaxed);
        answer
    }

    /// Returns the number of the folder, once it is known.
    pub(crate) fn known(&self) -> Option<usize> {
        self.known.load(Ordering::Relaxed).checked_sub(1)
    }
}

/// Returns whether this error about the likeliest folder allows another folder to have the file.
/// Once the folder of the data is known, wrong bytes mean damage.
fn is_elsewhere(error: &Pelican, known: bool) -> bool {
    match error {
        Pelican::NotFound { .. } => true,
        Pelican::Corrupt { .. } => !known,
        _ => false,
    }
}

/// Returns whether the object does not exist. Servers differ in how they answer for such objects.
fn is_absent(error: &Pelican) -> bool {
    use Pelican::{Corrupt, Denied, NotFound, Unsupported};
    matches!(error, NotFound { .. } | Corrupt { .. } | Denied { .. } | Unsupported { .. })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use gular_bundle::{BundlePath, Digest};

    use super::*;

    fn published() -> Published {
        Published::at(&Url::parse("pelican://h/ns/a/v1").unwrap()).unwrap()
    }

    fn file(name: &str) -> FileEntry {
        FileEntry { name: BundlePath::parse(name).unwrap(), bytes: 1, digest: Digest::of(b"") }
    }

    fn missing(url: &Url) -> Pelican {
        let (url, server) = (url.to_string(), "s".to_owned());
        Pelican::NotFound { url, server, said: String::new() }
    }

    /// Returns the URLs that are asked for `name` if only those with `there` exist.
    fn asked(data: &DataFolder, name: &str, there: &str) -> (Vec<String>, bool) {
        let mut asked = Vec::new();
        let found = data.seek(&published(), &file(name), |url| {
            asked.push(url.path().to_owned());
            if url.path() == format!("{there}/{name}") { Ok(()) } else { Err(missing(url)) }
        });
        (asked, found.is_ok())
    }

    #[test]
    fn the_folder_is_found_once_for_all_files() {
        let check = |folder: &str, first: &[&str]| {
            let data = DataFolder::default();
            let paths = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
            assert_eq!(asked(&data, "x", folder), (paths(first), true));
            assert_eq!(asked(&data, "y", folder), (vec![format!("{folder}/y")], true));
        };
        check("/ns/a/data", &["/ns/a/data/x"]);
        check("/ns/a/v1/data", &["/ns/a/data/x", "/ns/a/v1/data/x"]);
        check("/ns/a/v1", &["/ns/a/data/x", "/ns/a/v1/data/x", "/ns/a/v1/x"]);
    }

    #[test]
    fn a_file_that_is_missing_is_sought_everywhere_and_named_where_it_should_be() {
        let data = DataFolder::default();
        assert!(asked(&data, "x", "/ns/a/v1/data").1);
        let (urls, found) = asked(&data, "y", "/nowhere");
        let expected = ["v1/data/y", "data/y", "v1/y"];
        assert_eq!((urls, found), (expected.map(|path| format!("/ns/a/{path}")).into(), false));
        let error = data.seek(&published(), &file("y"), |url| Err::<(), _>(missing(url)));
        assert!(error.unwrap_err().to_string().contains("/ns/a/v1/data/y"));
    }

    #[test]
    fn other_bytes_are_passed_over_only_while_the_folder_is_unknown() {
        let data = DataFolder::default();
        let corrupt = |url: &Url| {
            Err::<(), _>(Pelican::Corrupt { url: url.to_string(), attempts: <_>::default() })
        };
        let n_asked = AtomicU32::new(0);
        let ask = |url: &Url| {
            n_asked.fetch_add(1, Ordering::Relaxed);
            if url.path() == "/ns/a/v1/data/x" { Ok(()) } else { corrupt(url) }
        };
        data.seek(&published(), &file("x"), ask).unwrap();
        assert_eq!(n_asked.swap(0, Ordering::Relaxed), 2);
        let error = data.seek(&published(), &file("y"), ask).unwrap_err();
        assert!(matches!(error, Error::Pelican(Pelican::Corrupt { .. })), "{error}");
        assert_eq!(n_asked.into_inner(), 1);
    }

    #[test]
    fn one_asks_until_the_folder_is_known() {
        let (data, misses) = (DataFolder::default(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d"] {
                let (data, misses) = (&data, &misses);
                scope.spawn(move || {
                    let ask = |url: &Url| {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                        if url.path().starts_with("/ns/a/v1/data/") {
                            return Ok(());
                        }
                        misses.fetch_add(1, Ordering::Relaxed);
                        Err(missing(url))
                    };
                    data.seek(&published(), &file(name), ask).unwrap();
                });
            }
        });
        assert_eq!(misses.into_inner(), 1);
    }
}
