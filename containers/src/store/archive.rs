//! Reads tar archives and Debian packages into a store.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use tar::EntryType;

use super::listing::{Filling, MemberKind};
use super::sparse::Sparse;
use crate::rootfs::{RootPath, text_of};
use crate::{Error, Result, UnixTime};

/// The limits of an unpacked archive.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of nodes.
    pub entries: u64,
}

impl Default for Limits {
    /// Returns the default limits: 64 GiB, a million nodes.
    fn default() -> Self {
        Self { bytes: 64 << 30, entries: 1_000_000 }
    }
}

/// Unpacks a tar; with `whiteouts`, one of an OCI layer. `name` is what errors call it.
///
/// # Errors
/// [`Error::Archive`] for a damaged one, or a device outside a layer, a path that leads
/// outside; [`Error::Limit`], [`Error::Io`].
pub fn unpack_tar(
    filling: &mut Filling,
    reader: &mut dyn Read,
    name: &str,
    whiteouts: bool,
    limits: &Limits,
) -> Result<()> {
    filling.name_archive(name);
    each_member(reader, name, limits, |entry| member(filling, entry, name, whiteouts, limits))
}

/// Calls `take` with the path of each member of a tar, which may be any bytes; nothing else of
/// it is looked at.
///
/// # Errors
/// [`Error::Archive`] for a damaged one, or one with more than its limits explain.
pub(crate) fn each_path(
    reader: &mut dyn Read,
    name: &str,
    limits: &Limits,
    mut take: impl FnMut(&[u8]),
) -> Result<()> {
    each_member(reader, name, limits, |entry| {
        take(&entry.path_bytes());
        Ok(())
    })
}

/// Calls `take` with the path of each member of a tar, and when it was changed: seconds since 1970.
///
/// # Errors
/// Those of [`each_path`].
pub(crate) fn each_time(
    reader: &mut dyn Read,
    name: &str,
    limits: &Limits,
    mut take: impl FnMut(&[u8], u64),
) -> Result<()> {
    each_member(reader, name, limits, |entry| {
        // Python rounds the header's own field, and not this one.
        let exact = attributes(entry).ok().and_then(|found| found.time);
        let exact = exact.and_then(|time| u64::try_from(time).ok());
        let time = exact.or_else(|| entry.header().mtime().ok()).unwrap_or(0);
        take(&entry.path_bytes(), time);
        Ok(())
    })
}

fn each_member(
    reader: &mut dyn Read,
    name: &str,
    limits: &Limits,
    mut take: impl FnMut(&mut tar::Entry<'_, Metered<'_>>) -> Result<()>,
) -> Result<()> {
    let damaged = |reason: String| Error::Archive { path: name.to_owned(), reason };
    let header = Cell::new(MAX_HEADER);
    // Bytes that are not in files are headers: a few for each member.
    let most = limits.bytes.saturating_add(limits.entries.saturating_mul(MEMBER_HEADERS));
    let reader = Metered { inner: reader, header: &header, left: most.saturating_add(MAX_HEADER) };
    let mut tar = tar::Archive::new(reader);
    let mut entries = tar.entries().map_err(|e| damaged(e.to_string()))?;
    loop {
        header.set(MAX_HEADER);
        let Some(entry) = entries.next() else { return Ok(()) };
        let mut entry = entry.map_err(|e| damaged(e.to_string()))?;
        header.set(u64::MAX);
        take(&mut entry)?;
        // Bytes that are not read here would count as headers.
        io::copy(&mut entry, &mut io::sink()).map_err(|e| damaged(e.to_string()))?;
    }
}

/// Longest header of one member: names and attributes, and the map of a sparse file.
const MAX_HEADER: u64 = 4 << 20;
/// Bytes of headers and padding that a usual member has at most.
const MEMBER_HEADERS: u64 = 4096;

/// Ends with an error before a header fills the memory, or an archive never ends.
struct Metered<'a> {
    inner: &'a mut dyn Read,
    /// Bytes that the header may still have.
    header: &'a Cell<u64>,
    /// Bytes that the archive may still have.
    left: u64,
}

impl Read for Metered<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.header.get() == 0 {
            return Err(io::Error::other("the header of a file in it is longer than 4 MiB"));
        }
        if self.left == 0 {
            return Err(io::Error::other(
                "the headers of its files take more bytes than the limits allow",
            ));
        }
        let most = usize::try_from(self.header.get().min(self.left)).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        let read = self.inner.read(buffer.get_mut(..most).unwrap_or_default())?;
        self.left -= read as u64;
        if self.header.get() != u64::MAX {
            self.header.set(self.header.get() - read as u64);
        }
        Ok(read)
    }
}

fn member<R: Read>(
    filling: &mut Filling,
    entry: &mut tar::Entry<'_, R>,
    name: &str,
    whiteouts: bool,
    limits: &Limits,
) -> Result<()> {
    let damaged = |reason: String| Error::Archive { path: name.to_owned(), reason };
    let header = entry.header();
    let kind = header.entry_type();
    if matches!(kind, EntryType::XGlobalHeader | EntryType::XHeader) {
        return Ok(());
    }
    let mode = (header.mode().map_err(|e| damaged(e.to_string()))? & 0o7777) as u16;
    let mut path = RootPath::new(&text_of(&entry.path_bytes()))?;
    let link = entry.link_name_bytes().map(|bytes| text_of(&bytes));
    if whiteouts && let Some(hidden) = path.name().strip_prefix(".wh.") {
        let parent = path.parent().unwrap_or(RootPath::ROOT);
        return match hidden {
            ".wh..opq" => filling.add(&parent, mode, MemberKind::Opaque, limits),
            // aufs uses these files itself.
            _ if hidden.starts_with(".wh.") => Ok(()),
            "" | "." | ".." => {
                Err(damaged(format!("the whiteout {path} does not name a file to hide")))
            }
            _ => filling.add(&parent.join(hidden), mode, MemberKind::Whiteout, limits),
        };
    }
    if entry.size() > limits.bytes {
        let (path, found) = (name.to_owned(), entry.size());
        return Err(Error::Limit { path, what: "bytes", found, limit: limits.bytes });
    }
    let header_time = entry.header().mtime();
    let attributes = attributes(entry).map_err(|e| damaged(format!("{path}: {e}")))?;
    if let Some(name) = &attributes.sparse.name {
        path = RootPath::new(&text_of(name))?;
    }
    if let Some(found) = attributes.sparse.size.filter(|size| *size > limits.bytes) {
        let path = name.to_owned();
        return Err(Error::Limit { path, what: "bytes", found, limit: limits.bytes });
    }
    for attribute in attributes.extended {
        filling.add(&path, mode, MemberKind::Attribute(attribute), limits)?;
    }
    let target = || link.clone().ok_or_else(|| damaged(format!("the link {path} has no target")));
    let added = match kind {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let added = if attributes.sparse.is_sparse() {
                let expanded = attributes.sparse.expand(entry);
                let mut expanded = expanded.map_err(|e| damaged(format!("{path}: {e}")))?;
                filling.add_file(&path, mode, &mut expanded, limits)
            } else {
                filling.add_file(&path, mode, entry, limits)
            };
            added.map_err(|e| match e {
                Error::Read { path, source } => damaged(format!("{path}: {source}")),
                other => other,
            })
        }
        EntryType::Directory => filling.add(&path, mode, MemberKind::Dir, limits),
        EntryType::Symlink => filling.add(&path, 0o777, MemberKind::Symlink(target()?), limits),
        EntryType::Link => {
            let first = RootPath::new(&target()?)?;
            filling.add(&path, mode, MemberKind::Hardlink(first.as_str().to_owned()), limits)
        }
        EntryType::Char | EntryType::Block | EntryType::Fifo if whiteouts => {
            filling.add(&path, mode, MemberKind::Special(special(entry.header())), limits)
        }
        other => Err(damaged(format!("{path} is a device or a pipe (type {other:?})"))),
    };
    // The files of packages have the time of the image, those of other images their own.
    if whiteouts {
        let of_header = header_time.ok().and_then(|time| i64::try_from(time).ok());
        attributes.time.or(of_header).into_iter().for_each(|time| filling.set_time(UnixTime(time)));
    }
    added
}

/// Names a node that no plain user can make: `character device 1:3`, `named pipe`.
fn special(header: &tar::Header) -> String {
    let kind = match header.entry_type() {
        EntryType::Char => "character device",
        EntryType::Block => "block device",
        _ => return "named pipe".to_owned(),
    };
    let number = |part: io::Result<Option<u32>>| part.ok().flatten();
    match number(header.device_major()).zip(number(header.device_minor())) {
        Some((major, minor)) => format!("{kind} {major}:{minor}"),
        None => kind.to_owned(),
    }
}

/// The attributes that are stored before a member.
#[derive(Default)]
struct Attributes {
    /// The parts of a sparse file as GNU's tar writes it.
    sparse: Sparse,
    /// Names of the member's extended attributes.
    extended: Vec<String>,
    /// The time of its last change, if the header's field is too small for it.
    time: Option<i64>,
}

fn attributes<R: Read>(entry: &mut tar::Entry<'_, R>) -> io::Result<Attributes> {
    let mut found = Attributes::default();
    let Some(attributes) = entry.pax_extensions()? else { return Ok(found) };
    for attribute in attributes {
        let attribute = attribute?;
        let key = String::from_utf8_lossy(attribute.key_bytes());
        if found.sparse.take(&key, attribute.value_bytes())? {
            continue;
        }
        if key == "mtime" {
            found.time = attribute.value().ok().and_then(seconds);
        }
        let name = ["SCHILY.xattr.", "LIBARCHIVE.xattr."];
        let name = name.iter().find_map(|prefix| key.strip_prefix(prefix));
        // A label of the machine that packed it, which means nothing elsewhere.
        if let Some(name) = name.filter(|name| *name != "security.selinux") {
            found.extended.push(name.to_owned());
        }
    }
    Ok(found)
}

/// The whole seconds of a time such as `-1.5`, which is half a second after -2.
fn seconds(text: &str) -> Option<i64> {
    let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let seconds: i64 = whole.parse().ok()?;
    let is_before = whole.starts_with('-') && part.bytes().any(|digit| digit != b'0');
    Some(seconds.saturating_sub(i64::from(is_before)))
}

const AR_MAGIC: &[u8; 8] = b"!<arch>\n";
const AR_HEADER: usize = 60;

/// Unpacks the files of a Debian package: the member `data.tar` of deb(5).
///
/// # Errors
/// Those of [`unpack_tar`].
pub fn unpack_deb(filling: &mut Filling, deb: &Path, limits: &Limits) -> Result<()> {
    with_member(deb, "data.tar", |plain, name| unpack_tar(filling, plain, name, false, limits))
}

/// The control data of a Debian package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// Its control file: one paragraph of fields.
    pub control: String,
    /// MD5 digests of its files, as `md5sum` writes them.
    pub md5sums: Option<String>,
    /// Its maintainer scripts and what they and dpkg need, by the kind that ends their names:
    /// `postinst`, `triggers`.
    pub info: Vec<(&'static str, Vec<u8>)>,
}

/// Kinds of control files that are kept: deb-preinst(5), deb-postinst(5), deb-prerm(5),
/// deb-postrm(5), deb-triggers(5), deb-conffiles(5), debconf-devel(7).
const INFO: [&str; 8] =
    ["preinst", "postinst", "prerm", "postrm", "triggers", "conffiles", "config", "templates"];

/// Reads `control.tar` of a Debian package.
///
/// # Errors
/// [`Error::Archive`] for a damaged one, [`Error::Limit`], [`Error::Io`].
pub fn deb_control(deb: &Path, limits: &Limits) -> Result<Control> {
    with_member(deb, "control.tar", |plain, name| {
        let damaged = |reason: String| Error::Archive { path: name.to_owned(), reason };
        let mut tar = tar::Archive::new(plain.take(limits.bytes.saturating_add(1)));
        let (mut control, mut md5sums, mut info, mut read) = (None, None, Vec::new(), 0);
        let entries = tar.entries().map_err(|e| damaged(e.to_string()))?;
        for (number, entry) in entries.enumerate() {
            let mut entry = entry.map_err(|e| damaged(e.to_string()))?;
            read += entry.size();
            for (what, found, limit) in [
                ("bytes of control files", read, limits.bytes),
                ("control files", number as u64 + 1, limits.entries),
            ] {
                if found > limit {
                    return Err(Error::Limit { path: name.to_owned(), what, found, limit });
                }
            }
            let path = entry.path_bytes();
            let name = path.strip_prefix(b"./").unwrap_or(&path);
            let kept = INFO.into_iter().find(|kind| kind.as_bytes() == name);
            let into = match (name, kept) {
                (b"control", _) => &mut control,
                (b"md5sums", _) => &mut md5sums,
                (_, Some(kind)) => {
                    let mut bytes = Vec::new();
                    let read = entry.read_to_end(&mut bytes);
                    read.map_err(|e| damaged(format!("control file `{kind}`: {e}")))?;
                    info.push((kind, bytes));
                    continue;
                }
                _ => continue,
            };
            let mut text = String::new();
            entry.read_to_string(&mut text).map_err(|e| damaged(format!("control file: {e}")))?;
            *into = Some(text);
        }
        let control = control.ok_or_else(|| damaged("it has no control file".to_owned()))?;
        info.sort_by_key(|(kind, _)| *kind);
        Ok(Control { control, md5sums, info })
    })
}

/// Hands the bytes of a package's member to `take`, with the package's name.
fn with_member<T>(
    deb: &Path,
    wanted: &str,
    take: impl FnOnce(&mut dyn Read, &str) -> Result<T>,
) -> Result<T> {
    let name = deb.display().to_string();
    let damaged = |reason: String| Error::Archive { path: name.clone(), reason };
    let file = File::open(deb).map_err(Error::io("open", deb))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut magic = [0; AR_MAGIC.len()];
    let read = reader.read_exact(&mut magic);
    if read.is_err() || &magic != AR_MAGIC {
        return Err(damaged(
            "it is not a Debian package: it does not begin as ar archives do".to_owned(),
        ));
    }
    loop {
        let mut header = [0; AR_HEADER];
        reader
            .read_exact(&mut header)
            .map_err(|_| damaged(format!("its `{wanted}` is missing or cut short")))?;
        let member = String::from_utf8_lossy(&header[..16]);
        let member = member.trim_end().trim_end_matches('/');
        let size = String::from_utf8_lossy(&header[48..58]).trim().parse::<u64>();
        let size = size.map_err(|_| damaged(format!("member `{member}` has no length")))?;
        if &header[58..] != b"`\n" {
            return Err(damaged(format!("member `{member}` has a damaged header")));
        }
        let mut inside = reader.by_ref().take(size);
        let Some(suffix) = member.strip_prefix(wanted) else {
            io::copy(&mut inside, &mut io::sink()).map_err(Error::io("read", deb))?;
            // Members begin at even offsets.
            io::copy(&mut reader.by_ref().take(size % 2), &mut io::sink())
                .map_err(Error::io("read", deb))?;
            continue;
        };
        let mut plain: Box<dyn Read + '_> = match suffix {
            "" => Box::new(inside),
            ".gz" => Box::new(flate2::read::MultiGzDecoder::new(inside)),
            ".xz" => Box::new(liblzma::read::XzDecoder::new(inside)),
            ".zst" => Box::new(
                zstd::Decoder::new(inside).map_err(|e| damaged(format!("`{member}`: {e}")))?,
            ),
            other => {
                return Err(damaged(format!(
                    "`{wanted}` is compressed as `{other}`, expected xz, zst or gz"
                )));
            }
        };
        return take(&mut plain, &name);
    }
}
