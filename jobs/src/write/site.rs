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

    /// What users of the site commonly have unless they asked for more. Sites change it.
    fn quotas(self) -> Quotas {
        match self {
            Self::Chtc => {
                Quotas { results: 40 * GB, data: 100 * GB, items: 1000, place: "/staging" }
            }
            Self::Ospool => Quotas {
                results: 50 * GB,
                data: 100 * GB,
                items: usize::MAX,
                place: "the access point's OSDF folder",
            },
            _ => Quotas { results: u64::MAX, data: u64::MAX, items: usize::MAX, place: "" },
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

/// As quotas count.
const GB: u64 = 1_000_000_000;

struct Quotas {
    /// Bytes of the folder that jobs are submitted from.
    results: u64,
    /// Bytes and items of the place for data that jobs fetch.
    data: u64,
    items: usize,
    place: &'static str,
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
            "save checkpoints (`--checkpoint DIR`) and ask for less time: the job resumes where it was",
        ));
    }
    if order.shared && order.site == Site::Ospool {
        return Err(refuse(
            "jobs of the OSPool share no folder",
            "take a site whose machines do: `--site chtc`, `jsc`, `slurm`, `generic`",
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

/// Of every quota.
const UNLESS: &str = "unless you asked for more, and sites change this";

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / GB as f64)
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
        let Quotas { data: most, items, place, .. } = order.site.quotas();
        if data.bytes > most {
            let (has, most) = (gigabytes(data.bytes), gigabytes(most));
            note(&format!("the data has {has}: {place} commonly holds {most} {UNLESS}"));
        }
        if data.files.len() > items {
            let n = data.files.len();
            note(&format!(
                "the data is {n} files: {place} commonly holds {items} {UNLESS}; larger shards are fewer files"
            ));
        }
    }
    let n_jobs = order.parameters.as_ref().map_or(1, |sweep| sweep.rows.len()) as u64;
    let results = n_jobs.saturating_mul(order.scratch_bytes);
    let most = order.site.quotas().results;
    if results > most {
        let (has, most) = (gigabytes(results), gigabytes(most));
        note(&format!(
            "the results of all {n_jobs} jobs may be {has} (`--disk`): the folder that they come back to commonly holds {most} {UNLESS}"
        ));
    }
    if order.shared {
        note("all machines must see the folders that the command names, by these paths");
    }
    if order.gpus > 0 && order.capability.is_none() {
        note(
            "no compute capability is asked for: the job may get a GPU that the image has no code for; `gular image export facts` says which it has, and `--facts` takes it from there",
        );
    }
    if order.site == Site::Jsc && order.account.is_none() {
        note("JSC needs an account: give `--account`");
    }
    notes
}
