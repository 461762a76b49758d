//! What sites allow.

use super::{Fetch, Order, Refusal, refuse, wheels};
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

    /// The longest that a job may run, in hours.
    pub(super) fn max_hours(self, gpus: u64) -> f64 {
        match self {
            // Held after 40 in category `Long`: portal.osg-htc.org, "Indicating your Job Duration".
            Self::Ospool => 40.0,
            // GPU Lab, `long`: chtc.cs.wisc.edu, "Use GPUs".
            Self::Chtc if gpus > 0 => 168.0,
            // chtc.cs.wisc.edu, "Checkpointing Jobs".
            Self::Chtc => 72.0,
            // Not read on a page of JSC's: what its partitions were set to.
            Self::Jsc => 24.0,
            Self::Generic | Self::Slurm => 24.0 * 365.0,
        }
    }

    /// What users of the site have unless they asked for more, by the site's own pages; docs/jobs.md
    /// has their dates.
    fn quotas(self) -> Quotas {
        let none = u64::MAX;
        match self {
            Self::Chtc => Quotas {
                // "Check Disk Quota and Usage"; the others there and in "Manage large data".
                results: 40 * GB,
                data: 100 * GB,
                items: 1000,
                place: "/staging",
                source: "chtc.cs.wisc.edu",
            },
            Self::Ospool => Quotas {
                // "Overview: Data Staging and Transfer to Jobs".
                results: 50 * GB,
                data: 100 * GB,
                items: usize::MAX,
                place: "the access point's OSDF folder",
                source: "portal.osg-htc.org",
            },
            Self::Jsc => Quotas {
                // "What data quotas do exist": soft limits of $PROJECT.
                results: 16_000 * GB,
                data: 16_000 * GB,
                items: 3_000_000,
                place: "$PROJECT",
                source: "fz-juelich.de",
            },
            Self::Generic | Self::Slurm => {
                Quotas { results: none, data: none, items: usize::MAX, place: "", source: "" }
            }
        }
    }

    /// Files above this must not come from the access point: "Overview: Data Staging and Transfer
    /// to Jobs" of the OSPool, "Manage large data in /staging" of CHTC.
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
    /// Whose pages say so.
    source: &'static str,
}

pub(super) fn accept(order: &Order) -> Result<(), Refusal> {
    if !(0.0..).contains(&order.hours) || order.hours > order.site.max_hours(order.gpus) {
        let what = format!(
            "{} hours are more than the site allows, {}",
            order.hours,
            order.site.max_hours(order.gpus)
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
    let inputs = order.inputs.iter().map(|(name, bytes)| (name, *bytes));
    let data = order.data.iter().filter(|data| !data.is_on_staging());
    let data = data.filter_map(|data| data.local.as_ref());
    let data = data.map(|local| (&local.folder, local.largest_bytes));
    if let Some((name, bytes)) = inputs.chain(data).find(|(_, bytes)| *bytes > most) {
        let what = format!(
            "`{name}` has a file of {}: the access point must not send so much for each job",
            words(bytes)
        );
        return Err(refuse(what, "publish it with `gular publish`, and name it by `osdf:///`"));
    }
    Ok(())
}

/// Of every quota.
const UNLESS: &str = "unless you asked for more; sites change this";

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
    } else if !order.site.is_slurm() && !order.shared {
        note(
            "there is no image: the program runs with the Python and the libraries that each machine happens to have; `--image` brings its own",
        );
    }
    if let Some(data) = &order.data {
        let slurm = order.site.is_slurm();
        if data.local.is_some() && !slurm && !data.is_on_staging() {
            note(
                "the data is sent from this machine to each job: `gular publish` puts it where caches near the jobs keep it",
            );
        } else if data.fetch == Fetch::Runtime && !slurm {
            note(
                "the job fetches the data itself: the image needs the program `gular`, or add it with `--input`",
            );
        }
        let Quotas { data: most, items, place, source, .. } = order.site.quotas();
        if data.bytes > most {
            let (has, most) = (gigabytes(data.bytes), gigabytes(most));
            note(&format!("the data has {has}: {place} commonly holds {most} ({source}) {UNLESS}"));
        }
        if data.files.len() > items {
            let n = data.files.len();
            note(&format!(
                "the data is {n} files: {place} commonly holds {items} ({source}) {UNLESS}; larger shards are fewer files"
            ));
        }
    }
    let n_jobs = order.parameters.as_ref().map_or(1, |sweep| sweep.rows.len()) as u64;
    let results = n_jobs.saturating_mul(order.scratch_bytes);
    let Quotas { results: most, source, .. } = order.site.quotas();
    if results > most {
        let (has, most) = (gigabytes(results), gigabytes(most));
        note(&format!(
            "the results of all {n_jobs} jobs may be {has} (`--disk`): the folder that they come back to commonly holds {most} ({source}) {UNLESS}"
        ));
    }
    let wheel = order.inputs.iter().any(|(name, _)| wheels::is_wheel(name));
    if order.imports_gular && !wheel {
        note(
            "a program imports `gular`: the image needs it, or send the wheel, `--input gular-….whl`, which the job unpacks without a network",
        );
    }
    if order.shared {
        note("all machines must see the folders that the command names, by these paths");
    }
    if order.gpus > 0 && order.capability.is_none() && !order.site.is_slurm() {
        note(
            "no compute capability is asked for: the job may get a GPU that the image has no code for; `gular image export facts` says which it has, and `--facts` takes it from there",
        );
    }
    if order.gpus > 0 && order.cpus == 1 {
        note(
            "each process has one core, and a GPU waits for those that decode its images: `gular job measure` says how many a command uses, `--cpus` asks for them",
        );
    }
    if order.site == Site::Jsc && order.account.is_none() {
        note("JSC needs an account: give `--account`");
    }
    notes
}
