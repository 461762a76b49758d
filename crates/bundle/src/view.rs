//! The view: selects samples of an index for a derived bundle, and can give them different labels.
//!
//! ```text
//! gular-view␀␀ 1  digest of the index  n  m
//! bits    n of them   1: the sample counts      ┐ a bit per sample of the index, and
//! rows    u32 [m]     samples with other labels │ eight bytes per label: kilobytes,
//! labels  i32 [m]     those                     ┘ whatever the samples weigh
//! ```
//!
//! Format: `FORMAT.md`, "View".

use crate::{BundlePath, Digest, Error, FileEntry, Row, ShardEntry, Split};

const MAGIC: &[u8; 12] = b"gular-view\0\0";
const VERSION: u32 = 1;
const HEAD: usize = 56;

/// A selection of an index's samples, with the labels that replace those in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Number of samples of the index.
    n_stored: u32,
    /// One bit per sample of the index.
    words: Vec<u32>,
    /// The number of samples that count before each word; empty if all samples count.
    before: Vec<u32>,
    n_samples: u32,
    /// Rows of the index with other labels, ascending, and these labels.
    labels: Vec<(u32, i32)>,
}

impl View {
    /// Makes the view of an index of `n_stored` samples, in which the rows `counts` count and the
    /// rows in `labels` have other labels.
    ///
    /// # Errors
    /// [`Error::Malformed`] naming the rule of `FORMAT.md` that would be broken.
    pub fn new(
        n_stored: usize,
        counts: impl IntoIterator<Item = Row>,
        labels: Vec<(Row, i32)>,
    ) -> Result<Self, Error> {
        let bad = |reason: String| Error::malformed("a view", reason);
        let n = u32::try_from(n_stored).map_err(|_| bad(format!("{n_stored} samples")))?;
        let mut words = vec![0_u32; n_stored.div_ceil(32)];
        for row in counts {
            match words.get_mut(row.0 / 32).filter(|_| row.0 < n_stored) {
                Some(word) => *word |= 1 << (row.0 % 32),
                None => return Err(bad(format!("sample {row} of {n_stored}"))),
            }
        }
        let narrow = |(row, label): (Row, i32)| Some((u32::try_from(row.0).ok()?, label));
        let labels: Option<Vec<(u32, i32)>> = labels.into_iter().map(narrow).collect();
        let labels = labels.ok_or_else(|| bad("a row of over 32 bits".into()))?;
        Self::of_parts(n, words, labels).map_err(bad)
    }

    /// The number of samples that count.
    #[must_use]
    pub fn n_samples(&self) -> usize {
        self.n_samples as usize
    }

    /// The number of samples of the index.
    #[must_use]
    pub fn n_stored(&self) -> usize {
        self.n_stored as usize
    }

    /// Returns whether the view changes nothing: all samples count, and have the labels of the
    /// index.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.n_samples == self.n_stored && self.labels.is_empty()
    }

    /// Returns the row of the index for sample `row`; `None` past the last.
    #[must_use]
    pub fn stored(&self, row: Row) -> Option<Row> {
        let nth = u32::try_from(row.0).ok().filter(|nth| *nth < self.n_samples)?;
        if self.before.is_empty() {
            return Some(row);
        }
        let at = self.before.partition_point(|before| *before <= nth).checked_sub(1)?;
        let mut word = *self.words.get(at)?;
        for _ in *self.before.get(at)?..nth {
            word &= word.wrapping_sub(1);
        }
        let bit = usize::try_from(word.trailing_zeros()).ok()?;
        at.checked_mul(32)?.checked_add(bit).map(Row)
    }

    /// Returns the label that the view gives to a row of the index.
    #[must_use]
    pub fn label(&self, stored: Row) -> Option<i32> {
        let row = u32::try_from(stored.0).ok()?;
        let at = self.labels.binary_search_by_key(&row, |(row, _)| *row).ok()?;
        self.labels.get(at).map(|(_, label)| *label)
    }

    /// Returns the number of samples whose label is from the view.
    #[must_use]
    pub fn n_labels(&self) -> usize {
        self.labels.len()
    }

    /// Returns the bytes of the view's file, for an index with this digest.
    #[must_use]
    pub fn to_bytes(&self, index: Digest) -> Vec<u8> {
        let m = u32::try_from(self.labels.len()).expect("each is of another u32");
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend_from_slice(index.as_bytes());
        bytes.extend(self.n_stored.to_le_bytes());
        bytes.extend(m.to_le_bytes());
        bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(self.labels.iter().flat_map(|(row, _)| row.to_le_bytes()));
        bytes.extend(self.labels.iter().flat_map(|(_, label)| label.to_le_bytes()));
        bytes
    }

    /// Returns the entry of the view's file `split-….view` for a manifest, and the bytes of the
    /// file.
    ///
    /// # Errors
    /// Cannot happen with names as [`Split`] has them.
    pub fn file(&self, split: Split, index: Digest) -> Result<(FileEntry, Vec<u8>), Error> {
        let bytes = self.to_bytes(index);
        let digest = Digest::of(&bytes);
        let name = BundlePath::parse(&format!("{split}-{}.view", digest.short_hex()))?;
        Ok((FileEntry { name, bytes: bytes.len() as u64, digest }, bytes))
    }

    /// Reads the view that `entry` lists, if `bytes` are that view and keep the rules; `path` is
    /// for messages. Whether the view fits its index is checked elsewhere.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Digest`], [`Error::TooNew`]; [`Error::Malformed`] naming the
    /// rule broken.
    pub(crate) fn accept(path: &str, bytes: &[u8], entry: &ShardEntry) -> Result<Self, Error> {
        let bad = |reason: String| Error::malformed(path, reason);
        let file = entry
            .view
            .as_ref()
            .ok_or_else(|| bad("the manifest does not list a view for this shard".into()))?;
        file.accept(path, bytes)?;
        let (index, view) = Self::parse(path, bytes)?;
        if index != entry.index.digest {
            let expected = entry.index.digest;
            return Err(bad(format!(
                "it was made for the index with digest {index}, expected {expected}"
            )));
        }
        let (expected, found) = (entry.samples, view.n_samples() as u64);
        match found == expected {
            true => Ok(view),
            false => Err(bad(format!(
                "it selects {found} samples, expected {expected} as in the manifest"
            ))),
        }
    }

    /// Reads a view, and the digest of its index; `path` is for messages.
    ///
    /// # Errors
    /// [`Error::Format`], [`Error::TooNew`]; [`Error::Malformed`] naming the rule broken.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<(Digest, Self), Error> {
        let bad = |reason: String| Error::malformed(path, reason);
        let head = bytes.first_chunk::<HEAD>();
        let head = head.ok_or_else(|| bad(format!("it has only {} bytes", bytes.len())))?;
        if !head.starts_with(MAGIC) {
            let (expected, found) = ("view", "not `gular-view`".to_owned());
            return Err(Error::Format { path: path.to_owned(), expected, found });
        }
        let number = |at: usize| {
            let bytes = head.get(at..).and_then(|rest| rest.first_chunk::<4>());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
        };
        let (version, n, m) = (number(12), number(48), number(52));
        if version == 0 {
            return Err(bad("its version is 0, expected 1".into()));
        }
        if version > VERSION {
            let (found, supported) = (version.into(), VERSION.into());
            return Err(Error::TooNew { path: path.to_owned(), found, supported });
        }
        let digest = head.get(16..).and_then(|rest| rest.first_chunk::<32>());
        let digest = Digest::from_bytes(digest.copied().unwrap_or_default());
        let body = bytes.get(HEAD..).unwrap_or_default();
        // The sum stays below 2^36, whatever the counts are.
        let expected = u64::from(n.div_ceil(32))
            .saturating_mul(4)
            .saturating_add(u64::from(m).saturating_mul(8));
        if body.len() as u64 != expected {
            let (all, expected) = (bytes.len(), expected.saturating_add(HEAD as u64));
            return Err(bad(format!(
                "it has {all} bytes, expected {expected} from the counts in its header"
            )));
        }
        let numbers = body.as_chunks::<4>().0;
        let (words, rest) = numbers.split_at_checked(n.div_ceil(32) as usize).unwrap_or_default();
        let (rows, labels) = rest.split_at_checked(m as usize).unwrap_or_default();
        let words = words.iter().map(|b| u32::from_le_bytes(*b)).collect();
        let labels = labels.iter().map(|b| i32::from_le_bytes(*b));
        let labels = rows.iter().map(|b| u32::from_le_bytes(*b)).zip(labels).collect();
        Self::of_parts(n, words, labels).map(|view| (digest, view)).map_err(bad)
    }

    /// Makes a view of its parts. The error is the rule that they break.
    fn of_parts(n_stored: u32, words: Vec<u32>, labels: Vec<(u32, i32)>) -> Result<Self, String> {
        let used = n_stored % 32;
        if used > 0 && words.last().is_some_and(|last| last >> used != 0) {
            return Err(format!("it selects a sample after the last of {n_stored}"));
        }
        let mut n_samples = 0_u32;
        let mut before = Vec::with_capacity(words.len());
        for word in &words {
            before.push(n_samples);
            n_samples = n_samples.saturating_add(word.count_ones());
        }
        if n_samples == n_stored {
            before = Vec::new();
        }
        let unordered = labels.windows(2).find_map(|pair| match pair {
            [(a, _), (b, _)] if a >= b => Some(b),
            _ => None,
        });
        if let Some(row) = unordered {
            return Err(format!("its labels are not in the order of samples: see sample {row}"));
        }
        let counts =
            |row: u32| words.get(row as usize / 32).is_some_and(|w| w >> (row % 32) & 1 == 1);
        if let Some((row, _)) = labels.iter().find(|(row, _)| !counts(*row)) {
            return Err(format!("it gives a label to sample {row}, which it does not select"));
        }
        Ok(Self { n_stored, words, before, n_samples, labels })
    }
}
