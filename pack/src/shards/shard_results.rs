//! The results of all shards, collected in the plan's order.

use std::collections::BTreeSet;
use std::path::Path;

use gular_bundle::{FieldKind, MadeValue, Manifest, ShardEntry, Statistics};

use crate::facts::{BadInput, BadInputs, OtherFiles, Sums};
use crate::layout::LayoutError;
use crate::shards::Done;

/// The results of all shards of a plan, or of a part.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) shards: Vec<ShardEntry>,
    pub(crate) sums: Sums,
    pub(crate) skipped: Vec<BadInput>,
    pub(crate) tolerated: BadInputs,
    pub(crate) misnamed: BadInputs,
    /// Media types of the stored pictures.
    pub(crate) media_types: BTreeSet<String>,
    /// Tiles that were left out because too few of their pixels are valid.
    pub(crate) empty_tiles: u64,
}

impl Gathered {
    /// Collects results in the plan's order; `skipped` were left out before there was a plan.
    pub(crate) fn new(skipped: Vec<BadInput>, done: impl IntoIterator<Item = Done>) -> Self {
        let mut gathered = Self { skipped, ..Self::default() };
        for mut done in done {
            gathered.shards.extend(done.entry);
            if let Some(of_shard) = &done.sums {
                gathered.sums.add(of_shard);
            }
            gathered.skipped.append(&mut done.skipped);
            gathered.tolerated.add(done.tolerated);
            gathered.misnamed.add(done.misnamed);
            gathered.media_types.append(&mut done.media_types);
            gathered.empty_tiles += done.empty_tiles;
        }
        gathered
    }

    /// Returns these results if there is a shard among them; `path` is what was packed.
    pub(crate) fn some(self, path: &Path) -> Result<Self, LayoutError> {
        if !self.shards.is_empty() {
            return Ok(self);
        }
        let n = self.skipped.len() as u64 + self.empty_tiles;
        let (what, path) = ("image", path.display().to_string());
        let ignored = format!("; all {n} inputs were left out");
        let (others, left_out) = (OtherFiles::Any, self.skipped);
        Err(LayoutError::NoImages { what, path, ignored, others, left_out })
    }

    /// `template` with these shards, their sums, and how many inputs were left out.
    pub(crate) fn manifest(&self, mut template: Manifest) -> Manifest {
        let skipped = MadeValue::Number(self.skipped.len() as u64);
        template.made.insert("skipped".to_owned(), skipped);
        // What the names said is in the template; the bytes decide.
        if let Some(FieldKind::Bytes { media_types }) =
            template.fields.first_mut().map(|field| &mut field.kind)
            && !self.media_types.is_empty()
        {
            *media_types = self.media_types.iter().cloned().collect();
        }
        let (shards, statistics) = (self.shards.clone(), self.sums.statistics());
        let mut manifest = Manifest { shards, statistics, ..template };
        if manifest.sums_nodata() {
            // No pixel is nodata, but readers cannot tell that.
            manifest.statistics = manifest.statistics.map(Statistics::by_channel);
        }
        manifest
    }
}
