//! The cached blocks that can be used for the image being written.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::files::{Files, Placed, blake3_hex};

/// Bytes of a list that are read at most: 64 MiB tell of images of a terabyte.
const MAX_LIST: u64 = 64 << 20;

/// The images that were in the cache when the new image was begun.
#[derive(Debug, Default)]
pub(crate) struct EarlierBlocks {
    images: Vec<EarlierImage>,
    /// For each key the number of the image, and the file's place in it.
    files: HashMap<String, (usize, Placed)>,
    sizes: HashSet<u64>,
}

#[derive(Debug)]
struct EarlierImage {
    folder: PathBuf,
    file: File,
    used: AtomicBool,
    damaged: AtomicBool,
}

/// One file's blocks in an image of the cache.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    image: &'a EarlierImage,
    pub(crate) placed: &'a Placed,
}

impl EarlierBlocks {
    /// Reads what is said in `folder`. `None` when that is damaged.
    pub(super) fn add(&mut self, folder: &Path) -> Option<()> {
        let list = read_list(folder)?;
        let file = File::open(folder.join("image")).ok()?;
        let bytes = file.metadata().ok()?.len();
        let number = self.images.len();
        for placed in list.files {
            if !placed.is_sound(bytes) {
                return None;
            }
            self.sizes.insert(placed.size);
            self.files.insert(placed.key.clone(), (number, placed));
        }
        let folder = folder.to_owned();
        let (used, damaged) = (AtomicBool::new(false), AtomicBool::new(false));
        self.images.push(EarlierImage { folder, file, used, damaged });
        Some(())
    }

    /// Whether any file has this length: otherwise its digest need not be known.
    pub(crate) fn has_size(&self, size: u64) -> bool {
        self.sizes.contains(&size)
    }

    pub(crate) fn find(&self, key: &str) -> Option<Found<'_>> {
        let (number, placed) = self.files.get(key)?;
        Some(Found { image: self.images.get(*number)?, placed })
    }

    /// Folders of images that lent blocks, and of those found damaged.
    pub(super) fn outcome(&self) -> (Vec<&Path>, Vec<&Path>) {
        let of = |wanted: fn(&EarlierImage) -> bool| {
            self.images.iter().filter(|i| wanted(i)).map(|i| i.folder.as_path()).collect()
        };
        (of(|i| i.is_sound() && i.used.load(Ordering::Relaxed)), of(|i| !i.is_sound()))
    }
}

impl EarlierImage {
    fn is_sound(&self) -> bool {
        !self.damaged.load(Ordering::Relaxed)
    }
}

impl Found<'_> {
    /// The bytes of run `number`, when they are what they were.
    pub(crate) fn read(&self, number: usize, at: u64, len: usize) -> Option<Vec<u8>> {
        self.image.used.store(true, Ordering::Relaxed);
        let mut bytes = vec![0; len];
        let read = self.image.file.read_exact_at(&mut bytes, at);
        let sound = read.is_ok() && self.placed.digests.get(number) == Some(&blake3_hex(&bytes));
        if !sound {
            self.image.damaged.store(true, Ordering::Relaxed);
        }
        sound.then_some(bytes)
    }
}

/// The list in `folder`, when its digest is the folder's name.
pub(super) fn read_list(folder: &Path) -> Option<Files> {
    let file = File::open(folder.join("files")).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_LIST + 1).read_to_end(&mut bytes).ok()?;
    let named = folder.file_name()?.to_str()?;
    let sound = bytes.len() as u64 <= MAX_LIST && named == blake3_hex(&bytes);
    sound.then(|| serde_json::from_slice(&bytes).ok()).flatten()
}
