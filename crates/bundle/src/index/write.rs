//! Collects the entries of an index while its shard is written. Format: `FORMAT.md`, "Index".

use crate::block::BlockTree;
use crate::index::{FORMAT, SOURCE};
use crate::tensors::assemble;
use crate::{BundlePath, Digest, Dtype, Field, FieldIdx, Split};

/// Where the values of a field are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Places {
    /// Value `i` of a fixed field starts at this byte + `i` · its size.
    Stride(u64),
    /// The first byte of each value.
    Offsets(Vec<u64>),
    /// The file does not store field `label` as 8-byte integers, and the index has the only copy.
    IndexOnly,
}

/// The facts about all samples, once the last one was pushed.
pub(crate) struct Rows<'a> {
    pub(crate) split: Split,
    pub(crate) fields: &'a [Field],
    /// Key `i` is bytes `key_offsets[i]` to `key_offsets[i + 1]` of `key_bytes`.
    pub(crate) key_offsets: &'a [i64],
    pub(crate) key_bytes: &'a [u8],
    /// For each field the length of each value; empty for fixed fields.
    pub(crate) lengths: &'a [Vec<i32>],
}

impl Rows<'_> {
    /// The number of samples.
    pub(crate) fn n(&self) -> u64 {
        (self.key_offsets.len() as u64).saturating_sub(1)
    }
}

/// Collects the contents of an index while a shard is written.
#[derive(Debug)]
pub(crate) struct IndexBuilder {
    fields: Vec<Field>,
    lengths: Vec<Vec<i32>>,
    digests: Vec<Vec<u8>>,
    labels: Vec<i32>,
    key_offsets: Vec<i64>,
    key_bytes: Vec<u8>,
    /// Digests of the files that values were made from: empty, or one for each sample up to the
    /// last that has one.
    sources: Vec<u8>,
}

impl IndexBuilder {
    pub(crate) fn new(fields: &[Field]) -> Self {
        Self {
            fields: fields.to_vec(),
            lengths: vec![Vec::new(); fields.len()],
            digests: vec![Vec::new(); fields.len()],
            labels: Vec::new(),
            key_offsets: vec![0],
            key_bytes: Vec::new(),
            sources: Vec::new(),
        }
    }

    pub(crate) fn n_samples(&self) -> u64 {
        (self.key_offsets.len() as u64).saturating_sub(1)
    }

    /// Returns all samples so far, for an envelope's layout.
    pub(crate) fn rows(&self, split: Split) -> Rows<'_> {
        Rows {
            split,
            fields: &self.fields,
            key_offsets: &self.key_offsets,
            key_bytes: &self.key_bytes,
            lengths: &self.lengths,
        }
    }

    /// Adds a sample's key and label; `None` when a count overflows.
    pub(crate) fn push_sample(&mut self, key: &BundlePath, label: Option<i32>) -> Option<()> {
        self.key_bytes.extend_from_slice(key.as_str().as_bytes());
        self.key_offsets.push(i64::try_from(self.key_bytes.len()).ok()?);
        self.labels.extend(label);
        Some(())
    }

    /// Adds the value of field `field`: its length for bytes fields, and its digest for all fields
    /// but `label`.
    pub(crate) fn push_value(
        &mut self,
        FieldIdx(field): FieldIdx,
        len: Option<i32>,
        digest: Option<Digest>,
    ) {
        if let (Some(len), Some(lengths)) = (len, self.lengths.get_mut(field)) {
            lengths.push(len);
        }
        if let (Some(digest), Some(digests)) = (digest, self.digests.get_mut(field)) {
            digests.extend_from_slice(digest.as_bytes());
        }
    }

    /// Records which file the image of the last sample was made from.
    pub(crate) fn push_source(&mut self, source: Digest) {
        let before = self.key_offsets.len().saturating_sub(2);
        self.sources.resize(before.saturating_mul(32), 0);
        self.sources.extend_from_slice(source.as_bytes());
    }

    /// Returns the bytes of the index file; `places` has one entry per field.
    pub(crate) fn finish(mut self, blocks: &BlockTree, places: &[Places]) -> Option<Vec<u8>> {
        let n = self.n_samples();
        let mut hot: Vec<(String, Dtype, Vec<u64>, Vec<u8>)> = Vec::new();
        let mut cold = Vec::new();
        for (i, field) in self.fields.iter().enumerate() {
            let name = &field.name;
            match places.get(i)? {
                Places::Stride(base) => {
                    let base = i64::try_from(*base).ok()?.to_le_bytes().to_vec();
                    cold.push((format!("{name}.base"), Dtype::I64, vec![1], base));
                }
                Places::Offsets(offsets) => {
                    let offsets: Option<Vec<i64>> =
                        offsets.iter().map(|o| i64::try_from(*o).ok()).collect();
                    let offsets = i64_bytes(&offsets?);
                    hot.push((format!("{name}.offset"), Dtype::I64, vec![n], offsets));
                    if field.is_bytes() {
                        let lengths = i32_bytes(self.lengths.get(i)?);
                        hot.push((format!("{name}.length"), Dtype::I32, vec![n], lengths));
                    }
                }
                Places::IndexOnly => {}
            }
            if field.is_label() {
                hot.push(("label".to_owned(), Dtype::I32, vec![n], i32_bytes(&self.labels)));
            } else {
                cold.push((
                    format!("{name}.digest"),
                    Dtype::U8,
                    vec![n, 32],
                    std::mem::take(self.digests.get_mut(i)?),
                ));
            }
        }
        cold.push((
            "key.offsets".into(),
            Dtype::I64,
            vec![n.checked_add(1)?],
            i64_bytes(&self.key_offsets),
        ));
        cold.push((
            "key.bytes".into(),
            Dtype::U8,
            vec![self.key_bytes.len() as u64],
            self.key_bytes,
        ));
        if !self.sources.is_empty() {
            self.sources.resize(usize::try_from(n.checked_mul(32)?).ok()?, 0);
            cold.push((SOURCE.into(), Dtype::U8, vec![n, 32], self.sources));
        }
        cold.push((
            "block.cv".into(),
            Dtype::U8,
            vec![blocks.n_blocks() as u64, 32],
            blocks.cvs().as_flattened().to_vec(),
        ));
        hot.append(&mut cold);

        let metadata = vec![
            ("format".to_owned(), FORMAT.to_owned()),
            ("version".to_owned(), crate::VERSION.to_string()),
            ("samples".to_owned(), n.to_string()),
            ("shard_bytes".to_owned(), blocks.len_bytes().to_string()),
        ];
        assemble(metadata, hot)
    }
}

pub(crate) fn i64_bytes(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn i32_bytes(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}
