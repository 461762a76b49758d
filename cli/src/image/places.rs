//! Where recipes, locks and caches are.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gular_containers::fetch::Archives;
use gular_containers::lock::{Lock, Sources};
use gular_containers::recipe::Recipe;
use gular_containers::store::Store;
use gular_pelican::Env;

use super::args::{PlaceArgs, SourceArgs};
use crate::exit::Failure;

/// A recipe, and the files around it.
pub(super) struct Place {
    pub(super) recipe: Recipe,
    pub(super) text: String,
    /// The recipe's folder, which its relative paths start from.
    pub(super) dir: PathBuf,
    /// `image.lock` beside `image.toml`, `NAME.lock` beside `NAME.toml`.
    pub(super) lock_path: PathBuf,
}

impl Place {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            let message = format!("there is no recipe `{}`", path.display());
            let hint = "write one: `gular image --help` and docs/images.md show how";
            return Err(Failure::new(message, Some(hint.to_owned())));
        }
        let recipe = Recipe::open(path)?;
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::new(format!("cannot read `{}`: {e}", path.display()), None))?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or(Path::new(".")).to_owned();
        Ok(Self { recipe, text, dir, lock_path: path.with_extension("lock") })
    }

    /// The lock beside the recipe, when there is one.
    pub(super) fn lock(&self) -> Result<Option<Lock>, Failure> {
        if !self.lock_path.exists() {
            return Ok(None);
        }
        Ok(Some(Lock::open(&self.lock_path)?))
    }
}

/// The cache, with one folder for each kind of thing.
pub(super) struct Cache {
    dir: PathBuf,
}

impl Cache {
    pub(super) fn new(args: &PlaceArgs) -> Result<Self, Failure> {
        if let Some(dir) = &args.cache {
            return Ok(Self { dir: dir.clone() });
        }
        let env = Env::process();
        let named = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = named("GULAR_IMAGE_CACHE")
            .or_else(|| named("XDG_CACHE_HOME").map(|dir| dir.join("gular/image")))
            .or_else(|| named("HOME").map(|dir| dir.join(".cache/gular/image")));
        let dir = dir.ok_or_else(|| {
            let hint = "name one by `--cache DIR`, or set HOME";
            Failure::new("there is no folder for the cache", Some(hint.to_owned()))
        })?;
        Ok(Self { dir })
    }

    pub(super) fn archives(&self, vendor: &[PathBuf], offline: bool) -> Archives {
        Archives { dir: self.dir.join("archives"), vendor: vendor.to_vec(), offline }
    }

    pub(super) fn store(&self) -> Store {
        // Its version changes when what archives become does.
        Store::new(&self.dir.join("store-1"))
    }

    pub(super) fn blocks(&self) -> PathBuf {
        self.dir.join("blocks")
    }

    /// The folder itself, which is on one file system with the files in it.
    pub(super) fn made(&self) -> Result<&Path, Failure> {
        std::fs::create_dir_all(&self.dir).map_err(|e| {
            Failure::new(format!("cannot create `{}`: {e}", self.dir.display()), None)
        })?;
        Ok(&self.dir)
    }

    pub(super) fn layers(&self) -> PathBuf {
        self.dir.join("layers")
    }
}

pub(super) fn sources(args: &SourceArgs, dir: &Path) -> Sources {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Sources {
        debian: args.mirror.clone(),
        debian_security: args.security.clone(),
        keyrings: args.keyring.clone(),
        index: args.index.clone(),
        now,
        dir: dir.to_owned(),
    }
}

/// A program that is on PATH.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file())
}
