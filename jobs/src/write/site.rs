//! What sites allow.

use super::{Fetch, Order, Refusal, refuse};
use crate::units::words;

/// Where a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// The OSPool.
    Ospool,
    /// CHTC in Madison.
    Chtc,
    /// Jülich: Slurm.
    Jsc,
    /// Any pool of HTCondor.
    Generic,
    /// Any machine with Slurm.
    Slurm,
}

impl Site {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("ospool", Self::Ospool),
        ("chtc", Self::Chtc),
        ("jsc", Self::Jsc),
        ("generic", Self::Generic),
        ("slurm", Self::Slurm),
    ];

    /// Whether Slurm starts the job.
    #[must_use]
    pub fn is_slurm(self) -> bool {
        matches!(self, Self::Jsc | Self::Slurm)
    }

    /// The longest that a job may run.
    pub(super) fn max_hours(self) -> f64 {
        match self {
            Self::Ospool => 40.0,
            Self::Chtc => 168.0,
            Self::Jsc => 24.0,
            Self::Generic | Self::Slurm => 24.0 * 365.0,
        }
    }

    /// Files above this must not come from the access point.
    fn max_input_bytes(self) -> u64 {
        match self {
            Self::Ospool | Self::Chtc => 1 << 30,
            _ => u64::MAX,
        }
    }
}

pub(super) fn accept(order: &Order) -> Result<(), Refusal> {
    if !(0.0..).contains(&order.hours) || order.hours > order.site.max_hours() {
        let what = format!(
            "{} hours are more than the site allows, {}",
            order.hours,
            order.site.max_hours()
        );
        return Err(refuse(
            what,
            "save checkpoints (`--checkpoint DIR`) and ask for less time: the job goes on where it was",
        ));
    }
    let most = order.site.max_input_bytes();
    if let Some((name, bytes)) = order.inputs.iter().find(|(_, bytes)| *bytes > most) {
        let what = format!(
            "`{name}` has {}: the access point must not send so much for each job",
            words(*bytes)
        );
        return Err(refuse(what, "publish it, and name it by `osdf:///`"));
    }
    Ok(())
}

/// What its users should know.
pub(super) fn notes(order: &Order) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    let limit =
        order.checkpoint.is_none() && matches!(order.site, Site::Ospool) && order.hours > 20.0;
    if limit {
        note(
            "jobs above 20 hours are put on hold after 40, and lose all when they are evicted: save checkpoints, `--checkpoint DIR`",
        );
    }
    if let Some(image) = &order.image {
        let local = !image.source.contains("://");
        if local && matches!(order.site, Site::Ospool | Site::Chtc) {
            note(
                "the image is sent from the access point for each job: publish it, and name it by `osdf:///`",
            );
        }
        if image.bytes.is_none() && !order.site.is_slurm() {
            note(
                "the image's size is not known: 10 GB of disk were taken for it; say it with `--image-size`",
            );
        }
        if order.site.is_slurm() && image.source.contains("://") {
            note("compute nodes may have no network: pull the image before, on a login node");
        }
    }
    if let Some(data) = &order.data {
        if order.site.is_slurm() {
            note("fetch the data before, on a login node; the README says how");
        } else if data.fetch == Fetch::Runtime {
            note(
                "the job fetches the data itself: the image needs the program `gular`, or add it with `--input`",
            );
        }
        if matches!(order.site, Site::Chtc) && data.bytes > 100 << 30 {
            note("the data is larger than the 100 GB that /staging holds by default");
        }
    }
    if order.gpus > 0 && order.capability.is_none() {
        note(
            "no compute capability is asked for: the job may get a GPU that the image has no code for; `gular image export facts` says which it has",
        );
    }
    if order.site == Site::Jsc && order.account.is_none() {
        note("JSC needs an account: give `--account`");
    }
    notes
}
