//! The block tree of an object, stored next to it. With it, readers check each block as it arrives.
//!
//! ```text
//! URL                      any object whose digest its readers know
//! URL.blocks.safetensors   its block tree, published before it
//! ```

use std::path::Path;

use gular_bundle::{BLOCKS_SUFFIX, Backend, BlockTree, Digest, MAX_BLOCKS_BYTES, ReadAt};
use gular_pelican::{Client, Error as Pelican, Url, WrongBytes};

use crate::watch::check;
use crate::{Error, Watch};

/// Returns the URL of the block tree of `url`; `None` for an object without a name.
pub(crate) fn beside(url: &Url) -> Option<Url> {
    url.parent()?.join(&format!("{}{BLOCKS_SUFFIX}", url.name()))
}

/// Makes the block tree of a file, in the form in which it is stored.
pub(crate) fn list_of(from: &Path, watch: Watch<'_>) -> Result<Vec<u8>, Error> {
    let file = ReadAt::open(from, Backend::Pread)?;
    let mut check = |_: &[u8]| Ok::<_, Error>(check(watch)?);
    let tree = BlockTree::of_range(&file, 0..file.len_bytes(), &mut check)?;
    Ok(tree.to_list().unwrap_or_default())
}

/// Reads the block tree of the object at `url`, if one whose digest `is_wanted` is stored beside
/// it.
///
/// Another file with that name is not an error, since the object can be checked as a whole.
///
/// # Errors
/// [`Error::Pelican`] when no server answers, and when it was cancelled.
pub fn read_blocks(
    client: &Client,
    url: &Url,
    is_wanted: &dyn Fn(Digest) -> bool,
    watch: Watch<'_>,
) -> Result<Option<BlockTree>, Error> {
    let Some(list) = beside(url) else { return Ok(None) };
    let shown = list.to_string();
    let parse = |bytes: &[u8]| {
        let tree = BlockTree::parse_list(&shown, bytes).map_err(WrongBytes::not_accepted)?;
        let digest = tree.digest();
        match is_wanted(digest) {
            true => Ok(tree),
            false => {
                let why = format!("it is of a file with the digest {digest}");
                Err(WrongBytes::not_accepted(why))
            }
        }
    };
    match client.read(&list, MAX_BLOCKS_BYTES, &|bytes| parse(bytes).map(drop), watch) {
        Ok(bytes) => Ok(parse(&bytes).ok()),
        Err(
            Pelican::NotFound { .. }
            | Pelican::Corrupt { .. }
            | Pelican::Denied { .. }
            | Pelican::TooLarge { .. },
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
