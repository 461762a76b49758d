//! Which wheels an image's Python accepts, decided by their names (PEP 425, 427, 600).

use pep440_rs::Version;

use super::Interpreter;
use crate::wheel::{machine, normal};

/// The oldest Python whose stable interface counts: `cp32-abi3`.
const FIRST_ABI3: u32 = 2;

/// The parts of a wheel's file name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WheelName {
    /// The package's name in the form that indexes use.
    pub(super) name: String,
    pub(super) version: Version,
    /// Orders wheels that are else alike; 0 where there is none.
    build: u32,
    pythons: Vec<String>,
    abis: Vec<String>,
    platforms: Vec<String>,
}

/// How well a wheel suits; the highest rank is taken, as by pip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    python: u32,
    platform: u32,
    build: u32,
}

impl WheelName {
    /// Parses a file name; `None` if it is not a wheel's.
    pub(super) fn parse(file: &str) -> Option<Self> {
        let parts: Vec<&str> = file.strip_suffix(".whl")?.split('-').collect();
        let (name, version, build, tags) = match parts.as_slice() {
            [name, version, tags @ ..] if tags.len() == 3 => (name, version, "", tags),
            [name, version, build, tags @ ..] if tags.len() == 3 => (name, version, *build, tags),
            _ => return None,
        };
        let [pythons, abis, platforms] = tags else { return None };
        let all = |tags: &str| tags.split('.').map(str::to_owned).collect();
        let digits = build.find(|c: char| !c.is_ascii_digit()).unwrap_or(build.len());
        Some(Self {
            name: normal(name),
            version: version.parse().ok()?,
            build: build.get(..digits)?.parse().unwrap_or(0),
            pythons: all(pythons),
            abis: all(abis),
            platforms: all(platforms),
        })
    }

    /// `None` for a wheel of another Python, machine or system, or a newer C library.
    pub(super) fn rank(&self, of: &Interpreter) -> Option<Rank> {
        let pairs = self.pythons.iter().flat_map(|py| self.abis.iter().map(move |abi| (py, abi)));
        let python = pairs.filter_map(|(python, abi)| python_rank(python, abi, of)).max()?;
        let platforms = self.platforms.iter().filter_map(|tag| platform_rank(tag, of));
        Some(Rank { python, platform: platforms.max()?, build: self.build })
    }
}

fn python_rank(python: &str, abi: &str, of: &Interpreter) -> Option<u32> {
    let minor = of.minor;
    if let Some(number) = python.strip_prefix("cp3") {
        let number: u32 = number.parse().ok()?;
        return match abi {
            _ if number == minor && abi == python => Some(1000),
            "abi3" if (FIRST_ABI3..=minor).contains(&number) => Some(800 + number),
            "none" if number == minor => Some(700),
            _ => None,
        };
    }
    match (python.strip_prefix("py3")?, abi) {
        ("", "none") => Some(500),
        (number, "none") => {
            let number: u32 = number.parse().ok()?;
            // The Python's own number stands before `py3`, older ones behind it.
            (number <= minor).then(|| if number == minor { 600 } else { 100 + number })
        }
        _ => None,
    }
}

fn platform_rank(tag: &str, of: &Interpreter) -> Option<u32> {
    if tag == "any" {
        return Some(0);
    }
    let system = tag.strip_suffix(machine(of.arch))?.strip_suffix('_')?;
    let (major, minor) = match system {
        "linux" => return Some(1),
        "manylinux1" => (2, 5),
        "manylinux2010" => (2, 12),
        "manylinux2014" => (2, 17),
        other => {
            let (major, minor) = other.strip_prefix("manylinux_")?.split_once('_')?;
            (major.parse().ok()?, minor.parse().ok()?)
        }
    };
    let fits: bool = (major, minor) <= of.glibc;
    fits.then_some(major.saturating_mul(1000).saturating_add(minor).saturating_add(2))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sif::Arch;

    fn here() -> Interpreter {
        Interpreter {
            version: "3.11.2".to_owned(),
            minor: 11,
            arch: Arch::Amd64,
            glibc: (2, 36),
            installed: BTreeMap::new(),
        }
    }

    fn rank(tags: &str) -> Option<Rank> {
        WheelName::parse(&format!("a-1-{tags}.whl")).unwrap().rank(&here())
    }

    /// The tags are those of `pip debug --verbose`, the best first.
    #[test]
    fn wheels_are_ranked_as_pip_ranks_them() {
        let ordered = [
            "2-cp311-cp311-manylinux_2_28_x86_64",
            "cp311-cp311-manylinux_2_28_x86_64",
            "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64",
            "cp311-cp311-manylinux2010_x86_64",
            "cp311-cp311-linux_x86_64",
            "cp310-abi3-manylinux_2_28_x86_64",
            "cp39-abi3-manylinux_2_28_x86_64",
            "cp311-none-any",
            "py311-none-any",
            "py3-none-manylinux_2_28_x86_64",
            "py2.py3-none-any",
            "py310-none-any",
        ];
        let ranks: Vec<_> = ordered.iter().map(|tags| rank(tags).expect("it fits")).collect();
        assert!(ranks.is_sorted_by(|a, b| a > b), "{ranks:?}");
    }

    #[test]
    fn wheels_of_others_do_not_fit() {
        for tags in [
            "cp312-cp312-manylinux_2_28_x86_64",
            "cp312-abi3-manylinux_2_28_x86_64",
            "cp311-cp311-manylinux_2_28_aarch64",
            "cp311-cp311-manylinux_2_39_x86_64",
            "cp311-cp311-musllinux_1_2_x86_64",
            "cp311-cp311-macosx_11_0_arm64",
            "cp311-cp311-win_amd64",
            "cp311-cp311d-linux_x86_64",
            "py312-none-any",
            "py2-none-any",
            "pp311-pypy311_pp73-manylinux_2_28_x86_64",
        ] {
            assert_eq!(rank(tags), None, "{tags}");
        }
    }

    #[test]
    fn names_that_are_not_of_wheels_are_passed_over() {
        let read = WheelName::parse("Nvidia_cuDNN.cu13-9.1+x-py3-none-any.whl").unwrap();
        assert_eq!(
            (read.name.as_str(), read.version.to_string().as_str()),
            ("nvidia-cudnn-cu13", "9.1+x")
        );
        for bad in ["a-1-py3-none-any.zip", "a-1-none-any.whl", "a-x-py3-none-any.whl", ".whl", ""]
        {
            assert_eq!(WheelName::parse(bad), None, "{bad}");
        }
    }
}
