//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use tempfile::NamedTempFile;

use crate::Error;

/// Temporary files of this project start so; a killed writer leaves them, and
/// nothing but a writer's own clean-up removes them.
pub const TEMP_PREFIX: &str = ".gular-tmp-";

pub(crate) fn temp_in(dir: &Path) -> Result<NamedTempFile, Error> {
    use std::os::unix::fs::PermissionsExt as _;
    tempfile::Builder::new()
        .prefix(TEMP_PREFIX)
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(dir)
        .map_err(|e| Error::io("create a temporary file in", dir, e))
}

/// Gives `temp` its final name: fsync, rename, fsync of the folder.
///
/// A file of that name is replaced: names are content-addressed, so what was
/// there held the same bytes, unless it was damaged.
pub(crate) fn persist(temp: NamedTempFile, to: &Path) -> Result<(), Error> {
    temp.as_file().sync_all().map_err(|e| Error::io("write", to, e))?;
    temp.persist(to).map_err(|e| Error::io("rename to", to, e.error))?;
    sync_parent(to)
}

/// Writes `bytes` to `path` under a temporary name, then renames.
///
/// # Errors
/// [`Error::Io`]; then nothing of that name was created or changed.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut temp = temp_in(folder_of(path))?;
    temp.write_all(bytes).map_err(|e| Error::io("write", path, e))?;
    persist(temp, path)
}

/// The folder that holds `path`; a bare name lies in the current one, whose
/// name `Path::parent` gives as nothing at all.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a growing file back to the disk while it is still being written, so
/// that the fsync before its rename finds little left to do.
#[derive(Debug)]
pub struct WriteBack {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl WriteBack {
    /// Starts a thread that serves `file`.
    ///
    /// # Errors
    /// When the file cannot be opened twice, or there is no thread.
    pub fn start(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        // One request may wait while another is served; more would say nothing new.
        let (wake, woken) = sync_channel(1);
        let work = move || woken.iter().try_for_each(|()| file.sync_data());
        let thread = std::thread::Builder::new().name("write-back".to_owned()).spawn(work)?;
        Ok(Self { wake: Some(wake), thread: Some(thread) })
    }

    /// Asks for what has been written so far; does not wait.
    pub fn request(&self) {
        if let Some(wake) = &self.wake {
            // Full: a request is waiting. Closed: a fault, which `finish` returns.
            let _ = wake.try_send(());
        }
    }

    /// Waits for the thread. Its fault must be returned: the kernel tells each
    /// one once, and a later fsync of the same file would not.
    ///
    /// # Errors
    /// That of any of its requests.
    pub fn finish(mut self) -> io::Result<()> {
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        self.wake = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(done)) => done,
            Some(Err(_)) => Err(io::Error::other("the thread that writes back ended by a panic")),
            None => Ok(()),
        }
    }
}

impl Drop for WriteBack {
    fn drop(&mut self) {
        // An abandoned file's faults concern nobody.
        let _ = self.join();
    }
}

fn sync_parent(path: &Path) -> Result<(), Error> {
    File::open(folder_of(path))
        .and_then(|dir| dir.sync_all())
        .map_err(|e| Error::io("sync the folder of", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_lies_in_the_current_folder() {
        for (path, folder) in [("a", "."), ("./a", "."), ("b/a", "b"), ("/a", "/")] {
            assert_eq!(folder_of(Path::new(path)), Path::new(folder), "{path}");
        }
    }
}
