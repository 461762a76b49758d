//! A dataset: puts together the messages of its object header.

use crate::envelope::foreign::hdf5::cursor::Cursor;
use crate::envelope::foreign::hdf5::datatype::{self, Datatype};
use crate::envelope::foreign::hdf5::file::Hdf5;
use crate::envelope::foreign::hdf5::global_heap::Heaps;
use crate::envelope::foreign::hdf5::layout::{self, Layout};
use crate::envelope::foreign::hdf5::object::{self, Message, find};
use crate::envelope::foreign::hdf5::{BFLOAT16, FORMAT, kind};
use crate::{Dtype, Error};

/// An array in the file.
#[derive(Debug)]
pub(super) struct Dataset {
    /// Path of the dataset from the root group, without the first slash.
    pub(super) path: String,
    pub(super) datatype: Datatype,
    /// Bytes of one element.
    pub(super) element: u64,
    /// Shape of the array: empty for a scalar, `None` if it has no elements at all.
    pub(super) shape: Option<Vec<u64>>,
    /// Whether dimensions after the first may grow.
    pub(super) is_wide: bool,
    pub(super) layout: Layout,
    /// Names of label values.
    pub(super) classes: Vec<String>,
}

impl Dataset {
    /// Reads the dataset at `path`; `None` if the object is not a dataset.
    pub(super) fn parse(
        file: &Hdf5<'_>,
        heaps: &mut Heaps,
        path: &str,
        messages: &[Message],
    ) -> Result<Option<Self>, Error> {
        let bad = |what: &str| file.bad(format!("the {what} of `{path}` is damaged"));
        let Some(space) = find(messages, kind::DATASPACE) else { return Ok(None) };
        let Some(layout) = find(messages, kind::LAYOUT) else { return Ok(None) };
        if space.is_shared {
            return Err(file.refused("it keeps the shapes of datasets in a table"));
        }
        let Space { shape, is_wide } =
            dataspace(file, &space.data).ok_or_else(|| bad("dataspace"))?;
        let message = find(messages, kind::DATATYPE).ok_or_else(|| bad("datatype"))?;
        let committed = if message.is_shared { shared(file, &message.data)? } else { None };
        let data = committed.as_ref().unwrap_or(&message.data);
        let (mut datatype, element) = datatype::parse(data).ok_or_else(|| bad("datatype"))?;
        let mut layout = layout::parse(file, &layout.data).ok_or_else(|| bad("layout"))?;
        if let Some(filters) = find(messages, kind::FILTERS) {
            let names = filters_of(&filters.data).ok_or_else(|| bad("filters"))?;
            if !names.is_empty() {
                layout = Layout::Other(format!("its chunks pass through {}", names.join(" and ")));
            }
        } else if find(messages, kind::EXTERNAL_FILES).is_some() {
            layout = Layout::Other("its values are in other files".to_owned());
        }
        let mut classes = Vec::new();
        for attribute in attributes(file, heaps, messages)? {
            if attribute.name == b"classes" {
                classes = attribute.texts;
            } else if attribute.name == b"dtype"
                && attribute.texts == [BFLOAT16]
                && datatype == Datatype::Number(Dtype::U16)
            {
                datatype = Datatype::Number(Dtype::Bf16);
            }
        }
        let path = path.to_owned();
        Ok(Some(Self { path, datatype, element, shape, is_wide, layout, classes }))
    }

    /// The number of rows, and the shape of one; `None` for a scalar.
    pub(super) fn rows(&self) -> Option<(u64, &[u64])> {
        let (n, shape) = self.shape.as_ref()?.split_first()?;
        Some((*n, shape))
    }

    /// Returns the bytes of a value of this shape.
    pub(super) fn size_of(&self, shape: &[u64]) -> Option<u64> {
        shape.iter().try_fold(self.element, |acc, n| acc.checked_mul(*n))
    }
}

/// Returns whether the object header is that of a shard which Gular wrote.
pub(super) fn is_ours(file: &Hdf5<'_>, messages: &[Message]) -> Result<bool, Error> {
    let attributes = attributes(file, &mut Heaps::default(), messages)?;
    Ok(attributes.iter().any(|a| a.name == b"format" && a.texts == [FORMAT]))
}

/// The contents of a dataspace message (IV.A.2.b).
struct Space {
    /// The shape, as in [`Dataset`].
    shape: Option<Vec<u64>>,
    is_wide: bool,
}

fn dataspace(file: &Hdf5<'_>, message: &[u8]) -> Option<Space> {
    const NULL: u8 = 2;
    const HAS_LIMITS: u8 = 1;
    let mut at = Cursor::new(message);
    let (version, rank, flags) = (at.u8()?, at.u8()?, at.u8()?);
    match version {
        1 => at.skip(5)?,
        2 if at.u8()? == NULL => return Some(Space { shape: None, is_wide: false }),
        2 => {}
        _ => return None,
    }
    let mut dims =
        || -> Option<Vec<u64>> { (0..rank).map(|_| at.uint(file.length_size)).collect() };
    let shape = dims()?;
    let is_wide = flags & HAS_LIMITS != 0 && dims()?.get(1..) != shape.get(1..);
    Some(Space { shape: Some(shape), is_wide })
}

/// Reads a datatype that has a name of its own in the file (IV.A.2, "shared").
fn shared(file: &Hdf5<'_>, message: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let mut at = Cursor::new(message);
    let parsed = || -> Option<u64> {
        match (at.u8()?, at.u8()?) {
            (1, _) => at.skip(6)?,
            (2, _) | (3, 2) => {}
            _ => return None,
        }
        at.address(file.address_size)
    };
    let address = { parsed }().ok_or_else(|| file.refused("it keeps datatypes in a table"))?;
    let mut messages = object::messages(file, address)?;
    let found = messages.iter().position(|m| m.kind == kind::DATATYPE && !m.is_shared);
    Ok(found.map(|i| messages.swap_remove(i).data))
}

/// Returns the names of the filters that chunks pass through (IV.A.2.l).
fn filters_of(message: &[u8]) -> Option<Vec<String>> {
    let mut at = Cursor::new(message);
    let (version, n) = (at.u8()?, at.u8()?);
    at.skip(if version == 1 { 6 } else { 0 })?;
    let mut names = Vec::new();
    for _ in 0..n {
        let id = at.u16()?;
        let name_len = if version == 1 || id >= 256 { at.u16()? } else { 0 };
        at.skip(2)?;
        let n_values = at.u16()?;
        let padded = if version == 1 { name_len.checked_next_multiple_of(8)? } else { name_len };
        at.skip(padded.into())?;
        let odd = if version == 1 { n_values % 2 } else { 0 };
        at.skip(usize::from(n_values).checked_add(odd.into())?.checked_mul(4)?)?;
        names.push(match id {
            1 => "gzip".to_owned(),
            2 => "shuffle".to_owned(),
            3 => "fletcher32".to_owned(),
            4 => "szip".to_owned(),
            5 => "nbit".to_owned(),
            6 => "scale-offset".to_owned(),
            32_000 => "lzf".to_owned(),
            32_001 | 32_026 => "blosc".to_owned(),
            32_004 => "lz4".to_owned(),
            32_015 => "zstd".to_owned(),
            id => format!("filter {id}"),
        });
    }
    Some(names)
}

/// An attribute that holds texts.
struct Attribute {
    name: Vec<u8>,
    texts: Vec<String>,
}

/// Reads those attributes (IV.A.2.m) of an object that contain texts.
fn attributes(
    file: &Hdf5<'_>,
    heaps: &mut Heaps,
    messages: &[Message],
) -> Result<Vec<Attribute>, Error> {
    let mut found = Vec::new();
    for message in messages.iter().filter(|m| m.kind == kind::ATTRIBUTE) {
        let Some((name, datatype, element, data)) = attribute(file, &message.data) else {
            continue;
        };
        let Ok(element) = usize::try_from(element) else { continue };
        let elements = data.chunks_exact(element);
        let texts = match datatype {
            Datatype::Text => elements.map(text_of).collect(),
            Datatype::VarText => elements.map(|e| heaps.text(file, e)).collect::<Result<_, _>>()?,
            _ => continue,
        };
        found.push(Attribute { name: name.to_vec(), texts });
    }
    Ok(found)
}

/// Returns name, type, bytes of an element, and elements of an attribute.
fn attribute<'m>(
    file: &Hdf5<'_>,
    message: &'m [u8],
) -> Option<(&'m [u8], Datatype, u64, &'m [u8])> {
    let mut at = Cursor::new(message);
    let (version, flags) = (at.u8()?, at.u8()?);
    // Shared datatypes and dataspaces are not supported here.
    (matches!(version, 1..=3) && (version == 1 || flags == 0)).then_some(())?;
    let sizes = [at.u16()?, at.u16()?, at.u16()?].map(usize::from);
    at.skip(if version == 3 { 1 } else { 0 })?;
    let mut part = |size: usize| {
        let padded = if version == 1 { size.checked_next_multiple_of(8)? } else { size };
        at.take(padded)?.get(..size)
    };
    let [name, datatype, space] = sizes;
    let (name, datatype, space) = (part(name)?, part(datatype)?, part(space)?);
    let (datatype, element) = datatype::parse(datatype)?;
    let n = dataspace(file, space)?.shape?.iter().try_fold(1_u64, |acc, n| acc.checked_mul(*n))?;
    let len = usize::try_from(n.checked_mul(element)?).ok()?;
    Some((name.split(|b| *b == 0).next()?, datatype, element, at.take(len)?))
}

/// Returns a text without its padding of zeros or spaces.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim_end_matches(' ').to_owned()
}
