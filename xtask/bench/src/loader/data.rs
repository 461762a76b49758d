//! The images of a run and the bundles made of them, kept for the next run on the same images.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use xtask::process::{self, command};

use super::Programs;
use super::process::Start;
use super::rows::{Needs, Ours};
use crate::pack::walk;

/// Side of the images in a raw bundle, in pixels.
pub(super) const SIDE: &str = "256";

/// A read of 512 bytes or more waits a millisecond, as one from a server does.
const LATE: &str = r#"#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t pread64(int fd, void *to, size_t len, off64_t offset) {
    static ssize_t (*next)(int, void *, size_t, off64_t);
    if (!next) next = (ssize_t (*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    if (len >= 512) usleep(1000);
    return next(fd, to, len, offset);
}
"#;

pub(crate) struct Data {
    work: PathBuf,
    /// The number of images, their bytes, and their source.
    pub(crate) facts: Value,
}

impl Data {
    /// Copies or makes `n` images, unless the last run did; then the bundles of others go.
    pub(crate) fn prepare(
        programs: &Programs,
        source: Option<&Path>,
        n: usize,
        work: &Path,
    ) -> Result<Self> {
        let source = source.map(std::path::absolute).transpose()?;
        let stamp = work.join("images.json");
        let is_asked =
            |facts: &Value| facts["samples"] == n && facts["source"] == json!(source.as_deref());
        let known = fs::read(&stamp).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let Some(facts) = known.filter(is_asked) {
            return Ok(Self { work: work.to_owned(), facts });
        }
        // The million small images do not depend on the source, so they are kept.
        for entry in fs::read_dir(work)? {
            let path = entry?.path();
            if !["many", "packages", "logs"].iter().any(|kept| path.ends_with(kept)) {
                remove(&path)?;
            }
        }
        let images = work.join("images");
        eprintln!("{n} images in `{}`", images.display());
        let distinct = match &source {
            Some(source) => copy(source, &images, n)?,
            None => {
                let mut make = command(&programs.loader_rates);
                make.env("LD_LIBRARY_PATH", &programs.library_path);
                process::run(make.arg("images").arg(&images).arg(n.to_string()))?;
                n
            }
        };
        let bytes: u64 =
            files(&images)?.iter().map(|path| path.metadata().map_or(0, |m| m.len())).sum();
        let facts = json!({
            "samples": n, "bytes": bytes, "distinct": distinct, "source": source,
        });
        fs::write(&stamp, format!("{facts}\n"))?;
        Ok(Self { work: work.to_owned(), facts })
    }

    /// Describes the images for a record: with the name of their folder, not its whole path.
    pub(crate) fn described(&self) -> Value {
        let mut facts = self.facts.clone();
        let source =
            facts["source"].as_str().and_then(|path| Path::new(path).file_name()?.to_str());
        facts["source"] = json!(source);
        facts
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.work.join("images")
    }

    /// Makes what a process of ours reads, and returns how to start it.
    pub(crate) fn ours(&self, ours: &Ours, programs: &Programs) -> Result<Start> {
        let mut command = command(&programs.loader_rates);
        command.env("LD_LIBRARY_PATH", &programs.library_path).arg(ours.what);
        let mut files = Vec::new();
        let raw = || self.bundle(programs, "raw", &["--payload", "raw", "--size", SIDE]);
        match ours.needs {
            Needs::Images => {
                let bundle = self.images_bundle(programs)?;
                files = self::files(&bundle)?;
                command.arg(bundle);
            }
            Needs::Shards64 => {
                command.arg(self.in_64_shards(programs)?);
            }
            Needs::Served => {
                let bundle = self.in_64_shards(programs)?;
                command.arg(&programs.gular).arg(bundle).arg(self.work.join("stream"));
            }
            Needs::Reencoded => {
                let how = ["--payload", "reencoded", "--quality", "90"];
                command.arg(self.bundle(programs, "reencoded", &how)?);
            }
            Needs::Raw => {
                command.arg(raw()?).arg(&self.work);
            }
            Needs::ImagesAndRaw => {
                command.arg(self.images_bundle(programs)?).arg(raw()?);
            }
            Needs::Envelopes => {
                for envelope in ["arrow", "parquet", "hdf5", "tar", "squashfs"] {
                    let name = format!("envelopes/{envelope}");
                    self.bundle(programs, &name, &["--envelope", envelope])?;
                }
                self.images_bundle(programs)?;
                command.arg(self.work.join("envelopes"));
            }
            Needs::Many(backend) => {
                let many = self.work.join("many");
                fs::create_dir_all(&many)?;
                if backend.is_empty() {
                    command.arg(many);
                } else {
                    command.arg(many.join("many")).arg(backend);
                }
            }
        }
        if ours.is_late {
            command.env("LD_PRELOAD", self.late()?);
        }
        Ok(Start { command, name: ours.name.to_owned(), is_ours: true, files })
    }

    fn in_64_shards(&self, programs: &Programs) -> Result<PathBuf> {
        let bytes = self.facts["bytes"].as_u64().unwrap_or_default();
        let size = bytes.div_ceil(64).to_string();
        self.bundle(programs, "shards-64", &["--shard-size", &size])
    }

    fn images_bundle(&self, programs: &Programs) -> Result<PathBuf> {
        self.bundle(programs, "envelopes/shards", &[])
    }

    /// A bundle of the images, packed unless it is there.
    fn bundle(&self, programs: &Programs, name: &str, how: &[&str]) -> Result<PathBuf> {
        let bundle = self.work.join(name);
        if bundle.join("manifest.json").exists() {
            return Ok(bundle);
        }
        fs::create_dir_all(&bundle)?;
        eprintln!("  packing `{}`", bundle.display());
        let mut pack = command(&programs.gular);
        pack.arg("pack").arg(self.images()).arg(&bundle).args(how);
        // Photographs as people have them: what no decoder takes is left out for all.
        pack.args([
            "--stored-order",
            "sorted",
            "--images",
            "{label}/{key}.{ext}",
            "--on-error",
            "skip",
        ]);
        done(pack.args(["--quiet", "--json"]))?;
        Ok(bundle)
    }

    /// Builds the library that delays reads.
    fn late(&self) -> Result<PathBuf> {
        let (code, library) = (self.work.join("late.c"), self.work.join("late.so"));
        fs::write(&code, LATE)?;
        let mut cc = command("cc");
        cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&code).arg("-ldl");
        done(&mut cc)
            .context("the program `gcc` is missing; install it with `apt-get install gcc`")?;
        Ok(library)
    }
}

/// Runs `command` to its end, and says what it said only if it failed.
pub(super) fn done(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| process::cannot_start(command))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = said.lines().rev().take(6).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        bail!("`{}` ended with {}:\n{}", process::line(command), output.status, last.join("\n"));
    }
    Ok(())
}

/// All files below `dir`, or `dir` itself.
pub(super) fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    if dir.is_file() {
        return Ok(vec![dir.to_owned()]);
    }
    let mut found = Vec::new();
    walk(dir, &mut found)?;
    Ok(found)
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.with_context(|| format!("cannot remove `{}`", path.display()))
}

/// `n` files, each JPEG below `source` in turn and again under other names; returns how many
/// there are. A class is a file's folder.
fn copy(source: &Path, to: &Path, n: usize) -> Result<usize> {
    let is_jpeg = |path: &PathBuf| {
        path.extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("jpg") || e.eq_ignore_ascii_case("jpeg"))
    };
    let found: Vec<PathBuf> = files(source)?.into_iter().filter(is_jpeg).collect();
    ensure!(!found.is_empty(), "no JPEG below `{}`", source.display());
    for number in 0..n {
        // Spread over all, where there are more than are asked for.
        let at = if found.len() > n { number * found.len() / n } else { number % found.len() };
        let path = &found[at];
        let class = path.parent().and_then(Path::file_name).unwrap_or_default();
        let folder = to.join(class);
        fs::create_dir_all(&folder)?;
        let name = folder.join(format!("{number:06}.jpg"));
        fs::copy(path, &name).with_context(|| format!("cannot copy `{}`", path.display()))?;
    }
    Ok(found.len().min(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_images_come_again_and_of_many_some_are_taken_from_all() {
        let dir = std::env::temp_dir().join(format!("images-{}", std::process::id()));
        let source = dir.join("source/cats");
        fs::create_dir_all(&source).unwrap();
        for name in ["a.JPG", "b.jpeg", "c.jpg", "d.jpg", "notes.txt"] {
            fs::write(source.join(name), name).unwrap();
        }
        let copied = |n: usize| {
            let to = dir.join(n.to_string());
            let distinct = copy(&source, &to, n).unwrap();
            let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
            (distinct, files(&to).unwrap().iter().map(read).collect::<Vec<_>>())
        };
        assert_eq!(copied(2), (2, vec!["a.JPG".into(), "c.jpg".into()]));
        let (distinct, all) = copied(6);
        assert_eq!((distinct, all.len(), all[4].as_str()), (4, 6, "a.JPG"));
        assert!(copy(&dir.join("6"), &dir.join("none"), 1).is_ok());
        fs::create_dir_all(dir.join("empty")).unwrap();
        let error = copy(&dir.join("empty"), &dir.join("none"), 1).unwrap_err().to_string();
        assert!(error.contains("no JPEG"), "{error}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
