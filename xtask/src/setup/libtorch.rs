//! Assembles libtorch from three wheels: the CPU part of the PyTorch wheel, and the two small
//! NVIDIA libraries that it is linked against.
//!
//! The wheel's `libtorch.so` is an empty shell that needs the CUDA libraries as
//! well; a linker script of that name stands for it, so programs link against
//! `libtorch_cpu.so` alone and one build serves machines with and without a GPU.

use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use gular_files::Size;

use super::download::{self, Wheel};
use super::require_free;
use crate::workspace::Workspace;

/// A supported libtorch release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Line {
    /// 2.11.0, with tch 0.24: CUDA 13, compute capability 7.5 and newer.
    #[default]
    Current,
    /// 2.7.0, with tch 0.20: CUDA 12.6, compute capability 5.0 to 9.0.
    Older,
}

/// The files that libtorch of a release consists of. Digests and lengths are those of the package
/// index's wheels for Python 3.11; no file used depends on the Python.
struct Recipe {
    version: &'static str,
    tch: &'static str,
    /// The wheels, torch's first.
    wheels: [Wheel; 3],
    /// Wheel, member, name under `lib`, length in bytes.
    libraries: [(usize, &'static str, &'static str, u64); 5],
    /// Headers on disk, in bytes, with what small files waste.
    headers_bytes: u64,
}

const CURRENT: Recipe = Recipe {
    version: "2.11.0",
    tch: "0.24.0",
    wheels: [
        Wheel {
            package: "torch",
            version: "2.11.0",
            sha256: "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
            len_bytes: 530_604_548,
        },
        Wheel {
            package: "nvidia-cuda-runtime",
            version: "13.0.96",
            sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
            len_bytes: 2_243_632,
        },
        Wheel {
            package: "nvidia-cuda-cupti",
            version: "13.0.85",
            sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
            len_bytes: 10_715_597,
        },
    ],
    libraries: [
        (0, "torch/lib/libtorch_cpu.so", "libtorch_cpu.so", 451_209_129),
        (0, "torch/lib/libc10.so", "libc10.so", 1_498_969),
        (0, "torch/lib/libgomp.so.1", "libgomp.so.1", 254_009),
        (1, "nvidia/cu13/lib/libcudart.so.13", "libcudart.so.13", 704_288),
        (2, "nvidia/cu13/lib/libcupti.so.13", "libcupti.so.13", 4_152_208),
    ],
    headers_bytes: 65_000_000,
};

const OLDER: Recipe = Recipe {
    version: "2.7.0",
    tch: "0.20.0",
    wheels: [
        Wheel {
            package: "torch",
            version: "2.7.0",
            sha256: "fd5cfbb4c3bbadd57ad1b27d56a28008f8d8753733411a140fcfb84d7f933a25",
            len_bytes: 865_183_681,
        },
        Wheel {
            package: "nvidia-cuda-runtime-cu12",
            version: "12.6.77",
            sha256: "ba3b56a4f896141e25e19ab287cd71e52a6a0f4b29d0d31609f60e3b4d5219b7",
            len_bytes: 897_690,
        },
        Wheel {
            package: "nvidia-cuda-cupti-cu12",
            version: "12.6.80",
            sha256: "6768bad6cab4f19e8292125e5f1ac8aa7d1718704012a0e3272a6f61c4bce132",
            len_bytes: 8_917_980,
        },
    ],
    libraries: [
        (0, "torch/lib/libtorch_cpu.so", "libtorch_cpu.so", 427_026_177),
        (0, "torch/lib/libc10.so", "libc10.so", 1_440_073),
        // This wheel's libraries ask for gomp under its mangled name.
        (0, "torch/lib/libgomp-c9fef706.so.1", "libgomp-c9fef706.so.1", 254_273),
        (1, "nvidia/cuda_runtime/lib/libcudart.so.12", "libcudart.so.12", 716_128),
        (2, "nvidia/cuda_cupti/lib/libcupti.so.12", "libcupti.so.12", 8_067_920),
    ],
    headers_bytes: 55_000_000,
};

impl Line {
    fn recipe(self) -> &'static Recipe {
        match self {
            Self::Current => &CURRENT,
            Self::Older => &OLDER,
        }
    }

    /// The release of the crate `tch` for this libtorch.
    pub fn tch(self) -> &'static str {
        self.recipe().tch
    }

    /// Returns name and download size, for messages.
    pub(super) fn summary(self) -> String {
        format!("libtorch {self} ({})", Size(self.recipe().download_bytes()))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.recipe().version)
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::Current, Self::Older];
        let found = known.into_iter().find(|line| line.recipe().version == text);
        found.ok_or_else(|| {
            format!("expected one of {}", known.map(|line| line.to_string()).join(", "))
        })
    }
}

impl Recipe {
    fn download_bytes(&self) -> u64 {
        self.wheels.iter().map(|wheel| wheel.len_bytes).sum()
    }

    /// The most that lies on disk at once: pip writes a wheel to a temporary
    /// folder and copies it; the first copy is gone when unpacking starts.
    fn peak_bytes(&self) -> u64 {
        let unpacked: u64 =
            self.libraries.iter().map(|(_, _, _, len)| len).sum::<u64>() + self.headers_bytes;
        self.download_bytes() + unpacked.max(self.wheels[0].len_bytes)
    }
}

/// The folder in which set-up installs libtorch.
pub(super) fn home(workspace: &Workspace, line: Line) -> PathBuf {
    match line {
        Line::Current => workspace.target.join("libtorch"),
        Line::Older => workspace.target.join(format!("libtorch-{line}")),
    }
}

/// The libtorch that is there: `LIBTORCH` when it suits, else our own.
pub(super) fn find(workspace: &Workspace, line: Line) -> Result<Option<PathBuf>> {
    if let Some(given) = env::var_os("LIBTORCH").filter(|value| !value.is_empty()) {
        // torch-sys resolves it in its own folder, the user meant this one.
        let given = std::path::absolute(&given)
            .with_context(|| format!("`LIBTORCH={}` is not a path", given.display()))?;
        match unsuitable(&given, line) {
            None => return Ok(Some(given)),
            Some(why) => eprintln!("note: LIBTORCH is not used: {why}"),
        }
    }
    let home = home(workspace, line);
    Ok(is_whole(&home, line.recipe()).then_some(home))
}

/// # Errors
/// Where the package index has no libtorch we can link against.
pub(super) fn check_platform(line: Line) -> Result<()> {
    let suits = cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"));
    ensure!(
        suits,
        "libtorch can be downloaded only for Linux on x86_64 with glibc, but this is {} on \
        {}\nhint: get libtorch {line} for this system, and set LIBTORCH to its folder (with `lib` \
        and `include`)",
        env::consts::OS,
        env::consts::ARCH
    );
    Ok(())
}

/// Downloads and unpacks `line`; the folder gets its name when it is whole.
pub(super) fn install(workspace: &Workspace, line: Line, python: &Path) -> Result<()> {
    let recipe = line.recipe();
    let home = home(workspace, line);
    if is_whole(&home, recipe) {
        return Ok(()); // another run made it while we waited for the lock
    }
    let part = workspace.target.join(format!("libtorch-{line}.part"));
    require_free(&workspace.target, recipe.peak_bytes(), &format!("setting up libtorch {line}"))?;
    eprintln!("setting up {} in `{}`", line.summary(), workspace.relative(&home).display());
    let wheels = download::fetch(python, &recipe.wheels, &part.join("wheels"))?;
    let unpacked = part.join("unpacked");
    let _ = fs::remove_dir_all(&unpacked);
    for (idx, wheel) in wheels.iter().enumerate() {
        download::unpack(python, wheel, &recipe.members_of(idx, &unpacked))?;
    }
    fs::write(unpacked.join("lib/libtorch.so"), "INPUT(-ltorch_cpu)\n")?;
    fs::write(unpacked.join("build-version"), format!("{line}\n"))?;
    ensure!(
        is_whole(&unpacked, recipe),
        "`{}` does not have the files and sizes expected of libtorch {line}",
        unpacked.display()
    );
    if home.exists() {
        fs::remove_dir_all(&home)
            .with_context(|| format!("cannot remove the incomplete `{}`", home.display()))?;
    }
    fs::rename(&unpacked, &home)
        .with_context(|| format!("cannot rename `{}`", unpacked.display()))?;
    fs::remove_dir_all(&part).with_context(|| format!("cannot remove `{}`", part.display()))?;
    Ok(())
}

impl Recipe {
    fn members_of(&self, wheel: usize, root: &Path) -> Vec<(String, PathBuf)> {
        let libraries = self.libraries.iter().filter(|(of, ..)| *of == wheel);
        let mut members: Vec<_> = libraries
            .map(|(_, member, name, _)| ((*member).to_owned(), root.join("lib").join(name)))
            .collect();
        if wheel == 0 {
            members.push(("torch/include/".into(), root.join("include")));
        }
        members
    }
}

/// Whether `dir` has every file of the recipe at its length. The wheels' digests and the archive's
/// checksums were checked when the folder was made.
fn is_whole(dir: &Path, recipe: &Recipe) -> bool {
    let has = |name: &str, len: u64| {
        fs::metadata(dir.join("lib").join(name)).is_ok_and(|meta| meta.len() == len)
    };
    recipe.libraries.iter().all(|(_, _, name, len)| has(name, *len))
        && dir.join("lib/libtorch.so").is_file()
        && dir.join("include/torch/csrc/api/include/torch/torch.h").is_file()
        && build_version(dir).as_deref() == Some(recipe.version)
}

/// Returns why the libtorch in `dir` cannot be used.
fn unsuitable(dir: &Path, line: Line) -> Option<String> {
    let shown = dir.display();
    if !dir.join("lib/libtorch_cpu.so").is_file() || !dir.join("include/torch").is_dir() {
        return Some(format!("`{shown}` has no `lib/libtorch_cpu.so` and `include/torch`"));
    }
    match build_version(dir) {
        Some(found) if found == line.to_string() => None,
        Some(found) => Some(format!(
            "`{shown}/build-version` says {found}, but tch {} needs {line}",
            line.tch()
        )),
        None => Some(format!(
            "`{shown}` has no file `build-version`, so it is not known whether its version is {line}"
        )),
    }
}

/// The release in `build-version`, without its CUDA suffix.
fn build_version(dir: &Path) -> Option<String> {
    let text = fs::read_to_string(dir.join("build-version")).ok()?;
    text.trim().split('+').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(version: Option<&str>, with_library: bool) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir_all(dir.path().join("include/torch")).expect("a folder");
        fs::create_dir_all(dir.path().join("lib")).expect("a folder");
        if with_library {
            fs::write(dir.path().join("lib/libtorch_cpu.so"), "").expect("a file");
        }
        if let Some(version) = version {
            fs::write(dir.path().join("build-version"), version).expect("a file");
        }
        dir
    }

    fn check(version: Option<&str>, with_library: bool, expected: Option<&str>) {
        let found = unsuitable(folder(version, with_library).path(), Line::Current);
        match expected {
            None => assert_eq!(found, None),
            Some(words) => {
                assert!(found.as_ref().is_some_and(|text| text.contains(words)), "{found:?}");
            }
        }
    }

    #[test]
    fn a_given_libtorch_is_used_only_in_the_right_version() {
        check(Some("2.11.0\n"), true, None);
        check(Some("2.11.0+cu130\n"), true, None);
        check(Some("2.7.0\n"), true, Some("says 2.7.0, but tch 0.24.0 needs 2.11.0"));
        check(None, true, Some("has no file `build-version`"));
        check(Some("2.11.0\n"), false, Some("has no `lib/libtorch_cpu.so`"));
    }

    #[test]
    fn a_shorter_library_is_not_whole() {
        let dir = folder(Some("2.11.0"), true);
        assert!(!is_whole(dir.path(), &CURRENT));
    }

    #[test]
    fn releases_parse_as_shown() {
        assert_eq!("2.11.0".parse(), Ok(Line::Current));
        assert_eq!("2.7.0".parse(), Ok(Line::Older));
        assert_eq!("2.8.0".parse::<Line>(), Err("expected one of 2.11.0, 2.7.0".into()));
    }
}
