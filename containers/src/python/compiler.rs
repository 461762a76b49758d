//! Byte code of an image's Python sources, compiled once by the image's own Python.
//!
//! An image is read-only: what it does not bring compiled is compiled at each start.
//!
//! The image's `ld.so` starts the image's `python3` from a temporary folder, so that
//! neither root nor a user namespace is needed, and the byte code is what this very
//! Python reads. Sources are compiled and never run. The same sources give the same
//! bytes: each package has a process of its own with a fixed seed for hashes, and takes
//! its sources in the order of their names.

use std::fs::{self, File};
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use super::scheme::Scheme;
use super::unpack::SITE;
use crate::elf::closure;
use crate::rootfs::{FileBytes, RootPath, Rootfs, What};
use crate::store::{Limits, Listing, MemberKind, Store};
use crate::{Error, Package, Result, Sha256};

/// The script that the image's Python runs.
const SCRIPT: &str = include_str!("compile.py");
/// A length that says that a source does not compile.
const NONE: u64 = u64::MAX;
/// Longest byte code of one source.
const MAX_BYTES: u64 = 1 << 30;
/// The folder of the standard library that each Python needs to start, beside what is
/// in no folder.
const NEEDED: &str = "encodings";
/// Number of bytes that are kept of a process's output.
const TAIL: u64 = 2048;

/// The sources of one package.
#[derive(Debug)]
pub(crate) struct Unit {
    name: String,
    key: Sha256,
    /// Each source's path on this machine, and its path in the image.
    sources: Vec<(PathBuf, String)>,
}

impl Unit {
    /// The sources of a wheel, with its files as [`unpack_whole`](super::unpack_whole) sorts them.
    ///
    /// # Errors
    /// Those of [`Listing::what`].
    pub(crate) fn of_wheel(package: &Package, files: &Listing, scheme: &Scheme) -> Result<Self> {
        Self::of(package, files, |path| {
            let inside = path.starts_with(SITE);
            inside.then(|| scheme.installed_path(path, &package.name))
        })
    }

    /// The sources of a Debian package: its `.py` files below `/usr/lib/python3` and
    /// `/usr/lib/python3.MINOR`.
    ///
    /// # Errors
    /// Those of [`Listing::what`].
    pub(crate) fn of_deb(package: &Package, files: &Listing, minor: u32) -> Result<Self> {
        let own = format!("usr/lib/python3.{minor}/");
        Self::of(package, files, |path| {
            let wanted = path.starts_with(&own) || path.starts_with("usr/lib/python3/");
            wanted.then(|| path.to_owned())
        })
    }

    fn of(
        package: &Package,
        files: &Listing,
        inside: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let mut sources = Vec::new();
        for entry in &files.entries {
            let MemberKind::File(..) = entry.kind else { continue };
            let Some(inside) = inside(&entry.path).filter(|path| path.ends_with(".py")) else {
                continue;
            };
            if let What::File(FileBytes::File { path, .. }) = files.what(entry)? {
                sources.push((path, inside));
            }
        }
        sources.sort_by(|(_, a), (_, b)| a.cmp(b));
        Ok(Self { name: package.name.clone(), key: package.sha256, sources })
    }

    /// The package's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether there is nothing to compile.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }
}

/// Makes byte code, or takes what an earlier build made.
pub(crate) struct Compiler<'a> {
    /// The image's base, with its Python.
    pub(crate) tree: &'a Rootfs,
    pub(crate) scheme: &'a Scheme,
    /// SHA-256 of the package, or of the image's manifest, with the interpreter.
    pub(crate) interpreter: Sha256,
    pub(crate) store: &'a Store,
    pub(crate) limits: &'a Limits,
    /// A folder for temporary files on the store's file system.
    pub(crate) temp: &'a Path,
    pub(crate) cancel: &'a AtomicBool,
}

impl Compiler<'_> {
    /// The byte code of a package's sources, by its path in the image.
    ///
    /// # Errors
    /// [`Error::ByteCode`] where the image's Python does not run here;
    /// [`Error::Cancelled`], [`Error::Limit`], [`Error::Io`].
    pub(crate) fn compile(&self, unit: &Unit) -> Result<Listing> {
        let parts = [
            SCRIPT.to_owned(),
            self.scheme.minor.to_string(),
            self.scheme.program.clone(),
            self.scheme.site.clone(),
            self.interpreter.to_string(),
            unit.key.to_string(),
        ];
        let key = format!("pyc-{}", Sha256::of(parts.join("\n").as_bytes()));
        self.store.listing(&key, |filling| {
            filling.name_archive(&unit.name);
            let python = Python::new(self.tree, self.scheme, self.temp, &unit.name)?;
            let mut running = python.start(&unit.sources)?;
            for (_, inside) in &unit.sources {
                if self.cancel.load(Ordering::Relaxed) {
                    return Err(Error::Cancelled);
                }
                let Some(bytes) = running.next()? else { continue };
                let path = RootPath::new(&compiled(inside, self.scheme.minor))?;
                let mut bytes = bytes;
                filling.add_file(&path, 0o644, &mut bytes, self.limits)?;
                if bytes.limit() > 0 {
                    return Err(running.failed("it stopped early"));
                }
            }
            Ok(())
        })
    }
}

/// `a/__pycache__/b.cpython-311.pyc` of `a/b.py`.
fn compiled(source: &str, minor: u32) -> String {
    let (folder, name) = source.rsplit_once('/').unwrap_or(("", source));
    let stem = name.strip_suffix(".py").unwrap_or(name);
    format!("{folder}/__pycache__/{stem}.cpython-3{minor}.pyc")
}

/// The image's Python in a folder of this machine.
///
/// ```text
/// DIR/ld.so, DIR/python, DIR/lib   the interpreter, and what it loads
/// DIR/usr/lib/python3.11           modules that it needs itself
/// ```
struct Python<'a> {
    dir: TempDir,
    name: &'a str,
}

impl<'a> Python<'a> {
    fn new(tree: &Rootfs, scheme: &Scheme, temp: &Path, name: &'a str) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("python-").tempdir_in(temp);
        let python = Self { dir: dir.map_err(Error::io("create", temp))?, name };
        let named = RootPath::inside(&scheme.program).unwrap_or(RootPath::ROOT);
        let beside = named.parent().map(|bin| bin.join(&format!("python3.{}", scheme.minor)));
        let mut programs = beside.into_iter().chain([named]);
        let Some((program, _)) = programs.find_map(|path| tree.follow(&path)) else {
            return Err(python.wrong(format!("{} is not in the image", scheme.program)));
        };
        let found = closure(tree, std::slice::from_ref(&program), &[], &|_| false)?;
        let interpreter = found.loaded.get(&program).and_then(|facts| facts.interpreter.as_deref());
        let loader = interpreter.and_then(RootPath::inside).and_then(|path| tree.follow(&path));
        let Some((loader, _)) = loader else {
            return Err(python.wrong(format!("{program} has no `ld.so` in the image")));
        };
        python.put(tree, &program, "python")?;
        python.put(tree, &loader, "ld.so")?;
        for (path, facts) in &found.loaded {
            if *path != program {
                let name = facts.soname.as_deref().unwrap_or(path.name());
                python.put(tree, path, &format!("lib/{}", name.replace('/', "_")))?;
            }
        }
        let library = RootPath::new(&scheme.library)?;
        let library = tree.follow(&library).map_or(library, |(path, _)| path);
        let from = format!("{}/", library.as_str());
        let to = format!("usr/lib/python3.{}", scheme.minor);
        for (path, node) in tree.iter() {
            let Some(rest) = path.as_str().strip_prefix(&from) else { continue };
            let is_needed = match rest.split_once('/') {
                Some((folder, _)) => folder == NEEDED,
                None => true,
            };
            if is_needed && rest.ends_with(".py") && matches!(node.what, What::File(_)) {
                python.put(tree, path, &format!("{to}/{rest}"))?;
            }
        }
        // Without this folder, Python says that it misses its libraries.
        python.folder(&format!("{to}/lib-dynload"))?;
        Ok(python)
    }

    fn folder(&self, path: &str) -> Result<PathBuf> {
        let path = self.dir.path().join(path);
        fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
        Ok(path)
    }

    /// A file of the image under a name in the folder; programs may be started.
    fn put(&self, tree: &Rootfs, path: &RootPath, name: &str) -> Result<()> {
        let Some((_, node)) = tree.follow(path) else { return Ok(()) };
        let What::File(source) = &node.what else { return Ok(()) };
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        let to = self.folder(folder)?.join(last);
        match source {
            FileBytes::Bytes(bytes) => fs::write(&to, bytes).map_err(Error::io("write", &to))?,
            FileBytes::File { path: from, .. } if folder.is_empty() => {
                fs::copy(from, &to).map_err(Error::io("copy", from))?;
            }
            FileBytes::File { path: from, .. } => {
                let from = std::path::absolute(from).map_err(Error::io("find", from))?;
                return symlink(&from, &to).map_err(Error::io("create", &to));
            }
        }
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(Error::io("write", &to))
    }

    fn start(&self, sources: &[(PathBuf, String)]) -> Result<Running<'_>> {
        let at = |name: &str| std::path::absolute(self.dir.path().join(name));
        let at = |name: &str| at(name).map_err(Error::io("find", self.dir.path()));
        let (list, script) = (at("sources")?, at("compile.py")?);
        let mut text = Vec::new();
        for (here, inside) in sources {
            let here = std::path::absolute(here).map_err(Error::io("find", here))?;
            text.extend_from_slice(here.as_os_str().as_encoded_bytes());
            text.push(0);
            text.extend_from_slice(format!("/{inside}").as_bytes());
            text.push(0);
        }
        fs::write(&list, text).map_err(Error::io("write", &list))?;
        fs::write(&script, SCRIPT).map_err(Error::io("write", &script))?;
        let said =
            tempfile::tempfile_in(self.dir.path()).map_err(Error::io("create", self.dir.path()))?;
        let errors = said.try_clone().map_err(Error::io("open", self.dir.path()))?;
        let mut command = Command::new(at("ld.so")?);
        command.arg("--library-path").arg(at("lib")?).arg(at("python")?);
        command.args(["-S", "-s", "-B", "-X", "utf8", "-W", "ignore"]).arg(&script).arg(&list);
        command.env_clear().env("PYTHONHOME", at("usr")?).env("PYTHONHASHSEED", "0");
        command.current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = gular_files::start_written(&mut command)
            .map_err(|e| self.wrong(format!("its Python cannot be started: {e}")))?;
        let out = child.stdout.take();
        let out = out.ok_or_else(|| self.wrong("its Python has no output".to_owned()))?;
        Ok(Running { child, out: BufReader::new(out), said, python: self })
    }

    fn wrong(&self, reason: String) -> Error {
        Error::ByteCode { name: self.name.to_owned(), reason }
    }
}

/// A Python that compiles; ended when it is dropped.
struct Running<'a> {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    said: File,
    python: &'a Python<'a>,
}

impl Running<'_> {
    /// The next source's byte code; `None` for one that does not compile.
    fn next(&mut self) -> Result<Option<std::io::Take<&mut BufReader<std::process::ChildStdout>>>> {
        let mut length = [0; 8];
        if self.out.read_exact(&mut length).is_err() {
            return Err(self.failed("it stopped early"));
        }
        match u64::from_le_bytes(length) {
            NONE => Ok(None),
            length if length > MAX_BYTES => Err(self.failed("its answer cannot be read")),
            length => Ok(Some(self.out.by_ref().take(length))),
        }
    }

    /// Why Python failed, with the end of its output.
    fn failed(&mut self, reason: &str) -> Error {
        let _ = self.child.kill();
        let status = self.child.wait();
        let mut text = Vec::new();
        let end = self.said.seek(SeekFrom::End(0)).unwrap_or(0);
        let read = self.said.seek(SeekFrom::Start(end.saturating_sub(TAIL)));
        let _ = read.and_then(|_| self.said.by_ref().take(TAIL).read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let last = text.trim().lines().last().unwrap_or_default().to_owned();
        let status = status.map(|status| format!(" ({status})")).unwrap_or_default();
        self.python.wrong(
            format!("the image's Python failed here: {reason}{status} {last}").trim().to_owned(),
        )
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
