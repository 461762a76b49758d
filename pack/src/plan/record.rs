//! A sample between the two sorts of a plan.

use gular_bundle::Split;

/// A sample between the two sorts.
pub(super) struct SortRecord<'a> {
    pub(super) key: &'a str,
    pub(super) bytes: u64,
    pub(super) split: Option<Split>,
    /// The group that a table gives, or nothing.
    pub(super) group: &'a str,
    pub(super) label: Option<i64>,
    /// The size of the image, as a table of boxes says it.
    pub(super) size: Option<(u32, u32)>,
    pub(super) values: &'a str,
}

/// Stands for a split that is not known.
const NO_SPLIT: u8 = 255;

impl<'a> SortRecord<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut record = self.bytes.to_le_bytes().to_vec();
        record.push(self.split.map_or(NO_SPLIT, |split| split as u8));
        record.extend(self.label.unwrap_or(i64::MIN).to_le_bytes());
        let (width, height) = self.size.unwrap_or_default();
        record.extend((u64::from(width) << 32 | u64::from(height)).to_le_bytes());
        for text in [self.key, self.group] {
            record.extend((text.len() as u64).to_le_bytes());
            record.extend_from_slice(text.as_bytes());
        }
        record.extend_from_slice(self.values.as_bytes());
        record
    }

    pub(super) fn parse(record: &'a [u8]) -> Option<Self> {
        let (bytes, rest) = record.split_first_chunk::<8>()?;
        let (split, rest) = rest.split_first()?;
        let (label, rest) = rest.split_first_chunk::<8>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        let size = u64::from_le_bytes(*size);
        let text = |rest: &'a [u8]| {
            let (len, rest) = rest.split_first_chunk::<8>()?;
            let (text, rest) =
                rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
            Some((std::str::from_utf8(text).ok()?, rest))
        };
        let (key, rest) = text(rest)?;
        let (group, values) = text(rest)?;
        let label = i64::from_le_bytes(*label);
        Some(Self {
            key,
            group,
            bytes: u64::from_le_bytes(*bytes),
            split: Split::ALL.get(usize::from(*split)).copied(),
            label: (label != i64::MIN).then_some(label),
            size: (size > 0).then_some(((size >> 32) as u32, size as u32)),
            values: std::str::from_utf8(values).ok()?,
        })
    }
}
