//! Writes one shard of a bundle in another envelope.

use std::path::Path;

use gular_bundle::{
    Backend, Bundle, BundlePath, Digest, Envelope, Field, Index, Manifest, ReadAt, ShardEntry,
    ShardIdx, ShardSpec, ShardWriter,
};

use crate::convert::conversion::Conversion;
use crate::error::Error;

/// Writes shard `number` again and proves that it holds the same samples.
pub(crate) fn shard(
    work: &Conversion<'_>,
    number: ShardIdx,
    envelope: Envelope,
) -> Result<Option<ShardEntry>, Error> {
    let manifest = work.source.manifest();
    let source = work.source.shard(number)?.index()?;
    let Some(entry) = number.of(&manifest.shards) else { return Ok(None) };
    let spec = ShardSpec {
        envelope,
        split: entry.split,
        fields: &manifest.fields,
        classes: &manifest.classes,
    };
    let mut writer = ShardWriter::create(&work.out.data, &spec)?;
    work.samples(number, &mut |row, values| {
        let key = BundlePath::parse(source.key(row).unwrap_or_default());
        let key = key.map_err(gular_bundle::Error::from)?;
        Ok(writer.push_made(&key, values, source.source(row))?)
    })?;
    let written = writer.finish()?;
    prove(&work.out.data, &written, &manifest.fields, &source)?;
    Ok(Some(written))
}

/// Whether `made` is `source` in that envelope: it has the same description and samples, and its
/// files have their lengths.
pub(crate) fn is_finished(
    source: &Bundle,
    made: &Bundle,
    envelope: Envelope,
) -> Result<bool, Error> {
    let (from, to) = (source.manifest(), made.manifest());
    let same = Manifest { envelope, shards: to.shards.clone(), ..from.clone() };
    if *to != same || from.shards.len() != to.shards.len() {
        return Ok(false);
    }
    for (number, (a, b)) in
        ShardIdx::first(from.shards.len()).zip(from.shards.iter().zip(&to.shards))
    {
        if (a.split, a.samples) != (b.split, b.samples) {
            return Ok(false);
        }
        let (expected, found) = (source.shard(number)?, made.shard(number)?);
        let (expected, found) = (expected.index()?, found.index()?);
        if !found.has_samples_of(&expected)
            || expected.rows().any(|row| expected.key(row) != found.key(row))
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads back what was written: same keys, labels and digests, and every value
/// where the new index says, with that digest.
fn prove(
    data: &Path,
    written: &ShardEntry,
    fields: &[Field],
    expected: &Index,
) -> Result<(), Error> {
    let index = std::fs::read(data.join(written.index.name.as_str()))
        .map_err(|e| Error::io("read", data.join(written.index.name.as_str()), e))?;
    let name = written.index.name.as_str();
    let found = Index::parse(name, index, fields, written.file.bytes)?;
    let wrong = |what: String| Error::NotEqual { path: written.file.name.to_string(), what };
    if !found.has_samples_of(expected) {
        return Err(wrong("its digests or labels".into()));
    }
    let file = ReadAt::open(&data.join(written.file.name.as_str()), Backend::Pread)?;
    let mut value = Vec::new();
    for row in expected.rows() {
        let key = expected.key(row);
        if found.key(row) != key {
            return Err(wrong(format!("the key of sample {row}")));
        }
        for field in found.fields() {
            let (Some((offset, len)), Some(digest)) =
                (found.range(row, field), found.digest(row, field))
            else {
                continue;
            };
            value.resize(len, 0);
            file.read_at(offset, &mut value)?;
            if Digest::of(&value) != digest {
                return Err(wrong(format!("sample `{}`", key.unwrap_or_default())));
            }
        }
    }
    Ok(())
}
