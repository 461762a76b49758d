//! The block tree of a file that no index describes, stored as a separate file.
//!
//! ```text
//! x.sif                      any file
//! x.sif.blocks.safetensors   block.cv   u8 [k, 32]   chaining values of its 1 MiB blocks
//! ```
//!
//! The values merge to the digest of the file, so anyone who knows the digest can check them.
//! Format: `FORMAT.md`, "Blocks of a file".

use crate::block::{BlockCv, BlockTree};
use crate::tensors::{MAX_HEADER, SafetensorsHeader, assemble};
use crate::{Dtype, Error};

/// The suffix that is appended to the name of the file.
pub const BLOCKS_SUFFIX: &str = ".blocks.safetensors";

/// The size limit of a list, which is that of a file of 1 TiB.
pub const MAX_BLOCKS_BYTES: u64 = 33 << 20;

const FORMAT: &str = "gular-blocks";
const FILE_BYTES: &str = "file_bytes";
const TENSOR: &str = "block.cv";

impl BlockTree {
    /// Encodes the tree as the bytes of a file; `None` if its blocks do not fit in memory.
    #[must_use]
    pub fn to_list(&self) -> Option<Vec<u8>> {
        let metadata = vec![
            ("format".to_owned(), FORMAT.to_owned()),
            ("version".to_owned(), crate::VERSION.to_string()),
            (FILE_BYTES.to_owned(), self.len_bytes().to_string()),
        ];
        let shape = vec![self.n_blocks() as u64, 32];
        let values = self.cvs().as_flattened().to_vec();
        assemble(metadata, vec![(TENSOR.to_owned(), Dtype::U8, shape, values)])
    }

    /// Reads what [`to_list`](Self::to_list) wrote; `path` is for messages.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::Format`], [`Error::TooNew`], [`Error::TooLarge`].
    pub fn parse_list(path: &str, bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::malformed(path, reason);
        let len = bytes.len() as u64;
        let first = bytes.first_chunk().ok_or_else(|| wrong("it has no header"))?;
        let start = SafetensorsHeader::data_start(path, *first, len, MAX_HEADER)?;
        let head = usize::try_from(start).ok().and_then(|start| bytes.get(..start));
        let header = SafetensorsHeader::parse(path, head.unwrap_or_default(), len)?;
        header.check_format(path, FORMAT)?;
        let file_bytes = header.metadata(FILE_BYTES).and_then(|text| text.parse().ok());
        let file_bytes =
            file_bytes.ok_or_else(|| wrong("its metadata has no valid `file_bytes`"))?;
        let tensor = header.tensor(TENSOR).filter(|tensor| tensor.dtype == Dtype::U8);
        let values = tensor.and_then(|tensor| {
            bytes.get(usize::try_from(tensor.start).ok()?..usize::try_from(tensor.end).ok()?)
        });
        let (values, rest): (&[BlockCv], _) = values.unwrap_or_default().as_chunks();
        let tree = Self::new(values.to_vec(), file_bytes).filter(|_| rest.is_empty());
        tree.ok_or_else(|| wrong("its `block.cv` is not one value per block of the file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BLOCK_BYTES, Digest};

    fn tree(bytes: &[u8]) -> BlockTree {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let file = crate::ReadAt::open(file.path(), crate::Backend::Pread).unwrap();
        BlockTree::of_file(&file).unwrap()
    }

    #[test]
    fn a_tree_comes_back_and_has_the_digest_of_its_file() {
        for len in [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES - 7] {
            let bytes: Vec<u8> = (0..len).map(|i| (i / 999) as u8).collect();
            let list = tree(&bytes).to_list().unwrap();
            let read = BlockTree::parse_list("x", &list).unwrap();
            assert_eq!((read.digest(), read.len_bytes()), (Digest::of(&bytes), len as u64));
            assert_eq!(list.len() % 32, 0);
        }
    }

    #[test]
    fn a_list_that_is_damaged_is_refused_or_has_another_digest() {
        let good = tree(&[7; 3 * BLOCK_BYTES]);
        let list = good.to_list().unwrap();
        for len in [0, 7, 8, 100, list.len() - 1] {
            assert!(BlockTree::parse_list("x", &list[..len]).is_err(), "{len}");
        }
        for at in (0..list.len()).step_by(11) {
            let mut bad = list.clone();
            bad[at] ^= 1;
            // Spaces in the header have no meaning.
            let read = BlockTree::parse_list("x", &bad);
            assert!(read.is_err() || at < 4096 || read.unwrap().digest() != good.digest(), "{at}");
        }
        let text = |old: &str, new: &str| {
            let at = list.windows(old.len()).position(|part| part == old.as_bytes()).unwrap();
            let mut bad = list.clone();
            bad[at..at + new.len()].copy_from_slice(new.as_bytes());
            BlockTree::parse_list("x", &bad).unwrap_err()
        };
        assert!(matches!(text("gular-blocks", "gular-blobbs"), Error::Format { .. }));
        assert!(matches!(text("\"version\":\"1\"", "\"version\":\"9\""), Error::TooNew { .. }));
        assert!(matches!(text("3145728", "9145728"), Error::Malformed { .. }));
        assert!(matches!(text("block.cv", "block.xx"), Error::Malformed { .. }));
    }
}
