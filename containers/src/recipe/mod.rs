//! The recipe of an image: one TOML file.
//!
//! ```toml
//! [image]
//! name = "train"
//! platform = "linux/amd64"
//! [base]
//! debian = "bookworm"
//! packages = ["default", "libgdal32"]
//! [app]
//! package = "train"
//! [cuda]
//! torch = "2.11.0"
//! [target]
//! gpus = ["8.0", "9.0"]
//! [env]
//! PYTHONUNBUFFERED = "1"
//! ```

mod keys;
mod sections;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

pub use self::sections::{
    App, BaseSection, CondaSection, Cuda, ImageSection, OciBase, Platform, PythonSection, RunStep,
    Runtime, TargetSection, Torch,
};
use crate::rootfs::RootPath;
use crate::{Error, Result};

/// Stands in `packages` for those of a base that names none.
pub(crate) const DEFAULT: &str = "default";

/// Most steps of a recipe: each is a layer of an OCI image, which 127 layers are the most of.
pub(crate) const MAX_STEPS: usize = 64;

/// Largest recipe read.
const MAX_BYTES: u64 = 1 << 20;

/// A recipe, its values checked one by one and against each other.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// `[image]`: what it is called and where it runs.
    pub image: ImageSection,
    /// `[base]`: the files under everything else.
    #[serde(default)]
    pub base: BaseSection,
    /// `[app]`: the program.
    #[serde(default)]
    pub app: Option<App>,
    /// `[cuda]`: libtorch, and with it NVIDIA's libraries.
    #[serde(default)]
    pub cuda: Option<Cuda>,
    /// `[python]`: Python packages.
    #[serde(default)]
    pub python: Option<PythonSection>,
    /// `[conda]`: an environment of conda.
    #[serde(default)]
    pub conda: Option<CondaSection>,
    /// `[[run]]`: commands that are run over what the recipe says so far, in their order.
    #[serde(default)]
    pub run: Vec<RunStep>,
    /// `[target]`: the GPUs and container runtimes it must run on.
    #[serde(default)]
    pub target: TargetSection,
    /// `[env]`: environment variables, kept when the outside sets them.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// `[labels]`: as OCI's annotations.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl Recipe {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`Error::Io`], and as [`parse`](Self::parse).
    pub fn open(path: &Path) -> Result<Self> {
        let len = std::fs::metadata(path).map_err(Error::io("read", path))?.len();
        let shown = path.display().to_string();
        if len > MAX_BYTES {
            let reason = format!("the file has {len} bytes, more than the limit of {MAX_BYTES}");
            return Err(Error::Recipe { path: shown, line: 1, reason, hint: None });
        }
        let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
        Self::parse(&text, &shown)
    }

    /// Reads and checks a recipe's text; `path` names it in errors.
    ///
    /// # Errors
    /// [`Error::Recipe`] with the line: what is not TOML, an unknown key (with the
    /// nearest known one), a value out of its range, parts that exclude each other.
    pub fn parse(text: &str, path: &str) -> Result<Self> {
        let wrong = |at: usize, reason: String, hint: Option<String>| {
            let line = text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
            Error::Recipe { path: path.to_owned(), line, reason, hint }
        };
        if let Some(unknown) = keys::unknown(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            wrong(at, e.message().to_owned(), None)
        })? {
            return Err(wrong(unknown.at, unknown.reason, Some(unknown.hint)));
        }
        let recipe: Self = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            wrong(at, e.message().to_owned(), None)
        })?;
        if let Err((key, reason)) = recipe.check() {
            return Err(wrong(keys::place(text, key), reason, None));
        }
        Ok(recipe)
    }

    /// Returns whether locking this recipe needs a network.
    pub fn needs_network(&self) -> bool {
        let BaseSection { scratch, oci, packages, .. } = &self.base;
        let torch = self.cuda.as_ref().is_some_and(|cuda| cuda.torch.is_some());
        let python = self.python.as_ref();
        let wheels = python.is_some_and(|p| p.lock.is_some() || p.requirements.is_some());
        let is_here = *scratch || matches!(oci, Some(OciBase::Path(_)));
        torch || wheels || packages.is_some() || !is_here
    }

    /// Returns whether the recipe asks only for the CPU part of libtorch.
    pub fn is_cpu_only(&self) -> bool {
        let torch = self.cuda.as_ref().and_then(|cuda| cuda.torch.as_ref());
        torch.is_some_and(|torch| torch.0.ends_with("+cpu"))
    }

    /// The parts against each other. The key names where to look: `base`, `env.PATH`.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let BaseSection { scratch, debian, oci, packages } = &self.base;
        let ways =
            usize::from(*scratch) + usize::from(debian.is_some()) + usize::from(oci.is_some());
        if ways > 1 {
            let reason = "`scratch`, `debian` and `oci` exclude each other";
            return Err(("base", reason.to_owned()));
        }
        if packages.is_some() && *scratch {
            return Err(("base", "`packages` needs the key `debian` or `oci`".to_owned()));
        }
        let is_default = |name: &String| name == DEFAULT;
        if oci.is_some() && packages.iter().flatten().any(is_default) {
            let reason = "the image in `oci` is its own default: leave out `default`";
            return Err(("base", reason.to_owned()));
        }
        if *scratch && self.app.is_none() {
            return Err((
                "image",
                "the image would be empty: `[app]` or a base is missing".to_owned(),
            ));
        }
        if let Some(python) = &self.python {
            if *scratch {
                let reason = "`[python]` needs a base, whose Python it uses";
                return Err(("python", reason.to_owned()));
            }
            if python.interpreter.is_some() && oci.is_none() {
                let reason = "`interpreter` needs the key `oci`: Debian's packages have one Python";
                return Err(("python", reason.to_owned()));
            }
            if python.lock.is_some() && python.requirements.is_some() {
                return Err(("python", "use either `lock` or `requirements`, not both".to_owned()));
            }
            if python.lock.is_none() && python.requirements.is_none() && python.wheels.is_empty() {
                let reason = "expected `lock`, `requirements` or `wheels`";
                return Err(("python", reason.to_owned()));
            }
        }
        if self.conda.is_some() {
            if self.python.is_some() {
                let reason = "`[conda]` and `[python]` exclude each other, since each has a Python of its own: install the packages with `pip` in the environment, and pack it again";
                return Err(("python", reason.to_owned()));
            }
            if *scratch {
                let reason = "`[conda]` needs a base with a C library, which no environment has";
                return Err(("conda", reason.to_owned()));
            }
        }
        self.check_steps()?;
        check_variables(&self.env).map_err(|reason| ("env", reason))
    }

    fn check_steps(&self) -> Result<(), (&'static str, String)> {
        let wrong = |reason: String| Err(("run", reason));
        if self.run.len() > MAX_STEPS {
            return wrong(format!("{} steps, at most {MAX_STEPS} are possible", self.run.len()));
        }
        for step in &self.run {
            if step.script.trim().is_empty() {
                return wrong("the `script` of a step is empty".to_owned());
            }
            if !step.workdir.starts_with('/') || RootPath::new(&step.workdir).is_err() {
                let found = &step.workdir;
                return wrong(format!("`workdir` is `{found}`, expected a path such as `/src`"));
            }
            check_variables(&step.env).map_err(|reason| ("run", reason))?;
        }
        Ok(())
    }
}

/// Names of environment variables that a shell takes.
fn check_variables(env: &BTreeMap<String, String>) -> Result<(), String> {
    match env.keys().find(|name| !crate::singularity::is_variable(name)) {
        Some(name) => Err(format!("`{name}` is not the name of an environment variable")),
        None => Ok(()),
    }
}
