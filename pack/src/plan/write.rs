//! Writes the sorted samples as a plan, divided into shards.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gular_bundle::{Digest, Field, Split};

use super::build::{check_cancel, damaged_record};
use super::file::{FORMAT, Plan, PlanShard, VERSION};
use super::joining::FromTable;
use crate::facts::{BadInput, Sorted};
use crate::layout::hot_classes;
use crate::plan::{FilesOf, MaskClass, MaskColours, PayloadRecipe, PlanError, PlanOptions};

/// The plan's first line. Format: `FORMAT.md`, "Plan"; the order of members is part of it.
#[derive(serde::Serialize)]
struct Header<'a> {
    format: &'static str,
    version: u64,
    about: &'a gular_bundle::About,
    check: &'static str,
    classes: &'a [String],
    #[serde(skip_serializing_if = "<[Field]>::is_empty")]
    fields: &'a [Field],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<&'a str>,
    labelled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask_class: Option<&'a MaskClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask_colours: Option<&'a MaskColours>,
    max_pixels: u64,
    media_types: &'a [String],
    order: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a PayloadRecipe>,
    seed: u64,
    shard_bytes: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    sources: bool,
    split: String,
}

/// A writer that counts and hashes the bytes that it passes on.
struct Out<W> {
    inner: W,
    hasher: blake3::Hasher,
    position: u64,
}

impl<W: Write> Out<W> {
    fn line(&mut self, text: &str) -> std::io::Result<()> {
        for piece in [text.as_bytes(), b"\n"] {
            self.inner.write_all(piece)?;
            self.hasher.update(piece);
            self.position += piece.len() as u64;
        }
        Ok(())
    }
}

/// The parts of a plan besides options and samples.
pub(super) struct Content<'a> {
    pub(super) classes: &'a [String],
    pub(super) media_types: &'a [String],
    /// The patterns that say more of a sample than its key.
    pub(super) images: Vec<&'a str>,
    pub(super) recipe: PayloadRecipe,
    pub(super) labelled: bool,
    pub(super) from_table: FromTable,
    pub(super) files: Vec<FilesOf>,
    /// Inputs that were left out because a file is missing.
    pub(super) skipped: Vec<BadInput>,
}

pub(super) fn write(
    path: &Path,
    sorted: Sorted,
    options: &PlanOptions,
    content: Content<'_>,
    cancel: &AtomicBool,
) -> Result<Plan, PlanError> {
    let Content {
        classes,
        media_types,
        images,
        recipe,
        labelled,
        from_table: mut table,
        files,
        skipped,
    } = content;
    let fields = std::mem::take(&mut table.fields);
    let fixed: u64 = fields.iter().filter_map(Field::size_bytes).sum();
    let io = |e| PlanError::io("write", path, e);
    let dir = path.parent().unwrap_or(Path::new("."));
    let temp = gular_files::temp_in(dir)?;
    let inner = BufWriter::with_capacity(1 << 20, temp.as_file().try_clone().map_err(io)?);
    let mut out = Out { inner, hasher: blake3::Hasher::new(), position: 0 };
    // `on_error` is not among them: what is packed under `fail` is the same under
    // `skip`, so that a run that met a bad input can be resumed with the other.
    let header = Header {
        format: FORMAT,
        version: VERSION,
        about: &options.about,
        check: options.check.name(),
        classes,
        fields: &fields,
        images,
        labelled,
        mask_class: options.mask_class.as_ref(),
        mask_colours: options.mask_colours.as_ref(),
        max_pixels: options.max_pixels,
        media_types,
        order: options.order.name(),
        payload: Some(&recipe).filter(|recipe| **recipe != PayloadRecipe::Encoded),
        seed: options.seed,
        shard_bytes: options.shard_bytes,
        sources: options.source_digests,
        split: options.split_text(),
    };
    let header =
        serde_json::to_string(&header).map_err(|e| io(std::io::Error::other(e.to_string())))?;
    out.line(&header).map_err(io)?;

    let mut shards: Vec<PlanShard> = Vec::new();
    let mut class_counts = Split::ALL.map(|_| vec![0_u64; classes.len()]);
    let (mut n_samples, mut n_bytes, mut stored) = (0_u64, 0_u64, 0_u64);
    for (i, pair) in sorted.enumerate() {
        check_cancel(i, cancel)?;
        let (sort_key, value) = pair.map_err(io)?;
        let split = Split::ALL.get(usize::from(sort_key.first().copied().unwrap_or(0))).copied();
        let split = split.unwrap_or(Split::Train);
        let damaged = || io(damaged_record());
        let (bytes, rest) = value.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (of_files, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (label, key) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (bytes, label) = (u64::from_le_bytes(*bytes), i64::from_le_bytes(*label));
        let of_files = u64::from_le_bytes(*of_files);
        let rest = std::str::from_utf8(key).map_err(|_| damaged())?;
        // A key contains no control character.
        let values = rest.split_once('\t').map_or("", |(_, values)| values);
        let weight = recipe.value_bytes().unwrap_or(bytes).saturating_add(of_files);
        let full = shards.last().is_none_or(|s| {
            s.split != split || stored.saturating_add(weight) > options.shard_bytes
        });
        if full {
            out.line(&format!("shard\t{split}")).map_err(io)?;
            stored = 0;
            shards.push(PlanShard { split, samples: 0, bytes: 0, extra: 0, offset: out.position });
        }
        stored = stored.saturating_add(weight);
        if let Some(shard) = shards.last_mut() {
            shard.samples += 1;
            shard.bytes += bytes;
            shard.extra += values.len() as u64 + fixed + of_files;
        }
        let of_sample = match table.several {
            true => hot_classes(values),
            false => usize::try_from(label).into_iter().collect(),
        };
        for class in of_sample {
            if let Some(n) = class_counts[split as usize].get_mut(class) {
                *n += 1;
            }
        }
        n_samples += 1;
        n_bytes += bytes;
        let label = if labelled { label.to_string() } else { "-".to_owned() };
        out.line(&format!("{label}\t{bytes}\t{rest}")).map_err(io)?;
    }
    out.line(&format!("end\t{n_samples}\t{n_bytes}\t{}", shards.len())).map_err(io)?;
    let Out { mut inner, hasher, .. } = out;
    inner.flush().map_err(io)?;
    gular_files::persist(temp, path)?;
    let n_of_arrays = recipe.of_arrays().len();
    Ok(Plan {
        path: path.to_owned(),
        digest: Digest::from(hasher.finalize()),
        shards,
        samples: n_samples,
        bytes: n_bytes,
        classes: classes.to_vec(),
        class_counts,
        media_types: media_types.to_vec(),
        labelled,
        fields,
        table,
        recipe,
        n_of_arrays,
        files: Arc::new(files),
        skipped,
    })
}
