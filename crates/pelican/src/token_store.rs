//! Stores a user's token for later commands.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use gular_files::{folder_of, persist, temp_with_mode};

use crate::{Env, Error, Token};

/// Returns the first of the usual files in which tokens are looked for: WLCG's
/// `$XDG_RUNTIME_DIR/bt_u<uid>`, else `/tmp/bt_u<uid>`.
#[must_use]
pub fn usual_token_file(env: &Env) -> PathBuf {
    let uid = rustix::process::getuid().as_raw();
    Path::new(env.get("XDG_RUNTIME_DIR").unwrap_or("/tmp")).join(format!("bt_u{uid}"))
}

impl Token {
    /// Writes the token to a file that only its owner may read; an existing file is replaced.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn keep(&self, path: &Path) -> Result<(), Error> {
        let io = |e| Error::io("write", path, e);
        let mut file = temp_with_mode(folder_of(path), 0o600)?;
        // These permissions do not depend on the umask.
        file.as_file().set_permissions(Permissions::from_mode(0o600)).map_err(io)?;
        writeln!(file, "{}", self.secret()).map_err(io)?;
        // A name that is a folder cannot be replaced, and says so; a link is.
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
            return Err(io(std::io::ErrorKind::IsADirectory.into()));
        }
        persist(file, path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (dir.path().join("bt"), dir.path().join("elsewhere"));
        fs::write(&elsewhere, "theirs").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        for secret in ["one", "two"] {
            Token::parse(secret).unwrap().keep(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{secret}\n"));
            let found = fs::symlink_metadata(&path).unwrap();
            assert_eq!(found.permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "theirs", "a link was followed");
        let error = Token::parse("x").unwrap().keep(dir.path()).unwrap_err();
        assert!(!error.to_string().is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
