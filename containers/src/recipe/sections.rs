//! The sections of a recipe.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::cuda::Capability;
use crate::registry::Reference;
use crate::sif::Arch;

/// `[image]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageSection {
    /// Begins the names of files: lower-case letters, digits, `-`, `_`, `.`.
    #[serde(deserialize_with = "name")]
    pub name: String,
    /// The platform that the image runs on.
    #[serde(default)]
    pub platform: Platform,
}

/// Operating system and processor, as OCI writes them: `linux/amd64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform(pub Arch);

impl Default for Platform {
    fn default() -> Self {
        Self(Arch::Amd64)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.0.name())
    }
}

impl Platform {
    /// Parses what [`Display`](fmt::Display) writes; an error says what is wrong.
    ///
    /// # Errors
    /// With both platforms that there are.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "linux/amd64" => Ok(Self(Arch::Amd64)),
            "linux/arm64" => Ok(Self(Arch::Arm64)),
            other => {
                Err(format!("the platform is `{other}`, expected `linux/amd64` or `linux/arm64`"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Platform {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// `[base]`: a Debian extract unless something else is said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseSection {
    /// Whether the image contains nothing but what the recipe names: no shell, no C library.
    #[serde(default)]
    pub scratch: bool,
    /// A Debian release's code name.
    #[serde(default)]
    pub debian: Option<String>,
    /// An OCI image.
    #[serde(default)]
    pub oci: Option<OciBase>,
    /// Debian packages; what they depend on comes along. `default` stands for those
    /// that a base of Debian's packages has without this key.
    #[serde(default)]
    pub packages: Option<Vec<String>>,
}

/// The address of a base image. Its text is the one in recipes and locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OciBase {
    /// A path on this machine: the folder of an OCI layout, or an OCI archive.
    Path(PathBuf),
    /// An image in a registry: `docker://debian:12-slim`.
    Registry(Reference),
}

/// The beginning of the text for an image in a registry.
const DOCKER: &str = "docker://";

impl fmt::Display for OciBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Registry(reference) => write!(f, "{DOCKER}{reference}"),
        }
    }
}

impl Serialize for OciBase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OciBase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.split_once("://") {
            Some(("docker", _)) => {
                Reference::parse(&text).map(Self::Registry).map_err(de::Error::custom)
            }
            Some(_) => {
                // The text before an `@` may be a password.
                let reason = "the address of a base image begins with `docker://`";
                Err(de::Error::custom(reason))
            }
            None => Ok(Self::Path(text.into())),
        }
    }
}

/// `[app]`: a program of a cargo workspace, or any file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// A cargo package with a program; it is built with `--release`.
    #[serde(default)]
    pub package: Option<String>,
    /// Which of the package's programs to build; by default the only one, or the one with its name.
    #[serde(default)]
    pub bin: Option<String>,
    /// The workspace's `Cargo.toml`; without it, that around the recipe.
    #[serde(default)]
    pub manifest: Option<PathBuf>,
    /// Features to build it with.
    #[serde(default)]
    pub features: Vec<String>,
    /// A program that is built already.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// Whether the image contains the program; otherwise the job brings it, and runs it in the
    /// image.
    #[serde(default = "yes")]
    pub embed: bool,
    /// Further files: path in the image, path here.
    #[serde(default)]
    pub files: BTreeMap<String, PathBuf>,
}

/// `[cuda]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cuda {
    /// Version of the `torch` wheel, whose libraries are taken.
    #[serde(default)]
    pub torch: Option<Torch>,
    /// A folder of an unpacked libtorch.
    #[serde(default)]
    pub libtorch: Option<PathBuf>,
}

/// `[python]`: packages for the Python of the base, of a lock file or requirements.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonSection {
    /// A lock file: `pylock.toml` (PEP 751), `uv.lock`, `poetry.lock` or `Pipfile.lock`.
    #[serde(default)]
    pub lock: Option<PathBuf>,
    /// A `requirements.txt`, a `pyproject.toml`, or an `environment.yml` for pip alone; where it
    /// has no versions and hashes, `uv` finds them.
    #[serde(default)]
    pub requirements: Option<PathBuf>,
    /// Optional parts of a project to take: extras.
    #[serde(default)]
    pub extras: Vec<String>,
    /// The same, of its groups of requirements.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Wheels of this machine.
    #[serde(default)]
    pub wheels: Vec<PathBuf>,
    /// Whether packages without a wheel are built from their sources, on this machine.
    #[serde(default)]
    pub build: bool,
    /// The path of a base image's Python, where the first one on its search path is not meant.
    #[serde(default)]
    pub interpreter: Option<PathBuf>,
    /// Whether byte code is made for all sources.
    #[serde(default = "yes")]
    pub bytecode: bool,
}

/// `[conda]`: an environment of conda, with its own Python.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CondaSection {
    /// An archive that `conda-pack` made.
    pub archive: PathBuf,
}

/// A table of `[[run]]`: a step of one's own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunStep {
    /// The text for `sh -e`, or a script that begins with `#!` and its interpreter in the image.
    pub script: String,
    /// Whether it sees the network of the machine that builds the image.
    #[serde(default)]
    pub network: bool,
    /// The folder of the image that it starts in, which is made if it is not there.
    #[serde(default = "root")]
    pub workdir: String,
    /// Environment variables for this step alone.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

impl RunStep {
    /// The first line of the script that says something, for messages.
    pub fn first_line(&self) -> &str {
        let mut lines = self.script.lines().map(str::trim);
        lines.find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default()
    }
}

/// A version of `torch`, such as `2.11.0` or `2.11.0+cpu`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torch(pub String);

impl<'de> Deserialize<'de> for Torch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text.split('+').next().unwrap_or_default();
        let good = number.split('.').count() == 3
            && number.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if good {
            Ok(Self(text))
        } else {
            Err(de::Error::custom(format!(
                "the version of torch is `{text}`, expected a version such as `2.11.0`"
            )))
        }
    }
}

/// `[target]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSection {
    /// Compute capabilities that every library must have code for.
    #[serde(default, deserialize_with = "capabilities")]
    pub gpus: Vec<Capability>,
    /// The oldest Apptainer that must run the image.
    #[serde(default)]
    pub apptainer: Runtime,
}

/// A version of Apptainer: major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Runtime(pub u32, pub u32);

impl Default for Runtime {
    /// Version 1.1, which many sites still have.
    fn default() -> Self {
        Self(1, 1)
    }
}

impl FromStr for Runtime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('.').map(|(major, minor)| (major.parse(), minor.parse())) {
            Some((Ok(major), Ok(minor))) => Ok(Self(major, minor)),
            _ => Err(format!(
                "the version of Apptainer is `{text}`, expected a version such as `1.1`"
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Runtime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

fn yes() -> bool {
    true
}

fn root() -> String {
    "/".to_owned()
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    let starts = name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    if starts && name.len() <= 100 && name.bytes().all(good) {
        Ok(name)
    } else {
        Err(de::Error::custom(format!(
            "the name is `{name}`, expected at most 100 lower-case letters, digits, `-`, `_` and `.`"
        )))
    }
}

fn capabilities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Capability>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(de::Error::custom)).collect()
}
