//! What identifies a run, and what it still needs.

use std::collections::BTreeMap;
use std::ops::Range;

use gular_codec::tiff::Pages;

use super::Done;
use crate::plan::{Align, Plan, PlanOptions};

/// Identifies the plan and options: finished shards of an interrupted run can be used only if it
/// had the same.
pub(crate) fn run_id(plan: &Plan, options: &PlanOptions) -> String {
    format!("{} {}{}", plan.digest.hex(), options.envelope, accepts(options))
}

/// The settings that accept inputs which would be bad by default, as text. They are not in the plan,
/// so that the same command with one of them can go on in the folder of a run that met such inputs.
/// Shards of that run may have left them out, and are packed again.
pub(crate) fn accepts(options: &PlanOptions) -> String {
    let pages = match options.pages {
        Pages::AsSaid => "",
        Pages::Bands => " pages=bands",
        Pages::First => " pages=first",
    };
    let align = match options.align {
        // The plan says that masks are resampled.
        Align::Check | Align::Resample => "",
        Align::Ignore => " align=ignore",
    };
    format!("{pages}{align}")
}

/// Bytes that those of `shards` which are not in `done` will take, about.
pub(crate) fn still_needed(plan: &Plan, shards: Range<usize>, done: &BTreeMap<usize, Done>) -> u64 {
    let left = plan.shards.iter().enumerate();
    let left = left.filter(|(i, _)| shards.contains(i) && !done.contains_key(i));
    // A sample takes some 40 bytes in a shard beside its image and 93 in the
    // index; a shard two headers.
    left.map(|(_, s)| plan.stored(s.samples, s.bytes) + s.extra + s.samples * 150 + 16_384).sum()
}
