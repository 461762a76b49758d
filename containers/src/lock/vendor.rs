//! Copies all archives of a lock into one folder that can be taken elsewhere.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gular_files::{persist, temp_in};

use super::ImageLock;
use crate::fetch::{Archives, Told, Transport};
use crate::{Error, Package, Result};

/// Puts every file of a lock, and nothing else, into `dir` under its own name; correct files that
/// exist are kept. `progress` hears an archive's name, and how many bytes of all are there.
///
/// # Errors
/// Those of [`Archives::get`].
pub fn vendor(
    lock: &ImageLock,
    archives: &Archives,
    dir: &Path,
    transport: &dyn Transport,
    progress: &dyn Fn(&str, u64),
    waiting: &dyn Fn(&Path),
    cancel: &AtomicBool,
) -> Result<()> {
    fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    let mut before = 0;
    // Wheels beside the recipe are taken along with it.
    let is_here = |package: &&Package| package.urls.iter().any(|url| url.starts_with("./"));
    for package in lock.archives().filter(|package| !is_here(package)) {
        let progress = |done: u64| progress(&package.name, before + done);
        let told = Told { progress: &progress, waiting };
        // A package without a file name is refused by [`Archives::get`].
        let file_name = package.file_name().unwrap_or_default();
        let to = dir.join(&file_name);
        let there = Archives { dir: archives.dir.clone(), vendor: vec![dir.into()], offline: true };
        if to.exists() && there.get(package, transport, told, cancel).is_ok() {
            before += package.bytes;
            continue;
        }
        let from = archives.get(package, transport, told, cancel)?;
        // A copy: a link would carry what happens to it here into the cache.
        let mut temp = temp_in(dir)?;
        let copied = File::open(&from).and_then(|mut from| io::copy(&mut from, &mut temp));
        copied.map_err(Error::io("write", &to))?;
        persist(temp, &to)?;
        before += package.bytes;
    }
    Ok(())
}
