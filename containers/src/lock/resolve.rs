//! Resolves a recipe to a lock.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::document::{Debian, ImageLock, Oci, conda_archive, recipe_digest};
use super::oci;
use crate::debian::{
    self, Additions, Archive, DEFAULT_PACKAGES, DEFAULT_TOOLS, Installed, Keyring, Release,
    snapshot,
};
use crate::fetch::Transport;
use crate::image_watch::Note;
use crate::oci::BaseImage;
use crate::package_sources::Sources;
use crate::python::{self, BasePython, DEBIAN_PACKAGE, Interpreter};
use crate::recipe::{DEFAULT, PythonSection, Recipe};
use crate::wheel;
use crate::{Error, Package, Result, UnixTime, package};

/// The release taken when a recipe names none: glibc 2.36, which is enough for the
/// libraries that `--nv` brings from a host, and old enough to be well known.
pub const DEFAULT_SUITE: &str = "bookworm";

/// Debian's own archive, as its Release files name it.
const DEBIAN: &str = "Debian";

/// An archive that keeps every file that Debian ever had.
const SNAPSHOT: &str = "https://snapshot.debian.org/archive";

/// Resolves the recipe's packages to their current versions. `dir` is the recipe's folder;
/// `progress` hears what is being asked for.
///
/// # Errors
/// [`Error::Package`], [`Error::Release`], [`Error::Wheel`] for what is not there or not
/// to be trusted; [`Error::Registry`], [`Error::Oci`] for the image that it begins with;
/// [`Error::Fetch`], [`Error::Debian`], [`Error::Archive`], [`Error::Io`].
pub fn resolve(
    recipe: &Recipe,
    dir: &Path,
    sources: &Sources,
    transport: &dyn Transport,
    progress: &dyn Fn(&str),
) -> Result<ImageLock> {
    let read = |oci: &Oci| {
        let reason = "the files of the base image are not at hand".to_owned();
        Err(Error::Oci { path: oci.path.to_string(), reason })
    };
    resolve_on(recipe, dir, sources, transport, progress, &OnBase { read: &read, note: &|_| {} })
}

/// How packages are resolved for an image that the recipe begins with.
pub(crate) struct OnBase<'a> {
    /// Fetches and reads the image.
    pub(crate) read: &'a dyn Fn(&Oci) -> Result<Arc<BaseImage>>,
    /// Hears what was found in it.
    pub(crate) note: &'a dyn Fn(&Note<'_>),
}

/// Does the same as [`resolve`], and also finds packages for an image that the recipe begins with.
///
/// # Errors
/// Those of [`resolve`]; [`Error::Python`] and [`Error::NotDebian`] for an image that nothing can be
/// added to.
pub(crate) fn resolve_on(
    recipe: &Recipe,
    dir: &Path,
    sources: &Sources,
    transport: &dyn Transport,
    progress: &dyn Fn(&str),
    base: &OnBase<'_>,
) -> Result<ImageLock> {
    let platform = recipe.image.platform;
    let mut lock = ImageLock {
        time: UnixTime::default(),
        recipe: recipe_digest(recipe),
        platform,
        debian: None,
        oci: None,
        debs: Vec::new(),
        tools: Vec::new(),
        wheels: Vec::new(),
        python: None,
        conda: conda_archive(recipe, dir)?,
        steps: Vec::new(),
    };
    if let Some(asked) = &recipe.python {
        python::check_input(asked, dir)?;
    }
    let mut image = None;
    if let Some(named) = &recipe.base.oci {
        progress(&named.to_string());
        let (oci, created) = oci::digest(dir, named, platform.0, transport)?;
        lock.time = created.unwrap_or_default();
        let adds = recipe.python.is_some() || recipe.base.packages.is_some();
        image = adds.then(|| (base.read)(&oci)).transpose()?;
        lock.oci = Some(oci);
        if let (Some(image), Some(wanted)) = (&image, &recipe.base.packages) {
            let installed = Installed::of(&image.tree)?;
            let found = Found { sources, transport, progress };
            found.onto_image(&installed, wanted, base.note, &mut lock)?;
        }
    } else if !recipe.base.scratch {
        Found { sources, transport, progress }.debian_base(recipe, &mut lock)?;
    }
    if let Some(asked) = &recipe.python {
        let of_base = match &image {
            Some(image) => Some(base_python(image, asked, &lock, base.note)?),
            None => None,
        };
        let interpreter = match &of_base {
            Some(python) => python.interpreter.clone(),
            None => Interpreter::of_debs(&lock.debs, platform.0)?,
        };
        let kept = &mut Vec::new();
        let mut found =
            python::resolve(asked, dir, &interpreter, sources, transport, progress, kept)?;
        if !kept.is_empty() {
            (base.note)(&Note::Kept { names: kept });
        }
        if let Some(python) = &of_base {
            found.interpreter = Some(python.scheme.program.clone());
            let names = found.wheels.iter().map(|wheel| wheel.name.as_str());
            let replaced = python.replaced(names);
            for there in &replaced {
                let now = found.wheels.iter().find(|wheel| wheel.name == there.name);
                let now = now.map_or("", |wheel| wheel.version.as_str());
                let (name, before) = (there.name.as_str(), there.version.to_string());
                (base.note)(&Note::Replaced { name, before: &before, now });
            }
        }
        lock.python = Some(found);
    }
    if let Some(torch) = recipe.cuda.as_ref().and_then(|cuda| cuda.torch.as_ref()) {
        let of_python = lock.python.iter().flat_map(|python| &python.wheels);
        match of_python.into_iter().find(|wheel| wheel.name == "torch") {
            Some(there) => same_torch(&torch.0, there)?,
            None => {
                lock.wheels =
                    wheel::torch(&torch.0, platform.0, &sources.index, transport, progress)?;
            }
        }
    }
    Ok(lock)
}

/// Programs and Python share one torch, so both must have the same version.
fn same_torch(asked: &str, there: &Package) -> Result<()> {
    let number = |version: &str| version.split('+').next().unwrap_or_default().to_owned();
    if number(asked) == number(&there.version) {
        return Ok(());
    }
    Err(Error::Wheel {
        name: there.name.clone(),
        reason: format!("`[cuda]` asks for version {asked}, and `[python]` for {}", there.version),
        hint: Some(
            "an image can have only one version of torch: write the same version in both sections"
                .to_owned(),
        ),
    })
}

/// The Python of an image, and what is said of it.
fn base_python(
    image: &BaseImage,
    asked: &PythonSection,
    lock: &ImageLock,
    note: &dyn Fn(&Note<'_>),
) -> Result<BasePython> {
    let chosen = asked.interpreter.as_ref().map(|path| path.display().to_string());
    let python = BasePython::find(&image.tree, &image.env, lock.platform.0, chosen.as_deref())?;
    note(&Note::BasePython {
        program: &python.scheme.program,
        version: &python.interpreter.version,
        kind: python.kind,
        others: &python.others,
    });
    Ok(python)
}

/// Where Debian's packages are found.
struct Found<'a> {
    sources: &'a Sources,
    transport: &'a dyn Transport,
    progress: &'a dyn Fn(&str),
}

impl Found<'_> {
    /// The packages of a Debian base.
    fn debian_base(&self, recipe: &Recipe, lock: &mut ImageLock) -> Result<()> {
        let suite = recipe.base.debian.as_deref().unwrap_or(DEFAULT_SUITE);
        let (archive, releases) = self.archive(suite, lock)?;
        let asked = recipe.base.packages.clone();
        let mut wanted = asked.unwrap_or_else(|| vec![DEFAULT.to_owned()]);
        let mut further: &[&str] = &[];
        if let Some(at) = wanted.iter().position(|name| name == DEFAULT) {
            further = &DEFAULT_TOOLS;
            wanted.splice(at..=at, DEFAULT_PACKAGES.iter().map(|(name, _)| (*name).to_owned()));
        }
        if recipe.python.is_some() && !wanted.iter().any(|name| name == DEBIAN_PACKAGE) {
            wanted.push(DEBIAN_PACKAGE.to_owned());
        }
        let packages = debian::resolve(&archive, &wanted)?;
        let tools = debian::tools(&archive, &packages, further)?;
        lock.time = self.add(&packages, &tools, suite, &releases, lock)?;
        Ok(())
    }

    /// The packages that an image of Debian lacks.
    fn onto_image(
        &self,
        installed: &Installed,
        wanted: &[String],
        note: &dyn Fn(&Note<'_>),
        lock: &mut ImageLock,
    ) -> Result<()> {
        let (archive, releases) = self.archive(&installed.suite, lock)?;
        let Additions { packages, kept, replaced } = installed.additions(&archive, wanted)?;
        if !kept.is_empty() {
            note(&Note::Kept { names: &kept });
        }
        for (name, before) in &replaced {
            let now = packages.iter().find(|package| package.name == *name);
            let now = now.map(|package| package.version.to_string()).unwrap_or_default();
            note(&Note::Replaced { name, before, now: &now });
        }
        // Scripts are not run over another image, so that they need no tools.
        self.add(&packages, &[], &installed.suite, &releases, lock)?;
        Ok(())
    }

    /// The lists of a release, with its updates.
    fn archive(&self, suite: &str, lock: &ImageLock) -> Result<(Archive, Vec<Release>)> {
        let Self { sources, transport, progress } = *self;
        let keyring = match sources.keyrings.as_slice() {
            [] => Keyring::debian()?,
            files => {
                let mut keyring = Keyring::default();
                for file in files {
                    let bytes = fs::read(file).map_err(Error::io("read", file))?;
                    keyring.add(&bytes, &file.display().to_string())?;
                }
                keyring
            }
        };
        let mut places = vec![(sources.debian.as_str(), suite.to_owned())];
        // A suite that is never released has neither updates nor advisories.
        if !matches!(suite, "sid" | "unstable") {
            places.push((&sources.debian, format!("{suite}-updates")));
            places.push((&sources.debian_security, format!("{suite}-security")));
        }
        let mut archive = Archive::default();
        let mut releases = Vec::new();
        for (root, suite) in places {
            progress(&format!("{suite} of {root}"));
            let release = Release::fetch(root, &suite, &keyring, sources.now, transport)?;
            release.add_to(&mut archive, platform_name(lock), transport)?;
            releases.push(release);
        }
        Ok((archive, releases))
    }

    /// Writes packages into the lock; returns the time of the newest list.
    fn add(
        &self,
        packages: &[&debian::DebianPackage],
        tools: &[&debian::DebianPackage],
        suite: &str,
        releases: &[Release],
        lock: &mut ImageLock,
    ) -> Result<UnixTime> {
        let sources = self.sources;
        let newest = releases.iter().map(|release| release.date).max().unwrap_or_default();
        let snapshot = snapshot(newest).unwrap_or_default();
        let official = releases.iter().all(|release| release.origin.as_deref() == Some(DEBIAN));
        let snapshot = if official { snapshot } else { String::new() };
        for package in tools {
            lock.tools.push(deb(package, sources, &snapshot)?);
        }
        for package in packages {
            lock.debs.push(deb(package, sources, &snapshot)?);
        }
        lock.debian = Some(Debian {
            suite: suite.to_owned(),
            mirror: sources.debian.clone(),
            security: sources.debian_security.clone(),
            snapshot,
        });
        Ok(newest)
    }
}

fn platform_name(lock: &ImageLock) -> &'static str {
    lock.platform.0.name()
}

/// A package with its addresses: at the mirror, and where it stays for good.
fn deb(package: &debian::DebianPackage, sources: &Sources, snapshot: &str) -> Result<Package> {
    let mut urls = vec![format!("{}/{}", package.root, package.filename)];
    if !snapshot.is_empty() {
        let security = *package.root == *sources.debian_security.trim_end_matches('/');
        let archive = if security { "debian-security" } else { "debian" };
        urls.push(format!("{SNAPSHOT}/{archive}/{snapshot}/{}", package.filename));
    }
    if urls.iter().any(|url| package::file_name(url).is_none()) {
        let reason = format!("`{}` is not a file's name", package.filename);
        return Err(Error::Package { name: package.name.clone(), reason, hint: None });
    }
    Ok(Package {
        name: package.name.clone(),
        version: package.version.to_string(),
        arch: Some(package.arch.clone()),
        bytes: package.bytes,
        sha256: package.sha256,
        urls,
        license: None,
    })
}
