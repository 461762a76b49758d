//! A recipe and the files next to it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::lock::{ImageLock, LOCK_BEGINS};
use crate::recipe::Recipe;
use crate::{Error, Result};

/// A recipe on the disk, and the files around it.
///
/// ```text
/// DIR/NAME.toml   the recipe; its relative paths start from DIR
/// DIR/NAME.lock   made from it
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Project {
    /// The recipe.
    pub recipe: Recipe,
    /// Its text, which goes into images.
    pub text: String,
    /// Its folder.
    pub dir: PathBuf,
    /// `image.lock` beside `image.toml`.
    pub lock_path: PathBuf,
}

impl Project {
    /// Reads and checks a recipe.
    ///
    /// # Errors
    /// [`Error::NoRecipe`]; those of [`Recipe::open`].
    pub fn open(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Err(Error::NoRecipe { path: path.display().to_string() });
        }
        let recipe = Recipe::open(path)?;
        let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new(".")).to_owned();
        Ok(Self { recipe, text, dir, lock_path: path.with_extension("lock") })
    }

    /// The lock beside the recipe; `None` when there is none. It may be out of date.
    ///
    /// # Errors
    /// Those of [`ImageLock::open`].
    pub fn lock(&self) -> Result<Option<ImageLock>> {
        self.check_lock_path()?;
        self.lock_path.exists().then(|| ImageLock::open(&self.lock_path)).transpose()
    }

    /// The lock beside the recipe; an error unless it was made from the current recipe.
    ///
    /// # Errors
    /// [`Error::NoLock`], [`Error::Stale`]; those of [`ImageLock::open`].
    pub fn current_lock(&self) -> Result<ImageLock> {
        let path = self.lock_path.display().to_string();
        let Some(lock) = self.lock()? else { return Err(Error::NoLock { path }) };
        lock.check_files(&self.recipe, &self.dir, &path)?;
        Ok(lock)
    }

    /// Checks that the file beside the recipe is a lock of this program, if there is one: `uv.lock`
    /// beside `uv.toml` is not.
    ///
    /// # Errors
    /// [`Error::ForeignLock`].
    pub fn check_lock_path(&self) -> Result<()> {
        let path = &self.lock_path;
        let is_ours =
            |text: &str| text.starts_with(LOCK_BEGINS) || ImageLock::parse(text, "").is_ok();
        match fs::read_to_string(path) {
            Ok(text) if !is_ours(&text) => {
                Err(Error::ForeignLock { path: path.display().to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Writes the lock under a temporary name, then renames it. Returns whether that changed the
    /// file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::ForeignLock`].
    pub fn write_lock(&self, lock: &ImageLock) -> Result<bool> {
        self.check_lock_path()?;
        let text = lock.to_text();
        if self.has_lock_text(&text) {
            return Ok(false);
        }
        gular_files::write_file(&self.lock_path, text.as_bytes())?;
        Ok(true)
    }

    fn has_lock_text(&self, text: &str) -> bool {
        fs::read_to_string(&self.lock_path).is_ok_and(|there| there == text)
    }
}
