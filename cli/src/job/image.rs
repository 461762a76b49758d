//! The requirements of a container image on its job.

use std::fs;
use std::path::Path;

use gular_containers::ImageLabels;
use gular_containers::export::ImageFacts;
use gular_containers::python::PythonModules;
use gular_jobs::write::{JobImage, Site};

use crate::exit::Failure;

const HINT: &str = "give a .sif file, an OCI layout or archive, or a URL such as `docker://pytorch/pytorch:2.11.0`";

/// An image, and what a GPU needs for it.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) image: Option<JobImage>,
    pub(super) capability: Option<String>,
    pub(super) cuda: Option<String>,
    /// The Python modules of an image that is here, if all are known.
    pub(super) modules: Option<PythonModules>,
}

impl Asked {
    /// A URL as it is, a file by its whole path: images are too large to be copied. `facts` say
    /// which GPUs and drivers it needs; without them, the labels of our own images do.
    pub(super) fn look(
        image: &str,
        bytes: Option<u64>,
        facts: Option<&Path>,
        site: Site,
    ) -> Result<Self, Failure> {
        let mut asked = if image.contains("://") {
            let image = JobImage { source: image.to_owned(), bytes: None };
            Self { image: Some(image), ..Self::default() }
        } else {
            Self::of_file(image, site)?
        };
        let facts = facts.map(read).transpose()?;
        if let Some(image) = &mut asked.image {
            image.bytes = bytes.or(facts.as_ref().and_then(|facts| facts.bytes)).or(image.bytes);
        }
        if let Some(facts) = facts {
            asked.capability = facts.minimum_capability.or(asked.capability);
            asked.cuda = facts.cuda_runtime.or(asked.cuda);
        }
        Ok(asked)
    }

    fn of_file(image: &str, site: Site) -> Result<Self, Failure> {
        let path = fs::canonicalize(image).map_err(|error| {
            let what = format!("cannot read the image `{image}`: {error}");
            Failure::new(what, Some(HINT.to_owned()))
        })?;
        let labels = ImageLabels::read(&path).map_err(|error| {
            let what = format!("`{image}` is not a container image that can be read: {error}");
            Failure::new(what, Some(HINT.to_owned()))
        })?;
        let text = path.to_string_lossy();
        let source = match (labels.is_sif, site.is_slurm()) {
            (true, _) => text.into_owned(),
            (false, true) if path.is_dir() => format!("oci:{text}"),
            (false, true) => format!("oci-archive:{text}"),
            (false, false) => {
                let what =
                    format!("`{image}` is an OCI image, but jobs of HTCondor need a .sif or a URL");
                let hint = "make a .sif with `gular image build`, or from an OCI layout with `apptainer build train.sif oci:DIR`";
                return Err(Failure::new(what, Some(hint.to_owned())));
            }
        };
        Ok(Self {
            image: Some(JobImage { source, bytes: Some(labels.bytes) }),
            capability: labels.minimum_capability().map(str::to_owned),
            cuda: labels.cuda_runtime().map(str::to_owned),
            // An image whose names cannot be read may still run.
            modules: labels.is_sif.then(|| PythonModules::of_sif(&path).ok().flatten()).flatten(),
        })
    }
}

fn read(path: &Path) -> Result<ImageFacts, Failure> {
    let text = fs::read(path).map_err(|e| gular_files::Error::new("read", path, e))?;
    serde_json::from_slice(&text).map_err(|error| {
        let what = format!("`{}` is not a file of facts about an image: {error}", path.display());
        let hint = "write such a file with `gular image export facts IMAGE.sif > facts.json`";
        Failure::new(what, Some(hint.to_owned()))
    })
}
