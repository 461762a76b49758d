//! Unpacks a wheel into the store, sorted by where its files are installed (PEP 427, "Installing").
//!
//! ```text
//! site/NAME/__init__.py    beside other packages
//! scripts/NAME             into `bin`
//! headers/NAME.h           into `include`
//! data/share/x             below the prefix
//! ```

use std::io::{Cursor, Read};
use std::path::Path;

use crate::rootfs::RootPath;
use crate::store::{Filling, Limits};
use crate::wheel::each_file;
use crate::{Error, Result};

/// Folder of files that are installed beside other packages.
pub(super) const SITE: &str = "site/";
/// Folder of programs.
pub(super) const SCRIPTS: &str = "scripts/";
/// Folder of C headers.
pub(super) const HEADERS: &str = "headers/";
/// Folder of files that are installed below the prefix.
pub(super) const DATA: &str = "data/";

/// Longest script whose first line is changed.
const MAX_SCRIPT: u64 = 16 << 20;

/// How a wheel's scripts begin, in place of a Python's path.
const PLACEHOLDER: &[u8] = b"#!python";
/// How scripts begin on Debian.
pub(super) const SHEBANG: &str = "#!/usr/bin/python3";

/// Unpacks all files of a wheel but byte code of its sources, which is made for the image's
/// Python.
///
/// # Errors
/// [`Error::Archive`] for a damaged one, one without `RECORD`, an encrypted entry, a
/// link, a path that leads outside or is there twice; [`Error::Limit`], [`Error::Io`].
pub fn unpack_whole(filling: &mut Filling, wheel: &Path, limits: &Limits) -> Result<()> {
    let shown = wheel.display().to_string();
    let damaged = |reason: String| Error::Archive { path: shown.clone(), reason };
    filling.name_archive(&shown);
    let mut record = false;
    each_file(
        wheel,
        limits,
        |name| !is_byte_code(name),
        |file| {
            let name = file.name;
            let place = place(name).ok_or_else(|| {
                damaged(format!("it is not known where `{name}` must be installed"))
            })?;
            let path = RootPath::new(&place)?;
            if !path.as_str().contains('/') {
                return Err(damaged(format!("`{name}` is not a file's path")));
            }
            record |= name
                .split_once('/')
                .is_some_and(|(top, rest)| rest == "RECORD" && top.ends_with(".dist-info"));
            let is_script = place.starts_with(SCRIPTS);
            let started = is_script || file.mode.is_some_and(|mode| mode & 0o111 != 0);
            let mode = if started { 0o755 } else { 0o644 };
            if !is_script || file.len > MAX_SCRIPT {
                return filling.add_file(&path, mode, file.bytes, limits);
            }
            let mut bytes = Vec::new();
            let read = file.bytes.take(MAX_SCRIPT + 1).read_to_end(&mut bytes);
            read.map_err(|e| damaged(format!("`{name}`: {e}")))?;
            filling.add_file(&path, mode, &mut Cursor::new(script(bytes)), limits)
        },
    )?;
    record
        .then_some(())
        .ok_or_else(|| damaged("it is not a complete wheel: it has no `RECORD`".to_owned()))
}

/// A script whose first line names the image's Python.
fn script(bytes: Vec<u8>) -> Vec<u8> {
    let Some(rest) = bytes.strip_prefix(PLACEHOLDER) else { return bytes };
    // `#!pythonw` is for programs with windows alone.
    let rest = rest.strip_prefix(b"w").unwrap_or(rest);
    [SHEBANG.as_bytes(), rest].concat()
}

/// Whether this is byte code of a source beside it. A `.pyc` in a package's own folder is a
/// module without a source.
fn is_byte_code(name: &str) -> bool {
    let folder = name.rsplit('/').nth(1);
    folder == Some("__pycache__") && (name.ends_with(".pyc") || name.ends_with(".pyo"))
}

/// Where a wheel's file goes; `None` for an unknown folder of `.data`.
fn place(name: &str) -> Option<String> {
    let Some((top, rest)) = name.split_once('/') else { return Some(format!("{SITE}{name}")) };
    if !top.ends_with(".data") {
        return Some(format!("{SITE}{name}"));
    }
    let (scheme, rest) = rest.split_once('/')?;
    let folder = match scheme {
        "purelib" | "platlib" => SITE,
        "scripts" => SCRIPTS,
        "headers" => HEADERS,
        "data" => DATA,
        _ => return None,
    };
    Some(format!("{folder}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_where_their_scheme_says() {
        for (name, expected) in [
            ("a/__init__.py", Some("site/a/__init__.py")),
            ("a.pth", Some("site/a.pth")),
            ("a-1.data/purelib/a/b.py", Some("site/a/b.py")),
            ("a-1.data/scripts/run", Some("scripts/run")),
            ("a-1.data/headers/a.h", Some("headers/a.h")),
            ("a-1.data/data/share/a", Some("data/share/a")),
            ("a-1.data/other/a", None),
            ("a-1.data/scripts", None),
        ] {
            assert_eq!(place(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn scripts_name_the_python_of_the_image() {
        let of = |text: &str| String::from_utf8(script(text.as_bytes().to_vec())).unwrap();
        assert_eq!(of("#!python\nx"), "#!/usr/bin/python3\nx");
        assert_eq!(of("#!pythonw -u\nx"), "#!/usr/bin/python3 -u\nx");
        assert_eq!(of("#!/bin/sh\nx"), "#!/bin/sh\nx");
    }
}
