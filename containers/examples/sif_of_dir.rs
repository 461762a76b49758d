//! Makes a SIF of a folder. The peer tests read it, and `cargo xtask bench image` measures it.
//!
//! `sif_of_dir DIR IMAGE [--zstd] [--jobs N] [--program FILE] [--blocks DIR]
//! [--known FILE]`, or `sif_of_dir --digests DIR`
//!
//! Files and links below DIR keep their modes; `--program` adds one file as
//! `/opt/app/bin/program`. Prints the image's bytes, and how many bytes of files
//! had their blocks in `--blocks`. `--known` names a file with what `--digests`
//! printed: digests that are known in advance, as those of unpacked archives are.

#![expect(clippy::print_stdout, reason = "a program, not a library")]

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;

use gular_containers::UnixTime;
use gular_containers::blocks::BlockCache;
use gular_containers::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use gular_containers::sif::{Arch, Contents, Squash, write_image};
use gular_containers::singularity::{Description, describe};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const RECIPE: &str = "[image]\nname = \"folder\"\n";
const TIME: UnixTime = UnixTime(1_700_000_000);
const MOST_CACHED: u64 = 20 << 30;

fn main() -> Result<()> {
    let mut given = env::args_os().skip(1);
    let dir = PathBuf::from(given.next().ok_or("no DIR")?);
    let image = PathBuf::from(given.next().ok_or("no IMAGE")?);
    if dir == Path::new("--digests") {
        return digests(&image);
    }
    let (mut squash, mut blocks) = (Squash::Gzip, None);
    let mut threads = thread::available_parallelism()?;
    let mut tree = Rootfs::default();
    let mut known = BTreeMap::new();
    while let Some(flag) = given.next() {
        let mut value = || given.next().ok_or("a flag without its value");
        match flag.to_str() {
            Some("--zstd") => squash = Squash::Zstd,
            Some("--jobs") => threads = value()?.to_string_lossy().parse()?,
            Some("--blocks") => blocks = Some(BlockCache::new(Path::new(&value()?), MOST_CACHED)),
            Some("--program") => {
                let program = file(&PathBuf::from(value()?), &known)?;
                let path = RootPath::new("opt/app/bin/program")?;
                tree.add(Layer::App, &path, 0o755, What::File(program))?;
            }
            Some("--known") => {
                let list = fs::read_to_string(value()?)?;
                let lines = list.lines().filter_map(|line| line.split_once("  "));
                known = lines.map(|(hex, path)| (path.into(), hex.to_owned())).collect();
            }
            _ => return Err(format!("no flag `{}`", flag.display()).into()),
        }
    }
    add_dir(&mut tree, &dir, &RootPath::ROOT, &known)?;
    let command = ["/opt/app/bin/program".to_owned()];
    let none = BTreeMap::new();
    let description = Description {
        arch: Arch::Amd64,
        command: &command,
        arguments: &[],
        env: &none,
        labels: &none,
        recipe: RECIPE,
    };
    let metadata = describe(&mut tree, &description)?;
    let contents = Contents {
        arch: Arch::Amd64,
        time: TIME,
        recipe: RECIPE,
        metadata: &metadata,
        sbom: Some("{\"spdxVersion\":\"SPDX-2.3\"}"),
        squash,
        threads,
        blocks: blocks.as_ref(),
    };
    let written = write_image(&tree, &contents, &image, &|_| {}, &AtomicBool::new(false))?;
    if let Some(error) = written.not_kept {
        return Err(error.into());
    }
    println!("{} {}", written.bytes, written.reused);
    Ok(())
}

/// Digests in hex by path.
type Known = BTreeMap<PathBuf, String>;

fn digests(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let metadata = path.symlink_metadata()?;
        if metadata.is_dir() {
            digests(&path)?;
        } else if metadata.is_file() {
            let mut hasher = blake3::Hasher::new();
            io::copy(&mut fs::File::open(&path)?, &mut hasher)?;
            println!("{}  {}", hasher.finalize().to_hex(), path.display());
        }
    }
    Ok(())
}

fn add_dir(tree: &mut Rootfs, dir: &Path, at: &RootPath, known: &Known) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let metadata = path.symlink_metadata()?;
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("names are UTF-8")?;
        let inside = RootPath::new(&format!("{}/{name}", at.as_str()))?;
        let mode = (metadata.mode() & 0o7777) as u16;
        if metadata.is_dir() {
            tree.add(Layer::Base, &inside, mode, What::Dir)?;
            add_dir(tree, &path, &inside, known)?;
        } else if metadata.is_symlink() {
            let target = fs::read_link(&path)?.into_os_string();
            let target = target.into_string().map_err(|_| "targets are UTF-8")?;
            tree.add(Layer::Base, &inside, 0o777, What::Symlink(target))?;
        } else {
            tree.add(Layer::Base, &inside, mode, What::File(file(&path, known)?))?;
        }
    }
    Ok(())
}

fn file(path: &Path, known: &Known) -> Result<FileBytes> {
    let bytes = fs::metadata(path)?.len();
    let blake3 = known.get(path).map(blake3::Hash::from_hex).transpose()?.map(Into::into);
    Ok(FileBytes::File { path: path.to_owned(), bytes, blake3 })
}
