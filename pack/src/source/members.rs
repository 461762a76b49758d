//! Finds the members of an archive by name.

use std::collections::BTreeMap;

use gular_bundle::BundlePath;

use crate::facts::{BadInputs, Fault};
use crate::source::{ArchiveLimit, ArchiveLimits, SourceError};

/// Places of members by 128 bits of the digest of their names, which takes less memory than the
/// names: 16 bytes beside the place, whatever their length.
#[derive(Debug)]
pub(super) struct Members<P> {
    places: Vec<([u8; 16], P)>,
}

impl<P> Members<P> {
    /// Returns the place of a member.
    pub(super) fn get(&self, name: &str) -> Option<&P> {
        let hash = hash(name);
        let at = self.places.binary_search_by(|(h, _)| h.cmp(&hash)).ok()?;
        self.places.get(at).map(|(_, place)| place)
    }
}

/// Calls its argument with the names of all files.
pub(super) type Names<'n> = dyn FnMut(&mut dyn FnMut(&str)) -> Result<(), SourceError> + 'n;

/// Takes members as they are found, refuses what is not a plain file of a safe name.
#[derive(Debug)]
pub(super) struct Gather<'a, P> {
    path: String,
    limits: &'a ArchiveLimits,
    places: Vec<([u8; 16], P)>,
    total: u64,
    bad: BadInputs,
}

/// A member that was found.
pub(super) enum Found<'a> {
    /// A file, with its bytes in the archive and unpacked.
    File {
        packed: u64,
        unpacked: u64,
    },
    Folder,
    /// A member without bytes of its own, or whose bytes cannot be read: why it is refused.
    Refused(&'a str),
}

impl<'a, P> Gather<'a, P> {
    pub(super) fn new(path: String, limits: &'a ArchiveLimits) -> Self {
        Self { path, limits, places: Vec::new(), total: 0, bad: BadInputs::default() }
    }

    /// Takes a member; `name` as it is in the archive.
    pub(super) fn member(
        &mut self,
        name: &[u8],
        found: &Found<'_>,
        place: P,
    ) -> Result<(), SourceError> {
        let shown = String::from_utf8_lossy(name).into_owned();
        let name = match safe(name, matches!(found, Found::Folder)) {
            Ok(Some(name)) => name,
            Ok(None) => return Ok(()),
            Err(reason) => {
                self.refuse(shown, reason);
                return Ok(());
            }
        };
        match *found {
            Found::Folder => {}
            Found::Refused(reason) => self.refuse(shown, reason.to_owned()),
            Found::File { packed, unpacked } => {
                let limit = if unpacked > self.limits.member_bytes {
                    Some((ArchiveLimit::Member, format!("{unpacked} bytes")))
                } else if self.limits.expands_too_far(packed, unpacked) {
                    Some((ArchiveLimit::Ratio, format!("{unpacked} bytes from {packed}")))
                } else {
                    None
                };
                if let Some((limit, found)) = limit {
                    return Err(self.over(limit, format!("its file `{shown}` unpacks to {found}")));
                }
                self.total = self.total.saturating_add(unpacked);
                if self.total > self.limits.total_bytes {
                    let text = format!("its files unpack to more than {}", self.limits.total_bytes);
                    return Err(self.over(ArchiveLimit::Total, format!("{text} bytes")));
                }
                self.places.push((hash(&name), place));
            }
        }
        Ok(())
    }

    fn refuse(&mut self, member: String, reason: String) {
        self.bad.push(Fault::new(reason, None).at(member));
    }

    fn over(&self, limit: ArchiveLimit, reason: String) -> SourceError {
        SourceError::Expands { path: self.path.clone(), limit, reason }
    }

    /// Returns all members, if nothing is wrong with any; `len` is the length of the archive.
    /// `names` reads the names of all files again, to find those that occur twice.
    pub(super) fn finish(
        mut self,
        len: u64,
        names: &mut Names<'_>,
    ) -> Result<Members<P>, SourceError> {
        if self.limits.expands_too_far(len, self.total) {
            // The reason is that members share their bytes.
            let reason = format!("its files unpack to {} bytes from only {len}", self.total);
            return Err(self.over(ArchiveLimit::Ratio, reason));
        }
        self.places.sort_unstable_by_key(|(hash, _)| *hash);
        let twice: BTreeMap<[u8; 16], ()> =
            self.places.windows(2).filter(|w| w[0].0 == w[1].0).map(|w| (w[0].0, ())).collect();
        if !twice.is_empty() {
            let mut found: Vec<String> = Vec::new();
            names(&mut |name| {
                if twice.contains_key(&hash(name)) && !found.iter().any(|f| f == name) {
                    found.push(name.to_owned());
                }
            })?;
            found.sort();
            for name in found {
                self.refuse(name, "the archive has two files of this name".to_owned());
            }
        }
        match self.bad.n {
            0 => Ok(Members { places: self.places }),
            _ => Err(SourceError::BadMembers { path: self.path, bad: self.bad }),
        }
    }
}

/// The name of a member as a key; `None` for the archive's own folder.
pub(super) fn safe(name: &[u8], folder: bool) -> Result<Option<String>, String> {
    let name = std::str::from_utf8(name).map_err(|_| "its name is not UTF-8".to_owned())?;
    let mut name = name;
    while let Some(rest) = name.strip_prefix("./") {
        name = rest;
    }
    let name = if folder { name.trim_end_matches('/') } else { name };
    if folder && matches!(name, "" | ".") {
        return Ok(None);
    }
    match BundlePath::parse(name) {
        Ok(_) => Ok(Some(name.to_owned())),
        Err(e) => Err(format!("its name is not a safe path: {}", e.reason)),
    }
}

fn hash(name: &str) -> [u8; 16] {
    let hash = blake3::hash(name.as_bytes());
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

/// Makes a [`std::io::Error`] that says what is wrong with a member.
pub(super) fn damaged(reason: impl Into<String>) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, reason.into())
}
