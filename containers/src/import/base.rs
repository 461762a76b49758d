//! Which base of a recipe stands for an image in a registry.

use super::draft::Base;

/// An image that Debian's packages can replace.
struct Replaced {
    /// The image's name on Docker Hub, without `library/`.
    name: &'static str,
    /// How its tag, or a part of the tag between `-`, begins: up to a `.` or the end.
    tags: &'static [&'static str],
    debian: &'static str,
    /// Whether programs expect the image's own Python.
    has_python: bool,
    /// Whether this holds only if wheels bring the CUDA libraries.
    needs_cuda_wheels: bool,
    /// How the result differs.
    differs: Option<&'static str>,
}

const UBUNTU: &str =
    "the recipe begins with Debian's packages of about the same age; their versions differ";
const OLD_UBUNTU: &str =
    "the recipe begins with packages of Debian 12, which are years newer, and so is its Python";
const PYTHON: &str = "Debian's own Python of this version takes its place; it is `/usr/bin/python3`, not `/usr/local/bin/python3`";
const CUDA: &str =
    "the CUDA libraries come with the wheels; the compiler `nvcc` and headers are not in the image";

/// Releases and their numbers: <https://www.debian.org/releases/>. Which Python they have:
/// <https://packages.debian.org/python3>. Tags of the images:
/// <https://github.com/docker-library/official-images/tree/master/library> (`debian`, `ubuntu`,
/// `python`), <https://hub.docker.com/r/nvidia/cuda>. Ubuntu 22.04 has glibc 2.35 and Debian 12
/// 2.36; Ubuntu 24.04 has 2.39 and Debian 13 2.41.
const REPLACED: [Replaced; 9] = [
    Replaced {
        name: "debian",
        tags: &["bookworm", "12"],
        debian: "bookworm",
        has_python: false,
        needs_cuda_wheels: false,
        differs: None,
    },
    Replaced {
        name: "debian",
        tags: &["trixie", "13", "latest", "stable"],
        debian: "trixie",
        has_python: false,
        needs_cuda_wheels: false,
        differs: None,
    },
    Replaced {
        name: "python",
        tags: &["3.11"],
        debian: "bookworm",
        has_python: true,
        needs_cuda_wheels: false,
        differs: Some(PYTHON),
    },
    Replaced {
        name: "python",
        tags: &["3.13"],
        debian: "trixie",
        has_python: true,
        needs_cuda_wheels: false,
        differs: Some(PYTHON),
    },
    Replaced {
        name: "ubuntu",
        tags: &["22.04", "jammy"],
        debian: "bookworm",
        has_python: false,
        needs_cuda_wheels: false,
        differs: Some(UBUNTU),
    },
    Replaced {
        name: "ubuntu",
        tags: &["16.04", "18.04", "20.04", "xenial", "bionic", "focal"],
        debian: "bookworm",
        has_python: false,
        needs_cuda_wheels: false,
        differs: Some(OLD_UBUNTU),
    },
    Replaced {
        name: "ubuntu",
        tags: &["24.04", "noble", "latest"],
        debian: "trixie",
        has_python: false,
        needs_cuda_wheels: false,
        differs: Some(UBUNTU),
    },
    Replaced {
        name: "nvidia/cuda",
        tags: &["ubuntu18.04", "ubuntu20.04", "ubuntu22.04"],
        debian: "bookworm",
        has_python: false,
        needs_cuda_wheels: true,
        differs: Some(CUDA),
    },
    Replaced {
        name: "nvidia/cuda",
        tags: &["ubuntu24.04"],
        debian: "trixie",
        has_python: false,
        needs_cuda_wheels: true,
        differs: Some(CUDA),
    },
];

/// Parts of tags that say that an image is made of something else.
const OTHER: [&str; 3] = ["alpine", "windowsservercore", "nanoserver"];

/// The base for an image.
pub(super) struct Chosen {
    pub(super) base: Base,
    pub(super) has_python: bool,
    pub(super) differs: Option<&'static str>,
}

/// Chooses the base. `cuda_wheels` says whether a package to be installed brings CUDA.
pub(super) fn choose(image: &str, cuda_wheels: bool, keep: bool) -> Chosen {
    let image = image.trim_start_matches("docker://");
    if image == "scratch" {
        return Chosen { base: Base::Scratch, has_python: false, differs: None };
    }
    let kept =
        Chosen { base: Base::Oci(format!("docker://{image}")), has_python: false, differs: None };
    // A digest means this image and no other.
    if keep || image.contains('@') {
        return kept;
    }
    let name = ["docker.io/", "index.docker.io/", "registry-1.docker.io/"]
        .iter()
        .find_map(|host| image.strip_prefix(host))
        .unwrap_or(image);
    let name = name.strip_prefix("library/").unwrap_or(name);
    let (name, tag) = name.split_once(':').unwrap_or((name, "latest"));
    let parts: Vec<&str> = tag.split('-').collect();
    if parts.iter().any(|part| OTHER.iter().any(|other| part.starts_with(other))) {
        return kept;
    }
    let begins = |part: &str, with: &str| {
        part.strip_prefix(with).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let found = REPLACED.iter().find(|row| {
        let mut tags = row.tags.iter();
        row.name == name
            && (cuda_wheels || !row.needs_cuda_wheels)
            && tags.any(|tag| parts.iter().any(|part| begins(part, tag)))
    });
    match found {
        Some(row) => Chosen {
            base: Base::Debian(row.debian),
            has_python: row.has_python,
            differs: row.differs,
        },
        None => kept,
    }
}

/// Whether a recipe begins with the same for two images.
pub(super) fn is_same(one: &str, other: &str, keep: bool) -> bool {
    choose(one, false, keep).base == choose(other, false, keep).base
}

/// Names of images on Docker Hub that are made of Debian, unless their tag says otherwise.
const OF_DEBIAN: [&str; 9] = [
    "continuumio/anaconda3",
    "continuumio/miniconda3",
    "debian",
    "gcc",
    "golang",
    "mambaorg/micromamba",
    "node",
    "python",
    "rust",
];

/// Parts of tags of releases of Debian that a recipe adds no packages to.
const OLD_DEBIAN: [&str; 7] =
    ["jessie", "stretch", "buster", "bullseye", "oldoldstable", "10", "11"];

/// Whether a recipe adds Debian's packages to an image.
pub(super) fn takes_packages(oci: &str) -> bool {
    let Some(image) = oci.strip_prefix("docker://") else { return true };
    let name = image.trim_start_matches("docker.io/").trim_start_matches("library/");
    let (name, tag) = name.split_once([':', '@']).unwrap_or((name, ""));
    let mut parts = tag.split('-');
    let is_old = |part: &str| {
        OLD_DEBIAN.iter().any(|old| *old == part && (name == "debian" || old.len() > 2))
    };
    OF_DEBIAN.contains(&name) && !parts.any(is_old)
}

/// What images have in their `PATH` before [`PATH`]: their Dockerfiles, which Docker Hub names.
const PATHS: [(&str, &str); 11] = [
    ("buildpack-deps", ""),
    ("condaforge/mambaforge", "/opt/conda/bin:"),
    ("condaforge/miniforge3", "/opt/conda/bin:"),
    ("continuumio/anaconda3", "/opt/conda/bin:"),
    ("continuumio/miniconda3", "/opt/conda/bin:"),
    ("debian", ""),
    ("gcc", ""),
    ("nvidia/cuda", "/usr/local/nvidia/bin:/usr/local/cuda/bin:"),
    ("python", ""),
    ("pytorch/pytorch", "/opt/conda/bin:/usr/local/nvidia/bin:/usr/local/cuda/bin:"),
    ("ubuntu", ""),
];

/// The usual search path, with the folder of the recipe's program.
const PATH: &str = "/app/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The search path of an image, if it is known.
pub(super) fn search_path(image: &str) -> Option<String> {
    let image = image.trim_start_matches("docker://");
    let name = image.split(['@', ':']).next().unwrap_or_default();
    let name = name.trim_start_matches("docker.io/").trim_start_matches("library/");
    let row = PATHS.iter().find(|(known, _)| *known == name);
    match (name, row) {
        ("scratch", _) => Some(PATH.to_owned()),
        (_, row) => row.map(|(_, before)| format!("{before}{PATH}")),
    }
}

/// The search path of Debian's packages.
pub(super) fn of_debian() -> String {
    PATH.to_owned()
}

/// Whether an image certainly sets no variables but `PATH`.
pub(super) fn has_no_variables(image: &str) -> bool {
    let image = image.trim_start_matches("docker://");
    let name = image.split(['@', ':']).next().unwrap_or_default();
    let name = name.trim_start_matches("docker.io/").trim_start_matches("library/");
    matches!(name, "debian" | "ubuntu" | "scratch")
}

/// The Debian releases that a recipe can name, by what a definition file may call them.
pub(super) fn release(version: &str) -> Option<&'static str> {
    match version {
        "bookworm" | "12" => Some("bookworm"),
        "trixie" | "13" | "stable" => Some("trixie"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_become_debian_or_stay() {
        let debian = |image: &str, cuda: bool| match choose(image, cuda, false).base {
            Base::Debian(release) => release.to_owned(),
            Base::Oci(oci) => oci,
            Base::Scratch => "scratch".to_owned(),
        };
        for (image, expected) in [
            ("debian:12-slim", "bookworm"),
            ("debian:bookworm-20250113-slim", "bookworm"),
            ("docker.io/library/debian", "trixie"),
            ("debian:bullseye", "docker://debian:bullseye"),
            ("python:3.11.9-slim-bookworm", "bookworm"),
            ("python:3.11-alpine", "docker://python:3.11-alpine"),
            ("python:3.12-slim", "docker://python:3.12-slim"),
            ("python:3.1", "docker://python:3.1"),
            ("ubuntu:22.04", "bookworm"),
            ("ubuntu", "trixie"),
            (
                "nvidia/cuda:12.1.1-cudnn8-devel-ubuntu22.04",
                "docker://nvidia/cuda:12.1.1-cudnn8-devel-ubuntu22.04",
            ),
            ("ghcr.io/lab/debian:12", "docker://ghcr.io/lab/debian:12"),
            ("debian:12@sha256:00", "docker://debian:12@sha256:00"),
            ("scratch", "scratch"),
        ] {
            assert_eq!(debian(image, false), expected, "{image}");
        }
        assert_eq!(debian("nvidia/cuda:12.1.1-cudnn8-devel-ubuntu22.04", true), "bookworm");
        for (image, expected) in [
            ("debian", true),
            ("docker://debian:12", true),
            ("docker.io/library/ubuntu:22.04", true),
            ("nvidia/cuda:12.1.1-devel-ubuntu22.04", false),
            ("ghcr.io/lab/ubuntu", false),
            ("python:3.11-bookworm", false),
        ] {
            assert_eq!(has_no_variables(image), expected, "{image}");
        }
        assert!(matches!(choose("debian:12", false, true).base, Base::Oci(_)));
        for (image, expected) in [
            ("docker://python:3.12-slim", true),
            ("docker://node:10", true),
            ("docker://docker.io/library/debian:12", true),
            ("layout", true),
            ("docker://debian:11-slim", false),
            ("docker://python:3.9-bullseye", false),
            ("docker://nvidia/cuda:12.1.1-devel-ubuntu22.04", false),
            ("docker://ubuntu@sha256:00", false),
        ] {
            assert_eq!(takes_packages(image), expected, "{image}");
        }
    }
}
