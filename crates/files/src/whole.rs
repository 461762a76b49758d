//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::Error;

/// The prefix of this project's temporary files. A killed writer leaves them behind, and only the
/// clean-up of a later writer removes them.
pub const TEMP_PREFIX: &str = ".gular-tmp-";

/// A small file is written within a second; on a file system that hangs, it may take some minutes.
const ABANDONED: Duration = Duration::from_secs(15 * 60);

/// The number of letters and digits that follow the prefix of a file that [`temp_in`] makes.
const RANDOM_LEN: usize = 6;

/// Makes a temporary file in `dir` that all users may read; it is removed when dropped.
///
/// # Errors
/// When none can be created there.
pub fn temp_in(dir: &Path) -> Result<NamedTempFile, Error> {
    temp_with_mode(dir, 0o644)
}

/// Removes the files that [`temp_in`] made in `dir` and a killed process left. The caller must make
/// sure that nobody is writing there. Files that stay do no harm.
pub fn remove_left_temps(dir: &Path) {
    remove_temps(dir, Duration::ZERO);
}

/// Removes the files that [`temp_in`] made in `dir` and that a killed process left some time ago. For
/// folders with small files, in which other processes may be writing at this moment.
pub fn remove_abandoned_temps(dir: &Path) {
    remove_temps(dir, ABANDONED);
}

fn remove_temps(dir: &Path, unchanged_for: Duration) {
    let is_left = |name: &str| {
        let random = name.strip_prefix(TEMP_PREFIX).unwrap_or_default();
        random.len() == RANDOM_LEN && random.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_old = || {
            let changed = entry.metadata().and_then(|found| found.modified()).ok();
            changed.and_then(|at| at.elapsed().ok()).is_some_and(|age| age >= unchanged_for)
        };
        let is_old = unchanged_for.is_zero() || is_old();
        if is_old && entry.file_name().to_str().is_some_and(is_left) {
            // Folders are kept: no function here makes one.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes a temporary file like [`temp_in`], with this mode less the umask.
///
/// # Errors
/// When none can be created there.
pub fn temp_with_mode(dir: &Path, mode: u32) -> Result<NamedTempFile, Error> {
    tempfile::Builder::new()
        .prefix(TEMP_PREFIX)
        .rand_bytes(RANDOM_LEN)
        .permissions(fs::Permissions::from_mode(mode))
        .tempfile_in(dir)
        .map_err(|e| Error::new("create a temporary file in", dir, without_name(e)))
}

/// The system's error itself: `tempfile` adds the name of a file that users do not know.
fn without_name(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|e| e.source()?.downcast_ref::<io::Error>());
    inner.and_then(io::Error::raw_os_error).map_or(error, io::Error::from_raw_os_error)
}

/// Whether the file at `path` begins with `start`, which means that an earlier run wrote it, and
/// the next may replace it.
#[must_use]
pub fn begins_with(path: &Path, start: &[u8]) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|f| f.take(start.len() as u64).read_to_end(&mut head));
    read.is_ok() && head == start
}

/// Gives `temp` its final name, in its own folder: fsync, rename, fsync of the folder.
///
/// A file of that name is replaced. For content-addressed names that is safe: the old file had the
/// same bytes, unless it was damaged.
///
/// # Errors
/// After an error, no file of that name was changed, unless only the folder's fsync failed.
pub fn persist(temp: NamedTempFile, to: &Path) -> Result<File, Error> {
    temp.as_file().sync_all().map_err(|e| Error::new("write", to, e))?;
    let file = temp.persist(to).map_err(|e| Error::new("rename to", to, e.error))?;
    sync_folder(folder_of(to))?;
    Ok(file)
}

/// Does the same as [`persist`] for two files of one folder, which is synced once. The second gets
/// its name only after the first.
///
/// # Errors
/// After an error, no file of these names was changed, or only the first, unless only the folder's
/// fsync failed.
pub fn persist_both(
    first: (NamedTempFile, &Path),
    second: (NamedTempFile, &Path),
) -> Result<(), Error> {
    let folder = folder_of(second.1);
    let both = [first, second];
    for (temp, to) in &both {
        temp.as_file().sync_all().map_err(|e| Error::new("write", to, e))?;
    }
    for (temp, to) in both {
        temp.persist(to).map_err(|e| Error::new("rename to", to, e.error))?;
    }
    sync_folder(folder)
}

/// Does the same as [`persist`], but never replaces a file.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if there is a file of that name; otherwise those of
/// [`persist`].
pub fn persist_new(temp: NamedTempFile, to: &Path) -> Result<File, Error> {
    temp.as_file().sync_all().map_err(|e| Error::new("write", to, e))?;
    let file = temp.persist_noclobber(to).map_err(|e| Error::new("rename to", to, e.error))?;
    sync_folder(folder_of(to))?;
    Ok(file)
}

/// Renames `file` from `from` to its final name `to` in the same folder, and makes it read-only:
/// fsync, rename, mode 0444, fsync of the folder. A file named `to` is replaced.
///
/// The mode is changed last, so that until the rename a later run can open the file for writing and
/// continue.
///
/// # Errors
/// After an error, `to` may already be the new file, but is never a part of it.
pub fn persist_read_only(file: &File, from: &Path, to: &Path) -> Result<(), Error> {
    file.sync_all().map_err(|e| Error::new("write", from, e))?;
    fs::rename(from, to).map_err(|e| Error::new("rename to", to, e))?;
    file.set_permissions(fs::Permissions::from_mode(0o444))
        .map_err(|e| Error::new("protect", to, e))?;
    sync_folder(folder_of(to))
}

/// Gives a file or folder the name `to` and syncs the folder of that name. Its contents must be on
/// the disk already.
///
/// # Errors
/// After an error, nothing was renamed, unless only the folder's fsync failed.
pub fn rename_synced(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(|e| Error::new("rename to", to, e))?;
    sync_folder(folder_of(to))
}

/// Writes `bytes` to `path` under a temporary name, then renames.
///
/// # Errors
/// Then nothing of that name was created or changed, unless only the folder's fsync failed.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut temp = temp_in(folder_of(path))?;
    temp.write_all(bytes).map_err(|e| Error::new("write", path, e))?;
    persist(temp, path).map(drop)
}

/// Makes the names in `dir` as durable as its files.
///
/// File systems that cannot do that for folders (some FUSE and network ones) are
/// taken as they are: nothing better can be asked of them.
///
/// # Errors
/// Any other fault of the disk.
pub fn sync_folder(dir: &Path) -> Result<(), Error> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    tolerate(synced).map_err(|e| Error::new("sync the folder", dir, e))
}

fn tolerate(synced: io::Result<()>) -> io::Result<()> {
    synced.or_else(|e| match Errno::from_io_error(&e) {
        Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        _ => Err(e),
    })
}

/// The folder that holds `path`; a bare name is in the current one, which
/// `Path::parent` calls by an empty name.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let name = |e: io::Result<fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
        fs::read_dir(dir).unwrap().map(name).collect()
    }

    #[test]
    fn a_bare_name_is_in_the_current_folder() {
        for (path, folder) in [("a", "."), ("./a", "."), ("b/a", "b"), ("/a", "/")] {
            assert_eq!(folder_of(Path::new(path)), Path::new(folder), "{path}");
        }
    }

    #[test]
    fn a_file_has_its_bytes_and_nothing_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for text in ["first", "second"] {
            write_file(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names(dir.path()), ["f"]);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o600, 0o600, "{mode:o}");
    }

    #[test]
    fn what_another_process_may_be_writing_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let [old, new] = [0, 1].map(|_| temp_in(dir.path()).unwrap());
        let before = std::time::SystemTime::now() - ABANDONED - Duration::from_secs(1);
        old.as_file().set_modified(before).unwrap();
        fs::write(dir.path().join("f"), "").unwrap();
        remove_abandoned_temps(dir.path());
        assert!(!old.path().exists() && new.path().exists());
        remove_left_temps(dir.path());
        assert_eq!(names(dir.path()), ["f"]);
    }

    #[test]
    fn of_two_files_the_second_appears_after_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        let both = || {
            let [first, second] = ["one", "two"].map(|text| {
                let mut temp = temp_in(dir.path()).unwrap();
                temp.write_all(text.as_bytes()).unwrap();
                temp
            });
            persist_both((first, &a), (second, &b))
        };
        fs::create_dir_all(a.join("full")).unwrap();
        assert_eq!(both().unwrap_err().action, "rename to");
        assert_eq!(names(dir.path()), ["a"]);
        fs::remove_dir_all(&a).unwrap();
        both().unwrap();
        assert_eq!([&a, &b].map(|path| fs::read_to_string(path).unwrap()), ["one", "two"]);
        assert_eq!(names(dir.path()).len(), 2);
    }

    #[test]
    fn what_is_there_is_not_overwritten_by_a_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let put = |text: &str| {
            let mut temp = temp_in(dir.path()).unwrap();
            temp.write_all(text.as_bytes()).unwrap();
            persist_new(temp, &path)
        };
        put("first").unwrap();
        let error = put("second").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(names(dir.path()), ["f"]);
    }

    #[test]
    fn a_finished_file_is_read_only_and_one_that_failed_to_finish_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let [part, to] = ["part", "to"].map(|name| dir.path().join(name));
        fs::write(&part, "whole").unwrap();
        let file = File::options().write(true).open(&part).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        // A rename that fails stands for a kill before the rename.
        fs::create_dir_all(to.join("full")).unwrap();
        let error = persist_read_only(&file, &part, &to).unwrap_err();
        assert_eq!(error.action, "rename to");
        assert_eq!(mode(&part) & 0o200, 0o200, "a later run could not open it");
        fs::remove_dir_all(&to).unwrap();
        persist_read_only(&file, &part, &to).unwrap();
        assert_eq!((fs::read_to_string(&to).unwrap().as_str(), mode(&to)), ("whole", 0o444));
        assert_eq!(names(dir.path()), ["to"]);
    }

    #[test]
    fn a_folder_is_renamed_or_stays() {
        let dir = tempfile::tempdir().unwrap();
        let [part, to] = ["part", "to"].map(|name| dir.path().join(name));
        fs::create_dir_all(part.join("a")).unwrap();
        fs::create_dir_all(to.join("full")).unwrap();
        assert_eq!(rename_synced(&part, &to).unwrap_err().action, "rename to");
        assert!(part.join("a").exists());
        fs::remove_dir_all(&to).unwrap();
        rename_synced(&part, &to).unwrap();
        assert_eq!(names(&to), ["a"]);
        assert_eq!(names(dir.path()), ["to"]);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = write_file(Path::new("/no/such/folder/f"), b"").unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("cannot create a temporary file in `/no/such/folder`: "),
            "{text}"
        );
    }

    #[test]
    fn folders_without_fsync_are_taken_as_they_are() {
        let of = |errno: Errno| tolerate(Err(errno.into()));
        for errno in [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP] {
            of(errno).unwrap();
        }
        of(Errno::IO).unwrap_err();
        of(Errno::NOSPC).unwrap_err();
        let error = sync_folder(Path::new("/no/such/folder")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
