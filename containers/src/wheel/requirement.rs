//! Requirements (PEP 508): `cuda-toolkit[cublas,cudart]==13.0.2; platform_system == "Linux"`.

use super::marker::Marker;
use super::version::Versions;

/// A package that a distribution needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    /// The package's name, in the form of [`normal`].
    pub(crate) name: String,
    pub(crate) extras: Vec<String>,
    pub(crate) versions: Versions,
    /// The condition under which the package is needed.
    pub(crate) marker: Option<Marker>,
}

impl Requirement {
    /// `None` for what is none, and for one with an address of its own (`name @ URL`).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (what, marker) = match text.split_once(';') {
            Some((what, marker)) => (what, Some(Marker::parse(marker)?)),
            None => (text, None),
        };
        let what = what.trim();
        let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let end = what.find(|c: char| !good(c)).unwrap_or(what.len());
        let (name, rest) = what.split_at(end);
        let rest = rest.trim();
        let (extras, versions) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", rest),
        };
        let versions = versions.trim();
        let inside = versions.strip_prefix('(').and_then(|inside| inside.strip_suffix(')'));
        let versions = Versions::parse(inside.unwrap_or(versions))?;
        let extras = extras.split(',').map(normal).filter(|extra| !extra.is_empty()).collect();
        (!name.is_empty()).then(|| Self { name: normal(name), extras, versions, marker })
    }
}

/// A name as indexes write it: `nvidia_cudnn.cu13` is `nvidia-cudnn-cu13` (PEP 503).
pub(crate) fn normal(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.trim().chars() {
        if !"-_.".contains(c) {
            text.push(c.to_ascii_lowercase());
        } else if !text.ends_with('-') {
            text.push('-');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_read() {
        let text = "cuda-toolkit[cublas, nvJitLink]==13.0.2; platform_system == \"Linux\"";
        let read = Requirement::parse(text).unwrap();
        assert_eq!(read.name, "cuda-toolkit");
        assert_eq!(read.extras, ["cublas", "nvjitlink"]);
        assert_eq!(read.versions.to_string(), "==13.0.2");
        assert!(read.marker.is_some());
        let read = Requirement::parse("Nvidia_cuDNN.cu12 (>=9,<10)").unwrap();
        assert_eq!(
            (read.name.as_str(), read.versions.to_string().as_str()),
            ("nvidia-cudnn-cu12", ">=9, <10")
        );
        assert!(Requirement::parse("filelock").unwrap().marker.is_none());
        for bad in ["", "==1", "a[b", "a @ https://x/y.whl", "a ==1; nonsense", "a (==1"] {
            assert_eq!(Requirement::parse(bad), None, "{bad}");
        }
    }
}
