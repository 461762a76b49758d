//! Resolves a recipe to a lock.

use std::fs;
use std::path::Path;

use super::document::{Debian, ImageLock, conda_archive, recipe_digest};
use super::oci;
use crate::debian::{self, Archive, DEFAULT_PACKAGES, DEFAULT_TOOLS, Keyring, Release, snapshot};
use crate::fetch::Transport;
use crate::package_sources::Sources;
use crate::python::{self, DEBIAN_PACKAGE, Interpreter};
use crate::recipe::Recipe;
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
    };
    if let Some(asked) = &recipe.python {
        python::check_input(asked, dir)?;
    }
    if let Some(base) = &recipe.base.oci {
        progress(&base.to_string());
        let (oci, created) = oci::digest(dir, base, platform.0, transport)?;
        lock.time = created.unwrap_or_default();
        lock.oci = Some(oci);
    } else if !recipe.base.scratch {
        debian_base(recipe, sources, transport, progress, &mut lock)?;
    }
    if let Some(asked) = &recipe.python {
        let interpreter = Interpreter::of_debs(&lock.debs, platform.0)?;
        let found = python::resolve(asked, dir, &interpreter, sources, transport, progress)?;
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

/// Stands in `packages` for those of a base that names none.
const DEFAULT: &str = "default";

/// The packages of a Debian base.
fn debian_base(
    recipe: &Recipe,
    sources: &Sources,
    transport: &dyn Transport,
    progress: &dyn Fn(&str),
    lock: &mut ImageLock,
) -> Result<()> {
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
    let suite = recipe.base.debian.as_deref().unwrap_or(DEFAULT_SUITE);
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
    let newest = releases.iter().map(|release| release.date).max().unwrap_or_default();
    let snapshot = snapshot(newest).unwrap_or_default();
    let official = releases.iter().all(|release| release.origin.as_deref() == Some(DEBIAN));
    let snapshot = if official { snapshot } else { String::new() };
    for package in debian::tools(&archive, &packages, further)? {
        lock.tools.push(deb(package, sources, &snapshot)?);
    }
    for package in packages {
        lock.debs.push(deb(package, sources, &snapshot)?);
    }
    lock.time = newest;
    lock.debian = Some(Debian {
        suite: suite.to_owned(),
        mirror: sources.debian.clone(),
        security: sources.debian_security.clone(),
        snapshot,
    });
    Ok(())
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
