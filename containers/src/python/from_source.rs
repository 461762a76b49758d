//! Packages without a wheel: built on this machine by `uv build`, if the recipe says so.
//!
//! ```text
//! built-wheels/SOURCE/NAME-VERSION-….whl    beside the recipe; SOURCE begins the source's digest
//! ```
//!
//! Building runs code of the package. A wheel of Python alone suits every image; one with compiled
//! code must be for the image's Python, and may not need a newer C library.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Interpreter;
use super::local::from_dir;
use super::pinned::{Listed, Pinned, Source};
use super::requirements::below;
use super::tags::WheelName;
use super::uv::index_words;
use super::wanted::Indexes;
use crate::elf::ElfFacts;
use crate::fetch::Transport;
use crate::package::names_a_user;
use crate::store::Limits;
use crate::swept_dir::SweptDir;
use crate::wheel::each_file;
use crate::{Error, Package, Result, Sha256};

/// The folder of built wheels, as URLs of a lock have it: beside the recipe.
pub(crate) const BUILT: &str = "./built-wheels";

/// The time that builders write into archives, so that a build gives the same bytes again: the
/// oldest that ZIP can hold, 1980-01-01.
const TIME: &str = "315532800";

/// Largest archive of sources.
const MAX_SOURCE: u64 = 2 << 30;

/// What a builder needs.
pub(super) struct Builder<'a> {
    /// The recipe's folder.
    pub(super) dir: &'a Path,
    pub(super) uv: Option<&'a Path>,
    /// Where packages are looked up that a build needs.
    pub(super) indexes: &'a Indexes,
    /// The index to ask if none is named instead.
    pub(super) usual: &'a str,
    pub(super) interpreter: &'a Interpreter,
    pub(super) transport: &'a dyn Transport,
}

impl Builder<'_> {
    /// Builds a package's wheel, or returns the one that was built from the same source before.
    ///
    /// # Errors
    /// [`Error::Wheel`] with what failed; [`Error::Fetch`], [`Error::Digest`], [`Error::Io`].
    pub(super) fn build(&self, pin: &Pinned, source: &Source) -> Result<Package> {
        // Programs run in this folder.
        let dir = std::path::absolute(self.dir).map_err(Error::io("read", self.dir))?;
        let built = dir.join(BUILT.trim_start_matches("./"));
        fs::create_dir_all(&built).map_err(Error::io("create", &built))?;
        let temp = SweptDir::new(".tmp", &built)?;
        let (key, fetched) = match source {
            Source::Archive(listed) => {
                let path = self.archive(listed, &dir, temp.path())?;
                (Some(Sha256::of_file(&path)?.to_string()), path)
            }
            Source::Git { url, commit, inside } => {
                let said = format!("{url} {commit} {}", inside.as_deref().unwrap_or_default());
                (Some(Sha256::of(said.as_bytes()).to_string()), PathBuf::new())
            }
            // Its contents may have changed.
            Source::Folder(path) => (None, dir.join(path)),
        };
        let key = key.as_deref().and_then(|key| key.get(..16)).unwrap_or(&pin.name);
        let kept = built.join(key);
        if !matches!(source, Source::Folder(_))
            && let Some(package) = self.suiting(pin, &kept)?
        {
            return Ok(package);
        }
        let from = match source {
            Source::Git { url, commit, inside } => {
                self.checkout(pin, url, commit, inside.as_deref(), temp.path())?
            }
            _ => fetched,
        };
        let out = temp.path().join("out");
        let python = self.python();
        let mut command = self.uv(pin)?;
        command.args(["build", "--wheel", "--quiet", "--out-dir"]).arg(&out);
        if let Some(python) = &python {
            command.arg("--python").arg(python);
        }
        command.args(index_words(self.indexes, self.usual, &dir));
        command.arg(&from).env("SOURCE_DATE_EPOCH", TIME).current_dir(&dir);
        let hint = "build its wheel yourself, where all that it needs is installed, and give the file in `wheels` of `[python]`";
        run(pin, command, "it cannot be built", hint)?;
        let Some(wheel) = wheels(&out)?.pop() else {
            return Err(failed(pin, "`uv build` made no wheel", hint));
        };
        self.must_suit(pin, &wheel, python.is_some())?;
        // A folder's earlier wheel is replaced.
        if kept.exists() {
            fs::remove_dir_all(&kept).map_err(Error::io("remove", &kept))?;
        }
        fs::rename(&out, &kept).map_err(Error::io("rename", &out))?;
        self.suiting(pin, &kept)?
            .ok_or_else(|| failed(pin, "the wheel that was built has another name", hint))
    }

    /// The wheel in a folder that suits the image.
    fn suiting(&self, pin: &Pinned, folder: &Path) -> Result<Option<Package>> {
        for path in wheels(folder)? {
            let Some(name) = wheel_name(&path).filter(|name| name.name == pin.name) else {
                continue;
            };
            // One that was kept may be for another image.
            if name.rank(self.interpreter).is_none() || self.too_new(&path)?.is_some() {
                continue;
            }
            let full = std::path::absolute(&path).map_err(Error::io("read", &path))?;
            let Some(url) = from_dir(&full, self.dir) else { continue };
            return Ok(Some(Package {
                name: name.name,
                version: name.version.to_string(),
                arch: None,
                bytes: fs::metadata(&path).map_err(Error::io("read", &path))?.len(),
                sha256: Sha256::of_file(&path)?,
                urls: vec![url],
                license: None,
            }));
        }
        Ok(None)
    }

    /// Refuses a wheel that the image could not use.
    fn must_suit(&self, pin: &Pinned, wheel: &Path, own_python: bool) -> Result<()> {
        let file = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let hint = "build its wheel on a machine like the image, and give the file in `wheels` of `[python]`";
        if wheel_name(wheel).is_none_or(|name| name.rank(self.interpreter).is_none()) {
            let reason = format!(
                "it has compiled code, and `{file}` is not for {}",
                self.interpreter.shown()
            );
            let python = self.interpreter.short();
            let install = format!(
                "install that Python with `uv python install {python}`, and run the same command again"
            );
            return Err(failed(pin, &reason, if own_python { hint } else { &install }));
        }
        let Some((library, (major, minor))) = self.too_new(wheel)? else { return Ok(()) };
        let reason = format!(
            "its `{library}` was compiled here with glibc {major}.{minor}, which is newer than that of the image ({})",
            self.interpreter.shown()
        );
        Err(failed(pin, &reason, hint))
    }

    /// The library of a wheel that needs a newer glibc than the image has, and that version.
    fn too_new(&self, wheel: &Path) -> Result<Option<(String, (u32, u32))>> {
        Ok(newest_glibc(wheel)?.filter(|(_, version)| *version > self.interpreter.glibc))
    }

    /// A Python of this machine with the image's number.
    fn python(&self) -> Option<PathBuf> {
        let mut command = Command::new(self.uv?);
        command.args([
            "python",
            "find",
            "--no-python-downloads",
            "--no-project",
            &self.interpreter.short(),
        ]);
        let answer = command.current_dir(self.dir).output().ok();
        let answer = answer.filter(|answer| answer.status.success())?;
        Some(String::from_utf8(answer.stdout).ok()?.trim().into())
    }

    fn uv(&self, pin: &Pinned) -> Result<Command> {
        let hint = "install uv with `pip install uv`, and run the same command again";
        let uv = self.uv.ok_or_else(|| {
            failed(pin, "it must be built from its sources, and `uv` is missing", hint)
        })?;
        Ok(Command::new(uv))
    }

    /// Fetches an archive, or finds it on this machine.
    fn archive(&self, listed: &Listed, dir: &Path, temp: &Path) -> Result<PathBuf> {
        let Listed { file, url, sha256, .. } = listed;
        let path = match url.strip_prefix("./").or_else(|| url.strip_prefix("file://")) {
            Some(path) => dir.join(path),
            None => {
                let path = temp.join(file);
                let url = url.split('#').next().unwrap_or(url);
                let bytes = super::resolve::len(url, self.transport)?;
                if bytes > MAX_SOURCE {
                    let path = url.to_owned();
                    return Err(Error::Limit {
                        path,
                        what: "bytes",
                        found: bytes,
                        limit: MAX_SOURCE,
                    });
                }
                let mut to = fs::File::create(&path).map_err(Error::io("create", &path))?;
                let sink = &mut |block: &[u8]| to.write_all(block);
                let streamed = self.transport.stream(url, bytes, 0, sink);
                streamed.map_err(|fault| fault.into_error(url))?;
                path
            }
        };
        let found = Sha256::of_file(&path)?;
        match sha256 {
            Some(expected) if *expected != found => {
                Err(Error::Digest { path: url.clone(), found, expected: *expected })
            }
            _ => Ok(path),
        }
    }

    /// Checks a commit out.
    fn checkout(
        &self,
        pin: &Pinned,
        url: &str,
        commit: &str,
        inside: Option<&str>,
        temp: &Path,
    ) -> Result<PathBuf> {
        let to = temp.join("source");
        let url = url.strip_prefix("git+").unwrap_or(url);
        // git takes some addresses for options or commands (`ext::`).
        let known = ["https://", "http://", "file://"].iter().any(|scheme| url.starts_with(scheme));
        let hexadecimal = commit.len() >= 7 && commit.bytes().all(|b| b.is_ascii_hexdigit());
        if !known || !hexadecimal || names_a_user(url) {
            let reason = format!("`{url}` at `{commit}` is not a commit of a public repository");
            return Err(failed(pin, &reason, "expected `https://…` and a commit's whole digest"));
        }
        let hint = "check the address and the network; or build its wheel where the repository is, and give the file in `wheels` of `[python]`";
        let git = |words: &[&str]| {
            let mut command = Command::new("git");
            command.args(["-c", "protocol.ext.allow=never", "-c", "advice.detachedHead=false"]);
            command.args(words).env("GIT_TERMINAL_PROMPT", "0");
            command
        };
        let target = to.display().to_string();
        let clone = git(&["clone", "--quiet", "--filter=blob:none", "--no-checkout", url, &target]);
        run(pin, clone, "its repository cannot be fetched", hint)?;
        let checkout = git(&["-C", &target, "checkout", "--quiet", commit]);
        run(pin, checkout, "its commit cannot be fetched", hint)?;
        // git refuses submodules of this machine, unless the repository itself is on it.
        let local = if url.starts_with("file://") { "always" } else { "never" };
        let local = format!("protocol.file.allow={local}");
        let submodules = ["submodule", "--quiet", "update", "--init", "--recursive"];
        let submodules = git(&[&["-C", &target, "-c", &local][..], &submodules].concat());
        run(pin, submodules, "a submodule of its repository cannot be fetched", hint)?;
        let Some(inside) = inside else { return Ok(to) };
        let path = below(Path::new(""), inside);
        if Path::new(&path).is_absolute() || path.starts_with("..") {
            let reason = format!("`{inside}` is outside its repository");
            return Err(failed(pin, &reason, "expected a folder of the repository"));
        }
        Ok(to.join(path))
    }
}

fn failed(pin: &Pinned, reason: &str, hint: &str) -> Error {
    let reason = format!("{} asks for it, and {reason}", pin.from);
    Error::Wheel { name: pin.shown(), reason, hint: Some(hint.to_owned()) }
}

/// Runs a program to its end.
fn run(pin: &Pinned, mut command: Command, what: &str, hint: &str) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(std::process::Stdio::null());
    let answer = command
        .output()
        .map_err(|e| failed(pin, &format!("{what}: `{program}` cannot be started: {e}"), hint))?;
    if answer.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&answer.stderr);
    Err(failed(pin, &format!("{what}: {}", said.trim()), hint))
}

/// The wheels in a folder, by name; none if the folder does not exist.
fn wheels(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if folder.is_dir() {
        for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
            let path = entry.map_err(Error::io("read", folder))?.path();
            found.extend(path.extension().is_some_and(|end| end == "whl").then_some(path));
        }
    }
    found.sort();
    Ok(found)
}

fn wheel_name(path: &Path) -> Option<WheelName> {
    WheelName::parse(path.file_name()?.to_str()?)
}

/// The newest version of glibc that a wheel's libraries need, and the library.
fn newest_glibc(wheel: &Path) -> Result<Option<(String, (u32, u32))>> {
    let mut newest: Option<(String, (u32, u32))> = None;
    let temp = tempfile::NamedTempFile::new()
        .map_err(Error::io("create", Path::new("a temporary file")))?;
    each_file(
        wheel,
        &Limits::default(),
        |name| name.contains(".so"),
        |file| {
            let to = temp.path();
            let mut copy = fs::File::create(to).map_err(Error::io("write", to))?;
            std::io::copy(file.bytes, &mut copy).map_err(Error::io("write", to))?;
            let Some(facts) = ElfFacts::open(to)? else { return Ok(()) };
            for (_, version) in &facts.versions_needed {
                let numbers = version.strip_prefix("GLIBC_").and_then(|v| v.split_once('.'));
                let Some((major, minor)) = numbers else { continue };
                let minor = minor.split('.').next().unwrap_or(minor);
                let (Ok(major), Ok(minor)) = (major.parse(), minor.parse()) else { continue };
                if newest.as_ref().is_none_or(|(_, found)| (major, minor) > *found) {
                    newest = Some((file.name.to_owned(), (major, minor)));
                }
            }
            Ok(())
        },
    )?;
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_that_of_all_libraries() {
        let temp = tempfile::tempdir().unwrap();
        let wheel = temp.path().join("a-1-cp311-cp311-linux_x86_64.whl");
        let mut zip = zip::ZipWriter::new(fs::File::create(&wheel).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        for (name, bytes) in
            [("a/__init__.py", Vec::new()), ("a/x.so", fs::read("/bin/sh").unwrap())]
        {
            zip.start_file(name, options).unwrap();
            zip.write_all(&bytes).unwrap();
        }
        zip.finish().unwrap();
        // Each program of glibc's needs at least the version of its machine's first release.
        let (library, version) = newest_glibc(&wheel).unwrap().unwrap();
        assert_eq!(library, "a/x.so");
        assert!(((2, 2)..(3, 0)).contains(&version), "{version:?}");
    }
}
