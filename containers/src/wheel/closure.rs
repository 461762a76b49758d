//! Which wheels libtorch needs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pep440_rs::Version;

use super::index::{Offer, machine, offers};
use super::marker::Environment;
use super::metadata::Metadata;
use super::remote::{self, MAX_METADATA};
use super::requirement::Requirement;
use super::version::Versions;
use crate::fetch::{Transport, TransportFault};
use crate::sif::Arch;
use crate::{Error, Package, Result};

/// Largest page that is read; torch's has 320 KB.
const MAX_PAGE: u64 = 64 << 20;
/// Most wheels that are followed; torch has 16.
const MAX_WHEELS: usize = 200;

/// The Python whose wheels are taken if there are several: only files that do not depend on it are
/// used.
const PYTHON: &str = "3.11.0";

/// NVIDIA's package that only requires others.
const TOOLKIT: &str = "cuda-toolkit";

/// Packages that `libtorch_cpu.so` of the CUDA builds is linked against, by how their names begin:
/// the CUDA runtime and the profiler's interface.
const CPU_NEEDS: [&str; 2] = ["nvidia-cuda-runtime", "nvidia-cuda-cupti"];

/// The torch wheel of a version, and the wheels of NVIDIA's libraries that it names,
/// by name. `2.11.0+cpu` means its CPU part: only the two libraries come along
/// that this is linked against. Python packages, Triton among them, do not.
///
/// `index` is the URL of a simple index; `progress` hears what is looked up.
///
/// # Errors
/// [`Error::Wheel`] for a version that is not there or wishes that do not agree,
/// [`Error::Fetch`], [`Error::Archive`].
pub fn torch(
    version: &str,
    arch: Arch,
    index: &str,
    transport: &dyn Transport,
    progress: &dyn Fn(&str),
) -> Result<Vec<Package>> {
    let (number, cpu) = match version.strip_suffix("+cpu") {
        Some(number) => (number, true),
        None => (version, false),
    };
    let wanted = number.parse().map_err(|_| Error::Wheel {
        name: "torch".to_owned(),
        reason: format!("`{version}` is not a version"),
        hint: None,
    })?;
    let index = index.trim_end_matches('/');
    let wanted_names = |name: &str| match cpu {
        false => name.starts_with("nvidia-"),
        true => CPU_NEEDS.iter().any(|start| name.starts_with(start)),
    };
    let mut search = Search { arch, index, transport, progress, found: BTreeMap::new() };
    let torch = Requirement {
        name: "torch".to_owned(),
        extras: Vec::new(),
        versions: Versions::Exactly(wanted),
        marker: None,
    };
    let mut todo = VecDeque::from([torch]);
    let mut seen = BTreeSet::new();
    while let Some(need) = todo.pop_front() {
        // The same package may be asked for once more, with other extras.
        if !seen.insert((need.name.clone(), need.extras.clone(), need.versions.to_string())) {
            continue;
        }
        let found = search.find(&need)?;
        let environment =
            Environment { machine: machine(arch), extras: &need.extras, python: PYTHON };
        let counts = |next: &&Requirement| {
            (next.name == TOOLKIT || wanted_names(&next.name))
                && next.marker.as_ref().is_none_or(|marker| marker.holds(&environment))
        };
        todo.extend(found.metadata.needs.iter().filter(counts).cloned());
    }
    let found = search.found.into_values().filter(|found| found.name != TOOLKIT);
    Ok(found.map(Found::into_package).collect())
}

/// A search for wheels, with those that were found.
struct Search<'a> {
    arch: Arch,
    index: &'a str,
    transport: &'a dyn Transport,
    progress: &'a dyn Fn(&str),
    found: BTreeMap<String, Found>,
}

struct Found {
    name: String,
    offer: Offer,
    bytes: u64,
    metadata: Metadata,
}

impl Found {
    fn into_package(self) -> Package {
        Package {
            name: self.name,
            version: self.offer.version.to_string(),
            arch: None,
            bytes: self.bytes,
            sha256: self.offer.sha256,
            urls: vec![self.offer.url],
            license: self.metadata.license,
        }
    }
}

impl Search<'_> {
    fn find(&mut self, need: &Requirement) -> Result<&Found> {
        let name = need.name.as_str();
        let wrong = |reason: String, hint: Option<String>| {
            let name = format!("{name}{}", need.versions);
            Error::Wheel { name, reason, hint }
        };
        if let Some(there) = self.found.get(name) {
            let version = &there.offer.version;
            if !need.versions.holds(version) {
                let reason =
                    format!("the wheels need different versions of it, one of them {version}");
                return Err(wrong(reason, Some("try another version of torch".to_owned())));
            }
        } else {
            if self.found.len() >= MAX_WHEELS {
                let limit = MAX_WHEELS as u64;
                let (path, found) = (self.index.to_owned(), limit + 1);
                return Err(Error::Limit { path, what: "wheels needed", found, limit });
            }
            (self.progress)(&format!("{name}{}", need.versions));
            let page = format!("{}/{name}/", self.index);
            let html = match self.transport.read(&page, MAX_PAGE) {
                Ok(html) => String::from_utf8_lossy(&html).into_owned(),
                Err(TransportFault::NotFound(_)) => {
                    let name = format!("{name}{}", need.versions);
                    return Err(Error::NotInIndex { name, index: self.index.to_owned() });
                }
                Err(fault) => return Err(fault.into_error(&page)),
            };
            let offers = offers(&html, &page, name);
            let offer = choose(&offers, &need.versions, self.arch)
                .map_err(|(reason, hint)| wrong(reason, hint))?;
            let found = self.look(name, offer)?;
            self.found.insert(name.to_owned(), found);
        }
        // The wheel was found before, or has just been added.
        self.found.get(name).ok_or_else(|| wrong("it is no longer in the index".to_owned(), None))
    }

    /// Looks up a wheel's length and its metadata.
    fn look(&self, name: &str, offer: Offer) -> Result<Found> {
        let url = offer.url.as_str();
        let bytes = self.transport.len(url).map_err(|fault| fault.into_error(url))?;
        let Some(bytes) = bytes else {
            let reason = "the server does not say how long it is".to_owned();
            return Err(Error::Fetch { name: url.to_owned(), reason, hint: None, passes: false });
        };
        // PEP 658 has it beside the wheel; not every index, and not for every wheel.
        let text = match self.transport.read(&format!("{url}.metadata"), MAX_METADATA) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(TransportFault::NotFound(_)) => remote::metadata(url, bytes, self.transport)?,
            Err(fault) => return Err(fault.into_error(url)),
        };
        Ok(Found { name: name.to_owned(), bytes, metadata: Metadata::parse(&text), offer })
    }
}

/// The best wheel of the newest version that will do; else why there is none.
fn choose(
    offers: &[Offer],
    versions: &Versions,
    arch: Arch,
) -> std::result::Result<Offer, (String, Option<String>)> {
    let exact = versions.is_exact();
    let suit = offers.iter().filter(|offer| {
        versions.holds(&offer.version)
            && (exact || !offer.yanked && !offer.version.any_prerelease())
    });
    let best = suit.clone().filter_map(|offer| Some((offer.rank(arch)?, offer)));
    // If several suit equally well, the one with the smallest name is taken, whatever the page's
    // order.
    let best = best.max_by(|(a, one), (b, other)| {
        one.version.cmp(&other.version).then(a.cmp(b)).then_with(|| other.url.cmp(&one.url))
    });
    if let Some((_, offer)) = best {
        return Ok(offer.clone());
    }
    if suit.count() > 0 {
        let reason = format!("the index has no wheel for Linux on {}", machine(arch));
        return Err((reason, None));
    }
    let mut there: Vec<&Version> = offers
        .iter()
        .filter(|offer| offer.rank(arch).is_some() && !offer.version.any_prerelease())
        .map(|offer| &offer.version)
        .collect();
    there.sort();
    there.dedup();
    let newest: Vec<_> = there.iter().rev().take(5).map(ToString::to_string).collect();
    let hint = match newest.as_slice() {
        [] => "the index has no version of it for this platform".to_owned(),
        newest => format!("the newest versions in the index are {}", newest.join(", ")),
    };
    Err(("the index has no such version".to_owned(), Some(hint)))
}
